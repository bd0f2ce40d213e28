# A partitioned table with foreign tables of postgres_fdw as partitions: what cannot look at
# their values says so, rows are right, and local partitions are served.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('near');
my $dir = enter($node);

plan skip_all => 'no postgres_fdw for this PostgreSQL'
  if sql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'}) == 0;

my $columns = '(id int, seed int, len int, doc securefile)';
sql('CREATE DATABASE far');
SecurefileTest::prepare_database($node, 'far');
$node->safe_psql('far', "CREATE TABLE part2 $columns; CREATE TABLE alone $columns");
sql('CREATE EXTENSION postgres_fdw',
	"CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '" . $node->host . "', port '" . $node->port . "', dbname 'far', extensions 'securefile')",
	'CREATE USER MAPPING FOR CURRENT_USER SERVER far',
	"CREATE TABLE docs $columns PARTITION BY RANGE (id)",
	'CREATE TABLE part1 PARTITION OF docs FOR VALUES FROM (0) TO (100)',
	'CREATE FOREIGN TABLE part2 PARTITION OF docs FOR VALUES FROM (100) TO (200) SERVER far',
	"CREATE TABLE away $columns PARTITION BY RANGE (id)",
	'CREATE FOREIGN TABLE alone PARTITION OF away FOR VALUES FROM (0) TO (100) SERVER far');
fill($node, 'docs', 95, 105, '10000');
rows_right($node, 'docs', 11, 'both partitions');
sql(q{UPDATE docs SET doc = doc || '\x01', len = len + 1}, 'UPDATE docs SET doc = securefile_truncate(doc, len - 1), len = len - 1');
rows_right($node, 'docs', 11, 'edited');

# whoever works on storage refuses the parent, names the partition, and takes the local one
foreach my $call ('SELECT * FROM securefile_check(%s)', 'SELECT * FROM securefile_repair(%s)', 'SELECT * FROM securefile_usage(%s)',
	'SELECT * FROM securefile_maintain(%s)', 'SELECT * FROM securefile_removed(%s)', 'SELECT securefile_purge(%s)', 'SELECT securefile_rewrite(%s)', 'CALL securefile_rewrite_online(%s)',
	q{SELECT securefile_rewrite(%s, logging => 'filesystem_like_logging')}, q{SELECT securefile_set_tablespace(%s, 'pg_default')},
	'SELECT securefile_rewrap(%s)')
{
	my $of = sub { return sprintf $call, "'$_[0]', 'doc'" };
	fails_with($node, $of->('docs'), '0A000', qr/"docs" has foreign tables as partitions.*"part2" are stored on another server.*Call the function for each of the other partitions/s,
		$of->('docs'));
	fails_with($node, $of->('away'), '0A000', qr/"alone" are stored on another server/, $of->('away'));
}
is(sql(q{SELECT count(*) FROM securefile_check('part1', 'doc')}), 0, 'the local partition is checked');
is(sql(q{SELECT live_bytes FROM securefile_usage('part1', 'doc')}), 5 * 10240, 'and its values counted');
fails_with($node, q{SELECT securefile_create('docs', 'doc')}, '42809', qr/Its partitions are: public\.part1\./, 'a handle: the local partition is named');
fails_with($node, q{SELECT securefile_create('away', 'doc')}, '0A000', qr/"alone" are stored on another server/, 'a handle: there is none');

# a length that the other server keeps in a column of its own is all that comes from there, also of
# a value that is too long for postgres_fdw
my $sized = '(id int, doc securefile, size bigint GENERATED ALWAYS AS (length(doc)) STORED)';
$node->safe_psql('far', "CREATE TABLE sized2 $sized");
sql("CREATE TABLE sized $sized PARTITION BY RANGE (id)", 'CREATE TABLE sized1 PARTITION OF sized FOR VALUES FROM (0) TO (100)',
	'CREATE FOREIGN TABLE sized2 PARTITION OF sized FOR VALUES FROM (100) TO (200) SERVER far',
	'INSERT INTO sized (id, doc) SELECT i, blob(i, 1000 * i) FROM generate_series(99, 101) i', q{UPDATE sized SET doc = doc || '\x01'});
$node->safe_psql('far', q{BEGIN; SELECT securefile_create('sized2', 'doc') AS h \gset
SELECT securefile_truncate(:h, 600000000); INSERT INTO sized2 (id, doc) VALUES (102, securefile_finish(:h)); COMMIT});
is(sql(q{SELECT string_agg(size::text, ' ' ORDER BY id) FROM sized}), '99001 100001 101001 600000000', 'lengths that are columns');
fails_with($node, 'SELECT length(doc) FROM sized WHERE id = 102', '54000', 'text form of a securefile value is too long', 'one that is computed here');
is(sql('SELECT id FROM sized WHERE length(doc) > 500000000'), 102, 'a condition is computed there');

# the command
ends(3, qr/has foreign tables as partitions/, 'verify does not say that nothing is wrong', 'verify', '-t', 'away', '-k', 'id');
done_testing();
