-- Tables for the scripts beside this file: one of bytea, one of each logging mode.
-- psql -v kilobytes=10 -v rows=1000 -f setup.sql
\if :{?kilobytes} \else \set kilobytes 10 \endif
\if :{?rows} \else \set rows 1000 \endif
CREATE EXTENSION IF NOT EXISTS securefile;
DROP TABLE IF EXISTS pgb_bytea, pgb_logging, pgb_filesystem_like, pgb_source;
CREATE TABLE pgb_bytea (id bigserial PRIMARY KEY, doc bytea);
ALTER TABLE pgb_bytea ALTER doc SET STORAGE EXTERNAL;
CREATE TABLE pgb_logging (id bigserial PRIMARY KEY, doc securefile);
CREATE TABLE pgb_filesystem_like (id bigserial PRIMARY KEY, doc securefile(filesystem_like_logging));

-- the bytes come from the server: pgbench itself can send no binary data
CREATE TABLE pgb_source (doc bytea);
ALTER TABLE pgb_source ALTER doc SET STORAGE EXTERNAL;
INSERT INTO pgb_source
SELECT string_agg(sha512(convert_to('securefile ' || i, 'UTF8')), '')
FROM generate_series(1, :kilobytes * 16) i;

INSERT INTO pgb_bytea (doc) SELECT s.doc FROM pgb_source s, generate_series(1, :rows);
INSERT INTO pgb_logging (doc) SELECT s.doc FROM pgb_source s, generate_series(1, :rows);
INSERT INTO pgb_filesystem_like (doc) SELECT s.doc FROM pgb_source s, generate_series(1, :rows);
VACUUM ANALYZE pgb_bytea, pgb_logging, pgb_filesystem_like;
