# securefile_estimate() says what a level then takes: its numbers are those of the values after
# ALTER TABLE and securefile_rewrite().  It reads little of long values, and leaves out damaged
# ones with a warning; a standby gives the same numbers.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('estimate',
	init => { allows_streaming => 1 },
	conf => [ 'securefile.monitor = off', 'wal_keep_size = 1GB' ]);
my @levels = qw(nocompress compress_low compress_medium compress_high);

# lines(seed, len): text; noise(seed, len): bytes without a pattern.
sql(q{
	CREATE FUNCTION lines(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT convert_to(substring(string_agg(format('%s: user %s has read page %s of book %s in %s ms', i, (i * 7919 + seed) % 1000,
		(i * 31 + seed) % 977, i % 37, (i * i + seed) % 5003), E'\n' ORDER BY i) FOR len), 'SQL_ASCII') FROM generate_series(1::bigint, len / 40 + 1) i $$;
});

# The rows of an estimate from all rows, as hash references by option.
sub estimate
{
	my ($from, $table, $n) = @_;
	my @names = qw(option sampled_values units compressed_units plain_bytes stored_bytes ratio compress_mb_s decompress_mb_s);
	my %rows;
	foreach my $line (split /\n/, $from->safe_psql('postgres', "SELECT * FROM securefile_estimate('$table', 'doc', " . ($n || 100000) . ')'))
	{
		my %row;
		@row{@names} = split /\|/, $line, -1;
		$rows{ $row{option} } = \%row;
	}
	return \%rows;
}

# ---- the numbers are those of a rewrite ----

# table: options, values, and whether all of them are in the segment and read whole
my %tables = (
	text => [ 'disable_storage_in_row', 'SELECT i, lines(i, i * i * 2500) FROM generate_series(1, 20) i', 1 ],
	random => [ 'nocache', 'SELECT i, noise(i, 5000 + i * 20000) FROM generate_series(1, 15) i', 1 ],
	halves => [ 'logging', 'SELECT i, noise(i, 1300000) || lines(i, 1300000) FROM generate_series(1, 4) i UNION ALL SELECT 5, lines(5, 1300000) || noise(5, 1300000)' ],
	long => [ 'filesystem_like_logging', 'SELECT 1, noise(1, 9000000) || lines(1, 9000000) UNION ALL SELECT 2, noise(2, 700000)' ],
	small => [ 'logging', 'SELECT i, lines(i, 200 + i * i) FROM generate_series(1, 150) i UNION ALL SELECT 1000 + i, noise(i, 500 + 50 * i) FROM generate_series(1, 30) i' ]);

foreach my $table (sort keys %tables)
{
	my ($options, $values, $exact) = @{ $tables{$table} };
	sql("CREATE TABLE $table (id int, doc securefile($options))", "INSERT INTO $table $values");
	my $estimate = estimate($node, $table);
	is(join(' ', map { $estimate->{$_} ? $_ : () } @levels), "@levels", "$table: a row for each level");
	my ($count, $plain) = split /\|/, sql("SELECT count(*), sum(length(doc)) FROM $table");
	foreach my $level (@levels)
	{
		my $row = $estimate->{$level};
		is("$row->{sampled_values} $row->{plain_bytes}", "$count $plain", "$table, $level: values and their bytes");
		cmp_ok(abs($row->{ratio} - $plain / $row->{stored_bytes}), '<', 0.001, "$table, $level: ratio");
		my $timed = $level ne 'nocompress';
		ok(($row->{compress_mb_s} ne '') == $timed && ($row->{decompress_mb_s} ne '') == ($timed && $table ne 'random'), "$table, $level: speeds");

		# the server may compress what stays in the row uncompressed
		next if $level eq 'nocompress' && $table eq 'small';
		sql("ALTER TABLE $table ALTER doc TYPE securefile($level, $options)", "SELECT securefile_rewrite('$table', 'doc')");
		my ($stored, $compressed) = split /\|/, sql("SELECT sum(s.stored_bytes), sum(coalesce(s.compressed_units, (s.codec <> 'none')::int)) FROM $table, securefile_storage(doc) s");
		cmp_ok(abs($row->{stored_bytes} - $stored), '<', $stored / 10, "$table, $level: $row->{stored_bytes} estimated, $stored stored");
		next unless $exact;
		is($row->{stored_bytes}, settle($node, $table, 'doc')->{live_bytes}, "$table, $level: the sectors that are taken");
		is($row->{compressed_units}, $compressed, "$table, $level: compressed units");
	}
	cmp_ok($estimate->{compress_high}{stored_bytes}, '<', $estimate->{compress_low}{stored_bytes}, "$table: the highest level saves more") if $table ne 'random';
	note(map { "$table, $_: " . join(' ', %{ $estimate->{$_} }) . "\n" } @levels);
}

# ---- values in the row, with a dictionary and without ----

sql('CREATE TABLE trained (id int, doc securefile(compress))', 'INSERT INTO trained SELECT i, lines(i, 150 + i) FROM generate_series(1, 1000) i');

# The column is converted to both levels, which take what is estimated.
sub converted
{
	my ($what) = @_;
	my $estimate = estimate($node, 'trained');
	foreach my $level (qw(compress_medium compress_high))
	{
		my $told = $estimate->{$level}{stored_bytes};
		sql("ALTER TABLE trained ALTER doc TYPE securefile($level)", "SELECT securefile_rewrite('trained', 'doc')");
		my $stored = sql('SELECT sum(s.stored_bytes) FROM trained, securefile_storage(doc) s');
		cmp_ok(abs($told - $stored), '<', $stored / 50, "$what, $level: $told estimated, $stored stored");
	}
	return $estimate;
}
my $without = converted('without a dictionary');
isnt(sql("SELECT dictionary FROM securefile_train('trained', 'doc')"), '', 'a dictionary is stored');
my $with = converted('with a dictionary');
cmp_ok($with->{$_}{stored_bytes}, '<', 0.9 * $without->{$_}{stored_bytes}, "$_: a dictionary saves more") foreach qw(compress_medium compress_high);
is($with->{$_}{stored_bytes}, $without->{$_}{stored_bytes}, "$_: uses none") foreach qw(nocompress compress_low);

# ---- what it costs ----

sql('CREATE TABLE whole (id int, doc securefile(nocache))', 'INSERT INTO whole SELECT 1, lines(1, 12000000)', 'SELECT securefile_stat_reset()');
my $estimate = estimate($node, 'whole');
is($estimate->{nocompress}{units}, 92, 'a long value counts with all of its units');
is(sql("SELECT direct_read_bytes FROM securefile_stat WHERE relname = 'whole'"), 8 * 131072, 'and eight of them are read');

# a hole takes nothing: not of the sample either
sql(q{DO $$ DECLARE h int := securefile_create('whole', 'doc'); BEGIN
	PERFORM securefile_write(h, lines(2, 3000000));
	PERFORM securefile_seek(h, 12000000, 0);
	PERFORM securefile_write(h, lines(3, 3000000));
	UPDATE whole SET doc = securefile_finish(h); END $$});
$estimate = estimate($node, 'whole');
is($estimate->{nocompress}{plain_bytes}, 15_000_000, 'a value with a hole counts with its length');
cmp_ok(abs($estimate->{nocompress}{stored_bytes} - 6_000_000), '<', 1_900_000, 'and what is stored with its data') or note($estimate->{nocompress}{stored_bytes});

# a value that the server has compressed is not unpacked for its last byte
sql('CREATE UNLOGGED TABLE unlogged (id int, doc securefile)', q{INSERT INTO unlogged SELECT i, repeat('0123456789', 10000000)::bytea FROM generate_series(1, 3) i});
my $session = background($node);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
is($session->query_safe("SELECT plain_bytes FROM securefile_estimate('unlogged', 'doc') WHERE option = 'compress_low' AND ratio > 50"), 300_000_000, 'long values in a table without a segment');
my ($peak) = slurp("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB/m;
# the sanitizers keep what is freed
cmp_ok($peak, '<', 60_000, 'in constant memory') unless $ENV{SANITIZE};
note("$peak kB");
$session->quit;
fails_with($node, "SET statement_timeout = '20ms'; SELECT * FROM securefile_estimate('text', 'doc')", '57014', qr/statement timeout/, 'a cancel is no damage');

# ---- damage ----

sql('CREATE TABLE damaged (id int, doc securefile(nocache))', 'INSERT INTO damaged SELECT i, blob(i, 300000) FROM generate_series(1, 10) i');
foreach my $id (3, 7)
{
	my ($file) = grep { block_at($_, $id, 40) > 0 } data_files($node);
	my $at = block_at($file, $id, 40);
	patch($file, $at + 100, chr(ord(substr(slurp($file), $at + 100, 1)) ^ 4));
}

# Rows for nocompress of a damaged column, and the warnings.
sub damaged
{
	my ($from, $table) = @_;
	my ($rc, $out, $err) = $from->psql('postgres', "\\set VERBOSITY verbose\nSELECT sampled_values, plain_bytes FROM securefile_estimate('$table', 'doc') LIMIT 1");
	return ($rc, $out, $err);
}
my ($rc, $out, $err) = damaged($node, 'damaged');
is("$rc $out", '0 8|2400000', 'damaged values are left out');
like($err, qr/WARNING:  XX001: 2 damaged values of column "doc" of table "damaged" were passed over\nDETAIL:  The first one: securefile value is damaged/, 'and counted');
unlike($err, qr/WARNING.*WARNING/s, 'by one warning');

# ---- a standby ----

sql(q{CREATE TABLE left_behind (id int, doc securefile(filesystem_like_logging))}, 'INSERT INTO left_behind SELECT i, lines(i, 20000) FROM generate_series(1, 2) i');
$node->backup('base');
my $standby = new_standby('standby', $node, 'base');
sql('INSERT INTO left_behind SELECT i, lines(i, 20000) FROM generate_series(3, 6) i', 'INSERT INTO text SELECT 100, lines(100, 200000)');
catch_up($node, $standby);
foreach my $table ('text', 'small', 'long', 'trained')
{
	my ($here, $there) = map { estimate($_, $table) } $node, $standby;
	is($there->{$_}{stored_bytes}, $here->{$_}{stored_bytes}, "$table, $_: the standby says the same") foreach @levels;
}
($rc, $out, $err) = damaged($standby, 'left_behind');
is("$rc $out", '0 2|40000', 'data that is not on a standby is left out');
like($err, qr/WARNING:  XX001: 4 damaged values .*DETAIL:  The first one: data of a securefile value is not on this server/s, 'and counted');

$standby->stop;
$node->stop;
done_testing();
