# Trap 20, promise 2: commits that do not wait for their WAL.  However much of it
# is lost in a crash, each row that is there has its bytes: those that were
# overwritten belong to no row that came back.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('async_commit',
	conf => [ 'fsync = on', 'securefile.monitor = off', "wal_buffers = '64MB'", "wal_writer_delay = '10s'",
		"checkpoint_timeout = '1h'", "max_wal_size = '4GB'", 'bgwriter_lru_maxpages = 0' ]);
my $n = 500_000;

# What frees space and what takes it, each a transaction of its own.
my @steps = (
	'DELETE FROM T WHERE id <= 4',
	"INSERT INTO T SELECT i, i, $n, blob(i, $n) FROM generate_series(11, 14) i",
	'UPDATE T SET seed = seed + 100, doc = blob(seed + 100, len) WHERE id IN (5, 6, 11)',
	'UPDATE T SET seed = seed + 100, doc = blob(seed + 100, len) WHERE id IN (5, 7, 12)',
	"SAVEPOINT s; INSERT INTO T SELECT i, i, $n, blob(i, $n) FROM generate_series(21, 24) i; DELETE FROM T WHERE id = 8;"
	  . " ROLLBACK TO s; INSERT INTO T SELECT i, i, $n, blob(i, $n) FROM generate_series(25, 26) i",
	'INSERT INTO T VALUES (31, 31, 14000000, blob(31, 14000000))',
	'DELETE FROM T WHERE id = 31',
	'INSERT INTO T VALUES (32, 32, 14000000, blob(32, 14000000))',
	'TRUNCATE T',
	"INSERT INTO T SELECT i, i, $n, blob(i, $n) FROM generate_series(41, 48) i");

# The other tables say what T holds after each step.
$node->safe_psql('postgres',
	'CREATE TABLE shadow (id int, seed int, len int); CREATE TABLE progress (step int)');
my $note = 'DELETE FROM shadow; INSERT INTO shadow SELECT id, seed, len FROM T; UPDATE progress SET step = step + 1';
my @lost;

foreach my $options ('', 'filesystem_like_logging')
{
	my $t = $options ? 'fslike' : 'logged';
	make_table($node, $t, $options);
	my $segment = 'pg_toast.pg_securefile_' . $node->safe_psql('postgres', "SELECT '$t'::regclass::oid") . '_4';

	# how many steps are taken; those that are durable for sure, as a commit after
	# them waited
	foreach my $round ([ 2, 0 ], [ 5, 3 ], [ 8, 0 ], [ 8, 6 ], [ 10, 0 ])
	{
		my ($steps, $durable) = @$round;
		my $name = "$t, $durable of $steps steps durable";
		$node->safe_psql('postgres', "TRUNCATE $t, shadow, progress; INSERT INTO progress VALUES (0)");
		# row 9 lies behind the others, so that there is no tail to cut
		fill($node, $t, 1, 9, $n);
		$node->safe_psql('postgres', "INSERT INTO shadow SELECT id, seed, len FROM $t; CHECKPOINT");

		# nobody else may write WAL: what is written survives a killed process
		stop_walwriter($node);
		my $sql = "SET synchronous_commit = off;\n";
		foreach my $i (0 .. $steps - 1)
		{
			$sql .= "SET synchronous_commit = on; UPDATE progress SET step = step; SET synchronous_commit = off;\n"
			  if $i == $durable;
			$sql .= "BEGIN; $steps[$i]; $note; COMMIT; VACUUM $segment;\n" =~ s/\bT\b/$t/gr;
		}
		$node->safe_psql('postgres', $sql);
		crash($node);
		$node->start;

		my $step = $node->safe_psql('postgres', 'SELECT step FROM progress');
		push @lost, $steps - $step;
		cmp_ok($step, '>=', $durable, "$name: they are there");
		is( $node->safe_psql('postgres',
				"SELECT count(*) FROM $t x FULL JOIN shadow s USING (id) WHERE (x.seed, x.len) IS DISTINCT FROM (s.seed, s.len)"),
			0,
			"$name: rows are those of step $step");
		rows_right($node, $t, $node->safe_psql('postgres', 'SELECT count(*) FROM shadow'), "$name, step $step");
		sound($node, $t, "$name, step $step");
	}
}
note("steps lost: @lost");
cmp_ok(scalar(grep { $_ > 0 } @lost), '>', 0, 'something was lost');

$node->stop;
done_testing();
