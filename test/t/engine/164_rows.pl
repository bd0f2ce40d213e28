# The walk over rows (src/rows), called by a module of this test: which rows it visits, with and
# without a column, in ranges, and for a snapshot; those whose value has space from a sector on,
# and those of an object, against what the test itself reads in locators and in the space map;
# values of all forms, shared ones and versions of these; locators that are damaged.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileSpace;
use SecurefileTest;
use Test::More;

# flags of a locator
use constant { MAP_IN_PAGES => 0x01, IS_SHARED => 0x04 };

my $node = new_cluster('rows', conf => ['securefile.monitor = off']);
need_faults($node);
make_raw_type($node);
c_functions('rows', map { "$_ RETURNS text" }
	  'rows_all(regclass, attnum int, most int)', 'rows_from_sector(regclass, sector bigint)',
	'rows_of_object(regclass, object_id bigint)', 'rows_of_range(regclass, attnum int, block int, offset_ int, end_ int)');

# Places of rows as SQL has them, in the way the functions give them.
sub places
{
	my ($table, $where) = @_;
	return sql("SELECT coalesce(string_agg(ctid::text, ' ' ORDER BY ctid), '') FROM $table WHERE $where");
}

# Places of the rows for which a function of their locator is true; others have none.
sub chosen
{
	my ($rows, $is_wanted) = @_;
	return join(' ', map { $_->{place} } grep { $is_wanted->($_) } @$rows);
}

# The rows that have a locator with a flat map, in order: its place, bytes, object, and where the runs
# of sectors end.
sub flat_rows
{
	my ($table) = @_;
	my @rows;
	foreach my $line (split /\n/, sql("SELECT ctid, encode(doc::raw::bytea, 'hex') FROM $table, securefile_storage(doc) s WHERE s.form = 'stored' ORDER BY ctid"))
	{
		my ($place, $hex) = split /\|/, $line;
		my $bytes = pack('H*', $hex);
		my ($flags, $object, $nruns) = unpack('x2 v x12 Q< x20 v', $bytes);
		die "the map of $place is not flat" if $flags & MAP_IN_PAGES;
		my $runs = 48 + ($flags & IS_SHARED ? 16 : 0);
		my @ends = map { my ($start, $n) = unpack('Q< V', substr($bytes, $runs + 12 * $_, 12)); $start + $n } 0 .. $nruns - 1;
		push @rows, { place => $place, bytes => $bytes, object => $object, ends => \@ends };
	}
	return \@rows;
}

# One more than the highest sector that the space map has in use.
sub used_end
{
	my ($table) = @_;
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $all = slurp(segment_of($node, $table));
	my $end = 0;
	my $at = 0;
	foreach my $page (pages_of($all, PAGE_MAP))
	{
		my $bits = unpack('b*', substr($all, $page * PAGE + USED, 4096));
		$end = $at + rindex($bits, '1') + 1 if $bits =~ /1/;
		$at += 32768;
	}
	return $end;
}

# ---- which rows ----

make_table($node, 't', 'logging');
sql("INSERT INTO t SELECT i, i, i * 997 % 70000, CASE WHEN i % 7 > 0 THEN blob(i, i * 997 % 70000) END FROM generate_series(1, 400) i",
	'DELETE FROM t WHERE id % 10 = 3', 'UPDATE t SET doc = NULL WHERE id BETWEEN 40 AND 90', 'UPDATE t SET len = 5, doc = blob(seed, 5) WHERE id % 10 = 4');
is(sql("SELECT rows_all('t', 0, 1000)"), places('t', 'true'), 'all rows');
is(sql("SELECT rows_all('t', 4, 1000)"), places('t', 'doc IS NOT NULL'), 'those with a value');
is(sql("SELECT rows_all('t', 4, 3)"), join(' ', (split / /, places('t', 'doc IS NOT NULL'))[0 .. 2]), 'the first three');
is(sql("SELECT rows_all('t', 4, 0)"), '', 'none of them');
is( sql("BEGIN; DELETE FROM t WHERE id < 100; SELECT rows_all('t', 4, 1000) = (SELECT string_agg(ctid::text, ' ' ORDER BY ctid) FROM t WHERE doc IS NOT NULL); ROLLBACK"),
	't', 'those that the snapshot sees');

my $blocks = sql("SELECT pg_relation_size('t') / 8192");
cmp_ok($blocks, '>', 5, 'the table has some blocks');
foreach my $range ([ 0, 0, $blocks ], [ 0, 0, 1 ], [ 1, 0, 3 ], [ 2, 5, 4 ], [ $blocks - 1, 1, $blocks ], [ 0, 290, 2 ], [ $blocks, 0, $blocks + 9 ])
{
	my ($block, $offset, $end) = @$range;
	foreach my $attnum (0, 4)
	{
		is( sql("SELECT rows_of_range('t', $attnum, $block, $offset, $end)"),
			places('t', "ctid > '($block,$offset)' AND ctid < '($end,0)'" . ($attnum ? ' AND doc IS NOT NULL' : '')),
			"from block $block, row $offset, to block $end, column $attnum");
	}
}

# ---- from a sector on, of an object ----

# For the end of each run, and the sectors around it.
sub compare_sectors
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $rows = flat_rows($table);
	my %ends = map { $_ => 1 } 2, map { @{ $_->{ends} } } @$rows;
	my @sectors = sort { $a <=> $b } keys %ends;
	my @wrong;
	@sectors = @sectors[ map { int($_ * $#sectors / 30) } 0 .. 30 ] if @sectors > 30;
	@sectors = map { ($_ - 1, $_, $_ + 1) } @sectors;
	my @got = split /\n/, sql("SELECT s || ': ' || rows_from_sector('$table', s) FROM unnest(ARRAY[" . join(',', @sectors) . ']) s'), -1;
	foreach my $sector (@sectors)
	{
		my $expected = "$sector: " . chosen($rows, sub { grep { $_ > $sector } @{ $_[0]{ends} } });
		my $is = shift @got;
		push @wrong, "got $is, not $expected" if $is ne $expected;
	}
	is(join("\n", @wrong), '', "$name: rows from " . @sectors . ' sectors on');
	is(sql("SELECT rows_from_sector('$table', " . (used_end($table) - 1) . ") <> '', rows_from_sector('$table', " . used_end($table) . ')'), 't|', "$name: the last one in use");
	return;
}

sub compare_objects
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $rows = flat_rows($table);
	my %ids = map { $_->{object} => 1 } @$rows;
	my @ids = sort { $a <=> $b } keys %ids;
	is( sql("SELECT i || ': ' || rows_of_object('$table', i) FROM unnest(ARRAY[" . join(',', @ids, 4_000_000_000) . '::bigint]) i'),
		join("\n", (map { my $id = $_; "$id: " . chosen($rows, sub { $_[0]{object} == $id }) } @ids), '4000000000: '),
		"$name: the rows of " . @ids . ' objects');
	return scalar @ids;
}

sql("VACUUM t; SELECT securefile_maintain('t', 'doc')");
compare_sectors('t', 'all forms');
cmp_ok(compare_objects('t', 'all forms'), '>', 100, 'there are some');

make_table($node, 'coded', 'compress_high');
sql("INSERT INTO coded SELECT i, i, i * 5003, blob(i, i * 5003) FROM generate_series(1, 60) i",
	"INSERT INTO coded SELECT i, i, 0, convert_to(repeat('some text ' || i, 60000), 'UTF8')::securefile FROM generate_series(61, 80) i",
	"SELECT securefile_maintain('coded', 'doc')");
compare_sectors('coded', 'compressed');
compare_objects('coded', 'compressed');

# rows that share objects, and one that has changed what it shared
make_table($node, 'shared', 'deduplicate');
sql("INSERT INTO shared SELECT i, i % 5, 200000, blob(i % 5, 200000) FROM generate_series(1, 20) i",
	"UPDATE shared SET doc = overlay(doc PLACING 'changed'::bytea FROM 150000) WHERE id IN (3, 9)", "SELECT securefile_maintain('shared', 'doc')");
compare_sectors('shared', 'shared');
cmp_ok(compare_objects('shared', 'shared'), '<', 10, 'there are fewer than rows');

# a map that is a tree of pages
make_table($node, 'large', 'logging');
sql("INSERT INTO large SELECT i, i, 20000000, blob(i, 20000000) FROM generate_series(1, 2) i", "SELECT securefile_maintain('large', 'doc')");
my $end = used_end('large');
is(sql("SELECT rows_from_sector('large', 1)"), places('large', 'true'), 'maps in pages: all rows');
is(sql("SELECT rows_from_sector('large', $end - 1) IN ('(0,1)', '(0,2)'), rows_from_sector('large', $end)"), 't|', 'maps in pages: the last sector is of one of them');
is(sql("SELECT rows_of_object('large', 1)"), '(0,1)', 'maps in pages: an object');

# a TRUNCATE makes other storage, whose objects have the same numbers
sql('TRUNCATE large', 'INSERT INTO large SELECT i, i, 20000, blob(i, 20000) FROM generate_series(1, 3) i');
compare_objects('large', 'new storage');

# ---- damaged locators ----

my ($damaged, $sound) = @{ flat_rows('t') }[ 1, 2 ];
my $file = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('t')");
$node->stop;
my $at = index(slurp($file), $damaged->{bytes});
cmp_ok($at, '>', 0, 'the row is found');
patch($file, $at + 40, "\xff");
$node->start;
is(sql("SELECT rows_of_object('t', $sound->{object})"), $sound->{place}, 'an object besides a damaged locator');
is(sql("SELECT rows_of_object('t', $damaged->{object})"), '', 'its own object has no row');
fails_with($node, "SELECT rows_from_sector('t', 1)", 'XX001', 'locator', 'its space is not known');

$node->stop;
done_testing();
