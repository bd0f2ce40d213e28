# Checksums of the server's own pages: for tests that damage a page of a cluster that has them (18
# makes such clusters) where the server is to believe it.

package PageChecksums;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT = qw(mend_checksums);

use constant { PAGE => 8192, FILE_PAGES => 131_072, SUMS => 32, AT_CHECKSUM => 8, AT_UPPER => 14 };

# as storage/checksum_impl.h has them
my @offsets = map { hex } qw(
  5b1f36e9 b8525960 02ab50aa 1de66d2a 79ff467a 9bb9f8a3 217e7cd2 83e13d2c
  f8d4474f e39eb970 42c6ae16 993216fa 7b093b5d 98daff3c f718902a 0b1c9cdb
  e58f764b 187636bc 5d7b3bb1 e73de7de 92bec979 cca6c0b2 304a0979 85aa43d4
  783125bb 6ca8eaa2 e407eac6 4b5cfc3e 9fbf8c76 15ca20be f2ca9fd3 959bd756);

# What pg_checksum_page() has of a page.
sub checksum
{
	my ($page, $block) = @_;
	substr($page, AT_CHECKSUM, 2) = "\0\0";
	my @sums = @offsets;
	my $i = 0;
	foreach my $value (unpack('V*', $page), (0) x (2 * SUMS))
	{
		my $mixed = $sums[$i] ^ $value;
		$sums[$i] = ($mixed * 16_777_619 & 0xffffffff) ^ ($mixed >> 17);
		$i = ($i + 1) % SUMS;
	}
	my $result = $block;
	$result ^= $_ foreach @sums;
	return $result % 65535 + 1;
}

# Has this cluster checksums?
my %answers;
sub has_checksums
{
	my ($data) = @_;
	$answers{$data} = `pg_controldata -D '$data'` =~ /^Data page checksum version: +[1-9]/m unless exists $answers{$data};
	return $answers{$data};
}

# Bytes of a file have been changed.  Where it is one of a relation, in a cluster with
# checksums, give the pages that they lie on the right ones; pages of zeros have none.
sub mend_checksums
{
	my ($path, $offset, $length) = @_;
	my ($data, $part) = $path =~ m{^(.*)/base/\d+/\d+(?:\.(\d+))?\z} or return;
	return unless has_checksums($data);
	open(my $fh, '+<:raw', $path) or die "$path: $!";
	foreach my $n (int($offset / PAGE) .. int(($offset + $length - 1) / PAGE))
	{
		seek($fh, $n * PAGE, 0);
		my $got = read($fh, my $page, PAGE);
		next unless $got && $got == PAGE && unpack('v', substr($page, AT_UPPER, 2)) != 0;
		seek($fh, $n * PAGE + AT_CHECKSUM, 0);
		print $fh pack('v', checksum($page, ($part || 0) * FILE_PAGES + $n));
	}
	close $fh or die "$path: $!";
	return;
}

1;
