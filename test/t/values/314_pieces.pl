# Values in pieces: bytes are inserted and removed in the middle, and the rest is not written anew.
# Random edits beside bytes in memory, with kills; how much is written, by the first edits and by
# later ones; how short pieces can be, and what they leave unused; which answers go by the length of
# the value; copies; what a deletion leaves on disk; parts of a dump; damage.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileRandom;
use SecurefileTest;
use Test::More;

use constant UNIT => 131072;

my $edits = $ENV{SECUREFILE_PIECE_EDITS} || 40;
my $node = new_cluster('pieces', conf => [ master_key(), 'fsync = off', 'securefile.monitor = off', "max_wal_size = '2GB'", 'restart_after_crash = on' ]);
need_faults($node);
my $dsn = $node->connstr('postgres');

# ---- at random ----

foreach my $options ('', 'compress, hash', 'encrypt, deduplicate', "disable_storage_in_row, 'retention 1 day', 'max_size 1 GB'", 'filesystem_like_logging')
{
	random_run('pieces', 'model/pieces.py', '--dsn', $dsn, '--edits', $edits, '--options', $options);
}
random_run('pieces, killed', 'model/pieces.py', '--dsn', $dsn, '--edits', $edits, '--crash');
unlike(slurp($node->logfile), qr/PANIC|TRAP: /, 'no assertion fails');
disarm($node);

# ---- tools ----

sub storage { return sql("SELECT s.pieces, s.unused_bytes, s.length FROM $_[0], securefile_storage(doc) s WHERE id = $_[1]"); }
sub stored { return sql("SELECT s.stored_bytes FROM $_[0], securefile_storage(doc) s WHERE id = $_[1]"); }
sub no_findings { return is(sql("SELECT f::text FROM securefile_check('$_[0]', 'doc') f"), '', "$_[0] has nothing to be found"); }
sub maintain { return sql("SELECT count(*) FROM securefile_maintain('$_[0]', 'doc')"); }
# bytes that a session of its own has written to files, WAL among them
sub wal { return sql('SELECT pg_current_wal_insert_lsn() - \'0/0\'::pg_lsn'); }
sub written
{
	my ($table, @statements) = @_;
	my $before = wal();
	sql(@statements);
	return wal() - $before;
}

# ---- how much is written (L43) ----

# In a logging column all bytes of values are in WAL, too.  A checkpoint before keeps images of pages
# out of the comparison by being in all of them.
make_table($node, 'costs', 'logging');
sql('INSERT INTO costs VALUES (1, 1, 1, noise(1, 41943040))');
sql('CHECKPOINT');
my $first = written('costs', "UPDATE costs SET doc = securefile_insert(doc, 1001, '0123456789') WHERE id = 1");
cmp_ok($first, '<=', 2 * UNIT + 200_000, 'an insertion of ten bytes writes little');
like(storage('costs', 1), qr/^2\|131062\|41943050$/, 'two pieces: a unit was copied');
sql(q{DO $$ BEGIN FOR i IN 1 .. 150 LOOP
	UPDATE costs SET doc = securefile_insert(doc, 1 + (i * 7919 * 1000003::bigint) % length(doc), 'abcdefghij') WHERE id = 1; END LOOP; END $$}, 'CHECKPOINT');
my $later = written('costs', "UPDATE costs SET doc = securefile_insert(doc, 20000001, '0123456789') WHERE id = 1");
cmp_ok($later, '<=', 2 * (2 * UNIT + 200_000), 'so does a later one, where pieces are short');
maintain('costs');
no_findings('costs');

# ---- how short pieces can be, and what is unused (L44, L45) ----

my ($pieces, $unused, $length) = split /\|/, storage('costs', 1);
cmp_ok($pieces, '>', 50, 'many insertions make many pieces');
cmp_ok($pieces, '<=', $length / UNIT + 1, 'none of which is shorter than a unit');
cmp_ok($unused, '<=', $length, 'what is unused is not more than the value');
is(stored('costs', 1), $length + $unused, 'and nothing else is stored');
# a queue: bytes come behind, and go in front
make_table($node, 'queue', 'filesystem_like_logging');
sql('INSERT INTO queue VALUES (1, 1, 1, noise(1, 20971520))',
	map { "UPDATE queue SET doc = securefile_delete(doc || noise($_, 1000000), 1, 1000000)" } 1 .. 25);
($pieces, $unused, $length) = split /\|/, storage('queue', 1);
cmp_ok($pieces, '<=', 3, 'a queue is in few pieces');
cmp_ok($unused, '<=', 3 * UNIT, 'and nothing of what has gone is stored');
maintain('queue');
cmp_ok(sql("SELECT live_bytes FROM securefile_usage('queue', 'doc')"), '<=', 20971520 + 4 * UNIT, 'or kept');
no_findings('queue');
# zeros to an end that is far away, with a unit of bytes before: nothing is stored for the gap
sql("INSERT INTO queue VALUES (2, 2, 2, noise(2, 3000000))", "UPDATE queue SET doc = securefile_truncate(doc, 1::bigint << 60) WHERE id = 2",
	"UPDATE queue SET doc = securefile_insert(doc, 1000001, 'x') WHERE id = 2");
is(sql("SELECT length(doc), substring(doc, 1000000::bigint, 3::bigint) = substring(noise(2, 3000000), 1000000, 1) || 'x' || substring(noise(2, 3000000), 1000001, 1) FROM queue WHERE id = 2"), '1152921504606846977|t', 'an insertion in front of a gap');
cmp_ok(stored('queue', 2), '<=', 3000000 + 4 * UNIT, 'which takes no space');
# the longest value that there can be is none of pieces
sql('UPDATE queue SET doc = securefile_truncate(doc, 9223372036854775807) WHERE id = 2', 'UPDATE queue SET doc = securefile_delete(doc, 1000001, 1) WHERE id = 2');
is(sql("SELECT length(doc), substring(doc, 1::bigint, 3000000::bigint) = noise(2, 3000000), s.pieces FROM queue, securefile_storage(doc) s WHERE id = 2"), '9223372036854775806|t|1', 'the longest value');

# ---- what goes by the length of the value (L46) ----

make_table($node, 'lengths', 'hash');
sql('INSERT INTO lengths VALUES (1, 1, 1, noise(3, 20000000))', "UPDATE lengths SET doc = securefile_delete(doc, 5000001, 3000000)");
my $plain = 'substring(noise(3, 20000000), 1, 5000000) || substring(noise(3, 20000000), 8000001)';
like(storage('lengths', 1), qr/^2\|\d+\|17000000$/, 'a value in two pieces');
is(sql("SELECT length(doc), octet_length(doc::bytea), doc::bytea = $plain FROM lengths"), '17000000|17000000|t', 'its length and its bytes');
is(sql("SELECT securefile_digest(doc, 'sha256') = sha256($plain), securefile_digest(doc) = sha256($plain), securefile_kept_digest(doc) = sha256($plain) FROM lengths"), 't|t|t', 'its digests, and the one that is kept');
is(sql("SELECT sum(length(chunk)), string_agg(chunk, '' ORDER BY n) = $plain FROM lengths, securefile_chunks(doc, chunk_size => 999999) WITH ORDINALITY c (chunk, n)"), '17000000|t', 'its chunks');
is(sql("SELECT position('\\x00'::bytea || 'needle'::bytea IN doc), securefile_compare(doc, ($plain)::securefile), securefile_compare(doc, doc) FROM lengths"), '0|0|0', 'a search, and comparisons');
sql("UPDATE lengths SET doc = doc || 'end'");
is(sql("SELECT length(doc), doc::bytea = $plain || 'end' FROM lengths"), '17000003|t', 'bytes are appended to it');
sql("UPDATE lengths SET doc = overlay(doc PLACING 'middle' FROM 4999998)");
is(sql("SELECT length(doc), doc::bytea = overlay($plain || 'end'::bytea PLACING 'middle'::bytea FROM 4999998) FROM lengths"), '17000003|t', 'and changed where its pieces meet');
is(sql('ANALYZE lengths; SELECT count(*) FROM securefile_duplicates(\'lengths\', \'doc\')'), '0', 'ANALYZE and a search for duplicates go through it');
no_findings('lengths');

# ---- reading in order ----

# Several pieces are read at the same time, past the page cache, by each method.
make_table($node, 'ordered', 'nocache');
sql('INSERT INTO ordered VALUES (1, 1, 1, noise(12, 15000000))', 'CREATE TABLE twin AS SELECT noise(12, 15000000) AS doc');
sql(q{DO $$ BEGIN FOR i IN 1 .. 25 LOOP
	UPDATE ordered SET doc = securefile_insert(doc, i * 550000 + 1, 'abc');
	UPDATE twin SET doc = overlay(doc PLACING 'abc' FROM i * 550000 + 1 FOR 0); END LOOP; END $$});
cmp_ok((split /\|/, storage('ordered', 1))[0], '>', 25, 'a value in many pieces');
foreach my $method ('sync', 'libaio', 'io_uring')
{
	my @said = split /\n/, sql("SET securefile.io_method = $method", 'SELECT securefile_digest(o.doc, \'sha256\') = sha256(twin.doc) FROM ordered o, twin',
		map { "SELECT string_agg(chunk, '' ORDER BY n) = twin.doc FROM ordered o, twin, securefile_chunks(o.doc, chunk_size => $_) WITH ORDINALITY c (chunk, n) GROUP BY twin.doc" } 70001, 262144, 3000000);
	is("@said", 't t t t', "it is read right in order ($method)");
}

# ---- copies (L47) ----

make_table($node, $_, 'deduplicate') foreach 'copies', 'copies_too';
sql('INSERT INTO copies VALUES (1, 1, 1, noise(4, 20000000))', "UPDATE copies SET doc = securefile_insert(doc, 5, 'x')",
	'INSERT INTO copies SELECT 2, 2, 2, doc FROM copies', 'INSERT INTO copies SELECT 3, 3, 3, doc FROM copies WHERE id = 2', 'INSERT INTO copies_too SELECT * FROM copies');
is(sql("SELECT string_agg(s.pieces::text, ' ' ORDER BY id), count(DISTINCT securefile_digest(doc, 'xxh3')) FROM copies, securefile_storage(doc) s"), '2 1 1|1', 'copies of a value in pieces have none');
is(sql("SELECT shared_objects, shared_references FROM securefile_usage('copies', 'doc')"), '2|3', 'and are shared: the copies, and what the value was before');
sql("UPDATE copies SET doc = securefile_insert(doc, 7000001, 'y')", 'DELETE FROM copies WHERE id = 2');
maintain('copies');
is(sql("SELECT count(*) FROM copies WHERE doc <> (SELECT doc FROM copies WHERE id = 1)"), '0', 'so is a change of what is shared');
no_findings($_) foreach 'copies', 'copies_too';
# a value that is made by a handle, in pieces at once
sql(q{DO $$ DECLARE h int := securefile_create('copies', 'doc'); BEGIN
	PERFORM securefile_write(h, noise(5, 8000000)), securefile_seek(h, 1000, 0), securefile_insert(h, 'between'::bytea);
	INSERT INTO copies VALUES (9, 9, 9, securefile_finish(h)); END $$});
is(sql("SELECT length(doc), substring(doc, 1001, 7), s.pieces FROM copies, securefile_storage(doc) s WHERE id = 9"), '8000007|\x6265747765656e|1', 'a new value of a column that deduplicates has no pieces');
# stored anew
sql('INSERT INTO costs VALUES (2, 2, 2, noise(6, 20000000))', "UPDATE costs SET doc = securefile_delete(doc, 100, 5) WHERE id = 2");
like(storage('costs', 2), qr/^2\|/, 'in pieces');
sql(q{CALL securefile_rewrite_online('costs', 'doc')});
is(sql('SELECT count(*) FROM costs, securefile_storage(doc) s WHERE s.pieces <> 1 OR s.unused_bytes <> 0'), '0', 'a rewrite stores values without pieces');

# ---- what a deletion leaves (L48) ----

# Of row 1 bytes are deleted, and of row 2 erased, and then deleted.
make_table($node, 'secrets', 'filesystem_like_logging');
sql("INSERT INTO secrets SELECT i, i, i, noise(7, 5000000) || 'secret words' || noise(8, 5000000) FROM generate_series(1, 2) i",
	'UPDATE secrets SET doc = securefile_erase(doc, 5000001, 12) WHERE id = 2', 'UPDATE secrets SET doc = securefile_delete(doc, 5000001, 12)', 'CHECKPOINT');
like(storage('secrets', $_), qr/^2\|[1-9]\d*\|10000000/, 'a deletion leaves parts of units unused') foreach 1, 2;
my $relation = sql("SELECT pg_relation_filepath(segment_relid) FROM securefile_columns WHERE relid = 'secrets'::regclass");
my ($numbers) = $relation =~ m{^base/(\d+/\d+)$};
my ($pages, $data) = (slurp($node->data_dir . "/$relation"), slurp($node->data_dir . "/pg_securefile/1663/$numbers/seg-00000000.sf"));
my %newest;
foreach my $page (pages_of($pages, PAGE_INODE))
{
	my ($object, $stamp, undef, $level, $n) = unpack('Q< Q< Q< v v', substr($pages, $page * PAGE + CONTENT, 28));
	next if $level != 0 || $newest{$object} && $newest{$object}[0] > $stamp;
	$newest{$object} = [ $stamp, join('', map { substr($data, $_ * SECTOR, UNIT) } grep { $_ < 2**40 } map { unpack('Q<', substr($pages, $page * PAGE + CONTENT + 32 + 24 * $_, 8)) } 0 .. $n - 1) ];
}
is(join(' ', map { $newest{$_}[1] =~ /secret words/ ? 'left' : 'gone' } sort { $a <=> $b } keys %newest), 'left gone', 'what is deleted is stored still, and what was erased before is not');

# ---- parts of a dump (L49) ----

make_table($node, 'parts');
sql('INSERT INTO parts VALUES (1, 1, 1, noise(9, 30000000))', "UPDATE parts SET doc = securefile_insert(doc, 10000001, noise(1, 131072)::securefile)");
my $parts = 'SELECT start, length, tag FROM parts, securefile_extents(doc)';
my $tag = sql($parts);
like($tag, qr/^1\|30131072\|\\x01\w{32}$/, 'a value in pieces is one part');
is(sql($parts), $tag, 'whose tag stays');
sql('UPDATE parts SET doc = securefile_move(doc, 1000001, 2000000, 9000001)');
isnt(sql($parts), $tag, 'until bytes have moved, though no unit may have changed');

# ---- damage ----

make_table($node, 'damaged');
arm($node, 'short_lists', 'skip', times => -1);
sql('INSERT INTO damaged SELECT i, i, i, noise(i, 6000000) FROM generate_series(1, 4) i',
	map { "UPDATE damaged SET doc = securefile_insert(doc, $_ * 700000 + 1, 'x')" } 1 .. 7);
disarm($node);
sql('CHECKPOINT');
no_findings('damaged');
my $segment = $node->data_dir . '/' . sql("SELECT pg_relation_filepath(segment_relid) FROM securefile_columns WHERE relid = 'damaged'::regclass");
my $all = slurp($segment);
my @lists = grep { unpack('v', substr($all, $_ * PAGE + CONTENT + 24, 2)) >= 256 } pages_of($all, PAGE_INODE);
cmp_ok(scalar(@lists), '>', 8, 'lists have leaves and roots');
$node->stop;
# the last one is of the newest version of some row
my ($leaf) = grep { unpack('v', substr($all, $_ * PAGE + CONTENT + 24, 2)) == 256 } reverse @lists;
change($segment, $leaf, CONTENT + 32, pack('Q<', 5));
my ($root) = grep { unpack('v', substr($all, $_ * PAGE + CONTENT + 24, 2)) == 257 } reverse @lists;
change($segment, $root, CONTENT + 32 + 8, pack('Q<', 77));
$node->start;
my $found = sql("SELECT f::text FROM securefile_check('damaged', 'doc') f");
like($found, qr/list of pieces/, 'a check finds damage of a list');
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT md5(doc::bytea) FROM damaged', extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/XX001|42704/, 'a read of it says so');
is(sql('SELECT count(*) FROM damaged WHERE length(doc) = 6000007'), '4', 'the lengths are known all the same');

$node->stop;
done_testing();
