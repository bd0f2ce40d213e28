# Every table gets its segment and its triggers, however deep inside another command
# it is made; and a row never goes into a table that lacks them.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('followed', conf => ["securefile.monitor_naptime = '1h'"]);
my $len = 9000;

sql(qq{
	CREATE TABLE docs (id int, d securefile);
	INSERT INTO docs SELECT i, blob(i, $len) FROM generate_series(1, 3) i;
	-- a table with values of docs, when the setting names one
	CREATE FUNCTION make() RETURNS int LANGUAGE plpgsql AS \$\$
	DECLARE name text := current_setting('my.make', true);
	BEGIN
		IF coalesce(name, '') <> '' AND to_regclass('public.' || name) IS NULL THEN
			PERFORM set_config('my.make', '', false);
			EXECUTE format('CREATE TABLE public.%I (id int, d public.securefile)', name);
			EXECUTE format('INSERT INTO public.%I SELECT * FROM public.docs', name);
		END IF;
		RETURN 0;
	END \$\$;
	CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN \$1 + public.make(); END';
	CREATE FUNCTION file() RETURNS securefile LANGUAGE plpgsql AS 'BEGIN PERFORM public.make(); RETURN ''x''; END';
	CREATE FUNCTION row_made() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.make(); RETURN NEW; END';
	CREATE FUNCTION command_made() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.make(); END';
	CREATE PROCEDURE steps() LANGUAGE plpgsql AS 'BEGIN PERFORM public.make(); COMMIT; PERFORM 1; END';
	CREATE TABLE base (id int PRIMARY KEY, a int, d securefile);
	CREATE INDEX base_f ON base ((a + f(0)));
	INSERT INTO base SELECT i, i, blob(i, $len) FROM generate_series(1, 3) i;
	CREATE MATERIALIZED VIEW seen AS SELECT f(id) FROM docs;
	CREATE TABLE deferred (a int);
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION row_made();
	CREATE TABLE cascaded (a int);
	CREATE TRIGGER each BEFORE INSERT ON cascaded FOR EACH ROW EXECUTE FUNCTION row_made();
	CREATE EVENT TRIGGER aaa ON ddl_command_end WHEN TAG IN ('COMMENT', 'CREATE SEQUENCE') EXECUTE FUNCTION command_made();
	CREATE EVENT TRIGGER zzz ON sql_drop WHEN TAG IN ('DROP SEQUENCE') EXECUTE FUNCTION command_made();
	CREATE EVENT TRIGGER rewritten ON table_rewrite EXECUTE FUNCTION command_made()});

# Columns that lack something, and how many there are.
my $lacking = q{
	SELECT string_agg(c.relname || '.' || a.attname, ' '), count(*) FILTER (WHERE true)
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND a.atttypid = 'securefile'::regtype
		AND (to_regclass(format('pg_toast.pg_securefile_%s_%s', c.oid, a.attnum)) IS NULL OR 3 <> (
			SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgisinternal AND t.tgenabled = 'A'
				AND split_part(encode(t.tgargs, 'escape'), '\000', 1) = a.attnum::text))};

# ---- made inside of ----
my %inside = (
	index_touched => 'ALTER INDEX base_f SET (fillfactor = 70)',
	index_made => 'CREATE INDEX base_g ON base ((a + f(1)))',
	reindex => 'REINDEX TABLE base',
	analyze => 'ANALYZE base',
	vacuum_full => 'VACUUM FULL base',
	clustered => 'CLUSTER base USING base_pkey',
	rewritten => "SELECT securefile_rewrite('base', 'd')",
	swapped => "SELECT securefile_rewrite('base', 'd', 'filesystem_like_logging')",
	set_unlogged => 'CREATE TABLE u (a int DEFAULT f(1)); ALTER TABLE u SET UNLOGGED',
	added => 'ALTER TABLE base ADD COLUMN e securefile DEFAULT file()',
	added_int => 'ALTER TABLE base ADD COLUMN i int DEFAULT make()',
	using => 'ALTER TABLE base ALTER COLUMN i TYPE bigint USING i + make()',
	check => 'ALTER TABLE base ADD CHECK (f(a::int) > 0)',
	ctas => 'CREATE TABLE c1 AS SELECT id, d, make() AS m FROM docs',
	into => 'SELECT id, d, make() AS m INTO c2 FROM docs',
	explained => 'EXPLAIN ANALYZE CREATE TABLE c3 AS SELECT id, d, make() AS m FROM docs',
	executed => 'PREPARE p AS SELECT id, d, make() AS m FROM docs; CREATE TABLE c4 AS EXECUTE p',
	refreshed => 'DROP MATERIALIZED VIEW seen; CREATE MATERIALIZED VIEW seen AS SELECT make()',
	done => 'DO $$ BEGIN PERFORM make(); END $$',
	selected => 'SELECT make()',
	called => 'CALL steps()',
	caught => 'DO $$ BEGIN PERFORM make(); BEGIN CREATE TABLE lost (d securefile); RAISE division_by_zero; EXCEPTION WHEN OTHERS THEN NULL; END; END $$',
	copied => "COPY cascaded FROM PROGRAM 'echo 1'",
	inserted => 'INSERT INTO cascaded VALUES (1)',
	committed => 'BEGIN; INSERT INTO deferred VALUES (1); COMMIT',
	event_before => "COMMENT ON TABLE base IS 'x'",
	event_made => 'CREATE SEQUENCE s1',
	event_dropped => 'CREATE SEQUENCE s2; DROP SEQUENCE s2',
	schema => 'CREATE SCHEMA sch CREATE TABLE t (id int, d securefile) CREATE SEQUENCE s',
	partition => 'CREATE TABLE part (a int, d securefile) PARTITION BY RANGE (a); CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (make() + 10)',
	declared => 'BEGIN; DECLARE cur CURSOR WITH HOLD FOR SELECT make(); COMMIT',
	replica => 'SET session_replication_role = replica; SELECT make()');
my %made;
foreach my $name (sort keys %inside)
{
	# the setting is for the last command only: a new session, what is folded stays so
	my @steps = split /; (?=(?:ALTER|DROP|CREATE TABLE (?:c4|part1)|CREATE MATERIALIZED|SELECT make))/, $inside{$name};
	my $last = pop @steps;
	my ($rc, $out, $err) =
	  $node->psql('postgres', join(';', @steps, "SET my.make = 'in_$name'", $last));
	# VACUUM and the like want no transaction block; some places have no command inside
	$made{$name} = sql("SELECT count(*) FROM pg_class WHERE relname = 'in_$name'");
	is(sql($lacking), '|0', "$name: nothing lacks anything" . ($made{$name} ? '' : ' (no table was made)'));
	is($rc, 0, "$name: done") or diag($err);
}
cmp_ok(scalar(grep { $_ } values %made), '>=', 20, 'most of these did make a table');
note('no table was made by ' . join(' ', sort grep { !$made{$_} } keys %made));

# ---- by force: a table without triggers, with values that belong to another ----
sql(q{
	CREATE TABLE raw (id int, d securefile);
	CREATE INDEX raw_f ON raw ((id + f(0)));
	CREATE TABLE root (id int, d securefile) PARTITION BY LIST (id);
	CREATE TABLE leaf PARTITION OF root FOR VALUES IN (1, 2, 3);
	CREATE TABLE source (id int, d securefile);
	CREATE FUNCTION doc() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.d := (SELECT d FROM docs WHERE id = 1); RETURN NEW; END';
	CREATE TRIGGER supplies BEFORE INSERT ON raw FOR EACH ROW EXECUTE FUNCTION doc();
	ALTER TABLE raw DISABLE TRIGGER supplies});
sql("INSERT INTO source SELECT * FROM docs");
sub strip
{
	my ($table) = @_;
	sql("DELETE FROM pg_depend WHERE classid = 'pg_trigger'::regclass AND objid IN (SELECT oid FROM pg_trigger WHERE tgrelid = '$table'::regclass AND tgisinternal);"
		. "DELETE FROM pg_trigger WHERE tgrelid = '$table'::regclass AND tgisinternal");
	return;
}
sub as_type
{
	my ($type, @tables) = @_;
	sql("UPDATE pg_attribute SET atttypid = '$type'::regtype WHERE attname = 'd' AND attrelid = '$_'::regclass") foreach @tables;
	return;
}
strip('raw');
strip('leaf');
as_type('bytea', 'raw', 'source');
sql('INSERT INTO raw SELECT * FROM source');
as_type('securefile', 'raw', 'source');
like(sql("SELECT string_agg(detail, ' ') FROM securefile_check('raw', 'd')"), qr/lies in the segment of table/, 'values of another table lie in one without triggers');

my $refused = qr/column "d" of table "\w+" does not have its internal triggers/;
my @writes = (
	'INSERT INTO raw SELECT * FROM docs', 'INSERT INTO raw VALUES (9, NULL)', "UPDATE raw SET id = 1", 'DELETE FROM raw',
	'WITH w AS (INSERT INTO raw SELECT * FROM docs RETURNING 1) SELECT * FROM w',
	'MERGE INTO raw USING docs ON raw.id = docs.id WHEN MATCHED THEN DELETE', 'INSERT INTO root SELECT * FROM docs', 'DELETE FROM root',
	'DO $$ BEGIN INSERT INTO raw SELECT * FROM docs; END $$', 'EXPLAIN ANALYZE INSERT INTO raw SELECT * FROM docs',
	'PREPARE w AS INSERT INTO raw SELECT * FROM docs; EXECUTE w', "COPY raw (id) FROM PROGRAM 'echo 1'", "COPY root (id) FROM PROGRAM 'echo 1'");
foreach my $write (@writes)
{
	fails_with($node, $write, '55000', $refused, "refused: $write");
}
my ($rc, $out, $err) = $node->psql('postgres', 'EXPLAIN INSERT INTO raw SELECT * FROM docs; SELECT count(*) FROM raw; SELECT id FROM root FOR UPDATE');
is($rc, 0, 'what writes nothing works');

# the way that the hint shows; index functions run meanwhile, and make a table
sql("SET my.make = 'in_drain'; ALTER TABLE raw ALTER COLUMN d SET STORAGE MAIN");
sql('ALTER TABLE leaf ALTER COLUMN d SET STORAGE MAIN');
is(sql($lacking), '|0', 'mended');
is(sql("SELECT count(*) FROM pg_class WHERE relname = 'in_drain'"), 1, 'a table was made while tables were brought in line');
sql('DELETE FROM source; INSERT INTO root SELECT * FROM docs');
sql("SELECT bytes_freed FROM securefile_maintain('source', 'd')");
is(sql("SELECT count(*) FROM raw WHERE d::bytea = blob(id, $len)"), 3, 'its rows have their own values now');

# ---- an event trigger that fills the table it hears of ----
sql(q{
	CREATE FUNCTION fill() RETURNS event_trigger LANGUAGE plpgsql AS
		'BEGIN IF to_regclass(''filled'') IS NOT NULL THEN INSERT INTO filled SELECT * FROM docs; END IF; END';
	CREATE EVENT TRIGGER early ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION fill()});
fails_with($node, 'CREATE TABLE filled (id int, d securefile)', '55000', $refused, 'too early');
sql('ALTER EVENT TRIGGER early RENAME TO the_last; CREATE TABLE filled (id int, d securefile)');
is(sql($lacking), '|0', 'the table that was filled has all');
sql('DROP EVENT TRIGGER the_last');

# ---- tables that no utility command makes ----
my $library = "$ENV{TESTDIR}/make_table.so";
system_or_bail('gcc', '-shared', '-fPIC', '-o', $library, '-I', $ENV{SECUREFILE_INCLUDE},
	"$FindBin::RealBin/../../modules/make_table.c");
sql("CREATE FUNCTION make_table(text) RETURNS void AS '$library' LANGUAGE C STRICT");
fails_with($node, "SELECT make_table('alone')", '55000', $refused, 'the end of a transaction without a command');
fails_with($node, "BEGIN; SELECT make_table('written'); INSERT INTO written SELECT d FROM docs", '55000', $refused, 'written to before the next command');
sql("BEGIN; SELECT make_table('at_commit'); COMMIT");
sql("BEGIN; SELECT make_table('at_prepare'); PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'");
sql("BEGIN; SELECT make_table('next_fails'); SAVEPOINT s; DO \$\$ BEGIN CREATE TABLE lost (d securefile); RAISE division_by_zero; EXCEPTION WHEN OTHERS THEN NULL; END \$\$;"
	  . ' INSERT INTO next_fails SELECT d FROM docs; COMMIT');
sql("DO \$\$ BEGIN PERFORM make_table('inside'); BEGIN CREATE TABLE lost (d securefile); RAISE division_by_zero; EXCEPTION WHEN OTHERS THEN NULL; END; END \$\$");
$node->psql('postgres', "BEGIN; SELECT make_table('after_error'); SAVEPOINT s; CREATE TABLE bad (d securefile[]); ROLLBACK TO s; COMMIT", on_error_stop => 0);
is(sql($lacking), '|0', 'tables that C code makes lack nothing');
is(sql("SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relname IN ('alone', 'written', 'at_commit', 'at_prepare', 'next_fails', 'inside', 'after_error')"),
	'after_error at_commit at_prepare inside next_fails', 'and those that would are not there');

# ---- values inside other values ----
sql('CREATE VIEW vw AS SELECT 1 AS id; CREATE TABLE of_view (r vw)');
fails_with($node, 'CREATE OR REPLACE VIEW vw AS SELECT 1 AS id, d FROM docs WHERE id = 1', '0A000', qr/uses its row type/, 'the row type of a view');
sql('CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE ft (id int) SERVER s; CREATE TABLE of_foreign (r ft)');
fails_with($node, 'ALTER FOREIGN TABLE ft ADD COLUMN d securefile', '0A000', qr/uses its row type/, 'the row type of a foreign table');
sql('CREATE TYPE composite AS (a int)');
my $other = background($node);
$other->query_safe('BEGIN; CREATE TABLE raced (r composite)');
# 15.20 and later wait for the other session here, and see its table then
my ($raced) = $node->psql('postgres', "SET lock_timeout = '200ms'; ALTER TYPE composite ADD ATTRIBUTE d securefile");
$other->query_safe('COMMIT');
$other->quit;
fails_with($node, 'ALTER TYPE composite ADD ATTRIBUTE d securefile', '0A000', qr/because column .raced.r. uses it/, 'a type that is in use') if $raced != 0;
fails_with($node, 'INSERT INTO raced SELECT ROW(1, d)::composite FROM docs', '0A000', qr/cannot have type composite/, 'a type that another session has changed') if $raced == 0;
fails_with($node, 'CREATE STATISTICS kept ON (ARRAY[d]) FROM docs', '0A000', qr/cannot have an expression of type/, 'statistics of an array');
sql('CREATE STATISTICS fine ON (length(d)), (id + 1) FROM docs; DROP STATISTICS fine');

# ---- functions that a command calls, and that write ----
sql(q{
	CREATE TABLE par (id int);
	CREATE TABLE ch1 () INHERITS (par);
	CREATE TABLE ch2 () INHERITS (par);
	INSERT INTO ch1 VALUES (1);
	INSERT INTO ch2 VALUES (1);
	CREATE FUNCTION dodge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		ALTER TABLE ch2 RENAME TO ch2x;
		CREATE TABLE ch2 (id int);
		NEW.d := (SELECT d FROM docs WHERE id = 1);
		RETURN NEW;
	END $$;
	CREATE FUNCTION copies(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
		IF to_regclass('ch2x') IS NULL THEN
			CREATE TRIGGER dodges BEFORE INSERT ON ch2 FOR EACH ROW EXECUTE FUNCTION dodge();
			COPY ch2 (id) FROM PROGRAM 'echo 2';
		END IF;
		RETURN true;
	END $$;
	CREATE FUNCTION early() RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE h int; BEGIN
		ALTER TABLE ch2 SET (fillfactor = 50);
		h := securefile_create('ch2', 'd');
		PERFORM securefile_write(h, decode(repeat('ab', 9000), 'hex'));
		RETURN securefile_finish(h);
	END $$;
	CREATE TYPE letter AS ENUM ('x');
	CREATE TABLE casted (id int, d securefile);
	INSERT INTO casted SELECT * FROM docs;
	CREATE FUNCTION held(letter) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE c refcursor := 'held'; v securefile; BEGIN FETCH c INTO v; RETURN v; END $$;
	CREATE CAST (letter AS securefile) WITH FUNCTION held(letter) AS ASSIGNMENT;
	CREATE TABLE emptied (id int, d securefile);
	INSERT INTO emptied SELECT * FROM docs;
	CREATE FUNCTION empties() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM emptied; RETURN 1; END';
	CREATE TABLE plain (id int);
	CREATE FUNCTION moves() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM set_config(''search_path'', ''pg_catalog'', true); RETURN NEW; END';
	CREATE TRIGGER moves BEFORE INSERT ON plain FOR EACH ROW EXECUTE FUNCTION moves()});
my ($rc1) = $node->psql('postgres', 'ALTER TABLE par ADD COLUMN d securefile, ADD CHECK (copies(id))');
isnt($rc1, 0, 'COPY in a function of ALTER TABLE, whose trigger renames the table');
my ($rc2) = $node->psql('postgres', 'ALTER TABLE par ADD COLUMN d securefile DEFAULT early()');
isnt($rc2, 0, 'a default that makes the segment before it is its turn');
fails_with($node, "BEGIN; DECLARE held CURSOR WITH HOLD FOR SELECT d FROM casted; COMMIT; ALTER TABLE casted ALTER d TYPE letter USING 'x'::letter; ALTER TABLE casted ALTER d TYPE securefile",
	'42704', qr/no longer exists/, 'a cast that brings an old value of the column');
fails_with($node, 'ALTER TABLE emptied ADD COLUMN x int DEFAULT empties()', '55006', qr/may rewrite it/, 'a default that deletes the rows');
sql("INSERT INTO emptied SELECT id + 10, d FROM docs; SELECT securefile_maintain('emptied', 'd')");
is(sql("SELECT count(*) FROM emptied WHERE d::bytea = blob((id - 1) % 10 + 1, $len)"), 6, 'they have their values');
is(sql("SELECT count(*) FROM securefile_check('emptied', 'd')"), 0, 'and are sound');

# ---- functions that alter the table which the command around them has in work ----
sql(q{
	CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler;
	-- runs the command in the setting, once
	CREATE FUNCTION once() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE command text := current_setting('my.once', true); BEGIN
		IF coalesce(command, '') <> '' THEN
			PERFORM set_config('my.once', '', false);
			EXECUTE replace(command, '<transient>',
				coalesce((SELECT relname FROM pg_class WHERE relrewrite <> 0 AND relkind = 'r'), 'none'));
		END IF;
	END $$;
	CREATE FUNCTION zero(anyelement) RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM public.once(); RETURN 0; END';
	CREATE FUNCTION folded(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN public.zero($1); END';
	CREATE FUNCTION draft(tab text, col text, i int) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE h int; BEGIN
		PERFORM once();
		h := securefile_create(tab::regclass, col);
		PERFORM securefile_write(h, blob(i, 9000));
		RETURN securefile_finish(h);
	END $$;
	CREATE FUNCTION same(i int) RETURNS securefile LANGUAGE plpgsql AS 'BEGIN PERFORM once(); RETURN (SELECT d FROM filling2 WHERE id = 0); END';
	CREATE FUNCTION document() RETURNS securefile LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT d FROM docs WHERE id = 1); END';
	CREATE FUNCTION from_letter(letter) RETURNS securefile LANGUAGE plpgsql AS 'BEGIN RETURN draft(current_setting(''my.target''), ''d'', 1); END';
	DROP CAST (letter AS securefile);
	CREATE CAST (letter AS securefile) WITH FUNCTION from_letter(letter) AS ASSIGNMENT;
	CREATE FUNCTION from_uuid(uuid) RETURNS bytea LANGUAGE plpgsql AS 'BEGIN PERFORM once(); RETURN blob(1, 9000); END';
	CREATE TABLE letters (id int, d letter, u uuid);
	INSERT INTO letters SELECT i, NULL, '01014141-4141-4141-4141-414141414141' FROM generate_series(1, 3) i;
	CREATE TABLE forced (id int, d securefile);
	INSERT INTO forced VALUES (1), (2);
	CREATE TABLE moved (id int, d securefile);
	INSERT INTO moved SELECT * FROM emptied WHERE id < 4});
my $rename = "SET my.once = 'ALTER TABLE filling RENAME id TO id2'; ";
fails_with($node, "SET my.once = 'ALTER TABLE filling RENAME TO filling2; INSERT INTO filling2 VALUES (0, blob(0, $len))'; SELECT i AS id, same(i) AS d INTO filling FROM generate_series(1, 3) i",
	'55000', $refused, 'rows into a table that is filled by SELECT INTO');
fails_with($node, $rename . "CREATE TABLE filling AS SELECT i AS id, draft('filling', 'd', i) AS d FROM generate_series(1, 3) i",
	'42704', qr/has no securefile segment/, 'drafts for a table that is filled');
sql($rename . 'CREATE TABLE filling AS SELECT id, d, zero(id) FROM docs');
is(sql("SELECT count(*) FROM filling WHERE d::bytea = blob(id2, $len)"), 3, 'a table whose column is renamed while it is filled');
fails_with($node, "SET my.target = 'letters'; SET my.once = 'ALTER TABLE letters RENAME id TO id2'; ALTER TABLE letters ALTER d TYPE securefile",
	'42704', qr/has no securefile segment/, 'drafts of a cast, for a table that is rewritten');
as_type('letter', 'forced');
sql("DELETE FROM pg_depend WHERE objid = 'forced'::regclass AND refobjid = 'securefile'::regtype");
sql("SET my.target = 'forced'; ALTER TABLE forced ALTER d TYPE securefile");
is(sql("SELECT count(*) FROM forced WHERE d::bytea = blob(1, 9000)"), 2, 'the same by force, with a segment');
sql("SET my.once = 'ALTER TABLE letters RENAME id TO id2'; ALTER TABLE letters ALTER u TYPE securefile USING from_uuid(u)");
is(sql("SELECT count(*) FROM letters WHERE u::bytea = blob(1, $len)"), 3, 'a table whose column is renamed while another one gets its new type');
fails_with($node, "ALTER TABLE ch2 ADD COLUMN t text; SET my.once = 'ALTER TABLE ch2 ALTER t TYPE securefile USING document()'; ALTER TABLE par ALTER id SET NOT NULL, ADD CHECK (zero(id) = 0)",
	'55006', qr/inside another command/, 'a type that is changed while the table waits to be rewritten');
fails_with($node, "SET my.once = 'ALTER TABLE ch2 ADD COLUMN e securefile DEFAULT document()'; ALTER TABLE par ALTER id SET NOT NULL, ADD CHECK (zero(id) = 0)",
	'0A000', qr/must not be stored securefile values/, 'a stored default for a table that waits to be rewritten');
fails_with($node, "SET my.once = 'ALTER TABLE <transient> RENAME id TO id2; DELETE FROM <transient>'; ALTER TABLE moved ADD COLUMN x int DEFAULT zero(1)",
	'55000', $refused, 'rows of the heap that is to replace another one');
sql("SET my.once = 'ALTER TABLE <transient> RENAME id TO id2'; ALTER TABLE moved SET ACCESS METHOD heap2, ADD CHECK (zero(id) = 0)");
is(sql("SELECT count(*) FROM moved WHERE d::bytea = blob(id, $len)"), 3, 'a table is moved while its new heap is renamed');
sql("CREATE INDEX ON moved (folded(id)); SET my.once = 'ALTER TABLE public.<transient> RENAME id TO id2; SELECT 1 / (count(*) = 0)::int FROM pg_trigger WHERE tgrelid = ''public.<transient>''::regclass'; VACUUM FULL moved");
is(sql("SELECT count(*) FROM moved WHERE d::bytea = blob(id, $len)"), 3, 'the heap that VACUUM FULL has replaced gets no triggers');
fails_with($node, "SET my.once = 'DO \$\$ BEGIN DROP TABLE public.<transient>; EXCEPTION WHEN OTHERS THEN NULL; END \$\$; DELETE FROM public.moved'; ALTER TABLE moved SET ACCESS METHOD heap, ADD CHECK (zero(id) IS NOT NULL)",
	'55006', qr/may rewrite it/, 'rows of a table that is copied, after a drop of its new heap that failed');
sql(q{
	CREATE TABLE renamed (id int, d securefile);
	INSERT INTO renamed SELECT * FROM moved;
	CREATE FUNCTION first_of_renamed(i int) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE v securefile; BEGIN
		PERFORM once();
		EXECUTE 'SELECT e FROM renamed WHERE id = 1' INTO v;
		RETURN v;
	END $$});
fails_with($node, "SET my.once = 'ALTER TABLE renamed RENAME d TO e'; ALTER TABLE renamed ALTER d TYPE securefile USING first_of_renamed(id)",
	'0A000', qr/must not be stored securefile values/, 'a column that is renamed while USING gives it values');
is(sql("SELECT string_agg(finding || detail, ' ') FROM (VALUES ('filling', 'd'), ('renamed', 'd'), ('letters', 'u'), ('moved', 'd'), ('forced', 'd')) v (t, c), securefile_check(t::regclass, c::name)"), '', 'all of these are sound');
sql("COPY plain FROM PROGRAM 'echo 1'");
is(sql('SELECT count(*) FROM plain'), 1, 'COPY into a table that its trigger makes invisible');
sql(q{
	CREATE FUNCTION fill_new() RETURNS event_trigger LANGUAGE plpgsql AS
		'BEGIN UPDATE emptied SET d = d || ''\x00''; END';
	CREATE EVENT TRIGGER the_very_last ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION fill_new();
	ALTER TABLE emptied ADD COLUMN y int DEFAULT random();
	DROP EVENT TRIGGER the_very_last});
is(sql("SELECT count(*) FROM emptied WHERE length(d) = $len + 1"), 6, 'an event trigger may write to a table that was rewritten');
is(sql($lacking), '|0', 'after all that nothing lacks anything');

# ---- all the tables have their own values ----
sql('DELETE FROM docs; DELETE FROM base');
sql("SELECT securefile_maintain('docs', 'd'), securefile_maintain('base', 'd')");
my @tables = ('filled', 'leaf', 'raw', 'c1', 'c2', 'c3', 'c4', map({ "in_$_" } grep { $made{$_} } sort keys %made), 'in_drain');
my @wrong = grep { sql("SELECT count(*) FROM $_ WHERE d::bytea = blob(id, $len)") != 3 } @tables;
is("@wrong", '', 'all values are there after those they came from are gone');
@wrong = grep { sql("SELECT count(*) FROM securefile_check('$_', 'd')") != 0 } @tables;
is("@wrong", '', 'and sound');

$node->stop;
done_testing();
