# For tests that damage pages of a segment relation, or look for what is stored: where things
# lie on pages and in locators, and ways to change them.

package SecurefilePages;

use strict;
use warnings;

use Exporter qw(import);
use SecurefileTest;

use constant {
	SECTOR => 512,
	PAGE => 8192,
	CONTENT => 24,
	FREE_HEAD => 24 + 48,
	PENDING_HEAD => 24 + 52,
	PENDING_ENTRIES => 24 + 40,
	USED => 24 + 536,
	NONE => 0xffffffff,
	PAGE_MAP => 2,
	PAGE_PENDING => 3,
	PAGE_INODE => 4,
	PAGE_FREE => 5,
	PAGE_KEYS => 6,
	PAGE_DICTIONARY => 9,
	PAGE_REMOVED => 10
};

our @EXPORT = qw(SECTOR PAGE CONTENT FREE_HEAD PENDING_HEAD PENDING_ENTRIES USED NONE PAGE_MAP PAGE_PENDING PAGE_INODE PAGE_FREE PAGE_KEYS PAGE_DICTIONARY PAGE_REMOVED
  segment_of data_file_of pages_of page_of locator change garbage repair);

# File of the segment relation of column 4 of a table.
sub segment_of
{
	my ($node, $table) = @_;
	return $node->data_dir . '/' . $node->safe_psql('postgres',
		"SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = 'pg_securefile_' || '$table'::regclass::oid || '_4'");
}

# First data file of a segment relation.
sub data_file_of
{
	my ($node, $segment) = @_;
	my ($relfilenode) = $segment =~ m{/(\d+)$};
	return (grep { m{/$relfilenode/} } data_files($node))[0];
}

# Pages of a type, by number, among the bytes of all pages.
sub pages_of
{
	my ($all, $type) = @_;
	return grep { unpack('V', substr($all, $_ * PAGE + 8176, 4)) == 0x53464c31
		  && unpack('v', substr($all, $_ * PAGE + 8180, 2)) == $type } 0 .. length($all) / PAGE - 1;
}

sub page_of { return substr($_[0], $_[1] * PAGE, PAGE); }

# Where the parts of a locator are; of one with a flat map also where its units lie.
sub locator
{
	my ($bytes) = @_;
	my %l = (bytes => $bytes);
	@l{qw(flags oid attnum key_id generation object length incarnation nunits nruns)} = unpack('x2 v V v v V Q< Q< Q< V v', $bytes);
	$l{checksums} = 48 + 12 * $l{nruns};
	$l{words} = $l{checksums} + 8 * $l{nunits};
	return %l if $l{flags} & 1;
	my @runs = map { [ unpack('Q< V', substr($bytes, 48 + 12 * $_, 12)) ] } 0 .. $l{nruns} - 1;
	foreach my $word (unpack("V$l{nunits}", substr($bytes, $l{words})))
	{
		my $stored = $word & 0x3ffff;
		my $n = int(($stored + SECTOR - 1) / SECTOR);
		shift @runs while @runs && $runs[0][1] == 0;
		push @{ $l{units} }, { offset => $runs[0][0] * SECTOR, bytes => $stored };
		$runs[0][0] += $n;
		$runs[0][1] -= $n;
	}
	return %l;
}

# Change a page where its checksum does not tell: it has none then.
sub change
{
	my ($file, $page, $offset, $bytes) = @_;
	patch($file, $page * PAGE + $offset, $bytes);
	patch($file, $page * PAGE + 8184, "\0" x 8);
	return;
}

sub garbage { return join('', map { chr(int(rand(256))) } 1 .. PAGE); }

# What securefile_repair() says it does, or would do, about column doc.
sub repair
{
	my ($node, $table, $dry_run) = @_;
	return $node->safe_psql('postgres',
		"SELECT action, finding, segment_offset, length_bytes, detail FROM securefile_repair('$table', 'doc', $dry_run)");
}

1;
