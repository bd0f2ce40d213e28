-- functions of the extension in the hands of one role, tables in those of another
CREATE ROLE regress_sf_owner;
CREATE ROLE regress_sf_other;
CREATE SCHEMA sf_sec AUTHORIZATION regress_sf_owner;
SET search_path = sf_sec, public;

-- securefile_rewrite() runs index functions as the owner of the table
SET ROLE regress_sf_owner;
CREATE TABLE ev (id int, d securefile, t text);
INSERT INTO ev VALUES (1, decode(repeat('ab', 6000), 'hex'), 'x');
CREATE FUNCTION grab(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
$$ BEGIN
  IF current_user <> 'regress_sf_owner' THEN RAISE 'running as %', current_user; END IF;
  RETURN $1;
END $$;
CREATE INDEX ON ev (grab(t));
CREATE FUNCTION len(securefile) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT length($1)';
CREATE INDEX ON ev (len(d));
RESET ROLE;
SELECT securefile_rewrite('ev', 'd');
SELECT securefile_rewrite('ev', 'd', 'filesystem_like_logging');
SELECT current_user = session_user AS myself_again;
SELECT * FROM securefile_check('ev', 'd');

-- a partition that belongs to somebody else is left alone
SET ROLE regress_sf_owner;
CREATE TABLE pp (id int, d securefile) PARTITION BY LIST (id);
RESET ROLE;
CREATE TABLE pp1 PARTITION OF pp FOR VALUES IN (1);
ALTER TABLE pp1 OWNER TO regress_sf_other;
SET ROLE regress_sf_owner;
SELECT securefile_rewrite('pp', 'd');
SELECT securefile_rewrite('pp', 'd', 'filesystem_like_logging');
SELECT securefile_check('pp', 'd');
SELECT securefile_maintain('pp', 'd');
SELECT securefile_usage('pp', 'd');

-- who may not read a table cannot hold a lock on its segment
RESET ROLE;
SET ROLE regress_sf_other;
BEGIN;
SELECT count(*) > 0 AS seen FROM securefile_columns;
SELECT count(*) FROM pg_locks
  WHERE pid = pg_backend_pid() AND relation::regclass::text LIKE '%pg_securefile%';
COMMIT;
RESET ROLE;

-- exclusion constraints would read what others have not committed
CREATE TABLE ex (d securefile, EXCLUDE USING hash (d WITH =));

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA sf_sec CASCADE;
DROP ROLE regress_sf_owner, regress_sf_other;
