-- Statistics: one row a column with a segment, counted at transaction end.
CREATE ROLE regress_securefile_one;
CREATE ROLE regress_securefile_two;
CREATE ROLE regress_securefile_none;
GRANT CREATE ON SCHEMA public TO regress_securefile_one, regress_securefile_two;
SET ROLE regress_securefile_one;
CREATE TABLE stats_one (id int, a securefile, plain bytea, b securefile(filesystem_like_logging));
SET ROLE regress_securefile_two;
CREATE TABLE stats_two (id int, document securefile);
RESET ROLE;

-- a row each from the start, all zero
SELECT schemaname, relname, attname, allocation_bytes, allocation_chunks, direct_read_bytes, direct_write_bytes,
	direct_read_ops, direct_write_ops, inode_read_time, inode_write_time, ioreap_time, bytes_nontransformed,
	bytes_transformed, bytes_transformed_stored, units_incompressible, compress_time, decompress_time,
	flushes, nontransformed_flushes, dedup_hits, dedup_bytes, dedup_mismatches, scanned_bytes, returned_bytes, skipped_bytes,
	units_read, units_cached, units_decompressed, stats_reset
FROM securefile_stat WHERE relid IN ('stats_one'::regclass, 'stats_two'::regclass) ORDER BY relname, attname;

INSERT INTO stats_one SELECT 1, v, v, v FROM (SELECT repeat('x', 300000)::bytea) x(v);
INSERT INTO stats_two SELECT 1, repeat('y', 500000)::bytea;
SELECT relname, attname, allocation_bytes >= bytes_nontransformed AND allocation_chunks > 0 AS allocated,
	direct_write_bytes >= bytes_nontransformed AND direct_write_ops > 0 AS written,
	direct_read_ops AS reads, bytes_nontransformed, flushes > 0 AND flushes = nontransformed_flushes AS flushed,
	stats_reset IS NOT NULL AS since
FROM securefile_stat WHERE relid IN ('stats_one'::regclass, 'stats_two'::regclass)
ORDER BY relname, attname;

-- what an aborted transaction did was done all the same
BEGIN;
INSERT INTO stats_two SELECT 2, repeat('y', 500000)::bytea;
ROLLBACK;
SELECT bytes_nontransformed FROM securefile_stat WHERE relid = 'stats_two'::regclass;

-- length() reads nothing, substring() what it needs
SELECT length(document) FROM stats_two;
SELECT direct_read_bytes FROM securefile_stat WHERE relid = 'stats_two'::regclass;
SELECT substring(document from 200001 for 10) FROM stats_two;
SELECT direct_read_bytes BETWEEN 1 AND 140000 AS one_unit FROM securefile_stat WHERE relid = 'stats_two'::regclass;

-- what was asked, inside the server and by clients; what is answered without reading
SELECT count(securefile_digest(document, 'md5')), count(document = '\x01'::bytea) FROM stats_two;
SELECT scanned_bytes, returned_bytes, skipped_bytes FROM securefile_stat WHERE relid = 'stats_two'::regclass;
SELECT scanned_bytes, returned_bytes, skipped_bytes, round(ratio::numeric, 6) AS ratio FROM securefile_scan WHERE relid = 'stats_two'::regclass;
SELECT relname, scanned_bytes, returned_bytes, skipped_bytes FROM securefile_stat_session WHERE relid = 'stats_two'::regclass;

-- what a column compresses and what it does not, in values and in flushes; noise() does not compress
CREATE FUNCTION noise(len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT substring(decode(string_agg(md5(i::text), '' ORDER BY i), 'hex') FROM 1 FOR len) FROM generate_series(0, len / 16) i $$;
CREATE TABLE stats_low (id int, document securefile(compress_low));
CREATE TABLE stats_medium (id int, document securefile(compress, filesystem_like_logging));
CREATE TABLE stats_high (id int, document securefile(compress_high, nocache));
CREATE TABLE stats_none (id int, document securefile);
CREATE VIEW stats_compressed AS
	SELECT relname, bytes_transformed AS transformed, bytes_transformed_stored AS stored, bytes_nontransformed AS nontransformed,
		units_incompressible AS incompressible, compress_time, decompress_time, flushes, nontransformed_flushes
	FROM securefile_stat WHERE relid IN ('stats_low'::regclass, 'stats_medium'::regclass, 'stats_high'::regclass, 'stats_none'::regclass);
CREATE TABLE stats_of (document bytea);
CREATE PROCEDURE stats_insert() LANGUAGE sql AS $$
	INSERT INTO stats_low SELECT 1, document FROM stats_of;
	INSERT INTO stats_medium SELECT 1, document FROM stats_of;
	INSERT INTO stats_high SELECT 1, document FROM stats_of;
	INSERT INTO stats_none SELECT 1, document FROM stats_of;
$$;
INSERT INTO stats_of VALUES (repeat('x', 300000)::bytea);
CALL stats_insert();
SELECT relname, transformed, stored BETWEEN 1 AND 30000 AS stored, nontransformed, incompressible,
	compress_time > 0 AS compressing, decompress_time, flushes, nontransformed_flushes
FROM stats_compressed ORDER BY relname;
SELECT c.relname, stored FROM stats_compressed c WHERE stored <> (SELECT sum(s.stored_bytes) FROM (
	SELECT 'stats_low', document FROM stats_low UNION ALL SELECT 'stats_medium', document FROM stats_medium
	UNION ALL SELECT 'stats_high', document FROM stats_high) d (relname, document), securefile_storage(document) s
	WHERE d.relname = c.relname);
-- the same again, and as much that gains nothing: each in a flush of its own
CREATE TABLE stats_before AS SELECT * FROM stats_compressed;
UPDATE stats_of SET document = noise(300000);
CALL stats_insert();
SELECT n.relname, n.transformed - b.transformed AS transformed, n.stored - b.stored AS stored, n.nontransformed - b.nontransformed AS nontransformed,
	n.incompressible - b.incompressible AS incompressible, n.compress_time > b.compress_time AS compressing,
	n.flushes - b.flushes AS flushes, n.nontransformed_flushes - b.nontransformed_flushes AS nontransformed_flushes
FROM stats_compressed n JOIN stats_before b USING (relname) ORDER BY relname;
-- of both: a flush that has some transformed data is none of those that have not
TRUNCATE stats_before;
INSERT INTO stats_before SELECT * FROM stats_compressed;
UPDATE stats_of SET document = repeat('x', 131072)::bytea || noise(131072);
CALL stats_insert();
SELECT n.relname, n.transformed - b.transformed AS transformed, n.nontransformed - b.nontransformed AS nontransformed,
	n.incompressible - b.incompressible AS incompressible,
	n.flushes - b.flushes > n.nontransformed_flushes - b.nontransformed_flushes AS transformed_flush
FROM stats_compressed n JOIN stats_before b USING (relname) ORDER BY relname;
-- reading takes time where something is encoded
SELECT count(*) FROM stats_low l, stats_medium m, stats_high h, stats_none n
WHERE securefile_eq(l.document, m.document) AND securefile_eq(m.document, h.document) AND securefile_eq(h.document, n.document);
SELECT relname, decompress_time > 0 AS decompressing FROM stats_compressed ORDER BY relname;
DROP VIEW stats_compressed;
DROP TABLE stats_low, stats_medium, stats_high, stats_none, stats_of, stats_before;
DROP PROCEDURE stats_insert;

-- what a column that deduplicates did not write, and what another one copied by its bytes
CREATE TABLE stats_once (id int, document securefile(deduplicate));
CREATE TABLE stats_each (id int, document securefile);
INSERT INTO stats_once SELECT i, noise(20000) FROM generate_series(1, 3) i;
INSERT INTO stats_once SELECT 4, document FROM stats_once WHERE id = 1;
INSERT INTO stats_each SELECT id, document FROM stats_once;
BEGIN;
INSERT INTO stats_once VALUES (5, noise(20000));
ROLLBACK;
SELECT relname, bytes_nontransformed, dedup_hits, dedup_bytes, dedup_mismatches FROM securefile_stat
WHERE relid IN ('stats_once'::regclass, 'stats_each'::regclass) ORDER BY relname;
DROP TABLE stats_once, stats_each;
DROP FUNCTION noise;

-- everyone sees them; who owns the table resets them, and nobody else's
SET ROLE regress_securefile_one;
SELECT count(*) FROM securefile_stat WHERE relid IN ('stats_one'::regclass, 'stats_two'::regclass);
SELECT securefile_stat_reset();
SELECT relname, attname, bytes_nontransformed FROM securefile_stat
WHERE relid IN ('stats_one'::regclass, 'stats_two'::regclass) ORDER BY relname, attname;
SET ROLE regress_securefile_none;
SELECT securefile_stat_reset();
RESET ROLE;
SELECT securefile_stat_reset();
SELECT relname, attname, bytes_nontransformed, stats_reset > now() - interval '1 hour' AS just_now
FROM securefile_stat
WHERE relid IN ('stats_one'::regclass, 'stats_two'::regclass) ORDER BY relname, attname;

-- gone with the column and the table
ALTER TABLE stats_one DROP COLUMN a;
DROP TABLE stats_two;
SELECT relname, attname FROM securefile_stat WHERE relname LIKE 'stats%';
DROP TABLE stats_one;

-- fault points need a build of their own and a superuser
SET ROLE regress_securefile_one;
SELECT securefile_fault('io_write', 'error');
SELECT securefile_fault_fired('io_write');
SELECT securefile_fault_reset();
RESET ROLE;
REVOKE CREATE ON SCHEMA public FROM regress_securefile_one, regress_securefile_two;
DROP ROLE regress_securefile_one;
DROP ROLE regress_securefile_two;
DROP ROLE regress_securefile_none;
