# A move of values stands in the middle, and another server goes on from there: a standby that is
# promoted in a batch, or after it died in the replay of the cut; recovery to an LSN between two
# batches, and to names in a batch, before and after the cut; a base backup that began before and
# ended after the move.  Each has all values, the bytes in use that its rows take, and files as
# long as the segment; there the move is called again.  Readers of standbys with an older snapshot,
# with hot_standby_feedback and without.  A standby of a server that releases space by itself.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use List::Util qw(sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $primary = new_cluster('primary', init => { allows_streaming => 1 },
	conf => [ 'securefile.monitor = off', 'securefile.shrink_rate = 0', 'restart_after_crash = on', 'wal_keep_size = 1GB', 'checkpoint_timeout = 1h', 'max_wal_size = 4GB', 'max_wal_senders = 8', master_key() ]);
need_faults($primary);
my $rows = 48;
my $deleted = "id % 4 > 0 AND id < $rows - 1";
my ($kept) = sql("SELECT count(*) FROM generate_series(1, $rows) id WHERE NOT ($deleted)");

sub file_bytes { return $_[0]->safe_psql('postgres', "SELECT file_bytes FROM securefile_usage('$_[1]', 'doc')"); }
sub disk_bytes { return $_[0]->safe_psql('postgres', "SELECT disk_bytes FROM securefile_usage('$_[1]', 'doc')"); }
sub places { return $_[0]->safe_psql('postgres', 'SELECT md5(string_agg(ctid::text, \' \' ORDER BY id)) FROM m'); }
sub starts { $_[0]->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery'; return; }

# What a move says besides.
sub move
{
	my ($node, $table) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "CALL securefile_shrink('$table', 'doc', 'move', force => true)");
	return $rc == 0 ? $err : "failed: $err";
}

# How long the data files of a column really are.
sub real_bytes
{
	my ($node, $table) = @_;
	my ($number) = segment_of($node, $table) =~ m{/(\d+)$};
	return sum0(map { -s $_ } grep { m{/$number\b} } data_files($node));
}

# Values of columns that log: m, from a block to two map pages' runs; k, coded and sealed.  f: not in WAL.
make_table($primary, 'm', 'logging');
fill($primary, 'm', 1, $rows, '(CASE i % 8 WHEN 0 THEN 700000 WHEN 4 THEN 20000 ELSE 150000 END) + i');
sql('CREATE TABLE k (id int PRIMARY KEY, seed int, len int, doc securefile(hash, compress, encrypt))', "INSERT INTO k SELECT i, i, 80000, noise(i, 40000) || blob(i, 40000) FROM generate_series(1, $rows) i");
make_table($primary, 'f', 'filesystem_like_logging');
fill($primary, 'f', 1, $rows, 50_000);
sql("DELETE FROM $_ WHERE $deleted") foreach 'm', 'k', 'f';
my %full = map { $_ => settle($primary, $_, 'doc')->{file_bytes} } 'm', 'k', 'f';
my $all = join(' UNION ALL ', map { "SELECT '$_ ' || count(*) || ' ' || md5(string_agg(id || securefile_digest(doc, 'xxh3')::text, ',' ORDER BY id)) FROM $_" } 'm', 'k') . ' ORDER BY 1';
my $before = sql($all);
my $unmoved = places($primary);

# All values of a server, by digest and by what was stored.
sub same
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql('postgres', $all), $before, "$name: values");
	return;
}

# A server that is no standby any more: it is sound, and a move is called there, for the first time or again.
sub goes_on
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	same($node, $name);
	sound($node, $_, $name) foreach 'm', 'k';
	foreach my $table ('m', 'k')
	{
		unlike(move($node, $table), qr/failed|(?:changed|space|loaded|server): [1-9]/, "$name: $table is moved");
		cmp_ok(file_bytes($node, $table), '<', $full{$table} * 0.6, "$name: files of $table are short");
		is(real_bytes($node, $table), file_bytes($node, $table), "$name: and the segment is as long");
	}
	same($node, "$name, moved");
	rows_right($node, 'm', $kept, "$name, moved");
	sound($node, $_, "$name, moved") foreach 'm', 'k';
	return;
}

# A server from a backup, with WAL of the primary up to a target.
sub recovered
{
	my ($name, $backup, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, $backup, standby => 0, @conf ? (has_restoring => 1) : ());
	my $wal = $primary->data_dir . '/pg_wal';
	$node->append_conf('postgresql.conf', $_) foreach 'archive_mode = off', @conf ? "restore_command = 'cp \"$wal/%f\" \"%p\"'" : (), @conf;
	$node->start;
	return $node;
}

# What the primary is like at a restore point, for a server that comes there.
my %at;
sub here
{
	my ($name) = @_;
	$at{$name} = { lsn => sql("SELECT pg_create_restore_point('$name')"), places => places($primary), bytes => file_bytes($primary, 'm') };
	return;
}

sub is_there
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(places($node), $at{$name}->{places}, "$name: rows are where they were then");
	is(file_bytes($node, 'm'), $at{$name}->{bytes}, "$name: the segment is as long as then");
	is(real_bytes($node, 'm'), $at{$name}->{bytes}, "$name: and so are its files");
	return;
}

# ---- standbys that are read ----

$primary->backup('base');
my $fed = new_standby('fed', $primary, 'base', 'hot_standby_feedback = on', "wal_receiver_status_interval = '1s'", 'max_standby_streaming_delay = 0');
my $bare = new_standby('bare', $primary, 'base', 'hot_standby_feedback = off', 'max_standby_streaming_delay = -1');
my %reader = map { $_->name => background($_) } $fed, $bare;
is($reader{$_}->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $all"), $before, "$_: values") foreach sort keys %reader;
ok(wait_for_sql($primary, q{SELECT count(*) = 1 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL}), 'feedback has come');

like(move($primary, 'k'), qr{^[^\n]*still longer than they have to be\nDETAIL:[^\n]*\nHINT:  [1-9]\d* MB are pending[^\n]*$}, 'a column is moved');
is(file_bytes($primary, 'k'), $full{k}, 'what a standby reads stays, with feedback');
cmp_ok(usage($primary, 'k', 'doc')->{pending_bytes}, '>', 0, 'and waits');
catch_up($primary, $_) foreach $fed, $bare;
is($reader{$_}->query_safe($all), $before, "$_: an older snapshot") foreach sort keys %reader;
same($_, $_->name) foreach $fed, $bare;

# ---- between two batches ----

my $session = background($primary);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
# it sleeps for days after the first one
$session->query_until(qr/start/, "\\echo start\nCALL securefile_shrink('m', 'doc', 'move', 1, 1);\n");
ok(wait_for_sql($primary, "SELECT md5(string_agg(ctid::text, ' ' ORDER BY id)) <> '$unmoved' FROM m"), 'one batch is committed');
here('between');

# A base backup, which nobody takes off its hands but what the pipe holds.
my $meanwhile = $primary->backup_dir . '/meanwhile';
mkdir $meanwhile or die $!;
open(my $backup, '-|:raw', 'pg_basebackup', '-h', $primary->host, '-p', $primary->port, '--checkpoint=fast', '--no-sync', '-X', 'fetch', '-F', 't', '-D', '-') or die $!;
my $streams = q{FROM pg_stat_progress_basebackup WHERE phase = 'streaming database files'};
ok(wait_for_sql($primary, "SELECT count(*) = 1 $streams AND backup_streamed > 0"), 'a base backup has begun');
# it may read the data files now, or when all is over: these are as of now
my ($number) = segment_of($primary, 'm') =~ m{/(\d+)$};
my %early = map { substr($_, length($primary->data_dir)) => slurp($_) } grep { m{/$number\b} } data_files($primary);

sql("SELECT pg_cancel_backend($pid)");
$session->query('SELECT');
like($session->{stderr}, qr/canceling statement/, 'the move is cancelled');
$session->{stderr} = '';
like(move($primary, 'f'), qr/take a base backup now/, 'a column without WAL is moved');

# ---- in a batch ----

ok(held($primary, $session, 'shrink_row_updated', "CALL securefile_shrink('m', 'doc', 'move')", skip => 2), 'a move is in a batch');
here('in_batch');
catch_up($primary, $fed);
is($reader{fed}->query_safe($all), $before, 'fed, in a batch: an older snapshot');
$fed->promote;
is($reader{fed}->query_safe($all), $before, 'promoted: the older snapshot goes on');
$reader{fed}->query_safe('COMMIT');
$reader{fed}->quit;
is(places($fed), $at{in_batch}->{places}, 'the batch is not there');
my @lost = right_or_left_behind($fed, 'f', 'promoted');
cmp_ok(scalar(@lost), '>', 0, 'values that are not in WAL are left behind: ' . @lost);
like(move($fed, 'f'), qr/no value of column|not on this server: [1-9]/, 'and are not moved');
goes_on($fed, 'promoted in a batch');
$fed->stop;

# ---- before the cut ----

wait_for_sql($primary, q{SELECT count(*) = 0 FROM pg_stat_replication WHERE application_name = 'fed'}) or die 'feedback stays';
ok(moves_on($primary, 'shrink_row_updated', 'truncate_before_claim', pid => $pid), 'the tail is found');
here('before_cut');

# replay frees nothing that a reader of the standby can see; it waits, or would be past this point
my $waits;
wait_until(sub {
	$waits = $bare->safe_psql('postgres', "SELECT CASE WHEN EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot') THEN 'waits' WHEN pg_last_wal_replay_lsn() >= '$at{before_cut}->{lsn}' THEN 'is past' END");
	return $waits ne '';
});
is($waits, 'waits', 'without feedback replay waits for a reader');
is($reader{bare}->query_safe($all), $before, 'bare, before the cut: an older snapshot');
$bare->safe_psql('postgres', q{SELECT securefile_fault('redo_truncate', 'kill')});
$reader{bare}->query_safe('COMMIT');
$reader{bare}->quit;

# ---- after the cut ----

ok(moves_on($primary, 'truncate_before_claim', 'truncate_before_file', pid => $pid), 'the record of the cut is there');
here('cut');
cmp_ok($at{cut}->{bytes}, '<', $full{m} * 0.8, "the segment has $at{cut}->{bytes} bytes of $full{m}");
sql(q{SELECT pg_switch_wal()});

# a standby that dies between the pages and the files
ok(wait_until(sub { !-e $bare->data_dir . '/postmaster.pid' || !kill(0, $bare->{_pid}) }), 'a standby dies in the replay of the cut');
$bare->kill9;
$bare->start;
catch_up($primary, $bare);
same($bare, 'died in the cut');
$bare->promote;
is(file_bytes($bare, 'm'), $at{cut}->{bytes}, 'died in the cut, promoted: the segment is as long as the primary\'s');
goes_on($bare, 'died in the cut');
$bare->stop;

# ---- recovery ----

my $node = recovered('to_between', 'base', "recovery_target_lsn = '$at{between}->{lsn}'", 'recovery_target_action = promote');
starts($node);
is_there($node, 'between');
goes_on($node, 'between');
$node->stop;

# one server goes through all points
$node = undef;
foreach my $point ('in_batch', 'before_cut', 'cut')
{
	my @target = ("recovery_target_name = '$point'", 'recovery_target_action = pause');
	if ($node)
	{
		$node->stop;
		$node->append_conf('postgresql.conf', $target[0]);
		$node->start;
	}
	$node ||= recovered('through_all', 'base', @target);
	wait_for_sql($node, q{SELECT pg_get_wal_replay_pause_state() = 'paused'}) or die "$point is not reached";
	is_there($node, $point);
	same($node, $point);
	is($node->safe_psql('postgres', q{SELECT count(*) FROM securefile_check('m', 'doc')}), 0, "$point: sound");
}
$node->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
starts($node);
right_or_left_behind($node, 'f', 'cut');
goes_on($node, 'cut');
$node->stop;

# ---- the end of the move, and of the backup ----

sql(q{SELECT securefile_fault('truncate_before_file', 'none')});
$session->query('SELECT');
is($session->{stderr}, '', 'the move ends');
$session->quit;
goes_on($primary, 'primary');
rows_right($primary, 'f', $kept, 'primary');
is(sql("SELECT count(*) $streams"), 1, 'the base backup still runs');
open(my $tar, '|-:raw', 'tar', 'xf', '-', '-C', $meanwhile) or die $!;
while (read($backup, my $bytes, 1 << 20)) { print $tar $bytes }
ok(close($backup) && close($tar), 'and ends');
command_ok([ 'pg_verifybackup', $meanwhile ], 'pg_verifybackup');
foreach my $name (sort keys %early)
{
	open(my $fh, '>:raw', "$meanwhile$name") or die "$name: $!";
	print $fh $early{$name};
	close $fh or die $!;
}
$node = recovered('meanwhile', 'meanwhile');
starts($node);
right_or_left_behind($node, 'f', 'meanwhile');
goes_on($node, 'meanwhile');
$node->stop;

# ---- a primary that releases by itself ----

my $auto = new_standby('auto', $primary, 'meanwhile');
sql("ALTER SYSTEM SET securefile.$_") foreach 'release_threshold = 20', 'monitor = on';
$primary->reload;
wait_for_sql($primary, q{SELECT current_setting('securefile.release_threshold') = '20'});
my ($count, $len) = (64, 200_000);
make_table($primary, $_, 'logging') foreach 'a', 'tick';
fill($primary, 'a', 1, $count * 2, $len);
catch_up($primary, $auto);
my $long = real_bytes($auto, 'a');
sql("DELETE FROM a WHERE id > $count");
settle($primary, 'a', 'doc');
sql("DELETE FROM a WHERE id % 4 > 0 AND id < $count");
settle($primary, 'a', 'doc');
catch_up($primary, $auto);
my $cut = file_bytes($primary, 'a');
cmp_ok($cut, '<', $long * 0.8, 'the files are cut');
is(real_bytes($_, 'a'), $cut, $_->name . ': the files are as long as the segment') foreach $primary, $auto;

my $taken = disk_bytes($primary, 'a');
arm($primary, 'release_little', 'skip', times => -1);
arm($primary, 'release_after_punch', 'wait');
sql('CHECKPOINT');
# a commit wakes the monitor
fill($primary, 'tick', 1, 1, 5000);
ok(wait_for_sql($primary, q{SELECT securefile_fault_fired('release_after_punch') > 0}), 'the monitor is in the middle of a release');
catch_up($primary, $auto);
my $some = disk_bytes($auto, 'a');
cmp_ok($some, '<', $taken, "the standby has the holes of the first record: $some bytes of $taken");
$auto->promote;
sql(q{SELECT securefile_fault('release_after_punch', 'none')});
ok($primary->poll_query_until('postgres', "SELECT disk_bytes <= $cut * 0.6 FROM securefile_usage('a', 'doc')"), 'the release goes on');
cmp_ok($some, '>', disk_bytes($primary, 'a') + mb(1), 'and no record has more holes than are punched in a row');
is(file_bytes($auto, 'a'), $cut, 'promoted: the segment is as long as the primary\'s');
rows_right($_, 'a', $count / 4, $_->name) foreach $primary, $auto;
sound($_, 'a', $_->name) foreach $primary, $auto;
my $length = file_bytes($auto, 'a');
fill($auto, 'a', 1001, 1030, $len);
is(file_bytes($auto, 'a'), $length, 'what is free, with holes or without, is used again');
rows_right($auto, 'a', $count / 4 + 30, 'used again');
sound($auto, 'a', 'used again');
same($auto, 'auto');

$auto->stop;
$primary->stop;
unlike(slurp_file($_->logfile), qr/PANIC|TRAP/, $_->name . ': nothing else in the log') foreach $primary, $fed, $bare, $auto;
done_testing();
