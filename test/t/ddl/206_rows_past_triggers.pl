# Rows that C code writes by functions of the heap, past the row triggers, have values of their
# own when they are committed, whatever becomes of the rows that these were copied from.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('raw', init => { allows_streaming => 1 }, conf => [ 'securefile.monitor = off', 'restart_after_crash = on', 'hot_standby = on' ]);
# the name that a background worker finds its library by is short
my $library = PostgreSQL::Test::Utils::tempdir_short() . '/raw_rows.so';
system_or_bail('gcc', '-shared', '-fPIC', '-o', $library, '-I', $ENV{SECUREFILE_INCLUDE}, "$FindBin::RealBin/../../modules/raw_rows.c");
chmod 0755, $library =~ s{/[^/]*$}{}r, $library;

# One session for all that must work: hundreds of them would take their time.
my $session;

sub in_session
{
	$session = background($node), $session->query_safe('SET client_min_messages = error') if !defined $session;
	return $session->query_safe(join(';', @_));
}

# The notices of commands that must work.
sub notices
{
	my ($name, @commands) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join(';', @commands));

	is($rc, 0, "$name: done") or diag($err);
	return $err;
}

in_session(map { "CREATE FUNCTION $_ RETURNS void AS '$library' LANGUAGE C STRICT" }
	  'raw_copy(regclass, regclass, text)', 'raw_move(regclass)', 'raw_update(regclass)', 'raw_delete(regclass)', 'raw_swap(regclass, regclass)', 'raw_rewrite(regclass, regclass)',
	'raw_rename(regclass, text)', 'raw_drop(regclass)', 'raw_start(regclass, regclass, text, library text)');

# Two columns: values in the segment, of one unit and of several, one in its row, none.
my $columns = 'id int, len int, d securefile, e securefile';
my $rows = "SELECT i, n, blob(i, n), CASE WHEN i % 2 = 0 THEN blob(-i, n) END FROM (VALUES (1, 9000), (2, 150000), (3, 100), (4, 5000), (5, NULL)) v (i, n)";
my $right = 'd::bytea IS NOT DISTINCT FROM blob(id, len) AND e::bytea IS NOT DISTINCT FROM CASE WHEN id % 2 = 0 THEN blob(-id, len) END';

sub fresh
{
	my ($source, $target) = @_;

	in_session("DROP TABLE IF EXISTS $source, $target",
		"CREATE TABLE $source ($columns); CREATE TABLE $target ($columns)", "INSERT INTO $source $rows");
	return;
}

# All rows of a table have their values, and nobody else's.
sub is_whole
{
	my ($table, $name, $count) = @_;

	is(in_session("SELECT count(*) FILTER (WHERE $right) || ' of ' || count(*) FROM $table"), join(' of ', ($count || 5) x 2), "$name: values");
	is(in_session("SELECT string_agg(DISTINCT c || ' ' || finding || ': ' || detail, E'\\n') FROM (VALUES ('d'), ('e')) v (c), securefile_check('$table', c) WHERE finding <> 'used but not owned'"),
		'', "$name: check");
	return;
}

# Ways to lose the values of table "$_[0]".
my %losses = (
	drop => sub { in_session("DROP TABLE $_[0]") },
	truncate => sub { in_session("TRUNCATE $_[0]") },
	delete => sub { in_session("DELETE FROM $_[0]"); in_session("SELECT securefile_maintain('$_[0]', c) FROM (VALUES ('d'::name), ('e')) v (c)", "INSERT INTO $_[0] SELECT i, 9000, blob(-i, 9000) FROM generate_series(1, 40) i"); },
	delete_raw => sub { in_session("SELECT raw_delete('$_[0]')"); in_session("DROP TABLE $_[0]"); },
	drop_column => sub { in_session("ALTER TABLE $_[0] DROP COLUMN d, DROP COLUMN e") },
	type => sub { in_session("ALTER TABLE $_[0] ALTER d TYPE bytea, ALTER e TYPE bytea") },
	using => sub { in_session("ALTER TABLE $_[0] ALTER d TYPE int USING 1, ALTER e TYPE securefile USING 'x'::bytea") },
	logging => sub { in_session("SELECT securefile_rewrite('$_[0]', c, 'filesystem_like_logging') FROM (VALUES ('d'::name), ('e')) v (c)") },
	schema => sub { in_session("CREATE SCHEMA gone; ALTER TABLE $_[0] SET SCHEMA gone; DROP SCHEMA gone CASCADE") },
	owned => sub { in_session("CREATE ROLE r; ALTER TABLE $_[0] OWNER TO r; DROP OWNED BY r; DROP ROLE r") },
	cascade => sub { in_session("CREATE TABLE key (id int PRIMARY KEY); ALTER TABLE $_[0] ADD FOREIGN KEY (id) REFERENCES key NOT VALID; TRUNCATE key CASCADE; DROP TABLE key CASCADE") },
	partition => sub { in_session("CREATE TABLE root ($columns) PARTITION BY LIST (id); ALTER TABLE root ATTACH PARTITION $_[0] DEFAULT; DROP TABLE root") },
	raw_drop => sub { in_session("SELECT raw_drop('$_[0]')") });

# ---- inserted, then nothing, renamed, files exchanged, or both; then the source is lost ----
my @hows = ('insert', 'multi', 'slot', 'frozen', 'worker', 'uncounted');
my $turn = 0;
foreach my $loss (sort keys %losses)
{
	my $how = $hows[ $turn++ % @hows ];
	my $stored = qr/5 values were stored in table "target" for rows that were written without its triggers/;

	fresh('source', 'target');
	if ($how eq 'worker')
	{
		in_session("SELECT raw_start('source', 'target', 'insert', '$library')");
	}
	else
	{
		my ($setting, $function) = $how eq 'uncounted' ? ('SET track_counts = off', 'insert') : ('SELECT 1', $how);
		like(notices("$how, $loss", $setting, "SELECT raw_copy('source', 'target', '$function')"), $stored, "$how, $loss: says so");
	}
	$losses{$loss}->('source');
	is_whole('target', "$how, $loss");
}
foreach my $way ('rename', 'swap', 'both')
{
	foreach my $loss ('drop', 'truncate', 'delete')
	{
		my ($kept, $lost) = ('target', 'source');

		fresh('source', 'target');
		in_session("SELECT raw_copy('source', 'target', 'insert')");
		in_session("INSERT INTO target SELECT id + 100, len, blob(id + 100, len) FROM source WHERE id IN (1, 3)");
		if ($way ne 'swap')
		{
			in_session("SELECT raw_rename('source', 'other'), raw_rename('target', 'source')", "SELECT raw_rename('other', 'target')");
			($kept, $lost) = ($lost, $kept);
		}
		if ($way ne 'rename')
		{
			in_session("SELECT raw_swap('source', 'target')");
			($kept, $lost) = ($lost, $kept);
		}
		is_whole($lost, "$way, before $loss");
		$losses{$loss}->($lost);
		is_whole($kept, "$way, $loss", 7);
	}
}

# ---- pages that are put at the end of a table, with rows that keep their xmin and that nobody counts ----
foreach my $loss ('drop', 'truncate', 'delete')
{
	fresh('source', 'target');
	like(notices("rewrite, $loss", "SELECT raw_rewrite('source', 'target')"),
		qr/5 values were stored in table "target" for rows that were written without its triggers/, "rewrite, $loss: says so");
	$losses{$loss}->('source');
	is_whole('target', "rewrite, $loss");
}
foreach my $steps (
	[ 5, "SELECT raw_rewrite('source', 'target'); DROP TABLE source" ],
	[ 5, "DROP TABLE target; CREATE TABLE target ($columns); SELECT raw_rewrite('source', 'target'); TRUNCATE source" ],
	[ 5, "TRUNCATE target; SAVEPOINT s; SELECT raw_rewrite('source', 'target'); RELEASE s" ],
	# behind rows that are not all looked at
	[ 605, "INSERT INTO target SELECT 7, 7000, blob(7, 7000) FROM generate_series(1, 600); ALTER TABLE target ADD pad text; UPDATE target SET pad = repeat('x', 1500); ALTER TABLE source ADD pad text; SELECT raw_rewrite('source', 'target')" ])
{
	fresh('source', 'target');
	in_session("BEGIN; $steps->[1]; COMMIT");
	in_session('DROP TABLE IF EXISTS source');
	is_whole('target', $steps->[1], $steps->[0]);
}

# ---- all in one transaction ----
fresh('source', 'target');
in_session("BEGIN; SELECT raw_copy('source', 'target', 'insert'), raw_rename('source', 'old'), raw_rename('target', 'source'); DROP TABLE old; COMMIT");
is_whole('source', 'copied, renamed and dropped');

fresh('source', 'target');
in_session("BEGIN; SELECT raw_copy('source', 'target', 'multi'); TRUNCATE source; COMMIT");
is_whole('target', 'copied and truncated');

fresh('source', 'target');
in_session("BEGIN; SELECT raw_copy('source', 'target', 'slot'); DELETE FROM source; COMMIT");
$losses{delete}->('source');
is_whole('target', 'copied and deleted');

# what pg_squeeze does: the rows are right where they come to
fresh('source', 'target');
unlike(notices('copied and exchanged', "BEGIN; SELECT raw_copy('source', 'target', 'insert'), raw_swap('source', 'target'), raw_drop('target'); COMMIT"),
	qr/were stored/, 'what comes to its own table stays where it is');
is_whole('source', 'copied and exchanged');

# the other table is there, with the same rows
fresh('source', 'target');
in_session("BEGIN; SELECT raw_copy('source', 'target', 'insert'), raw_swap('source', 'target'); COMMIT; DROP TABLE source");
is_whole('target', 'copied and exchanged, the old rows');

# files that were exchanged, and then replaced by a command
foreach my $command ('CLUSTER target USING key', 'ALTER TABLE target SET (fillfactor = 50)', 'ALTER TABLE target ADD x float DEFAULT random()')
{
	fresh('source', 'target');
	in_session("CREATE INDEX key ON target (id); BEGIN; SELECT raw_swap('source', 'target'); REINDEX TABLE target; $command; COMMIT");
	in_session('DROP TABLE source');
	is_whole('target', "exchanged, then $command");
}

# what is gone already cannot be copied: nothing happens at all
foreach my $gone ("raw_copy('source', 'target', 'insert'), raw_drop('source')",
	"raw_copy('source', 'target', 'insert'), raw_swap('source', 'target'), raw_drop('source')",
	"raw_rewrite('source', 'target'), raw_drop('source')")
{
	fresh('source', 'target');
	fails_with($node, "BEGIN; SELECT $gone; COMMIT", '42704',
		qr/giving rows of table "target", which were written without its triggers, values of their own/, "refused: $gone");
	is_whole('source', "refused: $gone");
	is(in_session('SELECT count(*) FROM target'), 0, "refused: $gone: no row came") if $gone !~ /rewrite/;
}
# such pages stay in the file when their transaction fails: whoever locks the table next finds them
in_session('BEGIN; LOCK TABLE target; COMMIT; DROP TABLE source');
is_whole('target', 'rewritten, failed, and found later');

# ---- savepoints, and rows that triggers have seen, in the same transaction ----
foreach my $steps (
	[ 5, "SAVEPOINT s; SELECT raw_copy('source', 'target', 'insert'); RELEASE s" ],
	[ 5, "SAVEPOINT s; SELECT raw_copy('source', 'target', 'insert'); ROLLBACK TO s; SELECT raw_copy('source', 'target', 'insert')" ],
	[ 5, "SELECT raw_copy('source', 'target', 'insert'); SAVEPOINT s; INSERT INTO target $rows; UPDATE target SET len = len; ROLLBACK TO s" ],
	[ 10, "INSERT INTO target $rows; SAVEPOINT s; SELECT raw_copy('source', 'target', 'insert'); SAVEPOINT s2; UPDATE target SET e = e; RELEASE s2" ],
	[ 10, "SAVEPOINT s; INSERT INTO target $rows; SAVEPOINT s2; TRUNCATE target; SELECT raw_copy('source', 'target', 'insert'); RELEASE s; INSERT INTO target $rows" ],
	[ 5, "SAVEPOINT s; INSERT INTO target $rows; SAVEPOINT s2; TRUNCATE target; ROLLBACK TO s; SELECT raw_copy('source', 'target', 'insert')" ],
	# as many as were seen before the TRUNCATE
	[ 5, "INSERT INTO target $rows; TRUNCATE target; SELECT raw_copy('source', 'target', 'insert')" ],
	[ 5, "DO \$\$ BEGIN FOR i IN 1 .. 3 LOOP BEGIN PERFORM raw_copy('source', 'target', 'insert'); IF i > 1 THEN PERFORM 1 / 0; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END \$\$" ],
	[ 5, "SELECT raw_copy('source', 'target', 'insert'); PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'; BEGIN" ])
{
	fresh('source', 'target');
	in_session("BEGIN; $steps->[1]; COMMIT");
	in_session('DROP TABLE source');
	is_whole('target', $steps->[1], $steps->[0]);
}

# ---- within a table ----
foreach my $steps (
	[ 10, "SELECT raw_copy('target', 'target', 'insert')" ],
	[ 10, "SET track_counts = off; SELECT raw_copy('target', 'target', 'insert'); RESET track_counts" ],
	[ 20, "SELECT raw_copy('target', 'target', 'insert'), raw_copy('target', 'target', 'multi')" ],
	[ 10, "INSERT INTO target $rows; DELETE FROM target WHERE ctid IN (SELECT max(ctid) FROM target GROUP BY id); SELECT raw_copy('target', 'target', 'insert')" ],
	[ 5, "SELECT raw_move('target')" ],
	[ 5, "SELECT raw_update('target'), raw_move('target'), raw_update('target')" ],
	[ 5, "BEGIN; UPDATE target SET len = len; SELECT raw_update('target'); UPDATE target SET len = len; COMMIT" ],
	[ 5, "BEGIN; SELECT raw_copy('target', 'target', 'insert'); DELETE FROM target WHERE ctid IN (SELECT min(ctid) FROM target GROUP BY id); COMMIT" ],
	[ 5, "BEGIN; SELECT raw_copy('target', 'target', 'insert'); DELETE FROM target WHERE ctid IN (SELECT max(ctid) FROM target GROUP BY id); COMMIT" ],
	[ 10, "BEGIN; UPDATE target SET d = d::bytea; SELECT raw_copy('target', 'target', 'insert'), raw_update('target'); COMMIT" ])
{
	fresh('source', 'target');
	in_session("INSERT INTO target $rows");
	in_session($steps->[1]);
	is_whole('target', $steps->[1], $steps->[0]);
	# one of two rows goes, and its space is used again
	next unless $steps->[0] == 10;
	in_session('DELETE FROM target WHERE ctid IN (SELECT min(ctid) FROM target GROUP BY id)');
	in_session("SELECT securefile_maintain('target', c) FROM (VALUES ('d'::name), ('e')) v (c)", 'INSERT INTO source SELECT i, 9000, blob(-i, 9000) FROM generate_series(1, 40) i');
	in_session("INSERT INTO target SELECT 7, 9000, blob(7, 9000)");
	is_whole('target', "$steps->[1], and one of two deleted", 6);
}
fresh('source', 'target');
in_session("INSERT INTO target $rows");
unlike(notices('moved and replaced', "SELECT raw_move('target'), raw_update('target')"), qr/were stored/, 'rows that are moved keep their values');
# a row and its copy, both of which give the value back
my $copy = "BEGIN; SELECT raw_copy('target', 'target', 'insert');";
foreach my $both (
	'DELETE FROM target WHERE id = 1',
	'DELETE FROM target WHERE ctid IN (SELECT max(ctid) FROM target GROUP BY id); DELETE FROM target',
	"UPDATE target SET d = 'x'::bytea WHERE id = 2",
	'SAVEPOINT a; UPDATE target SET len = 1; UPDATE target SET len = 2; RELEASE a; UPDATE target SET d = NULL WHERE ctid IN (SELECT max(ctid) FROM target GROUP BY id); DELETE FROM target WHERE id = 2',
	"SELECT raw_update('target'); DELETE FROM target WHERE id = 4")
{
	fails_with($node, "$copy $both; COMMIT", '55000', qr/a row of table "target" and a copy of it were both removed or changed/, $both);
}
fails_with($node, "$copy DELETE FROM target; PREPARE TRANSACTION 'p'", '55000', qr/both removed or changed/, 'PREPARE');
in_session("$copy DELETE FROM target WHERE id = 5; DELETE FROM target WHERE ctid IN (SELECT max(ctid) FROM target GROUP BY id); SAVEPOINT a; DELETE FROM target; ROLLBACK TO a; COMMIT");
is_whole('target', 'one of both', 4);
# what was brought home before has a value of its own
in_session("$copy DO 'BEGIN END'; SELECT raw_update('target'); DO 'BEGIN END'; DELETE FROM target WHERE id = 4; SAVEPOINT a; SELECT raw_copy('target', 'target', 'insert'); DO 'BEGIN END'; DELETE FROM target; ROLLBACK TO a; COMMIT");
is_whole('target', 'brought home, and deleted', 6);
fails_with($node, "BEGIN; SELECT raw_copy('source', 'source', 'insert'); CREATE TEMP TABLE kept AS SELECT 1; TRUNCATE source; SELECT raw_copy('target', 'source', 'insert'); SELECT raw_drop('target'); COMMIT",
	'42704', qr/no longer exists/, 'rows of a table that is truncated and filled again');

# ---- tables without a segment ----
foreach my $kind ('UNLOGGED', 'TEMP')
{
	fresh('source', 'target');
	is(in_session("CREATE $kind TABLE plain ($columns); BEGIN; INSERT INTO plain SELECT id + 10 FROM source; SELECT raw_copy('source', 'plain', 'insert'); COMMIT; DROP TABLE source;"
		  . "SELECT count(*) FROM plain WHERE id < 10 AND $right; DROP TABLE plain") =~ /^5$/m, 1, "$kind: values are in the rows");
}

# ---- what nobody notices: rows beside others, where the server counts none ----
# The values are there while their rows live; then reading them is an error, and never other bytes.
sub unnoticed
{
	fresh('source', 'target');
	in_session("SET track_counts = off; BEGIN; INSERT INTO target (id) VALUES (9); SELECT raw_copy('source', 'target', 'insert'); COMMIT; RESET track_counts; DELETE FROM target WHERE id = 9");
	is(in_session("SELECT string_agg(DISTINCT finding, ' ') FROM securefile_check('target', 'd')"), 'bad locator', 'rows that nobody has noticed');
	is(in_session("SELECT count(*) FROM target WHERE $right"), 5, 'their values are there');
	return;
}
unnoticed();
$losses{delete}->('source');
my $outcomes = in_session("SELECT string_agg(DISTINCT outcome(d, id, len), ' ') FROM target WHERE len > 4000");
is($outcomes, '42704', 'when their rows are gone, reading them says so');
unnoticed();
in_session("SELECT securefile_rewrite('target', c) FROM (VALUES ('d'::name), ('e')) v (c)", 'DROP TABLE source');
is_whole('target', 'copied by securefile_rewrite()');

# ---- beside others ----
fresh('source', 'target');
my $copier = background($node);
my $reader = background($node);
$reader->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT * FROM source; FETCH 1 FROM c');
$copier->query_safe("BEGIN; SELECT raw_copy('source', 'target', 'insert')");
in_session('UPDATE source SET d = blob(0, 9000) WHERE id < 3', 'DELETE FROM source WHERE id > 3');
$losses{delete}->('source');
$copier->query('COMMIT');
is_whole('target', 'the source has changed meanwhile');
$reader->query_safe('COMMIT');
$_->quit foreach $copier, $reader;

# ---- after a crash, on a standby, and after its promotion ----
$node->backup('base');
my $standby = new_standby('raw_standby', $node, 'base');
fresh('source', 'target');
in_session("SELECT raw_copy('source', 'target', 'insert'); SELECT raw_swap('source', 'target')");
$session->quit;
undef $session;
crash($node);
$node->start;
in_session('TRUNCATE source');
is_whole('target', 'after a crash');
catch_up($node, $standby);
is($standby->safe_psql('postgres', "SELECT count(*) FROM target WHERE $right"), 5, 'on a standby');
$standby->promote;
is($standby->safe_psql('postgres', "DROP TABLE source; SELECT count(*) FROM target WHERE $right"), 5, 'after its promotion');
$standby->stop;

# ---- what triggers have seen is not looked at again ----
in_session("CREATE TABLE often (id int PRIMARY KEY, len int, d securefile, e securefile) PARTITION BY RANGE (id)",
	'CREATE TABLE often1 PARTITION OF often FOR VALUES FROM (0) TO (1000); CREATE TABLE often2 PARTITION OF often FOR VALUES FROM (1000) TO (2000)',
	"CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.id = 13 THEN RETURN NULL; END IF; RETURN NEW; END'",
	'CREATE TRIGGER skips BEFORE INSERT ON often1 FOR EACH ROW EXECUTE FUNCTION skip()', 'SELECT pg_stat_force_next_flush()');
$node->append_conf('postgresql.conf', 'enable_seqscan = off');
$node->reload;
my $file = "$ENV{TESTDATADIR}/often.csv";
append_to_file($file, "51,2\n52,2\n1023,2\n");
chmod 0644, $file;
foreach my $work (
	"INSERT INTO often SELECT i, 9000, blob(i, 9000) FROM generate_series(1, 20) i",
	"INSERT INTO often SELECT i, 9000, blob(i, 9000) FROM generate_series(11, 20) i ON CONFLICT DO NOTHING",
	"INSERT INTO often1 SELECT i, 9000, blob(i, 9000) FROM generate_series(13, 30) i ON CONFLICT (id) DO UPDATE SET d = excluded.d, e = excluded.d WHERE excluded.id > 17",
	"BEGIN; SAVEPOINT a; UPDATE often SET len = 1 WHERE id = 3; SAVEPOINT b; UPDATE often SET d = blob(1, 6000) WHERE id = 3; ROLLBACK TO b; DELETE FROM often WHERE id = 3; RELEASE a; COMMIT",
	"BEGIN; INSERT INTO often VALUES (3, 9000, blob(3, 9000)); SAVEPOINT a; INSERT INTO often VALUES (31, 9000, blob(3, 9000)); ROLLBACK TO a; UPDATE often SET e = d WHERE id = 3; COMMIT",
	'UPDATE often SET id = id + 1000 WHERE id = 4', "BEGIN; DELETE FROM often WHERE id = 1; INSERT INTO often VALUES (1); PREPARE TRANSACTION 'q'; COMMIT PREPARED 'q'",
	"COPY often (id, len) FROM '$file' CSV",
	'MERGE INTO often USING (VALUES (1), (2), (40)) v (i) ON id = i WHEN MATCHED AND i = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET e = d WHEN NOT MATCHED THEN INSERT VALUES (i)',
	"DO \$\$ BEGIN FOR i IN 41 .. 45 LOOP BEGIN INSERT INTO often VALUES (i, 9000, blob(i, 9000)); IF i % 2 = 0 THEN PERFORM 1 / 0; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END \$\$",
	"SET session_replication_role = replica; UPDATE often SET d = blob(id, 7000) WHERE id = 5",
	"SELECT securefile_rewrite('often1', 'd')",
	"BEGIN; TRUNCATE often2; INSERT INTO often VALUES (1001, 9000, blob(1, 9000)); UPDATE often SET len = 2 WHERE id = 1001; COMMIT")
{
	my $scans = "SET stats_fetch_consistency = none; SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ('often1', 'often2')";
	my $before = in_session($scans);

	unlike(notices($work, $work, 'SELECT pg_stat_force_next_flush()'), qr/NOTICE/, "no notice: $work");
	# a rewrite of a column looks at its rows, a TRUNCATE builds the index anew
	is(in_session($scans), $before + ($work =~ /rewrite|TRUNCATE/ ? 1 : 0), "no look at all rows: $work");
}

# ---- columns that come in the middle of a transaction, whose triggers have seen fewer rows ----
foreach my $work (
	'ALTER TABLE later ADD y securefile', 'SAVEPOINT a; ALTER TABLE later ADD y securefile; ROLLBACK TO a; UPDATE later SET e = d; ALTER TABLE later ADD y securefile',
	'ALTER TABLE later ADD y bytea; ALTER TABLE later ALTER y TYPE securefile',
	'ALTER TABLE later ALTER e TYPE bytea; UPDATE later SET len = 1; ALTER TABLE later ALTER e TYPE securefile')
{
	in_session('DROP TABLE IF EXISTS later', 'CREATE TABLE later (id int PRIMARY KEY, len int, d securefile, e securefile)',
		'INSERT INTO later SELECT i, i, blob(i, 9000), blob(i, 9000) FROM generate_series(1, 4) i');
	foreach my $first ('UPDATE later SET d = blob(7, 9000) WHERE id = 3', 'DELETE FROM later WHERE id = 2')
	{
		unlike(notices("$first; $work", "BEGIN; $first; $work; UPDATE later SET len = len + 100; COMMIT"), qr/NOTICE/, "no notice: $first; $work");
		is(in_session("SELECT count(*) FROM (VALUES ('d'), ('e')) v (c), securefile_check('later', c)"), 0, "nothing lost: $first; $work");
		in_session('ALTER TABLE later DROP COLUMN IF EXISTS y');
	}
}
$node->stop;
done_testing();
