# ALTER EXTENSION UPDATE: an older version of the SQL objects works with this library, is
# brought up, and is then the same as a new one.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('update', conf => ['securefile.monitor = off']);
sub sql { return $node->safe_psql($_[0], $_[1]) }

my ($newest) = slurp("$FindBin::RealBin/../../securefile.control") =~ /^default_version = '(.*)'$/m;
is(sql('postgres', 'SELECT extension FROM securefile_version()'), $newest, 'a new database has the newest version');

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
my $columns = q{SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '%s'::regclass AND attnum > 0};

sub columns_of { my ($db, $view, $schema) = @_; return sql($db, sprintf $columns, ($schema ? "$schema." : '') . $view) }

# ---- version 1.0 ----

sub make_old
{
	my ($db, $schema) = @_;
	sql('postgres', "CREATE DATABASE $db");
	sql($db, "CREATE SCHEMA IF NOT EXISTS $schema; CREATE EXTENSION securefile SCHEMA $schema VERSION '1.0'; ALTER DATABASE $db SET search_path = public, $schema");
	sql($db, q{
		CREATE FUNCTION blob(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
		$$ SELECT substring(coalesce(convert_to(string_agg(repeat(md5(seed || ':' || i), 16), ''), 'SQL_ASCII'), '') FOR len) FROM generate_series(1, (len + 511) / 512) i $$;
		CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile);
		INSERT INTO t SELECT i, i, i * 3000, blob(i, i * 3000) FROM generate_series(1, 10) i;
		ALTER TABLE t ALTER doc TYPE securefile(compress);
		INSERT INTO t SELECT i, i, i * 30000, blob(i, i * 30000) FROM generate_series(11, 20) i;
		ANALYZE t});
	return;
}
make_old('old', 'public');

sub right { my ($name, $db) = @_; return rows_right($node, 't', 20, $name, $db || 'old') }

is(sql('old', 'SELECT extension FROM securefile_version()'), '1.0', 'version 1.0');
right('1.0');
is(columns_of('old', 'securefile_columns'), 'schemaname relname attname relid options segment_relid tablespace data_files logging cache object_bytes file_bytes', 'columns of 1.0');
is(sql('old', q{SELECT relname, options, object_bytes BETWEEN 100000 AND file_bytes, logging FROM securefile_columns}), 't|compress_medium|t|logging', 'securefile_columns');
my ($transformed) = sql('old', q{SELECT bytes_nontransformed, flushes > 0, nontransformed_flushes > 0, stats_reset IS NOT NULL FROM securefile_stat}) =~ /^(\d+)\|t\|t\|t$/;
cmp_ok($transformed, '>', 100_000, 'securefile_stat');
is(sql('old', q{SELECT live_bytes + pending_bytes + free_bytes = file_bytes, metadata_bytes > 0 FROM securefile_usage('t', 'doc')}), 't|t', 'securefile_usage()');
is(sql('old', 'SELECT state FROM securefile_monitor'), 'off', 'securefile_monitor');
is(sql('old', q{SELECT * FROM securefile_check('t', 'doc')}), '', 'securefile_check()');

# what an update must not change, where it makes an object anew
my $kept = q{
	SELECT i.type, i.identity, d.classid::regclass, obj_description(d.objid, d.classid::regclass::text) IS NOT NULL,
		coalesce(p.proacl, c.relacl), p.provolatile, p.proparallel, p.proisstrict, p.procost, p.prorows, p.prosrc
	FROM pg_depend d
		JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND d.deptype = 'e' AND e.extname = 'securefile'
		CROSS JOIN pg_identify_object(d.classid, d.objid, d.objsubid) i
		LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
		LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid};
my @were = split /\n/, sql('old', $kept);
cmp_ok(scalar(@were), '>', 80, 'objects of 1.0');

# ---- what others have made of it ----

sql('old', q{
	CREATE ROLE reader; CREATE ROLE owner; GRANT SELECT ON t TO reader;
	CREATE VIEW their_columns AS SELECT relname, attname, object_bytes FROM securefile_columns;
	GRANT SELECT ON their_columns TO reader;
	CREATE VIEW their_stat AS SELECT relname, flushes FROM securefile_stat;
	CREATE TABLE made_of (LIKE securefile_columns);
	REVOKE SELECT ON securefile_columns FROM PUBLIC; GRANT SELECT ON securefile_columns TO reader});
sub tries { my ($db, $statement) = @_; my ($rc, $out, $err) = $node->psql($db, $statement, extra_params => [ '-v', 'VERBOSITY=verbose' ]); return $rc == 0 ? $out : $err }
like(tries('old', 'ALTER EXTENSION securefile UPDATE'), qr/2BP01: cannot drop view securefile_stat because other objects depend on it.*their_stat/s, 'a view over securefile_stat has to go first');
is(sql('old', 'SELECT extension FROM securefile_version()'), '1.0', 'nothing was changed');
like(tries('old', 'SET ROLE owner; ALTER EXTENSION securefile UPDATE'), qr/42501/, 'by a superuser only');
sql('old', 'DROP VIEW their_stat');

# a session that has used all of it before
my $session = $node->background_psql('old', on_error_stop => 0);
my $asks = q{SELECT live_bytes > 0 FROM securefile_usage('t', 'doc'); SELECT object_bytes > 0 FROM securefile_columns; SELECT flushes > 0 FROM securefile_stat; SELECT count(*) FROM their_columns;};
$session->query_safe("PREPARE usage AS SELECT live_bytes > 0 FROM securefile_usage('t', 'doc'); EXECUTE usage;");
is($session->query_safe($asks), "t\nt\nt\n1", 'a session before');
sql('old', 'BEGIN; ALTER EXTENSION securefile UPDATE; SELECT plain_bytes FROM securefile_columns; ROLLBACK');
is(sql('old', 'SELECT extension FROM securefile_version()'), '1.0', 'rolled back');
is($session->query_safe($asks), "t\nt\nt\n1", 'which it does not notice');
sql('old', 'ALTER EXTENSION securefile UPDATE');
is($session->query_safe($asks), "t\nt\nt\n1", 'and after');
is($session->query_safe('EXECUTE usage;'), 't', 'a prepared statement, too');
$session->quit;

# ---- the same as a new one ----

is(sql('old', 'SELECT extension FROM securefile_version()'), $newest, 'the newest version');
right('updated');
is(sql('old', 'SET ROLE reader; SELECT count(*) FROM their_columns; SELECT count(*) FROM securefile_columns; SELECT count(*) FROM securefile_stat; SELECT count(*) FROM securefile_storage((SELECT doc FROM t WHERE id = 12))'),
	"1\n1\n1\n1", 'what others have made of it, and were granted, is there');
is(sql('old', q{SELECT count(*) FILTER (WHERE has_table_privilege('owner', c.oid, 'SELECT')) FROM pg_class c WHERE relname = 'securefile_columns'}), 0, 'and what was revoked is not');
sql('old', 'GRANT SELECT ON securefile_columns TO PUBLIC; REVOKE SELECT ON securefile_columns FROM reader');
is(sql('old', $members), sql('postgres', $members), 'all objects are as in a new database');
my %is_now = map { $_ => 1 } split /\n/, sql('old', $kept);
# these read pages now whose damage a subtransaction has to catch, as a parallel plan could not
s/^(function\|public\.securefile_(?:usage|object_bytes)\(.*\|v\|)r\|/$1u|/ foreach @were;
# these are immutable now, so that distributed tables take them
s/\|s\|s\|t\|/|i|s|t|/ foreach grep { /\|securefile_(?:concat|concat_bytea|prepend|overlay\w*|truncate_value)$/ } @were;
is(join("\n", grep { !$is_now{$_} } @were), '', 'what was there has the rights and properties that it had, and a comment');
is(columns_of('old', $_), columns_of('postgres', $_), "columns of $_") foreach ('securefile_columns', 'securefile_stat', 'securefile_monitor');

# the numbers that ANALYZE has left before, and the counters
is(sql('old', q{SELECT c.plain_bytes = u.plain_bytes, abs(c.plain_bytes / (SELECT sum(length) FROM t, securefile_storage(doc) WHERE form = 'stored') - 1) < 0.05, c.ratio > 1.5
	FROM securefile_columns c, securefile_usage(c.relid, c.attname) u}), 't|t|t', 'plain_bytes and ratio');
is(sql('old', q{SELECT bytes_nontransformed >= }
		. $transformed
		. q{, bytes_transformed > bytes_transformed_stored, compress_time > 0, nontransformed_flushes < flushes FROM securefile_stat}),
	't|t|t|t', 'the counters of before');
is(sql('old', q{SELECT codec, count(*) FROM t, securefile_storage(doc) GROUP BY 1 ORDER BY 1}) =~ /^none\|\d+\nzstd\|\d+$/ ? 1 : 0, 1, 'securefile_storage()');
like(tries('old', 'ALTER EXTENSION securefile UPDATE'), qr/already installed|^$/, 'again');

# ---- in another schema ----

make_old('elsewhere', '"Odd schema"');
sql('elsewhere', 'SET search_path = pg_catalog; ALTER EXTENSION securefile UPDATE');
right('in another schema', 'elsewhere');
sql('postgres', 'CREATE DATABASE fresh');
sql('fresh', 'CREATE SCHEMA "Odd schema"; CREATE EXTENSION securefile SCHEMA "Odd schema"; ALTER DATABASE fresh SET search_path = public, "Odd schema"');
is(sql('elsewhere', $members), sql('fresh', $members), 'all objects are as in a new database');

# ---- dump and restore: of 1.0, which becomes the newest; of what was brought up ----

make_old('older', 'public');
foreach my $db ('older', 'old')
{
	my $file = $node->basedir . "/$db.sql";
	$node->command_ok([ 'pg_dump', '-f', $file, $node->connstr($db) ], "pg_dump of $db");
	sql('postgres', "CREATE DATABASE restored_$db");
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, $node->connstr("restored_$db") ], 'restored');
	is(sql("restored_$db", 'SELECT extension FROM securefile_version()'), $newest, 'version');
	right('restored', "restored_$db");
	is(sql("restored_$db", $members), sql('postgres', $members), 'all objects are as in a new database');
	is(sql("restored_$db", 'ANALYZE t; SELECT ratio > 1.5 FROM securefile_columns'), 't', 'ratio');
}

$node->stop;
done_testing();
