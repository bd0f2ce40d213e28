-- position(), securefile_position(), securefile_positions(), securefile_compare()
\set VERBOSITY default
SET client_min_messages = warning;

-- how position() resolves, and what it returns; text has no position in bytes
CREATE TABLE t (id int, document securefile, plain bytea);
INSERT INTO t VALUES (1, '\x010203010203', '\x0203');
SELECT position('\x0203' IN document) AS literal, position(plain IN document) AS bytea, position(document IN document) AS securefile,
	position(document IN plain) AS in_bytea, position('\x03'::bytea IN document || '\x04') AS edited,
	pg_typeof(position(plain IN document)) AS type FROM t;
SELECT position('\x03'::text IN document) FROM t;
PREPARE untyped AS SELECT position($1 IN document), securefile_position(document, $1), securefile_position(document, $1, $2, $3) FROM t;
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
EXECUTE untyped('\x03', -1, 2);
DEALLOCATE untyped;
SELECT oid::regprocedure, provolatile, proparallel, proisstrict, proretset FROM pg_proc
WHERE proname IN ('securefile_position', 'securefile_positions', 'securefile_compare') OR oid = 'pg_catalog.position(securefile, bytea)'::regprocedure ORDER BY proname;

-- start, nth, overlapping places, backwards; nothing, everywhere
SELECT start, array_agg(securefile_position('\x616161610061', '\x6161', start, nth) ORDER BY nth) AS nth,
	ARRAY(SELECT securefile_positions('\x616161610061', '\x6161', start)) AS positions
FROM generate_series(-7, 8) start, generate_series(1, 4) nth WHERE start <> 0 GROUP BY start ORDER BY start;
SELECT start, array_agg(securefile_position('\x6162', '', start, nth) ORDER BY nth) AS nth,
	ARRAY(SELECT securefile_positions('\x6162', '', start)) AS positions
FROM generate_series(-3, 4) start, generate_series(1, 4) nth WHERE start <> 0 GROUP BY start ORDER BY start;
SELECT securefile_position('', '') AS empty, securefile_position('', '', -1) AS last, securefile_position('', '\x61') AS nothing,
	securefile_position('\x61', '\x6161') AS longer, position('' IN '\x61'::securefile) AS syntax;
SELECT securefile_position(d, p, s, n) FROM (VALUES (NULL::securefile, '\x61'::bytea, 1, 1), ('\x61', NULL, 1, 1), ('\x61', '\x61', NULL, 1), ('\x61', '\x61', 1, NULL)) v (d, p, s, n);
SELECT securefile_positions(NULL, '\x61');
SELECT securefile_position('\x61', '\x61', 0);
SELECT securefile_positions('\x61', '\x61', 0);
SELECT securefile_position('\x61', '\x61', 1, 0);
SELECT securefile_position('\x61', '\x61', 1, -9223372036854775808);
SELECT securefile_position('\x61', '\x61', s, n) AS position, securefile_position('\x61', '', s, n) AS empty
FROM unnest(ARRAY[-9223372036854775808, 9223372036854775807]) s, unnest(ARRAY[1, 9223372036854775807]) n;

-- gaps are passed over by their number; what lies at their borders is found
CREATE TABLE gaps (id int, document securefile);
INSERT INTO gaps VALUES (1, '\x0061');
UPDATE gaps SET document = securefile_truncate(securefile_truncate(document, 1::bigint << 59) || '\x620063', 1::bigint << 60) || '\x64';
SELECT length(document), securefile_position(document, '\x61') AS before, securefile_position(document, '\x6100') AS border,
	securefile_position(document, '\x00620063') AS behind, position('\x0064' IN document) AS last, position('\x63' IN document) AS middle,
	position('\x65' IN document) AS nowhere FROM gaps;
SELECT securefile_position(document, '\x0000') AS zeros, securefile_position(document, '\x0000', 1, 1000000007) AS nth,
	securefile_position(document, '\x0000', 1, 1::bigint << 59) AS behind, securefile_position(document, '\x0000', -1) AS last,
	securefile_position(document, '\x0000', -1, (1::bigint << 59) - 6) AS back, securefile_position(document, '\x61', -1) AS first,
	securefile_position(document, '\x00', -1, 1::bigint << 62) AS too_many FROM gaps;
SELECT position(decode(repeat('00', 300000), 'hex') || '\x62' IN document) AS long FROM gaps;
SELECT array_agg(p) FROM (SELECT securefile_positions(document, '\x0000', (1::bigint << 59) - 1) p FROM gaps LIMIT 5) s;
SELECT array_agg(p) FROM (SELECT securefile_positions(document, '\x00', -1) p FROM gaps LIMIT 3) s;
-- the same as stored holes, and where there is no object
SELECT document = document AS stored, securefile_position(d, '\x6100') AS border, securefile_position(d, '\x00620063') AS behind
FROM gaps, LATERAL (SELECT securefile_truncate('\x61'::securefile, 1::bigint << 59) || '\x620063' AS d) e;
-- behind the last byte of the longest value is no position
SELECT securefile_position(d, '', 9223372036854775807) AS last, securefile_position(d, '', 9223372036854775807, 2) AS behind,
	ARRAY(SELECT securefile_positions(d, '', 9223372036854775806)) AS both, securefile_position(d, '', 1, 9223372036854775807) AS from_the_first
FROM gaps, LATERAL (SELECT securefile_truncate(document, 9223372036854775807) AS d) e;

-- order
SELECT a, b, securefile_compare(a::securefile, b::securefile), sign(pg_catalog.byteacmp(a, b)) AS expected
FROM unnest(ARRAY['', '\x00', '\x0000', '\x0001', '\x61', '\x6162', '\xff']::bytea[]) a, unnest(ARRAY['', '\x0000', '\x61', '\x616100', '\xff']::bytea[]) b
WHERE securefile_compare(a::securefile, b::securefile) <> sign(pg_catalog.byteacmp(a, b));
SELECT count, start_a, start_b, securefile_compare('\x61626364', '\x62636465', count, start_a, start_b)
FROM unnest(ARRAY[NULL, 0, 2, 9223372036854775807]) count, unnest(ARRAY[1, 2, 9223372036854775807]) start_a, unnest(ARRAY[1, 2, 5]) start_b ORDER BY 1, 2, 3;
SELECT securefile_compare(NULL, '\x61') IS NULL AS a, securefile_compare('\x61', NULL) IS NULL AS b, securefile_compare('\x61', '\x61', NULL) AS count,
	securefile_compare('\x61', '\x61', 1, NULL) IS NULL AS start_a, securefile_compare('\x61', '\x61', 1, 1, NULL) IS NULL AS start_b,
	securefile_compare(NULL, '\x61', -1) IS NULL AS count_too;
SELECT securefile_compare('\x61', '\x61', -1);
SELECT securefile_compare('\x61', '\x61', 1, 0);
SELECT securefile_compare('\x61', '\x61', 1, 1, -9223372036854775808);
SELECT securefile_compare(document, document) AS same, securefile_compare(document, document || '\x') AS edited,
	securefile_compare(document, document || '\x00') AS shorter, securefile_compare(document || '\x00', document) AS longer,
	securefile_compare(document, securefile_truncate(document, (1::bigint << 59) + 1)) AS middle,
	securefile_compare(document, securefile_truncate(securefile_truncate(document, (1::bigint << 59) + 1), 1::bigint << 60)) AS against_zeros,
	securefile_compare(document, document, NULL, 3, 4) AS shifted, securefile_compare(document, document, 1::bigint << 58, 3, 4) AS zeros FROM gaps;
DROP TABLE t, gaps;
