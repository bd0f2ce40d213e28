# Trap 9, promises 3 and 5: readers take no lock, each snapshot sees its own
# versions whole for as long as it is open, and the space returns when it closes.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('snapshots');
my $right = 'SELECT count(*), count(*) FILTER (WHERE doc::bytea = blob(seed, len)) FROM t';

make_table($node, 't', 'filesystem_like_logging');
fill($node, 't', 1, 10, '100000 * i');
my $first = settle($node, 't', 'doc');

# one old snapshot over 20 rounds of updates and space being reused as it may
my $old = background($node);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $sum = $old->query_safe('SELECT sum(seed), count(*) FROM t');
my $middle;
foreach my $round (1 .. 20)
{
	$node->safe_psql('postgres',
		"UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id % 2 = $round % 2;"
		  . " SELECT securefile_maintain('t', 'doc')");
	is($old->query_safe($right), '10|10', "old snapshot after round $round") if $round % 5 == 0;
	if ($round == 10)
	{
		$middle = background($node);
		$middle->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
		$middle->query_safe('SELECT sum(seed), count(*) FROM t');
	}
}
is($old->query_safe('SELECT sum(seed), count(*) FROM t'), $sum, 'old snapshot sees the old rows');
is($middle->query_safe($right), '10|10', 'younger snapshot');
cmp_ok(usage($node, 't', 'doc')->{pending_bytes}, '>=', 5 * 5_500_000,
	'versions that the snapshot may see are pending');

# deleted rows too
$node->safe_psql('postgres', "DELETE FROM t WHERE id > 5; SELECT securefile_maintain('t', 'doc')");
is($old->query_safe($right), '10|10', 'old snapshot after DELETE');

# neither reader waits for a writer with uncommitted changes
my $writer = background($node);
$writer->query_safe("BEGIN; UPDATE t SET seed = 77, doc = blob(77, len)");
is($node->safe_psql('postgres', "SET lock_timeout = '2s'; SET statement_timeout = '" . patience() . "s'; $right"),
	'5|5', 'reader beside an open update');
# the monitor has one while it works on the segment
is( $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a USING (pid)"
		  . " WHERE c.relname LIKE 'pg_securefile%' AND mode NOT IN ('AccessShareLock', 'RowExclusiveLock')"
		  . " AND a.backend_type <> 'securefile monitor worker'"),
	0,
	'no strong locks on the segment');
is($writer->query_safe($right), '5|5', 'the writer sees its own version');
$writer->query_safe('ROLLBACK');
$writer->quit;
is($middle->query_safe($right), '10|10', 'younger snapshot after the rollback');

$old->query_safe('COMMIT');
$old->quit;
is($middle->query_safe($right), '10|10', 'younger snapshot outlives the older');
$middle->query_safe('COMMIT');
$middle->quit;

my $after = settle($node, 't', 'doc');
is($after->{pending_bytes}, 0, 'nothing pending once the snapshots are closed');
sound($node, 't', 'snapshots closed');
rows_right($node, 't', 5, 'snapshots closed');

# the freed space serves again
my $size = $after->{file_bytes};
foreach my $round (1 .. 4)
{
	$node->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len)');
	settle($node, 't', 'doc');
}
cmp_ok(usage($node, 't', 'doc')->{file_bytes}, '<=', $size, 'updates live on freed space');
rows_right($node, 't', 5, 'updates on freed space');

# a snapshot of another database holds nothing back for ever, and breaks nothing
$node->safe_psql('postgres', 'CREATE DATABASE other');
my $other = $node->background_psql('other');
$other->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$other->query_safe('SELECT 1');
$node->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len)');
rows_right($node, 't', 5, 'with a snapshot in another database');
$other->query_safe('COMMIT');
$other->quit;
sound($node, 't', 'with a snapshot in another database');

# the monitor alone brings it back: no call of the user's
$node->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len)');
pending_is_gone($node, 't', 'the monitor frees what no snapshot needs');
$node->safe_psql('postgres', 'DELETE FROM t');
ok($node->poll_query_until('postgres',
		"SELECT live_bytes = 0 AND pending_bytes = 0 FROM securefile_usage('t', 'doc')"),
	'the monitor frees deleted rows');

# and without it the foreground does, at the latest when space is wanted
$node->append_conf('postgresql.conf', 'securefile.monitor = off');
$node->restart;
fill($node, 't', 1, 10, 1_000_000);
my $one = usage($node, 't', 'doc')->{file_bytes};
foreach my $round (1 .. 6)
{
	$node->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len)');
}
cmp_ok(usage($node, 't', 'doc')->{file_bytes}, '<=', 3 * $one + mb(16),
	'without a monitor the foreground reuses space');
rows_right($node, 't', 10, 'without a monitor');
sound($node, 't', 'without a monitor');

$node->stop;
done_testing();
