# Segments in tablespaces: they lie where their table does, move along with it or by
# themselves, and go with it; whatever fails in between leaves the old one whole and
# nothing of the new one.  A standby has it all.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $top = PostgreSQL::Test::Utils::tempdir();
my $primary = new_cluster('primary',
	init => { allows_streaming => 1, extra => ['--data-checksums'] },
	conf => [ 'wal_level = logical', 'restart_after_crash = on', 'allow_in_place_tablespaces = on',
		'max_replication_slots = 4', 'wal_keep_size = 1GB', 'fsync = on', "wal_consistency_checking = 'all, securefile'" ]);
need_faults($primary);
foreach my $space ('a', 'b', 'e')
{
	mkdir "$top/$_" or die $! for ($space, "${space}2");
	$primary->safe_psql('postgres', "CREATE TABLESPACE $space LOCATION '$top/$space'");
}

my $standby = PostgreSQL::Test::Cluster->new('standby');
command_ok([ 'pg_basebackup', '-D', $standby->data_dir, '-c', 'fast', '-d', $primary->connstr('postgres'),
		map { "--tablespace-mapping=$top/$_=$top/${_}2" } ('a', 'b', 'e') ], 'base backup');
$standby->append_conf('postgresql.conf', 'port = ' . $standby->port);
$standby->append_conf('postgresql.conf', "unix_socket_directories = '" . $standby->host . "'");
$standby->enable_streaming($primary);
$standby->set_standby_mode;
$standby->start;

# Tablespaces of a table's segments, by column.
sub place
{
	my ($table, $db) = @_;
	return $primary->safe_psql($db || 'postgres',
		qq{SELECT string_agg(tablespace, ' ' ORDER BY attname) FROM securefile_columns WHERE relid = '$table'::regclass});
}

# All files and directories of segments, and the sizes of the files.
sub files
{
	my ($node) = @_;
	my $dir = $node->data_dir;
	my @found = map { my $size = -f $_ ? -s $_ : ''; s/^\Q$dir\E//; "$_ $size" }
	  sort(glob("$dir/pg_securefile/1663/*/*/*"), glob("$dir/pg_tblspc/*/PG_*/*/pg_securefile"),
		glob("$dir/pg_tblspc/*/PG_*/*/pg_securefile/*/*/*"));
	return join "\n", @found;
}

# One test: the files come to be what they were, once the sweeper has been there.
sub files_are
{
	my ($want, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until(sub { files($primary) eq $want });
	return is(files($primary), $want, "$name: files");
}

# Values and space of a table are right, here and on the standby.
sub same
{
	my ($table, $count, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($primary, $table, $count, $name);
	sound($primary, $table, $name);
	catch_up($primary, $standby);
	rows_right($standby, $table, $count, "$name, standby");
	is($standby->safe_psql('postgres', "SELECT * FROM securefile_check('$table', 'doc') LIMIT 5"), '',
		"$name, standby: $table is sound");
	return;
}

# The same files on the standby, in the end.
sub same_files
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @lists;
	wait_until(sub {
		@lists = map { files($_) } ($primary, $standby);
		$lists[1] eq $lists[0];
	});
	return is($lists[1], $lists[0], "$name: same files on the standby");
}

# ---- where a segment is made ----
make_table($primary, 't', '', 'TABLESPACE a');
fill($primary, 't', 1, 20, '3000 + i * 40000');
fill($primary, 't', 21, 21, 14_000_000);
is(place('t'), 'a', 'CREATE TABLE TABLESPACE');
my ($path) = glob($primary->data_dir . '/pg_tblspc/*/PG_*/*/pg_securefile/*/seg-00000000.sf/*');
like($path, qr{/pg_filenode\.map$}, 'a file of a name that tools pass over');
is(scalar(data_files($primary)), 0, 'nothing below pg_securefile');
like(sql(q{SELECT data_files FROM securefile_columns WHERE relid = 't'::regclass}),
	qr{^pg_tblspc/\d+/PG_\w+/\d+/pg_securefile/\d+/seg-\*\.sf/pg_filenode\.map$}, 'data_files');
same('t', 21, 'made');
same_files('made');
sql('SET default_tablespace = b; CREATE TABLE d (id int PRIMARY KEY, seed int, len int, doc securefile)');
sql('SET default_tablespace = b; CREATE TABLE c AS SELECT * FROM t WHERE id < 5');
sql('CREATE TABLE p (id int, seed int, len int, doc securefile) PARTITION BY LIST (id) TABLESPACE a');
sql('CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)', 'CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) TABLESPACE b',
	'CREATE TABLE pd PARTITION OF p DEFAULT TABLESPACE pg_default');
sql('ALTER TABLE d ADD COLUMN more securefile');
is(join(', ', map { place($_) } ('d', 'c', 'p1', 'p2', 'pd')), 'b b, b, a, b, pg_default',
	'default_tablespace, ADD COLUMN, CREATE TABLE AS, partitions');
rows_right($primary, 'c', 4, 'CREATE TABLE AS');

# ---- what keeps it there ----
make_table($primary, 'k', '', 'TABLESPACE a');
fill($primary, 'k', 1, 3, 30_000);
sql('TRUNCATE k');
is(place('k'), 'a', 'TRUNCATE');
fill($primary, 'k', 1, 3, 30_000);
sql(q{SELECT securefile_rewrite('k', 'doc', 'filesystem_like_logging')});
is(place('k'), 'a', 'securefile_rewrite');
rows_right($primary, 'k', 3, 'securefile_rewrite');
sql('VACUUM FULL k', 'ALTER TABLE k ADD COLUMN n int');
is(place('k'), 'a', 'VACUUM FULL, ALTER TABLE');

# ---- the move ----
my $before = sql('SELECT string_agg(ctid::text || xmin, $$ $$ ORDER BY id) FROM t');
sql('DELETE FROM t WHERE id BETWEEN 5 AND 18');
settle($primary, 't', 'doc');
my $live = usage($primary, 't', 'doc')->{live_bytes};
sql('ALTER TABLE t SET TABLESPACE b');
is(place('t'), 'b', 'SET TABLESPACE');
ok(!-e $path, 'the old files are gone at once');
same('t', 7, 'SET TABLESPACE');
is(sql('SELECT string_agg(ctid::text || xmin, $$ $$ ORDER BY id) FROM t') =~ s/ .*//r, $before =~ s/ .*//r, 'rows are not touched');
my $data = join '', map { slurp_file($primary->data_dir . "/$_") }
  glob(sql(q{SELECT current_setting('data_directory') || '/' || data_files FROM securefile_columns WHERE relid = 't'::regclass})) =~ s{^.*?(?=pg_tblspc)}{}r;
cmp_ok(scalar(() = $data =~ /[^\0]{64}/g) * 64, '<=', $live + 65536, 'what was free is zeros');
cmp_ok(length($data), '>', $live * 1.2, 'and there was free space');
fill($primary, 't', 31, 60, '3000 + i * 9000');
same('t', 37, 'space used again');
sql('DELETE FROM t WHERE id = 21');
same_files('SET TABLESPACE');

sql('ALTER TABLE t ADD COLUMN more securefile, SET TABLESPACE a, ADD COLUMN n float8 DEFAULT random()');
is(place('t'), 'a a', 'in a list, with a rewrite');
same('t', 36, 'in a list');
sql('ALTER TABLE t DROP COLUMN more, DROP COLUMN n');
sql('CREATE ROLE owner', 'ALTER TABLE c OWNER TO owner', 'ALTER TABLE ALL IN TABLESPACE b OWNED BY owner SET TABLESPACE a');
is(join(', ', map { place($_) } ('c', 'd')), 'a, b b', 'ALL IN TABLESPACE OWNED BY');
rows_right($primary, 'c', 4, 'ALL IN TABLESPACE');
sql('ALTER TABLE ALL IN TABLESPACE b SET TABLESPACE pg_default');
is(join(', ', map { place($_) } ('d', 'p1', 'p2')), 'pg_default pg_default, a, pg_default', 'ALL IN TABLESPACE');

# ---- one column by itself ----
sql(q{SELECT securefile_set_tablespace('t', 'doc', 'b')});
is(place('t') . sql(q{SELECT reltablespace = (SELECT oid FROM pg_tablespace WHERE spcname = 'a') FROM pg_class WHERE oid = 't'::regclass}),
	'bt', 'securefile_set_tablespace');
same('t', 36, 'securefile_set_tablespace');
sql('ALTER TABLE t ALTER id SET STATISTICS 10', 'ALTER TABLE t SET TABLESPACE a', 'TRUNCATE d', 'REINDEX TABLE t');
is(place('t'), 'b', 'it stays there while the table stays');
sql('ALTER TABLE t SET TABLESPACE pg_default');
is(place('t'), 'pg_default', 'it moves along');
same('t', 36, 'into pg_default');
sql(q{SELECT securefile_set_tablespace('p', 'doc', 'b')});
is(join(', ', map { place($_) } ('p1', 'p2', 'pd')), 'b, b, b', 'all partitions');

sql('CREATE ROLE other LOGIN', 'CREATE ROLE mine LOGIN', 'GRANT USAGE, CREATE ON SCHEMA public TO mine',
	'CREATE UNLOGGED TABLE u (doc securefile)', 'CREATE TABLE m (doc securefile)', 'ALTER TABLE m OWNER TO mine');
my $move = q{SELECT securefile_set_tablespace('%s', '%s', '%s')};
fails_with($primary, sprintf($move, 't', 'doc', 'a'), 42501, 'must be owner of table t', 'not the owner', user => 'other');
fails_with($primary, sprintf($move, 'm', 'doc', 'a'), 42501, 'permission denied for tablespace a', 'no privilege', user => 'mine');
fails_with($primary, sprintf($move, 't', 'doc', 'pg_global'), 22023, 'only shared relations can be placed in pg_global', 'pg_global');
fails_with($primary, sprintf($move, 't', 'doc', 'nowhere'), 42704, 'tablespace "nowhere" does not exist', 'no such tablespace');
fails_with($primary, sprintf($move, 't', 'nix', 'a'), 42703, 'column "nix"', 'no such column');
fails_with($primary, sprintf($move, 't', 'id', 'a'), 42804, 'is not of type securefile', 'another type');
fails_with($primary, sprintf($move, 'u', 'doc', 'a'), 55000, 'has no segment', 'unlogged');
fails_with($primary, sprintf($move, 't', 'doc', 'a') . ' FROM t', 55006, 'because it is being used', 'in use');
fails_with($primary, q{SELECT securefile_set_tablespace('t', 'doc', NULL)}, 22004, 'must not be null', 'null');
is($primary->psql('postgres', sprintf($move, 'm', 'doc', 'pg_default'), extra_params => [ '-U', 'mine' ]), 0,
	'the tablespace of the database is everybody\'s');
sql('DROP TABLE u, m');

# ---- what is rolled back, and what has been written meanwhile ----
my $was = files($primary);
my $put = "INSERT INTO t SELECT i, i, 20000, blob(i, 20000) FROM generate_series(101, 103) i";
my $more = $put =~ s/101, 103/111, 118/r;
sql('BEGIN', 'ALTER TABLE t SET TABLESPACE a', 'ROLLBACK');
is(files($primary), $was, 'rolled back: the new files are gone at once');
sql('BEGIN', 'SAVEPOINT s', 'ALTER TABLE t SET TABLESPACE a', 'ROLLBACK TO s', $put, 'COMMIT');
is(place('t'), 'pg_default', 'rolled back to a savepoint');
# object ids that the rolled back copy has given out come again
sql('BEGIN', 'SAVEPOINT s', sprintf($move, 't', 'doc', 'a'), $more, 'ROLLBACK TO s', $more, 'DELETE FROM t WHERE id > 110', 'COMMIT');
my $mover = background($primary);
$mover->query_safe($_) foreach ('BEGIN', 'SAVEPOINT s', sprintf($move, 't', 'doc', 'a'), $more, 'ROLLBACK TO s');
sql($more);
$mover->query_safe($_) foreach ('DELETE FROM t WHERE id > 110', 'COMMIT');
$mover->quit;
sql('BEGIN', 'SAVEPOINT s', 'ALTER TABLE t SET TABLESPACE a', 'RELEASE s', 'SAVEPOINT s', 'ALTER TABLE t SET TABLESPACE b',
	'ROLLBACK TO s', 'DELETE FROM t WHERE id > 100', $put, 'COMMIT');
is(place('t'), 'a', 'moved twice, the second one rolled back');
same('t', 39, 'written after the move');
fails_with($primary, "BEGIN; $more; ALTER TABLE t SET TABLESPACE b", 55006, 'because this transaction has stored values', 'own values');
fails_with($primary, 'BEGIN; DELETE FROM t WHERE id > 100; ALTER TABLE t SET TABLESPACE b', 55006, 'or removed some', 'own deletes');
fails_with($primary, "BEGIN; SAVEPOINT s; $more; RELEASE s; ALTER TABLE t SET TABLESPACE b", 55006, 'Commit first', 'own values of a savepoint');
sql('BEGIN', 'SAVEPOINT s', $more, 'ROLLBACK TO s', 'ALTER TABLE t SET TABLESPACE b', 'COMMIT');
is(place('t'), 'b', 'own values that were rolled back do not matter');
sql('BEGIN', 'CREATE TABLE brief (doc securefile)', 'ALTER TABLE brief SET TABLESPACE a', 'DROP TABLE brief', 'COMMIT');
same('t', 39, 'rolled back values');

# ---- prepared transactions ----
foreach my $end ('ROLLBACK', 'COMMIT')
{
	$was = files($primary);
	sql('BEGIN', 'ALTER TABLE t SET TABLESPACE a', 'PREPARE TRANSACTION \'x\'');
	crash($primary);
	$primary->start;
	sql("$end PREPARED 'x'");
	files_are($was, "$end PREPARED") if $end eq 'ROLLBACK';
	is(place('t'), $end eq 'COMMIT' ? 'a' : 'b', "$end PREPARED");
	rows_right($primary, 't', 39, "$end PREPARED");
}
same('t', 39, 'prepared');

# ---- what goes wrong ----
$was = files($primary);
foreach my $point ('move_chunk', 'move_done', 'grow_after_zero')
{
	my $died = dies_at($primary, $point, 'kill', 'ALTER TABLE t SET TABLESPACE b', skip => $point eq 'move_chunk' ? 3 : 0);
	is($died, $point eq 'grow_after_zero' ? '' : 1, "$point: killed");
	last unless $died;
	files_are($was, "$point: killed");
	is(place('t'), 'a', "$point: nothing moved");
	rows_right($primary, 't', 39, "$point: killed");
}
is(place('t'), 'b', 'a move is not growth');
crash($primary);
$primary->start;
same('t', 39, 'crash after the move');

$was = files($primary);
foreach my $case ([ 'io_write', 'enospc', 53100, 2 ], [ 'io_sync', 'wait', 57014, 1 ], [ 'move_chunk', 'wait', 57014, 2 ],
	[ 'move_done', 'error', 'XX000', 0 ])
{
	my ($point, $action, $state, $skip) = @$case;
	my $session = background($primary);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $move = 'ALTER TABLE t SET TABLESPACE a';
	$session->query('\set VERBOSITY verbose');
	if ($action eq 'wait')
	{
		ok(held($primary, $session, $point, $move, skip => $skip), "$point: the move stands there");
		$primary->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
		$session->query('SELECT');
	}
	else
	{
		arm($primary, $point, $action, skip => $skip, pid => $pid);
		$session->query($move);
	}
	like($session->{stderr}, qr/ERROR:  $state/, "$point: $action");
	$session->quit;
	disarm($primary);
	files_are($was, "$point: $action");
	rows_right($primary, 't', 39, "$point: $action");
}
same_files('after what went wrong');

# what cannot be read in one piece is read run by run
{
	my $session = background($primary);
	my $before = fired($primary, 'io_read');
	arm($primary, 'io_read', 'error', skip => 1, times => 1, pid => $session->query_safe('SELECT pg_backend_pid()'));
	$session->query_safe('ALTER TABLE t SET TABLESPACE a');
	is(fired($primary, 'io_read') - $before, 1, 'a read fails once');
	$session->quit;
	disarm($primary);
	is(place('t'), 'a', 'and the move goes on');
	rows_right($primary, 't', 39, 'moved after a read that failed');
	sql('ALTER TABLE t SET TABLESPACE b');
	arm($primary, 'io_read', 'error', times => -1);
	fails_with($primary, 'ALTER TABLE t SET TABLESPACE a', 58030, 'could not read', 'what is used must be read');
	disarm($primary);
}

# the sweeper finds new storage that no catalog row names yet
my $session = background($primary);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
arm($primary, 'move_done', 'wait', times => -1, pid => $pid);
$session->{stdin} .= "ALTER TABLE t SET TABLESPACE a;\n";
$session->{run}->pump_nb;
wait_for_sql($primary, "SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
is(sql(q{SELECT orphans_removed FROM securefile_maintain('d', 'doc')}), 0, 'nothing of a move is taken for left over');
disarm($primary);
$session->query_safe('SELECT 1');
$session->quit;
is(place('t'), 'a', 'swept during the move');
same('t', 39, 'swept during the move');
sql('ALTER TABLE t SET TABLESPACE b');

# ---- decoding of what was stored before the move ----
sql('CREATE PUBLICATION pub FOR TABLE t', q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
fill($primary, 't', 201, 202, 50_000);
sql('ALTER TABLE t SET TABLESPACE a');
fill($primary, 't', 203, 203, 50_000);
sql('ALTER TABLE t SET TABLESPACE b', 'DELETE FROM t WHERE id > 200');
crash($primary);
$primary->start;
is(sql(q{SELECT count(*) FROM generate_series(201, 203) i, pg_logical_slot_peek_binary_changes('s', NULL, NULL,
	'proto_version', '1', 'publication_names', 'pub') c WHERE position(convert_to(blob(i, 50000)::text, 'UTF8') IN c.data) > 0}),
	3, 'decoded from storage that was moved');
sql('DROP TABLE p');
isnt(join('', glob($primary->data_dir . '/pg_tblspc/*/PG_*/*/pg_securefile/*/kept/pg_filenode.map')), '', 'which is kept');
fails_with($primary, 'DROP TABLESPACE a', 55000, 'tablespace "a" is not empty', 'kept storage');
sql(q{SELECT pg_drop_replication_slot('s')}, 'DROP TABLE c, k');
same('t', 39, 'decoded');

# ---- databases and tablespaces go ----
$primary->safe_psql('postgres', 'CREATE DATABASE there TABLESPACE e');
$primary->safe_psql('there', 'CREATE EXTENSION securefile');
$primary->safe_psql('there', 'CREATE TABLE t (doc securefile); CREATE TABLE t2 (doc securefile) TABLESPACE b; CREATE TABLE t3 (doc securefile) TABLESPACE pg_default');
$primary->safe_psql('there', "INSERT INTO $_ VALUES (repeat('x', 9000)::bytea)") for ('t', 't2', 't3');
is(join(', ', map { place($_, 'there') } ('t', 't2', 't3')), 'e, b, pg_default', 'a database in a tablespace');
$primary->safe_psql('there', 'ALTER TABLE t SET TABLESPACE pg_default; ALTER TABLE t SET TABLESPACE e; DROP TABLE t3');
is($primary->safe_psql('there', 'SELECT length(doc) FROM t'), 9000, 'moved from and to its tablespace');
fails_with($primary, 'CREATE DATABASE copy TEMPLATE there', '0A000', 'cannot use database "there" as a template', 'template');
fails_with($primary, 'ALTER DATABASE there SET TABLESPACE a', '0A000', 'cannot move database "there"', 'ALTER DATABASE');
$primary->safe_psql('there', 'DROP TABLE t');
fails_with($primary, 'ALTER DATABASE there SET TABLESPACE a', '0A000', 'cannot move database "there"', 'files in another tablespace only');
$primary->safe_psql('there', 'CREATE TABLE t (doc securefile)');
$was = files($primary);
$primary->safe_psql('postgres', 'DROP DATABASE there');
unlike(files($primary), qr{/(\d+)/pg_securefile/.*/(?!\1)\d+/pg_securefile/}s, 'files of one database are left');
isnt(files($primary), $was, 'DROP DATABASE removes files');

# the table is elsewhere again, its column is not
sql('ALTER TABLE d SET TABLESPACE e', 'ALTER TABLE d ALTER id SET STATISTICS 5', 'ALTER TABLE d SET TABLESPACE a',
	q{SELECT securefile_set_tablespace('d', 'doc', 'e')});
same_files('a column alone');
fails_with($primary, 'DROP TABLESPACE e', 55000, 'tablespace "e" is not empty', 'a segment is there');
sql('DROP TABLE d');
is(join('', glob("$top/e/*/*/pg_securefile")), '', 'the last segment takes our directory along');
is($primary->psql('postgres', 'DROP TABLESPACE e'), 0, 'DROP TABLESPACE');
sql('CREATE TABLESPACE inside LOCATION $$$$');
sql('ALTER TABLE t SET TABLESPACE inside');
same('t', 39, 'in-place tablespace');
same_files('dropped');
is($standby->safe_psql('postgres', q{SELECT string_agg(spcname, ' ' ORDER BY oid) FROM pg_tablespace}),
	'pg_default pg_global a b inside', 'dropped on the standby');
is(join('', glob("$top/e2/*")), '', 'with all its directories');

# ---- promotion ----
$primary->stop('immediate');
$standby->promote;
$standby->safe_psql('postgres', 'DELETE FROM t WHERE id < 40');
fill($standby, 't', 301, 310, '3000 + i * 900');
rows_right($standby, 't', 34, 'promoted');
sound($standby, 't', 'promoted');
$standby->safe_psql('postgres', 'ALTER TABLE t SET TABLESPACE pg_default');
rows_right($standby, 't', 34, 'promoted, moved');
sound($standby, 't', 'promoted, moved');
$standby->stop;

# ---- without data in WAL ----
my $minimal = new_cluster('minimal', conf => [ 'wal_level = minimal', 'max_wal_senders = 0', 'allow_in_place_tablespaces = on', 'securefile.monitor = off', 'restart_after_crash = on' ]);
$minimal->safe_psql('postgres', 'CREATE TABLESPACE x LOCATION $$$$');
make_table($minimal, 'l');
make_table($minimal, 'f', 'filesystem_like_logging');
foreach my $t ('l', 'f')
{
	fill($minimal, $t, 1, 10, '3000 + i * 90000');
	fill($minimal, $t, 11, 11, 14_000_000);
	$minimal->safe_psql('postgres', "DELETE FROM $t WHERE id = 5; ALTER TABLE $t SET TABLESPACE x");
}
crash($minimal);
$minimal->start;
rows_right($minimal, $_, 10, 'wal_level = minimal, moved, crash'), sound($minimal, $_, 'wal_level = minimal, moved, crash') foreach ('l', 'f');
$was = files($minimal);
foreach my $point ('move_chunk', 'move_done')
{
	ok(dies_at($minimal, $point, 'kill', sprintf($move, 'l', 'doc', 'pg_default')), "wal_level = minimal: killed at $point");
	is($minimal->safe_psql('postgres', "SELECT orphans_removed FROM securefile_maintain('l', 'doc')"), 1,
		'files of a transaction whose id never was durable are removed at once');
	is(files($minimal), $was, "as before: $point");
	rows_right($minimal, 'l', 10, "wal_level = minimal: killed at $point");
}
$minimal->stop;
done_testing();
