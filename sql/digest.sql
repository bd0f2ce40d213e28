-- securefile_digest(): a digest of the bytes, whatever form they are in
\set VERBOSITY default
SET client_min_messages = warning;

-- what others say of the same bytes
SELECT algorithm, encode(securefile_digest('', algorithm), 'hex') AS empty,
	encode(securefile_digest('abc', algorithm), 'hex') AS abc
FROM unnest(ARRAY['sha256', 'sha512', 'blake2b', 'xxh3', 'md5']) algorithm;

-- names
SELECT securefile_digest('abc', 'SHA256') = sha256('abc') AS upper,
	securefile_digest('abc', 'Md5') = decode(md5('abc'), 'hex') AS mixed;
SELECT securefile_digest('abc', 'sha1');
SELECT securefile_digest('abc', '');
SELECT securefile_digest('abc', 'sha256 ');
SELECT securefile_digest('abc', 'sha');
SELECT securefile_digest(NULL, 'sha256') IS NULL AS document, securefile_digest('abc', NULL) IS NULL AS algorithm,
	securefile_digest(NULL, 'sha1') IS NULL AS both;
SELECT securefile_digest('abc') = sha256('abc') AS digest, securefile_kept_digest('abc') IS NULL AS nothing_kept;
SELECT securefile_digest(NULL) IS NULL AS digest, securefile_kept_digest(NULL) IS NULL AS kept;
-- an argument without a type is a document; one that a driver
-- declares as bytea needs a cast, and so it does for the other functions
PREPARE untyped AS SELECT securefile_digest($1, $2) = sha256('abc') AS digest,
	(SELECT string_agg(c, '') FROM securefile_chunks($1, 2) c) AS chunks;
EXECUTE untyped('abc', 'sha256');
PREPARE typed(bytea) AS SELECT securefile_digest($1, 'sha256');
PREPARE typed(bytea) AS SELECT securefile_chunks($1);
PREPARE typed(bytea) AS SELECT securefile_open($1, 'r');
PREPARE typed(bytea) AS SELECT securefile_truncate($1, 2);
PREPARE typed(bytea) AS SELECT substring($1, 2::bigint);
PREPARE typed(bytea) AS SELECT securefile_digest($1::securefile, 'sha256') = sha256($1) AS digest,
	(SELECT string_agg(c, '') FROM securefile_chunks($1::securefile, 2) c) AS chunks,
	securefile_truncate($1::securefile, 2) AS truncated, substring($1::securefile, 2::bigint) AS substring,
	securefile_read(securefile_open($1::securefile, 'r'), 3) AS handle;
EXECUTE typed('abc');
DEALLOCATE ALL;
SELECT oid::regprocedure, provolatile, proparallel, proisstrict FROM pg_proc WHERE proname IN ('securefile_digest', 'securefile_kept_digest') ORDER BY pronargs, proname;

-- what is wrong with any of the digests of a value
CREATE FUNCTION filler(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substring(coalesce(decode(string_agg(repeat(md5(seed || ':' || i), 32), '' ORDER BY i), 'hex'), '') FOR len)
	FROM generate_series(1, (len + 511) / 512) i
$$;
CREATE FUNCTION wrong(document securefile, plain bytea) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(algorithm, ' ')
	FROM (VALUES ('sha256', sha256(plain)), ('sha512', sha512(plain)), ('md5', decode(md5(plain), 'hex')),
		('xxh3', int8send(securefile_hash_extended(plain::securefile, 0))),
		('blake2b', securefile_digest(plain::securefile, 'blake2b'))) v (algorithm, expected)
	WHERE securefile_digest(document, algorithm) IS DISTINCT FROM expected
$$;

-- INLINE, in the row and in TOAST, compressed or not; STORED, read in both ways
CREATE TABLE direct (id int, len int, document securefile(nocache));
CREATE TABLE cached (id int, len int, document securefile(cache, filesystem_like_logging));
CREATE TEMP TABLE squeezed (id int, len int, document securefile);
CREATE TEMP TABLE plain (id int, len int, document securefile);
ALTER TABLE plain ALTER document SET STORAGE EXTERNAL;
INSERT INTO direct SELECT i, len, filler(i::int, len)
FROM unnest(ARRAY[0, 1, 63, 64, 65, 4000, 4001, 131071, 131072, 131073, 262143, 262144, 262145, 1500000]) WITH ORDINALITY l (len, i);
INSERT INTO cached SELECT * FROM direct;
INSERT INTO squeezed SELECT * FROM direct;
INSERT INTO plain SELECT * FROM direct;
SELECT 'direct' AS name, len, w FROM direct, wrong(document, filler(id, len)) w WHERE w IS NOT NULL
UNION ALL SELECT 'cached', len, w FROM cached, wrong(document, filler(id, len)) w WHERE w IS NOT NULL
UNION ALL SELECT 'squeezed', len, w FROM squeezed, wrong(document, filler(id, len)) w WHERE w IS NOT NULL
UNION ALL SELECT 'plain', len, w FROM plain, wrong(document, filler(id, len)) w WHERE w IS NOT NULL;

-- EDITED: parts of values, new bytes, zeros
SELECT len, a, b, c, d FROM (
	SELECT len, wrong(document || '\x0102'::bytea || document, filler(id, len) || '\x0102'::bytea || filler(id, len)) AS a,
		wrong(overlay(document placing '\x0a0b0c'::bytea from 100000), overlay(filler(id, len) placing '\x0a0b0c'::bytea from 100000)) AS b,
		wrong(securefile_truncate(document, 700000),
			substring(filler(id, len) || decode(repeat('00', 700000), 'hex') for 700000)) AS c,
		wrong(securefile_truncate(document, len / 2), substring(filler(id, len) for len / 2)) AS d
	FROM direct) s
WHERE coalesce(a, b, c, d) IS NOT NULL;
-- of many pieces, of two values
DO $$
DECLARE
	document securefile := (SELECT d.document FROM direct d WHERE len = 1500000);
	other securefile := (SELECT c.document FROM cached c WHERE len = 262145);
	plain bytea := document::bytea;
BEGIN
	FOR i IN 1 .. 300 LOOP
		document := overlay(document placing decode(repeat(to_hex(100000 + i), 8), 'hex') from i * 4987);
		plain := overlay(plain placing decode(repeat(to_hex(100000 + i), 8), 'hex') from i * 4987);
		IF i % 100 = 0 THEN
			document := document || other;
			plain := plain || other::bytea;
		END IF;
	END LOOP;
	RAISE WARNING 'wrong: %', wrong(document, plain);
END $$;

-- in triggers: before the value is stored, and after
CREATE TABLE docs (id int PRIMARY KEY, document securefile, sha bytea, xxh bytea, CHECK (securefile_digest(document, 'xxh3') = xxh));
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.sha := securefile_digest(NEW.document, 'sha256');
	NEW.xxh := securefile_digest(NEW.document, 'xxh3');
	RETURN NEW;
END $$;
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF securefile_digest(NEW.document, 'sha256') IS DISTINCT FROM NEW.sha THEN
		RAISE EXCEPTION 'row % differs', NEW.id;
	END IF;
	IF TG_OP = 'UPDATE' AND securefile_digest(OLD.document, 'sha256') IS DISTINCT FROM OLD.sha THEN
		RAISE EXCEPTION 'row % differed', OLD.id;
	END IF;
	RETURN NULL;
END $$;
-- before and after the extension's own triggers, by name
CREATE TRIGGER a_note BEFORE INSERT OR UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER zz_note BEFORE INSERT OR UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER a_look AFTER INSERT OR UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER zz_look AFTER INSERT OR UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION look();
CREATE CONSTRAINT TRIGGER at_end AFTER INSERT OR UPDATE ON docs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION look();
INSERT INTO docs SELECT id, document FROM direct;
INSERT INTO docs SELECT 100 + id, document || document FROM direct;
INSERT INTO docs VALUES (200, NULL);
UPDATE docs SET document = document || '\x0d0a';
UPDATE docs SET document = overlay(document placing '\xaabb'::bytea from 3), id = id + 1000;
UPDATE docs SET document = securefile_truncate(document, length(document) + 300000) WHERE id % 2 = 0;
UPDATE docs SET document = 'small' WHERE id = 1101;
-- files that handles have written
BEGIN;
SELECT securefile_create('docs', 'document') AS h \gset
SELECT securefile_write(:h, filler(7, 900000));
SELECT securefile_digest(d, 'sha256') = sha256(filler(7, 900000)) AS draft FROM securefile_finish(:h) d;
SELECT securefile_create('docs', 'document') AS h \gset
SELECT securefile_write(:h, filler(8, 900000));
INSERT INTO docs VALUES (300, securefile_finish(:h));
SELECT securefile_open(document, 'rw') AS h FROM docs WHERE id = 300 \gset
SELECT securefile_seek(:h, 5, 0), securefile_write(:h, '\x00');
UPDATE docs SET document = securefile_finish(:h) WHERE id = 300;
COMMIT;
SELECT count(*), count(sha), count(*) FILTER (WHERE sha256(document::bytea) IS DISTINCT FROM sha) AS wrong_sha,
	count(*) FILTER (WHERE securefile_digest(document, 'xxh3') IS DISTINCT FROM xxh) AS wrong_xxh FROM docs;
SELECT sha = sha256(overlay(filler(8, 900000) placing '\x00'::bytea from 6)) AS handle FROM docs WHERE id = 300;

-- refused as all that reads bytes
ALTER TABLE docs ADD g bytea GENERATED ALWAYS AS (securefile_digest(document, 'md5')) STORED;
CREATE INDEX ON docs (securefile_digest(document, 'md5'));

DROP TABLE docs, direct, cached, squeezed, plain;
DROP FUNCTION note, look, wrong, filler;
