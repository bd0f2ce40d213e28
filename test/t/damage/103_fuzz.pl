# Fuzzers of what needs no server (test/fuzz), built with the address and undefined
# behaviour sanitizers: 3 seconds each, or SECUREFILE_FUZZ_SECONDS, or as long as it takes to
# have tried enough.

use strict;
use warnings;
use Cwd qw(abs_path);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = abs_path("$FindBin::RealBin/../../fuzz");
my $seconds = $ENV{SECUREFILE_FUZZ_SECONDS} || 3;
my $seed = $ENV{SECUREFILE_SEED} || time;

# name => how many different answers there are to be had
my %fuzzers = (locator => 21, header => 10, change => 34, unit => 6);

note("seed $seed");
is(system('make', '-s', '-C', $source, 'all'), 0, 'built');
chdir PostgreSQL::Test::Utils::tempdir() or die $!;
foreach my $name (sort keys %fuzzers)
{
	my @corpus = glob("$source/corpus/$name/*");
	my ($out, $err, $inputs, $answers);
	# a slow machine takes longer to try as much
	for (my $time = $seconds; $time <= 64 * $seconds; $time *= 2)
	{
		unlink 'failed';
		($out, $err) = run_command([ "$source/$name", $time, $seed, @corpus ]);
		($inputs, $answers) = $out =~ /^(\d+) inputs, (\d+) answers/m;
		last if !defined $inputs || $inputs > 5_000 * $seconds && $answers >= $fuzzers{$name};
	}
	like($out, qr/^\d+ inputs, \d+ answers/m, $name)
	  or diag("$err\nseed $seed; the input is: " . (-e 'failed' ? unpack('H*', slurp_file('failed')) : '?'));
	note($out);
	note("figures: $name: $1") if $out =~ /^(\d+ inputs.*)/m;
	cmp_ok(scalar(@corpus), '>', 0, "$name: there are inputs to begin with");
	cmp_ok($inputs, '>', 5_000 * $seconds, "$name: many inputs");
	cmp_ok($answers, '>=', $fuzzers{$name}, "$name: all kinds of answers");
}

done_testing();
