# Each system call on files that work with securefiles makes fails, in each way, once
# and from there on, by each I/O method: test/nth/nth.py, here in clusters of its own.
#
# SECUREFILE_NTH=turns takes every call, each in all ways, logging modes and methods by
# turns; all, in all of these.  Else it is so many runs of each section, call and way by
# lot.  With SECUREFILE_NTH_CASE="large l io_uring error once io_any 17" it is that one;
# SECUREFILE_NTH_SECTIONS is a pattern of sections.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefileBytes;
use SecurefileTest;
use Test::More;

my $samples = $ENV{SECUREFILE_NTH} || 8;
my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
my $every = $samples =~ /^\d+$/ ? 0 : 1;

my @nodes;
foreach my $n (1 .. $every ? 2 : 1)
{
	my $node = new_cluster("nth_$n",
		conf => [ master_key(), 'restart_after_crash = on', 'securefile.monitor = off', 'wal_level = logical',
			'allow_in_place_tablespaces = on', "securefile.write_gather_size = '1MB'" ]);
	need_faults($node);
	prepare_bytes($node, 'postgres', 6_000_000);
	push @nodes, $node;
}

my @arguments = ('--seed', $seed, $every ? ('--every', $samples) : ('--lot', $samples));
push @arguments, '--sections', $ENV{SECUREFILE_NTH_SECTIONS} if $ENV{SECUREFILE_NTH_SECTIONS};
push @arguments, '--case', $ENV{SECUREFILE_NTH_CASE} if $ENV{SECUREFILE_NTH_CASE};
push @arguments, map { ('--server', $_->connstr('postgres'), $_->data_dir, $_->logfile) } @nodes;

# a file, for whoever does not want to wait
my $file = "$PostgreSQL::Test::Utils::log_path/nth.out";
my $ok = IPC::Run::run([ '/usr/bin/python3', "$FindBin::RealBin/../../nth/nth.py", @arguments ], '>', $file, '2>&1');
ok($ok, "the nth call fails, seed $seed") or diag(slurp($file));
note(slurp($file));
note('figures: ' . (split /\n/, slurp($file))[-1]);

$_->stop foreach @nodes;
done_testing();
