# Shared values on a standby, after a promotion, and in a cluster that was restored to a point in
# time: rows are right, references are as many as rows, contents are found again, and no space
# is lost.  A content whose data was left behind is no duplicate, and is stored anew.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use SecurefileTest;
use Test::More;

my $large = 13_000_000;
my $primary = new_cluster('primary', init => { allows_streaming => 1, has_archiving => 1 },
	conf => [ 'securefile.monitor = off', 'max_prepared_transactions = 5', master_key() ]);
my %options = (l => 'deduplicate', e => 'deduplicate, encrypt, compress_low, hash', f => 'deduplicate, filesystem_like_logging', p => '');
my @tables = sort keys %options;
my @logged = grep { $_ ne 'f' } @tables;
make_table($primary, $_, $options{$_}) foreach @tables;

sub run_sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql); }

sub usage_of
{
	my ($node, $table) = @_;
	return run_sql($node, "SELECT shared_objects, shared_references FROM securefile_usage('$table', 'doc')");
}

# Rows of few contents.  p does not deduplicate: its copies are those of a value with a map.
foreach my $t (grep { $_ ne 'p' } @tables)
{
	run_sql($primary, "INSERT INTO $t SELECT i, i % 3, 150000, blob(i % 3, 150000) FROM generate_series(1, 12) i");
}
run_sql($primary, "INSERT INTO p SELECT 1, 1, $large, blob(1, $large)");
run_sql($primary, 'INSERT INTO p SELECT i, seed, len, doc FROM p, generate_series(2, 4) i');
$primary->backup('base');
my $standby = new_standby('standby', $primary, 'base');

# After the backup: more references, contents that are new, changed versions, and gaps.
foreach my $t (@tables)
{
	run_sql($primary, "INSERT INTO $t SELECT id + 100, seed, len, doc FROM $t WHERE id <= 4;
		INSERT INTO $t SELECT 200 + i, 7, 140000, blob(7, 140000) FROM generate_series(1, 3) i;
		DELETE FROM $t WHERE id IN (1, 2)");
	run_sql($primary, "UPDATE $t SET doc = overlay(doc PLACING 'x' FROM 5) WHERE id = 3");
}
run_sql($primary, "BEGIN; INSERT INTO l SELECT 300, 1, 150000, blob(1, 150000); INSERT INTO p SELECT 300, seed, len, doc FROM p WHERE id = 4; PREPARE TRANSACTION 'two'");
catch_up($primary, $standby);

# The rows of the tables whose data is in WAL.
sub rows_of
{
	my ($node) = @_;
	return join "\n", map { run_sql($node, "SELECT '$_', id, sha256(doc::bytea) FROM $_ ORDER BY id") } @logged;
}

my $rows = rows_of($primary);
is(rows_of($standby), $rows, 'a standby: rows');
is(usage_of($standby, $_), usage_of($primary, $_), "a standby: objects and references of $_") foreach @tables;
is(run_sql($standby, "SELECT * FROM securefile_check('$_', 'doc')"), '', "a standby: $_ is sound") foreach @logged;

# ---- in a cluster that goes on ----

# Store contents that are there, that of a seed among them, and one that is not; then delete all.
sub goes_on
{
	my ($node, $name, $seed) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $t (@tables)
	{
		my $before = (split /\|/, usage_of($node, $t))[0];
		run_sql($node, "INSERT INTO $t SELECT 1001, $seed, 150000, blob($seed, 150000)") if $t ne 'p';
		run_sql($node, "INSERT INTO p SELECT 1001, seed, len, doc FROM p WHERE id = 4") if $t eq 'p';
		run_sql($node, "INSERT INTO $t SELECT 1002, 9, 170000, blob(9, 170000); INSERT INTO $t SELECT 1003, 9, 170000, blob(9, 170000)");
		is(run_sql($node, "SELECT string_agg(outcome(doc, seed, len), ' ') FROM $t WHERE id > 1000"), 'right right right', "$name: new rows of $t");
		is((split /\|/, usage_of($node, $t))[0], $before + ($t eq 'p' ? 0 : 1), "$name: contents of $t are found again") if $t ne 'f';
	}
	sound($node, $_, $name) foreach @logged;
	foreach my $t (@tables)
	{
		run_sql($node, "DELETE FROM $t");
		my $usage = settle($node, $t, 'doc');
		is("$usage->{live_bytes} $usage->{pending_bytes} " . usage_of($node, $t), '0 0 0|0', "$name: no space of $t is lost");
		is(run_sql($node, "SELECT * FROM securefile_check('$t', 'doc')"), '', "$name: $t is sound without rows");
	}
	return;
}

run_sql($primary, "SELECT pg_create_restore_point('here')");
foreach my $t (@logged)
{
	run_sql($primary, "DELETE FROM $t");
	run_sql($primary, "INSERT INTO $t SELECT i, 50 + i, 150000, blob(50 + i, 150000) FROM generate_series(1, 5) i");
}
run_sql($primary, "ROLLBACK PREPARED 'two'");
catch_up($primary, $standby);
settle($primary, $_, 'doc') foreach @logged;
my $last = run_sql($primary, 'SELECT pg_walfile_name(pg_switch_wal())');
ok(wait_for_sql($primary, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver"), 'archived');
catch_up($primary, $standby);

# the data of f that came after the backup is not there
$standby->promote;
my @behind = right_or_left_behind($standby, 'f', 'promoted');
cmp_ok(scalar(@behind), '>', 0, 'promoted: some data was left behind');
run_sql($standby, 'INSERT INTO f SELECT i, 7, 140000, blob(7, 140000) FROM generate_series(901, 902) i');
is(run_sql($standby, q{SELECT string_agg(outcome(doc, seed, len), ' ') FROM f WHERE id IN (901, 902)}), 'right right', 'promoted: what was left behind is stored anew');
goes_on($standby, 'promoted', 52);
$standby->stop;

my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($primary, 'base', standby => 0, has_restoring => 1);
$restored->append_conf('postgresql.conf', "archive_mode = off\nrecovery_target_name = 'here'\nrecovery_target_action = promote");
$restored->start;
ok(wait_for_sql($restored, 'SELECT NOT pg_is_in_recovery()'), 'restored to a point in time');
is(rows_of($restored), $rows, 'restored: rows');
is(run_sql($restored, "SELECT gid FROM pg_prepared_xacts"), 'two', 'restored: a prepared transaction has references');
run_sql($restored, "COMMIT PREPARED 'two'");
is(run_sql($restored, q{SELECT outcome(doc, seed, len) FROM l WHERE id = 300 UNION ALL SELECT outcome(doc, seed, len) FROM p WHERE id = 300}), "right\nright", 'restored: they are good');
goes_on($restored, 'restored', 2);
$restored->stop;
$primary->stop;
done_testing();
