-- the gather cache: values of many segments through two buffers, tail blocks
-- that move from one to the other
\set ON_ERROR_STOP on

-- buffers smaller than a unit, values of all sizes
CREATE TABLE gather_small (id int PRIMARY KEY, doc securefile(filesystem_like_logging));
SET securefile.write_gather_size = '64kB';
INSERT INTO gather_small
  SELECT i, convert_to(repeat(i || 'x', 30011 * i / 2), 'UTF8') FROM generate_series(1, 40) i;
SELECT count(*) FROM gather_small
  WHERE doc = convert_to(repeat(id || 'x', 30011 * id / 2), 'UTF8');
SELECT * FROM securefile_check('gather_small', 'doc');

-- many segments in one transaction, more than a buffer has pieces for
CREATE TABLE gather_parts (id int, n int, doc securefile) PARTITION BY LIST (id);
SELECT format('CREATE TABLE gather_part_%s PARTITION OF gather_parts FOR VALUES IN (%s)', i, i)
  FROM generate_series(0, 79) i \gexec
BEGIN;
INSERT INTO gather_parts
  SELECT i * 37 % 80, i, decode(md5(i::text) || repeat('ab', 5000 + i), 'hex') FROM generate_series(1, 2000) i;
SELECT count(*) FROM gather_parts WHERE doc = decode(md5(n::text) || repeat('ab', 5000 + n), 'hex');
COMMIT;
SELECT count(*) FROM gather_parts WHERE doc = decode(md5(n::text) || repeat('ab', 5000 + n), 'hex');
SELECT count(*) FROM generate_series(0, 79) i, securefile_check(format('gather_part_%s', i)::regclass, 'doc');

-- columns that take turns, savepoints, values that change places
CREATE TABLE gather_columns (id int, a securefile, b securefile(filesystem_like_logging),
                             c securefile(disable_storage_in_row));
BEGIN;
INSERT INTO gather_columns
  SELECT i, decode(repeat('ab', i % 7000 + 4000), 'hex'), decode(repeat('cd', i % 30000 + 3000), 'hex'),
         decode(repeat('ef', i % 300 + 1), 'hex') FROM generate_series(1, 1500) i;
SAVEPOINT s;
UPDATE gather_columns SET a = b, b = a WHERE id % 3 = 0;
ROLLBACK TO s;
UPDATE gather_columns SET b = c, c = a WHERE id % 5 = 0;
COMMIT;
SELECT count(*) FROM gather_columns
  WHERE a = decode(repeat('ab', id % 7000 + 4000), 'hex')
    AND b = CASE WHEN id % 5 = 0 THEN decode(repeat('ef', id % 300 + 1), 'hex')
                 ELSE decode(repeat('cd', id % 30000 + 3000), 'hex') END
    AND c = CASE WHEN id % 5 = 0 THEN decode(repeat('ab', id % 7000 + 4000), 'hex')
                 ELSE decode(repeat('ef', id % 300 + 1), 'hex') END;
SELECT n, c.* FROM unnest(array['a', 'b', 'c']) n, securefile_check('gather_columns', n::name) c;

-- storage that a rollback to a savepoint removes while bytes for it wait
RESET securefile.write_gather_size;
CREATE TABLE gather_gone (doc securefile);
INSERT INTO gather_gone VALUES (decode(repeat('01', 20000), 'hex'));
BEGIN;
SAVEPOINT s;
CREATE TABLE gather_never (doc securefile);
INSERT INTO gather_never VALUES (decode(repeat('ab', 20000000), 'hex'));
TRUNCATE gather_gone;
INSERT INTO gather_gone VALUES (decode(repeat('ab', 20000), 'hex'));
ROLLBACK TO s;
INSERT INTO gather_gone VALUES (decode(repeat('02', 20000), 'hex'));
COMMIT;
SELECT substring(doc from 20000) FROM gather_gone;
SELECT * FROM securefile_check('gather_gone', 'doc');

-- columns and tables dropped with bytes waiting for them
BEGIN;
INSERT INTO gather_gone VALUES (decode(repeat('03', 20000), 'hex'));
INSERT INTO gather_small VALUES (100, decode(repeat('03', 20000), 'hex'));
ALTER TABLE gather_gone DROP COLUMN doc;
DROP TABLE gather_small;
COMMIT;

DROP TABLE gather_parts, gather_columns, gather_gone;
