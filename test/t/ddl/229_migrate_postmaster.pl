# The postmaster is killed with -9 in the middle of securefile_migrate(), beside writers, at each step that a
# fault point names: by turns alone, so that its processes end when they notice it, and with all of them at once.
# After each restart the rows are those of a twin table, which the same transactions write; one migration goes
# through all these deaths, and leaves nothing behind.
# SECUREFILE_MIGRATE_STEPS: each step in each direction, both ways.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileCrash;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(usleep);

my $seed = $ENV{SECUREFILE_SEED} || time();
srand($seed);
note("figures: seed $seed");
my $node = new_cluster('migrate_postmaster', conf => ['securefile.monitor = off', 'restart_after_crash = off', 'max_worker_processes = 8', 'fsync = off']);
need_faults($node);
my $stop = $node->data_dir . '/stop_writers';

# Writers change both tables, in the way that the type of the column asks for at that moment, until a file tells them
# to stop: a process whose postmaster is gone takes no other message.  Who replaces a large object removes it.
sql(q{
CREATE SEQUENCE written;
CREATE FUNCTION kind() RETURNS text STABLE LANGUAGE sql AS
	$$ SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = to_regclass('docs') AND attname = 'document' $$;
CREATE FUNCTION is_swapped() RETURNS boolean STABLE LANGUAGE sql AS
	$$ SELECT count(*) > 0 FROM pg_attribute WHERE attrelid = to_regclass('docs') AND attname = 'document_migrated' $$;
CREATE PROCEDURE write_on(from_seed int) LANGUAGE plpgsql AS $$
DECLARE
	key int;
	content bytea;
	old oid;
	is_object boolean;
BEGIN
	PERFORM setseed(from_seed / 1000000.0);
	WHILE (pg_stat_file('stop_writers', true)).size IS NULL LOOP
		key := 1 + (random() * 100)::int;
		content := CASE WHEN random() < 0.9 THEN blob((random() * 1000)::int, (random() * CASE WHEN random() < 0.2 THEN 200000 ELSE 6000 END)::int) END;
		PERFORM pg_advisory_xact_lock(key);
		LOCK TABLE docs IN ROW EXCLUSIVE MODE;
		is_object := kind() = 'oid';
		old := NULL;
		IF is_object THEN
			EXECUTE 'SELECT document FROM docs WHERE id = $1' INTO old USING key;
		END IF;
		IF random() < 0.1 AND NOT is_swapped() THEN
			DELETE FROM docs WHERE id = key;
			DELETE FROM twin WHERE id = key;
		ELSE
			EXECUTE format('INSERT INTO docs (id, document) VALUES ($1, %s) ON CONFLICT (id) DO UPDATE SET document = excluded.document',
				CASE WHEN is_object THEN 'lo_from_bytea(0, $2)' ELSE '$2' END) USING key, content;
			INSERT INTO twin VALUES (key, content) ON CONFLICT (id) DO UPDATE SET b = excluded.b;
			UPDATE docs SET note = note + 1 WHERE id = key;
		END IF;
		IF old IS NOT NULL THEN
			PERFORM lo_unlink(old);
		END IF;
		PERFORM nextval('written'), pg_sleep(0.003);
		IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
CREATE FUNCTION differing() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM docs FULL JOIN twin USING (id) WHERE docs.id IS NULL OR twin.id IS NULL OR %s IS DISTINCT FROM b',
		CASE kind() WHEN 'oid' THEN 'lo_get(document)' ELSE 'document::bytea' END) INTO n;
	RETURN n;
END $$});

sub start_writers
{
	my $before = sql('SELECT last_value FROM written');
	my @writers = map { background($node) } 1, 2;
	$_->query_until(qr/start/, "\\echo start\nCALL write_on(" . int(rand(900000)) . ");\n") foreach @writers;
	wait_for_sql($node, "SELECT last_value > $before FROM written") or die 'nobody writes';
	return @writers;
}

sub end_writers
{
	my (@writers) = @_;
	write_file($stop, '');
	foreach my $writer (@writers)
	{
		is($writer->query('SELECT 1'), 1, 'a writer has had no error') or diag($writer->{stderr});
		$writer->quit;
	}
	unlink $stop;
	return;
}

# Kill the postmaster, alone or with all of its processes, and start a new one.
sub kill_postmaster
{
	my ($alone) = @_;
	my $pid = $node->{_pid};
	# one that is stopped starts no other process
	stop_process($pid) unless $alone;
	my @all = ($pid, children_of($pid));
	kill 9, $alone ? $pid : @all;
	if ($alone)
	{
		# writers go on without it for a while
		usleep(30_000);
		write_file($stop, '');
	}
	wait_until(sub { !grep { process_state($_) !~ /^[ZX]?$/ } @all }) or die 'processes do not end';
	# that nobody has waited yet for a process that has ended must not look like another server
	unlink $stop, $node->data_dir . '/postmaster.pid', glob($node->host . '/.s.PGSQL.*.lock');
	start_with($node, '') or die 'server does not start';
	return;
}

# What is to be done with large objects is said by the call that begins, and holds for those that go on.
sub call
{
	my ($to, $more) = @_;
	my $begins = sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass AND NOT tgisinternal}) == 0;
	return "CALL securefile_migrate('docs', 'document', '$to', batch_rows => 15, lock_timeout => 300" . ($begins ? ', "unlink" => true' : '') . ($more // '') . ')';
}

# One test: a call comes to its end.
sub ends_well
{
	my ($call, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, undef, $err) = $node->psql('postgres', $call);
	is($rc, 0, $name) or diag $err;
	return;
}

# One test: of a migration nothing is left but the column, in its old or its new type.
sub nothing_left
{
	my ($name, $of_objects) = @_;
	my $indexes = $of_objects ? '' : ', of_value true';
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql(q{SELECT (SELECT string_agg(attname, ' ' ORDER BY attname) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attnum > 0 AND NOT attisdropped),
		(SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass AND NOT tgisinternal), (SELECT count(*) FROM pg_constraint WHERE conrelid = 'docs'::regclass AND contype = 'c'),
		(SELECT string_agg(relname || ' ' || indisvalid, ', ' ORDER BY relname) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'docs'::regclass),
		(SELECT count(*) FROM pg_largeobject_metadata) - CASE kind() WHEN 'oid' THEN (SELECT count(document) FROM docs) ELSE 0 END}),
		"document id note|0|0|docs_pkey true$indexes|0", $name);
}

# A row that was written after the swap keeps its old object, and then the column stays.
sub drop_kept
{
	return if sql('SELECT is_swapped()') eq 'f';
	is(sql('SELECT count(*) FROM docs JOIN pg_largeobject_metadata m ON m.oid = document_migrated WHERE lo_get(m.oid) IS NOT DISTINCT FROM document::bytea'), 0, 'only objects of other bytes stay');
	sql('SELECT count(lo_unlink(oid)) FROM pg_largeobject_metadata WHERE oid IN (SELECT document_migrated FROM docs)', 'ALTER TABLE docs DROP document_migrated');
	return;
}

my $deaths = 0;

# A migration in whose middle the postmaster dies at each of these points, one after the other.
sub migrate_through
{
	my ($from, $to, $turn, @points) = @_;
	my $of_objects = $from eq 'oid' || $to eq 'oid';
	sql('DROP TABLE IF EXISTS docs, twin', "CREATE TABLE docs (id int PRIMARY KEY, document $from, note int DEFAULT 0)", 'CREATE TABLE twin (id int PRIMARY KEY, b bytea)',
		'INSERT INTO twin SELECT i, CASE WHEN i % 9 > 0 THEN blob(i, i * 700) END FROM generate_series(1, 60) i',
		'SELECT count(lo_unlink(oid)) FROM pg_largeobject_metadata',
		"INSERT INTO docs SELECT id, " . ($from eq 'oid' ? 'lo_from_bytea(0, b)' : 'b') . ' FROM twin',
		$of_objects ? () : 'CREATE INDEX of_value ON docs USING hash (document)');
	foreach my $point (@points)
	{
		my @writers = start_writers();
		my $session = background($node);
		my $more = $point eq 'abort' ? ', abort => true' : '';
		my $alone = ($deaths++ + $turn) % 2;
		my $name = "$from to $to, killed " . ($alone ? 'alone' : 'with all') . " at $point";
		ok(held($node, $session, "migrate_$point", call($to, $more), skip => $point =~ /row|compare|unlink/ ? int(rand(3)) : 0), $name) or die 'a migration does not come there';
		kill_postmaster($alone);
		eval { $_->quit } foreach $session, @writers;
		is(sql('SELECT differing()'), 0, 'no row differs');
		next if $point ne 'abort';
		ends_well(call($to, $more), 'it is taken back');
		nothing_left('wholly', $of_objects);
	}
	my @writers = start_writers();
	ends_well(call($to), 'called again');
	end_writers(@writers);
	is(sql('SELECT kind(), differing()'), "$to|0", 'the column has its new type, and no row differs');
	drop_kept() if $from eq 'oid';
	nothing_left('nothing is left of the migration', $of_objects);
	sound($node, 'docs', "$from to $to", column => 'document') if $to eq 'securefile';
	return;
}

my @all = qw(begin helpers row batch between validated index compare locked swapped);
my @of_objects = grep { $_ ne 'index' } @all;
my $long = $ENV{SECUREFILE_MIGRATE_STEPS};
my @ways = $long ? (['bytea', 'securefile', @all, 'abort'], ['securefile', 'oid', @of_objects, 'abort'], ['oid', 'securefile', @of_objects, 'abort', 'unlink', 'finish'], ['securefile', 'bytea', @all, 'abort'])
  : (['bytea', 'securefile', @all], ['securefile', 'oid', qw(between abort swapped)], ['oid', 'securefile', qw(row unlink finish)]);
foreach my $turn (0 .. ($long ? 1 : 0))
{
	foreach my $way (@ways)
	{
		my ($from, $to, @points) = @$way;
		migrate_through($from, $to, $turn, @points);
	}
}
note("figures: $deaths deaths of the postmaster, " . sql('SELECT last_value FROM written') . ' transactions');

$node->stop;
done_testing();
