# Where much of a segment is free, low places are lent first, so that its end becomes free and is
# cut off: which run a lending gets, called by a module of the tests; columns of which three
# quarters are deleted and that are stored again while they are in use; a list full of runs that
# do not serve, and a full front longer than a scan, do not make a segment grow for ever.
# Invariants S8 and S9.
#
# SECUREFILE_LOW_MB is how much each of the columns holds that are stored again (24).  The
# bound of the long form is that of doc/operations.md.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use List::Util qw(max min sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileSpace;
use SecurefileTest;
use Test::More;

use constant { MAP_BLOCKS => 4096, BLOCK_SECTORS => 8, NO_BOUND => -1 };

my $mb = $ENV{SECUREFILE_LOW_MB} || 24;
my $bytes = mb($mb);
my $node = new_cluster('low_first', conf => [ master_key(), 'securefile.monitor = off', 'autovacuum = off', 'restart_after_crash = on', "max_wal_size = '2GB'" ]);
need_faults($node);
c_functions('lend',
	'lend(regclass, need int, most int, below bigint) RETURNS text', 'lend_back(regclass, start bigint, n int) RETURNS void', 'lend_total(regclass) RETURNS bigint');

# ---- tools ----

sub blocks { return sql("SELECT lend_total('$_[0]')") / BLOCK_SECTORS; }

# Lend without a bound; returns start and number of blocks.
sub lend
{
	my ($table, $need, $most) = @_;
	return split /\+/, sql("SELECT lend('$table', $need, $most, " . NO_BOUND . ')');
}

# The same so many times, as text.
sub lend_some
{
	my ($table, $need, $most, $times) = @_;
	return split /\n/, sql("SELECT lend('$table', $need, $most, " . NO_BOUND . ") FROM generate_series(1, $times)");
}

# Lend so many map pages of a segment, and all that is free in it; returns its blocks.
sub lend_all
{
	my ($table, $pages) = @_;
	sql("SELECT lend('$table', " . MAP_BLOCKS . ', ' . MAP_BLOCKS . ', ' . NO_BOUND . ") FROM generate_series(1, $pages)");
	my $end = blocks($table);
	# growth made more than that, in part
	sql("SELECT lend('$table', 1, 4096, " . $end * BLOCK_SECTORS . ") FROM generate_series(1, 20)");
	return $end;
}

# A segment of so many map pages, all lent, of which these runs, [start, blocks], are given back.  A
# look of the maintenance fills the dispenser, and tells it how much is free.
sub with_free
{
	my ($table, $pages, @runs) = @_;
	make_table($node, $table, 'logging');
	my $end = lend_all($table, $pages);
	give_back($table, @runs);
	# the first one learns that much is free
	sql(("SELECT securefile_maintain('$table', 'doc')") x 2);
	die "$table was cut" if blocks($table) != $end;
	return $end;
}

sub give_back
{
	my ($table, @runs) = @_;
	sql("SELECT lend_back('$table', s, n) FROM unnest('{" . join(',', map { $_->[0] } @runs) . "}'::bigint[], '{" . join(',', map { $_->[1] } @runs) . "}'::int[]) r (s, n)");
	return;
}

# ---- which run ----

# A quarter is free, and more: the lowest of those that have all, else of those of about the greatest length.
my @some = ([ 100, 300 ], [ 1000, 70 ], [ 2000, 1100 ], [ 4200, 700 ], [ 5000, 1000 ], [ 6500, 2000 ]);
with_free('few', 3, @some);
is(join('+', lend('few', 8, 256)), '100+256', 'the lowest run that has all that is wanted');
is(join('+', lend('few', 8, 1024)), '2000+1024', 'the lowest one of those that are long enough');
is(join('+', lend('few', 8, 3000)), '6500+1692', 'none is long enough: the longest');
is(join('+', lend('few', 8, 1024)), '4200+700', 'of lengths that hardly differ the lowest');
is(join('+', lend('few', 8, 64)), '1000+64', 'what is left in front of it was too short');
is(join('+', lend('few', 8, 44)), '356+44', 'and serves who wants less');
sql('DROP TABLE few');

# Less than a quarter is free: the best fit, as anywhere before.
with_free('little', 3, [ 100, 900 ], [ 2000, 70 ], [ 5000, 300 ]);
is(join('+', lend('little', 8, 256)), '5000+256', 'little is free: the shortest that has all');
is(join('+', lend('little', 8, 64)), '2000+64', 'again');
sql('DROP TABLE little');

# The list of the dispenser is full of low runs and of short ones; the lowest long ones are in it.
with_free('crowded', 6, (map { [ $_ * 20, 10 ] } 0 .. 900), (map { [ 20500 + $_ * 200, 130 ] } 0 .. 19));
is(join(' ', lend_some('crowded', 128, 128, 15)), join(' ', map { (20500 + $_ * 200) . '+128' } 0 .. 14), 'long runs are found, from the front on, behind many short ones');
is(join('+', lend('crowded', 10, 10)), '0+10', 'and the short ones in front');
sql('DROP TABLE crowded');

# Two sessions by turns take different map pages where a segment has many; one alone takes the lowest.
with_free('turns', 20, map { [ $_ * 1000, 500 ] } 0 .. 79);
my @two = map { background($node) } 1 .. 2;
my @pids = map { $_->query_safe('SELECT pg_backend_pid()') } @two;
my @given = map { [ map { (split /\+/, $_->query_safe("SELECT lend('turns', 64, 64, -1)"))[0] } @two ] } 1 .. 6;
cmp_ok(max(map { @$_ } @given), '<', 2 * MAP_BLOCKS, 'two sessions by turns: the first two map pages');
is((grep { int($_->[0] / MAP_BLOCKS) == int($_->[1] / MAP_BLOCKS) } @given), $pids[0] % 2 == $pids[1] % 2 ? 6 : 0, 'by their numbers');
is(join(' ', map { int((split /\+/)[0] / MAP_BLOCKS) } (lend_some('turns', 64, 64, 8))[ 1 .. 7 ]), '0 0 0 0 0 0 0', 'one alone: the first');
$_->quit foreach @two;
sql('DROP TABLE turns');

# ---- growth ----

# A list full of runs in front of which none serves: what growth makes is lent to who has grown.
with_free('short', 4, map { [ $_ * 40, 20 ] } 0 .. 350);
my $before = blocks('short');
my @regions = map { [ split /\+/ ] } lend_some('short', 30, 30, 40);
my $step = max(256, $before / 8);
cmp_ok(blocks('short'), '<=', $before + 40 * 30 + 2 * $step, 'a full list of short runs: it grows by what is lent, and a step');
is(scalar(grep { $_->[1] == 30 && $_->[0] >= $before } @regions), 40, 'all of it lies in what was added');
sql('DROP TABLE short');

# Several at once, while it grows: no block is lent twice, and nobody gets less than he needs.
with_free('many', 2, map { [ $_ * 40, 20 ] } 0 .. 180);
my @sessions = map { background($node) } 1 .. 4;
foreach my $session (@sessions)
{
	$session->{stdin} .= "SELECT lend('many', 30, 200, -1) FROM generate_series(1, 60);\n";
	$session->{run}->pump_nb;
}
my @all = map { map { [ split /\+/ ] } split /\s+/, $_->query_safe("SELECT 'end'") =~ s/\s*end//r } @sessions;
$_->quit foreach @sessions;
is(scalar @all, 240, 'four sessions at once: all get regions');
my %lent;
is((grep { my $r = $_; $r->[1] < 30 || grep { $lent{ $r->[0] + $_ }++ } 0 .. $r->[1] - 1 } @all), 0, 'long enough, and no block twice');
my $size = blocks('many');
cmp_ok($size, '<=', 2 * MAP_BLOCKS + sum0(map { $_->[1] } @all) + $size / 4, 'and it has not grown by much more');
sql('DROP TABLE many');

# ---- a full front ----

# A scan is of two map pages.  The dispenser knows nothing: it is not to grow while there is space behind.
make_table($node, 'front', 'filesystem_like_logging');
sql("INSERT INTO front SELECT i, i, 2097152, repeat(chr(65 + i % 26), 2097152)::bytea FROM generate_series(1, 48) i", 'DELETE FROM front WHERE id BETWEEN 29 AND 44');
settle($node, 'front', 'doc');
$node->restart;
$before = blocks('front');
cmp_ok($before, '>=', 6 * MAP_BLOCKS, 'a front of several map pages');
sql("SELECT securefile_fault('short_scan', 'skip', times => -1)");
my ($start) = lend('front', 256, 1024);
is(blocks('front'), $before, 'a full front, and space behind: it does not grow');
cmp_ok($start, '>=', 3 * MAP_BLOCKS, 'the space behind is found');

# what becomes free in front is lent first, though scans have passed it
sql('DELETE FROM front WHERE id BETWEEN 3 AND 8', "SELECT securefile_maintain('front', 'doc')");
($start) = lend('front', 256, 512);
cmp_ok($start, '<', MAP_BLOCKS, 'what becomes free in front is found');
disarm($node);
sql('DROP TABLE front');

# A front longer than all scans of one lending, known to be full: it ends to grow when they have passed it.
with_free('longer', 8);
give_back('longer', [ 6 * MAP_BLOCKS, 2 * MAP_BLOCKS - 1 ]);
sql("SELECT securefile_fault('short_scan', 'skip', times => -1)");
my $grown = 0;
foreach (1 .. 20)
{
	$size = blocks('longer');
	($start) = lend('longer', MAP_BLOCKS, MAP_BLOCKS);
	last if $start == 6 * MAP_BLOCKS;
	$grown++ if blocks('longer') > $size;
}
is($start, 6 * MAP_BLOCKS, 'space behind a long full front is found');
cmp_ok($grown, '<=', 6, "after $grown steps of growth");
disarm($node);
sql('DROP TABLE longer');

# What becomes free in front counts until a scan has looked there.  Of 2 MB values, which lie in front,
# three go while a little less than a quarter is free; a scan of other pages comes before the fourth goes, with
# which it is a quarter.
make_table($node, 'turned', 'filesystem_like_logging');
sql("INSERT INTO turned SELECT i, i, 2097152, repeat(chr(65 + i), 2097152)::bytea FROM generate_series(1, 4) i");
settle($node, 'turned', 'doc');
my $end = lend_all('turned', 7);
my $pages = int($end / MAP_BLOCKS);
# scans halve what they know, and see 8192 blocks: so that three values and this are 256 blocks short of a quarter of that
my $run = int(($end / 8 + 2048 - 256 - 3 * 256) / (($pages - 1) / 2 + 2));
give_back('turned', map { [ $_ * MAP_BLOCKS + 1000, $run ] } 1 .. $pages - 1);
# a short scan, so that the next one is not of the front, and one of all pages
my $scan = "SELECT securefile_maintain('turned', 'doc')";
my $short = q{SELECT securefile_fault('short_scan', 'skip', times => -1)};
sql($short, $scan, q{SELECT securefile_fault('short_scan', 'none')}, $scan, $short);
my $segment = sql("SELECT segment_relid::regclass FROM securefile_columns WHERE relid = 'turned'::regclass");
sql('DELETE FROM turned WHERE id < 4');
sql("VACUUM $segment");
sql($scan);
sql('DELETE FROM turned WHERE id = 4');
sql("VACUUM $segment");
cmp_ok((lend('turned', 64, 64))[0], '<', MAP_BLOCKS / 2, 'what became free before a scan elsewhere is found');
disarm($node);
sql('DROP TABLE turned');

# ---- columns that are stored again ----

# Stores all again, in batches, after each of which what it has set free is free: what the monitor sees
# to beside a procedure that takes longer.
sql(q{CREATE PROCEDURE store_again(t regclass, batch bigint) LANGUAGE plpgsql AS $$
	DECLARE
		next text;
	BEGIN
		LOOP
			SELECT next_position INTO next FROM securefile_rewrite_some(t, 'doc', batch, next);
			COMMIT;
			PERFORM securefile_maintain(t, 'doc');
			COMMIT;
			EXIT WHEN next IS NULL;
		END LOOP;
	END $$});

# Three of four rows are deleted at random, the others stored again three times.
sub stored_again
{
	my ($name, $rows, $length, $options) = @_;
	# text that codecs make half as long, where there are any
	my $text = $options ? "(SELECT string_agg(md5(i || ':' || j), '') FROM generate_series(1, ($length) / 32) j)" : "repeat(md5(i::text), ($length) / 32)";
	make_table($node, $name, join ', ', 'filesystem_like_logging', 'disable_storage_in_row', $options || ());
	sql('SELECT setseed(0.5)', "INSERT INTO $name SELECT i, i, 0, convert_to($text, 'SQL_ASCII') FROM generate_series(1, $rows) i");
	sql('SELECT setseed(0.5)', "DELETE FROM $name WHERE random() < 0.75");
	my $full = settle($node, $name, 'doc')->{file_bytes};
	my $contents = "SELECT count(*), md5(string_agg(id || securefile_digest(doc, 'xxh3')::text, ',' ORDER BY id)) FROM $name";
	my $digest = sql($contents);
	my $usage;
	my @sizes;
	foreach (1 .. 3)
	{
		sql($mb > 200 || $name eq 'wide' ? "CALL securefile_rewrite_online('$name', 'doc', 8388608)" : "CALL store_again('$name', $bytes / 20)");
		$usage = settle($node, $name, 'doc');
		push @sizes, sprintf('%.1f', $usage->{file_bytes} / mb(1));
	}
	note(sprintf('%s: %.1f MB, then %s; live %.1f', $name, $full / mb(1), join(', ', @sizes), $usage->{live_bytes} / mb(1)));
	# what a cut leaves free is an eighth of what was there, and a batch is all of a short column
	cmp_ok($usage->{file_bytes}, '<=', 1.5 * $usage->{live_bytes} + ($mb > 200 ? mb(64) : min(mb(64), $full / 8)), "$name: files are hardly longer than what lives");
	is(sql($contents), $digest, "$name: contents are the same");
	is(sql("SELECT count(*) FROM securefile_check('$name', 'doc')"), 0, "$name: sound");
	sql("DROP TABLE $name");
	return;
}
if ($mb > 200)
{
	sql('ALTER SYSTEM SET securefile.monitor = on', 'SELECT pg_reload_conf()');
}
# many map pages, and nobody else sees to what is free
stored_again('wide', 1250, 131072);
stored_again('medium', int($bytes / 131072), 131072);
stored_again('small', int($bytes / 10240), 10240);
stored_again('mixed', int($bytes / 120000), 'CASE i % 100 WHEN 0 THEN 5000000 WHEN 1 THEN 2000000 ELSE 1000 + i % 7 * 16000 END');
if ($mb > 200)
{
	stored_again('large', int($bytes / 20e6), 20_000_000);
	stored_again('quarter', int($bytes / 262144), 262_144);
	stored_again('packed', int($bytes / 800000), 'i % 9 * 50000', 'compress');
	stored_again('hidden', int($bytes / 800000), 'i % 9 * 50000', 'compress_high, hash, encrypt');
}

if ($mb > 200)
{
	sql('ALTER SYSTEM RESET securefile.monitor', 'SELECT pg_reload_conf()');
}

# ---- invariants ----

sub breaks
{
	my ($point, $sql) = @_;
	my $since = -s $node->logfile;
	$node->psql('postgres', "SELECT securefile_fault('break_$point', 'skip', times => -1, pid => pg_backend_pid()); $sql");
	wait_restart($node, $since);
	my $log = substr(slurp($node->logfile), $since);
	like($log, qr/^TRAP: securefile assertion failed: \U$point: /m, "$point is asserted");
	return;
}

with_free('broken', 3, [ 0, 2000 ], [ 3000, 2000 ], [ 8000, 60 ]);
breaks('s8', "SELECT lend('broken', 64, 64, -1)");
with_free('again', 1, [ 100, 10 ]);
breaks('s9', "SELECT lend('again', 64, 64, -1)");
sound($node, $_, 'a broken invariant') foreach qw(broken again);

$node->stop;
done_testing();
