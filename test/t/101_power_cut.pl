# Runs as root, where it is called by root: it mounts disks whose power can be cut
# (test/powercut).  A few cuts here, hundreds in check-long.

use strict;
use warnings;
use FindBin;
use Test::More;

my $program = "$FindBin::RealBin/../powercut/powercut.py";

# One run of the program: its exit status, and one test unless it cannot be run here.
sub powercut
{
	my ($name, @arguments) = @_;
	my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
	open(my $out, '-|', "/usr/bin/python3 $program --seed $seed @arguments 2>&1") or die $!;
	my $output = join('', <$out>);
	close $out;
	my $status = $? >> 8;
	plan skip_all => $1 if $status == 77 && $output =~ /^not here: (.*)/m;
	ok($status == 0, "$name, seed $seed, @arguments") or diag($output);
	note($output);
	note("figures: $name: " . (split /\n/, $output)[-1]);
	return;
}

my $cuts = $ENV{SECUREFILE_POWER_CUTS} || 3;

# a test that cannot fail proves nothing
powercut('planted: no flush before commits, loss is found', '--planted', '--cuts 10', '--states 3');
powercut('WAL on a disk of its own', "--cuts $cuts", '--states 3');
if ($cuts > 3)
{
	powercut('WAL beside the data', '--one-disk', "--cuts $cuts", '--states 3');
	powercut('wal_level = minimal', '--wal-level minimal', "--cuts $cuts", '--states 3');
}
done_testing();
