# Kept hashes: what is read for them and when none is kept, changes of the option, indexes and
# generated columns, damage, encryption, dump, standby and subscriber.

use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $keys = PostgreSQL::Test::Utils::tempdir() . '/keys';
append_to_file($keys, 'one ' . ('11' x 32) . "\n");
chmod 0644, $keys;
my $node = new_cluster('hash_rest', conf => [ "securefile.key_command = 'cat $keys'", 'securefile.monitor = off', 'wal_level = logical', 'autovacuum = off' ]);
need_faults($node);

# What is wrong with the hashes of a table, by id; and which rows keep one.
my $right = "securefile_digest(doc) = sha256(doc::bytea) AND securefile_kept_digest(doc) IS NOT DISTINCT FROM CASE WHEN (securefile_storage(doc)).hashed THEN sha256(doc::bytea) END";
sub wrong { return sql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $_[0] WHERE NOT ($right)") }
sub kept { return sql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $_[0] WHERE securefile_kept_digest(doc) IS NOT NULL") }

# ---- what costs a read ----

# Bytes that a transaction reads of a column's data files; direct reads.
sub bytes_read
{
	my ($table, @sql) = @_;
	my $of = "SELECT direct_read_bytes FROM securefile_stat WHERE relname = '$table'";
	my $before = sql($of);
	sql(@sql);
	return sql($of) - $before;
}

make_table($node, 'cost', 'hash, nocache');
prepare_handles($node);
is(bytes_read('cost', 'INSERT INTO cost SELECT i, i, 5000000, blob(i, 5000000) FROM generate_series(1, 3) i'), 0, 'a value that is given whole is not read');
is(bytes_read('cost', 'BEGIN', q{SELECT made('cost', 4, 3000001) AS h INTO TEMP h}, 'INSERT INTO cost SELECT 4, 4, 3000001, securefile_finish(h) FROM h', 'COMMIT'), 0, 'nor is a stream');
is(wrong('cost') . '|' . kept('cost'), '|1 2 3 4', 'their hashes');
cmp_ok(bytes_read('cost', q{UPDATE cost SET doc = doc || '\x00' WHERE id = 4}), '<=', 132 * 1024, 'appending reads the last unit, which it writes anew');
cmp_ok(bytes_read('cost', q{UPDATE cost SET doc = overlay(doc PLACING 'x' FROM 4000000) WHERE id = 1}), '>=', 5_000_000, 'a change in the middle reads all');
is(bytes_read('cost', q{SELECT count(securefile_digest(doc)) FROM cost}), 0, 'securefile_digest() reads nothing');
cmp_ok(bytes_read('cost', q{SELECT count(securefile_digest(doc, 'sha256')) FROM cost}), '>=', 18_000_000, 'with an algorithm it does');
is(wrong('cost') . '|' . kept('cost'), '|1 2 3 4', 'their hashes');

# more than 64 MB, and than was written
make_table($node, 'large', 'hash, compress_low');
sub set_large { return "INSERT INTO large SELECT $_[0], 0, 0, convert_to(repeat('0123456789abcdef', $_[1]), 'SQL_ASCII')" }
my $units = 64 * 8;		# of 64 MB
sql(set_large(1, $units * 8192 + 1000), set_large(2, $units * 8192 + 1000), set_large(3, $units * 8192 - 1000));
is(kept('large'), '1 2 3', 'hashes of large values');
sql(q{UPDATE large SET doc = overlay(doc PLACING 'x' FROM 4000) WHERE id = 1}, q{UPDATE large SET doc = doc || 'x' WHERE id = 2}, q{UPDATE large SET doc = overlay(doc PLACING 'x' FROM 4000) WHERE id = 3});
is(wrong('large') . '|' . kept('large'), '|2 3', 'a change in the middle of one that is too large loses it; appending does not');
sql(q{UPDATE large SET doc = doc || 'y' WHERE id = 1});
is(kept('large'), '2 3', 'and it does not come back when the value is appended to');
# a stream that comes back to its beginning has written as much as it reads
sql('BEGIN', "SELECT securefile_create('large', 'doc') AS h INTO TEMP h",
	"SELECT count(securefile_write(h, convert_to(repeat(md5(i::text), 65536), 'SQL_ASCII'))) FROM h, generate_series(1, 40) i",
	'SELECT securefile_seek(h, 0, 0) FROM h', "SELECT securefile_write(h, 'header') FROM h",
	'INSERT INTO large SELECT 4, 0, 0, securefile_finish(h) FROM h', 'COMMIT');
# gaps: of a terabyte, and of less than 64 MB
foreach my $case ([ 5, '1000000000000' ], [ 6, '60000000' ])
{
	my ($id, $len) = @$case;
	# to hash the zeros of a terabyte would take a quarter of an hour
	sql("SET statement_timeout = '@{[ patience() ]}s'", 'BEGIN', "SELECT securefile_create('large', 'doc') AS h INTO TEMP h", "SELECT securefile_write(h, 'start') FROM h",
		"SELECT securefile_seek(h, $len, 0) FROM h", "SELECT securefile_write(h, 'end') FROM h",
		"INSERT INTO large SELECT $id, 0, 0, securefile_finish(h) FROM h", 'COMMIT');
}
is(kept('large'), '2 3 4 6', 'a stream that comes back, and small gaps');
is(sql("SELECT encode(securefile_digest(doc), 'hex') FROM large WHERE id = 6"), sha256_hex('start' . ("\0" x 59_999_995) . 'end'), 'a gap is hashed as zeros');
sql('DELETE FROM large WHERE id = 5', "SELECT securefile_rewrite('large', 'doc')");
is(wrong('large') . '|' . kept('large'), '|1 2 3 4 6', 'a rewrite gives all of them one');
is(sql("SELECT count(*) FROM securefile_check('large', 'doc')"), 0, 'the check hashes gaps, too');
sql('DROP TABLE large');

# ---- the option ----

make_table($node, 'option', '');
fill($node, 'option', 1, 6, 'i * 3000');
my $file = sql("SELECT pg_relation_filenode('option')");
is(kept('option'), '', 'without the option none is kept');
sql('ALTER TABLE option ALTER doc TYPE securefile(hash)');
is(sql("SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'option'::regclass AND attname = 'doc'"), 'securefile(hash)', 'as \d shows it');
is(sql("SELECT pg_relation_filenode('option')"), $file, 'ALTER TABLE rewrites nothing');
is(kept('option'), '', 'and old values keep none');
sql(q{UPDATE option SET doc = doc || 'x', len = NULL WHERE id = 2}, 'UPDATE option SET seed = seed WHERE id = 3', 'INSERT INTO option SELECT 7, 7, 9000, blob(7, 9000)');
is(wrong('option') . '|' . kept('option'), '|2 7', 'new versions do');
sql("SELECT securefile_rewrite('option', 'doc')");
is(wrong('option') . '|' . kept('option'), '|2 3 4 5 6 7', 'securefile_rewrite() adds it');
sql('ALTER TABLE option ALTER doc TYPE securefile(no_hash)', q{UPDATE option SET doc = doc || 'y', len = NULL WHERE id = 5});
is(wrong('option') . '|' . kept('option'), '|2 3 4 6 7', 'without the option a new version keeps none, and the others keep theirs');
sql(q{CALL securefile_rewrite_online('option', 'doc')});
is(kept('option'), '', 'a rewrite takes it away');
sql('ALTER TABLE option ALTER doc TYPE securefile(hash, compress)', q{CALL securefile_rewrite_online('option', 'doc', 1)});
is(wrong('option') . '|' . kept('option'), '|2 3 4 5 6 7', 'securefile_rewrite_online() adds it');
sql('CREATE TABLE copies (id int, doc securefile(hash))', 'INSERT INTO copies SELECT id, doc FROM option', 'CREATE TABLE plain_copies (id int, doc securefile)', 'INSERT INTO plain_copies SELECT id, doc FROM copies');
is(wrong('copies') . '|' . kept('copies') . '|' . kept('plain_copies'), '|2 3 4 5 6 7|', 'copies are as their column asks for');
sql('CREATE TEMP TABLE x (id int, doc securefile(hash)); INSERT INTO x SELECT id, doc FROM option');
sql('CREATE UNLOGGED TABLE unlogged (id int, doc securefile(hash)); INSERT INTO unlogged SELECT id, doc FROM option');
is(wrong('unlogged') . '|' . kept('unlogged'), '|', 'in an unlogged table none is kept');
sql('ALTER TABLE unlogged SET LOGGED');
is(wrong('unlogged') . '|' . kept('unlogged'), '|2 3 4 5 6 7', 'SET LOGGED stores them, with a hash');
sql('CREATE TABLE from_bytea (id int, doc bytea); INSERT INTO from_bytea SELECT i, blob(i, i * 3000) FROM generate_series(1, 4) i; ALTER TABLE from_bytea ALTER doc TYPE securefile(hash)');
is(wrong('from_bytea') . '|' . kept('from_bytea'), '|2 3 4', 'ALTER TYPE from bytea, too');

# ---- indexes, generated columns, triggers ----

sql('CREATE TABLE gen (id int PRIMARY KEY, doc securefile(hash), sha bytea GENERATED ALWAYS AS (securefile_digest(doc)) STORED)',
	'CREATE INDEX gen_doc ON gen (securefile_digest(doc))', 'CREATE UNIQUE INDEX gen_sha ON gen (sha)',
	'INSERT INTO gen SELECT i, blob(i, i * 2000) FROM generate_series(0, 50) i', "UPDATE gen SET doc = doc || 'x' WHERE id % 3 = 0");
is(sql("SELECT count(*) FROM gen WHERE sha = sha256(doc::bytea)"), 51, 'a generated column');
like(sql("SET enable_seqscan = off; EXPLAIN (COSTS OFF) SELECT FROM gen WHERE securefile_digest(doc) = sha256(blob(20, 40000))"), qr/Index.* gen_doc/, 'an index on the digest is used');
is(sql("SET enable_seqscan = off; SELECT id FROM gen WHERE securefile_digest(doc) = sha256(blob(20, 40000))"), 20, 'and finds it');
fails_with($node, 'INSERT INTO gen SELECT 99, blob(20, 40000)', '23505', qr/gen_sha/, 'a unique index on it');
is(bytes_read('gen', 'REINDEX TABLE gen', 'ANALYZE gen'), 0, 'REINDEX and ANALYZE read no data');
is(sql("SELECT count(*) FROM gen a JOIN gen b ON securefile_digest(a.doc) = securefile_digest(b.doc)"), 51, 'a join');
sql('CREATE TABLE seen (id int, before bytea, after bytea)',
	q{CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF tg_when = 'BEFORE' THEN INSERT INTO seen VALUES (NEW.id, securefile_digest(NEW.doc)); ELSE UPDATE seen SET after = securefile_kept_digest(NEW.doc) WHERE id = NEW.id; END IF; RETURN NEW; END $$},
	'CREATE TRIGGER a BEFORE INSERT ON copies FOR EACH ROW EXECUTE FUNCTION see()', 'CREATE TRIGGER b AFTER INSERT ON copies FOR EACH ROW EXECUTE FUNCTION see()',
	'INSERT INTO copies SELECT 100, blob(100, 100000)');
is(sql('SELECT before = after AND after = sha256(blob(100, 100000)) FROM seen'), 't', 'in triggers');
sql(q{BEGIN; INSERT INTO gen SELECT 200, blob(200, 200000); SAVEPOINT s; UPDATE gen SET doc = doc || 'x' WHERE id = 200; ROLLBACK TO s; UPDATE gen SET doc = doc || 'z' WHERE id = 200; PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'});
is(sql(q{SELECT sha = sha256(blob(200, 200000) || 'z'::bytea) AND sha = securefile_kept_digest(doc) FROM gen WHERE id = 200}), 't', 'a savepoint, a prepared transaction');

# ---- damage ----

make_table($node, 'damaged', 'hash, nocache');
fill($node, 'damaged', 1, 2, 300000);
my $path = data_file_of($node, segment_of($node, 'damaged'));
my $piece = sql('SELECT convert_from(substring(blob(1, 300000) FROM 150000 FOR 40), $$SQL_ASCII$$)');
patch($path, index(slurp_file($path), $piece), 'X');
is(sql('SELECT encode(securefile_digest(doc), $$hex$$) = encode(sha256(blob(1, 300000)), $$hex$$) FROM damaged WHERE id = 1'), 't', 'a kept hash says what the value was, also when its data is damaged');
fails_with($node, q{SELECT securefile_digest(doc, 'sha256') FROM damaged WHERE id = 1}, 'XX001', qr/./, 'with an algorithm it is read');
fails_with($node, q{UPDATE damaged SET doc = overlay(doc PLACING 'x' FROM 10) WHERE id = 1}, 'XX001', qr/./, 'so it is when its hash is made anew');
is(sql("SELECT string_agg(finding, ' ') FROM securefile_check('damaged', 'doc')"), 'checksum mismatch', 'the check finds the unit only');
# a hash that is wrong, with units that are right
foreach my $options ('hash', 'hash, encrypt', 'hash, compress_low')
{
	my $t = 'spoilt_' . ($options =~ s/\W+/_/gr);
	make_table($node, $t, $options);
	fill($node, $t, 1, 2, 300000);
	arm($node, 'hash_right', 'skip');
	fill($node, $t, 3, 3, 300000);
	is(sql("SELECT string_agg(finding || ' ' || t.id, ', ') FROM securefile_check('$t', 'doc') c JOIN $t t ON t.ctid = c.ctid"), 'content hash differs 3', "$options: a wrong hash is found");
	is(wrong($t), '3', 'and that is what it is');
	is(sql("SELECT count(*) FROM $t WHERE doc::bytea = blob(seed, len)"), 3, 'the value can be read');
	is(sql("SELECT count(*) FROM securefile_repair('$t', 'doc', false) WHERE action <> 'none'"), 0, 'a repair changes nothing');
	sql("SELECT securefile_rewrite('$t', 'doc')");
	is(wrong($t) . '|' . sql("SELECT count(*) FROM securefile_check('$t', 'doc')"), '|0', 'a rewrite makes it right');
	rows_right($node, $t, 3, $options);
}

# ---- encryption ----

make_table($node, 'secret', 'hash, encrypt');
make_table($node, 'open', 'hash');
fill($node, $_, 1, 3, 'i * 200000') foreach 'secret', 'open';
sql('CHECKPOINT');
# digest and midstate in the files of a table: of the first value
my $digest = pack('H*', sql('SELECT encode(sha256(blob(1, 200000)), $$hex$$)'));
sub in_file { return index(slurp_file($node->data_dir . '/' . sql("SELECT pg_relation_filepath('$_[0]')")), $digest) >= 0 }
ok(in_file('open'), 'the digest stands in the row');
ok(!in_file('secret'), 'and not where the column encrypts');
is(wrong('secret') . '|' . kept('secret'), '|1 2 3', 'its hashes are right');
sql(q{UPDATE secret SET doc = doc || 'x', len = NULL});
is(wrong('secret') . '|' . kept('secret'), '|1 2 3', 'also when they go on');
is(sql('SELECT count(DISTINCT securefile_digest(doc)) FROM secret'), 3, 'each its own');
is($node->safe_psql('postgres', "BEGIN; SELECT securefile_new_key('secret', 'doc'); COMMIT"), 2, 'a new key');
sql(q{UPDATE secret SET doc = doc || 'y' WHERE id = 1}, q{UPDATE secret SET doc = substring(doc FROM 1)::bytea::securefile WHERE id = 2});
is(wrong('secret') . '|' . kept('secret'), '|1 2 3', 'with two keys');
sql('SELECT securefile_load_keys()');
my $all = slurp_file($keys);
unlink $keys;
append_to_file($keys, 'two ' . ('22' x 32) . "\n");
chmod 0644, $keys;
sql('SELECT securefile_load_keys()');
fails_with($node, "SELECT $_(doc) FROM secret", '55000', qr/is not loaded/, "without the key: $_()") foreach 'securefile_digest', 'securefile_kept_digest';
is(sql('SELECT count(*) FROM secret, securefile_storage(doc) WHERE hashed'), 3, 'without the key: it can be seen that there is one');
is(sql("SELECT count(*) FROM securefile_check('secret', 'doc')"), 0, 'without the key: the check is content');
unlink $keys;
append_to_file($keys, $all);
chmod 0644, $keys;
sql('SELECT securefile_load_keys()');
is(wrong('secret'), '', 'and with it again');

# ---- elsewhere ----

my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres'), '-t', 'gen', '-t', 'copies' ], 'pg_dump');
sql('CREATE DATABASE restored');
$node->safe_psql('restored', 'CREATE EXTENSION securefile; CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $dump ], 'pg_restore');
my $state = "SELECT count(*), count(securefile_kept_digest(doc)), md5(string_agg(id || encode(securefile_digest(doc), 'hex') || encode(sha, 'hex'), ' ' ORDER BY id)) FROM gen";
is($node->safe_psql('restored', $state), sql($state), 'a restored dump keeps the same hashes');
$node->backup('b');
my $standby = new_standby('hash_standby', $node, 'b');
sql('INSERT INTO gen SELECT 300, blob(300, 300000)');
$node->wait_for_catchup($standby, 'replay');
is($standby->safe_psql('postgres', $state), sql($state), 'a standby has them');
is($standby->safe_psql('postgres', "SELECT count(*) FROM secret WHERE securefile_digest(doc) = sha256(doc::bytea)"), 3, 'also encrypted ones');
sql('CREATE PUBLICATION p FOR TABLE gen');
my $subscriber = new_cluster('hash_subscriber');
$subscriber->safe_psql('postgres', 'CREATE TABLE gen (id int PRIMARY KEY, doc securefile(hash), sha bytea GENERATED ALWAYS AS (securefile_digest(doc)) STORED)');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '" . $node->connstr . " dbname=postgres' PUBLICATION p");
$subscriber->wait_for_subscription_sync($node, 's');
sql('INSERT INTO gen SELECT 400, blob(400, 200000)', q{UPDATE gen SET doc = doc || 'more' WHERE id = 300});
$node->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', $state), sql($state), 'a subscriber makes the same');

unlike(slurp_file($_->logfile), qr/TRAP: |PANIC|\bXX000\b/, 'no crash of its own') foreach $node, $standby, $subscriber;
done_testing();
