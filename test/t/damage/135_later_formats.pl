# Locators made by the test, of forms that the column has not asked for: how units are stored,
# shared ones without a share record, encrypted ones without a key; and pages that a damaged
# header page names.  What can be read is read, the rest is refused with an error that says so;
# nothing is read as other data, and no space is given back.  Then the same of what a later
# version of the library has written: locators, pages, WAL.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages;
use SecurefileTest;
use Test::More;

use constant {
	UNIT => 131072,
	SECRET => CONTENT + 80,
	MORE => CONTENT + 96,
	LOC_UNITS => 2,
	LOC_SHARED => 4,
	LOC_KEYED => 8,
	PAGE_VERSION => 8182
};

my $node = new_cluster('later', conf => ['securefile.monitor = off']);

# the bytes of a locator can be seen as those of another type
make_raw_type($node);

# ---- locators ----

# SipHash-2-4 of a string, as locators have it at their end.
sub siphash
{
	my ($key, $data) = @_;
	use integer;
	my ($k0, $k1) = unpack('q<2', $key);
	my @v = unpack('q>4', 'somepseudorandomlygeneratedbytes');
	@v = ($v[0] ^ $k0, $v[1] ^ $k1, $v[2] ^ $k0, $v[3] ^ $k1);
	my $left = sub {
		my ($x, $n) = @_;
		return $x << $n | (($x >> (64 - $n)) & ((1 << $n) - 1));
	};
	my $round = sub {
		$v[0] += $v[1];
		$v[1] = $left->($v[1], 13) ^ $v[0];
		$v[0] = $left->($v[0], 32);
		$v[2] += $v[3];
		$v[3] = $left->($v[3], 16) ^ $v[2];
		$v[0] += $v[3];
		$v[3] = $left->($v[3], 21) ^ $v[0];
		$v[2] += $v[1];
		$v[1] = $left->($v[1], 17) ^ $v[2];
		$v[2] = $left->($v[2], 32);
	};
	my $padded = $data . "\0" x (7 - length($data) % 8) . chr(length($data) & 255);
	foreach my $word (unpack('q<*', $padded))
	{
		$v[3] ^= $word;
		$round->() foreach 1 .. 2;
		$v[0] ^= $word;
	}
	$v[2] ^= 0xff;
	$round->() foreach 1 .. 4;
	return pack('q<', $v[0] ^ $v[1] ^ $v[2] ^ $v[3]);
}

# A locator of two units made of one with more units and the same size: it begins
# where that one does, and is what its segment would make.
sub later_locator
{
	my ($locator, $flags, $secret) = @_;
	my $around = $flags & LOC_KEYED ? 48 : 0;
	my $stored = UNIT + $around;
	my $sectors = 2 * int(($stored + 511) / 512);
	my $start = substr($locator, 48, 8);
	my $checksums = substr($locator, 60, 16);

	my $bytes = substr($locator, 0, 48);
	substr($bytes, 1, 3) = pack('Cv', 1, $flags);
	substr($bytes, 10, 2) = pack('v', $flags & LOC_KEYED ? 1 : 0);
	substr($bytes, 24, 8) = pack('Q<', 2 * UNIT);
	substr($bytes, 40, 6) = pack('Vv', 2, 1);
	$bytes .= pack('V v v Q<', 2, 5, 0, 77) if $flags & LOC_SHARED;
	$bytes .= $start . pack('V', $sectors) . $checksums;
	$bytes .= pack('V2', $stored, $stored) if $flags & LOC_UNITS;
	$bytes .= 't' x 16 if $flags & LOC_KEYED;
	$bytes .= siphash($secret, $bytes);
	die 'another size' if length($bytes) != length($locator);
	return $bytes;
}

# id => flags, and the number of units that make a locator of the same size
my %later = (
	1 => [ LOC_UNITS, 3 ],
	2 => [ LOC_SHARED, 4 ],
	3 => [ LOC_KEYED | LOC_UNITS, 5 ],
	4 => [ LOC_SHARED | LOC_UNITS, 5 ],
	5 => [ LOC_SHARED | LOC_KEYED | LOC_UNITS, 7 ]);

make_table($node, 't');
make_table($node, 'other');
fill($node, 't', 10, 10, mb(8));
foreach my $id (sort keys %later)
{
	my $units = $later{$id}[1];
	# one run, so that the size is known: a value may begin in the rest of a region
	foreach (1 .. 20)
	{
		fill($node, 't', $id, $id, $units * UNIT - 100);
		last if sql("SELECT octet_length((doc::raw)::bytea) FROM t WHERE id = $id") == 68 + 8 * $units;
		sql("DELETE FROM t WHERE id = $id");
	}
}
fill($node, 't', 11, 13, 50_000);
my $live = settle($node, 't', 'doc')->{live_bytes};
my $segment = segment_of($node, 't');
my $heap = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath('t')});
my %locator = map { $_ => pack('H*', sql("SELECT encode((doc::raw)::bytea, 'hex') FROM t WHERE id = $_")) } keys %later;

# Put bytes in the place of others, of the same length, in the table's file.
sub exchange
{
	my (%bytes) = @_;
	$node->stop;
	foreach my $old (keys %bytes)
	{
		my $all = slurp($heap);
		my $at = index($all, $old);
		die 'not there' if $at < 0;
		for (; $at >= 0; $at = index($all, $old, $at + 1)) { patch($heap, $at, $bytes{$old}); }
	}
	$node->start;
	return;
}

sql('CHECKPOINT');
my $secret = substr(slurp($segment), SECRET, 16);
my %planted = map { $_ => later_locator($locator{$_}, $later{$_}[0], $secret) } keys %later;
is(unpack('H*', siphash($secret, substr($locator{1}, 0, -8))), unpack('H*', substr($locator{1}, -8)), 'tags are computed as the extension does');
exchange(map { $locator{$_} => $planted{$_} } keys %later);

my @shared = (2, 4);
my %read = (1 => 'that says how units are stored', 2 => 'of a shared value', 4 => 'of a shared value, that says how units are stored');
is(sql("SELECT doc::bytea = substring(blob(seed, len) FOR 262144) AND length(doc) = 262144 AND substring(doc FROM 200001) = substring(blob(seed, len) FROM 200001 FOR 62144) FROM t WHERE id = $_"),
	't', "a locator $read{$_} is read")
  foreach sort keys %read;
foreach my $id (@shared)
{
	is(sql("SELECT finding, detail ~ 'cell 5 of page 2 has no share record of object' FROM securefile_check('t', 'doc') c JOIN t ON t.ctid = c.ctid WHERE id = $id"),
		'reference to nothing|t', "flags $later{$id}[0]: check misses its share record");
	is(sql('BEGIN', "UPDATE t SET doc = doc || 'x' WHERE id = $id RETURNING length(doc)", 'ROLLBACK'), '262145', "flags $later{$id}[0]: an edit");
}
fails_with($node, $_, 'XX001', 'has no data key 1', "encrypted, without a key: $_")
  foreach ('SELECT doc::bytea FROM t WHERE id = 3', 'COPY (SELECT doc FROM t WHERE id = 3) TO STDOUT',
	'INSERT INTO other SELECT id, seed, len, doc FROM t WHERE id = 3', "UPDATE t SET doc = doc || 'x' WHERE id = 3", 'SELECT doc::bytea FROM t WHERE id = 5');
is(sql(q{SELECT finding, string_agg(id::text, ' ' ORDER BY id) FROM securefile_check('t', 'doc') c JOIN t ON t.ctid = c.ctid WHERE detail LIKE '%has no data key%' GROUP BY 1}),
	'unreadable|3 5', 'check finds those without their key');
# a repair would make records for them
exchange(map { $planted{$_} => $locator{$_} } @shared, 5);
sql(q{SELECT securefile_repair('t', 'doc', false)});
is(settle($node, 't', 'doc')->{live_bytes}, $live, 'repair takes no space of theirs');
is(sql('SELECT count(*) FROM t WHERE id >= 10 AND doc::bytea = blob(seed, len)'), 4, 'the other rows are right');
fill($node, 't', 14, 16, 300_000);
exchange(map { $planted{$_} => $locator{$_} } 1, 3);
rows_right($node, 't', 12, 'locators as they were');
sound($node, 't', 'locators as they were');

$live = settle($node, 't', 'doc')->{live_bytes};
exchange($locator{2} => $planted{2});
sql('DELETE FROM t WHERE id = 2');
is(settle($node, 't', 'doc')->{live_bytes}, $live, 'deleted, with a share record that is not there: its space stays');
rows_right($node, 't', 11, 'after the deletion');

# ---- the pages that the header page names ----

my $header = substr(slurp($segment), 0, PAGE);

# These bytes are what the header page says from its key page on.
sub with_pages
{
	my ($pages) = @_;
	$node->stop;
	patch($segment, 0, $header);
	change($segment, 0, MORE, $pages);
	$node->start;
	return;
}

with_pages(pack('V6', 2, 3, 4, 6, 0, 0));
rows_right($node, 't', 11, 'pages that are possible');
foreach my $case (
	[ 'half a pair', pack('V6', 2, 0, 0, 0, 0, 0), qr/half a pair of key pages/ ],
	[ 'one page twice', pack('V6', 2, 2, 0, 0, 0, 0), qr/half a pair of key pages/ ],
	[ 'a page of the space map', pack('V6', 0, 0, 9, 0, 0, 0), qr/names an impossible page/ ],
	[ 'no page', pack('V6', 0, 0, 0, NONE, 0, 0), qr/names an impossible page/ ],
	[ 'a dictionary without a number', pack('V6', 0, 0, 0, 0, 5, 0), qr/impossible number of dictionaries/ ])
{
	my ($name, $pages, $detail) = @$case;
	with_pages($pages);
	fails_with($node, $_, 'XX001', qr/page 0 of segment relation .* is damaged.*$detail/s, "$name: $_")
	  foreach ('SELECT count(doc::bytea) FROM t', 'INSERT INTO t SELECT 20, 20, 5000, blob(20, 5000)', 'DELETE FROM t WHERE id = 1');
	like(sql(q{SELECT finding || ': ' || detail FROM securefile_check('t', 'doc')}), $detail, "$name: check");
}
$node->stop;
patch($segment, 0, $header);
$node->start;
rows_right($node, 't', 11, 'the header as it was');
sql('INSERT INTO t SELECT 20, 20, 5000, blob(20, 5000)');
rows_right($node, 't', 12, 'and rows are added');

# Bytes that are possible, and are not those that the page was written with.
$node->stop;
change($segment, 0, MORE, pack('V6', 2, 3, 4, 6, 0, 0));
$node->start;
sql('INSERT INTO t SELECT 21, 21, 5000, blob(21, 5000)');
$node->stop;
isnt(substr(slurp($segment), 8184, 8), "\0" x 8, 'a change of the header page gives it a checksum');
patch($segment, MORE + 8, pack('V', 12));
$node->start;
fails_with($node, 'SELECT count(doc::bytea) FROM t', 'XX001', qr/page 0 of segment relation .* is damaged.*Expected checksum/s,
	'a wrong page in the header');
$node->stop;
patch($segment, MORE + 8, pack('V', 4));
$node->start;
rows_right($node, 't', 13, 'the header as it was');

# ---- what a later version of the library has written ----

make_table($node, 'later');
fill($node, 'later', 1, 10, '300000 + i');
sql(q{INSERT INTO later SELECT 11, 11, 15000000, blob(11, 15000000)});
sql('CHECKPOINT');
my $later_live = settle($node, 'later', 'doc')->{live_bytes};
$segment = segment_of($node, 'later');
$heap = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath('later')});
$secret = substr(slurp($segment), SECRET, 16);

# One test: an error that says whose version it is, and what to do.
sub too_late
{
	my ($what, $statement, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return fails_with($node, $statement, '0A000', qr/$what has format version 2, which this library does not know.*Library \S+ knows versions up to 1\..*Install the later version/s, "$name: $statement");
}

# Everything that reads or frees, then a repair.
sub all_too_late
{
	my ($what, $name, @statements) = @_;
	too_late($what, $_, $name) foreach @statements;
	like(sql(q{SELECT string_agg(finding || ': ' || detail, ' ') FROM securefile_check('later', 'doc')}), qr/unreadable: .*has format version 2/, "$name: check");
	# without the header page there is no segment to repair
	return like(sql(q{SELECT string_agg(action, ' ') FROM securefile_repair('later', 'doc', false)}), qr/^none( none)*$/, "$name: a repair does nothing") if $name eq 'the header page';
	fails_with($node, q{SELECT securefile_repair('later', 'doc', false)}, '0A000', 'later version of securefile', "$name: a repair would destroy it");
	return;
}

my $locator = pack('H*', sql('SELECT encode((doc::raw)::bytea, \'hex\') FROM later WHERE id = 5'));
my $tail = substr($locator, 0, 1) . chr(2) . substr($locator, 2, length($locator) - 10);
my $from_later = $tail . siphash($secret, $tail);
exchange($locator => $from_later);
all_too_late('securefile locator', 'a locator', map { "$_ WHERE id = 5" } 'SELECT doc::bytea FROM later', 'SELECT length(doc) FROM later', 'SELECT substring(doc FROM 1 FOR 10) FROM later',
	'SELECT count(c) FROM later, securefile_chunks(doc) c', 'INSERT INTO other SELECT id + 100, seed, len, doc FROM later',
	q{UPDATE later SET doc = doc || 'x'}, q{UPDATE later SET doc = 'x'}, 'DELETE FROM later');
rows_right($node, '(SELECT * FROM later WHERE id <> 5) l', 10, 'beside the locator');
sql('VACUUM ANALYZE later');
exchange($from_later => $locator);
rows_right($node, 'later', 11, 'the locator as it was');
is(settle($node, 'later', 'doc')->{live_bytes}, $later_live, 'no space of it was given back');
sound($node, 'later', 'the locator as it was');

my @inodes = pages_of(slurp($segment), 4);
cmp_ok(scalar(@inodes), '>', 0, 'pages of a map');
foreach my $case ([ 'the header page', 0, 'SELECT count(doc::bytea) FROM later', 'INSERT INTO later SELECT 12, 12, 500000, blob(12, 500000)', 'DELETE FROM later WHERE id = 1' ],
	[ 'the space map', 1 ],
	[ 'a page of a map', $inodes[0], 'SELECT doc::bytea FROM later WHERE id = 11' ])
{
	my ($name, $page, @statements) = @$case;
	$node->stop;
	my $before = substr(slurp($segment), $page * PAGE, PAGE);
	change($segment, $page, PAGE_VERSION, pack('v', 2));
	$node->start;
	all_too_late(qr/page $page of segment relation "pg_securefile_\d+_4"/, $name, @statements);
	$node->stop;
	patch($segment, $page * PAGE, $before);
	$node->start;
	rows_right($node, 'later', 11, "$name as it was");
	is(settle($node, 'later', 'doc')->{live_bytes}, $later_live, "$name: no space was given back");
	sound($node, 'later', "$name as it was");
}

$node->stop;
done_testing();
