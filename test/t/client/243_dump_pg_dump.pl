# securefile dump beside pg_dump: one snapshot, and files that pg_dump leaves out are filled in again.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('dump_pg_dump');
enter($node);
my $bin = (split /\n/, `dirname \$(command -v pg_dump)`)[0];
sql(q{CREATE TABLE docs (id int PRIMARY KEY, document securefile(hash) NOT NULL, other securefile);
	CREATE TABLE refers (id int REFERENCES docs); CREATE TABLE keyless (document securefile);
	INSERT INTO docs SELECT i, blob(i, i * 100000), CASE WHEN i = 4 THEN blob(7, 800000) END FROM generate_series(1, 10) i;
	INSERT INTO refers VALUES (9), (10); INSERT INTO keyless VALUES ('short')});
$ENV{PGOPTIONS} = "-c securefile.dump_oversize_limit=500kB";

sub rows { return $node->safe_psql($_[0], "SELECT count(*), md5(string_agg(md5(t::text), '' ORDER BY id)) FROM docs t"); }

# ---- only what pg_dump leaves out ----
my ($rc, $out, $err) = command('dump', 'd', '--', 'pg_dump', '-Fc', '-f', 'mydb.dump');
is($rc, 0, 'dump with pg_dump') or diag($err);
like((command('dump', '--list', 'd'))[1], qr/ 6 rows, 6 files.*, only what pg_dump has left out  public\.docs\.document, public\.docs\.other$/m, 'has the files that pg_dump leaves out');
unlike($err, qr/keyless/, 'a table without a key does not matter without such files');
$node->safe_psql('postgres', 'CREATE DATABASE there');
is(system('pg_restore', '-d', 'there', 'mydb.dump'), 0, 'pg_restore');
is($node->safe_psql('there', 'SELECT count(*), count(*) FILTER (WHERE securefile_unfilled(document)), count(*) FILTER (WHERE securefile_unfilled(other)) FROM docs'), '10|5|1', 'makes all rows, keys hold');
ends(1, qr/not restored/, 'a dump of rows that are not filled says so', 'dump', '-d', 'there', '-t', 'docs', '-c', 'document', 'unfilled');
{
	local $ENV{PGOPTIONS};
	ends(1, qr/not restored.*6 failed/s, 'and so it does beside pg_dump, also if pg_dump would write such files now', 'dump', '-d', 'there', 'unfilled', '--', 'pg_dump', '-Fc', '-f', 'unfilled.dump');
}
ends(0, qr/\(dry run\): 6 put/, 'restore --dry-run', 'restore', '--all', '-d', 'there', 'd', '--dry-run');
ends(0, qr/, which only has what pg_dump has left out\n.*6 put/s, 'restore', 'restore', '--all', '-d', 'there', 'd');
is(rows('there'), rows('postgres'), 'all rows are equal');
ends(0, qr/6 same/, 'again', 'restore', '--all', '-d', 'there', 'd');
sql(q{INSERT INTO keyless SELECT blob(1, 600000)});
ends(1, qr/keyless.*no primary key/s, 'with such a file it matters', 'dump', 'd', '--', 'pg_dump', '-Fc', '-f', 'mydb.dump');
sql('DROP TABLE keyless');

# ---- one snapshot: both wait for a table while another one changes ----
my $locker = background($node);
$locker->query_safe('BEGIN; LOCK TABLE refers');
$node->safe_psql('postgres', 'CREATE TABLE late (id int PRIMARY KEY, document securefile)');
my $run = IPC::Run::start([ 'securefile', 'dump', '--all', 'both', '--', "$bin/pg_dump", '-Fc', '-f', 'both.dump' ], '<', '/dev/null', '>', \$out, '2>', \$err);
wait_for_sql($node, q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'refers'::regclass AND NOT granted}) or die 'pg_dump does not wait';
my $before = rows('postgres');
sql(q{UPDATE docs SET document = blob(77, 300000) WHERE id IN (2, 8); INSERT INTO late VALUES (1, 'late')});
$locker->query_safe('COMMIT');
$run->finish;
is(status_of($run->full_result(0)), 0, 'dump --all with pg_dump, by its path') or diag($err);
$node->safe_psql('postgres', 'CREATE DATABASE twice');
is(system('pg_restore', '-d', 'twice', 'both.dump'), 0, 'pg_restore');
ends(0, qr/5 same|put/, 'restore', 'restore', '--all', '-d', 'twice', 'both');
is(rows('twice'), $before, 'both have the rows of one moment');
is($node->safe_psql('twice', 'SELECT count(*) FROM late'), 0, 'and not what came later');

# ---- a role that may read one of the tables ----
sql('CREATE ROLE one LOGIN; GRANT SELECT ON docs TO one');
ends(0, qr/5 same/, 'what pg_dump does not dump does not matter', 'dump', '-U', 'one', 'd', '--', 'pg_dump', '-t', 'docs', '-Fc', '-f', 'one.dump');

# ---- failures ----
($rc, $out, $err) = command('dump', 'd', '--', 'pg_dump', '-Fc', '-f', 'none/mydb.dump');
like("$rc $err", qr/^1 .*pg_dump ended with status 1/s, 'pg_dump fails');
like((command('dump', 'd', '--', '/none/pg_dump'))[2], qr/could not execute pg_dump/, 'there is no pg_dump');
($rc, $out, $err) = command('dump', 'd', '--', 'pg_dump', '--schema-only');
like($out, qr/CREATE TABLE public\.docs/, 'pg_dump writes to standard output');
unlike($out, qr/^\d{4}-.*Z$/m, 'and nothing else does');
$locker->query_safe('BEGIN; LOCK TABLE docs');
my $broken = IPC::Run::start([ 'securefile', 'dump', '-t', 'docs', '-c', 'document', 'd', '--', 'pg_dump', '-Fc', '-f', 'mydb.dump' ], '<', '/dev/null', '>', \$out, '2>', \$err);
wait_for_sql($node, q{SELECT count(*) = 2 FROM pg_locks WHERE relation = 'docs'::regclass AND NOT granted}) or die 'they do not wait';
kill 'TERM', $broken->{KIDS}[0]{PID};
$broken->finish;
is(status_of($broken->full_result(0)), 143, 'SIGTERM');
ok(wait_for_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pg_dump'}), 'ends pg_dump, too');
$locker->quit;

$node->stop;
done_testing();
