\set id random(1, :rows)
SELECT doc FROM :table WHERE id = :id;
