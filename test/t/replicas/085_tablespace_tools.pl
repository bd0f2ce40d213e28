# Tools that read all files below a tablespace, and our files there: base backups
# (plain and tar, one in the middle of a move), pg_verifybackup, pg_checksums, pg_rewind,
# pgBackRest, all with data checksums on.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $top = PostgreSQL::Test::Utils::tempdir();
my @pgbackrest = ('pgbackrest', "--config=$top/pgbackrest.conf", '--stanza=test');
mkdir "$top/$_" or die $! for ('space', 'repo', 'lock', 'log', 'spool');
my $primary = new_cluster('primary',
	init => { allows_streaming => 1, extra => ['--data-checksums'] },
	conf => [ 'wal_log_hints = on', 'wal_keep_size = 1GB', 'archive_mode = on',
		"archive_command = '@pgbackrest archive-push %p'" ]);
need_faults($primary);
append_to_file("$top/pgbackrest.conf", join("\n", '[global]', "repo1-path=$top/repo", "lock-path=$top/lock",
	"log-path=$top/log", "spool-path=$top/spool", 'start-fast=y', 'repo1-retention-full=2', 'compress-level=1', 'log-level-console=warn', '[test]',
	'pg1-path=' . $primary->data_dir, 'pg1-socket-path=' . $primary->host, 'pg1-port=' . $primary->port,
	'pg1-user=' . $primary->safe_psql('postgres', 'SELECT current_user'), ''));
# an old one does not know a new server: then WAL is copied, and the rest is tried
my ($out, $err) = run_command([ @pgbackrest, 'stanza-create' ]);
my $pgbackrest_knows = "$out$err" !~ /VersionNotSupported/;
if ($pgbackrest_knows)
{
	command_ok([ @pgbackrest, 'stanza-create' ], 'stanza-create');
}
else
{
	mkdir "$top/wal" or die $!;
	$primary->append_conf('postgresql.conf', "archive_command = 'cp %p $top/wal/%f'");
	$primary->reload;
}
$primary->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$top/space'");
make_table($primary, 'l', '', 'TABLESPACE space');
make_table($primary, 'f', 'filesystem_like_logging', 'TABLESPACE space');
# to who takes it for pages, bytes of old pages whose checksum is wrong
$primary->safe_psql('postgres', q{CREATE TABLE pages (doc securefile) TABLESPACE space;
	INSERT INTO pages SELECT decode(repeat('0000000000000000ffffffffffffffff', 65536), 'hex') FROM generate_series(1, 3)});
make_table($primary, 'm', 'filesystem_like_logging', 'TABLESPACE space');
fill($primary, 'm', 1, 5, 60_000);
prepare_load($primary, changed => 11, keep => 10, size => '20000 + k * 7919 % 280000');
fill($primary, $_, 1, 20, 'size(i)') for ('l', 'f');

# A server on a copy of the data directory, which is there; settings are its own.
sub server
{
	my ($name, $restore) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $dir = $node->data_dir;
	$restore->($dir);
	my $get = $pgbackrest_knows ? join(' ', map({ s/^(--stanza)/--pg1-path=$dir $1/r } @pgbackrest), 'archive-get %f "%p"')
	  : "cp $top/wal/%f \"%p\"";
	$node->append_conf('postgresql.conf', join("\n", 'port = ' . $node->port,
			"unix_socket_directories = '" . $node->host . "'", 'archive_mode = off',
			"restore_command = '$get'", ''));
	return $node;
}

sub recover
{
	my ($node) = @_;
	append_to_file($node->data_dir . '/recovery.signal', '');
	$node->start;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
	return;
}

# What a copy has, and what it does with it.
sub good_copy
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($node, 'l', $node->safe_psql('postgres', 'SELECT count(*) FROM l'), $name);
	sound($node, 'l', $name);
	my @behind = right_or_left_behind($node, 'f', $name);
	fill($node, 'l', 5001, 5003, 300_000);
	$node->safe_psql('postgres', 'ALTER TABLE l SET TABLESPACE pg_default; ALTER TABLE l SET TABLESPACE space');
	rows_right($node, 'l', $node->safe_psql('postgres', 'SELECT count(*) FROM l'), "$name, moved");
	return scalar @behind;
}

# pg_basebackup, without a WARNING about checksums.
sub base_backup
{
	my ($name, @options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($out, $err);
	my $rc = IPC::Run::run([ 'pg_basebackup', '-c', 'fast', '--no-sync', '-d', $primary->connstr('postgres'), @options ], '>', \$out, '2>', \$err);
	unlike(($rc ? '' : 'failed: ') . $err, qr/failed|WARNING/, "$name: pg_basebackup");
	return;
}

sub archive_all
{
	my $last = $primary->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
	ok(wait_for_sql($primary, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver"), 'archived');
	return;
}

# ---- plain, under load; then what a checkpoint and more WAL do to it ----
my $plain = server('plain', sub {
	my ($dir) = @_;
	under_load($primary, 5, sub { base_backup('plain', '-D', $dir, "--tablespace-mapping=$top/space=$top/plain") });
});
command_ok([ 'pg_verifybackup', $plain->data_dir, '-i', 'postgresql.conf' ], 'pg_verifybackup');

# ---- in the middle of a move, tar ----
my $session = background($primary);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
arm($primary, 'move_chunk', 'wait', skip => 2, times => -1, pid => $pid);
$session->{stdin} .= "ALTER TABLE l SET TABLESPACE pg_default;\n";
$session->{run}->pump_nb;
wait_for_sql($primary, "SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
mkdir "$top/tar" or die $!;
base_backup('tar', '-D', "$top/tar", '-Ft', '-X', 'none');
disarm($primary);
$session->query_safe('SELECT 1');
$session->quit;
is($primary->safe_psql('postgres', q{SELECT tablespace FROM securefile_columns WHERE relid = 'l'::regclass}), 'pg_default', 'moved');
$primary->safe_psql('postgres', 'UPDATE l SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 4');
archive_all();

sub untar
{
	my ($dir) = @_;
	mkdir $_, 0700 or die $! for ($dir, "$top/from_tar");
	my ($oid) = map { m{/(\d+)\.tar$} } glob("$top/tar/*.tar");
	system_or_bail('tar', '-xf', "$top/tar/base.tar", '-C', $dir);
	system_or_bail('tar', '-xf', "$top/tar/$oid.tar", '-C', "$top/from_tar");
	unlink "$dir/tablespace_map" or die $!;
	append_to_file("$dir/tablespace_map", "$oid $top/from_tar\n");
	return;
}
my $tar = server('tar', \&untar);
recover($tar);
is(good_copy($tar, 'tar'), 0, 'tar: nothing is left behind of what was there');
$tar->stop;

# ---- pgBackRest ----
$primary->safe_psql('postgres', 'ALTER TABLE l SET TABLESPACE space');
SKIP:
{
	skip 'this pgBackRest does not know this PostgreSQL', 1 if !$pgbackrest_knows;
	command_ok([ @pgbackrest, '--type=full', 'backup' ], 'pgBackRest: full backup');
	$primary->safe_psql('postgres', 'UPDATE l SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 4; UPDATE f SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 4');
	command_ok([ @pgbackrest, '--type=incr', 'backup' ], 'pgBackRest: incremental backup');
	$primary->safe_psql('postgres', 'UPDATE l SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 6');
	archive_all();
	my $rest = server('pgbackrest', sub {
		my ($dir) = @_;
		mkdir $_, 0700 or die $! for ($dir, "$top/rest");
		command_ok([ @pgbackrest, "--pg1-path=$dir", "--tablespace-map-all=$top/rest", 'restore' ], 'pgBackRest: restore');
	});
	recover($rest);
	is(good_copy($rest, 'pgBackRest'), 0, 'pgBackRest: nothing is left behind');
	$rest->stop;
}
$primary->safe_psql('postgres', 'ALTER TABLE m SET TABLESPACE pg_default');
rows_right($primary, 'm', 5, 'data that is not in WAL, moved');
archive_all();
unlike(slurp_file($_), qr/checksum|WARN/, "pgBackRest: no warning in $_") for glob("$top/log/*backup.log");

# ---- the plain one, to the end of the archive: the moves are in it ----
recover($plain);
cmp_ok(good_copy($plain, 'plain'), '>', 0, 'plain: what was stored later is left behind');
is($plain->safe_psql('postgres', q{SELECT string_agg(DISTINCT outcome(doc, seed, len), ' ') FROM f WHERE id BETWEEN 4 AND 10}), 'right',
	'plain: what was there before is right');
is(scalar(right_or_left_behind($plain, 'm', 'plain')), 5, 'plain: a move that came later leaves all behind that is not in WAL');
$plain->stop;

# ---- pg_checksums ----
sub sums
{
	my $dir = $primary->data_dir;
	return join "\n", map { my ($sum) = run_command([ 'sha256sum', $_ ]); $sum } sort glob("$dir/pg_tblspc/*/PG_*/*/pg_securefile/*/*/*");
}
$primary->stop;
my $sums = sums();
like($sums, qr/pg_filenode\.map/, 'there are files in the tablespace');
command_ok([ 'pg_checksums', '-D', $primary->data_dir, "--$_" ], "pg_checksums --$_") for ('check', 'disable', 'enable', 'check');
is(sums(), $sums, 'pg_checksums leaves them alone');
$primary->start;

# ---- pg_rewind, from a server and from its directory ----
my $other = server('other', sub {
	my ($dir) = @_;
	base_backup('other', '-D', $dir, "--tablespace-mapping=$top/space=$top/other");
});
$other->enable_streaming($primary);
$other->set_standby_mode;
$other->start;
my ($old, $new) = ($primary, $other);
foreach my $way ('server', 'pgdata')
{
	my $conf = $old->data_dir . '/postgresql.conf';
	my $id = $way eq 'server' ? 7001 : 8001;
	catch_up($old, $new);
	$new->promote;
	fill($old, $_, $id, $id + 3, 200_000) for ('l', 'f');
	$old->safe_psql('postgres', 'ALTER TABLE l SET TABLESPACE pg_default');
	fill($new, $_, $id + 4, $id + 5, 100_000) for ('l', 'f');
	$new->safe_psql('postgres', "DELETE FROM l WHERE id BETWEEN 15 AND 17; CHECKPOINT");
	$old->stop;
	$new->stop if $way eq 'pgdata';
	copy($conf, "$top/conf") or die $!;
	command_ok([ 'pg_rewind', '--no-sync', '--target-pgdata', $old->data_dir,
			$way eq 'server' ? ('--source-server', $new->connstr('postgres')) : ('--source-pgdata', $new->data_dir) ],
		"$way: pg_rewind");
	copy("$top/conf", $conf) or die $!;
	$new->start if $way eq 'pgdata';
	$old->enable_streaming($new);
	$old->set_standby_mode;
	$old->start;
	catch_up($new, $old);
	rows_right($old, 'l', $new->safe_psql('postgres', 'SELECT count(*) FROM l'), "$way: rewound");
	is($old->safe_psql('postgres', "SELECT * FROM securefile_check('l', 'doc') LIMIT 5"), '', "$way: rewound, l is sound");
	right_or_left_behind($old, 'f', "$way: rewound");
	($old, $new) = ($new, $old);
}
$_->stop for ($old, $new);
done_testing();
