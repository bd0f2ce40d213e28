# Rows that are rejected after the trigger "store" has fired: by ON CONFLICT, CHECK, NOT NULL, a
# policy, a partition, another trigger.  Their values are not written.  Rows that are written
# have the right values, whatever looks at the values, or keeps them, in between.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

# what is freed reads as other bytes
$ENV{MALLOC_PERTURB_} = 85;
my $node = new_cluster('rejected', conf => [ 'max_parallel_workers_per_gather = 2' ]);

# contents of 1.5 MB
sql(q{
	CREATE FUNCTION big(n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT decode(repeat(string_agg(encode(sha512((n || '-' || i)::bytea), 'hex'), '' ORDER BY i), 32), 'hex') FROM generate_series(1, 750) i $$;
	CREATE TABLE contents AS SELECT n, big(n) AS b, md5(big(n)) AS m FROM generate_series(1, 4) n;
	CREATE TABLE source (n int, d securefile);
	INSERT INTO source SELECT n, b FROM contents;
	CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n < 10), d securefile, e securefile,
		CHECK (length(d) < 2000000), CHECK (d <> '\x00'), CHECK (securefile_digest(d, 'md5') IS NOT NULL));
	INSERT INTO t SELECT n, n, b, NULL FROM contents WHERE n = 1;
});

# What statements cost: bytes of WAL, and bytes that were written to data files.  A
# statement may fail.
my $written = q{SELECT coalesce(sum(direct_write_bytes), 0) FROM securefile_stat};
sub cost
{
	my @statements = @_;
	my $before = sql("SELECT pg_current_wal_insert_lsn()");
	my $bytes = sql($written);
	my ($rc, $out, $err) = $node->psql('postgres', join(';', @statements));
	return (sql("SELECT pg_current_wal_insert_lsn() - '$before'"), sql($written) - $bytes, $err);
}

# Nothing but what the server itself does: no statement writes a hundredth of its value, but
# the images of pages that it meets first after a checkpoint.
sub costs_nothing
{
	my ($name, $error, @statements) = @_;
	my ($wal, $bytes, $err) = cost(@statements);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($wal < 200_000 && $bytes == 0, "$name: nothing is written") or diag("$wal bytes of WAL, $bytes of data");
	if ($error) { like($err, $error, "$name: the error"); }
	else { is($err, '', "$name: no error"); }
	return;
}

# ---- ON CONFLICT ----

my $conflict = 'ON CONFLICT DO NOTHING';
costs_nothing('DO NOTHING', undef, "INSERT INTO t SELECT 1, 1, b FROM contents $conflict");
costs_nothing('DO NOTHING, a target', undef, "INSERT INTO t SELECT 1, 1, b FROM contents ON CONFLICT (id) DO NOTHING");
costs_nothing('DO NOTHING, a parameter', undef,
	"PREPARE p (bytea) AS INSERT INTO t VALUES (1, 1, \$1) $conflict",
	map { "EXECUTE p(big($_))" } 1 .. 4);
costs_nothing('DO NOTHING, stored values', undef, "INSERT INTO t SELECT 1, 1, d FROM source $conflict");
costs_nothing('DO NOTHING, edited values', undef, "INSERT INTO t SELECT 1, 1, d || '\\x00'::bytea FROM source $conflict");
costs_nothing('DO NOTHING, two columns', undef, "INSERT INTO t SELECT 1, 1, d, b FROM source, contents $conflict");
costs_nothing('DO NOTHING, serializable', undef, 'BEGIN ISOLATION LEVEL SERIALIZABLE',
	"INSERT INTO t SELECT 1, 1, b FROM contents $conflict", 'COMMIT');
costs_nothing('DO NOTHING RETURNING', undef, "INSERT INTO t SELECT 1, 1, b FROM contents $conflict RETURNING id, n");
costs_nothing('DO NOTHING RETURNING the value', undef, "INSERT INTO t SELECT 1, 1, b FROM contents $conflict RETURNING *",
	'INSERT INTO t SELECT 1, 1, b FROM contents ON CONFLICT (id) DO UPDATE SET n = 1 WHERE false RETURNING d');
costs_nothing('DO NOTHING in a WITH clause', undef,
	"WITH i AS (INSERT INTO t SELECT 1, 1, b FROM contents $conflict RETURNING id) SELECT count(*) FROM i",
	"WITH i AS (INSERT INTO t SELECT 1, 1, b FROM contents $conflict) SELECT 1");
# as programs get a row, or make it
costs_nothing('DO NOTHING in a WITH clause that returns the value', undef,
	"WITH i AS (INSERT INTO t SELECT 1, 1, b FROM contents $conflict RETURNING *) SELECT * FROM i UNION ALL SELECT * FROM t WHERE id = 2",
	"WITH i AS (INSERT INTO t SELECT 1, 1, b FROM contents $conflict RETURNING id, d, length(d)) INSERT INTO t SELECT id + 1, 1, d FROM i");
costs_nothing('DO UPDATE without the value', undef,
	'INSERT INTO t SELECT 1, 1, b FROM contents WHERE n < 2 ON CONFLICT (id) DO UPDATE SET n = t.n',
	'INSERT INTO t SELECT 1, 1, b FROM contents ON CONFLICT (id) DO UPDATE SET d = excluded.d WHERE false',
	'INSERT INTO t SELECT 1, 1, b FROM contents ON CONFLICT (id) DO UPDATE SET d = excluded.d WHERE length(excluded.d) = 3');
sql(q{
	CREATE TABLE keyed (id int, d securefile, len bigint GENERATED ALWAYS AS (length(d)) STORED UNIQUE,
		EXCLUDE (id WITH =));
	CREATE FUNCTION first_bytes(d securefile) RETURNS bytea LANGUAGE sql IMMUTABLE AS 'SELECT substring(d FROM 1 FOR 64)';
	CREATE UNIQUE INDEX ON keyed (first_bytes(d));
	INSERT INTO keyed SELECT 1, b FROM contents WHERE n = 1;
	CREATE TABLE parted (id int, k text, d securefile, PRIMARY KEY (k, id)) PARTITION BY LIST (k);
	CREATE TABLE parted_a PARTITION OF parted FOR VALUES IN ('a');
	CREATE TABLE parted_b (x int, d securefile, id int NOT NULL, k text NOT NULL);
	ALTER TABLE parted_b DROP x;
	ALTER TABLE parted ATTACH PARTITION parted_b FOR VALUES IN ('b');
	INSERT INTO parted SELECT 1, k, d FROM source, (VALUES ('a'), ('b')) v (k) WHERE n = 1;
});
costs_nothing('DO NOTHING, an exclusion constraint', undef, "INSERT INTO keyed SELECT 1, b || '\\x00'::bytea FROM contents $conflict");
costs_nothing('DO NOTHING, a generated column', undef, "INSERT INTO keyed SELECT 2, b FROM contents ON CONFLICT (len) DO NOTHING");
# 18 plans a function in SQL for its arguments, as constants, which places them
costs_nothing('DO NOTHING, an index on the content', undef, 'SET plan_cache_mode = force_generic_plan',
	"INSERT INTO keyed SELECT 2, b FROM contents WHERE n = 1 ON CONFLICT (first_bytes(d)) DO NOTHING");
costs_nothing('DO NOTHING, partitions', undef,
	"INSERT INTO parted SELECT 1, k, b FROM contents, (VALUES ('a'), ('b')) v (k) $conflict");

# ---- constraints, policies, partitions, triggers ----

costs_nothing('CHECK', qr/t_n_check/, 'INSERT INTO t SELECT 2, 11, b FROM contents');
costs_nothing('CHECK of the length', qr/t_d_check/, 'INSERT INTO t SELECT 2, 1, b || b FROM contents');
costs_nothing('NOT NULL', qr/not-null/, 'INSERT INTO t SELECT 2, NULL, b FROM contents');
costs_nothing('CHECK in UPDATE', qr/t_n_check/, 'UPDATE t SET n = 11, d = b FROM contents c WHERE c.n = 2');
costs_nothing('CHECK in an UPDATE that edits', qr/t_n_check/, 'UPDATE t SET n = 11, d = d || \'\x00\' FROM contents c WHERE c.n = 2');
costs_nothing('CHECK in MERGE', qr/t_n_check/,
	'MERGE INTO t USING contents c ON t.id = c.n WHEN NOT MATCHED THEN INSERT VALUES (c.n, 11, c.b)');
costs_nothing('CHECK in a savepoint', undef,
	map { "DO \$\$ BEGIN INSERT INTO t SELECT 2, 11, b FROM contents; EXCEPTION WHEN check_violation THEN NULL; END \$\$" } 1 .. 3);
costs_nothing('a partition', qr/partition constraint/, "INSERT INTO parted_a SELECT 2, 'b', b FROM contents");
costs_nothing('CHECK in COPY', qr/t_n_check/, "COPY (SELECT 2, 11, b FROM contents) TO '" . $node->basedir . "/rows' (FORMAT binary)",
	"COPY t (id, n, d) FROM '" . $node->basedir . "/rows' (FORMAT binary)");
sql(q{
	CREATE ROLE careful;
	CREATE TABLE guarded (id int, d securefile);
	ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
	CREATE POLICY few ON guarded USING (true) WITH CHECK (id < 10 AND length(d) > 0);
	GRANT ALL ON guarded, contents, source TO careful;
	GRANT SELECT, UPDATE ON t TO careful;
});
costs_nothing('a policy', qr/row-level security/, 'SET ROLE careful', 'INSERT INTO guarded SELECT 11, b FROM contents');

# ---- the values of rows that are written ----

# content ids of the columns of a table, in order
sub contents
{
	my ($table, @columns) = @_;
	my $list = join(', ', map { "(SELECT c.n FROM contents c WHERE c.b = x.$_)" } @columns);
	return sql("SELECT id, $list FROM $table x ORDER BY id");
}
sub is_sound
{
	my ($table, $column, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sql("SELECT * FROM securefile_check('$table', '$column')"), '', "$name: sound");
	return;
}

sql(q{
	INSERT INTO t SELECT n, n, b, b FROM contents WHERE n > 1;
	INSERT INTO t SELECT 1, 1, b FROM contents WHERE n = 3 ON CONFLICT (id) DO UPDATE SET d = excluded.d, e = excluded.d;
	INSERT INTO t SELECT 2, 1, d FROM source WHERE n = 4 ON CONFLICT (id) DO UPDATE SET e = excluded.d;
	UPDATE t SET d = e, e = d WHERE id = 2;
	UPDATE t SET d = d || '\x01' WHERE id = 3;
	UPDATE t SET d = substring(d FROM 1 FOR length(d)::int - 1) WHERE id = 3;
});
is(contents('t', 'd', 'e'), "1|3|3\n2|4|2\n3|3|3\n4|4|4", 'upserts');
sql('DELETE FROM t WHERE id IN (1, 4)');
sql("SELECT securefile_maintain('t', c) FROM (VALUES ('d'), ('e')) v (c)");
is(contents('t', 'd', 'e'), "2|4|2\n3|3|3", 'no two rows share a value');
is_sound('t', $_, 'upserts') for qw(d e);

is(sql('INSERT INTO t SELECT n + 4, n, b FROM contents WHERE n < 3 RETURNING id, (SELECT c.n FROM contents c WHERE c.b = d)'), "5|1\n6|2", 'RETURNING');
is( sql(q{WITH i AS (INSERT INTO t SELECT n + 20, n, b FROM contents RETURNING *), all_of AS MATERIALIZED (SELECT * FROM i ORDER BY id DESC)
	INSERT INTO t SELECT i.id + 10, i.n, i.d FROM all_of i ORDER BY id RETURNING id}),
	"31\n32\n33\n34", 'RETURNING that feeds other rows');
is(sql(q{CREATE FUNCTION fill() RETURNS SETOF text LANGUAGE plpgsql AS
	$$ DECLARE r record; v securefile; w t; BEGIN
		FOR r IN INSERT INTO t SELECT n + 40, n, b FROM contents RETURNING d, id LOOP RETURN NEXT md5(r.d::bytea); END LOOP;
		INSERT INTO t SELECT n + 50, n, b FROM contents WHERE n = 2 RETURNING d INTO v;
		UPDATE t SET d = d || '\x00'::bytea, e = d WHERE id = 41 RETURNING t.* INTO w;
		RETURN NEXT md5(v::bytea);
		RETURN NEXT md5(substring(w.d FOR 1536000)) || length(w.d);
	END $$; SELECT fill()}), sql("SELECT m FROM contents ORDER BY n") . "\n" . sql("SELECT m FROM contents WHERE n = 2") . "\n" . sql("SELECT m || 1536001 FROM contents WHERE n = 1"),
	'RETURNING into variables');
my $fed = "(SELECT * FROM t WHERE id > 20)";
sql('DELETE FROM t WHERE id > 40');
is(contents($fed, 'd'), "21|1\n22|2\n23|3\n24|4\n31|1\n32|2\n33|3\n34|4", 'all rows have their own');
sql('DELETE FROM t WHERE id BETWEEN 21 AND 24');
sql("SELECT securefile_maintain('t', 'd')");
is(contents($fed, 'd'), "31|1\n32|2\n33|3\n34|4", 'and keep it');
sql('DELETE FROM t WHERE id > 20');
is_sound('t', 'd', 'RETURNING');

sql(q{
	INSERT INTO parted SELECT n + 1, 'a', b FROM contents;
	UPDATE parted SET k = 'b', d = c.b FROM contents c WHERE k = 'a' AND id = c.n + 1;
});
is(contents("(SELECT * FROM parted WHERE k = 'b')", 'd'), "1|1\n2|1\n3|2\n4|3\n5|4", 'rows that move to another partition');
is_sound($_, 'd', 'partitions') for qw(parted_a parted_b);

# COPY, with a trigger of the user's before ours
sql("COPY (SELECT n + 10, n, b, b FROM contents) TO '" . $node->basedir . "/rows' (FORMAT binary)");
sql("COPY t FROM '" . $node->basedir . "/rows' (FORMAT binary)");
is(contents('(SELECT * FROM t WHERE id > 10)', 'd', 'e'), "11|1|1\n12|2|2\n13|3|3\n14|4|4", 'COPY');
is_sound('t', $_, 'COPY') for qw(d e);

# ---- what keeps values for longer than the row ----

sql(q{
	CREATE TABLE kept (id serial, d securefile, note text);
	CREATE TABLE k (id int, d securefile, e securefile);
	CREATE FUNCTION keep_all() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO kept (d, note) SELECT d, 'table' FROM rows; RETURN NULL; END $$;
	CREATE TRIGGER all_rows AFTER INSERT ON k REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION keep_all();
	INSERT INTO k SELECT n, b, d FROM contents JOIN source USING (n);
});
is(contents('kept', 'd'), "1|1\n2|2\n3|3\n4|4", 'a transition table');
costs_nothing('CHECK of a table with a transition table', qr/k_check/,
	'ALTER TABLE k ADD CONSTRAINT k_check CHECK (length(d) < 2000000)', 'INSERT INTO k SELECT n, b || b FROM contents');
sql('INSERT INTO k SELECT n + 20, b FROM contents WHERE n = 4; UPDATE k SET d = d WHERE id > 20; DELETE FROM k WHERE id > 20; DELETE FROM kept WHERE id > 4; ALTER SEQUENCE kept_id_seq RESTART 5');
sql("COPY (SELECT n + 10, b, b FROM contents) TO '" . $node->basedir . "/rows' (FORMAT binary)");
sql("COPY k FROM '" . $node->basedir . "/rows' (FORMAT binary)");
is(contents('kept', 'd'), "1|1\n2|2\n3|3\n4|4\n5|1\n6|2\n7|3\n8|4", 'a transition table of COPY');
sql(q{
	DROP TRIGGER all_rows ON k;
	TRUNCATE k, kept;
	CREATE FUNCTION keep_one() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO kept (d, note) VALUES (NEW.d, 'late'); NEW.e := NEW.d; RETURN NEW; END $$;
	CREATE TRIGGER "~late" BEFORE INSERT ON k FOR EACH ROW EXECUTE FUNCTION keep_one();
	INSERT INTO k SELECT n, b FROM contents;
	DROP TRIGGER "~late" ON k;
});
is(contents('kept', 'd'), "9|1\n10|2\n11|3\n12|4", 'a trigger that fires after ours');
sql('TRUNCATE k, kept');

# A function that is called for a row: inserts the value elsewhere, also where values stay in
# rows, runs a parallel query with it, leaves a cursor open with it.
sql(q{
	CREATE TABLE many AS SELECT i FROM generate_series(1, 1000) i;
	ALTER TABLE many SET (parallel_workers = 2);
	CREATE FUNCTION look(id int, d securefile) RETURNS boolean LANGUAGE plpgsql AS
	$$ DECLARE
		c refcursor := 'c' || id;
	BEGIN
		CREATE TEMP TABLE IF NOT EXISTS temporary (d securefile);
		INSERT INTO temporary VALUES (d);
		INSERT INTO kept (d, note) VALUES (d, 'function');
		PERFORM 1 / (CASE count(*) WHEN 1000 THEN 1 ELSE 0 END) FROM many WHERE i < length(d) AND substring(d, i, 1) IS NOT NULL;
		OPEN c FOR SELECT md5(d::bytea);
		RETURN true;
	END $$;
	-- memory that a query has left
	CREATE FUNCTION reuse(depth int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
		RETURN CASE WHEN depth > 0 THEN (SELECT max(reuse(depth - 1)) FROM generate_series(1, 1)) ELSE 4 END;
	END $$;
	CREATE FUNCTION look_at_all() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM look(id, d) FROM rows; RETURN NULL; END $$;
});
my $insert = 'INSERT INTO k SELECT n, b FROM contents';
my %looks = (
	'CHECK' => [ 'ALTER TABLE k ADD CONSTRAINT looks CHECK (look(id, d))', $insert, 'ALTER TABLE k DROP CONSTRAINT looks' ],
	'a transition table' => [
		'CREATE TRIGGER looks AFTER INSERT ON k REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION look_at_all()',
		$insert, 'DROP TRIGGER looks ON k' ],
	'a WITH clause' => [ 'SELECT', "WITH i AS ($insert RETURNING id, d) SELECT FROM i WHERE NOT look(id, d)", 'SELECT' ]);
for my $case (map { my $look = $_; map { [ $look, $_ ] } qw(force_custom_plan force_generic_plan) } sort keys %looks)
{
	my ($look, $mode) = @$case;
	my ($begin, $statement, $end) = @{ $looks{$look} };
	my $name = "$look, $mode";
	sql("TRUNCATE k; TRUNCATE kept RESTART IDENTITY; $begin");
	my $cursors = sql(qq{
		SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
		SET parallel_leader_participation = off;
		SET plan_cache_mode = $mode;
		BEGIN;
		$statement;
		SELECT reuse(50);
		FETCH FROM c1; FETCH FROM c2; FETCH FROM c3; FETCH FROM c4;
		SELECT count(*) FROM temporary JOIN contents ON b = d;
		COMMIT});
	is($cursors, "4\n" . sql('SELECT m FROM contents ORDER BY n') . "\n4", "$name: cursors of a function, and rows of a temporary table");
	is(contents('kept', 'd'), "1|1\n2|2\n3|3\n4|4", "$name: rows of another table");
	is(contents('k', 'd'), "1|1\n2|2\n3|3\n4|4", "$name: the rows themselves");
	is_sound($_, 'd', $name) for qw(k kept);
	sql($end);
}

# what WITH has returned is read by two, while other rows come; edited values of it
sql('TRUNCATE k');
is( sql(q{
	SET enable_hashjoin = off; SET enable_mergejoin = off; SET join_collapse_limit = 1;
	WITH i AS (INSERT INTO k SELECT n, big(n) FROM generate_series(1, 4) n RETURNING id, d)
	SELECT a.id, (SELECT n FROM contents WHERE b || '\x00'::bytea = e.v), (SELECT n FROM contents WHERE b = z.d)
	FROM i a CROSS JOIN LATERAL (SELECT a.d || '\x00'::bytea AS v OFFSET 0) e JOIN i z ON z.id = 5 - a.id ORDER BY 1}),
	"1|1|4\n2|2|3\n3|3|2\n4|4|1", 'a WITH clause that is read twice');
is( sql(q{
	CREATE FUNCTION last() RETURNS text LANGUAGE plpgsql AS
	$$ DECLARE r record; v securefile[]; w securefile; BEGIN
		WITH i AS (UPDATE k SET d = d || '\x02'::bytea WHERE id = 1 RETURNING d) SELECT d INTO w FROM i;
		WITH i AS (UPDATE k SET d = d || '\x01'::bytea RETURNING id, d), j AS MATERIALIZED (SELECT * FROM i ORDER BY id DESC)
		SELECT j.id, ROW(j.id, j.d, NULL)::k AS row, a INTO r FROM j, (SELECT array_agg(d ORDER BY id) AS a FROM i) a LIMIT 1;
		PERFORM reuse(50);
		v := r.a;
		RETURN r.id || md5((SELECT d FROM k WHERE id = 4 AND d = (r.row).d)::bytea) || cardinality(v) || md5(v[4]::bytea) || md5(w::bytea);
	END $$;
	SELECT last()}),
	sql(q{SELECT 4 || md5(b || '\x01') || 4 || md5(b || '\x01') || (SELECT md5(b || '\x02') FROM contents WHERE n = 1) FROM contents WHERE n = 4}), 'a WITH clause whose rows are kept');
is_sound('k', 'd', 'WITH');

# ---- one value is written for a row, whatever is tried before ----

# Two sessions race for a key: the one that waits finds the conflict gone, and inserts.
my ($first, $second) = map { background($node) } 1 .. 2;
sql('TRUNCATE t');
sql('INSERT INTO t SELECT n, n, b FROM contents WHERE n = 1');
$first->query_safe('BEGIN; DELETE FROM t WHERE id = 1');
ok( waits_for_lock($node, $second, 'INSERT INTO t SELECT 1, n, b FROM contents WHERE n = 2 ON CONFLICT (id) DO UPDATE SET n = 9'),
	'one session waits for the other');
$first->query_safe('COMMIT');
$_->quit for $first, $second;
is(contents('t', 'd'), '1|2', 'the conflict went away');
is_sound('t', 'd', 'a race');

# prepared, and after a crash
sql("BEGIN; INSERT INTO t SELECT n, n, b FROM contents WHERE n > 1; PREPARE TRANSACTION 'p'");
crash($node);
$node->start;
sql("COMMIT PREPARED 'p'");
is(contents('t', 'd'), "1|2\n2|2\n3|3\n4|4", 'prepared, crashed, committed');
is_sound('t', 'd', 'a crash');

# memory: a row that is rejected gives its value back
my $peak = sql(q{
	INSERT INTO t SELECT 1, 1, b FROM contents, generate_series(1, 100) ON CONFLICT DO NOTHING;
	SELECT pg_size_bytes(split_part(line, ':', 2)) FROM (SELECT trim(l) AS line FROM
		regexp_split_to_table(pg_read_file('/proc/' || pg_backend_pid() || '/status'), E'\n') l) s WHERE line LIKE 'VmHWM%'});
ok($peak < 300 * 1024 * 1024, 'many rejected rows in bounded memory') or diag("$peak bytes");
note("the process had $peak bytes at most");

$node->stop;
done_testing();
