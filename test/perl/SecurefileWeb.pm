# A small web server for tests, on a port of its own of 127.0.0.1, which can do what servers do
# wrong.  The path of a request says what it does:
#
#	/bytes/SEED/LENGTH	bytes(SEED, LENGTH) of SecurefileCommand
#	/chunked/SEED/LENGTH	the same, in chunks, so that no header tells the length
#	/often/N/PATH		answers 503 to the first N requests, then as PATH
#	/cut/N/SEED/LENGTH	sends half of it to the first N requests
#	/to/URL			redirects to a URL, written in hexadecimal
#	/around			redirects to itself
#	/status/N		that status, with a body
#	/endless		sends without end
#	/silent			says nothing after the headers

package SecurefileWeb;

use strict;
use warnings;

use Exporter qw(import);
use IO::Socket::INET;
use POSIX ();
use SecurefileCommand;

our @EXPORT = qw(web_begin web_end);

my %seen;
my $server = 0;

sub reply
{
	my ($socket, $status, $body, @headers) = @_;
	print $socket join("\r\n", "HTTP/1.1 $status", 'Connection: close', 'Content-Length: ' . length $body, @headers, '', $body);
	return;
}

# Answer one request.
sub answer
{
	my ($socket, $path) = @_;
	if ($path =~ m{^/often/(\d+)(/.*)})
	{
		return $seen{$path}++ < $1 ? reply($socket, '503 Busy', 'busy') : answer($socket, $2);
	}
	return reply($socket, '200 OK', bytes($1, $2)) if $path =~ m{^/bytes/(\d+)/(\d+)$};
	if ($path =~ m{^/chunked/(\d+)/(\d+)$})
	{
		my @parts = (unpack('(a70000)*', bytes($1, $2)), '');
		print $socket "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
		  map { sprintf "%x\r\n%s\r\n", length, $_ } @parts;
		return;
	}
	if ($path =~ m{^/cut/(\d+)/(\d+)/(\d+)$})
	{
		return reply($socket, '200 OK', bytes($2, $3)) if $seen{$path}++ >= $1;
		print $socket "HTTP/1.1 200 OK\r\nContent-Length: $3\r\n\r\n", bytes($2, $3 / 2);
		return;
	}
	return reply($socket, '302 Found', 'moved', 'Location: ' . pack 'H*', $1) if $path =~ m{^/to/([0-9a-f]+)$};
	return reply($socket, '302 Found', 'moved', 'Location: /around') if $path eq '/around';
	return reply($socket, "$1 Status", 'a body that is no file') if $path =~ m{^/status/(\d+)$};
	if ($path eq '/endless')
	{
		print $socket "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
		1 while print $socket 'x' x 65536;
		return;
	}
	if ($path eq '/silent')
	{
		print $socket "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
		# until the client has had enough
		sysread $socket, my $more, 1;
		return;
	}
	return reply($socket, '404 Not Found', 'nothing');
}

sub serve
{
	my ($listener) = @_;
	local $SIG{PIPE} = 'IGNORE';
	my $test = getppid;
	while ($test == getppid)
	{
		my $socket = $listener->accept or next;
		my $request = <$socket> // '';
		while (defined(my $header = <$socket>))
		{
			last if $header =~ /^\r?\n$/;
		}
		answer($socket, $1) if $request =~ m{^GET (\S+) HTTP/};
		close $socket;
	}
	return;
}

# Start it; the URL that its paths follow.
sub web_begin
{
	my $listener = IO::Socket::INET->new(Listen => 64, Timeout => 1, LocalAddr => '127.0.0.1', ReuseAddr => 1)
	  or die "could not listen: $!";
	my $url = 'http://127.0.0.1:' . $listener->sockport;
	# a proxy would be asked for 127.0.0.1, too
	delete @ENV{qw(http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY)};
	my $pid = fork // die "could not fork: $!";
	if ($pid == 0)
	{
		# the harness waits for the end of what the test prints
		open STDOUT, '>', '/dev/null';
		open STDERR, '>', '/dev/null';
		serve($listener);
		POSIX::_exit(0);
	}
	close $listener;
	$server = $pid;
	return $url;
}

sub web_end
{
	my $status = $?;
	if ($server)
	{
		kill 'KILL', $server;
		waitpid $server, 0;
	}
	$server = 0;
	$? = $status;
	return;
}

END { web_end(); }

1;
