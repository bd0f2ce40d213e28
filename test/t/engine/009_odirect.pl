# Trap 12: a file system without direct I/O, a kernel without the I/O method:
# fall back, say so once, work all the same.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('odirect');

# direct I/O switched off
$node->append_conf('postgresql.conf', 'securefile.direct_io = off');
$node->reload;
make_table($node, 'buffered');
fill($node, 'buffered', 1, 10, 700_000);
rows_right($node, 'buffered', 10, 'direct_io = off');
sound($node, 'buffered', 'direct_io = off');
crash($node);
$node->start;
rows_right($node, 'buffered', 10, 'direct_io = off, crash');
$node->append_conf('postgresql.conf', 'securefile.direct_io = on');
$node->restart;
rows_right($node, 'buffered', 10, 'written buffered, read directly');

# reads through the page cache see what was written directly
make_table($node, 'mixed', 'cache');
foreach my $round (1 .. 5)
{
	$node->safe_psql('postgres',
		"DELETE FROM mixed; INSERT INTO mixed SELECT i, i + $round, 300000, blob(i + $round, 300000) FROM generate_series(1, 10) i");
	rows_right($node, 'mixed', 10, "cached reads, round $round");
	settle($node, 'mixed', 'doc');
}

# A session that has read a value learns of a new cache mode: what goes through the
# page cache is read to the byte, a direct read is a number of whole blocks.
make_table($node, 'modes', 'cache_reads');
$node->safe_psql('postgres', 'INSERT INTO modes VALUES (1, 1, 300000, blob(1, 300000))');
my $reader = background($node);
my $read_bytes = sub {
	$reader->query_safe('SELECT securefile_stat_reset()');
	is($reader->query_safe('SELECT count(*) FROM modes WHERE doc::bytea = blob(1, len)'), 1, $_[0]);
	return $reader->query_safe("SELECT direct_read_bytes FROM securefile_stat WHERE relname = 'modes'");
};
foreach my $mode (['cache_reads', 300_000], ['nocache', 303_104], ['cache', 300_000])
{
	my ($word, $bytes) = @$mode;
	$node->safe_psql('postgres', "ALTER TABLE modes ALTER doc TYPE securefile($word)");
	is($read_bytes->("$word: the value is right"), $bytes, "$word: a session that has the segment open reads so");
}
$reader->query_safe('BEGIN');
$reader->query_safe('ALTER TABLE modes ALTER doc TYPE securefile(nocache)');
is($read_bytes->('in a transaction: the value is right'), 0, 'counted at its end');
$reader->query_safe('ROLLBACK');
is($read_bytes->('rolled back: the value is right'), 300_000, 'a mode that was rolled back is forgotten');
$reader->quit;

# refused by the file system
need_faults($node);
my $offset = -s $node->logfile;
arm($node, 'io_direct', 'error', times => -1);
my $session = background($node);
$session->query_safe('CREATE TABLE refused (id int PRIMARY KEY, seed int, len int, doc securefile)');
$session->query_safe(
	"INSERT INTO refused SELECT i, i, 700000, blob(i, 700000) FROM generate_series(1, 10) i");
$session->query_safe('UPDATE refused SET seed = seed + 1, doc = blob(seed + 1, len)');
is($session->query_safe('SELECT count(*) FROM refused WHERE doc::bytea = blob(seed, len)'),
	10, 'direct I/O refused: works');
$session->quit;
$node->safe_psql('postgres', 'UPDATE refused SET seed = seed + 1, doc = blob(seed + 1, len)') for (2 .. 4);
rows_right($node, 'refused', 10, 'direct I/O refused, more sessions');
my @lines = grep { /direct I\/O/ } split /\n/, slurp_file($node->logfile, $offset);
cmp_ok(scalar(@lines), '>=', 1, 'direct I/O refused: the log says so');
cmp_ok(scalar(@lines), '<=', 2, 'and does not repeat it') or diag(join "\n", @lines);
sound($node, 'refused', 'direct I/O refused');
disarm($node);
rows_right($node, 'refused', 10, 'read directly afterwards');

$node->stop;
done_testing();
