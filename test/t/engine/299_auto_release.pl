# securefile.release_threshold: the monitor gives free space back to the file system, where it is
# known to be free and a checkpoint has come since; not more than once, not what is lent meanwhile,
# nothing after a restart, nothing by a space map that calls live values free.  Errors in the middle
# lose nothing and keep nothing.  Without each of these rules the test fails.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use SecurefilePages;
use SecurefileSpace;
use SecurefileTest;
use Test::More;

my $node = new_cluster('auto_release',
	conf => [ 'autovacuum = off', 'restart_after_crash = on', 'full_page_writes = off', 'checkpoint_timeout = 1h', 'max_wal_size = 4GB', 'securefile.release_threshold = 90' ]);
need_faults($node);
my ($rows, $len) = (64, 300_000);
my $live = $rows / 4;

# 64 MB for each case would take long.
sub little { arm($node, 'release_little', 'skip', times => -1); return; }

sub threshold
{
	my ($percent) = @_;
	$node->append_conf('postgresql.conf', "securefile.release_threshold = $percent");
	$node->reload;
	wait_for_sql($node, "SELECT current_setting('securefile.release_threshold') = '$percent'");
	return;
}

# A worker of the monitor has begun, and ended, since.
sub visited
{
	my $workers = sql('SELECT workers FROM securefile_monitor');
	foreach (1, 2)
	{
		$workers++;
		sql('UPDATE tick SET doc = blob(1, 5000)');
		wait_for_sql($node, "SELECT workers >= $workers AND state <> 'working' FROM securefile_monitor") or die 'no worker';
	}
	return;
}

# Rows of which some are deleted, and the space is free; the last row stays.
sub with_free
{
	my ($table, $options, $gone) = @_;
	make_table($node, $table, $options);
	fill($node, $table, 1, $rows, $len);
	sql("DELETE FROM $table WHERE " . ($gone || 'id % 4 <> 0'));
	settle($node, $table, 'doc');
	return;
}

sub released
{
	my ($table, $most, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$most = file_bytes($table) * 0.6 unless defined $most;
	return ok($node->poll_query_until('postgres', "SELECT disk_bytes <= $most FROM securefile_usage('$table', 'doc')"), "$name: $most bytes on disk");
}

make_table($node, 'tick');
fill($node, 'tick', 1, 1, 5000);
little();

# ---- when ----
with_free('a', 'logging');
my ($file, $before) = (file_bytes('a'), disk_bytes('a'));
sql('CHECKPOINT');
visited();
is(disk_bytes('a'), $before, 'less than the threshold is free');
threshold(20);
visited();
released('a', undef, 'a lower threshold');
is(file_bytes('a'), $file, 'files are as long as before');
rows_right($node, 'a', $live, 'released');
sound($node, 'a', 'released');
arm($node, 'release_before', 'pass', times => -1);
my $records = fired($node, 'release_before');
visited();
is(fired($node, 'release_before'), $records, 'nothing is released twice');
fill($node, 'a', 101, 110, $len);
rows_right($node, 'a', $live + 10, 'used again');

# a checkpoint has to come first
with_free('b', 'filesystem_like_logging');
$before = disk_bytes('b');
visited();
is(disk_bytes('b'), $before, 'no checkpoint, no release');
sql('CHECKPOINT');
released('b', undef, 'a checkpoint');
rows_right($node, 'b', $live, 'a checkpoint');
arm($node, 'break_unwritten', 'skip', times => -1);
with_free('b_planted', 'logging');
released('b_planted', undef, 'planted error: no checkpoint');
sql(q{SELECT securefile_fault('break_unwritten', 'none')});

# ---- lent meanwhile: WAL of a load that is rolled back writes there ----
sub lent_meanwhile
{
	my ($table) = @_;
	with_free($table, 'logging');
	my $was = disk_bytes($table);
	my $load = background($node);
	$load->query_safe("BEGIN; INSERT INTO $table SELECT i, i, $len, blob(i, $len) FROM generate_series(201, 230) i; ROLLBACK");
	$load->quit;
	sql("SELECT securefile_maintain('$table', 'doc')", 'CHECKPOINT');
	visited();
	visited();
	rows_right($node, $table, $live, $table);
	sound($node, $table, $table);
	return $was - disk_bytes($table);
}
my $kept = lent_meanwhile('lent');
arm($node, 'break_proved', 'skip', times => -1);
my $lost = lent_meanwhile('lent_planted');
sql(q{SELECT securefile_fault('break_proved', 'none')});
cmp_ok($kept, '<', $lost - mb(4), "what was lent meanwhile is not released: $kept bytes are, and with the planted error $lost");

# ---- in the middle ----
with_free('ended', 'logging');
$file = file_bytes('ended');
arm($node, 'release_after_punch', 'wait');
sql('CHECKPOINT');
ok(wait_for_sql($node, q{SELECT securefile_fault_fired('release_after_punch') > 0}), 'a worker stands in the middle');
sql(q{SELECT pg_terminate_backend(worker_pid) FROM securefile_monitor});
sql(q{SELECT securefile_fault('release_after_punch', 'none')}, 'ALTER SYSTEM SET securefile.monitor = off', 'SELECT pg_reload_conf()');
monitor_rests($node);
fill($node, 'ended', 301, 330, $len);
is(file_bytes('ended'), $file, 'what an ended worker had claimed is free');
rows_right($node, 'ended', $live + 30, 'ended');
sound($node, 'ended', 'ended');
sql('ALTER SYSTEM RESET securefile.monitor', 'SELECT pg_reload_conf()');

with_free('killed', 'filesystem_like_logging');
arm($node, 'release_after_punch', 'kill');
eval { sql('CHECKPOINT') };
wait_restart($node);
little();
rows_right($node, 'killed', $live, 'killed');
sound($node, 'killed', 'killed');

# ---- nothing is known after a restart ----
$before = disk_bytes('killed');
sql('CHECKPOINT');
visited();
is(disk_bytes('killed'), $before, 'after a restart nothing is known');

# ---- a space map that calls live values free ----
sub wrong_map
{
	my ($table) = @_;
	make_table($node, $table);
	fill($node, $table, 1, $rows, $len);
	my $segment = segment_of($node, $table);
	sql('CHECKPOINT');
	$node->stop;
	# the first 6 MB
	change($segment, 1, USED, "\0" x 1536);
	$node->start;
	little();
	arm($node, 'break_unproved', 'skip', times => -1) if $table =~ /planted/;
	sql("DELETE FROM $table WHERE id BETWEEN 30 AND 50");
	my $was = disk_bytes($table);
	pending_is_gone($node, $table, "$table: rows are deleted");
	sql('CHECKPOINT');
	released($table, $was - mb(2), $table);
	visited();
	return $node->safe_psql('postgres', "SELECT count(*) FROM $table, outcome(doc, seed, len) o WHERE o = 'right'");
}
is(wrong_map('wrong'), $rows - 21, 'live values that the map calls free are not released');
cmp_ok(wrong_map('wrong_planted'), '<', $rows - 21, 'planted error: they are');
disarm($node);

# ---- a file system that cannot ----
with_free('refused', 'logging');
little();
arm($node, 'io_extents', 'enotsup', times => -1);
my $offset = -s $node->logfile;
sql('CHECKPOINT');
my $said = qr/free space of segment "pg_securefile_${\ sql(q{SELECT 'refused'::regclass::oid})}_4" is not released/;
ok(log_says($node, $said, $offset), 'the log says so');
sql('DELETE FROM refused WHERE id < 40');
settle($node, 'refused', 'doc');
sql('CHECKPOINT');
visited();
is(scalar(() = slurp($node->logfile) =~ /$said/g), 1, 'once');
disarm($node);
$node->stop;
done_testing();
