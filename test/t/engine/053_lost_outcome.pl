# Trap 22, rule 3: pending entries of transactions that the commit log does not
# know any more.  Nobody can say how they ended, so nothing of theirs is freed;
# securefile_check says so.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('lost_outcome', conf => ['securefile.monitor = off']);

# an outcome is noted as soon as it is known, though the space is needed still
make_table($node, 'n');
fill($node, 'n', 1, 4, 100_000);
my $old = background($node);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM n');
$node->safe_psql('postgres', 'DELETE FROM n WHERE id > 2');
is($node->safe_psql('postgres', "SELECT oldest_unresolved IS NULL FROM securefile_maintain('n', 'doc')"),
	't', 'the outcome is noted');
cmp_ok(usage($node, 'n', 'doc')->{pending_bytes}, '>', 0, 'the space is not free');
$old->query_safe('COMMIT');
$old->quit;
$node->safe_psql('postgres', 'DROP TABLE n');

make_table($node, 't');
fill($node, 't', 1, 10, 100_000);
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 8');
$node->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id = 1');

# the rows forget their transactions, the entries do not: VACUUM leaves the segments out
foreach my $db ('postgres', 'template1')
{
	$node->safe_psql($db, "VACUUM (FREEZE, PROCESS_TOAST off);\n"
		  . "SELECT format('VACUUM FREEZE pg_toast.%I', relname) FROM pg_class WHERE relkind = 't' AND relname LIKE 'pg_toast_%' \\gexec");
}
my $next = $node->safe_psql('postgres', 'SELECT pg_current_xact_id()::text::bigint');
my $jump = (int($next / 1_048_576) + 3) * 1_048_576;
$node->stop;
$node->command_ok([ 'pg_resetwal', '-x', $jump, '-u', $jump - 10, $node->data_dir ],
	'the commit log is cut');
my $clog = sprintf '%s/pg_xact/%04X', $node->data_dir, $jump / 1_048_576;
write_file($clog, "\0" x 262_144);
unlink $node->data_dir . '/pg_xact/0000';
write_file(sprintf('%s/pg_xact/%04X', $node->data_dir, $jump / 1_048_576 - 1), "\0" x 262_144);
$node->start;

my $work = $node->safe_psql('postgres',
	"SELECT entries_resolved, bytes_freed, oldest_unresolved IS NULL FROM securefile_maintain('t', 'doc')");
is($work, '0|0|f', 'nothing is resolved, nothing freed');
rows_right($node, 't', 8, 'outcome not known');
like($node->safe_psql('postgres', "SELECT finding FROM securefile_check('t', 'doc')"),
	qr/never/, 'securefile_check reports entries that can never be resolved');

# they hold nothing back: their commit log is gone, whatever is done
my $segment = 'pg_toast.pg_securefile_' . $node->safe_psql('postgres', "SELECT 't'::regclass::oid") . '_4';
cmp_ok($node->safe_psql('postgres', "SELECT age(relfrozenxid) FROM pg_class WHERE oid = '$segment'::regclass"),
	'>', 2_000_000, 'relfrozenxid of the segment is old');
$node->safe_psql('postgres', "VACUUM $segment");
cmp_ok($node->safe_psql('postgres', "SELECT age(relfrozenxid) FROM pg_class WHERE oid = '$segment'::regclass"),
	'<', 1000, 'vacuum advances it');

# new values do not get that space
fill($node, 't', 20, 40, 200_000);
rows_right($node, 't', 29, 'new values beside');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id >= 20');
$node->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')") for 1 .. 2;
rows_right($node, 't', 8, 'and freed again');

$node->stop;
done_testing();
