# Failover slots: the standby of a publisher has the slot of its subscription, is promoted
# when the publisher dies, and the subscriber goes on there.  Nothing is lost and nothing
# comes twice: of what the slot had sent, of what it was behind with (versions that were
# replaced and deleted since), and of what the new publisher writes.  The limits that
# doc/operations.md tells of: the standby has no data that is not in WAL, and does not keep
# storage that was dropped while the slot lagged.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my @logical = ('wal_level = logical', 'max_wal_senders = 10', 'max_replication_slots = 10', master_key());
my $old = new_cluster('old',
	start => 0,
	init => { allows_streaming => 'logical' },
	conf => [ @logical, "synchronized_standby_slots = 'standby'" ]);
plan skip_all => 'failover slots came with PostgreSQL 17' if $old->pg_version < 17;
$old->start;
SecurefileTest::prepare_database($old, 'postgres');

# ---- contents ----

my %options = (l => '', small => 'compress', shares => 'deduplicate, hash', sealed => 'encrypt, compress', in_segment => 'disable_storage_in_row, nocache');
my @tables = sort keys %options;
my $size = '(ARRAY[0, 1, 100, 4000, 4001, 20000, 131072, 131073, 1000000])[1 + i % 9]';

sub add
{
	my ($node, $from, $to) = @_;
	fill($node, $_, $from, $to, $size) foreach @tables;
	return;
}

sub change
{
	my ($node, $n) = @_;
	$node->safe_psql('postgres', join(';', map { ("UPDATE $_ SET seed = id + $n, doc = blob(id + $n, len) WHERE id % 4 = $n % 4", "DELETE FROM $_ WHERE id % 11 = $n % 11") } @tables));
	return;
}

# Rows with their values.
sub contents
{
	my ($node) = @_;
	return $node->safe_psql('postgres', join(' UNION ALL ', map { "SELECT '$_', count(*), md5(string_agg(concat_ws(':', id, seed, len, md5(doc::bytea)), ',' ORDER BY id)) FROM $_" } @tables) . ' ORDER BY 1');
}

# The subscriber's versions are those of the publisher.
sub same
{
	my ($publisher, $subscriber, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$publisher->wait_for_catchup('sub');
	is(contents($subscriber), contents($publisher), "$name: rows and values");
	rows_right($subscriber, $_, $publisher->safe_psql('postgres', "SELECT count(*) FROM $_"), $name) foreach @tables;
	return;
}

# ---- a publisher, its standby, a subscriber ----

$old->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby')});
make_table($old, $_, $options{$_}) foreach @tables, 'cut';
make_table($old, 'f', 'filesystem_like_logging');
add($old, 1, 18);
$old->backup('base');
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init_from_backup($old, 'base', has_streaming => 1);
my $from = $old->connstr . ' dbname=postgres application_name=new';
$new->append_conf('postgresql.conf', "primary_conninfo = '$from'\nprimary_slot_name = 'standby'\nhot_standby_feedback = on\nsync_replication_slots = on\nsynchronized_standby_slots = ''\n");
$new->start;

my $subscriber = new_cluster('subscriber', init => { allows_streaming => 'logical' }, conf => \@logical);
make_table($subscriber, $_, $options{$_}) foreach @tables;
$old->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE ' . join(', ', @tables));
$subscriber->safe_psql('postgres', 'CREATE SUBSCRIPTION sub CONNECTION $$' . $old->connstr('postgres') . '$$ PUBLICATION pub WITH (failover = true)');
$subscriber->wait_for_subscription_sync($old, 'sub');

# The standby has the slot, as far as that is on the publisher now.
sub slot_synced
{
	my ($slot) = @_;
	my $lsn = $old->safe_psql('postgres', "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '$slot'");
	return $new->poll_query_until('postgres', "SELECT synced AND NOT temporary AND confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = '$slot'");
}

# another slot, of which nobody reads; the standby takes one only once it has come on
$old->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('lags', 'pgoutput', false, false, true); CREATE PUBLICATION pub_rest FOR TABLE f, cut});
ok(wait_until(sub {
			$old->safe_psql('postgres', q{SELECT pg_replication_slot_advance('lags', pg_current_wal_lsn())});
			$new->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'lags' AND synced AND NOT temporary}) == 1;
		}, patience(), 200_000), 'the standby has a slot that nobody reads');

add($old, 21, 38);
change($old, 1);
same($old, $subscriber, 'before');
ok(slot_synced('sub'), 'the standby has the slot');

# ---- the slot lags, and values that it has to send are replaced and deleted ----

$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION sub DISABLE');
$old->poll_query_until('postgres', q{SELECT NOT active FROM pg_replication_slots WHERE slot_name = 'sub'}) or die 'still active';
add($old, 41, 58);
change($old, 2);
change($old, 6);
$old->safe_psql('postgres', join(';', map { "DELETE FROM $_ WHERE id BETWEEN 50 AND 55" } @tables));
fill($old, 'f', 1, 5, 200_000);
my $between = $old->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
fill($old, 'cut', 1, 5, 200_000);
$old->safe_psql('postgres', 'TRUNCATE cut');
# these would free and use again what no slot needs
foreach my $t (@tables)
{
	$old->safe_psql('postgres', "SELECT securefile_maintain('$t', 'doc')");
}
add($old, 61, 70);
cmp_ok(usage($old, 'l', 'doc')->{pending_bytes}, '>', 0, 'space of what the slot has to send is pending');
catch_up($old, $new);
my $want = contents($old);

# ---- the publisher dies ----

crash($old);
$new->promote;
is($new->safe_psql('postgres', q{SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots WHERE failover}), 'lags sub', 'the new publisher has the slots');
is(contents($new), $want, 'and all rows and values');
# and so would these
foreach my $t (@tables)
{
	$new->safe_psql('postgres', "SELECT securefile_maintain('$t', 'doc')");
}
add($new, 71, 88);
change($new, 3);
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION sub CONNECTION $$' . $new->connstr('postgres') . '$$; ALTER SUBSCRIPTION sub ENABLE');
same($new, $subscriber, 'after the failover');
add($new, 91, 108);
change($new, 4);
same($new, $subscriber, 'later');
is($subscriber->safe_psql('postgres', 'SELECT apply_error_count FROM pg_stat_subscription_stats'), 0, 'no error on the way');
# ---- the limits: data that is not in WAL; storage that was replaced while the slot lagged ----

my $rest = q{SELECT count(*) FILTER (WHERE get_byte(data, 0) = ascii('I')) FROM pg_logical_slot_get_binary_changes('lags', NULL, NULL, 'proto_version', '1', 'publication_names', 'pub_rest')};
fails_with($new, $rest, '58P01', 'securefile_fetch_left_behind', 'data that is not in WAL is not there');
$new->safe_psql('postgres', "SELECT pg_replication_slot_advance('lags', '$between')");
fails_with($new, $rest, 42704, 'storage that the replication slot needs is not on this server.*pg_replication_slot_advance', 'what was truncated is not kept on a standby');
# as doc/operations.md says: the slot leaves it out, and goes on
$new->safe_psql('postgres', q{SELECT pg_replication_slot_advance('lags', pg_current_wal_lsn())});
fill($new, 'cut', 11, 15, 200_000);
is($new->safe_psql('postgres', $rest), 5, 'beyond that it has all rows');
$new->safe_psql('postgres', q{SELECT pg_drop_replication_slot('lags')});

# ---- both are in order ----

foreach my $node ($new, $subscriber)
{
	sound($node, $_, $node->name, $options{$_} =~ /disable_storage_in_row/ ? (in_row => 0) : ()) foreach 'l', 'in_segment', 'sealed';
	is($node->safe_psql('postgres', join(' UNION ALL ', map { "SELECT '$_', f.* FROM securefile_check('$_', 'doc') f" } @tables)), '', $node->name . ': the check is silent');
}

$new->stop;
$subscriber->stop;
done_testing();
