# securefile_repair() where more than one thing is wrong: an old header page together with
# old or damaged pages of the space map, a unit map with a damaged page, a segment relation
# that is too short, pages that nobody has used yet.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $node = new_cluster('repair_more', conf => [ 'securefile.monitor = off', 'full_page_writes = off' ]);
my $table = 't0';
my $segment;

# A value of so many leaves of inode pages: 300000 bytes at the beginning of each.
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION leaves(table_name regclass, n int) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		h int := securefile_create(table_name, 'doc');
	BEGIN
		FOR i IN 0 .. n - 1 LOOP
			PERFORM securefile_seek(h, i * 44302336::bigint, 0);
			PERFORM securefile_write(h, blob(i, 300000));
		END LOOP;
		RETURN securefile_finish(h);
	END $$});

# A new table of rows 1 to n of a length.
sub begin_table
{
	my ($n, $len) = @_;
	$table++;
	make_table($node, $table);
	$segment = segment_of($node, $table);
	fill($node, $table, 1, $n, $len) if $n;
	return;
}

# The pages as they are now, on disk.
sub pages_now
{
	settle($node, $table, 'doc');
	$node->safe_psql('postgres', 'CHECKPOINT');
	return slurp($segment);
}

# Damage the pages of the stopped server by a function.
sub damage
{
	my ($how) = @_;
	$node->stop;
	$how->();
	$node->start;
	return;
}

# All is mended by one call; new rows find their place.
sub mends
{
	my ($name, $count, $like) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $plan = repair($node, $table, 'true');
	like($plan, $like, "$name: what would be done");
	unlike($plan, qr/^(none|keep)\|/m, "$name: nothing is lost");
	is(repair($node, $table, 'false'), $plan, "$name: the same was done");
	is(repair($node, $table, 'true'), '', "$name: nothing is left to do");
	rows_right($node, $table, $count, $name);
	sound($node, $table, $name);
	fill($node, $table, 1001, 1010, 1_000_000);
	rows_right($node, $table, $count + 10, "$name, and new rows");
	sound($node, $table, "$name, and new rows");
	return;
}

# ---- an old header page: values lie behind the end that it has ----
# ---- garbage on pages that nobody has used yet ----
# Each table is filled, and damaged by a function that takes its pages as they were before
# some rows, and as they are.
my $behind = qr/^correct\|header page behind\|/m;
my $leaves = "INSERT INTO %1\$s SELECT i, 1, 0, leaves('%1\$s', 2) FROM generate_series(100, 110) i; DELETE FROM %1\$s WHERE id >= 100";
my @cases = (
	[ 'an old header page', 5, $behind, sub { patch($segment, 0, page_of($_[0], 0)) } ],
	[ 'an old header page and an old map page', 5, $behind, sub { patch($segment, 0, page_of($_[0], 0) . page_of($_[0], 1)) } ],
	[ 'an old header page and a damaged map page', 5, $behind, sub
		{
			patch($segment, 0, page_of($_[0], 0));
			patch($segment, 9 * PAGE, garbage());
		} ],
	[ 'an old header page and map pages of zeros', 6, $behind, sub
		{
			patch($segment, 0, page_of($_[0], 0));
			patch($segment, $_ * PAGE, "\0" x PAGE) foreach 9, 17;
		} ],
	[ 'garbage where no page has been', 3, qr/^rebuild page\|(unreadable|damaged page)\|/m, sub
		{
			patch($segment, 9 * PAGE, garbage());
			patch($segment, 17 * PAGE, page_of($_[1], 2));
			patch($segment, length($_[1]), garbage());
		} ]);
my @places;
foreach my $case (@cases)
{
	begin_table(3, 100_000);
	$node->safe_psql('postgres', sprintf($leaves, $table)) if $case->[1] == 3;
	my $old = pages_now();
	fill($node, $table, 4, $case->[1], 13_000_000) if $case->[1] > 3;
	push @places, [ $table, $segment, $old ];
}
$node->stop;
foreach my $i (0 .. $#cases)
{
	$segment = $places[$i][1];
	$cases[$i][3]->($places[$i][2], slurp($segment));
}
$node->start;
foreach my $i (0 .. $#cases)
{
	my ($name, $count, $like) = @{ $cases[$i] };
	$table = $places[$i][0];
	fails_with($node, "INSERT INTO $table VALUES (7, 7, 40000000, blob(7, 40000000))", 'XX001', '', 'nothing is written over where the header page is old')
	  if $name =~ /damaged map page/;
	mends($name, $count, $like);
}
$node->safe_psql('postgres', sprintf($leaves, $table));
sound($node, $table, 'and new inode pages');

# ---- a unit map with a damaged page: the rest of the value is kept ----
sub salvaged
{
	return $node->safe_psql('postgres', "SELECT s.start, md5(s.data) FROM $table, securefile_salvage(doc) s WHERE id = 100 AND problem IS NULL");
}

begin_table(3, 100_000);
$node->safe_psql('postgres', "INSERT INTO $table VALUES (4, 4, 3000000, blob(4, 3000000)); DELETE FROM $table WHERE id = 4");
my $old = pages_now();
$node->safe_psql('postgres', "INSERT INTO $table SELECT 100, 1, 0, leaves('$table', 5)");
my $whole = salvaged();
my $all = pages_now();
my @leaves = grep { substr($all, $_ * PAGE + CONTENT + 24, 2) eq "\0\0" } pages_of($all, PAGE_INODE);
is(@leaves, 5, 'a value with five leaves');
my $bad = (sort { unpack('Q<', substr($all, $a * PAGE + CONTENT + 16, 8)) <=> unpack('Q<', substr($all, $b * PAGE + CONTENT + 16, 8)) } @leaves)[1];
damage(sub
{
	patch($segment, $bad * PAGE, garbage());
	patch($segment, PAGE, page_of($old, 1));
});
my $sound_part = salvaged();
is(split(/\n/, $sound_part), split(/\n/, $whole) - 338, 'the units of one leaf cannot be read');
my $plan = repair($node, $table, 'true');
like($plan, qr/^none\|unreadable\|/m, 'a damaged page of a unit map is told');
like($plan, qr/^mark used\|owned but free\|/m, 'and what the others lead to is marked used');
repair($node, $table, 'false');
unlike(repair($node, $table, 'true'), qr/^mark used/m, 'once');
fill($node, $table, 201, 260, 200_000);
is(salvaged(), $sound_part, 'what is sound of the value is still there after new rows');
$node->safe_psql('postgres', 'CHECKPOINT');
damage(sub { patch($segment, $bad * PAGE, page_of($all, $bad)) });
is(salvaged(), $whole, 'and what could not be seen then: the value is whole when the page is put back');
repair($node, $table, 'false');
is(repair($node, $table, 'true'), '', 'then all is sound');

# ---- a segment relation that is too short ----
begin_table(3, 100_000);
$node->safe_psql('postgres', "INSERT INTO $table SELECT i, 1, 0, leaves('$table', 2) FROM generate_series(100, 130) i; DELETE FROM $table WHERE id >= 100");
$all = pages_now();
my $npages = length($all) / PAGE;
cmp_ok($npages, '>', 60, 'a segment relation of some pages');
damage(sub
{
	change($segment, 0, FREE_HEAD, pack('VVV', NONE, NONE, NONE));
	truncate($segment, 12 * PAGE) or die $!;
});
my $insert = "INSERT INTO $table SELECT i, i, 3000000, blob(i, 3000000) FROM generate_series(100, 103) i";
fails_with($node, $insert, 'XX001', 'page', 'no new page at its end');
my $bytes = data_bytes($node);
fails_with($node, $insert, 'XX001', 'page', 'nor later') for 1 .. 10;
cmp_ok(data_bytes($node), '<=', $bytes, 'which does not let data files grow');
$node->safe_psql('postgres', 'CHECKPOINT');
$plan = repair($node, $table, 'true');
like($plan, qr/^rebuild page\|segment relation too short\|/m, 'too short: what would be done');
is(repair($node, $table, 'false'), $plan, 'too short: the same was done');
is(repair($node, $table, 'true'), '', 'too short: nothing is left to do');
sound($node, $table, 'too short');
$node->safe_psql('postgres', "$insert; DELETE FROM $table WHERE id >= 100");
rows_right($node, $table, 3, 'too short');
sound($node, $table, 'too short, and a new value');

# The same where a value is not sound, so that missing pages are not taken for free ones.
begin_table(3, 100_000);
$node->safe_psql('postgres', "INSERT INTO $table SELECT i, 1, 0, leaves('$table', 2) FROM generate_series(100, 130) i; DELETE FROM $table WHERE id >= 100");
pages_now();
my $data = data_file_of($node, $segment);
damage(sub
{
	patch($data, block_at($data, 3, 1), "\0" x 512);
	change($segment, 0, FREE_HEAD, pack('VVV', NONE, NONE, NONE));
	truncate($segment, 12 * PAGE) or die $!;
});
$insert = "INSERT INTO $table SELECT i, i, 3000000, blob(i, 3000000) FROM generate_series(100, 103) i";
fails_with($node, $insert, 'XX001', 'page', 'too short, and a damaged value: no new page');
like(repair($node, $table, 'false'), qr/^rebuild page\|segment relation too short\|/m, 'its pages get their place');
$node->safe_psql('postgres', "INSERT INTO $table SELECT i, 1, 0, leaves('$table', 2) FROM generate_series(100, 140) i; DELETE FROM $table WHERE id >= 100 OR id = 3");
repair($node, $table, 'false');
rows_right($node, $table, 2, 'too short, and a damaged value that is deleted');
sound($node, $table, 'too short, and a damaged value that is deleted');

# ---- several damages at once, by lot ----
# Half a queue would be what a header page cannot say: then nothing can be mended.
sub last_of_queue
{
	my ($last) = unpack('V', substr(slurp($segment), PENDING_HEAD + 4, 4));
	return $last == NONE ? 1 + int(rand(40)) : $last;
}

# Each takes the pages as they were once and as they are, and what is in use at least.
my %damages = (
	'old header' => sub { patch($segment, 0, page_of($_[0], 0)) },
	'header without free pages' => sub { change($segment, 0, FREE_HEAD, pack('V', NONE)) },
	'free pages that begin elsewhere' => sub { change($segment, 0, FREE_HEAD, pack('V', 1 + int(rand(40)))) },
	'header without a queue' => sub { change($segment, 0, PENDING_HEAD, pack('VV', NONE, NONE)) },
	'queue that begins elsewhere' => sub { change($segment, 0, PENDING_HEAD, pack('VV', 1 + int(rand(40)), last_of_queue())) },
	'old map' => sub { patch($segment, PAGE, page_of($_[0], 1)) },
	'empty map' => sub { change($segment, 1 + 8 * int(rand(2)), USED, "\0" x 4096) },
	'full map' => sub { change($segment, 1 + 8 * int(rand(2)), USED, "\xff" x 4096) },
	'map of zeros' => sub { patch($segment, 9 * PAGE, "\0" x PAGE) },
	'garbage as a map' => sub { patch($segment, 9 * PAGE, garbage()) },
	'garbage as a later map' => sub { patch($segment, 17 * PAGE, garbage()) },
	'old queue' => sub { patch($segment, $_ * PAGE, page_of($_[0], $_)) foreach grep { $_ < length($_[0]) / PAGE } pages_of($_[1], PAGE_PENDING) },
	'queue of zeros' => sub { patch($segment, $_ * PAGE, "\0" x PAGE) foreach pages_of($_[1], PAGE_PENDING) },
	'free pages of zeros' => sub { patch($segment, $_ * PAGE, "\0" x PAGE) foreach pages_of($_[1], PAGE_FREE) },
	'cut relation' => sub { truncate($segment, $_[2] * PAGE) or die $! });

my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000));
my $rounds = $ENV{SECUREFILE_ROUNDS} || 8;
srand($seed);
note("seed $seed");
my @tables;
foreach (1 .. $rounds)
{
	my %one;
	begin_table(3, 100_000);
	$node->safe_psql('postgres', "INSERT INTO $table SELECT i, 1, 0, leaves('$table', 2) FROM generate_series(100, 105) i; DELETE FROM $table WHERE id >= 100");
	$one{old} = pages_now();
	fill($node, $table, 4, 5 + int(rand(2)) * 5, 2_600_000);
	$node->safe_psql('postgres', "INSERT INTO $table VALUES (20, 20, 13000000, blob(20, 13000000))");
	$one{used} = 1 + (sort { $a <=> $b } pages_of(pages_now(), PAGE_INODE))[-1];
	$node->safe_psql('postgres', "INSERT INTO $table SELECT i, 1, 0, leaves('$table', 2) FROM generate_series(100, 105) i; DELETE FROM $table WHERE id >= 100 OR id = 4");
	$one{rows} = $node->safe_psql('postgres', "SELECT count(*) FROM $table");
	@one{qw(table segment)} = ($table, $segment);
	push @tables, \%one;
}
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
foreach my $one (@tables)
{
	my @names = sort keys %damages;
	my $now = slurp($segment = $one->{segment});
	$one->{damages} = [ map { splice(@names, int(rand(@names)), 1) } 0 .. 1 + int(rand(3)) ];
	$damages{$_}->($one->{old}, $now, $one->{used}) foreach @{ $one->{damages} };
}
$node->start;
foreach my $one (@tables)
{
	$table = $one->{table};
	mends(join(', ', @{ $one->{damages} }), $one->{rows}, qr/^/);
}
$node->stop('immediate');
done_testing();
