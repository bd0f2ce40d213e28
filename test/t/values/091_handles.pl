# Handles: what each function does, what it refuses, how long a handle lives, who
# may have one, and that what was never stored leaves nothing.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('handles', conf => [ 'securefile.monitor = off', 'restart_after_crash = on' ]);
my $len = 300_000;
prepare_handles($node);
make_table($node, 't');
make_table($node, 'f', 'filesystem_like_logging, disable_storage_in_row');

# A session that says the SQLSTATE of its errors.
sub session
{
	my ($on) = @_;
	my $session = background($on || $node);
	$session->query_safe('\set VERBOSITY verbose');
	return $session;
}

# The error of a statement, which it must have.
sub error_of
{
	my ($session, $sql) = @_;
	my $out = $session->query($sql);
	my $err = $session->{stderr};
	$session->{stderr} = '';
	return $err eq '' ? "no error, but: $out" : $err;
}

# One test: a statement within a transaction fails so, and the transaction goes on.
sub refused
{
	my ($session, $sql, $sqlstate, $like, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$session->query_safe('SAVEPOINT refused');
	my $err = error_of($session, $sql);
	$session->query_safe('ROLLBACK TO refused; RELEASE refused');
	return like($err, qr/ERROR:  $sqlstate: .*$like/s, $name || "$sqlstate: $sql");
}

# One test: these handles are not open in a session, which is in a transaction or not.
sub closed
{
	my ($session, $name, @fds) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $idle = error_of($session, 'SAVEPOINT asked') =~ /ERROR/;
	my @states;
	$session->query_safe('BEGIN; SAVEPOINT asked') if $idle;
	foreach my $fd (@fds)
	{
		push @states, error_of($session, "SELECT securefile_tell($fd)") =~ /ERROR:  (\w+)/ ? $1 : 'open';
		$session->query_safe('ROLLBACK TO asked');
	}
	$session->query_safe($idle ? 'ROLLBACK' : 'RELEASE asked');
	return is("@states", join(' ', map { '42704' } @fds), "$name: closed");
}

# Nothing is in a table, nor anything left in its segment.
sub nothing_left
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($node, $table, 0, $name);
	sound($node, $table, $name, in_row => $table eq 'f' ? 0 : 4000);
	return;
}

subtest 'create, write, finish, store' => sub {
	foreach my $table ('t', 'f')
	{
		foreach my $size (0, 1, 4000, 4001, 131071, 131072, 131073, $len, 13_000_000)
		{
			$node->safe_psql('postgres', "INSERT INTO $table VALUES ($size, 3, $size, securefile_finish(made('$table', 3, $size)))");
		}
		rows_right($node, $table, 9, 'inserted');
		sound($node, $table, 'inserted', in_row => $table eq 'f' ? 0 : 4000);
		$node->safe_psql('postgres', "UPDATE $table SET seed = 4, doc = securefile_finish(put(securefile_open(doc, 'rw'), 4, len))");
		rows_right($node, $table, 9, 'written over');
		sound($node, $table, 'written over', in_row => $table eq 'f' ? 0 : 4000);
		$node->safe_psql('postgres', "DELETE FROM $table");
		nothing_left($table, 'deleted');
	}
};

subtest 'read, seek, tell, write, truncate' => sub {
	my $s = session();
	$s->query_safe("BEGIN; INSERT INTO t VALUES (1, 1, $len, blob(1, $len))");
	my $fd = $s->query_safe("SELECT securefile_open(doc, 'rw') FROM t WHERE id = 1");
	my $is = sub {
		my ($sql, $want) = @_;
		is($s->query_safe("SELECT $sql"), $want, $sql =~ s/\($fd\b/(fd/r);
	};
	$is->("securefile_tell($fd)", 0);
	$is->("securefile_read($fd, 10) = substring(blob(1, $len) FOR 10)", 't');
	$is->("securefile_tell($fd)", 10);
	$is->("securefile_read($fd, 0)", '\x');
	$is->("securefile_seek($fd, 131000, 0)", 131000);
	$is->("securefile_read($fd, 131000) = substring(blob(1, $len) FROM 131001 FOR 131000)", 't');
	$is->("securefile_seek($fd, -12, 1)", 262000 - 12);
	$is->("securefile_seek($fd, -5, 2)", $len - 5);
	$is->("length(securefile_read($fd, 100))", 5);
	$is->("securefile_read($fd, 100)", '\x');
	$is->("securefile_seek($fd, 1000, 1)", $len + 1000);
	$is->("securefile_read($fd, 100)", '\x');
	$is->("securefile_seek($fd, 0, 2)", $len);
	$is->("securefile_write($fd, '')", 0);
	$is->("securefile_write($fd, 'abc')", 3);
	$is->("securefile_tell($fd)", $len + 3);
	$is->("securefile_seek($fd, $len + 10, 0)", $len + 10);
	$is->("securefile_write($fd, 'xyz')", 3);
	$is->("securefile_seek($fd, $len, 0)", $len);
	$is->("securefile_read($fd, 100)", '\x' . unpack('H*', "abc\0\0\0\0\0\0\0xyz"));
	$is->("securefile_truncate($fd, $len + 1)", 0);
	$is->("securefile_tell($fd)", $len + 13);
	$is->("securefile_read($fd, 100)", '\x');
	$is->("securefile_truncate($fd, $len + 5)", 0);
	$is->("securefile_seek($fd, $len, 0)", $len);
	$is->("securefile_read($fd, 100)", '\x' . unpack('H*', "a\0\0\0\0"));
	$is->("securefile_finish($fd)::bytea = blob(1, $len) || '\\x6100000000'", 't');
	closed($s, 'finish', $fd);
	$is->("doc::bytea = blob(1, $len) FROM t WHERE id = 1", 't');
	$s->query_safe('ROLLBACK');
	$s->quit;
	nothing_left('t', 'rolled back');
};

subtest 'errors' => sub {
	my $s = session();
	$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, $len, blob(1, $len)), (2, 2, 10, blob(2, 10)), (3, 3, 3, NULL)");
	$s->query_safe('BEGIN');
	my $w = $s->query_safe("SELECT securefile_open(doc, 'rw') FROM t WHERE id = 1");
	my $r = $s->query_safe("SELECT securefile_open(doc, 'r') FROM t WHERE id = 1");
	my $new = $s->query_safe("SELECT securefile_create('t', 'doc')");
	cmp_ok($r, '>', $w, 'numbers grow');
	$s->query_safe("SELECT securefile_seek($r, 7, 0)");

	refused($s, "SELECT securefile_open(doc, '$_') FROM t WHERE id = 1", '22023', '') for ('', 'w', 'R', 'wr', 'r ');
	refused($s, "SELECT securefile_read($r, -1)", '22023', '');
	refused($s, "SELECT securefile_read($r, $_)", '54000', '') for (1073741825, 2147483647);
	refused($s, "SELECT securefile_write($r, 'x')", '55000', 'not opened for writing');
	refused($s, "SELECT securefile_truncate($r, 1)", '55000', 'not opened for writing');
	refused($s, "SELECT securefile_truncate($w, -1)", '22023', '');
	like(error_of($s, "SAVEPOINT a; SELECT securefile_tell($w)"), qr/no error/, 'a call that is refused for its arguments has written nothing');
	$s->query_safe('ROLLBACK TO a');
	refused($s, "SELECT securefile_seek($r, 0, $_)", '22023', '') for (-1, 3);
	refused($s, "SELECT securefile_seek($r, -1, 0)", '22023', '');
	refused($s, "SELECT securefile_seek($r, -8, 1)", '22023', '');
	refused($s, "SELECT securefile_seek($r, -$len - 1, 2)", '22023', '');
	refused($s, "SELECT securefile_seek($r, 9223372036854775807, $_)", '(22023|22003|54000)', '') for (1, 2);
	refused($s, "SELECT securefile_seek($r, -9223372036854775808, $_)", '22023', '') for (0, 1, 2);
	is($s->query_safe("SELECT securefile_tell($r)"), 7, 'the position is where it was');

	# the ends of the world; a write that fails counts as one, so the handles are closed then
	foreach my $how ("securefile_open(doc, 'rw') FROM t WHERE id = 1", "securefile_create('t', 'doc')")
	{
		my $fd = $s->query_safe("SELECT $how");
		is($s->query_safe("SELECT securefile_seek($fd, 9223372036854775800, 0)"), '9223372036854775800', 'a seek to the far end');
		is($s->query_safe("SELECT securefile_read($fd, 10)"), '\x', 'where nothing is');
		refused($s, "SELECT securefile_write($fd, repeat('x', 100)::bytea)", '54000', '');
	}
	foreach my $call ('truncate(%d, 1::bigint << 40)', "write(%d + 0 * securefile_seek(%1\$d, 1100000000, 0)::int, 'x')")
	{
		my $small = $s->query_safe("SELECT securefile_open(doc, 'rw') FROM t WHERE id = 2");
		refused($s, sprintf("SELECT securefile_$call", $small), '54000', '');
	}

	foreach my $fd (0, -1, $new + 100, 2147483647, -2147483648)
	{
		refused($s, "SELECT securefile_$_", '42704', '')
		  for ("read($fd, 1)", "write($fd, 'x')", "seek($fd, 0, 0)", "tell($fd)", "truncate($fd, 0)", "finish($fd)", "close($fd)");
	}
	is($s->query_safe("SELECT securefile_read($r, 3) = substring(blob(1, $len) FROM 8 FOR 3)"), 't', 'the handle still reads');
	is($s->query_safe("SELECT securefile_close($r)"), 0, 'close');
	closed($s, 'close', $r);
	refused($s, "SELECT securefile_close($r)", '42704', '', 'closed twice');
	$s->query_safe("SELECT length(securefile_finish($new))");
	refused($s, "SELECT securefile_finish($new)", '42704', '', 'finished twice');

	# of another session
	my $other = session();
	$other->query_safe('BEGIN');
	refused($other, "SELECT securefile_read($new, 1)", '42704', '', 'a handle of another session');
	$other->query_safe('COMMIT');
	$other->quit;
	$s->query_safe('COMMIT');
	my $next = $s->query_safe("BEGIN; SELECT securefile_create('t', 'doc')");
	cmp_ok($next, '>', $new, 'numbers are not used again in the next transaction');
	$s->query_safe('ROLLBACK');

	# nulls
	my @of = ("create(NULL, 'doc')", "create('t', NULL)", "open(NULL, 'r')", "open(doc, NULL)",
		'read(NULL, 1)', "read($next, NULL)", "write(NULL, 'x')", "write($next, NULL)", "seek(NULL, 0, 0)",
		"seek($next, NULL, 0)", "seek($next, 0, NULL)", 'tell(NULL)', 'truncate(NULL::int, 0)',
		"truncate($next, NULL)", 'finish(NULL)', 'close(NULL)');
	is($s->query_safe("SELECT securefile_$_ IS NULL FROM t WHERE id = 1"), 't', "null: $_") foreach @of;
	is($s->query_safe("SELECT securefile_open(doc, 'rw') IS NULL FROM t WHERE id = 3"), 't', 'a null value');
	$s->quit;
	is($node->safe_psql('postgres', "SELECT string_agg(oid::regprocedure::text, ' ') FROM pg_proc WHERE proname ~ '^securefile_(create|open|read|write|seek|tell|finish|close)\$' AND (provolatile <> 'v' OR proparallel <> 'u' OR NOT proisstrict)"),
		'', 'volatile, parallel unsafe, strict');
	$node->safe_psql('postgres', 'DELETE FROM t');
	nothing_left('t', 'after the errors');
};

subtest 'where create is refused' => sub {
	$node->safe_psql('postgres', q{
		CREATE TABLE parted (part int, doc securefile) PARTITION BY LIST (part);
		CREATE TABLE parted_one PARTITION OF parted FOR VALUES IN (1);
		CREATE TABLE parted_two PARTITION OF parted FOR VALUES IN (2);
		CREATE VIEW seen AS SELECT * FROM t;
		CREATE SEQUENCE numbers;
		CREATE FOREIGN DATA WRAPPER far; CREATE SERVER away FOREIGN DATA WRAPPER far;
		CREATE FOREIGN TABLE abroad (doc bytea) SERVER away;
		CREATE TABLE dropped (id int, doc securefile);
		ALTER TABLE dropped DROP doc;});
	foreach my $name ('parted_one', 'parted_two')
	{
		fails_with($node, "SELECT securefile_create('parted', 'doc')", '42809', $name, "partitioned table: $name is named");
	}
	fails_with($node, "SELECT securefile_create('$_', 'doc')", '42809', '', $_)
	  for ('seen', 'numbers', 't_pkey', 'abroad');
	fails_with($node, "SELECT securefile_create(('pg_toast.' || relname)::regclass, 'doc') FROM pg_class WHERE relname LIKE 'pg_securefile_%' LIMIT 1", '(42809|42703)', '', 'a segment');
	fails_with($node, "SELECT securefile_create('t', '$_')", '42703', '', "column $_") for ('none', '', 'DOC');
	fails_with($node, "SELECT securefile_create('dropped', 'doc')", '42703', '', 'a dropped column');
	fails_with($node, "SELECT securefile_create('dropped', '........pg.dropped.2........')", '42703', '', 'a dropped column by its name');
	fails_with($node, "SELECT securefile_create('t', '$_')", '42804', '', "column $_") for ('id', 'len');
	fails_with($node, "SELECT securefile_create('t', 'ctid')", '(42703|42804)', '', 'a system column');
	fails_with($node, "SELECT securefile_create(1::oid, 'doc')", '(42P01|42809)', '', 'no table');
	my $read_only = 'BEGIN READ ONLY;';
	$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, $len, blob(1, $len)), (2, 2, 10, blob(2, 10))");
	fails_with($node, "$read_only SELECT securefile_create('t', 'doc')", '25006', '', 'create, read only');
	fails_with($node, "$read_only SELECT securefile_open(doc, 'rw') FROM t WHERE id = 1", '25006', '', 'rw, read only');
	is($node->safe_psql('postgres', "$read_only SELECT securefile_read(securefile_open(doc, 'r'), 5) = substring(blob(seed, len) FOR 5) FROM t ORDER BY id; SELECT pg_current_xact_id_if_assigned() IS NULL"),
		"t\nt\nt", 'r, read only, takes no transaction number');

	# into the partition itself, stored through its parent
	$node->safe_psql('postgres', "INSERT INTO parted VALUES (2, securefile_finish(made('parted_two', 5, $len)))");
	is($node->safe_psql('postgres', "SELECT tableoid::regclass, doc::bytea = blob(5, $len) FROM parted"), 'parted_two|t', 'a partition');
	$node->safe_psql('postgres', "INSERT INTO parted VALUES (1, securefile_finish(made('parted_two', 6, $len)))");
	is($node->safe_psql('postgres', "SELECT doc::bytea = blob(6, $len) FROM parted_one"), 't', 'another partition than it was made for');
	$node->safe_psql('postgres', "UPDATE parted SET part = 2, doc = securefile_finish(put(securefile_open(doc, 'rw'), 7, 1000)) WHERE part = 1");
	is($node->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE doc::bytea IN (blob(7, 1000) || substring(blob(6, $len) FROM 1001), blob(5, $len))) FROM parted_two"), '2|2', 'moved between partitions');
	is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('parted', 'doc')"), 0, 'partitions are sound');
	is(settle($node, 'parted_one', 'doc')->{live_bytes}, 0, 'nothing is left in the one');
	$node->safe_psql('postgres', 'DROP TABLE parted, dropped; DROP VIEW seen; DROP FOREIGN DATA WRAPPER far CASCADE; DELETE FROM t');
	nothing_left('t', 'refused');
};

subtest 'privileges' => sub {
	$node->safe_psql('postgres', qq{
		INSERT INTO t VALUES (1, 1, $len, blob(1, $len)), (2, 2, 10, blob(2, 10));
		CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader;
		CREATE ROLE inserter LOGIN; GRANT SELECT, INSERT (id, seed, len, doc) ON t TO inserter;
		CREATE ROLE updater LOGIN; GRANT SELECT, UPDATE (doc) ON t TO updater;
		CREATE ROLE elsewhere LOGIN; GRANT SELECT, INSERT (id), UPDATE (id, seed, len) ON t TO elsewhere;
		CREATE ROLE stranger LOGIN;});
	my %may = (
		inserter => { create => 't', rw => '42501' }, updater => { create => 't', rw => 't' },
		reader => { create => '42501', rw => '42501' }, elsewhere => { create => '42501', rw => '42501' },
		stranger => { create => '42501', rw => '42501' }, postgres => { create => 't', rw => 't' });
	my %sql = (create => "SELECT securefile_create('t', 'doc') > 0", rw => "SELECT securefile_open(doc, 'rw') > 0 FROM t WHERE id = 1");
	foreach my $role (sort keys %may)
	{
		foreach my $what ('create', 'rw')
		{
			my ($rc, $out, $err) = $node->psql('postgres', $sql{$what}, extra_params => [ '-U', $role, '-v', 'VERBOSITY=verbose' ]);
			my $got = $rc == 0 ? $out : $err =~ /ERROR:  (\w+)/ ? $1 : $err;
			is($got, $may{$role}{$what}, "$role: $what");
		}
	}
	my $as = sub { return $node->safe_psql('postgres', $_[1], extra_params => [ '-U', $_[0] ]) };
	is($as->('reader', "SELECT bool_and(securefile_read(securefile_open(doc, 'r'), 5) = substring(doc FOR 5)) FROM t"), 't', 'reader: r');
	is($as->('reader', "SELECT securefile_write(securefile_open('abc', 'rw'), 'x')"), 1, 'reader: rw of bytes that are stored nowhere');
	is($as->('stranger', "SELECT securefile_finish(securefile_open('abc', 'rw'))::bytea"), '\x616263', 'stranger: the same');
	$as->('inserter', "INSERT INTO t VALUES (3, 3, $len, securefile_finish(made('t', 3, $len)))");
	$as->('updater', "UPDATE t SET doc = securefile_finish(put(securefile_open(doc, 'rw'), 1, 10)) WHERE id = 1");
	rows_right($node, 't', 3, 'stored by who may');

	# a privilege that goes while the handle is open is missed when it is stored
	my $s = background($node);
	$s->query_safe("SET SESSION AUTHORIZATION updater; BEGIN");
	my $fd = $s->query_safe("SELECT securefile_open(doc, 'rw') FROM t WHERE id = 1");
	$s->query_safe("SELECT securefile_write($fd, 'x')");
	$node->safe_psql('postgres', 'REVOKE UPDATE (doc) ON t FROM updater');
	$s->query("UPDATE t SET doc = securefile_finish($fd) WHERE id = 1");
	like($s->{stderr}, qr/permission denied/, 'not stored without the privilege');
	$s->{stderr} = '';
	$s->query_safe('ROLLBACK');
	$s->quit;
	rows_right($node, 't', 3, 'privileges');
	sound($node, 't', 'privileges');
	$node->safe_psql('postgres', 'DELETE FROM t; DROP OWNED BY reader, inserter, updater, elsewhere; DROP ROLE reader, inserter, updater, elsewhere, stranger');
	nothing_left('t', 'privileges');
};

subtest 'a transaction is needed' => sub {
	my $s = session();
	my $fd = $s->query_safe("SELECT securefile_create('t', 'doc')");
	like(error_of($s, "SELECT securefile_write($fd, 'x')"), qr/ERROR:  42704: .*transaction/s, 'a statement each: the error speaks of transactions');
	is($s->query_safe('SELECT 1'), 1, 'and the session goes on');
	$s->quit;
	nothing_left('t', 'a statement each');
};

subtest 'savepoints' => sub {
	my $s = session();
	my $open = sub {
		my ($name, $fd, $position) = @_;
		is($s->query_safe("SELECT securefile_tell($fd)"), $position, "$name: open, at $position");
	};
	$node->safe_psql('postgres', "INSERT INTO f VALUES (1, 1, $len, blob(1, $len))");
	$s->query_safe('BEGIN');
	my $r = $s->query_safe("SELECT securefile_open(doc, 'r') FROM f WHERE id = 1");
	my $read_only_used = $s->query_safe("SELECT securefile_open(doc, 'rw') FROM f WHERE id = 1");
	my $written = $s->query_safe("SELECT securefile_create('f', 'doc')");
	my $cut = $s->query_safe("SELECT securefile_open(doc, 'rw') FROM f WHERE id = 1");
	my $kept = $s->query_safe("SELECT securefile_create('f', 'doc')");
	$s->query_safe("SELECT put($kept, 9, $len)");
	$s->query_safe('SAVEPOINT a');
	my $inner = $s->query_safe("SELECT securefile_open(doc, 'r') FROM f WHERE id = 1");
	my $made = $s->query_safe("SELECT made('f', 2, $len)");
	$s->query_safe("SELECT securefile_write($written, 'x'), securefile_truncate($cut, 5)");
	$s->query_safe("SELECT securefile_read($r, 100), securefile_read($read_only_used, 200), securefile_seek($kept, 77, 0)");
	$s->query_safe('ROLLBACK TO a');
	closed($s, 'opened or written after the savepoint', $inner, $made, $written, $cut);
	$open->('only read since', $r, 100);
	$open->('rw, only read since', $read_only_used, 200);
	$open->('written before', $kept, 77);
	is($s->query_safe("SELECT securefile_read($r, 100) = substring(blob(1, $len) FROM 101 FOR 100)"), 't', 'which reads on');

	# what is released belongs to what is around it
	$s->query_safe('SAVEPOINT a; SAVEPOINT b');
	$made = $s->query_safe("SELECT made('f', 3, $len)");
	$s->query_safe('RELEASE b');
	$open->('released', $made, $len);
	$s->query_safe('SAVEPOINT c; ROLLBACK TO c');
	$open->('rolled back beside', $made, $len);
	my $late = $s->query_safe("SELECT securefile_open(doc, 'rw') FROM f WHERE id = 1");
	$s->query_safe("SAVEPOINT d; SELECT securefile_write($late, 'x'); RELEASE d");
	$s->query_safe('ROLLBACK TO a');
	closed($s, 'released, then rolled back', $made, $late);
	$s->query_safe('RELEASE a; SAVEPOINT a');
	$s->query_safe("SELECT securefile_write($kept, 'abc')");
	$s->query_safe('RELEASE a');
	is($s->query_safe("SELECT securefile_finish($kept)::bytea = substring(blob(9, $len) FOR 77) || 'abc' || substring(blob(9, $len) FROM 81)"), 't', 'written in a savepoint that was released');

	# finished within a savepoint that is rolled back: not open again
	$made = $s->query_safe("SELECT made('f', 4, $len)");
	$s->query_safe("SAVEPOINT a; INSERT INTO f VALUES (4, 4, $len, securefile_finish($made)); ROLLBACK TO a");
	closed($s, 'finished and rolled back', $made);
	$made = $s->query_safe("SELECT made('f', 5, $len)");
	$s->query_safe("SAVEPOINT a; INSERT INTO f VALUES (5, 5, $len, securefile_finish($made)); RELEASE a");

	# an exception block is a savepoint
	$s->query_safe(qq{CREATE FUNCTION pg_temp.caught(fd int) RETURNS text LANGUAGE plpgsql AS \$\$
		DECLARE inner_fd int;
		BEGIN
			BEGIN
				inner_fd := made('f', 6, 5000);
				PERFORM securefile_write(fd, 'y');
				PERFORM 1 / 0;
			EXCEPTION WHEN division_by_zero THEN
				NULL;
			END;
			BEGIN
				PERFORM securefile_tell(fd);
				RETURN 'open';
			EXCEPTION WHEN undefined_object THEN
				RETURN 'closed ' || inner_fd;
			END;
		END \$\$});
	$made = $s->query_safe("SELECT made('f', 6, $len)");
	my $inner_fd = $s->query_safe("SELECT pg_temp.caught($made)");
	like($inner_fd, qr/^closed \d+$/, 'written in a block that failed');
	closed($s, 'opened in a block that failed', $inner_fd =~ /(\d+)/);
	$s->query_safe('COMMIT');
	$s->quit;
	rows_right($node, 'f', 2, 'savepoints');
	sound($node, 'f', 'savepoints', in_row => 0);
	$node->safe_psql('postgres', 'DELETE FROM f');
	nothing_left('f', 'savepoints');
};

subtest 'ends of transactions and sessions' => sub {
	foreach my $table ('t', 'f')
	{
		my $s = session();
		foreach my $end ('COMMIT', 'ROLLBACK', "PREPARE TRANSACTION 'p'")
		{
			$node->safe_psql('postgres', "INSERT INTO $table VALUES (1, 1, $len, blob(1, $len))");
			$s->query_safe("BEGIN");
			my @fds = (
				$s->query_safe("SELECT made('$table', 2, 13000000)"), $s->query_safe("SELECT securefile_open(doc, 'r') FROM $table"),
				$s->query_safe("SELECT put(securefile_open(doc, 'rw'), 5, 200000) FROM $table"), $s->query_safe("SELECT made('$table', 2, 100)"));
			$s->query_safe($end);
			closed($s, "$table, $end", @fds);
			foreach my $how ('COMMIT', 'ROLLBACK')
			{
				next unless $end =~ /PREPARE/;
				if ($how eq 'ROLLBACK')
				{
					$s->query_safe("BEGIN; SELECT made('$table', 2, 13000000); PREPARE TRANSACTION 'p'");
				}
				crash($node);
				$node->start;
				$node->safe_psql('postgres', "$how PREPARED 'p'");
				eval { $s->quit };
				$s = session();
				rows_right($node, $table, 1, "$how PREPARED");
				sound($node, $table, "$table, $how PREPARED", in_row => 0);
			}
			rows_right($node, $table, 1, $end);
			sound($node, $table, "$table, $end", in_row => 0);
			$node->safe_psql('postgres', "DELETE FROM $table");
		}

		# prepared with what a handle has made
		$s->query_safe("BEGIN; INSERT INTO $table VALUES (1, 1, $len, securefile_finish(made('$table', 1, $len))); SELECT made('$table', 2, 500000); PREPARE TRANSACTION 'p'");
		crash($node);
		$node->start;
		$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
		eval { $s->quit };
		rows_right($node, $table, 1, 'prepared');
		sound($node, $table, 'prepared', in_row => 0);
		$node->safe_psql('postgres', "DELETE FROM $table");

		# a session that ends, or is ended, with its handles open
		foreach my $how ('quit', 'terminated', 'killed', 'error')
		{
			$s = session();
			my $pid = $s->query_safe('SELECT pg_backend_pid()');
			$s->query_safe("BEGIN; SELECT made('$table', 2, 13000000), made('$table', 3, 600), put(made('$table', 4, 9000), 5, 500000)");
			if ($how eq 'terminated')
			{
				$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
			}
			elsif ($how eq 'killed')
			{
				my $offset = -s $node->logfile;
				kill 9, $pid;
				$node->wait_for_log(qr/ready to accept connections/, $offset);
			}
			elsif ($how eq 'error')
			{
				error_of($s, 'SELECT 1 / 0');
			}
			eval { $s->quit };
			session_is_gone($node, $pid);
			nothing_left($table, "$table, $how");
		}
	}
};

subtest 'never stored, stored once, twice, elsewhere, selected' => sub {
	$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, $len, blob(1, $len)), (2, 2, 10, blob(2, 10))");
	is($node->safe_psql('postgres', "SELECT securefile_finish(made('t', 3, $len))::bytea = blob(3, $len)"), 't', 'selected');
	is($node->safe_psql('postgres', "SELECT securefile_finish(made('t', 3, 2000))"), $node->safe_psql('postgres', 'SELECT blob(3, 2000)'), 'sent to a client');
	is($node->safe_psql('postgres', "SELECT length(securefile_finish(made('t', 3, $len)))"), $len, 'asked for its length');
	is($node->safe_psql('postgres', "SELECT substring(securefile_finish(put(securefile_open(doc, 'rw'), 8, 1000)) FROM 999 FOR 4) = substring(blob(8, 1000) FROM 999) || substring(blob(1, $len) FROM 1001 FOR 2) FROM t WHERE id = 1"), 't', 'changed, then selected');
	is($node->safe_psql('postgres', "SELECT securefile_finish(securefile_open(doc, 'r'))::bytea = doc::bytea FROM t ORDER BY id"), "t\nt", 'finish of a handle for reading');
	rows_right($node, 't', 2, 'never stored');
	sound($node, 't', 'never stored');

	$node->safe_psql('postgres', qq{
		WITH d AS MATERIALIZED (SELECT securefile_finish(made('t', 5, $len)) AS doc)
		INSERT INTO t SELECT i, 5, $len, doc FROM d, generate_series(11, 13) i;
		DO \$\$
		DECLARE
			made securefile := securefile_finish(made('t', 6, 13000000));
			changed securefile;
			copied securefile;
		BEGIN
			INSERT INTO t VALUES (21, 6, 13000000, made);
			INSERT INTO t VALUES (22, 6, 13000000, made);
			INSERT INTO f VALUES (23, 6, 13000000, made);
			SELECT securefile_finish(put(securefile_open(doc, 'rw'), 7, len)) INTO changed FROM t WHERE id = 1;
			INSERT INTO t VALUES (24, 7, $len, changed);
			UPDATE t SET seed = 7, doc = changed WHERE id = 1;
			UPDATE t SET seed = 7, len = $len, doc = changed WHERE id = 2;
			SELECT securefile_finish(securefile_open(doc, 'r')) INTO copied FROM t WHERE id = 21;
			INSERT INTO f VALUES (31, 6, 13000000, copied);
			INSERT INTO t VALUES (32, 6, 13000000, copied);
			UPDATE t SET doc = copied WHERE id = 21;
		END \$\$});
	rows_right($node, 't', 9, 'stored several times');
	rows_right($node, 'f', 2, 'stored several times');
	sound($node, 't', 'stored several times');
	sound($node, 'f', 'stored several times', in_row => 0);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id IN (11, 21, 1); DELETE FROM f WHERE id = 23');
	rows_right($node, 't', 6, 'one of several deleted');
	rows_right($node, 'f', 1, 'one of several deleted');
	sound($node, 't', 'one of several deleted');

	# stored, then the row is gone in the same transaction
	$node->safe_psql('postgres', "BEGIN; INSERT INTO t VALUES (41, 1, $len, securefile_finish(made('t', 1, $len))); DELETE FROM t WHERE id = 41; COMMIT");
	$node->safe_psql('postgres', "BEGIN; SAVEPOINT a; UPDATE t SET seed = 3, doc = securefile_finish(put(securefile_open(doc, 'rw'), 3, len)) WHERE id = 12; ROLLBACK TO a; COMMIT");
	rows_right($node, 't', 6, 'stored and gone');
	sound($node, 't', 'stored and gone');

	# two handles on one value: the second finds another version in the row
	$node->safe_psql('postgres', qq{DO \$\$
		DECLARE
			one int := securefile_open(doc, 'rw') FROM t WHERE id = 12;
			two int := securefile_open(doc, 'rw') FROM t WHERE id = 12;
		BEGIN
			PERFORM securefile_write(one, blob(100, 200000));
			PERFORM securefile_seek(two, 200000, 0);
			PERFORM securefile_write(two, substring(blob(5, $len) FROM 200001));
			UPDATE t SET doc = securefile_finish(one) WHERE id = 12;
			UPDATE t SET doc = securefile_finish(two) WHERE id = 12;
		END \$\$});
	rows_right($node, 't', 6, 'two handles on one value');
	sound($node, 't', 'two handles on one value');
	$node->safe_psql('postgres', 'DELETE FROM t; DELETE FROM f');
	nothing_left($_, 'stored several times') for ('t', 'f');
};

subtest 'ON CONFLICT, MERGE, triggers' => sub {
	$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, $len, blob(1, $len))");
	my $insert = sub { my ($id, $seed) = @_; return "INSERT INTO t AS t VALUES ($id, $seed, $len, securefile_finish(made('t', $seed, $len)))" };
	$node->safe_psql('postgres', $insert->(1, 2) . ' ON CONFLICT DO NOTHING');
	rows_right($node, 't', 1, 'DO NOTHING');
	sound($node, 't', 'DO NOTHING');
	$node->safe_psql('postgres', $insert->(1, 3) . ' ON CONFLICT (id) DO UPDATE SET seed = excluded.seed, doc = excluded.doc');
	rows_right($node, 't', 1, 'DO UPDATE');
	sound($node, 't', 'DO UPDATE');
	fails_with($node, $insert->(1, 4), '23505', '', 'duplicate key');
	$node->safe_psql('postgres', "MERGE INTO t USING (VALUES (1), (2)) v (id) ON t.id = v.id
		WHEN MATCHED THEN UPDATE SET seed = 5, doc = securefile_finish(put(securefile_open(t.doc, 'rw'), 5, $len))
		WHEN NOT MATCHED THEN INSERT VALUES (v.id, 6, $len, securefile_finish(made('t', 6, $len)))");
	rows_right($node, 't', 2, 'MERGE');
	sound($node, 't', 'MERGE');
	is($node->safe_psql('postgres', "UPDATE t SET seed = 7, doc = securefile_finish(put(securefile_open(doc, 'rw'), 7, len)) WHERE id = 1 RETURNING doc::bytea = blob(7, $len), securefile_read(securefile_open(doc, 'r'), 4) = substring(blob(7, $len) FOR 4)"), 't|t', 'RETURNING');

	# triggers of the user's: one reads through a handle, one makes the value
	$node->safe_psql('postgres', qq{
		CREATE FUNCTION measure() RETURNS trigger LANGUAGE plpgsql AS \$\$
		DECLARE
			fd int := securefile_open(NEW.doc, 'r');
		BEGIN
			NEW.len := securefile_seek(fd, 0, 2);
			PERFORM securefile_close(fd);
			RETURN NEW;
		END \$\$;
		CREATE FUNCTION produce() RETURNS trigger LANGUAGE plpgsql AS \$\$
		BEGIN
			NEW.doc := securefile_finish(made('t', NEW.seed, NEW.len));
			RETURN NEW;
		END \$\$;
		CREATE TRIGGER a_measure BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.doc IS NOT NULL) EXECUTE FUNCTION measure();
		CREATE TRIGGER a_produce BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.doc IS NULL) EXECUTE FUNCTION produce();
		INSERT INTO t VALUES (3, 3, 0, blob(3, $len)), (4, 4, $len, NULL), (5, 5, 0, securefile_finish(made('t', 5, 500)));
		ALTER TRIGGER a_produce ON t RENAME TO zzz;});
	rows_right($node, 't', 5, 'triggers');
	sound($node, 't', 'triggers');
	$node->psql('postgres', "INSERT INTO t VALUES (6, 6, $len, NULL)");
	is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE doc::bytea IS DISTINCT FROM blob(seed, len)"), 0, 'a trigger that fires after ours stores the value or is refused');
	sound($node, 't', 'a trigger that fires after ours');
	$node->safe_psql('postgres', 'DROP TRIGGER a_measure ON t; DROP TRIGGER zzz ON t; DELETE FROM t');

	# loops in PL/pgSQL, a cursor over handles, a procedure that commits
	is($node->safe_psql('postgres', qq{
		CREATE PROCEDURE in_turn() LANGUAGE plpgsql AS \$\$
		DECLARE
			fd int;
			old int;
		BEGIN
			FOR i IN 1 .. 4 LOOP
				fd := securefile_create('t', 'doc');
				FOR j IN 1 .. 5 LOOP
					PERFORM securefile_write(fd, substring(blob(i, 100000) FROM 1 + (j - 1) * 20000 FOR 20000));
				END LOOP;
				INSERT INTO t VALUES (i, i, 100000, securefile_finish(fd));
				old := securefile_open(doc, 'r') FROM t WHERE id = i;
				COMMIT;
				BEGIN
					PERFORM securefile_tell(old);
					RAISE 'handle % is open after COMMIT', old;
				EXCEPTION WHEN undefined_object THEN
					NULL;
				END;
			END LOOP;
		END \$\$;
		CALL in_turn();
		SELECT string_agg(length(securefile_read(fd, 200000))::text, ' ') FROM (SELECT securefile_open(doc, 'r') AS fd FROM t ORDER BY id OFFSET 0) s}),
		'100000 100000 100000 100000', 'a procedure that commits');
	rows_right($node, 't', 4, 'a procedure that commits');
	sound($node, 't', 'a procedure that commits');
	$node->safe_psql('postgres', 'DROP PROCEDURE in_turn(); DELETE FROM t');
	nothing_left('t', 'triggers and functions');
};

subtest 'temporary and unlogged tables' => sub {
	foreach my $kind ('TEMP', 'UNLOGGED')
	{
		is($node->safe_psql('postgres', qq{
			CREATE $kind TABLE brief (id int, doc securefile);
			INSERT INTO brief VALUES (1, securefile_finish(made('t', 1, $len)));
			INSERT INTO brief VALUES (2, securefile_finish(made('brief', 2, $len)));
			UPDATE brief SET doc = securefile_finish(put(securefile_open(doc, 'rw'), 3, 1000));
			INSERT INTO t SELECT 1, 1, $len, securefile_finish(put(securefile_open(doc, 'rw'), 1, $len)) FROM brief WHERE id = 1;
			SELECT doc::bytea = blob(3, 1000) || substring(blob(id, $len) FROM 1001) FROM brief ORDER BY id;
			DROP TABLE brief}), "t\nt", $kind);
		rows_right($node, 't', 1, $kind);
		sound($node, 't', $kind);
		$node->safe_psql('postgres', 'DELETE FROM t');
	}
	nothing_left('t', 'temporary and unlogged tables');
};

subtest 'what happens to the row and the table meanwhile' => sub {
	my $other = sub { return $node->safe_psql('postgres', $_[0]) };
	foreach my $change ('DELETE FROM f', 'UPDATE f SET seed = 2, doc = blob(2, len)', "UPDATE f SET doc = doc || '\\x00', len = len + 1, seed = NULL")
	{
		$other->("TRUNCATE f; INSERT INTO f VALUES (1, 1, $len, blob(1, $len)), (2, 1, 13000000, blob(1, 13000000))");
		my $s = session();
		$s->query_safe('BEGIN');
		my @r = map { $s->query_safe("SELECT securefile_open(doc, 'r') FROM f WHERE id = $_") } (1, 2);
		my @w = map { $s->query_safe("SELECT securefile_open(doc, 'rw') FROM f WHERE id = $_") } (1, 2);
		$other->($change);
		$other->('VACUUM f');
		$other->("SELECT securefile_maintain('f', 'doc')") for 1 .. 3;
		$other->("INSERT INTO f SELECT i, i, 900000, blob(i, 900000) FROM generate_series(100, 130) i");
		is($s->query_safe("SELECT securefile_read($r[0], 14000000) = blob(1, $len), securefile_read($r[1], 14000000) = blob(1, 13000000)"), 't|t', "$change: still read");
		$s->query_safe("SELECT securefile_seek($w[0], 150000, 0), securefile_write($w[0], substring(blob(1, $len) FROM 150001 FOR 10))");
		$s->query_safe("INSERT INTO f VALUES (3, 1, $len, securefile_finish($w[0])), (4, 1, 13000000, securefile_finish($w[1])), (5, 1, $len, securefile_finish($r[0]))");
		$s->query_safe('COMMIT');
		$s->quit;
		$other->('DELETE FROM f WHERE seed IS NULL');
		is($other->('SELECT count(*) FROM f WHERE id IN (3, 4, 5) AND doc::bytea = blob(seed, len)'), 3, "$change: stored elsewhere");
		is($other->('SELECT count(*) FROM f WHERE doc::bytea IS DISTINCT FROM blob(seed, len)'), 0, "$change: nobody's bytes are changed");
		sound($node, 'f', $change, in_row => 0);
	}

	# a row that another session has changed: what is stored is what was written here
	$other->("TRUNCATE f; INSERT INTO f VALUES (1, 1, $len, blob(1, $len))");
	my $s = session();
	$s->query_safe('BEGIN');
	my $fd = $s->query_safe("SELECT put(securefile_open(doc, 'rw'), 3, 1000) FROM f");
	$other->("UPDATE f SET doc = blob(9, 50000)");
	$s->query_safe("UPDATE f SET doc = securefile_finish($fd); COMMIT");
	is($other->("SELECT doc::bytea = blob(3, 1000) || substring(blob(1, $len) FROM 1001) FROM f"), 't', 'the last one wins, whole');
	is($other->("SELECT count(*) FROM securefile_check('f', 'doc')"), 0, 'and it is sound');

	# another session's DDL waits
	$s->query_safe('BEGIN');
	$s->query_safe("SELECT securefile_create('f', 'doc')");
	fails_with($node, "SET lock_timeout = '200ms'; $_", '55P03', '', "$_ waits for a handle")
	  for ('DROP TABLE f', 'TRUNCATE f', "SELECT securefile_rewrite('f', 'doc', 'logging')", 'ALTER TABLE f ALTER doc TYPE bytea');
	$s->query_safe('ROLLBACK');

	# one's own DDL is refused or closes the handle, and loses nothing else
	foreach my $ddl ('TRUNCATE f', 'DROP TABLE f', 'ALTER TABLE f DROP doc', 'ALTER TABLE f ALTER doc TYPE bytea',
		'ALTER TABLE f ALTER doc TYPE securefile(nocache, filesystem_like_logging, disable_storage_in_row)', "SELECT securefile_rewrite('f', 'doc', 'logging')",
		"SELECT securefile_rewrite('f', 'doc')")
	{
		foreach my $end ('ROLLBACK', 'COMMIT')
		{
			$other->("DROP TABLE IF EXISTS f");
			make_table($node, 'f', 'filesystem_like_logging, disable_storage_in_row');
			$other->("INSERT INTO f VALUES (1, 1, $len, blob(1, $len))");
			$s->query_safe('BEGIN');
			my $r = $s->query_safe("SELECT securefile_open(doc, 'r') FROM f");
			my $w = $s->query_safe("SELECT made('f', 5, 500000)");
			$s->query_safe('SAVEPOINT a');
			my $refused = error_of($s, $ddl);
			$s->query_safe('ROLLBACK TO a') if $refused =~ /ERROR/;
			my $read = $s->query("SELECT securefile_read($r, $len) = blob(1, $len)");
			my $err = $s->{stderr};
			$s->{stderr} = '';
			ok($read eq 't' || $err =~ /ERROR:  (42704|55000)/, "$ddl, $end: the handle reads right or is gone") or diag("$refused $read $err");
			$s->query($end);
			$s->{stderr} = '';
			if ($end eq 'ROLLBACK' || $refused =~ /ERROR/)
			{
				rows_right($node, 'f', 1, "$ddl, $end");
				sound($node, 'f', "$ddl, $end", in_row => 0);
			}
			elsif ($ddl =~ /rewrite|nocache/)
			{
				rows_right($node, 'f', 1, "$ddl, $end") unless $err =~ /ERROR/;
				is($other->("SELECT count(*) FROM securefile_check('f', 'doc')"), 0, "$ddl, $end: sound");
			}
			is($s->query_safe('SELECT 1'), 1, "$ddl, $end: the session goes on");
		}
	}
	$s->quit;
	$other->('DROP TABLE IF EXISTS f');
	make_table($node, 'f', 'filesystem_like_logging, disable_storage_in_row');
};

subtest 'many handles' => sub {
	is($node->safe_psql('postgres', qq{
		DO \$\$
		DECLARE
			fds int[] := ARRAY(SELECT securefile_create('f', 'doc') FROM generate_series(1, 300));
		BEGIN
			FOR round IN 1 .. 3 LOOP
				FOR i IN 1 .. 300 LOOP
					PERFORM securefile_write(fds[i], substring(blob(i, 30000) FROM 1 + (round - 1) * 10000 FOR 10000));
				END LOOP;
			END LOOP;
			FOR i IN 1 .. 200 LOOP
				INSERT INTO f VALUES (i, i, 30000, securefile_finish(fds[i]));
			END LOOP;
		END \$\$;
		SELECT count(*) FROM f}), 200, 'three hundred at once');
	rows_right($node, 'f', 200, 'many handles');
	sound($node, 'f', 'many handles', in_row => 0);
	is($node->safe_psql('postgres', qq{
		SELECT count(*) FROM (SELECT securefile_close(securefile_open(doc, 'r')) FROM f, generate_series(1, 100) OFFSET 0) s}), 20000, 'twenty thousand in turn');
	$node->safe_psql('postgres', 'DELETE FROM f');
	nothing_left('f', 'many handles');

	# what is finished costs nothing any more: four times as many take no sixteen times as
	# long, in time of the processor
	my @seconds;
	my $s = session();
	my $pid = $s->query_safe('SELECT pg_backend_pid()');
	foreach my $many (15_000, 60_000)
	{
		my $began = cpu_seconds($pid);
		$s->query_safe(qq{DO \$\$
			DECLARE
				fd int;
			BEGIN
				FOR i IN 1 .. $many LOOP
					fd := securefile_create('t', 'doc');
					PERFORM securefile_write(fd, 'abc');
					INSERT INTO t VALUES (i, NULL, 3, securefile_finish(fd));
				END LOOP;
			END \$\$;
			TRUNCATE t});
		push @seconds, cpu_seconds($pid) - $began;
	}
	$s->quit;
	cmp_ok($seconds[1], '<', 9 * $seconds[0], "many in one transaction: @seconds seconds");
};

subtest 'no space, failed writes and reads in the middle' => sub {
	my ($rc) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	plan skip_all => 'built without fault points' if $rc != 0;
	foreach my $table ('t', 'f')
	{
		$node->safe_psql('postgres', "INSERT INTO $table VALUES (1, 1, 13000000, blob(1, 13000000))");
		foreach my $fault ('io_promise enospc 53100', 'io_write enospc 53100', 'io_write error 58030', 'io_read error 58030')
		{
			my ($point, $action, $state) = split / /, $fault;
			foreach my $skip (0, 1, 3)
			{
				my $s = session();
				my $pid = $s->query_safe('SELECT pg_backend_pid()');
				$s->query_safe('BEGIN');
				my $fd = $s->query_safe("SELECT securefile_open(doc, 'rw') FROM $table WHERE id = 1");
				$s->query_safe("SELECT securefile_write($fd, 'some bytes'); SAVEPOINT a");
				arm($node, $point, $action, skip => $skip, times => -1, pid => $pid);
				my $err = error_of($s, $point eq 'io_read' ? "SELECT sum(length(securefile_read($fd, 1000000))) FROM generate_series(1, 9)"
					: "SELECT sum(securefile_write(made.fd, blob(3, 1000000))) FROM (SELECT securefile_create('$table', 'doc') AS fd OFFSET 0) made, generate_series(1, 60)");
				like($err, qr/ERROR:  $state/, "$table: $fault, skip $skip");
				disarm($node);
				my $after = $s->query('ROLLBACK TO a; COMMIT');
				is($s->query('SELECT 1'), 1, 'the session goes on');
				$s->quit;
				rows_right($node, $table, 1, "$table: $fault, skip $skip");
				sound($node, $table, "$table: $fault, skip $skip", in_row => 0);
			}
		}
		$node->safe_psql('postgres', "UPDATE $table SET seed = 2, doc = securefile_finish(put(securefile_open(doc, 'rw'), 2, len))");
		rows_right($node, $table, 1, 'with space again');
		$node->safe_psql('postgres', "DELETE FROM $table");
		nothing_left($table, 'failed writes');
	}
};

subtest 'cancel and timeout in the middle' => sub {
	foreach my $sql ("SELECT put(securefile_create('f', 'doc'), i, 20000000) FROM generate_series(1, 500) i", "SELECT count(*) FROM (SELECT securefile_chunks(doc, chunk_size => 1) FROM f OFFSET 0) s")
	{
		$node->safe_psql('postgres', "INSERT INTO f VALUES (1, 1, 30000000, blob(1, 30000000))");
		fails_with($node, "SET statement_timeout = '300ms'; $sql", '57014', '', "cancelled: $sql");
		rows_right($node, 'f', 1, 'cancelled');
		$node->safe_psql('postgres', 'DELETE FROM f');
		nothing_left('f', 'cancelled');
	}
};

$node->stop;
done_testing();
