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
use SecurefileBytes;
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
my @points = fault_points('^io_');

my $node = new_cluster('nth',
	conf => [ 'restart_after_crash = on', 'securefile.monitor = off', 'wal_level = logical',
		"securefile.write_gather_size = '1MB'" ]);
need_faults($node);

prepare_bytes($node, 'postgres', 20_000_000);

my $setup = q{
	SET client_min_messages = error;
	DROP TABLE IF EXISTS l, f, x, done;
	CREATE TABLE done (k int);
	CREATE TABLE l (id int PRIMARY KEY, name text, doc securefile);
	CREATE TABLE f (id int PRIMARY KEY, name text, doc securefile(filesystem_like_logging, nocache));
	INSERT INTO l SELECT row_number() OVER (), name, data FROM bytes WHERE name IN ('page', 'mid', 'other');
	INSERT INTO f SELECT row_number() OVER (), name, data FROM bytes WHERE name IN ('page', 'mid', 'other');
};

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
