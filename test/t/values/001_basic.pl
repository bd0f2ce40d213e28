# Promises 1, 2, 6: a column is all a user writes; what goes in comes out, of
# every length, in every mode, by every I/O method, past shared_buffers.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('basic');
my $edges = '0, 1, 511, 512, 513, 3999, 4000, 4001, 4096, 4097, 131071, 131072,'
  . ' 131073, 262144, 1048577, 4194304, 4194305, 13000000';

# every length, every column option, one table each
my $n = 0;
foreach my $options ('', 'logging', 'filesystem_like_logging', 'nocache', 'cache_reads',
	'cache', 'disable_storage_in_row',
	'filesystem_like_logging, disable_storage_in_row, cache')
{
	my $table = 'opt' . $n++;
	my $in_row = $options =~ /disable/ ? 0 : 4000;
	make_table($node, $table, $options);
	$node->safe_psql('postgres',
		"INSERT INTO $table SELECT row_number() OVER (), len, len, blob(len, len)"
		  . " FROM unnest(ARRAY[$edges]) len");
	rows_right($node, $table, 18, "options ($options)");
	$node->safe_psql('postgres', "UPDATE $table SET seed = len + 1, doc = blob(len + 1, len)");
	rows_right($node, $table, 18, "options ($options), updated");
	sound($node, $table, "options ($options)", in_row => $in_row);
	$node->safe_psql('postgres', "DROP TABLE $table");
}
is(scalar(data_files($node)), 0, 'DROP TABLE leaves no data file');

# every I/O method, written and read across
foreach my $method ('sync', 'libaio', 'io_uring')
{
	$node->safe_psql('postgres',
		"CREATE TABLE by_$method (id int PRIMARY KEY, seed int, len int, doc securefile);"
		  . "SET securefile.io_method = $method;"
		  . "INSERT INTO by_$method SELECT i, i, 900000 * i, blob(i, 900000 * i)"
		  . ' FROM generate_series(1, 8) i');
	foreach my $reader ('sync', 'libaio', 'io_uring')
	{
		is( $node->safe_psql(
				'postgres',
				"SET securefile.io_method = $reader; SET securefile.io_concurrency = 3;"
				  . "SELECT count(*) FROM by_$method WHERE doc::bytea = blob(seed, len)"),
			8,
			"written by $method, read by $reader");
	}
	sound($node, "by_$method", $method);
}

# small gather buffers
make_table($node, 'gather', 'filesystem_like_logging');
$node->safe_psql('postgres',
	q{SET securefile.write_gather_size = '64kB';
	  INSERT INTO gather SELECT i, i, i * 30011, blob(i, i * 30011) FROM generate_series(1, 40) i});
rows_right($node, 'gather', 40, 'gather buffers of 64 kB');
sound($node, 'gather', 'gather buffers of 64 kB');

# length and substring touch no more than they must
make_table($node, 'parts', 'nocache');
$node->safe_psql('postgres', 'INSERT INTO parts VALUES (1, 7, 10000000, blob(7, 10000000))');
my $reads = sub {
	my ($sql) = @_;
	return $node->safe_psql(
		'postgres',
		"SELECT securefile_stat_reset(); $sql"
		  . ";SELECT direct_read_bytes FROM securefile_stat WHERE relname = 'parts'");
};
like($reads->('SELECT length(doc), octet_length(doc), doc IS NULL FROM parts'),
	qr/10000000\|10000000\|f\n0$/, 'length, octet_length and IS NULL read nothing');
my $few = (split /\n/, $reads->('SELECT length(substring(doc FROM 5000001 FOR 10)) FROM parts'))[-1];
cmp_ok($few, '>', 0, 'substring reads');
cmp_ok($few, '<=', 131072, 'substring of 10 bytes reads one unit at most');
is( $node->safe_psql(
		'postgres',
		'SELECT count(*) FROM parts, (VALUES (1, 10), (131070, 5), (131073, 131072), (9999990, 50),'
		  . ' (10000001, 5), (-5, 10), (0, 1), (1, 0), (400000, 4000000)) v (f, n)'
		  . ' WHERE substring(doc FROM f FOR n) IS DISTINCT FROM substring(blob(seed, len) FROM f FOR n)'),
	0,
	'substring as of bytea');
fails_with($node, 'SELECT substring(doc FROM 1 FOR -1) FROM parts',
	'22011', 'negative substring length', 'negative length refused as for bytea');

# promise 6: data past shared_buffers.  Its blocks are counted with those of the buffers.
sub buffers_of
{
	my ($statement, $bytes) = @_;
	my $plan = $node->safe_psql('postgres', "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $statement");
	my $blocks = 0;
	$blocks += $1 while $plan =~ /"Shared (?:Hit|Read|Dirtied|Written) Blocks": (\d+)/g;
	return $blocks - int(($bytes + 8191) / 8192);
}
cmp_ok(buffers_of('INSERT INTO parts SELECT 2, 8, 16000000, blob(8, 16000000)', 16_000_000), '<', 1000, 'insert of 16 MB touches few shared buffers');
cmp_ok(buffers_of('SELECT sha256(doc::bytea) FROM parts', 26_000_000), '<', 500, 'read of 26 MB touches few shared buffers');

# TRUNCATE, rolled back and done; subtransaction; DROP COLUMN
$node->safe_psql('postgres', 'BEGIN; TRUNCATE parts; ROLLBACK');
rows_right($node, 'parts', 2, 'TRUNCATE rolled back');
sound($node, 'parts', 'TRUNCATE rolled back');
$node->safe_psql('postgres',
	'BEGIN; TRUNCATE parts; SAVEPOINT s; INSERT INTO parts VALUES (3, 3, 900000, blob(3, 900000));'
	  . ' ROLLBACK TO s; INSERT INTO parts VALUES (4, 4, 700000, blob(4, 700000)); COMMIT');
rows_right($node, 'parts', 1, 'TRUNCATE and refill');
sound($node, 'parts', 'TRUNCATE and refill');
cmp_ok(usage($node, 'parts', 'doc')->{live_bytes}, '<', mb(1), 'TRUNCATE gives the space back');
my $files = scalar(data_files($node));
$node->safe_psql('postgres', 'BEGIN; ALTER TABLE parts DROP COLUMN doc; ROLLBACK');
rows_right($node, 'parts', 1, 'DROP COLUMN rolled back');
$node->safe_psql('postgres', 'ALTER TABLE parts DROP COLUMN doc');
cmp_ok(scalar(data_files($node)), '<', $files, 'DROP COLUMN removes the data files');

# files are as private as the cluster's
my @modes = map { sprintf '%04o', (stat $_)[2] & 07777 } data_files($node);
is_deeply([ grep { $_ ne '0600' } @modes ], [], 'data files have mode 0600');
like((data_files($node))[0], qr{/pg_securefile/\d+/\d+/\d+/seg-\d{8}\.sf$}, 'name of a data file');

# whole cluster restart
$node->restart;
rows_right($node, 'gather', 40, 'after a restart');
sound($node, 'gather', 'after a restart');

$node->safe_psql('postgres', 'DROP EXTENSION securefile CASCADE');
is(scalar(data_files($node)), 0, 'DROP EXTENSION CASCADE leaves no data file');
$node->stop;
done_testing();
