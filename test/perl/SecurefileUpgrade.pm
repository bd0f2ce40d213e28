# What the TAP tests of pg_upgrade share: clusters of the later server, pg_upgrade itself,
# and the data files that are brought after it.
#
# Such a test needs a second server: a later major version with the extension installed,
# whose programs are in the directory SECUREFILE_NEXT_BIN.

package SecurefileUpgrade;

use strict;
use warnings;

use Cwd qw(getcwd);
use Exporter qw(import);
use File::Basename qw(dirname);
use File::Path qw(rmtree);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

our @EXPORT = qw(major_version need_later_server can_swap init_params later_cluster run_upgrade upgrade_reports upgrade bring);

my $bin = $ENV{SECUREFILE_NEXT_BIN};

# ---- servers ----

# Of the programs in a directory.
sub major_version
{
	my ($dir) = @_;
	my ($out) = run_command([ "$dir/postgres", '--version' ]);
	my ($major) = $out =~ /\(PostgreSQL\) (\d+)/ or die "$dir/postgres: $out";
	return $major;
}

# Skip the whole file where there is no later server.
my ($tested, $later);

sub need_later_server
{
	plan skip_all => 'no later PostgreSQL: ' . ($ENV{SECUREFILE_NEXT_WHY} || 'SECUREFILE_NEXT_BIN is not set') unless $bin;
	my ($here) = run_command([ 'pg_config', '--bindir' ]);
	($tested, $later) = map { major_version($_) } ($here, $bin);
	plan skip_all => "PostgreSQL $later is not later than $tested" unless $later > $tested;
	note("figures: pg_upgrade from $tested to $later");
	return;
}

sub can_swap { return $later >= 18; }

# How initdb of a version (default: the one that is tested) makes a cluster.  Both must
# agree in all of this, and 18 turns checksums on by itself.
sub init_params
{
	my ($checksums, $major) = @_;
	my @sums = $checksums ? ('--data-checksums') : ($major // $tested) >= 18 ? ('--no-data-checksums') : ();
	return { extra => [ @sums, '--encoding=UTF8', '--locale=C' ] };
}

# A cluster of the later server, not started.  Keys: checksums, 0 for none; conf.
sub later_cluster
{
	my ($name, %params) = @_;
	return new_cluster($name,
		init => init_params($params{checksums} // 1, $later),
		start => 0,
		install_path => dirname($bin),
		conf => $params{conf} || []);
}

# ---- pg_upgrade ----

# Some minor releases (15.20 is one) note an option pg_attver with each column, which makes
# pg_upgrade to an earlier minor release of any version fail, with or without us.  Where the
# later server is such a one, the options go, and slots pass over that; the old server is
# stopped, and is again.
sub forget_column_versions
{
	my ($old) = @_;
	my ($from, $to) = map { slurp("$_/postgres") =~ /pg_attver/ } ($old->config_data('--bindir'), $bin);
	return if !$from || $to;
	$old->start;
	$old->safe_psql($_, q{SET allow_system_table_mods = on;
			UPDATE pg_attribute SET attoptions = nullif(ARRAY(SELECT o FROM unnest(attoptions) o WHERE o NOT LIKE 'pg_attver=%'), '{}')
				WHERE attoptions::text LIKE '%pg_attver=%';
			SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots WHERE database = current_database()})
	  foreach split /\n/, $old->safe_psql('postgres', 'SELECT datname FROM pg_database WHERE datallowconn');
	$old->stop;
	return;
}

# Run it, in a directory of its own; whether it went well, and what it said.
my $runs = 0;

sub run_upgrade
{
	my ($old, $new, @options) = @_;
	my $back = getcwd();
	my $dir = PostgreSQL::Test::Utils::tempdir() . '/run' . ++$runs;

	forget_column_versions($old);
	mkdir $dir and chdir $dir or die $!;
	my $done = IPC::Run::run(
		[
			"$bin/pg_upgrade", '--no-sync', '-s', $old->host,
			'-b', $old->config_data('--bindir'), '-B', $bin,
			'-d', $old->data_dir, '-D', $new->data_dir, '-p', $old->port, '-P', $new->port, @options
		],
		'>&', \my $said);
	chdir $back or die $!;
	return ($done, $said);
}

# What it has written down.
sub upgrade_reports
{
	my ($new) = @_;
	return join '', map { slurp_file($_) }
	  map { glob($new->data_dir . "/pg_upgrade_output.d/*/$_") } ('*.txt', 'log/pg_upgrade_dump_*.log');
}

# One test.
sub upgrade
{
	my ($old, $new, $name, @options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($done, $said) = run_upgrade($old, $new, @options);
	ok($done, "$name: pg_upgrade @options") or diag($said, upgrade_reports($new));
	return $done;
}

# One test: the data files are brought, by mv, or by cp with these options.
sub bring
{
	my ($old, $new, @copy) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @paths = map { $_->data_dir . '/pg_securefile' } ($old, $new);
	rmtree($paths[1]) if -d $paths[1];
	my @command = @copy ? ('cp', @copy, @paths) : ('mv', @paths);
	return command_ok(\@command, "@command[0 .. $#command - 2] pg_securefile");
}

1;
