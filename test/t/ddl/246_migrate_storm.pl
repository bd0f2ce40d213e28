# securefile_migrate() beside writers, while backends die at each step, and called again: a twin
# table, which the same statements write, has the same bytes in the end.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $seed = $ENV{SECUREFILE_SEED} || time();
srand($seed);
note("figures: seed $seed");
my $node = new_cluster('migrate_storm', conf => ['securefile.monitor = off', 'restart_after_crash = on', 'max_worker_processes = 8', 'fsync = off']);
need_faults($node);

# A writer of both tables: value(seed, length) makes what the column takes; twin has the bytes.
sql(q{
CREATE PROCEDURE write_some(n int, from_seed int, make text) LANGUAGE plpgsql AS $$
DECLARE
	key int;
	content bytea;
BEGIN
	PERFORM setseed(from_seed / 1000000.0);
	FOR i IN 1 .. n LOOP
		key := 1 + (random() * 100)::int;
		content := CASE WHEN random() < 0.9 THEN blob((random() * 1000)::int, (random() * CASE WHEN random() < 0.2 THEN 200000 ELSE 6000 END)::int) END;
		PERFORM pg_advisory_xact_lock(key);
		IF random() < 0.1 THEN
			DELETE FROM docs WHERE id = key;
			DELETE FROM twin WHERE id = key;
		ELSE
			EXECUTE format('INSERT INTO docs (id, document) VALUES ($1, %s) ON CONFLICT (id) DO UPDATE SET document = excluded.document', make) USING key, content;
			INSERT INTO twin VALUES (key, content) ON CONFLICT (id) DO UPDATE SET b = excluded.b;
			UPDATE docs SET note = note + 1 WHERE id = 1 + (key * 7) % 100;
		END IF;
		IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$});

# How a client makes a value: by the type that the column has at that moment.
my %make = (bytea => '$2', securefile => '$2', oid => 'lo_from_bytea(0, $2)');
my %read = (bytea => 'document', securefile => 'document::bytea', oid => 'lo_get(document)');
my @steps = qw(begin helpers row batch between validated index compare locked swapped unlink finish);
my ($died, %passed) = (0);

# Migrate with death at a point; writers go on until the column has its new type.
sub storm
{
	my ($from, $to, $point, $skip) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $call = "CALL securefile_migrate('docs', 'document', '$to', batch_rows => 15, lock_timeout => 300";
	my $writer = background($node);
	$writer->query_until(qr/start/, "\\echo start\nCALL write_some(25, " . int(rand(900000)) . ", \$\$$make{$from}\$\$);\n");
	my $dead = dies_at($node, "migrate_$point", 'kill', "$call, \"unlink\" => true)", skip => $skip);
	$died += $dead;
	$passed{$point} = 1 if $dead;
	eval { $writer->quit };
	# what was said by the call that began holds for the next one; the writers of today go on beside it, until it has
	# swapped the columns
	my $other = background($node);
	my ($type, $has_begun) = split /\|/, sql(q{SELECT format_type(atttypid, NULL), EXISTS (SELECT FROM pg_trigger WHERE tgrelid = attrelid AND NOT tgisinternal) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname = 'document'});
	$other->query_until(qr/start/, "\\echo start\nCALL write_some(8, " . int(rand(900000)) . ", \$\$$make{$type}\$\$);\n");
	my ($rc, $out, $err) = $node->psql('postgres', $call . ($has_begun eq 't' ? ')' : ', "unlink" => true)'));
	is($rc, 0, "$from to $to: goes on after death at $point (" . ($dead || 0) . ')') or diag $err;
	eval { $other->quit };
	# a row that was written after the swap keeps its old object, and then the column stays
	my ($differ, $triggers, $checks, $columns) = split /\|/, sql("SELECT (SELECT count(*) FROM docs FULL JOIN twin USING (id) WHERE docs.id IS NULL OR twin.id IS NULL OR $read{$to} IS DISTINCT FROM b),"
		. q{ (SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass AND NOT tgisinternal), (SELECT count(*) FROM pg_constraint WHERE conrelid = 'docs'::regclass AND contype = 'c'),
		(SELECT string_agg(attname, ' ' ORDER BY attname) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attnum > 0 AND NOT attisdropped)});
	is($differ, 0, 'no row differs');
	if ($from eq 'oid' && $columns =~ s/ document_migrated//)
	{
		is(sql('SELECT count(*) FROM docs JOIN pg_largeobject_metadata m ON m.oid = document_migrated WHERE lo_get(m.oid) = document'), 0, 'only objects of other bytes stay');
	}
	is(sql('SELECT count(*) FROM pg_largeobject_metadata WHERE oid IN (SELECT o FROM begun)'), 0, 'no object stays of a row that nobody wrote to') if $from eq 'oid';
	is("$columns|$triggers|$checks", 'document id note|0|0', 'no column, trigger or constraint is left over');
	is(sql(q{SELECT count(*) FROM securefile_check('docs', 'document')}), 0, 'sound') if $to eq 'securefile';
	return;
}

sub fresh
{
	my ($type) = @_;
	sql('DROP TABLE IF EXISTS docs, twin, begun', "CREATE TABLE docs (id int PRIMARY KEY, document $type, note int DEFAULT 0)", 'CREATE TABLE twin (id int PRIMARY KEY, b bytea)',
		'INSERT INTO twin SELECT CASE WHEN i > 60 THEN i + 100 ELSE i END, CASE WHEN i % 9 > 0 THEN blob(i, i * 700) END FROM generate_series(1, 65) i',
		"INSERT INTO docs SELECT id, " . ($type eq 'oid' ? 'lo_from_bytea(0, b)' : 'b') . ' FROM twin',
		$type eq 'oid' ? 'CREATE TABLE begun AS SELECT document AS o FROM docs WHERE id > 160' : 'CREATE INDEX of_value ON docs USING hash (document)');
	return;
}

# each step once; the long form takes each of them in each direction
my $long = $ENV{SECUREFILE_MIGRATE_STEPS};
my @ways = (['bytea', 'securefile', qw(begin helpers row batch between validated index compare)], ['oid', 'securefile', qw(row unlink finish)],
	['securefile', 'bytea', 'swapped'], ['securefile', 'oid', 'locked']);
foreach my $way (@ways)
{
	my ($from, $to, @points) = @$way;
	@points = @steps if $long;
	foreach my $point (@points)
	{
		fresh($from);
		storm($from, $to, $point, $point =~ /row|batch|between|compare|unlink/ ? int(rand(3)) : 0);
	}
}
is(join(' ', grep { !$passed{$_} } @steps), '', 'a backend has died at each step');
note("figures: $died crashes");
done_testing();
