# Rule 4: the monitor touches a segment only under a lock, which it takes if it is
# free; it never waits for one, and others never find it in the middle of a drop.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('monitor_locks', conf => ['restart_after_crash = on']);
my $len = 60_000;
make_table($node, $_) foreach ('a', 'b');
fill($node, $_, 1, 10, $len) foreach ('a', 'b');

# locked by somebody: not touched, and the next one is next
my $session = background($node);
$session->query_safe('BEGIN; LOCK TABLE a; TRUNCATE a');
$node->safe_psql('postgres', 'DELETE FROM b WHERE id > 5');
my $passes = $node->safe_psql('postgres', 'SELECT passes FROM securefile_monitor');
ok(wait_for_sql($node, "SELECT passes >= $passes + 3 FROM securefile_monitor"), 'a locked segment does not hold up the monitor');
is( $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_locks l JOIN pg_stat_activity s USING (pid)"
		  . " WHERE NOT granted AND backend_type LIKE 'securefile%'"),
	0, 'it does not wait for the lock');
$session->query_safe('ROLLBACK');
rows_right($node, 'a', 10, 'after the lock');

# at work: a drop waits for it
SKIP:
{
	my ($rc) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	skip 'built without fault points', 4 if $rc != 0;
	# it is to stand at this one
	pending_is_gone($node, 'b', 'it has done the other one');
	arm($node, 'resolve_before', 'wait', times => 1);
	$node->safe_psql('postgres', 'DELETE FROM a WHERE id > 5');
	ok(wait_for_sql($node, "SELECT securefile_fault_fired('resolve_before') > 0"), 'the monitor is at work on a segment');
	fails_with($node, "SET lock_timeout = '300ms'; DROP TABLE a", '55P03', 'lock timeout', 'DROP TABLE waits for it');
	disarm($node);
	is($node->safe_psql('postgres', 'DROP TABLE a; SELECT 1'), 1, 'and goes on when it is through');
}
rows_right($node, 'b', 5, 'at the end');
sound($node, 'b', 'at the end');
$session->quit;
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'nothing in the log');
done_testing();
