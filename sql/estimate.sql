-- securefile_estimate: arguments, what is counted, whose rows
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS securefile;
CREATE ROLE regress_sf_owner;
CREATE ROLE regress_sf_other;
GRANT CREATE ON SCHEMA public TO regress_sf_owner;

-- n bytes without a pattern
CREATE FUNCTION noise(n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT substring(string_agg(sha512(g::text::bytea), '' ORDER BY g) FROM 1 FOR n) FROM generate_series(0, n / 64) g $$;
-- all that does not depend on the libraries and the machine
CREATE FUNCTION told(t regclass, c name, n int DEFAULT 100, OUT option text, OUT sampled bigint, OUT units bigint,
	OUT compressed boolean, OUT plain bigint, OUT saves boolean, OUT ratio boolean, OUT compress boolean, OUT decompress boolean)
RETURNS SETOF record LANGUAGE sql AS
$$ SELECT option, sampled_values, units, compressed_units > 0, plain_bytes, stored_bytes * 2 < plain_bytes,
		  ratio = plain_bytes / nullif(stored_bytes, 0)::float8, compress_mb_s > 0, decompress_mb_s > 0
   FROM securefile_estimate(t, c, n) $$;
CREATE FUNCTION plain(t regclass, c name, n int DEFAULT 100, OUT sampled bigint, OUT units bigint, OUT plain bigint, OUT stored bigint)
LANGUAGE sql AS
$$ SELECT sampled_values, units, plain_bytes, stored_bytes FROM securefile_estimate(t, c, n) WHERE option = 'nocompress' $$;

-- nothing to sample
SET ROLE regress_sf_owner;
CREATE TABLE e (id int PRIMARY KEY, note text, doc securefile);
SELECT * FROM securefile_estimate('e', 'doc');
INSERT INTO e SELECT i FROM generate_series(1, 3) i;
SELECT * FROM told('e', 'doc');

-- values of all kinds: in the row, of one unit, of several, incompressible, empty
INSERT INTO e VALUES (11, 'empty', ''), (12, 'in the row', repeat('row ', 1000)::bytea), (13, 'a unit', repeat('unit ', 2000)::bytea),
	(14, 'units', repeat('units ', 50000)::bytea);
SELECT * FROM told('e', 'doc');
SELECT plain, stored = 4000 + (10000 + 511) / 512 * 512 + 2 * 131072 + (300000 - 2 * 131072 + 511) / 512 * 512 AS stored FROM plain('e', 'doc');
TRUNCATE e;
INSERT INTO e VALUES (21, 'noise', noise(4000)), (22, 'noise', noise(200000));
SELECT * FROM told('e', 'doc');

-- before it is committed, with names that need quotes, through a domain
RESET ROLE;
BEGIN;
CREATE SCHEMA "a b";
CREATE DOMAIN "a b"."x y" AS securefile(disable_storage_in_row);
CREATE TABLE "a b"."T t" ("C c" "a b"."x y");
INSERT INTO "a b"."T t" VALUES (repeat('x', 100)::bytea), (repeat('x', 1024)::bytea);
SELECT * FROM plain('"a b"."T t"', 'C c');
ROLLBACK;
SET ROLE regress_sf_owner;

-- of some rows, at random
CREATE TABLE many (id int, doc securefile);
INSERT INTO many SELECT i, CASE WHEN i % 2 = 0 THEN repeat('x', CASE WHEN i <= 5000 THEN 1000 ELSE 3000 END)::bytea END FROM generate_series(1, 10000) i;
SELECT sampled, plain BETWEEN 150000 AND 250000 AS from_everywhere FROM plain('many', 'doc');
ANALYZE many;
SELECT sampled, plain BETWEEN 150000 AND 250000 AS from_everywhere FROM plain('many', 'doc');
SELECT sampled FROM plain('many', 'doc', 1);
SELECT sampled, plain FROM plain('many', 'doc', 1000000);
DELETE FROM many WHERE id > 140;
SELECT sampled, plain FROM plain('many', 'doc');
DROP TABLE many;

-- partitions and children, with other places of the column; in tables without a segment,
-- values count as if they had one
CREATE TABLE p (id int, doc securefile) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (extra text, doc securefile, id int);
ALTER TABLE p2 DROP COLUMN extra;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
CREATE UNLOGGED TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30);
SELECT * FROM plain('p', 'doc');
INSERT INTO p SELECT i, repeat('x', 5120)::bytea FROM generate_series(0, 29) i;
SELECT * FROM plain('p', 'doc');
SELECT * FROM plain('p2', 'doc');
SELECT * FROM told('p3', 'doc') WHERE option = 'nocompress';
CREATE TABLE child (more text) INHERITS (e);
INSERT INTO child VALUES (1, 'child', noise(5120));
SELECT * FROM plain('e', 'doc');
CREATE TEMP TABLE tmp (doc securefile);
INSERT INTO tmp VALUES (repeat('x', 5120000)::bytea), (noise(5120000));
SELECT * FROM plain('tmp', 'doc');

-- what cannot be asked
SELECT * FROM securefile_estimate(NULL, 'doc');
SELECT * FROM securefile_estimate('e', NULL);
SELECT * FROM securefile_estimate('e', 'doc', NULL);
SELECT * FROM securefile_estimate('e', 'doc', 0);
SELECT * FROM securefile_estimate('e', 'doc', 1000001);
SELECT * FROM securefile_estimate('e', 'nope');
SELECT * FROM securefile_estimate('e', 'note');
SELECT * FROM securefile_estimate('e', 'ctid');
SELECT * FROM securefile_estimate('e_pkey', 'doc');
SELECT * FROM securefile_estimate(0, 'doc');
CREATE VIEW v AS SELECT doc FROM e;
SELECT * FROM securefile_estimate('v', 'doc');
CREATE TABLE b (doc bytea);
SELECT * FROM securefile_estimate('b', 'doc');
DROP TABLE b;
RESET ROLE;
CREATE FOREIGN DATA WRAPPER regress_sf_far;
CREATE SERVER regress_sf_far FOREIGN DATA WRAPPER regress_sf_far;
CREATE FOREIGN TABLE f (id int, doc securefile) SERVER regress_sf_far;
SELECT * FROM securefile_estimate('f', 'doc');
ALTER TABLE p ATTACH PARTITION f FOR VALUES FROM (30) TO (40);
SELECT * FROM securefile_estimate('p', 'doc');
DROP FOREIGN DATA WRAPPER regress_sf_far CASCADE;

-- who may: those who may read the column; of the rows that they may see
SET ROLE regress_sf_other;
SELECT * FROM securefile_estimate('e', 'doc');
SELECT * FROM securefile_estimate('e', 'note');
RESET ROLE;
GRANT SELECT (id) ON e, p TO regress_sf_other;
SET ROLE regress_sf_other;
SELECT * FROM securefile_estimate('e', 'doc');
RESET ROLE;
GRANT SELECT (doc) ON e, p TO regress_sf_other;
ALTER TABLE e ENABLE ROW LEVEL SECURITY;
CREATE POLICY not_all ON e FOR SELECT TO regress_sf_other USING (id <> 22);
SET ROLE regress_sf_other;
SELECT * FROM plain('e', 'doc');
SELECT * FROM plain('p', 'doc');
SELECT * FROM plain('p1', 'doc');
SET row_security = off;
SELECT * FROM plain('e', 'doc');
RESET row_security;
RESET ROLE;
SELECT * FROM plain('e', 'doc');

-- the search_path leads to nothing else
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.random() RETURNS float8 LANGUAGE plpgsql AS $$BEGIN RAISE 'called'; END$$;
CREATE FUNCTION hostile.bernoulli(internal) RETURNS tsm_handler LANGUAGE internal AS 'heap_tableam_handler';
CREATE FUNCTION hostile.equal(bigint, int) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE 'called'; END$$;
CREATE OPERATOR hostile.= (LEFTARG = bigint, RIGHTARG = int, FUNCTION = hostile.equal);
CREATE FUNCTION hostile.add(bigint) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RAISE 'called'; END$$;
CREATE AGGREGATE hostile.count(*) (SFUNC = hostile.add, STYPE = bigint, INITCOND = '0');
CREATE TABLE hostile.e (doc bytea);
CREATE TABLE many (doc securefile);
INSERT INTO many SELECT 'x' FROM generate_series(1, 1000);
ANALYZE many;
SET search_path = hostile, pg_catalog, public;
SELECT sampled_values FROM securefile_estimate('public.e', 'doc') WHERE option = 'nocompress';
SELECT sampled_values FROM securefile_estimate('public.many', 'doc', 10) WHERE option = 'nocompress';
DELETE FROM public.many WHERE ctid <> '(0,1)';
SELECT sampled_values FROM securefile_estimate('public.many', 'doc', 10) WHERE option = 'nocompress';
RESET search_path;
DROP SCHEMA hostile CASCADE;

DROP TABLE p, e, many CASCADE;
DROP TABLE tmp;
DROP FUNCTION told, plain, noise;
REVOKE CREATE ON SCHEMA public FROM regress_sf_owner;
DROP ROLE regress_sf_owner, regress_sf_other;
