# Logical replication sends contents, also of versions that are gone since, and a
# slot that lags keeps them.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $pub = new_cluster('publisher',
	init => { allows_streaming => 'logical' },
	conf => [ 'wal_level = logical', 'max_replication_slots = 10', 'logical_decoding_work_mem = 64kB' ]);
my $sub = new_cluster('subscriber', init => { allows_streaming => 'logical' });
my $con = $pub->connstr . ' dbname=postgres';
foreach my $node ($pub, $sub)
{
	make_table($node, 't');
	make_table($node, 'f', 'filesystem_like_logging');
	make_table($node, 'whole');
}
$pub->safe_psql('postgres', 'ALTER TABLE whole REPLICA IDENTITY FULL');
fill($pub, 't', 1, 5, 30000);
$pub->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE t, f, whole');
$sub->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$con' PUBLICATION p");
$sub->wait_for_subscription_sync($pub, 's');
rows_right($sub, 't', 5, 'initial');
fill($pub, $_, 11, 20, 30000) for ('t', 'f', 'whole');
fill($pub, 't', 21, 22, 14000000);
$pub->wait_for_catchup('s');
rows_right($sub, 't', 17, 'inserted');
rows_right($sub, 'f', 10, 'inserted');
rows_right($sub, 'whole', 10, 'inserted');
$pub->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 3; UPDATE t SET id = id + 1000 WHERE id = 21; DELETE FROM t WHERE id = 22; UPDATE whole SET id = id + 100; DELETE FROM whole WHERE id = 112');
$pub->safe_psql('postgres', "BEGIN; INSERT INTO t VALUES (500, 500, 50000, blob(500, 50000)); UPDATE t SET seed = 501, doc = blob(501, 50000) WHERE id = 500; UPDATE t SET seed = 502, doc = blob(502, 50000) WHERE id = 500; COMMIT");
$pub->wait_for_catchup('s');
rows_right($sub, 't', 17, 'updated');
rows_right($sub, 'whole', 9, 'updated');

# ---- a slot that lags ----
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s DISABLE');
$pub->safe_psql('postgres', 'UPDATE t SET seed = seed + 7, doc = blob(seed + 7, len); UPDATE t SET seed = seed + 7, doc = blob(seed + 7, len); DELETE FROM t WHERE id = 3');
$pub->safe_psql('postgres', "SELECT securefile_maintain('t', 'doc')") for 1..3;
fill($pub, 't', 600, 620, 30000);
isnt(usage($pub, 't', 'doc')->{pending_bytes}, 0, 'old versions stay');
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s ENABLE');
$pub->wait_for_catchup('s');
rows_right($sub, 't', 37, 'lagged');
sound($pub, 't', 'after the slot has caught up');
$sub->stop;
$pub->stop;
done_testing();
