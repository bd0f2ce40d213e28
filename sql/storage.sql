-- securefile_storage(): how values of all forms are stored; and what ANALYZE says of a column
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS securefile;
CREATE EXTENSION IF NOT EXISTS file_fdw;
RESET client_min_messages;

-- bytes that compress well, and such that do not; 5 units of one kind, 3 of the other, and so on
CREATE FUNCTION runs(len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT convert_to(repeat('securefile', len / 10) || repeat('s', len % 10), 'SQL_ASCII') $$;
CREATE FUNCTION noise(len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT substring(decode(string_agg(md5(i::text), '' ORDER BY i), 'hex') FROM 1 FOR len) FROM generate_series(0, len / 16) i $$;
CREATE FUNCTION mixed(units int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT string_agg(CASE WHEN i % 8 < 5 THEN runs(131072) ELSE noise(131072) END, ''::bytea ORDER BY i) FROM generate_series(0, units - 1) i $$;

-- Bytes of encoded units depend on the versions of the libraries, so they are shown as what
-- they come to: all of the value, or less.
CREATE FUNCTION shown(d securefile, OUT form text, OUT length bigint, OUT stored text, OUT units bigint,
	OUT compressed_units bigint, OUT codec text, OUT key_id int)
LANGUAGE sql STABLE AS
$$ SELECT form, length, CASE WHEN stored_bytes > length THEN 'more' WHEN stored_bytes = length THEN 'all'
		WHEN stored_bytes * 10 < length THEN 'a tenth' ELSE 'less' END,
	units, compressed_units, codec, key_id FROM securefile_storage(d) $$;

-- in the row
CREATE TABLE st (id serial, what text, d securefile);
INSERT INTO st (what, d) VALUES ('null', NULL), ('empty', ''), ('small', noise(100)), ('the longest in its row', noise(4000));
SELECT what, s.* FROM st, shown(d) s ORDER BY id;
SELECT what, s.stored_bytes - length(d) AS header FROM st, securefile_storage(d) s WHERE d IS NOT NULL ORDER BY id;

-- compressed there, if that saves an eighth
CREATE TABLE st_packed (what text, low securefile(compress_low), medium securefile(compress), high securefile(compress_high));
INSERT INTO st_packed SELECT what, v, v, v FROM (VALUES ('1 empty', ''::bytea), ('2 too small', runs(63)), ('3 small', runs(100)), ('4 runs', runs(3000)),
	('5 noise', noise(3000)), ('6 some of both', runs(2000) || noise(2000)), ('7 long', runs(100000)), ('8 long, noise', noise(100000))) v (what, v);
SELECT what, l.form, l.length, l.stored, l.units, l.compressed_units, l.codec, m.stored, m.units, m.codec, h.stored, h.units, h.codec
FROM st_packed, shown(low) l, shown(medium) m, shown(high) h ORDER BY what;
SELECT what, s.stored_bytes = pg_column_size(medium) AS what_the_row_has FROM st_packed, securefile_storage(medium) s WHERE s.form = 'inline' ORDER BY what;

-- in TOAST: only where tables keep all values in their rows, and in row compressed by PostgreSQL
CREATE TEMP TABLE st_temp (what text, d securefile);
INSERT INTO st_temp VALUES ('toasted', noise(100000)), ('toasted, compressed', runs(100000)), ('compressed', runs(3000));
SELECT what, s.* FROM st_temp, shown(d) s ORDER BY what;
SELECT what, s.stored_bytes = pg_column_size(d) AS what_the_row_has FROM st_temp, securefile_storage(d) s ORDER BY what;

-- in the segment
INSERT INTO st (what, d) VALUES ('flat', noise(4001)), ('flat, 3 units', runs(300000)), ('inode map', noise(13 * 1024 * 1024 + 5));
ALTER TABLE st ALTER d TYPE securefile(compress_low);
INSERT INTO st (what, d) VALUES ('low', runs(300000)), ('low, incompressible', noise(300000)), ('low, mixed', mixed(8));
ALTER TABLE st ALTER d TYPE securefile(compress_medium);
INSERT INTO st (what, d) VALUES ('medium', runs(300000)), ('medium, inode map', runs(13 * 1024 * 1024 + 5)), ('medium, in the row', runs(4001));
ALTER TABLE st ALTER d TYPE securefile(compress_high);
INSERT INTO st (what, d) VALUES ('high', runs(300000)), ('high, in the row', runs(131072));
ALTER TABLE st ALTER d TYPE securefile(compress_high, disable_storage_in_row);
INSERT INTO st (what, d) VALUES ('high, one unit', runs(131072));
ALTER TABLE st ALTER d TYPE securefile(compress_high);
SELECT what, s.* FROM st, shown(d) s WHERE length(d) > 4000 ORDER BY id;

-- a version goes by what each unit went by: some of zstd, some of LZ4, some as they are
UPDATE st SET what = 'low, edited', d = overlay(d PLACING runs(10) FROM 5) WHERE what = 'low';
UPDATE st SET what = 'inode map, edited', d = overlay(d PLACING runs(131072 * 3) FROM 131073) WHERE what = 'inode map';
ALTER TABLE st ALTER d TYPE securefile;
UPDATE st SET what = 'high, appended to', d = d || noise(131072) WHERE what = 'high';
UPDATE st SET what = 'low, mixed, edited', d = overlay(d PLACING runs(10) FROM 131073) WHERE what = 'low, mixed';
SELECT what, s.* FROM st, shown(d) s WHERE what ~ 'edited|appended' ORDER BY id;

-- holes take nothing
ALTER TABLE st ALTER d TYPE securefile(compress);
BEGIN;
SELECT securefile_create('st', 'd') AS h \gset
SELECT securefile_write(:h, runs(131072));
SELECT securefile_seek(:h, 5 * 131072, 0);
SELECT securefile_write(:h, runs(131072));
INSERT INTO st (what, d) VALUES ('a hole', securefile_finish(:h));
SELECT securefile_create('st', 'd') AS h \gset
SELECT securefile_truncate(:h, 1000000);
INSERT INTO st (what, d) VALUES ('nothing but a hole', securefile_finish(:h));
COMMIT;
SELECT what, s.* FROM st, shown(d) s WHERE what ~ 'hole' ORDER BY id;

-- made by a function, and in no row
SELECT s.* FROM st, shown(d || '\x00'::bytea) s WHERE what = 'flat';
SELECT s.* FROM st, shown(securefile_truncate(d, 10)) s WHERE what = 'flat';
SELECT * FROM shown('\x010203');
SELECT * FROM shown(noise(5000)::securefile);
SELECT * FROM securefile_storage(NULL);

-- in a foreign table, which keeps files in its own way
SELECT current_setting('data_directory') || '/storage_fdw.txt' AS file \gset
COPY (SELECT 1, 'abc'::securefile UNION ALL SELECT 2, noise(5000)::securefile) TO :'file';
CREATE SERVER st_server FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE st_foreign (id int, d securefile(compress_high)) SERVER st_server OPTIONS (filename :'file');
SELECT id, s.* FROM st_foreign, shown(d) s ORDER BY id;

-- made over again, and copied to another column, by the options there
ALTER TABLE st ALTER d TYPE securefile(compress_low, disable_storage_in_row);
SELECT securefile_rewrite('st', 'd');
CREATE TABLE st_copy (what text, d securefile);
INSERT INTO st_copy SELECT what, d FROM st;
SELECT st.what, a.form, a.stored, a.units, a.compressed_units, a.codec, b.form, b.stored, b.units, b.compressed_units, b.codec
FROM st JOIN st_copy c USING (what), shown(st.d) a, shown(c.d) b ORDER BY id;
SELECT count(*) FROM st JOIN st_copy c USING (what) WHERE st.d = c.d;

-- ---- what ANALYZE says ----

-- nothing yet
SELECT plain_bytes, ratio FROM securefile_columns WHERE relid = 'st'::regclass;
SELECT plain_bytes, ratio FROM securefile_usage('st', 'd');
CREATE TABLE an_empty (d securefile);
SELECT plain_bytes, ratio FROM securefile_columns WHERE relid = 'an_empty'::regclass;
SELECT plain_bytes, ratio FROM securefile_usage('an_empty', 'd');
ANALYZE an_empty;
SELECT plain_bytes, ratio FROM securefile_columns WHERE relid = 'an_empty'::regclass;

-- Of stored values only; exact where all rows are in the sample, all maps are flat, and no
-- version waits to be freed.  Else within some per cent.
CREATE TABLE an (id serial PRIMARY KEY, d securefile);
CREATE PROCEDURE settle(t regclass) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..400 LOOP
		PERFORM securefile_maintain(t, 'd');
		COMMIT;
		EXIT WHEN (SELECT pending_bytes FROM securefile_usage(t, 'd')) = 0;
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
-- an estimate beside the exact numbers: how far it is from them
CREATE FUNCTION estimate(t regclass, OUT plain_off numeric, OUT ratio_off numeric, OUT same_in_view boolean) LANGUAGE plpgsql AS $$
DECLARE
	plain numeric;
	taken numeric;
BEGIN
	EXECUTE format('SELECT sum(s.length), (SELECT live_bytes FROM securefile_usage(%L, ''d'')) FROM %s, securefile_storage(d) s WHERE s.form = ''stored''', t, t)
		INTO plain, taken;
	SELECT round(abs(u.plain_bytes / plain - 1), 3), round(abs(u.ratio::numeric * taken / plain - 1), 3),
			v.plain_bytes = u.plain_bytes AND abs(v.ratio / u.ratio - 1) < 1e-6
		INTO plain_off, ratio_off, same_in_view
		FROM securefile_usage(t, 'd') u, securefile_columns v WHERE v.relid = t;
END $$;
INSERT INTO an (d) SELECT noise(i * 1000) FROM generate_series(1, 20) i;
ANALYZE an;
CALL settle('an');
SELECT * FROM estimate('an');
SELECT ratio BETWEEN 0.96 AND 0.99 AS whole_sectors FROM securefile_columns WHERE relid = 'an'::regclass;

-- a change of options forgets it; the next ANALYZE finds values of both kinds
ALTER TABLE an ALTER d TYPE securefile(compress);
SELECT plain_bytes, ratio FROM securefile_columns WHERE relid = 'an'::regclass;
INSERT INTO an (d) SELECT runs(i * 50000) FROM generate_series(1, 20) i;
ANALYZE an (d);
CALL settle('an');
SELECT * FROM estimate('an');
SELECT securefile_rewrite('an', 'd') > 0 AS rewritten;
ANALYZE an;
CALL settle('an');
SELECT * FROM estimate('an');
SELECT ratio > 10 AS better FROM securefile_columns WHERE relid = 'an'::regclass;

-- maps in inode pages: some of their units are looked at
CREATE TABLE an_large (id serial, d securefile(compress, filesystem_like_logging));
INSERT INTO an_large (d) SELECT mixed(110) FROM generate_series(1, 3);
INSERT INTO an_large (d) SELECT runs(40 * 1024 * 1024);
INSERT INTO an_large (d) SELECT mixed(3) FROM generate_series(1, 3);
ANALYZE an_large;
CALL settle('an_large');
SELECT plain_off < 0.03 AS plain, ratio_off < 0.03 AS ratio, same_in_view FROM estimate('an_large');
-- in the transaction that writes them
BEGIN;
DELETE FROM an_large WHERE id <= 3;
INSERT INTO an_large (d) SELECT runs(30 * 1024 * 1024);
ANALYZE an_large;
COMMIT;
CALL settle('an_large');
SELECT plain_off < 0.03 AS plain, ratio_off < 0.03 AS ratio, same_in_view FROM estimate('an_large');

-- children: each has its own; what ANALYZE of the parent says is of all of them
CREATE TABLE an_parts (id int, d securefile(compress)) PARTITION BY LIST (id);
CREATE TABLE an_part1 PARTITION OF an_parts FOR VALUES IN (1);
CREATE TABLE an_part2 (d securefile(compress), id int);
ALTER TABLE an_parts ATTACH PARTITION an_part2 FOR VALUES IN (2);
CREATE TABLE an_part3 PARTITION OF an_parts FOR VALUES IN (3);
INSERT INTO an_parts VALUES (1, runs(300000)), (2, noise(300000));
ANALYZE an_part1;
SELECT relname, ratio > 10 AS well FROM securefile_columns WHERE relname ~ '^an_part' ORDER BY 1;
SELECT plain_bytes, ratio FROM securefile_usage('an_parts', 'd');
ANALYZE an_parts;
SELECT relname, plain_bytes, ratio > 10 AS well FROM securefile_columns WHERE relname ~ '^an_part' ORDER BY 1;
SELECT plain_bytes, ratio > 1.9 AND ratio < 2 AS ratio FROM securefile_usage('an_parts', 'd');

-- no contents, no locators; nothing that the usual views show
SELECT stakind1 BETWEEN 10000 AND 30000 AS private_kind, staop1, stacoll1, array_length(stanumbers1, 1) AS numbers, stavalues1, stakind2
FROM pg_statistic WHERE starelid = 'an'::regclass AND staattnum = 2;
SELECT null_frac, n_distinct, most_common_vals, most_common_freqs, histogram_bounds, correlation, most_common_elems
FROM pg_stats WHERE tablename = 'an' AND attname = 'd';
EXPLAIN (COSTS OFF) SELECT * FROM an WHERE d = '\x00'::securefile;
TRUNCATE an;
SELECT plain_bytes FROM securefile_usage('an', 'd');

-- numbers that ANALYZE did not make
UPDATE pg_statistic SET stanumbers1 = '{Infinity,1,1}' WHERE starelid = 'an_large'::regclass AND staattnum = 2;
SELECT plain_bytes, ratio FROM securefile_usage('an_large', 'd');
UPDATE pg_statistic SET stanumbers1 = '{1}' WHERE starelid = 'an_large'::regclass AND staattnum = 2;
SELECT plain_bytes, ratio FROM securefile_usage('an_large', 'd');
UPDATE pg_statistic SET stanumbers1 = '{0,0,1}' WHERE starelid = 'an_large'::regclass AND staattnum = 2;
SELECT plain_bytes, ratio FROM securefile_usage('an_large', 'd');

DROP TABLE st, st_packed, st_temp, st_copy, an, an_empty, an_large, an_parts;
DROP SERVER st_server CASCADE;
DROP EXTENSION file_fdw;
DROP FUNCTION shown, runs, noise, mixed, estimate;
DROP PROCEDURE settle;
