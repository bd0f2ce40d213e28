# securefile shrink: space of a column goes back to the file system; what could is said before, as the
# server says it; progress comes over a second connection, and is left out without one; an interrupt
# cancels the call; tables without names, several columns, rights, wrong usage.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileSpace;
use SecurefileTest;
use Test::More;

my $node = new_cluster('command_shrink', conf => [ 'securefile.monitor = off', 'autovacuum = off', 'wal_level = logical' ]);
need_faults($node);
enter($node);

# A table without a primary key, of whose rows all but the last are deleted.
sub with_free
{
	my ($table, %params) = @_;
	my $len = $params{len} // 400000;
	my $options = $params{options} // 'logging';
	sql("CREATE TABLE $table (note text, doc securefile($options))", "INSERT INTO $table SELECT i, blob(i, $len) FROM generate_series(1, 20) i", "DELETE FROM $table WHERE note <> '20'");
	settle($node, $table, 'doc');
	sql('CHECKPOINT');
	return;
}

# Start the command, stopped at that point; what it says on standard error.
my ($run, $err);

sub begin
{
	my ($point, @args) = @_;
	my $before = fired($node, $point);
	arm($node, $point, 'wait');
	$err = '';
	$run = IPC::Run::start([ 'securefile', 'shrink', @args ], '<', '/dev/null', '>', \my $out, '2>', \$err);
	return wait_for_sql($node, "SELECT securefile_fault_fired('$point') > $before");
}

# It is interrupted: it ends, and its call does.
sub interrupted
{
	my ($name) = @_;
	$run->signal('INT');
	$run->finish;
	is(status_of($run->full_result), 130, "$name is interrupted");
	like($err, qr/^securefile: interrupted$/m, 'says so');
	ok(wait_for_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'securefile'}), 'cancels the call');
	disarm($node);
	return;
}

sub says
{
	my ($like) = @_;
	return wait_until(sub { $run->pump_nb; return $err =~ $like });
}

# ---- the estimate ----

with_free($_) foreach 'a', 'b', '"Odd %s"';
my $said = sql(q{SELECT to_jsonb(e) FROM securefile_shrink_estimate('a', 'doc') e});
my ($expected) = objects($said);
my ($estimate) = objects(ends(0, qr/"releasable_bytes"/, 'the estimate', 'shrink', '-t', 'a', '--estimate', '--json'));
is_deeply($estimate, { report => 'shrink', %$expected }, 'is what the server says, and rows are not known');
sql('ANALYZE a');
ends(0, qr/\A +[0-9.]+ MB files\n +[0-9.]+ MB on disk\n +[0-9.]+ kB live\n +[0-9.]+ MB can be given back.*\n +[0-9.]+ kB lie high.*\n +1 rows have these.*\n +[0-9.]+ [kM]B files, when.*\n\z/, 'as lines', 'shrink', '-t', 'a', '--estimate');
is(disk_bytes('a'), $expected->{disk_bytes}, 'and nothing is given back');

# ---- the call ----

my ($summary) = objects(ends(0, qr/"summary"/, 'shrink', 'shrink', '-t', 'a', '--json'));
my $after = disk_bytes('a');
cmp_ok($after, '<=', $expected->{disk_bytes} - $expected->{releasable_bytes} * 0.9, "$expected->{disk_bytes} bytes on disk become $after");
is_deeply($summary, { summary => 'shrink', mode => 'release', file_bytes_before => $expected->{file_bytes}, file_bytes => $expected->{file_bytes}, disk_bytes_before => $expected->{disk_bytes}, disk_bytes => $after }, 'and so it says');
ends(0, qr/\Aon disk [0-9.]+ MB, before [0-9.]+ MB; files [0-9.]+ MB, before [0-9.]+ MB\n\z/, 'again, another name, a schema', 'shrink', '-t', 'public."Odd %s"', '-c', 'doc');
ends(0, qr/\A\z/, 'quietly', '-q', 'shrink', '-t', 'a');
is(sql("SELECT note FROM a WHERE doc::bytea = blob(20, 400000)"), '20', 'the value is there');

# how far it is, while it is
ok(begin('release_before', '-t', 'b'), 'a release in the middle');
is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'securefile'}), 2, 'two connections');
ok(says(qr/^securefile: \[\.{20}\]   0 %  giving space back$/m), 'a bar of the release') or diag($err);
is(sql(q{SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND relation = 'b'::regclass AND mode <> 'AccessShareLock'}), 0, 'which keeps nobody out');
interrupted('a release');
ends(0, qr/^on disk/m, 'the next one does it', 'shrink', '-t', 'b');
cmp_ok(disk_bytes('b'), '<', mb(2), 'all of it: nothing was kept');

# ---- shorter files ----

with_free('m');
my ($before) = file_bytes('m');
ok(begin('shrink_batch_done', '-t', 'm', '--move'), 'a move in the middle');
ok(says(qr/^securefile: \[[#.]{20}\] +\d+ %  moving values/m), 'a bar of the move') or diag($err);
interrupted('a move');
($summary) = objects(ends(0, qr/"summary"/, 'move', 'shrink', '-t', 'm', '--move', '--json'));
is("$summary->{mode} $summary->{file_bytes_before} $summary->{file_bytes}", "move $before " . file_bytes('m'), 'says what it did');
cmp_ok(file_bytes('m'), '<', $before * 0.5, "files of $before bytes have " . file_bytes('m'));
is(sql("SELECT note FROM m WHERE doc::bytea = blob(20, 400000)"), '20', 'the value is there');
with_free('fs', options => 'filesystem_like_logging');
ends(3, qr/filesystem_like_logging.*force/s, 'values that are not in WAL', 'shrink', '-t', 'fs', '--move');
ends(0, qr/on disk.*base backup/s, 'are forced', 'shrink', '-t', 'fs', '--move', '--force');
cmp_ok(file_bytes('fs'), '<', $before * 0.5, 'too');
with_free('sent');
sql(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
ends(3, qr/replicated logically.*allow_decoding/s, 'values that would be sent', 'shrink', '-t', 'sent', '--move');
ends(0, qr/^on disk/m, 'may be', 'shrink', '-t', 'sent', '--move', '--allow-decoding');
sql(q{SELECT pg_drop_replication_slot('s')});

# ---- what is refused ----

sql('CREATE TABLE two (doc securefile, other securefile)', 'CREATE TABLE none (note text)', 'CREATE VIEW seen AS TABLE a', 'CREATE ROLE other LOGIN');
ends(3, qr/relation "nothing" does not exist/, 'no table', 'shrink', '-t', 'nothing');
ends(3, qr/has no securefile column/, 'no column', 'shrink', '-t', 'none');
ends(3, qr/has several securefile columns\nHint: Say with -c which one/, 'two columns', 'shrink', '-t', 'two');
ends(0, qr/^on disk 0 bytes/, 'one of them', 'shrink', '-t', 'two', '-c', 'other');
ends(3, qr/must be owner of table a/, 'another role', 'shrink', '-t', 'a', '-U', 'other', $_) foreach '-q', '--estimate';
ends(3, qr/"seen" is not a table/, 'a view', 'shrink', '-t', 'seen');
ends(2, qr/say with -t which table/, 'without a table', 'shrink');
ends(2, qr/too many arguments: shrink wants options only/, 'an argument', 'shrink', '-t', 'a', 'b');
ends(2, qr/--rate wants a number of bytes/, 'a wrong rate', 'shrink', '-t', 'a', '--rate', 'fast');
ends(2, qr/takes neither --rate nor --move/, "an estimate with $_->[0]", 'shrink', '-t', 'a', '--estimate', @$_) foreach [ '--rate', '1MB' ], ['--move'];
ends(2, qr/need --move/, $_, 'shrink', '-t', 'a', $_) foreach '--force', '--allow-decoding';
ends(2, qr/unrecognized option '--key/, 'no names are needed', 'shrink', '-t', 'a', '--key=note');
ends(3, qr/Connection refused|No such file/, 'no server', 'shrink', '-t', 'a', '-h', '/nowhere');

# the reason is the server's
with_free('c');
my $whole = disk_bytes('c');
arm($node, 'io_extents', 'enotsup', times => -1);
ends(3, qr/could not promise room in segment data file .*\nDetail: Its file system cannot/, 'a file system without holes', 'shrink', '-t', 'c');
disarm($node);
is(disk_bytes('c'), $whole, 'nothing was given back');

# the rate is passed on: with it a call takes longer than it may here; there are more than ten holes of 2 MB
with_free('slow', len => 1500000);
sql('ALTER ROLE ' . sql('SELECT quote_ident(current_user)') . q{ SET statement_timeout = '2s'});
ends(3, qr/canceling statement due to statement timeout/, 'a rate', 'shrink', '-t', 'slow', '--rate', '1kB');
sql('ALTER ROLE ' . sql('SELECT quote_ident(current_user)') . ' RESET statement_timeout');
ends(0, qr/\Aon disk/, 'another one', 'shrink', '-t', 'slow', '--rate', '2GB');

# without a second connection
sql('ALTER ROLE other CONNECTION LIMIT 1', 'ALTER TABLE c OWNER TO other');
ends(0, qr/\Aon disk/, 'one connection is enough', 'shrink', '-t', 'c', '-U', 'other');
cmp_ok(disk_bytes('c'), '<', $whole * 0.5, 'for all of it');

done_testing();
