# File systems of their own for a TAP file: loop images, or such as lie in memory.
# The file says "# Runs as root" at its top, and uses this module before all that
# makes files: mounting wants root, which a child stays (CallersChild.pm), and which
# unmounts when it ends.

package SmallDisks;

use strict;
use warnings;

use CallersChild qw(start_child as_caller run_command);
use File::Temp qw(tempdir);
use Test::More ();

my $top;		# where all are mounted
my $images;		# and where their images lie: in memory, flushes cost nothing there

sub mount_images
{
	run_command('mount', '-t', 'tmpfs', '-o', 'size=1G', 'tmpfs', $images);
	return;
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

# As root; what it said, or undef if it failed.
sub as_root { return as_caller(@_); }

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

# Bytes that are left on a disk.
sub avail_bytes
{
	my ($dir) = @_;
	system('sync', '-f', $dir);
	my ($bytes) = `df -B1 --output=avail $dir` =~ /(\d+)\s*$/;
	return $bytes;
}

# Let others take the room of a disk, but for so many bytes; false if they cannot.
sub leave_bytes
{
	my ($dir, $left) = @_;
	my $bytes = avail_bytes($dir) - $left;
	return $bytes <= 0 || system('fallocate', '-l', $bytes, "$dir/ballast") == 0;
}

# Take what is left of a disk, to the last block.
sub take_the_rest
{
	my ($dir) = @_;
	open(my $fh, '>>', "$dir/rest") or return;
	foreach my $size (65536, 4096)
	{
		1 while (syswrite($fh, 'x' x $size) || 0) == $size;
	}
	close $fh;
	system('sync', '-f', $dir);
	return;
}

sub import
{
	Test::More::plan(skip_all => 'mounting file systems needs root') if $> != 0;
	$top = tempdir('securefile-disks.XXXXXX', TMPDIR => 1);
	chmod 0755, $top;
	$images = "$top/images";
	mkdir $images or die "$images: $!";
	my ($uid, $gid) = (getpwnam($ENV{RUN_AS} || 'postgres'))[2, 3];
	chown($uid, $gid, $top) or die "$top: $!";
	start_child(\&mount_images, \&unmount_all);
	return;
}

1;
