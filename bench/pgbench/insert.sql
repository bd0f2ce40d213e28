INSERT INTO :table (doc) SELECT doc FROM pgb_source;
