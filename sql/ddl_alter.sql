-- ALTER TABLE and securefile_rewrite()
\getenv inputdir PG_ABS_SRCDIR
\set preamble :inputdir '/sql/ddl_preamble.sql'
\i :preamble


-- stored: the row holds a locator (small) for a large value
CREATE FUNCTION is_stored(d securefile) RETURNS boolean LANGUAGE sql AS
$$ SELECT pg_column_size(d) < 1000 AND length(d) > 1000 $$;

-- bytea to securefile and back
CREATE TABLE t (id int PRIMARY KEY, d bytea);
INSERT INTO t VALUES (1, big('1')::bytea), (2, 'small'), (3, NULL);
ALTER TABLE t ALTER d TYPE securefile;
SELECT * FROM ddl_state;
SELECT id, is_big(d, '1'), is_stored(d) FROM t ORDER BY 1;
SELECT securefile_rewrite('t', 'd');
SELECT id, is_big(d, '1'), is_stored(d) FROM t ORDER BY 1;
ALTER TABLE t ALTER d TYPE bytea;
SELECT * FROM ddl_state;
SELECT id, d = big('1')::bytea FROM t ORDER BY 1;
SELECT segments();
ALTER TABLE t ALTER d TYPE securefile USING d::securefile;
SELECT id, is_big(d, '1'), is_stored(d) FROM t ORDER BY 1;

-- other rewrites leave stored values where they are
SELECT relfilenode AS seg_before FROM pg_class WHERE relname LIKE 'pg\_securefile\_%' \gset
ALTER TABLE t ALTER id TYPE bigint;
ALTER TABLE t ADD x int DEFAULT random();
ALTER TABLE t SET (fillfactor = 50), ALTER x SET NOT NULL, DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id);
SELECT relfilenode = :seg_before AS same_segment FROM pg_class WHERE relname LIKE 'pg\_securefile\_%';
SELECT id, is_big(d, '1'), is_stored(d) FROM t ORDER BY 1;

-- options: no rewrite, values follow later
SELECT relfilenode AS heap_before FROM pg_class WHERE oid = 't'::regclass \gset
ALTER TABLE t ALTER d TYPE securefile(cache, disable_storage_in_row);
\d t
SELECT relfilenode = :heap_before AS same_heap FROM pg_class WHERE oid = 't'::regclass;
UPDATE t SET d = big('2', 2000) WHERE id = 2;
SELECT id, length(d), is_stored(d) FROM t ORDER BY 1;
ALTER TABLE t ALTER d TYPE securefile;
SELECT id, length(d), is_stored(d) FROM t ORDER BY 1;
SELECT securefile_rewrite('t', 'd');
SELECT id, length(d), is_stored(d), is_big(d, '1') OR is_big(d, '2', 2000) FROM t ORDER BY 1;

-- the logging mode: not while values are stored
ALTER TABLE t ALTER d TYPE securefile(filesystem_like_logging);
SELECT securefile_rewrite('t', 'd', logging => 'filesystem_like_logging');
\d t
SELECT id, is_stored(d), is_big(d, '1') OR is_big(d, '2', 2000) FROM t ORDER BY 1;
SELECT * FROM ddl_state;
SELECT segments();
SELECT securefile_rewrite('t', 'd', logging => 'filesystem_like_logging');	-- nothing to swap
SELECT securefile_rewrite('t', 'd', logging => 'sometimes');
BEGIN;
SELECT securefile_rewrite('t', 'd', logging => 'logging');
SELECT id, is_big(d, '1') OR is_big(d, '2', 2000) FROM t ORDER BY 1;
UPDATE t SET d = big('3') WHERE id = 3;
ROLLBACK;
SELECT id, is_big(d, '1') OR is_big(d, '2', 2000) FROM t ORDER BY 1;
SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'd';
DELETE FROM t;
ALTER TABLE t ALTER d TYPE securefile(logging, nocache);
INSERT INTO t VALUES (1, big('again'), 0);
SELECT is_big(d, 'again') FROM t;
DROP TABLE t;

-- securefile_rewrite: whom, what, and what it leaves alone
CREATE TABLE t (id int PRIMARY KEY, d securefile, n bigint GENERATED ALWAYS AS (length(d)) STORED, touched int DEFAULT 0);
CREATE INDEX ON t (length(d));
INSERT INTO t SELECT g, big(g::text) FROM generate_series(1, 20) g;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.touched := NEW.touched + 1; RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION touch();
CREATE RULE nope AS ON UPDATE TO t DO INSTEAD NOTHING;
ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT securefile_rewrite('t', 'd');
SELECT securefile_rewrite('t', 'd', 'filesystem_like_logging');
SELECT count(*), sum(touched), bool_and(is_big(d, id::text)), bool_and(n = length(d)) FROM t;
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE length(d) = 20000;
RESET enable_seqscan;
CREATE ROLE regress_sf_other;
GRANT ALL ON t TO regress_sf_other;
SET ROLE regress_sf_other;
SELECT securefile_rewrite('t', 'd');
RESET ROLE;
SELECT securefile_rewrite('t', 'id');
SELECT securefile_rewrite('t', 'nix');
SELECT securefile_rewrite('t_pkey', 'id');
SELECT securefile_rewrite(NULL, 'id');
SELECT securefile_rewrite(1::oid, 'id');
SELECT securefile_rewrite('t', 'd') FROM t LIMIT 1;
BEGIN READ ONLY;
SELECT securefile_rewrite('t', 'd');
ROLLBACK;
DROP TABLE t;
DROP FUNCTION touch;
REVOKE ALL ON SCHEMA public FROM regress_sf_other;
DROP ROLE regress_sf_other;

-- of a whole tree
CREATE TABLE p (id int, d securefile) PARTITION BY LIST (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
INSERT INTO p VALUES (1, big('1')), (2, big('2'));
SELECT securefile_rewrite('p1', 'd', 'filesystem_like_logging');
SELECT securefile_rewrite('p1', 'd');
SELECT securefile_rewrite('p', 'd', 'filesystem_like_logging');
SELECT attrelid::regclass, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid::regclass::text IN ('p', 'p1', 'p2') AND attname = 'd' ORDER BY attrelid::regclass::text;
CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3);
SELECT id, is_big(d, id::text) FROM p ORDER BY 1;
SELECT * FROM ddl_state ORDER BY tab, col;
DROP TABLE p;
CREATE DOMAIN doc AS securefile;
CREATE TABLE dom (d doc);
INSERT INTO dom VALUES (big('dom'));
SELECT securefile_rewrite('dom', 'd', 'filesystem_like_logging');
SELECT securefile_rewrite('dom', 'd');
SELECT is_big(d, 'dom') FROM dom;
ALTER TABLE dom ALTER d TYPE securefile;
SELECT is_big(d, 'dom') FROM dom;
DROP TABLE dom;
DROP DOMAIN doc;

-- SET LOGGED, SET UNLOGGED
CREATE UNLOGGED TABLE u (id int, d securefile);
INSERT INTO u VALUES (1, big('u'));
ALTER TABLE u SET LOGGED;
SELECT * FROM ddl_state;
SELECT is_big(d, 'u'), is_stored(d) FROM u;
ALTER TABLE u SET UNLOGGED;
SELECT is_big(d, 'u'), is_stored(d) FROM u;
DELETE FROM u;
ALTER TABLE u SET UNLOGGED;
SELECT * FROM ddl_state;
INSERT INTO u VALUES (1, big('u'));
SELECT is_big(d, 'u'), is_stored(d) FROM u;
SELECT securefile_rewrite('u', 'd');
DROP TABLE u;

-- columns come and go
CREATE TABLE t (id int);
INSERT INTO t VALUES (1);
ALTER TABLE t ADD d securefile DEFAULT 'constant';
SELECT id, d::bytea FROM t;
ALTER TABLE t ADD e securefile DEFAULT big('e');
SELECT is_big(e, 'e'), is_stored(e) FROM t;
INSERT INTO t (id) VALUES (2);
SELECT id, is_big(e, 'e'), is_stored(e) FROM t ORDER BY 1;
SELECT * FROM ddl_state ORDER BY 2;
-- a constant that is too large for a row is in none
ALTER TABLE t ADD f securefile DEFAULT repeat('f', 5000)::bytea, ADD g securefile DEFAULT repeat('g', 4000)::bytea;
SET client_min_messages = notice;
ALTER TABLE t ADD h securefile(disable_storage_in_row) DEFAULT 'h';
SET client_min_messages = warning;
UPDATE t SET id = id WHERE id = 1;
SELECT id, is_stored(f) AS f, length(f), pg_column_size(h) > 10 AS h, h::bytea FROM t ORDER BY 1;
SELECT securefile_rewrite('t', 'f'), securefile_rewrite('t', 'h');
SELECT id, is_stored(f) AS f, pg_column_size(h) > 10 AS h, h::bytea FROM t ORDER BY 1;
ALTER TABLE t DROP f, DROP g, DROP h;
ALTER TABLE t DROP d;
SELECT * FROM ddl_state ORDER BY 2;
BEGIN;
ALTER TABLE t DROP e;
SELECT segments();
ROLLBACK;
SELECT id, is_big(e, 'e') FROM t ORDER BY 1;
ALTER TABLE t ALTER e TYPE text USING encode(substring(e from 1 for 3), 'escape');
SELECT * FROM ddl_state;
SELECT * FROM t ORDER BY 1;
SELECT segments();
DROP TABLE t;

-- expressions of ALTER TABLE must not smuggle stored values
CREATE TABLE t (id int, a securefile, b securefile, c bytea);
INSERT INTO t VALUES (1, big('a'), big('b'), 'c'), (2, 'a', 'b', 'c');
CREATE FUNCTION get_a() RETURNS securefile LANGUAGE sql VOLATILE AS 'SELECT a FROM t WHERE id = 1';
CREATE FUNCTION get_a_stable() RETURNS securefile LANGUAGE sql STABLE AS 'SELECT a FROM t WHERE id = 1';
ALTER TABLE t ALTER b TYPE securefile USING a;
ALTER TABLE t ALTER c TYPE securefile USING a;
ALTER TABLE t ADD x securefile DEFAULT get_a();
CREATE TABLE t2 (id int);
INSERT INTO t2 VALUES (1);
ALTER TABLE t2 ADD x securefile DEFAULT get_a();
ALTER TABLE t2 ADD x securefile DEFAULT get_a_stable();
ALTER TABLE t2 ADD x securefile DEFAULT get_a()::bytea;
SELECT id, is_big(x, 'a') FROM t2;
ALTER TABLE t ALTER b TYPE securefile USING CASE id WHEN 1 THEN b END;
ALTER TABLE t ALTER b TYPE securefile(nocache) USING b;
SELECT id, is_big(a, 'a'), is_big(b, 'b') FROM t ORDER BY 1;
-- all new and INLINE: the segment starts afresh
ALTER TABLE t ALTER b TYPE securefile USING a::bytea::securefile;
SELECT id, is_big(a, 'a'), is_big(b, 'a'), is_stored(b) FROM t ORDER BY 1;
-- but from another type they are copied, as by INSERT
SELECT id, is_big(c, 'a'), is_stored(c) FROM t ORDER BY 1;
UPDATE t SET a = NULL;
SELECT id, is_big(c, 'a') FROM t ORDER BY 1;
SELECT * FROM securefile_check('t', 'c');
ALTER TABLE t ALTER c TYPE bytea, ALTER b TYPE bytea;
ALTER TABLE t ALTER c TYPE securefile USING b::securefile || c, ALTER b TYPE securefile(disable_storage_in_row) USING substr(b, 1, 5);
SELECT id, length(c), is_stored(c), length(b), pg_column_size(b) > 10 AS b_stored FROM t ORDER BY 1;
SELECT * FROM securefile_check('t', 'b');
SELECT * FROM securefile_check('t', 'c');
-- messages are those of PostgreSQL
CREATE TABLE other (n int, x text);
INSERT INTO other VALUES (1, 'x');
ALTER TABLE other ALTER x TYPE securefile;
ALTER TABLE other ALTER x TYPE securefile USING x;
ALTER TABLE other ALTER x TYPE securefile USING nix;
ALTER TABLE other ALTER nix TYPE securefile;
ALTER TABLE IF EXISTS nix ALTER x TYPE securefile USING x::bytea;
ALTER TABLE other ALTER x TYPE securefile USING convert_to(x, 'UTF8');
SELECT n, x::bytea FROM other;
DROP TABLE other;
-- a literal has no type before it gets that of the column
CREATE TABLE literal (id int, a securefile, b securefile(disable_storage_in_row), c securefile);
INSERT INTO literal VALUES (1, 'a', 'a', big('a')), (2, NULL, 'b', NULL);
ALTER TABLE literal ALTER a TYPE securefile USING 'x', ALTER b TYPE securefile USING 'y', ALTER c TYPE securefile USING NULL;
SELECT id, a, b, length(c) FROM literal ORDER BY 1;
ALTER TABLE literal ALTER a TYPE securefile(disable_storage_in_row) USING 'z';
SELECT id, a, pg_column_size(a) > 10 AS stored FROM literal ORDER BY 1;
SELECT * FROM securefile_check('literal', 'a');
ALTER TABLE literal ALTER a TYPE bytea USING 'v', ALTER b TYPE text USING 'w' COLLATE "C", ALTER c TYPE int USING '1';
SELECT * FROM literal ORDER BY 1;
ALTER TABLE literal ALTER a TYPE securefile USING 'x', ALTER b TYPE securefile USING NULL;
SELECT * FROM literal ORDER BY 1;
\set VERBOSITY sqlstate
ALTER TABLE literal ALTER a TYPE int USING 'x';
\set VERBOSITY default
ALTER TABLE literal ALTER a TYPE securefile USING NULL, ALTER a SET NOT NULL;
DROP TABLE literal;
SELECT * FROM ddl_state ORDER BY tab, col;
DROP TABLE t, t2;
DROP FUNCTION get_a, get_a_stable;

-- a retention does not keep values in rows: a NOTICE where a column gets one, or another one
SET client_min_messages = notice;
CREATE TABLE kept (id serial PRIMARY KEY, d securefile('retention 7 days', 'max_size 1 GB'), other securefile(cache), UNIQUE (id));
CREATE INDEX ON kept (length(d));
ALTER TABLE kept ADD x int DEFAULT 1, ALTER d SET NOT NULL, ALTER other TYPE securefile('max_size 1 GB');
ALTER TABLE kept ALTER id TYPE bigint;
ALTER TABLE kept ALTER d TYPE securefile('retention 1 week', 'max_size 2 GB', cache);
ALTER TABLE kept ALTER d TYPE securefile('retention 1 hour', 'max_size 2 GB');
ALTER TABLE kept ALTER d TYPE securefile(disable_storage_in_row, 'retention 2 hours', 'max_size 2 GB');
ALTER TABLE kept ALTER d TYPE securefile('retention 2 hours', 'max_size 2 GB');
ALTER TABLE kept ALTER d TYPE securefile, ADD y securefile(disable_storage_in_row, 'retention 2 hours', 'max_size 2 GB');
ALTER TABLE kept ADD z securefile('retention 2 hours', 'max_size 2 GB'), ALTER d TYPE bytea;
ALTER TABLE kept ALTER d TYPE securefile('retention 2 hours', 'max_size 2 GB'), DROP z;
CREATE TABLE kept_like (LIKE kept);
CREATE TABLE kept_as AS SELECT d, y FROM kept;
CREATE TEMP TABLE kept_temp AS SELECT d FROM kept;
CREATE UNLOGGED TABLE kept_unlogged AS SELECT y FROM kept;
SELECT securefile_set_max_size('kept', 'd', '3 GB');
SELECT securefile_set_max_size('kept', 'd', 'none');
SELECT securefile_set_max_size('kept_temp', 'd', 'none');
SELECT securefile_rewrite('kept', 'd', 'filesystem_like_logging');
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'kept'::regclass AND attname IN ('d', 'y') ORDER BY 1;
SELECT attname, options FROM securefile_columns WHERE relname = 'kept' ORDER BY 1;
VACUUM FULL kept;
TRUNCATE kept;
DROP TABLE kept, kept_like, kept_as, kept_temp, kept_unlogged;
-- of a tree the parent tells
CREATE TABLE kept (id int, d securefile('retention 7 days', 'max_size 1 GB')) PARTITION BY LIST (id);
CREATE TABLE kept_1 PARTITION OF kept FOR VALUES IN (1);
CREATE TABLE kept_2 PARTITION OF kept FOR VALUES IN (2) PARTITION BY LIST (id);
CREATE TABLE kept_22 PARTITION OF kept_2 DEFAULT;
CREATE TABLE kept_3 (id int, d securefile('retention 8 days', 'max_size 1 GB'));
ALTER TABLE kept ATTACH PARTITION kept_3 FOR VALUES IN (3);
ALTER TABLE kept_3 ALTER d TYPE securefile('retention 1 week', 'max_size 1 GB');
ALTER TABLE kept ATTACH PARTITION kept_3 FOR VALUES IN (3);
ALTER TABLE kept ALTER d TYPE securefile('retention 2 days', 'max_size 1 GB');
ALTER TABLE kept ADD e securefile('retention 2 days', 'max_size 1 GB');
SELECT securefile_set_max_size('kept', 'd', 'none');
DROP TABLE kept;
-- types that have it
CREATE DOMAIN kept_file AS securefile('retention 2 days', 'max_size 1 GB');
CREATE TYPE kept_row AS (d securefile('retention 2 days', 'max_size 1 GB'));
CREATE TABLE kept (d kept_file);
CREATE TABLE kept_typed OF kept_row;
ALTER TYPE kept_row ALTER ATTRIBUTE d TYPE securefile('retention 3 days', 'max_size 1 GB') CASCADE;
ALTER TABLE kept ALTER d TYPE securefile('retention 2 days', 'max_size 1 GB');
DROP TABLE kept, kept_typed;
DROP TYPE kept_row, kept_file;
SET client_min_messages = warning;

SELECT segments();
DROP FUNCTION is_stored;
DROP FUNCTION segments, big, is_big;
DROP VIEW ddl_state;
