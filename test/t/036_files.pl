# A segment of more than one data file: growth over the edge, crash, cut, again.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
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
$node->stop;
done_testing();
