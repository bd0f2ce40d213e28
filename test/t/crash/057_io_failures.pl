# Trap 11: the state after an I/O error.
# Every version.

use strict;
use warnings;
use File::Basename qw(basename);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('io_failures',
	conf => [ 'restart_after_crash = on', 'fsync = on', 'securefile.monitor = off' ]);
need_faults($node);
make_table($node, 't', 'filesystem_like_logging');
fill($node, 't', 1, 3, 200_000);

# a growth that fails takes back what it had written, on a file system that promises no zeros
my $before = data_bytes($node);
arm($node, 'io_promise', 'enotsup', times => -1);
arm($node, 'io_extend', 'enospc', skip => 3, times => -1);
fails_with($node, 'INSERT INTO t SELECT i, i, 4000000, blob(i, 4000000) FROM generate_series(100, 105) i',
	'53100', 'could not extend', 'no space for the fourth megabyte');
cmp_ok(fired($node, 'io_extend'), '>', 0, 'no space while zeros were written');
disarm($node);
is(data_bytes($node), usage($node, 't', 'doc')->{file_bytes}, 'no byte of a failed growth stays');
is(data_bytes($node), $before, 'as before');
rows_right($node, 't', 3, 'after a failed growth');

# nor does one that finds no space for the map page it needs
arm($node, 'page_extend', 'error', times => -1);
fails_with($node, 'INSERT INTO t SELECT i, i, 4000000, blob(i, 4000000) FROM generate_series(100, 105) i',
	'XX000', 'fault point page_extend', 'no space for a map page');
disarm($node);
is(data_bytes($node), usage($node, 't', 'doc')->{file_bytes}, 'no zeros of that growth stay');
sound($node, 't', 'no space for a map page');

# where no commit waits for the first flush of a block, or one waits for much, a promise is enough
make_table($node, 'logged');
foreach my $case ([ 'logged', 1, 'a small value, logging' ], [ 't', 0, 'a small value' ], [ 't', 1, 'a large value' ])
{
	my ($table, $promised, $name) = @$case;
	my $len = $name =~ /large/ ? 1_000_000 : 20_000;
	foreach my $point ('io_promise', 'io_extend')
	{
		arm($node, $point, 'pass', times => -1);
		for (my $size = data_bytes($node), my $id = 1000; data_bytes($node) == $size; $id++)
		{
			$node->safe_psql('postgres', "INSERT INTO $table VALUES ($id, $id, $len, blob($id, $len))");
		}
		my $wanted = ($point eq 'io_promise') == $promised;
		is(fired($node, $point) > 0 ? 1 : 0, $wanted ? 1 : 0, "$name: $point");
		disarm($node);
		$node->safe_psql('postgres', "DELETE FROM $table WHERE id >= 1000");
	}
}
foreach my $file (data_files($node))
{
	cmp_ok((stat $file)[12] * 512, '>=', -s $file, 'room is taken for all of ' . basename($file));
}

# a subtransaction whose write failed may not have lost bytes of outer ones; u's
# file is not open yet in the session, and need not grow
make_table($node, 'u', 'filesystem_like_logging');
fill($node, 'u', 1, 12, 4_000_000);
$node->safe_psql('postgres', 'DELETE FROM u WHERE id < 12');
settle($node, 'u', 'doc');
foreach my $case ([ 'io_write', 't', 3 ], [ 'io_open', 'u', 1 ])
{
	my ($point, $table, $rows) = @$case;
	my $session = background($node);
	# its buffers have seen writes that went well
	$session->query_safe('INSERT INTO t SELECT i, i, 4000000, blob(i, 4000000) FROM generate_series(300, 305) i;'
		  . ' DELETE FROM t WHERE id >= 300');
	$session->query_safe("BEGIN; INSERT INTO $table VALUES (100, 100, 300000, blob(100, 300000)); SAVEPOINT s");
	arm($node, $point, 'error');
	$session->query("INSERT INTO $table SELECT i, i, 4000000, blob(i, 4000000) FROM generate_series(200, 204) i");
	like($session->{stderr}, qr/ERROR/, "$point: a write fails in a savepoint");
	$session->{stderr} = '';
	cmp_ok(fired($node, $point), '>', 0, "$point: it was that");
	disarm($node);
	$session->query('ROLLBACK TO s; COMMIT');
	$session->quit;
	my $count = $node->safe_psql('postgres', "SELECT count(*) FROM $table");
	ok($count == $rows || $count == $rows + 1, "$point: the outer transaction is there or is not");
	rows_right($node, $table, $count, "$point: and whole");
	sound($node, $table, "$point: and whole");
	$node->safe_psql('postgres', "DELETE FROM $table WHERE id = 100");
}

# a write that never began is not met again: the mark alone says that it is missing.
# The row shares a piece with what comes after the savepoint, and the first write of
# all is that piece's; its slot has seen one that went well.
my $session = background($node);
$session->query_safe("SET securefile.write_gather_size = '256kB';"
	  . ' INSERT INTO t SELECT i, i, 1000000, blob(i, 1000000) FROM generate_series(300, 305) i;'
	  . ' DELETE FROM t WHERE id >= 300');
$session->query_safe('BEGIN; INSERT INTO u VALUES (100, 100, 100000, blob(100, 100000)); SAVEPOINT s');
arm($node, 'io_open', 'error');
$session->query('INSERT INTO u VALUES (200, 200, 4000000, blob(200, 4000000))');
like($session->{stderr}, qr/could not open segment data file/, 'a write does not begin');
disarm($node);
$session->{stderr} = '';
$session->query('ROLLBACK TO s; COMMIT');
like($session->{stderr}, qr/data of this transaction could not be written/, 'and the transaction is lost');
$session->quit;
rows_right($node, 'u', 1, 'a write that did not begin');

# a durable write that fails leaves the disk's contents unknown, as a failed flush
my $offset = -s $node->logfile;
arm($node, 'io_write', 'error');
my ($rc) = $node->psql('postgres', 'INSERT INTO t VALUES (20, 20, 30000, blob(20, 30000))');
isnt($rc, 0, 'a failed durable write does not go unnoticed');
wait_restart($node);
like(slurp_file($node->logfile, $offset), qr/PANIC:  could not write segment data file/, 'it is a PANIC');
rows_right($node, 't', 3, 'after the PANIC');
sound($node, 't', 'after the PANIC');

# whose data files they are is written before the first segment of a database
$node->safe_psql('postgres', 'CREATE DATABASE d');
$node->safe_psql('d', 'CREATE EXTENSION securefile');
foreach my $case ((map { [ 'io_number_write', 'enospc', $_ ] } (0 .. 2)), [ 'io_rename', 'error', 0 ])
{
	my ($point, $action, $skip) = @$case;
	arm($node, $point, $action, skip => $skip);
	fails_with($node, 'CREATE TABLE t (doc securefile)', $action eq 'enospc' ? '53100' : '58030',
		'could not write file "pg_securefile/database', "$point: $action", db => 'd');
	disarm($node);
	is(join(' ', glob($node->data_dir . '/pg_securefile/*.new.*')), '', "$point: nothing stays");
}
$node->safe_psql('d', 'CREATE TABLE t (doc securefile)');
foreach my $pass (0 .. 3)
{
	arm($node, 'io_number_read', 'error', skip => $pass);
	fails_with($node, 'CREATE TABLE u (doc securefile)', '58030', 'database', "what cannot be read, pass $pass", db => 'd');
	disarm($node);
}

# calls that the system wants to have repeated, again and again: that can be cancelled
make_table($node, 'direct', 'nocache');
fill($node, 'direct', 1, 1, 1_000_000);
fill($node, 't', 30, 30, 1_000_000);
foreach my $case (
	[ 'io_read', 'eagain', 'SELECT md5(doc::bytea) FROM direct' ],
	[ 'io_read', 'eagain', 'SELECT md5(doc::bytea) FROM t WHERE id = 30' ],
	[ 'io_promise', 'eagain', 'INSERT INTO direct SELECT i, i, 4000000, blob(i, 4000000) FROM generate_series(20, 35) i' ])
{
	my ($point, $action, $sql) = @$case;
	arm($node, $_, $action, times => -1) foreach ($point, 'io_rest');
	# a machine may be too slow to come there in half a second
	my ($rc, $out, $err);
	for (my $ms = 500; $ms < 60_000; $ms *= 3)
	{
		($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = $ms; $sql", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		last if $rc == 0 || fired($node, $point) > 0;
	}
	like($err, qr/ERROR:  57014: .*statement timeout/, "$point: $action for ever");
	cmp_ok(fired($node, $point), '>', 0, "$point: $action acted");
	disarm($node);
}

# writes cannot, but end by themselves
arm($node, $_, 'eintr', times => -1) foreach ('io_write', 'io_rest');
fails_with($node, 'INSERT INTO direct SELECT i, i, 4000000, blob(i, 4000000) FROM generate_series(10, 12) i',
	'XX000', 'could not write segment data file .* Interrupted system call', 'a write is not repeated for ever');
disarm($node);
rows_right($node, 'direct', 1, 'after cancelled repetitions');
sound($node, 'direct', 'after cancelled repetitions');

# a limit of the size of files, which is one of the kernel: longer than a segment of WAL
make_table($node, 'limited', 'filesystem_like_logging');
fills_limited($_) foreach 'growth', 'the same again';

sub fills_limited
{
	my ($name) = @_;
	fails_with($node, "SELECT pg_backend_pid() AS pid \\gset\n\\setenv PID :pid\n\\! prlimit --pid \$PID --fsize=20971520\n"
		  . 'INSERT INTO limited SELECT i, i, 4000000, blob(i, 4000000) FROM generate_series(1, 8) i',
		'54000', 'could not .* segment data file .*File too large.*HINT:  Start the server without a limit of the size of files', "file size limit: $name");
	rows_right($node, 'limited', 0, "file size limit: $name");
	sound($node, 'limited', "file size limit: $name");
	return;
}

fill($node, 'limited', 1, 8, 4000000);
rows_right($node, 'limited', 8, 'without the limit');

# DROP DATABASE has removed the server's own files when it comes to ours: it does not
# fail for them, and what it leaves the monitor's launcher removes
my @left;
foreach my $point ('io_opendir', 'io_readdir', 'io_unlink', 'io_rmdir', 'io_stat')
{
	$node->safe_psql('postgres', 'CREATE DATABASE gone TEMPLATE template0');
	SecurefileTest::prepare_database($node, 'gone');
	$node->safe_psql('gone', 'CREATE TABLE t AS SELECT 1 AS id, blob(1, 500000)::securefile AS doc');
	my $oid = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'gone'");
	my ($dropped, $out, $err) = $node->psql('postgres',
		"SELECT securefile_fault('$point', 'error', times => -1);\nDROP DATABASE gone;");
	is($dropped, 0, "$point: DROP DATABASE succeeds") or diag($err);
	like($err, qr/WARNING/, "$point: says what it could not do") unless $point eq 'io_stat';
	disarm($node);
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_database WHERE oid = $oid"), 0, "$point: it is gone");
	push @left, $oid;
}
$node->append_conf('postgresql.conf', 'securefile.monitor = on');
$node->reload;
my @paths = map { $node->data_dir . "/pg_securefile/$_" } map { ("1663/$_", "database.$_") } @left;
wait_until(sub { !grep { -e } @paths });
is(join(' ', grep { -e } @paths), '', 'the launcher removes what was left');

$node->stop;
done_testing();
