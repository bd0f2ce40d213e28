# Promise 7: a role reads a value if it may read the row, and frees it if it may delete
# the row.  No locator gets into the server or out of it, and search_path gives no access.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('security', init => { extra => ['--allow-group-access'] });
my $len = 20000;

make_table($node, 't');
fill($node, 't', 1, 10, $len);
my @modes = map { sprintf '%04o', (stat $_)[2] & 07777 } data_files($node);
is_deeply([ grep { $_ ne '0640' } @modes ], [], 'data files follow the group mode of the cluster');
is(sprintf('%04o', (stat $node->data_dir . '/pg_securefile')[2] & 07777), '0750', 'directory too');

# ---- who may what ----
$node->safe_psql('postgres',
	'CREATE ROLE nobody LOGIN; CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher; CREATE ROLE author LOGIN;'
	  . ' GRANT INSERT, DELETE ON t TO author; GRANT SELECT (id) ON t TO author; GRANT CREATE ON SCHEMA public TO author');
my $as = sub {
	my ($user, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, extra_params => [ '-U', $user ]);
	return $rc == 0 ? $out : $err;
};
foreach my $call ("securefile_maintain('t', 'doc')", "securefile_check('t', 'doc')",
	"securefile_rewrite('t', 'doc')", "securefile_usage('t', 'doc')")
{
	like($as->('nobody', "SELECT * FROM $call"), qr/permission denied|must be owner/, "nobody: $call");
}
foreach my $call ("securefile_stat_reset()", "securefile_fault('io_read', 'error')", 'securefile_fault_reset()')
{
	like($as->('nobody', "SELECT $call"), qr/permission denied|must be/, "nobody: $call");
}
like($as->('watcher', "SELECT live_bytes FROM securefile_usage('t', 'doc')"), qr/^\d+$/, 'pg_monitor: securefile_usage');
like($as->('watcher', "SELECT securefile_maintain('t', 'doc')"), qr/permission denied|must be owner/, 'pg_monitor: securefile_maintain');
like($as->('nobody', "SELECT count(*) FROM securefile_columns"), qr/^1$/, 'nobody: securefile_columns');
like($as->('nobody', 'SELECT count(*) >= 0 FROM securefile_stat'), qr/^t$/, 'nobody: securefile_stat');
like($as->('nobody', 'SELECT doc FROM t'), qr/permission denied/, 'nobody: the value');
like($as->('author', 'SELECT doc FROM t'), qr/permission denied/, 'author: the value');
like($as->('author', "INSERT INTO t VALUES (99, 1, 1, blob(1, $len)) RETURNING doc"), qr/permission denied/, 'author: RETURNING');
is($as->('author', "INSERT INTO t VALUES (99, 99, $len, blob(99, $len)); DELETE FROM t WHERE id = 1; SELECT 1"), 1, 'author: insert and delete');
rows_right($node, 't', 10, 'after the author');
sound($node, 't', 'after the author');
like($as->('author', "DO \$\$ BEGIN EXECUTE 'SELECT * FROM ' || (SELECT oid::regclass FROM pg_class WHERE relname LIKE 'pg_securefile%' LIMIT 1); END \$\$"),
	qr/ERROR/, 'nobody reads a segment as a table');
like($node->psql('postgres', "DO \$\$ BEGIN EXECUTE 'SELECT * FROM ' || (SELECT oid::regclass FROM pg_class WHERE relname LIKE 'pg_securefile%' LIMIT 1); END \$\$"),
	qr/^3$/, 'not even a superuser');

# an owner that is no superuser
is( $as->('author',
		"CREATE TABLE own (id int PRIMARY KEY, seed int, len int, doc securefile); INSERT INTO own VALUES (1, 1, $len, blob(1, $len));"
		  . " UPDATE own SET seed = 2, doc = blob(2, $len); SELECT entries_seen >= 0 FROM securefile_maintain('own', 'doc');"
		  . " SELECT count(*) FROM securefile_check('own', 'doc')"),
	"t\n0",
	'an owner may maintain and check');
is($as->('author', 'ALTER TABLE own ADD COLUMN b securefile(cache); ALTER TABLE own DROP COLUMN b; TRUNCATE own; DROP TABLE own; SELECT 1'), 1, 'an owner may alter, truncate, drop');

# row security holds for values
$node->safe_psql('postgres', 'CREATE TABLE rls (id int, owner name, doc securefile); GRANT ALL ON rls TO nobody, author;'
	  . ' ALTER TABLE rls ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON rls USING (owner = current_user);'
	  . " INSERT INTO rls VALUES (1, 'author', blob(1, $len)), (2, 'nobody', blob(2, $len))");
is($as->('nobody', 'SELECT id, length(doc::bytea) FROM rls'), "2|$len", 'row security');
$as->('nobody', 'DELETE FROM rls');
is($node->safe_psql('postgres', "SELECT count(*) FROM rls WHERE doc::bytea = blob(id, $len)"), 1, 'row security: delete');

# ---- no locator comes in ----
my $locator = '\x0201' . ('00' x 2) . ('ff' x 60);
foreach my $way (
	"INSERT INTO t VALUES (200, 0, 64, '$locator')",
	"INSERT INTO t VALUES (200, 0, 64, '$locator'::bytea)",
	"INSERT INTO t SELECT 200, 0, 64, x::securefile FROM (SELECT '$locator'::bytea) s (x)",
	"INSERT INTO t SELECT * FROM json_populate_record(null::t, json_build_object('id', 200, 'seed', 0, 'len', 64, 'doc', '$locator'))",
	"INSERT INTO t SELECT (('(200,0,64,\"' || '\\' || '$locator' || '\")')::t).*",
	"PREPARE p (securefile) AS INSERT INTO t VALUES (200, 0, 64, \$1); EXECUTE p ('$locator')",
	"CREATE TEMP TABLE tmp (LIKE t); INSERT INTO tmp VALUES (200, 0, 64, '$locator'); INSERT INTO t SELECT * FROM tmp")
{
	my ($rc, $out, $err) = $node->psql('postgres', $way);
	is( $node->safe_psql('postgres', "SELECT doc::bytea = '$locator'::bytea FROM t WHERE id = 200"),
		't', "bytes of a locator are contents: $way") or diag($err);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 200');
}
my $file = $node->basedir . '/binary';
$node->safe_psql('postgres', "COPY (SELECT 200, 0, 64, '$locator'::bytea) TO '$file' (FORMAT binary); COPY t FROM '$file' (FORMAT binary)");
is($node->safe_psql('postgres', "SELECT doc::bytea = '$locator'::bytea FROM t WHERE id = 200"), 't', 'binary input');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 200');
sound($node, 't', 'bytes of a locator');

# ---- and none goes out ----
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE length(doc::text) <> 2 + 2 * len OR length(to_jsonb(t.*)->>\'doc\') <> 2 + 2 * len'),
	0, 'text forms are contents');
$node->safe_psql('postgres', 'ANALYZE t');
is( $node->safe_psql('postgres',
		"SELECT coalesce(most_common_vals::text, histogram_bounds::text, '') FROM pg_stats WHERE tablename = 't' AND attname = 'doc'"),
	'',
	'ANALYZE keeps neither contents nor locators');

# ---- forged locators ----
# Servers before 15.20 confuse the types of a composite value that a holdable
# cursor keeps over ALTER TABLE; so a role can see a locator of its own rows, and
# bring in another. Newer ones refuse. 033_corruption has the same for all.
$node->safe_psql('postgres', "CREATE TABLE large (id int, owner name, doc securefile); GRANT SELECT ON large TO author;"
	  . ' ALTER TABLE large ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON large USING (owner = current_user);'
	  . " INSERT INTO large SELECT i, CASE i WHEN 1 THEN 'nobody' ELSE 'author' END, blob(i, 14000000) FROM generate_series(1, 2) i;"
	  . " INSERT INTO large VALUES (3, 'nobody', blob(3, $len)), (4, 'author', blob(4, $len))");
my $seen = $as->('author', 'CREATE TABLE seen (a securefile); CREATE TABLE raw (id int, b bytea);'
	  . ' BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id, row(doc)::seen AS v FROM large; COMMIT;'
	  . ' ALTER TABLE seen ALTER a TYPE bytea;'
	  . q{ DO $$ DECLARE c refcursor := 'c'; r record; BEGIN LOOP FETCH c INTO r; EXIT WHEN NOT found;}
	  . ' INSERT INTO raw VALUES (r.id, (r.v).a); END LOOP; END $$');

# the values that the locators made by an SQL query lead to, or errors; and how often
sub forge
{
	my ($query) = @_;
	$as->('author', 'DROP TABLE IF EXISTS forged, got; CREATE TABLE got (b bytea, code text); CREATE TABLE forged (a bytea);'
		  . " BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT row(l)::forged AS v FROM ($query) s (l); COMMIT;"
		  . ' ALTER TABLE forged ALTER a TYPE securefile;'
		  . q{ DO $$ DECLARE c refcursor := 'c'; r record; BEGIN LOOP FETCH c INTO r; EXIT WHEN NOT found;}
		  . ' BEGIN INSERT INTO got VALUES (substring((r.v).a FROM 1 FOR 8000), NULL);'
		  . ' EXCEPTION WHEN others THEN INSERT INTO got VALUES (NULL, SQLSTATE); END; END LOOP; END $$');
	return $as->('author', 'SELECT coalesce(code, (SELECT seed::text FROM generate_series(1, 4) seed'
		  . ' WHERE b IN (substring(blob(seed, 14000000) FROM 1 FOR 8000), substring(blob(seed, 20000) FROM 1 FOR 8000))), $$?$$), count(*)'
		  . ' FROM got GROUP BY 1 ORDER BY 1');
}
if ($seen eq '')
{
	is(forge('SELECT b FROM raw'), "2|1\n4|1", 'an unchanged locator is taken');
	like(forge('SELECT set_byte(b, i, get_byte(b, i) # 1) FROM raw, LATERAL generate_series(1, length(b) - 1) i'),
		qr/\A(XX001\|\d+|42704\|\d+|\n)+\z/, 'a changed one is not, whichever byte it is');
	# stamps of pages that were made about the same time
	is(forge('SELECT set_byte(set_byte(set_byte(b, 16, oid), 48, pg), 56, (get_byte(b, 56) + st + 256) % 256) FROM raw, generate_series(1, 4) oid,'
			  . ' generate_series(1, 9) pg, generate_series(-4, 4) st WHERE id = 2 AND (oid, pg, st) <> (get_byte(b, 16), get_byte(b, 48), 0)'),
		'XX001|323', 'the map of a value in a hidden row is not found by trying');
	is(forge('SELECT substring(b FROM 1 FOR length(b) - n) FROM raw, generate_series(1, 16) n'), 'XX001|32', 'nor does a shorter one do');
}
else
{
	like($seen, qr/row type of datum tuple was altered/, 'this server keeps locators in');
	$as->('author', q{DROP TABLE raw; CREATE TABLE raw AS SELECT '\x0201000000000000'::bytea b});
	is(forge('SELECT b FROM raw'), '22P07|1', 'and takes none');
}
$as->('author', 'DROP TABLE raw, got, seen, forged');
sound($node, 'large', 'forged locators');

# ---- search_path ----
$node->safe_psql(
	'postgres', q{
	CREATE SCHEMA evil;
	DO $$
	DECLARE
		t text;
		o text;
	BEGIN
		FOREACH t IN ARRAY '{oid,name,text,int2,int4,int8,bool,regclass,bytea,xid}'::text[]
		LOOP
			EXECUTE format('CREATE FUNCTION evil.g(%1$s, %1$s) RETURNS boolean LANGUAGE plpgsql AS'
				|| ' $f$ BEGIN RAISE EXCEPTION ''hijacked''; END $f$', t);
			FOREACH o IN ARRAY '{=,<>,<,>,<=,>=}'::text[]
			LOOP
				EXECUTE format('CREATE OPERATOR evil.%2$s (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = evil.g)', t, o);
			END LOOP;
		END LOOP;
	END $$;
	CREATE FUNCTION evil.length(public.securefile) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;
	CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;
	CREATE FUNCTION evil.quote_ident(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;
	CREATE TABLE evil.pg_class (oid oid, relname name); CREATE TABLE evil.pg_attribute (attrelid oid);
	CREATE TABLE evil.pg_trigger (oid oid); CREATE TABLE evil.pg_type (oid oid); CREATE TYPE evil.securefile AS (x int);});
my $hostile = 'SET search_path = evil, pg_catalog, public;';
fails_with($node, "$hostile SELECT 1 = 1", 'P0001', 'hijacked', 'the trap works');
my ($rc, $out, $err) = $node->psql(
	'postgres', "$hostile" . q{
	CREATE TABLE public.h (id int, doc public.securefile);
	INSERT INTO public.h VALUES (1, public.blob(1, 20000));
	UPDATE public.h SET doc = public.blob(2, 20000);
	ALTER TABLE public.h ADD COLUMN b public.securefile;
	UPDATE public.h SET b = doc;
	CREATE TABLE public.h2 AS SELECT * FROM public.h;
	TRUNCATE public.h2;
	DELETE FROM public.h;
	ALTER TABLE public.h DROP COLUMN b;
	ALTER TABLE public.h ALTER doc TYPE bytea;
	ALTER TABLE public.h ALTER doc TYPE public.securefile;
	INSERT INTO public.h VALUES (1, public.blob(1, 20000));
	SELECT public.securefile_maintain('public.h', 'doc');
	SELECT * FROM public.securefile_check('public.h', 'doc');
	SELECT * FROM public.securefile_usage('public.h', 'doc');
	SELECT public.securefile_rewrite('public.h', 'doc');
	SELECT * FROM public.securefile_columns;
	SELECT * FROM public.securefile_stat;
	SELECT public.securefile_stat_reset();
	DROP TABLE public.h, public.h2;});
is($rc, 0, 'everything works under a hostile search_path') or diag($err);
unlike($err, qr/hijacked/, 'and calls nothing of it');
my $empty = 'SET search_path = \'\';';
($rc, $out, $err) = $node->psql('postgres',
	"$empty CREATE TABLE public.h (id int, doc public.securefile); INSERT INTO public.h VALUES (1, 'abc'); UPDATE public.h SET doc = public.blob(2, 20000);"
	  . ' SELECT length(doc), length(substring(doc FROM 5)) FROM public.h; DROP TABLE public.h');
is($rc == 0 ? $out : $err, '20000|19996', 'and under an empty one');

$node->stop;
done_testing();
