# Files of distributed tables, straight between a client and the node that has their shard: the
# command with all kinds of keys, while shards move, and while nodes are killed.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use SecurefileCitus;
use Test::More;
use Time::HiRes qw(usleep);

need_citus();
my ($coordinator, @workers) = new_nodes(2);
my $dir = enter($coordinator);

sub sql { return $coordinator->safe_psql('postgres', join ';', @_); }

# One test: as ends(), which is named by the arguments.
sub runs
{
	my ($status, $like, @args) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ends($status, $like, join(' ', @args), @args);
}

sub tables
{
	sql('CREATE TABLE files (name text PRIMARY KEY, document securefile)', q{SELECT create_distributed_table('files', 'name')},
		'CREATE TABLE keyed (id bigint, name text, "Note" text, document securefile, PRIMARY KEY (id, name))', q{SELECT create_distributed_table('keyed', 'id')},
		'CREATE TABLE everywhere (name text PRIMARY KEY, document securefile)', q{SELECT create_reference_table('everywhere')});
	return;
}
tables();

# ---- without the extension ----

write_file('small', bytes(1, 1000));
write_file('long', bytes(2, 3_000_000));
runs(0, qr/^$/, 'put', '-t', 'files', 'small');
runs(0, qr/^$/, 'put', '-t', 'files', 'long');
is(sql(q{SELECT count(*), sum(length(document)) FROM files}), '2|3001000', 'files up to 256 MB go through the coordinator');
runs(3, qr/"?files"? is a distributed table, whose shards cannot be checked.*securefile_citus/s, 'verify', '-t', 'files');
runs(0, qr//, 'rm', '-t', 'files', 'small', 'long');

# ---- with it ----

sql('CREATE EXTENSION securefile_citus');
my $before = sql('SELECT pg_current_wal_insert_lsn()');
runs(0, qr/^$/, 'put', '-t', 'files', 'long');
cmp_ok(sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before')"), '<', 1_000_000, 'a long file does not go through the coordinator');
runs(1, qr/stored already/, 'put', '-t', 'files', 'long');
write_file('long', bytes(3, 4_000_000));
runs(0, qr/^$/, 'put', '-t', 'files', '--replace', 'long');
runs(0, qr/^$/, 'get', '-t', 'files', 'long', 'back');
holds('back', bytes(3, 4_000_000), 'the replaced file comes back');
runs(1, qr/no file of that name/, 'get', '-t', 'files', 'nothing', 'none');
like((command('stat', '-t', 'files', 'long'))[1], qr/table:\s+public\.files\n.*length:\s+4000000\n/s, 'stat names the table');
runs(0, qr//, 'verify', '-t', 'files');
runs(0, qr//, 'verify', '-t', 'files', 'long');

# the distribution column is another one than that of the names
runs(1, qr/the distribution column id has no value.*--set/s, 'put', '-t', 'keyed', '-k', 'name', 'long');
runs(0, qr/^$/, 'put', '-t', 'keyed', '-k', 'name', '--set', 'id=7', '--set', 'Note=with a note', 'long');
runs(0, qr/^$/, 'put', '-t', 'keyed', '-k', 'name', '--replace', '--set', 'Note=another', 'long');
runs(0, qr/^$/, 'get', '-t', 'keyed', '-k', 'name', 'long', 'back2');
holds('back2', bytes(3, 4_000_000), 'by a key that is not the name');
is(sql('SELECT id, "Note" FROM keyed'), '7|another', 'the other columns');
runs(1, qr/invalid input syntax for type bigint/, 'put', '-t', 'keyed', '-k', 'name', '--set', 'id=seven', 'long', 'third');

# a reference table
runs(0, qr/^$/, 'put', '-t', 'everywhere', 'long');
runs(0, qr/^$/, 'get', '-t', 'everywhere', 'long', 'back3');
holds('back3', bytes(3, 4_000_000), 'of a reference table');

# trees, and one file that no statement of Citus could hold
mkdir 'tree';
write_file("tree/$_", bytes($_, 100_000 * $_)) foreach 1 .. 8;
write_file('tree/gap', '');
truncate 'tree/gap', 300_000_000;
runs(0, qr//, 'import', '-q', '-t', 'files', '-j', '2', 'tree');
is(sql(q{SELECT count(*), sum(length(document)) FROM files WHERE name <> 'long'}), '9|303600000', 'a tree is imported');
runs(0, qr//, 'rm', '-t', 'files', 'long');
runs(0, qr/not of one moment/, 'export', '-t', 'files', '-j', '2', 'out');
trees_same('tree', 'out', 'a tree is exported');
runs(0, qr//, 'verify', '-q', '-t', 'files', '--against', 'tree');
runs(0, qr//, 'rm', '-t', 'files', 'gap');

# a file that is to appear in a transaction of the coordinator is put into a staging table first
sql('CREATE TABLE staging (name text PRIMARY KEY, document securefile)', q{SELECT create_distributed_table('staging', 'name', colocate_with => 'files')});
runs(0, qr/^$/, 'put', '-t', 'staging', 'long');
my $take = q{INSERT INTO files SELECT name, document FROM staging WHERE name = 'long'; DELETE FROM staging WHERE name = 'long'};
sql("BEGIN; $take; ROLLBACK");
is(sql(q{SELECT (SELECT count(*) FROM files WHERE name = 'long'), (SELECT count(*) FROM staging)}), '0|1', 'rolled back, it is still staged');
$before = sql('SELECT pg_current_wal_insert_lsn()');
sql("BEGIN; $take; COMMIT");
cmp_ok(sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before')"), '<', 1_000_000, 'a staged file does not go through the coordinator');
is(sql(q{SELECT (SELECT sum(length(document)) FROM files WHERE name = 'long'), (SELECT count(*) FROM staging)}), '4000000|0', 'committed, it has moved');

# no privilege on the worker is no privilege at all
sql('CREATE ROLE reader LOGIN', 'GRANT SELECT ON files TO reader');
runs(0, qr/^$/, 'get', '-U', 'reader', '-t', 'files', '8', 'back4');
runs(1, qr/permission denied/, 'put', '-U', 'reader', '-t', 'files', '--replace', 'long');

# ---- shards move ----

# Put files from a number on until told to stop; those whose put succeeded.
my $number = 1000;
write_file('moving', bytes(9, 300_000));

sub puts_while
{
	my ($statement) = @_;
	my (@done, %run);
	my $move = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $coordinator->connstr('postgres'), '-c', $statement ],
		'>', \my $out, '2>', \my $err);
	do
	{
		# two at a time
		while (keys %run < 2)
		{
			my $name = $number++;
			$run{$name} = IPC::Run::start([ 'securefile', 'put', '-t', 'files', 'moving', $name ], '<', \'', '>', \my $text, '2>', \my $failure);
		}
		my ($oldest) = sort { $a <=> $b } keys %run;
		push @done, $oldest if (delete $run{$oldest})->finish;
		$move->pump_nb;
	} while ($move->pumpable);
	foreach my $name (keys %run)
	{
		push @done, $name if $run{$name}->finish;
	}
	is($move->finish ? 'done' : $err, 'done', "$statement");
	return @done;
}

my @all;
foreach my $round (1 .. $ENV{SECUREFILE_MOVES} || 4)
{
	my $mode = $round % 2 ? 'block_writes' : 'force_logical';
	my ($shard, $from, $to) = split /\|/, sql(q{SELECT shardid, d.nodeport, n.nodeport
		FROM pg_dist_shard JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node d USING (groupid)
			JOIN pg_dist_node n ON n.nodeid <> d.nodeid AND n.groupid <> 0
		WHERE logicalrelid = 'files'::regclass ORDER BY random() LIMIT 1});
	my @done = puts_while("SELECT citus_move_shard_placement($shard, '$coordinator->{_host}', $from, '$coordinator->{_host}', $to, shard_transfer_mode => '$mode')");
	cmp_ok(scalar @done, '>', 0, "$mode: files were stored meanwhile");
	push @all, @done;
	my $there = sql('SELECT count(*) FROM files WHERE name IN (' . join(',', map { "'$_'" } @all) . q{) AND length(document) = 300000});
	is($there, scalar @all, "$mode: no acknowledged file is lost");
}
runs(0, qr//, 'verify', '-t', 'files');
runs(0, qr/^$/, 'get', '-t', 'files', $all[0], 'back5');
holds('back5', bytes(9, 300_000), 'a file of a shard that has moved');

# ---- nodes are killed ----

foreach my $round (1 .. $ENV{SECUREFILE_NODE_KILLS} || 3)
{
	my $victim = ($coordinator, @workers)[$round % 3];
	my @run = map {
		my $name = "killed_${round}_$_";
		[ $name, IPC::Run::start([ 'securefile', 'put', '-t', 'files', 'long', $name ], '<', \'', '>', \my $out, '2>', \my $err) ]
	} 1 .. 6;
	usleep(5_000 * (1 + $round % 8));
	crash($victim);
	my @done = map { $_->[0] } grep { $_->[1]->finish } @run;
	$victim->start;
	$coordinator->poll_query_until('postgres', q{SELECT count(*) >= 0 FROM files});
	my $wrong = sql(q{SELECT count(*) FROM files WHERE name LIKE 'killed%' AND length(document) <> 4000000});
	my $there = @done == 0 ? 0 : sql('SELECT count(*) FROM files WHERE name IN (' . join(',', map { "'$_'" } @done) . ')');
	is("$there there, $wrong half", scalar(@done) . ' there, 0 half', 'killed: ' . $victim->name . ', ' . scalar(@done) . ' files were acknowledged');
}
is(sql(q{SELECT count(*) FROM securefile_dist_check('files', 'document')}), 0, 'all shards are sound');
done_testing();
