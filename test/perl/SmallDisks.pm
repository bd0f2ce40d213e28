# File systems of their own for a TAP file: loop images, or such as lie in memory.
# The file says "# Runs as root" at its top, and uses this module before all that
# makes files: mounting wants root, which a child of ours stays, while everything
# else goes on as the user who runs the servers.  The child ends, and unmounts, when
# nobody is left at the other end of its pipe; so also when the test dies.

package SmallDisks;

use strict;
use warnings;

use File::Temp qw(tempdir);
use IO::Handle;
use POSIX ();
use Socket;
use Test::More ();

my $ask;		# the pipe
my $top;		# where all are mounted
my $images;		# and where their images lie: in memory, flushes cost nothing there
my $child;
my $test = $$;

# ---- the child ----

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

# Servers that have been killed may take a moment to go.
sub unmount_all
{
	foreach my $dir ((grep { $_ ne "$images/" } glob("$top/*/")), "$images/")
	{
		for (my $i = 0; $i < 300; $i++)
		{
			last if run_command('umount', $dir) =~ /^0|not mounted/;
			select(undef, undef, undef, 0.02);
		}
		run_command('umount', '-l', $dir);
		rmdir $dir;
	}
	run_command('rm', '-rf', '--one-file-system', $top);
	return;
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
	unmount_all();
	return;
}

# ---- the test ----

sub step_down
{
	my $user = $ENV{RUN_AS} || 'postgres';
	my ($name, undef, $uid, $gid, @more) = getpwnam($user) or die "no user $user";
	chown($uid, $gid, $top) or die "$top: $!";
	$ENV{HOME} = $more[3] || '/';
	$ENV{USER} = $ENV{LOGNAME} = $name;
	$( = $gid;
	$) = "$gid $gid";
	POSIX::setuid($uid) or die "setuid: $!";
	die 'still root' if $> == 0 || $< == 0;
	return;
}

# Ask the child to run a command; what it said, or undef if it failed.
sub as_root
{
	my (@command) = @_;
	print $ask join("\t", @command), "\n";
	my $answer = <$ask>;
	die "the process that mounts is gone" unless defined $answer;
	my ($status, $said) = $answer =~ /^(\d+) (.*)$/;
	Test::More::note("@command: $answer") if $status;
	return $status ? undef : $said;
}

# Mount a file system of that type and size; options of mkfs and of mount as words
# and as in fstab.  Its directory, or undef.
sub make
{
	my ($name, $type, $size, $mkfs, $options) = @_;
	my $dir = "$top/$name";
	my @how = ('-t', $type, $type =~ /^(ramfs|tmpfs)$/ ? $type : "$images/$name.img");

	mkdir $dir or die "$dir: $!";
	if ($how[2] ne $type)
	{
		return unless defined as_root('truncate', '-s', $size, $how[2]);
		return unless defined as_root("mkfs.$type", '-q', @$mkfs, $how[2]);
	}
	my @options = ($how[2] eq $type ? () : 'loop', $options || ());
	unshift @how, '-o', join(',', @options) if @options;
	return unless defined as_root('mount', @how, $dir);
	as_root('chown', "$>:" . ($) + 0), $dir);
	as_root('chmod', '755', $dir);
	return $dir;
}

sub import
{
	Test::More::plan(skip_all => 'mounting file systems needs root') if $> != 0;
	$top = tempdir('securefile-disks.XXXXXX', TMPDIR => 1);
	chmod 0755, $top;
	$images = "$top/images";
	mkdir $images or die "$images: $!";
	socketpair($ask, my $pipe, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "socketpair: $!";
	$_->autoflush(1) for ($ask, $pipe);
	$child = fork();
	die "fork: $!" unless defined $child;
	if ($child == 0)
	{
		close $ask;
		run_command('mount', '-t', 'tmpfs', '-o', 'size=1G', 'tmpfs', $images);
		serve($pipe);
		POSIX::_exit(0);
	}
	close $pipe;
	step_down();
	return;
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
