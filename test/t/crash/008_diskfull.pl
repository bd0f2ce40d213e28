# Trap 11: no space and broken disks.  An ERROR, the transaction aborts, all that
# was there before is intact, and work goes on once there is space.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('diskfull',
	conf => [ 'restart_after_crash = on', 'fsync = on', 'securefile.monitor = off',
		'data_sync_retry = on' ]);
need_faults($node);

my $big = 'INSERT INTO t SELECT i, i, 4000000, blob(i, 4000000) FROM generate_series(100, 112) i';
foreach my $options ('', 'filesystem_like_logging')
{
	my $mode = $options || 'logging';
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS t');
	make_table($node, 't', $options);
	fill($node, 't', 1, 10, 200_000);

	foreach my $point ('io_promise', 'io_write')
	{
		foreach my $skip (0, 2)
		{
			arm($node, $point, 'enospc', skip => $skip, times => -1);
			fails_with($node, $big, '53100', '', "$mode: no space at $point, skip $skip");
			disarm($node);
			rows_right($node, 't', 10, "$mode: after no space at $point, skip $skip");
			sound($node, 't', "$mode: after no space at $point, skip $skip");
		}
	}

	# a savepoint saves the rest of the transaction
	arm($node, 'io_promise', 'enospc', times => -1);
	my $session = background($node);
	$session->query_safe('BEGIN; INSERT INTO t VALUES (50, 50, 9000, blob(50, 9000)); SAVEPOINT s');
	$session->query($big);
	like($session->{stderr}, qr/could not|space/i, "$mode: growth fails in a savepoint");
	$session->{stderr} = '';
	disarm($node);
	$session->query_safe('ROLLBACK TO s; INSERT INTO t VALUES (51, 51, 300000, blob(51, 300000)); COMMIT');
	$session->quit;
	rows_right($node, 't', 12, "$mode: the rest of the transaction");
	sound($node, 't', "$mode: the rest of the transaction");

	# once there is space all goes well
	$node->safe_psql('postgres', $big);
	rows_right($node, 't', 25, "$mode: with space again");
	sound($node, 't', "$mode: with space again");

	# each of the first writes and reads fails once
	foreach my $n (0 .. 7)
	{
		arm($node, 'io_write', 'error', skip => $n);
		$node->psql('postgres',
			'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id >= 100');
		disarm($node);
		arm($node, 'io_read', 'error', skip => $n);
		$node->psql('postgres', 'SELECT sum(length(doc::bytea)) FROM t');
		disarm($node);
	}
	rows_right($node, 't', 25, "$mode: after failed writes and reads");
	sound($node, 't', "$mode: after failed writes and reads");
	arm($node, 'io_write', 'error');
	fails_with($node, 'UPDATE t SET doc = blob(3, len) WHERE id = 3', '58030', 'could not write', "$mode: EIO at a write");
	disarm($node);
	arm($node, 'io_read', 'error');
	fails_with($node, 'SELECT doc::bytea FROM t WHERE id = 3', '58030', 'could not read', "$mode: EIO at a read");
	disarm($node);

	# short transfers are continued
	arm($node, 'io_write', 'short', times => 20);
	$node->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len)');
	cmp_ok(fired($node, 'io_write'), '>', 0, "$mode: short writes happened");
	disarm($node);
	arm($node, 'io_read', 'short', times => 20);
	rows_right($node, 't', 25, "$mode: short writes and reads");
	cmp_ok(fired($node, 'io_read'), '>', 0, "$mode: short reads happened");
	disarm($node);

	# maintenance that fails leaves things as they are
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 100');
	foreach my $point ('io_truncate', 'truncate_before_file', 'resolve_before', 'resolve_after')
	{
		arm($node, $point, 'error');
		$node->psql('postgres', "SELECT securefile_maintain('t', 'doc')");
		disarm($node);
	}
	sound($node, 't', "$mode: maintenance that failed");
	rows_right($node, 't', 13, "$mode: maintenance that failed");
}

# EIO on fsync, or of a write that is one: nobody knows what is on disk, so PANIC
# as PostgreSQL does, unless told otherwise.  (For the syncer it is PANIC in any case:
# 183_syncer.)
$node->append_conf('postgresql.conf', 'securefile.syncer = off');
$node->reload;
wait_for_sql($node, 'SELECT pid IS NULL FROM securefile_syncer');
arm($node, 'io_sync', 'error', times => -1);
$node->psql('postgres', 'UPDATE t SET doc = blob(3, len)');
disarm($node);
rows_right($node, 't', 13, 'data_sync_retry = on');
sound($node, 't', 'data_sync_retry = on');
$node->append_conf('postgresql.conf', 'data_sync_retry = off');
$node->restart;
my $offset = -s $node->logfile;
arm($node, 'io_sync', 'error', times => -1);
my ($rc) = $node->psql('postgres', 'UPDATE t SET seed = 3, doc = blob(3, len)');
if ($rc != 0)
{
	wait_restart($node);
	like(slurp_file($node->logfile, $offset), qr/PANIC/, 'failed fsync: PANIC');
	rows_right($node, 't', 13, 'after the PANIC');
	sound($node, 't', 'after the PANIC');
}
else
{
	fail('failed fsync went unnoticed');
}

# a real file system that is full, where the runner has made us a small one
SKIP:
{
	my $small = $ENV{SECUREFILE_SMALL_FS};
	skip 'no SECUREFILE_SMALL_FS', 5 unless $small && -w $small;
	my $full = new_cluster('small', start => 0, conf => ['securefile.monitor = off']);
	my $link = $full->data_dir . '/pg_securefile';
	my $dir = "$small/" . $full->name . $$;
	mkdir $dir or die "$dir: $!";
	rmdir $link;
	symlink($dir, $link) or die "$link: $!";
	$full->start;
	SecurefileTest::prepare_database($full, 'postgres');
	make_table($full, 't', 'filesystem_like_logging');
	fill($full, 't', 1, 5, 1_000_000);
	fails_with($full,
		'INSERT INTO t SELECT i, i, 10000000, blob(i, 10000000) FROM generate_series(100, 1000) i',
		'53100', '', 'full file system');
	rows_right($full, 't', 5, 'full file system');
	sound($full, 't', 'full file system');
	$full->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len)');
	rows_right($full, 't', 5, 'work goes on after a full file system');
	sound($full, 't', 'work goes on after a full file system');
	$full->stop;
}

$node->stop;
done_testing();
