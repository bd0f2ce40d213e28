# Trap 14: databases copied, moved and dropped: the data files follow or the
# command is refused, and no checkpoint fails after it.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_cluster('createdb', init => { allows_streaming => 1 });
$node->safe_psql('postgres', 'CREATE DATABASE source');
SecurefileTest::prepare_database($node, 'source');
$node->safe_psql(
	'source', q{
	CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile);
	INSERT INTO t SELECT i, i, 100000 * i, blob(i, 100000 * i) FROM generate_series(1, 8) i;
	CREATE TABLE f (id int PRIMARY KEY, seed int, len int, doc securefile(filesystem_like_logging));
	INSERT INTO f SELECT i, i, 100000 * i, blob(i, 100000 * i) FROM generate_series(1, 8) i;});

# each database must stand on its own after the copy, or there is no copy
foreach my $strategy ('wal_log', 'file_copy')
{
	my ($rc, $out, $err) = $node->psql('postgres', "CREATE DATABASE copy_$strategy TEMPLATE source STRATEGY $strategy");
	if ($rc == 0)
	{
		foreach my $t ('t', 'f')
		{
			rows_right($node, $t, 8, "$strategy: copy", "copy_$strategy");
			sound($node, $t, "$strategy: copy", db => "copy_$strategy");
			$node->safe_psql("copy_$strategy", "DELETE FROM $t WHERE id < 5; SELECT securefile_maintain('$t', 'doc');"
				  . "INSERT INTO $t SELECT i, i, 90000, blob(i, 90000) FROM generate_series(20, 30) i");
			rows_right($node, $t, 15, "$strategy: changed copy", "copy_$strategy");
		}
	}
	else
	{
		like($err, qr/HINT|DETAIL/, "$strategy: refused, and says what to do instead");
	}
	rows_right($node, 't', 8, "$strategy: source", 'source');
	sound($node, 'f', "$strategy: source", db => 'source');
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash($node);
	$node->start;
	foreach my $db ($rc == 0 ? "copy_$strategy" : (), 'source')
	{
		my $count = $db eq 'source' ? 8 : 15;
		rows_right($node, $_, $count, "$strategy: $db after a crash", $db) for ('t', 'f');
	}
}
$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS copy_wal_log');
$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS copy_file_copy');

# a template with the extension and no values can be copied
$node->safe_psql('postgres', 'CREATE DATABASE bare');
SecurefileTest::prepare_database($node, 'bare');
my ($rc, $out, $err) = $node->psql('postgres', 'CREATE DATABASE bare_copy TEMPLATE bare');
if ($rc == 0)
{
	$node->safe_psql('bare_copy', 'CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile);'
		  . 'INSERT INTO t VALUES (1, 1, 500000, blob(1, 500000))');
	rows_right($node, 't', 1, 'copy of a bare template', 'bare_copy');
}
else
{
	like($err, qr/HINT|DETAIL/, 'bare template refused, and says what to do instead');
}

# another tablespace for the whole database
my $space = $node->basedir . '/space';
mkdir $space;
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION '$space'");
($rc, $out, $err) = $node->psql('postgres', 'ALTER DATABASE source SET TABLESPACE other');
like($err, qr/HINT|DETAIL/, 'SET TABLESPACE refused, and says what to do instead') if $rc != 0;
rows_right($node, 't', 8, 'SET TABLESPACE', 'source');
sound($node, 't', 'SET TABLESPACE', db => 'source');
$node->safe_psql('source', 'UPDATE t SET seed = seed + 1, doc = blob(seed + 1, len)');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
$node->start;
rows_right($node, $_, 8, 'SET TABLESPACE, crash', 'source') for ('t', 'f');
($rc, $out, $err) = $node->psql('postgres', 'CREATE DATABASE there TABLESPACE other');
is($rc, 0, 'database in a tablespace');
SecurefileTest::prepare_database($node, 'there');
$node->safe_psql('there', 'CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile);'
	  . 'INSERT INTO t VALUES (1, 1, 500000, blob(1, 500000))');
rows_right($node, 't', 1, 'database in a tablespace', 'there');
sound($node, 't', 'database in a tablespace', db => 'there');

# DROP DATABASE while monitors are at work leaves nothing
my $files = scalar(data_files($node));
foreach my $round (1 .. 4)
{
	$node->safe_psql('postgres', 'CREATE DATABASE brief');
	SecurefileTest::prepare_database($node, 'brief');
	$node->safe_psql('brief', 'CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile);'
		  . 'INSERT INTO t SELECT i, i, 500000, blob(i, 500000) FROM generate_series(1, 10) i; DELETE FROM t');
	usleep(400_000 * $round);
	my $done = 0;
	for (my $try = 0; $try < 5 && !$done; $try++)
	{
		$done = $node->psql('postgres', 'DROP DATABASE brief') == 0;
	}
	ok($done, "DROP DATABASE, round $round");
	$node->safe_psql('postgres', 'CHECKPOINT');
}
is(scalar(data_files($node)), $files, 'dropped databases leave no data file');
$node->safe_psql('postgres', 'DROP DATABASE there; DROP DATABASE bare');
$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS bare_copy');

# dropped just before a crash
$node->safe_psql('postgres', 'DROP DATABASE source');
crash($node);
$node->start;
is(scalar(data_files($node)), 0, 'DROP DATABASE, crash: no data file left');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|could not fsync|TRAP/, 'no checkpoint failed');
done_testing();
