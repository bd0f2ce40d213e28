# securefile_repair(): space map and lists of pages come back from the live rows, whatever
# is wrong with them; nothing that a row, a snapshot or a crash could need is given away.
# Each damage has a table of its own, so that one stop of the server damages all.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $node = new_cluster('repair', conf => [ 'securefile.monitor = off', 'full_page_writes = off', 'autovacuum = off',
		'restart_after_crash = on', 'checkpoint_timeout = 1h', 'max_wal_size = 4GB' ]);
need_faults($node);

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

# Five rows of 100 kB in every table, and one with an inode page, which reaches over to
# the second map page, where that matters.  No two rows of a table have the same contents,
# at any time.
my $nlarge = 6;
make_table($node, 'rows');
$node->safe_psql('postgres', qq{
	INSERT INTO rows SELECT i, 1000 * i, len, blob(1000 * i, len)
	FROM generate_series(1, $nlarge) i, LATERAL (SELECT CASE i WHEN $nlarge THEN 13000000 ELSE 100000 END) x (len)});

# New tables with these rows.
sub make_tables
{
	my ($nrows, @tables) = @_;
	$node->safe_psql('postgres', join("\n", map { "CREATE TABLE $_ (id int PRIMARY KEY, seed int, len int, doc securefile);\n"
				  . "INSERT INTO $_ SELECT id, seed, len, doc::bytea FROM rows WHERE id <= $nrows;" } @tables));
	return;
}

# Something is pending, free pages are in a list, a value was freed.
sub stir
{
	my (@tables) = @_;
	my @steps = (
		sub { "INSERT INTO $_[0] SELECT i, 1, 1, sparse('$_[0]') FROM generate_series(101, 105) i; DELETE FROM $_[0] WHERE id > 100;" },
		sub { "SELECT securefile_maintain('$_[0]', 'doc');" },
		sub { "INSERT INTO $_[0] SELECT i, 1, 1, sparse('$_[0]') FROM generate_series(101, 102) i; DELETE FROM $_[0] WHERE id > 100;" },
		sub { "UPDATE $_[0] SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < $nlarge;" });
	$node->safe_psql('postgres', join("\n", map { my $step = $_; map { $step->($_) } @tables } @steps) . "\nCHECKPOINT");
	return;
}

# ---- nothing to do ----
make_tables($nlarge, 'm');
stir('m');
$node->safe_psql('postgres', "SELECT securefile_maintain('m', 'doc'); CHECKPOINT");
my $before = slurp(segment_of($node, 'm'));
is(repair($node, 'm', 'true'), '', 'a sound column needs no repair');
is(repair($node, 'm', 'false'), '', 'and gets none');
$node->safe_psql('postgres', 'CHECKPOINT');
ok(slurp(segment_of($node, 'm')) eq $before, 'its pages stay as they are');

# ---- the kinds of damage ----
# What is found, and a function that is called with the file of the segment relation, its
# pages, those of an earlier time, and the data file; LARGE: in a table with a large row.
use constant LARGE => 1;
my $lists = qr/^rebuild lists of pages\|/m;
my @kinds = (
	# the space map
	[ 'a map page of zeros', qr/^rebuild page\|damaged page.*page 1 /m, sub { patch($_[0], PAGE, "\0" x PAGE) } ],
	[ 'a map page of garbage', qr/^rebuild page\|/m, sub { patch($_[0], 9 * PAGE, garbage()) }, LARGE ],
	[ 'a map that takes all for free', qr/^mark used\|owned but free\|\d+\|\d+\|/m, sub { change($_[0], 1, USED, "\0" x 4096) } ],
	[ 'a map of one sector in eight', qr/^mark used\|to be freed but free\|/m, sub { change($_[0], 1, USED, "\1" x 4096) } ],
	[ 'a map that takes all for used', qr/^set free\|used but not owned\|\d+\|\d+\|/m, sub { change($_[0], 1, USED, "\xff" x 4096) } ],
	[ 'a wrong count', qr/^correct\|wrong count of used sectors/m, sub { change($_[0], 1, CONTENT + 16, "\1\2") } ],
	[ 'map pages of each other', qr/^mark used\|/m, sub
		{
			change($_[0], 1, 0, page_of($_[1], 9));
			change($_[0], 9, 0, page_of($_[1], 1));
		}, LARGE ],
	[ 'a bit of a map page', qr/^rebuild page\|/m, sub { patch($_[0], PAGE + USED + 7, "\x63") } ],

	# pending and free pages
	[ 'a pending page of zeros', $lists, sub { patch($_[0], $_ * PAGE, "\0" x PAGE) foreach pages_of($_[1], PAGE_PENDING) }, LARGE ],
	[ 'a queue that bites its tail', $lists, sub { change($_[0], $_, CONTENT, pack('V', $_)) foreach pages_of($_[1], PAGE_PENDING) } ],
	[ 'a queue that begins nowhere', $lists, sub { change($_[0], 0, PENDING_HEAD, pack('V', 99_999)) } ],
	[ 'a queue that begins at another page', $lists, sub { change($_[0], 0, PENDING_HEAD, pack('V', 1)) } ],
	[ 'too many entries', $lists, sub { change($_[0], $_, CONTENT + 4, pack('v', 60_000)) foreach pages_of($_[1], PAGE_PENDING) }, LARGE ],
	[ 'a queue that was forgotten', qr/^set free\|used but not owned/m, sub { change($_[0], 0, PENDING_HEAD, pack('VV', NONE, NONE)) } ],
	[ 'a list of free pages in a circle', $lists, sub { change($_[0], $_, CONTENT, pack('V', $_)) foreach pages_of($_[1], PAGE_FREE) }, LARGE ],
	[ 'free pages that were forgotten', qr/^set free\|used but not owned.*is in no list/m, sub { change($_[0], 0, FREE_HEAD, pack('V', NONE)) }, LARGE ],
	[ 'an entry of an unknown kind', $lists, sub { change($_[0], $_, PENDING_ENTRIES + 20, "\x63") foreach pages_of($_[1], PAGE_PENDING) } ],
	[ 'a bit of a pending page', $lists, sub { patch($_[0], $_ * PAGE + PENDING_ENTRIES + 1, "\x63") foreach pages_of($_[1], PAGE_PENDING) } ],
	[ 'entries that cannot be', $lists, sub
		{
			my ($page) = pages_of($_[1], PAGE_PENDING);
			change($_[0], $page, PENDING_ENTRIES, pack('Q<', (1 << 50) + 100));
			change($_[0], $page, PENDING_ENTRIES + 24, pack('Q<', (1 << 51) + 100));
		} ],
	[ 'an entry that would free a live value', qr/^rebuild lists of pages\|owned but to be freed\|/m, sub
		{
			my ($segment, $all, undef, $data) = @_;
			my ($page) = pages_of($all, PAGE_PENDING);
			my $entry = substr($all, $page * PAGE + PENDING_ENTRIES, 24);
			substr($entry, 8, 13) = pack('Q<L<C', block_at($data, 2001, 1) / 512, 16, 2);
			change($segment, $page, PENDING_ENTRIES, $entry);
		} ],
	[ 'two entries that free the same', qr/^rebuild lists of pages\|to be freed twice\|/m, sub
		{
			my ($segment, $all) = @_;
			my ($page) = pages_of($all, PAGE_PENDING);
			my $entries = $page * PAGE + PENDING_ENTRIES;
			my ($free) = grep { substr($all, $entries + $_ * 24 + 20, 1) eq "\2" } 1 .. 20;
			change($segment, $page, PENDING_ENTRIES, substr($all, $entries + $free * 24, 24));
		} ],

	# the header page, as it was before
	[ 'an older header page', qr/^correct\|header page behind\|\|\|page 0 of the segment relation takes (object|stamp|page) \d+ for the next/m,
		sub { patch($_[0], 0, page_of($_[2], 0)) }, LARGE ]);
my @mended = map { "mended_$_" } 0 .. $#kinds;

# Inode page of the large row, which was never changed: of the oldest object that has one.
sub oldest_inode
{
	my ($all) = @_;
	my $object = sub { unpack('Q<', substr($all, $_[0] * PAGE + CONTENT, 8)) };
	return (sort { $object->($a) <=> $object->($b) } grep { substr($all, $_ * PAGE + CONTENT + 24, 2) eq "\0\0" } pages_of($all, PAGE_INODE))[0];
}

# Damages that other parts begin with.
sub zero_map { patch($_[0], PAGE, "\0" x PAGE); return }

# also by their counts, so that there is room for new values
sub empty_maps
{
	my ($segment, $all) = @_;
	foreach (pages_of($all, PAGE_MAP))
	{
		change($segment, $_, USED, "\0" x 4096);
		change($segment, $_, CONTENT + 16, "\0" x 4);
	}
	return;
}

sub zero_map_and_queue
{
	my ($segment, $all) = @_;
	zero_map($segment);
	patch($segment, $_ * PAGE, "\0" x PAGE) foreach pages_of($all, PAGE_PENDING);
	return;
}

# an entry that can never resolve, so that the lists have to be made anew
sub spoil_queue
{
	my ($segment, $all) = @_;
	my ($page) = pages_of($all, PAGE_PENDING);
	change($segment, $page, PENDING_ENTRIES, pack('Q<', (1 << 50) + 100));
	return;
}

my @steps = map { "step_$_" } 0 .. 15;
my %others = (
	unsound => sub
	{
		my ($segment, $all) = @_;
		change($segment, oldest_inode($all), CONTENT + 32 + 24 * 3, pack('Q<', 1));
		zero_map_and_queue($segment, $all);
	},
	snapshots => \&spoil_queue,
	lent => \&empty_maps,
	before_commit => \&zero_map,
	durable => sub { change($_[0], 1, USED, "\0" x 4096) },
	replayed => \&zero_map,
	headless => sub { patch($_[0], 0, "\0" x PAGE) },
	map { $_ => \&zero_map_and_queue } @steps);

# ---- all of it is damaged ----
my @all = (@mended, sort keys %others);
my %nrows = ((map { $_ => $nlarge - 1 } @all), map { $_ => $nlarge }
	  'unsound', 'snapshots', 'lent', map { $mended[$_] } grep { $kinds[$_][3] } 0 .. $#kinds);
make_tables($nlarge, grep { $nrows{$_} == $nlarge } @all);
make_tables($nlarge - 1, grep { $nrows{$_} < $nlarge } @all);
stir(@all);
my %segments = map { $_ => segment_of($node, $_) } @all;
my %earlier = map { $_ => slurp($segments{$_}) } @mended;
stir($mended[-1]);

# nothing is pending: no transaction id for a repair, nothing to be freed over damage
settle($node, $_, 'doc') foreach 'durable', 'lent';
$node->stop;
my %was = map { $_ => slurp($segments{$_}) } keys %segments;
$kinds[$_][2]->($segments{ $mended[$_] }, $was{ $mended[$_] }, $earlier{ $mended[$_] }, data_file_of($node, $segments{ $mended[$_] }))
  foreach 0 .. $#kinds;
$others{$_}->($segments{$_}, $was{$_}) foreach keys %others;
my %damaged = map { $_ => slurp($segments{$_}) } @mended;
$node->start;

# ---- each kind is found, not touched by a dry run, mended ----
my %plans;
foreach my $i (0 .. $#kinds)
{
	my ($name, $like) = @{ $kinds[$i] };
	my $plan = $plans{ $mended[$i] } = repair($node, $mended[$i], 'true');
	like($plan, $like, "$name: what would be done");
	is(repair($node, $mended[$i], 'true'), $plan, "$name: a dry run tells the same again");
}
$node->safe_psql('postgres', 'CHECKPOINT');
foreach my $i (0 .. $#kinds)
{
	my $name = $kinds[$i][0];
	my $table = $mended[$i];
	ok(slurp($segments{$table}) eq $damaged{$table}, "$name: and changes nothing");
	is(repair($node, $table, 'false'), $plans{$table}, "$name: the same was done");
	rows_right($node, $table, $nrows{$table}, $name);
	sound($node, $table, $name);
	is(repair($node, $table, 'false'), '', "$name: nothing is left to do");
}
crash($node);
$node->start;
foreach my $i (0 .. $#kinds)
{
	my $name = $kinds[$i][0];
	sound($node, $mended[$i], "$name, after a crash");
	fill($node, $mended[$i], 201, 210, 200_000);
	rows_right($node, $mended[$i], $nrows{ $mended[$i] } + 10, "$name, after a crash, and new rows");
}

# ---- a value that is not sound: nothing is given away ----
my $plan = repair($node, 'unsound', 'false');
like($plan, qr/^none\|.*\n/m, 'a damaged value: nothing is done about it');
unlike($plan, qr/^set free/m, 'and nothing is set free');
my $inode = oldest_inode($was{unsound});
my $count = $node->safe_psql('postgres', "SELECT count(*) FROM unsound, securefile_salvage(doc) s WHERE problem IS NOT NULL");
is($count, 1, 'one of its units cannot be read');
$node->safe_psql('postgres', "SELECT securefile_maintain('unsound', 'doc')");
$node->safe_psql('postgres', 'CHECKPOINT');
my $sector = unpack('Q<', substr($was{unsound}, $inode * PAGE + CONTENT + 32 + 24 * 3, 8));
my $map = 1 + 8 * int($sector / 32768);
is(unpack('H*', substr(slurp($segments{unsound}), $map * PAGE + USED + $sector % 32768 / 8, 32)), 'ff' x 32, 'the place of that unit is still marked used');
fill($node, 'unsound', 301, 330, 500_000);
$node->stop;
patch($segments{unsound}, $inode * PAGE, page_of($was{unsound}, $inode));
$node->start;
rows_right($node, 'unsound', $nlarge + 30, 'once the page is put back the value is whole: its space was kept');
like(repair($node, 'unsound', 'false'), qr/^set free\|/m, 'now what nobody owns is set free');
sound($node, 'unsound', 'nothing is lost for good');

# ---- old snapshots keep what they see; readers go on, writers wait ----
my $reader = background($node);
my $see = 'SELECT count(*), bool_and(doc::bytea = blob(seed, len)) FROM snapshots';
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->query_safe($see), "$nlarge|t", 'a snapshot');
$node->safe_psql('postgres', 'UPDATE snapshots SET seed = seed + 1, doc = blob(seed + 1, len); DELETE FROM snapshots WHERE id = 3');
arm($node, 'repair_done', 'wait');
my $repairer = background($node);
$repairer->query_until(qr/^$/, "SELECT count(*) FROM securefile_repair('snapshots', 'doc', false);\n");
$node->poll_query_until('postgres', "SELECT securefile_fault_fired('repair_done') > 0");
is($reader->query_safe($see), "$nlarge|t", 'readers go on, and see old versions');
my $writer = background($node);
$writer->query_until(qr/^$/, "INSERT INTO snapshots VALUES (401, 1, 5000000, blob(1, 5000000));\n");
wait_for_sql($node, q{SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'RowExclusiveLock'}, 1);
disarm($node);
$repairer->quit;
$writer->quit;
fill($node, 'snapshots', 402, 430, 200_000);
$node->safe_psql('postgres', "SELECT securefile_maintain('snapshots', 'doc')");
is($reader->query_safe($see), "$nlarge|t", 'nor is their space used again');
is(repair($node, 'snapshots', 'true'), '', 'which is pending: nothing to repair');
$reader->query_safe('COMMIT');
$reader->quit;
rows_right($node, 'snapshots', $nlarge - 1 + 30, 'old snapshot');
sound($node, 'snapshots', 'old snapshot');

# ---- what backends keep lent is given back before it is marked used ----
my $keeper = background($node);
$keeper->query_safe('INSERT INTO lent SELECT i, i, 1000000, blob(i, 1000000) FROM generate_series(502, 510) i');
like(repair($node, 'lent', 'false'), qr/^mark used\|owned but free/m, 'a map that took all for free while a session lent from it');
$keeper->query_safe("INSERT INTO lent SELECT i, i, 50000, blob(i, 50000) FROM generate_series(511, 520) i");
$keeper->quit;
is($node->safe_psql('postgres', 'SELECT count(*) FROM lent WHERE id > 501 AND doc::bytea = blob(seed, len)'), 19, 'what it wrote before and after is right');
note('overwritten before the repair: ' . $node->safe_psql('postgres', q{
	DELETE FROM lent WHERE id > 500;
	SELECT string_agg(DISTINCT ctid::text, ',') FROM securefile_check('lent', 'doc')}));
$node->safe_psql('postgres', "DELETE FROM lent WHERE ctid IN (SELECT ctid FROM securefile_check('lent', 'doc'))");
repair($node, 'lent', 'false');
sound($node, 'lent', 'a map that took all for free');

# ---- an error, and a crash, at each step ----
my $nrows = $nlarge - 1;
my $nsteps = 0;
my @ways = ('kill', 'error', 'panic');
for (my $failed = 1; $failed;)
{
	my $action = $ways[ $nsteps % 3 ];
	my $name = "$action at step $nsteps";
	my $table = $steps[$nsteps] or die 'more steps than tables';
	my $sql = "SELECT count(*) FROM securefile_repair('$table', 'doc', false)";
	if ($action eq 'error')
	{
		arm($node, 'repair_page', 'error', skip => $nsteps);
		$failed = ($node->psql('postgres', $sql))[0] != 0;
		disarm($node);
	}
	else
	{
		$failed = dies_at($node, 'repair_page', $action, $sql, skip => $nsteps);
	}
	rows_right($node, $table, $nrows, $name);

	# as long as the map is damaged this fails, later not
	$node->psql('postgres', "INSERT INTO $table SELECT i, i, 1000000, blob(i, 1000000) FROM generate_series(601, 605) i");
	repair($node, $table, 'false');
	sound($node, $table, "$name, repaired");
	is($node->safe_psql('postgres', "SELECT count(*) FROM $table WHERE doc::bytea IS DISTINCT FROM blob(seed, len)"), 0, "$name, repaired: all rows");
	$nsteps++ if $failed;
}
cmp_ok($nsteps, '>=', 5, "$nsteps steps failed");
ok(dies_at($node, 'repair_done', 'kill', q{SELECT count(*) FROM securefile_repair('before_commit', 'doc', false)}), 'killed before the commit');
rows_right($node, 'before_commit', $nrows, 'killed before the commit');
repair($node, 'before_commit', 'false');
sound($node, 'before_commit', 'killed before the commit, repaired');

# ---- what was done is durable when it returns, also without a transaction id ----
my $did = $node->safe_psql('postgres', q{
	SET synchronous_commit = off;
	SELECT string_agg(DISTINCT action, ',') FROM securefile_repair('durable', 'doc', false);
	SELECT pg_current_wal_insert_lsn() <= pg_current_wal_flush_lsn()});
like($did, qr/^(correct,)?mark used\nt$/, 'repaired, without an entry, and flushed');
crash($node);
$node->start;
unlike(repair($node, 'durable', 'true'), qr/^mark used/m, 'and there after a crash');
repair($node, 'durable', 'false');
sound($node, 'durable', 'and there after a crash');

# ---- and a crash in its replay ----
$node->safe_psql('postgres', 'CREATE EXTENSION pg_walinspect; CHECKPOINT');
my $repair_from = $node->lsn('insert');
repair($node, 'replayed', 'false');
$node->safe_psql('postgres', "INSERT INTO replayed VALUES (601, 1, 200000, blob(1, 200000))");
# how many changes of pages are replayed before the first one of the repair
my $before_repair = $node->safe_psql('postgres', qq{
	WITH pages AS (SELECT row_number() OVER (ORDER BY start_lsn) - 1 AS n, description
		FROM pg_get_wal_records_info('$repair_from', pg_current_wal_flush_lsn()) WHERE record_type = 'PAGES')
	SELECT min(n) FROM pages WHERE description ~ 'REPAIR'});
like($before_repair, qr/^\d+$/, 'a repair has records of its own');
$node->stop('immediate');
{
	local $ENV{SECUREFILE_FAULT} = "redo_pages:kill:$before_repair";
	ok(!$node->start(fail_ok => 1), 'recovery dies at a page that was made anew');
}
$node->start;
rows_right($node, 'replayed', $nrows + 1, 'after it');
sound($node, 'replayed', 'after it');

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
like(repair($node, 'headless', 'false'), qr/^none\|unreadable\|.*page 0 of segment relation/m, 'no header page: nothing can be done');
$node->stop('immediate');
done_testing();
