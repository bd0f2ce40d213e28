# CALL securefile_shrink(.., 'move') and securefile_shrink_some(): after most values are deleted, those
# behind are stored again in front and the files are cut.  Files get short, for values of all sizes and
# transforms; contents stay what they are, under an older snapshot, too; what cannot move is passed over
# and told; what must not move is refused.  The segment never grows for it.
#
# SECUREFILE_MOVE_MB: bytes of each column at first, with values of 10 KB, 256 KB and 20 MB and a mixture
# (12, and shorter values).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileSpace;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(sleep);

my $keys = PostgreSQL::Test::Utils::tempdir() . '/keys';
append_to_file($keys, 'one ' . ('11' x 32) . "\n");
chmod 0644, $keys;
my $node = new_cluster('move', conf => [ 'securefile.monitor = off', 'autovacuum = off', 'restart_after_crash = on', 'wal_level = logical', 'max_wal_size = 128MB',
		'securefile.shrink_rate = 0', "securefile.key_command = 'cat $keys'" ]);
need_faults($node);
my $mb = $ENV{SECUREFILE_MOVE_MB} || 12;
my $is_long = $mb > 100;

# Nothing here waits for others.  What does must end, and then the test fails.
my $ends = sprintf('SET lock_timeout = %d; SET statement_timeout = %d', patience() * 1000 / 6, patience() * 1000 / 3);

# Statements, and what they print besides: NOTICEs.
sub told
{
	my (@sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", $ends, @sql));
	return $rc == 0 ? $err : "failed: $err";
}
sub move { return told("CALL securefile_shrink('$_[0]', 'doc', 'move')"); }
sub contents { return "SELECT count(*), md5(string_agg(id || securefile_digest(doc, 'xxh3')::text, ',' ORDER BY id)) FROM $_[0]"; }

# A column of which the rows that a condition names are deleted; returns the bytes of its files.
sub with_free
{
	my ($table, $options, $rows, $len, $deleted) = @_;
	sql("CREATE TABLE $table (id int PRIMARY KEY, seed int, len int, doc securefile" . ($options ? "($options)" : '') . ', note int DEFAULT 0)',
		"INSERT INTO $table SELECT i, i, len, blob(i, len) FROM generate_series(1, $rows) i, LATERAL (SELECT $len AS len) l", "DELETE FROM $table WHERE $deleted");
	return settle($node, $table, 'doc')->{file_bytes};
}

# ---- files get short ----

my %shapes = (
	small => [ 10240, '10240' ],
	quarter => [ 262_144, '262144' ],
	large => $is_long ? [ 20_000_000, '20000000' ] : [ 1_500_000, '1500000' ],
	mixed => $is_long ? [ 120_000, 'CASE i % 100 WHEN 0 THEN 20000000 WHEN 1 THEN 2000000 ELSE 1000 + i % 7 * 16000 END' ] : [ 60_000, 'CASE i % 40 WHEN 0 THEN 1000000 ELSE 6000 + i % 7 * 9000 END' ]);
my %transforms = (plain => '', packed => 'compress', secret => 'encrypt', all => 'compress_high, hash, encrypt');

sub gets_short
{
	my ($shape, $transform) = @_;
	my ($mean, $len) = @{ $shapes{$shape} };
	my $rows = int(mb($mb) / $mean) + 4;
	my $table = "${shape}_$transform";
	# half of a value is noise, so that it takes room when it is compressed
	sql('SELECT setseed(0.5)', "CREATE TABLE $table (id int PRIMARY KEY, doc securefile(" . join(', ', 'disable_storage_in_row', $transforms{$transform} || ()) . '))',
		"INSERT INTO $table SELECT i, noise(i, (len + 1) / 2) || blob(i, len / 2) FROM generate_series(1, $rows) i, LATERAL (SELECT $len AS len) l",
		'SELECT setseed(0.25)', "DELETE FROM $table WHERE random() < 0.75 AND id < $rows");
	my $full = settle($node, $table, 'doc')->{file_bytes};
	my $digest = sql(contents($table));
	my $old = background($node);
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; ' . contents($table));
	my $told = move($table);
	is($old->query_safe(contents($table)), $digest, "$table: contents under an older snapshot");
	cmp_ok(file_bytes($table), '<=', $full, 'the files have not grown');
	$old->query_safe('COMMIT');
	$old->quit;
	# what the snapshot needed is free now
	my $usage = settle($node, $table, 'doc');
	settle($node, $table, 'doc') foreach 1 .. 3;
	$usage = settle($node, $table, 'doc');
	note(sprintf('%s: %.1f MB, then %.1f; live %.1f: %.2f; %s', $table, $full / mb(1), $usage->{file_bytes} / mb(1), $usage->{live_bytes} / mb(1), $usage->{file_bytes} / $usage->{live_bytes}, $told));
	# a cut leaves an eighth of what was there, and the limit a little
	cmp_ok($usage->{file_bytes}, '<=', 1.25 * $usage->{live_bytes} + min(mb(64), $full / 6), "$table: files are hardly longer than what lives");
	is(sql(contents($table)), $digest, "$table: contents");
	is(sql("SELECT count(*) FROM securefile_check('$table', 'doc')"), 0, "$table: sound");
	sql("DROP TABLE $table");
	return;
}
foreach my $shape (sort keys %shapes)
{
	gets_short($shape, $_) foreach $is_long ? sort keys %transforms : $shape eq 'mixed' ? ('packed', 'all') : ('plain');
}

# ---- some at a time, and beside writers ----

my $full = with_free('t', '', 60, '200000 + i', 'id % 4 > 0 AND id < 57');
my ($position, $calls, $moved) = ('NULL', 0, 0);
my $limit;
while ($position ne '' && $calls < 100)
{
	my ($n, $bytes, $skipped, $next) = split /\|/, sql("SELECT * FROM securefile_shrink_some('t', 'doc', 300000, $position)"), -1;
	$moved += $n;
	$calls++;
	$position = $next eq '' ? '' : "'$next'";
	$limit //= (split / /, $next)[7];
	sql("UPDATE t SET note = note + 1 WHERE id % 8 = 0", 'INSERT INTO t SELECT 1000 + ' . $calls . ', 1, 200, blob(1, 200)') if $calls % 2;
	is(file_bytes('t'), $full, 'the segment has not grown') if $calls < 3;
}
cmp_ok($calls, '>', 3, 'many batches');
cmp_ok($moved, '>=', 8, 'that many values were moved');
settle($node, 't', 'doc') foreach 1 .. 4;
cmp_ok(file_bytes('t'), '<', $full * 0.6, 'the files are shorter');
my @ends = map { $_->[0] + $_->[1] } used_runs('t');
cmp_ok((sort { $b <=> $a } @ends)[0], '<=', $limit, 'nothing lies beyond the limit');
rows_right($node, 't', sql('SELECT count(*) FROM t'), 'some at a time');
sound($node, 't', 'some at a time');

# Runs of sectors in use, [start, number], by the space map.
sub used_runs
{
	my ($table) = @_;
	sql('CHECKPOINT');
	my $all = slurp(segment_of($node, $table));
	my @runs;
	my $first = 0;
	foreach my $page (pages_of($all, PAGE_MAP))
	{
		my $used = substr($all, $page * PAGE + USED, 4096);
		push @runs, [ ($first + $-[0]) * 8, ($+[0] - $-[0]) * 8 ] while $used =~ /[^\0]+/g;
		$first += 4096;
	}
	return @runs;
}

# a transaction that has a region of its own elsewhere, and stores more after the batch
$full = with_free('own', '', 60, '200000', 'id % 4 > 0 AND id < 57');
sql("BEGIN; INSERT INTO own SELECT 2001, 2001, 100000, blob(2001, 100000); SAVEPOINT s; SELECT moved FROM securefile_shrink_some('own', 'doc', 3000000); INSERT INTO own SELECT 2002, 2002, 700000, blob(2002, 700000); COMMIT");
rows_right($node, 'own', 20, 'beside other values of the transaction');
sound($node, 'own', 'beside other values of the transaction');
sql("BEGIN; SELECT moved FROM securefile_shrink_some('own', 'doc'); ROLLBACK");
rows_right($node, 'own', 20, 'rolled back');
like(move('own'), qr/^$/, 'then nothing is in its way');
cmp_ok(file_bytes('own'), '<', $full * 0.5, 'and all is moved');
sound($node, 'own', 'moved');

# a session that has kept a region at the end, from its own INSERT, does not go on there
my @lines = split /\n/, sql('CREATE TABLE kept (id int PRIMARY KEY, seed int, len int, doc securefile)', 'INSERT INTO kept SELECT i, i, 200000, blob(i, 200000) FROM generate_series(1, 60) i', 'DELETE FROM kept WHERE id % 4 > 0 AND id < 57',
	"SELECT * FROM securefile_shrink_some('kept', 'doc')");
$moved = 0;
while (@lines)
{
	my ($n, $bytes, $skipped, $next) = split /\|/, $lines[-1], -1;
	$limit = (split / /, $next)[7] unless $moved;
	$moved += $n;
	@lines = $next eq '' ? () : sql("SELECT * FROM securefile_shrink_some('kept', 'doc', 67108864, '$next')");
}
is($moved, sql("SELECT count(*) FROM kept WHERE xmin <> (SELECT xmin FROM kept WHERE id = 4)"), 'each value is moved once');
settle($node, 'kept', 'doc');
cmp_ok((sort { $b <=> $a } map { $_->[0] + $_->[1] } used_runs('kept'))[0], '<=', $limit, 'a region that the session has kept is not used');
rows_right($node, 'kept', 18, 'a region that the session has kept');

# where an error ends the batch, the session may store values anywhere
with_free('ended', '', 60, '200000', 'id % 4 > 0 AND id < 57');
arm($node, 'shrink_row_updated', 'error');
sql("DO \$\$ BEGIN PERFORM securefile_shrink_some('ended', 'doc'); EXCEPTION WHEN OTHERS THEN INSERT INTO ended SELECT 3000 + i, i, 3000000, blob(i, 3000000) FROM generate_series(1, 6) i; END \$\$");
rows_right($node, 'ended', 24, 'after an error in the batch');
sound($node, 'ended', 'after an error in the batch');

# ---- nothing to gain ----

with_free('dense', '', 20, '200000', 'false');
like(move('dense'), qr/no value of column "doc" of table "dense" is moved.*The files have \d+ MB, and would have about \d+ MB/s, 'a dense column');
is(sql("SELECT moved, next_position FROM securefile_shrink_some('dense', 'doc')"), '0|', 'some: likewise');
with_free('none', '', 1, '200000', 'true');
is(sql("SELECT moved, next_position FROM securefile_shrink_some('none', 'doc')"), '0|', 'an empty column');

# ---- what cannot move ----

# What a move says during whose first batch, of one value, others do something.
sub meanwhile
{
	my ($table, @sql) = @_;
	my $session = background($node);
	ok(held($node, $session, 'shrink_batch_done', "CALL securefile_shrink('$table', 'doc', 'move', 0, 1)"), "a move of $table is under way");
	sql(@sql);
	resume($node, $session, 'shrink_batch_done');
	my $told = $session->{stderr};
	$session->quit;
	return $told;
}

# a prepared transaction holds the tail: it is found before anything is done
$full = with_free('prepared', '', 60, '200000', 'id % 4 > 0 AND id < 57');
sql("BEGIN; DELETE FROM prepared WHERE id = 60; PREPARE TRANSACTION 'tail'");
my $digest = sql("SELECT md5(string_agg(ctid::text, ',')) FROM prepared");
# the procedure would wait with its release for the transaction
like(told("SELECT moved FROM securefile_shrink_some('prepared', 'doc')"), qr/no value .* is moved.*prepared/s, 'a prepared transaction: nothing is moved');
is(sql("SELECT md5(string_agg(ctid::text, ',')) FROM prepared"), $digest, 'no row was changed');
sql("ROLLBACK PREPARED 'tail'");
is(move('prepared'), '', 'then all is');
cmp_ok(file_bytes('prepared'), '<', $full * 0.5, 'and the files are short');

# what a snapshot needs
with_free('seen', '', 60, '200000', 'false');
my $viewer = background($node);
$viewer->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM seen');
sql('DELETE FROM seen WHERE id % 4 > 0 AND id < 57');
like(told("SELECT moved FROM securefile_shrink_some('seen', 'doc')"), qr/no value .* is moved.*have (\d+) MB, and would have about \1 MB\..*HINT:  [1-9]\d* MB are pending/s, 'a snapshot: nothing is moved, and why');
$viewer->query_safe('COMMIT');
$viewer->quit;
is(move('seen'), '', 'then all is');

# what a snapshot needs of the places that values have left
with_free('held', '', 60, '200000', 'id % 4 > 0 AND id < 57');
$viewer = background($node);
$viewer->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM held');
like(move('held'), qr/files of column "doc" of table "held" are still longer.*HINT:  [1-9]\d* MB are pending/s, 'moved, and not cut, and why');
$viewer->query_safe('COMMIT');
$viewer->quit;

# a function in an index that moves values itself
with_free('outer_one', '', 60, '200000', 'id % 4 > 0 AND id < 57');
with_free('inner_one', '', 60, '200000', 'id % 4 > 0 AND id < 57');
sql(q{CREATE FUNCTION moves(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM securefile_shrink_some('inner_one', 'doc'); RETURN $1; END $$},
	'CREATE INDEX ON outer_one (moves(length(doc)::int))');
$full = file_bytes('inner_one');
like(told("SELECT moved FROM securefile_shrink_some('outer_one', 'doc')"), qr/failed: .*cannot move values in a function that is called by a move/s, 'a move in a move is refused');
rows_right($node, $_, 18, "$_, after a move in a move") foreach ('outer_one', 'inner_one');
is(file_bytes('inner_one'), $full, 'nothing was moved');
unlike(move('inner_one'), qr/failed/, 'by itself it works');
cmp_ok(file_bytes('inner_one'), '<', $full * 0.5, 'as ever');
sql('DROP FUNCTION moves CASCADE');

# rows that are locked
with_free('locked', '', 60, '200000', 'id % 4 > 0 AND id < 57');
my $other = background($node);
$other->query_safe('BEGIN; SELECT FROM locked WHERE id = 58 FOR UPDATE; SELECT FROM locked WHERE id = 59 FOR SHARE');
like(move('locked'), qr/2 values of column "doc" of table "locked" were not moved.*locked or being changed: 2; no place in front: 0/s, 'locked rows are told');
$other->query_safe('COMMIT');
$other->quit;
is(move('locked'), '', 'then they are moved');
rows_right($node, 'locked', 18, 'locked rows');
sound($node, 'locked', 'locked rows');

# values whose bytes are damaged
with_free('damaged', '', 60, '200000', 'id % 4 > 0 AND id < 57');
my $file = data_file_of($node, segment_of($node, 'damaged'));
corrupt($file, block_at($file, 59, 3), 'damage');
like(move('damaged'), qr/1 value of column .* was not moved.*damaged, or not on this server: 1/s, 'a damaged value is told');
is(sql("SELECT count(*) FROM damaged WHERE outcome(doc, seed, len) = 'right'"), 17, 'the others are right');
sql('DROP TABLE damaged');

# a copy without bytes that comes between two batches
sql('CREATE TABLE copied (id int PRIMARY KEY, seed int, len int, doc securefile(compress))', 'INSERT INTO copied SELECT i, i, 100000, noise(i, 100000) FROM generate_series(1, 40) i',
	'INSERT INTO copied SELECT i, i, 14000000, blob(i, 14000000) FROM generate_series(41, 43) i', 'DELETE FROM copied WHERE id < 41');
settle($node, 'copied', 'doc');
like(meanwhile('copied', 'INSERT INTO copied SELECT 100, seed, len, doc FROM copied WHERE id = 43'), qr/sharing space: 2;/, 'a copy without bytes between two batches');
rows_right($node, 'copied', 4, 'copied');
sound($node, 'copied', 'copied');

# copies without bytes share their space
$full = with_free('shared', '', 30, 'CASE WHEN i > 28 THEN 14000000 ELSE 500000 END', 'id BETWEEN 3 AND 28');
sql('INSERT INTO shared SELECT 100, seed, len, doc FROM shared WHERE id = 30');
like(move('shared'), qr/no value .* is moved.*shares space/s, 'a copy without bytes at the end');
rows_right($node, 'shared', 5, 'shared');

# a column that deduplicates
with_free('once', 'deduplicate', 60, '200000', 'id % 4 > 0 AND id < 57');
# it ends; the procedure would go on for ever
is(sql("SELECT moved, next_position FROM securefile_shrink_some('once', 'doc')"), '0|', 'some: a column that deduplicates');
like(move('once'), qr/no value of column "doc" of table "once" is moved, since the column deduplicates.*skipped_shared_bytes: [1-9]\d{6}/s, 'a column that deduplicates');
cmp_ok(disk_bytes('once'), '<', file_bytes('once') * 0.7, 'it was released');

# keys that are not loaded
with_free('secret', 'encrypt', 60, '200000', 'id % 4 > 0 AND id < 57');
sql("ALTER SYSTEM SET securefile.key_command = 'echo two " . ('22' x 32) . "'", 'SELECT pg_reload_conf()');
wait_for_sql($node, "SELECT current_setting('securefile.key_command') LIKE '%two%'");
like(meanwhile('secret', 'SELECT securefile_load_keys()'), qr/key not loaded: [1-9]/, 'a key that goes between two batches');
like(move('secret'), qr/no value .* is moved.*key is not loaded/s, 'keys that are not loaded');
sql("ALTER SYSTEM SET securefile.key_command = 'cat $keys'", 'SELECT pg_reload_conf()');
wait_for_sql($node, "SELECT current_setting('securefile.key_command') LIKE 'cat%'");
sql('SELECT securefile_load_keys()');
is(move('secret'), '', 'then they are moved');
rows_right($node, 'secret', 18, 'keys');

# ---- what is refused ----

with_free('unlogged_data', 'filesystem_like_logging', 60, '200000', 'id % 4 > 0 AND id < 57');
my $refused = "CALL securefile_shrink('unlogged_data', 'doc', 'move')";
fails_with($node, $refused, '0A000', 'not in WAL', 'without WAL');
fails_with($node, "SELECT securefile_shrink_some('unlogged_data', 'doc')", '0A000', 'not in WAL', 'some: without WAL');
# what is not in WAL needs no room for it
like(told("CALL securefile_shrink('unlogged_data', 'doc', 'move', 0, 9223372036854775807, force => true)"), qr/are not in WAL.*have moved: take a base backup now/s, 'force: a base backup is asked for');
rows_right($node, 'unlogged_data', 18, 'force');
sound($node, 'unlogged_data', 'force');

with_free('sent', '', 60, '200000', 'id % 4 > 0 AND id < 57');
my $sent = "CALL securefile_shrink('sent', 'doc', 'move')";
sql('CREATE PUBLICATION p FOR TABLE sent');
fails_with($node, $sent, '55000', 'replicated logically.*publication.*allow_decoding', 'a publication');
sql('DROP PUBLICATION p');
$position = sql("SELECT next_position FROM securefile_shrink_some('sent', 'doc', 1)");
sql(q{SELECT pg_create_logical_replication_slot('s', 'test_decoding')});
fails_with($node, "SELECT securefile_shrink_some('sent', 'doc', 1, '$position')", '55000', 'logical replication slot', 'a slot that was made between two batches');
fails_with($node, $sent, '55000', 'logical replication slot', 'a slot');
like(told("CALL securefile_shrink('sent', 'doc', 'move', allow_decoding => true)"), qr/still longer.*pending/s, 'allowed, and the slot keeps the old places');
sql(q{SELECT pg_drop_replication_slot('s')});
rows_right($node, 'sent', 18, 'decoding');
sql("SELECT securefile_maintain('sent', 'doc')");

# ---- positions ----

with_free('here', '', 60, '200000', 'id % 4 > 0 AND id < 57');
$position = sql("SELECT next_position FROM securefile_shrink_some('here', 'doc', 1)");
sub at { my ($n, $value) = @_; my @fields = split / /, $position; $fields[$n] = $value; return join(' ', @fields); }
fails_with($node, "SELECT securefile_shrink_some('here', 'doc', 1, '$_')", '22023', 'invalid position') foreach '', 'x', '1 2 3', "$position 1", '1';
fails_with($node, "SELECT securefile_shrink_some('here', 'doc', 1, '$_')", '22023', 'not one of this column') foreach at(7, 0), at(7, 9), at(7, '18446744073709551608'), at(0, 1);
fails_with($node, "SELECT securefile_shrink_some('t', 'doc', 1, '$position')", '22023', 'not one of this column|of another column');
sql('TRUNCATE here');
fails_with($node, "SELECT securefile_shrink_some('here', 'doc', 1, '$position')", '22023', 'truncated or rewritten', 'a table that was truncated');

# ---- arguments and rights ----

fails_with($node, "CALL securefile_shrink('t', 'doc', 'moved')", '22023', 'unrecognized mode.*"release" and "move"');
fails_with($node, "CALL securefile_shrink('t', 'doc', 'move', -1)", '22023', 'must not be negative.*shrink_rate');
fails_with($node, "CALL securefile_shrink('t', 'doc', 'move', 0, 0)", '22023', 'at least 1 byte');
fails_with($node, "SELECT securefile_shrink_some('t', 'doc', 0)", '22023', 'at least 1 byte');
fails_with($node, "BEGIN; CALL securefile_shrink('t', 'doc', 'move'); COMMIT", '2D000', 'securefile_shrink_some');
fails_with($node, "DO \$\$ BEGIN BEGIN CALL securefile_shrink('t', 'doc', 'move'); EXCEPTION WHEN division_by_zero THEN END; END \$\$", '2D000', 'transaction');
fails_with($node, "SELECT securefile_shrink_some(NULL, NULL)", '22004', 'must not be null');
sql('CREATE TEMP TABLE temporary (doc securefile)', "DO \$\$ BEGIN PERFORM securefile_shrink_some('temporary', 'doc'); EXCEPTION WHEN object_not_in_prerequisite_state THEN END \$\$");
sql('CREATE ROLE owner LOGIN', 'ALTER TABLE t OWNER TO owner', "ALTER SYSTEM SET securefile.shrink_rate = '1MB'", 'SELECT pg_reload_conf()', 'CREATE ROLE other LOGIN', 'GRANT ALL ON t TO other');
wait_for_sql($node, "SELECT current_setting('securefile.shrink_rate') = '1MB'");
fails_with($node, "CALL securefile_shrink('t', 'doc', 'move', 1048577)", '42501', 'faster than securefile.shrink_rate', 'faster than the setting', user => 'owner');
fails_with($node, 'SET securefile.shrink_rate = 0', '42501', '', 'the setting', user => 'owner');
fails_with($node, "SELECT securefile_shrink_some('t', 'doc')", '42501', 'must be owner', 'another role', user => 'other');

# a rate: that much cannot be moved in less
with_free('slow', '', 40, '100000', 'id % 4 > 0 AND id < 37');
my ($begin, $end) = split /\n/, sql('SELECT extract(epoch FROM clock_timestamp())', "CALL securefile_shrink('slow', 'doc', 'move', 500000, 100000)", 'SELECT extract(epoch FROM clock_timestamp())');
my $least = sql("SELECT (SELECT count(*) FROM slow WHERE xmin <> (SELECT xmin FROM slow WHERE id = 4)) * 100000 / 500000.0 - 0.2");
cmp_ok($least, '>', 0.4, 'some were moved');
cmp_ok($end - $begin, '>=', $least, 'a rate is kept to');
sql("ALTER SYSTEM SET securefile.shrink_rate = 0", 'SELECT pg_reload_conf()');
wait_for_sql($node, "SELECT current_setting('securefile.shrink_rate') = '0'");

# rows stay locked for a moment only: after 100 ms a batch ends
with_free('held_up', '', 60, '200000', 'id % 4 > 0 AND id < 57');
my $late = background($node);
ok(held($node, $late, 'shrink_stored', q{SELECT moved FROM securefile_shrink_some('held_up', 'doc')}), 'a batch stands at its first row');
sleep 0.15;
is(resume($node, $late, 'shrink_stored'), 1, 'and ends after it');
$late->quit;

# little room for WAL
$full = with_free('tight', '', 60, '200000', 'id % 4 > 0 AND id < 57');
arm($node, 'shrink_wal_full', 'skip', times => -1);
fails_with($node, "SELECT securefile_shrink_some('tight', 'doc')", '53100', 'little room for WAL', 'some: little room for WAL');
like(move('tight'), qr/not all values were moved, since there is little room for WAL/, 'little room for WAL');
disarm($node);
fails_with($node, "SELECT securefile_shrink_some('tight', 'doc', 9223372036854775807)", '53100', 'little room for WAL', 'no disk has room for twice such a batch');
sql("ALTER SYSTEM SET max_wal_size = '2000TB'", 'SELECT pg_reload_conf()');
wait_for_sql($node, "SELECT current_setting('max_wal_size') = '2000TB'");
fails_with($node, "SELECT securefile_shrink_some('tight', 'doc')", '53100', 'little room for WAL', 'nor for so much WAL');
sql('ALTER SYSTEM RESET max_wal_size', 'SELECT pg_reload_conf()');
wait_for_sql($node, "SELECT current_setting('max_wal_size') <> '2000TB'");
is(move('tight'), '', 'then there is more');
cmp_ok(file_bytes('tight'), '<', $full * 0.5, 'and the files are short');

# ---- partitions, and two sessions ----

sql('CREATE TABLE parts (id int, seed int, len int, doc securefile) PARTITION BY RANGE (id)', 'CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (61)', 'CREATE TABLE part_2 (doc securefile, id int, len int, gone int, seed int)',
	'ALTER TABLE part_2 DROP gone', 'ALTER TABLE parts ATTACH PARTITION part_2 FOR VALUES FROM (61) TO (200)',
	"INSERT INTO parts SELECT i, i, 150000, blob(i, 150000) FROM generate_series(1, 120) i", 'DELETE FROM parts WHERE id % 60 BETWEEN 1 AND 50');
settle($node, $_, 'doc') foreach 'part_1', 'part_2';
my @before = map { file_bytes($_) } 'part_1', 'part_2';
fails_with($node, "SELECT securefile_shrink_some('parts', 'doc')", '42809', 'partitioned table.*securefile_shrink');
my $first = background($node);
ok(held($node, $first, 'shrink_row_updated', "CALL securefile_shrink('parts', 'doc', 'move')", skip => 3), 'a move is under way');
fails_with($node, "$ends; SELECT securefile_shrink_some('part_1', 'doc')", '55006', 'another session shrinks', 'some: a second one');
fails_with($node, "$ends; CALL securefile_shrink('part_1', 'doc', 'move')", '55006', 'another session shrinks', 'a second one');
resume($node, $first, 'shrink_row_updated');
$first->quit;
cmp_ok(file_bytes($_), '<', shift(@before) * 0.6, "$_ is shorter") foreach 'part_1', 'part_2';
rows_right($node, 'parts', 20, 'partitions');
sound($node, $_, $_) foreach 'part_1', 'part_2';
is(told("CALL securefile_shrink('part_1', 'doc', 'move')") =~ s/^.*no value.*$/right/sr, 'right', 'the lock is gone');

$node->stop;
done_testing();
