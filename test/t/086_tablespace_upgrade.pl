# pg_upgrade to PostgreSQL 17 with segments in tablespaces: their directories are to be
# brought from one version's directory of the tablespace to the other's.  One is encrypted.

use strict;
use warnings;
use Cwd qw(getcwd);
use File::Basename qw(basename dirname);
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $bin17 = $ENV{SECUREFILE_PG17_BIN}
  or plan skip_all => 'no PostgreSQL 17: ' . ($ENV{SECUREFILE_PG17_WHY} || 'test/run makes one');

my $top = PostgreSQL::Test::Utils::tempdir();
my %init = (init => { extra => [ '--data-checksums', '--encoding=UTF8', '--locale=C' ] });
my $old = new_cluster('old', %init, conf => [ 'securefile.monitor = off', master_key() ]);
plan skip_all => 'pg_upgrade with tablespaces is for an older server' if $old->pg_version >= 17;

mkdir "$top/space" or die $!;
$old->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$top/space'");
make_table($old, 'here');
make_table($old, 'there', '', 'TABLESPACE space');
make_table($old, 'apart', 'filesystem_like_logging');
make_table($old, 'sealed', 'encrypt', 'TABLESPACE space');
fill($old, $_, 1, 10, 'i * 30000') for ('here', 'there', 'apart', 'sealed');
fill($old, 'there', 11, 11, 13_000_000);
$old->safe_psql('postgres', q{DELETE FROM there WHERE id < 3; SELECT securefile_set_tablespace('apart', 'doc', 'space')});
$old->stop;

my $new = new_cluster('new', %init, start => 0, install_path => dirname($bin17), conf => [ master_key() ]);
my $back = getcwd();
mkdir "$top/run" and chdir "$top/run" or die $!;
command_ok([ "$bin17/pg_upgrade", '--no-sync', '-s', $old->host, '-b', $old->config_data('--bindir'), '-B', $bin17,
		'-d', $old->data_dir, '-D', $new->data_dir, '-p', $old->port, '-P', $new->port ], 'pg_upgrade');
chdir $back or die $!;

# ---- what was forgotten is said ----
my $finish = 'SELECT count(*) FROM securefile_upgrade_finish()';
system_or_bail('mv', $old->data_dir . '/pg_securefile', $new->data_dir);
$new->start;
fails_with($new, $finish, 58 . 'P01', 'data files of column "doc" of table "(there|apart|sealed)"', 'directory of the tablespace forgotten');
$new->stop;

my ($from) = glob("$top/space/PG_15_*/*/pg_securefile");
my ($to) = glob("$top/space/PG_17_*/" . basename(dirname($from)));
system_or_bail('mv', $from, $to);
$new->start;
is($new->safe_psql('postgres', $finish), 4, 'securefile_upgrade_finish()');
is($new->safe_psql('postgres', q{SELECT string_agg(relname || ' ' || tablespace, ', ' ORDER BY 1) FROM securefile_columns}),
	'apart space, here pg_default, sealed space, there space', 'all are where they were');
is(join('', glob("$to/pg_securefile/*/pages*")), '', 'the pages beside the data files are gone')
  if $new->safe_psql('postgres', q{SELECT orphans_removed FROM securefile_maintain('here', 'doc')}) ne '';
foreach my $step ('upgraded', 'moved')
{
	$new->safe_psql('postgres', 'ALTER TABLE there SET TABLESPACE pg_default; ALTER TABLE here SET TABLESPACE space; ALTER TABLE sealed SET TABLESPACE pg_default') if $step eq 'moved';
	fill($new, $_, $step eq 'moved' ? (30, 35) : (20, 25), 50_000) for ('here', 'there', 'apart', 'sealed');
	my $more = $step eq 'moved' ? 12 : 6;
	rows_right($new, 'here', 10 + $more, $step);
	rows_right($new, 'there', 9 + $more, $step);
	rows_right($new, $_, 10 + $more, $step) for ('apart', 'sealed');
	sound($new, $_, $step) for ('here', 'there', 'apart', 'sealed');
}
$new->stop;
done_testing();
