# securefile dump: what it syncs to the disk and when; killed at random moments, two at once, beside --prune, with other machines, in a
# directory that is full, without a server: what there is of dumps is complete, and nothing is lost.
# SECUREFILE_DUMP_KILLS: how often it is killed (10).
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
use Time::HiRes qw(usleep);

my $kills = $ENV{SECUREFILE_DUMP_KILLS} // 10;
my $seed = $ENV{SECUREFILE_SEED} // time;
srand $seed;
my $node = new_cluster('dump_broken');
enter($node);
sql(q{CREATE TABLE docs (id int PRIMARY KEY, document securefile(hash)); CREATE TABLE copy (LIKE docs INCLUDING ALL);
	CREATE TABLE locked (id int PRIMARY KEY, document securefile(hash)); INSERT INTO locked VALUES (1, 'x');
	CREATE PROCEDURE change(round int) LANGUAGE sql AS $$
		INSERT INTO docs SELECT i, blob(i * 1000 + round, (i * 7919) % 40000) FROM generate_series(1, 60) i WHERE round = 0 OR (i + round) % 7 = 0
		ON CONFLICT (id) DO UPDATE SET document = excluded.document $$;
	CALL change(0)});

sub start
{
	my (@args) = @_;
	my %run = (out => '', err => '');
	$run{handle} = IPC::Run::start([ 'securefile', @args ], '<', '/dev/null', '>', \$run{out}, '2>', \$run{err});
	$run{pid} = $run{handle}->{KIDS}[0]{PID};
	return \%run;
}

sub finish
{
	my ($run) = @_;
	$run->{handle}->finish;
	return status_of($run->{handle}->full_result(0) // 0);
}

sub rows { return sql("SELECT md5(string_agg(md5(t::text), '' ORDER BY id)) FROM $_[0] t"); }

sub dumps { return split /\n/, (command('dump', '--list', $_[0]))[1]; }

# ---- SIGKILL ----
my ($killed, $wrong, $slowest) = (0, 0, 0);
foreach my $round (1 .. $kills)
{
	sql("CALL change($round)");
	my $run = start('dump', '-q', '-t', 'docs', 'd');
	usleep(int rand(120_000));
	kill 'KILL', $run->{pid};
	$killed++ if finish($run) == 137;
	next unless $round % 5 == 0 || $round == $kills;
	# what there is, if there is anything, is complete, and the next dump is equal to the table
	my ($rc, $out, $err) = (0, '', '');
	($rc, $out, $err) = command('dump', '-q', '--check', 'd') if -d 'd/leases';
	my $check = $rc;
	($rc, $out, $err) = command('dump', '-q', '-t', 'docs', 'd') unless $check;
	my $dump = $rc;
	($rc, $out, $err) = command('restore', '-q', '--replace', '-t', 'copy', '--from', 'public.docs', 'd') unless $dump;
	$wrong++ if $check || $dump || $rc || rows('copy') ne rows('docs');
	diag("round $round: check $check, dump $dump, restore $rc: $err") if $check || $dump || $rc;
}
is($wrong, 0, "$killed dumps were killed: check, dump and restore are right") or diag("seed $seed");
ends(0, qr/removed/, 'prune', 'dump', '--prune', 'd', '--keep', 1);
is(temporaries('d'), 0, 'removes what killed dumps have left');
ends(0, qr/sound/, 'and leaves what is needed', 'dump', '--check', 'd');

# ---- two at once ----
my @two = map { start('dump', '-q', '-t', 'docs', 'two') } 1, 2;
is_deeply([ map { finish($_) } @two ], [ 0, 0 ], 'two dumps at once');
is(scalar dumps('two'), 2, 'there are both');
ends(0, qr/sound/, 'and are sound', 'dump', '--check', 'two');

# ---- beside --prune: a dump that has found and made objects, and waits for a table ----
my $locker = background($node);

sub waiting_dump
{
	my (@args) = @_;
	$locker->query_safe('BEGIN; LOCK TABLE locked');
	my $run = start('dump', '--all', @args);
	wait_for_sql($node, q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'locked'::regclass AND NOT granted}) or die 'the dump does not wait';
	return $run;
}

command('dump', '-q', '-t', 'docs', 'p');
sql('CALL change(1000)');
my $run = waiting_dump('p');
ends(3, qr/works in this directory.*Hint: Prune when/s, 'prune beside a dump is refused', 'dump', '--prune', 'p', '--keep', 1);
is(scalar dumps('p'), 1, 'an unfinished dump is none');
# on a network file system the lock may not reach the other machine, but the lease does
rename 'p/lock', 'lock';
my ($rc, $out, $err) = command('dump', '--prune', 'p', '--keep', 1);
like("$rc $err", qr/^3 .*process $run->{pid} of host/s, 'nor without a lock, because of the lease');
rename 'lock', 'p/lock';
rename 'p/leases', 'leases';
mkdir 'p/leases';
ends(3, qr/another command works in this directory/, 'nor without a lease, because of the lock', 'dump', '--prune', 'p', '--keep', 1);
rmdir 'p/leases';
rename 'leases', 'p/leases';
$locker->query_safe('COMMIT');
is(finish($run), 0, 'the dump ends well');
ends(0, qr/1 removed/, 'then prune works', 'dump', '--prune', 'p', '--keep', 1) if dumps('p') == 2;
ends(0, qr/sound/, 'all objects are there', 'dump', '--check', 'p');

# an object goes nevertheless
sql('CALL change(2000)');
$run = waiting_dump('p');
unlink grep { -f } glob 'p/objects/*/*';
$locker->query_safe('COMMIT');
is(finish($run), 3, 'a dump whose objects have gone is none');
like($run->{err}, qr/has gone while the dump ran\nHint: /, 'says so');
like((command('dump', '--check', 'p'))[2], qr/missing, or not \d+ bytes long\nHint: /, '--check finds it, too');
ends(0, qr/got/, 'the next dump fetches them again', 'dump', '--all', 'p');
utime time - 7200, time - 7200, grep { -d } glob 'p/objects/*';
$run = waiting_dump('p');
unlink((glob 'p/objects/*/*')[0]);
$locker->query_safe('COMMIT');
is(finish($run), 3, 'one that goes from a directory that was not changed for long');
ends(0, qr/ 1 got/, 'is fetched again, too', 'dump', '--all', 'p');

# ---- leases of other machines ----
mkdir 'p/leases';
write_file('p/leases/other', '{"host":"elsewhere","pid":7,"prune":false}');
ends(3, qr/process 7 of host "elsewhere"/, 'a command on another machine', 'dump', '--prune', 'p', '--keep', 1);
write_file('p/leases/other', '{"host":"elsewhere","pid":7,"prune":true}');
my @lists = glob 'p/dumps/*.jsonl';
$run = start('dump', '-q', '-t', 'docs', 'p');
command('dump', '-q', '-t', 'docs', 'two') foreach 1, 2;
is_deeply([ glob 'p/dumps/*' ], \@lists, 'a dump waits for --prune on another machine');
unlink 'p/leases/other';
is(finish($run), 0, 'and goes on when it has gone');
write_file('p/leases/other', '{"host":"elsewhere","pid":7,"prune":true}');
utime time - 7200, time - 7200, 'p/leases/other';
ends(0, qr/same/, 'a lease that nobody has touched for long', 'dump', '-t', 'docs', 'p');
ok(!-e 'p/leases/other', 'is removed');

# ---- what is on the disk when ----
write_file('trace.c', <<'C');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void
note(const char *operation, int fd, const char *name)
{
	char		link[64], path[4096];
	FILE	   *trace = fopen(getenv("TRACE"), "a");
	ssize_t		length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path));
	fprintf(trace, "%s %.*s%s%s\n", operation, (int) length, path, name ? "/" : "", name ? name : "");
	fclose(trace);
}

#define SYNC(name) \
int name(int fd) \
{ \
	note(#name, fd, NULL); \
	return ((int (*) (int)) dlsym(RTLD_NEXT, #name)) (fd); \
}
SYNC(fsync)
SYNC(fdatasync)
SYNC(syncfs)

int
renameat(int d1, const char *from, int d2, const char *to)
{
	note("rename", d2, to);
	return ((int (*) (int, const char *, int, const char *)) dlsym(RTLD_NEXT, "renameat")) (d1, from, d2, to);
}

int
renameat2(int d1, const char *from, int d2, const char *to, unsigned flags)
{
	note("rename", d2, to);
	return ((int (*) (int, const char *, int, const char *, unsigned)) dlsym(RTLD_NEXT, "renameat2")) (d1, from, d2, to, flags);
}
C
is(system('cc -shared -fPIC -o trace.so trace.c -ldl'), 0, 'compiled');
chomp(my $here = `pwd -P`);

sub traced
{
	unlink 'trace';
	local @ENV{qw(LD_PRELOAD TRACE)} = ("$here/trace.so", "$here/trace");
	ends(0, qr/3 (got|same)/, 'a dump that is watched', 'dump', '-t', 'durable', '-j', 1, 'traced');
	return join '', map { s{ \Q$here\E/traced/?}{ }r =~ s/\.securefile-\w+/new/r =~ s/\d{4}-.*Z/dump/r } split /^/, slurp_file('trace');
}

sql(q{CREATE TABLE durable (id int PRIMARY KEY, document securefile(hash)); INSERT INTO durable SELECT i, blob(i, i * i * 100000) FROM generate_series(2, 4) i});
my @objects = split /\n/, sql(q{SELECT regexp_replace(encode(securefile_digest(document), 'hex'), '^(..)', 'objects/\1/') FROM durable ORDER BY id});
my $end = join '', map { "$_\n" } 'fsync dumps/new.tmp', 'fsync objects', 'fsync ', (sort map { 'fsync ' . substr($_, 0, 10) } @objects), 'rename dumps/dump.jsonl', 'fsync dumps';
is(traced(), join('', map { "$_\n" } 'fdatasync objects/new.tmp', "rename $objects[2]", 'syncfs objects', "rename $objects[0]", "rename $objects[1]") . $end,
	'an object is on the disk before it has its name, all of them and their directories before the list has its');
is(traced(), $end, 'a dump that finds objects does not take for granted that another one has synced their names');

# ---- what a power cut may leave, a full disk, a server that goes ----
command('dump', '-q', '-t', 'docs', 'two');
my $object = sql(q{SELECT regexp_replace(encode(securefile_digest(document), 'hex'), '^(..)', 'two/objects/\1/') FROM docs WHERE length(document) > 1000 LIMIT 1});
truncate $object, 10 or die "$object: $!";
ends(0, qr/1 got/, 'an object of another length is fetched again', 'dump', '-t', 'docs', 'two');
{
	local $SIG{XFSZ} = 'IGNORE';
	($out, $err) = ('', '');
	IPC::Run::run([ 'sh', '-c', 'ulimit -f 8 && exec securefile dump -t docs full' ], '>', \$out, '2>', \$err);
	is(status_of($?), 3, 'a file that cannot be written ends the dump');
	like($err, qr/could not write the (object|manifest): File too large/, 'with the reason');
}
is(scalar dumps('full'), 0, 'it is none');
is(temporaries('full'), 0, 'no temporary file is left');
$run = waiting_dump('gone');
sql(q{SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile') t});
is(finish($run), 3, 'a server that ends the session');
is(scalar dumps('gone'), 0, 'there is no dump');
$locker->query_safe('COMMIT');
$run = waiting_dump('gone');
kill 'TERM', $run->{pid};
is(finish($run), 143, 'SIGTERM');
is(temporaries('gone'), 0, 'no temporary file and no lease is left');
$locker->query_safe('COMMIT');
$locker->quit;

# ---- restore, killed ----
sql('TRUNCATE copy');
foreach (1 .. 3)
{
	$run = start('restore', '-q', '-t', 'copy', '--from', 'public.docs', 'p');
	usleep(int rand(100_000));
	kill 'KILL', $run->{pid};
	finish($run);
}
ends(0, qr/put|same/, 'a restore goes on', 'restore', '-t', 'copy', '--from', 'public.docs', 'p');
is(rows('copy'), rows('docs'), 'to the end');

# ---- a connection that is lost in the middle of a batch ----
sql(q{TRUNCATE copy}, q{CREATE SEQUENCE times}, q{CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN IF nextval('times') = 30 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$},
	q{CREATE TRIGGER leave BEFORE INSERT ON copy FOR EACH ROW EXECUTE FUNCTION leave()});
ends(0, qr/ 60 put/, 'a restore makes it again, once', 'restore', '-t', 'copy', '--from', 'public.docs', 'p', '-j', 1);
is(rows('copy'), rows('docs'), 'and leaves out no row');
sql(q{TRUNCATE copy}, q{CREATE OR REPLACE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN IF NEW.id IN (20, 21) THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$});
ends(1, qr/^securefile: 2[01]: .*^securefile: 2[01]: .* 58 put, 2 failed/ms, 'a row that costs the connection costs only itself', 'restore', '-t', 'copy', '--from', 'public.docs', 'p', '-j', 1);

$node->stop;
done_testing();
