# The Go package clients/go: its own tests, and the program of doc/drivers.md in an empty
# module; in check-long, or where SECUREFILE_STACK is "go" or SECUREFILE_PAYLOADS is set.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use CallersChild qw(start_child);
use Test::More;

# Runs as root, where it is called by root: Go may be installed for the caller alone.
BEGIN
{
	plan skip_all => 'a part of make check-long' unless $ENV{SECUREFILE_PAYLOADS} || ($ENV{SECUREFILE_STACK} // '') eq 'go';
	start_child();
}
use SecurefileDrivers;

try_stacks('go_package');
done_testing();
