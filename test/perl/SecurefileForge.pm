# For tests of encryption: what somebody computes who can write the files of a server.

package SecurefileForge;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use IPC::Run;

our @EXPORT = qw(forge hex_of bytes_of);

sub hex_of { return unpack('H*', $_[0]) }
sub bytes_of { return pack('H*', $_[0]) }

# Answers to requests (test/cipher/forge.py), one for each.
sub forge
{
	my @requests = @_;
	my ($in, $out) = (join('', map { "$_\n" } @requests), '');
	IPC::Run::run([ '/usr/bin/python3', "$FindBin::RealBin/../../cipher/forge.py" ], '<', \$in, '>', \$out) or die 'forge.py failed';
	my @answers = split /\n/, $out;
	die 'answers are missing' if @answers != @requests;
	return wantarray ? @answers : $answers[0];
}

1;
