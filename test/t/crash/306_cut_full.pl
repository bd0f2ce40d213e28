# Runs as root, where it is called by root: it mounts a file system (SmallDisks.pm).
# A crash on a disk that is full, where WAL has growths and values of files that have been cut,
# truncated or dropped since: the server starts without room for them, also a second time, and
# has all that is there.  Where a file has lost its end, and needs it, it does not start.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SmallDisks;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $dir = SmallDisks::make('ext4', 'ext4', '80M', [ '-m', 0 ]);
plan(skip_all => 'no ext4 here') unless defined $dir;
mkdir "$dir/ts" or die $!;
my $node = new_cluster('cut_full', conf => [ 'securefile.monitor = off', 'autovacuum = off', 'restart_after_crash = off', 'checkpoint_timeout = 1h', 'max_wal_size = 4GB' ]);
my $len = 300_000;
sql("CREATE TABLESPACE small LOCATION '$dir/ts'");

# Others take the room that there is, but for some metadata.
sub fill_disk
{
	SmallDisks::leave_bytes($dir, mb(1)) or die 'no ballast';
	return;
}

# Rows from 1 to 10 stay, and those from 101 on go by way of SQL, and with them the end of the files.
sub one_way
{
	my ($name, $before, $gone, $fault) = @_;
	make_table($node, 'kept', '', 'TABLESPACE small');
	fill($node, 'kept', 1, 10, $len);
	make_table($node, 'gone', '', 'TABLESPACE small');
	fill($node, 'gone', 1, 20, $len) if $before eq 'grown';
	sql('CHECKPOINT');
	fill($node, $before eq 'kept' ? 'kept' : 'gone', 101, 200, $len);
	$gone->();
	fill($node, 'kept', 11, 12, $len);
	fill_disk();
	crash($node);
	my $log = -s $node->logfile;
	local $ENV{SECUREFILE_FAULT} = $fault || 'redo_done:kill:20';
	is($node->start(fail_ok => 1), $fault ? 1 : 0, $name . ($fault ? ': starts' : ': dies in recovery'));
	delete $ENV{SECUREFILE_FAULT};
	ok($fault || $node->start(fail_ok => 1), "$name: starts on a full disk") or diag(slurp_file($node->logfile, $log));
	like(slurp_file($node->logfile, $log), qr/disk is full: recovery passes over/, "$name: passes over what is gone");
	rows_right($node, 'kept', 12, $name);
	unlink "$dir/ballast" or die $!;
	$node->start unless -e $node->data_dir . '/postmaster.pid';
	fill($node, 'kept', 13, 40, $len);
	rows_right($node, 'kept', 40, "$name, with room");
	sound($node, 'kept', $name);
	sql('DROP TABLE IF EXISTS kept, gone');
	return;
}

one_way('cut', 'kept', sub { sql('DELETE FROM kept WHERE id > 100'); settle($node, 'kept', 'doc'); });
one_way('truncated', 'grown', sub { sql('TRUNCATE gone'); });
one_way('dropped', 'new', sub { sql('DROP TABLE gone'); });
# there is not even room for its directory
one_way('nowhere', 'new', sub { sql('DROP TABLE gone'); }, 'io_mkdir:enospc');

# what is needed
make_table($node, 'kept', '', 'TABLESPACE small');
fill($node, 'kept', 1, 10, $len);
sql('CHECKPOINT');
my ($file) = glob("$dir/ts/PG_*/*/pg_securefile/*/seg-00000000.sf/*");
my $size = -s $file;
fill($node, 'kept', 11, 100, $len);
crash($node);
cmp_ok(-s $file, '>', $size + mb(10), 'a file has grown');
truncate($file, $size) or die "$file: $!";
fill_disk();
my $log = -s $node->logfile;
ok(!$node->start(fail_ok => 1), 'does not start without the end of a file');
like(slurp_file($node->logfile, $log), qr/could not extend the data files of segment .*disk is full/, 'and says so');
unlink "$dir/ballast" or die $!;
$node->start;
rows_right($node, 'kept', 100, 'nothing is lost');
sound($node, 'kept', 'in the end');
$node->stop;
done_testing();
