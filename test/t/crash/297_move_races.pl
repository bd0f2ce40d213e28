# Moving values to the front of a segment, and what may come in between: a crash at each step, after which
# all values are there and another call ends with the same; writers of the row that is being moved, handles,
# TRUNCATE, DROP, ALTER TABLE, snapshots, prepared transactions, checks.
#
# SECUREFILE_MOVE_SECONDS: writers, moves and kill -9 for so long (3).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileSpace;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_cluster('move_races', conf => [ 'securefile.monitor = off', 'autovacuum = off', 'restart_after_crash = on', 'full_page_writes = off', 'checkpoint_timeout = 1h',
		'securefile.shrink_rate = 0' ]);
need_faults($node);
my $move = "CALL securefile_shrink('%s', 'doc', 'move', force => true)";
my @live = (4, 8, 12, 16, 20, 37 .. 40);

# Rows of which most are gone, but for the last ones.
sub with_free
{
	my ($table, $options) = @_;
	make_table($node, $table, $options);
	fill($node, $table, 1, 40, 150_000);
	sql("DELETE FROM $table WHERE NOT id = ANY ('{" . join(',', @live) . "}')", "ALTER TABLE $table ADD note int DEFAULT 0");
	return settle($node, $table, 'doc')->{file_bytes};
}

# All is as it was, and another call shortens the files.
sub ends_well
{
	my ($table, $full, $rows, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($node, $table, $rows, $name);
	settle($node, $table, 'doc');
	sql(sprintf($move, $table));
	cmp_ok(file_bytes($table), '<', $full * 0.6, "$name: another call ends with short files");
	rows_right($node, $table, $rows, "$name, again");
	return sound($node, $table, $name);
}

# ---- a crash, or an error, at each step ----

# all of them are crashed in 104_crash_points
foreach my $point ('shrink_surveyed', 'shrink_limit', 'shrink_stored', 'shrink_row_updated', 'shrink_batch_done')
{
	foreach my $how ('error', $point =~ /row|batch/ ? 'kill' : ())
	{
		my $table = "${point}_$how";
		my $full = with_free($table, $point =~ /row/ ? 'filesystem_like_logging' : 'logging');
		is(dies_at($node, $point, $how, sprintf($move, $table)) ? 1 : 0, $how eq 'kill' ? 1 : 0, $table);
		ends_well($table, $full, scalar(@live), $table);
	}
}

# a session that is ended while it stores the first value that it has ever stored
{
	my $full = with_free('ended', 'logging');
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $begin = -s $node->logfile;
	ok(held($node, $session, 'shrink_stored', sprintf($move, 'ended')), 'ended: a move is under way');
	sql("SELECT pg_terminate_backend($pid)");
	session_is_gone($node, $pid);
	disarm($node);
	eval { $session->quit };
	unlike(slurp_file($node->logfile, $begin), qr/TRAP|terminated by signal/, 'ended: no other session is');
	ends_well('ended', $full, scalar(@live), 'ended');
}

# ---- others, while a row is being moved ----

# A session stands in the middle of moving a row, while others do something; then it goes on.
sub beside
{
	my ($name, $point, $work, %params) = @_;
	my $full = with_free($name, $params{options} || 'logging');
	$params{before}->() if $params{before};
	my $session = background($node);
	ok(held($node, $session, $point, sprintf($move, $name), skip => $params{skip} // 0), "$name: a move is under way");
	my $rows = $work->($name) // scalar(@live);
	resume($node, $session, $point);
	my $err = $session->{stderr};
	$session->quit;
	unlike($err, qr/ERROR/, "$name: no error") unless $params{fails};
	like($err, $params{fails}, "$name: an error that says so") if $params{fails};
	ends_well($name, $full, $rows, $name) unless $params{gone};
	return;
}

my @waiting;
sub waits
{
	my ($sql) = @_;
	my $session = background($node);
	my $waits = waits_for_lock($node, $session, $sql);
	push @waiting, $session;
	return ok($waits, "waits: $sql");
}
sub all_through
{
	foreach my $session (@waiting) { $session->query_safe('SELECT 1'); $session->quit }
	@waiting = ();
	return;
}
# The row that is being moved is locked.
sub first_moved { return sql("SELECT min(id) FROM $_[0] WHERE id NOT IN (SELECT id FROM $_[0] FOR UPDATE SKIP LOCKED)"); }

beside('updated', 'shrink_row_updated', sub { waits("UPDATE $_[0] SET doc = blob(500, 160000), seed = 500, len = 160000 WHERE id = " . first_moved($_[0])); return; });
all_through();
rows_right($node, 'updated', scalar(@live), 'an UPDATE that waited');
is(sql('SELECT count(*) FROM updated WHERE seed = 500'), 1, 'has changed the value');
beside('noted', 'shrink_row_updated', sub { waits("UPDATE $_[0] SET note = 5 WHERE id = " . first_moved($_[0])); return; });
all_through();
is(sql('SELECT count(*) FROM noted WHERE note = 5'), 1, 'an UPDATE of another column');
rows_right($node, 'noted', scalar(@live), 'an UPDATE of another column');
sound($node, 'noted', 'an UPDATE of another column');
beside('edited', 'shrink_stored', sub { waits("UPDATE $_[0] SET doc = overlay(doc PLACING substring(blob(seed, len) FROM 1 FOR 10) FROM 1) WHERE id = " . first_moved($_[0])); return; });
all_through();
rows_right($node, 'edited', scalar(@live), 'an edit');
sound($node, 'edited', 'an edit');
beside('deleted', 'shrink_row_updated', sub { waits("DELETE FROM $_[0] WHERE id = " . first_moved($_[0])); return; }, gone => 1);
all_through();
rows_right($node, 'deleted', @live - 1, 'a DELETE that waited');
sound($node, 'deleted', 'a DELETE that waited');
beside('checked', 'shrink_row_updated', sub { waits("SELECT count(*) FROM securefile_check('$_[0]', 'doc')"); return; });
all_through();
# REPEATABLE READ writers get 40001
{
	my $writer = background($node);
	beside('serial', 'shrink_batch_done', sub {
			$writer->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM $_[0]");
			return;
		}, gone => 1);
	is($writer->query("SELECT count(*) FILTER (WHERE doc::bytea = blob(seed, len)) FROM serial"), scalar(@live), 'an older snapshot sees all values');
	$writer->query('UPDATE serial SET note = 1 WHERE id = 38');
	like($writer->{stderr}, qr/could not serialize access/, 'and its UPDATE of a row that has moved fails');
	$writer->quit;
	rows_right($node, 'serial', scalar(@live), 'beside an older snapshot');
	sound($node, 'serial', 'beside an older snapshot');
}
# a row is locked whenever the move comes to it, and no more in the next round; or its value lies elsewhere by then
foreach my $table ('unlocked', 'replaced')
{
	my $full = with_free($table, 'logging');
	my ($session, $writer) = (background($node), background($node));
	$writer->query_safe("BEGIN; SELECT FROM $table WHERE id = 40 FOR UPDATE");
	ok(held($node, $session, 'shrink_round_done', sprintf($move, $table)), "$table: a move has passed over a row that is locked");
	$writer->query_safe("UPDATE $table SET doc = blob(40, 150000) WHERE id = 40") if $table eq 'replaced';
	$writer->query_safe('COMMIT');
	$writer->quit;
	resume($node, $session, 'shrink_round_done');
	is($session->{stderr} =~ /not moved/ ? 1 : 0, 0, "$table: it comes again");
	$session->quit;
	settle($node, $table, 'doc');
	cmp_ok(file_bytes($table), '<', $full * 0.6, "$table: and the files are short");
	rows_right($node, $table, scalar(@live), "$table: a row that was locked");
	sound($node, $table, "$table: a row that was locked");
}
# a writer takes the room below the limit whenever a round begins, but not that which the next one
# keeps for a value that has found no place
{
	make_table($node, 'crowded', 'logging');
	fill($node, 'crowded', 1, 80, 150_000);
	fill($node, 'crowded', 81, 81, 3_000_000);
	sql('DELETE FROM crowded WHERE id % 10 > 0 AND id < 81');
	my $full = settle($node, 'crowded', 'doc')->{file_bytes};
	my $place = q{SELECT ctid FROM crowded WHERE id = 81};
	my $was = sql($place);
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $takes = sub {
		my ($first) = @_;
		fill($node, 'crowded', $first, $first + 7, 150_000);
		return moves_on($node, 'shrink_limit', 'shrink_round_done', pid => $pid);
	};
	ok(held($node, $session, 'shrink_limit', sprintf($move, 'crowded')), 'a move has a limit');
	$takes->(101);
	is(sql($place), $was, 'a long value finds no place below it');
	moves_on($node, 'shrink_round_done', 'shrink_limit', pid => $pid);
	$takes->(201);
	isnt(sql($place), $was, 'in the next round it does');
	resume($node, $session, 'shrink_round_done');
	$session->quit;
	settle($node, 'crowded', 'doc');
	cmp_ok(file_bytes('crowded'), '<', $full * 0.8, 'and the files are short');
	rows_right($node, 'crowded', 9 + 16, 'beside a writer who takes the room');
	sound($node, 'crowded', 'beside a writer who takes the room');
}
# a younger transaction, which may be a short one; an older one stops the move (296)
{
	with_free('younger', 'logging');
	my ($session, $writer) = (background($node), background($node));
	# securefile_shrink() would wait for the writer in the end
	ok(held($node, $session, 'shrink_surveyed', "SELECT moved FROM securefile_shrink_some('younger', 'doc')"), 'a move looks for its limit');
	ok(held($node, $writer, 'commit_before_record', 'DELETE FROM younger WHERE id = 40'), 'and another session deletes the last value');
	cmp_ok(resume($node, $session, 'shrink_surveyed'), '>', 0, 'values move all the same');
	$session->quit;
	resume($node, $writer, 'commit_before_record');
	$writer->quit;
	rows_right($node, 'younger', @live - 1, 'beside a younger transaction');
	sound($node, 'younger', 'beside a younger transaction');
}
# a handle that was opened before
prepare_handles($node);
{
	my $writer = background($node);
	my $full = with_free('handled', 'logging');
	$writer->query_safe("BEGIN; SELECT securefile_open(doc, 'rw') AS h FROM handled WHERE id = 39 \\gset\n SELECT securefile_write(:h, '\\x0102'::bytea)");
	# a release would wait for the writer
	cmp_ok(sql("SELECT moved FROM securefile_shrink_some('handled', 'doc')"), '>', 3, 'values are moved beside a handle');
	$writer->query_safe("UPDATE handled SET doc = securefile_finish(:h), seed = -1 WHERE id = 39; COMMIT");
	$writer->quit;
	is(sql("SELECT substring(doc FROM 1 FOR 2)::text, substring(doc FROM 3)::bytea = substring(blob(39, 150000) FROM 3) FROM handled WHERE seed = -1"), '\x0102|t', 'a handle that was opened before');
	sql('DELETE FROM handled WHERE seed = -1');
	ends_well('handled', $full, @live - 1, 'handled');
}

# ---- the storage goes, between two batches ----

my %changes = (
	truncated => sub { sql("TRUNCATE $_[0]", "INSERT INTO $_[0] SELECT 1, 1, 150000, blob(1, 150000)"); },
	# in one transaction: who comes meanwhile waits for its lock
	dropped => sub { sql("BEGIN; DROP TABLE $_[0]; SELECT pg_sleep(1); COMMIT"); },
	full_vacuum => sub { sql("VACUUM FULL $_[0]"); },
	shares => sub { sql("ALTER TABLE $_[0] ALTER doc TYPE securefile(deduplicate)"); },
	retyped => sub { sql("ALTER TABLE $_[0] ALTER doc TYPE securefile(compress)"); },
	swapped => sub { sql("SELECT securefile_rewrite('$_[0]', 'doc', 'filesystem_like_logging')"); },
	gone_column => sub { sql("ALTER TABLE $_[0] DROP doc"); });
foreach my $name (sort keys %changes)
{
	my $full = with_free($name, 'logging');
	my $position = sql("SELECT next_position FROM securefile_shrink_some('$name', 'doc', 1)");
	$changes{$name}->($name);
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT moved FROM securefile_shrink_some('$name', 'doc', 1, '$position', force => true)");
	my %fails = (truncated => qr/22023|not one of this column/, dropped => qr/does not exist/, swapped => qr/not one of this column/, gone_column => qr/does not exist/);
	like($err, $fails{$name} || ($name eq 'shares' ? qr/NOTICE.*column deduplicates/ : qr/^$/), "$name between two calls");
	next if $name =~ /dropped|gone/;
	rows_right($node, $name, $name eq 'truncated' ? 1 : scalar(@live), $name);
	sound($node, $name, $name);
}
# the same while the procedure is at work, in its pause
foreach my $name (sort keys %changes)
{
	sql("DROP TABLE IF EXISTS $name");
	my $full = with_free($name, 'logging');
	my $session = background($node);
	$session->{stdin} .= "CALL securefile_shrink('$name', 'doc', 'move', 150000, 100000, force => true);\n";
	$session->{run}->pump_nb;
	wait_for_sql($node, "SELECT rewritten > 0 FROM securefile_progress WHERE table_name = '$name'");
	$changes{$name}->($name);
	$session->query('SELECT 1');
	unlike($session->{stderr}, qr/PANIC|could not open|corrupt/, "$name while a procedure moves values");
	$session->quit;
	next if $name =~ /dropped|gone/;
	rows_right($node, $name, $name eq 'truncated' ? 1 : scalar(@live), "$name, procedure");
	sound($node, $name, "$name, procedure");
}

# ---- writers, moves without a pause, and kill -9 ----

make_table($node, $_, $_ eq 'busy' ? 'logging' : 'filesystem_like_logging') foreach 'busy', 'busy_fs';
sql(q{CREATE PROCEDURE churn(t text, first int) LANGUAGE plpgsql AS $$
	BEGIN
		LOOP
			EXECUTE format('INSERT INTO %I SELECT i, i, len, blob(i, len) FROM generate_series(%s, %s) i, LATERAL (SELECT 10000 + i * 7919 % 300000 AS len) x', t, first, first + 5);
			COMMIT;
			EXECUTE format('DELETE FROM %I WHERE id BETWEEN %s AND %s AND id %% 6 <> 0', t, first - 60, first - 55);
			EXECUTE format('UPDATE %I SET seed = id + 1, doc = blob(id + 1, len) WHERE id = %s', t, (first - 12) / 6 * 6);
			COMMIT;
			first := first + 6;
		END LOOP;
	END $$});
my $until = time() + ($ENV{SECUREFILE_MOVE_SECONDS} || 3);
my $moved = 0;
for (my $round = 0; time() < $until; $round++)
{
	my @sessions;
	foreach my $i (0 .. 1)
	{
		push @sessions, background($node);
		$sessions[-1]->{stdin} .= "CALL churn('" . ('busy', 'busy_fs')[$i] . "', " . ($i * 10_000_000 + 600 + $round * 30_000) . ");\n";
		$sessions[-1]->{run}->pump_nb;
	}
	sleep 0.5;
	for (my $end = time() + 1; time() < $end; $moved += 2)
	{
		sql(sprintf($move, $_)) foreach ('busy', 'busy_fs');
	}
	my $cut = background($node);
	$cut->{stdin} .= sprintf("$move;\n", 'busy') x 100;
	$cut->{run}->pump_nb;
	sleep 0.1 + rand(0.3);
	crash($node);
	$node->start;
	foreach my $session (@sessions, $cut) { eval { $session->quit } }
	foreach my $table ('busy', 'busy_fs')
	{
		rows_right($node, $table, sql("SELECT count(*) FROM $table"), "round $round");
		sound($node, $table, "round $round");
	}
}
note("moved $moved times; " . join(' ', map { file_bytes($_) } ('busy', 'busy_fs')));

$node->stop;
done_testing();
