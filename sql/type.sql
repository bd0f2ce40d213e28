-- The type with values that stay INLINE: nothing here is stored in a segment.
\getenv abs_builddir PG_ABS_BUILDDIR

-- text form: as bytea
SELECT '\x00ff10'::securefile, ''::securefile, 'abc\\d\001'::securefile;
SELECT '\xABcd ef'::securefile AS with_space;
SET bytea_output = escape;
SELECT '\x00ff10'::securefile, ''::securefile, 'abc\\d\001'::securefile;
RESET bytea_output;
SELECT '\xzz'::securefile;
SELECT '\x123'::securefile;
SELECT 'a\9'::securefile;
SELECT NULL::securefile IS NULL AS is_null;

-- binary form: the raw bytes, both ways
SELECT securefile_send('\x00ff10'), securefile_send('');
CREATE TEMP TABLE copied (id int, document securefile);
INSERT INTO copied VALUES (1, '\x00ff10'), (2, ''), (3, NULL), (4, 'abc');
\cd :abs_builddir
\copy copied TO 'results/type_binary.data' (FORMAT binary)
CREATE TEMP TABLE copied_bytea (id int, document bytea);
\copy copied_bytea FROM 'results/type_binary.data' (FORMAT binary)
SELECT * FROM copied_bytea ORDER BY id;
TRUNCATE copied;
\copy copied FROM 'results/type_binary.data' (FORMAT binary)
SELECT * FROM copied ORDER BY id;
COPY copied TO STDOUT;
COPY copied FROM STDIN;
5	\\x6566
6	\N
7	gh\\\\i
\.
SELECT * FROM copied WHERE id > 4 ORDER BY id;

-- casts: assignment from bytea, implicit to bytea, none to itself
SELECT castsource::regtype, casttarget::regtype, castcontext, provolatile
FROM pg_cast LEFT JOIN pg_proc p ON p.oid = castfunc
WHERE 'securefile'::regtype IN (castsource, casttarget) ORDER BY 1;
SELECT '\x0102'::bytea::securefile, '\x0102'::securefile::bytea;
CREATE TEMP TABLE assigned (document securefile, plain bytea);
INSERT INTO assigned VALUES ('\x01'::bytea, '\x02'::securefile);
SELECT * FROM assigned;
INSERT INTO assigned VALUES (42, NULL);
INSERT INTO assigned VALUES ('a'::text, NULL);

-- what it is in the catalogs
SELECT typlen, typbyval, typalign, typstorage, typcategory, typispreferred
FROM pg_type WHERE oid = 'securefile'::regtype;

-- length
SELECT length('\x00ff10'::securefile), octet_length('\x00ff10'::securefile),
	length(''::securefile), length(NULL::securefile),
	pg_typeof(length(''::securefile));
SELECT length(repeat('x', 100000)::bytea::securefile);
CREATE TEMP TABLE toasted (document securefile);
INSERT INTO toasted SELECT repeat('0123456789', 200000)::bytea;
ALTER TABLE toasted ALTER document SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT repeat('abcdefghij', 200000)::bytea;
SELECT length(document), substring(document from 1000001 for 5),
	substring(document from 1999999), pg_column_size(document) > 1000000 AS uncompressed
FROM toasted;

-- substring gives what bytea's gives
SELECT string_agg(format('%s/%s', s, l), ' ') AS wrong
FROM (VALUES (-2147483648), (-3), (-1), (0), (1), (2), (5), (6), (7), (2147483647)) starts(s),
	(VALUES (0), (1), (2), (5), (6), (100), (2147483647)) lengths(l)
WHERE substring('\x0102030405'::securefile from s for l) IS DISTINCT FROM
		substring('\x0102030405'::bytea from s for l)
	OR substring('\x0102030405'::securefile, s::bigint, l::bigint) IS DISTINCT FROM
		substring('\x0102030405'::bytea, s, l)
	OR substring('\x0102030405'::securefile from s) IS DISTINCT FROM
		substring('\x0102030405'::bytea from s)
	OR substring('\x0102030405'::securefile, s::bigint) IS DISTINCT FROM
		substring('\x0102030405'::bytea, s)
	OR substring(''::securefile from s for l) <> '';
SELECT substring('\x0102'::securefile from 1 for -1);
SELECT substring('\x0102'::bytea from 1 for -1);
SELECT substring('\x0102'::securefile from 1::bigint for (-1)::bigint);
SELECT substring('\x0102'::securefile from 9223372036854775807 for 9223372036854775807),
	substring('\x0102'::securefile from -9223372036854775808 for 9223372036854775807),
	substring('\x0102'::securefile from -9223372036854775808);
SELECT substring('\x0102'::securefile for 1);

-- and takes the arguments that drivers pass
SELECT substring('\x010203'::securefile from 2::smallint for 1::smallint),
	substring('\x010203'::securefile from 2::smallint for 1::bigint),
	substring('\x010203'::securefile from 2::bigint for 1),
	substring('\x010203'::securefile, '2', '1');
PREPARE untyped AS SELECT substring('\x010203'::securefile from $1 for $2), substring('\x010203'::securefile, $3);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
EXECUTE untyped (2, 1, 3);
DEALLOCATE untyped;

-- comparison is by content
SELECT '\x01'::securefile = '\x01', '\x01'::securefile = '\x02', '\x01'::securefile = '\x0101',
	'\x01'::securefile <> '\x01', '\x01'::securefile <> '\x02', ''::securefile = '';
SELECT '\x01'::securefile = '\x01'::bytea, '\x01'::bytea = '\x01'::securefile,
	'\x01'::securefile <> '\x01'::bytea, '\x01' = '\x01'::securefile,
	'\x01'::securefile < '\x02'::bytea;
SELECT '\x01'::securefile IN ('\x02', '\x01'), '\x01'::securefile IS DISTINCT FROM '\x01',
	nullif('\x01'::securefile, '\x01'), coalesce(NULL::securefile, '\x03');
CREATE TEMP TABLE compared (id int, document securefile);
INSERT INTO compared VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, ''), (5, NULL), (6, NULL);
INSERT INTO compared SELECT 7, repeat('x', 3000000)::bytea;
INSERT INTO compared SELECT 8, repeat('x', 3000000)::bytea;
INSERT INTO compared SELECT 9, repeat('x', 2999999)::bytea || 'y';
SELECT count(*) FROM (SELECT DISTINCT document FROM compared) d;
SELECT length(document), count(*), min(id) FROM compared GROUP BY document ORDER BY 3;
SELECT a.id, b.id FROM compared a JOIN compared b ON a.document = b.document
WHERE a.id < b.id ORDER BY 1, 2;
SELECT count(*) FROM (SELECT document FROM compared WHERE id = 1
	UNION SELECT document FROM compared WHERE id = 3) u;
SELECT count(*) FROM (SELECT document FROM compared INTERSECT SELECT '\x61'::bytea) i;
SELECT id FROM compared WHERE document IN (SELECT '\x62'::bytea);

-- the two hash functions agree, whatever the storage
SELECT bool_and((securefile_hash_extended(document, 0) & 4294967295) =
	(securefile_hash(document)::bigint & 4294967295)) AS halves_agree,
	count(DISTINCT securefile_hash(document)) AS hashes
FROM compared;
SELECT securefile_hash('abc') AS must_never_change, securefile_hash_extended('abc', 1) AS nor_this;

-- a hash index, but no btree
CREATE INDEX compared_document ON compared USING hash (document);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM compared WHERE document = '\x62';
SELECT id FROM compared WHERE document = '\x62';
RESET enable_seqscan;
RESET enable_bitmapscan;
CREATE INDEX ON compared (document);
SELECT document FROM compared ORDER BY document;
SELECT count(DISTINCT document) FROM compared;
SELECT count(DISTINCT document::bytea) FROM compared;

-- all else that bytea can
SELECT document || '\x02', '\x02' || document, document || '\x02'::bytea, '\x02'::bytea || document,
	document || document, pg_typeof(document || '\x02')
FROM (VALUES ('\x0105'::securefile)) v(document);
SELECT ''::securefile || '' AS empty;
SELECT sha256(document), md5(document), encode(document, 'hex'), get_byte(document, 1),
	position('\x05' in document), overlay(document placing '\x0a0b' from 2 for 1),
	trim(both '\x01' from document), bit_count(document), convert_from(document, 'UTF8') = E'\001\005' AS text,
	document LIKE '\001%' AS "like"
FROM (VALUES ('\x0105'::securefile)) v(document);
SELECT string_agg(document, ',' ORDER BY id) FROM compared WHERE id < 4;
SELECT to_json('\x0105'::securefile), '\x0105'::securefile::text, format('%s', '\x0105'::securefile);

-- domains
CREATE DOMAIN small_file AS securefile CHECK (length(VALUE) <= 3);
SELECT '\x010203'::small_file, length('\x01'::small_file), substring('\x0102'::small_file from 2 for 1),
	substring('\x0102'::small_file from 2::bigint), '\x01'::small_file = '\x01',
	'\x01'::small_file || '\x02', '\x01'::small_file::bytea;
SELECT '\x01020304'::small_file;
CREATE TEMP TABLE small (document small_file);
INSERT INTO small VALUES ('\x010203'::bytea);
INSERT INTO small VALUES ('\x01020304'::bytea);
SELECT DISTINCT document FROM small;
DROP TABLE small;
DROP DOMAIN small_file;

-- ANALYZE notes width and nulls, never contents
ANALYZE compared (document);
SELECT null_frac, avg_width > 0 AS has_width, n_distinct, most_common_vals, histogram_bounds, correlation
FROM pg_stats WHERE tablename = 'compared' AND attname = 'document';
SELECT bool_and(num_nulls(stavalues1, stavalues2, stavalues3, stavalues4, stavalues5) = 5) AS no_values
FROM pg_statistic WHERE starelid = 'compared'::regclass AND staattnum = 2;

-- a hostile search_path changes nothing
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.length(securefile) RETURNS bigint LANGUAGE sql AS 'SELECT 666::bigint';
CREATE FUNCTION hostile.substring(securefile, int, int) RETURNS bytea LANGUAGE sql AS $$SELECT '\x666666'::bytea$$;
CREATE FUNCTION hostile.evil(securefile, securefile) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR hostile.= (LEFTARG = public.securefile, RIGHTARG = public.securefile, FUNCTION = hostile.evil);
CREATE FUNCTION hostile.format(text, oid, smallint) RETURNS text LANGUAGE sql AS $$SELECT 'hostile'$$;
SET search_path = hostile, public;
SELECT substring('\x0102'::securefile from 1 for 1), length('\x01'::securefile),
	count(*) AS groups FROM (SELECT DISTINCT document FROM compared) d;
SELECT count(*) FROM securefile_stat WHERE relid = 'compared'::regclass;
SET search_path = '';
SELECT substring('\x0102'::public.securefile from 1 for 1), length('\x01'::public.securefile),
	octet_length('\x01'::public.securefile), '\x01'::public.securefile::bytea;
SELECT DISTINCT d FROM (VALUES ('\x01'::public.securefile), ('\x01')) v(d);
RESET search_path;
DROP SCHEMA hostile CASCADE;

-- members of the extension, also those in pg_catalog, so that they go with it
SELECT p.oid::regprocedure, provolatile, proisstrict, proparallel, e.extname
FROM pg_proc p LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
	LEFT JOIN pg_extension e ON e.oid = d.refobjid
WHERE p.pronamespace = 'pg_catalog'::regnamespace
	AND (p.proargtypes[0] IN ('securefile'::regtype, 'securefile_wide'::regtype))
ORDER BY 1::text;
SELECT p.oid::regprocedure AS without_comment FROM pg_proc p
	JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
	JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'securefile'
WHERE obj_description(p.oid, 'pg_proc') IS NULL;
