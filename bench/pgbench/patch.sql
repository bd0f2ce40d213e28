\set id random(1, :rows)
UPDATE :table SET doc = overlay(doc PLACING '\x0102030405060708' FROM 4097) WHERE id = :id;
