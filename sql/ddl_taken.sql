-- A WARNING when a command takes a column with its values away: one a command, with their
-- number, and none where nothing is lost.

CREATE TABLE d (id int, document securefile, other securefile);
INSERT INTO d SELECT g, repeat('x', 5000)::bytea, CASE WHEN g = 1 THEN 'y'::bytea END FROM generate_series(1, 10) g;

-- taken away
BEGIN;
SAVEPOINT s;
ALTER TABLE d DROP COLUMN document;
ROLLBACK TO s;
ALTER TABLE d DROP document, DROP other;
ROLLBACK TO s;
ALTER TABLE d ALTER document TYPE bytea;
ROLLBACK TO s;
ALTER TABLE d ALTER document TYPE text USING 'x', DROP other;
ROLLBACK TO s;
-- as a tool does it that does not know the type
ALTER TABLE d DROP document, ADD document bytea;
ROLLBACK TO s;
-- each command in a function has its own
DO $$
BEGIN
	ALTER TABLE d DROP document;
	ALTER TABLE d DROP other;
END
$$;
ROLLBACK;

-- nothing is
BEGIN;
ALTER TABLE d ALTER document TYPE securefile(nocache), ALTER other TYPE securefile USING other || 'x';
ALTER TABLE d ADD more securefile, ALTER id TYPE bigint;
ALTER TABLE d DROP more, DROP id;
UPDATE d SET other = NULL;
ALTER TABLE d DROP other;
DELETE FROM d;
ALTER TABLE d DROP document;
ROLLBACK;
-- fails
ALTER TABLE d DROP document, DROP missing;
BEGIN;
TRUNCATE d;
ALTER TABLE d ALTER document TYPE bytea;
ROLLBACK;
CREATE TEMP TABLE temporary (document securefile);
INSERT INTO temporary VALUES ('x');
ALTER TABLE temporary DROP document;
CREATE UNLOGGED TABLE unlogged (document securefile);
INSERT INTO unlogged VALUES ('x');
BEGIN;
DROP TABLE d;
ROLLBACK;

-- an unlogged table has them, too
ALTER TABLE unlogged DROP document;

-- partitions and children: one for all
CREATE TABLE p (id int, document securefile) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE p21 PARTITION OF p2 FOR VALUES FROM (10) TO (15);
CREATE TABLE p22 PARTITION OF p2 FOR VALUES FROM (15) TO (20);
INSERT INTO p SELECT g, repeat('x', 5000)::bytea FROM generate_series(0, 19) g;
CREATE TABLE parent (id int, document securefile);
CREATE TABLE child () INHERITS (parent);
INSERT INTO parent VALUES (1, 'x');
INSERT INTO child VALUES (2, 'x'), (3, NULL), (4, '');
BEGIN;
SAVEPOINT s;
ALTER TABLE p DROP document;
ROLLBACK TO s;
ALTER TABLE p ALTER document TYPE bytea;
ROLLBACK TO s;
DROP TABLE p1;
ALTER TABLE p DETACH PARTITION p2;
ROLLBACK TO s;
ALTER TABLE parent DROP document;
ROLLBACK TO s;
-- the child keeps the column
ALTER TABLE ONLY parent DROP document;
ROLLBACK;

-- by what the column is of: domains, also in a schema or of a role, and composite types
CREATE SCHEMA drawer;
CREATE DOMAIN drawer.file AS securefile;
CREATE ROLE regress_securefile_filer;
ALTER DOMAIN drawer.file OWNER TO regress_securefile_filer;
CREATE TABLE filed (id int, document drawer.file, more drawer.file);
INSERT INTO filed VALUES (1, 'x', NULL), (2, 'y', 'z');
CREATE TABLE drawer.inside (document drawer.file);
INSERT INTO drawer.inside VALUES ('x');
BEGIN;
SAVEPOINT s;
ALTER TABLE filed ALTER document TYPE securefile;
ROLLBACK TO s;
SET LOCAL client_min_messages = warning;
DROP DOMAIN drawer.file CASCADE;
ROLLBACK TO s;
SET LOCAL client_min_messages = warning;
DROP SCHEMA drawer CASCADE;
ROLLBACK TO s;
SET LOCAL client_min_messages = warning;
DROP OWNED BY regress_securefile_filer CASCADE;
ROLLBACK;
DROP TABLE filed, drawer.inside;
DROP DOMAIN drawer.file;
DROP SCHEMA drawer;
DROP ROLE regress_securefile_filer;
CREATE TYPE sheet AS (id int, document securefile);
CREATE TABLE typed OF sheet;
INSERT INTO typed VALUES (1, 'x');
ALTER TYPE sheet DROP ATTRIBUTE document CASCADE;

-- another extension takes a domain of its own along
CREATE EXTENSION tablefunc;
CREATE DOMAIN of_extension AS securefile;
CREATE TABLE filed (id int, document of_extension);
INSERT INTO filed VALUES (1, 'x'), (2, 'y');
ALTER EXTENSION tablefunc ADD DOMAIN of_extension;
BEGIN;
SET LOCAL client_min_messages = warning;
DROP EXTENSION tablefunc CASCADE;
ROLLBACK;
-- and this, which is empty then
TRUNCATE filed;
DROP EXTENSION tablefunc CASCADE;
DROP TABLE filed;

-- the type itself
BEGIN;
SET LOCAL client_min_messages = warning;
DROP EXTENSION securefile CASCADE;
ROLLBACK;

-- a table of more pages than are looked at: by statistics, or by some of the pages
CREATE TABLE large (id int, pad text, document securefile, none securefile, one securefile)
	WITH (autovacuum_enabled = off);
ALTER TABLE large ALTER pad SET STORAGE PLAIN;
INSERT INTO large SELECT g, repeat('p', 7000), 'x'::bytea, NULL,
	CASE WHEN g = 5 THEN repeat('x', 50000)::bytea END FROM generate_series(1, 100) g;
BEGIN;
SAVEPOINT s;
ALTER TABLE large DROP document;
ROLLBACK TO s;
ALTER TABLE large DROP none;
ROLLBACK TO s;
ALTER TABLE large ALTER one TYPE bytea;
ROLLBACK TO s;
UPDATE large SET document = NULL WHERE id <= 50;
ANALYZE large;
ALTER TABLE large DROP document;
ROLLBACK TO s;
UPDATE large SET document = NULL WHERE id <= 50;
ANALYZE large;
ALTER TABLE large ALTER document TYPE bytea;
ROLLBACK TO s;
-- the stored bytes are still there
UPDATE large SET one = NULL;
ANALYZE large;
ALTER TABLE large DROP one;
ROLLBACK;

-- values in rows that none of these pages has
CREATE TABLE tail (id int, pad text, document securefile) WITH (autovacuum_enabled = off);
ALTER TABLE tail ALTER pad SET STORAGE PLAIN;
INSERT INTO tail SELECT g, repeat('p', 7000), CASE WHEN g = 100 THEN 'x'::bytea END FROM generate_series(1, 100) g;
BEGIN;
ALTER TABLE tail DROP document;
ROLLBACK;
BEGIN;
ALTER TABLE tail ALTER document TYPE bytea;
ROLLBACK;
-- none at all: only statistics that are up to date say so
TRUNCATE tail;
INSERT INTO tail SELECT g, repeat('p', 7000) FROM generate_series(1, 100) g;
BEGIN;
ALTER TABLE tail DROP document;
ROLLBACK;
SELECT pg_stat_force_next_flush();
ANALYZE tail;
BEGIN;
ALTER TABLE tail DROP document;
ROLLBACK;
-- changed since, in this transaction and before it
BEGIN;
INSERT INTO tail VALUES (101, repeat('p', 7000), 'x');
ALTER TABLE tail DROP document;
ROLLBACK;
SELECT pg_stat_force_next_flush();
ANALYZE tail;
INSERT INTO tail VALUES (101, repeat('p', 7000), 'x');
SELECT pg_stat_force_next_flush();
BEGIN;
ALTER TABLE tail DROP document;
ROLLBACK;
-- counters that were reset do not know of changes
SELECT pg_stat_reset_single_table_counters('tail'::regclass);
BEGIN;
ALTER TABLE tail DROP document;
ROLLBACK;

-- many columns: some are named
DO $$
BEGIN
	EXECUTE 'CREATE TABLE wide (' || (SELECT string_agg(format('c%s securefile', g), ', ' ORDER BY g) FROM generate_series(1, 12) g) || ')';
	EXECUTE 'INSERT INTO wide VALUES (' || (SELECT string_agg('''x''', ', ') FROM generate_series(1, 12) g) || ')';
	EXECUTE 'ALTER TABLE wide ' || (SELECT string_agg(format('DROP c%s', g), ', ' ORDER BY g) FROM generate_series(1, 12) g);
END
$$;

DROP TABLE d, unlogged, p, parent, child, large, tail, wide, typed;
DROP TYPE sheet;
