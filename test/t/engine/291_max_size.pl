# A column grows no further than its max_size: data files and pages of the segment relation
# together.  At the limit all of the map is looked through, and any run that serves is lent,
# before 53400 comes, which says how much sessions have reserved; what is freed is used again;
# 16 writers do not get past it.  TRUNCATE,
# a rewrite, LIKE, partitions and their ATTACH keep the limit; the owner changes it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileSpace;
use SecurefileTest;
use Test::More;

use constant { MAP_BLOCKS => 4096, BLOCK_BYTES => 4096, NO_BOUND => -1, WRITERS => 16 };

my $node = new_cluster('max_size', conf => [ 'securefile.monitor = off', "max_wal_size = '2GB'" ]);

# ---- tools ----

sub taken
{
	my ($table, $column) = @_;
	my $usage = usage($node, $table, $column || 'doc');
	return $usage->{file_bytes} + $usage->{metadata_bytes};
}

# Insert values of so many bytes, a transaction each, from id on until one is refused; how many
# went in, and the error.
sub fill_up
{
	my ($table, $from, $len) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "DO \$\$ BEGIN FOR i IN $from..$from + 100000 LOOP INSERT INTO $table VALUES (i, i, $len, blob(i, $len)); COMMIT; END LOOP; END \$\$",
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return (sql("SELECT count(*) FROM $table WHERE id >= $from"), $err);
}

# ---- one writer ----

my $limit = mb(4);
make_table($node, 't', "'max_size 4 MB'");
my ($rows, $error) = fill_up('t', 1, 200_000);
like($error, qr/ERROR:  53400: column "doc" of table "t" has reached its limit of 4 MB/, 'the error names the limit');
my $usage = usage($node, 't', 'doc');
like($error, qr/DETAIL:  Bytes of its files: $usage->{live_bytes} live, $usage->{pending_bytes} pending, $usage->{free_bytes} free\. Of the free ones \d+ are reserved by sessions, .* Bytes of its maps: $usage->{metadata_bytes}\./, 'it says where the bytes are');
like($error, qr/HINT:  .*securefile_set_max_size/, 'and what the owner can do');
cmp_ok(taken('t'), '<=', $limit, 'files and maps end before the limit');
cmp_ok(taken('t') + 200_000 + 65536, '>', $limit, 'and no value before it');
rows_right($node, 't', $rows, 'rows before the limit are right');
fails_with($node, 'INSERT INTO t SELECT 0, 0, 200000, blob(0, 200000)', '53400', 'limit of 4 MB', 'a value is refused again');
is(sql("INSERT INTO t SELECT 0, 0, 1000, blob(0, 1000) RETURNING id"), 0, 'values in rows do not count');

sql("DELETE FROM t WHERE id BETWEEN 1 AND $rows / 2");
my $before = usage($node, 't', 'doc')->{file_bytes};
my ($again) = fill_up('t', 1000, 200_000);
cmp_ok($again, '>=', int($rows / 2), 'what was deleted makes room for as much');
is(usage($node, 't', 'doc')->{file_bytes}, $before, 'without growth');
rows_right($node, 't', sql('SELECT count(*) FROM t'), 'rows are right after that');

# what an open snapshot sees is pending, and counts
my $reader = background($node);
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
sql('DELETE FROM t WHERE id >= 1000');
fails_with($node, 'INSERT INTO t SELECT 2000, 1, 200000, blob(1, 200000)', '53400', "live, [1-9]\\d+ pending", 'space that a snapshot sees is not free');
$reader->query_safe('COMMIT');
is(sql('INSERT INTO t SELECT 2000, 2000, 200000, blob(2000, 200000) RETURNING id'), 2000, 'afterwards it is');
$reader->quit;

# what a session has begun to write counts, too, until its transaction ends
my $writer = background($node);
$writer->query_safe(q{BEGIN; SELECT securefile_create('t', 'doc') AS h \gset});
$writer->query_safe('SELECT securefile_write(:h, blob(9, 1200000))');
fails_with($node, 'INSERT INTO t SELECT i, 1, 200000, blob(1, 200000) FROM generate_series(2001, 2020) i', '53400', 'Of the free ones [1-9]\d{6,} are reserved by sessions', 'space that a session has reserved is not free');
$writer->query_safe('ROLLBACK');
is(sql('INSERT INTO t SELECT 2001, 2001, 1500000, blob(2001, 1500000) RETURNING id'), 2001, 'afterwards it is');
sql('DELETE FROM t WHERE id = 2001');
$writer->quit;

# ---- the limit is changed ----

sql(q{ALTER TABLE t ALTER doc TYPE securefile('max_size 5 MB')});
my ($more) = fill_up('t', 3000, 200_000);
cmp_ok(taken('t'), '>', $limit, 'a higher limit lets the files grow');
cmp_ok(taken('t'), '<=', mb(5), 'up to it');
sql(q{ALTER TABLE t ALTER doc TYPE securefile('max_size 1 MB')});
fails_with($node, 'INSERT INTO t SELECT 9000, 1, 200000, blob(1, 200000)', '53400', 'limit of 1 MB', 'one below the present size ends growth');
is(sql('DELETE FROM t WHERE id = 3000 RETURNING id'), 3000, 'a DELETE works there');
is(sql('INSERT INTO t SELECT 3000, 3000, 200000, blob(3000, 200000) RETURNING id'), 3000, 'and free space is used');
sql('TRUNCATE t');
fill_up('t', 1, 200_000);
cmp_ok(taken('t'), '<=', mb(1), 'TRUNCATE keeps the limit');
sql(q{SELECT securefile_rewrite('t', 'doc', 'filesystem_like_logging')});
fails_with($node, 'INSERT INTO t SELECT i, i, 200000, blob(i, 200000) FROM generate_series(9001, 9009) i', '53400', 'limit of 1 MB', 'so does a rewrite into a new segment');
sql(q{ALTER TABLE t ALTER doc TYPE securefile(filesystem_like_logging)});
sql('INSERT INTO t SELECT i, i, 200000, blob(i, 200000) FROM generate_series(9001, 9009) i');
cmp_ok(taken('t'), '>', mb(1), 'no limit, no refusal');
sound($node, 't', 'after all of that');

# ---- other tables ----

sub type_of { return sql("SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '$_[0]'::regclass AND attname = 'doc'"); }

make_table($node, 'p', "'max_size 2 MB'", 'PARTITION BY RANGE (id)');
sql('CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000)', 'CREATE TABLE p2 (LIKE p)', 'CREATE TABLE copied AS SELECT * FROM p');
is(type_of($_), "securefile('max_size 2 MB')", "$_ has the limit") foreach ('p1', 'p2', 'copied');
sql(q{ALTER TABLE p2 ALTER doc TYPE securefile('max_size 3 MB')});
fails_with($node, 'ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (1000) TO (2000)', '42804', 'different type', 'another limit is another type');
sql(q{ALTER TABLE p2 ALTER doc TYPE securefile('max_size 2 MB')}, 'ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (1000) TO (2000)');
(my $first, $error) = fill_up('p', 1, 200_000);
like($error, qr/53400: column "doc" of table "p1" has reached its limit of 2 MB/, 'a partition has its limit');
my ($second) = fill_up('p', 1000, 200_000);
is($second, $first, 'and each its own');
sql(q{ALTER TABLE p ALTER doc TYPE securefile('max_size 96 GB')});
is(type_of($_), "securefile('max_size 96 GB')", "ALTER TABLE of the parent changes $_") foreach ('p1', 'p2');
is(sql('INSERT INTO p SELECT 500, 500, 200000, blob(500, 200000) RETURNING id'), 500, 'and lets it grow');

# ---- maps ----

# One byte in each 100 MB: little data, and a page of the map for each of them.
make_table($node, 'sparse', "'max_size 1 MB', compress");
my ($rc, $out, $err) = $node->psql('postgres', q{DO $$ DECLARE h int; BEGIN FOR i IN 1..100 LOOP
	h := securefile_create('sparse', 'doc');
	FOR at IN 1..8 LOOP PERFORM securefile_seek(h, at * 100000000::bigint, 0), securefile_write(h, '\x01'); END LOOP;
	INSERT INTO sparse VALUES (i, i, 0, securefile_finish(h)); COMMIT; END LOOP; END $$},
	extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/53400: column "doc" of table "sparse"/, 'inode pages count');
cmp_ok(taken('sparse'), '<=', mb(1) + 8 * 8192, 'so they do not get past the limit, but for a few pages');

# ---- 16 writers ----

$limit = mb(16);
make_table($node, 'w', "'max_size 16 MB', nocache");
my (@writers, @errors);
foreach my $n (1 .. WRITERS)
{
	my $err = '';
	push @errors, \$err;
	my $out = '';
	push @writers, IPC::Run::start([ 'psql', '-X', '-q', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c',
			"DO \$\$ BEGIN FOR i IN $n * 1000..$n * 1000 + 999 LOOP INSERT INTO w VALUES (i, i, i % 7 * 20000 + 5000, blob(i, i % 7 * 20000 + 5000)); COMMIT; END LOOP; END \$\$" ],
		'>', \$out, '2>', $errors[-1]);
}
$_->finish foreach @writers;
is(scalar(grep { $$_ =~ /53400: column "doc" of table "w" has reached its limit of 16 MB/ } @errors), WRITERS, 'each writer is refused in the end');
cmp_ok(taken('w'), '<=', $limit, 'and the limit is kept');
$usage = usage($node, 'w', 'doc');
cmp_ok($usage->{file_bytes}, '>', $limit - mb(1), 'all of it was used');
cmp_ok($usage->{free_bytes}, '<', mb(4), 'but for what sessions had reserved, and short runs');
rows_right($node, 'w', sql('SELECT count(*) FROM w'), 'their rows are right');
sound($node, 'w', '16 writers');

# ---- all of the map was looked through ----

SKIP:
{
	skip 'a build with fault points is needed', 8 if !sql(q{SELECT count(*) FROM pg_proc WHERE proname = 'securefile_fault'});
	c_functions('lend', 'lend(regclass, need int, most int, below bigint) RETURNS text', 'lend_back(regclass, start bigint, n int) RETURNS void');
	my $lend = sub { my ($need, $most) = @_; return sql("SELECT lend('m', $need, $most, " . NO_BOUND . ')'); };
	my $refused = sub { my ($need, $most, $name) = @_; return fails_with($node, "SELECT lend('m', $need, $most, " . NO_BOUND . ')', '53400', 'limit of 96 MB', $name); };

	# a scan looks at two map pages: this segment has six of them
	sql(q{SELECT securefile_fault('short_scan', 'skip', times => -1)});
	make_table($node, 'm', "'max_size 96 MB'");
	sql("SELECT lend('m', " . MAP_BLOCKS . ', ' . MAP_BLOCKS . ', ' . NO_BOUND . ') FROM generate_series(1, 5)');
	my ($start, $blocks) = split /\+/, $lend->(100, MAP_BLOCKS);
	cmp_ok($blocks, '>=', 100, 'growth up to the limit lends less than is wanted');
	$refused->(100, MAP_BLOCKS, 'beyond the limit there is nothing');
	while (1)
	{
		my ($rc) = $node->psql('postgres', "SELECT lend('m', 1, 4096, " . NO_BOUND . ')');
		last if $rc != 0;
	}
	cmp_ok(taken('m'), '<=', mb(96), 'lent space counts');
	# a run that is short, far from where scans stand, and less than a sixteenth of the whole
	sql(q{SELECT lend_back('m', 3000, 2), lend_back('m', 9000, 3), lend_back('m', 15000, 2)});
	is($lend->(3, MAP_BLOCKS), '9000+3', 'the one run that serves is found');
	$refused->(3, MAP_BLOCKS, 'there is no other');
	like($lend->(2, MAP_BLOCKS), qr{^(3000|15000)\+2$}, 'a shorter one is not refused with it');
	sql(q{SELECT lend_back('m', 20000, 4)});
	is($lend->(3, MAP_BLOCKS), '20000+4', 'and what is given back is found at once');
	sql(q{SELECT securefile_fault('short_scan', 'none')});
}

done_testing();
