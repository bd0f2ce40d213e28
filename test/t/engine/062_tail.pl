# The free tail of a segment is cut off while others lend: nobody gets a place
# that goes, or is gone.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('tail', conf => ['securefile.monitor = off']);
need_faults($node);

# Start a statement in a session and wait until it stands in a fault point.
sub start_and_hold
{
	my ($session, $point, $sql) = @_;
	arm($node, $point, 'wait', pid => $session->query_safe('SELECT pg_backend_pid()'));
	$session->query_until(qr/start/, "\\echo start\n$sql;\n");
	return $node->poll_query_until('postgres', "SELECT securefile_fault_fired('$point') > 0");
}

# what is lent between the look for a tail and its cut
make_table($node, 'a', 'filesystem_like_logging');
fill($node, 'a', 1, 1, 200_000);
fill($node, 'a', 2, 20, 2_000_000);
$node->safe_psql('postgres', 'DELETE FROM a WHERE id > 1');
my $cutter = background($node);
ok(start_and_hold($cutter, 'truncate_before_claim', "SELECT securefile_maintain('a', 'doc')"),
	'a tail has been found');
fill($node, 'a', 101, 115, 2_000_000);
disarm($node);
$cutter->query_safe('SELECT 1');
$cutter->quit;
rows_right($node, 'a', 16, 'lent before the cut');
sound($node, 'a', 'lent before the cut');

# what somebody was about to lend when it was cut, and some of it grown again;
# a restart forgets what the dispenser knew, so that places follow one another
make_table($node, 'b', 'filesystem_like_logging');
fill($node, 'b', 1, 1, 200_000);
fill($node, 'b', 2, 7, 2_000_000);
$node->safe_psql('postgres', 'DELETE FROM b WHERE id > 1');
$node->safe_psql('postgres',
	"VACUUM pg_toast.pg_securefile_" . $node->safe_psql('postgres', "SELECT 'b'::regclass::oid") . '_4');
$node->restart;
my $size = usage($node, 'b', 'doc')->{file_bytes};
cmp_ok($size, '<', mb(16), 'all on one map page');
my $first = background($node);
$first->query_safe('BEGIN; INSERT INTO b VALUES (50, 50, 4000000, blob(50, 4000000))');
my $second = background($node);
ok(start_and_hold($second, 'lend_before_mark', 'INSERT INTO b VALUES (51, 51, 2000000, blob(51, 2000000))'),
	'a place has been chosen');
$first->query_safe('ROLLBACK');
$first->quit;
$node->safe_psql('postgres', "SELECT securefile_maintain('b', 'doc')");
my $cut = usage($node, 'b', 'doc')->{file_bytes};
cmp_ok($cut, '<=', mb(4), 'it is cut off');
fill($node, 'b', 60, 61, 1_000_000);
my $grown = usage($node, 'b', 'doc')->{file_bytes};
cmp_ok($grown, '>', $cut, 'the segment grows again');
cmp_ok($grown, '<=', mb(4), 'but not up to there');
disarm($node);
$second->query_safe('SELECT 1');
$second->quit;
rows_right($node, 'b', 4, 'cut off before it was lent');
fill($node, 'b', 70, 80, 1_000_000);
rows_right($node, 'b', 15, 'cut off before it was lent, grown over');
sound($node, 'b', 'cut off before it was lent');

# what the monitor has claimed of a tail and does not cut, since somebody lent in the
# middle of it, can be lent again
sub monitor_is
{
	my ($setting) = @_;
	$node->safe_psql('postgres', $_) foreach ("ALTER SYSTEM SET securefile.monitor = $setting", 'SELECT pg_reload_conf()');
	return;
}
$node->safe_psql('postgres', 'DROP TABLE a, b');
make_table($node, 'c', 'filesystem_like_logging');
fill($node, 'c', 1, 1, mb(3));
fill($node, 'c', 2, 60, mb(1));
fill($node, 'c', 101, 155, mb(1));
$node->safe_psql('postgres', 'DELETE FROM c WHERE id > 100');
settle($node, 'c', 'doc');
$node->safe_psql('postgres', 'DELETE FROM c WHERE id > 1');
$node->safe_psql('postgres',
	'VACUUM pg_toast.pg_securefile_' . $node->safe_psql('postgres', "SELECT 'c'::regclass::oid") . '_4');
$node->restart;
$size = usage($node, 'c', 'doc');
is($size->{pending_bytes}, 0, 'a tail of more than 64 MB');
cmp_ok($size->{file_bytes}, '>=', mb(77), 'which the monitor cuts');
cmp_ok($size->{file_bytes}, '<', mb(80), 'but not the part on map pages behind the first one');
arm($node, 'truncate_before_claim', 'wait');
monitor_is('on');
ok(wait_for_sql($node, "SELECT securefile_fault_fired('truncate_before_claim') > 0"), 'the monitor has found it');
my $writer = background($node);
$writer->query_safe('BEGIN; INSERT INTO c VALUES (200, 200, ' . mb(12) . ', blob(200, ' . mb(12) . '))');
disarm($node);
monitor_is('off');
ok(monitor_rests($node), 'and has gone');
is(usage($node, 'c', 'doc')->{file_bytes}, $size->{file_bytes}, 'too little for a cut');
$writer->query_safe('ROLLBACK');
$writer->quit;
fill($node, 'c', 201, 260, mb(1));
is(usage($node, 'c', 'doc')->{file_bytes}, $size->{file_bytes}, 'what was claimed can be lent again');
rows_right($node, 'c', 61, 'claimed and given back');
sound($node, 'c', 'claimed and given back');

$node->stop;
done_testing();
