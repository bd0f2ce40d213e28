# A data directory that was made before values could be compressed (test/old/make), by a server
# that was then killed: its WAL is replayed, every value is read as it was, with the functions of
# its time and with those of today; values are changed, compressed and rewritten.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $archive = "$FindBin::RealBin/../old/cluster.tar.xz";
my $node = PostgreSQL::Test::Cluster->new('old');
my $machine = qx(uname -m);
plan skip_all => 'the old cluster is one of PostgreSQL 15: ' . $node->pg_version unless $node->pg_version =~ /^15\b/;
plan skip_all => "the old cluster is one of x86-64: $machine" unless $machine =~ /^x86_64/;
plan skip_all => 'xz unpacks the old cluster' if system('xz --version >/dev/null 2>&1') != 0;

my $data = $node->data_dir;
$ENV{PGUSER} = 'postgres';
mkdir $node->basedir unless -d $node->basedir;
mkdir $data, 0700 or die "$data: $!";
system_or_bail('tar', '-C', $data, '--strip-components=1', '-xJf', $archive);
$node->append_conf('postgresql.conf', $_) foreach ('port = ' . $node->port, "unix_socket_directories = '" . $node->host . "'", 'restart_after_crash = on');
$node->start;

sub sql { return $node->safe_psql('postgres', join(';', @_)) }

# table => rows
my %count = (before => 13, l => 24, f => 26, in_segment => 13, e => 13, p => 26, cut => 26);
my @leaves = map { $_ eq 'p' ? 'p_rest' : $_ } sort keys %count;

# One test: each row's value has the digest that the row has, whoever reads it.
sub right
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $differ = join ' OR ', map { "sha256($_) IS DISTINCT FROM digest" } 'doc::bytea',
	  q{(CASE WHEN doc IS NOT NULL THEN coalesce((SELECT string_agg(c, '' ORDER BY n) FROM securefile_chunks(doc) WITH ORDINALITY AS c (c, n)), '') END)};
	my $found = sql(join ' UNION ALL ', map { "SELECT '$_', count(*), string_agg(id || ' ' || what, ', ') FILTER (WHERE $differ) FROM $_" } sort keys %count);
	return is($found, join("\n", map { "$_|$count{$_}|" } sort keys %count), $name);
}

sub checked
{
	my ($name, @tables) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql(join ' UNION ALL ', map { "SELECT '$_: ' || finding FROM securefile_check('$_', 'doc')" } @tables), '', "$name: check");
}

# All rows of all tables get another value.
sub change
{
	my ($seed) = @_;
	sql(map { ("UPDATE $_ SET doc = doc || blob($seed, 100000), digest = sha256(doc::bytea || blob($seed, 100000)) WHERE id % 3 = 0",
			"UPDATE $_ SET doc = overlay(doc PLACING blob($seed, 1000) FROM length(doc) / 2 + 1), digest = sha256(overlay(doc::bytea PLACING blob($seed, 1000) FROM length(doc)::int / 2 + 1)) WHERE id % 3 = 1") } sort keys %count);
	return;
}

# ---- as it comes up ----

my $log = slurp_file($node->logfile);
like($log, qr/redo done/, 'its WAL is replayed');
unlike($log, qr/PANIC|FATAL|ERROR|TRAP: |signal/, 'without a word');
is(sql(q{SELECT extversion FROM pg_extension WHERE extname = 'securefile'}), '1.0', 'the extension is that of its time');
right('every value');
# those of the prepared transactions are locked
checked('every value', grep { !/^[lf]$/ } @leaves);
is(sql(q{SELECT count(*) > 0 FROM securefile_usage('l', 'doc') WHERE pending_bytes > 0}), 't', 'entries are pending');
is(sql(q{SELECT count(*) FROM pg_prepared_xacts}), 2, 'and transactions prepared');

# what it could call then
foreach my $call ('* FROM securefile_stat', '* FROM securefile_stat_columns()', '* FROM securefile_columns', "* FROM securefile_usage('l', 'doc')", '* FROM securefile_monitor', '* FROM securefile_version()',
	"* FROM securefile_repair('before', 'doc', true)", "securefile_digest(doc, 'sha256') FROM l", 'start, problem FROM f, securefile_salvage(doc)', "* FROM securefile_kept_memory()")
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT $call");
	is("$rc $err", '0 ', "SELECT $call");
}

# ---- its extension, today's library ----

sql("COMMIT PREPARED 'prepared'; ROLLBACK PREPARED 'prepared, to be rolled back'");
is(sql('SELECT string_agg(id::text, $$ $$ ORDER BY id) FROM l WHERE id < 120 OR id > 2000'), '110 112 113 114 2001', 'a prepared transaction is committed');
$count{l} = sql('SELECT count(*) FROM l');
change(1);
right('changed');
sql('ALTER TABLE l ALTER doc TYPE securefile(compress_low)', 'ALTER TABLE f ALTER doc TYPE securefile(filesystem_like_logging, nocache, compress_medium)');
change(2);
right('changed, and compressed');
settle($node, $_, 'doc') foreach @leaves;
checked('changed, and compressed', @leaves);

# ---- today's extension ----

sql('ALTER EXTENSION securefile UPDATE');
is(sql(q{SELECT installed_version = default_version AND installed_version <> '1.0' FROM pg_available_extensions WHERE name = 'securefile'}), 't', 'the extension is updated');
is(sql(q{SELECT string_agg(DISTINCT s.codec, ' ' ORDER BY s.codec) FROM before, securefile_storage(doc) s}), 'none', 'old values are as they were');
like(sql(q{SELECT string_agg(DISTINCT s.codec, ' ' ORDER BY s.codec) FROM f, securefile_storage(doc) s}), qr/zstd/, 'new ones are compressed');
is(sql(q{SELECT count(*) > 0 FROM f, securefile_storage(doc) s WHERE s.compressed_units BETWEEN 1 AND s.units - 1}), 't', 'versions have both');
right('updated');
my %words = (before => 'compress_low', l => 'compress_high', f => 'filesystem_like_logging, compress_low', in_segment => 'disable_storage_in_row, compress_medium', e => 'compress_low', p => 'compress_medium', cut => 'compress_high');
sql(map { ("ALTER TABLE $_ ALTER doc TYPE securefile($words{$_})") } sort keys %words);
right('of other options');
change(3);
sql(map { "SELECT securefile_rewrite('$_', 'doc')" } sort keys %words);
right('rewritten');
foreach my $t (sort keys %words)
{
	my $codec = $words{$t} =~ /low/ ? 'lz4' : 'zstd';
	is(sql("SELECT string_agg(DISTINCT s.codec, ' ') FROM $t, securefile_storage(doc) s WHERE s.codec <> 'none'"), $codec, "rewritten: $t: its codec");
	sound($node, $t eq 'p' ? 'p_rest' : $t, 'rewritten', $t eq 'in_segment' ? (in_row => 0) : ());
}
crash($node);
$node->start;
right('after a crash');
sql(map { "DELETE FROM $_" } sort keys %count);
is(settle($node, $_, 'doc')->{live_bytes}, 0, "$_: deleted") foreach @leaves;
$node->stop;
done_testing();
