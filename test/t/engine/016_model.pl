# The randomised model test: short runs here, long ones in check-long.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileRandom;
use SecurefileTest;
use Test::More;

my $seconds = $ENV{SECUREFILE_MODEL_SECONDS} || 12;
my $runs = $ENV{SECUREFILE_MODEL_RUNS} || 3;
$ENV{SECUREFILE_CHECK_READS} = 1;
my $node = new_cluster('model', conf => [ master_key(), 'autovacuum = on', "autovacuum_naptime = '1s'",
	'max_prepared_transactions = 20', 'checkpoint_timeout = 30s' ]);
# each stays for the next ones
my @settings = ('', "securefile.io_method = io_uring\nsecurefile.transaction_memory = 0", 'securefile.monitor = off');

foreach my $run (0 .. $runs - 1)
{
	$node->append_conf('postgresql.conf', $settings[ $run % @settings ]);
	$node->restart;
	my $offset = -s $node->logfile;
	random_run("model $settings[$run % @settings]", 'model/model.py', '--dsn', $node->connstr('postgres'), '--seconds', $seconds);
	unlike(slurp_file($node->logfile, $offset), qr/PANIC|TRAP: |terminated by signal/, 'server log');
}
$node->stop;
done_testing();
