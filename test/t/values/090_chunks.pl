# Streams: which bytes securefile_chunks() reads, and when; and that the pieces are right
# whatever happens between two of them.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $unit = 131_072;
my $len = 14_000_000;
my $node = new_cluster('chunks',
	conf => [ 'securefile.monitor = off', 'full_page_writes = off', 'fsync = off' ]);

make_table($node, 'd', 'nocache');
make_table($node, 'c', 'cache_reads');
fill($node, $_, 1, 3, $len) foreach ('d', 'c');
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION streamed(t regclass, n int, size int) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		ok boolean;
	BEGIN
		EXECUTE format('SELECT string_agg(p, %L) = (SELECT doc FROM %s WHERE id = $1)
			FROM (SELECT securefile_chunks(doc, chunk_size => $2) p FROM %s WHERE id = $1) s', '', t, t)
			INTO ok USING n, size;
		RETURN ok;
	END $$;
	-- how many pieces come before which error
	CREATE FUNCTION sound_pieces(t regclass, n int, size int) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		cur refcursor;
		piece bytea;
		pieces int := 0;
	BEGIN
		OPEN cur FOR EXECUTE format('SELECT securefile_chunks(doc, chunk_size => $2) FROM %s WHERE id = $1', t) USING n, size;
		LOOP
			FETCH cur INTO piece;
			EXIT WHEN NOT FOUND;
			pieces := pieces + 1;
		END LOOP;
		RETURN pieces;
	EXCEPTION WHEN OTHERS THEN
		RETURN pieces || ' ' || SQLSTATE;
	END $$;});

# What SQL in one transaction reads of a table: bytes and requests.
sub reads
{
	my ($table, $sql) = @_;
	my $ask = "SELECT direct_read_bytes, direct_read_ops FROM securefile_stat WHERE relid = '$table'::regclass";
	my @before = split /\|/, $node->safe_psql('postgres', $ask);
	$node->safe_psql('postgres', "BEGIN; $sql; COMMIT");
	my @after = split /\|/, $node->safe_psql('postgres', $ask);
	return ($after[0] - $before[0], $after[1] - $before[1]);
}

sub cursor
{
	my ($table, $fetch, $args) = @_;
	return "DECLARE s CURSOR FOR SELECT md5(securefile_chunks(doc" . ($args || '') . ")) FROM $table WHERE id = 1; $fetch";
}

# ---- what is read, and when ----

my $small = ', chunk_size => 65536';
my ($bytes, $ops) = reads('d', cursor('d', 'FETCH 1 FROM s', $small));
is("$bytes $ops", "$unit 1", 'the first piece reads its unit only');
($bytes, $ops) = reads('d', cursor('d', 'FETCH 2 FROM s', $small));
cmp_ok($bytes, '>', mb(1), 'the second one shows that it is a stream, and more is read');
cmp_ok($bytes, '<', mb(2), 'but not much');
($bytes, $ops) = reads('d', cursor('d', 'FETCH 48 FROM s', $small));
cmp_ok($bytes, '>', mb(3) + mb(2), 'later more');
cmp_ok($bytes, '<=', mb(3) + mb(4) + $unit, 'but 4 MB at most');
($bytes, $ops) = reads('d', cursor('d', 'FETCH ALL FROM s', $small));
cmp_ok($bytes, '<', $len + 2 * $unit, 'pieces of half a unit: each unit is read once, but the first one');
cmp_ok($ops, '<', 25, 'in large requests');
($bytes, $ops) = reads('d', cursor('d', 'FETCH ALL FROM s', ', 1000000, 500000, 50000'));
cmp_ok($bytes, '<=', 6 * $unit, 'nothing is read beyond what was asked for');
($bytes, $ops) = reads('c', cursor('c', 'FETCH ALL FROM s', ', chunk_size => 8192'));
cmp_ok($bytes, '<', $len + 2 * $unit, 'through the page cache, too, each unit is read once');

# a piece is read when it is looked at
my $pieces = 'FROM (SELECT securefile_chunks(doc) AS p FROM d WHERE id = 1) s';
($bytes, $ops) = reads('d', "SELECT count(p), sum(length(p)) $pieces");
# (of a group the server keeps a copy of the first row)
cmp_ok($bytes, '<=', 2 * $unit, 'how many pieces there are, and how long: the first one is read');
($bytes, $ops) = reads('d', "SELECT md5(p) FROM (SELECT securefile_chunks(doc) AS p FROM d WHERE id = 1 OFFSET 3 LIMIT 1) s");
cmp_ok($bytes, '<=', 2 * $unit, 'what is skipped is not read');
($bytes, $ops) = reads('d', "SELECT count(md5(p)), count(sha256(p)), count(encode(p, 'base64')) $pieces");
cmp_ok($bytes, '<', $len + mb(3), 'looked at three times: read once, but the first pieces');
is( $node->safe_psql('postgres', "SELECT bool_and(sha256(p) = sha256(q) AND md5(p) = md5(q) AND length(p) = length(q)) FROM (SELECT p, substring(f.doc,"
		  . " (262144 * (row_number() OVER () - 1) + 1)::bigint, 262144) AS q $pieces, (SELECT doc FROM d WHERE id = 1) f) t"),
	't', 'and always the same');

# a long stream goes past the page cache, if that is not for writes, too: in large requests
make_table($node, 'f', 'cache');
$node->safe_psql('postgres', "INSERT INTO $_ SELECT 91, 0, 80000000, decode(repeat('ab', 80000000), 'hex')") foreach ('c', 'f');
foreach my $case ([ 'c', ', 1', '<', 100 ], [ 'c', ', 15000000', '>', 200 ], [ 'f', ', 1', '>', 200 ])
{
	my ($table, $start, $than, $limit) = @$case;
	($bytes, $ops) = reads($table, "SELECT count(md5(p)) FROM (SELECT securefile_chunks(doc$start$small) p FROM $table WHERE id = 91) s");
	cmp_ok($ops, $than, $limit, "$table$start: a stream goes past the page cache if it is long and the column does not write through it");
}
# others may want its memory meanwhile
ok( wait_until(sub {
		$node->safe_psql('postgres', "SELECT sum(length(md5(substring(doc, n, 4000000)))) FROM c, generate_series(1, 80000000, 4000000) n WHERE id = 91");
		($bytes, $ops) = reads('c', "SELECT count(md5(p)) FROM (SELECT securefile_chunks(doc$small) p FROM c WHERE id = 91) s");
		$ops > 200;
	}, 60),
	'nor if the page cache has it');
$node->safe_psql('postgres', "DELETE FROM $_ WHERE id = 91") foreach ('c', 'f');

foreach my $table ('d', 'c')
{
	my ($worst, $worst_ops) = (0, 0);
	for my $i (1 .. 12)
	{
		my $start = 1 + ($i * 7_654_321) % ($len - 65_536);
		foreach my $call ("securefile_chunks(doc, $start, 65536)", "substring(doc FROM $start FOR 65536)")
		{
			($bytes, $ops) = reads($table, "SELECT $call FROM $table WHERE id = 2");
			$worst = $bytes if $bytes > $worst;
			$worst_ops = $ops if $ops > $worst_ops;
		}
	}
	cmp_ok($worst, '<=', 2 * $unit, "$table: 64 kB anywhere read two units at most");
	cmp_ok($worst_ops, '<=', 2, "$table: in two requests at most");
}

# a stream that is given up, by a rollback or by its cursor, leaves its place to others
($bytes, $ops) = reads(
	'd',
	join('', map { "SAVEPOINT p; DECLARE s$_ CURSOR FOR SELECT securefile_chunks(doc$small) FROM d WHERE id = 1;"
			  . " FETCH 3 FROM s$_; " . ($_ % 2 ? 'ROLLBACK TO p;' : "CLOSE s$_;") } 1 .. 12));
cmp_ok($bytes, '>', 12 * mb(1), 'streams given up leave their places');
($bytes, $ops) = reads(
	'd',
	join('', map { "DECLARE s$_ CURSOR FOR SELECT securefile_chunks(doc$small) FROM d WHERE id = 1; FETCH 3 FROM s$_;" } 1 .. 12));
cmp_ok($bytes, '<', 5 * mb(1) + 8 * 4 * $unit, 'of many streams at a time, four read ahead');

# ---- right, by all methods ----

foreach my $method ('sync', 'libaio', 'io_uring')
{
	my $session = background($node);
	$session->query_safe("SET securefile.io_method = $method");
	foreach my $case ([ 'd', 50_000 ], [ 'd', 262_144 ], [ 'd', 3_000_000 ], [ 'c', 50_000 ], [ 'c', 262_144 ])
	{
		is($session->query_safe("SELECT streamed('$case->[0]', 2, $case->[1])"), 'true', "$method: @$case");
	}
	$session->query_safe("SET securefile.io_concurrency = 1");
	is($session->query_safe("SELECT streamed('d', 3, 100000)"), 'true', "$method: one request at a time");
	$session->query_safe("RESET securefile.io_concurrency");

	$session->query_safe(
		q{CREATE FUNCTION pg_temp.more(i int, n int) RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			cur refcursor := 's' || i;
			piece bytea;
		BEGIN
			FOR k IN 1 .. n LOOP
				FETCH cur INTO piece;
				EXIT WHEN NOT FOUND;
				INSERT INTO got (id, p) VALUES (i, piece);
			END LOOP;
		END $$});

	# other reads, rollbacks, errors and writes between the pieces
	foreach my $table ('d', 'c')
	{
		$session->query_safe(
			"BEGIN; INSERT INTO $table VALUES (50, 50, 3000000, blob(50, 3000000)), (51, 51, 3000000, blob(51, 3000000));"
			  . 'CREATE TEMP TABLE got (n serial, id int, p bytea) ON COMMIT DROP');
		my %next = (50 => 0, 51 => 0, 1 => 0);
		$session->query_safe("DECLARE s$_ NO SCROLL CURSOR FOR SELECT securefile_chunks(doc, chunk_size => 77777) FROM $table WHERE id = $_")
		  foreach keys %next;
		my @between = (
			'SELECT count(doc::bytea) FROM d',
			"SAVEPOINT p; SELECT streamed('$table', 2, 300000); ROLLBACK TO p",
			'SAVEPOINT p; SELECT 1 / 0; ROLLBACK TO p',
			"SAVEPOINT p; INSERT INTO $table VALUES (60, 60, 9000000, blob(60, 9000000)); ROLLBACK TO p",
			"INSERT INTO $table SELECT 70, 70, 12000000, blob(70, 12000000)",
			"UPDATE $table SET doc = blob(71, 20000) WHERE id = 70",
			"SAVEPOINT p; UPDATE $table SET doc = '' WHERE id IN (50, 51); RELEASE p");
		foreach my $i (0 .. 20)
		{
			$session->query_safe("SELECT pg_temp.more($_, 3)") foreach sort keys %next;
			next if $i >= @between;
			$session->query($between[$i]);
			$session->{stderr} = '';
		}
		$session->query_safe("SELECT pg_temp.more($_, 1000)") foreach keys %next;
		is( $session->query_safe(
				"SELECT string_agg(id || ' ' || ok, ', ' ORDER BY id) FROM (SELECT id, string_agg(p, '' ORDER BY n) ="
				  . " blob(id, CASE id WHEN 1 THEN $len ELSE 3000000 END) ok FROM got GROUP BY id) g"),
			'1 true, 50 true, 51 true',
			"$method, $table: what happens between pieces does not matter");
		$session->query_safe('ROLLBACK');
	}

	# read ahead while part of it has not been written yet, which then happens
	$session->query_safe(
		"BEGIN; SET LOCAL securefile.write_gather_size = '256kB'; CREATE TEMP TABLE got (n serial, id int, p bytea) ON COMMIT DROP;"
		  . ' INSERT INTO d VALUES (55, 55, 4000000, blob(55, 4000000));'
		  . " DECLARE s55 NO SCROLL CURSOR FOR SELECT securefile_chunks(doc$small) FROM d WHERE id = 55");
	$session->query_safe($_)
	  foreach 'SELECT pg_temp.more(55, 36)', 'INSERT INTO d VALUES (56, 56, 2000000, blob(56, 2000000))', 'SELECT pg_temp.more(55, 100)';
	is($session->query_safe("SELECT string_agg(p, '' ORDER BY n) = blob(55, 4000000) FROM got"),
		't', "$method: written out after it was read ahead");
	$session->query_safe('ROLLBACK');

	# streams that are left with requests in flight, whose buffers serve the next one
	$session->query_safe('BEGIN');
	$session->query_safe("DECLARE s CURSOR FOR SELECT md5(securefile_chunks(doc$small)) FROM d WHERE id = 1; MOVE 40 IN s; CLOSE s") foreach 1 .. 6;
	is($session->query_safe("SELECT streamed('d', 2, 65536)"), 'true', "$method: after streams that were left in the middle");
	$session->query_safe('COMMIT');

	# locks: as long as the stream, whatever savepoints come and go
	my $held = q{SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'AccessShareLock'
		AND relation = ('pg_toast.pg_securefile_' || 'd'::regclass::oid || '_4')::regclass};
	$session->query_safe("BEGIN; DECLARE s CURSOR FOR SELECT md5(securefile_chunks(doc$small)) FROM d WHERE id = 1; SAVEPOINT p");
	$session->query_safe('MOVE 3 IN s');
	is($session->query_safe($held), 1, "$method: locked while it reads ahead");
	$session->query_safe('ROLLBACK TO p');
	is($session->query_safe($held), 1, "$method: and after the rollback to a savepoint");
	$session->query_safe('CLOSE s');
	is($session->query_safe($held), 0, "$method: not when it has ended");
	$session->query_safe("DECLARE s CURSOR FOR SELECT md5(securefile_chunks(doc$small)) FROM d WHERE id = 1; SAVEPOINT p");
	$session->query_safe('MOVE ALL IN s; RELEASE p');
	is($session->query_safe($held), 0, "$method: nor when all is read and the savepoint gone");
	$session->query_safe('COMMIT');
	unlike($session->{stderr}, qr/WARNING/, "$method: no warning");
	$session->quit;
}

# parallel plans: the stream stays in the leader
my $in_parallel = in_parallel($node);
is( $node->safe_psql(
		'postgres', qq{
		$in_parallel
		BEGIN;
		INSERT INTO d VALUES (80, 80, 60000000, blob(80, 60000000));
		SELECT string_agg(p, '') = blob(80, 60000000)
			FROM (SELECT securefile_chunks(doc) p FROM d WHERE id = 80) s;
		ROLLBACK}),
	't',
	'parallel mode, more than a leaf of the unit map');

# ---- memory ----

$node->safe_psql('postgres', 'INSERT INTO d VALUES (90, 0, 300000000, decode(repeat(\'ab\', 300000000), \'hex\'))');
my $session = background($node);
my $pid = $session->query_safe('SELECT pg_backend_pid()');

sub resident
{
	open(my $fh, '<', "/proc/$pid/status") or return 0;
	my ($kb) = map { /^RssAnon:\s+(\d+)/ ? $1 : () } <$fh>;
	close $fh;
	return $kb || 0;
}
my $contexts = 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts';
$session->query_safe('BEGIN; DECLARE s CURSOR FOR SELECT length(securefile_chunks(doc)) FROM d WHERE id = 90');
$session->query_safe('MOVE 100 IN s');
$session->query_safe($contexts);
my ($palloced, $rss) = ($session->query_safe($contexts), resident());
$session->query_safe('MOVE 1000 IN s');
cmp_ok($session->query_safe($contexts) - $palloced, '<', 100_000, 'memory contexts do not grow with what was streamed');
cmp_ok(resident() - $rss, '<', 2000, 'nor does the process');
cmp_ok(resident(), '<', 40_000, 'which is small');
$session->query_safe('COMMIT');

# ---- cancel, and what fails ----

SKIP:
{
	my ($rc) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	skip 'built without fault points', 11 if $rc != 0;

	foreach my $table ('d', 'c')
	{
		# the third request is not the first piece's: the stream has begun
		arm($node, 'io_read', 'wait', skip => 3, pid => $pid);
		$session->query_until(qr/started/, "\\echo started\nSELECT sound_pieces('$table', 1, 100000);\n");
		wait_for_sql($node, "SELECT securefile_fault_fired('io_read') = 1");
		$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
		ok(wait_for_sql($node, "SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $pid"), "$table: cancelled in the middle");
		disarm($node);
		$session->query('SELECT 1');
		$session->{stderr} = '';
		is($session->query_safe("SELECT streamed('$table', 1, 100000)"), 'true', "$table: the session goes on");
		is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE pid = $pid AND relation IS NOT NULL"), 0, "$table: no lock is left");

		# what fails while nobody has asked for it is read again
		arm($node, 'io_read', 'error', skip => 4, times => 1, pid => $pid);
		like($session->query_safe("SELECT sound_pieces('$table', 1, 262144)"), $table eq 'd' ? qr/^54$/ : qr/^\d+ 58030$/, "$table: a request that fails once");
		disarm($node);
	}
	arm($node, 'io_read', 'error', skip => 4, times => -1, pid => $pid);
	like($session->query_safe("SELECT sound_pieces('d', 1, 262144)"), qr/^1?\d 58030$/, 'requests that fail for good');
	disarm($node);
	is($session->query_safe("SELECT sound_pieces('d', 1, 262144)"), 54, 'and then not any more');
	$session->query_safe("SET securefile.io_method = sync");
	arm($node, 'io_read', 'short', skip => 3, times => -1, pid => $pid);
	is($session->query_safe("SELECT streamed('d', 1, 100000)"), 'true', 'short transfers');
	disarm($node);
}
$session->quit;

# ---- damage ----

foreach my $case ([ 'd', 'libaio' ], [ 'd', 'sync' ], [ 'd', 'io_uring' ], [ 'c', 'libaio' ])
{
	my ($table, $method) = @$case;
	my $number = $node->safe_psql('postgres',
		"SELECT relfilenode FROM pg_class WHERE relname = 'pg_securefile_' || '$table'::regclass::oid || '_4'");
	my ($file) = grep { m{/$number/seg-00000000} } data_files($node);
	my $all = slurp($file);
	# a block of unit 60 of row 3
	my $at = block_at($file, 3, 60 * 32 + 5);
	cmp_ok($at, '>', 0, "$table: found the bytes of row 3");
	patch($file, $at, chr(ord(substr($all, $at, 1)) ^ 1));
	foreach my $size (65_536, 262_144, 1_048_576)
	{
		my $sound = int(60 * $unit / $size);
		is($node->safe_psql('postgres', "SET securefile.io_method = $method; SELECT sound_pieces('$table', 3, $size)"),
			"$sound XX001", "$table, $method: pieces of $size before the damage are sent");
	}
	is( $node->safe_psql('postgres',
			"SELECT length(string_agg(p, '')) FROM (SELECT securefile_chunks(doc, 61 * $unit + 1) p FROM $table WHERE id = 3) s"),
		$len - 61 * $unit,
		"$table, $method: and what is behind it");
	patch($file, $at, substr($all, $at, 1));
	is($node->safe_psql('postgres', "SELECT streamed('$table', 3, 262144)"), 'true', "$table, $method: mended");
}

# a page of the unit map, ahead of what was asked for
my $leaf = 338;
my $relation = $node->data_dir . '/'
  . $node->safe_psql('postgres', q{SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = 'pg_securefile_' || 'd'::regclass::oid || '_4'});
$node->stop;
my $pages = slurp($relation);
my @second = grep { unpack('v', substr($pages, $_ * 8192 + 8180, 2)) == 4 && unpack('Q<', substr($pages, $_ * 8192 + 40, 8)) == $leaf } 0 .. length($pages) / 8192 - 1;
cmp_ok(scalar(@second), '>=', 1, 'second leaf of a unit map');
patch($relation, $_ * 8192 + 32, "\xff") foreach @second;
$node->start;
is($node->safe_psql('postgres', "SELECT sound_pieces('d', 90, $unit)"), "$leaf XX001", 'pieces before a damaged leaf are sent');
$node->stop('immediate');
patch($relation, $_ * 8192 + 32, substr($pages, $_ * 8192 + 32, 1)) foreach @second;
$node->start;
is($node->safe_psql('postgres', "SELECT sound_pieces('d', 90, $unit)"), 2289, 'mended');
$node->safe_psql('postgres', 'DELETE FROM d WHERE id = 90');
sound($node, $_, 'streams') foreach ('d', 'c');
$node->stop;
done_testing();
