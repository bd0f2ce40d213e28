# The command securefile: every verb, option and exit status with one file at a time;
# names, tables and columns of all kinds.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('command');
enter($node);

# ---- usage ----
ends(0, qr/^securefile \d+\.\d+\.\d+$/, '--version', '--version');
ends(0, qr/\AUsage:.*\n\n?.*\n\nVerbs.*:\n  put  .*\n  get  .*^  key .*Exit status/ms, '--help has the verbs first', '--help');
ends(0, qr/\A(?!.*--table)/s, 'and no options of verbs', '--help');
ends(2, qr/-h HOST is the server, as for psql; .* --human/, "@$_", @$_) foreach [ 'ls', '-h' ], [ 'ls', '-h', '-t', 'docs' ], [ '-h' ];
foreach my $verb (qw(put get cat ls stat rm mv cp cmp import export verify))
{
	ends(0, qr/^Usage: securefile $verb .*--table=TABLE.*--dbname=DBNAME/s, "$verb --help", $verb, '--help');
}
ends(0, qr/\A(?!.*--jobs)/s, 'a verb shows its own options only', 'put', '--help');
foreach my $args ('--help', '--version', 'put --help')
{
	is(system('bash', '-c', "securefile $args >/dev/full 2>full.err") >> 8, 1, "$args to a full device");
	like(slurp_file('full.err'), qr/^securefile: standard output: No space left on device$/, 'says so');
}
ends(2, qr/say what to do/, 'no verb');
ends(2, qr/there is no verb "frob"/, 'unknown verb', 'frob');
ends(2, qr/say with -t which table/, 'no table', 'ls');
ends(2, qr/put wants FILE/, 'no file', 'put', '-t', 'docs');
ends(2, qr/too many arguments/, 'too many arguments', 'get', '-t', 'docs', 'a', 'b', 'c');
ends(2, qr/unrecognized option/, 'unknown option', 'ls', '--frob', '-t', 'docs');
ends(2, qr/unrecognized option/, 'option of another verb', 'ls', '--replace', '-t', 'docs');
foreach my $case ([ 'get', '--dry-run' ], [ 'rm', '--replace' ], [ 'mv', '--hash' ], [ 'cp', '-l' ], [ 'put', '--against', '.' ], [ 'put', '--hash' ],
	[ 'put', '-j', 3 ], [ 'put', '--long' ], [ 'cat', '--set', 'a=b' ], [ 'stat', '--prefix', 'x' ])
{
	my ($verb, @option) = @$case;
	ends(2, qr/$verb does not take --/, "$option[0] before $verb", @option, '-t', 'docs', $verb, 'x');
	ends(2, qr/unrecognized option|invalid option/, "$option[0] behind it", $verb, @option, '-t', 'docs', 'x');
}
ends(2, qr/COLUMN=VALUE/, '--set without =', 'put', '-t', 'docs', '--set', 'x', 'file');
foreach my $jobs ('0', '65', 'x', '')
{
	ends(2, qr/number from 1 to 64/, "-j '$jobs'", 'import', '-t', 'docs', '-j', $jobs, '.');
}
ends(2, qr/has no name/, 'standard input without a name', 'put', '-t', 'docs', '-');
ends(2, qr/both go to standard output/, 'cat --json', 'cat', '--json', '-t', 'docs', 'x');

# ---- connection and target ----
ends(3, qr/relation "docs" does not exist/, 'no such table', 'ls', '-t', 'docs');
sql(q{CREATE TABLE docs (name text PRIMARY KEY, document securefile);
	CREATE TABLE plain (name text PRIMARY KEY, document bytea);
	CREATE TABLE two (name text PRIMARY KEY, a securefile, b securefile);
	CREATE TABLE keyless (name text, document securefile)});
ends(0, qr/^$/, 'an empty table', 'ls', '-t', 'docs');
ends(3, qr/"none"/, 'no such database', 'ls', '-t', 'docs', '-d', 'none');
ends(3, qr/"none" does not exist/, 'no such role', 'ls', '-t', 'docs', '-U', 'none');
ends(3, qr/could not|No such file/, 'no such host', 'ls', '-t', 'docs', '-h', '/nowhere');
ends(3, qr/could not|No such file/, 'no such port', 'ls', '-t', 'docs', '-p', '1');
ends(0, qr/^$/, 'conninfo', 'ls', '-t', 'docs', '-d', "host=$ENV{PGHOST} port=$ENV{PGPORT} dbname=postgres");
ends(0, qr/^$/, 'URI', 'ls', '-t', 'docs', '--dbname', "postgresql:///postgres?host=$ENV{PGHOST}&port=$ENV{PGPORT}");
ends(0, qr/^$/, 'options before the verb', '-t', 'docs', '-p', $ENV{PGPORT}, 'ls');
ends(3, qr/no securefile column/, 'no securefile column', 'ls', '-t', 'plain');
ends(3, qr/not of type securefile/, 'column of another type', 'ls', '-t', 'plain', '-c', 'document');
ends(3, qr/no column "x"/, 'no such column', 'ls', '-t', 'docs', '-c', 'x');
ends(3, qr/no column "x"/, 'no such key', 'ls', '-t', 'docs', '-k', 'x');
ends(3, qr/several securefile columns\nHint: .*-c/, 'two columns', 'ls', '-t', 'two');
ends(0, qr/^$/, 'one of two columns', 'ls', '-t', 'two', '-c', 'b');
ends(3, qr/no primary key of one column\nHint: .*-k/, 'no key', 'ls', '-t', 'keyless');
ends(3, qr/does not exist/, 'a number for a table', 'ls', '-t', '4000000000');
ends(3, qr/could not open directory/, 'no such directory', 'import', '-t', 'docs', 'nowhere');
sql('CREATE DATABASE bare');
ends(3, qr/does not have the extension.*CREATE EXTENSION/s, 'no extension', 'ls', '-t', 'pg_class', '-d', 'bare');

# ---- one file ----
my $report = bytes(1, 300_000);
write_file('in/report.pdf', $report);
ends(0, qr/^$/, 'put', 'put', '-t', 'docs', 'in/report.pdf');
ends(0, qr/^ +300000  report\.pdf$/, 'ls', 'ls', '-t', 'docs');
is((command('cat', '-t', 'docs', 'report.pdf'))[1], $report, 'cat');
ends(0, qr/^$/, 'get', 'get', '-t', 'docs', 'report.pdf');
holds('report.pdf', $report, 'what was got');
ends(1, qr/^securefile: report\.pdf: could not write "report\.pdf": it exists already\nHint: --replace/, 'get over a file', 'get', '-t', 'docs', 'report.pdf');
ends(1, qr/^securefile: report\.pdf: could not write "in\/report\.pdf": it exists/, 'of another name', 'get', '-t', 'docs', 'report.pdf', 'in/report.pdf');
write_file('report.pdf', 'old');
ends(0, qr/^$/, 'get --replace', 'get', '-t', 'docs', '--replace', 'report.pdf');
holds('report.pdf', $report, 'what was got with --replace');
ends(0, qr/^$/, 'get into a directory', 'get', '-t', 'docs', 'report.pdf', '.', '--replace');
mkdir 'into';
ends(0, qr/^$/, 'get under another name', 'get', '-t', 'docs', 'report.pdf', 'into/x');
holds('into/x', $report, 'what was got there');
is((command('get', '-t', 'docs', 'report.pdf', '-'))[1], $report, 'get to standard output');
ends(0, qr/^$/, 'get to a device', 'get', '-t', 'docs', 'report.pdf', '/dev/null');
ok(-c '/dev/null', 'which stays one');
ends(1, qr/could not open directory/, 'get to nowhere', 'get', '-t', 'docs', 'report.pdf', 'nowhere/x');
ends(1, qr/no file of that name/, 'get what is not there', 'get', '-t', 'docs', 'none');
ok(!-e 'none', 'leaves no file');
is(temporaries('.'), 0, 'nor a temporary one');
ends(1, qr/no file of that name/, 'cat what is not there', 'cat', '-t', 'docs', 'none');
ends(1, qr/^securefile: report.pdf: a file of that name is stored already\nHint: --replace/,
	'put over a file', 'put', '-t', 'docs', 'in/report.pdf');
write_file('in/report.pdf', $report x 5);
ends(0, qr/^$/, 'put --replace', 'put', '-t', 'docs', '--replace', 'in/report.pdf');
is((command('cat', '-t', 'docs', 'report.pdf'))[1], $report x 5, 'replaced by a longer one');
ends(0, qr/^$/, 'put under a name', 'put', '-t', 'docs', 'in/report.pdf', 'a/b/c');
ends(1, qr/could not open "nowhere"/, 'put what is not there', 'put', '-t', 'docs', 'nowhere');
ends(1, qr/is a directory\nHint: .*import/, 'put a directory', 'put', '-t', 'docs', 'in');
is((command('cat', '-t', 'docs', 'report.pdf', 'a/b/c'))[1], $report x 10, 'cat of two');
my ($rc, $out, $err) = command('cat', '-t', 'docs', 'none', 'a/b/c');
is("$rc " . length($out), '1 1500000', 'cat goes on after a failure');

# standard input, of all lengths that matter
foreach my $length (0, 1, 3999, 4000, 4001, 131_072, 131_073, 262_143, 262_144, 262_145, 3_000_001)
{
	my $content = bytes($length, $length);
	ends(0, qr/^$/, "put of $length bytes from standard input", \$content, 'put', '-t', 'docs', '-', "len$length");
	is((command('cat', '-t', 'docs', "len$length"))[1], $content, 'comes out again');
}
is(sql(q{SELECT count(*) FROM docs WHERE name LIKE 'len%' AND length(document) = substring(name FROM 4)::int}), 11, 'lengths');

# stat
my $stat = ends(0, qr/^name:    len4001\ntable:   docs\ncolumn:  document\nlength:  4001\nin row:  \d+\nstored:  4001\nratio:   1\.00\ncodec:   none\n$/,
	'stat', 'stat', '-t', 'docs', 'len4001');
my $hash = sql(q{SELECT lpad(to_hex(securefile_hash_extended(document, 0)), 16, '0') FROM docs WHERE name = 'len4001'});
ends(0, qr/^xxh3:    $hash$/m, 'stat --hash', 'stat', '--hash', '-t', 'docs', 'len4001');
ends(1, qr/length:  1\n.*\nname:    len0.*none: no file of that name/s, 'stat of some', 'stat', '-t', 'docs', 'len1', 'none', 'len0');
my ($object) = objects((command('stat', '--json', '--hash', '-t', 'docs', 'len4001'))[1]);
is("@$object{qw(name table column length xxh3)}", "len4001 docs document 4001 $hash", 'stat --json');

# ls
ends(0, qr/^ +4000  len4000\n +4001  len4001\n$/, 'ls with *', 'ls', '-t', 'docs', 'len400*');
ends(0, qr/^ +0  len0\n +1  len1\n$/, 'ls with ?', 'ls', '-t', 'docs', 'len?');
ends(0, qr/^ +1500000  a\/b\/c\n$/, 'ls: * and slashes', 'ls', '-t', 'docs', 'a*c');
ends(0, qr/^$/, 'ls: no match', 'ls', '-t', 'docs', 'len40');
is(join(' ', map { "$_->{name}=$_->{length}" } objects((command('ls', '--json', '-t', 'docs', 'len?'))[1])),
	'len0=0 len1=1', 'ls --json');

# what is stored: ls --long, stat
sql(q{CREATE TABLE packed ("length" text PRIMARY KEY, document securefile(compress));
	CREATE VIEW made AS SELECT "length" AS name, document || '\x00'::bytea AS document FROM packed});
ends(0, qr/^$/, 'put of runs', \('x' x 300_000), 'put', '-t', 'packed', '-', 'runs');
ends(0, qr/^$/, 'put of little', \'abc', 'put', '-t', 'packed', '-', 'little');
sql(q{INSERT INTO packed VALUES ('none', NULL); DO $$ DECLARE h int := securefile_create('packed', 'document');
	BEGIN PERFORM securefile_truncate(h, 300000); INSERT INTO packed VALUES ('zeros', securefile_finish(h)); END $$});
my ($packed) = sql(q{SELECT s.stored_bytes FROM packed, securefile_storage(document) s WHERE packed.length = 'runs'});
my $ratio = sprintf '%.2f', 300_000 / $packed;
ends(0, qr/^ +3  +\d+  +0\.\d\d  little\n +300000  +$packed  +$ratio  runs\n +300000  +0  +-  zeros\n$/, 'ls --long', 'ls', '--long', '-t', 'packed');
ends(0, qr/^ +300000  +$packed  +$ratio  runs\n$/, 'ls -l', 'ls', '-l', '-t', 'packed', 'r*');
ends(0, qr/^ +300000  runs\n$/, 'ls without it', 'ls', '-t', 'packed', 'r*');
is_deeply([ objects((command('ls', '--long', '--json', '-t', 'packed', '*s'))[1]) ],
	[ { name => 'runs', length => 300_000, stored => $packed, ratio => sprintf('%.3f', 300_000 / $packed) + 0 }, { name => 'zeros', length => 300_000, stored => 0, ratio => undef } ],
	'ls --long --json');
ends(0, qr/^length:  300000\nin row:  \d+\nstored:  $packed\nratio:   $ratio\ncodec:   zstd\n/m, 'stat', 'stat', '-t', 'packed', 'runs');
ends(0, qr/^stored:  0\nratio:   -\ncodec:   none\n/m, 'stat of zeros', 'stat', '-t', 'packed', 'zeros');
my ($object_packed) = objects((command('stat', '--json', '-t', 'packed', 'runs'))[1]);
is("@$object_packed{qw(length stored ratio codec)}", "300000 $packed " . (sprintf('%.3f', 300_000 / $packed) + 0) . ' zstd', 'stat --json');
ends(0, qr/^ +300001  +-  +-  runs\n$/, 'ls --long of what a view makes', 'ls', '--long', '-t', 'made', '-k', 'name', 'r*');
is_deeply([ objects((command('ls', '--long', '--json', '-t', 'made', '-k', 'name', 'runs'))[1]) ],
	[ { name => 'runs', length => 300_001, stored => undef, ratio => undef } ], 'ls --long --json of it');

# rm
ends(0, qr/^removed len0\nsecurefile: rm \(dry run\): 1 removed/, '--dry-run before rm', '-t', 'docs', '--dry-run', 'rm', 'len0');
ends(0, qr/^ +0  len0$/, 'deletes nothing', 'ls', '-t', 'docs', 'len0');
ends(0, qr/^ +0  len0$/, 'an option of all verbs before the verb', '-q', '-t', 'docs', 'ls', 'len0');
command(\'ab', 'put', '-t', 'docs', '-', 'j2');
ends(0, qr/^replaced j2$/m, 'an option that the verb has', \'abc', '-v', '--replace', '-t', 'docs', 'put', '-', 'j2');
ends(0, qr/^securefile: rm: 3 removed in \S+ s\n$/, 'rm', 'rm', '-t', 'docs', 'len0', 'len1', 'j2');
ends(1, qr/len0: no file of that name/, 'rm of some', 'rm', '-t', 'docs', 'len0', 'len3999');
is(sql(q{SELECT count(*) FROM docs WHERE name IN ('len0', 'len1', 'len3999')}), 0, 'all of them are gone');
ends(0, qr/^removed len4000\n$/, 'rm -v', 'rm', '-v', '-q', '-t', 'docs', 'len4000');
sound($node, 'docs', 'one file', column => 'document');

# what JSON says of one file
($object) = objects((command(\'abc', 'put', '--json', '-t', 'docs', '-', 'j'))[1]);
is_deeply($object, { name => 'j', action => 'put', length => 3 }, 'put --json');
($object) = objects((command(\'abc', 'put', '--json', '-t', 'docs', '-', 'j'))[1]);
is("@$object{qw(name action sqlstate)}", 'j failed ', 'put --json, failed');
($object) = objects((command(\'abcd', 'put', '--json', '--replace', '-t', 'docs', '-', 'j'))[1]);
is_deeply($object, { name => 'j', action => 'replaced', length => 4 }, 'put --json, replaced');
($object) = objects((command('get', '--json', '-t', 'docs', 'j'))[1]);
is_deeply($object, { name => 'j', action => 'got', length => 4 }, 'get --json');
($object) = objects((command('rm', '--json', '-t', 'docs', 'j'))[1]);
is_deeply($object, { name => 'j', action => 'removed', length => 4 }, 'rm --json');

# ---- names ----
my @odd = ('with space', q{qu'ote"s}, "new\nline", "gr\xc3\xbc\xc3\x9fe \xf0\x9f\x98\x80", '-dash', '--', 'back\\slash',
	'100%', 'under_score', 'st*r?', q{'); DROP TABLE docs; --}, '$1', "tab\tbell\a", '...', ' ');
foreach my $name (@odd)
{
	my $content = "content of $name";
	ends(0, qr/^$/, "put '$name'", \$content, 'put', '-t', 'docs', '--', '-', $name);
	is((command('cat', '-t', 'docs', '--', $name))[1], $content, 'cat');
	unlink 'odd';
	ends(0, qr/^$/, 'get', 'get', '-t', 'docs', '--', $name, 'odd');
	holds('odd', $content, 'what was got');
}
is_deeply([ sort map { $_->{name} } grep { $_->{length} < 100 } objects((command('ls', '--json', '-t', 'docs'))[1]) ],
	[ sort map { utf8::decode(my $text = $_); $text } @odd ], 'ls --json has them');
ends(0, qr/^ +19  new\\nline$/m, 'ls escapes', 'ls', '-t', 'docs', 'new*');
ends(0, qr/^ +\d+  tab\\tbell\\007$/m, 'ls escapes', 'ls', '-t', 'docs', 'tab*');
ends(0, qr/^ +\d+  back\\\\slash\n$/, 'a pattern with a backslash', 'ls', '-t', 'docs', 'back\\\\slash');
ends(0, qr/^ +\d+  100%\n$/, 'a pattern with %', 'ls', '-t', 'docs', '1*%');
ends(0, qr/^ +\d+  st\*r\?\n$/, 'a pattern with escapes', 'ls', '-t', 'docs', 'st\\*r\\?');
ends(0, qr/^$/, 'a pattern with _', 'ls', '-t', 'docs', 'under_scor_');
ends(1, qr/the name is not valid UTF-8/, 'a name that is no text', \'x', 'put', '-t', 'docs', '-', "bad\xff");
ends(0, qr/^securefile: rm: 15 removed/, 'rm', 'rm', '-t', 'docs', '--', @odd);

# what a terminal takes for commands or ends of lines, in names and in messages
my %control = ("csi\xc2\x9b2J" => 'csi\302\2332J', "first\xc2\x80" => 'first\302\200', "last\xc2\x9f" => 'last\302\237',
	"line\xe2\x80\xa8" => 'line\342\200\250', "paragraph\xe2\x80\xa9" => 'paragraph\342\200\251',
	"esc\e[2J" => 'esc\033[2J', "plain\xc2\xa0\xe2\x80\xa7\xe2\x80\xb0" => "plain\xc2\xa0\xe2\x80\xa7\xe2\x80\xb0",
	"override\xe2\x80\xaetxt" => 'override\342\200\256txt');
foreach my $name (sort keys %control)
{
	my $shown = quotemeta $control{$name};
	ends(0, qr/^put $shown\n$/, "put -v '$control{$name}'", \'x', 'put', '-v', '-t', 'docs', '-', $name);
	ends(0, qr/^ +1  $shown\n$/, 'ls', 'ls', '-t', 'docs', $name);
	ends(0, qr/^name:    $shown$/m, 'stat', 'stat', '-t', 'docs', $name);
	ends(1, qr/^securefile: $shown: a file of/, 'a message about it', \'x', 'put', '-t', 'docs', '-', $name);
	ends(1, qr{^securefile: x: could not open "$shown/x": }, 'a message with it', 'put', '-t', 'docs', "$name/x");
	ends(3, qr/^securefile: .*\Q$control{$name}\E/, 'a message of the server', 'ls', '-t', qq{"$name"});
	ends(2, qr/no verb "$shown"/, 'an error of usage', $name);
	is((objects((command('ls', '--json', '-t', 'docs', $name))[1]))[0]{name}, do { utf8::decode(my $text = $name); $text }, 'JSON');
	ends(0, qr/^removed $shown$/m, 'rm -v', 'rm', '-v', '-t', 'docs', $name);
}
sql(qq{CREATE TABLE "t\xc2\x9b" (name text PRIMARY KEY, "c\xc2\x9b" securefile);
	CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE NOTICE 'new %', NEW.name; RETURN NEW; END \$\$;
	CREATE TRIGGER shout BEFORE INSERT ON "t\xc2\x9b" FOR EACH ROW EXECUTE FUNCTION shout()});
ends(0, qr/^securefile: NOTICE:  new a\\302\\233\n$/, 'a notice', \'x', 'put', '-t', qq{"t\xc2\x9b"}, '-', "a\xc2\x9b");
ends(0, qr/table:   "?t\\302\\233"?\ncolumn:  c\\302\\233\n/, 'stat of a table', 'stat', '-t', qq{"t\xc2\x9b"}, "a\xc2\x9b");
ends(0, qr/column "?c\\302\\233"? of public\."?t\\302\\233"?\n/, 'verify', 'verify', '-t', qq{"t\xc2\x9b"});

# a view
sql('CREATE VIEW seen AS SELECT * FROM docs');
ends(0, qr/^$/, 'put through a view', \'x', 'put', '-t', 'seen', '-k', 'name', '-', 'v');
ends(3, qr/^securefile: "seen" is not a table$/, 'verify of a view', 'verify', '-t', 'seen', '-k', 'name');
ends(0, qr/1 sound/, 'verify of a name there', 'verify', '-t', 'seen', '-k', 'name', 'v');
ends(0, qr/^$/, 'rm through a view', 'rm', '-q', '-t', 'seen', '-k', 'name', 'v');

# tables and columns
sql(q{CREATE SCHEMA "Odd Schema";
	CREATE TABLE "Odd Schema"."Odd ""Table's" ("the ""Key" varchar(50) PRIMARY KEY, "The 'File" securefile, "Not ""Null" int NOT NULL)});
my @odd_table = ('-t', q{"Odd Schema"."Odd ""Table's"});
ends(1, qr/null value in column "Not "Null"/, 'another column wants a value', \'x', 'put', @odd_table, '-', 'n');
ends(0, qr/^$/, '--set', \'x', 'put', @odd_table, '--set', 'Not "Null=7', '-', "n'n");
ends(0, qr/^$/, '--set and --replace', \$report, 'put', @odd_table, '--replace', '--set', 'Not "Null=8', '-', "n'n");
ends(1, qr/invalid input syntax/, '--set of the wrong type', \'x', 'put', @odd_table, '--set', 'Not "Null=x', '-', 'm');
ends(1, qr/column "x" of relation/, '--set of no column', \'x', 'put', @odd_table, '--set', 'x=1', '-', 'm');
is(sql(q{SELECT "Not ""Null" || ':' || length("The 'File") FROM "Odd Schema"."Odd ""Table's"}), '8:300000', 'the row');
ends(0, qr/^ +300000  n'n\n/, 'ls', 'ls', @odd_table, '-c', q{The 'File}, '-k', 'the "Key');
ends(0, qr/nothing wrong/, 'verify', 'verify', @odd_table);
ends(0, qr/^$/, 'verify of a name', 'verify', '-q', @odd_table, "n'n");

# a column that has several rows of a name; rows without a file
sql(q{INSERT INTO keyless VALUES ('a', 'one'), ('a', 'two'), ('b', 'three'), ('c', NULL)});
foreach my $verb (qw(get cat stat rm put verify))
{
	my @args = $verb eq 'put' ? ('--replace', 'in/report.pdf', 'a') : ('a');
	ends(1, qr/a: more than one row has that name/, "$verb of a name that two rows have", $verb, '-t', 'keyless', '-k', 'name', @args);
}
ends(0, qr/^three$/, 'and of another', 'cat', '-t', 'keyless', '-k', 'name', 'b');
ends(1, qr/no file of that name/, 'a row without a file', 'cat', '-t', 'keyless', '-k', 'name', 'c');
ends(0, qr/^$/, 'is not listed', 'ls', '-t', 'keyless', '-k', 'name', 'c');
ends(0, qr/^$/, 'can be filled', \'four', 'put', '-t', 'keyless', '-k', 'name', '-', 'c');
is(sql(q{SELECT convert_from(document, 'UTF8') FROM keyless WHERE name = 'c'}), 'four', 'in that row, the only one of that name');

# names that are no text; partitions; a domain; the extension in another schema
sql(q{CREATE TABLE numbered (id int PRIMARY KEY, document securefile) PARTITION BY LIST (id);
	CREATE TABLE numbered_1 PARTITION OF numbered FOR VALUES IN (1);
	CREATE TABLE numbered_2 PARTITION OF numbered FOR VALUES IN (2);
	CREATE DATABASE other});
ends(0, qr/^$/, "put into partition $_", \"$report$report", 'put', '-t', 'numbered', '-', $_) for (1, 2);
ends(0, qr/^ +600000  1\n +600000  2\n$/, 'ls', 'ls', '-t', 'numbered');
ends(1, qr/no partition/, 'a name without a partition', \"$report", 'put', '-t', 'numbered', '-', 3);
ends(1, qr/invalid input syntax for type integer/, 'a name that is no number', \'x', 'put', '-t', 'numbered', '-', 'x');
ends(0, qr/table:   numbered_2/, 'stat names the partition', 'stat', '-t', 'numbered', 2);
ends(0, qr/nothing wrong/, 'verify of partitions', 'verify', '-t', 'numbered');
is((command('cat', '-t', 'numbered', 2))[1], "$report$report", 'cat of a partition');
ends(0, qr/^$/, 'put --replace in a partition', \"$report", 'put', '--replace', '-t', 'numbered', '-', 2);
sound($node, "numbered_$_", 'partitions', column => 'document') for (1, 2);
$node->safe_psql('other', q{CREATE SCHEMA "Ex't"; CREATE EXTENSION securefile SCHEMA "Ex't";
	CREATE DOMAIN file AS "Ex't".securefile; CREATE DOMAIN image AS file;
	CREATE TABLE t (n text PRIMARY KEY, f image)});
ends(0, qr/^$/, 'put, extension in a schema', \"$report", 'put', '-d', 'other', '-t', 't', '-', 'x');
ends(0, qr/^$/, 'put, extension in a schema', \"$report$report", 'put', '-d', 'other', '-t', 't', '-', 'y');
is((command('cat', '-d', 'other', '-t', 't', 'y'))[1], "$report$report", 'cat');
ends(0, qr/nothing wrong/, 'verify', 'verify', '-d', 'other', '-t', 't');
ends(0, qr/^ +300000  +300000  +1\.00  x\n +600000  +600000  +1\.00  y\n$/, 'ls --long', 'ls', '--long', '-d', 'other', '-t', 't');
ends(0, qr/^stored:  300000\nratio:   1\.00\ncodec:   none\n/m, 'stat', 'stat', '-d', 'other', '-t', 't', 'x');

# another encoding: names are UTF-8 all the same
sql(q{CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
$node->safe_psql('latin', 'CREATE EXTENSION securefile; CREATE TABLE docs (name text PRIMARY KEY, document securefile)');
ends(0, qr/^$/, 'put', \'x', 'put', '-d', 'latin', '-t', 'docs', '-', "gr\xc3\xbc\xc3\x9fe");
is($node->safe_psql('latin', 'SELECT length(name) FROM docs'), 5, 'five letters');
ends(0, qr/^ +1  gr\xc3\xbc\xc3\x9fe$/, 'ls', 'ls', '-d', 'latin', '-t', 'docs');
ends(1, qr/has no equivalent in encoding "LATIN1"/, 'a letter it does not have', \'x', 'put', '-d', 'latin', '-t', 'docs', '-', "\xe2\x82\xac");

done_testing();
