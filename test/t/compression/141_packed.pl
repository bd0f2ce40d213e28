# Small values of columns that compress: they are compressed in their rows where that saves
# an eighth, and stay there while they take up to 4000 bytes; every reader gives their
# bytes; every damaged one is refused; an option that is changed is followed by the next
# write, and by securefile_rewrite().

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('packed', conf => ['securefile.monitor = off', 'wal_level = logical']);
make_raw_type($node);

# Lines of text, and bytes of no order, of any length.
sql(q{
	CREATE FUNCTION lines(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT coalesce(substring(string_agg(format(E'%s: the quick brown fox number %s jumps\n', i * seed, i)::bytea, ''::bytea ORDER BY i) FROM 1 FOR len), '')
	   FROM generate_series(1, len / 30 + 1) i $$
});

my @lengths = (0, 1, 63, 64, 65, 200, 1000, 2047, 3999, 4000, 4001, 4096, 9000, 30_000, 131_072, 131_073, 300_000);
my $n = @lengths;

# Form and codec of all values, in their order.
sub forms
{
	my ($t) = @_;
	return sql("SELECT string_agg(s.form || ' ' || s.codec, ',' ORDER BY id) FROM $t, securefile_storage(doc) s");
}

sub right
{
	my ($t, $make, $name) = @_;
	my $want = "$make(id, len)";
	is(sql("SELECT count(*) FROM $t WHERE doc = $want AND doc::bytea = $want AND length(doc) = len"
			. " AND securefile_digest(doc, 'sha256') = sha256($want)"), $n, "$name: whole");
	is(sql("SELECT count(*) FROM $t, (VALUES (1, 1), (2, 10), (60, 100), (3990, 30), (1, 200000)) v (f, c)"
			. " WHERE substring(doc FROM f FOR c) IS DISTINCT FROM substring($want FROM f FOR c)"), 0, "$name: parts");
	is(sql("SELECT count(*) FROM $t WHERE $want = (SELECT coalesce(string_agg(c.data, ''::bytea ORDER BY c.n), '')"
			. " FROM securefile_chunks(doc, chunk_size => 700) WITH ORDINALITY AS c (data, n))"), $n, "$name: pieces");
	is(sql("SELECT count(*) FROM $t a JOIN $t b ON a.doc = b.doc WHERE a.id = b.id"), $n, "$name: hashed");
	is(sql("SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, "$name: check");
	return;
}

sub table
{
	my ($t, $options) = @_;
	sql("CREATE TABLE $t (id int PRIMARY KEY, len int, doc securefile($options))");
	return;
}

sub fill_with
{
	my ($t, $make) = @_;
	my $values = join(',', map { "($_, $lengths[$_ - 1])" } 1 .. $n);
	sql("TRUNCATE $t", "INSERT INTO $t SELECT id, len, $make(id, len) FROM (VALUES $values) v (id, len)");
	return;
}

# ---- which form ----

foreach my $case ([ 'compress_low', 'lz4' ], [ 'compress', 'zstd' ], [ 'compress_high', 'zstd' ])
{
	my ($word, $codec) = @$case;
	table($word, $word);
	fill_with($word, 'lines');
	right($word, 'lines', $word);
	my @forms = split /,/, forms($word);
	is_deeply([ @forms[ 0 .. 2 ] ], [ ('inline none') x 3 ], "$word: the smallest values stay as they are");
	is_deeply([ @forms[ 5 .. 11 ] ], [ ("inline $codec") x 7 ], "$word: small values, and those that became small, are in the row");
	is_deeply([ @forms[ 14 .. 16 ] ], [ ("stored $codec") x 3 ], "$word: others are stored");
	is(sql("SELECT count(*) FROM $word WHERE pg_column_size(doc) > 4004 OR (length(doc) > 100 AND pg_column_size(doc) > 7 * length(doc) / 8)"),
		0, "$word: within the limits");
	fill_with($word, 'noise');
	right($word, 'noise', "$word, incompressible");
	is(forms($word), join(',', ('inline none') x 10, ('stored none') x 7), "$word: what does not gain stays as it is");
	is(sql("SELECT count(*) FROM $word, securefile_storage(doc) s WHERE s.form = 'stored' AND s.stored_bytes <> length(doc)"),
		0, "$word: stored as it is");
}
table('nothing_in_row', 'compress, disable_storage_in_row');
fill_with('nothing_in_row', 'lines');
right('nothing_in_row', 'lines', 'not in the row');
like(forms('nothing_in_row'), qr/^inline none(,stored \w+)+$/, 'disable_storage_in_row: all but the empty value are stored');

# ---- edits ----

fill_with('compress', 'lines');
sql("UPDATE compress SET doc = doc || 'end'::bytea, len = len + 3");
sql("UPDATE compress SET doc = overlay(doc PLACING 'AB'::bytea FROM 2) WHERE len > 10");
is(sql("SELECT count(*) FROM compress WHERE doc = CASE WHEN len > 10 THEN overlay(lines(id, len - 3) || 'end' PLACING 'AB'::bytea FROM 2) ELSE lines(id, len - 3) || 'end' END"),
	$n, 'appended and overlaid');
sql("UPDATE compress SET doc = securefile_truncate(doc, length(doc) / 2), len = len / 2");
is(sql("SELECT count(*) FROM compress WHERE length(doc) = len AND substring(doc FROM 4) = substring(lines(id, len) FROM 4)"), $n, 'truncated');
sql("DO \$\$ DECLARE h int; r record; BEGIN
	FOR r IN SELECT id, len FROM compress WHERE len > 100 LOOP
		h := securefile_open(doc, 'rw') FROM compress WHERE id = r.id;
		PERFORM securefile_seek(h, 50, 0);
		PERFORM securefile_write(h, 'HANDLE');
		UPDATE compress SET doc = securefile_finish(h) WHERE id = r.id;
	END LOOP; END \$\$");
is(sql("SELECT count(*) FROM compress WHERE len > 100 AND substring(doc FROM 51 FOR 6) <> 'HANDLE'"), 0, 'written through handles');
is(sql("SELECT count(*) FROM securefile_check('compress', 'doc')"), 0, 'and sound');

# the datum of a row that is updated elsewhere stays as it is
fill_with('compress', 'lines');
my $before = sql("SELECT string_agg(md5((doc::raw)::bytea), ',' ORDER BY id) FROM compress");
sql('ALTER TABLE compress ADD other int', 'UPDATE compress SET other = id');
is(sql("SELECT string_agg(md5((doc::raw)::bytea), ',' ORDER BY id) FROM compress"), $before, 'an update of another column changes no value');

# ---- other places ----

table('plain', 'nocompress');
sql('INSERT INTO plain SELECT id, len, doc FROM compress');
right('plain', 'lines', 'copied to a column that does not compress');
is(sql("SELECT count(*) FROM plain WHERE pg_column_size(doc) < length(doc) AND length(doc) < 2000"), 0, 'not compressed there');
sql('CREATE TABLE copy AS SELECT id, len, doc FROM compress');
right('copy', 'lines', 'CREATE TABLE AS');
sql('CREATE UNLOGGED TABLE unlogged AS SELECT id, len, doc FROM compress');
is(sql('SELECT count(*) FROM unlogged WHERE doc = lines(id, len)'), $n, 'in an unlogged table');
sql('TRUNCATE compress');
is(sql('SELECT count(*) FROM unlogged WHERE doc = lines(id, len)'), $n, 'which needs nothing of the first one');
sql('INSERT INTO compress SELECT id, len, doc FROM unlogged');
right('compress', 'lines', 'and back');
is(sql("CREATE TEMP TABLE t AS SELECT id, len, doc FROM compress; UPDATE t SET doc = doc || 'x'::bytea;"
		. " SELECT count(*) FROM t WHERE doc = lines(id, len) || 'x'"), $n, 'in a temporary table');
sql("COPY compress TO '$PostgreSQL::Test::Utils::tmp_check/packed.bin' (FORMAT binary)", 'TRUNCATE compress',
	"COPY compress FROM '$PostgreSQL::Test::Utils::tmp_check/packed.bin' (FORMAT binary)");
right('compress', 'lines', 'COPY');
is(sql("SELECT pg_create_logical_replication_slot('s', 'test_decoding') IS NOT NULL; UPDATE compress SET doc = doc || 'y'::bytea WHERE id BETWEEN 5 AND 12;"
		. " SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE data ~ 'UPDATE' AND data ~ encode(substring(lines(5, 65) FOR 40), 'hex')") =~ s/^t\n//r,
	1, 'decoded for replication');

# ---- changed options ----

fill_with('compress', 'lines');
foreach my $case ([ 'compress_low', 'lz4' ], [ 'nocompress', 'none' ], [ 'compress_high', 'zstd' ])
{
	my ($word, $codec) = @$case;
	sql("ALTER TABLE compress ALTER doc TYPE securefile($word)");
	sql("SELECT securefile_rewrite('compress', 'doc')");
	right('compress', 'lines', "rewritten with $word");
	my @forms = split /,/, forms('compress');
	is($forms[6], "inline $codec", "$word: the form of a small value");
	is($forms[16], "stored $codec", "$word: that of a large one");
	my $bytes = sql("SELECT string_agg(md5((doc::raw)::bytea), ',' ORDER BY id) FROM compress WHERE len <= 3999");
	sql("SELECT securefile_rewrite('compress', 'doc')");
	is(sql("SELECT string_agg(md5((doc::raw)::bytea), ',' ORDER BY id) FROM compress WHERE len <= 3999"), $bytes,
		"$word: rewritten once more, small values are the same");
}

# ---- damage ----

my $all = sql("SELECT encode((doc::raw)::bytea, 'hex') FROM compress WHERE len = 1000");
my $good = pack('H*', $all);
is(ord($good), 5, 'a compressed value, seen as bytes');
my %damaged = (
	'codec 0' => [ 1, "\x00" ], 'a codec that there is not' => [ 1, "\x09" ], 'codec 3' => [ 1, "\x03" ],
	'the other codec' => [ 1, "\x01" ], 'a reserved byte' => [ 3, "\x01" ], 'length 0' => [ 4, "\0\0\0\0" ],
	'a shorter length' => [ 4, pack('L', 999) ], 'a longer length' => [ 4, pack('L', 1001) ],
	'a length of more than a unit' => [ 4, pack('L', 131_073) ], 'a huge length' => [ 4, "\xff\xff\xff\xff" ],
	'the check' => [ 8, chr(ord(substr($good, 8, 1)) ^ 1) ], 'the first byte of the frame' => [ 12, "\0" ],
	'the middle' => [ length($good) / 2, chr(ord(substr($good, length($good) / 2, 1)) ^ 4) ],
);
foreach my $what (sort keys %damaged)
{
	my $value = raw_value_with($good, @{ $damaged{$what} });
	fails_with($node, "SELECT $value\::bytea", 'XX001', qr/invalid securefile value/, "$what: whole");
	fails_with($node, "SELECT substring($value FROM 10 FOR 3)", 'XX001', qr/invalid securefile value/, "$what: a part");
	fails_with($node, "SELECT securefile_digest($value, 'md5')", 'XX001', qr/invalid securefile value/, "$what: digest");
}
foreach my $len (1 .. 12, length($good) - 1)
{
	my $value = raw_value(substr($good, 0, $len));
	fails_with($node, "SELECT $value\::bytea", 'XX001', qr/invalid securefile value/, "cut to $len bytes");
}

# a damaged one does not get into a row, and one that is there is found
substr(my $bad = $good, length($good) / 2, 1) = chr(ord(substr($good, length($good) / 2, 1)) ^ 4);
fails_with($node, "INSERT INTO compress VALUES (99, 1000, " . raw_value($bad) . ')',
	'XX001', qr/invalid securefile value/, 'a damaged value is not stored');
sql('VACUUM FULL compress');
my $heap = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('compress')");
$node->stop;
my $at = index(slurp($heap), substr($good, 4));
cmp_ok($at, '>', 0, 'found in the file of the table');
patch($heap, $at + length($good) / 2, substr($bad, length($good) / 2, 1));
$node->start;
fails_with($node, 'SELECT count(doc::bytea) FROM compress', 'XX001', qr/invalid securefile value/, 'a damaged row is not read');
like(sql("SELECT finding || ' ' || ctid FROM securefile_check('compress', 'doc')"), qr/^\S.* \(\d+,\d+\)$/, 'the check names it');
is(sql('SELECT count(*) FROM compress WHERE len <> 1000 AND doc = lines(id, len)'), $n - 1, 'the others are right');

$node->stop;
done_testing();
