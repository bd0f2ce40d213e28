# The command securefile: which files of a tree are taken.  Patterns mean what they mean to
# git; links and special files are skipped, followed or failures; names that export could not
# write are refused; what holds for all files is said once.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use File::Path qw(make_path remove_tree);
use POSIX qw(mkfifo);
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Socket;
use Test::More;

my $node = new_cluster('filter');
my $dir = enter($node);

sql('CREATE TABLE docs (name text PRIMARY KEY, document securefile)');

# What an import of the tree stores.
sub taken
{
	my ($tree, @options) = @_;
	sql('TRUNCATE docs');
	my ($rc, $out, $err) = command('import', '-q', '-t', 'docs', @options, $tree);
	return join ' ', $err, "$rc", split /\n/, sql('SELECT name FROM docs ORDER BY name COLLATE "C"');
}

# ---- patterns ----
my @files = qw(a.txt b.log sub/a.txt sub/b.log sub/deep/a.txt sub/deep/build/x build/x build/y.txt
	other/build doc/frotz/a foo/bar/baz foo/x/bar .hidden !bang keep.log x[1].c back\\slash);
push @files, '#sharp';
write_file("tree/$_", "file $_") foreach @files, 'trailing ';

# Patterns as lines, and the files that they leave.  The second list is that of git, where there is one.
my @cases = (
	'*.log', '/*.log', 'build', 'build/', '/build/', 'sub/', 'sub/*', '/sub/deep', 'deep/a.txt', '**/a.txt', 'sub/**',
	'sub/**/a.txt', '**/build/**', 'foo/**/bar', 'foo/*/bar', '[ab].*', '[!a]*.txt', '?.txt', '\\#sharp', '\\!bang', 'x\\[1\\].c',
	'x[1].c', 'doc/frotz', 'doc/frotz/', '/', '*', '.*', 'a.txt/', 'back\\\\slash', 'trailing\\ ', "trailing ", '**', '/**/x',
	"*.log\n!keep.log", "!keep.log\n*.log", "*\n!*/\n!*.txt", "sub\n!sub/a.txt", "/*\n!/sub\n/sub/*\n!/sub/deep",
	"# a comment\n\n*.txt\r\n   \n!a.txt",
);

# git, with a configuration of its own, knows better than any list.
sub git_takes
{
	local %ENV = (%ENV, GIT_CONFIG_NOSYSTEM => 1, HOME => $dir, GIT_CEILING_DIRECTORIES => $dir);
	my ($out) = run_command([ 'git', '-C', 'tree', 'ls-files', '-z', '-o', '--exclude-from', "$dir/patterns" ]);
	return join ' ', '', 0, sort split /\0/, $out;
}

my $has_git = system('git --version >/dev/null 2>&1') == 0;
if ($has_git)
{
	system('git', 'init', '-q', 'tree') == 0 or die 'git init failed';
	remove_tree('tree/.git/hooks', 'tree/.git/info');
}
SKIP:
{
	skip 'git is not here', scalar @cases unless $has_git;
	foreach my $case (@cases)
	{
		write_file('patterns', "$case\n");
		is(taken('tree', '--exclude-from', 'patterns', '--exclude', '/.git'), git_takes(), "lines $case");
	}
}
remove_tree('tree/.git');

my $all = join ' ', '', 0, sort @files, 'trailing ';
is(taken('tree'), $all, 'without patterns');
is(taken('tree', '--include', '*.txt'), $all, '--include alone leaves nothing out');
is(taken('tree', '--exclude', '*', '--include', '*/', '--include', '*.log'), ' 0 b.log keep.log sub/b.log', 'only some');
is(taken('tree', '--exclude', '*.txt', '--exclude', 'build/', '--exclude', 'sub', '--exclude', '/[f#!.xtdo]*', '--exclude', 'back*'),
	' 0 b.log keep.log', 'several');
is(taken('tree', '--include', '*.log', '--exclude', '*'), ' 0', 'the last one decides');
is(taken('tree', '--exclude', '#sharp', '--exclude', '!bang', '--exclude', '*.*', '--exclude', '*/'), ' 0 back\\slash trailing ',
	'no comment and no exclamation mark in an option');
write_file('patterns', "/*\n!/sub\n");
is(taken('tree', '--exclude-from', 'patterns', '--exclude', 'deep'), ' 0 sub/a.txt sub/b.log', 'a file and an option');
ends(2, qr/--exclude-from: could not open "nowhere": No such file/, 'a file that is not there', 'import', '-t', 'docs', '--exclude-from', 'nowhere', 'tree');
ends(2, qr/--exclude-from: could not read "tree": Is a directory/, 'a directory', 'import', '-t', 'docs', '--exclude-from', 'tree', 'tree');
ends(2, qr/put does not take --exclude|unrecognized option/, 'not of put', 'put', '-t', 'docs', '--exclude', 'x', 'tree/a.txt');

# a directory that is left out is not walked, so it need not be readable
chmod 0, 'tree/sub';
is(taken('tree', '--exclude', 'sub', '--exclude', '[!s]*'), ' 0', 'is not walked');
like(taken('tree', '--exclude', '[!s]*'), qr/^securefile: sub: could not open the directory: Permission denied\n 1$/, 'and else it is');
chmod 0755, 'tree/sub';

# the other verbs: paths are those below the prefix, names of directories count
command('import', '-q', '-t', 'docs', '--prefix', 'p/', 'tree');
sql(q{DELETE FROM docs WHERE name NOT LIKE 'p/%'});
my @less = ('--exclude', 'p', '--exclude', '/sub/', '--exclude', '*.txt', '--exclude', '/[!b]*', '--exclude', 'back*');
ends(0, qr/: 2 got/, 'export', 'export', '-t', 'docs', '--prefix', 'p/', @less, 'out');
is(join(' ', sort glob 'out/*'), 'out/b.log out/build', 'these');
is(join(' ', glob 'out/*/*'), 'out/build/x', 'and the directories of these');
write_file('out/zz', 'not stored');
ends(1, qr/zz: is not stored.*: 2 same, 1 failed/s, 'verify', 'verify', '-t', 'docs', '--prefix', 'p/', '--against', 'out',
	'--exclude', '/sub/', '--exclude', '*.txt', '--exclude', '/[!bz]*', '--exclude', 'back*');
ends(0, qr/: 2 same/, 'verify without it', 'verify', '-t', 'docs', '--prefix', 'p/', '--against', 'out', @less);
is(join(' ', map { /\d  (.*)/ } split /\n/, ends(0, qr/log/, 'ls', 'ls', '-t', 'docs', '--exclude', '*', '--include', '*/', '--include', '*.log')),
	'p/b.log p/keep.log p/sub/b.log', 'lists these');
ends(0, qr/^$/, 'ls with their directory left out', 'ls', '-t', 'docs', '--exclude', 'p/', 'p/b*');

# ---- links and special files ----
write_file('links/file', 'content');
write_file('links/down/file', 'below');
write_file('outside', 'outside');
make_path('links/up');
symlink('file', 'links/to_file');
symlink('down', 'links/to_directory');
symlink('../file', 'links/up/to_file');
mkfifo('links/pipe', 0600);
socket(my $socket, PF_UNIX, SOCK_STREAM, 0) or die "no socket: $!";
bind($socket, pack_sockaddr_un('links/socket')) or die "could not bind: $!";
is(taken('links'), ' 0 down/file file', 'links and special files are skipped');
my ($rc, $out, $err) = command('import', '-t', 'docs', 'links');
like("$rc $out$err", qr/^0 securefile: import: 2 same, 5 skipped in [\d.]+ s\n$/, 'which the summary says, and nothing else');
ends(0, qr/^skipped pipe\nskipped socket\nskipped to_directory\nskipped to_file\nskipped up\/to_file$/m, 'verbose', 'import', '-v', '-t', 'docs', 'links');
my ($summary) = grep { exists $_->{summary} } objects((command('import', '--json', '-t', 'docs', '--links=skip', 'links'))[1]);
is("$summary->{same} $summary->{skipped} $summary->{failed}", '2 5 0', 'JSON');
ends(0, qr/: 2 same, 5 skipped/, 'verify', 'verify', '-t', 'docs', '--against', 'links');
ends(0, qr/: 2 same, 1 skipped/, 'what is left out is not even skipped', 'import', '-t', 'docs', '--exclude', '*to_*', '--exclude', 'pipe', 'links');
like(taken('links', '--links=error'), qr/^(securefile: \S+: (a symbolic link, )?not a regular file\n){5} 1 down\/file file$/, '--links=error');
is(taken('links', '--links=follow'), ' 0 down/file file to_directory/file to_file up/to_file', '--links=follow');
ends(0, qr/: 5 same, 2 skipped/, 'verify follows, too', 'verify', '-t', 'docs', '--links', 'follow', '--against', 'links');
is(taken('links', '--links=follow', '--exclude', 'to_directory/'), ' 0 down/file file to_file up/to_file', 'a directory that a link leads to');
symlink('nowhere', 'links/dangling');
symlink('.', 'links/loop');
symlink('../up', 'links/up/loop');
symlink('itself', 'links/itself');
symlink('../outside', 'links/out');
symlink("$dir/outside", 'links/absolute');
symlink("/proc/self/root$dir/outside", 'links/proc');
is(taken('links', '--links=follow'), join('', map { "securefile: $_->[0]: $_->[1]\n" }
	([ 'absolute', 'a link that leads out of the tree: it is not followed' ],
		[ 'dangling', 'could not follow the link: No such file or directory' ],
		[ 'itself', 'could not follow the link: Too many levels of symbolic links' ],
		[ 'loop', 'a link to a directory that it is in: it is not followed' ],
		[ 'out', 'a link that leads out of the tree: it is not followed' ],
		[ 'proc', 'a link that leads out of the tree: it is not followed' ],
		[ 'up/loop', 'a link to a directory that it is in: it is not followed' ]))
	. ' 1 down/file file to_directory/file to_file up/to_file', 'links that lead nowhere, around, and out');
ends(2, qr/--links wants skip, follow, keep or error, not "x"/, 'no such way', 'import', '-t', 'docs', '--links', 'x', 'links');
ends(2, qr/--links=keep needs --meta/, '--links=keep', 'import', '-t', 'docs', '--links=keep', 'links');

# ---- names that export could not write ----
sql('TRUNCATE docs');
foreach (['a/../b', 'has a part "\.\."'], ['/x', 'is an absolute path'], ['a//b', 'has an empty part'], ['a/', 'has an empty part'],
	['./a', 'has a part "\."'], ["a\xff", 'is not valid UTF-8'])
{
	ends(1, qr/: the name $_->[1]/, "put as $_->[0]", 'put', '-t', 'docs', 'outside', $_->[0]);
}
ends(1, qr/^securefile: \/x\/file: the name is an absolute path: refused\n.*1 failed/s, 'import below such a prefix',
	'import', '-t', 'docs', '--exclude', '[!f]*', '--prefix', '/x/', 'links');
is(sql('SELECT count(*) FROM docs'), 0, 'nothing is stored');

# ---- only changes are shown ----
remove_tree('few');
write_file("few/$_", $_) foreach 1 .. 3;
command('import', '-q', '-t', 'docs', 'few');
write_file('few/2', 'changed');
write_file('few/4', 'new');
is(ends(0, qr/2 same/, 'dry run', 'import', '--dry-run', '--replace', '-j', 1, '-t', 'docs', 'few'), "replaced 2\nput 4\n", 'shows changes');
is(ends(0, qr/2 same/, 'with --verbose', 'import', '--dry-run', '-v', '--replace', '-j', 1, '-t', 'docs', 'few'),
	"same 1\nreplaced 2\nsame 3\nput 4\n", 'all');
is(join(' ', map { $_->{name} // '-' } objects(ends(0, qr/"same":2/, 'JSON', 'import', '--json', '--dry-run', '--replace', '-j', 1, '-t', 'docs', 'few'))),
	'2 4 -', 'as well');
is(ends(0, qr/3 same/, 'dry run of an export', 'export', '--dry-run', '-t', 'docs', '--exclude', '2', 'few') =~ /same/, '', 'too')
  if command('import', '-q', '-t', 'docs', '--replace', 'few') == 0;

# ---- what holds for all files is said once ----
sql('TRUNCATE docs; CREATE ROLE reader LOGIN; GRANT SELECT ON docs TO reader');
write_file("more/$_", "file $_") foreach 1 .. 100;
write_file("more/long$_", bytes($_, 300_000)) foreach 1 .. 9;

# One test: an import stops with one message, and says how much it has not begun.
sub stops
{
	my ($reason, $name, @options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $shown, $said) = command('import', '-t', 'docs', @options, 'more');
	like("$status $shown$said", qr/^3 securefile: \S+: $reason\n(?:Hint: .*\n)?\Qsecurefile: stopped, since no file can be done: \E\d+ of \d+ files were not begun\nsecurefile: import: \d failed in [\d.]+ s\n$/, $name);
	return;
}
stops(qr/permission denied for table docs/, 'no permission', '-U', 'reader');
stops(qr/permission denied for column "document" of relation "docs"/, 'no permission, long files', '-U', 'reader', '--exclude', '[0-9]*');
stops(qr/permission denied for table docs/, 'one connection', '-U', 'reader', '-j', 1);
stops(qr/column "nothing" of relation "docs" does not exist/, 'a column that is not there', '--set', 'nothing=1');
{
	local $ENV{PGOPTIONS} = '-c default_transaction_read_only=on';
	stops(qr/cannot execute INSERT in a read-only transaction/, 'read-only transactions');
}
# a policy refuses some rows: not all
sql(q{CREATE ROLE clerk LOGIN; GRANT SELECT, INSERT ON docs TO clerk; ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
	CREATE POLICY seen ON docs FOR SELECT USING (true);
	CREATE POLICY kept ON docs FOR INSERT WITH CHECK (name !~ '^(1|long1)')});
ends(1, qr/: 96 put, 13 failed;/, 'a policy that refuses some', 'import', '-U', 'clerk', '-t', 'docs', 'more');
sql('ALTER TABLE docs DISABLE ROW LEVEL SECURITY');
# verbs that take names stop, too
ends(3, qr/^securefile: 2: permission denied for table docs\nsecurefile: rm: 1 failed in \S+ s\n$/, 'rm of several', 'rm', '-U', 'reader', '-t', 'docs', 2, 3, 4);
ends(1, qr/^securefile: 2: permission denied for table docs\nsecurefile: rm: 1 failed in \S+ s\n$/, 'rm of one', 'rm', '-U', 'reader', '-t', 'docs', 2);

done_testing();
