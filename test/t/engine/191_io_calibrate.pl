# securefile_io_calibrate(): what is measured, and that the scratch file goes, whatever ends
# the calibration.  View securefile_io: what processes have read and written, by file.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(time);

my $node = new_cluster('calibrate',
	conf => [ 'allow_in_place_tablespaces = on', 'restart_after_crash = on', 'fsync = on', "securefile.monitor = off" ]);
need_faults($node);
make_table($node, 't');
make_table($node, 'gone');
$node->safe_psql('postgres', "CREATE TABLESPACE place LOCATION ''");
make_table($node, 'placed', '', 'TABLESPACE place');
fill($node, 't', 1, 5, 500_000);

# A calibration of little; the last argument has what it returns.
sub calibrate
{
	my ($table, $what, $seconds) = @_;
	return sprintf "SELECT %s FROM securefile_io_calibrate('%s', 'doc', 4194304, %g)",
		$what || 'count(*) > 0', $table || 't', $seconds || 0.2;
}

# Files of temporary names below a data directory, without its part of the path.
sub scratch_files
{
	my ($dir) = @_;
	return map { s/^\Q$dir\E\///r } glob("$dir/pg_securefile/1663/pgsql_tmp/* $dir/pg_tblspc/*/*/pgsql_tmp/*");
}

sub no_scratch
{
	my ($name) = @_;
	return is(join(' ', scratch_files($node->data_dir)), '', "$name: no scratch file");
}

# A session that stands in the middle of a calibration.
sub in_the_middle
{
	my ($table, $name) = @_;
	my $session = background($node);
	ok(held($node, $session, 'io_read', calibrate($table), skip => 20), "$name: in the middle");
	return $session;
}

sub fingerprint { return sql(q{SELECT md5(string_agg(name || ' ' || modification || ' ' || md5(pg_read_binary_file(name)), ',' ORDER BY name)) FROM
	(SELECT d || '/' || f AS name, (pg_stat_file(d || '/' || f)).modification FROM
		(SELECT regexp_replace(data_files, '/[^/]*$', '') AS d FROM securefile_columns WHERE relid = 't'::regclass) s, pg_ls_dir(d) f) files}); }

# ---- what is measured ----

my $before = fingerprint();
sql('CHECKPOINT');
my $since = -s $node->logfile;
sql('CREATE TABLE result AS ' . calibrate('t', '*', 1));
my @methods = grep { substr(slurp($node->logfile), $since) !~ /io_method "$_" is not available/ } ('sync', 'libaio', 'io_uring');
my @modes = substr(slurp($node->logfile), $since) =~ /does not support direct I\/O/ ? ('f') : ('f', 't');
my @expected = map { my $mode = $_; map { my $method = $_;
	(map { my $what = $_; map { "$what|$method|$mode|$_" } (4096, 65536, 524288, 1048576) } ('read', 'write', 'durable write')),
	$method eq 'sync' ? "flush|$method|$mode|4096" : () } @methods } @modes;
is(sql('SELECT operation, io_method, direct, size_bytes FROM result ORDER BY 1, 2, 3, 4'),
	sql('SELECT * FROM (VALUES ' . join(', ', map { "('" . join("', '", split /\|/) . "')" } @expected)
		. ') AS v(operation, io_method, direct, size_bytes) ORDER BY operation, io_method, direct, size_bytes::int'),
	'a row for each operation, method, mode and size');
is(sql(q{SELECT count(*) FROM result WHERE NOT (operations > 0 AND bytes_per_second > 0 AND iops > 0
	AND mean_ms >= 0 AND median_ms <= p99_ms AND abs(iops * size_bytes - bytes_per_second) <= bytes_per_second / 1000)}), 0, 'sane numbers');
is(sql(q{SELECT string_agg(DISTINCT depth::text, ' ') FROM result WHERE io_method = 'sync'}), '1', 'sync: one request at a time');
is(sql(q{SELECT string_agg(DISTINCT depth::text, ' ') FROM result WHERE io_method <> 'sync' AND size_bytes < 524288}), '8', 'others: securefile.io_concurrency');
is(sql('SET securefile.io_concurrency = 3; ' . calibrate('t', q{max(depth)})), 3, 'as it is set');
no_scratch('in the end');
is(sql('SET securefile.io_method = sync; ' . calibrate() . '; SHOW securefile.io_method; SHOW securefile.direct_io'), "t\nsync\non", 'settings are as before');
is(fingerprint(), $before, 'the data files are as before');
rows_right($node, 't', 5, 'calibrated');

sub with_refused
{
	my ($point, $what) = @_;
	arm($node, $point, 'error', times => -1);
	my $found = sql(calibrate('t', $what));
	disarm($node);
	return $found;
}
is(with_refused('io_setup', q{string_agg(DISTINCT io_method, ' '), count(*)}), 'sync|' . 13 * @modes, 'methods that are refused are left out');
is(with_refused('io_direct', q{bool_or(direct), count(*)}), 'f|' . (12 * @methods + 1), 'so is direct I/O');

my $began = time();
sql("SELECT count(*) FROM securefile_io_calibrate('t', 'doc', 1073741824, 0.2)");
cmp_ok(time() - $began, '<', patience(), 'the time limit ends it');
no_scratch('time limit');
$began = time();
fails_with($node, "SET statement_timeout = '300ms'; " . calibrate('t', 'count(*)', 3600), '57014', 'statement timeout', 'a long one is cancelled');
cmp_ok(time() - $began, '<', patience(), 'at once');
no_scratch('statement timeout');

# ---- what ends it ----

my $session = in_the_middle('t', 'cancel');
my ($file) = scratch_files($node->data_dir);
like($file, qr{^pg_securefile/1663/pgsql_tmp/pgsql_tmp_securefile_\d+$}, 'where the scratch file lies');
sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%securefile_io_calibrate%' AND pid <> pg_backend_pid()});
resume($node, $session, 'io_read');
like($session->{stderr}, qr/canceling statement/, 'cancelled');
no_scratch('cancel');
$session->{stderr} = '';
is($session->query_safe('SHOW securefile.io_method'), 'libaio', 'cancel: settings are as before');
is($session->query_safe(calibrate()), 't', 'and it can begin again');
$session->quit;

sub ended_by
{
	my ($name, $how) = @_;
	my $ending = in_the_middle('t', $name);
	my $pid = sql(q{SELECT pid FROM pg_stat_activity WHERE query LIKE '%securefile_io_calibrate%' AND pid <> pg_backend_pid()});
	cmp_ok(scalar(scratch_files($node->data_dir)), '==', 1, "$name: there is a scratch file");
	$how->($pid);
	eval { $ending->quit };
	return;
}
ended_by('terminate', sub { sql("SELECT pg_terminate_backend($_[0])"); session_is_gone($node, $_[0]); });
disarm($node);
no_scratch('terminate');
ended_by('SIGKILL of the session', sub { my $size = -s $node->logfile; kill 9, $_[0];
	wait_until(sub { substr(slurp($node->logfile), $size) =~ /terminated by signal 9/ }); wait_restart($node, $size); });
no_scratch('SIGKILL of the session');
# stopped first: the end of the postmaster would end it in good order
ended_by('crash', sub { stop_process($_[0]); crash($node) });
is(scalar(scratch_files($node->data_dir)), 1, 'a crash leaves the scratch file');
$node->start;
no_scratch('the start after a crash');

# ---- failures ----

arm($node, 'io_write', 'enospc', skip => 1, times => -1);
fails_with($node, calibrate(), '53100', 'scratch file of a calibration, of up to 4194304 bytes.*smaller max_bytes', 'full disk');
disarm($node);
no_scratch('full disk');
foreach my $point ('io_write', 'io_sync', 'io_read', 'io_open', 'io_mkdir')
{
	arm($node, $point, 'error', times => -1);
	fails_with($node, calibrate(), '58030', 'could not', "$point fails");
	disarm($node);
	no_scratch("$point fails");
}
unlike(substr(slurp($node->logfile), $since), qr/PANIC/, 'a scratch file is no reason to panic');
# the first removes what an earlier process may have left
arm($node, 'io_unlink', 'error', skip => 1);
my ($rc, $out, $err) = $node->psql('postgres', calibrate());
is($rc, 0, 'io_unlink fails');
like($err, qr/WARNING:  could not remove file/, 'and says so');
disarm($node);
is(scalar(scratch_files($node->data_dir)), 1, 'the file stays');
$node->restart;
no_scratch('until the next start');

# ---- arguments and privileges ----

sub fails
{
	my ($arguments, @rest) = @_;
	return fails_with($node, "SELECT count(*) FROM securefile_io_calibrate($arguments)", @rest);
}
fails("'t', 'doc', $_", '22023', 'max_bytes must be between 1048576 and 1073741824', "max_bytes $_") foreach (-1, 0, 1048575, 1073741825);
fails("'t', 'doc', seconds => '$_'", '22023', 'seconds must be', "seconds $_") foreach (-1, 0, 3601, 'NaN', 'Infinity');
fails("$_", '22004', 'must not be null', "null: $_") foreach ("NULL, 'doc'", "'t', NULL", "'t', 'doc', NULL", "'t', 'doc', seconds => NULL");
fails("'t', 'nothing'", '42703', 'does not exist', 'no such column');
fails("'t', 'id'", '42804', 'not of type securefile', 'another type');
sql('CREATE UNLOGGED TABLE kept (doc securefile); CREATE TABLE parts (id int, doc securefile) PARTITION BY LIST (id)');
fails("'kept', 'doc'", '55000', 'has no segment', 'an unlogged table');
fails("'parts', 'doc'", '42809', 'partitioned', 'a partitioned table');
sql('CREATE ROLE nobody LOGIN; CREATE ROLE owner LOGIN; ALTER TABLE gone OWNER TO owner');
fails_with($node, calibrate('gone'), '42501', 'permission denied for function', 'an owner without EXECUTE', user => 'owner');
sql('GRANT EXECUTE ON FUNCTION securefile_io_calibrate TO nobody, owner');
fails_with($node, calibrate('gone'), '42501', 'must be owner', 'somebody else', user => 'nobody');
is($node->safe_psql('postgres', calibrate('gone'), extra_params => [ '-U', 'owner' ]), 't', 'an owner with EXECUTE');

# ---- beside it ----

$session = in_the_middle('gone', 'beside it');
is(sql(calibrate('gone')), 't', 'a second calibration at the same time');
is(scalar(scratch_files($node->data_dir)), 1, 'leaves the scratch file of the first one');
my $dropper = background($node);
ok(waits_for_lock($node, $dropper, 'DROP TABLE gone'), 'DROP TABLE waits');
like(resume($node, $session, 'io_read'), qr/t/, 'the first one ends');
$dropper->query_safe('SELECT');
$_->quit foreach ($session, $dropper);
is(sql(q{SELECT to_regclass('gone') IS NULL}), 't', 'then the table is dropped');
no_scratch('DROP TABLE');

# ---- tablespaces, backups, standbys ----

$session = in_the_middle('placed', 'tablespace');
like(join(' ', scratch_files($node->data_dir)), qr{^pg_tblspc/\d+/PG_\w+/pgsql_tmp/pgsql_tmp_securefile_\d+$}, 'it lies in the tablespace');
my $other = background($node);
ok(held($node, $other, 'io_read', calibrate(), skip => 20), 'and one in pg_default');
$node->backup('b');
is(join(' ', scratch_files($node->backup_dir . '/b')), '', 'a base backup has none of them');
like(resume($node, $_, 'io_read'), qr/t/, 'both end') foreach ($session, $other);
$_->quit foreach ($session, $other);
no_scratch('tablespace');
sql('DROP TABLE placed');
is($node->psql('postgres', 'DROP TABLESPACE place'), 0, 'the tablespace can be dropped');

my $standby = new_standby('standby', $node, 'b');
is($standby->safe_psql('postgres', calibrate()), 't', 'a standby can be calibrated');
is(join(' ', scratch_files($standby->data_dir)), '', 'standby: no scratch file');
$standby->stop;

# ---- the view ----

make_table($node, 'seen');
$session = background($node);
$session->query_safe('INSERT INTO seen SELECT i, i, 1000000, blob(i, 1000000) FROM generate_series(1, 3) i');
$session->query_safe('SELECT sum(length(sha256(doc::bytea))) FROM seen');
my $pid = $session->query_safe('SELECT pg_backend_pid()');
my $mine = "FROM securefile_io WHERE pid = $pid AND relname = 'seen'";
is(sql("SELECT datname, schemaname, attname, relid = 'seen'::regclass, file, in_flight, in_flight_bytes $mine"), 'postgres|public|doc|t|0|0|0', 'a file that a session uses');
is(sql("SELECT reads, read_bytes, writes, write_bytes $mine"),
	sql("SELECT direct_read_ops, direct_read_bytes, direct_write_ops, direct_write_bytes FROM securefile_stat WHERE relname = 'seen'"),
	'as many operations and bytes as securefile_stat has');
is(sql("SELECT write_bytes >= 3000000 AND read_bytes >= 3000000 AND mean_read_bytes = read_bytes / reads AND read_time > 0 AND write_time > 0
	AND flushes > 0 AND longest > 0 AND longest <= read_time + write_time + flush_time $mine"), 't', 'sane numbers');

# requests in flight
arm($node, 'io_collect', 'wait', pid => $pid);
my $fired = fired($node, 'io_collect');
$session->query_until(qr/start/, "\\echo start\nINSERT INTO seen VALUES (4, 4, 8000000, blob(4, 8000000));\n");
ok(wait_for_sql($node, "SELECT securefile_fault_fired('io_collect') > $fired"), 'it waits for requests');
is(sql("SELECT in_flight > 0 AND in_flight_bytes >= in_flight * 4096 $mine"), 't', 'which are in flight');
resume($node, $session, 'io_collect');
is(sql("SELECT in_flight, in_flight_bytes $mine"), '0|0', 'and then are not');

# who sees it
$mine = "SELECT count(*), count(file), count(reads), count(in_flight_bytes) FROM securefile_io WHERE pid = $pid";
is($node->safe_psql('postgres', $mine, extra_params => [ '-U', 'nobody' ]), '1|0|0|0', 'another role sees the process only');
sql('GRANT pg_read_all_stats TO nobody');
is($node->safe_psql('postgres', $mine, extra_params => [ '-U', 'nobody' ]), '1|1|1|1', 'members of pg_read_all_stats see all');

# the files that were used last
foreach my $i (1 .. 9)
{
	make_table($node, "f$i");
	$session->query_safe("INSERT INTO f$i VALUES (1, 1, 10000, blob(1, 10000))");
}
is(sql("SELECT string_agg(relname, ' ' ORDER BY relname) FROM securefile_io WHERE pid = $pid"), 'f2 f3 f4 f5 f6 f7 f8 f9', 'the eight files that were used last');
sql('DROP TABLE f9');
is(sql("SELECT count(*), count(relname) FROM securefile_io WHERE pid = $pid"), '8|7', 'a file whose table is dropped has no name');
ok(wait_until(sub { $session->query_safe("INSERT INTO seen SELECT max(id) + 1, max(id) + 1, 10000, blob(max(id)::int + 1, 10000) FROM seen");
	sql("SELECT count(*) > 0 FROM securefile_io i JOIN securefile_syncer s USING (pid) WHERE relname = 'seen' AND i.flushes > 0 AND flush_time > 0") eq 't' }),
	'the syncer flushes');
$session->quit;
session_is_gone($node, $pid);
is(sql("SELECT count(*) FROM securefile_io WHERE pid = $pid"), 0, 'a session that has ended is not shown');
sound($node, 't', 'in the end');
$node->stop;
done_testing();
