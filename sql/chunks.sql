-- securefile_chunks(): a value as a stream of pieces
\set VERBOSITY terse

CREATE FUNCTION chunks_bytes(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(substring(decode(string_agg(repeat(md5(seed || ':' || i), 256), '' ORDER BY i), 'hex') FOR len), '')
  FROM generate_series(1, (len + 4095) / 4096) i
$$;

-- arguments
SELECT securefile_chunks(securefile '\x0102', 0);
SELECT securefile_chunks(securefile '\x0102', -9223372036854775808);
SELECT securefile_chunks(securefile '\x0102', 1, -1);
SELECT securefile_chunks(securefile '\x0102', 1, NULL, 0);
SELECT securefile_chunks(securefile '\x0102', 1, NULL, -5);
SELECT securefile_chunks(securefile '\x0102', chunk_size => 1073741820);
SELECT securefile_chunks(securefile '\x0102', chunk_size => 1073741819);
SELECT securefile_chunks(securefile '\x0102', 9223372036854775807, 9223372036854775807);
SELECT securefile_chunks(securefile '\x0102', 2, 9223372036854775807, 2147483647 / 2);
SELECT securefile_chunks(NULL);
SELECT securefile_chunks(securefile '\x0102', NULL);
SELECT securefile_chunks(securefile '\x0102', 1, 1, NULL);
SELECT securefile_chunks(NULL, 0);
SELECT securefile_chunks(securefile '');

-- small values: all pieces of all kinds
SELECT securefile_chunks(securefile '\x0102030405', chunk_size => 2);
SELECT securefile_chunks(securefile '\x0102030405', 2, 3, 2);
SELECT securefile_chunks(securefile '\x0102030405', 5, 3, 2);
SELECT securefile_chunks(securefile '\x0102030405', 6);
SELECT securefile_chunks(securefile '\x0102030405', 3, 0);

-- stored values, around the borders of units; both ways to read, and INLINE in TOAST
CREATE TABLE chunks_direct (id int PRIMARY KEY, len int, doc securefile(nocache));
CREATE TABLE chunks_cached (id int PRIMARY KEY, len int, doc securefile(cache_reads, filesystem_like_logging));
CREATE TEMP TABLE chunks_inline (id int PRIMARY KEY, len int, doc securefile);
CREATE TEMP TABLE chunks_plain (id int PRIMARY KEY, len int, doc securefile);
ALTER TABLE chunks_plain ALTER doc SET STORAGE EXTERNAL;
INSERT INTO chunks_direct SELECT i, l, chunks_bytes(i::int, l)
  FROM unnest(ARRAY[0, 1, 4000, 4001, 131071, 131072, 131073, 262144, 1048576, 3000000, 6000007, 14000000]) WITH ORDINALITY u (l, i);
INSERT INTO chunks_cached SELECT * FROM chunks_direct;
INSERT INTO chunks_inline SELECT * FROM chunks_direct WHERE len < 1000000;
INSERT INTO chunks_plain SELECT * FROM chunks_direct WHERE len < 1000000;

CREATE FUNCTION chunks_wrong(tab regclass, start bigint, count bigint, size int)
  RETURNS TABLE (wrong int, got bigint, longest int) LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY EXECUTE format('SELECT t.id, x.n, x.m FROM %s t, LATERAL (
      SELECT count(*) n, max(length(c)) m, coalesce(string_agg(c, '''' ORDER BY o), '''') b,
             count(*) FILTER (WHERE length(c) <> $3) short
      FROM (SELECT c, row_number() OVER () o FROM (SELECT securefile_chunks(t.doc, $1, $2, $3) c OFFSET 0) p) q) x
    WHERE x.b IS DISTINCT FROM CASE WHEN $2 IS NULL THEN substring(t.doc::bytea FROM $1::int)
                               ELSE substring(t.doc::bytea FROM $1::int FOR $2::int) END
       OR x.short > 1 OR x.m > $3 ORDER BY 1', tab) USING start, count, size;
END $$;
SELECT tab, size, w.* FROM unnest('{chunks_direct,chunks_cached,chunks_inline,chunks_plain}'::regclass[]) tab,
  unnest(ARRAY[8192, 131071, 131072, 131073, 262144, 1048576, 5000000]) size,
  chunks_wrong(tab, 1, NULL, size) w;
SELECT tab, start, count, w.* FROM unnest('{chunks_direct,chunks_cached,chunks_inline,chunks_plain}'::regclass[]) tab,
  unnest(ARRAY[1, 131072, 131073, 2999999]) start,
  unnest(ARRAY[0, 1, 131072, 400001, NULL]) count,
  chunks_wrong(tab, start, count, 50001) w;
SELECT tab, w.* FROM unnest('{chunks_direct,chunks_cached,chunks_inline,chunks_plain}'::regclass[]) tab,
  LATERAL chunks_wrong(tab, 131060, 30, 1) w;

-- several streams in one query: two, and more than can read ahead at a time
SELECT string_agg(a, '') = (SELECT doc FROM chunks_direct WHERE id = 11) AS a,
       string_agg(b, '') = (SELECT doc FROM chunks_direct WHERE id = 12) AS b, count(a), count(b)
  FROM (SELECT securefile_chunks(x.doc, chunk_size => 70000) a, securefile_chunks(y.doc, chunk_size => 70000) b
        FROM chunks_direct x, chunks_direct y WHERE x.id = 11 AND y.id = 12) s;
SELECT string_agg(a, '') = d AS a, string_agg(b, '') = d AS b, string_agg(c, '') = d AS c, string_agg(d1, '') = d AS d,
       string_agg(e, '') = substring(d FROM 9) AS e, string_agg(f, '') = substring(d FROM 100000) AS f
  FROM (SELECT doc::bytea AS d, securefile_chunks(doc) a, securefile_chunks(doc, chunk_size => 1000000) b,
               securefile_chunks(doc, chunk_size => 300000) c, securefile_chunks(doc, chunk_size => 131072) d1,
               securefile_chunks(doc, 9, chunk_size => 65536) e, securefile_chunks(doc, 100000, chunk_size => 200000) f
        FROM chunks_direct WHERE id = 11) s GROUP BY d;

-- a stream that is left in the middle
SELECT sum(length(c)), string_agg(c, '') = substring(chunks_bytes(12, 14000000) FOR 1500000) AS same
  FROM (SELECT securefile_chunks(doc, chunk_size => 500000) c FROM chunks_direct WHERE id = 12 LIMIT 3) s;
SELECT count(*), sum(length(c)) FROM (SELECT securefile_chunks(doc, chunk_size => 500000) c FROM chunks_direct WHERE id >= 10 ORDER BY id LIMIT 9) s;
SELECT EXISTS (SELECT securefile_chunks(doc) FROM chunks_direct);

-- a cursor: other reads in between, savepoints, an early end
BEGIN;
DECLARE c CURSOR FOR SELECT id, securefile_chunks(doc, chunk_size => 300000) AS c FROM chunks_direct WHERE id IN (11, 12) ORDER BY id;
CREATE TEMP TABLE chunks_got (n serial, id int, c bytea);
CREATE FUNCTION pg_temp.fetch(n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  cur refcursor := 'c';
  i int; b bytea;
BEGIN
  FOR k IN 1 .. n LOOP
    FETCH cur INTO i, b;
    IF FOUND THEN INSERT INTO chunks_got (id, c) VALUES (i, b); END IF;
  END LOOP;
END $$;
SELECT pg_temp.fetch(3);
SELECT count(doc::bytea) FROM chunks_direct;
SELECT pg_temp.fetch(3);
SAVEPOINT s;
SELECT length(c) FROM (SELECT securefile_chunks(doc, chunk_size => 300000) c FROM chunks_direct WHERE id = 12 LIMIT 4) s;
SELECT 1 / (length(c) - 300000) FROM (SELECT securefile_chunks(doc, chunk_size => 300000) c FROM chunks_direct WHERE id = 12 LIMIT 4) s;
ROLLBACK TO s;
SELECT pg_temp.fetch(30);
INSERT INTO chunks_direct VALUES (100, 5000000, chunks_bytes(100, 5000000));
SELECT pg_temp.fetch(1000);
SELECT id, string_agg(c, '' ORDER BY n) = (SELECT doc FROM chunks_direct d WHERE d.id = g.id) AS same FROM chunks_got g GROUP BY id ORDER BY id;
SELECT size, w.* FROM unnest(ARRAY[65536, 300000]) size, chunks_wrong('chunks_direct', 1, NULL, size) w;
CLOSE c;
SELECT count(*) FROM pg_locks WHERE relation IN (SELECT oid FROM pg_class WHERE relname ~ ('^pg_securefile_' || 'chunks_direct'::regclass::oid || '_')) AND mode = 'AccessShareLock' AND pid = pg_backend_pid();
ROLLBACK;

-- written by this very transaction, written out in part or not at all
BEGIN;
INSERT INTO chunks_direct SELECT 200 + i, i * 1000000, chunks_bytes(200 + i, i * 1000000) FROM unnest(ARRAY[1, 2, 9, 17]) i;
SELECT size, w.* FROM unnest(ARRAY[65536, 300000]) size, chunks_wrong('chunks_direct', 1, NULL, size) w;
ROLLBACK;

-- in FROM, in PL/pgSQL
SELECT id, count(*), sum(length(c)) FROM chunks_cached, securefile_chunks(doc) WITH ORDINALITY x (c, o) WHERE id > 8 GROUP BY id ORDER BY id;
DO $$
DECLARE
  r record; total bigint := 0;
BEGIN
  FOR r IN SELECT securefile_chunks(doc, chunk_size => 100000) c FROM chunks_direct WHERE id = 12 LOOP
    total := total + length(r.c);
    EXIT WHEN total > 5000000;
  END LOOP;
  RAISE NOTICE '% bytes', total;
  total := 0;
  FOR r IN SELECT securefile_chunks(doc, chunk_size => 100000) c FROM chunks_direct WHERE id = 12 LOOP
    BEGIN
      total := total + length(r.c);
      PERFORM 1 / (total % 700000);
    EXCEPTION WHEN division_by_zero THEN
      RAISE NOTICE 'rolled back at %', total;
    END;
  END LOOP;
  RAISE NOTICE '% bytes', total;
END $$;

-- rows come as they are asked for; the scan may be parallel, the stream is not
EXPLAIN (COSTS OFF) SELECT securefile_chunks(doc) FROM chunks_direct;
SELECT provolatile, proparallel, proretset, proisstrict, prorows FROM pg_proc WHERE proname = 'securefile_chunks';

-- storage that goes in the middle, and comes back
DO $$
DECLARE
  r record; total bigint := 0;
  d securefile := (SELECT doc FROM chunks_direct WHERE id = 12);
BEGIN
  BEGIN
    FOR r IN SELECT securefile_chunks(d, chunk_size => 100000) c LOOP
      total := total + length(r.c);
      IF total = 1000000 THEN TRUNCATE chunks_direct; END IF;
    END LOOP;
  EXCEPTION WHEN undefined_object THEN
    RAISE NOTICE '% after % bytes', SQLERRM, total;
  END;
  SELECT sum(length(c)) INTO total FROM securefile_chunks(d, chunk_size => 100000) c;
  RAISE NOTICE '% bytes', total;
END $$;
SELECT count(*) FROM chunks_direct WHERE doc::bytea <> chunks_bytes(id, len);

-- without holes: the pieces and where they begin, put together again
CREATE TABLE chunks_holes (id int PRIMARY KEY, doc securefile);
DO $$
DECLARE
  h int;
BEGIN
  FOR i IN 1 .. 3 LOOP
    h := securefile_create('chunks_holes', 'doc');
    -- a hole at the start, between data, and at the end; data that begins and ends inside units
    PERFORM securefile_seek(h, 131072 * i + 5, 0), securefile_write(h, chunks_bytes(i, 300000)),
      securefile_seek(h, 131072 * 9 + i, 0), securefile_write(h, chunks_bytes(i, 131072 * i)),
      securefile_truncate(h, 131072 * 14 + i * 1000);
    INSERT INTO chunks_holes VALUES (i, securefile_finish(h));
  END LOOP;
  h := securefile_create('chunks_holes', 'doc');
  PERFORM securefile_truncate(h, 2000000);
  INSERT INTO chunks_holes VALUES (4, securefile_finish(h));
  INSERT INTO chunks_holes VALUES (5, ''), (6, '\x010203'), (7, chunks_bytes(7, 500000)), (8, NULL);
END $$;
CREATE FUNCTION chunks_rebuilt(doc securefile, start bigint, count bigint, size int) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
  first bigint := least(start, length(doc) + 1);
  bytes bytea := decode(repeat('00', least(count, length(doc) - first + 1)::int), 'hex');
  last bigint := first;
  r record;
BEGIN
  FOR r IN SELECT securefile_data_starts(doc, start, count, size) s, securefile_data_chunks(doc, start, count, size) c LOOP
    IF r.s < last OR r.c IS NULL THEN RAISE EXCEPTION 'a piece at %', r.s; END IF;
    bytes := overlay(bytes PLACING r.c FROM (r.s - first + 1)::int);
    last := r.s + length(r.c);
  END LOOP;
  RETURN bytes;
END $$;
SELECT id, start, count, size FROM chunks_holes,
  unnest(ARRAY[1, 2, 131073, 262150, 1179649, 1835008, 99999999]::bigint[]) start,
  unnest(ARRAY[0, 1, 131072, 9999999]::bigint[]) count, unnest(ARRAY[131072, 50001, 400000]) size
  WHERE id < 8 AND chunks_rebuilt(doc, start, count, size) IS DISTINCT FROM substring(doc FROM start FOR count);
SELECT id, s, length(c) FROM (SELECT id, securefile_data_starts(doc) s, securefile_data_chunks(doc) c FROM chunks_holes WHERE id IN (2, 4, 6, 7)) x ORDER BY id, s;
SELECT id, count(*) AS pieces FROM (SELECT id, securefile_data_starts(doc, chunk_size => 1000) FROM chunks_holes) x GROUP BY id ORDER BY id;
-- of what is computed, all is data
SELECT securefile_data_starts(doc || '\x01') AS start FROM chunks_holes WHERE id = 4 LIMIT 2;
SELECT securefile_data_starts('\x01', 0);
SELECT securefile_data_chunks('\x01', 1, -1);
SELECT securefile_data_chunks(NULL), securefile_data_starts('\x01', NULL);
DROP TABLE chunks_holes;
DROP FUNCTION chunks_rebuilt;

DROP TABLE chunks_direct, chunks_cached, chunks_inline, chunks_plain;
DROP FUNCTION chunks_wrong, chunks_bytes;
