# PostgreSQL's own isolation tests, with the extension in every database.  In check-long, or
# where SECUREFILE_STACK is "core" or SECUREFILE_PAYLOADS is set.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileCore;
use Test::More;

plan skip_all => 'a part of make check-long' unless $ENV{SECUREFILE_PAYLOADS} || ($ENV{SECUREFILE_STACK} // '') eq 'core';
need_core();
my $input = 'src/test/isolation';
check_suites('isolation',
	[ { name => 'isolation', isolation => 1, input => $input, db => 'isolation_regression', tests => [ '--schedule=' . core_source("$input/isolation_schedule") ] } ]);
done_testing();
