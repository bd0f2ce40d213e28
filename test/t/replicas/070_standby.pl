# A streaming standby has every value of logging columns, and its files grow,
# shrink and go with those of the primary; a promoted one goes on at once.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $primary = new_cluster('primary',
	init => { allows_streaming => 1 },
	conf => [ 'restart_after_crash = on', 'fsync = on', 'wal_keep_size = 1GB', "wal_consistency_checking = 'all, securefile'" ]);
make_table($primary, 'before');
fill($primary, 'before', 1, 20, 30_000);
$primary->backup('base');
my $standby = new_standby('standby', $primary, 'base');

sub caught_up { return catch_up($primary, $standby); }

# Names below pg_securefile and sizes are those of the primary, as soon as its
# monitor, which may be growing a segment, and the replay of that are through.
sub same_files
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @lists;
	wait_until(sub {
		@lists = map { file_sizes($_) } ($primary, $standby);
		$lists[1] eq $lists[0];
	});
	return is($lists[1], $lists[0], "$name: same data files");
}

# Rows on the standby, and nothing for securefile_check to find there.
sub same
{
	my ($table, $count, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	caught_up();
	rows_right($standby, $table, $count, "$name, standby");
	is($standby->safe_psql('postgres', "SELECT * FROM securefile_check('$table', 'doc') LIMIT 5"),
		'', "$name, standby: $table is sound");
	return;
}
same('before', 20, 'base backup');

# ---- what a table goes through ----
make_table($primary, 't');
fill($primary, 't', 1, 30, '1000 + i * 20000');
fill($primary, 't', 31, 33, 14_000_000);
same('t', 33, 'insert');
same_files('insert');
$primary->safe_psql('postgres', "UPDATE t SET seed = seed + 1, len = 50000, doc = blob(seed + 1, 50000) WHERE id % 3 = 0; DELETE FROM t WHERE id % 5 = 0");
settle($primary, 't', 'doc');
same('t', 27, 'update, delete');
fill($primary, 't', 101, 110, 300_000);
same('t', 37, 'space used again');
$primary->safe_psql('postgres', "BEGIN; INSERT INTO t SELECT i, i, 900000, blob(i, 900000) FROM generate_series(201, 220) i; SAVEPOINT a; DELETE FROM t WHERE id < 10; ROLLBACK TO a; ROLLBACK");
$primary->safe_psql('postgres', 'DELETE FROM t WHERE id > 20');
settle($primary, 't', 'doc');
$primary->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')") for 1 .. 2;
same('t', $primary->safe_psql('postgres', 'SELECT count(*) FROM t'), 'tail cut');
same_files('tail cut');
fill($primary, 't', 301, 302, 14_000_000);
same('t', $primary->safe_psql('postgres', 'SELECT count(*) FROM t'), 'grown again');
$primary->safe_psql('postgres', "TRUNCATE t; INSERT INTO t SELECT i, i, 70000, blob(i, 70000) FROM generate_series(1, 5) i");
same('t', 5, 'truncate');
same_files('truncate');
$primary->safe_psql('postgres', 'VACUUM FULL t; ALTER TABLE t ADD COLUMN x int DEFAULT random(); CLUSTER t USING t_pkey');
same('t', 5, 'rewritten');
$primary->safe_psql('postgres', "SELECT securefile_rewrite('t', 'doc')");
same('t', 5, 'securefile_rewrite');
$primary->safe_psql('postgres', 'CREATE TABLE gone AS SELECT * FROM t; DROP TABLE gone; BEGIN; CREATE TABLE gone AS SELECT * FROM t; ROLLBACK');
same('t', 5, 'drop');
same_files('drop');
$primary->safe_psql('postgres', 'CREATE DATABASE other');
$primary->safe_psql('other', 'CREATE EXTENSION securefile; CREATE TABLE t (doc securefile); INSERT INTO t SELECT convert_to(repeat(\'x\', 100000), \'UTF8\')');
same('t', 5, 'another database');
same_files('another database');
$primary->safe_psql('postgres', 'DROP DATABASE other');
same('t', 5, 'database dropped');
same_files('database dropped');

# ---- readers there ----
fails_with($standby, "SELECT securefile_maintain('t', 'doc')", '25006', 'recovery|read-only', 'securefile_maintain');
fails_with($standby, "INSERT INTO t VALUES (99, 1, 1, blob(1, 100000))", '25006', 'read-only', 'INSERT');
is($standby->safe_psql('postgres', "SELECT live_bytes > 0 FROM securefile_usage('t', 'doc')"), 't', 'securefile_usage');
is($standby->safe_psql('postgres', 'SELECT state FROM securefile_monitor'), 'in recovery', 'securefile_monitor');
is($standby->safe_psql('postgres', 'SELECT substring(doc FROM 60001 FOR 10) = substring(blob(2, 70000) FROM 60001 FOR 10) FROM t WHERE id = 2'), 't', 'substring');

# whoever still needs what the primary frees is cancelled, as for a heap
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = '500ms'");
$standby->reload;
my $reader = background($standby);
$reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE c CURSOR FOR SELECT id, doc::bytea = blob(seed, len) FROM t ORDER BY id; FETCH 1 FROM c");
$primary->safe_psql('postgres', 'DELETE FROM t WHERE id > 2');
settle($primary, 't', 'doc');
fill($primary, 't', 11, 13, 70000);
caught_up();
my $answer = eval { $reader->query('FETCH ALL FROM c') } || '';
unlike($answer, qr/\|f/, 'no other bytes');
like($reader->{stderr}, qr/conflict with recovery/, 'a reader that needs freed space is cancelled');
eval { $reader->quit };

# or protected
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nwal_receiver_status_interval = '1s'");
$standby->reload;
$reader = background($standby);
$reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE c CURSOR FOR SELECT id, doc::bytea = blob(seed, len) FROM t ORDER BY id; FETCH 1 FROM c");
ok(wait_for_sql($primary, 'SELECT backend_xmin IS NOT NULL FROM pg_stat_replication'), 'feedback has come');
$primary->safe_psql('postgres', 'DELETE FROM t');
$primary->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')") for 1 .. 2;
isnt(usage($primary, 't', 'doc')->{pending_bytes}, 0, 'with hot_standby_feedback it is kept');
fill($primary, 't', 21, 25, 70000);
caught_up();
is($reader->query('FETCH ALL FROM c'), "2|t\n11|t\n12|t\n13|t", 'and read');
$reader->query_safe('COMMIT');
$reader->quit;

# ---- a crash of the standby right after a restartpoint ----
# Its pages are ahead of where replay begins again; without images of pages nothing but their LSN tells.
$primary->safe_psql('postgres', $_) foreach ('ALTER SYSTEM SET full_page_writes = off', 'SELECT pg_reload_conf()');
fill($primary, 't', 31, 60, 200_000);
$primary->safe_psql('postgres', 'CHECKPOINT');
fill($primary, 't', 61, 70, 200_000);
caught_up();
$standby->safe_psql('postgres', 'CHECKPOINT');
crash($standby);
$standby->start;
same('t', 45, 'crash of the standby');

# ---- promotion ----
$primary->safe_psql('postgres', "BEGIN; INSERT INTO t SELECT i, i, 80000, blob(i, 80000) FROM generate_series(71, 75) i; DELETE FROM t WHERE id = 21; PREPARE TRANSACTION 'p'");
my $open = background($primary);
$open->query_safe("BEGIN; INSERT INTO t SELECT i, i, 9000000, blob(i, 9000000) FROM generate_series(81, 83) i; DELETE FROM t WHERE id = 22");
caught_up();
$primary->stop('immediate');
eval { $open->quit };
$standby->promote;
rows_right($standby, 't', 45, 'promoted');
fill($standby, 't', 91, 95, 100_000);
$standby->safe_psql('postgres', "COMMIT PREPARED 'p'; DELETE FROM t WHERE id = 23");
rows_right($standby, 't', 45 + 5 + 5 - 2, 'promoted, written');
sound($standby, 't', 'promoted, written');
sound($standby, 'before', 'promoted');
crash($standby);
$standby->start;
rows_right($standby, 't', 53, 'promoted, crashed');
sound($standby, 't', 'promoted, crashed');
$standby->safe_psql('postgres', 'DROP TABLE t, before');
is(scalar(data_files($standby)), 0, 'promoted: DROP TABLE removes files');
$standby->stop;
done_testing();
