# securefile_repair(): space map and lists of pages come back from the live rows, whatever
# is wrong with them; nothing that a row, a snapshot or a crash could need is given away.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use SecurefileTest;
use Test::More;

use constant { PAGE => 8192, CONTENT => 24, FREE_HEAD => 24 + 48, PENDING_HEAD => 24 + 52, USED => 24 + 536, NONE => 0xffffffff };

my $node = new_cluster('repair', conf => [ 'securefile.monitor = off', 'full_page_writes = off', 'autovacuum = off',
		'restart_after_crash = on' ]);
need_faults($node);
my $nrows = 12;
make_table($node, 'm');
fill($node, 'm', 1, 11, 100_000);
fill($node, 'm', 12, 12, 13_000_000);

# a value of little data and a tree of inode pages
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION sparse(table_name regclass) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		h int := securefile_create(table_name, 'doc');
	BEGIN
		PERFORM securefile_seek(h, 30000000, 0);
		PERFORM securefile_write(h, blob(1, 300000));
		RETURN securefile_finish(h);
	END $$});
my $relation = $node->data_dir . '/' . $node->safe_psql('postgres',
	q{SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = 'pg_securefile_' || 'm'::regclass::oid || '_4'});

# no two rows have the same contents, at any time
$node->safe_psql('postgres', 'UPDATE m SET seed = 1000 * id, doc = blob(1000 * id, len)');

sub repair
{
	my ($dry_run) = @_;
	return $node->safe_psql('postgres',
		"SELECT action, finding, segment_offset, length_bytes, detail FROM securefile_repair('m', 'doc', $dry_run)");
}

# Pages of a type, by number.
sub pages_of
{
	my ($all, $type) = @_;
	return grep { unpack('V', substr($all, $_ * PAGE + 8176, 4)) == 0x53464c31
		  && unpack('v', substr($all, $_ * PAGE + 8180, 2)) == $type } 0 .. length($all) / PAGE - 1;
}

# Something is pending, free pages are in a list, a value was freed.
sub stir
{
	$node->safe_psql('postgres', q{
		INSERT INTO m SELECT i, 1, 1, sparse('m') FROM generate_series(101, 105) i;
		DELETE FROM m WHERE id > 100});
	settle($node, 'm', 'doc');
	$node->safe_psql('postgres', q{
		INSERT INTO m SELECT i, 1, 1, sparse('m') FROM generate_series(101, 102) i;
		DELETE FROM m WHERE id > 100;
		UPDATE m SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 12;
		CHECKPOINT});
	return;
}

# Damage the pages of the stopped server by a function; what it was before.
sub damage
{
	my ($how) = @_;
	$node->stop;
	my $before = slurp($relation);
	$how->($before);
	$node->start;
	return $before;
}

# Change a page where its checksum does not tell: it has none then.
sub change
{
	my ($page, $offset, $bytes) = @_;
	patch($relation, $page * PAGE + $offset, $bytes);
	patch($relation, $page * PAGE + 8184, "\0" x 8);
	return;
}

my $mended = 0;

# One kind of damage: found, not touched by a dry run, mended.
sub mends
{
	my ($name, $like, $how) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	stir();
	damage($how);
	my $plan = repair('true');
	like($plan, $like, "$name: what would be done");
	my $pages = slurp($relation);
	is(repair('true'), $plan, "$name: a dry run tells the same again");
	$node->safe_psql('postgres', 'CHECKPOINT');
	ok(slurp($relation) eq $pages, "$name: and changes nothing");
	is(repair('false'), $plan, "$name: the same was done");
	rows_right($node, 'm', $nrows, $name);
	sound($node, 'm', $name);
	is(repair('false'), '', "$name: nothing is left to do");
	if ($mended++ % 3 == 0)
	{
		crash($node);
		$node->start;
		rows_right($node, 'm', $nrows, "$name, after a crash");
		sound($node, 'm', "$name, after a crash");
	}
	fill($node, 'm', 201, 210, 200_000);
	rows_right($node, 'm', $nrows + 10, "$name, and new rows");
	$node->safe_psql('postgres', 'DELETE FROM m WHERE id > 200');
	settle($node, 'm', 'doc');
	return;
}

# ---- nothing to do ----
stir();
$node->safe_psql('postgres', "SELECT securefile_maintain('m', 'doc'); CHECKPOINT");
my $before = slurp($relation);
is(repair('true'), '', 'a sound column needs no repair');
is(repair('false'), '', 'and gets none');
$node->safe_psql('postgres', 'CHECKPOINT');
ok(slurp($relation) eq $before, 'its pages stay as they are');

# ---- the space map ----
mends('a map page of zeros', qr/^rebuild page\|damaged page.*page 1 /m, sub { patch($relation, PAGE, "\0" x PAGE) });
mends('a map page of garbage', qr/^rebuild page\|/m, sub { patch($relation, 9 * PAGE, join('', map { chr(int(rand(256))) } 1 .. PAGE)) });
mends('a map that takes all for free', qr/^mark used\|owned but free\|\d+\|\d+\|/m, sub { change(1, USED, "\0" x 4096) });
mends('a map of one sector in eight', qr/^mark used\|to be freed but free\|/m, sub { change(1, USED, "\1" x 4096) });
mends('a map that takes all for used', qr/^set free\|used but not owned\|\d+\|\d+\|/m, sub { change(1, USED, "\xff" x 4096) });
mends('a wrong count', qr/^correct\|wrong count of used sectors/m, sub { change(1, CONTENT + 16, "\1\2") });
mends('map pages of each other', qr/^mark used\|/m, sub
{
	my ($all) = @_;
	change(1, 0, substr($all, 9 * PAGE, PAGE));
	change(9, 0, substr($all, PAGE, PAGE));
});

# ---- pending and free pages ----
my $lists = qr/^rebuild lists of pages\|/m;
mends('a pending page of zeros', $lists, sub { patch($relation, $_ * PAGE, "\0" x PAGE) foreach pages_of($_[0], 3) });
mends('a queue that bites its tail', $lists, sub { change($_, CONTENT, pack('V', $_)) foreach pages_of($_[0], 3) });
mends('a queue that begins nowhere', $lists, sub { change(0, PENDING_HEAD, pack('V', 99_999)) });
mends('a queue that begins at another page', $lists, sub { change(0, PENDING_HEAD, pack('V', 1)) });
mends('too many entries', $lists, sub { change($_, CONTENT + 4, pack('v', 60_000)) foreach pages_of($_[0], 3) });
mends('a queue that was forgotten', qr/^set free\|used but not owned/m, sub { change(0, PENDING_HEAD, pack('VV', NONE, NONE)) });
mends('a list of free pages in a circle', $lists, sub { change($_, CONTENT, pack('V', $_)) foreach pages_of($_[0], 5) });
mends('free pages that were forgotten', qr/^set free\|used but not owned.*is in no list/m, sub { change(0, FREE_HEAD, pack('V', NONE)) });
mends('an entry of an unknown kind', $lists, sub { change($_, CONTENT + 28, "\x63") foreach pages_of($_[0], 3) });
mends('a bit of a pending page', $lists, sub { patch($relation, $_ * PAGE + CONTENT + 9, "\x63") foreach pages_of($_[0], 3) });
mends('a bit of a map page', qr/^rebuild page\|/m, sub { patch($relation, PAGE + USED + 7, "\x63") });
mends('entries that cannot be', $lists, sub
{
	my ($page) = pages_of($_[0], 3);
	change($page, CONTENT + 8, pack('Q<', (1 << 50) + 100));
	change($page, CONTENT + 8 + 24, pack('Q<', (1 << 51) + 100));
});
my $seed_of_2 = $node->safe_psql('postgres', 'SELECT seed FROM m WHERE id = 2');
mends('an entry that would free a live value', qr/^rebuild lists of pages\|owned but to be freed\|/m, sub
{
	my ($all) = @_;
	my ($page) = pages_of($all, 3);
	my ($data) = data_files($node);
	my $entry = substr($all, $page * PAGE + CONTENT + 8, 24);
	substr($entry, 8, 13) = pack('Q<L<C', block_at($data, $seed_of_2 + 1, 1) / 512, 16, 2);
	change($page, CONTENT + 8, $entry);
});
mends('two entries that free the same', qr/^rebuild lists of pages\|to be freed twice\|/m, sub
{
	my ($all) = @_;
	my ($page) = pages_of($all, 3);
	my $entries = $page * PAGE + CONTENT + 8;
	my ($free) = grep { substr($all, $entries + $_ * 24 + 20, 1) eq "\2" } 1 .. 20;
	change($page, CONTENT + 8, substr($all, $entries + $free * 24, 24));
});

# ---- the header page, as it was before ----
stir();
$node->safe_psql('postgres', 'CHECKPOINT');
my $old_header = substr(slurp($relation), 0, PAGE);
mends('an older header page', qr/^correct\|header page behind\|\|\|page 0 of the segment relation takes (object|stamp|page) \d+ for the next/m, sub { patch($relation, 0, $old_header) });

# ---- a value that is not sound: nothing is given away ----
# Inode page of row 12, which was never changed: of the oldest object there is.
sub oldest_inode
{
	my ($all) = @_;
	my $object = sub { unpack('Q<', substr($all, $_[0] * PAGE + CONTENT, 8)) };
	return (sort { $object->($a) <=> $object->($b) } grep { substr($all, $_ * PAGE + CONTENT + 24, 2) eq "\0\0" } pages_of($all, 4))[0];
}

stir();
my $was = damage(sub
{
	my ($all) = @_;
	change(oldest_inode($all), CONTENT + 32 + 24 * 3, pack('Q<', 1));
	patch($relation, PAGE, "\0" x PAGE);
	patch($relation, $_ * PAGE, "\0" x PAGE) foreach pages_of($all, 3);
});
my $plan = repair('false');
like($plan, qr/^none\|.*\n/m, 'a damaged value: nothing is done about it');
unlike($plan, qr/^set free/m, 'and nothing is set free');
my $inode = oldest_inode($was);
my $count = $node->safe_psql('postgres', "SELECT count(*) FROM m, securefile_salvage(doc) s WHERE problem IS NOT NULL");
is($count, 1, 'one of its units cannot be read');
$node->safe_psql('postgres', "SELECT securefile_maintain('m', 'doc')");
$node->safe_psql('postgres', 'CHECKPOINT');
my $sector = unpack('Q<', substr($was, $inode * PAGE + CONTENT + 32 + 24 * 3, 8));
my $map = 1 + 8 * int($sector / 32768);
is(unpack('H*', substr(slurp($relation), $map * PAGE + USED + $sector % 32768 / 8, 32)), 'ff' x 32, 'the place of that unit is still marked used');
fill($node, 'm', 301, 330, 500_000);
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
patch($relation, $inode * PAGE, substr($was, $inode * PAGE, PAGE));
$node->start;
rows_right($node, 'm', $nrows + 30, 'once the page is put back the value is whole: its space was kept');
like(repair('false'), qr/^set free\|/m, 'now what nobody owns is set free');
sound($node, 'm', 'nothing is lost for good');
$node->safe_psql('postgres', 'DELETE FROM m WHERE id > 300');

settle($node, 'm', 'doc');

# An entry that can never resolve, so that the lists have to be made anew.
sub spoil_queue
{
	stir();
	damage(sub
	{
		my ($page) = pages_of($_[0], 3);
		change($page, CONTENT + 8, pack('Q<', (1 << 50) + 100));
	});
	return;
}

# ---- old snapshots keep what they see; readers go on, writers wait ----
spoil_queue();
my $reader = background($node);
my $see = 'SELECT count(*), bool_and(doc::bytea = blob(seed, len)) FROM m';
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->query_safe($see), "$nrows|t", 'a snapshot');
$node->safe_psql('postgres', 'UPDATE m SET seed = seed + 1, doc = blob(seed + 1, len); DELETE FROM m WHERE id = 3');
my $live = usage($node, 'm', 'doc')->{live_bytes};
arm($node, 'repair_done', 'wait');
my $repairer = background($node);
$repairer->query_until(qr/^$/, "SELECT count(*) FROM securefile_repair('m', 'doc', false);\n");
$node->poll_query_until('postgres', "SELECT securefile_fault_fired('repair_done') > 0");
is($reader->query_safe($see), "$nrows|t", 'readers go on, and see old versions');
my $writer = background($node);
$writer->query_until(qr/^$/, "INSERT INTO m VALUES (401, 1, 5000000, blob(1, 5000000));\n");
wait_for_sql($node, q{SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'RowExclusiveLock'}, 1);
disarm($node);
$repairer->quit;
$writer->quit;
fill($node, 'm', 402, 430, 200_000);
$node->safe_psql('postgres', "SELECT securefile_maintain('m', 'doc')");
is($reader->query_safe($see), "$nrows|t", 'nor is their space used again');
is(repair('true'), '', 'which is pending: nothing to repair');
$reader->query_safe('COMMIT');
$reader->quit;
rows_right($node, 'm', $nrows - 1 + 30, 'old snapshot');
sound($node, 'm', 'old snapshot');
$node->safe_psql('postgres', 'DELETE FROM m WHERE id > 400');
fill($node, 'm', 3, 3, 100_000);

# ---- what backends keep lent is given back before it is marked used ----
stir();
my $keeper = background($node);
$keeper->query_safe('INSERT INTO m VALUES (501, 1, 5000, blob(1, 5000))');
settle($node, 'm', 'doc');
$node->safe_psql('postgres', 'CHECKPOINT');
$keeper->quit;
damage(sub { change($_, USED, "\0" x 4096) foreach pages_of($_[0], 2) });
$keeper = background($node);
$keeper->query_safe('INSERT INTO m SELECT i, i, 1000000, blob(i, 1000000) FROM generate_series(502, 510) i');
like(repair('false'), qr/^mark used\|owned but free/m, 'a map that took all for free while a session lent from it');
$keeper->query_safe("INSERT INTO m SELECT i, i, 50000, blob(i, 50000) FROM generate_series(511, 520) i");
$keeper->quit;
is($node->safe_psql('postgres', 'SELECT count(*) FROM m WHERE id > 501 AND doc::bytea = blob(seed, len)'), 19, 'what it wrote before and after is right');
my $lost = $node->safe_psql('postgres', q{SELECT string_agg(DISTINCT ctid::text, ',') FROM securefile_check('m', 'doc')});
$node->safe_psql('postgres', "DELETE FROM m WHERE id > 500");
note("overwritten before the repair: $lost");

# ---- an error, and a crash, at each step ----
$node->safe_psql('postgres', "DELETE FROM m WHERE ctid IN (SELECT ctid FROM securefile_check('m', 'doc'))") if $lost;
$nrows = $node->safe_psql('postgres', 'SELECT count(*) FROM m');
repair('false');
sound($node, 'm', 'before steps fail');
my $steps = 0;
my @ways = ('kill', 'error', 'panic');
for (my $failed = 1; $failed;)
{
	my $action = $ways[ $steps % 3 ];
	my $name = "$action at step $steps";
	my $sql = q{SELECT count(*) FROM securefile_repair('m', 'doc', false)};
	stir();
	damage(sub
	{
		my ($all) = @_;
		patch($relation, PAGE, "\0" x PAGE);
		patch($relation, $_ * PAGE, "\0" x PAGE) foreach pages_of($all, 3);
	});
	if ($action eq 'error')
	{
		arm($node, 'repair_page', 'error', skip => $steps);
		$failed = ($node->psql('postgres', $sql))[0] != 0;
		disarm($node);
	}
	else
	{
		$failed = dies_at($node, 'repair_page', $action, $sql, skip => $steps);
	}
	rows_right($node, 'm', $nrows, $name);

	# as long as the map is damaged this fails, later not
	$node->psql('postgres', 'INSERT INTO m SELECT i, i, 1000000, blob(i, 1000000) FROM generate_series(601, 605) i');
	repair('false');
	sound($node, 'm', "$name, repaired");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM m WHERE doc::bytea IS DISTINCT FROM blob(seed, len)'), 0, "$name, repaired: all rows");
	$node->safe_psql('postgres', 'DELETE FROM m WHERE id > 600');
	$steps++ if $failed;
}
cmp_ok($steps, '>=', 5, "$steps steps failed");
stir();
damage(sub { patch($relation, PAGE, "\0" x PAGE) });
ok(dies_at($node, 'repair_done', 'kill', q{SELECT count(*) FROM securefile_repair('m', 'doc', false)}), 'killed before the commit');
rows_right($node, 'm', $nrows, 'killed before the commit');
repair('false');
sound($node, 'm', 'killed before the commit, repaired');

# ---- what was done is durable when it returns, also without a transaction id ----
stir();
settle($node, 'm', 'doc');
damage(sub { change(1, USED, "\0" x 4096) });
my $did = $node->safe_psql('postgres', q{
	SET synchronous_commit = off;
	SELECT string_agg(DISTINCT action, ',') FROM securefile_repair('m', 'doc', false);
	SELECT pg_current_wal_insert_lsn() <= pg_current_wal_flush_lsn()});
like($did, qr/^(correct,)?mark used\nt$/, 'repaired, without an entry, and flushed');
crash($node);
$node->start;
unlike(repair('true'), qr/^mark used/m, 'and there after a crash');
repair('false');
sound($node, 'm', 'and there after a crash');

# ---- and a crash in its replay ----
stir();
damage(sub { patch($relation, PAGE, "\0" x PAGE) });
repair('false');
$node->safe_psql('postgres', "INSERT INTO m VALUES (601, 1, 200000, blob(1, 200000))");
$node->stop('immediate');
{
	local $ENV{SECUREFILE_FAULT} = 'redo_repair:kill';
	ok(!$node->start(fail_ok => 1), 'recovery dies at a page that was made anew');
}
$node->start;
rows_right($node, 'm', $nrows + 1, 'after it');
sound($node, 'm', 'after it');

# ---- who may, when ----
$node->safe_psql('postgres', q{
	CREATE ROLE stranger;
	CREATE TABLE plain (id int, doc securefile);
	CREATE UNLOGGED TABLE unlogged (id int, doc securefile);
	CREATE TABLE parted (id int, doc securefile) PARTITION BY RANGE (id);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
	INSERT INTO parted VALUES (1, blob(1, 100000));
	GRANT ALL ON plain TO stranger});
my $call = q{SELECT * FROM securefile_repair};
fails_with($node, "SET ROLE stranger; $call('plain', 'doc')", '42501', '', 'only the owner, also for a dry run');
fails_with($node, "BEGIN; INSERT INTO plain VALUES (1, 'x'); $call('plain', 'doc', false)", '25001', '', 'not where something was changed');
fails_with($node, "BEGIN READ ONLY; $call('plain', 'doc', false)", '25006', '', 'not where nothing may be');
fails_with($node, "$call('unlogged', 'doc')", '55000', '', 'a table without a segment');
fails_with($node, "$call('plain', 'id')", '42804', '', 'another type');
fails_with($node, "$call('plain', 'nothing')", '42703', '', 'no such column');
fails_with($node, "$call(NULL, 'doc')", '22004', '', 'no table');
is($node->safe_psql('postgres', "BEGIN READ ONLY; $call('plain', 'doc'); $call('parted', 'doc', NULL); COMMIT"), '', 'a dry run may be');
is($node->safe_psql('postgres', "$call('parted', 'doc', false)"), '', 'all partitions of a table');

# ---- a header page that cannot be read cannot be made from rows ----
damage(sub { patch($relation, 0, "\0" x PAGE) });
like(repair('false'), qr/^none\|unreadable\|.*page 0 of segment relation/m, 'no header page: nothing can be done');
$node->stop('immediate');
done_testing();
