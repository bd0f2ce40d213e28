# Incremental base backups, with and without a write load, and pg_combinebackup: each state
# that is put together has the values of its time, also those in tablespaces, and lives on.
# An increment holds all data files whole: so doc/operations.md says, and so it is here.
# Every version.

use strict;
use warnings;
use File::Find;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $top = PostgreSQL::Test::Utils::tempdir();
my $primary = new_cluster('primary',
	start => 0,
	init => { allows_streaming => 1 },
	conf => [ 'summarize_wal = on', master_key() ]);
plan skip_all => 'incremental base backups came with PostgreSQL 17' if $primary->pg_version < 17;
$primary->start;
SecurefileTest::prepare_database($primary, 'postgres');

# ---- contents ----

my @tables = ('l', 'f', 'placed', 'shares', 'sealed', 'replaced', 'rewritten', 'small');
mkdir "$top/space" or die $!;
sql("CREATE TABLESPACE space LOCATION '$top/space'");
make_table($primary, 'l');
make_table($primary, 'f', 'filesystem_like_logging');
make_table($primary, 'placed', 'nocache', 'TABLESPACE space');
make_table($primary, 'shares', 'deduplicate, compress');
make_table($primary, 'sealed', 'encrypt, hash');
make_table($primary, $_) foreach 'replaced', 'rewritten', 'small', 'dropped';
prepare_load($primary, changed => 11, keep => 20, size => 'CASE WHEN k % 8 = 0 THEN 3000000 ELSE 20000 + k * 7919 % 280000 END');
fill($primary, $_, 1, 20, 'size(i)') foreach @tables, 'dropped';
fill($primary, 'l', 21, 21, 14_000_000);

# Between two backups: space is freed and used again, storage replaced, moved and made.
sub change
{
	my ($id) = @_;
	foreach my $t (@tables)
	{
		sql("DELETE FROM $t WHERE id % 3 = 0 AND id <> 21", "UPDATE $t SET seed = id + $id, doc = blob(id + $id, len) WHERE id % 4 = 0");
		settle($primary, $t, 'doc');
		fill($primary, $t, $id, $id + 8, 'CASE i % 3 WHEN 0 THEN 100 WHEN 1 THEN 131073 ELSE 4001 END');
	}
	sql('TRUNCATE replaced', "SELECT securefile_rewrite('rewritten', 'doc')");
	fill($primary, 'replaced', $id, $id + 5, 50_000);
	make_table($primary, "made_$id");
	fill($primary, "made_$id", 1, 5, 70_000);
	push @tables, "made_$id";
	return;
}

# Of all tables, as they say of themselves.
sub contents
{
	my ($node, @of) = @_;
	return $node->safe_psql('postgres', join(' UNION ALL ', map { "SELECT '$_', count(*), sum(len), md5(string_agg(concat_ws(':', id, seed, len), ',' ORDER BY id)) FROM $_" } @of) . ' ORDER BY 1');
}

# ---- backups ----

sub backup_path { return $primary->backup_dir . "/$_[0]"; }
sub space_of { return "$top/space_$_[0]"; }

# Based on that one, if there is one.
sub take
{
	my ($name, $before) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$primary->command_ok(
		[
			'pg_basebackup', '--no-sync', '--checkpoint=fast', '-D', backup_path($name), '-d', $primary->connstr('postgres'),
			"--tablespace-mapping=$top/space=" . space_of($name), $before ? '--incremental=' . backup_path($before) . '/backup_manifest' : ()
		],
		"$name: taken");
	command_ok([ 'pg_verifybackup', backup_path($name) ], "$name: pg_verifybackup");
	return;
}

# Bytes of files below these directories whose path matches.
sub bytes
{
	my ($like, @dirs) = @_;
	my $sum = 0;
	find({ no_chdir => 1, wanted => sub { $sum += -s _ if -f && $File::Find::name =~ $like } }, @dirs);
	return $sum;
}

my $ours = qr{/pg_securefile/.*(\.sf|/pg_filenode\.map)$};
my $increment = qr{/INCREMENTAL\.};

mkdir $primary->backup_dir;
take('full');
change(10000);
under_load($primary, 20, sub { take('one', 'full') });
sql('DROP TABLE dropped');
change(20000);
# nothing is freed or grown by itself any more
sql('ALTER SYSTEM SET securefile.monitor = off', 'SELECT pg_reload_conf()');
monitor_rests($primary);
take('two', 'one');
my $want = contents($primary, @tables);

my %size = map { my $name = $_; $name => [ map { bytes($_, backup_path($name), space_of($name)) } ($ours, qr//) ] } ('full', 'one', 'two');
note(sprintf "figures: %s: %.1f MB of data files, %.1f MB in all", $_, $size{$_}[0] / mb(1), $size{$_}[1] / mb(1)) foreach sort keys %size;
is($size{two}[0], bytes($ours, $primary->data_dir, "$top/space"), 'an increment has all data files, whole');
is(bytes(qr{/pg_securefile/.*INCREMENTAL}, map { (backup_path($_), space_of($_)) } ('one', 'two')), 0, 'and no increment of one');
cmp_ok(bytes($increment, backup_path('two')), '>', 0, 'of tables it has increments');

# ---- what is put together ----

# A server on them; the others of @chain come before the last one.
sub restored
{
	my ($name, $chain, @options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $dir = $node->data_dir;

	command_ok([ 'pg_combinebackup', '--no-sync', @options, (map { backup_path($_) } @$chain), '-o', $dir, '-T', space_of($chain->[-1]) . '=' . space_of($name) ],
		"$name: pg_combinebackup @options");
	command_ok([ 'pg_verifybackup', $dir ], "$name: pg_verifybackup");
	chmod 0700, $dir or die $!;
	$node->append_conf('postgresql.conf', join("\n", 'port = ' . $node->port, "unix_socket_directories = '" . $node->host . "'", ''));
	$node->start;
	return $node;
}

# All of it is there, and it goes on writing.
sub lives
{
	my ($node, $name, @of) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $step ('', ', written')
	{
		foreach my $t (grep { $_ ne 'f' } @of)
		{
			rows_right($node, $t, $node->safe_psql('postgres', "SELECT count(*) FROM $t"), "$name$step");
			sound($node, $t, "$name$step");
		}
		my @behind = right_or_left_behind($node, 'f', "$name$step");
		is(scalar(grep { $_ < 11 || $_ > 10000 } @behind), 0, "$name$step: what was there before the backup is in it");
		next if $step;
		foreach my $t (@of)
		{
			$node->safe_psql('postgres', "DELETE FROM $t WHERE id % 2 = 0 AND id <> 2");
			fill($node, $t, 50001, 50010, 'CASE i % 2 WHEN 0 THEN 100 ELSE 200000 END');
		}
	}
	$node->stop;
	return;
}

my $node = restored('combined', [ 'full', 'one', 'two' ]);
is(contents($node, @tables), $want, 'combined: rows');
is($node->safe_psql('postgres', "SELECT count(*), string_agg(DISTINCT outcome(doc, seed, len), ' ') FROM f"),
	sql('SELECT count(*) FROM f') . '|right', 'combined: values without WAL are in it, too');
lives($node, 'combined', @tables);

$node = restored('middle', [ 'full', 'one' ]);
cmp_ok(loaded($node), '>', 1000, 'middle: there was a load');
lives($node, 'middle', grep { $_ ne 'made_20000' } @tables);

# by links, what the new server writes in place is written in the backups: they are spent
if ($primary->pg_version >= 18)
{
	$node = restored('linked', [ 'full', 'one', 'two' ], '--link');
	is(contents($node, @tables), $want, 'linked: rows');
	lives($node, 'linked', @tables);
}
$primary->stop;
done_testing();
