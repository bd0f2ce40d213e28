# Kept hashes in columns that deduplicate: a reference has the hash of the object that it refers
# to, however the value came; what was compared and then written, and what was edited, has one of
# its own; a rewrite converts values to and from hashes, and shares them still.

use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('deduplicated_hashes', conf => [ master_key(), 'securefile.monitor = off' ]);
need_faults($node);

# Bytes that compress, but for those at their beginning, so that they stay in no row; and a
# stream of them, in pieces of all sizes, to a new object of a table.
sql(q{CREATE FUNCTION body(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substring(noise(seed, 6000) || substring(blob(seed, greatest(len, 70000)) FROM 6001) FOR len) $$},
	q{CREATE FUNCTION streamed(tab regclass, seed int, len int) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_create(tab, 'doc');
		data bytea := body(seed, len);
		done int := 0;
	BEGIN
		WHILE done < len LOOP
			done := done + securefile_write(fd, substring(data FROM done + 1 FOR 1 + (done % 9973) * 131));
		END LOOP;
		RETURN fd;
	END $$});

# Rows of a table whose digests, or contents, are not those of body(seed, len); those that keep none.
sub wrong { return sql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $_[0], LATERAL (SELECT sha256(body(seed, len)) AS sha) right_one WHERE seed IS NOT NULL AND (securefile_digest(doc) <> sha OR securefile_digest(doc, 'sha256') <> sha OR securefile_kept_digest(doc) <> sha)") }
sub without { return sql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $_[0] WHERE securefile_kept_digest(doc) IS NULL") }

sub are_right
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(wrong($table) . '|' . without($table), '|', "$table: $name: all keep hashes, the right ones");
}

# Bytes of the values in a segment, when nothing is pending.
sub live { return settle($node, $_[0], 'doc')->{live_bytes} }

# Those of different contents in a table, and of all values, if none is compressed.
sub different { return sql("SELECT sum((len + 511) / 512 * 512) FROM (SELECT DISTINCT seed, len FROM $_[0]) x") }
sub all_of { return sql("SELECT sum((len + 511) / 512 * 512) FROM $_[0]") }

my @lengths = (4001, 131_072, 131_073, 300_000, 1_000_000);
my $lengths = 'unnest(ARRAY[' . join(', ', @lengths) . ']) WITH ORDINALITY AS l (len, n)';

# A stream of body(seed, len), in pieces, as the value of a new row.
sub stream { my ($t, $id, $seed, $len) = @_; return "INSERT INTO $t SELECT $id, $seed, $len, securefile_finish(streamed('$t', $seed, $len))" }

# ---- references, and what is none ----

foreach my $case ([ 'plain', '' ], [ 'low', ', compress_low' ], [ 'sealed', ', encrypt' ], [ 'sealed_medium', ', compress_medium, encrypt' ], [ 'fast', ', filesystem_like_logging' ])
{
	my ($t, $options) = @$case;
	make_table($node, $t, "deduplicate, hash$options");
	sql("INSERT INTO $t SELECT n, 1, len, body(1, len) FROM $lengths");
	my $masters = live($t);
	is($masters, different($t), "$t: what they take") unless $options =~ /compress|encrypt/;
	are_right($t, 'new values');
	sql("INSERT INTO $t SELECT 10 + n, 1, len, body(1, len) FROM $lengths");
	are_right($t, 'the same ones, given whole');
	sql(map { stream($t, 21 + $_, 1, $lengths[$_]) } 0 .. $#lengths);
	are_right($t, 'the same ones, as streams');
	sql("INSERT INTO $t SELECT id + 30, seed, len, doc FROM $t WHERE id BETWEEN 1 AND 5", "UPDATE $t SET doc = s.doc, len = s.len FROM $t s WHERE $t.id = 31 AND s.id = 35");
	are_right($t, 'copies');
	sql('BEGIN', "INSERT INTO $t SELECT 50, 1, 300000, body(1, 300000)", 'SAVEPOINT s', stream($t, 51, 1, 1_000_000), 'ROLLBACK TO s', stream($t, 52, 1, 1_000_000), "PREPARE TRANSACTION 'p'");
	sql("COMMIT PREPARED 'p'");
	are_right($t, 'a prepared transaction');
	is(live($t), $masters, "$t: all of these are references");

	# a content that is new in the transaction, twice
	sql('BEGIN', "INSERT INTO $t SELECT 60, 2, 500000, body(2, 500000)", "INSERT INTO $t SELECT 61, 2, 500000, body(2, 500000)", stream($t, 62, 2, 500_000), 'COMMIT');
	are_right($t, 'a new content, several times in one transaction');

	# compared at first: one that ends before, goes on behind, differs at its end, comes back
	sql(stream($t, 70, 1, 200_000), stream($t, 71, 1, 131_200), stream($t, 72, 1, 1_200_000));
	are_right($t, 'streams that end before the object, and behind it');
	my $open = "SELECT streamed('$t', 1, 999990) AS h INTO TEMP h";
	sql('BEGIN', $open, q{SELECT securefile_write(h, '0123456789') FROM h}, "INSERT INTO $t SELECT 73, NULL, NULL, securefile_finish(h) FROM h", 'COMMIT');
	sql('BEGIN', $open, q{SELECT securefile_seek(h, 500000, 0) FROM h}, q{SELECT securefile_write(h, 'abc') FROM h}, "INSERT INTO $t SELECT 74, NULL, NULL, securefile_finish(h) FROM h", 'COMMIT');
	sql('BEGIN', $open, 'SELECT securefile_truncate(h, 400000) FROM h', "INSERT INTO $t SELECT 75, 1, 400000, securefile_finish(h) FROM h", 'COMMIT');
	sql('BEGIN', $open, q{SELECT securefile_seek(h, 1500000, 0) FROM h}, q{SELECT securefile_write(h, 'abc') FROM h}, "INSERT INTO $t SELECT 76, NULL, NULL, securefile_finish(h) FROM h", 'COMMIT');
	are_right($t, 'streams that are cut, or come back');
	my $long = pack('H*', sql('SELECT encode(body(1, 999990), $$hex$$)'));
	is(sql("SELECT id, encode(securefile_digest(doc), 'hex') FROM $t WHERE id IN (73, 74, 76) ORDER BY id"),
		join("\n", '73|' . sha256_hex("${long}0123456789"), '74|' . sha256_hex(substr($long, 0, 500_000) . 'abc' . substr($long, 500_003)), '76|' . sha256_hex($long . "\0" x 500_010 . 'abc')),
		"$t: as programs outside have it");

	# edits of shared values
	sql("UPDATE $t SET doc = doc || substring(body(1, 310000) FROM 300001), len = 310000 WHERE id = 14",
		"UPDATE $t SET doc = securefile_truncate(doc, 250000), len = 250000 WHERE id = 24",
		"UPDATE $t SET doc = overlay(doc PLACING body(1, 300000) FROM 1 FOR 300000) WHERE id = 34",
		"UPDATE $t SET doc = overlay(doc PLACING 'xyz' FROM 150001), seed = NULL WHERE id = 15");
	are_right($t, 'edits');
	is(sql("SELECT securefile_digest(doc) = sha256(overlay(body(1, len) PLACING 'xyz'::bytea FROM 150001)) FROM $t WHERE id = 15"), 't', "$t: a change in the middle");
	sql("DELETE FROM $t WHERE id < 10");
	live($t);
	are_right($t, 'where the first rows have gone');
	is(sql("SELECT finding || ': ' || detail FROM securefile_check('$t', 'doc') LIMIT 3"), '', "$t: check");
}

# hashes that are encrypted are those of the object, whose key the references have
is(sql("SELECT securefile_new_key('sealed_medium', 'doc')"), 2, 'a new key');
sql('INSERT INTO sealed_medium SELECT 81, 1, 300000, body(1, 300000)', 'INSERT INTO sealed_medium SELECT 82, 1, 300000, body(1, 300000)', stream('sealed_medium', 83, 1, 300_000));
are_right('sealed_medium', 'another key');
is(sql('SELECT count(DISTINCT (securefile_storage(doc)).key_id) FROM sealed_medium WHERE id > 80'), 1, 'which all new values have');
$node->restart;
are_right('sealed_medium', 'after a restart');

# a first piece that is longer than the part of it that is the same
make_table($node, 'pieces', 'deduplicate, hash');
sql(q{CREATE FUNCTION at_once(tab regclass, data bytea) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_create(tab, 'doc');
	BEGIN
		PERFORM securefile_write(fd, data);
		RETURN securefile_finish(fd);
	END $$});
sql('INSERT INTO pieces SELECT 1, 1, 300000, body(1, 300000)', "INSERT INTO pieces SELECT 2, NULL, 300000, at_once('pieces', overlay(body(1, 300000) PLACING 'other'::bytea FROM 200000))");
is(sql("SELECT doc::bytea = overlay(body(1, 300000) PLACING 'other'::bytea FROM 200000), securefile_digest(doc) = sha256(doc::bytea) FROM pieces WHERE id = 2"), 't|t', 'a first piece that differs behind the first unit');
are_right('pieces', 'a first piece that differs behind the first unit');

# ---- what is read for them ----

# A stream that was compared with the first 200000 bytes of an object, differs, leaves a gap and
# goes on for 30 MB is hashed as it comes.  Its fingerprint has ended at the gap: for that all of
# it is read, once.
make_table($node, 'cost', 'deduplicate, hash, nocache');
sql('INSERT INTO cost SELECT 1, 1, 300000, body(1, 300000)');
my $reads = q{SELECT direct_read_bytes FROM securefile_stat WHERE relname = 'cost'};
my $before = sql($reads);
sql('BEGIN', q{SELECT streamed('cost', 1, 200000) AS h INTO TEMP h}, q{SELECT securefile_write(h, 'xyz') FROM h}, 'SELECT securefile_seek(h, 400000, 0) FROM h',
	'SELECT count(securefile_write(h, body(i, 5000000))) FROM h, generate_series(2, 7) i', 'INSERT INTO cost SELECT 2, NULL, NULL, securefile_finish(h) FROM h', 'COMMIT');
my $read = sql($reads) - $before;
cmp_ok($read, '<', 32_000_000, 'what comes behind a gap is read for the fingerprint, and not for the hash');
is(sql("SELECT securefile_kept_digest(doc) = sha256(body(1, 200000) || 'xyz' || decode(repeat('00', 199997), 'hex') || (SELECT string_agg(body(i, 5000000), '' ORDER BY i) FROM generate_series(2, 7) i)) FROM cost WHERE id = 2"), 't', 'the hash');

# ---- the option changes, and values are as it was ----

make_table($node, 'option', 'deduplicate');
sql('INSERT INTO option SELECT i, i % 2, 200000, body(i % 2, 200000) FROM generate_series(1, 6) i');
is(without('option') . '|' . live('option'), '1 2 3 4 5 6|' . different('option'), 'shared, without hashes');
sql('ALTER TABLE option ALTER doc TYPE securefile(deduplicate, hash)', 'INSERT INTO option SELECT 7, 1, 200000, body(1, 200000)', 'INSERT INTO option SELECT 8, 0, 200000, doc FROM option WHERE id = 2', stream('option', 9, 3, 200_000));
my $live = live('option');
is(wrong('option') . '|' . without('option'), '|1 2 3 4 5 6', 'a new value is no reference to one without a hash, nor is a copy');
sql('INSERT INTO option SELECT 10, 1, 200000, body(1, 200000)', stream('option', 11, 0, 200_000), 'INSERT INTO option SELECT 12, 0, 200000, doc FROM option WHERE id = 4');
is(wrong('option') . '|' . without('option'), '|1 2 3 4 5 6', 'but to one that has one');
is(live('option'), $live, 'and nothing was stored for these');
sql('ALTER TABLE option ALTER doc TYPE securefile(deduplicate)', 'INSERT INTO option SELECT 13, 1, 200000, body(1, 200000)', stream('option', 14, 0, 200_000), 'INSERT INTO option SELECT 15, 0, 200000, doc FROM option WHERE id = 8');
is(wrong('option') . '|' . without('option'), '|1 2 3 4 5 6 13 14 15', 'without the option again');
is(live('option'), $live, 'these are references to the first ones');

# ---- rewrites ----

my @rewrites = ("SELECT securefile_rewrite('option', 'doc')", "CALL securefile_rewrite_online('option', 'doc', 300000)", "SELECT securefile_rewrite_some('option', 'doc', 1000000000)");
my $rows = sql('SELECT count(*) FROM option');
foreach my $options ('deduplicate, hash', 'deduplicate', 'deduplicate, hash', 'hash', 'deduplicate, hash', 'deduplicate', 'hash', 'deduplicate', 'deduplicate, hash, encrypt', 'deduplicate, encrypt', 'deduplicate, hash', 'deduplicate, hash, compress_low', 'deduplicate, hash, encrypt, compress_low', 'deduplicate')
{
	push @rewrites, shift @rewrites;
	sql("ALTER TABLE option ALTER doc TYPE securefile($options)", $rewrites[-1]);
	my $hashed = sql('SELECT count(*) FILTER (WHERE hashed) FROM option, securefile_storage(doc)');
	is(wrong('option') . "|$hashed", '|' . ($options =~ /\bhash/ ? $rows : 0), "rewritten: $options: digests");
	is(sql("SELECT finding || ': ' || detail FROM securefile_check('option', 'doc') LIMIT 3"), '', "rewritten: $options: check");
	is(live('option'), $options =~ /deduplicate/ ? different('option') : all_of('option'), "rewritten: $options: space") unless $options =~ /compress|encrypt/;
}

# ---- a hash that is wrong ----

# All that refer to the object have it, whatever is stored again.  It goes with the object: a
# rewrite that keeps duplicates, and space given back.
make_table($node, 'spoilt', 'deduplicate, hash');
arm($node, 'hash_right', 'skip');
sql('INSERT INTO spoilt SELECT 1, 1, 200000, body(1, 200000)');
sql('INSERT INTO spoilt SELECT 2, 1, 200000, body(1, 200000)', 'INSERT INTO spoilt SELECT 3, 1, 200000, doc FROM spoilt WHERE id = 1', stream('spoilt', 4, 1, 200_000));
my $findings = q{SELECT count(*) FROM securefile_check('spoilt', 'doc') WHERE finding = 'content hash differs'};
is(wrong('spoilt') . '|' . sql($findings), '1 2 3 4|4', 'references have the hash of the object, also a wrong one');
sql(s/option/spoilt/r) foreach @rewrites;
is(wrong('spoilt') . '|' . sql($findings), '1 2 3 4|4', 'and keep it when they are stored again');
sql('ALTER TABLE spoilt ALTER doc TYPE securefile(hash)', q{SELECT securefile_rewrite('spoilt', 'doc')});
are_right('spoilt', 'each by itself');
sql('ALTER TABLE spoilt ALTER doc TYPE securefile(deduplicate, hash)', q{SELECT securefile_rewrite('spoilt', 'doc')});
is(wrong('spoilt'), '1 2 3 4', 'the object is found again while its space is not given back');
sql('ALTER TABLE spoilt ALTER doc TYPE securefile(hash)', q{SELECT securefile_rewrite('spoilt', 'doc')});
settle($node, 'spoilt', 'doc');
is(sql(q{SELECT shared_objects FROM securefile_usage('spoilt', 'doc')}), 0, 'it is gone');
sql('ALTER TABLE spoilt ALTER doc TYPE securefile(deduplicate, hash)', q{SELECT securefile_rewrite('spoilt', 'doc')});
are_right('spoilt', 'shared again');
is(sql($findings) . '|' . live('spoilt'), '0|' . different('spoilt'), 'and stored once');

unlike(slurp_file($node->logfile), qr/TRAP: |PANIC|\bXX000\b/, 'no crash of its own');
done_testing();
