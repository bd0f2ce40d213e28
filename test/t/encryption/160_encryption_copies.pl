# Encrypted columns on copies of a server: standbys without keys, with other ones, one behind the
# other, promoted; a backup on another machine; recovery to before keys were changed or destroyed;
# pg_rewind of a server that went its own way.  Each reads its values once it has the keys of their
# time, without a restart, and says which ones are missing.

use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use File::Copy qw(copy);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

use constant { NAME => 16, KEY => 80, KEY_BYTES => 32 };

my $dir = PostgreSQL::Test::Utils::tempdir();

# What the key command of a server prints: names, or a name with the bytes of another key.
sub put_keys
{
	my ($server, @keys) = @_;
	open(my $fh, '>', "$dir/$server") or die $!;
	foreach (@keys)
	{
		my ($name, $bytes) = split /=/;
		$bytes = $name unless defined $bytes;
		print $fh "$name " . md5_hex($bytes) . md5_hex("$bytes $bytes") . "\n";
	}
	close $fh or die $!;
	return;
}

sub load_keys { my ($node, @keys) = @_; put_keys($node->name, @keys); return $node->safe_psql('postgres', 'SELECT securefile_load_keys()') }

# The last lines of its configuration, which count.
sub configure { my ($node, @lines) = @_; $node->append_conf('postgresql.conf', $_) foreach @lines; return }
sub key_command { my ($server) = @_; return "securefile.key_command = 'cat $dir/$server'" }

# The same while it runs: a setting, which holds when this returns.
sub set
{
	my ($node, $name, $value) = @_;
	configure($node, "securefile.$name = '$value'");
	$node->reload;
	return wait_for_sql($node, "SELECT setting = '$value' FROM pg_settings WHERE name = 'securefile.$name'");
}
sub set_command { my ($node, $file) = @_; return set($node, 'key_command', "cat $dir/$file") }

put_keys('home', 'one');
my $home = new_cluster('home',
	init => { allows_streaming => 1, has_archiving => 1 },
	conf => [ 'securefile.monitor = off', 'restart_after_crash = on', 'wal_keep_size = 1GB', "wal_retrieve_retry_interval = '100ms'",
		'allow_in_place_tablespaces = on', key_command('home'), "securefile.master_key = 'one'" ]);
need_faults($home);

# Tables, and how many rows each has.
my %options = (t => 'encrypt', z => 'encrypt, compress_medium', f => 'encrypt, filesystem_like_logging', k => 'encrypt', s => 'encrypt', plain => '');
my %count;

# Two values in rows, two in the segment.
sub four
{
	my ($node, $table, $from) = @_;
	fill($node, $table, $from, $from + 3, '500 + (i % 2) * 200000');
	return;
}
foreach my $t (sort keys %options)
{
	make_table($home, $t, $options{$t});
	four($home, $t, 1);
	$count{$t} = 4;
}
sub more { my ($from, @tables) = @_; foreach (@tables) { four($home, $_, $from); $count{$_} += 4 } return }

# One test for each table: all that are to be read without what is left behind.
sub all_right { my ($node, $name, @tables) = @_; local $Test::Builder::Level = $Test::Builder::Level + 1; rows_right($node, $_, $count{$_}, $name) foreach @tables; return }

# Tests that values cannot be read for want of a master key, which is said; the rest goes on.
sub locked
{
	my ($node, $key, $name, @tables) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $t (@tables)
	{
		fails_with($node, "SELECT doc::bytea FROM $t WHERE id = $_", '55000', qq{master key "$key" of column "doc" of table "$t" is not loaded\n}
			  . '.*HINT:  Have securefile.key_command print it, and call securefile_load_keys', "$name: $t, row $_") foreach 1, 2;
		is($node->safe_psql('postgres', "SELECT count(*), sum(length(doc) - len) FROM $t"), "$count{$t}|0", "$name: $t has its rows and lengths");
		is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, "$name: $t is sound");
	}
	rows_right($node, 'plain', $count{plain}, $name);
	return;
}

# Keys of a column: number, state, * for the current one, master key.
sub shown { my ($node, $table) = @_; return $node->safe_psql('postgres', "SELECT string_agg(concat_ws(' ', key_id || CASE WHEN is_current THEN '*' ELSE '' END, state, master_key), ', ' ORDER BY key_id) FROM securefile_keys('$table', 'doc')") }

sub copy_of
{
	my ($name, $of, $backup, $conf, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($of, $backup, %params);
	configure($node, 'archive_mode = off', @$conf);
	$node->start;
	return $node;
}

$home->backup('base');

# ---- standbys: without keys, and without any that work behind it ----

my $blind = copy_of('blind', $home, 'base', ["securefile.key_command = ''"], has_streaming => 1);
put_keys('second', 'one=two');
my $second = PostgreSQL::Test::Cluster->new('second');
$second->init_from_backup($home, 'base');
$second->enable_streaming($blind);
$second->set_standby_mode;
configure($second, 'archive_mode = off', "securefile.key_command = 'exit 3'");
$second->start;
like(slurp($second->logfile), qr/could not load master keys.*exit status 3/s, 'a standby whose command fails says so in its log, and starts');

sub both_caught_up
{
	catch_up($home, $blind);
	$blind->wait_for_catchup('second', 'replay', $home->lsn('flush'));
	return;
}
more(11, sort keys %options);
sql("SELECT securefile_new_key('z', 'doc')", 'UPDATE t SET doc = doc || doc, len = -1 WHERE id > 10', 'DELETE FROM t WHERE len = -1');
$count{t} -= 4;
more(21, 't', 'z');
both_caught_up();
my $reader = background($blind);
$reader->query('SELECT doc::bytea FROM t WHERE id = 1');
like($reader->{stderr}, qr/master key "one" of column "doc" of table "t" is not loaded/, 'a session of a standby without keys');
$reader->{stderr} = '';
locked($_, 'one', $_->name, 't', 'z') foreach $blind, $second;
fails_with($blind, 'SELECT securefile_load_keys()', '55000', 'The setting securefile.key_command is empty', 'no command, no keys');
put_keys('blind', 'one');
set_command($blind, 'blind');
is($blind->safe_psql('postgres', 'SELECT securefile_load_keys()'), 1, 'keys are loaded on the standby');
all_right($blind, 'with keys, without a restart', 't', 'z', 'plain');
is($reader->query_safe('SELECT count(*) FROM t WHERE doc::bytea = blob(seed, len)'), $count{t}, 'in a session that could not read');
$reader->quit;

# another key of that name
set($second, 'master_key', '');
set_command($second, 'second');
is($second->safe_psql('postgres', 'SELECT securefile_load_keys()'), 1, 'another key of that name is loaded');
locked($second, 'one', 'another key of that name', 't', 'z');
fails_with($second, 'SELECT doc::bytea FROM t WHERE id = 1', '55000', 'A key of that name with other bytes is not the same', 'another key of that name: is told');

# ---- recovery to points in time ----

sub point { my ($name) = @_; sql("SELECT pg_create_restore_point('$name')"); return }
my %then = ('before_rewrap' => {%count});
point('before_rewrap');
put_keys('home', 'two', 'one');
set($home, 'master_key', 'two');
sql('SELECT securefile_load_keys()');
is(sql('SELECT securefile_rewrap()'), 6, 'all data keys get another master key');
put_keys('home', 'two');
sql('SELECT securefile_load_keys()');
all_right($home, 'and the old one is needed no more', 't', 'z');
more(31, 't', 'k');
$then{before} = {%count};
point('before');
is(sql("SELECT securefile_new_key('k', 'doc')"), 2, 'a new data key');
more(41, 'k');
my $session = background($home);
$session->query_safe(q{BEGIN; SELECT securefile_shred('s', 'doc', true)});
$then{meanwhile} = {%count};
point('meanwhile');
$session->query_safe('COMMIT');
$session->quit;
$then{after} = {%count};
point('after');
sql(q{SELECT securefile_maintain('s', 'doc')});
is(shown($home, 's'), '1 destroyed', 'the keys of a column are destroyed');
my $last = sql('SELECT pg_walfile_name(pg_switch_wal())');
ok(wait_for_sql($home, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver"), 'archived');

sub recovered
{
	my ($point, @keys) = @_;
	put_keys($point, @keys);
	my $node = copy_of($point, $home, 'base',
		[ key_command($point), "recovery_target_name = '$point'", 'recovery_target_action = promote', "securefile.master_key = ''" ], has_restoring => 1, standby => 0);
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
	%count = %{ $then{$point} };
	return $node;
}
my %now = %count;

# to before the rewrap
my $node = recovered('before_rewrap', 'two');
locked($node, 'one', 'before a rewrap, without the old master key', 't', 'z', 's');
is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT id || ': ' || finding, ', ') FROM securefile_check('f', 'doc') c JOIN f ON f.ctid = c.ctid"), '11: data left behind, 13: data left behind', 'a check without the key finds what was left behind');
is(load_keys($node, 'two', 'one'), 2, 'the old master key is loaded');
all_right($node, 'before a rewrap, with it', 't', 'z', 's', 'plain');
is(join(' ', right_or_left_behind($node, 'f', 'before a rewrap')), '11 13', 'data in no WAL is left behind, and not for a key');
set($node, 'master_key', 'two');
four($node, 'f', 101);
is(join(' ', right_or_left_behind($node, 'f', 'before a rewrap, written')), '11 13', 'also when others may have its place');
is($node->safe_psql('postgres', 'SELECT securefile_rewrap()'), 6, 'wrapped anew there');
load_keys($node, 'two');
all_right($node, 'wrapped anew there', 't', 'z', 's');
$node->stop;

# to before a new data key and a shredding; another key of the same number is made
$node = recovered('before', 'two');
all_right($node, 'before a shredding', 't', 'k', 's', 'plain');
is(shown($node, 'k') . '; ' . shown($node, 's'), '1* usable two; 1* usable two', 'keys are as they were');
is($node->safe_psql('postgres', "SELECT securefile_new_key('k', 'doc')"), 2, 'another new data key');
four($node, 'k', 41);
rows_right($node, 'k', $count{k} + 4, 'with another new data key');
is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$_', 'doc')"), 0, "$_ is sound") foreach 'k', 's';
$node->stop;

# to the middle of it
$node = recovered('meanwhile', 'two');
all_right($node, 'recovery to before the commit', 's');
is($node->safe_psql('postgres', q{SELECT count(*) FROM securefile_maintain('s', 'doc')}) . shown($node, 's'), '11* usable two', 'the keys are there, and stay');
four($node, 's', 11 + 10);
rows_right($node, 's', $count{s} + 4, 'and are used');
$node->stop;

# to right after it
$node = recovered('after', 'two');
fails_with($node, "SELECT doc::bytea FROM s WHERE id = $_", '55000', 'data key 1 of column "doc" of table "s" was destroyed', "recovery to after the commit: row $_") foreach 1, 2;
is(shown($node, 's'), '1 shredded', 'that is not finished');
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath(segment_relid) FROM securefile_columns WHERE relname = 's'});
$node->safe_psql('postgres', 'CHECKPOINT');
my $bytes = slurp($file);
my ($wrapped) = $bytes =~ /(?=two\0)/g ? substr($bytes, $-[0] - NAME + KEY, KEY_BYTES) : '';
ok(length $wrapped && $wrapped ne "\0" x KEY_BYTES, 'the bytes are on disk still');
$node->safe_psql('postgres', q{SELECT securefile_maintain('s', 'doc')});
is(shown($node, 's'), '1 destroyed', 'the recovered server finishes it');
is(index(slurp($file), $wrapped), -1, 'and overwrites them');
four($node, 's', 21);
is($node->safe_psql('postgres', 'SELECT count(*) FROM s WHERE id > 20 AND doc::bytea = blob(seed, len)'), 4, 'new values have a new key');
$node->stop;
%count = %now;

# ---- a backup on another machine; a tablespace move, and a crash in the middle ----

$home->backup('later');
my $elsewhere = copy_of('elsewhere', $home, 'later', [ "securefile.key_command = ''", "securefile.master_key = ''", 'securefile.monitor = on' ]);
locked($elsewhere, 'two', 'restored, without keys', 't', 'z', 'f');
fails_with($elsewhere, "INSERT INTO $_ VALUES (99, 99, 10, blob(99, 10))", '55000', "there is no current master key\n.*The setting securefile.key_command is empty", "restored, without keys: no value is stored in $_") foreach 't', 'f';
$elsewhere->safe_psql('postgres', q{CREATE TABLESPACE space LOCATION ''});
my $move = 'ALTER TABLE t SET TABLESPACE %s';
$elsewhere->safe_psql('postgres', sprintf($move, 'space'));
foreach my $point ('move_chunk', 'move_done')
{
	ok(dies_at($elsewhere, $point, 'kill', sprintf($move, 'pg_default')), "killed at $point, without keys");
}
locked($elsewhere, 'two', 'moved, without keys', 't');
put_keys('another', 'two');
set_command($elsewhere, 'another');
is($elsewhere->safe_psql('postgres', 'SELECT securefile_load_keys()'), 1, 'a key command of its own');
all_right($elsewhere, 'restored, with keys', 't', 'z', 'f', 'k', 'plain');
foreach my $point ('move_chunk', 'move_done')
{
	ok(dies_at($elsewhere, $point, 'kill', sprintf($move, 'pg_default')), "killed at $point");
	four($elsewhere, 't', $point eq 'move_chunk' ? 101 : 111);
	$count{t} += 4;
	all_right($elsewhere, "killed at $point", 't');
}
$elsewhere->safe_psql('postgres', sprintf($move, 'pg_default'));
crash($elsewhere);
$elsewhere->start;
all_right($elsewhere, 'moved', 't');
sound($elsewhere, $_, 'moved') foreach 't', 'z', 'f';
$elsewhere->stop;
$count{t} = $now{t};

# ---- promotion without keys, and with other ones ----

both_caught_up();
$second->promote;
locked($second, 'two', 'promoted without keys', 't', 'z');
is($second->safe_psql('postgres', q{UPDATE t SET seed = seed WHERE id < 3; UPDATE z SET doc = '' WHERE id = 1; DELETE FROM z WHERE id = 2; INSERT INTO t VALUES (98, 98, NULL, NULL); DELETE FROM t WHERE id = 98; VACUUM t; SELECT count(*) FROM t}), $count{t},
	'promoted without keys: rows are changed where no value is made or read');
fails_with($second, "UPDATE t SET doc = doc || 'x' WHERE id = $_", '55000', 'master key "two" of column "doc" of table "t" is not loaded', "promoted without keys: row $_ is not edited") foreach 1, 2;
load_keys($second, 'two=three');
fails_with($second, "INSERT INTO t VALUES (99, 99, $_, blob(99, $_))", '55000', 'master key "two" is another one than that of data key 1 of column "doc" of table "t"\n.*other bytes', "promoted with another key of that name: a value of $_ bytes is not stored") foreach 10, 20000;
is(shown($second, 't'), '1 usable two', 'and no data key is made');
load_keys($second, 'two');
all_right($second, 'promoted, then with keys', 't');
four($second, 't', 201);
rows_right($second, 't', $count{t} + 4, 'promoted, then with keys: written');
is($second->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$_', 'doc')"), 0, "promoted, then with keys: $_ is sound") foreach 't', 'z';
$second->stop;

# ---- promotion with keys, and the old primary, which had made other ones ----

load_keys($blind, 'two', 'three');
set($blind, 'master_key', 'two');
$blind->promote;
all_right($blind, 'promoted with keys', 't', 'z', 'k');
# on both: t and k get keys of the same numbers; on the old one only: z; wrapped anew: s
load_keys($home, 'two', 'three');
sql(q{SELECT securefile_new_key('t', 'doc')}, q{SELECT securefile_new_key('k', 'doc', true)}, q{SELECT securefile_new_key('z', 'doc')}, q{SELECT securefile_rewrap('plain', 'doc'), securefile_rewrap('t', 'doc', 'three')});
four($home, $_, 301) foreach 't', 'k', 'z', 's';
$blind->safe_psql('postgres', q{CHECKPOINT; SELECT securefile_new_key('t', 'doc'); SELECT securefile_new_key('k', 'doc')});
four($blind, $_, 401) foreach 't', 'k';
$count{$_} += 4 foreach 't', 'k';
my %keys_of = map { $_ => shown($blind, $_) } 't', 'k', 'z', 's';
isnt(shown($home, $_), $keys_of{$_}, "$_ has other keys on the old primary") foreach sort keys %keys_of;
crash($home);
my $conf = $home->data_dir . '/postgresql.conf';
copy($conf, "$dir/kept") or die $!;
command_ok([ 'pg_rewind', '--no-sync', '--target-pgdata', $home->data_dir, '--source-server', $blind->connstr('postgres') ], 'pg_rewind');
copy("$dir/kept", $conf) or die $!;
$home->enable_streaming($blind);
$home->set_standby_mode;
$home->start;
catch_up($blind, $home);
foreach my $step ('rewound', 'follows')
{
	all_right($home, $step, 't', 'z', 'k', 'plain');
	is(shown($home, $_), shown($blind, $_), "$step: keys of $_") foreach sort keys %keys_of;
	is($home->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$_', 'doc')"), 0, "$step: $_ is sound") foreach 't', 'z', 'k', 's';
	last if $step eq 'follows';
	four($blind, $_, 501) foreach 't', 'z', 's';
	$count{$_} += 4 foreach 't', 'z', 's';
	catch_up($blind, $home);
}
$blind->stop;
$home->promote;
four($home, $_, 601) foreach 't', 'z', 'k';
$count{$_} += 4 foreach 't', 'z', 'k';
all_right($home, 'rewound and promoted', 't', 'z', 'k');
sound($home, $_, 'rewound and promoted') foreach 't', 'z', 'k';
$home->stop;
unlike(slurp($_->logfile), qr/TRAP: |PANIC|\bXX000\b|\bXX001\b/, $_->name . ': no crash of its own') foreach $home, $blind, $second, $elsewhere;
done_testing();
