# A child that stays the user who called the tests, root as a rule, while everything else
# in the file goes on as the user who runs the servers.  The file says "# Runs as root" at
# its top, and starts the child before all that makes files.  The child ends when nobody
# is left at the other end of its pipe; so also when the test dies.

package CallersChild;

use strict;
use warnings;

use Exporter qw(import);
use IO::Handle;
use POSIX ();
use Socket;
use Test::More ();

our @EXPORT_OK = qw(start_child as_caller run_command);

my $ask;		# the pipe
my $child;
my $test = $$;

# A command's exit status and what it said.
sub run_command
{
	my (@command) = @_;
	my $pid = open(my $out, '-|');
	return "1 fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open(STDERR, '>&', \*STDOUT);
		open(STDIN, '<', '/dev/null');
		exec(@command) or POSIX::_exit(127);
	}
	my $said = join('', <$out>);
	close $out;
	return ($? >> 8) . " $said";
}

# Do what each line asks for (words with tabs between them) until there is no more.
sub serve
{
	my ($pipe) = @_;
	$SIG{$_} = 'IGNORE' for ('INT', 'TERM', 'HUP', 'PIPE');
	while (my $line = <$pipe>)
	{
		chomp $line;
		my $answer = run_command(split /\t/, $line);
		$answer =~ s/\s*\n\s*/ /g;
		print $pipe "$answer\n";
	}
	return;
}

sub step_down
{
	my $user = $ENV{RUN_AS} || 'postgres';
	my ($name, undef, $uid, $gid, @more) = getpwnam($user) or die "no user $user";
	$ENV{HOME} = $more[3] || '/';
	$ENV{USER} = $ENV{LOGNAME} = $name;
	$( = $gid;
	$) = "$gid $gid";
	POSIX::setuid($uid) or die "setuid: $!";
	die 'still root' if $> == 0 || $< == 0;
	return;
}

# Start it, and step down.  What the child does first and last: two functions, if any.
# Where the caller is not root there is no need for one.
sub start_child
{
	my ($first, $last) = @_;
	return if $> != 0;
	socketpair($ask, my $pipe, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "socketpair: $!";
	$_->autoflush(1) for ($ask, $pipe);
	$child = fork();
	die "fork: $!" unless defined $child;
	if ($child == 0)
	{
		close $ask;
		$first->() if $first;
		serve($pipe);
		$last->() if $last;
		POSIX::_exit(0);
	}
	close $pipe;
	step_down();
	return;
}

# Ask the child to run a command; what it said, or undef if it failed.
sub as_caller
{
	my (@command) = @_;
	my $answer;
	if ($child)
	{
		print $ask join("\t", @command), "\n";
		$answer = <$ask>;
		die "the process that stayed the caller's is gone" unless defined $answer;
	}
	else
	{
		$answer = run_command(@command);
	}
	my ($status, $said) = $answer =~ /^(\d+) (.*)$/s;
	Test::More::note("@command: $answer") if $status;
	return $status ? undef : $said;
}

# Comes after the one that stops the servers.
END
{
	if ($child && $$ == $test)
	{
		my $status = $?;
		close $ask;
		waitpid($child, 0);
		$? = $status;
	}
}

1;
