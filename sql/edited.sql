-- Edited values: document || x, overlay(document ..), securefile_truncate(document, n).
-- Whatever they are made of and wherever they go, they hold what the same
-- expression over bytea gives.
SET client_min_messages = warning;
SET bytea_output = hex;

-- bytes that differ from place to place
CREATE FUNCTION filler(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT substring(coalesce(decode(string_agg(repeat(md5(seed || ':' || i), 32), '' ORDER BY i), 'hex'), '') FOR len)
	FROM generate_series(1, (len + 511) / 512) i
$$;

-- what each row must hold stands beside it
CREATE TABLE docs (id int PRIMARY KEY, document securefile, plain bytea);
ALTER TABLE docs ALTER plain SET STORAGE EXTERNAL;
CREATE TABLE pieces (id int PRIMARY KEY, document securefile(filesystem_like_logging, disable_storage_in_row), plain bytea);
ALTER TABLE pieces ALTER plain SET STORAGE EXTERNAL;
INSERT INTO docs SELECT i, filler(i::int, len), filler(i::int, len)
FROM unnest(ARRAY[0, 1, 100, 4000, 4001, 131071, 131072, 131073, 500000]) WITH ORDINALITY l (len, i);
INSERT INTO pieces SELECT i, filler(i::int, len), filler(i::int, len)
FROM unnest(ARRAY[0, 1, 300, 5000, 131072, 200000]) WITH ORDINALITY l (len, i);

-- what is wrong with either table; nothing
CREATE VIEW wrong AS
SELECT 'docs' AS name, id, length(document), octet_length(plain) FROM docs
WHERE document::bytea IS DISTINCT FROM plain OR length(document) IS DISTINCT FROM octet_length(plain)
UNION ALL
SELECT 'pieces', id, length(document), octet_length(plain) FROM pieces
WHERE document::bytea IS DISTINCT FROM plain OR length(document) IS DISTINCT FROM octet_length(plain);
SELECT * FROM wrong;

-- bytea has no function that cuts or fills up with zeros
CREATE FUNCTION cut(data bytea, len bigint) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT substring(data FOR len::int) || decode(repeat('00', greatest(len - octet_length(data), 0)::int), 'hex')
$$;

-- the types of the results
SELECT pg_typeof(document || '\x00'), pg_typeof('\x00' || document), pg_typeof(document || plain),
	pg_typeof(plain || document), pg_typeof(document || document),
	pg_typeof(overlay(document placing '\x00' from 1)), pg_typeof(overlay(document placing plain from 1 for 2)),
	pg_typeof(overlay(document placing plain from 1::bigint for 2::bigint)),
	pg_typeof(securefile_truncate(document, 0))
FROM docs WHERE id = 2;

-- all expressions over all lengths, {} being the operand
CREATE TABLE expressions (n serial, over_file text, over_bytea text);
INSERT INTO expressions (over_file) VALUES
	('{} || ''\x0102'''), ('''\x0102'' || {}'), ('{} || ''\x0102''::bytea'), ('''\x0102''::bytea || {}'), ('{} || {}'),
	('{} || ''''::bytea'), ('''''::bytea || {}'), ('{} || filler(77, 200000)'), ('filler(77, 200000) || {}'), ('{} || {} || {}'),
	('{} || filler(5, 131072) || filler(6, 1)'), ('({} || ''\x01'') || ({} || ''\x02'')'), ('filler(1, 9) || ({} || filler(2, 9)) || {}'),
	('overlay({} placing ''\x0102'' from 1)'), ('overlay({} placing ''\x0102'' from 1 for 0)'), ('overlay({} placing ''\x0102'' from 2 for 1)'),
	('overlay({} placing ''\x0102''::bytea from 3 for 5000)'), ('overlay({} placing ''''::bytea from 2 for 3)'),
	('overlay({} placing filler(9, 4000) from 131000 for 4000)'), ('overlay({} placing filler(9, 131072) from 131073)'),
	('overlay({} placing filler(9, 4000) from 4000 for 131072)'), ('overlay({} placing filler(9, 300000) from 100 for 1)'),
	('overlay({} placing ''\x01''::bytea from 1000000000)'), ('overlay({} placing ''\x01''::bytea from 2 for 2000000000)'),
	('overlay({} placing ''\x0102''::bytea from 3 for -2)'), ('overlay({} placing {} from 2 for 3)'),
	('overlay({} || ''\x01'' placing {} || ''\x02'' from 5)'), ('overlay(overlay({} placing ''\xaa'' from 10) placing ''\xbb'' from 10)'),
	('overlay(''\x00112233''::bytea || {} placing filler(3, 10) from 3)'),
	('cut({}, 0)'), ('cut({}, 1)'), ('cut({}, 4000)'), ('cut({}, 4001)'), ('cut({}, 131072)'), ('cut({}, 131073)'), ('cut({}, 300000)'),
	('cut(cut({}, 5), 200000)'), ('cut(cut({}, 200000), 5)'), ('cut({} || {}, 131072)'), ('cut({}, 131000) || {}'),
	('cut(overlay({} placing filler(4, 400) from 130900), 131070)'), ('overlay(cut({}, 262144) placing filler(4, 400) from 131000)'),
	('cut(''\x01''::bytea || {}, 140000) || ''\x02''::bytea || cut({}, 3)'),
	('{} || NULL'), ('NULL || {}'), ('overlay({} placing NULL from 1)'), ('overlay({} placing ''\x00'' from NULL)'), ('cut({}, NULL)');
UPDATE expressions SET over_bytea = replace(over_file, '{}', 'plain'),
	over_file = replace(replace(over_file, '{}', 'document'), 'cut(', 'securefile_truncate(');
SELECT count(*) FROM expressions;

-- how each of them is looked at; n of those that differ, id of the row
CREATE FUNCTION differing(query text) RETURNS TABLE (what text) LANGUAGE plpgsql AS $$
DECLARE
	e expressions;
	found text;
BEGIN
	FOR e IN SELECT * FROM expressions ORDER BY n LOOP
		BEGIN
			EXECUTE replace(replace(query, '{file}', e.over_file), '{bytea}', e.over_bytea) INTO found;
		EXCEPTION WHEN OTHERS THEN
			found := SQLSTATE || ' ' || SQLERRM;
		END;
		IF found IS NOT NULL THEN
			what := e.over_file || ': ' || found;
			RETURN NEXT;
		END IF;
	END LOOP;
END $$;

-- selected: contents, length, a part, a hash, the text; nothing is written for it
BEGIN READ ONLY;
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM docs WHERE ({file})::bytea IS DISTINCT FROM {bytea}');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM docs WHERE length({file}) IS DISTINCT FROM octet_length({bytea})');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM docs WHERE substring({file} FROM 130000 FOR 5000) IS DISTINCT FROM substring({bytea} FROM 130000 FOR 5000)');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM docs WHERE ({file}) IS DISTINCT FROM ({bytea})::securefile');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM docs WHERE securefile_hash({file}) IS DISTINCT FROM securefile_hash(({bytea})::securefile)');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM docs WHERE ({file})::text IS DISTINCT FROM ({bytea})::text AND id < 6');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM docs WHERE securefile_send({file}) IS DISTINCT FROM {bytea}');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM docs WHERE (SELECT string_agg(c, '''') FROM (SELECT securefile_chunks({file}, chunk_size => 100000) OFFSET 0) s (c)) IS DISTINCT FROM nullif({bytea}, '''')');
-- of operands that are not stored
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM (SELECT id, plain::securefile AS document, plain FROM docs OFFSET 0) s WHERE ({file})::bytea IS DISTINCT FROM {bytea}');
-- of operands that are edited themselves
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM (SELECT id, ''\x07'' || securefile_truncate(document, length(document) + 3) || plain AS document, ''\x07'' || cut(plain, octet_length(plain) + 3) || plain AS plain FROM docs OFFSET 0) s WHERE ({file})::bytea IS DISTINCT FROM {bytea}');
-- kept for a while: materialised, sorted, hashed, in a window, an array, a row, a subquery
SELECT * FROM differing('WITH m AS MATERIALIZED (SELECT id, {file} AS made, {bytea} AS want FROM docs) SELECT string_agg(id::text, '' '') FROM m WHERE made::bytea IS DISTINCT FROM want');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM (SELECT id, {file} AS made, {bytea} AS want FROM docs ORDER BY -id OFFSET 0) s WHERE made::bytea IS DISTINCT FROM want');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM (SELECT id, lag({file}, 1) OVER (ORDER BY id) AS made, lag({bytea}, 1) OVER (ORDER BY id) AS want FROM docs OFFSET 0) s WHERE made::bytea IS DISTINCT FROM want');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM (SELECT id, ARRAY[{file}, document] AS made, {bytea} AS want FROM docs OFFSET 0) s WHERE made[1]::bytea IS DISTINCT FROM want');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM (SELECT id, ROW({file}) AS made, ROW({bytea}::securefile) AS want FROM docs OFFSET 0) s WHERE made::text <> want::text');
SELECT * FROM differing('SELECT string_agg(made.id::text, '' '') FROM (SELECT id, {file} AS d FROM docs) made JOIN (SELECT id, {bytea}::securefile AS d FROM docs) want ON made.d = want.d WHERE NOT EXISTS (SELECT FROM docs x WHERE x.id = made.id)');
SELECT * FROM differing('SELECT nullif(count(*), (SELECT count(DISTINCT {bytea}) + count(DISTINCT true) FILTER (WHERE {bytea} IS NULL) FROM docs)) FROM (SELECT DISTINCT {file} FROM docs) s');
SELECT pg_current_xact_id_if_assigned() IS NULL AS nothing_is_written;
COMMIT;

-- in parallel workers
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query;
END $$;
ALTER TABLE docs SET (parallel_workers = 2);
SELECT count(*) > 0 AS is_parallel FROM plan_of('SELECT id FROM docs WHERE (document || plain)::bytea IS DISTINCT FROM plain || plain') p WHERE p ~ 'Gather';
SELECT id FROM docs WHERE (document || plain)::bytea IS DISTINCT FROM plain || plain;
SELECT id FROM docs WHERE overlay(document || document placing plain from 2 for 300)::bytea IS DISTINCT FROM overlay(plain || plain placing plain from 2 for 300);
SELECT id FROM docs WHERE securefile_truncate('\x01' || document, 200000)::bytea IS DISTINCT FROM cut('\x01' || plain, 200000);
SELECT count(*) FROM (SELECT id, document || '\x00' AS made FROM docs WHERE length(document || '\x00') > 0 OFFSET 0) s JOIN docs USING (id) WHERE made::bytea = plain || '\x00';
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM docs WHERE ({file})::bytea IS DISTINCT FROM {bytea}');
SELECT * FROM differing('SELECT string_agg(id::text, '' '') FROM (SELECT id, {file} AS made, {bytea} AS want FROM docs WHERE length(document) >= 0 ORDER BY md5(id::text) OFFSET 0) s WHERE made::bytea IS DISTINCT FROM want');
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET parallel_leader_participation;
ALTER TABLE docs RESET (parallel_workers);

-- stored: in the row itself, in new rows, in another table, and taken back
CREATE FUNCTION stored(change text) RETURNS TABLE (what text) LANGUAGE plpgsql AS $$
DECLARE
	e expressions;
	found text;
BEGIN
	FOR e IN SELECT * FROM expressions ORDER BY n LOOP
		BEGIN
			EXECUTE replace(replace(change, '{file}', e.over_file), '{bytea}', e.over_bytea);
			SELECT string_agg(w::text, ' ') INTO found FROM wrong w;
			RAISE SQLSTATE 'SF000' USING MESSAGE = coalesce(found, '');
		EXCEPTION
			WHEN SQLSTATE 'SF000' THEN
				found := nullif(SQLERRM, '');
			WHEN OTHERS THEN
				found := SQLSTATE || ' ' || SQLERRM;
		END;
		IF found IS NOT NULL THEN
			what := e.over_file || ': ' || found;
			RETURN NEXT;
		END IF;
	END LOOP;
END $$;
SELECT * FROM stored('UPDATE docs SET document = {file}, plain = {bytea}');
SELECT * FROM stored('UPDATE pieces SET document = {file}, plain = {bytea}');
SELECT * FROM stored('INSERT INTO docs SELECT id + 100, {file}, {bytea} FROM docs');
SELECT * FROM stored('INSERT INTO pieces SELECT id + 100, {file}, {bytea} FROM docs');
SELECT * FROM stored('INSERT INTO docs SELECT id + 100, {file}, {bytea} FROM pieces');
SELECT * FROM stored('UPDATE docs d SET document = s.a, plain = s.b FROM (SELECT id, {file} AS a, {bytea} AS b FROM pieces) s WHERE s.id = d.id');
SELECT * FROM stored('UPDATE docs d SET document = s.a, plain = s.b FROM (SELECT id + 1 AS id, {file} AS a, {bytea} AS b FROM docs) s WHERE s.id = d.id');
SELECT * FROM stored('INSERT INTO docs AS t SELECT id, {file}, {bytea} FROM pieces ON CONFLICT (id) DO UPDATE SET document = t.document || excluded.document, plain = t.plain || excluded.plain');
SELECT * FROM stored('UPDATE docs SET document = {file}, plain = {bytea}; UPDATE docs SET document = document || ''\x05''::bytea, plain = plain || ''\x05''::bytea; UPDATE docs SET document = securefile_truncate(document, 100000), plain = cut(plain, 100000)');
BEGIN;
MERGE INTO docs t USING pieces s ON t.id = s.id + 5
	WHEN MATCHED THEN UPDATE SET document = t.document || s.document, plain = t.plain || s.plain
	WHEN NOT MATCHED THEN INSERT VALUES (s.id + 200, s.document || '\x01', s.plain || '\x01');
SELECT count(*) AS rows, (SELECT count(*) FROM wrong) AS wrong FROM docs;
ROLLBACK;
SELECT * FROM wrong;
SELECT * FROM securefile_check('docs', 'document');
SELECT * FROM securefile_check('pieces', 'document');

-- a value whose map is a tree, with some of the expressions
DELETE FROM expressions WHERE n % 4 <> 0;
INSERT INTO docs SELECT 10, data, data FROM (SELECT filler(10, 13000000)) s (data);
SELECT * FROM differing('SELECT ''differs'' FROM docs WHERE ({file})::bytea IS DISTINCT FROM {bytea} AND id = 10');
SELECT * FROM stored('UPDATE docs SET document = {file}, plain = {bytea} WHERE id = 10');

-- and kept
UPDATE docs SET document = document || '\xaa', plain = plain || '\xaa';
UPDATE docs SET document = overlay(document placing filler(50, 3000) from 2000 for 1), plain = overlay(plain placing filler(50, 3000) from 2000 for 1) WHERE id % 2 = 0;
UPDATE pieces SET document = document || document, plain = plain || plain;
UPDATE pieces SET document = securefile_truncate(document, length(document) + 200000), plain = cut(plain, octet_length(plain) + 200000) WHERE id > 2;
INSERT INTO pieces AS t SELECT id, document, plain FROM docs WHERE length(document) < 1000000
ON CONFLICT (id) DO UPDATE SET document = t.document || excluded.document, plain = t.plain || excluded.plain;
SELECT * FROM wrong;
SELECT * FROM securefile_check('docs', 'document');
SELECT * FROM securefile_check('pieces', 'document');
SELECT live_bytes = (SELECT sum((length + unused_bytes + 511) / 512 * 512) FROM docs, securefile_storage(document) WHERE form = 'stored') AS space
FROM securefile_maintain('docs', 'document'), LATERAL (SELECT 1 WHERE entries_seen >= 0 OFFSET 0) o, securefile_usage('docs', 'document');

-- CREATE TABLE AS, temporary and unlogged tables, domains, constraints, defaults, generated columns
CREATE TABLE made AS SELECT id, document || '\x01' AS document, plain || '\x01' AS plain FROM docs;
SELECT count(*), count(*) FILTER (WHERE document::bytea = plain) AS right FROM made;
SELECT * FROM securefile_check('made', 'document');
CREATE TEMP TABLE brief AS SELECT id, overlay(document placing '\x01' from 3) AS document, overlay(plain placing '\x01' from 3) AS plain FROM docs;
SELECT count(*), count(*) FILTER (WHERE document::bytea = plain) AS right FROM brief;
UPDATE brief SET document = document || '\x02' || document, plain = plain || '\x02' || plain;
SELECT count(*), count(*) FILTER (WHERE document::bytea = plain) AS right FROM brief;
SELECT * INTO UNLOGGED TABLE fleeting FROM brief WHERE id < 5;
UPDATE fleeting SET document = securefile_truncate(document, 3000000), plain = cut(plain, 3000000);
SELECT count(*), count(*) FILTER (WHERE document::bytea = plain) AS right FROM fleeting;
INSERT INTO docs SELECT id + 50, document, plain FROM fleeting;
SELECT * FROM wrong;
CREATE DOMAIN limited AS securefile CHECK (length(VALUE) < 10000);
CREATE TABLE limits (id int, document limited);
INSERT INTO limits VALUES (1, filler(1, 9000));
UPDATE limits SET document = document || '\x00';
UPDATE limits SET document = document || filler(1, 1000);
SELECT length(document) FROM limits;
ALTER TABLE limits ADD CHECK (length(document) < 9500);
UPDATE limits SET document = document || filler(1, 600);
UPDATE limits SET document = document || filler(1, 400);
SELECT length(document), document::bytea = filler(1, 9000) || '\x00' || filler(1, 400) AS right FROM limits;

-- ALTER TYPE .. USING, within the limits that any value has there
CREATE TABLE altered (id int, document bytea);
INSERT INTO altered VALUES (1, filler(1, 200000)), (2, filler(2, 10));
ALTER TABLE altered ALTER document TYPE securefile USING document::securefile || '\x03';
SELECT id, document::bytea = filler(id, CASE id WHEN 1 THEN 200000 ELSE 10 END) || '\x03' AS right FROM altered ORDER BY id;
SELECT * FROM securefile_check('altered', 'document');
ALTER TABLE altered ALTER document TYPE bytea USING document || '\x04';
SELECT id, document = filler(id, CASE id WHEN 1 THEN 200000 ELSE 10 END) || '\x0304' AS right FROM altered ORDER BY id;

-- PL/pgSQL: variables, loops, arguments, results
CREATE FUNCTION grown(document securefile, times int) RETURNS securefile LANGUAGE plpgsql AS $$
DECLARE
	made securefile := document;
BEGIN
	FOR i IN 1 .. times LOOP
		made := made || filler(i, 1000);
		IF i % 10 = 0 THEN
			made := overlay(made placing '\xff' from i);
			made := securefile_truncate(made, length(made) - 10);
		END IF;
	END LOOP;
	RETURN made;
END $$;
CREATE FUNCTION grown(data bytea, times int) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		data := data || filler(i, 1000);
		IF i % 10 = 0 THEN
			data := overlay(data placing '\xff' from i);
			data := cut(data, octet_length(data) - 10);
		END IF;
	END LOOP;
	RETURN data;
END $$;
SELECT id FROM docs WHERE grown(document, 50)::bytea IS DISTINCT FROM grown(plain, 50) AND id < 10;
UPDATE docs SET document = grown(document, 35), plain = grown(plain, 35) WHERE id < 10;
SELECT * FROM wrong;
DO $$
DECLARE
	kept securefile;
	was bytea;
BEGIN
	SELECT document || '\x01', plain || '\x01' INTO kept, was FROM docs WHERE id = 9;
	UPDATE docs SET document = document || '\x02', plain = plain || '\x02' WHERE id = 9;
	IF kept::bytea IS DISTINCT FROM was THEN
		RAISE 'changed meanwhile';
	END IF;
	UPDATE docs SET document = kept, plain = was WHERE id = 9;
	UPDATE docs SET document = kept, plain = was WHERE id = 8;
	FOR i IN 1 .. 30 LOOP
		UPDATE docs SET document = document || filler(i, 700), plain = plain || filler(i, 700) WHERE id IN (2, 7) OR (id = 10 AND i <= 5);
	END LOOP;
END $$;
SELECT * FROM wrong;
SELECT * FROM securefile_check('docs', 'document');

-- SQL functions, views and rules, prepared statements with and without types
CREATE FUNCTION tagged(d securefile) RETURNS securefile LANGUAGE sql STABLE AS $$ SELECT d || '\x99' $$;
CREATE VIEW tagged_docs AS SELECT id, tagged(document) AS document, document || '\x98' AS other, plain FROM docs;
SELECT count(*) FILTER (WHERE document::bytea = plain || '\x99' AND other::bytea = plain || '\x98') = count(*) AS right FROM tagged_docs;
SELECT pg_get_viewdef('tagged_docs') ~ '\|\|' AS operator_in_view;
PREPARE untyped AS SELECT document || $1, $2 || document, overlay(document placing $3 from $4), securefile_truncate(document, $5) FROM docs WHERE id = 2;
SELECT parameter_types[3:5] FROM pg_prepared_statements WHERE name = 'untyped';
PREPARE typed (int, bytea) AS UPDATE docs SET document = document || $2, plain = plain || $2 WHERE id = $1;
EXECUTE typed (3, filler(3, 100));
EXECUTE typed (3, NULL);
SELECT document IS NULL, plain IS NULL FROM docs WHERE id = 3;
UPDATE docs SET document = '\x01' || '\x02'::securefile, plain = '\x0102' WHERE id = 3;
EXECUTE typed (10, filler(10, 1000));
PREPARE appended AS UPDATE docs SET document = document || $1, plain = plain || $1 WHERE id = 6;
EXECUTE appended ('\x0a0b');
SELECT * FROM wrong;
DEALLOCATE ALL;

-- cursors: what a cursor has seen stays
BEGIN;
DECLARE c CURSOR FOR SELECT id, document || '\x11' AS made, plain || '\x11' AS want FROM docs WHERE id IN (8, 9, 10) ORDER BY id;
MOVE 1 IN c;
UPDATE docs SET document = document || '\x12', plain = plain || '\x12';
CREATE FUNCTION pg_temp.rest(c refcursor) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		RETURN NEXT r.id || ' ' || (r.made::bytea = r.want);
	END LOOP;
END $$;
SELECT * FROM pg_temp.rest('c');
COMMIT;
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT securefile_truncate(document, 3) || '\x11' AS made FROM docs WHERE id IN (2, 5) ORDER BY id;
COMMIT;
SELECT count(*) FROM wrong;
CLOSE held;

-- locked and updated by somebody: FOR UPDATE, RETURNING, a CTE that writes
WITH changed AS (UPDATE docs SET document = document || '\x21', plain = plain || '\x21' WHERE id > 4 RETURNING id, document || '\x22' AS document, plain || '\x22' AS plain)
INSERT INTO pieces SELECT id + 1000, document, plain FROM changed;
SELECT * FROM wrong;
SELECT count(*) FILTER (WHERE (document || '\x00')::bytea = plain || '\x00') = count(*) AS right FROM (SELECT * FROM docs ORDER BY id FOR UPDATE) s;

-- COPY, JSON, aggregates, comparisons
UPDATE docs SET document = '\x0102', plain = '\x0102' WHERE id = 3;
COPY (SELECT document || '\x31' FROM docs WHERE id = 3) TO STDOUT;
SELECT to_json(document || '\x31'), format('%s', document || '\x31'), string_agg(document || '\x31', ',') FROM docs WHERE id = 3 GROUP BY document;
SELECT document || '\x31' = '\x010231' AS equal, document || '\x31' <> '\x010231' AS differ, coalesce(document || '\x31', '\x00'), sha256(document || '\x31') = sha256('\x010231') AS sha
FROM docs WHERE id = 3;
SELECT position('\x31' in document || '\x31'), get_byte(document || '\x31', 2), encode(document || '\x31', 'base64'), md5(document || '\x31') = md5('\x010231'::bytea) AS md5
FROM docs WHERE id = 3;

-- errors as those of bytea, or as the reference says; the rows are untouched
SELECT overlay(document placing '\x00' from 0) FROM docs WHERE id = 9;
SELECT overlay(plain placing '\x00' from 0) FROM docs WHERE id = 9;
SELECT overlay(document placing '\x00' from -5 for 3) FROM docs WHERE id = 9;
SELECT overlay(document placing '\x00' from 0::bigint for 3::bigint) FROM docs WHERE id = 9;
SELECT securefile_truncate(document, -1) FROM docs WHERE id = 9;
SELECT (securefile_truncate(document, 2000000000))::bytea FROM docs WHERE id = 9;
SELECT length(securefile_truncate(document, 9223372036854775807)) FROM docs WHERE id = 9;
SELECT length(securefile_truncate(document, 9223372036854775807) || '\x00') FROM docs WHERE id = 9;
SELECT length(securefile_truncate(document, 5000000000) || document) = 5000000000 + length(document) AS right FROM docs WHERE id = 9;
SELECT * FROM wrong;

-- once all is gone, so is its space
DELETE FROM docs;
DELETE FROM pieces;
DELETE FROM made;
SELECT count(*) FROM (VALUES ('docs'), ('pieces'), ('made')) t (t), securefile_maintain(t::regclass, 'document');
SELECT t, live_bytes FROM (VALUES ('docs'), ('pieces'), ('made')) t (t), securefile_usage(t::regclass, 'document');
DROP TABLE docs, pieces, expressions, made, brief, fleeting, limits, altered CASCADE;
DROP DOMAIN limited;
DROP FUNCTION filler, cut, differing, stored, plan_of, grown(securefile, int), grown(bytea, int), tagged;
