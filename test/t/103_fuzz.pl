# Fuzzers of what needs no server (test/fuzz), built with the address and undefined
# behaviour sanitizers: 5 seconds, or SECUREFILE_FUZZ_SECONDS.

use strict;
use warnings;
use Cwd qw(abs_path);
use File::Copy qw(copy);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = abs_path("$FindBin::RealBin/../fuzz");
my $seconds = $ENV{SECUREFILE_FUZZ_SECONDS} || 5;
my $seed = $ENV{SECUREFILE_SEED} || time;

note("seed $seed");
is(system('make', '-s', '-C', $source, 'locator'), 0, 'built');
chdir PostgreSQL::Test::Utils::tempdir() or die $!;
my @corpus = glob("$source/corpus/locator/*");
cmp_ok(scalar(@corpus), '>', 0, 'there are inputs that found something once');
my ($out, $err) = run_command([ "$source/locator", $seconds, $seed, @corpus ]);
like($out, qr/^(\d+) inputs, (\d+) answers$/, 'locators') or diag("$err\nseed $seed; the input is: " . (-e 'failed' ? unpack('H*', slurp_file('failed')) : '?'));
my ($inputs, $answers) = $out =~ /^(\d+) inputs, (\d+) answers/;
note($out);
cmp_ok($inputs, '>', 50_000, 'many');
cmp_ok($answers, '>', 15, 'of many kinds');

done_testing();
