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
	c29 securefile(hash, deduplicate, compress_low)
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

-- words of later work
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

-- a change of options is no rewrite
CREATE TEMP TABLE changed (id int, document securefile);
INSERT INTO changed VALUES (1, '\x01');
CREATE TEMP TABLE before AS SELECT pg_relation_filenode('changed') AS node;
ALTER TABLE changed ALTER document TYPE securefile(cache);
ALTER TABLE changed ALTER document TYPE securefile(compress_high);
ALTER TABLE changed ALTER document TYPE securefile(nocache, disable_storage_in_row, compress);
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
CREATE TEMP TABLE refused (document securefile(fast));
CREATE TEMP TABLE refused (document securefile(cache, cache));
CREATE TEMP TABLE refused (document securefile(cache, nocache));
SELECT substring('\x01'::securefile from 1 for -1);
SELECT substring('\x01'::bytea from 1 for -1);
