# A coordinator and workers of Citus, for tests of distributed tables.
#
# Citus is not part of what the tests need: where the server does not have it, a file that
# calls need_citus() is skipped.

package SecurefileCitus;

use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

use Exporter 'import';
our @EXPORT = qw(need_citus new_nodes on_shards settled_shells);

# Skip the whole file where the server has no Citus, or an older one than that.
sub need_citus
{
	my ($oldest) = @_;
	my ($sharedir) = run_command([ 'pg_config', '--sharedir' ]);
	my $control = "$sharedir/extension/citus.control";
	plan skip_all => 'no Citus for this PostgreSQL' if !-e $control;
	my ($version) = slurp($control) =~ /^default_version = '([0-9.]+)/m;
	plan skip_all => "Citus $version is older than $oldest" if $oldest && $version < $oldest;
	return;
}

# A coordinator and some workers; keys: shards, how many a table has; conf, more settings;
# before_start, a function that is called with each node.  The library of Citus has to come first.
sub new_nodes
{
	my ($workers, %params) = @_;
	my @nodes = map {
		new_cluster($_ == 0 ? 'coordinator' : "worker$_",
			start => 0,
			conf => [ "shared_preload_libraries = 'citus, securefile'", 'wal_level = logical',
				'max_prepared_transactions = 50', 'max_connections = 60',
				'max_replication_slots = 20', 'max_wal_senders = 20', 'max_worker_processes = 20',
				'citus.shard_count = ' . ($params{shards} || 4),
				'citus.max_background_task_executors_per_node = 1',
				@{ $params{conf} || [] } ])
	} 0 .. $workers;
	foreach my $node (@nodes)
	{
		$node->append_conf('postgresql.conf', "citus.local_hostname = '$node->{_host}'");
		$params{before_start}->($node) if $params{before_start};
		$node->start;
		allow_plugin($node);
		$node->safe_psql('postgres', 'CREATE EXTENSION citus');
		SecurefileTest::prepare_database($node, 'postgres');
	}
	$nodes[0]->safe_psql('postgres', join ';',
		"SELECT citus_set_coordinator_host('$nodes[0]->{_host}', $nodes[0]->{_port})",
		map { "SELECT citus_add_node('$_->{_host}', $_->{_port})" } @nodes[ 1 .. $workers ]);
	return @nodes;
}

# Newer minor versions decode by libraries that are named only.
sub allow_plugin
{
	my ($node) = @_;
	my $allowed = $node->safe_psql('postgres', q{SELECT setting FROM pg_settings WHERE name = 'output_plugin_libraries'});
	return if $allowed eq '' || $allowed =~ /\bcitus\b/;
	$node->append_conf('postgresql.conf', "output_plugin_libraries = '$allowed, citus'");
	$node->reload;
	return;
}

# What a statement returns on each shard of a table, in the order of the shards; %s in it is
# the shard's name.
sub on_shards
{
	my ($coordinator, $table, $statement) = @_;
	return split /\n/, $coordinator->safe_psql('postgres',
		"SELECT result FROM run_command_on_shards('$table', \$sql\$$statement\$sql\$) ORDER BY shardid");
}

# Wait until no shell of a node has a segment.
sub settled_shells
{
	my ($node) = @_;
	return $node->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_dist_partition, pg_class
		WHERE starts_with(relname, format('pg_securefile_%s_', logicalrelid::oid))});
}

1;
