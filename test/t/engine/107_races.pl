# Races: two sessions at one place of a segment, with a stop at the worst moment.
# Each pair comes in both orders.  doc/proof.md has the list, also of those that
# other files force.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileSpace;
use SecurefileTest;
use Test::More;

my $node = new_cluster('races',
	init => { allows_streaming => 1 },
	conf => [ 'restart_after_crash = on', 'securefile.monitor = off', 'wal_keep_size = 1GB',
		"wal_consistency_checking = 'all, securefile'", 'work_mem = 64MB' ]);
need_faults($node);
prepare_handles($node);
$node->backup('base');

# A new table with some rows, one map page, nothing pending, nothing known to the
# dispenser.
my $table = 0;
sub new_table
{
	my ($rows, $len, $options) = @_;
	my $t = 't' . ++$table;
	make_table($node, $t, defined $options ? $options : 'filesystem_like_logging');
	fill($node, $t, 1, $rows, $len);
	settle($node, $t, 'doc');
	return $t;
}

sub insert
{
	my ($t, $id, $len) = @_;
	return "INSERT INTO $t VALUES ($id, $id, $len, blob($id, $len))";
}

# Rows, space and files are right; the table is not needed any more.
sub right
{
	my ($t, $rows, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($node, $t, $rows, $name);
	sound($node, $t, $name);
	sql("DROP TABLE $t");
	return;
}

my ($one, $two);
sub new_sessions
{
	($one, $two) = (background($node), background($node));
	$_->set_query_timer_restart(1) foreach ($one, $two);
	return;
}
new_sessions();
my $read = 'SELECT count(*) FROM %s WHERE doc::bytea = blob(seed, len)';

sub maintain { return "SELECT entries_seen FROM securefile_maintain('$_[0]', 'doc')"; }

# ---- growth against growth ----
# The second one waits, and takes what the first has made; as soon as that is logged
# it need not wait.
foreach my $point ('grow_before', 'grow_after_zero', 'grow_after_record')
{
	my $t = new_table(1, 1_000_000);
	my $before = file_bytes($t);
	ok(held($node, $one, $point, insert($t, 10, 300_000)), "growth stands at $point");
	is(waits_for_lock($node, $two, insert($t, 11, 300_000)), $point ne 'grow_after_record', "$point: another one waits, or not");
	resume($node, $one, $point);
	$two->query_safe('RESET application_name');
	is(file_bytes($t), $before + mb(1), "$point: one growth is enough for both");
	right($t, 3, "growth, growth at $point");
}

# ---- lending against lending ----
# Both have chosen the same place: the first to mark it has it.
{
	my $t = new_table(6, 1_000_000);
	sql("DELETE FROM $t WHERE id < 6", maintain($t));
	$node->restart;
	new_sessions();
	ok(held($node, $one, 'lend_before_mark', insert($t, 10, 400_000)), 'a place has been chosen');
	sql(insert($t, 11, 400_000));
	resume($node, $one, 'lend_before_mark');
	right($t, 3, 'another one took it');

	$t = new_table(2, 300_000);
	ok(held($node, $one, 'lend_after_mark', insert($t, 10, 400_000)), 'a place has been marked');
	sql(insert($t, 11, 400_000));
	resume($node, $one, 'lend_after_mark');
	right($t, 4, 'another one got another');
}

# ---- a commit that has not marked its space used against lending ----
{
	my $t = new_table(1, 100_000);
	my $many = "INSERT INTO $t SELECT i, i, 100000, blob(i, 100000) FROM generate_series(%d, %d) i";
	ok(held($node, $one, 'commit_before_entries', sprintf($many, 101, 140)), 'a commit stands before its entries');
	sql(sprintf($many, 201, 240));
	resume($node, $one, 'commit_before_entries');
	right($t, 81, 'what is full stays lent until it is marked used');
}

# ---- a tail that is cut against lending and growth ----
sub tailed
{
	my $t = new_table(1, 200_000);
	fill($node, $t, 2, 8, 2_000_000);
	sql("DELETE FROM $t WHERE id > 1");
	return $t;
}

{
	my $t = tailed();
	ok(held($node, $one, 'lend_after_mark', insert($t, 10, 3_000_000)), 'lent at the end');
	sql(maintain($t), maintain($t));
	resume($node, $one, 'lend_after_mark');
	right($t, 2, 'a tail in which something is lent is not cut');
}
foreach my $point ('truncate_after_claim', 'truncate_after_record', 'truncate_before_file')
{
	my $t = tailed();
	my $before = file_bytes($t);
	ok(held($node, $one, $point, maintain($t)), "the cut stands at $point");
	ok(waits_for_lock($node, $two, insert($t, 10, 9_000_000)), "$point: growth waits for it");
	resume($node, $one, $point);
	$two->query_safe('RESET application_name');
	is(data_bytes_of($t), file_bytes($t), "$point: files are as long as the header says");
	right($t, 2, "cut at $point, then grown");
}
foreach my $point ('grow_before', 'grow_after_zero')
{
	my $t = new_table(1, 200_000);
	ok(held($node, $one, $point, insert($t, 10, 9_000_000)), "growth stands at $point");
	sql(maintain($t));
	pass("$point: the cut does not wait for it");
	resume($node, $one, $point);
	is(data_bytes_of($t), file_bytes($t), "$point: nor takes away what it has made");
	right($t, 2, "grown at $point over a cut");
}

# A table's data files, and how long they are.
sub files_of
{
	my ($t) = @_;
	return glob($node->data_dir . '/' . sql(qq{SELECT data_files FROM securefile_columns WHERE relid = '$t'::regclass}));
}

sub data_bytes_of
{
	my $sum = 0;
	$sum += -s $_ for files_of(@_);
	return $sum;
}

# ---- a resolver against writers ----
# Entries that come to its page while it stands are not lost, nor taken for others.
foreach my $point ('resolve_before', 'resolve_after', 'resolve_before_unlink')
{
	my $t = new_table(8, 300_000);
	sql("DELETE FROM $t WHERE id < 4");
	ok(held($node, $one, $point, maintain($t)), "the resolver stands at $point");
	sql("DELETE FROM $t WHERE id = 4", insert($t, 10, 300_000), insert($t, 11, 700_000));
	sql('BEGIN', insert($t, 12, 300_000), 'ROLLBACK');
	resume($node, $one, $point);
	right($t, 6, "writers while the resolver stands at $point");
}

# many entries: whole pages become empty while others are added behind
{
	my $t = new_table(0, 0, 'disable_storage_in_row');
	fill($node, $t, 1, 900, '500');
	sql("DELETE FROM $t WHERE id <= 800");
	ok(held($node, $one, 'resolve_before_unlink', maintain($t)), 'a page of entries is empty');
	fill($node, $t, 1001, 1400, '500');
	sql("DELETE FROM $t WHERE id > 850");
	resume($node, $one, 'resolve_before_unlink');
	rows_right($node, $t, 50, 'pages of entries come and go');
	sound($node, $t, 'pages of entries come and go', in_row => 0);
	sql("DROP TABLE $t");
}

# and the other way round: entries are about to be written when all before are resolved
{
	my $t = new_table(8, 300_000);
	sql("DELETE FROM $t WHERE id < 4");
	ok(held($node, $one, 'commit_before_entries', "BEGIN; DELETE FROM $t WHERE id = 4; " . insert($t, 10, 300_000) . '; COMMIT'),
		'entries are about to be written');
	sql(maintain($t), maintain($t));
	resume($node, $one, 'commit_before_entries');
	right($t, 5, 'resolved before entries were written');
}

# ---- resolvers against each other: securefile_maintain(), a writer, the monitor ----
{
	my $t = new_table(10, 900_000);
	my $size = file_bytes($t);
	sql("DELETE FROM $t WHERE id < 9");
	ok(held($node, $one, 'resolve_before', maintain($t)), 'securefile_maintain() resolves');
	ok(waits_for_lock($node, $two, maintain($t)), 'a second one waits');
	sql(insert($t, 20, 5_000_000));
	cmp_ok(file_bytes($t), '>', $size, 'a writer does not wait, and grows the segment');
	resume($node, $one, 'resolve_before');
	$two->query_safe('RESET application_name');
	right($t, 3, 'securefile_maintain(), and others');

	$t = new_table(10, 900_000);
	sql("DELETE FROM $t WHERE id < 9");
	ok(held($node, $one, 'resolve_before', insert($t, 20, 5_000_000)), 'a writer resolves');
	ok(waits_for_lock($node, $two, maintain($t)), 'securefile_maintain() waits for it');
	sql(insert($t, 21, 6_000_000));
	resume($node, $one, 'resolve_before');
	$two->query_safe('RESET application_name');
	right($t, 4, 'a writer, and others');
}

# the monitor stands: others do not wait, but securefile_maintain() does.  What is done
# before it comes is there for it to resolve: else a writer grows, and waits for a cut.
sub monitor_at
{
	my ($point, $t, $what) = @_;
	my $before = fired($node, $point);
	arm($node, $point, 'wait');
	sql($what, 'ALTER SYSTEM SET securefile.monitor = on', 'SELECT pg_reload_conf()');
	return wait_for_sql($node, "SELECT securefile_fault_fired('$point') > $before");
}

sub monitor_off
{
	sql('ALTER SYSTEM SET securefile.monitor = off', 'SELECT pg_reload_conf()');
	disarm($node);
	return monitor_rests($node);
}

foreach my $point ('resolve_before', 'maintain_before', 'truncate_before_claim')
{
	my $t = new_table(10, 900_000);
	ok(monitor_at($point, $t, "DELETE FROM $t WHERE id < 9"), "the monitor stands at $point");
	sql(insert($t, 20, 5_000_000), "DELETE FROM $t WHERE id = 9", sprintf($read, $t));
	ok(waits_for_lock($node, $two, maintain($t)), "$point: securefile_maintain() waits for it, a writer does not");
	ok(monitor_off(), "$point: the monitor goes on");
	$two->query_safe('RESET application_name');
	right($t, 2, "the monitor at $point");
}
{
	my $t = new_table(10, 900_000);
	sql("DELETE FROM $t WHERE id < 5");
	ok(held($node, $one, 'resolve_before', maintain($t)), 'securefile_maintain() stands');
	arm($node, 'monitor_before_visit', 'pass', times => -1);
	sql('ALTER SYSTEM SET securefile.monitor = on', 'SELECT pg_reload_conf()', "DELETE FROM $t WHERE id = 5");
	ok(wait_for_sql($node, "SELECT securefile_fault_fired('monitor_before_visit') > 1"), 'the monitor passes by');
	resume($node, $one, 'resolve_before');
	ok(monitor_off(), 'and goes');
	right($t, 5, 'the monitor beside securefile_maintain()');
}

# ---- a purge against a removal ----
# What is removed while a purge goes on, by a transaction that began behind it, is kept and listed.
{
	my $t = new_table(3, 300_000, "disable_storage_in_row, 'retention 7 days', 'max_size 1 GB'");
	sql("DELETE FROM $t WHERE id = 1");
	$one->query_safe('SET client_min_messages = warning');
	ok(held($node, $one, 'purge_begun', "SELECT count(*) FROM securefile_purge('$t', 'doc')"), 'a purge has begun');
	sql("DELETE FROM $t WHERE id = 2");
	resume($node, $one, 'purge_begun');
	$one->query_safe('RESET client_min_messages');
	is(sql("SELECT string_agg(row_key::text, ' ') FROM securefile_removed('$t', 'doc')"), '{"id": 2}', 'what is removed meanwhile is listed');
	is(sql("SELECT count(*) FROM securefile_removed('$t', 'doc') WHERE document::bytea = blob(2, 300000)"), 1, 'and can be read');
	is(sql("SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, 'a purge and a removal: nothing is to be found');
	rows_right($node, $t, 1, 'a purge and a removal');
	sql("DROP TABLE $t");
}

# ---- an abort with I/O in flight against who wants space ----
# What it was writing to is nobody's before its writes have been waited for.
foreach my $undo ('ROLLBACK', 'ROLLBACK TO a; COMMIT')
{
	my $t = new_table(1, 100_000);
	fill($node, $t, 2, 5, 900_000);
	sql("DELETE FROM $t WHERE id > 1", maintain($t));
	$one->query_safe('SET securefile.io_method = libaio');
	$one->query_safe('BEGIN; ' . ($undo =~ /TO/ ? 'SAVEPOINT a; ' : '') . insert($t, 10, 900_000));
	ok(held($node, $one, 'io_collect', $undo), "$undo: in flight");
	sql(maintain($t));
	fill($node, $t, 11, 16, 900_000);		# more than there is
	cmp_ok(block_at((files_of($t))[0], 10, 1), '>=', 0, "$undo: what it has written is not written over");
	resume($node, $one, 'io_collect');
	right($t, 7, "$undo with I/O in flight");
}

# entries are in WAL when the transaction fails, and resolved before its abort is through
{
	my $t = new_table(2, 300_000);
	my $pid = $one->query_safe('SELECT pg_backend_pid()');
	arm($node, 'commit_before_record', 'error', pid => $pid);
	ok(held($node, $one, 'abort_start', insert($t, 10, 300_000) . '; ' . insert($t, 11, 100)), 'failed after its entries');
	sql(maintain($t), insert($t, 20, 300_000), insert($t, 21, 300_000));
	resume($node, $one, 'abort_start');
	$one->{stderr} = '';
	disarm($node);
	sql(insert($t, 22, 300_000));
	rows_right($node, $t, 6, 'resolved before the abort was through');
	sound($node, $t, 'resolved before the abort was through');
	sql("DROP TABLE $t");
}

# ---- a reader against who frees, drops, truncates ----
sub variable_reader
{
	my ($t, $name) = @_;
	return "CREATE OR REPLACE PROCEDURE $name() LANGUAGE plpgsql AS \$\$ DECLARE v securefile; r text; BEGIN"
	  . " SELECT doc INTO v FROM $t WHERE id = 2; COMMIT; PERFORM pg_advisory_xact_lock(7); COMMIT;"
	  . " SELECT outcome(v, 2, 300000) INTO r; RAISE NOTICE 'outcome %', r; END \$\$";
}

foreach my $what ("UPDATE %s SET seed = 90, doc = blob(90, len)", 'DELETE FROM %s')
{
	my $t = new_table(3, 300_000, 'nocache');
	my $change = sprintf($what, $t);
	ok(held($node, $one, 'io_read', sprintf($read, $t)), "a reader is about to read: $change");
	sql($change, maintain($t), maintain($t));
	fill($node, $t, 50, 60, 300_000);
	is(resume($node, $one, 'io_read'), 3, "$change: it reads what it saw");
	right($t, $change =~ /UPDATE/ ? 14 : 11, "reader, $change");
}
foreach my $command ('DROP TABLE', 'TRUNCATE')
{
	# a reader without a lock on the table: it has the value in a variable
	my $t = new_table(3, 300_000, 'nocache');
	sql(variable_reader($t, 'read_it'));
	ok(held($node, $one, 'io_read', 'CALL read_it()'), "a reader is about to read: $command");
	ok(waits_for_lock($node, $two, "$command $t"), "$command waits for it");
	resume($node, $one, 'io_read');
	like($one->{stderr}, qr/outcome right/, "$command: it read what it saw");
	$two->query_safe('RESET application_name');
	$one->{stderr} = '';

	# the other way round: the command is through when the reader comes
	sql("DROP TABLE IF EXISTS $t");
	$t = new_table(3, 300_000, 'nocache');
	sql(variable_reader($t, 'read_it'));
	my $holder = background($node);
	$holder->query_safe('SELECT pg_advisory_lock(7)');
	ok(waits_for_lock($node, $one, 'CALL read_it()'), "$command: a reader has the value");
	ok(held($node, $two, 'drop_before_unlink', "$command $t"), "$command is committed, files are there still");
	$holder->quit;
	# TRUNCATE has its lock still
	ok(wait_for_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE } . ($command eq 'TRUNCATE' ? q{wait_event = 'relation'} : q{application_name = 'through'})),
		"$command: the reader goes on");
	resume($node, $two, 'drop_before_unlink');
	$one->query('RESET application_name');
	like($one->{stderr}, qr/outcome 42704/, "$command: the value is gone");
	$one->{stderr} = '';
	sql("DROP TABLE IF EXISTS $t");
}

# ---- TRUNCATE against a resolver ----
{
	my $t = new_table(5, 300_000);
	sql("DELETE FROM $t WHERE id < 3");
	ok(held($node, $one, 'resolve_before', maintain($t)), 'a resolver stands');
	ok(waits_for_lock($node, $two, "TRUNCATE $t"), 'TRUNCATE waits for it');
	resume($node, $one, 'resolve_before');
	$two->query_safe('RESET application_name');
	right($t, 0, 'TRUNCATE after a resolver');
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		$t = new_table(5, 300_000);
		sql("DELETE FROM $t WHERE id < 3");
		$one->query_safe("BEGIN; TRUNCATE $t; " . insert($t, 9, 300_000));
		ok(waits_for_lock($node, $two, maintain($t)), "a resolver waits for TRUNCATE, $end");
		$one->query_safe($end);
		$two->query_safe('RESET application_name');
		right($t, $end eq 'COMMIT' ? 1 : 3, "a resolver after TRUNCATE, $end");
	}
}

# ---- handles against DROP ----
{
	my $t = new_table(2, 300_000);
	$one->query_safe("BEGIN; SELECT made('$t', 5, 700000)");
	ok(held($node, $one, 'commit_before_record', 'INSERT INTO ' . $t . " VALUES (5, 5, 300000, securefile_finish(made('$t', 5, 300000))); COMMIT"),
		'handles are closed, the commit is not through');
	ok(waits_for_lock($node, $two, "DROP TABLE $t"), 'DROP waits for it');
	resume($node, $one, 'commit_before_record');
	$two->query_safe('RESET application_name');
	is($one->{stderr}, '', 'the commit went well');
	is(sql("SELECT to_regclass('$t') IS NULL"), 't', 'and so did the DROP');

	$t = new_table(2, 300_000);
	$one->query_safe("BEGIN; SAVEPOINT a");
	my $fd = $one->query_safe("SELECT made('$t', 5, 700000)");
	$one->query_safe('ROLLBACK TO a');
	ok(held($node, $two, 'drop_after_record', "DROP TABLE $t"), 'a rolled back handle does not hold up DROP');
	$one->query("SELECT securefile_write($fd, 'x')");
	like($one->{stderr}, qr/handle $fd is not open/, 'and is closed');
	$one->{stderr} = '';
	$one->query_safe('ROLLBACK');
	resume($node, $two, 'drop_after_record');
}

# ---- replay on a standby against readers there ----
{
	my $standby = new_standby('races_standby', $node, 'base', 'max_standby_streaming_delay = -1');
	my $t = new_table(3, 300_000, 'nocache');
	catch_up($node, $standby);
	my $reader = background($standby);
	my $stand = sub {
		my ($point, $sql) = @_;
		my $pid = $reader->query_safe('SELECT pg_backend_pid()');
		$standby->safe_psql('postgres', "SELECT securefile_fault('$point', 'wait', pid => $pid)");
		$reader->query_until(qr/start/, "\\echo start\n$sql;\n");
		return wait_for_sql($standby, "SELECT securefile_fault_fired('$point') > 0");
	};

	# the reader came first: replay waits for it
	ok($stand->('io_read', sprintf($read, $t)), 'standby: a reader is about to read');
	sql("DELETE FROM $t WHERE id < 3", maintain($t));
	fill($node, $t, 50, 55, 300_000);
	my $lsn = $node->lsn('flush');
	ok(wait_for_sql($standby, "SELECT wait_event = 'RecoveryConflictSnapshot' FROM pg_stat_activity WHERE backend_type = 'startup'"),
		'standby: replay of freed space waits for it');
	is(resume($standby, $reader, 'io_read'), 3, 'standby: it reads what it saw');
	$node->wait_for_catchup($standby->name, 'replay', $lsn);
	rows_right($standby, $t, 7, 'standby: replayed');

	# replay came first, and stands: a reader sees the new rows, and waits for nothing
	$standby->safe_psql('postgres', "SELECT securefile_fault('redo_resolve', 'wait')");
	my $before = $standby->safe_psql('postgres', "SELECT securefile_fault_fired('redo_resolve')");
	sql("UPDATE $t SET seed = seed + 1, doc = blob(seed + 1, len)", maintain($t));
	ok(wait_for_sql($standby, "SELECT securefile_fault_fired('redo_resolve') > $before"), 'standby: replay stands');
	rows_right($standby, $t, 7, 'standby: while replay of freed space stands');
	$standby->safe_psql('postgres', "SELECT securefile_fault('redo_resolve', 'none')");
	fill($node, $t, 60, 64, 300_000);
	catch_up($node, $standby);
	rows_right($standby, $t, 12, 'standby: replayed again');

	# a snapshot that came first, and needs what is freed in one record with older things, or
	# a page of a unit map and no data
	my $in_time = sub {
		my ($name, $change, $needed, $want) = @_;
		catch_up($node, $standby);
		$reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM $t");
		sql(@$change);
		my $end = $node->lsn('insert');
		ok(wait_for_sql($standby, "SELECT wait_event = 'RecoveryConflictSnapshot' FROM pg_stat_activity WHERE backend_type = 'startup'"),
			"standby: replay waits for a snapshot, $name");
		is($reader->query($needed), $want, "standby: it reads what it saw, $name");
		$reader->query_safe('COMMIT');
		return $node->wait_for_catchup($standby->name, 'replay', $end);
	};
	my $old = new_table(4, 300_000, 'nocache');
	sql("DELETE FROM $old WHERE id = 1");
	$in_time->('the later of two', [ "DELETE FROM $old WHERE id = 2", maintain($old), 'SELECT pg_current_xact_id()' ], sprintf($read, $old), 3);
	sql("DO \$\$ DECLARE fd int := securefile_create('$old', 'doc'); BEGIN PERFORM securefile_seek(fd, 9000000, 0);"
		  . " PERFORM put(fd, 9, 20000); INSERT INTO $old VALUES (9, 9, 20000, securefile_finish(fd)); END \$\$", maintain($old));
	$in_time->('a page',
		[ "DO \$\$ DECLARE fd int := securefile_open(doc, 'rw') FROM $old WHERE id = 9; BEGIN"
			. " PERFORM put(fd, 8, 20000); UPDATE $old SET doc = securefile_finish(fd) WHERE id = 9; END \$\$", maintain($old),
			'SELECT pg_current_xact_id()' ],
		"SELECT substring(doc, 9000001) = blob(9, 20000) AND substring(doc, 1, 10) = '\\x00000000000000000000' FROM $old WHERE id = 9", 't');
	sql("DROP TABLE $old");

	# what is freed or cut off may be written over, or gone: recovery must not end before
	my $is_durable = sub {
		my ($what, $do) = @_;
		my $since = $node->lsn('insert');
		$do->();
		catch_up($node, $standby);
		return is($standby->safe_psql('postgres', "SELECT min_recovery_end_lsn > '$since' FROM pg_control_recovery()"),
			't', "standby: recovery cannot end before $what");
	};
	my $long = tailed();
	my $freed = new_table(4, 300_000);
	my $segment = sql("SELECT segment_relid::regclass FROM securefile_columns WHERE relid = '$freed'::regclass");
	my $pending = "SELECT pending_bytes > 0 FROM securefile_usage('$freed', 'doc')";
	# not maintained, which would cut the tail, too; some snapshot may be in the way, or
	# the monitor come first
	$is_durable->('space was freed', sub {
		sql("DELETE FROM $freed WHERE id = 1");
		wait_until(sub {
			sql("VACUUM $segment");
			sql($pending) eq 'f';
		}) or die 'the space is not freed';
	});
	my $size = file_bytes($long);
	$is_durable->('a tail was cut', sub { sql(maintain($long)) });
	cmp_ok(file_bytes($long), '<', $size, 'standby: it was');
	sql("DROP TABLE $long");

	# files go: a reader that came first is waited for
	ok($stand->('io_read', sprintf($read, $t)), 'standby: a reader again');
	sql("TRUNCATE $t", insert($t, 1, 300_000));
	ok(wait_for_sql($standby, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE backend_type = 'startup'"),
		'standby: replay of TRUNCATE waits for it');
	is(resume($standby, $reader, 'io_read'), 12, 'standby: it reads what it saw');
	catch_up($node, $standby);
	rows_right($standby, $t, 1, 'standby: TRUNCATE replayed');
	$reader->quit;
	$standby->stop;
	unlike(slurp_file($standby->logfile), qr/PANIC|TRAP/, 'log of the standby');
}

$_->quit foreach ($one, $two);
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|free already/, 'nothing else in the log');
done_testing();
