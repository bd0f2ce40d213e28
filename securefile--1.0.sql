/* securefile--1.0.sql */

-- Operators are named with their schema: the script runs with the schema of the
-- extension in the search_path, and who may create objects there could plant an
-- operator that fits the types of an expression better than that of PostgreSQL.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION securefile" to load this file. \quit

-- ---------------------------------------------------------------------
-- sql: type, casts, functions
-- ---------------------------------------------------------------------

CREATE TYPE securefile;

CREATE FUNCTION securefile_in(cstring) RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_in(cstring) IS 'I/O';

CREATE FUNCTION securefile_out(securefile) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_out(securefile) IS 'I/O';

CREATE FUNCTION securefile_recv(internal) RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_recv(internal) IS 'I/O';

CREATE FUNCTION securefile_send(securefile) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_send(securefile) IS 'I/O';

CREATE FUNCTION securefile_typmod_in(cstring[]) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_typmod_in(cstring[]) IS 'I/O typmod';

CREATE FUNCTION securefile_typmod_out(integer) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_typmod_out(integer) IS 'I/O typmod';

CREATE FUNCTION securefile_typanalyze(internal) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION securefile_typanalyze(internal) IS 'securefile typanalyze';

CREATE TYPE securefile (
	INPUT = securefile_in,
	OUTPUT = securefile_out,
	RECEIVE = securefile_recv,
	SEND = securefile_send,
	TYPMOD_IN = securefile_typmod_in,
	TYPMOD_OUT = securefile_typmod_out,
	ANALYZE = securefile_typanalyze,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = main
);
COMMENT ON TYPE securefile
	IS 'file: bytes of any length, versioned with their row, stored outside it';

-- No cast securefile -> securefile: a change of options must not rewrite.

CREATE FUNCTION securefile_from_bytea(bytea) RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_from_bytea(bytea)
	IS 'convert bytea to securefile (a copy in memory)';

CREATE FUNCTION securefile_to_bytea(securefile) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_to_bytea(securefile)
	IS 'convert securefile to bytea: reads the whole value, which must be at most 1 GB';

CREATE CAST (bytea AS securefile) WITH FUNCTION securefile_from_bytea(bytea) AS ASSIGNMENT;
CREATE CAST (securefile AS bytea) WITH FUNCTION securefile_to_bytea(securefile) AS IMPLICIT;

-- In pg_catalog, as the operators, since there the SQL syntax looks for substring(),
-- and since what is not found, under some search_path, would silently be done by the
-- functions and operators of bytea, which read the whole value, or of text.

CREATE FUNCTION pg_catalog.length(securefile) RETURNS bigint
	AS 'MODULE_PATHNAME', 'securefile_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.length(securefile) IS 'length in bytes; reads no data';

CREATE FUNCTION pg_catalog.octet_length(securefile) RETURNS bigint
	AS 'MODULE_PATHNAME', 'securefile_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.octet_length(securefile) IS 'length in bytes; reads no data';

CREATE FUNCTION pg_catalog.substring(securefile, integer, integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'securefile_substring' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.substring(securefile, integer, integer)
	IS 'bytes of a file: position of the first byte (1 is the first), number of bytes (0 or more); reads only the 128 kB units that it touches';

CREATE FUNCTION pg_catalog.substring(securefile, integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'securefile_substring_rest' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.substring(securefile, integer)
	IS 'bytes of a file, from a position (the first byte is 1) to the end, at most 1 GB';

-- The bigint forms take a domain: so they are a worse match than the integer
-- forms, and smallint or untyped arguments (a driver's parameters) are not
-- ambiguous between the two.

CREATE DOMAIN securefile_wide AS securefile;
COMMENT ON DOMAIN securefile_wide
	IS 'first argument of substring() and overlay() with positions of type bigint; internal, nobody has to write it';

CREATE FUNCTION pg_catalog.substring(securefile_wide, bigint, bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'securefile_substring_big' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.substring(securefile_wide, bigint, bigint)
	IS 'bytes of a file: position of the first byte (1 is the first, of type bigint), number of bytes (0 to 1 GB)';

CREATE FUNCTION pg_catalog.substring(securefile_wide, bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'securefile_substring_big_rest' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.substring(securefile_wide, bigint)
	IS 'bytes of a file, from a position (the first byte is 1, of type bigint) to the end, at most 1 GB';

-- RESTRICTED: a piece that goes through the queue of a parallel worker costs more
-- copies than it saves; the scan below it may be parallel.

CREATE FUNCTION securefile_chunks(document securefile, start bigint DEFAULT 1,
								  count bigint DEFAULT NULL,
								  chunk_size integer DEFAULT 262144) RETURNS SETOF bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION securefile_chunks(securefile, bigint, bigint, integer)
	IS 'count bytes of a file (0 or more; NULL: all), from position start on (the first byte is 1), as rows of chunk_size bytes (1 to 1073741819), in order; the last row may be shorter';

CREATE FUNCTION securefile_salvage(document securefile, OUT start bigint, OUT length bigint,
								   OUT data bytea, OUT problem text) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL UNSAFE COST 100 ROWS 1000;
COMMENT ON FUNCTION securefile_salvage(securefile)
	IS 'a damaged file, one row for each 128 kB: position of the first byte (from 1), length in bytes, and the data if it is sound, else the problem';

-- Edited values: they say what they consist of; storing one over what it was
-- made from writes only what is new.  Without operators of its own,
-- document || '\x00' would be taken as text, and document || bytea read the
-- document whole.

CREATE FUNCTION securefile_concat(securefile, securefile) RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_concat(securefile, securefile) IS 'implementation of || operator';

CREATE FUNCTION securefile_concat(securefile, bytea) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_concat_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_concat(securefile, bytea) IS 'implementation of || operator';

CREATE FUNCTION securefile_concat(bytea, securefile) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_prepend' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_concat(bytea, securefile) IS 'implementation of || operator';

CREATE OPERATOR pg_catalog.|| (
	LEFTARG = securefile, RIGHTARG = securefile, FUNCTION = securefile_concat
);
COMMENT ON OPERATOR pg_catalog.|| (securefile, securefile)
	IS 'concatenate two files; reads and writes nothing until the result is stored';

CREATE OPERATOR pg_catalog.|| (
	LEFTARG = securefile, RIGHTARG = bytea, FUNCTION = securefile_concat
);
COMMENT ON OPERATOR pg_catalog.|| (securefile, bytea)
	IS 'append bytes to a file; reads and writes nothing until the result is stored';

CREATE OPERATOR pg_catalog.|| (
	LEFTARG = bytea, RIGHTARG = securefile, FUNCTION = securefile_concat
);
COMMENT ON OPERATOR pg_catalog.|| (bytea, securefile)
	IS 'put bytes before a file; reads and writes nothing until the result is stored';

CREATE FUNCTION pg_catalog.overlay(securefile, bytea, integer, integer) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_overlay' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.overlay(securefile, bytea, integer, integer)
	IS 'put bytes in the place of others: new bytes, position of the first byte to replace (from 1), number of bytes to replace (0 or more)';

CREATE FUNCTION pg_catalog.overlay(securefile, bytea, integer) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_overlay_all' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.overlay(securefile, bytea, integer)
	IS 'put bytes in the place of as many others: new bytes, position of the first byte to replace (from 1)';

-- as for substring()
CREATE FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint, bigint) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_overlay_big' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint, bigint)
	IS 'put bytes in the place of others: new bytes, position of the first byte to replace (from 1, of type bigint), number of bytes to replace (0 or more)';

CREATE FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_overlay_all_big' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint)
	IS 'put bytes in the place of as many others: new bytes, position of the first byte to replace (from 1, of type bigint)';

CREATE FUNCTION securefile_truncate(securefile, length bigint) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_truncate_value' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_truncate(securefile, bigint)
	IS 'a file of length bytes (0 or more): its first bytes, and zeros behind its end';

-- Handles: files in pieces, inside a transaction, as lo_open() and its like.

CREATE FUNCTION securefile_create("table" regclass, "column" name) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_create(regclass, name)
	IS 'open a handle of a new, empty file, to be stored in that column; returns the number of the handle, which is valid in this transaction';

CREATE FUNCTION securefile_open(securefile, mode text) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_open(securefile, text)
	IS 'open a handle of a file; mode: r to read, rw to read and write; returns the number of the handle, which is valid in this transaction';

CREATE FUNCTION securefile_read(handle integer, length integer) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_read(integer, integer)
	IS 'read from the position of a handle on: up to length bytes (0 to 1 GB), fewer at the end of the file; moves the position';

CREATE FUNCTION securefile_write(handle integer, bytes bytea) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_write(integer, bytea)
	IS 'write bytes at the position of a handle that was created, or opened with rw; moves the position; returns the number of bytes';

CREATE FUNCTION securefile_seek(handle integer, "offset" bigint, whence integer) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_seek(integer, bigint, integer)
	IS 'set the position of a handle: offset in bytes, counted from the start (whence 0), the position (1) or the end (2); returns the new position (the first byte is 0)';

CREATE FUNCTION securefile_tell(handle integer) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_tell(integer)
	IS 'position of a handle in bytes; the first byte is 0';

CREATE FUNCTION securefile_truncate(handle integer, length bigint) RETURNS integer
	AS 'MODULE_PATHNAME', 'securefile_truncate_handle' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_truncate(integer, bigint)
	IS 'make the file of a handle length bytes long (0 or more): cut it, or add zeros; the position stays; returns 0';

CREATE FUNCTION securefile_finish(handle integer) RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_finish(integer)
	IS 'close a handle; returns its file, to be stored by INSERT or UPDATE';

CREATE FUNCTION securefile_close(handle integer) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_close(integer)
	IS 'close a handle and give up what was written through it; returns 0';

-- Equality by content, for DISTINCT, GROUP BY, joins and REPLICA IDENTITY FULL, also
-- with bytea, which is what drivers send.  No btree: index entries would outlive
-- what they point to.

CREATE FUNCTION securefile_eq(securefile, securefile) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION securefile_eq(securefile, securefile) IS 'implementation of = operator';

CREATE FUNCTION securefile_eq(securefile, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'securefile_eq_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION securefile_eq(securefile, bytea) IS 'implementation of = operator';

CREATE FUNCTION securefile_eq(bytea, securefile) RETURNS boolean
	AS 'MODULE_PATHNAME', 'securefile_bytea_eq' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION securefile_eq(bytea, securefile) IS 'implementation of = operator';

CREATE FUNCTION securefile_ne(securefile, securefile) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION securefile_ne(securefile, securefile) IS 'implementation of <> operator';

CREATE FUNCTION securefile_ne(securefile, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'securefile_ne_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION securefile_ne(securefile, bytea) IS 'implementation of <> operator';

CREATE FUNCTION securefile_ne(bytea, securefile) RETURNS boolean
	AS 'MODULE_PATHNAME', 'securefile_bytea_ne' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION securefile_ne(bytea, securefile) IS 'implementation of <> operator';

CREATE FUNCTION securefile_hash(securefile) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION securefile_hash(securefile) IS 'hash of the content: low 32 bits of XXH3';

CREATE FUNCTION securefile_hash_extended(securefile, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION securefile_hash_extended(securefile, bigint)
	IS 'hash of the content with a seed: XXH3 of 64 bits';

CREATE FUNCTION securefile_hash_bytea(bytea) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_hash_bytea(bytea)
	IS 'hash of a file that has these bytes; as securefile_hash()';

CREATE FUNCTION securefile_hash_bytea_extended(bytea, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_hash_bytea_extended(bytea, bigint)
	IS 'hash of a file that has these bytes, with a seed; as securefile_hash_extended()';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = securefile, RIGHTARG = securefile, FUNCTION = securefile_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES
);
COMMENT ON OPERATOR pg_catalog.= (securefile, securefile) IS 'equal in content';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = securefile, RIGHTARG = securefile, FUNCTION = securefile_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (securefile, securefile) IS 'not equal in content';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = securefile, RIGHTARG = bytea, FUNCTION = securefile_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES
);
COMMENT ON OPERATOR pg_catalog.= (securefile, bytea) IS 'equal in content';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = securefile, RIGHTARG = bytea, FUNCTION = securefile_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (securefile, bytea) IS 'not equal in content';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = bytea, RIGHTARG = securefile, FUNCTION = securefile_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES
);
COMMENT ON OPERATOR pg_catalog.= (bytea, securefile) IS 'equal in content';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = bytea, RIGHTARG = securefile, FUNCTION = securefile_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (bytea, securefile) IS 'not equal in content';

-- The operator family hashes bytea as securefile, so that = of the two finds its way
-- into hash indexes, hash joins and hashed subplans.  These want an = of bytea and bytea
-- in the same family.  It must not be PostgreSQL's own: bytea columns that have nothing
-- to do with files might then be hashed by this library.

CREATE OPERATOR pg_catalog.|=| (
	LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = pg_catalog.byteaeq,
	COMMUTATOR = OPERATOR(pg_catalog.|=|),
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES
);
COMMENT ON OPERATOR pg_catalog.|=| (bytea, bytea) IS 'equal, in securefile_hash_ops';

CREATE OPERATOR CLASS securefile_hash_ops DEFAULT FOR TYPE securefile USING hash AS
	OPERATOR 1 pg_catalog.= (securefile, securefile),
	FUNCTION 1 securefile_hash(securefile),
	FUNCTION 2 securefile_hash_extended(securefile, bigint);
COMMENT ON OPERATOR CLASS securefile_hash_ops USING hash IS 'files, by content';

CREATE OPERATOR CLASS securefile_bytea_hash_ops FOR TYPE bytea USING hash FAMILY securefile_hash_ops AS
	OPERATOR 1 pg_catalog.|=| (bytea, bytea),
	FUNCTION 1 securefile_hash_bytea(bytea),
	FUNCTION 2 securefile_hash_bytea_extended(bytea, bigint);
COMMENT ON OPERATOR CLASS securefile_bytea_hash_ops USING hash
	IS 'bytea, hashed as a file that has the same bytes';

ALTER OPERATOR FAMILY securefile_hash_ops USING hash ADD
	OPERATOR 1 pg_catalog.= (securefile, bytea),
	OPERATOR 1 pg_catalog.= (bytea, securefile);

-- Comparisons of rows, (document, id) = ($1, $2), take an = only from a btree family.
-- This one has nothing else: no operator class, no order, no index.

CREATE OPERATOR FAMILY securefile_row_ops USING btree;
ALTER OPERATOR FAMILY securefile_row_ops USING btree ADD
	OPERATOR 3 pg_catalog.= (securefile, securefile),
	OPERATOR 3 pg_catalog.= (securefile, bytea),
	OPERATOR 3 pg_catalog.= (bytea, securefile);
COMMENT ON OPERATOR FAMILY securefile_row_ops USING btree
	IS 'the = of files in comparisons of rows; has no order and no index';

CREATE FUNCTION securefile_digest(document securefile, algorithm text) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION securefile_digest(securefile, text)
	IS 'digest of the content, of any length; algorithm: sha256 (32 bytes), sha512 or blake2b (64), xxh3 (8) or md5 (16)';

-- Fault points, for tests; every function refuses in a build without them.

CREATE FUNCTION securefile_fault(point text, action text, skip integer DEFAULT 0,
								 times integer DEFAULT 1, pid integer DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_fault(text, text, integer, integer, integer)
	IS 'arm a fault point: let the first skip passes through (0 or more), then do the action times times (negative: always), in the process with that pid (NULL: in all)';
REVOKE ALL ON FUNCTION securefile_fault(text, text, integer, integer, integer) FROM PUBLIC;

CREATE FUNCTION securefile_fault_fired(point text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_fault_fired(text)
	IS 'how often a fault point has acted since it was armed';
REVOKE ALL ON FUNCTION securefile_fault_fired(text) FROM PUBLIC;

CREATE FUNCTION securefile_fault_reset() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_fault_reset() IS 'disarm all fault points';
REVOKE ALL ON FUNCTION securefile_fault_reset() FROM PUBLIC;

-- ---------------------------------------------------------------------
-- ddl: segments, triggers, columns
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_segment_handler(internal) RETURNS table_am_handler
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION securefile_segment_handler(internal)
	IS 'table access method of the segments of securefile columns';
CREATE ACCESS METHOD securefile_segment TYPE TABLE HANDLER securefile_segment_handler;
COMMENT ON ACCESS METHOD securefile_segment
	IS 'segments of securefile columns; CREATE TABLE cannot use it';

-- Internal triggers need no EXECUTE privilege, and nobody else needs these.

CREATE FUNCTION securefile_store() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C;
REVOKE ALL ON FUNCTION securefile_store() FROM PUBLIC;
COMMENT ON FUNCTION securefile_store() IS 'trigger of securefile columns: store a new value';

CREATE FUNCTION securefile_account() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C;
REVOKE ALL ON FUNCTION securefile_account() FROM PUBLIC;
COMMENT ON FUNCTION securefile_account()
	IS 'trigger of securefile columns: confirm the new value of a row, free the old one';

CREATE FUNCTION securefile_truncate() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C;
REVOKE ALL ON FUNCTION securefile_truncate() FROM PUBLIC;
COMMENT ON FUNCTION securefile_truncate()
	IS 'trigger of securefile columns: give the segment new, empty storage';

-- Takes internal, so only the expression that ALTER TABLE is given calls it, as the
-- table's owner.  VOLATILE, since it is called once a row: to store a value, and (with
-- the ctid instead of a value) to let errors name the row.

CREATE FUNCTION securefile_convert(securefile, internal) RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_convert(securefile, internal)
	IS 'ALTER COLUMN TYPE: store the new value of a row';

CREATE FUNCTION securefile_rewrite("table" regclass, "column" name, logging text DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_rewrite(regclass, name, text)
	IS 'store all values of a column again under its present options; logging: NULL to keep the mode, or logging, or filesystem_like_logging; returns the number of rows changed';

CREATE FUNCTION securefile_set_tablespace("table" regclass, "column" name, tablespace name) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_set_tablespace(regclass, name, name)
	IS 'move the stored values of a column to another tablespace; the table stays where it is';

CREATE FUNCTION securefile_ddl_command_end() RETURNS event_trigger
	AS 'MODULE_PATHNAME' LANGUAGE C;
REVOKE ALL ON FUNCTION securefile_ddl_command_end() FROM PUBLIC;
COMMENT ON FUNCTION securefile_ddl_command_end()
	IS 'event trigger: make and drop segments and triggers of securefile columns as tables change';
CREATE EVENT TRIGGER securefile_ddl ON ddl_command_end
	EXECUTE FUNCTION securefile_ddl_command_end();
ALTER EVENT TRIGGER securefile_ddl ENABLE ALWAYS;

-- ---------------------------------------------------------------------
-- check and monitor
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_check(
	"table" regclass,
	"column" name,
	OUT finding text,
	OUT ctid tid,
	OUT segment_offset bigint,
	OUT length_bytes bigint,
	OUT detail text
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_check(regclass, name)
	IS 'verify all values of a column and the pages of its segment: one row for each finding, with the row of the table, the place in the segment (in bytes, from 0) and the number of bytes; no row: the column is sound';

CREATE FUNCTION securefile_repair(
	"table" regclass,
	"column" name,
	dry_run boolean DEFAULT true,
	OUT finding text,
	OUT ctid tid,
	OUT segment_offset bigint,
	OUT length_bytes bigint,
	OUT detail text,
	OUT action text
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_repair(regclass, name, boolean)
	IS 'make the space map and the page lists of a column anew from its live rows; values never change; dry_run (default true): only say what it would do; one row for each finding, as of securefile_check(), and the action';

CREATE FUNCTION securefile_maintain(
	"table" regclass,
	"column" name,
	OUT entries_seen bigint,
	OUT entries_resolved bigint,
	OUT bytes_freed bigint,
	OUT pages_freed bigint,
	OUT bytes_grown bigint,
	OUT bytes_cut bigint,
	OUT oldest_unresolved xid8,
	OUT orphans_removed integer
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_maintain(regclass, name)
	IS 'do the work of the free-space monitor for one column now; returns counts of entries, pages and bytes';

CREATE FUNCTION securefile_upgrade_finish(
	OUT schemaname name,
	OUT relname name,
	OUT attname name,
	OUT relid oid,
	OUT file_bytes bigint
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_upgrade_finish()
	IS 'after pg_upgrade, once in each database: give the columns their segments back; one row for each column, with the size of its files in bytes';
REVOKE ALL ON FUNCTION securefile_upgrade_finish() FROM PUBLIC;

CREATE FUNCTION securefile_usage(
	"table" regclass,
	"column" name,
	OUT file_bytes bigint,
	OUT live_bytes bigint,
	OUT pending_bytes bigint,
	OUT free_bytes bigint,
	OUT metadata_bytes bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_usage(regclass, name)
	IS 'space of a column in bytes: live + pending + free = file; metadata_bytes are outside the file';

-- Views name a column as pg_stat_user_tables names a table: by names that need no
-- quotes in a query and do not change with the search_path, as the text of a regclass
-- does, and by relid for joins and for arguments.

-- Behind securefile_columns; what the catalogs and file sizes show anybody.

CREATE FUNCTION securefile_column_info(
	table_oid oid,
	attnum smallint,
	OUT options text,
	OUT segment_relid oid,
	OUT data_files text,
	OUT logging text,
	OUT cache text,
	OUT file_bytes bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_column_info(oid, smallint)
	IS 'options, segment and size in bytes of a column, given by table OID and column number; see securefile_columns';

CREATE FUNCTION securefile_object_bytes(table_oid oid, attnum smallint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_object_bytes(oid, smallint)
	IS 'bytes of the segment that values of a column take, given by table OID and column number; see securefile_columns';

CREATE VIEW securefile_columns AS
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
	i.file_bytes
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
	IS 'securefile columns of this database: options, segment, tablespace, data files, sizes in bytes';
GRANT SELECT ON securefile_columns TO PUBLIC;

CREATE FUNCTION securefile_monitor_state(
	OUT state text,
	OUT launcher_pid integer,
	OUT worker_pid integer,
	OUT worker_db oid,
	OUT passes bigint,
	OUT last_pass timestamptz,
	OUT workers bigint,
	OUT failures bigint,
	OUT last_failure text,
	OUT last_failure_time timestamptz
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_monitor_state() IS 'state of the free-space monitor; see securefile_monitor';

CREATE VIEW securefile_monitor AS
SELECT s.state,
	s.launcher_pid,
	s.worker_pid,
	d.datname AS worker_database,
	s.passes,
	s.last_pass,
	s.workers,
	s.failures,
	s.last_failure,
	s.last_failure_time
FROM securefile_monitor_state() s
	LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.worker_db;
COMMENT ON VIEW securefile_monitor
	IS 'the free-space monitor: its processes, how many passes it made, its failures';
GRANT SELECT ON securefile_monitor TO PUBLIC;

-- ---------------------------------------------------------------------
-- statistics
-- ---------------------------------------------------------------------

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
	OUT flushes bigint,
	OUT nontransformed_flushes bigint,
	OUT stats_reset timestamptz
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_stat_columns()
	IS 'cumulative statistics by table OID and column number, times in microseconds; see securefile_stat';

CREATE FUNCTION securefile_stat_reset() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_stat_reset()
	IS 'set the statistics of the columns of all tables that the caller owns to zero';

CREATE FUNCTION securefile_kept_memory(
	OUT total_bytes bigint,
	OUT processes integer,
	OUT own_bytes bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_kept_memory()
	IS 'memory in bytes that server processes keep between transactions: of all processes, how many keep any, of this session';

CREATE FUNCTION securefile_version(
	OUT library text,
	OUT extension text,
	OUT locator_format integer,
	OUT page_format integer,
	OUT built_for text,
	OUT build_options text
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_version()
	IS 'versions of the library, of the SQL objects, and of the formats that they write; the PostgreSQL it was built for; build options';

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
