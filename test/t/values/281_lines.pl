# securefile_lines() where one session in SQL is not enough: a line that grows can be cancelled,
# and is refused at 1 GB; many lines take no more memory than one; in parallel workers, on a
# standby; damage that lies behind the lines that are asked for is no error.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('lines',
	init => { allows_streaming => 1 },
	conf => [ 'max_parallel_workers_per_gather = 2', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0' ]);
my $lines = q{SELECT convert_to(string_agg(repeat(md5(g || ':' || i), 20), E'\n' ORDER BY i), 'UTF8') FROM generate_series(1, 8000) i};
$node->safe_psql('postgres', qq{
	CREATE TABLE l (id int, doc securefile(nocache), plain bytea);
	ALTER TABLE l ALTER plain SET STORAGE EXTERNAL;
	INSERT INTO l SELECT g, v, v FROM generate_series(1, 2) g, LATERAL ($lines) s (v);
	INSERT INTO l SELECT 3, convert_to(repeat('x', 20000000), 'UTF8');
	-- in pieces, as often as 2^n
	CREATE FUNCTION doubled(doc securefile, n int) RETURNS securefile LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR i IN 1 .. n LOOP doc := doc || doc; END LOOP;
		RETURN doc;
	END \$\$});

# ---- one line ----

my $endless = 'SELECT length(securefile_lines(doubled(doc, 6))) FROM l WHERE id = 3';
fails_with($node, "SET statement_timeout = 10; $endless", '57014', qr/statement timeout/, 'a line is cancelled before it is complete');
SKIP:
{
	skip 'a line of 1 GB: in make check-long', 1 unless $ENV{SECUREFILE_LONG_LINE};
	fails_with($node, $endless, '54000', qr/line 1 of a securefile value is too long/, 'a line of 1 GB is refused');
}

# ---- many lines ----

my $session = background($node);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
sub most_memory { return slurp_file("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB$/m ? $1 * 1024 : die 'no VmHWM'; }
is($session->query_safe('SELECT count(l) FROM (SELECT securefile_lines(doc) AS l FROM l WHERE id = 1) s'), 8000, 'lines of 5 MB');
my $before = most_memory();
is($session->query_safe("SELECT count(*), sum(length(l)) FROM (SELECT securefile_lines(doubled(doc || E'\\\\012', 5)) AS l FROM l WHERE id = 1) s"),
	'256000|163840000', 'lines of 160 MB');
cmp_ok(most_memory() - $before, '<', mb(32), 'in little memory');
is($session->query_safe("SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'securefile walk'"), 0, 'nothing is left');
$session->quit;

# ---- elsewhere ----

$node->safe_psql('postgres', "CREATE TABLE p (id int, doc securefile(disable_storage_in_row)) WITH (parallel_workers = 2);"
	  . " INSERT INTO p SELECT i, convert_to(repeat(i || E'\\n', 1000), 'UTF8') FROM generate_series(1, 200) i; ANALYZE p");
my $query = "SELECT count(*), sum(l::int) FROM p, securefile_lines(doc) l WHERE l LIKE '1%'";
like($node->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query"), qr/Workers Planned/, 'the plan is parallel');
is( $node->safe_psql('postgres', "SET parallel_leader_participation = off; $query"),
	$node->safe_psql('postgres', "SELECT 1000 * count(*), 1000 * sum(id) FROM p WHERE id::text LIKE '1%'"),
	'in parallel workers');
$node->backup('base');
my $standby = new_standby('standby', $node, 'base');
catch_up($node, $standby);
my $all = "SELECT id, md5((SELECT string_agg(l, E'\\n' ORDER BY n) FROM securefile_lines(doc) WITH ORDINALITY u (l, n))) = md5(plain) FROM l WHERE id < 3 ORDER BY id";
is($_->safe_psql('postgres', $all), "1|t\n2|t", $_->name) foreach $node, $standby;
$standby->stop;

# ---- damage ----

$node->safe_psql('postgres', 'CHECKPOINT');
my ($bytes) = $node->safe_psql('postgres', q{SELECT md5('2:7000')});
my ($file) = grep { index(slurp($_), $bytes) >= 0 } data_files($node);
my $at = index(slurp($file), $bytes);
patch($file, $at, 'X');
is($node->safe_psql('postgres', 'SELECT md5(l) FROM (SELECT securefile_lines(doc) l FROM l WHERE id = 2) s LIMIT 3'),
	$node->safe_psql('postgres', q{SELECT md5(repeat(md5('2:' || i), 20)) FROM generate_series(1, 3) i}), 'damage behind the lines is none of them');
fails_with($node, 'SELECT count(*) FROM l, securefile_lines(doc) WHERE id = 2', 'XX001', qr/checksum/, 'damage in a line is an error');

$node->stop;
done_testing();
