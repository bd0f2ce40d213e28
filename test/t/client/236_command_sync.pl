# The command securefile sync: the table becomes equal to a tree, or a tree equal to the table.
# A week of changes, beside rsync where it is; what is not deleted, and why; faults in the middle.
#
# SECUREFILE_SYNC_DAYS sets the length of the week.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use File::Find ();
use File::Path qw(make_path remove_tree);
use IPC::Run ();
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $days = $ENV{SECUREFILE_SYNC_DAYS} // 7;
my $node = new_cluster('sync');
need_faults($node);
my $dir = enter($node);

sub names { return sql(q{SELECT coalesce(string_agg(name, ' ' ORDER BY name COLLATE "C"), '') FROM docs}); }

# Paths of the regular files, links and directories below a directory.
sub paths
{
	my ($top) = @_;
	my @found;
	File::Find::find({ no_chdir => 1, wanted => sub { push @found, $1 if m{^\Q$top\E/(.*)}s } }, $top);
	return join ' ', sort @found;
}

# Make a tree of files with these contents.
sub plant
{
	my ($top, %files) = @_;
	remove_tree($top);
	make_path($top);
	write_file("$top/$_", $files{$_}) foreach keys %files;
	return;
}

sub store
{
	my (%files) = @_;
	plant('stored', %files);
	sql('TRUNCATE docs');
	command('import', '-q', '-t', 'docs', 'stored');
	return;
}

sub to_table { return ('sync', '-t', 'docs', '--to-table', @_); }
sub to_tree { return ('sync', '-t', 'docs', '--to-tree', @_); }

sql('CREATE TABLE docs (name text PRIMARY KEY, note text, document securefile)');

# ---- usage ----
my $both = qr/sync: say which side is changed: --to-table, .*--to-tree/;
ends(2, $both, 'neither side', 'sync', '-t', 'docs', 'tree');
ends(2, $both, 'both sides', 'sync', '-t', 'docs', '--to-table', '--to-tree', 'tree');
ends(2, qr/--max-delete wants a number from 0 to \d+, not "x"/, 'no number', to_table('--delete', '--max-delete', 'x', 'tree'));
ends(2, qr/--force and --max-delete need --delete/, "$_ without --delete", to_table($_, 'tree')) foreach '--force', '--max-delete=1';
ends(2, qr/sync wants DIR/, 'no directory', to_table());
ends(3, qr/could not open directory "nowhere": No such file/, 'a tree that is missing', to_table('nowhere'));
ends(3, qr/relation "nothing" does not exist/, 'a table that is missing', 'sync', '-t', 'nothing', '--to-tree', 'made');

# ---- to the table ----
plant('tree', 'a' => 'a', 'b' => 'b', 'sub/c' => 'c', 'sub/d' => bytes(1, 300_000));
is(ends(0, qr/4 put/, 'first time', to_table('-j', 1, 'tree')), "put a\nput b\nput sub/c\nput sub/d\n", 'shows what it puts');
is(ends(0, qr/4 same/, 'again', to_table('tree')), '', 'shows nothing');
like(ends(0, qr/4 same/, 'verbose', to_table('-v', 'tree')), qr/^same a$/m, 'shows what is the same');
write_file('tree/a', 'A');
unlink 'tree/b';
rename 'tree/sub/d', 'tree/e';
my @changes = ("replaced a\n", "put e\n", "removed b\n", "removed sub/d\n");
is(ends(0, qr/1 put, 1 replaced, 1 same/, 'without --delete', to_table('--dry-run', '-j', 1, 'tree')), join('', @changes[ 0, 1 ]), 'deletes nothing');
is(ends(0, qr/\(dry run\): 1 put, 1 replaced, 1 same, 2 removed/, 'dry run', to_table('--dry-run', '-j', 1, '--delete', 'tree')), join('', @changes), 'shows changes');
is(names(), 'a b sub/c sub/d', 'and makes none');
is(ends(0, qr/: 1 put, 1 replaced, 1 same, 2 removed/, 'for real', to_table('-j', 1, '--delete', 'tree')), join('', @changes), 'shows the same');
is(names(), 'a e sub/c', 'the table is equal');
ends(0, qr/: 3 same;/, 'says verify, too', 'verify', '-t', 'docs', '--against', 'tree');
my ($rc, $out, $err) = command(to_table('--json', '--delete', '--exclude', 'e', 'tree'));
is(join(' ', map { "$_->{summary} $_->{same} $_->{removed}" } objects($out)), 'sync 2 0', 'JSON');
is(names(), 'a e sub/c', 'what is left out is not deleted');
ends(0, qr/^$/, 'quiet', to_table('-q', '--delete', '--prefix', 'p/', '--set', 'note=x', 'tree'));
is(names(), 'a e p/a p/e p/sub/c sub/c', 'nothing in front of the prefix is deleted');
is(sql(q{SELECT count(*) FROM docs WHERE note = 'x'}), 3, '--set');
ends(0, qr/3 same, 3 removed/, 'but without it', to_table('--delete', 'tree'));

# a link is no file
symlink('a', 'tree/link');
rename 'tree/e', 'moved';
symlink('../moved', 'tree/e');
ends(0, qr/^removed e\n.*: 2 same, 1 removed, 2 skipped/s, 'a link in the place of a file', to_table('--delete', 'tree'));

# names that the table takes for equal
$node->safe_psql('postgres', 'CREATE EXTENSION citext; CREATE TABLE folded (name citext PRIMARY KEY, document securefile)');
plant('folded', 'Read.me' => 'x', 'other' => 'y');
command('sync', '-q', '-t', 'folded', '--to-table', 'folded');
rename 'folded/Read.me', 'folded/README';
rename 'folded/README', 'folded/READ.ME';
unlink 'folded/other';
ends(0, qr/^removed other\n.*: 1 same, 1 removed/s, 'another spelling', 'sync', '-t', 'folded', '--to-table', '--delete', 'folded');
is(sql('SELECT name FROM folded'), 'Read.me', 'is the same name');
sql(q{CREATE TABLE numbered (id int PRIMARY KEY, document securefile)});
plant('numbered', '007' => 'x', '8' => 'y');
ends(0, qr/2 put/, 'numbers', 'sync', '-t', 'numbered', '--to-table', '--delete', 'numbered');
unlink 'numbered/8';
ends(0, qr/^removed 8\n.*: 1 same, 1 removed/s, 'and their other forms', 'sync', '-t', 'numbered', '--to-table', '--delete', 'numbered');
sql(q{CREATE TABLE doubled (name text, document securefile); INSERT INTO doubled VALUES ('a', 'A'), ('b', 'x'), ('b', 'y')});
ends(1, qr/more than one row has the name "b"/, 'a name of several rows', 'sync', '-t', 'doubled', '-k', 'name', '--to-table', '--delete', 'tree', '--exclude', 'sub', '--exclude', '*i*');
is(sql(q{SELECT count(*) FROM doubled WHERE name = 'b'}), 2, 'stays');

# ---- to the tree ----
store('a' => 'a', 'b' => 'b', 'sub/c' => 'c', 'sub/deep/d' => bytes(2, 300_000));
is(ends(0, qr/4 got/, 'dry run to a new tree', to_tree('--dry-run', '-j', 1, '--delete', 'new')), "got a\ngot b\ngot sub/c\ngot sub/deep/d\n", 'shows what it writes');
ok(!-e 'new', 'and makes nothing');
ends(0, qr/4 got/, 'to a new tree', to_tree('--delete', 'new'));
trees_same('stored', 'new', 'equal');
ends(0, qr/4 same/, 'again', to_tree('--delete', 'new'));
write_file('new/a', 'other');
write_file("new/$_", 'surplus') foreach 'b2', 'sub/deep/e', 'own/x/y', 'own/x/z', 'own/w', 'kept/k.keep', 'kept/gone';
make_path('new/empty/inside', 'new/own/none');
symlink('../outside', 'new/link');
write_file('outside', 'outside');
ends(0, qr/: 1 replaced, 3 same, 1 skipped/, 'without --delete', to_tree('new'));
@changes = map { "removed $_\n" } qw(b2 kept/gone own/w own/x/y own/x/z sub/deep/e);
my @with = ('-j', 1, '--delete', '--exclude', '*.keep');
is(ends(0, qr/4 same, 6 removed/, 'dry run', to_tree('--dry-run', @with, 'new')), join('', @changes), 'shows changes');
is(ends(0, qr/4 same, 6 removed/, 'for real', to_tree(@with, 'new')), join('', @changes), 'shows the same');
is(paths('new'), 'a b empty empty/inside kept kept/k.keep link own own/none sub sub/c sub/deep sub/deep/d',
	'directories that became empty are gone; those that were, what is left out, and links are not');

# files in the place of directories, and the other way
store('file/in' => 1, 'dir' => 2, 'other' => 3);
plant('new', 'file' => 'x', 'dir/a' => 'x', 'dir/b/c' => 'x', 'dir-2' => 'x', 'dir.d/e' => 'x');
($rc, $out, $err) = command(to_tree('-j', 1, 'new'));
like("$rc $out$err", qr/^1 got other\nsecurefile: dir: not a regular file\nsecurefile: file\/in: could not open directory "file": Not a directory.*\n.*: 1 got, 2 failed/, 'what is in the way stays without --delete');
unlink 'new/other';
($rc, $out) = command(to_tree('-j', 1, '--delete', '--dry-run', 'new'));
my $plan = $out;
is("$rc " . join(' ', sort split /\n/, $out), '0 got dir got file/in got other removed dir-2 removed dir.d/e removed dir/a removed dir/b/c removed file', 'dry run');
is(ends(0, qr/3 got, 5 removed/, 'with it', to_tree('-j', 1, '--delete', 'new')), $plan, 'goes');
trees_same('stored', 'new', 'and the trees are equal');
plant('new', 'dir/a' => 'x', 'dir/b.keep' => 'x', 'file' => 'y');
($rc, $out, $err) = command(to_tree('-j', 1, '--delete', '--exclude', '*.keep', 'new'));
like("$rc $err", qr/^1 securefile: dir: not a regular file\n/, 'a directory that does not become empty stays');
is(paths('new'), 'dir dir/b.keep file file/in other', 'as it is');

# ---- what refuses deletions ----
my $empty = qr/^securefile: nothing is deleted, since the %s has no files\nHint: With --force, 3 files are deleted\.\n/m;
sub of { my ($pattern, $side) = @_; return qr/${\ ($pattern =~ s{%s}{$side}r)}/; }
remove_tree('new');
make_path('new');
ends(3, of($empty, 'tree'), 'an empty tree', to_table('--delete', 'new'));
ends(3, of($empty, 'tree'), 'dry run', to_table('--delete', '--dry-run', 'new'));
ends(3, qr/could not open directory "nowhere"/, 'a missing tree', to_table('--delete', 'nowhere'));
is(names(), 'dir file/in other', 'all is there');
ends(0, qr/3 removed/, 'a missing tree, --force', to_table('--delete', '--force', 'nowhere'));
ends(0, qr/no files/, 'and again, since there is nothing to delete', to_table('--delete', 'new'));
plant('new', '1' => 1, '2' => 2, '3' => 3);
ends(3, of($empty, 'table'), 'an empty table', to_tree('--delete', 'new'));
is(paths('new'), '1 2 3', 'all is there');
ends(0, qr/3 removed/, '--force', to_tree('--delete', '--force', 'new'));
is(paths('new'), '', 'nothing is there');

store(map { $_ => $_ } 1 .. 6);
plant('new', map { $_ => $_ } 1, 2, 7, 8, 9);
my $many = qr/^securefile: nothing is deleted: it would be 4 files, and --max-delete is 3$/m;
ends(3, $many, '--max-delete', to_table('--delete', '--max-delete', 3, 'new'));
is(names(), '1 2 3 4 5 6 7 8 9', 'what is new is there, and what is old');
ends(3, $many, '--max-delete, --force', to_table('--delete', '--force', '--max-delete', 3, 'new'));
ends(3, $many, '--max-delete, dry run', to_table('--delete', '--dry-run', '--max-delete', 3, 'new'));
ends(0, qr/4 removed/, 'one more', to_table('--delete', '--max-delete', 4, 'new'));
store(map { $_ => $_ } 1 .. 3);
plant('new', map { $_ => $_ } 1, 7, 8, 9, 10);
ends(3, $many, '--max-delete of a tree', to_tree('--delete', '--max-delete', 3, 'new'));
is(paths('new'), '1 10 2 3 7 8 9', 'what is new is there, and what is old');
ends(0, qr/4 removed/, 'one more', to_tree('--delete', '--max-delete', 4, 'new'));

# a tree that cannot be read
my $incomplete = qr/^securefile: nothing is deleted, since not all files could be copied\nHint: With --force/m;
store('a' => 'a', 'shut/b' => 'b', 'c' => 'c');
plant('new', 'a' => 'a', 'shut/b' => 'b', 'new' => 'new');
chmod 0, 'new/shut';
ends(1, $incomplete, 'a directory that cannot be read', to_table('--delete', 'new'));
is(names(), 'a c new shut/b', 'what is below stays');
chmod 0755, 'new/shut';
chmod 0, 'new/a';
ends(1, $incomplete, 'a file that cannot be read', to_table('--delete', 'new'));
ends(1, qr/^removed c$/m, '--force', to_table('--delete', '--force', 'new'));
chmod 0644, 'new/a';
ends(1, $incomplete, 'a link, as an error', to_table('--delete', '--links=error', 'tree'));
is(names(), 'a new shut/b sub/c', 'deletes nothing');

# ---- privileges ----
sql('CREATE ROLE reader LOGIN; GRANT SELECT ON docs TO reader; CREATE ROLE adder LOGIN; GRANT SELECT, INSERT, UPDATE ON docs TO adder');
ends(3, qr/^securefile: docs: could not delete rows: permission denied for table docs$/m, 'no privilege to delete', to_table('-U', 'adder', '--delete', 'new'));
ends(3, qr/^securefile: a: permission denied for table docs\nsecurefile: stopped, [^\n]*\nsecurefile: nothing is deleted, since not all files could be copied\nsecurefile: sync:/, 'nor to store, not even with --force', to_table('-j', 1, '--batch', 1, '-U', 'reader', '--delete', '--force', 'tree'));
is(names(), 'a new shut/b sub/c', 'nothing is deleted');
ends(0, qr/4 got/, 'a reader may write a tree', to_tree('-U', 'reader', '--delete', 'read'));
{
	local $ENV{PGOPTIONS} = '-c default_transaction_read_only=on';
	ends(3, qr/^securefile: docs: could not delete rows: cannot execute DELETE in a read-only transaction$/m, 'read-only', to_table('--delete', 'new'));
}
chmod 0555, 'new/shut';
store('a' => 'a');
ends(1, qr/^securefile: shut\/b: could not delete the file: Permission denied$/m, 'a directory that cannot be changed', to_tree('--delete', 'new'));
is(paths('new'), 'a shut shut/b', 'the other files are deleted');
chmod 0755, 'new/shut';

# ---- a race of links: what a link leads to is never deleted ----
store('a' => bytes(5, 300_000), 'keep/x' => 'x');
plant('new', 'sub/victim' => 'mine', 'sub2/victim' => 'mine', 'a' => 'old', 'keep/x' => 'x');
plant('safe', 'victim' => 'not mine', 'sub/victim' => 'not mine');
arm($node, 'io_read', 'wait');
my $run = IPC::Run::start([ 'securefile', to_tree('-j', 1, '--delete', 'new') ], '>', \$out, '2>', \$err);
wait_for_sql($node, q{SELECT securefile_fault_fired('io_read') > 0});
rename 'new/sub', 'taken';
symlink("$dir/safe", 'new/sub');
unlink 'new/sub2/victim';
symlink("$dir/safe/victim", 'new/sub2/victim');
disarm($node);
$run->finish;
like(status_of($run->full_result) . " $err", qr/^1 securefile: sub\/victim: could not open directory "sub": .*\nsecurefile: sub2\/victim: another program has put something else in its place\n/, 'links in the place of a directory and a file');
is(paths('safe'), 'sub sub/victim victim', 'lead to nothing that is deleted');
ok(-l 'new/sub' && -l 'new/sub2/victim', 'and stay');
is((stat 'safe/victim')[3], 1, 'as they were');

# the same while files are stored: nothing is read through such a link
plant('new', 'a' => 'a', 'sub/secret' => 'mine', 'z' => 'z');
plant('safe', 'secret' => 'not to be read');
store('a' => 'old');
my $holder = background($node);
$holder->set_query_timer_restart;
$holder->query_safe(q{BEGIN; UPDATE docs SET note = 'held' WHERE name = 'a'});

sub begin { return IPC::Run::start([ 'securefile', @_ ], '>', \$out, '2>', \$err); }
sub wait_for_lock { return wait_for_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event_type = 'Lock'}); }

$run = begin(to_table('-j', 1, '--batch', 1, '--delete', 'new'));
wait_for_lock();
rename 'new/sub', 'new/sub2';
symlink("$dir/safe", 'new/sub');
$holder->query_safe('ROLLBACK');
$run->finish;
like(status_of($run->full_result) . " $err", qr/^1 securefile: sub\/secret: could not open directory "sub": .*links are not followed/, 'a link in the place of a directory that is read');
is(names(), 'a z', 'is not followed');

# ---- faults in the middle ----
# a file that comes meanwhile is not deleted
store('a' => 'old', 'b' => 'b', 'c' => 'c');
plant('new', 'a' => 'a');
$holder->query_safe(q{BEGIN; UPDATE docs SET note = 'held' WHERE name = 'a'});
$run = begin(to_table('--delete', 'new'));
wait_for_lock();
write_file('new/b', 'b');
$holder->query_safe('ROLLBACK');
$run->finish;
is(status_of($run->full_result) . ' ' . names(), '0 a b', 'a file that comes while others are stored');

# a file that goes meanwhile is no failure, on both sides
store('a' => 'old', 'b' => 'b');
plant('new', 'a' => 'a', 'gone' => 'x', 'sub/gone' => 'x');
$holder->query_safe(q{BEGIN; UPDATE docs SET note = 'held' WHERE name = 'a'});
$run = begin(to_table('-j', 1, '--batch', 1, '--delete', 'new'));
wait_for_lock();
remove_tree('new/sub', 'new/gone');
$holder->query_safe('ROLLBACK');
$run->finish;
like(status_of($run->full_result) . " $err", qr/^0 securefile: sync: 1 replaced, 1 removed, 2 skipped;/, 'a file that goes while others are stored');
is(names(), 'a', 'is not stored, and others are deleted');
store('a' => bytes(5, 300_000));
plant('new', 'c' => 'c', 'sub/d' => 'd');
arm($node, 'io_read', 'wait');
$run = begin(to_tree('-j', 1, '--delete', 'new'));
wait_for_sql($node, q{SELECT securefile_fault_fired('io_read') > 0});
remove_tree('new/sub', 'new/c');
disarm($node);
$run->finish;
like(status_of($run->full_result) . " $err", qr/^0 securefile: sync: 1 got, 2 skipped;/, 'a surplus file that goes meanwhile');

# a file that another command stores meanwhile is looked at
foreach my $batch (1, 500)
{
	my @how = ('-j', 1, '--batch', $batch, 'new');
	foreach my $content ('n', 'other')
	{
		store();
		plant('new', 'm' => 'm', 'n' => 'n', 'o' => 'o');
		$holder->query_safe(qq{BEGIN; INSERT INTO docs (name, document) VALUES ('n', '$content')});
		$run = begin(to_table(@how));
		wait_for_lock();
		$holder->query_safe('COMMIT');
		$run->finish;
		my $says = $content eq 'n' ? '2 put, 1 same' : '2 put, 1 replaced';
		like(status_of($run->full_result) . " $err", qr/^0 securefile: sync: $says;/, "--batch $batch: another command stores $content");
	}
	sql(q{DELETE FROM docs WHERE name = 'n'});
	$holder->query_safe(q{BEGIN; INSERT INTO docs (name, document) VALUES ('n', 'other')});
	$run = begin('import', '-t', 'docs', @how);
	wait_for_lock();
	$holder->query_safe('COMMIT');
	$run->finish;
	like(status_of($run->full_result) . " $err", qr/^1 securefile: n: another file of that name is stored already\n/, "--batch $batch: import does not replace it");
}

# more directories than the stack and the open files allow
remove_tree('deep');
mkdir 'deep';
chdir 'deep';
foreach (0 .. 2001) { mkdir 'd'; chdir 'd' }
chdir $dir;
write_file('deep/file', 'x');
my $limited = 'ulimit -s 4096; ulimit -n 4096; exec securefile sync -t docs --to-table deep';
IPC::Run::run([ 'sh', '-c', $limited ], '>', \$out, '2>', \$err);
like(status_of($?) . " $err", qr{^1 securefile: d(/d)+: (more than 2000 directories above it|could not open the directory: Too many open files)\n.*: 1 put, 1 failed}s, 'a tree that is too deep');
system('rm', '-rf', 'deep');

# kill -9 while files are stored, and while rows are deleted; a server that goes
foreach my $step ('storing', 'deleting')
{
	foreach my $how ('KILL', 'INT', 'session', 'server')
	{
		store('a' => 'old', 'b' => 'b', 'c' => 'c');
		plant('new', 'a' => $step eq 'storing' ? 'a' : 'old', 'n' => 'n');
		my $held = $step eq 'storing' ? 'a' : 'c';
		$holder->query_safe(qq{BEGIN; UPDATE docs SET note = 'held' WHERE name = '$held'});
		$run = begin(to_table('-j', 1, '--batch', 1, '--delete', 'new'));
		wait_for_lock();
		if ($how eq 'server')
		{
			$node->stop('immediate');
			eval { $run->finish };
			eval { $holder->quit };
			$node->start;
			$holder = background($node);
			$holder->set_query_timer_restart;
			is(status_of($run->full_result), $step eq 'storing' ? 3 : 1, "$step, the server stops");
		}
		elsif ($how eq 'session')
		{
			sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile'});
			$run->finish;
			is(status_of($run->full_result), 1, "$step, the session ends");
			like($err, $step eq 'storing' ? $incomplete : qr/^securefile: docs: could not delete rows: (terminating|server closed the) connection/m, 'says so');
			$holder->query_safe('ROLLBACK');
		}
		else
		{
			$run->signal($how);
			eval { $run->finish };
			is(status_of($run->full_result), $how eq 'KILL' ? 137 : 130, "$step, SIG$how");
			$holder->query_safe('ROLLBACK');
			wait_for_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'securefile'});
		}
		like(names(), qr/^a b c( n)?$/, 'nothing is deleted');
		ends(0, qr/2 removed/, 'the next run does the rest', to_table('--delete', 'new'));
		is(names(), 'a n', 'and the table is equal');
	}
}
# and of a tree: files that are not complete are not there, and nothing is deleted
foreach my $how ('KILL', 'TERM')
{
	store('a' => bytes(5, 300_000), 'b' => 'b');
	plant('new', 'c' => 'c', 'sub/d' => 'd');
	arm($node, 'io_read', 'wait');
	$run = begin(to_tree('-j', 1, '--delete', 'new'));
	wait_for_sql($node, q{SELECT securefile_fault_fired('io_read') > 0});
	$run->signal($how);
	eval { $run->finish };
	disarm($node);
	is(join(' ', grep { !/securefile/ } split / /, paths('new')), 'c sub sub/d', "SIG$how while a file is written");
	ends(0, qr/2 got, [23] removed/, 'the next run does all', to_tree('--delete', 'new'));
	trees_same('stored', 'new', 'and takes what SIGKILL has left');
}

# a full disk of the server, and a file that changes
store('a' => 'a', 'b' => 'b');
plant('new', 'a' => 'a', map { $_ => bytes($_, 300_000) } 1 .. 9);
arm($node, 'io_write', 'enospc', times => -1);
($rc, $out, $err) = command(to_table('-j', 1, '--delete', 'new'));
disarm($node);
like("$rc $err", qr/^3 securefile: \d: could not .*No space left.*\n(.*\n)*securefile: stopped, since no file can be done/, 'a full disk of the server') or diag($err);
like(names(), qr/^a b\b/, 'deletes nothing');
plant('new', 'a' => 'a', 'busy' => bytes(8, 8_000_000));
arm($node, 'io_write', 'wait');
$run = begin(to_table('-j', 1, '--batch', 1, '--delete', 'new'));
wait_for_sql($node, q{SELECT securefile_fault_fired('io_write') > 0});
open(my $busy, '>>', 'new/busy') or die "could not open a file: $!";
print $busy 'more';
close $busy;
disarm($node);
$run->finish;
like(status_of($run->full_result) . " $err", qr/^1 securefile: busy: the file changed while it was read\n.*nothing is deleted, since/s, 'a file that changes');

# ---- a week ----
srand 4;
my %tree;
my $number = 0;

sub any { my @all = sort keys %tree; return $all[ rand @all ]; }
sub fresh { my $n = ++$number; return ('', 'x/', 'x/y/', 'z/' . ($n % 5) . '/')[ rand 4 ] . "f$n" . ('', '.log', ' 1')[ rand 3 ]; }
sub grow { my ($path) = @_; $tree{$path} = bytes(rand 1e6, int rand rand 400_000); write_file("week/$path", $tree{$path}); return; }

# Remove a file, and the directories that become empty: no side keeps those.
sub shrink
{
	my ($path) = @_;
	delete $tree{$path};
	unlink "week/$path" or die "$path: $!";
	rmdir "week/$path" while $path =~ s{/[^/]*$}{};
	return;
}

my @daily = (
	sub { grow(fresh()); },
	sub { shrink(any()); },
	sub { my ($from, $to) = (any(), fresh()); my $content = $tree{$from}; shrink($from); $tree{$to} = $content; write_file("week/$to", $content); },
	sub { grow(any()); },
	sub { utime(undef, undef, 'week/' . any()); },
	sub { chmod((0600, 0644, 0755)[ rand 3 ], 'week/' . any()); },
	sub { my $path = any(); my $content = $tree{$path}; shrink($path); $tree{"$path/in"} = $content; write_file("week/$path/in", $content); },
	sub { symlink(any(), 'week/link' . ++$number) or die $!; },
	sub { my ($link) = glob 'week/link*'; unlink $link if defined $link; },
);
# Files with their modes and times, which are kept in microseconds, and links with their targets.
sub details
{
	my ($top) = @_;
	my ($out) = run_command([ 'find', $top, '-type', 'f', '-printf', '%P %m %T@\n', '-o', '-type', 'l', '-printf', '%P -> %l\n' ]);
	return join "\n", sort map { s/(\.\d{6})\d*$/$1/r } split /\n/, $out;
}

# that compares times to the nanosecond: two changes may come in one second
my @rsync = ('rsync', '-a', '--modify-window=-1');
my $has_rsync = system('rsync --version >/dev/null 2>&1') == 0;
my @all = ('-t', 'kept', '--delete', '--meta', '--links=keep');
plant('week');
ends(0, qr/./, 'a table with times, modes and links', 'init', '-t', 'kept', '--meta');
grow(fresh()) for 1 .. 40;
sql('TRUNCATE docs');
foreach my $day (1 .. $days)
{
	$daily[ rand @daily ]->() for 1 .. 12;
	my ($status, undef, $said) = command(to_table('--delete', 'week'));
	is($status, 0, "day $day, to the table") or diag($said);
	is(join("\n", sort split /\n/, sql('SELECT name FROM docs')), join("\n", sort keys %tree), 'has the files');
	($status, undef, $said) = command(to_tree('--delete', 'copy'));
	is($status, 0, 'to a tree') or diag($said);
	foreach my $way ([ '--to-table', 'week' ], [ '--to-tree', 'whole' ])
	{
		($status, undef, $said) = command('sync', @all, @$way);
		is($status, 0, "$way->[0] with all") or diag($said);
	}
	if ($has_rsync)
	{
		system(@rsync, '--delete', 'week/', 'whole_mirror') == 0 or die "rsync: $?";
		is(details('whole'), details('whole_mirror'), 'times, modes and links as rsync makes them');
		system(@rsync, '--no-links', '--delete', 'week/', 'mirror') == 0 or die "rsync: $?";
		trees_same('mirror', 'copy', 'as rsync makes it');
	}
	else
	{
		is(details('whole'), details('week'), 'times, modes and links as they are');
		ok((!grep { slurp_file("copy/$_") ne $tree{$_} } keys %tree), 'as it is');
	}
}
like(ends(0, qr/same/, 'all again, quickly', 'sync', @all, '--quick', '--to-table', 'week'), qr/^$/, 'changes nothing');
like(ends(0, qr/same/, 'and back', 'sync', @all, '--quick', '--to-tree', 'whole'), qr/^$/, 'changes nothing');
sound($node, 'docs', 'in the end', column => 'document');

done_testing();
