# The ciphers, called from Python: vectors that others have published, keys and tags as
# Python makes them, units that come back, and units that were changed or moved, which do not.
# And SHA-256, which can be continued, by both libraries that make it.
# SECUREFILE_CIPHER_ROUNDS: units for each cipher, and a hundredth of the nonces.

use strict;
use warnings;
use Cwd qw(abs_path);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = abs_path("$FindBin::RealBin/../../cipher");
my $rounds = $ENV{SECUREFILE_CIPHER_ROUNDS} || 200;
my $seed = $ENV{SECUREFILE_SEED} || time;

# Run the checks, and take each line for a test.
sub checks
{
	my ($name, $least, @arguments) = @_;
	my ($out, $err) = run_command([ 'python3', "$source/ciphers.py", "$source/ciphers.so", @arguments ]);
	my @lines = split /\n/, $out;

	like($_, qr/^ok /, $_) foreach @lines;
	cmp_ok(scalar(@lines), '>=', $least, "$name: all checks ran") or diag("@arguments: $err");
	return;
}

note("seed $seed");
is(system('make', '-s', '-C', $source, 'all'), 0, 'built');
checks('ciphers', 16, $rounds, $seed);
{
	local $ENV{LD_PRELOAD} = "$source/frozen.so";
	checks('frozen', 2, 'frozen');
	local $ENV{FROZEN_FAILS} = 1;
	checks('no random bytes', 1, 'frozen');
}
{
	my ($out) = run_command([ 'python3', "$source/hashes.py", "$source/ciphers.so", "$source/portable.so", 20 * $rounds, $seed ]);
	like($out, qr/\Aok values that grow\nok both count alike\n*\z/, 'SHA-256 by both libraries') or diag($out);
}
done_testing();
