# The extension works with any search_path: it lies in a schema of its own, and every object
# of it is used with that schema in the search_path and with an empty one.  The catalogs
# have the list of objects.  The server's own statistics tell whether a function was called,
# and so whether an operator was the extension's, or one of bytea or text that fits through
# a cast.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('path', conf => [ "track_functions = 'all'", "securefile.monitor_naptime = '1h'", "securefile.key_command = 'echo key ${\('1f' x 32)}'" ]);
need_faults($node);
my $dir = $node->basedir;

sub in_own { return $node->safe_psql('own', $_[0]); }

$node->safe_psql('postgres', 'CREATE DATABASE own');
in_own(q{
	CREATE SCHEMA sf;
	CREATE EXTENSION securefile SCHEMA sf;
	CREATE DOMAIN file AS sf.securefile;
	CREATE TABLE t (id int PRIMARY KEY, d sf.securefile, b bytea, f file);
	INSERT INTO t SELECT 1, v, v, v FROM (SELECT decode(repeat('0102030405', 1000), 'hex')) v(v);
	INSERT INTO t SELECT 2, v, v, v FROM (SELECT '\x0102'::bytea) v(v);
	CREATE FUNCTION mine(doc sf.securefile) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = '' AS
		$$SELECT length(doc || '\x0a') + CASE WHEN doc = '\x0102' OR doc = '\x0102'::bytea THEN 1000000 ELSE 0 END$$;
});

# ---- calls ----

# What is called, by name: ~ stands for the schema where the search_path does not have
# it.  What the server does not count must be here by the name that the catalogs have for
# it.
my @calls = (
	'cstring' => q{SELECT ~securefile_in('\x4142'::cstring), ~securefile_out(d) FROM public.t WHERE id = 2},
	'bytes' => q{SELECT ~securefile_send(d) FROM public.t},
	'function securefile_recv(internal)' => qq{COPY public.t TO '$dir/t.data' (FORMAT binary);
		BEGIN; DELETE FROM public.t; COPY public.t FROM '$dir/t.data' (FORMAT binary); TABLE public.t; ROLLBACK},
	'options' => q{SELECT ~securefile_typmod_out(~securefile_typmod_in('{nocache,disable_storage_in_row}'))},
	'function securefile_typanalyze(internal)' =>
	  q{ANALYZE public.t; SELECT avg_width > 0 FROM pg_stats WHERE tablename = 't' AND attname = 'd'},
	'function securefile_support_whole(internal)' => q{EXPLAIN (COSTS OFF) SELECT ~securefile_digest(d, 'md5') FROM public.t},
	'function securefile_support_kept(internal)' => q{EXPLAIN (COSTS OFF) SELECT ~securefile_digest(d) FROM public.t},
	'function securefile_support_equal(internal)' => q{EXPLAIN (COSTS OFF) SELECT id FROM public.t WHERE d = b},
	'function securefile_support_part(internal)' => q{EXPLAIN (COSTS OFF) SELECT substring(d FROM 2 FOR 3) FROM public.t},
	'type securefile' => q{SELECT '\x41'::~securefile, '\x4142'::~securefile(nocache)},
	'type securefile[]' => q{SELECT ARRAY[d] FROM public.t WHERE id = 2},
	'type securefile_wide' => q{SELECT '\x41'::~securefile_wide},
	'type securefile_wide[]' => q{SELECT '{}'::~securefile_wide[]},
	'cast (bytea AS securefile)' => q{SELECT b::~securefile FROM public.t},
	'cast (securefile AS bytea)' => q{SELECT sha256(d), position('\x05' IN d), d LIKE '\001%', d < b FROM public.t},
	'lengths' => q{SELECT length(d), octet_length(d), length(f) FROM public.t},
	'substring' => q{SELECT substring(d FROM 2 FOR 3), substring(d, 4999), substring(d FROM 2::bigint FOR 3::bigint),
		substring(d, 4999::bigint), substring(f FROM 2 FOR 3) FROM public.t},
	'overlay' => q{SELECT overlay(d PLACING '\xff'::bytea FROM 2 FOR 1), overlay(d PLACING '\xff' FROM 2),
		overlay(d PLACING '\xff'::bytea FROM 2::bigint FOR 1::bigint), overlay(d PLACING '\xff'::bytea FROM 2::bigint) FROM public.t},
	'search' => q{SELECT position('\x01'::bytea IN d), position('\x01' IN f), ~securefile_position(d, '\x02', 1, 1), ~securefile_positions(d, b) FROM public.t},
	'compare' => q{SELECT ~securefile_compare(d, f), ~securefile_compare(d, d, 2, 1, 2) FROM public.t},
	'truncate' => q{SELECT ~securefile_truncate(d, 3) FROM public.t},
	'parts' => q{SELECT ~securefile_part(d, 2, 3), ~securefile_overlay(d, f, 2, 1), ~securefile_erase(d, 2, 3), ~securefile_insert(d, 2, f),
		~securefile_delete(d, 2, 3), ~securefile_move(d, 2, 1, 1) FROM public.t},
	'aggregate securefile_agg(securefile)' => q{SELECT ~securefile_agg(d ORDER BY id) FROM public.t},
	'aggregate securefile_agg(bytea)' => q{SELECT ~securefile_agg(b ORDER BY id) FROM public.t},
	'function securefile_agg_add(internal,securefile)' => q{SELECT id, ~securefile_agg(d) OVER (ORDER BY id) FROM public.t},
	'function securefile_agg_add(internal,bytea)' => q{SELECT id, ~securefile_agg(b) OVER (ORDER BY id) FROM public.t},
	'function securefile_agg_result(internal)' => q{SELECT ~securefile_agg(f) FROM public.t WHERE false},
	'chunks' => q{SELECT id, c FROM public.t, ~securefile_chunks(d) c; SELECT ~securefile_data_starts(d), ~securefile_data_chunks(d) FROM public.t},
	'lines' => q{SELECT l FROM public.t, ~securefile_lines(d, 'LATIN1') l WHERE id = 1},
	'storage' => q{SELECT id, s, u FROM public.t, ~securefile_storage(d) s, ~securefile_storage(f) u},
	'salvage' => q{SELECT id, s FROM public.t, ~securefile_salvage(d) s},
	'operator ||(securefile,securefile)' => q{SELECT d || '\x0a', '\x0a' || d, d || f, f || '\x0a' FROM public.t},
	'operator ||(securefile,bytea)' => q{SELECT d || b, f || b, d || '\x0a'::bytea FROM public.t},
	'operator ||(bytea,securefile)' => q{SELECT b || d, b || f FROM public.t},
	'|| stored' => q{BEGIN; UPDATE public.t SET d = d || '\x0a', f = f || '\x0a'; SELECT d, f FROM public.t; ROLLBACK},
	'operator =(securefile,securefile)' => q{SELECT d = '\x0102', d = d, d = f, d IN ('\x0102', '\x03') FROM public.t},
	'operator =(securefile,bytea)' => q{SELECT d = b, f = b, d = ANY (ARRAY[b]), (d, id) = (b, 2), d IS DISTINCT FROM b FROM public.t},
	'operator =(bytea,securefile)' => q{SELECT b = d, b = f, nullif(b, d) FROM public.t},
	'operator <>(securefile,securefile)' => q{SELECT d <> '\x0102', d <> f FROM public.t},
	'operator <>(securefile,bytea)' => q{SELECT d <> b, d <> ALL (ARRAY[b]) FROM public.t},
	'operator <>(bytea,securefile)' => q{SELECT b <> d FROM public.t},
	'operator |=|(bytea,bytea)' => q{SELECT b |=| '\x0102' FROM public.t},
	'SECURITY DEFINER' => q{SELECT public.mine(d) FROM public.t},
	'operator class securefile_hash_ops USING hash' => q{BEGIN; CREATE INDEX i ON public.t USING hash (d); SET LOCAL enable_seqscan = off;
		EXPLAIN (COSTS OFF) SELECT id FROM public.t WHERE d = '\x0102'::bytea;
		SELECT id FROM public.t WHERE d = '\x0102'::bytea; SELECT count(*) FROM (SELECT DISTINCT d FROM public.t) s; ROLLBACK},
	'operator class securefile_bytea_hash_ops USING hash' => q{BEGIN; CREATE INDEX i ON public.t USING hash (b ~securefile_bytea_hash_ops);
		SET LOCAL enable_seqscan = off; EXPLAIN (COSTS OFF) SELECT id FROM public.t WHERE b = '\x0102'::~securefile;
		SELECT id FROM public.t WHERE b = '\x0102'::~securefile; ROLLBACK},
	'operator family securefile_hash_ops USING hash' => q{SET enable_nestloop = off; SET enable_mergejoin = off;
		SELECT x.id, y.id FROM public.t x JOIN public.t y ON x.d = y.b; RESET enable_nestloop; RESET enable_mergejoin},
	'operator family securefile_row_ops USING btree' => q{SELECT id FROM public.t WHERE (d, id) IN (SELECT b, id FROM public.t)},
	'hashes' => q{SELECT ~securefile_hash(d) = ~securefile_hash_bytea(b),
		~securefile_hash_extended(d, 7) = ~securefile_hash_bytea_extended(b, 7) FROM public.t},
	'handle' => q{BEGIN; SELECT ~securefile_create('public.t', 'd') AS h \gset
		SELECT ~securefile_write(:h, '\x01020304'), ~securefile_seek(:h, 1, 0), ~securefile_tell(:h), ~securefile_read(:h, 2), ~securefile_truncate(:h, 3);
		INSERT INTO public.t VALUES (3, ~securefile_finish(:h)) RETURNING d;
		SELECT ~securefile_open(d, 'r') AS h FROM public.t WHERE id = 1 \gset
		SELECT ~securefile_read(:h, 2), ~securefile_close(:h); ROLLBACK},
	'ranges of handles' => q{BEGIN; SELECT ~securefile_create('public.t', 'd') AS h, ~securefile_open(d, 'r') AS r FROM public.t WHERE id = 1 \gset
		SELECT ~securefile_copy(:h, :r), ~securefile_copy(:h, d), ~securefile_seek(:h, 1, 0), ~securefile_erase(:h, 2), ~securefile_insert(:h, '\x01'::bytea), ~securefile_delete(:h, 1), ~securefile_search(:h, '\x00') FROM public.t WHERE id = 2;
		SELECT ~securefile_finish(:h); ROLLBACK},
	'files of the server' => q{BEGIN; SELECT ~securefile_create('public.t', 'd') AS h \gset
		SELECT ~securefile_load(:h, 'PG_VERSION'), ~securefile_save(d, current_setting('data_directory') || '/saved', true) FROM public.t WHERE id = 1; ROLLBACK},
	'faults' => q{SELECT ~securefile_fault('io_read', 'error', 1000), ~securefile_fault_fired('io_read'), ~securefile_fault_reset()},
	'access method securefile_segment' => q{BEGIN; CREATE TABLE public.made (d ~securefile);
		SELECT schemaname, relname, attname, segment_relid IS NOT NULL FROM ~securefile_columns WHERE relid = 'public.made'::regclass; ROLLBACK},
	'function securefile_segment_handler(internal)' => q{SELECT amhandler::oid::regprocedure::text ~ 'securefile_segment_handler' FROM pg_am WHERE amname = 'securefile_segment'},
	'triggers' => q{BEGIN; UPDATE public.t SET d = b; TRUNCATE public.t; SELECT count(*) FROM public.t; ROLLBACK},
	'event trigger securefile_ddl' => q{BEGIN; ALTER TABLE public.t ADD more ~securefile; SELECT more FROM public.t; ROLLBACK},
	'rewrite' => q{SELECT ~securefile_rewrite('public.t', 'd')},
	'set_max_size' => q{BEGIN; CREATE VIEW public.over_d AS SELECT d FROM public.t; SELECT ~securefile_set_max_size('public.t', 'd', '96 GB'); SELECT count(*) FROM public.over_d; ROLLBACK},
	'rewrite some' => q{SELECT rewritten, next_position IS NULL FROM ~securefile_rewrite_some('public.t', 'd')},
	'procedure securefile_rewrite_online(regclass,name,bigint,boolean)' => q{CALL ~securefile_rewrite_online('public.t', 'd')},
	'procedure securefile_shrink(regclass,name,text,bigint,bigint,boolean,boolean)' => q{CALL ~securefile_shrink('public.t', 'd', 'move'); SELECT file_bytes, movable_bytes FROM ~securefile_shrink_estimate('public.t', 'd')},
	'shrink some' => q{SELECT moved, next_position IS NULL FROM ~securefile_shrink_some('public.t', 'd')},
	'procedure securefile_migrate(regclass,name,text,bigint,bigint,boolean,boolean,boolean,boolean,text,boolean,bigint,bigint,boolean)' => q{
		CREATE TABLE public.olds (b bytea); INSERT INTO public.olds VALUES ('\x0102'); SELECT kind, action FROM ~securefile_migrate_report('public.olds', 'b');
		CALL ~securefile_migrate('public.olds', 'b'); SELECT b FROM public.olds; DROP TABLE public.olds},
	'migrate_follow' => q{BEGIN; CREATE TABLE public.olds (b bytea, n ~securefile); CREATE TRIGGER follows BEFORE INSERT ON public.olds FOR EACH ROW
		EXECUTE FUNCTION ~securefile_migrate_follow('moving', 'b', 'n', ''); INSERT INTO public.olds VALUES ('\x0102'); SELECT n FROM public.olds; ROLLBACK},
	'view securefile_progress' => q{SELECT table_name, pass FROM ~securefile_progress},
	'set_tablespace' => q{SELECT ~securefile_set_tablespace('public.t', 'd', 'pg_default')},
	'check' => q{SELECT * FROM ~securefile_check('public.t', 'd'); SELECT * FROM ~securefile_repair('public.t', 'd');
		SELECT entries_seen >= 0 FROM ~securefile_maintain('public.t', 'd'); SELECT live_bytes, plain_bytes, ratio FROM ~securefile_usage('public.t', 'd');
		SELECT count(*) FROM ~securefile_removed('public.t', 'd'); SELECT ~securefile_purge('public.t', 'd');},
	'upgrade_finish' => q{SELECT * FROM ~securefile_upgrade_finish()},
	'view securefile_columns' => q{SELECT schemaname, relname, attname, options, tablespace, logging, cache, object_bytes, plain_bytes, ratio FROM ~securefile_columns},
	'view securefile_column_tables' => q{SELECT schemaname, relname, attname, attnum, relkind, distributed FROM ~securefile_column_tables; SELECT relname FROM ~securefile_column_names('public.t'::regclass, 2::smallint)},
	'view securefile_stat' => q{SELECT ~securefile_stat_reset(); SELECT schemaname, relname, attname, relid, flushes FROM ~securefile_stat},
	'view securefile_scan' => q{SELECT relname, scanned_bytes, returned_bytes, skipped_bytes, ratio FROM ~securefile_scan},
	'view securefile_stat_session' => q{SELECT relname, scanned_bytes, returned_bytes, skipped_bytes FROM ~securefile_stat_session},
	'view securefile_syncer' => q{SELECT active, files FROM ~securefile_syncer},
	'io_calibrate' => q{SELECT operation, io_method, direct, size_bytes FROM ~securefile_io_calibrate('public.t', 'd', 1048576, 0.1)},
	'view securefile_io' => q{SELECT DISTINCT datname, file, in_flight FROM ~securefile_io WHERE pid = pg_catalog.pg_backend_pid()},
	'view securefile_monitor' => q{SELECT state, failures FROM ~securefile_monitor},
	'version' => q{SELECT library, extension FROM ~securefile_version()},
	'digest' => q{SELECT ~securefile_digest(d, 'md5'), ~securefile_digest(d), ~securefile_kept_digest(d) FROM public.t},
	'duplicates' => q{SELECT length_bytes, copies FROM ~securefile_duplicates('public.t', 'd')},
	'estimate' => q{SELECT option, sampled_values, plain_bytes, stored_bytes FROM ~securefile_estimate('public.t', 'f')},
	'train' => q{BEGIN; CREATE TABLE public.alike (f ~securefile(compress)); INSERT INTO public.alike SELECT pg_catalog.convert_to(
		pg_catalog.repeat('what all of these have in common, ', 4) OPERATOR(pg_catalog.||) pg_catalog.md5(g::pg_catalog.text), 'UTF8')
		FROM pg_catalog.generate_series(1, 100) g; SELECT dictionary FROM ~securefile_train('public.alike', 'f', 100); ROLLBACK},
	'function securefile_convert(securefile,internal)' => q{BEGIN; CREATE TABLE public.brought AS SELECT b FROM public.t; ALTER TABLE public.brought ALTER b TYPE ~securefile;
		SELECT b FROM public.brought; ROLLBACK},
	'keys' => q{SELECT ~securefile_load_keys(); SELECT name, is_current FROM ~securefile_master_keys()},
	'data keys' => q{SELECT key_id, stored_values FROM ~securefile_keys('public.t', 'd', true); SELECT ~securefile_rewrap('public.t', 'd'); SELECT ~securefile_rewrap();
		BEGIN; CREATE TABLE public.secret (d ~securefile(encrypt)); SELECT ~securefile_new_key('public.secret', 'd'); SELECT ~securefile_shred('public.secret', 'd'); ROLLBACK},
	'view securefile_fetch' => q{SELECT schemaname, relname, attname, passes FROM ~securefile_fetch},
	'fetch' => q{SELECT * FROM ~securefile_fetch_left_behind(NULL); SELECT f.* FROM pg_catalog.pg_attribute,
		~securefile_fetch_column(attrelid, attnum, NULL) f WHERE attrelid = 'public.t'::regclass AND attname = 'd'},
	'sizes' => q{SELECT ~securefile_database_size('own'::name) = ~securefile_database_size(oid), ~securefile_total_relation_size('public.t') FROM pg_catalog.pg_database WHERE datname = 'own'},
	'extents' => q{SELECT id, e.start, e.length, pg_catalog.octet_length(e.tag) FROM public.t, ~securefile_extents(d) e},
	'oversize' => q{SELECT * FROM ~securefile_oversize(); SELECT o.* FROM pg_catalog.pg_attribute, ~securefile_column_oversize(attrelid, attnum, 0) o WHERE attrelid = 'public.t'::regclass AND attname = 'd';
		SELECT ~securefile_unfilled(d), ~securefile_unfilled_digest(d) FROM public.t},
	'kept_space' => q{SELECT pid, database_oid, oldest, since, readers FROM ~securefile_kept_space()},
	'kept_memory' => q{SELECT own_bytes >= 0 FROM ~securefile_kept_memory()},
);
my %calls = @calls;
my @names = @calls[ grep { $_ % 2 == 0 } 0 .. $#calls ];

# In one session each way, so that one call finds what an earlier one left.  Returns
# what each printed, errors too, without a schema and in any order of the rows.
sub outcomes
{
	my ($path, $schema) = @_;
	my $script = "SET search_path = $path;\n";
	foreach my $name (@names)
	{
		my $call = $calls{$name} =~ s/~(?=securefile)/$schema/gr;
		$script .= "\\echo ## $name\n$call;\n";
	}
	my $output = "$dir/output";
	$node->safe_psql('own', 'SELECT pg_stat_reset()');
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('own') ], '<', \"SET client_min_messages = error;\n$script", '>', $output, '2>&1');
	my (undef, %printed) = split /^## (.*)\n/m, slurp_file($output);
	return map { $_ => join("\n", sort split /\n/, $printed{$_} =~ s/\bsf\.//gr) } keys %printed;
}

# Functions of the extension that were not called, of those that the server counts.  One wants
# a number that no function tells; what it asks the catalog for it asks by OIDs.
my $not_called = q{
	SELECT string_agg(p.oid::regprocedure::text, ' ' ORDER BY 1) FROM pg_proc p
		JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
		JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'securefile'
		LEFT JOIN pg_stat_user_functions s ON s.funcid = p.oid
	WHERE prokind = 'f' AND proname <> 'securefile_stored_bytes' AND NOT 'internal'::regtype = ANY (proargtypes) AND coalesce(s.calls, 0) = 0};

# Everything else of the extension, and functions that are not counted.  The row types of views
# are objects of the extension in PostgreSQL 17 and later, and come with the views.
my @others = split /\n/, in_own(q{
	SELECT i.type || ' ' || replace(replace(i.identity, 'sf.', ''), 'pg_catalog.', '') FROM pg_depend d
		JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'securefile' AND d.deptype = 'e',
		pg_identify_object(d.classid, d.objid, d.objsubid) i
	WHERE i.type <> 'function' OR EXISTS (SELECT FROM pg_proc p WHERE p.oid = d.objid
		AND (prokind <> 'f' OR 'internal'::regtype = ANY (proargtypes)))
	EXCEPT SELECT 'type ' || n FROM pg_class c, unnest(ARRAY[relname, relname || '[]']) n WHERE relkind = 'v'
	ORDER BY 1});
cmp_ok(scalar(@others), '>', 20, 'much is there besides functions');
ok(exists $calls{$_}, "called: $_") foreach @others;

# the count comes when the session is gone
sub all_called
{
	my ($name) = @_;
	sessions_are_gone($node, 'own');
	return is(in_own($not_called), '', "$name: every function was called");
}

my %there = outcomes('sf, public', '');
all_called('with the schema in the search_path');
my %nowhere = outcomes(q{''}, 'sf.');
all_called('with an empty search_path');
foreach my $name (@names)
{
	unlike($there{$name}, qr/ERROR/, "works: $name");
	is($nowhere{$name}, $there{$name}, "the same: $name");
}

# ---- dump and restore, which have an empty search_path ----

in_own(q{
	CREATE VIEW v AS SELECT id, d = b AS a1, b = f AS a2, d <> b AS a3, d = '\x0102' AS a4, d || '\x0a' AS a5, d || b AS a6, b || d AS a7,
		f || f AS a8, d IN ('\x0102', '\x') AS a9, d = ANY (ARRAY[b]) AS a10, d IS DISTINCT FROM b AS a11, nullif(d, b) AS a12,
		CASE d WHEN b THEN 1 WHEN '\x' THEN 2 END AS a13, (d, id) = (b, 2) AS a14, overlay(d PLACING b FROM 1) AS a15, substring(d FROM 2 FOR 3) AS a16,
		d || '\x0a' = b || '\x0a' AS a17, position(b IN d) AS a18, d LIKE b AS a19, length(d) AS a20, b = b AS a21, b || b AS a22
	FROM t;
	CREATE TABLE c (d sf.securefile CHECK (d <> '\x' AND d <> '\x00'::bytea));
	CREATE INDEX ON t USING hash (d);
	CREATE FUNCTION same(sf.securefile, bytea) RETURNS boolean LANGUAGE sql BEGIN ATOMIC SELECT $1 = $2 AND $1 || $2 = $2 || $1; END});
my $definitions = q{SELECT pg_get_viewdef('public.v'::regclass), pg_get_functiondef('public.same'::regproc),
	(SELECT string_agg(pg_get_constraintdef(oid), '' ORDER BY conname) FROM pg_constraint WHERE conrelid = 'public.c'::regclass),
	(SELECT string_agg(pg_get_indexdef(indexrelid), '' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = 'public.t'::regclass)};
unlike(in_own("SET search_path = ''; $definitions"), qr/OPERATOR\(/, 'no operator needs a schema');
$node->command_ok([ 'pg_dump', '-f', "$dir/own.sql", $node->connstr('own') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE again');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/own.sql", $node->connstr('again') ], 'psql');
foreach my $query ($definitions, "SET search_path = ''; $definitions", 'SELECT * FROM public.v ORDER BY id', 'SELECT public.same(d, b) FROM public.t ORDER BY id')
{
	is($node->safe_psql('again', $query), in_own($query), "restored: $query");
}

$node->stop;
done_testing();
