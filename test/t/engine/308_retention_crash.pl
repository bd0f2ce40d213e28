# What a column with a retention keeps of removed values survives: the death of the server at each
# fault point of that, kill -9 and restarts; and damaged pages of the segment relation, which a check
# reports and a repair mends.  Nothing of it is freed before its time, by neither, and all of it when
# its time has come.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

use constant { PAGE_REMOVED => 10, KEPT_SECTORS => CONTENT + 120, HISTORY_HEAD => CONTENT + 128, REMOVED_HEAD => CONTENT + 152,
	FIRST_US => CONTENT + 8, ENTRIES => CONTENT + 40, SHARED_SECTORS => CONTENT + 168, OUTCOME => 21, RECORDS => CONTENT + 16 };

my $node = new_cluster('retention_crash', conf => [ 'securefile.monitor = off', 'restart_after_crash = on', 'full_page_writes = off', 'checkpoint_timeout = 1h' ]);
need_faults($node);

# ---- tools ----

# Each value has its seed in the key of its row.
sql('CREATE FUNCTION b(seed int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT blob(seed, 60000 + seed) $$',
	q{CREATE FUNCTION is_right(doc securefile, seed int) RETURNS bool LANGUAGE plpgsql AS $$
	BEGIN
		IF length(doc) > 1000000 THEN
			RETURN substring(doc, 1, 60000) = substring(b(seed), 1, 60000) AND substring(doc, 12000001, 60000) = substring(b(seed), 1, 60000);
		END IF;
		RETURN doc = b(seed);
	EXCEPTION WHEN OTHERS THEN
		RAISE NOTICE '% is %', seed, SQLERRM;
		RETURN false;
	END $$});

sub maintain { return "SELECT count(*) FROM securefile_maintain('$_[0]', 'doc')"; }
sub purge { return "SELECT securefile_purge('$_[0]', 'doc')"; }
sub retained { return sql("SELECT retained_bytes FROM securefile_usage('$_[0]', 'doc')"); }
sub time_passes { return arm($node, 'time_passes', 'skip', times => -1); }

sub kept_table
{
	my ($table, $options) = @_;
	sql("CREATE TABLE $table (id int PRIMARY KEY, doc securefile(" . ($options ? "$options, " : '') . "disable_storage_in_row, 'retention 7 days', 'max_size 1 GB'))");
	return;
}

sub rows { return "INSERT INTO $_[0] SELECT i, b(i) FROM generate_series($_[1], $_[2]) i"; }

# The ids of the rows whose values are listed and right; the others as "wrong 7".
sub listed
{
	my ($table) = @_;
	return sql("SELECT coalesce(string_agg(CASE WHEN is_right(document, id) THEN '' ELSE 'wrong ' END || id, ' ' ORDER BY id), 'nothing')
		FROM securefile_removed('$table', 'doc'), LATERAL (SELECT (row_key ->> 'id')::int) k (id)");
}

# One test: these are listed, nothing is to be found, the rows that are there are right, and the
# sums too.
sub whole
{
	my ($table, $list, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @found = split /\n/, sql("SELECT live_bytes + pending_bytes + free_bytes = file_bytes AND retained_bytes <= pending_bytes FROM securefile_usage('$table', 'doc')",
		"SELECT 'row ' || id FROM $table WHERE NOT is_right(doc, id)", "SELECT f::text FROM securefile_check('$table', 'doc') f");
	my $listed = listed($table);
	$list = $listed if ref $list && $listed =~ $list;
	return is("$listed; @found", "$list; t", "$name: $table lists what it should, and nothing is to be found");
}

# ---- crashes ----

# Where to die, what to do there, what comes before, and what is listed then: of what has not been
# acknowledged either is right.
my @deaths = (
	[ 'removed_note', 'DELETE FROM %s WHERE id = 3', '1 2' ],
	[ 'removed_noted', 'DELETE FROM %s WHERE id = 3', '1 2' ],
	[ 'removed_noted', 'UPDATE %s SET doc = b(103) WHERE id = 3', '1 2' ],
	[ 'history_keep', maintain('%s'), '1 2' ],
	[ 'history_kept', maintain('%s'), '1 2' ],
	[ 'purge_begun', purge('%s'), qr/^(1 2|nothing)$/ ],
	[ 'history_ended', purge('%s'), qr/^(1 2|nothing)$/ ]);
foreach my $i (0 .. $#deaths)
{
	my ($point, $statement, $list) = @{ $deaths[$i] };
	foreach my $action ('kill', 'error')
	{
		my $table = "dies_${action}_$i";
		my $at = "at $point, by $action";
		kept_table($table);
		sql(rows($table, 1, 6), "DELETE FROM $table WHERE id = 1", maintain($table), "DELETE FROM $table WHERE id = 2");
		my $died = dies_at($node, $point, $action, sprintf($statement, $table));
		is($died, $action eq 'kill', "the server goes down $at") or next;
		my $left = listed($table);
		whole($table, $list, "after that $at");
		sql(maintain($table));
		whole($table, $left, "with maintenance after that $at");
		sql(purge($table)) if $left ne 'nothing';
		cmp_ok(retained($table), '==', 0, "and what was ended goes on to its end $at");
		sql(rows($table, 11, 16), "DELETE FROM $table WHERE id = 4", maintain($table));
		whole($table, '4', "later $at");
	}
}

# The end of the time of what is kept, too.
kept_table('timed');
sql(rows('timed', 1, 6), 'DELETE FROM timed WHERE id = 1', maintain('timed'), 'DELETE FROM timed WHERE id = 2');
my $session = background($node);
time_passes();
arm($node, 'history_ended', 'kill', pid => $session->query_safe('SELECT pg_backend_pid()'));
eval { $session->query(maintain('timed')) };
wait_restart($node);
eval { $session->quit };
whole('timed', qr/^(1 2|2|nothing)$/, 'after a crash when something has come to its end');
sql(maintain('timed'));
time_passes();
sql(maintain('timed'));
is(listed('timed') . ' ' . retained('timed'), 'nothing 0', 'when the time has come all ends');
disarm($node);

# kill -9 of all, a restart, and kill -9 of a session that has logged records early.
kept_table('survives');
kept_table('survives_shared', 'deduplicate, compress, hash');
foreach my $table ('survives', 'survives_shared')
{
	sql(rows($table, 1, 40), "DELETE FROM $table WHERE id <= 10", maintain($table), 'CHECKPOINT', "DELETE FROM $table WHERE id <= 12", "UPDATE $table SET doc = b(id) WHERE id = 13");
}
$session = background($node);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
$session->query_safe("SET securefile.transaction_memory = 0; BEGIN; DELETE FROM $_ WHERE id > 20") foreach 'survives';
crash($node);
$node->start;
eval { $session->quit };
my $list = join ' ', 1 .. 13;
foreach my $how ('kill -9', 'another kill -9', 'a restart')
{
	whole($_, $list, "after $how") foreach ('survives', 'survives_shared');
	sql(map { maintain($_) } ('survives', 'survives_shared'));
	whole($_, $list, "after $how and maintenance") foreach ('survives', 'survives_shared');
	if ($how eq 'another kill -9')
	{
		$node->restart;
	}
	elsif ($how eq 'kill -9')
	{
		crash($node);
		$node->start;
	}
}

# ---- damage ----

# What is found and done, how pages are damaged: with the file, and its pages; and whether the list is
# lost.
use constant LOST => 1;
sub history_of { return grep { substr($_[0], $_ * PAGE + FIRST_US, 8) ne "\0" x 8 } pages_of($_[0], PAGE_PENDING); }
sub queue_of { return grep { substr($_[0], $_ * PAGE + FIRST_US, 8) eq "\0" x 8 } pages_of($_[0], PAGE_PENDING); }
my $lists = qr/^rebuild lists of pages\|/m;
my $list_lost = qr/^\S.*\|damaged (list|page)/m;
my @kinds = (
	[ 'nothing', qr/^$/, sub { } ],
	[ 'a history page of zeros', $lists, sub { patch($_[0], $_ * PAGE, "\0" x PAGE) foreach history_of($_[1]) } ],
	[ 'a history page of garbage', $lists, sub { patch($_[0], $_ * PAGE, garbage()) foreach history_of($_[1]) } ],
	[ 'a history that begins nowhere', $lists, sub { change($_[0], 0, HISTORY_HEAD, pack('V', 99_999)) } ],
	[ 'a history that was forgotten', $lists, sub { change($_[0], 0, HISTORY_HEAD, pack('VV', 0, 0)) } ],
	[ 'a history that bites its tail', $lists, sub { change($_[0], $_, CONTENT, pack('V', $_)) foreach history_of($_[1]) } ],
	[ 'a history that ends elsewhere', $lists, sub { change($_[0], 0, HISTORY_HEAD + 4, pack('V', 2)) } ],
	[ 'a wrong sum of what is kept', $lists, sub { change($_[0], 0, KEPT_SECTORS, pack('Q<', 7)) } ],
	[ 'an entry that is not kept', $lists, sub { change($_[0], $_, ENTRIES + OUTCOME, "\0") foreach history_of($_[1]) } ],
	[ 'a bit of a history page', $lists, sub { patch($_[0], $_ * PAGE + CONTENT + 9, "\x63") foreach history_of($_[1]) } ],
	[ 'a pending page of zeros', $lists, sub { patch($_[0], $_ * PAGE, "\0" x PAGE) foreach queue_of($_[1]) } ],
	[ 'a map that takes all for free', qr/^mark used\|/m, sub { change($_[0], 1, USED, "\0" x 4096) } ],
	[ 'a map page of zeros', qr/^rebuild page\|/m, sub { patch($_[0], PAGE, "\0" x PAGE) } ],
	[ 'removed values on a page of zeros', $list_lost, sub { patch($_[0], $_ * PAGE, "\0" x PAGE) foreach pages_of($_[1], PAGE_REMOVED) }, LOST ],
	[ 'removed values on a page of garbage', $list_lost, sub { patch($_[0], $_ * PAGE, garbage()) foreach pages_of($_[1], PAGE_REMOVED) }, LOST ],
	[ 'removed values that begin nowhere', $list_lost, sub { change($_[0], 0, REMOVED_HEAD, pack('V', 99_999)) }, LOST ],
	[ 'removed values that begin elsewhere', $list_lost, sub { change($_[0], 0, REMOVED_HEAD, pack('V', 2)) }, LOST ],
	[ 'removed values that bite their tail', $list_lost, sub { change($_[0], $_, CONTENT, pack('V', $_)) foreach pages_of($_[1], PAGE_REMOVED) }, LOST ],
	[ 'removed values that end elsewhere', $list_lost, sub { change($_[0], 0, REMOVED_HEAD + 4, pack('V', 2)) }, LOST ],
	[ 'a removed value that cannot be', $list_lost, sub { change($_[0], $_, RECORDS + 24, "\x63") foreach pages_of($_[1], PAGE_REMOVED) }, LOST ],
	[ 'a removed value of a transaction to come', $list_lost, sub { change($_[0], $_, RECORDS, pack('Q<', 1 << 40)) foreach pages_of($_[1], PAGE_REMOVED) }, LOST ]);

# Large values have inode pages; rows 1 to 4 are kept in history pages, and 5 has just gone.
my %table_of = map { $_ => "damaged_$_" } 0 .. $#kinds;
my @tables = map { $table_of{$_} } 0 .. $#kinds;
my @shared = ('damaged_shared', 'damaged_shared_too');
kept_table($_) foreach @tables;
kept_table($_, 'deduplicate') foreach @shared;
sql('BEGIN', (map { (rows($_, 1, 8), "INSERT INTO $_ VALUES (9, b(9))") } @tables, @shared), 'COMMIT',
	(map { "UPDATE $_ SET doc = securefile_overlay(securefile_truncate(doc, 12000000), substring(b(id), 1, 60000)::securefile, 12000001) WHERE id IN (4, 9)" } @tables, @shared),
	(map { purge($_) } @tables, @shared), (map { "DELETE FROM $_ WHERE id = 1" } @tables, @shared), (map { maintain($_) } @tables, @shared),
	(map { "DELETE FROM $_ WHERE id IN (2, 4)" } @tables, @shared), (map { "UPDATE $_ SET doc = overlay(doc PLACING 'x' FROM 1000) WHERE id = 3" } @tables, @shared), (map { maintain($_) } @tables, @shared),
	(map { "UPDATE $_ SET doc = b(3) WHERE id = 3" } @tables, @shared), (map { "DELETE FROM $_ WHERE id = 5" } @tables, @shared));
my $kept = listed($tables[0]);
is($kept, '1 2 3 wrong 3 4 5', 'what is listed (of row 3 the changed value, too)');
my %retained = map { $_ => retained($_) } @tables, @shared;
my %files = map { $_ => segment_of_column($_) } @tables, @shared;
sub segment_of_column { return $node->data_dir . '/' . sql("SELECT pg_relation_filepath(segment_relid) FROM securefile_columns WHERE relid = '$_[0]'::regclass"); }
sql('CHECKPOINT');
$node->stop;
foreach my $i (0 .. $#kinds)
{
	my $file = $files{ $table_of{$i} };
	$kinds[$i][2]->($file, slurp($file));
}
foreach my $table (@shared)
{
	my $all = slurp($files{$table});
	patch($files{$table}, $_ * PAGE, "\0" x PAGE) foreach history_of($all);
}
$node->start;
sub repair_of { return sql("SELECT action, finding, detail FROM securefile_repair('$_[0]', 'doc', $_[1])"); }
sub check_of { return sql("SELECT f::text FROM securefile_check('$_[0]', 'doc') f"); }
foreach my $i (0 .. $#kinds)
{
	my ($name, $like, undef, $lost) = @{ $kinds[$i] };
	my $table = $table_of{$i};
	$name eq 'nothing' ? is(check_of($table), '', "check finds nothing where nothing is damaged") : isnt(check_of($table), '', "check finds $name");
	like(repair_of($table, 'false'), $like, "a repair mends $name");
	my $list = $lost ? 'nothing' : $kept;
	is(check_of($table), '', "after the repair nothing is to be found: $name");
	is(listed($table), $list, "and all that is kept is right: $name");
	sql(maintain($table), rows($table, 11, 30), maintain($table));
	is(listed($table), $list, "new values do it no harm: $name");
	is(sql("SELECT count(*) FROM $table WHERE is_right(doc, id)"), 25, "rows are right: $name");
	cmp_ok(retained($table), '>=', $retained{$table}, "as much is kept as before: $name");
}
foreach my $table (@shared)
{
	isnt(check_of($table), '', "check finds damage of $table");
	repair_of($table, 'false');
	is(check_of($table), '', "after the repair nothing is to be found in $table");
	is(listed($table), $kept, "and what is kept of $table is right");
	sql(maintain($table), rows($table, 11, 30), maintain($table));
	is(listed($table), $kept, "also when others have come to $table");
	is(sql("SELECT count(*) FROM $table WHERE is_right(doc, id)"), 25, "rows of $table are right");
	is(check_of($table), '', "nor later in $table");
}
time_passes();
sql(map { (maintain($_)) x 2 } @tables, @shared);
foreach my $i (0 .. $#kinds)
{
	my $table = $table_of{$i};
	is(sql("SELECT retained_bytes, pending_bytes FROM securefile_usage('$table', 'doc')"), '0|0', "when its time has come all is freed: $kinds[$i][0]");
	is(check_of($table) . listed($table), 'nothing', "and nothing is to be found: $kinds[$i][0]");
}
disarm($node);

done_testing();
