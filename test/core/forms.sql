-- Tables with securefile columns of all forms, for statements that sqlsmith makes.

CREATE TABLE plain (id int PRIMARY KEY, name text, doc securefile);
CREATE TABLE words (id int PRIMARY KEY, low securefile(cache), high securefile(nocache),
	outside securefile(disable_storage_in_row), bare securefile(filesystem_like_logging), other bytea);
CREATE UNLOGGED TABLE unlogged (id int, doc securefile);
CREATE TABLE parts (id int, doc securefile, more securefile) PARTITION BY RANGE (id);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (50);
CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (50) TO (MAXVALUE);
CREATE TABLE parent (id int, doc securefile);
CREATE TABLE child (note text) INHERITS (parent);
CREATE DOMAIN file AS securefile CHECK (length(VALUE) < 10000000);
CREATE TABLE with_domain (id int, doc file);
CREATE TABLE hashed (id int, doc securefile);
CREATE INDEX ON hashed USING hash (doc);
CREATE TABLE ruled (id int, doc securefile);
CREATE RULE copy AS ON INSERT TO ruled DO ALSO INSERT INTO plain VALUES (-new.id, 'rule', new.doc) ON CONFLICT DO NOTHING;
CREATE TABLE triggered (id int, doc securefile);
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	new.doc := new.doc || '\x00ff';
	RETURN new;
END $$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE ON triggered FOR EACH ROW EXECUTE FUNCTION change();
CREATE VIEW later AS SELECT id, doc, length(doc) AS size FROM plain WHERE id > 3;
CREATE VIEW joined AS SELECT p.id, p.doc || h.doc AS pair FROM plain p JOIN hashed h USING (id);
CREATE MATERIALIZED VIEW sizes AS SELECT id, length(doc) AS size FROM plain;

CREATE FUNCTION bytes(n int) RETURNS securefile LANGUAGE sql VOLATILE AS $$
	SELECT decode(repeat(md5(random()::text), n / 16), 'hex')
$$;
INSERT INTO plain SELECT i, 'row ' || i, bytes(i * i * 20) FROM generate_series(1, 100) i;
INSERT INTO words SELECT i, bytes(i * 300), bytes(9000), bytes(100), bytes(i * 2000), '\x00' FROM generate_series(1, 60) i;
INSERT INTO unlogged SELECT i, bytes(i * 200) FROM generate_series(1, 40) i;
INSERT INTO parts SELECT i, bytes(i * 150), bytes(5000) FROM generate_series(1, 99) i;
INSERT INTO parent SELECT i, bytes(6000) FROM generate_series(1, 20) i;
INSERT INTO child SELECT i, bytes(7000), 'child' FROM generate_series(1, 20) i;
INSERT INTO with_domain SELECT i, bytes(i * 400) FROM generate_series(1, 30) i;
INSERT INTO hashed SELECT i, bytes(i * 400) FROM generate_series(1, 30) i;
INSERT INTO ruled SELECT i, bytes(i * 400) FROM generate_series(1, 30) i;
INSERT INTO triggered SELECT i, bytes(i * 400) FROM generate_series(1, 30) i;
ANALYZE;
