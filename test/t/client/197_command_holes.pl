# Files with holes, by the command and the library: the server stores the data, and the
# holes come back where a file can have some.  Files that do not know their length.

use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use Fcntl qw(SEEK_SET);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

use constant { SEEK_DATA => 3, SEEK_HOLE => 4 };

my $key = '1f' x 32;
my $node = new_cluster('command_holes', conf => [ 'securefile.monitor = off', "securefile.key_command = 'echo key $key'" ]);
enter($node);

my ($unit, $mb) = (131_072, 1_000_000);

# A file of a length, with data (offset, bytes) in it.
sub sparse_file
{
	my ($path, $length, %data) = @_;
	write_file($path, '');
	open(my $fh, '+<:raw', $path) or die "could not open $path: $!";
	foreach my $offset (keys %data)
	{
		seek($fh, $offset, SEEK_SET);
		print $fh $data{$offset};
	}
	close $fh;
	truncate($path, $length) or die "could not lengthen $path: $!";
	return;
}

# Bytes on the disk.
sub space { return (stat $_[0])[12] * 512; }

# What a file has: its length, and its blocks that are not zeros.  Holes are not read.
sub contents
{
	my ($path) = @_;
	my ($length, $at, @blocks) = (-s $path, 0);
	open(my $fh, '<:raw', $path) or die "could not open $path: $!";
	while (defined(my $data = sysseek($fh, $at, SEEK_DATA)))
	{
		$at = sysseek($fh, $data, SEEK_HOLE);
		# blocks begin at the same places in all files
		for (my $from = $data - $data % 4096; $from < $at; $from += 4096)
		{
			sysseek($fh, $from, SEEK_SET);
			sysread($fh, my $block, 4096);
			push @blocks, "$from " . md5_hex($block) if $block =~ /[^\0]/;
		}
	}
	return join("\n", $length, @blocks);
}

# One test: two files have the same contents, and the second one no less holes, but for some bytes.
sub comes_back
{
	my ($path, $copy, $name, $more) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $same = contents($path) eq contents($copy);
	my ($was, $is) = (space($path), space($copy));
	return ok($same && $is <= $was + ($more // 0), $name) || diag("same: $same, space: $was, $is");
}

# What is done to a table, in bytes of WAL and of stored data.
sub costs
{
	my ($table, $name, @args) = @_;
	my $before = sql('SELECT pg_current_wal_insert_lsn()');
	ends(0, qr/^/, $name, @args);
	return (sql("SELECT pg_current_wal_insert_lsn() - '$before'"), sql("SELECT stored_bytes FROM $table, securefile_storage(document) WHERE name = '$args[-1]'"));
}

sparse_file('probe', 10_000_000);
plan skip_all => 'files have no holes here' if space('probe') > 1_000_000;
unlink 'probe';

# ---- the files ----

my %files = (
	'start' => [ 3000 * $mb, 0 => bytes(1, 4096) ],
	'middle' => [ 300 * $mb, 123_456_512 => bytes(2, 4096) ],
	'end' => [ 200 * $mb + 17, 200 * $mb => bytes(3, 17) ],
	'nothing' => [ 500 * $mb + 1 ],
	'short' => [ 200_001, 199_999 => 'ab' ],
	'odd' => [ 50_000_001, 3 => 'x', 20_000_001 => bytes(4, 300_001), 40_000_000 => bytes(5, 1) ],
	# each unit has a little of it, and holes that are shorter than a unit
	'speckled' => [ 20 * $unit, map { ($_ * $unit + 40_960 => bytes($_, 5000)) } 0 .. 19 ],
	# holes and data in turn, at borders of units and beside them
	'striped' => [ 80 * $unit + 5, map { ($_ * 8 * $unit + ($_ % 3 - 1) * 4096 => bytes($_, 3 * $unit + $_)) } 1 .. 9 ]);
sparse_file("tree/$_", @{ $files{$_} }) foreach keys %files;
my @names = sort keys %files;
my %more = (speckled => 20 * $unit, striped => 8192);

# ---- one by one ----

sql('CREATE TABLE docs (name text PRIMARY KEY, document securefile)');
foreach my $name (@names)
{
	my ($wal, $stored) = costs('docs', "put: $name", 'put', '-t', 'docs', "tree/$name", $name);
	my $data = $name eq 'speckled' ? 20 : $name eq 'striped' ? 9 * 5 : $name eq 'odd' ? 6 : 2;
	cmp_ok($stored, '<=', $data * $unit, "$name: holes are not stored");
	cmp_ok($wal, '<=', $data * $unit + 1_000_000, "$name: nor logged");
	is(sql("SELECT length(document) FROM docs WHERE name = '$name'"), -s "tree/$name", "$name: the length");
	ends(0, qr/^$/, "get: $name", 'get', '-q', '-t', 'docs', $name, "got");
	# what is shorter than a unit is stored as zeros
	comes_back("tree/$name", 'got', "$name: holes come back", $more{$name});
	unlink 'got';
}
sound($node, 'docs', 'files with holes', column => 'document');

# ---- other ends ----

is(system('securefile cat -t docs odd short odd >joined'), 0, 'cat to a file');
system('cat tree/odd tree/short tree/odd >wanted');
ok(system('cmp', '-s', 'joined', 'wanted') == 0 && space('joined') < 10_000_000, 'has holes, and all contents');
unlink 'joined', 'wanted';
is(system('(echo before; securefile cat -t docs odd; echo behind) >joined'), 0, 'cat between others');
is(system('(echo before; cat tree/odd; echo behind) | cmp - joined'), 0, 'the position moves on');
is(system('(echo before; securefile cat -t docs odd short) >>joined'), 0, 'cat behind a file');
is(system('(echo before; cat tree/odd; echo behind; echo before; cat tree/odd tree/short) | cmp - joined'), 0, 'which is appended to');
is(system(q(bash -o pipefail -c 'securefile cat -t docs end | cmp - tree/end')), 0, 'a pipe gets the zeros');
unlink 'joined';
is(system('securefile put -t docs - piped <tree/odd'), 0, 'standard input that is a file');
cmp_ok(sql(q{SELECT stored_bytes FROM docs, securefile_storage(document) WHERE name = 'piped'}), '<=', 6 * $unit, 'its holes are not stored');
is(system('(dd bs=1000001 count=1 of=/dev/null status=none; securefile put --replace -t docs - piped) <tree/odd'), 0, 'from a position on');
is(system('tail -c +1000002 tree/odd >wanted && securefile cat -t docs piped | cmp - wanted'), 0, 'has the rest');
is(system('cat tree/odd | securefile put --replace -t docs - piped'), 0, 'a pipe has no holes');
is(system('securefile cat -t docs piped | cmp - tree/odd'), 0, 'and the same contents');
unlink 'wanted';

# progress counts holes
my ($object) = objects((command('put', '--json', '--replace', '-t', 'docs', 'tree/middle'))[1]);
is("$object->{action} $object->{length}", 'replaced ' . 300 * $mb, 'the length that is told');
command('rm', '-q', '-t', 'docs', 'piped');

# ---- trees ----

ends(0, qr/: 8 same/, 'verify --against', 'verify', '-t', 'docs', '--against', 'tree');
ends(0, qr/: 8 same/, 'import of what is there', 'import', '-t', 'docs', 'tree');
ends(0, qr/: 8 got; [\d.]+ GB/, 'export', 'export', '-t', 'docs', 'out');
comes_back("tree/$_", "out/$_", "$_: exported", $more{$_}) foreach @names;
open(my $fh, '+<:raw', 'tree/middle') or die;
seek($fh, 250 * $mb, SEEK_SET);
print $fh 'x';
close $fh;
ends(1, qr/^securefile: middle: differs$/m, 'verify sees a byte in a hole', 'verify', '-t', 'docs', '--against', 'tree', 'middle');
sparse_file('tree/middle', @{ $files{middle} });

# ---- columns that do more with the bytes ----

foreach my $options ('compress', 'hash', 'deduplicate', 'encrypt', 'cache_reads, filesystem_like_logging')
{
	sql('DROP TABLE IF EXISTS other', "CREATE TABLE other (name text PRIMARY KEY, document securefile($options))");
	my @some = grep { (-s "tree/$_") < 100_000_000 } @names;
	foreach my $name (@some)
	{
		my ($wal, $stored) = costs('other', "put, $options: $name", 'put', '-t', 'other', "tree/$name", $name);
		cmp_ok($stored, '<=', 45 * $unit, 'holes are not stored');
		ends(0, qr/^$/, 'get', 'get', '-q', '--replace', '-t', 'other', $name, 'got');
		comes_back("tree/$name", 'got', 'holes come back', 20 * $unit);
	}
	ends(0, qr/: 4 same/, "$options: the same", 'verify', '-t', 'other', '--against', 'tree', @some);
	is(sql(q{SELECT count(*) FROM other WHERE securefile_kept_digest(document) IS DISTINCT FROM securefile_digest(document, 'sha256')}), $options eq 'hash' ? 0 : 4, 'hashes that are kept');
}

# ---- files that do not know their length ----

SKIP:
{
	skip 'no /proc here', 1 unless -f '/proc/self/status' && -f '/proc/version';
	my $version = slurp_file('/proc/version');
	ends(0, qr/^$/, 'a file of /proc', 'put', '-t', 'docs', '/proc/version', 'version');
	is((command('cat', '-t', 'docs', 'version'))[1], $version, 'is read to its end');
	ends(1, qr/stored already/, 'once', 'put', '-t', 'docs', '/proc/version', 'version');
	ends(0, qr/^$/, 'another one', 'put', '-t', 'docs', '/proc/self/maps', 'maps');
	like((command('cat', '-t', 'docs', 'maps'))[1], qr/securefile/, 'that changes from one process to the next');
	# a whole directory, twice
	my ($directory) = grep { -d $_ } '/proc/sys/fs/inotify', '/proc/sys/vm', '/proc/sys/fs';
	my ($rc, $out, $err) = command('import', '--prefix', 'sys/', '-t', 'docs', $directory);
	like($err, qr/: [1-9]\d* put/, 'a tree of them') or diag($err);
	($rc, $out, $err) = command('import', '--prefix', 'sys/', '-t', 'docs', $directory);
	like($err, qr/: [1-9]\d* same/, 'which is the same then') or diag($err);
	my @sys = grep { -r $_ && -f $_ && (stat $_)[7] == 4096 } glob '/sys/kernel/mm/*/* /sys/kernel/*';
	skip 'no /sys here', 1 unless @sys;
	my ($file) = grep { my $bytes = eval { slurp_file($_) }; defined $bytes && length $bytes > 0 && length $bytes < 4096 } @sys;
	ends(0, qr/^$/, "a file that says it has 4096 bytes: $file", 'put', '-t', 'docs', $file, 'sys');
	is((command('cat', '-t', 'docs', 'sys'))[1], slurp_file($file), 'has fewer');
}

# a file that changes while it is read still is told from those: 193_command_broken
done_testing();
