# What a transaction keeps in memory until it ends: a million rows of each kind take
# less than 100 bytes each, and what is more than securefile.transaction_memory is
# summed up, or written before the end, of which savepoints take back what is
# theirs.  The number of rows is SECUREFILE_MEMORY_ROWS.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $rows = $ENV{SECUREFILE_MEMORY_ROWS} || 30_000;
my $node = new_cluster('memory', conf => [ master_key(), 'securefile.monitor = off', 'max_wal_size = 4GB', 'shared_buffers = 128MB' ]);

# ---- bytes ----

# 18 has numbers of contexts in the place of names of parents
my $bytes = $node->pg_version < 18 ? q{SELECT coalesce(sum(total_bytes), 0) FROM pg_backend_memory_contexts
	WHERE name LIKE 'securefile%' OR parent LIKE 'securefile%' OR name LIKE '% plain objects'}
  : q{WITH c AS MATERIALIZED (SELECT * FROM pg_backend_memory_contexts) SELECT coalesce(sum(total_bytes), 0) FROM c
	WHERE name LIKE '% plain objects' OR path && (SELECT coalesce(array_agg(path[level]), '{}') FROM c WHERE name LIKE 'securefile%')};

sub make_many
{
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS many;
		CREATE TABLE many (id int, doc securefile(disable_storage_in_row), other securefile(disable_storage_in_row, encrypt))');
	return;
}

sub insert_into
{
	my ($from, $to) = @_;
	return "INSERT INTO many SELECT i, int4send(i), CASE WHEN i % 2 = 0 THEN int4send(-i) END FROM generate_series($from, $to) i;";
}

# One test: what statements in one transaction leave in memory for each row.  Keys: rows
# (how many they touch), memory (the setting), limit (bytes in all, for any number).
sub cheap
{
	my ($name, $sql, %params) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $n = $params{rows} || $rows;
	my $memory = $params{memory} || '1GB';
	my @seen = split /\n/, $node->safe_psql('postgres',
		"SET securefile.transaction_memory = '$memory';
		SELECT FROM many LIMIT 0; $bytes; BEGIN; $sql; $bytes; COMMIT;");
	my $kept = $seen[-1] - $seen[0];
	note(sprintf('%s: %.1f bytes a row', $name, $kept / $n));
	my $limit = $params{limit} || 100 * $n + 100_000;
	return ok($kept < $limit, "$name: $kept bytes for $n rows are less than $limit");
}

# a part of the rows, and the other segment: that costs the same for any number
my $little = $rows < 100_000 ? 500_000 : 1_500_000;

make_many();
cheap('insert', insert_into(1, $rows));
$node->safe_psql('postgres', "CREATE TABLE raw AS SELECT i, int4send(i) AS doc FROM generate_series(1, $rows) i");
cheap('from bytea', 'ALTER TABLE raw ALTER doc TYPE securefile(disable_storage_in_row, encrypt), ADD other securefile(disable_storage_in_row) DEFAULT int4send((random() * 1000)::int)');
cheap('update', 'UPDATE many SET doc = int4send(id + 1)');
cheap('update of every other row', 'UPDATE many SET doc = int4send(id) WHERE id % 2 = 0', rows => $rows / 2);
cheap('update that goes on', "UPDATE many SET doc = doc || '\\x00'::bytea");
cheap('delete of every third row', 'DELETE FROM many WHERE id % 3 = 0', rows => $rows / 3);
cheap('delete in no order', "CREATE TEMP TABLE shuffled AS SELECT id FROM many WHERE id % 5 = 0 ORDER BY md5(id::text);
	DO \$\$ DECLARE i int; BEGIN FOR i IN SELECT id FROM shuffled LOOP DELETE FROM many WHERE id = i; END LOOP; END \$\$",
	rows => $rows / 5)
  if $node->safe_psql('postgres', 'CREATE INDEX ON many (id)') eq '';
cheap('a transaction in savepoints',
	"SAVEPOINT a; " . insert_into($rows + 1, 2 * $rows) . " SAVEPOINT b; DELETE FROM many WHERE id > $rows AND id % 2 = 0");
cheap('given up at a savepoint', "SAVEPOINT a; " . insert_into(1, $rows) . " UPDATE many SET doc = int4send(-id); ROLLBACK TO a");
cheap('inserted and deleted', insert_into(2 * $rows + 1, 3 * $rows) . " DELETE FROM many WHERE id > 2 * $rows");
cheap('a savepoint for each row', "SAVEPOINT outside; DO \$\$ BEGIN FOR i IN 1 .. $rows / 10 LOOP
		BEGIN INSERT INTO many VALUES (-i, int4send(i)); DELETE FROM many WHERE id = i;
			IF i % 3 = 0 THEN RAISE division_by_zero; END IF;
		EXCEPTION WHEN division_by_zero THEN NULL; END;
	END LOOP; END \$\$", rows => $rows / 10, limit => 100 * $rows / 10 + $little);
cheap('delete of the rest', 'DELETE FROM many', memory => '64kB', limit => $little);
sound($node, 'many', 'all of it', column => $_, in_row => 0) foreach ('doc', 'other');

# no matter how many rows
make_many();
$node->safe_psql('postgres', insert_into(1, $rows));
cheap('in bounded memory', 'DELETE FROM many WHERE id % 2 = 0; UPDATE many SET doc = int4send(0) WHERE id % 4 = 1; '
	  . insert_into($rows + 1, $rows + 10) . ' DELETE FROM many WHERE id % 4 = 3', memory => '64kB', limit => $little);
my $found = $node->safe_psql('postgres',
	"SELECT count(*) || ' ' || count(*) FILTER (WHERE doc::bytea = int4send(0)) FROM many");
is($found, $rows / 4 + 8 . ' ' . $rows / 4, 'in bounded memory: rows are right');
sound($node, 'many', 'in bounded memory', column => $_, in_row => 0) foreach ('doc', 'other');

# ---- early entries ----

# Rows of blob(id, 700), so that neighbours do not merge with the next but one.  Every other
# table encrypts.
my $tables = 0;
sub make_rows
{
	my ($n) = @_;
	$n = 400 unless $n;
	my $encrypt = $tables++ % 2 ? ', encrypt' : '';
	$node->safe_psql('postgres', qq{DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile(disable_storage_in_row$encrypt));
		INSERT INTO t SELECT i, i, 700, blob(i, 700) FROM generate_series(1, $n) i});
	return;
}

my $early = 'SET securefile.transaction_memory = 0;';
my $entries = "SELECT entries_seen - entries_resolved FROM securefile_maintain('t', 'doc')";
my $add = 'INSERT INTO t SELECT i, i, 700, blob(i, 700) FROM generate_series';

# One test each: after statements in a transaction, others resolving between them, these
# rows are there, all right, and no space is lost.
sub right_after
{
	my ($name, $count, @steps) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	make_rows();
	my $session = background($node);
	$session->query_safe("$early BEGIN");
	foreach my $step (@steps)
	{
		$session->query($step);
		# not while the table is locked
		$node->psql('postgres', "SET lock_timeout = '50ms'; $entries");
	}
	$session->quit;
	rows_right($node, 't', $count, $name);
	sound($node, 't', $name, in_row => 0);
	# all that is free is used again: nothing that a row has
	$node->safe_psql('postgres', "$add(1001, 1400) i");
	rows_right($node, 't', $count + 400, "$name, space used again");
	return;
}

right_after('committed', 200, 'DELETE FROM t WHERE id % 2 = 0', 'COMMIT');
right_after('rolled back', 400, 'DELETE FROM t WHERE id % 2 = 0', 'ROLLBACK');
right_after('rolled back to a savepoint', 300, 'DELETE FROM t WHERE id % 4 = 0', 'SAVEPOINT a',
	'DELETE FROM t WHERE id % 2 = 0', 'ROLLBACK TO a', 'COMMIT');
right_after('deleted again', 200, 'SAVEPOINT a', 'DELETE FROM t WHERE id % 2 = 0', 'ROLLBACK TO a',
	'DELETE FROM t WHERE id % 2 = 0', 'COMMIT');
right_after('released', 100, 'SAVEPOINT a', 'DELETE FROM t WHERE id % 4 = 0', 'RELEASE a', 'DELETE FROM t WHERE id % 2 = 0',
	'SAVEPOINT b', 'DELETE FROM t WHERE id % 4 = 1', 'COMMIT');
right_after('released into one that is rolled back', 400, 'SAVEPOINT a', 'SAVEPOINT b', 'DELETE FROM t WHERE id % 4 = 0',
	'RELEASE b', 'DELETE FROM t WHERE id % 2 = 0', 'ROLLBACK TO a', 'COMMIT');
right_after('inserted and deleted', 450, "$add(501, 600) i", 'DELETE FROM t WHERE id > 550', 'COMMIT');
right_after('inserted in a savepoint that is rolled back', 450, "$add(501, 550) i", 'SAVEPOINT a', "$add(551, 600) i",
	'DELETE FROM t WHERE id > 540', 'ROLLBACK TO a', 'COMMIT');
right_after('inserted before, deleted in one that is rolled back', 500, "$add(501, 600) i", 'SAVEPOINT a',
	'DELETE FROM t WHERE id > 400', "$add(601, 700) i", 'ROLLBACK TO a', 'COMMIT');
right_after('all rolled back', 400, "$add(501, 600) i", 'SAVEPOINT a', 'DELETE FROM t', "$add(1, 100) i", 'RELEASE a', 'ROLLBACK');
right_after('prepared and committed', 200, 'DELETE FROM t WHERE id % 4 = 0', 'SAVEPOINT a', 'DELETE FROM t WHERE id % 2 = 0',
	"PREPARE TRANSACTION 'p'", "COMMIT PREPARED 'p'");
right_after('prepared and rolled back', 400, 'DELETE FROM t WHERE id % 4 = 0', 'SAVEPOINT a', "DELETE FROM t WHERE id % 2 = 0; $add(501, 600) i",
	"PREPARE TRANSACTION 'p'", "ROLLBACK PREPARED 'p'");
right_after('truncated after that', 100, 'DELETE FROM t WHERE id % 2 = 0', 'TRUNCATE t', "$add(1, 100) i", 'COMMIT');
right_after('truncated, and rolled back to before', 200, 'DELETE FROM t WHERE id % 2 = 0', 'SAVEPOINT a', 'TRUNCATE t', "$add(1, 100) i",
	'ROLLBACK TO a', 'COMMIT');

# what is noted, and not yet written, when the storage is replaced for a while
my @noted = ("SET securefile.transaction_memory = '1GB'", "$add(501, 600) i", 'DELETE FROM t WHERE id % 2 = 0', 'SAVEPOINT a');
my $elsewhere = "CREATE TABLE other (d securefile); INSERT INTO other SELECT blob(i, 5000) FROM generate_series(1, 50) i";
foreach my $replaced ('TRUNCATE t', 'DROP TABLE t', "SELECT securefile_rewrite('t', 'doc', 'filesystem_like_logging')")
{
	right_after("noted, then $replaced, rolled back", 250, @noted, $replaced, "SET securefile.transaction_memory = 0; $elsewhere",
		'ROLLBACK TO a', 'COMMIT');
	right_after("noted, then $replaced, all rolled back", 400, @noted, $replaced, "SET securefile.transaction_memory = 0; $elsewhere",
		'ROLLBACK');
}
right_after('noted, then truncated', 0, @noted, 'TRUNCATE t', "SET securefile.transaction_memory = 0; $elsewhere; DROP TABLE other", 'COMMIT');
right_after('inserted in a savepoint, then truncated, rolled back', 500, 'SAVEPOINT z', "$add(501, 600) i", 'RELEASE z', 'SAVEPOINT a',
	'TRUNCATE t', "$add(1, 100) i", 'ROLLBACK TO a', 'COMMIT');

# what waits for a running transaction is not taken for damage
make_rows();
is($node->safe_psql('postgres', "$early BEGIN; DELETE FROM t WHERE id % 2 = 0; SAVEPOINT a; DELETE FROM t WHERE id % 3 = 0;
	SELECT * FROM securefile_check('t', 'doc'); ROLLBACK"), '', 'securefile_check() in the transaction');
sound($node, 't', 'after that', in_row => 0);

# a statement that fails in the middle of writing them, in a savepoint: none comes twice
SKIP:
{
	eval { $node->safe_psql('postgres', "SELECT securefile_fault_reset()"); 1 } or skip 'no fault points', 17;
	my $offset = -s $node->logfile;

	# a record has up to 339 entries
	foreach my $skip (0 .. 3)
	{
		make_rows(2000);
		my $session = background($node);
		$session->query_safe("SET securefile.transaction_memory = '1GB'; BEGIN; DELETE FROM t WHERE id % 2 = 0; SAVEPOINT a; $early");
		my $pid = $session->query_safe('SELECT pg_backend_pid()');
		arm($node, 'entries_early', 'error', skip => $skip, pid => $pid);
		$session->query('DELETE FROM t WHERE id = 1');
		$session->query('ROLLBACK TO a');
		my $fired = fired($node, 'entries_early');
		disarm($node);
		$session->query("$early DELETE FROM t WHERE id % 4 = 1");
		$session->query('COMMIT');
		$session->quit;
		ok($fired, "failed after $skip records");
		rows_right($node, 't', 500, "failed after $skip records");
		sound($node, 't', "failed after $skip records", in_row => 0);
		# what was freed twice would be given to others now
		$node->safe_psql('postgres', "$add(3001, 3400) i; SELECT FROM securefile_maintain('t', 'doc'); $add(4001, 4400) i");
		rows_right($node, 't', 1300, "failed after $skip records, space used again");
	}
	unlike(slurp_file($node->logfile, $offset), qr/is free already/, 'nothing was to be freed twice');
}

# ---- crashes ----

# A crash after early entries: the numbers of their transactions are not given out
# again, to some whose end would decide over the entries, though with wal_level =
# minimal nothing else of a rewritten table tells of them.
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0");
$node->restart;
foreach my $release ('', 'RELEASE a;', 'SAVEPOINT b;')
{
	make_rows();
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $session = background($node);
	$session->query_safe("$early BEGIN; CLUSTER t USING t_pkey; SAVEPOINT a; DELETE FROM t WHERE id % 2 = 0; $release
		DELETE FROM t WHERE id % 4 = 1");
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	crash($node);
	eval { $session->quit };
	$node->start;
	# those that come next commit
	$node->safe_psql('postgres', 'SELECT pg_current_xact_id()') for 1 .. 5;
	rows_right($node, 't', 400, "crash, $release");
	sound($node, 't', "crash, $release", in_row => 0);
	$node->safe_psql('postgres', "$add(1001, 1400) i");
	rows_right($node, 't', 800, "crash, $release space used again");
}
$node->stop;
done_testing();
