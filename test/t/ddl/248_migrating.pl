# doc/migrating.md: every statement and every command of the page, as they stand there, with
# writers in between; the bytes afterwards are those of before.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use SecurefileWeb;
use Test::More;

my $node = new_cluster('migrating', conf => ['wal_level = logical']);
my $dir = enter($node);
my $url = web_begin();

# ---- the page: of each section its steps, in their order ----
my (%steps, @sections, $section);
foreach (split /^(?=#)/m, slurp("$FindBin::RealBin/../../../doc/migrating.md"))
{
	($section) = /^#+ (.*)$/m;
	push @sections, $section;
	push @{ $steps{$section} }, $+{sql} // $+{command}
	  while /^```sql\n(?<sql>.*?)^```|^    (?<command>securefile [^\n]*)/msg;
}
my %taken;

# One test: the next step of a section begins like that, and works; what it prints.
sub step
{
	my ($of, $like, %params) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $text = $steps{$of}[ $taken{$of}++ ] // '';
	my ($rc, $out, $err);
	if ($text =~ s/^securefile //)
	{
		$text =~ s{/srv/}{$dir/srv/};
		($rc, $out, $err) = command(split ' ', $text);
	}
	else
	{
		my $sql = $text;
		$sql =~ s/;\s*\z/ \\gexec\n/ if $params{gexec};
		$sql =~ s/^COMMIT;/$params{before_commit}COMMIT;/m if $params{before_commit};
		($rc, $out, $err) = $node->psql($params{db} // 'postgres', $sql, on_error_die => 0);
	}
	ok($text =~ $like && $rc == ($params{status} // 0) && $err !~ /ERROR/, "$of: " . ($text =~ /^(.{0,60})/)[0])
	  or diag("wanted $like\nstatus $rc\n$text\n$out\n$err");
	return "$out\n$err";
}

# One test: the documents are those of table want.
sub same_bytes
{
	my ($name, $document) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql('SELECT count(*), count(*) FILTER (WHERE ' . ($document // 'docs.document::bytea') . ' IS DISTINCT FROM w.document) FROM docs FULL JOIN want w USING (id)'),
		sql('SELECT count(*) FROM want') . '|0', "$name: the same bytes");
}

# Tables docs and want, as a user of that type has them: 205 rows, one of them null, one long.
sub begin
{
	my ($column) = @_;
	sql('DROP TABLE IF EXISTS docs, want', 'CREATE TABLE want (id int PRIMARY KEY, document bytea)',
		'INSERT INTO want SELECT i, CASE WHEN i <> 7 THEN blob(i, i * 60) END FROM generate_series(1, 204) i',
		'INSERT INTO want VALUES (205, blob(205, 3000000))', $column);
	return;
}

# Writers, who change both tables; value: an expression over $id and $length.
sub write_some
{
	my ($value, $from) = @_;
	sql(map { my ($id, $length) = @$_; my $bytes = "blob($id + 1000, $length)";
			my $new = $value =~ s/VALUE/$bytes/r;
			("INSERT INTO want VALUES ($id, $bytes) ON CONFLICT (id) DO UPDATE SET document = excluded.document",
				"INSERT INTO docs (id, document) VALUES ($id, $new) ON CONFLICT (id) DO UPDATE SET document = excluded.document") }
		  [ $from, 5000 ], [ $from + 1, 100 ], [ $from + 300, 9000 ]);
	sql("DELETE FROM want WHERE id = $from + 2", "DELETE FROM docs WHERE id = $from + 2");
	return;
}

# The statements that a query has written, of which there are two.
sub checks
{
	my ($text) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(scalar(() = $text =~ /^ALTER TABLE docs DROP CONSTRAINT .* NOT VALID;$/mg), 2, 'the CHECK constraints');
	return $text;
}

# ---- from bytea ----
my $bytea = 'CREATE TABLE docs AS TABLE want; ALTER TABLE docs ADD PRIMARY KEY (id)';
begin($bytea);
step('bytea, with a lock', qr/^ALTER TABLE/);
same_bytes('with a lock');

begin($bytea);
like(step('bytea, by one call', qr/^SELECT/), qr/^space\|204 values/m, 'the report');
step('bytea, by one call', qr/^CALL/);
same_bytes('by one call');
step('To bytea', qr/^ALTER TABLE/);
same_bytes('back to bytea', 'docs.document');
sql('ALTER TABLE docs ALTER document TYPE securefile');
step('To bytea', qr/^CALL/);
same_bytes('back by one call', 'docs.document');

begin($bytea);
sql('DELETE FROM want WHERE id = 7', 'DELETE FROM docs WHERE id = 7', 'CREATE ROLE clerk', 'CREATE ROLE "100% sure"',
	'ALTER TABLE docs ALTER document SET NOT NULL, ALTER document SET STATISTICS 77', q{ALTER TABLE docs ALTER document SET DEFAULT '\x2531'},
	q{COMMENT ON COLUMN docs.document IS 'what the customer''s scan shows, 100% of it'}, 'GRANT SELECT (document), UPDATE (document) ON docs TO clerk',
	'GRANT SELECT (document) ON docs TO "100% sure" WITH GRANT OPTION',
	q{ALTER TABLE docs ADD CONSTRAINT "not 1%" CHECK (length(document) <> 1)}, q{ALTER TABLE docs ADD CHECK (document IS NOT NULL) NOT VALID});
my $what_it_has = q{SELECT attnotnull, attstattarget, pg_get_expr(adbin, adrelid) LIKE '%2531%', col_description(attrelid, attnum),
	(SELECT string_agg(x::text, ' ' ORDER BY x::text) FROM unnest(attacl) x)
	FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE attrelid = 'docs'::regclass AND attname = 'document'};
my $had = sql($what_it_has);
my $use = 'bytea, by plain SQL';
step($use, qr/^ALTER TABLE docs ADD/);
step($use, qr/^CREATE FUNCTION docs_follow/);
write_some('VALUE', 10);
# some batches are done already, as after an interrupt
sql('UPDATE docs SET document_new = document WHERE id BETWEEN 20 AND 50');
step($use, qr/^DO/);
write_some('VALUE', 60);
is(step($use, qr/^SELECT id FROM docs WHERE securefile_digest/), "\n", 'no row differs');
sql(q{ALTER TABLE docs DISABLE TRIGGER USER; UPDATE docs SET document = 'other' WHERE id = 100; ALTER TABLE docs ENABLE TRIGGER USER});
$taken{$use}--;
is(step($use, qr/^SELECT id FROM docs WHERE securefile_digest/), "100\n", 'one that differs is named');
sql('UPDATE docs SET document = w.document FROM want w WHERE w.id = 100 AND docs.id = 100');
step($use, qr/^SELECT format/, gexec => 1);
step($use, qr/VALIDATE/);
my $checks = checks(step($use, qr/^SELECT format/));
step($use, qr/^BEGIN/, before_commit => $checks);
same_bytes('in use');
is(sql('SELECT count(*) FROM docs WHERE document_old = $$\x2531$$'), 0, 'no old value yet');
fails_with($node, q{INSERT INTO docs (id, document) VALUES (999, 'x')}, '23514', '"not 1%"', 'a CHECK constraint is that of the new column');
is(sql('INSERT INTO docs (id) VALUES (999)', q{SELECT document, document_old IS NULL FROM docs WHERE id = 999}, 'DELETE FROM docs WHERE id = 999'), '\x2531|t', 'the old one has no default');
sql('ALTER TABLE docs VALIDATE CONSTRAINT "not 1%"');
is(sql($what_it_has), $had, 'default, NOT NULL, statistics, comment and privileges are those of before');
step('Afterwards', qr/^ALTER TABLE docs DROP document_old;\nVACUUM FULL/);
step('Afterwards', qr/^SELECT pg_size_pretty/);
same_bytes('afterwards');
sound($node, 'docs', 'in use', column => 'document');

# ---- from large objects ----
my $objects = 'CREATE TABLE docs AS SELECT id, CASE WHEN document IS NOT NULL THEN lo_from_bytea(0, document) END AS document FROM want; ALTER TABLE docs ADD PRIMARY KEY (id)';
begin($objects);
step('Large objects, with a lock', qr/^ALTER TABLE/);
same_bytes('with a lock');

begin($objects);
my $before = sql('SELECT count(*) FROM pg_largeobject_metadata');
step('Large objects, by one call', qr/^SELECT/);
same_bytes('by one call');
is(sql('SELECT count(*) FROM pg_largeobject_metadata'), $before - 204, 'the objects are gone');
step('To large objects', qr/^CALL/);
same_bytes('back by one call', 'lo_get(docs.document)');

begin($objects);
# with a hole
sql(q{SELECT lo_put((SELECT document FROM docs WHERE id = 3), 2500000, 'end')},
	q{UPDATE want SET document = document || decode(repeat('00', 2500000 - length(document)), 'hex') || 'end' WHERE id = 3});
$use = 'Large objects, by plain SQL';
step($use, qr/^ALTER TABLE docs ADD document_new securefile;\nCREATE FUNCTION docs_of_object/);
step($use, qr/^CREATE FUNCTION docs_follow/);
write_some('lo_from_bytea(0, VALUE)', 10);
step($use, qr/^DO/);
write_some('lo_from_bytea(0, VALUE)', 60);
like(step($use, qr/^SELECT id/), qr/^60\n61\n360\n/, 'what came meanwhile is named');
$taken{$use} -= 2;
step($use, qr/^DO/);
is(step($use, qr/^SELECT id/), "\n", 'no row differs');
my $changed = 'SELECT lo_put((SELECT document FROM docs WHERE id = 205), ';
foreach (q{2000000, 'other')}, q{3000000, 'longer')})
{
	sql("$changed $_");
	$taken{$use}--;
	is(step($use, qr/^SELECT id/), "205\n", 'an object that was written in place is named');
	sql('UPDATE docs SET document_new = docs_of_object(document, tableoid) WHERE id = 205');
	$taken{$use}--;
	is(step($use, qr/^SELECT id/), "\n", 'and is right when it was filled again');
}
sql('UPDATE want SET document = (SELECT lo_get(document) FROM docs WHERE id = 205) WHERE id = 205');
# the last moment
write_some('lo_from_bytea(0, VALUE)', 90);
my $numbers = sql(q{SELECT string_agg(document::text, ', ') FROM docs});
step($use, qr/^BEGIN/);
same_bytes('in use');
step($use, qr/^DO/);
is(sql("SELECT count(*) FROM pg_largeobject_metadata WHERE oid IN ($numbers)"), 0, 'no object of the table is left');
same_bytes('the objects are gone');
sound($node, 'docs', 'from objects', column => 'document');

# ---- partitioned tables ----

# The want table has no year: that of docs says in which partition a row is.
sub begin_parts
{
	begin('DROP TABLE IF EXISTS docs');
	sql('CREATE TABLE docs (id int, year int DEFAULT 2025, document bytea, PRIMARY KEY (id, year)) PARTITION BY LIST (year)', 'CREATE TABLE docs_2025 PARTITION OF docs FOR VALUES IN (2025)',
		'CREATE TABLE docs_2026 (gone int, document bytea, year int NOT NULL, id int NOT NULL)', 'ALTER TABLE docs_2026 DROP gone', 'ALTER TABLE docs ATTACH PARTITION docs_2026 FOR VALUES IN (2026)',
		'INSERT INTO docs SELECT id, 2025 + id % 2, document FROM want');
	return;
}

# Writers, who also move rows from one partition to another.
sub write_parts
{
	my ($id) = @_;
	my $other = $id + 1;
	sql("UPDATE want SET document = blob($id, 4000) WHERE id = $id", "UPDATE docs SET document = blob($id, 4000), year = 4051 - year WHERE id = $id",
		"UPDATE docs SET year = 4051 - year WHERE id = $other", "INSERT INTO want VALUES ($id + 400, blob($id, 100))", "INSERT INTO docs (id, document) VALUES ($id + 400, blob($id, 100))");
	return;
}

begin_parts();
fails_with($node, q{CALL securefile_migrate('docs', 'document')}, '42809', 'doc/migrating.md', 'the procedure names this page');
step('Partitions, with a lock', qr/^ALTER TABLE/);
same_bytes('partitions, with a lock');

begin_parts();
sql('ALTER TABLE docs ADD CHECK (length(document) <> 1), ADD CONSTRAINT "<" CHECK (length(document) < 5000000)', 'GRANT SELECT (document) ON docs TO clerk', 'GRANT UPDATE (document) ON docs_2026 TO clerk WITH GRANT OPTION',
	q{COMMENT ON COLUMN docs_2025.document IS '100% of 2025'}, 'ALTER TABLE ONLY docs_2026 ALTER document SET STATISTICS 55');
my $parts_have = q{SELECT attrelid::regclass, attstattarget, col_description(attrelid, attnum), attacl FROM pg_attribute WHERE attrelid::regclass::text ~ '^docs(_20..)?$' AND attname = 'document' ORDER BY 1};
$had = sql($parts_have);
like($had, qr/docs_2025\|[^\n]*100% of.*docs_2026\|55[^\n]*clerk=w\*/s, 'partitions have their own');
my $plain = 'bytea, by plain SQL';
my $parts = 'Partitions, by plain SQL';
$taken{$plain} = 0;
step($plain, qr/^ALTER TABLE docs ADD/);
step($plain, qr/^CREATE FUNCTION docs_follow/);
write_parts(20);
# a batch waits for a row that a writer moves
my ($mover, $filler) = (background($node), background($node));
$mover->query_safe('BEGIN; UPDATE docs SET year = 4051 - year WHERE id = 30');
ok(waits_for_lock($node, $filler, $steps{$parts}[0] =~ s/;\s*\z//r), 'a batch waits');
$mover->query_safe('COMMIT');
$filler->query('SELECT');
is(sql('SELECT count(*) FROM docs WHERE document_new IS NULL AND document IS NOT NULL'), 0, 'and all rows are filled');
step($parts, qr/^DO/);
$taken{$plain}++;
write_parts(60);
is(step($plain, qr/^SELECT id/), "\n", 'no row of a partition differs');
step($plain, qr/^SELECT format/, gexec => 1);
step($parts, qr/^SELECT format/, gexec => 1);
step($parts, qr/^CREATE INDEX CONCURRENTLY/);
# NOT NULL, which the column has not
$taken{$plain}++;
$checks = checks(step($plain, qr/^SELECT format/));
$steps{$plain}[ $taken{$plain} ] =~ s/^ALTER TABLE docs [^\n]*(NOT NULL|is_there);\n//mg;
step($plain, qr/^BEGIN/, before_commit => $checks);
same_bytes('partitions in use');
is(sql($parts_have), $had, 'each has what it had');
is(sql(q{SELECT indisvalid FROM pg_index WHERE indexrelid = 'docs_new'::regclass}), 't', 'the index is one of all partitions');
fails_with($node, "INSERT INTO docs (id, year, document) VALUES (999, $_, 'x')", '23514', 'check constraint', "a CHECK constraint in $_") foreach 2025, 2026;
sound($node, $_, $_, column => 'document') foreach 'docs_2025', 'docs_2026';
$_->quit foreach $mover, $filler;

# large objects of partitions
begin_parts();
sql('ALTER TABLE docs RENAME document TO gone', 'ALTER TABLE docs ADD document oid', 'UPDATE docs SET document = lo_from_bytea(0, gone) WHERE gone IS NOT NULL', 'ALTER TABLE docs DROP gone');
$use = 'Large objects, by plain SQL';
$taken{$use} = 0;
step($use, qr/^ALTER TABLE docs ADD/);
step($use, qr/^CREATE FUNCTION docs_follow/);
step($use, qr/^DO/);
sql('UPDATE docs SET year = 4051 - year WHERE id IN (31, 205)');
is(sql('SELECT string_agg(id::text, $$ $$ ORDER BY id) FROM docs WHERE document_new IS NULL'), '7 31 205', 'rows that move are to be filled again');
$taken{$use}--;
step($use, qr/^DO/);
is(step($use, qr/^SELECT id/), "\n", 'no object of a partition differs');
sql(q{UPDATE docs SET document = lo_from_bytea(0, 'new') WHERE id = 40}, q{UPDATE want SET document = 'new' WHERE id = 40});
step($use, qr/^BEGIN/);
same_bytes('objects of partitions');
step($use, qr/^DO/);
sound($node, $_, $_, column => 'document') foreach 'docs_2025', 'docs_2026';

# ---- subscribers ----
begin($bytea);
sql('CREATE DATABASE elsewhere', 'CREATE PUBLICATION docs_pub FOR TABLE docs', q{SELECT pg_create_logical_replication_slot('docs_sub', 'pgoutput')});
my $there = sub { return $node->safe_psql('elsewhere', $_[0]) };
$there->('CREATE TABLE docs (id int PRIMARY KEY, document bytea)');
$there->('CREATE SUBSCRIPTION docs_sub CONNECTION $$' . $node->connstr('postgres') . '$$ PUBLICATION docs_pub WITH (create_slot = false, slot_name = docs_sub)');
my $here = q{SELECT md5(string_agg(id || ' ' || encode(document::bytea, 'hex'), ',' ORDER BY id)) FROM docs};
my $arrives = sub
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($node->poll_query_until('elsewhere', $here, sql($here)), "$_[0]: the subscriber has the same bytes");
};
$arrives->('before');
fails_with($node, q{CALL securefile_migrate('docs', 'document')}, '2BP01', 'publication docs_pub.*published => true', 'a published table');
step('Subscribers', qr/^ALTER TABLE docs ADD/, db => 'elsewhere');
step('Subscribers', qr/^CALL/);
write_some('VALUE', 10);
$arrives->('afterwards');
step('Subscribers', qr/^ALTER TABLE docs DROP/, db => 'elsewhere');
write_some('VALUE', 60);
$arrives->('without the column');
$there->('ALTER SUBSCRIPTION docs_sub DISABLE; ALTER SUBSCRIPTION docs_sub SET (slot_name = NONE); DROP SUBSCRIPTION docs_sub');
sql(q{SELECT pg_drop_replication_slot('docs_sub') FROM pg_replication_slots WHERE NOT active}, 'DROP PUBLICATION docs_pub');

# ---- and back ----
begin($objects);
sql(q{ALTER TABLE docs ALTER document TYPE securefile USING lo_get(document)});
is(step('To large objects', qr/^ALTER TABLE docs ADD document_new oid/), "\n", 'objects are made');
is(step('To large objects', qr/^SELECT id/), "\n", 'no row differs');
step('To large objects', qr/^ALTER TABLE docs DROP document/);
same_bytes('back to large objects', 'lo_get(docs.document)');

# ---- files and URLs ----
my %files = map { $_->[0] => $_->[1] } split_rows(sql(q{SELECT id, encode(document, 'hex') FROM want WHERE document IS NOT NULL}));
write_file("srv/files/$_.bin", pack 'H*', $files{$_}) for keys %files;

sub split_rows { return map { [ split /\|/ ] } split /\n/, $_[0]; }

sub begin_paths
{
	my ($column, $text) = @_;
	sql('DROP TABLE docs', "CREATE TABLE docs AS SELECT id, CASE WHEN document IS NOT NULL THEN $text END AS $column FROM want", 'ALTER TABLE docs ADD PRIMARY KEY (id)');
	return;
}
begin_paths('path', q{id || '.bin'});
step('Files beside the database', qr/^ALTER TABLE docs ADD document securefile/);
step('Keep it in step', qr/^CREATE FUNCTION/);
like(step('Run it', qr/--dry-run/), qr/^ +@{[ scalar keys %files ]} files to store/m, 'the report');
step('Run it', qr/-j 8/);
# another path: the document of the old one goes
sql(q{UPDATE docs SET path = '2.bin' WHERE id = 1; UPDATE want SET document = (SELECT document FROM want WHERE id = 2) WHERE id = 1});
is(sql('SELECT document IS NULL FROM docs WHERE id = 1'), 't', 'a path that changes takes the document away');
like(step('Run it', qr/--verify/), qr/1 put, @{[ scalar keys %files ]} same/, 'and the next run stores the other one');
is(step('Run it', qr/^SELECT count/), "0\n", 'nothing is left to do');
same_bytes('files');
step('Run it', qr/^DROP TRIGGER/);
same_bytes('files, without their paths');

step('To files', qr/^ALTER TABLE docs ADD path/);
step('To files', qr/export/);
like(step('To files', qr/verify/), qr/@{[ scalar keys %files ]} same/, 'files again');
is(slurp('srv/copy/0/205.bin'), pack('H*', $files{205}), 'with the bytes of the table');
step('To files', qr/^ALTER TABLE docs DROP document/);

sql('DELETE FROM want', 'INSERT INTO want SELECT i FROM generate_series(1, 4) i');
begin_paths('path', 'NULL::text');
sql('ALTER TABLE docs RENAME path TO url', map { "UPDATE docs SET url = '$url/bytes/$_/" . $_ * 3000 . "' WHERE id = $_",
		"UPDATE want SET document = decode('" . unpack('H*', bytes($_, $_ * 3000)) . "', 'hex') WHERE id = $_" } 1 .. 4);
step('URLs', qr/^ALTER TABLE/);
step('URLs', qr/--max-size/);
same_bytes('URLs');

# ---- nothing of the page was left out ----
is(join(', ', grep { ($taken{$_} // 0) != @{ $steps{$_} || [] } } @sections), '', 'every step of the page was taken');

done_testing();
