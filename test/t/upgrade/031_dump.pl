# Promise 1: dump and restore in every format, in several steps, into a database that has
# the tables already, and by different roles; and the contents of the dump.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('dump');
$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile, other securefile(compress_high));
	INSERT INTO t SELECT i, i, i * 1700, blob(i, i * 1700) FROM generate_series(1, 20) i;
	CREATE TABLE o (id int PRIMARY KEY, seed int, len int,
		doc securefile(filesystem_like_logging, disable_storage_in_row, cache));
	INSERT INTO o SELECT i, i, i * 17000, blob(i, i * 17000) FROM generate_series(1, 20) i;
	CREATE TABLE p (id int, seed int, len int, doc securefile('retention 7 days', 'max_size 96 GB')) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
	CREATE TABLE p2 PARTITION OF p DEFAULT;
	INSERT INTO p SELECT i, i, i * 1700, blob(i, i * 1700) FROM generate_series(1, 20) i;
	INSERT INTO p VALUES (99, 99, 9999, blob(99, 9999));
	DELETE FROM p WHERE id = 99;
	CREATE DOMAIN file AS securefile(nocache, compress, disable_storage_in_row);
	CREATE TABLE d (id int, seed int, len int, doc file);
	INSERT INTO d SELECT i, i, i * 1700, blob(i, i * 1700) FROM generate_series(1, 20) i;
	CREATE VIEW every AS SELECT seed, len, doc FROM t UNION ALL SELECT seed, len, doc FROM o
		UNION ALL SELECT seed, len, doc FROM d UNION ALL SELECT seed, len, doc FROM p;});

# Values that the retention of p keeps.
my $removed = q{SELECT count(*) FROM securefile_removed('p', 'doc')};
is(sql($removed), 1, 'a value is kept');

my $dir = $node->basedir;
my $script = $node->safe_psql('postgres', 'SELECT 1')
  && do {
	$node->command_ok([ 'pg_dump', '-f', "$dir/plain.sql", $node->connstr('postgres') ], 'pg_dump');
	slurp_file("$dir/plain.sql");
  };
unlike($script, qr/securefile_store|securefile_account|securefile_truncate|CREATE TRIGGER/, 'internal triggers are not dumped');
unlike($script, qr/pg_securefile_/, 'segments are not dumped');
like($script, qr/doc public\.securefile\(.*filesystem_like_logging.*\)/, 'type modifiers are dumped');
like($script, qr/other public\.securefile\(compress_high\)/, 'levels of compression among them');
like($script, qr/CREATE TABLE public\.p \(.*doc public\.securefile\('retention 7 days', 'max_size 96 GB'\)/s, 'and a retention and a limit');
like($script, qr/CREATE DOMAIN public\.file AS public\.securefile\(compress_medium, nocache, disable_storage_in_row\);/, 'those of a domain, too');
like($script, qr/doc public\.securefile\n|doc public\.securefile,?\n/, 'no modifier where all is default');
like($script, qr/CREATE EXTENSION IF NOT EXISTS securefile/, 'the extension is dumped');

# All is there, in the columns' options, and can be changed.
sub whole
{
	my ($name, $db, $in) = @_;
	$in ||= $node;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($in, 'every', 80, $name, $db);
	is($in->safe_psql($db, $removed), 0, "$name: what was kept is not in the dump");
	$in->safe_psql($db, join('; ', map { ("UPDATE $_ SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id % 2 = 0", "DELETE FROM $_ WHERE id = 20") } ('t', 'o', 'd', 'p')));
	rows_right($in, 'every', 76, "$name, changed", $db);
	cmp_ok($in->safe_psql($db, $removed), '>', 0, "$name: what is removed then is kept");
	$in->safe_psql($db, q{SELECT securefile_purge('p', 'doc')});
	sound($in, $_, $name, db => $db) for ('t', 'p1');
	sound($in, 'o', $name, db => $db, in_row => 0);
	my $types = q{SELECT string_agg(format_type(atttypid, atttypmod), ' ' ORDER BY attrelid::regclass::text), string_agg(format_type(typbasetype, typtypmod), ' ' ORDER BY typtypmod)
		FROM pg_attribute, pg_type t WHERE attname = 'doc' AND attrelid::regclass::text IN ('t', 'o', 'd', 'p', 'p1', 'p2') AND t.oid = atttypid};
	is($in->safe_psql($db, $types), $node->safe_psql('postgres', $types), "$name: type modifiers");
	return;
}

# psql, or pg_restore when there are options for it; @steps has some for each step.
sub restore
{
	my ($name, $db, $file, $options, @steps) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return $node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, $node->connstr($db) ], "$name: psql") if !$options;
	$node->command_ok([ 'pg_restore', @$_, @$options, '-d', $node->connstr($db), $file ], "$name: pg_restore @$_") foreach (@steps ? @steps : ([]));
	return;
}

my @sections = map { ["--section=$_"] } ('pre-data', 'data', 'post-data');
my @ways = (
	[ 'plain', [ '-Fp' ], undef ],
	[ 'inserts', [ '-Fp', '--inserts', '--quote-all-identifiers' ], undef ],
	[ 'inserts of several rows', [ '-Fp', '--rows-per-insert=7', '--on-conflict-do-nothing' ], undef ],
	[ 'custom', ['-Fc'], [] ],
	[ 'custom with triggers disabled', ['-Fc'], [ '--disable-triggers' ], ['--schema-only'], ['--data-only'] ],
	[ 'custom in one transaction', ['-Fc'], ['--single-transaction'] ],
	[ 'tar', ['-Ft'], [] ],
	[ 'directory, two jobs', [ '-Fd', '-j2' ], ['-j2'] ],
	[ 'in three sections', ['-Fd'], ['-j2'], @sections ],
	[ 'by way of the root', [ '-Fc', '--load-via-partition-root' ], [], @sections ]);
my $n = 0;
foreach my $way (@ways)
{
	my ($name, $dump, $restore, @steps) = @$way;
	my $file = "$dir/dump" . ++$n;
	my $db = "restored$n";
	$node->command_ok([ 'pg_dump', @$dump, '-f', $file, $node->connstr('postgres') ], "$name: pg_dump");
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	if ($name eq 'by way of the root')		# to partitions with other bounds
	{
		restore($name, $db, $file, $restore, shift @steps);
		$node->safe_psql($db, 'DROP TABLE p1, p2; CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (7) TO (15); CREATE TABLE p2 PARTITION OF p DEFAULT');
	}
	restore($name, $db, $file, $restore, @steps);
	whole($name, $db);
	$node->safe_psql('postgres', "DROP DATABASE $db");
}

# onto what is there already
my @clean = ('--clean', '--if-exists');
$node->safe_psql('postgres', 'CREATE DATABASE again');
foreach my $way ([ 'plain onto an empty database', [ '-Fp', @clean ], undef ], [ 'plain, --clean', [ '-Fp', @clean ], undef ], [ 'custom, --clean', ['-Fc'], \@clean ],
	[ 'directory, --clean', ['-Fd'], [ '-j2', @clean ] ])
{
	my ($name, $dump, $restore) = @$way;
	my $file = "$dir/dump" . ++$n;
	my @files = data_files($node);
	$node->command_ok([ 'pg_dump', @$dump, '-f', $file, $node->connstr('postgres') ], "$name: pg_dump");
	restore($name, 'again', $file, $restore);
	whole($name, 'again');
	is(scalar(data_files($node)), scalar(@files) + ($name =~ /empty/ ? 5 : 0), "$name: no data files are left over");
}

# what can be restored can be restored twice
$node->command_ok([ 'pg_dump', '--data-only', '--inserts', '--on-conflict-do-nothing', '-t', 't', '-f', "$dir/missing.sql", $node->connstr('postgres') ], '--on-conflict-do-nothing');
$node->safe_psql('again', 'UPDATE t SET id = id + 100 WHERE id < 4');
restore('--on-conflict-do-nothing', 'again', "$dir/missing.sql");
rows_right($node, 't', 23, '--on-conflict-do-nothing', 'again');
sound($node, 't', '--on-conflict-do-nothing', db => 'again');
$node->safe_psql('postgres', 'DROP DATABASE again');

# by who owns the database, and no more
$node->safe_psql('postgres', 'CREATE ROLE clerk LOGIN; CREATE DATABASE clerks OWNER clerk');
$node->safe_psql('clerks', 'CREATE EXTENSION securefile');
my $owned = $node->connstr('clerks') . ' user=clerk';
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/clerks", $node->connstr('postgres') ], 'pg_dump');
$node->command_ok([ 'pg_restore', '--no-owner', '--no-comments', '--exit-on-error', '-d', $owned, "$dir/clerks" ], 'pg_restore by the owner of the database');
is($node->safe_psql('clerks', "SELECT DISTINCT relowner::regrole FROM pg_class WHERE relname IN ('t', 'o', 'd', 'p', 'p1')"), 'clerk', 'and the tables are his');
whole('by the owner of the database', 'clerks');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/his", $owned ], 'pg_dump by the owner of the database');
$node->safe_psql('clerks', 'DROP OWNED BY clerk; CREATE EXTENSION IF NOT EXISTS securefile');
$node->command_ok([ 'pg_restore', '--no-comments', '--exit-on-error', '-d', $owned, "$dir/his" ], 'and his pg_restore');
rows_right($node, 'every', 76, 'his', 'clerks');

# escape format of bytea, in and out
$node->command_ok([ 'pg_dump', '-f', "$dir/escape.sql", '-t', 't', 'options=\'-c bytea_output=escape\' ' . $node->connstr('postgres') ], 'bytea_output = escape');
$node->safe_psql('postgres', 'CREATE DATABASE escaped');
SecurefileTest::prepare_database($node, 'escaped');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/escape.sql", $node->connstr('escaped') ], 'restored from escape format');
rows_right($node, 't', 20, 'escape format', 'escaped');

# a whole cluster
$node->command_ok([ 'pg_dumpall', '-f', "$dir/all.sql", '-d', $node->connstr('postgres') ], 'pg_dumpall');
my $other = new_cluster('other', start => 0);
$other->start;
my ($rc, $out, $err) = $other->psql('postgres', '\\set ON_ERROR_STOP 0' . "\n\\i $dir/all.sql");
unlike($err =~ s/ERROR:  role "\w+" already exists//r, qr/ERROR|FATAL/, 'pg_dumpall: psql');
whole('pg_dumpall', 'postgres', $other);
rows_right($other, 'every', 76, 'pg_dumpall', 'clerks');
is($other->safe_psql('postgres', "SELECT datdba::regrole FROM pg_database WHERE datname = 'clerks'"), 'clerk', 'pg_dumpall: the owner');
$other->stop;
$node->stop;
done_testing();
