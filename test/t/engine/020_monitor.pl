# The free-space monitor: frees by itself, follows its settings, survives what
# is done to it, says what it cannot do.

use strict;
use warnings;

use SecurefileTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_cluster('monitor');
my $launcher = "backend_type = 'securefile monitor launcher'";

# Passes so far; they go on also when there is nothing to do.
sub passes
{
	return sql('SELECT passes FROM securefile_monitor');
}

sub wait_passes
{
	my ($n) = @_;
	my $want = passes() + $n;
	return wait_for_sql($node, "SELECT passes >= $want FROM securefile_monitor");
}

# Are there passes no more?  A naptime of one second brings two in this time.
sub passes_end
{
	my $before;
	return wait_until(sub {
		$before = passes();
		usleep(2_500_000);
		return passes() == $before;
	});
}

# ---- it works by itself ----

ok(wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE $launcher"),
	'launcher is in pg_stat_activity');
ok(wait_passes(1), 'passes are counted');

make_table($node, 'a');
fill($node, 'a', 1, 20, 100_000);
make_table($node, 'b', 'filesystem_like_logging');
fill($node, 'b', 1, 20, 100_000);
sql('DELETE FROM a WHERE id > 5');
sql('UPDATE b SET seed = seed + 100, doc = blob(seed + 100, len)');
pending_is_gone($node, 'a', 'deleted space is given back with nobody asking');
pending_is_gone($node, 'b', 'updated space is given back with nobody asking');
rows_right($node, 'a', 5, 'after monitor work');
rows_right($node, 'b', 20, 'after monitor work');
is(sql("SELECT count(*) FROM securefile_check('a', 'doc')"), '0', 'a is sound');
is(sql("SELECT count(*) FROM securefile_check('b', 'doc')"), '0', 'b is sound');
is(sql('SELECT failures FROM securefile_monitor'), '0', 'no failure');

# an old snapshot keeps the space, its end gives it back
my $old = background($node);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM a;');
sql('DELETE FROM a WHERE id > 2');
wait_passes(3);
isnt(usage($node, 'a', 'doc')->{pending_bytes}, '0', 'an old snapshot holds back the monitor');
is($old->query_safe('SELECT count(*) FROM a WHERE doc::bytea = blob(seed, len)'),
	'5', 'and still reads what it sees');
$old->query_safe('COMMIT');
pending_is_gone($node, 'a', 'its end does not need another commit to be noticed');
$old->quit;

# what a prepared transaction has to free, freed by nobody in particular
sql(q{BEGIN; DELETE FROM a WHERE id = 1; PREPARE TRANSACTION 'p'});
wait_passes(2);
is(sql("SELECT live_bytes + pending_bytes FROM securefile_usage('a', 'doc')"),
	2 * 100352, 'a prepared DELETE frees nothing');
sql(q{COMMIT PREPARED 'p'});
ok( $node->poll_query_until('postgres',
		"SELECT live_bytes < 110000 AND pending_bytes = 0 FROM securefile_usage('a', 'doc')"),
	'COMMIT PREPARED frees');

# ---- settings ----

$node->append_conf('postgresql.conf', 'securefile.monitor = off');
$node->reload;
ok(wait_for_sql($node, "SELECT state = 'off' FROM securefile_monitor"), 'off is seen in the view');
ok(passes_end(), 'and the last pass ends');
my $before = passes();
sql('DELETE FROM b WHERE id = 1');
usleep(2_500_000);
is(passes(), $before, 'no pass when off');
isnt(usage($node, 'b', 'doc')->{pending_bytes}, '0', 'nothing is done when off');
$node->append_conf('postgresql.conf', 'securefile.monitor = on');
$node->reload;
pending_is_gone($node, 'b', 'what was left is done when on again');

$node->append_conf('postgresql.conf', "securefile.monitor_naptime = '1h'");
$node->reload;
ok(passes_end(), 'a long naptime is kept');
$before = passes();
$node->append_conf('postgresql.conf', "securefile.monitor_naptime = '1s'");
$node->reload;
ok(wait_for_sql($node, "SELECT passes > $before FROM securefile_monitor"),
	'a shorter naptime ends the nap');

# ---- killed ----

my $pid = sql("SELECT pid FROM pg_stat_activity WHERE $launcher");
sql("SELECT pg_terminate_backend($pid)");
ok(wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE $launcher AND pid <> $pid"),
	'the launcher comes back after pg_terminate_backend');
sql('DELETE FROM b WHERE id = 2');
pending_is_gone($node, 'b', 'and works');

# ---- a free tail: kept for who was writing lately, cut for who is not ----
# What was written lately counts for half as much after each minute.  A tail that is little
# longer than what is worth a cut (64 MB) stays for three of them.
make_table($node, 'tail', 'filesystem_like_logging');
sql('INSERT INTO tail SELECT i, 1, 9000000, b FROM (SELECT blob(1, 9000000)) s (b), generate_series(1, 8) i');
wait_passes(2);		# it may be grown ahead of what comes
my $full = usage($node, 'tail', 'doc')->{file_bytes};
sql('DELETE FROM tail');
pending_is_gone($node, 'tail', 'all rows deleted');
wait_passes(3);
is(usage($node, 'tail', 'doc')->{file_bytes}, $full, 'space stays for what may come');
$node->restart;		# nobody remembers the demand
sql("INSERT INTO tail VALUES (1, 1, 100000, blob(1, 100000)); DELETE FROM tail");
ok(wait_for_sql($node, "SELECT file_bytes < $full / 2 FROM securefile_usage('tail', 'doc')"), 'and is cut when nothing comes');
sql('DROP TABLE tail');

# ---- an error on one segment does not keep it from the others ----

my $from = -s $node->logfile;
sql('DELETE FROM b WHERE id = 3');
sql('CREATE TABLE z (id int PRIMARY KEY, seed int, len int, doc securefile)');
fill($node, 'z', 1, 5, 20_000);
pending_is_gone($node, 'b', 'before damage');
my $path = sql(q{SELECT pg_relation_filepath(segment_relid) FROM securefile_columns WHERE relid = 'z'::regclass});
$node->stop;
my $file = $node->data_dir . "/$path";
my $saved = slurp_file($file);
patch($file, 8176, "\0" x 4);
$node->start;
sql('DELETE FROM a');
sql('DELETE FROM b WHERE id = 4');
pending_is_gone($node, 'b', 'a damaged segment does not stop the monitor');
ok(log_says($node, qr/page 0 of segment relation "pg_securefile_\d+_4" is damaged/, $from),
	'its error is in the log');
is(sql("SELECT finding FROM securefile_check('z', 'doc') LIMIT 1"), 'unreadable', 'and in securefile_check');
is(sql('SELECT failures FROM securefile_monitor'), '0', 'the worker came to its end');
$node->stop;
patch($file, 0, $saved);
$node->start;
rows_right($node, 'z', 5, 'page restored');

# ---- shutdown while it works ----

sql('INSERT INTO a SELECT i, i, 5000, blob(i, 5000) FROM generate_series(1000, 1500) i; DELETE FROM a');
$node->stop('fast');
my $log = slurp_file($node->logfile);
unlike($log, qr/PANIC/, 'no PANIC at shutdown');
$node->start;

# ---- too few worker slots ----

$node->append_conf('postgresql.conf', "max_worker_processes = 3\nmax_logical_replication_workers = 1");
$from = -s $node->logfile;
$node->restart;
sql('DELETE FROM b WHERE id = 5');
ok(wait_for_sql($node, "SELECT failures > 0 AND last_failure LIKE '%max_worker_processes is too low'"
		  . ' AND last_failure_time IS NOT NULL FROM securefile_monitor'),
	'no free slot for a worker: the view says so');
ok(log_says($node, qr/securefile monitor could not start a worker/, $from), 'and the log');
sql("INSERT INTO b SELECT i, i, 100000, blob(i, 100000) FROM generate_series(100, 120) i");
sql('DELETE FROM b WHERE id >= 100');
sql("SELECT securefile_maintain('b', 'doc')");
is(settle($node, 'b', 'doc')->{pending_bytes}, '0', 'the foreground does it');

$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
$node->restart;
is(sql('SELECT state, launcher_pid IS NULL FROM securefile_monitor'), 'not running|t',
	'no slot for the launcher: the view says so');
fill($node, 'b', 200, 210, 100_000);
sql('DELETE FROM b WHERE id >= 200');
sound($node, 'b', 'no monitor at all');
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
$node->restart;
sound($node, 'a', 'at the end');
rows_right($node, 'b', 15, 'at the end');

$node->stop;
done_testing();
