# disk_bytes of securefile_usage(): what the data files take of the file system.  It is the sum that
# the system itself tells of them, falls when a hole is punched, is that of all partitions, and
# is 0 where there are no files; file_bytes stay what they were.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use List::Util qw(sum0);
use PostgreSQL::Test::Cluster;
use SecurefileTest;
use Test::More;

my $node = new_cluster('disk_bytes', conf => [ 'securefile.monitor = off', 'autovacuum = off' ]);

# file_bytes and disk_bytes of a column.
sub bytes_of { return split /\|/, sql("SELECT file_bytes, disk_bytes FROM securefile_usage('$_[0]', 'doc')"); }

# What the system says that these files take.
sub on_disk { return sum0(map { (stat)[12] * 512 } @_); }

sql('CREATE TABLE p (id int, doc securefile) PARTITION BY LIST (id)',
	map { "CREATE TABLE p$_ PARTITION OF p FOR VALUES IN ($_)" } 1 .. 3);
is(join('|', bytes_of('p')), '0|0', 'no file, no bytes');
is(sql("SELECT disk_bytes FROM securefile_usage('p1', 'doc')"), 0, 'nor in a partition');

sql('INSERT INTO p VALUES (1, blob(1, ' . mb(3) . ')), (2, blob(2, ' . mb(2) . '))');
sql('CHECKPOINT');
my @files = data_files($node);
my ($file_bytes, $disk_bytes) = bytes_of('p');
is(scalar(@files), 2, 'two partitions have files');
is($file_bytes, data_bytes($node), 'their sizes');
is($disk_bytes, on_disk(@files), 'what they take of the file system');
is(sum0(map { (bytes_of("p$_"))[1] } 1 .. 3), $disk_bytes, 'the partitions together');

# zeros for a megabyte of each value, which must not be read any more
SKIP:
{
	skip 'no holes in this file system', 2
	  if grep { system('fallocate', '-p', '-o', mb(1), '-l', mb(1), $_) != 0 } @files;
	my ($length, $less) = bytes_of('p');
	is($length, $file_bytes, 'with holes files are as long as before');
	cmp_ok($less, '<=', $disk_bytes - mb(1), "and take less: $less of $disk_bytes");
}
sql('TRUNCATE p');
is(join('|', bytes_of('p')), '0|0', 'nothing is left after TRUNCATE');

done_testing();
