# Distributed tables with what Citus has since 13.2: several shards of a table that move at the
# same time, and a worker that is divided between itself and a standby of it (a clone), whose
# data of filesystem_like_logging columns is fetched afterwards.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use SecurefileCitus;
use Test::More;

need_citus('13.2');
# a shard that has left a node stays there until the test calls for it to be dropped
my ($coordinator, @workers) = new_nodes(2, conf => [ 'citus.defer_shard_delete_interval = -1', 'wal_keep_size = 512MB' ]);

# Rows of docs are replaced by the names of their shards, one in a transaction, until the shard
# is not there, or may not be written to; replaced has the number in each, committed with it.
sql('CREATE EXTENSION securefile_citus', 'CREATE TABLE docs (id int PRIMARY KEY, doc securefile)', q{SELECT create_distributed_table('docs', 'id')},
	'CREATE TABLE files (id int PRIMARY KEY, seed int, len int, doc securefile(filesystem_like_logging))', q{SELECT create_distributed_table('files', 'id')},
	q{INSERT INTO docs SELECT i, '0' FROM generate_series(1, 60) i},
	q{CREATE PROCEDURE write_straight(shard text, shardid bigint, ids int[]) LANGUAGE plpgsql AS $$
	DECLARE
		n integer;
		row_id integer;
	BEGIN
		FOR i IN 1 .. 10000000 LOOP
			row_id := ids[i % cardinality(ids) + 1];
			EXECUTE format('UPDATE %s SET doc = $1::text::bytea WHERE id = $2 AND securefile_dist_hold_shard($3)', shard) USING i, row_id, shardid;
			GET DIAGNOSTICS n = ROW_COUNT;
			EXIT WHEN n = 0;
			INSERT INTO replaced VALUES (row_id, i) ON CONFLICT (id) DO UPDATE SET number = i;
			COMMIT;
		END LOOP;
	END $$});
$_->safe_psql('postgres', 'CREATE TABLE replaced (id int PRIMARY KEY, number integer)') foreach @workers;

# The shards of docs on a node, with their names.
sub shards_of
{
	my ($node) = @_;
	return map { [ split /\|/ ] } split /\n/, sql(qq{SELECT shardid, securefile_dist_shard_name('docs', shardid) FROM pg_dist_shard
		JOIN pg_dist_shard_placement USING (shardid) WHERE logicalrelid = 'docs'::regclass AND nodeport = $node->{_port} ORDER BY 1});
}

sub start_psql
{
	my ($node, @statements) = @_;
	my $run = { err => '' };
	$run->{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), map { ('-c', $_) } @statements ],
		'<', \'', '>', \$run->{out}, '2>', \$run->{err}, IPC::Run::timeout(4 * $PostgreSQL::Test::Utils::timeout_default));
	return $run;
}

# What a program of start_psql() said at its end.
sub said
{
	my ($run) = @_;
	return $run->{run}->finish ? 'done' : $run->{err};
}

# Begin to write to each shard of a node; all of them have written when this returns.
sub start_straight
{
	my ($node) = @_;
	my @shards = shards_of($node);
	$node->safe_psql('postgres', 'TRUNCATE replaced');
	my @runs = map {
		my $ids = sql("SELECT array_agg(id) FROM docs WHERE get_shard_id_for_distribution_column('docs', id) = $_->[0]");
		start_psql($node, "CALL write_straight('$_->[1]', $_->[0], '$ids')")
	} @shards;
	wait_for_sql($node, 'SELECT count(*) > 20 FROM replaced') or die 'nobody writes';
	return @runs;
}

# The rows that have another content than what was committed for them last.
sub lost
{
	my %number = map { split /\|/ } split /\n/, join "\n", map { $_->safe_psql('postgres', 'SELECT * FROM replaced') } @_;
	my %there = map { split /\|/ } split /\n/, sql(q{SELECT id, convert_from(doc::bytea, 'UTF8') FROM docs});
	return join "\n", map { "$_ has $there{$_}, not $number{$_}" } grep { $there{$_} ne $number{$_} } sort keys %number;
}

# ---- shards that move at the same time ----

my ($from, $to) = @workers;
my @straight = map { start_straight($_) } @workers;
my @shards = shards_of($from);
is(scalar @shards, 2, 'two shards are to move at once');
my $holder = background($from);
$holder->query_safe("BEGIN; SELECT securefile_dist_hold_shard($shards[0][0]), securefile_dist_hold_shard($shards[1][0])");
my $one_moves = "'$coordinator->{_host}', $from->{_port}, '$coordinator->{_host}', $to->{_port}";
my @moves = map { start_psql($coordinator, "SELECT citus_move_shard_placement($shards[$_][0], $one_moves, shard_transfer_mode => '" . ('block_writes', 'force_logical')[$_] . q{')}) } 0, 1;
# a logical move holds up writers only at its end
ok(wait_for_sql($from, q{SELECT count(DISTINCT classid) = 2 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND NOT granted}),
	'both moves wait for one transaction');
my ($other) = shards_of($to);
is($to->safe_psql('postgres', "SELECT securefile_dist_hold_shard($other->[0])"), 't', 'a shard that does not move is held meanwhile');
$holder->query_safe('COMMIT');
$holder->quit;
is(said($_), 'done', 'a move ends') foreach @moves;
is(said($_), 'done', 'who writes to a shard that has moved sees it') foreach @straight[ 0, 1 ];
# the others would never end by themselves
my $writers = q{FROM pg_stat_activity WHERE query LIKE 'CALL write_straight%' AND state <> 'idle'};
$to->safe_psql('postgres', "SELECT pg_terminate_backend(pid, 100000) $writers");
said($_) foreach @straight[ 2, 3 ];
is(lost(@workers), '', 'what was written is there');
is(scalar shards_of($from), 0, 'the node has none of them');
sql('CALL citus_cleanup_orphaned_resources()');

# Two transactions that hold the same shards in another order, and moves of both: Citus may end
# one of the moves, but nobody waits for good.
@shards = shards_of($to);
my @holders = map { background($to) } 0, 1;
$holders[$_]->query_safe("BEGIN; SELECT securefile_dist_hold_shard($shards[$_][0])") foreach 0, 1;
my $back = "'$coordinator->{_host}', $to->{_port}, '$coordinator->{_host}', $from->{_port}";
@moves = map { start_psql($coordinator, "SELECT citus_move_shard_placement($shards[$_][0], $back, shard_transfer_mode => 'block_writes')") } 0, 1;
ok(wait_for_sql($to, q{SELECT count(DISTINCT classid) = 2 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND NOT granted}),
	'moves wait for two transactions');
ok(waits_for_lock($to, $holders[0], "SELECT securefile_dist_hold_shard($shards[1][0]); COMMIT"), 'and one of these behind them');
$holders[1]->query("SELECT securefile_dist_hold_shard($shards[0][0]); COMMIT");
$_->quit foreach @holders;
my @ends = map { said($_) } @moves;
is(scalar(grep { $_ ne 'done' && !/deadlock/ } @ends), 0, 'each of them ends') or diag("@ends");
sql('CALL citus_cleanup_orphaned_resources()');

# ---- a clone ----

my $primary = $to;
fill($coordinator, 'files', 1, 30, '20000 + i');
$primary->backup('base');
fill($coordinator, 'files', 31, 60, '20000 + i');
my $clone = PostgreSQL::Test::Cluster->new('clone');
$clone->init_from_backup($primary, 'base', has_streaming => 1);
# what Citus has made for SSL was copied with other rights
chmod 0600, $clone->data_dir . '/server.key';
# by this name Citus knows who streams
$clone->append_conf('postgresql.conf', $_) foreach "citus.local_hostname = '$clone->{_host}'",
  "primary_conninfo = 'host=$primary->{_host} port=$primary->{_port} application_name=$clone->{_host}'";
$clone->start;
$primary->wait_for_catchup($clone->{_host}, 'replay', $primary->lsn('insert'));
@straight = start_straight($primary);
my ($shard, $name) = @{ (shards_of($primary))[0] };
my $row = sql("SELECT min(id) FROM docs WHERE get_shard_id_for_distribution_column('docs', id) = $shard");
my $id = sql("SELECT citus_add_clone_node('$clone->{_host}', $clone->{_port}, '$primary->{_host}', $primary->{_port})");
ok(wait_for_sql($primary, "SELECT count(*) = 0 $writers"), 'nobody writes straight to a shard of its node any more');
fails_with($primary, "SELECT securefile_dist_hold_shard($shard)", '55000', 'has a clone', 'with an error of its own');
is(sql("UPDATE docs SET doc = doc || 'c' WHERE id = $row RETURNING id"), $row, 'the coordinator writes');
my ($elsewhere) = grep { $_ != $primary } @workers;
foreach my $other (shards_of($elsewhere))
{
	is($elsewhere->safe_psql('postgres', "SELECT securefile_dist_hold_shard($other->[0])"), 't', 'shards of other nodes are written to');
}
is($primary->safe_psql('postgres', "SELECT count(*) FROM $name WHERE id = $row AND securefile_dist_is_here($shard)"), 1, 'reads go on');
my ($before) = $primary->safe_psql('postgres', "SELECT convert_from(doc::bytea, 'UTF8') FROM $name WHERE id = $row");
my $written = $primary->safe_psql('postgres', "SELECT number || 'c' FROM replaced WHERE id = $row");
is($before, $written, 'with what was written last');
$primary->safe_psql('postgres', "UPDATE replaced SET number = -1 WHERE id = $row");
sql("UPDATE docs SET doc = '-1' WHERE id = $row");

sql("SELECT citus_promote_clone_and_rebalance($id)");
$primary->safe_psql('postgres', "SELECT pg_terminate_backend(pid, 100000) $writers");
like(said($_), qr/ERROR:  the node of shard \d+ has a clone.*HINT:  Write through the distributed table on the coordinator/s, 'who did was told why')
  foreach @straight;
is(lost($primary), '', 'promoted: all that was written is there');
my @moved = shards_of($clone);
cmp_ok(scalar @moved, '>', 0, 'the clone has shards');
is($clone->safe_psql('postgres', "SELECT securefile_dist_hold_shard($moved[0][0])"), 't', 'they are written to there');
is($primary->safe_psql('postgres', "SELECT securefile_dist_hold_shard($moved[0][0])"), 'f', 'and not where they were');
my @stayed = shards_of($primary);
is($primary->safe_psql('postgres', "SELECT securefile_dist_hold_shard($_->[0])"), 't', 'those that stayed are, too') foreach @stayed;
is(sql(q{SELECT count(*) FROM securefile_dist_check('docs', 'doc')}), 0, 'all shards are sound');

# what is not in WAL: the old place has it until the shards there are dropped
my $wrong = 'SELECT count(*) FROM securefile_dist_check(\'files\', \'doc\')';
cmp_ok(sql($wrong), '>', 0, 'the clone lacks data of filesystem_like_logging columns');
cmp_ok($clone->safe_psql('postgres', q{SET citus.override_table_visibility = off; SELECT sum(fetched_values) FROM securefile_fetch_left_behind('} . $primary->connstr . q{')}),
	'>', 0, 'it is fetched');
sql('CALL citus_cleanup_orphaned_resources()');
is(sql($wrong), 0, 'then all is there');
rows_right($coordinator, 'files', 60, 'by the clone');
done_testing();
