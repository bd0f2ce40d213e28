-- Operators between securefile and bytea, which is what drivers send: by content,
-- and through the hash operator class.

CREATE FUNCTION noise(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substring(coalesce(string_agg(sha256(int4send(seed) || int4send(i)), ''), '') FOR len)
	FROM generate_series(1, (len + 31) / 32) i
$$;
CREATE FUNCTION plan_has(query text, pattern text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found_it boolean := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found_it := found_it OR line ~ pattern;
	END LOOP;
	RETURN found_it;
END $$;

-- what = and <> say is what bytea's say, for values of all forms: in the row, stored,
-- edited, in TOAST as they are and compressed, with a first and a last byte that differs
CREATE TABLE op_values (id int, document securefile(disable_storage_in_row), plain bytea, outside bytea);
ALTER TABLE op_values ALTER outside SET STORAGE EXTERNAL;
INSERT INTO op_values SELECT id, v, v, v FROM (SELECT noise(1, 1200000)) long(n), LATERAL (VALUES
	(1, ''::bytea), (2, '\x00'), (3, '\x01'), (4, substring(n FOR 3000)), (5, substring(n FOR 1048575)),
	(6, substring(n FOR 1048576)), (7, substring(n FOR 1048577)), (8, n), (9, substring(n FOR 1199999) || '\x00'),
	(10, '\x00' || substring(n FROM 2)), (11, decode(repeat('ab', 1200000), 'hex')),
	(12, decode(repeat('ab', 1199999) || 'ac', 'hex')), (13, NULL)) v(id, v);
CREATE TEMP TABLE op_row (id int, document securefile);
INSERT INTO op_row SELECT id, plain FROM op_values;
SELECT count(*) AS pairs, count(*) FILTER (WHERE b.same) AS same,
	bool_and((a.document = b.plain) IS NOT DISTINCT FROM b.same AND (b.plain = a.document) IS NOT DISTINCT FROM b.same
		AND (a.document <> b.plain) IS NOT DISTINCT FROM NOT b.same AND (b.plain <> a.document) IS NOT DISTINCT FROM NOT b.same
		AND (a.document = b.outside) IS NOT DISTINCT FROM b.same AND (b.outside <> a.document) IS NOT DISTINCT FROM NOT b.same
		AND (r.document = b.plain) IS NOT DISTINCT FROM b.same AND (b.outside <> r.document) IS NOT DISTINCT FROM NOT b.same
		AND (a.document || '' = b.plain) IS NOT DISTINCT FROM b.same
		AND (a.document IS DISTINCT FROM b.plain) = (a.plain IS DISTINCT FROM b.plain)) AS right
FROM op_values a JOIN op_row r USING (id),
	LATERAL (SELECT v.*, a.plain = v.plain AS same FROM op_values v) b;
SELECT document || '\x0001'::bytea = plain || '\x0001' AS appended, '\x0001'::bytea || document = '\x0001'::bytea || plain AS prepended,
	document || '\x0001' = plain AS longer
FROM op_values WHERE id IN (2, 8);

-- and the hashes are the same, with any seed
SELECT count(*) FILTER (WHERE plain IS NOT NULL) AS hashed,
	bool_and(securefile_hash(v.document) = securefile_hash_bytea(plain)
		AND securefile_hash(r.document) = securefile_hash_bytea(outside)
		AND securefile_hash(v.document || '') = securefile_hash_bytea(plain)) AS same,
	bool_and(securefile_hash_extended(v.document, seed) = securefile_hash_bytea_extended(plain, seed)
		AND securefile_hash_extended(r.document, seed) = securefile_hash_bytea_extended(outside, seed)) AS same_with_seed
FROM op_values v JOIN op_row r USING (id), (VALUES (0), (1), (-1), (9223372036854775807)) s(seed);
SELECT securefile_hash_bytea('abc') AS must_never_change, securefile_hash_bytea_extended('abc', 1) AS nor_this;

-- a value of another length is not read, and one that differs only as far as that
CREATE TABLE op_read (document securefile, plain bytea);
INSERT INTO op_read SELECT n, n FROM (SELECT noise(2, 2500000)) v(n);
CREATE FUNCTION reads() RETURNS bigint LANGUAGE sql AS
	$$SELECT direct_read_bytes FROM securefile_stat WHERE relid = 'op_read'::regclass$$;
SELECT reads() AS before \gset
SELECT document = substring(plain FOR 2499999) AS shorter, plain || '\x00' <> document AS longer FROM op_read;
SELECT reads() - :before AS read;
SELECT document = '\x00' || substring(plain FROM 2) AS same FROM op_read;
SELECT reads() - :before BETWEEN 1 AND 2000000 AS not_all;
SELECT document = plain AS same, document <> plain AS other FROM op_read;

-- a hash index serves a bytea, as a constant and as a parameter of any plan
CREATE TABLE op_index (id int, document securefile);
INSERT INTO op_index SELECT i, noise(i, CASE WHEN i % 100 = 0 THEN 20000 ELSE i END) FROM generate_series(1, 400) i;
CREATE INDEX op_index_document ON op_index USING hash (document);
ANALYZE op_index;
SELECT plan_has($$SELECT id FROM op_index WHERE document = '\x4142'::bytea$$, 'Index Cond');
SELECT plan_has($$SELECT id FROM op_index WHERE '\x4142'::bytea = document$$, 'Index Cond');
PREPARE find(bytea) AS SELECT id FROM op_index WHERE document = $1;
SET plan_cache_mode = force_generic_plan;
SELECT plan_has($$EXECUTE find('\x4142')$$, 'Index Cond');
EXECUTE find(noise(7, 7));
EXECUTE find(noise(200, 20000));
EXECUTE find('\x');
SET plan_cache_mode = force_custom_plan;
EXECUTE find(noise(200, 20000));
RESET plan_cache_mode;
DEALLOCATE find;
SELECT plan_has($$SELECT id FROM op_index WHERE document = ANY(ARRAY['\x41'::bytea, '\x42'])$$, 'Index Cond');
SELECT id FROM op_index WHERE document = ANY(ARRAY[noise(3, 3), noise(300, 20000), '\x']) ORDER BY id;
SELECT id FROM op_index WHERE document IN (noise(3, 3), noise(300, 20000)) ORDER BY id;
SELECT id FROM op_index WHERE document IN ('\x', noise(4, 4)) ORDER BY id;
SELECT plan_has('SELECT i.id FROM op_index i JOIN (VALUES (noise(100, 10)), (noise(2, 2))) v(plain) ON i.document = v.plain', 'Index Cond');
SELECT i.id FROM op_index i JOIN (VALUES (noise(100, 20000)), (noise(2, 2))) v(plain) ON i.document = v.plain ORDER BY 1;

-- hash joins, hashed subplans, semi-joins that make one side unique, both ways round
CREATE TABLE op_plain (id int, plain bytea);
INSERT INTO op_plain SELECT i, noise(i, CASE WHEN i % 100 = 0 THEN 20000 ELSE i END) FROM generate_series(390, 410) i, generate_series(1, 2);
INSERT INTO op_plain VALUES (0, NULL);
ANALYZE op_plain;
DROP INDEX op_index_document;
SET enable_nestloop = off;
SELECT plan_has('SELECT count(*) FROM op_index JOIN op_plain ON document = plain', 'Hash Cond: .*document = .*plain');
SELECT count(*) FROM op_index JOIN op_plain ON document = plain;
SELECT count(*) FROM op_plain LEFT JOIN op_index ON plain = document WHERE document IS NULL;
SELECT count(*), pg_typeof(document) FROM op_index JOIN (SELECT plain AS document FROM op_plain) p USING (document) GROUP BY 2;
SELECT plan_has('SELECT count(*) FROM op_index WHERE document NOT IN (SELECT plain FROM op_plain WHERE plain IS NOT NULL)', 'hashed SubPlan');
SELECT count(*) FROM op_index WHERE document NOT IN (SELECT plain FROM op_plain WHERE plain IS NOT NULL);
SELECT count(*) FROM op_plain WHERE plain NOT IN (SELECT document FROM op_index);
SELECT count(*) FROM op_index WHERE document IN (SELECT plain FROM op_plain);
SELECT count(*) FROM op_plain WHERE plain IN (SELECT document FROM op_index);
RESET enable_nestloop;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
CREATE INDEX ON op_index USING hash (document);
SELECT plan_has('SELECT count(*) FROM op_index WHERE document IN (SELECT plain FROM op_plain)', 'HashAggregate');
SELECT count(*) FROM op_index WHERE document IN (SELECT plain FROM op_plain);
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;

-- an index on a bytea column that files are looked up in
CREATE INDEX ON op_plain USING hash (plain securefile_bytea_hash_ops);
SET enable_seqscan = off;
SELECT plan_has($$SELECT id FROM op_plain WHERE plain = '\x41'::securefile$$, 'Index Cond');
SELECT DISTINCT p.id FROM op_index i JOIN op_plain p ON p.plain = i.document WHERE i.id > 395 ORDER BY 1;
RESET enable_seqscan;

-- joins of bytea alone are PostgreSQL's own affair
SELECT m.amname, f.opfname FROM pg_amop a JOIN pg_opfamily f ON f.oid = amopfamily JOIN pg_am m ON m.oid = opfmethod
WHERE amopopr = '=(bytea,bytea)'::regoperator AND m.amname IN ('btree', 'hash') ORDER BY 1;

-- hash partitions: a bytea leads to the one that has it, now and at run time
CREATE TABLE op_parts (document securefile) PARTITION BY HASH (document);
CREATE TABLE op_parts0 PARTITION OF op_parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE op_parts1 PARTITION OF op_parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO op_parts SELECT noise(i, 10) FROM generate_series(1, 20) i;
SELECT plan_has('SELECT FROM op_parts WHERE document = noise(1, 10)', 'op_parts0') <> plan_has('SELECT FROM op_parts WHERE document = noise(1, 10)', 'op_parts1') AS one;
SELECT count(*) FROM generate_series(1, 20) i WHERE EXISTS (SELECT FROM op_parts WHERE document = noise(i, 10));
PREPARE part(bytea) AS SELECT count(*) FROM op_parts WHERE document = $1;
SET plan_cache_mode = force_generic_plan;
SELECT plan_has('EXECUTE part(noise(1, 10))', 'Removed: 1');
EXECUTE part(noise(1, 10));
RESET plan_cache_mode;
DEALLOCATE part;

-- what an expression is resolved to: an operator of ours where a securefile is in it,
-- all others as ever
CREATE DOMAIN op_file AS securefile;
CREATE DOMAIN op_bytes AS bytea;
CREATE TABLE op_types (d securefile, b bytea, f op_file, n op_bytes, t text);
INSERT INTO op_types VALUES ('\x41', '\x41', '\x41', '\x41', 'A');
CREATE TABLE op_expressions (n serial, e text);
COPY op_expressions (e) FROM STDIN;
d = '\\x41'
'\\x41' = d
d = b
b = d
f = '\\x41'
f = b
d = n
n <> d
f = d
f <> n
d = NULL
b = '\\x41'
b = b
n = n
b <> n
t = '\\x41'
'\\x41' = '\\x41'
d || '\\x41'
'\\x41' || d
d || b
b || d
f || n
d || d
d || NULL
d || t
b || b
b || '\\x41'
n || n
'x' || '\\x41'
t || 'x'
'x' || t
d IN ('\\x41', '\\x42')
d IN (b, n)
d IN (d, '\\x41')
d = ANY (ARRAY[b])
d <> ALL (ARRAY[b])
d = ANY ('{}')
d IS DISTINCT FROM b
d IS NOT DISTINCT FROM '\\x41'
nullif(d, b)
(d, b) = (b, d)
(d, b) <> (d, d)
CASE d WHEN b THEN 1 WHEN '\\x42' THEN 2 END
d < b
d >= '\\x41'
(d, b) < (b, d)
d LIKE '\\x41'
d NOT LIKE b
position(b IN d)
overlay(d PLACING b FROM 1)
overlay(b PLACING '\\x42' FROM 1 FOR 1)
ARRAY[d] || d
d || ARRAY[d]
ARRAY[b] || ARRAY[b]
\.
CREATE FUNCTION resolved(e text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) SELECT ' || e || ' FROM public.op_types' LOOP
		IF line ~ 'Output' THEN
			RETURN replace(substring(line FROM 'Output: (.*)'), 'public.', '');
		END IF;
	END LOOP;
EXCEPTION WHEN OTHERS THEN
	RETURN sqlerrm;
END $$;
SELECT e, resolved(e) FROM op_expressions ORDER BY n;
SELECT e, resolved(e) AS here INTO TEMP op_here FROM op_expressions;
SET search_path = '';
SELECT e, here, public.resolved(e) FROM pg_temp.op_here WHERE here <> public.resolved(e);
RESET search_path;
SELECT d FROM op_types ORDER BY d;
SELECT t FROM op_types WHERE (d, t) IN (SELECT b, t FROM op_types) AND (b, t) NOT IN (SELECT d, 'B' FROM op_types);

-- the catalogs are as those of PostgreSQL's own operators
SELECT opcname, amvalidate(oid) FROM pg_opclass WHERE opcname LIKE 'securefile%' ORDER BY 1;
CREATE TEMP VIEW op_ours AS SELECT o.* FROM pg_operator o JOIN pg_depend d ON d.classid = 'pg_operator'::regclass AND d.objid = o.oid
	AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'securefile';
SELECT oid::regoperator, oprnamespace::regnamespace AS schema, oprcom::regoperator, oprnegate::regoperator, oprrest, oprjoin, oprcanhash, oprcanmerge
FROM op_ours ORDER BY oid::regoperator::text COLLATE "C";
SELECT o.oid::regoperator AS wrong FROM op_ours o
	LEFT JOIN pg_operator c ON c.oid = o.oprcom LEFT JOIN pg_operator n ON n.oid = o.oprnegate JOIN pg_proc p ON p.oid = o.oprcode
WHERE o.oprkind <> 'b' OR p.prorettype <> o.oprresult OR p.proargtypes[0] <> o.oprleft OR p.proargtypes[1] <> o.oprright
	OR c.oid IS NOT NULL AND (c.oprcom, c.oprleft, c.oprright, c.oprcanhash) IS DISTINCT FROM (o.oid, o.oprright, o.oprleft, o.oprcanhash)
	OR n.oid IS NOT NULL AND (n.oprnegate, n.oprleft, n.oprright) IS DISTINCT FROM (o.oid, o.oprleft, o.oprright)
	OR o.oprcanhash <> EXISTS (SELECT FROM pg_amop WHERE amopopr = o.oid AND (amoplefttype, amoprighttype) = (o.oprleft, o.oprright)
		AND amopmethod = (SELECT oid FROM pg_am WHERE amname = 'hash'))
	OR o.oprresult = 'boolean'::regtype AND (c.oid IS NULL OR 0 IN (o.oprrest, o.oprjoin))
	OR obj_description(o.oid, 'pg_operator') IS NULL
	OR p.provolatile <> CASE WHEN 'securefile'::regtype IN (o.oprleft, o.oprright) AND o.oprname <> '||' THEN 's' ELSE 'i' END OR NOT p.proisstrict;

DROP TABLE op_values, op_read, op_index, op_plain, op_parts, op_types, op_expressions;
DROP DOMAIN op_file, op_bytes;
DROP FUNCTION noise, plan_has, reads, resolved;
