# The diagnostic of reads (SECUREFILE_CHECK_READS, read/damage.c): a unit that is read while its
# place is free, and a row has the value, stops the server.  It is silent where space is lent,
# waits to be freed, or is free and no row has the value; and it speaks when a map page lies.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

$ENV{SECUREFILE_CHECK_READS} = 1;
my $node = new_cluster('held', conf => [ 'securefile.monitor = off', 'restart_after_crash = on', "securefile.write_gather_size = '64kB'", "securefile.transaction_memory = '64kB'" ]);
need_faults($node);

my $right = 'SELECT count(*) FILTER (WHERE doc::bytea = blob(seed, len)), count(*) FROM';

# ---- silent ----

foreach my $options ('logging', 'filesystem_like_logging', 'deduplicate')
{
	my $t = "t_$options";
	make_table($node, $t, $options);
	is(sql('BEGIN', "INSERT INTO $t SELECT i, i % 5, 300000, blob(i % 5, 300000) FROM generate_series(1, 20) i", "$right $t", 'COMMIT'), '20|20', "$t: values of a transaction, while it runs");
	is( sql('BEGIN', "INSERT INTO $t SELECT i, i, 300000, blob(i, 300000) FROM generate_series(21, 25) i", 'SAVEPOINT a', "UPDATE $t SET seed = 9, doc = blob(9, len) WHERE id < 10",
			"$right $t", 'ROLLBACK TO a', "$right $t", 'COMMIT'),
		"25|25\n25|25", "$t: and after a savepoint");
	my $session = background($node);
	$session->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM $t");
	sql("DELETE FROM $t WHERE id % 2 = 0", "UPDATE $t SET doc = overlay(doc PLACING 'x'::bytea FROM 200000) WHERE id % 3 = 0");
	sql("SELECT securefile_maintain('$t', 'doc')") for 1 .. 3;
	is($session->query_safe("$right $t"), '25|25', "$t: an old snapshot");
	$session->query_safe('COMMIT');
	$session->quit;
	sql('BEGIN', "INSERT INTO $t SELECT i, i, 300000, blob(i, 300000) FROM generate_series(31, 35) i", "PREPARE TRANSACTION '$t'");
	$node->restart('immediate');
	sql("COMMIT PREPARED '$t'");
	is(sql("$right $t WHERE id > 30"), '5|5', "$t: a prepared transaction, and a crash");
	my $gone = sql(qq{SELECT securefile_maintain('$t', 'doc')}, qq{CREATE TEMP TABLE result (what text)}, qq{DO \$\$
		DECLARE v securefile; w text;
		BEGIN
			SELECT doc INTO v FROM $t WHERE id = 31;
			DELETE FROM $t WHERE id = 31;
			COMMIT;
			PERFORM securefile_maintain('$t', 'doc'), securefile_maintain('$t', 'doc');
			COMMIT;
			BEGIN
				w := (v::bytea = blob(31, 300000))::text;
			EXCEPTION WHEN OTHERS THEN
				w := sqlstate;
			END;
			INSERT INTO result VALUES (w);
		END \$\$}, 'SELECT what FROM result');
	like($gone, qr/(?:true|42704)$/, "$t: a value that has outlived its row");
	sound($node, $t, 'silent');
}
unlike(slurp_file($node->logfile), qr/TRAP: /, 'the diagnostic was silent');

# ---- planted: the map takes what rows have for free ----

my $segment = segment_of($node, 't_logging');
$node->stop;
change($segment, 1, USED, "\0" x 4096);
$node->start;
my $offset = -s $node->logfile;
$node->psql('postgres', 'SELECT md5(doc::bytea) FROM t_logging');
wait_restart($node);
like(slurp_file($node->logfile, $offset), qr/TRAP: .*given_back/, 'a value whose place is free was read');

$node->stop;
done_testing();
