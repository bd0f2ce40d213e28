# The Node package clients/node, packed and installed by npm into an empty directory: its own
# tests, and the program of doc/drivers.md; in check-long, or where SECUREFILE_STACK is "node"
# or SECUREFILE_PAYLOADS is set.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use CallersChild qw(start_child);
use Test::More;

# Runs as root, where it is called by root: Node may be installed for the caller alone.
BEGIN
{
	plan skip_all => 'a part of make check-long' unless $ENV{SECUREFILE_PAYLOADS} || ($ENV{SECUREFILE_STACK} // '') eq 'node';
	start_child();
}
use SecurefileDrivers;

try_stacks('node_package');
done_testing();
