# Logical replication sends contents, also of versions and of tables that are gone
# since; a slot that lags keeps them.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(usleep);

my $pub = new_cluster('publisher',
	init => { allows_streaming => 'logical' },
	conf => [ 'wal_level = logical', 'max_replication_slots = 10', 'logical_decoding_work_mem = 64kB' ]);
my $sub = new_cluster('subscriber', init => { allows_streaming => 'logical' });
my $con = $pub->connstr . ' dbname=postgres';
foreach my $node ($pub, $sub)
{
	make_table($node, 't');
	make_table($node, 'f', 'filesystem_like_logging');
	make_table($node, 'whole');
}
$pub->safe_psql('postgres', 'ALTER TABLE whole REPLICA IDENTITY FULL');
fill($pub, 't', 1, 5, 30000);
$pub->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE t, f, whole');
$sub->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$con' PUBLICATION p");
$sub->wait_for_subscription_sync($pub, 's');
rows_right($sub, 't', 5, 'initial');
fill($pub, $_, 11, 20, 30000) for ('t', 'f', 'whole');
fill($pub, 't', 21, 22, 14000000);
$pub->wait_for_catchup('s');
rows_right($sub, 't', 17, 'inserted');
rows_right($sub, 'f', 10, 'inserted');
rows_right($sub, 'whole', 10, 'inserted');
$pub->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 3; UPDATE t SET id = id + 1000 WHERE id = 21; DELETE FROM t WHERE id = 22; UPDATE whole SET id = id + 100; DELETE FROM whole WHERE id = 112');
$pub->safe_psql('postgres', "BEGIN; INSERT INTO t VALUES (500, 500, 50000, blob(500, 50000)); UPDATE t SET seed = 501, doc = blob(501, 50000) WHERE id = 500; UPDATE t SET seed = 502, doc = blob(502, 50000) WHERE id = 500; COMMIT");
$pub->wait_for_catchup('s');
rows_right($sub, 't', 17, 'updated');
rows_right($sub, 'whole', 9, 'updated');

# ---- a slot that lags ----
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s DISABLE');
$pub->safe_psql('postgres', 'UPDATE t SET seed = seed + 7, doc = blob(seed + 7, len); UPDATE t SET seed = seed + 7, doc = blob(seed + 7, len); DELETE FROM t WHERE id = 3');
$pub->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')") for 1..3;
fill($pub, 't', 600, 620, 30000);
isnt(usage($pub, 't', 'doc')->{pending_bytes}, 0, 'old versions stay');
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s ENABLE');
$pub->wait_for_catchup('s');
rows_right($sub, 't', 37, 'lagged');
sound($pub, 't', 'after the slot has caught up');

# ---- storage that goes while the slot lags ----
sub lagging
{
	my ($name, $sql, @want) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s DISABLE');
	$pub->safe_psql('postgres', $_) foreach ref $sql ? @$sql : ($sql);
	crash($pub);
	$pub->start;
	$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s ENABLE');
	$pub->wait_for_catchup('s');
	while (my ($table, $rows) = splice(@want, 0, 2))
	{
		rows_right($sub, $table, $rows, $name);
	}
	return;
}

# Copies that are kept: all, or that of one storage.
sub kept_copies
{
	my $storage = shift // '*';
	return scalar(grep { /kept$/ } glob($pub->data_dir . "/pg_securefile/*/*/$storage/*"));
}

my $insert = 'INSERT INTO %s SELECT i, i, %d, blob(i, %d) FROM generate_series(%d, %d) i';
my $put = sub { my ($t, $len, $from, $to) = @_; return sprintf($insert, $t, $len, $len, $from, $to) };
lagging('TRUNCATE', [ $put->('t', 30000, 700, 703), $put->('t', 14000000, 704, 704), 'TRUNCATE t', $put->('t', 30000, 710, 713) ], t => 4);
lagging('TRUNCATE of another table before', [ $put->('t', 30000, 714, 716), 'TRUNCATE whole', $put->('t', 30000, 717, 718) ], t => 9, whole => 0);
lagging('truncated, rolled back', [ $put->('t', 30000, 721, 722), 'BEGIN; TRUNCATE t; ROLLBACK', "BEGIN; SAVEPOINT a; TRUNCATE t; ROLLBACK TO a; COMMIT", $put->('t', 30000, 723, 724) ], t => 13);
lagging('TRUNCATE, prepared', [ $put->('t', 30000, 726, 727), "BEGIN; TRUNCATE t; " . $put->('t', 30000, 728, 729) . "; PREPARE TRANSACTION 'p'",
	"COMMIT PREPARED 'p'", "SELECT securefile_maintain('t', 'doc')" ], t => 2);
# a copy whose transaction was rolled back is there until the monitor comes, and does not count
$pub->append_conf('postgresql.conf', 'securefile.monitor = off');
$pub->reload;
monitor_rests($pub) or die 'the monitor does not go';
lagging('TRUNCATE, prepared and rolled back', [ $put->('t', 30000, 751, 752), "BEGIN; TRUNCATE t; PREPARE TRANSACTION 'p'", "ROLLBACK PREPARED 'p'",
	$put->('t', 14000000, 753, 754), $put->('t', 30000, 755, 755) ], t => 7);
is(kept_copies($pub->safe_psql('postgres', q{SELECT relfilenode FROM pg_class WHERE relname = 'pg_securefile_' || 't'::regclass::oid || '_4'})), 1,
	'TRUNCATE, prepared and rolled back: the copy is still there');
$pub->append_conf('postgresql.conf', 'securefile.monitor = on');
$pub->reload;
lagging('filled and truncated in one transaction',
	'BEGIN; ' . $put->('t', 30000, 731, 733) . '; TRUNCATE t; ' . $put->('t', 30000, 734, 736) . '; COMMIT', t => 3);
lagging('logging mode swapped', [ $put->('t', 30000, 741, 742), "SELECT securefile_rewrite('t', 'doc', 'filesystem_like_logging')", $put->('t', 30000, 743, 744) ], t => 7);
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s DISABLE');
$pub->safe_psql('postgres', "TRUNCATE whole; SELECT securefile_maintain('t', 'doc')");
cmp_ok(kept_copies(), '>', 0, 'storage is kept');
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s ENABLE');
lagging('DROP TABLE', [ $put->('f', 30000, 800, 803), 'DROP TABLE f', $put->('t', 30000, 810, 813) ], t => 11, f => 14);
lagging('a table of one transaction',
	[ 'BEGIN; CREATE TABLE brief (id int PRIMARY KEY, seed int, len int, doc securefile); ' . $put->('brief', 30000, 1, 3) . '; DROP TABLE brief; COMMIT',
		'ALTER TABLE t ALTER doc TYPE bytea', $put->('t', 30000, 820, 821) ],
	t => 13);

# who drops storage may wait for a subscriber, which must not wait for its lock
$pub->safe_psql('postgres', 'CREATE TABLE keep AS SELECT id, seed, len, doc FROM t; DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile); ALTER PUBLICATION p ADD TABLE t');
$sub->safe_psql('postgres', 'TRUNCATE t; ALTER SUBSCRIPTION s REFRESH PUBLICATION');
$sub->wait_for_subscription_sync($pub, 's');
$pub->append_conf('postgresql.conf', "synchronous_standby_names = 's'");
$pub->reload;
my ($rc, $out, $err) = $pub->psql('postgres', "SET statement_timeout = '" . patience() . "s'; " . join('; ', map { $put->('t', 300000, $_ * 10, $_ * 10 + 5) . '; TRUNCATE t' } 1 .. 10) . '; ' . $put->('t', 30000, 900, 903));
is("$rc$err", '0', 'TRUNCATE with a synchronous subscriber');
$pub->wait_for_catchup('s');
rows_right($sub, 't', 4, 'TRUNCATE with a synchronous subscriber');
$pub->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$pub->reload;

# ---- transactions that are streamed before they end ----
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s SET (streaming = on)');
my $offset = -s $pub->logfile;
foreach my $end ('COMMIT', 'ROLLBACK', 'ROLLBACK TO a; COMMIT')
{
	my $session = background($pub);
	my $count = $sub->safe_psql('postgres', 'SELECT count(*) FROM t');
	$session->query_safe('BEGIN; ' . $put->('t', 30000, 2001, 2020));
	$session->query_safe('SAVEPOINT a; ' . $put->('t', 300000, 2021, 2040));
	$session->query_safe($put->('t', 10, 2041, 3040));	# enough for the memory of the decoder
	usleep(1_500_000);		# the walsender stands at what is not on disk
	$session->query_safe($end);
	$session->quit;
	$pub->wait_for_catchup('s');
	rows_right($sub, 't', $count + ($end eq 'COMMIT' ? 1040 : $end eq 'ROLLBACK' ? 0 : 20), "streaming, $end");
	$pub->safe_psql('postgres', 'DELETE FROM t WHERE id > 2000');
	$pub->wait_for_catchup('s');
}
ok(wait_for_sql($pub, 'SELECT sum(stream_count) > 0 FROM pg_stat_replication_slots'), 'there was streaming');
unlike(slurp_file($pub->logfile, $offset), qr/damaged|ERROR/, 'and no error');

# and goes when no slot needs it any more
$sub->safe_psql('postgres', 'DROP SUBSCRIPTION s');
is($pub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), 0, 'no slot');
ok($pub->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_ls_dir('pg_securefile', true, false) d (a),"
		  . " LATERAL pg_ls_dir('pg_securefile/' || a, true, false) e (b), LATERAL pg_ls_dir('pg_securefile/' || a || '/' || b, true, false) g (c),"
		  . " LATERAL pg_ls_dir('pg_securefile/' || a || '/' || b || '/' || c, true, false) h (f) WHERE a ~ '^[0-9]+\$' AND f = 'kept')"),
	'the monitor removes kept storage with the last slot');
my $live = q{SELECT count(*) FROM securefile_columns WHERE file_bytes > 0};
wait_until(sub { data_files($pub) == $pub->safe_psql('postgres', $live) });
is(scalar(data_files($pub)), $pub->safe_psql('postgres', $live), 'all that is left is of live tables');

# storage stays for a slot whose horizon is the very transaction that dropped it
$pub->safe_psql('postgres', q{
	CREATE TABLE last (id int PRIMARY KEY, seed int, len int, doc securefile);
	CREATE PUBLICATION last FOR TABLE last;
	SELECT pg_create_logical_replication_slot('last', 'pgoutput')});
my $dropper = background($pub);
my $dropped_by = $dropper->query_safe('BEGIN; SELECT pg_current_xact_id()');
$pub->safe_psql('postgres', 'CHECKPOINT');		# tells the slot what is running
my $lsn = $pub->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
$pub->safe_psql('postgres', $put->('last', 30000, 1, 1));
$dropper->query_safe('DROP TABLE last; COMMIT');
$dropper->quit;
$pub->safe_psql('postgres', "SELECT pg_replication_slot_advance('last', '$lsn')");
is($pub->safe_psql('postgres', 'SELECT catalog_xmin FROM pg_replication_slots'), $dropped_by, 'a slot whose horizon is the one that dropped');
$pub->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')");
is($pub->safe_psql('postgres', q{
	SELECT count(*) FROM pg_logical_slot_peek_binary_changes('last', NULL, NULL, 'proto_version', '1', 'publication_names', 'last')
	WHERE position(convert_to(encode(blob(1, 30000), 'hex'), 'UTF8') IN data) > 0}), 1, 'and it still sends what was there');
$pub->safe_psql('postgres', q{SELECT pg_drop_replication_slot('last'); SELECT securefile_maintain('t', 'doc')});
ok(wait_until(sub { kept_copies() == 0 }), 'then it goes');

# values that a publication could not send are refused, and only those
$pub->safe_psql('postgres', q{
	CREATE TABLE many (id int PRIMARY KEY, doc securefile, other securefile) PARTITION BY RANGE (id);
	CREATE TABLE many_1 PARTITION OF many DEFAULT;
	INSERT INTO many VALUES (1, 'x', 'x');
	CREATE SCHEMA s;
	CREATE TABLE s.t (id int PRIMARY KEY, doc securefile);
	INSERT INTO s.t VALUES (1, 'x')});
my $long = 'securefile_truncate(doc, 1100000000)';
foreach my $case (
	[ 'many', 'FOR ALL TABLES', 1 ],
	[ 'many', 'FOR TABLE many', 1 ],
	[ 'many', 'FOR TABLE many_1', 1 ],
	[ 'many', 'FOR TABLE many (id, other) WITH (publish_via_partition_root)', 0 ],
	[ 'many', 'FOR TABLE many (id, doc) WITH (publish_via_partition_root)', 1 ],
	[ 'many', 'FOR TABLES IN SCHEMA s', 0 ],
	[ 's.t', 'FOR TABLES IN SCHEMA s', 1 ])
{
	my ($table, $for, $refused) = @$case;

	$pub->safe_psql('postgres', "CREATE PUBLICATION long $for");
	if ($refused)
	{
		fails_with($pub, "UPDATE $table SET doc = $long", 54000, qr/cannot be published/, "$table, $for: refused");
	}
	else
	{
		$pub->safe_psql('postgres', "UPDATE $table SET doc = $long");
		is($pub->safe_psql('postgres', "SELECT length(doc) FROM $table"), 1100000000, "$table, $for: stored");
	}
	$pub->safe_psql('postgres', "DROP PUBLICATION long; UPDATE $table SET doc = securefile_truncate(doc, 1000000)");
}
$sub->stop;
$pub->stop;
done_testing();
