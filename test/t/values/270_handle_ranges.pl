# Ranges by handles: securefile_copy() from a handle and a value, securefile_erase(), _search(): what they
# do, what they refuse, two handles of one value, gaps, savepoints, columns that deduplicate, and
# that nothing decrypted stays in memory.  094_handle_model does them at random.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

use constant UNIT => 131072;

my $node = new_cluster('ranges', conf => [ master_key(), 'securefile.monitor = off' ]);
my $len = 700_000;
my $huge = 1 << 60;
prepare_handles($node);
make_table($node, 't');
make_table($node, 'z', 'compress_medium');
make_table($node, 'd', 'deduplicate');
make_table($node, 'e', 'encrypt');
sql("INSERT INTO $_ VALUES (1, 1, $len, blob(1, $len)), (2, 2, 3000, blob(2, 3000))") foreach 't', 'z', 'e';

my $s = background($node);
$s->query_safe('\set VERBOSITY verbose');

sub ask { return $s->query_safe(@_); }

# One test: a statement within a transaction fails so, and the transaction goes on.
sub refused
{
	my ($sql, $sqlstate) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ask('SAVEPOINT refused');
	my $out = $s->query($sql);
	my ($got) = $s->{stderr} =~ /ERROR:  (\w{5})/;
	$s->{stderr} = '';
	ask('ROLLBACK TO refused; RELEASE refused');
	return is($got // "no error, but $out", $sqlstate, "$sqlstate: $sql");
}

# A handle of row 1 of a table, and one at a place in it.
sub opened
{
	my ($table, $mode, $at) = @_;
	my $fd = ask("SELECT securefile_open(doc, '$mode') FROM $table WHERE id = 1");
	ask("SELECT securefile_seek($fd, $at, 0)") if $at;
	return $fd;
}

subtest 'copies of handles and values of all forms' => sub {
	foreach my $table ('t', 'z', 'd', 'e')
	{
		my $part = "substring(blob(1, $len) FROM 1001 FOR 300000)";
		my @sources = (
			[ 'a value that is stored', 'doc', "blob(1, $len)" ],
			[ 'one that is edited', "(doc || blob(3, 5000))", "blob(1, $len) || blob(3, 5000)" ],
			[ 'one with a gap', "(securefile_truncate(doc, 2000000) || 'x'::bytea)", "blob(1, $len) || decode(repeat('00', 2000000 - $len), 'hex') || 'x'::bytea" ],
			[ 'one in the row', "(SELECT doc FROM t WHERE id = 2)", 'blob(2, 3000)' ],
			[ 'bytes', "blob(4, 400000)::securefile", 'blob(4, 400000)' ]);
		foreach my $source (@sources)
		{
			my ($name, $value, $bytes) = @$source;
			foreach my $from (1, 1001, 131073, 2000002)
			{
				is( sql(qq{
					DO \$\$
					DECLARE
						fd int := made('$table', 9, 1000);
						n bigint;
					BEGIN
						PERFORM securefile_seek(fd, 500, 0);
						SELECT securefile_copy(fd, $value, $from, 300000) INTO STRICT n FROM t WHERE id = 1;
						IF n <> length(substring($bytes FROM $from FOR 300000)) OR securefile_tell(fd) <> 500 + n THEN
							RAISE '% bytes, at %', n, securefile_tell(fd);
						END IF;
						INSERT INTO $table VALUES (3, 0, 0, securefile_finish(fd));
					END \$\$},
						"SELECT doc::bytea = overlay(blob(9, 1000) PLACING substring($bytes FROM $from FOR 300000) FROM 501) FROM $table WHERE id = 3", "DELETE FROM $table WHERE id = 3"),
					't', "$table, $name from $from");
			}
		}
		# a source that was written, and not stored
		ask('BEGIN');
		my ($from, $to) = (opened('t', 'rw', 200_000), ask("SELECT securefile_create('$table', 'doc')"));
		is(ask("SELECT securefile_write($from, blob(5, 200000)), securefile_seek($from, 0, 0), securefile_copy($to, $from)"), "200000|0|$len", "$table: a handle to its end");
		is(ask("SELECT securefile_tell($to), securefile_tell($from), securefile_copy($to, $from), securefile_copy($to, $from, 9223372036854775807)"), "$len|$len|0|0", "$table: both positions have moved, and there is no more");
		is(ask("SELECT securefile_seek($from, 10, 0), securefile_copy($to, $from, 5), securefile_tell($from), securefile_tell($to)"), '10|5|15|' . ($len + 5), "$table: five more bytes");
		is(ask("SELECT securefile_finish($to)::bytea = overlay(blob(1, $len) PLACING blob(5, 200000) FROM 200001) || substring(blob(1, 15) FROM 11)"), 't', "$table: what has become of it");
		ask('ROLLBACK');
	}
	sound($node, $_, 'copied') foreach 't', 'z', 'd', 'e';
};

subtest 'erased' => sub {
	foreach my $table ('t', 'z', 'e')
	{
		ask('BEGIN');
		my $fd = opened($table, 'rw', 100);
		is(ask("SELECT securefile_erase($fd, 5), securefile_erase($fd, 0), securefile_tell($fd)"), '5|0|100', "$table: the position stays");
		is(ask("SELECT securefile_seek($fd, 131000, 0), securefile_erase($fd, 300000), securefile_seek($fd, -10, 2), securefile_erase($fd, 9223372036854775807)"),
			'131000|300000|' . ($len - 10) . '|10', "$table: not behind the end");
		is(ask("SELECT securefile_seek($fd, 50, 2), securefile_erase($fd, 10)"), ($len + 50) . '|0', "$table: nothing is there");
		ask("UPDATE $table SET doc = securefile_finish($fd) WHERE id = 1");
		my $zeros = sub { return "decode(repeat('00', $_[0]), 'hex')" };
		is(ask("SELECT doc::bytea = overlay(overlay(overlay(blob(1, $len) PLACING @{[ $zeros->(5) ]} FROM 101) PLACING @{[ $zeros->(300_000) ]} FROM 131001) PLACING @{[ $zeros->(10) ]} FROM @{[ $len - 9 ]}) FROM $table WHERE id = 1"),
			't', "$table: zeros, and nothing else");
		is(ask("SELECT holes > 0 FROM (SELECT 6 - units AS holes FROM $table, securefile_storage(doc) WHERE id = 1) s"), 't', "$table: whole units are holes") if $table eq 't';
		ask('COMMIT');
		sound($node, $table, 'erased') if $table ne 't';
		sql("UPDATE $table SET doc = blob(1, $len) WHERE id = 1");
		ask('BEGIN');
		$fd = opened($table, 'rw');
		is(ask("SELECT securefile_truncate($fd, 400000), securefile_seek($fd, 3 * @{[ UNIT ]}, 0), securefile_erase($fd, 10000)"),
			'0|393216|6784', "$table: all that the end has left of a unit");
		is(ask("SELECT securefile_finish($fd)::bytea = substring(blob(1, $len) FOR 393216) || @{[ $zeros->(6784) ]}"), 't', "$table: it is zeros");
		ask('ROLLBACK');
	}
};

subtest 'searched' => sub {
	foreach my $table ('t', 'z', 'e')
	{
		ask('BEGIN');
		my ($r, $w, $small) = (opened($table, 'r', 5), opened($table, 'rw', 5), ask("SELECT securefile_open(doc, 'rw') FROM $table WHERE id = 2"));
		# across the border of units, in what is staged, and in a gap that is longer than can be read
		ask("SELECT securefile_seek($w, 131070, 0), securefile_write($w, '~border~'), securefile_seek($w, $huge, 0), securefile_write($w, 'the end~'), securefile_write($small, '~small~')");
		my $is = sub {
			my ($fd, $at, $pattern, $want) = @_;
			return is(ask("SELECT securefile_search($fd, $pattern) FROM (SELECT securefile_seek($fd, $at, 0) OFFSET 0) s WHERE securefile_tell($fd) >= 0"), $want, "$table: $pattern from $at");
		};
		$is->($w, 0, "'~border~'", 131_070);
		$is->($w, 131_070, "'~border~'", 131_070);
		$is->($w, 131_071, "'~border~'", -1);
		$is->($w, 0, "'the end~'", $huge);
		$is->($w, 500_000, "'\\x00000074'", $huge - 3);
		$is->($w, 2 * $len, "decode(repeat('00', 300000), 'hex')", 2 * $len);
		$is->($w, $huge + 1, "'the end~'", -1);
		$is->($w, $huge + 8, "''", $huge + 8);
		$is->($w, $huge + 9, "''", -1);
		$is->($w, $huge + 9, "'x'", -1);
		$is->($r, 0, "'~border~'", -1);
		$is->($small, 1, "'small~'", 1);
		$is->($small, 2, "'small~'", -1);
		foreach my $at (0, 1000, 131_000, 300_001)
		{
			my $pattern = "substring(blob(1, $len) FROM $at + 3001 FOR 200000)";
			$is->($r, $at, $pattern, ask("SELECT $at + position($pattern IN substring(blob(1, $len) FROM $at + 1)) - 1"));
		}
		is(ask("SELECT securefile_seek($r, 7, 0), securefile_search($r, substring(blob(1, $len) FROM 5000 FOR 90)) > 0, securefile_tell($r)"), '7|t|7', "$table: the position stays");
		ask('ROLLBACK');
	}
	ask('BEGIN');
	refused("SELECT securefile_search(0, 'x')", '42704');
	is(ask("SELECT securefile_search(NULL, 'x') IS NULL, securefile_search(0, NULL) IS NULL"), 't|t', 'nulls');
	ask('ROLLBACK');
};

subtest 'refused' => sub {
	ask('BEGIN');
	my ($r, $w, $new) = (opened('t', 'r', 7), opened('t', 'rw', 9), ask("SELECT securefile_create('t', 'doc')"));
	refused("SELECT securefile_copy($w, $w, 1)", '22023');
	refused("SELECT securefile_copy($w, $w)", '22023');
	refused("SELECT securefile_copy($r, $w, 1)", '55000');
	refused("SELECT securefile_copy($r, 'x'::securefile)", '55000');
	refused("SELECT securefile_erase($r, 1)", '55000');
	foreach my $count (-1, '-9223372036854775808')
	{
		refused("SELECT securefile_copy($w, $r, $count)", '22023');
		refused("SELECT securefile_erase($w, $count)", '22023');
		refused("SELECT securefile_copy($w, 'x'::securefile, 1, $count)", '22011');
	}
	refused("SELECT securefile_copy($w, 'x'::securefile, $_)", '22011') foreach 0, -1, '-9223372036854775808';
	refused("SELECT securefile_copy($w, $_)", '42704') foreach 0, $new + 100, -2147483648;
	refused("SELECT securefile_copy($_, $r)", '42704') foreach 0, $new + 100, 2147483647;
	refused("SELECT securefile_erase(0, 1)", '42704');
	is(ask("SELECT securefile_copy($w, 'x'::securefile, 9223372036854775807, 9223372036854775807), securefile_copy($w, 'x'::securefile, 1, 0), securefile_copy($w, ''::securefile)"), '0|0|0', 'nothing is there to copy');
	is(ask("SELECT securefile_tell($r), securefile_tell($w)"), '7|9', 'positions are what they were');
	is(ask("SELECT securefile_copy(NULL, $r) IS NULL, securefile_copy($w, NULL::int) IS NULL, securefile_copy($w, NULL::securefile) IS NULL, securefile_copy($w, doc, NULL) IS NULL, securefile_erase($w, NULL) IS NULL, securefile_erase(NULL::int, 1) IS NULL FROM t WHERE id = 1"),
		't|t|t|t|t|t', 'nulls');
	is(ask("SAVEPOINT a; SELECT securefile_tell($w); ROLLBACK TO a; SELECT securefile_tell($w)"), "9\n9", 'a call that is refused has written nothing');

	# a value in memory has a limit; one of 2^63 - 1 bytes is the longest there is
	my $small = ask("SELECT securefile_open(doc, 'rw') FROM t WHERE id = 2");
	ask("SELECT securefile_seek($small, 1073741000, 0), securefile_seek($new, 9223372036854775000, 0)");
	refused("SELECT securefile_copy($_, $r)", '54000') foreach $small, $new;
	is(ask("SELECT securefile_tell($small), securefile_tell($new), securefile_tell($r)"), '1073741000|9223372036854775000|7', 'which moves no position');
	ask('SET TRANSACTION READ ONLY');
	refused("SELECT securefile_erase($w, 1)", '25006');
	refused("SELECT securefile_copy($w, $r)", '25006');
	ask('ROLLBACK');
};

subtest 'two handles of one value' => sub {
	ask('BEGIN');
	my ($a, $b) = (opened('t', 'rw', 50_000), opened('t', 'rw', 50_000));
	# what each has in memory only: the stage of one is the range, the target's is at the same place
	ask("SELECT securefile_write($a, blob(6, 1000)), securefile_write($b, blob(7, 2000)), securefile_seek($a, 49000, 0), securefile_seek($b, 49500, 0)");
	is(ask("SELECT securefile_copy($b, $a, 3000)"), 3000, 'copied within the unit that both have changed');
	is(ask("SELECT securefile_seek($a, 130000, 0), securefile_copy($a, $b, 400000), securefile_tell($b), securefile_tell($a)"), "130000|400000|452500|530000", 'and back');
	my $of_a = "overlay(blob(1, $len) PLACING blob(6, 1000) FROM 50001)";
	my $of_b = "overlay(overlay(blob(1, $len) PLACING blob(7, 2000) FROM 50001) PLACING substring($of_a FROM 49001 FOR 3000) FROM 49501)";
	is(ask("SELECT securefile_finish($b)::bytea = $of_b"), 't', 'the one');
	ask("UPDATE t SET doc = securefile_finish($a) WHERE id = 1");
	is(ask("SELECT doc::bytea = overlay($of_a PLACING substring($of_b FROM 52501 FOR 400000) FROM 130001) FROM t WHERE id = 1"), 't', 'the other, stored');
	ask('ROLLBACK');
	is(sql("SELECT doc::bytea = blob(1, $len) FROM t WHERE id = 1"), 't', 'rolled back');
	sound($node, 't', 'two handles');
};

subtest 'savepoints' => sub {
	my $is_open = sub {
		my ($fd) = @_;
		ask('SAVEPOINT asked');
		my $out = $s->query("SELECT securefile_tell($fd)");
		$out = $1 if $s->{stderr} =~ /ERROR:  (\w{5})/;
		$s->{stderr} = '';
		ask('ROLLBACK TO asked');
		return $out;
	};
	foreach my $call ('copy(%d, %d, 1000)', "copy(%d, 'x'::securefile)", 'erase(%d, 1)')
	{
		ask('BEGIN');
		my ($to, $from) = (opened('t', 'rw', 77), opened('t', 'rw', 200_000));
		ask('SAVEPOINT a; SELECT ' . sprintf("securefile_$call", $to, $from) . '; ROLLBACK TO a');
		is($is_open->($to), '42704', "$call under a savepoint that is rolled back: closed");
		is($is_open->($from), $call =~ /1000/ ? 201_000 : 200_000, "$call: the source was not written, and is open");
		ask('ROLLBACK');
	}

	# an error in the middle; a range that is read in one piece and more
	need_faults($node);
	my $pid = ask('SELECT pg_backend_pid()');
	sql('CREATE TABLE long (id int, doc securefile(filesystem_like_logging))', "INSERT INTO long VALUES (1, blob(8, 12000000))");
	ask('BEGIN');
	my ($to, $from) = (opened('t', 'rw', 77), opened('long', 'r', 1000));
	arm($node, 'io_read', 'error', skip => 1, times => -1, pid => $pid);
	refused("SELECT securefile_copy($to, $from)", '58030');
	cmp_ok(fired($node, 'io_read'), '>', 0, 'a read failed');
	disarm($node);
	is($is_open->($from), 1000, 'the source is where it was');
	is($is_open->($to), '42704', 'the target is closed with what it had got');
	ask('ROLLBACK');
	sound($node, 't', 'savepoints');
};

subtest 'a column that deduplicates' => sub {
	my $size = 3 * UNIT + 1000;
	sql('DELETE FROM d', "INSERT INTO d VALUES (1, 1, $size, noise(1, $size))");
	# a stream that equals what is there is only compared; what is done out of order is written
	foreach my $op (
		[ 'erase', 'securefile_seek(%1$d, 200000, 0), securefile_erase(%1$d, 1000)', "overlay(noise(1, $size) PLACING decode(repeat('00', 1000), 'hex') FROM 200001)" ],
		[ 'erase the end', 'securefile_seek(%1$d, 2 * 131072, 0), securefile_erase(%1$d, 9000000)', "substring(noise(1, $size) FOR 262144) || decode(repeat('00', $size - 262144), 'hex')" ],
		[ 'copy into it', "securefile_seek(%1\$d, 10, 0), securefile_copy(%1\$d, 'abc'::securefile)", "overlay(noise(1, $size) PLACING 'abc'::bytea FROM 11)" ],
		[ 'copy behind it', "securefile_seek(%1\$d, $size + 10, 0), securefile_copy(%1\$d, 'abc'::securefile)", "noise(1, $size) || '\\x00000000000000000000616263'" ],
		[ 'copy from it', "securefile_seek(%1\$d, 1000, 0), securefile_copy(%2\$d, %1\$d)", "noise(1, $size)" ])
	{
		my ($name, $calls, $want) = @$op;
		ask('BEGIN');
		my ($fd, $other) = (ask("SELECT securefile_create('d', 'doc')"), ask("SELECT securefile_create('d', 'doc')"));
		ask("SELECT securefile_copy($fd, noise(1, $size)::securefile)");
		ask('SELECT ' . sprintf($calls, $fd, $other));
		ask("INSERT INTO d VALUES (2, 0, 0, securefile_finish($fd))");
		is(ask("SELECT doc::bytea = $want FROM d WHERE id = 2"), 't', "$name, while it is compared");
		is(ask("SELECT securefile_finish($other)::bytea = substring(noise(1, $size) FROM 1001)"), 't', 'and what was copied') if $name =~ /from/;
		is(ask("SELECT doc::bytea = noise(1, $size) FROM d WHERE id = 1"), 't', "$name: what it was compared with is as it was");
		ask('COMMIT');
		sql('DELETE FROM d WHERE id = 2');
	}
	is(sql("SELECT count(*) FROM securefile_check('d', 'doc')"), 0, 'sound');

	# a copy of the content is a reference
	my $before = sql("SELECT live_bytes FROM securefile_usage('d', 'doc')");
	sql(qq{DO \$\$ DECLARE fd int := securefile_create('d', 'doc'); BEGIN
		PERFORM securefile_copy(fd, doc) FROM d WHERE id = 1;
		INSERT INTO d VALUES (3, 1, $size, securefile_finish(fd)); END \$\$});
	is(sql("SELECT bool_and(doc::bytea = noise(1, $size)) FROM d"), 't', 'a copy of what is there');
	is(sql("SELECT live_bytes FROM securefile_usage('d', 'doc')"), $before, 'takes no space');
};

subtest 'gaps' => sub {
	sql('CREATE TABLE sparse (id int PRIMARY KEY, doc securefile)');
	# data at both ends and in the middle of 2^60 bytes
	my $make = sub {
		return "fd := securefile_create('sparse', 'doc'); PERFORM securefile_write(fd, blob(1, 300000)), securefile_seek(fd, $huge / 2, 0), securefile_write(fd, blob(2, 300000)),"
		  . " securefile_seek(fd, $huge - 1000, 0), securefile_write(fd, blob(3, 1000));";
	};
	my $right = sub {
		my ($id, $at, $first) = @_;
		return sql("SELECT length(doc), substring(doc, $at + $first, 300000) = substring(blob(1, 300000) FROM $first), substring(doc, $at + $huge / 2 + 1, 300000) = blob(2, 300000), substring(doc, $at + $huge - 999, 1000) = blob(3, 1000),"
			  . " substring(doc, $at + 400000, 1000) = decode(repeat('00', 1000), 'hex') FROM sparse WHERE id = $id");
	};
	sql('DO $$ DECLARE fd int; BEGIN ' . $make->() . ' INSERT INTO sparse VALUES (1, securefile_finish(fd)); END $$');
	is($right->(1, 0, 1), "$huge|t|t|t|t", 'a value of 2^60 bytes');
	my $units = sql('SELECT units FROM sparse, securefile_storage(doc) WHERE id = 1');

	# from what is written and not stored, from a stored value by a handle and without, to another place
	sql('DO $$ DECLARE fd int; other int := securefile_create($t$sparse$t$, $t$doc$t$); BEGIN ' . $make->() . ' PERFORM securefile_seek(fd, 0, 0), securefile_copy(other, fd); INSERT INTO sparse VALUES (2, securefile_finish(other)); END $$');
	is($right->(2, 0, 1), "$huge|t|t|t|t", 'a handle that was written');
	foreach my $from ("securefile_copy(fd, securefile_open(doc, 'r'))", 'securefile_copy(fd, doc)')
	{
		sql('DELETE FROM sparse WHERE id = 3', 'DO $$ DECLARE fd int := securefile_create($t$sparse$t$, $t$doc$t$); BEGIN PERFORM securefile_seek(fd, 5000000, 0); PERFORM ' . $from . ' FROM sparse WHERE id = 1; INSERT INTO sparse VALUES (3, securefile_finish(fd)); END $$');
		is($right->(3, 5_000_000, 1), ($huge + 5_000_000) . '|t|t|t|t', "$from to 5000000");
	}
	is(sql("SELECT bool_and(units <= $units + 6) FROM sparse, securefile_storage(doc)"), 't', 'which take no more than their data');

	# gaps over data, data over gaps, and all of it erased
	sql('DO $$ DECLARE fd int; BEGIN ' . "SELECT securefile_open(doc, 'rw') INTO fd FROM sparse WHERE id = 2; PERFORM securefile_seek(fd, 200000, 0), securefile_copy(fd, doc, 400001, $huge / 4) FROM sparse WHERE id = 1;"
		  . ' UPDATE sparse SET doc = securefile_finish(fd) WHERE id = 2; END $$');
	is(sql("SELECT length(doc), substring(doc FOR 200000) = substring(blob(1, 300000) FOR 200000), substring(doc, 200001, 300000) = decode(repeat('00', 300000), 'hex') FROM sparse WHERE id = 2"), "$huge|t|t", 'a gap over data');
	is(sql("SELECT units < $units FROM sparse, securefile_storage(doc) WHERE id = 2"), 't', 'gives units back');
	sql('DO $$ DECLARE fd int; BEGIN ' . "SELECT securefile_open(doc, 'rw') INTO fd FROM sparse WHERE id = 1; PERFORM securefile_seek(fd, 150000, 0), securefile_erase(fd, $huge);"
		  . ' UPDATE sparse SET doc = securefile_finish(fd) WHERE id = 1; END $$');
	is(sql("SELECT length(doc), units, substring(doc FOR 150000) = substring(blob(1, 300000) FOR 150000), substring(doc, 150001, 300000) = decode(repeat('00', 300000), 'hex'), substring(doc, $huge - 999, 1000) = decode(repeat('00', 1000), 'hex') FROM sparse, securefile_storage(doc) WHERE id = 1"),
		"$huge|2|t|t|t", 'all from 150000 on erased');
	is(sql("SELECT count(*) FROM securefile_check('sparse', 'doc')"), 0, 'sound');
	sql('DELETE FROM sparse');
	sound($node, 'sparse', 'deleted');
};

subtest 'nothing decrypted stays in memory' => sub {
	my $session = background($node);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $mark = "md5('a mark of the copied bytes')";
	# the mark is never in a statement, nor in memory before it is decrypted
	sql("INSERT INTO e SELECT 5, 0, 0, convert_to(string_agg(md5($mark || i), '') || $mark || repeat('x', 3000), 'SQL_ASCII') FROM generate_series(1, 1500) i");
	my $bytes = sql("SELECT $mark");
	my $left = sub {
		my $found = 0;
		each_mapping($pid, sub { my ($there) = @_; $found += index($there, $bytes) >= 0; return; }) or return 'unknown';
		return $found > 0 ? 'found' : 'none';
	};
	foreach my $from ("doc, 1, 60000", "securefile_open(doc, 'r'), 60000", "put(securefile_open(doc, 'rw'), 1, 100), 60000")
	{
		$session->query_safe("DO \$\$ DECLARE fd int := securefile_create('e', 'doc'); BEGIN PERFORM securefile_copy(fd, $from) FROM e WHERE id = 5; INSERT INTO e VALUES (6, 0, 0, securefile_finish(fd)); DELETE FROM e WHERE id = 6; END \$\$");
		my $found = $left->();
		SKIP:
		{
			skip 'the memory of other processes cannot be read', 1 if $found eq 'unknown';
			is($found, 'none', "securefile_copy(fd, $from)");
		}
	}
	SKIP:
	{
		skip 'no fault points', 2 unless ($node->psql('postgres', 'SELECT securefile_fault_reset()'))[0] == 0;
		sql('INSERT INTO e SELECT 7, 0, 0, doc || doc || doc FROM e WHERE id = 5');
		arm($node, 'encrypt', 'error', pid => $pid);
		$session->query("DO \$\$ BEGIN PERFORM securefile_copy(securefile_create('e', 'doc'), doc, 1, 140000) FROM e WHERE id = 7; END \$\$");
		ok(fired($node, 'encrypt'), 'a copy failed');
		$session->{stderr} = '';
		disarm($node);
		my $found = $left->();
		skip 'the memory of other processes cannot be read', 1 if $found eq 'unknown';
		is($found, 'none', 'a copy that failed');
	}
	is($session->query_safe("SELECT substring(doc FROM 48001 FOR 32) = convert_to($mark, 'SQL_ASCII') FROM e WHERE id = 5"), 't', 'the mark was there');
	$session->quit;
};

$s->quit;
done_testing();
