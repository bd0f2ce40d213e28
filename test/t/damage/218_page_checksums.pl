# Pages of a segment relation whose data checksum is wrong, as a disk damages them in a cluster
# with data checksums, which 18 makes: the server itself refuses to read such a page, before
# we see it.  Values that do not need it are read, check goes on and names it, repair makes it
# anew, salvage and DROP TABLE work; and there is a way to what can only be read with
# ignore_checksum_failure.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $node = new_cluster('page_checksums', init => { extra => ['--data-checksums'] }, conf => ['securefile.monitor = off']);

# Row 4 has inode pages, the others have their unit maps in the rows.
my %pages = (header => sub { 0 }, map { my $type = $_->[1]; $_->[0] => sub { (pages_of($_[0], $type))[0] } }
	[ map => PAGE_MAP ], [ inode => PAGE_INODE ], [ pending => PAGE_PENDING ]);
my @tables = sort map { ("$_", "only_sum_$_") } keys %pages;
foreach my $t (@tables)
{
	make_table($node, $t);
	sql(qq{
		INSERT INTO $t SELECT i, i, len, blob(i, len) FROM generate_series(1, 6) i, LATERAL (SELECT CASE i WHEN 4 THEN 30000000 ELSE 100000 END) x (len);
		DELETE FROM $t WHERE id = 5});
}
my %segment = map { $_ => segment_of($node, $_) } @tables;
$node->stop;
foreach my $t (@tables)
{
	my ($kind) = $t =~ /([a-z]+)$/;
	my $page = $pages{$kind}->(slurp($segment{$t}));
	my $at = $page * PAGE + ($t =~ /^only/ ? 8 : CONTENT + 33);
	corrupt($segment{$t}, $at, substr(slurp($segment{$t}), $at, 1) ^ "\4");
}
$node->start;

my $ignoring = 'SET client_min_messages = error; SET ignore_checksum_failure = on; ';
my $invalid = qr/invalid page in block \d+ of relation/;

# What rows hold, and what is found, in a table.
sub outcomes { my ($t, $how) = @_; return sql(($how || '') . "SELECT string_agg(outcome(doc, seed, len), ' ' ORDER BY id) FROM $t"); }
sub findings { my ($t, $how) = @_; return sql(($how || '') . "SELECT finding, ctid, detail FROM securefile_check('$t', 'doc')"); }

my %right = map { $_ => 'right right right right right' } keys %pages;
my %read = (%right, header => 'XX001 XX001 XX001 XX001 XX001', inode => 'right right right XX001 right');
my %does = (header => 'none', map => 'rebuild page', inode => 'keep', pending => 'rebuild lists of pages');
foreach my $t (@tables)
{
	my ($kind) = $t =~ /([a-z]+)$/;
	is(outcomes($t), $read{$kind}, "$t: values that do not need the page are read");
	like(findings($t), $invalid, "$t: check names the page");
	like(repair($node, $t, 'true'), qr/^$does{$kind}\|unreadable\|.*$invalid/m, "$t: repair says what it would do");
}
my $salvaged = 'SELECT count(*), count(data), min(problem) FROM %s, securefile_salvage(doc) WHERE id = %d';
is(sql(sprintf $salvaged, 'inode', 1), '1|1|', 'salvage of a value that does not need the page');
like(sql(sprintf $salvaged, 'inode', 4), qr/^\d+\|0\|.*$invalid/, 'and of one that does');

# ---- what can be made anew is ----

my @made = grep { /map|pending/ } @tables;
foreach my $t (@made)
{
	repair($node, $t, 'false');
	is(findings($t), '', "$t: repaired");
}
$node->restart;
foreach my $t (@made)
{
	is(findings($t), '', "$t: and stays so");
	sql("INSERT INTO $t SELECT i, i, 50000, blob(i, 50000) FROM generate_series(11, 20) i; DELETE FROM $t WHERE id > 10");
	is(outcomes($t), $right{map}, "$t: values");
}

# ---- what cannot ----

foreach my $t (qw(only_sum_header only_sum_inode))
{
	is(outcomes($t, $ignoring), $right{map}, "$t: values are read where the checksum is ignored");
	sql("$ignoring UPDATE $t SET doc = doc::bytea; SELECT securefile_maintain('$t', 'doc'); CHECKPOINT");
	$node->restart;
	is(findings($t), '', "$t: stored once more, all is sound");
	is(outcomes($t), $right{map}, "$t: and right without that");
}
foreach my $t (qw(header inode))
{
	is(outcomes($t, $ignoring), $read{$t}, "$t: values of a damaged page are not");
	like(findings($t, $ignoring), qr/page \d+ of segment relation "\w+" is damaged/, "$t: and the error is ours");
}
$node->restart;
sql('DELETE FROM inode WHERE id = 4');
repair($node, 'inode', 'false');
is(findings('inode'), '', 'inode: without the row, repair makes the column sound');
is(outcomes('inode'), 'right right right right', 'inode: the other values');

sql("DROP TABLE $_") foreach @tables;
is_deeply([ data_files($node) ], [], 'DROP TABLE works');
$node->stop;
done_testing();
