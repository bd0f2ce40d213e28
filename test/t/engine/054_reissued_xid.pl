# Trap 22, rule 3: a space entry of a transaction whose only trace in WAL it is.
# Its record must carry a transaction number, or a crash hands the number out
# again, to a transaction whose end would decide over the entry.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('reissued_xid', conf => ['securefile.monitor = off']);
make_table($node, 't', 'filesystem_like_logging');	# no data records, which carry it too
fill($node, 't', 1, 2, 14_000_000);

# after ours, so that inode pages are written and no row follows
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION veto() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE TRIGGER "~~veto" BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.id >= 100) EXECUTE FUNCTION veto();});
$node->safe_psql('postgres', 'CHECKPOINT');

foreach my $begin ('BEGIN', 'BEGIN; SAVEPOINT a', 'BEGIN; SAVEPOINT a; SAVEPOINT b')
{
	my $session = background($node);
	$session->query_safe($begin);
	$session->query_safe('INSERT INTO t VALUES (100, 100, 14000000, blob(100, 14000000))');
	my $xid = $session->query_safe('SELECT coalesce(pg_current_xact_id_if_assigned()::text, \'0\')');
	cmp_ok($xid, '>', 0, "$begin: space entries need a number");
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	crash($node);
	eval { $session->quit };
	$node->start;
	cmp_ok($node->safe_psql('postgres', 'SELECT pg_current_xact_id()'),
		'>', $xid, "$begin: the number is not given out again after a crash");
	sound($node, 't', $begin);
	rows_right($node, 't', 2, $begin);
}
$node->stop;
done_testing();
