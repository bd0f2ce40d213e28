# Promise 1, traps 2 and 8: storage made, cut and dropped under savepoints; values
# in temporary and unlogged tables stand on their own.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('whose_storage', conf => ['securefile.monitor = off']);
my $len = 90_000;
my $columns = '(id int PRIMARY KEY, seed int, len int, doc securefile)';

sub insert
{
	my ($table, $id) = @_;
	return "INSERT INTO $table VALUES ($id, $id, $len, blob($id, $len));";
}

# ---- what a released savepoint made is not the next one's to undo ----
my $undone = 'SAVEPOINT b; SELECT 1; ROLLBACK TO b;';
foreach my $end ('', 'RELEASE b;')
{
	$node->safe_psql('postgres',
		"BEGIN; SAVEPOINT a; CREATE TABLE made $columns;" . insert('made', 1) . "RELEASE a; $undone $end"
		  . insert('made', 2) . 'COMMIT');
	rows_right($node, 'made', 2, 'table of a released savepoint');
	sound($node, 'made', 'table of a released savepoint');
	my $files = scalar(data_files($node));
	$node->safe_psql('postgres',
		"BEGIN; SAVEPOINT a; TRUNCATE made;" . insert('made', 3) . "RELEASE a; $undone $end" . insert('made', 4) . 'COMMIT');
	rows_right($node, 'made', 2, 'TRUNCATE in a released savepoint');
	sound($node, 'made', 'TRUNCATE in a released savepoint');
	is(scalar(data_files($node)), $files, 'TRUNCATE in a released savepoint: data files');
	$node->safe_psql('postgres',
		"BEGIN; SAVEPOINT a; SAVEPOINT c; DROP TABLE made; RELEASE c; ROLLBACK TO a; RELEASE a; $undone $end COMMIT");
	rows_right($node, 'made', 2, 'DROP released and rolled back');
	$node->safe_psql('postgres', "BEGIN; SAVEPOINT a; DROP TABLE made; RELEASE a; $undone $end COMMIT");
	is(scalar(data_files($node)), $files - 1, 'DROP in a released savepoint: data files');
}
$node->psql('postgres',
	"BEGIN; SAVEPOINT a; CREATE TABLE made $columns;" . insert('made', 1) . 'RELEASE a; ROLLBACK');
is(scalar(data_files($node)), 0, 'rolled back at last: data files');

# ---- bytes that wait for their write hold the segment, savepoint or not ----
$node->safe_psql('postgres', "CREATE TABLE held $columns; CREATE TABLE beside $columns");
foreach my $way ('TRUNCATE held', 'DROP TABLE held')
{
	my $session = background($node);
	$session->query_safe('BEGIN;' . insert('beside', $way =~ /DROP/ ? 1 : 2));
	$session->query_safe('SAVEPOINT a;' . insert('held', 1) . 'ROLLBACK TO a');
	$node->psql('postgres', "SET lock_timeout = '300ms'; $way");
	$session->query('COMMIT');
	is($session->{stderr}, '', "$way while bytes wait: the other transaction commits");
	$session->quit;
}
rows_right($node, 'beside', 2, 'beside');
sound($node, 'beside', 'beside');
$node->safe_psql('postgres', 'DROP TABLE IF EXISTS held');

# ---- what waits when a savepoint drops its storage is wanted again after it ----
$node->safe_psql('postgres', "CREATE TABLE other $columns");
my $id = 0;
foreach my $options ('', '(filesystem_like_logging)')
{
	foreach my $drop ('TRUNCATE outer_t', 'DROP TABLE outer_t', 'ALTER TABLE outer_t DROP doc', 'ALTER TABLE outer_t ALTER doc TYPE bytea',
		"SELECT securefile_rewrite('outer_t', 'doc', '" . ($options ? 'logging' : 'filesystem_like_logging') . "')")
	{
		my $name = "$drop$options in a savepoint";
		foreach my $before ('', 'SAVEPOINT y;')
		{
			$node->safe_psql('postgres', "CREATE TABLE outer_t (id int PRIMARY KEY, seed int, len int, doc securefile$options)");
			$node->safe_psql('postgres', "SET securefile.write_gather_size = '64kB'; BEGIN;" . insert('outer_t', 1) . $before
				  . "SAVEPOINT z; $drop;" . insert('other', ++$id) . insert('other', ++$id) . 'ROLLBACK TO z;' . insert('outer_t', 2) . 'COMMIT');
			rows_right($node, 'outer_t', 2, "$name: rows of before and after");
			sound($node, 'outer_t', $name);
			$node->safe_psql('postgres', 'DROP TABLE outer_t');
		}
	}
}
rows_right($node, 'other', 0, 'the other table');
sound($node, 'other', 'the other table');

# ---- tables without a segment have copies of their own ----
make_table($node, 't');
foreach my $kind ('TEMP', 'UNLOGGED')
{
	fill($node, 't', 1, 5, $len);
	my $session = background($node);
	$session->query_safe("CREATE $kind TABLE k $columns; INSERT INTO k SELECT * FROM t; CREATE $kind TABLE l AS SELECT * FROM t");
	$node->safe_psql('postgres', 'DELETE FROM t');
	settle($node, 't', 'doc');
	fill($node, 't', 11, 20, $len);
	is($session->query_safe("SELECT count(*) FROM $_ WHERE doc::bytea = blob(seed, len)"), 5, "$kind table $_")
	  foreach ('k', 'l');
	$session->query_safe('UPDATE k SET doc = (SELECT doc FROM t WHERE id = 11), seed = 11 WHERE id = 1');
	$node->safe_psql('postgres', 'DELETE FROM t');
	settle($node, 't', 'doc');
	fill($node, 't', 21, 30, $len);
	is($session->query_safe('SELECT count(*) FROM k WHERE doc::bytea = blob(seed, len)'), 5, "$kind table, updated");
	$session->query_safe('DROP TABLE k, l');
	$session->quit;
	$node->safe_psql('postgres', 'DELETE FROM t');
}
sound($node, 't', 'after copies');

# ---- temporary tables of another session ----
my $owner = background($node);
$owner->query_safe("CREATE TEMP TABLE k $columns; INSERT INTO k VALUES (1, 1, $len, blob(1, $len));"
	  . " CREATE TEMP TABLE nothing $columns; CREATE TABLE p $columns; CREATE TEMP TABLE c () INHERITS (p); INSERT INTO c VALUES (2, 2, $len, blob(2, $len))");
fill($node, 'p', 1, 1, $len);
my ($theirs) = $owner->query_safe("SELECT 'k'::regclass::oid") =~ /(\d+)/;
foreach my $call ("securefile_rewrite(%s, 'doc')", "securefile_rewrite(%s, 'doc', 'filesystem_like_logging')",
	"securefile_set_tablespace(%s, 'doc', 'pg_default')", "securefile_check(%s, 'doc')",
	"securefile_repair(%s, 'doc', true)", "securefile_usage(%s, 'doc')", "securefile_maintain(%s, 'doc')",
	"securefile_create(%s, 'doc')")
{
	fails_with($node, 'SELECT ' . sprintf($call, $theirs), '0A000', 'cannot access temporary tables of other sessions', $call);
}
my ($empty) = $owner->query_safe("SELECT 'nothing'::regclass::oid") =~ /(\d+)/;
fails_with($node, "SELECT securefile_rewrite($empty, 'doc')", '0A000', 'cannot access temporary tables of other sessions', 'an empty one');
is($node->safe_psql('postgres', "SELECT securefile_rewrite('p', 'doc')"), 1, 'of a child that is temporary elsewhere the rows are left alone');
is($owner->query_safe("SELECT securefile_rewrite('p', 'doc') || ' ' || securefile_rewrite('k', 'doc')") =~ s/\s+$//r, '1 0', 'nor has its own session anything to store again');
is($owner->query_safe('SELECT count(*) FROM (TABLE k UNION ALL TABLE p) t WHERE doc::bytea = blob(seed, len)') =~ s/\s+$//r, 3, 'all is right');
$owner->query_safe('DROP TABLE k, c, p');
$owner->quit;
$node->stop;
done_testing();
