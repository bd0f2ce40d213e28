# Traps 1, 3 and 7, rules 1 and 3 for values with inode pages, whose entries are
# written at once rather than at commit; and for a commit that fails after its
# entries were logged.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('large_values', conf => ['securefile.monitor = off']);
my $len = 13_000_000;
make_table($node, 't', 'filesystem_like_logging');
fill($node, 't', 1, 2, $len);

# A script that leaves t with that many rows; several times: pages come back.
sub after
{
	my ($name, $sql, $rows) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $metadata;
	foreach my $round (1 .. 3)
	{
		$node->psql('postgres', $sql);
		sound($node, 't', "$name, round $round");
		$metadata = usage($node, 't', 'doc')->{metadata_bytes} if $round == 1;
	}
	rows_right($node, 't', $rows, $name);
	is(usage($node, 't', 'doc')->{metadata_bytes}, $metadata, "$name: pages are used again");
	return;
}
my $insert = sub { return "INSERT INTO t VALUES ($_[0], $_[0], $len, blob($_[0], $len))" };

after('no row', $insert->(1) . ' ON CONFLICT DO NOTHING', 2);
after('rolled back', 'BEGIN; ' . $insert->(3) . '; ROLLBACK', 2);
after('savepoint rolled back',
	'BEGIN; INSERT INTO t VALUES (4, 4, 9000, blob(4, 9000)); SAVEPOINT a; ' . $insert->(3)
	  . '; ROLLBACK TO a; DELETE FROM t WHERE id = 4; COMMIT', 2);
after('savepoint alone', 'BEGIN; SAVEPOINT a; ' . $insert->(3) . '; ROLLBACK TO a; COMMIT', 2);
after('savepoint kept, then deleted',
	'BEGIN; SAVEPOINT a; ' . $insert->(3) . '; RELEASE a; DELETE FROM t WHERE id = 3; COMMIT', 2);
after('replaced', "UPDATE t SET seed = seed + 1, doc = blob(seed + 1, $len) WHERE id = 2", 2);

# a commit that fails when its entries are in WAL: the session goes on, and what
# it had reserved is not written over before the entries are dealt with
SKIP:
{
	my ($rc) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	skip 'built without fault points', 1 if $rc != 0;
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	foreach my $round (1 .. 3)
	{
		my $id = 10 * $round;
		arm($node, 'commit_after_alloc', 'error', pid => $pid);
		$session->query("INSERT INTO t SELECT i, i, 60000, blob(i, 60000) FROM generate_series($id, $id + 3) i");
		like($session->{stderr}, qr/ERROR/, "commit fails after its entries, round $round");
		$session->{stderr} = '';
		disarm($node);
		$session->query("INSERT INTO t SELECT i, i, 60000, blob(i, 60000) FROM generate_series($id, $id + 3) i");
		is($session->{stderr}, '', "the next one does not, round $round");
		$session->{stderr} = '';
		rows_right($node, 't', 2 + 4 * $round, "failed and done, round $round");
		sound($node, 't', "failed and done, round $round");
	}
	$session->quit;
}
$node->stop;
done_testing();
