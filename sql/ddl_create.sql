-- segments and triggers come and go with tables and columns
\getenv inputdir PG_ABS_SRCDIR
\set preamble :inputdir '/sql/ddl_preamble.sql'
\i :preamble

SELECT segments();

-- ordinary table; the segment's properties
CREATE TABLE t (id int PRIMARY KEY, a securefile, b securefile(filesystem_like_logging));
SELECT * FROM ddl_state ORDER BY tab, col;
SELECT c.relkind, c.relpersistence, m.amname, n.nspname, c.relowner = 10 AS bootstrap_owner,
	   c.reltablespace, c.relfrozenxid::text::bigint >= 3 AS frozenxid
FROM pg_class c JOIN pg_am m ON m.oid = c.relam JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname LIKE 'pg\_securefile\_%';
SELECT d.deptype, d.refclassid::regclass, d.refobjsubid FROM pg_depend d JOIN pg_class c ON c.oid = d.objid
WHERE d.classid = 'pg_class'::regclass AND c.relname LIKE 'pg\_securefile\_%\_2' ORDER BY 2::text;

-- users' hands off
SELECT relname AS seg FROM pg_class WHERE relname LIKE 'pg\_securefile\_%\_2' \gset
\set VERBOSITY sqlstate
SELECT * FROM pg_toast.:seg;
INSERT INTO pg_toast.:seg VALUES ('x');
DELETE FROM pg_toast.:seg;
DROP TABLE pg_toast.:seg;
ALTER TABLE pg_toast.:seg RENAME TO x;
ALTER TABLE pg_toast.:seg SET (fillfactor = 50);
ALTER TABLE pg_toast.:seg OWNER TO current_user;
TRUNCATE pg_toast.:seg;
CREATE INDEX ON pg_toast.:seg (page);
VACUUM FULL pg_toast.:seg;
\set VERBOSITY default
VACUUM pg_toast.:seg;

-- everything that walks over relations leaves it alone
INSERT INTO t VALUES (1, big('1a'), big('1b')), (2, 'small', NULL);
VACUUM FULL t;
CLUSTER t USING t_pkey;
REINDEX TABLE t;
ANALYZE t;
ALTER TABLE t RENAME TO t2;
ALTER TABLE t2 RENAME COLUMN a TO aa;
CREATE SCHEMA elsewhere;
ALTER TABLE t2 SET SCHEMA elsewhere;
SELECT id, is_big(aa, '1a'), is_big(b, '1b') FROM elsewhere.t2 ORDER BY 1;
CREATE ROLE regress_sf_owner;
ALTER TABLE elsewhere.t2 OWNER TO regress_sf_owner;
REASSIGN OWNED BY regress_sf_owner TO current_user;
DROP OWNED BY regress_sf_owner;
ALTER TABLE elsewhere.t2 OWNER TO regress_sf_owner;
SELECT * FROM ddl_state ORDER BY tab, col;
DROP OWNED BY regress_sf_owner;
DROP ROLE regress_sf_owner;
SELECT segments();
DROP SCHEMA elsewhere;

-- rolled back with their table
BEGIN;
CREATE TABLE t (a securefile);
INSERT INTO t VALUES (big('x'));
SELECT segments();
ROLLBACK;
SELECT segments();
BEGIN;
SAVEPOINT s;
CREATE TABLE t (a securefile);
INSERT INTO t VALUES (big('x'));
ROLLBACK TO s;
CREATE TABLE t (a securefile);
INSERT INTO t VALUES (big('y'));
SAVEPOINT s2;
DROP TABLE t;
ROLLBACK TO s2;
COMMIT;
SELECT is_big(a, 'y') FROM t;
SELECT segments();
BEGIN;
INSERT INTO t VALUES (big('z'));
DROP TABLE t;
COMMIT;
SELECT segments();
BEGIN;
CREATE TABLE t (a securefile);
INSERT INTO t VALUES (big('x'));
DROP TABLE t;
COMMIT;
SELECT segments();

-- partitions: leaves only
CREATE TABLE p (id int, d securefile) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY LIST (id);
CREATE TABLE p21 PARTITION OF p2 DEFAULT;
CREATE TABLE p3 (d securefile, id int);
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30);
SELECT * FROM ddl_state ORDER BY tab, col;
INSERT INTO p VALUES (1, big('1')), (11, big('11')), (21, big('21'));
UPDATE p SET id = 22 WHERE id = 1;
UPDATE p SET id = 12, d = big('12') WHERE id = 22;
SELECT tableoid::regclass, id, is_big(d, CASE id WHEN 12 THEN '12' ELSE id::text END) FROM p ORDER BY 2;
ALTER TABLE p DETACH PARTITION p3;
SELECT id, is_big(d, '21') FROM p3;
ALTER TABLE p ADD COLUMN e securefile(disable_storage_in_row);
SELECT * FROM ddl_state ORDER BY tab, col;
TRUNCATE p;
SELECT count(*) FROM p;
ALTER TABLE p DROP COLUMN d;
SELECT * FROM ddl_state ORDER BY tab, col;
DROP TABLE p, p3;
SELECT segments();

-- inheritance, LIKE, typed tables, schema elements, DO, functions
CREATE TABLE par (id int, d securefile);
CREATE TABLE chi (x int) INHERITS (par);
CREATE TABLE lik (LIKE par INCLUDING ALL);
ALTER TABLE par ADD COLUMN e securefile;
CREATE TYPE rowt AS (id int, d securefile);
CREATE TABLE typed OF rowt;
CREATE SCHEMA sch CREATE TABLE insch (d securefile) CREATE VIEW insv AS SELECT d FROM insch;
DO $$ BEGIN CREATE TABLE indo (d securefile); END $$;
SELECT * FROM ddl_state ORDER BY tab, col;
ALTER TYPE rowt ADD ATTRIBUTE e securefile CASCADE;
ALTER TYPE rowt DROP ATTRIBUTE d CASCADE;
SELECT * FROM ddl_state WHERE tab = 'typed';
DROP TABLE par, chi, lik, typed, indo;
DROP SCHEMA sch CASCADE;
DROP TYPE rowt;
SELECT segments();

-- domains
CREATE DOMAIN doc AS securefile(disable_storage_in_row) CHECK (length(VALUE) < 100000);
CREATE DOMAIN doc2 AS doc NOT NULL;
CREATE TABLE dom (id int, d doc2);
INSERT INTO dom VALUES (1, big('dom'));
INSERT INTO dom VALUES (2, big('dom', 200000));
SELECT id, is_big(d, 'dom') FROM dom;
SELECT * FROM ddl_state;
DROP DOMAIN doc CASCADE;
SELECT segments();
DROP TABLE dom;

-- temporary and unlogged tables keep the bytes in the row
CREATE TABLE src (id int, d securefile);
INSERT INTO src VALUES (1, big('src')), (2, 'tiny');
CREATE TEMP TABLE tmp (id int, d securefile);
CREATE UNLOGGED TABLE unl (id int, d securefile);
SELECT tab, segment, triggers FROM ddl_state WHERE tab <> 'src' ORDER BY 1;
INSERT INTO tmp SELECT * FROM src;
INSERT INTO unl SELECT * FROM src;
DELETE FROM src;
SELECT id, length(d), pg_column_size(d) > 100 FROM tmp UNION ALL SELECT id, length(d), pg_column_size(d) > 100 FROM unl ORDER BY 1;
SELECT bool_and(is_big(d, 'src')) FROM (SELECT * FROM tmp UNION ALL SELECT * FROM unl) u WHERE id = 1;
UPDATE unl SET d = big('new') WHERE id = 1;
SELECT is_big(d, 'new') FROM unl WHERE id = 1;
SELECT segments();
TRUNCATE src;

-- CREATE TABLE AS and its relatives copy what they take
INSERT INTO src VALUES (1, big('src')), (2, 'tiny'), (3, NULL);
CREATE TABLE cta AS SELECT id, d FROM src;
SELECT id, d INTO sel FROM src;
PREPARE q AS SELECT id, d AS doc FROM src WHERE id < 3;
CREATE TABLE exe AS EXECUTE q;
CREATE TABLE nodata AS SELECT * FROM src WITH NO DATA;
CREATE TEMP TABLE ctt AS SELECT * FROM src;
CREATE UNLOGGED TABLE ctu AS SELECT * FROM src;
CREATE TABLE raw AS SELECT id, convert_to(repeat('r', 9000), 'SQL_ASCII')::securefile AS d FROM src;
DO $$ BEGIN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) CREATE TABLE exp AS SELECT * FROM src'; END $$;
SELECT * FROM ddl_state WHERE tab NOT IN ('src', 'tmp', 'unl') ORDER BY tab;
DELETE FROM src;
SELECT id, is_big(d, 'src') FROM cta ORDER BY 1;
SELECT id, is_big(d, 'src') FROM sel ORDER BY 1;
SELECT id, is_big(doc, 'src') FROM exe ORDER BY 1;
SELECT id, is_big(d, 'src') FROM ctt ORDER BY 1;
SELECT id, is_big(d, 'src') FROM ctu ORDER BY 1;
SELECT id, is_big(d, 'src') FROM exp ORDER BY 1;
SELECT DISTINCT length(d), pg_column_size(d) < 4000 AS stored FROM raw;
DROP TABLE src, tmp, unl, cta, sel, exe, nodata, ctt, ctu, raw, exp;

-- publications do not see segments, nor do they get in the way
SET client_min_messages = error;	-- wal_level may not suffice to publish
CREATE PUBLICATION regress_sf_pub FOR ALL TABLES;
CREATE TABLE src (id int, d securefile);
INSERT INTO src VALUES (1, big('src'));
CREATE TABLE cta AS SELECT * FROM src;
SELECT is_big(d, 'src') FROM cta;
SELECT tablename FROM pg_publication_tables WHERE pubname = 'regress_sf_pub' AND (tablename LIKE '%securefile%' OR tablename IN ('src', 'cta')) ORDER BY 1;
DROP PUBLICATION regress_sf_pub;
SET client_min_messages = warning;
DROP TABLE src, cta;

-- DROP EXTENSION takes columns and segments along, never a table
CREATE TABLE t (id int, d securefile);
INSERT INTO t VALUES (1, big('x'));
CREATE TEMP TABLE tmp (id int, d securefile);
\set VERBOSITY terse
DROP EXTENSION securefile;
\set VERBOSITY default
BEGIN;
DROP EXTENSION securefile CASCADE;
SELECT * FROM t;
SELECT count(*) FROM pg_class WHERE relname LIKE 'pg\_securefile\_%';
SELECT count(*) FROM pg_trigger WHERE tgname LIKE '~securefile%';
ROLLBACK;
SELECT id, is_big(d, 'x') FROM t;
DROP ACCESS METHOD securefile_segment;
DROP TABLE t, tmp;
SELECT segments();
DROP FUNCTION segments, big, is_big;
DROP VIEW ddl_state;
