# While a command changes the type of a column, rows do not have the form of their columns,
# and reading them is refused.  A forged edited value cannot lead to bytes outside of it.
# And a database where members of the extension are missing.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('forms', conf => [ "securefile.monitor_naptime = '1h'", 'allow_in_place_tablespaces = on' ]);
my $unread = qr/cannot read table "\w+" while a command of this session changes the type of its column "d"/;

# in the command given, the first call of act() executes a statement
sub within
{
	my ($inner, $outer) = @_;
	return "SET my.nested = \$x\$$inner\$x\$; $outer";
}

sql(q{
	CREATE FUNCTION act() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE command text := current_setting('my.nested', true);
	BEGIN
		IF coalesce(command, '') <> '' THEN
			PERFORM set_config('my.nested', '', false);
			EXECUTE command;
		END IF;
	END $$;
	CREATE FUNCTION same(anyelement) RETURNS anyelement LANGUAGE plpgsql AS 'BEGIN PERFORM public.act(); RETURN $1; END';
	CREATE TABLE other (id int, d securefile);
	INSERT INTO other SELECT i, blob(i, 6000) FROM generate_series(1, 3) i;
	CREATE TABLE noted (id int);
	CREATE TABLE par (id int, d securefile);
	CREATE TABLE child1 () INHERITS (par);
	CREATE TABLE child2 (x int) INHERITS (par);
	INSERT INTO child1 SELECT i, blob(i, 6000) FROM generate_series(1, 3) i;
	INSERT INTO child2 SELECT i, blob(i, 6000), i FROM generate_series(1, 3) i});

# ---- reading ----
my @readers = ('SELECT d FROM child2', 'SELECT count(*) FROM par', 'INSERT INTO noted SELECT id FROM child2', 'CREATE TABLE copied AS TABLE child2',
	"COPY child2 TO '/dev/null'", 'COPY (SELECT d FROM child2) TO PROGRAM $$cat$$', 'CREATE INDEX ON child2 USING hash (d)', 'CREATE INDEX ON child2 (x); CLUSTER child2 USING child2_x_idx',
	'ANALYZE child2', 'ANALYZE', 'ALTER TABLE child2 ADD y int DEFAULT random()', 'ALTER TABLE child2 ALTER d TYPE text USING 1', 'ALTER TABLE child2 ADD CHECK (length(d) > 0)');
foreach my $outer ([ 'to bytea', 'ALTER TABLE par ALTER d TYPE bytea USING same(d)' ], [ 'to text', 'ALTER TABLE par ALTER d TYPE text USING encode(same(d), $$hex$$)' ])
{
	fails_with($node, within($_, $outer->[1]), '55006', qr/$unread|inside another command|child2.*being used/, "$outer->[0]: $_") foreach @readers;
}
is(sql('SELECT count(*) FROM par WHERE d::bytea = blob(id, 6000)'), 6, 'the rows are as they were');
sql('ALTER TABLE par ALTER d TYPE bytea');
fails_with($node, within($_, 'ALTER TABLE par ALTER d TYPE securefile USING same(d)'), '55006', qr/$unread|inside another command|child2.*being used/, "to securefile: $_")
  foreach @readers;
sql(within('SELECT count(*) FROM other', 'ALTER TABLE par ALTER d TYPE securefile USING same(d)'));
is(sql('SELECT count(*) FROM par WHERE d::bytea = blob(id, 6000)'), 6, 'another table may be read');
sound($node, $_, 'altered to and fro', column => 'd') foreach ('child1', 'child2');
sql(within('SELECT 1 / (count(*) = 3)::int FROM child2 WHERE d::bytea = blob(id, 6000)', 'ALTER TABLE par ALTER id TYPE int USING same(id)'));
is(sql('SELECT count(*) FROM par WHERE d::bytea = blob(id, 6000)'), 6, 'and so may this one when another column is changed');
sql('CREATE DOMAIN file AS securefile');
sql(within('SELECT 1 / (count(*) = 3)::int FROM child2 WHERE d::bytea = blob(id, 6000)', 'ALTER TABLE par ALTER d TYPE file, ADD CHECK (same(id) > 0)'));

# past the executor, and where the command does not name the table
$node->safe_psql('postgres', "CREATE TABLESPACE ts LOCATION ''");
sql(q{
	CREATE DOMAIN bytes AS bytea;
	CREATE FUNCTION of_row(child2) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 1; END';
	CREATE INDEX of_rows ON child2 (of_row(child2));
	CREATE INDEX of_ranges ON child2 USING brin (of_row(child2));
	ALTER TABLE child2 SET TABLESPACE ts;
	CREATE TABLE attached (LIKE child2) PARTITION BY RANGE (id)});
fails_with($node, within($_, 'ALTER TABLE par ALTER d TYPE bytes USING same(d)'), '55006', $unread, "past the executor: $_")
  foreach ('ALTER DOMAIN bytes ADD CHECK (length(VALUE) > 0)', 'REINDEX INDEX of_rows', 'REINDEX TABLE child2', q{SELECT brin_summarize_new_values('of_ranges')}, q{SELECT brin_summarize_range('of_ranges', 0)},
	'ALTER TABLE ALL IN TABLESPACE ts SET TABLESPACE pg_default', 'ALTER TABLE child2 NO INHERIT par', 'ALTER TABLE attached ATTACH PARTITION child2 FOR VALUES FROM (0) TO (9)');
sql('DROP INDEX of_rows, of_ranges', 'ALTER TABLE child2 SET TABLESPACE pg_default');
sql(q{
	CREATE TABLE parted (id int PRIMARY KEY, d bytea) PARTITION BY RANGE (id);
	CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (10);
	CREATE TABLE rest PARTITION OF parted DEFAULT;
	INSERT INTO parted VALUES (1, 'one'), (11, 'eleven')});
fails_with($node, within(q{INSERT INTO parted VALUES (11, 'new') ON CONFLICT (id) DO UPDATE SET d = 'x' WHERE length(parted.d) > 0}, 'ALTER TABLE parted ALTER d TYPE securefile USING same(d)'), '55006', $unread,
	'a row of a leaf that the plan does not name');

# ---- one command that changes the type and more ----
foreach my $more ('ALTER d SET NOT NULL', 'ALTER d SET STORAGE EXTERNAL', 'ALTER d SET STATISTICS 0', 'ALTER d SET (n_distinct = 5)', 'ALTER d SET COMPRESSION pglz', 'ALTER d DROP NOT NULL', "ALTER d SET DEFAULT 'x'", 'DROP COLUMN a', 'DROP COLUMN a, ADD COLUMN a int DEFAULT 3')
{
	foreach my $order ("ALTER d TYPE securefile USING a, $more", "$more, ALTER d TYPE securefile USING a")
	{
		sql('CREATE TABLE more (id int, a bytea, d bytea)', q{INSERT INTO more SELECT i, blob(i, 5000), 'x' FROM generate_series(1, 3) i}, "ALTER TABLE more $order");
		is(sql('SELECT count(*) FROM more WHERE d::bytea = blob(id, 5000)'), 3, "at once: $order");
		sql('DROP TABLE more');
	}
}

# ---- what event triggers change before the command ----
sql(q{
	CREATE FUNCTION act_first() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.act(); END';
	CREATE EVENT TRIGGER first ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION act_first();
	CREATE TABLE t (id int, a bytea, b bytea, d bytea);
	INSERT INTO t VALUES (1, 'aaa', 'bbb', 'ddd')});
my $changed = qr/columns of table "\w+" were changed by an event trigger/;
fails_with($node, within($_->[0], "ALTER TABLE t ALTER d TYPE securefile USING $_->[1]"), '55006', $changed, "before the command: $_->[0]; $_->[1]")
  foreach (
	[ 'ALTER TABLE t RENAME a TO x; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME x TO b', 'a' ],
	[ 'ALTER TABLE t RENAME a TO old_a; ALTER TABLE t ADD a bytea DEFAULT $$new$$', 'a' ],
	[ 'ALTER TABLE t RENAME a TO old_a', 'row(t.*)::text::bytea' ],
	[ 'ALTER TABLE t RENAME d TO x; ALTER TABLE t RENAME b TO d', 'a' ],
	[ 'ALTER TABLE t ALTER d TYPE securefile USING blob(1, 9000)', 'a' ]);
sql(within('ALTER TABLE t RENAME b TO bb', 'ALTER TABLE t ALTER d TYPE securefile USING a'));
is(sql('SELECT d::bytea = a AND bb = $$bbb$$ FROM t'), 't', 'what the expression does not take may be renamed');
sql('DROP EVENT TRIGGER first');

sql(q{
	CREATE FUNCTION of_other() RETURNS securefile LANGUAGE sql IMMUTABLE AS 'SELECT d FROM public.other WHERE id = 1';
	CREATE FUNCTION add_column() RETURNS event_trigger LANGUAGE plpgsql AS
		'BEGIN IF tg_tag IN (''CREATE TABLE AS'', ''SELECT INTO'') THEN ALTER TABLE made ADD e securefile DEFAULT of_other(); END IF; END';
	CREATE EVENT TRIGGER a_first ON ddl_command_end EXECUTE FUNCTION add_column()});
fails_with($node, $_, '0A000', qr/must not be stored securefile values/, "a default that is kept in the catalog: $_")
  foreach ('CREATE TABLE made AS SELECT 1 AS id', 'SELECT 1 AS id INTO UNLOGGED made');
sql('DROP EVENT TRIGGER a_first');

# ---- edited values that were not made by ||: see the bytes of one, and change them ----
make_raw_type($node);
sql(q{
	CREATE FUNCTION le(n bigint, bytes int) RETURNS bytea LANGUAGE sql AS
		$$ SELECT string_agg(set_byte('\x00', 0, ((n >> (8 * i)) & 255)::int), '' ORDER BY i) FROM generate_series(0, bytes - 1) i $$;
	CREATE FUNCTION boot() RETURNS bytea LANGUAGE sql AS
		$$ SELECT substring(((d || 'x'::bytea)::raw)::bytea FROM 17 FOR 8) FROM other WHERE id = 1 $$;
	-- an edited value of some pieces, and what is behind them
	CREATE FUNCTION edited(npieces bigint, length bigint, pieces bytea, behind bytea) RETURNS bytea LANGUAGE sql AS
		$$ SELECT '\x03000000'::bytea || le(npieces, 4) || le(length, 8) || boot() || pieces || behind $$;
	CREATE FUNCTION piece(kind bigint, place bigint, start bigint, length bigint) RETURNS bytea LANGUAGE sql AS
		$$ SELECT le(kind, 4) || le(place, 4) || le(start, 8) || le(length, 8) $$;
	CREATE FUNCTION locator(i int) RETURNS bytea LANGUAGE sql AS
		$$ SELECT le(length(b), 4) || b FROM (SELECT (d::raw)::bytea AS b FROM other WHERE id = i) l $$;
	CREATE FUNCTION show(b bytea) RETURNS text LANGUAGE sql AS
		$$ SELECT encode(b::raw::securefile::bytea, 'escape') $$});
is(sql(q{SELECT show(edited(2, 5, piece(1, 0, 0, 3) || piece(1, 0, 0, 2), 'abc'))}), 'abcab', 'a sound one is taken');
is(sql(q{SELECT edited(1, 6000, piece(3, 0, 0, 6000), locator(2))::raw::securefile::bytea = blob(2, 6000)}), 't', 'of a value, too');
fails_with($node, "SELECT show($_)", 'XX001', qr/invalid securefile value/, "not sound: $_")
  foreach (
	q{edited(1, 100, piece(1, 4000000000, 0, 100), 'abc')}, q{edited(1, 200000, piece(1, 0, 0, 200000), 'abc')}, q{edited(1, -1, piece(1, 0, 0, -1), 'abc')},
	q{edited(4000000000, 3, piece(1, 0, 0, 3), 'abc')}, q{edited(2, 3, piece(1, 0, 0, 3), '')}, q{edited(1, 4, piece(1, 0, 0, 3), 'abc')},
	q{edited(1, 2, piece(1, 0, 0, 3), 'abc')}, q{edited(1, 3, piece(7, 0, 0, 3), 'abc')}, q{edited(1, 6000, piece(3, 0, 0, 6000), '')},
	q{edited(1, 6000, piece(3, 0, 0, 6000), le(4000000000, 4))}, q{edited(1, 6001, piece(3, 0, 0, 6001), locator(1))},
	q{edited(1, 10, piece(3, 0, 5995, 10), locator(1))}, q{edited(1, 10, piece(3, 0, -5, 10), locator(1))},
	q{edited(2, 3, piece(1, 0, 0, -3) || piece(1, 0, 0, 6), 'abcabc')});
fails_with($node, "SELECT substring(${_}::raw::securefile FROM 2 FOR 50), ${_}::raw::securefile || 'x'::bytea", 'XX001', qr/invalid securefile value/, "not sound, other ways: $_")
  foreach (q{edited(1, 100, piece(1, 4000000000, 0, 100), 'abc')});

# ---- an extension that is not whole ----
sql('CREATE TABLE docs (id int, d securefile)', 'INSERT INTO docs SELECT i, blob(i, 6000) FROM generate_series(1, 3) i', 'CREATE TABLE plain (id int)');
foreach my $member ('FUNCTION securefile_convert(securefile, internal)', 'FUNCTION securefile_store()', 'FUNCTION securefile_account()')
{
	sql("ALTER EXTENSION securefile DROP $member");
	fails_with($node, $_, '55000', qr/extension securefile lacks its function securefile_\w+\(\) in this database/, "without $member: $_")
	  foreach ('CREATE TABLE copy1 AS SELECT * FROM docs', 'CREATE TABLE copy1 (d securefile)', 'INSERT INTO docs VALUES (4)', 'ALTER TABLE docs DISABLE TRIGGER ALL', "COPY docs (id) FROM PROGRAM 'echo 5'",
		'ALTER TABLE plain ADD d securefile');
	sql('INSERT INTO plain VALUES (1)', 'CREATE TABLE plain2 (id int)', 'DROP TABLE plain2');
	sql("ALTER EXTENSION securefile ADD $member");
}
sql('ALTER EXTENSION securefile DROP ACCESS METHOD securefile_segment');
fails_with($node, $_, '55000', qr/extension securefile lacks its access method securefile_segment/, "without its access method: $_")
  foreach ('CREATE TABLE copy1 AS SELECT * FROM docs', 'CREATE TABLE copy1 (d securefile)', 'INSERT INTO docs VALUES (4)');
sql('ALTER EXTENSION securefile ADD ACCESS METHOD securefile_segment');
is(sql('SELECT count(*) FROM docs WHERE d::bytea = blob(id, 6000)'), 3, 'whole again: the rows are there');
sql('ALTER TABLE docs DISABLE TRIGGER ALL', 'INSERT INTO docs VALUES (4, blob(4, 6000))');
sound($node, 'docs', 'whole again', column => 'd');
sql('DROP EXTENSION securefile CASCADE');
is(sql(q{SELECT count(*) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname = 'd'}), 0, 'and then dropped');
done_testing();
