# Promises 2 and 6, rule 5, trap 23: the bytes that redo writes, and those that it must not
# touch.  The test puts the data files of a logging column back to the last checkpoint, as
# a base backup may have them; WAL must bring back the rest.  It leaves those of the other
# mode alone, and redo must not change a byte of them.
# Every version.

use strict;
use warnings;
use File::Copy qw(copy);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;
use Time::HiRes qw(time);

my $node = new_cluster('redo',
	conf => [ 'securefile.monitor = off', 'checkpoint_timeout = 1h', 'max_wal_size = 4GB' ]);

# The data files, and those of one table only.
my %before;
sub new_files
{
	my @new = grep { !$before{$_} } data_files($node);
	%before = map { $_ => 1 } data_files($node);
	return @new;
}
new_files();
make_table($node, 'logged');
fill($node, 'logged', 1, 12, 300_000);
my ($file) = new_files();
make_table($node, 'fslike', 'filesystem_like_logging');
fill($node, 'fslike', 1, 12, 300_000);
settle($node, $_, 'doc') foreach ('logged', 'fslike');

# Crash; with $put_back the logged column's file is that of the checkpoint.
my $saved = $node->basedir . '/saved';
sub crashed
{
	my ($name, $put_back, %rows) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	crash($node);
	copy($saved, $file) or die "$file: $!" if $put_back;
	$node->start;
	foreach my $t (sort keys %rows)
	{
		rows_right($node, $t, $rows{$t}, $name);
		sound($node, $t, $name);
	}
	return;
}

sub checkpoint
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	copy($file, $saved) or die "$saved: $!";
	return;
}

# new values, some in space that was freed, some that make the file grow
checkpoint();
$node->safe_psql('postgres', "DELETE FROM $_ WHERE id < 4; SELECT securefile_maintain('$_', 'doc');"
	  . " INSERT INTO $_ SELECT i, i, 290000, blob(i, 290000) FROM generate_series(21, 26) i;"
	  . " UPDATE $_ SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id = 12;"
	  . " INSERT INTO $_ VALUES (30, 30, 9000000, blob(30, 9000000)), (31, 31, 14000000, blob(31, 14000000));"
	  . " INSERT INTO $_ SELECT i, i, 4500, blob(i, 4500) FROM generate_series(40, 60) i")
  foreach ('logged', 'fslike');
crashed('values and growth', 1, logged => 38, fslike => 38);

# freed, overwritten, freed again: the records of all of them are replayed
checkpoint();
foreach my $round (1 .. 3)
{
	$node->safe_psql('postgres',
		"UPDATE $_ SET seed = seed + 1, doc = blob(seed + 1, len) WHERE id BETWEEN 4 AND 26; SELECT securefile_maintain('$_', 'doc')")
	  foreach ('logged', 'fslike');
}
crashed('space used three times', 1, logged => 38, fslike => 38);

# a tail cut, grown again, and written
checkpoint();
foreach my $t ('logged', 'fslike')
{
	foreach my $round (1, 2)
	{
		$node->safe_psql('postgres', "DELETE FROM $t WHERE id > 100; SELECT securefile_maintain('$t', 'doc'); SELECT securefile_maintain('$t', 'doc')");
		my $size = usage($node, $t, 'doc')->{file_bytes};
		fill($node, $t, 101, 104, 9_000_000);
		cmp_ok(usage($node, $t, 'doc')->{file_bytes}, '>', $size, "$t: grown, round $round");
	}
}
crashed('tail cut, grown, written', 1, logged => 42, fslike => 42);
crashed('and once more', 0, logged => 42, fslike => 42);

# a column made after the checkpoint, and one with new storage
checkpoint();
make_table($node, 'made', 'filesystem_like_logging');
$node->safe_psql('postgres', 'TRUNCATE fslike');
fill($node, $_, 1, 3, 800_000) foreach ('made', 'fslike');
crashed('made since', 0, made => 3, fslike => 3, logged => 42);

# what is lent when the server dies is free for the next
checkpoint();
my $size = usage($node, 'made', 'doc')->{file_bytes};
foreach my $round (1 .. 4)
{
	my $session = background($node);
	$session->query_safe("BEGIN; INSERT INTO made SELECT i, i, 700000, blob(i, 700000) FROM generate_series(10, 16) i");
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash($node);
	eval { $session->quit };
	$node->start;
}
fill($node, 'made', 20, 24, 700_000);
cmp_ok(usage($node, 'made', 'doc')->{file_bytes}, '<=', $size + mb(16), 'what was lent at a crash is found again');
rows_right($node, 'made', 8, 'what was lent at a crash');
sound($node, 'made', 'what was lent at a crash');

# after a crash nothing is written until what the dead had in flight has landed
foreach my $way ('crash', 'stop')
{
	$way eq 'crash' ? crash($node) : $node->stop;
	# the second begins a little before what the server calls its start
	my $before = time;
	$node->start;
	$node->safe_psql('postgres',
		'INSERT INTO made SELECT coalesce(max(id), 0) + 1, 1, 5000, blob(1, 5000) FROM made');
	my $age = time - $before;
	cmp_ok($age, '>=', 1, 'first write after a crash') if $way eq 'crash';
	note("first write after a $way: $age s");
}

$node->stop;
done_testing();
