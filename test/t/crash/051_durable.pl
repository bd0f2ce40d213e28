# Promise 2, rules 2 and 5: the order of what reaches the disk, which killing
# processes cannot show.  A library loaded before the server's own writes down
# each write, flush and removal; here it is checked that nothing counts before
# what it rests upon is durable.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('durable',
	start => 0,
	# with the syncer, data of logging columns may be durable later: 183_syncer, 184_syncer_power
	conf => [ 'fsync = on', 'securefile.monitor = off', 'securefile.syncer = off', 'wal_buffers = 64MB', 'wal_writer_delay = 10s',
		'wal_writer_flush_after = 16GB', 'checkpoint_timeout = 1h', 'max_wal_size = 4GB', 'wal_sync_method = fdatasync' ]);
my $dir = $node->basedir;
my $trace = "$dir/trace";

open(my $fh, '>', "$dir/trace.c") or die $!;
print $fh <<'C';
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <liburing.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static void
note(const char *what, const char *path)
{
	char		line[600];
	int			fd = open(getenv("TRACE"), O_WRONLY | O_APPEND | O_CREAT, 0600);
	int			n = snprintf(line, sizeof(line), "%d %s %s\n", (int) getpid(), what, path);

	if (fd >= 0 && write(fd, line, n) != n)
		abort();
	close(fd);
}

static void
note_fd(const char *what, int fd)
{
	char		link[64];
	char		path[512];
	ssize_t		n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = '\0';
	note(what, path);
}

#define REAL(type, name) type (*real) () = (type (*) ()) dlsym(RTLD_NEXT, #name)

ssize_t
pwrite(int fd, const void *buf, size_t len, off_t at)
{
	REAL(ssize_t, pwrite);
	note_fd("write", fd);
	return real(fd, buf, len, at);
}

ssize_t
pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	REAL(ssize_t, pwritev2);
	ssize_t		done = real(fd, iov, n, at, flags);

	note_fd(flags & RWF_DSYNC ? "durable" : "write", fd);
	return done;
}

int
io_submit(io_context_t context, long n, struct iocb **cbs)
{
	REAL(int, io_submit);

	for (long i = 0; i < n; i++)
		if (cbs[i]->aio_lio_opcode == IO_CMD_PWRITE)
			note_fd(cbs[i]->aio_rw_flags & RWF_DSYNC ? "durable" : "write", cbs[i]->aio_fildes);
	return real(context, n, cbs);
}

int
io_getevents(io_context_t context, long min, long max, struct io_event *events, struct timespec *timeout)
{
	REAL(int, io_getevents);
	int			n = real(context, min, max, events, timeout);

	for (int i = 0; i < n; i++)
		if (events[i].obj->aio_lio_opcode == IO_CMD_PWRITE)
			note_fd("reaped", events[i].obj->aio_fildes);
	return n;
}

int
io_setup(int depth, io_context_t *context)
{
	REAL(int, io_setup);
	return getenv("REFUSE") ? -EPERM : real(depth, context);
}

int
io_uring_queue_init(unsigned depth, struct io_uring *ring, unsigned flags)
{
	REAL(int, io_uring_queue_init);
	return getenv("REFUSE") ? -EPERM : real(depth, ring, flags);
}

int
io_uring_submit(struct io_uring *ring)
{
	REAL(int, io_uring_submit);

	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++)
	{
		struct io_uring_sqe *sqe = &ring->sq.sqes[i & *ring->sq.kring_mask];

		if (sqe->opcode == IORING_OP_WRITE)
			note_fd(sqe->rw_flags & RWF_DSYNC ? "durable" : "write", sqe->fd);
	}
	return real(ring);
}

int
fallocate(int fd, int mode, off_t at, off_t len)
{
	REAL(int, fallocate);

	note_fd("write", fd);
	return real(fd, mode, at, len);
}

int
fdatasync(int fd)
{
	REAL(int, fdatasync);
	int			rc = real(fd);

	note_fd("sync", fd);
	return rc;
}

int
fsync(int fd)
{
	REAL(int, fsync);
	int			rc = real(fd);

	note_fd("sync", fd);
	return rc;
}

int
truncate(const char *path, off_t len)
{
	REAL(int, truncate);
	note("cut", path);
	return real(path, len);
}

int
unlink(const char *path)
{
	REAL(int, unlink);
	note("remove", path);
	return real(path);
}
C
close $fh;
plan skip_all => 'no compiler' if system("cc -shared -fPIC -o $dir/trace.so $dir/trace.c -ldl") != 0;

sub start_traced
{
	local $ENV{LD_PRELOAD} = "$dir/trace.so";
	local $ENV{TRACE} = $trace;
	$node->start;
	return;
}
start_traced();
SecurefileTest::prepare_database($node, 'postgres');
# it flushes WAL every ten seconds, and a session that finds that done does not
stop_walwriter($node);

# What a session did, as [ operation, path ]; the statements before $mark are
# left out.
my $seen = 0;
sub traced
{
	my ($pid) = @_;
	open(my $in, '<', $trace) or die $!;
	seek($in, $seen, 0);
	my @events = map { [ (split)[ 1, 2 ] ] } grep { !$pid || /^$pid / } <$in>;
	$seen = tell $in;
	close $in;
	return grep { $_->[1] =~ m{pg_wal/[0-9A-F]{24}|pg_securefile} } @events;
}

# Run SQL in a session of its own; what it did.
sub session
{
	my ($sql, $settings) = @_;
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_safe($settings) if $settings;
	traced();
	$session->query_safe($sql);
	my @events = traced($pid);
	$session->quit;
	return @events;
}

# Files with data that was written and not made durable when WAL is written.
sub early
{
	my (@events) = @_;
	my (%open, @early);
	foreach my $event (@events)
	{
		my ($what, $path) = @$event;
		push @early, sort keys %open if $what eq 'write' && $path =~ /pg_wal/;
		next if $path !~ /(\.sf|kept\.new)$/;
		$open{$path} = 1 if $what eq 'write';
		delete $open{$path} if $what eq 'sync';
	}
	return @early, sort keys %open;
}

sub count
{
	my ($like, @events) = @_;
	return scalar(grep { "@$_" =~ $like } @events);
}

# ---- a commit: data first, then its record ----
foreach my $method ('sync', 'libaio', 'io_uring')
{
	foreach my $options ('', 'filesystem_like_logging', 'cache')
	{
		my $t = 't_' . ($options =~ /^(\w+)/ ? $1 : 'logging') . "_$method";
		my $name = "$method, " . ($options || 'logging');
		my $set = "SET securefile.io_method = $method";
		make_table($node, $t, $options);
		# what has no files yet gets them behind a flush
		fill($node, $t, -30, -30, 150_000);
		# a commit that does not wait for its own record waits for the data all the same
		my @async = session("INSERT INTO $t SELECT i, i, 150000, blob(i, 150000) FROM generate_series(-20, 0) i",
			"$set; SET synchronous_commit = off");
		cmp_ok(count(qr/^(write|durable) .*\.sf$/, @async), '>', 0, "$name, asynchronous: written");
		is_deeply([ early(@async) ], [], "$name, asynchronous: durable");
		is(count(qr/^sync .*pg_wal/, @async), 0, "$name, asynchronous: WAL not flushed");
		foreach my $case ([ 'one value', 1, 50_000 ], [ 'many values', 60, 150_000 ], [ 'a large value', 1, 30_000_000 ])
		{
			my ($what, $n, $len) = @$case;
			my @events = session(
				"INSERT INTO $t SELECT coalesce((SELECT max(id) FROM $t), 0) + i, i, $len, blob(i, $len) FROM generate_series(1, $n) i",
				$set);
			is_deeply([ early(@events) ], [], "$name, $what: durable before WAL is written");
			cmp_ok(count(qr/^(write|durable) .*\.sf$/, @events), '>', 0, "$name, $what: written");
			cmp_ok(count(qr/^sync .*pg_wal/, @events), '>', 0, "$name, $what: and WAL flushed");
			my ($first, $last) = (0, 0);
			foreach my $i (0 .. $#events)
			{
				$first ||= $i if $events[$i][1] =~ /pg_wal/ && $events[$i][0] eq 'write';
				$last = $i if "@{$events[$i]}" =~ /^(write|durable) .*\.sf$/;
			}
			cmp_ok($last, '<', $first, "$name, $what: all data before the first of WAL") if $what eq 'one value' && count(qr/sync .*\.sf/, @events) == 0;
		}
		my @events = session("BEGIN; UPDATE $t SET doc = blob(id, 400000) WHERE id < 30; PREPARE TRANSACTION '$t'", $set);
		is_deeply([ early(@events) ], [], "$name, PREPARE TRANSACTION: durable before WAL is written");
		$node->safe_psql('postgres', "ROLLBACK PREPARED '$t'");
	}
}

# ---- several segments in one transaction: the file of each ----
make_table($node, $_, 'filesystem_like_logging') foreach ('left_one', 'right_one');
# their first growth flushes WAL, too
fill($node, $_, 0, 0, 9000) foreach ('left_one', 'right_one');
my @both = session('BEGIN; ' . join('; ', map { "INSERT INTO $_ SELECT i, i, 150000, blob(i, 150000) FROM generate_series(1, 20) i" }
		('left_one', 'right_one')) . '; COMMIT');
is_deeply([ early(@both) ], [], 'two segments: durable before WAL is written');
my %written = map { $_->[1] => 1 } grep { "@$_" =~ /^write .*\.sf$/ } @both;
is(scalar(keys %written), 2, 'two segments: written');

# ---- rule 2: what was freed is overwritten, cut or removed only when the record
# that freed it is durable, though the transactions themselves did not wait ----
my $async = 'SET synchronous_commit = off';

# Did the session flush WAL before it first did that?
sub flushed_before
{
	my ($like, @events) = @_;
	foreach my $event (@events)
	{
		return 1 if $event->[0] eq 'sync' && $event->[1] =~ /pg_wal/;
		return 0 if "@$event" =~ $like;
	}
	return 'never';
}
make_table($node, 'reused', 'filesystem_like_logging');
fill($node, 'reused', 1, 4, 900_000);
settle($node, 'reused', 'doc');
fill($node, 'reused', 5, 5, 900_000);		# keeps the tail
my @events = session(
	"DELETE FROM reused WHERE id <= 4;\nSELECT securefile_maintain('reused', 'doc');\n"
	  . 'INSERT INTO reused VALUES (20, 20, 3000000, blob(20, 3000000))',
	$async);
is(flushed_before(qr/^(write|durable) .*\.sf$/, @events), 1, 'freed blocks overwritten after a flush');
# also when all before that record is durable already
@events = session("SELECT securefile_maintain('reused', 'doc');\nINSERT INTO reused VALUES (21, 21, 3000000, blob(21, 3000000))",
	"DELETE FROM reused WHERE id = 20;\n$async");
is(flushed_before(qr/^(write|durable) .*\.sf$/, @events), 1, 'freed blocks overwritten after a flush of that record');

fill($node, 'reused', 30, 39, 9_000_000);
@events = session("DELETE FROM reused WHERE id >= 30;\nSELECT securefile_maintain('reused', 'doc');\nSELECT securefile_maintain('reused', 'doc')",
	$async);
is(flushed_before(qr/^cut .*\.sf$/, @events), 1, 'tail cut after a flush');

@events = session('TRUNCATE reused', $async);
is(flushed_before(qr/^(cut|remove) .*\.sf$/, @events), 1, 'TRUNCATE: files removed after a flush');
@events = session('DROP TABLE reused', $async);
is(flushed_before(qr/^(cut|remove) .*\.sf$/, @events), 1, 'DROP: files removed after a flush');

# ---- new files: the names are durable too ----
@events = session('CREATE TABLE fresh (id int PRIMARY KEY, seed int, len int, doc securefile)', $async);
is(count(qr{pg_securefile}, @events), 0, 'CREATE: no file is made');
@events = session('INSERT INTO fresh VALUES (0, 0, 5000, blob(0, 5000))', $async);
is(flushed_before(qr/^write .*\.sf$/, @events), 1, 'first value: its file comes after a flush');
cmp_ok(count(qr/^sync .*\.sf$/, @events), '>', 0, 'first value: the file is flushed');
cmp_ok(count(qr{^sync .*pg_securefile/\d+/\d+/\d+$}, @events), '>', 0, 'first value: and its directory');
cmp_ok(count(qr{^sync .*pg_securefile/\d+/\d+$}, @events), '>', 0, 'first value: and the one above');
cmp_ok(count(qr{^sync .*pg_securefile$}, @events), '>', 0, 'first value: and the one above that');

# ---- trap 7: an abort waits for what is in flight ----
make_table($node, 'aborted');
fill($node, 'aborted', 1, 3, 6_000_000);
my $big = 'INSERT INTO aborted SELECT i, i, 6000000, blob(i, 6000000) FROM generate_series(11, 15) i';
foreach my $undo ("BEGIN; $big; ROLLBACK", "BEGIN; SAVEPOINT a; $big; ROLLBACK TO a")
{
	@events = session($undo, 'SET securefile.io_method = libaio');
	cmp_ok(count(qr/^reaped .*\.sf$/, @events), '>', 0, "$undo: written asynchronously");
	# once more: now the segment need not grow, which is done synchronously
	@events = session($undo, 'SET securefile.io_method = libaio');
	is(count(qr/^reaped .*\.sf$/, @events), count(qr/^(write|durable) .*\.sf$/, @events),
		"$undo: all of it waited for");
}

# ---- recovery: what redo writes is durable, for no checkpoint will see to it ----
$node->safe_psql('postgres', 'CHECKPOINT');
fill($node, 'fresh', 1, 10, 700_000);
fill($node, 't_cache_sync', 1000, 1003, 700_000);
crash($node);
traced();
start_traced();
@events = traced();
is_deeply([ early(grep { $_->[1] =~ /\.sf$/ } @events) ], [], 'redo: writes are durable');
cmp_ok(count(qr/^durable .*\.sf$/, @events), '>', 0, 'redo: there were some');
rows_right($node, 'fresh', 11, 'after recovery');
sound($node, 'fresh', 'after recovery');

# ---- pages kept for logical decoding are durable before the DROP is ----
$node->append_conf('postgresql.conf', 'wal_level = logical');
$node->stop;
start_traced();
make_table($node, 'dropped');
fill($node, 'dropped', 1, 2, 300_000);
$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('s', 'test_decoding')");
@events = session('DROP TABLE dropped');
is_deeply([ early(@events) ], [], 'kept pages: durable before WAL is written');
cmp_ok(count(qr/^write .*kept\.new$/, @events), '>', 0, 'kept pages: written');
cmp_ok(count(qr{^sync .*pg_securefile/\d+/\d+/\d+$}, @events), '>', 0, 'kept pages: and their name');
$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('s')");

# ---- trap 12: methods that the kernel refuses ----
$node->stop;
my $offset = -s $node->logfile;
{
	local $ENV{REFUSE} = 1;
	start_traced();
}
foreach my $method ('io_uring', 'libaio', 'io_uring')
{
	my $id = 1000 + $offset++;
	is( $node->safe_psql('postgres',
			"SET securefile.io_method = $method; INSERT INTO fresh VALUES ($id, 1, 600000, blob(1, 600000));"
			  . "SELECT doc::bytea = blob(1, 600000) FROM fresh WHERE id = $id"),
		't', "$method refused: works");
}
my $log = slurp_file($node->logfile, $offset - 3);
foreach my $method ('io_uring', 'libaio')
{
	is(scalar(() = $log =~ /io_method "$method" is not available/g), 1, "$method refused: the log says so once");
}
$node->stop;
done_testing();
