# What the planner is told of functions that read values: conditions on other columns come first,
# indexes win, parallel_workers alone makes a scan parallel, and nothing is compiled for it.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('planned', conf => [ master_key(), "securefile.monitor_naptime = '1h'", 'max_parallel_workers_per_gather = 2', 'jit = on' ]);

sub plan_of { return sql("EXPLAIN (COSTS OFF) $_[0]"); }

# Startup and total cost of a plan.
sub costs
{
	my ($query) = @_;
	return sql("EXPLAIN $query") =~ /cost=([\d.]+)\.\.([\d.]+)/;
}

sub cost { return (costs($_[0]))[1]; }

# As if ANALYZE had seen values of that mean length, all of them in the segment.
sub pretend
{
	my ($table, $plain, $stored) = @_;
	$stored //= $plain;
	sql("UPDATE pg_statistic SET stanumbers1 = '{$plain,$stored,1}' WHERE starelid = '$table'::regclass AND staattnum = 3");
	return;
}

my $digest = q{securefile_digest(document, 'sha256') = '\x00'};

# ---- lengths, as of ANALYZE ----

sql("CREATE TABLE $_ (id int, note text, document securefile)") foreach qw(none mixed long);
sql(q{CREATE TABLE kept (id int, note text, document securefile(hash))}, q{CREATE TABLE coded (id int, note text, document securefile(compress))});
sql(q{INSERT INTO long SELECT i, 'n', blob(i, 400000) FROM generate_series(1, 20) i},
	q{INSERT INTO mixed SELECT i, 'n', blob(i, CASE WHEN i <= 5 THEN 400000 ELSE 100 END) FROM generate_series(1, 20) i},
	q{INSERT INTO none SELECT i, 'n', blob(i, 100) FROM generate_series(1, 20) i},
	q{INSERT INTO kept SELECT i, 'n', blob(i, 400000) FROM generate_series(1, 20) i},
	q{INSERT INTO coded SELECT i, 'n', convert_to(repeat('x', 400000), 'UTF8') FROM generate_series(1, 20) i});
sql('ANALYZE none, mixed, long, kept, coded', q{DELETE FROM pg_statistic WHERE starelid = 'long'::regclass AND staattnum = 3});
my $unknown = cost("SELECT FROM long WHERE $digest");
cmp_ok($unknown, '>', 20 + cost('SELECT FROM long WHERE length(document) = 5'), 'without statistics a digest costs more than the length');
sql('ANALYZE long');
my %digest = map { $_ => cost("SELECT FROM $_ WHERE $digest") } qw(none mixed long coded);
my %length = map { $_ => cost("SELECT FROM $_ WHERE length(document) = 5") } qw(none mixed long kept);
cmp_ok($digest{long}, '>', $unknown, 'long values');
cmp_ok($digest{none}, '<', $unknown, 'values in rows');
cmp_ok($digest{none}, '<', $length{none} + 20, 'values in rows cost next to nothing');
# three quarters of these are in their rows
cmp_ok(abs(($digest{mixed} - $digest{none}) / ($digest{long} - $digest{none}) - 0.25), '<', 0.02, 'a quarter of them long');
cmp_ok($digest{coded}, '<', $digest{long} * 0.6, 'compressed: fewer pages are read');
cmp_ok($digest{coded}, '>', $digest{none} * 2, 'compressed: all bytes are looked at');

# of a parent, all its children are meant; of a subquery, its column
sql('CREATE TABLE parent (id int, note text, document securefile) PARTITION BY RANGE (id)', 'CREATE TABLE child PARTITION OF parent DEFAULT',
	q{INSERT INTO parent SELECT i, 'n', blob(i, 400000) FROM generate_series(1, 20) i}, 'ANALYZE parent');
cmp_ok(cost("SELECT FROM parent WHERE $digest"), '>', $unknown, 'partitions');
cmp_ok(cost("SELECT FROM (SELECT document || '\\x01' AS document FROM long) x WHERE $digest"), '>', $unknown, 'a value that is edited');

# ---- what costs next to nothing ----

is(cost('SELECT FROM kept WHERE securefile_digest(document) = \'\x00\''), $length{kept}, 'a digest that is kept');
cmp_ok(cost('SELECT FROM long WHERE securefile_digest(document) = \'\x00\''), '>', $unknown, 'one that is not');
cmp_ok(cost(q{SELECT FROM kept WHERE securefile_digest(document, 'sha256') = '\x00'}), '>', $unknown, 'one that is checked');
cmp_ok(cost(q{SELECT FROM long WHERE substring(document FROM 1 FOR 20) = '\x00'}), '<', $length{long} + 1, 'substring() of constants');
cmp_ok(cost(q{SELECT FROM long WHERE substring(document, 399990) = '\x00'}), '<', $length{long} + 1, 'substring() near the end');
cmp_ok(cost(q{SELECT FROM long WHERE substring(document FROM 5000000000 FOR 20) = '\x00'}), '<', $length{long} + 1, 'substring() behind the end');
cmp_ok(cost(q{SELECT FROM long WHERE substring(document FROM id FOR id) = '\x00'}), '>', $unknown, 'substring() of what is not known');
cmp_ok(cost(q{SELECT FROM long WHERE document::bytea < '\x00'}), '>', $unknown, 'a cast');
cmp_ok(cost(q{SELECT FROM long WHERE document = '\x00'::bytea}), '<', $length{long} + 20, 'a comparison with a short constant');
cmp_ok(cost(q{SELECT FROM long a JOIN long b ON a.document <> b.document}), '>', 400 * 4 + cost(q{SELECT FROM long a JOIN long b ON length(a.document) <> length(b.document)}), 'a comparison of two columns');

# ---- conditions on other columns come first ----

foreach my $condition ($digest, 'document = note::bytea', q{document <> '\x00'}, q{substring(document FROM id) = '\x00'}, q{document::bytea < '\x00'}, 'securefile_hash(document) = 5', q{position('\x01'::bytea IN document) = 1}, q{securefile_compare(document, document) = 0}, q{substring(document FROM 1 FOR 3) = '\x00'})
{
	like(plan_of("SELECT FROM long WHERE $condition AND note < 'm' AND id > 0"), qr/Filter: \(\(\(?note .*(document)/, "after a cheap condition: $condition");
}
is((sql("SELECT count(*) FROM long WHERE $digest AND note = 'm'", 'SELECT sum(scanned_bytes) FROM securefile_stat_session') =~ /(\d+)$/)[0], 0, 'and nothing is read');

# ---- indexes win, where a page or two would be as cheap to read through ----

sql('CREATE INDEX by_digest ON long (securefile_digest(document))');
like(plan_of(q{SELECT FROM long WHERE securefile_digest(document) = '\x00'}), qr/Index.*by_digest/s, 'an index of digests');

# ---- parallel scans ----

sql('CREATE TABLE documents (id int, note text, document securefile(disable_storage_in_row))', q{INSERT INTO documents SELECT i, 'n', '\x01' FROM generate_series(1, 1000) i}, 'ANALYZE documents');
my $count = "SELECT count(*) FROM documents WHERE $digest";
unlike(plan_of($count), qr/Gather/, 'small values, no parallel_workers');
pretend('documents', 1_000_000);
unlike(plan_of($count), qr/Gather/, 'large values, no parallel_workers');
sql('ALTER TABLE documents SET (parallel_workers = 1)');
like(plan_of($count), qr/Gather.*Parallel Seq Scan on documents/s, 'parallel_workers alone makes it parallel');
like(plan_of(q{SELECT count(securefile_digest(document, 'md5')) FROM documents}), qr/Gather/, 'a digest in the list');
like(plan_of(q{SELECT count(*) FROM documents WHERE document::bytea < '\x00'}), qr/Gather/, 'a cast');
unlike(plan_of('SELECT count(*) FROM documents WHERE length(document) = 5'), qr/Gather/, 'not for lengths');
unlike(plan_of(q{SELECT count(*) FROM documents WHERE substring(document FROM 1 FOR 5) = '\x00'}), qr/Gather/, 'nor for a few bytes');
pretend('documents', 1);
unlike(plan_of($count), qr/Gather/, 'nor for small values');

# ---- nothing is compiled ----

pretend('documents', 1_000_000);
sql('ALTER TABLE documents RESET (parallel_workers)');
my ($startup, $total) = costs("SELECT FROM documents WHERE $digest");
my $honest = 1_000_000 / 8192 * 1000;
cmp_ok($total, '<', sql('SHOW jit_above_cost'), 'a gigabyte of digests is below jit_above_cost');
cmp_ok($total, '>', $honest / 4, 'and costs what can be seen');
cmp_ok($startup, '>', $honest / 1000 / 2, 'what one value costs is mostly start-up cost');
pretend('documents', 1_000_000, 1000);
cmp_ok(cost("SELECT FROM documents WHERE $digest"), '<', $total / 2, 'compressed well');

# ---- plans of all kinds, and numbers that nobody made ----

my @queries = (
	"SELECT FROM long WHERE $digest", 'SELECT FROM long a WHERE EXISTS (SELECT FROM long b WHERE a.document = b.document)',
	'SELECT DISTINCT document FROM long', 'SELECT document, count(*) FROM long GROUP BY 1', 'SELECT FROM long a JOIN long b USING (document)',
	q{SELECT FROM long WHERE document IS DISTINCT FROM '\x00'::securefile}, q{SELECT nullif(document, '\x00') FROM long},
	q{SELECT FROM long WHERE document = ANY (ARRAY['\x00'::securefile, NULL])}, q{SELECT CASE document WHEN '\x00' THEN 1 END FROM long},
	'SELECT FROM long WHERE (document, id) IN (SELECT document, id FROM mixed)', 'SELECT FROM long WHERE document = NULL::securefile',
	q{SELECT securefile_digest('\x00'::securefile, note) FROM long}, q{SELECT securefile_digest(NULL, note) FROM long},
	q{SELECT securefile_digest(max(note)::bytea::securefile, 'md5') FROM long}, q{SELECT count(*) FILTER (WHERE securefile_digest(document, 'md5') = '\x00') FROM long},
	q{SELECT securefile_digest((SELECT document FROM mixed LIMIT 1) || a.document, 'md5') FROM long a}, q{VALUES (securefile_digest('\x00'::securefile, 'md5'))},
	q{SELECT substring(document FROM NULL FOR 5), substring(document FROM -5), substring(document FROM 2147483647 FOR 2147483647), substring(document FROM 1 FOR NULL) FROM long},
	q{SELECT substring(document FROM (-9223372036854775808)::bigint FOR 9223372036854775807::bigint), substring(document, 9223372036854775807) FROM long},
	q{WITH d AS MATERIALIZED (SELECT document FROM long) SELECT FROM d WHERE securefile_digest(document) = '\x00'},
	q{UPDATE long SET note = 'm' WHERE securefile_digest(document) = '\x00'}, q{SELECT row_number() OVER (ORDER BY securefile_digest(document, 'md5')) FROM long});
sub all_planned
{
	my ($name, @settings) = @_;
	is(scalar(my @plans = sql(@settings, map { "EXPLAIN $_" } @queries) =~ /\(cost=/g) >= @queries, 1, "planned: $name");
	return;
}
all_planned('as they are');
all_planned('costs that are too high', 'SET seq_page_cost = 1e300', 'SET cpu_operator_cost = 1e300');
all_planned('no costs', 'SET seq_page_cost = 0', 'SET cpu_operator_cost = 0');
foreach my $numbers ('{Infinity,1,1}', '{NaN,NaN,NaN}', '{1e30,1e30,1}', '{-5,-5,0}', '{5,5,7}', '{5,5}')
{
	sql("UPDATE pg_statistic SET stanumbers1 = '$numbers' WHERE starelid IN ('long'::regclass, 'mixed'::regclass) AND staattnum = 3");
	all_planned("statistics $numbers");
}
sql('ANALYZE long, mixed');
my $prepared = q{PREPARE p(securefile, int) AS SELECT FROM long WHERE document = $1 AND substring(document FROM $2) = '\x00'};
all_planned('a prepared statement', 'SET plan_cache_mode = force_generic_plan', $prepared, q{EXPLAIN EXECUTE p('\x00', 5)});

# ---- who sees what ----

is(sql(q{SELECT count(*), count(*) FILTER (WHERE proleakproof) FROM pg_proc WHERE prosupport::text LIKE '%securefile_support%'}) =~ /^(\d+)\|0$/ && $1 > 10, 1, 'no function has become leakproof');
sql('CREATE ROLE reader', 'GRANT SELECT ON long TO reader', 'ALTER TABLE long ENABLE ROW LEVEL SECURITY', "CREATE POLICY p ON long TO reader USING ($digest)");
like(sql('SET ROLE reader', q{EXPLAIN (COSTS OFF) SELECT FROM long WHERE note ~ 'm'}), qr/Filter: \(\(securefile_digest.*note/, 'a policy comes first, whatever it costs');

$node->stop;
done_testing();
