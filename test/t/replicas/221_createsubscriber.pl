# pg_createsubscriber: a standby becomes a subscriber of its primary, with the values that
# it has.  What the primary writes before, meanwhile and afterwards arrives once; the data
# files are the subscriber's own after securefile_upgrade_finish().
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $primary = new_cluster('primary',
	start => 0,
	init => { allows_streaming => 'logical' },
	conf => [ 'wal_level = logical', 'max_wal_senders = 10', 'max_replication_slots = 10', master_key() ]);
plan skip_all => 'pg_createsubscriber came with PostgreSQL 17' if $primary->pg_version < 17;
$primary->start;
SecurefileTest::prepare_database($primary, 'postgres');

# ---- contents ----

my %options = (l => '', f => 'filesystem_like_logging', small => 'compress', shares => 'deduplicate, hash', sealed => 'encrypt, compress', in_segment => 'disable_storage_in_row, nocache');
my @tables = sort keys %options;
my $size = '(ARRAY[0, 1, 100, 4000, 4001, 20000, 131072, 131073, 1000000])[1 + i % 9]';

sub add
{
	my ($from, $to) = @_;
	fill($primary, $_, $from, $to, $size) foreach @tables;
	return;
}

# New versions of rows, rows that go, and rows whose other columns change.
sub change
{
	my ($n) = @_;
	$primary->safe_psql('postgres', join(';', map { ("UPDATE $_ SET seed = id + $n, doc = blob(id + $n, len) WHERE id % 4 = $n % 4", "UPDATE $_ SET id = id + 1000 WHERE id % 7 = $n % 7", "DELETE FROM $_ WHERE id % 11 = $n % 11") } @tables));
	return;
}

# Rows and, in @read, values.
sub contents
{
	my ($node, @read) = @_;
	return $node->safe_psql('postgres', join(' UNION ALL ', map { my $t = $_; "SELECT '$t', count(*), md5(string_agg(concat_ws(':', id, seed, len, "
				  . ((grep { $_ eq $t } @read) ? 'md5(doc::bytea)' : 'length(doc)') . "), ',' ORDER BY id)) FROM $t" } @tables) . ' ORDER BY 1');
}

sub silent
{
	my ($node, $name, @of) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', join(' UNION ALL ', map { "SELECT '$_', f.* FROM securefile_check('$_', 'doc') f" } @of)), '', "$name: the check is silent");
}

make_table($primary, $_, $options{$_}) foreach @tables;
add(1, 18);
$primary->backup('base');
my $standby = new_standby('standby', $primary, 'base');
add(21, 38);
change(1);
catch_up($primary, $standby);
my @behind = right_or_left_behind($standby, 'f', 'standby');
isnt("@behind", '', 'standby: data that is not in WAL is left behind');
$standby->stop;

# ---- the standby becomes a subscriber ----

# what it finds and what comes while nobody reads
add(41, 50);
my @command = ('pg_createsubscriber', '-D', $standby->data_dir, '-P', $primary->connstr('postgres'), '-d', 'postgres', '-p', $standby->port, '-s', $standby->host,
	'--publication=pub', '--subscription=sub', '--replication-slot=slot', '--recovery-timeout=' . patience());
$primary->command_ok(\@command, 'pg_createsubscriber');
add(51, 60);
change(2);
$standby->start;

sub arrived
{
	$primary->wait_for_catchup('sub');
	return;
}

my @logged = grep { $_ ne 'f' } @tables;
arrived();
is(contents($standby, @logged), contents($primary, @logged), 'subscribed: rows and values');
rows_right($standby, $_, $primary->safe_psql('postgres', "SELECT count(*) FROM $_"), 'subscribed') foreach @logged;
silent($standby, 'subscribed', @logged);
right_or_left_behind($standby, 'f', 'subscribed');

# ---- the cluster has another system identifier now: its files are not its own yet ----

isnt($standby->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()'),
	$primary->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()'), 'another system identifier');
fails_with($standby, 'CREATE TABLE refused (doc securefile)', '55000', 'securefile_upgrade_finish', 'a new column waits');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM securefile_upgrade_finish()'), 0, 'securefile_upgrade_finish(): nothing to bring');
$standby->safe_psql('postgres', 'CREATE TABLE local (id int PRIMARY KEY, seed int, len int, doc securefile)');
fill($standby, 'local', 1, 18, $size);
rows_right($standby, 'local', 18, 'a table of its own');
my $files = scalar(data_files($standby));
$standby->safe_psql('postgres', 'DROP TABLE local');
cmp_ok(scalar(data_files($standby)), '<', $files, 'whose files go with it');

# ---- replication goes on ----

add(61, 78);
change(3);
arrived();
is(contents($standby, @logged), contents($primary, @logged), 'later: rows and values');
crash($standby);
$standby->start;
add(81, 98);
arrived();
is(contents($standby, @logged), contents($primary, @logged), 'after a crash: rows and values');
sound($standby, $_, 'subscriber', $options{$_} =~ /disable_storage_in_row/ ? (in_row => 0) : ()) foreach 'l', 'in_segment', 'sealed';

# the primary still has, where it was, what no later version has replaced
@behind = right_or_left_behind($standby, 'f', 'later');
isnt("@behind", '', 'later: some is left behind');
my $fetched = $standby->safe_psql('postgres', 'SELECT fetched_values FROM securefile_fetch_left_behind($$' . $primary->connstr('postgres') . '$$)');
is($fetched, scalar(@behind), 'what was left behind is fetched');
is(scalar(@behind = right_or_left_behind($standby, 'f', 'fetched')), 0, 'and nothing is left');
is(contents($standby, @tables), contents($primary, @tables), 'all rows and values');
silent($standby, 'fetched', @tables);

$standby->stop;
$primary->stop;
done_testing();
