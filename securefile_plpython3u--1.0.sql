/* securefile_plpython3u--1.0.sql */

-- A securefile is a Python bytes object in functions of PL/Python that are made with the
-- clause TRANSFORM FOR TYPE securefile.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION securefile_plpython3u" to load this file. \quit

CREATE FUNCTION @extschema@.securefile_to_plpython3(value internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION @extschema@.securefile_to_plpython3(internal)
	IS 'a value as a Python bytes object; internal';

-- The type is that of extension securefile, whoever may have made another one of that name in
-- the schema of this extension, for whose values these functions would be called.
DO LANGUAGE plpgsql $make$
DECLARE
	securefile pg_catalog.text := (SELECT pg_catalog.format('%I.securefile', n.nspname)
		FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
		WHERE e.extname OPERATOR(pg_catalog.=) 'securefile');
BEGIN
	EXECUTE pg_catalog.format($sql$
		CREATE FUNCTION @extschema@.plpython3_to_securefile(value internal) RETURNS %1$s
			AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT;
		COMMENT ON FUNCTION @extschema@.plpython3_to_securefile(internal)
			IS 'a value of the bytes of a Python object; internal';

		CREATE TRANSFORM FOR %1$s LANGUAGE plpython3u (
			FROM SQL WITH FUNCTION @extschema@.securefile_to_plpython3(internal),
			TO SQL WITH FUNCTION @extschema@.plpython3_to_securefile(internal)
		);
		COMMENT ON TRANSFORM FOR %1$s LANGUAGE plpython3u
			IS 'a securefile is a Python bytes object';
	$sql$, securefile);
END
$make$;
