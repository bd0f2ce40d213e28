-- securefile_usage, securefile_check, securefile_maintain, and the views
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS securefile;
CREATE ROLE regress_sf_owner;
CREATE ROLE regress_sf_other;
CREATE ROLE regress_sf_monitor IN ROLE pg_monitor;
GRANT CREATE ON SCHEMA public TO regress_sf_owner;

-- n bytes that compress badly
CREATE FUNCTION bytes(n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT decode(substr(string_agg(md5(g::text), ''), 1, 2 * n), 'hex') FROM generate_series(1, n / 16 + 1) g $$;

-- the accounts: exact for what is live, consistent for the rest
CREATE FUNCTION accounts(t regclass, c name, OUT live bigint, OUT pending bigint, OUT rest text)
LANGUAGE sql AS
$$ SELECT live_bytes, pending_bytes,
		  CASE WHEN live_bytes + pending_bytes + free_bytes <> file_bytes THEN 'sum is wrong'
			   WHEN metadata_bytes = 0 OR metadata_bytes % 8192 <> 0 THEN 'metadata is wrong'
			   ELSE 'ok' END
   FROM securefile_usage(t, c) $$;

-- maintenance until nothing is left; other sessions' snapshots may delay it
CREATE PROCEDURE settle(t regclass, c name) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..400 LOOP
		PERFORM securefile_maintain(t, c);
		COMMIT;
		EXIT WHEN (SELECT pending_bytes FROM securefile_usage(t, c)) = 0;
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;

SET ROLE regress_sf_owner;
CREATE TABLE u (id int PRIMARY KEY, note text, doc securefile);
SELECT * FROM accounts('u', 'doc');

-- rounded up to sectors of 512 bytes; small values stay in the row
INSERT INTO u VALUES (1, 'small', bytes(4000)), (2, 'just stored', bytes(4001)),
	(3, 'sectors', bytes(5120)), (4, 'a unit and a bit', bytes(131072 + 1)), (5, 'null', NULL);
SELECT * FROM accounts('u', 'doc');
SELECT (4001 + 511) / 512 * 512 + 5120 + 131072 + 512 AS live;
SELECT * FROM securefile_check('u', 'doc');

-- a value too large for a map in the row: 131 units, an inode page
INSERT INTO u VALUES (6, 'inode', bytes(16 * 1024 * 1024 + 5));
SELECT live - 16 * 1024 * 1024 - 512 - 4096 - 512 - 5120 - 131072 AS off FROM accounts('u', 'doc');
SELECT * FROM securefile_check('u', 'doc');

-- freed with the commit, given back by maintenance
BEGIN;
DELETE FROM u WHERE id IN (4, 6);
SELECT * FROM securefile_check('u', 'doc');
ROLLBACK;
SELECT * FROM securefile_check('u', 'doc');
DELETE FROM u WHERE id IN (4, 6);
SELECT entries_seen >= entries_resolved AS sane, bytes_grown
FROM securefile_maintain('u', 'doc');
CALL settle('u', 'doc');
SELECT * FROM accounts('u', 'doc');
SELECT * FROM securefile_check('u', 'doc');

-- in the middle of a transaction that writes
BEGIN;
INSERT INTO u VALUES (7, 'new', bytes(100000));
UPDATE u SET doc = bytes(200000) WHERE id = 2;
DELETE FROM u WHERE id = 3;
SAVEPOINT s;
INSERT INTO u VALUES (8, 'undone', bytes(100000));
ROLLBACK TO s;
SELECT * FROM securefile_check('u', 'doc');
COMMIT;
CALL settle('u', 'doc');
SELECT * FROM accounts('u', 'doc');
SELECT * FROM securefile_check('u', 'doc');
BEGIN;
TRUNCATE u;
SELECT * FROM securefile_check('u', 'doc');
ROLLBACK;
TRUNCATE u;
SELECT * FROM accounts('u', 'doc');
SELECT * FROM securefile_check('u', 'doc');

-- what is asked for must exist
SELECT * FROM securefile_usage('u', 'nope');
SELECT * FROM securefile_usage('u', 'note');
SELECT * FROM securefile_check('u', 'ctid');
\set VERBOSITY sqlstate
SELECT * FROM securefile_maintain('u_pkey', 'doc');
\set VERBOSITY default
SELECT * FROM securefile_usage(0, 'doc');
SELECT * FROM securefile_usage(NULL, 'doc');
SELECT * FROM securefile_check('u', NULL);
CREATE TEMP TABLE tmp (doc securefile);
CREATE UNLOGGED TABLE unlogged (doc securefile);
SELECT * FROM securefile_usage('tmp', 'doc');
SELECT * FROM securefile_check('unlogged', 'doc');
SELECT * FROM securefile_maintain('tmp', 'doc');
DROP TABLE tmp, unlogged;

-- who may: the owner; to look at sizes, monitors as well
SET ROLE regress_sf_other;
SELECT * FROM securefile_usage('u', 'doc');
SELECT * FROM securefile_check('u', 'doc');
SELECT * FROM securefile_maintain('u', 'doc');
SET ROLE regress_sf_monitor;
SELECT count(*) FROM securefile_usage('u', 'doc');
SELECT * FROM securefile_check('u', 'doc');
SELECT * FROM securefile_maintain('u', 'doc');
RESET ROLE;
SELECT count(*) FROM securefile_usage('u', 'doc');
SELECT * FROM securefile_check('u', 'doc');
SELECT count(*) FROM securefile_maintain('u', 'doc');

-- partitions: a parent stands for its leaves, whose columns may lie elsewhere
SET ROLE regress_sf_owner;
CREATE TABLE p (id int, doc securefile) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (extra text, doc securefile, id int);
ALTER TABLE p2 DROP COLUMN extra;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
CREATE UNLOGGED TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30);
SELECT * FROM securefile_check('p', 'doc');
INSERT INTO p SELECT i, bytes(5000 + i) FROM generate_series(1, 29) i;
SELECT * FROM accounts('p1', 'doc') UNION ALL
SELECT * FROM accounts('p2', 'doc') UNION ALL
SELECT * FROM accounts('p', 'doc');
SELECT * FROM securefile_check('p', 'doc');
DELETE FROM p WHERE id % 2 = 0;
CALL settle('p', 'doc');
SELECT * FROM accounts('p', 'doc');
SELECT * FROM securefile_check('p', 'doc');

-- the view: all kinds of tables, domains, options; for everybody
CREATE DOMAIN sf_doc AS securefile(filesystem_like_logging, nocache);
CREATE DOMAIN sf_doc_short AS sf_doc CHECK (length(VALUE) < 10000);
CREATE TABLE o (a securefile(cache, disable_storage_in_row), b sf_doc, c sf_doc_short, d bytea);
INSERT INTO o VALUES ('a', bytes(4999), bytes(5001));
CREATE TEMP TABLE tmp (doc securefile);
SET ROLE regress_sf_other;
SELECT relname, attname, options, segment_relid IS NOT NULL AS segment,
	   data_files ~ '^pg_securefile/\d+/\d+/\d+/seg-\*\.sf$' AS data_files,
	   logging, cache, object_bytes, file_bytes >= object_bytes AS file_bytes
FROM securefile_columns
WHERE relid IN ('u'::regclass, 'p'::regclass, 'p1'::regclass, 'p2'::regclass, 'p3'::regclass, 'o'::regclass) OR relname LIKE '%tmp'
ORDER BY relname, attname;
RESET ROLE;
SELECT relname, attname FROM securefile_columns c
WHERE relid = 'o'::regclass AND object_bytes <>
	  (SELECT live_bytes FROM securefile_usage(c.relid, c.attname));

-- tables have names that are the same for all: a regclass is shown with its schema or without
SET search_path = '';
SELECT schemaname, relname, attname, relid = 'public.o'::pg_catalog.regclass AS relid
FROM public.securefile_columns WHERE relname = 'o'
INTERSECT
SELECT schemaname, relname, attname, relid = 'public.o'::pg_catalog.regclass
FROM public.securefile_stat ORDER BY attname;
RESET search_path;
SELECT m.what, m.name, m.type::regtype FROM (
	SELECT c.oid::regclass::text, a.attname, a.atttypid FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid
		JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
	UNION ALL
	SELECT p.oid::regprocedure::text, r.name, r.type FROM pg_proc p
		JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e',
		unnest(proargnames, proargmodes, proallargtypes) r(name, mode, type) WHERE r.mode IN ('o', 't')) m(what, name, type)
WHERE m.what LIKE '%securefile%'
	AND (m.name IN (SELECT word FROM pg_get_keywords() WHERE catcode = 'R') OR m.type::regtype::text LIKE 'reg%');

-- of a hostile search_path
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.securefile_object_bytes(oid, smallint) RETURNS bigint LANGUAGE sql AS 'SELECT -1::bigint';
CREATE DOMAIN hostile.securefile AS int;
SET search_path = hostile, pg_catalog, public;
SELECT count(*) FROM public.securefile_columns WHERE object_bytes < 0;
SELECT * FROM public.securefile_check('public.o', 'a');
RESET search_path;
DROP SCHEMA hostile CASCADE;

-- the monitor runs
SET ROLE regress_sf_other;
SELECT state IN ('waiting', 'working') AS state, launcher_pid IS NOT NULL AS launcher_pid, failures
FROM securefile_monitor;
RESET ROLE;
SELECT backend_type FROM pg_stat_activity WHERE backend_type = 'securefile monitor launcher';

-- nulls, and a segment made in this transaction
SELECT * FROM securefile_check(NULL, 'doc');
SELECT * FROM securefile_maintain('u', NULL);
SELECT * FROM securefile_usage(NULL, NULL);
BEGIN;
SELECT securefile_rewrite('u', 'doc', 'filesystem_like_logging') >= 0 AS rewritten;
SELECT * FROM securefile_check('u', 'doc');
ROLLBACK;

DROP TABLE tmp, u, p, o;
DROP DOMAIN sf_doc_short, sf_doc;
DROP FUNCTION bytes, accounts;
DROP PROCEDURE settle;
REVOKE CREATE ON SCHEMA public FROM regress_sf_owner;
DROP ROLE regress_sf_owner, regress_sf_other, regress_sf_monitor;
