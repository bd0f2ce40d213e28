# libpgsecurefile: its trials (test/client) against a server, each with a table of
# its own that must be sound after; its examples; what is installed.

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
$ENV{PKG_CONFIG_PATH} = "$client/lib/pkgconfig";

my $node = new_cluster('client', conf => ['max_connections = 20']);
my $conninfo = $node->connstr('postgres');

# ---- what is installed ----

{
	my ($flags) = run_command([ 'pkg-config', '--cflags', '--libs', 'libpgsecurefile' ]);
	like($flags, qr/-I\Q$client\E\/include.*-L\Q$client\E\/lib -lpgsecurefile\s*$/, 'pkg-config');
	my ($version) = run_command([ 'pkg-config', '--modversion', 'libpgsecurefile' ]);
	like(slurp_file("$client/include/pgsecurefile.h"), qr/PGSF_VERSION\s+"\Q$version\E"/, 'versions');

	my ($names) = run_command([ 'nm', '-D', '--defined-only', "$client/lib/libpgsecurefile.so" ]);
	my @others = grep { !/ pgsf_\w+@@| A PGSF_1/ } split /\n/, $names;
	is("@others", '', 'only pgsf_ is exported');
	my ($dynamic) = run_command([ 'readelf', '-d', "$client/lib/libpgsecurefile.so" ]);
	like($dynamic, qr/SONAME.*\[libpgsecurefile\.so\.1\]/, 'soname');

	my %declared = map { $_ => 1 }
	  slurp_file("$client/include/pgsecurefile.h") =~ /^extern .*?\b(pgsf_\w+)\(/mg;
	delete $declared{$_} for $names =~ / T (pgsf_\w+)@@/g;
	is(join(' ', sort keys %declared), '', 'all that is declared is there');
}

# ---- trials ----

sub new_table
{
	my ($options) = @_;
	my $type = $options ? "securefile($options)" : 'securefile';
	$node->safe_psql('postgres', "
		DROP TABLE IF EXISTS t, parts;
		CREATE TABLE t (id int PRIMARY KEY, doc $type);
		CREATE TABLE parts (id int, doc $type) PARTITION BY RANGE (id);
		CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)");
	return;
}

# One trial; keys: options of the column, under, a command to run it under, name.
# What it prints beside its checks, the library has printed.
sub trial
{
	my ($trial, %params) = @_;
	my $name = $params{name} || $trial;
	my ($out, $err) = ('', '');

	new_table($params{options});
	my $ok = IPC::Run::run([ @{ $params{under} || [] }, "$top/test/client/trial", $conninfo, $trial ],
		'>', \$out, '2>', \$err, IPC::Run::timeout(5 * patience()));
	ok($ok, "$name: ends well");
	is($err, '', "$name: nothing is printed");
	foreach my $line (split /\n/, $out)
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
foreach my $trial (
	qw(whole handles random transactions together arguments read_only lost cancel cancel_any local changing memory holes))
{
	trial($trial, options => 'filesystem_like_logging');
}
trial($_, name => "$_, logging") for qw(whole random lost cancel);

# no space, while it is written and while it is flushed for the commit
SKIP:
{
	my ($rc, $out, $err) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	skip 'built without fault points', 1 if $rc != 0;
	$ENV{TRIAL_SQLSTATE} = '53100';
	foreach my $point ('io_promise', 'io_write')
	{
		foreach my $skip (0, 3)
		{
			new_table();
			arm($node, $point, 'enospc', skip => $skip, times => -1);
			my ($out) = run_command([ "$top/test/client/trial", $conninfo, 'put_fails' ]);
			disarm($node);
			my @bad = grep { !/^ok/ } split /\n/, $out;
			is("@bad", '', "no space at $point, skip $skip");
			is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '0', 'nothing is visible');
			sound($node, 't', "after no space at $point, skip $skip");
		}
	}
}

# ---- examples ----

sub example
{
	my ($input, $program, @args) = @_;
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run([ "$top/client/examples/$program", $conninfo, @args ],
		'<', \$input, '>', \$out, '2>', \$err, IPC::Run::timeout(patience()));
	ok($ok, "example $program: $err");
	return $out;
}

$node->safe_psql('postgres',
	'CREATE TABLE docs (id serial PRIMARY KEY, name text, document securefile)');
{
	my $content = join('', map { pack('N', $_ * 2654435761 % 4294967296) . "\0" } 0 .. 600_000);
	my $file = PostgreSQL::Test::Utils::tempdir() . '/content';
	append_to_file($file, $content);

	chomp(my $id = example('', 'put', $file));
	ok(example('', 'get', $id) eq $content, 'get gives what put was given');
	ok(example('', 'get', $id, 1_000_001, 300_000) eq substr($content, 1_000_001, 300_000), 'a part');
	is($node->safe_psql('postgres', "SELECT name FROM docs WHERE id = $id"), $file, 'its name');

	example("one line\nand another\n", 'append', $id);
	$content .= "one line\nand another\n";
	ok(example('', 'get', $id) eq $content, 'append');

	like(example('', 'patch', $id, 10, 4, 2_000_000), qr/^4: \d+\n2000000: \d+$/m, 'patch');
	substr($content, $_, 10) =~ tr/\0/\1/ for (4, 2_000_000);
	ok(example('', 'get', $id) eq $content, 'patched');

	chomp($id = example($content, 'upload', 'from a pipe'));
	ok(example('', 'get', $id) eq $content, 'upload');

	# Ctrl-C while nothing comes any more
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ "$top/client/examples/upload", $conninfo, 'never' ],
		'<pipe', \*TO_UPLOAD, '>', \$out, '2>', \$err, IPC::Run::timeout(patience()));
	until ($err =~ /[1-9] MB/)
	{
		syswrite(TO_UPLOAD, $content, 300_000);
		$run->pump_nb;
	}
	$run->signal('INT');
	$run->finish;
	close TO_UPLOAD;
	like($err, qr/cancelled.*57014.*\nrows: 2\n/s, 'upload, interrupted');
	sound($node, 'docs', 'examples', column => 'document');
}

# the first program in its document
{
	my ($program) = slurp_file("$top/doc/client.md") =~ /^```c\n(.*?)^```/ms;
	my $source = PostgreSQL::Test::Utils::tempdir() . '/first.c';
	append_to_file($source, $program);
	my ($flags) = run_command([ 'pkg-config', '--cflags', '--libs', 'libpgsecurefile', 'libpq' ]);
	(my $binary = $source) =~ s/\.c$//;
	my ($out, $err) = run_command([ 'cc', '-Wall', '-Wextra', '-Werror', '-o', $binary, $source, split(' ', $flags) ]);
	is($err, '', 'the program in doc/client.md compiles');
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres');
	($out, $err) = run_command([$binary]);
	is("$out$err", "stored 12 bytes\nHello, world", 'and runs');
}

# ---- memory errors and leaks ----

SKIP:
{
	my ($valgrind) = run_command([ 'sh', '-c', 'command -v valgrind' ]);
	skip 'no valgrind here', 1 unless $valgrind;
	my @under = ($valgrind, '-q', '--leak-check=full', '--error-exitcode=9');
	trial($_, options => 'filesystem_like_logging', under => \@under, name => "$_ under valgrind")
	  for qw(handles transactions together arguments lost cancel holes);
}

$node->stop;
done_testing();
