# Runs as root, where it is called by root: compilers may be installed for the caller alone.
# The drivers of Go, JavaScript, Rust and Java, as doc/drivers.md has them (test/drivers);
# in check-long, or where SECUREFILE_PAYLOADS is set.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use CallersChild qw(start_child);
use Test::More;

BEGIN
{
	plan skip_all => 'a part of make check-long' unless $ENV{SECUREFILE_PAYLOADS};
	start_child();
}
use SecurefileDrivers;

try_stacks('go', 'node', 'rust', 'java');
done_testing();
