# Trap 22, rule 3: pending entries that nobody resolved for so long that clog is
# cut; vacuum of the segment must have recorded the outcomes before.  So it is for the
# list of removed values.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('old_xids', conf => ['securefile.monitor = off']);
my $segment = q{(SELECT oid FROM pg_class WHERE relname = 'pg_securefile_' || 't'::regclass::oid || '_4')};
make_table($node, 't');
fill($node, 't', 1, 20, 100_000);

# freed, replaced, aborted: entries of all kinds, and no resolver
# (who writes resolves what was left before, so the deletion is last)
$node->psql('postgres', 'BEGIN; INSERT INTO t SELECT i, i, 14000000, blob(i, 14000000) FROM generate_series(100, 101) i; ROLLBACK');
$node->safe_psql('postgres', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id < 4');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 10');
is($node->safe_psql('postgres', "SELECT pending_bytes >= 10 * 100000 FROM securefile_usage('t', 'doc')"),
	't', 'entries that nobody has resolved');
# values that a retention keeps; so many that also those of a DELETE that is rolled back are noted
make_table($node, 'k', q{'retention 63 weeks', 'max_size 96 MB'});
fill($node, 'k', 1, 100, 6000);
$node->safe_psql('postgres', "BEGIN; DELETE FROM k; ROLLBACK");
$node->safe_psql('postgres', 'DELETE FROM k WHERE id > 90');
my $removed = q{SELECT count(*), min(row_key ->> 'id'), string_agg(DISTINCT outcome(document, (row_key ->> 'id')::int, 6000), ' ') FROM securefile_removed('k', 'doc')};
is($node->safe_psql('postgres', $removed), '10|100|right', 'removed values are listed');
$node->safe_psql('postgres', 'CHECKPOINT');

# three million transactions later
my $next = $node->safe_psql('postgres', 'SELECT pg_current_xact_id()::text::bigint');
my $jump = (int($next / 1_048_576) + 3) * 1_048_576;
$node->stop;
$node->command_ok([ 'pg_resetwal', '-x', $jump, $node->data_dir ], 'transaction numbers go on');
my $clog = sprintf '%s/pg_xact/%04X', $node->data_dir, $jump / 1_048_576;
write_file($clog, "\0" x 262_144);
$node->start;

my $old = $node->safe_psql('postgres', "SELECT age(relfrozenxid) FROM pg_class WHERE oid = $segment");
cmp_ok($old, '>', 2_000_000, 'relfrozenxid of the segment is real: old');

# autovacuum comes by itself, though it is off, and lets go of the old ones
$node->append_conf('postgresql.conf', "autovacuum_freeze_max_age = 200000\nautovacuum_naptime = '1s'\nautovacuum_vacuum_cost_delay = 0");
$node->restart;
ok($node->poll_query_until('postgres', "SELECT age(relfrozenxid) < 1000000 FROM pg_class WHERE oid = $segment"),
	'vacuum of the segment advances its relfrozenxid');
ok($node->poll_query_until('postgres', 'SELECT max(age(datfrozenxid)) < 1000000 FROM pg_database'),
	'and the databases their datfrozenxid');
ok(wait_until(sub { !-e $node->data_dir . '/pg_xact/0000' }), 'old clog is gone');

rows_right($node, 't', 10, 'after three million transactions');
sound($node, 't', 'after three million transactions');
is($node->safe_psql('postgres', $removed), '10|100|right', 'the same removed values are listed, and right');
ok($node->poll_query_until('postgres', q{SELECT age(relfrozenxid) < 1000000 FROM pg_class WHERE relname = 'pg_securefile_' || 'k'::regclass::oid || '_4'}),
	'a segment that has them does not hold the commit log');
is($node->safe_psql('postgres', q{SELECT retained_bytes > 0, retained_bytes = pending_bytes FROM securefile_maintain('k', 'doc'), securefile_usage('k', 'doc')}), 't|t', 'they are kept');
fill($node, 't', 200, 220, 100_000);
rows_right($node, 't', 31, 'and in the space that came back');
crash($node);
$node->start;
rows_right($node, 't', 31, 'and after a crash');
sound($node, 't', 'and after a crash');
is($node->safe_psql('postgres', $removed), '10|100|right', 'and removed values');
is($node->safe_psql('postgres', q{SELECT count(*) FROM securefile_check('k', 'doc')}), 0, 'which the check finds right');

# the monitor switched off for long: its work is done when it comes back
$node->safe_psql('postgres', 'DELETE FROM t WHERE id >= 200');
$node->append_conf('postgresql.conf', 'securefile.monitor = on');
$node->restart;
pending_is_gone($node, 't', 'the monitor takes up what was left');
sound($node, 't', 'the monitor takes up what was left');
$node->stop;
done_testing();
