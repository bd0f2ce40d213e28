# Logical replication with what publications and subscriptions can be told: row
# filters, column lists, replica identities, binary = true, other types and
# columns on the subscriber, partitions, two_phase, streaming, TRUNCATE.  And slots
# without a subscriber.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my @conf = ('wal_level = logical', 'max_wal_senders = 10', 'max_replication_slots = 10', 'max_worker_processes = 16',
	'max_logical_replication_workers = 10', 'wal_retrieve_retry_interval = 100ms', 'logical_decoding_work_mem = 64kB');
my $pub = new_cluster('publisher', init => { allows_streaming => 'logical' }, conf => \@conf);
my $sub = new_cluster('subscriber', init => { allows_streaming => 'logical' }, conf => \@conf);
my $con = $pub->connstr . ' dbname=postgres';
my $columns = 'id int PRIMARY KEY, seed int, len int, doc securefile';

# the same on both sides, or only on one
sub both { my ($sql) = @_; $_->safe_psql('postgres', $sql) foreach ($pub, $sub); return }
sub on_pub { return $pub->safe_psql('postgres', $_[0]) }
sub on_sub { return $sub->safe_psql('postgres', $_[0]) }

# an INSERT of rows as those of fill()
sub put
{
	my ($table, $len, $from, $to) = @_;
	return "INSERT INTO $table (id, seed, len, doc) SELECT i, i, $len, blob(i, $len) FROM generate_series($from, $to) i; ";
}

# The changes of $sql, applied at once, and then the subscriber's rows.
sub follows
{
	my ($name, $sql, @want) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$pub->safe_psql('postgres', $_) foreach ref $sql ? @$sql : ($sql);
	$pub->wait_for_catchup($_) foreach split /\n/, on_sub('SELECT subname FROM pg_subscription WHERE subenabled');
	while (my ($table, $rows) = splice(@want, 0, 2))
	{
		rows_right($sub, $table, $rows, $name);
	}
	return;
}

# The same with a subscription that lags, and with the space of what has gone
# given back and used again, if it may be.
sub follows_late
{
	my ($name, $subscription, $sql, @want) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	on_sub("ALTER SUBSCRIPTION $subscription DISABLE");
	$pub->safe_psql('postgres', $_) foreach ref $sql ? @$sql : ($sql);
	on_pub('SELECT count(*) FROM securefile_columns, securefile_maintain(relid, attname)') for 1 .. 2;
	on_sub("ALTER SUBSCRIPTION $subscription ENABLE");
	return follows($name, '', @want);
}

sub ids { my ($table) = @_; return on_sub("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $table") }

# ---- slots without a subscriber ----
SKIP:
{
	skip 'no test_decoding', 8 if !-f $pub->config_data('--pkglibdir') . '/test_decoding.so';
	make_table($pub, 'alone');
	on_pub("SELECT pg_create_logical_replication_slot('alone', 'test_decoding')");
	on_pub(put('alone', 30000, 1, 3) . put('alone', 300000, 4, 4));
	on_pub('UPDATE alone SET seed = seed + 1, doc = blob(seed + 1, len)');
	my $between = on_pub('SELECT pg_current_wal_lsn()');
	on_pub('UPDATE alone SET seed = seed + 1, doc = blob(seed + 1, len); DELETE FROM alone WHERE id = 3');
	on_pub("SELECT securefile_maintain('alone', 'doc')") for 1 .. 2;
	my $held = usage($pub, 'alone', 'doc')->{pending_bytes};
	cmp_ok($held, '>', 780000, 'a slot holds old versions');
	my $sums = q{SELECT count(*), string_agg(md5(substring(data FROM '[0-9]+ seed.*')), '') FROM pg_logical_slot_%s_changes('alone', NULL, %s) WHERE data LIKE '%%doc%%'};
	my $peeked = on_pub(sprintf($sums, 'peek', 'NULL'));
	like($peeked, qr/^12\|/, 'peek: all versions');
	is(on_pub(sprintf($sums, 'peek', 'NULL')), $peeked, 'peek again: the same');
	my $right = q{SELECT count(*) FROM pg_logical_slot_peek_changes('alone', NULL, NULL),
		LATERAL regexp_match(data, 'id\[integer\]:(\d+) seed\[integer\]:(\d+) len\[integer\]:(\d+) doc\[securefile\]:''\\\\x([0-9a-f]*)''') m
		WHERE m IS NOT NULL AND decode(m[4], 'hex') = blob(m[2]::int, m[3]::int)};
	is(on_pub($right), 12, 'and each has its contents');
	on_pub("SELECT pg_replication_slot_advance('alone', '$between')");
	is(on_pub($right), 4, 'advanced: the later ones');
	like(on_pub(sprintf($sums, 'get', 'NULL')), qr/^4\|/, 'get');
	is(on_pub(sprintf($sums, 'get', 'NULL')), '0|', 'and no more');
	on_pub(put('alone', 14000000, 5, 5) . 'DELETE FROM alone');
	on_pub("SELECT securefile_maintain('alone', 'doc')");
	cmp_ok(usage($pub, 'alone', 'doc')->{pending_bytes}, '>', 14000000, 'held again');
	on_pub("SELECT pg_drop_replication_slot('alone')");
	sound($pub, 'alone', 'the slot is gone');
}

# ---- row filters ----
make_table($pub, 'o');
foreach (['doc IS NOT NULL', 'User-defined types are not allowed'], ['length(doc) > 10', 'User-defined or built-in mutable functions are not allowed|User-defined types are not allowed'],
	["doc = '\\x00'", 'User-defined'])
{
	fails_with($pub, "CREATE PUBLICATION refused FOR TABLE o WHERE ($_->[0])", '0A000', "invalid publication WHERE expression.*($_->[1])", "filter $_->[0]");
}
both("CREATE TABLE filt (id int, grp int, seed int, len int, doc securefile, PRIMARY KEY (id, grp));
	CREATE TABLE full_filt (LIKE filt); ALTER TABLE full_filt REPLICA IDENTITY FULL;
	CREATE TABLE cut (id int PRIMARY KEY, seed int, len int, doc securefile); CREATE TABLE only_doc (LIKE cut INCLUDING INDEXES)");
on_pub('CREATE PUBLICATION p_filt FOR TABLE filt WHERE (grp > 5), full_filt WHERE (grp > 5 AND len IS DISTINCT FROM 17),
	cut (id, seed, len), only_doc (id, doc)');
on_pub('INSERT INTO filt SELECT i, i % 2 * 10, i, 20000, blob(i, 20000) FROM generate_series(1, 10) i');
on_sub("CREATE SUBSCRIPTION s_filt CONNECTION '$con' PUBLICATION p_filt");
$sub->wait_for_subscription_sync($pub, 's_filt');
rows_right($sub, 'filt', 5, 'initial copy, filtered');
foreach my $t ('filt', 'full_filt')
{
	my @lengths = (20000, 300, 300000, 'NULL');
	my $rows = join(', ', map { my $i = 100 + 4 * $_; my $l = $lengths[$_];
		join(', ', map { sprintf('(%d, %d, %d, %s, blob(%d, %s))', $i + $_, $_ % 2 * 10, $i + $_, $l, $i + $_, $l) } 0 .. 3) } 0 .. 3);
	my $was = $t eq 'filt' ? 5 : 0;
	follows("$t, inserted", "INSERT INTO $t VALUES $rows", $t => $was + 8);
	my @moves = ("UPDATE $t SET grp = 10 - grp WHERE id >= 100 AND id % 4 IN (0, 1)",
		"UPDATE $t SET grp = 10, seed = seed + 7, doc = blob(seed + 7, len) WHERE id >= 100 AND id % 4 IN (2, 3)",
		"UPDATE $t SET seed = seed + 7, doc = blob(seed + 7, len) WHERE id = 100");
	follows("$t, moved in and out", \@moves, $t => $was + 12);
	is(ids($t), join(' ', ($t eq 'filt' ? (1, 3, 5, 7, 9) : ()), map { my $i = 100 + 4 * $_; ($i, $i + 2, $i + 3) } 0 .. 3), "$t: the rows of the filter");
	follows_late("$t, moved in and out, later", 's_filt', [ @moves, $moves[0], $moves[2], "UPDATE $t SET grp = 0", "DELETE FROM $t WHERE id = 101", "UPDATE $t SET grp = 10" ],
		$t => $t eq 'filt' ? 25 : 15);
}

# ---- column lists ----
on_sub('ALTER TABLE cut ALTER doc SET DEFAULT \'none\'');
follows('column lists', put('cut', 30000, 1, 4) . put('only_doc', 30000, 1, 4) . 'UPDATE cut SET seed = 40 WHERE id = 4; UPDATE only_doc SET doc = blob(40, 40000) WHERE id = 4');
is(on_sub(q{SELECT string_agg(concat_ws(' ', id, seed, len, convert_from(doc, 'UTF8')), ', ' ORDER BY id) FROM cut}),
	'1 1 30000 none, 2 2 30000 none, 3 3 30000 none, 4 40 30000 none', 'without the column');
is(on_sub('SELECT count(*) FROM only_doc WHERE seed IS NULL AND doc::bytea = CASE id WHEN 4 THEN blob(40, 40000) ELSE blob(id, 30000) END'), 4, 'with it, and little else');
on_pub('ALTER TABLE cut REPLICA IDENTITY FULL');
fails_with($pub, 'DELETE FROM cut', '42P10', 'cannot delete from table', 'identity FULL with a column list is refused');
on_sub('DROP SUBSCRIPTION s_filt');

# ---- replica identities ----
fails_with($pub, 'CREATE UNIQUE INDEX ON o (doc)', '42704', 'no default operator class for access method', 'a column cannot be an identity by index');
both('CREATE TABLE twins (doc securefile, id int, seed int, len int, other securefile(disable_storage_in_row)); ALTER TABLE twins REPLICA IDENTITY FULL;
	CREATE TABLE by_index (id int, seed int NOT NULL, len int, doc securefile); CREATE UNIQUE INDEX k ON by_index (seed);
	ALTER TABLE by_index REPLICA IDENTITY USING INDEX k');
on_pub('CREATE PUBLICATION p_ident FOR TABLE twins, by_index');
on_sub("CREATE SUBSCRIPTION s_ident CONNECTION '$con' PUBLICATION p_ident");
$sub->wait_for_subscription_sync($pub, 's_ident');

# what both sides hold, by content; twins counted
my $twins = q{SELECT string_agg(r, E'\n' ORDER BY r) FROM (SELECT concat_ws(' ', count(*), id, seed, len, md5(doc::bytea), md5(other::bytea)) AS r
	FROM twins GROUP BY id, seed, len, doc::bytea, other::bytea) s};
sub twins_same
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(on_sub($twins), on_pub($twins), $name);
}
my @changes = (
	# the same but for the contents of one column, of one length
	join('', map { "INSERT INTO twins SELECT blob(i, $_), 1, NULL, $_, 'same' FROM generate_series(1, 6) i; " } (30000, 3000, 200000)),
	# twins, empty ones, nulls
	"INSERT INTO twins SELECT blob(7, 30000), 2, 7, 30000, other::securefile FROM generate_series(1, 3), (VALUES (NULL), ('\\x'::bytea), (blob(8, 30000))) o (other)",
	"INSERT INTO twins SELECT NULL, 3, NULL, NULL, blob(9, 5000) FROM generate_series(1, 3)",
	'UPDATE twins SET other = doc WHERE ctid IN (SELECT min(ctid) FROM twins GROUP BY id, len)',
	'UPDATE twins SET doc = blob(20, 30000) WHERE ctid IN (SELECT max(ctid) FROM twins GROUP BY id, len)',
	'DELETE FROM twins WHERE id = 1 AND doc::bytea = blob(3, len)',
	'DELETE FROM twins WHERE ctid IN (SELECT min(ctid) FROM twins WHERE id > 1 GROUP BY id, other::bytea)');
follows('identity FULL', \@changes);
twins_same('identity FULL');
is(on_sub("SELECT count(*) FROM twins"), on_pub('SELECT count(*) FROM twins'), 'identity FULL: rows');
# old keys of versions that are long gone
follows_late('identity FULL', 's_ident', [ 'UPDATE twins SET other = doc, doc = other', @changes, 'UPDATE twins SET doc = other, id = id + 1', 'DELETE FROM twins WHERE id = 4', $changes[0] ]);
twins_same('identity FULL, later');
# both versions of a row in one change, in storage that has changed within the transaction, and which is gone
follows_late('identity FULL', 's_ident', [ 'INSERT INTO twins SELECT blob(i, 40000), 5, i, 40000, blob(i, 14000000) FROM generate_series(1, 2) i',
	(map { "SELECT securefile_rewrite('twins', 'doc', logging => '$_')" } ('filesystem_like_logging', 'logging')),
	"SELECT securefile_rewrite('twins', 'other', logging => 'filesystem_like_logging')", 'UPDATE twins SET doc = other, seed = 100' ]);
twins_same('identity FULL, logging mode swapped');
follows('identity USING INDEX', [ put('by_index', 30000, 1, 6), 'UPDATE by_index SET seed = seed + 100, doc = blob(seed + 100, len) WHERE id < 3', 'UPDATE by_index SET id = -id',
	'DELETE FROM by_index WHERE seed = 6' ], by_index => 5);
follows_late('identity USING INDEX', 's_ident', [ ('UPDATE by_index SET seed = seed + 100, len = len + 1, doc = blob(seed + 100, len + 1)') x 3, 'DELETE FROM by_index WHERE id = -5' ], by_index => 4);
sound($sub, 'by_index', 'identities');
sound($sub, 'twins', 'identities');
sound($sub, 'twins', 'identities', column => 'other', in_row => 0);
on_sub('DROP SUBSCRIPTION s_ident');
sound($pub, 'by_index', 'identities');

# ---- other types, other columns, binary ----
foreach my $binary ('false', 'true')
{
	my ($x, $y, $z) = map { $_ . ($binary eq 'true' ? '_bin' : '_text') } ('to_bytea', 'from_bytea', 'mixed');
	on_pub("CREATE TABLE $x ($columns); CREATE TABLE $y (id int PRIMARY KEY, seed int, len int, doc bytea);
		CREATE TABLE $z (id int PRIMARY KEY, gone int, seed int, len int, twice int GENERATED ALWAYS AS (len * 2) STORED, doc securefile, doc2 securefile(nocache));
		ALTER TABLE $z DROP COLUMN gone; CREATE PUBLICATION p_$x FOR TABLE $x, $y, $z;");
	on_sub("CREATE DOMAIN file_$binary AS securefile(filesystem_like_logging);
		CREATE TABLE $x (id int PRIMARY KEY, seed int, len int, doc bytea); CREATE TABLE $y ($columns);
		CREATE TABLE $z (more text DEFAULT 'more', doc2 file_$binary, bytes bigint GENERATED ALWAYS AS (length(doc)) STORED, doc securefile(disable_storage_in_row),
			len int, twice int, id int PRIMARY KEY, seed int)");
	my $fill = sub { my ($i) = @_; return join('', map { put($_, 30000, $i, $i + 3) . put($_, 300, $i + 4, $i + 5) . put($_, 0, $i + 6, $i + 6) . put($_, 'NULL', $i + 7, $i + 7) . put($_, 300000, $i + 8, $i + 8) } ($x, $y, $z)) };
	on_pub($fill->(1) . "UPDATE $z SET doc2 = doc");
	on_sub("CREATE SUBSCRIPTION s_$x CONNECTION '$con' PUBLICATION p_$x WITH (binary = $binary)");
	$sub->wait_for_subscription_sync($pub, "s_$x");
	rows_right($sub, $_, 9, "binary = $binary, initial copy") foreach ($x, $y, $z);
	follows("binary = $binary", [ $fill->(101), "UPDATE $z SET doc2 = doc WHERE id > 100 AND id % 2 = 0",
		map { ("UPDATE $_ SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id % 2 = 1", "DELETE FROM $_ WHERE id = 2", "UPDATE $_ SET id = id + 1000 WHERE id = 3") } ($x, $y, $z) ],
		map { $_ => 17 } ($x, $y, $z));
	is(on_sub("SELECT count(*) FILTER (WHERE bytes IS DISTINCT FROM len), count(*) FILTER (WHERE twice IS NOT NULL), count(*) FILTER (WHERE more = 'more'),
			count(*) FILTER (WHERE doc2::bytea = blob(id, len)) FROM $z"), '0|0|17|' . on_pub("SELECT count(*) FILTER (WHERE doc2::bytea = blob(id, len)) FROM $z"),
		"binary = $binary: other columns");
	on_sub("DROP SUBSCRIPTION s_$x");
	sound($sub, $y, "binary = $binary");
	sound($sub, $z, "binary = $binary", in_row => 0);
	sound($sub, $z, "binary = $binary", column => 'doc2');
}

# a type that takes no such bytes
on_pub("CREATE TABLE odd ($columns); CREATE PUBLICATION p_odd FOR TABLE odd");
on_sub("CREATE TABLE odd (id int PRIMARY KEY, seed int, len int, doc int); CREATE SUBSCRIPTION s_odd CONNECTION '$con' PUBLICATION p_odd WITH (binary, disable_on_error)");
$sub->wait_for_subscription_sync($pub, 's_odd');
my $offset = -s $sub->logfile;
on_pub(put('odd', 30000, 1, 1));
ok($sub->poll_query_until('postgres', "SELECT NOT subenabled FROM pg_subscription WHERE subname = 's_odd'"), 'integer column: disabled');
like(slurp_file($sub->logfile, $offset), qr/incorrect binary data format in logical replication column 4/, 'and says why');
on_sub('DROP SUBSCRIPTION s_odd');

# ---- partitions ----
my $parts = sub {
	my ($t) = @_;
	return "CREATE TABLE $t (id int PRIMARY KEY, seed int, len int, doc securefile) PARTITION BY RANGE (id);
		CREATE TABLE ${t}_1 PARTITION OF $t FOR VALUES FROM (0) TO (10);
		CREATE TABLE ${t}_2 (doc securefile, len int, seed int, id int NOT NULL); ALTER TABLE $t ATTACH PARTITION ${t}_2 DEFAULT;";
};
on_pub($parts->('root') . $parts->('leaves') . "CREATE TABLE whole ($columns);
	CREATE PUBLICATION p_root FOR TABLE root WITH (publish_via_partition_root); CREATE PUBLICATION p_leaves FOR TABLE leaves, whole");
on_sub("CREATE TABLE root ($columns);" . $parts->('leaves') . $parts->('whole'));
on_pub(put($_, 30000, 1, 20)) foreach ('root', 'leaves', 'whole');
on_sub("CREATE SUBSCRIPTION s_parts CONNECTION '$con' PUBLICATION p_root, p_leaves");
$sub->wait_for_subscription_sync($pub, 's_parts');
rows_right($sub, $_, 20, 'partitions, initial copy') foreach ('root', 'leaves', 'whole');
my @to_and_fro = map { (put($_, 300, 21, 24) . put($_, 200000, 25, 26) . "DELETE FROM $_ WHERE id IN (7, 8)", "UPDATE $_ SET id = id + 100 WHERE id IN (1, 2, 21)",
		"UPDATE $_ SET id = id - 15, seed = seed + 1, doc = blob(seed + 1, len) WHERE id = 22", "UPDATE $_ SET id = id - 24 WHERE id IN (25, 26)") } ('root', 'leaves', 'whole');
follows('partitions', \@to_and_fro, root => 24, leaves => 24, whole => 24);
follows_late('partitions, later', 's_parts', [ map { ("UPDATE $_ SET id = 1000 + id, seed = seed + 1, doc = blob(seed + 1, len)", "UPDATE $_ SET id = id - 1000", "UPDATE $_ SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 5",
		"UPDATE $_ SET id = id + 1000 WHERE id > 5", "TRUNCATE $_", put($_, 30000, 1, 12) . "UPDATE $_ SET id = id + 100 WHERE id = 1") } ('root', 'leaves', 'whole') ],
	root => 12, leaves => 12, whole => 12);
on_sub('DROP SUBSCRIPTION s_parts');
sound($sub, $_, 'partitions') foreach ('root', 'leaves_1', 'leaves_2', 'whole_1', 'whole_2');
sound($pub, $_, 'partitions') foreach ('root_1', 'root_2', 'leaves_1', 'whole');

# ---- values that the toaster has moved out of the row ----
my $wide = "id int, seed int, len int, grp int, pad text, doc securefile, PRIMARY KEY (id, grp)";
both("CREATE TABLE wide ($wide); CREATE TABLE wide_full (LIKE wide INCLUDING INDEXES); ALTER TABLE wide_full REPLICA IDENTITY FULL");
on_pub("ALTER TABLE $_ ALTER pad SET STORAGE PLAIN") foreach ('wide', 'wide_full');
on_pub('CREATE PUBLICATION p_wide FOR TABLE wide, wide_full WHERE (grp > 5)');
on_sub("CREATE SUBSCRIPTION s_wide CONNECTION '$con' PUBLICATION p_wide");
$sub->wait_for_subscription_sync($pub, 's_wide');
my @wide = map { ("INSERT INTO $_ SELECT i, i, 3900, 10, repeat('x', 4500), blob(i, 3900) FROM generate_series(1, 3) i",
	"INSERT INTO $_ SELECT i, i, 4000000, 10, repeat('x', 7900), blob(i, 4000000) FROM generate_series(4, 4) i") } ('wide', 'wide_full');
follows('moved out', \@wide, wide => 4, wide_full => 4);
is(on_pub("SELECT pg_relation_size(reltoastrelid) > 0 FROM pg_class WHERE oid = 'wide'::regclass"), 't', 'there are values moved out');
follows('moved out, not changed', [ map { "UPDATE $_ SET pad = 'y' || substr(pad, 2); UPDATE $_ SET id = id + 10 WHERE id IN (1, 4)" } ('wide', 'wide_full') ], wide => 4, wide_full => 4);
follows('moved out, out of and into the filter', 'UPDATE wide_full SET grp = 0 WHERE id IN (2, 14); UPDATE wide_full SET grp = 10 WHERE id IN (2, 14)', wide_full => 4);
follows_late('moved out, later', 's_wide', [ map { ("UPDATE $_ SET seed = seed + 1, doc = blob(seed + 1, len)", "UPDATE $_ SET pad = 'z' || substr(pad, 2)", "UPDATE $_ SET seed = seed + 1, doc = blob(seed + 1, len)", "UPDATE $_ SET id = id + 100") } ('wide', 'wide_full') ],
	wide => 4, wide_full => 4);
on_sub('DROP SUBSCRIPTION s_wide');

# ---- two_phase ----
make_table($_, 'two') foreach ($pub, $sub);
on_pub('CREATE PUBLICATION p_two FOR TABLE two');
on_sub("CREATE SUBSCRIPTION s_two CONNECTION '$con' PUBLICATION p_two WITH (two_phase)");
$sub->wait_for_subscription_sync($pub, 's_two');
ok($sub->poll_query_until('postgres', "SELECT subtwophasestate = 'e' FROM pg_subscription WHERE subname = 's_two'"), 'two_phase is enabled');
my $work = sub { my ($i) = @_; return put('two', 30000, $i, $i + 3) . 'SAVEPOINT a; ' . put('two', 300000, $i + 4, $i + 40) . "ROLLBACK TO a; SAVEPOINT b; " . put('two', 1000000, $i + 4, $i + 5) . "UPDATE two SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id IN ($i, $i + 4); " };
on_pub(put('two', 30000, 1, 10));
foreach my $end ('ROLLBACK', 'COMMIT')
{
	follows("two_phase, prepared for $end", 'BEGIN; ' . $work->(101) . "UPDATE two SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 3; DELETE FROM two WHERE id = 10; PREPARE TRANSACTION 'x'",
		two => 10);
	is(on_sub('SELECT count(*) FROM pg_prepared_xacts'), 1, 'prepared there, too');
	follows("two_phase, $end PREPARED", "$end PREPARED 'x'", two => $end eq 'COMMIT' ? 15 : 10);
	is(on_sub('SELECT count(*) FROM pg_prepared_xacts'), 0, 'and ended');
}
# the same with a slot that comes to the PREPARE after the end
my $gone = 'PREPARE TRANSACTION \'x\'; ROLLBACK PREPARED \'x\'';
follows_late('two_phase, later, COMMIT PREPARED', 's_two', [ 'BEGIN; ' . $work->(201) . "PREPARE TRANSACTION 'x'; COMMIT PREPARED 'x'", 'UPDATE two SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id > 200' ], two => 21);
follows_late('two_phase, later, ROLLBACK PREPARED', 's_two', [ 'BEGIN; ' . $work->(301) . $gone, put('two', 30000, 401, 420) ], two => 41);
follows_late('two_phase, later, ROLLBACK PREPARED, in a savepoint', 's_two', [ 'BEGIN; SAVEPOINT a; ' . put('two', 300000, 501, 540) . put('two', 14000000, 541, 541) . $gone, 'DELETE FROM two WHERE id = 420' ], two => 40);
on_sub('DROP SUBSCRIPTION s_two');
sound($_, 'two', 'two_phase') foreach ($pub, $sub);

# ---- streaming ----
both('CREATE TABLE stream (id int, grp int, seed int, len int, doc securefile, PRIMARY KEY (id, grp))');
on_pub('CREATE PUBLICATION p_stream FOR TABLE stream WHERE (grp > 5)');
on_sub("CREATE SUBSCRIPTION s_stream CONNECTION '$con' PUBLICATION p_stream WITH (streaming)");
$sub->wait_for_subscription_sync($pub, 's_stream');
sub puts { my ($len, $from, $to) = @_; return "INSERT INTO stream SELECT i, i % 2 * 10, i, $len, blob(i, $len) FROM generate_series($from, $to) i; " }
my $many = puts(10, 10001, 11000);		# enough for the memory of the decoder
my $nested = 'BEGIN; ' . puts(30000, 1, 20) . "SAVEPOINT a; " . puts(300000, 21, 40) . $many . "ROLLBACK TO a; SAVEPOINT b; " . puts(300000, 21, 30) .
	"SAVEPOINT c; UPDATE stream SET grp = 10 - grp WHERE id IN (1, 2, 21, 22); UPDATE stream SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id IN (1, 2, 3, 4, 21, 22); DELETE FROM stream WHERE id = 29; $many";
follows('streaming, savepoints, filter', $nested . 'COMMIT', stream => 514);
is(ids('stream') =~ s/ 10\d{3}.*//r, '2 3 5 7 9 11 13 15 17 19 22 23 25 27', 'streaming: the rows of the filter');
my $streamed = "SELECT sum(stream_count) FROM pg_stat_replication_slots WHERE slot_name = 's_stream'";
ok($pub->poll_query_until('postgres', "SELECT ($streamed) > 0"), 'there was streaming');
# what was rolled back has lost its space before a slot comes by
follows_late('streaming, later, rolled back', 's_stream', [ 'DELETE FROM stream', 'BEGIN; ' . puts(300000, 1, 40) . "$many ROLLBACK", 'BEGIN; ' . puts(14000000, 1, 2) . "$many ROLLBACK" ], stream => 0);
follows_late('streaming, later, rolled back to a savepoint', 's_stream', [ 'BEGIN; ' . puts(30000, 1, 2) . 'SAVEPOINT a; ' . puts(300000, 3, 40) . puts(14000000, 101, 101) . "$many ROLLBACK TO a; COMMIT",
	'BEGIN; ' . puts(300000, 1001, 1020) . "$many ROLLBACK" ], stream => 1);
follows_late('streaming, later', 's_stream', [ 'DELETE FROM stream', $nested . 'COMMIT', 'UPDATE stream SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 100' ], stream => 514);
on_sub('DROP SUBSCRIPTION s_stream');
sound($_, 'stream', 'streaming') foreach ($pub, $sub);

# ---- TRUNCATE ----
both("CREATE TABLE parent (id serial PRIMARY KEY, seed int, len int, doc securefile); CREATE TABLE child (id int PRIMARY KEY REFERENCES parent, seed int, len int, doc securefile)");
on_pub('CREATE PUBLICATION p_trunc FOR TABLE parent, child');
on_sub("CREATE SUBSCRIPTION s_trunc CONNECTION '$con' PUBLICATION p_trunc");
$sub->wait_for_subscription_sync($pub, 's_trunc');
follows('TRUNCATE CASCADE', [ put('parent', 300000, 1, 10) . put('child', 300000, 1, 5), 'TRUNCATE parent CASCADE', put('parent', 30000, 1, 3) ], parent => 3, child => 0);
on_sub("SELECT nextval('parent_id_seq') FROM generate_series(1, 5)");
follows('TRUNCATE RESTART IDENTITY', [ put('parent', 30000, 4, 5) . put('child', 30000, 1, 5), 'TRUNCATE parent, child RESTART IDENTITY',
	'BEGIN; ' . put('parent', 30000, 1, 3) . 'SAVEPOINT a; TRUNCATE parent, child; ROLLBACK TO a; COMMIT', put('child', 30000, 2, 2) ], parent => 3, child => 1);
is(on_sub("SELECT nextval('parent_id_seq')"), 1, 'the sequence there has restarted');
follows('TRUNCATE, in place too', [ 'BEGIN; TRUNCATE parent, child; ' . put('parent', 30000, 6, 7) . 'TRUNCATE parent, child; TRUNCATE parent, child; ' . put('parent', 30000, 1, 3) . put('child', 30000, 2, 2) . 'COMMIT' ],
	parent => 3, child => 1);
on_sub('ALTER SUBSCRIPTION s_trunc DISABLE; TRUNCATE parent, child; ALTER SUBSCRIPTION s_trunc ENABLE');
on_pub("ALTER PUBLICATION p_trunc SET (publish = 'insert, update, delete')");
follows('TRUNCATE that is not published', [ 'TRUNCATE parent, child', put('parent', 30000, 11, 13), 'TRUNCATE parent, child' ], parent => 3, child => 0);
on_sub('DROP SUBSCRIPTION s_trunc');
sound($sub, $_, 'TRUNCATE') foreach ('parent', 'child');
is($sub->safe_psql('postgres', 'SELECT string_agg(s.subname, \' \') FROM pg_subscription s') . $pub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '0', 'no slot is left');
unlike(slurp_file($pub->logfile), qr/ERROR:.*(damaged|no longer exists|not on this server)/, 'no value was missed');
$_->stop foreach ($sub, $pub);
done_testing();
