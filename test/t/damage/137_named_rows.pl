# Promise 4, for commands over whole tables: if a row has a damaged value, the error names
# the row, the table and the column; commands that only move locators go through.
# Promise 8: no statistics object keeps securefile values inside others.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('named_rows', conf => ['securefile.monitor = off']);
my $len = 300_000;

# A table with rows 1 to 5; the value of row 3 loses a bit.
sub damaged_table
{
	my ($table, $more) = @_;
	my @before = data_files($node);
	make_table($node, $table, 'nocache', $more);
	fill($node, $table, 1, 5, $len);
	my ($file) = grep { my $f = $_; (grep { $_ eq $f } @before) == 0 && block_at($f, 3, 40) > 0 } data_files($node);
	my $at = block_at($file, 3, 40);
	patch($file, $at + 100, chr(ord(substr(slurp($file), $at + 100, 1)) ^ 4));
	return;
}

sub ctid_of
{
	my ($table, $id) = @_;
	return $node->safe_psql('postgres', "SELECT ctid FROM $table WHERE id = $id");
}

# The statement fails and names row 3.
sub names_row
{
	my ($table, $column, $sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $ctid = ctid_of($table, 3);
	fails_with($node, $sql, 'XX001', qr/CONTEXT:  (?:[^\n]*\n)*?column "$column" of row \Q$ctid\E of table "$table"/, $sql);
	return;
}

# ---- commands that read the values ----

damaged_table('t');
names_row('t', 'doc', $_) foreach (
	'ALTER TABLE t ALTER doc TYPE bytea',
	q{ALTER TABLE t ALTER doc TYPE bytea USING doc::bytea || '\x00'},
	'ALTER TABLE t ALTER doc TYPE text USING md5(doc)',
	'ALTER TABLE t ALTER doc TYPE securefile USING (doc::bytea)::securefile',
	'ALTER TABLE t ALTER len TYPE bigint, ALTER doc TYPE bytea, ADD more int DEFAULT 1',
	q{SELECT securefile_rewrite('t', 'doc')},
	q{SELECT securefile_rewrite('t', 'doc', 'filesystem_like_logging')});
$node->safe_psql('postgres', 'ALTER TABLE t ADD raw bytea');
names_row('t', 'raw', 'ALTER TABLE t ALTER raw TYPE securefile USING doc::bytea');
names_row('t', 'raw', 'ALTER TABLE t ALTER raw TYPE securefile USING doc');
names_row('t', 'doc', 'ALTER TABLE t RENAME TO was; ALTER TABLE was RENAME TO t; ALTER TABLE t ALTER doc TYPE bytea');

# a new table goes away with its rows: the column that the value was read from is named
foreach my $sql ('CREATE TABLE made AS SELECT * FROM t', 'SELECT id, doc INTO made FROM t', 'BEGIN; CREATE TABLE made AS TABLE t')
{
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	like($err, qr/CONTEXT:  a value of column "doc" of table "t"/, "$sql names the source");
	unlike($err, qr/of row|"made"/, "$sql names no row");
}
{
	my ($rc, $out, $err) = $node->psql('postgres', q{CREATE TABLE made AS SELECT doc || '\x00' AS doc FROM t});
	like($err, qr/^[^
]*ERROR:  securefile value is damaged/m, 'a value of several parts');
	unlike($err, qr/CONTEXT/, 'has no column that it was read from');
}

# rows of children have the name of the child
$node->safe_psql('postgres', 'CREATE TABLE parent (id int, seed int, len int, doc securefile(nocache))');
damaged_table('child', 'INHERITS (parent)');
fill($node, 'parent', 3, 3, $len);
names_row('child', 'doc', 'ALTER TABLE parent ALTER doc TYPE bytea');
$node->safe_psql('postgres', 'DELETE FROM ONLY parent');
names_row('child', 'doc', q{SELECT securefile_rewrite('parent', 'doc')});

# what fails later is no matter of a row
damaged_table('indexed');
my ($rc, $out, $err) = $node->psql('postgres', 'CREATE INDEX ON indexed USING hash (doc)');
unlike($err, qr/of row/, 'an index that is built names no row');
$node->safe_psql('postgres', "ALTER TABLE indexed ADD other securefile; UPDATE indexed SET other = blob(1, $len) WHERE id <> 3");
is($node->safe_psql('postgres', 'ALTER TABLE indexed ALTER other TYPE bytea; SELECT count(*) FROM indexed WHERE other = blob(1, len)'),
	4, 'a sound column of the same rows is converted');

# ---- commands that only move locators ----

$node->safe_psql('postgres', $_) foreach (
	'VACUUM FULL t', 'CLUSTER t USING t_pkey', 'ALTER TABLE t ADD stamp timestamptz DEFAULT clock_timestamp()',
	'ALTER TABLE t ALTER seed TYPE bigint', 'ALTER TABLE t ALTER seed TYPE int', 'ALTER TABLE t SET (fillfactor = 50)', 'ALTER TABLE t SET LOGGED');
is($node->safe_psql('postgres', 'SELECT string_agg(outcome(doc, seed, len), $$ $$ ORDER BY id) FROM t'),
	'right right XX001 right right', 'the sound rows are right after all of them');

# ---- commands that are not about damage ----

is($node->safe_psql('postgres', q{DELETE FROM t WHERE id = 3; ALTER TABLE t ALTER doc TYPE bytea;
	SELECT count(*) FROM t WHERE doc = blob(seed, len)}), 4, 'without the row the type is changed');
is($node->safe_psql('postgres', q{ALTER TABLE t ALTER doc TYPE securefile USING doc || '\x00';
	ALTER TABLE t ALTER doc TYPE securefile USING substring(doc FROM 1 FOR len);
	SELECT count(*) FROM t WHERE doc = blob(seed, len)}), 4, 'and back, with USING');
sound($node, 't', 'after all');
fails_with($node, 'ALTER TABLE t ALTER doc TYPE int', '42804', qr/cannot be cast automatically/, 'no cast');
fails_with($node, 'ALTER TABLE t ALTER doc TYPE int USING nothing', '42703', qr/column "nothing" does not exist/, 'no column');
is($node->safe_psql('postgres', q{CREATE TABLE p (id int, doc securefile) PARTITION BY RANGE (id);
	CREATE TABLE p2 (junk int, doc securefile, id int); ALTER TABLE p2 DROP junk; ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (0) TO (9);
	INSERT INTO p SELECT i, blob(i, 9000) FROM generate_series(1, 3) i;
	ALTER TABLE p ALTER doc TYPE bytea USING doc::bytea || int4send(id);
	SELECT count(*) FROM p WHERE doc = blob(id, 9000) || int4send(id)}), 3, 'columns of partitions have other numbers');

# ---- statistics objects ----

$node->safe_psql('postgres', q{CREATE TABLE s (id int, d securefile, b bytea); CREATE DOMAIN files AS securefile[];
	CREATE TYPE pair AS (id int, d securefile)});
foreach my $expression ('ARRAY[d]', 'ARRAY[ARRAY[d], ARRAY[d]]', 'array_append(ARRAY[d], d)', 'ARRAY[d]::files', 'array_fill(d, ARRAY[2])', 'ROW(id, d)::pair')
{
	fails_with($node, "CREATE STATISTICS x ON ($expression) FROM s", '0A000', qr/cannot have an expression of type .*HINT: /s, "statistics of $expression");
	fails_with($node, "CREATE STATISTICS x ON ($expression), (id + 1) FROM s", '.....', qr/cannot /, "statistics of $expression and another");
}
$node->safe_psql('postgres', 'CREATE STATISTICS x ON (ARRAY[b]) FROM s');
fails_with($node, 'ALTER TABLE s ALTER b TYPE securefile', '0A000', qr/statistics object "x" cannot have an expression of type/, 'statistics that were there before');
is($node->safe_psql('postgres', q{INSERT INTO s SELECT i, blob(i, 9000), 'x' FROM generate_series(1, 100) i;
	CREATE STATISTICS y ON (CASE WHEN id > 0 THEN d END) FROM s; CREATE TABLE l (LIKE s INCLUDING ALL);
	ANALYZE s; SELECT count(*) FROM pg_statistic_ext_data}), 2, 'others are made, and filled by ANALYZE');

$node->stop;
done_testing();
