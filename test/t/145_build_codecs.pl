# Builds without a library of compression: the option words that need it are refused, values that
# were compressed with it cannot be read and are not taken for damaged, all others are right.

use strict;
use warnings;
use File::Basename qw(dirname);
use FindBin;
use lib "$FindBin::RealBin/../perl";
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $sources = "$FindBin::RealBin/../..";
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
my $node = new_cluster('codecs', install_path => dirname("$top/server$original{bindir}"), conf => ['securefile.monitor = off']);
my %missing = (lz4 => 'LZ4', zstd => 'zstd');
my %words = (lz4 => ['compress_low'], zstd => [ 'compress', 'compress_medium', 'compress_high' ]);

sub sql { return $node->safe_psql('postgres', join(';', @_)) }

# rows 1 to 5 in the segment, 6 to 8 compressed in their rows
sub contents
{
	my ($t) = @_;
	return "INSERT INTO $t SELECT i, i, len, blob(i, len) FROM generate_series(1, 8) i, LATERAL (SELECT CASE WHEN i < 6 THEN i * 150000 ELSE i * 500 END) l (len)";
}
make_table($node, 'plain');
make_table($node, $_->[0], $_->[1]) foreach [ 'lz4', 'compress_low' ], [ 'zstd', 'compress_high' ];
sql(contents($_)) foreach ('plain', 'lz4', 'zstd');
# and small ones, with a dictionary
make_table($node, 'trained', 'compress_medium');
my $json = "INSERT INTO trained SELECT oid::int + %d, 0, 0, convert_to(row_to_json(p)::text, 'UTF8') FROM pg_proc p ORDER BY oid LIMIT %d";
sql(sprintf($json, 0, 2000), "SELECT securefile_train('trained', 'doc')", sprintf($json, 100000, 100));
is(sql("SELECT DISTINCT s.codec FROM trained, securefile_storage(doc) s WHERE id > 100000"), 'zstd with dictionary', 'small values are compressed with a dictionary');
is(sql("SELECT count(*) FROM $_, securefile_storage(doc) s WHERE s.codec = '$_'"), 8, "all values of $_ are compressed") foreach ('lz4', 'zstd');
$node->stop;

# ---- with less ----

# What is not affected is not compiled again.
system_or_bail('sh', '-c', "mkdir '$top/build' && tar -C '$sources' --exclude=./.git --exclude=./test --exclude=./tmp_check -cf - . | tar -C '$top/build' -xf -");
my @affected = map { s/c$/o/r } split /\n/, said('grep', '-rlE', '--include=*.c', 'SF_(LZ4|ZSTD)\b', "$top/build/src");
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
	unlike(said('ldd', "$top/build/securefile.so"), qr/lib\Q$_\E\.so/, "$_ is not asked for") foreach @codecs;
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
	is(sql('SELECT build_options FROM securefile_version()') =~ s/^(faults|sanitizers|assertions| )*//r, join(' ', grep { !$lacks{$_} } 'lz4', 'zstd'),
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
	}
	rows_right($node, 'plain', 8, "without @$without");
	$node->stop;
}

# ---- with all again ----

use_library("$root$original{pkglibdir}/securefile.so");
foreach my $t ('plain', 'lz4', 'zstd')
{
	rows_right($node, $t, 8, 'with all again');
	sound($node, $t, 'with all again');
}
$node->stop;
done_testing();
