# A worker of Citus that was promoted: what was left behind is seen there, and fetched.  Keys,
# dictionaries and options of shards: by functions over all nodes, and after a move.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use SecurefileCitus;
use Test::More;

need_citus();
# each node has master keys of its own, so that one can lack a key
my ($coordinator, @workers) = new_nodes(2, conf => [ 'wal_keep_size = 512MB', "securefile.master_key = 'one'", q{securefile.key_command = 'cat "$PGDATA"/keys'} ], before_start => \&write_keys);

sub write_keys
{
	my ($node, @names) = @_;
	unlink $node->data_dir . '/keys';
	append_to_file($node->data_dir . '/keys', "$_ " . (sprintf('%02x', ord($_)) x 32) . "\n") foreach @names ? @names : 'one';
	return;
}

sql('CREATE EXTENSION securefile_citus');
foreach my $table ([ 'f', 'filesystem_like_logging' ], [ 'e', 'encrypt' ], [ 'd', 'compress_medium' ])
{
	my ($name, $options) = @$table;
	sql("CREATE TABLE $name (id int PRIMARY KEY, seed int, len int, doc securefile($options))", "SELECT create_distributed_table('$name', 'id', colocate_with => 'none')");
}
fill($coordinator, 'f', 1, 40, '20000 + 1000 * i');

# ---- standbys of the workers, which do not fetch ----

my @standbys = map {
	my $worker = $_;
	$worker->backup('base');
	my $node = PostgreSQL::Test::Cluster->new('standby_of_' . $worker->name);
	$node->init_from_backup($worker, 'base', has_streaming => 1);
	# what Citus has made for SSL was copied with other rights
	chmod 0600, $node->data_dir . '/server.key';
	$node->append_conf('postgresql.conf', "citus.local_hostname = '$node->{_host}'");
	$node->start;
	$node
} @workers;
fill($coordinator, 'f', 41, 80, '20000 + 1000 * i');
# a table that is no shard
$workers[0]->safe_psql('postgres', q{CREATE TABLE own (id int, doc securefile(filesystem_like_logging)); INSERT INTO own VALUES (1, blob(1, 30000))});
my @left = map { $_->safe_psql('postgres', q{SET citus.override_table_visibility = off; SELECT count(*) FROM pg_class WHERE relname ~ '^f_[0-9]+$'}) } @workers;
foreach my $i (0, 1)
{
	catch_up($workers[$i], $standbys[$i]);
	$standbys[$i]->promote;
	$standbys[$i]->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
	sql("SELECT citus_update_node((SELECT nodeid FROM pg_dist_node WHERE nodeport = $workers[$i]->{_port}), '$standbys[$i]->{_host}', $standbys[$i]->{_port})");
}

# ---- what was left behind ----

fails_with($coordinator, 'SELECT doc::bytea FROM f WHERE id BETWEEN 41 AND 80', '58P01', 'securefile_fetch_left_behind', 'the error names the function');
my $missing = sql('SELECT sum(missing_values), sum(fetched_values), count(DISTINCT nodeport) FROM securefile_dist_fetch()');
is($missing, '41|0|2', 'what is missing on all nodes is counted');
my $from = $workers[0]->connstr;
my ($first) = sql("SELECT sum(missing_values) FROM securefile_dist_fetch(NULL, '$standbys[0]->{_host}', $standbys[0]->{_port})");
is($standbys[0]->safe_psql('postgres', "SELECT count(*), sum(missing_values), sum(fetched_values) FROM securefile_fetch_left_behind('$from')"),
	($left[0] + 1) . "|$first|$first", 'that function fetches all on a promoted worker');
is($standbys[0]->safe_psql('postgres', 'SELECT doc::bytea = blob(1, 30000) FROM own'), 't', 'of a table that is no shard, too');
is(sql(q{SELECT sum(missing_values), sum(fetched_values), count(DISTINCT nodeport) FROM securefile_dist_fetch('} . $workers[1]->connstr . "', '$standbys[1]->{_host}', $standbys[1]->{_port})"),
	(41 - $first) . '|' . (41 - $first) . '|1', 'and from the coordinator on another');
rows_right($coordinator, 'f', 80, 'fetched');
foreach my $i (0, 1)
{
	$standbys[$i]->append_conf('postgresql.conf', "securefile.fetch_from = '" . $workers[$i]->connstr . "'");
	$standbys[$i]->reload;
	wait_for_sql($standbys[$i], q{SELECT setting <> '' FROM pg_settings WHERE name = 'securefile.fetch_from'});
}
is(sql(q{SELECT sum(missing_values), count(DISTINCT nodeport) FROM securefile_dist_fetch('')}), '0|2', 'each node has its own server, and nothing is missing then');
is(sql(q{SELECT sum(missing_values), count(DISTINCT nodeport) FROM securefile_dist_fetch()}), '0|2', 'and nothing is counted');
is(sql(q{SELECT count(*) FROM securefile_dist_check('f', 'doc')}), 0, 'all shards are sound');
fails_with($coordinator, "SELECT * FROM securefile_dist_fetch('$from')", '22023', 'has to be named by host and port', 'a server of no node');
fails_with($coordinator, "SELECT * FROM securefile_dist_fetch(NULL, 'nowhere', 1)", '42704', 'there is no node nowhere:1', 'no such node');
fails_with($coordinator, "SELECT * FROM securefile_dist_fetch('host=/nowhere', '$standbys[0]->{_host}', $standbys[0]->{_port})", '38000', "node .*$standbys[0]->{_port}: could not connect", 'a server that is not there');

# ---- views and queries of the manual, on a node with shards ----

is($standbys[0]->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE distributed), count(*) FILTER (WHERE relname ~ '^f_[0-9]+$'), count(*) FILTER (WHERE relname = 'own') FROM securefile_columns}), "3|$left[0]|1", 'securefile_columns has shards');
is($standbys[0]->safe_psql('postgres', q{SELECT count(*) FROM securefile_stat WHERE relname ~ '^f_[0-9]+$'}), $left[0], 'and so has securefile_stat');
my @nodes = ($coordinator, @standbys);
my ($keys_in_use, $check_all) = slurp("$FindBin::RealBin/../../../doc/operations.md") =~ /(SELECT DISTINCT master_key FROM.*?);.*(SELECT c\.relid::regclass, c\.attname, f\.\* FROM.*?);/s;
# local rows of a shell, which has a segment with keys then
sql('CREATE TABLE before (id int, doc securefile(encrypt))', 'INSERT INTO before VALUES (1, blob(1, 50000))', q{SELECT create_distributed_table('before', 'id')});
fill($coordinator, 'e', 1, 20, '20000 * i');
is(join(' ', map { $_->safe_psql('postgres', $keys_in_use) } @nodes), ' one one', 'which master keys are in use');
is(join(' ', map { $_->safe_psql('postgres', $check_all) } @nodes), '  ', 'all columns are checked');
sql('DROP TABLE before');

# ---- keys ----

my $shards = sql(q{SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = 'e'::regclass});
is(sql(q{SELECT count(DISTINCT shardid), count(DISTINCT nodeport), min(key_id), max(key_id), min(purpose), bool_and(is_current), min(master_key), sum(stored_values) FROM securefile_dist_keys('e', 'doc', true) WHERE key_id IS NOT NULL}),
	"$shards|2|1|1|data|t|one|20", 'keys of all shards');
is(sql(q{SELECT count(*), min(key_id), max(key_id) FROM securefile_dist_new_key('e', 'doc', true)}), "$shards|2|2", 'new keys');
sql(q{CALL securefile_dist_rewrite_online('e', 'doc', only_keys => true)});
is(sql(q{SELECT string_agg(key_id || ' ' || state || ' ' || n, ', ' ORDER BY key_id) FROM (SELECT key_id, state, sum(stored_values) AS n FROM securefile_dist_keys('e', 'doc', true) WHERE key_id IS NOT NULL GROUP BY 1, 2) k}),
	'1 distrusted 0, 2 usable 20', 'all values have them');
rows_right($coordinator, 'e', 20, 'encrypted anew');

# a node lacks a key: an error, whatever is asked
write_keys($_, 'one', 'two') foreach $coordinator, $standbys[0];
fails_with($coordinator, 'SELECT * FROM securefile_dist_load_keys()', '55000', qr/node \S+:$standbys[1]->{_port} has not loaded master key "two"/, 'a key that is missing on one node');
foreach my $node (@nodes)
{
	$node->append_conf('postgresql.conf', "securefile.master_key = 'two'");
	$node->reload;
	wait_for_sql($node, q{SELECT setting = 'two' FROM pg_settings WHERE name = 'securefile.master_key'});
}
foreach my $call (q{securefile_dist_rewrap('e', 'doc', 'two')}, q{securefile_dist_rewrap('e', 'doc')}, 'securefile_dist_rewrap()', q{securefile_dist_new_key('e', 'doc')})
{
	fails_with($coordinator, "SELECT * FROM $call", '38000', qr/\w+.*:$standbys[1]->{_port}: /, "which $call needs");
}
write_keys($standbys[1], 'one', 'two');
is(sql('SELECT count(*), min(loaded), max(loaded) FROM securefile_dist_load_keys()'), '3|2|2', 'all nodes have it');
is(sql('SELECT count(*), count(DISTINCT nodeport) FROM securefile_dist_master_keys() WHERE is_current'), '3|3', 'as the view shows');
is(sql('SELECT count(*), sum(rewrapped) > 0 FROM securefile_dist_rewrap()'), '3|t', 'all keys are wrapped anew');
is(sql('SELECT sum(rewrapped) FROM securefile_dist_rewrap()'), '0', 'once');
my $count = sql(q{SELECT count(*) FROM securefile_dist_keys('e', 'doc')});
is(sql(q{SELECT count(*), sum(rewrapped) FROM securefile_dist_rewrap('e', 'doc', 'one')}), "$shards|$count", 'those of one table with another key');
is(sql(q{SELECT DISTINCT master_key FROM securefile_dist_keys('e', 'doc')}), 'one', 'which has wrapped them');
# a node that cannot open a key leaves it with a WARNING, which nobody would see
write_keys($standbys[0], 'two');
fails_with($coordinator, 'SELECT * FROM securefile_dist_load_keys()', '55000', 'has not loaded master key "one"', 'a key that is missing later');
fails_with($coordinator, 'SELECT * FROM securefile_dist_rewrap()', '38000', qr/:$standbys[0]->{_port}: data keys are still wrapped with other master keys: one/, 'keys that are left behind are an error');
write_keys($standbys[0], 'one', 'two');
sql('SELECT * FROM securefile_dist_load_keys()', 'SELECT * FROM securefile_dist_rewrap()');
sql('CREATE ROLE plain LOGIN');
fails_with($coordinator, "SET ROLE plain; SELECT * FROM $_", '42501', 'permission denied', "not for everybody: $_") foreach 'securefile_dist_rewrap()', 'securefile_dist_load_keys()', 'securefile_dist_master_keys()', 'securefile_dist_fetch()', 'securefile_dist_rewrap_node()';
fails_with($coordinator, "SET ROLE plain; SELECT * FROM securefile_dist_keys('e', 'doc')", '38000', 'must be owner|permission denied', 'nor the keys of a table');

# ---- dictionaries ----

sql(q{INSERT INTO d SELECT i, 0, 0, convert_to(format('{"customer number": %s, "delivery address": "Street %s", "invoice address": "the same", "state": "delivered"}', i, i), 'UTF8') FROM generate_series(1, 2000) i});
is(sql(q{SELECT count(*), min(dictionary), bool_and(trained_bytes < stored_bytes) FROM securefile_dist_train('d', 'doc')}), '4|1|t', 'each shard learns a dictionary');

# ---- a move: what of each option is there afterwards ----

# Move the first shard of a table to the other node; which shard that is.
sub move
{
	my ($table, $mode) = @_;
	my ($shard, $from_host, $from_port) = split /\|/, sql("SELECT shardid, nodename, nodeport FROM citus_shards WHERE table_name = '$table'::regclass ORDER BY shardid LIMIT 1");
	my ($to) = grep { $_->{_port} != $from_port } @standbys;
	sql("SELECT citus_move_shard_placement($shard, '$from_host', $from_port, '$to->{_host}', $to->{_port}, shard_transfer_mode => '$mode')");
	return $shard;
}
my $all = 'compress_medium, deduplicate, encrypt, hash, filesystem_like_logging, cache';
mkdir "$_->{_basedir}/aside" foreach @nodes;
$_->safe_psql('postgres', "SET citus.enable_ddl_propagation = off; CREATE TABLESPACE aside LOCATION '$_->{_basedir}/aside'") foreach @nodes;
sql("CREATE TABLE m (id int PRIMARY KEY, seed int, len int, doc securefile($all))", q{SELECT create_distributed_table('m', 'id', shard_count => 1, colocate_with => 'none')},
	q{SELECT securefile_dist_set_tablespace('m', 'doc', 'aside')});
fill($coordinator, 'm', 1, 5, '300000');
sql('INSERT INTO m SELECT i + 10, i, len, doc FROM m, LATERAL (SELECT id) j (i)', q{INSERT INTO m VALUES (21, 21, 100, blob(21, 100))});
my $state = q{SELECT c.options, c.logging, c.cache, c.tablespace, u.shared_objects, u.shared_references, (SELECT string_agg(key_id || ' ' || state, ', ') FROM securefile_dist_keys('m', 'doc') WHERE purpose = 'data')
	FROM securefile_dist_columns c, securefile_dist_usage('m', 'doc') u WHERE c."table" = 'm'::regclass};
sql(q{SELECT securefile_dist_new_key('m', 'doc')});
is(sql($state), "$all|filesystem_like_logging|cache|aside|5|10|1 old, 2 usable", 'before a move');
foreach my $mode ('block_writes', 'force_logical')
{
	move('m', $mode);
	is(sql($state), "$all|filesystem_like_logging|cache|pg_default|5|10|1 usable", "after a move with $mode: options stay, the tablespace and old keys do not");
}
rows_right($coordinator, 'm', 11, 'moved');
is(sql(q{SELECT string_agg(form || ' ' || n, ', ') FROM (SELECT form, count(*) AS n FROM m, securefile_storage(doc) WHERE hashed OR form = 'inline' GROUP BY 1 ORDER BY 1) s}), 'inline 1, stored 10', 'hashes are there, and short values in their rows');
my $moved = move('d', 'block_writes');
is(sql(q{SELECT string_agg(DISTINCT dictionary || CASE WHEN shardid = } . $moved . q{ THEN ' of the moved' ELSE '' END, ', ') FROM securefile_dist_train('d', 'doc')}), '1 of the moved, 2', 'a shard that has moved has no dictionary any more');

# a node that lacks the key of others takes no shard of an encrypting column
my ($shard, $port) = split /\|/, sql(q{SELECT shardid, nodeport FROM citus_shards WHERE table_name = 'm'::regclass});
my ($has, $lacks) = $standbys[0]->{_port} == $port ? @standbys : reverse @standbys;
write_keys($lacks);
$lacks->safe_psql('postgres', 'SELECT securefile_load_keys()');
fails_with($coordinator, "SELECT citus_move_shard_placement($shard, '$has->{_host}', $has->{_port}, '$lacks->{_host}', $lacks->{_port}, shard_transfer_mode => 'block_writes')",
	'.....', 'there is no current master key', 'a move to a node without the key is an error');
rows_right($coordinator, 'm', 11, 'not moved');
$_->stop foreach @nodes, @workers;
done_testing();
