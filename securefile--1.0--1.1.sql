/* securefile--1.0--1.1.sql */

-- Operators are named with their schema, as in securefile--1.0.sql.

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION securefile UPDATE TO '1.1'" to load this file. \quit

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
	OUT stats_reset timestamptz
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_stat_columns()
	IS 'cumulative statistics by table OID and column number, times in microseconds; see securefile_stat';

-- One row a column with a segment, also when it has counted nothing yet.
CREATE VIEW securefile_stat AS
SELECT n.nspname AS schemaname,
	c.relname,
	a.attname,
	c.oid AS relid,
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
	s.stats_reset
FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	JOIN pg_catalog.pg_attribute a
		ON a.attrelid OPERATOR(pg_catalog.=) c.oid
			AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
	JOIN pg_catalog.pg_class segment
		ON segment.relnamespace OPERATOR(pg_catalog.=) 'pg_toast'::pg_catalog.regnamespace
			AND segment.relname OPERATOR(pg_catalog.=)
				pg_catalog.format('pg_securefile_%s_%s', c.oid, a.attnum)::pg_catalog.name
	LEFT JOIN securefile_stat_columns() s
		ON s.table_oid OPERATOR(pg_catalog.=) c.oid AND s.attnum OPERATOR(pg_catalog.=) a.attnum
WHERE c.relkind OPERATOR(pg_catalog.=) 'r';
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
	OUT ratio double precision
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_usage(regclass, name)
	IS 'space of a column in bytes: live + pending + free = file; metadata_bytes are outside the file; plain_bytes, what the values in live_bytes hold, and ratio, of plain to live, are estimates as of the last ANALYZE';

-- Behind securefile_columns, like its neighbours.
CREATE FUNCTION securefile_column_ratio(table_oid oid, attnum smallint) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_column_ratio(oid, smallint)
	IS 'bytes of values for each byte that they take in the segment, as of the last ANALYZE, of a column given by table OID and column number; see securefile_columns';

-- The new columns come last, so that the view is replaced, and what users have made of it
-- stays.
CREATE OR REPLACE VIEW securefile_columns AS
SELECT n.nspname AS schemaname,
	c.relname,
	a.attname,
	c.oid AS relid,
	i.options,
	i.segment_relid,
	s.spcname AS tablespace,
	i.data_files,
	i.logging,
	i.cache,
	securefile_object_bytes(c.oid, a.attnum) AS object_bytes,
	i.file_bytes,
	(securefile_object_bytes(c.oid, a.attnum)::double precision
		OPERATOR(pg_catalog.*) securefile_column_ratio(c.oid, a.attnum))::bigint AS plain_bytes,
	securefile_column_ratio(c.oid, a.attnum) AS ratio
FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	JOIN pg_catalog.pg_attribute a
		ON a.attrelid OPERATOR(pg_catalog.=) c.oid
			AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
	CROSS JOIN LATERAL securefile_column_info(c.oid, a.attnum) i
	LEFT JOIN pg_catalog.pg_class r ON r.oid OPERATOR(pg_catalog.=) i.segment_relid
	LEFT JOIN pg_catalog.pg_database d
		ON r.reltablespace OPERATOR(pg_catalog.=) 0
			AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_tablespace s
		ON s.oid OPERATOR(pg_catalog.=)
			CASE WHEN r.reltablespace OPERATOR(pg_catalog.=) 0
				THEN d.dattablespace ELSE r.reltablespace END
WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}'::pg_catalog."char"[])
	AND a.atttypid OPERATOR(pg_catalog.=) ANY (
		WITH RECURSIVE types(oid) AS (
			SELECT 'securefile'::pg_catalog.regtype::pg_catalog.oid
			UNION ALL
			SELECT t.oid FROM pg_catalog.pg_type t
				JOIN types ON t.typbasetype OPERATOR(pg_catalog.=) types.oid
		)
		SELECT types.oid FROM types);
COMMENT ON VIEW securefile_columns
	IS 'securefile columns of this database: options, segment, tablespace, data files, sizes in bytes; plain_bytes and ratio are estimates as of the last ANALYZE';

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
	OUT key_id integer
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_storage(securefile)
	IS 'how a file is stored: form (inline, stored, edited), its length and what is stored of it in bytes, units of 128 kB, how many of them are compressed, and how; key_id: of its encryption, 0: none';

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
