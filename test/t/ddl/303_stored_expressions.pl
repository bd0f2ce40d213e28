# What is stored of a column beside its table: expressions of indexes, constraints, statistics,
# partition keys, generated columns, policies and triggers, rules, bodies of SQL functions, views
# and materialized views.  After another limit, and after no limit, each of them
# does what it did; the planner uses those that it used; a dump is what it was, but for the limit,
# and is restored.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('stored_expressions', conf => [ 'securefile.monitor = off' ]);
my $rows = 40;

# ---- all kinds ----

make_table($node, 't', q{hash, 'max_size 1 GB'});
make_table($node, 'other', q{hash, 'max_size 1 GB'});
fill($node, 't', 1, $rows, 'i % 4 * 1000 + 100');
sql('CREATE ROLE reader', 'GRANT SELECT ON t TO reader', 'CREATE TABLE said (what text)', 'CREATE TABLE allowed (len bigint)', 'GRANT SELECT ON allowed TO reader', 'INSERT INTO allowed VALUES (100), (1100)',
	'ALTER TABLE t ADD size bigint GENERATED ALWAYS AS (length(doc)) STORED',
	q{ALTER TABLE t ALTER doc SET DEFAULT '\x00'::bytea},
	'ALTER TABLE t ADD CONSTRAINT short CHECK (length(doc) < 100000)',
	'CREATE INDEX of_length ON t (length(doc))', 'CREATE UNIQUE INDEX of_empty ON t (seed) WHERE length(doc) = 0',
	'CREATE STATISTICS lengths ON length(doc), (seed % 4) FROM t',
	'ALTER TABLE t ENABLE ROW LEVEL SECURITY',
	'CREATE POLICY listed ON t FOR SELECT USING (EXISTS (SELECT FROM allowed a WHERE a.len = length(t.doc)))',
	'CREATE POLICY long ON t FOR UPDATE USING (length(doc) > 0) WITH CHECK (length(doc) > 1)',
	q{CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO said VALUES (TG_NAME || ' ' || NEW.id); RETURN NEW; END $$},
	'CREATE TRIGGER longer BEFORE UPDATE ON t FOR EACH ROW WHEN (length(NEW.doc) > length(OLD.doc)) EXECUTE FUNCTION say()',
	'CREATE RULE copied AS ON DELETE TO t WHERE length(OLD.doc) > 3000 DO ALSO INSERT INTO other VALUES (OLD.id, OLD.seed, OLD.len, OLD.doc)',
	'CREATE FUNCTION longest() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT max(length(doc)) FROM t; END',
	'CREATE FUNCTION first() RETURNS securefile LANGUAGE sql BEGIN ATOMIC SELECT doc FROM t ORDER BY id LIMIT 1; END',
	'CREATE FUNCTION all_of() RETURNS SETOF t LANGUAGE sql BEGIN ATOMIC SELECT * FROM t ORDER BY id; END',
	'CREATE VIEW v AS SELECT id, doc FROM t WHERE length(doc) > 0',
	'CREATE RULE into_t AS ON INSERT TO v DO INSTEAD INSERT INTO t (id, seed, len, doc) VALUES (NEW.id, NEW.id, length(NEW.doc), NEW.doc)',
	'CREATE MATERIALIZED VIEW kept AS SELECT id, length(doc) AS length FROM t WHERE length(doc) > 0', 'CREATE UNIQUE INDEX ON kept (id)');
fails_with($node, 'CREATE PUBLICATION p FOR TABLE t WHERE (doc IS NOT NULL) WITH (publish = insert)', '0A000', 'User-defined types are not allowed', 'a publication cannot name the column');
sql(q{CREATE TABLE by_length (id int, seed int, len int, doc securefile('max_size 1 GB')) PARTITION BY RANGE (length(doc))},
	'CREATE TABLE by_length_1 PARTITION OF by_length FOR VALUES FROM (0) TO (5000)', 'CREATE TABLE by_length_2 PARTITION OF by_length FOR VALUES FROM (5000) TO (10000)');
fill($node, 'by_length', 1, 20, 'i * 450');
sql('ANALYZE');

# ---- what they do ----

# Each statement is rolled back.
my @uses = (
	'SELECT count(*), sum(size) FROM t', 'INSERT INTO t (id) VALUES (1000) RETURNING size, doc::bytea',
	'INSERT INTO t SELECT 1000, 1, 1, blob(1, 200000)',
	q{INSERT INTO t VALUES (1000, 1, 0, ''), (1001, 1, 0, '') ON CONFLICT (seed) WHERE length(doc) = 0 DO NOTHING RETURNING id},
	'SET ROLE reader; SELECT count(*), min(length(doc)), max(length(doc)) FROM t',
	q{GRANT UPDATE ON t TO reader; SET ROLE reader; UPDATE t SET doc = '' WHERE id = 1},
	q{UPDATE t SET doc = doc || '\x01' WHERE id = 2; UPDATE t SET doc = '\x01' WHERE id = 3; SELECT * FROM said},
	'DELETE FROM t WHERE id IN (3, 4); SELECT id, length(doc) FROM other',
	'SELECT longest(), length(first()), (SELECT sum(length(doc)) FROM all_of())',
	q{INSERT INTO v VALUES (1000, '\x0102'); SELECT id, length(doc) FROM v WHERE id = 1000},
	'SELECT count(*), sum(length) FROM kept', 'UPDATE t SET doc = blob(9, 9) WHERE id = 9; REFRESH MATERIALIZED VIEW kept; SELECT sum(length) FROM kept',
	'REFRESH MATERIALIZED VIEW CONCURRENTLY kept; SELECT sum(length) FROM kept',
	'INSERT INTO by_length SELECT 1000, 1, 6000, blob(1, 6000) RETURNING tableoid::regclass',
	'UPDATE by_length SET doc = blob(1, 7000) WHERE id = 1 RETURNING tableoid::regclass');

sub behaviour
{
	my ($db) = @_;
	return join "\n", map {
		my ($rc, $out, $err) = $node->psql($db, "\\set VERBOSITY terse\nBEGIN;\n$_;\nROLLBACK", on_error_stop => 1);
		"$_: $out $err" =~ s/psql:.*?: //gr
	} @uses;
}

# Plans that need what the planner finds by an equal expression, with what it expects.
my @planned = (
	'SELECT id FROM t WHERE length(doc) = 1100 AND seed % 4 = 1', 'SELECT id FROM t WHERE length(doc) > 200000', 'SELECT seed FROM t WHERE length(doc) = 0 ORDER BY seed',
	'SELECT length(doc), seed % 4, count(*) FROM t GROUP BY 1, 2', 'SELECT id FROM by_length WHERE length(doc) = 4000');

sub plans
{
	my ($db) = @_;
	my $set = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET constraint_exclusion = on;';
	return join "\n", map { $node->safe_psql($db, "$set EXPLAIN $_") } @planned, 'SELECT id FROM v WHERE length(doc) = 2100';
}

# Places where an expression names column doc with another modifier than the column has.
sub old_mentions
{
	my ($db) = @_;
	my @columns = ([qw(pg_index indexprs indrelid)], [qw(pg_index indpred indrelid)], [qw(pg_constraint conbin conrelid)], [qw(pg_attrdef adbin adrelid)],
		[qw(pg_statistic_ext stxexprs stxrelid)], [qw(pg_partitioned_table partexprs partrelid)], [qw(pg_policy polqual polrelid)], [qw(pg_policy polwithcheck polrelid)],
		[qw(pg_trigger tgqual tgrelid)]);
	my $found = join ' UNION ALL ', map { "SELECT '$_->[0].$_->[1] of ' || $_->[2]::regclass AS place, m[1] AS typmod, $_->[2] AS relid FROM $_->[0],
		LATERAL regexp_matches($_->[1]::text, ':vartype ' || 'securefile'::regtype::oid || ' :vartypmod (-?\\d+)', 'g') m" } @columns;
	return $node->safe_psql($db, "SELECT DISTINCT place, f.typmod FROM ($found) f JOIN pg_attribute a ON attrelid = relid AND attname = 'doc' WHERE f.typmod::int <> atttypmod ORDER BY 1");
}

sub dumped
{
	my ($name) = @_;
	my $file = $node->basedir . "/$name.sql";
	$node->command_ok([ 'pg_dump', '--schema-only', '-f', $file, $node->connstr('postgres') ], "$name: dumped");
	# newer ones write a random word into it
	return slurp($file) =~ s/^\\(un)?restrict .*$//mgr;
}

my $before = behaviour('postgres');
my $plans = plans('postgres');
my $dump = dumped('before');
is(join(' ', map { /ERROR:\s+(.{8})/ } split /\n/, $before), 'new row  new row ', 'two of them are refused') or diag($before);
like($plans, qr/of_length.*One-Time Filter: false.*of_empty.*by_length_1/s, 'the planner uses them');
unlike($plans, qr/by_length_2/, 'and passes over a partition');
is(old_mentions('postgres'), '', 'each mention has the modifier of the column');

# ---- other limits ----

foreach my $size ('2 GB', 'none', '96 GB')
{
	sql(map { "SELECT securefile_set_max_size('$_', 'doc', '$size')" } 't', 'other', 'by_length');
	my $type = $size eq 'none' ? 'securefile(hash)' : "securefile(hash, 'max_size $size')";
	is(sql(q{SELECT string_agg(DISTINCT format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid IN ('t'::regclass, 'v'::regclass) AND attname = 'doc'}), $type, "$size: the table and its views");
	is(old_mentions('postgres'), '', "$size: all mentions follow");
	is(behaviour('postgres'), $before, "$size: all do what they did");
	is(plans('postgres'), $plans, "$size: and are planned as they were");
	next if $size eq 'none';
	is(dumped($size), $dump =~ s/max_size 1 GB/max_size $size/gr, "$size: the dump differs in the limit only");
}

my $file = $node->basedir . '/all.sql';
$node->command_ok([ 'pg_dump', '-f', $file, $node->connstr('postgres') ], 'dumped with rows');
sql('CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, $node->connstr('restored') ], 'and restored');
is(behaviour('restored'), $before, 'restored: all do what they did');
rows_right($node, 't', $rows, 'restored', 'restored');

# ---- what cannot follow ----

sql(q{CREATE TYPE paper AS (id int, doc securefile('max_size 1 GB'))}, 'CREATE TABLE typed OF paper', 'CREATE TABLE one (id int, doc securefile)', 'CREATE TABLE two (doc securefile)', 'CREATE TABLE both_of () INHERITS (one, two)', 'CREATE TABLE below () INHERITS (both_of)');
fails_with($node, q{SELECT securefile_set_max_size('typed', 'doc', '2 GB')}, '42809', 'column "doc" of a typed table.*ALTER TYPE', 'a table of a composite type');
fails_with($node, q{SELECT securefile_set_max_size('one', 'doc', '2 GB')}, '42P16', 'inherited column "doc" of table "both_of".*from another parent', 'a child with another parent');
is(sql(q{SELECT string_agg(DISTINCT format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid IN ('one'::regclass, 'two'::regclass, 'both_of'::regclass, 'below'::regclass) AND attname = 'doc'}), 'securefile', 'and nothing was changed');
sql('ALTER TABLE both_of NO INHERIT two', q{SELECT securefile_set_max_size('one', 'doc', '2 GB')});
is(sql(q{SELECT string_agg(format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid IN ('one'::regclass, 'both_of'::regclass, 'below'::regclass) AND attname = 'doc'}), join(', ', (q{securefile('max_size 2 GB')}) x 3), 'without it all follow');
sound($node, 't', 'after all of that');

done_testing();
