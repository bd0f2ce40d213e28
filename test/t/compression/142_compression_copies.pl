# Compressed values on other servers and in other databases: a streaming standby reads them, and
# goes on with them when it is promoted; logical replication from columns that compress to those
# that do not and back; dumps keep the option words, and what they restore is compressed again.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my %codec = (low => 'lz4', medium => 'zstd', high => 'zstd', plain => 'none');
my @columns = sort keys %codec;
my $prepare = q{
	CREATE FUNCTION half(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS 'SELECT noise(seed, len / 2) || blob(seed, len - len / 2)';
	CREATE FUNCTION by_handle(doc securefile, piece int) RETURNS bytea LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_open(doc, 'r');
		got bytea := '';
		part bytea;
	BEGIN
		LOOP
			part := securefile_read(fd, piece);
			EXIT WHEN length(part) = 0;
			got := got || part;
		END LOOP;
		PERFORM securefile_close(fd);
		RETURN got;
	END $$};

# A table whose columns all have the same contents as data.
sub table_of
{
	my (%options) = @_;
	return 'CREATE TABLE v (id int PRIMARY KEY, data bytea' . join('', map { ", $_ securefile($options{$_})" } @columns)
	  . '); ALTER TABLE v ALTER data SET STORAGE EXTERNAL';
}

sub values_of
{
	my ($from, $to, $len) = @_;
	return "INSERT INTO v SELECT i, d" . ', d' x @columns . " FROM generate_series($from, $to) i, half(i, $len) d";
}

# One test: all rows of a table are right, by some readers.
sub right
{
	my ($node, $count, $name, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $same = join ' AND ', map { "$_\::bytea = data AND length($_) = length(data) AND substring($_ FROM 131070 FOR 300) = substring(data FROM 131070 FOR 300)" } @columns;
	my $handles = join ' AND ', map { "by_handle($_, 200000) = data" } @columns;
	return is($node->safe_psql($db || 'postgres', "SELECT count(*), count(*) FILTER (WHERE $same), count(*) FILTER (WHERE $handles) FROM v"),
		"$count|$count|$count", $name);
}

sub checked
{
	my ($node, $name, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql($db || 'postgres', join ' UNION ALL ', map { "SELECT finding FROM securefile_check('v', '$_')" } @columns), '', "$name: check");
}

# How all values are stored.
sub stored
{
	my ($node, $db) = @_;
	return $node->safe_psql($db || 'postgres', join ' UNION ALL ', map { "(SELECT id, '$_', s::text FROM v, securefile_storage($_) s ORDER BY id)" } @columns);
}

# The codecs that occur in each column.
sub codecs
{
	my ($node, $db) = @_;
	return $node->safe_psql($db || 'postgres',
		'SELECT ' . join(" || ' ' || ", map { "'$_:' || (SELECT coalesce(string_agg(DISTINCT s.codec, '+'), '') FROM v, securefile_storage($_) s WHERE s.codec <> 'none')" } @columns));
}

# ---- a standby ----

my $primary = new_cluster('primary',
	init => { allows_streaming => 'logical' },
	conf => [ 'wal_level = logical', 'max_replication_slots = 10', 'max_wal_senders = 10', 'wal_keep_size = 1GB', "wal_consistency_checking = 'all, securefile'" ]);
my %own = (low => 'compress_low', medium => 'compress, disable_storage_in_row', high => 'compress_high, nocache', plain => 'nocompress');
$primary->safe_psql('postgres', "$prepare; " . table_of(%own) . '; ' . values_of(1, 12, 'i * i * 3000'));
$primary->backup('base');
my $standby = new_standby('standby', $primary, 'base');

sub same_there
{
	my ($count, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	right($primary, $count, "$name: primary");
	catch_up($primary, $standby);
	right($standby, $count, "$name: standby");
	checked($standby, "$name: standby");
	return is(stored($standby), stored($primary), "$name: stored alike");
}

same_there(12, 'base backup');
is(codecs($primary), 'high:zstd low:lz4 medium:zstd plain:', 'each column by its own codec');
$primary->safe_psql('postgres', values_of(13, 13, '14000000') . '; UPDATE v SET data = data || blob(id, 200000), ' . join(', ', map { "$_ = $_ || blob(id, 200000)" } @columns) . ' WHERE id % 3 = 0');
same_there(13, 'streamed');
$primary->safe_psql('postgres', 'UPDATE v SET data = overlay(data PLACING noise(id, 150000) FROM 5), ' . join(', ', map { "$_ = overlay($_ PLACING noise(id, 150000) FROM 5)" } @columns)
	  . ' WHERE id % 4 = 0; DELETE FROM v WHERE id = 9; ' . join('; ', map { "ALTER TABLE v ALTER $_ TYPE securefile(compress_low)" } 'high', 'plain')
	  . "; SELECT securefile_rewrite('v', 'plain'); " . values_of(20, 25, 'i * 10000'));
same_there(18, 'changed, and of other options');

$primary->stop('immediate');
$standby->promote;
right($standby, 18, 'promoted');
$standby->safe_psql('postgres', values_of(30, 33, 'i * 20000') . '; UPDATE v SET data = data || noise(id, 1000), ' . join(', ', map { "$_ = $_ || noise(id, 1000)" } @columns));
right($standby, 22, 'promoted, and written to');
sound($standby, 'v', 'promoted', column => $_, in_row => $_ eq 'medium' ? 0 : 4000) foreach @columns;
$standby->stop;
$primary->start;

# ---- logical replication: to the options of others, and back to the first ones ----

my $sub = new_cluster('subscriber', init => { allows_streaming => 'logical' }, conf => ['wal_level = logical']);
my %others = (low => 'nocompress', medium => 'nocache', high => 'compress_low', plain => 'compress_high');
$sub->safe_psql('postgres', "$prepare; " . table_of(%others));
$primary->safe_psql('postgres', 'CREATE DATABASE back');
SecurefileTest::prepare_database($primary, 'back');
$primary->safe_psql('back', "$prepare; " . table_of(%own));
$_->[0]->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE v') foreach [$primary], [$sub];
$sub->safe_psql('postgres', "CREATE SUBSCRIPTION there CONNECTION '" . $primary->connstr . " dbname=postgres' PUBLICATION p WITH (binary)");
$sub->wait_for_subscription_sync($primary, 'there');
$primary->safe_psql('back', "CREATE SUBSCRIPTION back CONNECTION '" . $sub->connstr . " dbname=postgres' PUBLICATION p");
$primary->wait_for_subscription_sync($sub, 'back', 'back');

sub same_all_round
{
	my ($count, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$primary->wait_for_catchup('there');
	$sub->wait_for_catchup('back');
	right($sub, $count, "$name: there");
	right($primary, $count, "$name: and back", 'back');
	is(codecs($sub), 'high:lz4 low: medium: plain:zstd', "$name: as the columns there say");
	is(codecs($primary, 'back'), 'high:zstd low:lz4 medium:zstd plain:', "$name: as those back say");
	return;
}

same_all_round(18, 'copied');
$primary->safe_psql('postgres', values_of(41, 46, 'i * 12000') . '; UPDATE v SET data = data || blob(id, 300000), ' . join(', ', map { "$_ = $_ || blob(id, 300000)" } @columns) . ' WHERE id % 2 = 0');
same_all_round(24, 'streamed');
checked($sub, 'there');
checked($primary, 'back', 'back');
$primary->safe_psql('back', 'DROP SUBSCRIPTION back');
$sub->safe_psql('postgres', 'DROP SUBSCRIPTION there');

# ---- dumps ----

my $dir = $primary->basedir;
$primary->safe_psql('back', 'DELETE FROM v WHERE id = 13');
$primary->command_ok([ 'pg_dump', '-f', "$dir/plain.sql", '--schema-only', $primary->connstr('back') ], 'pg_dump of the tables');
my $script = slurp("$dir/plain.sql");
like($script, qr/^\s+$_->[0] public\.securefile\($_->[1]\)/m, "column $_->[0]: its option words")
  foreach [ 'low', 'compress_low' ], [ 'medium', 'compress_medium, disable_storage_in_row' ], [ 'high', 'compress_high, nocache' ];
like($script, qr/^\s+plain public\.securefile,?$/m, 'column plain: none');
$primary->command_ok([ 'pg_dump', '-Fc', '-Z1', '-f', "$dir/all.dump", $primary->connstr('back') ], 'pg_dump');
$primary->safe_psql('postgres', 'CREATE DATABASE restored');
$primary->command_ok([ 'pg_restore', '--no-comments', '-d', $primary->connstr('restored'), "$dir/all.dump" ], 'pg_restore');
right($primary, 23, 'restored', 'restored');
my $types = q{SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'v'::regclass AND attnum > 0};
is($primary->safe_psql('restored', $types), $primary->safe_psql('back', $types), 'restored: the types of columns');
is(codecs($primary, 'restored'), codecs($primary, 'back'), 'restored: and what is done by them');
checked($primary, 'restored', 'restored');

$_->stop foreach $primary, $sub;
done_testing();
