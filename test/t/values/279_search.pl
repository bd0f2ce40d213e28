# Searches and comparisons of values of all forms against a model in Perl, with and without AVX2, and by the algorithm for
# hostile texts from the start: texts of few letters, that repeat themselves, of small parts, with gaps; patterns that lie on the
# borders of units, parts and gaps.  What is read of a value, what damage behind a match does, and that a search can be cancelled.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use Digest::MD5 qw(md5 md5_hex);
use SecurefileTest;
use Test::More;

my $seed = $ENV{SECUREFILE_SEED} || time;
my $rounds = $ENV{SECUREFILE_SEARCH_ROUNDS} || 5;
srand($seed);
note("seed $seed");

my $node = new_cluster('search', conf => [ master_key(), 'securefile.monitor = off', 'max_parallel_workers_per_gather = 0' ]);
need_faults($node);
sql(q{CREATE TABLE v (id int, plain bytea, direct securefile(nocache), packed securefile(compress_low, encrypt), cached securefile(cache, filesystem_like_logging))},
	q{ALTER TABLE v ALTER plain SET STORAGE EXTERNAL},
	# all places, in both directions; a long list by its digest
	q{CREATE FUNCTION found(d securefile, p bytea) RETURNS text LANGUAGE sql AS $$
		SELECT md5(coalesce((SELECT string_agg(f::text, ',') FROM securefile_positions(d, p) f), ''))
			|| ' ' || md5(coalesce((SELECT string_agg(b::text, ',') FROM securefile_positions(d, p, -1) b), ''))
			|| ' ' || position(p IN d) $$});

# ---- the model ----

# patterns with more places than that are left out
my $most = 30_000;

sub places
{
	my ($text, $pattern) = @_;
	my ($at, @places) = (-1);
	push @places, $at + 1 while @places <= $most && ($at = index($text, $pattern, $at + 1)) >= 0;
	return @places;
}

sub nth_place
{
	my ($places, $length, $start, $nth) = @_;
	my @left = $start > 0 ? grep { $_ >= $start } @$places : reverse grep { $_ <= $length + $start + 1 } @$places;
	return $left[ $nth - 1 ] // 0;
}

# ---- texts ----

sub one_of { return $_[ int(rand(@_)) ]; }
sub hex_of { return "decode('" . unpack('H*', $_[0]) . "', 'hex')"; }

my @lengths = (1, 2, 10, 1000, 70_000, 131_071, 131_072, 262_144, 262_145, 300_000);
my %pieces = (
	random => sub { my ($len) = @_; return substr(join('', map { md5("$seed $_ " . rand) } 0 .. $len / 16), 0, $len); },
	letters => sub { my ($len) = @_; my $block = join '', map { one_of('a', 'b') } 1 .. 1 + rand(5000); return substr($block x (1 + $len / length $block), 0, $len); },
	period => sub {
		my ($len) = @_;
		my $word = one_of('a', 'ab', 'aab', "a\0", 'abaab' . 'b' x rand(300));
		my $text = substr($word x (1 + $len / length $word), 0, $len);
		substr($text, rand $len, 1) = one_of('a', 'c', "\0") foreach 1 .. rand(4);
		return $text;
	},
	runs => sub { my ($len) = @_; my $text = ''; $text .= 'aab' x rand(100) . one_of('a', 'b', 'ab', 'aa') while length $text < $len; return substr($text, 0, $len); },
	zeros => sub { return "\0" x $_[0]; });

# Pieces, as [kind, bytes]; many short ones, or a few that may be long.
sub new_pieces
{
	return [ 'runs', $pieces{runs}->(50_000) ] if $_[0] == 1;
	my $few = rand() < 0.6;
	my @kinds = rand() < 0.5 ? ('period', 'zeros') : sort keys %pieces;
	return map { my $kind = one_of(@kinds); [ $kind, $pieces{$kind}->($few ? one_of(@lengths) : 1 + int(rand(300))) ] } 1 .. ($few ? 1 + rand(4) : 100);
}

# The same bytes, as an expression that reads none of them: the first piece is a range of the row's value, zeros are gaps, all else is
# in memory.
sub edited
{
	my (@pieces) = @_;
	my $first = shift @pieces;
	my $at = length $first->[1];
	my $result = "securefile_truncate(direct, $at)";
	foreach my $piece (@pieces)
	{
		my ($kind, $bytes) = @$piece;
		$at += length $bytes;
		$result = $kind eq 'zeros' ? "securefile_truncate($result, $at)" : "$result || " . hex_of($bytes);
	}
	return $result;
}

# A pattern: bytes of the text around a border, or anywhere, perhaps with a byte that is wrong; or letters.
sub new_pattern
{
	return 'aab' x one_of(7, 20, 60) if $_[0] =~ /(?:aab){20}/ && rand() < 0.7;
	my ($text, @borders) = @_;
	return one_of('a' x one_of(1, 3, 300), 'ab' x 40 . 'aa', "\0" x one_of(1, 2, 5000), 'a' x 500 . 'b', 'b' . 'a' x 500, 'ab' x 3000 . 'c') if rand() < 0.3;
	my $len = one_of(1, 2, 5, 16, 256, 3000, 100_000, 270_000);
	my $from = (rand() < 0.7 ? one_of(@borders) : int(rand(length $text))) - int(rand($len + 1));
	my $pattern = substr($text, $from < 0 ? 0 : $from, $len);
	substr($pattern, one_of(0, length($pattern) - 1, rand length $pattern), 1) = one_of('a', 'x', "\0") if rand() < 0.4;
	return $pattern;
}

# ---- against the model ----

my @forms = qw(plain direct packed cached);
my @modes = ('', 'search_avx2', 'search_sifted');
my ($wrong, $compared, $matches) = ('', 0, 0);

sub disagree
{
	my ($id, $what, $got, $expected) = @_;
	$wrong .= "text $id, $what: $got, not $expected; ";
	return;
}

sub in_all_modes
{
	my ($id, $what, $query, $expected) = @_;
	foreach my $mode (@modes)
	{
		my $armed = $mode ? "SELECT FROM securefile_fault('$mode', 'skip', times => -1);" : '';
		my $got = sql("SELECT FROM securefile_fault_reset(); $armed $query") =~ s/^\s+//r;
		disagree($id, "$what, $mode", $got, $expected) if $got ne $expected;
		$compared++;
	}
	return;
}

foreach my $id (1 .. $rounds)
{
	my @pieces = new_pieces($id);
	my $text = join '', map { $_->[1] } @pieces;
	my ($end, @borders) = (0, 131_072, 262_144);
	push @borders, $end += length $_->[1] foreach @pieces;
	@borders = grep { $_ <= length $text } @borders;
	my $edited = edited(@pieces);
	sql("INSERT INTO v SELECT $id, t, t, t, t FROM (SELECT " . hex_of($text) . ' AS t) t');
	foreach (1 .. 4)
	{
		my $pattern = new_pattern($text, @borders);
		my @places = places($text, $pattern);
		next if @places > $most;
		$matches += @places;
		my $all = md5_hex(join ',', @places) . ' ' . md5_hex(join ',', reverse @places) . ' ' . ($places[0] // 0);
		my ($start, $nth) = (one_of(-1, 1) * (1 + int(rand(length $text))), 1 + int(rand(3)));
		my $place = nth_place(\@places, length $text, $start, $nth);
		my @asked = map { ("found($_, p)", "securefile_position($_, p, $start, $nth)") } (map { "$_\::securefile" } @forms), 'edited';
		in_all_modes($id, 'pattern ' . substr(unpack('H*', $pattern), 0, 40) . '.. of ' . length($pattern) . " bytes, start $start, nth $nth",
			'SELECT ' . join(', ', @asked) . " FROM (SELECT *, $edited AS edited, " . hex_of($pattern) . " AS p FROM v WHERE id = $id) v",
			join '|', ($all, $place) x (@forms + 1));
	}
	# a byte that differs, or the end of one of them
	my $other = $text;
	my $at = int(rand(length $text));
	substr($other, $at, 1) = one_of('a', "\0", 'z');
	$other = substr($other, 0, one_of(length $text, $at + 1));
	my ($count, $a, $b) = (1 + int(rand(length $text)), 1 + int(rand(50)), 1 + int(rand(50)));
	my ($part_a, $part_b) = map { $_ > length $text ? '' : substr($text, $_ - 1, $count) } $a, $b;
	my ($of_all, $of_part) = ($text cmp $other, $part_a cmp $part_b);
	my $query = 'SELECT ' . join(', ', map { ("securefile_compare($_\::securefile, o)", "securefile_compare(o, $_\::securefile)", "securefile_compare($_\::securefile, edited)",
			"securefile_compare($_\::securefile, edited, $count, $a, $b)") } @forms)
	  . " FROM (SELECT *, $edited AS edited, " . hex_of($other) . "::securefile AS o FROM v WHERE id = $id) v";
	my $got = sql("SELECT FROM securefile_fault_reset(); $query") =~ s/^\s+//r;
	my $expected = join '|', ($of_all, -$of_all, 0, $of_part) x @forms;
	disagree($id, "compared with $at changed, $count bytes from $a and $b", $got, $expected) if $got ne $expected;
}
is($wrong, '', "seed $seed: all searches and comparisons are right");
note("figures: $rounds texts, $compared searches, $matches matches");
sql('SELECT securefile_fault_reset()', 'DROP TABLE v');

# ---- what is read, and what damage does ----

# blob() has its blocks of 4 KB in order: the bytes of block n are nowhere else
my $len = mb(24);
make_table($node, 't', 'nocache');
sql("INSERT INTO t SELECT i, s, $len, blob(s, $len) FROM unnest(ARRAY[1, 1, 3]) WITH ORDINALITY u (s, i)");
sub block { return "convert_to(md5('1:$_[0]'), 'SQL_ASCII')"; }

sub bytes_read
{
	my ($query, $result, $name) = @_;
	sql('SELECT securefile_stat_reset()');
	is(sql($query), $result, $name);
	return sql(q{SELECT sum(direct_read_bytes) FROM securefile_stat WHERE relname = 't'});
}

my $block_at = 300 * 4096 + 1;
cmp_ok(bytes_read('SELECT position(' . block(301) . ' IN doc) FROM t WHERE id = 1', $block_at, 'a block is found'), '<=', mb(6), 'nothing far behind it is read');
cmp_ok(bytes_read('SELECT securefile_positions(doc, ' . block(301) . ') FROM t WHERE id = 1 LIMIT 1', $block_at, 'the first row'), '<=', mb(6), 'nor for rows that are not fetched');
is(bytes_read("SELECT position('\\xffff' IN doc) FROM t WHERE id = 1", 0, 'nothing is found'), $len, 'in all bytes, each read once');
# in its block the pattern is 128 times
my $back = $len - 4096 * 99 - 31;
is(bytes_read('SELECT securefile_position(doc, ' . block($len / 4096 - 99) . ', -1) FROM t WHERE id = 1', $back, 'backwards'), mb(0.5), 'the end is read, each unit once');
is(bytes_read("SELECT securefile_position(doc, '\\xffff', -1) FROM t WHERE id = 1", 0, 'nothing backwards'), $len, 'each unit once');
is(bytes_read('SELECT securefile_compare(doc, doc), securefile_compare(doc, doc, 5000, 10000, 10000) FROM t WHERE id = 1', '0|0', 'the same object'), 0, 'nothing is read');
is(bytes_read('SELECT securefile_compare(a.doc, b.doc) FROM t a, t b WHERE a.id = 1 AND b.id = 2', 0, 'the same bytes'), 2 * $len, 'each is read once');
cmp_ok(bytes_read("SELECT securefile_compare(a.doc, overlay(b.doc PLACING '\\x00' FROM $block_at)) FROM t a, t b WHERE a.id = 1 AND b.id = 2", 1, 'a byte differs'),
	'<=', 2 * mb(6), 'nothing far behind it is read');
is(bytes_read("SELECT securefile_compare(doc, doc, 10, 1, $len + 1) FROM t WHERE id = 1", 1, 'with nothing behind the end'), 0, 'nothing is read for that');

$node->stop;
my ($file) = grep { block_at($_, 3, 4001) >= 0 } data_files($node);
corrupt($file, block_at($file, 3, 4001), 'x' x 32);
$node->start;
my $third = "convert_to(md5('3:301'), 'SQL_ASCII')";
is(sql("SELECT position($third IN doc), (SELECT securefile_positions(doc, $third) LIMIT 1) FROM t WHERE id = 3"), "$block_at|$block_at", 'damage behind a match is no error');
is(sql('SELECT securefile_compare(a.doc, b.doc) FROM t a, t b WHERE a.id = 1 AND b.id = 3') ** 2, 1, 'nor behind a byte that differs');
fails_with($node, $_, 'XX001', '')
  foreach ("SELECT position('\\xffff' IN doc) FROM t WHERE id = 3", "SELECT securefile_position(doc, $third, -1) FROM t WHERE id = 3",
	"SELECT securefile_compare(doc, doc || '\\x00') FROM t WHERE id = 3");

# ---- a value so long that its search takes hours ----

sql(q{CREATE FUNCTION huge() RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		d securefile := (SELECT doc FROM t WHERE id = 2);
	BEGIN
		FOR i IN 1 .. 18 LOOP
			d := d || d;
		END LOOP;
		RETURN d;
	END $$});
fails_with($node, "SET statement_timeout = 300; SELECT $_ FROM huge() d", '57014', 'statement timeout', "cancelled: $_")
  foreach ("position('\\xffff' IN d)", "securefile_position(d, '\\xffff', -1)", "securefile_compare(d, d || '\\x00')");

$node->stop;
done_testing();
