# pg_repack is refused on tables with securefile columns, before anything has
# changed, and leaves the other tables to it; VACUUM FULL and CLUSTER, which do
# its work, beside readers and writers.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $refusal = qr/pg_repack cannot work on tables with securefile columns/;
my $node = new_cluster('main', conf => [ master_key() ]);
plan skip_all => 'no pg_repack for this PostgreSQL'
  if $node->pg_version >= 16
  && $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_repack'") == 0;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_repack');
make_table($node, 'l');
make_table($node, 'f', 'filesystem_like_logging');
make_table($node, 'e', 'encrypt, compress_low');
make_table($node, 'parts', '', 'PARTITION BY RANGE (id)');
$node->safe_psql('postgres', q{
	CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (1000);
	CREATE DOMAIN file AS securefile;
	CREATE TABLE d (id int PRIMARY KEY, seed int, len int, doc file);
	CREATE TABLE empty (id int PRIMARY KEY, doc securefile);
	CREATE TABLE plain AS SELECT i AS id, repeat(i::text, 100) AS t FROM generate_series(1, 5000) i;
	ALTER TABLE plain ADD PRIMARY KEY (id);
	DELETE FROM plain WHERE id % 2 = 0});
my @tables = ('l', 'f', 'e', 'part', 'd');
foreach my $t (@tables)
{
	fill($node, $t, 1, 20, '20000 + i * 10000');
	$node->safe_psql('postgres', "DELETE FROM $t WHERE id > 15; UPDATE $t SET doc = blob(seed, len) WHERE id < 4");
}

# What pg_repack would change or leave: storage, triggers, its own objects.
sub state
{
	return $node->safe_psql('postgres', q{
		SELECT relname, relfilenode, reltoastrelid FROM pg_class WHERE relnamespace = 'public'::regnamespace
			AND relname <> 'plain' AND relname <> 'plain_pkey' ORDER BY 1;
		SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger ORDER BY 1, 2;
		SELECT relname FROM pg_class WHERE relnamespace = 'repack'::regnamespace ORDER BY 1;
		SELECT typname FROM pg_type WHERE typnamespace = 'repack'::regnamespace ORDER BY 1;
		SELECT relid::regclass, attname, options FROM securefile_columns ORDER BY 1, 2});
}

sub all_sound
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $t (@tables)
	{
		rows_right($node, $t, 15, $name);
		sound($node, $t, $name);
	}
	return;
}

# ---- refused ----

my $before = state();
foreach my $options (
	(map { [ '--table', $_ ] } @tables, 'empty'),
	[ '--table', 'l', '--no-order' ],
	[ '--table', 'l', '--order-by', 'id' ],
	[ '--table', 'l', '--jobs', 2 ],
	[ '--parent-table', 'parts' ])
{
	$node->command_fails_like([ 'pg_repack', '-d', 'postgres', @$options ], $refusal, "pg_repack @$options");
	is(state(), $before, "pg_repack @$options: nothing has changed");
}
all_sound('refused');

# no lock, and nothing in the catalog, is in the way
foreach my $t ('l', 'f', 'e', 'parts', 'd')
{
	$node->safe_psql('postgres', qq{
		SET lock_timeout = '@{[ patience() ]}s';
		ALTER TABLE $t ADD COLUMN more int, ADD COLUMN again securefile;
		ALTER TABLE $t ALTER COLUMN more TYPE bigint;
		ALTER TABLE $t DROP COLUMN more, DROP COLUMN again;
		VACUUM FULL $t});
}
all_sound('refused, altered');

# ---- allowed: other tables; indexes ----

my $contents = "SELECT count(*), md5(string_agg(t, '' ORDER BY id)) FROM plain";
my $file = "SELECT pg_relation_filenode('plain')";
my @was = map { $node->safe_psql('postgres', $_) } ($contents, $file);
$node->command_ok([ 'pg_repack', '-d', 'postgres', '--table', 'plain' ], 'pg_repack of another table');
is($node->safe_psql('postgres', $contents), $was[0], 'another table: same rows');
isnt($node->safe_psql('postgres', $file), $was[1], 'another table: another file');
$node->command_ok([ 'pg_repack', '-d', 'postgres', '--table', 'l', '--only-indexes' ],
	'pg_repack of the indexes only');
all_sound('indexes repacked');
$node->safe_psql('postgres', 'DROP EXTENSION pg_repack; CREATE EXTENSION pg_repack');

# ---- VACUUM FULL and CLUSTER beside readers and writers ----

prepare_load($node, changed => 1, keep => 10, size => '5000 + k * 7919 % 120000');
$node->safe_psql('postgres', q{
	CREATE TABLE failed (what text);
	CREATE TABLE reads AS SELECT 0 AS k;
	CREATE PROCEDURE run_reads() LANGUAGE plpgsql AS $$
	DECLARE
		bad text;
	BEGIN
		WHILE NOT EXISTS (SELECT FROM stop) LOOP
			bad := (SELECT string_agg(id || ' ' || o, ', ') FROM (TABLE l UNION ALL TABLE f) t,
				outcome(doc, seed, len) o WHERE o <> 'right');
			IF bad IS NOT NULL THEN
				INSERT INTO failed VALUES (bad);
			END IF;
			UPDATE reads SET k = k + 1;
			COMMIT;
		END LOOP;
	END
	$$});

sub number { return $node->safe_psql('postgres', "SELECT k FROM $_[0]"); }

# a snapshot that is older than everything that follows
my $old = background($node);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM load');
my ($writer, $reader) = (background($node), background($node));
$writer->{stdin} .= "CALL run_load();\n";
$reader->{stdin} .= "CALL run_reads();\n";
$_->{run}->pump_nb for ($writer, $reader);
foreach my $round (1 .. 3)
{
	foreach my $command (
		'VACUUM (FULL) l', 'CLUSTER f USING f_pkey', 'CLUSTER l USING l_pkey', 'VACUUM (FULL, ANALYZE) f')
	{
		my %now = map { $_ => number($_) } ('load', 'reads');
		$node->safe_psql('postgres', $command);
		foreach my $what (sort keys %now)
		{
			wait_for_sql($node, "SELECT k > $now{$what} + 2 OR EXISTS (SELECT FROM failed) FROM $what");
		}
	}
	next if $round > 1;
	is( $old->query_safe(
			"SELECT t, count(*), sum(seed - id), string_agg(DISTINCT outcome(doc, seed, len), ' ')"
			  . " FROM (SELECT 'l' AS t, * FROM l UNION ALL SELECT 'f', * FROM f) t GROUP BY t ORDER BY t DESC"),
		"l|15|0|right\nf|15|0|right", 'the old snapshot sees the old values');
	$old->query_safe('COMMIT');
}
$node->safe_psql('postgres', 'INSERT INTO stop DEFAULT VALUES');
foreach my $session ($writer, $reader)
{
	is($session->query('SELECT 1'), '1', 'done');
	is($session->{stderr}, '', 'no errors');
	$session->quit;
}
$old->quit;
is($node->safe_psql('postgres', 'TABLE failed'), '', 'all reads were right');
cmp_ok(number($_), '>=', 20, "enough in $_") for ('load', 'reads');
foreach my $t ('l', 'f')
{
	rows_right($node, $t, $node->safe_psql('postgres', "SELECT count(*) FROM $t"), 'after the load');
	sound($node, $t, 'after the load');
}
$node->stop;
done_testing();
