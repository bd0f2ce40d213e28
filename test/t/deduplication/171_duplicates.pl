# What shows deduplication: securefile_duplicates() before it, which says what it saves then, and
# the counters of securefile_stat after it.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('duplicates', init => { allows_streaming => 1 }, conf => [ master_key(), 'securefile.monitor = off' ]);
need_faults($node);

# What the function says of a table, in its own order.
sub said
{
	my ($columns, $table, $before) = @_;
	return sql(($before || '') . "SELECT $columns FROM securefile_duplicates('$table', 'doc')");
}

# What SQL counts: of each content all but one are saved, in whole sectors.  How much is stored
# of a value of one unit is told by securefile_storage().
my $counted = q{SELECT tableoid::regclass, encode(sha256(doc::bytea), 'hex') AS digest, length(doc), count(*),
	(count(*) - 1) * ((max(s.stored_bytes) + 511) / 512 * 512) AS saved
	FROM %s, securefile_storage(doc) s WHERE s.form = 'stored' GROUP BY tableoid, 2, 3 HAVING count(*) > 1 ORDER BY saved DESC, tableoid, 2};

# One test; returns how many groups there are.
sub as_counted
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $groups = sql(sprintf $counted, $table);
	is(said(q{relid::regclass, encode(digest, 'hex'), length_bytes, copies, saves_bytes}, $table), $groups, "$name: as SQL counts, in its order");
	return scalar(split /\n/, $groups);
}

# ---- what is saved ----

foreach my $options ('', 'hash', 'compress_low')
{
	my $name = $options || 'no options';
	make_table($node, 't', $options);
	sql(q{INSERT INTO t SELECT i, i % 7, 3000 + i % 7 * 17000, noise(i % 7, 3000 + i % 7 * 17000) FROM generate_series(1, 30) i;
		INSERT INTO t SELECT i, 1, 110000, blob(i % 3, 100000) || noise(i % 3, 10000) FROM generate_series(40, 47) i;
		INSERT INTO t SELECT 100, 1, 90000, blob(100, 90000); INSERT INTO t VALUES (101, NULL, NULL, NULL), (102, 0, 0, '')});
	is(as_counted('t', $name), 9, 'and groups are found');
	sql('DROP TABLE t');
}

# values of many units, some with gaps between them; the truth is what the files hold then
foreach my $options ('', 'hash', 'compress_medium', 'hash, encrypt, compress_high')
{
	my $name = $options || 'no options';
	make_table($node, 't', $options);
	sql(q{INSERT INTO t SELECT i, 1, 1, blob(i % 4, 300000 + i % 4) || noise(i % 4, 200000) FROM generate_series(1, 13) i});
	sql("INSERT INTO t SELECT i, 1, 1, noise(i, 5000) FROM generate_series(20, 25) i");
	my $before = settle($node, 't', 'doc')->{live_bytes};
	my $saves = said('sum(saves_bytes)', 't');
	sql(sprintf q{ALTER TABLE t ALTER doc TYPE securefile(%s); SELECT securefile_rewrite('t', 'doc')}, join(', ', $options || (), 'deduplicate'));
	is($before - settle($node, 't', 'doc')->{live_bytes}, $saves, "$name: deduplicate saves what was said");
	is(sql("SELECT saved_bytes FROM securefile_usage('t', 'doc')"), $saves, 'as securefile_usage() says');
	cmp_ok($saves, '>', 1_000_000, 'and it is much') unless $options =~ /compress/;
	is(said('sum(saves_bytes), sum(copies)', 't'), '0|13', 'then there is nothing to be saved');
	sql('DROP TABLE t');
}

# in rows nothing is shared: a value that compression has brought there counts as little
make_table($node, 't', 'compress');
sql(q{INSERT INTO t SELECT i, 1, 90000, repeat('x', 90000)::bytea FROM generate_series(1, 3) i});
is(sql('SELECT string_agg(DISTINCT s.form, $$ $$) FROM t, securefile_storage(doc) s'), 'inline', 'values in rows');
is(said('count(*)', 't'), 0, 'are no duplicates');
sql('DROP TABLE t');

# short values count where they go to the segment
make_table($node, 't', 'disable_storage_in_row');
sql('INSERT INTO t SELECT i, 1, 1, noise(i / 10, 4000 + i / 10) FROM generate_series(8, 11) i');
is(sql('SELECT string_agg(s.form, $$ $$) FROM t, securefile_storage(doc) s'), 'stored stored stored stored', 'values outside of rows');
is(as_counted('t', 'short values'), 2, 'both are duplicates');
sql('CREATE TABLE said AS SELECT sum(saves_bytes) FROM securefile_duplicates($$t$$, $$doc$$);
	ALTER TABLE t ALTER doc TYPE securefile(disable_storage_in_row, deduplicate);
	INSERT INTO t SELECT id + 10, 1, 1, doc::bytea FROM t; DELETE FROM t WHERE id < 18');
is(sql('SELECT saved_bytes = said.sum FROM said, securefile_usage($$t$$, $$doc$$)'), 't', 'as much is saved by storing them again');
sql('DROP TABLE said');
sql('DROP TABLE t');

# nor are those with a long gap, which are not looked for; one of 40 MB is
make_table($node, 't');
sql(q{CREATE FUNCTION after_gap(gap int) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_create('t', 'doc');
	BEGIN
		PERFORM securefile_seek(fd, gap, 0);
		PERFORM securefile_write(fd, 'end'::bytea);
		RETURN securefile_finish(fd);
	END $$;
	INSERT INTO t SELECT i, 1, 1, after_gap(305 * 131072 + i / 2 * 60000000) FROM generate_series(0, 3) i});
is(said('length_bytes, copies, saves_bytes', 't'), '39976963|2|512', 'values with gaps');
sql(q{ALTER TABLE t ALTER doc TYPE securefile(deduplicate); SELECT securefile_rewrite('t', 'doc')});
is(sql(q{SELECT shared_objects, shared_references, saved_bytes FROM securefile_usage('t', 'doc')}), '1|2|512', 'are shared like that');
sql('DROP TABLE t; DROP FUNCTION after_gap');

# a gap takes nothing, and saves nothing, however long it is; nor is it pending when it goes
make_table($node, 't');
sql(q{INSERT INTO t SELECT 1, 1, 1, noise(1, 400000)::securefile || securefile_truncate('x'::securefile, 10000000000) || noise(2, 1000)::securefile;
	INSERT INTO t SELECT i, 1, 1, doc FROM t, generate_series(2, 3) i; INSERT INTO t SELECT 4, 1, 1, noise(3, 50000)});
my $stored = sql('SELECT (stored_bytes + 511) / 512 * 512 FROM t, securefile_storage(doc) WHERE id = 1');
cmp_ok($stored, '<', 1_000_000, 'a long gap takes nothing');
is(sql(q{SELECT shared_references, saved_bytes FROM securefile_usage('t', 'doc')}), '3|' . 2 * $stored, 'and its copies save what it takes');
sql('DELETE FROM t WHERE id < 4');
is(sql(q{SELECT live_bytes, saved_bytes > 0 FROM securefile_usage('t', 'doc')}), '50176|t', 'all of it leaves, and no more');
sql('DROP TABLE t');

# what shares space already is saved already
make_table($node, 't', 'deduplicate');
sql('INSERT INTO t SELECT i, 5, 50000, blob(5, 50000) FROM generate_series(1, 10) i');
is(said('copies, saves_bytes', 't'), '10|0', 'shared values save nothing more');
sql(q{ALTER TABLE t ALTER doc TYPE securefile; INSERT INTO t SELECT 20, 5, 50000, blob(5, 50000)});
is(said('copies, saves_bytes', 't'), '11|50176', 'a private one would');
sql('DROP TABLE t');

# versions of a shared value have its id, and units of their own
make_table($node, 't', 'deduplicate');
sql(q{INSERT INTO t SELECT i, 5, 500000, blob(5, 500000) FROM generate_series(1, 5) i;
	UPDATE t SET doc = overlay(doc PLACING 'xyz'::bytea::securefile FROM 200000) WHERE id > 2});
is(said('copies, saves_bytes', 't'), "3|262144\n2|0", 'of versions that are equal what is not shared can be saved');
sql('DROP TABLE t');

# ---- what is read ----

sub bytes_read { return sql("SELECT direct_read_bytes FROM securefile_stat WHERE relname = '$_[0]'"); }

foreach my $options ('hash', 'nocache')
{
	make_table($node, 't', $options);
	fill($node, 't', 501, 506, 'i % 2 * 3000 + 200000');
	sql('UPDATE t SET doc = (SELECT doc FROM t o WHERE o.id = 501) WHERE id = 503');
	my $before = bytes_read('t');
	is(said('copies, length_bytes', 't'), '2|203000', "$options: one group");
	my $read = bytes_read('t') - $before;
	$options eq 'hash' ? is($read, 0, 'for hashes that are kept nothing is read') : cmp_ok($read, '>', 1_200_000, 'all values are read');

	# damage: of the copy, or of what it is one of
	my ($file) = grep { block_at($_, 501, 40) > 0 } data_files($node);
	my $at = block_at($file, 501, 40);
	patch($file, $at + 100, chr(ord(substr(slurp($file), $at + 100, 1)) ^ 4));
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT copies FROM securefile_duplicates('t', 'doc')");
	is("$rc $out", $options eq 'hash' ? '0 2' : '0 ', 'with a value damaged');
	my @warnings = $err =~ /(WARNING:  XX001: 1 damaged value of column "doc" of table "t" was passed over\nDETAIL:  The first one: securefile value is damaged)/g;
	is(scalar(@warnings), $options eq 'hash' ? 0 : 1, 'and warnings') or note($err);
	sql('DROP TABLE t');
}

# ---- partitions, roles ----

# partitions do not share; a role sees its own rows
sql(q{
	CREATE TABLE p (id int, owner name, doc securefile) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (11);
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (11) TO (21);
	INSERT INTO p SELECT i, 'one', noise(i % 3, 20000) FROM generate_series(1, 12) i;
	INSERT INTO p SELECT i, 'two', noise(77, 20000) FROM generate_series(3, 4) i;
	CREATE ROLE one; CREATE ROLE two; CREATE ROLE stranger;
	GRANT SELECT (doc) ON p TO one, two;
	ALTER TABLE p ENABLE ROW LEVEL SECURITY;
	CREATE POLICY own ON p USING (owner = current_user);});
is(as_counted('p', 'partitions'), 4, 'and only what is in one of them counts');
sql('CREATE TABLE q (LIKE p) PARTITION BY LIST (id); CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1); CREATE TABLE q2 PARTITION OF q FOR VALUES IN (2);'
	  . q{ INSERT INTO q SELECT i, 'one', noise(1, 20000) FROM generate_series(1, 2) i});
is(said('count(*)', 'q'), 0, 'one value in each of them is no duplicate');
is(said('count(*), sum(copies)', 'p', 'SET ROLE one; '), '3|10', 'a role that may read the column alone sees its rows');
is(said('count(*), sum(copies)', 'p', 'SET ROLE two; '), '1|2', 'and another one its own');
fails_with($node, "SET ROLE one; SET row_security = off; SELECT * FROM securefile_duplicates('p', 'doc')", '42501', 'row-level security', 'not as if there was none');
fails_with($node, "SET ROLE stranger; SELECT * FROM securefile_duplicates('p', 'doc')", '42501', 'permission denied', 'a role without rights');
fails_with($node, "SET ROLE one; SELECT * FROM securefile_duplicates('p1', 'doc')", '42501', 'permission denied', 'nor one that may read the parent only');
fails_with($node, "SELECT * FROM securefile_duplicates('p', 'id')", '42804', '', 'a column of another type');
is(sql("SELECT count(*) FROM securefile_duplicates(NULL, 'doc')"), '0', 'NULL has no duplicates');
sql(q{CREATE FOREIGN DATA WRAPPER elsewhere; CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere;
	CREATE FOREIGN TABLE p3 PARTITION OF p FOR VALUES FROM (21) TO (31) SERVER elsewhere});
fails_with($node, "SELECT * FROM securefile_duplicates('p', 'doc')", '42809', 'p3" is a foreign table', 'a foreign partition');

# ---- rows, memory, and a cancel request ----

make_table($node, 't');
fill($node, 't', 1, 1, 50000);
my ($one, $other) = map { background($node) } 1 .. 2;
$one->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sql('INSERT INTO t SELECT 2, 1, 50000, doc FROM t');
is($one->query_safe("SELECT count(*) FROM securefile_duplicates('t', 'doc')"), 0, 'rows that the snapshot does not have are not seen');
$one->query_safe('COMMIT');
is($one->query_safe("SELECT count(*) FROM securefile_duplicates('t', 'doc')"), 1, 'others are');

# who waits for a rewrite of the table sees its rows, as SELECT does
$other->query_safe('BEGIN; ALTER TABLE t ALTER id TYPE bigint');
ok(waits_for_lock($node, $one, "SELECT 'groups: ' || count(*) FROM securefile_duplicates('t', 'doc')"), 'it waits for who has the table');
$other->query_safe('COMMIT');
like($one->query('SELECT'), qr/groups: 1/, 'and then sees all rows');
$_->quit foreach $one, $other;

sql("CREATE TABLE many (doc securefile(hash)); INSERT INTO many SELECT noise(i % 10, 4001) FROM generate_series(1, 3000) i");
# few groups, so that the result fits in memory
my ($rc, $out, $err) = $node->psql('postgres', "SET work_mem = '64kB'; SET log_temp_files = 0; SET client_min_messages = log;"
	  . " SELECT count(*), sum(copies), sum(saves_bytes) FROM securefile_duplicates('many', 'doc')");
is("$rc $out", '0 10|3000|12247040', 'beyond work_mem');
like($err, qr/LOG:  temporary file: /, 'values lie in files');
sql('CREATE TABLE long (doc securefile); INSERT INTO long SELECT noise(i % 2, 30000000) FROM generate_series(1, 3) i');
fails_with($node, "SET statement_timeout = '20ms'; SELECT * FROM securefile_duplicates('long', 'doc')", '57014', 'statement timeout', 'a cancel is no damage');
sql('DROP TABLE long');

# ---- counters ----

sub counted
{
	my ($table) = @_;
	return sql("SELECT dedup_hits, dedup_bytes, dedup_mismatches FROM securefile_stat WHERE relname = '$table'");
}

prepare_handles($node);
make_table($node, 'c', 'deduplicate, nocache');
sql('INSERT INTO c SELECT 1, 1, 50000, blob(1, 50000)');
is(counted('c'), '0|0|0', 'a new content is no hit');
sql('INSERT INTO c SELECT i, 1, 50000, blob(1, 50000) FROM generate_series(2, 4) i');
is(counted('c'), '3|150000|0', 'three hits');
sql('INSERT INTO c SELECT 5, 1, 50000, doc FROM c WHERE id = 1');
is(counted('c'), '4|200000|0', 'a copy is one');
sql('INSERT INTO c SELECT 6, 2, 50000, blob(2, 50000); UPDATE c SET seed = 2, doc = doc WHERE id = 6; DELETE FROM c WHERE id = 6');
is(counted('c'), '4|200000|0', 'a row that keeps its value is none');

# streams: 300000 bytes that are there, and some that part from them
sql(q{INSERT INTO c SELECT 7, 3, 300000, blob(3, 300000);
	CREATE FUNCTION streamed(content bytea) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_create('c', 'doc');
	BEGIN
		FOR i IN 0 .. (length(content) - 1) / 50000 LOOP
			PERFORM securefile_write(fd, substring(content FROM i * 50000 + 1 FOR 50000));
		END LOOP;
		RETURN securefile_finish(fd);
	END $$});
sql('INSERT INTO c SELECT 8, 3, 300000, streamed(blob(3, 300000))');
is(counted('c'), '5|500000|0', 'a stream is a hit');
sql(q{INSERT INTO c SELECT 1000, 3, 300000, streamed(overlay(blob(3, 300000) PLACING 'xyz' FROM 260000))});
is(counted('c'), '5|500000|1', 'one that parts from what it was compared with is a mismatch');
sql(q{INSERT INTO c SELECT 1001, 3, 250000, streamed(blob(3, 250000)); INSERT INTO c SELECT 1002, 3, 400000, streamed(blob(3, 300000) || 'more')});
is(counted('c'), '5|500000|1', 'one that ends before or after it is none');
sql('DELETE FROM c WHERE id >= 1000');

# nobody finds out by parts of a unit what is there: right or wrong, they leave no trace
sql(q{CREATE FUNCTION guessed(guess bytea) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_create('c', 'doc');
		lsn pg_lsn;
	BEGIN
		PERFORM securefile_write(fd, substring(blob(3, 300000) FOR 128 * 1024));
		lsn := pg_current_wal_insert_lsn();
		FOR i IN 1 .. length(guess) LOOP
			PERFORM securefile_write(fd, substring(guess FROM i FOR 1));
		END LOOP;
		PERFORM securefile_close(fd);
		RETURN pg_current_wal_insert_lsn() - lsn;
	END $$});
my $written = q{SELECT direct_write_bytes, dedup_mismatches, dedup_hits FROM securefile_stat WHERE relname = 'c'};
foreach my $guess (q{substring(blob(3, 300000) FROM 128 * 1024 + 1 FOR 50)}, q{'something else'::bytea}, q{substring(blob(3, 300000) FROM 128 * 1024 + 1 FOR 50) || 'x'})
{
	my $before = sql($written);
	# other processes of the server write WAL, too, but not each time
	my $wal = 1;
	for (my $try = 0; $wal > 0 && $try < 5; $try++)
	{
		$wal = sql("SELECT guessed($guess)");
	}
	is($wal, 0, "no WAL tells of a guess: $guess");
	is(sql($written), $before, 'nor does a counter');
}

# hashes of 4 bits, and the same length
sql("SELECT securefile_fault('short_hash', 'skip', times => -1)");
sql('INSERT INTO c SELECT i, i, 30000, blob(i, 30000) FROM generate_series(100, 149) i');
disarm($node);
like(counted('c'), qr/^5\|500000\|[1-9]\d+$/, 'contents that have only their hash in common are mismatches');
rows_right($node, 'c', 57, 'and stay apart');

# many contents with the same first unit: each is found by all of its bytes
make_table($node, 's', 'deduplicate');
sql(map { "INSERT INTO s SELECT i + $_, 1, 131080, blob(1, 131072) || int8send(i) FROM generate_series(1, 12) i" } 0, 20);
is(sql(q{SELECT shared_objects, shared_references FROM securefile_usage('s', 'doc')}), '12|24', 'contents with the same first unit are found again');
sql('DELETE FROM s WHERE id % 20 > 8');
settle($node, 's', 'doc');
sql('INSERT INTO s SELECT i + 40, 1, 131080, blob(1, 131072) || int8send(i) FROM generate_series(1, 12) i');
is(sql(q{SELECT shared_objects, shared_references FROM securefile_usage('s', 'doc')}), '12|28', 'also after the newest of them have gone');
is(sql('SELECT count(*), bool_and(doc::bytea = blob(1, 131072) || int8send(id % 20)) FROM s'), '28|t', 'and stay apart');

# what cannot be read is no duplicate
make_table($node, 'd', 'deduplicate, nocache');
fill($node, 'd', 601, 601, 50000);
my ($file) = grep { block_at($_, 601, 10) > 0 } data_files($node);
my $at = block_at($file, 601, 10);
patch($file, $at + 100, chr(ord(substr(slurp($file), $at + 100, 1)) ^ 4));
sql('INSERT INTO d SELECT 602, 601, 50000, blob(601, 50000)');
is(counted('d'), '0|0|1', 'nor a hit');
sql('INSERT INTO d SELECT 603, 601, 50000, blob(601, 50000)');
like(counted('d'), qr/^1\|50000\|[12]$/, 'what was stored instead is one');

# values of another column, which are read for it
make_table($node, 'e', 'deduplicate');
sql('INSERT INTO e SELECT id, seed, len, doc FROM c WHERE id IN (1, 2, 7)');
is(counted('e'), '1|50000|0', 'a value of another column that is there is one');

# copies without bytes, in a column that does not deduplicate
make_table($node, 'r');
sql(q{CREATE FUNCTION gapped() RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_create('r', 'doc');
	BEGIN
		PERFORM securefile_seek(fd, 500000, 0);
		PERFORM securefile_write(fd, 'end'::bytea);
		RETURN securefile_finish(fd);
	END $$});
sql('INSERT INTO r SELECT 1, 1, 1, gapped(); INSERT INTO r SELECT 2, 1, 1, blob(1, 50000)');
sql('INSERT INTO r SELECT id + 10, 1, 1, doc FROM r; INSERT INTO r SELECT 21, 1, 1, doc FROM r WHERE id = 11');
is(counted('r'), '2|1000006|0', 'copies without bytes are hits, others are none');
is(said('length_bytes, copies, saves_bytes', 'r'), "50000|2|50176\n500003|3|0", 'and share their space already');

# ---- a standby ----

$node->backup('base');
my $standby = new_standby('standby', $node, 'base');
sql('INSERT INTO many SELECT noise(1, 4001)');
catch_up($node, $standby);
foreach my $table ('many', 'c', 'r')
{
	my $sql = "SELECT * FROM securefile_duplicates('$table', 'doc')";
	my $there = $standby->safe_psql('postgres', $sql);
	is($there, sql($sql), "$table: a standby says the same");
	isnt($there, '', 'and it is something');
}
$standby->stop;
$node->stop;
done_testing();
