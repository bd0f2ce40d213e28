# The random test of twins: a short run here, long ones in check-long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $seconds = $ENV{SECUREFILE_TWIN_SECONDS} || 15;
my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
my $node = new_cluster('twins', conf => [ 'max_prepared_transactions = 20', 'allow_in_place_tablespaces = on' ]);
my $output = '';

# All files of segments.
sub files
{
	my $dir = $node->data_dir;
	return join ' ', sort(glob("$dir/pg_securefile/1663/*/*/*"), glob("$dir/pg_tblspc/*/PG_*/*/pg_securefile/*/*/*"));
}

# what securefile_maintain is called for when all else is gone
make_table($node, 'last');
my $files = files();
my $ok = IPC::Run::run(
	[
		'/usr/bin/python3', "$FindBin::RealBin/../model/twins.py", '--dsn', $node->connstr('postgres'),
		'--seed', $seed, '--seconds', $seconds ],
	'>', \$output, '2>&1');
ok($ok, "twins, seed $seed") or diag($output);
note($output);
note('figures: ' . (split /\n/, $output)[-1]);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP: |terminated by signal/, 'server log');
SKIP:
{
	skip 'the tables of a failed run are kept', 1 unless $ok;
	settle($node, 'last', 'doc');
	is(files(), $files, 'no data files are left');
}
$node->stop;
done_testing();
