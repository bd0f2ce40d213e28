# PostgreSQL's own isolation tests, with the extension in every database.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileCore;
use Test::More;

need_core();
my $input = 'src/test/isolation';
check_suites('isolation',
	[ { name => 'isolation', isolation => 1, input => $input, db => 'isolation_regression', tests => [ '--schedule=' . core_source("$input/isolation_schedule") ] } ]);
done_testing();
