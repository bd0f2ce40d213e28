# Rotation of keys: data keys are wrapped with another master key, by column and for all of
# a database, and give way to new ones, which are trusted or not.  Whatever happens meanwhile,
# all values are read, and the old master key is needed no more when the function has returned.

use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
chmod 0755, $dir;

# A file of keys, which the command prints.
sub put_keys
{
	my ($file, @names) = @_;
	write_file("$dir/$file.new", join '', map { "$_ " . md5_hex($_) . md5_hex("$_ $_") . "\n" } @names);
	chmod 0644, "$dir/$file.new";
	rename "$dir/$file.new", "$dir/$file" or die $!;
	return;
}

put_keys('keys', 'one');
my $node = new_cluster('rotation', conf => [ 'securefile.monitor = off', 'restart_after_crash = on', 'allow_in_place_tablespaces = on',
	'checkpoint_timeout = 1h', "securefile.key_command = 'cat $dir/keys'", "securefile.master_key = 'one'",
	# what waits for itself is to fail
	'statement_timeout = ' . patience() . 's' ]);
need_faults($node);
prepare_handles($node);

# The server loads these keys, of which the first one is the current one.
sub load_keys
{
	my ($master, @others) = @_;
	put_keys('keys', $master, @others);
	sql("ALTER SYSTEM SET securefile.master_key = '$master'", 'SELECT pg_reload_conf()', 'SELECT securefile_load_keys()');
	wait_for_sql($node, "SELECT is_current FROM securefile_master_keys() WHERE name = '$master'") or die "$master is not current";
	return;
}

# Keys of a column: number, cipher or not, state, * for the current one, master key and
# whether it is missing, and how many values they have.
sub shown
{
	my ($table, $server) = @_;
	return ($server || $node)->safe_psql('postgres', "SELECT string_agg(coalesce(key_id::text, purpose) || coalesce(' ' || state, '') || CASE WHEN is_current THEN '*' ELSE '' END"
		  . " || coalesce(' ' || master_key, '') || CASE WHEN is_loaded IS false THEN ' missing' ELSE '' END || ': ' || stored_values, ', ' ORDER BY key_id) FROM securefile_keys('$table', 'doc', true)");
}
sub master_keys { my ($table) = @_; return sql("SELECT string_agg(DISTINCT master_key, ' ' ORDER BY master_key) FROM securefile_keys('$table', 'doc')"); }
sub key_ids { my ($table, $where) = @_; return sql("SELECT string_agg(key_id::text, ' ' ORDER BY id) FROM $table, securefile_storage(doc) WHERE " . ($where || 'true')); }

# Four rows: two values in the row, two in the segment.
sub four { my ($table, $from) = @_; fill($node, $table, $from, $from + 3, '10 + (i % 2) * 20000'); return; }

# A statement that succeeds: its result, and what else it has said.
sub told
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	die $err if $rc != 0;
	return ($out, $err);
}

# ---- columns without keys ----

sql('CREATE ROLE owner LOGIN', 'CREATE ROLE other LOGIN', 'GRANT CREATE ON SCHEMA public TO owner, other');
make_table($node, 't', 'encrypt');
make_table($node, 'plain', '');
is(shown('t'), 'plain: 0', 'no key, no value');
is(sql("SELECT count(*) FROM securefile_keys('t', 'doc')"), 0, 'without a scan no row');
is(sql("SELECT securefile_rewrap('t', 'doc')"), 0, 'nothing to wrap anew');
four('plain', 1);
sql(q{INSERT INTO plain VALUES (5, 5, 0, ''), (6, 6, NULL, NULL)});
is(shown('plain'), 'plain: 4', 'values without encryption; an empty one and a null have nothing to encrypt');
is(sql("SELECT securefile_rewrap('plain', 'doc')"), 0, 'a column without encrypt has nothing to wrap anew');
fails_with($node, "SELECT securefile_new_key('plain', 'doc')", '55000', 'column "doc" of table "plain" is not encrypted', 'nor does it get a key');
is(sql("SELECT securefile_new_key('t', 'doc')"), 1, 'a key before there is a value');
is(shown('t'), '1 usable* one: 0, plain: 0', 'new values will take it');
four('t', 1);
sql(q{INSERT INTO t VALUES (5, 5, 0, '')});
is(shown('t'), '1 usable* one: 4, plain: 0', 'and do, in rows and in the segment');
like(sql("SELECT purpose, cipher, created BETWEEN now() - interval '1 hour' AND now(), stored_values IS NULL FROM securefile_keys('t', 'doc')"), qr/^data\|(aes|chacha20)\|t\|t$/, 'the other columns');
sql('ALTER TABLE plain ALTER doc TYPE securefile(encrypt)');
fill($node, 'plain', 7, 8, '10 + (i % 2) * 20000');
is(shown('plain'), '1 usable* one: 2, plain: 4', 'a column that began without encryption');
sql('ALTER TABLE plain ALTER doc TYPE securefile(decrypt)');
is(shown('plain'), '1 usable one: 2, plain: 4', 'and ends without: no key is the current one');

# ---- who may, and on what ----

make_table($node, 'owned', 'encrypt');
sql('ALTER TABLE owned OWNER TO owner');
foreach my $call ("securefile_keys('owned', 'doc')", "securefile_rewrap('owned', 'doc')", "securefile_new_key('owned', 'doc')")
{
	fails_with($node, "SELECT $call", '42501', 'must be owner of table owned', "$call: not by others", user => 'other');
	is(($node->psql('postgres', "SELECT $call", extra_params => [ '-U', 'owner' ]))[0], 0, "$call: by the owner");
}
fails_with($node, "SELECT securefile_rewrap('owned', 'doc', 'one')", '42501', 'must be superuser to choose the master key', 'an owner does not choose the master key', user => 'owner');
fails_with($node, 'SELECT securefile_rewrap()', '42501', 'permission denied', 'all columns: not by others', user => 'owner');
sql('GRANT EXECUTE ON FUNCTION securefile_rewrap() TO owner');
fails_with($node, 'SELECT securefile_rewrap()', '42501', 'must be superuser', 'not even when granted', user => 'owner');
sql('CREATE UNLOGGED TABLE unlogged (doc securefile)', 'CREATE VIEW v AS SELECT * FROM t');
foreach my $function (qw(securefile_keys securefile_rewrap securefile_new_key))
{
	fails_with($node, "SELECT $function('unlogged', 'doc')", '55000', 'column "doc" of table "unlogged" has no segment', "$function: unlogged");
	fails_with($node, "CREATE TEMP TABLE temp (doc securefile); SELECT $function('temp', 'doc')", '55000', 'column "doc" of table "temp" has no segment', "$function: temporary");
	fails_with($node, "SELECT $function('v', 'doc')", '42809', 'is not a table', "$function: a view");
	fails_with($node, "SELECT $function('t', 'none')", '42703', 'does not exist', "$function: no such column");
	fails_with($node, "SELECT $function('t', 'id')", '42804', 'not of type securefile', "$function: of another type");
	fails_with($node, "SELECT $function('t', NULL)", '22004', 'must not be null', "$function: null");
	fails_with($node, "BEGIN READ ONLY; SELECT $function('t', 'doc')", '25006', 'read-only', "$function: read-only") if $function ne 'securefile_keys';
}
fails_with($node, 'BEGIN READ ONLY; SELECT securefile_rewrap()', '25006', 'read-only', 'all columns: read-only');
is(sql('BEGIN READ ONLY', "SELECT key_id FROM securefile_keys('t', 'doc')", 'COMMIT'), 1, 'securefile_keys in a read-only transaction');

# ---- another master key ----

load_keys('two', 'one');
is(shown('t'), '1 usable one: 4, plain: 0', 'another master key: the data key is not the current one any more');
four('t', 11);
is(shown('t'), '1 usable one: 4, 2 usable* two: 4, plain: 0', 'and the next value makes one');
is(sql("SELECT securefile_rewrap('t', 'doc')"), 1, 'one key is wrapped with the old master key');
is(sql("SELECT securefile_rewrap('t', 'doc')"), 0, 'and then none');
is(shown('t'), '1 usable two: 4, 2 usable* two: 4, plain: 0', 'both have the new one');
rows_right($node, 't', 9, 'wrapped anew');
is(sql('SELECT securefile_rewrap()'), 2, 'the other columns of the database');
load_keys('two');
rows_right($node, 't', 9, 'without the old master key');
is(sql('SELECT count(*) FROM plain WHERE doc::bytea = blob(seed, len)'), 7, 'another column');

load_keys('one');
is(shown('t'), '1 usable two missing: 4, 2 usable two missing: 4, plain: 0', 'without the new one: keys are listed');
fails_with($node, 'SELECT sum(length(doc::bytea)) FROM t', '55000', 'master key "two" of column', 'and not used');
fails_with($node, "SELECT securefile_new_key('t', 'doc')", '55000', 'master key "two" of column "doc" of table "t" is not loaded', 'a new key would have to change the old ones');
is(shown('t'), '1 usable two missing: 4, 2 usable two missing: 4, plain: 0', 'nothing is changed');
load_keys('two', 'one');
rows_right($node, 't', 9, 'the file of keys is restored');

fails_with($node, "SELECT securefile_rewrap('t', 'doc', 'none')", '55000', 'master key "none" is not loaded', 'a master key that is not there');
is(sql("SELECT securefile_rewrap('t', 'doc', 'one')"), 2, 'a named master key');
is(master_keys('t'), 'one', 'is the one');
is(sql("SELECT securefile_rewrap('t', 'doc')"), 2, 'and back');
load_keys('one', 'two');

# a master key of the same name and other bytes is another one
sub swap_two { my ($key) = @_; write_file("$dir/keys", 'one ' . md5_hex('one') . md5_hex('one one') . "\ntwo $key\n"); return sql('SELECT securefile_load_keys()') }
swap_two('22' x 32);
my ($out, $err) = told("SELECT securefile_rewrap('t', 'doc')");
is($out, 0, 'a master key of that name and other bytes');
is(() = $err =~ /WARNING:  55000: data key [12] of column "doc" of table "t" is not wrapped anew\n.*Its master key "two" is not loaded/g, 2, 'is not the one');
($out, $err) = told("SELECT securefile_rewrap('t', 'doc', 'two')");
is($out . (() = $err =~ /WARNING:  55000/g), '02', 'also where it is to wrap them');

# ---- a master key that is missing ----

load_keys('three', 'two');
make_table($node, $_, 'encrypt') foreach 'a', 'b';
four('b', 1);
load_keys('two', 'three');
four('a', 1);
load_keys('four', 'two');
($out, $err) = told('SELECT securefile_rewrap()');
is($out, 5, 'rewrap without one of the old master keys does the rest');
like($err, qr/WARNING:  55000: data key 1 of column "doc" of table "b" is not wrapped anew\n.*DETAIL:  Its master key "three" is not loaded/, 'and names the column and the key');
is(() = $err =~ /WARNING/g, 1, 'no other one');
is(join(' ', map { master_keys($_) } qw(a b t)), 'four three four', 'as it says');
rows_right($node, 'a', 4, 'rewrap without one');
load_keys('four', 'three');
($out, $err) = told('SELECT securefile_rewrap()');
is("$out $err", '1 ', 'when it is there, the rest');
load_keys('four');
rows_right($node, $_, 4, 'four only') foreach 'a', 'b';
rows_right($node, 't', 9, 'four only');

# ---- a transaction that is rolled back, or has not ended ----

is(sql('BEGIN', "SELECT securefile_new_key('a', 'doc')", 'ROLLBACK'), 2, 'a new key in a transaction that is rolled back');
is(shown('a'), '1 old four: 4, 2 usable* four: 0, plain: 0', 'is there');
sql(q{CREATE TABLESPACE space LOCATION ''});
foreach my $what ('TRUNCATE a', 'ALTER TABLE a SET TABLESPACE space; SELECT securefile_set_tablespace(\'a\', \'doc\', \'space\')', 'DROP TABLE a', q{SELECT securefile_rewrite('a', 'doc', 'filesystem_like_logging')}, 'SAVEPOINT s; TRUNCATE a')
{
	fails_with($node, "BEGIN; $what; SELECT $_", '55000', 'Commit first', "$what, then $_") foreach 'securefile_rewrap()', "securefile_rewrap('t', 'doc')", "securefile_new_key('t', 'doc')";
}
is(sql('BEGIN', 'SAVEPOINT s', 'TRUNCATE a', 'ROLLBACK TO s', "SELECT securefile_new_key('a', 'doc')", 'COMMIT'), 3, 'after a rollback of that it works');

my $session = background($node);
my $rewrapper = background($node);
$session->query_safe("BEGIN; CREATE TABLE fresh (id int, seed int, len int, doc securefile(encrypt)); INSERT INTO fresh VALUES (1, 1, 10, blob(1, 10))");
load_keys('five', 'four');
ok(waits_for_lock($node, $rewrapper, 'SELECT securefile_rewrap()'), 'rewrap waits for a table that is not committed');
$session->query_safe('COMMIT');
$rewrapper->query_safe('SELECT');
load_keys('five');
is(master_keys('fresh'), 'five', 'and wraps its key');
rows_right($node, 'fresh', 1, 'made meanwhile');

# ---- at the same time ----

# Statements of a session are held after the keys were read; others of another one come
# between.
sub meanwhile
{
	my ($held, $other) = @_;
	my $first = background($node);
	held($node, $first, 'keys_publish', $held) or die "$held is not held";
	my $result = sql($other);
	my $said = resume($node, $first, 'keys_publish');
	$first->quit;
	return "$result $said";
}

sub one_row { my ($table, $id, $len) = @_; return "INSERT INTO $table VALUES ($id, $id, $len, blob($id, $len))"; }
make_table($node, 'race', 'encrypt');
meanwhile(one_row('race', 1, 20000), one_row('race', 2, 10));
is(shown('race'), '1 usable* five: 2, plain: 0', 'two first stores make one key');
is(meanwhile("SELECT securefile_new_key('race', 'doc')", "SELECT securefile_new_key('race', 'doc')"), '2 3', 'two new keys');
is(shown('race'), '1 old five: 2, 2 old five: 0, 3 usable* five: 0, plain: 0', 'are two');
sql('TRUNCATE race');
is(meanwhile(one_row('race', 3, 20000), "SELECT securefile_new_key('race', 'doc', true)") =~ s/\s+//gr, '1', 'a new key before a first store that has begun');
is(shown('race'), '1 usable* five: 1, plain: 0', 'is its key');
load_keys('six', 'five');
is(meanwhile("SELECT securefile_rewrap('race', 'doc')", "SELECT securefile_new_key('race', 'doc')"), '2 1', 'rewrap while there is a new key');
is(shown('race'), '1 old six: 1, 2 usable* six: 0, plain: 0', 'both are done');
load_keys('five', 'six');
is(meanwhile("SELECT securefile_new_key('race', 'doc', true)", "SELECT securefile_rewrap('race', 'doc')"), '2 3', 'a new key while others are wrapped anew');
is(shown('race'), '1 distrusted five: 1, 2 distrusted five: 0, 3 usable* five: 0, plain: 0', 'both are done');
load_keys('six', 'five');
is(meanwhile('SELECT securefile_rewrap()', one_row('race', 4, 10)) =~ s/\d+$//r, ' ', 'rewrap while a store makes a key');
rows_right($node, 'race', 2, 'at the same time');
# a session that knows the key must see that it has another one
$session->query_safe(one_row('race', 5, 10));
sql("SELECT securefile_new_key('race', 'doc')");
$session->query_safe(one_row('race', 6, 10));
is(sql("SELECT max(key_id) FROM race, securefile_storage(doc) WHERE id = 6"), sql("SELECT key_id FROM securefile_keys('race', 'doc') WHERE is_current"), 'a session that knows the key takes the new one');

# ---- crashes ----

is(sql('SELECT securefile_rewrap()') + sql('SELECT securefile_rewrap()') >= 0, 1, 'all keys have one master key');
my @tables = ([ 't', 9 ], [ 'a', 4 ], [ 'b', 4 ], [ 'race', 4 ], [ 'fresh', 1 ]);
foreach my $point ('keys_made', 'keys_changed')
{
	load_keys('seven', 'six');
	ok(dies_at($node, $point, 'kill', 'SELECT securefile_rewrap()', skip => 2), "crash at $point of a rewrap");
	like(master_keys($$_[0]), qr/^(six|seven|six seven)$/, "$$_[0] has the one or the other") foreach @tables;
	rows_right($node, @$_, "crash at $point of a rewrap") foreach @tables;
	my $before = sql(q{SELECT max(key_id) FROM securefile_keys('b', 'doc')});
	ok(dies_at($node, $point, 'kill', q{SELECT securefile_new_key('b', 'doc', true)}), "crash at $point of a new key");
	my $state = sql(q{SELECT string_agg(DISTINCT state, ' ' ORDER BY state) || max(key_id) FROM securefile_keys('b', 'doc')});
	# all of it or nothing
	ok($state =~ /^(distrusted )?usable$before$|^distrusted$before$/ || $state eq 'distrusted usable' . ($before + 1), "either the old keys or the new ones: $state, $before");
	rows_right($node, 'b', 4, "crash at $point of a new key");
	sql('SELECT securefile_rewrap()');
	load_keys('six', 'seven');
	sql('SELECT securefile_rewrap()');
}
load_keys('seven', 'six');
stop_walwriter($node);
sql('SELECT securefile_rewrap()');
crash($node);
put_keys('keys', 'seven');
$node->start;
rows_right($node, @$_, 'a crash right after rewrap has returned, without the old master key') foreach @tables;

# ---- distrust ----

make_table($node, 'd', 'encrypt');
fill($node, 'd', 1, 5, 400000);
my $edit = q{UPDATE d SET doc = doc || '\x61', len = -1 WHERE id = };
sql("SELECT securefile_new_key('d', 'doc')", $edit . 1);
is(key_ids('d'), '1 1 1 1 1', 'an edit of a value with an old key shares its units');
$session = background($node);
is($session->query_safe('SELECT count(*) FROM d WHERE get_byte(doc::bytea, 399999) > 0'), 5, 'a session knows the key');
$session->query_safe($edit . 2);
is(sql("SELECT securefile_new_key('d', 'doc', true)"), 3, 'a new key, and the old ones are distrusted');
is(shown('d'), '1 distrusted seven: 5, 2 distrusted seven: 0, 3 usable* seven: 0, plain: 0', 'all of them');
$session->query_safe($edit . 3);
sql("UPDATE d SET doc = securefile_finish(put(securefile_open(doc, 'rw'), 4, 100000)), len = 400000 WHERE id = 4");
is(key_ids('d'), '1 1 3 3 1', 'an edit of a value with a distrusted key has nothing of it');
is(sql('SELECT count(*) FROM d WHERE doc::bytea = blob(seed, 400000) || CASE len WHEN -1 THEN \'\x61\'::bytea ELSE \'\'::bytea END'), 5, 'and has all of its bytes');
is(shown('d'), '1 distrusted seven: 3, 2 distrusted seven: 0, 3 usable* seven: 2, plain: 0', 'counted');
is(sql("SELECT count(*) FROM securefile_check('d', 'doc')"), 0, 'the column is sound');
is(sql("SELECT securefile_new_key('d', 'doc')"), 4, 'a new key without distrust');
is(shown('d'), '1 distrusted seven: 3, 2 distrusted seven: 0, 3 old seven: 2, 4 usable* seven: 0, plain: 0', 'leaves the distrusted ones as they are');

sql(q{SELECT securefile_new_key('b', 'doc', true)}, q{SELECT securefile_rewrite('b', 'doc')});
like(shown('b'), qr/^(\d+ distrusted seven: 0, )+\d+ usable\* seven: 4, plain: 0$/, 'a rewrite gives all values the current key');
rows_right($node, 'b', 4, 'rewritten');

# ---- both ciphers in a column ----

make_table($node, 'ciphers', 'encrypt');
my $id = 1;
foreach my $cipher ('chacha20', 'aes', 'chacha20')
{
	sql("SET securefile.cipher = '$cipher'", "SELECT securefile_new_key('ciphers', 'doc')");
	four('ciphers', $id);
	$id += 4;
}
is(sql("SELECT string_agg(cipher, ' ' ORDER BY key_id) FROM securefile_keys('ciphers', 'doc')"), 'chacha20 aes chacha20', 'keys of two ciphers');
is(key_ids('ciphers', 'id % 4 < 2'), '1 1 2 2 3 3', 'values of both');
rows_right($node, 'ciphers', 12, 'two ciphers');

# ---- as many keys as fit ----

make_table($node, 'many', 'encrypt');
is(sql("SELECT count(securefile_new_key('many', 'doc')) FROM generate_series(1, 63)"), 63, 'as many keys as fit');
fails_with($node, "SELECT securefile_new_key('many', 'doc')", '54000', 'has had 63 data keys already', 'and no more');
four('many', 1);
is(key_ids('many'), '63 63 63 63', 'the last one is used');

# ---- partitions ----

sql('CREATE TABLE p (id int, seed int, len int, doc securefile(encrypt)) PARTITION BY LIST (id)', map { "CREATE TABLE p$_ PARTITION OF p FOR VALUES IN ($_)" } 1 .. 3);
sql(one_row('p', 1, 10), one_row('p', 2, 20000), "SELECT securefile_new_key('p2', 'doc')");
fails_with($node, "SELECT * FROM securefile_keys('p', 'doc')", '42809', '"p" is a partitioned table\n.*Each partition has a segment, and keys, of its own', 'keys are those of partitions');
is(shown('p1') . '; ' . shown('p2'), '1 usable* seven: 1, plain: 0; 1 old seven: 1, 2 usable* seven: 0, plain: 0', 'which have their own');
load_keys('six', 'seven');
is(sql("SELECT securefile_rewrap('p', 'doc')"), 3, 'rewrap of all partitions');
is(sql("SELECT securefile_rewrap('p2', 'doc', 'seven')"), 2, 'and of one');
is(sql("SELECT securefile_new_key('p', 'doc')"), 3, 'new keys for all partitions');
is(join(' ', map { sql("SELECT count(*) FROM securefile_keys('p$_', 'doc')") } 1 .. 3), '2 3 1', 'each has one more');
load_keys('six');
fails_with($node, "SELECT securefile_new_key('p', 'doc', true)", '55000', 'master key "seven" of column "doc" of table "p2" is not loaded', 'where one partition cannot');
is(join(' ', map { sql("SELECT count(*) FROM securefile_keys('p$_', 'doc')") } 1 .. 3), '2 3 1', 'the others have none');
sql('ALTER TABLE p OWNER TO owner');
fails_with($node, "SELECT securefile_new_key('p', 'doc')", '42501', 'must be owner of table p1', 'a partition of another owner', user => 'owner');
load_keys('seven', 'six');
rows_right($node, 'p', 2, 'partitions');

# ---- a standby ----

sql('SELECT securefile_rewrap()');
$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('rotation_standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
put_keys('standby', 'seven');
$standby->append_conf('postgresql.conf', $_) foreach "securefile.key_command = 'cat $dir/standby'", "securefile.master_key = ''";
$standby->append_conf('postgresql.auto.conf', "securefile.master_key = ''");
$standby->start;
my $reader = background($standby);
is($reader->query_safe('SELECT count(*) FROM d WHERE length(doc::bytea) >= 400000'), 5, 'a session of a standby reads');
fails_with($standby, "SELECT $_", '25006', 'recovery', "$_ on a standby") foreach 'securefile_rewrap()', "securefile_rewrap('d', 'doc')", "securefile_new_key('d', 'doc')";
sql("SELECT securefile_new_key('d', 'doc')", one_row('d', 6, 400000), one_row('d', 7, 10));
catch_up($node, $standby);
is($reader->query_safe('SELECT count(*) FROM d WHERE id IN (6, 7) AND doc::bytea = blob(id, len)'), 2, 'and values with a key that was made since');
is(shown('d', $standby), shown('d'), 'keys are listed there');
load_keys('eight', 'seven');
sql('SELECT securefile_rewrap()');
catch_up($node, $standby);
like($reader->query('SELECT count(*) FROM d WHERE length(doc::bytea) > 0') . $reader->{stderr}, qr/master key "eight" of column "doc" of table "d" is not loaded/, 'a standby needs the new master key, too');
$reader->{stderr} = '';
put_keys('standby', 'eight');
is($reader->query_safe('SELECT securefile_load_keys()'), 1, 'which it loads');
is($reader->query_safe('SELECT count(*) FROM d WHERE length(doc::bytea) > 0'), 7, 'and the old one no more');
sql("SELECT securefile_new_key('d', 'doc', true)");
catch_up($node, $standby);
$standby->promote;
$reader->query_safe($edit . 6);
is($standby->safe_psql('postgres', 'SELECT s.key_id = k.key_id FROM d, securefile_storage(doc) s, securefile_keys(\'d\', \'doc\') k WHERE id = 6 AND is_current'), 't', 'a session that outlives the promotion knows that a key is distrusted');
is($standby->safe_psql('postgres', "SELECT count(*) FROM securefile_check('d', 'doc')"), 0, 'the column is sound there');
$reader->quit;
$standby->stop;

# ---- keys that are not genuine, and pages that differ ----

my $file = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath(segment_relid) FROM securefile_columns WHERE relname = 'ciphers'});
$node->stop;
# the name of the master key in each of three keys, on two pages
my @found;
my $bytes = slurp($file);
while ($bytes =~ /eight\0/g) { push @found, $-[0]; }
is(scalar @found, 6, 'the key pages are where they are thought to be');
my @at = @found[ 1, 4 ];
my $wrapped = 80 - 16;
my @right = map { substr slurp($file), $_ + $wrapped, 1 } @at;
sub spoil { my ($at, $byte) = @_; patch($file, $at + $wrapped, $byte); unseal($file, $at); return; }
spoil($_, chr(ord($right[0]) ^ 1)) foreach @at;
$node->start;
load_keys('nine', 'eight');
($out, $err) = told("SELECT securefile_rewrap('ciphers', 'doc')");
is($out, 2, 'a key that is not genuine is passed over');
like($err, qr/WARNING:  XX001: data key 2 of column "doc" of table "ciphers" is not wrapped anew\n.*DETAIL:  It cannot be authenticated/, 'which is said');
fails_with($node, "SELECT securefile_new_key('ciphers', 'doc', true)", 'XX001', 'data key 2 of column "doc" of table "ciphers" cannot be authenticated', 'and cannot get another state');
is(sql("SELECT string_agg(state || ' ' || master_key, ' ' ORDER BY key_id) FROM securefile_keys('ciphers', 'doc')"), 'old nine old eight usable nine', 'nothing is changed');
$node->stop;
spoil($at[0], $right[0]);
$node->start;
fails_with($node, "SELECT securefile_rewrap('ciphers', 'doc')", 'XX001', 'It differs from page', 'two key pages that differ are not changed');
$node->stop;
spoil($at[1], $right[0]);
$node->start;
is(sql("SELECT securefile_rewrap('ciphers', 'doc')"), 1, 'restored: it is wrapped anew');
load_keys('nine');
rows_right($node, 'ciphers', 12, 'all of it');

unlike(slurp($node->logfile), qr/TRAP: |PANIC|\bXX000\b/, 'no crash but those that were made');
done_testing();
