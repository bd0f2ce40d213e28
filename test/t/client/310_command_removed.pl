# securefile removed, undelete and purge: what a retention keeps is listed as the server lists it, and by
# patterns and times; it comes back into its row, a new one, or a file, chosen by time and transaction, and
# no file that a row has now is lost without --replace; a purge ends it; keys of several columns, and none;
# rows that cannot be made again; rights, row security, wrong usage.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('command_removed', conf => [ 'securefile.monitor = off', 'autovacuum = off', 'timezone = UTC' ]);
enter($node);

my $kept = q{securefile(disable_storage_in_row, 'retention 7 days', 'max_size 1 GB')};

# What the server lists, as objects.
sub listed
{
	my ($table, $column) = @_;
	return objects(sql(qq{SELECT to_jsonb(r) - 'document' FROM securefile_removed('$table', '$column') r}));
}

# What a document of a table is.
sub text_of
{
	my ($name, $table) = @_;
	return sql("SELECT convert_from(document::bytea, 'UTF8') FROM " . ($table // 'docs') . " WHERE name = '$name'");
}

# ---- the list ----

sql("CREATE TABLE docs (name text PRIMARY KEY, note text DEFAULT 'new', mtime timestamptz, mode int, link_target text, document $kept)",
	q{INSERT INTO docs SELECT n, 'old', now(), 7, 'there', convert_to(n || ', first', 'UTF8') FROM unnest(ARRAY['a.txt', 'b.txt', 'c.txt', E'd e\nf', 'stays']) n},
	q{UPDATE docs SET document = 'a.txt, second' WHERE name = 'a.txt'}, q{UPDATE docs SET document = 'a.txt, third' WHERE name = 'a.txt'},
	q{UPDATE docs SET document = NULL WHERE name = 'b.txt'}, q{DELETE FROM docs WHERE name IN ('c.txt', E'd e\nf')}, q{INSERT INTO docs (name, document) VALUES ('.securefile-part/9-1.000000000/x', 'part')},
	q{DELETE FROM docs WHERE name LIKE '.securefile%'});
my @server = listed('docs', 'document');
is(scalar @server, 6, 'the server lists six values');
my @command = objects(ends(0, qr/\A\{"name":"a\.txt","removed_at":/, 'as objects', 'removed', '-t', 'docs', '--json'));
is_deeply([ map { my %r = %$_; is(delete $r{name}, $r{row_key}{name}, 'the name is that of the key'); delete $r{removed_at}; \%r } @command ],
	[ map { my %r = %$_; delete $r{removed_at}; $r{xid} += 0; \%r } grep { $_->{row_key}{name} !~ /^\.securefile/ } @server ],
	'are those of the server, without the file that was not complete');
is(sql("SELECT string_agg((removed_at = '$_->{removed_at}')::text, ' ') FROM securefile_removed('docs', 'document') WHERE xid = '$_->{xid}'") =~ s/ true//r, 'true', 'the time is the exact one') foreach @command[ 0 .. 1 ];
my ($first, $second) = @command;
my $time = qr/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00/;
ends(0, qr/\A$time  replaced              12  a\.txt\n$time  replaced              13  a\.txt\n$time  replaced              12  b\.txt\n$time  deleted               12  c\.txt\n$time  deleted               12  d e\\nf\n\z/,
	'as lines, the oldest first', 'removed', '-t', 'docs', '-c', 'document');
ends(0, qr/\A$time  $first->{xid}  replaced        12 bytes  a\.txt\n$time  $second->{xid}  replaced        13 bytes  a\.txt\ntotal of 2 values, 25 bytes\n\z/,
	'with transactions, units and a sum, by a pattern', 'removed', '-t', 'docs', '--long', '--human', '--total', 'a.t?t');
ends(0, qr/\A\{.*\}\n\{"summary":"removed","files":2,"bytes":25\}\n\z/s, 'a sum as an object', 'removed', '-t', 'docs', '--json', '--total', 'a*');
is(scalar(my @since = objects(ends(0, qr/./, 'since a time', 'removed', '-t', 'docs', '--json', '--since', $second->{removed_at}))), 4, 'the first one is left out, and that of the time is not');
ends(0, qr/\A\z/, 'nothing since tomorrow', 'removed', '-t', 'docs', '--since', 'tomorrow');
ends(0, qr/\A\z/, 'a backslash makes an asterisk one', 'removed', '-t', 'docs', '\\*');
ends(3, qr/invalid input syntax for type timestamp/, 'no time', 'removed', '-t', 'docs', '--since', 'soon');

# ---- back into the table ----

ends(1, qr/\Asecurefile: a\.txt: the row has a file\nHint: --replace replaces it\.\n.*1 failed/s, 'what a row has now is not replaced', 'undelete', '-t', 'docs', 'a.txt');
is(text_of('a.txt'), 'a.txt, third', 'and stays');
ends(0, qr/\Aput b\.txt\nput c\.txt\nsecurefile: undelete \(dry run\): 2 put; 24 bytes/, 'a dry run', 'undelete', '-t', 'docs', '-n', 'b.txt', 'c.txt');
is(sql(q{SELECT count(*) FROM docs WHERE document IS NULL}) . sql(q{SELECT count(*) FROM docs WHERE name = 'c.txt'}), '10', 'changes nothing');
ends(0, qr/\A\{"name":"b\.txt","action":"put","length":12\}\n\{"name":"c\.txt","action":"put","length":12\}\n\{"summary":"undelete","put":2,"replaced":0,/,
	'a row without a file, and one that is gone', 'undelete', '-t', 'docs', '--json', 'b.txt', 'c.txt');
is(text_of('b.txt') . '; ' . text_of('c.txt'), 'b.txt, first; c.txt, first', 'have it again');
is(sql(q{SELECT string_agg(concat_ws(' ', name, note, mtime IS NULL, mode, link_target), ', ' ORDER BY name) FROM docs WHERE name IN ('b.txt', 'c.txt')}),
	'b.txt old t 7, c.txt new t', 'other columns stay, or get defaults; the time of other bytes goes');
is(sql(q{SELECT securefile_check('docs', 'document')}), '', 'the column is sound');
sql(q{DELETE FROM docs WHERE name = 'c.txt'});
ends(0, qr/\Askipped a\.txt\nskipped b\.txt\nput c\.txt\nput d e\\nf\nsecurefile: undelete: 2 put, 2 skipped;/, 'a pattern: what is missing', 'undelete', '-v', '-t', 'docs', '*');
is(sql(q{SELECT count(*) FROM docs WHERE document::bytea = convert_to(name || ', first', 'UTF8')}), 4, 'is there');
ends(1, qr/no removed value of that key\n/, 'a key of which nothing is kept', 'undelete', '-t', 'docs', 'stays');
ends(1, qr/no removed value of that key, and none that matches\n/, 'a pattern likewise', 'undelete', '-t', 'docs', 'z*');
ends(1, qr/names that begin with/, 'a file that was not complete', 'undelete', '-t', 'docs', '.securefile-part/9-1.000000000/x');

# of several values
ends(0, qr/\Areplaced a\.txt\n/, 'the newest', 'undelete', '-v', '-t', 'docs', '--replace', 'a.txt');
is(text_of('a.txt'), 'a.txt, second', 'is the one before');
ends(0, qr/\Areplaced a\.txt\n/, 'that of a transaction', 'undelete', '-v', '-t', 'docs', '--force', '--xid', $first->{xid}, 'a.txt');
is(text_of('a.txt'), 'a.txt, first', 'is that one');
sql(qq{UPDATE docs SET document = 'a.txt, $_' WHERE name = 'a.txt'}) foreach qw(fourth fifth);
ends(0, qr/1 replaced/, 'that which the row had at a time', 'undelete', '-t', 'docs', '--replace', '--at', $second->{removed_at}, '{"name":"a.txt"}');
is(text_of('a.txt'), 'a.txt, second', 'was removed then; the key may be an object');
ends(0, qr/1 replaced/, 'and earlier', 'undelete', '-t', 'docs', '--replace', '--at', 'yesterday', 'a.txt');
is(text_of('a.txt'), 'a.txt, first', 'the one that was removed first');
ends(1, qr/no removed value of that key since that time by that transaction\n/, 'neither', 'undelete', '-t', 'docs', '--at', 'tomorrow', '--xid', '1', 'a.txt');
ends(1, qr/invalid input syntax for type timestamp/, 'no time', 'undelete', '-t', 'docs', '--at', 'then', 'a.txt');

# ---- into a file ----

ends(0, qr/\Aa\.txt, second\z/, 'to standard output', 'undelete', '-t', 'docs', '--to', '-', '--xid', $second->{xid}, 'a.txt');
ends(0, qr/\A\{"name":"a\.txt","action":"got","length":12\}\n\z/, 'to a file', 'undelete', '--json', '-q', '-t', 'docs', '--to', 'copy', '--at', 'yesterday', 'a.txt');
holds('copy', 'a.txt, first', 'which has it');
ends(1, qr/could not write "copy": it exists already\nHint: --replace/, 'a file that exists', 'undelete', '-t', 'docs', '--to', 'copy', 'a.txt');
ends(0, qr/\A\z/, 'is replaced', '-q', 'undelete', '-t', 'docs', '--to', 'copy', '--replace', '--xid', $second->{xid}, 'a.txt');
holds('copy', 'a.txt, second', 'then');
mkdir 'dir';
ends(0, qr/\A\z/, 'to a directory', '-q', 'undelete', '-t', 'docs', '--to', 'dir', 'b.txt');
holds('dir/b.txt', 'b.txt, first', 'under its name');
ends(1, qr/no removed value of that key\n/, 'a pattern is none', 'undelete', '-t', 'docs', '--to', 'none', 'b*');
is((-e 'none' ? 1 : 0) . temporaries('.'), '00', 'and leaves no file');
sql("CREATE TABLE long (name int PRIMARY KEY, document $kept)", 'INSERT INTO long VALUES (1, blob(1, 3000000))', 'DELETE FROM long');
ends(0, qr/\A\z/, 'a long one', '-q', 'undelete', '-t', 'long', '--to', 'long', '1');
ends(0, qr/\A\z/, 'and into the table', '-q', 'undelete', '-t', 'long', '1');
ends(0, qr/\A\z/, 'as it came', '-q', 'get', '-t', 'long', '1', 'stored');
is(sql('SELECT document::bytea = blob(1, 3000000) FROM long') . (slurp_file('long') eq slurp_file('stored') ? 't' : 'f'), 'tt', 'is right in both');

# ---- other keys ----

sql(qq{CREATE TABLE two (a int, "b ""c" text, "doc 1" $kept, other securefile, PRIMARY KEY (a, "b ""c"))}, q{INSERT INTO two VALUES (1, E'x "\\\\', 'one'), (2, 'y', 'two')}, 'DELETE FROM two');
ends(3, qr/several securefile columns\nHint: Say with -c which one/, 'two columns', 'removed', '-t', 'two');
ends(0, qr/"name":"\{\\"a\\": 2, \\"b \\\\\\"c\\": \\"y\\"\}".*"row_key":\{"a":2,"b \\"c":"y"\}\}$/m, 'a key of two columns', 'removed', '-t', 'two', '-c', 'doc 1', '--json');
ends(0, qr/1 put/, 'as an object', 'undelete', '-t', 'two', '-c', 'doc 1', q({"b \"c":"x \"\\\\","a":1}));
ends(0, qr/1 put, 1 skipped/, 'and a pattern', 'undelete', '-t', 'two', '-c', 'doc 1', '*"a": *');
is(sql(q{SELECT string_agg(a || "b ""c" || convert_from("doc 1"::bytea, 'UTF8'), ', ' ORDER BY a) FROM two}), '1x "\\one, 2ytwo', 'both rows are there');
sql("CREATE TABLE numbers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name int DEFAULT 7, document $kept)", q{INSERT INTO numbers (document) VALUES ('one')}, 'DELETE FROM numbers');
ends(0, qr/1 put/, 'a key that the server makes', 'undelete', '-t', 'numbers', '1');
is(sql('SELECT id FROM numbers'), 1, 'is the old one');
sql('ALTER TABLE numbers RENAME id TO nr');
ends(1, qr/1: the table has another primary key now/, 'another key since then', 'undelete', '-t', 'numbers', '1');
sql("CREATE TABLE keyless (document $kept)", q{INSERT INTO keyless VALUES ('x')}, 'DELETE FROM keyless');
ends(0, qr/  deleted                1  -\n\z/, 'no key', 'removed', '-t', 'keyless');
ends(0, qr/\A\{"name":null,.*"row_key":null\}\n\z/, 'as an object', 'removed', '-t', 'keyless', '--json');
ends(3, qr/has no primary key, by which/, 'is not found by one', 'undelete', '-t', 'keyless', 'x');
sql("CREATE TABLE parts (name int PRIMARY KEY, document $kept) PARTITION BY RANGE (name)", 'CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (9)', 'CREATE TABLE high PARTITION OF parts FOR VALUES FROM (9) TO (99)',
	q{INSERT INTO parts VALUES (1, 'one'), (10, 'ten')}, 'DELETE FROM parts');
ends(0, qr/2 put/, 'of partitions', 'undelete', '-t', 'parts', '1', '10');
is(text_of(1, 'low') . text_of(10, 'high'), 'oneten', 'each in its own');

# ---- rows that cannot be made ----

sql("CREATE TABLE strict (name text PRIMARY KEY, owner text NOT NULL, document $kept)", q{INSERT INTO strict VALUES ('a', 'me', 'a1'), ('b', 'me', 'b1')}, q{UPDATE strict SET document = 'a2' WHERE name = 'a'}, q{DELETE FROM strict WHERE name = 'b'});
ends(1, qr/b: null value in column "owner".*Hint: Other columns than the key are not kept\. .* INSERT INTO public\.strict \(\.\.\) SELECT/s, 'a column without a default', 'undelete', '-t', 'strict', 'b');
ends(1, qr/"action":"failed","message":"null value .*"sqlstate":"23502"/, 'as an object', 'undelete', '-t', 'strict', '--json', 'b');
ends(0, qr/1 replaced/, 'matters to no row that is there', 'undelete', '-t', 'strict', '--replace', 'a');
is(text_of('a', 'strict'), 'a1', 'which has its file');
ends(1, qr/1 failed/, 'a pattern is one statement', 'undelete', '-t', 'strict', '--replace', '*');
is(text_of('a', 'strict'), 'a1', 'all or nothing');
sql('ALTER TABLE strict ALTER owner DROP NOT NULL', q{CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'}, 'CREATE TRIGGER nothing BEFORE INSERT OR UPDATE ON strict FOR EACH ROW EXECUTE FUNCTION nothing()');
ends(1, qr/b: the statement stored no row/, 'a trigger that takes the row away', 'undelete', '-t', 'strict', 'b');
ends(1, qr/a: the statement stored no row/, 'or leaves it as it is', 'undelete', '-t', 'strict', '--replace', 'a');
sql('CREATE TABLE plain (name text PRIMARY KEY, document securefile)', q{INSERT INTO plain VALUES ('x', 'x')}, 'DELETE FROM plain');
ends(0, qr/\Asecurefile: column document of public\.plain has no retention, and keeps nothing/, 'a column without a retention', 'removed', '-t', 'plain');
ends(0, qr/\A\z/, 'quietly', '-q', 'removed', '-t', 'plain');
ends(1, qr/no removed value of that key\nHint: The column has no retention/, 'has nothing to bring back', 'undelete', '-t', 'plain', 'x');

# ---- the extension elsewhere ----

sql('CREATE DATABASE other');
$node->safe_psql('other', qq{CREATE SCHEMA "Odd %s"; CREATE EXTENSION securefile SCHEMA "Odd %s"; SET search_path = public, "Odd %s";
	CREATE TABLE "T 1" (name text PRIMARY KEY, document $kept); INSERT INTO "T 1" VALUES ('x', 'x'); DELETE FROM "T 1"});
ends(0, qr/  x\n\z/, 'another schema', 'removed', '-d', 'other', '-t', '"T 1"');
ends(0, qr/1 put/, 'undelete', 'undelete', '-d', 'other', '-t', '"T 1"', 'x');
ends(0, qr/[1-9][0-9]* bytes became free/, 'purge', 'purge', '-d', 'other', '-t', '"T 1"');

# ---- the end ----

my ($report) = objects(ends(0, qr/"report"/, 'what a purge would end', 'purge', '-t', 'long', '--dry-run', '--json'));
is_deeply($report, { report => 'purge', values => 1, bytes => 3000000, retained_bytes => sql(q{SELECT retained_bytes FROM securefile_usage('long', 'document')}) + 0 }, 'is what is listed and kept');
ends(0, qr/\A0 removed values of 0 bytes would end; in all, /, 'of yesterday', 'purge', '-t', 'long', '-n', '--older-than', '1 day');
ends(0, qr/\A0 bytes became free\n\z/, 'and indeed', 'purge', '-t', 'long', '--older-than', '1 day');
is(scalar(my @still = listed('long', 'document')), 1, 'it is there');
ends(0, qr/\A\{"summary":"purge","freed_bytes":30\d{5}\}\n\z/, 'all', 'purge', '-t', 'long', '--json');
is(scalar(my @none = listed('long', 'document')), 0, 'it is not');
ends(1, qr/no removed value of that key\n/, 'nor is it found', 'undelete', '-t', 'long', '--replace', '1');
ends(0, qr/\A[0-9.]+ kB became free\n\z|\A\d+ bytes became free\n\z/, 'as a line', 'purge', '-t', 'docs');
ends(0, qr/\A\z/, 'quietly', '-q', 'purge', '-t', 'docs');
ends(3, qr/invalid input syntax for type interval/, 'no interval', 'purge', '-t', 'docs', '--older-than', 'long');
is(sql(qq{SELECT count(*) FROM (SELECT securefile_check('docs', 'document') UNION ALL SELECT securefile_check('two', 'doc 1') UNION ALL SELECT securefile_check('long', 'document')) c}), 0, 'all is sound');

# ---- what is refused ----

sql('CREATE ROLE other LOGIN', 'GRANT ALL ON strict TO other', 'CREATE VIEW seen AS TABLE docs');
foreach my $call (['removed'], ['purge'], [ 'purge', '-n' ])
{
	my ($verb, @options) = @$call;
	ends(3, qr/must be owner of table strict/, "@$call by another role", $verb, '-t', 'strict', '-U', 'other', @options);
	ends(3, qr/"seen" is not a table/, "@$call of a view", $verb, '-t', 'seen', @options);
}
ends(1, qr/must be owner of table strict/, 'undelete by another role', 'undelete', '-t', 'strict', '-U', 'other', 'b');
ends(1, qr/must be owner of table strict/, 'to a file', 'undelete', '-t', 'strict', '-U', 'other', '--to', '-', 'b');
ends(0, qr/became free/, 'nothing is kept', 'purge', '-t', 'strict');
sql('ALTER TABLE strict OWNER TO other', 'ALTER TABLE strict ENABLE ROW LEVEL SECURITY', 'ALTER TABLE strict FORCE ROW LEVEL SECURITY');
ends(3, qr/cannot be listed under row-level security/, 'row security', 'removed', '-t', 'strict', '-U', 'other');
ends(2, qr/say with -t which table/, "$_ without a table", $_, $_ eq 'undelete' ? 'x' : ()) foreach qw(removed undelete purge);
ends(2, qr/undelete wants KEY/, 'no key', 'undelete', '-t', 'docs');
ends(2, qr/too many arguments: purge wants options only/, 'an argument', 'purge', '-t', 'docs', 'a.txt');
ends(2, qr/too many arguments: removed wants/, 'two patterns', 'removed', '-t', 'docs', 'a', 'b');
ends(2, qr/--xid wants the number/, "transaction $_", 'undelete', '-t', 'docs', '--xid', $_, 'x') foreach '0', 'x', '-1';
ends(2, qr/--to wants one key/, 'a file for two', 'undelete', '-t', 'docs', '--to', 'f', 'x', 'y');
ends(2, qr/takes no --dry-run/, 'a dry run to a file', 'undelete', '-t', 'docs', '--to', 'f', '-n', 'x');
ends(2, qr/cannot both go to standard output/, 'objects beside the file', 'undelete', '-t', 'docs', '--to', '-', '--json', 'x');
ends(2, qr/unrecognized option '--key/, "$_ knows no other names", $_, '-t', 'docs', '--key=note', $_ eq 'undelete' ? 'x' : ()) foreach qw(removed undelete purge);
ends(2, qr/purge does not take --replace/, 'an option of another verb in front', '--replace', 'purge', '-t', 'docs');

done_testing();
