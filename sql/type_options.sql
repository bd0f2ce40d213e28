-- Column options: the words of the type modifier.  Temporary tables: no segments.

-- every word that works, and how it is shown
CREATE TEMP TABLE options (
	c01 securefile,
	c02 securefile(logging),
	c03 securefile(filesystem_like_logging),
	c04 securefile(cache),
	c05 securefile(cache_reads),
	c06 securefile(nocache),
	c07 securefile(enable_storage_in_row),
	c08 securefile(disable_storage_in_row),
	c09 securefile(nocompress),
	c10 securefile(keep_duplicates),
	c11 securefile(decrypt),
	c12 securefile(retention_none),
	c13 securefile(disable_storage_in_row, nocache, filesystem_like_logging),
	c14 securefile(nocache, filesystem_like_logging, disable_storage_in_row),
	c15 securefile(cache, logging, enable_storage_in_row),
	c16 securefile(retention_none, decrypt, keep_duplicates, nocompress,
		enable_storage_in_row, cache_reads, logging),
	c17 securefile('cache'),
	c18 public.securefile("cache"),
	c19 securefile(compress_low),
	c20 securefile(compress_medium),
	c21 securefile(compress_high),
	c22 securefile(compress),
	c23 securefile(cache, disable_storage_in_row, filesystem_like_logging, compress_high),
	c24 securefile(hash),
	c25 securefile(no_hash),
	c26 securefile(nocache, hash, compress_low),
	c27 securefile(deduplicate),
	c28 securefile(keep_duplicates),
	c29 securefile(hash, deduplicate, compress_low),
	c30 securefile('max_size 96 GB'),
	c31 securefile('max_size 1MB'),
	c32 securefile('max_size 127 mb', compress),
	c33 securefile('max_size 2048 MB'),
	c34 securefile('max_size 3 TB', nocache),
	c35 securefile("max_size 4064  GB", hash),
	c36 securefile('max_size none'),
	c37 securefile(cache_reads, 'max_size NONE', retention_none),
	c38 securefile('max_size 1536 MB', retention_none),
	c39 securefile('retention 7 days', 'max_size 96 GB'),
	c40 securefile('max_size 96 GB', disable_storage_in_row, "retention 1MINUTE"),
	c41 securefile('retention 63  Weeks', 'max_size 1 GB', hash),
	c42 securefile('retention 61 minutes', 'max_size 1 MB', compress),
	c43 securefile('retention 36 hours', 'max_size 4064 GB', filesystem_like_logging),
	c44 securefile('retention 1 weeks', 'max_size 1 GB'),
	c45 securefile('retention 9 day', 'max_size 1 GB'),
	c46 securefile('retention none'),
	c47 securefile('retention NONE', 'max_size 1 GB', cache)
);
SELECT attname, format_type(atttypid, atttypmod), atttypmod
FROM pg_attribute WHERE attrelid = 'options'::regclass AND attnum > 0 ORDER BY attnum;

-- what is shown is valid SQL, and means the same
DO $$
DECLARE
	col record;
	again text;
BEGIN
	FOR col IN SELECT attname, format_type(atttypid, atttypmod) AS type
		FROM pg_attribute WHERE attrelid = 'options'::regclass AND attnum > 0
	LOOP
		EXECUTE format('CREATE TEMP TABLE again (%I %s)', col.attname, col.type);
		SELECT format_type(atttypid, atttypmod) INTO STRICT again
		FROM pg_attribute WHERE attrelid = 'again'::regclass AND attnum = 1;
		IF again <> col.type THEN
			RAISE '% became %', col.type, again;
		END IF;
		DROP TABLE again;
	END LOOP;
END $$;

-- one size has one form, however it is written
SELECT count(DISTINCT securefile_typmod_in(ARRAY['max_size ' || size]::cstring[]))
FROM unnest('{1 TB,1024 GB,1048576 MB}'::text[]) size;
SELECT count(*) AS differ FROM (
	SELECT securefile_typmod_in(ARRAY['max_size ' || (n << power) || ' MB']::cstring[]) AS typmod,
		n << power AS size FROM generate_series(1, 127) n, generate_series(0, 15) power) all_sizes
GROUP BY size HAVING count(DISTINCT typmod) > 1;
-- each size is shown as one that means the same, and no two modifiers are shown alike
SELECT count(*), count(DISTINCT securefile_typmod_out(typmod)::text),
	count(*) FILTER (WHERE securefile_typmod_in(ARRAY[trim(securefile_typmod_out(typmod)::text, $$('')$$)]::cstring[]) = typmod) AS same
FROM (SELECT DISTINCT securefile_typmod_in(ARRAY['max_size ' || (n << power) || ' MB']::cstring[]) AS typmod
	FROM generate_series(1, 127) n, generate_series(0, 15) power) all_sizes;

-- one time has one form, however it is written
SELECT min(time) AS time, count(DISTINCT securefile_typmod_in(ARRAY['retention ' || time, 'max_size 1 GB']::cstring[]))
FROM (VALUES (1, '60 minutes'), (1, '1 hour'), (2, '48 hours'), (2, '2 days'), (3, '49 days'), (3, '7 weeks'),
	(4, '10080 minutes'), (4, '168 hours'), (4, '7 days'), (4, '1 week')) times(same, time) GROUP BY same ORDER BY same;
SELECT count(*) AS differ FROM (
	SELECT securefile_typmod_in(ARRAY['retention ' || n || ' ' || unit, 'max_size 1 GB']::cstring[]) AS typmod,
		n * length_of AS time
	FROM generate_series(1, 63) n, (VALUES ('minute', interval '1 minute'), ('hours', '1 hour'), ('Day', '24 hours'),
		('WEEKS', '168 hours')) units(unit, length_of)) all_times
GROUP BY time HAVING count(DISTINCT typmod) > 1;
-- each time is shown as one that means the same, and no two modifiers are shown alike
SELECT count(*), count(DISTINCT shown), count(*) FILTER (WHERE securefile_typmod_in(
		string_to_array(trim(shown, $$('')$$), $$', '$$)::cstring[]) = typmod) AS same
FROM (SELECT DISTINCT typmod, securefile_typmod_out(typmod)::text AS shown
	FROM (SELECT securefile_typmod_in(ARRAY['max_size 5 GB', 'retention ' || n || ' ' || unit]::cstring[]) AS typmod
		FROM generate_series(1, 63) n, unnest('{minute,hour,day,week}'::text[]) unit) all_times) all_shown;

-- times that have no form, and what is none
CREATE TEMP TABLE refused (document securefile('retention 64 minutes', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 100 minutes', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 100 hours', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 100 days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 635039 minutes', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 635041 minutes', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 64 weeks', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 18446744073709551617 minutes', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 999999999999 weeks', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 0 days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile(retention, 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention ', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 7', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 7 months', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 7 dayss', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 7 days ', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 1.5 days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention -1 days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 7 days', 'retention 7 days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention none', 'retention 7 days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention none', 'retention none'));
CREATE TEMP TABLE refused (document securefile('retention 7 days', retention_none, 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile(retention_none, 'retention 7 days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention none', retention_none));
CREATE TEMP TABLE refused (document securefile(retention_none, 'retention NONE'));
CREATE TEMP TABLE refused (document securefile('retentions 7 days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('RETENTION 7 days', 'max_size 1 GB'));
-- without a limit
CREATE TEMP TABLE refused (document securefile('retention 7 days'));
CREATE TEMP TABLE refused (document securefile(cache, 'retention 7 days', 'max_size none'));

-- sizes that have no form, and what is none
CREATE TEMP TABLE refused (document securefile('max_size 129 MB'));
CREATE TEMP TABLE refused (document securefile('max_size 255 MB'));
CREATE TEMP TABLE refused (document securefile('max_size 129 GB'));
CREATE TEMP TABLE refused (document securefile('max_size 100001 MB'));
CREATE TEMP TABLE refused (document securefile('max_size 4161535 MB'));
CREATE TEMP TABLE refused (document securefile('max_size 4161537 MB'));
CREATE TEMP TABLE refused (document securefile('max_size 4 TB'));
CREATE TEMP TABLE refused (document securefile('max_size 18446744073709551617 MB'));
CREATE TEMP TABLE refused (document securefile('max_size 999999999999 TB'));
CREATE TEMP TABLE refused (document securefile('max_size 0 GB'));
CREATE TEMP TABLE refused (document securefile(max_size));
CREATE TEMP TABLE refused (document securefile('max_size '));
CREATE TEMP TABLE refused (document securefile('max_size 96'));
CREATE TEMP TABLE refused (document securefile('max_size 96 kB'));
CREATE TEMP TABLE refused (document securefile('max_size 96 GB '));
CREATE TEMP TABLE refused (document securefile('max_size 1.5 GB'));
CREATE TEMP TABLE refused (document securefile('max_size -1 GB'));
CREATE TEMP TABLE refused (document securefile('max_size GB'));
CREATE TEMP TABLE refused (document securefile('max_size 1 GB', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('max_size none', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('max_sizes 1 GB'));
CREATE TEMP TABLE refused (document securefile('max_size=1GB'));
CREATE TEMP TABLE refused (document securefile('MAX_SIZE 1 GB'));

-- words that there are no more
CREATE TEMP TABLE refused (document securefile(retention_auto));
CREATE TEMP TABLE refused (document securefile(retention_min));
CREATE TEMP TABLE refused (document securefile(retention_max));

-- a word that needs a master key, and a table with a segment
CREATE TEMP TABLE refused (document securefile(encrypt));
CREATE TABLE refused (document securefile(encrypt));
SELECT 'x'::securefile(decrypt, encrypt, nocache);
SELECT 'x'::securefile(encrypt, nocache);

-- unknown, repeated and contradicting words
CREATE TEMP TABLE refused (document securefile(fast));
CREATE TEMP TABLE refused (document securefile(cache, ''));
CREATE TEMP TABLE refused (document securefile("CACHE"));
CREATE TEMP TABLE refused (document securefile(42));
CREATE TEMP TABLE refused (document securefile(cache, nocache));
CREATE TEMP TABLE refused (document securefile(cache, cache));
CREATE TEMP TABLE refused (document securefile(logging, filesystem_like_logging));
CREATE TEMP TABLE refused (document securefile(enable_storage_in_row, disable_storage_in_row));
CREATE TEMP TABLE refused (document securefile(nocompress, nocompress));
CREATE TEMP TABLE refused (document securefile(compress, nocompress));
CREATE TEMP TABLE refused (document securefile(compress, compress_medium));
CREATE TEMP TABLE refused (document securefile(compress_low, cache, compress_high));
CREATE TEMP TABLE refused (document securefile(a.b));
CREATE TEMP TABLE refused (document securefile(hash, no_hash));
CREATE TEMP TABLE refused (document securefile(deduplicate, keep_duplicates));
CREATE TEMP TABLE refused (document securefile(hash, hash));
SELECT securefile_typmod_in('{cache,NULL}');
SELECT securefile_typmod_in('{{cache},{nocache}}');
SELECT securefile_typmod_in('{}');
SELECT securefile_typmod_out(-1), securefile_typmod_out(0), securefile_typmod_out(2147483647);
SELECT securefile_typmod_out(1 << 20) AS no_number, securefile_typmod_out((64 << 13) | (1 << 20)) AS not_shortest;
SELECT securefile_typmod_out((7 << 24) | (2 << 8)) AS no_limit, securefile_typmod_out((2 << 8) | (1 << 13)) AS no_time,
	securefile_typmod_out((60 << 24) | (1 << 13)) AS not_largest;

-- a change of options is no rewrite
CREATE TEMP TABLE changed (id int, document securefile);
INSERT INTO changed VALUES (1, '\x01');
CREATE TEMP TABLE before AS SELECT pg_relation_filenode('changed') AS node;
ALTER TABLE changed ALTER document TYPE securefile(cache);
ALTER TABLE changed ALTER document TYPE securefile(compress_high);
ALTER TABLE changed ALTER document TYPE securefile(nocache, disable_storage_in_row, compress, 'max_size 5 GB');
SELECT pg_relation_filenode('changed') = node AS same_file,
	(SELECT format_type(atttypid, atttypmod) FROM pg_attribute
	 WHERE attrelid = 'changed'::regclass AND attname = 'document') FROM before;
ALTER TABLE changed ALTER document TYPE securefile;
SELECT pg_relation_filenode('changed') = node AS same_file,
	(SELECT format_type(atttypid, atttypmod) FROM pg_attribute
	 WHERE attrelid = 'changed'::regclass AND attname = 'document') FROM before;
SELECT * FROM changed;

-- in casts and domains
SELECT '\x01'::securefile(cache), CAST('\x02'::bytea AS securefile(nocache));
CREATE DOMAIN cached_file AS securefile(cache);
SELECT format_type(typbasetype, typtypmod) FROM pg_type WHERE oid = 'cached_file'::regtype;
DROP DOMAIN cached_file;

-- settings
SELECT name, setting, unit, context, vartype, min_val, max_val, enumvals
FROM pg_settings WHERE name LIKE 'securefile.%' ORDER BY name;
SET securefile.write_gather_size = '65kB';
SHOW securefile.write_gather_size;
SET securefile.io_method = 'carrier_pigeon';
SET securefile.no_such_setting = 1;

-- error codes
\set VERBOSITY sqlstate
SET securefile.write_gather_size = '1GB';
CREATE TEMP TABLE refused (document securefile(retention_auto));
CREATE TEMP TABLE refused (document securefile('max_size 129 MB'));
CREATE TEMP TABLE refused (document securefile('max_size 4 TB'));
CREATE TEMP TABLE refused (document securefile('max_size 96'));
CREATE TEMP TABLE refused (document securefile('retention 100 days', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 64 weeks', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 7', 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile('retention 7 days'));
CREATE TEMP TABLE refused (document securefile('retention 7 days', retention_none, 'max_size 1 GB'));
CREATE TEMP TABLE refused (document securefile(fast));
CREATE TEMP TABLE refused (document securefile(cache, cache));
CREATE TEMP TABLE refused (document securefile(cache, nocache));
SELECT substring('\x01'::securefile from 1 for -1);
SELECT substring('\x01'::bytea from 1 for -1);
