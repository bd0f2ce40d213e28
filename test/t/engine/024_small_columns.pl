# Small columns are cheap.  A segment gets its files with the first value; they are no
# longer than the values need, and are removed with the last value.  Creating, emptying or
# dropping many columns does not flush the disk once for each column.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileSpace;
use SecurefileTest;
use Test::More;

my $node = new_cluster('small',
	conf => [ 'fsync = on', 'wal_writer_delay = 10s', 'securefile.monitor = off', 'allow_in_place_tablespaces = on', 'wal_level = logical' ]);
need_faults($node);

# Directories of segments.
sub directories { return scalar(my @found = glob($node->data_dir . '/pg_securefile/*/*/*')); }

# ---- one value ----
foreach my $options ('', 'filesystem_like_logging')
{
	my $name = $options || 'logging';
	make_table($node, 't', $options);
	is(directories(), 0, "$name: a column without values has no files");
	sound($node, 't', "$name: no values");
	fill($node, 't', 1, 1, 3000);
	is(directories(), 0, "$name: nor has one whose values lie in its rows");
	fill($node, 't', 2, 2, 5000);
	is(data_bytes($node), 65536, "$name: 64 KB for a small value");
	is(file_bytes('t'), 65536, "$name: as the header says");
	$node->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')");
	is(data_bytes($node), 65536, "$name: maintenance leaves it");
	sound($node, 't', "$name: one small value");

	$node->safe_psql('postgres', 'DELETE FROM t');
	settle($node, 't', 'doc');
	is(data_bytes($node), 0, "$name: nothing when it is gone");
	is(file_bytes('t'), 0, "$name: nothing as the header says");
	sound($node, 't', "$name: emptied");
	crash($node);
	$node->start;
	is(file_bytes('t'), 0, "$name: nor after a crash");
	fill($node, 't', 3, 12, 30_000);
	cmp_ok(data_bytes($node), '<=', 2 * 10 * 30_000 + 65536, "$name: growth with what there is");
	rows_right($node, 't', 10, "$name: filled again");
	crash($node);
	$node->start;
	rows_right($node, 't', 10, "$name: filled again, crash");
	sound($node, 't', "$name: filled again, crash");
	$node->safe_psql('postgres', 'TRUNCATE t');
	is(directories(), 0, "$name: TRUNCATE leaves no files");
	fill($node, 't', 1, 1, 20_000);
	rows_right($node, 't', 1, "$name: after TRUNCATE");
	$node->safe_psql('postgres', 'DROP TABLE t');
	is(directories(), 0, "$name: nor does DROP");
}

# ---- one value that does not come as bytes ----
make_table($node, 'small');
fill($node, 'small', 1, 1, 5000);
my %ways = (
	'another column' => 'INSERT INTO t SELECT * FROM small',
	'an edited value' => 'INSERT INTO t SELECT id, seed, len, substring(doc FROM 1 FOR 4500) || substring(doc FROM 4501) FROM small',
	'a handle' => q{DO $$ DECLARE h int; BEGIN h := securefile_create('t', 'doc'); PERFORM securefile_write(h, blob(1, 5000));
		INSERT INTO t VALUES (1, 1, 5000, securefile_finish(h)); END $$});
foreach my $name (sort keys %ways)
{
	make_table($node, 't');
	$node->safe_psql('postgres', $ways{$name});
	is(file_bytes('t'), 65536, "$name: 64 KB for a small value");
	rows_right($node, 't', 1, $name);
	$node->safe_psql('postgres', 'DROP TABLE t');
}
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT * FROM small');
is(file_bytes('t'), 65536, 'CREATE TABLE AS: 64 KB for a small value');
$node->safe_psql('postgres', 'DROP TABLE t; DROP TABLE small');

# the end of a file falls on any multiple of 64 KB: several sessions at once, with
# maintenance in between
make_table($node, 't');
my @sessions = map { background($node) } 1 .. 4;
foreach my $round (1 .. 6)
{
	foreach my $i (0 .. $#sessions)
	{
		my ($first, $len) = ($round * 100 + $i * 10, 4500 + 7919 * $i * $round);
		$sessions[$i]->{stdin} .= "INSERT INTO t SELECT i, i, $len, blob(i, $len) FROM generate_series($first, $first + 3) i;\n";
		$sessions[$i]->{run}->pump_nb;
	}
	$node->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')");
	$_->query_safe('SELECT 1') foreach @sessions;
	$node->safe_psql('postgres', 'DELETE FROM t') if $round % 2 == 0 && $round < 6;
}
$_->quit foreach @sessions;
rows_right($node, 't', 32, 'four sessions');
sound($node, 't', 'four sessions');

# ---- what there is to write lies side by side all the same ----
sub chunk_bytes
{
	return $node->safe_psql('postgres',
		"SELECT allocation_bytes / allocation_chunks FROM securefile_stat WHERE relid = '$_[0]'::regclass");
}
make_table($node, 'one');
fill($node, 'one', 1, 1, 3_000_000);
cmp_ok(chunk_bytes('one'), '>=', 2_900_000, 'a value of 3 MB has one place');
cmp_ok(file_bytes('one'), '<=', 3_000_000 + 2 * 65536, 'and no more');
make_table($node, 'load');
fill($node, 'load', 1, 2000, 20_000);
cmp_ok(chunk_bytes('load'), '>=', mb(1), 'a load of small values has large ones');
rows_right($node, 'load', 2000, 'a load');

# ---- the monitor gives back what is empty ----
make_table($node, 'queue');
fill($node, 'queue', 1, 20, 20_000);
$node->safe_psql('postgres', 'DELETE FROM queue');
$node->append_conf('postgresql.conf', 'securefile.monitor = on');
# it forgets what was wanted in the last minutes
$node->restart;
ok(wait_for_sql($node, "SELECT file_bytes = 0 FROM securefile_usage('queue', 'doc')"), 'the monitor empties the files');
cmp_ok(file_bytes('one'), '>=', 3_000_000, 'but not those of live values');
$node->append_conf('postgresql.conf', 'securefile.monitor = off');
$node->reload;

# ---- holes only: pages, but no data; the directory is there for pg_upgrade ----
make_table($node, 'holes');
my $before = directories();
$node->safe_psql('postgres', q{DO $$
	DECLARE
		fd int := securefile_create('holes', 'doc');
	BEGIN
		PERFORM securefile_seek(fd, 1000000, 0);
		PERFORM securefile_truncate(fd, 1000000);
		INSERT INTO holes VALUES (1, 1, 1000000, securefile_finish(fd));
	END $$});
is(directories(), $before + 1, 'a value of holes has a directory');
is($node->safe_psql('postgres', 'SELECT length(doc), doc::bytea = decode(repeat(\'00\', 1000000), \'hex\') FROM holes'),
	'1000000|t', 'and is right');

# ---- moves and kept storage of what has no files ----
$node->safe_psql('postgres', "CREATE TABLESPACE place LOCATION ''");
foreach my $t ('never', 'once')
{
	make_table($node, $t);
	if ($t eq 'once')
	{
		fill($node, $t, 1, 1, 9000);
		$node->safe_psql('postgres', "DELETE FROM $t");
		settle($node, $t, 'doc');
	}
	foreach my $place ('place', 'pg_default')
	{
		$node->safe_psql('postgres', "SELECT securefile_set_tablespace('$t', 'doc', '$place')");
		sound($node, $t, "$t, in $place");
	}
	fill($node, $t, 2, 3, 9000);
	rows_right($node, $t, 2, "$t, moved");
	$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('s', 'pgoutput'); DELETE FROM $t; TRUNCATE $t; TRUNCATE $t");
	fill($node, $t, 4, 4, 9000);
	$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('s')");
	rows_right($node, $t, 1, "$t, with a slot");
	sound($node, $t, "$t, with a slot");
}
$node->safe_psql('postgres', 'DROP TABLE t, one, load, queue, holes, never, once; DROP TABLESPACE place');
$node->safe_psql('postgres', "CREATE TABLE other (doc securefile); SELECT securefile_maintain('other', 'doc')");
is(directories(), 0, 'nothing is left');

# ---- many columns ----

# What statements flushed: [ names of files, files, WAL ].
sub flushes
{
	my ($sql) = @_;
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	arm($node, $_, 'pass', times => -1, pid => $pid) foreach ('io_sync_dir', 'io_sync');
	my $wal = $node->pg_version >= 18 ? "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'" : 'SELECT wal_sync FROM pg_stat_wal';
	$session->query_safe('SELECT pg_stat_force_next_flush()');
	my $was = $session->query_safe($wal);
	$session->query_safe($_) foreach @$sql, 'SELECT pg_stat_force_next_flush()';
	my @flushes = (fired($node, 'io_sync_dir'), fired($node, 'io_sync'), $session->query_safe($wal) - $was);
	disarm($node);
	$session->quit;
	return \@flushes;
}
sub many { return "CREATE TABLE many (" . join(', ', 'id int', map { "c$_ securefile" } 1 .. $_[0]) . ')'; }

foreach my $sql (many(400), 'TRUNCATE many', 'DROP TABLE many')
{
	my ($names, $files, $wal) = @{ flushes([$sql]) };
	my $what = substr($sql, 0, 8);
	cmp_ok($names + $files, '<=', 4, "$what, 400 columns: no flush of files for each");
	cmp_ok($wal, '<=', 20, "$what, 400 columns: no flush of WAL for each");
}

# 60 of them with values, each with a file
my $values = 'INSERT INTO many VALUES (1' . ', blob(1, 5000)' x 60 . ')';
foreach my $end ('TRUNCATE many', 'DROP TABLE many')
{
	$node->safe_psql('postgres', "DROP TABLE IF EXISTS many; " . many(60) . "; $values");
	is(directories(), 60, 'columns with files');
	my ($names, $files, $wal) = @{ flushes([$end]) };
	cmp_ok($names + $files, '<=', 4, "$end, 60 columns with files: no flush of files for each");
	cmp_ok($wal, '<=', 20, "$end, 60 columns with files: no flush of WAL for each");
	is(directories(), 0, "$end: all are removed");
}
$node->stop;
done_testing();
