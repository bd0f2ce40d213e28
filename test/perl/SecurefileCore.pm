# PostgreSQL's own tests, run against a server with the extension preloaded and in all
# databases, those that tests make included.
#
# What may differ from what PostgreSQL's own files expect stands in test/core/expected,
# line by line, each with its reason; all else fails.  Where the tests are of another
# minor release than the server, the same tests run without the extension, too, and what
# both show counts for nothing.

package SecurefileCore;

use strict;
use warnings;

use Exporter qw(import);
use File::Basename qw(basename dirname);
use File::Copy qw(copy);
use FindBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(need_core need_assertions core_source core_cluster run_suite check_suites pg_config
  all_sound log_is_clean internal_errors nothing_internal);

my $expected_dir = "$FindBin::RealBin/../../core/expected";

# ---- where things are ----

# The source, or the whole file is skipped.
sub need_core
{
	return if $ENV{SECUREFILE_CORE_SOURCE};
	plan skip_all => "no source of PostgreSQL's tests: " . ($ENV{SECUREFILE_CORE_WHY} || 'test/run gets it');
}

# A server with assertions, or the whole file is skipped.
sub need_assertions
{
	need_core();
	return if $ENV{SECUREFILE_CORE_BIN};
	plan skip_all => 'no server with assertions: ' . ($ENV{SECUREFILE_CORE_WHY} || 'make check-long builds one');
}

sub core_source { return "$ENV{SECUREFILE_CORE_SOURCE}/$_[0]"; }

# The programs of the server that is tested: that with assertions if there is one.
sub bin_dir
{
	return $ENV{SECUREFILE_CORE_BIN} if $ENV{SECUREFILE_CORE_BIN};
	return dirname((grep { -x } map { "$_/postgres" } split /:/, $ENV{PATH})[0]);
}

# What the pg_config says that belongs to it, that of the place it was copied from: its
# headers and the drivers of tests are there.
sub pg_config
{
	my ($what) = @_;
	my $config = $ENV{SECUREFILE_CORE_CONFIG};
	my $said = qx('$config' $what);
	die "$config $what failed" if $? != 0;
	chomp $said;
	return $said;
}

# Whether tests and server are of two minor releases.
sub reference_needed
{
	my ($server) = pg_config('--version') =~ /^PostgreSQL (\S+)/;
	my ($tests) = slurp_file(core_source('configure')) =~ /^PACKAGE_VERSION='(\S+)'/m;
	note("tests of $tests, server $server");
	return $server ne $tests;
}

# ---- clusters ----

# Keys: without, to have one that does not know the extension; schema, where it is to be;
# prepare, SQL for all databases besides; conf, settings; also, libraries to be preloaded.
sub core_cluster
{
	my ($name, %params) = @_;
	my @libraries = ($params{without} ? () : ('securefile'), @{ $params{also} || [] });
	my $node = PostgreSQL::Test::Cluster->new($name, install_path => dirname(bin_dir()));

	$node->init(extra => [ '--no-locale', '--encoding=UTF8' ]);
	$node->append_conf('postgresql.conf', $_)
	  for ("shared_preload_libraries = '" . join(',', @libraries) . "'",
		'max_connections = 40', 'max_prepared_transactions = 10', 'wal_level = replica', 'max_wal_senders = 4',
		# a failure must be seen, not repaired by a restart
		'restart_after_crash = off',
		# where an error of class XX comes from
		'log_error_verbosity = verbose', "log_line_prefix = '%m [%p] %e %a '", 'log_statement = none',
		@{ $params{conf} || [] });
	$node->start;
	prepare_templates($node, $params{schema} || 'public', $params{prepare} || '') unless $params{without};
	return $node;
}

# New databases are copies of template1, those of pg_regress of template0.
sub prepare_templates
{
	my ($node, $schema, $more) = @_;
	my $extension = "CREATE SCHEMA IF NOT EXISTS $schema; CREATE EXTENSION securefile SCHEMA $schema;";
	$node->safe_psql('postgres', 'ALTER DATABASE template0 ALLOW_CONNECTIONS true');
	$node->safe_psql($_, "$extension $more") for qw(template0 template1 postgres);
	$node->safe_psql('postgres', 'ALTER DATABASE template0 ALLOW_CONNECTIONS false');
	return;
}

# ---- running ----

# The libraries that tests load, in a directory of their own, made once.
my $libraries;

sub make_libraries
{
	return $libraries if $libraries;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $source = core_source('src/test/regress/regress.c');
	system_or_bail('cc', '-shared', '-fPIC', '-O1', '-w', '-I', pg_config('--includedir-server'),
		'-I', pg_config('--includedir'), '-o', "$dir/regress.so", $source);
	foreach my $library (qw(refint.so autoinc.so))
	{
		copy(pg_config('--pkglibdir') . "/$library", "$dir/$library") or die "$library: $!";
	}
	return $libraries = $dir;
}

# Run pg_regress, or its isolation sibling, on a cluster.  Keys: name; input, a directory
# of the source; tests, their names, or --schedule=; isolation, for the sibling; db, the
# database that is made; options; unread, where differences are not to be looked at.
# What it gives has tests, the names in their order; failed, those that were not as
# expected; differences, the lines of these.
sub run_suite
{
	my ($node, %params) = @_;
	my $input = core_source($params{input});
	my $out = PostgreSQL::Test::Utils::tempdir();
	my $driver = $params{isolation} ? 'isolation/pg_isolation_regress' : 'regress/pg_regress';
	my %suite = (%params, dir => $out, said => '', tests_wanted => $params{tests}, tests => []);

	# some tests read files relative to where they run
	symlink("$input/data", "$out/data") or die $!;
	local $ENV{PG_REGRESS_DIFF_OPTS} = $params{unread} ? '--brief' : '-U3';
	IPC::Run::run(
		[
			dirname(pg_config('--pgxs')) . "/../test/$driver", '--bindir=' . bin_dir(), "--inputdir=$input",
			"--outputdir=$out", '--dlpath=' . make_libraries(), '--host=' . $node->host,
			'--port=' . $node->port, '--dbname=' . ($params{db} || 'regression'),
			'--max-concurrent-tests=20', @{ $params{options} || [] }, @{ $params{tests} }
		],
		'<', \undef, '>&', \$suite{said},
		init => sub { chdir $out or die $! });
	read_outcomes(\%suite);
	find_differences(\%suite) unless $params{unread};
	return \%suite;
}

sub read_outcomes
{
	my ($suite) = @_;
	foreach my $line (split /\n/, $suite->{said})
	{
		# 16 and later speak TAP
		next unless $line =~ /^(?:test | {5})(\S+)\s+\.\.\. (ok|FAILED|failed \(ignored\))/ || $line =~ /^(?:not )?ok \d+\s+[-+] (\S+)/;
		my $test = $1;
		push @{ $suite->{tests} }, $test;
		$suite->{failed}{$test} = 1 if $line =~ /FAILED|^not ok/;
		# "random" fails now and then, and is not to count
		$suite->{ignored}{$test} = 1 if $line =~ /failed \(ignored\)/;
	}
	return;
}

# Widths of columns follow from what stands in them: runs of spaces and of dashes are all
# the same.
sub normalised
{
	my ($line) = @_;
	$line =~ s/\s+/ /g;
	$line =~ s/^ | $//g;
	$line =~ s/-{2,}/--/g;
	return $line;
}

sub write_normalised
{
	my ($from, $to) = @_;
	open(my $in, '<', $from) or return 0;
	open(my $out, '>', $to) or die "$to: $!";
	while (my $line = <$in>)
	{
		print $out normalised($line), "\n";
	}
	close $out or die "$to: $!";
	return 1;
}

# The lines that a test shows more or less than the file that comes closest.
sub find_differences
{
	my ($suite) = @_;
	my $said = "$suite->{dir}/regression.diffs";
	return unless -s $said;
	foreach my $line (split /\n/, slurp_file($said))
	{
		next unless $line =~ /^diff .* (\S+\.out) (\S+\.out)$/;
		my ($want, $got) = ($1, $2);
		my @files = map { "$suite->{dir}/$_" } qw(want got);
		next if $suite->{ignored}{ basename($got, '.out') };
		next unless write_normalised($want, $files[0]) && write_normalised($got, $files[1]);
		my @lines = split /\n/, qx(diff -U0 '$files[0]' '$files[1]');
		splice(@lines, 0, 2);
		$suite->{differences}{ basename($got, '.out') } = [ grep { /^[-+]/ } @lines ];
	}
	return;
}

# ---- comparing ----

# What a file of test/core/expected says: patterns of lines by test.  <oid> stands for the
# number of an object.
sub expected_differences
{
	my ($name) = @_;
	my (%expected, $test);
	return {} unless -e "$expected_dir/$name";
	foreach my $line (split /\n/, slurp_file("$expected_dir/$name"))
	{
		next if $line =~ /^(#|$)/;
		$test = $1, next if $line =~ /^test (\S+): ./;
		die "$name: what is \"$line\"?" unless defined $test && $line =~ /^[-+]/;
		my $pattern = join('[1-9][0-9]{4,9}', map { quotemeta } split /<oid>/, $line, -1);
		push @{ $expected{$test} }, { line => $line, pattern => qr/^$pattern$/ };
	}
	return \%expected;
}

# Lines of the first list that the second one lacks, however often.
sub without
{
	my ($lines, $others) = @_;
	my %count;
	$count{$_}++ for @$others;
	return grep { $count{$_} ? $count{$_}-- && 0 : 1 } @$lines;
}

# Take from a list of lines those that were expected; what of these is not there.
sub take_expected
{
	my ($lines, $expected) = @_;
	my @missing;
	foreach my $one (@$expected)
	{
		my ($at) = grep { $lines->[$_] =~ $one->{pattern} } 0 .. $#$lines;
		defined $at ? splice(@$lines, $at, 1) : push @missing, $one->{line};
	}
	return @missing;
}

# Run suites on a cluster of their own, one check for each test.  The name is that of the
# cluster and, unless the key expected is given, of the file of test/core/expected; the
# cluster gets what else is given.
sub check_suites
{
	my ($name, $suites, %cluster) = @_;
	my $node = core_cluster($name, %cluster);
	my @done = map { run_suite($node, %$_) } @$suites;
	my $expected = expected_differences($cluster{expected} || $name);
	my $unexpected = grep { all_findings($_, undef, $expected) } @done;
	my @references;

	if ($unexpected && reference_needed())
	{
		my $other = core_cluster("${name}_without", %cluster, without => 1);
		@references = map { run_suite($other, %$_) } @$suites;
		$other->stop;
	}
	compare_suites($done[$_], $references[$_], $expected) for 0 .. $#done;
	log_is_clean($node, $name);
	nothing_internal($node, $name);
	note("figures: core: $name, " . scalar(map { @{ $_->{tests} } } @done) . ' tests');
	$node->stop;
	return;
}

sub compare_suites
{
	my ($suite, $reference, $expected) = @_;
	my $name = $suite->{name};
	is(scalar(@{ $suite->{tests} }), tests_of($suite), "$name: all tests were run") or diag($suite->{said});
	foreach my $test (@{ $suite->{tests} })
	{
		is(join("\n", findings($test, $suite, $reference, $expected->{"$name/$test"} || [])), '', "$name/$test");
	}
	return;
}

# How many there are.
sub tests_of
{
	my ($suite) = @_;
	my ($schedule) = map { /^--schedule=(.*)/ } @{ $suite->{tests_wanted} };
	return scalar @{ $suite->{tests_wanted} } unless $schedule;
	return scalar map { split ' ' } slurp_file($schedule) =~ /^test: (.*)/mg;
}

sub all_findings
{
	my ($suite, $reference, $expected) = @_;
	return map { findings($_, $suite, $reference, $expected->{"$suite->{name}/$_"} || []) } @{ $suite->{tests} };
}

sub findings
{
	my ($test, $suite, $reference, $expected) = @_;
	my $lines = $suite->{differences}{$test} || [];
	my $base = $reference && $reference->{differences}{$test} || [];
	my @more = without($lines, $base);
	my @missing = take_expected(\@more, $expected);

	# whatever the reason: it did not run to its end, or differs in spaces only
	return 'failed, and shows no difference' if $suite->{failed}{$test} && !@$lines;
	return (
		@more,
		map({ "expected, and not there: $_" } @missing),
		map({ "only without the extension: $_" } without($base, $lines)));
}

# One check: every column of a database is sound.  What there was to look at: columns,
# and those with data files that are not empty.
sub all_sound
{
	my ($node, $db, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $found, $error) = $node->psql($db, q{
		SELECT c.relid::regclass, c.attname, f FROM securefile_columns c,
			LATERAL securefile_check(c.relid, c.attname) f
			WHERE c.segment_relid IS NOT NULL LIMIT 20});
	is("$found$error", '', "$name: every column is sound");
	return split /\|/, $node->safe_psql($db, 'SELECT count(*), count(*) FILTER (WHERE file_bytes > 0) FROM securefile_columns');
}

# ---- logs ----

# One check: no process died, no assertion failed.
sub log_is_clean
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @bad = grep { /PANIC:|TRAP: |terminated by signal|WARNING: .*(leak|still active|not closed)/ } split /\n/, slurp_file($node->logfile);
	splice(@bad, 20) if @bad > 20;
	return is(join("\n", @bad), '', "$name: server log");
}

# Functions that a source file of ours defines, by the name of the file.
my %ours;

sub is_ours
{
	my ($function, $file) = @_;
	my @paths = glob("$FindBin::RealBin/../../../src/$file $FindBin::RealBin/../../../src/*/$file");
	$ours{$file} = join '', map { slurp_file($_) } grep { -e } @paths unless defined $ours{$file};
	return $ours{$file} =~ /^\Q$function\E\(/m;
}

# Errors that nobody should see (class XX) in a log: message => where it comes from,
# with "ours" before it if that is in src/.
sub internal_errors
{
	my ($node) = @_;
	my (%found, $message);
	open(my $log, '<', $node->logfile) or die $!;
	while (my $line = <$log>)
	{
		$message = $1 =~ s/\b\d{3,}\b/N/gr if $line =~ /(?:ERROR|FATAL|PANIC):  (XX...: .*)/;
		next unless defined $message && $line =~ /LOCATION:  (\w+), (\S+):(\d+)/;
		$found{$message} = (is_ours($1, basename($2)) ? 'ours: ' : '') . "$1 ($2)";
		undef $message;
	}
	return \%found;
}

# One check: none of them is in our source.
sub nothing_internal
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $found = internal_errors($node);
	my @ours = map { "$_: $found->{$_}" } grep { $found->{$_} =~ /^ours/ } sort keys %$found;
	return is(join("\n", @ours), '', "$name: no internal error comes from here");
}

1;
