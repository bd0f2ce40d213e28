# Primary and standby under load, killed and promoted: two rounds here, twenty in
# check-long.

use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
my $output = '';
my $ok = IPC::Run::run(
	[
		'/usr/bin/python3', "$FindBin::RealBin/../model/pairloop.py", '--seed', $seed,
		'--rounds', $ENV{SECUREFILE_PAIR_ROUNDS} || 2 ],
	'>', \$output, '2>&1');
ok($ok, "pair loop, seed $seed") or diag($output);
note($output);
note('figures: ' . (split /\n/, $output)[-1]);
done_testing();
