# Lending below a bound, called by a module of this test: whatever is free below it is found, to
# the last block, and nothing beyond it, also where the dispenser knows longer runs there; what this
# session keeps, what others keep, what becomes free; the segment does not grow.  Invariant S7.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use List::Util qw(max sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileSpace;
use SecurefileTest;
use Test::More;

use constant { MAP_BLOCKS => 4096, BLOCK_SECTORS => 8, NO_BOUND => -1 };

my $node = new_cluster('lend_below', conf => [ 'securefile.monitor = off', 'autovacuum = off', 'restart_after_crash = on' ]);
need_faults($node);
c_functions('lend',
	'lend(regclass, need int, most int, below bigint) RETURNS text', 'lend_all(regclass, need int, most int, below bigint) RETURNS text',
	'lend_back(regclass, start bigint, n int) RETURNS void', 'lend_total(regclass) RETURNS bigint', 'lend_grown(regclass) RETURNS bigint');

# ---- what is free, by the space map ----

# Free runs of blocks, [start, number], in order, where nothing is lent.  A run never crosses a map page.
sub free_runs
{
	my ($table) = @_;
	sql('CHECKPOINT');
	my $all = slurp(segment_of($node, $table));
	my $total = sql("SELECT lend_total('$table')") / BLOCK_SECTORS;
	my @runs;
	my $first = 0;
	foreach my $page (pages_of($all, PAGE_MAP))
	{
		my $used = substr($all, $page * PAGE + USED, MAP_BLOCKS);
		while ($used =~ /\0+/g)
		{
			my $end = $first + $+[0] < $total ? $first + $+[0] : $total;
			push @runs, [ $first + $-[0], $end - $first - $-[0] ] if $first + $-[0] < $end;
		}
		$first += MAP_BLOCKS;
	}
	return @runs;
}

# What a list of runs has before a block.
sub runs_before
{
	my ($end, @runs) = @_;
	return grep { $_->[1] > 0 } map { [ $_->[0], $_->[0] + $_->[1] <= $end ? $_->[1] : max(0, $end - $_->[0]) ] } @runs;
}

sub blocks_of { return sum0(map { $_->[1] } @_); }
sub regions_of { return map { [ split /\+/ ] } split / /, $_[0]; }

# Regions have only blocks that are in the runs, and none twice; returns what is wrong.
sub misplaced
{
	my ($runs, @regions) = @_;
	my %free = map { my $run = $_; map { ($run->[0] + $_ => 1) } 0 .. $run->[1] - 1 } @$runs;
	my @wrong;
	foreach my $region (@regions)
	{
		push @wrong, "$region->[0]+$region->[1]" if grep { !delete $free{ $region->[0] + $_ } } 0 .. $region->[1] - 1;
	}
	return join(' ', @wrong);
}

# Nothing is lent, and the dispenser knows nothing.
sub restart { $node->restart; return; }

# Two map pages; every third value is gone, and every one of a stretch.
make_table($node, 't', 'logging');
sql("INSERT INTO t SELECT i, i, 20000 + i * 7919 % 90000, blob(i, 20000 + i * 7919 % 90000) FROM generate_series(1, 400) i",
	'DELETE FROM t WHERE id % 3 = 0 OR id BETWEEN 50 AND 60 OR id BETWEEN 300 AND 320');
settle($node, 't', 'doc');
restart();
my @runs = free_runs('t');
my $total = sql("SELECT lend_total('t')") / BLOCK_SECTORS;
my $rows = sql('SELECT count(*) FROM t');
cmp_ok($total, '>', MAP_BLOCKS, 'the segment has two map pages');
cmp_ok(scalar @runs, '>', 128, 'it has more free runs than the dispenser knows');

# ---- to the last block ----

# Bounds in front, inside of a long run and at its ends, at the border of the map pages, at the end, and beyond.
my ($long) = sort { $b->[1] <=> $a->[1] } grep { $_->[0] < MAP_BLOCKS / 2 } @runs;
foreach my $bound (0, 1, $long->[0], $long->[0] + 1, $long->[0] + $long->[1] - 1, $long->[0] + $long->[1], 1000, MAP_BLOCKS, MAP_BLOCKS + 700, $total, $total * 2)
{
	my @below = runs_before($bound, @runs);
	my $sectors = $bound * BLOCK_SECTORS + ($bound % 2 ? 7 : 0);
	my @regions = regions_of(sql("SELECT lend_all('t', 1, 64, $sectors)"));
	is(misplaced(\@below, @regions), '', "bound $bound: what is lent was free and lies below, once");
	is(blocks_of(@regions), blocks_of(@below), 'and it is all that was');
	is(sql("SELECT lend('t', 1, 64, $sectors)"), '', 'then there is nothing');
	is(sql("SELECT lend_total('t')") / BLOCK_SECTORS, $total, 'the segment has not grown');
	restart();
}

# ---- with a dispenser full of other runs ----

# A lending without a bound fills the dispenser with the longest runs there are; all of these lie
# beyond the bound, as what is before it is cut up.
sub full_dispenser
{
	sql("SELECT lend_back('t', split_part(r, '+', 1)::bigint, split_part(r, '+', 2)::int) FROM lend('t', 1, 1, " . NO_BOUND . ') r');
	return;
}

my @sorted = sort { $b->[1] <=> $a->[1] || $a->[0] <=> $b->[0] } @runs;
my ($short) = sort { $a->[0] <=> $b->[0] } grep { $_->[1] < $sorted[70][1] } @runs;
my $behind = $short->[0] + $short->[1];
my @before = runs_before($behind, @runs);
cmp_ok(max(map { $_->[1] } @before), '<', max(map { $_->[1] } @runs), 'the longest run lies behind the bound');
full_dispenser();
my @regions = regions_of(sql("SELECT lend_all('t', 1, 4096, " . $behind * BLOCK_SECTORS . ')'));
is(misplaced(\@before, @regions), '', 'the dispenser is full: what is lent lies below');
is(blocks_of(@regions), blocks_of(@before), 'the dispenser is full: all is found');

# the runs beyond it are there for the others, from the dispenser or from the map
my @others = regions_of(sql("SELECT lend('t', 1, 4096, " . NO_BOUND . ") FROM generate_series(1, 20)") =~ s/\n/ /gr);
is(misplaced([ grep { $_->[0] >= $behind } @runs ], @others), '', 'without a bound: what lies behind');
is(sql("SELECT lend_total('t')") / BLOCK_SECTORS, $total, 'without growth');
restart();

# a run that the dispenser knows, and that the bound cuts: the one call gets the front, the other the rest
full_dispenser();
my $need = 1 + max(0, map { $_->[1] } runs_before($sorted[0][0], @runs));
my $cut = $sorted[0][0] + $need;
cmp_ok($need, '<', $sorted[0][1], 'the longest run is longer than those before it');
is(sql("SELECT lend('t', $need, 4 * $need, " . $cut * BLOCK_SECTORS . ')'), "$sorted[0][0]+$need", 'the front of a run that the bound cuts');
my $rest = $sorted[0][1] - $need;
like(sql("SELECT lend_all('t', $rest, $rest, " . ($cut + $rest) * BLOCK_SECTORS . ')'), qr/\b$cut\+$rest\b/, 'and then what is left of it, after lower ones');
restart();

# no run is long enough
my $longest = max(map { $_->[1] } runs_before(1000, @runs));
is(sql("SELECT lend('t', $longest + 1, 4096, 8000)"), '', 'nothing where all runs are too short');
like(sql("SELECT lend('t', $longest, 4096, 8000)"), qr/^\d+\+$longest$/, 'the longest one where it is just enough');
restart();

# ---- what sessions keep ----

# A session writes behind the bound, and keeps the rest of its region, in its transaction and after it.
my $writer = background($node);
my $bound = $runs[10][0] * BLOCK_SECTORS;
sub writes { my ($id) = @_; return "INSERT INTO t SELECT $id, $id, 9000, blob($id, 9000)"; }

$writer->query_safe("SELECT lend_all('t', 1, 4096, $bound)");
$writer->query_safe('BEGIN; ' . writes(1001));
is($writer->query_safe("SELECT lend('t', 1, 1, $bound)"), '', 'the region that this transaction fills is not lent below a bound');
is(sql("SELECT lend('t', 1, 1, $bound)"), '', 'nor to another one');
$writer->query_safe(writes(1002) . '; COMMIT');
is($writer->query_safe("SELECT lend('t', 1, 1, $bound)"), '', 'nor what the session has parked');
is(sql("SELECT pg_sleep(1.2); SELECT lend('t', 1, 1, $bound)"), "\n", 'nor what is idle for long');
$writer->query_safe(writes(1003));
$writer->quit;
rows_right($node, 't', $rows + 3, 'sessions');
restart();

# ---- what becomes free ----

# All below is lent.  Values that are deleted there are found when nobody can need them any more; those
# behind the bound are not.
sql("SELECT lend_all('t', 1, 4096, $bound)");
my $old = background($node);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
sql('DELETE FROM t WHERE id < 5', 'DELETE FROM t WHERE id BETWEEN 200 AND 220');
is(sql("SELECT lend('t', 1, 4096, $bound)"), '', 'a snapshot keeps what was deleted');
$old->quit;
@regions = regions_of(sql("SELECT lend_all('t', 1, 4096, $bound)"));
cmp_ok(blocks_of(@regions), '>', 10, 'then it is lent');
is((grep { ($_->[0] + $_->[1]) * BLOCK_SECTORS > $bound } @regions), 0, 'only what lies below');
is(sql("SELECT lend_total('t')") / BLOCK_SECTORS, $total, 'and nothing grew');
restart();
sound($node, 't', 'freed');
restart();

# ---- the monitor ----

make_table($node, 'other', 'logging');
fill($node, 'other', 1, 300, 100000);
sql('DELETE FROM other WHERE id BETWEEN 20 AND 60');
settle($node, 'other', 'doc');
restart();
sql("SELECT lend_all('other', 1, 4096, 2000000000)");
is(sql("SELECT lend_grown('other')"), 0, 'the monitor does not grow for what was lent below a bound');
sql("SELECT lend('other', 1024, 1024, " . NO_BOUND . ')');
cmp_ok(sql("SELECT lend_grown('other')"), '>', 0, 'it does for what was lent without one');

# ---- several at once ----

my @free = free_runs('t');
my @sessions = map { background($node) } 1 .. 4;
my $half = 3000 * BLOCK_SECTORS;
foreach my $session (@sessions)
{
	$session->{stdin} .= "SELECT lend_all('t', 1, 5, $half);\n";
	$session->{run}->pump_nb;
}
sql('INSERT INTO t SELECT i, i, 3000 + i, blob(i, 3000 + i) FROM generate_series(2000, 2100) i');
my @all = map { regions_of($_->query_safe("SELECT 'end'") =~ s/\s*end//r) } @sessions;
$_->quit foreach @sessions;
cmp_ok(scalar @all, '>', 100, 'four sessions and a writer: there are some regions');
is(misplaced([ runs_before(3000, @free) ], @all), '', 'each block is lent once, and lies below');
rows_right($node, 't', sql('SELECT count(*) FROM t'), 'beside them');
sound($node, 't', 'beside them');
restart();

# ---- errors, and the invariant ----

fails_with($node, "SELECT securefile_fault('lend_before_mark', 'error', pid => pg_backend_pid()); SELECT lend('t', 1, 8, $half)", 'XX000', 'lend_before_mark', 'an error in between');
like(sql("SELECT lend('t', 1, 8, $half)"), qr/^\d+\+\d+$/, 'the next call gets a region');
ok(dies_at($node, 'lend_after_mark', 'kill', "SELECT lend('t', 1, 8, $half)"), 'a process dies with a region');
restart();
sound($node, 't', 'errors');
full_dispenser();
my $since = -s $node->logfile;
$node->psql('postgres', "SELECT securefile_fault('break_s7', 'skip', times => -1, pid => pg_backend_pid()); SELECT lend('t', 1, 4096, $bound)");
wait_restart($node, $since);
like(substr(slurp($node->logfile), $since), qr/^TRAP: securefile assertion failed: S7: /m, 's7 is asserted');
is(() = slurp($node->logfile) =~ /TRAP: |PANIC/g, 1, 'and nothing else');
sound($node, 't', 's7');
rows_right($node, 't', sql('SELECT count(*) FROM t'), 's7');

$node->stop;
done_testing();
