# ALTER TABLE brings values into the segment in the same command: from another type on
# the way, by a default of a new column, by USING, by SET LOGGED.  Nothing of it is seen
# by triggers, logical decoding, or after a rollback or a crash.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('from_bytea',
	conf => [ 'wal_level = logical', 'max_replication_slots = 4', 'allow_in_place_tablespaces = on',
		'min_parallel_table_scan_size = 0', 'min_parallel_index_scan_size = 0', 'max_parallel_maintenance_workers = 4', 'maintenance_work_mem = 256MB' ]);

# rows of all lengths, which tell their contents; doc is bytea
sub make_rows
{
	my ($table) = @_;
	sql("CREATE TABLE $table (id int PRIMARY KEY, seed int, len int, doc bytea)",
		"INSERT INTO $table SELECT i, i, i * 400, blob(i, i * 400) FROM generate_series(1, 40) i",
		"INSERT INTO $table VALUES (41, 41, 3000000, blob(41, 3000000)), (42, 42, 0, ''), (43, 43, NULL, NULL)");
	return;
}

# every value is right and where INSERT would have put it
sub all_stored
{
	my ($table, $name, %params) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($node, $table, 43, $name) unless $params{column};
	sound($node, $table, $name, %params);
	return;
}

# ---- from bytea, and what the command has not written twice ----

make_rows('t');
sql('CREATE TABLE same AS TABLE t', 'ALTER TABLE t ALTER doc TYPE securefile');
all_stored('t', 'from bytea');
sessions_are_gone($node, 'postgres');
my ($dead, $heap, $toast) = split /\|/, sql(
	"SELECT n_dead_tup, pg_relation_size('t') < 65536, pg_relation_size(reltoastrelid) FROM pg_class c, pg_stat_user_tables s WHERE c.oid = 't'::regclass AND s.relid = c.oid");
is("$dead|$heap|$toast", '0|t|0', 'no dead rows, nothing in TOAST');

sql('ALTER TABLE t ALTER doc TYPE bytea', 'ALTER TABLE t ALTER doc TYPE securefile(disable_storage_in_row)');
all_stored('t', 'all of them', in_row => 0);
my $storage = sql("SELECT pg_relation_filenode('t')");
sql('ALTER TABLE t ALTER doc TYPE securefile(nocache)');
is(sql("SELECT pg_relation_filenode('t')"), $storage, 'options change without a rewrite');
all_stored('t', 'options', in_row => 0);

# ---- USING ----

make_rows('u');
sql('ALTER TABLE u ADD lo oid, ADD txt text, ADD other securefile', 'UPDATE u SET lo = lo_from_bytea(0, doc), txt = encode(doc, $$hex$$), other = blob(seed, len)',
	'ALTER TABLE u ALTER doc TYPE securefile USING lo_get(lo), ALTER txt TYPE securefile USING decode(txt, $$hex$$), ALTER lo TYPE securefile USING other');
is(sql('SELECT count(*) FROM u WHERE (doc::bytea, txt::bytea, lo::bytea) IS DISTINCT FROM (other::bytea, other::bytea, other::bytea)'), 0, 'USING: right');
all_stored('u', 'USING');
sound($node, 'u', 'USING', column => $_) for ('txt', 'lo', 'other');
sql('UPDATE u SET other = NULL');
is(sql('SELECT count(*) FROM u WHERE lo::bytea IS DISTINCT FROM doc::bytea'), 0, 'USING: a value of another column is copied');

# a column that was a securefile gets new values: nothing of the old ones is left
sql("ALTER TABLE u ALTER doc TYPE securefile USING doc::bytea || '\\x00'::bytea");
is(sql("SELECT count(*) FROM u WHERE doc::bytea IS DISTINCT FROM blob(seed, len) || '\\x00'::bytea"), 0, 'USING over stored values: right');
sound($node, 'u', 'USING over stored values');
sound($node, 'u', 'USING over stored values, another column', column => 'lo');

# the column is known by its number, whatever name it gets on the way
sql('CREATE TABLE swapped (id int, a bytea, b bytea)', 'INSERT INTO swapped SELECT i, blob(i, 5000), blob(100 + i, 5000) FROM generate_series(1, 3) i',
	q{CREATE FUNCTION rename_once(bytea) RETURNS bytea LANGUAGE plpgsql AS $$
	BEGIN
		IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'swapped'::regclass AND attname = 'a') THEN ALTER TABLE swapped RENAME a TO c; END IF;
		RETURN $1;
	END $$}, 'ALTER TABLE swapped ALTER a TYPE securefile USING rename_once(a)');
is(sql('SELECT count(*) FROM swapped WHERE c::bytea = blob(id, 5000) AND b = blob(100 + id, 5000)'), 3, 'renamed by its USING');
sound($node, 'swapped', 'renamed by its USING', column => 'c');
sql('ALTER TABLE swapped ALTER c TYPE bytea', q{CREATE FUNCTION swap() RETURNS event_trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF current_setting('my.swap', true) = 'yes' THEN
			SET my.swap = 'no';
			ALTER TABLE swapped RENAME c TO x;
			ALTER TABLE swapped RENAME b TO c;
			ALTER TABLE swapped RENAME x TO b;
		END IF;
	END $$}, q{CREATE EVENT TRIGGER swap ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION swap()});
fails_with($node, "SET my.swap = 'yes'; ALTER TABLE swapped ALTER c TYPE securefile", '55006', qr/changed by an event trigger/, 'names swapped by an event trigger');
sql('DROP EVENT TRIGGER swap', 'ALTER TABLE swapped ALTER c TYPE securefile');
is(sql('SELECT count(*) FROM swapped WHERE c::bytea = blob(id, 5000) AND b = blob(100 + id, 5000)'), 3, 'and the command again');

# a command inside, before the first value of the one outside is stored
sql("CREATE TABLE $_ AS TABLE same") for ('outside', 'inside');
sql(q{CREATE FUNCTION nested(doc bytea, id int) RETURNS bytea LANGUAGE plpgsql AS $$
	BEGIN
		IF id = 1 THEN ALTER TABLE inside ALTER doc TYPE securefile; END IF;
		RETURN doc;
	END $$}, 'ALTER TABLE outside ALTER doc TYPE securefile USING nested(doc, id)');
all_stored($_, 'a command inside') for ('outside', 'inside');

# ---- defaults ----

make_rows('d');
sql('CREATE DOMAIN shorter AS securefile CHECK (length(VALUE) < 30000)',
	'ALTER TABLE d ALTER doc TYPE securefile, ADD x securefile DEFAULT blob((random() * 100)::int, 20000), ADD y shorter DEFAULT blob(1, 9000), ADD n int DEFAULT 7');
all_stored('d', 'default');
sound($node, 'd', 'volatile default', column => 'x');
sound($node, 'd', 'constant default in a command that rewrites', column => 'y');
is(sql('SELECT count(*), count(*) FILTER (WHERE length(x) = 20000), count(*) FILTER (WHERE y::bytea = blob(1, 9000)), sum(n) FROM d'), '43|43|43|301', 'defaults: right');
is(sql(q{SELECT count(*) FROM pg_attribute WHERE attrelid = 'd'::regclass AND atthasmissing}), 0, 'defaults: none in the catalog');
my ($rc, $out, $err) = $node->psql('postgres', 'ALTER TABLE d ADD z securefile DEFAULT blob(1, 5000)');
like($err, qr/NOTICE:.*column "z".*\n.*\n.*securefile_rewrite\('public.d', 'z'\)/, 'a constant that stays in the catalog is told');
is(usage($node, 'd', 'z')->{live_bytes}, 0, 'constant default: in the catalog');
sql('UPDATE d SET n = 8 WHERE id <= 10');
is(usage($node, 'd', 'z')->{live_bytes}, 10 * 5120, 'constant default: an UPDATE stores it');
sql("SELECT securefile_rewrite('d', 'z')");
sound($node, 'd', 'constant default, rewritten', column => 'z');
($rc, $out, $err) = $node->psql('postgres', 'ALTER TABLE d ADD s securefile DEFAULT blob(1, 4000)');
is($err, '', 'a constant that belongs in the row is not told');

# ---- partitions, children, persistence, tablespaces ----

sql('CREATE TABLE p (id int, seed int, len int, doc bytea) PARTITION BY RANGE (id)',
	'CREATE TABLE p1 (gone int, doc bytea, len int, seed int, id int)', 'ALTER TABLE p1 DROP gone',
	'ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (20)', 'CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (20) TO (100)',
	'INSERT INTO p SELECT id, seed, len, doc FROM same', 'ALTER TABLE p ALTER doc TYPE securefile USING doc');
rows_right($node, 'p', 43, 'partitions');
sound($node, $_, 'partitions') for ('p1', 'p2');
sql((map { "CREATE TABLE p$_ PARTITION OF p FOR VALUES FROM (${_}00) TO (${_}50)" } 3 .. 12), "ALTER TABLE p ALTER doc TYPE securefile USING doc::bytea || ''::bytea");
rows_right($node, 'p', 43, 'many partitions, USING over stored values');
sound($node, $_, 'many partitions, USING over stored values') for ('p1', 'p2');

sql('CREATE FOREIGN DATA WRAPPER none', 'CREATE SERVER none FOREIGN DATA WRAPPER none', 'CREATE TABLE i (LIKE same)', 'CREATE TABLE i1 () INHERITS (i)',
	'CREATE FOREIGN TABLE i2 () INHERITS (i) SERVER none', 'INSERT INTO i TABLE same', 'INSERT INTO i1 TABLE same', 'ALTER TABLE i ALTER doc TYPE securefile');
sound($node, $_, 'beside a foreign child') for ('i', 'i1');

make_rows('l');
sql('ALTER TABLE l SET UNLOGGED', 'ALTER TABLE l ALTER doc TYPE securefile');
is(sql('SELECT count(*) FROM l WHERE doc::bytea IS DISTINCT FROM blob(seed, len)'), 0, 'unlogged: inline');
is(sql("SELECT count(*) FROM securefile_columns WHERE relid = 'l'::regclass AND segment_relid IS NOT NULL"), 0, 'unlogged: no segment');
sql('ALTER TABLE l SET LOGGED');
all_stored('l', 'SET LOGGED');
make_rows('l2');
sql("CREATE TABLESPACE aside LOCATION ''");
sql('ALTER TABLE l2 SET UNLOGGED', 'ALTER TABLE l2 SET LOGGED, ALTER doc TYPE securefile, SET TABLESPACE aside');
all_stored('l2', 'all at once');
is(sql("SELECT tablespace FROM securefile_columns WHERE relid = 'l2'::regclass"), 'aside', 'all at once: where the table lies');
is(sql('CREATE TEMP TABLE tmp AS TABLE same', 'ALTER TABLE tmp ALTER doc TYPE securefile', 'SELECT count(*) FROM tmp WHERE doc::bytea = blob(seed, len)'), 42, 'temporary table');

# ---- what users have on the table ----

make_rows('v');
sql('ALTER TABLE v ADD CHECK (substring(doc FROM 3 FOR 8) = substring(blob(seed, len) FROM 3 FOR 8))', 'CREATE TABLE fired (what text)',
	q{CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (TG_OP); RETURN NEW; END $$},
	'CREATE TRIGGER a BEFORE INSERT OR UPDATE ON v FOR EACH ROW EXECUTE FUNCTION fire()',
	'CREATE CONSTRAINT TRIGGER z AFTER INSERT OR UPDATE OR DELETE ON v DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fire()',
	q{CREATE FUNCTION head(doc anyelement) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN RETURN substring(doc FROM 1 FOR 900); END $$},
	'CREATE INDEX ON v (head(doc))', 'CREATE INDEX ON v (seed)',
	q{CREATE FUNCTION rewritten() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES ('rewrite of ' || pg_event_trigger_table_rewrite_oid()::regclass); END $$},
	'CREATE EVENT TRIGGER rewritten ON table_rewrite EXECUTE FUNCTION rewritten()',
	'CREATE ROLE owner', 'GRANT CREATE ON SCHEMA public TO owner', 'GRANT ALL ON fired TO owner', 'ALTER TABLE v OWNER TO owner',
	'ALTER TABLE v ENABLE ROW LEVEL SECURITY', 'ALTER TABLE v FORCE ROW LEVEL SECURITY', 'CREATE ROLE stranger');
fails_with($node, 'SET ROLE stranger; ALTER TABLE v ALTER doc TYPE securefile', '42501', 'owner', 'of another role');
sql(q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')});
sql('SET ROLE owner', 'ALTER TABLE v ALTER doc TYPE securefile, ADD more securefile DEFAULT blob((random() * 10)::int, 9000)');
is(sql(q{SELECT count(*) FROM pg_logical_slot_get_changes('slot', NULL, NULL) WHERE data ~ 'table public.v'}), 0, 'logical decoding sees no row');
sql(q{SELECT pg_drop_replication_slot('slot')}, 'DROP EVENT TRIGGER rewritten');
is(sql('SELECT string_agg(what, $$ $$) FROM fired'), 'rewrite of v', 'one rewrite is announced, no row trigger fires');
all_stored('v', 'triggers, policies, indexes');
sound($node, 'v', 'triggers, policies, indexes', column => 'more');
is(sql('SET enable_seqscan = off', q{SELECT string_agg(id::text, ' ') FROM v WHERE head(doc) = blob(17, 900)}), 17, 'index on the contents');

# parallel workers that build an index read what has just been stored; slowly, so that
# each of them has to
sub some
{
	return "INSERT INTO par SELECT i, i, 5000, blob(i, 5000), repeat('x', 1500) FROM generate_series($_[0] + 1, $_[0] + 60) i";
}
sql('CREATE TABLE par (id int, seed int, len int, doc bytea, pad text)', 'ALTER TABLE par ALTER pad SET STORAGE PLAIN',
	q{CREATE FUNCTION slow_head(doc anyelement) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN substring(doc FROM 1 FOR 900); END $$},
	some(0), 'CREATE INDEX ON par (slow_head(doc))', 'ALTER TABLE par ALTER doc TYPE securefile');
rows_right($node, 'par', 60, 'index built by parallel workers');
sql('BEGIN', some(60), 'REINDEX TABLE par', 'COMMIT');
rows_right($node, 'par', 120, 'index built anew by parallel workers');
sql('ALTER TABLE par ALTER doc TYPE bytea', 'ALTER TABLE par SET UNLOGGED, ALTER doc TYPE securefile', 'ALTER TABLE par SET LOGGED');
rows_right($node, 'par', 120, 'index built by parallel workers, second pass');

# ---- what is refused, as in any ALTER TABLE; functions that run it twice ----

make_rows('r');
sql('CREATE CONSTRAINT TRIGGER z AFTER INSERT ON r DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fire()');
fails_with($node, q{BEGIN; INSERT INTO r VALUES (100); ALTER TABLE r ALTER doc TYPE securefile}, '55006', 'pending trigger', 'pending triggers');
fails_with($node, q{DO $$ DECLARE x int; BEGIN FOR x IN SELECT id FROM r LOOP ALTER TABLE r ALTER doc TYPE securefile; END LOOP; END $$}, '55006', 'being used', 'the table is open');
fails_with($node, 'ALTER TABLE r ALTER doc TYPE securefile USING (SELECT 1)', '0A000', 'subquery', 'a subquery');
fails_with($node, 'SELECT securefile_convert(doc::securefile, NULL::internal) FROM r', '(?:42846|0A000)', 'internal', 'nobody else calls securefile_convert()');
fails_with($node, q{ALTER TABLE r ALTER doc TYPE securefile USING CASE id WHEN 30 THEN (1 / (id - 30))::text::bytea ELSE doc END}, '22012', 'division', 'an error in the middle');
is(sql('SELECT count(*) FROM r WHERE doc = blob(seed, len)'), 42, 'an error in the middle: nothing happened');
sql(q{CREATE PROCEDURE there_and_back() LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 3 LOOP
			ALTER TABLE r ALTER doc TYPE securefile USING doc;
			ALTER TABLE r ALTER doc TYPE bytea;
		END LOOP;
		BEGIN
			ALTER TABLE r ALTER doc TYPE securefile;
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
		ALTER TABLE r ALTER doc TYPE securefile;
	END $$}, 'CALL there_and_back()');
all_stored('r', 'from a procedure');

# ---- what the column has and a securefile cannot have ----

# the two programs of doc/operations.md: what is on a column, and how digests take the
# place of indexes
my ($what_is_on, $with_digests) = slurp("$FindBin::RealBin/../../../doc/operations.md") =~ /^### Before you start\n.*?^```sql\n(.*?)^```.*?^```sql\n(.*?)^```/ms;
my $hint = qr/HINT:  Drop the/;

# made, how the query calls it, SQLSTATE or '' if it stays, what the error says, dropped
my @on_it = (
	[ 'CREATE INDEX x ON docs (document)', 'index x', '42704', qr/$hint index or constraint.*hash/, 'DROP INDEX x' ],
	[ 'CREATE INDEX x ON docs USING brin (document)', 'index x', '42704', qr/$hint index or constraint.*hash/, 'DROP INDEX x' ],
	[ 'ALTER TABLE docs ADD CONSTRAINT x UNIQUE (id, document)', 'constraint x on table docs', '42704', qr/$hint index or constraint/, 'ALTER TABLE docs DROP CONSTRAINT x' ],
	[ 'CREATE INDEX x ON docs (md5(document))', 'index x', '42P17', qr/$hint index .*securefile_digest/, 'DROP INDEX x' ],
	[ 'CREATE INDEX x ON docs (sha256(document))', 'index x', '42P17', qr/$hint index .*securefile_digest/, 'DROP INDEX x' ],
	[ q{CREATE INDEX x ON docs (id) WHERE substring(document FROM 1 FOR 1) = '\x41'}, 'index x', '42P17', qr/$hint index .*condition/, 'DROP INDEX x' ],
	[ 'ALTER TABLE docs ADD x text GENERATED ALWAYS AS (md5(document)) STORED', 'default value for column x of table docs', '0A000', qr/$hint generated column.*length/, 'ALTER TABLE docs DROP x' ],
	[ 'ALTER TABLE docs ADD x int GENERATED ALWAYS AS (length(document)) STORED', 'default value for column x of table docs', '0A000', qr/$hint generated column.*length/,
		'ALTER TABLE docs DROP x', 'ALTER TABLE docs ADD x bigint GENERATED ALWAYS AS (length(document)) STORED' ],
	[ 'CREATE STATISTICS x ON id, document FROM docs', 'statistics object x', '0A000', qr/$hint statistics/, 'DROP STATISTICS x' ],
	[ 'CREATE STATISTICS x ON md5(document) FROM docs', 'statistics object x', '' ],
	[ 'CREATE VIEW x AS SELECT id, md5(document), document FROM docs', 'rule _RETURN on view x', '0A000', qr/view x/, 'DROP VIEW x', 'again' ],
	[ 'CREATE MATERIALIZED VIEW x AS SELECT id, document FROM docs', 'rule _RETURN on materialized view x', '0A000', qr/materialized view x/, 'DROP MATERIALIZED VIEW x',
		'CREATE MATERIALIZED VIEW x AS SELECT id, document::bytea FROM docs' ],
	[ 'CREATE RULE x AS ON UPDATE TO docs WHERE new.document IS NULL DO INSTEAD NOTHING', 'rule x on table docs', '0A000', qr/rule x/, 'DROP RULE x ON docs', 'again' ],
	[ 'CREATE POLICY x ON docs USING (document IS NOT NULL)', 'policy x on table docs', '0A000', qr/policy x/, 'DROP POLICY x ON docs', 'again' ],
	[ 'CREATE TRIGGER x BEFORE UPDATE OF document ON docs FOR EACH ROW EXECUTE FUNCTION fire()', 'trigger x on table docs', '0A000', qr/trigger x/, 'DROP TRIGGER x ON docs', 'again' ],
	[ 'CREATE TRIGGER x BEFORE UPDATE ON docs FOR EACH ROW WHEN (new.document IS DISTINCT FROM old.document) EXECUTE FUNCTION fire()', 'trigger x on table docs', '0A000', qr/trigger x/,
		'DROP TRIGGER x ON docs', 'again' ],
	[ 'CREATE FUNCTION x() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(document) FROM docs; END', 'function x()', '0A000', qr/function x/, 'DROP FUNCTION x', 'again' ],
	[ 'CREATE PUBLICATION x FOR TABLE docs (id, document)', 'publication of table docs in publication x', '0A000', qr/publication x/, 'DROP PUBLICATION x', 'again' ],
	[ 'CREATE PUBLICATION x FOR TABLE docs WHERE (document IS NOT NULL)', 'publication of table docs in publication x', '0A000', qr/publication x/, 'DROP PUBLICATION x' ],
	[ 'CREATE INDEX x ON docs USING hash (document)', 'index x', '' ],
	[ 'CREATE INDEX x ON docs (length(document)) WHERE document IS NOT NULL', 'index x', '' ],
	[ q{ALTER TABLE docs ALTER document SET DEFAULT '\x41'}, 'default value for column document of table docs', '' ],
	[ q{ALTER TABLE docs ADD CONSTRAINT x CHECK (md5(document) <> 'x' AND document > '\x')}, 'constraint x on table docs', '' ],
);
foreach (@on_it)
{
	my ($made, $object, $state, $error, $drop, $again) = @$_;
	$again = $made if ($again // '') eq 'again';
	sql('DROP TABLE IF EXISTS docs CASCADE', 'DROP PUBLICATION IF EXISTS x',
		'CREATE TABLE docs (id int, document bytea)', 'INSERT INTO docs VALUES (1, repeat($$ab$$, 1200)::bytea)', 'CREATE PUBLICATION other FOR TABLE docs', $made);
	is((split /\|/, sql($what_is_on =~ s/;$//r))[0], $object, "listed: $made");
	if ($state ne '')
	{
		fails_with($node, 'ALTER TABLE docs ALTER document TYPE securefile', $state, $error, "refused: $made");
		sql($drop);
	}
	sql('ALTER TABLE docs ALTER document TYPE securefile', defined $again ? $again : (), 'DROP PUBLICATION other');
	is(sql('SELECT length(document), securefile_digest(document, $$md5$$) = decode(md5(repeat($$ab$$, 1200)), $$hex$$) FROM docs'), '2400|t', "altered: $made");
}
sql('DROP TABLE docs', 'CREATE TABLE docs (id int, document bytea)', 'CREATE TABLE x (d docs)');
fails_with($node, 'ALTER TABLE docs ALTER document TYPE securefile', '0A000', 'row type', 'a column of the row type');
sql('CREATE TABLE keyed (id int, document bytea) PARTITION BY HASH (document)');
fails_with($node, 'ALTER TABLE keyed ALTER document TYPE securefile', '42P16', 'partition key', 'partition key');

# what has failed for another reason has no such hint; nor has a table with no such column
sql('CREATE TABLE another (id int, document bytea, j json)');
unlike(($node->psql('postgres', $_))[2], $hint, "no hint: $_")
  foreach 'ALTER TABLE another ALTER document TYPE securefile USING id', 'CREATE INDEX ON another (j)', 'ALTER TABLE another ADD UNIQUE (j)';

sql('DROP TABLE docs, x', 'CREATE TABLE docs (id int, document bytea)', 'CREATE INDEX docs_md5_idx ON docs (md5(document))', 'ALTER TABLE docs ADD UNIQUE (document)',
	'INSERT INTO docs SELECT i, repeat(i::text, 1000)::bytea FROM generate_series(1, 10) i', $with_digests);
is(sql('SELECT count(*) FROM docs WHERE sha = securefile_digest(document, $$sha256$$) AND sha = sha256(repeat(id::text, 1000)::bytea)'), 10, 'digests computed on the way');
fails_with($node, 'INSERT INTO docs SELECT 11, document, sha FROM docs WHERE id = 1', '23505', 'docs_sha_key', 'which are unique');

# ---- rolled back, prepared, crashed ----

sub as_bytea
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql("SELECT count(*), min(pg_typeof(doc)::text) FROM $table WHERE doc = blob(seed, len)"), '42|bytea', $name);
}

my $files = scalar(data_files($node));
make_rows($_) for ('b', 'c');
my $alter = 'ALTER TABLE b ALTER doc TYPE securefile, ADD more securefile DEFAULT blob((random() * 10)::int, 9000)';
sql('BEGIN', $alter, 'ROLLBACK');
sql('BEGIN', 'SAVEPOINT s', $alter, 'ROLLBACK TO s', 'INSERT INTO c VALUES (50)', 'COMMIT', 'DELETE FROM c WHERE id = 50');
as_bytea('b', 'rolled back');
sql('BEGIN', $alter, q{PREPARE TRANSACTION 'x'});
crash($node);
$node->start;
sql(q{ROLLBACK PREPARED 'x'});
as_bytea('b', 'prepared, crashed, rolled back');

my $session = background($node);
$session->query_safe("BEGIN; $alter");
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
eval { $session->quit };
$node->start;
as_bytea('b', 'crash before the commit');
wait_until(sub { data_files($node) == $files });
is(scalar(data_files($node)), $files, "no data file left behind");

sql('BEGIN', $alter, q{PREPARE TRANSACTION 'x'});
crash($node);
$node->start;
sql(q{COMMIT PREPARED 'x'}, 'ALTER TABLE c ALTER doc TYPE securefile');
crash($node);
$node->start;
all_stored($_, 'committed, then a crash') for ('b', 'c');
sound($node, 'b', 'committed, then a crash', column => 'more');
all_stored($_, 'at last') for ('l', 'l2', 'r', 'v');
$node->stop;
done_testing();
