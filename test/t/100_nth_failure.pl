# A fixed script of everything there is, again and again, with the first, second,
# third ... system call on files failing: by each I/O method, in each way, once and
# from there on.  What was acknowledged is there, nothing is wrong or left over, and
# the session goes on, unless the server could not but PANIC.
#
# SECUREFILE_NTH=turns takes every call, each with all ways and the methods by turns;
# all, with all methods.  Else it is so many of each way, by lot.  With
# SECUREFILE_NTH_CASE="io_uring error once 17" it is that one.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my @methods = ('libaio', 'io_uring', 'sync');
my %times = (once => 1, often => 50, always => -1);

# how calls fail; what is to be tried again does not go on for ever
my @ways = (
	(map { my $kind = $_; map { [ $kind, $_ ] } ('once', 'always') } ('error', 'enospc', 'enomem', 'short')),
	(map { my $kind = $_; map { [ $kind, $_ ] } ('once', 'often') } ('eintr', 'eagain')));
my $samples = $ENV{SECUREFILE_NTH} || 2;
my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
srand($seed);

# system calls, and io_any
my @points = slurp("$FindBin::RealBin/../../src/base/fault_points.h") =~ /^SF_FAULT_POINT\((io_\w+)/mg;

my $node = new_cluster('nth',
	conf => [ 'restart_after_crash = on', 'securefile.monitor = off', 'wal_level = logical',
		"securefile.write_gather_size = '1MB'" ]);
need_faults($node);

# bytes: what a row of a name holds.  wrong(t): ids of rows that do not hold that;
# unsound(t): what securefile_check and the sums of securefile_usage find
$node->safe_psql('postgres', q{
	CREATE TABLE bytes (name text PRIMARY KEY, data bytea);
	ALTER TABLE bytes ALTER data SET STORAGE EXTERNAL;
	INSERT INTO bytes VALUES ('small', blob(1, 100)), ('page', blob(2, 9000)), ('mid', blob(3, 300000)),
		('other', blob(4, 310000)), ('large', blob(6, 4000000)), ('big', blob(5, 20000000));
	INSERT INTO bytes SELECT 'edited', overlay(b.data PLACING m.data FROM 10000001)
		FROM bytes b, bytes m WHERE b.name = 'big' AND m.name = 'mid';
	INSERT INTO bytes SELECT 'joined', p.data || m.data
		FROM bytes p, bytes m WHERE p.name = 'page' AND m.name = 'mid';
	CREATE FUNCTION wrong(t regclass) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		found text;
	BEGIN
		EXECUTE format('SELECT string_agg(id::text, '' '') FROM %s LEFT JOIN bytes USING (name)
			WHERE doc::bytea IS DISTINCT FROM data', t) INTO found;
		RETURN coalesce(found, '');
	END $$;
	CREATE FUNCTION unsound(t regclass) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		u record;
		live bigint;
		found text;
	BEGIN
		FOR i IN 1 .. 20 LOOP
			PERFORM securefile_maintain(t, 'doc');
			SELECT * INTO u FROM securefile_usage(t, 'doc');
			EXIT WHEN u.pending_bytes = 0;
		END LOOP;
		EXECUTE format('SELECT coalesce(sum((length(doc) + 511) / 512 * 512), 0) FROM %s
			WHERE length(doc) > 4000', t) INTO live;
		SELECT string_agg(c::text, ' ') INTO found FROM securefile_check(t, 'doc') c;
		RETURN concat_ws(' ', found, CASE WHEN (u.pending_bytes, u.live_bytes, u.live_bytes + u.free_bytes)
			IS DISTINCT FROM (0, live, u.file_bytes) THEN format('rows have %s bytes: %s', live, u) END);
	END $$;
	CREATE FUNCTION edit(t regclass, wanted int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		fd int;
	BEGIN
		EXECUTE format('SELECT securefile_open(doc, ''rw'') FROM %s WHERE id = %s', t, wanted) INTO fd;
		IF fd IS NULL THEN
			RETURN;	-- the row could not be stored
		END IF;
		PERFORM securefile_seek(fd, 10000000, 0);
		PERFORM securefile_write(fd, data) FROM bytes WHERE name = 'mid';
		EXECUTE format('UPDATE %s SET name = ''edited'', doc = securefile_finish(%s) WHERE id = %s', t, fd, wanted);
	END $$;
});

my $setup = q{
	SET client_min_messages = error;
	DROP TABLE IF EXISTS l, f, x, done;
	CREATE TABLE done (k int);
	CREATE TABLE l (id int PRIMARY KEY, name text, doc securefile);
	CREATE TABLE f (id int PRIMARY KEY, name text, doc securefile(filesystem_like_logging, nocache));
	INSERT INTO l SELECT row_number() OVER (), name, data FROM bytes WHERE name IN ('page', 'mid', 'other');
	INSERT INTO f SELECT row_number() OVER (), name, data FROM bytes WHERE name IN ('page', 'mid', 'other');
};

sub insert_into
{
	my ($t, $id, $name) = @_;
	return "INSERT INTO $t SELECT $id, name, data FROM bytes WHERE name = '$name';";
}

# ---- the script ----

# Statements of one table, each string a transaction.
sub transactions
{
	my ($t) = @_;
	return (
		insert_into($t, 10, 'small') . insert_into($t, 11, 'page') . insert_into($t, 12, 'mid'),
		insert_into($t, 20, 'big'),
		"UPDATE $t SET name = b.name, doc = b.data FROM bytes b WHERE id = 12 AND b.name = 'other';",
		"SELECT edit('$t', 20);",
		"UPDATE $t SET name = 'joined', doc = doc || b.data::securefile FROM bytes b WHERE id = 11 AND b.name = 'mid';",
		insert_into($t, 30, 'mid') . 'SAVEPOINT s;' . insert_into($t, 31, 'large')
		  . 'ROLLBACK TO s;' . insert_into($t, 32, 'page'),
		"DELETE FROM $t WHERE id = 1;",
		'CREATE TABLE x (id int PRIMARY KEY, name text, doc securefile);' . insert_into('x', 1, 'mid'),
		'TRUNCATE x;' . insert_into('x', 1, 'other'),
		'DROP TABLE x;',
		"DELETE FROM $t WHERE id = 20;",
		insert_into($t, 40, 'other'));
}

# What is done besides, after the transaction of that number.
my %besides = (
	4 => sub { "SELECT 'wrong: ' || wrong('$_[0]');" },
	6 => sub { 'BEGIN;' . insert_into($_[0], 50, 'large') . 'ROLLBACK;' },
	8 => sub { "SELECT 'wrong: ' || wrong('x');" },
	11 => sub { "SELECT count(*) FROM securefile_maintain('$_[0]', 'doc');" });

# All of it; prints "op K" after the outcome of each transaction.
sub script
{
	my ($method, @faults) = @_;
	my $sql = "SET securefile.io_method = $method;\n";
	my $k = 0;

	$sql .= "SELECT securefile_fault($_, pid => pg_backend_pid());\n" foreach @faults;
	foreach my $t ('l', 'f')
	{
		my $i = 0;
		foreach my $work (transactions($t))
		{
			$k++;
			$i++;
			$sql .= "BEGIN;$work INSERT INTO done VALUES ($k); COMMIT;\n\\echo op $k\n";
			$sql .= $besides{$i}->($t) . "\n" if $besides{$i};
		}
	}
	$sql .= "SELECT '$_: ' || securefile_fault_fired('$_');\n" foreach @points;
	$sql .= "SELECT securefile_fault_reset();\n";
	$sql .= 'BEGIN;' . insert_into('l', 60, 'mid') . insert_into('f', 60, 'mid')
	  . " INSERT INTO done VALUES (0); COMMIT;\n\\echo op 0\n";
	$sql .= "SELECT 'wrong: ' || wrong('l') || wrong('f');\n\\echo end\n";
	return $sql;
}

# ---- one run ----

my %errors;
my $panics = 0;
my $runs = 0;
my $faults = 0;

# What must not be said: damage where there is none, and what no failed call explains.
sub note_errors
{
	my ($kind, $stderr) = @_;
	my @bad;
	while ($stderr =~ /^(?:psql:[^\n]*?)?ERROR:  (\w{5}): ([^\n]*)/mg)
	{
		my ($state, $text) = ($1, $2);
		$errors{"$kind $state"}++;
		push @bad, "$state $text"
		  if $state !~ /^(?:58030|53100|53200|25P02|3B001|42P01|XX000)$/
		  || $state eq 'XX000' && $text !~ /Cannot allocate memory|Interrupted system call|Resource temporarily/;
	}
	push @bad, 'short transfers are errors' if $kind eq 'short' && $stderr =~ /ERROR/;
	return @bad;
}

# Run the script with faults; returns how often the points acted, or nothing if the
# server died, and what was wrong.
sub run
{
	my ($method, $kind, @faults) = @_;
	my $offset = -s $node->logfile;
	my ($out, $err) = ('', '');
	my @bad;

	$node->safe_psql('postgres', $setup);
	IPC::Run::run([ 'psql', '-X', '-A', '-t', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres') ],
		'<', \script($method, @faults), '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	my $ended = $out =~ /^end$/m;
	my %fired = $out =~ /^(io_\w+): (\d+)$/mg;
	my %committed = map { $_ => 1 } $out =~ /^COMMIT\nop (\d+)$/mg;
	my %rolled_back = map { $_ => 1 } $out =~ /^ROLLBACK\nop (\d+)$/mg;

	push @bad, note_errors($kind, $err);
	push @bad, "wrong inside: $1" while $out =~ /^wrong: (.+)$/mg;
	if (!$ended)
	{
		$panics++;
		wait_restart($node, $offset);
		push @bad, 'session ended' if slurp_file($node->logfile, $offset) !~
		  /PANIC:  could not (?:fsync|write segment|collect)/;
	}
	push @bad, 'session is not usable' if $ended && !$committed{0};
	push @bad, "in the log: $1" if slurp_file($node->logfile, $offset) =~ /(TRAP:.*|signal 11.*)/;

	my ($rc, $state, $wrong) = $node->psql('postgres', q{
		SELECT 'done: ' || coalesce(string_agg(k::text, ' '), '') FROM done;
		SELECT 'wrong: ' || wrong('l') || wrong('f');
		SELECT 'unsound: ' || unsound('l') || unsound('f');
		SELECT 'segments: ' || count(*) FROM securefile_columns;});
	push @bad, "afterwards: $wrong" if $rc != 0;
	my %done = map { $_ => 1 } $state =~ /^done: (.*)$/m ? split / /, $1 : ();
	push @bad, "lost: $_" foreach grep { !$done{$_} } sort keys %committed;
	push @bad, "not rolled back: $_" foreach grep { $done{$_} } sort keys %rolled_back;
	push @bad, $1 while $state =~ /^((?:wrong|unsound): .+)$/mg;
	my $files = () = data_files($node);
	push @bad, "$files files" if $rc == 0 && $state !~ /^segments: $files$/m;

	$runs++;
	return (\%fired, @bad ? join("\n", @bad) . "\n$err" : '');
}

# Let the nth system call fail, and perhaps all that follow; returns how many did.
sub fail_nth
{
	my ($method, $kind, $times, $n) = @_;
	my ($fired, $bad) = run($method, $kind, "'io_any', '$kind', skip => $n, times => $times{$times}");
	my $count = defined $fired->{io_any} ? $fired->{io_any} : 1;
	$faults += $count;
	return ($count, $bad);
}

# ---- which runs ----

# How many calls there are.
my %calls;
foreach my $method (@methods)
{
	my ($passed, $bad) = run($method, 'no faults', map { "'$_', 'pass', times => -1" } @points);
	$calls{$method} = $passed->{io_any};
	is($bad, '', "$method: no faults in $calls{$method} calls");
	note(join(', ', map { "$_ $passed->{$_}" } grep { $passed->{$_} > 0 } @points));
}

# One combination; the failure, or nothing.  Beyond the last call nothing acts.
sub try_one
{
	my ($method, $kind, $times, $n) = @_;
	my ($count, $bad) = fail_nth($method, $kind, $times, $n);
	return ($count, $bad ? "SECUREFILE_NTH_CASE=\"$method $kind $times $n\"\n$bad" : ());
}

# Every call, by all methods or by turns.
sub try_all
{
	my ($kind, $times, $by_turns) = @_;
	my @failed;
	my $silent = 0;
	for (my $n = 0; $silent < @methods; $n++)
	{
		foreach my $method ($by_turns ? $methods[ $n % @methods ] : @methods)
		{
			my ($count, @bad) = try_one($method, $kind, $times, $n);
			push @failed, @bad;
			$silent = $count == 0 ? $silent + 1 : 0;
		}
	}
	return @failed;
}

sub try_some
{
	my ($kind, $times, $method, $samples) = @_;
	my @failed;
	foreach (1 .. $samples)
	{
		my ($count, @bad) = try_one($method, $kind, $times, int(rand($calls{$method})));
		push @failed, @bad;
	}
	return @failed;
}

if ($ENV{SECUREFILE_NTH_CASE})
{
	my ($fired, $bad) = fail_nth(split / /, $ENV{SECUREFILE_NTH_CASE});
	is($bad, '', "$ENV{SECUREFILE_NTH_CASE}: acted $fired times");
}
else
{
	my $turn = 0;
	foreach my $way (@ways)
	{
		my ($kind, $times) = @$way;
		my @failed =
		    $samples =~ /^\d+$/
		  ? try_some($kind, $times, $methods[ $turn++ % @methods ], $samples)
		  : try_all($kind, $times, $samples eq 'turns');
		is(join("\n", @failed), '', "$kind, $times");
	}
}
note("seed $seed; $runs runs, $faults faults, $panics PANICs; errors: "
	  . join(', ', map { "$_ $errors{$_}" } sort keys %errors));

$node->stop;
done_testing();
