# pg_upgrade with segments in tablespaces: their directories are to be brought from one
# version's directory of the tablespace to the other's, but for --swap, which takes them
# along.  One is encrypted.  Needs SECUREFILE_NEXT_BIN.

use strict;
use warnings;
use File::Basename qw(basename dirname);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use SecurefileUpgrade;
use Test::More;

need_later_server();

my $top = PostgreSQL::Test::Utils::tempdir();
my @tables = ('here', 'there', 'apart', 'sealed');
my $finish = 'SELECT count(*) FROM securefile_upgrade_finish()';

# Directories of data files in a tablespace, of all versions.
sub brought { return glob("$_[0]/PG_*/*/pg_securefile"); }

# As doc/operations.md says.
sub move_directories
{
	my ($space, $major) = @_;
	my ($from) = brought($space);
	my ($to) = glob("$space/PG_${major}_*/" . basename(dirname($from)));
	return system_or_bail('mv', $from, $to);
}

sub try
{
	my ($way) = @_;
	my $id = $way =~ s/-//gr;
	my $space = "$top/space_$id";
	my $old = new_cluster("old_$id", init => init_params(1), conf => [ 'securefile.monitor = off', master_key() ]);

	mkdir $space or die $!;
	$old->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$space'");
	make_table($old, 'here');
	make_table($old, 'there', '', 'TABLESPACE space');
	make_table($old, 'apart', 'filesystem_like_logging');
	make_table($old, 'sealed', 'encrypt', 'TABLESPACE space');
	fill($old, $_, 1, 10, 'i * 30000') for @tables;
	fill($old, 'there', 11, 11, 13_000_000);
	$old->safe_psql('postgres', q{DELETE FROM there WHERE id < 3; SELECT securefile_set_tablespace('apart', 'doc', 'space')});
	$old->stop;

	my $new = later_cluster("new_$id", conf => [ master_key() ]);
	my $major = slurp_file($new->data_dir . '/PG_VERSION') + 0;
	upgrade($old, $new, 'tablespaces', $way) or BAIL_OUT('no upgrade');
	bring($old, $new);

	# ---- what was forgotten is said ----
	if ($way ne '--swap')
	{
		$new->start;
		fails_with($new, $finish, 58 . 'P01', 'data files of column "doc" of table "(there|apart|sealed)"', "$way: directory of the tablespace forgotten");
		$new->stop;
		move_directories($space, $major);
	}
	my @brought = brought($space);
	is(scalar(@brought), 1, "$way: one version's directory has data files");
	like($brought[0], qr{/PG_${major}_}, "$way: that of the new version");
	$new->start;
	is($new->safe_psql('postgres', $finish), 4, "$way: securefile_upgrade_finish()");
	is($new->safe_psql('postgres', q{SELECT string_agg(relname || ' ' || tablespace, ', ' ORDER BY 1) FROM securefile_columns}),
		'apart space, here pg_default, sealed space, there space', "$way: all are where they were");
	$new->safe_psql('postgres', q{SELECT securefile_maintain('here', 'doc')});
	is(join('', glob("$brought[0]/*/pages*")), '', "$way: the pages beside the data files are gone");
	foreach my $step ('upgraded', 'moved')
	{
		$new->safe_psql('postgres', 'ALTER TABLE there SET TABLESPACE pg_default; ALTER TABLE here SET TABLESPACE space; ALTER TABLE sealed SET TABLESPACE pg_default') if $step eq 'moved';
		fill($new, $_, $step eq 'moved' ? (30, 35) : (20, 25), 50_000) for @tables;
		my $more = $step eq 'moved' ? 12 : 6;
		rows_right($new, 'here', 10 + $more, "$way, $step");
		rows_right($new, 'there', 9 + $more, "$way, $step");
		rows_right($new, $_, 10 + $more, "$way, $step") for ('apart', 'sealed');
		sound($new, $_, "$way, $step") for @tables;
	}
	$new->stop;
	return;
}

try($_) foreach '--copy', can_swap() ? ('--swap') : ();
done_testing();
