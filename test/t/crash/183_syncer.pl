# The syncer: commits of logging columns leave the flush of their data to it, checkpoints
# wait for it, and whatever ends it, or takes its files away, loses nothing.  What a power
# cut shows is tested in 184.
# Takes long.
# Every version.

use strict;
use warnings;
use Cwd;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use SecurefileTest;
use Test::More;

my $node = new_cluster('syncer',
	conf => [
		'restart_after_crash = on', 'fsync = on', 'checkpoint_timeout = 1d',
		'data_sync_retry = on', 'allow_in_place_tablespaces = on', "securefile.monitor = off"
	]);
need_faults($node);
make_table($node, 't');
make_table($node, 'fs', 'filesystem_like_logging');
my $rows = 0;

sub syncer { return $node->safe_psql('postgres', "SELECT $_[0] FROM securefile_syncer"); }

# Rows more, of a length.
sub insert
{
	my ($count, $len) = @_;
	fill($node, 't', $rows + 1, $rows + $count, $len || 10_000);
	$rows += $count;
	return;
}

# Have the syncer open the file of a table: what comes from here on is left to it.
sub taken
{
	return wait_until(sub { insert(1); syncer('files') > 0 });
}

# How often a session asks for durable writes and flushes in a statement.
sub flushes
{
	my ($sql) = @_;
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my @before = map { fired($node, $_) } 'io_durable', 'io_sync';
	arm($node, $_, 'pass', times => -1, pid => $pid) foreach ('io_durable', 'io_sync');
	$session->query_safe($sql);
	my @after = map { fired($node, $_) } 'io_durable', 'io_sync';
	$session->quit;
	disarm($node);
	return $after[0] - $before[0] + $after[1] - $before[1];
}

# one that is to wait in vain, and one that is to end
my ($waits, $ends) = map { "SET statement_timeout = '${_}s'; CHECKPOINT" } 1, patience();

# Stop the syncer at a point, with something that it has not flushed.
sub stopped_at
{
	my ($point) = @_;
	ok(taken(), 'the syncer has the file');
	my $before = fired($node, $point);
	arm($node, $point, 'wait', pid => syncer('pid'));
	# a syncer that has paused meanwhile takes up the file first
	return ok(wait_until(sub { insert(1); fired($node, $point) > $before }), "stopped at $point");
}

sub log_since { return substr(slurp($node->logfile), $_[0]); }

# After something that ends the server's processes, or only the syncer.
sub right_again
{
	my ($name) = @_;
	rows_right($node, 't', $rows, $name);
	ok(taken(), "$name: there is a syncer again");
	is($node->psql('postgres', 'CHECKPOINT'), 0, "$name: checkpoints end");
	return;
}

# ---- who flushes ----

ok(taken(), 'the syncer takes the file of the first writer');
my $new = 'INSERT INTO %s SELECT 100000, 1, 10000, blob(1, 10000)';
# once at least, on a machine that is so slow that the syncer pauses in between
ok(wait_until(sub {
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 100000');
	taken();
	return flushes(sprintf $new, 't') == 0;
}), 'a commit of a logging column flushes nothing');
ok(wait_until(sub { taken(); syncer('active') eq 't' }), 'while the syncer is active');
cmp_ok(flushes(sprintf $new, 'fs'), '>', 0, 'one of a filesystem_like_logging column does');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 100000');
$node->safe_psql('postgres', "ALTER SYSTEM SET securefile.syncer = off; SELECT pg_reload_conf()");
ok(wait_until(sub { syncer('active') eq 'f' && syncer('pid') eq '' }), 'switched off');
cmp_ok(flushes(sprintf $new, 't'), '>', 0, 'then each commit flushes');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 100000');
$node->safe_psql('postgres', "ALTER SYSTEM RESET securefile.syncer; SELECT pg_reload_conf()");
ok(taken(), 'switched on again');

# ---- checkpoints wait, commits do not ----

stopped_at('syncer_flush');
insert(1);
my ($rc, $out, $err) = $node->psql('postgres', $waits);
like($err, qr/statement timeout/, 'a checkpoint waits for the syncer');
insert(1);
disarm($node);
is($node->psql('postgres', 'CHECKPOINT'), 0, 'and ends when the syncer goes on');
ok(wait_until(sub { syncer('active') eq 'f' && syncer('files') == 0 }), 'an idle server has no active syncer');
is(syncer('pid') ne '', 1, 'it waits for the next writer');
is($node->psql('postgres', $ends), 0, 'no checkpoint waits for it then');
ok(taken(), 'the next writer wakes it');

my $pid = syncer('pid');
stop_process($pid);
insert(3);
($rc, $out, $err) = $node->psql('postgres', $waits);
like($err, qr/statement timeout/, 'SIGSTOP: checkpoints wait');
kill 'CONT', $pid;
right_again('SIGSTOP');
is(syncer('pid'), $pid, 'it is the same process');

# ---- what ends it ----

my $since = -s $node->logfile;
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
right_again('pg_cancel_backend');
is(syncer('pid'), $pid, 'a cancel does not end it');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
right_again('pg_terminate_backend');
isnt(syncer('pid'), $pid, 'terminated: another one has come');
unlike(log_since($since), qr/PANIC|crash/, 'and nothing else has happened');

# what is written while it leaves is flushed by who writes it
stopped_at('syncer_flush');
disarm($node);
arm($node, 'syncer_leaves', 'wait');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM securefile_syncer');
ok(wait_for_sql($node, "SELECT securefile_fault_fired('syncer_leaves') > 0"), 'it is about to leave');
is(syncer('pid'), '', 'and is nobody to ask any more');
cmp_ok(flushes(sprintf $new, 't'), '>', 0, 'commits flush while it leaves');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 100000');
disarm($node);
right_again('leaving');

# A row that may be committed, and is gone again.
sub insert_in_vain
{
	$node->psql('postgres', 'INSERT INTO t SELECT -1, -1, 10000, blob(-1, 10000)');
	wait_restart($node);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = -1');
	return;
}

foreach my $point ('syncer_opened', 'syncer_flush', 'syncer_cleared', 'syncer_file_done',
	'syncer_pre_flushed', 'syncer_flushed', 'syncer_renewed')
{
	my $size = -s $node->logfile;
	taken();
	# closed, so that it opens the file again
	wait_until(sub { syncer('files') == 0 }) if $point eq 'syncer_opened';
	arm($node, $point, 'error', pid => syncer('pid'));
	insert_in_vain();
	like(log_since($size), qr/PANIC:  securefile syncer ends before/, "an error at $point is a PANIC");
	right_again("error at $point");
}
{
	my $size = -s $node->logfile;
	taken();
	arm($node, 'io_sync', 'error', pid => syncer('pid'));
	insert_in_vain();
	like(log_since($size), qr/PANIC:  could not fsync segment data file/, 'a flush that fails is a PANIC, also with data_sync_retry');
	right_again('a flush that fails');
}
{
	taken();
	my $size = -s $node->logfile;
	kill 9, syncer('pid');
	wait_until(sub { log_since($size) =~ /terminated by signal 9/ });
	wait_restart($node, $size);
	right_again('SIGKILL');
}

# ---- stops of the server ----

foreach my $mode ('fast', 'immediate')
{
	taken();
	insert(3);
	my $size = -s $node->logfile;
	$node->stop($mode);
	unlike(log_since($size), qr/PANIC/, "$mode stop: no PANIC");
	$node->start;
	right_again("$mode stop");
}

# ---- files that go between note and flush ----

my %ways = (
	'DROP TABLE' => 'DROP TABLE other',
	'TRUNCATE' => 'TRUNCATE other',
	'tablespace' => "SELECT securefile_set_tablespace('other', 'doc', 'place')",
	'rewrite' => "SELECT securefile_rewrite('other', 'doc')",
	'cut tail' => "DELETE FROM other; VACUUM other; SELECT securefile_maintain('other', 'doc')");
$node->safe_psql('postgres', "CREATE TABLESPACE place LOCATION ''");
my $data = Cwd::abs_path($node->data_dir);
foreach my $way (sort keys %ways)
{
	my $size = -s $node->logfile;
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS other');
	make_table($node, 'other');
	# its file is left to the syncer, too, and dirty
	wait_until(sub {
		insert(1);
		fill($node, 'other', 1, 1, 10_000);
		$node->safe_psql('postgres', 'DELETE FROM other');
		syncer('files') > 1;
	});
	my $before = fired($node, 'syncer_flush');
	arm($node, 'syncer_flush', 'wait', pid => syncer('pid'));
	fill($node, 'other', 1, 20, 10_000);
	wait_for_sql($node, "SELECT securefile_fault_fired('syncer_flush') > $before");
	$node->safe_psql('postgres', $_) foreach (split /; /, $ways{$way});
	disarm($node);
	is($node->psql('postgres', 'CHECKPOINT'), 0, "$way between note and flush: checkpoints end");
	unlike(log_since($size), qr/PANIC|could not/, "$way: no error");
	my $count = $way =~ /DROP|TRUNCATE|cut/ ? 0 : 20;
	rows_right($node, 'other', $count, $way) unless $way eq 'DROP TABLE';
	ok(wait_until(sub { !grep { /^\Q$data\E.*deleted/ } map { readlink($_) // '' } glob('/proc/' . syncer('pid') . '/fd/*') }),
		"$way: no file without a name stays open");
}
{
	$node->safe_psql('postgres', 'CREATE DATABASE d');
	$node->safe_psql('d', 'CREATE EXTENSION securefile; CREATE TABLE t (d securefile) TABLESPACE place');
	wait_until(sub { $node->safe_psql('d', "INSERT INTO t SELECT decode(repeat('ab', 10000), 'hex')"); syncer('files') > 1 });
	my $size = -s $node->logfile;
	is($node->psql('postgres', 'DROP DATABASE d'), 0, 'DROP DATABASE while the syncer has files of it');
	is($node->psql('postgres', 'CHECKPOINT'), 0, 'checkpoints end');
	unlike(log_since($size), qr/PANIC|could not/, 'no error');
	ok(wait_until(sub { !grep { /deleted/ } map { readlink($_) // '' } glob('/proc/' . syncer('pid') . '/fd/*') }, 4),
		'files that the server removed with the tablespace directory are closed');
}

# ---- direct and cached writes meet ----

# An early direct write of a transaction is not waited for when its next piece is to go
# through the page cache.
{
	my $session = background($node);
	$session->query_safe("CREATE TABLE both_ways (id int, seed int, len int, doc securefile)");
	$session->query_safe("SET securefile.write_gather_size = '16MB'; BEGIN; INSERT INTO both_ways SELECT 1, 1, 2000000, blob(1, 2000000)");
	$node->safe_psql('postgres', $_) foreach ('ALTER SYSTEM SET securefile.direct_io = off', 'SELECT pg_reload_conf()');
	ok(wait_until(sub { $session->query_safe('SHOW securefile.direct_io') eq 'off' }), 'no direct I/O from here on');
	$session->query_safe("SET statement_timeout = '" . patience() . "s'");
	$session->query_safe('INSERT INTO both_ways SELECT 2, 2, 2000000, blob(2, 2000000); COMMIT');
	$session->quit;
	$node->safe_psql('postgres', $_) foreach ('ALTER SYSTEM RESET securefile.direct_io', 'SELECT pg_reload_conf()');
	rows_right($node, 'both_ways', 2, 'direct I/O switched off in the middle');
}

# ---- more files than it takes, and none to open ----

{
	taken();
	arm($node, 'io_open', 'error', times => -1, pid => syncer('pid'));
	make_table($node, 'shut');
	my $log = -s $node->logfile;
	fill($node, 'shut', $_, $_, 10_000) foreach (1 .. 5);
	is(flushes('INSERT INTO shut SELECT 6, 6, 10000, blob(6, 10000)') > 0, 1, 'a file that the syncer cannot open is flushed by its writers');
	my @said = substr(slurp($node->logfile), $log) =~ /LOG:  securefile syncer could not open file "\S+\.sf": Input\/output error/g;
	is(scalar(@said), 1, 'which the server log says once');
	disarm($node);
	rows_right($node, 'shut', 6, 'not opened');
}

# ---- no worker for it, and nothing in WAL ----

sub each_flushes
{
	my ($name, @settings) = @_;
	$node->append_conf('postgresql.conf', "$_\n") foreach (@settings);
	$node->restart;
	insert(3);
	cmp_ok(flushes('INSERT INTO t SELECT -2, -2, 10000, blob(-2, 10000)'), '>', 0, "$name: commits flush");
	is(syncer('files'), 0, "$name: no file is left to a syncer");
	is($node->psql('postgres', 'DELETE FROM t WHERE id = -2; CHECKPOINT'), 0, "$name: checkpoints end");
	rows_right($node, 't', $rows, $name);
	return;
}
each_flushes('wal_level = minimal', 'wal_level = minimal', 'max_wal_senders = 0');
each_flushes('max_worker_processes = 0', 'wal_level = replica', 'max_worker_processes = 0');
sound($node, 't', 'in the end');
sound($node, 'fs', 'in the end');
$node->stop;
done_testing();
