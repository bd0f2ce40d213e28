# What a retention keeps, on other servers and after commands that put storage elsewhere.  A standby
# lists and reads it, a promoted one goes on with it, recovery to a point in time has what was kept
# then, and so has a base backup that was made while values came to be kept.  A logical slot that
# lags has removed values wait, and decodes them.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $len = 30_000;
my $primary = new_cluster('primary', init => { allows_streaming => 1 },
	conf => [ 'wal_level = logical', 'max_replication_slots = 4', 'securefile.monitor = off', 'wal_keep_size = 1GB', 'checkpoint_timeout = 1h',
		'allow_in_place_tablespaces = on' ]);
need_faults($primary);
my $from = $primary->connstr();

# said(doc): the seed of the blob that a value is, "wrong", or the SQLSTATE of reading it.
sql(q{CREATE TABLE heads AS SELECT i AS seed, convert_to(md5(i || ':1'), 'SQL_ASCII') AS head FROM generate_series(1, 2000) i; CREATE INDEX ON heads (head)},
	q{CREATE FUNCTION said(doc securefile) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		content bytea;
		seed int;
	BEGIN
		content := doc::bytea;
		seed := (SELECT h.seed FROM heads h WHERE h.head = substring(content FOR 32));
		RETURN CASE WHEN content = blob(seed, length(content)) AND length(doc) = length(content) THEN seed::text ELSE 'wrong' END;
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLSTATE;
	END $$},
	q{SET allow_in_place_tablespaces = on}, q{CREATE TABLESPACE aside LOCATION ''});
make_table($primary, 'l', q{'retention 7 days', 'max_size 96 MB'});
make_table($primary, 'f', q{filesystem_like_logging, 'retention 7 days', 'max_size 96 MB'});
fill($primary, 'l', 1, 20, $len);
fill($primary, 'f', 1, 5, $len);
sql('CHECKPOINT');
$primary->backup('base');
my $standby = new_standby('standby', $primary, 'base', q{max_standby_streaming_delay = '100ms'});

# What is listed: key of the row, kind, what the value says.
my $list = q{SELECT string_agg(format('%%s %%s %%s', row_key ->> 'id', kind, said(document)), ', ' ORDER BY removed_at, xid, row_key) FROM securefile_removed('%s', 'doc')};

sub listed { return $_[0]->safe_psql('postgres', sprintf($list, $_[1])); }

# Have what was removed kept; how many bytes of a table are kept, and how many are pending besides.
sub keep
{
	my ($node, $table) = @_;
	$node->safe_psql('postgres', "SELECT FROM securefile_maintain('$table', 'doc')");
	return split /\|/, $node->safe_psql('postgres', "SELECT retained_bytes, pending_bytes - retained_bytes FROM securefile_usage('$table', 'doc')");
}

# One test: the check finds nothing.
sub silent
{
	my ($node, $table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', "SELECT * FROM securefile_check('$table', 'doc') LIMIT 5"), '', "$name: check of $table is silent");
}

sub starts { $_[0]->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery'; return; }

# ---- a standby lists and reads ----

my %points = (before => $primary->lsn('insert'));
sql('DELETE FROM l WHERE id = 1', "UPDATE l SET seed = 102, doc = blob(102, len) WHERE id = 2");
fill($primary, 'f', 11, 12, $len);
sql('DELETE FROM f WHERE id IN (1, 11)');
my ($kept, $waits) = keep($primary, 'l');
ok($kept >= 2 * $len && $waits == 0, "values are kept: $kept bytes, and $waits wait");
keep($primary, 'f');
my $want = '1 deleted 1, 2 replaced 2';
$points{after} = $primary->lsn('insert');
is(listed($primary, 'l'), $want, 'the primary lists them');
catch_up($primary, $standby);
is(listed($standby, 'l'), $want, 'and so does a standby');
is($standby->safe_psql('postgres', q{SELECT retained_bytes FROM securefile_usage('l', 'doc')}), $kept, 'which says the same of the space');
silent($standby, 'l', 'standby');
fails_with($standby, q{SELECT securefile_purge('l', 'doc')}, '25006', 'recovery', 'a standby purges nothing');

# data that is in no WAL is not there, as that of rows
is(listed($standby, 'f'), '1 deleted 1, 11 deleted 58P01', 'what was left behind is told');
like($standby->safe_psql('postgres', "SELECT fetched_values FROM securefile_fetch_left_behind('$from')"), qr/^1$/, 'a row is fetched');
is(listed($standby, 'f'), '1 deleted 1, 11 deleted 58P01', 'what is in no row is not fetched');

# ---- what expires on the primary ----

my ($reader, $lister) = map { background($standby) } 1 .. 2;
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE c CURSOR FOR SELECT id, said(doc) FROM l WHERE id > 2 ORDER BY id; FETCH 1 FROM c');
sql('DELETE FROM l WHERE id IN (3, 4, 5)');
keep($primary, 'l');
catch_up($primary, $standby);
is($reader->query_safe('FETCH 1 FROM c'), '4|4', 'that space is kept cancels nobody on the standby');
$lister->query_safe(q{BEGIN; DECLARE c CURSOR FOR SELECT format('%s %s', row_key ->> 'id', said(document)) FROM securefile_removed('l', 'doc')});
is($lister->query_safe('FETCH 1 FROM c'), '1 1', 'somebody goes through the list');
sql(q{SELECT securefile_fault('time_passes', 'skip', times => 1000)}, q{SELECT FROM securefile_maintain('l', 'doc')}, q{SELECT securefile_fault('time_passes', 'none')});
fill($primary, 'l', 51, 70, $len);
catch_up($primary, $standby);
my $answer = eval { $reader->query('FETCH ALL FROM c') } || '';
unlike($answer, qr/wrong/, 'a reader of rows gets no other bytes');
like($reader->{stderr}, qr/conflict with recovery/, 'and is cancelled, as it needs space that is free now');
eval { $reader->quit };
$answer = $lister->query('FETCH ALL FROM c');
like($answer, qr/^(\d+) (?:\1|42704)(?:\n(\d+) (?:\g{-1}|42704))*$/, 'who goes through the list reads a value as it was, or that it is gone');
like($answer, qr/42704/, 'some are gone');
$lister->quit;
is(listed($_, 'l'), '', $_->name . ' lists nothing any more') foreach $primary, $standby;
is((keep($primary, 'l'))[0], 0, 'and nothing is kept');

# ---- logical slots ----

sql(q{SELECT pg_create_logical_replication_slot('lags', 'test_decoding')});
fill($primary, 'l', 71, 72, $len);
sql('UPDATE l SET seed = 171, doc = blob(171, len) WHERE id = 71', 'DELETE FROM l WHERE id = 72');
($kept, $waits) = keep($primary, 'l');
ok($kept == 0 && $waits >= 2 * $len, 'what a slot may have to decode waits');
$want = '71 replaced 71, 72 deleted 72';
is(listed($primary, 'l'), $want, 'and is listed');
# the oldest transaction of a slot moves on with records of checkpoints
my $decoded = sql(q{SELECT data FROM pg_logical_slot_peek_changes('lags', NULL, NULL)});
ok(index($decoded, sql("SELECT encode(blob($_, $len), 'hex')")) >= 0, "the slot sends $_") foreach 71, 171, 72;
ok(wait_until(sub {
	sql('CHECKPOINT', q{SELECT count(*) FROM pg_logical_slot_get_changes('lags', NULL, NULL)});
	($kept, $waits) = keep($primary, 'l');
	return $waits == 0;
}), 'what the slot has passed is kept');
cmp_ok($kept, '>=', 2 * $len, 'all of it');
is(listed($primary, 'l'), $want, 'and is listed still');
make_table($primary, 'truncated', q{'retention 7 days', 'max_size 96 MB'});
make_table($primary, 'dropped', q{'retention 7 days', 'max_size 96 MB'});
fill($primary, $_, 81, 82, $len) foreach 'truncated', 'dropped';
sql(map { "UPDATE $_ SET seed = seed + 100, doc = blob(seed + 100, len)" } 'truncated', 'dropped');
keep($primary, 'truncated');
is(listed($primary, 'truncated'), '81 replaced 81, 82 replaced 82', 'a table keeps values');
sql('BEGIN', 'TRUNCATE truncated', 'ROLLBACK');
is(listed($primary, 'truncated'), '81 replaced 81, 82 replaced 82', 'a TRUNCATE that is rolled back takes nothing');
sql('TRUNCATE truncated', 'DROP TABLE dropped');
is(listed($primary, 'truncated'), '', 'TRUNCATE takes all');
silent($primary, 'truncated', 'truncated');
$decoded = sql(q{SELECT data FROM pg_logical_slot_get_changes('lags', NULL, NULL)}, q{SELECT pg_drop_replication_slot('lags')});
foreach my $table ('truncated', 'dropped')
{
	my @missing = grep { my $hex = sql("SELECT encode(blob($_, $len), 'hex')"); $decoded !~ /table public\.$table: .*$hex/ } 81, 82, 181, 182;
	is("@missing", '', "the slot sends values of a table that was $table");
}

# ---- storage that is put elsewhere, and tables that are made anew ----

sub stays
{
	my ($name, @statements) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql(@statements);
	is(listed($primary, 'l'), $want, "$name: what was kept is listed and right");
	return silent($primary, 'l', $name);
}
stays('securefile_set_tablespace', q{SELECT securefile_set_tablespace('l', 'doc', 'aside')});
stays('SET TABLESPACE', q{ALTER TABLE l SET TABLESPACE aside}, q{ALTER TABLE l SET TABLESPACE pg_default});
stays('VACUUM FULL', 'VACUUM FULL l');
stays('CLUSTER', 'CLUSTER l USING l_pkey');
stays('ALTER TABLE', 'ALTER TABLE l ALTER seed TYPE bigint', 'ALTER TABLE l ALTER seed TYPE int');
stays('securefile_rewrite_online', q{CALL securefile_rewrite_online('l', 'doc')});
catch_up($primary, $standby);
is(listed($standby, 'l'), $want, 'the standby lists it, too');
silent($standby, 'l', 'standby, elsewhere');
sql(q{CREATE TABLE rewritten (LIKE l INCLUDING ALL)}, "INSERT INTO rewritten SELECT i, i, $len, blob(i, $len) FROM generate_series(1, 3) i", 'DELETE FROM rewritten WHERE id = 1');
is(listed($primary, 'rewritten'), '1 deleted 1', 'another table keeps a value');
sql(q{SELECT securefile_rewrite('rewritten', 'doc', 'filesystem_like_logging')});
is(listed($primary, 'rewritten'), '', 'new storage of its column has nothing of it');
silent($primary, 'rewritten', 'rewritten');

# ---- a removal that is prepared ----

sql('BEGIN', 'DELETE FROM l WHERE id = 6', q{PREPARE TRANSACTION 'p'});
my $prepared = sql(q{SELECT transaction FROM pg_prepared_xacts});
sql('DELETE FROM l WHERE id = 7');
is(sql(q{SELECT oldest_unresolved FROM securefile_maintain('l', 'doc')}), $prepared, 'the commit log is needed for a removal that is prepared');
$want .= ', 7 deleted 7';
is(listed($primary, 'l'), $want, 'it is not listed');
catch_up($primary, $standby);
is(listed($standby, 'l'), $want, 'nor is it on the standby');

# ---- a base backup while values come to be kept ----

my $writer = background($primary);
my $pid = $writer->query_safe('SELECT pg_backend_pid()');
$writer->{stdin} .= "UPDATE l SET seed = $_, doc = blob($_, len) WHERE id = 8 + $_ % 5; SELECT FROM securefile_maintain('l', 'doc');\n" foreach 1001 .. 1600;
$writer->{run}->pump_nb;
ok(wait_for_sql($primary, 'SELECT max(seed) > 1012 FROM l'), 'values are replaced, and kept');
$primary->backup('meanwhile', backup_options => ['--max-rate=60M']);
sql("SELECT pg_terminate_backend($pid)");
eval { $writer->quit };
ok(session_is_gone($primary, $pid), 'nobody replaces any more');
my $all = listed($primary, 'l');
my $node = PostgreSQL::Test::Cluster->new('meanwhile');
$node->init_from_backup($primary, 'meanwhile', standby => 0);
$node->start;
starts($node);
my $some = listed($node, 'l');
note('figures: ' . ($some =~ tr/,//) . ' of ' . ($all =~ tr/,//));
like($some, qr/^\Q$want\E, .* replaced 100[6-9]/, 'a base backup has what was kept before and meanwhile');
is($some, substr($all, 0, length $some), 'all as it was at the end of the backup');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p'});
is(listed($node, 'l'), $some, 'a removal that was prepared, and is rolled back there, is not listed');
silent($node, 'l', 'base backup');
$node->stop;

# ---- promotion ----

catch_up($primary, $standby);
$standby->promote;
starts($standby);
is(listed($standby, 'l'), $all, 'a promoted standby lists the same');
is(listed($standby, 'f'), '1 deleted 1, 11 deleted 58P01', 'and tells what was left behind');
$standby->safe_psql('postgres', q{COMMIT PREPARED 'p'; DELETE FROM l WHERE id = 15});
keep($standby, 'l');
($want = "$all, 15 deleted 15") =~ s/(?=, 7 deleted)/, 6 deleted 6/;
is(listed($standby, 'l'), $want, 'promoted: a removal that was prepared on the primary comes to be listed, and new ones');
silent($standby, 'l', 'promoted');
$standby->safe_psql('postgres', q{SELECT securefile_fault('time_passes', 'skip', times => 1000); SELECT FROM securefile_maintain('l', 'doc'); SELECT securefile_fault('time_passes', 'none')});
is(listed($standby, 'l'), '', 'promoted: all expires');
sound($standby, 'l', 'promoted, expired');
# a purge by a clock that is ahead, as that of another server may have been
$standby->safe_psql('postgres', q{SELECT securefile_fault('time_passes', 'skip', times => 1000); SELECT securefile_purge('l', 'doc'); SELECT securefile_fault('time_passes', 'none')});
$standby->safe_psql('postgres', 'DELETE FROM l WHERE id = 16; DELETE FROM f WHERE id = 12');
is(listed($standby, 'l'), '16 deleted 16', 'promoted: what is removed after it is listed');
keep($standby, 'l');
cmp_ok((keep($standby, 'l'))[0], '>=', $len, 'and is kept');
is($standby->safe_psql('postgres', qq{SELECT securefile_purge('l', 'doc') >= $len, securefile_purge('f', 'doc') >= 2 * $len}), 't|t', 'promoted: a purge frees space');
is(listed($standby, $_), '', "promoted: and leaves nothing in $_") foreach 'l', 'f';
sound($standby, $_, 'promoted, purged') foreach 'l', 'f';
$standby->stop;

# ---- recovery to points in time ----

my $purge = background($primary);
ok(held($primary, $purge, 'purge_begun', q{SELECT securefile_purge('l', 'doc') > 0}), 'a purge has begun');
$points{purge} = $primary->lsn('insert');
is(resume($primary, $purge, 'purge_begun'), 't', 'and ends');
$purge->quit;
is(listed($primary, 'l'), '', 'a purge leaves nothing');
sql('SELECT pg_switch_wal()');
$primary->stop;

$node = PostgreSQL::Test::Cluster->new('pitr');
$node->init_from_backup($primary, 'base', standby => 0, has_restoring => 1);
$node->append_conf('postgresql.conf', $_) foreach "restore_command = 'cp \"" . $primary->data_dir . "/pg_wal/%f\" \"%p\"'", 'recovery_target_inclusive = off', 'recovery_target_action = pause';

# Recover on to a point, and stay there.
sub recover_to
{
	my ($point) = @_;
	$node->stop if defined $node->{_pid};
	$node->append_conf('postgresql.conf', "recovery_target_lsn = '$points{$point}'");
	$node->start;
	ok(wait_for_sql($node, q{SELECT pg_get_wal_replay_pause_state() = 'paused'}), "recovery is at a point: $point");
	return;
}
recover_to('before');
is(listed($node, 'l'), '', 'before a removal nothing is listed');
rows_right($node, 'l', 20, 'before a removal');
recover_to('after');
is(listed($node, 'l'), '1 deleted 1, 2 replaced 2', 'after it, all is');
silent($node, 'l', 'after a removal');
recover_to('purge');
is(listed($node, 'l'), '', 'while a purge goes on nothing is listed');
silent($node, 'l', 'in a purge');
$node->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
starts($node);
is((keep($node, 'l'))[0], 0, 'and the server goes on with the purge');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p'});
sound($node, 'l', 'purged');
$node->stop;
unlike(slurp_file($_->logfile), qr/PANIC|TRAP/, $_->name . ': nothing else in the log') foreach $primary, $standby, $node;
done_testing();
