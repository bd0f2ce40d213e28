# Trap 5, promises 4 and 7: a locator that outlives its row gives a clear error,
# never other data, whatever has taken its place meanwhile.  Test 212 has what is kept for
# longer; here nothing is kept for procedures.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('stale', conf => ['securefile.monitor = off', 'securefile.procedure_retention = 0']);

# Keep row 1's value over COMMITs in a variable, do $between, then read it.
sub variable_after
{
	my ($table, $between) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', <<"SQL", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		DO \$\$
		DECLARE
			v securefile;
			bytes bytea;
			want bytea;
		BEGIN
			SELECT doc, doc::bytea INTO v, want FROM $table WHERE id = 1;
			COMMIT;
			$between
			bytes := v::bytea;
			RAISE EXCEPTION 'value read: %', CASE WHEN bytes = want THEN 'its own' ELSE 'OTHER DATA' END;
		END \$\$;
SQL
	return $err;
}

# Free row 1's space and write over every free byte of the segment.
my $reuse = sub {
	my ($table, $len) = @_;
	return "DELETE FROM $table WHERE id = 1; COMMIT;"
	  . " PERFORM securefile_maintain('$table', 'doc'); COMMIT;"
	  . " FOR i IN 100 .. 104 + (SELECT free_bytes / $len FROM securefile_usage('$table', 'doc')) LOOP"
	  . " INSERT INTO $table VALUES (i, i, $len, blob(i, $len)); COMMIT; END LOOP;";
};
my $clear = qr/ERROR:  42704: securefile value no longer exists/;

foreach my $case (
	[ 'small',  '',                        49_152 ],
	[ 'fslike', 'filesystem_like_logging', 300_000 ],
	[ 'cached', 'cache',                   300_000 ],
	[ 'inode',  '',                        14_000_000 ])
{
	my ($table, $options, $len) = @$case;
	make_table($node, $table, $options);
	fill($node, $table, 1, 2, $len);
	my $err = variable_after($table, $reuse->($table, $len));
	like($err, $clear, "$table: variable over COMMIT, space reused");
	unlike($err, qr/value read/, "$table: nothing was returned");
	rows_right($node, $table, $node->safe_psql('postgres', "SELECT count(*) FROM $table"), $table);
	sound($node, $table, $table);

	# the same length, the same place, over TRUNCATE
	$node->safe_psql('postgres', "TRUNCATE $table");
	fill($node, $table, 1, 2, $len);
	$err = variable_after($table,
		"TRUNCATE $table; COMMIT; INSERT INTO $table SELECT i, i + 9, $len, blob(i + 9, $len)"
		  . ' FROM generate_series(1, 2) i; COMMIT;');
	like($err, $clear, "$table: variable over TRUNCATE");
	unlike($err, qr/value read/, "$table: nothing was returned");

	# deleted, freed, nothing written there since
	$err = variable_after($table,
		"DELETE FROM $table WHERE id = 1; COMMIT; PERFORM securefile_maintain('$table', 'doc'); COMMIT;");
	like($err, qr/$clear|value read: its own/, "$table: freed and not reused");
	unlike($err, qr/OTHER/, "$table: no other data");
}

# without a reuse it is the value, still
make_table($node, 'living');
fill($node, 'living', 1, 1, 50_000);
like(variable_after('living', 'COMMIT;'), qr/value read: its own/, 'variable of a living row');

# dropped table
make_table($node, 'gone');
fill($node, 'gone', 1, 1, 50_000);
like(variable_after('gone', 'DROP TABLE gone; COMMIT;'), $clear, 'variable over DROP TABLE');

# the same column made anew
make_table($node, 'again');
fill($node, 'again', 1, 1, 50_000);
like(
	variable_after('again',
		'ALTER TABLE again DROP COLUMN doc, ADD COLUMN doc securefile; COMMIT; UPDATE again SET doc = blob(2, 50000); COMMIT;'),
	$clear, 'variable over DROP COLUMN');

# a holdable cursor over what takes the segment away, read and edited: it says what became of the value
my ($session, $out);
my $no_longer = qr/ERROR:  42704: securefile value no longer exists.*DETAIL:  Column 4 of table with OID \d+ has no segment any more/s;
foreach my $change ('DROP TABLE %s', 'ALTER TABLE %s DROP COLUMN doc', 'ALTER TABLE %s ALTER doc TYPE bytea')
{
	foreach my $read ('FETCH ALL h', q{DO $$ DECLARE v securefile; h refcursor := 'h'; BEGIN FETCH h INTO v; PERFORM securefile_open(v, 'rw'); END $$})
	{
		make_table($node, 'short');
		fill($node, 'short', 1, 3, 50_000);
		$session = background($node);
		$session->query('\set VERBOSITY verbose');
		$session->query_safe('SET client_min_messages = error; BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT doc FROM short; COMMIT; ' . sprintf($change, 'short'));
		$out = $session->query($read);
		like($session->{stderr} . $out, $no_longer, sprintf($change, 'short') . ": $read");
		$session->quit;
		$node->safe_psql('postgres', 'DROP TABLE IF EXISTS short');
	}
}

# a stale locator is not stored anywhere either
make_table($node, 'held');
make_table($node, 'target');
like(
	variable_after('held',
		"COMMIT; DELETE FROM held; COMMIT; PERFORM securefile_maintain('held', 'doc'); COMMIT;"
		  . ' INSERT INTO held SELECT i, i, 200000, blob(i, 200000) FROM generate_series(20, 23) i; COMMIT;'
		  . ' INSERT INTO target VALUES (1, 1, 1, v); COMMIT;'),
	qr/ERROR/, 'stale locator written into a row')
  if $node->safe_psql('postgres', 'INSERT INTO held VALUES (1, 1, 200000, blob(1, 200000)) RETURNING id');
is($node->safe_psql('postgres', 'SELECT count(*) FROM target'), 0, 'no row with a stale locator');
sound($node, 'target', 'no row with a stale locator');

# nor the bytes of one: they are contents like any others
$node->safe_psql('postgres',
	q{INSERT INTO target VALUES (2, 2, 64, ('\x0201' || repeat('ab', 62))::bytea)});
is( $node->safe_psql('postgres', q{SELECT doc::bytea = ('\x0201' || repeat('ab', 62))::bytea FROM target}),
	't', 'bytes that look like a locator are contents');

$node->stop;
done_testing();
