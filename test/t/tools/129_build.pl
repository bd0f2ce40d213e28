# How others build: outside of the sources, which are read-only, with another compiler,
# the server's part and the client's apart.

use strict;
use warnings;
use File::Basename qw(basename dirname);
use File::Find;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IO::Uncompress::Unzip;
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

# what is built here is not what the other tests run
delete $ENV{SANITIZE};
my $sources = "$FindBin::RealBin/../../..";
my $top = PostgreSQL::Test::Utils::tempdir();
my @scripts = sort map { basename($_) } glob("$sources/securefile--*.sql $sources/securefile_citus--*.sql");
my ($clang) = grep { -x } map { glob("$_/clang $_/clang-[0-9]*") } split /:/, $ENV{PATH};
my $python = (glob("$sources/securefile_plpython3u--*.sql"))[0];
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
system_or_bail('sh', '-c', "tar -C '$sources' --exclude='*.o' --exclude='*.a' --exclude='*.so*' --exclude='*.pc' --exclude=client/cmd/securefile -cf - "
	  . "Makefile META.json README.md CHANGELOG.md LICENSE securefile.control securefile_citus.control securefile_plpython3u.control @scripts "
	  . basename($python) . " src plpython client doc | tar -C '$top/sources' -xf -");
system_or_bail('chmod', '-R', 'a-w', "$top/sources");
my @before = below("$top/sources");
chdir "$top/build" or die;
my @make = ('make', '-s', '-f', "$top/sources/Makefile", 'WERROR=1', 'COPT=-O0 -g0', ($clang ? "CC=$clang" : ()), "PG_CONFIG=$ENV{SECUREFILE_PG_CONFIG}");

# The headers of the server are most of what a compiler reads: clang reads those of base.h once,
# with the flags of the files that begin with it.
if ($clang)
{
	my ($flags) = (quiet(@make, '-n', 'src/securefile.o'))[1] =~ m{^\Q$clang\E (.*) -c -o src/securefile\.o \S+/src/securefile\.c$}m or die 'how is a file compiled?';
	ok((quiet('sh', '-c', "$clang $flags -x c-header -o $top/base.pch $top/sources/src/base/base.h"))[0], 'base.h without a warning');
	write_file("$top/quick/clang", <<"END");
#!/bin/sh
for source; do :; done
case \$source in
	$top/sources/src/*.c)
		grep -m 1 '^#include' "\$source" | grep -qx '#include "base/base.h"' && exec $clang -include-pch $top/base.pch "\$@" ;;
esac
exec $clang "\$@"
END
	chmod 0755, "$top/quick/clang" or die;
}
ok((quiet(@make, '-j2', 'with_llvm=no', $clang ? "CC=$top/quick/clang" : ()))[0], 'built outside of the sources, without a warning');
is_deeply([ below("$top/sources") ], \@before, 'the sources are as they were');

# what a compiler says of variables and longjmp() it finds out while it optimizes, and without fault points
mkdir "$top/optimized";
chdir "$top/optimized" or die;
my @catching = map { s/\.c$/.o/r } grep { /^src\/.*\.c$/ && slurp("$top/sources/$_") =~ /PG_TRY/ } @before;
cmp_ok(scalar(@catching), '>', 5, 'files that catch errors');
ok((quiet('make', '-s', '-j2', '-f', "$top/sources/Makefile", 'WERROR=1', 'COPT=-O2 -g0', "PG_CONFIG=$ENV{SECUREFILE_PG_CONFIG}", @catching))[0], 'are built without a warning by the compiler of the server');
chdir "$top/build" or die;

# make would take objects that lie beside the sources for its own
foreach my $object ('securefile.so', 'plpython/securefile_plpython3.so', 'src/securefile.o', 'src/sql/type.o', 'client/lib/open.o', 'client/lib/libpgsecurefile.a', 'client/cmd/main.o')
{
	my $part = $object =~ /^client/ ? 'client/' : '';
	my $dir = dirname("$top/sources/$object");
	my $out = '';
	chmod 0755, $dir or die;
	write_file("$top/sources/$object", '');
	my $rc = IPC::Run::run([ 'make', '-s', '-f', "$top/sources/${part}Makefile", "PG_CONFIG=$ENV{SECUREFILE_PG_CONFIG}" ], '>&', \$out);
	ok(!$rc && $out =~ m{the source directory was built in, it has \Q$top/sources/$object\E: run make clean there first}, "not with $object beside the sources") or diag($out);
	unlink "$top/sources/$object" or die;
	chmod 0555, $dir or die;
}

ok((quiet(@make, 'install-server', "DESTDIR=$top/server"))[0], 'install-server');
ok((quiet(@make, 'install-client', "DESTDIR=$top/client"))[0], 'install-client');
ok((quiet(@make, 'client-clean'))[0], 'client-clean');
# by a compiler that keeps a list, and is slow enough for two to meet
my $compiler = "$top/" . ($clang ? 'clang' : 'cc');
write_file($compiler, "#!/bin/sh\necho \"\$*\" >>'$top/compiled'\nsleep 0.2\nexec " . ($clang || 'cc') . " \"\$@\"\n");
chmod 0755, $compiler or die;
ok((quiet(@make, '-j4', "CC=$compiler", 'install', "DESTDIR=$top/all"))[0], 'install of what is not built yet, in parallel');
my %compiled;
# the question for the width of a pointer compiles nothing
$compiled{$_}++ foreach grep { !/ -E / } split /\n/, slurp("$top/compiled");
cmp_ok(scalar(keys %compiled), '>', 20, 'which compiles');
is(join("\n", grep { $compiled{$_} > 1 } sort keys %compiled), '', 'nothing twice');
my @server = below("$top/server");
my @client = below("$top/client");
is_deeply([ sort @server, @client ], [ below("$top/all") ], 'the two make up all, and share nothing');
is(scalar(grep { m{/(securefile\.so|securefile\.control|securefile_citus\.control|securefile/doc/reference\.md|securefile/doc/keys/age\.sh|securefile/README\.md)$} } @server), 6, 'what the server gets');
is_deeply([ sort map { basename($_) } grep { /\.sql$/ && !/plpython/ } @server ], \@scripts, 'all scripts of the extension');
my $global = slurp(dirname(dirname((quiet($ENV{SECUREFILE_PG_CONFIG}, '--pgxs'))[1] =~ s/\n//r)) . '/Makefile.global');
my ($headers) = $global =~ /^python_includespec\s*=\s*-I(\S+)/m;
my $of_server = (quiet($ENV{SECUREFILE_PG_CONFIG}, '--includedir-server'))[1] =~ s/\n//r;
my $has_python = $headers && -e "$headers/Python.h" && -e "$of_server/plpython.h";
is(join(' ', sort map { basename($_) } grep { /plpython/ } @server),
	$has_python ? 'securefile_plpython3.so ' . basename($python) . ' securefile_plpython3u.control' : '', 'the transform for PL/Python, where its headers are');
ok((quiet(@make, 'install-server', 'NO_PYTHON=1', "DESTDIR=$top/without"))[0], 'install without it');
is_deeply([ below("$top/without") ], [ grep { !/plpython/ } @server ], 'and all but that');
is(scalar(grep { m{/(securefile|securefile\.1|_securefile|pgsecurefile\.h|libpgsecurefile\.(a|so|pc))$} } @client), 8, 'what clients get');
ok((quiet(@make, 'uninstall', "DESTDIR=$top/all"))[0], 'uninstall');
is_deeply([ below("$top/all") ], [], 'nothing is left');

# all functions of the scripts are in the library
my ($library) = grep { m{/securefile\.so$} } @server;
my %symbols = map { $_ => 1 } (quiet('nm', '-D', '--defined-only', "$top/server/$library"))[1] =~ / T (\w+)$/gm;
my $script = join '', map { slurp("$sources/$_") } @scripts;
my %wanted;
while ($script =~ /^CREATE FUNCTION (?:\w+\.)?(\w+)\((?:(?!;).)*?AS 'MODULE_PATHNAME'(?:, '(\w+)')? LANGUAGE C/gms)
{
	$wanted{ $2 // $1 } = 1;
}
cmp_ok(scalar(keys %wanted), '>=', 60, 'functions of the scripts');
is(join(' ', grep { !$symbols{$_} || !$symbols{"pg_finfo_$_"} } sort keys %wanted), '', 'are in the library');

# ---- a client that is built with it ----

my ($pc) = grep { m{/libpgsecurefile\.pc$} } @client;
my $text = slurp("$top/client/$pc");
like($text, qr/^Requires\.private: libpq$/m, 'libpq is for the library');
my ($prefix) = $text =~ /^prefix=(.*)$/m;
like($text, qr/^libdir=\Q$prefix\E\//m, 'the prefix is that of the libraries');

# as an application is built, but for where it was installed; and with the library inside
my $lib = dirname(dirname("$top/client/$pc"));
write_file("$top/app.c", <<'END');
#include <pgsecurefile.h>
#include <stdio.h>

int
main(void)
{
	printf("%d of %d\n", pgsf_version(), PGSF_VERSION_NUM);
	return 0;
}
END
# libpq is where the system has it, whatever server this is
my ($libpq_dir) = split ' ', (quiet('pkg-config', '--variable=libdir', 'libpq'))[1];
my @libpq = (split(' ', (quiet('pkg-config', '--cflags', '--libs', 'libpq'))[1]), "-L$libpq_dir", "-Wl,-rpath-link,$libpq_dir");
{
	local $ENV{PKG_CONFIG_PATH} = dirname("$top/client/$pc");
	local $ENV{PKG_CONFIG_SYSROOT_DIR} = "$top/client";
	my @flags = split ' ', (quiet('pkg-config', '--cflags', '--libs', 'libpgsecurefile'))[1];
	ok((quiet($clang || 'cc', "$top/app.c", '-o', "$top/app", @flags, @libpq))[0], 'an application');
	my ($static) = grep { m{/libpgsecurefile\.a$} } @client;
	ok((quiet($clang || 'cc', "$top/app.c", '-o', "$top/static", @flags[ grep { $flags[$_] =~ /^-I/ } 0 .. $#flags ], "$top/client/$static", @libpq))[0],
		'another one, with the library inside');
}
my ($major, $minor, $patch) = slurp("$sources/client/lib/pgsecurefile.h") =~ /^#define PGSF_VERSION\s+"(\d+)\.(\d+)\.(\d+)"/m;
foreach my $app ('app', 'static')
{
	local $ENV{LD_LIBRARY_PATH} = $app eq 'app' ? $lib : '';
	my $number = $major * 10000 + $minor * 100 + $patch;
	is((quiet("$top/$app"))[1], "$number of $number\n", "$app runs");
	# and not by a library that lies elsewhere
	my ($loaded) = (quiet('ldd', "$top/$app"))[1] =~ /libpgsecurefile\S* => (\S+)\/[^\/]+ \(/;
	is($loaded, $app eq 'app' ? $lib : undef, "$app: what it loads");
}

# ---- what it says of itself ----

my $node = new_cluster('version');
my ($version) = slurp("$sources/META.json") =~ /^   "version": "(.*)",$/m;
is($node->safe_psql('postgres', 'SELECT library, extension, locator_format, page_format, built_for LIKE \'PostgreSQL 1_%\' FROM securefile_version()'),
	"$version|" . ($version =~ s/\.\d+$//r) . '|1|1|t', 'securefile_version()');
like($node->safe_psql('postgres', 'SELECT build_options FROM securefile_version()'), qr/^faults\b/, 'built with fault points');
like($node->safe_psql('postgres', 'SELECT build_options FROM securefile_version()'), qr/ lz4 zstd openssl$/, 'and with all libraries');

# ---- the archive ----

# of a clone, which nobody has when these are the sources of an archive
my $clone = "$top/clone";
mkdir $clone;
system_or_bail('sh', '-c', "tar -C '$sources' --exclude=./.git --exclude=./tmp_check -cf - . | tar -C '$clone' -xf -");
my @git = ('git', '-C', $clone, '-c', 'user.name=x', '-c', 'user.email=x@example.org');
ok((quiet(@git, @$_))[0], "git $_->[0]") foreach [ 'init', '-q' ], [ 'add', '-A' ], [ 'commit', '-q', '-m', 'all' ];
write_file("$clone/not_committed", 'x');
ok((quiet('make', '-s', '-f', "$clone/Makefile", 'dist'))[0], 'dist');
my @there = sort map { "securefile-$version/$_" } grep { !m{^\.(ci/|git)} } split /\n/, (quiet(@git, 'ls-files'))[1];
my $zip = IO::Uncompress::Unzip->new("$top/build/securefile-$version.zip") or die 'no archive';
my %in_it;
do
{
	local $/;
	my $name = $zip->getHeaderInfo->{Name};
	$in_it{$name} = <$zip> // '' unless $name =~ m{/$};
} while ($zip->nextStream > 0);
is_deeply([ sort keys %in_it ], \@there, 'has what was committed');
ok($in_it{"securefile-$version/$_"} eq slurp("$sources/$_"), "has $_") foreach 'META.json', 'Makefile', 'src/sql/version.c', @scripts;
system_or_bail('chmod', '-R', 'u+w', "$top/sources");
done_testing();
