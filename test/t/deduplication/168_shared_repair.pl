# Share records where a check or a repair is in danger of doing too much: space that is given
# back half, values that are damaged themselves, old snapshots, a repair that is cut off, and
# a standby.  What the sums of securefile_usage() say of shared objects.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages;
use SecurefileShares;
use SecurefileTest;
use Test::More;

my $node = new_cluster('shared_repair', conf => [ 'securefile.monitor = off', 'full_page_writes = off',
		'checkpoint_timeout = 1h', 'max_wal_size = 4GB', 'restart_after_crash = on' ]);
need_faults($node);
my $found = sub { return sql("SELECT finding, detail FROM securefile_check('$_[0]', 'doc')") };
my $unit = 131072;

# All rows are right, all is sound, every reference is counted, and no space is lost.
sub is_whole
{
	my ($t, $nrows, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(join(' ', answers($node, counted($t), checked($t), outlived($t))), "$nrows|0  0\n0|0|0", "$name: all rows, all references, all space");
}

# ---- securefile_usage() ----

sql('CREATE TABLE used (id int PRIMARY KEY, seed int, len int, doc securefile(deduplicate))',
	'INSERT INTO used SELECT i, i % 2, 100000 - 40000 * (i % 2), blob(i % 2, 100000 - 40000 * (i % 2)) FROM generate_series(1, 7) i',
	'INSERT INTO used SELECT 8, 8, 13000000, blob(8, 13000000)');
my $usage = 'SELECT live_bytes, pending_bytes, shared_objects, shared_references, saved_bytes FROM securefile_usage(%s, %s)';
$usage = sprintf($usage, q{'used'}, q{'doc'});
my ($even, $odd, $large) = (100352, 60416, 13000192);
is(sql($usage), join('|', $even + $odd + $large, 0, 3, 8, 2 * $even + 3 * $odd), 'usage: shared objects, references, saved bytes');
my $snapshot = background($node);
$snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM used');
sql('DELETE FROM used WHERE id IN (1, 3, 5, 8)', maintained('used'));
is(sql($usage), join('|', $even + $odd, $large, 3, 8, 2 * $even + 3 * $odd), 'usage: what an old snapshot sees is counted');
sql('DELETE FROM used WHERE id = 7', maintained('used'));
is(sql($usage), join('|', $even, $odd + $large, 3, 8, 2 * $even + 3 * $odd), 'usage: and is pending once no other row has it');
is($found->('used'), '', 'usage: which is sound');
$snapshot->quit;
sql(maintained('used'));
is(sql($usage), join('|', $even, 0, 1, 3, 2 * $even), 'usage: then it is gone');
is_whole('used', 3, 'usage');

# ---- a check inside the transaction that refers ----

sql(made('inside'));
is(sql('BEGIN', copied('inside', 1, 30), stored('inside', 31, 50000), 'SAVEPOINT s', copied('inside', 4, 32), stored('inside', 33, 50000), 'ROLLBACK TO s',
		deleted('inside', 2, 7, 8), "SELECT finding, detail FROM securefile_check('inside', 'doc')", 'COMMIT'), '', 'inside a transaction all is sound');
is($found->('inside'), '', 'and after it');

# ---- space that is given back half ----

# Entries of the queue that a table has on disk.
sub queue_length
{
	my ($t) = @_;
	sql('CHECKPOINT');
	my $all = slurp(segment_of($node, $t));
	my $n = 0;
	$n += unpack('v', substr($all, $_ * PAGE + CONTENT + 4, 2)) foreach pages_of($all, PAGE_PENDING);
	return $n;
}

# All rows of a large content go, and the server is killed when the resolver has handed over
# the first $n of its runs and pages.  Prepared transactions keep the page of the queue full,
# so that there is room for one more entry only.
sub given_back
{
	my ($t, $n) = @_;
	sql(made($t), "INSERT INTO $t SELECT i, 20, 13000000, blob(20, 13000000) FROM generate_series(20, 21) i",
		"INSERT INTO $t SELECT i, i, 4100, blob(i, 4100) FROM generate_series(3000, 3030) i", maintained($t));
	my $deleter = background($node);
	$deleter->query_safe("BEGIN; DELETE FROM $t WHERE id IN (20, 21)");
	sql('BEGIN', "INSERT INTO $t SELECT i, i, 4100, blob(i, 4100) FROM generate_series(1000, 1309) i", "PREPARE TRANSACTION 'stored'");
	# one of 338 is for what is deleted, and one is left
	my $copies = 336 - queue_length($t);
	cmp_ok($copies, '>', 0, "$t: the page is nearly full");
	sql('BEGIN', "INSERT INTO $t SELECT id + 1000, seed, len, doc FROM $t WHERE id BETWEEN 3000 AND 2999 + $copies", "PREPARE TRANSACTION 'copied'");
	$deleter->query_safe('COMMIT');
	my $resolver = background($node);
	ok(held($node, $resolver, 'reap_before_free', "SELECT securefile_maintain('$t', 'doc')", skip => $n), "$t: stops while the space is given back");
	sql("SELECT pg_logical_emit_message(true, 'flush', '')");
	crash($node);
	eval { $_->quit } foreach $deleter, $resolver;
	$node->start;
	sql("COMMIT PREPARED 'stored'", "COMMIT PREPARED 'copied'", 'CHECKPOINT');
	my $all = slurp(segment_of($node, $t));
	is(join(' ', map { unpack('V', substr($all, $_->[0] * PAGE + $_->[1] + 16, 4)) } entries_of($all, REAP)), "$n", "$t: $n of it has been");
	is($found->($t), '', "$t: which is sound");
	return;
}
given_back('half', 1);
given_back('begun_lost', 0);
given_back('half_lost', 1);
my @lost = ('begun_lost', 'half_lost');
my %nrows = nrows($node, 'half', @lost);
is_whole('half', $nrows{half}, 'half: goes on');

# ---- tables that are damaged with one stop ----

my @steps = map { "step_$_" } 0 .. 7;
my @others = ('torn', 'mapless', 'unmapped', 'partly', 'numbered', 'listed', 'advised', 'snapped', 'low', 'strange');
sql(map { made($_) } @steps, @others);
sql(map({ stir($_) } @steps, 'torn', 'listed', 'snapped', 'low', 'strange'),
	"INSERT INTO mapless SELECT i, 20, 13000000, blob(20, 13000000) FROM generate_series(20, 21) i",
	"INSERT INTO unmapped SELECT i, 20, 13000000, blob(20, 13000000) FROM generate_series(20, 22) i",
	'DELETE FROM mapless WHERE id >= 20',
	# no row has the newest object
	stored('numbered', 18, 70000), deleted('numbered', 18),
	# a row has the beginning of a shared object, whose map has two leaves
	'INSERT INTO partly VALUES (20, 20, 300000, securefile_truncate(blob(20, 300000)::securefile, 60000000) || blob(21, 300000)::securefile)',
	copied('partly', 20, 21), 'UPDATE partly SET doc = securefile_truncate(doc, 300000) WHERE id = 21', 'DELETE FROM partly WHERE id = 20', maintained('partly'),
	'INSERT INTO advised SELECT i, i, 140000, blob(i, 140000) FROM generate_series(20, 20) i',
	# more records than two pages have room for
	'INSERT INTO listed SELECT i, i, 4100, blob(i, 4100) FROM generate_series(1000, 1099) i',
	copied('listed', 1000, 2000), copied('listed', 1050, 2001), copied('listed', 1099, 2002));
my @all = (@steps, @others);
my %segments = segments($node, @all, @lost);
%nrows = (%nrows, nrows($node, @all));
is(join('', answers($node, map { checked($_) } @all)), '', 'all is sound before');

$node->stop;
my %was = map { $_ => slurp($segments{$_}) } keys %segments;

# damage of the three values of content 1, in their data; of counts
my $data = data_file_of($node, $segments{torn});
patch($data, block_at($data, 1, 3), "\1");
my $record = record_of($was{torn}, 200000);
set_record($segments{torn}, $record, AT_REFERENCES, pack('V', $record->{references} + 1));
$record = record_of($was{torn}, 5000);
set_record($segments{torn}, $record, AT_REFERENCES, pack('V', 0));

# the map of an object that no row has any more, and of one that three rows have
zero_pages($segments{$_}, $was{$_}, PAGE_INODE) foreach 'mapless', 'unmapped';

# the leaf of a map that no row has a part of
my ($leaf) = grep { my $page = page_of($was{partly}, $_); unpack('v', substr($page, CONTENT + 24, 2)) == 0 && unpack('Q<', substr($page, CONTENT + 16, 8)) > 0 } pages_of($was{partly}, PAGE_INODE);
patch($segments{partly}, $leaf * PAGE, "\0" x PAGE);

# the number of the newest object is given out next
change($segments{numbered}, 0, NEXT_OBJECT, pack('Q<', record_of($was{numbered}, 70000)->{object}));

# the middle one of three share pages
my @pages = pages_of($was{listed}, PAGE_SHARE);
cmp_ok(scalar(@pages), '>=', 3, 'several share pages');
patch($segments{listed}, $pages[1] * PAGE, "\0" x PAGE);

# all that advice has
zero_pages($segments{advised}, $was{advised}, $_) foreach 8 .. 10;

# an entry that keeps the queue from being kept
change($segments{snapped}, (entries_of($was{snapped}, SHARE_NEW))[0][0], PENDING_ENTRIES, pack('Q<', (1 << 50) + 100));

zero_pages($segments{$_}, $was{$_}, PAGE_PENDING) foreach @steps, @lost;
zero_pages($segments{$_}, $was{$_}, PAGE_SHARE) foreach @steps;

# a count that is too low, for the standby
$record = record_of($was{low}, 100000);
set_record($segments{low}, $record, AT_REFERENCES, pack('V', 1));

# a record that says another object than its locator does
$record = record_of($was{strange}, 100000);
set_record($segments{strange}, $record, 0, pack('Q<', $record->{object} + 1));

$node->start;

# ---- a record of another object ----

sql('INSERT INTO strange SELECT 1000, 1, 100000, blob(1, 100000)');
is((answers($node, counted('strange')))[0], "@{[ $nrows{strange} + 1 ]}|0", 'a record of another object: all rows, and its content is stored anew');
like(sql("SELECT string_agg(finding || ': ' || detail, ';') FROM securefile_check('strange', 'doc')"), qr/share record has the locator of another object|reference to nothing/, 'a record of another object: found');
repair($node, 'strange', 'false');
is_whole('strange', $nrows{strange} + 1, 'a record of another object');

# ---- a queue that is lost while space is given back ----

foreach my $t (@lost)
{
	like(repair($node, $t, 'false'), qr/^set free\|shared object nobody refers to\|[^\n]*is dead/m, "$t: the queue is lost");
	is_whole($t, $nrows{$t}, "$t: the queue is lost");
}

# ---- a value that is damaged: every row is listed, nothing is given away ----

is(sql("SELECT finding, t.id, segment_offset IS NOT NULL, CASE WHEN detail LIKE 'the value is that of row%' THEN 'again' END"
		  . " FROM securefile_check('torn', 'doc') c JOIN torn t ON t.ctid = c.ctid WHERE finding = 'checksum mismatch' ORDER BY 2"),
	"checksum mismatch|1|t|\nchecksum mismatch|3|f|again\nchecksum mismatch|9|f|again", 'a damaged object: each row that has it is listed');
my $plan = repair($node, 'torn', 'false');
like($plan, qr/^correct\|wrong reference count\|[^\n]*too low/m, 'a damaged object: a count that is too low is raised');
like($plan, qr/^keep\|wrong reference count\|[^\n]*too high/m, 'a damaged object: one that is too high is kept');
unlike($plan, qr/^set free/m, 'a damaged object: nothing is set free');
like(repair($node, 'torn', 'true'), qr/^keep\|wrong reference count\|[^\n]*too high(?!.*too low)/ms, 'a damaged object: that was all');
is(sql("SELECT count(*) FILTER (WHERE data = substring(blob(1, 100000), start::int, s.length::int)), count(problem) FROM torn, securefile_salvage(doc) s WHERE seed = 1"),
	'0|3', 'securefile_salvage() says of each row what is lost');
is(sql("SELECT count(*) FROM torn, securefile_salvage(doc) s WHERE id = 4 AND data = substring(blob(4, 200000), start::int, s.length::int)"), 2, 'and returns what is sound of a shared value');
sql("UPDATE torn SET doc = blob(1, 100000) WHERE seed = 1");
like(repair($node, 'torn', 'false'), qr/^correct\|wrong reference count\|[^\n]*too high/m, 'the rows mended: now it is lowered');
is_whole('torn', $nrows{torn}, 'a damaged object');

# ---- a map that is damaged ----

like(repair($node, 'mapless', 'false'), qr/^rebuild lists of pages\|unreadable\|/m, 'a map that no row needs: its record is forgotten');
is_whole('mapless', $nrows{mapless}, 'a map that no row needs');
is(sql("SELECT count(DISTINCT ctid) FROM securefile_check('unmapped', 'doc')"), 3, 'a map that rows need: each is listed');
my $saved = q{SELECT saved_bytes FROM securefile_usage('unmapped', 'doc')};
is(sql($saved), 2 * 100352 + 200192 + 9216, 'a map that rows need: usage counts the others');
$plan = repair($node, 'unmapped', 'false');
unlike($plan, qr/^(set free|correct|rebuild record)\|/m, 'a map that rows need: nothing is done');
$node->stop;
patch($segments{unmapped}, $_ * PAGE, page_of($was{unmapped}, $_)) foreach pages_of($was{unmapped}, PAGE_INODE);
$node->start;
is(sql($saved), 2 * 100352 + 200192 + 9216 + 2 * $large, 'a map that rows need, and that comes back: counted, too');
is_whole('unmapped', $nrows{unmapped}, 'a map that rows need, and that comes back');

is(sql("SELECT finding, detail ~ '^inode page $leaf of' FROM securefile_check('partly', 'doc') ORDER BY 2 DESC NULLS LAST LIMIT 1"), 'unreadable|t', 'a part of a map that no row has: found');
$plan = repair($node, 'partly', 'false');
note($plan);
unlike($plan, qr/^set free\|/m, 'a part of a map that no row has: nothing is given away');
sql(maintained('partly'), "INSERT INTO partly SELECT i, i, 300000, blob(i, 300000) FROM generate_series(1001, 1020) i");
is((answers($node, counted("partly")))[0], "@{[ $nrows{partly} + 20 ]}|0", 'a part of a map that no row has: all rows');

# ---- numbers ----

like(repair($node, 'numbered', 'false'), qr/^correct\|header page behind\|\|\|[^\n]*takes object \d+ for the next[^\n]*\z/, 'the number of a record without rows is not given out again');
is_whole('numbered', $nrows{numbered}, 'the number of a record without rows');

# ---- several pages ----

like(repair($node, 'listed', 'false'), qr/^rebuild lists of pages\|damaged list of pages\|[^\n]*does not lead to page $pages[0]$/m, 'a page in the middle: the list ends there');
is_whole('listed', $nrows{listed}, 'a page in the middle');

# ---- advice ----

# What the advice has, and what it has to have by the records that can be found: key, hash of all
# bytes, page, cell.
sub advice_of
{
	my ($all) = @_;
	return sort map {
		my $page = page_of($all, $_);
		map { join(' ', unpack('Q< Q< V v', substr($page, CONTENT + 136 + 24 * $_, 24))) } 0 .. unpack('v', substr($page, CONTENT + 4, 2)) - 1
	} pages_of($all, 8);
}

sub advice_due
{
	my ($all) = @_;
	my @due;
	foreach my $r (grep { $_->{state} == NEW || $_->{state} == LIVE } records($all))
	{
		my ($full, $prefix, $method) = unpack('Q< x8 Q< x9 C', substr($all, $r->{page} * PAGE + $r->{at} + 24, 34));
		push @due, join(' ', $prefix || $full, $full, $r->{page}, $r->{cell}) if $method;
	}
	return sort @due;
}

sub advice_is_due
{
	my ($t, $n, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql('CHECKPOINT');
	my $all = slurp($segments{$t});
	my @due = advice_due($all);
	is(scalar(@due), $n, "$name: so many entries");
	return is(join("\n", advice_of($all)), join("\n", @due), $name);
}

my @due = advice_due($was{advised});
my %is_due = map { $_ => 1 } @due;
is(scalar(grep { $is_due{$_} } advice_of($was{advised})), scalar(@due), 'there was advice on all records');
is(scalar(grep { !/^(\d+) \1 / } @due), 2, 'of two by their first units');
like(repair($node, 'advised', 'true'), qr/^rebuild page\|damaged page\|[^\n]*advice on duplicates, which a repair makes anew; nothing is lost/m, 'advice of zeros');
arm($node, 'advice_look_up', 'error', skip => 3);
isnt(($node->psql('postgres', "SELECT count(*) FROM securefile_repair('advised', 'doc', false)"))[0], 0, 'a repair is cut off while it makes advice');
disarm($node);
cmp_ok(scalar(advice_of(slurp($segments{advised}))), '<', scalar(@due), 'it has not made all of it') if sql('CHECKPOINT') eq '';
is(repair($node, 'advised', 'false'), '', 'it is sound');
advice_is_due('advised', scalar(@due), 'and then there is advice on all records again');
my $objects = sql("SELECT shared_objects FROM securefile_usage('advised', 'doc')");
sql("INSERT INTO advised SELECT 200 + id, seed, len, blob(seed, len) FROM advised WHERE id IN (1, 4, 6)");
is(sql("SELECT shared_objects FROM securefile_usage('advised', 'doc')"), $objects, 'contents are found to be there');
is_whole('advised', $nrows{advised} + 3, 'advice made anew');

# ---- old snapshots ----

my $reader = background($node);
my $see = 'SELECT count(*), bool_and(doc::bytea = blob(seed, len)) FROM snapped';
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->query_safe($see), "$nrows{snapped}|t", 'a snapshot');
sql('DELETE FROM snapped WHERE id <> 6');
like(repair($node, 'snapped', 'false'), qr/^rebuild lists of pages\|pending entry can never resolve/m, 'a queue that is forgotten under a snapshot');
sql('INSERT INTO snapped SELECT i, i, 90000, blob(i, 90000) FROM generate_series(1000, 1020) i', maintained('snapped'),
	'INSERT INTO snapped SELECT i, i, 90000, blob(i, 90000) FROM generate_series(2000, 2020) i');
is($found->('snapped'), '', 'a queue that is forgotten under a snapshot: all is sound');
is($reader->query_safe($see), "$nrows{snapped}|t", 'which still sees all values');
$reader->quit;
is_whole('snapped', 43, 'a queue that was forgotten under a snapshot');

# ---- a repair that is cut off ----

my ($failed, $nsteps) = (1, 0);
for (; $failed; $nsteps++)
{
	my $t = $steps[$nsteps] or die 'more steps than tables';
	my $repair = "SELECT count(*) FROM securefile_repair('$t', 'doc', false)";
	if ($nsteps == 2)
	{
		$failed = dies_at($node, 'repair_page', 'kill', $repair, skip => $nsteps);
	}
	else
	{
		arm($node, 'repair_page', 'error', skip => $nsteps);
		$failed = ($node->psql('postgres', $repair))[0] != 0;
		disarm($node);
	}
	# what there is by then is settled, and used
	$node->psql('postgres', maintained($t));
	$node->psql('postgres', "INSERT INTO $t SELECT i, i, 60000, blob(i, 60000) FROM generate_series(500, 509) i");
	is(sql("SELECT count(*) FROM $t WHERE id < 500 AND doc::bytea = blob(seed, len)"), sql("SELECT count(*) FROM $t WHERE id < 500"), "cut off at step $nsteps: all rows");
	repair($node, $t, 'false');
	is_whole($t, sql("SELECT count(*) FROM $t"), "cut off at step $nsteps, repaired");
}
cmp_ok($nsteps, '>=', 4, "a repair was cut off at $nsteps steps");

# ---- a standby does not compare counts ----

like($found->('low'), qr/^wrong reference count\|/m, 'a count that is too low, here');
$node->backup('copy');
my $standby = new_standby('shared_standby', $node, 'copy');
catch_up($node, $standby);
is($standby->safe_psql('postgres', "SELECT finding, detail FROM securefile_check('low', 'doc')"), '', 'is none on a standby');
rows_right($standby, 'low', sql('SELECT count(*) FROM low'), 'standby');
repair($node, 'low', 'false');
is_whole('low', sql('SELECT count(*) FROM low'), 'here it is mended');
catch_up($node, $standby);
is($standby->safe_psql('postgres', "SELECT live_bytes, shared_objects FROM securefile_usage('low', 'doc')"), '0|0', 'and there, too');
$standby->stop;

# ---- an older share page, whose free cells are taken since then ----

sql(made('older'), 'CHECKPOINT');
my $older = segment_of($node, 'older');
my $was = slurp($older);
sql(stored('older', 20, 300000), copied('older', 20, 21), q{UPDATE older SET doc = overlay(doc PLACING 'xyz'::bytea::securefile FROM 200000) WHERE id = 21},
	(map { stored('older', $_, 4100) } 22 .. 27), copied('older', 27, 28));
$node->stop;
patch($older, $_ * PAGE, page_of($was, $_)) foreach pages_of($was, PAGE_SHARE);
$node->start;
sql(map { stored('older', $_, 50000) } 30 .. 33);
my $lost = sub { return sql("SELECT action, string_agg(id::text, ' ' ORDER BY id) FROM securefile_repair('older', 'doc', $_[0]) r JOIN older o ON o.ctid = r.ctid"
		  . " WHERE finding = 'reference to nothing' AND (action = 'rebuild record' OR detail ~ 'store the value of the row again') GROUP BY 1 ORDER BY 1") };
my $right = sub { return sql("SELECT count(*) FROM older WHERE doc::bytea = CASE id WHEN 21 THEN overlay(blob(20, 300000) PLACING 'xyz' FROM 200000) ELSE blob(seed, len) END") };
is($lost->('true'), "none|20 21 22 23 24\nrebuild record|25 26 27 28", 'an older page: records whose cells are taken cannot come back');
is($lost->('false'), "none|20 21 22 23 24\nrebuild record|25 26 27 28", 'and the others do');
is($lost->('false'), 'none|20 21 22 23 24', 'a repair does not promise what it does not do');
is($right->(), 21, 'an older page: all rows');
sql('DELETE FROM older WHERE id = 22', "UPDATE older SET doc = doc::bytea WHERE ctid IN (SELECT ctid FROM securefile_check('older', 'doc'))");
isnt(repair($node, 'older', 'false'), '', 'their values stored again, or deleted: what they had is set free');
is(repair($node, 'older', 'true'), '', 'and all is sound');
is($right->(), 20, 'and right');
sql("UPDATE older SET doc = blob(20, 300000) WHERE id = 21");
is_whole('older', 20, 'an older page');

# ---- changed versions of a value whose map is damaged ----

sql(made('based'), 'INSERT INTO based SELECT i, 20, 13000000, blob(20, 13000000) FROM generate_series(20, 22) i',
	q{UPDATE based SET doc = overlay(doc PLACING 'xyz'::bytea::securefile FROM 200000) WHERE id > 20});
my $based = segment_of($node, 'based');
# the root of the shared object; versions have their own
my ($root) = map { unpack('V', substr(slurp($based), $_->{page} * PAGE + $_->{at} + AT_LOCATOR + 48, 4)) } grep { $_->{length} == 13000000 }
  sql('CHECKPOINT') eq '' ? records(slurp($based)) : ();
$node->stop;
patch($based, $root * PAGE, "\0" x PAGE);
$node->start;
my $of_rows = q{SELECT id, finding FROM %s JOIN based b ON b.ctid = c.ctid ORDER BY 1};
$of_rows = sprintf $of_rows, q{securefile_check('based', 'doc') c};
is(sql($of_rows), "20|unreadable\n21|shared map unreadable\n22|shared map unreadable", 'a map of which rows have changed versions');
is(sql("SELECT count(*) FROM based WHERE id > 20 AND doc::bytea = overlay(blob(20, 13000000) PLACING 'xyz' FROM 200000)"), 2, 'these can be read');
unlike(repair($node, 'based', 'false'), qr/^(set free|correct|rebuild record|rebuild lists of pages)\|/m, 'while they are there nothing is set free');
sql('DELETE FROM based WHERE id = 20');
is(sql($of_rows), "21|shared map unreadable\n22|shared map unreadable", 'also without the row that cannot be read');
like(sql("SELECT DISTINCT detail FROM securefile_check('based', 'doc') WHERE finding = 'shared map unreadable'"),
	qr/^the map of object \d+, of which the row has a changed version, cannot be read \(inode page $root of [^\n]*, the value of the row can, [^\n]*: store the value of the row again, or delete the row, then repair once more\z/, 'the finding says what to do');
sql('UPDATE based SET doc = doc::bytea WHERE id = 21', 'DELETE FROM based WHERE id = 22');
like(repair($node, 'based', 'false'), qr/^rebuild lists of pages\|/m, 'that done, the repair goes on');
is(repair($node, 'based', 'true'), '', 'and all is sound');
sql('UPDATE based SET doc = blob(20, 13000000) WHERE id = 21');
is_whole('based', 9, 'changed versions');

unlike(slurp($node->logfile), qr/TRAP: |PANIC|\bXX000\b/, 'no crash');
$node->stop;
done_testing();
