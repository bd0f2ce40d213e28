# Objects far larger than memory: 20 GB written, read and changed by a process that
# may not have more than some megabytes for it, a terabyte, and the end of all
# offsets; and that a random read touches no more units than it must.
#
# Here they are islands of data between gaps; with SECUREFILE_LARGE_REAL (which
# check-long sets) twenty real gigabytes, where there is room for them.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

use constant { UNIT => 131072, GB => 1 << 30, ISLAND => 1_000_000 };

my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
srand($seed);
note("seed $seed");
my $real = $ENV{SECUREFILE_LARGE_REAL} || 0;
# a limit of address space leaves no room for LLVM
my $node = new_cluster('large', conf => [ 'max_wal_size = 4GB', 'securefile.monitor = off', 'jit = off' ]);
my $free = (split ' ', (split /\n/, `df -kP '@{[ $node->data_dir ]}'`)[1])[3] * 1024;
if ($real && $free < 25 * GB)
{
	diag("$free bytes are free: islands instead of twenty real gigabytes");
	$real = 0;
}
my $step = $real ? ISLAND : 64_000_000;		# from the start of an island to that of the next
my $islands = int(20 * GB / $step);
my $length = ($islands - 1) * $step + ISLAND;

# island(i) says its number everywhere, in a rhythm that no power of two has
$node->safe_psql('postgres', q{
	CREATE FUNCTION island(i bigint) RETURNS bytea LANGUAGE sql STABLE AS $$
		SELECT substring(convert_to(repeat(md5(i::text) || '-', 30304), 'UTF8') FOR 1000000)
	$$;
	CREATE TABLE t (id int PRIMARY KEY, doc securefile(filesystem_like_logging, nocache));
	CREATE TABLE c (id int PRIMARY KEY, doc securefile);});

# Address space of a process.
sub address_space
{
	my ($pid) = @_;
	return slurp_file("/proc/$pid/status") =~ /^VmSize:\s+(\d+) kB/m ? $1 * 1024 : die;
}

# What a statement reads from the data files of a table.
sub bytes_read
{
	my ($table, $sql) = @_;
	my $ask = "SELECT direct_read_bytes FROM securefile_stat WHERE relid = '$table'::regclass";
	my $before = $node->safe_psql('postgres', $ask);
	$node->safe_psql('postgres', $sql);
	return $node->safe_psql('postgres', $ask) - $before;
}

subtest 'twenty gigabytes in little memory' => sub {
	plan skip_all => 'the sanitizers want address space of their own' if $ENV{SANITIZE};
	my $more = 64 * 1024 * 1024;
	my $s = background($node);
	my $pid = $s->query_safe('SELECT pg_backend_pid()');
	my $limit = address_space($pid) + $more;
	system_or_bail('prlimit', '--pid', $pid, "--as=$limit");

	$s->query_safe(qq{DO \$\$
		DECLARE
			fd int := securefile_create('t', 'doc');
		BEGIN
			FOR i IN 0 .. $islands - 1 LOOP
				PERFORM securefile_seek(fd, i * $step\::bigint, 0);
				PERFORM securefile_write(fd, island(i));
			END LOOP;
			INSERT INTO t VALUES (1, securefile_finish(fd));
		END \$\$});
	is($s->query_safe('SELECT length(doc) FROM t'), $length, "written within $more bytes");
	my $live = settle($node, 't', 'doc')->{live_bytes};
	cmp_ok($live, '>=', $islands * ISLAND, 'all of it');
	cmp_ok($live, '<=', $islands * (ISLAND + 2 * UNIT), 'and no gap');

	is($s->query_safe(qq{
		CREATE FUNCTION pg_temp.right_islands() RETURNS bigint LANGUAGE plpgsql AS \$\$
		DECLARE
			fd int := securefile_open(doc, 'r') FROM t WHERE id = 1;
			count bigint := 0;
		BEGIN
			FOR i IN 0 .. $islands - 1 LOOP
				PERFORM securefile_seek(fd, i * $step\::bigint, 0);
				IF securefile_read(fd, 1000000) = island(i) THEN
					count := count + 1;
				END IF;
			END LOOP;
			RETURN count;
		END \$\$;
		SELECT pg_temp.right_islands()}), $islands, 'read through a handle');
	is($s->query_safe('SELECT sum(length(chunk)) FROM (SELECT securefile_chunks(doc) AS chunk FROM t OFFSET 0) s'), $length, 'read as a stream');
	is( $s->query_safe(
			"SELECT bool_and(chunk = island((n - 1) * 20)) FROM (SELECT row_number() OVER () AS n, chunk FROM"
			  . " (SELECT securefile_chunks(doc, i * 20 * $step\::bigint + 1, 1000000, 1000000) AS chunk FROM t, generate_series(0, $islands / 20 - 1) i OFFSET 0) s) s"),
		't', 'read as streams from many places');
	$s->query_safe("COPY (SELECT securefile_chunks(doc, count => 4000000000) FROM t) TO '/dev/null' (FORMAT binary)");

	# random access: an offset and what must be there, through substring() and a handle
	my @spots = map { [ int(rand($islands)), int(rand(ISLAND - 65536)) ] } 1 .. 100;
	my $spots = join(', ', map { "($_->[0]::bigint, $_->[1])" } @spots);
	is($s->query_safe("SELECT count(*) FROM t, (VALUES $spots) v (i, at) WHERE substring(doc, i * $step + at + 1, 65536) = substring(island(i) FROM at + 1 FOR 65536)"), 100, 'random reads');
	$s->query_safe(qq{DO \$\$
		DECLARE
			fd int := securefile_open(doc, 'rw') FROM t WHERE id = 1;
			spot record;
		BEGIN
			FOR spot IN SELECT * FROM (VALUES $spots) v (i, at) LOOP
				PERFORM securefile_seek(fd, spot.i * $step + spot.at, 0);
				PERFORM securefile_write(fd, '-- changed --');
			END LOOP;
			UPDATE t SET doc = securefile_finish(fd) WHERE id = 1;
		END \$\$});
	is($s->query_safe("SELECT count(*) FROM t, (VALUES $spots) v (i, at) WHERE substring(doc, i * $step + at + 1, 13) = '-- changed --'"), 100, 'random writes');
	is($s->query_safe('SELECT pg_temp.right_islands()'), $islands - keys %{ { map { $_->[0] => 1 } @spots } }, 'which changed nothing else');
	$s->query_safe("UPDATE t SET doc = overlay(doc || 'the end' placing 'the start' from 1)");
	is($s->query_safe("SELECT length(doc), substring(doc FROM 1 FOR 20) = 'the start' || substring(island(0) FROM 10 FOR 11), substring(doc, length(doc) - 6, 7) = 'the end' FROM t"), $length + 7 . '|t|t', '|| and overlay()');
	if (!$real)
	{
		$s->query_safe('INSERT INTO t SELECT 2, doc FROM t; INSERT INTO c SELECT 1, doc FROM t WHERE id = 1');
		is($s->query_safe('SELECT (SELECT doc FROM t WHERE id = 1) = (SELECT doc FROM c)'), 't', 'copied and compared');
	}
	$s->query_safe("UPDATE t SET doc = securefile_truncate(doc, 15000000000)");
	is($s->query_safe('SELECT max(length(doc)) FROM t'), 15000000000, 'cut');
	is($s->query_safe("SELECT count(*) FROM securefile_check('t', 'doc')"), 0, 'checked');
	cmp_ok(address_space($pid), '<=', $limit, 'all within the limit');

	# the limit is one: a value that has to be in memory does not fit
	$s->query('SELECT length(substring(doc, 1, 300000000)) FROM t WHERE id = 1');
	like($s->{stderr}, qr/out of memory/, 'what does not fit fails');
	$s->{stderr} = '';
	is($s->query_safe('SELECT 1'), 1, 'and the session goes on');
	$s->quit;
	$node->safe_psql('postgres', 'DELETE FROM t; DELETE FROM c');
	sound($node, $_, 'twenty gigabytes deleted') for ('t', 'c');
};

subtest 'a random read touches two units' => sub {
	my $at = int(10 * GB / 100);		# from an island to the next
	foreach my $table ('t', 'c')
	{
		$node->safe_psql('postgres', qq{DO \$\$
			DECLARE
				fd int := securefile_create('$table', 'doc');
			BEGIN
				FOR i IN 0 .. 99 LOOP
					PERFORM securefile_seek(fd, i * $at\::bigint, 0);
					PERFORM securefile_write(fd, island(i));
				END LOOP;
				PERFORM securefile_truncate(fd, 10::bigint << 30);
				INSERT INTO $table VALUES (1, securefile_finish(fd));
			END \$\$});
		my @spots = map { [ int(rand(100)), int(rand(ISLAND - 65536)) ] } 1 .. 25;
		push @spots, [ 1, UNIT - $at % UNIT ], [ 2, UNIT - (2 * $at) % UNIT - 65536 ], [ 3, 2 * UNIT - (3 * $at) % UNIT - 1 ];
		my $all = 0;
		foreach my $spot (@spots)
		{
			my ($i, $in) = @$spot;
			my $from = $i * $at + $in;
			my $units = int(($from + 65535) / UNIT) - int($from / UNIT) + 1;
			my $right = "= substring(island($i) FROM $in + 1 FOR 65536)";
			$all += $units;
			is($node->safe_psql('postgres', "SELECT substring(doc, $from + 1, 65536) $right FROM $table"), 't', "$table: 64 KB at $from");
			my $read = bytes_read($table, "SELECT substring(doc, $from + 1, 65536) FROM $table");
			cmp_ok($read, '>=', 65536, "$table: read from the data files");
			cmp_ok($read, '<=', $units * UNIT, "$table: $read bytes for $units units, substring()");
			$read = bytes_read($table, "DO \$\$ DECLARE fd int := securefile_open(doc, 'r') FROM $table; BEGIN PERFORM securefile_seek(fd, $from, 0); ASSERT securefile_read(fd, 65536) $right; END \$\$");
			cmp_ok($read, '<=', $units * UNIT, "$table: $read bytes for $units units, a handle");
			$read = bytes_read($table, "SELECT count(*) FROM (SELECT securefile_chunks(doc, $from + 1, 65536) FROM $table OFFSET 0) s");
			cmp_ok($read, '<=', $units * UNIT, "$table: $read bytes for $units units, a stream");
		}
		my $read = bytes_read($table, "DO \$\$ DECLARE fd int := securefile_open(doc, 'r') FROM $table; BEGIN "
			  . join(' ', map { 'PERFORM securefile_seek(fd, ' . ($_->[0] * $at + $_->[1]) . ', 0); PERFORM securefile_read(fd, 65536);' } @spots) . ' END $$');
		cmp_ok($read, '<=', $all * UNIT, "$table: $read bytes for $all units, one handle");
		is(bytes_read($table, "SELECT substring(doc, $at / 2, 65536), length(doc) FROM $table"), 0, "$table: a gap reads nothing");
		$node->safe_psql('postgres', "DELETE FROM $table");
	}
};

subtest 'a terabyte' => sub {
	my $tb = 1 << 40;
	foreach my $table ('t', 'c')
	{
		my $began = cpu_seconds_ended($node);
		$node->safe_psql('postgres', "TRUNCATE $table");
		$node->safe_psql('postgres', qq{DO \$\$
			DECLARE
				fd int := securefile_create('$table', 'doc');
			BEGIN
				PERFORM securefile_write(fd, island(1));
				PERFORM securefile_seek(fd, $tb - 1000000, 0);
				PERFORM securefile_write(fd, island(3));
				PERFORM securefile_seek(fd, $tb / 2, 0);
				PERFORM securefile_write(fd, island(2));
				PERFORM securefile_seek(fd, $tb / 4, 0);
				ASSERT securefile_read(fd, 1000) = decode(repeat('00', 1000), 'hex');
				INSERT INTO $table VALUES (1, securefile_finish(fd));
			END \$\$});
		my $right = "length(doc) = $tb AND substring(doc, 1, 1000000) = island(1) AND substring(doc, $tb / 2 + 1, 1000000) = island(2)"
		  . " AND substring(doc, $tb - 999999, 1000001) = island(3) AND substring(doc, $tb / 3, 500000) = decode(repeat('00', 500000), 'hex')";
		is($node->safe_psql('postgres', "SELECT $right FROM $table"), 't', "$table: both ends and the middle");
		my $usage = settle($node, $table, 'doc');
		cmp_ok($usage->{live_bytes}, '<=', 3 * (ISLAND + 2 * UNIT), "$table: stored as $usage->{live_bytes} bytes");
		cmp_ok($usage->{metadata_bytes}, '<=', 5 * 1024 * 1024, "$table: $usage->{metadata_bytes} bytes of metadata");
		$node->safe_psql('postgres', "INSERT INTO $table SELECT 2, doc FROM $table; UPDATE $table SET doc = overlay(doc placing island(7) from ($tb / 5)::bigint) WHERE id = 1; UPDATE $table SET doc = doc || island(8) WHERE id = 1");
		is($node->safe_psql('postgres', "SELECT $right FROM $table WHERE id = 2"), 't', "$table: copied");
		is($node->safe_psql('postgres', "SELECT substring(doc, $tb / 5, 1000000) = island(7), substring(doc, $tb + 1) = island(8), substring(doc, $tb / 2 + 1, 1000000) = island(2), length(doc) - $tb FROM $table WHERE id = 1"), 't|t|t|1000000', "$table: changed");
		is($node->safe_psql('postgres', "SELECT count(*), sum(length(chunk)) FROM (SELECT securefile_chunks(doc, ($tb / 2 - 499999)::bigint, 2000000, 100000) AS chunk FROM $table WHERE id = 1 OFFSET 0) s"), '20|2000000', "$table: a stream from the middle");
		cmp_ok(settle($node, $table, 'doc')->{live_bytes}, '<=', 8 * (ISLAND + 2 * UNIT), "$table: a copy and a change");
		is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$table', 'doc')"), 0, "$table: sound");
		$node->safe_psql('postgres', "UPDATE $table SET doc = securefile_truncate(doc, ($tb / 2 + 500000)::bigint) WHERE id = 2");
		is($node->safe_psql('postgres', "SELECT length(doc) = $tb / 2 + 500000 AND substring(doc, $tb / 2 + 1) = substring(island(2) FOR 500000) FROM $table WHERE id = 2"), 't', "$table: cut in half");
		my $took = cpu_seconds_ended($node) - $began;
		my $session = background($node);
		my $zeros = zeros_seconds($session, $table, ($tb / 3) . '::bigint', ($tb / 64) . '::bigint');
		$session->quit;
		cmp_ok($took, '<', 16 * $zeros, "$table: without a look at each byte: $took s, a 64th of the zeros $zeros s");
		$node->safe_psql('postgres', "DELETE FROM $table");
		sound($node, $table, "$table: deleted");
	}
};

subtest 'the end of all offsets' => sub {
	my $last = '9223372036854775807';
	foreach my $table ('t', 'c')
	{
		my $offset = -s $node->logfile;
		$node->safe_psql('postgres', qq{DO \$\$
			DECLARE
				fd int := securefile_create('$table', 'doc');
			BEGIN
				PERFORM securefile_write(fd, 'the start');
				PERFORM securefile_seek(fd, $last - 7, 0);
				PERFORM securefile_write(fd, 'the end');
				INSERT INTO $table VALUES (1, securefile_finish(fd));
			END \$\$});
		is($node->safe_psql('postgres', "SELECT length(doc), convert_from(substring(doc, $last - 6), 'UTF8'), convert_from(substring(doc, 1, 9), 'UTF8'), substring(doc, $last / 2, 5), substring(doc, $last, 5) FROM $table"),
			"$last|the end|the start|\\x0000000000|\\x64", "$table: written to the last byte");
		is($node->safe_psql('postgres', "SELECT convert_from(string_agg(chunk, '-'), 'UTF8') FROM (SELECT securefile_chunks(doc, $last - 6, chunk_size => 4) AS chunk FROM $table OFFSET 0) s"), 'the -end', "$table: streamed to the last byte");
		fails_with($node, "UPDATE $table SET doc = doc || 'x'", '54000', '', "$table: nothing can follow");
		fails_with($node, "SELECT doc::bytea FROM $table", '54000', '', "$table: nor be selected whole");
		fails_with($node, "SET statement_timeout = '300ms'; SELECT securefile_hash(doc) FROM $table", '57014', '', "$table: a hash can be cancelled");
		fails_with($node, "SET statement_timeout = '300ms'; SELECT count(*) FROM (SELECT securefile_chunks(doc) FROM $table OFFSET 0) s", '57014', '', "$table: a stream can be cancelled");
		$node->safe_psql('postgres', "UPDATE $table SET doc = overlay(doc placing 'THE END' from $last - 6); INSERT INTO $table SELECT 2, doc FROM $table");
		is($node->safe_psql('postgres', "SET statement_timeout = '@{[ patience() ]}s'; SELECT count(*) FROM securefile_check('$table', 'doc')"), 0, "$table: sound");
		is($node->safe_psql('postgres', "SELECT id, convert_from(substring(doc, $last - 6), 'UTF8') FROM $table ORDER BY id"), "1|THE END\n2|THE END", "$table: changed and copied");
		cmp_ok(settle($node, $table, 'doc')->{live_bytes}, '<=', 4 * UNIT, "$table: stored in four units");
		$node->safe_psql('postgres', "UPDATE $table SET doc = securefile_truncate(doc, $last - 3) WHERE id = 1; UPDATE $table SET doc = securefile_truncate(securefile_truncate(doc, 3), $last) WHERE id = 2");
		is($node->safe_psql('postgres', "SELECT id, substring(doc, $last - 6) FROM $table ORDER BY id"), "1|\\x54484520\n2|\\x00000000000000", "$table: cut");
		$node->safe_psql('postgres', "DELETE FROM $table");
		sound($node, $table, "$table: the end of all offsets");
		unlike(slurp_file($node->logfile, $offset), qr/PANIC|TRAP: |terminated by signal/, "$table: server log");
	}
};

$node->stop;
done_testing();
