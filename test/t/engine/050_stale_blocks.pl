# Promise 4, trap 5: an object is told from another one that took its place, by the
# incarnation of the segment, the number of the object, the stamp of an inode page, and by
# the seed of the checksums when all of these agree.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages qw(segment_of);
use SecurefileTest;
use Test::More;

my $node = new_cluster('stale_blocks', conf => ['securefile.monitor = off', 'securefile.procedure_retention = 0']);
my $gone = qr/ERROR:  42704: [^\n]*no longer exists/;

# Row 1's value over $sql in a variable, then read.
sub read_after
{
	my ($table, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', <<"SQL", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		DO \$\$
		DECLARE
			v securefile;
		BEGIN
			SELECT doc INTO v FROM $table WHERE id = 1;
			COMMIT;
			$sql
			RAISE EXCEPTION 'value read: % bytes', length(v::bytea);
		END \$\$;
SQL
	return $err;
}

sub read_at
{
	my ($file, $offset, $len) = @_;
	open(my $fh, '<:raw', $file) or die "$file: $!";
	seek($fh, $offset, 0);
	read($fh, my $bytes, $len);
	close $fh;
	return $bytes;
}

# Offsets of the inode pages in a file.
sub inode_pages
{
	my ($file) = @_;
	return grep {
		my ($magic, $type) = unpack('V v', read_at($file, $_ + 8176, 6));
		$magic == 0x53464c31 && $type == 4
	} map { $_ * 8192 } 0 .. (-s $file) / 8192 - 1;
}

# ---- TRUNCATE: the same bytes at the same place ----
make_table($node, 'cut');
fill($node, 'cut', 1, 1, 50_000);
like(read_after('cut', 'TRUNCATE cut; COMMIT; INSERT INTO cut VALUES (1, 1, 50000, blob(1, 50000)); COMMIT;'),
	$gone, 'a value over TRUNCATE, and the same value again');
my $header = sub {
	$node->safe_psql('postgres', 'CHECKPOINT');
	return unpack('Q< x8 Q<', read_at(segment_of($node, 'cut'), 24, 24));
};
my @before = $header->();
$node->safe_psql('postgres', 'TRUNCATE cut');
my @after = $header->();
isnt($after[0], $before[0], 'TRUNCATE makes a new incarnation');
cmp_ok($before[1], '>', 1, 'objects were numbered');
cmp_ok($after[1], '>=', $before[1], 'and the numbers go on over TRUNCATE');

# ---- an inode page that serves another object now ----
make_table($node, 'inode');
fill($node, 'inode', 1, 1, 14_000_000);
like(
	read_after('inode',
		'DELETE FROM inode; COMMIT;'
		  . " PERFORM securefile_maintain('inode', 'doc'); COMMIT;"
		  . ' INSERT INTO inode SELECT i, i, 14000000, blob(i, 14000000) FROM generate_series(2, 4) i; COMMIT;'),
	$gone, 'an inode page that was used again');
rows_right($node, 'inode', 3, 'an inode page that was used again');

# ---- the unit map of another object, in the guise of one's own ----
make_table($node, 'guise');
fill($node, 'guise', 1, 2, 14_000_000);
make_table($node, 'twin');
fill($node, 'twin', 1, 2, 14_000_000);
my ($guise, $twin) = map { segment_of($node, $_) } ('guise', 'twin');
$node->stop;
my @pages = inode_pages($guise);
is(scalar(@pages), 2, 'an inode page for each object');
my $good = read_at($guise, $pages[0], 8192);
my ($first, $second) = map { read_at($guise, $_ + 24, 8144) } @pages;
patch($guise, $pages[0] + 24, substr($first, 0, 16) . substr($second, 16));
unseal($guise, $pages[0]);
$node->start;
fails_with($node, 'SELECT doc::bytea FROM guise WHERE id = 1', 'XX001', '', 'another object\'s unit map');
is($node->safe_psql('postgres', 'SELECT doc::bytea = blob(seed, len) FROM guise WHERE id = 2'),
	't', 'the other object is read');

# the same object number, page and stamp, of another segment
$node->stop;
my $other = read_at($twin, $pages[0], 8192);
is(substr($other, 24, 8), substr($good, 24, 8), 'a page of the same object number');
isnt(substr($other, 32, 8), substr($good, 32, 8), 'with another stamp');
patch($guise, $pages[0] + 24, substr($good, 24, 16) . substr($other, 40, 8128));
unseal($guise, $pages[0]);
$node->start;
fails_with($node, 'SELECT doc::bytea FROM guise WHERE id = 1', 'XX001', '', 'another segment\'s unit map');
$node->stop;
patch($guise, $pages[0], $good);
$node->start;
rows_right($node, 'guise', 2, 'put back');
sound($node, 'guise', 'put back');

# ---- an older copy of the segment is put back, which gives out numbers again ----
foreach my $options ('', 'deduplicate')
{
	make_table($node, 'older', $options);
	fill($node, 'older', 1, 1, 200_000);
	my $older = segment_of($node, 'older');
	$node->stop;
	my $copy = slurp($older);
	$node->start;
	fill($node, 'older', 2, 2, 14_000_000);
	$node->stop;
	patch($older, 0, $copy . ("\0" x ((-s $older) - length $copy)));
	$node->start;
	fill($node, 'older', 3, 3, 14_000_000);
	like($node->safe_psql('postgres', q{SELECT string_agg(outcome(doc, seed, len), ' ' ORDER BY id) FROM older}), qr/^right XX001 right$/, "an older segment ($options): no row has the bytes of another");
	$node->safe_psql('postgres', 'DROP TABLE older');
}

$node->stop;
done_testing();
