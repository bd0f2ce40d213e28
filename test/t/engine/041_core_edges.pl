# Edges of the engine's core: what a rollback to a savepoint, a failed commit,
# a trigger before ours, and the sweeper meet.
# Every version.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../perl";

use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('edges', conf => ['securefile.monitor = off']);
need_faults($node);

# A commit that fails after its entries were logged must not hinder the next.
make_table($node, 'failed', 'filesystem_like_logging');
$node->safe_psql(
	'postgres', q{
	BEGIN; INSERT INTO failed SELECT 1, 1, 9000, blob(1, 9000); PREPARE TRANSACTION 'one';});
my ($rc, $out, $err) = $node->psql(
	'postgres', q{
	\set ON_ERROR_STOP 0
	BEGIN; INSERT INTO failed SELECT 2, 2, 9000, blob(2, 9000); PREPARE TRANSACTION 'one';
	INSERT INTO failed SELECT 3, 3, 9000, blob(3, 9000);
	INSERT INTO failed SELECT 4, 4, 9000, blob(4, 9000);});
like($err, qr/already in use/, 'second PREPARE of a name fails');
unlike($err, qr/in use already/, 'and leaves the session able to write');
$node->safe_psql('postgres', "COMMIT PREPARED 'one'");
rows_right($node, 'failed', 3, 'failed commit');
sound($node, 'failed', 'failed commit');

# A user's AFTER trigger that fires before ours may change or delete the row.
make_table($node, 'early');
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.id % 3 = 0 THEN
			DELETE FROM early WHERE id = NEW.id;
		ELSIF NEW.id % 3 = 1 THEN
			UPDATE early SET doc = blob(NEW.id + 100, 7000), seed = NEW.id + 100, len = 7000
			WHERE id = NEW.id;
		END IF;
		RETURN NULL;
	END $$;
	CREATE TRIGGER "A" AFTER INSERT ON early FOR EACH ROW EXECUTE FUNCTION change();});
fill($node, 'early', 1, 9, '9000');
rows_right($node, 'early', 6, 'trigger before ours');
sound($node, 'early', 'trigger before ours');

# More segments in one transaction than the gather cache has pieces.
$node->safe_psql(
	'postgres', q{
	DO $$
	BEGIN
		EXECUTE 'CREATE TABLE wide (id int, '
			|| (SELECT string_agg(format('c%s securefile(disable_storage_in_row)', i), ', ')
				FROM generate_series(1, 70) i) || ')';
	END $$;
	SET securefile.write_gather_size = '64kB';
	DO $$
	BEGIN
		FOR k IN 1 .. 4 LOOP
			EXECUTE format('INSERT INTO wide SELECT %s, ', k)
				|| (SELECT string_agg(format('blob(%s, 5000)', i + k * 1000), ', ')
					FROM generate_series(1, 70) i);
		END LOOP;
	END $$;});
is( $node->safe_psql(
		'postgres',
		'SELECT ' . join(' + ', map { "count(*) FILTER (WHERE c$_\::bytea = blob(id * 1000 + $_, 5000))" } 1 .. 70)
		  . ' FROM wide'),
	280,
	'values of 70 columns in one transaction');

# A rollback to a savepoint gives up the table's lock, not what is gathered.
make_table($node, 'kept');
make_table($node, 'other');
my $writer = background($node);
my $truncater = background($node);
$writer->query_safe(q{
	BEGIN;
	INSERT INTO kept SELECT 1, 1, 9000, blob(1, 9000);
	SAVEPOINT s;
	INSERT INTO other SELECT 1, 1, 9000, blob(1, 9000);
	ROLLBACK TO s;});
$truncater->query_until(qr/start/, "\\echo start\nTRUNCATE other;\n");
$writer->query_safe('COMMIT');
$truncater->query_safe('SELECT 1');
rows_right($node, 'kept', 1, 'table truncated by another session');
fill($node, 'other', 1, 2, '9000');
rows_right($node, 'other', 2, 'after the truncation');
$writer->quit;
$truncater->quit;

# The sweeper must not take storage whose creator has just committed for an
# orphan, even with an old catalog snapshot.
make_table($node, 'swept');
my $sweeper = background($node);
my $creator = background($node);
$creator->query_safe(q{
	BEGIN; TRUNCATE swept; INSERT INTO swept SELECT i, i, 9000, blob(i, 9000) FROM generate_series(1, 3) i;});
$node->safe_psql('postgres', 'CHECKPOINT');
$sweeper->query_safe(q{
	BEGIN ISOLATION LEVEL REPEATABLE READ;
	SELECT count(*) FROM information_schema.columns;});
arm($node, 'drop_before_unlink', 'wait');
$creator->query_until(qr/start/, "\\echo start\nCOMMIT;\n");
$node->poll_query_until('postgres', "SELECT securefile_fault_fired('drop_before_unlink') > 0");
$sweeper->query_safe("SELECT securefile_maintain('kept', 'doc'); COMMIT;");
disarm($node);
$creator->query_safe('SELECT 1');
rows_right($node, 'swept', 3, 'swept while its creator commits');
$creator->quit;
$sweeper->quit;

# Free space next to a rest that the dispenser knows already is found.
$node->safe_psql('postgres',
	'CREATE TABLE holes (id int PRIMARY KEY, doc securefile(disable_storage_in_row))');
$node->safe_psql(
	'postgres', q{
	SET securefile.write_gather_size = '64kB';
	DO $$
	BEGIN
		FOR i IN 1 .. 64 LOOP
			INSERT INTO holes VALUES (i, blob(i, 122880)); COMMIT;
		END LOOP;
	END $$;});
my $before = usage($node, 'holes', 'doc')->{file_bytes};
$node->safe_psql(
	'postgres', q{
	SET securefile.write_gather_size = '64kB';
	DO $$
	BEGIN
		DELETE FROM holes WHERE id IN (9, 17, 25, 33, 41, 49, 57); COMMIT;
		FOR k IN 1 .. 7 LOOP
			INSERT INTO holes VALUES (100 + k, blob(k, 122880)); COMMIT;
		END LOOP;
	END $$;});
is(usage($node, 'holes', 'doc')->{file_bytes}, $before, 'holes are filled again');

# A lack of memory where a region is lent: it does not stay lent.  The segment's end
# is lent next, and could not be cut off.
make_table($node, 'short', 'filesystem_like_logging');
fill($node, 'short', 1, 10, 1_000_000);
arm($node, 'lend_memory', 'error', skip => 1);
fails_with($node, 'INSERT INTO short VALUES (20, 20, 100000, blob(20, 100000))', 'XX000', 'fault point',
	'no memory for a region');
disarm($node);
$node->safe_psql('postgres', 'DELETE FROM short');
cmp_ok(settle($node, 'short', 'doc')->{file_bytes}, '<=', mb(2), 'it does not stay lent');

# A page cache that is behind the disk: the second read is direct, and right.
make_table($node, 'stale', 'cache_reads');
fill($node, 'stale', 1, 6, '(ARRAY[5000, 131072, 400000, 3000000])[1 + i % 4]');
arm($node, 'read_stale', 'error', times => -1);
rows_right($node, 'stale', 6, 'stale page cache');
is( $node->safe_psql(
		'postgres',
		'SELECT count(*) FROM stale, generate_series(0, 20) part, LATERAL (SELECT 1 + part * (len / 21)) at (place)'
		  . ' WHERE substring(doc FROM place FOR 2000) = substring(blob(seed, len) FROM place FOR 2000)'),
	126,
	'stale page cache: parts');
is($node->safe_psql('postgres', "SELECT count(*) FROM securefile_check('stale', 'doc')"),
	0, 'stale page cache: no damage');
cmp_ok(fired($node, 'read_stale'), '>', 100, 'stale page cache: it was');
disarm($node);

$node->stop;
done_testing();
