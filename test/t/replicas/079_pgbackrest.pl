# pgBackRest: full and incremental backups under a write load, restored to the
# end of the archive and to restore points, into new directories and over an old
# one.  What holds of values is what 072_backup says.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

grep { -x "$_/pgbackrest" } split /:/, $ENV{PATH} or die 'pgbackrest is missing: install it';

my $top = PostgreSQL::Test::Utils::tempdir();
mkdir "$top/$_" or die $! for ('repo', 'lock', 'log', 'spool');
my @pgbackrest = ('pgbackrest', "--config=$top/pgbackrest.conf", '--stanza=test');
my $primary = new_cluster('primary',
	init => { allows_streaming => 1, extra => ['--data-checksums'] },
	conf => [ master_key(), 'archive_mode = on', "archive_command = '@pgbackrest archive-push %p'" ]);
append_to_file("$top/pgbackrest.conf", join("\n", '[global]',
	"repo1-path=$top/repo", "lock-path=$top/lock", "log-path=$top/log", "spool-path=$top/spool",
	'start-fast=y', 'process-max=2', 'compress-level=1', 'log-level-console=warn', '[test]',
	'pg1-path=' . $primary->data_dir, 'pg1-socket-path=' . $primary->host, 'pg1-port=' . $primary->port,
	'pg1-user=' . $primary->safe_psql('postgres', 'SELECT current_user'), ''));
my ($out, $err) = run_command([ @pgbackrest, 'stanza-create' ]);
plan skip_all => 'this pgBackRest does not know this PostgreSQL' if "$out$err" =~ /VersionNotSupported/;
command_ok([ @pgbackrest, 'stanza-create' ], 'stanza-create');
command_ok([ @pgbackrest, 'check' ], 'check');

# l and f stay, tl and tf are truncated, and encrypted; rows 1 to 5 are never touched.  All
# numbers are the load's, so that none is met twice.
my @logging = ('l', 'tl');
my @tables = (@logging, 'f', 'tf');
make_table($primary, $_, join(', ', /f/ ? 'filesystem_like_logging' : (), /t/ ? 'encrypt' : ())) for @tables;
prepare_load($primary, changed => 31, keep => 10, size => 'CASE WHEN k % 8 = 0 THEN 3000000 ELSE (20000 + k::bigint * 7919 % 280000)::int END');
fill($primary, $_, 1, 40, 'size(i)') for @tables;

# A backup while a session writes; returns its label.
sub backup_under_load
{
	my ($type) = @_;
	under_load($primary, 5, sub {
		my $first = loaded($primary);
		command_ok([ @pgbackrest, "--type=$type", 'backup' ], "$type backup");
		cmp_ok(loaded($primary), '>', $first, "$type: there was a load");
	});
	my ($out) = run_command([ @pgbackrest, 'info' ]);
	return ($out =~ /$type backup: (\S+)/g)[-1];
}

# The next numbers of the load, which are nobody else's however far it has come: what is
# stored later has a greater one.
sub numbers
{
	my ($node, $count) = @_;
	return $node->safe_psql('postgres', "UPDATE load SET k = k + $count RETURNING k - $count + 1");
}

# Inserts, updates, deletes whose space is used again, TRUNCATE; the first of its numbers.
sub change
{
	my $id = numbers($primary, 30);
	foreach my $t ('l', 'f')
	{
		$primary->safe_psql('postgres', "UPDATE $t SET seed = id + $id, len = size(id + $id),"
			  . " doc = blob(id + $id, size(id + $id)) WHERE id BETWEEN 6 AND 20");
		$primary->safe_psql('postgres', "DELETE FROM $t WHERE id > 40 OR id IN (SELECT id FROM $t WHERE id > 20 LIMIT 3)");
		settle($primary, $t, 'doc');
		fill($primary, $t, $id, $id + 15, 'size(i)');
	}
	foreach my $t ('tl', 'tf')
	{
		$primary->safe_psql('postgres', "TRUNCATE $t");
		fill($primary, $t, $id, $id + 9, 'size(i)');
	}
	return $id;
}

sub model
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		join(' UNION ALL ', map { "SELECT '$_', id, seed, len FROM $_" } @tables) . ' ORDER BY 1, 2');
}

my %models;

sub point
{
	my ($name) = @_;
	$models{$name} = model($primary);
	$primary->safe_psql('postgres', "SELECT pg_create_restore_point('$name')");
	return;
}

my $full = backup_under_load('full');
my $after_full = change();
point('between');
my $incremental = backup_under_load('incr');
like($incremental, qr/^\Q$full\E_\d+-\d+I$/, 'the incremental backup is one of the full');
my $after_both = change();
point('after');
change();
$models{latest} = model($primary);
my $last = $primary->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
ok(wait_for_sql($primary, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver"), 'archived');

# A restored server, its values, and what it writes then.
sub check_restored
{
	my ($node, $name, $model, $base) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->start;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
	is(model($node), $models{$model}, "$name: rows are those of the target");
	is( $node->safe_psql('postgres',
			"SELECT string_agg(DISTINCT outcome(doc, seed, len), ' ') FROM f WHERE id <= 5 OR (id BETWEEN 6 AND 20 AND seed < $base)"),
		'right', "$name: what was there before the backup is in it");
	is( $node->safe_psql('postgres',
			"SELECT string_agg(DISTINCT outcome(doc, seed, len), ' ')"
			  . " FROM (TABLE f UNION ALL TABLE tf) t WHERE seed >= $base"),
		'58P01', "$name: what was stored after it is not");
	my $new = numbers($node, 5);
	foreach my $step ($name, "$name, written")
	{
		if ($step ne $name)
		{
			foreach my $t (@tables)
			{
				$node->safe_psql('postgres', "DELETE FROM $t WHERE id IN (SELECT id FROM $t ORDER BY id LIMIT 3)");
				$node->safe_psql('postgres', "UPDATE $t SET doc = blob(seed, len) WHERE id IN (SELECT id FROM $t ORDER BY id LIMIT 5)");
				fill($node, $t, $new, $new + 4, 400_000);
			}
		}
		foreach my $t (@logging)
		{
			rows_right($node, $t, $node->safe_psql('postgres', "SELECT count(*) FROM $t"), $step);
			sound($node, $t, $step);
		}
		foreach my $t ('f', 'tf')
		{
			my @behind = right_or_left_behind($node, $t, $step);
			next if $step eq $name;
			$node->safe_psql('postgres', "DELETE FROM $t WHERE id IN (" . join(', ', 0, @behind) . ')');
			sound($node, $t, $step);
		}
	}
	$node->stop;
	return;
}

my @restore = (@pgbackrest, '--archive-mode=off', 'restore');
my @cases = (
	[ 'latest', 'latest', $after_both ],
	[ 'to a point', 'after', $after_both, '--type=name', '--target=after', '--target-action=promote' ],
	[ 'from the full backup', 'between', $after_full, '--type=name', '--target=between', '--target-action=promote',
		"--set=$full" ],
	[ 'full, past the other', 'latest', $after_full, "--set=$full" ]);
foreach my $case (@cases)
{
	my ($name, $model, $base, @options) = @$case;
	my $node = PostgreSQL::Test::Cluster->new($name =~ s/\W+/_/gr);
	mkdir $node->data_dir, 0700 or die $!;
	command_ok([ @restore, '--pg1-path=' . $node->data_dir, @options ], "restore, $name");
	$node->append_conf('postgresql.conf', 'port = ' . $node->port);
	check_restored($node, $name, $model, $base);
}

# over the old directory, of a server that died
crash($primary);
unlink $primary->data_dir . '/postmaster.pid';
command_ok([ @restore, '--delta', '--type=name', '--target=after', '--target-action=promote' ], 'restore, in place');
check_restored($primary, 'in place', 'after', $after_both);
done_testing();
