# The command securefile: init makes tables; --meta keeps times, modes and link targets and puts
# them back; --quick skips by length and time, and asks nothing for a single file.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use File::Path qw(remove_tree);
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('meta');
my $dir = enter($node);
umask 022;

# Time of modification in microseconds, and mode, of files here.
sub here
{
	my ($top, @paths) = @_;
	return join ' ', map { my ($time, $mode) = split / /, `find '$top/$_' -printf '%T@ %m'`; $time =~ s/\.(\d{6}).*/$1/r . "/$mode" } @paths;
}

# Set the time of a file, and its mode.
sub make_file
{
	my ($path, $content, $time, $mode) = @_;
	write_file($path, $content);
	chmod $mode, $path or die "could not chmod $path: $!";
	system('touch', '-d', $time, $path) == 0 or die "could not touch $path";
	return;
}

# What the table has.
sub rows { return sql(q{SELECT string_agg(name || '=' || coalesce((extract(epoch FROM mtime) * 1000000)::bigint::text, '-') || '/' || coalesce(to_hex(mode), '-') || coalesce('>' || link_target, ''), ' ' ORDER BY name) FROM files}); }

# ---- init ----
ends(3, qr/relation "files" does not exist\nHint: "securefile init -t files" makes it\./, 'a table that is not there', 'ls', '-t', 'files');
ends(3, qr/"securefile init -t '"Odd Name"'" makes it/, 'in quotes for a shell', 'import', '-t', '"Odd Name"', '.');
ends(0, qr/^files is made$/, 'init', 'init', '-t', 'files');
ends(0, qr/^files exists already$/, 'init again', 'init', '-t', 'files');
is(sql(q{SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'files'::regclass AND attnum > 0}),
	'name text, document securefile', 'its columns');
ends(0, qr/is made/, 'init of an odd name', 'init', '-t', '"Odd Name"', '-k', 'The Path', '-c', 'The File', '--meta', '--with', 'compress, hash');
is(sql(q{SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '"Odd Name"'::regclass AND attnum > 0}),
	'The Path text, mtime timestamp with time zone, mode integer, link_target text, The File securefile(compress_medium, hash)', 'its columns');
ends(0, qr/exists already/, 'init of it again', 'init', '-t', '"Odd Name"', '--meta');
ends(3, qr/schema "nowhere" does not exist/, 'init in a schema that is not there', 'init', '-t', 'nowhere.files');
ends(3, qr/--with wants words/, 'init --with SQL', 'init', '-t', 'other', '--with', 'hash); DROP TABLE files; --');
ends(3, qr/frob/, 'init --with an unknown word', 'init', '-t', 'other', '--with', 'frob');
ends(3, qr/./, "init of the name $_", 'init', '-t', $_) for ('a b', 'other (x int); DROP TABLE files', '');
is(sql(q{SELECT to_regclass('other') IS NULL AND to_regclass('files') IS NOT NULL}), 't', 'none of them did anything');
sql(q{CREATE TABLE plain (name text PRIMARY KEY)});
ends(3, qr/public\.plain has no securefile column/, 'init of a table of something else', 'init', '-t', 'plain');
ends(2, qr/too many arguments/, 'init with an argument', 'init', '-t', 'files', 'x');

# ---- columns that are missing ----
make_file('tree/a', 'content of a', '2001-02-03 04:05:06.789012345 UTC', 0640);
foreach my $case ([ 'put', 'tree/a' ], [ 'import', 'tree' ], [ 'get', 'a' ], [ 'export', 'out' ])
{
	my ($verb, $what) = @$case;
	ends(3, qr/public\.files does not have the columns in which --meta keeps.*\nHint: ALTER TABLE public\.files ADD COLUMN mtime timestamptz, ADD COLUMN mode integer, ADD COLUMN link_target text;/,
		"$verb --meta", $verb, '--meta', '-t', 'files', $what);
}
ends(3, qr/in which --quick keeps/, "$_ --quick", $_, '--quick', '-t', 'files', 'tree') for qw(import export);
ends(3, qr/Hint: ALTER TABLE/, 'init --meta', 'init', '--meta', '-t', 'files');
sql(q{ALTER TABLE files ADD COLUMN mtime timestamptz, ADD COLUMN mode text});
ends(3, qr/column mode of public\.files is not of type integer/, 'a column of another type', 'import', '--meta', '-t', 'files', 'tree');
ends(0, qr/1 put/, 'without --meta it does not matter', 'import', '-t', 'files', 'tree');
sql(q{ALTER TABLE files DROP COLUMN mode});
ends(3, qr/ALTER TABLE public\.files ADD COLUMN mode integer, ADD COLUMN link_target text;/, 'what is missing', 'import', '--meta', '-t', 'files', 'tree');
sql(q{ALTER TABLE files ADD COLUMN mode integer, ADD COLUMN link_target text; TRUNCATE files});
ends(0, qr/files exists already/, 'init --meta has nothing to say then', 'init', '--meta', '-t', 'files');

# ---- in ----
make_file('tree/old', 'old', '1950-01-01 00:00:00.25 UTC', 0755);
make_file('tree/set', 'uid', '2024-02-29 12:00:00 UTC', 04755);
make_file('tree/long', bytes(1, 300_000), '2024-02-29 12:00:01.5 UTC', 0600);
symlink('a', 'tree/link');
system('touch', '-h', '-d', '2020-01-01 00:00:00.000001 UTC', 'tree/link');
ends(2, qr/--links=keep needs --meta/, '--links=keep without --meta', 'import', '--links=keep', '-t', 'files', 'tree');
ends(0, qr/: 5 put/, 'import --meta', 'import', '--meta', '--links=keep', '-t', 'files', 'tree');
my $rows = 'a=981173106789012/1a0 link=1577836800000001/1ff>a long=1709208001500000/180 old=-631151999750000/1ed set=1709208000000000/9ed';
is(rows(), $rows, 'times to the microsecond, modes, the link');
ends(0, qr/: 5 same/, 'a second import', 'import', '--meta', '--links=keep', '-t', 'files', 'tree');
chmod 0644, 'tree/a';
system('touch', '-d', '2002-02-02 00:00:00 UTC', 'tree/old', 'tree/long');
ends(0, qr/: 2 same, 3 touched/, 'a dry run after times and modes have changed', 'import', '--dry-run', '--meta', '--links=keep', '-t', 'files', 'tree');
is(rows(), $rows, 'changes nothing');
ends(0, qr/: 2 same, 3 touched/, 'an import', 'import', '--meta', '--links=keep', '-t', 'files', 'tree');
is(rows(), $rows =~ s/1a0/1a4/r =~ s/long=\d+/long=1012608000000000/r =~ s/old=-\d+/old=1012608000000000/r, 'brings them up to date');
make_file('tree/a', 'content of a', '2001-02-03 04:05:06.789012345 UTC', 0640);
make_file('tree/old', 'old', '1950-01-01 00:00:00.25 UTC', 0755);
make_file('tree/long', bytes(1, 300_000), '2024-02-29 12:00:01.5 UTC', 0600);
ends(0, qr/: 2 same, 3 touched/, 'and back', 'import', '--meta', '--links=keep', '--batch', 1, '-t', 'files', 'tree');
ends(0, qr/: 4 same, 1 skipped/, 'without --meta they are left alone', 'import', '-t', 'files', 'tree');
is(rows(), $rows, 'as at first');
like((command('stat', '-t', 'files', 'a', 'set', 'link'))[1], qr/mtime:   2001-02-03 04:05:06\.789012\+00\nmode:    0640\n\n.*mode:    4755\n\n.*mode:    0777\nlink:    a\n\z/s, 'stat shows them');
is(join(' ', map { join '/', @{$_}{qw(mtime mode link_target)} } objects((command('stat', '--json', '-t', 'files', 'link'))[1])), '2020-01-01 00:00:00.000001+00/0777/a', 'and in JSON');

# ---- out ----
my @files = qw(a old set long);
ends(0, qr/: 5 got/, 'export --meta', 'export', '--meta', '-t', 'files', 'out');
is(here('out', qw(a set long)), '981173106789012/640 1709208000000000/755 1709208001500000/600', 'times and modes are put back, but for setuid');
is(here('out', 'old'), here('tree', 'old'), 'a time before 1970');
is(readlink('out/link'), 'a', 'and the link');
ends(0, qr/: 5 same/, 'a second export', 'export', '--meta', '-t', 'files', 'out');
chmod 0600, 'out/a';
system('touch', 'out/old');
ends(0, qr/: 3 same, 2 touched/, 'a dry run after times and modes have changed here', 'export', '--dry-run', '--meta', '-t', 'files', 'out');
ends(0, qr/: 3 same, 2 touched/, 'an export', 'export', '--meta', '-t', 'files', 'out');
is(here('out', 'a', 'old'), here('tree', 'a', 'old'), 'puts them back');
ends(0, qr/: 4 same, 1 touched/, '--setuid', 'export', '--meta', '--setuid', '-t', 'files', 'out');
is(here('out', 'set'), '1709208000000000/4755', 'gives that bit, too');
unlink 'out/link';
symlink('elsewhere', 'out/link');
ends(1, qr/link: another file is there already.*: 3 same, 1 touched, 1 failed/s, 'another link is there', 'export', '--meta', '-t', 'files', 'out');
ends(0, qr/1 replaced/, '--replace', 'export', '--meta', '--replace', '-t', 'files', 'out');
is(readlink('out/link'), 'a', 'replaces it');
is(temporaries('out'), 0, 'no temporary file stays');
ends(0, qr/: 5 got/, 'export without --meta', 'export', '-t', 'files', 'plain');
ok(-f 'plain/link' && !-l 'plain/link' && (stat 'plain/a')[9] > 1_700_000_000, 'has neither times nor links');
ends(0, qr/^$/, 'get --meta', 'get', '--meta', '-t', 'files', 'a', 'got');
is(here('.', 'got'), '981173106789012/640', 'time and mode of it');
ends(0, qr/^$/, 'get --meta of a link', 'get', '--meta', '-t', 'files', 'link', 'gotlink');
is(readlink('gotlink'), 'a', 'is one');
ends(0, qr/^$/, 'put --meta', 'put', '--meta', '-t', 'files', 'tree/old', 'put');
ends(0, qr/mtime:   1950-01-01 00:00:00\.250000\+00\nmode:    0755/, 'time and mode of it', 'stat', '-t', 'files', 'put');
ends(0, qr/^$/, 'put --meta of standard input', \'piped', 'put', '--meta', '--replace', '-t', 'files', '-', 'put');
is(sql(q{SELECT num_nulls(mtime, mode, link_target) FROM files WHERE name = 'put'}), 3, 'has none');
# a name that leads through a link that was stored
sql(q{INSERT INTO files (name, document, link_target) VALUES ('up', '', '..'), ('up/escaped', 'x', NULL), ('far', 'x', NULL); UPDATE files SET mtime = 'infinity' WHERE name = 'far'});
ends(1, qr/up\/escaped: could not open directory "up": .*links are not followed/, 'a link and a name below it', 'export', '--meta', '-j', 1, '-t', 'files', 'safe');
ok(!-e 'escaped' && -f 'safe/far', 'nothing is outside, and what has no time is there');
sql(q{DELETE FROM files WHERE name ~ '^(up|put|far)'});

# ---- quick ----
ends(0, qr/: 5 same/, 'import --quick', 'import', '--quick', '--links=keep', '-t', 'files', 'tree');
ends(0, qr/: 5 same/, 'export --quick', 'export', '--quick', '-t', 'files', 'out');
# other bytes with the same length and time are not noticed: nothing is read
make_file('tree/a', 'CONTENT OF A', '2001-02-03 04:05:06.789012345 UTC', 0640);
make_file('out/a', 'CONTENT OF A', '2001-02-03 04:05:06.789012345 UTC', 0640);
ends(0, qr/: 5 same/, 'import --quick reads nothing', 'import', '--quick', '--links=keep', '-t', 'files', 'tree');
ends(0, qr/: 5 same/, 'export --quick reads nothing', 'export', '--quick', '-t', 'files', 'out');
ends(1, qr/a: another file of that name/, 'import --meta reads', 'import', '--meta', '--links=keep', '-t', 'files', 'tree');
ends(1, qr/a: another file is there/, 'export --meta reads', 'export', '--meta', '-t', 'files', 'out');
# a microsecond later
system('touch', '-d', '2001-02-03 04:05:06.789013 UTC', 'tree/a', 'out/a');
ends(1, qr/a: another file of that name/, 'a microsecond is seen by import', 'import', '--quick', '--links=keep', '-t', 'files', 'tree');
ends(1, qr/a: another file is there/, 'and by export', 'export', '--quick', '-t', 'files', 'out');
ends(0, qr/: 1 replaced, 4 same/, 'import --quick --replace', 'import', '--quick', '--replace', '--links=keep', '-t', 'files', 'tree');
is((command('cat', '-t', 'files', 'a'))[1], 'CONTENT OF A', 'stores it');
chmod 0444, 'tree/a';
ends(0, qr/: 4 same, 1 touched/, 'a mode alone', 'import', '--quick', '--links=keep', '-t', 'files', 'tree');
is(sql(q{SELECT mode FROM files WHERE name = 'a'}), oct('444'), 'is brought up to date');
ends(0, qr/: 1 touched/, 'and by export', 'export', '--quick', '-t', 'files', 'out', 'a');
is(here('out', 'a'), here('tree', 'a'), 'as it is');
unlink 'tree/link';
symlink('b', 'tree/link');
system('touch', '-h', '-d', '2020-01-01 00:00:00.000001 UTC', 'tree/link');
ends(1, qr/link: another file of that name/, 'a link that leads elsewhere', 'import', '--quick', '--links=keep', '-t', 'files', 'tree');
sql(q{UPDATE files SET mtime = NULL WHERE name = 'old'});
ends(1, qr/: 3 same, 1 touched, 1 failed/, 'a row without a time is compared', 'import', '--quick', '--links=keep', '-t', 'files', 'tree');

# ---- what it asks ----
# Statements of one run, as the server's log has them.
sub statements
{
	my (@args) = @_;
	my $from = -s $node->logfile;
	local $ENV{PGOPTIONS} = '-c log_min_duration_statement=0';
	my ($rc, $out, $err) = command(@args);
	is($rc, 0, "@args") or diag($err);
	my @found = slurp_file($node->logfile, $from) =~ /duration: .* (?:execute|statement)/g;
	return scalar @found;
}
make_file("many/$_", "file $_", '2022-02-02 UTC', 0644) for 1 .. 60;
make_file("few/$_", "file $_", '2022-02-02 UTC', 0644) for 1 .. 3;
ends(0, qr/63 put|60 put/, 'import of many', 'import', '--meta', '-t', 'files', '--prefix', 'many/', 'many');
ends(0, qr/3 put/, 'and of few', 'import', '--meta', '-t', 'files', '--prefix', 'few/', 'few');
is(statements('import', '--quick', '-t', 'files', '--prefix', 'many/', 'many'), statements('import', '--quick', '-t', 'files', '--prefix', 'few/', 'few'), 'import --quick asks as much for many files as for few');
command('export', '--meta', '-t', 'files', '--prefix', "$_/", "$_-out") for qw(many few);
is(statements('export', '--quick', '-t', 'files', '--prefix', 'many/', 'many-out'), statements('export', '--quick', '-t', 'files', '--prefix', 'few/', 'few-out'), 'and so does export');

# ---- verify ----
sql('TRUNCATE files');
remove_tree('tree');
mkdir 'tree';
write_file("tree/$_", $_) foreach 'file', 'other';
symlink($_->[1], "tree/$_->[0]") foreach [ 'link', 'nowhere' ], [ 'up', '../x' ], [ 'was', 'file' ];
ends(0, qr/5 put/, 'links', 'import', '-t', 'files', '--meta', '--links=keep', 'tree');
ends(0, qr/: 5 same, 3 skipped;/, 'verify compares links', 'verify', '-t', 'files', '--against', 'tree');
ends(0, qr/: 5 same;/, 'and takes them for files with --links=keep', 'verify', '-t', 'files', '--links=keep', '--against', 'tree');
unlink 'tree/up', 'tree/was';
symlink('../y', 'tree/up');
write_file('tree/was', '');
ends(1, qr/^securefile: up: differs: the links have other targets$/m, 'another target', 'verify', '-t', 'files', '--against', 'tree', 'up', 'link');
ends(1, qr/^securefile: was: differs: a link is stored, and this is none$/m, 'a file in the place of a link', 'verify', '-t', 'files', '--against', 'tree');
symlink('x', 'tree/more');
ends(1, qr/^securefile: more: is not stored$/m, 'a link that is not stored', 'verify', '-t', 'files', '--links=keep', '--against', 'tree');

# bytes that are replaced without --meta do not keep the time of the old ones, nor a link its target
sql('TRUNCATE files');
remove_tree('tree');
mkdir 'tree';
make_file("tree/$_", 'old', '2020-01-01', 0644) foreach 'file', 'long', 'put';
symlink('file', 'tree/link');
my @quick = ('sync', '-t', 'files', '--to-table', '--quick', '--links=keep', 'tree');
ends(0, qr/4 put/, 'files', @quick);
system('cp', '-a', 'tree', 'before');
unlink 'tree/link';
write_file('tree/file', 'new');
write_file('tree/link', 'new');
write_file('tree/long', 'x' x 300_000);
command('sync', '-q', '-t', 'files', '--to-table', 'tree');
command('put', '-q', '-t', 'files', '--replace', 'tree/file', 'put');
is(rows(), 'file=-/1a4 link=-/1ff long=-/1a4 put=-/1a4', 'are not known');
remove_tree('tree');
rename 'before', 'tree';
ends(0, qr/: 4 replaced;/, 'so --quick compares what was there before', @quick);
is(sql(q{SELECT string_agg(convert_from(document, 'UTF8') || coalesce(link_target, ''), ' ' ORDER BY name) FROM files}), 'old file old old', 'and puts it back');
command('put', '-q', '-t', 'files', '--replace', '--set', 'mtime=2021-01-01 00:00:00+00', 'tree/file', 'put');
like(rows(), qr{ put=1609459200000000/}, '--set mtime');

# without --meta, too, an empty file is not the same as a link
foreach my $batch (1, 500)
{
	sql(q{UPDATE files SET document = '', link_target = 'file' WHERE name IN ('link', 'put')});
	unlink 'tree/link';
	write_file("tree/$_", '') foreach 'link', 'put';
	ends(0, qr/: 2 replaced, 2 same in/, "empty files in the place of links, --batch $batch", 'sync', '-t', 'files', '--to-table', '--batch', $batch, 'tree');
	is(sql('SELECT count(*) FROM files WHERE link_target IS NOT NULL'), 0, 'are no links');
}

# a role that may make no table
sql('CREATE ROLE maker LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT SELECT ON files TO maker');
ends(0, qr/files exists already/, 'init of a table that is there', 'init', '-U', 'maker', '-t', 'files');
ends(3, qr/permission denied for schema public/, 'and of one that is not', 'init', '-U', 'maker', '-t', 'not_there');

done_testing();
