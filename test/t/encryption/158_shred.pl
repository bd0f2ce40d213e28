# securefile_shred(): the data keys of a column are destroyed when the transaction commits, for
# all snapshots, here and on standbys, and their bytes are overwritten; a rollback, to a
# savepoint also, and a crash before the commit leave them as they were.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages qw(segment_of);
use SecurefileTest;
use Test::More;

use constant { NAME => 16, KEY => 80, KEY_BYTES => 32 };

my $node = new_cluster('shred', init => { allows_streaming => 1 }, conf => [ 'securefile.monitor = off', 'restart_after_crash = on', 'wal_level = logical',
	'checkpoint_timeout = 1h', 'max_prepared_transactions = 2', 'statement_timeout = ' . patience() . 's',
	"securefile.key_command = 'echo thekey " . ('5a' x 32) . "'" ]);
need_faults($node);
prepare_handles($node);

my $destroyed = qr/data key \d+ of column "doc" of table "\w+" was destroyed/;

# A table with two values in rows and two in the segment.
sub four { my ($table) = @_; make_table($node, $table, 'encrypt'); fill($node, $table, 1, 4, '10 + (i % 2) * 20000'); return; }
sub states { my ($table, $server) = @_; return ($server || $node)->safe_psql('postgres', "SELECT coalesce(string_agg(key_id || ' ' || state || CASE WHEN is_current THEN '*' ELSE '' END, ', ' ORDER BY key_id), '') FROM securefile_keys('$table', 'doc')"); }
sub unreadable { my ($table, $what) = @_; fails_with($node, "SELECT doc::bytea FROM $table WHERE id = $_", '55000', $destroyed, "$what: value $_") foreach 1, 2; return; }
sub shred { my ($table) = @_; return "SELECT securefile_shred('$table', 'doc', true)"; }

# Statements of a session that fail since a key was destroyed.
sub finds_destroyed
{
	my ($session, $query, $what) = @_;
	$session->query($query);
	like($session->{stderr}, $destroyed, $what);
	$session->{stderr} = '';
	return;
}

# The wrapped keys that are in the file of a segment relation now, by what stands on disk.
sub keys_on_disk
{
	my ($table) = @_;
	my $file = slurp(segment_of($node, $table));
	my @keys;
	push @keys, substr($file, $-[0] - NAME + KEY, KEY_BYTES) while $file =~ /thekey\0/g;
	return @keys;
}

# ---- who may, on what, and when ----

sql('CREATE ROLE owner LOGIN', 'CREATE ROLE other LOGIN', 'GRANT CREATE ON SCHEMA public TO owner, other');
make_table($node, 'owned', 'encrypt');
sql('ALTER TABLE owned OWNER TO owner', 'CREATE UNLOGGED TABLE unlogged (doc securefile)', 'CREATE VIEW v AS SELECT * FROM owned');
fails_with($node, q{SELECT securefile_shred('owned', 'doc')}, '42501', 'must be owner of table owned', 'not by others', user => 'other');
is(($node->psql('postgres', q{SELECT securefile_shred('owned', 'doc')}, extra_params => [ '-U', 'owner' ]))[1], 0, 'the owner; there is no key');
fails_with($node, q{SELECT securefile_shred('unlogged', 'doc')}, '55000', 'has no segment', 'unlogged');
fails_with($node, q{SELECT securefile_shred('v', 'doc')}, '42809', 'is not a table', 'a view');
fails_with($node, q{SELECT securefile_shred('owned', NULL)}, '22004', 'must not be null', 'null');
fails_with($node, q{SELECT securefile_shred('owned', 'id')}, '42804', 'not of type securefile', 'another type');
fails_with($node, q{BEGIN READ ONLY; SELECT securefile_shred('owned', 'doc')}, '25006', 'read-only', 'read-only');
fails_with($node, q{BEGIN; TRUNCATE owned; SELECT securefile_shred('owned', 'doc')}, '55000', 'Commit first', 'after TRUNCATE');
fails_with($node, q{BEGIN; DECLARE c CURSOR FOR SELECT * FROM owned; SELECT securefile_shred('owned', 'doc')}, '55006', 'being used by active queries', 'beside a cursor');

four('t');
fails_with($node, q{SELECT securefile_shred('t', 'doc')}, '55000', 'column "doc" of table "t" has encrypted values', 'not while there are values');
sql('UPDATE t SET doc = NULL WHERE len > 100');
fails_with($node, q{SELECT securefile_shred('t', 'doc')}, '55000', 'could never be read again: 2', 'in rows only');
sql('UPDATE t SET doc = NULL');
is(sql(q{SELECT securefile_shred('t', 'doc')}), 1, 'without values');
is(states('t'), '1 shredded', 'is shredded');
is(sql(q{SELECT securefile_shred('t', 'doc')}), 0, 'then there is none');
is(states('t'), '1 destroyed', 'which finishes the first');
is(sql(q{SELECT master_key IS NULL AND is_loaded IS NULL FROM securefile_keys('t', 'doc')}), 't', 'it names no master key');
sql('UPDATE t SET doc = blob(seed, len)');
rows_right($node, 't', 4, 'new values');
is(states('t'), '1 destroyed, 2 usable*', 'have a new key');

# ---- what is left ----

four('leftover');
is(sql(shred('leftover')), 1, 'forced');
unreadable('leftover', 'forced');
fails_with($node, 'SELECT substring(doc FROM 1 FOR 5) FROM leftover WHERE id = 1', '55000', $destroyed, 'a substring');
fails_with($node, q{UPDATE leftover SET doc = doc || 'x' WHERE id = 1}, '55000', $destroyed, 'an edit');
is(sql('SELECT sum(length(doc)) FROM leftover'), 40040, 'lengths are known');
is(sql(q{SELECT count(*) FROM securefile_check('leftover', 'doc')}), 0, 'the column is sound');
sql('UPDATE leftover SET len = len WHERE id = 2', 'DELETE FROM leftover WHERE id < 3', 'VACUUM leftover');
is(states('leftover'), '1 destroyed', 'VACUUM has finished it');
is(sql(q{SELECT securefile_shred('leftover', 'doc')}), 0, 'values that are destroyed already are no reason to refuse');
sql(q{INSERT INTO leftover VALUES (5, 5, 20000, blob(5, 20000))}, 'UPDATE leftover SET doc = blob(seed, len) WHERE id = 3');
is(sql('SELECT count(*) FROM leftover WHERE id IN (3, 5) AND doc::bytea = blob(seed, len)'), 2, 'new values beside destroyed ones');
fails_with($node, 'SELECT doc::bytea FROM leftover WHERE id = 4', '55000', $destroyed, 'which stay');
is(sql(q{SELECT securefile_rewrap()}) . sql(q{SELECT securefile_new_key('leftover', 'doc', true)}) . states('leftover'), '031 destroyed, 2 distrusted, 3 usable*', 'no key comes back');
is(sql(q{SELECT string_agg(key_id::text, ' ' ORDER BY id) FROM leftover, securefile_storage(doc)}), '2 1 2', 'the values can be told');

# ---- transactions ----

four('r');
my $own = background($node);
$own->query_safe('SELECT count(doc::bytea) FROM r');
$own->query_safe('BEGIN');
is($own->query_safe(shred('r')), 1, 'in a transaction');
finds_destroyed($own, 'SAVEPOINT s; SELECT doc::bytea FROM r WHERE id = 1', 'its own read fails');
$own->query('ROLLBACK TO s');
$own->query_safe('ROLLBACK');
rows_right($node, 'r', 4, 'rolled back');
is($own->query_safe('SELECT count(*) FROM r WHERE doc::bytea = blob(seed, len)'), 4, 'in that session, too');
is(states('r'), '1 usable*', 'and the key is the current one');
sql('BEGIN', 'SAVEPOINT s', shred('r'), 'ROLLBACK TO s', 'COMMIT', q{SELECT securefile_maintain('r', 'doc')});
rows_right($node, 'r', 4, 'rolled back to a savepoint');
sql('BEGIN', 'SAVEPOINT s', shred('r'), 'ROLLBACK TO s', q{PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'});
fails_with($node, 'BEGIN; ' . shred('r') . q{; PREPARE TRANSACTION 'p'}, '0A000', 'cannot PREPARE a transaction that has called securefile_shred', 'PREPARE');
# there is none; one would keep the table locked
$node->psql('postgres', q{ROLLBACK PREPARED 'p'});
fails_with($node, 'BEGIN; SAVEPOINT s; ' . shred('r') . "; RELEASE s; INSERT INTO r VALUES (9, 9, 10, blob(9, 10)); SAVEPOINT s; " . shred('r'), '25001', 'twice', 'in two subtransactions');
rows_right($node, 'r', 4, 'refused');
sql('BEGIN', shred('r'), 'UPDATE r SET doc = blob(seed, len) WHERE id = 1', shred('r'), 'UPDATE r SET doc = blob(seed, len) WHERE id < 3', 'COMMIT');
is(states('r'), '1 shredded, 2 shredded, 3 shredded, 4 usable*', 'twice, and new values between');
is(sql('SELECT count(*) FROM r WHERE id < 3 AND doc::bytea = blob(seed, len)'), 2, 'the last ones are there');
fails_with($node, 'SELECT doc::bytea FROM r WHERE id = 3', '55000', $destroyed, 'the first ones are not');
sql(q{INSERT INTO r VALUES (5, 5, 10, blob(5, 10))}, q{SELECT securefile_new_key('r', 'doc')});
is(states('r'), '1 shredded, 2 shredded, 3 shredded, 4 old, 5 usable*', 'keys are added before it is finished');

# ---- others ----

four('o');
my $old = background($node);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM leftover');
my $cached = background($node);
$cached->query_safe('SELECT count(doc::bytea) FROM o');
$own->query_safe('BEGIN; ' . shred('o'));
ok(waits_for_lock($node, $cached, 'SELECT doc::bytea FROM o WHERE id = 1'), 'a reader waits');
$own->query_safe('COMMIT');
finds_destroyed($cached, 'SELECT', 'and fails, although it has known the key');
finds_destroyed($old, 'SELECT doc::bytea FROM o WHERE id = 1', 'as in an old snapshot');
$_->quit foreach $old, $cached;

# values that somebody stores while the function waits for the table
four('late');
sql('UPDATE late SET doc = NULL');
$own->query_safe('BEGIN; UPDATE late SET doc = blob(seed, len)');
my $shredder = background($node);
ok(waits_for_lock($node, $shredder, q{SELECT securefile_shred('late', 'doc')}), 'the function waits for a writer');
$own->query_safe('COMMIT');
$shredder->query('SELECT');
like($shredder->{stderr}, qr/column "doc" of table "late" has encrypted values/, 'and does not destroy what that one has stored');
$shredder->{stderr} = '';
rows_right($node, 'late', 4, 'stored meanwhile');

# a value in a variable is read without a lock on its table
sql(q{CREATE PROCEDURE read_late() LANGUAGE plpgsql AS $$
	DECLARE
		known securefile := (SELECT doc FROM late WHERE id = 1);
	BEGIN
		COMMIT;
		PERFORM pg_advisory_lock(1);
		RAISE NOTICE 'it is %', CASE WHEN known::bytea = (SELECT blob(1, 20010)) THEN 'right' ELSE 'wrong' END;
	END $$});
my $late = background($node);
$shredder->query_safe('SELECT pg_advisory_lock(1)');
ok(waits_for_lock($node, $late, 'CALL read_late()'), 'a session has a value in a variable');
$shredder->query_safe('BEGIN; ' . shred('late') . '; SELECT pg_advisory_unlock(1)');
wait_for_sql($node, q{SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relname = 'pg_securefile_' || 'late'::regclass::oid || '_4' AND NOT l.granted)
	OR EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'through' AND pid <> pg_backend_pid() AND query ~ 'application_name')}) or die 'it neither waits nor goes on';
$shredder->query_safe('ROLLBACK');
$late->query('SELECT');
like($late->{stderr}, qr/NOTICE:  it is right/, 'it waits for the end of a transaction that shreds');
$_->quit foreach $shredder, $late;

# ---- bytes ----

four('b');
sql('CHECKPOINT');
my ($key, @more) = keys_on_disk('b');
ok(defined $key && @more == 1 && $more[0] eq $key && $key ne "\0" x KEY_BYTES, 'the wrapped key is on disk, twice');
sql('BEGIN', shred('b'), 'ROLLBACK', q{SELECT securefile_maintain('b', 'doc')}, 'CHECKPOINT');
is(scalar(grep { $_ eq $key } keys_on_disk('b')), 2, 'after a rollback, too');
sql(shred('b'));
is(states('b'), '1 shredded', 'committed');
sql(q{SELECT securefile_maintain('b', 'doc')});
is(index(slurp(segment_of($node, 'b')), $key), -1, 'when securefile_maintain() returns it is overwritten');
is(states('b'), '1 destroyed', 'as the state says');
four($_) foreach 'm', 'n';
sql(shred('m'), q{ALTER SYSTEM SET securefile.monitor_naptime = '1s'}, 'ALTER SYSTEM SET securefile.monitor = on', 'SELECT pg_reload_conf()');
ok(wait_for_sql($node, q{SELECT state = 'destroyed' FROM securefile_keys('m', 'doc')}), 'the monitor does it, too');
# once it finds nothing to do, the commit tells it; else it looks at all databases in each 30th pass
sub monitor_has { my ($what) = @_; return sql("SELECT $what FROM securefile_monitor"); }
wait_until(sub {
	my ($workers, $passes) = split /\|/, monitor_has('workers, passes');
	wait_for_sql($node, "SELECT passes > $passes + 1 FROM securefile_monitor");
	return monitor_has('workers') == $workers && $passes % 30 < 10;
}) or die 'the monitor does not rest';
my $looks = int((monitor_has('passes') - 1) / 30);
sql(shred('n'));
ok(wait_for_sql($node, q{SELECT state = 'destroyed' FROM securefile_keys('n', 'doc')}), 'the monitor is told by the commit');
is(int((monitor_has('passes') - 1) / 30), $looks, 'and does not wait for its next look at all databases');
sql('ALTER SYSTEM SET securefile.monitor = off', 'SELECT pg_reload_conf()');
ok(monitor_rests($node), 'the monitor is off');

# ---- crashes ----

four('c');
ok(dies_at($node, 'shred_marked', 'kill', shred('c')), 'crash before the commit');
rows_right($node, 'c', 4, 'crash before the commit');
is(states('c'), '1 usable*', 'all is as before');
sql(shred('c'));
crash($node);
$node->start;
unreadable('c', 'crash after the commit');
is(states('c'), '1 shredded', 'which is not finished');
ok(dies_at($node, $_, 'kill', q{SELECT securefile_maintain('c', 'doc')}), "crash at $_") foreach 'keys_made', 'shred_wiped';
is(states('c'), '1 shredded', 'it is not on disk for sure');
sql(q{SELECT securefile_maintain('c', 'doc')});
is(states('c'), '1 destroyed', 'finished');
unreadable('c', 'finished');

# ---- damage ----

four('d');
sql('CHECKPOINT');
my $before = slurp(segment_of($node, 'd'));
sql(shred('d'), q{SELECT securefile_maintain('d', 'doc')});
my $file = segment_of($node, 'd');
$node->stop;
my $after = slurp($file);
my ($page) = grep { substr($before, $_ * 8192, 8192) ne substr($after, $_ * 8192, 8192) && index(substr($before, $_ * 8192, 8192), "thekey\0") >= 0 } 0 .. length($after) / 8192 - 1;
patch($file, $page * 8192, substr($before, $page * 8192, 8192));
$node->start;
like(sql(q{SELECT string_agg(detail, ' ') FROM securefile_check('d', 'doc')}), qr/key pages \d+ and \d+ differ/, 'an old key page is put back');
sql(q{SELECT securefile_repair('d', 'doc', false)});
is(states('d'), '1 destroyed', 'a repair does not bring back its key');
is(sql(q{SELECT count(*) FROM securefile_check('d', 'doc')}), 0, 'and the column is sound');

# ---- partitions ----

sql('CREATE TABLE parts (id int, seed int, len int, doc securefile(encrypt)) PARTITION BY RANGE (id)', 'CREATE TABLE p1 PARTITION OF parts FOR VALUES FROM (1) TO (3)',
	'CREATE TABLE p2 PARTITION OF parts FOR VALUES FROM (3) TO (9)', 'INSERT INTO parts SELECT i, i, 10, blob(i, 10) FROM generate_series(1, 4) i', 'UPDATE p1 SET doc = NULL');
fails_with($node, q{SELECT securefile_shred('parts', 'doc')}, '55000', 'column "doc" of table "p2" has encrypted values', 'one partition has values');
is(states('p1') . states('p2'), '1 usable*1 usable*', 'none is shredded');
is(sql(shred('parts')), 2, 'forced, all are');

# ---- slots ----

make_table($node, 's', 'encrypt');
sql(q{INSERT INTO s VALUES (1, 1, 10, blob(1, 10))}, q{SELECT FROM pg_create_logical_replication_slot('slot', 'test_decoding')}, 'UPDATE s SET doc = NULL');
fails_with($node, q{SELECT securefile_shred('s', 'doc')}, '55000', 'logical replication slots may still have to send', 'beside a logical slot');
is(sql(shred('s')), 1, 'forced');
sql(q{SELECT pg_drop_replication_slot('slot')});

# ---- a standby ----

$node->backup('base');
my $standby = new_standby('standby', $node, 'base');
four('w');
catch_up($node, $standby);
my $reader = background($standby);
is($reader->query_safe('SELECT count(*) FROM w WHERE doc::bytea = blob(seed, len)'), 4, 'a standby reads');
sql('BEGIN', shred('w'), 'ROLLBACK');
catch_up($node, $standby);
is($reader->query_safe('SELECT count(*) FROM w WHERE doc::bytea = blob(seed, len)'), 4, 'after a rollback, too');
sql(shred('w'));
catch_up($node, $standby);
finds_destroyed($reader, 'SELECT doc::bytea FROM w WHERE id = 1', 'then not any more');
is(states('w', $standby), '1 shredded', 'it is shredded there');
fails_with($standby, q{SELECT securefile_shred('w', 'doc')}, '25006', 'during recovery', 'a standby does not do so itself');
sql(q{SELECT securefile_maintain('w', 'doc')});
catch_up($node, $standby);
is(states('w', $standby), '1 destroyed', 'and destroyed when the primary has');
$reader->quit;
$standby->promote;
fails_with($standby, 'SELECT doc::bytea FROM w WHERE id = 2', '55000', $destroyed, 'promoted');
$standby->stop;
$own->quit;
done_testing();
