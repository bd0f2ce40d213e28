# Traps 1 to 4: every way in which a row trigger fires without its partner, and
# every way in which a value reaches a row that is not its own.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('triggers');
my $len = 20000;

# A statement, or a script that may fail; then t's rows and space.
sub after
{
	my ($name, $sql, $rows) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->psql('postgres', $sql);
	rows_right($node, 't', $rows, $name);
	sound($node, 't', $name);
	return;
}

make_table($node, 't', undef, '');
fill($node, 't', 1, 10, $len);

# ---- trap 1: stored, and no row ----
after('ON CONFLICT DO NOTHING',
	"INSERT INTO t SELECT i, i, $len, blob(i, $len) FROM generate_series(1, 12) i"
	  . ' ON CONFLICT DO NOTHING',
	12);
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION veto() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE TRIGGER zzz_veto BEFORE INSERT OR UPDATE ON t FOR EACH ROW
		WHEN (NEW.id > 1000) EXECUTE FUNCTION veto();
	CREATE TRIGGER "A veto" BEFORE INSERT OR UPDATE ON t FOR EACH ROW
		WHEN (NEW.id < 0) EXECUTE FUNCTION veto();
	ALTER TABLE t ADD CHECK (id <> 77);});
after('BEFORE trigger returning NULL after ours',
	"INSERT INTO t VALUES (1001, 1, $len, blob(1, $len)), (13, 13, $len, blob(13, $len))", 13);
after('BEFORE trigger returning NULL before ours',
	"INSERT INTO t VALUES (-1, 1, $len, blob(1, $len))", 13);
after('UPDATE vetoed', "UPDATE t SET id = id + 2000, doc = blob(99, $len)", 13);
after('check constraint fails after the store',
	"INSERT INTO t VALUES (77, 1, $len, blob(1, $len))", 13);
after('unique index refuses after the store',
	"INSERT INTO t VALUES (1, 1, $len, blob(1, $len))", 13);
after('error later in the statement',
	"INSERT INTO t SELECT i, i, $len, blob(i, $len) FROM generate_series(100, 140) i"
	  . ' WHERE 1 / (130 - i) IS NOT NULL',
	13);
after('veto of an update in the same transaction as others',
	"BEGIN; UPDATE t SET seed = 500, doc = blob(500, $len) WHERE id = 3;"
	  . " UPDATE t SET id = 5000, doc = blob(9, $len) WHERE id = 3;"
	  . " INSERT INTO t VALUES (3, 3, 3, blob(3, $len)) ON CONFLICT DO NOTHING; COMMIT",
	13);

# ---- trap 2: no value shares space with another ----
after('another row\'s value',
	'UPDATE t SET (seed, doc) = (SELECT seed, doc FROM t WHERE id = 4) WHERE id = 5; DELETE FROM t WHERE id = 4',
	12);
after('INSERT .. SELECT of the same table',
	'INSERT INTO t SELECT id + 200, seed, len, doc FROM t; DELETE FROM t WHERE id < 100', 12);
after('INSERT .. RETURNING feeds an INSERT',
	"WITH ins AS (INSERT INTO t VALUES (300, 300, $len, blob(300, $len)) RETURNING *)"
	  . ' INSERT INTO t SELECT id + 1, seed, len, doc FROM ins; DELETE FROM t WHERE id = 300',
	13);
after('UPDATE .. RETURNING feeds an INSERT',
	"WITH up AS (UPDATE t SET seed = 7, doc = blob(7, $len) WHERE id = 301 RETURNING *)"
	  . ' INSERT INTO t SELECT id + 1, seed, len, doc FROM up; DELETE FROM t WHERE id = 301',
	13);
after('DELETE .. RETURNING feeds an INSERT',
	'WITH gone AS (DELETE FROM t WHERE id = 302 RETURNING *)'
	  . ' INSERT INTO t SELECT 303, seed, len, doc FROM gone',
	13);
after('one value into many rows',
	'INSERT INTO t SELECT 310 + i, seed, len, doc FROM t, generate_series(1, 5) i WHERE id = 303;'
	  . ' DELETE FROM t WHERE id IN (303, 312)',
	16);
after('PL/pgSQL variable into two rows',
	'DO $$ DECLARE v securefile; BEGIN SELECT doc INTO v FROM t WHERE id = 311;'
	  . ' INSERT INTO t SELECT 320 + i, seed, len, v FROM t, generate_series(1, 2) i WHERE id = 311;'
	  . ' DELETE FROM t WHERE id IN (311, 321); END $$',
	16);
after('row variable written again',
	'DO $$ DECLARE r t; BEGIN SELECT * INTO r FROM t WHERE id = 322; r.id := 323;'
	  . ' INSERT INTO t VALUES (r.*); DELETE FROM t WHERE id = 322; END $$',
	16);
after('set doc to itself', 'UPDATE t SET doc = doc', 16);
after('another column', 'UPDATE t SET id = id + 1 WHERE id > 313', 16);

$node->safe_psql('postgres',
	'CREATE TABLE two (id int PRIMARY KEY, seed int, len int, doc securefile, b securefile)');
my $two = sub {
	my ($name, $sql, $count) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql('postgres', $sql);
	rows_right($node, 'two', $count, $name);
	is( $node->safe_psql('postgres',
			'SELECT count(*) FROM two WHERE b::bytea <> blob(seed, len)'),
		0, "$name: column b");
	sound($node, 'two', $name);
	sound($node, 'two', $name, column => 'b');
};
$two->('SET a = b',
	"INSERT INTO two SELECT i, i, $len, blob(i, $len) FROM generate_series(1, 6) i; UPDATE two SET b = doc", 6);
$two->('swap', 'UPDATE two SET doc = b, b = doc', 6);
$two->('one column away', "UPDATE two SET b = NULL WHERE id < 3; UPDATE two SET doc = b, b = NULL WHERE id >= 3", 6);
$two->('ON CONFLICT DO UPDATE, excluded into both',
	"INSERT INTO two SELECT i, i + 9, $len, blob(i + 9, $len) FROM generate_series(4, 9) i"
	  . ' ON CONFLICT (id) DO UPDATE SET seed = excluded.seed, doc = excluded.doc, b = excluded.doc',
	9);
$two->('ON CONFLICT DO UPDATE, own value kept',
	"INSERT INTO two SELECT i, i, $len, blob(i, $len) FROM generate_series(1, 9) i"
	  . ' ON CONFLICT (id) DO UPDATE SET b = two.doc',
	9);
after('between tables',
	'INSERT INTO t SELECT id + 400, seed, len, doc FROM two; DELETE FROM two; DELETE FROM t WHERE id < 400', 9);
$two->('and back', 'INSERT INTO two SELECT id, seed, len, doc, doc FROM t; DELETE FROM t WHERE id % 2 = 0', 9);
rows_right($node, 't', 5, 'and back');
sound($node, 't', 'and back');

# ---- trap 3: back to the old version; savepoints ----
after('there and back in a transaction',
	'DO $$ DECLARE v securefile; BEGIN SELECT doc INTO v FROM t WHERE id = 401;'
	  . " UPDATE t SET doc = blob(1, $len) WHERE id = 401; UPDATE t SET doc = v WHERE id = 401; END \$\$",
	5);
after('update undone by a savepoint',
	"BEGIN; SAVEPOINT a; UPDATE t SET seed = 1, doc = blob(1, $len); ROLLBACK TO a; COMMIT", 5);
after('update undone, then done',
	"BEGIN; SAVEPOINT a; UPDATE t SET seed = 1, doc = blob(1, $len); ROLLBACK TO a;"
	  . " UPDATE t SET seed = 2, doc = blob(2, $len) WHERE id = 401; COMMIT",
	5);
after('delete undone, update kept, nested',
	"BEGIN; UPDATE t SET seed = 3, doc = blob(3, $len) WHERE id = 401; SAVEPOINT a; DELETE FROM t;"
	  . " SAVEPOINT b; INSERT INTO t VALUES (1, 1, $len, blob(1, $len)); RELEASE b; ROLLBACK TO a;"
	  . " SAVEPOINT c; INSERT INTO t VALUES (2, 2, $len, blob(2, $len)); RELEASE c; COMMIT",
	6);
after('born and dead in one transaction',
	"BEGIN; INSERT INTO t VALUES (9, 9, $len, blob(9, $len)); DELETE FROM t WHERE id = 9; COMMIT", 6);
after('born and dead over savepoints',
	"BEGIN; INSERT INTO t VALUES (9, 9, $len, blob(9, $len)); SAVEPOINT a; DELETE FROM t WHERE id = 9;"
	  . " ROLLBACK TO a; SAVEPOINT b; UPDATE t SET seed = 8, doc = blob(8, $len) WHERE id = 9; RELEASE b;"
	  . ' DELETE FROM t WHERE id = 9; COMMIT',
	6);
after('updated five times in a transaction',
	'BEGIN;' . join(';', map { "UPDATE t SET seed = $_, doc = blob($_, $len)" } 1 .. 5) . '; COMMIT', 6);
after('PL/pgSQL exception blocks',
	"DO \$\$ BEGIN FOR i IN 1 .. 20 LOOP BEGIN INSERT INTO t VALUES (500 + i, i, $len, blob(i, $len));"
	  . ' IF i % 2 = 0 THEN RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$',
	16);
after('rollback of everything', 'BEGIN; DELETE FROM t; ROLLBACK', 16);
after('an old cursor of one\'s own transaction',
	"BEGIN; DECLARE c CURSOR FOR SELECT doc::bytea FROM t; DELETE FROM t WHERE id < 500; FETCH ALL c; COMMIT", 10);

# triggers of the user's that read and write values late: OLD and NEW at commit
$node->safe_psql(
	'postgres', qq{
	CREATE TABLE late (id int, seed int, len int, doc securefile, old bool);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \$\$
	BEGIN
		IF TG_OP <> 'INSERT' THEN INSERT INTO late SELECT (OLD.*).*, true; END IF;
		IF TG_OP <> 'DELETE' THEN INSERT INTO late SELECT (NEW.*).*, false; END IF;
		RETURN NULL;
	END \$\$;
	CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON t
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();});
after('deferred trigger that copies values',
	"BEGIN; INSERT INTO t VALUES (600, 600, $len, blob(600, $len)); UPDATE t SET seed = 601, doc = blob(601, $len) WHERE id = 600;"
	  . ' UPDATE t SET id = 602 WHERE id = 600; DELETE FROM t WHERE id = 602; COMMIT',
	10);
rows_right($node, 'late', 6, 'copies made at commit');
sound($node, 'late', 'copies made at commit');
$node->safe_psql('postgres', 'DROP TRIGGER note ON t; DROP TABLE late');

# ---- trap 4: rows that move ----
$node->safe_psql(
	'postgres', q{
	CREATE TABLE p (id int, seed int, len int, doc securefile, b text, PRIMARY KEY (id, seed)) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (1000);});
my $parts = sub {
	my ($name, $sql, $count) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql('postgres', $sql);
	rows_right($node, 'p', $count, $name);
	sound($node, 'p1', $name);
	sound($node, 'p2', $name);
};
$parts->('into partitions', "INSERT INTO p SELECT i, i, $len, blob(i, $len) FROM generate_series(90, 109) i", 20);
$parts->('row movement', 'UPDATE p SET id = (id + 100) % 200', 20);
$parts->('row movement with a new value', "UPDATE p SET id = (id + 100) % 200, seed = seed + 5, doc = blob(seed + 5, $len)", 20);
$parts->('row movement undone', 'BEGIN; UPDATE p SET id = (id + 100) % 200; ROLLBACK', 20);
$parts->('MERGE',
	"MERGE INTO p USING (SELECT i, blob(i, $len) d FROM generate_series(95, 120) i) n ON p.id = n.i"
	  . ' WHEN MATCHED AND p.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET seed = n.i, doc = n.d'
	  . " WHEN NOT MATCHED THEN INSERT (id, seed, len, doc) VALUES (n.i, n.i, $len, n.d)",
	26);
$parts->('replica role: update, delete, insert',
	"SET session_replication_role = replica; UPDATE p SET seed = 5, doc = blob(5, $len) WHERE id % 2 = 0;"
	  . " DELETE FROM p WHERE id % 5 = 0; INSERT INTO p VALUES (900, 900, $len, blob(900, $len))",
	$node->safe_psql('postgres', 'SELECT count(*) FILTER (WHERE id % 5 <> 0) + 1 FROM p'));
my $left = $node->safe_psql('postgres', 'SELECT count(*) FROM p');
$parts->('rewriting ALTER TABLE', 'ALTER TABLE p ADD COLUMN r float8 DEFAULT random(), ALTER b TYPE varchar(10)', $left);
$parts->('VACUUM FULL', 'VACUUM FULL p', $left);
$parts->('CLUSTER', 'CLUSTER p1 USING p1_pkey', $left);
$parts->('rewrite rolled back', 'BEGIN; ALTER TABLE p ALTER len TYPE bigint; ROLLBACK', $left);
$parts->('detached and attached',
	'ALTER TABLE p DETACH PARTITION p2; DELETE FROM p2 WHERE id = 900;'
	  . ' ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (100) TO (1000)',
	$left - 1);
my $copied = $node->basedir . '/copied';
foreach my $format ('text', 'csv', 'binary')
{
	$parts->("COPY out and in, $format",
		"COPY (SELECT id, seed, len, doc FROM p) TO '$copied' (FORMAT $format); DELETE FROM p;"
		  . " COPY p (id, seed, len, doc) FROM '$copied' (FORMAT $format)",
		$left - 1);
}
$parts->('COPY that fails half way',
	"COPY (SELECT i + 500, i, $len, CASE WHEN i = 9 THEN '\\xzz' ELSE blob(i, $len)::text END FROM generate_series(1, 9) i) TO '$copied'",
	$left - 1);
my ($rc) = $node->psql('postgres', "COPY p (id, seed, len, doc) FROM '$copied'");
is($rc, 3, 'COPY of a bad value fails');
rows_right($node, 'p', $left - 1, 'after a failed COPY');
sound($node, 'p2', 'after a failed COPY');

$node->stop;
done_testing();
