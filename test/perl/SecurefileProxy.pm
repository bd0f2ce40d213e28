# A server between a client and PostgreSQL that is not what the client thinks: it swallows
# cancel requests, does not accept them, or changes what PostgreSQL answers.

package SecurefileProxy;

use strict;
use warnings;

use Exporter qw(import);
use IO::Select;
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use Socket qw(SOCK_STREAM);

our @EXPORT = qw(start_proxy stop_proxy);

# Start one; its directory for PGHOST, with the port of the cluster.  Keys: dir (default: a new one).
# cancels, what becomes of cancel requests: "pass" (default), "swallow", or "refuse": as many connections as
# allow are accepted, and no more.  change, a function that gets the type and the body of a message
# of the server and returns messages [type, body] in its place.
sub start_proxy
{
	my ($node, %params) = @_;
	my $dir = $params{dir} // PostgreSQL::Test::Utils::tempdir_short();
	my $place = '/.s.PGSQL.' . $node->port;
	my $listener = IO::Socket::UNIX->new(Local => $dir . $place, Listen => 1, Type => SOCK_STREAM) or die "no socket: $!";
	my $pid = fork;
	die "no process: $!" unless defined $pid;
	if ($pid == 0)
	{
		local $SIG{PIPE} = 'IGNORE';
		serve($listener, $node->host . $place, %params);
		POSIX::_exit(0);
	}
	close $listener;
	return { dir => $dir, pid => $pid };
}

sub stop_proxy
{
	my ($proxy) = @_;
	kill 'KILL', $proxy->{pid};
	waitpid $proxy->{pid}, 0;
	return;
}

# Write all of it; what a peer that is gone does not take is lost.
sub give
{
	my ($to, $bytes) = @_;
	my $done = 0;
	while ($done < length $bytes)
	{
		my $rc = syswrite($to, $bytes, length($bytes) - $done, $done);
		return unless defined $rc;
		$done += $rc;
	}
	return;
}

# A message of the server, as it was or changed.
sub changed
{
	my ($change, $type, $body) = @_;
	return join '', map { $_->[0] . pack('N', 4 + length $_->[1]) . $_->[1] } $change->($type, $body);
}

sub serve
{
	my ($listener, $target, %params) = @_;
	my $change = $params{change};
	my $select = IO::Select->new($listener);
	my (%peer, %pending, %is_server, @kept);
	my $accepted = 0;
	while (1)
	{
		foreach my $ready ($select->can_read)
		{
			if ($ready == $listener)
			{
				my $client = $listener->accept or next;
				$accepted++;
				sysread($client, my $first, 65536) or next;
				if (substr($first, 4, 4) eq pack('N', 80877102) && ($params{cancels} // 'pass') eq 'swallow')
				{
					push @kept, $client;
					next;
				}
				my $server = IO::Socket::UNIX->new(Peer => $target) or next;
				give($server, $first);
				@peer{ $client, $server } = ($server, $client);
				$is_server{$server} = 1;
				$pending{$server} = '';
				$select->add($client, $server);
				# the queue of two that is left fills up
				if (($params{cancels} // '') eq 'refuse' && $accepted == $params{allow})
				{
					$select->remove($listener);
					push @kept, map { my $s; socket($s, 1, 1, 0); $s->blocking(0); connect($s, Socket::pack_sockaddr_un($listener->hostpath)); $s } 1 .. 4;
				}
				next;
			}
			my $other = $peer{$ready} or next;
			if (!sysread($ready, my $bytes, 65536))
			{
				$select->remove($ready, $other);
				delete @peer{ $ready, $other };
				close $_ foreach $ready, $other;
			}
			elsif (!$change || !$is_server{$ready})
			{
				give($other, $bytes);
			}
			else
			{
				$pending{$ready} .= $bytes;
				while (length $pending{$ready} >= 5)
				{
					my ($type, $size) = unpack('aN', $pending{$ready});
					last if length $pending{$ready} < 1 + $size;
					my $body = substr($pending{$ready}, 5, $size - 4);
					substr($pending{$ready}, 0, 1 + $size, '');
					give($other, changed($change, $type, $body));
				}
			}
		}
	}
	return;
}

1;
