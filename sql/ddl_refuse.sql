-- what is refused, and what it says
\getenv inputdir PG_ABS_SRCDIR
\set preamble :inputdir '/sql/ddl_preamble.sql'
\i :preamble


CREATE TABLE t (id int PRIMARY KEY, d securefile);
INSERT INTO t VALUES (1, big('t'));

-- a stored value must be a column of its own
CREATE TABLE r (a securefile[]);
CREATE TABLE r (a int, b securefile(cache)[][]);
ALTER TABLE t ADD a securefile[];
ALTER TABLE t ADD e securefile, ADD a securefile[];
CREATE TYPE comp AS (id int, d securefile);
CREATE TABLE r (c comp);
CREATE TABLE r (c comp[]);
CREATE TYPE comp2 AS (c comp);
CREATE TABLE r (c comp2);
CREATE DOMAIN compdom AS comp;
CREATE TABLE r (c compdom);
CREATE DOMAIN arrdom AS securefile[];
CREATE TABLE r (c arrdom);
CREATE TABLE r (c t);
CREATE TABLE r AS SELECT t AS c FROM t;
CREATE TABLE r AS SELECT array_agg(d) AS c FROM t;
CREATE TABLE r (id int) PARTITION BY LIST (id);
ALTER TABLE r ADD a securefile[];
DROP TABLE r;
-- also when the row type is in use already
CREATE TABLE plain (id int);
CREATE TABLE uses (p plain);
ALTER TABLE plain ADD d securefile;
DROP TABLE uses;
CREATE TABLE uses (p plain[]);
ALTER TABLE plain ADD d securefile;
DROP TABLE uses, plain;
CREATE TYPE ct AS (id int);
CREATE TABLE uses (c ct);
ALTER TYPE ct ADD ATTRIBUTE d securefile;
DROP TABLE uses;
-- passing them around is fine
SELECT length((r).d) FROM (SELECT t AS r FROM t) s;
SELECT length(a[1]) FROM (SELECT array_agg(d) AS a FROM t) s;
DROP TYPE comp2, ct;
DROP DOMAIN compdom, arrdom;
DROP TYPE comp;
CREATE TYPE rng AS RANGE (subtype = securefile);

-- rows without row triggers
CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
CREATE MATERIALIZED VIEW m AS SELECT id, d::bytea AS d FROM t;
SELECT length(d) FROM m;
DROP MATERIALIZED VIEW m;
CREATE VIEW v AS SELECT * FROM t;
INSERT INTO v VALUES (2, big('v'));
SELECT id, is_big(d, 'v') FROM v ORDER BY 1;
DROP VIEW v;
CREATE TABLE g (a bytea, b securefile GENERATED ALWAYS AS (a::securefile) STORED);
CREATE TABLE g (a securefile, b bigint GENERATED ALWAYS AS (length(a)) STORED);
INSERT INTO g VALUES (big('g'));
SELECT b FROM g;
ALTER TABLE g ADD c securefile GENERATED ALWAYS AS ('x'::bytea::securefile) STORED;
DROP TABLE g;

-- no ordering, hence no index on it
CREATE INDEX ON t (d);

-- the access method is not for use by hand
CREATE TABLE h (a int) USING securefile_segment;
CREATE MATERIALIZED VIEW h USING securefile_segment AS SELECT 1;
CREATE TABLE h USING securefile_segment AS SELECT 1 AS a;
ALTER TABLE t SET ACCESS METHOD securefile_segment;
SET default_table_access_method = securefile_segment;
CREATE TABLE h (a int);
CREATE TEMP TABLE h (a int);
CREATE UNLOGGED TABLE h (a securefile);
RESET default_table_access_method;

-- the trigger functions serve our triggers only
CREATE TRIGGER mine BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION securefile_store('2');
INSERT INTO t VALUES (3, 'x');
DROP TRIGGER mine ON t;
CREATE TRIGGER mine AFTER DELETE ON t FOR EACH ROW EXECUTE FUNCTION securefile_account('2');
DELETE FROM t;
DROP TRIGGER mine ON t;
CREATE TRIGGER mine BEFORE TRUNCATE ON t EXECUTE FUNCTION securefile_truncate('2');
TRUNCATE t;
DROP TRIGGER mine ON t;
SELECT securefile_store();
CREATE EVENT TRIGGER mine ON sql_drop EXECUTE FUNCTION securefile_ddl_command_end();
DROP EVENT TRIGGER mine;
CREATE ROLE regress_sf_user;
GRANT ALL ON t TO regress_sf_user;
SET ROLE regress_sf_user;
CREATE TRIGGER mine AFTER DELETE ON t FOR EACH ROW EXECUTE FUNCTION securefile_account('2');
RESET ROLE;
DROP OWNED BY regress_sf_user;
DROP ROLE regress_sf_user;

-- nor can they be taken away
SELECT tgname AS trg FROM pg_trigger WHERE tgrelid = 't'::regclass AND tgname LIKE '~securefile_store%' \gset
CREATE TEMP TABLE tt (d securefile);
SELECT tgname AS temp_trg FROM pg_trigger WHERE tgrelid = 'tt'::regclass \gset
\set VERBOSITY sqlstate
DROP TRIGGER :"trg" ON t;
DROP TRIGGER :"trg" ON t CASCADE;
DROP TRIGGER :"temp_trg" ON tt;
ALTER TRIGGER :"trg" ON t RENAME TO abc;
ALTER TRIGGER :"temp_trg" ON tt RENAME TO abc;
ALTER TRIGGER :"trg" ON t DEPENDS ON EXTENSION plpgsql;
DROP TRIGGER IF EXISTS "~securefile_nothing" ON t;
DROP TRIGGER "~securefile_nothing" ON t;
DROP FUNCTION securefile_store();
DROP FUNCTION securefile_store() CASCADE;
DROP ACCESS METHOD securefile_segment CASCADE;
DROP EVENT TRIGGER securefile_ddl;
\set VERBOSITY default
DROP TABLE tt;
SELECT * FROM ddl_state;

-- pg_repack would lose the values
CREATE SCHEMA repack;
CREATE TABLE repack.table_1 AS SELECT * FROM t;	-- just a name
DROP SCHEMA repack CASCADE;

-- databases: data files do not follow a copy, so no copy
SELECT current_database() AS db \gset
\set VERBOSITY sqlstate
CREATE DATABASE regress_sf_copy TEMPLATE :"db";
CREATE DATABASE regress_sf_copy TEMPLATE :"db" STRATEGY file_copy;
ALTER DATABASE :"db" SET TABLESPACE pg_default;
\set VERBOSITY default
CREATE DATABASE regress_sf_other TEMPLATE template0;
\c regress_sf_other
CREATE EXTENSION securefile;
CREATE TABLE t (d securefile);
INSERT INTO t SELECT repeat('x', 100000)::bytea;
SELECT oid AS other FROM pg_database WHERE datname = current_database() \gset
\c :db
SET client_min_messages = warning;
CREATE DATABASE regress_sf_copy TEMPLATE regress_sf_other;
SELECT count(*) FROM pg_tablespace s, pg_ls_dir('pg_securefile/' || s.oid, true, false) f WHERE f = :'other';
DROP DATABASE regress_sf_other;
SELECT count(*) FROM pg_tablespace s, pg_ls_dir('pg_securefile/' || s.oid, true, false) f WHERE f = :'other';
DROP DATABASE IF EXISTS regress_sf_other;
CREATE DATABASE regress_sf_other TEMPLATE template0;
\c regress_sf_other
CREATE EXTENSION securefile;
CREATE TABLE t (d securefile);
DROP TABLE t;
\c :db
SET client_min_messages = warning;
CREATE DATABASE regress_sf_copy TEMPLATE regress_sf_other;
DROP DATABASE regress_sf_copy;
DROP DATABASE regress_sf_other;

-- attributes of composite types, and indexes whose values ANALYZE would keep
CREATE TYPE sf_comp AS (a bytea, b int);
ALTER TYPE sf_comp ALTER ATTRIBUTE a TYPE securefile;
ALTER TYPE sf_comp ALTER ATTRIBUTE b TYPE bigint;
ALTER TYPE sf_comp ADD ATTRIBUTE c securefile;
ALTER TYPE sf_comp ALTER ATTRIBUTE c TYPE bytea CASCADE;
ALTER TYPE sf_comp DROP ATTRIBUTE c;
DROP TYPE sf_comp;
CREATE TABLE ix (id int, d securefile);
CREATE INDEX ON ix USING hash ((ARRAY[d]));
CREATE INDEX ON ix USING hash (d);
CREATE INDEX ON ix (length(d));
CREATE INDEX ON ix USING hash ((d || '\x00'));
CREATE INDEX ON ix (length(overlay(d PLACING '\x00' FROM 1)));
CREATE INDEX ON ix (length('\x00' || (d || d)));
CREATE INDEX ON ix (id) WHERE length(securefile_truncate(d, 5)) > 3;
CREATE INDEX ON ix (id) WHERE length('\x00'::bytea || '\x01'::bytea || substring('\x02'::bytea FROM id)) > 3;
CREATE STATISTICS ix_array ON (ARRAY[d]) FROM ix;
CREATE STATISTICS ix_array ON (ARRAY[d::bytea]) FROM ix;
CREATE STATISTICS ix_length ON (length(d)) FROM ix;
DROP TABLE ix;

DROP TABLE t;
SELECT segments();
DROP FUNCTION segments, big, is_big;
DROP VIEW ddl_state;
