# The command securefile: names that are reserved, deleted and renamed; columns that become
# null; prefixes.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('command_names');
enter($node);
sql(q{CREATE TABLE docs (name text PRIMARY KEY, document securefile, note text DEFAULT 'none')});
my @docs = ('-t', 'docs');

# ---- --set-null ----
ends(0, qr/^$/, 'put --set-null', \'a', 'put', @docs, '--set-null', 'note', '-', 'a');
ends(0, qr/^$/, 'put --set, empty', \'b', 'put', @docs, '--set', 'note=', '-', 'b');
ends(0, qr/^$/, 'put', \'c', 'put', @docs, '-', 'c');
is(sql(q{SELECT string_agg(COALESCE(note, 'null') || '.', ' ' ORDER BY name) FROM docs}), 'null. . none.', 'null, an empty text, the default');
ends(0, qr/^$/, 'put --replace --set-null', \('c' x 300_000), 'put', @docs, '--replace', '--set-null', 'note', '-', 'c');
is(sql(q{SELECT count(*) FROM docs WHERE note IS NULL AND length(document) IN (1, 300000)}), 2, 'null where it was not, of a stream, too');
ends(1, qr/note2/, 'no such column', \'d', 'put', @docs, '--set-null', 'note2', '-', 'd');

# ---- reserved names ----
my $part = '.securefile-part/9-1.000000001/part';
sql("INSERT INTO docs VALUES ('$part', 'abc'), ('.securefile-partner', 'x')");
write_file("tree/$part", 'abc');
foreach my $case ([ 'get', $part ], [ 'cat', $part ], [ 'stat', $part ], [ 'rm', $part ], [ 'verify', $part ],
	[ 'put', "tree/$part", $part ], [ 'import', 'tree' ], [ 'put', '--replace', "tree/$part", $part ])
{
	my ($verb, @args) = @$case;
	ends(1, qr/names that begin with "\.securefile-part\/" are those of files that are not complete/, "$verb @args", $verb, @docs, @args);
}
ends(2, qr/names that begin with/, "$_ --prefix", $_, @docs, '--prefix', '.securefile-part/', 'tree') foreach qw(import export);
is(sql("SELECT convert_from(document::bytea, 'UTF8') FROM docs WHERE name = '$part'"), 'abc', 'it is as it was');
ends(0, qr/\A +1  \.securefile-partner\n +1  a\n +1  b\n +300000  c\n\z/, 'ls leaves it out', 'ls', @docs);
ends(0, qr/^$/, 'and its name', 'ls', @docs, $part);
ends(0, qr/4 got/, 'export', 'export', @docs, 'out');
ok(!-e 'out/.securefile-part', 'leaves it out');
ends(0, qr/4 same/, 'verify --against, too', 'verify', @docs, '--against', 'out');

# ---- prefixes ----
write_file('dir/a.txt', 'a');
ends(0, qr/^securefile: --prefix adduser has no slash at its end: a\.txt and addusera\.txt belong together$/m, 'import', 'import', @docs, '--prefix', 'adduser', 'dir');
is(sql(q{SELECT count(*) FROM docs WHERE name = 'addusera.txt'}), 1, 'as it said');
ends(0, qr/\A(?!.*no slash).*1 put/s, 'not said of a slash', 'import', @docs, '--prefix', 'adduser/', 'dir');
ends(0, qr/^$/, 'nor with --quiet', 'export', '--quiet', @docs, '--prefix', 'addusera', 'out2');
holds('out2/.txt', 'a', 'what export did');


# ---- sums ----
ends(0, qr/\A +1  a\n +1  b\n +300000  c\n +300002  total of 3 files\n\z/, 'ls --total', 'ls', @docs, '--total', '?');
ends(0, qr/\A +1 bytes  a\n +1 bytes  b\n +300\.0 kB  c\n +300\.0 kB  total of 3 files\n\z/, 'ls --human', 'ls', @docs, '--human', '--total', '?');
ends(0, qr/\A +0  total of 0 files\n\z/, 'of nothing', 'ls', @docs, '--total', 'none');
ends(0, qr/\A +1  adduser\/a\.txt\n\z/, 'ls --prefix', 'ls', @docs, '--prefix', 'adduser/');
ends(0, qr/\A +1  addusera\.txt\n\z/, 'and a pattern', 'ls', @docs, '--prefix', 'adduser', '*ra.*');
my ($stored) = sql(q{SELECT sum((securefile_storage(document)).stored_bytes) FROM docs WHERE length(name) = 1});
my @objects = objects((command('ls', @docs, '--json', '--long', '--total', '?'))[1]);
is("@{$objects[-1]}{qw(summary files bytes stored)}", "ls 3 300002 $stored", 'ls --json --total');
like((command('stat', @docs, '--human', '--total', 'c', 'a'))[1],
	qr/^length:  300\.0 kB\nin row:  \d+ bytes\nstored:  300\.\d kB\n.*\n\nname:    a\n.*\n\nfiles:   2\nlength:  300\.0 kB\nstored:  300\.\d kB\nratio:   1\.00\n\z/ms, 'stat --human --total');
@objects = objects((command('stat', @docs, '--json', '--total', 'c', 'a'))[1]);
is("@{$objects[-1]}{qw(summary files bytes)}", 'stat 2 300001', 'stat --json --total');

# ---- rm ----

# The names that there are but the reserved one, as one text.
sub names { return sql("SELECT string_agg(name, ' ' ORDER BY name COLLATE \"C\") FROM docs WHERE name <> '$part'"); }

sub fill_docs
{
	sql("DELETE FROM docs WHERE name <> '$part'");
	sql("INSERT INTO docs SELECT unnest(ARRAY[" . join(',', map { "'$_'" } @_) . "]), 'abc'");
	return;
}

fill_docs(qw(dir/a dir/b dir/c.txt other st*r star x1 x2));
sql(q{INSERT INTO docs VALUES ('dir/null', NULL)});
ends(0, qr/\Aremoved dir\/a\nremoved dir\/b\nremoved dir\/c\.txt\nsecurefile: rm \(dry run\): 3 removed in/, 'rm --dry-run', 'rm', @docs, '--dry-run', 'dir/*');
is(names(), 'dir/a dir/b dir/c.txt dir/null other st*r star x1 x2', 'removes nothing');
ends(0, qr/\Asecurefile: rm: 1 removed in/, 'rm of a name that could be a pattern', 'rm', @docs, 'st*r');
is(names(), 'dir/a dir/b dir/c.txt dir/null other star x1 x2', 'removes that file');
ends(0, qr/\Asecurefile: rm: 1 removed in/, 'then it is a pattern', 'rm', @docs, 'st*r');
ends(0, qr/\Asecurefile: rm: 3 removed in/, 'patterns and names', 'rm', @docs, 'x?', 'dir/a');
ends(1, qr/^securefile: \*\.pdf: no file of that name, and none that matches\nsecurefile: rm: 1 failed/, 'nothing matches', 'rm', @docs, '*.pdf');
ends(1, qr/^securefile: dor\/: no name begins so$/m, 'no such prefix', 'rm', @docs, '--prefix', 'dor/');
ends(0, qr/1 removed/, 'a prefix and a pattern', 'rm', @docs, '--prefix', 'dir/', '*.txt');
ends(2, qr/wants a text/, 'an empty prefix', 'rm', @docs, '--prefix', '');
is(names(), 'dir/b dir/null other', 'what is left');
ends(0, qr/\Aremoved dir\/b\n/, 'rm --prefix', 'rm', '-v', @docs, '--prefix', 'dir/');
is(names(), 'dir/null other', 'a row without a file stays');
ends(0, qr/1 removed/, 'its name', 'rm', @docs, 'dir/null');
ends(0, qr/1 removed/, 'all', 'rm', @docs, '*');
is(sql('SELECT count(*) FROM docs'), 1, 'but what is not complete');

# one statement, so all or none
sql(q{CREATE TABLE refers (name text REFERENCES docs)});
fill_docs(qw(p/1 p/2 p/3));
sql(q{INSERT INTO refers VALUES ('p/3')});
ends(1, qr/^securefile: p\/: .*violates foreign key/m, 'one cannot be removed', 'rm', @docs, '--prefix', 'p/');
is(names(), 'p/1 p/2 p/3', 'none is');
sql('DROP TABLE refers');
my ($summary) = grep { exists $_->{summary} } objects((command('rm', '--json', @docs, 'p/*'))[1]);
is("@$summary{qw(summary removed failed)}", 'rm 3 0', 'the count as JSON');
sql(q{CREATE TABLE numbers (id int PRIMARY KEY, document securefile); INSERT INTO numbers SELECT i, 'x' FROM generate_series(8, 11) i});
ends(0, qr/2 removed/, 'a pattern for numbers', 'rm', '-t', 'numbers', '1?');

# ---- mv and cp ----
fill_docs(qw(a dir/b old/x old/y old/z/w oldest new/q));
sql(q{UPDATE docs SET note = 'of ' || name});
ends(0, qr/\Asecurefile: mv: 1 moved in/, 'mv', 'mv', @docs, 'a', 'b');
is(sql(q{SELECT note || length(document) FROM docs WHERE name = 'b'}), 'of a3', 'the row is the same');
ends(0, qr/\Acopied dir\/b2\n/, 'cp -v', 'cp', '-v', @docs, 'b', 'dir/b2');
is(sql(q{SELECT string_agg(name || note || length(document), ' ' ORDER BY name) FROM docs WHERE name IN ('b', 'dir/b2')}), 'bof a3 dir/b2of a3', 'with the other columns');
ends(0, qr/\Acopied elsewhere\/b\n/, 'into a directory', 'cp', '-v', @docs, 'dir/b', 'elsewhere/');
foreach my $verb (qw(mv cp))
{
	ends(1, qr/^securefile: none: no file of that name/, "$verb: no file", $verb, @docs, 'none', 'n');
	ends(1, qr/^securefile: no\/: no name begins so/, "$verb: no prefix", $verb, @docs, '--prefix', 'no/', 'n');
	ends(1, qr/^securefile: b: a file of the name "dir\/b" is stored already\nHint: --replace/, "$verb: taken", $verb, @docs, 'b', 'dir/b');
	ends(1, qr/the new name is the old one/, "$verb: the same", $verb, '--replace', @docs, 'b', 'b');
	ends(1, qr/not complete/, "$verb: a reserved name", $verb, @docs, 'b', '.securefile-part/b');
	ends(1, qr/not complete/, "$verb: of a reserved name", $verb, @docs, $part, 'p');
	ends(1, qr/refused/, "$verb: a name that export refuses", $verb, @docs, 'b', '../b');
	ends(1, qr/refused/, "$verb: one of several", $verb, @docs, '--prefix', 'old/', '/');
	ends(2, qr/$verb wants/, "$verb: one name", $verb, @docs, 'b');
	ends(2, qr/too many/, "$verb: a name too many", $verb, @docs, '--prefix', 'b', 'c', 'd');
}
is(names(), 'b dir/b dir/b2 elsewhere/b new/q old/x old/y old/z/w oldest', 'nothing was done');
ends(0, qr/\Amoved new\/x\nmoved new\/y\nmoved new\/z\/w\nsecurefile: mv \(dry run\): 3 moved/, 'mv --dry-run', 'mv', @docs, '--dry-run', '--prefix', 'old/', 'new/');
sql(q{INSERT INTO docs VALUES ('new/y', 'there', 'taken')});
ends(1, qr/^securefile: old\/: a file of the name "new\/y" is stored already/, 'one is taken', $_, @docs, '--prefix', 'old/', 'new/') foreach qw(mv cp);
is(names(), 'b dir/b dir/b2 elsewhere/b new/q new/y old/x old/y old/z/w oldest', 'nothing was done');
ends(0, qr/\Asecurefile: cp: 3 copied/, 'cp --prefix --replace', 'cp', @docs, '--replace', '--prefix', 'old/', 'new/');
is(sql(q{SELECT note FROM docs WHERE name = 'new/y'}), 'of old/y', 'the row was replaced');
ends(0, qr/\Asecurefile: mv: 3 moved/, 'mv --prefix --replace', 'mv', @docs, '--replace', '--prefix', 'old/', 'new/');
is(names(), 'b dir/b dir/b2 elsewhere/b new/q new/x new/y new/z/w oldest', 'all of them');
ends(0, qr/4 moved/, 'into itself', 'mv', @docs, '--prefix', 'new/', 'new/er/');
ends(0, qr/4 moved/, 'and back', 'mv', @docs, '--prefix', 'new/er/', 'new/');
ends(0, qr/9 copied/, 'of all', 'cp', @docs, '--prefix', '', 'all/');
is(sql(q{SELECT count(*) || ' ' || sum(length(document)) FROM docs WHERE name LIKE 'all/%'}), '9 27', 'they are there');
ends(0, qr/1 moved/, 'mv --replace', 'mv', @docs, '--replace', 'b', 'dir/b');
is(sql(q{SELECT note FROM docs WHERE name = 'dir/b'}), 'of a', 'the file that was moved');
is(sql("SELECT convert_from(document::bytea, 'UTF8') FROM docs WHERE name = '$part'"), 'abc', 'what is not complete was left alone');

# bytes that lie in the segment
my $long = bytes(3, 300_000);
command(\$long, 'put', @docs, '-', 'long');
command('cp', @docs, 'long', 'long2');
command('mv', @docs, 'long', 'long3');
is((command('cat', @docs, 'long2', 'long3'))[1], $long x 2, 'contents');

# ---- cmp ----
sub differ
{
	my ($first, $second, $byte, $name, $more) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$more //= '';
	return ends(1, qr/\A$first $second differ: byte $byte$more\n\z/, $name, 'cmp', @docs, $first, $second);
}

my $image = bytes(4, 5_000_000);
command(\$image, 'put', @docs, '-', 'image');
ends(0, qr/\A\z/, 'the same bytes', 'cmp', @docs, 'long2', 'long3');
ends(0, qr/\A\z/, 'the same file', 'cmp', @docs, 'image', 'image');
foreach my $byte (1, 2, 262_144, 1_048_576, 1_048_577, 3_145_728, 3_145_729, 4_999_999, 5_000_000)
{
	my $other = $image;
	substr($other, $_ - 1, 1) = chr(255 - ord(substr $image, $_ - 1, 1)) foreach $byte, 5_000_000;
	command(\$other, 'put', @docs, '--replace', '-', 'other');
	differ('image', 'other', $byte, "byte $byte");
}
command(\substr($image, 0, 2_000_000), 'put', @docs, '--replace', '-', 'other');
differ('image', 'other', 2_000_001, 'a file that ends', ', where the second has ended');
differ('other', 'image', 2_000_001, 'the other way round', ', where the first has ended');
command('put', @docs, '/dev/null', 'empty');
differ('empty', 'long2', 1, 'an empty one', ', where the first has ended');
ends(0, qr/\A\z/, 'two empty ones', 'cmp', @docs, 'empty', 'empty');
ends(0, qr/\A\{"name":"long2","other":"long3","same":true\}\n\z/, 'the same as JSON', 'cmp', '--json', @docs, 'long2', 'long3');
ends(1, qr/\A\{"name":"image","other":"other","same":false,"byte":2000001\}\n\z/, 'others', 'cmp', '--json', @docs, 'image', 'other');
ends(3, qr/\Asecurefile: none: no file of that name/, 'no first file', 'cmp', @docs, 'none', 'long2');
ends(3, qr/\Asecurefile: none: no file of that name/, 'no second file', 'cmp', @docs, 'long2', 'none');
ends(3, qr/not complete/, 'a reserved name', 'cmp', @docs, 'long2', $part);
ends(2, qr/cmp wants NAME NAME/, 'one name', 'cmp', @docs, 'long2');
sql(q{INSERT INTO docs VALUES ('sparse1', securefile_truncate(''::securefile, 1::bigint << 60) || 'a'), ('sparse2', securefile_truncate(''::securefile, 1::bigint << 60) || 'b')});
differ('sparse1', 'sparse2', (1 << 60) + 1, 'behind a gap of 2^60 bytes');
sql(q{CREATE TABLE compared (id int PRIMARY KEY, document securefile); INSERT INTO compared VALUES (1, 'x'), (2, 'y')});
ends(1, qr/differ: byte 1\n/, 'numbers', 'cmp', '-t', 'compared', '1', '2');
command('rm', @docs, 'image', 'other', 'empty', 'sparse1', 'sparse2');

# columns that a copy cannot take over
sql(q{CREATE TABLE rows (id serial PRIMARY KEY, name text UNIQUE, document securefile, twice int GENERATED ALWAYS AS (length(name)) STORED,
	n int GENERATED ALWAYS AS IDENTITY); INSERT INTO rows (name, document) VALUES ('a', 'abc')});
ends(0, qr/1 copied/, 'defaults and computed columns', 'cp', '-t', 'rows', '-k', 'name', 'a', 'long');
is(sql(q{SELECT string_agg(concat_ws(' ', id, name, twice, n), ', ' ORDER BY id) FROM rows}), '1 a 1 1, 2 long 4 2', 'are made anew');
sql(q{INSERT INTO rows (name) VALUES ('none')});
ends(1, qr/is stored already/, 'a row without a file', 'cp', '-t', 'rows', '-k', 'name', 'a', 'none');
ends(0, qr/1 copied/, 'is replaced', 'cp', '--replace', '-t', 'rows', '-k', 'name', 'a', 'none');
ends(0, qr/1 moved/, 'numbers', 'mv', '-t', 'numbers', '8', '108');
ends(0, qr/1 copied/, 'copies of them', 'cp', '-t', 'numbers', '9', '109');
ends(1, qr/type integer but expression is of type text/, 'have no prefixes', 'mv', '-t', 'numbers', '--prefix', '10', '20');
is(sql(q{SELECT string_agg(id::text, ' ' ORDER BY id) FROM numbers}), '9 108 109', 'numbers are there');

# a row that somebody else changes meanwhile
my $other = background($node);
$other->query_safe('BEGIN; UPDATE docs SET note = note WHERE name = \'new/x\'');
my $run = IPC::Run::start([ 'securefile', 'mv', @docs, '--prefix', 'new/', 'newer/' ], '<', '/dev/null', '>', \my $out, '2>', \my $err);
wait_for_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event_type = 'Lock'}) or die 'it does not wait';
$other->query_safe('COMMIT');
$other->quit;
ok(!$run->finish, 'a row that changes meanwhile');
like($err, qr/could not serialize access/, 'is an error');
is(sql(q{SELECT count(*) FROM docs WHERE name LIKE 'newer/%'}), 0, 'and nothing is renamed');

sound($node, 'docs', 'names', column => 'document');
$node->stop;
done_testing();
