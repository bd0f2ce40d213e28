# Shared objects at random.  Clients store, copy, edit and delete few contents, while the
# server is killed: references are counted as rows have them.  And bytes of share pages, of
# pending entries and of the header are changed, and are believed, or pages become what they
# were before.  No row is touched by that: all can be read, before a repair and after it.  After
# two repairs there is nothing left to do, no reference is missing, and no space is lost.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages;
use SecurefileRandom;
use SecurefileShares;
use SecurefileTest;
use Test::More;

my $node = new_cluster('random', conf => [ 'securefile.monitor = off', 'full_page_writes = off', 'checkpoint_timeout = 1h' ]);
need_faults($node);
my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
srand($seed);
note("SECUREFILE_SEED=$seed");

my @tables = map { "random_$_" } 1 .. ($ENV{SECUREFILE_SHARED} || 40);
$node->safe_psql('postgres', join(";\n", map { made($_) } @tables));
my %segments = segments($node, @tables);
$node->safe_psql('postgres', 'CHECKPOINT');
my %older = map { $_ => slurp($segments{$_}) } @tables;
$node->safe_psql('postgres', join(";\n", map { stir($_) } @tables));
my %nrows = nrows($node, @tables);
$node->stop;

# Most of what is changed is where the records and the entries are, and not behind them.
my %changes;

# Put a page back as it was, or change a byte of it.
sub damage_page
{
	my ($t, $page) = @_;
	if (rand() < 0.15 && length($older{$t}) >= ($page + 1) * PAGE)
	{
		patch($segments{$t}, $page * PAGE, page_of($older{$t}, $page));
		return "page $page of before";
	}
	my $at = CONTENT + int(rand(rand() < 0.6 ? 700 : 2000));
	my $byte = int(rand 256);
	change($segments{$t}, $page, $at, pack('C', $byte));
	return "page $page, byte $at: $byte";
}

foreach my $t (@tables)
{
	my $all = slurp($segments{$t});
	foreach (1 .. 1 + int(rand 4))
	{
		my @pages = pages_of($all, rand() < 0.7 ? PAGE_SHARE : PAGE_PENDING);
		push @{ $changes{$t} }, damage_page($t, $pages[ rand @pages ]);
	}
	next if rand() > 0.15;
	my $head = (0, 2 .. 8, 10)[ rand 9 ];
	change($segments{$t}, 0, SHARE_HEAD, pack('V', $head));
	push @{ $changes{$t} }, "first share page: $head";
}
$node->start;

my $found = 0;
my @answers = answers($node, map { counted($_), planned($_, 'false'), planned($_, 'false'), planned($_, 'true'), counted($_) . checked($_), outlived($_) } @tables);
foreach my $t (@tables)
{
	my ($before, $first, $second, $left, $after, $end) = splice @answers, 0, 6;
	my @right = ($before, $left, $after, $end);
	$found += $first ne '';
	is(join('; ', @right), "$nrows{$t}|0; ; $nrows{$t}|0; 0\n0|0|0", "$t: all is mended, and no row was ever wrong")
	  || diag("SECUREFILE_SEED=$seed\n" . join("\n", @{ $changes{$t} }, $first, "then:", $second));
}
# some of it is where nothing is kept, or changes nothing: four of five are found
cmp_ok($found, '>', @tables / 3, 'much of it is found');
note("figures: random damage of share records: $found of " . scalar(@tables) . ' were found');

unlike(slurp($node->logfile), qr/TRAP: |PANIC|terminated by signal|\bXX000\b/, 'no crash');
$node->stop;

random_run('few contents', 'model/once.py', '--kill', $ENV{SECUREFILE_ONCE_KILLS} || 2, '--seconds', $ENV{SECUREFILE_ONCE_SECONDS} || 2);
done_testing();
