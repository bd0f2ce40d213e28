# VACUUM of a table, and of the database, vacuums the segments too: their relfrozenxid
# goes forward, and with it datfrozenxid; for whom core lets vacuum the table, in
# single-user mode near wraparound as well.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run qw(run);
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('vacuum', conf => ['securefile.monitor = off']);
my $len = 10_000;

$node->safe_psql('postgres', q{
	CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE dba LOGIN;
	GRANT ALL ON SCHEMA public TO alice, bob;
	ALTER DATABASE postgres OWNER TO dba;
	-- are the segments of a table, or of its partitions, as new as that transaction id?
	CREATE FUNCTION vacuumed(tab regclass, since text) RETURNS boolean LANGUAGE sql AS $$
		SELECT count(*) > 0 AND bool_and(age(s.relfrozenxid) <= age(since::xid))
		FROM pg_class t JOIN pg_class s ON s.relname = 'pg_securefile_' || t.oid || '_4'
		WHERE t.oid IN (SELECT tab UNION SELECT relid FROM pg_partition_tree(tab))
	$$;});
make_table($node, $_) foreach ('docs', 'other', 'hers', 'his');
make_table($node, 'parts', undef, 'PARTITION BY RANGE (id)');
$node->safe_psql('postgres', q{
	CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (1) TO (6);
	CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (6) TO (100);
	ALTER TABLE hers OWNER TO alice; ALTER TABLE his OWNER TO bob;});
my @tables = ('docs', 'other', 'hers', 'his', 'parts');
fill($node, $_, 1, 10, $len) foreach @tables;

# A transaction id that no vacuum has seen yet, not even as the next one.
sub new_xid
{
	my @xids = split /\n/, $node->safe_psql('postgres', 'SELECT pg_current_xact_id()::xid; SELECT pg_current_xact_id()::xid');
	return $xids[1];
}

# Those of the tables whose segments are as new as that.
sub done_since
{
	my ($since) = @_;
	return join ' ', grep { $node->safe_psql('postgres', "SELECT vacuumed('$_', '$since')") eq 't' } @tables;
}

# One test: a statement, of a role, takes just the segments of these tables along;
# returns what it said.
sub takes
{
	my ($statement, $expected, %params) = @_;
	my $since = new_xid();
	my ($rc, $out, $err) = $node->psql('postgres', $statement,
		extra_params => [ '-U', $params{role} || (getpwuid($<))[0] ]);

	is_deeply([ $rc, done_since($since) ], [ 0, $expected ], ($params{role} ? "$params{role}: " : '') . $statement)
	  or diag($err);
	return $err;
}

# ---- forms of the statement ----

my $all = join ' ', @tables;
takes('VACUUM', $all);
takes('VACUUM FREEZE', $all);
takes('VACUUM docs', 'docs');
takes('VACUUM (FREEZE, VERBOSE OFF, INDEX_CLEANUP AUTO, TRUNCATE OFF, PARALLEL 0) public.docs, pg_class, other, docs', 'docs other');
takes('VACUUM (ANALYZE, DISABLE_PAGE_SKIPPING) docs (id), hers', 'docs hers');
takes('VACUUM parts', 'parts');
takes('VACUUM (SKIP_LOCKED) docs', 'docs');
takes('ANALYZE', '');
takes('ANALYZE docs', '');
takes('VACUUM (PROCESS_TOAST OFF) docs', '');
takes('VACUUM (PROCESS_TOAST OFF)', '');
takes('VACUUM pg_class', '');
like(takes('VACUUM VERBOSE docs', 'docs'), qr/INFO:  vacuumed segment "pg_securefile_\d+_4": \d+ of \d+ pending/, 'VERBOSE tells of it');

my $files = "SELECT string_agg(relfilenode::text, ' ' ORDER BY oid) FROM pg_class WHERE relname LIKE 'pg_securefile%'";
my $before = $node->safe_psql('postgres', $files);
takes('VACUUM FULL docs', 'docs');
takes('VACUUM (FULL, FREEZE)', $all);
is($node->safe_psql('postgres', $files), $before, 'VACUUM FULL does not rewrite segments');

# but where core truncates a table, the first time
$node->safe_psql('postgres', 'VACUUM FREEZE');
$before = new_xid();
$node->safe_psql('postgres', 'VACUUM FREEZE');
is(new_xid() - $before, 2, 'it takes no transaction id');

# prepared, by the extended protocol
my $script = $node->basedir . '/vacuum.sql';
append_to_file($script, "VACUUM docs;\n");
$before = new_xid();
$node->command_ok([ 'pgbench', '-n', '-M', 'prepared', '-t', '2', '-f', $script, '-d', $node->connstr('postgres') ],
	'VACUUM as a prepared statement');
is(done_since($before), 'docs', 'it takes the segment along');

fails_with($node, 'BEGIN; VACUUM docs', '25001', 'VACUUM cannot run inside a transaction block', 'in a transaction block');
fails_with($node, q{DO $$BEGIN EXECUTE 'VACUUM docs'; END$$}, '25001', 'VACUUM cannot be executed from a function', 'in a function');
fails_with($node, 'VACUUM docs, missing', '42P01', 'relation "missing" does not exist', 'a table that is not there');

# ---- who may ----

is(takes('VACUUM hers', 'hers', role => 'alice'), '', 'nothing to warn of');
my $warnings = takes('VACUUM his', '', role => 'alice');
is(() = $warnings =~ /WARNING/g, 1, 'one warning, for the table') or diag($warnings);
takes('VACUUM hers, his', 'hers', role => 'alice');
takes('VACUUM', 'hers', role => 'alice');
is(takes('VACUUM his, hers', 'hers his', role => 'dba'), '', 'the owner of the database may');
$node->safe_psql('postgres', 'ALTER TABLE parts_high OWNER TO alice');
takes('VACUUM parts', '', role => 'alice');
is($node->safe_psql('postgres', "SELECT vacuumed('parts_high', '$before'), vacuumed('parts_low', '$before')"),
	't|f', 'of the partitions, her own');

# ---- datfrozenxid ----

$before = new_xid();
$node->command_ok([ 'vacuumdb', '--all', '--freeze', '--quiet', '-h', $node->host, '-p', $node->port ], 'vacuumdb --all --freeze');
is($node->safe_psql('postgres', "SELECT bool_and(age(datfrozenxid) <= age('$before'::xid)) FROM pg_database WHERE datallowconn"),
	't', 'datfrozenxid goes forward with vacuumdb, which vacuums table by table');
$before = new_xid();
$node->safe_psql('postgres', 'VACUUM FREEZE');
is($node->safe_psql('postgres', "SELECT age(datfrozenxid) <= age('$before'::xid) FROM pg_database WHERE datname = 'postgres'"),
	't', 'datfrozenxid goes forward with VACUUM FREEZE');

# ---- what is left to do, locks, errors ----

$node->safe_psql('postgres', 'DELETE FROM docs WHERE id > 5');
takes('VACUUM docs', 'docs');
is(usage($node, 'docs', 'doc')->{pending_bytes}, 0, 'what was deleted is free');
sound($node, 'docs', 'after all these');

SKIP:
{
	my ($rc) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	skip 'built without fault points', 8 if $rc != 0;

	$node->safe_psql('postgres', 'DELETE FROM docs WHERE id = 5; DELETE FROM other WHERE id = 5');
	arm($node, 'resolve_before', 'error');
	fails_with($node, 'VACUUM other, hers', 'XX000', 'resolve_before', 'an error in a segment');
	disarm($node);
	my $session = background($node);
	arm($node, 'resolve_before', 'error');
	$session->query('VACUUM docs');
	is( $session->query("SELECT current_user = session_user, count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'docs'::regclass"),
		't|0', 'the session is as before, no lock is left');
	$session->quit;
	disarm($node);

	$session = background($node);
	$before = new_xid();	# the session's snapshot will be newer
	ok(held($node, $session, 'resolve_before', "SELECT * FROM securefile_maintain('docs', 'doc')"),
		'a segment that is being worked on');
	$node->safe_psql('postgres', 'VACUUM (SKIP_LOCKED) docs, other');
	is(done_since($before), 'other', 'SKIP_LOCKED leaves it out');
	my ($rc_alice, undef, $err_alice) = $node->psql('postgres', "SET lock_timeout = '1s'; VACUUM hers, docs",
		extra_params => [ '-U', 'alice' ]);
	is($rc_alice, 0, 'who may not vacuum it does not wait for it') or diag($err_alice);
	my $waiting = background($node);
	ok(waits_for_lock($node, $waiting, 'VACUUM docs'), 'VACUUM waits for it');
	resume($node, $session, 'resolve_before');
	$waiting->quit;
	$session->quit;
	takes('VACUUM docs', 'docs');
}

# ---- near wraparound ----

# What single-user mode answers.
sub single_user
{
	my ($db, $statement) = @_;
	my ($out, $err);
	run [ 'postgres', '--single', '-D', $node->data_dir, $db ], '<', \"$statement\n", '>', \$out, '2>', \$err
	  or die "single-user mode: $err";
	unlike($err, qr/ERROR|FATAL|PANIC/, "$db in single-user mode: $statement");
	return $out;
}

# The age that it tells.
sub single_user_age
{
	my ($out) = single_user('postgres', "SELECT age(datfrozenxid) FROM pg_database WHERE datname = 'postgres'") =~ /age = "(\d+)"/;
	return $out;
}

$node->safe_psql('postgres', 'DELETE FROM docs WHERE id > 3');
$node->safe_psql('postgres', 'DELETE FROM parts WHERE id < 3');
my $oldest = $node->safe_psql('postgres', 'SELECT min(datfrozenxid::text::bigint) FROM pg_database');
$node->stop;
my $jump = $oldest + 2**31 - 5000;
$node->command_ok([ 'pg_resetwal', '-x', $jump, $node->data_dir ], 'transaction ids are all but used up');
my $clog = sprintf '%s/pg_xact/%04X', $node->data_dir, $jump / 1_048_576;
write_file($clog, "\0" x 262_144);
cmp_ok(single_user_age(), '>', 2_000_000_000, 'the database is as old as can be');
single_user($_, 'VACUUM FREEZE') foreach ('template1', 'postgres');
cmp_ok(single_user_age(), '<', 1000, 'VACUUM FREEZE in single-user mode makes it young');

$node->start;
ok($node->poll_query_until('postgres', 'SELECT max(age(datfrozenxid)) < 200000000 FROM pg_database'),
	'the server does the rest: template0');
fill($node, 'docs', 20, 25, $len);
rows_right($node, 'docs', 9, 'after it');
sound($node, $_, 'after it') foreach ('docs', 'other');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'nothing in the log');
done_testing();
