# Promise 4: no byte is ever returned unchecked.  Damage is reported, by the read and by
# securefile_check, and other values can still be read.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('corruption', conf => ['securefile.monitor = off', 'full_page_writes = off']);
my $len = 300_000;

sub findings
{
	my ($t) = @_;
	return $node->safe_psql('postgres', "SELECT finding, segment_offset FROM securefile_check('$t', 'doc')");
}

foreach my $options ('nocache', 'cache', 'filesystem_like_logging, cache_reads')
{
	my ($t) = $options =~ /^(\w+)/;
	$t = "t_$t";
	my @before = data_files($node);
	make_table($node, $t, $options);
	fill($node, $t, 1, 6, $len);
	my ($file) = grep { my $f = $_; !grep { $_ eq $f } @before } data_files($node);
	my @bad = ('XX001', '');

	# one bit
	my $at = block_at($file, 3, 40);
	cmp_ok($at, '>', 0, "$options: found the bytes of row 3");
	my $good = substr(slurp($file), $at, 512);
	patch($file, $at + 100, chr(ord(substr($good, 100, 1)) ^ 4));
	fails_with($node, "SELECT doc::bytea FROM $t WHERE id = 3", @bad, "$options: one bit");
	fails_with($node, "SELECT substring(doc FROM 140000 FOR 10) FROM $t WHERE id = 3", @bad, "$options: one bit of the unit");
	is($node->safe_psql('postgres', "SELECT substring(doc FROM 1 FOR 10) = substring(blob(3, $len) FROM 1 FOR 10) FROM $t WHERE id = 3"),
		't', "$options: other units are read");
	is($node->safe_psql('postgres', "SELECT count(*) FROM $t WHERE id <> 3 AND doc::bytea = blob(seed, len)"), 5, "$options: other rows are read");
	my $found = findings($t);
	like($found, qr/^[^\n]+$/, "$options: one finding") or diag($found);
	fails_with($node, "CREATE TABLE c AS SELECT * FROM $t", @bad, "$options: not copied either");
	fails_with($node, "INSERT INTO $t SELECT 100 + id, seed, len, doc FROM $t", @bad, "$options: nor inserted again");
	patch($file, $at, $good);
	rows_right($node, $t, 6, "$options: mended");
	sound($node, $t, "$options: mended");

	# two objects change places; zeros; an old version comes back
	my ($one, $two) = (block_at($file, 1, 1), block_at($file, 2, 1));
	my $all = slurp($file);
	patch($file, $one, substr($all, $two, $len - $len % 512));
	patch($file, $two, substr($all, $one, $len - $len % 512));
	fails_with($node, "SELECT doc::bytea FROM $t WHERE id = 1", @bad, "$options: another object's data");
	fails_with($node, "SELECT doc::bytea FROM $t WHERE id = 2", @bad, "$options: another object's data");
	patch($file, $one, substr($all, $one, $len - $len % 512));
	patch($file, $two, "\0" x 4096);
	fails_with($node, "SELECT doc::bytea FROM $t WHERE id = 2", @bad, "$options: zeros");
	patch($file, $two, substr($all, $two, $len - $len % 512));
	rows_right($node, $t, 6, "$options: mended again");
}

# ---- metadata: bits and rows that contradict each other ----
make_table($node, 'm');
fill($node, 'm', 1, 6, $len);
fill($node, 'm', 7, 8, 14_000_000);
$node->safe_psql('postgres', 'DELETE FROM m WHERE id = 4');
settle($node, 'm', 'doc');
$node->safe_psql('postgres', 'VACUUM m');
$node->safe_psql('postgres', 'CHECKPOINT');
my $base = $node->data_dir . '/';
my $relation = $base . $node->safe_psql('postgres',
	q{SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = 'pg_securefile_' || 'm'::regclass::oid || '_4'});
my $heap = $base . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('m')});
my $plane = 8192 + 24 + 536;

# Change a file of the stopped server, ask securefile_check, undo.  A page of the
# segment relation loses its seal, so that what it says is believed.
sub damaged
{
	my ($file, $offset, $bytes, $like, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->stop;
	my $page = $offset - $offset % 8192;
	my $was = substr(slurp($file), $page, 8192);
	patch($file, $offset, $bytes);
	unseal($file, $page) if $file eq $relation;
	$node->start;
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT finding, detail FROM securefile_check('m', 'doc')");
	like("$out$err", $like, $name);
	($rc, $out, $err) = $node->psql('postgres', 'SELECT sum(length(doc::bytea)) FROM m');
	is($node->safe_psql('postgres', 'SELECT 1'), 1, "$name: the server lives");
	$node->stop('immediate');
	patch($file, $page, $was);
	$node->start;
	return;
}
my $map = substr(slurp($relation), $plane, 4096);
my $free = index($map, "\0");
my $used = index($map, "\xff");
damaged($relation, $plane + $free, "\1", qr/used|own/i, 'a sector marked used that nobody owns');
damaged($relation, $plane + $used, "\xfe", qr/free|own/i, 'a sector owned but marked free');
my $line = substr(slurp($heap), 24, 4);
damaged($heap, 28, $line, qr/twice|own/i, 'a sector owned twice');
$node->safe_psql('postgres', "SELECT securefile_maintain('m', 'doc')");
rows_right($node, 'm', 7, 'all undone');
sound($node, 'm', 'all undone');

# inode pages: another object's, an older one's, none
my $pages = slurp($relation);
my @inodes = grep { unpack('V', substr($pages, $_ * 8192 + 8176, 4)) == 0x53464c31
	  && unpack('v', substr($pages, $_ * 8192 + 8180, 2)) == 4 } 0 .. length($pages) / 8192 - 1;
cmp_ok(scalar(@inodes), '>=', 2, 'inode pages');
foreach my $case (
	[ 'another object', 24, pack('Q<', 999_999) ],
	[ 'another stamp', 32, pack('Q<', 999_999) ],
	[ 'a page of another kind', 8180, pack('v', 3) ])
{
	my ($name, $offset, $bytes) = @$case;
	$node->stop;
	foreach my $page (@inodes)
	{
		patch($relation, $page * 8192 + $offset, $bytes);
		unseal($relation, $page * 8192);
	}
	$node->start;
	fails_with($node, 'SELECT doc::bytea FROM m WHERE id IN (7, 8)', '(XX001|42704)', '', "inode page: $name");
	isnt(findings('m'), '', "inode page: $name: finding");
	$node->stop('immediate');
	foreach my $page (@inodes)
	{
		patch($relation, $page * 8192, substr($pages, $page * 8192, 8192));
	}
	$node->start;
}
rows_right($node, 'm', 7, 'inode pages put back');
sound($node, 'm', 'inode pages put back');

# ---- locators: changed, or another's ----
my $nrows = 76;
make_table($node, 'l');
fill($node, 'l', 1, $nrows + 1, 20000);
fill($node, 'l', 101, 105, 14_000_000);
$heap = $base . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('l')});
my $mine = pack('L<s<', $node->safe_psql('postgres', q{SELECT 'l'::regclass::oid}), 4);
$node->stop;
my $rows = slurp($heap);
my @at;
push @at, pos($rows) - 10 while $rows =~ /\x02\x01..\Q$mine\E/gs;
@at = sort { unpack('Q<', substr($rows, $a + 16, 8)) <=> unpack('Q<', substr($rows, $b + 16, 8)) } @at;
is(scalar(@at), $nrows + 6, 'locators');

# one bit of every byte of a flat one; the length, the map of another, the depth, the hash of a tree
foreach my $i (0 .. $nrows - 1)
{
	patch($heap, $at[$i] + $i, chr(ord(substr($rows, $at[$i] + $i, 1)) ^ 1));
}
my ($first, $second, $third, $fourth) = @at[ $nrows + 1 .. $nrows + 4 ];
my $last = $at[ $nrows + 5 ];
patch($heap, $first + 24, pack('Q<', 13_000_000));
patch($heap, $second + 16, substr($rows, $last + 16, 8));
patch($heap, $second + 48, substr($rows, $last + 48, 16));
patch($heap, $third + 44, "\2");
patch($heap, $fourth + 64, substr($rows, $last + 64, 8));
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION head(doc securefile) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		RETURN left(encode(substring(doc FROM 1 FOR 16), 'hex'), 16);
	EXCEPTION WHEN others THEN
		RETURN sqlstate;
	END $$});
is( $node->safe_psql('postgres', q{SELECT string_agg(id::text, ',' ORDER BY id) FROM l WHERE head(doc) NOT IN ('XX001', '42704')}),
	($nrows + 1) . ',105', 'nothing is read through a changed locator');
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION length_of(doc securefile) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		RETURN length(doc);
	EXCEPTION WHEN data_corrupted OR undefined_object THEN
		RETURN sqlstate;
	END $$});
is( $node->safe_psql('postgres', q{SELECT string_agg(id::text, ',' ORDER BY id) FROM l WHERE length_of(doc) NOT IN ('XX001', '42704')}),
	($nrows + 1) . ',105', 'no changed locator says a length');
is( $node->safe_psql('postgres', "SELECT count(DISTINCT ctid) FROM securefile_check('l', 'doc') WHERE ctid IS NOT NULL"),
	$nrows + 4, 'securefile_check names them all');
my ($rc, $out, $err) = $node->psql('postgres', "DELETE FROM l WHERE id NOT IN ($nrows + 1, 105); SELECT count(*) FROM l");
is($out, 2, 'damaged rows can be deleted') or diag($err);
is(scalar(() = $err =~ /WARNING:  space of a damaged value of column "doc" of table "l" is not given back/g),
	$nrows + 4 - 14, 'with a warning, but where the locator speaks of another column or an older segment');
settle($node, 'l', 'doc');
fill($node, 'l', 201, 220, 20000);
is($node->safe_psql('postgres', 'SELECT count(*) FROM l WHERE doc::bytea = blob(seed, len)'), 22, 'and their space is not used again');
$node->safe_psql('postgres', 'DELETE FROM l WHERE id > 200');

# the same for a tree with a damaged page
$pages = slurp($base . $node->safe_psql('postgres',
	q{SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = 'pg_securefile_' || 'm'::regclass::oid || '_4'}));
$node->stop;
patch($relation, $_ * 8192 + 24, pack('Q<', 999_999)) foreach @inodes;
unseal($relation, $_ * 8192) foreach @inodes;
$node->start;
($rc, $out, $err) = $node->psql('postgres', 'DELETE FROM m WHERE id IN (7, 8); SELECT count(*) FROM m WHERE doc::bytea = blob(seed, len)');
is($out, 5, 'rows with damaged inode pages can be deleted') or diag($err);
like($err, qr/WARNING:  space of a damaged value/, 'with a warning');
# ---- what nobody owns is found before any pending entry has been resolved ----
make_table($node, 'p');
my $put = 'INSERT INTO p SELECT i, i, %d, blob(i, %1$d) FROM generate_series(%d, %d) i';
my $snapshot = background($node);
$node->safe_psql('postgres', sprintf($put, $len, 1, 6) . ';' . sprintf($put, 14_000_000, 11, 14));
$snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM p');
foreach my $sql (
	'DELETE FROM p WHERE id IN (1, 11)',
	'UPDATE p SET seed = 20 + seed, doc = blob(20 + seed, len) WHERE id IN (2, 12)',
	'UPDATE p SET len = len + 100000, doc = doc || blob(1, 100000) WHERE id IN (3, 13)',
	'BEGIN; ' . sprintf($put, 14_000_000, 31, 31) . '; UPDATE p SET doc = overlay(doc PLACING blob(2, 9) FROM 7000000) WHERE id = 31; DELETE FROM p WHERE id = 31; COMMIT',
	'BEGIN; SAVEPOINT a; ' . sprintf($put, 14_000_000, 32, 32) . '; ROLLBACK TO a; ' . sprintf($put, $len, 33, 33) . '; COMMIT',
	'BEGIN; SAVEPOINT a; DELETE FROM p WHERE id IN (4, 14); ROLLBACK TO a; COMMIT',
	'BEGIN; DELETE FROM p WHERE id IN (4, 14); ' . sprintf($put, 14_000_000, 34, 34) . "; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'",
	'BEGIN; ' . sprintf($put, 14_000_000, 35, 35) . '; ROLLBACK')
{
	$node->safe_psql('postgres', $sql);
	is(findings('p'), '', "nothing resolved yet, nothing found: $sql");
}
is(findings('p'), '', 'nothing resolved yet, nothing found');
$snapshot->quit;
is($node->safe_psql('postgres', "BEGIN; DELETE FROM p WHERE id = 34; SELECT securefile_check('p', 'doc'); ROLLBACK"), '', 'nor in a transaction of its own');

# rows that are gone without a trace
make_table($node, 'g');
fill($node, 'g', 1, 1, $len);
fill($node, 'g', 2, 2, 14_000_000);
$heap = $base . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('g')});
$node->stop;
patch($heap, 0, "\0" x -s $heap);
$node->start;
is( $node->safe_psql('postgres', q{SELECT finding, sum(length_bytes), count(*) FILTER (WHERE detail LIKE 'inode page%') FROM securefile_check('g', 'doc') GROUP BY finding}),
	'used but not owned|' . ((($len + 511 - ($len + 511) % 512) + (14_000_000 + 511 - (14_000_000 + 511) % 512))) . '|1',
	'the space of rows that are gone is found at once');
$node->safe_psql('postgres', "SELECT securefile_repair('g', 'doc', false)");
sound($node, 'g', 'and set free');

# a damaged page of the table keeps nobody from dropping the column, whose values are counted before
make_table($node, 'h');
fill($node, 'h', 1, 2, $len);
$heap = $base . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('h')});
$node->stop;
patch($heap, 0, "\x7f" x -s $heap);
$node->start;
(undef, undef, $err) = $node->psql('postgres', 'ALTER TABLE h DROP doc', on_error_die => 1);
like($err, qr/WARNING:  column "doc" of table "h" was dropped with an unknown number of values/, 'DROP COLUMN of a damaged table');
$node->stop;
done_testing();
