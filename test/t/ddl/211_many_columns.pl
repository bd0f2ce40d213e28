# Calls for each column of a database in one transaction need no lock for each of them;
# sizes of a database and a table with their data files; errors that say where they are from: a
# slot that meets a value which it cannot send, a handle that a rule finishes twice.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use File::Find;
use Test::More;

my $node = new_cluster('columns', conf => [ 'max_locks_per_transaction = 10', 'max_connections = 20', 'wal_level = logical', "bytea_output = 'escape'", master_key() ]);

# ---- locks ----

# CREATE TABLE needs some locks itself
sql(join('', map { "CREATE TABLE t$_ (id int PRIMARY KEY, doc securefile(encrypt, disable_storage_in_row)); INSERT INTO t$_ VALUES (1, 'text');\n" } 1 .. 40));
sql(q{CREATE TABLE parent (id int, doc securefile) PARTITION BY LIST (id); CREATE TABLE middle PARTITION OF parent DEFAULT PARTITION BY LIST (id);
	CREATE TABLE leaf PARTITION OF middle DEFAULT; INSERT INTO parent VALUES (1, repeat('x', 5000)::bytea)});
my $locks = q{SELECT string_agg(relation::regclass::text || ' ' || mode, ', ') FROM pg_locks WHERE pid = pg_backend_pid() AND relation >= 16384};
my $calls = join(";\n", map { my $t = $_; map { "DO 'BEGIN PERFORM $_; END'" } map { sprintf($_, $t) } (
		"securefile_maintain(''%s'', ''doc'')", "securefile_usage(''%s'', ''doc'')", "securefile_check(''%s'', ''doc'')", "securefile_repair(''%s'', ''doc'', true)",
		"securefile_total_relation_size(''%s'')") } 'parent', 't1', 't40');
is(sql("BEGIN; $calls; DO 'BEGIN PERFORM securefile_keys(''t1'', ''doc'', true); END'; $locks; COMMIT"), '', 'calls that look give back their locks');
is(sql(q{BEGIN; SELECT count(*) FROM generate_series(1, 30) g, securefile_columns c, securefile_maintain(c.relid, c.attname) m WHERE c.segment_relid IS NOT NULL; COMMIT}), 41 * 30, 'as often as they are called');
my $held = sql("BEGIN; LOCK t2 IN ACCESS SHARE MODE; SELECT 1 FROM securefile_maintain('t2', 'doc'); $locks; COMMIT");
is($held, "1\nt2 AccessShareLock", 'a lock that was there stays');
like(sql("BEGIN; SELECT count(*) FROM securefile_repair('t3', 'doc', false); $locks; COMMIT"), qr/t3 ShareRowExclusiveLock/, 'a repair keeps its lock');

# ---- sizes ----

my $tablespace = $node->basedir . '/space';
mkdir $tablespace or die $!;
sql("CREATE TABLESPACE space LOCATION '$tablespace'");
sql(q{CREATE TABLE far (id int, doc securefile, more securefile) TABLESPACE space; INSERT INTO far VALUES (1, convert_to(repeat('far away ', 300000), 'UTF8'), repeat('x', 10000)::bytea)});
my $bytes = data_bytes($node);
# there each file has a directory
find({ no_chdir => 1, wanted => sub { $bytes += -s if -f && m{/pg_securefile/} } }, $tablespace);
cmp_ok($bytes, '>', 41 * 65536 + 2_700_000, 'there are data files');
sql('CHECKPOINT');
is(sql(q{SELECT securefile_database_size('postgres') - pg_database_size('postgres')}), $bytes, 'the database has them besides');
is(sql(q{SELECT securefile_database_size(oid) = securefile_database_size(datname) FROM pg_database WHERE datname = current_database()}), 't', 'by number and by name');
is(sql('SELECT securefile_total_relation_size(999999999) IS NULL'), 't', 'a table that is not there has none');
# null, or an error from 18 on
my @said = map { my (undef, $out, $err) = $node->psql('postgres', "SELECT ${_}_database_size(999999999::oid) IS NULL"); $out . $err } ('pg', 'securefile');
is($said[1], $said[0], 'a database that is not there: as the server says');
my $far = q{(SELECT sum(u.file_bytes + u.metadata_bytes) FROM securefile_columns c, securefile_usage(c.relid, c.attname) u WHERE c.relid = 'far'::regclass)};
is(sql("SELECT securefile_total_relation_size('far') = pg_total_relation_size('far') + $far"), 't', 'a table with all its columns');
is(sql(q{SELECT securefile_total_relation_size('pg_class') = pg_total_relation_size('pg_class')}), 't', 'and one without');
sql('CREATE ROLE nobody LOGIN; CREATE ROLE reader LOGIN IN ROLE pg_read_all_stats; REVOKE CONNECT ON DATABASE template1 FROM PUBLIC');
fails_with($node, q{SELECT securefile_database_size('template1')}, '42501', 'permission denied for database template1', 'it needs CONNECT', user => 'nobody');
fails_with($node, q{SELECT securefile_database_size('nothing')}, '3D000', 'does not exist', 'no such database');
is($node->safe_psql('postgres', q{SELECT securefile_database_size('template1') > 0}, extra_params => [ '-U', 'reader' ]), 't', 'or the statistics');

# ---- a slot that cannot send a value ----

# in this form each byte takes four
sql(q{CREATE SCHEMA "A"; CREATE TABLE "A"."Docs" (id int, "Document" securefile); SELECT pg_create_logical_replication_slot('slot', 'test_decoding');
	CREATE TABLE "A"."Small" (id int, "Document" securefile); INSERT INTO "A"."Docs" VALUES (1, convert_to('the first one', 'UTF8'));
	BEGIN; SELECT securefile_create('"A"."Docs"', 'Document') AS h \gset
	SELECT securefile_truncate(:h, 280000000); INSERT INTO "A"."Docs" VALUES (2, securefile_finish(:h)); COMMIT});
my $lsn = sql('SELECT pg_current_wal_lsn()');
sql(q{INSERT INTO "A"."Docs" VALUES (3, 'the last one')});
my $changes = q{SELECT data FROM pg_logical_slot_get_changes('slot', NULL, NULL) WHERE data LIKE 'table%'};
fails_with($node, $changes, '54000', 'text form .*HINT:.*pg_replication_slot_advance\(\).*CONTEXT:  securefile value of column "Document" of table "A.Docs"', 'the error names the column, and the way out');
fails_with($node, 'SELECT "Document" FROM "A"."Docs" WHERE id = 2', '54000', 'securefile_chunks\(\)', 'elsewhere the hint is another');
sql("SELECT pg_replication_slot_advance('slot', '$lsn')");
like(sql($changes), qr/^table "A"."Docs": INSERT: .*'the last one'$/, 'it leads on');
# other errors name the column, too
sql(q{INSERT INTO "A"."Small" VALUES (4, decode(repeat('01', 9000), 'hex'))});
my ($file) = sort glob($node->data_dir . '/' . sql(q{SELECT data_files FROM securefile_columns WHERE relname = 'Small'}));
sql('CHECKPOINT');
$node->stop;
patch($file, $_, 'damage') foreach map { $_ * 512 } 0 .. (-s $file) / 512 - 1;
$node->start;
fails_with($node, $changes, 'XX001', 'damaged.*CONTEXT:  securefile value of column "Document" of table "A.Small"', 'damage, too');
sql(q{SELECT pg_drop_replication_slot('slot')});

# ---- a rule that finishes a handle once more ----

sql(q{CREATE TABLE ruled (id int, doc securefile); CREATE TABLE noted (id int, length bigint);
	CREATE RULE also AS ON INSERT TO ruled DO ALSO INSERT INTO noted VALUES (NEW.id, length(NEW.doc))});
my $insert = q{BEGIN; SELECT securefile_create('ruled', 'doc') AS h \gset
	SELECT securefile_write(:h, 'text'); INSERT INTO ruled VALUES (1, securefile_finish(:h)); COMMIT};
fails_with($node, $insert, '42704', 'is not open.*DETAIL:  It was finished.*HINT:  .*rule with DO ALSO.*use a trigger', 'the hint says why');
sql(q{DROP RULE also ON ruled; CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO public.noted VALUES (NEW.id, length(NEW.doc)); RETURN NULL; END$$;
	CREATE TRIGGER note AFTER INSERT ON ruled FOR EACH ROW EXECUTE FUNCTION note()});
sql($insert);
is(sql('TABLE noted'), '1|4', 'a trigger does it');

$node->stop;
done_testing();
