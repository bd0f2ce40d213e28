# What a column with a retention lists of its rows' values, and when that ends: as transactions,
# savepoints and prepared transactions end; with the key of the row, as far as it has one; and not
# what a transaction has made itself.  What ends by a clock, an ALTER TABLE, a limit or a purge
# does not come back, and a purge leaves nothing.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $node = new_cluster('retention_rows', conf => [ master_key(), 'securefile.monitor = off', 'wal_level = logical' ]);
need_faults($node);

# ---- tools ----

# seeds knows all values by their digests.
use constant LEN => 9000;
my $len = LEN;
my $type = "securefile(disable_storage_in_row, 'retention 7 days', 'max_size 1 GB')";
sql("CREATE TABLE seeds AS SELECT i AS seed, md5(blob(i, $len)) AS sum FROM generate_series(1, 400) i",
	"CREATE FUNCTION b(seed int) RETURNS bytea LANGUAGE sql IMMUTABLE AS 'SELECT blob(seed, $len)'",
	q{CREATE FUNCTION seed_of(doc securefile) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN
			RETURN coalesce((SELECT seed::text FROM seeds WHERE sum = md5(doc::bytea)), 'wrong');
		EXCEPTION WHEN OTHERS THEN
			RETURN 'wrong: ' || SQLERRM;
		END $$},
	"CREATE TABLE t (id int PRIMARY KEY, note text, doc $type)");

sub maintain { return "SELECT count(*) FROM securefile_maintain('$_[0]', 'doc')"; }

# What is listed, in the order of the list: how, the key, and the seed of the content.
sub removed
{
	my ($table) = @_;
	return sql(qq{SELECT coalesce(string_agg(concat_ws(' ', kind, coalesce(row_key::text, 'null'), seed_of(document)), ', ' ORDER BY n), 'nothing')
		FROM securefile_removed('$table', 'doc') WITH ORDINALITY r (removed_at, xid, row_key, kind, length, document, n)});
}

# The same where the key is only an id.
sub gone { return removed($_[0] // 't') =~ s/\{"id": (\d+)\} (\w+)/$1=$2/gr; }

# Nothing is to be found in a table, and its sums are right.
sub whole
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @said = split /\n/, sql(maintain($table), "SELECT live_bytes + pending_bytes + free_bytes = file_bytes AND retained_bytes <= pending_bytes FROM securefile_usage('$table', 'doc')",
		"SELECT f::text FROM securefile_check('$table', 'doc') f");
	return is("@said[1 .. $#said]", 't', "$name: $table has nothing to be found");
}

# Rows 1 to 9 again, with their ids as seeds, and nothing listed; then statements in one session, and
# one test of what is listed.
sub lists
{
	my ($statements, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql('DELETE FROM t', 'INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(1, 9) i', "SELECT securefile_purge('t', 'doc')");
	my ($rc, $out, $err) = $node->psql('postgres', $statements, on_error_stop => 0);
	is(gone('t'), $expected, $name);
	sql(maintain('t'));
	is(gone('t'), $expected, "$name, after maintenance, too");
	return;
}

# ---- transactions ----

lists('DELETE FROM t WHERE id = 1; UPDATE t SET doc = b(12) WHERE id = 2; UPDATE t SET doc = NULL WHERE id = 3; UPDATE t SET doc = \'\' WHERE id = 4', 'deleted 1=1, replaced 2=2, replaced 3=3, replaced 4=4', 'how values went');
lists('BEGIN; DELETE FROM t WHERE id = 1; UPDATE t SET doc = b(12) WHERE id = 2; ROLLBACK', 'nothing', 'a rollback lists nothing');
lists('BEGIN; DELETE FROM t WHERE id = 1; SELECT 1/0; COMMIT', 'nothing', 'nor does a failure');
lists('BEGIN; DELETE FROM t WHERE id = 1; SAVEPOINT a; DELETE FROM t WHERE id = 2; ROLLBACK TO a; DELETE FROM t WHERE id = 3; COMMIT', 'deleted 1=1, deleted 3=3', 'what a savepoint brings back is not listed');
lists('BEGIN; SAVEPOINT a; DELETE FROM t WHERE id = 2; RELEASE a; DELETE FROM t WHERE id = 3; COMMIT', 'deleted 2=2, deleted 3=3', 'a savepoint that is released counts');
lists('BEGIN; SAVEPOINT a; DELETE FROM t WHERE id = 1; SAVEPOINT b; DELETE FROM t WHERE id = 2; RELEASE b; DELETE FROM t WHERE id = 3; ROLLBACK TO a; SAVEPOINT c; DELETE FROM t WHERE id = 4; SAVEPOINT d; DELETE FROM t WHERE id = 5; ROLLBACK TO d; RELEASE c; COMMIT',
	'deleted 4=4', 'savepoints in savepoints');
lists('BEGIN; SAVEPOINT a; DELETE FROM t WHERE id = 1; RELEASE a; ROLLBACK', 'nothing', 'a released savepoint goes with its transaction');
lists(q{DO $$ BEGIN DELETE FROM t WHERE id = 1; BEGIN DELETE FROM t WHERE id = 2; RAISE 'x'; EXCEPTION WHEN OTHERS THEN DELETE FROM t WHERE id = 3; END; BEGIN DELETE FROM t WHERE id = 4; EXCEPTION WHEN OTHERS THEN NULL; END; END $$},
	'deleted 1=1, deleted 3=3, deleted 4=4', 'blocks with exceptions');
lists('UPDATE t SET note = id; UPDATE t SET doc = doc', 'nothing', 'an UPDATE that leaves the value lists nothing');
lists('BEGIN; INSERT INTO t VALUES (21, NULL, b(21)); UPDATE t SET doc = b(22) WHERE id = 21; DELETE FROM t WHERE id = 21; UPDATE t SET doc = b(23) WHERE id = 1; UPDATE t SET doc = b(24) WHERE id = 1; COMMIT',
	'replaced 1=1', 'what a transaction has made itself is not listed');
lists('BEGIN; UPDATE t SET doc = doc || b(31) WHERE id = 1; UPDATE t SET doc = doc || b(32) WHERE id = 1; UPDATE t SET doc = securefile_truncate(doc, 100) WHERE id = 1; DELETE FROM t WHERE id = 1; COMMIT',
	'replaced 1=1', 'the value of before is listed once, and right');
lists('INSERT INTO t VALUES (1, NULL, b(41)), (51, NULL, b(51)) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc; INSERT INTO t VALUES (2, NULL, b(42)) ON CONFLICT DO NOTHING', 'replaced 1=1', 'ON CONFLICT');
if ($node->pg_version >= 15)
{
	lists('MERGE INTO t USING (VALUES (1, 61), (2, 0), (71, 71)) v (id, seed) ON t.id = v.id WHEN MATCHED AND seed = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET doc = b(seed) WHEN NOT MATCHED THEN INSERT VALUES (v.id, NULL, b(seed))',
		'replaced 1=1, deleted 2=2', 'MERGE');
}
sql(q{CREATE FUNCTION twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF pg_trigger_depth() = 1 THEN UPDATE t SET doc = b(81), note = 'twice' WHERE id = NEW.id; END IF; RETURN NULL; END $$},
	q{CREATE TRIGGER "a twice" AFTER UPDATE ON t FOR EACH ROW WHEN (NEW.note = 'trigger') EXECUTE FUNCTION twice()},
	q{CREATE TRIGGER "z twice" AFTER UPDATE ON t FOR EACH ROW WHEN (NEW.note = 'last trigger') EXECUTE FUNCTION twice()});
foreach my $note ('trigger', 'last trigger')
{
	lists("UPDATE t SET doc = b(82), note = '$note' WHERE id = 1", 'replaced 1=1', "a $note that changes the row once more");
	lists("UPDATE t SET note = '$note' WHERE id = 1", 'replaced 1=1', "a $note that changes the value where the statement does not");
}

# Records are logged early when there are many, and by each statement with little memory.
foreach my $memory ('', 'SET securefile.transaction_memory = 0; ')
{
	my $of = $memory ? 'with no memory' : 'early';
	sql('INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(101, 400) i ON CONFLICT DO NOTHING');
	my $all = sub { join ', ', map { "deleted $_=$_" } @_ };
	sql("SELECT securefile_purge('t', 'doc')",
		"${memory}BEGIN; DELETE FROM t WHERE id BETWEEN 101 AND 180; SAVEPOINT a; DELETE FROM t WHERE id BETWEEN 181 AND 300; ROLLBACK TO a; DELETE FROM t WHERE id BETWEEN 301 AND 340; SAVEPOINT b; DELETE FROM t WHERE id BETWEEN 341 AND 400; RELEASE b; COMMIT");
	is(gone(), $all->(101 .. 180, 301 .. 400), "what is logged $of counts as its savepoint does");
	sql(maintain('t'));
	is(gone(), $all->(101 .. 180, 301 .. 400), 'after maintenance, too');
	is(sql('SELECT count(*) FROM t WHERE id BETWEEN 181 AND 300 AND doc = b(id)'), 120, 'what was brought back is right');
	sql("SELECT securefile_purge('t', 'doc')", "${memory}BEGIN; DELETE FROM t WHERE id BETWEEN 181 AND 290; ROLLBACK");
	is(gone(), 'nothing', "what is logged $of by a transaction that is rolled back is not listed");
	whole('t', "what is logged $of");
}

# Prepared transactions, over a restart.
sql('DELETE FROM t', 'INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(1, 9) i', "SELECT securefile_purge('t', 'doc')",
	q{BEGIN; DELETE FROM t WHERE id = 1; SAVEPOINT a; DELETE FROM t WHERE id = 2; RELEASE a; SAVEPOINT b; DELETE FROM t WHERE id = 3; ROLLBACK TO b; PREPARE TRANSACTION 'kept'},
	q{BEGIN; DELETE FROM t WHERE id = 4; PREPARE TRANSACTION 'given up'}, q{BEGIN; DELETE FROM t WHERE id = 5; PREPARE TRANSACTION 'later'});
is(gone(), 'nothing', 'what is prepared is not listed');
$node->restart;
sql(maintain('t'));
is(gone(), 'nothing', 'nor after a restart');
sql(q{COMMIT PREPARED 'kept'}, q{ROLLBACK PREPARED 'given up'});
is(gone(), 'deleted 1=1, deleted 2=2', 'but when it is committed');
sql(maintain('t'));
is(gone(), 'deleted 1=1, deleted 2=2', 'and after maintenance');
crash($node);
$node->start;
sql(q{COMMIT PREPARED 'later'}, maintain('t'));
is(gone(), 'deleted 1=1, deleted 2=2, deleted 5=5', 'one is committed after a crash');
whole('t', 'prepared transactions');

# ---- keys ----

sub key_is
{
	my ($columns, $values, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql('DROP TABLE IF EXISTS k', "CREATE TABLE k (doc $type, $columns)", "INSERT INTO k VALUES (b(1), $values)", 'DELETE FROM k');
	return is(removed('k'), "deleted $expected 1", $name);
}

sql('CREATE TYPE mood AS ENUM (\'sad\')', 'CREATE DOMAIN small AS int', 'CREATE DOMAIN sad AS mood', 'CREATE TYPE pair AS (a int, b int)');
key_is('a int, b text, c date, PRIMARY KEY (b, a)', q{7, 'x', '2020-02-03'}, '{"a": 7, "b": "x"}', 'a key of two columns');
key_is(q{"Ein ""Name""" text PRIMARY KEY}, q{E'it''s "a" \\\\ \n \u00e4 {}'}, qq{{"Ein \\"Name\\"": "it's \\"a\\" \\\\ \\n \xc3\xa4 {}"}}, 'quotes, backslashes and line ends');
key_is('a numeric PRIMARY KEY', q{'NaN'}, '{"a": "NaN"}', 'a number that JSON does not have');
key_is('a bigint, b timestamptz, c bytea, d uuid, e bool, PRIMARY KEY (a, b, c, d, e)', q{-9223372036854775808, '2020-02-03 04:05:06+00', '\x00ff', '6ed7b5e0-95bd-4a0c-8e0e-08d7a1d5d7a9', true},
	q{{"a": -9223372036854775808, "b": "2020-02-03 04:05:06+00", "c": "\\\\x00ff", "d": "6ed7b5e0-95bd-4a0c-8e0e-08d7a1d5d7a9", "e": "t"}}, 'types of the server');
key_is('a small PRIMARY KEY', '3', '{"a": 3}', 'a domain over one');
key_is('a text PRIMARY KEY', q{repeat('x', 247)}, '{"a": "' . 'x' x 247 . '"}', 'a key of 256 bytes');
key_is('a text PRIMARY KEY', q{repeat('x', 248)}, 'null', 'one of 257 bytes is none');
key_is('a mood PRIMARY KEY', q{'sad'}, 'null', "nor one of a user's type");
key_is('a int, b sad, PRIMARY KEY (a, b)', q{1, 'sad'}, 'null', "nor one with a domain over a user's type");
key_is('a pair PRIMARY KEY', q{'(1,2)'}, 'null', 'nor one of a row type');
key_is('a int', '1', 'null', 'nor is there one without a primary key');
key_is('a int UNIQUE NOT NULL', '1', 'null', 'nor with another unique key');
sql('DROP TABLE k', "CREATE TABLE k (dropped int, doc $type, a int, b int, PRIMARY KEY (b) INCLUDE (a))", 'ALTER TABLE k DROP dropped', 'INSERT INTO k VALUES (b(1), 1, 2)', 'UPDATE k SET b = 3', 'UPDATE k SET b = 4, doc = b(2)');
is(removed('k'), 'replaced {"b": 3} 1', 'the key that the row had, without included columns');

# Cascades, and partitions.
sql('CREATE TABLE heads (id int PRIMARY KEY)', "CREATE TABLE c (id int PRIMARY KEY, head int REFERENCES heads ON DELETE CASCADE, doc $type)", 'INSERT INTO heads SELECT generate_series(1, 2)',
	'INSERT INTO c SELECT i, 1 + i % 2, b(i) FROM generate_series(1, 4) i', 'DELETE FROM heads WHERE id = 1');
is(gone('c'), 'deleted 2=2, deleted 4=4', 'rows that a foreign key deletes');
sql("CREATE TABLE p (id int PRIMARY KEY, doc $type) PARTITION BY RANGE (id)", 'CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100)', 'CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (id)',
	'CREATE TABLE p21 PARTITION OF p2 FOR VALUES FROM (100) TO (150)', 'INSERT INTO p SELECT i, b(i) FROM generate_series(1, 5) i', 'INSERT INTO p SELECT i, b(i) FROM generate_series(101, 102) i',
	'UPDATE p SET id = 121 WHERE id = 1', 'UPDATE p SET doc = b(11) WHERE id = 2', 'DELETE FROM p WHERE id IN (3, 101)', 'BEGIN; UPDATE p SET id = 122 WHERE id = 4; ROLLBACK');
is(gone('p1'), 'moved 1=1, replaced 2=2, deleted 3=3', 'a row that moves to another partition');
is(gone('p21'), 'deleted 101=101', 'what its partition has lost');
is(gone('p'), 'moved 1=1, replaced 2=2, deleted 3=3, deleted 101=101', 'the parent lists all leaves');
is(sql('SELECT doc = b(1) FROM p WHERE id = 121'), 't', 'what has moved is right');
cmp_ok(sql("SELECT securefile_purge('p', 'doc')"), '>=', 4 * LEN, 'a purge of the parent frees what its leaves keep');
is(gone('p'), 'nothing', 'and they list nothing any more');
is(sql("SELECT sum(retained_bytes) FROM (VALUES ('p1'), ('p21')) v (t), securefile_usage(t::regclass, 'doc')"), 0, 'nor keep anything');
whole($_, 'partitions') foreach ('p1', 'p21', 'c');

# ---- purges ----

sub retained { return sql("SELECT retained_bytes FROM securefile_usage('$_[0]', 'doc')"); }
sub pending { return usage($node, $_[0], 'doc')->{pending_bytes}; }
sub time_passes { return arm($node, 'time_passes', 'skip', times => -1); }

# Nothing is left of it on disk: neither keys of rows nor locators.
make_raw_type($node);
sql("CREATE TABLE secret (name text PRIMARY KEY, doc $type)", "INSERT INTO secret SELECT 'name of somebody ' || i, b(i) FROM generate_series(1, 200) i");
my @locators = map { pack 'H*', $_ } split /\n/, sql(q{SELECT encode(doc::raw::bytea, 'hex') FROM secret ORDER BY name});
my $on_disk = sub {
	sql('CHECKPOINT');
	my $all = slurp(segment_of_second('secret'));
	# records are written as they differ: the first name is whole, and each checksum
	return ($all =~ /name of somebody/ ? 'names' : 'no names') . ', ' . grep { my %l = locator($_); index($all, substr($_, $l{checksums}, 8)) >= 0 } @locators;
};
sub segment_of_second { return $node->data_dir . '/' . sql("SELECT pg_relation_filepath(segment_relid) FROM securefile_columns WHERE relid = '$_[0]'::regclass"); }
sql('DELETE FROM secret WHERE name < \'name of somebody 5\'', 'UPDATE secret SET doc = NULL', maintain('secret'));
is($on_disk->(), 'names, 200', 'names and locators of what is kept are on disk');
is(sql("SELECT securefile_purge('secret', 'doc')"), 200 * int((LEN + 511) / 512) * 512, 'a purge says what became free');
is(removed('secret'), 'nothing', 'nothing is listed');
is(retained('secret') . ' ' . pending('secret'), '0 0', 'retained, or pending');
is($on_disk->(), 'no names, 0', 'and neither names nor locators are on disk any more');
is(sql("SELECT securefile_purge('secret', 'doc')"), 0, 'another purge finds nothing');
whole('secret', 'a purge');

# by age, as the clock tells it
sql('DELETE FROM t', "SELECT securefile_purge('t', 'doc')", q{ALTER TABLE t ALTER doc TYPE securefile(disable_storage_in_row, 'retention 60 weeks', 'max_size 1 GB')},
	'INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(1, 9) i', 'DELETE FROM t WHERE id < 3', maintain('t'), 'DELETE FROM t WHERE id = 3');
time_passes();
sql('DELETE FROM t WHERE id = 4', maintain('t'), 'DELETE FROM t WHERE id = 5');
is(sql("SELECT securefile_purge('t', 'doc', '101 days')"), 0, 'a purge of what is older than all frees nothing');
is(gone(), 'deleted 1=1, deleted 2=2, deleted 3=3, deleted 4=4, deleted 5=5', 'and ends nothing');
cmp_ok(sql("SELECT securefile_purge('t', 'doc', '99 days')"), '>=', 2 * LEN, 'a purge of what is old frees it');
is(gone(), 'deleted 4=4, deleted 5=5', 'and not what is new');
sql(maintain('t'));
is(gone(), 'deleted 4=4, deleted 5=5', 'also after maintenance');
disarm($node);
is(gone(), 'deleted 4=4, deleted 5=5', 'what was purged does not come back when the clock goes back');
whole('t', 'a purge by age');

# with an open snapshot
sql("SELECT securefile_purge('t', 'doc')", 'INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(11, 20) i');
my $before = retained('t') . ' ' . pending('t');
my $reader = background($node);
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
sql('DELETE FROM t WHERE id BETWEEN 11 AND 20', maintain('t'));
my ($rc, $out, $err) = $node->psql('postgres', "SELECT securefile_purge('t', 'doc')");
is($out, 0, 'a purge frees nothing that a snapshot sees');
like($err, qr/NOTICE:  \d+ bytes of values are not free yet/, 'and says so');
is(gone(), 'nothing', 'but nothing is listed');
is(retained('t'), 0, 'nor retained');
cmp_ok(pending('t'), '>', 10 * LEN, 'it is pending');
is($reader->query_safe('SELECT count(*) FROM t WHERE doc = b(id) AND id BETWEEN 11 AND 20'), 10, 'the snapshot sees what it saw');
$reader->query_safe('COMMIT');
sql(maintain('t'));
is(retained('t') . ' ' . pending('t'), $before, 'when the snapshot ends it is free, and not kept again');
is(gone(), 'nothing', 'and not listed again');

# A list that is being read goes on, until the space is used again.
sub read_later
{
	my @then = @_;
	sql('DROP TABLE IF EXISTS u', "CREATE TABLE u (id int PRIMARY KEY, doc $type)", 'INSERT INTO u SELECT i, b(i) FROM generate_series(1, 2) i', 'DELETE FROM u', maintain('u'));
	$reader->query_safe(q{BEGIN; DECLARE c CURSOR FOR SELECT md5(document::bytea) FROM securefile_removed('u', 'doc'); FETCH 1 FROM c});
	sql("SELECT securefile_purge('u', 'doc')", @then);
	my $found = $reader->query('FETCH 1 FROM c');
	$found .= $reader->{stderr};
	$reader->{stderr} = '';
	$reader->query_safe('ROLLBACK');
	return $found;
}
like(read_later(), qr/^[0-9a-f]{32}\n?$/, 'a list that is being read goes on beyond a purge');
my @again = ('INSERT INTO u SELECT i, b(i) FROM generate_series(3, 200) i');
like(read_later(@again), qr/ERROR:  securefile value no longer exists/, 'until the space is used again');
like(read_later(@again, 'DELETE FROM u'), qr/ERROR:  securefile value is damaged, or outlived its row/, 'of a place that waits for a later value nobody knows');

# of what a transaction is about to remove
sql('INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(11, 20) i');
$reader->query_safe('BEGIN; DELETE FROM t WHERE id BETWEEN 11 AND 15');
sql("SELECT securefile_purge('t', 'doc')");
$reader->query_safe('COMMIT');
$reader->quit;
is(gone(), 'nothing', 'a purge also ends what transactions were removing');
sql('DELETE FROM t WHERE id = 16', maintain('t'));
is(gone(), 'deleted 16=16', 'but not what comes later');
whole('t', 'purges beside transactions');

# A transaction that has logged nothing loses its number in a crash; the next one gets it.
$reader = background($node);
sql('INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(21, 22) i', 'CHECKPOINT');
$reader->query_safe('BEGIN; SELECT pg_current_xact_id()');
sql("SELECT securefile_purge('t', 'doc')", 'SELECT pg_switch_wal()');
crash($node);
$reader->{run}->kill_kill if ref $reader->{run};
$node->start;
sql('DELETE FROM t WHERE id = 21');
is(gone(), 'deleted 21=21', 'a purge does not end what is removed after a crash');

# who may, and what is refused
sql('CREATE ROLE owner', 'CREATE ROLE other', 'GRANT CREATE ON SCHEMA public TO owner', "SET ROLE owner; CREATE TABLE owned (id int PRIMARY KEY, doc $type); GRANT ALL ON owned TO other", 'INSERT INTO owned VALUES (1, b(1))', 'DELETE FROM owned');
is(sql('SET ROLE owner', "SELECT count(*) FROM securefile_removed('owned', 'doc')"), 1, 'the owner lists');
fails_with($node, "SET ROLE other; SELECT * FROM securefile_removed('owned', 'doc')", '42501', 'must be owner|permission denied', 'another may not');
fails_with($node, "SET ROLE other; SELECT securefile_purge('owned', 'doc')", '42501', 'must be owner|permission denied', 'nor purge');
fails_with($node, "SELECT securefile_purge('owned', 'doc', '-1 second')", '22023', 'older_than must not be negative');
fails_with($node, "SELECT securefile_purge('owned', 'doc', NULL)", '22004', 'older_than');
fails_with($node, "SELECT securefile_purge('owned', NULL)", '22004', '');
fails_with($node, "SELECT securefile_removed(NULL, 'doc')", '22004', '');
fails_with($node, "BEGIN READ ONLY; SELECT securefile_purge('owned', 'doc')", '25006', 'read-only transaction');
is(sql('BEGIN READ ONLY', "SELECT count(*) FROM securefile_removed('owned', 'doc')"), 1, 'a list in a read-only transaction');
cmp_ok(sql('SET ROLE owner', "SELECT securefile_purge('owned', 'doc')"), '>', 0, 'the owner purges');

# a purge that is rolled back is one all the same, also over a crash
sql('INSERT INTO owned VALUES (1, b(1))', 'DELETE FROM owned', maintain('owned'), "BEGIN; SELECT securefile_purge('owned', 'doc'); ROLLBACK");
is(removed('owned') . ' ' . retained('owned'), 'nothing 0', 'a purge is not taken back');
sql('INSERT INTO owned VALUES (1, b(1))', 'DELETE FROM owned', maintain('owned'), 'CHECKPOINT');
$reader = background($node);
$reader->query_safe("BEGIN; SELECT securefile_purge('owned', 'doc')");
crash($node);
$reader->{run}->kill_kill if ref $reader->{run};
$node->start;
is(removed('owned'), 'nothing', 'nor by a crash before its transaction ends');

# shredded keys
sql("CREATE TABLE s (id int PRIMARY KEY, doc securefile(encrypt, disable_storage_in_row, 'retention 7 days', 'max_size 1 GB'))", 'INSERT INTO s SELECT i, b(i) FROM generate_series(1, 9) i', 'DELETE FROM s WHERE id < 4', maintain('s'), 'DELETE FROM s WHERE id = 4');
is(gone('s'), 'deleted 1=1, deleted 2=2, deleted 3=3, deleted 4=4', 'encrypted values are listed');
sql("BEGIN; SELECT securefile_shred('s', 'doc', force => true); ROLLBACK");
is(gone('s'), 'deleted 1=1, deleted 2=2, deleted 3=3, deleted 4=4', 'a shredding that is rolled back ends nothing');
sql("SELECT securefile_shred('s', 'doc', force => true)");
is(removed('s'), 'nothing', 'what is shredded is not listed from the commit on');
sql('DELETE FROM s', 'INSERT INTO s VALUES (21, b(21))', 'DELETE FROM s');
is(removed('s'), 'deleted {"id": 21} 21', 'nor is what is removed later; what has a new key is');
sql(maintain('s'));
is(removed('s'), 'deleted {"id": 21} 21', 'and stays when the others are destroyed');
sql("SELECT securefile_purge('s', 'doc')");
is(removed('s') . ' ' . retained('s'), 'nothing 0', 'a purge frees the space of all of them');

# ---- clocks, and other retentions ----

sub retention { return sql("ALTER TABLE t ALTER doc TYPE securefile(disable_storage_in_row, 'retention $_[0]', 'max_size $_[1]')"); }
retention('7 days', '1 GB');
sql('DELETE FROM t', "SELECT securefile_purge('t', 'doc')", 'INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(1, 30) i', 'DELETE FROM t WHERE id = 1', maintain('t'), 'DELETE FROM t WHERE id = 2');
arm($node, 'clock_forward', 'skip', times => -1);
is(gone(), 'deleted 1=1, deleted 2=2', 'a clock that jumps ends nothing');
sql(maintain('t'));
is(gone(), 'deleted 1=1, deleted 2=2', 'nor does maintenance then');
sql('DELETE FROM t WHERE id = 3', maintain('t'));
disarm($node);
is(gone(), 'deleted 1=1, deleted 2=2, deleted 3=3', 'all are there when it jumps back');
sql(maintain('t'));
is(gone(), 'deleted 1=1, deleted 2=2, deleted 3=3', 'after maintenance, too');

# a clock that was set back: what was removed before, by the other clock, is right or not there
time_passes();
sql('DELETE FROM t WHERE id = 4');
disarm($node);
sql(maintain('t'), 'DELETE FROM t WHERE id = 5', maintain('t'));
is(gone(), 'deleted 1=1, deleted 2=2, deleted 3=3, deleted 4=4, deleted 5=5', 'nothing ends when the clock is set back');
time_passes();
sql(maintain('t'), 'INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(101, 120) i', 'DELETE FROM t WHERE id > 100', maintain('t'), 'INSERT INTO t SELECT i, NULL, b(i) FROM generate_series(101, 120) i');
unlike(gone(), qr/wrong/, 'nor is anything wrong when its time comes');
disarm($node);
whole('t', 'clocks');

# shorter, longer, none
sql("SELECT securefile_purge('t', 'doc')");
retention('60 weeks', '1 GB');
sql('DELETE FROM t WHERE id = 6', maintain('t'));
time_passes();
sql('DELETE FROM t WHERE id = 7', maintain('t'));
is(gone(), 'deleted 6=6, deleted 7=7', 'a long retention');
retention('7 days', '1 GB');
is(gone(), 'deleted 7=7', 'a shorter one counts at once');
sql(maintain('t'));
retention('60 weeks', '1 GB');
is(gone(), 'deleted 7=7', 'what has ended does not come back with a longer one');
sql(maintain('t'));
is(gone(), 'deleted 7=7', 'nor with maintenance');
disarm($node);
sql(q{ALTER TABLE t ALTER doc TYPE securefile(disable_storage_in_row, 'max_size 1 GB')});
is(gone(), 'nothing', 'nothing is listed without a retention');
sql(maintain('t'));
retention('60 weeks', '1 GB');
is(gone(), 'nothing', 'nor with a new one, of what was removed before');
sql(maintain('t'));
is(gone(), 'nothing', 'nor after maintenance');
sql('DELETE FROM t WHERE id = 8', maintain('t'));
is(gone(), 'deleted 8=8', 'but what is removed now');
sql(q{ALTER TABLE t ALTER doc TYPE securefile(disable_storage_in_row, 'max_size 1 GB')}, maintain('t'));
is(retained('t') . ' ' . gone(), '0 nothing', 'maintenance frees what is not kept any more');
sql('DELETE FROM t WHERE id = 9');
retention('7 days', '1 GB');
sql(maintain('t'));
is(gone(), 'nothing', 'what was removed without a retention is not listed');
whole('t', 'other retentions');

# a lower limit, and a higher one again
sql(q{SELECT securefile_set_max_size('t', 'doc', '16 MB')}, 'INSERT INTO t SELECT i, NULL, noise(i, 200000) FROM generate_series(201, 220) i ON CONFLICT DO NOTHING', map { ("DELETE FROM t WHERE id = $_", maintain('t')) } 201 .. 220);
sql("SELECT securefile_set_max_size('t', 'doc', '6 MB')");
($rc, $out, $err) = $node->psql('postgres', maintain('t'));
like($err, qr/WARNING:  removed values of column "doc" of table "t" are no longer kept, before their time/, 'half of a lower limit is less');
my $left = sql(q{SELECT string_agg(row_key ->> 'id', ' ' ORDER BY removed_at) FROM securefile_removed('t', 'doc') WHERE md5(document::bytea) = md5(noise((row_key ->> 'id')::int, 200000))});
like($left, qr/^(\d+ )+220$/, 'the newest stay');
unlike($left, qr/201/, 'the oldest do not');
cmp_ok(retained('t'), '<=', mb(3), 'which are half of it');
sql("SELECT securefile_set_max_size('t', 'doc', '96 GB')", maintain('t'));
is(sql(q{SELECT string_agg(row_key ->> 'id', ' ' ORDER BY removed_at) FROM securefile_removed('t', 'doc')}), $left, 'with a higher limit they do not come back');
fails_with($node, "SELECT securefile_set_max_size('t', 'doc', 'none')", '22023', 'retention');
whole('t', 'limits');

# ---- changes that are rolled back ----

# They end nothing, also where the resolver comes by in the middle.
sql("CREATE TABLE rb (id int PRIMARY KEY, doc securefile(disable_storage_in_row, 'retention 1 day', 'max_size 64 MB'))",
	'INSERT INTO rb SELECT i, b(i) FROM generate_series(1, 50) i', 'DELETE FROM rb', maintain('rb'));
sql('BEGIN', "ALTER TABLE rb ALTER doc TYPE securefile(disable_storage_in_row, 'max_size 16 MB')", maintain('rb'), 'ROLLBACK');
is(sql("SELECT count(*), count(length(document::bytea)) FROM securefile_removed('rb', 'doc')"), '50|50', 'an ALTER TABLE that is rolled back ends nothing');
sql('BEGIN', "SELECT securefile_set_max_size('rb', 'doc', '1 MB')", maintain('rb'), 'ROLLBACK');
is(sql("SELECT count(*), count(length(document::bytea)) FROM securefile_removed('rb', 'doc')"), '50|50', 'nor does another limit');
sql("SELECT securefile_purge('rb', 'doc')", 'INSERT INTO rb SELECT i, b(i) FROM generate_series(1, 5) i',
	'BEGIN', 'DELETE FROM rb WHERE id = 1', 'SAVEPOINT a', 'DELETE FROM rb WHERE id = 2', 'RELEASE a', 'SAVEPOINT b', 'DELETE FROM rb WHERE id = 4', 'ROLLBACK TO b', 'DELETE FROM rb WHERE id = 3', 'COMMIT');
is(sql("SELECT count(*), count(DISTINCT xid), string_agg(row_key ->> 'id', ' ' ORDER BY row_key ->> 'id') FROM securefile_removed('rb', 'doc')"), '3|1|1 2 3', 'savepoints do not show in the list');

# ---- settings of the session ----

sql("CREATE TABLE ds (a date, f float8, ts timestamptz, iv interval, x bytea, doc $type, PRIMARY KEY (a, f, ts, iv, x))",
	q{INSERT INTO ds VALUES ('2026-03-04', 0.1::float8 + 0.2, '2026-03-04 12:00+00', '-1 year 2 days', '\x0001', b(1))});
sql("SET datestyle = 'SQL, DMY'", 'SET extra_float_digits = -10', "SET intervalstyle = 'sql_standard'", "SET bytea_output = 'escape'", "SET timezone = 'Asia/Tokyo'", 'DELETE FROM ds');
is(sql("SELECT row_key FROM securefile_removed('ds', 'doc')"), '{"a": "2026-03-04", "f": "0.30000000000000004", "x": "\\\\x0001", "iv": "-1 years +2 days", "ts": "2026-03-04 12:00:00+00"}',
	'a key does not depend on the settings of who deletes');

# ---- the limit ----

# What is kept early stays: the new value is refused.
sql("CREATE TABLE l (id int PRIMARY KEY, doc securefile(disable_storage_in_row, 'retention 7 days', 'max_size 8 MB'))", 'INSERT INTO l SELECT i, noise(i, 200000) FROM generate_series(1, 15) i', 'DELETE FROM l', maintain('l'));
my $kept = retained('l');
cmp_ok($kept, '>=', 15 * 200_000, 'what is kept takes its space');
sub right_in_l { return sql(q{SELECT string_agg(row_key ->> 'id', ' ' ORDER BY (row_key ->> 'id')::int) FROM securefile_removed('l', 'doc') WHERE md5(document::bytea) = md5(noise((row_key ->> 'id')::int, 200000))}); }
($rc, $out, $err) = $node->psql('postgres', q{DO $$ BEGIN FOR i IN 101..200 LOOP INSERT INTO l VALUES (i, noise(i, 200000)); COMMIT; END LOOP; END $$}, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/ERROR:  53400: column "doc" of table "l" has reached its limit of 8 MB\nDETAIL:  Bytes of its files: \d+ live, \d+ pending \($kept of them kept by the retention\), /, 'the error says what is kept');
like($err, qr/HINT:  .*securefile_purge\(\) ends what is kept of removed values\./, 'and who ends it');
is(right_in_l(), join(' ', 1 .. 15), 'all that is kept is right');
is(retained('l'), $kept, 'and as much as it was');
sql("SELECT securefile_purge('l', 'doc')");
my $more = sql('SELECT count(*) FROM l');
$node->psql('postgres', q{DO $$ BEGIN FOR i IN 301..400 LOOP INSERT INTO l VALUES (i, noise(i, 200000)); COMMIT; END LOOP; END $$});
cmp_ok(sql('SELECT count(*) FROM l'), '>=', $more + 14, 'a purge makes room for as much');
is(sql('SELECT count(*) FROM l WHERE doc <> noise(id, 200000)'), 0, 'and all rows are right');
whole('l', 'the limit');

# Records alone may be too much, where values share what a row still has.
sql("CREATE TABLE many (name text PRIMARY KEY, doc securefile(deduplicate, disable_storage_in_row, 'retention 7 days', 'max_size 2 MB'))",
	q{INSERT INTO many VALUES ('stays', b(1))}, q{INSERT INTO many SELECT md5(i::text) || md5((-i)::text), doc FROM many, generate_series(1, 20000) i});
$reader = background($node);
$reader->query_safe(q{BEGIN; DELETE FROM many WHERE name <> 'stays'});
($rc, $out, $err) = $node->psql('postgres', maintain('many'));
like($err, qr/WARNING:  removed values of column "doc" of table "many" are no longer kept, before their time/, 'records of a long transaction are pressed, too');
$reader->query_safe('COMMIT');
$reader->quit;
my $listed = sql("SELECT count(*) FROM securefile_removed('many', 'doc')");
cmp_ok($listed, '>', 1000, 'the newest are listed');
cmp_ok($listed, '<', 20_000, 'the oldest are not');
is(sql("SELECT DISTINCT md5(document::bytea) = md5(b(1)) FROM (SELECT document FROM securefile_removed('many', 'doc') LIMIT 100) r"), 't', 'and right');
sql("SELECT securefile_purge('many', 'doc')");
whole('many', 'records');

done_testing();
