# The command securefile makes master keys: files that only their owner reads, and that are
# whole or not there; keys added to a file, by several at once, too; what the server would
# refuse is refused.  No key is left in memory.  No server runs.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
chdir $dir or die $!;
my @generate = ('key', 'generate');
my $key = qr/[0-9a-f]{64}/;

sub mode_of { return sprintf '%03o', (lstat $_[0])[2] & 07777; }
sub put { my ($name, $text, $mode) = @_; unlink $name; write_file($name, $text); chmod $mode // 0600, $name; return; }

# ---- usage ----

ends(0, qr/^Usage: securefile key \[OPTION...\] generate FILE \[NAME\]\n(?!.*--table).*--append/s, 'key --help', 'key', '--help');
ends(2, qr/key wants generate FILE/, 'no file', @generate);
ends(2, qr/key can only generate, not "rotate"/, 'no such thing', 'key', 'rotate', 'x');
ends(2, qr/too many arguments/, 'too many arguments', @generate, 'x', 'y', 'z');
ends(2, qr/key does not take --table/, 'a table before it', '-t', 'docs', @generate, 'x');
ends(2, qr/unrecognized option|invalid option/, 'a table behind it', @generate, '-t', 'docs', 'x');
ends(2, qr/put does not take --append/, 'the option of another verb', '--append', '-t', 'docs', 'put', 'x');
ends(2, qr/--append wants a file/, '--append and standard output', @generate, '--append', '-');
foreach my $name ('', 'a b', 'a/b', "a\n", 'x' x 32, "gr\xc3\xbcn", 'a#', "a\tb")
{
	ends(2, qr/^securefile: the name of a key has at most 31 bytes/, "name '$name'", @generate, 'x', $name);
}
ok(!-e 'x', 'no file is made');

# ---- a new file ----

foreach my $umask (0, 0777)
{
	my $before = umask $umask;
	is((command(@generate, "umask$umask", 'one'))[1], "one\n", 'it says the name');
	umask $before;
	is(mode_of("umask$umask"), '600', "mode with umask $umask");
}
my $one = slurp_file('umask0');
like($one, qr/^one $key\n\z/, 'a line of the name and the key');
isnt(slurp_file('umask511'), $one, 'another key each time');
my $long = 'Az09_.:-' . 'x' x 23;
mkdir 'below';
ends(0, qr/^\Q$long\E$/, 'a long name of all kinds', @generate, 'below/keys', '--', $long);
like(slurp_file('below/keys'), qr/^\Q$long\E $key\n\z/, 'is in the file');
symlink 'nowhere', 'dangling' or die $!;
ends(1, qr/^securefile: $_: the file is there already\nHint: --append/, "$_ is there", @generate, $_) foreach 'umask0', 'below', 'dangling';
is(slurp_file('umask0'), $one, 'and stays');
ok(!-e 'nowhere', 'no link is followed');
ends(1, qr/could not open directory "nowhere"/, 'no directory', @generate, 'nowhere/keys');
ends(1, qr/no path/, 'no file name', @generate, 'below/');
my @days = map { POSIX::strftime('%Y-%m-%d', localtime $_) } time, time + 60;
ends(0, qr/^key-($days[0]|$days[1])\n\z/, 'the name by default', @generate, 'dated');
like(slurp_file('dated'), qr/^key-($days[0]|$days[1]) $key\n\z/, 'is in the file');

my ($rc, $out, $err) = command(@generate, '-', 'two');
like("$rc $err $out", qr/^0  two $key\n\z/, 'standard output has the line and nothing else');
is(system('bash', '-c', 'securefile key generate - >/dev/full 2>full.err') >> 8, 1, 'a full device');
like(slurp_file('full.err'), qr/standard output: No space left on device/, 'says so');

# ---- a key more ----

my ($own, @groups) = split ' ', $);
my ($group) = ((grep { $_ != $own } @groups), $own);
my $text = "# a comment\n\n${one}spaced \t" . 'AB' x 32 . " \nlast " . '12' x 32;
put('keys', $text, 0400);
chown -1, $group, 'keys' or die $!;
ends(0, qr/^spac$/, 'a key more, of a name that begins like another one', @generate, '--append', 'keys', 'spac');
my $now = slurp_file('keys');
like($now, qr/^\Q$text\E\nspac $key\n\z/, 'behind the others, on a line of its own');
is(mode_of('keys') . ' ' . (stat 'keys')[5], "400 $group", 'mode and group are as before');
ends(0, qr/^more$/, 'and one more', @generate, 'keys', 'more', '--append');
like(slurp_file('keys'), qr/^\Q$now\Emore $key\n\z/, 'is there, too');

# One test: a file is refused, and is what it was.
sub refused
{
	my ($what, $text, $like, $mode) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	put('bad', $text, $mode);
	my $before = join ' ', (stat 'bad')[ 0 .. 7 ];
	my ($rc, $out, $err) = command(@generate, '--append', 'bad', 'one');
	my $stays = join(' ', (stat 'bad')[ 0 .. 7 ]) eq $before && slurp_file('bad') eq $text;
	return ok($rc == 1 && $out eq '' && $err =~ $like && $stays, $what) || diag("$rc $out $err");
}

my $rights = qr/^securefile: bad: others than its owner have rights on the file \(mode 6\d\d\)\nHint: chmod 600/;
refused(sprintf('mode %03o', $_), $one =~ s/one/two/r, $rights, $_) foreach 0640, 0604, 0620, 0610, 0602, 0601;
refused('a name that is there', "two " . 'ab' x 32 . "\n$one", qr/^securefile: bad: the file has a key "one" already/);
refused('a name that is there, before a tab', "one\t \t" . 'ab' x 32, qr/the file has a key "one" already/);
my $line = sub { return qr/^securefile: bad: line $_[0] is not the name of a key, a blank, and 64 hexadecimal digits$/ };
refused('an encrypted file', "age-encryption.org/v1\n-> X25519 abc\n", $line->(1));
refused('bytes', "\0\xff\n" x 9, $line->(1));
refused('a key that is too short', "# x\ntwo " . 'ab' x 31 . "\n", $line->(2));
refused('no hexadecimal digit', 'two ' . 'ab' x 31 . "ag\n", $line->(1));
refused('a key that is too long', 'two ' . 'ab' x 33 . "\n", $line->(1));
refused('a long name', 'x' x 32 . ' ' . 'ab' x 32, $line->(1));
refused('more than the server reads', '#' x 24_001, qr/longer than 24000 bytes/);
refused('more with the key', '#' x 23_931 . "\n", qr/with the key the file would be longer than 24000 bytes/);
put('most', '#' x 23_930);
ends(0, qr/^one$/, 'as much as the server reads', @generate, '--append', 'most', 'one');
is(-s 'most', 24_000, 'is what the file has then');
ends(1, qr/could not open the file: No such file/, 'no file to add to', @generate, '--append', 'nowhere', 'x');
symlink 'keys', 'link' or die $!;
ends(1, qr/a symbolic link/, 'nor to a link', @generate, '--append', 'link', 'x');
ends(1, qr/not a regular file/, 'nor to a directory', @generate, '--append', 'below', 'x');

# ---- a full disk ----

$now = slurp_file('keys');
foreach my $case ([ 'fresh' ], [ 'keys', '--append' ])
{
	my (undef, $said) = run_command([ 'sh', '-c', 'trap "" XFSZ; ulimit -f 0; exec securefile key generate "$@" other', 'sh', @$case ]);
	like($said, qr/could not write the file: File too large/, "a full disk: @$case");
}
ok(!-e 'fresh', 'no file of less than a key');
is(slurp_file('keys'), $now, 'the keys of before');

# ---- order of writing, random bytes that fail, memory ----

# The C library, but for getrandom(), which always gives the same, or fails; it notes what is
# done with files, and what is wiped; at the end it looks for parts of the key in all memory that
# can be written.  A rename waits while there is a file "hold".
write_file('trace.c', <<'C');
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define SAME		0xa5
#define REAL(type, name, ...)	static type (*real) (__VA_ARGS__) = NULL; if (!real) real = dlsym(RTLD_NEXT, #name)

static int key_asked = 0;

/* Are there parts of the key as bytes (1) or as digits (2)? */
static int
parts_in(const unsigned char *p, const unsigned char *end)
{
	int			raw = 0,
				hex = 0,
				found = 0;

	for (; p < end; p++)
	{
		raw = *p == SAME ? raw + 1 : 0;
		hex = *p == (hex % 2 ? '5' : 'a') ? hex + 1 : *p == 'a';
		found |= (raw == 16) + 2 * (hex == 32);
	}
	return found;
}

static void
note(const char *what)
{
	FILE	   *out = fopen(getenv("TRACE"), "a");

	fprintf(out, "%s ", what);
	fclose(out);
}

ssize_t
getrandom(void *buffer, size_t length, unsigned flags)
{
	REAL(ssize_t, getrandom, void *, size_t, unsigned);
	/* others ask for less, for their hash tables and names of files */
	if (length != 32)
		return real(buffer, length, flags);
	key_asked = 1;
	if (getenv("NO_RANDOM"))
	{
		errno = EIO;
		return -1;
	}
	/* memset() would leave the bytes in registers, which the dynamic linker saves to the stack */
	for (size_t i = 0; i < length; i++)
		((volatile unsigned char *) buffer)[i] = SAME;
	return length;
}

int
fsync(int fd)
{
	struct stat st;

	REAL(int, fsync, int);
	note(fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) ? "sync-directory" : st.st_size > 0 ? "sync-file" : "sync-nothing");
	return real(fd);
}

int
fchown(int fd, uid_t uid, gid_t gid)
{
	REAL(int, fchown, int, uid_t, gid_t);
	note("owner");
	return real(fd, uid, gid);
}

void
explicit_bzero(void *bytes, size_t length)
{
	static const char *const whats[] = {"wipe-nothing", "wipe-bytes", "wipe-digits", "wipe-both"};

	note(whats[parts_in(bytes, (unsigned char *) bytes + length)]);
	memset(bytes, 0, length);
	__asm__ volatile ("" : : "r" (bytes) : "memory");
}

/* what it is called in hardened builds */
void
__explicit_bzero_chk(void *bytes, size_t length, size_t room)
{
	explicit_bzero(bytes, length);
}

static void
wait_while_held(void)
{
	if (getenv("HELD"))
		fclose(fopen(getenv("HELD"), "w"));
	while (access("hold", F_OK) == 0 && getenv("HELD"))
		usleep(1000);
}

int
renameat(int d1, const char *from, int d2, const char *to)
{
	REAL(int, renameat, int, const char *, int, const char *);
	note("rename");
	wait_while_held();
	return real(d1, from, d2, to);
}

int
renameat2(int d1, const char *from, int d2, const char *to, unsigned flags)
{
	REAL(int, renameat2, int, const char *, int, const char *, unsigned);
	note("rename");
	wait_while_held();
	return real(d1, from, d2, to, flags);
}

/* The same of memory, of which some pages cannot be read: the guards of stacks. */
static int
parts_in_memory(int memory, unsigned char *begin, const unsigned char *end)
{
	static unsigned char bytes[64 + 4096];
	int			found = 0;

	for (unsigned char *page = begin; page < end; page += 4096)
	{
		ssize_t		length;

		memmove(bytes, bytes + 4096, 64);
		length = pread(memory, bytes + 64, 4096, (off_t) (size_t) page);
		if (length > 0)
			found |= parts_in(bytes, bytes + 64 + length);
	}
	return found;
}

__attribute__((destructor)) static void
look(void)
{
	FILE	   *maps = fopen("/proc/self/maps", "r");
	int			memory = open("/proc/self/mem", O_RDONLY);
	char		line[512];
	int			found = 0;

	while (fgets(line, sizeof(line), maps))
	{
		void	   *begin,
				   *end;

		if (sscanf(line, "%p-%p rw", &begin, &end) == 2 && strstr(line, " rw"))
			found |= parts_in_memory(memory, begin, end);
	}
	close(memory);
	fclose(maps);
	note(!key_asked ? "" : found ? "key-in-memory" : "wiped");
}
C
is(system("cc -shared -fPIC -o $dir/trace.so trace.c -ldl"), 0, 'compiled');

sub traced
{
	unlink 'trace';
	local $ENV{LD_PRELOAD} = "$dir/trace.so";
	local $ENV{TRACE} = "$dir/trace";
	my ($rc, $out, $err) = command(@generate, @_);
	return "$rc: " . slurp_file('trace');
}

is(traced('traced', 'one'), '0: wipe-bytes sync-file rename sync-directory wipe-digits wiped ', 'a new file: it is on disk before it has its name, and the name before the end; no key stays in memory');
is(slurp_file('traced'), 'one ' . 'a5' x 32 . "\n", 'the key is what the system gave');
is(traced('--append', 'traced', 'two'), '0: wipe-bytes owner sync-file rename sync-directory wipe-digits wiped ', 'a key more: the same, and the owner is set');
is(traced('-'), '0: wipe-bytes wipe-digits wiped ', 'standard output: nor there');
is(traced('traced', 'one'), '1: wipe-nothing  ', 'a file that is there: no key is made');
$ENV{NO_RANDOM} = 1;
foreach my $args ([ 'fresh' ], [ '--append', 'keys', 'other' ], [ '-' ])
{
	like(traced(@$args), qr/^1: wipe-\w+ wiped $/, "no random bytes: @$args");
}
ok(!-e 'fresh', 'no file');
is(slurp_file('keys'), $now, 'the keys of before');
delete $ENV{NO_RANDOM};

# ---- two at once ----

# The command in the background, which has done all but the rename.
sub begun
{
	unlink 'held';
	write_file('hold', '');
	local @ENV{qw(LD_PRELOAD TRACE HELD)} = ("$dir/trace.so", "$dir/trace", "$dir/held");
	my $run = IPC::Run::start([ 'securefile', @generate, @_ ], '<', '/dev/null', '>', '/dev/null', '2>', \$err);
	wait_until(sub { -e 'held' }) or die 'no rename';
	return $run;
}

my $first = begun('race', 'first');
ends(0, qr/^second$/, 'a file that another process is making', @generate, 'race', 'second');
unlink 'hold';
is($first->finish || $err, qq{securefile: race: could not write "race": it exists already\n}, 'the other one does not replace it');
like(slurp_file('race'), qr/^second $key\n\z/, 'it is as it was');

$first = begun('--append', 'race', 'third');
my $second = IPC::Run::start([ 'securefile', @generate, '--append', 'race', 'fourth' ], '<', '/dev/null', '>', '/dev/null');
# it waits for the lock, or has ended
my $pid = $second->{KIDS}[0]{PID};
wait_until(sub { slurp_file('/proc/locks') =~ /-> FLOCK .* $pid / || !$second->pumpable }) or die 'neither waits nor ends';
unlink 'hold';
ok($first->finish && $second->finish, 'two add a key');
like(slurp_file('race'), qr/^second $key\nthird $key\nfourth $key\n\z/, 'and none is lost');
is(temporaries('.'), 0, 'no temporary file is left anywhere');
done_testing();
