# libpgsecurefile: ranges that the server copies, erases and searches (test/client/ranges.c), and bytes
# that it inserts and deletes (insertions.c), beside streams and writes under way, in columns of
# several kinds; the example that joins values.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $client = $ENV{SECUREFILE_CLIENT};
plan skip_all => 'test/run has built no client library' unless defined $client;
my $top = "$FindBin::RealBin/../../..";
$ENV{LD_LIBRARY_PATH} = "$client/lib";

my $node = new_cluster('ranges');
my $conninfo = $node->connstr('postgres');

# A program; what it prints to standard output.
sub program
{
	my ($name, @command) = @_;
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run(\@command, '>', \$out, '2>', \$err, IPC::Run::timeout(5 * patience()));
	ok($ok, "$name: ends well");
	is($err, '', "$name: nothing else is printed");
	return $out;
}

sub trial
{
	my ($trial, $options, @under) = @_;
	my $type = $options ? "securefile($options)" : 'securefile';
	my $name = "$trial, $type" . (@under ? ', valgrind' : '');

	$node->safe_psql('postgres', "DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, doc $type)");
	foreach my $line (split /\n/, program($name, @under, "$top/test/client/trial", $conninfo, $trial))
	{
		$line =~ /^(not )?ok - (.*)/;
		ok(!$1, "$name: $2");
	}
	$node->safe_psql('postgres', 'DELETE FROM t WHERE doc IS NULL');
	sound($node, 't', $name);
	return;
}

$ENV{TRIAL_SEED} = $ENV{SECUREFILE_SEED} || time;
note("seed $ENV{TRIAL_SEED}");
foreach my $trial ('ranges', 'insertions', 'long_insertions')
{
	trial($trial, $_) foreach '', 'filesystem_like_logging', 'compress, deduplicate, hash';
}

SKIP:
{
	my ($valgrind) = run_command([ 'sh', '-c', 'command -v valgrind' ]);
	skip 'no valgrind here', 1 unless $valgrind;
	trial($_, 'filesystem_like_logging', $valgrind, '-q', '--leak-check=full', '--error-exitcode=9') foreach 'ranges', 'insertions';
}

# ---- the example ----

$node->safe_psql('postgres', q{
	CREATE TABLE docs (id serial PRIMARY KEY, name text, document securefile);
	INSERT INTO docs (document) VALUES ('abc'), (convert_to(repeat('0123456789', 100000), 'UTF8')), ('')});
chomp(my $id = program('join', "$top/client/examples/join", $conninfo, 3, 2, 1, 2));
is($node->safe_psql('postgres', qq{
	SELECT document = convert_to(repeat('0123456789', 100000) || 'abc' || repeat('0123456789', 100000), 'UTF8')
	  FROM docs WHERE id = $id}), 't', 'values, joined');
sound($node, 'docs', 'the example', column => 'document');

$node->stop;
done_testing();
