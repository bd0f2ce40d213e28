# Runs as root, where it is called by root: the kill loop on a disk of its own whose
# power is cut.  Two rounds in each way here, thirty in check-long.

use strict;
use warnings;
use FindBin;
use Test::More;

plan skip_all => 'mounting file systems needs root' if $> != 0;
plan skip_all => 'nothing can be mounted here' unless $ENV{SECUREFILE_SMALL_FS};

my $rounds = $ENV{SECUREFILE_POWER_ROUNDS} || 2;
foreach my $more ('', '--async')
{
	my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
	my $command = "$FindBin::RealBin/../model/killloop.py --power --seed $seed --rounds $rounds $more";
	open(my $out, '-|', "/usr/bin/python3 $command 2>&1") or die $!;
	my $output = join('', <$out>);
	ok(close($out), "power is cut, seed $seed, $rounds rounds $more") or diag($output);
	note($output);
	note("figures: power is cut $more: " . (split /\n/, $output)[-1]);
}
done_testing();
