# Fuzzers of what needs no server (test/fuzz), built with the address and undefined
# behaviour sanitizers: 3 seconds each, or SECUREFILE_FUZZ_SECONDS.

use strict;
use warnings;
use Cwd qw(abs_path);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = abs_path("$FindBin::RealBin/../fuzz");
my $seconds = $ENV{SECUREFILE_FUZZ_SECONDS} || 3;
my $seed = $ENV{SECUREFILE_SEED} || time;

# name => how many different answers there are to be had
my %fuzzers = (locator => 21, header => 8, change => 24, unit => 6);

note("seed $seed");
is(system('make', '-s', '-C', $source, 'all'), 0, 'built');
chdir PostgreSQL::Test::Utils::tempdir() or die $!;
foreach my $name (sort keys %fuzzers)
{
	my @corpus = glob("$source/corpus/$name/*");
	unlink 'failed';
	my ($out, $err) = run_command([ "$source/$name", $seconds, $seed, @corpus ]);
	like($out, qr/^\d+ inputs, \d+ answers/m, $name)
	  or diag("$err\nseed $seed; the input is: " . (-e 'failed' ? unpack('H*', slurp_file('failed')) : '?'));
	note($out);
	note("figures: $name: $1") if $out =~ /^(\d+ inputs.*)/m;
	my ($inputs, $answers) = $out =~ /^(\d+) inputs, (\d+) answers/m;
	cmp_ok(scalar(@corpus), '>', 0, "$name: there are inputs to begin with");
	cmp_ok($inputs, '>', 5_000 * $seconds, "$name: many inputs");
	cmp_ok($answers, '>=', $fuzzers{$name}, "$name: all kinds of answers");
}

done_testing();
