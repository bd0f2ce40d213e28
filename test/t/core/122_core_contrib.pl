# The tests of contrib and of PL/pgSQL, with the extension in every database, on a server
# with assertions.
# Takes long.

use strict;
use warnings;
use File::Basename qw(basename);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCore;
use Test::More;

need_assertions();

# What the Makefile of a module says: its tests, and the libraries it makes.
sub module
{
	my ($path) = @_;
	my $config = $ENV{SECUREFILE_CORE_CONFIG};
	my $said = qx(env -u REGRESS -u ISOLATION make -s -C '$path' USE_PGXS=1 PG_CONFIG='$config' --eval 'core-print: ; \@printf "%s\\n" "\$(REGRESS)" "\$(ISOLATION)" "\$(MODULE_big) \$(MODULES)" "\$(filter --load-extension=%,\$(ISOLATION_OPTS))"' core-print);
	die "make failed in $path" if $? != 0;
	my %module = (name => basename($path));
	@module{qw(regress isolation libraries options)} = map { [ split ' ' ] } split /\n/, $said, -1;
	return \%module;
}

# Its suites, if the server has it.
sub suites
{
	my ($module) = @_;
	my $input = "contrib/$module->{name}";
	if (grep { !-e pg_config('--pkglibdir') . "/$_.so" } @{ $module->{libraries} })
	{
		note("not built: $module->{name}");
		return;
	}
	my @suites;
	push @suites, { name => $module->{name}, input => $input, db => 'contrib_regression', tests => $module->{regress} }
	  if @{ $module->{regress} };
	push @suites,
	  { name => "$module->{name}-isolation", isolation => 1, input => $input, db => 'isolation_regression',
		options => $module->{options}, tests => $module->{isolation} }
	  if @{ $module->{isolation} };
	return @suites;
}

# Its Makefile is not one of PGXS.
sub plpgsql
{
	my $input = 'src/pl/plpgsql/src';
	my ($tests) = slurp_file(core_source("$input/Makefile")) =~ /^REGRESS = ((?:.*\\\n)*.*)/m;
	return { name => 'plpgsql', input => $input, db => 'pl_regression', tests => [ split /[\s\\]+/, $tests ] };
}

my @modules = map { suites(module($_)) } grep { -e "$_/Makefile" } sort(glob(core_source('contrib') . '/*'));
my @alone = grep { $_->{name} eq 'pg_stat_statements' } @modules;

# What the modules' own configuration files ask for.  A test of one lists what is in
# public, so the extension lies elsewhere here.
my @conf = (
	'wal_level = logical', 'max_replication_slots = 4', 'logical_decoding_work_mem = 64kB',
	'autovacuum = off', 'archive_mode = on', "archive_library = 'basic_archive'",
	"basic_archive.archive_directory = '.'");
check_suites('contrib', [ plpgsql(), grep { $_->{name} ne 'pg_stat_statements' } @modules ], schema => 'files', conf => \@conf);

# Where this is preloaded others show identifiers of queries.
check_suites('statements', \@alone, expected => 'contrib', also => ['pg_stat_statements'], conf => \@conf);
done_testing();
