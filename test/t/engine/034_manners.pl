# Timeouts, cancels and terminations during I/O; many segments and few file
# descriptors; and nothing left behind by any of it.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_cluster('manners', conf => [ 'max_files_per_process = 64', 'securefile.max_columns = 16', 'max_locks_per_transaction = 500' ]);

make_table($node, 't');
fill($node, 't', 1, 10, 5_000_000);

# real work, cancelled wherever it is
foreach my $ms (1, 3, 10, 30, 60, 100)
{
	$node->psql('postgres', "SET statement_timeout = '${ms}ms'; SELECT sum(length(doc::bytea)) FROM t");
	$node->psql('postgres', "SET statement_timeout = '${ms}ms'; UPDATE t SET doc = doc || ''::bytea");
	$node->psql('postgres', "BEGIN; INSERT INTO t VALUES ($ms + 100, 1, 1, blob(1, 9000)); SAVEPOINT s; SET LOCAL statement_timeout = '${ms}ms';"
		  . " INSERT INTO t SELECT 1000 + i, i, 3000000, blob(i, 3000000) FROM generate_series(1, 10) i; ROLLBACK TO s; ROLLBACK");
}
rows_right($node, 't', 10, 'statements timed out');
sound($node, 't', 'statements timed out');

# a session that left without a word, with data gathered and not written
foreach my $how ('idle_in_transaction_session_timeout', 'terminate', 'disconnect')
{
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $work = 'BEGIN\; INSERT INTO t SELECT 2000 + i, i, 700000, blob(i, 700000) FROM generate_series(1, 9) i\;'
	  . ' UPDATE t SET doc = blob(1, 100000) WHERE id < 4';
	if ($how =~ /idle/)
	{
		# one message to the server, which may end the session at any time after it
		$session->query_until(qr/start/, "\\echo start\n$work\\; SET idle_in_transaction_session_timeout = '300ms';\n");
	}
	else
	{
		$session->query_safe($work);
	}
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") if $how eq 'terminate';
	if ($how eq 'disconnect')
	{
		kill 9, $session->{run}->{KIDS}->[0]->{PID};
	}
	ok(session_is_gone($node, $pid), "$how: session gone");
	eval { $session->quit };
	rows_right($node, 't', 10, $how);
	sound($node, 't', $how);
}

# many segments in one transaction, with few descriptors and few statistics slots
my $tables = 90;
$node->safe_psql('postgres', 'DO $$ BEGIN FOR i IN 1 .. 90 LOOP EXECUTE format('
	  . q{'CREATE TABLE many_%s (id int PRIMARY KEY, seed int, len int, doc securefile(disable_storage_in_row))', i)}
	  . '; END LOOP; END $$');
$node->safe_psql('postgres', 'DO $$ BEGIN FOR i IN 1 .. 90 LOOP EXECUTE format('
	  . q{'INSERT INTO many_%s SELECT n, n + %s, 5000 * n, blob(n + %s, 5000 * n) FROM generate_series(1, 3) n', i, i, i)}
	  . '; END LOOP; END $$');
my $union = join(' UNION ALL ', map { "SELECT * FROM many_$_" } 1 .. $tables);
is($node->safe_psql('postgres', "SELECT count(*) FROM ($union) u WHERE doc::bytea = blob(seed, len)"), 3 * $tables, 'many segments in one transaction');
$node->safe_psql('postgres', 'DO $$ BEGIN FOR i IN 1 .. 90 LOOP BEGIN EXECUTE format('
	  . q{'DELETE FROM many_%s WHERE id = 1', i); IF i % 2 = 0 THEN RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN NULL}
	  . '; END; END LOOP; END $$');
is($node->safe_psql('postgres', "SELECT count(*) FROM ($union) u WHERE doc::bytea = blob(seed, len)"), 3 * $tables - 45, 'many segments, half undone');
sound($node, "many_$_", 'many segments', in_row => 0) for (1, 45, 90);
$node->safe_psql('postgres', 'DROP TABLE ' . join(', ', map { "many_$_" } 1 .. $tables));
is(scalar(data_files($node)), 1, 'many segments dropped');

# interruptions while an I/O, a flush or a resolve stands still
need_faults($node);
$node->append_conf('postgresql.conf', 'securefile.monitor = off');	# it would resolve first
$node->reload;
ok(monitor_rests($node), 'no monitor from here on');

# Start a statement in a session and wait until it stands in a fault point: true.  False
# if it ends before.
sub stands
{
	my ($session, $pid, $point, $sql) = @_;
	$session->query_until(qr/start/, "\\echo start\n$sql;\nSET application_name = 'through';\n");
	wait_for_sql($node, "SELECT securefile_fault_fired('$point') > 0 OR application_name = 'through' FROM pg_stat_activity WHERE pid = $pid");
	return fired($node, $point) > 0;
}

foreach my $case (
	[ 'io_read', 'SELECT doc::bytea FROM t WHERE id = 1' ],
	[ 'io_write', 'UPDATE t SET doc = doc::bytea || \'x\'::bytea WHERE id = 1' ],
	[ 'flush_before_write', 'UPDATE t SET doc = doc::bytea || \'x\'::bytea WHERE id = 1' ],
	[ 'commit_before_flush', 'UPDATE t SET doc = doc::bytea || \'x\'::bytea WHERE id = 1' ],
	[ 'io_promise', 'INSERT INTO t SELECT 3000 + i, i, 9000000, convert_to(repeat(\'x\', 9000000), \'UTF8\') FROM generate_series(1, 20) i' ],
	[ 'resolve_before', "SELECT securefile_maintain('t', 'doc')" ])
{
	my ($point, $sql) = @$case;
	foreach my $how ('timeout', 'cancel', 'terminate')
	{
		# the server itself ends the statement's time before it commits
		next if $how eq 'timeout' && $point =~ /commit/;

		$node->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id = 9') if $point =~ /resolve/;
		my $session = background($node);
		my $pid = $session->query_safe('SELECT pg_backend_pid()');
		my $ms = $how eq 'timeout' ? 500 : 0;
		arm($node, $point, 'wait', pid => $pid, times => -1);
		my $stands = stands($session, $pid, $point, "SET statement_timeout = $ms; $sql");
		# a machine may be too slow to come there in the time
		while ($how eq 'timeout' && !$stands && $ms < 60_000)
		{
			$ms *= 3;
			$session->query('RESET application_name');
			$stands = stands($session, $pid, $point, "SET statement_timeout = $ms; $sql");
		}
		ok($stands, "$point: the session stands there");
		$node->safe_psql('postgres', "SELECT pg_${how}_backend($pid)") unless $how eq 'timeout';
		if ($point =~ /io_write|flush/)
		{
			# a write is not divided; the interruption comes right after it
			usleep(1000 * $ms + 200_000);
			disarm($node);
		}
		# else nothing but the interruption ends the wait
		ok( $how eq 'terminate' ? session_is_gone($node, $pid)
			: wait_for_sql($node, "SELECT state <> 'active' FROM pg_stat_activity WHERE pid = $pid"),
			"$point: $how is honoured");
		disarm($node);
		eval { $session->quit };
		rows_right($node, 't', 10, "$point, $how");
		sound($node, 't', "$point, $how");
	}
}

# nobody else waits for a session that stands in its I/O
my $session = background($node);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
arm($node, 'io_write', 'wait', pid => $pid, times => -1);
ok(stands($session, $pid, 'io_write', 'UPDATE t SET seed = 77, doc = blob(77, len) WHERE id = 1'), 'a write stands still');
my $others = "SET statement_timeout = '" . patience() . "s'; SELECT count(*) FROM t WHERE doc::bytea = blob(seed, len);"
  . ' UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id > 5; INSERT INTO t VALUES (50, 50, 60000, blob(50, 60000));'
  . " DELETE FROM t WHERE id = 50; SELECT entries_seen >= 0 FROM securefile_maintain('t', 'doc')";
is($node->safe_psql('postgres', $others), "10\nt", 'others work beside a write that stands still');
disarm($node);
$session->query_safe('SELECT 1');
$session->quit;
rows_right($node, 't', 10, 'after a write that stood still');
sound($node, 't', 'after a write that stood still');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP: /, 'server log');
$node->stop;
done_testing();
