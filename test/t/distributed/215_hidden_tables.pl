# Tables that an extension hides from queries of the catalogs, as Citus hides shards: views and
# securefile_fetch_left_behind() see them.  No data that is missing may look as if it were not.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $library = "$ENV{TESTDIR}/hide_tables.so";
system_or_bail('gcc', '-shared', '-fPIC', '-o', $library, '-I', $ENV{SECUREFILE_INCLUDE},
	"$FindBin::RealBin/../../modules/hide_tables.c");

my $primary = new_cluster('primary', init => { allows_streaming => 1 }, conf => ['wal_keep_size = 512MB']);
$primary->safe_psql('postgres', 'CREATE DOMAIN file AS securefile(filesystem_like_logging); CREATE TABLE hidden_parts (id int, doc file) PARTITION BY LIST (id);'
	  . 'CREATE TABLE hidden_part PARTITION OF hidden_parts DEFAULT');
make_table($primary, $_, 'filesystem_like_logging') foreach 'hidden', 'seen';
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->backup('base');
my $from = $primary->connstr();

my $follower = new_standby('follower', $primary, 'base', "securefile.fetch_from = '$from'");
my $promoted = new_standby('promoted', $primary, 'base');
fill($primary, $_, 1, 5, 300_000) foreach 'hidden', 'seen';
$primary->safe_psql('postgres', 'INSERT INTO hidden_parts SELECT i, blob(i, 50000) FROM generate_series(1, 3) i');
catch_up($primary, $_) foreach $follower, $promoted;

# What a statement returns where the extension hides tables.
sub hiding
{
	my ($node, $statement) = @_;
	return $node->safe_psql('postgres', "LOAD '$library'; $statement");
}
is(hiding($primary, q{SELECT string_agg(relname, ' ') FROM pg_class WHERE relname ~ '^(hidden|seen)' AND relkind IN ('r', 'p')}), 'seen', 'tables are hidden');

# ---- after a promotion ----

$promoted->promote;
$promoted->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
fails_with($promoted, 'SELECT doc::bytea FROM hidden WHERE id = 1', '58P01', 'securefile_fetch_left_behind', 'the error names the function');
my $fetched = q{SELECT relname, missing_values, fetched_values FROM securefile_fetch_left_behind(%s)};
is(hiding($promoted, sprintf $fetched, 'NULL'), "hidden|5|0\nhidden_part|3|0\nseen|5|0", 'all that is missing is counted');
is(hiding($promoted, sprintf $fetched, "\$\$$from\$\$"), "hidden|5|5\nhidden_part|3|3\nseen|5|5", 'and fetched');
rows_right($promoted, $_, 5, 'fetched') foreach 'hidden', 'seen';
is($promoted->safe_psql('postgres', q{SELECT count(*) FROM hidden_parts WHERE doc::bytea = blob(id, 50000)}), 3, 'fetched: rows of hidden_parts');

# ---- views ----

# The view without the extension, if all of its rows are seen with it.
sub seen_in
{
	my ($node, $view, $columns) = @_;
	my $statement = "SELECT $columns FROM $view ORDER BY relname, attname";
	my ($all, $rest) = ($node->safe_psql('postgres', $statement), hiding($node, $statement));
	return $all eq $rest ? $all : "$all but then $rest";
}
is(seen_in($primary, 'securefile_columns', 'relname, relid::regclass, segment_relid::regclass::text, options, tablespace, logging, file_bytes > 0, distributed') =~ s/pg_securefile_\d+/SEGMENT/gr,
	join("\n", 'hidden|hidden|pg_toast.SEGMENT_4|filesystem_like_logging|pg_default|filesystem_like_logging|t|f', 'hidden_part|hidden_part|pg_toast.SEGMENT_2|filesystem_like_logging|pg_default|filesystem_like_logging|t|f',
		'hidden_parts|hidden_parts||filesystem_like_logging||filesystem_like_logging||f', 'seen|seen|pg_toast.SEGMENT_4|filesystem_like_logging|pg_default|filesystem_like_logging|t|f'), 'securefile_columns');
is(seen_in($primary, 'securefile_stat', 'relname, attname, relid::regclass, allocation_bytes > 0'), "hidden|doc|hidden|t\nhidden_part|doc|hidden_part|t\nseen|doc|seen|t", 'securefile_stat');
ok(wait_for_sql($follower, 'SELECT count(*) = 3 AND bool_and(fetched_values > 0) FROM securefile_fetch'), 'a standby fetches');
is(seen_in($follower, 'securefile_fetch', 'relname, attname, fetched_values'), "hidden|doc|5\nhidden_part|doc|3\nseen|doc|5", 'securefile_fetch');
is(hiding($primary, q{SELECT count(*) FROM hidden WHERE doc::bytea = '\x'; SELECT DISTINCT schemaname, relname, attname, relid::regclass FROM securefile_io WHERE pid = pg_backend_pid()}),
	"0\npublic|hidden|doc|hidden", 'securefile_io');

# queries of the manual are for all tables, also partitioned ones
my ($keys_in_use, $check_all) = slurp("$FindBin::RealBin/../../../doc/operations.md") =~ /(SELECT DISTINCT master_key FROM.*?);.*(SELECT c\.relid::regclass, c\.attname, f\.\* FROM.*?);/s;
is($primary->safe_psql('postgres', "$keys_in_use; $check_all"), '', 'queries over all columns');

SKIP:
{
	my ($rc) = $primary->psql('postgres', 'SELECT securefile_fault_reset()');
	skip 'built without fault points', 2 if $rc != 0;
	my $rewriter = background($primary);
	ok(held($primary, $rewriter, 'commit_before_flush', "CALL securefile_rewrite_online('hidden', 'doc')"), 'a rewrite is under way');
	is(hiding($primary, 'SELECT relid::regclass, schema_name, table_name, column_name FROM securefile_progress'), 'hidden|public|hidden|doc', 'securefile_progress');
	resume($primary, $rewriter, 'commit_before_flush');
	$rewriter->quit;
}

$_->stop foreach $follower, $promoted, $primary;
done_testing();
