# Random statements of sqlsmith over securefile columns of all forms, on a server with
# assertions: nobody crashes, no internal error comes from here, all is sound afterwards.
# SECUREFILE_SMITH_SECONDS says for how long.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefileCore;
use Test::More;
use Time::HiRes qw(time);

need_assertions();
plan skip_all => 'sqlsmith is not installed' unless grep { -x "$_/sqlsmith" } split /:/, $ENV{PATH};

my $seconds = $ENV{SECUREFILE_SMITH_SECONDS} || 60;
my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));

# Plans with workers even for small tables.  The owner of the tables is no superuser, who
# could change the catalogs.
my $node = core_cluster('smith',
	conf => [
		'max_parallel_workers_per_gather = 2', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0',
		'min_parallel_table_scan_size = 0', 'statement_timeout = 5s', "securefile.monitor_naptime = '1s'"
	]);
$node->safe_psql('postgres', 'CREATE ROLE smith LOGIN; CREATE DATABASE smith OWNER smith');
$node->safe_psql('smith', 'GRANT ALL ON SCHEMA public TO smith');
my $forms = slurp_file("$FindBin::RealBin/../../core/forms.sql");
$node->safe_psql('smith', $forms, extra_params => [ '-U', 'smith' ]);

# sqlsmith reads the catalogs first, which takes as long as it takes.  Then it runs until
# the time is over, or the server gone.
sub run_until
{
	my ($run, $end, $condition) = @_;
	while (time() < $end && $run->pumpable && !$condition->())
	{
		$run->pump_nb;
		select(undef, undef, undef, 0.1);
	}
	return;
}

# Transactions of its database that were committed, and rolled back.
sub transactions
{
	return split /\|/, $node->safe_psql('postgres',
		"SELECT xact_commit, xact_rollback FROM pg_stat_database WHERE datname = 'smith'");
}

# It would look for its server for ever; so it goes when this test does, however.
my ($said, $errors) = ('', '');
my $smith = IPC::Run::start(
	[ qw(setpriv --pdeathsig KILL sqlsmith), '--verbose', '--exclude-catalog', "--seed=$seed", '--target=' . $node->connstr('smith') . ' user=smith' ],
	'<', \undef, '>', \$said, '2>', \$errors);
run_until($smith, time() + 900, sub { $errors =~ /Generating indexes\.\.\.done/ });
my @before = transactions();
my $server = $node->{_pid};
run_until($smith, time() + $seconds, sub { !-e "/proc/$server" });
$smith->kill_kill;
note("sqlsmith --seed=$seed\n" . substr($errors, -1500));

log_is_clean($node, "smith, seed $seed");
nothing_internal($node, "smith, seed $seed");
my ($columns, $with_data) = all_sound($node, 'smith', "smith, seed $seed");
is($columns, 18, 'the tables are there');
my @after = transactions();
my ($right, $failed) = map { $after[$_] - $before[$_] } 0, 1;
cmp_ok($right, '>', 0, 'statements were run');
note("figures: core: sqlsmith, seed $seed: $right transactions, and $failed that failed");
$node->stop;
done_testing();
