# Every way that SQL has to a column that encrypts, within one server: each gives what a column
# without the option gives, values that are stored on the way are encrypted with a key of their
# own column, and nothing is damaged; or it says why not.

use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $keys = PostgreSQL::Test::Utils::tempdir() . '/keys';
sub put_keys { write_file($keys, join('', @_)); chmod 0644, $keys; return }
my $one = 'one ' . ('11' x 32) . "\n";
put_keys($one);
my $node = new_cluster('ways', conf => [ 'securefile.monitor = off', 'wal_level = logical', 'allow_in_place_tablespaces = on', 'full_page_writes = off',
	"securefile.key_command = 'cat $keys'" ]);
sub load_keys { put_keys(@_); return sql('SELECT securefile_load_keys()') }

# Rows 1 to 7 of a table with these lengths.
my @lengths = (0, 10, 3000, 4000, 4001, 300_000, 1_300_000);
my $values = '(VALUES ' . join(', ', map { '(' . ($_ + 1) . ", $lengths[$_])" } 0 .. $#lengths) . ') v (id, len)';
sub make
{
	my ($t, $options) = @_;
	make_table($node, $t, $options);
	return sql("INSERT INTO $t SELECT id, id, len, blob(id, len) FROM $values");
}

# After these statements: rows of a table, how many are wrong, values that are encrypted and
# not, and findings.
sub state_of
{
	my ($t, @sql) = @_;
	return (split /\n/, sql(@sql, "SELECT count(*) || ' rows, ' || count(*) FILTER (WHERE doc::bytea IS DISTINCT FROM blob(seed, len)) || ' wrong, '"
		  . " || (SELECT coalesce(sum(stored_values) FILTER (WHERE purpose = 'data'), 0) || ' encrypted, ' || sum(stored_values) FILTER (WHERE purpose = 'plain') || ' plain, ' FROM securefile_keys('$t', 'doc', true))"
		  . " || (SELECT count(*) FROM securefile_check('$t', 'doc')) || ' findings' FROM $t"))[-1];
}

# One test: all values but the empty ones are encrypted, or none is.
sub right
{
	my ($t, $rows, $empty, $name, @sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $n = $rows - $empty;
	return is(state_of($t, @sql), "$rows rows, 0 wrong, $n encrypted, 0 plain, 0 findings", $name);
}
sub right_plain
{
	my ($t, $rows, $empty, $name, @sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $n = $rows - $empty;
	return is(state_of($t, @sql), "$rows rows, 0 wrong, 0 encrypted, $n plain, 0 findings", $name);
}

make('e', 'encrypt');
make('z', 'encrypt, compress_medium');
make('f', 'encrypt, filesystem_like_logging');
make('p', '');
sql("CREATE TABLE b AS SELECT id, id AS seed, len, blob(id, len) AS doc FROM $values");
right($_, 7, 1, $_) foreach 'e', 'z', 'f';

# ---- read and compared ----

foreach my $t ('e', 'z', 'f')
{
	is(sql("SELECT count(*) FROM $t JOIN b USING (id) WHERE $t.doc = b.doc AND b.doc = $t.doc AND NOT $t.doc <> b.doc AND $t.doc = blob(id, b.len) AND $t.doc <> b.doc || 'x'::bytea"
		. " AND $t.doc <> overlay($t.doc PLACING 'x'::bytea FROM 1) || ''::bytea AND $t.doc || $t.doc = b.doc || b.doc AND securefile_truncate($t.doc, 5000) <> b.doc || 'x'::bytea"
		. " AND substring($t.doc FROM 2990 FOR 290000) = substring(b.doc FROM 2990 FOR 290000) AND securefile_digest($t.doc, 'sha256') = sha256(b.doc)"
		. " AND (SELECT coalesce(string_agg(c, '' ORDER BY n), '') FROM securefile_chunks($t.doc, 2, NULL, 70000) WITH ORDINALITY c (c, n)) = substring(b.doc FROM 2)"), 7, "$t: operators and functions");
	is(sql("SELECT count(*) FROM (SELECT DISTINCT doc FROM (SELECT doc FROM $t UNION ALL SELECT doc FROM p) d) u", "SELECT string_agg(n::text, '') FROM (SELECT count(*) AS n FROM (SELECT doc FROM $t UNION ALL SELECT doc FROM e) d GROUP BY doc) g",
		"SELECT count(*) FROM (SELECT doc FROM $t INTERSECT SELECT doc FROM p) i"), "7\n2222222\n7", "$t: DISTINCT, GROUP BY, INTERSECT");
	my $join = "SELECT count(*) FROM $t JOIN z other ON $t.doc = other.doc";
	like(sql("EXPLAIN $join"), qr/Hash Join/, "$t: a hash join");
	is(sql($join, "SELECT count(*) FROM $t WHERE doc IN (SELECT doc FROM b WHERE len > 3000)"), "7\n4", "$t: joins by content");
	is(sql("PREPARE q (bytea, bytea[]) AS SELECT string_agg(id::text, ' ' ORDER BY id) FROM $t WHERE doc = \$1 OR doc = ANY (\$2) OR doc IN (\$1, 'x')", q{EXECUTE q(blob(6, 300000), ARRAY[blob(2, 10), '', 'y'])}), '1 2 6', "$t: bytea parameters");
}

# ---- statistics ----

foreach my $t ('e', 'z', 'f')
{
	# what it notes besides are three numbers: two of which the ratio is made, and a part
	is(sql("ANALYZE $t", "SELECT stadistinct, num_nonnulls(stavalues1, stavalues2, stavalues3, stavalues4, stavalues5, stanumbers2, stanumbers3, stanumbers4, stanumbers5), array_length(stanumbers1, 1), stawidth > 0"
		. " FROM pg_statistic WHERE starelid = '$t'::regclass AND staattnum = 4"), '0|0|3|t', "$t: ANALYZE notes no contents");
	is(sql("SELECT ratio > 0 AND abs(plain_bytes - (SELECT sum(length(doc)) FROM $t, securefile_storage(doc) WHERE form = 'stored')) <= 1 AND abs(ratio * live_bytes - plain_bytes) < 2 FROM securefile_usage('$t', 'doc')"), 't', "$t: lengths and ratio");
	# the table is the only thing that was ever stored there
	is(sql("SELECT c.bytes_nontransformed, c.bytes_transformed - s.length, c.bytes_transformed_stored - s.stored, c.nontransformed_flushes, (c.compress_time > 0)::int FROM securefile_stat c,"
		. " (SELECT sum(length) AS length, sum(stored_bytes) AS stored FROM $t, securefile_storage(doc) WHERE form = 'stored') s WHERE relname = '$t'"), '0|0|0|0|' . ($t eq 'z' ? 1 : 0), "$t: counters");
}
is(sql(q{SELECT count(*) FROM pg_stats WHERE attname = 'doc' AND tablename IN ('e', 'z', 'f') AND num_nonnulls(most_common_vals, histogram_bounds, correlation, most_common_elems) = 0}), 3, 'pg_stats has none');
is(sql(q{SELECT string_agg(form || ' ' || stored_bytes - length || ' ' || units || ' ' || key_id, ', ' ORDER BY id) FROM e, securefile_storage(doc) WHERE length > 0}),
	'inline 65 0 1, inline 68 0 1, inline 68 0 1, stored 48 1 1, stored 144 3 1, stored 480 10 1', 'what encryption takes');
my $estimate = q{SELECT string_agg((option, sampled_values, units, compressed_units, plain_bytes, stored_bytes)::text, ' ') FROM securefile_estimate('%s', 'doc')};
is(sql(sprintf $estimate, 'e'), sql(sprintf $estimate, 'p'), 'securefile_estimate() says the same as without encryption');

# ---- salvage ----

foreach my $t ('e', 'z', 'f')
{
	make("s$t", $t eq 'e' ? 'encrypt, nocache' : $t eq 'z' ? 'encrypt, compress_low, disable_storage_in_row' : 'encrypt, filesystem_like_logging');
	my ($file, $live) = split /\|/, sql("SELECT data_files, live_bytes FROM securefile_columns, securefile_usage(relid, attname) WHERE relname = 's$t'");
	$node->stop;
	# somewhere in the value of the last row
	patch($node->data_dir . '/' . $file =~ s/seg-.*/seg-00000000.sf/r, 512 * int(0.8 * $live / 512), "\1" x 512);
	$node->start;
	my $found = sql("SELECT finding || ' ' || count(*) OVER () || ' ' || id FROM securefile_check('s$t', 'doc') c JOIN s$t ON s$t.ctid = c.ctid");
	is($found, 'checksum mismatch 1 7', "s$t: a damaged unit") or diag($found);
	is(sql("SELECT count(*), count(problem), bool_and(problem IS NULL OR data IS NULL AND problem ~ '^securefile value is damaged: Unit \\d+ at segment offset'),"
		. " bool_and(data IS NULL OR data = substring(blob(7, 1300000) FROM start::int FOR s.length::int)) FROM s$t, securefile_salvage(doc) s WHERE id = 7"), '10|1|t|t', "s$t: all others are salvaged");
	is(sql("SELECT count(*), count(problem), string_agg(data, '' ORDER BY start) = blob(6, 300000) FROM s$t, securefile_salvage(doc) WHERE id = 6"), '3|0|t', "s$t: its neighbour");
	is(sql("SELECT data = blob(2, 10), problem IS NULL FROM s$t, securefile_salvage(doc) WHERE id = 2"), 't|t', "s$t: a small one");
	load_keys('other ' . ('22' x 32) . "\n");
	fails_with($node, "SELECT * FROM s$t, securefile_salvage(doc) WHERE id = $_", '55000', 'master key "one" of column "doc" of table "\w+" is not loaded', "s$t: without the key nothing is, value $_") foreach 2, 6, 7;
	load_keys($one);
	# the way to mend a row
	right("s$t", 7, 1, "s$t: mended", "UPDATE s$t SET doc = overlay((SELECT string_agg(coalesce(data, decode(repeat('00', s.length::int), 'hex')), '' ORDER BY start) FROM securefile_salvage(doc) s)"
		. " PLACING (SELECT substring(blob(7, 1300000) FROM start::int FOR s.length::int) FROM securefile_salvage(doc) s WHERE data IS NULL) FROM (SELECT start::int FROM securefile_salvage(doc) WHERE data IS NULL))::securefile WHERE id = 7");
	sql("DROP TABLE s$t");
}

# ---- handles: pieces of all sizes, forwards and backwards, beyond the end, cut ----

sql(q{CREATE FUNCTION by_handle(t regclass, base bytea) RETURNS boolean LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_create(t, 'doc');
		want bytea := base;
		at int;
		piece bytea;
		got bytea;
	BEGIN
		PERFORM securefile_write(fd, base);
		EXECUTE format('INSERT INTO %s SELECT 100, 0, 0, securefile_finish($1)', t) USING fd;
		EXECUTE format('SELECT securefile_open(doc, ''rw'') FROM %s WHERE id = 100', t) INTO fd;
		FOR i IN 1 .. 40 LOOP
			at := (i * 7919) % 900 * 1000;
			piece := blob(i, 1 + (i * 131) % 3000 * (1 + i % 70));
			IF i % 6 = 0 THEN
				at := at % (length(want) + 1000);
				PERFORM securefile_truncate(fd, at);
				want := CASE WHEN length(want) >= at THEN substring(want FOR at) ELSE want || decode(repeat('00', at - length(want)), 'hex') END;
			ELSIF i % 6 = 1 THEN
				at := length(want) / 2;
				IF securefile_seek(fd, at - length(want), 2) <> at OR securefile_tell(fd) <> at OR securefile_read(fd, 200000) <> substring(want FROM at + 1 FOR 200000) THEN
					RETURN false;
				END IF;
			ELSE
				PERFORM securefile_seek(fd, at, 0), securefile_write(fd, piece);
				want := overlay(CASE WHEN length(want) < at THEN want || decode(repeat('00', at - length(want)), 'hex') ELSE want END PLACING piece FROM at + 1);
			END IF;
		END LOOP;
		EXECUTE format('UPDATE %s SET doc = securefile_finish($1) WHERE id = 100 RETURNING doc::bytea', t) INTO got USING fd;
		EXECUTE format('DELETE FROM %s WHERE id = 100', t);
		RETURN got = want;
	END $$});
foreach my $len (2000, 500_000, 13_000_000)
{
	is(sql(map { "SELECT by_handle('$_', blob(1, $len))" } 'e', 'z', 'f') =~ s/\n//gr, 'ttt', "handles on $len bytes");
}

# ---- rows of other columns: in, out, and within ----

my $column = 'SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = $$doc$$ AND attrelid =';
right('made', 7, 1, 'CREATE TABLE AS', 'CREATE TABLE made AS SELECT * FROM z');
right('made_2', 7, 1, 'SELECT INTO', 'SELECT * INTO made_2 FROM f');
right_plain('cast_away', 7, 1, 'CREATE TABLE AS with a cast', 'CREATE TABLE cast_away AS SELECT id, seed, len, doc::securefile FROM e');
right_plain('united', 14, 2, 'neither has a UNION of columns with different ones', 'CREATE TABLE united AS SELECT * FROM e UNION ALL SELECT * FROM z');
is(sql(map { "$column '$_'::regclass" } 'made', 'made_2', 'cast_away', 'united'), "securefile(compress_medium, encrypt)\nsecurefile(encrypt, filesystem_like_logging)\nsecurefile\nsecurefile", 'their types');
sql('DROP TABLE made, made_2, cast_away, united');
make_table($node, 'w', 'encrypt, compress_low');
right('w', 7, 1, 'INSERT .. SELECT from plain values', 'INSERT INTO w SELECT * FROM p');
right('w', 21, 3, 'and from others', map { "INSERT INTO w SELECT id + $$_[1], seed, len, doc FROM $$_[0]" } [ 'e', 10 ], [ 'f', 20 ]);
right('w', 14, 2, 'DELETE .. RETURNING into itself', 'WITH d AS (DELETE FROM w WHERE id > 10 RETURNING *) INSERT INTO w SELECT id + 100, seed, len, doc FROM d WHERE id < 20');
right('w', 14, 2, 'ON CONFLICT', q{INSERT INTO w SELECT id, seed, len, 'other' FROM p ON CONFLICT DO NOTHING}, 'INSERT INTO w SELECT id, seed, len, doc FROM z ON CONFLICT (id) DO UPDATE SET doc = excluded.doc');
right('w', 14, 2, 'ON CONFLICT that edits', q{UPDATE w SET doc = securefile_truncate(doc, len / 2) WHERE id < 10}, 'INSERT INTO w SELECT id, seed, len, substring(doc FROM len / 2 + 1) FROM p ON CONFLICT (id) DO UPDATE SET doc = w.doc || excluded.doc');
right_plain('q', 7, 1, 'MERGE into a plain column', 'CREATE TABLE q (LIKE p)', 'INSERT INTO q SELECT id, 0, 0, NULL FROM p WHERE id > 3', 'MERGE INTO q USING e ON e.id = q.id WHEN MATCHED THEN UPDATE SET doc = e.doc, seed = e.seed, len = e.len WHEN NOT MATCHED THEN INSERT VALUES (e.*)');
right('w', 7, 1, 'MERGE', 'DELETE FROM w WHERE id > 7 OR id < 3', 'MERGE INTO w USING q ON w.id = q.id WHEN MATCHED AND q.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET doc = q.doc WHEN NOT MATCHED THEN INSERT VALUES (q.*)', 'INSERT INTO w SELECT * FROM q WHERE id = 3');
right('w', 7, 1, 'savepoints', 'BEGIN', 'SAVEPOINT a', q{UPDATE w SET doc = doc || 'x'::bytea}, 'SAVEPOINT b', 'INSERT INTO w SELECT id + 50, seed, len, doc FROM e', 'ROLLBACK TO b', 'RELEASE b', 'DELETE FROM w WHERE id > 2', 'ROLLBACK TO a', 'UPDATE w SET doc = blob(8, len), seed = 8 WHERE id IN (2, 6)', 'COMMIT');
right('w', 7, 1, 'prepared and committed', 'BEGIN', 'UPDATE w SET doc = blob(9, len), seed = 9 WHERE id IN (2, 6)', q{PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'});
right('w', 7, 1, 'prepared and rolled back', 'BEGIN', q{UPDATE w SET doc = doc || 'x'::bytea}, 'INSERT INTO w SELECT id + 50, seed, len, doc FROM e', q{PREPARE TRANSACTION 'p'}, q{ROLLBACK PREPARED 'p'});
right('first', 2, 0, 'the first key is made in a savepoint that is rolled back', 'CREATE TABLE first (id int, seed int, len int, doc securefile(encrypt))', 'BEGIN', 'SAVEPOINT a', 'INSERT INTO first SELECT * FROM p', 'ROLLBACK TO a', 'INSERT INTO first SELECT * FROM p WHERE id IN (2, 5)', 'COMMIT');
right('first', 2, 0, 'TRUNCATE that is rolled back', 'BEGIN', 'TRUNCATE first', 'INSERT INTO first SELECT * FROM p', 'ROLLBACK', 'BEGIN', 'SAVEPOINT a', 'TRUNCATE first', 'INSERT INTO first SELECT * FROM p', 'ROLLBACK TO a', 'COMMIT');

# ---- ALTER TABLE and the like ----

my $unlogged = 'cannot make table "w" unlogged while column "doc" has stored values.*Values in rows that are encrypted.*to bytea first';
fails_with($node, 'ALTER TABLE w SET UNLOGGED', '0A000', $unlogged, 'SET UNLOGGED');
sql('CREATE UNLOGGED TABLE u (id int, seed int, len int, doc securefile)', 'INSERT INTO u SELECT * FROM e', 'ALTER TABLE u SET LOGGED');
right_plain('u', 7, 1, 'out of an unlogged table that is made a logged one');
right('u', 7, 1, 'and encrypted then', 'ALTER TABLE u ALTER doc TYPE securefile(encrypt)', q{SELECT securefile_rewrite('u', 'doc')});
is(sql('ALTER TABLE u ALTER doc TYPE bytea', 'SELECT count(*) FROM u WHERE doc = blob(seed, len)'), 7, 'ALTER TYPE to bytea');
right('u', 7, 1, 'and back', 'ALTER TABLE u ALTER doc TYPE securefile(encrypt)');
right('u', 7, 1, 'and by text', q{ALTER TABLE u ALTER doc TYPE text USING encode(doc, 'hex')}, q{ALTER TABLE u ALTER doc TYPE securefile(encrypt, disable_storage_in_row) USING decode(doc, 'hex')});
right('u', 7, 1, 'another column takes the values', 'ALTER TABLE u ADD more securefile(encrypt)', 'UPDATE u SET more = doc', 'ALTER TABLE u DROP doc', 'ALTER TABLE u RENAME more TO doc', 'VACUUM FULL u');
right('u', 7, 1, 'the table is written anew', 'ALTER TABLE u ALTER id TYPE bigint, ADD r float DEFAULT random()');
right('w', 7, 1, "$_->[0]", @$_[ 1 .. $#$_ ]) foreach
  [ 'VACUUM FULL', 'VACUUM FULL w' ], [ 'CLUSTER', 'CLUSTER w USING w_pkey' ], [ 'REINDEX', 'REINDEX TABLE w' ],
  [ 'a tablespace for the values', q{CREATE TABLESPACE space LOCATION ''}, q{SELECT securefile_set_tablespace('w', 'doc', 'space')} ],
  [ 'one for the rest', 'ALTER TABLE w SET TABLESPACE space' ],
  [ 'back, and rolled back', 'BEGIN', q{SELECT securefile_set_tablespace('w', 'doc', 'pg_default')}, 'INSERT INTO w SELECT id + 50, seed, len, doc FROM p', 'ROLLBACK' ],
  [ 'back, with new values', 'BEGIN', q{SELECT securefile_set_tablespace('w', 'doc', 'pg_default')}, 'DELETE FROM w WHERE id < 4', 'INSERT INTO w SELECT * FROM p WHERE id < 4', 'COMMIT' ];

# a key that is made in a copy of the storage goes with it, and nothing is encrypted with it then
foreach my $end ('ROLLBACK', 'ROLLBACK TO a; COMMIT', q{PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'})
{
	right('w', 7, 1, "moved, first values, $end, first values", 'TRUNCATE w', 'BEGIN', 'SAVEPOINT a', q{SELECT securefile_set_tablespace('w', 'doc', 'space')}, 'INSERT INTO w SELECT * FROM e', $end, 'INSERT INTO w SELECT * FROM p');
}

# options, and values of before
my $stored = 'INSERT INTO w SELECT * FROM p WHERE id IN (2, 6)';
sql('ALTER TABLE w ALTER doc TYPE securefile(decrypt)');
is(state_of('w', 'DELETE FROM w WHERE id IN (2, 6)', $stored), '7 rows, 0 wrong, 4 encrypted, 2 plain, 0 findings', 'decrypt: new values');
is(state_of('w', q{UPDATE w SET doc = overlay(doc PLACING substring(blob(seed, len) FROM 5 FOR 3) FROM 5) WHERE id IN (3, 7)}), '7 rows, 0 wrong, 2 encrypted, 4 plain, 0 findings', 'decrypt: edited values');
is(sql(q{SELECT count(*) FROM securefile_keys('w', 'doc') WHERE is_current}), 0, 'decrypt: no key is the current one');
right_plain('w', 7, 1, 'decrypt: rewritten', q{SELECT securefile_rewrite('w', 'doc')});
is(state_of('w', 'ALTER TABLE w ALTER doc TYPE securefile(encrypt, compress_high)', q{UPDATE w SET doc = overlay(doc PLACING substring(blob(seed, len) FROM 5 FOR 3) FROM 5) WHERE id IN (3, 7)}),
	'7 rows, 0 wrong, 2 encrypted, 4 plain, 0 findings', 'encrypt: edited values');
right('w', 7, 1, 'encrypt: rewritten beside others', q{CALL securefile_rewrite_online('w', 'doc', 100000, true)});
right_plain('w', 7, 1, 'decrypt: rewritten beside others', 'ALTER TABLE w ALTER doc TYPE securefile', q{CALL securefile_rewrite_online('w', 'doc', NULL, true)});
right('w', 7, 1, "securefile_rewrite() to $_", ($_ eq 'logging' ? () : 'ALTER TABLE w ALTER doc TYPE securefile(encrypt, nocache)'), qq{SELECT securefile_rewrite('w', 'doc', '$_')}) foreach 'filesystem_like_logging', 'logging';

# a value that a handle began to write before the column changed
foreach my $way ([ 'a new file', q{securefile_create('w', 'doc')} ], [ 'a value of the column', q{(SELECT securefile_open(doc, 'rw') FROM w WHERE id = 6)} ])
{
	foreach my $to ('encrypt', 'decrypt')
	{
		my $from = $to eq 'encrypt' ? 'decrypt' : 'encrypt';
		is(state_of('w', "ALTER TABLE w ALTER doc TYPE securefile($from)", q{SELECT securefile_rewrite('w', 'doc')}, qq{DO \$\$ DECLARE fd int := $way->[1]; BEGIN
			PERFORM securefile_write(fd, blob(3, 200000)), securefile_truncate(fd, 200000);
			ALTER TABLE w ALTER doc TYPE securefile($to);
			PERFORM securefile_seek(fd, 7, 0), securefile_write(fd, substring(blob(3, 200000) FROM 8 FOR 100000));
			UPDATE w SET doc = securefile_finish(fd), seed = 3, len = 200000 WHERE id = 6;
			END \$\$}), '7 rows, 0 wrong, ' . ($to eq 'encrypt' ? '1 encrypted, 5 plain' : '5 encrypted, 1 plain') . ', 0 findings', "$way->[0], begun before the column was changed to $to");
	}
}

# partitions have one type, so all of them encrypt or none does
fails_with($node, $_, '42804', 'child table "\w+" has different type for column "doc"') foreach
  'CREATE TABLE parts (id int, seed int, len int, doc securefile) PARTITION BY LIST (id); CREATE TABLE part (id int, seed int, len int, doc securefile(encrypt)); ALTER TABLE parts ATTACH PARTITION part FOR VALUES IN (1)',
  'CREATE TABLE part_2 (id int, seed int, len int, doc securefile); CREATE TABLE parts_2 (id int, seed int, len int, doc securefile(encrypt)) PARTITION BY LIST (id); ALTER TABLE parts_2 ATTACH PARTITION part_2 FOR VALUES IN (1)';
sql('ALTER TABLE parts_2 ATTACH PARTITION part FOR VALUES IN (1)', 'CREATE TABLE part_3 PARTITION OF parts_2 FOR VALUES IN (2)', 'INSERT INTO parts_2 SELECT 1, seed, len, doc FROM e');
right('part', 7, 1, 'a partition that was attached');
right('part_3', 7, 1, 'rows that move to another one', 'UPDATE parts_2 SET id = 2');
right('part_3', 7, 1, 'detached', 'ALTER TABLE parts_2 DETACH PARTITION part_3', 'INSERT INTO part SELECT 1, seed, len, doc FROM part_3');
right('part', 7, 1, 'one that is left');
is(state_of('part', 'ALTER TABLE parts_2 ALTER doc TYPE securefile', 'UPDATE part SET doc = blob(seed, len) WHERE len > 4000'), '7 rows, 0 wrong, 3 encrypted, 3 plain, 0 findings', 'the option of all partitions');

# ---- who looks at rows on their way ----

sql('CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile(encrypt, compress_medium), was bytea, sha bytea)', 'CREATE TABLE log (n serial, seed int, len int, doc securefile(encrypt))', 'CREATE TABLE log_plain (n serial, seed int, len int, doc securefile)',
	q{CREATE FUNCTION before() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF TG_OP = 'UPDATE' THEN NEW.was := OLD.doc::bytea; END IF;
		NEW.doc := blob(NEW.seed, 3) || substring(NEW.doc FROM 4);
		NEW.sha := securefile_digest(NEW.doc, 'sha256');
		RETURN NEW; END $$},
	q{CREATE FUNCTION after() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF TG_OP <> 'INSERT' THEN INSERT INTO log (seed, len, doc) VALUES (OLD.seed, OLD.len, OLD.doc); INSERT INTO log_plain (seed, len, doc) VALUES (OLD.seed, OLD.len, OLD.doc); END IF;
		IF TG_OP <> 'DELETE' AND NEW.doc::bytea = blob(NEW.seed, NEW.len) THEN INSERT INTO log (seed, len, doc) VALUES (NEW.seed, NEW.len, NEW.doc); END IF;
		RETURN NULL; END $$},
	q{CREATE FUNCTION at_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO log (seed, len, doc) SELECT seed, len, doc FROM new_rows;
		RETURN NULL; END $$},
	'CREATE TRIGGER a BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION before()', 'CREATE TRIGGER b AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION after()',
	'CREATE TRIGGER c AFTER UPDATE ON t REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION at_end()',
	'CREATE CONSTRAINT TRIGGER d AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION after()');
right('t', 5, 0, 'triggers: INSERT', 'BEGIN', q{INSERT INTO t SELECT id, seed, len, 'abc'::bytea || substring(doc FROM 4) FROM e WHERE id BETWEEN 2 AND 6}, 'UPDATE t SET len = len', 'COMMIT');
right('t', 4, 0, 'triggers: UPDATE and DELETE', 'UPDATE t SET doc = blob(3, len), seed = 3', 'DELETE FROM t WHERE id = 6');
is(sql('SELECT count(*) FROM t WHERE sha = sha256(blob(seed, len)) AND was = blob(id, len)'), 4, 'triggers see old and new values');
# twice at INSERT, twice and once more at each of two UPDATEs, once at DELETE
right('log', 41, 0, 'what they stored elsewhere');
right_plain('log_plain', 11, 0, 'and in a column without the option');

sql('CREATE ROLE somebody LOGIN', 'CREATE TABLE r (id int, seed int, len int, doc securefile(encrypt))', 'INSERT INTO r SELECT * FROM e', 'GRANT ALL ON r TO somebody', 'ALTER TABLE r ENABLE ROW LEVEL SECURITY',
	q{CREATE POLICY seen ON r USING (substring(doc FROM 1 FOR 2) = substring(blob(seed, 2) FROM 1 FOR 2) AND id % 2 = 0) WITH CHECK (securefile_digest(doc, 'md5') = decode(md5(blob(seed, len)), 'hex'))});
is(sql('SET ROLE somebody', 'SELECT string_agg(id::text, $$ $$ ORDER BY id) FROM r WHERE doc::bytea = blob(seed, len)'), '2 4 6', 'row security over contents');
fails_with($node, q{UPDATE r SET doc = 'x'}, '42501', 'violates row-level security policy', 'which is asked of new ones', user => 'somebody');
right('r', 7, 1, 'and lets right ones pass', 'SET ROLE somebody', 'UPDATE r SET doc = blob(seed + 1, len), seed = seed + 1', 'RESET ROLE');
right('r', 8, 2, 'a view', 'ALTER TABLE r DISABLE ROW LEVEL SECURITY', 'CREATE VIEW v AS SELECT *, length(doc) AS l FROM r WHERE length(doc) > 0', 'INSERT INTO v (id, seed, len, doc) SELECT id + 10, seed, len, doc FROM p', 'UPDATE v SET doc = blob(5, len), seed = 5 WHERE l > 4000', 'DELETE FROM v WHERE id IN (12, 13, 14, 15, 16, 17)');
fails_with($node, 'CREATE MATERIALIZED VIEW m AS SELECT * FROM r', '0A000', 'materialized view "m" cannot have column "doc".*Cast the column to bytea', 'a materialized view');

# variables, over COMMIT, and longer than their rows
make_table($node, 'brief', 'encrypt');
sql(q{CREATE PROCEDURE variables() LANGUAGE plpgsql AS $$
	DECLARE
		large securefile := (SELECT doc FROM e WHERE id = 6);
		small securefile(encrypt) := (SELECT doc FROM e WHERE id = 2);
		many securefile[] := (SELECT array_agg(doc ORDER BY id) FROM e WHERE id IN (2, 6));
		whole e := (SELECT e FROM e WHERE id = 3);
		edited securefile := large || 'x'::bytea;
	BEGIN
		COMMIT;
		ASSERT large::bytea = blob(6, 300000) AND small::bytea = blob(2, 10) AND edited::bytea = blob(6, 300000) || 'x'::bytea AND whole.doc::bytea = blob(3, 3000);
		INSERT INTO brief VALUES (1, 6, 300000, large), (2, 2, 10, small), (3, 6, 300000, many[2]), (4, 2, 10, many[1]), (5, 3, 3000, whole.doc), (6, 6, 300000, securefile_truncate(edited, 300000));
		COMMIT;
	END $$});
right('brief', 6, 0, 'variables', 'CALL variables()');
my $held = 'BEGIN; DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT doc FROM brief ORDER BY id; COMMIT';
my $session = background($node);
$session->query_safe("$held; DELETE FROM brief WHERE id > 2");
is(md5_hex($session->query_safe('FETCH ABSOLUTE 1 FROM c')), sql(q{SELECT md5(blob(6, 300000)::text)}), 'a held cursor');
is(length($session->query_safe('FETCH ABSOLUTE 5 FROM c')) , 6002, 'small values outlive their row');
sql('TRUNCATE brief', 'INSERT INTO brief SELECT * FROM e WHERE id IN (2, 6)');
foreach my $n (2, 6)
{
	$session->{stderr} = '';
	$session->query("FETCH ABSOLUTE $n FROM c");
	like($session->{stderr}, qr/securefile value no longer exists/, "not the column's storage, value $n");
}
$session->{stderr} = '';
$session->query_safe('CLOSE c');
# an old snapshot
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM p');
sql(q{UPDATE e SET doc = 'new' WHERE id > 1}, 'DELETE FROM z', 'VACUUM e, z', q{SELECT securefile_maintain('e', 'doc')}, 'TRUNCATE brief', q{SELECT securefile_rewrite('f', 'doc', 'logging')});
is($session->query_safe(join(' UNION ALL ', map { "SELECT '$_', count(*) FILTER (WHERE doc::bytea = blob(seed, len)), count(*) FROM $_" } 'e', 'z', 'brief')), "e|7|7\nz|7|7\nbrief|0|0", 'an old snapshot');
$session->query('SELECT sum(length(doc::bytea)) FROM f WHERE id = 2');
like($session->{stderr}, qr/securefile value no longer exists/, 'a column that was rewritten to the other logging mode');
$session->quit;
sql('TRUNCATE e, z, f', map { "INSERT INTO $_ SELECT * FROM p" } 'e', 'z', 'f');

# processes
is(sql(in_parallel($node), 'BEGIN', 'INSERT INTO z SELECT id + 10, seed, len, doc FROM e', 'SELECT count(*) FROM z WHERE doc::bytea = blob(seed, len)', 'SELECT count(*) FROM z JOIN e ON z.doc = e.doc', 'ROLLBACK'), "14\n14", 'a parallel query');

# temporary tables, and foreign ones
is(sql('CREATE TEMP TABLE x AS SELECT id, seed, len, doc::securefile FROM z', 'CREATE TEMP VIEW y AS SELECT * FROM e', 'CREATE TABLE from_temp AS SELECT * FROM e WHERE id = 0', 'INSERT INTO from_temp SELECT * FROM x', 'SELECT count(*) FROM x JOIN y USING (id) WHERE x.doc = y.doc'), 7, 'a temporary table');
right('from_temp', 7, 1, 'and back');
sql('CREATE EXTENSION postgres_fdw', sprintf(q{CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%s', dbname 'postgres')}, $node->host, $node->port), 'CREATE USER MAPPING FOR CURRENT_USER SERVER here',
	q{CREATE FOREIGN TABLE far (id int, seed int, len int, doc securefile(encrypt)) SERVER here OPTIONS (table_name 'from_temp')}, q{CREATE FOREIGN TABLE far_plain (id int, seed int, len int, doc securefile) SERVER here OPTIONS (table_name 'from_temp')});
is(sql(map { "SELECT count(*) FROM $_ WHERE doc::bytea = blob(seed, len)" } 'far', 'far_plain'), "7\n7", 'foreign tables');
right('from_temp', 21, 3, 'written to', 'INSERT INTO far SELECT id + 10, seed, len, doc FROM e', 'INSERT INTO far_plain SELECT id + 20, seed, len, doc FROM z', 'UPDATE far SET doc = blob(5, len), seed = 5 WHERE len > 3000');
fails_with($node, q{SELECT securefile_keys('far', 'doc')}, '42809', '"far" is not a table', 'a foreign table has no keys');

# ---- what tables have besides ----

sql('CREATE DOMAIN secret AS securefile(encrypt, compress_low) CHECK (length(value) < 1000000 AND substring(value FROM 1 FOR 1) <> $$X$$::bytea)', 'CREATE DOMAIN more_secret AS secret CHECK (securefile_digest(value, $$md5$$) IS NOT NULL)',
	'CREATE TABLE d (id int, seed int, len int, doc more_secret NOT NULL, l bigint GENERATED ALWAYS AS (length(doc)) STORED CHECK (l <> 13), CHECK (get_byte(doc, 0) < 128))');
right('d', 5, 0, 'domains, checks, a generated column', 'INSERT INTO d (id, seed, len, doc) SELECT * FROM p WHERE len BETWEEN 1 AND 1000000');
fails_with($node, "INSERT INTO d (id, doc) VALUES (1, $$_[0])", '23514', $$_[1], "a check of $$_[0]") foreach [ 'blob(1, 1000000)', 'secret_check' ], [ q{'X'}, 'secret_check' ], [ 'blob(1, 13)', 'd_l_check' ], [ q{'\xff'}, 'd_doc_check' ];
is(sql('SELECT count(*) FROM d WHERE l = len', 'UPDATE d SET doc = doc || $$x$$::bytea', 'SELECT count(*) FROM d WHERE l = len + 1'), "5\n5", 'the generated column');
fails_with($node, "CREATE TABLE x (doc securefile(encrypt), c bytea GENERATED ALWAYS AS ($_) STORED)", '42P17', 'generation expression is not immutable', "no column is generated from $_") foreach 'doc::bytea', q{securefile_digest(doc, 'sha256')};
fails_with($node, "CREATE INDEX ON e $_->[0]", $_->[1], $_->[2], "no index on $_->[0]") foreach [ '(doc)', '42704', 'no default operator class' ], [ '(md5(doc::bytea))', '42P17', 'must be marked IMMUTABLE' ], [ 'USING hash (doc)', '0A000', 'cannot have hash index' ];
sql('CREATE INDEX by_length ON e (length(doc))', 'CREATE INDEX large ON e (id) WHERE length(doc) > 4000', 'CREATE STATISTICS s ON length(doc), id FROM e', 'ANALYZE e', 'REINDEX TABLE CONCURRENTLY e');
my $search = 'SELECT string_agg(id::text, $$ $$ ORDER BY id) FROM e WHERE';
is(sql('SET enable_seqscan = off', "$search length(doc) = 300000", "$search id > 0 AND length(doc) > 4000"), "6\n5 6 7", 'indexes on the length');
like(sql('SET enable_seqscan = off', "EXPLAIN SELECT FROM e WHERE length(doc) = 300000", 'EXPLAIN SELECT FROM e WHERE id > 0 AND length(doc) > 4000'), qr/by_length.*large/s, 'are used');
right('e', 7, 1, 'at the end', 'UPDATE e SET doc = blob(9, len), seed = 9 WHERE len > 3000');
foreach my $format ('text', 'csv', 'binary')
{
	my $file = $node->data_dir . "/copy.$format";
	right('z', 7, 1, "COPY, $format", "COPY e TO '$file' ($format)" =~ s/\((\w+)\)/(FORMAT $1)/r, 'BEGIN', 'TRUNCATE z', "COPY z FROM '$file' (FORMAT $format" . ($format eq 'binary' ? ', FREEZE)' : ')'), 'COMMIT');
}
unlike(slurp($node->logfile), qr/TRAP: |PANIC|\bXX000\b|was terminated by signal/, 'no crash');
$node->stop;
done_testing();
