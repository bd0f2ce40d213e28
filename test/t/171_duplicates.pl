# What shows deduplication: securefile_duplicates() before it, the counters of securefile_stat
# after it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('duplicates', conf => [ master_key(), 'securefile.monitor = off' ]);
need_faults($node);

sub run_sql { return $node->safe_psql('postgres', $_[0]); }

# What the function says, and what SQL counts; saved: of each content all but one.
my $said = 'SELECT relid::regclass, encode(digest, \'hex\'), length_bytes, copies, saves_bytes FROM securefile_duplicates(\'%s\', \'doc\') ORDER BY 1, 2';
my $counted = 'SELECT tableoid::regclass, encode(sha256(doc::bytea), \'hex\'), length(doc), count(*), sum(s.stored_bytes) - max(s.stored_bytes)'
  . ' FROM %s, securefile_storage(doc) s WHERE s.form = \'stored\' AND length(doc) > 4000 GROUP BY 1, 2, 3 HAVING count(*) > 1 ORDER BY 1, 2';

sub as_counted
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $groups = run_sql(sprintf($counted, $table));
	is(run_sql(sprintf($said, $table)), $groups, "$name: as SQL counts");
	return scalar(split /\n/, $groups);
}

foreach my $options ('', 'hash', 'compress_low', 'hash, encrypt, compress_medium')
{
	make_table($node, 't', $options);
	my $least = $options =~ /compress/ ? 1 : 6;
	run_sql(q{INSERT INTO t SELECT i, i % 7, 3000 + i % 7 * 30000, blob(i % 7, 3000 + i % 7 * 30000) FROM generate_series(1, 30) i;
		INSERT INTO t SELECT 100, 1, 90000, blob(100, 90000); INSERT INTO t VALUES (101, NULL, NULL, NULL), (102, 0, 0, '')});
	cmp_ok(as_counted('t', $options || 'no options'), '>=', $least, 'and groups are found');
	run_sql('DROP TABLE t');
}

# partitions do not share; a role sees its own rows
run_sql(q{
	CREATE TABLE p (id int, owner name, doc securefile) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (11);
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (11) TO (21);
	INSERT INTO p SELECT i, 'one', blob(i % 3, 20000) FROM generate_series(1, 12) i;
	INSERT INTO p SELECT i, 'two', blob(77, 20000) FROM generate_series(3, 4) i;
	CREATE ROLE one; CREATE ROLE two; CREATE ROLE stranger;
	GRANT SELECT ON p TO one, two;
	ALTER TABLE p ENABLE ROW LEVEL SECURITY;
	CREATE POLICY own ON p USING (owner = current_user);});
is(as_counted('p', 'partitions'), 4, 'and only what is in one of them counts');
is(run_sql("SET ROLE one; SELECT count(*), sum(copies) FROM securefile_duplicates('p', 'doc')"), '3|10', 'a role sees its rows');
is(run_sql("SET ROLE two; SELECT count(*), sum(copies) FROM securefile_duplicates('p', 'doc')"), '1|2', 'and another one its own');
fails_with($node, "SET ROLE stranger; SELECT * FROM securefile_duplicates('p', 'doc')", '42501', 'permission denied', 'a role without rights');
fails_with($node, "SELECT * FROM securefile_duplicates('p', 'id')", '42804', '', 'a column of another type');
is(run_sql("SELECT count(*) FROM securefile_duplicates(NULL, 'doc')"), '0', 'NULL has no duplicates');

# what shares space already is saved already
make_table($node, 't', 'deduplicate');
run_sql('INSERT INTO t SELECT i, 5, 50000, blob(5, 50000) FROM generate_series(1, 10) i');
is(run_sql("SELECT copies, saves_bytes FROM securefile_duplicates('t', 'doc')"), '10|0', 'shared values save nothing more');
run_sql(q{ALTER TABLE t ALTER doc TYPE securefile; INSERT INTO t SELECT 20, 5, 50000, blob(5, 50000)});
is(run_sql("SELECT copies, saves_bytes FROM securefile_duplicates('t', 'doc')"), '11|50000', 'a private one would');

# more than work_mem, and a cancel request
run_sql("SET work_mem = '64kB'; CREATE TABLE many (doc securefile(hash)); INSERT INTO many SELECT blob(i % 1000, 4001) FROM generate_series(1, 3000) i");
is(run_sql("SET work_mem = '64kB'; SELECT count(*), sum(copies), sum(saves_bytes) FROM securefile_duplicates('many', 'doc')"), '1000|3000|8002000', 'beyond work_mem');

# ---- counters ----

sub counted
{
	my ($table) = @_;
	return run_sql("SELECT dedup_hits, dedup_bytes, dedup_mismatches FROM securefile_stat WHERE relname = '$table'");
}

make_table($node, 'c', 'deduplicate');
run_sql('INSERT INTO c SELECT 1, 1, 50000, blob(1, 50000)');
is(counted('c'), '0|0|0', 'a new content is no hit');
run_sql('INSERT INTO c SELECT i, 1, 50000, blob(1, 50000) FROM generate_series(2, 4) i');
is(counted('c'), '3|150000|0', 'three hits');
run_sql('INSERT INTO c SELECT 5, 1, 50000, doc FROM c WHERE id = 1');
is(counted('c'), '4|200000|0', 'a copy is one');
# hashes of 4 bits, and the same length
run_sql("SELECT securefile_fault('short_hash', 'skip', times => -1)");
run_sql('INSERT INTO c SELECT i, i, 30000, blob(i, 30000) FROM generate_series(100, 149) i');
disarm($node);
like(counted('c'), qr/^4\|200000\|[1-9]\d*$/, 'contents that have only their hash in common are mismatches');
rows_right($node, 'c', 55, 'and stay apart');
$node->stop;
done_testing();
