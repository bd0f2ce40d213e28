# Primary and standby under load, killed and promoted: two rounds here, twenty in
# check-long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileRandom;
use Test::More;

random_run('pair loop', 'model/pairloop.py', '--rounds', $ENV{SECUREFILE_PAIR_ROUNDS} || 2);
done_testing();
