# 16 writers of columns with a limit, beside all that replaces a column's storage: TRUNCATE, a
# rewrite, an online rewrite, a release and a move (securefile_shrink()), other limits, no limit and
# one again, DROP and ADD of the column.
# Writers abort, go back to savepoints, prepare transactions, and are refused (53400); the server is
# killed again and again.  Files and maps never get past the limit by more than a growth step, each
# value is what the model says, nothing is pending for ever, and the check is silent.
#
# The model is a table that has the digest of each value: a transaction writes to both.
#
# SECUREFILE_QUOTA_SECONDS: for so long (7).  SECUREFILE_SEED.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(sleep time);

use constant { WRITERS => 14, PREPARERS => 2, LIMIT_MB => 4, STEP_MB => 1, ROUND_SECONDS => 3 };

my $seconds = $ENV{SECUREFILE_QUOTA_SECONDS} || 7;
my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
srand($seed);
note("figures: seed $seed");
my $node = new_cluster('quota_storm', conf => [ 'max_prepared_transactions = 20', 'max_connections = 40', "deadlock_timeout = '100ms'" ]);

my %options = (plain => 'filesystem_like_logging', logged => 'logging', shared => 'deduplicate', packed => 'compress, hash');
my @tables = sort keys %options;

# Without a limit at the moment; the most bytes that were seen; what was done.
my (%unlimited, %most, %done, %refused);

# ---- tables and writers ----

sub type_of { my ($table, $mb) = @_; return "securefile($options{$table}" . ($mb ? ", 'max_size $mb MB')" : ')'); }

sql('CREATE TABLE model (name text, id int, digest bytea, PRIMARY KEY (name, id))', 'CREATE TABLE refused (name text)', 'CREATE TABLE odd (name text, state text, message text)',
	(map { "CREATE TABLE $_ (id int PRIMARY KEY, doc " . type_of($_, LIMIT_MB) . ')' } @tables), q{
	CREATE FUNCTION change(name text, id int, content bytea) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		-- so that two writers never wait for each other
		PERFORM pg_advisory_xact_lock(hashtext(name), id);
		IF content IS NULL THEN
			EXECUTE format('DELETE FROM %I WHERE id = $1', name) USING id;
			DELETE FROM model m WHERE m.name = change.name AND m.id = change.id;
		ELSE
			EXECUTE format('INSERT INTO %I VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc', name) USING id, content;
			INSERT INTO model VALUES (name, id, sha256(content)) ON CONFLICT ON CONSTRAINT model_pkey DO UPDATE SET digest = excluded.digest;
		END IF;
	END $$;
	-- few contents, so that some are the same; one in two of them is none that could be compressed
	CREATE FUNCTION some_content() RETURNS bytea LANGUAGE sql VOLATILE AS $$
		SELECT CASE WHEN random() > 0.9 THEN NULL WHEN s % 2 = 0 THEN blob(s, s * s * 7919 % 250000) ELSE noise(s, s * s * 7919 % 250000) END FROM (SELECT (random() * 300)::int AS s) x $$;
	CREATE PROCEDURE write_on(names text[], from_seed int) LANGUAGE plpgsql AS $$
	DECLARE
		name text;
		make_room boolean := false;
	BEGIN
		PERFORM setseed(from_seed / 1000000.0);
		LOOP
			FOR i IN 0 .. (random() * 3)::int LOOP
				name := names[1 + floor(random() * cardinality(names))];
				BEGIN
					PERFORM change(name, (random() * 40)::int, CASE WHEN NOT make_room THEN some_content() END);
					make_room := false;
					IF random() < 0.1 THEN
						RAISE 'back to the savepoint';
					END IF;
				EXCEPTION
					WHEN configuration_limit_exceeded THEN
						INSERT INTO refused VALUES (name);
						make_room := true;
					WHEN raise_exception OR deadlock_detected OR lock_not_available THEN NULL;
					WHEN OTHERS THEN
						INSERT INTO odd VALUES (name, SQLSTATE, SQLERRM);
				END;
			END LOOP;
			IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
	END $$});

# A session that runs statements, in the background; what it says goes nowhere.
my $started = 0;

sub start
{
	my (@statements) = @_;
	my $file = $node->basedir . '/session' . $started++ % 100;
	write_file($file, join(";\n", @statements) . ";\n");
	return IPC::Run::start([ 'psql', '-XAtq', '-f', $file, '-d', $node->connstr('postgres') ], '<', '/dev/null', '>', '/dev/null', '2>', '/dev/null');
}

sub start_writers
{
	my ($round) = @_;
	my $names = "'{" . join(',', @tables) . "}'";
	my @runs = map { start('SET lock_timeout = 3000', "CALL write_on($names, " . int(rand(1_000_000)) . ')') } 1 .. WRITERS;
	foreach my $n (1 .. PREPARERS)
	{
		push @runs, start("SELECT setseed($n / 10.0 + random() / 100)", 'SET lock_timeout = 3000',
			map { my $name = "p_${round}_${n}_$_";
				my $table = $tables[ rand @tables ];
				('BEGIN', "SELECT change('$table', " . int(rand(40)) . ', some_content())', "PREPARE TRANSACTION '$name'", 'SELECT pg_sleep(random() / 20)',
					(rand() < 0.5 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$name'") } 1 .. 400);
	}
	return @runs;
}

# ---- the limit ----

# One look at the sizes; a table that had no limit meanwhile does not count.
sub look
{
	foreach my $row (split /\n/, sql(join(' UNION ALL ', map { "SELECT '$_', file_bytes + metadata_bytes FROM securefile_usage('$_', 'doc')" } grep { !$unlimited{$_} } @tables)))
	{
		my ($table, $bytes) = split /\|/, $row;
		$most{$table} = $bytes if !$most{$table} || $bytes > $most{$table};
	}
	return;
}

# Statements in one session; the transaction may meet a lock that is kept for long.
sub attempt
{
	my ($what, @statements) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", 'SET lock_timeout = 2000', @statements), on_error_stop => 1);
	my $ok = $rc == 0;
	$done{$what}++ if $ok;
	# a rewrite stores all of the values a second time: there may be no room for that
	$refused{$what}++ if !$ok && $err =~ /has reached its limit/;
	return $ok || $err =~ /lock timeout|deadlock detected|has reached its limit/ ? $ok : die "$what: $err";
}

my %actions = (
	truncate => sub { attempt('truncate', 'BEGIN', "TRUNCATE $_[0]", "DELETE FROM model WHERE name = '$_[0]'", 'COMMIT'); },
	rewrite => sub { attempt('rewrite', "SELECT securefile_rewrite('$_[0]', 'doc')"); },
	online => sub { attempt('online', "CALL securefile_rewrite_online('$_[0]', 'doc', 500000)"); },
	lower => sub { attempt('lower', "SELECT securefile_set_max_size('$_[0]', 'doc', '1 MB')", 'SELECT pg_sleep(0.1)', "SELECT securefile_set_max_size('$_[0]', 'doc', '" . LIMIT_MB . " MB')"); },
	release => sub { attempt('release', "CALL securefile_shrink('$_[0]', 'doc')"); },
	move => sub { attempt('move', "CALL securefile_shrink('$_[0]', 'doc', 'move', force => true)"); },
	maintain => sub { attempt('maintain', "SELECT securefile_maintain('$_[0]', 'doc')"); },
	renew => sub {
		attempt('renew', 'BEGIN', "ALTER TABLE $_[0] DROP doc", "ALTER TABLE $_[0] ADD doc " . type_of($_[0], LIMIT_MB), "DELETE FROM $_[0]", "DELETE FROM model WHERE name = '$_[0]'", 'COMMIT');
	},
	unlimit => sub {
		my ($table) = @_;
		return if $unlimited{$table};
		$unlimited{$table} = 1;
		attempt('unlimit', "ALTER TABLE $table ALTER doc TYPE " . type_of($table)) or delete $unlimited{$table};
		return;
	},
	limit => sub {
		my ($table) = @_;
		return if !$unlimited{$table};
		attempt('limit', 'BEGIN', "ALTER TABLE $table ALTER doc TYPE " . type_of($table, LIMIT_MB), "TRUNCATE $table", "DELETE FROM model WHERE name = '$table'", 'COMMIT') and delete $unlimited{$table};
		return;
	});

# ---- rounds ----

# How many values differ from the model.
sub differences
{
	return sql('SELECT sum(n) FROM (' . join(' UNION ALL ', map {
			"SELECT count(*) AS n FROM (SELECT id, sha256(doc::bytea) AS digest FROM $_) t FULL JOIN (SELECT id, digest FROM model WHERE name = '$_') m USING (id) WHERE t.digest IS DISTINCT FROM m.digest"
		} @tables) . ') d');
}

sub end_prepared
{
	foreach my $gid (split /\n/, sql('SELECT gid FROM pg_prepared_xacts ORDER BY 1'))
	{
		sql((rand() < 0.5 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid'");
	}
	return;
}

my @deck;
my $until = time() + $seconds;
my $writes = 0;
for (my $round = 1; time() < $until; $round++)
{
	my @runs = start_writers($round);
	for (my $end = time() + ROUND_SECONDS; time() < $end; look())
	{
		@deck = shuffle(sort keys %actions) if !@deck;
		$actions{ shift @deck }->($tables[ rand @tables ]);
		sleep rand(0.1);
	}
	$writes += sql('SELECT n_tup_ins + n_tup_upd FROM pg_stat_all_tables WHERE relname = \'model\'');
	crash($node);
	$node->start;
	eval { $_->finish } foreach @runs;
	look();
	end_prepared();
	is(differences(), 0, "round $round: all values are those of the model");
	foreach my $table (@tables)
	{
		is(sql("SELECT * FROM securefile_check('$table', 'doc')"), '', "round $round: $table is sound");
		sound($node, $table, "round $round") if $table eq $tables[ $round % @tables ];
	}
}

# each is filled up once more: writers may have been held up all the time
foreach my $table (@tables)
{
	delete $unlimited{$table};
	sql("SELECT securefile_set_max_size('$table', 'doc', '" . LIMIT_MB . " MB')", "TRUNCATE $table");
	fails_with($node, "DO \$\$ BEGIN FOR i IN 1..100 LOOP INSERT INTO $table VALUES (i, noise(i, 150000)); COMMIT; END LOOP; END \$\$", '53400', 'limit of ' . LIMIT_MB . ' MB', "$table is refused in the end");
	look();
	cmp_ok($most{$table}, '<=', mb(LIMIT_MB) + mb(STEP_MB), "and has kept to its limit: $most{$table} bytes at most");
	cmp_ok($most{$table}, '>', mb(LIMIT_MB) / 2, 'and came near it');
}
is(sql('SELECT DISTINCT * FROM odd LIMIT 5'), '', 'no other errors');
my $all_refused = sql(q{SELECT string_agg(name || ' ' || n, ', ' ORDER BY name) FROM (SELECT name, count(*) AS n FROM refused GROUP BY name) r}) // '';
note("figures: $writes writes; refused: $all_refused; " . join(', ', map { "$_ $done{$_}" . ($refused{$_} ? " and $refused{$_} refused" : '') } sort keys %done));
done_testing();
