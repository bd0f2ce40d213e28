# A function of one role is never run with the rights of another one.  A role puts functions
# of its own into every place that a table, a type or a schema has for them; a superuser
# then runs DDL, maintenance and the functions of the extension.  The same commands in a
# database without the extension say how often PostgreSQL itself calls such a function as
# the superuser: the extension may not add a call.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('rights', conf => ["securefile.monitor_naptime = '1h'"]);

sub as_mallory
{
	my ($db, $sql) = @_;
	my ($rc, $out, $err) = $node->psql($db, $sql, extra_params => [ '-U', 'mallory' ], on_error_stop => 1);
	die "mallory in $db: $err" if $rc != 0;
	return $out;
}

# What the role has in a database; type: of the column of files.
sub plant
{
	my ($db, $type) = @_;
	$node->safe_psql($db, 'GRANT ALL ON SCHEMA public TO mallory; CREATE SCHEMA mallory AUTHORIZATION mallory;'
		  . ' CREATE SCHEMA other AUTHORIZATION mallory; ALTER ROLE mallory SET search_path = mallory, public');
	as_mallory($db, q{
		CREATE SEQUENCE calls MINVALUE 0 START 0;
		SELECT nextval('calls');
		CREATE FUNCTION spy() RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
				PERFORM pg_catalog.nextval('mallory.calls');
			END IF;
		END $$;
		CREATE FUNCTION evil(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN PERFORM mallory.spy(); RETURN $1; END $$;
		CREATE FUNCTION evil_row() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM mallory.spy(); RETURN NEW; END $$;
	});

	# what the views and functions of the extension might find by name
	my @shadows;
	foreach my $args ('oid, int', 'oid, regclass', 'regclass, oid', 'oid, regnamespace', 'int, int2', 'int2, int', '"char", text', 'name, text')
	{
		my ($left, $right) = split /, /, $args;
		my $name = 'eq' . scalar(@shadows);
		push @shadows, "CREATE FUNCTION public.$name($args) RETURNS bool LANGUAGE plpgsql AS "
		  . '$$ BEGIN PERFORM mallory.spy(); RETURN $1::text = $2::text; END $$;'
		  . "CREATE OPERATOR public.= (LEFTARG = $left, RIGHTARG = $right, FUNCTION = public.$name);";
	}
	push @shadows, 'CREATE FUNCTION public.quotient(bigint, float8) RETURNS float8 LANGUAGE plpgsql AS '
	  . '$$ BEGIN PERFORM mallory.spy(); RETURN 0; END $$;'
	  . 'CREATE OPERATOR public./ (LEFTARG = bigint, RIGHTARG = float8, FUNCTION = public.quotient);';
	as_mallory($db, join("\n", @shadows));
	$node->safe_psql($db, 'CREATE EXTENSION securefile') if $type eq 'securefile';

	as_mallory($db, qq{
		CREATE DOMAIN number AS int CHECK (VALUE >= mallory.evil(0));
		CREATE DOMAIN file AS $type CHECK (mallory.evil(1) = 1);
		CREATE TABLE m (
			id int PRIMARY KEY,
			a int DEFAULT evil(1) CHECK (a >= evil(0)),
			n number,
			g int GENERATED ALWAYS AS (a + evil(0)) STORED,
			d $type,
			f file,
			x text
		);
		CREATE INDEX m1 ON m ((a + evil(0)));
		CREATE INDEX m2 ON m (a) WHERE a > evil(0);
		CREATE INDEX m3 ON m ((length(d) + evil(0)));
		CREATE UNIQUE INDEX m4 ON m (id, (a + evil(0)));
		CREATE STATISTICS m5 ON (a + evil(0)), (g + evil(1)) FROM m;
		CREATE TRIGGER m6 BEFORE INSERT OR UPDATE ON m FOR EACH ROW EXECUTE FUNCTION evil_row();
		CREATE POLICY m7 ON m USING (a > evil(0));
		ALTER TABLE m ENABLE ROW LEVEL SECURITY;
		CREATE VIEW v AS SELECT id, evil(a) AS a FROM m;
		CREATE TABLE p (a int, d $type) PARTITION BY RANGE ((a + evil(0)));
		CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (evil(0)) TO (10);
		CREATE TABLE p2 (a int CHECK (a + evil(0) >= 10 AND a + evil(0) < 20), d $type);
		CREATE INDEX p3 ON p ((a + evil(0)));
		CREATE TABLE plain (a int);
		CREATE INDEX plain1 ON plain ((a + evil(0))) WHERE a > evil(0);
		INSERT INTO m (id, a, n, d, f) SELECT i, i, i, convert_to(repeat('x', 5000 * i), 'UTF8'), 'small' FROM generate_series(1, 5) i;
		INSERT INTO p VALUES (1, convert_to(repeat('y', 10000), 'UTF8'));
		INSERT INTO plain VALUES (1);
	});
}

# How often a command made a function of the role run as the superuser.  A new
# session each: what a session has folded once it does not fold again.
sub calls
{
	my ($db, $command) = @_;
	my $before = $node->safe_psql($db, 'SELECT last_value FROM mallory.calls');
	my ($rc, $out, $err) = $node->psql($db, $command);
	my $after = $node->safe_psql($db, 'SELECT last_value FROM mallory.calls');
	return ($after - $before, $rc == 0 ? '' : $err);
}

$node->safe_psql('postgres', 'CREATE ROLE mallory LOGIN; CREATE ROLE heir LOGIN; CREATE DATABASE with_it; CREATE DATABASE without_it');
mkdir $node->basedir . '/space' or die "could not make a directory: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '" . $node->basedir . "/space'");
plant('with_it', 'securefile');
plant('without_it', 'bytea');

my @commands = (
	'VACUUM mallory.m', 'VACUUM FREEZE', 'VACUUM FULL mallory.m', 'ANALYZE mallory.m', 'VACUUM ANALYZE', 'ANALYZE mallory.p',
	'CLUSTER mallory.m USING m1', 'CLUSTER mallory.m USING m_pkey',
	'REINDEX INDEX mallory.m1', 'REINDEX TABLE mallory.m', 'REINDEX TABLE CONCURRENTLY mallory.m', 'REINDEX SCHEMA mallory',
	'CREATE INDEX i1 ON mallory.m (id)', 'CREATE INDEX CONCURRENTLY i2 ON mallory.m (id)',
	'CREATE INDEX CONCURRENTLY i3 ON mallory.m ((a + mallory.evil(0)))', 'CREATE INDEX i4 ON mallory.m USING brin (id)',
	'CREATE INDEX i5 ON mallory.m ((a + mallory.evil(0))) WHERE a > mallory.evil(0)', 'CREATE INDEX i6 ON mallory.p (a)',
	'DROP INDEX CONCURRENTLY mallory.i2', 'DROP INDEX mallory.i5',
	'ALTER INDEX mallory.m1 SET (fillfactor = 80)', 'ALTER INDEX mallory.plain1 SET (fillfactor = 80)', 'ALTER INDEX mallory.m1 RESET (fillfactor)',
	'ALTER INDEX mallory.m2 RENAME TO m2x', 'ALTER INDEX mallory.m3 SET TABLESPACE space', 'ALTER INDEX mallory.m1 ALTER COLUMN 1 SET STATISTICS 50',
	'ALTER TABLE mallory.m OWNER TO heir', 'ALTER TABLE mallory.m OWNER TO mallory', 'ALTER TABLE mallory.plain OWNER TO heir',
	'REASSIGN OWNED BY heir TO mallory', 'ALTER TABLE mallory.m SET SCHEMA other', 'ALTER TABLE other.m SET SCHEMA mallory',
	'ALTER TABLE mallory.m RENAME TO m9', 'ALTER TABLE mallory.m9 RENAME TO m', 'ALTER TABLE mallory.m RENAME COLUMN x TO y',
	'ALTER TABLE mallory.m ADD COLUMN z int', 'ALTER TABLE mallory.m ADD COLUMN z1 int DEFAULT mallory.evil(3)', 'ALTER TABLE mallory.m DROP COLUMN z',
	'ALTER TABLE mallory.m ADD COLUMN e TYPE', 'ALTER TABLE mallory.m DROP COLUMN e', 'ALTER TABLE mallory.m ADD COLUMN e1 mallory.file',
	'ALTER TABLE mallory.m ALTER COLUMN a TYPE bigint', 'ALTER TABLE mallory.m ALTER COLUMN d SET STORAGE EXTERNAL', 'ALTER TABLE mallory.m ALTER COLUMN y SET STATISTICS 10',
	'ALTER TABLE mallory.m ALTER COLUMN f TYPE bytea', 'ALTER TABLE mallory.m ALTER COLUMN f TYPE mallory.file',
	'ALTER TABLE mallory.m DISABLE TRIGGER ALL', 'ALTER TABLE mallory.m ENABLE TRIGGER ALL', 'ALTER TABLE mallory.m FORCE ROW LEVEL SECURITY',
	'ALTER TABLE mallory.m ADD CONSTRAINT c1 CHECK (id > 0)', 'ALTER TABLE mallory.m ADD CONSTRAINT c2 CHECK (id > 0) NOT VALID', 'ALTER TABLE mallory.m VALIDATE CONSTRAINT c2',
	'ALTER TABLE mallory.m SET TABLESPACE space', 'ALTER TABLE mallory.m SET (autovacuum_enabled = off)', 'ALTER TABLE mallory.m CLUSTER ON m1',
	'ALTER TABLE mallory.m REPLICA IDENTITY FULL', 'ALTER TABLE mallory.plain SET UNLOGGED', 'ALTER TABLE mallory.plain SET LOGGED',
	'ALTER TABLE mallory.p ATTACH PARTITION mallory.p2 FOR VALUES FROM (10) TO (20)', 'ALTER TABLE mallory.p DETACH PARTITION mallory.p2',
	'CREATE TABLE mallory.like_m (LIKE mallory.m INCLUDING ALL)', 'CREATE TABLE mallory.as_m AS SELECT id, d FROM mallory.m', 'SELECT id, d INTO mallory.into_m FROM mallory.m',
	'CREATE TABLE mallory.heirs () INHERITS (mallory.m)', 'CREATE TABLE mallory.p4 PARTITION OF mallory.p DEFAULT', 'CREATE TABLE mallory.fresh (n mallory.number, f mallory.file)',
	'INSERT INTO mallory.m (id, a, d) VALUES (100, 1, convert_to(repeat($$z$$, 9000), $$UTF8$$))', 'UPDATE mallory.m SET d = d || $$\x00$$ WHERE id = 1', 'DELETE FROM mallory.m WHERE id = 2',
	'INSERT INTO mallory.p SELECT a, d FROM mallory.p', 'COPY mallory.m (id, d) TO STDOUT', 'TRUNCATE mallory.p',
	'CREATE STATISTICS mallory.s1 ON (id + a) FROM mallory.m', 'DROP STATISTICS mallory.m5', 'COMMENT ON TABLE mallory.m IS $$x$$', 'GRANT SELECT ON mallory.m TO heir',
	'ALTER DOMAIN mallory.number ADD CONSTRAINT c3 CHECK (VALUE > -10)', 'ALTER DOMAIN mallory.file RENAME TO file2', 'ALTER FUNCTION mallory.evil(int) COST 10',
	'CREATE MATERIALIZED VIEW mallory.mv AS SELECT * FROM mallory.v', 'REFRESH MATERIALIZED VIEW mallory.mv', 'CREATE PUBLICATION pub FOR TABLE mallory.m', 'DROP PUBLICATION pub',
	'DROP TABLE mallory.as_m', 'DROP SCHEMA other CASCADE');
my @functions = (
	"SELECT * FROM securefile_check('mallory.m', 'd')", "SELECT * FROM securefile_repair('mallory.m', 'd')", "SELECT * FROM securefile_repair('mallory.m', 'd', false)",
	"SELECT securefile_rewrite('mallory.m', 'd')", "SELECT securefile_rewrite('mallory.m', 'f')", "SELECT securefile_rewrite('mallory.m', 'd', 'filesystem_like_logging')",
	"SELECT securefile_set_tablespace('mallory.m', 'd', 'pg_default')", "SELECT securefile_maintain('mallory.m', 'd')", "SELECT securefile_usage('mallory.m', 'd')",
	"SELECT securefile_usage('mallory.p', 'd')", "SELECT securefile_upgrade_finish()", 'SELECT * FROM securefile_columns', 'SELECT * FROM securefile_stat', 'SELECT * FROM securefile_monitor',
	'SELECT securefile_stat_reset()', "SELECT securefile_create('mallory.m', 'd')");

foreach my $command (@commands, @functions)
{
	my $own = $command =~ /securefile_/;
	(my $as_bytea = $command) =~ s/\bTYPE$/bytea/;
	(my $as_file = $command) =~ s/\bTYPE$/securefile/;
	my ($allowed, $why_not) = $own ? (0, '') : calls('without_it', $as_bytea);
	my ($added, $error) = calls('with_it', $as_file);
	# who writes rows runs the owner's triggers, checks and expressions, as in PostgreSQL
	cmp_ok($added, '<=', $allowed, "as superuser: $command") unless $command =~ /^(INSERT|UPDATE|DELETE)/;
	is($error, $why_not, "it goes as without the extension: $command") unless $own && $command !~ /maintain|usage|check|rewrite/;
}

# the functions that read rows by a query, which run what a SELECT of the caller runs
foreach my $table ('m', 'p')
{
	my ($allowed) = calls('without_it', "SELECT d FROM mallory.$table TABLESAMPLE bernoulli (100) WHERE d IS NOT NULL ORDER BY random() LIMIT 100");
	my ($added, $error) = calls('with_it', "SELECT * FROM securefile_estimate('mallory.$table', 'd')");
	cmp_ok($added, '<=', $allowed, "securefile_estimate() of $table runs what a SELECT does");
	is($error, '', "securefile_estimate() of $table");
	($allowed) = calls('without_it', "SELECT d FROM mallory.$table WHERE d IS NOT NULL");
	($added, $error) = calls('with_it', "SELECT * FROM securefile_duplicates('mallory.$table', 'd')");
	cmp_ok($added, '<=', $allowed, "securefile_duplicates() of $table runs what a SELECT does");
	is($error, '', "securefile_duplicates() of $table");
}

# VACUUM and the monitor by themselves
my ($added) = calls('with_it', "SELECT securefile_maintain(relid, attname) FROM securefile_columns WHERE attname <> 'f'");
is($added, 0, 'maintenance of all columns');

# the way it was found: an index that a superuser touches
as_mallory('with_it', q{
	CREATE FUNCTION seize() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
			EXECUTE 'ALTER ROLE mallory SUPERUSER';
		END IF;
	END $$;
	CREATE FUNCTION lure(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM mallory.seize(); RETURN $1; END $$;
	CREATE TABLE trap (a int);
	CREATE INDEX trap1 ON trap ((a + lure(0)))});
foreach my $command ('ALTER INDEX mallory.trap1 SET (fillfactor = 80)', 'ALTER TABLE mallory.trap OWNER TO heir', 'REASSIGN OWNED BY heir TO mallory')
{
	$node->safe_psql('with_it', $command);
	is($node->safe_psql('with_it', "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), 'f', "no superuser by $command");
}

$node->stop;
done_testing();
