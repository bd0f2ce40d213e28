# What the TAP tests of securefile share: clusters with the library preloaded,
# tables whose rows say what their values must be, and checks of rows and space.

package SecurefileTest;

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use Exporter qw(import);
use File::Find;
use File::Path qw(make_path);
use PageChecksums qw(mend_checksums);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

our @EXPORT = qw(master_key make_raw_type raw_value raw_value_with new_cluster new_standby sql need_faults make_table fill rows_right
  right_or_left_behind usage settle sound arm dies_at disarm fired crash children_of wait_restart data_files data_bytes file_sizes each_mapping fails_with mb
  background held resume moves_on waits_for_lock wait_until wait_for_sql session_is_gone sessions_are_gone patience process_state log_says cpu_seconds cpu_seconds_ended zeros_seconds
  stop_process stop_walwriter monitor_rests pending_is_gone slurp write_file patch corrupt unseal block_at catch_up prepare_handles prepare_load loaded under_load
  in_parallel);

# ---- patience ----

# Seconds after which a test gives up to wait (PG_TEST_TIMEOUT_DEFAULT).  Nothing is
# expected to take so long on any machine: a limit that is shorter would fail where the
# machine is slow or busy, not where the code is wrong.
sub patience { return $PostgreSQL::Test::Utils::timeout_default; }

# Poll a condition, a function; false if it does not come true.  The last two arguments
# have defaults: for how long, and microseconds from one look to the next.
sub wait_until
{
	my ($condition, $seconds, $pause) = @_;
	my $end = time() + ($seconds || patience());
	while (1)
	{
		my $late = time() > $end;
		return 1 if $condition->();
		return 0 if $late;
		usleep($pause || 20_000);
	}
}

# The cluster that sql() asks.
my $first_cluster;

# A cluster with the extension in database postgres.  Keys: conf, a list of
# settings that override those here; start, 0 to leave it stopped; install_path, of
# another server.
sub new_cluster
{
	my ($name, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name,
		$params{install_path} ? (install_path => $params{install_path}) : ());

	$node->init(%{ $params{init} || {} });
	$node->append_conf('postgresql.conf', $_)
	  for ("shared_preload_libraries = 'securefile'",
		'wal_level = replica', 'max_wal_senders = 4',
		'max_prepared_transactions = 10', 'shared_buffers = 32MB',
		'autovacuum = off', 'log_statement = none',
		'log_min_error_statement = panic', "securefile.monitor_naptime = '1s'",
		@{ $params{conf} || [] });
	$first_cluster //= $node;
	return $node if defined $params{start} && !$params{start};
	$node->start;
	prepare_database($node, 'postgres');
	return $node;
}

# A standby from a backup of a primary, which it streams from.  It has started, with these
# settings besides those of the primary.
sub new_standby
{
	my ($name, $primary, $backup, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, $backup, has_streaming => 1);
	$node->append_conf('postgresql.conf', $_) foreach @conf;
	$node->start;
	return $node;
}

# The extension; blob(seed, len): bytes that differ in every sector, or, where that
# would take long, in every block (in the order of the series, without a sort: half of
# what a test computes is this); noise(seed, len): bytes that no codec makes shorter, and
# no two units alike; outcome(): "right", "wrong" or the SQLSTATE of reading a value.
sub prepare_database
{
	my ($node, $db) = @_;
	$node->safe_psql(
		$db, q{
		CREATE EXTENSION securefile;
		CREATE FUNCTION blob(seed int, len int) RETURNS bytea
		LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
			SELECT substring(coalesce(convert_to(string_agg(
					   repeat(md5(seed || ':' || i), size / 32), ''), 'SQL_ASCII'), '')
				   FOR len)
			FROM (SELECT CASE WHEN len OPERATOR(pg_catalog.<=) 65536 THEN 512 ELSE 4096 END) s (size),
				generate_series(1, (len + size - 1) / size) i
		$$;
		CREATE FUNCTION noise(seed int, len int) RETURNS bytea
		LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
			SELECT substring(string_agg(block, '') FOR len)
			FROM (SELECT string_agg(sha512(convert_to(seed || ':' || i, 'SQL_ASCII')), '') AS block
					FROM generate_series(0, least(len, 160000) / 64) i) b,
				generate_series(0, len / 160000) n
		$$;
		CREATE FUNCTION outcome(doc securefile, seed int, len int) RETURNS text
		LANGUAGE plpgsql AS $$
		BEGIN
			RETURN CASE WHEN doc::bytea = blob(seed, len) AND length(doc) = len
				THEN 'right' ELSE 'wrong' END;
		EXCEPTION WHEN OTHERS THEN
			RETURN SQLSTATE;
		END
		$$;});
	return;
}

# put(fd, seed, len): blob(seed, len) written through a handle, in pieces of all
# sizes; made(table, seed, len): a new object of a table with that in it.  Both
# return the handle.
sub prepare_handles
{
	my ($node, $db) = @_;
	$node->safe_psql(
		$db || 'postgres', q{
		CREATE FUNCTION put(fd int, seed int, len int) RETURNS int LANGUAGE plpgsql AS $$
		DECLARE
			data bytea := blob(seed, len);
			done int := 0;
		BEGIN
			WHILE done < len LOOP
				done := done + securefile_write(fd,
					substring(data FROM done + 1 FOR 1 + (done % 9973) * 131));
			END LOOP;
			RETURN fd;
		END $$;
		CREATE FUNCTION made(tab regclass, seed int, len int) RETURNS int LANGUAGE plpgsql AS $$
		BEGIN
			RETURN put(securefile_create(tab, 'doc'), seed, len);
		END $$;});
	return;
}

# Run statements in database postgres of the cluster that new_cluster() made first, in one
# session, and return their output.  The test dies if one of them fails.
sub sql
{
	my (@statements) = @_;
	return $first_cluster->safe_psql('postgres', join(";\n", @statements));
}

# Skip the whole file where the library was built without fault points.
sub need_faults
{
	my ($node) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	return if $rc == 0;
	die $err unless $err =~ /not built with fault points/;
	plan skip_all => 'built without fault points (make FAULTS=1)';
}

sub mb { return $_[0] * 1024 * 1024; }

# A table whose rows tell their contents: doc is blob(seed, len).
sub make_table
{
	my ($node, $table, $options, $more) = @_;
	my $type = $options ? "securefile($options)" : 'securefile';
	$node->safe_psql('postgres',
		"CREATE TABLE $table (id int PRIMARY KEY, seed int, len int, doc $type) "
		  . ($more || ''));
	return;
}

# Rows from .. to of a length (an SQL expression over i), seed as id.
sub fill
{
	my ($node, $table, $from, $to, $len) = @_;
	$node->safe_psql('postgres',
		"INSERT INTO $table SELECT i, i, $len, blob(i, $len)"
		  . " FROM generate_series($from, $to) i");
	return;
}

# Each row holds what it says it holds; $count is how many rows there must be.
sub rows_right
{
	my ($node, $table, $count, $name, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $node->psql($db || 'postgres',
		"SELECT count(*), count(*) FILTER (WHERE doc::bytea IS DISTINCT FROM blob(seed, len)"
		  . " OR length(doc) IS DISTINCT FROM len) FROM $table");
	return is($rc == 0 ? $out : $err, "$count|0", "$name: rows of $table");
}

# One test, for filesystem_like_logging: each value is right or fails with 58P01,
# and securefile_check finds just the latter.  Returns their ids.
sub right_or_left_behind
{
	my ($node, $table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $failing = $node->safe_psql('postgres',
		"SELECT id, o FROM $table, outcome(doc, seed, len) o WHERE o <> 'right' ORDER BY id");
	my $listed = $node->safe_psql('postgres',
		    "SELECT DISTINCT id, CASE finding WHEN 'data left behind' THEN '58P01' ELSE finding END"
		  . " FROM securefile_check('$table', 'doc') c LEFT JOIN $table t ON t.ctid = c.ctid ORDER BY 1");
	my @ids = $failing =~ /^(\d+)\|58P01$/mg;

	is("fails: $failing; check: $listed", join("\n", map { "$_|58P01" } @ids) =~ s/(.*)/fails: $1; check: $1/sr,
		"$name: $table is right or left behind");
	return @ids;
}

# securefile_usage as a hash reference; other statements may come before it, in the
# same session: psql and a backend take longer to start than these statements.
sub usage
{
	my ($node, $table, $column, $db, $before) = @_;
	my @names = qw(file_bytes live_bytes pending_bytes free_bytes metadata_bytes);
	my $rows = $node->safe_psql($db || 'postgres',
		($before || '') . 'SELECT ' . join(', ', @names)
		  . " FROM securefile_usage('$table', '$column')");
	my %usage;
	@usage{@names} = split /\|/, (split /\n/, $rows)[-1];
	return \%usage;
}

# Maintain until nothing is pending; returns the usage then.
sub settle
{
	my ($node, $table, $column, $seconds, $db) = @_;
	my $end = time() + ($seconds || patience());
	while (1)
	{
		my $usage = usage($node, $table, $column, $db, "SELECT securefile_maintain('$table', '$column');\n");
		return $usage if $usage->{pending_bytes} == 0 || time() > $end;
		usleep(50_000);
	}
}

# One test: nothing for securefile_check to find, nothing left pending, and the
# live bytes are those of the rows.  Key in_row: longest value kept in the row.  Of a value
# that is compressed or encrypted, or has holes, or is pieces, securefile_storage() tells the bytes; a unit ends
# anywhere in a sector.  Where values share space, whose it is says securefile_check().
sub sound
{
	my ($node, $table, $name, %params) = @_;
	my $column = $params{column} || 'doc';
	my $db = $params{db} || 'postgres';
	my $in_row = defined $params{in_row} ? $params{in_row} : 4000;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $as_it_is = q{how.codec = 'none' AND how.key_id = 0 AND how.stored_bytes >= how.length AND coalesce((to_jsonb(how) ->> 'pieces')::bigint, 1) <= 1};
	my $all = "SELECT count(*) FROM securefile_maintain('$table', '$column');\n"
	  . "SELECT file_bytes, live_bytes, pending_bytes, free_bytes, coalesce((to_jsonb(u) ->> 'shared_references')::bigint, 0) FROM securefile_usage('$table', '$column') u;\n"
	  . 'SELECT coalesce(sum((taken.bytes + 511) / 512 * 512), 0) AS least,'
	  . ' coalesce(sum((taken.bytes + 511 * CASE how.key_id WHEN 0 THEN greatest(1, least(how.units, how.compressed_units + 1)) ELSE how.units END) / 512 * 512), 0) AS most'
	  . " FROM ONLY $table, securefile_storage($column) how, LATERAL (SELECT CASE WHEN $as_it_is THEN how.length ELSE how.stored_bytes END AS bytes) taken"
	  . " WHERE CASE WHEN $as_it_is THEN how.length > $in_row ELSE how.form = 'stored' END;\n"
	  . "SELECT * FROM securefile_check('$table', '$column') LIMIT 5";
	my ($bytes, $bounds, @found);
	for (my $look = 0; $look < 2; $look++)
	{
		(undef, $bytes, $bounds, @found) = split /\n/, $node->safe_psql($db, $all);
		last if (split /\|/, $bytes)[2] == 0 || $look;
		settle($node, $table, $column, undef, $db);
	}
	my ($file, $live, $pending, $free, $shared) = split /\|/, $bytes;
	my ($least, $most) = split /\|/, $bounds;
	my $right = $live >= $least && $live <= $most || $shared > 0 ? 'right' : "$live, not $least to $most";
	my $sum = $live + $pending + $free;

	return is(
		"check: @found; pending: $pending; live: $right; sum: $sum",
		"check: ; pending: 0; live: right; sum: $file",
		"$name: $table.$column is sound");
}

# ---- parallel plans ----

# Settings after which a session makes parallel plans, whatever they cost.
sub in_parallel
{
	my ($node) = @_;
	my $forced = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
	return "SET $forced = on; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;";
}

# ---- keys ----

# A setting of a cluster: it has a master key.
sub master_key
{
	return "securefile.key_command = 'echo test " . ('5a' x 32) . "'";
}

# ---- fault points ----

# Size of a cluster's log when a point was armed last.
my %armed_at;

# Arm a fault point; keys: skip, times (default 1), pid.  Returns how often it has acted.
sub arm
{
	my ($node, $point, $action, %params) = @_;
	my $skip = $params{skip} || 0;
	my $times = defined $params{times} ? $params{times} : 1;
	my $pid = $params{pid} || 0;
	$armed_at{ $node->name } = -s $node->logfile;
	my $said = $node->safe_psql('postgres',
		"SELECT securefile_fault_fired('$point'); SELECT securefile_fault('$point', '$action', skip => $skip,"
		  . " times => $times, pid => $pid)");
	return (split /\n/, $said)[0];
}

# Run SQL in a session of its own that dies at a point; false if it survived.
sub dies_at
{
	my ($node, $point, $action, $sql, %params) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	arm($node, $point, $action, %params, pid => $session->query_safe('SELECT pg_backend_pid()'));
	eval { $session->query($sql) };
	my $died = $@ ne '' || $session->{stderr} =~ /server closed the connection|connection to server was lost/;
	eval { $session->quit };
	if ($died)
	{
		wait_restart($node);
	}
	else
	{
		disarm($node);
	}
	return $died;
}

sub disarm
{
	my ($node) = @_;
	$node->safe_psql('postgres', 'SELECT securefile_fault_reset()');
	return;
}

sub fired
{
	my ($node, $point) = @_;
	return $node->safe_psql('postgres', "SELECT securefile_fault_fired('$point')");
}

# ---- crashes ----

# Processes whose parent is a process.
sub children_of
{
	my ($parent) = @_;
	my @found;
	foreach my $dir (glob '/proc/[0-9]*')
	{
		open(my $fh, '<', "$dir/stat") or next;
		my $line = <$fh>;
		close $fh;
		next unless defined $line && $line =~ /.*\) \S (\d+)/;
		push @found, $dir =~ /(\d+)$/ if $1 == $parent;
	}
	return @found;
}

# SIGKILL of the postmaster and all its children at once; waits till all are gone.  A
# postmaster that is stopped starts nobody else while its children are looked for.
sub crash
{
	my ($node) = @_;
	my $pid = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	stop_process($pid);
	my @all = ($pid, children_of($pid));

	kill 9, @all;
	$node->kill9;
	wait_until(sub { !grep { -e "/proc/$_" } @all }) or die 'processes do not go';
	return;
}

# Wait until a server that dies of an armed fault point is there again.  $since: size
# of its log before, if arm() has not noted it.
sub wait_restart
{
	my ($node, $since) = @_;
	$since = $armed_at{ $node->name } unless defined $since;

	wait_until(sub {
		slurp_file($node->logfile, $since) =~ /ready to accept connections/
		  && system('pg_isready', '-q', '-h', $node->host, '-p', $node->port) == 0;
	}) or die 'server did not come back';
	return;
}

# ---- processes ----

# What /proc/PID/stat says behind the name of the process: its state comes first.
sub process_fields
{
	my ($pid) = @_;
	open(my $fh, '<', "/proc/$pid/stat") or return ('');
	my $line = <$fh>;
	close $fh;
	return split / /, ($line // '') =~ s/^.*\) //sr;
}

# "R" for running, "S" for asleep, "T" for stopped, and so on; '' when it is gone.
sub process_state { return (process_fields($_[0]))[0] // ''; }

# Time of the processor that a process has had.  Unlike the time on the clock it does not
# grow with what else the machine has to do.
sub cpu_seconds
{
	my (undef, @fields) = process_fields($_[0]);
	return ($fields[10] + $fields[11]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

# The same of all processes of a server that have ended, such as those of earlier sessions.
sub cpu_seconds_ended
{
	my ($node) = @_;
	my (undef, @fields) = process_fields($node->{_pid});
	return ($fields[12] + $fields[13]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

# What it takes a session to make that many bytes of a document with gaps: the measure, in this
# build and on this machine, of what should not look at each byte of them.  The document is
# column doc of row 1.
sub zeros_seconds
{
	my ($session, $table, $from, $bytes) = @_;
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $began = cpu_seconds($pid);
	# get_byte() has each piece made
	$session->query_safe("SELECT sum(get_byte(chunk, 0)) FROM (SELECT securefile_chunks(doc, $from, $bytes, 1000000) AS chunk FROM $table WHERE id = 1 OFFSET 0) s");
	return cpu_seconds($pid) - $began;
}

sub stop_process
{
	my ($pid) = @_;
	kill 'STOP', $pid;
	wait_until(sub { process_state($pid) =~ /^[TZX]?$/ }) or die "process $pid does not stop";
	return;
}

# From here on no WAL is written but by who waits for it.  The process must go on (SIGCONT)
# before the server is stopped, if it is not crashed.  Returns its pid.
sub stop_walwriter
{
	my ($node) = @_;
	my $walwriter = "FROM pg_stat_activity WHERE backend_type = 'walwriter'";
	wait_for_sql($node, "SELECT count(*) = 1 $walwriter") or die 'no walwriter';
	my $pid = $node->safe_psql('postgres', "SELECT pid $walwriter");
	stop_process($pid);
	return $pid;
}

# The monitor is off, and its last worker has gone.  A worker that the launcher has just
# asked for is not to be seen for a moment; hence several looks.
sub monitor_rests
{
	my ($node, $db) = @_;
	my $looks = 0;
	return wait_until(sub {
		my $rests = $node->safe_psql($db || 'postgres',
			"SELECT state = 'off' AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'securefile monitor worker') FROM securefile_monitor");
		$looks = $rests eq 't' ? $looks + 1 : 0;
		return $looks == 3;
	});
}

# One test: the monitor frees all that is pending in column doc.
sub pending_is_gone
{
	my ($node, $table, $name, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($node->poll_query_until($db || 'postgres', "SELECT pending_bytes = 0 FROM securefile_usage('$table', 'doc')"), $name);
}

# Wait until a server's log matches, from an offset on.
sub log_says
{
	my ($node, $like, $from) = @_;
	return wait_until(sub { slurp_file($node->logfile, $from) =~ $like }, undef, 100_000);
}

# A server's process for a session ends a little later than the client.
sub session_is_gone
{
	my ($node, $pid) = @_;
	return wait_for_sql($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
}

# The same of all sessions in a database but that of the question.  Their statistics have
# been counted then.
sub sessions_are_gone
{
	my ($node, $db) = @_;
	return wait_for_sql($node,
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = '$db' AND backend_type = 'client backend' AND pid <> pg_backend_pid()");
}

# ---- memory ----

# Call for each mapping of a process that can be read: with its bytes, and its flags, as proc(5)
# has them.  False if the process cannot be read.
sub each_mapping
{
	my ($pid, $call) = @_;
	open(my $mem, '<:raw', "/proc/$pid/mem") or return 0;
	foreach (split /^(?=[0-9a-f]+-[0-9a-f]+ )/m, slurp("/proc/$pid/smaps"))
	{
		next unless /^([0-9a-f]+)-([0-9a-f]+) r\S+ \S+ \S+ \S+ *(.*)/ && $3 !~ /^\[v/;
		no warnings 'portable';
		my ($from, $to) = (hex $1, hex $2);
		next if $to - $from > 1 << 34;
		my ($flags) = /^VmFlags:(.*)/m;
		my $there = '';
		sysseek($mem, $from, 0);
		while ($from < $to)
		{
			my $n = sysread($mem, $there, $to - $from, length $there);
			last unless $n;
			$from += $n;
		}
		$call->($there, defined $flags ? $flags : '');
	}
	close $mem;
	return 1;
}

# ---- data files ----

# Data files of a cluster, paths below pg_securefile.
sub data_files
{
	my ($node) = @_;
	my $top = $node->data_dir . '/pg_securefile';
	my @found;
	return @found unless -d $top;
	find({ no_chdir => 1, wanted => sub { push @found, $File::Find::name if -f && /\.sf$/ } }, $top);
	@found = sort @found;
	return @found;
}

sub data_bytes
{
	my $sum = 0;
	$sum += -s $_ for data_files(@_);
	return $sum;
}

# Their paths below the data directory, with their sizes: a line each.
sub file_sizes
{
	my ($node) = @_;
	my $dir = $node->data_dir;
	return join "\n", map { my $size = -s $_ // 0; s/^\Q$dir\E//r . " $size" } data_files($node);
}

# ---- statements ----

# One test: a statement fails with that SQLSTATE and a message like that.  It is called after
# the statement if no name is given.
sub fails_with
{
	my ($node, $sql, $sqlstate, $like, $name, %params) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $node->psql(
		$params{db} || 'postgres', $sql,
		extra_params => [
			'-v', 'VERBOSITY=verbose', $params{user} ? ('-U', $params{user}) : () ]);
	my $text = $rc == 0 ? "no error, but: $out" : $err;
	return like($text, qr/ERROR:  $sqlstate: .*$like/s, $name // $sql);
}

# All bytes of a file.
sub slurp
{
	my ($file) = @_;
	local $/;
	open(my $fh, '<:raw', $file) or die "$file: $!";
	my $bytes = <$fh>;
	close $fh;
	return $bytes;
}

# Make a file of these bytes, and the directories above it; a file that is there is overwritten.
sub write_file
{
	my ($path, $content) = @_;
	my ($parent) = $path =~ m{^(.*)/[^/]*$}s;
	make_path($parent) if defined $parent;
	open(my $fh, '>:raw', $path) or die "could not write $path: $!";
	print $fh $content;
	close $fh or die "could not write $path: $!";
	return;
}

# Put bytes into a file, at an offset.
sub patch
{
	my ($file, $offset, $bytes) = @_;
	corrupt($file, $offset, $bytes);
	mend_checksums($file, $offset, length $bytes);
	return;
}

# The same as a disk would do it: data checksums tell.
sub corrupt
{
	my ($file, $offset, $bytes) = @_;
	open(my $fh, '+<:raw', $file) or die "$file: $!";
	seek($fh, $offset, 0);
	print $fh $bytes;
	close $fh or die "$file: $!";
	return;
}

# Take the seal off the page of a segment relation that an offset lies in: what is
# changed there is believed then.
sub unseal
{
	my ($file, $offset) = @_;
	patch($file, $offset - $offset % 8192 + 8184, "\0" x 8);
	return;
}

# Where block $n (from 1) of blob($seed, ...), if that is over 64 KB, lies in a data file.
sub block_at
{
	my ($file, $seed, $n) = @_;
	return index(slurp($file), md5_hex("$seed:$n"));
}

# A psql session that goes on after errors; the time a query may take is each one's own.
sub background
{
	my ($node, $db) = @_;
	my $session = $node->background_psql($db || 'postgres', on_error_stop => 0);
	$session->set_query_timer_restart;
	return $session;
}

# Wait until a standby has replayed all.  Records of hints stay in memory until
# somebody commits, and would be waited for long.
sub catch_up
{
	my ($primary, $standby) = @_;
	# a transaction that has a number but nothing else in WAL commits without a flush
	$primary->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'catch_up', '')});
	$primary->wait_for_catchup($standby->name, 'replay', $primary->lsn('flush'));
	return;
}

# ---- stops ----

# Start statements in a session and wait until it stands in a fault point; false if
# it never does.  Keys: skip.  They begin a query of their own each, so that more of
# them than one can be given.
sub held
{
	my ($node, $session, $point, $sql, %params) = @_;
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $before = arm($node, $point, 'wait', %params, pid => $pid);
	$session->query_until(qr/start/, "\\echo start\n$sql;\n");
	return wait_for_sql($node, "SELECT securefile_fault_fired('$point') > $before");
}

# Let it go on, and wait until it is through; what it has printed.
sub resume
{
	my ($node, $session, $point) = @_;
	$node->safe_psql('postgres', "SELECT securefile_fault('$point', 'none')");
	return $session->query('SELECT') =~ s/\s+$//r;
}

# Let a process that waits at one point go on to another one, and wait there.
sub moves_on
{
	my ($node, $from, $to, %params) = @_;
	my $before = arm($node, $to, 'wait', %params);
	$node->safe_psql('postgres', "SELECT securefile_fault('$from', 'none')");
	return wait_for_sql($node, "SELECT securefile_fault_fired('$to') > $before");
}

# Start statements in a session; does it come to wait for a lock?  False if it gets
# through.
sub waits_for_lock
{
	my ($node, $session, $sql) = @_;
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_until(qr/start/, "\\echo start\n$sql;\nSET application_name = 'through';\n");
	wait_for_sql($node, "SELECT wait_event_type = 'Lock' OR application_name = 'through' FROM pg_stat_activity WHERE pid = $pid");
	return $node->safe_psql('postgres', "SELECT application_name <> 'through' FROM pg_stat_activity WHERE pid = $pid") eq 't';
}

sub wait_for_sql
{
	my ($node, $sql, $want) = @_;
	return $node->poll_query_until('postgres', $sql, defined $want ? $want : 't');
}

# ---- a write load ----

# A procedure run_load() that writes to tables l and f until table stop has a row:
# new rows from 1001 on, of which the last ones stay, and changes of ten rows.
# Some transactions are rolled back.  Table load has the newest number.  Keys:
# changed, the first of the ten; keep, how many new rows stay; size, an SQL
# expression over k, which becomes function size(k).
sub prepare_load
{
	my ($node, %params) = @_;
	$node->safe_psql('postgres', qq{
		CREATE TABLE load AS SELECT 1000 AS k;
		CREATE TABLE stop ();
		CREATE FUNCTION size(k int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $params{size}';
		CREATE PROCEDURE run_load() LANGUAGE plpgsql AS \$\$
		DECLARE
			n int := (SELECT k FROM load);
		BEGIN
			WHILE NOT EXISTS (SELECT FROM stop) LOOP
				n := n + 1;
				INSERT INTO l VALUES (n, n, size(n), blob(n, size(n)));
				INSERT INTO f VALUES (n, n, size(n), blob(n, size(n)));
				UPDATE l SET seed = n, len = size(n + 1), doc = blob(n, size(n + 1)) WHERE id = $params{changed} + n % 10;
				UPDATE f SET seed = n, len = size(n + 1), doc = blob(n, size(n + 1)) WHERE id = $params{changed} + n % 10;
				DELETE FROM l WHERE id BETWEEN 1001 AND n - $params{keep};
				DELETE FROM f WHERE id BETWEEN 1001 AND n - $params{keep};
				UPDATE load SET k = n;
				IF n % 5 = 0 THEN
					ROLLBACK;
				ELSE
					COMMIT;
				END IF;
			END LOOP;
		END
		\$\$});
	return;
}

# How far the load has come.
sub loaded
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT k FROM load');
}

# Call $work while a session runs the load, which has come on by $ahead before.
sub under_load
{
	my ($node, $ahead, $work) = @_;
	my $session = background($node);
	my $want = loaded($node) + $ahead;
	$session->{stdin} .= "CALL run_load();\n";
	$session->{run}->pump_nb;
	wait_for_sql($node, "SELECT k > $want FROM load");
	$work->();
	$node->safe_psql('postgres', 'INSERT INTO stop DEFAULT VALUES');
	$session->query_safe('SELECT 1');
	$session->quit;
	$node->safe_psql('postgres', 'TRUNCATE stop');
	return;
}

# A securefile of these bytes, as an SQL expression; needs make_raw_type().
sub raw_value
{
	my ($bytes) = @_;
	return "(('\\x" . unpack('H*', $bytes) . "'::bytea::raw)::securefile)";
}

# The same with some of them replaced.
sub raw_value_with
{
	my ($bytes, $at, $other) = @_;
	substr($bytes, $at, length($other)) = $other;
	return raw_value($bytes);
}

# A type "raw" with the bytes of a securefile, as they are stored or in memory, and casts
# between it, securefile and bytea.
sub make_raw_type
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{
	CREATE TYPE raw;
	CREATE FUNCTION raw_in(cstring) RETURNS raw LANGUAGE internal IMMUTABLE STRICT AS 'byteain';
	CREATE FUNCTION raw_out(raw) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'byteaout';
	CREATE TYPE raw (INPUT = raw_in, OUTPUT = raw_out, LIKE = securefile);
	CREATE CAST (securefile AS raw) WITHOUT FUNCTION;
	CREATE CAST (raw AS securefile) WITHOUT FUNCTION;
	CREATE CAST (raw AS bytea) WITHOUT FUNCTION;
	CREATE CAST (bytea AS raw) WITHOUT FUNCTION});
	return;
}

1;
