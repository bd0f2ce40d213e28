# securefile_salvage(): it returns every sound part of a damaged value, byte for byte, and
# the reason for each part that it cannot return; a row can be mended with the result.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('salvage', conf => [ 'securefile.monitor = off', 'full_page_writes = off' ]);
my $unit = 128 * 1024;
my $len = 20 * $unit + 777;

# Of a row: each unit's place and length, "sound" when its bytes are right, else the problem.
sub salvaged
{
	my ($t, $id) = @_;
	return $node->safe_psql('postgres', qq{
		WITH expected AS MATERIALIZED (SELECT blob(seed, len) AS bytes FROM $t WHERE id = $id)
		SELECT start, s.length, CASE WHEN data IS NULL THEN problem
			WHEN problem IS NULL AND data = substring(bytes, start::int, s.length::int) THEN 'sound' ELSE 'WRONG' END
		FROM $t, securefile_salvage(doc) s, expected WHERE id = $id ORDER BY start});
}

# What that must be: the units of a hash are damaged, which matches a pattern.
sub salvages
{
	my ($t, $id, $value_len, $damage, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @rows = split /\n/, salvaged($t, $id);
	my $units = int(($value_len + $unit - 1) / $unit);
	my @wrong;

	for my $n (0 .. $units - 1)
	{
		my ($start, $unit_len) = (1 + $n * $unit, $n < $units - 1 ? $unit : $value_len - $n * $unit);
		my $what = defined $damage->{$n} ? $damage->{$n} : qr/^sound$/;
		my ($got_start, $got_len, $got) = split /\|/, defined $rows[$n] ? $rows[$n] : '||', 3;
		push @wrong, "unit $n: $rows[$n]" unless $got_start eq $start && $got_len eq $unit_len && $got =~ $what;
	}
	return ok(@rows == $units && !@wrong, $name) || diag(scalar(@rows) . ' rows, ' . join("\n", @wrong));
}

# Where a byte of a row's value lies in a data file.
sub place_of
{
	my ($file, $seed, $offset) = @_;
	return block_at($file, $seed, int($offset / 4096) + 1) + $offset % 4096;
}

my $mismatch = qr/^securefile value is damaged: Unit \d+ at segment offset \d+: expected checksum \w+, found \w+\.$/;

foreach my $options ('nocache', 'cache', 'filesystem_like_logging')
{
	(my $t = "t_$options") =~ s/_like_logging//;
	my @before = data_files($node);
	make_table($node, $t, $options);
	fill($node, $t, 1, 2, $len);
	fill($node, $t, 3, 3, 15_000_000);
	my ($file) = grep { my $f = $_; !grep { $_ eq $f } @before } data_files($node);

	salvages($t, 1, $len, {}, "$options: a sound value");
	salvages($t, 3, 15_000_000, {}, "$options: a sound large one");
	my $all = slurp($file);
	patch($file, place_of($file, 1, 3 * $unit + 70_000), "\1");
	patch($file, place_of($file, 1, 20 * $unit + 8), "\1");
	patch($file, place_of($file, 3, 50 * $unit), "\0" x 4096);
	salvages($t, 1, $len, { 3 => $mismatch, 20 => $mismatch }, "$options: two units of it damaged");
	salvages($t, 2, $len, {}, "$options: its neighbour");
	salvages($t, 3, 15_000_000, { 50 => $mismatch }, "$options: a block of zeros");

	# the way to mend a row
	$node->safe_psql('postgres', qq{
		UPDATE $t SET doc = (SELECT string_agg(coalesce(data, decode(repeat('00', s.length::int), 'hex')), '' ORDER BY start)
			FROM securefile_salvage(doc) s)::securefile WHERE id IN (1, 3)});
	is($node->safe_psql('postgres', qq{
		SELECT count(*), bool_and(length(doc) = len), count(*) FILTER (WHERE problem IS NOT NULL) FROM $t, securefile_salvage(doc)
		WHERE id IN (1, 3)}), '136|t|0', "$options: mended, with zeros where nothing was left");
	is($node->safe_psql('postgres', "SELECT substring(doc, 1, 3 * $unit) = substring(blob(1, $len), 1, 3 * $unit)"
				. " AND substring(doc, 3 * $unit + 1, $unit) = decode(repeat('00', $unit), 'hex') FROM $t WHERE id = 1"),
		't', "$options: its bytes");
	sound($node, $t, "$options: mended");
	$node->stop;

	# a file that ends too early, one that is gone
	my $was = slurp($file);
	my $end = place_of($file, 2, 10 * $unit);
	truncate($file, $end);
	$node->start;
	my @rows = split /\n/, salvaged($t, 2);
	is(scalar(@rows), 21, "$options: a short file: every unit has a row");
	is(scalar(grep { /sound$/ } @rows[ 0 .. 9 ]), 10, "$options: what is before its end is sound");
	is(scalar(grep { /could not read|no longer exists|beyond/ } @rows[ 10 .. 20 ]), 11, "$options: what is behind says why it is not");
	$node->stop;
	unlink $file;
	$node->start;
	@rows = split /\n/, salvaged($t, 2);
	is(scalar(grep { /seg-\d+\.sf|no longer exists/ } @rows), 21, "$options: without the file all units are missing") or diag("@rows");
	$node->stop;
	write_file($file, $was);
	$node->start;
	salvages($t, 2, $len, {}, "$options: with it none is");
}

# ---- the unit map ----

make_table($node, 'm');
fill($node, 'm', 1, 1, 60_000_000);
$node->safe_psql('postgres', 'CHECKPOINT');
my $relation = $node->data_dir . '/' . $node->safe_psql('postgres',
	q{SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = 'pg_securefile_' || 'm'::regclass::oid || '_4'});
$node->stop;
my $pages = slurp($relation);
my @inodes = grep { unpack('V', substr($pages, $_ * 8192 + 8176, 4)) == 0x53464c31
	  && unpack('v', substr($pages, $_ * 8192 + 8180, 2)) == 4 } 0 .. length($pages) / 8192 - 1;
patch($relation, $inodes[0] * 8192 + 24, pack('Q<', 999_999));
$node->start;
my @rows = split /\n/, salvaged('m', 1);
is(scalar(@rows), 458, 'a damaged page of the unit map: every unit has a row');
my $lost = grep { !/sound$/ } @rows;
cmp_ok($lost, '>', 0, 'some are lost');
cmp_ok($lost, '<', 458, 'but not those of other pages') or diag($rows[0]);
is(scalar(grep { /WRONG/ } @rows), 0, 'and none is wrong');

# ---- values of other forms ----

is($node->safe_psql('postgres', q{SELECT count(*) FROM securefile_salvage('')}), 0, 'an empty value has no parts');
is($node->safe_psql('postgres', q{SELECT count(*) FROM securefile_salvage(NULL)}), 0, 'NULL neither');
is($node->safe_psql('postgres', q{SELECT start, length, data, problem IS NULL FROM securefile_salvage('\x010203')}),
	'1|3|\x010203|t', 'a value in its row');
is($node->safe_psql('postgres', q{SELECT count(*), sum(length), string_agg(data, '' ORDER BY start) = blob(5, 300000)
	FROM securefile_salvage(blob(5, 300000)::securefile)}), '3|300000|t', 'a value in memory');
is($node->safe_psql('postgres', qq{SELECT bool_and(problem IS NULL), string_agg(data, '' ORDER BY start) = blob(2, $len) || '\\xff'::bytea
	FROM t_nocache, securefile_salvage(doc || '\\xff'::bytea) WHERE id = 2}), 't|t', 'an edited value');
fails_with($node, q{SET statement_timeout = '50ms';
	SELECT count(pg_sleep(0.01)) FROM t_cache, generate_series(1, 1000), securefile_salvage(doc)}, '57014', '', 'cancel is no damage');
fails_with($node, q{DO $$ DECLARE kept securefile; BEGIN
	SELECT doc INTO kept FROM t_cache WHERE id = 2;
	TRUNCATE t_cache;
	PERFORM * FROM securefile_salvage(kept);
	END $$}, '42704', '', 'a value that is not there any more has no parts');

done_testing();
