# What leaves a column that encrypts, and comes to one: dumps, logical replication to and from
# columns with and without the option, logical decoding, also of tables that are gone, the command,
# a driver's parameters.  Contents are the same on both sides.  A server without the master key
# says so, and goes on when it is loaded.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
chmod 0755, $dir;
my %key = (one => '11' x 32, two => '22' x 32, three => '33' x 32);
sub put_keys { my ($file, @names) = @_; write_file("$dir/$file", join '', map { "$_ $key{$_}\n" } @names); chmod 0644, "$dir/$file"; return }
put_keys('here', 'one');
put_keys('there');
my ($here, $there) = map { new_cluster($_, init => { allows_streaming => 'logical' }, conf => [ 'wal_level = logical', 'max_replication_slots = 10', 'max_wal_senders = 10',
		'logical_decoding_work_mem = 64kB', "wal_retrieve_retry_interval = '100ms'", "securefile.key_command = 'cat $dir/$_'" ]) } 'here', 'there';
sub load_keys { my ($node, @names) = @_; put_keys($node->name, @names); return $node->safe_psql('postgres', 'SELECT securefile_load_keys()') }
sub put { my ($t, $from, $to) = @_; return "INSERT INTO $t SELECT i, i, l, blob(i, l) FROM generate_series($from, $to) i, LATERAL (SELECT (ARRAY[0, 10, 3000, 4001, 150000])[i % 5 + 1]) v (l)" }

# Values that are encrypted and not, and the master key.
sub keys_of
{
	my ($node, $t, $db) = @_;
	return $node->safe_psql($db || 'postgres', "SELECT coalesce(string_agg(DISTINCT master_key, ' '), '') || ' ' || coalesce(sum(stored_values) FILTER (WHERE purpose = 'data'), 0) || ' ' || sum(stored_values) FILTER (WHERE purpose = 'plain') FROM securefile_keys('$t', 'doc', true)");
}

my %options = (e => 'encrypt', z => 'encrypt, compress_medium', f => 'encrypt, filesystem_like_logging', p => '');
make_table($here, $_, $options{$_}) foreach sort keys %options;
sql((map { put($_, 1, 20) } sort keys %options), 'CREATE DOMAIN secret AS securefile(encrypt)', 'CREATE TABLE d (id int, seed int, len int, doc secret)', 'INSERT INTO d SELECT * FROM e',
	'CREATE TABLE parts (id int, seed int, len int, doc securefile(encrypt)) PARTITION BY RANGE (id)', 'CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)', 'CREATE TABLE part_2 PARTITION OF parts DEFAULT',
	'INSERT INTO parts SELECT * FROM p');
my @encrypted = ('e', 'z', 'f', 'd');

# ---- dumps ----

my %dump = (plain => ['-Fp'], custom => ['-Fc'], directory => [ '-Fd', '-j2' ]);
foreach my $format (sort keys %dump)
{
	my $file = "$dir/$format";
	my @restore = $format eq 'plain' ? ('psql', '-X', '-q', '-f', $file) : ('pg_restore', $format eq 'directory' ? ('-j2') : (), $file);
	$here->command_ok([ 'pg_dump', @{ $dump{$format} }, '-Z' . ($format eq 'plain' ? 0 : 1), '-f', $file, $here->connstr('postgres') ], "$format: pg_dump");

	# without a master key the tables of encrypted columns are missing, all else is there
	$there->safe_psql('postgres', "CREATE DATABASE keyless");
	my ($rc, $out, $err) = (0, '', '');
	IPC::Run::run([ @restore, '-d', $there->connstr('keyless') ], '>', \$out, '2>', \$err);
	like($err, qr/there is no current master key\n.*DETAIL:  The command of securefile.key_command failed when the server started/s, "$format: restored without a master key: says so");
	is($there->safe_psql('keyless', q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace}), 'p', "$format: and makes other tables only");
	# psql takes the data of a COPY that failed for commands, and, seen with 16.14, a COPY after it for a part of them
	rows_right($there, 'p', 20, "$format: without a master key", 'keyless') unless $format eq 'plain' && int($there->pg_version) == 16;
	$there->safe_psql('postgres', 'DROP DATABASE keyless');

	load_keys($there, 'two');
	$there->safe_psql('postgres', "CREATE DATABASE $format");
	$here->command_ok([ @restore, '-d', $there->connstr($format) ], "$format: restored");
	is(join(', ', map { keys_of($there, $_, $format) } @encrypted, 'part_1', 'part_2'), join(', ', ('two 16 0') x 4, 'two 8 0', 'two 8 0'), "$format: all is encrypted, with a key of that server");
	is(keys_of($there, 'p', $format), ' 0 16', "$format: what was not is not");
	rows_right($there, $_, 20, "$format: restored", $format) foreach @encrypted, 'p', 'parts';
	is($there->safe_psql($format, "SELECT count(*) FROM $_, securefile_check('$_', 'doc')"), 0, "$format: $_ is sound") foreach @encrypted;
	put_keys('there');
	$there->restart;
}
load_keys($there, 'two');
# contents alone, into columns of other options
$there->safe_psql('postgres', join(';', map { "CREATE TABLE $_ (id int PRIMARY KEY, seed int, len int, doc securefile" . ($_ eq 'p' ? '(encrypt, compress_low)' : '') . ')' } sort keys %options));
$here->command_ok([ 'pg_dump', '-Fc', '-Z1', '--data-only', (map { ('-t', $_) } sort keys %options), '-f', "$dir/data", $here->connstr('postgres') ], 'pg_dump --data-only');
$here->command_ok([ 'pg_restore', '--data-only', '-d', $there->connstr('postgres'), "$dir/data" ], 'into tables of other options');
is(join(', ', map { keys_of($there, $_) } sort keys %options), ' 0 16,  0 16, two 16 0,  0 16', 'which say what is encrypted');
rows_right($there, $_, 20, 'data only') foreach sort keys %options;
$there->safe_psql('postgres', join(';', map { "TRUNCATE $_" } sort keys %options));

load_keys($here, 'three');
$here->command_fails_like([ 'pg_dump', '-t', 'e', $here->connstr('postgres') ], qr/pg_dump: .*master key "one" of column "doc" of table "e" is not loaded/s, 'pg_dump without the key');
$here->command_ok([ 'pg_dump', '-t', 'e', '--schema-only', '-f', "$dir/schema", $here->connstr('postgres') ], 'needs none for the schema');
load_keys($here, 'one');

# ---- logical replication ----

# whole: a table whose rows are known by all of their contents
sql('CREATE TABLE whole (id int, seed int, len int, doc securefile(encrypt, compress_low))', 'ALTER TABLE whole REPLICA IDENTITY FULL', put('whole', 1, 10), 'CREATE PUBLICATION pub FOR TABLE e, z, f, p, whole');
$there->safe_psql('postgres', 'CREATE TABLE whole (id int, seed int, len int, doc securefile(encrypt)); DROP TABLE f; CREATE TABLE f (id int PRIMARY KEY, seed int, len int, doc bytea)');
my $subscribe = "CREATE SUBSCRIPTION sub CONNECTION '" . $here->connstr . " dbname=postgres' PUBLICATION pub WITH (streaming = on)";
$there->safe_psql('postgres', $subscribe);
$there->wait_for_subscription_sync($here, 'sub');

# One test for each table: there is what is here.
sub same
{
	my ($name, @sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql(@sql) if @sql;
	$here->wait_for_catchup('sub');
	foreach my $t ('e', 'z', 'f', 'p', 'whole')
	{
		my $all = "SELECT count(*) || ' rows ' || coalesce(md5(string_agg(concat_ws(' ', id, seed, len, md5(doc::bytea)), '' ORDER BY id, seed, md5(doc::bytea))), '') FROM $t";
		is($there->safe_psql('postgres', $all), sql($all), "$name: $t");
	}
	return;
}

same('copied');
my @changes = map { my $t = $_; (put($t, 21, 30), "UPDATE $t SET doc = blob(seed + 1, len), seed = seed + 1 WHERE id % 3 = 0", "UPDATE $t SET doc = doc || 'x'::bytea WHERE id IN (2, 4, 5)", "UPDATE $t SET len = len", "UPDATE $t SET id = id + 1000 WHERE id > 25", "DELETE FROM $t WHERE id IN (3, 7)") } 'e', 'z', 'f', 'p', 'whole';
same('changed', @changes);
same('streamed before their end', 'BEGIN', (map { "INSERT INTO $_ SELECT 2000 + i, i, 3000, blob(i, 3000) FROM generate_series(1, 60) i" } 'e', 'z', 'f', 'p', 'whole'), 'UPDATE whole SET doc = blob(seed, 10) WHERE id > 2030', 'SAVEPOINT a', 'DELETE FROM e', 'ROLLBACK TO a', 'COMMIT');
like(keys_of($there, $_), qr/^two [1-9]\d+ 0$/, "the subscriber's column encrypts: $_") foreach 'p', 'whole';
like(keys_of($there, $_), qr/^ 0 [1-9]\d+$/, "the subscriber's column does not: $_") foreach 'e', 'z';
$there->safe_psql('postgres', 'ALTER SUBSCRIPTION sub SET (binary = true)');
same('binary', put('e', 3001, 3006), put('p', 3001, 3006), 'UPDATE z SET doc = blob(seed, len)');

# either side without its key
sub waits
{
	my ($node, $like, $name, @sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $offset = -s $node->logfile;
	sql(@sql);
	return ok(log_says($node, $like, $offset), $name);
}
load_keys($there, 'three');
waits($there, qr/ERROR:  master key "two" of column "doc" of table "whole" is not loaded/, 'a subscriber without its key cannot find a row by its old contents', 'DELETE FROM whole WHERE id = 8');
load_keys($there, 'two');
same('the key is loaded on the subscriber');
put_keys('there');
$there->restart;
waits($there, qr/ERROR:  there is no current master key/, 'a subscriber without a master key stores nothing', put('p', 4001, 4006));
load_keys($there, 'two');
same('and goes on when it has one', 'TRUNCATE whole');
load_keys($here, 'three');
waits($here, qr/ERROR:  master key "one" of column "doc" of table "e" is not loaded\n.*\n.*\n.*CONTEXT:  slot "sub", output plugin "pgoutput"/, 'a publisher without its key', 'UPDATE e SET id = id WHERE id < 5');
load_keys($here, 'one');
same('the key is loaded on the publisher', put('whole', 1, 5));
$there->safe_psql('postgres', 'DROP SUBSCRIPTION sub');

# ---- decoding, also of storage that is gone ----

SKIP:
{
	skip 'no test_decoding', 8 if !-f $here->config_data('--pkglibdir') . '/test_decoding.so';
	my $offset = -s $here->logfile;
	make_table($here, $_, $options{z}) foreach 'gone', 'cut', 'turned';
	make_table($here, 'swapped', $options{e});
	my @gone = ('gone', 'cut', 'turned', 'swapped');
	sql((map { "ALTER TABLE $_ REPLICA IDENTITY FULL" } @gone), q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')});
	sql((map { (put($_, 1, 10), "UPDATE $_ SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id > 5", "DELETE FROM $_ WHERE id IN (2, 9)") } @gone),
		'DROP TABLE gone', 'TRUNCATE cut', put('cut', 11, 15), 'ALTER TABLE turned ALTER doc TYPE bytea', q{SELECT securefile_rewrite('swapped', 'doc', 'filesystem_like_logging')}, 'DELETE FROM swapped WHERE id = 4');
	crash($here);
	$here->start;
	# values of new rows and old ones, by what the rows say of them
	my $decoded = q{SELECT count(*) || ' ' || count(*) FILTER (WHERE decode(m[4], 'hex') = blob(m[2]::int, m[3]::int)) FROM pg_logical_slot_peek_changes('slot', NULL, NULL),
		LATERAL regexp_matches(data, 'id\[integer\]:(\d+) seed\[integer\]:(\d+) len\[integer\]:(\d+) doc\[securefile\]:''\\\\x([0-9a-f]*)''', 'g') m};
	# each table: 10 inserted, 5 changed with what they were, 2 deleted
	my $values = 4 * (10 + 2 * 5 + 2) + 5 + 1;
	my $rewritten = sql(q{SELECT count(*) FROM pg_logical_slot_peek_changes('slot', NULL, NULL) WHERE data ~ 'public.swapped: UPDATE'}) - 5;
	is(sql($decoded), join(' ', ($values + 2 * $rewritten) x 2), 'all versions are decoded, with their contents');
	note("$rewritten of a rewrite");
	is(sql(q{SELECT count(*) FROM pg_logical_slot_peek_changes('slot', NULL, NULL) WHERE data ~ 'doc.securefile.:''\\\\x' AND data ~ 'public.(gone|cut|turned): (UPDATE|DELETE)'}), 21, 'old keys among them');
	# what is kept has the master key of then
	load_keys($here, 'two', 'one');
	sql(q{ALTER SYSTEM SET securefile.master_key = 'two'}, 'SELECT pg_reload_conf()');
	wait_for_sql($here, q{SELECT is_current FROM securefile_master_keys() WHERE name = 'two'});
	sql('SELECT securefile_rewrap()');
	is(sql($decoded), join(' ', ($values + 2 * $rewritten) x 2), 'after all keys were wrapped anew');
	load_keys($here, 'two');
	rows_right($here, 'parts', 20, 'the old master key is not needed');
	fails_with($here, $decoded, '55000', 'master key "one" of column "doc" of table "gone" is not loaded.*CONTEXT:  slot "slot"', 'but for what is kept of dropped columns');
	load_keys($here, 'two', 'one');
	is(sql($decoded), join(' ', ($values + 2 * $rewritten) x 2), 'and all is there when it is loaded again');
	sql(q{SELECT pg_drop_replication_slot('slot')}, q{SELECT securefile_maintain('e', 'doc')});
}

# ---- the command ----

enter($here);
sql(map { ("CREATE TABLE docs_$_ (name text PRIMARY KEY, document securefile($options{$_}))") } 'e', 'z', 'f');
my %tree = ('a' => '', 'b/small' => 'small', 'b/lines' => "line\n" x 30000, 'large' => join('', map { pack('N*', map { int(rand(2**32)) } 1 .. 1000) } 1 .. 200), 'c d/e' => 'x' x 4001);
write_file("tree/$_", $tree{$_}) foreach sort keys %tree;
foreach my $t ('docs_e', 'docs_z', 'docs_f')
{
	ends(0, qr/5 put/, "$t: import", 'import', '-t', $t, 'tree');
	is(sql("SELECT count(*) FROM $t, securefile_storage(document) s WHERE key_id > 0"), 4, "$t: all but the empty one are encrypted");
	ends(0, qr/same/, "$t: import again", 'import', '-t', $t, '--json', 'tree');
	ends(0, qr/^ *5  b\/small$/m, "$t: ls", 'ls', '-t', $t);
	my ($stat) = objects(ends(0, qr/"length":800000/, "$t: stat", 'stat', '-t', $t, '--json', '--hash', 'large'));
	is($stat->{stored} - $stat->{length}, 7 * 48, "$t: stat knows what encryption takes");
	is($stat->{xxh3}, sql("SELECT encode(securefile_digest(document, 'xxh3'), 'hex') FROM $t WHERE name = 'large'"), "$t: and the hash");
	ends(0, qr//, "$t: export", 'export', '-t', $t, "out_$t");
	trees_same('tree', "out_$t", "$t: export");
	ends(0, qr//, "$t: verify", 'verify', '-t', $t);
	ends(0, qr//, "$t: verify against files", 'verify', '-t', $t, '--against', 'tree');
	ends(0, qr//, "$t: put", 'put', '-t', $t, '--replace', 'tree/b/lines', 'large');
	is((command('cat', '-t', $t, 'large', 'b/small'))[1], $tree{'b/lines'} . 'small', "$t: cat");
	ends(0, qr//, "$t: rm", 'rm', '-t', $t, 'large');
}
load_keys($here, 'three');
ends(1, qr/master key "(one|two)" of column "document" of table "docs_e" is not loaded/, 'get without the key', 'get', '-t', 'docs_e', 'b/lines', 'nothing');
ok(!-e 'nothing', 'leaves no file');
ends(0, qr/ 5  b\/small/, 'ls needs none', 'ls', '-t', 'docs_e');
ends(0, qr//, 'nor rm', 'rm', '-t', 'docs_e', 'b/lines');
ends(0, qr//, 'nor verify of the column', 'verify', '-t', 'docs_e');
load_keys($here, 'two', 'one');

# ---- parameters ----

SKIP:
{
	skip 'no psycopg', 3 if system('/usr/bin/python3 -c "import psycopg" 2>/dev/null') != 0;
	foreach my $t ('e', 'z', 'f')
	{
		my $said = '';
		IPC::Run::run([ '/usr/bin/python3', "$FindBin::RealBin/../../cipher/parameters.py", $here->connstr('postgres'), $t ], '>&', \$said);
		is($said, "42 of 42\n", "$t: parameters of a driver");
	}
}
unlike(slurp_file($_->logfile), qr/TRAP: |PANIC|\bXX000\b|was terminated by signal/, $_->name . ': no crash') foreach $here, $there;
$_->stop foreach $there, $here;
done_testing();
