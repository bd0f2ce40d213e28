# While a command of the session copies the rows of a table, writing to the old rows is
# refused; while a table is truncated, storing a value in it is.  Before and after the
# command both are allowed.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('rewriting', conf => ["securefile.monitor_naptime = '1h'"]);
my $len = 9000;
my $refused = qr/while a command of this session (?:may rewrite it|changes the type)/;
my $truncating = qr/cannot store a value in table "\w+" while it is being truncated/;

sub fill_table
{
	my ($table, $last) = @_;
	return sql("INSERT INTO $table (id, d) SELECT i::text::int, blob(i, $len) FROM generate_series(1, $last) i");
}

# A command, in which the first call of act() executes the first statement given, and so on.
sub with_calls
{
	my ($command, @calls) = @_;
	my $n = 0;
	return join('', "ALTER SEQUENCE calls RESTART;\n",
		map({ $n++; "SET my.call_$n = \$x\$$_\$x\$;\n" } @calls), $command);
}

# These rows are there, with their values, and there is nothing to find.
sub sound_rows
{
	my ($table, $ids, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT FROM securefile_maintain('$table', 'd');"
		. "SELECT string_agg(id::text, ' ' ORDER BY id::text) FROM ONLY $table WHERE d::bytea = blob(id::text::int, $len);"
		. "SELECT string_agg(finding || ': ' || detail, '; ') FROM securefile_check('$table', 'd')", on_error_stop => 0);
	is("$out$err", "$ids\n", "$name: the rows are there and sound");
	return;
}

sub is_refused
{
	my ($table, $name, $command, @calls) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	fails_with($node, with_calls($command, @calls), '55006', $refused, $name);
	sound_rows($table, '1 2 3', $name);
	return;
}

sql(q{
	CREATE SEQUENCE calls;
	CREATE FUNCTION act() RETURNS int LANGUAGE plpgsql AS $$
	DECLARE command text := current_setting('my.call_' || nextval('public.calls'), true);
	BEGIN
		IF coalesce(command, '') <> '' THEN EXECUTE command; END IF;
		RETURN 0;
	END $$;
	CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 + public.act(); END';
	CREATE FUNCTION acts() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.act(); RETURN NULL; END';
	CREATE FUNCTION acts_too() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.act(); END'});

# ---- all the commands that copy rows ----
sql(q{
	CREATE TYPE digit AS ENUM ('1', '2', '3');
	CREATE TYPE pair AS (id int, d securefile);
	CREATE TABLE typed OF pair;
	CREATE FUNCTION to_digit(int) RETURNS digit LANGUAGE plpgsql AS 'BEGIN PERFORM public.act(); RETURN $1::text; END';
	CREATE CAST (int AS digit) WITH FUNCTION to_digit(int) AS ASSIGNMENT});
fill_table('typed', 3);
is_refused('typed', 'ALTER TYPE', 'ALTER TYPE pair ALTER ATTRIBUTE id TYPE digit CASCADE', 'DELETE FROM typed');

sql(q{
	CREATE FOREIGN DATA WRAPPER w;
	CREATE SERVER s FOREIGN DATA WRAPPER w;
	CREATE FOREIGN TABLE far (id int, d securefile) SERVER s;
	CREATE TABLE near () INHERITS (far)});
fill_table('near', 3);
is_refused('near', 'ALTER FOREIGN TABLE', 'ALTER FOREIGN TABLE far ADD COLUMN x int DEFAULT act()', 'DELETE FROM ONLY near');

sql('CREATE TABLE heir_of (id int, d securefile); CREATE TABLE heir1 () INHERITS (heir_of); CREATE TABLE heir2 () INHERITS (heir_of)');
fill_table('heir1', 1);
fill_table('heir2', 3);
is_refused('heir2', 'a child that leaves', 'ALTER TABLE heir_of ADD COLUMN x int DEFAULT act()',
	'ALTER TABLE heir2 NO INHERIT heir_of', 'DELETE FROM heir2');

sql('CREATE TABLE parted (id int, d securefile) PARTITION BY RANGE (id); CREATE TABLE low PARTITION OF parted FOR VALUES FROM (-1) TO (1); CREATE TABLE high PARTITION OF parted FOR VALUES FROM (1) TO (9)');
fill_table('high', 3);
sql("INSERT INTO low VALUES (0, blob(0, $len))");
is_refused('high', 'a partition that leaves', 'ALTER TABLE parted ADD COLUMN x int DEFAULT act()',
	'ALTER TABLE parted DETACH PARTITION high', 'DELETE FROM high');

sql('CREATE TABLE t (id int, d securefile); CREATE INDEX t_f ON t ((f(id)))');
fill_table('t', 3);
is_refused('t', 'ALTER COLUMN TYPE', 'ALTER TABLE t ADD COLUMN y int; ALTER TABLE t ALTER y TYPE bigint USING act()', 'UPDATE t SET d = NULL');
is_refused('t', 'the column itself', "ALTER TABLE t ALTER d TYPE bytea USING substr(d::bytea, 1 + act())", 'DELETE FROM t');
# from 17 on these commands have a search_path of their own
is_refused('t', 'CLUSTER', 'SET enable_indexscan = off; CLUSTER t USING t_f', 'DELETE FROM public.t');
is_refused('t', 'VACUUM FULL', 'VACUUM FULL t', 'INSERT INTO public.t VALUES (4)');
is_refused('t', 'MERGE', 'SET enable_indexscan = off; CLUSTER t USING t_f', 'MERGE INTO public.t USING public.t AS o ON t.id = o.id WHEN MATCHED THEN DELETE');
is_refused('t', 'COPY', 'VACUUM FULL t', "COPY public.t (id, d) FROM PROGRAM 'echo 4,x' (FORMAT csv)");
is_refused('t', 'of a table that is new',
	'BEGIN; CREATE TABLE made (id int, d securefile); CREATE INDEX made_f ON made ((f(id))); INSERT INTO made SELECT id, d FROM t; SET LOCAL enable_indexscan = off; CLUSTER made USING made_f',
	('') x 3, 'DELETE FROM public.made');

# ---- which table it is: two sessions ----
sql(q{
	CREATE TABLE goes (id int);
	CREATE TABLE comes (id int, d securefile);
	SELECT setval('calls', 1, false)});
fill_table('comes', 3);
my ($one, $two) = (background($node), background($node));
$one->query_safe('BEGIN; ALTER TABLE goes RENAME TO gone; ALTER TABLE comes RENAME TO goes');
$two->query_safe("SET my.call_1 = 'DELETE FROM goes'");
ok(waits_for_lock($node, $two, 'ALTER TABLE goes ADD COLUMN x int DEFAULT act()'), 'ALTER TABLE waits for a table');
$one->query_safe('COMMIT');
wait_for_sql($node, "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'through'");
$two->query('SELECT 1');
like($two->{stderr}, $refused, 'and then gets another one of that name');
$_->quit foreach ($one, $two);
sound_rows('goes', '1 2 3', 'a table of another name');

# ---- rows that do not have the form of their columns yet ----
sql('CREATE TABLE wide (id int, d securefile); CREATE TABLE wide1 () INHERITS (wide); CREATE TABLE wide2 () INHERITS (wide)');
fill_table('wide1', 3);
fill_table('wide2', 3);
is_refused('wide2', 'a child whose turn comes', 'ALTER TABLE wide ALTER id TYPE bigint USING id + act()', $_)
  foreach ('DELETE FROM wide2', "INSERT INTO wide2 VALUES (4, blob(4, $len))", 'TRUNCATE wide2',
		"SELECT securefile_rewrite('wide2', 'd')");

is_refused('wide2', 'a child that gets a column', 'ALTER TABLE wide ADD COLUMN x int DEFAULT act()', 'DELETE FROM wide2');

# ---- what may be written ----
sql(with_calls('ALTER TABLE wide ADD COLUMN x int DEFAULT act()', '', '', '', "DELETE FROM wide1 WHERE id = 1; INSERT INTO wide1 VALUES (4, blob(4, $len), 0)"));
sound_rows('wide1', '2 3 4', 'a child after its turn');
sound_rows('wide2', '1 2 3', 'a child that calls');
sql(with_calls('ALTER TABLE wide2 ADD CHECK (f(id) > 0)', 'DELETE FROM wide2 WHERE id = 2', "INSERT INTO wide2 VALUES (5, blob(5, $len), 0)"));
sound_rows('wide2', '1 3 5', 'a command that only looks at the rows');
sql('CREATE EVENT TRIGGER zzz ON ddl_command_end WHEN TAG IN (\'ALTER TABLE\') EXECUTE FUNCTION acts_too()');
sql(with_calls('ALTER TABLE wide2 ADD COLUMN y int', "INSERT INTO wide2 VALUES (6, blob(6, $len), 0)"));
sql('DROP EVENT TRIGGER zzz');
sql("ALTER EVENT TRIGGER securefile_ddl DISABLE; BEGIN; ALTER TABLE wide2 ADD COLUMN z int; INSERT INTO wide2 VALUES (7, blob(7, $len), 0); COMMIT; ALTER EVENT TRIGGER securefile_ddl ENABLE ALWAYS");
sound_rows('wide2', '1 3 5 6 7', 'an event trigger afterwards, and a command without one');
sql(with_calls("BEGIN; SAVEPOINT s;\n\\set ON_ERROR_STOP off\nALTER TABLE t ADD COLUMN x int DEFAULT 1 / act();\n\\set ON_ERROR_STOP on\nROLLBACK TO s; INSERT INTO t VALUES (4, blob(4, $len)); COMMIT"));
sql("DO \$\$ BEGIN BEGIN ALTER TABLE t ADD COLUMN x int DEFAULT 1 / act(); EXCEPTION WHEN division_by_zero THEN NULL; END; INSERT INTO t VALUES (5, blob(5, $len)); END \$\$");
sound_rows('t', '1 2 3 4 5', 'after a command that failed');
sql(sprintf("BEGIN; CREATE TABLE pg_temp_%s (id int); INSERT INTO t VALUES (6, blob(6, $len)); COMMIT", sql("SELECT 't'::regclass::oid")));
sound_rows('t', '1 2 3 4 5 6', 'beside a table with the name of new storage');

# ---- TRUNCATE ----
sql(q{
	CREATE TABLE a (id int, d securefile, e securefile);
	CREATE TABLE b (id int);
	CREATE TABLE saved (id int, d securefile);
	CREATE TRIGGER before_b BEFORE TRUNCATE ON b EXECUTE FUNCTION acts()});
fill_table('a', 3);
fails_with($node, with_calls('TRUNCATE a, b', $_), '55006', $truncating, "before TRUNCATE: $_")
  foreach ("INSERT INTO a VALUES (4, blob(4, $len))", "INSERT INTO a (id, e) SELECT 4, d FROM t WHERE id = 4",
	"UPDATE a SET d = blob(4, $len)", "TRUNCATE saved; INSERT INTO a VALUES (4, blob(4, $len))");
sound_rows('a', '1 2 3', 'nothing happened');
fails_with($node, with_calls('TRUNCATE a, b', 'INSERT INTO saved SELECT id, d FROM a'), '42704',
	qr/no longer exists.*being truncated.*BEFORE TRUNCATE trigger can read the rows of its own table/s, 'nor can they be read then');
sql(with_calls('TRUNCATE b, a', 'INSERT INTO saved SELECT id, d FROM a'));
sound_rows('saved', '1 2 3', 'before its turn they can');
is(sql("SELECT count(*), (SELECT live_bytes FROM securefile_usage('a', 'd')) FROM a"), '0|0', 'all is gone');
fill_table('a', 3);
sql(with_calls('TRUNCATE a, b', 'DELETE FROM a WHERE id = 1; UPDATE a SET id = 4 WHERE id = 2; INSERT INTO a VALUES (5)'));
sound_rows('a', '', 'what stores nothing is done');

sql('CREATE TRIGGER after_b AFTER TRUNCATE ON b EXECUTE FUNCTION acts(); CREATE TRIGGER aaa AFTER TRUNCATE ON a EXECUTE FUNCTION acts(); CREATE TRIGGER zzz BEFORE TRUNCATE ON a EXECUTE FUNCTION acts()');
fill_table('a', 3);
my @after = ('', '', "INSERT INTO a VALUES (1, blob(1, $len), blob(1, $len))", "INSERT INTO a VALUES (2, blob(2, $len), 'x')");
sql(with_calls('TRUNCATE a, b', @after));
sound_rows('a', '1 2', 'after TRUNCATE');
# storage that this transaction has made is truncated in place
sql(with_calls("BEGIN; TRUNCATE a; ALTER SEQUENCE calls RESTART; TRUNCATE a, b; INSERT INTO a VALUES (3, blob(3, $len)); COMMIT", @after));
sound_rows('a', '1 2 3', 'after TRUNCATE in place');
sql(with_calls("BEGIN; CREATE TABLE n (id int, d securefile); TRUNCATE n, b; INSERT INTO n VALUES (1, NULL), (2, 'x'); DELETE FROM n; INSERT INTO n VALUES (3, blob(3, $len)); COMMIT",
	'', "INSERT INTO n VALUES (9, blob(9, $len)); DELETE FROM n"));
sound_rows('n', '3', 'after TRUNCATE of an empty table in place');
fails_with($node, with_calls("BEGIN; CREATE TABLE o (id int, d securefile); TRUNCATE o, b; COMMIT", "INSERT INTO o VALUES (9, blob(9, $len))"),
	'55006', $truncating, 'before TRUNCATE of an empty table in place');
sql('CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler');
fails_with($node, with_calls("BEGIN; CREATE TABLE o (id int, d securefile) USING heap2; TRUNCATE o, b; COMMIT", "INSERT INTO o VALUES (9, blob(9, $len))"),
	'55006', $truncating, 'the same of another access method with the code of heap');
sql(with_calls("BEGIN; SAVEPOINT s; TRUNCATE a; ROLLBACK TO s; INSERT INTO a VALUES (4, blob(4, $len)); SAVEPOINT s; TRUNCATE a; RELEASE s; INSERT INTO a VALUES (5, blob(5, $len)); COMMIT"));
sound_rows('a', '5', 'TRUNCATE in subtransactions');
sql(with_calls("DO \$\$ BEGIN BEGIN TRUNCATE a, b; EXCEPTION WHEN division_by_zero THEN NULL; END; INSERT INTO a VALUES (6, blob(6, $len)); END \$\$", '', 'SELECT 1 / 0'));
sound_rows('a', '5 6', 'TRUNCATE that failed');

$node->stop;
done_testing();
