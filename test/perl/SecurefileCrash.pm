# For tests that crash servers at fault points, in recovery too: quicker, and with
# fewer words, than PostgreSQL::Test::Cluster.  The server must have
# restart_after_crash = off.

package SecurefileCrash;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use PostgreSQL::Test::Utils;
use SecurefileTest;

our @EXPORT = qw(wait_for_process wait_for_exit start_with stop_server restart run_psql to_replay);

sub is_gone { return process_state($_[0]) =~ /^Z?$/; }

sub postmaster_pid
{
	my ($node) = @_;
	open(my $fh, '<', $node->data_dir . '/postmaster.pid') or return 0;
	return (<$fh> || 0) + 0;
}

sub wait_for_process
{
	my ($pid) = @_;
	wait_until(sub { is_gone($pid) }, undef, 3_000) or die "process $pid did not end";
	return;
}

sub wait_for_exit
{
	my ($node) = @_;
	my $pid = postmaster_pid($node);
	wait_for_process($pid) if $pid;
	$node->{_pid} = undef;
	return;
}

# Start the server with points armed; false if it died of it.
sub start_with
{
	my ($node, $faults, @options) = @_;
	my ($log, $data) = ($node->logfile, $node->data_dir);
	my ($state, $offset) = ('', -s $log);
	local $ENV{SECUREFILE_FAULT} = $faults;
	delete $ENV{SECUREFILE_FAULT} unless $faults;
	my $pid = qx(setsid postgres -D '$data' @options </dev/null >>'$log' 2>&1 & echo \$!) + 0;

	wait_until(sub {
		return 1 if is_gone($pid);
		# it comes and goes
		my @lines = split /\n/, eval { slurp("$data/postmaster.pid") } || '';
		$state = 'ready' if @lines >= 8 && $lines[0] == $pid && $lines[7] =~ /^ready/;
		return $state eq 'ready';
	}, undef, 3_000) or die 'server did not start';
	$node->_update_pid(1) if $state;
	die "server did not start: $1" if slurp_file($log, $offset) =~ /(lock file.*)/;
	unlink "$data/postmaster.pid" unless $state;
	return $state eq 'ready';
}

# Stop the server, if it is there.
sub stop_server
{
	my ($node) = @_;
	my $pid = postmaster_pid($node);

	kill 'INT', $pid if $pid;
	wait_for_exit($node);
	return;
}

# After a crash nobody writes for a second; after this he does.
sub restart
{
	my ($node) = @_;
	stop_server($node);
	start_with($node, '') or die 'server does not start';
	return;
}

# psql with a script, its output and errors.
sub run_psql
{
	my ($node, $sql, $db) = @_;
	my $dir = $node->basedir;

	open(my $fh, '>', "$dir/script") or die $!;
	print $fh $sql;
	close $fh;
	system("psql -X -A -t -d '" . $node->connstr($db || 'postgres')
		  . "' -f '$dir/script' >'$dir/out' 2>'$dir/err' </dev/null");
	my ($out, $err) = (slurp("$dir/out"), slurp("$dir/err"));
	return ($out, $err);
}

# What the server will replay of ours: how often each point of it will be passed.
my %redo_of = map { hex($_->[1]) => 'redo_' . lc $_->[0] }
  map { [ /^(\w+)\s+0x(\w+)/ ] }
  slurp("$FindBin::RealBin/../../../src/space/record.h") =~ /^#define XLOG_SF_(\w+\s+0x\w+)/mg;

sub to_replay
{
	my ($node) = @_;
	my $data = $node->data_dir;
	my ($redo) = qx(pg_controldata '$data') =~ /REDO location:\s+(\S+)/;
	my %count;
	foreach my $info (qx(pg_waldump --rmgr=custom170 -p '$data/pg_wal' -s $redo 2>/dev/null) =~ /UNKNOWN \((\w+)\)/g)
	{
		$count{redo_done}++;
		$count{ $redo_of{ hex $info } }++;
	}
	return \%count;
}

1;
