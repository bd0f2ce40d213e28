# The peer of a session stops (SIGSTOP), goes away or sends nonsense in the middle of a large
# value: the same events end the session as with bytea.  Peers are consumers of logical
# replication that take binary values, ordinary clients, also of the fastpath protocol and
# of SQL over a replication connection, a client that does not read a warning, and the
# command, when the server stops.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use SecurefileWire;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;
use Time::HiRes qw(usleep);

my @types = ('bytea', 'securefile');
my $node = new_cluster('stopped', init => { allows_streaming => 'logical' },
	conf => [ 'securefile.monitor = off', 'wal_level = logical', 'max_wal_senders = 10', 'max_replication_slots = 10', "listen_addresses = '127.0.0.1'" ]);
my $dir = $node->basedir;
my $len = 9_000_000;
my $seed = 0;
my @children;

foreach my $type (@types)
{
	$node->safe_psql('postgres', "CREATE TABLE t_$type (id int PRIMARY KEY, seed int, len int, doc $type)");
	$node->safe_psql('postgres', "CREATE PUBLICATION p_$type FOR TABLE t_$type");
	$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('s_$type', 'pgoutput')");
}
$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('decoded', 'pgoutput')");
prepare_handles($node);
my $expected = $node->safe_psql('postgres', "SELECT encode(blob(1, $len), 'hex')");

# Sessions are found by the names that they give themselves.
sub sessions { return "FROM pg_stat_activity WHERE application_name LIKE '$_[0]'" }

sub is_gone
{
	my ($name, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok(wait_for_sql($node, 'SELECT count(*) = 0 ' . sessions($name)), "$name: $what");
}

# Does a session wait for its peer?  Then its peer does not take what it sends.
sub is_stuck
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok(wait_for_sql($node, q{SELECT count(*) = 1 AND bool_and(wait_event IN ('ClientWrite', 'WalSenderWriteData')) }
				. sessions($name)), "$name: waits for its peer");
}

sub start
{
	my (@command) = @_;
	my $pid = fork();
	die 'fork' unless defined $pid;
	if ($pid == 0)
	{
		# a shell's background jobs ignore it, and what they start
		$SIG{INT} = 'DEFAULT';
		open(STDOUT, '>', '/dev/null') && open(STDERR, '>>', "$dir/peers.err") && exec @command;
		POSIX::_exit(1);
	}
	push @children, $pid;
	return $pid;
}

sub end_children
{
	kill 'KILL', @children;
	waitpid($_, 0) foreach @children;
	@children = ();
	return;
}

sub set_timeout
{
	my ($timeout) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET wal_sender_timeout = '$timeout'");
	$node->reload;
	# a session that begins before the server has read it would have the old one
	wait_for_sql($node, "SELECT setting::interval = '$timeout'::interval FROM (SELECT current_setting('wal_sender_timeout')) s (setting)")
	  or die 'the setting has not come';
	return;
}

# ---- consumers of logical replication ----

# Consumers of both, stopped, with a value on the way to each: over a unix socket, which
# holds little.
sub stopped_consumers
{
	my ($what) = @_;
	my %pids;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	set_timeout('1h');
	foreach my $type (@types)
	{
		$pids{$type} = start('pg_recvlogical', '-d', $node->connstr . " dbname=postgres application_name=${what}_$type",
			'-S', "s_$type", '--start', '--no-loop', '-f', '/dev/null', '-o', 'proto_version=2', '-o', 'binary=true', '-o', "publication_names=p_$type");
		wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = '${what}_$type' AND state = 'streaming'")
		  or die 'the consumer does not stream';
		kill 'STOP', $pids{$type};
		$seed++;
		$node->safe_psql('postgres', "INSERT INTO t_$type VALUES ($seed, $seed, $len, blob($seed, $len))");
		is_stuck("${what}_$type");
	}
	return %pids;
}

# the time limit of the server
stopped_consumers('timeout');
set_timeout('1s');
is_gone("timeout_$_", 'ended by wal_sender_timeout') foreach @types;
end_children();
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_replication_slots WHERE active"), 0, 'no slot is held');

# a consumer that is killed in the middle of a message
my %killed = stopped_consumers('killed');
foreach my $type (@types)
{
	kill 'KILL', $killed{$type};
	is_gone("killed_$type", 'ended with its consumer');
}
end_children();

# who reads slowly gets all of it, byte for byte
foreach my $type (@types)
{
	my $pid = start('pg_recvlogical', '-d', $node->connstr . ' dbname=postgres application_name=slow',
		'-S', "s_$type", '--start', '--no-loop', '-f', "$dir/received_$type", '-s', '1', '-F', '1', '-o', 'proto_version=2',
		'-o', 'binary=true', '-o', "publication_names=p_$type");
	foreach (1 .. 20)
	{
		kill 'STOP', $pid;
		usleep(5_000);
		kill 'CONT', $pid;
		usleep(5_000);
	}
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	wait_for_sql($node, "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 's_$type'")
	  or die 'the consumer does not come on';
	my $received = slurp("$dir/received_$type");
	foreach my $row (split /\n/, $node->safe_psql('postgres', "SELECT encode(blob(seed, len), 'hex') FROM t_$type ORDER BY id"))
	{
		cmp_ok(index($received, pack('H*', $row)), '>', 0, "slow, $type: a value is received");
	}
	end_children();
}

# ---- ordinary clients ----

my $chunks = 'COPY (SELECT securefile_chunks(doc) FROM t_securefile, generate_series(1, 1000)) TO STDOUT (FORMAT binary)';
my $rows = 'COPY (SELECT doc FROM t_%s, generate_series(1, 1000)) TO STDOUT (FORMAT binary)';
my %streams = (
	(map { $_ => sprintf($rows, $_) } @types),
	chunks => $chunks,
	decoded => q{COPY (SELECT data FROM pg_logical_slot_peek_binary_changes('decoded', NULL, NULL,
		'proto_version', '2', 'publication_names', 'p_securefile', 'binary', 'true'), generate_series(1, 1000)) TO STDOUT (FORMAT binary)});

# A client that has been stopped in the middle of a large result.
sub stopped_client
{
	my ($name, $stream, $parameters) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $pid = start('psql', '-XAtq', '-d', $node->connstr . " dbname=postgres application_name=$name " . ($parameters || ''),
		'-c', $stream);
	wait_for_sql($node, 'SELECT count(*) = 1 ' . sessions($name) . " AND state = 'active'") or die 'no session';
	kill 'STOP', $pid;
	is_stuck($name);
	return $pid;
}

foreach my $name (sort keys %streams)
{
	foreach my $parameters ('', 'replication=database')
	{
		my $session = "client_$name" . ($parameters ? '_replication' : '');
		stopped_client($session, $streams{$name}, $parameters);
		is($node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid, 1000 * ' . $PostgreSQL::Test::Utils::timeout_default . ') ' . sessions($session)),
			't', "$session: terminated");
		end_children();
	}
}

# A cancel, and so a time limit, waits until the client goes on, for all types.
foreach my $name (sort keys %streams)
{
	my $pid = stopped_client("cancelled_$name", $streams{$name});
	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) ' . sessions("cancelled_$name"));
	is_stuck("cancelled_$name");
	kill 'CONT', $pid;
	is_gone("cancelled_$name", 'cancelled when its client goes on');
	end_children();
}

# ---- clients that speak the protocol as they like ----

# a call of a function, with int4 parameters, in binary
sub call_raw
{
	my ($socket, $function, @parameters) = @_;
	my $oid = $node->safe_psql('postgres', "SELECT '$function'::regprocedure::oid");
	return say_raw($socket, 'F', pack('N n n n', $oid, 1, 1, scalar @parameters)
		  . join('', map { pack('N N', 4, $_) } @parameters) . pack('n', 1));
}

# the largest is sent in more parts than a socket holds
my $socket = connect_raw($node, 'fastpath');
say_raw($socket, 'Q', "BEGIN; SELECT securefile_open(doc, 'r') FROM t_securefile ORDER BY id LIMIT 1\0");
my ($row) = read_until($socket, 'Z', 'D');
# one column, its length, its text
my $handle = substr($row, 6);
like($handle, qr/^\d+$/, 'fastpath: a handle');
call_raw($socket, 'securefile_read(int, int)', $handle, $len);
is_stuck('fastpath');
my $first = $node->safe_psql('postgres', 'SELECT min(seed) FROM t_securefile');
my ($result) = read_until($socket, 'Z', 'V');
ok($result eq pack('N', $len) . pack('H*', $node->safe_psql('postgres', "SELECT encode(blob($first, $len), 'hex')")),
	'fastpath: the value');
say_raw($socket, 'Q', "SELECT securefile_seek($handle, 0, 0)\0");
read_until($socket, 'Z');
call_raw($socket, 'securefile_read(int, int)', $handle, $len);
is_stuck('fastpath');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) ' . sessions('fastpath'));
is_gone('fastpath', 'terminated');
close $socket;

# a client that resets its connection, one that sends nonsense behind its query
foreach my $name (sort keys %streams)
{
	my $peer = connect_raw($node, "reset_$name", tcp => 1);
	say_raw($peer, 'Q', "$streams{$name}\0");
	is_stuck("reset_$name");
	setsockopt($peer, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
	close $peer;
	is_gone("reset_$name", 'ended with its client');

	$peer = connect_raw($node, "nonsense_$name", tcp => 1);
	say_raw($peer, 'Q', "$streams{$name}\0");
	is_stuck("nonsense_$name");
	$peer->syswrite("\xff" x 1000);
	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) ' . sessions("nonsense_$name"));
	my @errors = read_until($peer, '', 'E');
	like("@errors", qr/C57014.*C08P01/s, "nonsense_$name: cancelled, then refused");
	is_gone("nonsense_$name", 'ended');
	close $peer;
}

# ---- a server that stops ----

# The command, while it waits for its session, or for the whole server, can be interrupted;
# where the server does not take the cancel request, a second time.
$node->safe_psql('postgres', 'CREATE TABLE files (path text PRIMARY KEY, document securefile)');
my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
foreach my $what ('session', 'server')
{
	my $lock = background($node);
	$lock->query_safe('BEGIN; LOCK TABLE files');
	my $pid = start('securefile', 'ls', '-d', $node->connstr . " dbname=postgres application_name=command_$what", '-t', 'files');
	wait_for_sql($node, "SELECT count(*) = 1 " . sessions("command_$what") . " AND wait_event_type = 'Lock'") or die 'does not wait';
	my $session = $node->safe_psql('postgres', 'SELECT pid ' . sessions("command_$what"));
	my @stopped = $what eq 'server' ? ($session, $postmaster) : ($session);
	kill 'STOP', @stopped;
	my $tries = 0;
	while (waitpid($pid, POSIX::WNOHANG()) == 0 && $tries++ < 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		kill 'INT', $pid;
		usleep(100_000);
	}
	my $status = $?;
	kill 'CONT', @stopped;
	@children = grep { $_ != $pid } @children;
	ok($status == 2 || ($status == 130 << 8 && $what eq 'session'), "command_$what: interrupted ($status)");
	$lock->query_safe('COMMIT');
	$lock->quit;
	is_gone("command_$what", 'no session is left');
}

# ---- shutdown ----

stopped_consumers('shutdown');
stopped_client("shutdown_$_", $streams{$_}) foreach ('chunks', 'decoded');
stopped_client("shutdown_rows_$_", $streams{$_}) foreach @types;
set_timeout('1s');
command_ok([ 'pg_ctl', '-D', $node->data_dir, '-m', 'fast', '-t', $PostgreSQL::Test::Utils::timeout_default, 'stop' ],
	'a fast shutdown while all of them are stopped');
end_children();
if (-e $node->data_dir . '/postmaster.pid')
{
	$node->stop('immediate');
}
else
{
	$node->_update_pid(0);
}

my $log = slurp_file($node->logfile);
unlike($log, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
$node->start;
foreach my $type (@types)
{
	rows_right($node, "t_$type", $node->safe_psql('postgres', "SELECT count(*) FROM t_$type"), 'after all this');
}
$node->safe_psql('postgres', "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots");
sound($node, 't_securefile', 'after all this');

# ---- a client that does not take a warning ----

# A damaged map is met when space is freed.  The client has taken as many messages as its
# socket holds, so that the warning waits for it: in a session that can be terminated.
# (Slots would hold what is to be freed.)
make_table($node, 'damaged');
fill($node, 'damaged', 1, 2, 100_000);
my $segment = segment_of($node, 'damaged');
$node->safe_psql('postgres', 'CREATE SEQUENCE noticed');
$node->safe_psql('postgres', 'DELETE FROM damaged');
$node->stop;
change($segment, 1, USED, "\0" x 4096);
$node->start;
my $notices = "DO 'BEGIN FOR i IN 1 .. %s LOOP PERFORM nextval(''noticed''); RAISE NOTICE ''%%'', i; END LOOP; END';";

my $full = connect_raw($node, 'notices');
say_raw($full, 'Q', sprintf("$notices\0", 10_000_000));
is_stuck('notices');
my $count = $node->safe_psql('postgres', 'SELECT last_value - 1 FROM noticed');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) ' . sessions('notices'));
is_gone('notices', 'terminated');
close $full;

$full = connect_raw($node, 'warning');
say_raw($full, 'Q', sprintf("$notices SELECT securefile_maintain('damaged', 'doc')\0", $count));
is_stuck('warning');
is($node->safe_psql('postgres', 'SELECT query ~ $$^DO$$ AND last_value - 1 = ' . 2 * $count . ' FROM noticed, pg_stat_activity'
			. " WHERE application_name = 'warning'"), 't', 'warning: all notices came before it');
like(slurp_file($node->logfile), qr/warning WARNING:  space to be freed is free already/, 'warning: of the damage');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) ' . sessions('warning'));
is_gone('warning', 'terminated');
close $full;
$node->safe_psql('postgres', 'DROP TABLE damaged');

done_testing();
