# A stream of pieces is cancelled as one operation: a request that comes while the server
# waits for the next piece, which PostgreSQL drops, is reported by the next use of a handle,
# once, and nothing else is.  By SQL, by the command; and what the command says when its
# session is ended.
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

my $node = new_cluster('cancel', conf => ["securefile.monitor_naptime = '1h'"]);
need_faults($node);
make_table($node, 't');

# ---- SQL ----

my $session = background($node);
$session->query('\set VERBOSITY sqlstate');
my $pid = $session->query('SELECT pg_backend_pid()');

# Statements in the session, up to the first error: its SQLSTATE, or what the last printed.
sub does
{
	my $out;
	foreach my $sql (@_)
	{
		$out = $session->query($sql);
		my ($sqlstate) = $session->{stderr} =~ /ERROR:  (\w{5})/;
		$session->{stderr} = '';
		return $sqlstate if defined $sqlstate;
	}
	return $out;
}

# A request that comes while the session waits for its next statement.
sub cancel
{
	wait_for_sql($node, "SELECT state LIKE 'idle%' FROM pg_stat_activity WHERE pid = $pid");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	return;
}

# A handle that has been written, in a new transaction.
my $fd;

sub begin_stream
{
	$fd = does('ROLLBACK', 'BEGIN', q{SELECT securefile_create('t', 'doc')});
	return is(does("SELECT securefile_write($fd, blob(1, 300000))"), 300000, 'a piece');
}

sub write_on { return does("SELECT securefile_write($fd, blob(2, 100000))"); }

subtest 'each use of a handle reports it' => sub {
	$node->safe_psql('postgres', q{INSERT INTO t VALUES (1, 1, 300000, blob(1, 300000))});
	foreach my $use ('write(%s, blob(2, 100000))', 'read(%s, 100)', 'seek(%s, 0, 0)', 'tell(%s)',
		'truncate(%s, 10)', 'finish(%s)', q{create('t', 'doc')})
	{
		begin_stream();
		cancel();
		is(does(sprintf "SELECT securefile_$use", $fd), '57014', "securefile_$use");
		is(write_on(), '25P02', 'the transaction has failed');
	}
	$fd = does('ROLLBACK', 'BEGIN', q{SELECT securefile_open(doc, 'r') FROM t});
	is(does("SELECT length(securefile_read($fd, 1000))"), 1000, 'a handle that reads');
	cancel();
	is(does(q{SELECT securefile_open(doc, 'r') FROM t}), '57014', 'securefile_open');
	$node->safe_psql('postgres', 'DELETE FROM t');
};

subtest 'once, and under savepoints' => sub {
	begin_stream();
	does('SAVEPOINT s');
	cancel();
	is(write_on(), '57014', 'the next piece reports it');
	does('ROLLBACK TO s');
	is(write_on(), 100000, 'the one after goes on');
	does("INSERT INTO t VALUES (1, 0, 0, securefile_finish($fd))", 'COMMIT');
	is($node->safe_psql('postgres', 'SELECT doc::bytea = blob(1, 300000) || blob(2, 100000) FROM t'), 't', 'and the value is right');
	$node->safe_psql('postgres', 'DELETE FROM t');

	begin_stream();
	does('SAVEPOINT s');
	cancel();
	is(write_on(), '57014', 'reported');
	cancel();
	does('ROLLBACK TO s');
	is(write_on(), 100000, 'what comes after an error has nothing to cancel');

	begin_stream();
	does('SAVEPOINT s');
	cancel();
	does('ROLLBACK TO s');
	is(write_on(), 100000, 'what is rolled back takes the request with it');

	begin_stream();
	cancel();
	is(does("DO \$\$ BEGIN BEGIN PERFORM securefile_tell($fd); EXCEPTION WHEN query_canceled THEN END;"
			. " PERFORM securefile_tell($fd); END \$\$"), '', 'caught, and not reported again');
	is(write_on(), 100000, 'goes on');
};

subtest 'not what a statement has reported' => sub {
	begin_stream();
	does('SAVEPOINT s');
	$session->query_until(qr/started/, "\\echo started\nSELECT pg_sleep(600);\n");
	wait_for_sql($node, "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	is(does('ROLLBACK TO s'), '57014', 'a statement is cancelled');
	is(write_on(), 100000, 'the stream is not');
};

subtest 'not outside a stream' => sub {
	does('ROLLBACK', 'BEGIN');
	cancel();
	$fd = does(q{SELECT securefile_create('t', 'doc')});
	like($fd, qr/^\d+$/, 'before the first handle');
	cancel();
	is(does('SELECT 1'), 1, 'by a statement without handles');
	is(does("SELECT securefile_close($fd)"), 0, 'closing');
	begin_stream();
	my $other = does(q{SELECT securefile_create('t', 'doc')});
	cancel();
	is(does("SELECT securefile_close($other)"), 0, 'closing one of two');
	is(write_on(), 100000, 'takes the request with it');
	does("INSERT INTO t VALUES (1, 0, 0, securefile_finish($fd))");
	cancel();
	$fd = does(q{SELECT securefile_create('t', 'doc')});
	is(write_on(), 100000, 'after the last handle');
	cancel();
	is(does('COMMIT', 'BEGIN', 'SELECT 1'), 1, 'commit');
	begin_stream();
	is(write_on(), 100000, 'the next transaction');
	cancel();
	begin_stream();
	is(write_on(), 100000, 'rollback');
	$node->safe_psql('postgres', 'DELETE FROM t');
};

# Time limits are signals as requests are.
subtest 'not a time limit' => sub {
	begin_stream();
	does('SAVEPOINT s');
	# what undoes the setting has to be through in that time, too
	is(does(q{SET LOCAL statement_timeout = '500ms'}, 'SELECT pg_sleep(600)'), '57014', 'a statement takes too long');
	does('ROLLBACK TO s');
	is(write_on(), 100000, 'the stream goes on');
};

$session->query('ROLLBACK');
$session->quit;
sound($node, 't', 'SQL');

# ---- the command ----

enter($node);
$node->safe_psql('postgres', 'CREATE TABLE docs (name text PRIMARY KEY, document securefile)');
my $of_command = q{FROM pg_stat_activity WHERE application_name = 'securefile'};

# A put from a pipe that gives no more; its session waits for more pieces.
sub half_put
{
	my ($err) = @_;
	my $run = IPC::Run::start([ 'securefile', 'put', '-t', 'docs', '-', 'pipe' ], '<pipe', \*PIPE, '2>', $err);
	feed(bytes(7, 3_000_000));
	wait_for_sql($node, "SELECT query ~ 'securefile_write' AND wait_event = 'ClientRead' $of_command");
	return $run;
}

# To a pipe that may not block, and whose reader may go.
sub feed
{
	my ($bytes) = @_;
	my $done = 0;
	local $SIG{PIPE} = 'IGNORE';
	while ($done < length $bytes)
	{
		my $rc = syswrite(PIPE, $bytes, length($bytes) - $done, $done);
		return if !defined $rc && !$!{EAGAIN};
		$done += $rc // 0;
		usleep(1000) unless defined $rc;
	}
	return;
}

foreach my $rest (3_000_000, 0)
{
	my $err = '';
	my $run = half_put(\$err);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) $of_command");
	feed(bytes(8, $rest));
	close PIPE;
	eval { $run->finish };
	is(status_of($run->full_result), 1, "put, cancelled, $rest bytes to come");
	is($err, "securefile: pipe: canceling statement due to user request\n", 'says so');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM docs'), '0', 'and stores nothing');
	$node->safe_psql('postgres', 'DELETE FROM docs');
}

# A session that ends while the client is stopped with unsent bytes: it has answered a
# piece, says why, and closes.
{
	write_file('long', bytes(9, 30_000_000));
	arm($node, 'io_write', 'wait');
	my $err = '';
	my $run = IPC::Run::start([ 'securefile', 'put', '-t', 'docs', 'long' ], '2>', \$err);
	wait_for_sql($node, q{SELECT securefile_fault_fired('io_write') = 1});
	my $client = $run->{KIDS}[0]{PID};
	# it sleeps for good: until the server reads on
	for (my $asleep = 0; $asleep < 5; usleep(10_000))
	{
		$asleep = slurp_file("/proc/$client/stat") =~ /\) S / ? $asleep + 1 : 0;
	}
	kill 'STOP', $client;
	disarm($node);
	wait_for_sql($node, "SELECT wait_event = 'ClientRead' $of_command");
	$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid, 1000 * ' . patience() . ") $of_command");
	kill 'CONT', $client;
	eval { $run->finish };
	is(status_of($run->full_result), 3, 'put, its session is ended');
	is($err, "securefile: long: terminating connection due to administrator command\n", "the server's words");
}
sound($node, 'docs', 'the command', column => 'document');

# a server that does not say why
{
	my $err = '';
	my $run = half_put(\$err);
	$node->stop('immediate');
	feed(bytes(8, 3_000_000));
	close PIPE;
	eval { $run->finish };
	is(status_of($run->full_result), 3, 'put, the server goes');
	like($err, qr/^securefile: pipe: server closed the connection unexpectedly This probably means .*\.$/m, 'in one line');
}

done_testing();
