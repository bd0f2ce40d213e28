-- the internal triggers: always on, and what they do with every kind of statement
\getenv inputdir PG_ABS_SRCDIR
\set preamble :inputdir '/sql/ddl_preamble.sql'
\i :preamble


CREATE TABLE t (id int PRIMARY KEY, d securefile, e securefile);

-- whatever is switched off comes back
ALTER TABLE t DISABLE TRIGGER ALL;
SELECT * FROM ddl_state ORDER BY 2;
ALTER TABLE t ENABLE TRIGGER ALL;
SELECT * FROM ddl_state ORDER BY 2;
ALTER TABLE t DISABLE TRIGGER USER;
SELECT tgname AS trg FROM pg_trigger WHERE tgrelid = 't'::regclass AND tgname LIKE '~securefile_account_2%' \gset
ALTER TABLE t DISABLE TRIGGER :"trg";
ALTER TABLE t ENABLE REPLICA TRIGGER :"trg", ADD x int;
SELECT * FROM ddl_state ORDER BY 2;
CREATE TABLE part (id int, d securefile) PARTITION BY LIST (id);
CREATE TABLE part1 PARTITION OF part DEFAULT;
ALTER TABLE part DISABLE TRIGGER ALL;
ALTER TABLE part1 DISABLE TRIGGER ALL;
SELECT * FROM ddl_state WHERE tab LIKE 'part%' ORDER BY tab, col;
DROP TABLE part;
CREATE TEMP TABLE tmp (d securefile);
ALTER TABLE tmp DISABLE TRIGGER ALL;
SELECT tab, triggers FROM ddl_state WHERE tab = 'tmp';
DROP TABLE tmp;

-- an owner switches off all of his own, unless somebody else's internal one is there
CREATE ROLE regress_sf_owner;
CREATE TABLE owned (id int UNIQUE, d securefile);
ALTER TABLE owned OWNER TO regress_sf_owner;
CREATE FUNCTION owned_mark() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.id := 77; RETURN NEW; END $$;
CREATE TRIGGER mark BEFORE INSERT ON owned FOR EACH ROW EXECUTE FUNCTION owned_mark();
SET ROLE regress_sf_owner;
ALTER TABLE owned DISABLE TRIGGER ALL;
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'owned'::regclass AND NOT tgisinternal;
DO $$ BEGIN FOR i IN 1 .. 2 LOOP
	ALTER TABLE IF EXISTS owned ENABLE TRIGGER ALL, ALTER id SET NOT NULL;
	ALTER TABLE IF EXISTS owned_not DISABLE TRIGGER ALL;
END LOOP; END $$;
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'owned'::regclass AND NOT tgisinternal;
ALTER TABLE t DISABLE TRIGGER ALL;
RESET ROLE;
SELECT * FROM ddl_state WHERE tab = 'owned';
INSERT INTO owned VALUES (1, big('owned'));
SELECT id, is_big(d, 'owned'), pg_column_size(d) < 1000 AS stored FROM owned;
CREATE TABLE owned_by (id int REFERENCES owned (id));
SET ROLE regress_sf_owner;
\set VERBOSITY sqlstate
ALTER TABLE owned DISABLE TRIGGER ALL;
\set VERBOSITY default
RESET ROLE;
ALTER TABLE owned DISABLE TRIGGER ALL;
SELECT tgenabled, count(*) FROM pg_trigger WHERE tgrelid = 'owned'::regclass GROUP BY 1 ORDER BY 1;
DROP TABLE owned_by, owned;
DROP FUNCTION owned_mark;
DROP ROLE regress_sf_owner;

-- nested in other commands, with event triggers off, in replica role
SET session_replication_role = replica;
CREATE TABLE rep (d securefile);
INSERT INTO rep VALUES (big('rep'));
SELECT is_big(d, 'rep'), pg_column_size(d) < 1000 AS stored FROM rep;
CREATE TABLE rep2 AS SELECT * FROM rep;
DELETE FROM rep;
SELECT is_big(d, 'rep') FROM rep2;
RESET session_replication_role;
SELECT * FROM ddl_state WHERE tab LIKE 'rep%' ORDER BY tab;
DROP TABLE rep, rep2;

-- a command inside a command must not act on a table half altered
CREATE TABLE half (id int, d securefile);
INSERT INTO half VALUES (1, big('half'));
CREATE FUNCTION nested() RETURNS event_trigger LANGUAGE plpgsql AS
$$ BEGIN CREATE TEMP TABLE nested_tmp (a securefile); DROP TABLE nested_tmp; END $$;
CREATE EVENT TRIGGER regress_sf_nested ON table_rewrite EXECUTE FUNCTION nested();
ALTER TABLE half ALTER d TYPE bytea, ADD e securefile DEFAULT big('e');
SELECT id, d = big('half')::bytea, is_big(e, 'e') FROM half;
DROP EVENT TRIGGER regress_sf_nested;
DROP FUNCTION nested;
SELECT * FROM ddl_state WHERE tab = 'half';
DROP TABLE half;

-- errors in between leave nothing behind
BEGIN;
SAVEPOINT s;
CREATE TABLE bad (a securefile, b securefile[]);
ROLLBACK TO s;
CREATE TABLE good (a securefile);
COMMIT;
DO $$
BEGIN
	FOR i IN 1..3 LOOP
		BEGIN
			EXECUTE 'CREATE TABLE bad (a securefile, b securefile[])';
		EXCEPTION WHEN feature_not_supported THEN NULL;
		END;
	END LOOP;
END $$;
SELECT segments();
DROP TABLE good;

-- every kind of statement, by contents
INSERT INTO t VALUES (1, big('1')), (2, big('2')), (3, 'small'), (4, NULL), (5, '');
INSERT INTO t VALUES (6, big('6'), big('6e'));
SELECT id, length(d), is_big(d, id::text), is_big(e, '6e') FROM t ORDER BY id;
UPDATE t SET x = 1;
UPDATE t SET d = (SELECT d FROM t WHERE id = 1) WHERE id = 2;
UPDATE t SET e = d WHERE id = 1;
UPDATE t SET d = e, e = d WHERE id = 6;
DELETE FROM t WHERE id = 3;
INSERT INTO t SELECT id + 10, d, e FROM t;
SELECT id, is_big(d, '1'), is_big(d, '6e'), is_big(e, '1'), is_big(e, '6') FROM t ORDER BY id;
DELETE FROM t WHERE id < 10;
SELECT id, is_big(d, '1'), is_big(d, '6e'), is_big(e, '1'), is_big(e, '6') FROM t ORDER BY id;
INSERT INTO t VALUES (11, big('no'), big('no')) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (11, big('yes'), big('no')) ON CONFLICT (id) DO UPDATE SET d = excluded.d, e = excluded.d;
SELECT id, is_big(d, 'yes'), is_big(e, 'yes') FROM t WHERE id = 11;
WITH ins AS (INSERT INTO t VALUES (21, big('21')) RETURNING d) INSERT INTO t SELECT 22, d, d FROM ins;
DELETE FROM t WHERE id = 21;
SELECT is_big(d, '21'), is_big(e, '21') FROM t WHERE id = 22;
MERGE INTO t USING (VALUES (22, big('m22')), (23, big('m23'))) s (id, d) ON t.id = s.id
	WHEN MATCHED THEN UPDATE SET d = s.d WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.d);
SELECT id, is_big(d, 'm' || id), is_big(e, '21') FROM t WHERE id IN (22, 23) ORDER BY 1;
TRUNCATE t;
COPY t (id, d) FROM stdin;
1	abc
2	\\x616263
\.
SELECT id, d::bytea FROM t ORDER BY 1;
COPY t TO stdout;
TRUNCATE t;

-- back to the old version, savepoints
INSERT INTO t VALUES (1, big('old'));
BEGIN;
CREATE TEMP TABLE keep AS SELECT d FROM t;
UPDATE t SET d = big('mid');
SAVEPOINT s;
UPDATE t SET d = big('gone'), e = big('gone');
ROLLBACK TO s;
SELECT is_big(d, 'mid'), e FROM t;
UPDATE t SET d = (SELECT d FROM keep);
COMMIT;
SELECT is_big(d, 'old') FROM t;
BEGIN;
DECLARE c CURSOR FOR SELECT is_big(d, 'old') FROM t;
UPDATE t SET d = big('new');
FETCH c;
COMMIT;
SELECT is_big(d, 'new') FROM t;
DROP TABLE keep;

-- users' triggers before ours, after ours, and instead
CREATE FUNCTION put() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.d := (SELECT e FROM t WHERE id = 100); RETURN NEW; END $$;
INSERT INTO t VALUES (100, NULL, big('100'));
CREATE TRIGGER put BEFORE INSERT OR UPDATE ON t FOR EACH ROW WHEN (NEW.id > 200) EXECUTE FUNCTION put();
INSERT INTO t VALUES (201, big('lost'));
SELECT is_big(d, '100') FROM t WHERE id = 201;
DROP TRIGGER put ON t;
CREATE TRIGGER "~~put" BEFORE INSERT OR UPDATE ON t FOR EACH ROW WHEN (NEW.id > 200) EXECUTE FUNCTION put();
\set VERBOSITY sqlstate
INSERT INTO t VALUES (202, big('lost'));
\set VERBOSITY default
DROP TRIGGER "~~put" ON t;
CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER "~~skip" BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION skip();
INSERT INTO t VALUES (203, big('lost'));
UPDATE t SET d = big('lost') WHERE id = 201;
DELETE FROM t;
SELECT id, is_big(d, '100') FROM t WHERE id > 200;
DROP TRIGGER "~~skip" ON t;
DROP FUNCTION put, skip;

-- TRUNCATE rolls back, also in a savepoint
BEGIN;
SAVEPOINT s;
TRUNCATE t;
INSERT INTO t VALUES (1, big('trunc'));
SELECT is_big(d, 'trunc') FROM t;
ROLLBACK TO s;
SELECT id, is_big(d, '100') FROM t WHERE id = 201;
TRUNCATE t;
INSERT INTO t VALUES (1, big('trunc'));
TRUNCATE t;
INSERT INTO t VALUES (2, big('trunc2'));
COMMIT;
SELECT id, is_big(d, 'trunc2') FROM t;

DROP TABLE t;
SELECT segments();
DROP FUNCTION segments, big, is_big;
DROP VIEW ddl_state;

-- a row that comes while a command has the triggers off, with a stored value
-- of another table
CREATE TABLE trig_lender (id int, doc securefile);
INSERT INTO trig_lender VALUES (1, decode(repeat('ab', 20000), 'hex'));
CREATE TABLE trig_borrower (id int, doc securefile);
INSERT INTO trig_borrower VALUES (1, decode(repeat('cd', 20000), 'hex'));
CREATE FUNCTION trig_borrow(i int) RETURNS bool LANGUAGE plpgsql AS
$$ BEGIN IF i < 50 THEN INSERT INTO trig_borrower SELECT 100, doc FROM trig_lender; END IF; RETURN true; END $$;
ALTER TABLE trig_borrower DISABLE TRIGGER ALL, ADD CHECK (trig_borrow(id));
SELECT * FROM securefile_check('trig_borrower', 'doc');
DELETE FROM trig_lender;
SELECT id, doc = decode(repeat('ab', 20000), 'hex') AS borrowed FROM trig_borrower ORDER BY id;
DROP TABLE trig_lender, trig_borrower;
DROP FUNCTION trig_borrow;
