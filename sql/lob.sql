-- Values that are made of parts of others: securefile_part(), securefile_overlay(),
-- securefile_erase(), securefile_insert(), securefile_delete(), securefile_move() and
-- securefile_agg(); and securefile_lines().  Each of them has the result that a function over bytea has, which is
-- written here in other words, for values of all forms.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS securefile;

-- bytes that differ from place to place
CREATE FUNCTION filler(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substring(coalesce(decode(string_agg(repeat(md5(seed || ':' || i), 32), '' ORDER BY i), 'hex'), '') FOR len)
	FROM generate_series(1, (len + 511) / 512) i
$$;

-- what the functions are to do
CREATE FUNCTION zeros(n bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT decode(repeat('00', greatest(n, 0)::int), 'hex') $$;
CREATE FUNCTION want_part(b bytea, s int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT substring(b FROM s FOR n) $$;
CREATE FUNCTION want_insert(b bytea, s int, x bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substring(b FOR s - 1) || zeros(s - 1 - octet_length(b)) || x || substring(b FROM s) $$;
CREATE FUNCTION want_delete(b bytea, s int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT substring(b FOR s - 1) || substring(b FROM s + n) $$;
CREATE FUNCTION want_erase(b bytea, s int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN s > octet_length(b) THEN b ELSE want_insert(want_delete(b, s, n), s, zeros(octet_length(want_part(b, s, n)))) END $$;
-- where the bytes before the destination are fewer once the others are taken out
CREATE FUNCTION want_move(b bytea, s int, n int, d int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN want_part(b, s, n) = '' THEN b
		ELSE want_insert(want_delete(b, s, n), CASE WHEN d > s THEN d - octet_length(want_part(b, s, n)) ELSE d END, want_part(b, s, n)) END $$;

-- the same value as a rope: some dozen bytes of it are placed where they are
CREATE FUNCTION roped(document securefile, plain bytea) RETURNS securefile LANGUAGE plpgsql AS $$
DECLARE
	d securefile := document;
BEGIN
	FOR i IN 0 .. 24 LOOP
		IF octet_length(plain) > 0 THEN
			d := overlay(d PLACING substring(plain FROM 1 + i * octet_length(plain) / 25 FOR 1) FROM 1 + i * octet_length(plain) / 25);
		END IF;
	END LOOP;
	RETURN d;
END $$;

CREATE TABLE lob (id int PRIMARY KEY, document securefile, plain bytea);
ALTER TABLE lob ALTER plain SET STORAGE EXTERNAL;
INSERT INTO lob SELECT i, filler(i::int, len), filler(i::int, len) FROM unnest(ARRAY[0, 1, 100, 4001, 131072, 300000]) WITH ORDINALITY l (len, i);
ANALYZE lob;
-- stored, in memory, edited, a rope, and a part of another value
CREATE VIEW forms AS
	SELECT 'stored' AS form, id, document, plain FROM lob
	UNION ALL SELECT 'inline', id, plain::securefile, plain FROM lob
	UNION ALL SELECT 'edited', id, '\x0102' || document || '\x03', '\x0102' || plain || '\x03' FROM lob
	UNION ALL SELECT 'rope', id, roped(document, plain), plain FROM lob
	UNION ALL SELECT 'part', id, securefile_part(document || document, 3, length(document)), substring(plain || plain FROM 3 FOR octet_length(plain)) FROM lob;
CREATE TABLE ranges AS SELECT s, n FROM unnest(ARRAY[1, 2, 60, 4001, 131071, 131073, 299999, 300001, 300500]) s, unnest(ARRAY[0, 1, 50, 131072, 400000]) n;
SELECT form, count(*), count(*) FILTER (WHERE document::bytea = plain) AS same FROM forms GROUP BY 1 ORDER BY 1;

-- what differs: nothing
SELECT 'part', form, id, s, n FROM forms, ranges WHERE securefile_part(document, s, n)::bytea IS DISTINCT FROM want_part(plain, s, n);
SELECT 'part to the end', form, id, s FROM forms, (SELECT DISTINCT s FROM ranges) r WHERE securefile_part(document, s)::bytea IS DISTINCT FROM substring(plain FROM s);
SELECT 'erase', form, id, s, n FROM forms, ranges WHERE securefile_erase(document, s, n)::bytea IS DISTINCT FROM want_erase(plain, s, n);
SELECT 'delete', form, id, s, n FROM forms, ranges WHERE securefile_delete(document, s, n)::bytea IS DISTINCT FROM want_delete(plain, s, n);
SELECT 'insert', form, id, s, n FROM forms, ranges WHERE n < 100 AND securefile_insert(document, s, filler(7, n)::securefile)::bytea IS DISTINCT FROM want_insert(plain, s, filler(7, n));
SELECT 'insert another', f.form, f.id, s, x.id FROM forms f, forms x, (SELECT DISTINCT s FROM ranges) r
WHERE x.form = 'rope' AND s < 131073 AND securefile_insert(f.document, s, x.document)::bytea IS DISTINCT FROM want_insert(f.plain, s, x.plain);
SELECT 'overlay', form, id, s, n FROM forms, ranges WHERE securefile_overlay(document, '\x0a0b0c', s, n)::bytea IS DISTINCT FROM overlay(plain PLACING '\x0a0b0c' FROM s FOR n);
SELECT 'overlay another', f.form, f.id, s, x.id FROM forms f, forms x, (SELECT DISTINCT s FROM ranges) r
WHERE x.form = 'edited' AND s < 131073 AND securefile_overlay(f.document, x.document, s)::bytea IS DISTINCT FROM overlay(f.plain PLACING x.plain FROM s);
SELECT 'move', form, id, s, n, d FROM forms, ranges, unnest(ARRAY[1, 2, 61, 131072, 299999, 300001, 700000]) d
WHERE n > 0 AND (d <= s OR d >= s + n) AND securefile_move(document, s, n, d)::bytea IS DISTINCT FROM want_move(plain, s, n, d);

-- known results
SELECT securefile_part('\x0102030405', 2, 3), securefile_part('\x0102030405', 2), securefile_part('\x0102030405', 6, 1), securefile_part('\x0102030405', 100),
	securefile_part('\x0102030405', 1, 0), securefile_part('', 1, 5);
SELECT securefile_overlay('\x0102030405', '\x0a0b', 2), securefile_overlay('\x0102030405', '\x0a0b', 2, 1), securefile_overlay('\x0102030405', '', 2, 3),
	securefile_overlay('\x0102030405', '\x0a', 9), securefile_overlay('\x0102030405', '\x0a0b', 3, -2);
SELECT securefile_erase('\x0102030405', 2, 3), securefile_erase('\x0102030405', 4, 100), securefile_erase('\x0102030405', 6, 100), securefile_erase('\x0102030405', 2, 0);
SELECT securefile_insert('\x0102030405', 1, '\x0a0b'), securefile_insert('\x0102030405', 6, '\x0a0b'), securefile_insert('\x0102030405', 8, '\x0a0b'), securefile_insert('', 3, '');
SELECT securefile_delete('\x0102030405', 2, 3), securefile_delete('\x0102030405', 4, 100), securefile_delete('\x0102030405', 6, 100), securefile_delete('\x0102030405', 1, 5);
SELECT securefile_move('\x0102030405', 1, 2, 5), securefile_move('\x0102030405', 4, 2, 1), securefile_move('\x0102030405', 2, 2, 2), securefile_move('\x0102030405', 2, 2, 4),
	securefile_move('\x0102030405', 1, 2, 6), securefile_move('\x0102030405', 1, 2, 9), securefile_move('\x0102030405', 6, 2, 9), securefile_move('\x0102030405', 2, 0, 4);

-- NULL in any argument but a count is NULL
SELECT securefile_part(NULL, 1) IS NULL, securefile_part('\x01', NULL) IS NULL, securefile_part('\x0102', 2, NULL), securefile_overlay(NULL, '\x01', 1) IS NULL,
	securefile_overlay('\x01', NULL, 1) IS NULL, securefile_overlay('\x01', '\x02', NULL) IS NULL, securefile_overlay('\x010203', '\x0405', 1, NULL),
	securefile_erase('\x01', NULL, 1) IS NULL, securefile_insert('\x01', 1, NULL) IS NULL, securefile_delete('\x01', 1, NULL) IS NULL, securefile_move('\x01', 1, 1, NULL) IS NULL;

-- arguments out of range: each with its error, and nothing is made
CREATE FUNCTION outcome(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text; detail text; hint text; result bigint;
BEGIN
	EXECUTE 'SELECT length(' || call || ')' INTO result;
	RETURN 'length ' || result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws('. ', SQLSTATE || ' ' || message, nullif(detail, ''), nullif(hint, ''));
END $$;
CREATE TABLE calls (n serial, call text);
INSERT INTO calls (call) SELECT replace(replace(replace(c, 'MIN', '(-9223372036854775808)'), 'MAX', '9223372036854775807'), '(d', '(document') FROM unnest(ARRAY[
	'securefile_part(d, 0)', 'securefile_part(d, MIN)', 'securefile_part(d, 1, -1)', 'securefile_part(d, 1, MIN)', 'securefile_part(d, MAX)', 'securefile_part(d, 1, MAX)',
	'securefile_part(d, 2, MAX)', 'securefile_part(d, MAX, MAX)', 'securefile_part(d, MAX, 1)',
	'securefile_erase(d, 0, 1)', 'securefile_erase(d, 1, -1)', 'securefile_erase(d, 1, MAX)', 'securefile_erase(d, 2, MAX)', 'securefile_erase(d, MIN, MIN)', 'securefile_erase(d, MAX, 0)',
	'securefile_delete(d, 0, 1)', 'securefile_delete(d, 1, -1)', 'securefile_delete(d, 1, MAX)', 'securefile_delete(d, 2, MAX)', 'securefile_delete(d, MAX, MAX)',
	'securefile_insert(d, 0, ''\x01'')', 'securefile_insert(d, MIN, ''\x01'')', 'securefile_insert(d, MAX, '''')', 'securefile_insert(d, MAX, ''\x01'')', 'securefile_insert(d, MAX, ''\x0102'')',
	'securefile_insert(d, 1, securefile_truncate(d, MAX))', 'securefile_insert(securefile_truncate(d, MAX), 1, ''\x01'')',
	'securefile_overlay(d, ''\x01'', 0)', 'securefile_overlay(d, ''\x01'', MIN)', 'securefile_overlay(d, ''\x01'', MAX)', 'securefile_overlay(d, ''\x0102'', MAX)', 'securefile_overlay(d, ''\x01'', 2, MAX)',
	'securefile_overlay(d, ''\x01'', 1, MIN)', 'securefile_overlay(d, securefile_truncate(d, MAX), 1)', 'securefile_overlay(d, securefile_truncate(d, MAX), 1, 0)',
	'securefile_move(d, 0, 1, 1)', 'securefile_move(d, 1, -1, 1)', 'securefile_move(d, 1, 1, 0)', 'securefile_move(d, 1, 1, MIN)', 'securefile_move(d, 2, MAX, 1)', 'securefile_move(d, 1, MAX, MAX)',
	'securefile_move(d, 5, 10, 6)', 'securefile_move(d, 5, 10, 14)', 'securefile_move(d, 5, 10, 15)', 'securefile_move(d, 5, 10, 5)', 'securefile_move(d, 300000, 10, 300005)', 'securefile_move(d, 1, 1, MAX)',
	'securefile_move(d, 400000, 10, 400005)', 'securefile_move(d, 400000, 10, MAX)']) c;
SELECT replace(call, 'document', 'd') AS call, outcome(replace(call, 'document', '(SELECT document FROM lob WHERE id = 6)')) FROM calls ORDER BY n;
-- the same of a rope, and of a value in memory
SELECT call, form FROM (SELECT * FROM calls OFFSET 0) c, (VALUES ('rope'), ('inline')) f (form)
WHERE outcome(replace(call, 'document', format('(SELECT document FROM forms WHERE id = 6 AND form = %L)', form)))
	IS DISTINCT FROM outcome(replace(call, 'document', '(SELECT document FROM lob WHERE id = 6)'));

-- untyped parameters, bytea, domains, search for the right function
PREPARE made (securefile, bigint) AS SELECT securefile_part($1, $2), securefile_erase($1, $2, 1), securefile_insert($1, $2, $1), securefile_delete($1, $2, 1), securefile_move($1, $2, 1, 1), securefile_overlay($1, $1, $2);
EXECUTE made ('\x0102', 2);
PREPARE untyped AS SELECT securefile_part($1, $2, $3), securefile_overlay($1, $4, $2, $3), securefile_erase($1, $2, $3), securefile_insert($1, $2, $4), securefile_delete($1, $2, $3), securefile_move($1, $2, $3, $5);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
SELECT securefile_part('\x01'::bytea, 1);
CREATE DOMAIN lob_file AS securefile;
SELECT pg_typeof(securefile_part('\x01'::lob_file, 1)), pg_typeof(securefile_agg('\x01'::lob_file)), pg_typeof(securefile_agg('\x01'::bytea));
SELECT securefile_agg('\x01');
SELECT count(*) AS not_as_said FROM pg_proc WHERE proname IN ('securefile_part', 'securefile_erase', 'securefile_insert', 'securefile_delete', 'securefile_move', 'securefile_overlay', 'securefile_agg_add', 'securefile_agg_result')
	AND pg_get_function_result(oid) <> 'trigger' AND prorettype <> 'integer'::regtype AND prorettype <> 'bigint'::regtype AND (provolatile <> 'i' OR proparallel <> 's');

-- they read and write nothing, and no index can go by them
BEGIN READ ONLY;
SELECT count(length(securefile_part(document, 5, 10)) + length(securefile_erase(document, 5, 10)) + length(securefile_insert(document, 5, document)) + length(securefile_move(document, 5, 10, 1))) FROM lob;
SELECT length(securefile_agg(document ORDER BY id)) FROM lob;
SELECT pg_current_xact_id_if_assigned() IS NULL AS nothing_is_written;
COMMIT;
SELECT direct_read_bytes AS before FROM securefile_stat WHERE relid = 'lob'::regclass \gset
SELECT securefile_part(securefile_part(document, 200001), 99991, 10)::bytea = substring(plain FROM 299991 FOR 10) AS right FROM lob WHERE id = 6;
SELECT direct_read_bytes - :before BETWEEN 1 AND 140000 AS one_unit FROM securefile_stat WHERE relid = 'lob'::regclass;
CREATE INDEX refused ON lob USING hash (securefile_part(document, 1, 10));
CREATE INDEX refused ON lob (length(securefile_erase(document, 1, 10)));
CREATE INDEX refused ON lob (id) WHERE length(securefile_overlay(document, '\x01', 1)) > 1 OR length(securefile_move(document, 1, 1, 1)) > 1;

-- stored: the row's own value, another row's, a column of another kind
CREATE TABLE kept (id int PRIMARY KEY, document securefile(filesystem_like_logging, disable_storage_in_row), plain bytea);
INSERT INTO kept SELECT id, securefile_insert(securefile_part(document, 100), 5, document), want_insert(substring(plain FROM 100), 5, plain) FROM lob;
UPDATE kept SET document = securefile_delete(document, 150000, 1000), plain = want_delete(plain, 150000, 1000);
UPDATE kept SET document = securefile_move(document, 1000, 131072, 300000), plain = want_move(plain, 1000, 131072, 300000) WHERE id > 4;
UPDATE kept SET document = securefile_erase(document, 2, 270000), plain = want_erase(plain, 2, 270000) WHERE id > 4;
UPDATE kept SET document = securefile_overlay(kept.document, x.document, 131073), plain = overlay(kept.plain PLACING x.plain FROM 131073) FROM lob x WHERE x.id = 6 AND kept.id > 3;
SELECT id, document::bytea = plain AS right, length(document) FROM kept ORDER BY id;

-- what is erased takes no space: whole units of the row's own value, and of a copy; the units at the edges are written
CREATE TABLE holes (id int, document securefile, plain bytea);
ALTER TABLE holes ALTER plain SET STORAGE EXTERNAL;
INSERT INTO holes SELECT 1, v, v FROM filler(1, 1500000) v;
SELECT direct_write_bytes AS before FROM securefile_stat WHERE relid = 'holes'::regclass \gset
UPDATE holes SET document = securefile_erase(document, 100001, 1000000), plain = want_erase(plain, 100001, 1000000);
SELECT s.length, s.stored_bytes, s.units, document::bytea = plain AS right FROM holes, securefile_storage(document) s;
SELECT direct_write_bytes - :before AS written FROM securefile_stat WHERE relid = 'holes'::regclass;
INSERT INTO holes SELECT 2, securefile_erase(document, 1200001, 300000), want_erase(plain, 1200001, 300000) FROM holes;
SELECT s.length, s.stored_bytes, s.units, document::bytea = plain AS right FROM holes, securefile_storage(document) s WHERE id = 2;
SELECT count(*) FROM securefile_maintain('holes', 'document');
SELECT live_bytes FROM securefile_usage('holes', 'document');
-- once more, and what is a hole already costs nothing
SELECT direct_write_bytes AS before FROM securefile_stat WHERE relid = 'holes'::regclass \gset
UPDATE holes SET document = securefile_erase(document, 131073, 900000) WHERE id = 1;
UPDATE holes SET document = securefile_erase(document, 140000, 50) WHERE id = 1;
SELECT s.stored_bytes, document::bytea = plain AS right FROM holes, securefile_storage(document) s WHERE id = 1;
SELECT direct_write_bytes - :before AS written FROM securefile_stat WHERE relid = 'holes'::regclass;

-- 2^60 bytes with some in the middle, and at the end: made, looked at and stored by what is there
INSERT INTO holes SELECT 3, securefile_insert(securefile_insert(document, 1::bigint << 59, document), (1::bigint << 60) - 1499999, document) FROM holes WHERE id = 1;
SELECT length(document) = 1::bigint << 60 AS long, s.stored_bytes FROM holes, securefile_storage(document) s WHERE id = 3;
UPDATE holes SET document = securefile_erase(document, 500000, (1::bigint << 60) - 1000000) WHERE id = 3;
SELECT s.stored_bytes, length(h.document) = 1::bigint << 60 AS long, securefile_part(h.document, (1::bigint << 60) - 499999)::bytea = substring(p.plain FROM 1000001) AS right
FROM holes h, LATERAL (SELECT plain FROM holes WHERE id = 1) p, securefile_storage(h.document) s WHERE h.id = 3;
UPDATE holes SET document = securefile_delete(document, 600000, (1::bigint << 60) - 1200000) WHERE id = 3;
SELECT length(document) FROM holes WHERE id = 3;
SELECT length(securefile_part(securefile_truncate(document, 1::bigint << 62), 1::bigint << 61)) = (1::bigint << 61) + 1 AS long FROM holes WHERE id = 1;

-- ---- securefile_agg() ----

-- as || has it
SELECT securefile_agg(v) AS none FROM (VALUES (NULL::securefile)) v (v);
SELECT securefile_agg(v) IS NULL AS none FROM (SELECT '\x01'::bytea WHERE false) v (v);
SELECT securefile_agg(v) AS one, securefile_agg(v) = '' AS empty FROM (VALUES (NULL), (''::securefile), (NULL)) v (v);
SELECT securefile_agg(v ORDER BY n), securefile_agg(v ORDER BY n DESC), securefile_agg(v::bytea ORDER BY n) FILTER (WHERE n <> 2) FROM (VALUES (1, '\x01'::securefile), (3, '\x03'), (2, '\x0202'), (4, NULL)) v (n, v);
SELECT securefile_agg(DISTINCT v ORDER BY v) FROM (VALUES ('\x02'::bytea), ('\x01'), ('\x02')) v (v);
SELECT form, securefile_agg(document ORDER BY id)::bytea = string_agg(plain, '' ORDER BY id) AS right FROM forms GROUP BY form ORDER BY form;
SELECT count(*), bool_and(made::bytea = want) AS right FROM (SELECT id, securefile_agg(document ORDER BY form, id) AS made, string_agg(plain, ''::bytea ORDER BY form, id) AS want FROM forms GROUP BY id) s;
SELECT securefile_agg(document ORDER BY form, id)::bytea = string_agg(plain, '' ORDER BY form, id) AS right, count(*) FROM forms;
-- many small ones, and bytes between stored values
SELECT securefile_agg(filler(i, i % 300) ORDER BY i)::bytea = string_agg(filler(i, i % 300), ''::bytea ORDER BY i) AS right FROM generate_series(1, 3000) i;
SELECT securefile_agg(CASE i % 7 WHEN 0 THEN document ELSE filler(i, i * 37 % 9000)::securefile END ORDER BY i)::bytea
	= string_agg(CASE i % 7 WHEN 0 THEN plain ELSE filler(i, i * 37 % 9000) END, ''::bytea ORDER BY i) AS right FROM generate_series(1, 400) i, lob WHERE id = 4;
-- parts of one value, put together again
SELECT securefile_agg(securefile_part(document, 1 + i * 1000, 1000) ORDER BY i) = document AS right FROM lob, generate_series(0, 300) i WHERE id = 6 GROUP BY document, id;
SELECT securefile_agg(securefile_part(document, 1 + i * 1000, 1000) ORDER BY i DESC)::bytea = string_agg(substring(plain FROM 1 + i * 1000 FOR 1000), '' ORDER BY i DESC) AS right FROM lob, generate_series(0, 299) i WHERE id = 6;
-- in a window a row's result does not change with the rows behind it
SELECT count(*), bool_and(made::bytea = want) AS right FROM (
	SELECT securefile_agg(x) OVER (ORDER BY i) AS made, string_agg(y, ''::bytea) OVER (ORDER BY i) AS want
	FROM (SELECT i, CASE i % 3 WHEN 0 THEN document ELSE filler(i, 100)::securefile END AS x, CASE i % 3 WHEN 0 THEN plain ELSE filler(i, 100) END AS y FROM generate_series(1, 60) i, lob WHERE id = 4) v OFFSET 0) s;
SELECT count(*), bool_and(made::bytea = want) AS right FROM (
	SELECT securefile_agg(x) OVER w AS made, string_agg(x, ''::bytea) OVER w AS want FROM (SELECT i, filler(i, 100) AS x FROM generate_series(1, 60) i) v WINDOW w AS (ORDER BY i ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) OFFSET 0) s;
-- chunks become documents
CREATE TABLE chunks (file int, n int, data bytea);
INSERT INTO chunks SELECT f, n, filler(f * 100 + n, 50000 + n) FROM generate_series(1, 3) f, generate_series(1, 12) n ORDER BY n * 7 % 11;
CREATE TABLE joined (file int, document securefile);
INSERT INTO joined SELECT file, securefile_agg(data ORDER BY n) FROM chunks GROUP BY file;
SELECT file, document::bytea = (SELECT string_agg(data, '' ORDER BY n) FROM chunks c WHERE c.file = j.file) AS right FROM joined j ORDER BY file;
-- the limit is that of new bytes, not of ranges
SELECT length(securefile_agg(document)) FROM (SELECT securefile_truncate(document, 1::bigint << 40) AS document FROM lob, generate_series(1, 50) WHERE id = 6 OFFSET 0) s;
SELECT outcome('(SELECT securefile_agg(securefile_truncate(document, 1::bigint << 62)) FROM lob, generate_series(1, 2) WHERE id = 6)');
SELECT securefile_agg_add('\x'::bytea, '\x01'::bytea);
SELECT securefile_agg_result('\x'::bytea);

-- ---- securefile_lines() ----

-- what it is to return: a carriage return before a line feed is a part of it, and what follows the last line feed is a line unless it is nothing
CREATE FUNCTION want_lines(t text) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN n < m THEN regexp_replace(l, E'\r$', '') ELSE l END
	FROM (SELECT l, n, array_length(string_to_array(t, E'\n'), 1) AS m FROM unnest(string_to_array(t, E'\n')) WITH ORDINALITY u (l, n)) s
	WHERE n < m OR l <> '' ORDER BY n $$;
-- each other byte in a piece of its own, so that no part of the value has a whole character
CREATE FUNCTION shredded(document securefile, plain bytea) RETURNS securefile LANGUAGE plpgsql AS $$
DECLARE
	d securefile := document;
BEGIN
	FOR i IN 1 .. octet_length(plain) BY 2 LOOP
		d := overlay(d PLACING substring(plain FROM i FOR 1) FROM i);
	END LOOP;
	RETURN d;
END $$;
CREATE TABLE texts (id serial, encoding name, document securefile(disable_storage_in_row), plain bytea);
ALTER TABLE texts ALTER plain SET STORAGE EXTERNAL;
-- umlauts and the euro sign in UTF8, LATIN1 and WIN1252; two characters of Japanese, one of them with a byte that is a backslash; four bytes in GB18030
INSERT INTO texts (encoding, plain) VALUES
	('UTF8', ''), ('UTF8', '\x0a'), ('UTF8', 'a'), ('UTF8', E'a\\012'), ('UTF8', E'a\\015\\012b'), ('UTF8', E'a\\012\\012b\\015\\012\\015\\012'), ('UTF8', E'\\015a\\015\\015\\012b\\015'),
	('UTF8', '\x4772c3bcc39f650ae282ac0d0af09f90980a'), ('LATIN1', '\x4772fcdf650a20'), ('WIN1252', '\x800d0a80'), ('SJIS', '\x93fa835c0a835c93fa0d0a'), ('EUC_JP', '\xc6fca5bd0aa5bd'),
	('GB18030', '\x81308130410a8130813081308130'), ('BIG5', '\xa440a55c0aa55c'), ('SQL_ASCII', E'plain\\012text');
-- lines that are longer than a part of the value, and such that end at its border
INSERT INTO texts (encoding, plain) SELECT 'UTF8', decode(string_agg(repeat('c3a4', n) || '0a', '' ORDER BY i), 'hex') FROM unnest(ARRAY[131071, 0, 1, 65535, 300000, 262144, 7]) WITH ORDINALITY u (n, i);
INSERT INTO texts (encoding, plain) SELECT 'UTF8', convert_to(repeat('x', 262142) || E'\r\n' || repeat('y', 262143) || E'\r\n' || repeat('z', 131073), 'UTF8');
INSERT INTO texts (encoding, plain) SELECT 'SJIS', decode(repeat('93fa835c', 100000) || '0a41' || repeat('835c', 200000), 'hex');
UPDATE texts SET document = plain;
-- of all forms: nothing differs
SELECT id, encoding, form FROM texts, LATERAL (VALUES ('stored', document), ('inline', plain::securefile), ('edited', '\x0a' || document || '\x0a'::bytea), ('rope', roped(document, plain)),
	('pieces', CASE WHEN octet_length(plain) < 1000 THEN shredded(document, plain) END)) f (form, d)
WHERE d IS NOT NULL AND (SELECT array_agg(l) FROM (SELECT securefile_lines(d, encoding)) s (l))
	IS DISTINCT FROM (SELECT array_agg(l) FROM want_lines(convert_from(CASE WHEN form = 'edited' THEN '\x0a' || plain || '\x0a' ELSE plain END, encoding)) l);
SELECT id, count(l), sum(length(l)) FROM texts LEFT JOIN LATERAL securefile_lines(document, encoding) l ON true GROUP BY id ORDER BY id;
SELECT l, length(l) FROM securefile_lines(E'one\\015\\012\\012 two\\011\\012last') l;
SELECT count(*) FROM securefile_lines(NULL);
SELECT count(*) FROM securefile_lines('a', NULL);
SELECT provolatile, proparallel, proisstrict, proretset FROM pg_proc WHERE proname = 'securefile_lines';

-- a byte that is wrong is found where it is, and the lines before it are there
CREATE FUNCTION lines_outcome(document securefile, encoding name DEFAULT 'UTF8') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text; detail text; hint text; n int := 0; l text;
BEGIN
	FOR l IN SELECT securefile_lines(document, encoding) LOOP n := n + 1; END LOOP;
	RETURN n || ' lines';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws('. ', SQLSTATE || ' ' || message, nullif(detail, ''), nullif(hint, ''));
END $$;
SELECT lines_outcome(d::securefile, e) FROM (VALUES ('\xff'::bytea, 'UTF8'), ('\x610a62c3', 'UTF8'), ('\x610a62c30a', 'UTF8'), ('\x6162e2820a', 'UTF8'), ('\x610a6200630a', 'UTF8'), ('\xc080', 'UTF8'),
	('\xeda080', 'UTF8'), ('\xf0909080f4909080', 'UTF8'), ('\x6100', 'LATIN1'), ('\x418135810a', 'GB18030'), ('\x41813081300a81', 'GB18030'), ('\x930a', 'SJIS'), ('\x41830a', 'EUC_JP'), ('\x81', 'WIN1252'), ('\x00', 'SQL_ASCII'),
	('a', 'nothing'), ('a', '')) v (d, e);
SELECT lines_outcome(securefile_insert(document, 400001, '\xff')), lines_outcome(securefile_erase(document, 500000, 1)), lines_outcome(securefile_truncate(document, 1::bigint << 60)), lines_outcome(shredded('\x6162e2820a', '\x6162e2820a'))
FROM texts WHERE length(plain) > 800000 AND encoding = 'UTF8' ORDER BY id LIMIT 1;

-- what is behind the lines that are asked for is not read, not even a byte that is wrong; an early end leaves nothing
CREATE TABLE log (document securefile(nocache), plain bytea);
ALTER TABLE log ALTER plain SET STORAGE EXTERNAL;
INSERT INTO log SELECT v || '\xff', v FROM (SELECT convert_to(string_agg(repeat(md5(i::text), 40) || E'\n', '' ORDER BY i), 'UTF8') FROM generate_series(1, 20000) i) s (v);
SELECT direct_read_bytes AS before FROM securefile_stat WHERE relid = 'log'::regclass \gset
SELECT left(l, 10) FROM (SELECT securefile_lines(document) l FROM log) s LIMIT 2;
SELECT direct_read_bytes - :before BETWEEN 1 AND 6000000 AS little FROM securefile_stat WHERE relid = 'log'::regclass;
SELECT scanned_bytes, returned_bytes FROM securefile_stat_session WHERE relid = 'log'::regclass;
BEGIN;
DECLARE c CURSOR FOR SELECT left(securefile_lines(document), 10) FROM log;
FETCH 2 FROM c;
SELECT count(*) > 0 AS reads FROM pg_backend_memory_contexts WHERE name = 'securefile walk';
CLOSE c;
SELECT count(*) AS left_over FROM pg_backend_memory_contexts WHERE name = 'securefile walk';
SELECT count(*) AS left_over FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN (SELECT segment_relid FROM securefile_columns WHERE relid = 'log'::regclass);
COMMIT;
SELECT count(*), bool_and(l = repeat(md5(n::text), 40)) AS right FROM log, securefile_lines(securefile_part(document, 1, length(document) - 1)) WITH ORDINALITY u (l, n);
SELECT lines_outcome(document) FROM log;

-- once all is gone, so is its space
DELETE FROM lob;
DELETE FROM kept;
DELETE FROM holes;
DELETE FROM joined;
DELETE FROM texts;
DELETE FROM log;
SELECT count(*) FROM (VALUES ('lob'), ('kept'), ('holes'), ('joined'), ('texts'), ('log')) t (t), securefile_maintain(t::regclass, 'document');
SELECT t, live_bytes FROM (VALUES ('lob'), ('kept'), ('holes'), ('joined'), ('texts'), ('log')) t (t), securefile_usage(t::regclass, 'document');
DROP TABLE lob, kept, holes, joined, chunks, ranges, calls, texts, log CASCADE;
DROP DOMAIN lob_file;
DROP FUNCTION filler, zeros, want_part, want_insert, want_delete, want_erase, want_move, roped, outcome,
	want_lines, shredded, lines_outcome;
