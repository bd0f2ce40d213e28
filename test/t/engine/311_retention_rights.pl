# Rights on what a retention keeps: the owner of the table and superusers list, read and purge it, and
# nobody else.  Nobody does who is subject to row security.  A table does not change hands with it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('retention_rights', conf => ['securefile.monitor = off']);
my $type = "securefile(disable_storage_in_row, 'retention 7 days', 'max_size 1 GB')";
my $list = "SELECT string_agg(row_key ->> 'id' || ' ' || kind, ', ' ORDER BY removed_at, row_key ->> 'id') FROM securefile_removed('%s', 'doc')";


sub as { my ($role, @sql) = @_; return sql("SET ROLE $role", @sql); }
sub listed { my ($role, $table) = @_; return as($role, sprintf($list, $table || 't')); }
sub refused { my ($role, $sql, $state, $like, $name) = @_; local $Test::Builder::Level = $Test::Builder::Level + 1; return fails_with($node, "SET ROLE $role; $sql", $state, $like, $name); }

sql('CREATE ROLE alice', 'CREATE ROLE bob', 'CREATE ROLE member IN ROLE alice', 'CREATE ROLE boss SUPERUSER', 'GRANT ALL ON SCHEMA public TO PUBLIC',
	"CREATE TABLE t (id int PRIMARY KEY, name text, doc $type)", 'ALTER TABLE t OWNER TO alice', 'GRANT ALL ON t TO bob',
	'INSERT INTO t SELECT i, null, blob(i, 9000) FROM generate_series(1, 9) i');
as('bob', 'DELETE FROM t WHERE id = 1', 'UPDATE t SET doc = NULL WHERE id = 2');

# ---- who ----

is(listed('alice'), '1 deleted, 2 replaced', 'the owner lists what others have removed');
is(listed('member'), '1 deleted, 2 replaced', 'so does a member of the owner');
is(listed('boss'), '1 deleted, 2 replaced', 'and a superuser');
is(as('alice', q{SELECT bool_and(md5(document::bytea) = md5(blob((row_key ->> 'id')::int, 9000))) FROM securefile_removed('t', 'doc')}), 't', 'the owner reads it');
refused('bob', "SELECT * FROM securefile_removed('t', 'doc')", '42501', 'must be owner of table t', 'with all privileges it cannot be listed');
refused('bob', "SELECT securefile_purge('t', 'doc')", '42501', 'must be owner of table t', 'nor purged');
sql('GRANT pg_read_all_data, pg_monitor TO bob');
refused('bob', "SELECT * FROM securefile_removed('t', 'doc')", '42501', 'must be owner of table t', 'neither with predefined roles');
is(as('boss', q{SELECT count(*) FROM securefile_maintain('t', 'doc')}) && as('bob', q{SELECT retained_bytes > 0 FROM securefile_usage('t', 'doc')}), 't', 'pg_monitor sees how much it is');

# ---- row security ----

as('alice', 'ALTER TABLE t ENABLE ROW LEVEL SECURITY', "CREATE POLICY narrow ON t USING (name = 'none')");
is(listed('alice'), '1 deleted, 2 replaced', 'policies that do not count for the owner do not matter');
as('alice', 'ALTER TABLE t FORCE ROW LEVEL SECURITY');
refused('alice', "SELECT * FROM securefile_removed('t', 'doc')", '42501', 'cannot be listed under row-level security', 'policies that do');
is(listed('boss'), '1 deleted, 2 replaced', 'they never count for a superuser');
sql('ALTER ROLE alice BYPASSRLS');
is(listed('alice'), '1 deleted, 2 replaced', 'nor for a role with BYPASSRLS');
sql('ALTER ROLE alice NOBYPASSRLS');
as('alice', "CREATE TABLE p (id int, k int, doc $type, PRIMARY KEY (id, k)) PARTITION BY LIST (k)",
	map({ "CREATE TABLE p$_ PARTITION OF p FOR VALUES IN ($_)" } 1, 2), 'INSERT INTO p SELECT i, 1, blob(i, 9000) FROM generate_series(1, 2) i',
	'UPDATE p SET k = 2 WHERE id = 1', 'DELETE FROM p WHERE id = 2');
is(listed('alice', 'p'), '1 moved, 2 deleted', 'of partitions: all of them');
as('alice', 'ALTER TABLE p1 ENABLE ROW LEVEL SECURITY', 'ALTER TABLE p1 FORCE ROW LEVEL SECURITY');
refused('alice', "SELECT * FROM securefile_removed('p', 'doc')", '42501', 'row-level security', 'but not past the policies of one');
as('alice', 'ALTER TABLE p1 NO FORCE ROW LEVEL SECURITY', 'ALTER TABLE p FORCE ROW LEVEL SECURITY', 'ALTER TABLE p ENABLE ROW LEVEL SECURITY');
refused('alice', "SELECT * FROM securefile_removed('p', 'doc')", '42501', 'row-level security', 'nor past those of the parent');
as('alice', "CREATE TABLE top (a int, b int, doc $type) PARTITION BY LIST (a)", 'CREATE TABLE middle PARTITION OF top FOR VALUES IN (1) PARTITION BY LIST (b)', 'CREATE TABLE leaf PARTITION OF middle FOR VALUES IN (1)',
	'ALTER TABLE middle ENABLE ROW LEVEL SECURITY', 'ALTER TABLE middle FORCE ROW LEVEL SECURITY');
refused('alice', "SELECT * FROM securefile_removed('top', 'doc')", '42501', 'row-level security', 'nor past those of a partition that has partitions');
as('alice', 'CREATE TABLE alone (LIKE p INCLUDING ALL)', 'CREATE TABLE child () INHERITS (alone)', 'ALTER TABLE child ENABLE ROW LEVEL SECURITY', 'ALTER TABLE child FORCE ROW LEVEL SECURITY');
is(listed('alice', 'alone'), '', 'a child that is no partition is not listed, and its policies do not count');

# ---- another owner ----

my $kept = 'cannot change the owner of table "t" while removed values of column "doc" are kept.*HINT:  Call securefile_purge';
fails_with($node, 'ALTER TABLE t OWNER TO bob', '55000', $kept, 'the table does not change hands');
fails_with($node, 'REASSIGN OWNED BY alice TO bob', '55000', 'cannot change the owner of table "(t|p1)"', 'nor with all that the owner has');
fails_with($node, 'ALTER TABLE p1 OWNER TO bob', '55000', 'cannot change the owner of table "p1"', 'nor a partition');
sql('BEGIN', 'ALTER TABLE t OWNER TO boss', 'ROLLBACK');
is(sql(q{SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 't'::regclass}), 'alice', 'a superuser could have it');
sql("SELECT securefile_purge('t', 'doc')", 'ALTER TABLE t OWNER TO bob', 'ALTER TABLE t NO FORCE ROW LEVEL SECURITY');
is(listed('bob'), '', 'after a purge: nothing comes along');
as('bob', 'DELETE FROM t WHERE id = 3');
is(listed('bob'), '3 deleted', 'and the new owner has what is removed then');
refused('alice', "SELECT * FROM securefile_removed('t', 'doc')", '42501', 'must be owner of table t', 'the old one has not');
sql("SELECT securefile_purge('t', 'doc')");
fails_with($node, 'BEGIN; DELETE FROM t WHERE id = 4; ALTER TABLE t OWNER TO alice; COMMIT', '55000', $kept, 'what the same transaction has removed counts');
sql('BEGIN', 'SAVEPOINT s', 'DELETE FROM t WHERE id = 4', 'ROLLBACK TO s', 'ALTER TABLE t OWNER TO alice', 'COMMIT');
is(sql(q{SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 't'::regclass}), 'alice', 'what was rolled back does not');
my $without = "securefile(disable_storage_in_row, 'max_size 1 GB')";
sql('DELETE FROM t WHERE id = 5');
fails_with($node, "BEGIN; ALTER TABLE t ALTER doc TYPE $without; ALTER TABLE t OWNER TO bob; COMMIT", '55000', $kept, 'a retention that is taken away for a moment does not let it go');
is(listed('alice'), '5 deleted', 'what was rolled back has ended nothing');
sql("SELECT securefile_purge('t', 'doc')");
sql('CREATE TABLE plain (id int PRIMARY KEY, doc securefile)', 'INSERT INTO plain VALUES (1, blob(1, 9000))', 'DELETE FROM plain', 'ALTER TABLE plain OWNER TO bob');
is(listed('boss', 'plain'), '', 'a table without a retention goes as ever, and has no list');

# ---- whose functions run ----

# A type of somebody's own in the key: its output is not called by a DELETE of another role.
sql('CREATE TYPE color AS ENUM (\'red\', \'green\')', "CREATE TABLE e (id color PRIMARY KEY, doc $type)", q{INSERT INTO e VALUES ('red', blob(1, 9000))}, 'DELETE FROM e');
is(sql(q{SELECT row_key IS NULL, length FROM securefile_removed('e', 'doc')}), 't|9000', 'a key of a type that is not of the server is not kept');

is(sql(q{SELECT count(*) FROM securefile_check('t', 'doc')}), 0, 'all is sound');
$node->stop;
done_testing();
