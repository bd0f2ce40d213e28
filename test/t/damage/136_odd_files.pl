# What is not a file in the place of a file, and directories nobody may look into:
# nothing waits for ever, errors name the place, and others are not held up.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use Cwd qw(getcwd);
use IO::Socket::UNIX;
use POSIX qw(mkfifo);
use SecurefileTest;
use Test::More;

my $node = new_cluster('odd_files', conf => ['securefile.monitor = off']);

# The standard error of a statement, which must not wait.
sub told
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, timeout => patience(), timed_out => \my $late);
	return $late ? 'waits for ever' : $err;
}

# A socket; its name is bound from inside its directory, for names of sockets are short.
sub make_socket
{
	my ($file) = @_;
	my ($directory, $name) = $file =~ m{^(.*)/([^/]*)$};
	my $before = getcwd();
	chdir $directory or die "could not go to $directory: $!";
	IO::Socket::UNIX->new(Local => $name, Listen => 1) or die "could not make a socket: $!";
	chdir $before or die "could not go to $before: $!";
}

# ---- something else in the place of a data file ----
my %odd = (
	'a FIFO' => sub { mkfifo($_[0], 0600) or die "could not make a FIFO: $!" },
	'a directory' => sub { mkdir $_[0] or die "could not make a directory: $!" },
	'a socket' => \&make_socket,
	'a link to itself' => sub { symlink((split m{/}, $_[0])[-1], $_[0]) or die "could not make a link: $!" });
foreach my $what (sort keys %odd)
{
	make_table($node, 't', 'filesystem_like_logging, ' . ($what =~ /^a l|FIFO/ ? 'nocache' : 'cache_reads'));
	fill($node, 't', 1, 3, 300_000);
	my ($file) = data_files($node);
	rename $file, "$file.away" or die "could not rename $file: $!";
	$odd{$what}->($file);

	my $name = qr/ERROR:  42809: .*segment data file ".*seg-00000000\.sf"|ERROR:  42809: .*stat file ".*seg-00000000\.sf"/;
	like(told("\\set VERBOSITY verbose\n$_"), $name, "$what: $_")
	  foreach (
		'SELECT sha256(doc::bytea) FROM t',
		'INSERT INTO t SELECT 9, 9, 300000, blob(9, 300000)',
		"SELECT securefile_digest(doc, 'md5') FROM t",
		"SELECT * FROM securefile_check('t', 'doc')",
		"BEGIN; LOCK TABLE t; SELECT * FROM securefile_repair('t', 'doc')",
		"SELECT bytes_cut FROM securefile_maintain('t', 'doc')");

	-d $file && !-l $file ? rmdir $file : unlink $file or die "could not remove $file: $!";
	rename "$file.away", $file or die "could not rename $file.away: $!";
	rows_right($node, 't', 3, "$what: the file is back");
	sound($node, 't', "$what: in the end");
	$node->safe_psql('postgres', 'DROP TABLE t');
}

# ---- a FIFO in the place of the file that says whose the data files are ----
make_table($node, 't');
fill($node, 't', 1, 3, 300_000);
my ($number) = glob($node->data_dir . '/pg_securefile/database.*');
rename $number, "$number.away" or die "could not rename $number: $!";
mkfifo($number, 0600) or die "could not make a FIFO: $!";
like(told('CREATE TABLE other (doc securefile)'), qr/file "pg_securefile\/database\.\d+" does not hold a number/,
	'a FIFO holds no number');
unlink $number or die "could not remove $number: $!";
rename "$number.away", $number or die "could not rename $number.away: $!";

# ---- a directory of a dropped segment that nobody may look into ----
# Its number is free in the catalog; the other orphan comes behind it.
my ($directory) = (data_files($node))[0] =~ m{^(.*)/\d+/[^/]*$};
my @orphans = map { "$directory/$_" } (4000000001, 4000000002, 4000000003);
foreach my $orphan (@orphans)
{
	mkdir $orphan or die "could not make $orphan: $!";
	open(my $out, '>', "$orphan/seg-00000000.sf") or die "could not make a file: $!";
	close($out);
}
chmod 0, $orphans[1] or die "could not change $orphans[1]: $!";
my ($rc, $out, $err) = $node->psql('postgres', "SELECT orphans_removed FROM securefile_maintain('t', 'doc')");
is("$rc|$out", '0|2', 'the others are removed');
like($err, qr/^psql:.*WARNING: .*4000000002.*: Permission denied/m, 'a warning names the one that is not');
is(join(' ', map { -e $_ ? 'there' : 'gone' } @orphans), 'gone there gone', 'it stays');
chmod 0700, $orphans[1] or die "could not change $orphans[1]: $!";
is($node->safe_psql('postgres', "SELECT orphans_removed FROM securefile_maintain('t', 'doc')"), '1',
	'and goes when it may be looked into');
ok(!-e $orphans[1], 'it is gone');

# ---- links in the place of a dropped segment, and in it ----
# What they lead to is somebody else's, and stays.
my $elsewhere = PostgreSQL::Test::Utils::tempdir();
mkdir "$elsewhere/$_" or die "could not make $elsewhere/$_: $!" foreach ('kept', 'kept/inner');
PostgreSQL::Test::Utils::append_to_file("$elsewhere/kept/inner/file", 'precious');
PostgreSQL::Test::Utils::append_to_file("$elsewhere/kept/seg-00000000.sf", 'precious');
symlink("$elsewhere/kept", $orphans[0]) or die "could not make a link: $!";
mkdir $orphans[1] or die "could not make $orphans[1]: $!";
symlink("$elsewhere/kept/inner/file", "$orphans[1]/seg-00000000.sf") or die "could not make a link: $!";
symlink("$elsewhere/kept/inner", "$orphans[1]/more") or die "could not make a link: $!";
symlink('4000000003', $orphans[2]) or die "could not make a link: $!";
($rc, $out, $err) = $node->psql('postgres', "SELECT orphans_removed FROM securefile_maintain('t', 'doc')");
is("$rc|$out", '0|2', 'links are removed') or diag($err);
like($err, qr/WARNING: .*removed symbolic link ".*4000000001", and left what it leads to/, 'a warning tells it');
like($err, qr/WARNING: .*4000000003.*: Too many levels/, 'another names the one that leads to itself');
is(join(' ', map { -l $_ || -e $_ ? 'there' : 'gone' } @orphans), 'gone gone there', 'they are gone, but for that one');
unlink $orphans[2] or die "could not remove $orphans[2]: $!";
is(PostgreSQL::Test::Utils::slurp_file("$elsewhere/kept/$_"), 'precious', "what a link led to is there: $_") foreach ('inner/file', 'seg-00000000.sf');
sound($node, 't', 'in the end');

done_testing();
