# Statistics in shared memory of a fixed size, and the fault points that the other
# tests rely on.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('stats',
	conf => [ 'securefile.max_columns = 16', 'securefile.monitor = off', 'securefile.syncer = off' ]);
need_faults($node);

sub run_sql
{
	my ($sql) = @_;
	return ($node->psql('postgres', $sql))[0] == 0 ? 'ok' : 'error';
}

sub counted
{
	my ($table) = @_;
	return $node->safe_psql('postgres',
		"SELECT bytes_nontransformed FROM securefile_stat WHERE relid = '$table'::regclass");
}

# more columns than there is room for: the ones unused longest give way
run_sql("CREATE TABLE s$_ (document securefile)") for 1 .. 20;
run_sql("INSERT INTO s$_ VALUES (blob($_, 100000))") for 1 .. 16;
is(counted('s1'), 100000, 'as many columns as there is room for');
unlike(slurp_file($node->logfile), qr/more than 16 securefile columns/, 'no overflow so far');
run_sql("INSERT INTO s$_ VALUES (blob($_, 100000))") for 1, 17 .. 20;
is(counted('s1'), 200000, 'overflow: a column in use stays');
is(counted('s2'), 0, 'overflow: the one unused longest went');
is(counted('s20'), 100000, 'overflow: a new one counts');
my @overflows = slurp_file($node->logfile) =~ /LOG: .*more than 16 securefile columns/g;
is(scalar(@overflows), 1, 'overflow: logged once');
$node->restart;
is(counted('s1'), 0, 'statistics start afresh with the server');

# arming: skip, times, one process only
my $point = 'flush_before_write';
my $insert = 'INSERT INTO s1 VALUES (blob(1, 100000))';
fails_with($node, "SELECT securefile_fault('nowhere', 'error')", '22023', 'nowhere',
	'no such point');
fails_with($node, "SELECT securefile_fault('$point', 'explode')", '22023', 'explode',
	'no such action');
fails_with($node, "SELECT securefile_fault('$point', NULL)", '22004', 'null', 'no null');

arm($node, $point, 'error', skip => 1, times => 2);
is(join(' ', map { run_sql($insert) } 1 .. 5), 'ok error error ok ok', 'skip 1, times 2');
is(fired($node, $point), 2, 'fired twice');
arm($node, $point, 'error', times => -1, pid => 1);
is(run_sql($insert), 'ok', 'in another process only');
arm($node, $point, 'error', times => -1);
is(join(' ', map { run_sql($insert) } 1 .. 3), 'error error error', 'always');
disarm($node);
is(run_sql($insert), 'ok', 'disarmed');
is(fired($node, $point), 0, 'reset forgets what fired');

# passes of a point and of any system call; the nth of those
arm($node, 'io_write', 'pass', times => -1);
arm($node, 'io_any', 'pass', times => -1);
is(run_sql($insert), 'ok', 'passes are counted, and that is all');
cmp_ok(fired($node, 'io_write'), '>=', 1, 'writes were counted');
my $calls = fired($node, 'io_any');
cmp_ok($calls, '>', fired($node, 'io_write'), 'and the other calls with them');
disarm($node);
arm($node, 'io_any', 'enospc', skip => $calls - 1);
is(run_sql($insert), 'error', 'the last of them fails');
disarm($node);

# in recovery a point is armed by the environment
run_sql($insert);
$node->stop('immediate');
{
	local $ENV{SECUREFILE_FAULT} = 'redo_done:error:1';
	is($node->start(fail_ok => 1), 0, 'replay of the second record fails');
}
like(slurp_file($node->logfile), qr/FATAL: .*fault point redo_done/, 'and says so');
$node->start;

# waiting ends when the point is disarmed, or by a cancel
foreach my $end ('disarm', 'cancel')
{
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	arm($node, $point, 'wait', pid => $pid);
	$session->query_until(qr/started/, "\\echo started\n$insert;\n");
	wait_for_sql($node, "SELECT securefile_fault_fired('$point') = 1");
	is($node->safe_psql('postgres', "SELECT state FROM pg_stat_activity WHERE pid = $pid"),
		'active', "wait, $end: it waits");
	run_sql("SELECT pg_cancel_backend($pid)") if $end eq 'cancel';
	disarm($node) if $end eq 'disarm';
	ok( wait_for_sql($node,
			"SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $pid"),
		"wait, $end: it goes on");
	$session->quit;
	disarm($node);
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM s1'), 10, 'what was committed is there');

$node->stop;
done_testing();
