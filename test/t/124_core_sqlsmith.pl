# Random statements of sqlsmith over securefile columns of all forms, on a server with
# assertions: nobody crashes, no internal error comes from here, all is sound afterwards.
# SECUREFILE_SMITH_SECONDS says for how long.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefileCore;
use Test::More;
use Time::HiRes qw(time);

need_assertions();
plan skip_all => 'sqlsmith is not installed' unless grep { -x "$_/sqlsmith" } split /:/, $ENV{PATH};

my $seconds = $ENV{SECUREFILE_SMITH_SECONDS} || 60;
my $queries = $ENV{SECUREFILE_SMITH_QUERIES} || 2000;
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
my $forms = slurp_file("$FindBin::RealBin/../core/forms.sql");
$node->safe_psql('smith', $forms, extra_params => [ '-U', 'smith' ]);

# One run of sqlsmith; how many statements it made, and how many of these failed.  It
# counts on standard error; when the time is over it is stopped.
sub smith
{
	my ($n, $end) = @_;
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start(
		[
			'sqlsmith', '--verbose', '--exclude-catalog', "--seed=$n", "--max-queries=$queries",
			'--target=' . $node->connstr('smith') . ' user=smith'
		],
		'<', \undef, '>', \$out, '2>', \$err, my $timer = IPC::Run::timer($end - time() + 1));
	$run->pump_nb, select(undef, undef, undef, 0.1) while $run->pumpable && !$timer->is_expired;
	$run->kill_kill;
	my ($made) = (($err =~ /queries: (\d+)/g)[-1] || 0);
	# each sign is a statement that failed
	my $failed = () = $err =~ /[eStcC]/g;
	note("sqlsmith --seed=$n: $made statements\n" . substr($err, -1500));
	return $made;
}

my ($all, $runs, $end) = (0, 0, time() + $seconds);
while (time() < $end)
{
	$all += smith($seed + $runs++, $end);
	last unless $node->psql('postgres', 'SELECT 1') == 0;
}

log_is_clean($node, "smith, seed $seed");
nothing_internal($node, "smith, seed $seed");
my ($columns, $with_data) = all_sound($node, 'smith', "smith, seed $seed");
cmp_ok($all, '>', 0, 'statements were made');
is($columns, 20, 'the tables are there');
note("figures: core: sqlsmith, seed $seed, $all statements in $runs runs");
$node->stop;
done_testing();
