# Traps 6 and 7, rule 1: objects share regions and blocks.  Freeing one object never
# touches its neighbours, and a write in flight never lands on new data.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_cluster('regions', conf => ['securefile.monitor = off']);

# ---- trap 6: several objects a block ----
foreach my $options ('disable_storage_in_row', 'disable_storage_in_row, filesystem_like_logging')
{
	my $table = $options =~ /filesystem/ ? 'packed_fs' : 'packed';
	make_table($node, $table, $options);
	fill($node, $table, 1, 400, '600 + i % 3 * 512');
	my $first = sub { return sound($node, $table, $_[0], in_row => 0) };
	rows_right($node, $table, 400, 'small objects share blocks');
	$first->('small objects share blocks');
	my $one = usage($node, $table, 'doc');
	cmp_ok($one->{live_bytes}, '<', 400 * 4096, 'objects pack at sectors');

	# one of each block goes; nothing may be written over its neighbours
	$node->safe_psql('postgres', "DELETE FROM $table WHERE id % 4 = 1");
	$first->('every fourth deleted');
	fill($node, $table, 1001, 1100, 700);
	rows_right($node, $table, 400, 'neighbours of freed sectors');
	$first->('neighbours of freed sectors');
	$node->safe_psql('postgres', "DELETE FROM $table WHERE id % 2 = 0");
	settle($node, $table, 'doc');
	fill($node, $table, 2001, 2400, '513 + i % 7 * 1000');
	rows_right($node, $table,
		$node->safe_psql('postgres', "SELECT count(*) FROM $table"), 'half gone, others come');
	$first->('half gone, others come');

	# all of them gone: their blocks serve large objects
	$node->safe_psql('postgres', "DELETE FROM $table");
	my $empty = settle($node, $table, 'doc');
	is($empty->{live_bytes}, 0, 'nothing live when all rows are gone');
	my $before = $empty->{file_bytes};
	fill($node, $table, 1, 4, 100_000);
	cmp_ok(usage($node, $table, 'doc')->{file_bytes}, '<=', $before + mb(8),
		'freed blocks serve again');
	rows_right($node, $table, 4, 'large objects in freed blocks');
	$first->('large objects in freed blocks');
}

# mixed sizes, many rounds, neighbours compared in each
make_table($node, 'mixed', 'disable_storage_in_row');
foreach my $round (1 .. 6)
{
	$node->safe_psql('postgres',
		"DELETE FROM mixed WHERE (id * 7 + $round) % 3 = 0;"
		  . "INSERT INTO mixed SELECT $round * 1000 + i, i, 300 + i * i * 97 % 150000, blob(i, 300 + i * i * 97 % 150000)"
		  . ' FROM generate_series(1, 60) i;'
		  . "UPDATE mixed SET seed = seed + $round, doc = blob(seed + $round, len) WHERE id % 5 = $round % 5");
	settle($node, 'mixed', 'doc') if $round % 2;
	rows_right($node, 'mixed', $node->safe_psql('postgres', 'SELECT count(*) FROM mixed'),
		"mixed sizes, round $round");
}
sound($node, 'mixed', 'mixed sizes', in_row => 0);

# ---- trap 7: aborts with data written and in flight ----
make_table($node, 't');
fill($node, 't', 1, 20, 100_000);
settle($node, 't', 'doc');
my $size = usage($node, 't', 'doc')->{file_bytes};
my $aborted = sub {
	my ($name, $sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->psql('postgres', $sql);
	rows_right($node, 't', 20, $name);
	sound($node, 't', $name);
};
my $big = 'INSERT INTO t SELECT i, i, 3000000, blob(i, 3000000) FROM generate_series(100, 106) i';
$aborted->('rollback of 20 MB', "BEGIN; $big; ROLLBACK");
$aborted->('error after 20 MB', "$big WHERE 1 / (106 - i) >= 0");
$aborted->('timeout amid 20 MB', "SET statement_timeout = '60ms'; $big");
$aborted->('savepoints, parts of a region undone',
	'BEGIN; ' . join(';', map { "SAVEPOINT s; INSERT INTO t VALUES ($_, 0, 1, blob($_, 70000)); ROLLBACK TO s" } 200 .. 230)
	  . '; COMMIT');
$aborted->('the same inside a transaction that aborts',
	"BEGIN; UPDATE t SET doc = blob(5, 70000); SAVEPOINT s; $big; ROLLBACK TO s; DELETE FROM t; ROLLBACK");
my $grown = usage($node, 't', 'doc');
$node->safe_psql('postgres', "BEGIN; $big; ROLLBACK") for 1 .. 5;
settle($node, 't', 'doc');
cmp_ok(usage($node, 't', 'doc')->{file_bytes}, '<=', $grown->{file_bytes} + mb(8),
	'aborted transactions do not grow the segment for ever');

# alternating kept and undone objects of one region
$node->safe_psql('postgres',
	'BEGIN; ' . join(';', map {
			"SAVEPOINT s; INSERT INTO t VALUES ($_, $_, 7001, blob($_, 7001)); "
			  . ($_ % 2 ? 'ROLLBACK TO s' : 'RELEASE s') } 300 .. 339)
	  . '; COMMIT');
rows_right($node, 't', 40, 'kept between undone');
sound($node, 't', 'kept between undone');
fill($node, 't', 400, 419, 7001);
rows_right($node, 't', 60, 'holes of undone objects filled');
sound($node, 't', 'holes of undone objects filled');

# backend terminated in the middle of its writing
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
$session->{stdin} .= "BEGIN;\n" . join('', map { "$big;\nDELETE FROM t WHERE id >= 100 AND id < 200;\n" } 1 .. 5);
$session->{run}->pump_nb;
# it is in the statement after BEGIN, for the 100 ms at least that this is too fast for it
wait_for_sql($node, "SELECT state = 'active' AND query_start > xact_start FROM pg_stat_activity WHERE pid = $pid");
usleep(100_000);
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
session_is_gone($node, $pid);
eval { $session->quit };
rows_right($node, 't', 60, 'backend terminated amid writes');
sound($node, 't', 'backend terminated amid writes');

# two sessions commit and abort at the same time in one segment
my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
foreach my $round (1 .. 5)
{
	my $k = 1000 * $round;
	foreach my $s (0 .. 2)
	{
		$sessions[$s]->query_safe("BEGIN; INSERT INTO t SELECT $k + $s * 100 + i, i, 50000, blob(i, 50000) FROM generate_series(1, 10) i");
	}
	$sessions[0]->query_safe('ROLLBACK');
	$sessions[1]->query_safe('COMMIT');
	$sessions[2]->query_safe($round % 2 ? 'COMMIT' : 'ROLLBACK');
}
$_->quit for @sessions;
rows_right($node, 't', 60 + 50 + 30, 'interleaved commits and aborts');
sound($node, 't', 'interleaved commits and aborts');

$node->stop;
done_testing();
