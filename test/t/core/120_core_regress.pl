# PostgreSQL's own regression tests, with the extension in every database.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileCore;
use Test::More;

need_core();
my $input = 'src/test/regress';
check_suites('regress',
	[ { name => 'regress', input => $input, tests => [ '--schedule=' . core_source("$input/parallel_schedule") ] } ]);
done_testing();
