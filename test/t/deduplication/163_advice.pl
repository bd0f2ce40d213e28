# Advice on duplicates (space/advice.c), called by a module of this test: what a model of extendible
# hashing says is found, and no more; the index grows with its entries, and not without them;
# sessions that add and split at once lose nothing and do not wait; transactions, errors and
# crashes leave it sound; a standby has the same pages; damage finds nothing, says so once,
# and is repaired.
#
# With SECUREFILE_ADVICE_ENTRIES=1000000 the model is compared with a million entries.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileCrash;
use SecurefilePages;
use SecurefileSpace;
use SecurefileTest;
use Test::More;

use constant {
	PAGE_BUCKET => 8,
	LINKS => CONTENT + 8,
	ENTRIES => CONTENT + 136,
	ADVICE_ROOT => CONTENT + 108
};

my $entries = $ENV{SECUREFILE_ADVICE_ENTRIES} || 70_000;
my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
srand($seed);
note("seed $seed");

my $node = new_cluster('advice', init => { allows_streaming => 1 },
	conf => [ 'securefile.monitor = off', 'restart_after_crash = on', "shared_buffers = '128MB'", "max_wal_size = '4GB'", "checkpoint_timeout = '1h'" ]);
need_faults($node);
c_functions('advice',
	'advice_add(regclass, key bigint, page int, cell int, kind int) RETURNS void',
	'advice_remove(regclass, key bigint, page int, cell int, kind int) RETURNS void',
	'advice_find(regclass, key bigint, kind int) RETURNS text',
	'advice_fill(regclass, seed bigint, first bigint, n bigint) RETURNS float8',
	'advice_lost(regclass, seed bigint, first bigint, n bigint) RETURNS bigint',
	'advice_against_model(regclass, seed bigint, n bigint, cluster_every int) RETURNS text');

sub tables
{
	sql(map { "CREATE TABLE $_ (id int PRIMARY KEY, seed int, len int, doc securefile)" } @_);
	return;
}

sub is_sound
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql("SELECT finding || ': ' || detail FROM securefile_check('$table', 'doc') LIMIT 3"), '', "$name: check");
}

# Those of a series that are not found.
sub lost
{
	my ($table, $first, $n, $on) = @_;
	return ($on || $node)->safe_psql('postgres', "SELECT advice_lost('$table', 1, $first, $n)");
}

# ---- what is found ----

tables('few', 'many', 'clustered', 'mixed');
is(sql("SELECT advice_find('few', 7, 1)"), '', 'no advice yet');
sql("SELECT advice_remove('few', 7, 2, 0, 1)");
sql(map { "SELECT advice_add('few', 7, 2, $_, 1)" } 1 .. 3);
is(sql("SELECT advice_find('few', 7, 1)"), '2.3 2.2 2.1', 'the newest one first');
sql("SELECT advice_add('few', 7, 2, 2, 1)");
is(sql("SELECT advice_find('few', 7, 1)"), '2.3 2.2 2.1', 'one that is there is not added again');
sql("SELECT advice_add('few', 7, 2, 9, 2)");
is(sql("SELECT advice_find('few', 7, 2), advice_find('few', 7, 1), advice_find('few', 8, 1)"), '2.9|2.3 2.2 2.1|', 'by key and kind');
sql("SELECT advice_add('few', 7, 2, 4, 1)", "SELECT advice_add('few', 7, 2, 5, 1)");
is(sql("SELECT advice_find('few', 7, 1), advice_find('few', 7, 2)"), '2.5 2.4 2.3 2.2|2.9', 'four of a key and kind');
sql("SELECT advice_remove('few', 7, 2, 4, 1)", "SELECT advice_remove('few', 7, 3, 5, 1)");
is(sql("SELECT advice_find('few', 7, 1)"), '2.5 2.3 2.2', 'removed by value');
is_sound('few', 'a few entries');

# ---- against the model ----

# What is in the table is what the model has; the numbers of both.
sub against_model
{
	my ($table, $n, $cluster_every) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $said = sql("SELECT advice_against_model('$table', $seed, $n, $cluster_every)", 'CHECKPOINT');
	like($said, qr/^wrong 0, /, "$table: all is found that the model finds, and no more") or diag($said);
	my %said = $said =~ /(\w+) (\d+)/g;
	is(scalar(pages_of(slurp(segment_of($node, $table)), PAGE_BUCKET)), $said{buckets}, "$table: as many buckets as the model has");
	is_sound($table, $table);
	note("$table: $said");
	return %said;
}

my %many = against_model('many', $entries, 0);
ok($many{load} >= 40 && $many{load} <= 90, "the buckets are well filled: $many{load} %");
is($many{dropped}, 0, 'and none was full');
my %clustered = against_model('clustered', 3000, 1);
is("$clustered{entries} $clustered{buckets}", '334 33', 'keys that cannot be divided: the oldest entries go, a bucket for each bit is made');
my %mixed = against_model('mixed', 3 * $entries, 20);
cmp_ok($mixed{dropped}, '>', 0, 'a full bucket among others');
# every eighth page has the place of a map page
cmp_ok((-s segment_of($node, 'many')) / PAGE * 7 / 8, '<', $many{buckets} + 20, 'no other pages were made');

# ---- WAL ----

tables('logged');
sql("SELECT advice_fill('logged', 1, 1, 10)");
my $from = sql('SELECT pg_current_wal_insert_lsn()');
sql("SELECT advice_fill('logged', 1, 11, 100)");
my $bytes = sql("SELECT pg_current_wal_insert_lsn() - '$from'");
cmp_ok($bytes, '<=', 100 * 120, "an entry takes few bytes of WAL: $bytes bytes for 100");

# ---- transactions and errors ----

tables('tx');
sql('BEGIN', "SELECT advice_fill('tx', 1, 1, 10)", 'SAVEPOINT a', "SELECT advice_fill('tx', 1, 11, 10)", 'ROLLBACK TO a',
	"SELECT advice_fill('tx', 1, 21, 10)", 'ROLLBACK');
is(lost('tx', 1, 30), 0, 'entries of a transaction that failed stay');
is_sound('tx', 'a transaction that failed');

# Each of these fails in a savepoint, is tried again, and all is there.
my @faults = ([ 'page_extend', 0 ], [ 'page_extend', 3 ], [ 'advice_before_record', 0 ], [ 'advice_before_record', 2 ], [ 'advice_look_up', 900 ], [ 'advice_split', 0 ],
	[ 'advice_split', 3 ]);
tables(map { "fails_$_" } 0 .. $#faults);
foreach my $i (0 .. $#faults)
{
	my ($point, $skip) = @{ $faults[$i] };
	my $fill = "SELECT advice_fill('fails_$i', 1, 1, 3000);";
	$node->psql('postgres', "SELECT securefile_fault('$point', 'error', skip => $skip); BEGIN; SAVEPOINT a; $fill ROLLBACK TO a; $fill COMMIT", on_error_stop => 0, stderr => \my $err);
	is(join(' ', $err =~ /(?:ERROR|WARNING):\s+(.*)/g), "fault point $point", "$point fails");
	is(lost("fails_$i", 1, 3000), 0, "$point: nothing is lost");
	is_sound("fails_$i", $point);
}

# ---- sessions at once ----

# Buckets of a table.
sub buckets
{
	my ($table) = @_;
	sql('CHECKPOINT');
	return scalar(pages_of(slurp(segment_of($node, $table)), PAGE_BUCKET));
}

tables('race', 'eight');
sql("SELECT advice_fill('race', 1, 1, 3000)");
my ($session, $other) = map { background($node) } 1 .. 2;
$session->query_safe("SELECT advice_lost('race', 1, 1, 3000)");
ok(held($node, $session, 'advice_look_up', "SELECT advice_fill('race', 1, 100001, 1)"), 'an adder knows its bucket from before');
sql("SELECT advice_fill('race', 1, 3001, 12000)");
resume($node, $session, 'advice_look_up');
is(lost('race', 100_001, 1), 0, 'an entry is put where it is looked for, whatever was split meanwhile');
ok(held($node, $session, 'advice_look_up', "SELECT 'lost: ' || advice_lost('race', 1, 1, 1)"), 'a session knows the bucket of an entry from before');
sql("SELECT advice_fill('race', 1, 15001, 15000)");
like(resume($node, $session, 'advice_look_up'), qr/^lost: 0$/m, 'and finds it in the bucket that it went to');
is_sound('race', 'splits beside others');

my $first = 30_001;
ok(held($node, $session, 'advice_split', "SELECT advice_fill('race', 1, $first, 40000)"), 'a session splits a bucket');
my $before = buckets('race');
$other->query_safe("SELECT advice_fill('race', 1, 200001, 2000)");
cmp_ok(buckets('race'), '>=', $before, 'another one adds on, without waiting');
$other->query_safe("SELECT advice_fill('race', 1, 300001, 20000)");
cmp_ok(buckets('race'), '>', $before, 'and splits buckets, that one as well');
resume($node, $session, 'advice_split');
$_->quit foreach $session, $other;
is(lost('race', 1, 70_000) + lost('race', 200_001, 2000) + lost('race', 300_001, 20_000), 0, 'and nothing is lost');
is_sound('race', 'two splitters of one bucket');

my $script = "$ENV{TESTDIR}/advice.sql";

sql("SELECT advice_fill('eight', 1, 1000001, 60000)");
$before = buckets('eight');
write_file($script, "SELECT advice_fill('eight', 1, :client_id * 100000 + 1, 4000);\n");
$node->command_ok([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '1', '-f', $script, '-d', $node->connstr('postgres') ], 'eight sessions add at once');
is(sql("SELECT sum(advice_lost('eight', 1, i * 100000 + 1, 4000)) FROM generate_series(0, 7) i") + lost('eight', 1_000_001, 60_000), 0, 'nothing is lost');
cmp_ok(buckets('eight'), '>', $before, 'buckets were split meanwhile');
is_sound('eight', 'eight sessions');

# ---- a standby ----

$node->backup('base');
my $standby = new_standby('standby', $node, 'base');
tables('copied');
sql("SET wal_consistency_checking = 'all, securefile'", "SELECT advice_fill('copied', 1, 1, 2000)", "SELECT advice_remove('copied', 7, 2, i, 1) FROM generate_series(0, 3) i",
	"SELECT advice_add('copied', 7, 2, i, 1) FROM generate_series(0, 7) i", "SELECT advice_remove('copied', 7, 2, i, 1) FROM generate_series(0, 5) i");
catch_up($node, $standby);
is(lost('copied', 1, 2000, $standby), 0, 'a standby finds the same');
is($standby->safe_psql('postgres', "SELECT advice_find('copied', 7, 1), advice_find('few', 7, 1), advice_find('tx', 7, 1)"), '2.7 2.6|2.5 2.3 2.2|', 'and no more');
is(lost('eight', 1, 4000, $standby), 0, 'also what was there before');
unlike(slurp($standby->logfile), qr/inconsistent page|FATAL|PANIC/, 'its pages are the same');
$standby->stop;

# ---- crashes ----

my @kills = map { [ 'advice_before_record', $_ ], [ 'advice_split', $_ ] } $ENV{SECUREFILE_ADVICE_ENTRIES} ? (0 .. 9) : int(rand(8));
tables('kept', map { "kills_$_" } 0 .. $#kills);
foreach my $i (0 .. $#kills)
{
	my ($point, $skip) = @{ $kills[$i] };
	my $table = "kills_$i";
	# the commit of a row makes all WAL before durable
	sql("SELECT advice_fill('$table', 1, 1, 1500)", "INSERT INTO kept VALUES ($i)");
	ok(dies_at($node, $point, 'kill', "SELECT advice_fill('$table', 1, 1501, 6000)", skip => $skip), "killed at pass $skip of $point");
	is(lost($table, 1, 1500), 0, "killed at $point: nothing durable is lost");
	is_sound($table, "killed at $point");
	sql("SELECT advice_fill('$table', 1, 1501, 6000)");
	is(lost($table, 1, 7500), 0, "killed at $point: adds go on");
	is_sound($table, "adds after a kill at $point");
}

# all is killed while sessions add, and once more while the server recovers from that
tables('torn');
sql("SELECT advice_fill('torn', 1, 1, 1500)", 'INSERT INTO kept VALUES (-1)');
write_file($script, "\\set first random(1, 1000000)\nSELECT advice_fill('torn', 1, 1501 + 300 * :first, 300);\n");
$before = buckets('torn');
$from = sql('SELECT pg_current_wal_insert_lsn()');
my $adders = IPC::Run::start([ 'pgbench', '-n', '-c', '4', '-t', '1000000', '-f', $script, '-d', $node->connstr('postgres') ], '>', \my $out, '2>', \my $err);
my $wal = 200_000 + int(rand(500_000));
wait_for_sql($node, "SELECT pg_current_wal_flush_lsn() - '$from' > $wal") or die 'nothing is added';
crash($node);
$adders->finish;
my $replayed = to_replay($node)->{redo_pages};
ok(!start_with($node, 'redo_pages:kill:' . int(rand($replayed))), "killed in recovery, of $replayed records");
ok(start_with($node, ''), 'and started');
# a bucket has hundreds of entries; while a split waits for the processor, a full one drops
# old entries
my $dropped = 100;
cmp_ok(lost('torn', 1, 1500), '<', $dropped, 'all was killed: nothing durable is lost');
is_sound('torn', 'all was killed');
cmp_ok(buckets('torn'), '>', $before, 'all was killed while it grew');
sql("SELECT advice_fill('torn', 1, 1501, 3000)");
cmp_ok(lost('torn', 1, 4500), '<', $dropped, 'all was killed: adds go on');

# ---- damage ----

my $n = 2000;
my %pages;    # table => { all, first, bucket, below }, pages, and entries that the bucket leads to

sub number { return unpack('V', substr($_[0], $_[1], 4)); }

# The buckets that one leads to, and the entries in it and all of these.
sub links_of
{
	my ($all, $page) = @_;
	return grep { $_ != 0 } unpack('V32', substr($all, $page * PAGE + LINKS, 128));
}

sub below
{
	my ($all, $page) = @_;
	my $n = unpack('v', substr($all, $page * PAGE + CONTENT + 4, 2));
	$n += below($all, $_) foreach links_of($all, $page);
	return $n;
}

# Changes of the file of a table, given its pages: [ page, offset, bytes ], with or without a
# seal; the entries that cannot be found then, or undef; warnings of a session; a finding.
my @zeros = (0, "\0" x PAGE);
my %damage = (
	first_of_zeros => sub { return ([ $_[0]{first}, @zeros ], $n, 1, 'damaged page') },
	bucket_of_zeros => sub { return ([ $_[0]{bucket}, @zeros ], $_[0]{below}, 1, 'damaged page') },
	first_of_noise => sub { return ([ $_[0]{first}, 0, garbage() ], $n, 1, 'damaged page') },
	bucket_of_noise => sub { return ([ $_[0]{bucket}, 0, garbage() ], $_[0]{below}, 1, 'damaged page') },
	bucket_with_wrong_bit => sub { return ([ $_[0]{bucket}, ENTRIES + 4, 'x', 'sealed' ], $_[0]{below}, 1, 'damaged page') },
	bucket_of_other_number => sub { return ([ $_[0]{bucket}, CONTENT, pack('V', 3) ], $_[0]{below}, 1, 'damaged page') },
	bucket_of_less_depth => sub { return ([ $_[0]{bucket}, CONTENT + 6, pack('C', 0) ], $_[0]{below}, 1, 'damaged page') },
	bucket_too_deep => sub { return ([ $_[0]{bucket}, CONTENT + 6, pack('C', 33) ], $_[0]{below}, 1, 'damaged page') },
	bucket_deeper => sub { return ([ $_[0]{bucket}, CONTENT + 6, pack('C', 32) ], undef, 1, 'damaged page') },
	bucket_too_long => sub { return ([ $_[0]{bucket}, CONTENT + 4, pack('v', 335) ], $_[0]{below}, 1, 'damaged page') },
	bucket_of_other_keys => sub { return ([ $_[0]{bucket}, ENTRIES, pack('Q', 2) ], 1, 0, 'damaged page') },
	bucket_of_no_record => sub { return ([ $_[0]{bucket}, ENTRIES + 20, pack('v', 126) ], 1, 0, 'damaged page') },
	link_to_itself => sub { return ([ $_[0]{first}, LINKS, pack('V', $_[0]{first}) ], $_[0]{below}, 1, 'damaged page') },
	link_to_another => sub { return ([ $_[0]{first}, LINKS, pack('V', $_[0]{other}) ], $_[0]{below}, 1, 'damaged page') },
	link_to_header => sub { return ([ $_[0]{first}, LINKS, pack('V', 0) ], $_[0]{below}, 1, 'damaged page') },
	link_to_map => sub { return ([ $_[0]{first}, LINKS, pack('V', 1) ], $_[0]{below}, 1, 'damaged page') },
	link_beyond_end => sub { return ([ $_[0]{first}, LINKS, pack('V', 1_000_000) ], $_[0]{below}, 1, 'damaged page') },
	another_owner => sub { return ([ $_[0]{first}, LINKS, pack('V', number($_[0]{all}, PENDING_HEAD)) ], $_[0]{below}, 1, 'damaged page') },
	first_beyond_end => sub { return ([ 0, ADVICE_ROOT, pack('V', 1_000_000) ], $n, 1, 'damaged page') },
	all_forgotten => sub { return ([ 0, ADVICE_ROOT, pack('V', 0) ], $n, 0, 'used but not owned') });
my @damaged = sort keys %damage;
tables(@damaged);
fill($node, $_, 1, 1, 5000) foreach @damaged;
sql(map { "SELECT advice_fill('$_', 1, 1, $n)" } @damaged);
$_->{file} = segment_of($node, $_->{table}) foreach map { $pages{$_} = { table => $_ } } @damaged;
$node->stop;
my %expected;
foreach my $table (@damaged)
{
	my $pages = $pages{$table};
	my $all = $pages->{all} = slurp($pages->{file});
	$pages->{first} = number($all, ADVICE_ROOT);
	($pages->{bucket}, $pages->{other}) = links_of($all, $pages->{first});
	$pages->{below} = below($all, $pages->{bucket});
	my ($change, @expected) = $damage{$table}->($pages);
	my ($page, $offset, $bytes, $sealed) = @$change;
	$sealed ? patch($pages->{file}, $page * PAGE + $offset, $bytes) : change($pages->{file}, $page, $offset, $bytes);
	$expected{$table} = \@expected;
}
$node->start;
foreach my $table (@damaged)
{
	my ($lost, $warnings, $finding) = @{ $expected{$table} };
	my $find = "SELECT 'lost: ' || advice_lost('$table', 1, 1, $n);";
	my $check = "SELECT 'check: ' || finding, detail FROM securefile_check('$table', 'doc');";
	my $fill = "SELECT FROM advice_fill('$table', 1, 1, 3000);";
	my ($rc, $said, $err) = $node->psql('postgres', "$find $find SELECT FROM advice_remove('$table', 7, 2, 1, 1); $check $fill");
	is($rc, 0, "$table: no error") or diag($err);
	is(join(' ', $said =~ /lost: (\d+)/g), "$lost $lost", "$table: what is on sound pages is found") if defined $lost;
	is(scalar(() = $err =~ /WARNING:  advice on duplicates of column 4 of table/g), $warnings, "$table: warnings");
	like($said, qr/^check: $finding\|/m, "$table: check");
	like($said, qr/^check: .* belongs to another owner \(advice on duplicates, .*nothing is lost\)$/m, "$table: check says so") if $table eq 'another_owner';
	my $size = -s $pages{$table}{file};
	$said = sql("SELECT 'action: ' || action FROM securefile_repair('$table', 'doc', false)",
		"$check SELECT FROM advice_fill('$table', 1, 1, $n); $find SELECT 'size: ' || pg_relation_size('pg_toast.pg_securefile_' || '$table'::regclass::oid || '_4')",
		"$fill SELECT 'lost: ' || advice_lost('$table', 1, 1, 3000); $check SELECT 'row: ' || (doc::bytea = blob(1, 5000)) FROM $table");
	like($said, qr/^(?:action: (?:rebuild page|set free)\n)+lost: 0\nsize: $size\nlost: 0\nrow: true$/, "$table: a repair begins it anew, on the same pages");
}

# ---- contents that go ----

# Contents that are never the same again: the index does not grow with them.  A share record of
# an entry that is swept may be damaged.
sub rounds
{
	my ($from, $n) = @_;
	foreach my $round ($from .. $from + $n - 1)
	{
		sql("INSERT INTO churned SELECT i, i, 8, int8send($round * 10000 + i) FROM generate_series(1, 1500) i",
			'DELETE FROM churned WHERE id <= 1400', 'DELETE FROM churned WHERE id < 0', 'UPDATE churned SET id = -id');
		settle($node, 'churned', 'doc');
	}
	sql('CHECKPOINT');
	return scalar(pages_of(slurp(segment_of($node, 'churned')), PAGE_BUCKET));
}
sql('CREATE TABLE churned (id int, seed int, len int, doc securefile(deduplicate, disable_storage_in_row))');
my $buckets = rounds(1, 3);
is(rounds(4, 20), $buckets, "contents that go are swept: $buckets buckets stay as many");
cmp_ok($buckets, '<=', 16, 'and they are not many');
is_sound('churned', 'churned');
is(sql('SELECT count(*), count(*) FILTER (WHERE doc::bytea <> int8send(23 * 10000 + seed)) FROM churned'), '100|0', 'what is left is right');
sql('INSERT INTO churned SELECT i, i, 8, int8send(23 * 10000 + i) FROM generate_series(1401, 1500) i');
is(sql(q{SELECT shared_objects, shared_references FROM securefile_usage('churned', 'doc')}), '100|200', 'and is found');

# ---- invariants ----

foreach my $name ('a1', 'a2')
{
	my $since = -s $node->logfile;
	$node->psql('postgres', "SELECT securefile_fault('break_$name', 'skip', pid => pg_backend_pid()); SELECT advice_fill('kept', 1, 1, 1000)");
	wait_restart($node, $since);
	like(substr(slurp($node->logfile), $since), qr/^TRAP: securefile assertion failed: \U$name\E: /m, "$name is asserted");
	is_sound('kept', $name);
}
is(() = slurp($node->logfile) =~ /TRAP: |PANIC/g, 2, 'and nothing else');
$node->stop;
done_testing();
