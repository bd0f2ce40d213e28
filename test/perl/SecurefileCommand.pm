# What the tests of the command share: running it, what it must say, files and trees.

package SecurefileCommand;

use strict;
use warnings;

use Exporter qw(import);
use File::Find ();
use File::Temp;
use IPC::Run ();
use JSON::PP ();
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(command status_of ends objects bytes holds trees_same temporaries enter);

# Work in a new directory, on database postgres of a cluster.
sub enter
{
	my ($node) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	$ENV{PGHOST} = $node->host;
	$ENV{PGPORT} = $node->port;
	$ENV{PGDATABASE} = 'postgres';
	delete @ENV{qw(PGUSER PGAPPNAME)};
	chdir $dir or die "could not enter $dir: $!";
	return $dir;
}

# Run the command; its status (128 and the number for a signal), output, messages.
sub command
{
	my (@args) = @_;
	my $in = ref $args[0] ? ${ shift @args } : '';
	my ($out, $err) = ('', '');
	my @command = ('securefile', @args);
	my $file;
	if ($in ne '')
	{
		$file = File::Temp->new;
		# a command that ends before it has read all of a pipe is no error of the test
		binmode $file;
		print $file $in;
		close $file or die "could not write $file: $!";
		@command = ('sh', '-c', 'cat "$0" | "$@"', "$file", @command);
	}
	IPC::Run::run(\@command, '<', '/dev/null', '>', \$out, '2>', \$err);
	return (status_of($?), $out, $err);
}

sub status_of { return $_[0] & 127 ? 128 + ($_[0] & 127) : $_[0] >> 8; }

# One test: the command ends with that status and says something like that.
sub ends
{
	my ($status, $like, $name, @args) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = command(@args);
	my $good = $rc == $status && "$out$err" =~ $like;
	ok($good, $name) or diag("status $rc, wanted $status and $like\nout: $out\nerr: $err");
	return $out;
}

# Objects of JSON Lines.
sub objects { return map { JSON::PP->new->utf8->decode($_) } split /\n/, $_[0]; }

# Bytes that differ everywhere.
sub bytes
{
	my ($seed, $length) = @_;
	my $state = $seed;
	my $block = join '', map { $state = ($state * 1103515245 + 12345) & 0x7fffffff; pack 'V', $state } 1 .. 1021;
	return substr($block x ($length / length($block) + 1), 0, $length);
}

# One test: a file holds these bytes.
sub holds
{
	my ($path, $content, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok(-f $path && slurp_file($path) eq $content, $name);
}

# One test: two trees are the same.
sub trees_same
{
	my ($one, $other, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($out, $err) = run_command([ 'diff', '-r', $one, $other ]);
	return is("$out$err", '', $name);
}

# Temporary files below a directory.
sub temporaries
{
	my @found;
	File::Find::find(sub { push @found, $_ if /^\.securefile-.*\.tmp$/ }, $_[0]);
	return scalar @found;
}

1;
