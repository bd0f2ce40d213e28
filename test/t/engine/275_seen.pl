# What a statement reads and writes is seen in EXPLAIN, auto_explain and pg_stat_statements, in the
# statement that causes it: blocks of data files, times, WAL; and pg_stat_wal stays right, whatever
# becomes of what was gathered.  Waits for data files have wait events.  Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use JSON::PP qw(decode_json);
use POSIX qw(ceil);
use SecurefileTest;
use Test::More;

# Without the package of contrib there are two other ways to see the same.
my $libdir = `$ENV{PG_CONFIG} --pkglibdir` =~ s/\s+$//r;
my $contrib = -e "$libdir/pg_stat_statements.so" && -e "$libdir/auto_explain.so";

my $node = new_cluster('seen', conf => [
	"shared_preload_libraries = 'securefile" . ($contrib ? ', pg_stat_statements' : '') . "'",
	'track_io_timing = on', 'shared_buffers = 64MB', 'full_page_writes = off', 'securefile.monitor = off' ]);
my $in_parallel = in_parallel($node);
my $faults = ($node->psql('postgres', 'SELECT securefile_fault_reset()'))[0] == 0;

sql('CREATE EXTENSION pg_stat_statements') if $contrib;
make_table($node, 't');
make_table($node, 'direct', 'nocache');
make_table($node, 'small', 'compress_low');
make_table($node, 'files', 'filesystem_like_logging');
make_table($node, 'many', '', 'WITH (parallel_workers = 2)');

# ---- what EXPLAIN says ----

# The top node of a statement, as EXPLAIN shows it; other statements may come before it.  It was
# run once before, so the server's own pages are in its buffers, and what is read is ours.
sub explained
{
	my ($statement, @before) = @_;
	my $out = sql(@before, "EXPLAIN (ANALYZE, BUFFERS, WAL, TIMING OFF, SUMMARY OFF, FORMAT JSON) $statement");
	return decode_json($out =~ s/^[^\[]*//r)->[0]{Plan};
}

sub blocks { return ceil($_[0] / 8192); }

# Bytes that the counters of a column have, by then: they count requests, not blocks.
sub counted
{
	my ($table, $what) = @_;
	return sql("SELECT coalesce(sum($what), 0) FROM securefile_stat WHERE relname = '$table'");
}

# A statement that reads: its blocks are those of the bytes that were read.
sub reads
{
	my ($table, $statement, $bytes, $name, @before) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql(@before, $statement);
	my $since = counted($table, 'direct_read_bytes');
	my $plan = explained($statement, @before);
	my $read = counted($table, 'direct_read_bytes') - $since;
	ok($bytes <= $read && $read < 1.3 * $bytes, "$name: $read bytes are read for $bytes");
	is($plan->{'Shared Read Blocks'}, blocks($read), "$name: blocks");
	is($plan->{'Shared Written Blocks'}, 0, "$name: nothing is written");
	return $plan;
}

sub read_time { my ($plan) = @_; return $plan->{'I/O Read Time'} // $plan->{'Shared I/O Read Time'} // 0; }
sub write_time { my ($plan) = @_; return $plan->{'I/O Write Time'} // $plan->{'Shared I/O Write Time'} // 0; }

my $mb20 = 20_000_000;
fill($node, $_, 1, 1, $mb20) foreach qw(t direct small);
my $stored = sql('SELECT (securefile_storage(doc)).stored_bytes FROM small');
cmp_ok($stored, '<', $mb20 / 2, 'a column compresses');

my $plan = reads('t', 'SELECT length(doc::bytea) FROM t', $mb20, 'a value through the page cache');
is($plan->{'Shared Read Blocks'}, 2442, 'that is the length of the value, in blocks');
cmp_ok(read_time($plan), '>', 0, 'its time is seen');
$plan = reads('direct', 'SELECT length(doc::bytea) FROM direct', $mb20, 'a value past the page cache');
cmp_ok(read_time($plan), '>', 0, 'its time is seen, too');
reads('direct', 'SELECT length(doc::bytea) FROM direct', $mb20, 'the same, one request after the other', "SET securefile.io_method = 'sync'");
reads('small', 'SELECT length(doc::bytea) FROM small', $stored, 'a compressed value');
reads('t', q{SELECT securefile_digest(doc, 'md5') FROM t}, $mb20, 'a digest');
reads('t', 'SELECT substring(doc, 8000001, 1000000) FROM t', 8 * 131_072, 'a part, that is eight units');

# pieces of less than a block: rounded up once in a transaction, not in each piece
my $since = counted('many', 'direct_read_bytes');
sql(q{INSERT INTO many SELECT i, i, 5000, blob(i, 5000) FROM generate_series(1, 100) i});
$plan = explained('SELECT sum(length(doc::bytea)) FROM many');
is($plan->{'Shared Read Blocks'}, blocks(counted('many', 'direct_read_bytes') - $since), 'a hundred values of 5000 bytes');
sql('TRUNCATE many');

# by workers alone: theirs reach the leader
fill($node, 'many', 1, 8, 1024 * 1024);
my $scan = "SELECT count(sha256(doc)) FROM many";
$plan = reads('many', $scan, 8 * 1024 * 1024, 'a parallel scan', $in_parallel, 'SET parallel_leader_participation = off');
is($plan->{'Shared Read Blocks'}, 1024, 'the parallel scan: all of the values');
like(encode($plan), qr/"Workers Planned"/, 'it was parallel');

sub encode { return JSON::PP->new->canonical->encode($_[0]); }

# ---- units ----

# Counters of a session by the end of its statements.
sub units
{
	my (@statements) = @_;
	return (split /\n/, sql(@statements,
			q{SELECT sum(units_read) || ' ' || sum(units_cached) || ' ' || sum(units_decompressed) FROM securefile_stat_session}))[-1];
}

my $all_units = ceil($mb20 / 131_072);
is(units('SELECT length(doc::bytea) FROM t'), "$all_units 0 0", 'units of a value');
is(units('SELECT length(doc::bytea) FROM small'), "$all_units 0 $all_units", 'of a compressed one');
is(units('BEGIN', q{INSERT INTO t VALUES (50, 1, 300000, blob(1, 300000))}, 'SELECT length(doc::bytea) FROM t WHERE id = 50', 'ROLLBACK'), '0 3 0', 'of one that is not written yet');
my ($units_read, $units_cached) = split / /, units(q{SELECT count(*) FROM t, securefile_chunks(doc, 1, 131072, 8192) WHERE id = 1});
ok($units_read + $units_cached == 16 && $units_read <= 2, "of one unit, in 16 pieces: $units_read read, $units_cached cached");

if ($node->pg_version < 18)
{
	fails_with($node, 'EXPLAIN (ANALYZE, SECUREFILE) SELECT 1', '42601', qr/unrecognized EXPLAIN option "securefile"/, 'no option of EXPLAIN');
}
else
{
	my $of = "$in_parallel SET parallel_leader_participation = off; EXPLAIN (ANALYZE, COSTS OFF, SECUREFILE";
	like(sql("$of) SELECT length(doc::bytea) FROM small"), qr/^Securefile: units read=$all_units cached=0 decompressed=$all_units, bytes scanned=0 returned=$mb20 skipped=0$/m,
		'EXPLAIN (SECUREFILE)');
	like(sql("$of) $scan"), qr/^Securefile: units read=64 cached=0 decompressed=0,/m, 'of a parallel scan, by workers alone');
	my ($first) = @{ decode_json(sql("$of, FORMAT JSON) $scan")) };
	is($first->{Securefile}{'Units Read'}, 64, 'as JSON');
	unlike(sql("$of OFF) $scan"), qr/Securefile/, 'switched off');
	fails_with($node, 'EXPLAIN (SECUREFILE) SELECT 1', '22023', qr/EXPLAIN option SECUREFILE requires ANALYZE/, 'not without ANALYZE');
	sql('CREATE VIEW two AS SELECT * FROM small', q{CREATE RULE twice AS ON DELETE TO two DO INSTEAD (SELECT length(doc::bytea) FROM small; SELECT length(doc::bytea) FROM many WHERE id = 1)});
	my @lines = sql('EXPLAIN (ANALYZE, SECUREFILE) DELETE FROM two') =~ /^Securefile: units read=(\d+)/mg;
	is("@lines", "$all_units 8", 'two plans, each with its own');
}

# ---- writes, and WAL ----

# Bytes in sectors of 5 MB, and what heads of records take at most.
my $mb5 = 5_000_000;
my $sectors = ceil($mb5 / 512) * 512;
my $head = 64;
my $insert = sub { my ($table, $id, $len) = @_; return "INSERT INTO $table VALUES ($id, $id, $len, blob(1, " . ($len // $mb5) . '))'; };

sql($insert->($_, 2, $mb5)) foreach qw(t files);
my $written = counted('t', 'direct_write_bytes');
my $logs = explained($insert->('t', 3, $mb5));
my $does_not = explained($insert->('files', 3, $mb5));
is($logs->{'Shared Written Blocks'}, blocks($sectors), 'INSERT of 5 MB: blocks');
is($does_not->{'Shared Written Blocks'}, blocks($sectors), 'the same without WAL');
cmp_ok(counted('t', 'direct_write_bytes') - $written, '>=', $sectors, 'as many bytes were written by the end');
my $records = $logs->{'WAL Records'} - $does_not->{'WAL Records'};
my $excess = $logs->{'WAL Bytes'} - $does_not->{'WAL Bytes'} - $sectors;
ok(abs($excess) <= $head * ($records + 4), "INSERT of 5 MB: its WAL is the value and $excess bytes for $records records");
cmp_ok($does_not->{'WAL Bytes'}, '<', 10_000, 'no WAL of the value without logging');
cmp_ok(write_time(explained($insert->('files', 4, $mb5), "SET securefile.io_method = 'sync'")), '>', 0, 'the time of writes is seen');

# what was gathered before, and is written by this one, is not charged to it
my $later = explained($insert->('t', 6, 12_000_000), 'BEGIN', $insert->('t', 5, 3_000_000));
my $of_12mb = ceil(12_000_000 / 512) * 512;
ok($of_12mb <= $later->{'WAL Bytes'} && $later->{'WAL Bytes'} < $of_12mb + 20_000, "a second INSERT has its own WAL only: $later->{'WAL Bytes'} bytes");
ok(abs($later->{'Shared Written Blocks'} - blocks($of_12mb)) <= 1, 'and its own blocks');

# ---- pg_stat_wal ----

# What the server's counts say after the sessions that have written are gone, and the end of WAL.
sub wal
{
	my %wal;
	@wal{qw(lsn bytes records)} = split /\|/, sql(q{SELECT pg_current_wal_insert_lsn() - '0/0', wal_bytes, wal_records FROM pg_stat_wal});
	return \%wal;
}

# WAL has its records, each at an address that 8 divides, and 24 bytes of each page; other
# processes may add some.  Returns the bytes that pg_stat_wal has for the statements.
sub wal_is_right
{
	my ($name, @statements) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sessions_are_gone($node, 'postgres');
	my $before = wal();
	my $out;
	$node->psql('postgres', join(";\n", 'SELECT pg_backend_pid()', @statements), on_error_stop => 0, stdout => \$out);
	session_is_gone($node, $out =~ /^(\d+)/);
	my $after = wal();
	my ($lsn, $bytes, $n) = map { $after->{$_} - $before->{$_} } qw(lsn bytes records);
	my $most = ($bytes + 8 * $n) * 8192 / 8168 + 60_000;
	ok($bytes <= $lsn + 60_000 && $lsn <= $most, "pg_stat_wal, $name: $bytes bytes in $n records take $lsn bytes of WAL");
	return $bytes;
}

sub next_id { state_id(); }
{ my $id = 100; sub state_id { return ++$id; } }
sub put { my ($len, $table) = @_; return $insert->($table // 't', next_id(), $len); }

sql('CREATE TABLE log (n int)', q{CREATE PROCEDURE back() LANGUAGE plpgsql AS 'BEGIN ROLLBACK; END'});
sql('SELECT pg_stat_statements_reset()') if $contrib;
my @all = (
	[ 'an INSERT', 5_000_000, put($mb5) ],
	[ 'a value of 12 MB', 12_000_000, put(12_000_000) ],
	[ 'a transaction of several', 6_000_000, 'BEGIN', put(2_000_000), put(2_000_000), put(2_000_000), 'COMMIT' ],
	[ 'a rollback before anything was logged', 0, 'BEGIN', put(3_000_000), 'INSERT INTO log VALUES (1)', 'ROLLBACK' ],
	[ 'a rollback of a long value', undef, 'BEGIN', put(12_000_000), 'ROLLBACK' ],
	[ 'an error', 0, 'BEGIN', put(2_000_000), 'INSERT INTO log VALUES (1 / 0)' ],
	[ 'a savepoint', 4_000_000, 'BEGIN', put(2_000_000), 'SAVEPOINT s', put(2_000_000), 'ROLLBACK TO s', 'COMMIT' ],
	[ 'a table of a savepoint', 1_000_000, 'BEGIN', 'INSERT INTO log VALUES (1)', 'SAVEPOINT s', 'CREATE TABLE gone (id int, seed int, len int, doc securefile)',
		put(2_000_000, 'gone'), 'ROLLBACK TO s', put(1_000_000), 'COMMIT' ],
	[ 'a prepared transaction', 3_000_000, 'BEGIN', put(3_000_000), q{PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'} ],
	[ 'one that is rolled back', 3_000_000, 'BEGIN', put(3_000_000), q{PREPARE TRANSACTION 'p'}, q{ROLLBACK PREPARED 'p'} ],
	[ 'a block with transactions', 2_000_000, 'DO $$ BEGIN ' . put(2_000_000) . '; ROLLBACK; ' . put(2_000_000) . '; COMMIT; ' . put(3_000_000) . '; ROLLBACK; END $$' ],
	[ 'a procedure that rolls back for its caller', 0, 'SET pg_stat_statements.track = \'all\'', 'DO $$ BEGIN INSERT INTO log VALUES (1); ' . put(3_000_000) . '; CALL back(); END $$' ],
	[ 'a session that ends within', 0, 'BEGIN', put(3_000_000), 'INSERT INTO log VALUES (1)' ],
	[ 'a session that is ended within a block', 0, 'DO $$ BEGIN INSERT INTO log VALUES (1); ' . put(3_000_000) . '; PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); END $$' ],
	[ 'a column without logging', 0, put($mb5, 'files') ]);
foreach my $case (@all)
{
	my ($name, $logged, @statements) = @$case;
	my $bytes = wal_is_right($name, @statements);
	ok($logged <= $bytes && $bytes < $logged + 200_000, "$name: $logged bytes of values") if defined $logged;
}

# ---- pg_stat_statements, auto_explain ----

SKIP:
{
	skip 'no contrib here', 7 unless $contrib;
	is(sql('SELECT count(*) FROM pg_stat_statements WHERE wal_bytes > 1e9'), 0, 'pg_stat_statements: no count went below zero');
	sql('SELECT pg_stat_statements_reset()');
	my $total = wal_is_right('a transaction', 'BEGIN', put($mb5), 'COMMIT');
	my ($sum, $own, $of_commit, $blocks) = split /\|/, sql(q{SELECT sum(wal_bytes), sum(wal_bytes) FILTER (WHERE query ~ 'INSERT INTO t'),
		sum(wal_bytes) FILTER (WHERE query ~ 'COMMIT'), sum(shared_blks_written) FILTER (WHERE query ~ 'INSERT INTO t') FROM pg_stat_statements});
	cmp_ok($own, '>=', $sectors, "pg_stat_statements: INSERT has the WAL of the value, $own bytes");
	cmp_ok($total - $sum, '<', 50_000, 'what no statement has is little');
	is($of_commit, 0, 'COMMIT has none');
	is($blocks, blocks($sectors), 'and the blocks');

	sql('SELECT pg_stat_statements_reset()');
	sql('SET track_io_timing = off', 'SELECT length(doc::bytea) FROM t WHERE id = 1');
	is(sql(q{SELECT shared_blks_read || ' ' || coalesce(to_jsonb(s) ->> 'shared_blk_read_time', to_jsonb(s) ->> 'blk_read_time') FROM pg_stat_statements s WHERE query ~ 'length'}),
		'2442 0', 'no time without track_io_timing');

	my ($out, $err);
	$node->psql('postgres', q{LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on; SET auto_explain.log_buffers = on;
		SET auto_explain.log_level = notice; SELECT length(doc::bytea) FROM t WHERE id = 1}, stdout => \$out, stderr => \$err);
	like($err, qr/shared hit=\d+ read=2442\b/, 'auto_explain: blocks');
}

# ---- wait events ----

# A session in a read that the system interrupts again and again.
SKIP:
{
	skip 'built without fault points', 1 unless $faults;
	my $event = $node->pg_version < 17 ? 'Extension' : 'SecurefileDataRead';
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	arm($node, 'io_read', 'eagain', pid => $pid);
	arm($node, 'io_rest', 'eagain', times => -1, pid => $pid);
	$session->query_until(qr/start/, "\\echo start\nSELECT length(doc::bytea) FROM t WHERE id = 1;\n");
	ok(wait_for_sql($node, "SELECT wait_event_type = 'Extension' AND wait_event = '$event' FROM pg_stat_activity WHERE pid = $pid"),
		'a read through the page cache has a wait event');
	sql('SELECT securefile_fault_reset()');
	is($session->query('SELECT 1') =~ s/\s+$//r, "$mb20\n1", 'and goes on');
	$session->quit;
}

$node->stop;
done_testing();
