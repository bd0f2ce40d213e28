# What ANALYZE sees of the segment: little of large values, nothing of files in rows; and
# it works where the segment cannot be read.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $node = new_cluster('analyze', conf => [ 'securefile.monitor = off', 'full_page_writes = off' ]);

sub ratio { return sql("ANALYZE $_[0]; SELECT ratio FROM securefile_columns WHERE relid = '$_[0]'::regclass") }

# Pages of the segment relation, or of TOAST, that ANALYZE reads.  Counts reach the view
# when their session ends, a little after its client.
sub reads
{
	my ($table, $columns, $relid) = @_;
	my $count = "SELECT sum($columns) FROM pg_statio_all_tables WHERE relid = $relid";
	sessions_are_gone($node, 'postgres');
	my $before = sql($count);
	sql("ANALYZE $table");
	sessions_are_gone($node, 'postgres');
	return sql($count) - $before;
}

# The ratio as it is, of a column with nothing but live values.
sub exact
{
	my ($table) = @_;
	my $live = settle($node, $table, 'doc')->{live_bytes};
	return sql("SELECT sum(length(doc)) / $live FROM $table, securefile_storage(doc) s WHERE s.form = 'stored'");
}

# Bytes that do not compress.
# Values with inode maps, since they have gaps: two units each, in front and behind.
sub gaps
{
	my ($table, $from, $to) = @_;
	sql("DO \$\$ DECLARE h int; BEGIN
		FOR i IN $from .. $to LOOP
			h := securefile_create('$table', 'doc');
			PERFORM securefile_write(h, noise(i, 131072));
			PERFORM securefile_seek(h, (i % 7 + 2) * 131072, 0);
			PERFORM securefile_write(h, convert_to(repeat('x', 131072), 'SQL_ASCII'));
			INSERT INTO $table VALUES (i, -1, -1, securefile_finish(h));
		END LOOP; END \$\$");
	return;
}

# Is an estimate that close to the exact ratio?
sub close_to
{
	my ($got, $want, $part, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($got =~ /^[\d.]+$/ && abs($got / $want - 1) < $part, $name) || diag("got $got, wanted $want");
}

# ---- large values: a part of them, and of each a part ----

make_table($node, 'few', 'compress, nocache');
gaps('few', 1, 40);
close_to(ratio('few'), exact('few'), 1e-5, 'few of them: exact');
my $segment = "(SELECT segment_relid FROM securefile_columns WHERE relid = 'few'::regclass)";
my $each = reads('few', 'heap_blks_read + heap_blks_hit', $segment) / 40;
cmp_ok($each, '>=', 1, 'their pages are read');
make_table($node, 'many', 'compress, nocache');
gaps('many', 1, 500);
close_to(ratio('many'), exact('many'), 0.1, 'many of them: near the exact ratio');
cmp_ok(reads('many', 'heap_blks_read + heap_blks_hit', $segment =~ s/few/many/r), '<=', 100 * $each + 5, 'those of 100 values at most');

# 8 TB and a little data: pages of the whole tree would be 180,000
make_table($node, 'long', 'compress');
sql("DO \$\$ DECLARE h int := securefile_create('long', 'doc'); BEGIN
	FOR i IN 0 .. 9 LOOP
		PERFORM securefile_seek(h, i * 800000000000, 0);
		PERFORM securefile_write(h, noise(i, 131072 * 3));
	END LOOP;
	INSERT INTO long VALUES (1, -1, -1, securefile_finish(h)); END \$\$");
cmp_ok(ratio('long'), '>', 1, 'a long one');
cmp_ok(reads('long', 'heap_blks_read + heap_blks_hit', $segment =~ s/few/long/r), '<', 40, 'costs a few pages');

# ---- files that tables keep in their rows are not looked at ----

sql('CREATE UNLOGGED TABLE unlogged (id int, doc securefile(compress)); INSERT INTO unlogged SELECT i, noise(i, 100000) FROM generate_series(1, 50) i');
is(ratio('unlogged'), '', 'nothing is said of values in rows');
is(reads('unlogged', 'toast_blks_read + toast_blks_hit', "'unlogged'::regclass"), 0, 'nor are they fetched');

# ---- without the segment ----

make_table($node, 'broken', 'compress, nocache');
gaps('broken', 1, 20);
sql('INSERT INTO broken SELECT i, -1, -1, noise(i, 50000) FROM generate_series(101, 110) i');
my $whole = ratio('broken');
close_to($whole, exact('broken'), 1e-5, 'sound');
my $flat = sql("SELECT sum(length(doc)) / sum((s.stored_bytes + 511) / 512 * 512) FROM broken, securefile_storage(doc) s WHERE id > 100");
my $file = segment_of($node, 'broken');
my $pages = do { $node->stop; slurp($file) };

# one inode page of 20; all of them; the header page
my @inodes = pages_of($pages, PAGE_INODE);
is(scalar(@inodes), 20, 'pages of unit maps');
patch($file, $inodes[7] * PAGE, garbage());
$node->start;
fails_with($node, 'SELECT sum(length(doc::bytea)) FROM broken', 'XX001', 'damaged|invalid page', 'a damaged page');
close_to(ratio('broken'), $whole, 0.2, 'ANALYZE goes by the others');
$node->stop;
patch($file, $_ * PAGE, garbage()) foreach @inodes;
$node->start;
close_to(ratio('broken'), $flat, 1e-5, 'all of them: by those whose maps are in rows');
$node->stop;
patch($file, 0, garbage());
$node->start;
fails_with($node, 'SELECT doc::bytea FROM broken WHERE id = 1', 'XX001', 'invalid page in block 0', 'a damaged header page');
is(sql('ANALYZE broken; SELECT n_distinct, null_frac, avg_width > 30 FROM pg_stats WHERE tablename = \'broken\' AND attname = \'doc\''), '0|0|t', 'ANALYZE works');
close_to(sql("SELECT securefile_column_ratio('broken'::regclass, 4::smallint)"), $flat, 1e-5, 'by maps in rows');
$node->stop;
patch($file, 0, $pages);
$node->start;
close_to(ratio('broken'), $whole, 1e-5, 'mended');

# a segment relation that is not there, as between pg_upgrade and securefile_upgrade_finish()
my $name = sql("SELECT relname FROM pg_class WHERE oid = " . ($segment =~ s/few/broken/r));
sql("UPDATE pg_class SET relname = 'away' WHERE relname = '$name'");
fails_with($node, 'SELECT doc::bytea FROM broken WHERE id = 1', '42704', 'no longer exists', 'no segment');
close_to(ratio('broken'), $flat, 1e-5, 'ANALYZE without it');
sql("UPDATE pg_class SET relname = '$name' WHERE relname = 'away'");

# no library
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
close_to(ratio('broken'), $flat, 1e-5, 'ANALYZE without preload');
is(sql("ANALYZE; SELECT count(*) FROM securefile_columns WHERE ratio IS NOT NULL"), 1, 'of the whole database');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'securefile'");
$node->restart;
close_to(ratio('broken'), $whole, 1e-5, 'with it again');

# beside others, by VACUUM ANALYZE and by autovacuum
sql('VACUUM ANALYZE few');
close_to(sql("SELECT securefile_column_ratio('few'::regclass, 4::smallint)"), exact('few'), 1e-5, 'VACUUM ANALYZE');
make_table($node, 'tended', 'compress', "WITH (autovacuum_analyze_threshold = 1, autovacuum_analyze_scale_factor = 0)");
$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1");
$node->reload;
gaps('tended', 1, 10);
ok(wait_for_sql($node, "SELECT ratio IS NOT NULL FROM securefile_columns WHERE relid = 'tended'::regclass"), 'autovacuum');
close_to(sql("SELECT securefile_column_ratio('tended'::regclass, 4::smallint)"), exact('tended'), 1e-5, 'sees the same');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP: |terminated by signal/, 'no crash');

$node->stop;
done_testing();
