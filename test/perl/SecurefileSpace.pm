# For tests of the space of a column: how long its files are and what they take of the disk, and
# functions of C that call the library where SQL does not.

package SecurefileSpace;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use PostgreSQL::Test::Utils;
use SecurefileTest;

our @EXPORT = qw(file_bytes disk_bytes c_functions);

# Of column doc of a table, in the cluster that sql() asks.
sub file_bytes { return sql("SELECT file_bytes FROM securefile_usage('$_[0]', 'doc')"); }
sub disk_bytes { return sql("SELECT disk_bytes FROM securefile_usage('$_[0]', 'doc')"); }

# Build a module of test/modules against a library with fault points, and make its functions:
# name, arguments and result of each.
sub c_functions
{
	my ($module, @functions) = @_;
	# other tests that use it may run at the same time
	my $library = "$ENV{TESTDIR}/$module.$$.so";
	system_or_bail('gcc', '-O2', '-shared', '-fPIC', '-DSF_FAULTS', '-o', $library, '-I', "$FindBin::RealBin/../../../src", '-I', $ENV{SECUREFILE_INCLUDE},
		"$FindBin::RealBin/../../modules/$module.c");
	return sql(map { "CREATE FUNCTION $_ AS '$library' LANGUAGE C STRICT" } @functions);
}

1;
