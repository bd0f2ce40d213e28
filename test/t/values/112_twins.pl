# The random test of twins: a short run here, long ones in check-long.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileRandom;
use SecurefileTest;
use Test::More;

my $seconds = $ENV{SECUREFILE_TWIN_SECONDS} || 15;
my $memory = int(rand(2)) ? '64MB' : '0';
$ENV{SECUREFILE_CHECK_READS} = 1;
# a write that should make a commit durable, and fails, is no reason to panic here
my $node = new_cluster('twins', conf => [ master_key(), 'data_sync_retry = on', 'max_prepared_transactions = 20', 'allow_in_place_tablespaces = on',
	"securefile.transaction_memory = '$memory'" ]);
note("securefile.transaction_memory = $memory");

# All files of segments.
sub files
{
	my $dir = $node->data_dir;
	return join ' ', sort(glob("$dir/pg_securefile/1663/*/*/*"), glob("$dir/pg_tblspc/*/PG_*/*/pg_securefile/*/*/*"));
}

# what securefile_maintain is called for when all else is gone
make_table($node, 'last');
my $files = files();
my $ok = random_run('twins', 'model/twins.py', '--dsn', $node->connstr('postgres'), '--seconds', $seconds);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP: |terminated by signal/, 'server log');
SKIP:
{
	skip 'the tables of a failed run are kept', 1 unless $ok;
	settle($node, 'last', 'doc');
	# the monitor may be removing them
	wait_until(sub { files() eq $files });
	is(files(), $files, 'no data files are left');
}
$node->stop;
done_testing();
