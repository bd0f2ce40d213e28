# Dictionaries of a column (securefile_train): new values are compressed with the newest
# one, values keep the one that they have; every reader gives their bytes, here, on a
# standby, to subscribers and after a crash; they follow a value wherever it goes;
# damage of one is an error, a finding, and can be repaired.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $node = new_cluster('dictionaries', conf => [ 'securefile.monitor = off', 'wal_level = logical', 'max_prepared_transactions = 2', 'allow_in_place_tablespaces = on',
	'full_page_writes = on' ]);
make_raw_type($node);

# Records that are alike, but for a few words and numbers; two kinds of them.
sql(q{
	CREATE FUNCTION record(seed int, len int, kind text DEFAULT 'order') RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substring(string_agg(CASE kind
			WHEN 'order' THEN format(E'{"order": "%s", "customer": {"name": "%s %s", "country": "Switzerland"}, "currency": "EUR", "total": %s, "shipped": true}\n',
				md5(seed || ':' || i), (array['Anna','Ben','Carla','David'])[1 + (seed * i) % 4], (array['Miller','Garcia','Nowak'])[1 + (seed + i) % 3], seed * i % 9973)
			ELSE format(E'<event id="%s" level="warning"><source host="web-%s.example.org"/><message>connection reset by peer</message></event>\n', md5(seed || '/' || i), seed % 17)
			END, '' ORDER BY i)::bytea FROM 1 FOR len)
	   FROM generate_series(1, len / 100 + 1) i $$
});

sub table
{
	my ($t, $options) = @_;
	sql("CREATE TABLE $t (id int PRIMARY KEY, len int, kind text DEFAULT 'order', doc securefile($options))");
	return;
}

my @lengths = (64, 100, 300, 301, 700, 1000, 2000, 5000, 20_000, 60_000, 131_072, 131_073, 300_000);
my $n = @lengths;

# One value of each length, from that id on.
sub add_values
{
	my ($t, $first, $kind) = @_;
	my $values = join(',', map { '(' . ($first + $_ - 1) . ", $lengths[$_ - 1])" } 1 .. $n);
	sql("INSERT INTO $t SELECT id, len, '$kind', record(id, len, '$kind') FROM (VALUES $values) v (id, len)");
	return;
}

sub codecs
{
	my ($t, $where) = @_;
	return sql("SELECT string_agg(DISTINCT s.codec, ',' ORDER BY s.codec) FROM $t, securefile_storage(doc) s WHERE " . ($where || 'true'));
}

sub right
{
	my ($t, $name, $on) = @_;
	my $one = sub { return ($on || $node)->safe_psql('postgres', $_[0]) };
	my $want = 'record(id, len, kind)';
	is($one->("SELECT count(*) FROM $t WHERE doc::bytea IS DISTINCT FROM $want OR length(doc) <> len OR doc <> $want"
			. " OR securefile_digest(doc, 'sha256') <> sha256($want)"), 0, "$name: whole");
	is($one->("SELECT count(*) FROM $t, (VALUES (1, 1), (2, 10), (60, 100), (290, 30), (1, 200000)) v (f, c)"
			. " WHERE substring(doc FROM f FOR c) IS DISTINCT FROM substring($want FROM f FOR c)"), 0, "$name: parts");
	is($one->("SELECT count(*) FROM $t WHERE $want <> (SELECT string_agg(c.data, ''::bytea ORDER BY c.n)"
			. " FROM securefile_chunks(doc, chunk_size => 700) WITH ORDINALITY AS c (data, n))"), 0, "$name: pieces");
	is($one->("SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, "$name: check");
	return;
}

# ---- learning ----

table('t', 'compress');
sql("INSERT INTO t SELECT i, 200 + i % 900, 'order', record(i, 200 + i % 900) FROM generate_series(10001, 11200) i");
my ($number, $bytes, $values, $plain, $stored, $trained) = split /\|/, sql("SELECT * FROM securefile_train('t', 'doc')");
is("$number $values", '1 1200', 'the first dictionary, of all values');
cmp_ok($bytes, '<=', 32768, 'its size');
cmp_ok($trained, '<=', $stored * 3 / 4, 'what small values take with it, and without');
add_values('t', 1, 'order');
unlike(codecs('t', 'id > 10000'), qr/dictionary/, 'older values stay');
is(codecs('t', 'id < 100 AND len BETWEEN 100 AND 131072'), 'zstd with dictionary', 'new ones are compressed with it, up to 128 kB');
is(codecs('t', 'id < 100 AND len > 131072'), 'zstd', 'larger ones are not');
like(sql("SELECT string_agg(DISTINCT s.form, ',' ORDER BY s.form) FROM t, securefile_storage(doc) s WHERE s.codec ~ 'dict'"), qr/^inline,stored$/,
	'in the row and in the segment');
right('t', 'the first dictionary');

# the number of bytes that it is said to save is what new values take
sql("INSERT INTO t SELECT i, 200 + i % 900, 'order', record(i, 200 + i % 900) FROM generate_series(20001, 20240) i");
my $told = $trained / $plain;
my $taken = sql("SELECT sum(s.stored_bytes)::float8 / sum(length(doc)) FROM t, securefile_storage(doc) s WHERE id > 20000");
cmp_ok(abs($taken / $told - 1), '<', 0.1, 'new values take what was told') or diag("told $told, taken $taken");
sql('DELETE FROM t WHERE id > 10000');

# a second one, learnt by a session while another one goes on
my $other = background($node);
$other->query_safe("INSERT INTO t VALUES (500, 700, 'event', record(500, 700, 'event'))");
sql("INSERT INTO t SELECT i, 200 + i % 900, 'event', record(i, 200 + i % 900, 'event') FROM generate_series(10001, 11200) i");
is(sql("SELECT dictionary FROM securefile_train('t', 'doc', 2000)"), 2, 'a second dictionary');
$other->query_safe("INSERT INTO t VALUES (501, 700, 'event', record(501, 700, 'event'))");
my $sizes = $other->query_safe("SELECT string_agg((s.stored_bytes)::text, ' ' ORDER BY id) FROM t, securefile_storage(doc) s WHERE id IN (500, 501)");
my ($with_first, $with_second) = split / /, $sizes;
cmp_ok($with_second, '<', $with_first, 'the other session uses it at once');
$other->quit;
add_values('t', 101, 'event');
right('t', 'two dictionaries');
sql('DELETE FROM t WHERE id > 10000', 'VACUUM t');

# older values get it by a rewrite
table('older', 'compress');
sql("INSERT INTO older SELECT i, 500, 'order', record(i, 500) FROM generate_series(1, 300) i", "SELECT securefile_train('older', 'doc')");
is(sql("SELECT securefile_rewrite('older', 'doc')"), 300, 'a rewrite ..');
is(codecs('older'), 'zstd with dictionary', '.. compresses older values with it');
right('older', 'rewritten');

# what is learnt stays when the transaction does not
sql('BEGIN', "INSERT INTO t SELECT i, 300, 'order', record(i, 300) FROM generate_series(30001, 30300) i",
	"SELECT securefile_train('t', 'doc')", "INSERT INTO t VALUES (30900, 300, 'order', record(30900, 300))", 'ROLLBACK');
is(sql("INSERT INTO t SELECT 600, 300, 'order', record(600, 300) RETURNING (securefile_storage(doc)).codec"), 'zstd with dictionary', 'after a rollback');
right('t', 'after a rollback');

# what is learnt in a copy of the storage goes with that, and its number is given to another one
table('moved', 'compress');
my $learn = "INSERT INTO moved SELECT i, 300, '%1\$s', record(i, 300, '%1\$s') FROM generate_series(%2\$d, %2\$d + 299) i; SELECT dictionary FROM securefile_train('moved', 'doc'); INSERT INTO moved SELECT i, 300, '%1\$s', record(i, 300, '%1\$s') FROM generate_series(%2\$d + 300, %2\$d + 310) i";
my @move = ('BEGIN', "SELECT securefile_set_tablespace('moved', 'doc', 'space')", sprintf($learn, 'event', 1));
sql("CREATE TABLESPACE space LOCATION ''");
is(sql(@move, 'ROLLBACK', sprintf($learn, 'order', 1)), "\n1\n1", 'a dictionary is rolled back with a move, and its number comes again');
right('moved', 'after a move that was rolled back');
sql('TRUNCATE moved', @move, "PREPARE TRANSACTION 'p'", "ROLLBACK PREPARED 'p'", sprintf($learn, 'order', 1));
right('moved', 'after a move that was prepared and rolled back');
sql('DROP TABLE moved');

# ---- wherever values go ----

table('copied', 'compress_high');
sql('INSERT INTO copied SELECT * FROM t');
unlike(codecs('copied'), qr/dictionary/, 'another table has no use for the dictionary');
right('copied', 'copied');
sql('CREATE TABLE made AS SELECT * FROM t');
right('made', 'CREATE TABLE AS');
sql('CREATE UNLOGGED TABLE kept AS SELECT * FROM t', 'ALTER TABLE t ADD second securefile(compress)', 'UPDATE t SET second = doc');
is(sql('SELECT count(*) FROM t WHERE second <> doc OR (securefile_storage(second)).codec ~ $$dict$$'), 0, 'another column of the table');
sql('UPDATE t SET second = NULL', 'UPDATE t SET id = id');
my $same = sql("SELECT md5(string_agg(md5((doc::raw)::bytea), ',' ORDER BY id)) FROM t");
sql('VACUUM FULL t', 'CLUSTER t USING t_pkey', 'ALTER TABLE t ADD third float8 DEFAULT random()', 'ALTER TABLE t DROP third');
is(sql("SELECT md5(string_agg(md5((doc::raw)::bytea), ',' ORDER BY id)) FROM t"), $same, 'rewrites of the table leave values alone');
right('t', 'after rewrites');
sql("UPDATE t SET doc = doc || 'end'::bytea WHERE len < 131072");
is(sql("SELECT count(*) FROM t WHERE len < 131072 AND doc <> record(id, len, kind) || 'end'"), 0, 'edited');
is(codecs('t', 'len BETWEEN 300 AND 60000'), 'zstd with dictionary', 'and compressed with it again');
sql('UPDATE t SET doc = record(id, len, kind)');

# TRUNCATE begins a segment, which gets the newest dictionary; older values are not its own
sql('TRUNCATE t');
sql('INSERT INTO t SELECT * FROM kept');
is(codecs('t', 'len BETWEEN 300 AND 60000'), 'zstd with dictionary', 'after TRUNCATE');
right('t', 'after TRUNCATE');
fails_with($node, 'DO $$ DECLARE d securefile; BEGIN SELECT doc INTO d FROM t WHERE id = 5; TRUNCATE t; INSERT INTO t VALUES (5, 700, $q$order$q$, d);'
	. ' END $$', '42704', 'no longer exists', 'a value of before a TRUNCATE is not stored');
is(sql('SELECT length(doc::bytea) FROM t WHERE id = 5', 'DO $$ DECLARE d securefile; BEGIN SELECT doc INTO d FROM t WHERE id = 5; TRUNCATE t; INSERT INTO t VALUES (5, 700, $q$order$q$, d); END $$')
	. codecs('t'), '700zstd with dictionary', '.. unless the session has its dictionary: it is encoded anew');
sql('TRUNCATE t', 'INSERT INTO t SELECT * FROM kept');
right('t', 'after all');
sql("SELECT securefile_rewrite('t', 'doc', 'filesystem_like_logging')");
is(codecs('t', 'len BETWEEN 300 AND 60000'), 'zstd with dictionary', 'after securefile_rewrite');
right('t', 'after securefile_rewrite');
sql("SELECT securefile_rewrite('t', 'doc', 'logging')");
sql('ALTER TABLE t ALTER doc TYPE securefile(nocompress)', "SELECT securefile_rewrite('t', 'doc')");
is(codecs('t'), 'none', 'without compression there is none');
right('t', 'without compression');
sql('ALTER TABLE t ALTER doc TYPE securefile(compress_high)', "SELECT securefile_rewrite('t', 'doc')");
is(codecs('t', 'len BETWEEN 300 AND 60000'), 'zstd with dictionary', 'and back');
right('t', 'and back');

# what ALTER TABLE computes is compressed, also where nothing goes to the segment
table('computed', 'compress');
sql("INSERT INTO computed SELECT i, 500, 'order', record(i, 500) FROM generate_series(1, 300) i");
sql("ALTER TABLE computed ALTER doc TYPE securefile(compress_high) USING doc::bytea");
is(codecs('computed'), 'zstd', 'ALTER TYPE .. USING compresses');
sql("SELECT securefile_train('computed', 'doc')", "ALTER TABLE computed ALTER doc TYPE securefile(compress) USING doc::bytea");
is(codecs('computed'), 'zstd with dictionary', 'also with the dictionary');
right('computed', 'computed');
sql("ALTER TABLE computed ADD more securefile(compress) DEFAULT record(7 + (random() * 0)::int, 700)");
is(sql('SELECT DISTINCT s.codec FROM computed, securefile_storage(more) s'), 'zstd', 'so does ADD COLUMN .. DEFAULT');

# the logging mode cannot change under values that need the dictionary, though none is in the segment
table('small', 'compress');
sql("INSERT INTO small SELECT i, 500, 'order', record(i, 500) FROM generate_series(1, 300) i", "SELECT securefile_train('small', 'doc')",
	"UPDATE small SET len = 501, doc = record(id, 501)");
is(codecs('small'), 'zstd with dictionary', 'all values need the dictionary, and none is stored in the segment');
fails_with($node, 'ALTER TABLE small ALTER doc TYPE securefile(compress, filesystem_like_logging)', '55000', 'while values are stored', 'the logging mode stays');
right('small', 'and the values');

# ---- standby, crash, decoding ----

$node->backup('base');
my $standby = new_standby('standby', $node, 'base');
sql("INSERT INTO t SELECT i, 300 + i % 500, 'event', record(i, 300 + i % 500, 'event') FROM generate_series(40001, 40900) i",
	"SELECT securefile_train('t', 'doc')", 'DELETE FROM t WHERE id > 40000');
add_values('t', 201, 'event');
catch_up($node, $standby);
right('t', 'on a standby', $standby);
fails_with($standby, "SELECT securefile_train('t', 'doc')", '25006', 'read-only transaction', 'a standby learns nothing');
$standby->stop;

sql("SELECT pg_create_logical_replication_slot('s', 'test_decoding')", "INSERT INTO t SELECT 700, 900, 'order', record(700, 900)", 'TRUNCATE kept');
$node->stop('immediate');
$node->start;
right('t', 'after a crash');
sql('INSERT INTO kept SELECT id, len, kind, doc FROM t', 'DROP TABLE t');
is(sql("SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE data ~ encode(record(700, 900), 'hex')"), 1,
	'decoded after the table is gone');
sql("SELECT pg_drop_replication_slot('s')");

# ---- what is refused ----

table('few', 'compress');
sql("INSERT INTO few SELECT i, 300, 'order', record(i, 300) FROM generate_series(1, 10) i", 'CREATE ROLE nobody LOGIN');
fails_with($node, "SELECT securefile_train('few', 'doc')", '55000', 'too little to learn from', 'too few values');
fails_with($node, "SELECT securefile_train('few', 'doc', 5)", '22023', 'sample_rows', 'too small a sample');
fails_with($node, "SELECT securefile_train('few', 'len')", '42804', 'not of type securefile', 'another column');
fails_with($node, "SELECT securefile_train('few', 'doc')", '42501', 'must be owner', 'somebody else', user => 'nobody');
fails_with($node, "SELECT securefile_train('kept', 'doc')", '55000', 'has no segments', 'an unlogged table');
sql('ALTER TABLE few ALTER doc TYPE securefile(compress_low)', 'CREATE TABLE parts (id int, doc securefile(compress)) PARTITION BY RANGE (id)');
fails_with($node, "SELECT securefile_train('few', 'doc')", '55000', 'does not use dictionaries', 'LZ4');
fails_with($node, "SELECT securefile_train('parts', 'doc')", '42809', 'partitioned', 'a partitioned table');
table('noisy', 'compress');
sql("INSERT INTO noisy SELECT i, 300, 'order', noise(i, 300) FROM generate_series(1, 400) i");
like(sql("SELECT coalesce(dictionary::text, 'none') FROM securefile_train('noisy', 'doc')"), qr/^none$/, 'nothing to gain');

# ---- damage ----

table('d', 'compress');
sql("INSERT INTO d SELECT i, 200 + i % 900, 'order', record(i, 200 + i % 900) FROM generate_series(1, 600) i", "SELECT securefile_train('d', 'doc')",
	'DELETE FROM d WHERE id NOT BETWEEN 401 AND 420', 'UPDATE d SET doc = record(id, len, kind)', 'VACUUM FULL d', 'CHECKPOINT');
right('d', 'before damage');
my $segment = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('pg_toast.pg_securefile_' || 'd'::regclass::oid || '_4')");
my $old_header = do { $node->stop; my $pages = slurp($segment); $node->start; $pages };

my @pages = pages_of(slurp($segment), PAGE_DICTIONARY);
cmp_ok(scalar(@pages), '>', 1, 'a dictionary has several pages');

sub damaged
{
	my ($what, @patches) = @_;
	$node->stop;
	patch($segment, $_->[0], $_->[1]) foreach @patches;
	$node->start;
	return;
}

foreach my $case ([ 'a page is zeros', [ $pages[1] * 8192, "\0" x 8192 ] ], [ 'a byte', [ $pages[1] * 8192 + 5000, 'x' ] ],
	[ 'a byte, and no seal', [ $pages[1] * 8192 + 5000, 'x' ], [ $pages[1] * 8192 + 8184, "\0" x 8 ] ],
	[ 'a number, and no seal', [ $pages[0] * 8192 + 32, pack('L', 77) ], [ $pages[0] * 8192 + 8184, "\0" x 8 ] ],
	[ 'a length, and no seal', [ $pages[0] * 8192 + 36, pack('L', 32 * 1024 + 1) ], [ $pages[0] * 8192 + 8184, "\0" x 8 ] ],
	[ 'the next page is itself', [ $pages[0] * 8192 + 44, pack('L', $pages[0]) ], [ $pages[0] * 8192 + 8184, "\0" x 8 ] ],
	[ 'the one before is itself', [ $pages[0] * 8192 + 48, pack('L', $pages[0]) ], [ $pages[0] * 8192 + 8184, "\0" x 8 ] ])
{
	my ($what, @patches) = @$case;
	damaged($what, @patches);
	fails_with($node, 'SELECT count(doc::bytea) FROM d', 'XX001', 'damaged', "$what: not read");
	my ($rc, $out, $err) = $node->psql('postgres', "INSERT INTO d SELECT 900, 700, 'order', record(900, 700) RETURNING (securefile_storage(doc)).codec");
	like("$out $err", qr/^zstd .*are stored without its dictionary/, "$what: not written with");
	is(sql('DELETE FROM d WHERE id = 900 RETURNING doc::bytea = record(900, 700)'), 't', "$what: what is written can be read");
	cmp_ok(sql("SELECT count(*) FROM securefile_check('d', 'doc') WHERE ctid IS NOT NULL"), '>=', 20, "$what: the check names all rows");
	cmp_ok(sql("SELECT count(*) FROM securefile_check('d', 'doc') WHERE ctid IS NULL"), '>=', 1, "$what: and the page");
	is(sql("SELECT count(*) FROM securefile_repair('d', 'doc', false) WHERE action NOT IN ('none', 'keep')"), 0, "$what: nothing is freed");
	damaged("$what, undone", [ 0, $old_header ]);
	right('d', "$what: undone");
}

# an old header page, of before the dictionary
damaged('an old header', [ 24 + 96, "\0" x 24 ], [ 8184, "\0" x 8 ]);
fails_with($node, 'SELECT count(doc::bytea) FROM d', 'XX001', 'needs a dictionary that its segment does not have.*dictionary 1\b.*securefile_repair', 'an old header: not read');
like(sql("SELECT string_agg(DISTINCT finding, ',') FROM securefile_check('d', 'doc') WHERE ctid IS NULL"), qr/header page behind/, 'an old header: found');
sql("SELECT * FROM securefile_repair('d', 'doc', false)");
right('d', 'an old header: repaired');
is(sql("INSERT INTO d SELECT 901, 700, 'order', record(901, 700) RETURNING (securefile_storage(doc)).codec"), 'zstd with dictionary', 'and used again');

# a damaged dictionary that no value needs any more
damaged('a byte', [ $pages[1] * 8192 + 5000, 'x' ]);
sql('DELETE FROM d', 'VACUUM d');
cmp_ok(sql("SELECT count(*) FROM securefile_check('d', 'doc')"), '>', 0, 'nobody needs it: found');
sql("SELECT * FROM securefile_repair('d', 'doc', false)");
is(sql("SELECT count(*) FROM securefile_check('d', 'doc')"), 0, 'repaired');
add_values('d', 1, 'order');
is(codecs('d', 'len BETWEEN 300 AND 60000'), 'zstd', 'it is forgotten');
sql("INSERT INTO d SELECT i, 200 + i % 900, 'order', record(i, 200 + i % 900) FROM generate_series(1001, 1600) i");
is(sql("SELECT dictionary FROM securefile_train('d', 'doc')"), 2, 'its number is not given again');
add_values('d', 101, 'order');
right('d', 'in the end');

# ---- a damaged value in its row ----

my $good = pack('H*', sql("SELECT encode((doc::raw)::bytea, 'hex') FROM d WHERE id = 106"));
is(ord($good), 6, 'a value with a dictionary, seen as bytes');
my %damaged = (
	'another codec' => [ 1, "\x02" ], 'a column that there is not' => [ 2, pack('S', 9) ], 'column 0' => [ 2, "\0\0" ],
	'a table that there is not' => [ 4, pack('L', 4_000_000_000) ], 'another incarnation' => [ 8, pack('Q', 12345) ],
	'length 0' => [ 16, "\0\0\0\0" ], 'a longer length' => [ 16, pack('L', 1001) ], 'the check' => [ 20, chr(ord(substr($good, 20, 1)) ^ 1) ],
	'the magic number' => [ 24, "\0" ], 'another dictionary' => [ 30, "\x01" ], 'a dictionary that there is not' => [ 30, "\x63" ],
	'the middle' => [ length($good) / 2, chr(ord(substr($good, length($good) / 2, 1)) ^ 4) ],
);
foreach my $what (sort keys %damaged)
{
	my $value = raw_value_with($good, @{ $damaged{$what} });
	foreach my $expression ("$value\::bytea", "substring($value FROM 10 FOR 3)", "securefile_digest($value, 'md5')")
	{
		fails_with($node, "SELECT $expression", '(XX001|42704)', '', "$what: " . substr($expression, -20));
	}
	fails_with($node, "INSERT INTO d SELECT 999, 1, 'order', $value", '(XX001|42704)', '', "$what: not stored");
}
right('d', 'after damaged values');
$node->stop;
done_testing();
