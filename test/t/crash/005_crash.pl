# Traps 8, 20, 22 and 23, rules 1, 2, 3 and 5: crashes after a commit record, and during
# an abort, a PREPARE, a truncation, a CREATE and a DROP, with the state that each must
# leave.  104_crash_points has a crash at every point.
# Takes long.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('crash', conf => [ 'restart_after_crash = on', 'fsync = on', 'securefile.monitor = off' ]);
need_faults($node);

my %tables = (logged => '', fslike => 'filesystem_like_logging');
foreach my $t (sort keys %tables)
{
	make_table($node, $t, $tables{$t});
	fill($node, $t, 1, 10, 150_000);
}

# Run SQL that dies at a point; then the rows must be as before or as after.
sub died
{
	my ($point, $t, $sql, $before, $after, %params) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $name = "$point, $t" . ($params{name} ? ", $params{name}" : '');
	ok(dies_at($node, $point, 'kill', $sql), "$name: the session died");
	my $count = $node->safe_psql('postgres', "SELECT count(*) FROM $t");
	ok($count == $before || (defined $after && $count == $after),
		"$name: rows as before" . (defined $after ? ' or after' : ''))
	  or diag("$count rows, expected $before or " . ($after || $before));
	is($count, $after, "$name: committed rows are there") if $params{must_be_after};
	rows_right($node, $t, $count, $name);
	sound($node, $t, $name);
	return $count;
}

# ---- ends of transactions ----
foreach my $t (sort keys %tables)
{
	my $rows = 10;
	my $id = 1000;
	# after the commit record the transaction is there
	$id += 10;
	$rows = died('commit_done', $t,
		"BEGIN; INSERT INTO $t SELECT i, i, 150000, blob(i, 150000) FROM generate_series($id, $id + 4) i;"
		  . " UPDATE $t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 5; COMMIT",
		$rows, $rows + 5, must_be_after => 1);

	# an abort that dies half way, with much written
	$rows = died('abort_start', $t,
		"BEGIN; INSERT INTO $t SELECT i, i, 3000000, blob(i, 3000000) FROM generate_series(5000, 5004) i; ROLLBACK",
		$rows);

	# PREPARE TRANSACTION is a commit, up to the record
	died('commit_after_alloc', $t,
		"BEGIN; INSERT INTO $t VALUES ($id + 7, 1, 150000, blob(1, 150000)); PREPARE TRANSACTION 'x'",
		$rows, undef, name => 'PREPARE');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'),
		0, "$t: no prepared transaction after a crash before it");
}

# ---- truncation of a free tail, growth over it, unlogged data there: trap 23 ----
foreach my $t (sort keys %tables)
{
	my $rows = $node->safe_psql('postgres', "SELECT count(*) FROM $t");
	my $grown;
	foreach my $kill (0, 1)
	{
		fill($node, $t, 9001, 9016, 4_000_000);
		$grown = usage($node, $t, 'doc')->{file_bytes};
		$node->safe_psql('postgres', "DELETE FROM $t WHERE id > 9000");
		settle($node, $t, 'doc') unless $kill;
		if ($kill)
		{
			ok( dies_at($node, 'truncate_before_file', 'kill',
					join('', "SELECT securefile_maintain('$t', 'doc');\n" x 5)),
				"$t: died amid a truncation");
		}
		$node->poll_query_until('postgres',
			"SELECT m.entries_seen >= 0 AND u.file_bytes < $grown - 40000000"
			  . " FROM securefile_maintain('$t', 'doc') m, securefile_usage('$t', 'doc') u");
		cmp_ok(usage($node, $t, 'doc')->{file_bytes}, '<', $grown - 40_000_000, "$t: tail truncated");
		my $on_disk = data_bytes($node);
		fill($node, $t, 9001, 9014, 4_000_000);
		$node->safe_psql('postgres', 'INSERT INTO logged VALUES (9999, 1, 1, blob(1, 1)); DELETE FROM logged WHERE id = 9999');
		crash($node);
		$node->start;
		rows_right($node, $t, $rows + 14, "$t: truncated, grown, written, crashed");
		sound($node, $t, "$t: truncated, grown, written, crashed");
		$node->safe_psql('postgres', "DELETE FROM $t WHERE id > 9000");
		settle($node, $t, 'doc');
	}
}

# ---- rule 2, trap 20: a delete that was not durable must not cost the bytes ----
$node->append_conf('postgresql.conf',
	"wal_writer_delay = '10s'\nwal_writer_flush_after = '1GB'\nwal_buffers = '16MB'\ncheckpoint_timeout = '30min'");
$node->restart;
foreach my $round (1 .. 2)
{
	foreach my $t (sort keys %tables)
	{
		$node->safe_psql('postgres', "DELETE FROM $t WHERE id > 98");
		settle($node, $t, 'doc');

		# row 99 lies behind the others, so that there is no tail to cut
		$node->safe_psql('postgres',
			"INSERT INTO $t SELECT i, i, 500000, blob(i, 500000) FROM unnest('{101,102,103,104,105,106,107,108,99}'::int[]) i");
		$node->safe_psql('postgres', 'CHECKPOINT');

		# nobody else may write WAL: what is written survives a killed process
		stop_walwriter($node);
		$node->safe_psql('postgres', <<"SQL");
			SET synchronous_commit = off;
			DELETE FROM $t WHERE id > 100;
			INSERT INTO $t SELECT i, i, 500000, blob(i, 500000) FROM generate_series(201, 208) i;
SQL
		crash($node);
		$node->start;
		my $count = $node->safe_psql('postgres', "SELECT count(*) FROM $t WHERE id > 100");
		ok($count == 8 || $count == 0, "asynchronous delete and reuse, $t: $count rows");
		rows_right($node, $t, $node->safe_psql('postgres', "SELECT count(*) FROM $t"),
			"asynchronous delete and reuse, $t, round $round");
		sound($node, $t, "asynchronous delete and reuse, $t, round $round");
	}
}

# ---- trap 22: a savepoint's first write in a transaction without an xid ----
foreach my $t (sort keys %tables)
{
	my $rows = $node->safe_psql('postgres', "SELECT count(*) FROM $t");
	my $session = background($node);
	$session->query_safe('BEGIN; SAVEPOINT s');
	$session->query_safe("INSERT INTO $t SELECT i, i, 5000000, blob(i, 5000000) FROM generate_series(301, 304) i");
	$node->safe_psql('postgres', "SET synchronous_commit = on; CREATE TABLE IF NOT EXISTS flusher (); DROP TABLE flusher");
	crash($node);
	eval { $session->quit };
	$node->start;
	# the numbers may be issued again, to transactions that commit
	$node->safe_psql('postgres', "UPDATE $t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id = $_") for (1 .. 6);
	rows_right($node, $t, $rows, "$t: savepoint's first write, crash");
	sound($node, $t, "$t: savepoint's first write, crash");
}

# ---- CREATE and DROP ----
$node->append_conf('postgresql.conf', "securefile.monitor = on\nsecurefile.monitor_naptime = '1s'\nwal_writer_delay = '200ms'");
$node->restart;
my $files = scalar(data_files($node));

# Number of data files, once it has come down to what it should be.
sub files_left
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until(sub { data_files($node) == $files });
	return is(scalar(data_files($node)), $files, "$name: no file left behind");
}

my $session = background($node);
$session->query_safe('BEGIN; CREATE TABLE unborn (id int, doc securefile); INSERT INTO unborn VALUES (1, blob(1, 5000000))');
cmp_ok(scalar(data_files($node)), '>', $files, 'uncommitted CREATE has files');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
eval { $session->quit };
$node->start;
files_left('crash in an uncommitted CREATE');

my $create = 'CREATE TABLE unborn (id int, doc securefile)';
foreach my $point ('create_after_record', 'grow_before_files', 'grow_after_zero')
{
	my $first = "BEGIN; $create; INSERT INTO unborn VALUES (1, blob(1, 10000)); COMMIT";
	ok(dies_at($node, $point, 'kill', $first), "died in a CREATE and its first value: $point");
	files_left("crash at $point of a new segment");
	arm($node, $point, 'error');
	$node->psql('postgres', $first);
	ok(fired($node, $point), "error at $point of a new segment");
	files_left("error at $point of a new segment");
	disarm($node);
}

make_table($node, 'doomed');
fill($node, 'doomed', 1, 3, 2_000_000);
ok(dies_at($node, 'drop_before_unlink', 'kill', 'DROP TABLE doomed'), 'died in a DROP');
is($node->safe_psql('postgres', "SELECT to_regclass('doomed') IS NULL"), 't', 'committed DROP is done');
files_left('crash between commit of a DROP and unlink');

make_table($node, 'cut');
fill($node, 'cut', 1, 3, 2_000_000);
$files = scalar(data_files($node)) - 1;
ok(dies_at($node, 'drop_before_unlink', 'kill', 'TRUNCATE cut'), 'died in a TRUNCATE');
is($node->safe_psql('postgres', 'SELECT count(*) FROM cut'), 0, 'committed TRUNCATE is done');
files_left('crash between commit of a TRUNCATE and unlink');
fill($node, 'cut', 1, 3, 2_000_000);
rows_right($node, 'cut', 3, 'table truncated in a crash works');
sound($node, 'cut', 'table truncated in a crash works');

# rows and table of one transaction, minimal WAL, crash
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0");
$node->restart;
foreach my $options ('', 'filesystem_like_logging')
{
	my $t = $options ? 'minimal_fs' : 'minimal';
	my $type = $options ? "securefile($options)" : 'securefile';
	$node->safe_psql('postgres',
		"BEGIN; CREATE TABLE $t (id int PRIMARY KEY, seed int, len int, doc $type);"
		  . " INSERT INTO $t SELECT i, i, 200000 * i, blob(i, 200000 * i) FROM generate_series(1, 8) i; COMMIT;"
		  . " UPDATE $t SET seed = 9, doc = blob(9, len) WHERE id = 3;"
		  . " BEGIN; TRUNCATE cut; INSERT INTO cut SELECT id, seed, len, doc FROM $t; COMMIT");
	crash($node);
	$node->start;
	rows_right($node, $t, 8, "$t: wal_level = minimal, crash");
	sound($node, $t, "$t: wal_level = minimal, crash");
	rows_right($node, 'cut', 8, "$t: TRUNCATE and refill, wal_level = minimal, crash");
	sound($node, 'cut', "$t: TRUNCATE and refill, wal_level = minimal, crash");
}

# a crash right after recovery, and recovery that is itself interrupted
fill($node, 'minimal', 100, 110, 300_000);
$node->safe_psql('postgres', 'DELETE FROM minimal WHERE id % 2 = 0');
crash($node);
$node->start;
crash($node);
$node->start;
rows_right($node, 'minimal', $node->safe_psql('postgres', 'SELECT count(*) FROM minimal'), 'two crashes');
sound($node, 'minimal', 'two crashes');

$node->stop;
done_testing();
