# Trap 18: parallel plans, also in a transaction that has not written out all.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('parallel', conf => [ 'max_parallel_workers_per_gather = 2',
	'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0' ]);
my $in_parallel = in_parallel($node);
make_table($node, 't', 'disable_storage_in_row', 'WITH (parallel_workers = 2)');

# rows in many pages, so that each worker gets some
$node->safe_psql('postgres', 'ALTER TABLE t ADD COLUMN pad text DEFAULT repeat(\'x\', 900); ALTER TABLE t ALTER pad SET STORAGE PLAIN');
fill($node, 't', 1, 200, 20_000) if $node->safe_psql('postgres', 'ALTER TABLE t ALTER pad DROP DEFAULT; SELECT 1');
my $query = 'SELECT count(*) FROM t WHERE sha256(doc::bytea) = sha256(blob(seed, len))';
like($node->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query"), qr/Gather|Workers Planned/, 'the plan is parallel');
is($node->safe_psql('postgres', $query), 200, 'committed rows');
is($node->safe_psql('postgres', "$in_parallel SET parallel_leader_participation = off; $query"), 200, 'by workers only');

# what is still in the leader's gather buffers
foreach my $size (700, 20_000, 900_000)
{
	is( $node->safe_psql('postgres',
			"SET parallel_leader_participation = off; BEGIN;"
			  . " INSERT INTO t SELECT i, i, $size, blob(i, $size) FROM generate_series(1000, 1019) i; $query; ROLLBACK"),
		220,
		"unflushed values of $size bytes read by workers");
	is( $node->safe_psql('postgres',
			"SET parallel_leader_participation = off; BEGIN;"
			  . " UPDATE t SET seed = seed + 1, len = $size, doc = blob(seed + 1, $size) WHERE id <= 20; SAVEPOINT s;"
			  . " INSERT INTO t VALUES (3000, 1, $size, blob(1, $size)); $query; ROLLBACK TO s; $query; COMMIT"),
		"201\n200",
		"updated values of $size bytes");
}

# within PL/pgSQL, a cursor, and forced plans
is( $node->safe_psql(
		'postgres', qq{
		$in_parallel
		BEGIN;
		INSERT INTO t VALUES (4000, 4, 60000, blob(4, 60000));
		CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE plpgsql AS \$\$
		BEGIN
			INSERT INTO t VALUES (4001, 5, 60000, blob(5, 60000));
			RETURN (SELECT count(*) FROM t WHERE doc::bytea = blob(seed, len));
		END \$\$;
		SELECT pg_temp.f();
		COMMIT;}),
	202,
	'in a function that has just written');
my $session = background($node);
$session->query_safe("$in_parallel PREPARE q AS SELECT count(*) FROM t WHERE doc::bytea = blob(seed, len)");
is($session->query_safe('EXECUTE q'), 202, 'prepared statement');
is($session->query_safe("BEGIN; INSERT INTO t VALUES (5000, 5, 50000, blob(5, 50000)); EXECUTE q"), 203, 'prepared statement, unflushed value');
is($session->query_safe('ROLLBACK; EXECUTE q'), 202, 'prepared statement, rolled back');
$session->quit;

# an index built by workers over values that are not written yet
is( $node->safe_psql(
		'postgres', q{
		SET max_parallel_maintenance_workers = 2;
		CREATE FUNCTION digest(securefile) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
			AS 'SELECT md5($1::bytea)';
		BEGIN;
		INSERT INTO t (id, seed, len, doc, pad)
			SELECT i, i, 1500, blob(i, 1500), repeat('x', 900) FROM generate_series(10001, 12000) i;
		CREATE INDEX by_digest ON t (digest(doc));
		SET enable_seqscan = off;
		SELECT count(*) FROM generate_series(10001, 12000) i
			WHERE EXISTS (SELECT 1 FROM t WHERE digest(doc) = md5(blob(i, 1500)) AND id = i);
		ROLLBACK;}),
	2000,
	'parallel index build over unflushed values');

# writing functions stay out of parallel plans
is( $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_proc WHERE proname ~ '^securefile_(maintain|check|rewrite)' AND proparallel <> 'u'"),
	0,
	'functions that write are PARALLEL UNSAFE');
is($node->safe_psql('postgres', 'CREATE TABLE made AS SELECT * FROM t WHERE id < 50; SELECT count(*) FROM made WHERE doc::bytea = blob(seed, len)'),
	49, 'CREATE TABLE AS over a parallel scan');
sound($node, 'made', 'CREATE TABLE AS over a parallel scan', in_row => 0);
sound($node, 't', 'parallel plans', in_row => 0);
$node->stop;
done_testing();
