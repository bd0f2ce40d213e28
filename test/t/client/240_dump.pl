# securefile dump and restore: round trips with keys and values of all kinds, what a second dump
# reads and stores, --list, --prune, --check, patterns, other tables, other databases.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('dump');
enter($node);

# ---- usage ----
ends(2, qr/say with -t which table, or --all/, 'dump: no table', 'dump', 'd');
ends(2, qr/exclude each other/, '--table and --all', 'dump', '-t', 'docs', '--all', 'd');
ends(2, qr/exclude each other/, '--list and --check', 'dump', '--list', '--check', 'd');
ends(2, qr/belong together/, '--prune without --keep', 'dump', '--prune', 'd');
ends(2, qr/belong together/, '--keep without --prune', 'dump', '-t', 'docs', '--keep', 3, 'd');
ends(2, qr/number from 1/, '--keep 0', 'dump', '--prune', '--keep', 0, 'd');
ends(2, qr/want DIR only/, '--list with a table', 'dump', '--list', '-t', 'docs', 'd');
ends(2, qr/--dry-run of dump/, '--dry-run of a dump', 'dump', '-t', 'docs', '--dry-run', 'd');
ends(2, qr/only pg_dump/, 'another program', 'dump', 'd', '--', 'rm', '-rf');
ends(3, qr/could not open directory "none"/, 'no directory to list', 'dump', '--list', 'none');
mkdir 'full';
write_file('full/file', 'x');
ends(3, qr/other files, and no dumps/, 'a directory with other files', 'dump', '-t', 'docs', 'full');
ends(3, qr/no directory of dumps/, 'nor is it one', 'dump', '--list', 'full');
ends(3, qr/relation "docs" does not exist/, 'no such table', 'dump', '-t', 'docs', 'd');

# ---- rows of all kinds ----
my $long = bytes(1, 3_000_000);
write_file('long', $long);
my $big_key = 10_000_000;
sql(q{CREATE TABLE docs (id int, part text, at timestamptz, x float8, note text, b bytea, l text[],
		twice int GENERATED ALWAYS AS (id * 2) STORED, n int GENERATED ALWAYS AS IDENTITY,
		document securefile(hash), PRIMARY KEY (part, id));
	INSERT INTO docs (id, part, at, x, note, b, l, document)
		SELECT i, E'p\n' || i % 3, '2026-01-02 03:04:05.678901+05', 1.0 / 3, CASE WHEN i % 2 = 0 THEN E'a\tb\\"c' END,
			'\x00ff', ARRAY['a,b', NULL], convert_to(repeat('abc' || i, i * 500), 'UTF8') FROM generate_series(1, 60) i;
	INSERT INTO docs (id, part, document) VALUES (-1, 'null', NULL), (-2, 'empty', '')});
sql(qq{INSERT INTO docs (id, part, document) SELECT i, 'same', convert_to(repeat('x', 20000), 'UTF8') FROM generate_series(1, 1000) i});
sql(qq{CREATE TABLE texts (name text NOT NULL, document securefile); INSERT INTO texts VALUES
	(repeat('k', $big_key), 'of a long key'), (E'\x{e4}\x{20ac}', 'of letters')});
sql(q{CREATE TABLE keyless (name text, document securefile); INSERT INTO keyless VALUES ('a', 'a')});
sql(q{CREATE SCHEMA "Sch.e"; CREATE TABLE "Sch.e"."T.1" ("K 1" uuid PRIMARY KEY, "D" securefile);
	INSERT INTO "Sch.e"."T.1" SELECT gen_random_uuid(), 'in a schema'});
sql(q{CREATE TABLE parts (id int PRIMARY KEY, document securefile) PARTITION BY RANGE (id);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
	CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
	INSERT INTO parts SELECT i, convert_to(repeat('p' || i, 100000), 'UTF8') FROM generate_series(5, 15) i});
ends(0, qr/^$/, 'a long file', 'put', '-t', 'texts', '-k', 'name', 'long');

# All rows of a table, as one text; in a transaction nobody changes them.
sub rows
{
	my ($table, $database) = @_;
	return $node->safe_psql($database // 'postgres', "SELECT count(*), md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))) FROM $table t");
}

# What a session of the command has read counts when it has ended, a little after the command.
sub bytes_read
{
	sessions_are_gone($node, 'postgres');
	return sql(q{SELECT direct_read_bytes FROM securefile_stat WHERE relname = 'docs'});
}

ends(3, qr/"?keyless"? has no primary key.*Hint: .*-k/s, 'no key', 'dump', '-t', 'keyless', 'k');
ends(3, qr/no column "frob"/, 'no such column', 'dump', '-t', 'keyless', '-k', 'frob', 'k');
ends(3, qr/no column "frob"/, 'no such other column', 'dump', '-t', 'docs', '--set-columns', 'note,frob', 'k');
ends(0, qr/1 got/, 'a column that tells the rows apart', 'dump', '-t', 'keyless', '-k', 'name', 'k');
sql(q{INSERT INTO keyless VALUES ('a', 'b'), (NULL, 'c')});
ends(1, qr/keyless: keys that are null, or of several rows: 2, as a\nHint: .*2 got, 1 same, 1 failed/s, 'and one that does not', 'dump', '-t', 'keyless', '-k', 'name', 'k');
my $first = ends(0, qr/^\d{4}-\d\d-\d\dT\d{6}\.\d{6}Z$/m, 'a dump', 'dump', '-t', 'docs', 'd');
chomp $first;
is(scalar(() = `find d/objects -type f` =~ /\n/g), 62, 'equal files are one object');
is(temporaries('d'), 0, 'no temporary file is left');
is((stat 'd')[2] & 07777, 0700, 'only the owner can look into the directory');
like(slurp_file("d/dumps/$first.jsonl"), qr/\A\{"securefile_dump":1,.*\n(\{"c":0,.*\n){1062}\{"rows":1062,"files":1061,"bytes":\d+,"failed":0,"sha256":"[0-9a-f]{64}"\}\n\z/, 'the manifest');

# ---- what a second dump does ----
my $read = bytes_read();
my ($rc, $out, $err) = command('dump', '-t', 'docs', 'd', '--json', '-q');
my ($record) = grep { exists $_->{dump} } objects($out);
is_deeply([ @{$record}{qw(rows files failed)} ], [ 1062, 1061, 0 ], 'a second dump');
is(bytes_read() - $read, 0, 'reads no file whose hash is kept');
is(`find d/objects -type f -newer d/dumps/$first.jsonl`, '', 'and stores nothing again');
sql(q{UPDATE docs SET document = convert_to(repeat('new' || id, 30000), 'UTF8') WHERE part <> 'same' AND id BETWEEN 1 AND 3; DELETE FROM docs WHERE id = 5 AND part <> 'same'});
ends(0, qr/3 got, 1057 same/, 'a third dump gets what is new', 'dump', '-t', 'docs', 'd');
$read = bytes_read();
ends(0, qr/1060 same/, 'without kept hashes', 'dump', '-t', 'docs', 'd', '--verify');
cmp_ok(bytes_read() - $read, '>', 0, '--verify reads');
like((command('dump', '--list', 'd'))[1], qr/^\Q$first\E  1062 rows, 1061 files, .*  public\.docs\.document\n.*\n(.*1061 rows, 1060 files.*\n){2}/m, '--list');
is(scalar(objects((command('dump', '--list', 'd', '--json'))[1])), 4, '--list --json');
ends(0, qr/sound/, '--check', 'dump', '--check', 'd');

# ---- restore ----
my @from = ('--from', 'public.docs', 'd');
my $now = rows('docs');
sql('CREATE TABLE copy (LIKE docs INCLUDING ALL)');
ends(3, qr/no dump has public\.copy/, 'another table has to be named', 'restore', '-t', 'copy', 'd');
ends(0, qr/1061 put/, 'restore to another table', 'restore', '-t', 'copy', @from);
is(rows('copy'), $now, 'all rows and columns are equal');
ends(0, qr/1061 same/, 'again', 'restore', '-t', 'copy', @from);
sql(q{UPDATE copy SET document = 'other' WHERE part = E'p\n0'; UPDATE copy SET document = NULL WHERE part = E'p\n1'; DELETE FROM copy WHERE part = E'p\n2'});
ends(1, qr/another file already\nHint: --replace.*39 put, 1002 same, 20 failed/s, 'another file is no reason to replace it', 'restore', '-t', 'copy', @from);
ends(0, qr/\(dry run\): 20 replaced, 1041 same/, '--dry-run', 'restore', '-t', 'copy', @from, '--dry-run', '--replace');
is(sql(q{SELECT count(*) FROM copy WHERE document = 'other'::securefile}), 20, 'changes nothing');
ends(0, qr/: 1 replaced[;\s]/, 'a pattern', 'restore', '-t', 'copy', @from, '--replace', "p?0/9");
ends(0, qr/19 replaced, 1042 same/, '--replace', 'restore', '-t', 'copy', @from, '--replace');
is(rows('copy'), $now, 'all is equal again');
sql('TRUNCATE docs');
ends(0, qr/1062 put/, 'an older dump, to the table that is empty now', 'restore', '-t', 'docs', 'd', '--at', $first);
is(sql(q{SELECT count(*) FROM docs WHERE part LIKE 'p%' AND document::bytea = convert_to(repeat('abc' || id, id * 500), 'UTF8')}), 60, 'has the files of its time');
ends(3, qr/dump frob: could not open the file.*Hint: dump --list/s, 'no such dump', 'restore', '-t', 'docs', 'd', '--at', 'frob');
ends(3, qr/no slash/, 'a path is no name', 'restore', '-t', 'docs', 'd', '--at', '../dumps/x');
sql(q{CREATE TABLE other (part text, id int, document securefile, extra int DEFAULT 7)});
ends(3, qr/no column "at".*Hint: .*--set-columns/s, 'columns are missing', 'restore', '-t', 'other', @from);
ends(0, qr/59 put/, '--set-columns', 'restore', '-t', 'other', @from, '--set-columns', 'id', 'p*');
is(sql('SELECT count(*), min(extra) FROM other'), '59|7', 'rows that match the pattern, the rest is default');
sql(q{INSERT INTO other SELECT part, id FROM other WHERE id = 1; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN IF NEW.id = 2 THEN RAISE 'not 2'; END IF; RETURN NEW; END $$;
	CREATE TRIGGER refuse BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION refuse(); DELETE FROM other WHERE id IN (2, 3, 4)});
ends(1, qr/more than one row has that key.*2 put, 55 same, 2 failed/s, 'a row that cannot be stored does not take others along', 'restore', '-t', 'other', @from, '--set-columns', '', 'p*');
ends(1, qr/p\\n2\/2: not 2/, 'and has its reason', 'restore', '-t', 'other', @from, '--set-columns', '', 'p*');

# ---- keys that no index has, and of any length ----
my $texts = rows('texts');
ends(0, qr/3 got/, '-k: a key of 10 MB, and letters', 'dump', '-t', 'texts', '-k', 'name', 't');
sql('DELETE FROM texts');
ends(0, qr/3 put/, 'are restored', 'restore', '-t', 'texts', 't');
is(rows('texts'), $texts, 'all texts are equal');
ends(0, qr/3 same/, 'and found again', 'restore', '-t', 'texts', 't');

# ---- all columns, another database ----
sql(q{INSERT INTO docs (id, part, document) VALUES (7, '.securefile-part/7-1.1/x', 'a part')});
ends(1, qr/has no primary key.*3 failed/s, '--all says what it leaves out', 'dump', '--all', 'all');
sql('DROP TABLE keyless, texts, copy, other');
my ($last) = (command('dump', '--all', 'all'))[1] =~ /(.*)/;
like((command('dump', '--list', 'all'))[1], qr/^\Q$last\E .*  Sch\.e\.T\.1\.D, public\.docs\.document, public\.parts\.document$/m, 'one dump has all columns, partitions once');
$node->safe_psql('postgres', 'CREATE DATABASE there');
is(system("pg_dump -s postgres | psql -qX there >psql.log 2>&1"), 0, 'the same tables in another database');
ends(0, qr/put/, 'restore --all', 'restore', '--all', 'all', '-d', 'there', '-j', 2);
sql(q{DELETE FROM docs WHERE part LIKE '.securefile-part/%'});
is(rows($_, 'there'), rows($_), "$_ is equal there; a part of a file was left out") foreach 'docs', 'parts', '"Sch.e"."T.1"';
ends(0, qr/11 same/, 'one table of a dump of all', 'restore', '-t', 'parts', 'all', '-d', 'there');

# ---- several columns of a table, and a role that may read one of the tables ----
sql(q{CREATE TABLE two (id int PRIMARY KEY, document securefile(disable_storage_in_row), other securefile(disable_storage_in_row), third securefile);
	INSERT INTO two SELECT i, convert_to('d' || i, 'UTF8'), convert_to(repeat('o' || i, 1000), 'UTF8'), CASE WHEN i % 2 = 0 THEN '3'::securefile END FROM generate_series(1, 200) i;
	CREATE ROLE half LOGIN; GRANT SELECT ON two TO half});
my $two = rows('two');
ends(1, qr/public\.docs: column document was left out: permission denied.*3 failed/s, '--all says what the role may not read', 'dump', '--all', 'two', '-U', 'half');
like((command('dump', '--list', 'two'))[1], qr/  public\.two\.document, public\.two\.other, public\.two\.third$/m, 'and has the rest');
sql('TRUNCATE two');
ends(0, qr/500 put, 100 same/, 'columns of one table are restored one after the other', 'restore', '--all', 'two');
is(rows('two'), $two, 'all is equal');
ends(0, qr/600 same/, 'again', 'restore', '--all', 'two');
sql('DROP TABLE two');

# ---- a database without an encoding ----
$node->safe_psql('postgres', q{CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('bytes', q{CREATE EXTENSION securefile; CREATE TABLE docs (name text PRIMARY KEY, document securefile);
	INSERT INTO docs VALUES (E'\xff"\\\\', 'x')});
my $raw = rows('docs', 'bytes');
ends(0, qr/1 got/, 'a key that is no UTF-8', 'dump', '-d', 'bytes', '-t', 'docs', 'b');
$node->safe_psql('bytes', 'DELETE FROM docs');
ends(0, qr/1 put/, 'restored', 'restore', '-d', 'bytes', '-t', 'docs', 'b');
is(rows('docs', 'bytes'), $raw, 'as it was');

# ---- prune ----
ends(0, qr/dry run.*2 removed/s, '--prune --dry-run', 'dump', '--prune', 'd', '--keep', 2, '--dry-run');
is(scalar(() = (command('dump', '--list', 'd'))[1] =~ /\n/g), 4, 'removes nothing');
write_file('d/objects/.securefile-0123456789abcdef0123456789abcdef.tmp', 'x');
ends(0, qr/4 objects and 1 temporary files removed.*2 removed/s, '--prune', 'dump', '--prune', 'd', '--keep', 2);
is(temporaries('d'), 0, 'takes temporary files along');
ends(0, qr/sound/, 'what stays is sound', 'dump', '--check', 'd');
sql('TRUNCATE docs');
ends(0, qr/1061 put/, 'and can be restored', 'restore', '-t', 'docs', 'd');
ends(0, qr/removed/, '--keep counts for each column', 'dump', '--prune', 'all', '--keep', 1);
is(scalar(() = (command('dump', '--list', 'all'))[1] =~ /\n/g), 2, 'a dump of other columns stays');

$node->stop;
done_testing();
