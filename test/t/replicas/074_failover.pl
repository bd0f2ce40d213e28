# Acknowledged transactions survive: prepared transactions over a failover,
# synchronous_commit in all its settings, and wal_level = minimal.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

# ---- synchronous_commit ----

my $primary = new_cluster('primary', init => { allows_streaming => 1 });
make_table($primary, 't');
fill($primary, 't', 1, 10, 300_000);
$primary->backup('base');
my $standby = new_standby('standby', $primary, 'base');
$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'");
$primary->reload;
ok(wait_for_sql($primary, "SELECT sync_state = 'sync' FROM pg_stat_replication"), 'the standby is synchronous');

sub outcome_of
{
	my ($node, $id) = @_;
	return $node->safe_psql('postgres', "SELECT outcome(doc, seed, len) FROM t WHERE id = $id");
}

# Each length once: a row value, one unit, some, many, and an inode map.
my @lengths = (1000, 20_000, 100_000, 300_000, 3_000_000, 13_000_000);
my $id = 100;
foreach my $setting ('off', 'local', 'remote_write', 'on', 'remote_apply')
{
	my $session = background($primary);
	my @seen;
	$session->query_safe("SET synchronous_commit = $setting");
	foreach my $len (@lengths)
	{
		$id++;
		$session->query_safe("INSERT INTO t VALUES ($id, $id, $len, blob($id, $len))");
		$session->query_safe("UPDATE t SET seed = $id, len = $len + 5, doc = blob($id, $len + 5) WHERE id = 1");
		push @seen, outcome_of($standby, $id), outcome_of($standby, 1) if $setting eq 'remote_apply';
	}
	is("@seen", join(' ', ('right') x 12), 'remote_apply: at once on the standby') if $setting eq 'remote_apply';
	$session->quit;
	catch_up($primary, $standby);
	foreach my $node ($primary, $standby)
	{
		rows_right($node, 't', $id - 90, "$setting, " . $node->name);
	}
}

# ---- prepared transactions over a failover ----

my $len = 300_000;
$primary->safe_psql('postgres', $_)
  for ("BEGIN; INSERT INTO t VALUES (200, 200, $len, blob(200, $len)); PREPARE TRANSACTION 'insert c'",
	"BEGIN; INSERT INTO t VALUES (201, 201, $len, blob(201, $len)), (202, 202, 13000000, blob(202, 13000000)); PREPARE TRANSACTION 'insert r'",
	"BEGIN; UPDATE t SET seed = 50, doc = blob(50, len) WHERE id = 2; PREPARE TRANSACTION 'update c'",
	"BEGIN; UPDATE t SET seed = 60, doc = blob(60, len) WHERE id = 3; PREPARE TRANSACTION 'update r'",
	"BEGIN; DELETE FROM t WHERE id = 106; PREPARE TRANSACTION 'delete c'",
	"BEGIN; SAVEPOINT s; DELETE FROM t WHERE id = 5; ROLLBACK TO s; DELETE FROM t WHERE id IN (4, 112); PREPARE TRANSACTION 'delete r'",
	"BEGIN; CREATE TABLE made (id int PRIMARY KEY, seed int, len int, doc securefile); INSERT INTO made VALUES (1, 1, $len, blob(1, $len)); PREPARE TRANSACTION 'create c'",
	"BEGIN; CREATE TABLE unmade (doc securefile); INSERT INTO unmade VALUES (blob(1, $len)); PREPARE TRANSACTION 'create r'");

# right after the answer: the primary dies, and what was answered must be there
my $session = background($primary);
$session->query_safe('SET synchronous_commit = on');
$session->query_safe("INSERT INTO t VALUES (300, 300, 13000000, blob(300, 13000000))");
$session->query_safe("INSERT INTO t SELECT i, i, $len, blob(i, $len) FROM generate_series(301, 305) i");
crash($primary);
eval { $session->quit };
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
rows_right($standby, 't', $id - 90 + 6, 'promoted');
$standby->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')");
fill($standby, 't', 400, 409, $len);
$standby->safe_psql('postgres', "DELETE FROM t WHERE id >= 405; SELECT securefile_maintain('t', 'doc')");
fill($standby, 't', 410, 419, $len);
$standby->safe_psql('postgres', "CHECKPOINT; SELECT count(*) FROM pg_prepared_xacts");
foreach my $what ('insert', 'update', 'delete', 'create')
{
	$standby->safe_psql('postgres', "COMMIT PREPARED '$what c'");
	$standby->safe_psql('postgres', "ROLLBACK PREPARED '$what r'");
}
sub decided
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($standby, 't', $id - 90 + 6 + 15 + 1 - 1, $name);
	is( $standby->safe_psql('postgres',
			"SELECT string_agg(id || ':' || seed, ' ' ORDER BY id) FROM t WHERE id IN (2, 3, 4, 5, 106, 112, 200, 201, 202)"),
		'2:50 3:3 4:4 5:5 112:112 200:200', "$name: the rows that were decided");
	sound($standby, 't', $name);
	rows_right($standby, 'made', 1, $name);
	sound($standby, 'made', $name);
	return;
}
decided('decided');
fill($standby, 'made', 2, 9, $len);
rows_right($standby, 'made', 9, 'decided, written');
$standby->safe_psql('postgres', 'DELETE FROM made WHERE id > 1');
crash($standby);
$standby->start;
decided('decided, crashed');

# files of the table whose creation was rolled back are swept
$standby->safe_psql('postgres', 'DROP TABLE t, made');
wait_until(sub { data_files($standby) == 0 });
is(scalar(data_files($standby)), 0, 'no files are left');
$standby->stop;

# ---- asynchronous commit and a crash ----

my $node = new_cluster('async', conf => [ 'synchronous_commit = off', "wal_writer_delay = '10s'", 'securefile.monitor = off' ]);
make_table($node, 't');
fill($node, 't', 1, 10, $len);
$node->safe_psql('postgres', 'SET synchronous_commit = on; CREATE TABLE mark ()');
foreach my $i (2 .. 9)
{
	$node->safe_psql('postgres', "UPDATE t SET seed = seed + 100, doc = blob(seed + 100, len) WHERE id = $i; DELETE FROM t WHERE id = $i - 1");
	$node->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')") if $i % 2;
	$node->safe_psql('postgres', "INSERT INTO t VALUES (10 * $i, $i, $len, blob($i, $len))");
}
crash($node);
$node->start;
my $left = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
rows_right($node, 't', $left, 'off, crashed');
sound($node, 't', 'off, crashed');
$node->stop;

# ---- wal_level = minimal ----

foreach my $threshold ('0', '100MB')
{
	my $name = "minimal, wal_skip_threshold $threshold";
	$node = new_cluster("minimal_$threshold",
		init => { extra => ['--data-checksums'] },
		conf => [ 'wal_level = minimal', 'max_wal_senders = 0', "wal_skip_threshold = '$threshold'" ]);
	make_table($node, 't');
	fill($node, 't', 1, 10, $len);
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $start = $node->lsn('insert');
	fill($node, 't', 11, 20, $len);
	fill($node, 't', 21, 21, 13_000_000);
	cmp_ok($node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$start'::pg_lsn"), '<', 1_000_000,
		"$name: no data in WAL");
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 5');
	settle($node, 't', 'doc');
	fill($node, 't', 31, 35, $len);

	# tables and storage of this transaction: their pages are not in WAL
	my $rows = "SELECT i, i, $len, blob(i, $len) FROM generate_series(1, 5) i";
	my $create = 'CREATE TABLE %s (id int PRIMARY KEY, seed int, len int, doc securefile)';
	my %more = (
		created => '',
		twice => "INSERT INTO twice SELECT i, i, 13000000, blob(i, 13000000) FROM generate_series(6, 7) i; DELETE FROM twice WHERE id IN (1, 2)",
		emptied => "TRUNCATE emptied; INSERT INTO emptied $rows",
		inner_back => 'SAVEPOINT s; TRUNCATE inner_back; ROLLBACK TO s; SAVEPOINT s; DELETE FROM inner_back; ROLLBACK TO s',
		rewritten => 'ALTER TABLE rewritten ADD COLUMN x int DEFAULT random()');
	foreach my $t (sort keys %more)
	{
		$node->safe_psql('postgres', 'BEGIN; ' . sprintf($create, $t) . "; INSERT INTO $t $rows; $more{$t}; COMMIT");
	}
	make_table($node, 'later');
	fill($node, 'later', 10, 19, $len);
	$node->safe_psql('postgres', "BEGIN; TRUNCATE later; INSERT INTO later $rows; COMMIT");
	$node->safe_psql('postgres', 'BEGIN; ' . sprintf($create, 'aborted') . "; INSERT INTO aborted $rows; ROLLBACK");
	crash($node);
	$node->start;
	rows_right($node, 't', 21, $name);
	sound($node, 't', $name);
	foreach my $t (sort keys %more, 'later')
	{
		rows_right($node, $t, 5, $name);
		sound($node, $t, $name);
		fill($node, $t, 101, 105, $len);
		rows_right($node, $t, 10, "$name, written");
	}
	crash($node);
	$node->start;
	foreach my $t (sort keys %more, 'later')
	{
		rows_right($node, $t, 10, "$name, crashed again");
		sound($node, $t, "$name, crashed again");
	}
	$node->stop;
}
done_testing();
