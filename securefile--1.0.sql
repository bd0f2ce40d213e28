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

-- What the planner is told: how much functions cost that read values.  A function that reads all
-- of its argument; the same if nothing is kept; two that are compared; a part.
CREATE FUNCTION securefile_support_whole(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_support_whole(internal)
	IS 'planner support: cost of functions that read all of a value';

CREATE FUNCTION securefile_support_kept(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_support_kept(internal)
	IS 'planner support: cost of functions that read all of a value, unless its column keeps the answer';

CREATE FUNCTION securefile_support_equal(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_support_equal(internal)
	IS 'planner support: cost of functions that read two values, if they are of one length';

CREATE FUNCTION securefile_support_part(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_support_part(internal)
	IS 'planner support: cost of functions that read a part of a value';

CREATE FUNCTION securefile_from_bytea(bytea) RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_from_bytea(bytea)
	IS 'convert bytea to securefile (a copy in memory)';

CREATE FUNCTION securefile_to_bytea(securefile) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE
	SUPPORT securefile_support_whole;
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
	AS 'MODULE_PATHNAME', 'securefile_substring' LANGUAGE C STABLE STRICT PARALLEL SAFE
	SUPPORT securefile_support_part;
COMMENT ON FUNCTION pg_catalog.substring(securefile, integer, integer)
	IS 'bytes of a file: position of the first byte (1 is the first), number of bytes (0 or more); reads only the 128 kB units that it touches';

CREATE FUNCTION pg_catalog.substring(securefile, integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'securefile_substring_rest' LANGUAGE C STABLE STRICT PARALLEL SAFE
	SUPPORT securefile_support_part;
COMMENT ON FUNCTION pg_catalog.substring(securefile, integer)
	IS 'bytes of a file, from a position (the first byte is 1) to the end, at most 1 GB';

-- The bigint forms take a domain: so they are a worse match than the integer
-- forms, and smallint or untyped arguments (a driver's parameters) are not
-- ambiguous between the two.

CREATE DOMAIN securefile_wide AS securefile;
COMMENT ON DOMAIN securefile_wide
	IS 'first argument of substring() and overlay() with positions of type bigint; internal, nobody has to write it';

CREATE FUNCTION pg_catalog.substring(securefile_wide, bigint, bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'securefile_substring_big' LANGUAGE C STABLE STRICT PARALLEL SAFE
	SUPPORT securefile_support_part;
COMMENT ON FUNCTION pg_catalog.substring(securefile_wide, bigint, bigint)
	IS 'bytes of a file: position of the first byte (1 is the first, of type bigint), number of bytes (0 to 1 GB)';

CREATE FUNCTION pg_catalog.substring(securefile_wide, bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'securefile_substring_big_rest' LANGUAGE C STABLE STRICT PARALLEL SAFE
	SUPPORT securefile_support_part;
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

CREATE FUNCTION securefile_lines(document securefile, encoding name DEFAULT 'UTF8')
	RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100 ROWS 1000
	SUPPORT securefile_support_whole;
COMMENT ON FUNCTION securefile_lines(securefile, name)
	IS 'lines of a file that is text in that encoding, in order, without their line feeds and a carriage return before one; in a SELECT list no more is read than rows are taken';

CREATE FUNCTION securefile_salvage(document securefile, OUT start bigint, OUT length bigint,
								   OUT data bytea, OUT problem text) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL UNSAFE COST 100 ROWS 1000;
COMMENT ON FUNCTION securefile_salvage(securefile)
	IS 'a damaged file, one row for each 128 kB: position of the first byte (from 1), length in bytes, and the data if it is sound, else the problem';

-- Edited values: they say what they consist of; storing one over what it was
-- made from writes only what is new.  Without operators of its own,
-- document || '\x00' would be taken as text, and document || bytea read the
-- document whole.  They are made of their arguments alone: distributed tables
-- take such functions only if they are immutable; DDL refuses indexes on them.

CREATE FUNCTION securefile_concat(securefile, securefile) RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_concat(securefile, securefile) IS 'implementation of || operator';

CREATE FUNCTION securefile_concat(securefile, bytea) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_concat_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_concat(securefile, bytea) IS 'implementation of || operator';

CREATE FUNCTION securefile_concat(bytea, securefile) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_prepend' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
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
	AS 'MODULE_PATHNAME', 'securefile_overlay' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.overlay(securefile, bytea, integer, integer)
	IS 'put bytes in the place of others: new bytes, position of the first byte to replace (from 1), number of bytes to replace (0 or more)';

CREATE FUNCTION pg_catalog.overlay(securefile, bytea, integer) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_overlay_all' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.overlay(securefile, bytea, integer)
	IS 'put bytes in the place of as many others: new bytes, position of the first byte to replace (from 1)';

-- as for substring()
CREATE FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint, bigint) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_overlay_big' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint, bigint)
	IS 'put bytes in the place of others: new bytes, position of the first byte to replace (from 1, of type bigint), number of bytes to replace (0 or more)';

CREATE FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_overlay_all_big' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pg_catalog.overlay(securefile_wide, bytea, bigint)
	IS 'put bytes in the place of as many others: new bytes, position of the first byte to replace (from 1, of type bigint)';

CREATE FUNCTION securefile_truncate(securefile, length bigint) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_truncate_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_truncate(securefile, bigint)
	IS 'a file of length bytes (0 or more): its first bytes, and zeros behind its end';

-- A form of overlay() that places a securefile would make a literal or an untyped
-- parameter ambiguous (42725), so it has a name of its own.

CREATE FUNCTION securefile_overlay(document securefile, placed securefile, start bigint,
								   count bigint DEFAULT NULL) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_overlay_value' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION securefile_overlay(securefile, securefile, bigint, bigint)
	IS 'put another file in the place of count bytes (NULL: as many as it has) from position start on (the first byte is 1)';

CREATE FUNCTION securefile_part(document securefile, start bigint, count bigint DEFAULT NULL)
	RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION securefile_part(securefile, bigint, bigint)
	IS 'count bytes of a file (0 or more; NULL: to the end) from position start on (the first byte is 1), as a file; reads nothing';

CREATE FUNCTION securefile_erase(document securefile, start bigint, count bigint)
	RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_erase_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_erase(securefile, bigint, bigint)
	IS 'a file with zeros in the place of count bytes (0 or more) from position start on (the first byte is 1), as far as it has them';

CREATE FUNCTION securefile_insert(document securefile, start bigint, bytes securefile)
	RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_insert_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_insert(securefile, bigint, securefile)
	IS 'put bytes before the one at position start (the first byte is 1); behind the end of the file, zeros come between';

CREATE FUNCTION securefile_delete(document securefile, start bigint, count bigint)
	RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_delete_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_delete(securefile, bigint, bigint)
	IS 'a file without count bytes (0 or more) from position start on (the first byte is 1), as far as it has them';

CREATE FUNCTION securefile_move(document securefile, start bigint, count bigint,
								destination bigint) RETURNS securefile
	AS 'MODULE_PATHNAME', 'securefile_move_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_move(securefile, bigint, bigint, bigint)
	IS 'take count bytes (0 or more) from position start on (the first byte is 1) out of a file, and put them before the byte that was at position destination';

-- Values of many rows, one behind the other.  The state is not a securefile: it grows
-- in place.

CREATE FUNCTION securefile_agg_add(internal, securefile) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION securefile_agg_add(internal, securefile)
	IS 'aggregate transition function';

CREATE FUNCTION securefile_agg_add(internal, bytea) RETURNS internal
	AS 'MODULE_PATHNAME', 'securefile_agg_add_bytea' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION securefile_agg_add(internal, bytea)
	IS 'aggregate transition function';

CREATE FUNCTION securefile_agg_result(internal) RETURNS securefile
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION securefile_agg_result(internal) IS 'aggregate final function';

CREATE AGGREGATE securefile_agg(securefile) (
	SFUNC = securefile_agg_add, STYPE = internal, FINALFUNC = securefile_agg_result,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE securefile_agg(securefile)
	IS 'the files of all rows, one behind the other, as || makes it; reads and writes nothing until the result is stored';

CREATE AGGREGATE securefile_agg(bytea) (
	SFUNC = securefile_agg_add, STYPE = internal, FINALFUNC = securefile_agg_result,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE securefile_agg(bytea)
	IS 'the bytes of all rows, one behind the other, as a file';

-- Searching and comparing, without a copy in memory. position() is where SQL syntax looks for it.

CREATE FUNCTION pg_catalog.position(securefile, bytea) RETURNS bigint
	AS 'MODULE_PATHNAME', 'securefile_position_in' LANGUAGE C STABLE STRICT PARALLEL SAFE
	SUPPORT securefile_support_whole;
COMMENT ON FUNCTION pg_catalog.position(securefile, bytea)
	IS 'position of the first place in a file that has these bytes (the first byte is 1); 0: there is none; reads nothing behind it';

CREATE FUNCTION securefile_position(document securefile, pattern bytea, start bigint DEFAULT 1, nth bigint DEFAULT 1) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE
	SUPPORT securefile_support_whole;
COMMENT ON FUNCTION securefile_position(securefile, bytea, bigint, bigint)
	IS 'position of the nth place in a file, from position start on, that has these bytes (the first byte is 1; places may overlap); a negative start counts from the end (-1: the last byte), and searches backwards; 0: there is none';

CREATE FUNCTION securefile_positions(document securefile, pattern bytea, start bigint DEFAULT 1) RETURNS SETOF bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE
	SUPPORT securefile_support_whole;
COMMENT ON FUNCTION securefile_positions(securefile, bytea, bigint)
	IS 'positions of all places in a file that have these bytes, as securefile_position() finds one after the other; reads no further than rows are fetched';

CREATE FUNCTION securefile_compare(a securefile, b securefile, count bigint DEFAULT NULL, start_a bigint DEFAULT 1, start_b bigint DEFAULT 1)
	RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE
	SUPPORT securefile_support_equal;
COMMENT ON FUNCTION securefile_compare(securefile, securefile, bigint, bigint, bigint)
	IS 'order of the bytes of two files: -1, 0 or 1; of count bytes (NULL: all), from positions start_a and start_b on (the first byte is 1); reads nothing behind the first byte that differs';

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

CREATE FUNCTION securefile_erase(handle integer, count bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'securefile_erase_handle' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_erase(integer, bigint)
	IS 'make count bytes (0 or more) from the position of a handle on zeros, none behind the end; the position stays; returns how many';

CREATE FUNCTION securefile_insert(handle integer, bytes bytea) RETURNS integer
	AS 'MODULE_PATHNAME', 'securefile_insert_handle' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_insert(integer, bytea)
	IS 'insert bytes at the position of a handle that was created, or opened with rw; what follows moves back; moves the position; returns the number of bytes';

CREATE FUNCTION securefile_delete(handle integer, count bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'securefile_delete_handle' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_delete(integer, bigint)
	IS 'take count bytes (0 or more) from the position of a handle on out of its file, none behind the end; what follows moves to the front; the position stays; returns how many';

CREATE FUNCTION securefile_search(handle integer, pattern bytea) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_search(integer, bytea)
	IS 'where a pattern of bytes is next, from the position of a handle on (the first byte is 0), or -1; the position stays';

CREATE FUNCTION securefile_copy(target integer, source integer, count bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_copy(integer, integer, bigint)
	IS 'copy count bytes (0 or more; NULL: all) from the position of a handle to that of another; moves both positions; returns how many';

CREATE FUNCTION securefile_copy(target integer, document securefile, start bigint DEFAULT 1, count bigint DEFAULT NULL)
	RETURNS bigint
	AS 'MODULE_PATHNAME', 'securefile_copy_value' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_copy(integer, securefile, bigint, bigint)
	IS 'copy count bytes (0 or more; NULL: all) of a file, from position start (1 or more), to the position of a handle; moves the position; returns how many';

CREATE FUNCTION securefile_load(handle integer, path text, start bigint DEFAULT 0, count bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_load(integer, text, bigint, bigint)
	IS 'copy count bytes (0 or more; NULL: all) of a file of the server, from byte start (0 or more), to the position of a handle; moves the position; returns how many; for roles with pg_read_server_files';

CREATE FUNCTION securefile_save(document securefile, path text, overwrite boolean DEFAULT false) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_save(securefile, text, boolean)
	IS 'write a file into a file of the server, whose path is absolute; returns the number of bytes; for roles with pg_write_server_files';

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
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
	SUPPORT securefile_support_equal;
COMMENT ON FUNCTION securefile_eq(securefile, securefile) IS 'implementation of = operator';

CREATE FUNCTION securefile_eq(securefile, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'securefile_eq_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
	SUPPORT securefile_support_equal;
COMMENT ON FUNCTION securefile_eq(securefile, bytea) IS 'implementation of = operator';

CREATE FUNCTION securefile_eq(bytea, securefile) RETURNS boolean
	AS 'MODULE_PATHNAME', 'securefile_bytea_eq' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
	SUPPORT securefile_support_equal;
COMMENT ON FUNCTION securefile_eq(bytea, securefile) IS 'implementation of = operator';

CREATE FUNCTION securefile_ne(securefile, securefile) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
	SUPPORT securefile_support_equal;
COMMENT ON FUNCTION securefile_ne(securefile, securefile) IS 'implementation of <> operator';

CREATE FUNCTION securefile_ne(securefile, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'securefile_ne_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
	SUPPORT securefile_support_equal;
COMMENT ON FUNCTION securefile_ne(securefile, bytea) IS 'implementation of <> operator';

CREATE FUNCTION securefile_ne(bytea, securefile) RETURNS boolean
	AS 'MODULE_PATHNAME', 'securefile_bytea_ne' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
	SUPPORT securefile_support_equal;
COMMENT ON FUNCTION securefile_ne(bytea, securefile) IS 'implementation of <> operator';

CREATE FUNCTION securefile_hash(securefile) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
	SUPPORT securefile_support_whole;
COMMENT ON FUNCTION securefile_hash(securefile) IS 'hash of the content: low 32 bits of XXH3';

CREATE FUNCTION securefile_hash_extended(securefile, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
	SUPPORT securefile_support_whole;
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
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
	SUPPORT securefile_support_whole;
COMMENT ON FUNCTION securefile_digest(securefile, text)
	IS 'digest of the content, of any length; algorithm: sha256 (32 bytes), sha512 or blake2b (64), xxh3 (8) or md5 (16)';

CREATE FUNCTION securefile_digest(document securefile) RETURNS bytea
	AS 'MODULE_PATHNAME', 'securefile_content_digest' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT securefile_support_kept;
COMMENT ON FUNCTION securefile_digest(securefile)
	IS 'SHA-256 of the content, as it was when it was stored in a column with the option hash, without reading it; of other values it is computed';

CREATE FUNCTION securefile_kept_digest(document securefile) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_kept_digest(securefile)
	IS 'SHA-256 of the content if it is kept with it (column option hash), else null; reads no content';

CREATE FUNCTION securefile_storage(
	document securefile,
	OUT form text,
	OUT length bigint,
	OUT stored_bytes bigint,
	OUT units bigint,
	OUT compressed_units bigint,
	OUT codec text,
	OUT key_id integer,
	OUT hashed boolean,
	OUT pieces bigint,
	OUT unused_bytes bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_storage(securefile)
	IS 'how a file is stored: form (inline, stored, edited, unfilled), its length and what is stored of it in bytes, units of 128 kB, how many of them are compressed, and how; key_id: of its encryption, 0: none; hashed: its SHA-256 is kept with it; pieces, into which insertions and deletions have cut it, and unused_bytes of its units';

CREATE FUNCTION securefile_extents(
	document securefile,
	granule integer DEFAULT 8388608,
	OUT start bigint,
	OUT length bigint,
	OUT tag bytea
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100 ROWS 100;
COMMENT ON FUNCTION securefile_extents(securefile, integer)
	IS 'parts of a file of granule bytes (a multiple of 128 kB), without those that are one hole: the position of the first byte, counted from 1, the length in bytes, and an opaque tag; where two versions of a file of the same column have the same tag at the same start and length, they have the same bytes; null: no tag, read it; reads no content';

-- Values that pg_dump leaves out, or cannot write.

CREATE FUNCTION securefile_unfilled(document securefile) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_unfilled(securefile)
	IS 'true for a file that a dump has left out and that was not restored yet: its length is known, and reading it is an error';

CREATE FUNCTION securefile_unfilled_digest(document securefile) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_unfilled_digest(securefile)
	IS 'SHA-256 that a file had which a dump has left out, if the dump had it; null if not, and for every other file';

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

CREATE FUNCTION securefile_set_max_size("table" regclass, "column" name, max_size text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_set_max_size(regclass, name, text)
	IS 'change the limit of a column, such as 96 GB, or none; of all partitions, and also while views use the column';

CREATE FUNCTION securefile_rewrite_some("table" regclass, "column" name,
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

CREATE PROCEDURE securefile_rewrite_online("table" regclass, "column" name,
	batch_bytes bigint DEFAULT 67108864,
	only_keys boolean DEFAULT false
)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE securefile_rewrite_online(regclass, name, bigint, boolean)
	IS 'store all values of a column again, with its options and key of today, while the table is in use; commits after each batch of about batch_bytes; only_keys: only values that are not encrypted with the current key, or not plain where the column does not encrypt';

CREATE PROCEDURE securefile_migrate("table" regclass, "column" name,
	to_type text DEFAULT NULL,
	batch_rows bigint DEFAULT 1000,
	batch_bytes bigint DEFAULT 67108864,
	dry_run boolean DEFAULT false,
	verify boolean DEFAULT true,
	"unlink" boolean DEFAULT false,
	keep_old boolean DEFAULT false,
	missing text DEFAULT 'error',
	published boolean DEFAULT false,
	lock_timeout bigint DEFAULT 1000,
	lock_tries bigint DEFAULT 100,
	"abort" boolean DEFAULT false
)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE securefile_migrate(regclass, name, text, bigint, bigint, boolean, boolean, boolean, boolean, text, boolean, bigint, bigint, boolean)
	IS 'change the type of a column while the table is in use: from bytea or oid (large objects) to securefile, or back; to_type: NULL for securefile; commits after each batch, goes on where an interrupted call has stopped, and locks the table for moments only';

CREATE FUNCTION securefile_migrate_report("table" regclass, "column" name,
	to_type text DEFAULT NULL,
	missing text DEFAULT 'error',
	"unlink" boolean DEFAULT false,
	published boolean DEFAULT false,
	OUT kind text,
	OUT object text,
	OUT action text,
	OUT detail text
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_migrate_report(regclass, name, text, text, boolean, boolean)
	IS 'what securefile_migrate() would do to a column and what depends on it: kept, rebuilt, lost, refuses';

CREATE FUNCTION securefile_migrate_follow() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION securefile_migrate_follow()
	IS 'trigger of a table that is being migrated: the new column follows the old one';

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
-- keys
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

CREATE FUNCTION securefile_keys("table" regclass, "column" name,
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

CREATE FUNCTION securefile_rewrap("table" regclass, "column" name,
	master_key text DEFAULT NULL
) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_rewrap(regclass, name, text)
	IS 'wrap the data keys of a column with the current master key, or with the named one; returns how many were wrapped with another one; holds at once, and is not rolled back';

CREATE FUNCTION securefile_new_key("table" regclass, "column" name,
	distrust boolean DEFAULT false
) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_new_key(regclass, name, boolean)
	IS 'make a new data key for new values of a column, and return its number (of a partitioned table the highest one); those that there are become old, or distrusted; holds at once, and is not rolled back';

CREATE FUNCTION securefile_shred("table" regclass, "column" name,
	force boolean DEFAULT false
) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_shred(regclass, name, boolean)
	IS 'destroy all data keys of a column when the transaction commits, so that no encrypted value of it can be read any more; returns how many there were; refused where there are such values, unless forced';

-- ---------------------------------------------------------------------
-- compression and deduplication
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_train("table" regclass, "column" name,
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

CREATE FUNCTION securefile_estimate("table" regclass, "column" name,
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

CREATE FUNCTION securefile_duplicates("table" regclass, "column" name,
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
-- check and monitor
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_check("table" regclass, "column" name,
	OUT finding text,
	OUT ctid tid,
	OUT segment_offset bigint,
	OUT length_bytes bigint,
	OUT detail text
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_check(regclass, name)
	IS 'verify all values of a column and the pages of its segment: one row for each finding, with the row of the table, the place in the segment (in bytes, from 0) and the number of bytes; no row: the column is sound';

CREATE FUNCTION securefile_repair("table" regclass, "column" name,
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

CREATE FUNCTION securefile_maintain("table" regclass, "column" name,
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

CREATE FUNCTION securefile_usage("table" regclass, "column" name,
	OUT file_bytes bigint,
	OUT live_bytes bigint,
	OUT pending_bytes bigint,
	OUT free_bytes bigint,
	OUT metadata_bytes bigint,
	OUT plain_bytes bigint,
	OUT ratio double precision,
	OUT shared_objects bigint,
	OUT shared_references bigint,
	OUT saved_bytes bigint,
	OUT disk_bytes bigint,
	OUT retained_bytes bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_usage(regclass, name)
	IS 'space of a column in bytes: live + pending + free = file; metadata_bytes are outside the file; plain_bytes, what the values in live_bytes hold, and ratio, of plain to live, are estimates as of the last ANALYZE; shared_objects are stored once for shared_references values, which saves saved_bytes; disk_bytes are what the files take of the file system; retained_bytes, of the pending ones, are kept by the column''s retention';

CREATE FUNCTION securefile_removed("table" regclass, "column" name,
	since timestamptz DEFAULT NULL,
	OUT removed_at timestamptz,
	OUT xid xid8,
	OUT row_key jsonb,
	OUT kind text,
	OUT length bigint,
	OUT document securefile
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_removed(regclass, name, timestamptz)
	IS 'values that rows have lost and that the column''s retention still keeps, since a time (NULL: all): when, by which transaction, the primary key of the row, how (deleted, replaced, moved to another partition), bytes, and the value; INSERT .. SELECT undeletes it';

CREATE FUNCTION securefile_purge("table" regclass, "column" name,
	older_than interval DEFAULT '0'
) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_purge(regclass, name, interval)
	IS 'end what a retention keeps of values that were removed longer ago than that (default: of all that have been removed); returns the bytes of the data files that became free; not taken back by a ROLLBACK';

CREATE PROCEDURE securefile_shrink("table" regclass, "column" name,
	mode text DEFAULT 'release',
	max_bytes_per_second bigint DEFAULT 0,
	batch_bytes bigint DEFAULT 67108864,
	allow_decoding boolean DEFAULT false,
	force boolean DEFAULT false
)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE securefile_shrink(regclass, name, text, bigint, bigint, boolean, boolean)
	IS 'have a column take less of the disk, while it is in use; commits. Mode "release": free space goes back to the file system where it lies; files keep their length and get holes; makes a checkpoint, and keeps writers out while rows are looked at. Mode "move": before that, values at the end of the files are stored again in front, about batch_bytes in a transaction, and the files are cut; max_bytes_per_second: 0 as securefile.shrink_rate says; allow_decoding: also where logical replication sends whole values; force: also values that are not in WAL';

CREATE FUNCTION securefile_shrink_some("table" regclass, "column" name,
	batch_bytes bigint DEFAULT 67108864,
	"position" text DEFAULT NULL,
	allow_decoding boolean DEFAULT false,
	force boolean DEFAULT false,
	OUT moved bigint,
	OUT moved_bytes bigint,
	OUT skipped bigint,
	OUT next_position text
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_shrink_some(regclass, name, bigint, text, boolean, boolean)
	IS 'move some values from the end of a column''s files to the front, and lock no more than their rows: about batch_bytes, or as many as take 100 ms, from a position on that the last call has returned (NULL: the begin); next_position: NULL when nothing is left; securefile_maintain() cuts the files then';

CREATE FUNCTION securefile_shrink_estimate("table" regclass, "column" name,
	OUT file_bytes bigint,
	OUT disk_bytes bigint,
	OUT live_bytes bigint,
	OUT releasable_bytes bigint,
	OUT movable_bytes bigint,
	OUT target_bytes bigint,
	OUT rows_to_move_estimate bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_shrink_estimate(regclass, name)
	IS 'what a column could give back, in bytes: releasable_bytes become holes, at best; when movable_bytes that lie high have moved to low places the files take target_bytes; reads no rows, so the number of rows to move is an estimate as of the last ANALYZE';

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

-- Views name a column as pg_stat_user_tables names a table: by names that need no
-- quotes in a query and do not change with the search_path, as the text of a regclass
-- does, and by relid for joins and for arguments.

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

-- UNSAFE: pages of maps that are read for it may be damaged, which a subtransaction has to catch.
CREATE FUNCTION securefile_object_bytes(table_oid oid, attnum smallint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_object_bytes(oid, smallint)
	IS 'bytes of the segment that values of a column take, given by table OID and column number; see securefile_columns';

-- Behind securefile_columns, like its neighbours.
CREATE FUNCTION securefile_column_ratio(table_oid oid, attnum smallint) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_column_ratio(oid, smallint)
	IS 'bytes of values for each byte that they take in the segment, as of the last ANALYZE, of a column given by table OID and column number; see securefile_columns';

CREATE VIEW securefile_columns AS
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
GRANT SELECT ON securefile_columns TO PUBLIC;

-- Behind securefile_oversize(), for one column.
CREATE FUNCTION securefile_column_oversize(
	table_oid oid,
	attnum smallint,
	limit_bytes bigint,
	OUT oversize bigint,
	OUT largest bigint,
	OUT unfilled bigint
) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION securefile_column_oversize(oid, smallint, bigint)
	IS 'securefile_oversize() for one column, given by table OID and column number; null where the caller may not read it';

CREATE FUNCTION securefile_oversize(
	limit_bytes bigint DEFAULT NULL,
	OUT schemaname name,
	OUT relname name,
	OUT attname name,
	OUT relid oid,
	OUT oversize bigint,
	OUT largest bigint,
	OUT unfilled bigint
) RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT c.schemaname, c.relname, c.attname, c.relid, o.oversize, o.largest, o.unfilled
	FROM securefile_column_tables c
		CROSS JOIN LATERAL securefile_column_oversize(c.relid, c.attnum, limit_bytes) o
	WHERE c.relkind OPERATOR(pg_catalog.=) 'r'
		AND o.oversize OPERATOR(pg_catalog.+) o.unfilled OPERATOR(pg_catalog.>) 0
	ORDER BY c.schemaname, c.relname, c.attname;
END;
COMMENT ON FUNCTION securefile_oversize(bigint)
	IS 'columns with files that pg_dump cannot write: how many are longer than limit_bytes (null: securefile.dump_oversize_limit), the length of the largest in bytes, and how many were left out by a dump and not restored; over all tables that the caller may read';

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
	OUT skipped bigint,
	OUT operation text,
	OUT releasable_bytes bigint,
	OUT released_bytes bigint
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_progress_slots() IS 'what long commands on columns have done so far; see securefile_progress';

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
	s.skipped,
	s.operation,
	s.releasable_bytes,
	s.released_bytes
FROM securefile_progress_slots() s
	LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.database_oid
	LEFT JOIN LATERAL securefile_column_names(s.table_oid, s.attnum) c
		ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	LEFT JOIN pg_catalog.pg_attribute a ON c.relname IS NOT NULL
		AND a.attrelid OPERATOR(pg_catalog.=) s.table_oid AND a.attnum OPERATOR(pg_catalog.=) s.attnum;
COMMENT ON VIEW securefile_progress
	IS 'rewrites, migrations and releases of columns that are running, in all databases: how far each has come';
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
SELECT s.*
FROM securefile_syncer_state() s;
COMMENT ON VIEW securefile_syncer
	IS 'the syncer: its process, the data files whose flush is left to it, the longest waits in milliseconds';
GRANT SELECT ON securefile_syncer TO PUBLIC;

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
	OUT scanned_bytes bigint,
	OUT returned_bytes bigint,
	OUT skipped_bytes bigint,
	OUT units_read bigint,
	OUT units_cached bigint,
	OUT units_decompressed bigint,
	OUT stats_reset timestamptz
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION securefile_stat_columns()
	IS 'cumulative statistics by table OID and column number, times in microseconds; see securefile_stat';

CREATE FUNCTION securefile_stat_session_columns(
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
	OUT scanned_bytes bigint,
	OUT returned_bytes bigint,
	OUT skipped_bytes bigint,
	OUT units_read bigint,
	OUT units_cached bigint,
	OUT units_decompressed bigint
) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION securefile_stat_session_columns()
	IS 'what this session has counted so far, by table OID and column number, times in microseconds; OID 0: of no column; see securefile_stat_session';

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
	COALESCE(s.scanned_bytes, 0) AS scanned_bytes,
	COALESCE(s.returned_bytes, 0) AS returned_bytes,
	COALESCE(s.skipped_bytes, 0) AS skipped_bytes,
	COALESCE(s.units_read, 0) AS units_read,
	COALESCE(s.units_cached, 0) AS units_cached,
	COALESCE(s.units_decompressed, 0) AS units_decompressed,
	s.stats_reset
FROM securefile_column_tables c
	LEFT JOIN securefile_stat_columns() s
		ON s.table_oid OPERATOR(pg_catalog.=) c.relid AND s.attnum OPERATOR(pg_catalog.=) c.attnum
WHERE c.relkind OPERATOR(pg_catalog.=) 'r' AND c.segment_relid IS NOT NULL;
COMMENT ON VIEW securefile_stat
	IS 'cumulative statistics of each securefile column; times in milliseconds';
GRANT SELECT ON securefile_stat TO PUBLIC;

-- How much of what queries asked about stayed in the server.
CREATE VIEW securefile_scan AS
SELECT s.schemaname,
	s.relname,
	s.attname,
	s.relid,
	s.scanned_bytes,
	s.returned_bytes,
	s.skipped_bytes,
	(s.scanned_bytes::double precision OPERATOR(pg_catalog.+) s.skipped_bytes::double precision)
		OPERATOR(pg_catalog./) CASE WHEN t.total_bytes OPERATOR(pg_catalog.>) 0 THEN t.total_bytes END AS ratio,
	s.stats_reset
FROM securefile_stat s
	CROSS JOIN LATERAL (SELECT s.scanned_bytes::double precision OPERATOR(pg_catalog.+) s.skipped_bytes::double precision
		OPERATOR(pg_catalog.+) s.returned_bytes::double precision) t(total_bytes);
COMMENT ON VIEW securefile_scan
	IS 'bytes of values that functions read inside the server, that clients were given, and that no one had to read; ratio: the part of all these that was not given to clients';
GRANT SELECT ON securefile_scan TO PUBLIC;

-- The same counters as in securefile_stat, of this session; the last row is of no column.
CREATE VIEW securefile_stat_session AS
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
	COALESCE(s.scanned_bytes, 0) AS scanned_bytes,
	COALESCE(s.returned_bytes, 0) AS returned_bytes,
	COALESCE(s.skipped_bytes, 0) AS skipped_bytes,
	COALESCE(s.units_read, 0) AS units_read,
	COALESCE(s.units_cached, 0) AS units_cached,
	COALESCE(s.units_decompressed, 0) AS units_decompressed
FROM (SELECT t.schemaname, t.relname, t.attname, t.relid, t.attnum
		FROM securefile_column_tables t
		WHERE t.relkind OPERATOR(pg_catalog.=) 'r' AND t.segment_relid IS NOT NULL
		UNION ALL SELECT NULL, NULL, NULL, NULL, 0::pg_catalog.int2) c
	LEFT JOIN securefile_stat_session_columns() s
		ON s.table_oid OPERATOR(pg_catalog.=) COALESCE(c.relid, 0::pg_catalog.oid) AND s.attnum OPERATOR(pg_catalog.=) c.attnum;
COMMENT ON VIEW securefile_stat_session
	IS 'securefile_stat of this session up to now, with its parallel workers; the row with nulls has what belongs to no column: values that lie in their rows; times in milliseconds';
GRANT SELECT ON securefile_stat_session TO PUBLIC;

-- ---------------------------------------------------------------------
-- I/O: what the storage can do, and what processes do with it
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_io_calibrate("table" regclass, "column" name,
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
