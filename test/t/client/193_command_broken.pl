# The command securefile when something breaks: interrupts, killed and lost
# connections, files that change, missing privileges, a server that only reads, little
# memory; and what a terminal sees.  Nothing half-written is visible, on either side,
# and the next run goes on.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use Errno;
use File::Path qw(make_path remove_tree);
use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = new_cluster('broken');
need_faults($node);
my $dir = enter($node);
my $err = '';

# The command in the background.
sub begin
{
	my (@args) = @_;
	my $in = ref $args[0] ? shift @args : \'';
	my $run = IPC::Run::start([ 'securefile', @args ], '<', $in, '>', \my $out, '2>', \$err);
	return $run;
}

# Write all of it to a pipe, which may not block.
sub feed
{
	my ($pipe, $bytes) = @_;
	my $done = 0;
	while ($done < length $bytes)
	{
		my $rc = syswrite($pipe, $bytes, length($bytes) - $done, $done);
		die "could not write to a pipe: $!" unless defined $rc || $!{EAGAIN};
		$done += $rc // 0;
		usleep(1000) unless defined $rc;
	}
	return;
}

# One test: a command in the background ends with that status, after a signal.
sub ended
{
	my ($run, $signal, $status, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$run->signal($signal) if $signal;
	eval { $run->finish };
	return is(status_of($run->full_result), $status, $name) || diag($err);
}

# Wait until sessions of the command wait for something.
sub wait_for_waiting
{
	my ($what, $count) = @_;
	return wait_for_sql($node,
		"SELECT count(*) = $count FROM pg_stat_activity WHERE application_name = 'securefile' AND $what");
}

sub wait_for_none
{
	return wait_for_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'securefile'});
}

# Names that are stored, and whether each is what the tree has.
sub stored { return sql('SELECT string_agg(name, \' \' ORDER BY name COLLATE "C") FROM docs'); }

sql('CREATE TABLE docs (name text PRIMARY KEY, document securefile)');
my %tree = map { ("f$_" => bytes($_, 100_000 * $_)) } 1 .. 9;
write_file("tree/$_", $tree{$_}) for keys %tree;

# A session that holds up who stores f5: its row is there and not committed.
my $holder = new_holder();

sub new_holder
{
	my $session = background($node);
	$session->set_query_timer_restart;
	return $session;
}

sub hold { $holder->query_safe(q{BEGIN; INSERT INTO docs VALUES ('f5', 'held')}); return; }
sub let_go { $holder->query_safe('ROLLBACK'); return; }

# ---- interrupts: import ----
my %statuses = (INT => 130, TERM => 143, HUP => 129, KILL => 137);
foreach my $signal (qw(INT TERM HUP KILL))
{
	sql('TRUNCATE docs');
	hold();
	my $run = begin('import', '-j', 3, '-t', 'docs', 'tree');
	wait_for_sql($node, 'SELECT count(*) = 8 FROM docs');
	wait_for_waiting(q{wait_event_type = 'Lock'}, 1);
	ended($run, $signal, $statuses{$signal}, "import, SIG$signal");
	like($err, qr/^securefile: interrupted$/m, 'says so') if $signal ne 'KILL';
	let_go();
	wait_for_none();
	is(stored(), 'f1 f2 f3 f4 f6 f7 f8 f9', 'what was done is there, the rest not');
	sound($node, 'docs', "after SIG$signal", column => 'document');
	ends(0, qr/: 1 put, 8 same/, 'the next run goes on', 'import', '-t', 'docs', 'tree');
	ends(0, qr/: 9 same/, 'all is there', 'verify', '-t', 'docs', '--against', 'tree');
}

# in the middle of a long file
foreach my $signal (qw(INT KILL))
{
	sql('TRUNCATE docs');
	my $in = bytes(7, 3_000_000);
	my $run = begin(\$in, 'put', '-t', 'docs', '-', 'long');
	my $held = IPC::Run::start([ 'securefile', 'put', '-t', 'docs', '-', 'pipe' ], '<pipe', \*PIPE, '2>', \my $said);
	feed(\*PIPE, $in);
	ended($run, undef, 0, 'a file beside');
	wait_for_waiting(q{query ~ 'securefile_write'}, 1);
	ended($held, $signal, $statuses{$signal}, "put from a pipe, SIG$signal");
	close PIPE;
	wait_for_none();
	is(stored(), 'long', 'is not there');
	sound($node, 'docs', "put, SIG$signal", column => 'document');
}

# ---- interrupts: export, get, verify ----
sql('TRUNCATE docs');
command('import', '-q', '-t', 'docs', 'tree');
foreach my $signal (qw(INT TERM KILL))
{
	arm($node, 'io_read', 'wait', times => -1);
	my $run = begin('export', '-j', 3, '-t', 'docs', 'out');
	wait_for_sql($node, q{SELECT securefile_fault_fired('io_read') >= 3});
	is(temporaries('out'), 3, 'three files are being written');
	ended($run, $signal, $statuses{$signal}, "export, SIG$signal");
	disarm($node);
	wait_for_none();
	is(temporaries('out'), $signal eq 'KILL' ? 3 : 0, 'temporary files are gone, unless by SIGKILL');
	is(join(' ', glob 'out/*'), '', 'and no file is there in part');
	unlink glob 'out/.securefile-*';
	ends(0, qr/: 9 got/, 'the next run goes on', 'export', '-t', 'docs', 'out');
	trees_same('tree', 'out', 'all is there');
	remove_tree('out');
}
foreach my $verb ('get', 'verify', 'cat', 'stat')
{
	my @option = $verb eq 'stat' ? ('--hash') : ();
	arm($node, 'io_read', 'wait', times => -1);
	my $run = begin($verb, @option, '-t', 'docs', 'f9');
	wait_for_sql($node, q{SELECT securefile_fault_fired('io_read') >= 1});
	ended($run, 'INT', 130, "$verb, SIGINT");
	disarm($node);
	wait_for_none();
	is(temporaries('.') + (-e 'f9' ? 1 : 0), 0, 'leaves nothing');
}

# the server stops what it does when we are interrupted
{
	my $locker = background($node);
	$locker->query_safe('BEGIN; LOCK TABLE docs');
	my $run = begin('ls', '-t', 'docs');
	wait_for_waiting(q{wait_event_type = 'Lock'}, 1);
	ended($run, 'INT', 130, 'ls, SIGINT');
	wait_for_none();
	pass('its session has ended, though the lock is held');
	$locker->query_safe('ROLLBACK');
	$locker->quit;
}

# ---- connections ----
sql('TRUNCATE docs');
hold();
my $run = begin('import', '-j', 2, '-t', 'docs', 'tree');
wait_for_sql($node, 'SELECT count(*) = 8 FROM docs');
wait_for_waiting(q{wait_event_type = 'Lock'}, 1);
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event_type = 'Lock'});
ended($run, undef, 1, 'import, a session is terminated');
like($err, qr/^securefile: f5: terminating connection due to administrator command/m, 'its file failed');
like($err, qr/: 8 put, 1 failed/, 'the others did not');
let_go();
ends(0, qr/: 1 put, 8 same/, 'the next run goes on', 'import', '-t', 'docs', 'tree');
sound($node, 'docs', 'terminated', column => 'document');

# one connection goes on with a new one
sql('TRUNCATE docs');
hold();
$run = begin('import', '-j', 1, '-t', 'docs', 'tree');
wait_for_waiting(q{wait_event_type = 'Lock'}, 1);
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile'});
ended($run, undef, 1, 'import over one connection, which is terminated');
is(stored(), 'f1 f2 f3 f4 f6 f7 f8 f9', 'goes on over another one');
let_go();
$run = begin('import', '-j', 1, '-t', 'docs', 'tree');
ended($run, undef, 0, 'goes on');

# a long file while its session is terminated; cancelled by somebody else
sql(q{DELETE FROM docs WHERE name = 'f5'});
foreach my $how ('terminate', 'cancel')
{
	hold();
	$run = begin('put', '-t', 'docs', 'tree/f5');
	wait_for_waiting(q{wait_event_type = 'Lock'}, 1);
	sql(qq{SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile'});
	ended($run, undef, $how eq 'cancel' ? 1 : 3, "put, $how");
	like($err, $how eq 'cancel' ? qr/canceling statement due to user request|cancel/ : qr/terminating connection/, 'says so');
	let_go();
	is(stored(), 'f1 f2 f3 f4 f6 f7 f8 f9', 'is not there');
	sound($node, 'docs', "put, $how", column => 'document');
}

# the server goes away
hold();
$run = begin('import', '-t', 'docs', 'tree');
wait_for_waiting(q{wait_event_type = 'Lock'}, 1);
$node->stop('immediate');
eval { $run->finish };
isnt($run->full_result, 0, 'import, the server stops in the middle');
like($err, qr/^securefile: f5: /m, 'its file failed');
eval { $holder->quit };
($err) = (command('import', '-t', 'docs', 'tree'))[2];
ends(3, qr/connection to server/, 'no server', 'import', '-t', 'docs', 'tree');
$node->start;
$holder = new_holder();
ends(0, qr/: 1 put, 8 same/, 'the next run goes on', 'import', '-t', 'docs', 'tree');

# it goes while much is left to do
sql('TRUNCATE docs');
write_file("lots/$_", $_) for 1 .. 3000;
$holder->query_safe(q{BEGIN; INSERT INTO docs VALUES ('1500', 'held')});
$run = begin('import', '-j', 1, '-t', 'docs', 'lots');
wait_for_waiting(q{wait_event_type = 'Lock'}, 1);
$node->stop('immediate');
eval { $holder->quit };
ended($run, undef, 3, 'import, the server goes while much is left');
like($err, qr/^securefile: no connection is left: \d+ of 3000 files were not begun$/m, 'says how much');
$node->start;
$holder = new_holder();
ends(0, qr/put, \d+ same/, 'the next run goes on', 'import', '-t', 'docs', 'lots');
is(sql('SELECT count(*) FROM docs WHERE name = convert_from(document, \'UTF8\')'), 3000, 'all is there');
sound($node, 'docs', 'the server went', column => 'document');
remove_tree('lots');

# connections are few
sql('TRUNCATE docs; CREATE ROLE few LOGIN CONNECTION LIMIT 2; GRANT ALL ON docs TO few');
my ($rc, $out, $said) = command('import', '-U', 'few', '-j', 6, '-t', 'docs', 'tree');
like($said, qr/too many connections for role/, 'too few connections');
is($rc, 0, 'are no failure as long as there is one');
is(sql('SELECT count(*) FROM docs'), 9, 'all is there');

# ---- files that change ----
sql('TRUNCATE docs');
foreach my $how ('longer', 'shorter', 'written', 'replaced')
{
	write_file('changing/big', bytes(3, 20_000_000));
	write_file('changing/small', 'small');
	arm($node, 'io_write', 'wait');
	$run = begin('import', '-t', 'docs', 'changing');
	wait_for_sql($node, q{SELECT securefile_fault_fired('io_write') > 0});
	usleep(20_000);
	open(my $fh, '+<:raw', 'changing/big') or die;
	if ($how eq 'longer') { seek($fh, 0, 2); print $fh 'more'; }
	elsif ($how eq 'shorter') { truncate($fh, 5_000_000); }
	elsif ($how eq 'written') { print $fh 'other'; }
	close $fh;
	# another file of that name is another file: ours is what was there
	rename('changing/small', 'changing/big') if $how eq 'replaced';
	disarm($node);
	ended($run, undef, 1, "a file that is $how");
	like($err, qr/^securefile: big: the file changed while it was read$/m, 'is told');
	is(sql(q{SELECT count(*) FROM docs WHERE name = 'big'}), 0, 'and not stored');
	sql('DELETE FROM docs');
}
sound($node, 'docs', 'files that change', column => 'document');

# A file that is written all the time, 60,000 bytes of A or of B in each write().  Such a call
# stamps the file when it begins, and copies afterwards.  The process prints how long a call
# took at most, and how long the file kept its times at most.
my $writer = <<'PERL';
use Time::HiRes qw(clock_gettime usleep CLOCK_MONOTONIC);
my ($slowest, $longest, $last) = (0, 0);
sysopen(my $fh, 'busy/0', 2) or die $!;
for (my $i = 0; !-e 'stop'; $i++)
{
	my $begun = clock_gettime(CLOCK_MONOTONIC);
	sysseek($fh, 0, 0);
	(syswrite($fh, ($i % 2 ? 'A' : 'B') x 60_000) // 0) == 60_000 or die $!;
	my $end = clock_gettime(CLOCK_MONOTONIC);
	$slowest = $end - $begun if $end - $begun > $slowest;
	$longest = $end - $last if defined $last && $end - $last > $longest;
	$last = $begun;
	if ($i == 5) { open(my $ready, '>', 'ready') or die $!; }
	usleep(2000);
}
print "$slowest $longest";
PERL
write_file('busy/0', 'A' x 60_000);
link('busy/0', "busy/$_") foreach 1 .. 15;
my ($mixed, $stored) = (0, 0);
foreach (1 .. 5)
{
	unlink 'stop', 'ready';
	my $process = IPC::Run::start([ $^X, '-e', $writer ], '<', \'', '>', \my $times);
	until (-e 'ready') { $process->pump_nb; usleep(1000); }
	($err) = (command('import', '-q', '-j', 4, '-t', 'docs', 'busy'))[2];
	write_file('stop', '');
	$process->finish or die 'the writer failed';
	my ($slowest, $longest) = split / /, $times;
	my $all = sql('SELECT count(*) FROM docs');
	my $torn = sql(q{SELECT count(*) FROM docs WHERE encode(document, 'escape') NOT IN (repeat('A', 60000), repeat('B', 60000))});
	# a writer that does not get on, here 10 ms and a tick of the clock, makes an old file
	$stored += $all if $longest < 0.01;
	$mixed += $torn if $slowest < 0.01;
	my $said = () = $err =~ /the file changed while it was read$/mg;
	is($said + $all, 16, 'each file is stored or told') or diag($err);
	note("$all stored, $torn mixed, slowest write $slowest s, longest rest $longest s");
	sql('DELETE FROM docs');
}
is($stored, 0, 'a file that is written all the time is not stored');
is($mixed, 0, 'nor a mixture');
($err) = (command('import', '-t', 'docs', 'busy'))[2];
like($err, qr/: 16 put/, 'when the writer has ended it is');
sql('DELETE FROM docs');

# ---- privileges, reading only ----
command('import', '-q', '-t', 'docs', 'tree');
sql('CREATE ROLE nobody LOGIN; CREATE ROLE reader LOGIN; GRANT SELECT ON docs TO reader;'
	  . ' CREATE ROLE writer LOGIN; GRANT INSERT, SELECT ON docs TO writer');
ends(3, qr/permission denied for table docs/, 'ls, no privilege', 'ls', '-U', 'nobody', '-t', 'docs');
ends(3, qr/permission denied for table docs/, 'export, no privilege', 'export', '-U', 'nobody', '-t', 'docs', 'out');
ends(1, qr/f1: permission denied for table docs/, "$_, no privilege", $_, '-U', 'nobody', '-t', 'docs', 'f1')
  for qw(get cat stat rm);
ends(3, qr/^securefile: f\d: permission denied for table docs\nsecurefile: stopped, [^\n]*\nsecurefile: import: \d failed/, 'import, no privilege', 'import', '-U', 'nobody', '-t', 'docs', 'tree');
ends(0, qr/^/, 'a reader may read', 'get', '-U', 'reader', '-t', 'docs', 'f1', 'read');
holds('read', $tree{f1}, 'what was read');
ends(1, qr/permission denied for table docs/, 'and not write', 'put', '-U', 'reader', '-t', 'docs', 'tree/f1', 'new');
ends(1, qr/permission denied for (table docs|column "document")/, 'not even much', 'put', '-U', 'reader', '-t', 'docs', 'tree/f9', 'new');
ends(1, qr/f1: permission denied for table docs/, 'nor remove', 'rm', '-U', 'reader', '-t', 'docs', 'f1');
ends(3, qr/permission denied|must be owner/, 'nor check all', 'verify', '-U', 'reader', '-t', 'docs');
ends(0, qr/1 sound/, 'but verify a file', 'verify', '-U', 'reader', '-t', 'docs', 'f1');
ends(0, qr/^$/, 'a writer may put', 'put', '-U', 'writer', '-t', 'docs', 'tree/f9', 'new');
ends(1, qr/permission denied for table docs/, 'and not replace', 'put', '--replace', '-U', 'writer', '-t', 'docs', 'tree/f9', 'new');
($out) = (command('put', '--json', '-U', 'reader', '-t', 'docs', 'tree/f9', 'x'))[1];
is((objects($out))[0]->{sqlstate}, '42501', 'JSON has the SQLSTATE');
{
	local $ENV{PGOPTIONS} = '-c default_transaction_read_only=on';
	foreach my $file ('f1', 'f9')
	{
		($out) = (command('put', '--json', '-t', 'docs', "tree/$file", 'x'))[1];
		is((objects($out))[0]->{sqlstate}, '25006', "put of $file in a read-only transaction");
	}
	ends(0, qr/9 got/, 'export', 'export', '-t', 'docs', 'out', 'f*');
	trees_same('tree', 'out', 'all is there');
	ends(0, qr/9 same/, 'verify', 'verify', '-t', 'docs', '--against', 'tree', map { "f$_" } 1 .. 9);
}
ends(0, qr/^$/, 'rm', 'rm', '-q', '-t', 'docs', 'new');

# a standby
{
	$node->backup('standby');
	my $standby = new_standby('standby', $node, 'standby');
	catch_up($node, $standby);
	remove_tree('out');
	my @there = ('-h', $standby->host, '-p', $standby->port, '-t', 'docs');
	ends(0, qr/9 got/, 'export from a standby', 'export', @there, 'out');
	trees_same('tree', 'out', 'all is there');
	ends(0, qr/9 same/, 'verify there', 'verify', @there, '--against', 'tree', map { "f$_" } 1 .. 9);
	foreach my $file ('f1', 'f9')
	{
		($out) = (command('put', '--json', @there, "tree/$file", 'x'))[1];
		is((objects($out))[0]->{sqlstate}, '25006', "put of $file there");
	}
	$standby->stop;
}

# another one stores the same name meanwhile
sql('TRUNCATE docs');
hold();
$run = begin('put', '-t', 'docs', 'tree/f5');
wait_for_waiting(q{wait_event_type = 'Lock'}, 1);
$holder->query_safe('COMMIT');
ended($run, undef, 1, 'another one is faster');
like($err, qr/duplicate key value violates unique constraint/, 'says so');
sound($node, 'docs', 'another one is faster', column => 'document');

# a trigger that refuses, or stores no row
sql(q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.name LIKE 'none%' THEN RETURN NULL; END IF;
		RAISE EXCEPTION 'refused' USING ERRCODE = 'P0042', DETAIL = 'Because.', HINT = 'Do not.';
	END $$;
	CREATE TRIGGER a BEFORE INSERT ON docs FOR EACH ROW EXECUTE FUNCTION refuse()});
ends(1, qr/^securefile: $_: refused\nDetail: Because\.\nHint: Do not\.$/m, "a trigger refuses $_", 'put', '-t', 'docs', "tree/$_")
  for ('f1', 'f9');
ends(1, qr/none: .*row/, "a trigger stores nothing of $_", 'put', '-t', 'docs', "tree/$_", 'none') for ('f1', 'f9');
sql('DROP TRIGGER a ON docs');
sound($node, 'docs', 'triggers', column => 'document');

# a full disk of the server
arm($node, 'io_write', 'enospc', times => -1);
ends(1, qr/No space left on device/, "a full disk, $_", 'put', '-t', 'docs', "tree/$_") for ('f1', 'f9');
disarm($node);
is(stored(), 'f5', 'nothing is there');
sound($node, 'docs', 'a full disk', column => 'document');

# ---- passwords ----
sql(q{CREATE ROLE secret LOGIN PASSWORD 'right'; GRANT SELECT ON docs TO secret});
my $hba = slurp_file($node->data_dir . '/pg_hba.conf');
write_file($node->data_dir . '/pg_hba.conf', "local all secret scram-sha-256\n$hba");
$node->reload;
my @as = ('ls', '-U', 'secret', '-t', 'docs');
ends(3, qr/no password supplied/, '-w', '-w', @as);
{
	local $ENV{PGPASSWORD} = 'right';
	ends(0, qr/ f5$/m, 'PGPASSWORD', @as);
	$ENV{PGPASSWORD} = 'wrong';
	ends(3, qr/password authentication failed/, 'a wrong one', @as);
}
# who has no terminal is asked on standard input
foreach my $case ([ "right\n", 0, qr/ f5$/m, @as ], [ "right\n", 0, qr/ f5$/m, '-W', @as ], [ "wrong\n", 3, qr/password authentication failed/, @as ], [ '', 3, qr/password/, @as ])
{
	my ($in, $status, $like, @args) = @$case;
	my ($got, $messages);
	IPC::Run::run([ 'setsid', '-w', 'securefile', @args ], '<', \$in, '>', \$got, '2>', \$messages);
	is(status_of($?), $status, 'password ' . ($in =~ s/\n//r) . " $args[0]");
	like("$got$messages", $like, 'asked for');
	like($messages, qr/Password: /, 'by that');
}

# ---- little memory ----
open(my $fh, '>', 'huge') or die;
truncate($fh, 400_000_000);
seek($fh, 200_000_000, 0);
print $fh 'something';
close $fh;
my $limit = 'ulimit -v 200000 && exec "$@"';
is(system('bash', '-c', $limit, '-', 'securefile', 'put', '-t', 'docs', 'huge'), 0, 'put of much with little memory');
is(system('bash', '-c', $limit, '-', 'securefile', 'get', '-q', '-t', 'docs', 'huge', 'huge.copy'), 0, 'and get');
is(system('cmp', 'huge', 'huge.copy'), 0, 'is the same');
command('rm', '-t', 'docs', 'huge');
unlink 'huge', 'huge.copy';

# ---- output that nobody reads ----
foreach my $pipe ('cat -t docs f5', 'ls -t docs', 'ls --json -t docs', 'get -t docs f5 -')
{
	my $status = system('bash', '-c', "set -o pipefail; securefile $pipe 2>pipe.err | true");
	ok(($status >> 8) =~ /^(0|141)$/ && slurp_file('pipe.err') eq '', "$pipe | true") or diag("$status " . slurp_file('pipe.err'));
}
sql('TRUNCATE docs');
command('import', '-q', '-t', 'docs', 'tree');
is(system('bash', '-c', 'securefile cat -t docs f9 | head -c 10 >/dev/null; exit ${PIPESTATUS[0]}') >> 8, 141, 'cat | head');
is(system('bash', '-c', 'securefile cat -t docs f9 >/dev/full 2>full.err') >> 8, 1, 'cat to a full device');
like(slurp_file('full.err'), qr/No space left on device/, 'says so');
is(system('bash', '-c', 'securefile ls -t docs >/dev/full 2>full.err') >> 8, 1, 'ls to a full device');
like(slurp_file('full.err'), qr/standard output: No space left on device/, 'says so');
remove_tree('out');
arm($node, 'io_read', 'wait');
# the reader is gone before it begins: what fits into the pipe until then would not end it,
# and the file that stands would hold it for ever
pipe(my $nobody, my $to_nobody) or die;
close $nobody;
my $unread = IPC::Run::start([ 'securefile', qw(export -j 2 --json -t docs out) ], '>', $to_nobody);
eval { $unread->finish };
close $to_nobody;
is(status_of($unread->full_result), 141, 'export --json to a pipe that nobody reads');
is(temporaries('out'), 0, 'leaves no temporary file, though one was being written');
disarm($node);

# ---- a terminal ----
remove_tree('out');
sub on_terminal
{
	my (@args) = @_;
	my $seen = '';
	IPC::Run::run([ 'script', '-qec', "stty cols 60; securefile @args", '/dev/null' ], '<', \'', '>', \$seen);
	return (status_of($?), $seen);
}
arm($node, 'io_read', 'wait', times => 1);
my $waker = fork;
if ($waker == 0)
{
	wait_for_sql($node, q{SELECT securefile_fault_fired('io_read') > 0});
	# the command shows a line when bytes come and half a second has gone by
	usleep(700_000);
	disarm($node);
	POSIX::_exit(0);
}
($rc, my $seen) = on_terminal('export -j 1 -t docs out');
waitpid $waker, 0;
is($rc, 0, 'export on a terminal');
like($seen, qr/\r\[[#.]{20}\] +\d+ %  \d of 9 files/, 'shows progress');
is((grep { length > 59 } map { s/\033\[K//r } $seen =~ /\r(\[[^\r\n]*)/g), 0, 'that fits');
like($seen, qr/\033\[Ksecurefile: export: 9 got; 4\.5 MB/, 'and the summary in its place');
($rc, $seen) = on_terminal('export -q -t docs out');
is("$rc $seen", '0 ', 'quiet is quiet');

# without one: a line now and then
my $began = time();
my $slow = IPC::Run::start([ 'securefile', 'put', '-t', 'docs', '-', 'slow' ], '<pipe', \*SLOW, '2>', \$said);
my $piece = bytes(1, 300_000);
for (1 .. 12)
{
	feed(\*SLOW, $piece);
	usleep(500_000);
}
close SLOW;
$slow->finish;
like($said, qr/\A(?:securefile: [\d.]+ MB, [\d.]+ [kM]B\/s\n)+\z/, 'progress in plain lines');
cmp_ok($said =~ tr/\n//, '<=', (time() - $began) / 5, 'one in five seconds');
sound($node, 'docs', 'in the end', column => 'document');

done_testing();
