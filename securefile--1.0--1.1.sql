/* securefile--1.0--1.1.sql */

-- Operators are named with their schema, as in securefile--1.0.sql.

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION securefile UPDATE TO '1.1'" to load this file. \quit

-- ---------------------------------------------------------------------
-- edited values are made of their arguments alone: distributed tables take such functions
-- only if they are immutable; DDL refuses indexes on them
-- ---------------------------------------------------------------------

ALTER FUNCTION securefile_concat(securefile, securefile) IMMUTABLE;
ALTER FUNCTION securefile_concat(securefile, bytea) IMMUTABLE;
ALTER FUNCTION securefile_concat(bytea, securefile) IMMUTABLE;
ALTER FUNCTION pg_catalog.overlay(securefile, bytea, integer, integer) IMMUTABLE;
ALTER FUNCTION pg_catalog.overlay(securefile, bytea, integer) IMMUTABLE;
ALTER FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint, bigint) IMMUTABLE;
ALTER FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint) IMMUTABLE;
ALTER FUNCTION securefile_truncate(securefile, bigint) IMMUTABLE;

-- ---------------------------------------------------------------------
-- names: for views, which do not read pg_class themselves
-- ---------------------------------------------------------------------

-- Citus hides shards from queries of pg_class.
CREATE FUNCTION securefile_column_names(
	table_oid oid,
	attnum smallint,
	OUT relnamespace oid,
	OUT relname name,
	OUT relkind "char",
	OUT segment_relid oid,
	OUT segment_tablespace oid,
	OUT distributed boolean
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_column_names(oid, smallint)
	IS 'table and segment of a column, given by table OID and column number, also where another extension hides the table from queries of the catalogs; see securefile_columns';

-- What views have in common: a row for each column of this type, or of a domain over it.
CREATE VIEW securefile_column_tables AS
SELECT n.nspname AS schemaname,
	c.relname,
	a.attname,
	a.attrelid AS relid,
	a.attnum,
	c.relkind,
	c.segment_relid,
	c.segment_tablespace,
	c.distributed
FROM pg_catalog.pg_attribute a
	CROSS JOIN LATERAL securefile_column_names(a.attrelid, a.attnum) c
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
	AND a.atttypid OPERATOR(pg_catalog.=) ANY (
		WITH RECURSIVE types(oid) AS (
			SELECT 'securefile'::pg_catalog.regtype::pg_catalog.oid
			UNION ALL
			SELECT t.oid FROM pg_catalog.pg_type t
				JOIN types ON t.typbasetype OPERATOR(pg_catalog.=) types.oid
		)
		SELECT types.oid FROM types);
COMMENT ON VIEW securefile_column_tables
	IS 'securefile columns of this database, by names and numbers, with their segments; behind other views';
GRANT SELECT ON securefile_column_tables TO PUBLIC;

-- ---------------------------------------------------------------------
-- statistics: what compression does
-- ---------------------------------------------------------------------

DROP VIEW securefile_stat;
DROP FUNCTION securefile_stat_columns();

-- The counters themselves, keyed as the server keeps them; lost at restart.
CREATE FUNCTION securefile_stat_columns(
	OUT table_oid oid,
	OUT attnum smallint,
	OUT allocation_bytes bigint,
	OUT allocation_chunks bigint,
	OUT direct_read_bytes bigint,
	OUT direct_write_bytes bigint,
	OUT direct_read_ops bigint,
	OUT direct_write_ops bigint,
	OUT inode_read_time_us bigint,
	OUT inode_write_time_us bigint,
	OUT ioreap_time_us bigint,
	OUT bytes_nontransformed bigint,
	OUT bytes_transformed bigint,
	OUT bytes_transformed_stored bigint,
	OUT units_incompressible bigint,
	OUT compress_time_us bigint,
	OUT decompress_time_us bigint,
	OUT flushes bigint,
	OUT nontransformed_flushes bigint,
	OUT dedup_hits bigint,
	OUT dedup_bytes bigint,
	OUT dedup_mismatches bigint,
	OUT stats_reset timestamptz
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_stat_columns()
	IS 'cumulative statistics by table OID and column number, times in microseconds; see securefile_stat';

-- One row a column with a segment, also when it has counted nothing yet.
CREATE VIEW securefile_stat AS
SELECT c.schemaname,
	c.relname,
	c.attname,
	c.relid,
	COALESCE(s.allocation_bytes, 0) AS allocation_bytes,
	COALESCE(s.allocation_chunks, 0) AS allocation_chunks,
	COALESCE(s.direct_read_bytes, 0) AS direct_read_bytes,
	COALESCE(s.direct_write_bytes, 0) AS direct_write_bytes,
	COALESCE(s.direct_read_ops, 0) AS direct_read_ops,
	COALESCE(s.direct_write_ops, 0) AS direct_write_ops,
	COALESCE(s.inode_read_time_us, 0) OPERATOR(pg_catalog./) 1000.0::double precision AS inode_read_time,
	COALESCE(s.inode_write_time_us, 0) OPERATOR(pg_catalog./) 1000.0::double precision AS inode_write_time,
	COALESCE(s.ioreap_time_us, 0) OPERATOR(pg_catalog./) 1000.0::double precision AS ioreap_time,
	COALESCE(s.bytes_nontransformed, 0) AS bytes_nontransformed,
	COALESCE(s.bytes_transformed, 0) AS bytes_transformed,
	COALESCE(s.bytes_transformed_stored, 0) AS bytes_transformed_stored,
	COALESCE(s.units_incompressible, 0) AS units_incompressible,
	COALESCE(s.compress_time_us, 0) OPERATOR(pg_catalog./) 1000.0::double precision AS compress_time,
	COALESCE(s.decompress_time_us, 0) OPERATOR(pg_catalog./) 1000.0::double precision AS decompress_time,
	COALESCE(s.flushes, 0) AS flushes,
	COALESCE(s.nontransformed_flushes, 0) AS nontransformed_flushes,
	COALESCE(s.dedup_hits, 0) AS dedup_hits,
	COALESCE(s.dedup_bytes, 0) AS dedup_bytes,
	COALESCE(s.dedup_mismatches, 0) AS dedup_mismatches,
	s.stats_reset
FROM securefile_column_tables c
	LEFT JOIN securefile_stat_columns() s
		ON s.table_oid OPERATOR(pg_catalog.=) c.relid AND s.attnum OPERATOR(pg_catalog.=) c.attnum
WHERE c.relkind OPERATOR(pg_catalog.=) 'r' AND c.segment_relid IS NOT NULL;
COMMENT ON VIEW securefile_stat
	IS 'cumulative statistics of each securefile column; times in milliseconds';
GRANT SELECT ON securefile_stat TO PUBLIC;

-- ---------------------------------------------------------------------
-- check: how well columns are compressed
-- ---------------------------------------------------------------------

DROP FUNCTION securefile_usage(regclass, name);

CREATE FUNCTION securefile_usage(
	"table" regclass,
	"column" name,
	OUT file_bytes bigint,
	OUT live_bytes bigint,
	OUT pending_bytes bigint,
	OUT free_bytes bigint,
	OUT metadata_bytes bigint,
	OUT plain_bytes bigint,
	OUT ratio double precision,
	OUT shared_objects bigint,
	OUT shared_references bigint,
	OUT saved_bytes bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_usage(regclass, name)
	IS 'space of a column in bytes: live + pending + free = file; metadata_bytes are outside the file; plain_bytes, what the values in live_bytes hold, and ratio, of plain to live, are estimates as of the last ANALYZE; shared_objects are stored once for shared_references values, which saves saved_bytes';

CREATE FUNCTION securefile_total_relation_size(regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_total_relation_size(regclass)
	IS 'bytes of a table with indexes and TOAST, as pg_total_relation_size() counts them, and of the segment relations and data files of its securefile columns';

CREATE FUNCTION securefile_database_size(oid) RETURNS bigint
	AS 'MODULE_PATHNAME', 'securefile_database_size_oid' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_database_size(oid)
	IS 'bytes of a database as pg_database_size() counts them, and of all its data files; needs CONNECT or pg_read_all_stats';

CREATE FUNCTION securefile_database_size(name) RETURNS bigint
	AS 'MODULE_PATHNAME', 'securefile_database_size_name' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_database_size(name)
	IS 'bytes of a database as pg_database_size() counts them, and of all its data files; needs CONNECT or pg_read_all_stats';

-- Pages of maps that are read for it may be damaged, which a subtransaction has to catch.
ALTER FUNCTION securefile_object_bytes(oid, smallint) PARALLEL UNSAFE;

-- Behind securefile_columns, like its neighbours.
CREATE FUNCTION securefile_column_ratio(table_oid oid, attnum smallint) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_column_ratio(oid, smallint)
	IS 'bytes of values for each byte that they take in the segment, as of the last ANALYZE, of a column given by table OID and column number; see securefile_columns';

-- The new columns come last, so that the view is replaced, and what users have made of it
-- stays.
CREATE OR REPLACE VIEW securefile_columns AS
SELECT c.schemaname,
	c.relname,
	c.attname,
	c.relid,
	i.options,
	i.segment_relid,
	s.spcname AS tablespace,
	i.data_files,
	i.logging,
	i.cache,
	securefile_object_bytes(c.relid, c.attnum) AS object_bytes,
	i.file_bytes,
	(securefile_object_bytes(c.relid, c.attnum)::double precision
		OPERATOR(pg_catalog.*) securefile_column_ratio(c.relid, c.attnum))::bigint AS plain_bytes,
	securefile_column_ratio(c.relid, c.attnum) AS ratio,
	c.distributed
FROM securefile_column_tables c
	CROSS JOIN LATERAL securefile_column_info(c.relid, c.attnum) i
	LEFT JOIN pg_catalog.pg_database d
		ON c.segment_tablespace OPERATOR(pg_catalog.=) 0
			AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_tablespace s
		ON i.segment_relid IS NOT NULL AND s.oid OPERATOR(pg_catalog.=)
			CASE WHEN c.segment_tablespace OPERATOR(pg_catalog.=) 0
				THEN d.dattablespace ELSE c.segment_tablespace END
WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}'::pg_catalog."char"[]);
COMMENT ON VIEW securefile_columns
	IS 'securefile columns of this database: options, segment, tablespace, data files, sizes in bytes; plain_bytes and ratio are estimates as of the last ANALYZE';

-- ---------------------------------------------------------------------
-- fetch: data that is not in WAL, from another server
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_stored_bytes(table_oid oid, attnum smallint, incarnation bigint,
	"offset" bigint, length integer) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_stored_bytes(oid, smallint, bigint, bigint, integer)
	IS 'what the data files of a column have at an offset, in bytes, as it is stored (compressed, encrypted); null beyond their end; for servers that fetch data from this one';
REVOKE ALL ON FUNCTION securefile_stored_bytes(oid, smallint, bigint, bigint, integer) FROM PUBLIC;

CREATE FUNCTION securefile_fetch_column(relid oid, attnum smallint, conninfo text,
	OUT missing_values bigint, OUT missing_bytes bigint,
	OUT fetched_values bigint, OUT fetched_bytes bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_fetch_column(oid, smallint, text)
	IS 'securefile_fetch_left_behind() for one column, given by table OID and column number';
REVOKE ALL ON FUNCTION securefile_fetch_column(oid, smallint, text) FROM PUBLIC;

CREATE FUNCTION securefile_fetch_left_behind(conninfo text,
	OUT schemaname name, OUT relname name, OUT attname name,
	OUT missing_values bigint, OUT missing_bytes bigint,
	OUT fetched_values bigint, OUT fetched_bytes bigint
) RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT c.schemaname, c.relname, c.attname, f.*
	FROM securefile_columns c
		JOIN pg_catalog.pg_attribute a
			ON a.attrelid OPERATOR(pg_catalog.=) c.relid AND a.attname OPERATOR(pg_catalog.=) c.attname
		CROSS JOIN LATERAL securefile_fetch_column(c.relid, a.attnum, conninfo) f
	WHERE c.logging OPERATOR(pg_catalog.=) 'filesystem_like_logging' AND c.file_bytes IS NOT NULL
	ORDER BY 1, 2, 3;
END;
COMMENT ON FUNCTION securefile_fetch_left_behind(text)
	IS 'bring data of filesystem_like_logging columns that is not on this server, since it was restored from a backup, is a standby, or was one, from another server of the same origin that has it; conninfo: how to connect there, as a role with REPLICATION, which only superusers may say (empty: as securefile.fetch_from says; null: only count); a row for each such column of this database: values and stored bytes that were missing, and what of them was fetched';
REVOKE ALL ON FUNCTION securefile_fetch_left_behind(text) FROM PUBLIC;

CREATE FUNCTION securefile_fetch_state(
	OUT table_oid oid, OUT attnum smallint, OUT fetched_values bigint, OUT fetched_bytes bigint,
	OUT left_values bigint, OUT left_bytes bigint, OUT passes bigint,
	OUT last_pass timestamptz, OUT failure text
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_fetch_state()
	IS 'what a standby with securefile.fetch_from has fetched, by table OID and column number; see securefile_fetch';

CREATE VIEW securefile_fetch AS
SELECT n.nspname AS schemaname, c.relname, a.attname,
	s.fetched_values, s.fetched_bytes, s.left_values, s.left_bytes, s.passes, s.last_pass, s.failure
FROM securefile_fetch_state() s
	CROSS JOIN LATERAL securefile_column_names(s.table_oid, s.attnum) c
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) s.table_oid
		AND a.attnum OPERATOR(pg_catalog.=) s.attnum AND NOT a.attisdropped;
COMMENT ON VIEW securefile_fetch
	IS 'what this server, as a standby with securefile.fetch_from, has fetched of data that is not in WAL: values and stored bytes, those that the other server has not got (left), complete passes through the column, the last error';
GRANT SELECT ON securefile_fetch TO PUBLIC;

-- ---------------------------------------------------------------------
-- streams without holes: RESTRICTED as securefile_chunks()
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_data_chunks(document securefile, start bigint DEFAULT 1,
									   count bigint DEFAULT NULL,
									   chunk_size integer DEFAULT 262144) RETURNS SETOF bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION securefile_data_chunks(securefile, bigint, bigint, integer)
	IS 'as securefile_chunks(), without the holes of a file: rows of chunk_size bytes, shorter before a hole and at the end; securefile_data_starts() with the same arguments tells where each begins';

CREATE FUNCTION securefile_data_starts(document securefile, start bigint DEFAULT 1,
									   count bigint DEFAULT NULL,
									   chunk_size integer DEFAULT 262144) RETURNS SETOF bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION securefile_data_starts(securefile, bigint, bigint, integer)
	IS 'positions (the first byte of a file is 1) of the rows of securefile_data_chunks() with the same arguments; reads no content';

-- ---------------------------------------------------------------------
-- sql: how values are stored
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_storage(
	document securefile,
	OUT form text,
	OUT length bigint,
	OUT stored_bytes bigint,
	OUT units bigint,
	OUT compressed_units bigint,
	OUT codec text,
	OUT key_id integer,
	OUT hashed boolean
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_storage(securefile)
	IS 'how a file is stored: form (inline, stored, edited), its length and what is stored of it in bytes, units of 128 kB, how many of them are compressed, and how; key_id: of its encryption, 0: none; hashed: its SHA-256 is kept with it';

CREATE FUNCTION securefile_digest(document securefile) RETURNS bytea
	AS 'MODULE_PATHNAME', 'securefile_content_digest' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_digest(securefile)
	IS 'SHA-256 of the content, as it was when it was stored in a column with the option hash, without reading it; of other values it is computed';

CREATE FUNCTION securefile_kept_digest(document securefile) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_kept_digest(securefile)
	IS 'SHA-256 of the content if it is kept with it (column option hash), else null; reads no content';

CREATE FUNCTION securefile_train(
	"table" regclass,
	"column" name,
	sample_rows integer DEFAULT 10000,
	OUT dictionary integer,
	OUT dictionary_bytes integer,
	OUT sampled_values bigint,
	OUT plain_bytes bigint,
	OUT stored_bytes bigint,
	OUT trained_bytes bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_train(regclass, name, integer)
	IS 'learn a dictionary from a sample of the values of 64 bytes to 128 kB of a column with compress_medium or compress_high, for new ones; its number (null: it gains too little, and is not stored) and length, and of a fifth of the sample: plain bytes, and what they take in their rows without and with the dictionary';

CREATE FUNCTION securefile_estimate(
	"table" regclass,
	"column" name,
	sample_rows integer DEFAULT 100,
	OUT option text,
	OUT sampled_values bigint,
	OUT units bigint,
	OUT compressed_units bigint,
	OUT plain_bytes bigint,
	OUT stored_bytes bigint,
	OUT ratio double precision,
	OUT compress_mb_s double precision,
	OUT decompress_mb_s double precision
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_estimate(regclass, name, integer)
	IS 'what each level of compression would save and cost, by a random sample of the values of a column: bytes that would be stored, plain bytes per stored byte, megabytes a second of one process; changes nothing';

CREATE FUNCTION securefile_duplicates(
	"table" regclass,
	"column" name,
	OUT relid oid,
	OUT digest bytea,
	OUT length_bytes bigint,
	OUT copies bigint,
	OUT saves_bytes bigint
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_duplicates(regclass, name)
	IS 'equal values in the segment of a column, those that save most first: table or partition (only values of one of these would share space), SHA-256, length, how many, and how many bytes of the segment the option deduplicate would save; reads all values that keep no hash';

-- ---------------------------------------------------------------------
-- keys: the master keys that the server has loaded
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_load_keys() RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_load_keys()
	IS 'run the command of securefile.key_command and replace all master keys in memory with those that it prints; returns their number';
REVOKE ALL ON FUNCTION securefile_load_keys() FROM PUBLIC;

CREATE FUNCTION securefile_master_keys(
	OUT name text,
	OUT is_current boolean
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION securefile_master_keys()
	IS 'names of the master keys that are loaded; is_current: the one that wraps new data keys';
REVOKE ALL ON FUNCTION securefile_master_keys() FROM PUBLIC;

-- ---------------------------------------------------------------------
-- keys: the data keys of columns
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_keys(
	"table" regclass,
	"column" name,
	scan boolean DEFAULT false,
	OUT key_id integer,
	OUT purpose text,
	OUT state text,
	OUT is_current boolean,
	OUT cipher text,
	OUT master_key text,
	OUT is_loaded boolean,
	OUT created timestamptz,
	OUT stored_values bigint
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_keys(regclass, name, boolean)
	IS 'data keys of a column: purpose (data, hash), state (usable, old, distrusted, shredded, destroyed), is_current: new values take it; the master key that wraps each, and whether it is loaded; with scan, how many values use each, and a row of purpose plain for those without encryption';

CREATE FUNCTION securefile_rewrap() RETURNS integer
	AS 'MODULE_PATHNAME', 'securefile_rewrap_all' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_rewrap()
	IS 'wrap all data keys of this database with the current master key; returns how many were wrapped with another one; holds at once, and is not rolled back';
REVOKE ALL ON FUNCTION securefile_rewrap() FROM PUBLIC;

CREATE FUNCTION securefile_rewrap(
	"table" regclass,
	"column" name,
	master_key text DEFAULT NULL
) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_rewrap(regclass, name, text)
	IS 'wrap the data keys of a column with the current master key, or with the named one; returns how many were wrapped with another one; holds at once, and is not rolled back';

CREATE FUNCTION securefile_new_key(
	"table" regclass,
	"column" name,
	distrust boolean DEFAULT false
) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_new_key(regclass, name, boolean)
	IS 'make a new data key for new values of a column, and return its number (of a partitioned table the highest one); those that there are become old, or distrusted; holds at once, and is not rolled back';

CREATE FUNCTION securefile_shred(
	"table" regclass,
	"column" name,
	force boolean DEFAULT false
) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_shred(regclass, name, boolean)
	IS 'destroy all data keys of a column when the transaction commits, so that no encrypted value of it can be read any more; returns how many there were; refused where there are such values, unless forced';

-- ---------------------------------------------------------------------
-- rewriting while the table is in use
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_rewrite_some(
	"table" regclass,
	"column" name,
	max_bytes bigint DEFAULT 67108864,
	"position" text DEFAULT NULL,
	only_keys boolean DEFAULT false,
	OUT rewritten bigint,
	OUT rewritten_bytes bigint,
	OUT skipped bigint,
	OUT next_position text
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_rewrite_some(regclass, name, bigint, text, boolean)
	IS 'store some values of a column again, with its options and key of today, and lock no more than their rows: about max_bytes of them, from a position on that the last call has returned (NULL: the begin); next_position: NULL when nothing is left';

CREATE PROCEDURE securefile_rewrite_online(
	"table" regclass,
	"column" name,
	batch_bytes bigint DEFAULT 67108864,
	only_keys boolean DEFAULT false
)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE securefile_rewrite_online(regclass, name, bigint, boolean)
	IS 'store all values of a column again, with its options and key of today, while the table is in use; commits after each batch of about batch_bytes; only_keys: only values that are not encrypted with the current key, or not plain where the column does not encrypt';

CREATE FUNCTION securefile_progress_slots(
	OUT pid integer,
	OUT database_oid oid,
	OUT table_oid oid,
	OUT attnum smallint,
	OUT pass integer,
	OUT blocks_total bigint,
	OUT blocks_done bigint,
	OUT rewritten bigint,
	OUT rewritten_bytes bigint,
	OUT skipped bigint
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_progress_slots() IS 'what rewrites of columns have done so far; see securefile_progress';

CREATE VIEW securefile_progress AS
SELECT s.pid,
	d.datname,
	s.table_oid AS relid,
	n.nspname AS schema_name,
	c.relname AS table_name,
	a.attname AS column_name,
	s.pass,
	s.blocks_total,
	s.blocks_done,
	s.rewritten,
	s.rewritten_bytes,
	s.skipped
FROM securefile_progress_slots() s
	LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.database_oid
	LEFT JOIN LATERAL securefile_column_names(s.table_oid, s.attnum) c
		ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	LEFT JOIN pg_catalog.pg_attribute a ON c.relname IS NOT NULL
		AND a.attrelid OPERATOR(pg_catalog.=) s.table_oid AND a.attnum OPERATOR(pg_catalog.=) s.attnum;
COMMENT ON VIEW securefile_progress
	IS 'rewrites of columns that are running, in all databases: how far each has come';
GRANT SELECT ON securefile_progress TO PUBLIC;

CREATE FUNCTION securefile_syncer_state(
	OUT pid integer,
	OUT active boolean,
	OUT files integer,
	OUT noted_bytes bigint,
	OUT flushes bigint,
	OUT passes bigint,
	OUT longest_pass double precision,
	OUT longest_wait double precision
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_syncer_state() IS 'state of the syncer; see securefile_syncer';

CREATE VIEW securefile_syncer AS
SELECT s.pid,
	s.active,
	s.files,
	s.noted_bytes,
	s.flushes,
	s.passes,
	s.longest_pass,
	s.longest_wait
FROM securefile_syncer_state() s;
COMMENT ON VIEW securefile_syncer
	IS 'the syncer: its process, the data files whose flush is left to it, the longest waits in milliseconds';
GRANT SELECT ON securefile_syncer TO PUBLIC;

-- ---------------------------------------------------------------------
-- I/O: what the storage can do, and what processes do with it
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_io_calibrate(
	"table" regclass,
	"column" name,
	max_bytes bigint DEFAULT 268435456,
	seconds double precision DEFAULT 10,
	OUT operation text,
	OUT io_method text,
	OUT direct boolean,
	OUT size_bytes integer,
	OUT depth integer,
	OUT operations bigint,
	OUT bytes_per_second double precision,
	OUT iops double precision,
	OUT mean_ms double precision,
	OUT median_ms double precision,
	OUT p99_ms double precision
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_io_calibrate(regclass, name, bigint, double precision)
	IS 'what the storage in the tablespace of a column can do, by reads, writes and flushes such as the column needs, in a scratch file of at most max_bytes; takes about as many seconds; touches no data';
REVOKE ALL ON FUNCTION securefile_io_calibrate(regclass, name, bigint, double precision) FROM PUBLIC;

CREATE FUNCTION securefile_io_files(
	OUT pid integer,
	OUT database_oid oid,
	OUT tablespace_oid oid,
	OUT number oid,
	OUT file integer,
	OUT reads bigint,
	OUT read_bytes bigint,
	OUT read_time double precision,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time double precision,
	OUT flushes bigint,
	OUT flush_time double precision,
	OUT longest double precision,
	OUT in_flight integer,
	OUT in_flight_bytes bigint
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_io_files()
	IS 'what each process has done to the data files that it used last, by the numbers of their segments; see securefile_io';

CREATE VIEW securefile_io AS
SELECT f.pid,
	d.datname,
	t.schemaname,
	t.relname,
	t.attname,
	t.relid,
	f.file,
	f.reads,
	f.read_bytes,
	CASE WHEN f.reads OPERATOR(pg_catalog.>) 0
		THEN f.read_bytes OPERATOR(pg_catalog./) f.reads END AS mean_read_bytes,
	f.read_time,
	f.writes,
	f.write_bytes,
	CASE WHEN f.writes OPERATOR(pg_catalog.>) 0
		THEN f.write_bytes OPERATOR(pg_catalog./) f.writes END AS mean_write_bytes,
	f.write_time,
	f.flushes,
	f.flush_time,
	f.longest,
	f.in_flight,
	f.in_flight_bytes
FROM securefile_io_files() f
	LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) f.database_oid
	LEFT JOIN securefile_column_tables t
		ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
			AND t.relkind OPERATOR(pg_catalog.=) 'r'
			AND t.segment_relid OPERATOR(pg_catalog.=)
				pg_catalog.pg_filenode_relation(f.tablespace_oid, f.number)::pg_catalog.oid;
COMMENT ON VIEW securefile_io
	IS 'what each process reads, writes and flushes, by data file, of the last it has used; times in milliseconds; what other roles do is null but for members of pg_read_all_stats';
GRANT SELECT ON securefile_io TO PUBLIC;

-- ---------------------------------------------------------------------
-- Space that is kept longer than a snapshot
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_kept_space(
	OUT pid integer,
	OUT database_oid oid,
	OUT oldest xid8,
	OUT since timestamptz,
	OUT readers text[]
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_kept_space()
	IS 'processes for whose held cursors, procedures or commands the space of deleted values is kept: from which transaction on, and since when';
REVOKE ALL ON FUNCTION securefile_kept_space() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION securefile_kept_space() TO pg_read_all_stats;
