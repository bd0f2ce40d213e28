# Runs as root, where it is called by root: it mounts file systems (SmallDisks.pm).
# securefile dump --delta where file systems can clone files: unchanged parts take no space there;
# parts that become holes, and holes that get bytes.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SmallDisks;
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $mb = mb(1);
my $node = new_cluster('dump_clone');
enter($node);
sql(qq{CREATE TABLE docs (id int PRIMARY KEY, document securefile(hash))});

sub used
{
	my ($dir) = @_;
	system('sync', '-f', $dir);
	my ($bytes) = `df -B1 --output=used $dir` =~ /(\d+)\s*$/;
	return $bytes;
}

# Dump to a disk; how many bytes it has less, and were taken from earlier objects.
sub dump_to
{
	my ($dir) = @_;
	my $used = used($dir);
	my ($rc, $out, $err) = command('dump', '-t', 'docs', "$dir/d", '--json', '--delta', '--delta-from', 1000000, '--granule', 131072);
	my ($record) = grep { exists $_->{dump} } objects($out);
	is("$rc " . ($err =~ /all of the file/ ? $err : ''), '0 ', "$dir: a dump");
	return (used($dir) - $used, $record->{reused});
}

my $seed = 0;
foreach my $type ('xfs', 'btrfs')
{
	my $dir = SmallDisks::make($type, $type, '300M', [], undef);
  SKIP:
	{
		skip("no $type here", 1) unless defined $dir;
		$seed += 10;
		sql("DELETE FROM docs; INSERT INTO docs VALUES (1, blob($seed, 16 * $mb))");
		dump_to($dir);
		sql("UPDATE docs SET document = overlay(document PLACING blob($seed + 1, 10) FROM 9000000)");
		my ($more, $reused) = dump_to($dir);
		is($reused, 16 * $mb - 131072, "$type: one part is fetched");
		cmp_ok($more, '<', 4 * $mb, 'the others take no space');
		sql("UPDATE docs SET document = securefile_truncate(securefile_truncate(document, 5 * $mb), 20 * $mb)");
		(undef, $reused) = dump_to($dir);
		is($reused, 5 * $mb, 'the end becomes a hole');
		sql("UPDATE docs SET document = overlay(document PLACING blob($seed + 2, 300000) FROM 12 * $mb)");
		($more, $reused) = dump_to($dir);
		is($reused, 5 * $mb, 'bytes in it');
		cmp_ok($more, '<', 4 * $mb, 'take space, and nothing else does');
		ends(0, qr/sound/, 'all objects are sound', 'dump', '--check', "$dir/d");
		is(scalar(my @objects = glob "$dir/d/objects/*/*[0-9a-f]"), 4, 'and there');
	}
}

$node->stop;
done_testing();
