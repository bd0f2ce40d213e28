# Runs stacks of test/drivers and reports what they print.

package SecurefileDrivers;

use strict;
use warnings;

use CallersChild qw(as_caller);
use Exporter qw(import);
use FindBin;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

our @EXPORT = qw(report_lines try_stacks);

# One test for each line that they print.
sub report_lines
{
	my ($lines) = @_;
	foreach my $line (split /\n/, $lines)
	{
		if ($line =~ /^skip - (.*)/)
		{
			SKIP: { skip($1, 1); }
		}
		elsif ($line =~ /^(ok|not ok) - (.*)/)
		{
			ok($1 eq 'ok', $2);
		}
		else
		{
			note($line);
		}
	}
	return;
}

# A server of its own for them.  Their programs are the caller's, if there is a child that
# stayed so.  Java speaks TCP only.
sub try_stacks
{
	my (@stacks) = @_;
	my $node = new_cluster('drivers', conf => ["listen_addresses = '127.0.0.1'"]);
	my $log = "$PostgreSQL::Test::Utils::log_path/drivers_@stacks.txt" =~ tr/ /_/r;
	my @server = ('PGHOST=127.0.0.1', 'PGPORT=' . $node->port, 'PGUSER=' . getpwuid($>), 'PGDATABASE=postgres');

	as_caller('env', @server, 'sh', '-c', 'out=$1; shift; exec "$@" >"$out" 2>&1', 'sh', $log, "$FindBin::RealBin/../../drivers/run", @stacks);
	my $lines = slurp_file($log);
	report_lines($lines);
	like($lines, qr/^\d+ passed, 0 failed, \d+ skipped$/m, 'all was tried') or diag($lines);
	note("figures: drivers: @stacks: $1") if $lines =~ /^(\d+ passed, .*)/m;
	$node->stop;
	return;
}

1;
