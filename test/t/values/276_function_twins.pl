# The random test of functions that search, compare, cut and edit values, of handles, and of
# files of the server, beside bytes: a short run here, a long one in check-long.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileRandom;
use SecurefileTest;
use Test::More;

my $cases = $ENV{SECUREFILE_FUNCTION_CASES} || 700;
my $node = new_cluster('functions', conf => [ master_key(), 'fsync = off', 'statement_timeout = ' . patience() . 's' ]);
my $dir = PostgreSQL::Test::Utils::tempdir();

random_run('functions', 'model/function_twins.py', '--dsn', $node->connstr('postgres'), '--cases', $cases, '--directory', $dir);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP: |terminated by signal/, 'server log');
$node->stop;
done_testing();
