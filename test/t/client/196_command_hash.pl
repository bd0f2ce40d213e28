# The command with columns that keep hashes: ls --hash, stat, and comparing files without the
# server reading any.

use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('command_hash', conf => ['securefile.monitor = off']);
enter($node);

sql('CREATE DOMAIN hashed AS securefile(hash, nocache)', 'CREATE TABLE docs (name text PRIMARY KEY, document hashed)', 'CREATE TABLE plain (name text PRIMARY KEY, document securefile(nocache))');
my %tree = map { $_ => bytes($_ + 1, $_) } 0, 10, 4000, 4001, 131_072, 300_000, 2_000_000;
write_file("tree/$_", $tree{$_}) foreach keys %tree;
my @names = sort keys %tree;

# Bytes that the server reads of a table's files while the command runs.  They count when its
# sessions have ended, a little after the command.
sub reads
{
	my ($table, @args) = @_;
	my $of = "SELECT direct_read_bytes FROM securefile_stat WHERE relname = '$table'";
	sessions_are_gone($node, 'postgres');
	my $before = sql($of);
	my ($rc, $out, $err) = command(@args);
	sessions_are_gone($node, 'postgres');
	return (sql($of) - $before, $rc, $out, $err);
}

foreach my $table ('docs', 'plain')
{
	ends(0, qr/7 put/, "import: $table", 'import', '-t', $table, 'tree');
	my ($read, $rc, $out, $err) = reads($table, 'ls', '--hash', '-t', $table);
	is($out, join('', map { sprintf("%14d  %s  %s\n", length $tree{$_}, sha256_hex($tree{$_}), $_) } @names), "ls --hash: $table");
	is($read > 2_000_000, $table eq 'plain', "ls --hash: $table reads what keeps no hash only") or diag("$read bytes");
	my @objects = objects((command('ls', '--hash', '--long', '--json', '-t', $table))[1]);
	is(join(' ', map { $_->{sha256} } @objects), join(' ', map { sha256_hex($tree{$_}) } @names), "ls --hash --json: $table");
	like((command('ls', '--hash', '--long', '-t', $table, '4001'))[1], qr/^ +4001  +4001  +1\.00  @{[ sha256_hex($tree{4001}) ]}  4001$/, "ls --hash --long: $table");
	my ($object) = objects((command('stat', '--json', '-t', $table, '2000000'))[1]);
	is($object->{sha256}, $table eq 'docs' ? sha256_hex($tree{2_000_000}) : undef, "stat --json: $table");
	ok(!exists((objects((command('stat', '--json', '-t', $table, '10'))[1]))[0]->{sha256}), "stat: $table: a small file keeps no hash");

	# what is there already
	foreach my $what ([ 'import', 'tree' ], [ 'export', 'tree' ], [ 'verify', '--against', 'tree', @names ])
	{
		($read, $rc, $out, $err) = reads($table, $what->[0], '-t', $table, @$what[1 .. $#$what]);
		like("$rc $err", qr/^0 .*7 same/s, "$what->[0]: $table: all are the same");
		is($read > 2_000_000, $table eq 'plain', "$what->[0]: $table: the server reads what keeps no hash only") or diag("$read bytes");
	}

	# one byte is another one, in files of all sizes
	foreach my $name ('10', '4001', '2000000')
	{
		my $changed = $tree{$name};
		substr($changed, 5, 1) ^= 'x';
		write_file("tree/$name", $changed);
	}
	($read, $rc, $out, $err) = reads($table, 'verify', '-t', $table, '--against', 'tree', @names);
	is("$rc " . join(' ', sort $err =~ /^securefile: (\d+): differs$/mg), '1 10 2000000 4001', "verify --against: $table: what differs");
	($rc, $out, $err) = command('import', '-v', '--replace', '-t', $table, 'tree');
	is("$rc " . join(' ', sort $out =~ /^replaced (\d+)$/mg), '0 10 2000000 4001', "import --replace: $table: and that only");
	is(sql("SELECT count(*) FROM $table WHERE securefile_digest(document) = securefile_digest(document, 'sha256')"), 7, "$table: the hashes");
	write_file("tree/$_", $tree{$_}) foreach keys %tree;
}
done_testing();
