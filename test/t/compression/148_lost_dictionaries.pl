# Dictionaries that the list of their segment does not lead to, because a page of it is
# damaged or the header is wrong: a check finds them, a repair makes the list anew, and all
# values whose dictionary is sound can be read again.  A dictionary that no library takes,
# or whose number is wrong, is damage, too.  Nothing damaged is stored as if it were sound.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages;
use SecurefileTest;
use Test::More;

# places on a page of a dictionary, and in the header
use constant {
	NUMBER => CONTENT + 8,
	BEFORE => CONTENT + 24,
	NEWEST => CONTENT + 112,
	LAST => CONTENT + 116
};

my $node = new_cluster('lost', conf => [ 'securefile.monitor = off', 'autovacuum = off' ]);
make_raw_type($node);
sql(q{
	CREATE FUNCTION record(seed int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT convert_to(format('{"kind %s": "of records", "number": %s, "what all of them have in common": "%s"}', seed / 1000, seed, md5(seed::text)), 'UTF8') $$;
	CREATE TABLE t (id int PRIMARY KEY, a int, b int, doc securefile(compress));
	CREATE FUNCTION add(first int, n int) RETURNS void LANGUAGE sql AS
	$$ INSERT INTO t SELECT i, 0, 0, record(i) FROM generate_series(first, first + n - 1) i $$
});

# Three dictionaries, each with ten values.
foreach my $number (1 .. 3)
{
	my $first = 1000 * $number;
	sql("SELECT add($first, 300)");
	is(sql("SELECT dictionary FROM securefile_train('t', 'doc', 1000)"), $number, "dictionary $number");
	sql("DELETE FROM t WHERE id >= $first", "SELECT add($first, 10)");
}
is(sql('SELECT count(*) FROM t, securefile_storage(doc) s WHERE s.codec = $$zstd with dictionary$$'), 30, 'values that need them');
sql('VACUUM t', 'CHECKPOINT');
$node->stop;
my $segment = segment_of_stopped();
my $sound = slurp($segment);
my %pages;
push @{ $pages{ unpack('V', substr($sound, $_ * PAGE + NUMBER, 4)) } }, $_ foreach pages_of($sound, PAGE_DICTIONARY);
cmp_ok(scalar(@{ $pages{$_} }), '>', 0, "dictionary $_ has pages") foreach 1 .. 3;
# each page names the next one, which was written before
my %first;
foreach my $number (1 .. 3)
{
	my %named = map { unpack('V', substr($sound, $_ * PAGE + CONTENT + 20, 4)) => 1 } @{ $pages{$number} };
	($first{$number}) = grep { !$named{$_} } @{ $pages{$number} };
}

sub segment_of_stopped
{
	$node->start;
	my $file = segment_of($node, 't');
	$node->stop;
	return $file;
}

# Without what tests have added.
sub as_it_was
{
	truncate($segment, length($sound)) or die "$segment: $!";
	patch($segment, 0, $sound);
	return;
}

# Numbers of the dictionaries whose ten values are right.
sub readable
{
	my @readable;
	foreach my $number (1 .. 3)
	{
		my ($rc, $out) = $node->psql('postgres', "SELECT count(*) FROM t WHERE id / 1000 = $number AND doc::bytea = record(id)");
		push @readable, $number if $rc == 0 && $out eq '10';
	}
	return "@readable";
}

# ---- the list is broken ----

# what, changes of pages, what can be read before the repair, and after it
my @cases = (
	[ 'the header leads nowhere', [ [ 0, NEWEST, pack('V', 0) ] ], '', '1 2 3' ],
	[ 'the header leads to the oldest', [ [ 0, NEWEST, pack('V', $first{1}) ] ], '1', '1 2 3' ],
	[ 'the header leads to a page that there is not', [ [ 0, NEWEST, pack('V', 2**30) ] ], '', '1 2 3' ],
	[ 'the header leads to an inode page, or to none', [ [ 0, NEWEST, pack('V', 2) ] ], undef, '1 2 3' ],
	[ 'the newest leads to none before it', [ map { [ $_, BEFORE, pack('V', NONE) ] } @{ $pages{3} } ], '3', '1 2 3' ],
	[ 'a page of the newest is zeros', [ [ $first{3}, 0, "\0" x PAGE ] ], '', '1 2' ],
	[ 'a page of the middle one is zeros', [ [ $first{2}, 0, "\0" x PAGE ] ], '3', '1 3' ],
	[ 'a page of the oldest is zeros', [ [ $first{1}, 0, "\0" x PAGE ] ], '2 3', '2 3' ],
	[ 'the newest has another number', [ map { [ $_, NUMBER, pack('V', 255) ] } @{ $pages{3} } ], undef, '1 2' ],
	[ 'the header knows fewer numbers', [ [ 0, LAST, pack('V', 2) ] ], '1 2 3', '1 2 3' ]);
foreach my $case (@cases)
{
	my ($what, $changes, $before, $after) = @$case;
	as_it_was();
	change($segment, @$_) foreach @$changes;
	$node->start;
	is(readable(), $before, "$what: before the repair") if defined $before;
	my ($rc) = $node->psql('postgres', 'SELECT add(5000, 1)');
	if ($rc == 0)
	{
		is(sql('SELECT count(*) FROM t WHERE id = 5000 AND doc::bytea = record(id)'), 1, "$what: what is stored can be read");
		sql('DELETE FROM t WHERE id = 5000');
	}
	isnt(sql("SELECT count(*) FROM securefile_check('t', 'doc') WHERE ctid IS NULL"), 0, "$what: is found");
	unlike(repair($node, 't', 'false'), qr/^set free/m, "$what: nothing is set free");
	is(readable(), $after, "$what: after the repair");
	$node->stop('immediate');
	$node->start;
	is(readable(), $after, "$what: after a crash right behind it");
	my $kept = sql("SELECT string_agg(finding, ',') FROM securefile_check('t', 'doc') WHERE ctid IS NULL");
	is($kept, '', "$what: all is sound") if $after eq '1 2 3';
	if ($after =~ /3$/ || $what =~ /newest is zeros/)
	{
		sql('SELECT add(5000, 1)');
		is(sql('SELECT count(*) FROM t WHERE id = 5000 AND doc::bytea = record(id)'), 1, "$what: and written to");
		sql("SELECT add(6000, 300)");
		is(sql("SELECT dictionary FROM securefile_train('t', 'doc', 1000)"), 4, "$what: no number is given twice");
		sql('DELETE FROM t WHERE id >= 5000');
		is(readable(), $after, "$what: with one more dictionary");
	}
	$node->stop;
}

# no number is given twice before the repair either
as_it_was();
change($segment, 0, LAST, pack('V', 2));
$node->start;
sql('SELECT add(7000, 300)');
fails_with($node, "SELECT securefile_train('t', 'doc', 1000)", 'XX001', 'There is dictionary 3, and the header knows them up to 2', 'a header of before: no new dictionary');
sql('DELETE FROM t WHERE id >= 7000');
is(readable(), '1 2 3', 'a header of before: nothing is lost');
$node->stop;

# what an old snapshot needs is not set free, though no row that is seen now needs it
as_it_was();
change($segment, 0, NEWEST, pack('V', 0));
$node->start;
my $snapshot = background($node);
$snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
sql('DELETE FROM t WHERE id < 3000');
unlike(repair($node, 't', 'false'), qr/^set free/m, 'an old snapshot: nothing is set free');
is($snapshot->query_safe('SELECT count(*) FROM t WHERE doc::bytea = record(id)'), 30, 'an old snapshot: reads all values');
$snapshot->quit;
is(sql("SELECT count(*) FROM securefile_check('t', 'doc')"), 0, 'an old snapshot: and all is sound');

# ---- a dictionary that is none ----

sql('CREATE TABLE bad (id int PRIMARY KEY, a int, b int, doc securefile(compress))', 'INSERT INTO bad SELECT i, 0, 0, record(i) FROM generate_series(1, 300) i');
arm($node, 'train_right', 'skip');
is(sql("SELECT dictionary FROM securefile_train('bad', 'doc', 1000)"), 1, 'a spoiled dictionary');
my ($rc, $out, $err) = $node->psql('postgres', 'INSERT INTO bad SELECT i, 0, 0, record(i) FROM generate_series(1000, 1005) i; INSERT INTO bad SELECT 1006, 0, 0, record(1006)');
like($err, qr/^[^\n]*WARNING: .*are stored without its dictionary\nDETAIL: [^\n]*is damaged\.\nHINT: [^\n]*\z/s, 'is not written with, which one WARNING says');
is(sql('SELECT count(*) FROM bad WHERE id >= 1000 AND doc::bytea = record(id)'), 7, 'values are stored all the same');
is(sql("SELECT count(*) FROM securefile_estimate('bad', 'doc')"), 4, 'and estimated');
like(sql("SELECT finding || detail FROM securefile_check('bad', 'doc')"), qr/^unreadable.*cannot be used/, 'is found');
($rc, $out, $err) = $node->psql('postgres', 'TRUNCATE bad');
like("$rc $err", qr/^0 .*WARNING: .*has no dictionary/s, 'TRUNCATE leaves it behind');
sql('INSERT INTO bad SELECT i, 0, 0, record(i) FROM generate_series(1, 300) i');
arm($node, 'train_right', 'skip');
sql("SELECT dictionary FROM securefile_train('bad', 'doc', 1000)");
unlike(repair($node, 'bad', 'false'), qr/^none/m, 'a repair forgets it');
sql('INSERT INTO bad SELECT 1000, 0, 0, record(7)');
is(sql("SELECT count(*) FROM securefile_check('bad', 'doc')"), 0, 'all is sound');
is(sql("SELECT dictionary FROM securefile_train('bad', 'doc', 1000)"), 2, 'its number is not given again');

# ---- a compressed value in the row that is too long for one ----

my $long = raw_value("\5\1" . 'x' x 9000);
fails_with($node, "INSERT INTO t SELECT 9000, 0, 0, $long", 'XX001', '', 'a long damaged value: not stored');
fails_with($node, "CREATE TABLE copied AS SELECT $long AS doc", 'XX001', '', 'a long damaged value: not copied');
sql('CREATE UNLOGGED TABLE u (id int, doc securefile)');
$node->psql('postgres', "INSERT INTO u SELECT 1, $long");
$node->psql('postgres', 'ALTER TABLE u SET LOGGED');
fails_with($node, 'SELECT doc::bytea FROM u UNION ALL SELECT NULL LIMIT 1', 'XX001', '', 'a long damaged value: not read from a table that was unlogged')
  if sql('SELECT count(*) FROM u') > 0;

# ---- what happens before the lock ----

sql('CREATE ROLE alice', 'CREATE ROLE bob', 'GRANT SELECT, INSERT ON t TO alice', 'ALTER TABLE t OWNER TO alice', 'GRANT alice TO CURRENT_USER');
foreach my $call ("securefile_train('t', 'doc')", "securefile_check('t', 'doc')", "securefile_maintain('t', 'doc')")
{
	my ($owner, $waiting) = (background($node), background($node));
	sql('ALTER TABLE t OWNER TO alice');
	$waiting->query_safe('SET ROLE alice');
	$owner->query_safe('BEGIN; LOCK TABLE t; ALTER TABLE t OWNER TO bob');
	ok(waits_for_lock($node, $waiting, "SELECT * FROM $call"), "$call waits");
	$owner->query_safe('COMMIT');
	$waiting->query('SELECT 1');
	like($waiting->{stderr}, qr/must be owner of table t/, "$call: the owner of before may not");
	$_->quit foreach $owner, $waiting;
}
foreach my $call ('train', 'estimate', 'check')
{
	my ($owner, $waiting) = (background($node), background($node));
	sql('CREATE TABLE gone (id int, doc securefile(compress))');
	$owner->query_safe('BEGIN; DROP TABLE gone');
	ok(waits_for_lock($node, $waiting, "SELECT * FROM securefile_$call('gone', 'doc')"), "$call waits for a drop");
	$owner->query_safe('COMMIT');
	$waiting->query('SELECT 1');
	like($waiting->{stderr}, qr/relation with OID \d+ does not exist/, "$call: the table is gone");
	$_->quit foreach $owner, $waiting;
}

# rows that were written anew meanwhile are seen
foreach my $call ('train', 'estimate')
{
	my ($owner, $waiting) = (background($node), background($node));
	$owner->query_safe("BEGIN; SELECT securefile_rewrite('bad', 'doc', 'filesystem_like_logging'); SELECT securefile_rewrite('bad', 'doc', 'logging'); TRUNCATE bad; INSERT INTO bad SELECT i, 0, 0, record(i) FROM generate_series(1, 300) i");
	ok(waits_for_lock($node, $waiting, "SELECT count(*) FROM securefile_$call('bad', 'doc')"), "$call waits for new rows");
	$owner->query_safe('COMMIT');
	$waiting->query('SELECT 1');
	is($waiting->{stderr}, '', "$call has seen them");
	$_->quit foreach $owner, $waiting;
}

# a parent does not learn from its children, whose values are in other segments
sql('CREATE TABLE parent (id int, doc securefile(compress))', 'CREATE TABLE child () INHERITS (parent)',
	'INSERT INTO child SELECT i, record(i) FROM generate_series(1, 400) i');
fails_with($node, "SELECT securefile_train('parent', 'doc')", '55000', 'too little to learn from', 'a parent without rows');
is(sql("SELECT dictionary FROM securefile_train('child', 'doc')"), 1, 'and its child');

unlike(slurp($node->logfile), qr/TRAP: |PANIC|terminated by signal|\bXX000\b/, 'no crash');
$node->stop;
done_testing();
