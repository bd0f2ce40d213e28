# Values of a column are stored again while the table is in use: some at a time, from a position
# on; all of them, by a procedure that commits.  Writers beside it go on, and what they move is
# found; rows that are locked are passed over and told.  After a crash nothing is lost.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $keys = PostgreSQL::Test::Utils::tempdir() . '/keys';
append_to_file($keys, 'one ' . ('11' x 32) . "\n");
chmod 0644, $keys;
my $node = new_cluster('rewrite_online', conf => ['securefile.monitor = off', 'autovacuum = off', 'restart_after_crash = on', "securefile.key_command = 'cat $keys'"]);

# Rows whose values are stored in another way than with that codec, or with another key.
sub wrong
{
	my ($t, $codec, $key) = @_;
	return sql("SELECT count(*) FROM $t, securefile_storage(doc) s WHERE length(doc) > 64 AND (s.codec <> '$codec' OR s.key_id <> " . ($key || 0) . ')');
}
my $text = "convert_to(rpad(md5(i::text), len, md5((i * 7)::text)), 'UTF8')";
my $right = "doc = convert_to(rpad(md5(id::text), len, md5((id * 7)::text)), 'UTF8')";
sub fill_text
{
	my ($t, $options, $more) = @_;
	sql("DROP TABLE IF EXISTS $t", "CREATE TABLE $t (id int PRIMARY KEY, len int, note int DEFAULT 0, doc securefile" . ($options ? "($options)" : '') . ') ' . ($more // ''));
	sql("INSERT INTO $t SELECT i, len, 0, $text FROM generate_series(1, 400) i, LATERAL (SELECT (ARRAY[0, 30, 200, 3000, 5000, 20000, 200000])[1 + i % 7] len) l");
	return;
}
sub all_right
{
	my ($t, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sql("SELECT count(*), count(*) FILTER (WHERE $right) FROM $t"), '400|400', "$name: contents");
	is(sql("SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, "$name: sound");
	return;
}

# ---- some at a time ----

fill_text('t', '');
is(sql("SELECT rewritten > 150, skipped, next_position IS NULL FROM securefile_rewrite_some('t', 'doc')"), 't|0|f', 'one batch takes all');
sql('ALTER TABLE t ALTER doc TYPE securefile(compress_low)');
my ($position, $calls, $sum) = ('NULL', 0, 0);
while ($position ne '' && $calls < 1000)
{
	my ($rewritten, $bytes, $skipped, $next) = split /\|/, sql("SELECT * FROM securefile_rewrite_some('t', 'doc', 1000000, $position)"), -1;
	$sum += $rewritten;
	$calls++;
	# the value that fills the batch is in it
	cmp_ok($bytes, '<', 1_200_000, 'a batch is no larger than asked for') if $bytes > 1_000_000;
	$position = $next eq '' ? '' : "'$next'";
}
cmp_ok($calls, '>', 10, 'many batches');
cmp_ok($sum, '<=', 800, 'no value again and again');
is(wrong('t', 'lz4'), 0, 'all are compressed');
all_right('t', 'batches');
is(sql("BEGIN; SELECT next_position IS NULL FROM securefile_rewrite_some('t', 'doc', 1); ROLLBACK; SELECT count(*) FROM t WHERE $right") =~ s/\n/ /r, 'f 400', 'a batch can be rolled back');

# ---- the procedure ----

foreach my $case ([ 'compress_high', 'zstd' ], [ 'nocompress, disable_storage_in_row', 'none' ], [ 'compress_medium', 'zstd' ], [ 'encrypt', 'none', 1 ], [ 'encrypt, compress', 'zstd', 1 ])
{
	my ($options, $codec, $key) = @$case;
	sql("ALTER TABLE t ALTER doc TYPE securefile($options)");
	sql("CALL securefile_rewrite_online('t', 'doc', 500000)");
	is(wrong('t', $codec, $key), 0, "$options: all are stored so");
	all_right('t', $options);
}
is(sql("SELECT securefile_new_key('t', 'doc')"), 2, 'a new key');
sql("CALL securefile_rewrite_online('t', 'doc', only_keys => true)");
is(wrong('t', 'zstd', 2), 0, 'only keys: all have the new one');
is(sql("SELECT rewritten, skipped, next_position FROM securefile_rewrite_some('t', 'doc', only_keys => true)"), '0|0|', 'a second call has nothing to do');
all_right('t', 'a new key');
sql('ALTER TABLE t ALTER doc TYPE securefile', "CALL securefile_rewrite_online('t', 'doc', only_keys => true)");
is(sql("SELECT count(*) FROM t, securefile_storage(doc) s WHERE s.key_id <> 0"), 0, 'back to plain');
all_right('t', 'plain');

# partitions and children, other columns of other numbers
sql('CREATE TABLE parts (id int, len int, note int, doc securefile) PARTITION BY RANGE (id)', 'CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (200)',
	'CREATE TABLE part_2 (doc securefile, other int, note int, id int, len int)', 'ALTER TABLE part_2 DROP other', 'ALTER TABLE parts ATTACH PARTITION part_2 FOR VALUES FROM (200) TO (1000)',
	'INSERT INTO parts SELECT id, len, note, doc FROM t', 'ALTER TABLE parts ALTER doc TYPE securefile(compress)', "CALL securefile_rewrite_online('parts', 'doc', 100000)");
is(wrong('parts', 'zstd'), 0, 'partitions');
all_right('parts', 'partitions');
fails_with($node, "SELECT securefile_rewrite_some('parts', 'doc')", '42809', 'partitioned table.*securefile_rewrite_online');

# ---- beside others ----

sql('ALTER TABLE t ALTER doc TYPE securefile(compress)');
my $other = background($node);
$other->query_safe('BEGIN; UPDATE t SET note = 1 WHERE id IN (3, 4); SELECT FROM t WHERE id = 5 FOR UPDATE');
my ($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '20s'; CALL securefile_rewrite_online('t', 'doc', 300000)");
is($rc, 0, 'locked rows are not waited for');
like($err, qr/NOTICE:  3 values were not stored again/, 'and told');
is(wrong('t', 'zstd'), 3, 'the others are done');
$other->query_safe('COMMIT');
sql("CALL securefile_rewrite_online('t', 'doc')");
is(wrong('t', 'zstd'), 0, 'then all are');
all_right('t', 'locked rows');

# old values that UPDATE carries behind the position
sql('ALTER TABLE t ALTER doc TYPE securefile(compress_low)');
$position = sql("SELECT next_position FROM securefile_rewrite_some('t', 'doc', 5000000)");
sql('UPDATE t SET note = note + 1', 'VACUUM t', 'UPDATE t SET note = note + 1', 'DELETE FROM t WHERE id = 400', "INSERT INTO t SELECT 400, 300, 0, $text FROM (VALUES (400, 300)) v (i, len)");
while ($position ne '')
{
	$position = sql("SELECT next_position FROM securefile_rewrite_some('t', 'doc', 5000000, '$position')");
	sql('UPDATE t SET note = note + 1 WHERE id % 50 = 0');
}
is(wrong('t', 'lz4'), 0, 'values that moved meanwhile are found');
all_right('t', 'moved values');

# each value is stored once: not again by what this session, or another one, has stored for it
foreach my $options ('keep_duplicates', 'deduplicate')
{
	sql("CREATE TABLE once (id int, doc securefile($options))", "INSERT INTO once SELECT i, $text FROM generate_series(1, 3) i, LATERAL (SELECT 100000 + i) v (len)", "CALL securefile_rewrite_online('once', 'doc')");
	my ($rewritten, $from) = (0, 'NULL');
	while ($from ne '')
	{
		my ($n, $next) = split /\|/, sql('INSERT INTO once VALUES (9, repeat($$x$$, 5000)::bytea); DELETE FROM once WHERE id = 9', "SELECT rewritten, next_position FROM securefile_rewrite_some('once', 'doc', 150000, $from)"), -1;
		$rewritten += $n;
		last if $rewritten > 10;
		$from = $next && "'$next'";
	}
	is($rewritten, 3, "$options: each value is stored once by batches of many sessions");
	sql('SELECT securefile_stat_reset()');
	is(sql("INSERT INTO once SELECT i, $text FROM generate_series(4, 5) i, LATERAL (SELECT 100000 + i) v (len); CALL securefile_rewrite_online('once', 'doc'); SELECT count(*) FROM once"), 5, "$options: rewritten by the session that has stored them");
	is(sql("SELECT bytes_nontransformed FROM securefile_stat WHERE relname = 'once'"), 700024, "$options: each of them once") if $options eq 'keep_duplicates';
	is(sql("SELECT dedup_hits FROM securefile_stat WHERE relname = 'once'"), 5, "$options: each of them once") if $options eq 'deduplicate';
	sql('DROP TABLE once');
}

# writers all the time; the view
sql('ALTER TABLE t ALTER doc TYPE securefile(compress_medium)');
my $rewriter = background($node);
ok(held($node, $rewriter, 'encode', "CALL securefile_rewrite_online('t', 'doc', 200000)", skip => 100), 'a rewrite is under way');
is(sql("SELECT datname, schema_name, table_name, column_name, pass, blocks_done <= blocks_total, rewritten > 50, rewritten_bytes > 100000, skipped FROM securefile_progress"), 'postgres|public|t|doc|1|t|t|t|0', 'the view shows it');
is(sql("SELECT count(*) FROM securefile_progress p JOIN pg_stat_activity USING (pid) WHERE query LIKE 'CALL%'"), 1, 'under its process');
sql("UPDATE t SET note = note + 1 WHERE id > 350", 'DELETE FROM t WHERE id = 399', "INSERT INTO t SELECT 399, 5000, 0, $text FROM (VALUES (399, 5000)) v (i, len)");
resume($node, $rewriter, 'encode');
$rewriter->quit;
is(sql('SELECT count(*) FROM securefile_progress'), 0, 'then no more');
is(wrong('t', 'zstd'), 0, 'all are done beside writers');
all_right('t', 'beside writers');

# cancelled, and lost
arm($node, 'encode', 'error', skip => 50);
sql('ALTER TABLE t ALTER doc TYPE securefile(compress_high)');
fails_with($node, "CALL securefile_rewrite_online('t', 'doc', 100000)", 'XX000|58030|53000', '');
disarm($node);
is(sql('SELECT count(*) FROM securefile_progress'), 0, 'an error ends what is shown');
all_right('t', 'after an error');
ok(dies_at($node, 'encode', 'kill', "CALL securefile_rewrite_online('t', 'doc', 100000)", skip => 50), 'a crash');
all_right('t', 'after a crash');
is(sql('SELECT count(*) FROM securefile_progress'), 0, 'nor is it shown after a crash');
sql("CALL securefile_rewrite_online('t', 'doc')");
all_right('t', 'in the end');

# ---- arguments and rights ----

fails_with($node, "BEGIN; CALL securefile_rewrite_online('t', 'doc'); COMMIT", '2D000', 'cannot run in a transaction block.*securefile_rewrite_some');
fails_with($node, "DO \$\$ BEGIN BEGIN CALL securefile_rewrite_online('t', 'doc'); EXCEPTION WHEN division_by_zero THEN END; END \$\$", '2D000', 'transaction');
sql("DO \$\$ BEGIN CALL securefile_rewrite_online('t', 'doc', 1000000); END \$\$");
fails_with($node, "SELECT securefile_rewrite_some('t', 'doc', $_)", '22023', 'at least 1 byte') foreach 0, -1;
fails_with($node, "SELECT securefile_rewrite_some('t', 'doc', 1, '$_')", '22023', 'invalid position') foreach '', 'x', '1 2 3', '1 2 3 4 5 6 7 8 9 10', '1 1 0 0 0 0 0 0 0', '1 1 1 5 0 4 0 0 0';
my $elsewhere = sql("SELECT next_position FROM securefile_rewrite_some('part_1', 'doc', 1)");
fails_with($node, "SELECT securefile_rewrite_some('t', 'doc', 1, '$elsewhere')", '22023', 'of another column');
fails_with($node, 'SELECT securefile_rewrite_some(NULL, NULL)', '22004', 'must not be null');
fails_with($node, "SELECT securefile_rewrite_some('t', 'len')", '42804', 'not of type securefile');
fails_with($node, "SELECT securefile_rewrite_some('t', 'none')", '42703', 'does not exist');
fails_with($node, "SET default_transaction_read_only = on; SELECT securefile_rewrite_some('t', 'doc')", '25006', 'read-only');
sql('CREATE ROLE somebody LOGIN', 'GRANT ALL ON t TO somebody');
fails_with($node, "SELECT securefile_rewrite_some('t', 'doc')", '42501', 'must be owner', 'for the owner only', user => 'somebody');
fails_with($node, "CALL securefile_rewrite_online('t', 'doc')", '42501', 'must be owner', 'the procedure, too', user => 'somebody');
sql('CREATE TABLE none (id int PRIMARY KEY, doc securefile)', 'CREATE TEMP TABLE temporary (doc securefile)', "INSERT INTO temporary VALUES (blob(1, 100000))",
	"CALL securefile_rewrite_online('none', 'doc')", "CALL securefile_rewrite_online('temporary', 'doc')");
sql("DELETE FROM t", "CALL securefile_rewrite_online('t', 'doc')");
is(sql("SELECT count(*) FROM securefile_check('t', 'doc')"), 0, 'sound at the end');
unlike(slurp($node->logfile), qr/TRAP: |PANIC/, 'no crash of its own');
done_testing();
