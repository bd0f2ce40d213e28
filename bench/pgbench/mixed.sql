\set id random(1, :rows)
\set what random(1, 10)
\if :what = 1
INSERT INTO :table (doc) SELECT doc FROM pgb_source;
\elif :what = 2
UPDATE :table SET doc = overlay(doc PLACING '\x0102030405060708' FROM 4097) WHERE id = :id;
\else
SELECT doc FROM :table WHERE id = :id;
\endif
