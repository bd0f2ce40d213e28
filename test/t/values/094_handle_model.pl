# The randomised test of handles: a short run here, long ones and kills in check-long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileRandom;
use SecurefileTest;
use Test::More;

my $rounds = $ENV{SECUREFILE_HANDLE_ROUNDS} || 80;
my $runs = $ENV{SECUREFILE_HANDLE_RUNS} || 2;
my $kills = $ENV{SECUREFILE_HANDLE_KILLS} || 0;
$ENV{SECUREFILE_CHECK_READS} = 1;
my $node = new_cluster('handles', conf => [ master_key(), 'max_prepared_transactions = 20' ]);
my @settings = ('', "securefile.monitor = off\nsecurefile.write_gather_size = 256kB\nsecurefile.io_method = io_uring");

foreach my $run (0 .. $runs - 1)
{
	$node->append_conf('postgresql.conf', $settings[ $run % @settings ]);
	$node->restart;
	my $offset = -s $node->logfile;
	random_run("handles, run $run", 'model/handles.py', '--dsn', $node->connstr('postgres'), '--rounds', $rounds);
	unlike(slurp_file($node->logfile, $offset), qr/PANIC|TRAP: |terminated by signal/, 'server log');
}
$node->stop;
random_run("handles, $kills kills", 'model/handles.py', '--kill', $kills) if $kills;
done_testing();
