# The extension securefile_citus: functions and views over all shards, a node that cannot be
# asked, a damaged shard, the logging mode and the limit of shards and shells, costs of shards.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use SecurefileCitus;
use Test::More;

need_citus();
my ($coordinator, @workers) = new_nodes(2);
enter($coordinator);

sql('CREATE SCHEMA "Other place"', 'CREATE EXTENSION securefile_citus SCHEMA "Other place"',
	'CREATE TABLE docs (id int PRIMARY KEY, seed int, len int, doc securefile(compress_low))',
	q{SELECT create_distributed_table('docs', 'id')},
	q{CREATE TABLE "An odd%name" (id int PRIMARY KEY, "a 'column'%" securefile)}, q{SELECT create_reference_table('"An odd%name"')},
	'CREATE TABLE parts (id int, day int, seed int, len int, doc securefile) PARTITION BY RANGE (day)',
	'CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10)',
	'CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (10) TO (20)',
	q{SELECT create_distributed_table('parts', 'id')},
	'CREATE TABLE plain (id int, doc securefile)');
fill($coordinator, 'docs', 1, 40, '1000 * i * i % 300000');
sql('INSERT INTO parts SELECT i, i % 20, i, 10000, blob(i, 10000) FROM generate_series(1, 40) i',
	q{INSERT INTO "An odd%name" VALUES (1, blob(1, 50000))});

# ---- functions ----

is(sql(q{SELECT count(*), count(DISTINCT shardid), count(DISTINCT nodeport), sum(live_bytes) > 10000,
		bool_and(file_bytes = live_bytes + pending_bytes + free_bytes) FROM "Other place".securefile_dist_usage('docs', 'doc')}),
	'4|4|2|t|t', 'usage: a row a shard');
is(sql(q{SELECT count(*), count(DISTINCT shardid), sum(live_bytes) FROM "Other place".securefile_dist_usage('"An odd%name"', 'a ''column''%')}),
	'3|1|150528', 'usage: a row for each placement of a reference table');
is(sql(q{SELECT count(*), sum(live_bytes) FROM "Other place".securefile_dist_usage('parts', 'doc')}), '4|409600', 'usage: all partitions');
is(sql(q{SELECT count(*), sum(live_bytes) FROM "Other place".securefile_dist_usage('part1', 'doc')}), '4|204800', 'usage: one partition');
is(sql(qq{SELECT count(*) FROM "Other place".securefile_dist_check('$_->[0]', '$_->[1]')}), 0, "check: $_->[0] is sound")
  foreach [ 'docs', 'doc' ], [ 'parts', 'doc' ], [ '"An odd%name"', q{a ''column''%} ];
sql('DELETE FROM docs WHERE id > 30');
# the monitor may have been first
is(sql(q{SELECT count(*), bool_and(bytes_freed >= 0) FROM "Other place".securefile_dist_maintain('docs', 'doc')}), '4|t', 'maintain');
ok(wait_for_sql($coordinator, q{SELECT sum(pending_bytes) = 0 AND sum(free_bytes) > 10000 FROM "Other place".securefile_dist_usage('docs', 'doc')}), 'and space is free');
is(sql(q{SELECT count(*), sum(rewritten) > 0 FROM "Other place".securefile_dist_rewrite('docs', 'doc')}), '4|t', 'rewrite');
rows_right($coordinator, 'docs', 30, 'rewritten');

# space of all shards goes back to the file system
sql('CREATE TABLE holes (id int PRIMARY KEY, doc securefile(filesystem_like_logging))', q{SELECT create_distributed_table('holes', 'id')}, 'INSERT INTO holes SELECT i, blob(i, 400000) FROM generate_series(1, 40) i', 'DELETE FROM holes WHERE id <= 30');
sql(q{SELECT "Other place".securefile_dist_maintain('holes', 'doc')});
ok(wait_for_sql($coordinator, q{SELECT sum(pending_bytes) = 0 FROM "Other place".securefile_dist_usage('holes', 'doc')}), 'three quarters are free');
my ($placements, $could, $on_disk) = split /\|/, sql(q{SELECT count(*), sum(releasable_bytes), sum(disk_bytes) FROM "Other place".securefile_dist_shrink_estimate('holes', 'doc')});
ok($placements == 4 && $could > mb(2), "shrink_estimate: $could bytes of four shards");
ends(0, qr/^ +[0-9.]+ MB can be given back/m, 'the command says so, too', 'shrink', '-t', 'holes', '--estimate');
sql(q{CALL "Other place".securefile_dist_shrink('holes', 'doc', 'release', 1000000000)});
cmp_ok(sql(q{SELECT sum(disk_bytes) FROM "Other place".securefile_dist_usage('holes', 'doc')}), '<=', $on_disk - $could * 0.9, 'shrink: all shards');
is(sql('SELECT count(*) FROM holes WHERE doc::bytea = blob(id, 400000)'), 10, 'and no value');
ends(0, qr/\Aon disk [0-9.]+ MB, before [0-9.]+ MB; files [0-9.]+ MB, before [0-9.]+ MB\n\z/, 'shrink by the command', 'shrink', '-t', 'holes');
fails_with($coordinator, q{CALL "Other place".securefile_dist_shrink('holes', 'doc', batch_bytes => 0)}, '38000', 'shard public.holes_\d+ on node .*: the size of a batch', 'so is the size of a batch');

# what shards keep of removed values
sql(q{CREATE TABLE kept (id int PRIMARY KEY, doc securefile(disable_storage_in_row, 'retention 7 days', 'max_size 1 GB'))}, q{SELECT create_distributed_table('kept', 'id')}, 'INSERT INTO kept SELECT i, blob(i, 100000) FROM generate_series(1, 8) i', 'DELETE FROM kept WHERE id > 2');
is(sql(q{SELECT string_agg(row_key ->> 'id', ' ' ORDER BY row_key) || ' ' || sum(length) FROM "Other place".securefile_dist_removed('kept', 'doc')}), '3 4 5 6 7 8 600000', 'removed: all shards');
ends(0, qr/\A(?:[0-9T:.+-]+  deleted           100000  [3-8]\n){6}\z/, 'by the command', 'removed', '-t', 'kept');
ends(0, qr/"name":"5",.*"row_key":\{"id":5\}\}\n\z/, 'one of them', 'removed', '-t', 'kept', '--json', '5');
ends(3, qr/is a distributed table, whose removed values are on its nodes\nHint: securefile_removed\(\) of a shard/, 'undelete by the command', 'undelete', '-t', 'kept', '5');
ends(0, qr/\A\{"report":"purge","values":6,"bytes":600000,"retained_bytes":\d+\}\n\z/, 'what a purge would end', 'purge', '-t', 'kept', '-n', '--json');
ends(0, qr/\A0 bytes became free\n\z/, 'purge of what is old', 'purge', '-t', 'kept', '--older-than', '1 day');
ends(0, qr/\A\{"summary":"purge","freed_bytes":60\d{4}\}\n\z/, 'purge of all', 'purge', '-t', 'kept', '--json');
is(sql(q{SELECT count(*) FROM "Other place".securefile_dist_removed('kept', 'doc')}), 0, 'leaves nothing');

# as Citus makes one for a shard that it moves
$workers[0]->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('like_a_move', 'pgoutput')});
my ($long) = sql(q{SELECT sum(file_bytes) FROM "Other place".securefile_dist_usage('holes', 'doc')});
fails_with($coordinator, q{CALL "Other place".securefile_dist_shrink('holes', 'doc', 'move', force => true)}, '38000', 'shard public.holes_\d+ on node .*: .*replicated logically', 'nothing moves on a worker with a subscription');
fails_with($coordinator, q{CALL "Other place".securefile_dist_shrink('holes', 'doc', 'move', allow_decoding => true)}, '38000', 'shard public.holes_\d+ on node .*: .*not in WAL', 'nor what is not in WAL');
sql(q{CALL "Other place".securefile_dist_shrink('holes', 'doc', 'move', allow_decoding => true, force => true)});
cmp_ok(sql(q{SELECT sum(file_bytes) FROM "Other place".securefile_dist_usage('holes', 'doc')}), '<', $long * 0.75, 'unless it is allowed: files are shorter');
is(sql('SELECT count(*) FROM holes WHERE doc::bytea = blob(id, 400000)'), 10, 'values are the same');
$workers[0]->safe_psql('postgres', q{SELECT pg_drop_replication_slot('like_a_move')});
fails_with($coordinator, q{CALL "Other place".securefile_dist_shrink('holes', 'doc', max_bytes_per_second => -1)}, '38000', 'shard public.holes_\d+ on node .*: max_bytes_per_second .* must not be negative', 'the rate is passed on');
fails_with($coordinator, q{CALL "Other place".securefile_dist_shrink('holes', 'doc', 'sh%1$sred')}, '38000', 'shard public.holes_\d+ on node .*: unrecognized mode "sh%1\$sred"', 'the mode is passed on');
sql('DROP TABLE holes');

fails_with($coordinator, q{SELECT * FROM "Other place".securefile_dist_check('plain', 'doc')}, '42809', 'is not a distributed table', 'a table of one node');
fails_with($coordinator, q{SELECT * FROM "Other place".securefile_dist_check('docs', 'nothing')}, '42703', 'column "nothing" of relation "public.docs" does not exist', 'no such column');
fails_with($coordinator, q{SELECT * FROM "Other place".securefile_dist_check('docs', 'seed')}, '42804', 'column "seed" of table "public.docs" is not of type securefile', 'another column');
fails_with($coordinator, q{BEGIN; UPDATE docs SET seed = seed WHERE id = 1; SELECT * FROM "Other place".securefile_dist_check('docs', 'doc')}, '25001',
	'has used distributed tables', 'a check that would wait for its own transaction');
is(sql(q{SELECT count(*) FROM "Other place".securefile_dist_check('docs', 'doc') a}, q{SELECT count(*) FROM "Other place".securefile_dist_check('docs', 'doc') b}), "0\n0", 'two checks in one transaction');
is(sql('BEGIN', 'UPDATE docs SET seed = seed WHERE id = 1', q{SELECT count(*) FROM "Other place".securefile_dist_usage('docs', 'doc')}, 'COMMIT'), 4, 'usage after a write');
fails_with($coordinator, q{SELECT * FROM "Other place".securefile_dist_usage(NULL, 'doc')}, '22004', 'must not be null', 'no table');

# ---- views ----

is(sql(q{SELECT "table", attname, count(*), bool_or(differs_in_logging), sum(file_bytes) > 0
		FROM "Other place".securefile_dist_columns WHERE "table" = 'docs'::regclass GROUP BY 1, 2}), 'docs|doc|4|f|t', 'columns');
is(sql(q{SELECT count(*) FROM "Other place".securefile_dist_columns WHERE "table" = '"An odd%name"'::regclass}), 3, 'columns: of all placements');
is(sql(q{SELECT count(*), sum(bytes_transformed) > 100000 FROM "Other place".securefile_dist_stat WHERE "table" = 'docs'::regclass}), '4|t', 'stat');
is(sql(q{SELECT count(*) FROM "Other place".securefile_dist_monitor WHERE launcher_pid IS NOT NULL}), 3, 'monitor');

# ---- the logging mode ----

is(sql(q{SELECT count(*) FROM "Other place".securefile_dist_rewrite('docs', 'doc', 'filesystem_like_logging')}), 4, 'another logging mode');
is(sql(q{SELECT count(*), bool_or(differs_in_logging), min(logging), max(logging) FROM "Other place".securefile_dist_columns WHERE "table" = 'docs'::regclass}),
	'4|f|filesystem_like_logging|filesystem_like_logging', 'shards have it');
is(join(' ', map { $_->safe_psql('postgres', q{SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname = 'doc'}) } $coordinator, @workers),
	join(' ', ('securefile(compress_low, filesystem_like_logging)') x 3), 'shells have it on each node, and the other options');
rows_right($coordinator, 'docs', 30, 'in another mode');

# local rows of a shell are noticed before the shards are changed
sql('CREATE TABLE local_rows (id int, doc securefile)', q{INSERT INTO local_rows VALUES (1, blob(1, 50000))}, q{SELECT create_distributed_table('local_rows', 'id')});
fails_with($coordinator, q{SELECT * FROM "Other place".securefile_dist_rewrite('local_rows', 'doc', 'filesystem_like_logging')}, '38000',
	'still has the rows of the time before it was distributed', 'a shell with rows');
is(sql(q{SELECT count(*) FROM "Other place".securefile_dist_columns WHERE logging <> 'logging' AND "table" = 'local_rows'::regclass}), 0, 'and nothing was changed');
sql(q{SELECT truncate_local_data_after_distributing_table('local_rows')}, q{SELECT "Other place".securefile_dist_rewrite('local_rows', 'doc', 'FILESYSTEM_LIKE_LOGGING')});
is(sql(q{SELECT count(*), bool_or(differs_in_logging), min(logging), max(logging) FROM "Other place".securefile_dist_columns WHERE "table" = 'local_rows'::regclass}),
	'4|f|filesystem_like_logging|filesystem_like_logging', 'without them it is, in capitals, too');
sql('DROP TABLE local_rows');

# a shard that was left behind, by hand, shows; the call brings it in line
my ($shard, $port) = split /\|/, sql(q{SELECT shard_name, nodeport FROM "Other place".securefile_dist_usage('docs', 'doc') LIMIT 1});
my ($node) = grep { $_->{_port} == $port } $coordinator, @workers;
$node->safe_psql('postgres', "SELECT securefile_rewrite('$shard', 'doc', logging => 'logging')");
is(sql(q{SELECT count(*) FROM "Other place".securefile_dist_columns WHERE differs_in_logging}), 1, 'a shard in another mode shows');
sql(q{SELECT "Other place".securefile_dist_rewrite('docs', 'doc', 'logging')});
is(sql(q{SELECT count(*) FROM "Other place".securefile_dist_columns WHERE differs_in_logging OR logging <> 'logging'}), 0, 'and is brought in line');
is($workers[1]->safe_psql('postgres', q{SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname = 'doc'}),
	'securefile(compress_low)', 'so are the shells');

# ---- the limit ----

# The type of column doc in all tables of a pattern, on each node: shells, their views and shards.
sub types
{
	my ($pattern) = @_;
	return join ' ', map { $_->safe_psql('postgres', qq{SET citus.override_table_visibility = off;
		SELECT string_agg(DISTINCT format_type(a.atttypid, a.atttypmod), ' and ') FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relname ~ '^($pattern)(_[0-9]+)?\$' AND c.relkind IN ('r', 'p', 'v') AND a.attname = 'doc' AND NOT a.attisdropped}) } $coordinator, @workers;
}

sub limited { return join ' ', ("securefile($_[0])") x 3; }
my $set = '"Other place".securefile_dist_set_max_size';
sql('CREATE TABLE lim (id int PRIMARY KEY, seed int, len int, doc securefile(compress_low))', q{SELECT create_distributed_table('lim', 'id', colocate_with => 'none')},
	'CREATE VIEW over_lim AS SELECT id, doc FROM lim', q{CREATE TABLE limited (id int PRIMARY KEY, doc securefile('max_size 64 GB'))}, q{SELECT create_distributed_table('limited', 'id')});
fill($coordinator, 'lim', 1, 30, '1000 * i * i % 300000');
is(types('limited'), limited(q{'max_size 64 GB'}), 'shells and shards of a new table have its limit');
is(sql(qq{SELECT count(*), count(DISTINCT shardid), count(DISTINCT nodeport) FROM $set('lim', 'doc', '1 MB')}), '4|4|2', 'a row for each shard');
is(types('lim|over_lim'), limited(q{compress_low, 'max_size 1 MB'}), 'all shells, views and shards have it');
rows_right($coordinator, 'lim', 30, 'limited');
# a COPY would tell neither the code nor the hint
my $fill = 'DO $$ BEGIN FOR i IN 101..%d LOOP INSERT INTO lim VALUES (i, i, 300000, noise(i, 300000)); END LOOP; END $$';
fails_with($coordinator, sprintf($fill, 120), '53400', 'column "doc" of table "lim_\d+" has reached its limit of 1 MB.*securefile_dist_set_max_size',
	'a shard at its limit says so, and which function to call');

# a move waits for the function, as new shards are made like the shell
my ($moved, $from) = split /\|/, sql(q{SELECT shardid, nodeport FROM pg_dist_shard_placement JOIN pg_dist_shard USING (shardid) WHERE logicalrelid = 'lim'::regclass ORDER BY 1 LIMIT 1});
my ($to) = grep { $_ != $from } map { $_->{_port} } @workers;
my $move = "SELECT citus_move_shard_placement($moved, '$coordinator->{_host}', $from, '$coordinator->{_host}', $to, shard_transfer_mode => 'block_writes')";
my $setter = background($coordinator);
my $mover = background($coordinator);
$setter->query_safe(qq{BEGIN; SELECT count(*) FROM $set('lim', 'doc', '2 MB')});
ok(waits_for_lock($coordinator, $mover, $move), 'a move waits');
$setter->query_safe('COMMIT');
$mover->query('SELECT 1');
$_->quit foreach $setter, $mover;
is(sql("SELECT nodeport FROM pg_dist_shard_placement WHERE shardid = $moved"), $to, 'the shard has moved');
sql('CALL citus_cleanup_orphaned_resources()');
is(types('lim|over_lim'), limited(q{compress_low, 'max_size 2 MB'}), 'where it is now, it has the limit');
sql(qq{SELECT citus_split_shard_by_split_points($moved, (SELECT ARRAY[((shardminvalue::bigint + shardmaxvalue::bigint) / 2)::text] FROM pg_dist_shard WHERE shardid = $moved),
	(SELECT ARRAY[nodeid, nodeid] FROM pg_dist_node WHERE nodeport = $to), 'block_writes')}, 'CALL citus_cleanup_orphaned_resources()');
is(types('lim|over_lim'), limited(q{compress_low, 'max_size 2 MB'}), 'so have both halves of a shard that is split');
fails_with($coordinator, sprintf($fill, 180), '53400', 'limit of 2 MB', 'and it counts');
sql(qq{SELECT $set('lim', 'doc', '5 GB')}, 'INSERT INTO lim SELECT i, i, 300000, noise(i, 300000) FROM generate_series(101, 120) i', 'DELETE FROM lim WHERE id > 100');

# Citus makes the table anew
sql(q{SELECT alter_distributed_table('lim', shard_count => 2)});
is(types('lim|over_lim'), limited(q{compress_low, 'max_size 5 GB'}), 'another number of shards');
rows_right($coordinator, 'lim', 30, 'made anew');

# all kinds of tables
sql(qq{SELECT $set('parts', 'doc', '7 GB')}, 'CREATE TABLE part3 PARTITION OF parts FOR VALUES FROM (20) TO (30)');
is(types('parts|part[123]'), limited(q{'max_size 7 GB'}), 'partitions of shells and of shards, and one that is made afterwards');
sql('CREATE TABLE reference (id int PRIMARY KEY, doc securefile(hash))', q{SELECT create_reference_table('reference')}, q{CREATE TABLE managed (id int PRIMARY KEY, doc securefile)},
	q{SELECT citus_add_local_table_to_metadata('managed')}, qq{SELECT $set('reference', 'doc', '1 TB'), $set('managed', 'doc', '8 MB')});
is(types('reference'), limited(q{hash, 'max_size 1 TB'}), 'a reference table');
is(types('managed'), limited(q{'max_size 8 MB'}), 'a local table that Citus manages');
sql(qq{SELECT $set('limited', 'doc', 'none')});
is(types('limited'), join(' ', ('securefile') x 3), 'no limit');
sql('DROP TABLE limited, reference, managed');

# who, where, what
fails_with($coordinator, qq{SELECT $set('$_->[0]', '$_->[1]', $_->[2])}, $_->[3], $_->[4])
  foreach [ 'plain', 'doc', q{'1 MB'}, '42809', 'is not a distributed table' ], [ 'lim', 'seed', q{'1 MB'}, '42804', 'is not of type securefile' ], [ 'part1', 'doc', q{'1 MB'}, '42P16', 'Call securefile_dist_set_max_size' ],
  [ 'lim', 'doc', q{'129 GB'}, '22023', 'nearest sizes' ], [ 'lim', 'doc', 'NULL', '22004', 'null' ];
fails_with($coordinator, q{SELECT securefile_set_max_size('lim', 'doc', '1 MB')}, '0A000', 'securefile_dist_', 'the function for tables of one node');
fails_with($coordinator, qq{SELECT "Other place".securefile_dist_set_shell_max_size('plain', 'doc', '1 MB')}, '42809', 'is not a distributed table');
fails_with($workers[0], qq{SELECT $set('lim', 'doc', '1 MB')}, '0A000', 'only on the coordinator', 'on a worker');
fails_with($coordinator, qq{BEGIN; UPDATE lim SET seed = seed WHERE id = 1; SELECT $set('lim', 'doc', '1 MB')}, '25001', 'has used distributed tables', 'after a write');
sql('CREATE ROLE other', 'GRANT USAGE ON SCHEMA "Other place" TO other');
fails_with($coordinator, qq{SET ROLE other; SELECT $set('lim', 'doc', '1 MB')}, '42501', 'must be owner', 'by another role');
is(types('lim|over_lim'), limited(q{compress_low, 'max_size 5 GB'}), 'none of them has changed anything');

# one shard by hand; the next call brings it in line
my ($one, $its_port) = split /\|/, sql(q{SELECT shard_name, nodeport FROM "Other place".securefile_dist_usage('lim', 'doc') LIMIT 1});
my $differing = q{SELECT count(*) FROM "Other place".securefile_dist_columns WHERE differs_in_limit};
is(sql($differing), 0, 'no shard differs');
$_->safe_psql('postgres', "SELECT securefile_set_max_size('$one', 'doc', '1 GB')") foreach grep { $_->{_port} == $its_port } @workers;
is(sql($differing), 1, 'one by hand does');
sql(qq{SELECT $set('lim', 'doc', '5 GB')});
is(sql($differing), 0, 'and is brought in line');

# ---- a damaged shard ----

my $victim = sql(qq{SELECT id FROM docs WHERE len > 20000 AND get_shard_id_for_distribution_column('docs', id) = substring('$shard' FROM '[0-9]+\$')::bigint ORDER BY id LIMIT 1});
# Citus hides shards from queries of the catalog on the nodes that have them
my $file = $node->safe_psql('postgres', qq{
	SET citus.override_table_visibility = off;
	SELECT replace(data_files, '*', '00000000') FROM securefile_columns WHERE relid = '$shard'::regclass AND attname = 'doc'});
$node->stop;
patch($node->data_dir . "/$file", 4096 * $_, 'damaged') foreach 0 .. 40;
$node->start;
like(sql(q{SELECT string_agg(DISTINCT shard_name || ' ' || nodeport || ' ' || finding, E'\n') FROM "Other place".securefile_dist_check('docs', 'doc')}),
	qr/^\Q$shard\E $port .*(checksum|damaged|differs)/, 'a damaged shard is found from the coordinator');
cmp_ok(sql(q{SELECT count(*) FROM "Other place".securefile_dist_repair('docs', 'doc')}), '>', 0, 'what a repair would do');

# ---- rebalancing ----

sql(q{SELECT "Other place".securefile_dist_strategy()});
is(sql(q{SELECT name FROM pg_dist_rebalance_strategy WHERE default_strategy}), 'by_file_size', 'the strategy is the default');
my ($small, $large) = (0, 0);
is(sql(q{SELECT bool_and("Other place".securefile_shard_cost(shardid) > citus_shard_cost_by_disk_size(shardid)) FROM pg_dist_shard WHERE logicalrelid = 'docs'::regclass}),
	't', 'the cost of a shard has its data files');
is(sql(q{SELECT bool_and("Other place".securefile_shard_allowed(shardid, nodeid)) FROM pg_dist_shard, pg_dist_node WHERE logicalrelid = 'parts'::regclass}), 't', 'a shard may go anywhere');
sql('CREATE TABLE heavy (id int PRIMARY KEY, doc securefile)', q{SELECT create_distributed_table('heavy', 'id', colocate_with => 'none')});
my ($heavy, $there) = split /\|/, sql(q{SELECT shard_name, nodeport FROM "Other place".securefile_dist_route('heavy', '1')});
my ($host) = grep { $_->{_port} == $there } $coordinator, @workers;
sql(q{INSERT INTO heavy VALUES (1, '\x00')});
# a gap takes no space
$host->safe_psql('postgres', "BEGIN; SELECT securefile_create('$heavy', 'doc') AS h \\gset\nSELECT securefile_truncate(:h, 1500000000); UPDATE $heavy SET doc = securefile_finish(:h); COMMIT");
is(sql(q{SELECT count(*), min(length_bytes) FROM "Other place".securefile_dist_oversize('heavy', 'doc')}), '1|1500000000', 'a value that cannot be moved is listed');
is(sql(q{SELECT string_agg("Other place".securefile_shard_allowed(get_shard_id_for_distribution_column('heavy', 1), nodeid)::text, ' ' ORDER BY nodeport = } . $there . q{ DESC) FROM pg_dist_node}),
	'true false false', 'and keeps its shard where it is');

my $heavy_id = $heavy =~ s/.*_//r;
fails_with($coordinator, qq{SELECT "Other place".securefile_dist_movable($heavy_id)}, '54000', 'cannot be moved or split: 1 values.*1500000000 bytes', 'such a move can be refused beforehand');
is(sql(q{SELECT bool_and("Other place".securefile_dist_movable(shardid)) FROM pg_dist_shard WHERE logicalrelid = 'docs'::regclass}), 't', 'and others not');
fails_with($coordinator, q{SELECT "Other place".securefile_dist_movable(1)}, '42704', 'shard 1 does not exist', 'no such shard');

# ---- names that others have chosen ----

# Owner of the tables is a role that wants what the superuser has.  Its functions are called
# with the rights of whoever is made to.
sql('CREATE ROLE mallory LOGIN', 'CREATE SCHEMA ms AUTHORIZATION mallory', 'GRANT CREATE ON SCHEMA public TO mallory');
foreach my $node ($coordinator, @workers)
{
	$node->safe_psql('postgres', q{SET ROLE mallory; SET citus.enable_ddl_propagation = off;
		CREATE FUNCTION ms.took(text, int) RETURNS regclass LANGUAGE plpgsql AS $$ BEGIN
			EXECUTE 'ALTER ROLE mallory CREATEROLE'; RETURN 'ms.took'; EXCEPTION WHEN OTHERS THEN RETURN NULL; END $$;
		CREATE OPERATOR ms.!! (LEFTARG = text, RIGHTARG = int, FUNCTION = ms.took);
		CREATE FUNCTION public.securefile_check(text, text) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN
			EXECUTE 'ALTER ROLE mallory CREATEROLE'; RETURN; END $$;
		CREATE FUNCTION public.to_jsonb(record) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
			EXECUTE 'ALTER ROLE mallory CREATEROLE'; RETURN '{}'; END $$;
		CREATE FUNCTION public.to_jsonb(bigint) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
			EXECUTE 'ALTER ROLE mallory CREATEROLE'; RETURN '0'; END $$;
		CREATE FUNCTION public.gather(jsonb, jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
			EXECUTE 'ALTER ROLE mallory CREATEROLE'; RETURN '[]'; END $$;
		CREATE AGGREGATE public.jsonb_agg(jsonb) (SFUNC = public.gather, STYPE = jsonb, INITCOND = '[]');
		CREATE FUNCTION public.securefile_usage(text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
			EXECUTE 'ALTER ROLE mallory CREATEROLE'; RETURN ''; END $$});
}
my @names = ('m2{column}', 'm3{schema}{table}', 'm4%1$s%L', q{m5'"});
foreach my $name (@names)
{
	my $quoted = '"' . ($name =~ s/"/""/gr) . '"';
	my $literal = "'ms." . ($quoted =~ s/'/''/gr) . "'";
	my $column = 'operator(ms.!!)1,$$c$$)t,concat(';
	sql('SET ROLE mallory', "CREATE TABLE ms.$quoted (id int PRIMARY KEY, \"$column\" securefile, \"%s{name}\" securefile)", "SELECT create_distributed_table($literal, 'id', colocate_with => 'none')",
		"INSERT INTO ms.$quoted SELECT i, blob(i, 5000), blob(i, 5000) FROM generate_series(1, 8) i");
	foreach my $col ($column, '%s{name}')
	{
		my $args = "$literal, '" . ($col =~ s/'/''/gr) . "'";
		is(sql("SELECT count(*), sum(live_bytes) FROM \"Other place\".securefile_dist_usage($args)", "SELECT count(*) FROM \"Other place\".securefile_dist_check($args)",
				"SELECT count(*) FROM \"Other place\".securefile_dist_rewrite($args, 'filesystem_like_logging')", "SELECT count(*) FROM \"Other place\".securefile_dist_oversize($args)"),
			"4|40960\n0\n4\n0", "a table named $name, column $col");
	}
}
# types of the distribution column, with what their owner has made to be called
sql('SET ROLE mallory', q{CREATE TYPE ms.colour AS ENUM ('red', 'green')}, 'CREATE DOMAIN ms.short AS text', 'CREATE TABLE ms.by_colour (k ms.colour PRIMARY KEY, doc securefile)', 'CREATE TABLE ms.by_short (k ms.short PRIMARY KEY, doc securefile)',
	q{SELECT create_distributed_table('ms.by_colour', 'k', colocate_with => 'none')}, q{SELECT create_distributed_table('ms.by_short', 'k', colocate_with => 'none')},
	q{INSERT INTO ms.by_colour VALUES ('red', blob(1, 5000))}, q{INSERT INTO ms.by_short VALUES ('it''s "k, {}', blob(1, 5000))});
sql('SET ROLE mallory', 'SET citus.enable_ddl_propagation = off', q{CREATE FUNCTION ms.cast_it(text) RETURNS ms.colour LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER ROLE mallory CREATEROLE'; RETURN 'red'; END $$},
	'CREATE CAST (text AS ms.colour) WITH FUNCTION ms.cast_it(text) AS IMPLICIT',
	q{CREATE FUNCTION ms.check_it(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER ROLE mallory CREATEROLE'; RETURN true; EXCEPTION WHEN OTHERS THEN RETURN true; END $$},
	'ALTER DOMAIN ms.short ADD CHECK (ms.check_it(value)) NOT VALID');
fails_with($coordinator, q{SELECT * FROM "Other place".securefile_dist_route('ms.by_colour', 'red')}, '0A000', 'rows of "ms.by_colour" have no routes', 'an enum, whose hash is another one on each node');
is(sql(q{SELECT count(*), bool_and(nodeport IS NOT NULL) FROM "Other place".securefile_dist_routes('ms.by_short', ARRAY['it''s "k, {}', 'b', ''])}), '3|t', 'shards of a domain');
foreach my $type ('int', 'bigint', 'uuid', 'char(10)', 'varchar(5)', 'numeric(6,1)', 'timestamptz')
{
	my %key = (uuid => 'md5(i::text)::uuid::text', timestamptz => q{(date '2020-01-01' + i)::text}, 'numeric(6,1)' => '(i * 1.27)::text');
	sql("CREATE TABLE keyed (k $type PRIMARY KEY, doc securefile)", q{SELECT create_distributed_table('keyed', 'k', colocate_with => 'none')});
	is(sql("SELECT count(*), bool_and(shardid = get_shard_id_for_distribution_column('keyed', key::$type)) FROM \"Other place\".securefile_dist_routes('keyed', (SELECT array_agg(" . ($key{$type} || 'i::text') . ') FROM generate_series(1, 200) i))'), '200|t', "shards of $type");
	sql('DROP TABLE keyed');
}
sql('SELECT count(*) FROM "Other place".securefile_dist_columns', 'SELECT count(*) FROM "Other place".securefile_dist_stat', 'SELECT count(*) FROM "Other place".securefile_dist_monitor');
is(sql(q{SELECT rolcreaterole FROM pg_roles WHERE rolname = 'mallory'}), 'f', 'no function of its owner was called');
is($_->safe_psql('postgres', q{SELECT rolcreaterole FROM pg_roles WHERE rolname = 'mallory'}), 'f', 'nor on ' . $_->name) foreach @workers;

# ---- a node that cannot be asked ----

$workers[1]->stop;
foreach my $call (q{securefile_dist_usage('docs', 'doc')}, q{securefile_dist_check('docs', 'doc')}, 'securefile_dist_columns', 'securefile_dist_monitor')
{
	my ($rc, $out, $err) = $coordinator->psql('postgres', "SELECT * FROM \"Other place\".$call");
	ok($rc != 0 && $err =~ /ERROR/, "a node that is down is an error: $call") or diag("$rc $out $err");
}
fails_with($coordinator, qq{SELECT $set('lim', 'doc', '6 GB')}, '38000', 'lim_\d+ on node', 'nor is a limit changed without an error');
$workers[1]->start;
is(sql(q{SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'lim'::regclass AND attname = 'doc'}), q{securefile(compress_low, 'max_size 5 GB')}, 'the coordinator has the old one');
$coordinator->poll_query_until('postgres', 'SELECT count(*) >= 0 FROM lim');
cmp_ok(sql($differing), '>', 0, 'shards that have the new one show');
sql(qq{SELECT $set('lim', 'doc', '6 GB')});
is(types('lim|over_lim'), limited(q{compress_low, 'max_size 6 GB'}), 'another call does all');
sql('DROP EXTENSION securefile_citus');
done_testing();
