# securefile_set_max_size() changes the limit of a column, and no more of it, while views, rules,
# policies, triggers and indexes use it: all of them go on to work, also by way of an index, and
# are dumped and restored, those in a circle, too.  Partitions and children; who may; what is
# refused; writers go on.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('set_max_size', conf => [ 'securefile.monitor = off' ]);

sub types
{
	my ($db, @tables) = @_;
	return $node->safe_psql($db, "SELECT string_agg(attrelid::regclass || '.' || attname || ': ' || format_type(atttypid, atttypmod), ', ' ORDER BY attrelid::regclass::text, attnum)
		FROM pg_attribute WHERE attrelid::regclass::text = ANY ('{" . join(',', @tables) . "}') AND attnum > 0 AND format_type(atttypid, NULL) = 'securefile'");
}

# ---- what uses a column ----

make_table($node, 't', "hash, 'max_size 1 MB'");
make_table($node, 'other', "hash, 'max_size 2 MB'");
sql('CREATE TABLE sevens (id int)');
sql('CREATE ROLE viewer', 'CREATE ROLE owner', 'GRANT ALL ON SCHEMA public TO viewer, owner', 'CREATE SCHEMA hidden',
	'ALTER TABLE t OWNER TO owner', 'GRANT SELECT ON t, other TO viewer');
# grouped is in a circle: what it selects needs the primary key, which needs the table
sql('CREATE VIEW v AS SELECT id, doc, length(doc) AS len FROM t WHERE length(doc) > 0',
	'ALTER VIEW v OWNER TO viewer', 'GRANT SELECT ON v TO PUBLIC', "COMMENT ON VIEW v IS 'kept'", 'ALTER VIEW v SET (security_barrier = true)',
	'CREATE VIEW hidden.w AS SELECT x.doc AS "Ein Name", x.id FROM v x JOIN other o USING (id)',
	'CREATE VIEW grouped AS SELECT id, doc, count(*) AS n FROM t GROUP BY id',
	'CREATE VIEW united AS SELECT doc FROM t UNION ALL SELECT doc FROM other',
	'CREATE VIEW sums AS SELECT sum(length(doc)) FROM t',
	'CREATE VIEW one AS SELECT doc FROM ONLY t',
	'CREATE RULE also AS ON UPDATE TO t WHERE length(NEW.doc) = 7 DO ALSO INSERT INTO sevens VALUES (NEW.id)',
	'CREATE POLICY p ON t USING (length(doc) >= 0)', 'ALTER TABLE t ADD CHECK (length(doc) < 1000000000)',
	'CREATE INDEX t_length ON t (length(doc))', 'CREATE INDEX t_short ON t (id) WHERE length(doc) < 10',
	'CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$',
	'CREATE TRIGGER tr BEFORE UPDATE OF doc ON t FOR EACH ROW WHEN (length(NEW.doc) > 3) EXECUTE FUNCTION seen()');
fill($node, 't', 1, 20, 'i * 1000');
my @all = qw(t v hidden.w grouped united one);
my $contents = sub { my ($db) = @_; return $node->safe_psql($db, join(';', (map { "SELECT '$_', count(*), md5(string_agg(x::text, '' ORDER BY x::text)) FROM $_ x" } qw(t v hidden.w grouped united one sums)))); };
my $before = $contents->('postgres');

fails_with($node, q{ALTER TABLE t ALTER doc TYPE securefile(hash, 'max_size 2 MB')}, '0A000', 'cannot alter type of a column used by', 'ALTER TABLE refuses');
my $oids = "SELECT string_agg(concat_ws(' ', oid, relname, relowner, relacl::text, reloptions::text, relfilenode, obj_description(oid)), ';' ORDER BY oid) FROM pg_class WHERE relname IN ('t', 'v', 'w', 'grouped', 'united', 't_length')";
my $were = sql($oids);
my $rules = sql("SELECT string_agg(pg_get_viewdef(oid), '' ORDER BY oid) FROM pg_class WHERE relkind = 'v' AND relnamespace IN ('public'::regnamespace, 'hidden'::regnamespace)");
sql(q{SET ROLE owner; SELECT securefile_set_max_size('t', 'doc', '2 MB')});
my $type = "securefile(hash, 'max_size 2 MB')";
is(types('postgres', @all), "grouped.doc: $type, hidden.w.Ein Name: $type, one.doc: $type, t.doc: $type, united.doc: $type, v.doc: $type", 'the columns of the table and of all views');
is(sql($oids), $were, 'relations are what they were');
is(sql("SELECT string_agg(pg_get_viewdef(oid), '' ORDER BY oid) FROM pg_class WHERE relkind = 'v' AND relnamespace IN ('public'::regnamespace, 'hidden'::regnamespace)"), $rules, 'so are the definitions');
is($contents->('postgres'), $before, 'all views show what they showed');

# the definitions do not depend on settings of the session
sql(q{CREATE VIEW constants AS SELECT doc, '1.2345678901234567'::float8 AS f, '{NULL,a}'::text[] AS a, '2020-02-03 04:05:06+00'::timestamptz AS t, 'no document'::xml AS x, 'a\\d' AS b FROM t});
my $constants = sql('SELECT f, a, t, x, b FROM constants LIMIT 1');
my (undef, undef, $said) = $node->psql('postgres', join(";\n", 'SET extra_float_digits = -15', 'SET array_nulls = off', 'SET xmloption = document', q{SET datestyle = 'SQL, DMY'}, q{SET timezone = 'Asia/Kolkata'},
	'SET standard_conforming_strings = off', map { "SELECT securefile_set_max_size('t', 'doc', '$_ MB')" } 3, 2));
is($said, '', 'and nothing is told about their texts');
is(sql('SELECT f, a, t, x, b FROM constants LIMIT 1'), $constants, 'constants in views stay what they are, whatever the session has set');
sql('DROP VIEW constants');

# what another session drops meanwhile
sql('CREATE TABLE gone (doc securefile)', 'CREATE VIEW over_gone AS SELECT doc FROM gone');
foreach my $drop ('VIEW over_gone', 'TABLE gone')
{
	my ($dropping, $waiting) = (background($node), background($node));
	$dropping->query_safe("BEGIN; DROP $drop");
	ok(waits_for_lock($node, $waiting, q{SELECT securefile_set_max_size('gone', 'doc', '3 MB')}), "a call waits for DROP $drop");
	$dropping->query_safe('COMMIT');
	$dropping->quit;
	$waiting->query('SELECT');
	like($waiting->{stderr}, $drop eq 'TABLE gone' ? qr/ERROR:  table with OID \d+ does not exist/ : qr/^$/, "and then DROP $drop");
	$waiting->quit;
}

# a definition that another session has replaced stays so, whatever snapshot the call has
sql(q{CREATE VIEW replaced AS SELECT doc, 'old'::text AS w FROM t});
my $older = background($node);
$older->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
sql(q{CREATE OR REPLACE VIEW replaced AS SELECT doc, 'new'::text AS w FROM t}, 'CREATE VIEW made AS SELECT doc FROM t');
$older->query_safe(qq{SELECT securefile_set_max_size('t', 'doc', '$_ MB')}) foreach 3, 2;
$older->query_safe('COMMIT');
$older->quit;
is(sql('SELECT DISTINCT w FROM replaced'), 'new', 'a view that was replaced after the snapshot of the call stays replaced');
sql('DROP VIEW replaced, made');

# the planner finds an index by an expression that is equal to the bit
sql('ANALYZE t');
my $plan = sub { return sql("SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN (COSTS OFF) $_[0]"); };
like($plan->('SELECT id FROM t WHERE length(doc) = 3000'), qr/Index Scan using t_length/, 'an index on an expression is used');
like($plan->('SELECT 1 FROM one WHERE length(doc) = 3000'), qr/t_length/, 'by way of a view, too');
like($plan->('SELECT id FROM t WHERE length(doc) < 10 AND id < 5'), qr/t_short/, 'and one with a condition');

# two tables whose limits differ now
sql(q{SELECT securefile_set_max_size('t', 'doc', '3 MB')});
is(types('postgres', 't', 'united'), "t.doc: securefile(hash, 'max_size 3 MB'), united.doc: securefile", 'a union of two types has none');
sql("CREATE OR REPLACE VIEW $_") foreach ('united AS SELECT doc FROM t UNION ALL SELECT doc FROM other', 'one AS SELECT doc FROM ONLY t');
$type = "securefile(hash, 'max_size 3 MB')";

# ---- it holds ----

sql(q{SELECT securefile_set_max_size('t', 'doc', '1 MB')});
fails_with($node, 'INSERT INTO t SELECT i, i, 400000, blob(i, 400000) FROM generate_series(201, 219) i', '53400', 'limit of 1 MB.*securefile_set_max_size', 'a lower limit holds, and the hint names the function');
my $session = background($node);
$session->query_safe('BEGIN; INSERT INTO other SELECT 1, 1, 100000, blob(1, 100000)');
is(sql(q{SET lock_timeout = '20s'; SELECT securefile_set_max_size('other', 'doc', 'none'), 'done'}), '|done', 'a table by itself: writers go on');
is($session->query('INSERT INTO other SELECT i, i, 300000, blob(i, 300000) FROM generate_series(2, 9) i; COMMIT; SELECT count(*) FROM other'), 9, 'and see the new limit');
$session->quit;
is(types('postgres', 'other'), 'other.doc: securefile(hash)', 'no limit any more');
sql(q{SELECT securefile_set_max_size('t', 'doc', '3 MB')});

sql(q{BEGIN; SELECT securefile_set_max_size('t', 'doc', '9 MB'); ROLLBACK});
is(types('postgres', 't', 'v'), "t.doc: $type, v.doc: $type", 'a rollback takes it back');

# ---- dump and restore ----

$before = $contents->('postgres');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'dumped');
like(slurp($dump), qr/CREATE VIEW public\.grouped AS\nSELECT\n    NULL::integer AS id,\n    NULL::public\.securefile\(hash, 'max_size 3 MB'\) AS doc/, 'a view in a circle is dumped by its columns first');
sql('CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'and restored');
is(types('restored', @all), types('postgres', @all), 'with the same types');
is($contents->('restored'), $before, 'and the same contents');

# ---- trees ----

make_table($node, 'p', '', 'PARTITION BY RANGE (id)');
sql('CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id)', 'CREATE TABLE p11 PARTITION OF p1 FOR VALUES FROM (0) TO (5)',
	'CREATE TABLE q (id int, doc securefile)', 'CREATE TABLE q1 () INHERITS (q)', 'CREATE VIEW vp AS SELECT doc FROM p', 'CREATE VIEW vp11 AS SELECT doc FROM p11');
sql(q{SELECT securefile_set_max_size('p', 'doc', '5 GB'), securefile_set_max_size('q', 'doc', '6 GB')});
my $five = "securefile('max_size 5 GB')";
is(types('postgres', qw(p p1 p11 vp vp11)), "p.doc: $five, p1.doc: $five, p11.doc: $five, vp.doc: $five, vp11.doc: $five", 'partitions, and views over them');
is(types('postgres', 'q1'), "q1.doc: securefile('max_size 6 GB')", 'children');
fill($node, 'p', 1, 4, 9000);
rows_right($node, 'p', 4, 'rows go to partitions');
sql('CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)', 'CREATE TABLE p3 (LIKE p)', 'ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30)');
is(types('postgres', 'p2', 'p3'), "p2.doc: $five, p3.doc: $five", 'new partitions have it');

# ---- refusals ----

fails_with($node, q{SELECT securefile_set_max_size('p11', 'doc', '5 GB')}, '42P16', 'cannot change the limit of inherited column "doc"');
sql(q{CREATE TABLE kept (id int, doc securefile(disable_storage_in_row, 'retention 2 days', 'max_size 1 GB'))}, 'CREATE VIEW over_kept AS SELECT doc FROM kept', q{SELECT securefile_set_max_size('kept', 'doc', '2 GB')});
fails_with($node, q{SELECT securefile_set_max_size('kept', 'doc', 'none')}, '22023', '"retention" needs "max_size".*half of max_size', 'a retention needs a limit');
is(types('postgres', 'kept', 'over_kept'), join(', ', map { "$_.doc: securefile(disable_storage_in_row, 'retention 2 days', 'max_size 2 GB')" } 'kept', 'over_kept'), 'it stays when the limit changes');
sql(q{CREATE DOMAIN file AS securefile('max_size 1 GB')}, 'CREATE TABLE d (doc file)');
fails_with($node, q{SELECT securefile_set_max_size('d', 'doc', '5 GB')}, '42809', 'whose type is a domain');
fails_with($node, q{SELECT securefile_set_max_size('v', 'doc', '5 GB')}, '42809', 'is not a table');
fails_with($node, q{SELECT securefile_set_max_size('t', 'len', '5 GB')}, '42804', 'not of type securefile');
fails_with($node, q{SET ROLE viewer; SELECT securefile_set_max_size('t', 'doc', '5 GB')}, '42501', 'must be owner');
fails_with($node, "SELECT securefile_set_max_size('t', 'doc', '$_->[0]')", '22023', $_->[1]) foreach (['129 GB', 'nearest sizes are 128 GB and 130 GB'], ['5', 'whole number and a unit'], ['4 TB', 'too large']);
fails_with($node, q{SELECT securefile_set_max_size('t', 'doc', NULL)}, '22004', 'null');
is(types('postgres', 't'), "t.doc: $type", 'none of them has changed anything');
sound($node, 't', 'after all of that');

done_testing();
