# Python's drivers, SQLAlchemy and Django, PgBouncer and postgres_fdw, as doc/drivers.md
# has them (test/drivers/python).
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileDrivers;
use Test::More;

try_stacks('python');
done_testing();
