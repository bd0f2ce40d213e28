# The command securefile: put --resume stores a long file in parts, each in a transaction.  After
# SIGKILL or SIGINT at each part, ended sessions and a crash of the server another run goes on
# where the last commit was.  A file that changed meanwhile is found out, and so is a part that is
# not its beginning.  Nobody sees a file before it is complete.
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

my $node = new_cluster('command_resume');
enter($node);
sql(q{CREATE TABLE docs (name text PRIMARY KEY, document securefile(hash), note text DEFAULT 'none')});
my @docs = ('-t', 'docs');
my @put = ('put', '-q', @docs, '--resume', '--part-size', 1);

# Four parts, the last one short, with a hole that goes from one part into the next.
my $long = bytes(5, mb(3) + 12345);
write_file('long', $long);
substr($long, mb(1) - 200_000, 600_000) = "\0" x 600_000;
my @punch = ('fallocate', '-p', '-o', mb(1) - 200_000, '-l', 600_000, 'long');
# where holes are not possible, these are zeros
write_file('long', $long) if system(@punch) != 0;

# ---- without an interrupt ----
ends(0, qr/^$/, 'put --resume', @put, 'long');
ends(0, qr/^$/, 'get', 'get', '-q', @docs, 'long', 'got');
holds('got', $long, 'what was got');
my $sha = sql(q{SELECT encode(sha256(document::bytea), 'hex') FROM docs});
ends(0, qr/ $sha  long$/, 'the hash was kept', 'ls', '--hash', @docs);
is(sql('SELECT securefile_kept_digest(document) IS NOT NULL FROM docs'), 't', 'by the server');
ends(1, qr/a file of that name is stored already/, 'again', @put, 'long');
ends(0, qr/^$/, 'a short file is stored at once', @put, '--set', 'note=short', '/etc/passwd', 'short');
sql('DELETE FROM docs');

# ---- an interrupt at each part ----

# A trigger that waits where the part behind so many is stored, and at the name.
sql(q{CREATE TABLE stop_at (part int, waits bool DEFAULT true);
	CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF starts_with(NEW.name, '.securefile-part/') AND
			length(NEW.document) > (SELECT part FROM stop_at) * 1048576 THEN
			PERFORM pg_advisory_xact_lock(43);
		ELSIF NEW.name = 'long' AND (SELECT part FROM stop_at) = 4 THEN
			PERFORM pg_advisory_xact_lock(43);
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER stop_here BEFORE INSERT OR UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION stop_here()});

my $holder = background($node);
$holder->query_safe('SELECT pg_advisory_lock(43)');

my $waiting = q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event = 'advisory'};

# Begin a put, which stops when it stores the part behind so many; its process.
sub stopped_at
{
	my ($part, @args) = @_;
	sql("DELETE FROM stop_at; INSERT INTO stop_at VALUES ($part)");
	my $run = IPC::Run::start([ 'securefile', @put, @args, 'long' ], '<', '/dev/null', '>', \my $out, '2>', \my $err);
	wait_for_sql($node, $waiting) or die 'it does not come to that part';
	return ($run, \$err);
}

sub nobody_is_there { return wait_for_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'securefile'}); }

# What is stored under the reserved name.
sub stored
{
	return sql(q{SELECT COALESCE(sum(length(document)), 0) FROM docs WHERE starts_with(name, '.securefile-part/')});
}

my %ends = (
	SIGKILL => sub { kill 'KILL', $_[0]->{KIDS}[0]{PID} },
	SIGINT => sub { kill 'INT', $_[0]->{KIDS}[0]{PID} },
	session => sub { sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile'}) },
);
foreach my $part (0 .. 4)
{
	my $how = (sort keys %ends)[ $part % 3 ];
	my $done = $part * mb(1) < length $long ? $part * mb(1) : length $long;
	my ($run, $err) = stopped_at($part);
	is(sql(q{SELECT count(*) FROM docs WHERE name = 'long'}), 0, "nobody sees it at part $part");
	$ends{$how}->($run);
	$run->finish;
	sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile'}) if $how eq 'SIGKILL';
	nobody_is_there();
	is(stored(), $done, "$how at part $part: what was committed is stored");
	like($$err, qr/terminating connection.*\nDetail: .* of .* are stored, where the same command goes on/s, 'which it says') if $how eq 'session' && $part > 0;
}
ends(0, qr/\A +3158073  +3158073  long\n\z/, 'ls --unfinished', 'ls', @docs, '--unfinished');
ends(0, qr/\A\z/, 'of another name', 'ls', @docs, '--unfinished', 'lung*');
is((objects((command('ls', @docs, '--unfinished', '--json'))[1]))[0]{size}, 3_158_073, 'as JSON');
ends(0, qr/\A\z/, 'ls', 'ls', @docs);
sql('DELETE FROM stop_at');
ends(0, qr/\A\z/, 'the last run', @put, 'long');
ends(0, qr/^$/, 'get', 'get', '-q', @docs, '--replace', 'long', 'got');
holds('got', $long, 'what was got');
is(sql('SELECT count(*) FROM docs'), 1, 'no part is left');

# ---- over a file that is there ----
sql(q{UPDATE docs SET note = 'kept', document = 'old'});
my ($run) = stopped_at(2, '--replace');
kill 'KILL', $run->{KIDS}[0]{PID};
$run->finish;
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile'});
nobody_is_there();
is((command('cat', @docs, 'long'))[1], 'old', 'the old file until the new one is complete');
sql('DELETE FROM stop_at');
ends(0, qr/\A\z/, 'put --resume --replace', @put, '--replace', '--set-null', 'note', 'long');
is(sql(q{SELECT string_agg(concat_ws(' ', name, length(document), COALESCE(note, 'null')), ',') FROM docs}), 'long 3158073 null', 'the same row');
mkdir 'one';
link('long', 'one/long');
ends(0, qr/1 same/, 'has the file', 'import', @docs, 'one');

# ---- a crash of the server ----
sql(q{DELETE FROM docs});
($run) = stopped_at(3);
$node->stop('immediate');
ok(!$run->finish, 'the server crashes');
$holder->quit;
$node->start;
is(stored(), mb(3), 'no part but the last is lost');
ends(0, qr/\A\z/, 'the next run', @put, 'long');
is((command('cat', @docs, 'long'))[1], $long, 'the file');

# ---- what must not go on ----
$holder = background($node);
$holder->query_safe('SELECT pg_advisory_lock(43)');
sub begun
{
	sql('DELETE FROM docs');
	my ($begun) = stopped_at(1);
	kill 'KILL', $begun->{KIDS}[0]{PID};
	$begun->finish;
	sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile'});
	nobody_is_there();
	sql('DELETE FROM stop_at');
	return;
}
begun();
sql(q{UPDATE docs SET document = overlay(document PLACING 'X'::bytea FROM 5)});
ends(1, qr/what is stored of the file is not its beginning\nHint: .*rm --unfinished.*\nDetail: 1\.0 MB of 3\.2 MB/s, 'a part that differs', @put, 'long');
is(stored(), mb(1), 'is left alone');
utime 1_000_000_000, 1_000_000_000, 'long';
ends(1, qr/the file has changed since a part of it was stored\nHint: .*rm --unfinished/, 'a file that has changed', @put, 'long');
ends(0, qr/\Aremoved \.securefile-part\/\S+\/long\n/, 'rm --unfinished --dry-run', 'rm', @docs, '--unfinished', '--dry-run', 'l*');
ends(1, qr/nothing unfinished of that name/, 'of another name', 'rm', @docs, '--unfinished', 'm*');
ends(0, qr/1 removed/, 'rm --unfinished', 'rm', @docs, '--unfinished', 'long');
is(stored(), 0, 'it is gone');
begun();

# another one that stores the same file
my ($first) = stopped_at(2);
sql('DELETE FROM stop_at');
my $second = IPC::Run::start([ 'securefile', @put, 'long' ], '<', '/dev/null', '>', \my $out, '2>', \my $err);
wait_for_sql($node, q{SELECT count(*) = 2 FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event_type = 'Lock'}) or die 'the second does not wait';
$holder->query_safe('SELECT pg_advisory_unlock(43)');
ok($first->finish, 'the first of two');
ok(!$second->finish, 'the second');
like($err, qr/another session stores this file, or has deleted|another session has deleted what is stored/, 'says why');
is((command('cat', @docs, 'long'))[1], $long, 'the file is right');

# where there can be no parts
ends(2, qr/--resume wants a file/, 'standard input', @put, '-', 'x');
ends(1, qr/only a regular file/, 'a device', @put, '/dev/null', 'x');
ends(2, qr/number from 1 to 256/, 'a part of 257 MB', 'put', @docs, '--resume', '--part-size', 257, 'long');
sql(q{CREATE TABLE numbers (id int PRIMARY KEY, document securefile)});
ends(1, qr/invalid input syntax for type integer/, 'names that are numbers', 'put', '-q', '-t', 'numbers', '--resume', '--part-size', 1, 'long', '7');

sound($node, 'docs', 'parts', column => 'document');
$holder->quit;
$node->stop;
done_testing();
