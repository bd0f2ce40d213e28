# securefile_shrink_estimate(): what a column could give back.  The limit, and what follows from it,
# is that which a walk through all bits of the space map finds, and a move comes close to it; what can be released is what a release
# gives back; partitions are added up; it works on a standby; others than the owner are refused.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use List::Util qw(max min sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

use constant { MAP_SECTORS => 32768, STEP => 128 };

my $node = new_cluster('shrink_estimate', init => { allows_streaming => 1 }, conf => [ 'securefile.monitor = off', 'autovacuum = off' ]);
need_faults($node);
my $len = 200_000;
my @names = qw(file disk live releasable movable target rows);

sub estimate
{
	my ($table, $on) = @_;
	my %estimate;
	@estimate{@names} = split /\|/, ($on || $node)->safe_psql('postgres', "SELECT * FROM securefile_shrink_estimate('$table', 'doc')"), -1;
	return \%estimate;
}

sub round_up { return int(($_[0] + STEP - 1) / STEP) * STEP; }

# How long the files are after cuts.
sub after_cuts { return $_[0] == 0 ? 0 : round_up($_[0] + min(int($_[0] / 7), 131072)); }

# What a walk through all bits of the map finds, on whole pages, and then in parts of one; nothing is lent.
# In bytes: movable, target, and target without a move.
sub searched
{
	my ($table, $piece) = @_;
	my $total = estimate($table)->{file} / SECTOR;
	my $pages = slurp(segment_of($node, $table));
	my @maps = map { substr($pages, (1 + 8 * $_) * PAGE + USED, min(4096, $total / 8 - 4096 * $_)) } 0 .. int(($total + MAP_SECTORS - 1) / MAP_SECTORS) - 1;
	my $above = sum0(map { unpack('%32b*', $_) } @maps);
	my $tail = 8 * length(join('', @maps) =~ s/\0+$//r);
	my $cut = min($total, after_cuts($tail));
	my $missing = $above * 1.03 + int($cut / 8) / 4;
	my $limit = $total;
	foreach my $i (0 .. $#maps)
	{
		my $gain = 1.03 * unpack('%32b*', $maps[$i]);
		$gain += 8 * length($_) - 8 * length($_) % $piece foreach $maps[$i] =~ /\0+/g;
		$above -= unpack('%32b*', $maps[$i]);
		if ($missing <= $gain)
		{
			my $blocks = int(($missing * 8 * length($maps[$i]) / max($gain, 1) + 7) / 8);
			$limit = $i * MAP_SECTORS + 8 * $blocks;
			$above += unpack('%32b*', substr($maps[$i], $blocks));
			last;
		}
		$missing -= $gain;
	}
	my $least = min($cut, after_cuts(min($tail, $limit)));
	return $least < $cut ? ($above * SECTOR, $least * SECTOR, $cut * SECTOR) : (0, $cut * SECTOR, $cut * SECTOR);
}

# Rows of which some are deleted; nothing is lent afterwards, and the map is on disk.
sub with_free
{
	my ($table, $options, $rows, $deleted) = @_;
	make_table($node, $table, $options);
	fill($node, $table, 1, $rows, $len);
	sql("DELETE FROM $table WHERE $deleted", "ANALYZE $table");
	settle($node, $table, 'doc');
	return;
}

# ---- the limit ----

my %tables = (
	spread => [ 'logging', 120, 'id % 4 <> 0' ],		# map pages 0 and 1
	back => [ 'logging', 120, 'id < 100' ],
	front => [ 'logging', 60, 'id > 30' ],
	filled => [ 'logging', 60, 'id < 3' ],
	same => [ 'deduplicate', 100, 'id % 4 <> 0' ],
	bare => [ 'filesystem_like_logging', 20, 'true' ]);
with_free($_, @{ $tables{$_} }) foreach sort keys %tables;
make_table($node, 'never', '');
$node->restart;
foreach my $table (sort keys %tables)
{
	my ($movable, $target, $cut) = searched($table, $table eq 'bare' ? 1 : 256);
	($movable, $target) = (0, $cut) if $table eq 'same';
	my $e = estimate($table);
	is("$e->{movable} $e->{target}", "$movable $target", "$table: what would move, and what the files become");
	is("$e->{file} $e->{disk} $e->{live}", sql("SELECT file_bytes || ' ' || disk_bytes || ' ' || live_bytes FROM securefile_usage('$table', 'doc')"), "$table: as of securefile_usage()");
	cmp_ok($movable, $table =~ /spread|back/ ? '>' : '==', 0, "$table: $movable bytes are movable") if $table =~ /spread|back|same|bare/;
}
my $spread = estimate('spread');
cmp_ok($spread->{target}, '<', $spread->{file} * 0.7, "three quarters are gone: $spread->{file} bytes could be $spread->{target}");
is($spread->{rows}, int($spread->{movable} / (512 * int(($len + 511) / 512)) + 0.9999), 'and so many rows would move');
is(join(' ', @{ estimate('never') }{@names}), '0 0 0 0 0 0 0', 'nothing was stored');

# without a move it is what a cut leaves
my $before = estimate('same');
sql(("SELECT securefile_maintain('same', 'doc')") x 6);
cmp_ok(abs(estimate('same')->{file} - $before->{target}), '<=', 2 * STEP * SECTOR, 'what deduplicates is cut, and does not move');

# a cut of what is free already behind the limit; rows are not known without ANALYZE
make_table($node, 'unseen', '');
fill($node, 'unseen', 1, 40, $len);
sql('DELETE FROM unseen WHERE id < 35');
settle($node, 'unseen', 'doc');
cmp_ok(estimate('unseen')->{movable}, '>', 0, 'without ANALYZE');
is(estimate('unseen')->{rows}, '', 'rows are not known');

# ---- what is released ----

sql('CHECKPOINT');
$before = estimate('spread');
cmp_ok($before->{releasable}, '>', mb(5), "$before->{releasable} bytes could be released");
my $session = background($node);
ok(held($node, $session, 'release_before', q{CALL securefile_shrink('spread', 'doc')}), 'a release stands in the middle');
cmp_ok(estimate('spread')->{releasable}, '<=', $before->{file} / 8, 'what is set aside is no other\'s');
resume($node, $session, 'release_before');
$session->quit;
my $after = estimate('spread');
cmp_ok(abs($before->{disk} - $after->{disk} - $before->{releasable}), '<=', mb(0.25), 'as many were, but for what the file system needs');
cmp_ok($after->{releasable}, '<', mb(0.25), 'once: holes have no room');
is("$after->{file} $after->{movable} $after->{target}", "$before->{file} $before->{movable} $before->{target}", 'places are what they were');

# one value between two holes: its own room, and not that of the holes
sql('DELETE FROM spread WHERE id = 60');
settle($node, 'spread', 'doc');
my $one = estimate('spread')->{releasable};
ok($one >= $len && $one < $after->{releasable} + mb(0.5), "a value between two holes: $one bytes more than $after->{releasable}");
arm($node, 'io_extents', 'enotsup', times => -1);
is(estimate('back')->{releasable}, 0, 'where the file system does not tell, nothing is released');
disarm($node);

# ---- where, and who ----

sql('CREATE TABLE parts (id int, seed int, len int, doc securefile) PARTITION BY LIST (id)', 'CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1)', 'CREATE TABLE part2 PARTITION OF parts FOR VALUES IN (2)',
	"INSERT INTO parts SELECT 1 + i % 2, i, $len, blob(i, $len) FROM generate_series(1, 40) i", 'DELETE FROM parts WHERE seed < 30', 'ANALYZE parts');
settle($node, $_, 'doc') foreach 'part1', 'part2';
my @each = map { estimate($_) } 'part1', 'part2';
my $sum = estimate('parts');
is_deeply($sum, { map { my $name = $_; $name => $each[0]->{$name} + $each[1]->{$name} } @names }, 'partitions are added up');

$node->backup('base');
my $standby = new_standby('shrink_standby', $node, 'base');
catch_up($node, $standby);
my ($here, $there) = map { my $e = $_; join ' ', map { $e->{$_} } qw(file live movable target rows) } estimate('back'), estimate('back', $standby);
is($there, $here, 'a standby says the same');
$standby->stop;

sql('CREATE ROLE other IN ROLE pg_monitor', 'CREATE ROLE mine', 'ALTER TABLE back OWNER TO mine', 'CREATE VIEW seen AS TABLE back', 'CREATE UNLOGGED TABLE unlogged (doc securefile)');
my $call = 'SELECT * FROM securefile_shrink_estimate(%s)';
fails_with($node, 'SET ROLE other; ' . sprintf($call, "'back', 'doc'"), '42501', 'must be owner', 'another role');
is($node->safe_psql('postgres', "SET ROLE mine; SELECT file_bytes FROM securefile_shrink_estimate('back', 'doc')"), estimate('back')->{file}, 'the owner');
fails_with($node, sprintf($call, "NULL, 'doc'"), '22004', 'must not be null', 'no table');
fails_with($node, sprintf($call, "'back', 'id'"), '42804', 'is not of type securefile', 'another type');
fails_with($node, sprintf($call, "'seen', 'doc'"), '42809', 'is not a table', 'a view');
fails_with($node, sprintf($call, "'unlogged', 'doc'"), '55000', 'has no segment', 'an unlogged table');

# a move makes the files about so short; it looks at rows, too
sql('SET client_min_messages = error', q{CALL securefile_shrink('parts', 'doc', 'move')});
cmp_ok(abs(estimate('parts')->{file} / $sum->{target} - 1), '<', 0.35, 'a move: ' . estimate('parts')->{file} . " bytes of $sum->{file}, $sum->{target} were said");

done_testing();
