# Runs as root, where it is called by root: the kill loop on a disk of its own whose
# power is cut.  Two rounds in each way here, thirty in check-long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileRandom;
use Test::More;

plan skip_all => 'mounting file systems needs root' if $> != 0;
plan skip_all => 'nothing can be mounted here' unless $ENV{SECUREFILE_SMALL_FS};

my $rounds = $ENV{SECUREFILE_POWER_ROUNDS} || 2;
foreach my $more ([], ['--async'])
{
	random_run("power is cut @$more", 'model/killloop.py', '--power', '--rounds', $rounds, @$more);
}
done_testing();
