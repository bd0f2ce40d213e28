# Files of distributed tables, straight between a client and the node that has their shard: the
# command with all kinds of keys, while shards move, and while nodes are killed.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use SecurefileCitus;
use Test::More;
use Time::HiRes qw(usleep);

need_citus();
# a shard that has moved leaves its table behind until the test calls for it to be dropped
my ($coordinator, @workers) = new_nodes(2, conf => ['citus.defer_shard_delete_interval = -1']);
my $dir = enter($coordinator);

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
runs(3, qr/"?files"? is a distributed table, whose shards cannot be shrunk.*securefile_citus/s, 'shrink', '-t', 'files', @$_) foreach [], ['--estimate'];
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
foreach my $file ('long', 'small')
{
	runs(0, qr/^$/, 'put', '-t', 'keyed', '-k', 'name', '--replace', '--set', 'id=7', '--set', "Note=of $file", $file, 'long');
	is(sql('SELECT count(*), min(id), min("Note"), sum(length(document)) FROM keyed'), "1|7|of $file|" . -s $file, "--set can give $file the value that the row has");
	runs(1, qr/the statement stored no row.*distribution column/s, 'put', '-t', 'keyed', '-k', 'name', '--replace', '--set', 'id=8', '--set', 'Note=no', $file, 'long');
	is(sql('SELECT count(*), min(id), min("Note") FROM keyed'), "1|7|of $file", 'and not another one');
}
runs(0, qr/^$/, 'put', '-t', 'keyed', '-k', 'name', '--replace', 'long');

# a partitioned table
sql('CREATE TABLE parts (name text, day integer, document securefile, PRIMARY KEY (name, day)) PARTITION BY RANGE (day)',
	'CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10)', 'CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (10) TO (20)',
	q{SELECT create_distributed_table('parts', 'name')});
runs(0, qr/^$/, 'put', '-t', 'parts', '-k', 'name', '--set', 'day=15', 'long');
runs(0, qr/^$/, 'put', '-t', 'parts', '-k', 'name', '--replace', 'long');
runs(0, qr/^$/, 'get', '-t', 'parts', '-k', 'name', 'long', 'back9');
holds('back9', bytes(3, 4_000_000), 'of a partitioned table');
is(sql('SELECT count(*), sum(length(document)) FROM part2'), '1|4000000', 'in its partition');

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

# one node is slow: the files of the other one do not wait for it
mkdir 'spread';
write_file("spread/$_", bytes($_, 300_000)) foreach 101 .. 112;
my %node_of = map { split /\|/ } split /\n/, sql(q{SELECT key, nodeport FROM securefile_dist_routes('files', (SELECT array_agg(i::text) FROM generate_series(101, 112) i))});
my @of_first = grep { $node_of{$_} == $workers[0]->{_port} } sort keys %node_of;
kill 'STOP', $workers[1]->{_pid};
my $import = IPC::Run::start([ 'securefile', 'import', '-q', '-t', 'files', '-j', '2', 'spread' ], '<', \'', '>', \my $said, '2>', \my $warned);
my $arrived = wait_for_sql($coordinator, 'SELECT count(*) = ' . @of_first . ' FROM files WHERE name IN (' . join(',', map { "'$_'" } @of_first) . ')');
kill 'CONT', $workers[1]->{_pid};
ok($arrived, scalar(@of_first) . ' of 12 files are stored while the other node takes no connections');
is($import->finish ? 'done' : $warned, 'done', 'and then the others');
runs(0, qr//, 'verify', '-q', '-t', 'files', '--against', 'spread', map { "$_" } 101 .. 112);
runs(0, qr//, 'rm', '-t', 'files', 101 .. 112);

# the coordinator can reach the nodes, but the client cannot: what it knows of them is no name
sql('INSERT INTO pg_dist_poolinfo SELECT nodeid, format($$host=%s port=%s$$, nodename, nodeport) FROM pg_dist_node WHERE groupid <> 0',
	q{SELECT citus_update_node(nodeid, 'worker.invalid', nodeport) FROM pg_dist_node WHERE groupid <> 0});
runs(0, qr/could not connect to node worker\.invalid.*go through the coordinator/s, 'put', '-t', 'keyed', '-k', 'name', '--set', 'id=8', '--set', 'Note=', 'long', 'beside');
is(sql(q{SELECT id, "Note", length(document) FROM keyed WHERE name = 'beside'}), '8||4000000', 'a new row is copied');
runs(0, qr/could not connect/, 'get', '-t', 'keyed', '-k', 'name', 'beside', 'back7');
holds('back7', bytes(3, 4_000_000), 'and read through the coordinator');
runs(0, qr/could not connect/, 'put', '-t', 'keyed', '-k', 'name', '--replace', 'tree/8', 'beside');
is(sql(q{SELECT id, length(document) FROM keyed WHERE name = 'beside'}), '8|800000', 'a replaced one is a parameter');
runs(1, qr/invalid input syntax for type bigint/, 'put', '-t', 'keyed', '-k', 'name', '--set', 'id=seven', 'long', 'third');
sql(map { "SELECT citus_update_node((SELECT nodeid FROM pg_dist_node WHERE nodeport = $_->{_port}), '$_->{_host}', $_->{_port})" } @workers);
sql('DELETE FROM pg_dist_poolinfo');
# Citus tells the workers later, and refuses to create roles before
wait_for_sql($coordinator, 'SELECT bool_and(metadatasynced) FROM pg_dist_node') or die 'the workers were not told';
runs(0, qr/^$/, 'put', '-t', 'keyed', '-k', 'name', '--replace', 'long', 'beside');
runs(0, qr//, 'rm', '-t', 'keyed', '-k', 'name', 'beside');

# no privilege on the worker is no privilege at all
sql('CREATE ROLE reader LOGIN', 'GRANT SELECT ON files TO reader');
runs(0, qr/^$/, 'get', '-U', 'reader', '-t', 'files', '8', 'back4');
runs(1, qr/permission denied/, 'put', '-U', 'reader', '-t', 'files', '--replace', 'long');

# ---- a route that was kept ----

# Move the shard of a name to the other worker; the worker that had it, and the shard's name.
sub move_shard_of
{
	my ($name, $mode) = @_;
	my ($shard, $shard_name, $port) = split /\|/, sql("SELECT shardid, shard_name, nodeport FROM securefile_dist_route('files', '$name')");
	my ($from, $to) = $workers[0]->{_port} == $port ? @workers : reverse @workers;
	sql("SELECT citus_move_shard_placement($shard, '$from->{_host}', $from->{_port}, '$to->{_host}', $to->{_port}, shard_transfer_mode => '$mode')");
	return ($from, $shard_name, $shard);
}

# The steps by hand, as a client that has kept a route takes them; what they print at the end.
sub by_hand
{
	my ($node, $shard_name, $shard, %params) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join("\n", '\\set VERBOSITY sqlstate',
			$params{begin} || 'BEGIN;',
			"SELECT securefile_create('$shard_name', 'document') AS h \\gset",
			"SELECT securefile_write(:h, 'by hand') > 0;",
			$params{role} ? "SET ROLE $params{role};" : '',
			$params{write} || "UPDATE $shard_name SET document = securefile_finish(:h) WHERE name = 'kept' AND securefile_dist_hold_shard($shard);",
			'\\echo changed :ROW_COUNT', 'COMMIT;'));
	return "$out $err";
}

# An INSERT by hand, with the lock of a shard.
sub insert_by_hand
{
	my ($shard_name, $shard, $key) = @_;
	return "INSERT INTO $shard_name (name, document) SELECT name, securefile_finish(:h) FROM (VALUES ($key)) new (name) WHERE securefile_dist_hold_shard($shard, worker_hash(name));";
}
write_file('kept', bytes(4, 400_000));
runs(0, qr/^$/, 'put', '-t', 'files', 'kept');
my @reads = map { background($_) } @workers;
$_->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1') foreach @reads;
my ($old, @route) = move_shard_of('kept', 'block_writes');
my $places = join('', map { $_->query_safe("SELECT securefile_dist_is_here($route[1])") } $old == $workers[0] ? @reads : reverse @reads);
is($places, 'tf', 'for a read with a snapshot from before a move, a shard is where it was then');
$_->quit foreach @reads;
my ($new) = grep { $_ != $old } @workers;
is($old->safe_psql('postgres', "SELECT count(*) FROM $route[0] WHERE name = 'kept'"), 1, 'the table of the shard is left behind');
is($old->safe_psql('postgres', "SELECT count(*) FROM $route[0] WHERE name = 'kept' AND securefile_dist_is_here($route[1])"), 0, 'but a read by a kept route finds nothing in it');
is($new->safe_psql('postgres', "SELECT count(*) FROM $route[0] WHERE name = 'kept' AND securefile_dist_is_here($route[1])"), 1, 'and it is found where it is');
like(by_hand($old, @route), qr/changed 0/, 'a replacement by a kept route changes no row');
my ($beside, $elsewhere) = map { sql("SELECT min(key) FROM securefile_dist_routes('files', (SELECT array_agg('new_' || i) FROM generate_series(1, 1000) i)) WHERE shardid $_ $route[1]") } '=', '<>';
like(by_hand($old, @route, write => insert_by_hand(@route, "'$beside'::text")), qr/changed 0/, 'nor is a row inserted');
is(sql(q{SELECT count(*), sum(length(document)) FROM files WHERE name ~ '^(kept|new_)'}), '1|400000', 'the file is as it was');
like(by_hand($new, @route, begin => 'BEGIN ISOLATION LEVEL REPEATABLE READ;'), qr/ERROR:  25000/, 'not in REPEATABLE READ');
like(by_hand($new, @route, write => insert_by_hand(@route, "'$elsewhere'::text")), qr/ERROR:  23514/, 'a row is not inserted into another shard than its own');
like(by_hand($new, @route, write => insert_by_hand(@route, 'NULL::text')), qr/ERROR:  23514/, 'nor one without a key');
like(by_hand($new, @route, write => insert_by_hand(@route, "'$beside'::text")), qr/changed 1/, 'a row of the shard is');
is(sql("SELECT document::bytea FROM files WHERE name = '$beside'"), '\\x' . unpack('H*', 'by hand'), 'and is found through the distributed table');
runs(0, qr//, 'rm', '-t', 'files', $beside);
like(by_hand($new, @route), qr/changed 1/, 'by the right route it is replaced');
is(sql(q{SELECT document::bytea FROM files WHERE name = 'kept'}), '\\x' . unpack('H*', 'by hand'), 'as a read shows');

# the lock is for those who may write, in their own name
my $hold = "SELECT 'held' WHERE securefile_dist_hold_shard($route[1]);";
like(by_hand($new, @route, role => 'reader', write => $hold), qr/ERROR:  42501/, 'a role that only reads gets no lock');
sql('CREATE ROLE writer LOGIN', 'GRANT SELECT, DELETE ON files TO writer');
like(by_hand($new, @route, role => 'writer', write => $hold), qr/held\nchanged 1/, 'one that deletes does');
# not in the name of another role: the privileges are those of the role that calls, also in a function of another owner
sql('CREATE ROLE lender', 'CREATE FUNCTION lent(bigint) RETURNS boolean LANGUAGE sql SECURITY DEFINER AS $$ SELECT securefile_dist_hold_shard($1) $$',
	'ALTER FUNCTION lent(bigint) OWNER TO lender');
my $lent = "SELECT 'held' WHERE lent($route[1]);";
like(by_hand($new, @route, role => 'writer', write => $lent), qr/ERROR:  42501/, 'a function gets none if its owner may not write');
$new->safe_psql('postgres', 'SET citus.enable_ddl_propagation = off; GRANT UPDATE (document) ON files TO lender');
like(by_hand($new, @route, role => 'reader', write => $lent), qr/held\nchanged 1/, 'and one if its owner may, by a column');
my $everywhere = sql(q{SELECT shardid FROM pg_dist_shard WHERE logicalrelid = 'everywhere'::regclass});
like(by_hand($new, @route, write => "SELECT securefile_dist_hold_shard($everywhere);"), qr/ERROR:  0A000/, 'a reference table is not written to on one node');
like(by_hand($new, @route, write => 'SELECT count(*) FILTER (WHERE NOT h) AS no FROM securefile_dist_hold_shard(1) h;'), qr/1\nchanged 1/, 'a shard that does not exist is not here');

# a move waits for the write
my $writer = background($new);
$writer->query_safe("BEGIN; INSERT INTO $route[0] SELECT name, 'open' FROM (VALUES ('$beside'::text)) new (name) WHERE securefile_dist_hold_shard($route[1], worker_hash(name))");
sql('CALL citus_cleanup_orphaned_resources()');
my $move = IPC::Run::start([ 'psql', '-XAtq', '-d', $coordinator->connstr('postgres'), '-c',
		"SELECT citus_move_shard_placement($route[1], '$new->{_host}', $new->{_port}, '$old->{_host}', $old->{_port}, shard_transfer_mode => 'block_writes')" ],
	'>', \my $moved_out, '2>', \my $move_failure);
ok(wait_for_sql($new, q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}), 'a move of the shard waits for the transaction');
my $behind = background($new);
ok(waits_for_lock($new, $behind, "UPDATE $route[0] SET document = 'behind' WHERE name = 'kept' AND securefile_dist_hold_shard($route[1])"), 'and another write waits behind the move');
$writer->query_safe('COMMIT');
ok($move->finish, 'the move ends') or diag($move_failure);
$behind->quit;
$writer->quit;
is($old->safe_psql('postgres', "SELECT document::bytea FROM $route[0] WHERE name = '$beside' AND securefile_dist_is_here($route[1])"), '\\x' . unpack('H*', 'open'), 'what was committed has moved');
is($new->safe_psql('postgres', "SELECT document::bytea FROM $route[0] WHERE name = 'kept'"), '\\x' . unpack('H*', 'by hand'), 'what came behind has changed nothing, also where the shard was');
runs(0, qr//, 'rm', '-t', 'files', $beside);
is(sql(qq{SELECT count(*) FROM securefile_dist_columns WHERE shardid = $route[1]}), 1, 'the view has one placement of the shard');
# functions that somebody else has made for the types of keys are not called
sql('CREATE FUNCTION securefile_dist_' . $_ . ' RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION $m$of somebody else$m$; END $$')
  foreach 'hold_shard(bigint, text)', 'is_here(integer)';
runs(0, qr/^$/, 'put', '-t', 'files', '--replace', 'kept');
runs(0, qr/^$/, 'get', '-t', 'files', 'kept', 'back6');
sql('DROP FUNCTION securefile_dist_hold_shard(bigint, text), securefile_dist_is_here(integer)');
holds('back6', bytes(4, 400_000), 'the command replaces it');
runs(0, qr//, 'rm', '-t', 'files', 'kept');

# ---- shards move ----

# Put files, new ones and replacements by turns, while a statement runs.  %may has the lengths
# that a file of a name can have, once a put of it was acknowledged; each put has another one.
my $number = 1000;
my (%may, %running);

sub start_put
{
	my @idle = grep { !$running{$_} } keys %may;
	my $name = $number % 2 && @idle ? $idle[ rand @idle ] : "moving_$number";
	my $length = 300_000 + $number++;
	write_file("put_$length", bytes($number, $length));
	my @args = exists $may{$name} ? ('--replace') : ();
	push @{ $may{$name} }, $length if @args;
	$running{$name} = { length => $length,
		run => IPC::Run::start([ 'securefile', 'put', '-t', 'files', @args, "put_$length", $name ], '<', \'', '>', \my $text, '2>', \my $failure) };
	return;
}

sub end_put
{
	my ($name) = @_;
	my $put = delete $running{$name};
	my $acknowledged = $put->{run}->finish;
	$may{$name} = [ $put->{length} ] if $acknowledged;
	unlink "put_$put->{length}";
	return $acknowledged;
}

sub puts_while
{
	my ($statement) = @_;
	my $acknowledged = 0;
	my $move = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $coordinator->connstr('postgres'), '-c', $statement ],
		'>', \my $out, '2>', \my $err);
	do
	{
		# two at a time
		start_put() while keys %running < 2;
		my ($oldest) = sort { $running{$a}{length} <=> $running{$b}{length} } keys %running;
		$acknowledged += end_put($oldest);
		$move->pump_nb;
	} while ($move->pumpable);
	$acknowledged += end_put($_) foreach keys %running;
	is($move->finish ? 'done' : $err, 'done', "$statement");
	return $acknowledged;
}

# Replace the files 'straight n' of a shard by its name, one in a transaction, until it is not
# there; replaced has the number in each, committed with it.
sub prepare_straight
{
	sql(q{CREATE PROCEDURE write_straight(shard text, shardid bigint, names text[]) LANGUAGE plpgsql AS $$
		DECLARE
			n integer;
			name text;
		BEGIN
			FOR i IN 1 .. 10000000 LOOP
				name := names[i % cardinality(names) + 1];
				EXECUTE format('UPDATE %s SET document = $1::text::bytea WHERE name = $2 AND securefile_dist_hold_shard($3)', shard) USING i, name, shardid;
				GET DIAGNOSTICS n = ROW_COUNT;
				EXIT WHEN n = 0;
				INSERT INTO replaced VALUES (name, i) ON CONFLICT (file) DO UPDATE SET number = i;
				COMMIT;
			END LOOP;
		END $$});
	$_->safe_psql('postgres', 'CREATE TABLE replaced (file text PRIMARY KEY, number integer)') foreach @workers;
	sql(q{INSERT INTO files SELECT 'straight ' || i, '' FROM generate_series(1, 100) i});
	return;
}

sub start_straight
{
	my ($node, $shard_name, $shard) = @_;
	my $names = sql("SELECT array_agg(key) FROM securefile_dist_routes('files', (SELECT array_agg('straight ' || i) FROM generate_series(1, 100) i)) WHERE shardid = $shard");
	return IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'TRUNCATE replaced', '-c', "CALL write_straight('$shard_name', $shard, '$names')" ],
		'>', \my $out, '2>', \my $err);
}

# The files of a node that have another content than what was committed there last.
sub lost_straight
{
	my ($node) = @_;
	my %number = map { split /\|/ } split /\n/, $node->safe_psql('postgres', 'SELECT * FROM replaced');
	my %there = map { split /\|/, $_, 2 } split /\n/, sql(q{SELECT name, convert_from(document::bytea, 'UTF8') FROM files WHERE name LIKE 'straight%'});
	return (scalar keys %number, map { "$_ has $there{$_}, not $number{$_}" } grep { $there{$_} ne $number{$_} } sort keys %number);
}

# The files whose content is not what was acknowledged last.
sub lost_files
{
	my %length = map { split /\|/ } split /\n/, sql(q{SELECT name, length(document) FROM files WHERE name LIKE 'moving%'});
	return map { "$_ has " . ($length{$_} // 'no row') . ", not @{ $may{$_} }" }
	  grep { my $name = $_; !grep { $_ == ($length{$name} // -1) } @{ $may{$name} } } keys %may;
}

prepare_straight();
foreach my $round (1 .. $ENV{SECUREFILE_MOVES} || 4)
{
	my $mode = $round % 2 ? 'block_writes' : 'force_logical';
	my ($shard, $from, $to) = split /\|/, sql(q{SELECT shardid, d.nodeport, n.nodeport
		FROM pg_dist_shard JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node d USING (groupid)
			JOIN pg_dist_node n ON n.nodeid <> d.nodeid AND n.groupid <> 0
		WHERE logicalrelid = 'files'::regclass ORDER BY random() LIMIT 1});
	sql('CALL citus_cleanup_orphaned_resources()');
	my ($source) = grep { $_->{_port} == $from } @workers;
	my $straight = start_straight($source, sql("SELECT securefile_dist_shard_name('files', $shard)"), $shard);
	my $acknowledged = puts_while("SELECT citus_move_shard_placement($shard, '$coordinator->{_host}', $from, '$coordinator->{_host}', $to, shard_transfer_mode => '$mode')");
	cmp_ok($acknowledged, '>', 0, "$mode: files were stored meanwhile");
	is(join("\n", lost_files()), '', "$mode: no acknowledged file is lost");
	ok($straight->finish, "$mode: who writes by the name of the shard sees that it has moved");
	my ($replaced, @lost) = lost_straight($source);
	is(join("\n", @lost), '', "$mode: none of $replaced files that were replaced by the name of their shard is lost");
}
runs(0, qr//, 'verify', '-t', 'files');
my ($moved) = sort keys %may;
runs(0, qr/^$/, 'get', '-t', 'files', $moved, 'back5');
holds('back5', bytes($may{$moved}[0] - 300_000 + 1, $may{$moved}[0]), 'a file of a shard that has moved');

# ---- a table is made anew ----

# Citus loses what is written through workers meanwhile: the command keeps it waiting
sql('CREATE TABLE anew (name text PRIMARY KEY, document securefile)', q{SELECT create_distributed_table('anew', 'name', colocate_with => 'none')});
runs(0, qr//, 'put', '-t', 'anew', 'kept');
POSIX::mkfifo('slow', 0600) or die $!;
foreach my $change (q{alter_distributed_table('anew', shard_count := 3)}, q{undistribute_table('anew')})
{
	my $put = IPC::Run::start([ 'securefile', 'put', '-t', 'anew', '--replace', 'slow', 'kept' ], '<', \'', '>', \my $out, '2>', \my $err);
	open(my $in, '>:raw', 'slow') or die $!;
	print $in bytes(5, 2_000_000);
	wait_for_sql($coordinator, q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'anew'::regclass AND mode = 'RowExclusiveLock'});
	my $session = background($coordinator);
	ok(waits_for_lock($coordinator, $session, "SELECT $change"), "$change waits");
	print $in bytes(6, 1_000_000);
	close $in;
	is($put->finish ? 'stored' : $err, 'stored', 'the file is stored');
	$session->quit;
	ok(wait_for_sql($coordinator, $change =~ /undistribute/ ? q{SELECT count(*) = 0 FROM pg_dist_partition WHERE logicalrelid::text = 'anew'} : q{SELECT count(*) = 3 FROM pg_dist_shard WHERE logicalrelid::text = 'anew'}), 'the table is made anew');
	is(sql('SELECT sum(length(document)) FROM anew'), 3_000_000, 'with the file');
}

# only the coordinator keeps it waiting
my @worker = ('-h', $workers[0]->{_host}, '-p', $workers[0]->{_port});
ends(3, qr/^securefile: public\.files is a distributed table of Citus, where migrate does not work\nHint: /, 'migrate of a distributed table', qw(migrate -t files --from name));
ends(1, qr/can be held only on the coordinator.*Connect to the coordinator/s, 'not where Citus would not wait: put through a worker', 'put', @worker, '-t', 'files', 'long', 'by_worker');
is(sql(q{SET idle_in_transaction_session_timeout = '1s'}, 'BEGIN', q{SELECT securefile_dist_hold('files')}, q{SELECT current_setting('idle_in_transaction_session_timeout')}), "\n0", 'and there its transaction does not time out');
is(sql(q{SET idle_in_transaction_session_timeout = '1s'}, 'BEGIN', q{SELECT securefile_dist_hold('files')}, 'COMMIT', 'SHOW idle_in_transaction_session_timeout'), "\n1s", 'others do as before');
like(($coordinator->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT securefile_dist_hold(0)"))[2], qr/42P01/, 'what is no table is not held');

# shards on the coordinator: the row and the lock of the table are of one transaction
sql("SELECT citus_set_node_property(nodename, nodeport, 'shouldhaveshards', true) FROM pg_dist_node WHERE groupid = 0",
	'CREATE TABLE here (name text PRIMARY KEY, document securefile)', q{SELECT create_distributed_table('here', 'name', colocate_with => 'none')});
cmp_ok(sql(q{SELECT count(*) FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) WHERE logicalrelid = 'here'::regclass AND groupid = 0}), '>', 0, 'the coordinator has shards');
my $local = sql("SELECT min(key) FROM securefile_dist_routes('here', (SELECT array_agg('local_' || i) FROM generate_series(1, 1000) i)) WHERE nodeport = $coordinator->{_port}");
my $put = IPC::Run::start([ 'securefile', 'put', '-t', 'here', 'slow', $local ], '<', \'', '>', \$said, '2>', \$warned);
open(my $slow, '>:raw', 'slow') or die $!;
print $slow bytes(5, 2_000_000);
my $holders = q{FROM pg_locks WHERE relation = 'here'::regclass AND mode = 'RowExclusiveLock'};
wait_for_sql($coordinator, "SELECT count(*) > 0 $holders");
wait_for_sql($coordinator, q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%securefile_write%' AND pid <> pg_backend_pid()});
is(sql("SELECT count(DISTINCT pid) $holders"), 1, 'one session holds the table, and writes to it');
close $slow;
is($put->finish ? 'stored' : $warned, 'stored', 'a file of a shard on the coordinator');
runs(0, qr//, 'rm', '-t', 'here', $local);
mkdir 'crowd';
write_file("crowd/$_", bytes($_, 300_000)) foreach 1 .. 60;
$import = IPC::Run::start([ 'securefile', 'import', '-q', '-t', 'here', '-j', '4', 'crowd' ], '<', \'', '>', \$said, '2>', \$warned, IPC::Run::timeout(patience()));
foreach my $n (1 .. 20)
{
	sql("SET statement_timeout = '" . patience() . "s'", "ALTER TABLE here ADD COLUMN c$n integer");
	$import->pump_nb;
	last if !$import->pumpable;
}
is($import->finish ? 'done' : $warned, 'done', 'files are imported while the table is altered');
runs(0, qr//, 'verify', '-q', '-t', 'here', '--against', 'crowd');
sql('DROP TABLE here', "SELECT citus_set_node_property(nodename, nodeport, 'shouldhaveshards', false) FROM pg_dist_node WHERE groupid = 0");

# keys that have no routes: everything goes through the coordinator
sql(q{CREATE TYPE mood AS ENUM ('bad', 'good')}, 'CREATE TABLE moods (mood mood, name text, document securefile, PRIMARY KEY (mood, name))',
	q{SELECT create_distributed_table('moods', 'mood')}, 'CREATE TABLE listed (keys int[], name text, document securefile, PRIMARY KEY (keys, name))', q{SELECT create_distributed_table('listed', 'keys')});
like(($coordinator->psql('postgres', "SELECT securefile_dist_route('$_->[0]', '$_->[1]')"))[2], qr/ERROR:  rows of "public.$_->[0]" have no routes/, "none in $_->[0]")
  foreach [ 'moods', 'good' ], [ 'listed', '{1,2}' ];
runs(0, qr/^$/, 'put', '-t', 'moods', '-k', 'name', '--set', 'mood=good', 'long');
runs(0, qr/^$/, 'put', '-t', 'listed', '-k', 'name', '--set', 'keys={1,2}', 'long');
runs(0, qr/^$/, 'get', '-t', 'listed', '-k', 'name', 'long', 'back8');
holds('back8', bytes(3, 4_000_000), 'and comes back');

# ---- what an import asks the coordinator ----

mkdir 'many';
write_file("many/many$_", bytes($_, 260_000 + 500 * $_)) foreach 1 .. 24;
write_file("many/many$_", bytes($_, 400 * $_)) foreach 25 .. 40;

# Statements of the command that the coordinator was sent while a function ran.
sub asked
{
	my ($run) = @_;
	$coordinator->safe_psql('postgres', q{ALTER SYSTEM SET log_statement = 'all'; SELECT pg_reload_conf()});
	wait_for_sql($coordinator, q{SELECT setting = 'all' FROM pg_settings WHERE name = 'log_statement'});
	my $from = -s $coordinator->logfile;
	$run->();
	my $log = slurp_file($coordinator->logfile, $from);
	$coordinator->safe_psql('postgres', q{ALTER SYSTEM RESET log_statement; SELECT pg_reload_conf()});
	my @statements = $log =~ /\] securefile LOG:  (?:statement|execute [^:]*): (.*)/g;
	return @statements;
}
# a look at the session for each file; more where a machine is so slow that the table is let go after each of them
my @statements = asked(sub { runs(0, qr//, 'import', '-q', '-t', 'files', '-j', '1', 'many') });
is(sql(q{SELECT count(*) FROM files WHERE name LIKE 'many%'}), 40, 'all files are stored');
cmp_ok(scalar(@statements), '<', 4 * 40 + 20, 'an import asks the coordinator little');
is(scalar(grep { /SELECT pg_catalog\.length/ } @statements), 0, 'and not for each file whether it is stored');
is(scalar(grep { /securefile_dist_routes/ } @statements), 1, 'nor for its shard');
@statements = asked(sub { runs(0, qr/40 same|^$/, 'import', '-t', 'files', '-j', '2', 'many') });
cmp_ok(scalar(@statements), '<', 40, 'what is stored already is compared on the nodes');
move_shard_of("many$_", 'block_writes') foreach 1, 2;
unlink glob 'many/many3?';
write_file("many/many$_", bytes($_ + 100, 270_000)) foreach 1 .. 20;
runs(0, qr//, 'import', '-q', '--replace', '-t', 'files', '-j', '2', 'many');
runs(0, qr//, 'verify', '-q', '-t', 'files', '--against', 'many', map { "many$_" } 1 .. 29);

# who changes the table waits for the import, the import for the shell on a node, and that for the change
sql(q{DELETE FROM files WHERE name LIKE 'many%'});
my $file_import = IPC::Run::start([ 'securefile', 'import', '-q', '-t', 'files', '-j', '1', 'many' ], '<', \'', '>', \$said, '2>', \$warned);
wait_for_sql($coordinator, q{SELECT count(*) > 0 FROM files WHERE name LIKE 'many%'});
my ($first, $second) = map { background($_) } $workers[0], $coordinator;
$first->query_safe('SET citus.enable_ddl_propagation = off; BEGIN; LOCK TABLE files');
$second->query_safe('SET citus.enable_ddl_propagation = off; BEGIN; LOCK TABLE files; COMMIT');
pass('the import lets go of the table');
$first->query_safe('COMMIT');
$_->quit foreach $first, $second;
is($file_import->finish ? 'done' : $warned, 'done', 'and goes on');
runs(0, qr//, 'verify', '-q', '-t', 'files', '--against', 'many', map { "many$_" } 1 .. 29);

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
