# A segment of more than one data file: growth over the edge, crash, cut, again.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('files', conf => ['securefile.monitor = off']);
my $len = 9_999_999;
my $load = "INSERT INTO t SELECT i, 1, $len, b FROM (SELECT blob(1, $len)) s (b), generate_series";

# All values have the same contents, which are made once.
sub values_right
{
	my ($count, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $node->psql('postgres',
		"SELECT count(*), count(*) FILTER (WHERE sha256(doc::bytea) = s.h)"
		  . " FROM t, (SELECT sha256(blob(1, $len))) s (h)");
	return is($rc == 0 ? $out : $err, "$count|$count", $name);
}

make_table($node, 't', 'filesystem_like_logging, nocache');
$node->safe_psql('postgres', "$load(1, 112) i");
is(scalar(data_files($node)), 2, 'two data files');
is((-s (data_files($node))[0]), 1024 * 1024 * 1024, 'the first is full');
is(data_bytes($node), usage($node, 't', 'doc')->{file_bytes}, 'file_bytes is what lies on disk');
values_right(112, 'values over the edge of a file');
crash($node);
$node->start;
values_right(112, 'after a crash');
sound($node, 't', 'after a crash');

# the end of it goes, and comes again, by a session that has the file open that went
my $writer = background($node);
is($writer->query_safe("SELECT sha256(doc::bytea) = sha256(blob(1, $len)) FROM t WHERE id = 112"), 't', 'the last value');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 20');
settle($node, 't', 'doc');
$node->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')") for 1 .. 3;
is(scalar(data_files($node)), 1, 'the second file is gone with its values');
cmp_ok(data_bytes($node), '<', mb(600), 'and the first is shorter');
values_right(20, 'values that stayed');
$writer->query_safe("$load(21, 110) i");
crash($node);
eval { $writer->quit };
$node->start;
values_right(110, 'grown again, crashed');
sound($node, 't', 'grown again, crashed');
$node->safe_psql('postgres', 'DROP TABLE t');
is(scalar(data_files($node)), 0, 'DROP TABLE removes both files');

# ---- maintenance in a transaction that drops or replaces storage, and is rolled back ----
my @ways = (
	'TRUNCATE x', 'DROP TABLE x', 'ALTER TABLE x DROP COLUMN doc', 'ALTER TABLE x ALTER doc TYPE bytea',
	"SELECT securefile_rewrite('x', 'doc', 'filesystem_like_logging')", "SELECT securefile_set_tablespace('x', 'doc', 'space')",
	'ALTER TABLE x SET TABLESPACE space', 'SAVEPOINT s; TRUNCATE x; SELECT securefile_maintain($$y$$, $$doc$$); ROLLBACK TO s');
mkdir $node->basedir . '/space' or die "could not make a directory: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '" . $node->basedir . "/space'");
make_table($node, $_) foreach ('x', 'y');
fill($node, $_, 1, 3, 50_000) foreach ('x', 'y');
foreach my $way (@ways)
{
	# what is not on disk yet is not removed in any case
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $removed = $node->safe_psql('postgres',
		"BEGIN; $way; SELECT 'removed ' || orphans_removed FROM securefile_maintain('y', 'doc'); ROLLBACK");
	like($removed, qr/^removed 0$/m, "$way, rolled back: no files are removed");
	rows_right($node, 'x', 3, "$way, rolled back");
}
sound($node, 'x', 'in the end');

# ---- maintenance by a session that took the files for nobody's while their maker ran ----
SKIP:
{
	eval { $node->safe_psql('postgres', 'SELECT securefile_fault_reset()'); 1 } or skip 'no fault points', 7;
	my $nobodys = q{SELECT count(*) FROM pg_ls_dir('pg_securefile/1663/' || (SELECT oid FROM pg_database WHERE datname = current_database())) n
		WHERE pg_filenode_relation(0, n::oid) IS NULL};
	my $maintain = q{SELECT orphans_removed FROM securefile_maintain('y', 'doc')};
	foreach my $point ('commit_done', 'drop_before_unlink')
	{
		my $maker = background($node);
		my $other = background($node);
		$maker->query_safe('BEGIN; TRUNCATE x; INSERT INTO x SELECT i, i, 50000, blob(i, 50000) FROM generate_series(1, 3) i');
		is($other->query_safe($nobodys), 1, 'files that nobody is known to have yet');
		$node->safe_psql('postgres', 'CHECKPOINT');
		ok(held($node, $maker, $point, 'COMMIT'), "held at $point");
		# the old files may go
		$other->query_safe($maintain);
		resume($node, $maker, $point);
		$maker->quit;
		$other->quit;
		rows_right($node, 'x', 3, "$point: rows whose files are new");
	}
	sound($node, 'x', 'still there');
}
$node->stop;
done_testing();
