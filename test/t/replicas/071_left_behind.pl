# filesystem_like_logging columns on another server: data that is not in WAL gives an error
# that says so.  It is never read wrong, never reported as damage, and damage is never
# reported as missing data.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $len = 300_000;
my $primary = new_cluster('home', init => { allows_streaming => 1 }, conf => [ 'wal_keep_size = 1GB' ]);
$primary->backup('empty');
make_table($primary, 'f', 'filesystem_like_logging');
make_table($primary, 'l');
foreach my $t ('f', 'l')
{
	fill($primary, $t, 1, 5, $len);
}
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->backup('base');
my ($standby, $second, $early) = map { new_standby($_->[0], $primary, $_->[1]) } ([ 'away', 'base' ], [ 'second', 'base' ], [ 'early', 'empty' ]);
foreach my $t ('f', 'l')
{
	fill($primary, $t, 11, 15, $len);
}
fill($primary, 'f', 21, 21, 14_000_000);
catch_up($primary, $_) for ($standby, $second, $early);

# Values that are not there: the error, and what securefile_check lists.
sub left_behind
{
	my ($node, $ids, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $id (@$ids)
	{
		fails_with($node, "SELECT doc::bytea FROM f WHERE id = $id", '58P01', 'not on this server', "$name: row $id");
	}
	is( $node->safe_psql('postgres',
			"SELECT string_agg(DISTINCT f.id || ' ' || finding, ',' ORDER BY f.id || ' ' || finding)"
			  . " FROM securefile_check('f', 'doc') c LEFT JOIN f ON f.ctid = c.ctid"),
		join(',', sort map { "$_ data left behind" } @$ids), "$name: securefile_check lists them");
	return;
}
my @behind = (11 .. 15, 21);
rows_right($standby, 'l', 10, 'standby, logging');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM f WHERE id < 10 AND doc::bytea = blob(seed, len)'), 5,
	'standby: what was in the backup is there');
left_behind($standby, \@behind, 'standby');
is($standby->safe_psql('postgres', "SELECT sum(length(doc)) FROM f WHERE id = 11"), $len, 'the length is known');

# also from a backup of the time before the first column
rows_right($early, 'l', 10, 'early standby, logging');
left_behind($early, [ 1 .. 5, @behind ], 'early standby');
$early->stop;

# promoted, it goes on; new values are as safe as at home
$second->enable_streaming($standby);
$second->reload;
ok(wait_for_sql($standby, 'SELECT count(*) = 1 FROM pg_stat_replication'), 'the second standby follows');
catch_up($primary, $standby);
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
left_behind($standby, \@behind, 'promoted');
fill($standby, 'f', 31, 33, $len);
left_behind($standby, \@behind, 'promoted, written');

# another standby, of the same backup, follows the promoted one
catch_up($standby, $second);
left_behind($second, [ @behind, 31 .. 33 ], 'second standby');
$second->stop;
crash($standby);
$standby->start;
left_behind($standby, \@behind, 'promoted, crashed');
$standby->safe_psql('postgres', "UPDATE f SET doc = blob(seed, len) WHERE id = 11; DELETE FROM f WHERE id IN (12, 13, 14, 15, 21)");
rows_right($standby, 'f', 9, 'stored again, deleted');
sound($standby, 'f', 'stored again, deleted');

# damage to a value of the new time is damage
my ($file) = grep { slurp_file($_) =~ /./s } data_files($standby);
$standby->stop;
foreach my $path (data_files($standby))
{
	my $bytes = slurp_file($path);
	my $at = index($bytes, substr(`printf 31:1 | md5sum`, 0, 32));
	next if $at < 0;
	open(my $fh, '+<:raw', $path) or die $!;
	seek($fh, $at + 5, 0);
	print $fh 'damage';
	close $fh;
}
$standby->start;
fails_with($standby, 'SELECT doc::bytea FROM f WHERE id = 31', 'XX001', 'damaged', 'damage is damage');
$standby->stop;

# a backup that is started as it is: no signal file, no new timeline
fill($primary, 'f', 41, 42, $len);
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($primary, 'base');
$copy->start;
rows_right($copy, 'f', 5, 'plain restore');
my $restored = slurp_file($copy->data_dir . '/pg_securefile/restored');
like($restored, qr/^[0-9]+\n$/, 'the restore is noted');
fill($copy, 'f', 51, 52, $len);
rows_right($copy, 'f', 7, 'plain restore, written');
sound($copy, 'f', 'plain restore, written');
$copy->restart;
is(slurp_file($copy->data_dir . '/pg_securefile/restored'), $restored, 'a restart is none');
$copy->stop;
$primary->stop;
done_testing();
