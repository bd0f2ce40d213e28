# What is not a file in the place of a file, and directories nobody may look into:
# nothing waits for ever, errors name the place, and others are not held up.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
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

# ---- a FIFO in the place of a data file ----
foreach my $options ('nocache', 'cache_reads')
{
	make_table($node, 't', "filesystem_like_logging, $options");
	fill($node, 't', 1, 3, 300_000);
	my ($file) = data_files($node);
	rename $file, "$file.away" or die "could not rename $file: $!";
	mkfifo($file, 0600) or die "could not make a FIFO: $!";

	my $name = qr/segment data file ".*seg-00000000\.sf" is not a regular file/;
	like(told('SELECT sha256(doc::bytea) FROM t'), $name, "$options: a read names the FIFO");
	like(told('INSERT INTO t SELECT 9, 9, 300000, blob(9, 300000)'), $name, '.. so does a write');
	like(told("SELECT securefile_digest(doc, 'md5') FROM t"), $name, '.. and a read in pieces');
	unlike(told("SELECT * FROM securefile_check('t', 'doc')"), qr/waits for ever/, '.. a check does not wait');

	unlink $file or die "could not remove $file: $!";
	rename "$file.away", $file or die "could not rename $file.away: $!";
	rows_right($node, 't', 3, "$options: the file is back");
	sound($node, 't', "$options: in the end");
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
sound($node, 't', 'in the end');

done_testing();
