# Runs as root, where it is called by root: it mounts disks whose power can be cut
# (test/powercut).  A few cuts here, hundreds in check-long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileRandom;
use Test::More;

sub powercut
{
	my ($name, @arguments) = @_;
	return random_run($name, 'powercut/powercut.py', @arguments, '--states', 3);
}

my $cuts = $ENV{SECUREFILE_POWER_CUTS} || 3;

# a test that cannot fail proves nothing
powercut('planted: no flush before commits, loss is found', '--planted', '--cuts', 40);
powercut('WAL on a disk of its own', '--cuts', $cuts);
if ($cuts > 3)
{
	powercut('WAL beside the data', '--one-disk', '--cuts', $cuts);
	powercut('wal_level = minimal', '--wal-level', 'minimal', '--cuts', $cuts);
}
done_testing();
