# Traps 13 and 21, promise 8: nothing a user may do to a table loses values or
# leaks space; what cannot be done is refused with a reason.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('ddl_guard');
my $len = 20000;

# Work on t that needs every trigger of ours; then rows and space.
my $serial = 100;
sub works
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$serial += 10;
	$node->safe_psql('postgres',
		"INSERT INTO t (id, seed, len, doc) SELECT i, i, $len, blob(i, $len) FROM generate_series($serial, $serial + 4) i;"
		  . "UPDATE t SET seed = seed + 1, doc = blob(seed + 1, $len) WHERE id = $serial;"
		  . "DELETE FROM t WHERE id = $serial + 1;"
		  . "BEGIN; TRUNCATE t; ROLLBACK");
	rows_right($node, 't', $node->safe_psql('postgres', 'SELECT count(*) FROM t'), $name);
	sound($node, 't', $name);
	return;
}

make_table($node, 't');
fill($node, 't', 1, 10, $len);
works('to begin with');

# ---- trap 13: triggers switched off and on, renamed, dropped ----
foreach my $change (
	'DISABLE TRIGGER ALL', 'ENABLE TRIGGER ALL', 'DISABLE TRIGGER USER',
	'ENABLE TRIGGER USER', 'DISABLE RULE ALL')
{
	$node->psql('postgres', "ALTER TABLE t $change");
	works("ALTER TABLE $change");
}
my @triggers = split /\n/,
  $node->safe_psql('postgres', "SELECT tgname FROM pg_trigger WHERE tgrelid = 't'::regclass ORDER BY 1");
cmp_ok(scalar(@triggers), '>=', 3, 'internal triggers');
foreach my $trigger (@triggers)
{
	foreach my $form ('DISABLE TRIGGER', 'ENABLE TRIGGER', 'ENABLE REPLICA TRIGGER', 'ENABLE ALWAYS TRIGGER')
	{
		$node->psql('postgres', "ALTER TABLE t $form \"$trigger\"");
	}
	$node->psql('postgres', "DROP TRIGGER \"$trigger\" ON t");
	$node->psql('postgres', "ALTER TRIGGER \"$trigger\" ON t RENAME TO zzzz_$trigger");
	$node->psql('postgres', "ALTER TRIGGER \"$trigger\" ON t RENAME TO \"000_$trigger\"");
	is( $node->safe_psql('postgres',
			"SELECT count(*) FROM pg_trigger WHERE tgrelid = 't'::regclass AND tgenabled = 'A' AND tgisinternal"),
		scalar(@triggers),
		"$trigger: all of ours are there and fire always");
}
works('after attacks on every trigger');
$node->safe_psql('postgres', 'SET session_replication_role = replica; UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len)');
works('replica role');

# a user's trigger after ours that puts in another row's, another table's value
make_table($node, 'victim');
fill($node, 'victim', 1, 5, $len);
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION steal() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		SELECT seed, len, doc INTO NEW.seed, NEW.len, NEW.doc FROM victim WHERE id = 1;
		RETURN NEW;
	END $$;
	CREATE TRIGGER zzzzzzzz BEFORE INSERT OR UPDATE ON t FOR EACH ROW
		WHEN (NEW.id BETWEEN 50 AND 59) EXECUTE FUNCTION steal();
	CREATE TRIGGER "~~~~" BEFORE INSERT OR UPDATE ON t FOR EACH ROW
		WHEN (NEW.id BETWEEN 50 AND 59) EXECUTE FUNCTION steal();
	ALTER TABLE t ENABLE ALWAYS TRIGGER "~~~~";});
$node->psql('postgres', "INSERT INTO t VALUES (50, 1, $len, blob(1, $len))");
$node->psql('postgres', 'UPDATE t SET id = 51 WHERE id = 2');
$node->psql('postgres', 'DELETE FROM t WHERE id BETWEEN 50 AND 59');
settle($node, 't', 'doc');
fill($node, 't', 60, 69, $len);
rows_right($node, 'victim', 5, 'foreign value by a trigger');
sound($node, 'victim', 'foreign value by a trigger');
works('foreign value by a trigger');
$node->safe_psql('postgres', 'DROP TRIGGER zzzzzzzz ON t; DROP TRIGGER "~~~~" ON t');

# the same with a value of another row of the same column
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION steal_here() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		SELECT seed, len, doc INTO NEW.seed, NEW.len, NEW.doc FROM t WHERE id = 3;
		RETURN NEW;
	END $$;
	CREATE TRIGGER "~~~~" BEFORE INSERT OR UPDATE ON t FOR EACH ROW
		WHEN (NEW.id BETWEEN 70 AND 79) EXECUTE FUNCTION steal_here();});
$node->psql('postgres', "INSERT INTO t VALUES (70, 1, $len, blob(1, $len))");
$node->psql('postgres', 'UPDATE t SET id = 71 WHERE id = 4');
$node->psql('postgres', "UPDATE t SET id = 72, doc = blob(9, $len) WHERE id = 5");
$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 70 AND 79');
settle($node, 't', 'doc');
fill($node, 't', 80, 89, $len);
works('value of another row by a trigger');
$node->safe_psql('postgres', 'DROP TRIGGER "~~~~" ON t');

# a role that may only SELECT cannot free another table's space
$node->safe_psql('postgres',
	'CREATE ROLE reader LOGIN; GRANT SELECT ON victim TO reader; CREATE SCHEMA mine AUTHORIZATION reader');
my ($rc, $out, $err) = $node->psql(
	'postgres', q{
	CREATE TABLE mine.loot (id int, doc securefile);
	CREATE FUNCTION mine.steal() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN SELECT doc INTO NEW.doc FROM public.victim WHERE id = 2; RETURN NEW; END $$;
	CREATE TRIGGER zzz BEFORE INSERT ON mine.loot FOR EACH ROW EXECUTE FUNCTION mine.steal();
	INSERT INTO mine.loot VALUES (1, NULL);
	DELETE FROM mine.loot;
	INSERT INTO mine.loot SELECT id, doc FROM public.victim;
	ALTER TABLE mine.loot DISABLE TRIGGER ALL;
	DROP TRIGGER zzz ON mine.loot;
	INSERT INTO mine.loot SELECT id, doc FROM public.victim;
	DELETE FROM mine.loot;
	TRUNCATE mine.loot;
	DROP TABLE mine.loot;}, extra_params => [ '-U', 'reader' ], on_error_stop => 0);
$node->safe_psql('postgres', "SELECT securefile_maintain('victim', 'doc')");
fill($node, 'victim', 10, 20, $len);
rows_right($node, 'victim', 16, 'a reader\'s attacks');
sound($node, 'victim', 'a reader\'s attacks');

# ---- trap 21: all sorts of DDL ----
my $do = sub {
	my ($name, $sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql('postgres', $sql);
	works($name);
};
$do->('ADD COLUMN, DROP COLUMN', 'ALTER TABLE t ADD COLUMN extra securefile; ALTER TABLE t DROP COLUMN extra');
my $move_in = "SELECT securefile_rewrite('t', 'doc')";	# ALTER TYPE leaves values in the row
$do->('to bytea and back', "ALTER TABLE t ALTER doc TYPE bytea; ALTER TABLE t ALTER doc TYPE securefile; $move_in");
$do->('to bytea and back in one transaction',
	"BEGIN; ALTER TABLE t ALTER doc TYPE bytea; ALTER TABLE t ALTER doc TYPE securefile; COMMIT; $move_in");
$do->('ADD COLUMN with a volatile default',
	'ALTER TABLE t ADD COLUMN v securefile DEFAULT blob((random() * 10)::int, 90000)::securefile; ALTER TABLE t DROP COLUMN v');
$do->('to bytea, rolled back', 'BEGIN; ALTER TABLE t ALTER doc TYPE bytea; ROLLBACK');
$do->('new options', 'ALTER TABLE t ALTER doc TYPE securefile(cache)');
$do->('renamed column and table, schema',
	'ALTER TABLE t RENAME doc TO d; ALTER TABLE t RENAME TO tt; ALTER TABLE tt SET SCHEMA mine;'
	  . 'ALTER TABLE mine.tt SET SCHEMA public; ALTER TABLE tt RENAME TO t; ALTER TABLE t RENAME d TO doc');
$do->('owner', 'ALTER TABLE t OWNER TO reader; REASSIGN OWNED BY reader TO CURRENT_USER');
$do->('VACUUM FULL of the whole database', 'VACUUM FULL');
$do->('other maintenance', 'ANALYZE; VACUUM FREEZE; REINDEX DATABASE postgres');
$do->('SET UNLOGGED of an empty table and back',
	'CREATE TABLE e (id int, doc securefile); ALTER TABLE e SET UNLOGGED; INSERT INTO e VALUES (1, blob(1, 30000));'
	  . "UPDATE e SET doc = blob(2, 30000); DROP TABLE e");
fails_with($node, 'ALTER TABLE t SET UNLOGGED', '\w{5}', '', 'SET UNLOGGED with stored values is refused');
works('SET UNLOGGED refused');

# the roles of a table come and go
$node->safe_psql(
	'postgres', q{
	CREATE ROLE owner; GRANT CREATE ON SCHEMA public TO owner; SET ROLE owner;
	CREATE TABLE owned (id int PRIMARY KEY, seed int, len int, doc securefile);
	INSERT INTO owned SELECT i, i, 20000, blob(i, 20000) FROM generate_series(1, 5) i;
	RESET ROLE;
	CREATE ROLE heir; REASSIGN OWNED BY owner TO heir; DROP OWNED BY owner; DROP ROLE owner;});
rows_right($node, 'owned', 5, 'REASSIGN OWNED, DROP ROLE');
sound($node, 'owned', 'REASSIGN OWNED, DROP ROLE');
my $files = scalar(data_files($node));
$node->safe_psql('postgres', 'DROP OWNED BY heir; DROP ROLE heir');
is(scalar(data_files($node)), $files - 1, 'DROP OWNED removes the data file');

# CREATE TABLE AS in all its forms: own copies
foreach my $form (
	'CREATE TABLE c AS SELECT * FROM t',
	'SELECT * INTO c FROM t',
	'EXPLAIN (ANALYZE, COSTS OFF) CREATE TABLE c AS SELECT * FROM t',
	'PREPARE p AS SELECT * FROM t; CREATE TABLE c AS EXECUTE p',
	'DO $$ BEGIN CREATE TABLE c AS SELECT * FROM t; END $$',
	'SET session_replication_role = replica; CREATE TABLE c AS SELECT * FROM t',
	'CREATE TABLE c (LIKE t); INSERT INTO c SELECT * FROM t')
{
	$node->safe_psql('postgres', $form);
	my $count = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
	rows_right($node, 'c', $count, $form);
	sound($node, 'c', $form);
	$node->safe_psql('postgres', 'DELETE FROM c WHERE id % 2 = 0; SELECT securefile_maintain(\'c\', \'doc\');'
		  . "INSERT INTO c SELECT i, i, $len, blob(i, $len) FROM generate_series(5000, 5010) i");
	works("copy changed: $form");
	$node->safe_psql('postgres', 'DROP TABLE c');
}

# temporary and unlogged tables hold their values in the row
foreach my $kind ('TEMP', 'UNLOGGED')
{
	my $before = scalar(data_files($node));
	is( $node->safe_psql('postgres',
			"CREATE $kind TABLE k (id int PRIMARY KEY, seed int, len int, doc securefile);"
			  . ' INSERT INTO k SELECT id, seed, len, doc FROM t; UPDATE k SET doc = doc;'
			  . ' SELECT count(*) = (SELECT count(*) FROM t) FROM k WHERE doc::bytea = blob(seed, len);'),
		't',
		"$kind table");
	is(scalar(data_files($node)), $before, "$kind table has no data files");
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS k');
}
$node->safe_psql('postgres',
	'CREATE UNLOGGED TABLE u (id int PRIMARY KEY, seed int, len int, doc securefile);'
	  . "INSERT INTO u SELECT i, i, $len, blob(i, $len) FROM generate_series(1, 5) i; ALTER TABLE u SET LOGGED;"
	  . "UPDATE u SET seed = seed + 1, doc = blob(seed + 1, $len) WHERE id > 2; DELETE FROM u WHERE id = 1");
rows_right($node, 'u', 4, 'SET LOGGED');
is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('u', 'doc')"), 0, 'SET LOGGED: check');

# inheritance, domains, publications
$node->safe_psql(
	'postgres', q{
	CREATE DOMAIN file AS securefile CHECK (length(VALUE) > 10);
	CREATE DOMAIN file2 AS file;
	CREATE TABLE dom (id int PRIMARY KEY, seed int, len int, doc file2);
	INSERT INTO dom SELECT i, i, 20000, blob(i, 20000)::securefile FROM generate_series(1, 5) i;
	UPDATE dom SET seed = 9, doc = blob(9, 20000)::securefile WHERE id = 1;
	CREATE TABLE parent (id int, seed int, len int, doc securefile);
	CREATE TABLE child () INHERITS (parent);
	INSERT INTO parent SELECT i, i, 20000, blob(i, 20000) FROM generate_series(1, 5) i;
	INSERT INTO child SELECT i, i, 20000, blob(i, 20000) FROM generate_series(6, 10) i;
	UPDATE parent SET seed = seed + 1, doc = blob(seed + 1, 20000);});
rows_right($node, 'dom', 5, 'domains');
sound($node, 'dom', 'domains');
fails_with($node, "INSERT INTO dom VALUES (7, 7, 3, 'abc'::bytea::securefile)", '23514', 'check constraint', 'domain constraint');
rows_right($node, 'parent', 10, 'inheritance');
sound($node, 'parent', 'inheritance');
sound($node, 'child', 'inheritance');
$node->safe_psql('postgres', 'ALTER TABLE parent ADD COLUMN b securefile; UPDATE parent SET b = doc');
is($node->safe_psql('postgres', 'SELECT count(*) FROM parent WHERE b::bytea = doc::bytea'), 10, 'column added to parent and child');
sound($node, 'child', 'column added to the parent', column => 'b');
$node->safe_psql('postgres', "SET client_min_messages = error; CREATE PUBLICATION everything FOR ALL TABLES");
works('FOR ALL TABLES publication');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_publication_tables WHERE tablename LIKE 'pg_securefile%'"), 0, 'segments are not published');

# what cannot be is refused, and says why
my @refused = (
	[ 'array', 'CREATE TABLE r (a securefile[])' ],
	[ 'composite', 'CREATE TYPE comp AS (a int, d securefile); CREATE TABLE r (c comp)' ],
	[ 'row type of a table', 'CREATE TABLE r (c t)' ],
	[ 'materialized view', 'CREATE MATERIALIZED VIEW r AS SELECT * FROM t' ],
	[ 'generated column', 'CREATE TABLE r (a bytea, d securefile GENERATED ALWAYS AS (a::securefile) STORED)' ],
	[ 'encryption', 'CREATE TABLE r (d securefile(encrypt))' ],
	[ 'unknown option', 'CREATE TABLE r (d securefile(fast))' ],
	[ 'access method by hand', 'CREATE TABLE r (a int) USING securefile_segment' ],
	[ 'default with another row\'s value', 'CREATE FUNCTION pick() RETURNS securefile VOLATILE LANGUAGE sql AS \'SELECT doc FROM victim LIMIT 1\';'
		  . ' ALTER TABLE t ADD COLUMN v securefile DEFAULT pick()' ],
	[ 'USING with another row\'s value', 'ALTER TABLE t ALTER seed TYPE securefile USING (SELECT doc FROM victim LIMIT 1)' ],
	[ 'btree index', 'CREATE INDEX ON t (doc)' ],
	[ 'DML on a segment', "DO \$\$ BEGIN EXECUTE 'DELETE FROM ' || (SELECT oid::regclass FROM pg_class WHERE relname LIKE 'pg_securefile%' LIMIT 1); END \$\$" ],
	[ 'DROP of a segment', "DO \$\$ BEGIN EXECUTE 'DROP TABLE ' || (SELECT oid::regclass FROM pg_class WHERE relname LIKE 'pg_securefile%' LIMIT 1); END \$\$" ]);
if ($node->pg_version >= 17)
{
	push @refused, [ 'access method of partitions to come', 'CREATE TABLE r (a int) PARTITION BY RANGE (a) USING securefile_segment' ],
	  [ 'access method of partitions, later', 'CREATE TABLE r (a int) PARTITION BY RANGE (a); ALTER TABLE r SET ACCESS METHOD securefile_segment' ];
}
foreach my $case (@refused)
{
	fails_with($node, $case->[1], '\w{5}', '', "refused: $case->[0]");
	works("refused: $case->[0]");
}

# what is no value is refused by errors that a server can put aside, as those of bytea
if ($node->pg_version >= 16)
{
	is($node->safe_psql('postgres', "SELECT pg_input_is_valid(x, 'securefile') FROM unnest(ARRAY['\\x00', '\\xzz', 'a']) x"), "t\nf\nt", 'pg_input_is_valid()');
}
if ($node->pg_version >= 17)
{
	$node->safe_psql('postgres', "CREATE TABLE soft (id int, d securefile);\nCOPY soft FROM STDIN (ON_ERROR ignore);\n1\t\\\\x00\n2\t\\\\xzz\n3\ta\n\\.\n");
	is($node->safe_psql('postgres', "SELECT id, d::bytea FROM soft ORDER BY id"), "1|\\x00\n3|\\x61", 'COPY .. ON_ERROR ignore');
}

# what somebody has made that depends on a segment is treated as what depends on the column
$node->safe_psql('postgres', 'CREATE ROLE mallory; GRANT ALL ON SCHEMA public TO mallory');
make_table($node, 'needed');
fill($node, 'needed', 1, 5, $len);
my ($segment, $segment_oid) = split /\|/, $node->safe_psql('postgres',
	q{SELECT segment_relid::regclass, segment_relid FROM securefile_columns WHERE relid = 'needed'::regclass});
$node->safe_psql('postgres', "CREATE VIEW looks AS SELECT count(*) FROM $segment;"
	  . " SET ROLE mallory; CREATE TABLE points (r regclass DEFAULT '$segment_oid'::regclass, a int)");
foreach my $change ('ALTER TABLE needed DROP COLUMN doc', 'ALTER TABLE needed ALTER doc TYPE bytea',
	"SELECT securefile_rewrite('needed', 'doc', 'filesystem_like_logging')")
{
	fails_with($node, $change, '2BP01',
		'depend on it.*view looks depends on.*default value for column r of table points.*HINT:  It holds the values of a securefile column.*DROP COLUMN \.\.\. CASCADE', $change);
}
rows_right($node, 'needed', 5, 'nothing was dropped');
sound($node, 'needed', 'nothing was dropped');
my (undef, undef, $said) = $node->psql('postgres', 'ALTER TABLE needed DROP COLUMN doc CASCADE');
like($said, qr/drop cascades to/, 'CASCADE drops it, and says so');
is($node->safe_psql('postgres', "SELECT to_regclass('looks') IS NULL, to_regclass('$segment') IS NULL, count(*) FROM pg_attrdef WHERE adrelid = 'points'::regclass"),
	't|t|0', 'the segment and what depended on it are gone');
$node->safe_psql('postgres', 'DROP TABLE needed, points');

$node->safe_psql('postgres', 'DROP TABLE t, victim, dom, parent, child, u CASCADE');
is(scalar(data_files($node)), 0, 'no data file left');
$node->stop;
done_testing();
