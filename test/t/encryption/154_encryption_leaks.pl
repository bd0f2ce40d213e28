# What is stored in an encrypted column is nowhere in clear: values are marked, stored,
# edited, rolled back, moved, rewritten, lost in a crash; then every file is searched, of the
# server, its standby, its WAL archive and its base backup.  The same search finds the marks of
# columns that do not encrypt.  Keys are in no file, no log, and not in what a core would have; units
# that were decrypted for a part of them leave nothing in the memory of the session.

use strict;
use warnings;
use Digest::SHA qw(sha256_hex hmac_sha256);
use File::Find;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileForge;
use SecurefilePages;
use SecurefileTest;
use Test::More;

# ---- marks ----

# 40 bytes: what all of them begin with, and which one it is.  A tag below 1000 is of an
# encrypted column, and must not be found.
my $prefix = substr(sha256_hex('leak'), 0, 24);
my %tag_of = map { substr(sha256_hex($_), 0, 16) => $_ } 1 .. 1999;
my @what;
my %next = (e => 1, c => 1001);

# A tag for what is stored in a table in some way.
sub tag
{
	my ($table, $what) = @_;
	my $tag = $next{ substr($table, 0, 1) }++;
	$what[$tag] = "$table, $what";
	return $tag;
}

# Ends of what is looked for in a file, by what it is; tags of marks among it.
my $master = join('', map { chr(33 + int(rand(90))) } 1 .. 32);
my @keys = ($master, hex_of($master), uc hex_of($master));

# Marks that a file has, and whether it has the key; reads it in pieces that overlap.
sub search_file
{
	my ($file, $found) = @_;
	open(my $fh, '<:raw', $file) or return;
	my ($there, $overlap) = ('', 200);
	while (sysread($fh, $there, 4 * 1024 * 1024, length $there))
	{
		foreach my $how ($prefix, hex_of($prefix))
		{
			my $factor = length($how) / 24;
			for (my $at = 0; ($at = index($there, $how, $at)) >= 0; $at++)
			{
				my $which = substr($there, $at + 24 * $factor, 16 * $factor);
				last if length $which < 16 * $factor;
				my $tag = $tag_of{ $factor == 1 ? $which : bytes_of($which =~ /^[0-9a-f]+$/ ? $which : '') };
				# else it goes on behind the header of a page
				$found->{$tag}{$file} = 1 if defined $tag;
			}
		}
		foreach my $key (@keys)
		{
			$found->{'the master key'}{$file} = 1 if index($there, $key) >= 0;
		}
		substr($there, 0, -$overlap) = '' if length $there > $overlap;
	}
	close $fh;
	return;
}

# All marks below directories: tag to files.
sub search
{
	my @top = @_;
	my %found;
	find({ no_chdir => 1, wanted => sub { search_file($File::Find::name, \%found) if -f && !-l } }, @top);
	return \%found;
}

# Two tests: nothing of encrypted columns is there, nor a key; marks of others are, where the
# paths match each of these.
sub no_leak
{
	my ($name, $found, @controls) = @_;
	my @leaks = grep { !/^\d+$/ || $_ < 1000 } sort keys %$found;
	my %files;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join("\n", map { ($_ =~ /^\d+$/ ? $what[$_] : $_) . ': ' . join(' ', (sort keys %{ $found->{$_} })[ 0 .. 2 ]) } @leaks),
		'', "$name: nothing encrypted is there in clear")
	  or diag(join "\n", map { "tag $_" } @leaks);
	$files{$_} = 1 foreach map { keys %{ $found->{$_} } } grep { /^\d+$/ && $_ > 1000 } keys %$found;
	foreach my $control (@controls)
	{
		cmp_ok(scalar(grep { /$control/ } keys %files), '>', 0, "$name: the search finds what is not encrypted ($control)");
	}
	return;
}

# ---- cluster ----

my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/keys", 'main ' . hex_of($master) . "\n");
my $node = new_cluster('leaks', init => { allows_streaming => 'logical', has_archiving => 1 },
	conf => [ 'wal_level = logical', 'max_replication_slots = 4', 'securefile.monitor = off', 'work_mem = 64kB', 'restart_after_crash = on',
		'allow_in_place_tablespaces = on', "securefile.key_command = 'cat $dir/keys'" ]);
sql(q{CREATE FUNCTION marker(tag int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$ SELECT substring(encode(sha256('leak'), 'hex') for 24) || substring(encode(sha256(convert_to(tag::text, 'SQL_ASCII')), 'hex') for 16) $$},
	# no codec makes it shorter by much
	# PostgreSQL 17 fails when the result of a function in SQL goes to a temporary file in a
	# later statement of the transaction: noise() gets enough memory
	q{CREATE FUNCTION content(tag int, len int) RETURNS bytea LANGUAGE plpgsql IMMUTABLE SET work_mem = '4MB' AS $$
	DECLARE
		mark bytea := convert_to(marker(tag), 'SQL_ASCII');
		noise bytea := noise(tag, least(len, 160000));
	BEGIN
		RETURN (SELECT substring(string_agg(mark || substring(noise from i % 30 * 5000 + 1 for 4000), '') for len) FROM generate_series(0, len / 40) i
			WHERE i <= len / 4040 OR len < 160000 AND i <= len / 40);
	END $$},
	# and any does
	q{CREATE FUNCTION prose(tag int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substring(convert_to(repeat(marker(tag) || ' is what this text says all the time. ', len / 40), 'SQL_ASCII') for len) $$},
	# before anything is prepared, which it would wait for
	"SELECT pg_create_logical_replication_slot('lags', 'pgoutput')");

my %options = (e_log => 'encrypt', e_fs => 'encrypt, filesystem_like_logging', e_zstd => 'encrypt, compress_medium', e_out => 'encrypt, disable_storage_in_row',
	c_log => '', c_fs => 'filesystem_like_logging', c_out => 'disable_storage_in_row');
my @tables = sort keys %options;
foreach my $t (@tables)
{
	my $type = $options{$t} ? "securefile($options{$t})" : 'securefile';
	sql("CREATE TABLE $t (id int PRIMARY KEY, doc $type)");
}

# ---- stores ----

sub store
{
	my ($t) = @_;
	my $id = 0;
	my @sql;
	my $add = sub { my ($len, $what, $function) = @_; my $tag = tag($t, "$what of $len bytes"); $id++; return "INSERT INTO $t SELECT $id, " . ($function || 'content') . "($tag, $len)" };

	push @sql, $add->($_, 'INSERT') foreach 100, 3000, 100000, 3000000;
	push @sql, $add->($_, 'INSERT of prose', 'prose') foreach 100, 3000, 100000, 1000000;
	push @sql, $add->(13_000_000, 'INSERT') if $t eq 'e_log';
	push @sql, $add->(20_000_000, 'INSERT') if $t eq 'e_fs';
	my $append = tag($t, 'append');
	my $overlay = tag($t, 'overlay');
	push @sql, "UPDATE $t SET doc = doc || content($append, 70000) WHERE id < 5", "UPDATE $t SET doc = overlay(doc placing content($overlay, 200) from 90) WHERE length(doc) > 90",
	  "UPDATE $t SET doc = overlay(doc placing content($overlay, 200000) from 1000000) WHERE length(doc) > 1000000";
	push @sql, "INSERT INTO $t SELECT 3, content(" . tag($t, 'ON CONFLICT') . ', 3000) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc || excluded.doc';
	push @sql, "INSERT INTO $t SELECT 2, content(" . tag($t, 'ON CONFLICT DO NOTHING') . ', 100000) ON CONFLICT DO NOTHING';
	my $handle = tag($t, 'handle');
	push @sql, qq{DO \$\$
	DECLARE
		fd int := securefile_create('$t', 'doc');
		lost int := securefile_create('$t', 'doc');
	BEGIN
		FOR i IN 1 .. 20 LOOP
			PERFORM securefile_write(fd, content($handle, i * i * 200)), securefile_write(lost, content($handle, i * 900));
		END LOOP;
		INSERT INTO $t VALUES (100, securefile_finish(fd));
		fd := securefile_open(doc, 'rw') FROM $t WHERE id = 100;
		PERFORM securefile_seek(fd, 200000, 0), securefile_write(fd, content($handle, 3000)), securefile_write(fd, content($handle, 30));
		UPDATE $t SET doc = securefile_finish(fd) WHERE id = 100;
		PERFORM securefile_close(lost);
	END \$\$};
	push @sql, 'BEGIN', $add->(3000, 'rolled back'), $add->(500000, 'rolled back'), 'ROLLBACK';
	push @sql, 'BEGIN', 'SAVEPOINT a', $add->(3000, 'rolled back to a savepoint'), $add->(500000, 'rolled back to a savepoint'), "UPDATE $t SET doc = doc || content($append, 5000) WHERE id = 2",
	  'ROLLBACK TO a', $add->(50000, 'after a savepoint'), 'COMMIT';
	push @sql, 'BEGIN', $add->(2000, 'prepared'), $add->(200000, 'prepared'), "PREPARE TRANSACTION '$t'";
	sql(@sql, "ANALYZE $t");
	# an error, with all that is said of it
	my $tag = tag($t, 'INSERT that failed');
	$node->psql('postgres', "INSERT INTO $t SELECT 1, content($tag, n) FROM unnest('{100,3000,100000}'::int[]) n");
	return;
}
store($_) foreach @tables;

# values from a client, as parameters
SKIP:
{
	skip 'no psycopg', 1 if system('/usr/bin/python3 -c "import psycopg" 2>/dev/null') != 0;
	foreach my $t ('e_log', 'e_zstd', 'c_log')
	{
		my @command = ('/usr/bin/python3', "$FindBin::RealBin/../../cipher/markers.py", $node->connstr('postgres'), $t, 1000, tag($t, 'parameters'));
		is(system(@command), 0, "$t: parameters");
	}
}

# ---- temporary files ----

my @open;
foreach my $t ('e_log', 'c_log')
{
	my $tag = tag($t, 'sorted');
	sql("INSERT INTO $t SELECT i, content($tag, 2000) FROM generate_series(5001, 5200) i");
	my $session = background($node);
	$session->query_safe("BEGIN; DECLARE s CURSOR FOR SELECT id, doc FROM $t WHERE id > 5000 ORDER BY -id; FETCH 1 FROM s");
	$session->query_safe("DECLARE h CURSOR WITH HOLD FOR SELECT id, doc FROM $t WHERE id > 5000");
	push @open, $session;
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), '>', 0, "$t: temporary files");
}
sql('CHECKPOINT');
no_leak('temporary files', search($node->data_dir . '/base'), 'pgsql_tmp', 'base/\d');
$_->quit foreach @open;

# ---- a crash ----

{
	my $session = background($node);
	$session->query_safe('BEGIN');
	foreach my $t (@tables)
	{
		my $tag = tag($t, 'lost in a crash');
		$session->query_safe("INSERT INTO $t SELECT 7000 + n, content($tag, n) FROM unnest('{100,3000,100000,2000000}'::int[]) n");
		$session->query_safe("UPDATE $t SET doc = doc || content($tag, 3000) WHERE id = 1");
	}
	crash($node);
	eval { $session->quit };
	$node->start;
}

# ---- a backup, and a standby that is made of it ----

$node->backup('b');
my $standby = new_standby('leaks_standby', $node, 'b');

# ---- what moves values ----

foreach my $t (@tables)
{
	sql("CREATE TABLE ${t}_dropped AS SELECT * FROM $t LIMIT 0", "ALTER TABLE ${t}_dropped ALTER id SET NOT NULL, REPLICA IDENTITY FULL");
	my $tag = tag($t, 'dropped');
	sql("INSERT INTO ${t}_dropped SELECT 1, content($tag, n) FROM unnest('{100,3000,100000,500000}'::int[]) n");
	sql("DELETE FROM ${t}_dropped WHERE length(doc) IN (3000, 100000)", "COMMIT PREPARED '$t'");
}
my $parts = 'id int, doc securefile(%s)) PARTITION BY LIST (id)';
sql(sprintf("CREATE TABLE e_parts ($parts", 'encrypt'), 'CREATE TABLE e_parts_1 PARTITION OF e_parts FOR VALUES IN (1)', 'CREATE TABLE e_parts_2 PARTITION OF e_parts FOR VALUES IN (2)');
my $moved = tag('e_parts', 'moved to another partition');
sql("INSERT INTO e_parts SELECT 1, content($moved, n) FROM unnest('{100,3000,100000}'::int[]) n", 'UPDATE e_parts SET id = 2', "UPDATE e_parts SET id = 1, doc = doc || content($moved, 4000)");

sql('INSERT INTO e_zstd SELECT id + 20000, doc FROM e_log WHERE id < 5', 'INSERT INTO e_log SELECT id + 20000, doc FROM e_zstd WHERE id < 5', 'UPDATE e_out SET id = id + 20000', 'DELETE FROM e_fs WHERE id < 4');
sql('ALTER TABLE e_zstd ALTER doc TYPE securefile(encrypt, compress_high)', "SELECT securefile_rewrite('e_zstd', 'doc')", "SELECT securefile_rewrite('e_log', 'doc', 'filesystem_like_logging')",
	"SELECT securefile_rewrite('e_out', 'doc')", "SELECT securefile_rewrite('e_fs', 'doc', 'logging')");
sql('ALTER TABLE e_log ADD x float DEFAULT random()', 'CREATE TABLE e_copied AS SELECT id, doc FROM e_zstd');
sql($_) foreach 'VACUUM FULL e_log', 'CLUSTER e_zstd USING e_zstd_pkey', 'VACUUM e_out', "CREATE TABLESPACE space LOCATION ''";
sql("ALTER TABLE $_ SET TABLESPACE space") foreach 'e_zstd', 'e_log', 'c_log';
sql("SELECT securefile_maintain('$_', 'doc')") foreach @tables;
foreach my $t (@tables)
{
	my $tag = tag($t, 'after all moves');
	sql("INSERT INTO $t (id, doc) SELECT 30000 + n, content($tag, n) FROM unnest('{100,3000,100000}'::int[]) n", "SELECT sum(length(doc::bytea)) FROM $t", "ANALYZE $t");
	sql("TRUNCATE ${t}_dropped") if $t =~ /log/;
	sql("DROP TABLE ${t}_dropped");
}

# a dictionary is made of what values have in common, and is not encrypted
my $alike = tag('e_alike', 'learnt from');
sql('CREATE TABLE e_alike (id int, doc securefile(encrypt, compress_medium))', "INSERT INTO e_alike SELECT i, convert_to(format('{\"number\": %s, \"what all of them have\": \"%s\", \"and some more, so that it is not at the end of what is learnt\": 1, \"last\": \"%1\$s\"}', md5(i::text), marker($alike)), 'SQL_ASCII') FROM generate_series(1, 400) i");
fails_with($node, "SELECT securefile_train('e_alike', 'doc', 1000)", '55000', 'does not use dictionaries', 'no dictionary of encrypted values');

cmp_ok(scalar(grep { -e s{/[^/]*$}{/kept}r } data_files($node)), '>', 0, 'storage is kept for a logical slot');
is(sql('SELECT count(*) > 0 FROM (' . join(' UNION ALL ', map { "SELECT doc FROM $_" } grep { /^e/ } @tables) . ') d WHERE position(convert_to(substring(marker(1) for 24), $$SQL_ASCII$$) in doc::bytea) = 0'), 'f', 'all values have their marks');
is(sql("SELECT count(*) FROM securefile_check('$_', 'doc')"), 0, "$_ is sound") foreach 'e_log', 'e_fs', 'e_zstd', 'e_out', 'e_parts_1', 'e_copied';

# ---- keys in memory ----

# Which of these bytes the readable memory of a process has, in what a core would have
# (dumped true), and in what it would not.
sub in_memory
{
	my ($pid, $dumped, %bytes) = @_;
	my @found;
	each_mapping(
		$pid,
		sub {
			my ($there, $flags) = @_;
			return if ($flags =~ /\bdd\b/ ? 1 : 0) == $dumped;
			push @found, grep { index($there, $bytes{$_}) >= 0 } keys %bytes;
		}) or return 'cannot be read';
	my %once = map { $_ => 1 } @found;
	return join(', ', sort keys %once);
}

# The data keys of columns, as who has the master key unwraps them.
sub data_keys
{
	my ($t) = @_;
	my $file = $node->data_dir . '/' . sql("SELECT pg_relation_filepath(segment_relid) FROM securefile_columns WHERE relid = '$t'::regclass");
	my $all = slurp($file);
	my ($page) = pages_of($all, PAGE_KEYS);
	my $entry = substr($all, $page * PAGE + CONTENT + 16, 128);
	my ($id, $purpose, $state, $cipher, $wrap, undef, $created) = unpack('v C4 v a8', $entry);
	my ($incarnation) = unpack('a8', substr($all, CONTENT, 8));
	my ($oid, $attnum) = unpack('V v', substr($all, CONTENT + 40, 6));
	my $place = 'SFK1' . pack('C4 v v V', $purpose, $state, $cipher, $wrap, $id, $attnum, $oid) . $created . $incarnation;
	my $key = forge(join ' ', 'unwrap', map { hex_of($_) } $master, substr($entry, 56, 24), $place, substr($entry, 80, 48));
	die "the key of $t cannot be unwrapped" if $key eq q{none};
	return bytes_of($key);
}

sql('CHECKPOINT');
my $data_key = data_keys('e_zstd');
is(length $data_key, 32, 'a data key, unwrapped with the master key');
my %subkeys = map { ("$_ subkey" => hmac_sha256($_, $data_key)) } qw(unit inline locator inode nonce);
my %secret = ('master key' => $master, 'its text' => hex_of($master), 'wrapping key' => hmac_sha256('wrap', $master), 'data key' => $data_key, %subkeys);
my $session = background($node);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
my $used = tag('e_zstd', 'before memory was looked at');
$session->query_safe("INSERT INTO e_zstd SELECT 40000 + n, content($used, n) FROM unnest('{100,3000,100000,3000000}'::int[]) n; SELECT sum(length(doc::bytea)) FROM e_zstd");
$session->query_safe("SELECT securefile_load_keys(); UPDATE e_zstd SET doc = overlay(doc placing 'x' from 2000000) WHERE id = 3040000; SELECT sum(length(doc::bytea)) FROM e_zstd");
$session->query('INSERT INTO e_zstd SELECT 1, content(1, 100000)');
SKIP:
{
	my $kept = in_memory($pid, 0, %secret);
	skip 'the memory of other processes cannot be read', 1 if $kept eq 'cannot be read';
	is($kept, join(', ', sort 'master key', keys %subkeys), 'a session has keys in memory that is not dumped');
	is(in_memory($pid, 1, %secret), '', 'and none in what a core would have');
	foreach my $process (split /\n/, $node->safe_psql('postgres', "SELECT pid || ' ' || backend_type FROM pg_stat_activity WHERE pid NOT IN ($pid, pg_backend_pid())"))
	{
		my ($other, $type) = split / /, $process, 2;
		my $there = in_memory($other, 1, %secret);
		is($there, '', "none in that of the $type") unless $there eq 'cannot be read';
	}
	is(in_memory((split /\n/, slurp($node->data_dir . '/postmaster.pid'))[0], 1, %secret), '', 'none in that of the postmaster');
}
$session->quit;

# ---- contents in memory ----

# units that are read in part are kept, and wiped at the end of the transaction
foreach my $cipher ('aes', 'chacha20')
{
	sql("SET securefile.cipher = '$cipher'", "CREATE TABLE e_$cipher (doc securefile(encrypt, compress_low))", "INSERT INTO e_$cipher VALUES (prose($used, 200000)), (content($used, 200000))");
}
my %mark = (mark => sql("SELECT marker($used)"));
my $reader = background($node);
my $reads = $reader->query_safe('SELECT pg_backend_pid()');
$reader->query_safe('BEGIN; SELECT substring(doc FROM 100000 FOR 4), substring(doc FROM 190000 FOR 4) FROM (SELECT doc FROM e_aes UNION ALL SELECT doc FROM e_chacha20) d');
SKIP:
{
	my $kept = in_memory($reads, 1, %mark);
	skip 'the memory of other processes cannot be read', 1 if $kept eq 'cannot be read';
	is($kept, 'mark', 'a transaction keeps units that it has decrypted');
	$reader->query_safe('COMMIT');
	is(in_memory($reads, 1, %mark), '', 'and nothing of them is left at its end');
}
$reader->quit;

# What functions read for themselves is wiped, too: the server writes memory that it has not
# set, as padding, to WAL and to temporary files.  (Not securefile_estimate(): the codecs keep
# parts of what they encode in memory that the process never gives back.)
sql('CREATE TABLE e_work (id int, doc securefile(encrypt))', 'CREATE TABLE e_once (id int, doc securefile(encrypt, deduplicate))', "INSERT INTO e_work SELECT n, content($used, 300000) FROM generate_series(1, 2) n");
foreach my $reads_in ("SELECT securefile_digest(doc, 'sha256') FROM e_work", 'SELECT count(*) FROM e_work a JOIN e_work b ON a.doc = b.doc',
	"SELECT securefile_rewrite('e_work', 'doc')",
	"CALL securefile_rewrite_online('e_work', 'doc')", 'INSERT INTO e_work SELECT id + 2, doc FROM e_work',
	"UPDATE e_work SET doc = overlay(doc placing 'x' from 100000) WHERE id = 1",
	'INSERT INTO e_once SELECT id, doc FROM e_work WHERE id = 2', 'INSERT INTO e_once SELECT id, doc FROM e_work WHERE id = 2',
	"UPDATE e_once SET doc = overlay(doc placing 'x' from 100000)", "SELECT copies FROM securefile_duplicates('e_once', 'doc')")
{
	my $worker = background($node);
	my $works = $worker->query_safe('SELECT pg_backend_pid()');
	$worker->query_safe($reads_in);
	my $left = in_memory($works, 1, %mark);
	is($left, '', "nothing is left in memory of what was read by: $reads_in") unless $left eq 'cannot be read';
	$worker->quit;
}

# ---- every file ----

catch_up($node, $standby);
$standby->safe_psql('postgres', 'CHECKPOINT');
my $last = sql("SELECT pg_walfile_name(pg_current_wal_lsn())");
sql('SELECT pg_switch_wal()', 'CHECKPOINT');
wait_for_sql($node, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver");
$standby->stop;
push @keys, $data_key, values %subkeys, $secret{'wrapping key'};
no_leak('the data directory', search($node->data_dir), 'base/\d', 'pg_securefile/\d+/\d+/\d+/seg', 'pg_wal/0', 'pg_tblspc');
no_leak('the archive', search($node->archive_dir), '/0');
no_leak('the backup', search($node->backup_dir), 'base/\d', 'pg_securefile/');
no_leak('the standby', search($standby->data_dir), 'base/\d', 'pg_securefile/', 'pg_wal/0', 'pg_tblspc');
my $logs = search(grep { -e } $node->logfile, $standby->logfile);
no_leak('the logs', $logs);
unlike(slurp($node->logfile), qr/TRAP: |PANIC|\bXX000\b/, 'no crash');
$node->stop;
done_testing();
