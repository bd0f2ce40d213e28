/* securefile_citus--1.0.sql */

-- Functions and views for securefile columns of distributed tables of Citus.  The values of
-- such a table lie in its shards.  Each function here calls the function of securefile that
-- has the same name without "dist_" for each placement of each shard, on the node that has
-- it.  A node that cannot be asked, or an error there, is an error: no row is ever missing.
--
-- Connections to other nodes are those of Citus, as the current user.  What was done on one
-- node stays done when another one fails: these functions do not work in one transaction.
--
-- Names of tables and columns are chosen by others than the caller.  They come into the text
-- of a query by one format() only, whose result is not looked at for placeholders again.
-- There functions are named with their schema, and called with arguments of exactly their types,
-- so that none of the same name fits better.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION securefile_citus" to load this file. \quit

-- ---------------------------------------------------------------------
-- asking nodes
-- ---------------------------------------------------------------------

-- The schema of extension securefile, quoted.
CREATE FUNCTION securefile_dist_schema() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT quote_ident(n.nspname)
	FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
	WHERE e.extname = 'securefile'
$$;
COMMENT ON FUNCTION securefile_dist_schema() IS 'schema of extension securefile, quoted; internal';

CREATE FUNCTION securefile_dist_base_type(INOUT type oid, INOUT modifier integer)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	WHILE (SELECT t.typtype FROM pg_type t WHERE t.oid = type) = 'd' LOOP
		SELECT t.typbasetype, t.typtypmod INTO type, modifier FROM pg_type t WHERE t.oid = type;
	END LOOP;
END
$$;
COMMENT ON FUNCTION securefile_dist_base_type(oid, integer)
	IS 'what a domain is over, and its modifier; another type itself; internal';

CREATE FUNCTION securefile_dist_require("table" regclass, "column" name) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	type oid;
BEGIN
	IF "table" IS NULL OR "column" IS NULL THEN
		RAISE null_value_not_allowed USING MESSAGE = 'table and column must not be null';
	END IF;
	PERFORM FROM pg_dist_partition WHERE logicalrelid = "table";
	IF NOT FOUND THEN
		RAISE wrong_object_type USING
			MESSAGE = format('"%s" is not a distributed table', "table"),
			HINT = 'Call the function of securefile that has the same name without "dist_".';
	END IF;
	SELECT atttypid INTO type FROM pg_attribute WHERE attrelid = "table" AND attname = "column"
		AND attnum > 0 AND NOT attisdropped;
	IF NOT FOUND THEN
		RAISE undefined_column USING
			MESSAGE = format('column "%s" of relation "%s" does not exist', "column", "table");
	END IF;
	type := (SELECT b.type FROM @extschema@.securefile_dist_base_type(type, -1) b);
	IF type <> (@extschema@.securefile_dist_schema() || '.securefile')::regtype THEN
		RAISE datatype_mismatch USING
			MESSAGE = format('column "%s" of table "%s" is not of type securefile', "column", "table");
	END IF;
END
$$;
COMMENT ON FUNCTION securefile_dist_require(regclass, name)
	IS 'an error unless the table is distributed and has the securefile column; internal';

-- The name of a shard, with schema and quotes: shard_name() leaves the schema public out.
CREATE FUNCTION securefile_dist_shard_name("table" regclass, shardid bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('%I.%I', n.nspname, name[array_upper(name, 1)])
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
		parse_ident(shard_name("table", shardid)) name
	WHERE c.oid = "table"
$$;
COMMENT ON FUNCTION securefile_dist_shard_name(regclass, bigint)
	IS 'name of a shard, with schema and quotes; internal';

-- Run a query on each placement of each shard, which returns one value, of type jsonb.  It is
-- a template for format(): %1$s is the schema of securefile, %2$s the name of the shard, %3$L
-- the same as a literal, %4$I or %4$L the column, %5$L the argument.  A query that would wait for what this transaction has done on the nodes, whose
-- connections are others, is refused; one that only reads (waits is false) is not.
CREATE FUNCTION securefile_dist_on_shards("table" regclass, "column" name, template text, argument text, waits boolean,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer, OUT result jsonb
) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	places record;
	answer record;
BEGIN
	PERFORM @extschema@.securefile_dist_require("table", "column");
	IF waits AND (get_current_transaction_id()).transaction_number <> 0 THEN
		RAISE active_sql_transaction USING
			MESSAGE = 'the transaction has used distributed tables, whose locks the function would wait for',
			HINT = 'Call the function in a transaction of its own.';
	END IF;
	SELECT array_agg(p.shardid) AS shardids, array_agg(p.name) AS names,
		array_agg(p.nodename) AS nodenames, array_agg(p.nodeport) AS nodeports,
		array_agg(format(template, @extschema@.securefile_dist_schema(), p.name, p.name, "column", argument)) AS commands
	INTO places
	FROM (SELECT s.shardid, @extschema@.securefile_dist_shard_name("table", s.shardid) AS name,
			d.nodename::text, d.nodeport::integer
		FROM pg_dist_shard s JOIN pg_dist_shard_placement d ON d.shardid = s.shardid
		WHERE s.logicalrelid = "table"
		ORDER BY s.shardid, d.nodename, d.nodeport) p;
	FOR answer IN
		SELECT r.success, r.result, r.ordinality
		FROM master_run_on_worker(places.nodenames, places.nodeports, places.commands, true) WITH ORDINALITY r
		ORDER BY r.ordinality
	LOOP
		shardid := places.shardids[answer.ordinality];
		shard_name := places.names[answer.ordinality];
		nodename := places.nodenames[answer.ordinality];
		nodeport := places.nodeports[answer.ordinality];
		IF answer.success IS NOT TRUE THEN
			RAISE external_routine_exception USING
				MESSAGE = format('shard %s on node %s:%s: %s', shard_name, nodename, nodeport,
					regexp_replace(coalesce(answer.result, 'no answer'), '^ERROR:\s*', '')),
				HINT = 'Other shards may be done. The function can be called again.';
		END IF;
		-- a procedure that was called says no more than this
		result := CASE WHEN answer.result <> 'CALL' THEN answer.result::jsonb END;
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION securefile_dist_on_shards(regclass, name, text, text, boolean)
	IS 'what a query returns for each placement of each shard of a table; internal';

-- The same on each node: %1$s is the schema of securefile, %2$s that of this extension, %3$L and
-- so on are the arguments.
CREATE FUNCTION securefile_dist_on_nodes(template text, arguments text[],
	OUT nodename text, OUT nodeport integer, OUT result jsonb
) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	command text := format(template, VARIADIC ARRAY[@extschema@.securefile_dist_schema(), '@extschema@'] || arguments);
	answer record;
BEGIN
	FOR answer IN
		SELECT n.nodename, n.nodeport, r.success, r.result
		FROM run_command_on_all_nodes(command) r JOIN pg_dist_node n USING (nodeid) ORDER BY r.nodeid
	LOOP
		nodename := answer.nodename;
		nodeport := answer.nodeport;
		IF answer.success IS NOT TRUE THEN
			RAISE external_routine_exception USING
				MESSAGE = format('node %s:%s: %s', nodename, nodeport,
					regexp_replace(coalesce(answer.result, 'no answer'), '^ERROR:\s*', ''));
		END IF;
		result := answer.result::jsonb;
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION securefile_dist_on_nodes(text, text[]) IS 'what a query returns on each node; internal';

-- ---------------------------------------------------------------------
-- functions of securefile, for all shards
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_dist_usage("table" regclass, "column" name,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT file_bytes bigint, OUT live_bytes bigint, OUT pending_bytes bigint, OUT free_bytes bigint,
	OUT metadata_bytes bigint, OUT plain_bytes bigint, OUT ratio double precision,
	OUT shared_objects bigint, OUT shared_references bigint, OUT saved_bytes bigint,
	OUT disk_bytes bigint, OUT retained_bytes bigint
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, u.*
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(u) FROM %1$s.securefile_usage(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name) u'::text, NULL::text, false) s,
		jsonb_to_record(s.result) u(file_bytes bigint, live_bytes bigint, pending_bytes bigint,
			free_bytes bigint, metadata_bytes bigint, plain_bytes bigint, ratio double precision,
			shared_objects bigint, shared_references bigint, saved_bytes bigint,
			disk_bytes bigint, retained_bytes bigint)
$$;
COMMENT ON FUNCTION securefile_dist_usage(regclass, name)
	IS 'securefile_usage() of a column of a distributed table: sizes in bytes, one row for each placement of a shard';

CREATE FUNCTION securefile_dist_check("table" regclass, "column" name,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT finding text, OUT ctid tid, OUT segment_offset bigint, OUT length_bytes bigint, OUT detail text
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, f.*
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(f)), ''[]''::pg_catalog.jsonb) FROM %1$s.securefile_check(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name) f'::text, NULL::text, true) s,
		jsonb_to_recordset(s.result) f(finding text, ctid tid, segment_offset bigint,
			length_bytes bigint, detail text)
$$;
COMMENT ON FUNCTION securefile_dist_check(regclass, name)
	IS 'securefile_check() of a column of a distributed table: one row for each finding in a shard; no row: all shards are sound';

CREATE FUNCTION securefile_dist_repair("table" regclass, "column" name, dry_run boolean DEFAULT true,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT finding text, OUT ctid tid, OUT segment_offset bigint, OUT length_bytes bigint,
	OUT detail text, OUT action text
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, f.*
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(f)), ''[]''::pg_catalog.jsonb) FROM %1$s.securefile_repair(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.bool) f'::text,
			dry_run::text, true) s,
		jsonb_to_recordset(s.result) f(finding text, ctid tid, segment_offset bigint,
			length_bytes bigint, detail text, action text)
$$;
COMMENT ON FUNCTION securefile_dist_repair(regclass, name, boolean)
	IS 'securefile_repair() of a column of a distributed table, shard by shard; dry_run: only say what it would do';

CREATE FUNCTION securefile_dist_maintain("table" regclass, "column" name,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT entries_seen bigint, OUT entries_resolved bigint, OUT bytes_freed bigint,
	OUT pages_freed bigint, OUT bytes_grown bigint, OUT bytes_cut bigint,
	OUT oldest_unresolved xid8, OUT orphans_removed integer
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, m.*
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(m) FROM %1$s.securefile_maintain(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name) m'::text, NULL::text, true) s,
		jsonb_to_record(s.result) m(entries_seen bigint, entries_resolved bigint,
			bytes_freed bigint, pages_freed bigint, bytes_grown bigint, bytes_cut bigint,
			oldest_unresolved xid8, orphans_removed integer)
$$;
COMMENT ON FUNCTION securefile_dist_maintain(regclass, name)
	IS 'securefile_maintain() of a column of a distributed table: counts of entries, pages and bytes, one row for each placement of a shard';

CREATE FUNCTION securefile_dist_removed("table" regclass, "column" name, since timestamptz DEFAULT NULL,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT removed_at timestamptz, OUT xid xid8, OUT row_key jsonb, OUT kind text, OUT length bigint
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, r.*
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(''removed_at'', removed_at, ''xid'', xid, ''row_key'', row_key, ''kind'', kind, ''length'', length)), ''[]''::pg_catalog.jsonb) FROM %1$s.securefile_removed(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.timestamptz)'::text,
			since::text, false) s,
		jsonb_to_recordset(s.result) r(removed_at timestamptz, xid xid8, row_key jsonb, kind text, length bigint)
$$;
COMMENT ON FUNCTION securefile_dist_removed(regclass, name, timestamptz)
	IS 'securefile_removed() of a column of a distributed table, without the values: what each shard keeps; a shard that is moved leaves it behind';

CREATE FUNCTION securefile_dist_purge("table" regclass, "column" name, older_than interval DEFAULT '0',
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT freed_bytes bigint
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, (s.result #>> '{}')::bigint
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(%1$s.securefile_purge(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.interval))'::text,
			older_than::text, true) s
$$;
COMMENT ON FUNCTION securefile_dist_purge(regclass, name, interval)
	IS 'securefile_purge() of a column of a distributed table: the bytes that became free, one row for each placement of a shard';

CREATE FUNCTION securefile_dist_set_tablespace("table" regclass, "column" name, tablespace name,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(%1$s.securefile_set_tablespace(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.name)::pg_catalog.text)'::text,
			tablespace::text, true) s
$$;
COMMENT ON FUNCTION securefile_dist_set_tablespace(regclass, name, name)
	IS 'securefile_set_tablespace() of a column of a distributed table; each node has a tablespace of that name';

-- The shell of this node follows a change of the logging mode, unless it holds values still,
-- of the time before the table was distributed.  only_try: nothing is changed.
CREATE FUNCTION securefile_dist_set_shell("table" regclass, "column" name, logging text, only_try boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET citus.enable_ddl_propagation = off
AS $$
DECLARE
	old_type text := (SELECT format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = "table" AND attname = "column");
	words text[] := array_remove(regexp_split_to_array(coalesce(substring(old_type FROM '\((.*)\)$'), ''), ',\s*'), '');
BEGIN
	IF (SELECT t.typtype = 'd' FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
		WHERE a.attrelid = "table" AND a.attname = "column") THEN
		RAISE feature_not_supported USING
			MESSAGE = format('cannot change the logging mode of column "%s", whose type is a domain', "column");
	END IF;
	words := array_remove(array_remove(words, 'filesystem_like_logging'), 'logging');
	IF lower(logging) = 'filesystem_like_logging' THEN
		words := words || lower(logging);
	END IF;
	EXECUTE format('ALTER TABLE %s ALTER COLUMN %I TYPE %s', "table", "column",
		regexp_replace(old_type, '\(.*\)$', '')
			|| CASE WHEN cardinality(words) > 0 THEN '(' || array_to_string(words, ', ') || ')' ELSE '' END);
	IF only_try THEN
		RAISE SQLSTATE 'SFTRY';
	END IF;
EXCEPTION
	WHEN SQLSTATE 'SFTRY' THEN
		NULL;
	WHEN object_not_in_prerequisite_state THEN
		-- a hint would not come through to the coordinator
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('table "%s" still has the rows of the time before it was distributed; call truncate_local_data_after_distributing_table() first', "table");
END
$$;
COMMENT ON FUNCTION securefile_dist_set_shell(regclass, name, text, boolean)
	IS 'sets the logging mode of the empty shell of a distributed table on this node; internal';

CREATE FUNCTION securefile_dist_rewrite("table" regclass, "column" name, logging text DEFAULT NULL,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer, OUT rewritten bigint
) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF logging IS NOT NULL THEN
		PERFORM @extschema@.securefile_dist_require("table", "column");
		PERFORM @extschema@.securefile_dist_on_nodes(
			'SELECT pg_catalog.to_jsonb(%2$s.securefile_dist_set_shell(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.text, true)::pg_catalog.text)'::text,
			ARRAY["table"::text, "column"::text, logging]);
	END IF;
	-- the shards first: one that is moved before its turn is made by the shell, in the old mode
	RETURN QUERY
		SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, (s.result #>> '{}')::bigint
		FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(%1$s.securefile_rewrite(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.text))'::text, logging, true) s;
	IF logging IS NOT NULL THEN
		PERFORM @extschema@.securefile_dist_on_nodes(
			'SELECT pg_catalog.to_jsonb(%2$s.securefile_dist_set_shell(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.text, false)::pg_catalog.text)'::text,
			ARRAY["table"::text, "column"::text, logging]);
	END IF;
END
$$;
COMMENT ON FUNCTION securefile_dist_rewrite(regclass, name, text)
	IS 'securefile_rewrite() of a column of a distributed table: all shards, and with a logging mode (logging, filesystem_like_logging) then the table itself on all nodes; if it fails half-way it can be called again, and securefile_dist_columns shows what is left in the old mode; returns the number of rows changed in each shard';

-- ---------------------------------------------------------------------
-- the limit
-- ---------------------------------------------------------------------

-- The lock on the shell keeps moves and splits away: they make new shards like it.
CREATE FUNCTION securefile_dist_set_shell_max_size("table" regclass, "column" name, max_size text) RETURNS void
LANGUAGE c VOLATILE
AS '$libdir/securefile';
COMMENT ON FUNCTION securefile_dist_set_shell_max_size(regclass, name, text)
	IS 'changes the limit of a column of the shell of a distributed table on this node, and not of shards; internal';

CREATE FUNCTION securefile_dist_set_max_size("table" regclass, "column" name, max_size text,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer
) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM @extschema@.securefile_dist_require("table", "column");
	IF EXISTS (SELECT FROM pg_dist_local_group WHERE groupid <> 0) THEN
		RAISE feature_not_supported USING
			MESSAGE = format('the limit of table "%s" can be changed only on the coordinator', "table"),
			DETAIL = 'Citus makes new shards there, like the table of that node.',
			HINT = 'Connect to the coordinator.';
	END IF;
	PERFORM @extschema@.securefile_dist_set_shell_max_size("table", "column", max_size);
	RETURN QUERY
		SELECT s.shardid, s.shard_name, s.nodename, s.nodeport
		FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(%1$s.securefile_set_max_size(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.text)::pg_catalog.text)'::text,
			max_size, true) s;
	-- the shell of this node waits for nobody but this transaction
	PERFORM @extschema@.securefile_dist_on_nodes(
		'SELECT pg_catalog.to_jsonb(pg_catalog.count(%2$s.securefile_dist_set_shell_max_size(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.text)::pg_catalog.text))'
		' FROM pg_catalog.pg_dist_local_group WHERE groupid OPERATOR(pg_catalog.<>) 0'::text,
		ARRAY["table"::text, "column"::text, max_size]);
END
$$;
COMMENT ON FUNCTION securefile_dist_set_max_size(regclass, name, text)
	IS 'securefile_set_max_size() of a column of a distributed table, on the coordinator: the limit of each shard, and of the table itself on all nodes; if it fails half-way it can be called again, and securefile_dist_columns shows the shards that are left with the old limit';

-- ---------------------------------------------------------------------
-- dictionaries and keys: each shard has its own
-- ---------------------------------------------------------------------

CREATE FUNCTION securefile_dist_train("table" regclass, "column" name, sample_rows integer DEFAULT 10000,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT dictionary integer, OUT dictionary_bytes integer, OUT sampled_values bigint,
	OUT plain_bytes bigint, OUT stored_bytes bigint, OUT trained_bytes bigint
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, t.*
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(t) FROM %1$s.securefile_train(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.int4) t'::text,
			sample_rows::text, true) s,
		jsonb_to_record(s.result) t(dictionary integer, dictionary_bytes integer, sampled_values bigint,
			plain_bytes bigint, stored_bytes bigint, trained_bytes bigint)
$$;
COMMENT ON FUNCTION securefile_dist_train(regclass, name, integer)
	IS 'securefile_train() of a column of a distributed table: each shard learns a dictionary of its own, of which a move, a split or a rebalance leaves nothing';

CREATE FUNCTION securefile_dist_keys("table" regclass, "column" name, scan boolean DEFAULT false,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT key_id integer, OUT purpose text, OUT state text, OUT is_current boolean, OUT cipher text,
	OUT master_key text, OUT is_loaded boolean, OUT created timestamptz, OUT stored_values bigint
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, k.*
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(k)), ''[]''::pg_catalog.jsonb) FROM %1$s.securefile_keys(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.bool) k'::text,
			scan::text, false) s,
		jsonb_to_recordset(s.result) k(key_id integer, purpose text, state text, is_current boolean,
			cipher text, master_key text, is_loaded boolean, created timestamptz, stored_values bigint)
$$;
COMMENT ON FUNCTION securefile_dist_keys(regclass, name, boolean)
	IS 'securefile_keys() of a column of a distributed table: one row for each data key of a shard';

CREATE FUNCTION securefile_dist_new_key("table" regclass, "column" name, distrust boolean DEFAULT false,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer, OUT key_id integer
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, (s.result #>> '{}')::integer
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(%1$s.securefile_new_key(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.bool))'::text,
			distrust::text, true) s
$$;
COMMENT ON FUNCTION securefile_dist_new_key(regclass, name, boolean)
	IS 'securefile_new_key() of a column of a distributed table: the number of the new data key of each shard';

CREATE FUNCTION securefile_dist_rewrap("table" regclass, "column" name, master_key text DEFAULT NULL,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer, OUT rewrapped integer
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, (s.result #>> '{}')::integer
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(%1$s.securefile_rewrap(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.text))'::text,
			master_key, true) s
$$;
COMMENT ON FUNCTION securefile_dist_rewrap(regclass, name, text)
	IS 'securefile_rewrap() of a column of a distributed table: how many data keys of each shard were wrapped with another master key';

CREATE FUNCTION securefile_dist_shred("table" regclass, "column" name, force boolean DEFAULT false,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer, OUT shredded integer
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, (s.result #>> '{}')::integer
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(%1$s.securefile_shred(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.bool))'::text,
			force::text, true) s
$$;
COMMENT ON FUNCTION securefile_dist_shred(regclass, name, boolean)
	IS 'securefile_shred() of a column of a distributed table, shard by shard, each in a transaction of its own: how many data keys of each there were';

-- A procedure commits, and so can no function that asks for its result.  One shard after the
-- other would take longer; the shards of a node are done at the same time.
CREATE PROCEDURE securefile_dist_rewrite_online("table" regclass, "column" name,
	batch_bytes bigint DEFAULT 67108864, only_keys boolean DEFAULT false)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM @extschema@.securefile_dist_on_shards("table", "column",
		'CALL %1$s.securefile_rewrite_online(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.int8, '
			|| CASE WHEN only_keys THEN 'true' ELSE 'false' END || ')',
		batch_bytes::text, true);
END
$$;
COMMENT ON PROCEDURE securefile_dist_rewrite_online(regclass, name, bigint, boolean)
	IS 'securefile_rewrite_online() of a column of a distributed table, in all shards at the same time, while the table is in use';

CREATE PROCEDURE securefile_dist_shrink("table" regclass, "column" name, mode text DEFAULT 'release',
	max_bytes_per_second bigint DEFAULT 0, batch_bytes bigint DEFAULT 67108864,
	allow_decoding boolean DEFAULT false, force boolean DEFAULT false)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM @extschema@.securefile_dist_on_shards("table", "column",
		'CALL %1$s.securefile_shrink(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name, %5$L::pg_catalog.text, '
			|| quote_nullable(max_bytes_per_second::text) || '::pg_catalog.int8, '
			|| quote_nullable(batch_bytes::text) || '::pg_catalog.int8, '
			|| quote_nullable(allow_decoding::text) || '::pg_catalog.bool, '
			|| quote_nullable(force::text) || '::pg_catalog.bool)',
		mode, true);
END
$$;
COMMENT ON PROCEDURE securefile_dist_shrink(regclass, name, text, bigint, bigint, boolean, boolean)
	IS 'securefile_shrink() of a column of a distributed table, in all shards at the same time; max_bytes_per_second: in each of them';

CREATE FUNCTION securefile_dist_shrink_estimate("table" regclass, "column" name,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT file_bytes bigint, OUT disk_bytes bigint, OUT live_bytes bigint, OUT releasable_bytes bigint,
	OUT movable_bytes bigint, OUT target_bytes bigint, OUT rows_to_move_estimate bigint
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, e.*
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT pg_catalog.to_jsonb(e) FROM %1$s.securefile_shrink_estimate(%3$L::pg_catalog.regclass, %4$L::pg_catalog.name) e'::text, NULL::text, false) s,
		jsonb_to_record(s.result) e(file_bytes bigint, disk_bytes bigint, live_bytes bigint,
			releasable_bytes bigint, movable_bytes bigint, target_bytes bigint, rows_to_move_estimate bigint)
$$;
COMMENT ON FUNCTION securefile_dist_shrink_estimate(regclass, name)
	IS 'securefile_shrink_estimate() of a column of a distributed table: sizes in bytes, one row for each placement of a shard';

CREATE FUNCTION securefile_dist_master_keys(OUT nodename text, OUT nodeport integer, OUT name text, OUT is_current boolean)
RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT n.nodename, n.nodeport, k.*
	FROM @extschema@.securefile_dist_on_nodes(
			'SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(k)), ''[]''::pg_catalog.jsonb) FROM %1$s.securefile_master_keys() k'::text,
			'{}'::text[]) n,
		jsonb_to_recordset(n.result) k(name text, is_current boolean)
$$;
COMMENT ON FUNCTION securefile_dist_master_keys() IS 'securefile_master_keys() of each node';
REVOKE ALL ON FUNCTION securefile_dist_master_keys() FROM PUBLIC;

-- A shard that moves to a node without the key could not be written there.
CREATE FUNCTION securefile_dist_load_keys(OUT nodename text, OUT nodeport integer, OUT loaded integer)
RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	lacking record;
BEGIN
	RETURN QUERY SELECT n.nodename, n.nodeport, (n.result #>> '{}')::integer
		FROM @extschema@.securefile_dist_on_nodes('SELECT pg_catalog.to_jsonb(%1$s.securefile_load_keys())'::text, '{}'::text[]) n;
	SELECT d.nodename, d.nodeport, k.name INTO lacking
	FROM (SELECT array_agg(ROW(m.nodename, m.nodeport, m.name)::text) AS loaded, array_agg(DISTINCT m.name) AS names
			FROM @extschema@.securefile_dist_master_keys() m) m
		CROSS JOIN LATERAL unnest(m.names) k (name)
		JOIN pg_dist_node d ON d.noderole = 'primary' AND d.isactive
			AND ROW(d.nodename, d.nodeport, k.name)::text <> ALL (m.loaded)
	ORDER BY d.nodeid, k.name LIMIT 1;
	IF FOUND THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('node %s:%s has not loaded master key "%s", which another node has', lacking.nodename, lacking.nodeport, lacking.name),
			HINT = 'Add it to what securefile.key_command prints there, and call the function again.';
	END IF;
END
$$;
COMMENT ON FUNCTION securefile_dist_load_keys()
	IS 'securefile_load_keys() on each node: how many master keys it has loaded; an error if a node lacks one that another node has';
REVOKE ALL ON FUNCTION securefile_dist_load_keys() FROM PUBLIC;

-- What a node could not do is a WARNING there, which does not come through.
CREATE FUNCTION securefile_dist_rewrap_node() RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	rewrapped integer;
	others text[];
BEGIN
	EXECUTE format('SELECT %s.securefile_rewrap()', @extschema@.securefile_dist_schema()) INTO rewrapped;
	EXECUTE format('SELECT array_agg(DISTINCT k.master_key) FROM %1$s.securefile_columns c, %1$s.securefile_keys(c.relid, c.attname) k
		WHERE c.segment_relid IS NOT NULL AND NOT c.distributed
			AND k.master_key NOT IN (SELECT m.name FROM %1$s.securefile_master_keys() m WHERE m.is_current)',
		@extschema@.securefile_dist_schema()) INTO others;
	IF others IS NOT NULL THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('data keys are still wrapped with other master keys: %s', array_to_string(others, ', '));
	END IF;
	RETURN rewrapped;
END
$$;
COMMENT ON FUNCTION securefile_dist_rewrap_node()
	IS 'securefile_rewrap() on this node, and an error if a data key is left that another master key wraps; internal';
REVOKE ALL ON FUNCTION securefile_dist_rewrap_node() FROM PUBLIC;

CREATE FUNCTION securefile_dist_rewrap(OUT nodename text, OUT nodeport integer, OUT rewrapped integer) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT n.nodename, n.nodeport, (n.result #>> '{}')::integer
	FROM @extschema@.securefile_dist_on_nodes('SELECT pg_catalog.to_jsonb(%2$s.securefile_dist_rewrap_node())'::text, '{}'::text[]) n
$$;
COMMENT ON FUNCTION securefile_dist_rewrap()
	IS 'securefile_rewrap() on each node, for all columns of the database there: how many data keys were wrapped with another master key; an error if any is left';
REVOKE ALL ON FUNCTION securefile_dist_rewrap() FROM PUBLIC;

-- ---------------------------------------------------------------------
-- data that is not in WAL
-- ---------------------------------------------------------------------

-- One server has been in the place of one node: so only that node can fetch from it.
CREATE FUNCTION securefile_dist_fetch(conninfo text DEFAULT NULL, INOUT nodename text DEFAULT NULL, INOUT nodeport integer DEFAULT NULL,
	OUT schemaname name, OUT relname name, OUT attname name,
	OUT missing_values bigint, OUT missing_bytes bigint, OUT fetched_values bigint, OUT fetched_bytes bigint
) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wanted record;
	one record;
	host text := nodename;
	port integer := nodeport;
	found boolean := false;
BEGIN
	IF (host IS NULL) <> (port IS NULL) OR conninfo <> '' AND host IS NULL THEN
		RAISE invalid_parameter_value USING
			MESSAGE = 'the node that fetches from a server has to be named by host and port',
			DETAIL = 'Each node has another server that has its data.',
			HINT = 'pg_dist_node has the names and ports of nodes.';
	END IF;
	FOR wanted IN
		SELECT d.nodename::text, d.nodeport FROM pg_dist_node d
		WHERE d.noderole = 'primary' AND d.isactive AND (host IS NULL OR d.nodename = host AND d.nodeport = port)
		ORDER BY d.nodeid
	LOOP
		found := true;
		SELECT * INTO STRICT one FROM master_run_on_worker(ARRAY[wanted.nodename], ARRAY[wanted.nodeport],
			ARRAY[format('SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(f)), ''[]''::pg_catalog.jsonb) FROM %s.securefile_fetch_left_behind(%L::pg_catalog.text) f',
				@extschema@.securefile_dist_schema(), conninfo)], false);
		IF one.success IS NOT TRUE THEN
			RAISE external_routine_exception USING
				MESSAGE = format('node %s:%s: %s', wanted.nodename, wanted.nodeport,
					regexp_replace(coalesce(one.result, 'no answer'), '^ERROR:\s*', ''));
		END IF;
		RETURN QUERY SELECT wanted.nodename, wanted.nodeport, f.*
			FROM jsonb_to_recordset(one.result::jsonb) f(schemaname name, relname name, attname name,
				missing_values bigint, missing_bytes bigint, fetched_values bigint, fetched_bytes bigint);
	END LOOP;
	IF NOT found THEN
		RAISE undefined_object USING MESSAGE = format('there is no node %s:%s', host, port);
	END IF;
END
$$;
COMMENT ON FUNCTION securefile_dist_fetch(text, text, integer)
	IS 'securefile_fetch_left_behind() on a node, given by host and port, of all its tables, shards and others; without conninfo what is missing is only counted; empty: from where securefile.fetch_from says on that node; without a node: on all nodes';
REVOKE ALL ON FUNCTION securefile_dist_fetch(text, text, integer) FROM PUBLIC;

-- ---------------------------------------------------------------------
-- views over all nodes
-- ---------------------------------------------------------------------

-- The tables of this node that are shards, which Citus hides from queries of its users.
CREATE FUNCTION securefile_dist_local(view_name text, OUT shardid bigint, OUT row_json jsonb)
RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET citus.override_table_visibility = off
AS $$
BEGIN
	IF view_name NOT IN ('securefile_columns', 'securefile_stat') THEN
		RAISE invalid_parameter_value USING MESSAGE = format('unknown view "%s"', view_name);
	END IF;
	RETURN QUERY EXECUTE format(
		'SELECT d.shardid, to_jsonb(v)
		FROM %1$s.%2$I v JOIN pg_catalog.pg_dist_shard d
			ON d.shardid::text = substring(v.relname FROM ''_([0-9]+)$'')
				AND %3$s.securefile_dist_is_here(d.shardid)
				AND %3$s.securefile_dist_shard_name(d.logicalrelid, d.shardid) = format(''%%I.%%I'', v.schemaname, v.relname)',
		@extschema@.securefile_dist_schema(), view_name, '@extschema@');
END
$$;
COMMENT ON FUNCTION securefile_dist_local(text)
	IS 'rows of securefile_columns or securefile_stat for the shards of this node; internal';

CREATE FUNCTION securefile_dist_all(view_name text,
	OUT "table" regclass, OUT shardid bigint, OUT nodename text, OUT nodeport integer, OUT row_json jsonb)
RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.logicalrelid, s.shardid, n.nodename, n.nodeport, r.value -> 'row_json'
	FROM @extschema@.securefile_dist_on_nodes(
			'SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(l)), ''[]''::pg_catalog.jsonb) FROM %2$s.securefile_dist_local(%3$L::pg_catalog.text) l'::text,
			ARRAY[view_name]) n,
		jsonb_array_elements(n.result) r
		JOIN pg_dist_shard s ON s.shardid = (r.value ->> 'shardid')::bigint
$$;
COMMENT ON FUNCTION securefile_dist_all(text)
	IS 'rows of securefile_columns or securefile_stat for the shards of all nodes; internal';

CREATE VIEW securefile_dist_columns AS
SELECT d."table", c.attname, d.shardid, d.nodename, d.nodeport,
	c.options, c.tablespace, c.logging, c.cache, c.object_bytes, c.file_bytes, c.plain_bytes, c.ratio,
	c.logging IS DISTINCT FROM CASE WHEN b.words OPERATOR(pg_catalog.~) 'filesystem_like_logging'
		THEN 'filesystem_like_logging' ELSE 'logging' END AS differs_in_logging,
	pg_catalog.substring(c.options, 'max_size [^'']*') IS DISTINCT FROM pg_catalog.substring(b.words, 'max_size [^'']*')
		AS differs_in_limit
FROM securefile_dist_all('securefile_columns'::pg_catalog.text) d
	CROSS JOIN LATERAL pg_catalog.jsonb_to_record(d.row_json) c(attname name, options text, tablespace name,
		logging text, cache text, object_bytes bigint, file_bytes bigint, plain_bytes bigint, ratio double precision)
	JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) d."table"
		AND a.attname OPERATOR(pg_catalog.=) c.attname
	CROSS JOIN LATERAL (SELECT pg_catalog.format_type(t.type, t.modifier) AS words
		FROM securefile_dist_base_type(a.atttypid, a.atttypmod) t) b
WHERE c.file_bytes IS NOT NULL;
COMMENT ON VIEW securefile_dist_columns
	IS 'securefile_columns for the shards of all nodes: sizes in bytes; differs_in_logging: securefile_dist_rewrite() has not come to this shard, or to the table; differs_in_limit: likewise securefile_dist_set_max_size()';
GRANT SELECT ON securefile_dist_columns TO PUBLIC;

CREATE VIEW securefile_dist_stat AS
SELECT d."table", s.attname, d.shardid, d.nodename, d.nodeport,
	s.allocation_bytes, s.allocation_chunks, s.direct_read_bytes, s.direct_write_bytes,
	s.direct_read_ops, s.direct_write_ops, s.inode_read_time, s.inode_write_time, s.ioreap_time,
	s.bytes_nontransformed, s.bytes_transformed, s.bytes_transformed_stored, s.units_incompressible,
	s.compress_time, s.decompress_time, s.flushes, s.nontransformed_flushes,
	s.dedup_hits, s.dedup_bytes, s.dedup_mismatches, s.scanned_bytes, s.returned_bytes, s.skipped_bytes,
	s.units_read, s.units_cached, s.units_decompressed, s.stats_reset
FROM securefile_dist_all('securefile_stat'::pg_catalog.text) d
	CROSS JOIN LATERAL pg_catalog.jsonb_to_record(d.row_json) s(attname name,
		allocation_bytes bigint, allocation_chunks bigint, direct_read_bytes bigint, direct_write_bytes bigint,
		direct_read_ops bigint, direct_write_ops bigint, inode_read_time double precision,
		inode_write_time double precision, ioreap_time double precision, bytes_nontransformed bigint,
		bytes_transformed bigint, bytes_transformed_stored bigint, units_incompressible bigint,
		compress_time double precision, decompress_time double precision, flushes bigint,
		nontransformed_flushes bigint, dedup_hits bigint, dedup_bytes bigint, dedup_mismatches bigint,
		scanned_bytes bigint, returned_bytes bigint, skipped_bytes bigint,
		units_read bigint, units_cached bigint, units_decompressed bigint,
		stats_reset timestamptz);
COMMENT ON VIEW securefile_dist_stat
	IS 'securefile_stat for the shards of all nodes: bytes, counts, and times in milliseconds, since stats_reset';
GRANT SELECT ON securefile_dist_stat TO PUBLIC;

CREATE VIEW securefile_dist_monitor AS
SELECT n.nodename, n.nodeport, m.*
FROM securefile_dist_on_nodes('SELECT pg_catalog.to_jsonb(m) FROM %1$s.securefile_monitor m'::pg_catalog.text, '{}'::pg_catalog.text[]) n
	CROSS JOIN LATERAL pg_catalog.jsonb_to_record(n.result) m(state text, launcher_pid integer, worker_pid integer,
		worker_database name, passes bigint, last_pass timestamptz, workers bigint, failures bigint,
		last_failure text, last_failure_time timestamptz);
COMMENT ON VIEW securefile_dist_monitor IS 'securefile_monitor of each node';
GRANT SELECT ON securefile_dist_monitor TO PUBLIC;

-- ---------------------------------------------------------------------
-- routes: values go between a client and the node that has their shard
-- ---------------------------------------------------------------------

-- Keys of these types are hashed by what differs between nodes (an enum), or cannot be unnested.
CREATE FUNCTION securefile_dist_routable("table" regclass) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM pg_dist_partition p
		WHERE p.logicalrelid = "table" AND p.repmodel = 's'
			AND (p.partmethod = 'n' OR p.partmethod = 'h' AND EXISTS (
				SELECT FROM pg_attribute a, @extschema@.securefile_dist_base_type(a.atttypid, a.atttypmod) b
					JOIN pg_type t ON t.oid = b.type
				WHERE a.attrelid = p.logicalrelid AND a.attname = column_to_column_name(p.logicalrelid, p.partkey)
					AND t.typtype NOT IN ('e', 'c') AND t.typcategory <> 'A')))
$$;
COMMENT ON FUNCTION securefile_dist_routable(regclass)
	IS 'can securefile_dist_route() find the shard of a key of the table?; internal';

-- The input function of the column's type makes values of keys: not a cast, nor the constraint of
-- a domain, which others may have made.
CREATE FUNCTION securefile_dist_routes("table" regclass, keys text[],
	OUT key text, OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer
) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	part record;
	type oid;
	modifier integer;
	shard_of_key text;
BEGIN
	SELECT p.*, a.atttypid, a.atttypmod INTO part
	FROM pg_dist_partition p
		LEFT JOIN pg_attribute a ON a.attrelid = p.logicalrelid
			AND a.attname = column_to_column_name(p.logicalrelid, p.partkey)
	WHERE p.logicalrelid = "table";
	IF NOT FOUND THEN
		RAISE wrong_object_type USING
			MESSAGE = format('"%s" is not a distributed table', "table");
	END IF;
	IF NOT @extschema@.securefile_dist_routable("table") THEN
		RAISE feature_not_supported USING
			MESSAGE = format('rows of "%s" have no routes', "table"),
			DETAIL = 'It is a reference table or a local one, its shards have copies, or its distribution column is an enum, an array or a composite.',
			HINT = 'Store values by INSERT or COPY.';
	END IF;
	IF part.partmethod = 'h' AND array_position(keys, NULL) IS NOT NULL THEN
		RAISE null_value_not_allowed USING
			MESSAGE = format('the distribution column of "%s" must not be null', "table");
	END IF;
	SELECT b.type, b.modifier INTO type, modifier
	FROM @extschema@.securefile_dist_base_type(part.atttypid, part.atttypmod) b;
	-- a table that is not split has one shard, whatever the key
	shard_of_key := CASE WHEN part.partmethod = 'n'
		THEN format('SELECT k.key, k.ordinality, s.shardid FROM pg_dist_shard s, unnest($1) WITH ORDINALITY k (key, ordinality)
				WHERE s.logicalrelid = %s', "table"::oid)
		ELSE format('SELECT k.key, k.ordinality, s.shardid
				FROM (SELECT t.key, t.ordinality, worker_hash(t.value) AS hash
					FROM ROWS FROM (unnest($1), unnest(%L::%s[])) WITH ORDINALITY t (key, value, ordinality) OFFSET 0) k
					JOIN pg_dist_shard s ON s.logicalrelid = %s
						AND k.hash BETWEEN s.shardminvalue::integer AND s.shardmaxvalue::integer',
				keys::text, format_type(type, modifier), "table"::oid) END;
	RETURN QUERY EXECUTE format('
		SELECT r.key, r.shardid, t.name, t.nodename, t.nodeport
		FROM (%s) r
			JOIN (SELECT DISTINCT ON (s.shardid) s.shardid, %s.securefile_dist_shard_name(s.logicalrelid, s.shardid) AS name,
					n.nodename, n.nodeport
				FROM pg_dist_shard s JOIN pg_dist_placement p ON p.shardid = s.shardid
					JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = ''primary''
				WHERE s.logicalrelid = %s ORDER BY s.shardid, p.placementid) t ON t.shardid = r.shardid
		ORDER BY r.ordinality', shard_of_key, '@extschema@', "table"::oid) USING keys;
END
$$;
COMMENT ON FUNCTION securefile_dist_routes(regclass, text[])
	IS 'for each key, a value of the distribution column as text, the shard that has, or would have, its row: number, name, host and port of its node';

CREATE FUNCTION securefile_dist_route("table" regclass, key text,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer
) RETURNS record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT r.shardid, r.shard_name, r.nodename, r.nodeport
	FROM @extschema@.securefile_dist_routes("table", ARRAY[key]) r
$$;
COMMENT ON FUNCTION securefile_dist_route(regclass, text)
	IS 'securefile_dist_routes() for one key';

-- A shard that moves away leaves its table behind for a while, with all rows.
CREATE FUNCTION securefile_dist_is_here(shardid bigint) RETURNS boolean
LANGUAGE c STABLE STRICT PARALLEL SAFE
AS '$libdir/securefile';
COMMENT ON FUNCTION securefile_dist_is_here(bigint)
	IS 'is the shard of that number on this node? For the condition of a read that names the shard';

-- A move of a shard waits for the lock that a write through the distributed table takes; this
-- takes it, too.  It is of the library of securefile, since each write calls it.  The hash in
-- place of the key: a function of keys of any type would lose to another one, of somebody who
-- may make functions in this schema, for keys of one type.
CREATE FUNCTION securefile_dist_hold_shard(shardid bigint) RETURNS boolean
LANGUAGE c VOLATILE
AS '$libdir/securefile';
COMMENT ON FUNCTION securefile_dist_hold_shard(bigint)
	IS 'keeps the shard of that number on this node until the transaction ends; false if it is not here. For the condition of an UPDATE that names the shard';

CREATE FUNCTION securefile_dist_hold_shard(shardid bigint, hash integer) RETURNS boolean
LANGUAGE c VOLATILE
AS '$libdir/securefile';
COMMENT ON FUNCTION securefile_dist_hold_shard(bigint, integer)
	IS 'likewise, and an error if the hash, worker_hash() of a value of the distribution column, belongs to another shard. For the condition of an INSERT that names the shard';

-- Citus makes a distributed table anew while others write to it through workers, and loses what
-- they write; on the coordinator it waits for this lock.  The lock stays there: LOCK TABLE would
-- take it on all nodes.
CREATE FUNCTION securefile_dist_hold("table" regclass) RETURNS void
LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp
SET citus.enable_ddl_propagation = off
AS $$
BEGIN
	IF EXISTS (SELECT FROM pg_dist_local_group WHERE groupid <> 0) THEN
		RAISE feature_not_supported USING
			MESSAGE = format('table "%s" can be held only on the coordinator', "table"),
			DETAIL = 'Citus makes a table anew there, and waits for no lock of another node.',
			HINT = 'Connect to the coordinator.';
	END IF;
	IF NOT EXISTS (SELECT FROM pg_class WHERE oid = "table") THEN
		RAISE undefined_table USING
			MESSAGE = format('there is no table with OID %s', "table"::oid);
	END IF;
	EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', "table");
	-- until the transaction ends: the lock would end with the session
	PERFORM set_config('idle_in_transaction_session_timeout', '0', true);
END
$$;
COMMENT ON FUNCTION securefile_dist_hold(regclass)
	IS 'on the coordinator: until the transaction ends, which does not time out, alter_distributed_table() and undistribute_table() wait; for clients that write straight to shards';

-- ---------------------------------------------------------------------
-- rebalancing
-- ---------------------------------------------------------------------

-- Moves and splits of shards copy values whole, and a whole value ends at 1 GB.
CREATE FUNCTION securefile_dist_oversize("table" regclass, "column" name,
	OUT shardid bigint, OUT shard_name text, OUT nodename text, OUT nodeport integer,
	OUT ctid tid, OUT length_bytes bigint
) RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.shardid, s.shard_name, s.nodename, s.nodeport, o.*
	FROM @extschema@.securefile_dist_on_shards("table", "column",
			'SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(''ctid'', ctid, ''length_bytes'', pg_catalog.length(%4$I))), ''[]''::pg_catalog.jsonb)'
			' FROM %2$s WHERE pg_catalog.length(%4$I) OPERATOR(pg_catalog.>) 1073741819'::text, NULL::text, false) s,
		jsonb_to_recordset(s.result) o(ctid tid, length_bytes bigint)
$$;
COMMENT ON FUNCTION securefile_dist_oversize(regclass, name)
	IS 'values of a column of a distributed table that are too long for a move, split or rebalance of their shard: the row, and the length in bytes';

-- What moves with a shard: itself, and the shards of colocated tables for the same keys.
CREATE FUNCTION securefile_dist_mates(of_shard bigint, OUT "table" regclass, OUT shardid bigint) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT mate.logicalrelid, mate.shardid
	FROM pg_dist_shard s
		JOIN pg_dist_partition t ON t.logicalrelid = s.logicalrelid
		JOIN pg_dist_partition others ON others.colocationid = t.colocationid
			AND (t.colocationid <> 0 OR others.logicalrelid = t.logicalrelid)
		JOIN pg_dist_shard mate ON mate.logicalrelid = others.logicalrelid
			AND mate.shardminvalue IS NOT DISTINCT FROM s.shardminvalue
	WHERE s.shardid = of_shard
$$;
COMMENT ON FUNCTION securefile_dist_mates(bigint)
	IS 'a shard and those that move with it; internal';

CREATE FUNCTION securefile_dist_movable(shardid bigint) RETURNS boolean
LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	securefile oid := (@extschema@.securefile_dist_schema() || '.securefile')::regtype;
	part record;
	listed text[] := '{}';
	total bigint := 0;
BEGIN
	PERFORM FROM pg_dist_shard s WHERE s.shardid = securefile_dist_movable.shardid;
	IF NOT FOUND THEN
		RAISE undefined_object USING MESSAGE = format('shard %s does not exist', shardid);
	END IF;
	FOR part IN
		SELECT o.shard_name, o.ctid, o.length_bytes
		FROM (SELECT mate."table", mate.shardid, a.attname
				FROM @extschema@.securefile_dist_mates(securefile_dist_movable.shardid) mate
					JOIN pg_class c ON c.oid = mate."table" AND c.relkind = 'r'
					JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
					CROSS JOIN LATERAL @extschema@.securefile_dist_base_type(a.atttypid, a.atttypmod) y
				WHERE y.type = securefile OFFSET 0) col
			CROSS JOIN LATERAL @extschema@.securefile_dist_oversize(col."table", col.attname) o
		WHERE o.shardid = col.shardid
		ORDER BY o.shard_name, o.ctid
	LOOP
		total := total + 1;
		IF total <= 20 THEN
			listed := listed || format('%s %s: %s bytes', part.shard_name, part.ctid, part.length_bytes);
		END IF;
	END LOOP;
	IF total > 0 THEN
		RAISE program_limit_exceeded USING
			MESSAGE = format('shard %s cannot be moved or split: %s values are longer than 1073741819 bytes', shardid, total),
			DETAIL = array_to_string(listed, E'\n'),
			HINT = 'Store them in a table that is not colocated with this one.';
	END IF;
	RETURN true;
END
$$;
COMMENT ON FUNCTION securefile_dist_movable(bigint)
	IS 'true if all values of a shard, and of those that move with it, can be moved; else an error (54000) that lists those over 1 GB, before anything is moved';

-- Bytes of the data files of some shards of this node, and how many values in them are too
-- long to be moved.
CREATE FUNCTION securefile_dist_measure(shards text[], OUT file_bytes bigint, OUT oversize bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET citus.override_table_visibility = off
AS $$
DECLARE
	col record;
	found bigint;
BEGIN
	file_bytes := 0;
	oversize := 0;
	FOR col IN EXECUTE format(
		'SELECT c.relid, c.attname, c.file_bytes FROM %s.securefile_columns c
		WHERE c.file_bytes IS NOT NULL AND c.relid = ANY ($1::regclass[]::oid[])',
		@extschema@.securefile_dist_schema()) USING shards
	LOOP
		file_bytes := file_bytes + col.file_bytes;
		EXECUTE format('SELECT count(*) FROM ONLY %s WHERE pg_catalog.length(%I) > 1073741819',
			col.relid::regclass, col.attname) INTO found;
		oversize := oversize + found;
	END LOOP;
END
$$;
COMMENT ON FUNCTION securefile_dist_measure(text[])
	IS 'bytes of the data files of some shards of this node, and how many values are too long to be moved; internal';

-- The same for a shard and those colocated with it, which move with it, wherever they are.
CREATE FUNCTION securefile_dist_group(of_shard bigint, OUT nodeid integer, OUT file_bytes bigint, OUT oversize bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	place record;
	answer record;
	shards text[];
BEGIN
	SELECT n.nodeid, n.nodename, n.nodeport INTO STRICT place
	FROM pg_dist_placement p JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'
	WHERE p.shardid = of_shard ORDER BY p.placementid LIMIT 1;
	SELECT array_agg(@extschema@.securefile_dist_shard_name(mate."table", mate.shardid)) INTO shards
	FROM @extschema@.securefile_dist_mates(of_shard) mate;
	SELECT * INTO STRICT answer FROM master_run_on_worker(ARRAY[place.nodename::text], ARRAY[place.nodeport],
		ARRAY[format('SELECT pg_catalog.to_jsonb(m) FROM %s.securefile_dist_measure(%L::pg_catalog.text[]) m', '@extschema@', shards)], false);
	IF answer.success IS NOT TRUE THEN
		RAISE external_routine_exception USING
			MESSAGE = format('shard %s on node %s:%s: %s', of_shard, place.nodename, place.nodeport,
				regexp_replace(coalesce(answer.result, 'no answer'), '^ERROR:\s*', ''));
	END IF;
	nodeid := place.nodeid;
	file_bytes := (answer.result::jsonb ->> 'file_bytes')::bigint;
	oversize := (answer.result::jsonb ->> 'oversize')::bigint;
END
$$;
COMMENT ON FUNCTION securefile_dist_group(bigint)
	IS 'node of a shard, bytes of the data files that move with it, and how many values are too long to be moved; internal';

CREATE FUNCTION securefile_shard_cost(shardid bigint) RETURNS real
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT (citus_shard_cost_by_disk_size(shardid) + g.file_bytes)::real
	FROM @extschema@.securefile_dist_group(shardid) g
$$;
COMMENT ON FUNCTION securefile_shard_cost(bigint)
	IS 'bytes of a shard and those colocated with it, with their data files; a cost function for citus_add_rebalance_strategy()';

-- Where there is a value that cannot be moved, the shard stays.
CREATE FUNCTION securefile_shard_allowed(shardid bigint, nodeid integer) RETURNS boolean
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT g.nodeid = securefile_shard_allowed.nodeid OR g.oversize = 0
	FROM @extschema@.securefile_dist_group(shardid) g
$$;
COMMENT ON FUNCTION securefile_shard_allowed(bigint, integer)
	IS 'may a shard be on a node? Not on another one while it has a value over 1 GB; for citus_add_rebalance_strategy()';

CREATE FUNCTION securefile_dist_strategy(make_default boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM FROM pg_dist_rebalance_strategy WHERE name = 'by_file_size';
	IF NOT FOUND THEN
		PERFORM citus_add_rebalance_strategy('by_file_size',
			'@extschema@.securefile_shard_cost'::regproc, 'citus_node_capacity_1'::regproc,
			'@extschema@.securefile_shard_allowed'::regproc, 0.1, 0.01, 0.5);
	END IF;
	IF make_default THEN
		PERFORM citus_set_default_rebalance_strategy('by_file_size');
	END IF;
END
$$;
COMMENT ON FUNCTION securefile_dist_strategy(boolean)
	IS 'adds the rebalance strategy by_file_size, which counts data files and leaves shards alone that cannot be moved; make_default: rebalances use it from now on';
REVOKE ALL ON FUNCTION securefile_dist_strategy(boolean) FROM PUBLIC;
