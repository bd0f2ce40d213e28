# Runs as root, where it is called by root: it mounts file systems (SmallDisks.pm).
# securefile_save() on disks that are full, that fail for a moment, and whose power is cut at each
# step: a file that was acknowledged is whole, one that was there before is whole too where the new
# one did not come to it, nothing is left, and no failed write is passed over.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SmallDisks;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $hidden = qr/^\.securefile-[0-9a-f]{16}$/;
my %length = (1 => 5_000_000, 2 => 60_000_000, 3 => 4_000_000);
# flushes of files are what this is about
my $node = new_cluster('saves_disks', conf => [ 'securefile.monitor = off', 'restart_after_crash = on', 'fsync = on', 'max_wal_size = 2GB' ]);
need_faults($node);
make_table($node, 't');
sql(map { "INSERT INTO t VALUES ($_, $_, $length{$_}, noise($_, $length{$_}))" } sort keys %length);
my %digest = map { $_ => sql("SELECT encode(securefile_digest(doc), 'hex') FROM t WHERE id = $_") } keys %length;

sub save { my ($id, $path) = @_; return "SELECT securefile_save(doc, '$path', true) FROM t WHERE id = $id"; }

sub entries
{
	my ($of) = @_;
	opendir(my $dh, $of) or die "$of: $!";
	return join ' ', sort grep { !/^(\.\.?|lost\+found)$/ } readdir $dh;
}

# Which value is in a file; '' without one.
sub value_in
{
	my ($path) = @_;
	return '' unless -e $path;
	my ($found) = qx(sha256sum '$path') =~ /^(\w+)/;
	my ($id) = grep { $digest{$_} eq $found } keys %digest;
	return $id // -s $path;
}

# A session that saves, and waits at a point; keys: skip.
my ($session, $pid);

sub save_stopped
{
	my ($id, $path, $point, $skip) = @_;
	$session = background($node);
	$pid = $session->query_safe('SELECT pg_backend_pid()');
	return ok(held($node, $session, $point, save($id, $path), skip => $skip), "stopped at $point, $skip");
}

# ---- full ----

sub full_disk
{
	my ($dir, $name) = @_;
	sql(save(3, "$dir/x"));
	SmallDisks::leave_bytes($dir, 6_000_000) or die 'no ballast';
	foreach my $file ('x', 'y')
	{
		fails_with($node, save(2, "$dir/$file"), '53100', 'server file', "$name: no room for $file");
	}
	is(entries($dir) . ': ' . value_in("$dir/x"), 'ballast x: 3', "$name: nothing new is there, the old file is");
	unlink "$dir/ballast";
	sql(save(1, "$dir/x"));
	is(value_in("$dir/x"), 1, "$name: with room");
	unlink "$dir/x";
	return;
}

# ---- power ----

# The file system as it is on its disk at this moment.  ext4 and XFS can be told to forget all else;
# of btrfs the disk is copied, whose older trees stay.
sub cut_power
{
	my ($name, $type, $dir) = @_;
	my $image = "$dir/../images/$name.img";
	if ($type eq 'btrfs')
	{
		SmallDisks::as_root('cp', '--sparse=always', $image, "$image.cut") // die;
	}
	else
	{
		SmallDisks::as_root('perl', '-e', 'open(my $d, "<", $ARGV[0]) or die $!; my $how = pack("L", 2); ioctl($d, 0x8004587D, $how) or die $!', $dir) // die;
	}
	sql("SELECT pg_terminate_backend($pid)") if $session;
	session_is_gone($node, $pid) if $session;
	disarm($node);
	eval { $session->quit } if $session;
	$session = undef;
	SmallDisks::as_root('umount', $dir) // die;
	SmallDisks::as_root('mv', "$image.cut", $image) // die if $type eq 'btrfs';
	SmallDisks::as_root('mount', '-o', 'loop', $image, $dir) // die;
	return;
}

# Points of a save, in their order; from the first link on it has a hidden name.
my @stops = ([ 'io_file_write', 3 ], [ 'io_file_sync', 0 ], [ 'io_file_place', 0 ], [ 'io_file_sync', 1, 'named' ], [ 'io_file_place', 1, 'named' ], [ 'io_file_sync', 2, 'named' ]);

sub power_is_cut
{
	my ($name, $type, $dir) = @_;
	foreach my $there (0, 1)
	{
		# a new file, or 3 over 1
		my ($file, $before, $new) = $there ? ('x', 1, 3) : ('y', '', 1);
		foreach my $stop (@stops)
		{
			my ($point, $skip, $named) = @$stop;
			sql(save(1, "$dir/x")) if $there;
			system('sync', '-f', $dir);
			save_stopped($new, "$dir/$file", $point, $skip);
			cut_power($name, $type, $dir);
			my $found = value_in("$dir/$file");
			ok($found eq $before || $named && $found eq $new, "$name, $point $skip: old or new: '$found'");
			my @others = grep { $_ ne $file } split / /, entries($dir);
			is(scalar(grep { !$named || !/$hidden/ } @others), 0, "$name: nothing else is there") or diag "@others";
			unlink map { "$dir/$_" } @others, $there ? () : 'y';
		}
		sql(save($new, "$dir/$file"));
		cut_power($name, $type, $dir);
		is(entries($dir) . ' ' . value_in("$dir/$file"), "$file $new", "$name: what was acknowledged is there");
		unlink "$dir/$file";
	}
	return;
}

foreach my $kind ([ 'ext4', '128M', [ '-m', 0 ] ], [ 'xfs', '300M', [] ], [ 'btrfs', '256M', [] ], [ 'tmpfs', undef, [], 'size=64M' ])
{
	my $type = $kind->[0];
  SKIP:
	{
		my $dir = SmallDisks::make($type, @$kind);
		skip("$type cannot be mounted here", 1) unless defined $dir;
		full_disk($dir, $type);
		power_is_cut($type, $type, $dir) if $type ne 'tmpfs';
	}
}

# ---- a disk that fails for a moment, in the middle of a save ----

SKIP:
{
	my $backing = SmallDisks::make('lost_backing', 'tmpfs', undef, [], 'size=24M');
	my $dir = SmallDisks::make('lost', 'tmpfs', undef, [], 'size=1M');
	skip('nothing can be mounted here', 1) unless defined $backing && defined $dir;
	SmallDisks::as_root('truncate', '-s', '120M', "$backing/image") // die;
	SmallDisks::as_root('mkfs.ext4', '-q', '-b', '4096', '-N', '64', '-O', '^has_journal', '-E', 'lazy_itable_init=0', "$backing/image") // die;
	SmallDisks::as_root('mount', '-o', 'loop', "$backing/image", $dir) // die;
	SmallDisks::as_root('chmod', '777', $dir);
	# 37 MB are written, and 32 MB are on their way; the save has not waited for any of them
	save_stopped(2, "$dir/x", 'io_file_write', 150);
	system("sync -f '$dir' 2>/dev/null");
	cmp_ok(SmallDisks::avail_bytes($backing), '<', 65536, 'the disk has taken what it could');
	SmallDisks::as_root('mount', '-o', 'remount,size=200M', $backing) // die;
	resume($node, $session, 'io_file_write');
	like($session->{stderr}, qr/could not \w+ server file/, 'a write that failed is no success');
	$session->quit;
	is(entries($dir), '', 'and leaves nothing');
	sql(save(2, "$dir/x"));
	is(value_in("$dir/x"), 2, 'the disk is whole again');
	SmallDisks::as_root('umount', $dir);
}

is(sql('SELECT count(*) FROM t WHERE doc::bytea = noise(seed, len)'), 3, 'values are what they were');
sound($node, 't', 'the column');
$node->stop;
done_testing();
