# Trap 10: prepared transactions, over restarts and crashes.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('twophase', conf => ['securefile.monitor = off']);
my $len = 300_000;

# Six prepared transactions, then an end of the server, then their outcomes.
foreach my $way ('restart', 'crash', 'none')
{
	foreach my $options ('', 'filesystem_like_logging')
	{
		my $t = "t_$way" . ($options ? '_fs' : '');
		make_table($node, $t, $options);
		fill($node, $t, 1, 10, $len);
		fill($node, $t, 11, 12, 13_000_000) if $way eq 'restart';
		my $more = $way eq 'restart' ? 2 : 0;
		$node->safe_psql('postgres', $_)
		  for ("BEGIN; INSERT INTO $t VALUES (100, 100, $len, blob(100, $len)); PREPARE TRANSACTION '$t insert c'",
			"BEGIN; INSERT INTO $t VALUES (101, 101, $len, blob(101, $len)); PREPARE TRANSACTION '$t insert r'",
			"BEGIN; UPDATE $t SET seed = 50, doc = blob(50, $len) WHERE id = 1; PREPARE TRANSACTION '$t update c'",
			"BEGIN; UPDATE $t SET seed = 60, doc = blob(60, $len) WHERE id = 2; PREPARE TRANSACTION '$t update r'",
			"BEGIN; DELETE FROM $t WHERE id = 3; PREPARE TRANSACTION '$t delete c'",
			"BEGIN; SAVEPOINT s; DELETE FROM $t WHERE id = 5; ROLLBACK TO s;"
			  . " DELETE FROM $t WHERE id = 4; PREPARE TRANSACTION '$t delete r'");

		# prepared, not decided: nothing is visible, nothing is freed
		$node->safe_psql('postgres', "SELECT securefile_maintain('$t', 'doc')");
		rows_right($node, $t, 10 + $more, "$t: prepared");
		$node->restart if $way eq 'restart';
		if ($way eq 'crash')
		{
			crash($node);
			$node->start;
		}
		rows_right($node, $t, 10 + $more, "$t: prepared, after $way");

		# others work meanwhile, in space that must not be theirs
		$node->safe_psql('postgres', "SELECT securefile_maintain('$t', 'doc')");
		fill($node, $t, 200, 209, $len);
		$node->safe_psql('postgres', "DELETE FROM $t WHERE id >= 205");
		$node->safe_psql('postgres', "SELECT securefile_maintain('$t', 'doc')");
		fill($node, $t, 210, 219, $len);

		foreach my $what ('insert', 'update', 'delete')
		{
			$node->safe_psql('postgres', "COMMIT PREPARED '$t $what c'");
			$node->safe_psql('postgres', "ROLLBACK PREPARED '$t $what r'");
		}
		rows_right($node, $t, 10 + $more + 1 - 1 + 15, "$t: decided after $way");
		is( $node->safe_psql('postgres',
				"SELECT string_agg(id || ':' || seed, ' ' ORDER BY id) FROM $t WHERE id IN (1, 2, 3, 4, 100, 101)"),
			'1:50 2:2 4:4 100:100',
			"$t: the rows that were decided");
		sound($node, $t, "$t: decided after $way");
	}
}

# what a crash leaves of dropped tables is the monitor's to remove
$node->append_conf('postgresql.conf', 'securefile.monitor = on');
$node->restart;

# a prepared transaction that made, truncated, dropped a table; both ways
foreach my $how ('COMMIT', 'ROLLBACK')
{
	foreach my $stop ('restart', 'crash')
	{
		my $files = scalar(data_files($node));
		make_table($node, 'truncated');
		make_table($node, 'dropped');
		fill($node, $_, 1, 3, $len) for ('truncated', 'dropped');
		$node->safe_psql('postgres',
			"BEGIN; CREATE TABLE made (id int, seed int, len int, doc securefile);"
			  . " INSERT INTO made SELECT i, i, $len, blob(i, $len) FROM generate_series(1, 3) i;"
			  . " TRUNCATE truncated; INSERT INTO truncated VALUES (9, 9, $len, blob(9, $len));"
			  . " DROP TABLE dropped; PREPARE TRANSACTION 'ddl'");
		if ($stop eq 'crash')
		{
			crash($node);
			$node->start;
		}
		else
		{
			$node->restart;
		}
		$node->safe_psql('postgres', "$how PREPARED 'ddl'");
		if ($how eq 'COMMIT')
		{
			rows_right($node, 'made', 3, "CREATE, $how after $stop");
			sound($node, 'made', "CREATE, $how after $stop");
			rows_right($node, 'truncated', 1, "TRUNCATE, $how after $stop");
			$node->safe_psql('postgres', 'DROP TABLE made');
		}
		else
		{
			rows_right($node, 'dropped', 3, "DROP, $how after $stop");
			sound($node, 'dropped', "DROP, $how after $stop");
			rows_right($node, 'truncated', 3, "TRUNCATE, $how after $stop");
			$node->safe_psql('postgres', 'DROP TABLE dropped');
		}
		sound($node, 'truncated', "TRUNCATE, $how after $stop");
		$node->safe_psql('postgres', 'DROP TABLE truncated');
		is(gone_to($files), $files, "data files, $how PREPARED of DDL after $stop");
	}
}

# Number of data files, once it has come down to what it should be.
sub gone_to
{
	my ($want) = @_;
	wait_until(sub { data_files($node) <= $want });
	return scalar(data_files($node));
}

$node->stop;
done_testing();
