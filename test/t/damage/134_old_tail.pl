# A header page of a time before a free tail was cut off takes the segment for longer than
# its data files are: nothing is read or written wrong, and maintenance fills the files up.
# And a check, or a TRUNCATE, that runs when a transaction has given up its lock by a rollback to a savepoint.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $node = new_cluster('old_tail', conf => [ 'securefile.monitor = off', 'full_page_writes = off' ]);

# Directory of the data files of a segment relation.
sub directory_of { return data_file_of($node, $_[0]) =~ s{/[^/]*$}{}r; }

# Bytes in all data files.
sub in_files
{
	my $sum = 0;
	$sum += -s $_ foreach glob("$_[0]/*.sf");
	return $sum;
}

# A table of three rows that had a tail, the header page of that time, and the directory.
sub table_with_cut_tail
{
	my ($table, $options) = @_;
	make_table($node, $table, $options);
	my $segment = segment_of($node, $table);
	fill($node, $table, 1, 3, 100_000);
	fill($node, $table, 4, 4, 20_000_000);
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $old = page_of(slurp($segment), 0);
	$node->safe_psql('postgres', "DELETE FROM $table WHERE id = 4");
	# each call leaves an eighth of what it finds
	settle($node, $table, 'doc') foreach 1 .. 3;
	return ($segment, $old, directory_of($segment));
}

# What an old header page of a segment of so many bytes must not lead to.
sub header_is_old
{
	my ($name, $table, $bytes, $directory) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $had = in_files($directory);
	cmp_ok($had, '<', 1_000_000, "$name: the tail is not there");
	rows_right($node, $table, 3, "$name: as it is");
	is($node->safe_psql('postgres', "SELECT detail FROM securefile_check('$table', 'doc') WHERE finding = 'data files too short'"),
		"expected $bytes bytes, found $had", "$name: securefile_check");
	return;
}

# All is as it should be after maintenance, or a repair.
sub filled_up
{
	my ($name, $table, $rows, $directory) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $usage = usage($node, $table, 'doc');
	is(in_files($directory), $usage->{file_bytes}, "$name: the files are as long as the segment");
	rows_right($node, $table, $rows, $name);
	$node->safe_psql('postgres', "SELECT count(*) FROM securefile_repair('$table', 'doc', false)");	# inode pages
	sound($node, $table, $name);
	fill($node, $table, 21, 22, 30_000_000);
	rows_right($node, $table, $rows + 2, "$name, and new rows");
	sound($node, $table, "$name, and new rows");
	return;
}

foreach my $options ('nocache', 'cache, filesystem_like_logging')
{
	foreach my $how ('maintain', 'write', 'repair')
	{
		my $name = "$options, $how";
		my $table = $how . length($options);
		my ($segment, $old, $directory) = table_with_cut_tail($table, $options);
		$node->stop;
		patch($segment, 0, $old);
		$node->start;
		header_is_old($name, $table, 512 * unpack('Q<', substr($old, CONTENT + 24, 8)), $directory);
		# into the missing part, also by halves of a block
		fill($node, $table, 11, 13, 300_100) if $how eq 'write';
		rows_right($node, $table, 6, "$name: written there") if $how eq 'write';
		$node->safe_psql('postgres', $how eq 'repair'
			? "SELECT count(*) FROM securefile_repair('$table', 'doc', false)"
			: "SELECT securefile_maintain('$table', 'doc')");
		filled_up($name, $table, $how eq 'write' ? 6 : 3, $directory);
	}
}

# ---- a whole data file went with the tail ----
# The header page and empty map pages are made up: to write more than 1 GB would take long.
{
	my $total = 1_200_000_000 - 1_200_000_000 % 65536;
	my ($segment, undef, $directory) = table_with_cut_tail('files', 'nocache');
	my $nmaps = int(($total + 16777215) / 16777216);
	my $map = page_of(slurp($segment), 1);
	substr($map, CONTENT, PAGE - CONTENT - 16, "\0" x (PAGE - CONTENT - 16));
	$node->stop;
	change($segment, 0, CONTENT + 24, pack('Q<', $total / 512));
	foreach my $k (1 .. $nmaps - 1)
	{
		patch($segment, (1 + 8 * $k) * PAGE, $map);
		change($segment, 1 + 8 * $k, 0, '');
	}
	$node->start;
	header_is_old('a file less', 'files', $total, $directory);
	my ($rc, $out, $err) = $node->psql('postgres', "INSERT INTO files SELECT i, i, 14000000, blob(i, 14000000) FROM generate_series(31, 33) i");
	ok($rc == 0 || $err =~ /could not open segment data file .*seg-00000001\.sf/, "a file less: written, or the file is named: $err");
	rows_right($node, 'files', $rc == 0 ? 6 : 3, 'a file less: written');
	$node->safe_psql('postgres', "SELECT securefile_maintain('files', 'doc')");
	filled_up('a file less', 'files', $rc == 0 ? 6 : 3, $directory);
}

# ---- a check beside a writer that has given up its lock ----
# A rollback to a savepoint gives up the lock on the segment; the check takes one then that
# keeps writers out.  The storage is not dropped, but nothing that was written to it counts:
# the commit passes it over, and waits for nobody.
make_table($node, $_, 'nocache') foreach 'checked', 'other';
fill($node, 'checked', 1, 3, 300_000);
my $writer = background($node);
my $checker = background($node);
my $insert = "INSERT INTO %s SELECT i, i, 2000000, blob(i, 2000000) FROM generate_series(11, 13) i";
$writer->query_safe('BEGIN; SAVEPOINT a; ' . sprintf($insert, 'checked') . '; ROLLBACK TO a');
is($checker->query_safe("BEGIN; SELECT * FROM securefile_check('checked', 'doc')"), '', 'a check beside a writer that has rolled back');
$writer->query_safe(sprintf($insert, 'other') . '; COMMIT');
is($writer->{stderr}, '', 'the commit goes through');
$checker->query_safe('COMMIT');
$_->quit foreach $writer, $checker;
rows_right($node, 'checked', 3, 'what was rolled back');
rows_right($node, 'other', 3, 'what was not');
sound($node, $_, "a check beside a writer") foreach 'checked', 'other';

# Of a value with inode pages the pages are in WAL: they are given back all the same, whoever wants
# the segment for himself meanwhile.
make_table($node, 'mapped', 'compress_low');
$writer = background($node);
my $truncater = background($node);
$writer->query_safe(q{BEGIN; INSERT INTO other VALUES (20, 20, 9000, blob(20, 9000)); SAVEPOINT a;
	INSERT INTO mapped VALUES (1, 1, 1, convert_to(repeat('x', 30000000), 'UTF8')); ROLLBACK TO a});
$truncater->query_until(qr/start/, "\\echo start\nBEGIN; TRUNCATE mapped;\n");
ok(wait_for_sql($node, q{SELECT count(*) = 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
	WHERE c.relname ~ ('^pg_securefile_' || 'mapped'::regclass::oid || '_') AND l.mode = 'AccessExclusiveLock'}), 'a TRUNCATE is at the segment');
$writer->query_until(qr/start/, "\\echo start\nCOMMIT;\n");
# so that the commit has come to the segment
sleep 1;
$truncater->query_safe('ROLLBACK');
$writer->query_safe('SELECT 1');
$_->quit foreach $writer, $truncater;
sound($node, 'mapped', 'a TRUNCATE that is rolled back, beside a writer that has rolled back');

done_testing();
