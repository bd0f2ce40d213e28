# Runs as root, where it is called by root: it mounts file systems (SmallDisks.pm).
# A released column on a disk that is full.  Values that were stored, deleted and released since
# the server's last checkpoint, a full disk, a crash: the server starts, without room for what
# WAL says of them.  A value that does not find room fails with 53100 and no other way, and
# what was acknowledged stays, over crashes, on each kind of file system.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SmallDisks;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileSpace;
use SecurefileTest;
use Test::More;

my @kinds = (
	{ name => 'ext4', make => [ 'ext4', '120M', [ '-m', 0 ] ] },
	{ name => 'xfs', make => [ 'xfs', '300M', [] ] },
	{ name => 'btrfs_nocow', make => [ 'btrfs', '300M', [] ], nocow => 1 },
	{ name => 'tmpfs', make => [ 'tmpfs', undef, [], 'size=80M' ] });
my $node = new_cluster('release_full', conf => [ 'securefile.monitor = off', 'autovacuum = off', 'restart_after_crash = on', 'fsync = on', 'checkpoint_timeout = 1h', 'max_wal_size = 4GB' ]);
my ($rows, $len) = (60, 300_000);

# Leave no room on a disk.
sub fill_disk
{
	my ($dir) = @_;
	SmallDisks::leave_bytes($dir, 65536);
	SmallDisks::take_the_rest($dir);
	return;
}

sub one_kind
{
	my ($kind, $options) = @_;
	my $name = $kind->{name};
	my $t = "t_$name";
	make_table($node, $t, $options, "TABLESPACE $name");
	fill($node, $t, 1, $rows, $len);
	sql("DELETE FROM $t WHERE id % 4 <> 0");
	settle($node, $t, 'doc');
	my $before = disk_bytes($t);
	sql("CALL securefile_shrink('$t', 'doc')");
	my $after = disk_bytes($t);
	cmp_ok($after, '<', $before * 0.6, "$name: $after of $before bytes on disk");

	# the server starts without room for what it has released
	fill_disk($kind->{dir});
	crash($node);
	$node->start;
	rows_right($node, $t, $rows / 4, "$name: crash with a full disk");

	# what does not fit fails as it should
	my ($done, $err) = (0, '');
	foreach my $i (1 .. $rows)
	{
		(my $rc, undef, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nINSERT INTO $t SELECT 1000 + $i, $i, $len, blob($i, $len)");
		last if $err =~ /ERROR/;
		$done++;
	}
	like($err, qr/ERROR:\s+53100/, "$name: no room, after $done values");
	crash($node);
	$node->start;
	rows_right($node, $t, $rows / 4 + $done, "$name: crash after that");

	unlink "$kind->{dir}/ballast", "$kind->{dir}/rest";
	fill($node, $t, 2001, 2010, $len);
	rows_right($node, $t, $rows / 4 + $done + 10, "$name: with room");
	sound($node, $t, $name);
	return;
}

foreach my $kind (@kinds)
{
  SKIP:
	{
		$kind->{dir} = SmallDisks::make($kind->{name}, @{ $kind->{make} });
		skip("$kind->{name} cannot be mounted here", 1) unless defined $kind->{dir};
		mkdir "$kind->{dir}/ts" or die $!;
		SmallDisks::as_root('chattr', '+C', "$kind->{dir}/ts") if $kind->{nocow};
		sql("CREATE TABLESPACE $kind->{name} LOCATION '$kind->{dir}/ts'");
		one_kind($kind, $kind->{name} eq 'xfs' ? 'filesystem_like_logging' : 'logging');
	}
}
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'nothing else in the log');
done_testing();
