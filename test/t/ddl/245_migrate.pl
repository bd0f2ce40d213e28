# securefile_migrate() in each direction: the bytes, and all that a column has, come along; large
# objects are removed when that is asked for; a migration is taken back; what is written meanwhile
# by every kind of statement follows.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('migrate', conf => ['securefile.monitor = off', 'max_worker_processes = 8']);
need_faults($node);

sub migrate
{
	my ($arguments) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "CALL securefile_migrate($arguments)");
	is($rc, 0, "migrate($arguments)") or diag $err;
	return $err;
}

# The column has the bytes of the twin, in as many rows.
sub same
{
	my ($value, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql("SELECT count(*) FROM docs FULL JOIN twin USING (id) WHERE $value IS DISTINCT FROM twin.b"), 0, "$name: the bytes");
}

sub objects { return sql('SELECT count(*) FROM pg_largeobject_metadata'); }

# All that is said of a table, but for the position of a column.
sub described
{
	return sql(q{SELECT attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid), attacl, col_description(attrelid, attnum), attstattarget, (SELECT string_agg(o, $$,$$) FROM unnest(attoptions) o WHERE o NOT LIKE $$pg_%$$)
			FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = 'docs'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname},
		q{SELECT conname, pg_get_constraintdef(oid), convalidated, obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE conrelid = 'docs'::regclass ORDER BY 1},
		q{SELECT pg_get_indexdef(indexrelid), indisvalid, obj_description(indexrelid, 'pg_class'), (SELECT spcname FROM pg_tablespace t WHERE t.oid = reltablespace) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'docs'::regclass ORDER BY 1},
		q{SELECT tgname FROM pg_trigger WHERE tgrelid = 'docs'::regclass AND NOT tgisinternal ORDER BY 1});
}

my $rows = q{SELECT i, CASE WHEN i % 7 <> 0 THEN blob(i, CASE WHEN i % 10 = 0 THEN 300000 ELSE i * 13 END) END FROM generate_series(1, 120) i};

# ---- bytea, and all that a column has ----

sql('CREATE ROLE reader', 'CREATE ROLE granter', 'CREATE TABLE docs (id int PRIMARY KEY, document bytea, note int)',
	"INSERT INTO docs $rows", 'CREATE TABLE twin (id int PRIMARY KEY, b bytea)', 'INSERT INTO twin SELECT id, document FROM docs',
	'SET allow_in_place_tablespaces = on', q{CREATE TABLESPACE other LOCATION ''}, 'CREATE INDEX of_value ON docs USING hash (document) TABLESPACE other', q{COMMENT ON INDEX of_value IS 'of the index'},
	'CREATE INDEX of_length ON docs (length(document), id) WHERE document IS NOT NULL', 'CREATE INDEX lost ON docs (document) WHERE length(document) < 100',
	'ALTER TABLE docs ADD CONSTRAINT short CHECK (length(document) < 400000)', 'ALTER TABLE docs ADD CONSTRAINT doubtful CHECK (length(document) <> 13) NOT VALID',
	q{COMMENT ON COLUMN docs.document IS 'of the column'}, q{COMMENT ON CONSTRAINT short ON docs IS 'of the constraint'}, 'ALTER TABLE docs ALTER document SET STATISTICS 77, ALTER document SET (n_distinct = -0.5)',
	'GRANT SELECT (document), UPDATE (document) ON docs TO granter WITH GRANT OPTION', 'SET ROLE granter', 'GRANT SELECT (document) ON docs TO reader', 'RESET ROLE');
my $before = described();
is(sql(q{SELECT string_agg(action || ' ' || object, ', ' ORDER BY action, object COLLATE "C") FROM securefile_migrate_report('docs', 'document') WHERE kind NOT IN ('space', 'property')}),
	'lost index public.lost, rebuilt constraint doubtful on table public.docs, rebuilt constraint short on table public.docs, rebuilt index public.of_length, rebuilt index public.of_value',
	'the report');
is(sql(q{SELECT string_agg(object || ' ' || action, ', ') FROM securefile_migrate_report('docs', 'document') WHERE kind = 'property'}),
	'privileges kept, comment kept, statistics target kept, position lost', 'and of the properties');
like(migrate(q{'docs', 'document', dry_run => true}), qr/NOTICE:  rebuilt: index public.of_value.*103 values/s, 'a dry run tells the same');
is(described(), $before, 'and changes nothing');
# an index is there, and one that was not built to its end
arm($node, 'migrate_index', 'error', skip => 1);
like(($node->psql('postgres', q{CALL securefile_migrate('docs', 'document', 'securefile(compress)', batch_rows => 50)}))[2], qr/drops index public.lost.*ERROR:  fault point migrate_index/s, 'what is lost; the second index is built');
sql(q{UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'of_value_migrating'::regclass});
like(migrate(q{'docs', 'document', 'securefile(compress)', batch_rows => 50}), qr/the TOAST table of public.docs has \d+ kB/, 'what VACUUM FULL gives back');
same('document::bytea', 'bytea to securefile');
my $expected = $before =~ s/\|bytea\|/|securefile(compress_medium)|/r =~ s/CREATE INDEX lost[^\n]*\n//r;
like($expected, qr/of the column.*of the constraint.*of the index\|other/s, 'comments and a tablespace among it');
is(described(), $expected, 'everything is put back');
is(sql("SELECT count(*) FROM securefile_check('docs', 'document')"), 0, 'sound');
is(sql('SET ROLE reader', 'SELECT count(document) FROM docs'), 103, 'a reader may read');
like(migrate(q{'docs', 'document', 'securefile'}), qr/of that type already/, 'a second call has nothing to do');

sql(q{ALTER TABLE docs ALTER document SET DEFAULT '\x07', ALTER id SET DEFAULT 0}, 'UPDATE docs SET document = $$\x01$$ WHERE document IS NULL', 'UPDATE twin SET b = $$\x01$$ WHERE b IS NULL', 'ALTER TABLE docs ALTER document SET NOT NULL');
$before = described();
migrate(q{'docs', 'document', 'bytea', batch_bytes => 100000});
same('document', 'securefile to bytea');
is(described(), $before =~ s/\|securefile\(compress_medium\)\|/|bytea|/r =~ s/::securefile\(compress_medium\)/::bytea/r, 'everything is put back, also NOT NULL and a default');
fails_with($node, 'INSERT INTO docs (id, document) VALUES (500, NULL)', '23502', 'null value');
is(sql('INSERT INTO docs (id) VALUES (501) RETURNING document', 'DELETE FROM docs WHERE id = 501'), '\x07', 'the default');
migrate(q{'docs', 'document', verify => false});
same('document::bytea', 'not verified');

# ---- large objects ----

sql(q{DO $$ BEGIN EXECUTE 'DROP TABLE docs'; END $$}, "CREATE TABLE docs (id int PRIMARY KEY, document oid)",
	'INSERT INTO docs SELECT id, CASE WHEN b IS NOT NULL THEN lo_from_bytea(0, b) END FROM twin',
	# two rows name one object; one more is long
	'UPDATE docs SET document = (SELECT document FROM docs WHERE id = 20) WHERE id = 21', 'UPDATE twin SET b = (SELECT b FROM twin WHERE id = 20) WHERE id = 21',
	'UPDATE docs SET document = lo_from_bytea(0, noise(1, 5000000)) WHERE id = 22', 'UPDATE twin SET b = noise(1, 5000000) WHERE id = 22');
my $all = objects();
like(migrate(q{'docs', 'document'}), qr/large objects were not removed/, 'objects stay unless asked');
same('document::bytea', 'large objects to securefile');
is(objects(), $all, 'they are there');
# what was asked for once holds for the next call
arm($node, 'migrate_between', 'error');
fails_with($node, q{CALL securefile_migrate('docs', 'document', 'oid', keep_old => true)}, 'XX000', 'migrate_between');
migrate(q{'docs', 'document'});
same('lo_get(document)', 'securefile to large objects');
is(sql('SELECT count(*) FROM docs WHERE lo_get(document) = document_migrated'), 120, 'the old column is kept');
sql('ALTER TABLE docs DROP COLUMN document_migrated');
sql(q{SELECT count(lo_unlink(o.oid)) FROM pg_largeobject_metadata o WHERE o.oid NOT IN (SELECT document FROM docs)});
is(objects(), 120, 'one for each row');
like(migrate(q{'docs', 'document', "unlink" => true, batch_rows => 50}), qr/120 large objects were removed/, 'removed');
same('document::bytea', 'large objects, removed');
is(objects(), 0, 'they are gone');
is(sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass AND NOT tgisinternal}), 0, 'no note is left');
is(sql('SELECT count(*) FROM pg_attribute WHERE attrelid = $$docs$$::regclass AND NOT attisdropped AND attnum > 0'), 2, 'nor a column');

# numbers of no object; a trigger that would remove them
sql('CREATE EXTENSION lo', 'CREATE TABLE olds (id int, document lo)', 'INSERT INTO olds VALUES (1, lo_from_bytea(0, $$\x0102$$)), (2, 77777), (3, NULL)',
	q{CREATE TRIGGER manages BEFORE UPDATE OR DELETE ON olds FOR EACH ROW EXECUTE FUNCTION lo_manage(document)});
is(sql(q{SELECT object, action FROM securefile_migrate_report('olds', 'document') WHERE kind = 'large object'}), '1 numbers of no large object: 77777|refuses', 'a number of no object');
fails_with($node, q{CALL securefile_migrate('olds', 'document')}, '2BP01', '77777.*missing => .null');
like(migrate(q{'olds', 'document', missing => 'null', "unlink" => true}), qr/drops trigger manages/, 'becomes NULL');
is(sql('SELECT id, document FROM olds ORDER BY id'), "1|\\x0102\n2|\n3|", 'the rows');
is(sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'olds'::regclass AND NOT tgisinternal}), 0, 'the trigger is gone');

# ---- writers, and back ----

# Hold a migration at a point, write, and let it go on.
sub meanwhile
{
	my ($arguments, $point, @statements) = @_;
	my $session = background($node);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(held($node, $session, $point, "CALL securefile_migrate($arguments)"), "a migration is at $point");
	is(sql('SELECT table_name, column_name, pass, rewritten FROM securefile_progress'), 'docs|document_migrating|1|40', 'the view shows how far') if $point eq 'migrate_between';
	fails_with($node, "CALL securefile_migrate($arguments)", '55006', 'another session is migrating', 'one session at a time');
	sql(@statements);
	resume($node, $session, $point);
	$session->quit;
	return;
}

sql('DROP TABLE docs', 'CREATE TABLE docs (id int PRIMARY KEY, document bytea, note int)', 'INSERT INTO docs SELECT id, b FROM twin', 'CREATE EXTENSION IF NOT EXISTS securefile');
sub writes
{
	my ($table, $column, $make) = @_;
	my $value = sub { return $make =~ s/\?/$_[0]/r };
	return ("INSERT INTO $table (id, $column) SELECT i, " . $value->('blob(i, 100000)') . ' FROM generate_series(1001, 1005) i',
		"UPDATE $table SET $column = " . $value->('blob(7, 5000)') . ' WHERE id IN (3, 50, 119)', "UPDATE $table SET $column = NULL WHERE id = 4",
		"INSERT INTO $table (id, $column) VALUES (5, " . $value->('blob(5, 70000)') . ") ON CONFLICT (id) DO UPDATE SET $column = excluded.$column",
		"INSERT INTO $table (id, $column) VALUES (6, " . $value->('blob(6, 70000)') . ') ON CONFLICT DO NOTHING',
		"DELETE FROM $table WHERE id IN (8, 118)", "UPDATE $table SET id = 2000 WHERE id = 117",
		"BEGIN; SAVEPOINT a; UPDATE $table SET $column = " . $value->('blob(1, 9)') . ' WHERE id = 1; ROLLBACK TO a; COMMIT');
}
# without the comparison, which would find what the trigger leaves out
meanwhile(q{'docs', 'document', batch_rows => 40, verify => false}, 'migrate_between', writes('docs', 'document', '?'), writes('twin', 'b', '?'),
	# what is written to the new column is of no effect
	'UPDATE docs SET document_migrating = $$\xff$$ WHERE id IN (1, 115)', 'SET session_replication_role = replica; UPDATE docs SET document = $$\xabcd$$ WHERE id IN (2, 116); UPDATE twin SET b = $$\xabcd$$ WHERE id IN (2, 116)',
	"COPY docs (id, document) FROM PROGRAM 'echo 3000,\\\\x616263' (FORMAT csv)", 'INSERT INTO twin VALUES (3000, $$abc$$)');
same('document::bytea', 'written meanwhile, bytea');
is(sql("SELECT count(*) FROM securefile_check('docs', 'document')"), 0, 'sound');
sql('DELETE FROM docs WHERE id > 1000', 'DELETE FROM twin WHERE id > 1000');
meanwhile(q{'docs', 'document', 'oid', batch_rows => 40}, 'migrate_between', writes('docs', 'document', '?'), writes('twin', 'b', '?'));
same('lo_get(document)', 'written meanwhile, to large objects');
is(objects(), sql('SELECT count(document) FROM docs'), 'no object is left over');
sql('DELETE FROM twin WHERE id > 1000', 'SELECT lo_unlink(document) FROM docs WHERE id > 1000', 'DELETE FROM docs WHERE id > 1000');
meanwhile(q{'docs', 'document', batch_rows => 40}, 'migrate_between', writes('docs', 'document', 'lo_from_bytea(0, ?)'), writes('twin', 'b', '?'),
	# an object is changed in its place, as the row does not tell
	q{SELECT lo_put(document, 3, '\xeeee') FROM docs WHERE id = 30}, q{UPDATE twin SET b = overlay(b PLACING '\xeeee' FROM 4) WHERE id = 30});
same('document::bytea', 'written meanwhile, from large objects');

# what is written when the last comparison has begun is found under the lock
sql('DELETE FROM twin WHERE id > 1000', 'DELETE FROM docs WHERE id > 1000');
migrate(q{'docs', 'document', 'oid'});
meanwhile(q{'docs', 'document'}, 'migrate_compare', writes('docs', 'document', 'lo_from_bytea(0, ?)'), writes('twin', 'b', '?'));
same('document::bytea', 'written at the end, from large objects');

# who gives a row another object removes the one that it had
foreach my $point ('migrate_row', 'migrate_compare')
{
	migrate(q{'docs', 'document', 'oid'});
	meanwhile(q{'docs', 'document'}, $point, 'SELECT lo_unlink(document) FROM docs WHERE id IN (60, 61)', 'UPDATE docs SET document = lo_from_bytea(0, $$new$$) WHERE id = 60', 'DELETE FROM docs WHERE id = 61',
		'UPDATE twin SET b = $$new$$ WHERE id = 60', 'DELETE FROM twin WHERE id = 61');
	same('document::bytea', "an object that was replaced at $point");
}

# an object that was changed when it had been compared is not removed, nor is its number
sql('CREATE TABLE late (id int, document oid)', 'INSERT INTO late SELECT i, lo_from_bytea(100000 + i, blob(i, 5000)) FROM generate_series(1, 3) i');
my $session = background($node);
ok(held($node, $session, 'migrate_swapped', q{CALL securefile_migrate('late', 'document', "unlink" => true)}), 'a migration is at the swap');
sql(q{SELECT lo_put(100002, 0, '\xee')});
resume($node, $session, 'migrate_swapped');
like($session->{stderr}, qr/WARNING:  1 large objects were not removed/, 'an object that was changed stays');
$session->quit;
is(sql('SELECT document_migrated, document = blob(id, 5000), m.oid IS NOT NULL FROM late LEFT JOIN pg_largeobject_metadata m ON m.oid = document_migrated ORDER BY id'), "100001|t|f\n100002|t|t\n100003|t|f", 'with its number');
sql('SELECT lo_unlink(100002)');

# rows that move while objects are removed: behind the walk, or beyond the end that it had
sql('CREATE TABLE moved (id int, document oid, filler text)', 'ALTER TABLE moved ALTER filler SET STORAGE PLAIN', q{INSERT INTO moved SELECT i, lo_from_bytea(200000 + i, blob(i, 5000)), repeat('x', 5000) FROM generate_series(1, 4) i});
arm($node, 'migrate_unlink', 'error');
fails_with($node, q{CALL securefile_migrate('moved', 'document', "unlink" => true)}, 'XX000', 'migrate_unlink');
sql(q{SELECT lo_put(200001, 0, '\xee')});
$session = background($node);
ok(held($node, $session, 'migrate_between', q{CALL securefile_migrate('moved', 'document', batch_rows => 1)}), 'objects are being removed');
sql(q{UPDATE moved SET document = 'other' WHERE id = 3}, q{UPDATE moved SET filler = repeat('y', 5000)});
resume($node, $session, 'migrate_between');
like($session->{stderr}, qr/NOTICE:  2 large objects were removed.*WARNING:  2 large objects were not removed/s, 'each object is counted once');
$session->quit;
is(sql('SELECT id, document_migrated, m.oid IS NOT NULL FROM moved LEFT JOIN pg_largeobject_metadata m ON m.oid = document_migrated ORDER BY id'), "1|200001|t\n2|200002|f\n3|200003|t\n4|200004|f", 'those of other bytes stay, with their numbers');
sql('SELECT lo_unlink(200001), lo_unlink(200003)');

# ---- sessions that have planned their statements for the old type ----

sql('CREATE TABLE used (id int, document bytea)', 'INSERT INTO used VALUES (1)', 'CREATE TABLE lengths (length int)',
	q{CREATE FUNCTION note_length() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO lengths VALUES (length(NEW.document)); RETURN NEW; END'},
	'CREATE TRIGGER notes BEFORE UPDATE ON used FOR EACH ROW EXECUTE FUNCTION note_length()');
$session = background($node);
my $length = 0;
foreach my $to ('securefile', 'bytea', 'securefile')
{
	$session->query_safe(sprintf q{UPDATE used SET document = '%s'}, 'x' x ++$length);
	migrate("'used', 'document', '$to'");
	$session->query(sprintf q{UPDATE used SET document = '%s'}, 'x' x ++$length);
}
$session->quit;
is(sql('SELECT string_agg(length::text, $$ $$ ORDER BY length) FROM lengths'), '1 2 3 4 5 6', 'a trigger that names NEW.document fires in them, too');

# ---- columns that are renamed meanwhile ----

sql('CREATE TABLE named (id int, document bytea)', q{INSERT INTO named VALUES (1, 'one')});
arm($node, 'migrate_swapped', 'error');
fails_with($node, q{CALL securefile_migrate('named', 'document')}, 'XX000', 'migrate_swapped');
sql('ALTER TABLE named RENAME document TO other');
fails_with($node, q{CALL securefile_migrate('named', 'document')}, '42703', 'does not exist.*give it its name back', 'under the old name');
fails_with($node, q{CALL securefile_migrate('named', 'other')}, '55000', 'column "document".*is being migrated.*give it its name back', 'under the new name');
sql('ALTER TABLE named RENAME other TO document', 'ALTER TABLE named RENAME document_migrating TO other');
fails_with($node, q{CALL securefile_migrate('named', 'document', "abort" => true)}, '42703', '"document_migrating".*give it its name back', 'the new column');
sql('ALTER TABLE named RENAME other TO document_migrating');
migrate(q{'named', 'document'});
is(sql('SELECT convert_from(document, $$UTF8$$) FROM named'), 'one', 'it goes on when the names are back');

# ---- constraints and indexes that are made meanwhile ----

sql('CREATE TABLE grown (id int, document bytea)', 'INSERT INTO grown SELECT i, blob(i, 100) FROM generate_series(1, 50) i');
foreach my $pass (1, 2)
{
	$session = background($node);
	ok(held($node, $session, 'migrate_between', q{CALL securefile_migrate('grown', 'document', batch_bytes => 1000)}, skip => $pass == 1 ? 1 : 6), "pass $pass");
	is(sql('SELECT pass FROM securefile_progress'), $pass, 'is held');
	sql("CREATE INDEX i$pass ON grown USING hash (document)", "ALTER TABLE grown ADD CONSTRAINT c$pass CHECK (length(document) < 1000)");
	resume($node, $session, 'migrate_between');
	$session->quit;
	is(sql(q{SELECT string_agg(c.relname, ' ' ORDER BY relname) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'grown'::regclass AND indisvalid}),
		$pass == 1 ? 'i1' : 'i1 i2', 'indexes are those of the new column');
	is(sql(q{SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE conrelid = 'grown'::regclass AND convalidated}), $pass == 1 ? 'c1' : 'c1 c2', 'and constraints');
	is(sql(q{SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'grown'::regclass AND attname = 'document'}, q{SELECT count(*) FROM grown WHERE document = blob(id, 100)}), "securefile\n50", 'which is there');
	migrate(q{'grown', 'document', 'bytea'}) if $pass == 1;
}
arm($node, 'migrate_between', 'error');
fails_with($node, q{CALL securefile_migrate('grown', 'document', 'bytea', batch_rows => 10)}, 'XX000', 'migrate_between');
sql('CREATE TABLE i1_migrating (i int)');
fails_with($node, q{CALL securefile_migrate('grown', 'document')}, '42P07', 'i1_migrating.*Rename that relation', 'a name that is taken meanwhile');
sql('ALTER TABLE i1_migrating RENAME TO other_name');
migrate(q{'grown', 'document'});
is(sql(q{SELECT count(*) FROM pg_index WHERE indrelid = 'grown'::regclass}), 2, 'then it goes on, and no index is lost');

# ---- names that need quotes; a dump in the middle ----

sql('CREATE DATABASE again', 'CREATE SCHEMA "s 1"', 'CREATE TABLE "s 1"."T""b" ("Id" int PRIMARY KEY, "doc \'s" bytea NOT NULL DEFAULT $$\x01$$ CHECK ("doc \'s" <> $$\x02$$))',
	'CREATE INDEX "I x" ON "s 1"."T""b" USING hash ("doc \'s")', 'INSERT INTO "s 1"."T""b" SELECT i, blob(i, 20000) FROM generate_series(1, 30) i');
my $quoted = q{'"s 1"."T""b"'::regclass, 'doc ''s'};
arm($node, 'migrate_between', 'error', skip => 1);
fails_with($node, "CALL securefile_migrate($quoted, batch_rows => 10)", 'XX000', 'migrate_between');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, '-t', '"s 1".*', $node->connstr('postgres') ], 'a dump in the middle');
$node->safe_psql('again', 'CREATE EXTENSION securefile; CREATE SCHEMA "s 1"');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('again') ], 'restored');
foreach my $db ('again', 'postgres')
{
	$node->safe_psql($db, "CALL securefile_migrate($quoted)");
	is($node->safe_psql($db, q{SELECT format_type(atttypid, NULL), attnotnull, (SELECT count(*) FROM pg_constraint WHERE conrelid = attrelid AND contype IN ('c', 'p')), (SELECT count(*) FROM pg_index WHERE indrelid = attrelid)
			FROM pg_attribute WHERE attrelid = '"s 1"."T""b"'::regclass AND attname = 'doc ''s'}), 'securefile|t|2|2', "$db: migrated on");
	is($node->safe_psql($db, q{SELECT string_agg(md5("doc 's"::bytea), ',' ORDER BY "Id") FROM "s 1"."T""b"}), sql('SELECT string_agg(md5(blob(i, 20000)), $$,$$ ORDER BY i) FROM generate_series(1, 30) i'), "$db: the bytes");
}

# a migration is taken back
foreach my $to ('bytea', 'oid')
{
	$before = described();
	my $had = objects();
	arm($node, 'migrate_swapped', 'error');
	fails_with($node, "CALL securefile_migrate('docs', 'document', '$to')", 'XX000', 'migrate_swapped');
	isnt(described(), $before, "$to: a migration that has failed is there");
	fails_with($node, q{CALL securefile_migrate('docs', 'document', 'securefile(compress)')}, '55000', 'is being migrated to');
	fails_with($node, 'TRUNCATE docs', '55006', 'cannot truncate') if $to eq 'oid';
	# a writer is in the middle of two rows
	$session = background($node);
	my $writer = background($node);
	$writer->query_safe('BEGIN; UPDATE docs SET document = document WHERE id = 60; UPDATE docs SET document = document || $$x$$ WHERE id = 50; UPDATE twin SET b = b || $$x$$ WHERE id = 50');
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_until(qr/start/, qq{\\echo start\nCALL securefile_migrate('docs', 'document', "abort" => true);\n});
	wait_for_sql($node, "SELECT wait_event_type IN ('Lock', 'Extension') FROM pg_stat_activity WHERE pid = $pid");
	$writer->query_safe('COMMIT');
	$writer->quit;
	is($session->query('SELECT') . $session->{stderr} =~ s/background_psql.*\n?//rg, '', "$to: beside a writer");
	$session->quit;
	is(described(), $before, "$to: taken back");
	is(objects(), $had, "$to: with its large objects");
	same('document::bytea', "$to: taken back");
}
fails_with($node, q{CALL securefile_migrate('docs', 'document', "abort" => true)}, '55000', 'not being migrated');
done_testing();
