# Copies inside a segment that move no byte, and changes of shared values: what a row has,
# what it owns, and every order in which copying, changing and deleting can meet.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $unit = 128 * 1024;
my $node = new_cluster('reflinks',
	conf => [ master_key(), 'full_page_writes = off', 'max_prepared_transactions = 5', 'restart_after_crash = on',
		'securefile.monitor = off' ]);
need_faults($node);

# A value with a hole: its map has a root page.  Two units are stored of three.
$node->safe_psql('postgres', q{
	CREATE FUNCTION sparse(tab regclass, seed int) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_create(tab, 'doc');
	BEGIN
		PERFORM securefile_write(fd, blob(seed, 131072));
		PERFORM securefile_seek(fd, 2 * 131072, 0);
		PERFORM securefile_write(fd, blob(seed + 1, 131072));
		RETURN securefile_finish(fd);
	END $$;
	-- what sparse() has, with 'xyz' at some places
	CREATE FUNCTION content(seed int, VARIADIC changed int[] DEFAULT '{}') RETURNS bytea LANGUAGE plpgsql AS $$
	DECLARE
		data bytea := blob(seed, 131072) || decode(repeat('00', 131072), 'hex') || blob(seed + 1, 131072);
	BEGIN
		FOR i IN 1 .. cardinality(changed) LOOP
			data := overlay(data PLACING 'xyz'::bytea FROM changed[i]);
		END LOOP;
		RETURN data;
	END $$;
	CREATE FUNCTION change(doc securefile, at int) RETURNS securefile LANGUAGE sql AS
		$$ SELECT overlay(doc PLACING 'xyz'::bytea::securefile FROM at) $$;
});

sub live
{
	my ($table) = @_;
	my $usage = settle($node, $table, 'doc');
	return $usage->{live_bytes} / $unit;
}

# One test: these rows have these contents, by SQL.
sub has
{
	my ($table, $name, %wanted) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $cases = join ' ', map { "WHEN $_ THEN doc::bytea = $wanted{$_}" } sort keys %wanted;
	my $right = $node->safe_psql('postgres',
		"SELECT string_agg(id || CASE WHEN CASE id $cases END THEN '' ELSE ' wrong' END, ' ' ORDER BY id) FROM $table");
	return is($right, join(' ', sort { $a <=> $b } keys %wanted), "$name: contents");
}

# One test: nothing to find, and all space is free once the rows are gone.
sub ends
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $found = $node->safe_psql('postgres', "SELECT * FROM securefile_check('$table', 'doc')");
	$node->safe_psql('postgres', "DELETE FROM $table");
	my $live = live($table);
	$found .= $node->safe_psql('postgres', "SELECT * FROM securefile_check('$table', 'doc')");
	is("$found, $live", ', 0', "$name: nothing is found, and nothing left");
	$node->safe_psql('postgres', "DROP TABLE $table");
	return;
}

sub table
{
	my ($table, $options) = @_;
	my $type = $options ? "securefile($options)" : 'securefile';
	$node->safe_psql('postgres', "CREATE TABLE $table (id int PRIMARY KEY, doc $type)");
	return;
}

my $copy = 'INSERT INTO t SELECT %d, doc FROM t WHERE id = %d';

# ---- one after the other ----

foreach my $options ('', 'filesystem_like_logging', 'encrypt', 'compress_low, encrypt')
{
	my $name = $options || 'plain';
	table('t', $options);
	sql("INSERT INTO t SELECT 1, sparse('t', 1)");
	my $one = live('t');
	my $before = sql('SELECT pg_current_wal_insert_lsn()');
	sql(sprintf($copy, 2, 1));
	cmp_ok(sql("SELECT pg_current_wal_insert_lsn() - '$before'"), '<', 4096, "$name: WAL of a copy");
	sql(sprintf($copy, 3, 1) . ';' . sprintf($copy, 4, 2));
	is(live('t'), $one, "$name: copies take no space");
	has('t', $name, map { $_ => 'content(1)' } 1 .. 4);
	sql('UPDATE t SET doc = change(doc, 10) WHERE id = 1; UPDATE t SET doc = change(doc, 300000) WHERE id = 3');
	has('t', "$name, changed", 1 => 'content(1, 10)', 2 => 'content(1)', 3 => 'content(1, 300000)', 4 => 'content(1)');
	is(sql("SELECT * FROM securefile_check('t', 'doc')"), '', "$name: sound");
	cmp_ok(live('t'), '<=', 2 * $one, "$name: a change takes a unit");
	sql('UPDATE t SET doc = change(doc, 200000) WHERE id = 3; DELETE FROM t WHERE id = 2; INSERT INTO t SELECT 5, doc FROM t WHERE id = 3');
	has('t', "$name, changed again", 1 => 'content(1, 10)', 3 => 'content(1, 300000, 200000)', 4 => 'content(1)',
		5 => 'content(1, 300000, 200000)');
	sql('DELETE FROM t WHERE id IN (1, 4)');
	has('t', "$name, the original is gone", 3 => 'content(1, 300000, 200000)', 5 => 'content(1, 300000, 200000)');
	ends('t', $name);
}

# a value of deduplicating columns is shared, whatever its map
foreach my $options ('', ', encrypt')
{
	table('t', "deduplicate$options");
	sql("INSERT INTO t SELECT i, blob(7, 400000) FROM generate_series(1, 4) i");
	my $one = live('t');
	sql(q{
		UPDATE t SET doc = change(doc, 10) WHERE id = 1;
		UPDATE t SET doc = doc || 'xyz'::bytea::securefile WHERE id = 2;
		BEGIN; SAVEPOINT a; UPDATE t SET doc = change(doc, 99) WHERE id = 3; ROLLBACK TO a; COMMIT;
		BEGIN; UPDATE t SET doc = change(doc, 99) WHERE id = 3; UPDATE t SET doc = change(doc, 140000) WHERE id = 3; COMMIT;
		BEGIN; UPDATE t SET doc = change(doc, 99) WHERE id = 4; ROLLBACK;
		BEGIN; INSERT INTO t SELECT 6, doc FROM t WHERE id = 4; UPDATE t SET doc = change(doc, 5) WHERE id = 6; DELETE FROM t WHERE id = 6; COMMIT;
	});
	my $data = 'blob(7, 400000)';
	my %wanted = (1 => "overlay($data PLACING 'xyz'::bytea FROM 10)", 2 => "$data || 'xyz'::bytea",
		3 => "overlay(overlay($data PLACING 'xyz'::bytea FROM 99) PLACING 'xyz'::bytea FROM 140000)", 4 => $data);
	has('t', "shared$options", %wanted);
	cmp_ok(live('t'), '<', 2.5 * $one, "shared$options: changes take the units that they touch");
	is(sql("SELECT * FROM securefile_check('t', 'doc')"), '', "shared$options: sound");
	sql('DELETE FROM t WHERE id = 4');
	live('t');
	delete $wanted{4};
	has('t', "shared$options, the first is gone", %wanted);
	sql("CALL securefile_rewrite_online('t', 'doc')");
	has('t', "shared$options, rewritten", %wanted);
	ends('t', "shared$options");
}

# what the maker has not committed yet, and what a key has not, is copied by its bytes
table('t', 'encrypt');
sql(qq{
	BEGIN; INSERT INTO t SELECT 1, sparse('t', 1); INSERT INTO t SELECT 2, doc FROM t; COMMIT;
	BEGIN; SAVEPOINT a; INSERT INTO t SELECT 3, sparse('t', 3); ROLLBACK TO a; COMMIT;});
my $two = live('t');
sql("SELECT securefile_new_key('t', 'doc')");
sql(sprintf($copy, 4, 1));
is(live('t'), 1.5 * $two, 'another key: bytes');
has('t', 'bytes', 1 => 'content(1)', 2 => 'content(1)', 4 => 'content(1)');
ends('t', 'bytes');

# no gap is too long for a column that deduplicates
table('t', 'deduplicate');
sql(q{DO $$ DECLARE fd int; BEGIN FOR i IN 1 .. 2 LOOP fd := securefile_create('t', 'doc');
	PERFORM securefile_write(fd, 'begin'); PERFORM securefile_seek(fd, 1000000000000, 0); PERFORM securefile_write(fd, 'end');
	INSERT INTO t VALUES (i, securefile_finish(fd)); END LOOP; END $$});
sql(sprintf($copy, 3, 1));
is(sql("SELECT count(*), min(length(doc)), max(substring(doc FROM 1000000000001)::text) FROM t"), '3|1000000000003|\\x656e64', 'a value of a terabyte of nothing');
is(sql("SELECT shared_objects, shared_references FROM securefile_usage('t', 'doc')"), '1|2', 'it is not looked for, and copied by its root');
ends('t', 'terabyte');

# ---- side by side ----

my ($one, $other, $third) = map { background($node) } 1 .. 3;

sub begin_table
{
	table('t');
	sql("INSERT INTO t SELECT 1, sparse('t', 1)");
	return;
}

# a copy that stands before its record, while the original is deleted
foreach my $end ('COMMIT', 'ROLLBACK')
{
	begin_table();
	ok(held($node, $one, 'share_root', sprintf($copy, 2, 1)), "$end: the copy stands");
	$other->query_safe("BEGIN; DELETE FROM t WHERE id = 1; $end");
	resume($node, $one, 'share_root');
	has('t', "deleted meanwhile, $end", ($end eq 'ROLLBACK' ? (1 => 'content(1)') : ()), 2 => 'content(1)');
	is(live('t'), $end eq 'COMMIT' ? 2 : 4, "deleted meanwhile, $end: bytes are copied");
	ends('t', "deleted meanwhile, $end");
}

# a deletion that has not ended, and its end
foreach my $end ('COMMIT', 'ROLLBACK')
{
	begin_table();
	$one->query_safe('BEGIN; DELETE FROM t WHERE id = 1');
	sql(sprintf($copy, 2, 1));
	is(live('t'), 4, "being deleted, $end: bytes are copied");
	$one->query_safe($end);
	sql(sprintf($copy, 3, $end eq 'COMMIT' ? 2 : 1));
	is(live('t'), $end eq 'COMMIT' ? 2 : 4, "being deleted, $end: then none");
	has('t', "being deleted, $end", ($end eq 'ROLLBACK' ? (1 => 'content(1)') : ()), 2 => 'content(1)', 3 => 'content(1)');
	ends('t', "being deleted, $end");
}

# the same, prepared
begin_table();
sql("BEGIN; DELETE FROM t WHERE id = 1; PREPARE TRANSACTION 'd'");
sql(sprintf($copy, 2, 1));
$node->stop('immediate');
$node->start;
($one, $other, $third) = map { background($node) } 1 .. 3;
sql(sprintf($copy, 3, 1));
sql("ROLLBACK PREPARED 'd'");
sql(sprintf($copy, 4, 1));
has('t', 'prepared', map { $_ => 'content(1)' } 1 .. 4);
is(live('t'), 6, 'prepared: bytes are copied until its end');
ends('t', 'prepared');

# a copy that has not ended, while the original is deleted or changed
foreach my $end ('COMMIT', 'ROLLBACK')
{
	begin_table();
	sql("INSERT INTO t SELECT 5, sparse('t', 1)");
	$one->query_safe('BEGIN;' . sprintf($copy, 2, 1) . ';' . sprintf($copy, 6, 5));
	sql("DELETE FROM t WHERE id = 1; UPDATE t SET doc = change(doc, 10) WHERE id = 5; SELECT securefile_maintain('t', 'doc')");
	has('t', "being copied, $end", 5 => 'content(1, 10)');
	$one->query_safe($end);
	has('t', "copied, $end", 5 => 'content(1, 10)', $end eq 'COMMIT' ? (2 => 'content(1)', 6 => 'content(1)') : ());
	ends('t', "being copied, $end");
}

# an old snapshot copies what others have deleted since, and another one has only begun to change
begin_table();
$one->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
$other->query_safe("BEGIN; SELECT securefile_open(doc, 'rw') AS fd FROM t \\gset\nSELECT securefile_write(:fd, 'xyz')");
$third->query_safe('DELETE FROM t');
$other->query_safe('ROLLBACK');
$one->query_safe(sprintf($copy, 2, 1) . '; COMMIT');
has('t', 'old snapshot', 2 => 'content(1)');
live('t');
has('t', 'old snapshot, later', 2 => 'content(1)');
ends('t', 'old snapshot');

# two begin to change it; the one whose mark is there fails, it is copied, and the other one ends
begin_table();
my $write = "BEGIN; SELECT securefile_open(doc, 'rw') AS fd FROM t WHERE id = 1 \\gset\nSELECT securefile_write(:fd, 'xyz'); SELECT securefile_seek(:fd, 200000, 0); SELECT securefile_write(:fd, 'xyz')";
$one->query_safe($write);
$other->query_safe($write);
$one->query_safe('ROLLBACK');
sql(sprintf($copy, 2, 1));
$other->query('UPDATE t SET doc = securefile_finish(:fd) WHERE id = 1; COMMIT');
like($other->{stderr}, qr/could not store a changed securefile value because the value was copied meanwhile/,
	'a version that was begun before a copy is refused');
$other->{stderr} = '';
has('t', 'begun twice', 1 => 'content(1)', 2 => 'content(1)');
$other->query_safe("$write; UPDATE t SET doc = securefile_finish(:fd) WHERE id = 1; COMMIT");
has('t', 'begun again', 1 => 'content(1, 1, 200001)', 2 => 'content(1)');
ends('t', 'begun twice');

# a value in a variable, whose row has gone, is not to be shared
foreach my $gone ('DELETE FROM t WHERE id = 1', 'UPDATE t SET doc = change(doc, 10) WHERE id = 1')
{
	begin_table();
	sql("INSERT INTO t SELECT 7, sparse('t', 7)");
	my ($rc, $out, $err) = $node->psql('postgres',
		"DO \$\$ DECLARE kept securefile; BEGIN SELECT doc INTO kept FROM t WHERE id = 1; $gone; COMMIT; INSERT INTO t VALUES (2, kept); END \$\$");
	ok($rc == 0 || $err =~ /no longer exists/, "$gone: it is copied, or refused");
	live('t');
	sql("INSERT INTO t SELECT 8, sparse('t', 20)");
	is(sql("SELECT count(*) FROM t WHERE id = 2 AND doc::bytea <> content(1)"), '0', "$gone: it stays");
	ends('t', $gone);
}

# a draft that no row has got
begin_table();
sql(q{DO $$ DECLARE kept securefile; BEGIN kept := sparse('t', 3); COMMIT; INSERT INTO t VALUES (2, kept); EXCEPTION WHEN OTHERS THEN NULL; END $$});
$node->psql('postgres', q{DO $$ DECLARE kept securefile; BEGIN kept := sparse('t', 3); COMMIT; INSERT INTO t VALUES (2, kept); END $$});
live('t');
sql("INSERT INTO t SELECT 8, sparse('t', 20)");
is(sql("SELECT count(*) FROM t WHERE id = 2 AND doc::bytea <> content(3)"), '0', 'a draft of before is right or refused');
ends('t', 'draft');

# ---- crashes ----

foreach my $point ('share_root', 'root_own', 'root_take', 'resolve_share', 'reap_before_free')
{
	begin_table();
	sql(sprintf($copy, 2, 1)) if $point =~ /resolve|reap/;
	my %statements = (
		share_root => sprintf($copy, 3, 1), root_own => "INSERT INTO t SELECT 3, sparse('t', 1)",
		root_take => 'DELETE FROM t WHERE id = 1');
	my $sql = $statements{$point} || "DELETE FROM t WHERE id < 3; SELECT securefile_maintain('t', 'doc'); SELECT securefile_maintain('t', 'doc')";
	ok(dies_at($node, $point, 'kill', $sql), "$point: it dies");
	my $rows = sql('SELECT count(*) FROM t WHERE doc::bytea = content(1)');
	is($rows, sql('SELECT count(*) FROM t'), "$point: the rows are right");
	ends('t', $point);
}

# an internal error is no damage: what failed can be done again, and no space is lost
foreach my $sql ('DELETE FROM t WHERE id = 1', 'UPDATE t SET doc = content(5) WHERE id = 1', 'BEGIN; INSERT INTO t SELECT 2, doc FROM t; DELETE FROM t WHERE id = 1; COMMIT')
{
	begin_table();
	fails_with($node, "SELECT securefile_fault('root_take', 'error', pid => pg_backend_pid()); $sql", 'XX000', 'root_take', "an error while a value is given up: $sql");
	disarm($node);
	sql($sql);
	ends('t', "given up later: $sql");
}

$node->stop;
done_testing();
