# What securefile_migrate() refuses, and whose rights it has.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('migrate_refused', conf => ['securefile.monitor = off', 'wal_level = logical']);

sub refused
{
	my ($table, $state, $message, $name, %params) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return fails_with($node, "CALL securefile_migrate('$table', 'document'" . ($params{more} || '') . ')', $state, $message, $name || $table, %params);
}

# ---- relations ----

sql('CREATE TABLE docs (id int PRIMARY KEY, document bytea, note text)', "INSERT INTO docs VALUES (1, 'one'), (2, 'two')", 'CREATE VIEW seen AS SELECT id FROM docs',
	'CREATE TABLE parts (id int, document bytea) PARTITION BY RANGE (id)', 'CREATE TABLE part PARTITION OF parts DEFAULT', 'CREATE TABLE parent (document bytea)',
	'CREATE TABLE child () INHERITS (parent)', 'CREATE TYPE row AS (document bytea)', 'CREATE TABLE typed OF row', 'CREATE MATERIALIZED VIEW kept AS SELECT 1 AS document');
refused('seen', '42809', 'is not a table');
refused('kept', '42809', 'is not a table');
refused('parts', '42809', 'partitioned table.*ALTER TABLE.*doc/migrating.md');
refused('part', '42809', 'is a partition.*ALTER TABLE.*doc/migrating.md');
refused($_, '42809', 'inheritance tree.*doc/migrating.md') foreach 'parent', 'child';
refused('typed', '42809', 'typed table.*NOT OF');
fails_with($node, q{CALL securefile_migrate('pg_proc', 'proname')}, '42809', 'system catalog');
fails_with($node, q{CREATE TEMP TABLE t (document bytea); CALL securefile_migrate('t', 'document')}, '42809', 'temporary table');
fails_with($node, q{CALL securefile_migrate(999999, 'document')}, '42P01', 'does not exist');
fails_with($node, q{CALL securefile_migrate('docs', 'none')}, '42703', 'does not exist');
fails_with($node, q{CALL securefile_migrate('docs', 'note')}, '42804', 'cannot be migrated to type');
fails_with($node, q{CALL securefile_migrate('docs', 'document', 'oid')}, '42804', 'from bytea or oid to securefile');
fails_with($node, q{CALL securefile_migrate('docs', 'document', 'securefile(nonsense)')}, '22023', 'nonsense');

# ---- arguments ----

fails_with($node, q{BEGIN; CALL securefile_migrate('docs', 'document'); COMMIT}, '2D000', 'cannot run in a transaction block');
fails_with($node, q{CALL securefile_migrate(NULL, 'document')}, '22004', 'must not be null');
refused('docs', '22023', "$_ must be at least 1", $_, more => ", $_ => 0") foreach 'batch_rows', 'batch_bytes', 'lock_timeout', 'lock_tries';
refused('docs', '22023', 'invalid value for missing', 'missing', more => q{, missing => 'perhaps'});
fails_with($node, q{SET default_transaction_read_only = on; CALL securefile_migrate('docs', 'document')}, '25006', 'read-only');

# ---- what depends on the column ----

sub in_the_way
{
	my ($what, $make, $drop) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql($make);
	is(sql(q{SELECT count(*) > 0 FROM securefile_migrate_report('docs', 'document') WHERE action = 'refuses'}), 't', "$what: the report says so");
	refused('docs', '2BP01', 'cannot migrate column', $what);
	sql($drop);
	is(sql(q{SELECT count(*) FROM securefile_migrate_report('docs', 'document') WHERE action = 'refuses'}), 0, "$what: gone");
	return;
}

in_the_way('view', 'CREATE VIEW v AS SELECT document FROM docs', 'DROP VIEW v');
in_the_way('rule', 'CREATE RULE r AS ON UPDATE TO docs WHERE old.document IS NULL DO NOTHING', 'DROP RULE r ON docs');
in_the_way('policy', 'CREATE POLICY p ON docs USING (document IS NOT NULL)', 'DROP POLICY p ON docs');
in_the_way('trigger', q{CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER t BEFORE UPDATE OF document ON docs FOR EACH ROW EXECUTE FUNCTION f()}, 'DROP TRIGGER t ON docs');
in_the_way('generated column', 'ALTER TABLE docs ADD len int GENERATED ALWAYS AS (length(document)) STORED', 'ALTER TABLE docs DROP len');
in_the_way('generated itself', q{ALTER TABLE docs RENAME document TO written; ALTER TABLE docs ADD document bytea GENERATED ALWAYS AS (written || '.') STORED},
	'ALTER TABLE docs DROP document; ALTER TABLE docs RENAME written TO document');
in_the_way('unique', 'ALTER TABLE docs ADD UNIQUE (document)', 'ALTER TABLE docs DROP CONSTRAINT docs_document_key');
in_the_way('foreign key', 'CREATE TABLE refers (d bytea PRIMARY KEY); ALTER TABLE docs ADD CONSTRAINT fk FOREIGN KEY (document) REFERENCES refers NOT VALID', 'ALTER TABLE docs DROP CONSTRAINT fk');
in_the_way('statistics', 'CREATE STATISTICS s ON id, document FROM docs', 'DROP STATISTICS s');
in_the_way('function', 'CREATE FUNCTION g() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(document) FROM docs; END', 'DROP FUNCTION g()');
in_the_way('publication', 'CREATE PUBLICATION p FOR TABLE docs', 'DROP PUBLICATION p');
in_the_way('publication of all', 'CREATE PUBLICATION p FOR ALL TABLES', 'DROP PUBLICATION p');
in_the_way('list of a publication', 'CREATE PUBLICATION p FOR TABLE docs (id, document)', 'DROP PUBLICATION p');
in_the_way('name of an index', 'CREATE INDEX docs_h ON docs USING hash (document); CREATE TABLE docs_h_migrating ()', 'DROP TABLE docs_h_migrating; DROP INDEX docs_h');
in_the_way('name of a constraint', 'ALTER TABLE docs ADD CONSTRAINT c CHECK (length(document) < 100), ADD CONSTRAINT c_migrating CHECK (id > 0)', 'ALTER TABLE docs DROP CONSTRAINT c, DROP CONSTRAINT c_migrating');
in_the_way('other column', 'ALTER TABLE docs ADD document_migrated int', 'ALTER TABLE docs DROP document_migrated');
is(sql('SELECT count(*) FROM pg_attribute WHERE attrelid = $$docs$$::regclass AND attnum > 0 AND NOT attisdropped'), 3, 'nothing was changed');

# ---- rights ----

sql('CREATE ROLE somebody LOGIN', 'CREATE ROLE app LOGIN', 'GRANT ALL ON docs TO somebody', 'GRANT CREATE ON SCHEMA public TO app');
refused('docs', '42501', 'must be owner', 'not the owner', user => 'somebody');
fails_with($node, q{SELECT * FROM securefile_migrate_report('docs', 'document')}, '42501', 'must be owner', 'the report', user => 'somebody');

# an object of somebody else, whose number a row has: neither the owner nor a superuser brings it in
sql(q{SELECT lo_from_bytea(4711, 'secret')}, 'SET ROLE app', 'CREATE TABLE mine (id int PRIMARY KEY, document oid, note text DEFAULT current_user)',
	q{INSERT INTO mine VALUES (1, lo_from_bytea(0, 'own')), (2, 4711)});
refused('mine', '2BP01', '4711.*GRANT SELECT ON LARGE OBJECT', 'an object that the owner may not read', user => 'app');
refused('mine', '2BP01', '4711', 'nor does a superuser read it for him');
sql('GRANT SELECT ON LARGE OBJECT 4711 TO app');
refused('mine', '2BP01', '4711.*Only the owner', 'nor is it removed', more => ', "unlink" => true');
# the owner's code in the table runs with the owner's rights; row security hides nothing from a migration
sql('SET ROLE app', q{CREATE FUNCTION who(bytea) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'ran as %', current_user; RETURN true; END $$},
	'ALTER TABLE mine ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY');
sql(q{CALL securefile_migrate('mine', 'document')});
is(sql('SELECT string_agg(convert_from(document, $$UTF8$$), $$ $$ ORDER BY id) FROM mine'), 'own secret', 'with the right to read it');
sql('SET ROLE app', q{ALTER TABLE mine ADD CONSTRAINT asks CHECK (who(document))});
my $log = -s $node->logfile;
sql(q{CALL securefile_migrate('mine', 'document', 'bytea')});
my $said = substr(slurp($node->logfile), $log);
like($said, qr/ran as app/, 'the check was validated');
unlike($said, qr/ran as (?!app)/, 'with the rights of the owner');

# two sessions, and a long transaction
my $other = background($node);
$other->query_safe('BEGIN; SELECT count(*) FROM docs');
refused('docs', '55P03', 'in 2 tries.*Call securefile_migrate\(\) again', 'a reader', more => ', lock_timeout => 100, lock_tries => 2');
$other->query_safe('COMMIT');
$other->quit;
sql(q{CALL securefile_migrate('docs', 'document')});
is(sql('SELECT string_agg(convert_from(document, $$UTF8$$), $$ $$ ORDER BY id) FROM docs'), 'one two', 'then it goes on');

# a value that no bytea holds
sql('CREATE TABLE huge (id int, document securefile)', q{DO $$ DECLARE h int := securefile_create('huge', 'document'); BEGIN PERFORM securefile_truncate(h, 1500000000); INSERT INTO huge VALUES (1, securefile_finish(h)); END $$});
refused('huge', '2BP01', 'longer than 1 GB.*\(0,1\)', 'to bytea', more => q{, 'bytea'});
done_testing();
