# Runs as root, where it is called by root: it mounts file systems (SmallDisks.pm).
# On each kind: a disk that is full, for everything that may want space, crashed
# and started while it is; what was acknowledged stays, and all goes on once there is
# space.  And file systems that have no direct I/O.  SECUREFILE_FS_ROUNDS: rounds with
# all I/O methods; else one round, with one each.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SmallDisks;
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $rounds = $ENV{SECUREFILE_FS_ROUNDS} || 0;
my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
note("seed $seed");
srand($seed);

# btrfs writes elsewhere what is overwritten (copy on write), unless told otherwise
my @kinds = (
	{ name => 'ext4', make => [ 'ext4', '100M', [ '-m', 0 ] ] },
	{ name => 'xfs', make => [ 'xfs', '300M', [] ] },
	{ name => 'btrfs', make => [ 'btrfs', '300M', [] ], cow => 1, scrub => 1 },
	{ name => 'btrfs_nocow', make => [ 'btrfs', '300M', [] ], nocow => 1, scrub => 1 },
	{ name => 'tmpfs', make => [ 'tmpfs', undef, [], 'size=80M' ], long => 1 });
my @methods = shuffle('sync', 'libaio', 'io_uring');

my $node = new_cluster('filesystems',
	conf => [ 'restart_after_crash = on', 'fsync = on', "log_line_prefix = '%m [%p] %b '", 'max_wal_size = 4GB',
		'checkpoint_timeout = 1h' ]);
need_faults($node);
prepare_handles($node);

# ---- disks ----

# Leave so many bytes of a disk.
sub take_all_but
{
	my ($dir, $bytes) = @_;
	my $take = SmallDisks::avail_bytes($dir) - $bytes;
	is(system('fallocate', '-l', $take, "$dir/ballast"), 0, "$dir: ballast");
	return;
}

sub give_back
{
	my ($dir) = @_;
	unlink "$dir/rest", "$dir/ballast";
	SmallDisks::avail_bytes($dir);
	return;
}

# Directories of segments in a tablespace.
sub segments_in
{
	my ($dir) = @_;
	return join ' ', sort glob("$dir/ts/PG_*/*/pg_securefile/*");
}

# ---- statements on a full disk ----

my %count = (done => 0, full => 0, crashes => 0);

# Run statements: 'ok', 'full', or what else they failed with.
sub outcome_of
{
	my (@statements) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join(';', @statements), extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	$count{ $rc == 0 ? 'done' : 'full' }++;
	return 'ok' if $rc == 0;
	note($err);
	return $err unless $err =~ /ERROR:  53100: .*No space left on device/;
	return $err =~ /segment data file/ && $err !~ /HINT:  Check free disk space/ ? "no hint: $err" : 'full';
}

# One test: it is done, or the disk is said to be full.
sub done_or_full
{
	my ($name, @statements) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $outcome = outcome_of(@statements);
	like($outcome, qr/^(ok|full)$/, "$name: done, or full ($outcome)");
	return $outcome eq 'ok';
}

sub must
{
	my ($want, $name, @statements) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(outcome_of(@statements), $want, "$name: $want");
}

sub all_right
{
	my ($name, @tables) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $t (@tables)
	{
		rows_right($node, $t, sql("SELECT count(*) FROM $t"), $name);
		sound($node, $t, $name);
	}
	return;
}

# ---- a kind of file system, full ----

# A table elsewhere whose segment is on the disk.
sub table_on
{
	my ($kind, $t, $options) = @_;
	make_table($node, $t, $options);
	sql("SELECT securefile_set_tablespace('$t', 'doc', '$kind->{name}')");
	fill($node, $t, 1, 5, 300_000);
	return;
}

# A statement for which the disk is too small fails; the session, and the rest of
# its transaction, go on.
sub too_much
{
	my ($kind, $t) = @_;
	my $name = "$kind->{name}: $t";
	my $much = "INSERT INTO $t SELECT i, i, 3000000, blob(i, 3000000) FROM generate_series(100, 130) i";
	my @ways = ('', "BEGIN; INSERT INTO $t VALUES (50, 50, 40000, blob(50, 40000)); SAVEPOINT s");
	my $session = background($node);
	$session->query_safe('\set VERBOSITY verbose');
	pop @ways if $kind->{cow};	# what was cut off again comes back later
	foreach my $begin (@ways)
	{
		$session->query_safe($begin) if $begin;
		$session->query($much);
		like($session->{stderr}, qr/ERROR:  53100: could not extend (?:segment data )?file .*HINT:  Check free disk space/s,
			"$name: growth finds the disk full");
		$session->{stderr} = '';
		$session->query_safe('ROLLBACK TO s') if $begin;
		is($session->query_safe("SELECT count(*) FROM $t WHERE id >= 100 OR doc::bytea IS DISTINCT FROM blob(seed, len)"),
			0, "$name: the session goes on");
		$session->query_safe('COMMIT') if $begin;
	}
	$session->quit;
	is(sql("SELECT count(*) FROM $t"), 4 + @ways, "$name: so does its transaction");
	return;
}

# Commits until there is no space: each is acknowledged, or the disk is full.
sub fill_by_commits
{
	my ($kind, $t) = @_;
	my $name = "$kind->{name}: one by one";
	for (my $id = 1001; $id < 1100; $id++)
	{
		my $outcome = outcome_of("INSERT INTO $t VALUES ($id, $id, 500000, blob($id, 500000))");
		next if $outcome eq 'ok';
		is($outcome, 'full', "$name: in the end it is full");
		is(sql("SELECT count(*) FROM $t WHERE id > 1000"), $id - 1001, "$name: what was acknowledged is there");
		return;
	}
	fail("$name: it never got full");
	return;
}

# While it is off the demand adds up that it grows for.
sub set_monitor
{
	my ($on) = @_;
	sql("ALTER SYSTEM SET securefile.monitor = $on");
	$node->reload;
	ok(monitor_rests($node), 'no monitor worker') if $on eq 'off';
	return;
}

# The monitor grows segments ahead of need; that it cannot is no reason to stop.
sub monitor_goes_on
{
	my ($kind, $t, $from) = @_;
	my $name = "$kind->{name}: monitor";
	my $log = '';
	wait_until(sub { ($log = slurp_file($node->logfile, $from)) =~ /securefile monitor worker ERROR:  could not extend/ });
	like($log, qr/securefile monitor worker ERROR:  could not extend segment data file .*No space left/,
		"$name: cannot grow $t ahead");
	sql("DELETE FROM $t WHERE id = 2");
	pending_is_gone($node, $t, "$name: still frees");
	return;
}

# Everything that may want space.
sub operations
{
	my ($kind, $t, $f) = @_;
	my ($name, $dir) = @$kind{ 'name', 'dir' };
	my $append = 'SET len = len + 90000, doc = doc || substring(blob(seed, len + 90000) FROM len + 1)';

	done_or_full("$name: UPDATE", "UPDATE $t SET seed = seed + 1, doc = blob(seed + 1, len)");
	foreach my $table ($t, $f)
	{
		done_or_full("$name: $table, UPDATE of a row", "UPDATE $table SET seed = 77, doc = blob(77, len) WHERE id = 1");
		done_or_full("$name: $table, append", "UPDATE $table $append WHERE id IN (3, 4)");
		done_or_full("$name: $table, small values",
			"INSERT INTO $table SELECT i, i, 4000 + i, blob(i, 4000 + i) FROM generate_series(2000, 2100) i");
		done_or_full("$name: $table, handle", "INSERT INTO $table VALUES (60, 60, 2500000, securefile_finish(made('$table', 60, 2500000)))");
		done_or_full("$name: $table, edit", "UPDATE $table SET len = greatest(len, 280000), doc = securefile_finish(put(securefile_open(doc, 'rw'), seed, 280000)) WHERE id = 5");
	}
	must('ok', "$name: maintain", "SELECT securefile_maintain('$t', 'doc')");
	must('ok', "$name: DELETE", "DELETE FROM $t WHERE id IN (1, 50)");
	must('ok', "$name: maintain after DELETE", "SELECT securefile_maintain('$t', 'doc')");

	all_right("$name: full", $t, $f);
	return;
}

# A little space is left: a move begins to copy, and takes away what it has made.
sub move_there
{
	my ($kind) = @_;
	my ($name, $dir) = @$kind{ 'name', 'dir' };
	my $segments = segments_in($dir);
	my $move = "SELECT securefile_set_tablespace('elsewhere', 'doc', '%s')";

	unlink "$dir/rest";
	SmallDisks::avail_bytes($dir);
	if (done_or_full("$name: move there", sprintf($move, $name)))
	{
		ok($kind->{cow}, "$name: there was no space for that");
		sql(sprintf($move, 'pg_default'));
	}
	is(segments_in($dir), $segments, "$name: no files of the move");
	return;
}

# What makes or replaces segments.  No crash may follow before a checkpoint: PostgreSQL
# logs the first page of a new index before it finds the disk full, and could not
# replay that; nor can what a move logs ahead of its copy be replayed.
sub segments_come_and_go
{
	my ($kind, $t, $f, $h) = @_;
	my ($name, $dir) = @$kind{ 'name', 'dir' };
	my $segments = segments_in($dir);

	foreach my $statement (
		"CREATE TABLE c (id int PRIMARY KEY, doc securefile) TABLESPACE $name", "ALTER TABLE $h ADD COLUMN more securefile",
		"TRUNCATE $t", "TRUNCATE $h", "SELECT securefile_rewrite('$f', 'doc', 'logging')")
	{
		done_or_full("$name: $statement", 'BEGIN', $statement, 'ROLLBACK');
	}
	done_or_full("$name: rewrite", "SELECT securefile_rewrite('$f', 'doc')");
	is(segments_in($dir), $segments, "$name: no files of what failed");
	must('ok', "$name: checkpoint", 'CHECKPOINT') unless $kind->{cow};
	all_right("$name: segments", $t, $f, 'elsewhere');
	return;
}

# SIGKILL, and a start with all disks full.  Where an overwrite takes new space
# recovery may need more than there is; then it says so, and works once there is.
sub crash_and_start
{
	my (@full) = @_;
	$count{crashes}++;
	crash($node);
	my $from = -s $node->logfile;
	my $started = $node->start(fail_ok => 1);
	my ($cow) = grep { $_->{cow} } @full;
	if (!$started && $cow)
	{
		my ($oid) = map { m{/(\d+)$} } grep { readlink eq "$cow->{dir}/ts" } glob($node->data_dir . '/pg_tblspc/*');
		like(slurp_file($node->logfile, $from),
			qr{FATAL:  could not (?:write|extend) segment data file "pg_tblspc/$oid/.*: No space left on device\n.*HINT:  Check free disk space},
			"$cow->{name}: recovery says why not");
		give_back($cow->{dir});
		$started = $node->start(fail_ok => 1);
	}
	ok($started, 'started on full disks');
	return;
}

sub tables_of
{
	my ($kind) = @_;
	return map { "$kind->{name}_$_" } ('l', 'f', 'h');
}

sub use_method
{
	my ($kind, $method) = @_;
	note("$kind->{name}, $method");
	sql("ALTER SYSTEM SET securefile.io_method = $method");
	$node->reload;
	return;
}

sub nearly_full
{
	my ($kind, $method) = @_;
	my ($name, $dir) = @$kind{ 'name', 'dir' };
	my ($t, $f, $h) = tables_of($kind);
	use_method($kind, $method);
	table_on($kind, $t, '');
	table_on($kind, $f, 'filesystem_like_logging');
	make_table($node, $h, '', "TABLESPACE $name");
	fill($node, $h, 1, 1, 100_000);
	take_all_but($dir, mb(14));

	too_much($kind, $_) foreach ($t, $f);
	return;
}

sub until_full
{
	my ($kind, $method, $with_monitor) = @_;
	my ($t, $f) = tables_of($kind);
	use_method($kind, $method);
	my $from = -s $node->logfile;
	my $watched = $with_monitor && !$kind->{cow};
	set_monitor('off') if $watched;
	fill_by_commits($kind, $t);
	SmallDisks::take_the_rest($kind->{dir});
	set_monitor('on') if $watched;
	monitor_goes_on($kind, $t, $from) if $watched;
	operations($kind, $t, $f);
	return;
}

sub from_full
{
	my ($kind) = @_;
	my ($name, $dir) = @$kind{ 'name', 'dir' };
	my ($t, $f, $h) = tables_of($kind);
	all_right("$name: started while full", $t, $f, $h);
	move_there($kind);
	SmallDisks::take_the_rest($dir);
	segments_come_and_go($kind, $t, $f, $h);

	# what goes makes room, also for others
	must('ok', "$name: DELETE when full", "DELETE FROM $t WHERE id > 1005", "SELECT securefile_maintain('$t', 'doc')");
	done_or_full("$name: space used again", "INSERT INTO $t VALUES (70, 70, 400000, blob(70, 400000))");
	my $avail = SmallDisks::avail_bytes($dir);
	my $size = usage($node, $f, 'doc')->{file_bytes};
	must('ok', "$name: DROP when full", "DROP TABLE $f");
	cmp_ok(SmallDisks::avail_bytes($dir) - $avail, '>=', $size * 0.9, "$name: DROP gives its space back") unless $kind->{nocow};
	must('ok', "$name: move away when full", "SELECT securefile_set_tablespace('$t', 'doc', 'pg_default')");

	give_back($dir);
	sql("SELECT securefile_set_tablespace('$t', 'doc', '$name')");
	fill($node, $t, 3001, 3015, 1_000_000);
	sql("UPDATE $t SET seed = seed + 1, doc = blob(seed + 1, len)");
	all_right("$name: space again", $t, $h);
	sql("TRUNCATE $t");
	fill($node, $t, 1, 2, 300_000);
	all_right("$name: after TRUNCATE", $t);
	like(SmallDisks::as_root('btrfs', 'scrub', 'start', '-B', $dir), qr/no errors found/, "$name: scrub") if $kind->{scrub};
	sql("DROP TABLE $t, $h");
	is(segments_in($dir), '', "$name: all files are gone");
	return;
}

# ---- a cluster as a whole ----

# Start a server.  If PostgreSQL itself does not find room for its lock file, which
# depends on what a copy-on-write file system does with the little that is left, it gets a
# little more.
sub starts_if_it_can
{
	my ($server, $dir) = @_;
	return 1 if $server->start(fail_ok => 1);
	my ($last) = reverse split /\n/, slurp($server->logfile);
	return 0 if $last !~ /could not (?:create|write) lock file "postmaster.pid": No space left/;
	note("room for a lock file, since: $last");
	truncate("$dir/ballast", (-s "$dir/ballast") - mb(2));
	SmallDisks::avail_bytes($dir);
	return $server->start(fail_ok => 1);
}

# Its data directory is on the disk, but not its WAL, and some space is left: without
# that PostgreSQL itself stops, and lets nobody in after a crash.
sub whole_cluster
{
	my ($kind) = @_;
	my ($name, $dir) = @$kind{ 'name', 'dir' };
	my $whole = new_cluster("whole_$name", start => 0,
		init => { extra => [ '--waldir', PostgreSQL::Test::Utils::tempdir() . '/wal' ] }, conf => [ 'fsync = on', 'securefile.monitor = off', 'work_mem = 64MB' ]);
	my $data = $whole->data_dir;
	is(system("mv '$data' '$dir/data' && ln -s '$dir/data' '$data'"), 0, "$name: data directory");
	$whole->start;
	SecurefileTest::prepare_database($whole, 'postgres');
	make_table($whole, 't');
	fill($whole, 't', 1, 10, 200_000);
	$whole->safe_psql('postgres', 'CHECKPOINT');
	take_all_but($dir, mb(3));
	fails_with($whole, 'INSERT INTO t SELECT i, i, 3000000, blob(i, 3000000) FROM generate_series(100, 110) i',
		'53100', 'No space left', "$name: full data directory");
	rows_right($whole, 't', 10, "$name: full data directory");
	crash($whole);
	ok(starts_if_it_can($whole, $dir), "$name: starts in a full data directory");
	rows_right($whole, 't', 10, "$name: crashed in a full data directory");
	sound($whole, 't', "$name: crashed in a full data directory");
	is($whole->psql('postgres', 'DELETE FROM t WHERE id > 5'), 0, "$name: DELETE in a full data directory");
	give_back($dir);
	fill($whole, 't', 101, 103, 3_000_000);
	rows_right($whole, 't', 8, "$name: with space again");
	sound($whole, 't', "$name: with space again");
	$whole->stop;
	is(system('rm', '-rf', "$dir/data"), 0, "$name: removed");
	return;
}

# ---- without direct I/O ----

# Descriptors of data files that a process has open, and how many are for direct I/O.
sub descriptors
{
	my ($pid) = @_;
	my ($all, $direct) = (0, 0);
	foreach my $fd (grep { (readlink || '') =~ m{/pg_securefile/} } glob("/proc/$pid/fd/*"))
	{
		$all++;
		my ($flags) = slurp($fd =~ s{/fd/}{/fdinfo/}r) =~ /^flags:\s*(\d+)/m;
		$direct++ if oct($flags) & 040000;
	}
	return ($all, $direct);
}

# All methods, all cache modes; whether it is direct is as it should be, and the log
# says once if it is not.
sub direct_or_not
{
	my ($kind, $is_direct) = @_;
	my $name = $kind->{name};
	my $oid = sql("SELECT oid FROM pg_tablespace WHERE spcname = '$name'");
	my $from = -s $node->logfile;
	$node->restart;
	my $lives = 1;
	my @options = ('nocache', 'cache_reads, filesystem_like_logging', 'cache');
	foreach my $m (0 .. 2)
	{
		my $method = $methods[$m];
		foreach my $options ($rounds ? @options : $options[$m])
		{
			my $session = background($node);
			$session->query_safe("SET securefile.io_method = $method");
			$session->query_safe("CREATE TABLE d (id int PRIMARY KEY, seed int, len int, doc securefile($options)) TABLESPACE $name");
			$session->query_safe('INSERT INTO d SELECT i, i, 700000, blob(i, 700000) FROM generate_series(1, 4) i');
			$session->query_safe('UPDATE d SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 3');
			my ($all, $direct) = descriptors($session->query_safe('SELECT pg_backend_pid()'));
			cmp_ok($all, '>', 0, "$name, $method, $options: files are open");
			is($direct > 0, !!$is_direct, "$name, $method, $options: direct or not") or diag("$all $direct");
			is($session->query_safe('SELECT count(*) FROM d WHERE doc::bytea = blob(seed, len)'), 4, "$name, $method, $options: right");
			$session->quit;
			all_right("$name, $method, $options", 'd');
			if ($options eq 'nocache' && ($rounds || $name eq 'ramfs'))
			{
				crash($node);
				$node->start;
				$lives++;
				all_right("$name, $method, $options: crashed", 'd');
			}
			sql('DROP TABLE d');
		}
	}
	my $said = () = slurp_file($node->logfile, $from) =~ m{LOG:  file system of "pg_tblspc/$oid/.*" does not support direct I/O}g;
	is($said, $is_direct ? 0 : $lives, "$name: said once in each life of the server");
	return;
}

# ---- all of it ----

# Mount it and make a tablespace there; what cannot be mounted is skipped.
sub prepare
{
	my ($kind) = @_;
	my ($name, @how) = ($kind->{name}, @{ $kind->{make} });
  SKIP:
	{
		$kind->{dir} = SmallDisks::make($name, @how);
		skip("$name cannot be mounted here", 1) unless defined $kind->{dir};
		mkdir "$kind->{dir}/ts" or die $!;
		SmallDisks::as_root('chattr', '+C', "$kind->{dir}/ts") if $kind->{nocow};
		sql("CREATE TABLESPACE $name LOCATION '$kind->{dir}/ts'");
		return 1;
	}
	return 0;
}

make_table($node, 'elsewhere');
fill($node, 'elsewhere', 1, 3, 4_000_000);
my @here = grep { ($rounds || !$_->{long}) && prepare($_) } @kinds;
foreach my $round (0 .. ($rounds ? 3 * $rounds - 1 : 0))
{
	my @turns = map { [ $here[$_], $methods[ ($round + $_) % 3 ], $rounds || $_ == 0 ] } (0 .. $#here);
	nearly_full(@$_) foreach (grep { !$_->[0]{cow} } @turns);
	sql('CHECKPOINT');		# there would be no space for that on the others
	nearly_full(@$_) foreach (grep { $_->[0]{cow} } @turns);
	until_full(@$_) foreach (@turns);
	crash_and_start(@here);
	from_full($_) foreach (@here);
}
whole_cluster($_) foreach ($rounds ? @here : ());
foreach my $kind (grep { prepare($_) } { name => 'ramfs', make => [ 'ramfs', undef, [] ] },
	{ name => 'ext4_journal', make => [ 'ext4', '100M', [], 'data=journal' ] })
{
	direct_or_not($kind, '');
}
direct_or_not($kinds[0], 1) if $kinds[0]->{dir};
$node->stop;
note("figures: statements done: $count{done}, disk full: $count{full}; crashes with full disks: $count{crashes}");
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'nothing else in the log');
done_testing();
