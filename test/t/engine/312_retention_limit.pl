# What counts as kept for half of the limit, and what counts for all of it: shared objects by whether
# any row has them still, small values by their sectors, and no page that is free.  And what is left
# of the keys of rows when the time of their values is over.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

use constant { KEPT_SECTORS => CONTENT + 120, KEPT_SHARED => CONTENT + 168, FREE_PAGES => CONTENT + 176 };

my $node = new_cluster('limit', conf => [ 'securefile.monitor = off', 'securefile.syncer = off', 'fsync = off' ]);
need_faults($node);

sub kept_table
{
	my ($table, @options) = @_;
	sql("CREATE TABLE $table (id int PRIMARY KEY, doc securefile(disable_storage_in_row, 'retention 7 days', " . join(', ', @options) . '))');
	return;
}
sub maintain { return "SELECT count(*) FROM securefile_maintain('$_[0]', 'doc')"; }
sub purge { return "SELECT securefile_purge('$_[0]', 'doc')"; }
sub said { my (undef, undef, $err) = $node->psql('postgres', join(";\n", @_), extra_params => [ '-v', 'VERBOSITY=verbose' ]); return $err; }
sub retained { return sql("SELECT retained_bytes FROM securefile_usage('$_[0]', 'doc')"); }
sub listed { return sql("SELECT count(*) FROM securefile_removed('$_[0]', 'doc')"); }
# how much content(o), below, takes
sub sectors { return int((16 * (44000 + $_[0]) + SECTOR - 1) / SECTOR) * SECTOR; }
sub no_findings { return is(sql("SELECT f::text FROM securefile_check('$_[0]', 'doc') f"), '', "$_[0] has nothing to be found"); }
sub segment { return $node->data_dir . '/' . sql("SELECT pg_relation_filepath(segment_relid) FROM securefile_columns WHERE relid = '$_[0]'::regclass"); }

# ---- a DELETE that needs more pages than the limit has ----

foreach my $retention ('retention 7 days', 'retention none')
{
	my $table = $retention =~ /none/ ? 'many' : 'many_kept';
	sql("CREATE TABLE $table (id int PRIMARY KEY, doc securefile(disable_storage_in_row, deduplicate, '$retention', 'max_size 1 MB'))",
		"INSERT INTO $table SELECT i, repeat('x', 5000)::bytea FROM generate_series(1, 40000) i",
		"DELETE FROM $table");
	my $error = said("INSERT INTO $table VALUES (0, decode(repeat('00', 300000), 'hex'))", "DELETE FROM $table");
	# nothing is sure but that it is not wrong: the pages are in use
	like($error, qr/securefile_purge\(\)/, 'the hint names what helps, also where no value is kept') if $error =~ /ERROR:  53400/ && $table eq 'many_kept';
	sql(maintain($table));
	cmp_ok(retained($table), '<=', 512 * 1024, "no more than half is kept in $table") if $table eq 'many_kept';
	is(said(purge($table), maintain($table), "INSERT INTO $table VALUES (1, decode(repeat('00', 900000), 'hex'))", "SELECT 1 / (length(doc) = 900000)::int FROM $table WHERE id = 1"), '',
		"a column is not full because of a DELETE ($retention)");
	cmp_ok(-s segment($table), '>', 1024 * 1024, 'which has taken more pages than the limit has') if $table eq 'many_kept';
	no_findings($table);
}

# ---- shared objects ----

# Ten contents of 700 kB in twenty rows each; one of each goes in every turn.
kept_table('shared', 'deduplicate', "'max_size 12 MB'");
sql(q{CREATE FUNCTION content(o int) RETURNS bytea LANGUAGE sql AS $$ SELECT decode(repeat(md5(o::text), 44000 + o), 'hex') $$},
	'INSERT INTO shared SELECT 20 * o + i, c FROM generate_series(1, 10) o, content(o) c, generate_series(0, 19) i',
	'INSERT INTO shared VALUES (0, content(99))', 'DELETE FROM shared WHERE id = 0', maintain('shared'));
my @turns = map { my $turn = $_; ("DELETE FROM shared WHERE id % 20 = $turn", $turn % 3 == 1 ? maintain('shared') : ()) } 0 .. 18;
is(said(@turns, maintain('shared')), '', 'nothing ends early while a row has each content');
is(listed('shared'), 1 + 19 * 10, 'all is listed');
is(retained('shared'), sectors(99), 'and only what no row has is retained');
like(said('DELETE FROM shared WHERE id < 200', maintain('shared')), qr/^(?:psql:\S+ )?WARNING:  53400: removed values of column "doc"/, 'the last references make it too much');
my $kept = retained('shared');
cmp_ok($kept, '<=', mb(6), 'no more than half is kept');
cmp_ok($kept, '>', mb(3), 'and not much less');
is(sql("SELECT count(*) FROM securefile_removed('shared', 'doc') r WHERE r.row_key ->> 'id' <> '0' AND r.document::bytea <> content((r.row_key ->> 'id')::int / 20)"), 0, 'what is listed is right');
cmp_ok(listed('shared'), '>', 0, 'and something is');
no_findings('shared');

# Other references come and go: of a transaction that fails while what is kept is counted, too.
kept_table('again', 'deduplicate', "'max_size 4 MB'");
sql('INSERT INTO again SELECT i, content(1) FROM generate_series(1, 2) i', 'INSERT INTO again SELECT i, content(i) FROM generate_series(4, 5) i',
	'DELETE FROM again WHERE id < 4', maintain('again'), 'DELETE FROM again');
my $writer = background($node);
$writer->query_safe('BEGIN; INSERT INTO again VALUES (3, content(1))');
unlike(said(maintain('again')), qr/WARNING/, 'what a transaction may have is not counted');
is(listed('again'), 4, 'and all is kept');
$writer->query_safe('ROLLBACK');
$writer->quit;
like(said(maintain('again')), qr/WARNING:  53400/, 'when it has failed it is');
cmp_ok(retained('again'), '<=', 2 * 1024 * 1024, 'and no more than half is kept');
no_findings('again');

# ---- small values ----

kept_table('small', "'max_size 4 MB'");
sql("INSERT INTO small SELECT i, 'x' FROM generate_series(1, 6000) i", 'DELETE FROM small WHERE id % 8 = 0');
is(said(maintain('small')), '', 'of small values nothing ends for what their neighbours take');
is(listed('small'), 750, 'all is listed');
cmp_ok(retained('small'), '<=', 750 * SECTOR, 'they count as what they are');
like(said('DELETE FROM small WHERE id % 8 < 7', maintain('small')), qr/WARNING:  53400/, 'what is more than half ends');
cmp_ok(retained('small'), '<=', mb(2), 'no more than half is kept');
cmp_ok(retained('small'), '>', mb(1), 'and not much less');
no_findings('small');

# Each in a block of its own, of which nothing else can use the rest: they are not more than half, either.
kept_table('alone', "'max_size 1 MB'");
sql('INSERT INTO alone SELECT i, repeat(\'a\', 1500)::bytea FROM generate_series(1, 5) i');
my $refused = '';
foreach my $round (1 .. 12)
{
	$refused .= said("DO \$\$ BEGIN FOR i IN 1 .. 40 LOOP UPDATE alone SET doc = repeat(chr(65 + i), 1500)::bytea WHERE id = 1 + i % 5; COMMIT; END LOOP; END \$\$", maintain('alone'));
}
unlike($refused, qr/ERROR/, 'what is kept of small values does not fill the column');
like($refused, qr/WARNING:  53400/, 'the oldest of it ends');
cmp_ok(listed('alone'), '>', 80, 'and no more');
# Six in a block, which go one by one: what is free beside them counts once.
kept_table('six', "'max_size 1 MB'");
sql(q{INSERT INTO six SELECT i, 'x' FROM generate_series(1, 6) i}, (map { ("DELETE FROM six WHERE id = $_", maintain('six')) } 3, 6, 1, 2, 5, 4), 'CHECKPOINT');
is(unpack('Q<', substr(slurp(segment('six')), KEPT_SECTORS, 8)), 8 + PAGE / SECTOR, 'a block counts as a block, and a page of the history');
# Many in a block, in a column that deduplicates
kept_table('many_small', 'deduplicate', "'max_size 1 MB'");
sql('INSERT INTO many_small SELECT i, i::text::bytea FROM generate_series(1, 700) i', 'DELETE FROM many_small');
is(said(maintain('many_small')), '', 'shared values count as what they are, too');
is(listed('many_small'), 700, 'all is listed');
no_findings($_) foreach 'alone', 'many_small';

# What is stored and removed in one transaction cannot be listed, and is not kept.
kept_table('brief', 'deduplicate', "'max_size 2 MB'");
sql('BEGIN', 'INSERT INTO brief VALUES (1, content(1))', 'UPDATE brief SET doc = content(2)', 'DELETE FROM brief', 'COMMIT', maintain('brief'));
is(sql("SELECT retained_bytes, pending_bytes, live_bytes FROM securefile_usage('brief', 'doc')"), '0|0|0', 'what only one transaction has seen is not kept');
sql('INSERT INTO brief VALUES (1, content(1))', 'BEGIN', 'INSERT INTO brief VALUES (2, content(1))', 'UPDATE brief SET doc = content(1) WHERE id = 1', 'DELETE FROM brief WHERE id = 2', 'COMMIT', 'DELETE FROM brief', maintain('brief'));
is(sql("SELECT count(*), count(*) FILTER (WHERE document::bytea = content(1)) FROM securefile_removed('brief', 'doc')"), '2|2', 'nor does it take along what others had');
no_findings('brief');

# ---- numbers that the header has ----

kept_table('numbers', 'deduplicate', "'max_size 64 MB'");
sql('INSERT INTO numbers SELECT i, content(i) FROM generate_series(1, 9) i', 'DELETE FROM numbers', maintain('numbers'), purge('numbers'), maintain('numbers'),
	'INSERT INTO numbers SELECT i, content(i) FROM generate_series(1, 9) i', 'DELETE FROM numbers WHERE id < 5', maintain('numbers'), 'CHECKPOINT');
my $file = segment('numbers');
my ($shared, $free) = unpack('Q< V', substr(slurp($file), KEPT_SHARED, 12));
my $keep = sectors(1) + sectors(2) + sectors(3) + sectors(4);
# and what is free of their last blocks
ok($shared * SECTOR >= $keep && $shared * SECTOR <= $keep + 4 * 7 * SECTOR, 'the header knows what shared objects keep');
is($free, scalar(pages_of(slurp($file), PAGE_FREE)), 'and how many pages are free');
$node->stop;
change($file, 0, FREE_PAGES, pack('V', $free + 1));
$node->start;
like(sql("SELECT f::text FROM securefile_check('numbers', 'doc') f"), qr/$free pages are free, page 0 says @{[$free + 1]}/, 'a wrong number of free pages is found');
like(sql("SELECT action FROM securefile_repair('numbers', 'doc', false)"), qr/^rebuild lists of pages$/m, 'and mended');
no_findings('numbers');
is(listed('numbers'), 4, 'what is kept is listed still');

# ---- keys of rows ----

# A key is a name, perhaps of somebody: it is on no page any more when its time is over.
sql(q{CREATE TABLE keys (id text PRIMARY KEY, doc securefile(disable_storage_in_row, 'retention 7 days', 'max_size 1 MB'))},
	q{INSERT INTO keys VALUES ('Erika Mustermann', 'x')}, 'DELETE FROM keys', maintain('keys'), 'CHECKPOINT');
like(slurp(segment('keys')), qr/Erika Mustermann/, 'the key of a removed row is in the segment');
arm($node, 'time_passes', 'skip', times => -1);
sql(q{INSERT INTO keys VALUES ('Max Mustermann', 'x')}, q{DELETE FROM keys}, maintain('keys'), 'CHECKPOINT');
unlike(slurp(segment('keys')), qr/Erika Mustermann/, 'and is not when its time is over, though others are kept on the page');
like(slurp(segment('keys')), qr/Max Mustermann/, 'as one that is');
is(sql(q{SELECT string_agg(row_key ->> 'id', ' ') FROM securefile_removed('keys', 'doc')}), 'Max Mustermann', 'which is listed');
no_findings('keys');
sql(purge('keys'), 'CHECKPOINT');
unlike(slurp(segment('keys')), qr/Mustermann/, 'and none is after a purge');
disarm($node);

# ---- a purge and a TRUNCATE ----

sql("INSERT INTO keys VALUES ('b', 'x')", 'DELETE FROM keys');
like(said('BEGIN', 'TRUNCATE keys', purge('keys')), qr/ERROR:  55000: cannot call securefile_purge\(\) in a transaction that has truncated/, 'a purge does not purge what a ROLLBACK would not bring back');
is(listed('keys'), 1, 'nothing was purged');

done_testing();
