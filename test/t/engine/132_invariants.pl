# Each numbered invariant that code can check has an assertion of its name, which runs
# in builds with fault points.  A fault point break_<name> breaks the invariant on
# purpose: the process aborts, the log names the invariant, and after the restart the
# data is as it was.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileBytes;
use SecurefileTest;
use Test::More;

my $node = new_cluster('invariants',
	conf => [ master_key(), 'restart_after_crash = on', 'wal_level = logical', "wal_writer_delay = '10s'",
		'securefile.monitor = off' ]);
need_faults($node);
prepare_handles($node);
make_table($node, 't');
fill($node, 't', 1, 20, 5000);
fill($node, 't', 21, 22, 400000);
make_table($node, 'lost');
make_table($node, 'secret', 'encrypt');
make_table($node, 'shared', 'deduplicate');
$node->safe_psql('postgres', q{
	CREATE TABLE sparse (id int, doc securefile);
	CREATE FUNCTION sparse() RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		fd int := securefile_create('sparse', 'doc');
	BEGIN
		PERFORM securefile_write(fd, blob(1, 5000));
		PERFORM securefile_seek(fd, 70000000, 0);
		PERFORM securefile_write(fd, blob(2, 5000));
		RETURN fd;
	END $$;
	INSERT INTO sparse SELECT 1, securefile_finish(sparse());
	CREATE FUNCTION renames() RETURNS int LANGUAGE plpgsql AS $$
	BEGIN
		ALTER TABLE made_here RENAME COLUMN n TO m;
		RETURN 1;
	END $$;
	CREATE PUBLICATION p FOR TABLE lost;
});

my $insert = 'INSERT INTO t SELECT 100, 100, 5000, blob(100, 5000)';
my $open = "SELECT securefile_open(doc, 'rw') AS fd FROM";
my $decode = q{SELECT count(*) FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')};
my $encrypt = 'DELETE FROM secret; INSERT INTO secret SELECT 1, 1, 5000, blob(1, 5000)';
my $shred = "SELECT securefile_shred('secret', 'doc', true)";
my $early = 'SET securefile.transaction_memory = 0; BEGIN';

# What breaks an invariant, when its point is armed at ARM, always or once.
my %breaks = (
	s1 => "ARM; $insert",
	s2 => "ARM; $insert",
	s3 => "ARM; $insert",
	s4 => "ARM; $insert",
	s5 => "$insert; DELETE FROM t WHERE id = 100; ARM; SELECT securefile_maintain('t', 'doc')",
	s6 => "ARM; $insert",
	g1 => "ARM; $insert",
	g2 => "ARM; BEGIN; $insert; INSERT INTO lost SELECT 9, 9, 5000, blob(9, 5000); INSERT INTO t SELECT 101, 101, 5000, blob(101, 5000)",
	g3 => "ARM; $insert",
	e1 => "BEGIN; $open sparse \\gset\nARM; SELECT securefile_seek(:fd, 70000000, 0); SELECT securefile_write(:fd, 'x'); SELECT length(securefile_finish(:fd))",
	e2 => "BEGIN; $open sparse \\gset\nALWAYS; SELECT securefile_seek(:fd, 60000000, 0); SELECT securefile_write(:fd, 'x'); SELECT securefile_truncate(:fd, 69000000); SELECT length(securefile_finish(:fd))",
	e3 => "BEGIN; $open sparse \\gset\nARM; SELECT securefile_seek(:fd, 80000000, 0); SELECT securefile_write(:fd, 'x')",
	e4 => "BEGIN; SELECT sparse() AS fd \\gset\nSELECT securefile_truncate(:fd, 1000); SELECT securefile_truncate(:fd, 70000000);"
	  . ' SELECT securefile_truncate(:fd, 140000000); ARM; SELECT length(securefile_finish(:fd))',
	o1 => "BEGIN; $open t WHERE id = 1 \\gset\nSELECT securefile_write(:fd, 'x'); ARM; UPDATE t SET doc = securefile_finish(:fd) WHERE id = 2",
	o2 => "BEGIN; $open t WHERE id = 21 \\gset\nSELECT securefile_write(:fd, 'x'); ARM; UPDATE t SET doc = securefile_finish(:fd) WHERE id = 21",
	k1 => "ALWAYS; $decode",
	k2 => "ARM; $decode",
	f1 => "SELECT securefile_fault('break_f1', 'skip', skip => 1); SELECT securefile_fault_fired('break_f1')",
	l1 => "ARM; $early; SAVEPOINT a; DELETE FROM t",
	l2 => "ARM; $early; SAVEPOINT a; DELETE FROM t",
	l3 => "ARM; $early; SAVEPOINT a; $insert",
	l4 => "ARM; $early; DELETE FROM t",
	l5 => 'ALWAYS; BEGIN; DELETE FROM t; SAVEPOINT a; TRUNCATE t; SET securefile.transaction_memory = 0;'
	  . ' INSERT INTO lost SELECT 9, 9, 5000, blob(9, 5000)',
	t1 => "BEGIN; $open t WHERE id = 1 \\gset\nARM; SELECT securefile_truncate(:fd, 3000)",
	t2 => "BEGIN; $open t WHERE id = 1 \\gset\nARM; SELECT securefile_write(:fd, 'x'); SELECT length(securefile_finish(:fd))",
	t3 => "BEGIN; SELECT securefile_create('t', 'doc') AS fd \\gset\nALWAYS; SELECT securefile_write(:fd, blob(1, 300000))",
	n1 => 'ARM; CREATE TABLE other (id int PRIMARY KEY, doc securefile)',
	n3 => 'ALWAYS; CREATE TABLE made_here AS SELECT doc, renames() AS n FROM t WHERE id = 1',
	x1 => "$encrypt; BEGIN; $shred; ARM; $shred",
	x2 => "$encrypt; $shred; ARM; SELECT securefile_maintain('secret', 'doc')",
	x3 => "$encrypt; $shred; $encrypt; ARM; $shred",
	m1 => "BEGIN; INSERT INTO sparse SELECT 2, securefile_finish(sparse()); ARM; INSERT INTO sparse SELECT 3, doc FROM sparse WHERE id = 2",
	m2 => 'ALWAYS; DELETE FROM sparse',
	rule_1 => "$insert; DELETE FROM t WHERE id = 100; ARM; SELECT securefile_maintain('t', 'doc')",
	rule_2 => "$insert; DELETE FROM t WHERE id = 100; ALWAYS; BEGIN; SELECT securefile_maintain('t', 'doc'); $insert",
	d1 => "ALWAYS; INSERT INTO shared VALUES (2, 1, 50000, blob(1, 50000))",
	# modules of their tests do these: 163_advice, 214_lend_below, 290_low_first, 294_release, 299_auto_release
	a1 => '',
	a2 => '',
	s7 => '',
	s8 => '',
	s9 => '',
	unpromised => '',
	unproved => '',
	proved => '',
	unwritten => '',
	# a worker of the monitor, or the syncer, is the one that does it: see below
	rule_4 => '',
	y1 => '',
	y2 => '',
	y3 => '');

is_deeply([ sort keys %breaks ], [ sort map { s/^break_//r } fault_points('^break_') ], 'there is one for each point');

# What another session does first, whose transaction is open then.
my %beside = (d1 => 'BEGIN; INSERT INTO shared VALUES (1, 1, 50000, blob(1, 50000))');

# One test: the server has restarted since its log was of that size, for that invariant.
sub trapped
{
	my ($name, $since) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $sign = $name =~ /^rule/ ? $name : uc $name;
	wait_restart($node, $since);
	return like(substr(slurp($node->logfile), $since), qr/^TRAP: securefile assertion failed: $sign: /m, "$name is asserted");
}

sub as_before
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($node, 't', 22, $name);
	sound($node, 't', $name);
	is($node->safe_psql('postgres', "SELECT length(doc), substring(doc FROM 70000001) = blob(2, 5000) FROM sparse; SELECT * FROM securefile_check('sparse', 'doc')"),
		'70005000|t', "$name: the value of holes");
	return;
}

# Run what breaks an invariant, in a session of its own.
sub breaks
{
	my ($name) = @_;
	my $sql = $breaks{$name};
	my $since = -s $node->logfile;
	my $beside = $beside{$name} && background($node);
	$beside->query_safe($beside{$name}) if $beside;
	my $arm = "SELECT securefile_fault('break_$name', 'skip', pid => pg_backend_pid()";
	$sql =~ s/ARM/$arm)/;
	$sql =~ s/ALWAYS/$arm, times => -1)/;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	like($err, qr/server closed the connection|connection to server was lost/, "$name: the process is gone")
	  and trapped($name, $since);
	eval { $beside->quit } if $beside;
	return;
}

# a copy of pages, made by a transaction that was rolled back, is there
$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
fill($node, 'lost', 1, 3, 30000);
$node->safe_psql('postgres', "BEGIN; TRUNCATE lost; PREPARE TRANSACTION 'p'");
$node->safe_psql('postgres', "ROLLBACK PREPARED 'p'");
breaks($_) for ('k1', 'k2');
# a slot keeps space pending
$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('s')");
rows_right($node, 'lost', 3, 'K');
sound($node, 'lost', 'K');

foreach my $name (grep { $breaks{$_} && !/^k/ } sort keys %breaks)
{
	breaks($name);
	as_before($name);
}

my $since;
foreach my $name ('y1', 'y2', 'y3')
{
	$since = -s $node->logfile;
	$node->safe_psql('postgres', "SELECT securefile_fault('break_$name', 'skip', times => -1)");
	my $fill = 'INSERT INTO gone VALUES (blob(1, 5000)); SELECT pg_sleep(0.01);';
	wait_until(sub {
		$node->psql('postgres', "CREATE TABLE gone (doc securefile); $fill $fill $fill DROP TABLE gone");
		substr(slurp($node->logfile), $since) =~ /^TRAP/m;
	});
	trapped($name, $since);
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS gone');
	as_before($name);
}

$since = -s $node->logfile;
$node->safe_psql('postgres', "SELECT securefile_fault('break_rule_4', 'skip')");
$node->append_conf('postgresql.conf', 'securefile.monitor = on');
$node->reload;
trapped('rule_4', $since);
as_before('rule_4');
$node->stop;
done_testing();
