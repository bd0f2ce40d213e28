# Fuzzers that want a server (test/fuzz/*.py), one that was built with the sanitizers:
# what comes into the type, damaged WAL records, damaged pages and locators.
# Some seconds each, with some of the kept damages, or SECUREFILE_FUZZ_SECONDS, with all.

use strict;
use warnings;
use Cwd qw(abs_path);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'no server with sanitizers' unless $ENV{SECUREFILE_SANITIZED};
my $source = abs_path("$FindBin::RealBin/../../fuzz");
my $seed = $ENV{SECUREFILE_SEED} || time;
my $long = $ENV{SECUREFILE_FUZZ_SECONDS};

note("seed $seed");
chdir PostgreSQL::Test::Utils::tempdir() or die $!;

# One fuzzer; what it says at its end.
sub fuzz
{
	my ($name, $program, $seconds, @args) = @_;
	unlink 'failed';
	my ($out, $err) = run_command(
		[ '/usr/bin/python3', "$source/$program", '--seed', $seed, '--seconds', $long || $seconds, @args ]);
	unlike("$out$err", qr/FAILED|Traceback/, $name)
	  or diag("$out\n$err\n" . (-e 'failed' ? 'the input is: ' . unpack('H*', slurp_file('failed')) : ''));
	note($out);
	note("figures: $name: $1") if $out =~ /^(\d+ (?:inputs|damage).*)/m;
	return $out;
}

foreach my $kind ('text', 'binary', 'typmod')
{
	my $out = fuzz($kind, 'input.py', 2, '--least', 100, '--kind', $kind, glob("$source/corpus/$kind/*"));
	like($out, qr/^\d{3,} inputs, \d+ answers: .*\btaken\b/m, "$kind: many inputs, and some are taken");
}

# a kept damage of WAL takes a server's start and end
my $kept = $long ? 39 : 11;
my $out = fuzz('WAL records', 'redo.py', 4, '--least', 5, $long ? () : ('--kept', $kept));
my ($records, $kinds) = $out =~ /^(\d+) damaged records of (\d+) kinds: /m;
cmp_ok($records, '>=', 5, 'damaged records');
cmp_ok($kinds, '>=', 11, 'of all kinds');
like($out, qr/^$kept kept damages refused/m, 'those that must be refused are');

$out = fuzz('pages and locators', 'disk.py', 4, '--least', 5);
my ($damages) = $out =~ /^(\d+) damages .*: \d+ met/m;
cmp_ok($damages, '>=', 5, 'damaged pages and locators');
like($out, qr/^14 kept damages met/m, 'those that must be met are');

done_testing();
