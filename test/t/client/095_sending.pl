# Large pieces on their way to the client, past the server's send buffer: over every
# kind of connection, of every size around the limits, from every call that gives large
# pieces; clients that stop reading, are cancelled, are gone.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('sending');
my $len = 3_000_017;
my $dir = $node->basedir;

# ---- kinds of connections ----

my $certificate = $node->data_dir . '/server';
system_or_bail('openssl', 'req', '-new', '-x509', '-days', '2', '-nodes', '-subj', '/CN=localhost',
	'-keyout', "$certificate.key", '-out', "$certificate.crt");
chmod 0600, "$certificate.key";
my $has_tls = $node->safe_psql('postgres', 'SHOW ssl_library') ne '';
$node->append_conf('postgresql.conf', $_) for ($has_tls ? 'ssl = on' : (), "listen_addresses = '127.0.0.1'");
$node->append_conf('pg_hba.conf', 'host all all 127.0.0.1/32 trust');
$node->restart;

make_table($node, 'docs', 'filesystem_like_logging');
fill($node, 'docs', 1, 1, $len);
fill($node, 'docs', 2, 2, 100);
my $expected = $node->safe_psql('postgres', "SELECT encode(blob(1, $len), 'hex')");
$expected = pack('H*', $expected);

my ($host, $port) = ($node->host, $node->port);
my %connections = (
	'unix socket' => "host=$host port=$port dbname=postgres",
	'TCP' => "host=127.0.0.1 port=$port dbname=postgres sslmode=disable",
	'TLS' => "host=127.0.0.1 port=$port dbname=postgres sslmode=require");
SKIP:
{
	skip 'TLS: the server was built without OpenSSL', 1 unless $has_tls;
	pass('the server has TLS');
}
delete $connections{TLS} unless $has_tls;

# What statements print, byte for byte; they go over one connection.
sub printed
{
	my ($connection, @statements) = @_;
	my ($out, $err);
	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $connection,
			map { ('-c', $_) } @statements ], '>', \$out, '2>', \$err)
	  or die "@statements: $err";
	return $out;
}

# The fields of binary COPY data of one column, in one; and how many there are.
sub fields
{
	my ($copied) = @_;
	my ($at, $bytes, $n) = (19, '', 0);
	substr($copied, 0, 11) eq "PGCOPY\n\377\r\n\0" or die 'no COPY data';
	while (unpack('n', substr($copied, $at, 2)) == 1)
	{
		my $field = unpack('N', substr($copied, $at + 2, 4));
		$bytes .= substr($copied, $at + 6, $field);
		$at += 6 + $field;
		$n++;
	}
	return ($bytes, $n);
}

foreach my $name (sort keys %connections)
{
	my $connection = $connections{$name};
	my $is_tls = printed($connection, 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()');
	is($is_tls, ($name eq 'TLS' ? 't' : 'f') . "\n", "$name: is what it is called");

	# a message is a field with 6 bytes before it: sizes around 8 and 32 KB, and large ones
	foreach my $size (8180 .. 8192, 32755 .. 32770, 65536, 131072, 262144, 1048576, 4_000_000)
	{
		my $copied = printed($connection,
			"COPY (SELECT securefile_chunks(doc, 1, NULL, $size) FROM docs WHERE id = 1)"
			  . ' TO STDOUT (FORMAT binary)');
		my ($bytes, $n) = fields($copied);
		ok($bytes eq $expected && $n == int(($len + $size - 1) / $size), "$name: pieces of $size bytes");
	}

	# with small messages between the large ones, before and behind them
	my $mixed = printed($connection,
		"SELECT 'before'",
		q{SELECT n, securefile_chunks(doc, n, 40000, 39000) FROM docs, generate_series(1, 3) n WHERE id = 1},
		"SELECT 'behind'");
	my $hex = sub { '\x' . unpack('H*', substr($expected, $_[0] - 1, $_[1])) . "\n" };
	is($mixed, "before\n" . join('', map { "$_|" . $hex->($_, 39000) . "$_|" . $hex->($_ + 39000, 1000) } 1 .. 3)
		  . "behind\n", "$name: between small messages");

	# other calls that give much at once
	foreach my $call ('doc::bytea', 'substring(doc, 1)', "securefile_read(securefile_open(doc, 'r'), 4000000)")
	{
		my ($bytes) = fields(printed($connection,
				"BEGIN; COPY (SELECT $call FROM docs WHERE id = 1) TO STDOUT (FORMAT binary); COMMIT"));
		ok($bytes eq $expected, "$name: $call");
	}
	my ($bytes) = fields(printed($connection, 'COPY (SELECT doc FROM docs WHERE id = 1) TO STDOUT (FORMAT binary)'));
	ok($bytes eq $expected, "$name: the value itself");
}

# ---- clients that do not read ----

# A client that reads a stream of 3 GB, and stops after the first byte.
sub stuck_client
{
	my ($connection, $name) = @_;
	my $stream = 'COPY (SELECT securefile_chunks(doc) FROM docs, generate_series(1, 1000)'
	  . ' WHERE id = 1) TO STDOUT (FORMAT binary)';
	my $pid = open(my $out, '-|', 'bash', '-c', 'exec psql -XAtq -d "$1" -c "$2" -c "$3" 2>"$4"', 'bash',
		"$connection application_name=$name", $stream, "SELECT 'goes on'", "$dir/$name.err")
	  or die "psql: $!";
	my $stuck;

	binmode $out;
	read($out, my $first, 1);
	$stuck = wait_for_sql($node,
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = '$name' AND wait_event = 'ClientWrite'");
	ok($stuck, "$name: waits for its client");
	return ($out, $pid);
}

sub ended
{
	my ($name) = @_;
	return ok(wait_for_sql($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = '$name'"),
		"$name: the session is gone");
}

foreach my $kind (sort keys %connections)
{
	my $connection = $connections{$kind};
	(my $name = lc $kind) =~ tr/ /_/;

	# terminated
	my ($out) = stuck_client($connection, "terminated_$name");
	is($node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid, 1000 * ' . patience() . ') FROM pg_stat_activity'
				. " WHERE application_name = 'terminated_$name'"), 't', "$name: terminated while it waits");
	ended("terminated_$name");
	{ local $/; readline($out); }
	ok(!close($out), "$name: its client is told");

	# cancelled: that waits until the client reads on, and then the session goes on
	($out) = stuck_client($connection, "cancelled_$name");
	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_activity'
		  . " WHERE application_name = 'cancelled_$name'");
	my $rest = do { local $/; readline($out) };
	close $out;
	like(slurp_file("$dir/cancelled_$name.err"), qr/ERROR:  canceling statement due to user request/,
		"$name: cancelled");
	like($rest, qr/goes on\n\z/, "$name: the session goes on");
	cmp_ok(length $rest, '<', 100 * $len, "$name: the stream ended early");

	# killed: what is left of the stream is not even read
	my $read_bytes = "SELECT direct_read_bytes FROM securefile_stat WHERE relid = 'docs'::regclass";
	my $before = $node->safe_psql('postgres', $read_bytes);
	($out, my $pid) = stuck_client($connection, "killed_$name");
	kill 'KILL', $pid;
	ended("killed_$name");
	close $out;
	cmp_ok($node->safe_psql('postgres', $read_bytes) - $before, '<', 200 * $len, "$name: the stream ended with its client");
}
like(slurp_file($node->logfile), qr/LOG:  (could not send data to client|connection to client lost)/,
	'a lost client is logged');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'nothing crashed');
rows_right($node, 'docs', 2, 'after all this');
sound($node, 'docs', 'after all this');

done_testing();
