# Base backups under a write load, and point-in-time recovery from them: values of
# logging columns are what they were; those of filesystem_like_logging columns too,
# or the error says that their data was not in the backup.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $primary = new_cluster('primary',
	init => { allows_streaming => 1, has_archiving => 1, extra => ['--data-checksums'] });
my %options = (l => '', f => 'filesystem_like_logging');
foreach my $t (sort keys %options)
{
	make_table($primary, $t, $options{$t});
	fill($primary, $t, 1, 20, '20000 + i * 20000');
	fill($primary, $t, 21, 21, 14_000_000);
}

# Rows 1 to 10 stay.  The newest number is in "load".
prepare_load($primary, changed => 11, keep => 20, size => 'CASE WHEN k % 8 = 0 THEN 3000000 ELSE 20000 + k * 7919 % 280000 END');

# A base backup while a session writes; how far that had come when it began.
sub backup_under_load
{
	my ($name, @options) = @_;
	my $first;
	under_load($primary, 20, sub {
		$first = loaded($primary);
		$primary->backup($name, backup_options => [ '--max-rate=30M', @options ]);
	});
	return $first;
}

# A restored server goes on writing, and its space is in order.
sub goes_on
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $count = $node->safe_psql('postgres', 'SELECT count(*) FROM l');
	my @behind = right_or_left_behind($node, 'f', $name);

	rows_right($node, 'l', $count, $name);
	sound($node, 'l', $name);
	my %written = map { $_ => 1 }
	  split /\n/, $node->safe_psql('postgres', 'SELECT id FROM f ORDER BY id LIMIT 10');
	foreach my $t ('l', 'f')
	{
		$node->safe_psql('postgres', "DELETE FROM $t WHERE id IN (SELECT id FROM $t ORDER BY id LIMIT 5)");
		$node->safe_psql('postgres', "UPDATE $t SET doc = blob(seed, len) WHERE id IN (SELECT id FROM $t ORDER BY id LIMIT 5)");
		fill($node, $t, 100001, 100005, 400_000);
	}
	rows_right($node, 'l', $count, "$name, written");
	sound($node, 'l', "$name, written");
	my @now = right_or_left_behind($node, 'f', "$name, written");
	is("@now", join(' ', grep { !$written{$_} } @behind), "$name, written: no more are left behind");
	$node->safe_psql('postgres', "DELETE FROM f WHERE id IN (" . join(', ', 0, @now) . ")");
	sound($node, 'f', "$name, written");
	return;
}

sub restored
{
	my ($backup, $name, $target, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, $backup, standby => 0, %params);
	$node->append_conf('postgresql.conf', "archive_mode = off\n$target");
	$node->start;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
	return $node;
}

my $first = backup_under_load('plain');
command_ok([ 'pg_verifybackup', $primary->backup_dir . '/plain' ], 'pg_verifybackup');
my $node = restored('plain', 'plain', '');
cmp_ok(loaded($node), '>', $first, 'plain: there was a load');
is($node->safe_psql('postgres', "SELECT string_agg(outcome(doc, seed, len), ' ') FROM f WHERE id <= 5"),
	'right right right right right', 'plain: what was there before the backup is in it');
goes_on($node, 'plain');
$node->stop;

$first = backup_under_load('tar', '--format=tar', '--wal-method=stream', '--gzip');
foreach my $file ('base', 'pg_wal')
{
	system_or_bail('gunzip', $primary->backup_dir . "/tar/$file.tar.gz");
}
$node = restored('tar', 'tar', '', tar_program => 'tar');
cmp_ok(loaded($node), '>', $first, 'tar: there was a load');
goes_on($node, 'tar');
$node->stop;

# ---- point-in-time recovery from the plain backup ----

sub model
{
	return $_[0]->safe_psql('postgres',
		"SELECT 'l', id, seed, len FROM l UNION ALL SELECT 'f', id, seed, len FROM f ORDER BY 1, 2");
}

# Take away most rows, and use their space again.
sub churn
{
	my ($id) = @_;
	foreach my $t ('l', 'f')
	{
		$primary->safe_psql('postgres', "DELETE FROM $t WHERE id > 3");
		settle($primary, $t, 'doc');
		fill($primary, $t, $id, $id + 20, '30000 + i % 20 * 15000');
	}
	return;
}
my %targets;
my %models;
$models{name} = model($primary);
$primary->safe_psql('postgres', "SELECT pg_create_restore_point('here')");
$targets{name} = "recovery_target_name = 'here'";
churn(2001);

$models{lsn} = model($primary);
$targets{lsn} = "recovery_target_lsn = '" . $primary->lsn('insert') . "'";
$primary->safe_psql('postgres', 'TRUNCATE l, f');
fill($primary, $_, 3001, 3010, '50000 + i % 10 * 100000') for ('l', 'f');

$models{time} = model($primary);
$targets{time} = "recovery_target_time = '" . $primary->safe_psql('postgres', 'SELECT clock_timestamp()') . "'";
$primary->safe_psql('postgres', 'SELECT pg_sleep(0.01)');
churn(4001);
$primary->safe_psql('postgres', 'VACUUM FULL l; TRUNCATE f');
fill($primary, $_, 5001, 5010, 500_000) for ('l', 'f');
my $last = $primary->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
ok(wait_for_sql($primary, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver"), 'archived');

foreach my $kind ('name', 'lsn', 'time')
{
	$node = restored('plain', "to_$kind", "$targets{$kind}\nrecovery_target_action = promote", has_restoring => 1);
	is(model($node), $models{$kind}, "$kind: rows are those of the target");
	my $id = { name => 1, lsn => 2001, time => 3001 }->{$kind};
	is($node->safe_psql('postgres', "SELECT outcome(doc, seed, len) FROM f WHERE id = $id"),
		$id == 1 ? 'right' : '58P01', "$kind: the backup has what it can have");
	goes_on($node, "to $kind");
	$node->stop;
}
$primary->stop;
done_testing();
