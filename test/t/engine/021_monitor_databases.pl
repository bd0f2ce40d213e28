# The free-space monitor and databases: many of them, coming and going, and
# processes stopped in the middle of the work.
# Every version.

use strict;
use warnings;

use File::Basename;
use File::Path qw(make_path);
use SecurefileTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_cluster('monitor_databases', conf => ['restart_after_crash = on']);
my $launcher = "backend_type = 'securefile monitor launcher'";
my $worker = "backend_type = 'securefile monitor worker'";

sub value
{
	my ($sql, $db) = @_;
	return $node->safe_psql($db || 'postgres', $sql);
}

# One test: DROP DATABASE succeeds.  It gives the sessions of others five seconds to go,
# and fails then.
sub drops
{
	my ($db, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $node->psql('postgres', "DROP DATABASE $db");
	return is($rc, 0, $name) || diag($err);
}

# A database with a table t of $rows rows.
sub make_database
{
	my ($db, $rows) = @_;
	value("CREATE DATABASE $db");
	SecurefileTest::prepare_database($node, $db);
	value(
		"CREATE TABLE t (id int, seed int, len int, doc securefile);"
		  . " INSERT INTO t SELECT i, i, 50000, blob(i, 50000) FROM generate_series(1, $rows) i",
		$db);
	return;
}

# Directory of a database's data files.
sub files_of
{
	my ($db) = @_;
	my ($oid, $spc) = split /\|/,
	  value("SELECT oid, dattablespace FROM pg_database WHERE datname = '$db'");
	return $node->data_dir . "/pg_securefile/$spc/$oid";
}

# ---- many databases ----

my @dbs = map { "db$_" } 1 .. 4;
make_database($_, 20) foreach @dbs;
value('DELETE FROM t WHERE id > 10', $_) foreach @dbs;
pending_is_gone($node, 't', "freed in $_", $_) foreach @dbs;
is(value("SELECT count(*) FROM securefile_check('t', 'doc')", $_), '0', "$_ is sound") foreach @dbs;

# ---- databases that come, are worked in, and go again ----

my $from = -s $node->logfile;
foreach my $round (1 .. 4)
{
	make_database('shortlived', 50);
	value('DELETE FROM t', 'shortlived');
	my $dir = files_of('shortlived');
	ok(-d $dir, "files of a database (round $round)");
	# the session that has just been in it need not be waited for
	sessions_are_gone($node, 'shortlived');
	usleep(300_000 * $round);
	drops('shortlived', "DROP DATABASE is not held up (round $round)");
	ok(!-d $dir, "and leaves no file (round $round)");
}
value('CREATE DATABASE plain TEMPLATE template0');
value('DROP DATABASE plain');

# ---- files of a database that is gone ----

my $gone = dirname(files_of('db1')) . '/4000000000';
make_path("$gone/16400");
append_to_file("$gone/16400/seg-00000000.sf", 'x');

# another cluster's, and one that says nothing of itself
my $root = dirname(dirname($gone));
foreach my $foreign ('4000000001', '4000000002')
{
	make_path(dirname($gone) . "/$foreign/16400");
	append_to_file(dirname($gone) . "/$foreign/16400/seg-00000000.sf", 'x');
}
append_to_file("$root/database.4000000000",
	value('SELECT system_identifier FROM pg_control_system()') . "\n");
append_to_file("$root/database.4000000001", "4711\n");
my $pid = value("SELECT pid FROM pg_stat_activity WHERE $launcher");
value("SELECT pg_terminate_backend($pid)");
ok(log_says($node, qr/removing securefile data files of dropped database 4000000000/, $from),
	'files of a dropped database are found');
ok(wait_until(sub { !-d $gone }), 'and removed');
# the mark goes last
ok(wait_until(sub { !-e "$root/database.4000000000" }), 'with the mark whose they are');
ok(-s dirname($gone) . "/$_/16400/seg-00000000.sf", 'files of another cluster stay') foreach ('4000000001', '4000000002');
is(value('SELECT count(*) FROM t WHERE doc::bytea = blob(seed, len)', $_), '10', "rows of $_") foreach @dbs;
ok(slurp_file($node->logfile, $from) !~ qr/PANIC|terminated by signal/, 'no crash so far');

# ---- stopped in the middle ----

SKIP:
{
	my ($rc) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	skip 'built without fault points', 15 if $rc != 0;

	# a worker that stands still inside a resolve leaves when it is asked to
	arm($node, 'resolve_before', 'wait', times => -1);
	value('DELETE FROM t WHERE id > 5', 'db1');
	ok(wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE $worker AND datname = 'db1'"),
		'a worker stands in db1');
	my $dir = files_of('db1');
	sessions_are_gone($node, 'db1');
	drops('db1', 'DROP DATABASE gets it out');
	disarm($node);
	ok(!-d $dir, 'and leaves no file');
	is(value('SELECT failures FROM securefile_monitor'), '0', 'which is no failure');

	# between two segments it looks by itself; the launcher, which would ask it, stands
	# still.  The second segment would hold it again.
	value('CREATE TABLE t2 (LIKE t); INSERT INTO t2 SELECT i, i, 50000, blob(i, 50000) FROM generate_series(1, 10) i;'
		  . " SELECT securefile_maintain('t', 'doc')", 'db3');
	arm($node, 'resolve_before', 'wait', times => -1);
	value('DELETE FROM t WHERE id > 5; DELETE FROM t2', 'db3');
	wait_for_sql($node, "SELECT securefile_fault_fired('resolve_before') > 0");
	sessions_are_gone($node, 'db3');
	kill 'STOP', value("SELECT launcher_pid FROM securefile_monitor");
	my $dropper = background($node);
	$dropper->query_until(qr/start/, "\\echo start\nDROP DATABASE db3;\n");
	wait_for_sql($node, "SELECT count(*) > 0 FROM pg_locks WHERE mode = 'AccessExclusiveLock'"
		  . " AND classid = 'pg_database'::regclass");
	arm($node, 'resolve_before', 'wait', times => -1);
	# DROP DATABASE goes on as soon as it has left; else that fails, and the worker stays
	ok(wait_for_sql($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE $worker"), 'a worker leaves between two segments');
	kill 'CONT', value("SELECT launcher_pid FROM securefile_monitor");
	$dropper->query('SELECT 1');
	is($dropper->{stderr}, '', 'and DROP DATABASE goes on');
	$dropper->quit;
	disarm($node);

	# while a command wants a database no worker is sent there, though a session that
	# is in it gives it work
	my $user = background($node, 'db4');
	my $before = -s $node->logfile;
	$dropper = background($node);
	$dropper->query_until(qr/start/, "\\echo start\nDROP DATABASE db4;\n");
	wait_for_sql($node, "SELECT count(*) > 0 FROM pg_locks WHERE mode = 'AccessExclusiveLock'"
		  . " AND classid = 'pg_database'::regclass");
	$user->query_safe('DELETE FROM t WHERE id > 5');
	$dropper->query('SELECT 1');
	like($dropper->{stderr}, qr/is being accessed by other users/, 'DROP DATABASE waits for a session, in vain');
	$dropper->quit;
	$user->quit;
	ok(slurp_file($node->logfile, $before) !~ qr/terminating background worker/, 'no worker came and had to go');
	pending_is_gone($node, 't', 'it comes later', 'db4');

	# SIGKILL of a worker: the server restarts, nothing is lost
	arm($node, 'resolve_after', 'kill');
	value('DELETE FROM t WHERE id > 8', 'db2');
	ok(log_says($node, qr/all server processes terminated; reinitializing/, $from), 'worker was killed');
	wait_restart($node);
	pending_is_gone($node, 't', 'freed after the crash', 'db2');
	is(value('SELECT count(*) FROM t WHERE doc::bytea = blob(seed, len)', 'db2'), '8', 'rows of db2');
	is(value("SELECT count(*) FROM securefile_check('t', 'doc')", 'db2'), '0', 'db2 is sound');

	# a stop while a worker stands in a resolve
	arm($node, 'resolve_before', 'wait', times => -1);
	value('DELETE FROM t WHERE id > 6', 'db2');
	wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE $worker AND datname = 'db2'");
	$node->stop('fast');
	unlike(slurp_file($node->logfile, $from), qr/PANIC/, 'fast stop with a worker at work');
	$node->start;
	pending_is_gone($node, 't', 'freed after the stop', 'db2');
}

$node->stop;
done_testing();
