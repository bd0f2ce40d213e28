# What is derived from the bytes of a column that encrypts, on its way to a disk: temporary
# files of securefile_duplicates(), which sorts digests, and new tables that do not encrypt.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Digest::SHA qw(sha256);
use Test::More;

my $values = 1500;
my $node = new_cluster('digests', conf => [ 'work_mem = 64kB', master_key() ]);
need_faults($node);

# Twice the same values, which keep their digests, and one without, which is read.
foreach my $option ('encrypt', 'decrypt')
{
	$node->safe_psql('postgres', qq{
		CREATE TABLE of_$option (id int PRIMARY KEY, doc securefile($option, hash, disable_storage_in_row));
		INSERT INTO of_$option SELECT g, convert_to('secret ' || (g + 1) / 2, 'UTF8') FROM generate_series(1, 2 * $values) g;
		ALTER TABLE of_$option ALTER doc TYPE securefile($option, disable_storage_in_row);
		INSERT INTO of_$option VALUES (0, 'the last one')});
}
my @digests = map { sha256("secret $_") } 1 .. $values;

# Bytes of the temporary files that there are now, and how many of the digests are in them.
sub spilled
{
	my $all = join('', map { slurp($_) } glob($node->data_dir . '/base/pgsql_tmp/*'));
	return (length($all), scalar(grep { index($all, $_) >= 0 } @digests));
}

# A call that stands where all values have been seen, then one that stands with its result.
sub look
{
	my ($table) = @_;
	my ($session, $holder) = (background($node), background($node));
	ok(held($node, $session, 'io_read', "SELECT count(*) FROM securefile_duplicates('$table', 'doc')"), "$table: the last value is read");
	my ($sorted, $found) = spilled();
	like(resume($node, $session, 'io_read'), qr/^$values$/m, "$table: all duplicates are found");
	$holder->query_safe('SELECT pg_advisory_lock(7)');
	ok(waits_for_lock($node, $session, "SELECT count(pg_advisory_xact_lock(7)) FROM securefile_duplicates('$table', 'doc')"), "$table: the result is there");
	my ($result, $shown) = spilled();
	$holder->query_safe('SELECT pg_advisory_unlock(7)');
	$_->quit foreach $holder, $session;
	return ($sorted, $found, $result, $shown);
}

my ($sorted, $found, $result, $shown) = look('of_decrypt');
cmp_ok($sorted, '>', 100_000, 'values without encryption: the sort spills');
is($found, 0, 'but has no digest in it');
cmp_ok($shown, '>', $values / 2, 'the result spills, with digests: this test finds them');
($sorted, $found, $result, $shown) = look('of_encrypt');
cmp_ok($sorted, '>', 100_000, 'encrypted values: the sort spills');
is($found, 0, 'without a digest');
is($shown, 0, 'nor is one in the result, which stays in memory');
is($node->safe_psql('postgres', q{SELECT count(*) FROM securefile_duplicates('of_encrypt', 'doc') JOIN of_encrypt ON digest = securefile_digest(doc) WHERE copies = 2 AND length_bytes = length(doc)}),
	2 * $values, 'the digests that are returned are right');

# ---- dictionaries, which have parts of values ----

$node->safe_psql('postgres', q{CREATE TABLE once (id int, doc securefile(encrypt, compress));
	INSERT INTO once SELECT g, convert_to(repeat('what all of these have in common, ', 4) || md5(g::text), 'UTF8') FROM generate_series(1, 200) g;
	INSERT INTO once SELECT id, doc || doc || convert_to(repeat('x', 5000), 'UTF8') FROM once;
	ALTER TABLE once ALTER doc TYPE securefile(compress)});
fails_with($node, q{SELECT * FROM securefile_train('once', 'doc')}, '55000', 'too little to learn from', 'nothing is learnt from values that are still encrypted');
is($node->safe_psql('postgres', q{SELECT securefile_rewrite('once', 'doc'); SELECT dictionary FROM securefile_train('once', 'doc')}), "400\n1", 'but when they are rewritten');

# ---- new tables ----

$node->safe_psql('postgres', 'CREATE TABLE few AS SELECT * FROM of_encrypt WHERE id < 3; CREATE VIEW seen AS SELECT id, doc FROM few');
my $does = q{column "%s" of the new table does not encrypt\nDETAIL:  The query reads column "doc" of table "few"};
my %new = (
	q{CREATE TABLE %s AS SELECT id, doc || '\x00' AS d FROM few} => 'd',
	q{SELECT id, doc::bytea AS b INTO %s FROM few} => 'b',
	q{CREATE TABLE %s AS SELECT doc::bytea AS b FROM seen} => 'b',
	q{CREATE TABLE %s AS SELECT doc AS d FROM few UNION ALL SELECT '\x01'::bytea::securefile} => 'd',
	q{EXPLAIN ANALYZE CREATE TABLE %s AS SELECT (SELECT doc::securefile FROM few LIMIT 1) AS d} => 'd',
	q{PREPARE p AS SELECT coalesce(doc, doc || '\x00') AS d FROM few; CREATE TABLE %s AS EXECUTE p} => 'd',
	q{CREATE MATERIALIZED VIEW %s AS SELECT doc::bytea AS b FROM few} => 'b',
	q{DO $do$ BEGIN CREATE TABLE %s AS SELECT string_agg(doc, '') AS b FROM few; END $do$} => 'b',
	q{CREATE TABLE %s AS SELECT doc FROM few} => undef,
	q{CREATE TABLE %s AS TABLE few} => undef,
	q{CREATE TABLE %s AS SELECT length(doc) FROM few} => undef,
	q{CREATE TABLE %s AS SELECT doc FROM of_decrypt} => undef,
	q{CREATE TABLE %s AS SELECT id, '\x01'::bytea AS b FROM few} => undef,
	q{CREATE TABLE %s (LIKE few)} => undef,
);
my $n = 0;
foreach my $sql (sort keys %new)
{
	my ($rc, undef, $stderr) = $node->psql('postgres', sprintf($sql, 'new_' . ++$n));
	my $want = defined $new{$sql} ? sprintf($does, $new{$sql}) : undef;
	is($rc, 0, $sql);
	like($stderr, qr/^psql:<stdin>:1: NOTICE:  $want/, 'is told of') if defined $want;
	is($stderr, '', 'nothing to tell') unless defined $want;
}

$node->stop;
done_testing();
