# Python's drivers, SQLAlchemy and Django, PgBouncer and postgres_fdw, as doc/drivers.md
# has them (test/drivers/python).  In check-long, or where SECUREFILE_STACK is "python" or
# SECUREFILE_PAYLOADS is set.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileDrivers;
use Test::More;

plan skip_all => 'a part of make check-long' unless $ENV{SECUREFILE_PAYLOADS} || ($ENV{SECUREFILE_STACK} // '') eq 'python';

try_stacks('python');
done_testing();
