# Runs as root, where it is called by root: the storm of space (283) on disks whose power is cut in
# every second round (test/powercut).  Two rounds here, an hour in check-long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileRandom;
use Test::More;

# SECUREFILE_SPACE_POWER_SECONDS: for so long
my $seconds = $ENV{SECUREFILE_SPACE_POWER_SECONDS};
random_run('holes of a disk whose power is cut', 'powercut/holes.py');
random_run('space storm with power cuts', 'model/space.py', '--power', $seconds ? ('--seconds', $seconds) : ('--rounds', 2, '--load', 1.5));
done_testing();
