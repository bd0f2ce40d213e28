# The tests of pg_regress and its isolation sibling against a primary whose standby
# compares each page of a segment that it replays with the primary's
# (wal_consistency_checking).  The server's own pages are not compared: they are a third of
# the time.  The setting is read before libraries are loaded; the name of our resource manager
# makes the server look again later.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use File::Basename qw(dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

# make passes the names
my $top = "$FindBin::RealBin/../../..";
my $pgxs = dirname(dirname($ENV{PG_REGRESS}));
my @suites = (
	[ 'regress', $ENV{PG_REGRESS}, $top, $ENV{REGRESS} ],
	[ 'isolation', "$pgxs/isolation/pg_isolation_regress", "$top/test/isolation", $ENV{ISOLATION} ]);

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => [ '--no-locale', '--encoding=UTF8', '--data-checksums' ]);
$primary->append_conf('postgresql.conf', $_)
  for (slurp_file("$top/test/temp.conf"), 'shared_buffers = 32MB', 'max_connections = 30', 'log_statement = none',
	'autovacuum = on', "autovacuum_naptime = '1s'", "wal_consistency_checking = 'securefile'");
$primary->start;
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('consistency', true)});
$primary->backup('base');
my $standby = new_standby('standby', $primary, 'base', q{primary_slot_name = 'consistency'});

foreach my $suite (@suites)
{
	my ($name, $program, $input, $tests) = @$suite;
	my $output = $PostgreSQL::Test::Utils::tmp_check . "/$name";
	mkdir $output or die $!;
	my $rc = system($program, '--bindir=', '--host=' . $primary->host, '--port=' . $primary->port,
		"--inputdir=$input", "--outputdir=$output", '--load-extension=securefile',
		"--dbname=contrib_$name", split ' ', $tests);
	is($rc, 0, "$name passes");
	print slurp_file("$output/regression.diffs") if -s "$output/regression.diffs";
}

# pages of kinds the suites do not make
$primary->safe_psql('contrib_regress', q{
	CREATE TABLE large (id int, doc securefile, doc_f securefile(filesystem_like_logging));
	INSERT INTO large SELECT i, decode(repeat(md5(i::text), 800000), 'hex'), decode(repeat(md5(i::text), 800000), 'hex')
		FROM generate_series(1, 4) i;
	UPDATE large SET doc = '\x00' WHERE id = 1;
	DELETE FROM large WHERE id = 2;
	SELECT securefile_maintain('large', 'doc'), securefile_maintain('large', 'doc_f');
	SELECT securefile_maintain('large', 'doc'), securefile_maintain('large', 'doc_f');
	INSERT INTO large SELECT i, decode(repeat(md5(i::text), 800000), 'hex'), '' FROM generate_series(5, 6) i;});

# nobody grows or cuts a segment between the looks at it
$primary->safe_psql('postgres', 'ALTER SYSTEM SET securefile.monitor = off');
$primary->reload;
monitor_rests($primary, 'contrib_regress') or die 'the monitor does not go';
catch_up($primary, $standby);
is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'the standby lives and has it all');
unlike(slurp_file($standby->logfile), qr/inconsistent page|FATAL|PANIC/, 'no complaint');
foreach my $db ('contrib_regress', 'contrib_isolation')
{
	my $columns = 'SELECT schemaname, relname, attname, file_bytes FROM securefile_columns ORDER BY 1, 2, 3';
	is($standby->safe_psql($db, $columns), $primary->safe_psql($db, $columns), "$db: same columns and files");
	is($standby->safe_psql($db, 'SELECT c.relname, k.finding FROM securefile_columns c, securefile_check(c.relid, c.attname) k'
			. " WHERE k.finding <> 'data left behind' LIMIT 5"), '', "$db: sound there");
}
is(file_sizes($standby), file_sizes($primary), 'same data files');
isnt(file_sizes($primary), '', 'and there are some');
$standby->stop;
$primary->stop;
done_testing();
