# The storm of space: two kills here, an hour in check-long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileRandom;
use Test::More;

# SECUREFILE_SPACE_SECONDS: for so long
my $seconds = $ENV{SECUREFILE_SPACE_SECONDS};
random_run('space storm', 'model/space.py', $seconds ? ('--seconds', $seconds) : ('--rounds', 2, '--load', 1.5));
done_testing();
