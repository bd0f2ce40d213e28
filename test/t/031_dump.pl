# Promise 1: dump and restore in every format, with what the dump must and must
# not say.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('dump');
$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile);
	INSERT INTO t SELECT i, i, i * 1700, blob(i, i * 1700) FROM generate_series(1, 20) i;
	CREATE TABLE o (id int PRIMARY KEY, seed int, len int,
		doc securefile(filesystem_like_logging, disable_storage_in_row, cache));
	INSERT INTO o SELECT i, i, i * 17000, blob(i, i * 17000) FROM generate_series(1, 20) i;
	CREATE TABLE p (id int, seed int, len int, doc securefile) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
	CREATE TABLE p2 PARTITION OF p DEFAULT;
	INSERT INTO p SELECT i, i, i * 1700, blob(i, i * 1700) FROM generate_series(1, 20) i;
	CREATE DOMAIN file AS securefile(nocache);
	CREATE TABLE d (id int, seed int, len int, doc file);
	INSERT INTO d SELECT i, i, i * 1700, blob(i, i * 1700) FROM generate_series(1, 20) i;});

my $dir = $node->basedir;
my $script = $node->safe_psql('postgres', 'SELECT 1')
  && do {
	$node->command_ok([ 'pg_dump', '-f', "$dir/plain.sql", $node->connstr('postgres') ], 'pg_dump');
	slurp_file("$dir/plain.sql");
  };
unlike($script, qr/securefile_store|securefile_account|securefile_truncate|CREATE TRIGGER/, 'internal triggers are not dumped');
unlike($script, qr/pg_securefile_/, 'segments are not dumped');
like($script, qr/doc public\.securefile\(.*filesystem_like_logging.*\)/, 'type modifiers are dumped');
like($script, qr/doc public\.securefile\n|doc public\.securefile,?\n/, 'no modifier where all is default');
like($script, qr/CREATE EXTENSION IF NOT EXISTS securefile/, 'the extension is dumped');

my @ways = (
	[ 'plain', [ '-Fp' ], undef ],
	[ 'inserts', [ '-Fp', '--inserts', '--quote-all-identifiers' ], undef ],
	[ 'custom', ['-Fc'], [] ],
	[ 'custom with triggers disabled', ['-Fc'], [ '--disable-triggers' ], 'two steps' ],
	[ 'custom in one transaction', ['-Fc'], ['--single-transaction'] ],
	[ 'directory, two jobs', [ '-Fd', '-j2' ], ['-j2'] ]);
my $n = 0;
foreach my $way (@ways)
{
	my ($name, $dump, $restore, $steps) = @$way;
	my $file = "$dir/dump" . ++$n;
	my $db = "restored$n";
	$node->command_ok([ 'pg_dump', @$dump, '-f', $file, $node->connstr('postgres') ], "$name: pg_dump");
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	if (!$restore)
	{
		$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, $node->connstr($db) ], "$name: psql");
	}
	elsif ($steps)
	{
		$node->command_ok([ 'pg_restore', '--schema-only', '-d', $node->connstr($db), $file ], "$name: schema");
		$node->command_ok([ 'pg_restore', '--data-only', @$restore, '-d', $node->connstr($db), $file ], "$name: data");
	}
	else
	{
		$node->command_ok([ 'pg_restore', @$restore, '-d', $node->connstr($db), $file ], "$name: pg_restore");
	}
	foreach my $t ('t', 'o', 'd', 'p')
	{
		rows_right($node, $t, 20, $name, $db);
		$node->safe_psql($db, "UPDATE $t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id % 2 = 0; DELETE FROM $t WHERE id = 20");
		rows_right($node, $t, 19, "$name, changed", $db);
	}
	sound($node, $_, $name, db => $db) for ('t', 'd', 'p1', 'p2');
	sound($node, 'o', $name, db => $db, in_row => 0);
	is( $node->safe_psql($db, "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'o'::regclass AND attname = 'doc'"),
		$node->safe_psql('postgres', "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'o'::regclass AND attname = 'doc'"),
		"$name: type modifier");
	$node->safe_psql('postgres', "DROP DATABASE $db");
}

# escape format of bytea, in and out
$node->command_ok([ 'pg_dump', '-f', "$dir/escape.sql", '-t', 't', 'options=\'-c bytea_output=escape\' ' . $node->connstr('postgres') ], 'bytea_output = escape');
$node->safe_psql('postgres', 'CREATE DATABASE escaped');
SecurefileTest::prepare_database($node, 'escaped');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/escape.sql", $node->connstr('escaped') ], 'restored from escape format');
rows_right($node, 't', 20, 'escape format', 'escaped');
$node->stop;
done_testing();
