# The kill loop: three kills here, thirty in check-long.

use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{SECUREFILE_KILL_ROUNDS} || 3;
foreach my $more ([ '--wal-level', 'replica' ], [ '--wal-level', 'minimal' ], ['--async'])
{
	my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
	my $output = '';
	my $ok = IPC::Run::run(
		[
			'/usr/bin/python3', "$FindBin::RealBin/../model/killloop.py", '--seed', $seed,
			'--rounds', $rounds, @$more ],
		'>', \$output, '2>&1');
	ok($ok, "kill loop, seed $seed, @$more") or diag($output);
	note($output);
	note('figures: ' . (split /\n/, $output)[-1]);
	last if $rounds == 3;
}
done_testing();
