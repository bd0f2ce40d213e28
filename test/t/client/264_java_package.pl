# The Java artifact clients/java: its own tests, and the program of doc/drivers.md in a project of
# its own; in check-long, or where SECUREFILE_STACK is "java" or SECUREFILE_PAYLOADS is set.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use CallersChild qw(start_child);
use Test::More;

# Runs as root, where it is called by root: Java may be installed for the caller alone.
BEGIN
{
	plan skip_all => 'a part of make check-long' unless $ENV{SECUREFILE_PAYLOADS} || ($ENV{SECUREFILE_STACK} // '') eq 'java';
	start_child();
}
use SecurefileDrivers;

try_stacks('java_package');
done_testing();
