# Distributed tables when nodes fail: a worker that is lost and its standby, which takes its
# place; a crash between the two phases of a commit, with nobody who ends it.

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
my ($coordinator, @workers) = new_nodes(2, conf => [ 'citus.recover_2pc_interval = -1', 'wal_keep_size = 512MB', 'restart_after_crash = on' ]);
need_faults($coordinator);
my $dir = enter($coordinator);

# A file put into table files; one test.
sub runs_put
{
	my ($file, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ends(0, qr/^$/, "put $name", 'put', '-t', 'files', $file, $name);
}

sql('CREATE EXTENSION securefile_citus', 'CREATE TABLE files (name text PRIMARY KEY, document securefile)', q{SELECT create_distributed_table('files', 'name')});
foreach my $table ([ 'l', 'logging' ], [ 'f', 'filesystem_like_logging' ])
{
	my ($name, $logging) = @$table;
	sql("CREATE TABLE $name (id int PRIMARY KEY, seed int, len int, doc securefile($logging))", "SELECT create_distributed_table('$name', 'id')");
	fill($coordinator, $name, 1, 10, '20000 * i');
}

# ---- a crash between the phases ----

my $before = sql('SELECT count(*) FROM l');
ok(dies_at($coordinator, 'commit_done', 'kill', q{INSERT INTO l SELECT i, i, 50000, blob(i, 50000) FROM generate_series(101, 120) i}), 'the coordinator dies after its own commit');
my $prepared = q{SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'citus%'};
is(join(' ', map { $_->safe_psql('postgres', $prepared) > 0 } @workers), '1 1', 'the workers have prepared');
is(sql('SELECT count(*) FROM l'), $before, 'nobody sees the rows');
crash($workers[0]);
$workers[0]->start;
is($workers[0]->safe_psql('postgres', $prepared) > 0, 1, 'still prepared after a crash');
ok(sql('SELECT recover_prepared_transactions()') >= 2, 'they are ended');
rows_right($coordinator, 'l', $before + 20, 'committed');
$workers[1]->safe_psql('postgres', q{SELECT securefile_fault('prepare_done', 'kill')});
my ($rc, $out, $err) = $coordinator->psql('postgres', 'INSERT INTO l SELECT i, i, 50000, blob(i, 50000) FROM generate_series(201, 220) i');
ok($rc != 0, 'a worker dies when it has prepared') or diag("$out $err");
wait_restart($workers[1], 0);
$coordinator->poll_query_until('postgres', 'SELECT count(*) >= 0 FROM l');
sql('SELECT recover_prepared_transactions()');
rows_right($coordinator, 'l', $before + 20, 'rolled back');
is(join(' ', map { $_->safe_psql('postgres', $prepared) } @workers), '0 0', 'nothing is in doubt');
is(sql(q{SELECT count(*) FROM securefile_dist_check('l', 'doc')}), 0, 'all shards are sound');

# ---- a worker is lost ----

$workers[0]->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($workers[0], 'base', has_streaming => 1);
# what Citus has made for SSL was copied with other rights
chmod 0600, $standby->data_dir . '/server.key';
$standby->append_conf('postgresql.conf', $_) foreach "citus.local_hostname = '$standby->{_host}'", "securefile.fetch_from = '" . $workers[0]->connstr . "'";
$standby->start;
fill($coordinator, $_, 301, 320, '1000 * i') foreach 'l', 'f';
write_file('long', bytes(1, 3_000_000));
runs_put('long', 'before');
catch_up($workers[0], $standby);
ok(wait_for_sql($standby, q{SELECT count(*) > 0 AND bool_and(passes > 1 AND failure IS NULL) AND sum(left_values) = 0 AND sum(fetched_values) > 0 FROM securefile_fetch_state()}), 'the standby has fetched');
crash($workers[0]);
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
sql("SELECT citus_update_node((SELECT nodeid FROM pg_dist_node WHERE nodeport = $workers[0]->{_port}), '$standby->{_host}', $standby->{_port})");
rows_right($coordinator, $_, $_ eq 'l' ? 50 : 30, 'by the standby') foreach 'l', 'f';
runs_put('long', 'after');
is(sql(q{SELECT string_agg(name || length(document), ' ' ORDER BY name) FROM files}), 'after3000000 before3000000', 'files');
is(sql(qq{SELECT count(*) FROM securefile_dist_check('$_', 'doc')}), 0, "all shards of $_ are sound") foreach 'l', 'f';

# ---- another version ----

$standby->safe_psql('postgres', 'SET citus.enable_ddl_propagation = off; DROP EXTENSION securefile_citus');
like(($coordinator->psql('postgres', 'SELECT count(*) FROM securefile_dist_columns'))[2], qr/node \S+:$standby->{_port}: function public.securefile_dist_local/, 'a node without the extension is named');
is(sql(q{SELECT count(*) FROM securefile_dist_check('l', 'doc')}), 0, 'what needs it not goes on');
$standby->safe_psql('postgres', 'SET citus.enable_ddl_propagation = off; CREATE EXTENSION securefile_citus');
is(sql(q{SELECT count(DISTINCT nodeport) FROM securefile_dist_columns}), 2, 'and then all are there');
done_testing();
