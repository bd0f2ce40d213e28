# Values that are too long for a dump: pg_dump says what to do, leaves them out as markers where it is
# asked to, and no row with a marker is taken for a good one until an UPDATE fills it.  What "too
# long" means is a setting, so that small values will do.  078_large_dump has a large one.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('oversize', conf => [ master_key(), 'wal_level = logical' ]);
my $dir = $node->basedir;
my $port = $node->connstr('postgres');
my $unfilled = 'was not restored';

# The options of columns that values are left out of, and filled in again.
my %options = (
	plain => '', hash => 'hash', dedup => 'deduplicate, compress_high, hash',
	enc => 'encrypt', enchash => 'encrypt, hash, deduplicate', far => 'disable_storage_in_row, compress_medium',
	loose => 'filesystem_like_logging');
my @tables = ('plain', grep { $_ ne 'plain' } sort keys %options);

foreach my $t (@tables)
{
	make_table($node, $t, $options{$t});
	sql("INSERT INTO $t SELECT i, i, len, blob(i, len) FROM (VALUES (1, 0), (2, 100), (3, 5000), (4, 300000), (5, 2500000), (6, 13000000)) v (i, len)")
	  if $t eq 'plain';
	sql("INSERT INTO $t SELECT id, seed, len, doc::bytea FROM plain") if $t ne 'plain';
}
# what a restore computes of the rows, and keys to them
sql(q{CREATE TABLE counted (id int PRIMARY KEY, doc securefile CHECK (octet_length(doc) < 1e12), size bigint GENERATED ALWAYS AS (length(doc)) STORED)},
	'INSERT INTO counted SELECT id, doc FROM plain', 'CREATE INDEX ON counted (length(doc))',
	'CREATE TABLE refers (id int REFERENCES counted, seed int)', 'INSERT INTO refers SELECT id, id FROM counted',
	q{CREATE TABLE parts (id int, doc securefile) PARTITION BY LIST (id)}, 'CREATE TABLE "Part 1" PARTITION OF parts FOR VALUES IN (1, 4)',
	'CREATE TABLE others PARTITION OF parts DEFAULT', 'INSERT INTO parts SELECT id, doc FROM plain',
	'CREATE UNLOGGED TABLE rowed AS SELECT id, doc FROM plain');
my @all = (@tables, 'counted', 'parts', 'rowed');

# ---- finding them ----

is(sql(q{SELECT * FROM securefile_oversize()}), '', 'nothing is too long by default');
is(sql(q{SET securefile.dump_oversize_limit = '2MB'; SELECT string_agg(relname || ':' || attname || ':' || oversize || ':' || largest || ':' || unfilled, ' ') FROM securefile_oversize()}),
	join(' ', map { "$_:doc:2:13000000:0" } 'counted', 'dedup', 'enc', 'enchash', 'far', 'hash', 'loose', 'others', 'plain', 'rowed'), 'by the setting');
is(sql(q{SELECT string_agg(relname || ':' || oversize || ':' || largest, ' ') FROM securefile_oversize(2500000) WHERE relname ~ '^[fhp]'}), 'far:1:13000000 hash:1:13000000 plain:1:13000000', 'by an argument: longer, not as long');
is(sql(q{SELECT oversize, largest FROM securefile_oversize(299999) WHERE relname = 'Part 1'}), '1|300000', 'a partition with an odd name');

# it reads no contents: it finds values whose data is damaged, and passes over damaged rows
sql('CREATE ROLE one', 'GRANT SELECT ON plain TO one', 'GRANT SELECT (doc) ON hash TO one',
	'CREATE TABLE policed AS SELECT id, doc FROM plain', 'GRANT SELECT ON policed TO one', 'ALTER TABLE policed ENABLE ROW LEVEL SECURITY', 'CREATE POLICY few ON policed USING (id = 6)');
is(sql('SET ROLE one; SELECT string_agg(relname, $$ $$) FROM securefile_oversize(1000)'), 'hash plain', 'what the caller may read, and without policies');
is(sql('SELECT count(*) FROM securefile_oversize(1000) WHERE relname = $$policed$$'), 1, 'a superuser: all');
sql('DROP TABLE policed');
my $reads = sql(q{SELECT direct_read_bytes FROM securefile_stat WHERE relname = 'far'});
is(sql(q{SELECT oversize FROM securefile_oversize(0) WHERE relname = 'far'}), 5, 'all but the empty one');
is(sql(q{SELECT direct_read_bytes FROM securefile_stat WHERE relname = 'far'}), $reads, 'no data was read');

# ---- the setting ----

fails_with($node, $_, '22023', 'cannot be set to .marker. for other sessions', $_)
  foreach 'ALTER SYSTEM SET securefile.dump_oversize = marker', 'ALTER DATABASE postgres SET securefile.dump_oversize = marker', 'ALTER ROLE one SET securefile.dump_oversize = marker';
is(sql('SET securefile.dump_oversize = marker', 'SET securefile.dump_oversize_limit = 0', 'SELECT doc, length(doc) FROM plain WHERE id < 4 ORDER BY id'),
	"\\x|0\n\\securefile-unfilled:1:100:|100\n\\securefile-unfilled:1:5000:|5000", 'a session asks for markers; an empty value stays');
my $marker = sql("SET securefile.dump_oversize = marker; SET securefile.dump_oversize_limit = '1MB'; SELECT doc FROM hash WHERE id = 5");
is($marker, '\securefile-unfilled:1:2500000:' . sql('SELECT encode(sha256(blob(5, 2500000)), $$hex$$)'), 'with length and kept hash');
is(sql(q{SET securefile.dump_oversize = marker; SET securefile.dump_oversize_limit = '1MB'; SELECT doc FROM enchash WHERE id = 5}), '\securefile-unfilled:1:2500000:', 'without the hash of an encrypted value');
is(sql(q{SET securefile.dump_oversize = marker; SET securefile.dump_oversize_limit = '1kB'; SELECT doc || '!' FROM plain WHERE id = 3}), '\securefile-unfilled:1:5001:', 'of an edited value');

# ---- markers as input ----

sql('CREATE TABLE scratch (id int, doc securefile)');
# what an expression says: its SQLSTATE and message, or its result
my $says = q{CREATE FUNCTION says(expression text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE result text;
	BEGIN EXECUTE 'SELECT ' || expression INTO result; RETURN result;
	EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM; END $$};
sql($says);
my @wrong = map { "1:$_" } '0:', '-1:', '007:', '12', '9223372036854775808:', '12:abc', '12:' . 'A' x 64, '12:' . 'a' x 63, '12:' . 'a' x 65, ' 12:', ':', '';
is(sql(map { "SELECT says(\$\$'\\securefile-unfilled:$_'::securefile\$\$)" } @wrong, ':12:', '0:12:', '2:12:', '10:12:', '12:'),
	join("\n", ('22P02 invalid marker in the place of a securefile value') x (@wrong + 5)), 'none of these is a marker');
like(sql("SELECT says(\$\$'$_'\$\$)"), qr/^22P02 invalid input syntax for type bytea$/, $_)
  foreach '\securefile\'::securefile --', '\Securefile-unfilled:1:12:\'::securefile --', "$marker'::bytea --";
is(sql("SELECT convert_from(convert_to('$marker', 'UTF8')::securefile, 'UTF8') = '$marker'"), 't', 'bytes that look like one are bytes');
is(sql(q{SELECT length(t::securefile) FROM (VALUES ('\securefile-unfilled:1:9223372036854775807:')) v (t)}), '9223372036854775807', 'the longest');
SKIP:
{
	skip 'errors of input functions can be noted since 16', 1 if $node->pg_version < 16;
	is(sql(q{SELECT pg_input_is_valid('\securefile-unfilled:1:12:', 'securefile'), pg_input_is_valid('\securefile-unfilled:1:0:', 'securefile')}), 't|f', 'an error that is noted');
}

# ---- dump and restore ----

my $before = join ' UNION ALL ', map { "SELECT '$_', id, length(doc) FROM $_" } @all;
my $contents = join ' UNION ALL ', map { "SELECT '$_', id, md5(doc::bytea) FROM $_" } @all;
my ($want, $whole) = (sql("$before ORDER BY 1, 2"), sql("$contents ORDER BY 1, 2"));
$ENV{PGOPTIONS} = '-c securefile.dump_oversize=marker -c securefile.dump_oversize_limit=2MB';
command_ok([ 'pg_dump', '-Fd', '-j2', '-f', "$dir/dir", $port ], 'pg_dump with markers, by two sessions');
command_ok([ 'pg_dump', '--inserts', '-f', "$dir/inserts.sql", $port ], 'as INSERTs');
command_fails_like([ 'pg_dump', '-f', "$dir/none.sql", '-t', 'plain', $port =~ s/postgres/template1/r ], qr/no matching tables/, 'the setting is none of a database without the extension');
delete $ENV{PGOPTIONS};
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach 'again', 'inserted';
command_ok([ 'pg_restore', '-j2', '-d', $node->connstr('again'), "$dir/dir" ], 'pg_restore: nothing is ignored');
command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('inserted'), '-f', "$dir/inserts.sql" ], 'INSERTs');

sub again { return $node->safe_psql('again', join ";\n", @_) }
foreach my $db ('again', 'inserted')
{
	is($node->safe_psql($db, "$before ORDER BY 1, 2"), $want, "$db: all rows, with the lengths of their values");
	is($node->safe_psql($db, q{SELECT count(*), min(unfilled), max(unfilled), max(oversize) FROM securefile_oversize()}), '10|2|2|0', "$db: the rows are told");
}
is(again('SELECT count(*), sum(size) FROM counted JOIN refers USING (id)'), '6|15805100', 'foreign keys, and computed columns');
is(again(q{SELECT count(*) FROM pg_constraint WHERE conrelid = 'refers'::regclass AND convalidated}), 1, 'the foreign key is there');
is(again(q{SELECT string_agg(id || ':' || (doc::bytea = blob(seed, len)), ' ' ORDER BY id) FROM enc WHERE id < 5}), '1:true 2:true 3:true 4:true', 'the others are whole');
is(again(q{SELECT securefile_unfilled_digest(doc) = sha256(blob(5, 2500000)) FROM hash WHERE id = 5}), 't', 'the hash that the dump had');
is(again(q{SELECT count(*), count(*) FILTER (WHERE securefile_unfilled(doc)), count(securefile_unfilled_digest(doc)), min(form) FROM enchash, securefile_storage(doc) WHERE id > 4}), '2|2|0|unfilled', 'and none of an encrypted one');
is(again('SELECT count(*), count(securefile_kept_digest(doc)) FROM hash WHERE securefile_unfilled(doc)'), '2|0', 'no hash is kept');
is(again('SELECT count(*), count(securefile_unfilled_digest(doc)) FROM plain WHERE NOT securefile_unfilled(doc)'), '4|0', 'the others are no such values');

# no hash gets into an encrypted column by another way either
again("INSERT INTO enc SELECT id + 10, seed, len, doc FROM hash WHERE id = 5", "INSERT INTO enc VALUES (16, 5, 2500000, '$marker')");
is(again('SELECT count(*) FILTER (WHERE securefile_unfilled(doc)), count(securefile_unfilled_digest(doc)) FROM enc WHERE id > 10'), '2|0', 'an encrypted column keeps no hash');
again('DELETE FROM enc WHERE id > 10');

# ---- each way to the bytes is refused ----

my @ways = ('doc::bytea', 'doc::text', 'substring(doc, 1, 1)', 'doc || doc', q{doc || '!'}, q{overlay(doc placing 'a'::bytea from 1)}, 'securefile_truncate(doc, 1)',
	'doc = doc', q{doc = 'abc'::bytea}, q{securefile_digest(doc, 'md5')}, 'securefile_digest(doc)', '(SELECT count(*) FROM securefile_chunks(doc))',
	'(SELECT count(*) FROM securefile_data_chunks(doc))', '(SELECT count(*) FROM securefile_salvage(doc))', q{securefile_open(doc, 'r')});
my @answers = split /\n/, again(map { my $way = $_; map { "SELECT says(\$says\$$way FROM $_ WHERE id = 5\$says\$)" } 'enc', 'far', 'hash', 'rowed' } @ways);
is(scalar(@answers), 4 * @ways, 'all ways to the bytes were tried');
is(join("\n", grep { !/^55000 securefile value of 2500000 bytes $unfilled$/ } @answers), '', 'all of them are refused');
fails_with($node, 'SELECT doc FROM plain', '55000', "$unfilled.*securefile restore.*PGOPTIONS", 'SELECT says what to do', db => 'again');
command_fails_like([ 'pg_dump', '-t', 'plain', '-f', "$dir/twice.sql", $node->connstr('again') ], qr/$unfilled.*PGOPTIONS/s, 'pg_dump without the setting does, too');
command_fails_like([ 'psql', '-X', '-d', $node->connstr('again'), '-c', "\\copy plain TO '$dir/plain.bin' (FORMAT binary)" ], qr/$unfilled/, 'and binary COPY');

# ---- what happens to such a row meanwhile ----

my $left = q{SELECT count(*), count(*) FILTER (WHERE securefile_unfilled(doc)), sum(length(doc)) FROM far};
my $there = again($left);
foreach my $statement (q{UPDATE far SET seed = seed}, 'UPDATE far SET doc = doc', 'VACUUM FULL far', 'CLUSTER far USING far_pkey', 'ANALYZE', q{SELECT securefile_rewrite('far', 'doc')},
	q{CALL securefile_rewrite_online('far', 'doc')}, 'ALTER TABLE far ALTER doc TYPE securefile(nocompress)', q{SELECT securefile_rewrite('far', 'doc')}, 'ALTER TABLE far ALTER doc TYPE securefile(disable_storage_in_row, compress_medium)',
	'ALTER TABLE far ALTER seed TYPE bigint', 'ALTER TABLE far ALTER seed TYPE int', q{SELECT securefile_rewrite('far', 'doc', logging => 'filesystem_like_logging')}, q{SELECT securefile_rewrite('far', 'doc', logging => 'logging')})
{
	again($statement);
	is(again($left), $there, $statement);
}
fails_with($node, 'ALTER TABLE far ALTER doc TYPE bytea', '55000', $unfilled, 'ALTER TYPE bytea is refused', db => 'again');
$ENV{PGOPTIONS} = '-c securefile.dump_oversize=marker -c securefile.dump_oversize_limit=2MB';
command_ok([ 'pg_dump', '-Fc', '-f', "$dir/twice", $node->connstr('again') ], 'dumped again');
delete $ENV{PGOPTIONS};
$node->safe_psql('postgres', 'CREATE DATABASE twice TEMPLATE template0');
command_ok([ 'pg_restore', '-d', $node->connstr('twice'), "$dir/twice" ], 'and restored');
is($node->safe_psql('twice', 'SELECT count(*), sum(unfilled) FROM securefile_oversize()'), '10|20', 'nothing was filled');
is($node->safe_psql('twice', "$before ORDER BY 1, 2"), $want, 'nothing is lost');

foreach my $t (@tables)
{
	is(again("SELECT string_agg(finding || substring(detail from ' [0-9]+ '), ',' ORDER BY detail) FROM securefile_check('$t', 'doc')"), 'not restored 13000000 ,not restored 2500000 ', "$t: securefile_check() tells them");
	is(again("SELECT count(*) FROM securefile_repair('$t', 'doc', dry_run => false) WHERE action <> 'none'", "SELECT count(*) FROM securefile_check('$t', 'doc')"), "0\n2", "$t: a repair leaves them");
}

# ---- published tables ----

again('CREATE PUBLICATION sent FOR TABLE scratch');
fails_with($node, "INSERT INTO scratch VALUES (1, '$marker')", '55000', 'cannot be published.*scratch.*securefile restore', 'a published column takes none', db => 'again');
again('ALTER PUBLICATION sent SET TABLE scratch (id)', "INSERT INTO scratch VALUES (1, '$marker')", 'DROP PUBLICATION sent');
again(q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')}, "UPDATE scratch SET id = 2");
fails_with($node, q{SELECT * FROM pg_logical_slot_peek_changes('slot', NULL, NULL)}, '55000', "$unfilled", 'decoding says so', db => 'again');
like(again('SET securefile.dump_oversize = marker', q{SELECT data FROM pg_logical_slot_peek_changes('slot', NULL, NULL)}), qr/doc\[securefile\]:'\Q$marker\E'/, 'or gives the marker, where it is asked for');
again(q{SELECT pg_drop_replication_slot('slot')});

# ---- filling them ----

again('UPDATE plain SET doc = blob(seed, len) WHERE id > 4', 'DROP TABLE scratch');
foreach my $t (grep { $_ ne 'plain' } @tables)
{
	# by a handle, as a program does that has not all of the value, or by the value
	again("UPDATE $t t SET doc = s.doc::bytea FROM plain s WHERE s.id = t.id AND t.id = 5",
		qq{DO \$\$ DECLARE fd int := securefile_create('$t', 'doc'); part securefile := doc FROM plain WHERE id = 6; BEGIN
		FOR i IN 0 .. 12 LOOP PERFORM securefile_write(fd, substring(part, i * 1000000 + 1, 1000000)); END LOOP;
		UPDATE $t SET doc = securefile_finish(fd) WHERE id = 6; END \$\$});
}
again("UPDATE $_ t SET doc = s.doc FROM plain s WHERE s.id = t.id AND securefile_unfilled(t.doc)") foreach 'counted', 'parts', 'rowed';
is(again("$contents ORDER BY 1, 2"), $whole, 'filled: each value is what it was');
is(again('SELECT count(*) FROM securefile_oversize()'), 0, 'no row is left');
sound($node, $_, 'filled', db => 'again', in_row => $_ eq 'far' ? 0 : 4000) foreach @tables;
is(again(q{SELECT count(*), count(*) FILTER (WHERE securefile_kept_digest(doc) = sha256(doc::bytea)) FROM hash WHERE length(doc) > 4000}), '4|4', 'with their hashes');
$node->stop;
done_testing();
