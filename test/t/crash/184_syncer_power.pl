# Runs as root, where it is called by root: the power is cut at every step of a writer, the
# syncer and a checkpoint (test/powercut/syncer.py).  Some orders here, all in check-long.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileRandom;
use Test::More;

# a test that cannot fail proves nothing
random_run('planted: each error of the protocol loses data', 'powercut/syncer.py', '--planted');
my $orders = $ENV{SECUREFILE_SYNCER_ORDERS} || 6;
random_run('the power is cut at every step', 'powercut/syncer.py',
	$orders eq 'all' ? '--all' : ('--orders', $orders));
done_testing();
