# Builds without a library of compression: the option words that need it are refused, values that
# were compressed with it cannot be read and are not taken for damaged, all others are right.
# The same of a build without OpenSSL and its cipher: new values take the other one.

use strict;
use warnings;
use File::Basename qw(dirname);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $sources = "$FindBin::RealBin/../../..";
my $top = PostgreSQL::Test::Utils::tempdir();

sub said
{
	my (@command) = @_;
	my $out = '';
	IPC::Run::run(\@command, '>&', \$out) or BAIL_OUT("@command: $out");
	return $out =~ s/\n\z//r;
}

# ---- a server of its own, whose library is exchanged ----

my %original = map { $_ => said($ENV{SECUREFILE_PG_CONFIG}, "--$_") } ('bindir', 'pkglibdir', 'sharedir');
my ($root) = dirname(said('which', 'postgres')) =~ /^(.*)\Q$original{bindir}\E$/;
plan skip_all => 'not in a private installation' unless defined $root;
foreach my $path (values %original)
{
	system_or_bail('mkdir', '-p', "$top/server$path");
	system_or_bail('sh', '-c', "cp -R '$root$path/.' '$top/server$path'");
}
my $library = "$top/server$original{pkglibdir}/securefile.so";
my $node = new_cluster('codecs', install_path => dirname("$top/server$original{bindir}"), conf => [ 'securefile.monitor = off', master_key() ]);
my %missing = (lz4 => 'LZ4', zstd => 'zstd');
my %words = (lz4 => ['compress_low'], zstd => [ 'compress', 'compress_medium', 'compress_high' ]);

# rows 1 to 5 in the segment, 6 to 8 compressed in their rows
sub contents
{
	my ($t) = @_;
	return "INSERT INTO $t SELECT i, i, len, blob(i, len) FROM generate_series(1, 8) i, LATERAL (SELECT CASE WHEN i < 6 THEN i * 150000 ELSE i * 500 END) l (len)";
}
make_table($node, 'plain');
make_table($node, $_->[0], $_->[1]) foreach [ 'lz4', 'compress_low' ], [ 'zstd', 'compress_high' ];
sql(contents($_)) foreach ('plain', 'lz4', 'zstd');
# and encrypted ones, by both ciphers; a value of encrypted ones ends with a whole unit
make_table($node, "$_->[0]_sealed", "encrypt, hash, $_->[1]") foreach [ 'lz4', 'compress_low' ], [ 'zstd', 'compress_medium' ];
make_table($node, $_, 'encrypt, hash') foreach 'aes', 'chacha20';
sql("SET securefile.cipher = $_", contents($_), "INSERT INTO $_ SELECT 9, 9, 131072, blob(9, 131072)") foreach 'aes', 'chacha20';
sql(contents($_)) foreach 'lz4_sealed', 'zstd_sealed';
is(sql("SELECT string_agg(cipher, ' ' ORDER BY t) FROM (SELECT 'aes' t, * FROM securefile_keys('aes', 'doc') UNION ALL SELECT 'chacha20', * FROM securefile_keys('chacha20', 'doc')) k"), 'aes chacha20', 'both ciphers');
# and small ones, with a dictionary
make_table($node, 'trained', 'compress_medium');
my $json = "INSERT INTO trained SELECT oid::int + %d, 0, 0, convert_to(row_to_json(p)::text, 'UTF8') FROM pg_proc p ORDER BY oid LIMIT %d";
sql(sprintf($json, 0, 2000), "SELECT securefile_train('trained', 'doc')", sprintf($json, 100000, 100));
is(sql("SELECT DISTINCT s.codec FROM trained, securefile_storage(doc) s WHERE id > 100000"), 'zstd with dictionary', 'small values are compressed with a dictionary');
is(sql("SELECT count(*) FROM $_, securefile_storage(doc) s WHERE s.codec = '$_'"), 8, "all values of $_ are compressed") foreach ('lz4', 'zstd');
$node->stop;

# ---- with less ----

# What is not affected is not compiled again.
system_or_bail('sh', '-c', "mkdir '$top/build' && tar -C '$sources' --exclude=./.git --exclude='./test/[!m]*' --exclude=./test/model --exclude=./tmp_check -cf - . | tar -C '$top/build' -xf -");
my @affected = map { s/c$/o/r } split /\n/, said('grep', '-rlE', '--include=*.c', 'SF_(LZ4|ZSTD|OPENSSL)\b', "$top/build/src");
cmp_ok(scalar(@affected), '>=', 4, 'files that know of the libraries');

sub build_without
{
	my (@codecs) = @_;
	unlink @affected, "$top/build/securefile.so";
	my @make = ('make', '-s', '-j2', '-C', "$top/build", 'FAULTS=1', 'WERROR=1', 'NO_CLIENT=1', 'with_llvm=no', "PG_CONFIG=$ENV{SECUREFILE_PG_CONFIG}", map { 'NO_' . uc($_) . '=1' } @codecs);
	push @make, 'SANITIZE=1' if $ENV{SANITIZE};
	my ($out, $ok) = ('');
	local %ENV = %ENV;
	delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS)};
	$ok = IPC::Run::run(\@make, '>&', \$out);
	ok($ok && $out eq '', "built without @codecs, without a warning") or diag($out);
	# by itself: OpenSSL may want zstd
	unlike(said('readelf', '-d', "$top/build/securefile.so"), qr/NEEDED.*lib\Q$_\E\.so/, "$_ is not asked for") foreach map { $_ eq 'openssl' ? 'crypto' : $_ } @codecs;
	use_library("$top/build/securefile.so");
	return;
}

# Not written to in its place: others have the same file.
sub use_library
{
	my ($from) = @_;
	unlink $library;
	system_or_bail('cp', $from, $library);
	$node->start;
	return;
}

foreach my $without ([ 'lz4' ], [ 'zstd' ], [ 'lz4', 'zstd' ])
{
	build_without(@$without);
	my %lacks = map { $_ => 1 } @$without;
	is(sql('SELECT build_options FROM securefile_version()') =~ s/^(faults|sanitizers|assertions| )*//r, join(' ', grep { !$lacks{$_} } 'lz4', 'zstd', 'openssl'),
		"without @$without: securefile_version() says so");
	is(sql("SELECT string_agg(option, ' ') FROM securefile_estimate('plain', 'doc')"), join(' ', 'nocompress', map { $lacks{$_} ? () : @{ $words{$_} }[ $_ eq 'lz4' ? 0 : (1, 2) ] } 'lz4', 'zstd'),
		"without @$without: securefile_estimate()");
	if ($lacks{zstd})
	{
		fails_with($node, 'SELECT doc::bytea FROM trained WHERE id > 100000', '0A000',
			qr/this build does not support\n.*DETAIL:  The value has codec 3\.\nHINT:  Codec 1 needs a build with LZ4; codecs 2 and 3 need one with zstd\./s, "without @$without: values with a dictionary");
		is(sql("SELECT DISTINCT s.codec FROM trained, securefile_storage(doc) s WHERE id > 100000"), '3', "without @$without: their codec is a number");
	}
	foreach my $codec ('lz4', 'zstd')
	{
		foreach my $word (@{ $words{$codec} })
		{
			my $command = "CREATE TABLE x (doc securefile($word))";
			fails_with($node, $command, '0A000',
				qr/securefile option "$word" is not supported by this build\n.*DETAIL:  This build of securefile has no $missing{$codec}\.\nHINT:  Valid options are: (?![^\n]*\b$word\b)/s, "without @$without: $word is refused")
			  if $lacks{$codec};
			is(($node->psql('postgres', "$command; DROP TABLE x"))[0], 0, "without @$without: $word is taken") unless $lacks{$codec};
		}
		if (!$lacks{$codec})
		{
			rows_right($node, $codec, 8, "without @$without");
			next;
		}
		my $refused = qr/compressed in a way that this build does not support/;
		fails_with($node, "SELECT $_ FROM $codec WHERE id = 3", '0A000', $refused, "without @$without: $_ of $codec")
		  foreach ('doc::bytea', 'substring(doc FROM 200000 FOR 5)', 'securefile_chunks(doc)', "securefile_digest(doc, 'sha256')", "doc = blob(3, 450000)",
			"securefile_read(securefile_open(doc, 'r'), 10)", 'overlay(doc PLACING $$x$$::bytea FROM 5)::bytea');
		fails_with($node, "SELECT $_ FROM $codec WHERE id = 7", '0A000', $refused, "without @$without: $_ of $codec, in the row")
		  foreach ('doc::bytea', 'substring(doc FROM 20 FOR 5)', 'securefile_chunks(doc)');
		fails_with($node, "COPY $codec TO STDOUT", '0A000', $refused, "without @$without: COPY of $codec");
		fails_with($node, "SELECT securefile_rewrite('$codec', 'doc')", '0A000', $refused, "without @$without: securefile_rewrite() of $codec");
		is(sql("SELECT count(*), count(data), count(*) FILTER (WHERE problem ~ 'this build does not support') FROM $codec, securefile_salvage(doc) WHERE id = 3"),
			'4|0|4', "without @$without: securefile_salvage() of $codec says why");
		fails_with($node, "CREATE TABLE x AS SELECT * FROM $codec", '0A000', $refused, "without @$without: a copy of $codec");
		is(sql("SELECT count(*) FROM $codec WHERE length(doc) = len"), 8, "without @$without: lengths of $codec");
		is(sql("SELECT count(*) FROM securefile_check('$codec', 'doc')"), 0, "without @$without: $codec: nothing is damaged");
		is(sql("SELECT string_agg(DISTINCT form, ' ' ORDER BY form) FROM $codec, securefile_storage(doc)"), 'inline stored', "without @$without: securefile_storage() of $codec");
		is(sql("SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '$codec'::regclass AND attname = 'doc'"), "securefile($words{$codec}[-1])", "without @$without: the column keeps its option");
		# what is written to the column is not compressed, and what is deleted is gone
		sql("INSERT INTO $codec SELECT 20, 20, 300000, blob(20, 300000)", "INSERT INTO $codec SELECT 21, 21, 2000, blob(21, 2000)", "UPDATE $codec SET seed = seed WHERE id = 1");
		is(sql("SELECT string_agg(s.codec || ' ' || (doc::bytea = blob(seed, len)), ', ') FROM $codec, securefile_storage(doc) s WHERE id > 19"), 'none true, none true', "without @$without: new values of $codec");
		sql("DELETE FROM $codec WHERE id > 19");
		is(sql("BEGIN; DELETE FROM $codec; SELECT count(*) FROM $codec; ROLLBACK"), 0, "without @$without: rows of $codec can be deleted");
		# encrypted as well
		fails_with($node, "SELECT doc::bytea FROM ${codec}_sealed WHERE id = $_", '0A000', $refused, "without @$without: encrypted value $_ of $codec") foreach 3, 7;
		is(sql("SELECT count(*) FROM securefile_check('${codec}_sealed', 'doc')"), 0, "without @$without: $codec, encrypted: nothing is damaged");
		sql("INSERT INTO ${codec}_sealed SELECT 20, 20, 300000, blob(20, 300000)");
		is(sql("SELECT s.codec || ' ' || (s.key_id > 0) || ' ' || (doc::bytea = blob(20, 300000)) FROM ${codec}_sealed, securefile_storage(doc) s WHERE id = 20", "DELETE FROM ${codec}_sealed WHERE id = 20"), 'none true true', "without @$without: new values of $codec are encrypted");
	}
	rows_right($node, 'plain', 8, "without @$without");
	rows_right($node, $_, 9, "without @$without") foreach 'aes', 'chacha20';
	$node->stop;
}

# ---- without OpenSSL ----

build_without('openssl');
is(sql('SELECT build_options FROM securefile_version()') =~ s/^(faults|sanitizers|assertions| )*//r, 'lz4 zstd', 'without openssl: securefile_version() says so');
fails_with($node, 'SET securefile.cipher = aes', '0A000', qr/cipher "aes" is not supported by this build\n.*DETAIL:  This build of securefile has no OpenSSL\.\nHINT:  Use auto or chacha20\./s, 'without openssl: its cipher is refused');
make_table($node, 'sealed', 'encrypt, compress_low');
sql('SET securefile.cipher = auto', contents('sealed'));
is(sql(q{SELECT cipher FROM securefile_keys('sealed', 'doc')}), 'chacha20', 'without openssl: a new column takes the other cipher');
rows_right($node, $_->[0], $_->[1], 'without openssl') foreach [ 'sealed', 8 ], [ 'chacha20', 9 ], [ 'plain', 8 ];
my $unknown = qr/encrypted in a way that this build does not support\n.*HINT:  Cipher aes needs a build with OpenSSL\./s;
foreach my $id (3, 7)
{
	fails_with($node, "SELECT $_ FROM aes WHERE id = $id", '0A000', $unknown, "without openssl: $_ of value $id")
	  foreach ('doc::bytea', 'substring(doc FROM 20 FOR 5)', 'securefile_chunks(doc)', "securefile_digest(doc, 'sha256')", 'doc = blob(7, len)', "securefile_read(securefile_open(doc, 'r'), 10)", 'overlay(doc PLACING $$x$$::bytea FROM 5)::bytea');
}
# 9: nothing of the old value would have to be read
fails_with($node, "UPDATE aes SET doc = doc || 'x'::bytea WHERE id = $_", '0A000', $unknown, "without openssl: an edit of value $_") foreach 3, 7, 9;
fails_with($node, $_, '0A000', $unknown, "without openssl: $_") foreach 'COPY aes TO STDOUT', q{SELECT securefile_rewrite('aes', 'doc')}, 'CREATE TABLE x AS SELECT * FROM aes', 'INSERT INTO plain SELECT id + 100, seed, len, doc FROM aes';
is(sql(q{SELECT count(*), count(data), count(*) FILTER (WHERE problem ~ 'encrypted in a way that this build does not support') FROM aes, securefile_salvage(doc) WHERE id IN (3, 7)}), '5|0|5', 'without openssl: securefile_salvage() says why');
is(sql(q{SELECT count(*) FROM securefile_check('aes', 'doc')}, q{SELECT count(*) FROM securefile_repair('aes', 'doc')}, 'SELECT count(*) FROM aes WHERE length(doc) = len', q{SELECT count(*) FROM aes, securefile_storage(doc) WHERE key_id = 1}), "0\n0\n9\n9", 'without openssl: nothing is damaged, and lengths are known');
# a new key, of the cipher that there is
sql(contents('aes') =~ s/SELECT i,/SELECT i + 20,/r, 'UPDATE aes SET doc = blob(seed, len) WHERE id < 3', 'DELETE FROM aes WHERE id BETWEEN 3 AND 9');
rows_right($node, 'aes', 10, 'without openssl: new values');
is(sql(q{SELECT string_agg(key_id || ' ' || cipher || ' ' || is_current || ' ' || stored_values, ', ' ORDER BY key_id) FROM securefile_keys('aes', 'doc', true) WHERE key_id > 0}), '1 aes false 0, 2 chacha20 true 10', 'without openssl: have a key of the other cipher');
$node->stop;

# ---- with all again ----

use_library("$root$original{pkglibdir}/securefile.so");
foreach my $t ('plain', 'lz4', 'zstd', 'lz4_sealed', 'zstd_sealed', 'sealed')
{
	rows_right($node, $t, 8, 'with all again');
	sound($node, $t, 'with all again');
}
rows_right($node, 'aes', 10, 'with all again');
fails_with($node, 'SET securefile.cipher = none', '22023', 'Available values: auto, aes, chacha20', 'another cipher is no cipher');
$node->stop;
done_testing();
