# What queries have read of values, and what they were given: scanned_bytes, returned_bytes and
# skipped_bytes, exactly, by function and by form of value; in the session and in all of them;
# with parallel workers; of what nobody looked at, and of what is no query.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('counted', conf => [ master_key(), "securefile.monitor_naptime = '1h'", 'max_parallel_workers = 4' ]);
my $dir = $node->basedir;

# The row with nulls is "-"; only rows with numbers: "name scanned/returned/skipped".
my $counts = q{SELECT 'counts:' || coalesce(string_agg(coalesce(relname, '-') || ' ' || scanned_bytes || '/' || returned_bytes
	|| '/' || skipped_bytes, ', ' ORDER BY relname), 'none')
	FROM securefile_stat_session WHERE scanned_bytes <> 0 OR returned_bytes <> 0 OR skipped_bytes <> 0};

# What a session of its own has counted after these statements.
sub counted
{
	my (@statements) = @_;
	return (sql(@statements, $counts) =~ /counts:(.*)/g)[-1];
}

# ---- each function, each form ----

sql(q{CREATE TABLE plain (id int, document securefile, twin bytea)},
	q{CREATE TABLE coded (id int, document securefile(compress), twin bytea)},
	q{CREATE TABLE trained (id int, document securefile(compress), twin bytea)},
	q{CREATE TABLE sealed (id int, document securefile(encrypt), twin bytea)},
	q{CREATE TABLE shared (id int, document securefile(deduplicate), twin bytea)},
	q{CREATE TABLE hashed (id int, document securefile(hash), twin bytea)},
	q{INSERT INTO plain SELECT 1, v, v FROM (SELECT blob(1, 500)) x(v)},
	q{INSERT INTO plain SELECT 2, v, v FROM (SELECT blob(2, 300000)) x(v)},
	q{CREATE FUNCTION sparse(len bigint) RETURNS securefile LANGUAGE plpgsql AS $$ DECLARE h int := securefile_create('plain', 'document');
		BEGIN PERFORM securefile_write(h, '\x41'), securefile_truncate(h, len); RETURN securefile_finish(h); END $$},
	q{INSERT INTO plain SELECT 3, sparse(700000), '\x41'::bytea || decode(repeat('00', 699999), 'hex')},
	q{INSERT INTO plain VALUES (4, '', '')},
	q{INSERT INTO coded SELECT 1, v, v FROM (SELECT convert_to(repeat('x', 3000), 'UTF8')) x(v)},
	q{INSERT INTO coded SELECT 2, v, v FROM (SELECT convert_to(repeat('x', 300000), 'UTF8')) x(v)},
	q{INSERT INTO trained SELECT i, v, v FROM (SELECT i, convert_to(repeat('what they have in common, ', 8) || md5(i::text), 'UTF8') FROM generate_series(1, 200) i) x(i, v)},
	q{SELECT count(*) FROM securefile_train('trained', 'document', 200)},
	q{SELECT securefile_rewrite('trained', 'document')},
	q{INSERT INTO sealed SELECT 1, v, v FROM (SELECT blob(1, 3000)) x(v)},
	q{INSERT INTO sealed SELECT 2, v, v FROM (SELECT blob(2, 300000)) x(v)},
	q{INSERT INTO shared SELECT i, v, v FROM (SELECT blob(1, 300000)) x(v), generate_series(1, 2) i},
	q{INSERT INTO hashed SELECT 1, v, v FROM (SELECT blob(1, 300000)) x(v)});

# Where the value is, its condition, its length, and the form that it must have.
my @forms = (
	[ '-', 'plain WHERE id = 1', 500, 'inline' ],
	[ 'plain', 'plain WHERE id = 2', 300000, 'stored' ],
	[ 'plain', 'plain WHERE id = 3', 700000, 'stored' ],
	[ '-', 'plain WHERE id = 4', 0, 'inline' ],
	[ '-', 'coded WHERE id = 1', 3000, 'packed' ],
	[ 'coded', 'coded WHERE id = 2', 300000, 'stored' ],
	[ 'trained', 'trained WHERE id = 7', 8 * 26 + 32, 'trained' ],
	[ 'sealed', 'sealed WHERE id = 1', 3000, 'sealed' ],
	[ 'sealed', 'sealed WHERE id = 2', 300000, 'stored' ],
	[ 'shared', 'shared WHERE id = 2', 300000, 'stored' ]);

# Each returns counters in the order of the view: of the value, of length $_[0].
my @functions = (
	[ 'cast to bytea', 'SELECT count(document::bytea) FROM (SELECT document, id FROM %s OFFSET 0) x', sub { (0, $_[0], 0) } ],
	[ 'cast to text', 'SELECT count(document::text) FROM %s', sub { (0, $_[0], 0) } ],
	[ 'COPY', "COPY (SELECT document FROM %s) TO '$dir/copied'", sub { (0, $_[0], 0) } ],
	[ 'COPY BINARY', "COPY (SELECT document FROM %s) TO '$dir/copied' (FORMAT binary)", sub { (0, $_[0], 0) } ],
	[ 'substring', 'SELECT count(substring(document FROM 3 FOR 100)) FROM %s', sub { (0, min(100, max($_[0] - 2, 0)), 0) } ],
	[ 'substring to the end', 'SELECT count(substring(document, 200::bigint)) FROM %s', sub { (0, max($_[0] - 199, 0), 0) } ],
	[ 'chunks', 'SELECT sum(get_byte(c, 0)) FROM (SELECT securefile_chunks(document, 1, NULL, 70001) c FROM %s) x', sub { (0, $_[0], 0) } ],
	[ 'handle', "SELECT count(securefile_read(securefile_open(document, 'r'), 2000000)) FROM %s", sub { (0, $_[0], 0) } ],
	[ 'digest', "SELECT count(securefile_digest(document, 'xxh3')) FROM %s", sub { ($_[0], 0, 0) } ],
	[ 'hash', 'SELECT count(securefile_hash(document)), count(securefile_hash_extended(document, 7)) FROM %s', sub { (2 * $_[0], 0, 0) } ],
	[ 'equal', 'SELECT count(document = twin) FROM %s', sub { ($_[0], 0, 0) } ],
	[ 'a search in vain', q{SELECT count(position('\xfefdfc'::bytea IN document)), count(securefile_position(document, '\xfefdfc', -1)) FROM %s},
		# forwards, the hole at the end is passed over; backwards it is too short for that
		sub { $_[0] == 700000 ? (131072 + $_[0], 0, $_[0] - 131072) : (2 * $_[0], 0, 0) } ],
	[ 'other length', q{SELECT count(document <> '\x0102030405'::bytea) FROM %s}, sub { (0, 0, $_[0]) } ],
	[ 'length', 'SELECT sum(length(document)) FROM %s', sub { (0, 0, 0) } ],
	[ 'a copy', 'SELECT count(document || document) FROM %s', sub { (0, 0, 0) } ]);

sub min { return $_[0] < $_[1] ? $_[0] : $_[1]; }
sub max { return $_[0] > $_[1] ? $_[0] : $_[1]; }

# The numbers of one row: those before are taken off.
sub row_of
{
	my ($counted, $name) = @_;
	return $counted =~ /(?:^|, )\Q$name\E (\d+)\/(\d+)\/(\d+)/ ? ($1, $2, $3) : (0, 0, 0);
}

# All functions in one session; each one must add what it should, to one row only.
sub functions_count
{
	my ($name, $rows, $length, $from) = @_;
	my @printed = sql(map { (sprintf($_->[1], $from), $counts) } @functions) =~ /counts:(.*)/g;
	my @before = (0, 0, 0);
	foreach my $i (0 .. $#functions)
	{
		my ($function, undef, $expected) = @{ $functions[$i] };
		my @now = row_of($printed[$i], $rows);
		my @added = map { $now[$_] - $before[$_] } 0 .. 2;
		my @elsewhere = grep { !/^\Q$rows\E / } split /, /, $printed[$i];
		is("@added, elsewhere: @elsewhere", join(' ', $expected->($length)) . ', elsewhere: ' . ($printed[$i] eq 'none' ? 'none' : ''), "$name: $function");
		@before = @now;
	}
	return;
}

foreach (@forms)
{
	my ($rows, $from, $length, $form) = @$_;
	is(sql("SELECT s.form, s.length, s.stored_bytes < s.length FROM $from, securefile_storage(document) s" =~ s/ (WHERE \S+ = \d+), (.*)/, $2 $1/r),
		join('|', $form eq 'stored' ? 'stored' : 'inline', $length, $from =~ /coded|trained|id = 3/ ? 't' : 'f'), "form of $from");
	functions_count("$from ($form)", $rows, $length, $from);
}

sql(q{INSERT INTO plain VALUES (6, sparse(20000000))});

# An edited value: what it has of a stored one is counted there, all else nowhere.
my $edited = q{(SELECT id, document || '\x0102030405'::bytea AS document FROM plain WHERE id = 2 OFFSET 0) x};
is(counted("SELECT count(document::bytea) FROM $edited"), 'plain 0/300000/0, - 0/5/0', 'edited: cast');
is(counted("SELECT count(substring(document FROM 299999 FOR 4)) FROM $edited"), 'plain 0/2/0, - 0/2/0', 'edited: substring over the edge');
is(counted("SELECT count(securefile_digest(document, 'md5')) FROM $edited"), 'plain 300000/0/0, - 5/0/0', 'edited: digest');
is(counted("SELECT count(securefile_read(securefile_open(document, 'r'), 2000000)) FROM $edited"), 'plain 0/300000/0, - 0/5/0', 'edited: handle');
is(counted("SELECT count(document = '\\x01'::bytea) FROM $edited"), 'plain 0/0/300000, - 0/0/5', 'edited: other length');
is(counted("SELECT count(securefile_digest(document, 'md5')) FROM plain WHERE id = 6"), 'plain 20000000/0/0', 'a long hole: a digest goes through it');
is(counted(q{DO $$ DECLARE f securefile := ''; BEGIN FOR i IN 1..50 LOOP f := f || '\x0102'; END LOOP;
	PERFORM substring(f FROM 11 FOR 20), securefile_digest(f, 'md5'); END $$}), '- 100/20/0', 'a value that grows in a loop');

# What is not read: of another length; the same object; what is behind the first difference.
is(counted('SELECT count(document = document) FROM plain WHERE id = 2'), 'plain 0/0/600000', 'the same object');
is(counted('SELECT count(a.document = b.document) FROM shared a, shared b WHERE a.id = 1 AND b.id = 2'), 'shared 600000/0/0', 'references are read');
is(counted('SELECT count(a.document = b.document) FROM plain a, coded b WHERE a.id = 2 AND b.id = 1'), 'plain 0/0/300000, - 0/0/3000', 'two lengths');
sql('INSERT INTO plain SELECT 5, v, overlay(v PLACING \'\xff\' FROM 5) FROM (SELECT blob(5, 2500000)) x(v)');
is(counted('SELECT count(document = twin) FROM plain WHERE id = 5'), 'plain 1048576/0/0', 'up to the first difference');
is(counted('SELECT count(securefile_digest(document)), count(securefile_kept_digest(document)) FROM hashed'), 'hashed 0/0/600000', 'kept digest');
is(counted(q{SELECT count(securefile_digest(document, 'sha256')) FROM hashed}), 'hashed 300000/0/0', 'digest that is checked');
is(counted('SELECT count(securefile_digest(document)), count(securefile_kept_digest(document)) FROM plain WHERE id = 2'), 'plain 300000/0/0', 'nothing is kept');

is(counted(q{SELECT count(position('\xfefdfc'::bytea IN document)) FROM plain WHERE id = 6}), 'plain 131072/0/19868928', 'a long hole: a search passes over it');
is(counted(q{SELECT securefile_positions(document, convert_to(substr(encode(twin, 'escape'), 1, 1), 'UTF8')) FROM plain WHERE id = 2 LIMIT 3}), 'plain 131072/0/0', 'a search that stops');
is(counted(q{SELECT securefile_search(securefile_open(document, 'r'), convert_to(repeat('none', 9), 'UTF8')) FROM plain WHERE id = 2}), 'plain 300000/0/0', 'a search by a handle');
my $directory = PostgreSQL::Test::Utils::tempdir();
is(counted("SELECT securefile_save(document, '$directory/saved') FROM plain WHERE id = 2"), 'plain 0/300000/0', 'a file of the server');
is(counted('SELECT count(securefile_compare(document, document)) FROM plain WHERE id = 2'), 'plain 0/0/600000', 'compare: the same object');
is(counted('SELECT count(securefile_compare(document, twin::securefile)) FROM plain WHERE id = 2'), 'plain 300000/0/0, - 300000/0/0', 'compare: equal bytes');
is(counted(q{SELECT count(securefile_compare(document, '\x01'::securefile)) FROM plain WHERE id = 2}), 'plain 1/0/0, - 1/0/0', 'compare: as many as both have');

# A sum that no bigint holds stays at the largest one.
is(counted(q{SELECT count(securefile_truncate('\x01'::securefile, 4611686018427387904 - i) = '\x02'::bytea) FROM generate_series(1, 5) i}),
	"- 0/0/9223372036854775807", 'no sum wraps');

# ---- pieces that nobody looks at, cursors ----

my $pieces = 'SELECT securefile_chunks(document, 1, NULL, 100000) c FROM plain WHERE id = 2';
is(counted("SELECT length(c) FROM ($pieces) x"), 'none', 'chunks: only their lengths');
is(counted("SELECT get_byte(c, 0) FROM ($pieces OFFSET 1 LIMIT 1) x"), 'plain 0/100000/0', 'chunks: one of three');
is(counted("SELECT get_byte(c, 0), get_byte(c, 1) FROM ($pieces LIMIT 1) x"), 'plain 0/100000/0', 'chunks: one that is read twice');
is(counted("BEGIN", "DECLARE c CURSOR FOR $pieces", 'FETCH 2 FROM c'), 'plain 0/200000/0', 'cursor, stopped half-way, in its transaction');
is(counted("BEGIN", "DECLARE c CURSOR FOR $pieces", 'FETCH 1 FROM c', 'MOVE 1 IN c', 'FETCH 5 FROM c', 'COMMIT'), 'plain 0/200000/0', 'cursor that passes one over');
is(counted("BEGIN;\nSELECT securefile_open(document, 'r') AS h FROM plain WHERE id = 2 \\gset\nSELECT length(securefile_read(:h, 1000))",
	'SELECT securefile_seek(:h, 299990, 0)', 'SELECT length(securefile_read(:h, 1000))', 'SELECT length(securefile_read(:h, 1000))', 'ROLLBACK'), 'plain 0/1010/0', 'handle that is moved');
is(counted("BEGIN;\nSELECT securefile_open(document, 'rw') AS h FROM plain WHERE id = 2 \\gset\nSELECT securefile_write(:h, '\\x0102')",
	'SELECT length(securefile_read(:h, 1000))', 'ROLLBACK'), 'plain 0/1000/0', 'handle that writes');
is(counted('SELECT count(s.data) FROM plain, securefile_salvage(document) s WHERE id = 2'), 'plain 0/300000/0', 'salvage');
is(counted('SELECT count(get_byte(c, 0)) FROM (SELECT securefile_data_chunks(document) c FROM plain WHERE id = 6) x'), 'plain 0/131072/0', 'chunks of data only');

# ---- in the session, and in all of them ----

my $all = q{SELECT scanned_bytes || '/' || returned_bytes || '/' || skipped_bytes FROM securefile_stat WHERE relname = 'plain'};
sql('SELECT securefile_stat_reset()');
my $digests = q{SELECT count(securefile_digest(document, 'md5')) FROM plain WHERE id = 2};
my $session = background($node);
$session->query_safe("BEGIN; $digests");
like($session->query_safe($counts), qr/:plain 300000\/0\/0$/, 'the transaction that runs is in the session');
is(sql($all), '0/0/0', 'and not among all sessions yet');
is(counted('SELECT 1'), 'none', 'nor in another session');
$session->query_safe('ROLLBACK');
is(sql($all), '300000/0/0', 'what was rolled back was read');
sql('SELECT count(substring(document FROM 1 FOR 50000)), count(document = \'\x01\'::bytea) FROM plain WHERE id = 2');
is(sql(q{SELECT scanned_bytes, returned_bytes, skipped_bytes, round(ratio::numeric, 4) FROM securefile_scan WHERE relname = 'plain'}),
	'300000|50000|300000|0.9231', 'securefile_scan');
is(sql(q{SELECT ratio IS NULL FROM securefile_scan WHERE relname = 'coded'}), 't', 'securefile_scan of what was not read');
$session->query_safe('SELECT securefile_stat_reset()');
is(sql($all), '0/0/0', 'reset');
like($session->query_safe($counts), qr/:plain 300000\/0\/0$/, 'the session is not reset');
is($session->query_safe(q{SELECT direct_read_bytes >= 300000 AND direct_read_ops > 0 FROM securefile_stat_session WHERE relname = 'plain'}), 't', 'all other counters, too');
$session->query_safe('CREATE TABLE gone (document securefile(disable_storage_in_row)); INSERT INTO gone VALUES (\'\x01\'); SELECT document FROM gone; DROP TABLE gone');
like($session->query_safe($counts), qr/:plain 300000\/0\/0$/, 'a table that is gone');
$session->quit;
is(sql('SELECT count(*) FROM securefile_stat_session s FULL JOIN securefile_stat t USING (relid, attname) WHERE (s.relid IS NULL) = (t.relid IS NULL) OR s.relname IS NULL'),
	sql('SELECT count(*) + 1 FROM securefile_stat'), 'the rows are those of securefile_stat, and one more');

# More columns than a backend keeps local counters of.
sql('CREATE TABLE many (id int, document securefile(disable_storage_in_row)) PARTITION BY LIST (id)',
	q{DO $$ BEGIN FOR i IN 1..80 LOOP EXECUTE format('CREATE TABLE many_%s PARTITION OF many FOR VALUES IN (%s)', i, i); END LOOP; END $$},
	q{INSERT INTO many SELECT i, '\x010203'::bytea FROM generate_series(1, 80) i});
my $of_many = q{SELECT sum(scanned_bytes), count(*) FILTER (WHERE scanned_bytes > 0) FROM securefile_stat_session WHERE relname LIKE 'many%'};
is(sql((q{SELECT count(securefile_digest(document, 'md5')) FROM many}) x 2, $of_many), "80\n80\n480|80", 'counters of many columns stay');

# ---- parallel plans ----

my $in_parallel = in_parallel($node) . ' SET max_parallel_workers_per_gather = 2; SET jit = off;';
sql(q{CREATE TABLE wide (id int, pad text, document securefile(disable_storage_in_row)) WITH (parallel_workers = 2)},
	q{ALTER TABLE wide ALTER pad SET STORAGE PLAIN},
	q{INSERT INTO wide SELECT i, repeat('x', 3000), blob(i, 1000) FROM generate_series(1, 100) i});
my $scan = q{SELECT count(securefile_digest(document, 'md5')), sum(length(substring(document FROM 1 FOR 10))), count(document = '\x01'::bytea) FROM wide};
my $wide = 'wide 100000/1000/100000';
is(counted("$in_parallel $scan"), $wide, 'parallel');
my $workers = "$in_parallel SET parallel_leader_participation = off;";
is(counted("$workers $scan"), $wide, 'workers only');
like(sql("$workers EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $scan"), qr/Workers Launched: [12]/, 'there are workers');
is(counted("$workers BEGIN; $scan; $scan"), 'wide 200000/2000/200000', 'parallel, in a transaction, twice');
is(counted("$workers $scan; $scan; SELECT count(*) FROM securefile_stat_session"), 'wide 200000/2000/200000', 'what was collected is not collected again');
is(counted("$workers SELECT sum(scanned_bytes) FROM securefile_stat_session; $scan; SELECT sum(scanned_bytes) FROM securefile_stat_session; $scan"),
	'wide 200000/2000/200000', 'collected between two queries');
is(counted("$workers SELECT count(securefile_digest(document, 'md5')) FROM (SELECT document FROM wide UNION ALL SELECT document || '\\x01'::bytea FROM wide) x"),
	'wide 200000/0/0, - 100/0/0', 'of no column, by workers');
sql('SELECT securefile_stat_reset()', "$in_parallel $scan");
is(sql(q{SELECT scanned_bytes, returned_bytes, skipped_bytes FROM securefile_stat WHERE relname = 'wide'}), '100000|1000|100000', 'all sessions: counted once');
my ($one, $two) = (background($node), background($node));
$_->query_safe("$workers $scan") foreach $one, $two, $two;
like($one->query_safe($counts), qr/:\Q$wide\E$/, 'of two leaders, one');
like($two->query_safe($counts), qr/:wide 200000\/2000\/200000$/, 'of two leaders, the other');
$_->quit foreach $one, $two;

# ---- what is no query ----

sub counts_nothing { is(counted(@_[ 1 .. $#_ ]), 'none', "not counted: $_[0]"); return; }
counts_nothing('check', q{SELECT count(*) FROM securefile_check('plain', 'document')});
counts_nothing('ANALYZE', 'ANALYZE plain, coded, wide');
counts_nothing('a rewrite', q{SELECT securefile_rewrite('coded', 'document')});
counts_nothing('VACUUM FULL', 'VACUUM FULL plain');
counts_nothing('deduplication', 'INSERT INTO shared SELECT 3, twin, twin FROM shared WHERE id = 1');
counts_nothing('a copy into another column', 'INSERT INTO coded (document) SELECT document FROM plain WHERE id = 2');
counts_nothing('a copy inside the column', 'INSERT INTO plain (id, document) SELECT 9, document FROM plain WHERE id = 2');
counts_nothing('an edit', q{UPDATE plain SET document = overlay(document PLACING '\x00' FROM 7) WHERE id = 2});
counts_nothing('advice', q{SELECT count(*) FROM securefile_estimate('plain', 'document')});
counts_nothing('numbers', 'SELECT s.* FROM plain, securefile_storage(document) s', q{SELECT file_bytes >= 0 FROM securefile_columns});

$node->stop;
done_testing();
