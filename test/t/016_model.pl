# The randomised model test: short runs here, long ones in check-long.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $seconds = $ENV{SECUREFILE_MODEL_SECONDS} || 12;
my $runs = $ENV{SECUREFILE_MODEL_RUNS} || 3;
my $node = new_cluster('model', conf => [ 'autovacuum = on', "autovacuum_naptime = '1s'",
	'max_prepared_transactions = 20', 'checkpoint_timeout = 30s' ]);
my @settings = ('', 'securefile.io_method = io_uring', 'securefile.monitor = off');

foreach my $run (0 .. $runs - 1)
{
	$node->append_conf('postgresql.conf', $settings[ $run % @settings ]);
	$node->restart;
	my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
	my $offset = -s $node->logfile;
	my $output = '';
	my $ok = IPC::Run::run(
		[
			'/usr/bin/python3', "$FindBin::RealBin/../model/model.py", '--dsn', $node->connstr('postgres'),
			'--seed', $seed, '--seconds', $seconds ],
		'>', \$output, '2>&1');
	ok($ok, "model, seed $seed $settings[$run % @settings]") or diag($output);
	note($output);
	note('figures: ' . (split /\n/, $output)[-1]);
	unlike(slurp_file($node->logfile, $offset), qr/PANIC|TRAP: |terminated by signal/, 'server log');
}
$node->stop;
done_testing();
