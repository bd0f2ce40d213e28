# pg_upgrade to a later PostgreSQL: what is refused, what must be brought along, what
# securefile_upgrade_finish() does with it, and how the new cluster lives on.

use strict;
use warnings;
use File::Basename qw(dirname);
use File::Path qw(rmtree);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use SecurefileUpgrade;
use Test::More;

my $bin = $ENV{SECUREFILE_NEXT_BIN};
need_later_server();

my $large = 13_000_000;
my $finish = 'SELECT relid::regclass::text, attname, file_bytes FROM securefile_upgrade_finish()'
  . ' ORDER BY 1, 2';

# ---- clusters ----

# Its monitor sleeps, so that what is pending at shutdown goes along.
sub old_cluster
{
	my ($name, @conf) = @_;
	return new_cluster($name, init => init_params(1), conf => [ 'securefile.monitor = off', 'restart_after_crash = on', master_key(), @conf ]);
}

sub new_server
{
	my ($name, @conf) = @_;
	return later_cluster($name, conf => [ 'restart_after_crash = on', master_key(), @conf ]);
}

# pg_upgrade stops, and says what to do.
sub upgrade_refused
{
	my ($old, $new, $name, @options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($done, $said) = run_upgrade($old, $new, @options);
	my $why = upgrade_reports($new);
	ok(!$done && $why =~ /shared_preload_libraries/, "$name: refused: pg_upgrade @options") or diag($said, $why);
	rmtree($new->data_dir . '/pg_upgrade_output.d');
	return;
}

# ---- contents ----

# Tables that upgrade in all forms that they and their segments may have.
my @tables = ('l', 'f', 'gone', 'parted', 'papers', 'cut', 'rewritten', 'parent', 'added', 'two', 'in_segment', 'trained', 'sealed',
	'"Odd schema"."Odd ""table"');

my $tables_sql = q{
	CREATE FUNCTION size(i int) RETURNS int LANGUAGE sql IMMUTABLE AS
		'SELECT (ARRAY[0, 1, 100, 4000, 4001, 20000, 131072, 131073, 1000000])[1 + i % 9]';
	CREATE PROCEDURE add_rows(t text, a int, b int) LANGUAGE plpgsql AS $$ BEGIN
		EXECUTE format('INSERT INTO %s (id, seed, len, doc)
			SELECT i, i, public.size(i), public.blob(i, public.size(i)) FROM generate_series($1, $2) i', t) USING a, b; END $$;
	CREATE PROCEDURE change_rows(t text, n int) LANGUAGE plpgsql AS $$ BEGIN
		EXECUTE format('UPDATE %s SET seed = seed + $1, len = public.size(id + $1),
			doc = public.blob(seed + $1, public.size(id + $1)) WHERE id %% 4 = 0', t) USING n;
		EXECUTE format('DELETE FROM %s WHERE id %% 5 = 0', t); END $$;

	CREATE TABLE l (id int PRIMARY KEY, seed int, len int, doc securefile);
	CREATE TABLE f (id int PRIMARY KEY, seed int, len int, doc securefile(filesystem_like_logging));
	CREATE TABLE gone (g1 int, id int PRIMARY KEY, d0 securefile, seed int, g2 text, doc securefile,
		g3 text, len int, d9 securefile);
	CREATE TABLE parted (id int, seed int, len int, doc securefile) PARTITION BY RANGE (id);
	CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
	CREATE TABLE part2 (doc securefile, g1 int, len int, g2 text, id int, seed int);
	ALTER TABLE part2 DROP g1, DROP g2;
	ALTER TABLE parted ATTACH PARTITION part2 FOR VALUES FROM (10) TO (15);
	CREATE TABLE part3 PARTITION OF parted FOR VALUES FROM (15) TO (30) PARTITION BY LIST (id);
	CREATE TABLE part3_15 PARTITION OF part3 FOR VALUES IN (15, 16);
	CREATE TABLE part3_rest PARTITION OF part3 DEFAULT;
	CREATE DOMAIN paper AS securefile(nocache);
	CREATE TABLE papers (id int, seed int, len int, doc paper);
	CREATE TABLE cut (id int, seed int, len int, doc securefile);
	CREATE TABLE rewritten (id int, seed int, len int, doc securefile);
	CREATE TABLE parent (id int, seed int, len int, doc securefile);
	CREATE TABLE child (more text, also securefile) INHERITS (parent);
	CREATE TABLE added (id int, seed int, len int);
	CREATE TABLE two (id int, seed int, len int, "My Doc" securefile(filesystem_like_logging, cache),
		doc securefile(nocache));
	CREATE INDEX ON two USING hash (doc);
	CREATE TABLE in_segment (id int, seed int, len int, doc securefile(disable_storage_in_row));
	CREATE TABLE trained (id int, seed int, len int, doc securefile(compress));
	INSERT INTO trained (id, doc) SELECT i, convert_to(format('{"number": %s, "alike": "what all of these have in common", "text": "%s"}', i, md5(i::text)), 'UTF8')
		FROM generate_series(1000, 1200) i;
	SELECT securefile_train('trained', 'doc');
	DELETE FROM trained;
	CREATE TABLE sealed (id int, seed int, len int, doc securefile(encrypt, compress));
	SET securefile.cipher = 'chacha20';
	SELECT securefile_new_key('sealed', 'doc');
	CREATE UNLOGGED TABLE unlogged (id int, seed int, len int, doc securefile);
	CREATE SCHEMA "Odd schema" AUTHORIZATION somebody;
	SET ROLE somebody;
	CREATE TABLE "Odd schema"."Odd ""table" (id int, seed int, len int, doc securefile);
	RESET ROLE;
	CREATE TABLE never (doc securefile);
	CREATE TABLE emptied (doc securefile);
	CREATE TABLE dropped (doc securefile);
	CREATE TABLE plain (id serial PRIMARY KEY, b bytea);
	INSERT INTO plain (b) SELECT blob(i, 10000) FROM generate_series(1, 20) i;
};

sub make_contents
{
	my ($node, $db) = @_;
	$node->safe_psql($db, $tables_sql);
	$node->safe_psql($db, "CALL add_rows('$_', 1, 18)") for grep { $_ ne 'added' } @tables;
	$node->safe_psql($db, qq{
		INSERT INTO added SELECT i, i, size(i) FROM generate_series(1, 18) i;
		ALTER TABLE added ADD doc securefile;
		UPDATE added SET doc = blob(seed, len);
		CALL add_rows('child', 21, 30);
		SET securefile.cipher = 'aes';
		SELECT securefile_new_key('sealed', 'doc');
		CALL add_rows('sealed', 21, 38);
		UPDATE child SET also = blob(id, 50000);
		INSERT INTO l SELECT i, i, $large, blob(i, $large) FROM generate_series(101, 102) i;
		INSERT INTO f SELECT i, i, $large, blob(i, $large) FROM generate_series(101, 102) i;
		UPDATE two SET "My Doc" = blob(id + 1000, 70000);
		UPDATE gone SET d0 = doc, d9 = doc;
		TRUNCATE cut;
		INSERT INTO emptied SELECT doc FROM l;
		SELECT securefile_rewrite('rewritten', 'doc', 'filesystem_like_logging');
		DROP TABLE dropped});
	$node->safe_psql($db, q{
		ALTER TABLE gone DROP g1, DROP d0, DROP g2, DROP g3, DROP d9;
		CALL add_rows('cut', 31, 48);
		DELETE FROM emptied});
	change($node, $db, 7);
	return;
}

sub change
{
	my ($node, $db, $n) = @_;
	$node->safe_psql($db, join ';', map { "CALL change_rows('$_', $n)" } @tables);
	return;
}

# What the rows say of themselves, and how many are not what they say.
sub contents
{
	my ($node, $db) = @_;
	my $sql = join ' UNION ALL ', map { my $t = s/'/''/gr;
		qq{SELECT '$t', count(*), sum(len), md5(string_agg(concat_ws(':', id, seed, len), ',' ORDER BY id)),
			count(*) FILTER (WHERE length(doc) IS DISTINCT FROM len OR doc::bytea IS DISTINCT FROM blob(seed, len))
		FROM $_} } @tables;
	my ($rc, $out, $err) = $node->psql($db, "$sql ORDER BY 1;"
		  . q{SELECT 'My Doc', count(*) FILTER (WHERE "My Doc"::bytea IS DISTINCT FROM blob(id + 1000, 70000)) FROM two;}
		  . q{SELECT 'also', count(*) FILTER (WHERE also::bytea IS DISTINCT FROM blob(id, 50000)) FROM child;}
		  . q{SELECT key_id, state, cipher, master_key, stored_values > 6 FROM securefile_keys('sealed', 'doc', true) ORDER BY 1;}
		  . q{SELECT 'with a dictionary', count(*) > 5 FROM trained, securefile_storage(doc) s WHERE s.codec = 'zstd with dictionary';}
		  . 'SELECT count(*) FROM never; SELECT count(*) FROM emptied; SELECT count(*) FROM plain');
	return $rc == 0 ? $out : $err;
}

# Columns with segments, and what they occupy.
sub columns
{
	my ($node, $db) = @_;
	return $node->safe_psql($db, 'SELECT relid::regclass::text, attname, file_bytes FROM securefile_columns'
		  . ' WHERE segment_relid IS NOT NULL ORDER BY 1, 2');
}

# Directory of a column's data files, below a data directory.
sub directory
{
	my ($node, $table, $db) = @_;
	return dirname($node->safe_psql($db || 'postgres', 'SELECT data_files FROM securefile_columns'
		  . " WHERE relid = '$table'::regclass AND attname = 'doc'"));
}

sub all_sound
{
	my ($node, $db, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach (split /\n/, columns($node, $db))
	{
		my ($table, $column) = split /\|/;
		if ($column =~ /^\w+$/)
		{
			sound($node, $table, "$name, $db", column => $column, db => $db, $table eq 'in_segment' ? (in_row => 0) : ());
		}
		else
		{
			is($node->safe_psql($db, "SELECT * FROM securefile_check('$table', '$column')"), '', "$name, $db: $table.$column is sound");
		}
	}
	return;
}

# ---- before securefile_upgrade_finish() ----

# One test each: statements, which have names, fail in one session, each with the error that
# names securefile_upgrade_finish().
sub all_wait
{
	my ($node, $db, $name, @statements) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 2;
	my @names = map { $statements[ 2 * $_ ] } 0 .. $#statements / 2;
	my ($rc, $out, $err) = $node->psql($db, join('', map { "\\warn next\n$statements[2 * $_ + 1];\n" } 0 .. $#names),
		on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	my (undef, @errors) = split /^next$/m, $err;
	like(shift @errors, qr/ERROR:  55000: .*securefile_upgrade_finish/s, "$name: $db: $_") foreach @names;
	return;
}

# All tables but unlogged ones, whose values are in their rows.  Key all: all that
# one may try, else some of it.
sub waits_for_finish
{
	my ($node, $db, $name, %params) = @_;
	my %statements = (
		'INSERT' => "INSERT INTO l VALUES (900, 1, 5000, blob(1, 5000))",
		'INSERT of a small value' => "INSERT INTO f VALUES (900, 1, 5, blob(1, 5))",
		'INSERT without a value' => "INSERT INTO f VALUES (900, 1, 5, NULL)",
		'INSERT into a partitioned table' => "INSERT INTO parted VALUES (9, 1, 5, blob(1, 5))",
		'INSERT into an empty table' => "INSERT INTO never VALUES ('x')",
		'INSERT, a domain' => "INSERT INTO papers VALUES (9, 1, 5, 'x')",
		'COPY' => "COPY l (id) FROM PROGRAM 'echo 900'",
		'UPDATE' => 'UPDATE l SET doc = doc WHERE id = 1',
		'UPDATE of another column' => 'UPDATE l SET seed = seed',
		'DELETE' => 'DELETE FROM l WHERE id = 2',
		'DELETE of all' => 'DELETE FROM two',
		'TRUNCATE' => 'TRUNCATE l',
		'TRUNCATE of a partition' => 'TRUNCATE part2',
		'SET UNLOGGED' => 'ALTER TABLE l SET UNLOGGED',
		'ALTER TABLE' => 'ALTER TABLE never ADD COLUMN more int',
		'a new column' => 'CREATE TABLE another (doc securefile)',
		'a move' => "SELECT securefile_set_tablespace('f', 'doc', 'pg_default')",
		'a check' => "SELECT * FROM securefile_check('f', 'doc')",
		'MERGE' => 'MERGE INTO l USING f ON l.id = f.id WHEN MATCHED THEN DELETE',
		'reading a value' => 'SELECT doc::bytea FROM l WHERE id = 101',
		'reading a part' => 'SELECT substring(doc FROM 10 FOR 1) FROM f WHERE id = 101',
		'reading all' => 'SELECT * FROM parted',
		'pg_dump' => 'COPY l TO STDOUT');
	# a database without data files may be a new one, for all that this function can see
	$statements{'securefile_rewrap()'} = 'SELECT securefile_rewrap()' unless $name eq 'not moved';
	all_wait($node, $db, $name, map { $_ => $statements{$_} } $params{all} ? sort keys %statements : ('INSERT', 'DELETE', 'reading a value'));
	return unless $params{all};
	$node->safe_psql($db, "CALL add_rows('unlogged', 200, 209)");
	rows_right($node, 'unlogged WHERE id >= 200', 10, "$name: $db", $db);
	$node->safe_psql($db, 'DELETE FROM unlogged WHERE id >= 200');
	is($node->safe_psql($db, 'SELECT count(*), count(doc) FROM l WHERE id < 100'),
		$node->safe_psql($db, 'SELECT count(*), count(doc) FROM l WHERE id < 100 AND length(doc) = len'),
		"$name: $db: rows and lengths");
	is($node->safe_psql($db, 'WITH i AS (INSERT INTO plain (b) VALUES (NULL) RETURNING id) SELECT id > 20 FROM i'), 't',
		"$name: $db: other tables work");
	$node->safe_psql($db, 'DELETE FROM plain WHERE b IS NULL');
	return;
}

# finish refuses while a file is not what it should be; then that is put right.
sub refuses_with
{
	my ($node, $db, $path, $spoil, $repair, $like, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $file = $node->data_dir . "/$path";
	$spoil->($file);
	fails_with($node, $finish, '58P01', $like, "finish refused: $name", db => $db);
	$repair->($file);
	return;
}

sub hide { rename $_[0], "$_[0].hidden" or die "$_[0]: $!"; return; }
sub show { rename "$_[0].hidden", $_[0] or die "$_[0]: $!"; return; }

sub shorten
{
	my ($file) = @_;
	command_ok([ 'cp', $file, "$file.hidden" ], 'kept');
	truncate $file, (-s $file) - 512 or die "$file: $!";
	return;
}

# One test: finish returns these columns, and nothing when asked again.
sub finishes
{
	my ($node, $db, $want, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $node->psql($db, $finish);
	is($rc == 0 ? $out : $err, $want, "$name: $db: finish returns all columns");
	is($node->safe_psql($db, $finish), '', "$name: $db: and nothing when called again");
	return;
}

# ---- the old cluster ----

my $old = old_cluster('old');
my @dbs = ('postgres', 'Other "db"');
$old->safe_psql('postgres', 'CREATE ROLE somebody; GRANT CREATE ON SCHEMA public TO somebody');
$old->safe_psql('postgres', 'CREATE DATABASE "Other ""db"""; CREATE DATABASE plain');
SecurefileTest::prepare_database($old, $dbs[1]);
$old->safe_psql('plain', 'CREATE TABLE t AS SELECT i, md5(i::text) AS m FROM generate_series(1, 1000) i; CREATE INDEX ON t (m)');
make_contents($old, $_) for @dbs;
need_faults($old);

# leftovers of crashes: space that an aborted transaction took, and storage that
# a TRUNCATE made and that nobody removes while the monitor sleeps
ok(dies_at($old, 'commit_after_alloc', 'kill', "CALL add_rows('l', 200, 210)"), 'died with space taken');
ok(dies_at($old, 'grow_after_zero', 'kill', "BEGIN; TRUNCATE f; CALL add_rows('f', 300, 301); COMMIT"), 'died with new storage');
change($old, $_, 11) for @dbs;
$old->stop;

# pg_upgrade that is refused, or only checks, leaves the old cluster as it is
my $new = new_server('new', "shared_preload_libraries = ''", "securefile.key_command = ''");
upgrade_refused($old, $new, 'new server without preload', $_) for ('--check', '--copy');
$new->append_conf('postgresql.conf', "shared_preload_libraries = 'securefile'");
$old->append_conf('postgresql.conf', "shared_preload_libraries = ''");
upgrade_refused($old, $new, 'old server without preload', '--copy');
$old->append_conf('postgresql.conf', "shared_preload_libraries = 'securefile'");
upgrade($old, $new, 'with preload', '--check');

$old->start;
my @gone = map { directory($old, $_) } ('cut', 'emptied');
$old->safe_psql('postgres', q{TRUNCATE cut; CALL add_rows('cut', 60, 70); DROP TABLE emptied});
is(join(' ', grep { -e $old->data_dir . "/$_" } @gone), '', 'storage goes as a whole after a check');
$old->safe_psql('postgres', 'CREATE TABLE emptied (doc securefile); INSERT INTO emptied SELECT doc FROM f; DELETE FROM emptied');
$old->safe_psql($_, "CALL add_rows('unlogged', 1, 18)") for @dbs;
my %want = map { $_ => contents($old, $_) } @dbs;
my %columns = map { $_ => columns($old, $_) } @dbs;
my $storage = directory($old, 'l', $dbs[1]);
my $own = (split m{/}, $storage)[-1];
unlike($want{$_}, qr/\|[1-9]\d*$/m, "$_: old contents") for @dbs;
like($want{$_}, qr/^1\|old\|chacha20\|test\|t\n2\|usable\|aes\|test\|t$/m, "$_: two keys, of both ciphers") for @dbs;
$old->stop;
my $old_files = file_sizes($old);

# ---- copy ----

ok(upgrade($old, $new, 'copy', '--copy'), 'upgraded') or BAIL_OUT('no upgrade');
is(slurp_file($new->data_dir . '/PG_VERSION') + 0, major_version($bin), 'version of the new cluster');
$new->start;
fails_with($new, $finish, '58P01', 'pg_securefile', "finish refused: nothing was moved", db => $_) for @dbs;
waits_for_finish($new, 'postgres', 'not moved', all => 1);
is($new->safe_psql('plain', 'SELECT count(*), count(m) FROM t'), '1000|1000', 'database without the extension');
$new->stop;

bring($old, $new, '-a');
my $new_files = file_sizes($new);
is($new_files, $old_files, 'data files copied');
$new->start;
waits_for_finish($new, $_, 'not finished', all => 1) for @dbs;
my $passes = $new->safe_psql('postgres', 'SELECT passes FROM securefile_monitor');
ok(wait_for_sql($new, "SELECT passes > $passes + 2 FROM securefile_monitor"), 'the monitor has been there');
is(file_sizes($new), $new_files, 'and removes nothing');

my $base = $storage =~ s{^pg_securefile/\d+}{base}r;
refuses_with($new, $dbs[1], "$storage/seg-00000000.sf", \&hide, \&show, qr/\Q$storage\E/, 'no data file');
refuses_with($new, $dbs[1], "$storage/seg-00000000.sf", \&shorten, \&show, qr/\Q$storage\E/, 'data file too short');
refuses_with($new, $dbs[1], $storage, \&hide, \&show, qr/"doc" of table "l"/, 'no directory');
refuses_with($new, $dbs[1], "$storage/pages", \&hide, \&show, qr/pages.*\Q$storage\E/s, 'no pages');
refuses_with($new, $dbs[1], "$storage/pages", \&shorten, \&show, qr/pages/, 'pages too short');
is(file_sizes($new), $new_files, 'nothing is lost where finish was refused');
waits_for_finish($new, $dbs[1], 'refused');

# the main fork of the old cluster by hand, as the hint says
unlink $new->data_dir . "/$storage/pages" or die $!;
link $old->data_dir . "/$base", $new->data_dir . "/$storage/pages" or die $!;
finishes($new, $dbs[1], $columns{ $dbs[1] }, 'pages by hand');

# encrypted values, without keys and with them
fails_with($new, "SELECT doc::bytea FROM sealed WHERE id = $_", '55000', 'master key "test" of column "doc" of table "sealed" is not loaded', "no keys: row $_ is not read", db => $dbs[1]) foreach 3, 6;
is($new->safe_psql($dbs[1], "SELECT count(*) FROM securefile_check('sealed', 'doc')"), 0, 'no keys: a check works, and finds nothing');
$new->append_conf('postgresql.conf', master_key());
$new->reload;
wait_for_sql($new, q{SELECT setting <> '' FROM pg_settings WHERE name = 'securefile.key_command'});
is($new->safe_psql('postgres', 'SELECT securefile_load_keys()'), 1, 'keys are loaded');
is(contents($new, $dbs[1]), $want{ $dbs[1] }, 'contents of the second database');
rows_right($new, 'unlogged', 18, 'upgraded', $dbs[1]);
waits_for_finish($new, 'postgres', 'another database is done');

# crashes in the middle: a session, and the whole server
foreach my $skip (0, 7)
{
	ok(dies_at($new, 'upgrade_after_pages', 'kill', $finish, skip => $skip), "died after $skip segments and one");
	waits_for_finish($new, 'postgres', 'died');
}

# a cluster in that state can be upgraded in its turn
$new->stop;
my $next = new_server('next');
upgrade($new, $next, 'not finished', '--copy') or BAIL_OUT('no upgrade');
bring($new, $next, '-a');
$next->start;
waits_for_finish($next, 'postgres', 'upgraded twice');
finishes($next, 'postgres', $columns{postgres}, 'upgraded twice');
# without sizes: the monitor may have emptied files since the first time
is($next->safe_psql($dbs[1], $finish) =~ s/\|\d+$//mgr, $columns{ $dbs[1] } =~ s/\|\d+$//mgr,
	"upgraded twice: $dbs[1]: finish returns all columns");
is(contents($next, $_), $want{$_}, "upgraded twice: $_") for @dbs;
$next->stop;
rmtree($next->data_dir);
$new->start;

my $session = background($new);
ok(held($new, $session, 'upgrade_after_pages', $finish, skip => 3), 'finish stands');
crash($new);
eval { $session->quit };
$new->start;
# in the database that is finished the monitor may have emptied files
my $unfinished = '/' . $new->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'postgres'") . '/';
is_deeply(
	[ map { [ grep { index($_, $unfinished) > 0 } split /\n/ ] } file_sizes($new) ],
	[ map { [ grep { index($_, $unfinished) > 0 } split /\n/ ] } $new_files ],
	'nothing is lost in a crash');
waits_for_finish($new, 'postgres', 'crashed');
finishes($new, 'postgres', $columns{postgres}, 'after crashes');
is(contents($new, $_), $want{$_}, "contents: $_") for @dbs;
crash($new);
{
	local $ENV{SECUREFILE_FAULT} = 'redo_own:kill';
	ok(!$new->start(fail_ok => 1), 'died in the replay of the end of an upgrade');
}
$new->start;
is(contents($new, $_), $want{$_}, "contents after a crash: $_") for @dbs;

# ---- life after it ----

# Nothing is left beside the data files, of what goes the space returns, and what
# comes finds it; DDL and all options work as in any database.
sub lives_on
{
	my ($node, $db, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	all_sound($node, $db, "$name, upgraded");
	is(join(' ', glob($node->data_dir . '/pg_securefile/*/*/*/pages*')), '', "$name: no pages are left beside data files");

	my $full = usage($node, 'l', 'doc', $db)->{file_bytes};
	$node->safe_psql($db, 'DELETE FROM l WHERE id > 100; DELETE FROM f WHERE id > 100');
	cmp_ok(settle($node, 'l', 'doc', undef, $db)->{live_bytes}, '<', $large, "$name: space of l returns");
	$node->safe_psql($db, "INSERT INTO l SELECT 101, 101, $large, blob(101, $large)");
	cmp_ok(usage($node, 'l', 'doc', $db)->{file_bytes}, '<=', $full, "$name: and is used again");

	change($node, $db, 13);
	$node->safe_psql($db, q{
		CALL change_rows('unlogged', 13);
		CREATE TABLE fresh (id int, seed int, len int, doc securefile);
		CALL add_rows('fresh', 1, 20);
		ALTER TABLE fresh ADD doc2 securefile;
		UPDATE fresh SET doc2 = doc;
		TRUNCATE cut;
		CALL add_rows('cut', 1, 20);
		CREATE TABLE part4 PARTITION OF parted FOR VALUES FROM (30) TO (60);
		CALL add_rows('parted', 25, 40);
		ALTER TABLE gone DROP doc; ALTER TABLE gone ADD doc securefile; UPDATE gone SET doc = blob(seed, len);
		SELECT securefile_rewrite('two', 'doc', 'filesystem_like_logging');
		VACUUM FULL papers});
	unlike(contents($node, $db), qr/\|[1-9]\d*$/m, "$name: changed contents are right");
	all_sound($node, $db, "$name, changed");
	$node->safe_psql($db, 'DROP TABLE fresh; DELETE FROM plain WHERE id > 20');
	return;
}
lives_on($new, $_, 'copy') for @dbs;

# a base backup, restored, and a standby, promoted
my %after = map { $_ => contents($new, $_) } @dbs;
$new->backup('after');
command_ok([ "$bin/pg_verifybackup", $new->backup_dir . '/after' ], 'base backup verifies');
my $restored = PostgreSQL::Test::Cluster->new('restored', install_path => dirname($bin));
$restored->init_from_backup($new, 'after');
$restored->start;
is(contents($restored, $_), $after{$_}, "restored: $_") for @dbs;
$restored->stop;
my $standby = PostgreSQL::Test::Cluster->new('standby', install_path => dirname($bin));
$standby->init_from_backup($new, 'after', has_streaming => 1);
$standby->start;
$new->safe_psql('postgres', "CALL add_rows('l', 300, 320); CALL change_rows('l', 3); CALL change_rows('parted', 3)");
catch_up($new, $standby);
is(contents($standby, $_), contents($new, $_), "standby: $_") for @dbs;
is($standby->safe_psql('postgres', "SELECT * FROM securefile_check('l', 'doc')"), '', 'sound on the standby');
$new->stop;
$standby->promote;
$standby->safe_psql('postgres', "CALL add_rows('l', 400, 420)");
sound($standby, 'l', 'promoted');
$standby->stop;
command_ok([ "$bin/pg_checksums", '--check', '-D', $new->data_dir ], 'checksums of the new cluster');

# ---- the old cluster has not changed; it goes on, and is upgraded again, with links ----

is(file_sizes($old), $old_files, 'data files of the old cluster are as they were');
$old->start;
is(contents($old, $_), $want{$_}, "the old cluster: $_") for @dbs;
change($old, $_, 17) for @dbs;
$old->safe_psql('postgres', "TRUNCATE in_segment; CALL add_rows('in_segment', 1, 9); CALL add_rows('l', 500, 520)");
sound($old, 'l', 'the old cluster', db => $_) for @dbs;
%want = map { $_ => contents($old, $_) } @dbs;
%columns = map { $_ => columns($old, $_) } @dbs;
my @dropped = map { directory($old, $_) } ('never', 'emptied');
$old->stop;

my $linked = new_server('linked');
upgrade($old, $linked, 'link', '--link') or BAIL_OUT('no upgrade');
bring($old, $linked);
$linked->start;

# tables that go before their turn has come take nothing with them
fails_with($linked, $_, '55000', 'securefile_upgrade_finish', $_)
  for ('CREATE TABLE early (doc securefile)', 'ALTER TABLE l ADD doc2 securefile', 'ALTER TABLE l ADD x int',
	'ALTER TABLE l ALTER doc TYPE bytea', "SELECT securefile_rewrite('l', 'doc')", "SELECT * FROM securefile_check('l', 'doc')");
$linked->safe_psql('postgres', 'DROP TABLE never, emptied');
$columns{postgres} =~ s/^(never|emptied)\|.*\n//mg;
ok(dies_at($linked, 'commit_done', 'kill', $finish), 'died after the commit of finish');
is(columns($linked, 'postgres'), $columns{postgres}, 'what it did holds');
is($linked->safe_psql('postgres', $finish), '', 'nothing is left to do');
finishes($linked, $dbs[1], $columns{ $dbs[1] }, 'link');
$linked->safe_psql('postgres', 'CREATE TABLE never (doc securefile); CREATE TABLE emptied (doc securefile)');
is(contents($linked, $_), $want{$_}, "link: $_") for @dbs;
$linked->safe_psql('postgres', "SELECT securefile_maintain('l', 'doc')");
is(join(' ', grep { -e $linked->data_dir . "/$_" } @dropped), '', 'storage of tables that were dropped before is removed');
lives_on($linked, $_, 'link') for @dbs;
is($linked->safe_psql('postgres', 'SELECT failures FROM securefile_monitor'), '0', 'no failure of the monitor');
$linked->stop;

# ---- the size of the data does not matter; and the old server without the library:
# where columns have no options, pg_upgrade does not notice ----

my $sizes = old_cluster('sizes', 'wal_level = minimal', 'max_wal_senders = 0');
my @sizes = (big => 16, small => 1);
while (my ($db, $count) = splice @sizes, 0, 2)
{
	$sizes->safe_psql('postgres', "CREATE DATABASE $db");
	SecurefileTest::prepare_database($sizes, $db);
	$sizes->safe_psql($db, qq{
		CREATE TABLE t (id int, doc securefile);
		WITH b AS MATERIALIZED (SELECT blob(1, 16777216) AS v)
			INSERT INTO t SELECT i, v FROM b, generate_series(1, $count) i});
}
my %base = map { $_ => directory($sizes, 't', $_) } ('big', 'small');
$sizes->stop;
$sizes->append_conf('postgresql.conf', "shared_preload_libraries = ''");
my $sized = new_server('sized');
my ($done) = run_upgrade($sizes, $sized, '--clone', '--check');
upgrade($sizes, $sized, 'without preload', $done ? '--clone' : '--link') or BAIL_OUT('no upgrade');
bring($sizes, $sized, '-al');
$sized->start;
foreach my $db ('big', 'small')
{
	fails_with($sized, $finish, '58P01', qr/pages.*\Q$base{$db}\E.*preload/s, "$db: old server without preload", db => $db);
	link $sizes->data_dir . '/' . ($base{$db} =~ s{^pg_securefile/\d+}{base}r), $sized->data_dir . "/$base{$db}/pages" or die $!;
}

# What a session reads and writes while it finishes.  A part of the pages are used, the others
# are read, and not written.
my $io = q{SELECT sum(substring(line FROM '\d+')::bigint) FROM regexp_split_to_table(pg_read_file('/proc/self/io'), '\n') line WHERE line ~ '^[rw]char'};
my %bytes;
foreach my $db ('small', 'big')
{
	my $backend = background($sized, $db);
	my $before = $backend->query_safe($io);
	like($backend->query_safe($finish), qr/^t\|doc\|\d+$/, "$db: finished");
	$bytes{$db} = $backend->query_safe($io) - $before;
	is($backend->query_safe("SELECT direct_read_bytes + direct_write_bytes FROM securefile_stat WHERE relid = 't'::regclass"), 0, "$db: no data is read or written");
	$backend->quit;
}
note("small: $bytes{small} bytes; big: $bytes{big} bytes");
cmp_ok($bytes{big} - $bytes{small}, '<', 7 * 256 * 1024, 'and not the pages that are not used');
is($sized->safe_psql('big', 'SELECT count(*) FROM t WHERE id % 4 = 0 AND doc::bytea = blob(1, 16777216)'), 4, 'values of the big column');
is($sized->safe_psql('big', "SELECT * FROM securefile_check('t', 'doc')"), '', 'the big column is sound');

# files that go here stay whole under the names that the old cluster has for them
my $sizes_files = file_sizes($sizes);
$sized->safe_psql('big', 'DROP TABLE t');
is(join(' ', grep { -e $sized->data_dir . "/$_" } $base{big}), '', 'dropped here');
is(file_sizes($sizes), $sizes_files, 'and not in the old cluster');
$sized->stop;
done_testing();
