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
	flushes, nontransformed_flushes, stats_reset
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
