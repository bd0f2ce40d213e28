# Files of the server: securefile_load() and securefile_save(): contents and holes, roles, which
# paths are refused however they are written, what becomes of a file when anything fails, and what
# somebody else may do to a path meanwhile.  And saves and loads under blows at random moments;
# SECUREFILE_SAVE_BLOWS: so many, of longer values.
# Every version.

use strict;
use warnings;
use Fcntl qw(O_DIRECTORY O_WRONLY);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IO::Socket::UNIX;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileRandom;
use SecurefileTest;
use Test::More;

my $node = new_cluster('files', init => { allows_streaming => 1 }, conf => [ 'securefile.monitor = off', 'restart_after_crash = on', 'wal_keep_size = 1GB' ]);
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $data = $node->data_dir;
my $len = 700_000;
make_table($node, 't');
make_table($node, 'z', 'compress_medium');
sql('CREATE ROLE nobody', 'CREATE ROLE reads IN ROLE pg_read_server_files', 'CREATE ROLE writes IN ROLE pg_write_server_files',
	"INSERT INTO t VALUES (1, 1, $len, blob(1, $len)), (2, 2, 3000, blob(2, 3000))",
	q{CREATE FUNCTION loaded(path text, start bigint DEFAULT 0, count bigint DEFAULT NULL) RETURNS securefile LANGUAGE plpgsql AS $$
		DECLARE
			fd int := securefile_create('t', 'doc');
			n bigint := securefile_load(fd, path, start, count);
		BEGIN
			IF securefile_tell(fd) <> n THEN
				RAISE 'position %, not %', securefile_tell(fd), n;
			END IF;
			RETURN securefile_finish(fd);
		END $$});

# A statement that saves row 1.
sub save { my ($path, $more) = @_; return "SELECT securefile_save(doc, '$path'" . ($more // '') . ') FROM t WHERE id = 1'; }

# What a directory has, with what begins with a dot.
sub entries
{
	my ($of) = @_;
	opendir(my $dh, $of) or die "$of: $!";
	my @found = sort grep { !/^\.\.?$/ } readdir $dh;
	closedir $dh;
	return join ' ', @found;
}

# Two tests: a call fails so, and nothing new is in the directory.
my $place = "$dir/place";
mkdir $place;

# A file is made without a name where the file system has such files (O_TMPFILE); it is given the
# hidden one before its own.
my $nameless = sysopen(my $probe, $place, 020000000 | O_DIRECTORY | O_WRONLY, 0600) ? 1 : 0;
my $hidden = qr/^\.securefile-[0-9a-f]{16}$/;

sub fails_clean
{
	my ($sql, $sqlstate, $name, $there) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	fails_with($node, $sql, $sqlstate, '', $name);
	return is(entries($place), $there // '', "$name: nothing is left");
}

subtest 'contents' => sub {
	my $n = 0;
	foreach my $value ("''", "'x'", 'blob(1, 4000)', 'blob(1, 131072)', "blob(1, $len)", 'blob(2, 9000001)')
	{
		my $path = "$place/" . $n++;
		is(sql("SELECT securefile_save(${value}::securefile, '$path') = length(${value}::securefile)", "SELECT loaded('$path')::bytea = ${value}::bytea"), "t\nt", "$value there and back");
		is((stat $path)[2] & 07777, 0600, 'nobody else may read the file');
	}
	is(sql("SELECT securefile_save(doc || blob(3, 500000), '$place/edited'), securefile_save(doc, '$place/stored') FROM t WHERE id = 1", "SELECT loaded('$place/edited')::bytea = blob(1, $len) || blob(3, 500000), loaded('$place/stored')::bytea = blob(1, $len)"),
		($len + 500_000) . "|$len\nt|t", 'edited and stored values');
	foreach my $range ([ 0, 'NULL' ], [ 0, 0 ], [ 100, 50 ], [ 131071, 131074 ], [ $len - 5, 100 ], [ $len, 'NULL' ], [ $len + 1, 7 ], [ '9223372036854775807', '9223372036854775807' ], [ 7, '9223372036854775807' ])
	{
		my ($start, $count) = @$range;
		my $bytes = "substring(blob(1, $len) FROM least($start, $len)::int + 1" . ($count eq 'NULL' ? '' : " FOR least($count, $len)::int") . ')';
		is(sql("SELECT loaded('$place/stored', $start, $count)::bytea = $bytes"), 't', "$count bytes from $start");
	}

	# over what is there, behind it, and in a value that is in memory
	is(sql(qq{DO \$\$ DECLARE fd int; BEGIN
			SELECT securefile_open(doc, 'rw') INTO fd FROM t WHERE id = 1;
			PERFORM securefile_seek(fd, 200, 0), securefile_load(fd, '$place/stored', 1000, 131072), securefile_seek(fd, 100, 2), securefile_load(fd, '$place/1');
			INSERT INTO z VALUES (1, 0, 0, securefile_finish(fd));
			fd := securefile_open('\\x0102030405'::securefile, 'rw');
			PERFORM securefile_seek(fd, 2, 0), securefile_load(fd, '$place/1');
			INSERT INTO z VALUES (2, 0, 0, securefile_finish(fd)); END \$\$},
			"SELECT doc::bytea = overlay(blob(1, $len) PLACING substring(blob(1, $len) FROM 1001 FOR 131072) FROM 201) || decode(repeat('00', 100), 'hex') || 'x'::bytea FROM z WHERE id = 1", 'SELECT doc::bytea FROM z WHERE id = 2'),
		"t\n\\x0102780405", 'over what is there, and behind it');
	fails_with($node, "SELECT securefile_load(h, '$place/stored') FROM (SELECT h FROM (SELECT securefile_open('x'::securefile, 'rw') AS h OFFSET 0) a WHERE securefile_seek(h, 1073741000, 0) > 0 OFFSET 0) b", '54000', '', 'a value in memory has a limit');

	# what may be loaded
	is(sql("SELECT loaded('PG_VERSION')::bytea = pg_read_binary_file('PG_VERSION')"), 't', 'a relative path is below the data directory');
	symlink "$place/stored", "$place/link";
	is(sql("SELECT loaded('$place/link')::bytea = blob(1, $len)"), 't', 'a symbolic link is followed');
	cmp_ok(sql("SELECT length(loaded('/proc/self/status'))"), '>', 100, 'a file that does not tell its length');
	# and that says that it has no data, to those who ask where
	is(sql("SELECT loaded('$_')::bytea = pg_read_binary_file('$_', 0, 1000), loaded('$_', 2, 3)::bytea = pg_read_binary_file('$_', 2, 3)"), 't|t', "so does $_") foreach '/proc/sys/kernel/ostype', '/proc/sys/kernel/osrelease';
	is(sql("SELECT securefile_save(NULL, '$place/null') IS NULL, securefile_save(doc, NULL) IS NULL, securefile_save(doc, '$place/null', NULL) IS NULL, securefile_load(1, NULL) IS NULL, securefile_load(NULL, 'x') IS NULL, securefile_load(1, 'x', NULL) IS NULL FROM t WHERE id = 1"), 't|t|t|t|t|t', 'nulls');
	is(entries($place), '0 1 2 3 4 5 edited link stored', 'no file but these');
	unlink glob("$place/*");
	sound($node, 't', 'contents');
	sql('DELETE FROM z');
};

subtest 'holes' => sub {
	my $huge = 5_000_000_000;
	sql('CREATE TABLE sparse (id int, doc securefile)',
		"DO \$\$ DECLARE fd int := securefile_create('sparse', 'doc'); BEGIN PERFORM securefile_write(fd, blob(1, 300000)), securefile_seek(fd, $huge, 0), securefile_write(fd, blob(2, 300000)), securefile_truncate(fd, 2 * $huge); INSERT INTO sparse VALUES (1, securefile_finish(fd)); END \$\$");
	is(sql("SELECT securefile_save(doc, '$place/sparse') FROM sparse"), 2 * $huge, '10 GB saved');
	my @stat = stat "$place/sparse";
	is($stat[7], 2 * $huge, 'the length of the file');
	cmp_ok($stat[12] * 512, '<', 8_000_000, 'which takes no space for its gaps');
	sql("DO \$\$ DECLARE fd int := securefile_create('sparse', 'doc'); BEGIN PERFORM securefile_seek(fd, 77, 0), securefile_load(fd, '$place/sparse'); INSERT INTO sparse VALUES (2, securefile_finish(fd)); END \$\$");
	is(sql("SELECT length(doc), substring(doc, 78, 300000) = blob(1, 300000), substring(doc, $huge + 78, 300000) = blob(2, 300000), substring(doc, 1000000, 100) = decode(repeat('00', 100), 'hex') FROM sparse WHERE id = 2"),
		(2 * $huge + 77) . '|t|t|t', 'loaded to another place');
	cmp_ok(sql('SELECT units FROM sparse, securefile_storage(doc) WHERE id = 2'), '<', 100, 'which stores no gaps');
	# a gap of the file over bytes of the value
	sql("DO \$\$ DECLARE fd int; BEGIN SELECT securefile_open(doc, 'rw') INTO fd FROM t WHERE id = 1; PERFORM securefile_load(fd, '$place/sparse', 299000, 400000); UPDATE t SET doc = securefile_finish(fd) WHERE id = 1; END \$\$");
	is(sql("SELECT doc::bytea = substring(blob(1, 300000) FROM 299001) || decode(repeat('00', 399000), 'hex') || substring(blob(1, $len) FROM 400001) FROM t WHERE id = 1"), 't', 'a gap over bytes');
	sql("UPDATE t SET doc = blob(1, $len) WHERE id = 1");
	unlink "$place/sparse";

	# longer than files can be, on most file systems
	sql('UPDATE sparse SET doc = securefile_truncate(doc, 9223372036854775807) WHERE id = 1');
	my $save = "SELECT securefile_save(doc, '$place/sparse') FROM sparse WHERE id = 1";
	fails_clean($save, '54000', 'a file of 2^63 - 1 bytes') if $node->psql('postgres', $save) != 0;
	unlink "$place/sparse";
	sound($node, 't', 'holes');
};

subtest 'roles' => sub {
	my $as = sub { my ($role, $sql) = @_; return "SET ROLE $role; $sql" };
	sql('GRANT SELECT, INSERT ON t TO PUBLIC');
	my $load = sub { return "SELECT securefile_load(securefile_create('t', 'doc'), '$_[0]')" };
	write_file("$place/it", 'bytes');
	# the same error, whatever is there
	foreach my $role ('nobody', 'writes')
	{
		fails_with($node, $as->($role, $load->($_)), '42501', 'permission denied to call securefile_load', "$role: load of '$_'") foreach "$place/it", "$place/none", '/', '';
		fails_with($node, $as->($role, "SELECT securefile_load(0, '$place/it')"), '42501', '', "$role: load into no handle");
	}
	foreach my $role ('nobody', 'reads')
	{
		fails_with($node, $as->($role, save($_)), '42501', 'permission denied to call securefile_save', "$role: save to $_") foreach "$place/it", "$place/new", 'relative', "$data/pg_securefile/x";
	}
	is(sql($as->('reads', $load->("$place/it"))), 5, 'a role that may, loads');
	is(sql($as->('writes', save("$place/new"))), $len, 'a role that may, saves');
	is(entries($place), 'it new', 'the files');
	unlink glob("$place/*");
};

subtest 'what is refused' => sub {
	my $load = sub { return "SELECT loaded('$_[0]')" };
	POSIX::mkfifo("$place/fifo", 0600);
	mkdir "$place/directory";
	symlink 'loop', "$place/loop";
	symlink "$place/nowhere", "$place/dangling";
	symlink "$place/other", "$place/link";
	write_file("$place/other", 'what the link leads to');
	my $socket = IO::Socket::UNIX->new(Local => "$place/socket", Listen => 1);
	my $there = entries($place);
	fails_with($node, $load->("$place/$_"), '42809', 'not a regular file|levels of symbolic links', "load of a $_") foreach 'fifo', 'directory', 'socket', 'loop';
	fails_with($node, $load->($_), '42809', 'not a regular file', "load of $_") foreach '/dev/null', '/dev/zero', '/', '.';
	fails_with($node, $load->("$place/$_"), '58P01', 'No such file', "load of $_") foreach 'none', 'dangling', 'none/x';
	fails_with($node, $load->(''), '58P01', '', 'load of nothing');
	fails_with($node, $load->("$place/other/x"), '42809', 'Not a directory', 'load of a file below a file');
	fails_with($node, $load->('x' x 5000), '42622', '', 'load of a name that is too long');
	fails_with($node, "SELECT loaded('$place/other', $_)", '22023', '', "from $_") foreach -1, '-9223372036854775808';
	fails_with($node, "SELECT loaded('$place/other', 0, $_)", '22023', '', "$_ bytes") foreach -1, '-9223372036854775808';
	fails_with($node, "SELECT securefile_load(securefile_open(doc, 'r'), '$place/other') FROM t WHERE id = 1", '55000', '', 'a handle that reads');
	fails_with($node, "SELECT securefile_load(0, '$place/other')", '42704', '', 'no handle');
	fails_with($node, "BEGIN READ ONLY; SELECT securefile_load(0, '$place/other')", '25006', '', 'load in a read-only transaction');

	foreach my $overwrite ('', ', true')
	{
		fails_clean(save("$place/$_", $overwrite), '42809', "save to a $_$overwrite", $there) foreach 'fifo', 'directory', 'socket', 'loop', 'dangling', 'link', 'directory/', '.', '..', '';
		fails_clean(save("$place/other/x", $overwrite), '42809', "save below a file$overwrite", $there);
		fails_clean(save("$place/none/x", $overwrite), '58P01', "save to no directory$overwrite", $there);
		fails_clean(save($_, $overwrite), '42602', "save to '$_'$overwrite", $there) foreach 'x', './x', '../x', '';
		fails_clean(save("$place/" . 'x' x 300, $overwrite), '42622', "a name that is too long$overwrite", $there);
	}
	fails_clean(save("$place/other"), '42710', 'save to a file that exists', $there);
	is(slurp("$place/other"), 'what the link leads to', 'which is as it was');
	is(sql(save("$place/other", ', overwrite => true')), $len, 'overwritten');
	is(sql("SELECT loaded('$place/link')::bytea = blob(1, $len)"), 't', 'with all of it');
	is(entries($place), $there, 'and no other file');
	mkdir "$place/locked", 0500;
	fails_with($node, save("$place/locked/x"), '42501', 'Permission denied', 'a directory that is not writable');
	close $socket;
	rmdir "$place/$_" foreach 'locked', 'directory';
	unlink glob("$place/*");
};

subtest 'directories of the server' => sub {
	my $database = sql(q{SELECT oid FROM pg_database WHERE datname = 'postgres'});
	my $space = "$dir/space";
	mkdir $space;
	$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$space'");
	sql('CREATE TABLE there (id int, doc securefile) TABLESPACE space', "INSERT INTO there VALUES (1, blob(1, $len))");
	my ($inside) = glob "$space/PG_*";
	my ($deep) = glob "$space/PG_*/*";
	my ($files) = glob "$data/pg_securefile/1663/*/*";
	my ($segment) = data_files($node);
	symlink "$data/pg_securefile", "$place/to_files";
	symlink $inside, "$place/to_space";
	symlink $place, "$place/to_itself";
	my $entries = entries("$data/pg_securefile");
	my $before = join ' ', map { $_ . (stat)[7] } data_files($node);
	foreach my $path ("$data/pg_securefile/x", "$files/x", $segment, "$data/base/x", "$data/base/$database/x", "$data/global/pg_control", "$data/pg_wal/x",
		"$inside/x", "$deep/x", "$place/to_files/x", "$place/to_files/1663/x", "$place/to_space/x", "$place/../place/to_itself/to_space/x",
		(map { "$data/$_/x" } 'pg_multixact/offsets', 'pg_replslot', 'pg_tblspc', 'pg_twophase'), "$data/pg_xact/0000", "$data/base/../pg_securefile/x", "$data/pg_tblspc/../pg_securefile/1663/../x", "$place/to_files/../base/x", "//$data//pg_securefile///x", "$data/./global/x")
	{
		fails_with($node, save($path, ', true'), '42809', q{in a directory of the server's own files}, "save to $path");
	}
	is(join(' ', map { $_ . (stat)[7] } data_files($node)), $before, 'data files are what they were');
	is(entries("$data/pg_securefile"), $entries, 'and no others are there');
	foreach my $path ($data, $space, "$place/to_files/..", "$data/..")
	{
		is(sql(save("$path/saved")), $len, "save to $path");
		unlink "$path/saved";
	}
	is(sql("SELECT doc::bytea = blob(1, $len) FROM there"), 't', 'values are what they were');
	sql('DROP TABLE there');
	$node->safe_psql('postgres', 'DROP TABLESPACE space');
	unlink glob("$place/*");
};

subtest 'part of a distributed query' => sub {
	# what Citus has: a catalog of shells, and sessions that its coordinator has named
	$node->safe_psql('postgres', 'CREATE DATABASE citus');
	SecurefileTest::prepare_database($node, 'citus');
	$node->safe_psql('citus', 'SET allow_system_table_mods = on; CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass)');
	my $call = "SELECT securefile_save('x'::securefile, '$place/x')";
	is($node->safe_psql('citus', $call), 1, 'a session of a client');
	unlink "$place/x";
	fails_with($node, "SET application_name = 'citus_internal gpid=1'; $call", '0A000', 'distributed table', 'one of a coordinator', db => 'citus');
	fails_with($node, "SET application_name = 'citus_internal gpid=1'; SELECT securefile_load(0, 'x')", '0A000', 'distributed table', 'load', db => 'citus');
	is(entries($place), '', 'no file');
};

subtest 'a standby' => sub {
	$node->backup('b');
	my $standby = new_standby('standby', $node, 'b');
	catch_up($node, $standby);
	is($standby->safe_psql('postgres', save("$place/standby")), $len, 'saved there');
	fails_with($standby, "SELECT securefile_load(0, '$place/standby')", '25006', '', 'load');
	is(sql("SELECT loaded('$place/standby')::bytea = blob(1, $len)"), 't', 'and right');
	$standby->stop;
	unlink glob("$place/*");
};

if ($node->psql('postgres', 'SELECT securefile_fault_reset()') != 0)
{
	done_testing();
	exit;
}

subtest 'failures' => sub {
	sql(save("$dir/source"));
	my %point = (io_file_open => 2, io_file_stat => 1, io_file_write => 3, io_file_sync => 3, io_file_place => 1 + $nameless, io_stat => 3, io_opendir => 1);
	foreach my $point (sort keys %point)
	{
		foreach my $skip (0 .. $point{$point} - 1)
		{
			foreach my $action ([ 'error', '58030' ], [ 'enospc', '53100' ])
			{
				arm($node, $point, $action->[0], skip => $skip, times => -1);
				fails_clean(save("$place/x"), $action->[1], "save: $action->[0] at pass $skip of $point");
				cmp_ok(fired($node, $point), '>', 0, 'it has failed');
				disarm($node);
			}
		}
	}
	write_file("$place/x", 'as it was');
	foreach my $point ('io_file_write', 'io_file_place', 'io_read')
	{
		arm($node, $point, 'error', times => -1);
		fails_clean(save("$place/x", ', true'), '58030', "overwrite: error at $point", 'x');
		disarm($node);
		is(slurp("$place/x"), 'as it was', 'the file that was there');
	}
	unlink "$place/x";
	foreach my $point ('io_file_open', 'io_file_stat', 'io_file_read')
	{
		arm($node, $point, 'error', times => -1);
		fails_with($node, "SELECT loaded('$dir/source')", '58030', '', "load: error at $point");
		disarm($node);
	}
	foreach my $action ('short', 'eintr', 'eagain')
	{
		arm($node, $_, $action, times => 20) foreach 'io_file_read', 'io_file_write';
		is(sql(save("$place/x", ', true'), "SELECT loaded('$place/x')::bytea = blob(1, $len)"), "$len\nt", "$action transfers");
		cmp_ok(fired($node, $_), '>', 0, "$_ met some") foreach 'io_file_read', 'io_file_write';
		disarm($node);
	}

	# a file system that cannot rename so
	unlink "$place/x";
	arm($node, 'io_file_place', 'enotsup', skip => $nameless);
	is(sql(save("$place/x"), "SELECT loaded('$place/x')::bytea = blob(1, $len)"), "$len\nt", 'by a link');
	is(entries($place), 'x', 'and the first name is gone');
	disarm($node);

	# what cannot be removed is said
	unlink "$place/x";
	arm($node, 'io_file_place', 'error', skip => $nameless);
	arm($node, 'io_file_remove', 'error');
	my ($rc, $out, $err) = $node->psql('postgres', save("$place/x"));
	like($err, qr/WARNING:  could not remove "\.securefile-[0-9a-f]{16}"/, 'what cannot be removed');
	disarm($node);
	unlink glob("$place/.securefile-*");
	sound($node, 't', 'failures');
};

# A session that saves, and waits before something is done for a time; what it says in the end.
my $session;
my $pid;

sub save_stopped
{
	my ($point, $skip, $path, $more) = @_;
	$session = background($node);
	$pid = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_safe('\set VERBOSITY verbose');
	arm($node, $point, 'wait', skip => $skip, times => 1, pid => $pid);
	$session->query_until(qr/start/, "\\echo start\n" . save($path, $more) . ";\n");
	ok(wait_for_sql($node, "SELECT securefile_fault_fired('$point') > 0"), "stopped at $point");
	return;
}

sub said
{
	my ($goes_on) = @_;
	disarm($node) if $goes_on;
	eval { $session->query('SELECT 1') };
	my $err = $session->{stderr} =~ s/^background_psql: .*\n//mgr;
	eval { $session->quit };
	return $err;
}

subtest 'interrupted' => sub {
	foreach my $stop ([ 'io_file_write', 1 ], [ 'io_file_sync', 1 ], [ 'io_file_place', $nameless ])
	{
		my ($point, $skip) = @$stop;
		save_stopped($point, $skip, "$place/x");
		like(entries($place), $nameless && $point eq 'io_file_write' ? qr/^$/ : $hidden, "a file is made, at $point");
		$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
		like(said(), qr/ERROR:  57014/, 'cancelled');
		is(entries($place), '', 'and nothing is left');
		disarm($node);

		save_stopped($point, $skip, "$place/x");
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		ok(session_is_gone($node, $pid), 'the session is ended');
		is(entries($place), '', 'and nothing is left');
		said(1);
	}

	my $source = "$dir/source";
	$session = background($node);
	$pid = $session->query_safe('SELECT pg_backend_pid()');
	arm($node, 'io_file_read', 'wait', skip => 1, times => 1, pid => $pid);
	$session->query_until(qr/start/, "\\echo start\nSELECT 'loaded ' || length(loaded('$source'));\n");
	wait_for_sql($node, "SELECT securefile_fault_fired('io_file_read') > 0");
	truncate $source, 600_000;
	disarm($node);
	like($session->query('SELECT 1'), qr/^loaded 600000$/m, 'a file that gets shorter meanwhile');
	$session->quit;
};

subtest 'killed' => sub {
  SKIP:
	{
		skip 'the file system has no files without names', 1 unless $nameless;
		write_file("$place/x", 'as it was');
		foreach my $more ('', ', true')
		{
			my $name = $more ? 'x' : 'y';
			save_stopped('io_file_write', 1, "$place/$name", $more);
			kill 'KILL', $pid;
			ok(wait_for_sql($node, "SELECT pg_postmaster_start_time() IS NOT NULL AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)"), 'the server is there again');
			said();
			is(entries($place) . ' ' . slurp("$place/x"), 'x as it was', "a save that was killed leaves nothing$more");
		}
		unlink "$place/x";
	}

	# where there are none, or no way to name them, a file has the hidden name from its beginning
	foreach my $point ('io_file_open', 'io_file_stat')
	{
		save_stopped('io_file_write', 1, "$place/z");
		like(entries($place), $nameless ? qr/^$/ : $hidden, 'usually');
		said(1);
		unlink "$place/z";
		arm($node, $point, 'enotsup', skip => 1);
		save_stopped('io_file_write', 1, "$place/z");
		like(entries($place), $hidden, "named from the beginning, $point");
		is(said(1), '', 'saved');
		is(entries($place) . ' ' . sql("SELECT loaded('$place/z')::bytea = blob(1, $len)"), 'z t', 'whole, and no other file');
		unlink "$place/z";
	}
};

subtest 'somebody else' => sub {
	# the name is taken meanwhile
	foreach my $how ('renameat2', 'linkat')
	{
		save_stopped('io_file_sync', 0, "$place/x");
		write_file("$place/x", 'of somebody else');
		arm($node, 'io_file_place', 'enotsup', pid => $pid, skip => $nameless) if $how eq 'linkat';
		arm($node, 'io_file_sync', 'pass', pid => $pid);
		like(said(), qr/ERROR:  42710/, "the name is taken meanwhile, $how");
		is(slurp("$place/x"), 'of somebody else', 'and stays with who was first');
		is(entries($place), 'x', 'and no other file is there');
		disarm($node);
		unlink "$place/x";
	}
	write_file("$place/x", 'of somebody else');
	save_stopped('io_file_place', $nameless, "$place/y");
	symlink "$place/x", "$place/y";
	like(said(1), qr/ERROR:  42710/, 'a link is put there meanwhile');
	is(slurp("$place/x"), 'of somebody else', 'which is not followed');
	unlink "$place/y";

	# a link in the place of the file that is to be overwritten is replaced, not followed
	write_file("$place/y", 'old');
	save_stopped('io_file_place', $nameless, "$place/y", ', true');
	unlink "$place/y";
	symlink "$place/x", "$place/y";
	is(said(1), '', 'saved');
	is(slurp("$place/x"), 'of somebody else', 'what the link leads to');
	is((-s "$place/y") . (-l "$place/y" ? ' link' : ''), $len, 'and the file');
	unlink glob("$place/*");

	# the directory gets another name, and its own one leads among data files
	mkdir "$dir/moved";
	save_stopped('io_file_write', 1, "$dir/moved/x");
	rename "$dir/moved", "$dir/moved_away";
	symlink "$data/pg_securefile", "$dir/moved";
	is(said(1), '', 'saved');
	is(entries("$dir/moved_away"), 'x', 'in the directory that was asked for');
	ok(!-e "$data/pg_securefile/x", 'not among data files');
	unlink "$dir/moved", "$dir/moved_away/x";
};

$node->stop;
my $blows = $ENV{SECUREFILE_SAVE_BLOWS};
random_run('blows', 'model/saves.py', '--blows', $blows || 5, '--big', $blows ? 200 : 4);
done_testing();
