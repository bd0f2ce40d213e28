# Runs the tests of the Python package clients/python on a server of their own, and reports
# what they print.

package SecurefilePython;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use SecurefileDrivers;
use Test::More;

our @EXPORT = qw(has_modules try_package);

my $package = "$FindBin::RealBin/../../../clients/python";

# Whether a Python has these modules.
sub has_modules
{
	my ($python, @modules) = @_;
	return -x $python && system_log($python, '-c', 'import ' . join(', ', @modules)) == 0;
}

# The test modules of the sources; or with the package that the Python has, those of the
# sources that it was built from.
sub try_package
{
	my ($python, $built_from, @modules) = @_;
	my $node = new_cluster('python');
	my $log = "$PostgreSQL::Test::Utils::log_path/python_$modules[0].txt";
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';
	local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
	local $ENV{PYTHONPATH} = $built_from ? '' : "$package/src";
	local $ENV{PGSECUREFILE_LONG} = $ENV{SECUREFILE_PAYLOADS} ? 1 : '';

	my $status = system('sh', '-c', 'log=$1; shift; exec "$@" >"$log" 2>&1', 'sh', $log, $python, '-W', 'error::ResourceWarning',
		($built_from || $package) . '/tests/run.py', @modules);
	my $lines = slurp_file($log);
	report_lines($lines);
	is($status, 0, "$modules[0]: all was tried") or diag($lines);
	$node->stop;
	return;
}

1;
