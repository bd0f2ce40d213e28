# Data of filesystem_like_logging columns that is not on a server, fetched from another one:
# by hand, on standbys and after a promotion, and by the worker of a standby.  Nothing is
# written that is not what the map says.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $len = 300_000;
my %options = (f => 'filesystem_like_logging', c => 'filesystem_like_logging, compress', e => 'filesystem_like_logging, encrypt',
	d => 'filesystem_like_logging, deduplicate', g => 'filesystem_like_logging', l => 'logging');
my @away = qw(c d e f g);
my $primary = new_cluster('primary', init => { allows_streaming => 1 }, conf => [ 'wal_keep_size = 1GB', 'max_wal_senders = 10', master_key() ]);
make_table($primary, $_, $options{$_}) foreach sort keys %options;
fill($primary, $_, 1, 5, $len) foreach sort keys %options;
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->backup('base');
my $from = $primary->connstr();

# What a fetch says of each column, and whether all rows are right.
sub fetched
{
	my ($node, $conninfo) = @_;
	return $node->safe_psql('postgres',
		'SELECT relname, missing_values, missing_bytes > 0, fetched_values, fetched_bytes = missing_bytes FROM securefile_fetch_left_behind(' . ($conninfo ? qq{\$\$$conninfo\$\$} : 'NULL') . ')');
}

my $standby = new_standby('standby', $primary, 'base');
my $later = new_standby('later', $primary, 'base');
fill($primary, $_, 11, 15, $len) foreach sort keys %options;
$primary->safe_psql('postgres', 'INSERT INTO d SELECT 16, 11, ' . $len . ', blob(11, ' . $len . ')');
fill($primary, 'f', 21, 21, 14_000_000);
# a changed value shares units with the one before; a value with a gap
$primary->safe_psql('postgres', q{UPDATE g SET doc = overlay(doc PLACING '\xffff' FROM 200000) WHERE id IN (1, 15)});
$primary->safe_psql('postgres', q{BEGIN; SELECT securefile_create('g', 'doc') AS h \gset
SELECT securefile_truncate(:h, 40000000), securefile_seek(:h, 30000000, 0), securefile_write(:h, 'behind the gap');
INSERT INTO g VALUES (31, 0, 0, securefile_finish(:h)); COMMIT});
my $digests = 'SELECT string_agg(id || encode(sha256(doc::bytea), \'hex\'), \' \' ORDER BY id) FROM ';

sub same_everywhere
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @wrong;
	foreach my $table (sort keys %options)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "$digests $table");
		push @wrong, "$table: $err" if $rc != 0 || $out ne $primary->safe_psql('postgres', "$digests $table");
	}
	return is(join('', @wrong), '', "$name: all values are those of the primary");
}
catch_up($primary, $_) foreach $standby, $later;

# ---- by hand, on a standby ----

fails_with($standby, "SELECT doc::bytea FROM f WHERE id = 11", '58P01', 'securefile_fetch_left_behind', 'the error names the function');
is(fetched($standby, undef), "c|5|t|0|f\nd|6|t|0|f\ne|5|t|0|f\nf|6|t|0|f\ng|7|t|0|f", 'without a server, what is missing is counted');
is(fetched($standby, $from), "c|5|t|5|t\nd|6|t|6|t\ne|5|t|5|t\nf|6|t|6|t\ng|7|t|7|t", 'all is fetched');
same_everywhere($standby, 'standby');
is($standby->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$_', 'doc')"), 0, "check of $_ is silent") foreach @away;
is(fetched($standby, $from), join("\n", map { "$_|0|f|0|t" } @away), 'and then nothing is missing');

# ---- who may, and from where ----

fails_with($standby, q{SELECT * FROM securefile_fetch_left_behind('host=/nowhere')}, '08006', 'could not connect to the server that has the data', 'no such server');
fails_with($standby, q{SELECT * FROM securefile_fetch_left_behind('nonsense')}, '(?:08001|42601)', 'missing "="', 'no conninfo');
$primary->safe_psql('postgres', 'CREATE ROLE plain LOGIN');
catch_up($primary, $standby);
fails_with($standby, "SET ROLE plain; SELECT * FROM securefile_fetch_left_behind('$from')", '42501', 'permission denied', 'not for everybody');
fails_with($standby, "SET ROLE plain; SELECT securefile_stored_bytes('f'::regclass, 4::int2, 0, 0, 1)", '42501', 'permission denied', 'nor what the files have');
# who has been granted the function names no server: this one would connect there with its own password
$primary->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION securefile_fetch_left_behind, securefile_fetch_column TO plain');
catch_up($primary, $standby);
is($standby->safe_psql('postgres', 'SET ROLE plain; SELECT count(*) FROM securefile_fetch_left_behind(NULL)'), 5, 'a granted role counts');
fails_with($standby, "SET ROLE plain; SELECT * FROM securefile_fetch_left_behind('$_')", '42501', 'must be superuser to name the server', "it does not choose $_") foreach $from, 'host=/nowhere';
fails_with($standby, q{SET ROLE plain; SELECT * FROM securefile_fetch_left_behind('')}, '55000', 'securefile.fetch_from is not set', 'there is no server for it');
fails_with($primary, "SELECT securefile_stored_bytes('f'::regclass, 4::int2, 0, 0, 1)", '42704', 'has other storage', 'of another incarnation');
fails_with($primary, "SELECT securefile_stored_bytes('f'::regclass, 4::int2, 0, $_, 1)", '22023', 'not those of a unit', "at $_") foreach -512, 7;

# ---- after a promotion, from the old primary ----

$later->promote;
$later->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
# the old primary has deleted some, and their places have other data now
$primary->safe_psql('postgres', 'DELETE FROM f WHERE id IN (11, 12); TRUNCATE c');
settle($primary, 'f', 'doc');
fill($primary, 'f', 41, 48, $len);
fails_with($later, "SELECT * FROM securefile_fetch_left_behind('$from')", '38000', 'has other storage', 'a column that was truncated there');
my $f = q{SELECT f.* FROM pg_attribute, securefile_fetch_column('f'::regclass, attnum, '} . $from . q{') f WHERE attrelid = 'f'::regclass AND attname = 'doc'};
like($later->safe_psql('postgres', $f), qr/^6\|\d+\|[45]\|\d+$/, 'what the other server has no more is not taken');
like(join(',', right_or_left_behind($later, 'f', 'promoted')), qr/^(11|12|11,12)$/, 'and is left behind');
# beside sessions that write directly it writes as they do, and so it counts
my $how = background($later);
$how->query_safe($f =~ s/'f'/'g'/r);
is($how->query_safe(q{SELECT sum(writes) > 0, sum(write_bytes) >= } . $len . q{ FROM securefile_io WHERE pid = pg_backend_pid() AND relname = 'g'}), 't|t', 'what is fetched is written as any data');
$how->quit;
# two at a time, of which one waits while the other has read a block and not written it
my $e = $f =~ s/'f'/'e'/r;
my ($first, $second) = (background($later), background($later));
ok(held($later, $first, 'io_write', $e), 'a fetch is about to write');
ok(waits_for_lock($later, $second, $e), 'another one waits for it');
like(resume($later, $first, 'io_write'), qr/^5\|\d+\|5\|/m, 'the first one fetches all');
like($second->query_safe('SELECT 1'), qr/^5\|\d+\|5\|/m, 'and the second one');
$_->quit foreach $first, $second;
is($later->safe_psql('postgres', "$digests e") , $primary->safe_psql('postgres', "$digests e"), 'all is right');
fill($later, 'f', 51, 55, $len);
$later->safe_psql('postgres', 'DELETE FROM f WHERE id IN (11, 12)');
sound($later, 'f', 'promoted, written');
crash($later);
$later->start;
is(join(',', right_or_left_behind($later, 'f', 'promoted, crashed')), '', 'what was fetched is durable');
$later->stop;

# ---- the worker of a standby ----

fill($primary, 'c', 11, 15, $len);
my $follower = new_standby('follower', $primary, 'base', "securefile.fetch_from = '$from'");
catch_up($primary, $follower);
ok(wait_for_sql($follower, 'SELECT count(*) = 5 FROM securefile_fetch WHERE passes > 1 AND failure IS NULL'), 'the worker goes through all columns');
same_everywhere($follower, 'follower');
# what the primary had given up already when the worker asked for it is gone, or there, at the second try
ok(wait_for_sql($follower, 'SELECT count(*) = 5 AND bool_and(fetched_bytes > 0) AND sum(left_values) = 0 FROM securefile_fetch'), 'the view');
fill($primary, $_, 61, 63, $len) foreach @away;
$primary->safe_psql('postgres', 'UPDATE g SET doc = doc || blob(1, 500000) WHERE id = 61');
$primary->safe_psql('postgres', 'VACUUM FREEZE f');
catch_up($primary, $follower);
ok(wait_for_sql($follower, q{SELECT bool_and(o = 'right') FROM c, outcome(doc, seed, len) o}), 'new rows come after it');
ok(wait_for_sql($follower, q{SELECT count(*) = 0 FROM (TABLE f UNION ALL TABLE g) t, outcome(doc, seed, len) o WHERE o = '58P01'}), 'also changed and frozen ones');
same_everywhere($follower, 'follower, later');

# the other server is gone for a while: that shows, and the worker goes on afterwards
fill($primary, 'f', 71, 73, $len);
catch_up($primary, $follower);
is($follower->safe_psql('postgres', q{SET ROLE plain; SELECT count(*) FROM securefile_fetch_left_behind('')}), 5, 'a granted role fetches from the server of the setting');
$follower->append_conf('postgresql.conf', q{securefile.fetch_from = 'host=/nowhere'});
$follower->reload;
ok(wait_for_sql($follower, q{SELECT current_setting('securefile.fetch_from') LIKE '%nowhere'}), 'the setting is another one');
fails_with($follower, q{SET ROLE plain; SELECT * FROM securefile_fetch_left_behind('')}, '08006', 'could not connect to the server that has the data\nCONTEXT', 'and does not learn which it is');
fill($primary, 'f', 81, 83, $len);
catch_up($primary, $follower);
ok(wait_for_sql($follower, q{SELECT count(*) = 1 FROM securefile_fetch WHERE failure ~ 'could not connect'}), 'an error is shown');
crash($follower);
$follower->append_conf('postgresql.conf', $_) foreach "securefile.fetch_from = '$from'", 'securefile.fetch_rate = 3000';
$follower->start;
ok(wait_for_sql($follower, q{SELECT count(*) = 0 FROM f, outcome(doc, seed, len) o WHERE o = '58P01'}), 'and the rest is fetched later');
ok(wait_for_sql($follower, 'SELECT count(*) = 5 FROM securefile_fetch WHERE passes > 0 AND failure IS NULL'), 'after a crash, too, and slowly');
same_everywhere($follower, 'follower, in the end');
# the other server is a standby that has not got the data itself yet: it is asked again
$follower->append_conf('postgresql.conf', "securefile.fetch_from = '" . $standby->connstr . "'");
$follower->reload;
fill($primary, 'f', 85, 87, $len);
catch_up($primary, $_) foreach $standby, $follower;
ok(wait_for_sql($follower, q{SELECT left_values > 0 FROM securefile_fetch WHERE relname = 'f'}), 'what the other server has not got is left');
$standby->safe_psql('postgres', "SELECT securefile_fetch_left_behind('$from')");
ok(wait_for_sql($follower, q{SELECT left_values = 0 FROM securefile_fetch WHERE relname = 'f'}), 'and fetched when it has it');
same_everywhere($follower, 'follower, of a standby');
$follower->promote;
$follower->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
fill($follower, 'f', 91, 93, $len);
ok(wait_for_sql($follower, q{SELECT state IN ('waiting', 'working') FROM securefile_monitor}), 'promoted, the launcher is the monitor');
sound($follower, $_, 'promoted') foreach qw(c d e f);
$follower->stop;
$standby->stop;
$primary->stop;
done_testing();
