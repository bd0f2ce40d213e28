# Versions of the SQL objects and of the library that differ: ALTER EXTENSION UPDATE from a made-up
# older version, which is then the same as a new one; SQL objects that this library is too old
# for, or too new.  Each says so, and nothing is lost.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('update', conf => ['securefile.monitor = off']);
sub in_database { return $node->safe_psql($_[0], $_[1]) }

my ($newest) = slurp("$FindBin::RealBin/../../../securefile.control") =~ /^default_version = '(.*)'$/m;
# ---- scripts of versions that there are not ----

my $directory = in_database('postgres', q{SELECT setting || '/extension' FROM pg_config WHERE name = 'SHAREDIR'});
plan skip_all => "not writable: $directory" unless -w $directory;
is(in_database('postgres', 'SELECT extension FROM securefile_version()'), $newest, 'a new database has the newest version');
my $script = slurp("$directory/securefile--$newest.sql");
my @made;

sub make_script
{
	my ($name, $text) = @_;
	push @made, "$directory/$name";
	open my $out, '>', "$directory/$name" or die "$directory/$name: $!";
	print $out $text;
	close $out or die "$directory/$name: $!";
	return;
}
END { unlink @made; }

# a function and a view of the script, with comment and rights
my ($function) = $script =~ /^(CREATE FUNCTION securefile_kept_space\(.*?)\n\n/ms;
my ($view) = $script =~ /^(CREATE VIEW securefile_syncer AS.*?)\n\n/ms;
like("$function$view", qr/REVOKE.*GRANT EXECUTE.*GRANT SELECT/s, 'what the update brings');

# 0.9 is without the function, and with a column less in the view
make_script("securefile--0.9--$newest.sql", "DROP VIEW securefile_syncer;\n$view\n$function\nALTER FUNCTION securefile_hash(securefile) COST 100;\n");
# two later ones, of which the second names a function that this library does not have
make_script("securefile--$newest--90.0.sql", "CREATE FUNCTION securefile_later() RETURNS int LANGUAGE sql AS 'SELECT 1';\n");
make_script("securefile--$newest--91.0.sql", "CREATE FUNCTION securefile_later() RETURNS int LANGUAGE c AS 'MODULE_PATHNAME';\n");

# ---- databases ----

# All that the extension has made, as far as it can be compared: rights, comments, definitions.
my $members = q{
	SELECT i.type, i.identity, obj_description(d.objid, d.classid::regclass::text), p.proacl, p.provolatile, p.proparallel, p.proisstrict, p.procost, p.prorows,
		pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.prosrc, c.relacl, pg_get_viewdef(c.oid)
	FROM pg_depend d
		JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND d.deptype = 'e' AND e.extname = 'securefile'
		CROSS JOIN pg_identify_object(d.classid, d.objid, d.objsubid) i
		LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
		LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
	ORDER BY 1, 2};
cmp_ok(scalar(split /\n/, in_database('postgres', $members)), '>', 130, 'objects');

sub make_database
{
	my ($db, $schema) = @_;
	in_database('postgres', "CREATE DATABASE $db");
	in_database($db, "CREATE SCHEMA IF NOT EXISTS $schema; CREATE EXTENSION securefile SCHEMA $schema; ALTER DATABASE $db SET search_path = public, $schema");
	in_database($db, q{
		CREATE FUNCTION blob(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
		$$ SELECT substring(coalesce(convert_to(string_agg(repeat(md5(seed || ':' || i), 16), ''), 'SQL_ASCII'), '') FOR len) FROM generate_series(1, (len + 511) / 512) i $$;
		CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile);
		INSERT INTO t SELECT i, i, i * 3000, blob(i, i * 3000) FROM generate_series(1, 10) i;
		ALTER TABLE t ALTER doc TYPE securefile(compress);
		INSERT INTO t SELECT i, i, i * 30000, blob(i, i * 30000) FROM generate_series(11, 20) i});
	return;
}

# The extension says that it has another version.
sub set_version { my ($db, $version) = @_; return in_database($db, "UPDATE pg_extension SET extversion = '$version' WHERE extname = 'securefile'") }

# A database with the objects of 0.9.
sub make_old
{
	my ($db, $schema) = @_;
	make_database($db, $schema);
	in_database($db, qq{ALTER EXTENSION securefile DROP FUNCTION securefile_kept_space(); DROP FUNCTION securefile_kept_space(); ALTER FUNCTION securefile_hash(securefile) COST 1;
		ALTER EXTENSION securefile DROP VIEW securefile_syncer; DROP VIEW securefile_syncer; CREATE VIEW $schema.securefile_syncer AS SELECT s.pid, s.active FROM securefile_syncer_state() s; ALTER EXTENSION securefile ADD VIEW securefile_syncer});
	set_version($db, '0.9');
	return;
}

sub right { my ($db, $name) = @_; local $Test::Builder::Level = $Test::Builder::Level + 1; return rows_right($node, 't', 20, $name, $db) }
sub version { return in_database($_[0], 'SELECT extension FROM securefile_version()') }

# ---- objects that are too old ----

my $too_old = qr/the SQL objects of securefile are too old for its library.*Library \S+ is loaded, and extension securefile has version 0\.9.*ALTER EXTENSION securefile UPDATE/s;
my $too_new = qr/the library of securefile is older than its SQL objects.*Library \S+ is loaded, and extension securefile has version (?:90\.0|$newest\.1).*Install the library of version (?:90\.0|$newest\.1), and restart/s;

# What needs the segment is refused, the rest is not.
sub refuses
{
	my ($db, $error, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	fails_with($node, $_, '55000', $error, "$name: $_", db => $db)
	  foreach ('SELECT count(doc::bytea) FROM t', 'INSERT INTO t SELECT 21, 21, 50000, blob(21, 50000)', 'UPDATE t SET doc = NULL WHERE id = 12', 'DELETE FROM t WHERE id = 12', 'CREATE TABLE u (doc securefile)',
		'TRUNCATE t', q{ALTER TABLE t ALTER doc TYPE bytea}, q{SELECT securefile_check('t', 'doc')}, q{SELECT securefile_repair('t', 'doc', false)}, q{SELECT securefile_usage('t', 'doc')}, 'SELECT securefile_create(\'t\', \'doc\')');
	is(in_database($db, q{SELECT doc::bytea = blob(1, 3000), (SELECT count(*) FROM pg_class WHERE relname LIKE 'pg_securefile%'), (SELECT count(*) FROM securefile_version()) FROM t WHERE id = 1}), 't|1|1', "$name: values in rows, catalogs");
	return;
}
make_old('old', 'public');
is(version('old'), '0.9', 'version 0.9');
refuses('old', $too_old, 'objects of 0.9');

# ---- the update ----

in_database('old', q{
	CREATE ROLE reader; CREATE ROLE owner; GRANT SELECT ON t TO reader;
	CREATE VIEW their_columns AS SELECT relname, attname, object_bytes FROM securefile_columns;
	GRANT SELECT ON their_columns TO reader;
	CREATE VIEW their_syncer AS SELECT pid FROM securefile_syncer;
	REVOKE SELECT ON securefile_columns FROM PUBLIC; GRANT SELECT ON securefile_columns TO reader});
fails_with($node, 'ALTER EXTENSION securefile UPDATE', '2BP01', qr/cannot drop view securefile_syncer because other objects depend on it.*their_syncer/s, 'a view over one that is made anew has to go first', db => 'old');
is(version('old'), '0.9', 'nothing was changed');
fails_with($node, 'SET ROLE owner; ALTER EXTENSION securefile UPDATE', '42501', '', 'by a superuser only', db => 'old');
in_database('old', 'DROP VIEW their_syncer');
my $session = $node->background_psql('old', on_error_stop => 0);
$session->query_safe(q{PREPARE one AS SELECT doc::bytea = blob(seed, len) FROM t WHERE id = 12;});
in_database('old', 'BEGIN; ALTER EXTENSION securefile UPDATE; SELECT count(*) FROM securefile_kept_space(); ROLLBACK');
is(version('old'), '0.9', 'rolled back');
in_database('old', 'ALTER EXTENSION securefile UPDATE');
is(version('old'), $newest, 'the newest version');
is($session->query_safe('EXECUTE one;'), 't', 'a session that was there before');
$session->quit;
right('old', 'updated');
sound($node, 't', 'updated', db => 'old');
is(in_database('old', 'SET ROLE reader; SELECT count(*) FROM their_columns; SELECT count(*) FROM securefile_columns; SELECT count(*) FROM securefile_syncer'), "1\n1\n1", 'what others have made of it, and were granted, is there');
is(in_database('old', q{SELECT has_table_privilege('owner', 'securefile_columns', 'SELECT')}), 'f', 'and what was revoked is not');
in_database('old', 'GRANT SELECT ON securefile_columns TO PUBLIC; REVOKE SELECT ON securefile_columns FROM reader');
is(in_database('old', $members), in_database('postgres', $members), 'all objects are as in a new database');

make_old('elsewhere', '"Odd schema"');
in_database('elsewhere', 'SET search_path = pg_catalog; ALTER EXTENSION securefile UPDATE');
right('elsewhere', 'in another schema');
make_database('fresh', '"Odd schema"');
is(in_database('elsewhere', $members), in_database('fresh', $members), 'all objects are as in a new database');

# ---- dump and restore make the newest version ----

my $file = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $file, $node->connstr('old') ], 'pg_dump');
in_database('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, $node->connstr('restored') ], 'restored');
is(version('restored'), $newest, 'version');
right('restored', 'restored');
is(in_database('restored', $members), in_database('postgres', $members), 'all objects are as in a new database');

# ---- a library that is too old ----

fails_with($node, q{ALTER EXTENSION securefile UPDATE TO '90.0'}, '55000', $too_new, 'an update while the server runs the library of before', db => 'old');
fails_with($node, q{ALTER EXTENSION securefile UPDATE TO '91.0'}, '42883', qr/could not find function "securefile_later".*Library \S+ of securefile is loaded.*restart the server first/s, 'one whose functions the library does not have', db => 'old');
is(version('old') . '|' . in_database('old', q{SELECT count(*) FROM pg_proc WHERE proname = 'securefile_later'}), "$newest|0", 'nothing was changed');
right('old', 'nothing was changed');
in_database('postgres', 'CREATE DATABASE new');
fails_with($node, q{CREATE EXTENSION securefile VERSION '90.0'}, '55000', $too_new, 'CREATE EXTENSION of it', db => 'new');
fails_with($node, q{CREATE EXTENSION securefile VERSION '91.0'}, '42883', qr/restart the server first/, 'and of the other', db => 'new');
is(in_database('new', 'SELECT count(*) FROM pg_extension'), 1, 'nothing was made');

# the library was put back after the update
my $before = $node->background_psql('old', on_error_stop => 0);
is($before->query_safe('SELECT doc::bytea = blob(seed, len) FROM t WHERE id = 12;'), 't', 'a session');
foreach my $later ('90.0', "$newest.1")
{
	set_version('old', $later);
	is(version('old'), $later, "version $later");
	refuses('old', $too_new, "objects of $later");
	fails_with($node, 'VACUUM t', '55000', $too_new, "$later: VACUUM", db => 'old');
	in_database('old', 'CREATE OR REPLACE FUNCTION securefile_made() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$');
	$before->query('SELECT doc::bytea = blob(seed, len) FROM t WHERE id = 12;');
	like($before->{stderr}, $too_new, 'a session that was there before learns of it');
	$before->{stderr} = '';
}
$before->quit;
set_version('old', $newest);
right('old', 'with the library that fits');
sound($node, 't', 'with the library that fits', db => 'old');
in_database('old', 'INSERT INTO t SELECT 21, 21, 50000, blob(21, 50000)');
rows_right($node, 't', 21, 'and it goes on', 'old');

$node->stop;
done_testing();
