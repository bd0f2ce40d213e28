# A crash at every fault point, by SIGKILL and by PANIC, and another one while the
# server recovers from it.  Scenarios are run once to see which points they reach, and
# how often; then again for each point, to die there.  Then the server is started so
# that it dies at some record of the replay, or at some system call of it, and once
# more, and verified: what was acknowledged is there, everything is right and sound,
# no file is left over or missing.
#
# In short each point has one crash, with scenario, action, logging mode and so on by
# lot.  With SECUREFILE_CRASH_ROUNDS=N it has one for each action and logging mode, and
# N crashes in each recovery.  SECUREFILE_CRASH_POINTS is a pattern of the points to try.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use File::Find;
use List::Util qw(shuffle);
use PostgreSQL::Test::Utils;
use SecurefileBytes;
use SecurefileCrash;
use SecurefileTest;
use Test::More;

my $rounds = $ENV{SECUREFILE_CRASH_ROUNDS} || 0;
my $only = $ENV{SECUREFILE_CRASH_POINTS} || '.';
my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
srand($seed);
note("seed $seed");

# Points that are not reached here, and why.
my %elsewhere = (
	upgrade_after_pages => 'securefile_upgrade_finish() needs another cluster: 083_upgrade',
	redo_own => 'the same',
	advice_split => 'a bucket is split when it has many entries: 163_advice',
	io_file_remove => 'a file of the server is removed where it could not be finished: 271_server_files',
	clock_forward => 'a clock does nothing: 307_retention',
	time_passes => 'the same',
	release_little => 'the monitor releases nothing without a setting: 299_auto_release',
	share_root => 'a value with a root page is copied: 180_reflinks',
	(map { ("migrate_$_" => 'securefile_migrate() has tests of its own: 246_migrate_storm') }
		qw(begin helpers row batch between validated index compare locked swapped unlink finish abort)),
	repair_page => 'securefile_repair() needs damage: 108_repair',
	repair_done => 'the same',
	(map { ("search_$_" => 'a search writes nothing: 279_search') } qw(avx2 sifted)));

my @points = fault_points('^(?!break_|wrong_)');

# These work when they like, so they are looked at only for what is their own; and how
# often they pass a point depends on how long all else takes.
my %by_itself = (monitor => '.', syncer => '^(?:syncer_|data_(?:written|noted|logged))');
my @methods = ('libaio', 'io_uring', 'sync');
my %modes = (l => '', f => 'filesystem_like_logging');
# of the scenario with compression
my @levels = shuffle('compress_low', 'compress_medium', 'compress_high');

my $node = new_cluster('crash_points',
	conf => [ master_key(), 'restart_after_crash = off', 'wal_level = logical', 'securefile.monitor = off',
		'securefile.syncer = off',
		'allow_in_place_tablespaces = on', "max_wal_size = '1GB'", "checkpoint_timeout = '1h'",
		"securefile.write_gather_size = '1MB'",
		# else a session that waits has transactions that nobody counted
		'securefile.kept_memory_timeout = 0' ]);
need_faults($node);

sub one_of { return $_[ int(rand(@_)) ]; }

sub type
{
	my ($t, @options) = @_;
	my $options = join ', ', grep { $_ } $modes{$t}, @options;
	return $options ? "securefile($options)" : 'securefile';
}

sub create_table
{
	my ($table, $t, @options) = @_;
	return "CREATE TABLE $table (id int PRIMARY KEY, name text, doc " . type($t, @options) . ');';
}

# In each database: bytes, done, and what is run when the server is there again.
sub prepare
{
	my ($db) = @_;
	prepare_bytes($node, $db, 6_000_000);
	$node->safe_psql($db, q{
		CREATE TABLE done (k int);
		CREATE FUNCTION sparse_doc(docs regclass) RETURNS securefile LANGUAGE plpgsql AS $$
		DECLARE
			fd int := securefile_create(docs, 'doc');
		BEGIN
			PERFORM securefile_write(fd, data) FROM bytes WHERE name = 'mid';
			PERFORM securefile_seek(fd, 70000000, 0);
			PERFORM securefile_write(fd, data) FROM bytes WHERE name = 'mid';
			RETURN securefile_finish(fd);
		END $$;
		CREATE FUNCTION wrong_sparse(t regclass) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE
			found text;
		BEGIN
			EXECUTE format('SELECT string_agg(id::text, '' '') FROM %s, bytes WHERE bytes.name = ''mid''
				AND (substring(doc FROM 1 FOR 300000) <> data OR substring(doc FROM 70000001) <> data
					OR substring(doc FROM 35000001 FOR 10) <> ''\x00000000000000000000'')', t) INTO found;
			RETURN coalesce(found, '');
		END $$;
		CREATE FUNCTION problems() RETURNS SETOF text LANGUAGE plpgsql AS $$
		DECLARE
			t regclass;
		BEGIN
			FOR t IN SELECT relid FROM securefile_columns WHERE segment_relid IS NOT NULL ORDER BY 1 LOOP
				IF t::text = 'sparse' THEN
					RETURN NEXT 'wrong: ' || wrong_sparse(t);
					DELETE FROM sparse;
				ELSE
					RETURN NEXT 'wrong: ' || wrong(t);
				END IF;
			END LOOP;
		END $$;
		CREATE FUNCTION flaws() RETURNS SETOF text LANGUAGE plpgsql AS $$
		DECLARE
			t regclass;
		BEGIN
			FOR t IN SELECT relid FROM securefile_columns WHERE segment_relid IS NOT NULL ORDER BY 1 LOOP
				RETURN NEXT 'unsound: ' || unsound(t, CASE t::text WHEN 'queue' THEN 0 ELSE 4000 END);
			END LOOP;
		END $$;
	});
	return;
}

# ---- scenarios ----

sub transaction
{
	my ($k, @sql) = @_;
	return "BEGIN; @sql INSERT INTO done VALUES ($k); COMMIT;\n\\echo op $k\n";
}

# Each is given l or f, and returns what prepares it and what is to be crashed.
my %scenarios = (
	values => sub {
		my ($t) = @_;
		return ("DELETE FROM $t WHERE id >= 10; SELECT FROM securefile_maintain('$t', 'doc');",
			transaction(1, insert_into($t, 10, 'small'), insert_into($t, 11, 'page'), insert_into($t, 12, 'mid')),
			transaction(2, insert_into($t, 20, 'big')),
			transaction(3, "UPDATE $t SET name = b.name, doc = b.data FROM bytes b WHERE id = 12 AND b.name = 'other';"),
			transaction(4, "SELECT FROM edit('$t', 20);"),
			transaction(5, "UPDATE $t SET name = 'joined', doc = doc || b.data::securefile FROM bytes b WHERE id = 11 AND b.name = 'mid';"),
			transaction(6, insert_into($t, 30, 'mid'), 'SAVEPOINT s;', insert_into($t, 31, 'large'),
				'ROLLBACK TO s;', insert_into($t, 32, 'page')),
			'BEGIN;' . insert_into($t, 40, 'large') . "ROLLBACK;\n",
			transaction(7, "DELETE FROM $t WHERE id = 20;"),
			"SELECT FROM securefile_maintain('$t', 'doc');\n",
			"SELECT 'wrong: ' || wrong('$t');\n");
	},
	growth => sub {
		my ($t) = @_;
		return ('',
			transaction(1, create_table('x', $t, 'nocache'), insert_into('x', 1, 'page')),
			transaction(2, map { insert_into('x', $_, 'large') } (2 .. 4)),
			"SELECT 'wrong: ' || wrong('x');\n",
			transaction(3, 'DELETE FROM x WHERE id > 1;'),
			"SELECT FROM securefile_maintain('x', 'doc');\n",
			transaction(4, insert_into('x', 5, 'large')));
	},
	ends => sub {
		my ($t) = @_;
		return (create_table('x', $t) . insert_into('x', 1, 'mid'),
			'BEGIN; TRUNCATE x;' . insert_into('x', 2, 'mid') . "ROLLBACK;\n",
			transaction(1, 'TRUNCATE x;', insert_into('x', 3, 'other')),
			'BEGIN;' . insert_into('x', 4, 'mid') . " INSERT INTO done VALUES (2); PREPARE TRANSACTION 'p';\n\\echo prepared\n",
			"COMMIT PREPARED 'p';\n\\echo op 2\n",
			'BEGIN;' . insert_into('x', 5, 'mid') . " PREPARE TRANSACTION 'q';\nROLLBACK PREPARED 'q';\n",
			transaction(3, 'DROP TABLE x;'));
	},
	history => sub {
		my ($t) = @_;
		return (create_table('x', $t, "'retention 7 days'", "'max_size 1 GB'") . join('', map { insert_into('x', $_, 'large') } (1, 3, 4)) . insert_into('x', 2, 'page'),
			transaction(1, 'DELETE FROM x WHERE id = 1;', "UPDATE x SET name = 'joined', doc = doc || b.data::securefile FROM bytes b WHERE id = 2 AND b.name = 'mid';"),
			"SELECT FROM securefile_maintain('x', 'doc');\n",
			transaction(2, 'DELETE FROM x WHERE id = 3;'),
			"SELECT FROM securefile_purge('x', 'doc');\n",
			transaction(3, 'DELETE FROM x WHERE id = 4;'));
	},
	release => sub {
		my ($t) = @_;
		return (create_table('x', $t) . join('', map { insert_into('x', $_, 'large') } (1 .. 4)),
			transaction(1, 'DELETE FROM x WHERE id IN (1, 3);'),
			"SELECT FROM securefile_maintain('x', 'doc');\n",
			"CALL securefile_shrink('x', 'doc');\n",
			"SELECT 'wrong: ' || wrong('x');\n",
			transaction(2, insert_into('x', 5, 'large')),
			"SELECT 'wrong: ' || wrong('x');\n");
	},
	move => sub {
		my ($t) = @_;
		return (create_table('x', $t) . join('', map { insert_into('x', $_, 'large') } (1 .. 6)),
			transaction(1, 'DELETE FROM x WHERE id < 6;'),
			"SELECT FROM securefile_maintain('x', 'doc');\n",
			"CALL securefile_shrink('x', 'doc', 'move', force => true);\n",
			"SELECT 'wrong: ' || wrong('x');\n",
			transaction(2, insert_into('x', 7, 'large')),
			"SELECT 'wrong: ' || wrong('x');\n");
	},
	queue => sub {
		my ($t) = @_;
		my $add = 'INSERT INTO queue SELECT i, name, data FROM bytes, generate_series(%d, %d) i WHERE name = \'small\';';
		return (create_table('queue', $t, 'disable_storage_in_row') . sprintf($add, 1, 1400),
			transaction(1, 'DELETE FROM queue WHERE id % 2 = 0;'),
			transaction(2, sprintf($add, 2001, 2040)),
			"SELECT FROM securefile_maintain('queue', 'doc');\n" x 2,
			transaction(3, 'DELETE FROM queue WHERE id > 2000;'),
			"SELECT FROM securefile_maintain('queue', 'doc');\n");
	},
	early => sub {
		my ($t) = @_;
		my $add = 'INSERT INTO queue SELECT i, name, data FROM bytes, generate_series(%d, %d) i WHERE name = \'small\';';
		return (create_table('queue', $t, 'disable_storage_in_row') . sprintf($add, 1, 300),
			"SET securefile.transaction_memory = 0;\n",
			transaction(1, 'DELETE FROM queue WHERE id % 5 = 0; SAVEPOINT a; DELETE FROM queue WHERE id % 5 = 1;',
				'ROLLBACK TO a; SAVEPOINT b; DELETE FROM queue WHERE id % 5 = 2; RELEASE b;', sprintf($add, 301, 320),
				'DELETE FROM queue WHERE id > 310;'),
			"SELECT FROM securefile_maintain('queue', 'doc');\n",
			"BEGIN; DELETE FROM queue WHERE id % 5 = 3; SAVEPOINT a; DELETE FROM queue; ROLLBACK;\n",
			'BEGIN; DELETE FROM queue WHERE id > 305; SAVEPOINT a; DELETE FROM queue WHERE id > 290;'
			  . " INSERT INTO done VALUES (2); PREPARE TRANSACTION 'p';\n\\echo prepared\n",
			"SELECT FROM securefile_maintain('queue', 'doc');\n",
			"COMMIT PREPARED 'p';\n\\echo op 2\n",
			"SELECT FROM securefile_maintain('queue', 'doc');\n");
	},
	sparse => sub {
		my ($t) = @_;
		return ('CREATE TABLE sparse (id int, doc ' . type($t) . ');',
			transaction(1, "INSERT INTO sparse SELECT 1, sparse_doc('sparse');"),
			"SELECT count(md5(c)) FROM (SELECT securefile_chunks(doc) AS c FROM sparse LIMIT 4) s;\n",
			transaction(2, 'UPDATE sparse SET doc = overlay(doc PLACING data FROM 35100001) FROM bytes WHERE name = \'page\';'),
			transaction(3, 'DELETE FROM sparse;'),
			"SELECT FROM securefile_maintain('sparse', 'doc');\n");
	},
	pieces => sub {
		my ($t) = @_;
		my $insert = "UPDATE x SET name = 'inserted', doc = securefile_insert(doc, 1000001, b.data::securefile) FROM bytes b WHERE id = 10 AND b.name = 'page';";
		return (create_table('x', $t) . insert_into('x', 10, 'large'),
			transaction(1, $insert),
			"SELECT 'wrong: ' || wrong('x');\n",
			transaction(2, "UPDATE x SET name = 'large', doc = securefile_delete(doc, 1000001, length(b.data)) FROM bytes b WHERE id = 10 AND b.name = 'page';", 'SAVEPOINT s;', $insert, 'ROLLBACK TO s;'),
			"SELECT FROM securefile_maintain('x', 'doc');\n",
			transaction(3, $insert, insert_into('x', 11, 'mid')),
			"SELECT 'wrong: ' || wrong('x');\n",
			transaction(4, 'DELETE FROM x WHERE id = 10;'),
			"SELECT FROM securefile_maintain('x', 'doc');\n");
	},
	compressed => sub {
		my ($t) = @_;
		return (create_table('x', $t, $levels[0], 'hash'),
			transaction(1, insert_into('x', 10, 'page'), insert_into('x', 11, 'mid'), insert_into('x', 12, 'large')),
			transaction(2, insert_into('x', 20, 'big')),
			transaction(3, "SELECT FROM edit('x', 20);"),
			"SELECT 'wrong: ' || wrong('x');\n",
			transaction(4, 'ALTER TABLE x ALTER doc TYPE ' . type($t, $levels[1], 'hash') . ';',
				"UPDATE x SET name = 'joined', doc = doc || b.data::securefile FROM bytes b WHERE id = 10 AND b.name = 'mid';"),
			transaction(5, "SELECT FROM securefile_rewrite('x', 'doc');"),
			"SELECT 'wrong: ' || wrong('x');\n");
	},
	trained => sub {
		my ($t) = @_;
		my $alike = q{INSERT INTO x SELECT 1000 + i, 'none', convert_to(format('{"number": %s, "alike": "what all of these have in common", "text": "%s"}', i, md5(i::text)), 'UTF8')
			FROM generate_series(1, 120) i;};
		return (create_table('x', $t, 'compress'),
			transaction(1, $alike, "SELECT FROM securefile_train('x', 'doc'); DELETE FROM x WHERE id > 1000;", insert_into('x', 10, 'page')),
			transaction(2, insert_into('x', 11, 'small'), insert_into('x', 12, 'mid')),
			transaction(3, 'TRUNCATE x;', insert_into('x', 13, 'page')),
			"SELECT 'wrong: ' || wrong('x');\n");
	},
	encrypted => sub {
		my ($t) = @_;
		return (create_table('x', $t, 'encrypt', 'hash', $levels[0]),
			transaction(1, insert_into('x', 10, 'small'), insert_into('x', 11, 'page'), insert_into('x', 12, 'large')),
			"SELECT 'wrong: ' || wrong('x');\n",
			"SELECT FROM securefile_new_key('x', 'doc');\n",
			transaction(2, insert_into('x', 20, 'big')),
			transaction(3, "SELECT FROM edit('x', 20);"),
			transaction(4, "UPDATE x SET name = 'joined', doc = doc || b.data::securefile FROM bytes b WHERE id = 11 AND b.name = 'mid';"),
			"SELECT FROM securefile_new_key('x', 'doc', true);\n",
			transaction(5, "SELECT FROM securefile_rewrite_some('x', 'doc', only_keys => true);"),
			transaction(6, 'TRUNCATE x;', insert_into('x', 13, 'mid')),
			"SELECT 'wrong: ' || wrong('x');\n",
			transaction(7, 'DELETE FROM x;', "SELECT FROM securefile_shred('x', 'doc', true);", insert_into('x', 14, 'mid')),
			"SELECT FROM securefile_maintain('x', 'doc');\n",
			"SELECT 'wrong: ' || wrong('x');\n");
	},
	shared => sub {
		my ($t) = @_;
		my $copy = 'INSERT INTO x SELECT %d, name, doc FROM x WHERE id = %d;';
		return (create_table('x', $t, 'deduplicate'),
			transaction(1, map { insert_into('x', @$_) } [ 10, 'mid' ], [ 11, 'mid' ], [ 12, 'page' ]),
			transaction(2, insert_into('x', 13, 'page'), sprintf($copy, 14, 10), 'SAVEPOINT s;', insert_into('x', 15, 'big'),
				'ROLLBACK TO s;', insert_into('x', 16, 'big')),
			'BEGIN;' . sprintf($copy, 17, 12) . insert_into('x', 18, 'large') . "ROLLBACK;\n",
			"SELECT 'wrong: ' || wrong('x');\n",
			transaction(3, 'DELETE FROM x WHERE id IN (11, 12, 13, 14);'),
			"SELECT FROM securefile_maintain('x', 'doc');\n" x 2,
			transaction(4, insert_into('x', 19, 'large'), "SELECT FROM edit('x', 16);", sprintf($copy, 20, 19)),
			transaction(5, 'DELETE FROM x;', insert_into('x', 21, 'mid')),
			"SELECT FROM securefile_maintain('x', 'doc');\n",
			"SELECT 'wrong: ' || wrong('x');\n");
	},
	server_file => sub {
		my ($t) = @_;
		my $path = $node->basedir . '/saved';
		my $load = "INSERT INTO $t SELECT 10, 'mid', securefile_finish(h) FROM (SELECT h, securefile_load(h, '$path') AS n"
		  . " FROM (SELECT securefile_create('$t', 'doc') AS h OFFSET 0) a OFFSET 0) b WHERE n > 0;";
		return ("DELETE FROM $t WHERE id >= 10;",
			"SELECT 'saved: ' || securefile_save(data::securefile, '$path', true) FROM bytes WHERE name = 'mid';\n",
			transaction(1, $load),
			"SELECT 'wrong: ' || wrong('$t');\n");
	},
	database => sub {
		my ($t) = @_;
		return ('',
			"CREATE DATABASE other TEMPLATE spare;\n\\echo created\n\\c other\n",
			transaction(1, create_table('x', $t), insert_into('x', 1, 'mid')),
			"\\c postgres\n\\echo dropping\nDROP DATABASE other;\n\\echo dropped\n");
	},
	tablespace => sub {
		my ($t) = @_;
		return (create_table('x', $t) . insert_into('x', 1, 'mid') . insert_into('x', 2, 'page'),
			transaction(1, 'ALTER TABLE x SET TABLESPACE place;'),
			transaction(2, insert_into('x', 3, 'other')),
			transaction(3, 'ALTER TABLE x SET TABLESPACE pg_default;'),
			transaction(4, 'ALTER TABLE x SET TABLESPACE place;'),
			transaction(5, 'DROP TABLE x;'));
	},
	kept => sub {
		my ($t) = @_;
		return ("SELECT FROM pg_create_logical_replication_slot('s', 'pgoutput');"
			  . create_table('x', $t) . insert_into('x', 1, 'mid'),
			transaction(1, 'TRUNCATE x;', insert_into('x', 1, 'other')),
			transaction(2, 'DROP TABLE x;'),
			"SELECT FROM securefile_maintain('$t', 'doc');\n",
			"SELECT pg_drop_replication_slot('s');\n",
			"SELECT FROM securefile_maintain('$t', 'doc');\n");
	},
	short => sub {
		my ($t) = @_;
		return ("DELETE FROM $t WHERE id >= 10; SELECT FROM securefile_maintain('$t', 'doc');",
			"SELECT FROM securefile_fault('io_write', 'short');SELECT FROM securefile_fault('io_read', 'short');\n",
			transaction(1, insert_into($t, 20, 'big')),
			"SELECT 'wrong: ' || wrong('$t');\n");
	},
	syncer => sub {
		my ($t) = @_;
		my $wait = 'DO $$ BEGIN WHILE NOT coalesce((SELECT %s FROM securefile_syncer), false) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;' . "\n";
		return (create_table('x', 'l'),
			"ALTER SYSTEM SET securefile.syncer = on;\nSELECT pg_reload_conf();\n",
			sprintf($wait, 'pid > 0'),
			q{DO $$ BEGIN FOR n IN 100 .. 10000 LOOP INSERT INTO x SELECT n, name, data FROM bytes WHERE name = 'page';
				COMMIT; EXIT WHEN (SELECT files > 0 FROM securefile_syncer); PERFORM pg_sleep(0.01); END LOOP; END $$;} . "\n",
			transaction(1, insert_into('x', 10, 'page'), insert_into('x', 11, 'mid')),
			sprintf($wait, 'passes > 1'),
			transaction(2, insert_into('x', 12, 'large')),
			"CHECKPOINT;\n",
			"SELECT pg_terminate_backend(pid) FROM securefile_syncer;\n",
			sprintf($wait, 'NOT active AND pid > 0'),
			transaction(3, insert_into('x', 13, 'page')),
			"SELECT 'wrong: ' || wrong('x');\n");
	},
	monitor => sub {
		my ($t) = @_;
		return ("DELETE FROM $t WHERE id >= 10;",
			"ALTER SYSTEM SET securefile.monitor = on;\nSELECT pg_reload_conf();\n",
			transaction(1, insert_into($t, 10, 'large')),
			transaction(2, "DELETE FROM $t WHERE id = 10;"),
			q{DO $$ DECLARE seen bigint; BEGIN
				WHILE securefile_fault_fired('monitor_before_visit') = 0 LOOP PERFORM pg_sleep(0.01); END LOOP;
				-- the monitor may be about to die of it; else this pass ends, or the next one
				seen := passes FROM securefile_monitor;
				WHILE (SELECT passes FROM securefile_monitor) = seen LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;} . "\n");
	});

# ---- one crash ----

# What the server has said since this was asked last that no fault point explains.
my $log_seen = 0;

sub unexplained
{
	my $log = slurp_file($node->logfile, $log_seen);
	$log_seen += length $log;
	return $log =~ /(TRAP: .*|signal (?:11|7|8)\b.*|PANIC:  (?!fault point).*|FATAL:  (?!terminating|cannot connect to invalid database).*)/g;
}

my ($crashes, $recovery_crashes, $recoveries) = (0, 0, 0);
my %fired;		# points that have acted, and how often
my %cut;		# in recovery
my @failures;

# Run a scenario with points armed; (died?, output).
sub act
{
	my ($name, $t, $method, @faults) = @_;
	my ($setup, @work) = $scenarios{$name}->($t);
	my $checkpoint = @faults == 1 ? int(rand(2 * @work)) : -1;
	my $arm = join(', ', map { "securefile_fault($_)" } @faults);

	$node->safe_psql('postgres', "TRUNCATE done; $setup");
	my $script = "SET securefile.io_method = $method;\nSELECT 'backend ' || pg_backend_pid();\n";
	$script .= "SELECT $arm;\n" if $arm;
	foreach my $i (0 .. $#work)
	{
		$script .= $work[$i] . ($i == $checkpoint ? "CHECKPOINT;\n" : '');
	}
	$script .= "\\echo end\n";
	my ($out, $err) = run_psql($node, $script);
	my $died = $out !~ /^end$/m;
	if (!$died)
	{
		# some points come when the session ends, some also when another one begins: the one
		# that counts them has done so
		wait_for_process($out =~ /^backend (\d+)$/m);
		$died ||= (run_psql($node, 'SELECT 1'))[0] !~ /^1$/m foreach (1 .. (@faults == 1 ? 2 : 1));
	}
	return ($died, $out, $err);
}

# What is left of database other, and what was to be.
sub verify_other
{
	my ($out) = @_;
	my $there = $node->safe_psql('postgres', "SELECT count(*) FROM pg_database WHERE datname = 'other'");
	my @bad;

	push @bad, 'database other is lost' if !$there && $out =~ /^COMMIT\nop 1$/m && $out !~ /^dropping$/m;
	push @bad, 'database other is back' if $there && $out =~ /^DROP DATABASE\ndropped$/m;
	if ($there)
	{
		my ($state, $err) = run_psql($node, "SELECT 'op ' || k FROM done; SELECT * FROM problems(); SELECT * FROM flaws();", 'other');
		push @bad, $err if $err && $err !~ /cannot connect to invalid database/;
		push @bad, 'lost in database other' if !$err && $out =~ /^COMMIT\nop 1$/m && $state !~ /^op 1$/m;
		push @bad, $1 while $state =~ /^((?:wrong|unsound): .+)$/mg;
		$node->safe_psql('postgres', 'DROP DATABASE other');
	}
	return @bad;
}

# Everything below pg_securefile, here and in tablespaces, but empty directories of
# databases in a tablespace.
sub entries
{
	my $data = $node->data_dir;
	my @found;
	find({ no_chdir => 1, wanted => sub { push @found, s{^\Q$data\E/}{}r if m{/pg_securefile/} } },
		"$data/pg_securefile", "$data/pg_tblspc");
	return join("\n", sort @found);
}

# Tables that scenarios made go, and what crashes left of them with them.
sub verify
{
	my ($out) = @_;
	my %acknowledged = map { $_ => 1 } $out =~ /^COMMIT(?: PREPARED)?\nop (\d+)$/mg;
	my $was_prepared = $out =~ /^PREPARE TRANSACTION\nprepared$/m;
	my $in_other = $out =~ /^created$/m;
	my $end = one_of('COMMIT', 'ROLLBACK');
	my @bad = $in_other || $out =~ /^CREATE DATABASE$/m ? verify_other($out) : ();

	my ($state, $err) = run_psql($node, qq{
		SELECT securefile_fault_reset();
		ALTER SYSTEM RESET ALL;
		SELECT pg_reload_conf();
		SELECT 'prepared: ' || gid FROM pg_prepared_xacts;
		SELECT format('$end PREPARED %L', gid) FROM pg_prepared_xacts
		\\gexec
		SELECT 'done: ' || coalesce(string_agg(k::text, ' '), '') FROM done;
		SELECT * FROM problems();
		SELECT * FROM flaws();
		DROP TABLE IF EXISTS x, queue, sparse;
		DROP DATABASE IF EXISTS other;
		SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots;
		SELECT * FROM flaws();
		SELECT 'file bytes: ' || max(file_bytes) FROM securefile_columns;
		SELECT 'entry: pg_securefile/1663';
		SELECT 'entry: pg_securefile/database.' || oid FROM pg_database WHERE datname = 'postgres';
		SELECT 'entry: pg_securefile/1663/' || oid || CASE WHEN n > 0 THEN '/' || relfilenode ELSE '' END || CASE n WHEN 2 THEN '/seg-00000000.sf' ELSE '' END
		FROM (SELECT d.oid, relfilenode FROM pg_database d, pg_class WHERE relname ~ '^pg_securefile_' AND datname = 'postgres') s,
			generate_series(0, 2) n GROUP BY 1;
	});
	$err =~ s/^(psql:[^\n]*)?NOTICE:.*\n//mg;
	push @bad, "afterwards: $err" if $err;
	push @bad, $1 while $state =~ /^((?:wrong|unsound): .+)$/mg;
	my %done = map { $_ => 1 } $state =~ /^done: (.*)$/m ? split / /, $1 : ();
	my $prepared = $state =~ /^prepared: p$/m;
	push @bad, "lost: $_" foreach $in_other ? () : grep { !$done{$_} } sort keys %acknowledged;
	push @bad, 'prepared transaction lost' if $was_prepared && !$prepared && !$done{2};
	push @bad, 'prepared transaction ended wrongly' if $prepared && ($done{2} || 0) != ($end eq 'COMMIT');
	push @bad, "space is not used again: $1 bytes" if $state =~ /^file bytes: (\d+)$/m && $1 > mb(64);
	my $expected = join("\n", sort($state =~ /^entry: (.*)$/mg));
	my $found = entries();
	push @bad, "files: $found\nexpected: $expected" if $found ne $expected;
	push @bad, map { "in the log: $_" } unexplained();
	return @bad;
}

# Start, but die in recovery: at so many places by lot, and at those given.  Returns
# what was done.
sub recover
{
	my ($places, @more) = @_;
	my @how;

	$recoveries++;
	foreach (1 .. $places)
	{
		my $count = to_replay($node);
		my @choice = sort grep { $_ =~ $only } keys %$count;
		my ($point) = (shuffle(grep { !$fired{$_} } @choice), one_of(@choice));
		next unless defined $point;
		my $skip = int(rand($count->{$point}));
		push @how, [ $point, $skip, one_of('kill', 'panic') ];
		if (start_with($node, "$point:$how[-1][2]:$skip"))
		{
			push @failures, "recovery passed $point less than $count->{$point} times";
			last;
		}
		$recovery_crashes++;
		$fired{$point}++;
		$cut{$point}++;
	}
	foreach my $place (@more)
	{
		my ($point, $count) = @$place;
		my $skip = int(rand($count));
		last if $node->{_pid};
		push @how, [ $point, $skip, one_of('kill', 'panic') ];
		next if start_with($node, "$point:$how[-1][2]:$skip");
		$recovery_crashes++;
		$fired{$point}++;
		$cut{$point}++;
	}
	$node->{_pid} || start_with($node, '') || die 'server does not start';
	return join(', ', map { join(':', @$_) } @how);
}

sub set_by_lot
{
	my $conf = sprintf "full_page_writes = %s\nwal_compression = %s\n", one_of('on', 'off'), one_of('on', 'off');
	write_file($node->data_dir . '/lot.conf', $conf);
	return;
}

# Die at a point; false if it was not reached.
sub crash_at
{
	my ($name, $t, $method, $point, $action, $skip) = @_;
	my $offset = -s $node->logfile;
	my ($died, $out, $err) = act($name, $t, $method, "'$point', '$action', skip => $skip");

	if (!$died)
	{
		push @failures, map { "$name $t $method $point not reached: $_" } verify($out);
		return 0;
	}
	wait_for_exit($node);
	$crashes++;
	$fired{$point}++ if slurp_file($node->logfile, $offset) =~
	  ($action eq 'kill' ? qr/terminated by signal 9/ : qr/PANIC:  fault point $point\n/);
	set_by_lot();
	my $how = recover($rounds || 1);
	push @failures, map { "$name $t $method $point:$skip:$action, then $how: $_" } verify($out);
	restart($node) if rand() < ($rounds ? 0.5 : 0.9);
	return 1;
}

# ---- what reaches what ----

set_by_lot();
$node->append_conf('postgresql.conf', "include = 'lot.conf'");
$node->safe_psql('postgres', "CREATE TABLESPACE place LOCATION ''; CREATE DATABASE spare");
SecurefileTest::prepare_database($node, 'spare');
prepare($_) foreach ('postgres', 'spare');
$node->safe_psql('postgres', create_table($_, $_)
	  . "INSERT INTO $_ SELECT row_number() OVER (), name, data FROM bytes WHERE name IN ('page', 'mid', 'other');")
  foreach ('l', 'f');

my %reach;		# point => list of [ passes, scenario, l or f, method ]
my %replay;		# the same in recovery
my $all_counted = join(',', map { "$_:pass:0:-1" } @points);

sub counted
{
	my ($passes) = run_psql($node, 'SELECT p || \': \' || securefile_fault_fired(p) FROM unnest(ARRAY[\''
		  . join("', '", @points) . "']) p;");
	my %count = $passes =~ /^(\w+): (\d+)$/mg;
	return map { $_ => $count{$_} } grep { $count{$_} > 0 } keys %count;
}

# Run a scenario to its end, kill the server, count what its start passes.
sub look_at
{
	my ($name, $t, $method) = @_;
	my ($died, $out, $err) = act($name, $t, $method, map { "'$_', 'pass', times => -1" } @points);
	my %count = counted();
	push @failures, "$name $t $method, no faults: $err" if $died || $err =~ /ERROR|PANIC/ || $out =~ /^wrong: ./m;
	push @{ $reach{$_} }, [ $count{$_}, $name, $t, $method ]
	  foreach grep { $_ =~ ($by_itself{$name} || '.') } sort keys %count;
	crash($node);
	start_with($node, $all_counted) or die 'server does not start';
	%count = counted();
	# these are at work there by now
	push @{ $replay{$_} }, [ $count{$_}, $name, $t, $method ]
	  foreach grep { !$by_itself{$name} && /^(?:io|redo)_/ } sort keys %count;
	$recoveries++;
	push @failures, map { "$name $t $method, no faults: $_" } verify($out);
	restart($node);
	return;
}

$node->stop;
start_with($node, '') or die 'server does not start';
my $turn = int(rand(6));
foreach my $name (sort keys %scenarios)
{
	foreach my $t ($rounds ? ('l', 'f') : ('l', 'f')[ $turn % 2 ])
	{
		look_at($name, $t, $methods[ $turn++ % @methods ]);
	}
}

# ---- a crash at each point ----

foreach my $point (grep { $_ =~ $only } @points)
{
	my @ways = grep { !$by_itself{ $_->[1] } } @{ $reach{$point} || [] };
	@ways = @{ $reach{$point} || [] } unless @ways;
	foreach my $action ($rounds ? ('kill', 'panic') : one_of('kill', 'panic'))
	{
		foreach my $mode ($rounds ? ('l', 'f') : '.')
		{
			foreach my $way (shuffle(grep { $_->[2] =~ $mode } @ways))
			{
				my ($count, $name, $t, $method) = @$way;
				last if crash_at($name, $t, $method, $point, $action, int(rand($count)));
				last if $by_itself{$name} && crash_at($name, $t, $method, $point, $action, 0);
			}
		}
	}
}

# ---- and in recovery, where the crashes above have not been ----

# Scenarios whose replay passes points that no recovery has died at.
sub replays_left
{
	my %left;
	foreach my $point (grep { $_ =~ $only && !$cut{$_} } sort keys %replay)
	{
		push @{ $left{"@$_[1 .. 3]"} }, [ $point, $_->[0] ] foreach @{ $replay{$point} };
	}
	return \%left;
}

for (my $left = replays_left(); %$left; $left = replays_left())
{
	# the one with the most of them
	my ($way) = sort { @{ $left->{$b} } <=> @{ $left->{$a} } || $a cmp $b } keys %$left;
	my ($died, $out, $err) = act(split(/ /, $way));
	my $before = keys %cut;
	crash($node);
	$crashes++;
	my $how = recover(0, shuffle(@{ $left->{$way} }));
	push @failures, map { "$way, killed, then $how: $_" } verify($out);
	restart($node);
	push @failures, "$way, killed, then $how: not reached" and last if keys %cut == $before;
}

# ---- the start of a server that is to be upgraded ----

# With a call that fails it is refused, or has pages beside all data files; killed
# there, nothing stays.
sub start_for_upgrade
{
	my ($fault) = @_;
	stop_server($node);
	my $started = start_with($node, $fault, '-b');
	my $pages = () = entries() =~ m{/pages$}mg;
	push @failures, "started for an upgrade with $fault: $pages pages" if $started && $pages != 2;
	return $started;
}

if ('io_link' =~ $only)
{
	start_for_upgrade('io_any:pass:0:-1,io_stat:pass:0:-1');
	my %count = counted();
	start_for_upgrade("io_stat:error:$_") foreach (0 .. $count{io_stat} - 1);
	start_for_upgrade('io_any:error:' . int(rand($count{io_any}))) foreach (1 .. $rounds ? 100 : 5);
	$fired{io_link}++ unless start_for_upgrade('io_link:' . one_of('kill', 'panic') . ':' . int(rand(2)));
	restart($node);
	unexplained();	# it is refused for many reasons
	push @failures, map { "start for an upgrade: $_" } verify('');
}

is(join("\n", @failures), '', 'all is right');
is(join(' ', grep { $_ =~ $only && !$fired{$_} && !$elsewhere{$_} } @points), '', 'every point was reached');
note("figures: seed $seed; " . scalar(keys %fired) . " points, $crashes crashes, $recovery_crashes in recovery at "
	  . scalar(keys %cut) . " points, $recoveries recoveries");
$node->stop;
done_testing();
