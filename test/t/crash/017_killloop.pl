# The kill loop: three kills here, thirty in check-long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileRandom;
use Test::More;

my $rounds = $ENV{SECUREFILE_KILL_ROUNDS} || 3;
foreach my $more ([ '--wal-level', 'replica' ], [ '--wal-level', 'minimal' ], ['--async'])
{
	random_run("kill loop, @$more", 'model/killloop.py', '--rounds', $rounds, @$more);
	last if $rounds == 3;
}
done_testing();
