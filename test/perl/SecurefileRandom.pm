# Runs of our randomised programs (test/model, test/zoo, test/powercut), for tests with
# and without a cluster.

package SecurefileRandom;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use IPC::Run;
use Test::More;

our @EXPORT = qw(random_run);

# Run a program, a path below test/, with a seed: one test, whose name has the seed and
# more if there is some.  What it says is noted, its last line as its figures.  Where it
# says that it cannot be run here (77) the whole file is skipped.  False if it failed.
sub random_run
{
	my ($name, $program, @arguments) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
	my $output = '';
	# the server has a master key
	local $ENV{SECUREFILE_ENCRYPTS} = 1;
	my $ok = IPC::Run::run([ '/usr/bin/python3', "$FindBin::RealBin/../../$program", '--seed', $seed, @arguments ], '>', \$output, '2>&1');
	plan skip_all => $1 if $? >> 8 == 77 && $output =~ /^not here: (.*)/m;
	ok($ok, "$name, seed $seed") or diag("@arguments\n$output");
	note($output);
	note("figures: $name: " . (split /\n/, $output)[-1]);
	return $ok;
}

1;
