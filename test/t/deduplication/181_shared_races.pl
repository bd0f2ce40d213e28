# Storing a content meets its end, and its beginning: each stops at each of its steps while
# the other one goes through.  No row is ever wrong, and in the end no space is in use.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('shared_races', conf => [ 'securefile.monitor = off', 'max_prepared_transactions = 5' ]);
need_faults($node);
my ($one, $other) = map { background($node) } 1 .. 2;

sub insert { return "INSERT INTO t SELECT $_[0], 1, 300000, blob(1, 300000)"; }

my $maintain = "SELECT securefile_maintain('t', 'doc')";
my $usage = "SELECT shared_objects, shared_references FROM securefile_usage('t', 'doc')";

sub begin_table
{
	make_table($node, 't', 'deduplicate');
	sql(insert($_)) foreach @_;
	sql($maintain);
	return;
}

# The rows that there are, are right; then all go, and all space.
sub ends
{
	my ($name, $rows) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($node, 't', $rows, $name);
	my $found = sql("SELECT * FROM securefile_check('t', 'doc')");
	sql('DELETE FROM t');
	$found .= settle($node, 't', 'doc')->{live_bytes} . sql("SELECT * FROM securefile_check('t', 'doc')");
	is($found, '0', "$name: nothing is found, and nothing left");
	sql('DROP TABLE t');
	return;
}

# ---- the end of a content ----

# the resolver is about to take the last reference
begin_table(1);
sql('DELETE FROM t');
ok(held($node, $one, 'resolve_share', $maintain), 'the resolver stands before the last reference');
sql(insert(2));
is(sql($usage), '1|2', 'meanwhile it is found');
resume($node, $one, 'resolve_share');
sql($maintain);
is(sql($usage), '1|1', 'and stays');
ends('last reference', 1);

# who stores it stands before the advice, while it ends
begin_table(1);
ok(held($node, $one, 'advice_look_up', insert(2)), 'who stores it stands before the advice');
sql("DELETE FROM t; $maintain; $maintain");
resume($node, $one, 'advice_look_up');
ends('a content that ends', 1);

# who stores it has counted its record up, and is to compare it, while all rows go; what its
# snapshot can see of them stays until it has ended
foreach my $end ('COMMIT', 'ROLLBACK')
{
	begin_table(1, 2);
	ok(held($node, $one, 'share_guarded', 'BEGIN; ' . insert(3)), "$end: who stores it has guarded it");
	sql("DELETE FROM t; $maintain; $maintain");
	is(sql($usage), '1|3', "$end: so it stays");
	sql(insert(4));
	resume($node, $one, 'share_guarded');
	$one->query_safe($end);
	sql("$maintain; $maintain");
	is(sql($usage), $end eq 'COMMIT' ? '1|2' : '1|1', "$end: as many references as rows");
	ends("guarded, $end", $end eq 'COMMIT' ? 2 : 1);
}
# its space is given back: nobody comes to it any more
foreach my $point ('reap_before_free', 'reap_done')
{
	begin_table(1, 2);
	sql('DELETE FROM t');
	ok(held($node, $one, $point, "$maintain; $maintain"), "$point: the resolver stands");
	sql(insert(3));
	sql(insert(4));
	resume($node, $one, $point);
	ends($point, 2);
}

# one row goes, and comes back by a rollback
begin_table(1);
$one->query_safe('BEGIN; DELETE FROM t');
sql("$maintain");
sql(insert(2));
$one->query_safe('ROLLBACK');
is(sql("$maintain; $usage") =~ /(\d+\|\d+)$/ ? $1 : '', '1|2', 'a deletion that was rolled back takes nothing');
ends('rolled back', 2);

# ---- the beginning ----

foreach my $end ('COMMIT', 'ROLLBACK')
{
	begin_table();
	$one->query_safe('BEGIN; ' . insert(1) . '; ' . insert(2));
	$other->query_safe('BEGIN; ' . insert(3));
	sql(insert(4));
	$one->query_safe($end);
	sql(insert(5));
	$other->query_safe($end eq 'COMMIT' ? 'ROLLBACK' : 'COMMIT');
	sql(insert(6));
	sql($maintain);
	ends("makers, $end", $end eq 'COMMIT' ? 5 : 4);
}

# a maker that is prepared, over a crash
foreach my $end ('COMMIT', 'ROLLBACK')
{
	begin_table();
	sql('BEGIN; ' . insert(1) . "; PREPARE TRANSACTION 'p'");
	sql(insert(2));
	$node->stop('immediate');
	$node->start;
	sql(insert(3));
	sql("$end PREPARED 'p'");
	sql(insert(4));
	ends("prepared, $end", $end eq 'COMMIT' ? 4 : 3);
	($one, $other) = map { background($node) } 1 .. 2;
}

# a maker at each step of its commit
foreach my $point ('share_before_new', 'share_after_new', 'commit_after_data', 'commit_after_alloc', 'commit_before_record', 'commit_done')
{
	begin_table();
	if (!held($node, $one, $point, insert(1)))
	{
		fail("$point: nobody comes there");
		next;
	}
	sql(insert(2));
	resume($node, $one, $point);
	sql(insert(3));
	ends($point, 3);
}

# savepoints: a guard stays, what was made in one goes
begin_table(1);
sql('BEGIN; SAVEPOINT a; ' . insert(2) . '; ROLLBACK TO a; COMMIT');
sql('BEGIN; SAVEPOINT a; INSERT INTO t SELECT 3, 2, 300000, blob(2, 300000); ROLLBACK TO a; INSERT INTO t SELECT 4, 2, 300000, blob(2, 300000); COMMIT');
sql('BEGIN; ' . insert(5) . '; DELETE FROM t WHERE id = 5; COMMIT');
sql('BEGIN; INSERT INTO t SELECT 6, 3, 300000, blob(3, 300000); DELETE FROM t WHERE id = 6; COMMIT');
sql('BEGIN; SAVEPOINT a; TRUNCATE t; ' . insert(7) . '; ROLLBACK TO a; ' . insert(8) . '; COMMIT');
sql($maintain);
is(sql($usage), '2|3', 'savepoints: as many references as rows');
ends('savepoints', 3);

$node->stop;
done_testing();
