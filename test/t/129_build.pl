# How others build: outside of the sources, which are read-only, with another compiler,
# the server's part and the client's apart.

use strict;
use warnings;
use File::Find;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $sources = "$FindBin::RealBin/../..";
my $top = PostgreSQL::Test::Utils::tempdir();
my ($clang) = grep { -x } map { glob("$_/clang $_/clang-[0-9]*") } split /:/, $ENV{PATH};
note('compiler: ' . ($clang || 'cc'));

sub quiet
{
	my (@command) = @_;
	my ($out, $rc);
	$rc = IPC::Run::run(\@command, '>&', \$out);
	diag("@command: $out") unless $rc;
	return ($rc, $out);
}

# What is below a directory, as paths from there.
sub below
{
	my ($dir) = @_;
	my @found;
	find({ no_chdir => 1, wanted => sub { push @found, substr($_, 1 + length $dir) unless -d } }, $dir) if -d $dir;
	return sort @found;
}

# ---- a copy of the sources that nothing can be written to ----

mkdir "$top/$_" foreach ('sources', 'build');
system_or_bail('sh', '-c', "tar -C '$sources' --exclude='*.o' --exclude='*.a' --exclude='*.so*' --exclude='*.pc' --exclude=./tmp_check -cf - "
	  . "Makefile META.json README.md CHANGELOG.md LICENSE securefile.control securefile--1.0.sql src client doc | tar -C '$top/sources' -xf -");
system_or_bail('chmod', '-R', 'a-w', "$top/sources");
my @before = below("$top/sources");
chdir "$top/build" or die;
my @make = ('make', '-s', '-f', "$top/sources/Makefile", 'WERROR=1', 'COPT=-O0', ($clang ? "CC=$clang" : ()), "PG_CONFIG=$ENV{SECUREFILE_PG_CONFIG}");
ok((quiet(@make, '-j2', 'with_llvm=no'))[0], 'built outside of the sources, without a warning');
is_deeply([ below("$top/sources") ], \@before, 'the sources are as they were');

ok((quiet(@make, 'install-server', "DESTDIR=$top/server"))[0], 'install-server');
ok((quiet(@make, 'install-client', "DESTDIR=$top/client"))[0], 'install-client');
ok((quiet(@make, 'client-clean'))[0], 'client-clean');
ok((quiet(@make, '-j4', 'install', "DESTDIR=$top/all"))[0], 'install of what is not built yet, in parallel');
my @server = below("$top/server");
my @client = below("$top/client");
is_deeply([ sort @server, @client ], [ below("$top/all") ], 'the two make up all, and share nothing');
is(scalar(grep { m{/(securefile\.so|securefile\.control|securefile--1\.0\.sql|securefile/doc/reference\.md|securefile/README\.md)$} } @server), 5,
	'what the server gets');
is(scalar(grep { m{/(securefile|securefile\.1|pgsecurefile\.h|libpgsecurefile\.(a|so|pc))$} } @client), 6, 'what clients get');
ok((quiet(@make, 'uninstall', "DESTDIR=$top/all"))[0], 'uninstall');
is_deeply([ below("$top/all") ], [], 'nothing is left');

# all functions of the script are in the library
my ($library) = grep { m{/securefile\.so$} } @server;
my %symbols = map { $_ => 1 } (quiet('nm', '-D', '--defined-only', "$top/server/$library"))[1] =~ / T (\w+)$/gm;
my $script = slurp("$sources/securefile--1.0.sql");
my %wanted = map { $_ => 1 } $script =~ /^CREATE FUNCTION (?:[\w.]+\.)?(securefile_\w+)\((?:(?!;).)*?AS 'MODULE_PATHNAME' LANGUAGE C/gms;
cmp_ok(scalar(keys %wanted), '>', 30, 'functions of the script');
is(join(' ', grep { !$symbols{$_} } sort keys %wanted), '', 'are in the library');

# ---- a client that is built with it ----

my ($pc) = grep { m{/libpgsecurefile\.pc$} } @client;
my $text = slurp("$top/client/$pc");
like($text, qr/^Requires\.private: libpq$/m, 'libpq is for the library');
my ($prefix) = $text =~ /^prefix=(.*)$/m;
like($text, qr/^libdir=\Q$prefix\E\//m, 'the prefix is that of the libraries');

# ---- what it says of itself ----

my $node = new_cluster('version');
my ($version) = slurp("$sources/META.json") =~ /^   "version": "(.*)",$/m;
is($node->safe_psql('postgres', 'SELECT library, extension, locator_format, page_format, built_for LIKE \'PostgreSQL 1_%\' FROM securefile_version()'),
	"$version|1.0|1|1|t", 'securefile_version()');
like($node->safe_psql('postgres', 'SELECT build_options FROM securefile_version()'), qr/^faults\b/, 'built with fault points');

# ---- the archive ----

SKIP:
{
	skip 'the sources are no clone', 1 unless -d "$sources/.git";
	ok((quiet('make', '-s', '-f', "$sources/Makefile", 'dist'))[0] && -s "securefile-$version.zip", 'dist');
}
system_or_bail('chmod', '-R', 'u+w', "$top/sources");
done_testing();
