-- what the tests ddl_*.sql begin with: each includes this file
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS securefile;

-- what a table's securefile columns have
CREATE VIEW ddl_state AS
SELECT c.oid::regclass::text COLLATE "C" AS tab, a.attname AS col,
	   s.oid IS NOT NULL AS segment,
	   (SELECT string_agg(substring(t.tgname, '~securefile_([a-z]+)_') || ':' || t.tgenabled::text, ' ' ORDER BY t.tgname)
		FROM pg_trigger t
		WHERE t.tgrelid = c.oid AND t.tgisinternal
			  AND t.tgname LIKE '~securefile_%\_' || a.attnum || '\_%') AS triggers
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
	 LEFT JOIN pg_class s ON s.relname = 'pg_securefile_' || c.oid || '_' || a.attnum
WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 'f') AND a.atttypid IN
	  (SELECT oid FROM pg_type WHERE typname = 'securefile' OR typbasetype = 'securefile'::regtype);

CREATE FUNCTION segments() RETURNS bigint LANGUAGE sql AS
$$ SELECT count(*) FROM pg_class c JOIN pg_am m ON m.oid = c.relam WHERE m.amname = 'securefile_segment' $$;

-- a large value, told from others by its seed
CREATE FUNCTION big(seed text, n int DEFAULT 20000) RETURNS securefile LANGUAGE sql VOLATILE AS
$$ SELECT convert_to(substr(string_agg(md5(seed || g), '' ORDER BY g), 1, n), 'SQL_ASCII')::securefile
FROM generate_series(1, n / 32 + 1) g $$;

CREATE FUNCTION is_big(d securefile, seed text, n int DEFAULT 20000) RETURNS boolean LANGUAGE sql AS
$$ SELECT d::bytea = big(seed, n)::bytea $$;
