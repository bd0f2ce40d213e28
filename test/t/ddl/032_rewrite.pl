# securefile_rewrite(): values under today's options, the logging mode swapped;
# rolled back, crashed, and beside readers.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('rewrite');
my $mode = sub {
	return $node->safe_psql('postgres', "SELECT logging FROM securefile_columns WHERE relid = '$_[0]'::regclass");
};

make_table($node, 't');
fill($node, 't', 1, 10, 3000);
fill($node, 't', 11, 20, 50_000);
fill($node, 't', 21, 22, 13_000_000);
$node->safe_psql('postgres', 'INSERT INTO t VALUES (30, 30, 0, blob(30, 0)), (31, 31, NULL, NULL)');
sub all_right
{
	my ($name, $in_row) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($node, 't', 24, $name);
	sound($node, 't', $name, in_row => $in_row);
	return;
}
all_right('to begin with', 4000);

# values move into the segment, and out of it
$node->safe_psql('postgres', 'ALTER TABLE t ALTER doc TYPE securefile(disable_storage_in_row)');
all_right('new option, old values', 4000);
$node->safe_psql('postgres', "SELECT securefile_rewrite('t', 'doc')");
all_right('small values moved in', 0);
$node->safe_psql('postgres', "BEGIN; SELECT securefile_rewrite('t', 'doc'); ROLLBACK");
all_right('rolled back', 0);
$node->safe_psql('postgres', "ALTER TABLE t ALTER doc TYPE securefile; SELECT securefile_rewrite('t', 'doc')");
all_right('small values moved out', 4000);

# the logging mode
fails_with($node, 'ALTER TABLE t ALTER doc TYPE securefile(filesystem_like_logging)', '\w{5}', 'securefile_rewrite',
	'ALTER TYPE cannot change the mode while values are stored, and says how');
my $files = scalar(data_files($node));
my $before = $mode->('t');
$node->safe_psql('postgres', "SELECT securefile_rewrite('t', 'doc', logging => 'filesystem_like_logging')");
isnt($mode->('t'), $before, 'mode swapped');
all_right('filesystem_like_logging', 4000);
is(scalar(data_files($node)), $files, 'the old segment\'s files are gone');
crash($node);
$node->start;
all_right('filesystem_like_logging, crash', 4000);
$node->safe_psql('postgres', "BEGIN; SELECT securefile_rewrite('t', 'doc', logging => 'logging'); ROLLBACK");
all_right('swap rolled back', 4000);
isnt($mode->('t'), $before, 'swap rolled back: mode');
$node->safe_psql('postgres', "SELECT securefile_rewrite('t', 'doc', logging => 'logging')");
is($mode->('t'), $before, 'and back');
all_right('logging again', 4000);
crash($node);
$node->start;
all_right('logging again, crash', 4000);
fails_with($node, "SELECT securefile_rewrite('t', 'doc', logging => 'sometimes')", '22023', '', 'unknown mode');
fails_with($node, "SELECT securefile_rewrite('t', 'id')", '\w{5}', '', 'another column');
fails_with($node, "SELECT securefile_rewrite('t', 'none')", '42703', '', 'no such column');

# an empty table may change its mode by ALTER TYPE
make_table($node, 'e');
$node->safe_psql('postgres', 'ALTER TABLE e ALTER doc TYPE securefile(filesystem_like_logging)');
fill($node, 'e', 1, 3, 50_000);
crash($node);
$node->start;
rows_right($node, 'e', 3, 'mode of an empty table');
sound($node, 'e', 'mode of an empty table');

# a crash in the middle of it
my $session = background($node);
$session->query_safe("BEGIN; SELECT securefile_rewrite('t', 'doc', logging => 'filesystem_like_logging')");
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
eval { $session->quit };
$node->start;
is($mode->('t'), $before, 'crash in a swap: mode');
all_right('crash in a swap', 4000);
wait_until(sub { data_files($node) == $files + 1 });
is(scalar(data_files($node)), $files + 1, 'crash in a swap: no file left behind');

# a failed one
$node->psql('postgres', "SET statement_timeout = '20ms'; SELECT securefile_rewrite('t', 'doc')");
all_right('timeout in a rewrite', 4000);

# ALTER TABLE between bytea and securefile keeps every byte
$node->safe_psql('postgres', 'ALTER TABLE t ALTER doc TYPE bytea');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE doc = blob(seed, len)'), 23, 'as bytea');
is(scalar(data_files($node)), $files, 'as bytea: no data file');
$node->safe_psql('postgres', 'ALTER TABLE t ALTER doc TYPE securefile(disable_storage_in_row)');
rows_right($node, 't', 24, 'as securefile again');
$node->safe_psql('postgres', "SELECT securefile_rewrite('t', 'doc')");
all_right('as securefile again, rewritten', 0);
$node->stop;
done_testing();
