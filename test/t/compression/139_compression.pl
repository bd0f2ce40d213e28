# Compression: values of all lengths around borders come back as they went in, by every reader,
# from columns of each option, and from those whose option was changed; what is not worth it is
# stored as it is; edits and small reads cost a unit or two; a unit that was not encoded right is
# never read; all that is done to values works with compressed ones, too.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefilePages;
use SecurefileTest;
use Test::More;

use constant { UNIT => 131072, MIB => 1024 * 1024 };

my $node = new_cluster('compression', conf => [ 'securefile.monitor = off', 'allow_in_place_tablespaces = on', 'restart_after_crash = on' ]);
need_faults($node);
my $dir = enter($node);
my @words = ('nocompress', 'compress_low', 'compress_medium', 'compress_high');
my %codec = (nocompress => 'none', compress_low => 'lz4', compress_medium => 'zstd', compress_high => 'zstd');

# What is counted of a column so far, all sessions being gone.
sub counted
{
	my ($t, $counter) = @_;
	sessions_are_gone($node, 'postgres');
	return sql("SELECT sum($counter) FROM securefile_stat WHERE relid = '$t'::regclass");
}

# How a value is stored: form, stored bytes, units, compressed ones, codec.
sub storage
{
	my ($t, $id) = @_;
	my %is;
	@is{qw(form length stored units compressed codec)} =
	  split /\|/, sql("SELECT s.form, s.length, s.stored_bytes, s.units, s.compressed_units, s.codec FROM $t, securefile_storage(doc) s WHERE id = $id");
	return \%is;
}

# Passes of a point, while something is done.
sub passes
{
	my ($point, $work) = @_;
	arm($node, $point, 'pass', times => -1);
	my $before = fired($node, $point);
	$work->();
	my $passes = fired($node, $point) - $before;
	disarm($node);
	return $passes;
}

# half: what is random, then what is not; turned: the other way round; changed: what is done to
# a value between.  by_handle, in_chunks: a value as a handle or a stream reads it.
# differences(t, c, w): the values of column c of table t that are not those of table w, by
# every reader.
my $change = q{
	CREATE FUNCTION changed(id int, v %1$s) RETURNS %1$s LANGUAGE sql AS $$
		SELECT CASE (id + id / 3) %% 3 WHEN 0 THEN v || noise(5, 100)
			WHEN 1 THEN overlay(v PLACING 'ten bytes.'::bytea FROM length(v)::int / 2 + 1)
			ELSE %2$s || blob(6, 3000) END $$};
sql(sprintf($change, 'securefile', 'securefile_truncate(v, length(v) * 2 / 3)'), sprintf($change, 'bytea', 'substring(v FOR length(v) * 2 / 3)'), q{
	CREATE FUNCTION half(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS 'SELECT noise(seed, len / 2) || blob(seed, len - len / 2)';
	CREATE FUNCTION turned(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS 'SELECT blob(seed, len / 2) || noise(seed, len - len / 2)';
	CREATE FUNCTION by_handle(doc securefile, piece int) RETURNS bytea LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_open(doc, 'r');
		got bytea := '';
		part bytea;
	BEGIN
		LOOP
			part := securefile_read(fd, piece);
			EXIT WHEN length(part) = 0;
			got := got || part;
		END LOOP;
		PERFORM securefile_close(fd);
		RETURN got;
	END $$;
	CREATE FUNCTION in_chunks(doc securefile, piece int) RETURNS bytea LANGUAGE sql AS
		$$ SELECT coalesce(string_agg(c, '' ORDER BY n), '') FROM securefile_chunks(doc, chunk_size => piece) WITH ORDINALITY AS c (c, n) $$;
	CREATE FUNCTION differences(t regclass, c name, w regclass) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		found text;
	BEGIN
		EXECUTE format($q$
			WITH r AS MATERIALIZED (SELECT id, w.data, t.%2$I AS doc FROM %3$s w LEFT JOIN %1$s t USING (id))
			SELECT string_agg(way || ' of ' || id, ', ') FROM (
				SELECT id, 'length' AS way FROM r WHERE length(doc) IS DISTINCT FROM length(data)
				UNION ALL SELECT id, 'bytea' FROM r WHERE doc::bytea IS DISTINCT FROM data
				UNION ALL SELECT id, 'substring' FROM r, (VALUES (1, 10), (505, 20), (3990, 120), (131065, 20), (131073, 131072), (262140, 9)) v (f, n)
					WHERE substring(doc FROM f FOR n) IS DISTINCT FROM substring(data FROM f FOR n)
				UNION ALL SELECT id, 'end' FROM r WHERE substring(doc FROM greatest(length(data), 1) FOR 7) IS DISTINCT FROM substring(data FROM greatest(length(data), 1) FOR 7)
				UNION ALL SELECT id, 'chunks' FROM r WHERE in_chunks(doc, 50000) IS DISTINCT FROM data
				UNION ALL SELECT id, 'handle' FROM r WHERE by_handle(doc, 70001) IS DISTINCT FROM data
				UNION ALL SELECT id, 'digest' FROM r WHERE securefile_digest(doc, 'sha256') IS DISTINCT FROM sha256(data)
				UNION ALL SELECT id, 'equal' FROM r WHERE (doc = data) IS NOT TRUE) s $q$, t, c, w) INTO found;
		RETURN coalesce(found, '');
	END $$;
	CREATE TABLE want (id int PRIMARY KEY, data bytea);
	ALTER TABLE want ALTER data SET STORAGE EXTERNAL;
	CREATE TABLE want_changed (LIKE want INCLUDING ALL);
	INSERT INTO want SELECT row_number() OVER (), CASE kind WHEN 0 THEN blob(len, len) WHEN 1 THEN noise(len, len) ELSE half(len, len) END
	FROM unnest(ARRAY[0, 1, 511, 512, 513, 3999, 4000, 4001, 4095, 4096, 4097, 131071, 131072, 131073, 262143, 262144, 262145]) len, generate_series(0, 2) kind;
	INSERT INTO want_changed SELECT id, changed(id, data) FROM want});
my $rows = sql('SELECT count(*) FROM want');

# ---- every pair of options ----

# One test: column a, whose short values are in the row, and column b, which has none there, are
# right by every reader.
sub same
{
	my ($t, $want, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql("SELECT differences('$t', 'a', '$want') || differences('$t', 'b', '$want')"), '', $name);
}

# One test: no value of a table has another codec than that of an option.
sub only_codec
{
	my ($t, $word, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql("SELECT count(*) FROM $t, LATERAL (VALUES (a), (b)) v (doc), securefile_storage(doc) s WHERE s.codec NOT IN ('none', '$codec{$word}')"),
		0, "$name: nothing is stored otherwise");
}

sub columns { return join ', ', map { "$_->[0] $_[1]securefile($_[0]$_->[1])" } [ 'a', '' ], [ 'b', ', disable_storage_in_row' ]; }

my ($text, $binary) = map { sql("COPY (SELECT id, data, data FROM want_changed ORDER BY id) TO '$dir/want.$_' (FORMAT $_)"); slurp("$dir/want.$_") } ('text', 'binary');
foreach my $from (@words)
{
	foreach my $to (@words)
	{
		my $name = "$from to $to";
		my $form = ($from eq $to) ? 'text' : 'binary';
		sql("DROP TABLE IF EXISTS t, c; CREATE TABLE t (id int PRIMARY KEY, " . columns($from, '') . ')',
			'INSERT INTO t SELECT id, data, data FROM want', 'ALTER TABLE t ALTER ' . columns($to, 'TYPE ') =~ s/, b/, ALTER b/r);
		same('t', 'want', "$name: as it was written");
		only_codec('t', $from, "$name: as it was written");

		# to columns of the other option, of which each takes what the other one had
		sql('CREATE TABLE c (id int PRIMARY KEY, ' . columns($to, '') . ')', 'INSERT INTO c SELECT id, b, a FROM t');
		is(sql('SELECT count(*) FROM c JOIN want USING (id) WHERE a::bytea = data AND b::bytea = data'), $rows, "$name: copied");
		only_codec('c', $to, "$name: copied");

		sql('UPDATE t SET a = changed(id, a), b = changed(id, b)');
		same('t', 'want_changed', "$name: changed");
		is(sql("SELECT count(*) > 0 FROM t, securefile_storage(b) s WHERE s.codec ~ ','"), $codec{$from} ne $codec{$to} && "$from $to" !~ /nocompress/ ? 't' : 'f',
			"$name: versions with two codecs");
		sql("COPY (SELECT id, a, b FROM t ORDER BY id) TO '$dir/copy' (FORMAT $form)", "TRUNCATE c", "COPY c FROM '$dir/copy' (FORMAT $form)");
		ok(slurp("$dir/copy") eq ($form eq 'text' ? $text : $binary), "$name: COPY TO, $form");
		is(sql('SELECT count(*) FROM c JOIN want_changed USING (id) WHERE a::bytea = data AND b::bytea = data'), $rows, "$name: COPY FROM, $form");
		only_codec('c', $to, "$name: COPY FROM");

		is(sql(q{SELECT securefile_rewrite('t', 'a') IS NOT NULL AND securefile_rewrite('t', 'b') IS NOT NULL}), 't', "$name: rewritten");
		is(sql('SELECT count(*) FROM t JOIN want_changed USING (id) WHERE a::bytea = data AND b::bytea = data'), $rows, "$name: rewritten, the values");
		only_codec('t', $to, "$name: rewritten");
		is(sql("SELECT count(*) > 0 FROM t, securefile_storage(b) s WHERE s.codec = '$codec{$to}' AND s.units > 1"), 't', "$name: rewritten, long ones as the option says");
		if ($from eq $to)
		{
			sound($node, 't', $name, column => 'a');
			sound($node, 't', $name, column => 'b', in_row => 0);
		}
	}

	# what the command writes to files, and stores
	foreach my $id (sql('SELECT id FROM want_changed WHERE length(data) > 262000 ORDER BY id DESC LIMIT 3') =~ /\d+/g)
	{
		unlink "file.$id";
		ends(0, qr//, "$from: get", 'get', '-t', 't', '-c', 'b', $id, "file.$id");
		is(sql("SELECT data = pg_read_binary_file('$dir/file.$id') FROM want_changed WHERE id = $id"), 't', "$from: what get writes");
		ends(0, qr//, "$from: put", 'put', '-t', 'c', '-c', 'b', '--replace', "file.$id", $id);
		is(sql("SELECT b::bytea = data FROM c JOIN want_changed USING (id) WHERE id = $id"), 't', "$from: what put stores");
	}
}

# ---- what is worth it ----

sub level_table
{
	my ($word, $more) = @_;
	my $t = "l_$word";
	sql("DROP TABLE IF EXISTS $t");
	make_table($node, $t, join ', ', $word, 'nocache', $more || ());
	return $t;
}

my $twenty = 160 * UNIT;
foreach my $word (@words[ 1 .. 3 ])
{
	my $t = level_table($word);
	my $put = sub { my ($id, $bytes) = @_; sql("INSERT INTO $t VALUES ($id, $id, 0, $bytes)"); return storage($t, $id) };

	my $is = $put->(1, "noise(1, $twenty)");
	is("$is->{stored} $is->{compressed} $is->{codec}", "$twenty 0 none", "$word: what is random is stored as it is");
	is(counted($t, 'units_incompressible') . ' ' . counted($t, 'bytes_nontransformed') . ' ' . counted($t, 'bytes_transformed'), "160 $twenty 0", "$word: and counted as such");
	$is = $put->(2, "blob(2, $twenty)");
	is("$is->{compressed} $is->{codec}", "160 $codec{$word}", "$word: all of a text is compressed");
	cmp_ok($is->{stored}, '<', 0.2 * $twenty, "$word: to less than a fifth");
	is(counted($t, 'units_incompressible') . ' ' . counted($t, 'bytes_transformed') . ' ' . counted($t, 'bytes_transformed_stored'), "160 $twenty $is->{stored}", "$word: and counted as such");
	$is = $put->(3, "noise(3, $twenty) || blob(3, $twenty)");
	cmp_ok($is->{compressed}, '>=', 160 - 64, "$word: text behind 20 MB that are random is compressed after 64 units at most");
	cmp_ok($is->{compressed}, '<', 160, "$word: but not at once");
	$is = $put->(4, "blob(4, $twenty) || noise(4, $twenty)");
	is($is->{compressed}, 160, "$word: what is random behind a text is stored as it is");
	cmp_ok($is->{stored}, '>=', $twenty, "$word: all of it");
	is(sql("SELECT bool_and(CASE id WHEN 1 THEN doc::bytea = noise(1, $twenty) WHEN 2 THEN doc::bytea = blob(2, $twenty)"
				. " WHEN 3 THEN doc::bytea = noise(3, $twenty) || blob(3, $twenty) ELSE doc::bytea = blob(4, $twenty) || noise(4, $twenty) END) FROM $t"), 't', "$word: they are right");
	sound($node, $t, $word);

	# through a handle, in pieces
	sql("DO \$\$ DECLARE h int := securefile_create('$t', 'doc'); BEGIN
		FOR i IN 0 .. 19 LOOP PERFORM securefile_write(h, noise(i, 1048576)); END LOOP;
		FOR i IN 0 .. 19 LOOP PERFORM securefile_write(h, blob(i, 1048576)); END LOOP;
		INSERT INTO $t VALUES (5, 5, 0, securefile_finish(h)); END \$\$");
	$is = storage($t, 5);
	ok($is->{compressed} >= 160 - 64 && $is->{compressed} < 160, "$word: the same through a handle") or diag(explain($is));

	# an eighth, or nothing: of 32 parts of a unit so many are random
	$t = level_table($word, 'disable_storage_in_row');
	sql("INSERT INTO $t SELECT i, i, 131072, noise(i, i * 4096) || decode(repeat('00', 131072 - i * 4096), 'hex') FROM generate_series(20, 32) i");
	is(sql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $t, securefile_storage(doc) s WHERE s.compressed_units = 1 AND s.stored_bytes <= 131072 * 7 / 8"),
		'20 21 22 23 24 25 26 27', "$word: a unit of which an eighth is saved is compressed");
	is(sql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $t, securefile_storage(doc) s WHERE s.compressed_units = 0 AND s.stored_bytes = 131072"),
		'28 29 30 31 32', "$word: others are not");
	sql("TRUNCATE $t", "INSERT INTO $t SELECT i, i, i, noise(i, 420) || decode(repeat('00', i - 420), 'hex') FROM generate_series(500, 1000, 100) i");
	is(sql("SELECT string_agg(id || ':' || s.compressed_units, ' ' ORDER BY id) FROM $t, securefile_storage(doc) s"), '500:0 600:1 700:1 800:1 900:1 1000:1',
		"$word: nor is what saves no sector");
	sound($node, $t, "$word: values of a unit and less", in_row => 0);
}

# ---- what it costs ----

my $large = ($ENV{SECUREFILE_LARGE_REAL} ? 1024 : 40) * MIB;
my $pieces = $large / (8 * MIB);
foreach my $word ('compress_low', 'compress_high')
{
	my $t = level_table($word);
	sql("DO \$\$ DECLARE h int := securefile_create('$t', 'doc'); BEGIN
		FOR i IN 1 .. $pieces LOOP PERFORM securefile_write(h, blob(i, 8388608)); END LOOP;
		INSERT INTO $t VALUES (1, 1, 0, securefile_finish(h)); END \$\$");
	my $is = storage($t, 1);
	is("$is->{length} $is->{compressed}", "$large " . $large / UNIT, "$word: a large value");
	my $before_it = int($pieces / 2);
	my $middle = $before_it * 8 * MIB + 70_000;
	my %edits = (overlay => "UPDATE $t SET doc = overlay(doc PLACING '!'::bytea FROM $middle) WHERE id = 1",
		handle => "DO \$\$ DECLARE h int; BEGIN h := securefile_open(doc, 'rw') FROM $t WHERE id = 1; PERFORM securefile_seek(h, $middle, 0);
			PERFORM securefile_write(h, '?'); UPDATE $t SET doc = securefile_finish(h) WHERE id = 1; END \$\$");
	foreach my $edit (sort keys %edits)
	{
		my $before = counted($t, 'direct_write_bytes');
		sql($edits{$edit});
		my $written = counted($t, 'direct_write_bytes') - $before;
		ok($written > 0 && $written <= 2 * UNIT, "$word: $edit of one byte writes two units at most") or diag("$written bytes");
	}
	is(sql("SELECT substring(doc FROM $middle - 3 FOR 6) = overlay(substring(blob($before_it + 1, 80000) FROM 69997 FOR 6) PLACING '!?'::bytea FROM 4) FROM $t WHERE id = 1"),
		't', "$word: the bytes there");
	my $before = counted($t, 'direct_read_bytes');
	sql("SELECT substring(doc FROM $large / 3 FOR 20) FROM $t WHERE id = 1");
	my $read = counted($t, 'direct_read_bytes') - $before;
	ok($read > 0 && $read <= 140 * 1024, "$word: 20 bytes read one unit") or diag("$read bytes");

	# each unit once, however small the pieces are
	sql("INSERT INTO $t SELECT i, i, 5 * 131072, blob(i, 5 * 131072) FROM generate_series(2, 3) i");
	my %reads = (
		'a handle, in small pieces' => [ 5, "SELECT by_handle(doc, 1000) = blob(2, 5 * 131072) FROM $t WHERE id = 2" ],
		'a stream of small pieces' => [ 5, "SELECT in_chunks(doc, 1000) = blob(2, 5 * 131072) FROM $t WHERE id = 2" ],
		'as a whole' => [ 5, "SELECT doc::bytea = blob(2, 5 * 131072) FROM $t WHERE id = 2" ],
		'some bytes of two units again and again' => [ 2, "DO \$\$ BEGIN FOR i IN 1 .. 20 LOOP PERFORM substring(doc FROM 131063 FOR 20) FROM $t WHERE id = 2; END LOOP; END \$\$" ],
		'two values by turns' => [ 2, "DO \$\$ BEGIN FOR i IN 1 .. 20 LOOP PERFORM substring(doc FROM 300000 + i FOR 20) FROM $t WHERE id IN (2, 3); END LOOP; END \$\$" ]);
	foreach my $read (sort keys %reads)
	{
		my ($want, $statement) = @{ $reads{$read} };
		is(passes('decode', sub { sql($statement) }), $want, "$word: $read: units are decoded once");
	}
	cmp_ok(counted($t, 'compress_time'), '>', 0, "$word: the time to compress is counted");
	cmp_ok(counted($t, 'decompress_time'), '>', 0, "$word: the time to decompress is counted");
}

# ---- what was encoded wrong ----

# Insert a value of six units of which the fourth is wrong, though its checksum is right.
sub insert_spoiled
{
	my ($t, $id) = @_;
	arm($node, 'encode_right', 'skip', skip => 3);
	sql("INSERT INTO $t SELECT $id, $id, 700000, blob($id, 700000)");
	disarm($node);
	return;
}
my $undecodable = qr/securefile value cannot be decoded.*Unit 3 at segment offset \d+ has codec [12] and \d+ stored bytes/s;
foreach my $word (@words[ 1 .. 3 ])
{
	my $t = level_table($word);
	insert_spoiled($t, 1);
	fill($node, $t, 2, 3, 700_000);
	my $in = 3 * UNIT + 5;
	fails_with($node, $_, 'XX001', $undecodable, "$word: spoiled: $_")
	  foreach (
		"SELECT doc::bytea FROM $t WHERE id = 1", "SELECT substring(doc FROM $in FOR 3) FROM $t WHERE id = 1",
		"SELECT substring(doc FROM $in - 10 FOR 200000) FROM $t WHERE id = 1", "SELECT count(c) FROM $t, securefile_chunks(doc, chunk_size => 10000) c WHERE id = 1",
		"SELECT by_handle(doc, 9999) FROM $t WHERE id = 1", "SELECT securefile_digest(doc, 'sha256') FROM $t WHERE id = 1",
		"SELECT md5(doc) FROM $t WHERE id = 1", "SELECT doc = blob(1, 700000) FROM $t WHERE id = 1", "COPY $t (doc) TO STDOUT", "COPY $t (doc) TO STDOUT (FORMAT binary)",
		"SELECT (doc || 'x'::bytea)::bytea FROM $t WHERE id = 1", "INSERT INTO $t SELECT 9, 1, 700000, doc FROM $t WHERE id = 1",
		"UPDATE $t SET doc = overlay(doc PLACING 'x'::bytea FROM $in) WHERE id = 1");
	# never a byte: what a stream and a handle give before they come to it is right, and all there is
	my ($rc, $out, $err) = $node->psql('postgres', "\\set FETCH_COUNT 1\nSELECT encode(c, 'hex') FROM $t, securefile_chunks(doc, chunk_size => 10000) c WHERE id = 1");
	my $got = pack 'H*', $out =~ s/\s//gr;
	ok(length($got) <= 3 * UNIT && sql("SELECT substring(blob(1, 700000) FOR " . length($got) . ") = '\\x" . unpack('H*', $got) . "'") eq 't', "$word: a stream ends before it") or diag($err);
	is(sql("SELECT string_agg(finding, ' ') FROM securefile_check('$t', 'doc')"), 'undecodable', "$word: securefile_check() finds it");
	like(sql("SELECT detail FROM securefile_check('$t', 'doc')"), qr/Unit 3 .* has codec/, "$word: and says where");
	is(sql("SELECT string_agg((start - 1) / 131072 || CASE WHEN data = substring(blob(1, 700000) FROM start::int FOR length::int) THEN '' ELSE '!' END, ' ' ORDER BY start)"
				. " FROM (SELECT (securefile_salvage(doc)).* FROM $t WHERE id = 1) s WHERE data IS NOT NULL"), '0 1 2 4 5', "$word: securefile_salvage() returns the others");
	is(sql("SELECT count(*) FROM $t, securefile_salvage(doc) s WHERE id = 1 AND problem ~ 'cannot be decoded'"), 1, "$word: and says why not this one");
	is(sql("SELECT substring(doc FOR 3 * 131072) = substring(blob(1, 700000) FOR 3 * 131072) AND substring(doc FROM 4 * 131072 + 1) = substring(blob(1, 700000) FROM 4 * 131072 + 1)"
				. " FROM $t WHERE id = 1"), 't', "$word: what is around it can be read");
	# a version shares the unit that is wrong, one that has no need of it is right
	sql("UPDATE $t SET doc = overlay(doc PLACING 'start'::bytea FROM 1) WHERE id = 1");
	fails_with($node, "SELECT doc::bytea FROM $t WHERE id = 1", 'XX001', $undecodable, "$word: in a version, too");
	sql("UPDATE $t SET len = 3 * 131072, doc = securefile_truncate(overlay(doc PLACING substring(blob(1, 700000) FOR 5) FROM 1), 3 * 131072) WHERE id = 1");
	is(sql("SELECT doc::bytea = substring(blob(1, 700000) FOR 3 * 131072) FROM $t WHERE id = 1"), 't', "$word: cut before it");
	is(sql("SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, "$word: nothing is wrong any more");
	insert_spoiled($t, 4);
	sql("DELETE FROM $t WHERE id = 4", "DELETE FROM $t WHERE id = 1");
	sound($node, $t, "$word: deleted");
	rows_right($node, $t, 2, "$word: the others");
}

# ---- errors where it compresses and where it decompresses ----

{
	my $t = level_table('compress_medium');
	fill($node, $t, 1, 3, 900_000);
	foreach my $skip (0, 1, 5, 6)
	{
		arm($node, 'encode', 'error', skip => $skip);
		fails_with($node, "INSERT INTO $t SELECT 9, 9, 900000, blob(9, 900000)", '..000', qr/fault point encode/, "encode fails after $skip units: INSERT");
		arm($node, 'encode', 'error', skip => $skip < 2 ? $skip : 1);
		fails_with($node, "UPDATE $t SET doc = overlay(doc PLACING noise(8, 300000) FROM 100001)", '..000', qr/fault point encode/, "encode fails after $skip units: UPDATE");
		arm($node, 'decode', 'error', skip => $skip);
		fails_with($node, "SELECT doc::bytea FROM $t WHERE id = 2", '..000', qr/fault point decode/, "decode fails after $skip units");
		arm($node, 'decode', 'error');
		fails_with($node, "UPDATE $t SET doc = overlay(doc PLACING 'x'::bytea FROM 5)", '..000', qr/fault point decode/, 'decode fails in an edit');
		sql("BEGIN; SAVEPOINT a; SELECT securefile_fault('encode', 'error', skip => $skip); DO \$\$ BEGIN INSERT INTO $t SELECT 9, 9, 900000, blob(9, 900000);"
			  . " EXCEPTION WHEN OTHERS THEN NULL; END \$\$; INSERT INTO $t SELECT 10 + $skip, 10 + $skip, 900000, blob(10 + $skip, 900000); COMMIT");
		disarm($node);
	}
	rows_right($node, $t, 7, 'after errors');
	sound($node, $t, 'after errors');
}

# ---- all that is done to values ----

foreach my $options ('compress_low', 'compress_medium, filesystem_like_logging, nocache', 'compress_high, cache')
{
	my ($word) = $options =~ /^(\w+)/;
	my $other = $word eq 'compress_high' ? 'compress_low' : 'compress_high';
	my $t = "all_$word";
	sql("CREATE TABLE $t (id int, part int, data bytea, doc securefile($options)) PARTITION BY LIST (part); ALTER TABLE $t ALTER data SET STORAGE EXTERNAL",
		"CREATE TABLE ${t}_0 PARTITION OF $t FOR VALUES IN (0)", "CREATE TABLE ${t}_1 PARTITION OF $t FOR VALUES IN (1)",
		"INSERT INTO $t SELECT i, 0, half(i, i * 90000), half(i, i * 90000) FROM generate_series(1, 9) i",
		"INSERT INTO $t SELECT i, 0, turned(i, 14000000), turned(i, 14000000) FROM generate_series(10, 11) i");
	my $right = sub {
		my ($name) = @_;
		local $Test::Builder::Level = $Test::Builder::Level + 1;
		is(sql("SELECT count(*) FROM $t WHERE doc::bytea = data AND length(doc) = length(data)"), 11, "$options: $name");
		is(sql("SELECT count(*) FROM $t, LATERAL (SELECT by_handle(doc, 300000) AS bytes) h WHERE bytes = data"), 11, "$options: $name, by handles");
		is(sql("SELECT count(*) FROM securefile_check('${t}_0', 'doc') UNION ALL SELECT count(*) FROM securefile_check('${t}_1', 'doc')"), "0\n0", "$options: $name, check");
		return;
	};
	my $both = sub { my ($change, $where) = @_; return "UPDATE $t SET " . $change->('doc', 'securefile_truncate(doc, %s)') . ', ' . $change->('data', 'substring(data FOR %s)') . " WHERE $where" };
	$right->('stored');
	sql($both->(sub { "$_[0] = $_[0] || blob(id, 200000)" }, 'id % 2 = 0'));
	$right->('appended');
	sql($both->(sub { "$_[0] = overlay($_[0] PLACING turned(id, 150000) FROM 60001)" }, 'id > 2'));
	$right->('overlaid');
	sql($both->(sub { "$_[0] = " . sprintf $_[1], '(length(data) - 40001)' }, 'id % 3 = 0'));
	$right->('truncated');
	# a part is cut out, and a hole is in its place
	sql("DO \$\$ DECLARE h int; r record; was bytea; BEGIN
		FOR r IN SELECT id, length(data) AS len FROM $t WHERE id > 5 LOOP
			SELECT securefile_open(doc, 'rw'), data INTO h, was FROM $t WHERE id = r.id;
			PERFORM securefile_truncate(h, 131072), securefile_seek(h, 5 * 131072, 0), securefile_write(h, substring(was FOR 200000));
			UPDATE $t SET doc = securefile_finish(h),
				data = substring(was FOR 131072) || decode(repeat('00', 4 * 131072), 'hex') || substring(was FOR 200000) WHERE id = r.id;
		END LOOP; END \$\$");
	$right->('with holes');
	is(sql("SELECT count(*) FROM $t, securefile_storage(doc) s WHERE s.length > 131072 * s.units"), 6, "$options: which are stored as holes");
	sql("UPDATE $t SET part = 1 WHERE id % 2 = 1");
	$right->('in another partition');
	sql("ALTER TABLE $t ALTER doc TYPE securefile(" . $options =~ s/$word/$other/r . ')', "UPDATE $t SET part = 1 - part WHERE id < 8",
		$both->(sub { "$_[0] = overlay($_[0] PLACING noise(id, 1000) FROM 1) || blob(1, 5000)" }, 'id % 4 < 2'));
	$right->('of another option, and back');
	sql("CREATE TABLESPACE s_$word LOCATION ''; ALTER TABLE ${t}_0 SET TABLESPACE s_$word; SELECT securefile_set_tablespace('${t}_1', 'doc', 's_$word')");
	$right->('in another tablespace');

	# not committed, and a crash
	my $session = background($node);
	$session->query_safe("BEGIN; UPDATE $t SET doc = doc || noise(1, 300000), data = data || noise(1, 300000); SAVEPOINT a; DELETE FROM $t WHERE id > 3");
	crash($node);
	eval { $session->quit };
	$node->start;
	$right->('after a crash');

	# both ways, with all units
	foreach my $to ('nocompress', $word)
	{
		sql("ALTER TABLE $t ALTER doc TYPE securefile(" . $options =~ s/$word/$to/r . ')', "SELECT securefile_rewrite('$t', 'doc')");
		$right->("rewritten, $to");
		is(sql("SELECT string_agg(DISTINCT codec, ' ') FROM $t, securefile_storage(doc) s WHERE s.compressed_units > 0"), $to eq 'nocompress' ? '' : $codec{$word}, "$options: rewritten, $to: the codec");
	}
}

$node->stop;
done_testing();
