# A column with a retention keeps what its rows lose: each of 100 versions of a value is read
# right, in columns of all options, flat and with inode pages, however time and pressure come,
# until it ends.  What is undeleted is a copy of its own.  Clocks that jump and retentions that
# change bring nothing to its end, or back.  The limit takes nothing of it, and a purge leaves
# nothing.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $node = new_cluster('retention',
	conf => [ master_key(), 'securefile.monitor = off', 'securefile.syncer = off', 'wal_level = logical', "max_wal_size = '2GB'", 'fsync = off' ]);
need_faults($node);

# ---- tools ----

# In table knows stands what a version was, by the transaction that removed it.  That is known from
# twins: a bytea that is edited likewise; of a large value, nearly all of which is a hole, its length,
# pieces at some places, and its end.  sum(): a digest of that, and of a value.
sql(q{
CREATE TABLE knows (tab text, n int, xid xid8, sum text);
CREATE TABLE twins (tab text, twin bytea, len int, pieces bytea[], tail bytea);
CREATE FUNCTION places() RETURNS int[] LANGUAGE sql IMMUTABLE AS 'SELECT ARRAY[1, 3000001, 6000001, 9000001, 12700000]';
CREATE FUNCTION sum(len bigint, pieces bytea[], tail bytea) RETURNS text LANGUAGE sql AS $$
	SELECT len || ' ' || md5(array_to_string(pieces, ':')) || ' ' || md5(tail) $$;
CREATE FUNCTION sum(t twins) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN t.twin IS NULL THEN sum(t.len, t.pieces, t.tail) ELSE md5(t.twin) END $$;
CREATE FUNCTION sum(doc securefile) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN length(doc) < 1000000 THEN md5(doc::bytea)
		ELSE sum(length(doc), ARRAY(SELECT substring(doc, p, 4000) FROM unnest(places()) p), substring(doc, length(doc) - 3999)) END;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
-- "51-100" if these are listed, each of them once, and right
CREATE FUNCTION listed(t text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(min(n) || '-' || max(n), 'none')
		|| CASE WHEN count(*) <> max(n) - min(n) + 1 OR count(DISTINCT n) <> count(*) THEN ' but ' || count(*) || ' are listed' ELSE '' END
		|| coalesce(' wrong: ' || string_agg(format('%s is %s', n, found), ', ') FILTER (WHERE found IS DISTINCT FROM sum), '')
	FROM (SELECT k.n, k.sum, sum(r.document) AS found FROM securefile_removed(t::regclass, 'doc') r
			LEFT JOIN knows k ON k.tab = t AND k.xid = r.xid AND r.kind = 'replaced' AND r.row_key = '{"id": 1}' OFFSET 0) s $$;
CREATE PROCEDURE edit(t text, from_n int, to_n int) LANGUAGE plpgsql AS $$
DECLARE
	was bytea := (SELECT twin FROM twins WHERE tab = t);
	twin bytea := was;
	data bytea;
	len int;
	place int;
BEGIN
	FOR i IN from_n .. to_n LOOP
		len := length(was);
		data := CASE i % 2 WHEN 0 THEN noise(i, 9000 + 100 * i) ELSE blob(i, 9000 + 100 * i) END;
		place := len / 3 + i;
		CASE WHEN i % 7 = 1 THEN
			twin := was || data;
			EXECUTE format('UPDATE %I SET doc = doc || $1', t) USING data;
		WHEN i % 7 = 2 THEN
			twin := overlay(was PLACING data FROM place);
			EXECUTE format('UPDATE %I SET doc = overlay(doc PLACING $1 FROM $2)', t) USING data, place;
		WHEN i % 7 = 3 THEN
			twin := substring(was, 1, len * 2 / 3);
			EXECUTE format('UPDATE %I SET doc = securefile_truncate(doc, $1)', t) USING length(twin);
		WHEN i % 7 = 4 THEN
			twin := data || data;
			EXECUTE format('UPDATE %I SET doc = $1', t) USING twin;
		WHEN i % 7 = 5 THEN
			twin := was || decode(repeat('00', 30000), 'hex');
			EXECUTE format('UPDATE %I SET doc = securefile_truncate(doc, $1)', t) USING length(twin);
		WHEN i % 7 = 6 THEN
			twin := substring(was, 1, 5000) || data || substring(was, 7001);
			EXECUTE format('UPDATE %I SET doc = securefile_overlay(doc, $1::securefile, 5001, 2000)', t) USING data;
		ELSE
			twin := was || substring(was, 1, 20000);
			EXECUTE format('UPDATE %I SET doc = doc || securefile_part(doc, 1, 20000)', t);
		END CASE;
		INSERT INTO knows VALUES (t, i, pg_current_xact_id(), md5(was));
		COMMIT;
		was := twin;
	END LOOP;
	UPDATE twins SET twin = was WHERE tab = t;
END $$;
CREATE PROCEDURE edit_large(t text, from_n int, to_n int) LANGUAGE plpgsql AS $$
DECLARE
	was twins := (SELECT x FROM twins x WHERE tab = t);
	twin twins := was;
	zeros bytea := decode(repeat('00', 4000), 'hex');
	data bytea;
	place int;
BEGIN
	FOR i IN from_n .. to_n LOOP
		data := noise(i, 4000);
		place := 1 + i % 4;
		CASE WHEN i % 10 = 3 THEN
			twin.len := 12400000 + i;
			twin.pieces[5] := '';
			twin.tail := zeros;
			EXECUTE format('UPDATE %I SET doc = securefile_truncate(doc, $1)', t) USING twin.len;
		WHEN i % 10 = 6 THEN
			twin.len := was.len + 400000;
			twin.pieces[5] := CASE was.pieces[5] WHEN '' THEN zeros ELSE was.pieces[5] END;
			twin.tail := zeros;
			EXECUTE format('UPDATE %I SET doc = securefile_truncate(doc, $1)', t) USING twin.len;
		WHEN i % 10 = 8 THEN
			twin.len := was.len + 4000;
			twin.tail := data;
			EXECUTE format('UPDATE %I SET doc = doc || $1', t) USING data;
		WHEN i % 30 = 9 THEN
			twin.len := 13000000;
			twin.pieces := ARRAY[substring(was.pieces[1], 1, 2000) || substring(zeros, 1, 2000), zeros, zeros, zeros, zeros];
			twin.tail := zeros;
			EXECUTE format('UPDATE %I SET doc = securefile_truncate(securefile_truncate(doc, 2000), $1)', t) USING twin.len;
		WHEN i % 10 = 7 THEN
			twin.pieces[5] := data;
			EXECUTE format('UPDATE %I SET doc = overlay(doc PLACING $1 FROM $2)', t) USING data, (places())[5];
		ELSE
			twin.pieces[place] := data;
			EXECUTE format('UPDATE %I SET doc = overlay(doc PLACING $1 FROM $2)', t) USING data, (places())[place];
		END CASE;
		INSERT INTO knows VALUES (t, i, pg_current_xact_id(), sum(was));
		COMMIT;
		was := twin;
	END LOOP;
	UPDATE twins SET len = was.len, pieces = was.pieces, tail = was.tail WHERE tab = t;
END $$});

sub kept_table
{
	my ($table, @options) = @_;
	my $options = join ', ', @options, 'disable_storage_in_row';
	$options .= ", 'retention 7 days'" unless $options =~ /retention/;
	$options .= ", 'max_size 1 GB'" unless $options =~ /max_size/;
	make_table($node, $table, $options);
	return;
}

# Row 1, and its twin; a large value is mostly a hole.
sub begin_with
{
	my ($table, $large) = @_;
	sql($large ? ("INSERT INTO twins SELECT '$table', NULL, 13000000, ARRAY[noise(7, 4000), z, z, z, z], z FROM decode(repeat('00', 4000), 'hex') z",
			"INSERT INTO $table VALUES (1, 1, 1, noise(7, 4000))", "UPDATE $table SET doc = securefile_truncate(doc, 13000000)", "SELECT securefile_purge('$table', 'doc')") :
		("INSERT INTO twins VALUES ('$table', noise(7, 70000))", "INSERT INTO $table VALUES (1, 1, 1, noise(7, 70000))"));
	return;
}

# All in one session: statements, and listed() after them.
sub listed
{
	my ($table, @before) = @_;
	return (split /\n/, sql(@before, "SELECT listed('$table')"))[-1];
}

sub maintain { return "SELECT count(*) FROM securefile_maintain('$_[0]', 'doc')"; }

# Statements that edit row 1 of a table, with maintenance after each so many edits.
sub edits
{
	my ($procedure, $table, $from, $to, $every) = @_;
	my @statements;
	for (my $n = $from; $n <= $to; $n += $every)
	{
		my $end = $n + $every - 1 < $to ? $n + $every - 1 : $to;
		push @statements, "CALL $procedure('$table', $n, $end)", $end - $n == $every - 1 ? maintain($table) : ();
	}
	return @statements;
}

sub time_passes { return arm($node, 'time_passes', 'skip', times => -1); }
sub row_is { return is(sql("SELECT sum(doc) = sum(twins) FROM $_[0], twins WHERE tab = '$_[0]' AND id = 1"), 't', "the row of $_[0] is right"); }

# The column has nothing to be found, its sums are right, and what is retained is a part of what is
# pending.  Returns retained_bytes.
sub whole
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @said = split /\n/, sql(maintain($table),
		"SELECT 'sum ' || (live_bytes + pending_bytes + free_bytes = file_bytes AND retained_bytes <= pending_bytes) FROM securefile_usage('$table', 'doc')",
		"SELECT 'found ' || f::text FROM securefile_check('$table', 'doc') f", "SELECT retained_bytes FROM securefile_usage('$table', 'doc')");
	my $retained = pop @said;
	is("@said[1 .. $#said]", 'sum true', "$name: $table has nothing to be found");
	return $retained;
}

# ---- each version of a value edited 100 times ----

my @options = (
	[ 'plain', '', 3 ],
	[ 'compressed', 'compress_medium', 7 ],
	[ 'encrypted', 'encrypt', 1000 ],
	[ 'deduplicated', 'deduplicate', 5 ],
	[ 'hashed', 'hash', 50 ],
	[ 'unlogged', 'filesystem_like_logging', 11 ],
	[ 'united', 'compress, deduplicate, encrypt, hash, filesystem_like_logging', 4 ]);
my @larges = map { [ "large_$_->[0]", $_->[1], $_->[2] ] } @options[0, 3, 6];
my %procedure = ((map { $_->[0] => 'edit' } @options), (map { $_->[0] => 'edit_large' } @larges));
my @all = (@options, @larges);

foreach (@all)
{
	my ($table, $options) = @$_;
	kept_table($table, $options || ());
	begin_with($table, $table =~ /large/);
}
sql(map { edits($procedure{ $_->[0] }, $_->[0], 1, 60, $_->[2]) } @all);
foreach (@all)
{
	my ($table) = @$_;
	is(listed($table), '1-60', "each version of $table is listed and right");
	is(listed($table, maintain($table)), '1-60', 'and after maintenance');
	cmp_ok(whole($table, 'after 60 edits'), '>', 0, 'something is retained');
}

# half a retention's time is nothing; but a hundred days are more than it
time_passes();
is(listed($_->[0]), 'none', "all of $_->[0] ends with its time") foreach @all[0, 2];
sql(map { edits($procedure{ $_->[0] }, $_->[0], 61, 100, $_->[2]) } @all);
foreach (@all)
{
	my ($table) = @$_;
	is(listed($table), '61-100', "later versions of $table go by their own time");
	is(listed($table, maintain($table)), '61-100', 'and what has ended does them no harm');
	whole($table, 'after 100 edits');
	row_is($table);
}
# what was at its end stays there when the clock is set back
disarm($node);
like(listed($_->[0], maintain($_->[0])), qr/^61-100$/, "versions of $_->[0] after the clock was set back") foreach @all;

# ---- pressure ----

# what psql is told of a call
sub told
{
	my (@statements) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", @statements), extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return "$out\n$err";
}

# Beyond half of the limit the oldest goes: replaced whole, and little by little with inode pages.
kept_table('pressed', "'max_size 8 MB'");
kept_table('pressed_united', 'deduplicate', 'encrypt', 'hash', "'max_size 8 MB'");
kept_table('pressed_large', "'max_size 12 MB'");
sql(q{CREATE PROCEDURE replace(t text, from_n int, to_n int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN from_n .. to_n LOOP
			INSERT INTO knows VALUES (t, i, pg_current_xact_id(), md5(noise(i, 120000)));
			EXECUTE format('UPDATE %I SET doc = noise($1, 120000)', t) USING i + 1;
			COMMIT;
		END LOOP;
	END $$},
	"INSERT INTO pressed VALUES (1, 1, 1, noise(1, 120000))", "INSERT INTO pressed_united VALUES (1, 1, 1, noise(1, 120000))");
begin_with('pressed_large', 1);
foreach ([ 'pressed', 'replace', 5, mb(4) ], [ 'pressed_united', 'replace', 3, mb(4) ], [ 'pressed_large', 'edit_large', 9, mb(6) ])
{
	my ($table, $procedure, $every, $half) = @$_;
	# how much of each edit with inode pages is kept depends on the form of the maps
	my $said = '';
	my $end = 0;
	while ($end < 300 && $said !~ /WARNING/)
	{
		$said = told(edits($procedure, $table, $end + 1, $end + 20, $every), maintain($table));
		$end += 20;
		last unless unlike($said, qr/ERROR/, "edits to $end of $table are not refused");
		my $list = listed($table);
		$said =~ /WARNING/ ? isnt($list, "1-$end", "something of $table has ended") : is($list, "1-$end", "nothing of $table ends before the warning");
		like($list, qr/^\d+-$end$/, "all that is listed of $table is right, and all of it is new");
	}
	like($said, qr/WARNING:  53400: removed values of column "doc" of table "$table" are no longer kept, before their time\nDETAIL:  What is kept may take half of max_size, $half bytes\./, 'a warning says why');
	my $retained = whole($table, 'under pressure');
	cmp_ok($retained, '<=', $half, 'half of the limit is kept');
	cmp_ok($retained, '>', $half / 2, 'and not much less');
	$said = told(edits($procedure, $table, $end + 1, $end + 40, $every));
	unlike($said, qr/ERROR/, "$table goes on");
	like(listed($table, maintain($table)), qr/^\d+-@{[$end + 40]}$/, 'all that is listed is right after more of it');
	whole($table, 'under more pressure');
}

# ---- what is undeleted ----

# A copy has its own bytes (LOBAPI, L3): it is right when the original has ended and its space is
# used by others.  With a tree of inode pages, and in a column that deduplicates.
my @copied = ([ 'copied_flat', '' ], [ 'copied_dedup', 'deduplicate' ], [ 'copied_large', '' ], [ 'copied_large_dedup', 'deduplicate, hash' ]);
foreach (@copied)
{
	my ($table, $options) = @$_;
	my $large = $table =~ /large/;
	my $of = sub { return "noise($_[0], 200000)" . ($large ? " || decode(repeat('00', 12500000), 'hex')" : '') };
	kept_table($table, $options || ());
	sql("INSERT INTO $table SELECT i, 1, 1," . ' noise(i, 200000) FROM generate_series(1, 3) i', $large ? ("UPDATE $table SET doc = securefile_truncate(doc, 12700000)", "SELECT securefile_purge('$table', 'doc')") : (), "DELETE FROM $table WHERE id = 1",
		"UPDATE $table SET doc = doc || 'new'::bytea WHERE id = 2", maintain($table));
	my $shared = sub { return sql("SELECT shared_objects || ' ' || shared_references FROM securefile_usage('$table', 'doc')") };
	my $had = $shared->();
	sql("INSERT INTO $table SELECT 10 + (row_key ->> 'id')::int, 1, 1, document FROM securefile_removed('$table', 'doc')");
	is($shared->(), $had, "a copy in $table shares nothing") unless $options;
	sql(maintain($table));
	cmp_ok(sql("SELECT securefile_purge('$table', 'doc')"), '>', 0, 'the originals have ended') unless $options;
	sql("SELECT securefile_purge('$table', 'doc')", "INSERT INTO $table SELECT i, 1, 1, noise(i, 90000) FROM generate_series(101, 112) i", "DELETE FROM $table WHERE id = 3", maintain($table), "SELECT securefile_purge('$table', 'doc')",
		"INSERT INTO $table SELECT i, 1, 1, noise(i, 90000) FROM generate_series(113, 120) i");
	is(sql("SELECT doc = " . $of->(11 - 10) . " FROM $table WHERE id = 11"), 't', "the copy of what was deleted from $table is right");
	is(sql("SELECT doc = " . $of->(12 - 10) . " FROM $table WHERE id = 12"), 't', 'and that of what was replaced');
	is(sql("SELECT doc = " . $of->(2) . " || 'new'::bytea FROM $table WHERE id = 2"), 't', 'and what replaced it');
	is(sql("SELECT count(*) FROM $table WHERE id > 100 AND doc <> noise(id, 90000)"), '0', 'and what came into their space');
	is(whole($table, 'after undeletes'), 0, 'nothing is retained');
}

# A version of a shared value keeps the reference of its row (LOBAPI, L2).
kept_table('based', 'deduplicate');
sql('INSERT INTO based SELECT i, i, 1, noise(1, 200000) FROM generate_series(1, 2) i', "UPDATE based SET doc = doc || 'x'::bytea WHERE id = 1", maintain('based'),
	"UPDATE based SET doc = doc || 'y'::bytea WHERE id = 1", maintain('based'));
is(sql(q{SELECT string_agg(length::text, ' ' ORDER BY length) FROM securefile_removed('based', 'doc') WHERE sum(document) = md5(substring(noise(1, 200000) || 'xy' FOR length::int))}), '200000 200001', 'both versions are listed');
time_passes();
sql(maintain('based'), 'DELETE FROM based WHERE id = 2', maintain('based'));
is(sql(q{SELECT count(*) FROM securefile_removed('based', 'doc') WHERE sum(document) = md5(noise(1, 200000))}), 1, 'so is the other copy');
disarm($node);
sql("SELECT securefile_purge('based', 'doc')", 'INSERT INTO based SELECT i, 1, 1, noise(i, 90000) FROM generate_series(101, 112) i');
is(sql("SELECT doc = noise(1, 200000) || 'xy' FROM based WHERE id = 1"), 't', 'the edited version is right when all others of its value have ended');
whole('based', 'after versions of a shared value have ended');

# Whoever reads a list that has ended meanwhile gets an error or what it was, never other bytes.
foreach my $table ('plain', 'united', 'large_plain', 'large_deduplicated')
{
	my $reader = background($node);
	my $first = sql("SELECT count(*) FROM securefile_removed('$table', 'doc')");
	cmp_ok($first, '>', 20, "$table keeps something");
	$reader->query_safe("BEGIN; DECLARE c CURSOR FOR SELECT CASE found WHEN sum THEN 'right' ELSE found END FROM (SELECT k.sum, sum(r.document) AS found FROM securefile_removed('$table', 'doc') r JOIN knows k ON tab = '$table' AND k.xid = r.xid OFFSET 0) s");
	like($reader->query_safe('FETCH 5 FROM c'), qr/^(right\s*){5}$/, 'what is read before a purge is right');
	sql("SELECT securefile_purge('$table', 'doc')", "INSERT INTO $table SELECT i, 1, 1, noise(i, 60000) FROM generate_series(101, 160) i");
	my $rest = $reader->query_safe('FETCH ALL FROM c');
	unlike($rest, qr/\b(?!right|42704|$)\w+/m, 'and later it is right, or gone');
	like($rest, qr/42704/, 'and some of it is gone');
	$reader->query_safe('COMMIT');
	$reader->quit;
	whole($table, 'after a purge');
	row_is($table);
}

done_testing();
