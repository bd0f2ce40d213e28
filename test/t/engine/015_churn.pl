# The churn figure: ten rounds of deleting all and inserting the same amount must
# not need much more space than one.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $rounds = $ENV{SECUREFILE_CHURN_ROUNDS} || 10;
my $node = new_cluster('churn', conf => [ 'max_wal_size = 1GB' ]);
my $slack = mb(2 * 4);			# two gather buffers of one session

# 1 KB to 10 MB, some 150 MB a round; sizes in another order each time
my $sizes = join ',', (map { 1024 * (1 + $_ * 7 % 60) } 1 .. 150),
  (map { 65536 + $_ * 8191 } 1 .. 80), (map { 524288 + $_ * 40000 } 1 .. 25),
  (map { 3000000 + $_ * 700000 } 1 .. 7), 10485760, 10485760;

foreach my $options ('filesystem_like_logging, disable_storage_in_row', 'disable_storage_in_row')
{
	my $t = $options =~ /filesystem/ ? 'fslike' : 'logged';
	make_table($node, $t, $options);
	my $first;
	foreach my $round (1 .. $rounds)
	{
		$node->safe_psql('postgres',
			"INSERT INTO $t SELECT n, n + $round, len, blob(n + $round, len) FROM"
			  . " (SELECT (row_number() OVER (ORDER BY md5(len || ' $round ' || o)))::int n, len"
			  . " FROM unnest(ARRAY[$sizes]) WITH ORDINALITY u (len, o)) s");
		$first = usage($node, $t, 'doc') if $round == 1;
		last if $round == $rounds;
		$node->safe_psql('postgres', "DELETE FROM $t");
	}
	my $now = usage($node, $t, 'doc');
	my $limit = int(1.15 * $first->{file_bytes}) + $slack;
	note("figures: $t: one round $first->{file_bytes}, live $first->{live_bytes}, $rounds rounds $now->{file_bytes}");
	cmp_ok($now->{file_bytes}, '<=', $limit, "$t: file after $rounds rounds");
	cmp_ok($first->{file_bytes}, '<=', 1.125 * $first->{live_bytes} + $slack + mb(64),
		"$t: file after the first round");
	rows_right($node, $t, 264, $t);
	sound($node, $t, $t, in_row => 0);

	# deleting half and loading it again does not grow it either
	my $before = usage($node, $t, 'doc')->{file_bytes};
	$node->safe_psql('postgres', "CREATE TABLE kept AS SELECT id, seed, len FROM $t WHERE id % 2 = 0;"
		  . "DELETE FROM $t WHERE id % 2 = 0;"
		  . "INSERT INTO $t SELECT id, seed, len, blob(seed, len) FROM kept; DROP TABLE kept");
	cmp_ok(usage($node, $t, 'doc')->{file_bytes}, '<=', $before + $slack, "$t: half of it again");
	$node->safe_psql('postgres', "DROP TABLE $t");
}
$node->stop;
done_testing();
