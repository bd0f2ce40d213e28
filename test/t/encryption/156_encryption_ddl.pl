# What columns that encrypt refuse, so that no plain byte gets to disk past the trigger that
# encrypts: temporary and unlogged tables, hash indexes, late triggers, ALTER TABLE and CREATE
# TABLE AS with plain values; and what works all the same.  What was refused is searched in
# every file of the data directory, WAL included.
# Every version.

use strict;
use warnings;
use File::Find;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $keys = PostgreSQL::Test::Utils::tempdir() . '/keys';
append_to_file($keys, 'one ' . ('11' x 32) . "\n");
chmod 0644, $keys;
my $node = new_cluster('encryption_ddl', conf => ['securefile.monitor = off', "securefile.key_command = 'cat $keys'"]);
my $mark = 'DDLMARK';
my $count = 0;
# An expression for a new marked value, which is in no statement as it is found on disk.
sub marked { return sprintf q{convert_to(reverse('%s') || '%04d', 'UTF8')}, scalar reverse($mark), ++$count }

make_table($node, 'e', 'encrypt');
make_table($node, 'plain', '');
sql('INSERT INTO e SELECT i, i, 0, ' . marked() . " || blob(i, i * 1000) FROM generate_series(0, 20) i");
sql("INSERT INTO plain SELECT i, i, i * 1000, blob(i, i * 1000) FROM generate_series(0, 20) i");

# ---- tables without segments ----

fails_with($node, 'CREATE TEMP TABLE x (doc securefile(encrypt))', '0A000', 'temporary table "x" cannot be encrypted.*document::securefile|::securefile');
fails_with($node, 'CREATE UNLOGGED TABLE x (doc securefile(encrypt))', '0A000', 'unlogged table "x"');
fails_with($node, 'CREATE TEMP TABLE x AS SELECT doc FROM e', '0A000', 'temporary table "x".*SELECT doc::securefile');
is(sql('CREATE TEMP TABLE x AS SELECT id, doc::securefile FROM e', 'SELECT count(*) FROM x JOIN e USING (id) WHERE x.doc = e.doc'), 21, 'a cast takes the option away');
fails_with($node, 'ALTER TABLE e SET UNLOGGED', '0A000', '');
sql('CREATE UNLOGGED TABLE u (id int, doc securefile)');
fails_with($node, 'ALTER TABLE u ALTER doc TYPE securefile(encrypt)', '0A000', 'unlogged table "u"');
sql('CREATE TABLE empty (id int, doc securefile(encrypt))');
fails_with($node, 'ALTER TABLE empty SET UNLOGGED', '0A000', 'unlogged table "empty"');
sql('CREATE DOMAIN secret AS securefile(encrypt)');
fails_with($node, 'CREATE UNLOGGED TABLE x (doc secret)', '0A000', 'unlogged table "x"', 'a domain');

# ---- foreign tables ----

sql('CREATE FOREIGN DATA WRAPPER nobody', 'CREATE SERVER elsewhere FOREIGN DATA WRAPPER nobody', 'CREATE TABLE spread (id int, doc securefile(encrypt)) PARTITION BY RANGE (id)');
foreach my $statement ('CREATE FOREIGN TABLE away (doc securefile(encrypt)) SERVER elsewhere', 'CREATE FOREIGN TABLE away_2 (doc secret) SERVER elsewhere',
	'CREATE FOREIGN TABLE away_3 PARTITION OF spread FOR VALUES FROM (0) TO (9) SERVER elsewhere')
{
	like(($node->psql('postgres', $statement))[2], qr/^psql:<stdin>:1: WARNING:  option encrypt of column "doc" of foreign table "away\w*" does nothing here/, "$statement: a warning");
}

# ---- partition keys ----

fails_with($node, $_, '0A000', 'cannot be part of its partition key')
  foreach 'CREATE TABLE by_doc (id int, doc securefile(encrypt)) PARTITION BY HASH (doc)',
  'CREATE TABLE by_doc (id int, doc secret) PARTITION BY HASH (id, doc)',
  'CREATE TABLE by_doc (id int, doc securefile(encrypt)) PARTITION BY RANGE ((length(doc)))';
sql('CREATE TABLE by_doc (id int, doc securefile) PARTITION BY HASH (doc)', 'DROP TABLE by_doc');

# ---- hash indexes ----

sub no_hash { return fails_with($node, shift, '0A000', 'cannot have hash index') }
no_hash('CREATE INDEX ON e USING hash (doc)');
no_hash('CREATE INDEX CONCURRENTLY e_hash ON e USING hash (doc)');
sql('CREATE FUNCTION twin(doc securefile) RETURNS securefile LANGUAGE sql IMMUTABLE AS $$ SELECT doc $$');
no_hash('CREATE INDEX ON e USING hash (twin(doc))');
sql('CREATE FUNCTION twin(e) RETURNS securefile LANGUAGE sql IMMUTABLE AS $$ SELECT ($1).doc $$');
no_hash('CREATE INDEX ON e USING hash (twin(e))');
sql('DROP INDEX IF EXISTS e_hash', 'CREATE INDEX ON e USING hash ((length(doc)))', 'CREATE INDEX ON e USING hash (seed)');
sql('CREATE TABLE hashed (id int, doc securefile)', 'CREATE INDEX ON hashed USING hash (doc)');
no_hash('ALTER TABLE hashed ALTER doc TYPE securefile(encrypt)');
# an index over whole rows, which ALTER TYPE does not make anew
sql('CREATE TABLE hashed_whole (id int, doc securefile)', 'CREATE FUNCTION twin(hashed_whole) RETURNS securefile LANGUAGE sql IMMUTABLE AS $$ SELECT ($1).doc $$', 'CREATE INDEX ON hashed_whole USING hash (twin(hashed_whole))');
no_hash('ALTER TABLE hashed_whole ALTER doc TYPE securefile(encrypt)');
no_hash('BEGIN; CREATE TABLE x (id int, doc secret); CREATE INDEX ON x USING hash (doc)');
sql('CREATE TABLE parts (id int, doc securefile(encrypt)) PARTITION BY RANGE (id)', 'CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100)');
no_hash('CREATE INDEX ON parts USING hash (doc)');
no_hash('CREATE INDEX ON ONLY parts USING hash (doc)');
no_hash('BEGIN; CREATE TABLE x (LIKE hashed INCLUDING ALL); ALTER TABLE x ALTER doc TYPE secret');

# ---- triggers that fire late ----

sql(q{CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.doc IS NOT NULL THEN NEW.doc := } . marked() . q{; END IF; RETURN NEW; END $$});
sub no_trigger { return fails_with($node, shift, '42P17', 'cannot fire after encrypted column "doc"') }
no_trigger('CREATE TRIGGER "~z" BEFORE INSERT ON e FOR EACH ROW EXECUTE FUNCTION spoil()');
no_trigger('CREATE TRIGGER "é" BEFORE UPDATE OF doc ON e FOR EACH ROW EXECUTE FUNCTION spoil()');
no_trigger('CREATE TRIGGER "~z" BEFORE UPDATE ON parts FOR EACH ROW EXECUTE FUNCTION spoil()');
sql('CREATE TRIGGER early BEFORE INSERT ON empty FOR EACH ROW EXECUTE FUNCTION spoil()');
no_trigger('ALTER TRIGGER early ON empty RENAME TO "~z"');
sql('INSERT INTO empty VALUES (1, NULL), (2, blob(1, 100))');
is(sql("SELECT count(*) FROM empty WHERE convert_from(doc, 'UTF8') LIKE '$mark%'"), 1, 'a trigger that fires early sets the value');
sql('CREATE TRIGGER "~z" AFTER INSERT ON e FOR EACH ROW EXECUTE FUNCTION spoil()', 'DROP TRIGGER "~z" ON e');
sql('CREATE TABLE late (id int, doc securefile)', 'CREATE TRIGGER "~z" BEFORE INSERT ON late FOR EACH ROW EXECUTE FUNCTION spoil()');
no_trigger('ALTER TABLE late ALTER doc TYPE securefile(encrypt)');
no_trigger('BEGIN; CREATE TABLE parts_2 (id int, doc securefile(encrypt)); CREATE TRIGGER "~z" BEFORE INSERT ON parts_2 FOR EACH ROW EXECUTE FUNCTION spoil()');

# whatever puts a plain value there all the same is told
sql('CREATE TABLE forced (id int, doc securefile(encrypt))', 'CREATE TRIGGER early BEFORE INSERT OR UPDATE ON forced FOR EACH ROW EXECUTE FUNCTION spoil()');
sql(q{SET allow_system_table_mods = on}, q{UPDATE pg_trigger SET tgname = '~z' WHERE tgname = 'early' AND tgrelid = 'forced'::regclass});
foreach my $statement ('INSERT INTO forced VALUES (1, blob(1, 100))', 'INSERT INTO forced VALUES (2, NULL); UPDATE forced SET doc = blob(2, 5000)')
{
	fails_with($node, $statement, '27000', 'a plain value was put into encrypted column "doc"');
}

# a value of before the option may stay, also where the toaster writes it in another way since the row gets longer
sql('CREATE TABLE longer (id int, doc securefile, more securefile)', q{INSERT INTO longer VALUES (1, decode(repeat('00', 1000), 'hex'), '')}, 'ALTER TABLE longer ALTER doc TYPE securefile(encrypt)');
is(sql(q{SELECT pg_column_size(doc) FROM longer}), 1005, 'a plain value of before');
sql(q{UPDATE longer SET more = (SELECT string_agg(sha256(i::text::bytea), '') FROM generate_series(1, 60) i)});
is(sql(q{SELECT pg_column_size(doc) < 100, doc::bytea = decode(repeat('00', 1000), 'hex') FROM longer}), 't|t', 'stays while another column is changed');

# ---- ALTER TABLE ----

fails_with($node, 'ALTER TABLE plain ADD more securefile(encrypt) DEFAULT ' . marked(), '0A000', 'cannot be added with a default', 'ADD COLUMN, a constant default');
sql('CREATE FUNCTION fresh() RETURNS securefile LANGUAGE sql VOLATILE AS $$ SELECT ' . marked() . '::securefile $$');
fails_with($node, 'ALTER TABLE plain ADD more securefile(encrypt) DEFAULT fresh()', '0A000', 'cannot be added with a default');
sql('CREATE DOMAIN preset AS securefile(encrypt) DEFAULT fresh()');
fails_with($node, 'ALTER TABLE plain ADD more preset', '0A000', 'cannot be added with a default');
sql('ALTER TABLE plain ADD more securefile(encrypt) DEFAULT NULL, ADD again securefile(encrypt)', 'ALTER TABLE plain ALTER more SET DEFAULT fresh(), DROP again');
sql("INSERT INTO plain VALUES (100, 1, 1, 'x')");
is(sql("SELECT count(more), count(*) FILTER (WHERE convert_from(more, 'UTF8') LIKE '$mark%') FROM plain"), '1|1', 'a default of a column that is there is encrypted');
sub no_using { return fails_with($node, shift, '0A000', 'cannot be computed by ALTER TABLE') }
no_using('ALTER TABLE plain ALTER doc TYPE securefile(encrypt) USING fresh()');
no_using("ALTER TABLE e ALTER doc TYPE securefile(encrypt, compress_low) USING doc || fresh()");
sql('ALTER TABLE e ALTER doc TYPE securefile(encrypt, compress_medium)', 'ALTER TABLE e ALTER doc TYPE securefile(encrypt) USING doc');
sql('CREATE TABLE b (id int, doc bytea)', "INSERT INTO b SELECT i, blob(i, i * 1000) FROM generate_series(0, 20) i");
sql("ALTER TABLE b ALTER doc TYPE securefile(encrypt) USING doc || " . marked());
is(sql("SELECT count(*) FROM b WHERE substring(doc from 1 for id * 1000) = blob(id, id * 1000) AND length(doc) > id * 1000"), 21, 'bytea is encrypted on the way');

# ---- CREATE TABLE AS ----

sub no_copy { return fails_with($node, $_[0], '0A000', 'cannot create a table with plain values', $_[1]) }
no_copy("CREATE TABLE x AS SELECT $_", 'CREATE TABLE AS, ' . substr($_, 0, 20))
  foreach "$count AS n, " . marked() . '::securefile(encrypt) AS doc', 'fresh()::securefile(encrypt) AS doc', 'overlay(doc placing ' . marked() . ' from 1)::securefile(encrypt) AS doc FROM e', 'seed, fresh()::secret AS doc FROM e';
no_copy('SELECT fresh()::securefile(encrypt) AS doc INTO x', 'SELECT INTO');
no_copy('EXPLAIN (ANALYZE, COSTS off) CREATE TABLE x AS SELECT fresh()::securefile(encrypt) AS doc', 'EXPLAIN ANALYZE');
no_copy('PREPARE p AS SELECT fresh()::securefile(encrypt) AS doc; CREATE TABLE x AS EXECUTE p', 'EXECUTE');
no_copy('DO $do$ BEGIN CREATE TABLE x AS SELECT fresh()::securefile(encrypt) AS doc; END $do$', 'in PL/pgSQL');
no_copy('CREATE TABLE x AS SELECT doc::securefile(encrypt) FROM plain', 'plain values of another column');
is(sql('CREATE TABLE copied AS SELECT * FROM e', 'SELECT count(*) FROM copied JOIN e USING (id) WHERE copied.doc = e.doc'), 21, 'values of an encrypted column pass');
is(sql("SELECT count(*) FROM securefile_check('copied', 'doc')"), 0, 'and are sound');
is(sql('PREPARE p AS SELECT * FROM e', 'CREATE TABLE copied_2 AS EXECUTE p', 'SELECT count(*) FROM copied_2 JOIN e USING (id) WHERE copied_2.doc = e.doc'), 21, 'by EXECUTE, too');
sql("CREATE TABLE nulls AS SELECT NULL::securefile(encrypt) AS doc UNION ALL SELECT ''::securefile(encrypt)", 'CREATE TABLE nothing AS SELECT fresh()::securefile(encrypt) AS doc WITH NO DATA');
is(sql('SELECT count(*), count(doc) FROM nulls'), '2|1', 'nothing to encrypt');

# ---- dictionaries ----

sql('CREATE TABLE trained (id int, doc securefile(compress))', q{CREATE FUNCTION record(i int) RETURNS bytea LANGUAGE sql AS $$
	SELECT convert_to(string_agg(format('{"number": %s, "customer": {"name": "%s", "town": "%s"}, "state": "delivered"}', i + j, md5((i * j)::text), md5((i + j)::text)), ','), 'UTF8') FROM generate_series(1, 8) j $$},
	'INSERT INTO trained SELECT i, record(i) FROM generate_series(1, 2000) i');
is(sql("SELECT dictionary FROM securefile_train('trained', 'doc')"), 1, 'a dictionary');
my $codec = "SELECT string_agg(DISTINCT codec, ',') FROM trained, securefile_storage(doc) WHERE id";
sql('INSERT INTO trained VALUES (3000, record(3000))');
is(sql("$codec = 3000"), 'zstd with dictionary', 'values take it');
my $large = "(SELECT string_agg(record(i), '') FROM generate_series(1, 50) i)";
sql('ALTER TABLE trained ALTER doc TYPE securefile(compress, encrypt)', "INSERT INTO trained VALUES (3001, record(3001)), (3002, $large)");
is(sql("$codec > 3000"), 'zstd', 'not when the column encrypts');
is(sql("SELECT count(*) FROM trained WHERE convert_from(doc, 'UTF8') LIKE '%customer%'"), 2003, 'all are read');
sql('TRUNCATE trained', 'INSERT INTO trained VALUES (1, record(1))');
is(sql("SELECT count(*) FROM securefile_check('trained', 'doc')"), 0, 'sound');
sql('ALTER TABLE trained ALTER doc TYPE securefile(compress)', 'DELETE FROM trained', 'INSERT INTO trained VALUES (2, record(2))');
is(sql("$codec = 2"), 'zstd', 'TRUNCATE carried no dictionary into the encrypted segment');

# ---- what a check tells ----

# One test: a check of a table finds nothing, and says this.
sub told { my ($t, $like, $name) = @_; my ($rc, $out, $err) = $node->psql('postgres', "SELECT * FROM securefile_check('$t', 'doc')"); return like("$rc|$out|$err", qr/^0\|\|$like/, $name) }
sql('CREATE TABLE mixed (id int, doc securefile)', 'INSERT INTO mixed SELECT i, blob(i, i * 3000) FROM generate_series(0, 3) i', 'ALTER TABLE mixed ALTER doc TYPE securefile(encrypt)',
	'INSERT INTO mixed SELECT i, blob(i, i * 3000) FROM generate_series(0, 2) i');
told('mixed', '.*NOTICE:  column "doc" of table "mixed" has 3 values that are not encrypted', 'values of before the option');
told('copied', '$', 'none of them');

# ---- no master key ----

is(sql("SELECT count(*) FROM pg_class WHERE relname = 'x'"), 0, 'nothing of what was refused is there');
$node->append_conf('postgresql.conf', "securefile.key_command = 'false'");
$node->restart;
my $no_key = qr/no master key|master key/;
fails_with($node, 'CREATE TABLE x (doc securefile(encrypt))', '55000', $no_key);
fails_with($node, 'ALTER TABLE plain ALTER doc TYPE securefile(encrypt)', '55000', $no_key);
fails_with($node, 'CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (100) TO (200)', '55000', $no_key);
fails_with($node, 'CREATE TABLE x AS SELECT * FROM e', '55000', $no_key);
sql('CREATE TABLE later (id int, doc securefile(encrypt)) PARTITION BY RANGE (id)', 'ALTER TABLE e ADD more int', 'ALTER TABLE e RENAME doc TO document',
	'CREATE INDEX ON e (more)', 'TRUNCATE e', 'ALTER TABLE e DROP document', 'DROP TABLE copied');
told('mixed', '.*NOTICE:  .* 3 values that are not encrypted\n.*\n.*NOTICE:  column "doc" of table "mixed" has 2 values that were not decrypted', 'values without their key');
$node->append_conf('postgresql.conf', "securefile.key_command = 'cat $keys'");
$node->restart;
sql('CREATE TABLE x (doc securefile(encrypt))');

# ---- on disk ----

$node->stop;
my %found;
find({ no_chdir => 1, wanted => sub {
	return unless -f $_;
	my $bytes = slurp($_);
	$found{"$1 in $_"}++ while $bytes =~ /\Q$mark\E(\d{4})/g;
} }, $node->data_dir);
# what "account" refused was in its row before
my @found = sort grep { !/^0002 / } keys %found;
is(join("\n", @found), '', 'no value that was refused is in any file');
cmp_ok(scalar(keys %found), '>', 0, 'the search finds what was written');
unlike(slurp($node->logfile), qr/TRAP: |PANIC|\bXX000\b/, 'no crash of its own');
done_testing();
