# Trap 16: the extension without shared_preload_libraries.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('preload');
make_table($node, 't');
fill($node, 't', 1, 5, 100_000);
fill($node, 't', 6, 10, 1000);
make_table($node, 'dropped');
fill($node, 'dropped', 1, 5, 100_000);
my $files = scalar(data_files($node));
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;

my $line = qr/shared_preload_libraries/;
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->start;

# tables that exist: the row's values are readable, the segment's are not
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id > 5 AND doc::bytea = blob(seed, len)'),
	5, 'values in the row are read without preload');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE length(doc) = len'), 10, 'lengths too');
fails_with($node, 'SELECT doc::bytea FROM t WHERE id = 1', '55000', $line, 'stored values: the line to add');
fails_with($node, "INSERT INTO t VALUES (11, 11, 9000, blob(11, 9000))", '55000', $line, 'INSERT');
fails_with($node, 'UPDATE t SET doc = blob(1, 9000) WHERE id = 1', '55000', $line, 'UPDATE');
fails_with($node, 'DELETE FROM t WHERE id = 1', '55000', $line, 'DELETE');
fails_with($node, 'TRUNCATE t', '55000', $line, 'TRUNCATE');
fails_with($node, 'CREATE TABLE n (id int, doc securefile)', '55000', $line, 'CREATE TABLE');
fails_with($node, 'ALTER TABLE t ADD COLUMN b securefile', '55000', $line, 'ADD COLUMN');
fails_with($node, "SELECT securefile_maintain('t', 'doc')", '55000', $line, 'securefile_maintain');
fails_with($node, "SELECT * FROM securefile_check('t', 'doc')", '55000', $line, 'securefile_check');
fails_with($node, "SELECT $_()", '55000', $line, $_) foreach 'securefile_load_keys', 'securefile_master_keys', 'securefile_rewrap';
fails_with($node, "SELECT $_('t', 'doc')", '55000', $line, $_) foreach 'securefile_keys', 'securefile_rewrap', 'securefile_new_key', 'securefile_shred';
my ($dropped) = $node->psql('postgres', 'DROP TABLE dropped');
is($node->safe_psql('postgres', 'CREATE TABLE plain (id int); DROP TABLE plain; SELECT 1'), 1, 'other tables live on');
my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM');
is($rc, 0, 'VACUUM of the database') or diag($err);
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
fails_with($node, 'CREATE EXTENSION securefile; CREATE TABLE t (doc securefile)', '55000', $line, 'a fresh database', db => 'fresh');
$node->stop;

# with the line again all is there
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'securefile'");
$node->start;
rows_right($node, 't', 10, 'preloaded again');
sound($node, 't', 'preloaded again');
if ($dropped == 0)
{
	# a DROP without the library leaves files, which are found later
	$node->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')");
	# the monitor may be doing it
	wait_until(sub { data_files($node) < $files });
	is(scalar(data_files($node)), $files - 1, 'DROP TABLE without preload: files removed later');
}

# WAL that needs the resource manager stops a server without it, and says why
fill($node, 't', 20, 25, 100_000);
crash($node);
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
is($node->start(fail_ok => 1), 0, 'recovery without the library does not start');
like(slurp_file($node->logfile), qr/resource manager with ID \d+ not registered/, 'and names the resource manager');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'securefile'");
$node->start;
rows_right($node, 't', 16, 'recovered with the library');
sound($node, 't', 'recovered with the library');

$node->stop;
done_testing();
