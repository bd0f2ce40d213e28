# Versions that share what was not changed: what a change of a large value writes
# and reads, gaps, and that standbys, crashes, dumps and subscribers see it all.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

use constant UNIT => 131072;

my $node = new_cluster('primary',
	init => { allows_streaming => 'logical' },
	conf => [ 'wal_level = logical', 'max_replication_slots = 4', 'wal_keep_size = 4GB', 'securefile.monitor = off', 'restart_after_crash = on' ]);
prepare_handles($node);

# What a statement writes and reads in a column's data files.
sub traffic
{
	my ($table, $sql) = @_;
	my $ask = "SELECT direct_write_bytes, direct_read_bytes FROM securefile_stat WHERE relid = '$table'::regclass";
	my @before = split /\|/, $node->safe_psql('postgres', $ask);
	$node->safe_psql('postgres', $sql);
	my @after = split /\|/, $node->safe_psql('postgres', $ask);
	return ($after[0] - $before[0], $after[1] - $before[1]);
}

# A digest of each row.
sub digests
{
	my ($on, $table) = @_;
	return $on->safe_psql('postgres', "SELECT id, length(doc), sha256(doc::bytea) FROM $table ORDER BY id");
}

# A handle over row 1 of a table that does something, stored there again.
sub through
{
	my ($table, $calls) = @_;
	return "DO \$\$ DECLARE fd int := securefile_open(doc, 'rw') FROM $table WHERE id = 1; "
	  . "BEGIN $calls UPDATE $table SET doc = securefile_finish(fd), len = NULL WHERE id = 1; END \$\$";
}

foreach my $table ('l', 'f')
{
	make_table($node, $table, $table eq 'f' ? 'filesystem_like_logging' : '');
}

subtest 'a change writes what it touches' => sub {
	my $mid = 100 * UNIT + 5000;
	my $write = sub { my ($at, $len) = @_; return "PERFORM securefile_seek(fd, $at, 0); PERFORM securefile_write(fd, blob(7, $len));" };
	foreach my $table ('l', 'f')
	{
		# maps of two pages below their root, of one, and in the row
		foreach my $length ($table eq 'f' ? 46_000_000 : 20_000_000, 8_000_000)
		{
			my $at = $length > 10_000_000 ? $mid : 20 * UNIT + 5000;
			my $edge = int($at / UNIT) * UNIT;
			$node->safe_psql('postgres', "TRUNCATE $table; INSERT INTO $table VALUES (1, 1, $length, securefile_finish(put(made('$table', 1, $length / 2), 2, $length / 2)));"
				  . " INSERT INTO $table SELECT 2, seed, len, doc FROM $table; INSERT INTO $table SELECT 3, seed, len, blob(1, 4000000) FROM $table LIMIT 1; DELETE FROM $table WHERE id = 3");
			settle($node, $table, 'doc');
			my @changes = (
				[ 'ten bytes through a handle', through($table, $write->($at, 10)), 1 ],
				[ 'a border of units through a handle', through($table, $write->($edge - 5, 10)), 2 ],
				[ 'a thousand small writes to a unit', through($table, "PERFORM securefile_seek(fd, $edge + 10, 0); FOR i IN 1 .. 1000 LOOP PERFORM securefile_write(fd, blob(i, 100)); END LOOP;"), 1 ],
				[ 'five units through a handle', through($table, $write->($edge + 100, 4 * UNIT)), 5 ],
				[ 'overlay', "UPDATE $table SET doc = overlay(doc placing blob(8, 1000) from $at), len = NULL WHERE id = 1", 1 ],
				[ '|| ten bytes', "UPDATE $table SET doc = doc || blob(9, 10), len = NULL WHERE id = 1", 1 ],
				[ '|| 1 MB', "UPDATE $table SET doc = doc || blob(9, 1000000), len = NULL WHERE id = 1", 9 ],
				[ 'cut', "UPDATE $table SET doc = securefile_truncate(doc, length(doc) - 7), len = NULL WHERE id = 1", 1 ],
				[ 'cut within, through a handle', through($table, "PERFORM securefile_truncate(fd, $edge + 50 * 1000);"), 1 ],
				[ 'longer by 5 GB of gap', through($table, $write->('5000000000', 10)), 2 ]);
			foreach my $change (@changes)
			{
				my ($name, $sql, $units) = @$change;
				my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
				my ($written, $read) = traffic($table, $sql);
				my $wal = $node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$lsn'");
				cmp_ok($written, '<=', $units * UNIT + 8192, "$table, $length: $name writes $written bytes");
				cmp_ok($written, '>', 0, "$table, $length: $name is written");
				cmp_ok($read, '<=', 2 * UNIT + 8192, "$table, $length: $name reads $read bytes");
				cmp_ok($wal, '<', ($table eq 'l' ? $units * UNIT : 0) + 200_000, "$table, $length: $name: $wal bytes of WAL");
			}
			my ($written) = traffic($table, through($table, 'PERFORM securefile_seek(fd, 100, 0); PERFORM securefile_read(fd, 100);'));
			is($written, 0, "$table, $length: a handle that changes nothing writes nothing");
			is( $node->safe_psql(
					'postgres', qq{SELECT length(doc), substring(doc FOR 4000) = substring(blob(1, $length / 2) FOR 4000),
						substring(doc FROM $edge - 4 FOR 10) = blob(7, 10),
						substring(doc FROM $edge + 101 FOR 1000) = substring(blob(7, 4 * @{[ UNIT ]}) FOR 1000),
						substring(doc FROM $at FOR 1000) = blob(8, 1000), substring(doc FROM $edge + 50001 FOR 100) = decode(repeat('00', 100), 'hex'),
						substring(doc, 5000000001, 100) = blob(7, 10), substring(doc, 4999999001, 1000) = decode(repeat('00', 1000), 'hex')
					FROM $table WHERE id = 1}),
				'5000000010|t|t|t|t|t|t|t', "$table, $length: what came of it");
			is($node->safe_psql('postgres', "SELECT count(*), max(length(doc)) FROM $table WHERE id = 2 AND substring(doc FOR $length / 2) = blob(1, $length / 2) AND substring(doc FROM $length / 2 + 1) = blob(2, $length / 2)"),
				"1|$length", "$table, $length: the other row is what it was");
			is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$table', 'doc')"), 0, "$table, $length: sound");
			$node->safe_psql('postgres', "DELETE FROM $table WHERE id = 1");
			sound($node, $table, "$table, $length: the changed row deleted");
		}
	}
};

subtest 'an old version lives as long as a snapshot' => sub {
	foreach my $table ('l', 'f')
	{
		$node->safe_psql('postgres', "TRUNCATE $table; INSERT INTO $table VALUES (1, 1, 14000000, blob(1, 14000000))");
		my @readers;
		foreach my $round (0 .. 3)
		{
			my $reader = background($node);
			$reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM $table");
			push @readers, [ $reader, digests($node, $table) ];
			$node->safe_psql('postgres', through($table, "PERFORM securefile_seek(fd, $round * 3000000, 0); PERFORM securefile_write(fd, blob($round + 5, 300000));"));
			$node->safe_psql('postgres', "UPDATE $table SET doc = securefile_truncate(doc, length(doc) - 100000) || blob($round, 50000)");
			$node->safe_psql('postgres', "SELECT securefile_maintain('$table', 'doc')");
			$node->safe_psql('postgres', "INSERT INTO $table SELECT i, i, 500000, blob(i, 500000) FROM generate_series(100, 110) i; DELETE FROM $table WHERE id >= 100");
		}
		foreach my $i (1, 3, 0, 2)
		{
			is($readers[$i][0]->query_safe("SELECT id, length(doc), sha256(doc::bytea) FROM $table ORDER BY id"), $readers[$i][1], "$table: snapshot $i");
			$readers[$i][0]->query_safe('COMMIT');
			$readers[$i][0]->quit;
			$node->safe_psql('postgres', "SELECT securefile_maintain('$table', 'doc')");
		}
		sound($node, $table, "$table: snapshots gone");
		is($node->safe_psql('postgres', "SELECT count(*) FROM $table WHERE length(doc::bytea) = 13800000"), 1, "$table: and the last version is there");
	}
};

subtest 'gaps take no space' => sub {
	foreach my $table ('l', 'f')
	{
		$node->safe_psql('postgres', "TRUNCATE $table; " . qq{
			DO \$\$
			DECLARE
				fd int := securefile_create('$table', 'doc');
			BEGIN
				FOR i IN 0 .. 9 LOOP
					PERFORM securefile_seek(fd, i * 3000000000, 0);
					PERFORM securefile_write(fd, blob(i, 1000));
				END LOOP;
				PERFORM securefile_truncate(fd, 40000000000);
				INSERT INTO $table VALUES (1, 0, 0, securefile_finish(fd));
			END \$\$});
		my $one = settle($node, $table, 'doc')->{live_bytes};
		cmp_ok($one, '>=', 10 * 1000, "$table: what was written takes space");
		cmp_ok($one, '<=', 10 * UNIT, "$table: $one bytes for 40 GB");
		# three copies have sixty times as many zeros as this part
		my $s = background($node);
		my $pid = $s->query_safe('SELECT pg_backend_pid()');
		my $part = zeros_seconds($s, $table, 1, 2000000000);
		my $before = cpu_seconds($pid);
		$s->query_safe("INSERT INTO $table SELECT 2, 0, 0, doc FROM $table; UPDATE $table SET doc = doc WHERE id = 1; UPDATE $table SET doc = (SELECT doc FROM $table WHERE id = 2) WHERE id = 1");
		my $took = cpu_seconds($pid) - $before;
		cmp_ok($took, '<', 5 * $part, "$table: copied without a look at each zero: $took s, a sixtieth of the zeros $part s");
		$s->quit;
		cmp_ok(settle($node, $table, 'doc')->{live_bytes}, '<=', 2 * $one, "$table: a copy has the same gaps");
		is($node->safe_psql('postgres', "SELECT bool_and(length(doc) = 40000000000 AND substring(doc, i * 3000000000 + 1, 1000) = blob(i, 1000)"
				  . " AND substring(doc, i * 3000000000 + 1001, 500) = decode(repeat('00', 500), 'hex') AND substring(doc, 1500000000 + i * 3000000000, 300000) = decode(repeat('00', 300000), 'hex')"
				  . " AND substring(doc, 39999999999, 10) = '\\x0000') FROM $table, generate_series(0, 9) i"), 't', "$table: and reads the same");
		$node->safe_psql('postgres', "UPDATE $table SET doc = securefile_truncate(doc, 5) WHERE id = 2; UPDATE $table SET doc = securefile_truncate(doc, 100000000000) WHERE id = 2");
		is($node->safe_psql('postgres', "SELECT length(doc), substring(doc FOR 10) = substring(blob(0, 1000) FOR 5) || '\\x0000000000', substring(doc, 99999999991) = decode(repeat('00', 10), 'hex') FROM $table WHERE id = 2"), '100000000000|t|t', "$table: cut, then 100 GB of zeros");
		cmp_ok(settle($node, $table, 'doc')->{live_bytes}, '<=', $one + UNIT, "$table: which take no space");
		is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$table', 'doc')"), 0, "$table: sound");
		$node->safe_psql('postgres', "DELETE FROM $table");
		sound($node, $table, "$table: gaps");
	}
};

# ---- a standby ----

# Values made in every way that there is.
sub make_versions
{
	my ($table, $first) = @_;
	my @ids = map { $first + $_ } 0 .. 5;
	$node->safe_psql('postgres', "INSERT INTO $table SELECT i, 1, 0, securefile_finish(made('$table', i, 1000 + 5000000 * (i % 2))) FROM generate_series($ids[0], $ids[5]) i");
	$node->safe_psql('postgres', "UPDATE $table SET doc = doc || blob(3, 700000) WHERE id = $ids[0]; UPDATE $table SET doc = overlay(doc placing blob(4, 300) from 500000 for 5) WHERE id = $ids[1];"
		  . " UPDATE $table SET doc = securefile_truncate(doc, 4100000) WHERE id = $ids[3]; UPDATE $table SET doc = securefile_truncate(doc, 12000000) || 'end' WHERE id = $ids[4];"
		  . " UPDATE $table SET doc = securefile_finish(put(securefile_open(doc, 'rw'), 5, 200000)) WHERE id = $ids[5]; UPDATE $table SET doc = doc || doc WHERE id = $ids[2]");
	return;
}

$node->safe_psql('postgres', 'TRUNCATE l, f');
$node->backup('base');
my $standby = new_standby('standby', $node, 'base');

subtest 'a standby' => sub {
	make_versions('l', 10);
	catch_up($node, $standby);
	is(digests($standby, 'l'), digests($node, 'l'), 'all versions are there');
	$node->safe_psql('postgres', "UPDATE l SET doc = doc || blob(8, 100) WHERE id = 11");
	catch_up($node, $standby);
	is(digests($standby, 'l'), digests($node, 'l'), '|| is there');
	is($standby->safe_psql('postgres', "SELECT count(*) FROM securefile_check('l', 'doc')"), 0, 'and sound');
	fails_with($standby, "SELECT securefile_create('l', 'doc')", '25006', '', 'create');
	fails_with($standby, "SELECT securefile_open(doc, 'rw') FROM l WHERE id = 11", '25006', '', 'rw');
	is($standby->safe_psql('postgres', q{
		BEGIN;
		SELECT securefile_open(doc, 'r') AS fd FROM l WHERE id = 11 \gset
		SELECT securefile_seek(:fd, -100, 2) > 0, securefile_read(:fd, 200) = blob(8, 100), securefile_read(:fd, 1), securefile_close(:fd);
		SELECT sum(length(c)) FROM (SELECT securefile_chunks(doc) FROM l WHERE id = 11) s (c);
		SELECT length((doc || 'x')::bytea) - length(doc), length(overlay(doc placing 'abc' from 1)), length(securefile_truncate(doc, 3)::bytea) FROM l WHERE id = 11;
		COMMIT}), "t|t|\\x|0\n" . $node->safe_psql('postgres', 'SELECT length(doc) FROM l WHERE id = 11') . "\n1|" . $node->safe_psql('postgres', 'SELECT length(doc) FROM l WHERE id = 11') . '|3', 'r, streams and edited values work there');

	# a handle there over a row that goes on the primary: right, or cancelled
	my $reader = background($standby);
	$reader->query_safe('BEGIN');
	my $fd = $reader->query_safe("SELECT securefile_open(doc, 'r') FROM l WHERE id = 13");
	my $want = $node->safe_psql('postgres', 'SELECT sha256(doc::bytea) FROM l WHERE id = 13');
	$node->safe_psql('postgres', 'DELETE FROM l WHERE id = 13');
	settle($node, 'l', 'doc', 2);
	fill($node, 'l', 100, 120, 900_000);
	my $got = eval { $reader->query("SELECT sha256(securefile_read($fd, 20000000))") } || '';
	ok($got eq $want || $reader->{stderr} =~ /conflict with recovery|terminat|closed the connection/, 'a handle over a deleted row is right, or cancelled') or diag("$got $reader->{stderr}");
	eval { $reader->quit };
	catch_up($node, $standby);
	is(digests($standby, 'l'), digests($node, 'l'), 'used again');
};

# ---- crashes ----

subtest 'crashes' => sub {
	foreach my $table ('l', 'f')
	{
		$node->safe_psql('postgres', "TRUNCATE $table");
		make_versions($table, 20);
		my $before = digests($node, $table);
		my $stop = sub { my ($how) = @_; $how eq 'crash' ? crash($node) : $node->stop('immediate'); $node->start; return };
		foreach my $how ('crash', 'immediate stop')
		{
			$stop->($how);
			is(digests($node, $table), $before, "$table: committed, then $how");
			my $s = background($node);
			$s->query_safe("BEGIN; UPDATE $table SET doc = doc || blob(1, 3000000) WHERE id = 21; UPDATE $table SET doc = securefile_finish(put(securefile_open(doc, 'rw'), 9, 9000000)) WHERE id = 23;"
				  . " SELECT made('$table', 1, 30000000); DELETE FROM $table WHERE id = 25");
			$stop->($how);
			eval { $s->quit };
			is(digests($node, $table), $before, "$table: not committed, then $how");
			is(settle($node, $table, 'doc')->{pending_bytes}, 0, "$table: nothing pending");
			is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$table', 'doc')"), 0, "$table: sound after $how");
		}
		$node->safe_psql('postgres', "DELETE FROM $table");
		sound($node, $table, "$table: deleted after crashes");
	}
	catch_up($node, $standby);
	$node->safe_psql('postgres', 'CHECKPOINT');
	make_versions('l', 20);
	catch_up($node, $standby);
	crash($standby);
	$standby->start;
	is(digests($standby, 'l'), digests($node, 'l'), 'a standby that crashed');

	# each named point of a commit of a version that shares units
	my ($rc) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	return if $rc != 0;
	# what is left to the syncer is not logged while it is in flight
	$node->safe_psql('postgres', $_) foreach ('ALTER SYSTEM SET securefile.syncer = off', 'SELECT pg_reload_conf()');
	wait_for_sql($node, 'SELECT pid IS NULL FROM securefile_syncer');
	foreach my $table ('l', 'f')
	{
		my $begin = "TRUNCATE $table; INSERT INTO $table VALUES (1, 1, 3000000, blob(1, 3000000))";
		my $sql = through($table, "PERFORM securefile_seek(fd, 1000000, 0); PERFORM securefile_write(fd, blob(6, 500000)); PERFORM securefile_truncate(fd, 2750000);");
		my ($before, $after) = map { $node->safe_psql('postgres', $_); digests($node, $table) } ($begin, $sql);
		foreach my $point ('flush_before_write', 'commit_before_flush', 'commit_data_in_flight', 'commit_after_data', 'commit_after_alloc', 'commit_done')
		{
			$node->safe_psql('postgres', $begin);
			ok(dies_at($node, $point, 'kill', $sql), "$table: dies at $point");
			is(digests($node, $table), $point eq 'commit_done' ? $after : $before, "$table: the row after $point");
			is(settle($node, $table, 'doc')->{pending_bytes}, 0, "$table: nothing pending after $point");
			is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('$table', 'doc')"), 0, "$table: sound after $point");
			$node->safe_psql('postgres', "DELETE FROM $table");
			sound($node, $table, "$table: deleted after $point");
		}
	}
};

# ---- dump, subscribers ----

subtest 'dump and restore' => sub {
	$node->safe_psql('postgres', 'TRUNCATE l, f');
	make_versions($_, 30) for ('l', 'f');
	foreach my $format ('plain', 'custom')
	{
		my $file = $node->basedir . "/dump.$format";
		$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-F', $format, '-f', $file, '-t', 'l', '-t', 'f' ], "pg_dump, $format");
		$node->safe_psql('postgres', "CREATE DATABASE restored_$format");
		$node->safe_psql("restored_$format", 'CREATE EXTENSION securefile');
		$node->command_ok($format eq 'plain' ? [ 'psql', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr("restored_$format"), '-f', $file ]
			: [ 'pg_restore', '-d', $node->connstr("restored_$format"), $file ], "restore, $format");
		foreach my $table ('l', 'f')
		{
			is($node->safe_psql("restored_$format", "SELECT id, length(doc), sha256(doc::bytea) FROM $table ORDER BY id"), digests($node, $table), "$table, $format");
			is($node->safe_psql("restored_$format", "SELECT count(*) FROM securefile_check('$table', 'doc')"), 0, "$table, $format: sound");
		}
		$node->safe_psql('postgres', "DROP DATABASE restored_$format");
	}
};

subtest 'logical replication' => sub {
	my $sub = new_cluster('subscriber', init => { allows_streaming => 'logical' });
	make_table($sub, $_, 'filesystem_like_logging') for ('l', 'f');
	$node->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE l, f');
	$sub->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '" . $node->connstr . " dbname=postgres' PUBLICATION p");
	$sub->wait_for_subscription_sync($node, 's');
	make_versions($_, 40) for ('l', 'f');
	$node->wait_for_catchup('s');
	is(digests($sub, $_), digests($node, $_), "$_: versions as they are made") for ('l', 'f');

	# a subscriber that lags sees versions that share units with what came later
	$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s DISABLE');
	make_versions($_, 50) for ('l', 'f');
	$node->safe_psql('postgres', "BEGIN; UPDATE l SET doc = doc || blob(1, 200000); UPDATE l SET doc = securefile_truncate(doc, length(doc) - 100000); SELECT made('l', 1, 5000000); COMMIT; DELETE FROM f WHERE id % 2 = 1");
	$node->safe_psql('postgres', "SELECT securefile_maintain('l', 'doc'), securefile_maintain('f', 'doc')") for 1 .. 2;
	fill($node, $_, 200, 210, 900_000) for ('l', 'f');
	$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION s ENABLE');
	$node->wait_for_catchup('s');
	is(digests($sub, $_), digests($node, $_), "$_: versions, late") for ('l', 'f');
	$sub->safe_psql('postgres', 'DROP SUBSCRIPTION s');
	$sub->stop;
	$node->safe_psql('postgres', 'DROP PUBLICATION p; DELETE FROM l; DELETE FROM f');
	sound($node, $_, "$_: replicated") for ('l', 'f');
};

$standby->stop;
$node->stop;
done_testing();
