# CALL securefile_shrink(): free space that is proved free goes back to the file system where it
# lies.  disk_bytes fall and file_bytes stay; values stay what they are; what is used again has its
# room first; an error, a crash or the end of the session at each step loses nothing and keeps
# nothing; a space map that calls live values free makes it refuse; a standby has holes, too.  It
# takes its time, shows how far it is, and makes way for others; a writer that does not end costs
# no other one.
#
# SECUREFILE_RELEASE_SECONDS: writers, releases and kill -9 for so long (4).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileSpace;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_cluster('release', init => { allows_streaming => 1 },
	conf => [ 'securefile.monitor = off', 'autovacuum = off', 'restart_after_crash = on', 'full_page_writes = off', 'checkpoint_timeout = 1h' ]);
need_faults($node);

my $rows = 64;
my $len = 300_000;
my @live = grep { $_ % 4 == 0 } 1 .. $rows;
my $release = "CALL securefile_shrink('%s', 'doc')";

sub space { return split /\|/, sql("SELECT file_bytes, disk_bytes FROM securefile_usage('$_[0]', 'doc')"); }
sub release { return sql(sprintf($release, $_[0])); }

# Rows of which three of four are deleted; the last one stays, so that the files do.
sub with_free
{
	my ($table, $options) = @_;
	make_table($node, $table, $options);
	fill($node, $table, 1, $rows, $len);
	sql("DELETE FROM $table WHERE id % 4 <> 0");
	settle($node, $table, 'doc');
	return;
}

# The SQLSTATE of a call.
sub fails
{
	my ($table, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\n" . ($sql || sprintf($release, $table)));
	return $err =~ /ERROR:\s+(\w{5})/ ? $1 : "no error: $err";
}

my %options = (logged => 'logging', fs => 'filesystem_like_logging', coded => 'deduplicate, hash');
with_free($_, $options{$_}) foreach sort keys %options;
$node->backup('base');
my $standby = new_standby('release_standby', $node, 'base');

# ---- what it is for ----
foreach my $table (sort keys %options)
{
	my ($file, $before) = space($table);
	release($table);
	my ($length, $after) = space($table);
	is($length, $file, "$table: files keep their length");
	my $most = @live * $len * 1.1 + $file / 8 + mb(1);
	cmp_ok($after, '<=', $most, "$table: $after of $before bytes on disk");
	rows_right($node, $table, scalar(@live), $table);
	sound($node, $table, $table);

	# where there is nothing left to do, nothing is done
	release($table);
	arm($node, 'release_before', 'error', times => -1);
	is(release($table), '', "$table: again");
	disarm($node);
	cmp_ok(disk_bytes($table), '<=', $after, "$table: changes nothing");
}

# ---- a standby ----
catch_up($node, $standby);
my $there = $standby->safe_psql('postgres', "SELECT disk_bytes FROM securefile_usage('logged', 'doc')");
my $here = disk_bytes('logged');
cmp_ok($there, '<=', $here + mb(1), "standby: $there bytes on disk, $here on the primary");
rows_right($standby, 'logged', scalar(@live), 'standby');
like(($standby->psql('postgres', sprintf($release, 'logged')))[2], qr/cannot execute securefile_shrink\(\) during recovery/, 'standby: nothing is released there');

# ---- use again ----
foreach my $table (sort keys %options)
{
	my ($file, $before) = space($table);
	fill($node, $table, 1001, 1030, $len);
	my ($length, $after) = space($table);
	is($length, $file, "$table: free space is used again");
	cmp_ok($after, '>', $before, "$table: and has room on disk: $after");
	rows_right($node, $table, @live + 30, "$table, used again");
}
catch_up($node, $standby);
rows_right($standby, 'logged', @live + 30, 'standby, used again');
$standby->stop;

# room comes before bytes: without a promise there is no lending.  What has room is used up first
with_free('brim', 'logging');
release('brim');
my $full_file = file_bytes('brim');
arm($node, $_, 'enospc', times => -1) foreach ('io_hole', 'io_promise', 'io_extend');
my $done = 0;
my $state = '';
foreach my $i (1 .. $rows)
{
	$state = fails('brim', 'INSERT INTO brim SELECT ' . (2000 + $i) . ", 1, $len, blob(1, $len)");
	last if $state =~ /^\w{5}$/;
	$done++;
}
is($state, '53100', "a full disk is met at lending, after $done values");
rows_right($node, 'brim', @live + $done, 'full disk');
disarm($node);
fill($node, 'brim', 3001, 3010, $len);
is(file_bytes('brim'), $full_file, 'what could not be lent is free');
rows_right($node, 'brim', @live + $done + 10, 'after a full disk');
sound($node, 'brim', 'after a full disk');

# a value that is long, and compressed to what is short, is read by the proof
with_free('packed', 'compress_low');
sql('INSERT INTO packed SELECT i, 0, 100000, NULL FROM generate_series(901, 903) i', q{UPDATE packed SET doc = decode(repeat('00', 100000), 'hex') WHERE id > 900});
is(sql(q{SELECT count(*) FROM packed, securefile_storage(doc) WHERE id > 900 AND form = 'inline'}), 3, 'packed values in rows');
is(release('packed'), '', 'are no obstacle for the first statement of a session');

# ---- who, where, what ----
with_free('refused', 'logging');
arm($node, 'io_extents', 'enotsup', times => -1);
is(fails('refused'), '0A000', 'a file system that does not tell where holes are');
disarm($node);
is(fails('logged', q{CALL securefile_shrink('logged', 'doc', 'shred')}), '22023', 'another mode');
is(fails('logged', 'BEGIN; ' . sprintf($release, 'logged')), '2D000', 'in a transaction block');
is(fails('logged', q{CALL securefile_shrink('logged', 'id')}), '42804', 'of another type');
sql('CREATE ROLE other');
is(fails('logged', 'SET ROLE other; ' . sprintf($release, 'logged')), '42501', 'by another role');

is(fails('logged', q{CALL securefile_shrink('logged', 'doc', 'release', -1)}), '22023', 'less than nothing a second');

# ---- pace ----

# so slow that the first record would be the only one for a minute: it is, until somebody waits
with_free('slow', 'logging');
my $slow = background($node);
my $shown = "SELECT operation, table_name, column_name, released_bytes > 0 AND released_bytes < releasable_bytes FROM securefile_progress";
my $slow_pid = $slow->query_safe('SELECT pg_backend_pid()');
$slow->query_until(qr/start/, "\\echo start\nCALL securefile_shrink('slow', 'doc', max_bytes_per_second => 50000);\n");
ok(wait_for_sql($node, 'SELECT count(*) = 1 FROM securefile_progress WHERE released_bytes > 0'), 'the view shows a release');
is(sql($shown), 'release|slow|doc|t', 'and how far it is');
ok(wait_for_sql($node, "SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $slow_pid"), 'it sleeps');
my ($slow_file, $slow_disk) = space('slow');
repair($node, 'slow', 'false');
$slow->query('SELECT 1');
like($slow->{stderr}, qr/NOTICE:  not all free space was released/, 'it makes way for a repair');
is(disk_bytes('slow'), $slow_disk, 'and stops there');
is(sql('SELECT count(*) FROM securefile_progress'), 0, 'nothing is shown any more');
# nor does it keep one waiting that is to be cancelled
$slow->query_until(qr/again/, "\\echo again\nCALL securefile_shrink('slow', 'doc', max_bytes_per_second => 1);\n");
wait_for_sql($node, 'SELECT count(*) = 1 FROM securefile_progress WHERE released_bytes > 0');
sql("SELECT pg_cancel_backend($slow_pid)");
$slow->query('SELECT 1');
like($slow->{stderr}, qr/canceling statement/, 'it is cancelled');
$slow->quit;
release('slow');
cmp_ok(disk_bytes('slow'), '<=', $slow_file * 0.45, 'another call does the rest');
rows_right($node, 'slow', scalar(@live), 'slow');

# ---- a writer that does not end ----

# Others queue behind a release that waits for it, and may not wait as long as it does.
with_free('held', 'logging');
my $holder = background($node);
$holder->query_safe('BEGIN; UPDATE held SET seed = seed WHERE id = 4');
my $waiter = background($node);
my $waiter_pid = $waiter->query_safe('SELECT pg_backend_pid()');
$waiter->query_until(qr/start/, "\\echo start\n" . sprintf($release, 'held') . ";\n");
ok(wait_for_sql($node, "SELECT count(*) = 1 FROM pg_locks WHERE pid = $waiter_pid AND NOT granted"), 'a release waits for a writer');
my $others = $node->psql('postgres', "SET statement_timeout = '60s'; UPDATE held SET seed = seed WHERE id = 8");
is($others, 0, 'other writers pass meanwhile');
sql("SELECT pg_cancel_backend($waiter_pid)");
$waiter->query('SELECT 1');
like($waiter->{stderr}, qr/canceling statement/, 'it can be cancelled');
$waiter->quit;
my $held_disk = disk_bytes('held');
like(($node->psql('postgres', "SET lock_timeout = '20ms'; " . sprintf($release, 'held')))[2], qr/NOTICE:  free space of column "doc" of table "held" is not released\n.*in 10 tries/s, 'it gives up');
is(disk_bytes('held'), $held_disk, 'and has released nothing');
$holder->query_safe('COMMIT');
$holder->quit;
is(release('held'), '', 'then it works');
cmp_ok(disk_bytes('held'), '<', $held_disk * 0.5, 'and releases');
rows_right($node, 'held', scalar(@live), 'held');

# no more than ten holes of 2 MB in a row, 200 a second
make_table($node, 'long', 'logging');
fill($node, 'long', 1, 1, 50_000_000);
fill($node, 'long', 2, 2, $len);
sql('DELETE FROM long WHERE id = 1');
settle($node, 'long', 'doc');
arm($node, 'release_after_record', 'pass', times => -1);
my $records = fired($node, 'release_after_record');
my $took = sql(qq{SELECT clock_timestamp() AS began \\gset\nCALL securefile_shrink('long', 'doc')}, q{SELECT extract(epoch FROM clock_timestamp() - :'began')});
$records = fired($node, 'release_after_record') - $records;
disarm($node);
cmp_ok($records, '>=', 3, "a long run: $records records");
cmp_ok($took, '>=', ($records - 1) * 8 * 0.005, 'with pauses');

# ---- errors and crashes at each step ----
foreach my $point ('release_claimed', 'release_before', 'release_after_record', 'release_after_punch')
{
	# all of them are crashed in 104_crash_points
	foreach my $how ('error', $point eq 'release_after_punch' ? 'kill' : ())
	{
		my $table = "${point}_$how";
		with_free($table, $how eq 'kill' ? 'filesystem_like_logging' : 'logging');
		my ($file, $before) = space($table);
		is(dies_at($node, $point, $how, sprintf($release, $table)) ? 1 : 0, $how eq 'kill' ? 1 : 0, "$table");
		rows_right($node, $table, scalar(@live), $table);
		fill($node, $table, 4001, 4020, $len);
		is(file_bytes($table), $file, "$table: what was claimed is free");
		sql("DELETE FROM $table WHERE id > 4000");
		settle($node, $table, 'doc');
		release($table);
		cmp_ok(disk_bytes($table), '<', $before * 0.7, "$table: another call does it");
		rows_right($node, $table, scalar(@live), "$table, again");
		sound($node, $table, $table);
	}
}

# the session ends in the middle
with_free('ended', 'logging');
my $ended_file = file_bytes('ended');
my $session = background($node);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
ok(held($node, $session, 'release_before', sprintf($release, 'ended')), 'a session stands in the middle');
is(fails('ended', 'SET lock_timeout = 100; ' . "SELECT * FROM securefile_repair('ended', 'doc')"), '55P03', 'a repair waits');
fill($node, 'ended', 5001, 5002, $len);
sql("SELECT pg_terminate_backend($pid)", q{SELECT securefile_fault('release_before', 'none')});
wait_for_sql($node, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)");
eval { $session->quit };
my $grown_file = file_bytes('ended');
fill($node, 'ended', 5003, 5025, $len);
is(file_bytes('ended'), $grown_file, 'what the ended session had claimed is free');
rows_right($node, 'ended', @live + 25, 'ended');
sound($node, 'ended', 'ended');

# ---- writers, releases without a pause, and kill -9 ----
make_table($node, 'busy', $options{logged});
make_table($node, 'busy_fs', $options{fs});
sql(q{CREATE PROCEDURE churn(t text, first int) LANGUAGE plpgsql AS $$
	BEGIN
		LOOP
			EXECUTE format('INSERT INTO %I SELECT i, i, len, blob(i, len) FROM generate_series(%s, %s) i, LATERAL (SELECT 10000 + i * 7919 % 500000 AS len) x', t, first, first + 5);
			COMMIT;
			EXECUTE format('DELETE FROM %I WHERE id BETWEEN %s AND %s AND id %% 6 <> 0', t, first - 12, first - 1);
			COMMIT;
			first := first + 6;
		END LOOP;
	END $$});
my $until = time() + ($ENV{SECUREFILE_RELEASE_SECONDS} || 4);
my $released = 0;
for (my $round = 0; time() < $until; $round++)
{
	my @sessions;
	foreach my $i (0 .. 3)
	{
		push @sessions, background($node);
		$sessions[-1]->{stdin} .= "CALL churn('" . ('busy', 'busy_fs')[ $i % 2 ] . "', " . ($i * 10_000_000 + $round * 30_000) . ");\n";
		$sessions[-1]->{run}->pump_nb;
	}
	for (my $end = time() + 2; time() < $end; $released += 2)
	{
		sql("SELECT FROM securefile_maintain('$_', 'doc')"), release($_) foreach ('busy', 'busy_fs');
	}
	my $cut = background($node);
	$cut->{stdin} .= sprintf("$release;\n", 'busy') x 100;
	$cut->{run}->pump_nb;
	sleep 0.2 + rand(0.3);
	crash($node);
	$node->start;
	foreach my $session (@sessions, $cut) { eval { $session->quit } }
	foreach my $table ('busy', 'busy_fs')
	{
		rows_right($node, $table, sql("SELECT count(*) FROM $table"), "round $round");
		sound($node, $table, "round $round");
	}
}
note("released $released times; " . join(' ', map { join('/', space($_)) } ('busy', 'busy_fs')) . ' bytes of files/on disk');

# without the promise values go on into holes, and a full disk would be met in their commits
with_free('unpromised', 'logging');
release('unpromised');
arm($node, $_, 'enospc', times => -1) foreach ('io_hole', 'io_promise', 'io_extend');
arm($node, 'break_unpromised', 'skip', times => -1);
fill($node, 'unpromised', 6001, 6030, $len);
disarm($node);
rows_right($node, 'unpromised', @live + 30, 'planted error: nothing is promised');

# ---- a space map that calls live values free ----
with_free('wrong', 'logging');
my $file = segment_of($node, 'wrong');
sql('CHECKPOINT');
$node->stop;
change($file, 1, USED, "\0" x 4096);
$node->start;
my $before = disk_bytes('wrong');
is(fails('wrong'), '55000', 'it refuses');
is(disk_bytes('wrong'), $before, 'and releases nothing');
repair($node, 'wrong', 'false');
rows_right($node, 'wrong', scalar(@live), 'a repair has all values');
release('wrong');
cmp_ok(disk_bytes('wrong'), '<', $before, 'and then it releases');
rows_right($node, 'wrong', scalar(@live), 'and has them still');

# without the proof it would be a loss
with_free('unproved', 'logging');
$file = segment_of($node, 'unproved');
sql('CHECKPOINT');
$node->stop;
change($file, 1, USED, "\0" x 4096);
$node->start;
arm($node, 'break_unproved', 'skip', times => -1);
release('unproved');
disarm($node);
isnt(fails('unproved', 'SELECT count(*) FROM unproved WHERE doc::bytea = blob(seed, len)'), 'no error: ', 'planted error: nothing is proved');
$node->stop;

done_testing();
