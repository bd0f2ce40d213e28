# How far searches and comparisons go: they read nothing behind what they have found, so that
# damage there is no error, and damage before it is; they end when they are cancelled. And where
# they may be called: by roles that may read the column, on a standby, in parallel plans.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

use constant UNIT => 131072;

my $node = new_cluster('searching', conf => [ 'securefile.monitor = off' ]);

# Bytes read from the data files of a table so far; a session counts when its transaction ends.
sub bytes_read
{
	my ($table) = @_;
	return $node->safe_psql('postgres', "SELECT coalesce(sum(direct_read_bytes), 0) FROM securefile_stat WHERE relname = '$table'");
}

# One test: what a statement gives, and that it reads at least and at most so many bytes of a table.
sub reads
{
	my ($name, $table, $sql, $want, $least, $most) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $before = bytes_read($table);
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	my $got = $rc ? $err : $out;
	sessions_are_gone($node, 'postgres');
	my $read = bytes_read($table) - $before;
	return is("$got " . ($read >= $least && $read <= $most ? 'in bounds' : "read $read, not $least to $most"), "$want in bounds", $name);
}

# ---- damage ----

# Row 2 has 3,000,000 bytes, blocks of 4096 bytes that differ.  A byte of its unit 15 is wrong.
make_table($node, 'x', 'nocache');
fill($node, 'x', 1, 2, 3_000_000);
$node->safe_psql('postgres', 'CHECKPOINT');
my $number = $node->safe_psql('postgres', "SELECT relfilenode FROM pg_class WHERE relname = 'pg_securefile_' || 'x'::regclass::oid || '_4'");
my ($file) = grep { m{/$number/seg-00000000} } data_files($node);
my $broken = 15 * 32 + 3;
my $at = block_at($file, 2, $broken);
cmp_ok($at, '>', 0, 'found the bytes of row 2');
my $byte = substr(slurp($file), $at, 1);
patch($file, $at, chr(ord($byte) ^ 1));

# what the block of that number has 128 times, and the first position of it
sub block { my ($n) = @_; return "convert_to(md5('2:$n'), 'UTF8')"; }
sub position_of { my ($n) = @_; return ($n - 1) * 4096 + 1; }

# One test: a query over row 2 gives that, or fails as a read of what is damaged does.
sub gives
{
	my ($name, $sql, $want) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return fails_with($node, "$sql FROM x WHERE id = 2", 'XX001', qr/checksum|damaged/, $name) unless defined $want;
	my ($rc, $out, $err) = $node->psql('postgres', "$sql FROM x WHERE id = 2");
	return is($rc ? $err : $out, $want, $name);
}

my %where = ('far before' => 100, 'in the unit before' => 14 * 32 + 31, 'far behind' => 700, 'in the unit behind' => 16 * 32 + 1);
foreach my $where (sort keys %where)
{
	my $n = $where{$where};
	my $before = $n < $broken;
	my $found = position_of($n);
	gives("position, $where the damage", 'SELECT position(' . block($n) . ' IN doc)', $before ? $found : undef);
	gives("securefile_position, $where", 'SELECT securefile_position(doc, ' . block($n) . ')', $before ? $found : undef);
	gives("backwards, $where", 'SELECT securefile_position(doc, ' . block($n) . ', -1)', $before ? undef : $found + 4064);
	gives("from behind it, $where", 'SELECT securefile_position(doc, ' . block($n) . ', ' . (16 * UNIT + 1) . ')', $before ? undef : $found)
	  unless $before;
	gives("compared up to there, $where", "SELECT securefile_compare(doc, blob(2, 3000000)::securefile, $found)", $before ? 0 : undef);
	gives("found different, $where", "SELECT securefile_compare(doc, overlay(blob(2, 3000000) PLACING '\\x00' FROM $found)::securefile)", $before ? 1 : undef);
	gives("a part, $where", "SELECT securefile_part(doc, $found, 4096)::bytea = substring(blob(2, 3000000) FROM $found FOR 4096)", 't');
}
gives('all positions', 'SELECT (SELECT count(*) FROM securefile_positions(doc, ' . block(100) . '))', undef);
gives('a pattern that is not there', "SELECT position('no such thing' IN doc)", undef);
gives('lines', 'SELECT (SELECT count(*) FROM securefile_lines(doc))', undef);
gives('erased, not read', 'SELECT length(securefile_erase(doc, 1, 3000000))', 3000000);
gives('and read: the damage is not in it', "SELECT securefile_erase(doc, 15 * 131072 + 1, 131072)::bytea = overlay(blob(2, 3000000) PLACING decode(repeat('00', 131072), 'hex') FROM 15 * 131072 + 1)", 't');
gives('deleted', "SELECT securefile_delete(doc, 15 * 131072 + 1, 131072)::bytea = overlay(blob(2, 3000000) PLACING '' FROM 15 * 131072 + 1 FOR 131072)", 't');
gives('moved', 'SELECT securefile_move(doc, 1, 10, 3000000)::bytea IS NULL', undef);

# Through a handle; the transaction goes on behind what is no error.
sub searched
{
	my ($name, $n, $want) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return gives($name, 'SELECT securefile_search(securefile_open(doc, \'r\'), ' . block($n) . ')', $want);
}
searched('by a handle, before the damage', 100, position_of(100) - 1);
searched('by a handle, behind the damage', 700, undef);

# fifty errors leave nothing open
is($node->safe_psql('postgres',
		'DO $$ BEGIN FOR i IN 1 .. 50 LOOP BEGIN PERFORM position(\'none\' IN doc) FROM x WHERE id = 2;'
		  . ' EXCEPTION WHEN data_corrupted THEN END; END LOOP; END $$; SELECT position(' . block(700) =~ s/2:/1:/r . ' IN doc) FROM x WHERE id = 1'),
	position_of(700), 'the value beside it can be searched');
patch($file, $at, $byte);
gives('mended', 'SELECT position(' . block(700) . ' IN doc)', position_of(700));

# ---- what is read ----

make_table($node, 'y', 'nocache');
fill($node, 'y', 1, 2, 16_000_000);
my ($first, $middle, $last) = map { "convert_to(md5('1:$_'), 'UTF8')" } 2, 1000, 3900;
my $doc = 'FROM y WHERE id = 1';
my $ahead = mb(4) + 2 * UNIT;
reads('found in the first unit', 'y', "SELECT position($first IN doc) $doc", position_of(2), 1, UNIT);
reads('found in the middle', 'y', "SELECT position($middle IN doc) $doc", position_of(1000), position_of(1000), position_of(1000) + $ahead);
reads('found from the back', 'y', "SELECT securefile_position(doc, $last, -1) $doc", position_of(3900) + 4064, 1, 16_000_000 - position_of(3900) + $ahead);
reads('from a start on', 'y', "SELECT securefile_position(doc, $last, 15800000) $doc", position_of(3900), 1, $ahead);
reads('behind the end', 'y', "SELECT securefile_position(doc, $last, 16000001) $doc", 0, 0, 0);
reads('longer than the value', 'y', "SELECT securefile_position(doc, blob(1, 16000001)) $doc", 0, 0, 0);
reads('all of it', 'y', "SELECT position('none'::bytea IN doc) $doc", 0, 16_000_000, 16_000_000 + mb(1));
reads('different in the first unit', 'y', 'SELECT securefile_compare(a.doc, b.doc) <> 0 FROM y a, y b WHERE a.id = 1 AND b.id = 2', 't', 1, 2 * UNIT);
reads('the same value', 'y', "SELECT securefile_compare(doc, doc) $doc", 0, 0, 0);
reads('no bytes', 'y', 'SELECT securefile_compare(a.doc, b.doc, 0) FROM y a, y b WHERE a.id = 1 AND b.id = 2', 0, 0, 0);
reads('a part', 'y', "SELECT securefile_part(doc, 15000000, 10)::bytea = substring(blob(1, 16000000) FROM 15000000 FOR 10) $doc", 't', 1, 2 * UNIT);
reads('what is made', 'y', "SELECT length(securefile_insert(securefile_delete(securefile_move(securefile_erase(doc, 1, 9), 1, 9, 99), 5, 5), 7, 'x')) $doc", 15_999_996, 0, 0);
reads('by a handle', 'y', "SELECT securefile_search(securefile_open(doc, 'r'), $first) $doc", position_of(2) - 1, 1, UNIT);

# ---- cancel ----

# 16 GB, of one stored value of 4 MB: no machine reads that within the timeout
make_table($node, 'z', 'nocache');
fill($node, 'z', 1, 2, 4_000_000);
$node->safe_psql('postgres', 'UPDATE z SET doc = blob(1, 4000000) WHERE id = 2');
my $long = 'FROM (SELECT securefile_agg(a.doc) AS doc, securefile_agg(b.doc) AS same FROM z a, z b, generate_series(1, 4096) WHERE a.id = 1 AND b.id = 2 OFFSET 0) s';
my $dir = PostgreSQL::Test::Utils::tempdir();
foreach my $call ("position('none'::bytea IN doc)", "securefile_position(doc, 'none', -1)", "securefile_position(doc, convert_to(md5('1:5'), 'UTF8'), 1, 1000000)",
	"(SELECT count(*) FROM securefile_positions(doc, 'none'))", 'securefile_compare(doc, same)', '(SELECT count(*) FROM securefile_lines(doc))',
	"securefile_search(securefile_open(doc, 'r'), 'none')", "securefile_save(doc, '$dir/saved')")
{
	my $before = bytes_read('z');
	fails_with($node, "SET statement_timeout = 100; SELECT $call $long", '57014', qr/statement timeout/, "$call: a timeout is honoured");
	sessions_are_gone($node, 'postgres');
	cmp_ok(bytes_read('z') - $before, '<', 8e9, 'long before its end');
}
is(join(' ', glob("$dir/* $dir/.[!.]*")), '', 'no file is left');

# ---- rights ----

$node->safe_psql('postgres', q{CREATE ROLE reader LOGIN; GRANT SELECT (id) ON y TO reader});
foreach my $call ("position('x'::bytea IN doc)", "securefile_position(doc, 'x')", "securefile_positions(doc, 'x')", 'securefile_compare(doc, doc)', 'securefile_part(doc, 1)::bytea',
	'securefile_overlay(doc, doc, 1)', 'securefile_erase(doc, 1, 1)', "securefile_insert(doc, 1, 'x')", 'securefile_delete(doc, 1, 1)', 'securefile_move(doc, 1, 1, 3)', 'securefile_lines(doc)', 'securefile_agg(doc)')
{
	fails_with($node, "SELECT $call FROM y", '42501', qr/permission denied for table y/, "$call: not without SELECT on the column", user => 'reader');
}
$node->safe_psql('postgres', q{GRANT SELECT (doc) ON y TO reader});
is($node->safe_psql('postgres', "SELECT position($first IN doc) $doc", extra_params => [ '-U', 'reader' ]), position_of(2), 'with it');

# ---- parallel plans ----

my $parallel = in_parallel($node) . ' SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off;';
my $condition = "position($first IN doc) = 4097 AND securefile_position(doc, $middle, -1) > 0 AND securefile_compare(doc, securefile_part(doc, 1, 100)) > 0"
  . " AND securefile_compare(securefile_delete(doc, 1, 10), securefile_part(securefile_move(securefile_erase(doc, 1, 5), 1, 10, 20), 1)) <> 0";
my $query = "SELECT count(*) FROM y WHERE $condition";
like($node->safe_psql('postgres', "$parallel EXPLAIN (COSTS OFF) $query"), qr/Parallel Seq Scan on y\n\s+Filter:.*position/, 'a parallel plan');
is($node->safe_psql('postgres', "$parallel $query"), 1, 'its result');
is($node->safe_psql('postgres', q{
		SELECT string_agg(DISTINCT format('%s %s%s', p.proname, p.provolatile, p.proparallel), ', ') FROM pg_proc p
		WHERE p.proname IN ('securefile_position', 'securefile_positions', 'securefile_compare', 'securefile_part', 'securefile_overlay', 'securefile_erase',
				'securefile_insert', 'securefile_delete', 'securefile_move', 'securefile_lines')
			AND p.proargtypes[0] = 'securefile'::regtype}),
	'securefile_compare ss, securefile_delete is, securefile_erase is, securefile_insert is, securefile_lines ss, securefile_move is, securefile_overlay is, securefile_part is, securefile_position ss, securefile_positions ss',
	'readers are stable, makers immutable, all of them safe in parallel');

# ---- a standby ----

$node->backup('b');
my $standby = new_standby('searching_standby', $node, 'b');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $query), 1, 'on a standby');
is($standby->safe_psql('postgres', "SELECT securefile_search(securefile_open(doc, 'r'), $middle) $doc"), position_of(1000) - 1, 'by a handle on a standby');
fails_with($standby, "SELECT securefile_copy(securefile_create('y', 'doc'), doc, 1, 10) $doc", '25006', qr/read-only|recovery/, 'no handle that writes');
$standby->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP: |leak/, 'server log');
$node->stop;
done_testing();
