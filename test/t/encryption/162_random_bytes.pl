# A server whose system gives no random bytes, while it runs: whatever would encrypt is an error,
# in the middle of a value too, and nothing is stored without; all else goes on, and all that was
# there is there.  A system that always gives the same, as a machine does that is resumed from
# one image: no two messages have one nonce.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
# 150 builds its own at the same time
is(system('cc', '-fPIC', '-shared', '-o', "$dir/frozen.so", "$FindBin::RealBin/../../cipher/frozen.c"), 0, 'built');
append_to_file("$dir/keys", 'one ' . ('11' x 32) . "\ntwo " . ('22' x 32) . "\n");
my $node = new_cluster('random_bytes', start => 0, conf => [ 'securefile.monitor = off', "securefile.key_command = 'cat $dir/keys'", "securefile.master_key = 'one'" ]);
sub start
{
	local $ENV{LD_PRELOAD} = "$dir/frozen.so";
	local $ENV{FROZEN_FILE} = "$dir/frozen";
	$node->start;
	return;
}
start();
SecurefileTest::prepare_database($node, 'postgres');
prepare_handles($node);
make_raw_type($node);

sub random_gives
{
	my ($how) = @_;
	unlink "$dir/frozen";
	append_to_file("$dir/frozen", $how) if $how ne 'as ever';
	return;
}

# ---- no random bytes ----

make_table($node, $_->[0], $_->[1]) foreach [ 't', 'encrypt' ], [ 'z', 'encrypt, compress_medium' ], [ 'f', 'encrypt, filesystem_like_logging' ], [ 'none', 'encrypt' ], [ 'plain', '' ];
my @used = ('t', 'z', 'f');
foreach my $t (@used, 'plain')
{
	fill($node, $t, 1, 6, 'i * i * 20000 - 19000');
	fill($node, $t, 7, 7, 13_000_000) if $t eq 't';
}
my %count = (t => 7, z => 6, f => 6, none => 0, plain => 6);
my $session = background($node);
$session->query_safe('SELECT count(doc::bytea) FROM t');
random_gives('nothing');
sub fails { my ($sql, $message) = @_; return fails_with($node, $sql, '58000', "$message\n.*DETAIL:  The system gives no random bytes", $sql) }
my $no_value = 'could not encrypt a securefile value';
foreach my $t (@used)
{
	fails($_, $no_value)
	  foreach (map { "INSERT INTO $t SELECT 100, 1, 1, blob(1, $_)" } 1, 3000, 5000, 400000, 13000000),
	  "UPDATE $t SET doc = blob(9, 100)", "UPDATE $t SET doc = overlay(doc placing 'x'::bytea from 10) WHERE id = 6", "UPDATE $t SET doc = doc || 'x'::bytea WHERE id = 1",
	  "UPDATE $t SET doc = securefile_finish(put(securefile_open(doc, 'rw'), 3, 500000)) WHERE id = 5",
	  "COPY $t (id, doc) FROM PROGRAM 'echo 100,x' (FORMAT csv)", "SELECT securefile_rewrite('$t', 'doc')", "SELECT * FROM securefile_rewrite_some('$t', 'doc')";
	fails($_, 'could not make a key') foreach "CREATE TABLE new AS SELECT * FROM $t", "SELECT securefile_new_key('$t', 'doc')", "SELECT securefile_rewrap('$t', 'doc', 'two')";
}
fails("INSERT INTO none VALUES (1, 1, 1, 'x')", 'could not make a key');
fails('SELECT count(*) FROM made($$t$$, 1, 600000)', $no_value);
# the session that knows the key; the error is its own statement's only
$session->query("BEGIN; INSERT INTO plain SELECT 8, 8, 400000, blob(8, 400000); SAVEPOINT s; INSERT INTO t SELECT 8, 8, 400000, blob(8, 400000)");
like($session->{stderr}, qr/ERROR:  $no_value/, 'in a session that knows the key');
$session->{stderr} = '';
$session->query_safe('ROLLBACK TO s; COMMIT');
$count{plain}++;

# all else goes on
rows_right($node, $_, $count{$_}, 'without random bytes') foreach sort keys %count;
is(sql("SELECT count(*) FROM securefile_check('$_', 'doc')"), 0, "without random bytes: $_ is sound") foreach sort keys %count;
is(sql('UPDATE t SET seed = seed WHERE id < 3', 'INSERT INTO z VALUES (8, 8, 0, $$$$), (9, 9, NULL, NULL)', 'DELETE FROM z WHERE id > 7', 'SELECT securefile_load_keys()'), 2, 'rows are changed where nothing is encrypted');
is(sql("SELECT count(*) FROM securefile_keys('none', 'doc')"), 0, 'no key was made');

# in the middle of a value, and of a transaction
random_gives('as ever');
$session->query_safe('BEGIN; INSERT INTO t SELECT 8, 8, 50000, blob(8, 50000)');
my $handle = $session->query_safe("SELECT put(securefile_create('t', 'doc'), 5, 2000000)") =~ s/\s//gr;
random_gives('nothing');
$session->query("SELECT put($handle, 6, 2000000)");
like($session->{stderr}, qr/ERROR:  $no_value/, 'in the middle of a value');
$session->{stderr} = '';
$session->query_safe('ROLLBACK');
$session->query_safe("BEGIN; INSERT INTO plain SELECT 9, 9, 50000, blob(9, 50000)");
$session->query_safe('COMMIT');
$count{plain}++;
random_gives('as ever');
rows_right($node, $_, $count{$_}, 'afterwards') foreach sort keys %count;
fill($node, $_, 11, 13, 'i * i * i * 100') foreach @used, 'none';
$count{$_} += 3 foreach @used, 'none';
crash($node);
start();
rows_right($node, $_, $count{$_}, 'after a crash') foreach sort keys %count;
sound($node, $_, 'after a crash') foreach sort keys %count;

# ---- always the same ----

random_gives('same');
make_table($node, $_, 'encrypt') foreach 'a', 'b';
sql('INSERT INTO a SELECT i, i, 100, blob(i, 100) FROM generate_series(1, 100) i', 'INSERT INTO b SELECT i, i, 100, blob(i, 100) FROM generate_series(1, 100) i');
is(sql('SELECT count(DISTINCT substring(doc::raw::bytea FROM 25 FOR 24)) FROM (TABLE a UNION ALL TABLE b) v'), 200, 'of 200 messages each has a nonce of its own');
# as two machines do that were resumed from one image: keys of two columns are wrapped
sql("SELECT securefile_rewrap('t', 'doc', 'two'), securefile_rewrap('z', 'doc', 'two'), securefile_rewrap('f', 'doc', 'two')", 'CHECKPOINT');
my @nonces;
foreach my $t ('a', 'b', @used)
{
	my $all = slurp(segment_of($node, $t));
	my ($page) = pages_of($all, PAGE_KEYS);
	push @nonces, substr($all, $page * PAGE + CONTENT + 16 + 56, 24);
}
my %different = map { $_ => 1 } @nonces;
is(scalar(keys %different), 5, 'so has each wrapped key');
random_gives('as ever');
rows_right($node, 'a', 100, 'always the same');
rows_right($node, $_, $count{$_}, 'wrapped') foreach @used;
unlike(slurp($node->logfile), qr/TRAP: |PANIC|terminated by signal|\bXX000\b/, 'no crash of its own');
$node->stop;
done_testing();
