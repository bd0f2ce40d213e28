# PostgreSQL's protocol spoken by the test itself, message by message.

package SecurefileWire;

use strict;
use warnings;

use Exporter qw(import);
use IO::Socket::INET;
use IO::Socket::UNIX;

our @EXPORT = qw(connect_raw say_raw read_messages read_until row_types parameter_types);

# A session over a socket of the test's own.  Keys: tcp; dbname; parameters, a list of
# names and values for the startup message.
sub connect_raw
{
	my ($node, $name, %params) = @_;
	my $socket = $params{tcp} ? IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $node->port)
	  : IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port);
	die "no connection: $!" unless $socket;
	my $user = $node->safe_psql('postgres', 'SELECT current_user');
	my $startup = pack('N', 196608) . join("\0", 'user', $user, 'database', $params{dbname} || 'postgres',
		'application_name', $name, @{ $params{parameters} || [] }) . "\0\0";
	$socket->syswrite(pack('N', 4 + length $startup) . $startup);
	read_until($socket, 'Z');
	return $socket;
}

sub say_raw
{
	my ($socket, $type, $body) = @_;
	return $socket->syswrite($type . pack('N', 4 + length $body) . $body);
}

# The messages up to one of a type, or to the end: pairs of type and body.
sub read_messages
{
	my ($socket, $last) = @_;
	my @messages;
	while (read($socket, my $head, 5) == 5)
	{
		my ($type, $size) = unpack('aN', $head);
		my $body = '';
		$size == 4 || read($socket, $body, $size - 4) == $size - 4 or last;
		push @messages, [ $type, $body ];
		last if $type eq $last;
	}
	return @messages;
}

# The bodies of those of one type.
sub read_until
{
	my ($socket, $last, $wanted) = @_;
	return map { $_->[1] } grep { defined $wanted && $_->[0] eq $wanted } read_messages($socket, $last);
}

# What a RowDescription says: "name type length modifier" of each column.
sub row_types
{
	my ($body) = @_;
	my @fields = unpack('n/(Z* N n N s> l> n)', $body);
	my @columns;
	while (my ($name, undef, undef, $type, $length, $typmod) = splice(@fields, 0, 7))
	{
		push @columns, "$name $type $length $typmod";
	}
	return @columns;
}

sub parameter_types
{
	my ($body) = @_;
	return unpack('n/N', $body);
}

1;
