# Trap 24: checkpoints and base backups at every point of a commit.
# Takes long.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use SecurefileTest;
use Test::More;

my $node = new_cluster('checkpoint',
	init => { allows_streaming => 1 },
	conf => [ 'restart_after_crash = on', 'fsync = on', 'shared_buffers = 16MB', 'max_connections = 30' ]);
need_faults($node);

my %tables = (logged => '', fslike => 'filesystem_like_logging');
foreach my $t (sort keys %tables)
{
	make_table($node, $t, $tables{$t});
	fill($node, $t, 1, 10, 150_000);
}

# A session that stops at a point of its commit.
sub stopped_at
{
	my ($point, $t, $id) = @_;
	my $session = background($node);
	my $sql = "BEGIN; INSERT INTO $t SELECT i, i, 150000, blob(i, 150000) FROM generate_series($id, $id + 4) i;\n"
	  . "UPDATE $t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 4;\nCOMMIT";
	ok(held($node, $session, $point, $sql), "$t: stopped at $point");
	return $session;
}

my $checkpoint = "SET statement_timeout = '" . patience() . "s'; CHECKPOINT";
my %rows = (logged => 10, fslike => 10);
my $id = 1000;
my $taken = 0;
foreach my $point ('commit_before_flush', 'flush_before_write', 'commit_after_data',
	'commit_after_alloc', 'commit_done')
{
	foreach my $t (sort keys %tables)
	{
		$id += 10;
		my $session = stopped_at($point, $t, $id);
		my ($rc, $out, $err) = $node->psql('postgres', $checkpoint);
		is($rc, 0, "$t: checkpoint while a commit stands at $point");
		my $backup;
		if ($t eq 'logged' && $point =~ /flush_before|after_data|after_alloc/)
		{
			$backup = "at_$point";
			my $copied = eval { $node->backup($backup, backup_options => ['--checkpoint=fast']); 1 };
			ok($copied, "base backup while a commit stands at $point");
			$backup = undef unless $copied;
		}
		disarm($node);
		is($session->query_safe('SELECT 1'), 1, "$t: goes on after $point");
		$session->quit;
		$rows{$t} += 5;
		rows_right($node, $t, $rows{$t}, "$t: $point");
		crash($node);
		$node->start;
		rows_right($node, $t, $rows{$t}, "$t: checkpoint at $point, commit, crash");
		sound($node, $t, "$t: checkpoint at $point, commit, crash");
		restored($backup, $rows{logged} - 5, $rows{logged}) if $backup;
	}
}

# A record of data whose write is not complete: a checkpoint that began after the
# record ends after the write.  Else redo would begin behind the record, and a
# base backup could copy the file before the write.  (What is left to the syncer is logged
# when it is complete: 183_syncer.)
$node->append_conf('postgresql.conf', 'securefile.syncer = off');
$node->reload;
wait_for_sql($node, 'SELECT pid IS NULL FROM securefile_syncer');
{
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_safe('SET securefile.io_method = sync');
	arm($node, 'io_write', 'short', pid => $pid, times => -1);	# the rest is written by who waits
	ok(held($node, $session, 'commit_data_in_flight', 'INSERT INTO logged SELECT 8000, 8000, 150000, blob(8000, 150000)'),
		'data in WAL, not on disk');
	my $redo = "SELECT redo_lsn FROM pg_control_checkpoint()";
	my $before = $node->safe_psql('postgres', $redo);
	my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '2s'; CHECKPOINT");
	like($err, qr/statement timeout/, 'a checkpoint waits for the write');
	is($node->safe_psql('postgres', $redo), $before, 'and has not ended');
	disarm($node);
	is($session->query_safe('SELECT 1'), 1, 'the commit goes on');
	$session->quit;
	$rows{logged}++;
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash($node);
	$node->start;
	rows_right($node, 'logged', $rows{logged}, 'data in flight: checkpoint, crash');
	sound($node, 'logged', 'data in flight: checkpoint, crash');

	# an error in between lets checkpoints go
	arm($node, 'commit_data_in_flight', 'error');
	($session) = background($node);
	$session->query('INSERT INTO logged SELECT 8001, 8001, 150000, blob(8001, 150000)');
	ok(fired($node, 'commit_data_in_flight'), 'an error while data is in flight');
	disarm($node);
	($rc, $out, $err) = $node->psql('postgres', $checkpoint);
	is($rc, 0, 'gives checkpoints free') or diag($err);
	$session->quit;
	sound($node, 'logged', 'an error while data is in flight');
}

# The files of a new segment are made before the record of its first growth, and hold
# up no checkpoint: one that comes in between has both, or neither counts.
{
	my $session = background($node);
	$session->query_safe('CREATE TABLE made (id int PRIMARY KEY, seed int, len int, doc securefile)');
	ok(held($node, $session, 'grow_after_zero', 'INSERT INTO made VALUES (1, 1, 150000, blob(1, 150000))'),
		'the first files of a segment are being made');
	my ($rc, $out, $err) = $node->psql('postgres', $checkpoint);
	is($rc, 0, 'a checkpoint comes while the first files of a segment are made') or diag($err);
	disarm($node);
	is($session->query_safe('SELECT 1'), 1, 'which goes on');
	crash($node);
	eval { $session->quit };
	$node->start;
	rows_right($node, 'made', 1, 'first files, checkpoint, crash');
	fill($node, 'made', 2, 3, 150_000);
	rows_right($node, 'made', 3, 'first files, checkpoint, crash, more values');
	sound($node, 'made', 'first files, checkpoint, crash');
}

# The same, but killed while the commit stands there: checkpoint, then crash.
foreach my $point ('commit_before_flush', 'commit_after_data', 'commit_after_alloc')
{
	foreach my $t (sort keys %tables)
	{
		$id += 10;
		my $session = stopped_at($point, $t, $id);
		$node->safe_psql('postgres', 'CHECKPOINT');
		crash($node);
		eval { $session->quit };
		$node->start;
		rows_right($node, $t, $rows{$t}, "$t: checkpoint at $point, crash");
		sound($node, $t, "$t: checkpoint at $point, crash");
	}
}

# While a resolver or a growth stands, a checkpoint goes on.  The monitor could come before
# the session.
$node->append_conf('postgresql.conf', 'securefile.monitor = off');
$node->reload;
ok(monitor_rests($node), 'no monitor from here on');
foreach my $point ('resolve_before', 'resolve_after', 'grow_after_zero', 'grow_after_record')
{
	my $session = background($node);
	$node->safe_psql('postgres', 'UPDATE logged SET seed = seed + 1, doc = blob(seed + 1, len)');
	my $sql = $point =~ /resolve/ ? "SELECT securefile_maintain('logged', 'doc')"
	  : 'INSERT INTO logged SELECT 9000, 9000, 60000000, blob(9000, 60000000); DELETE FROM logged WHERE id = 9000';
	ok(held($node, $session, $point, $sql), "a session stands at $point");
	my ($rc) = $node->psql('postgres', $checkpoint);
	is($rc, 0, "checkpoint while a session stands at $point");
	disarm($node);
	$session->query_safe('SELECT 1');
	$session->quit;
	rows_right($node, 'logged', $rows{logged}, $point);
	sound($node, 'logged', $point);
}

# A base backup, started on its own: each value it has is whole.
sub restored
{
	my ($backup, @counts) = @_;
	my $copy = PostgreSQL::Test::Cluster->new("copy_$backup");
	$copy->init_from_backup($node, $backup);
	$copy->start;
	my $count = $copy->safe_psql('postgres', 'SELECT count(*) FROM logged');
	ok((grep { $_ == $count } @counts), "$backup: rows of the restored backup") or diag($count);
	rows_right($copy, 'logged', $count, "$backup: restored");
	sound($copy, 'logged', "$backup: restored");
	$copy->stop;
	return;
}

$node->stop;
done_testing();
