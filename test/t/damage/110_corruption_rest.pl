# More of the corruption zoo (105_corruption_zoo.pl): a header page that is older than
# what came after it, locators, the small files beside the data files, pages that are
# kept for logical decoding; and damage at random (test/zoo/zoo.py).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileRandom;
use SecurefileTest;
use Test::More;

my $node = new_cluster('rest', conf => [ 'securefile.monitor = off', 'wal_level = logical', 'max_replication_slots = 2', 'full_page_writes = off' ]);
my @verbose = (extra_params => [ '-v', 'VERBOSITY=verbose' ]);
my $damages = 0;

prepare_handles($node);

# Work on the stopped server's files.
sub stopped
{
	my ($work, $how) = @_;
	$node->stop($how || 'fast');
	$work->();
	$node->start;
	return;
}

sub no_crash
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return unlike(slurp_file($node->logfile), qr/PANIC|TRAP: |terminated by signal/, "$name: no crash");
}

# ---- a header page of an earlier time: pages and space were taken since ----
sub sparse
{
	my ($table, $id) = @_;
	return "DO \$\$ DECLARE fd int := securefile_create('$table', 'doc'); BEGIN
		PERFORM securefile_seek(fd, 500000, 0); PERFORM securefile_write(fd, blob($id, 20000));
		INSERT INTO $table VALUES ($id, -1, 520000, securefile_finish(fd)); END \$\$";
}
make_table($node, 's', 'nocache');
fill($node, 's', 1, 5, 20000);
$node->safe_psql('postgres', sparse('s', 101));
$node->safe_psql('postgres', 'CHECKPOINT');
my $relation = segment_of($node, 's');
my $old = substr(slurp($relation), 0, 8192);
fill($node, 's', 6, 8, 3_000_000);
$node->safe_psql('postgres', sparse('s', $_)) for 102 .. 104;
my $new;
stopped(sub { $new = substr(slurp($relation), 0, 8192); patch($relation, 0, $old); $damages++ });
is($node->safe_psql('postgres', 'SELECT count(*) FROM s WHERE id < 6 AND doc::bytea = blob(seed, len)'), 5, 'old header: values of its time are read');
fails_with($node, 'SELECT doc::bytea FROM s WHERE id = 8', 'XX001', 'lies beyond the end of its segment.*Segment offset \d+; the segment is expected to end at \d+',
	'old header: those that lie behind its end are said to');
my $hole = "DO \$\$ DECLARE fd int := securefile_create('s', 'doc'); BEGIN
	PERFORM securefile_truncate(fd, 500000); INSERT INTO s VALUES (105, -1, 500000, securefile_finish(fd)); END \$\$";
fails_with($node, $hole, 'XX001', 'page \d+ of segment relation .* is damaged.*The header takes it for unused', 'old header: pages in use are not taken');
fails_with($node, 'INSERT INTO s VALUES (106, 106, 3000000, blob(106, 3000000))', 'XX001', 'The header says that the segment ends at sector \d+, and there are sectors in use behind',
	'old header: space in use is not grown over');
my $found = $node->safe_psql('postgres', q{SELECT DISTINCT detail FROM securefile_check('s', 'doc')});
like($found, $_, "old header: securefile_check: $_") foreach (qr/takes page \d+ for the next/, qr/takes sector \d+ for the end/, qr/takes object \d+ for the next/);
stopped(sub { patch($relation, 0, $new) });
rows_right($node, 's WHERE seed > 0', 8, 'old header: undone');
is($node->safe_psql('postgres', 'SELECT count(*) FROM s WHERE seed < 0 AND substring(doc FROM 500001) = blob(id, 20000)'), 4, 'old header: undone');
is($node->safe_psql('postgres', q{SELECT * FROM securefile_check('s', 'doc')}), '', 'old header: undone, sound');

# ---- the count of used sectors on a map page is covered by its seal ----
my $count_at = 8192 + 24 + 16;
my $count;
stopped(sub { $count = substr(slurp($relation), $count_at, 1); patch($relation, $count_at, $count ^ "\4") });
is($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM securefile_check('s', 'doc') WHERE finding = 'unreadable' AND detail LIKE 'page 1 %is damaged%'}),
	't', 'count of a map page: found');
stopped(sub { patch($relation, $count_at, $count) });
is($node->safe_psql('postgres', q{SELECT * FROM securefile_check('s', 'doc')}), '', 'count of a map page: undone, sound');

# ---- two entries of one page free the same: once, and the map page counts right ----
make_table($node, 'd');
fill($node, 'd', 1, 3, 20000);
my $queue = segment_of($node, 'd');
$node->safe_psql('postgres', 'DELETE FROM d WHERE id < 3');
stopped(sub {
	my $all = slurp($queue);
	my ($page) = pages_of($all, PAGE_PENDING);
	my $entries = $page * PAGE + PENDING_ENTRIES;
	my $n = unpack('v', substr($all, $page * PAGE + CONTENT + 4, 2));
	my ($free) = grep { substr($all, $entries + $_ * 24 + 20, 1) eq "\2" } 0 .. $n - 1;
	change($queue, $page, CONTENT + 4, pack('v', $n + 1));
	change($queue, $page, PENDING_ENTRIES + $n * 24, substr($all, $entries + $free * 24, 24));
	$damages++ });
is($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM securefile_check('d', 'doc') WHERE finding = 'to be freed twice'}), 't', 'freed twice: found');
my (undef, undef, $said) = $node->psql('postgres', q{SELECT securefile_maintain('d', 'doc')});
like($said, qr/WARNING:  space to be freed is free already in segment/, 'freed twice: said');
sound($node, 'd', 'freed twice: the count of used sectors');
rows_right($node, 'd', 1, 'freed twice');

# ---- replay over a damaged page: it is not taken for sound afterwards ----
make_table($node, 'r');
fill($node, 'r', 1, 3, 20000);
$node->safe_psql('postgres', 'CHECKPOINT');
fill($node, 'r', 4, 5, 20000);
my $replayed = segment_of($node, 'r');
stopped(sub { patch($replayed, 8192 + 24 + 536 + 4000, "\1"); $damages++ }, 'immediate');
is($node->safe_psql('postgres', 'SELECT count(*) FROM r WHERE doc::bytea = blob(seed, len)'), 5, 'replay over a damaged page: values are read');
fails_with($node, 'INSERT INTO r VALUES (6, 6, 20000, blob(6, 20000))', 'XX001', 'page 1 of segment relation .* is damaged', 'replay over a damaged page: it stays damaged');
$node->safe_psql('postgres', 'DROP TABLE r');

# ---- locators ----
make_table($node, 'l', 'nocache');
fill($node, 'l', 1, 6, 20000);
$node->safe_psql('postgres', 'CHECKPOINT');
my $heap = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('l')});
my $mine = pack('L<s<', $node->safe_psql('postgres', q{SELECT 'l'::regclass::oid}), 4);

# Locators of 20000 bytes in the heap, by object number.
sub locators
{
	my $rows = slurp($heap);
	my @at;
	push @at, pos($rows) - 10 while $rows =~ /\x02\x01..\Q$mine\E/gs;
	@at = sort { unpack('Q<', substr($rows, $a + 16, 8)) <=> unpack('Q<', substr($rows, $b + 16, 8)) } @at;
	return map { [ $_, substr($rows, $_, 76) ] } @at;
}
my @then = locators();
is(scalar(@then), 6, 'locators');
$node->safe_psql('postgres', 'UPDATE l SET seed = 33, doc = blob(33, 20000) WHERE id = 3');
settle($node, 'l', 'doc');
$node->safe_psql('postgres', 'UPDATE l SET seed = 66, doc = blob(66, 20000) WHERE id = 6');
my @now;
stopped(
	sub {
		@now = locators();
		patch($heap, $now[0][0] + 1, "\0" x 60);
		patch($heap, $now[1][0] + 1, join('', map { chr(int(rand 256)) } 1 .. 75));
		patch($heap, $now[3][0], $now[4][1]);
		patch($heap, $now[4][0], $now[3][1]);
		patch($heap, (grep { $_->[1] ne $then[2][1] } @now[6 .. 7])[0][0], $then[2][1]);
		$damages += 4;
	});
is($node->safe_psql('postgres', 'SELECT id, outcome(doc, seed, len) FROM l WHERE id < 3 ORDER BY id'), "1|XX001\n2|XX001", 'a locator of zeros, of garbage');
like($node->safe_psql('postgres', 'SELECT outcome(doc, 3, len) FROM l WHERE id = 3'), qr/^(right|XX001|42704)$/, 'a locator of an earlier version: that, whole, or an error');
is($node->safe_psql('postgres', 'SELECT id FROM l WHERE id IN (4, 5) AND doc::bytea = blob(9 - id, 20000) ORDER BY id'), "4\n5",
	'locators of a column that change places are values that change places, whole');
is($node->safe_psql('postgres', 'SELECT outcome(doc, seed, len) FROM l WHERE id = 6'), 'right', 'another row is read');
cmp_ok($node->safe_psql('postgres', q{SELECT count(DISTINCT ctid) FROM securefile_check('l', 'doc')}), '>=', 3, 'securefile_check names the rows');
my ($rc, $out, $err) = $node->psql('postgres', 'DELETE FROM l WHERE id < 4; SELECT count(*) FROM l');
is($out, 3, 'rows with damaged locators can be deleted') or diag($err);
settle($node, 'l', 'doc');
is($node->safe_psql('postgres', 'SELECT outcome(doc, seed, len) FROM l WHERE id = 6'), 'right', 'and free nothing of others');

# a value with a map of its own, of which nothing but the seal tells its length
make_table($node, 'longer');
$node->safe_psql('postgres', q{INSERT INTO longer SELECT 1, 1, 400000, securefile_truncate(blob(1, 300000)::securefile, 400000000) || 'end'::bytea::securefile});
$node->safe_psql('postgres', 'CHECKPOINT');
my $longer = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('longer')});
my $length_at = index(slurp($longer), pack('Q<', 400000003));
cmp_ok($length_at, '>', 0, 'the length of a locator');
foreach my $length (400000002, 400000003 + 2**31, 400000003 + 2**41)
{
	stopped(sub { patch($longer, $length_at, pack('Q<', $length)); $damages++ });
	fails_with($node, $_, 'XX001', 'invalid securefile locator', "a length of $length: $_")
	  foreach ('SELECT doc::bytea FROM longer', 'SELECT doc::text FROM longer', 'SELECT substring(doc, 1, 10) FROM longer', 'SELECT length(doc) FROM longer');
	isnt($node->safe_psql('postgres', q{SELECT count(*) FROM securefile_check('longer', 'doc') WHERE finding = 'unreadable'}), 0,
		"a length of $length: securefile_check");
}
no_crash('locators');

# ---- numbers beside the data files ----
my $own = $node->data_dir . '/pg_securefile/database.' . $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'postgres'});
my $restored = $node->data_dir . '/pg_securefile/restored';
my $number = slurp($own);
my %broken = (
	'one bit' => chr(ord($number) ^ 0x40) . substr($number, 1), 'another digit' => chr(ord($number) ^ 1) . substr($number, 1), zeros => "\0" x 4096,
	garbage => join('', map { chr(128 + int(rand 128)) } 1 .. 4096), 'cut short' => '', 'half of it' => substr($number, 0, 5), missing => undef);

sub put
{
	my ($file, $bytes) = @_;
	unlink $file;
	return unless defined $bytes;
	write_file($file, $bytes);
	return;
}
foreach my $kind (sort keys %broken)
{
	put($own, $broken{$kind});
	$damages++;
	my $sqlstate = $kind =~ /digit|missing/ ? 55000 : 'XX001';
	fails_with($node, 'CREATE TABLE n (doc securefile)', $sqlstate, $sqlstate eq 'XX001' ? 'does not hold a number' : 'come from another cluster', "database.<oid>, $kind: no new segment");
	is($node->safe_psql('postgres', "DELETE FROM s WHERE id = 1; INSERT INTO s VALUES (1, 1, 20000, blob(1, 20000)); SELECT count(*) FROM s WHERE seed > 0 AND doc::bytea = blob(seed, len)"),
		8, "database.<oid>, $kind: values are read and written");
	($rc, $out, $err) = $node->psql('postgres', q{SELECT (securefile_maintain('s', 'doc')).orphans_removed});
	is($out, 0, "database.<oid>, $kind: the sweeper removes nothing") or diag($err);
	put($own, $number);
}
$node->safe_psql('postgres', 'CREATE TABLE n (doc securefile); DROP TABLE n');
foreach my $kind (grep { !/digit/ } sort keys %broken)
{
	$node->stop;
	put($restored, $broken{$kind});
	$damages++;
	my $since = -s $node->logfile;
	my $ok = $node->start(fail_ok => 1);
	is($ok, $kind eq 'missing' ? 1 : 0, "restored, $kind: " . ($kind eq 'missing' ? 'the server starts' : 'the server does not start'));
	like(slurp_file($node->logfile, $since), qr/FATAL: .*file "pg_securefile\/restored" does not hold a number/, "restored, $kind: and says why") unless $ok;
	put($restored, undef);
	$node->start unless $ok;
}
rows_right($node, 's WHERE seed > 0', 8, 'numbers put back');

# ---- pages kept for logical decoding ----
make_table($node, 'k');
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')});
$node->safe_psql('postgres', 'INSERT INTO k VALUES (1, 1, 50000, blob(1, 50000))');
$node->safe_psql('postgres', sparse('k', 2));
$node->safe_psql('postgres', 'TRUNCATE k');
my ($kept) = glob $node->data_dir . '/pg_securefile/*/*/*/kept';
my $pages = slurp($kept);
my $peek = q{SELECT count(*) FILTER (WHERE data LIKE '%' || encode(blob(1, 50000), 'hex') || '%'),
	count(*) FILTER (WHERE data LIKE '%' || encode(blob(2, 20000), 'hex') || '%') FROM pg_logical_slot_peek_changes('slot', NULL, NULL)};
is($node->safe_psql('postgres', $peek), '1|1', 'kept pages: both values are decoded');
foreach my $case (
	[ 'a bit of the magic number', 2, "\x01" ], [ 'a bit of the header', 8192 + 24 + 4, chr(ord(substr($pages, 8192 + 24 + 4, 1)) ^ 8) ],
	[ 'zeros', 8192, "\0" x 4096 ], [ 'all zeros', 0, "\0" x length($pages) ], [ 'ones in the unit map', 8192 * 4 + 100, "\xff" x 7000 ],
	[ 'swapped', 8192, substr($pages, 8192 * 2, 8192) ], [ 'cut short', undef, 8192 + 100 ], [ 'missing' ])
{
	my ($kind, $at, $bytes) = @$case;
	$damages++;
	patch($kept, $at, $bytes) if defined $at;
	truncate($kept, $bytes) if !defined $at && defined $bytes;
	unlink $kept unless defined $bytes;
	($rc, $out, $err) = $node->psql('postgres', $peek, @verbose);
	like($err, qr/ERROR:  (XX001|58P01|42704)/, "kept pages, $kind: an error") or diag($out);
	note($err =~ /ERROR:  ([^\n]*)/);
	put($kept, $pages);
}
is($node->safe_psql('postgres', $peek), '1|1', 'kept pages, put back');
# a drop goes on over damage, and what it keeps of that says so
my $dropped = segment_of($node, 's');
stopped(sub { patch($dropped, 8192 * 3, "\xff" x 8192); $damages++ });
$node->safe_psql('postgres', 'DROP TABLE s, l, k');
$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('slot')});
no_crash('kept pages');
$node->stop;
note("figures: $damages damages");

# ---- at random ----
random_run('damage at random', 'zoo/zoo.py', '--rounds', $ENV{SECUREFILE_ZOO_ROUNDS} || 3);
done_testing();
