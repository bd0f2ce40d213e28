# Trap 19: DROP TABLE and TRUNCATE while the monitor works on the segment, with a standby
# replaying: no process spins on the primary, none dies on the standby.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(usleep);

my $primary = new_cluster('tended',
	init => { allows_streaming => 1 },
	conf => [ 'wal_keep_size = 1GB', "wal_consistency_checking = 'all, securefile'" ]);
need_faults($primary);
$primary->backup('base');
my $standby = new_standby('tended_standby', $primary, 'base');

# The monitor stands in the middle of its work while the command comes.
foreach my $point ('resolve_before', 'resolve_after', 'truncate_before_claim', 'truncate_before_file')
{
	foreach my $command ('DROP TABLE', 'TRUNCATE')
	{
		make_table($primary, 'd', 'filesystem_like_logging');
		fill($primary, 'd', 101, 120, 60_000);
		$primary->safe_psql('postgres', 'INSERT INTO d SELECT i, 1, 9000000, b FROM (SELECT blob(1, 9000000)) s (b), generate_series(1, 20) i')
		  if $point =~ /truncate/;
		$primary->restart if $point =~ /truncate/;	# forgets the demand, so that the tail is cut
		arm($primary, $point, 'wait');
		$primary->safe_psql('postgres', 'DELETE FROM d WHERE id <> 101');
		ok(wait_for_sql($primary, "SELECT securefile_fault_fired('$point') > 0"), "the monitor stands at $point");
		my $session = background($primary);
		my $pid = $session->query_safe('SELECT pg_backend_pid()');
		ok(waits_for_lock($primary, $session, "$command d"), "$command waits for it");
		# a process that spins is hardly ever found asleep
		my $asleep = grep { usleep(20_000); process_state($pid) eq 'S' } 1 .. 20;
		cmp_ok($asleep, '>', 10, 'and does not spin meanwhile');
		disarm($primary);
		is($session->query_safe('SELECT 1'), 1, "$command goes on");
		$session->quit;
		$primary->safe_psql('postgres', 'DROP TABLE IF EXISTS d');
	}
}

# The same by chance: tables come and go as fast as they can.
foreach my $i (1 .. 40)
{
	$primary->safe_psql('postgres', "CREATE TABLE c$i (id int PRIMARY KEY, seed int, len int, doc securefile);"
		  . " INSERT INTO c$i SELECT i, i, 20000, blob(i, 20000) FROM generate_series(1, 20) i");
	$primary->safe_psql('postgres', "DELETE FROM c$i WHERE id > 3");
	usleep(50_000) if $i % 5 == 0;
	$primary->safe_psql('postgres', $i % 2 ? "DROP TABLE c$i" : "TRUNCATE c$i");
}
fill($primary, 'c40', 1, 5, 20_000);
$primary->wait_for_catchup($standby->name, 'replay', $primary->lsn('flush'));
rows_right($standby, 'c40', 5, 'the standby follows');
unlike(slurp_file($standby->logfile), qr/PANIC|TRAP|FATAL:  inconsistent/, 'log of the standby');
unlike(slurp_file($primary->logfile), qr/PANIC|TRAP/, 'log of the primary');
sound($primary, 'c40', 'at the end');
$standby->stop;
$primary->stop;
done_testing();
