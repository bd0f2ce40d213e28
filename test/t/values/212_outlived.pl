# Promise 1, trap 5: what is kept longer than a snapshot keeps its values.  A cursor WITH HOLD,
# a loop over COMMIT, and the variables of a procedure return every byte while the rows are
# deleted, the space is resolved, and others write; then the space comes back.  An index is
# built over rows that only others see.  A value that has outlived its row all the same is
# told apart from a damaged one.
#
# SECUREFILE_OUTLIVED_MB is how much a cursor and a loop go through (24).  From 1024 on
# the memory of their session is looked at, too.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $total_mb = $ENV{SECUREFILE_OUTLIVED_MB} || 24;
my $node = new_cluster('outlived');
my $gone = qr/ERROR:  42704: securefile value no longer exists/;

# verdict(r): does a value have the bytes that its row says?
$node->safe_psql('postgres', q{
	CREATE FUNCTION verdict(doc securefile, seed int, len int) RETURNS text LANGUAGE sql AS $$ SELECT CASE WHEN doc::bytea = blob(seed, len) THEN 'right' ELSE 'wrong' END $$;
	-- delete the rows of a table, give their space back, and write over all of it
	CREATE PROCEDURE replace_rows(t regclass, len int) LANGUAGE plpgsql AS $$
	DECLARE
		n int;
	BEGIN
		EXECUTE format('DELETE FROM %s', t);
		COMMIT;
		PERFORM securefile_maintain(t, 'doc');
		COMMIT;
		SELECT free_bytes / len INTO n FROM securefile_usage(t, 'doc');
		FOR i IN 1000 .. 1002 + n LOOP
			EXECUTE format('INSERT INTO %s VALUES ($1, $1, $2, blob($1, $2))', t) USING i, len;
			COMMIT;
		END LOOP;
	END $$;});

sub kept
{
	return $node->safe_psql('postgres',
		q{SELECT string_agg(array_to_string(readers, ','), ' ') FROM securefile_kept_space()});
}

sub pending { return usage($node, $_[0], 'doc')->{pending_bytes} > 0 ? 'kept' : 'free' }

# The space of what was deleted comes back, and nothing is wrong.
sub released
{
	my ($table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until(sub { kept() eq '' });
	is(kept(), '', "$name: nothing is kept any more");
	return sound($node, $table, $name);
}

# What statements print, or their errors.
sub sql_of
{
	my ($to, $sql) = @_;
	my ($rc, $out, $err) = $to->psql('postgres', $sql);
	return $rc == 0 ? $out : $err;
}

sub verbose_error
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return $rc == 0 ? "no error: $out" : $err;
}

# ---- a cursor, and a loop over COMMIT, while another session deletes and writes ----

# Memory of a session that is its own, in MB.
sub own_mb
{
	my ($pid) = @_;
	my ($kb) = slurp("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m;
	return $kb / 1024;
}

my $big = $total_mb >= 1024;
my $len = $big ? 8_000_000 : 700_000;
my $nrows = int($total_mb * 1024 * 1024 / $len);
make_table($node, 'flow');
$node->safe_psql('postgres', "INSERT INTO flow SELECT i, i % 7, $len, b.doc FROM (SELECT s, blob(s, $len) AS doc FROM generate_series(0, 6) s) b JOIN generate_series(1, $nrows) i ON i % 7 = b.s");

my $reader = background($node);
my $pid = $reader->query_safe('SELECT pg_backend_pid()');
$reader->query_safe('\set VERBOSITY verbose');
$reader->query_safe("BEGIN; DECLARE held CURSOR WITH HOLD FOR SELECT id, seed, len, doc FROM flow ORDER BY id; COMMIT");
is(kept(), 'cursor', 'a held cursor keeps space');
my $after_hold = own_mb($pid);
my $writer = background($node);
$writer->query_safe(q{
	CREATE PROCEDURE take_away(last int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. last LOOP
			DELETE FROM flow WHERE id = i;
			INSERT INTO flow VALUES (-i, i, 300000, blob(i, 300000));
			COMMIT;
			IF i % 10 = 0 THEN
				PERFORM securefile_maintain('flow', 'doc');
				DELETE FROM flow WHERE id < 0;
				COMMIT;
			END IF;
		END LOOP;
	END $$});
# digests: the values are read in pieces, whatever their length
$node->safe_psql('postgres', "CREATE TABLE wanted AS SELECT s AS seed, sha256(blob(s, $len)) AS digest FROM generate_series(0, 6) s");
my $digest_right = q{digest = encode((SELECT digest FROM wanted w WHERE w.seed = f.seed), 'hex')};
$writer->query_until(qr/start/, "\\echo start\nCALL take_away($nrows);\n");
my $most_mb = 0;
my ($right, $read) = (0, 0);
while ($read < $nrows)
{
	my @rows = split /\n/, $reader->query(q{
		DO $$
		DECLARE
			h refcursor := 'held';
			r record;
		BEGIN
			FOR i IN 1 .. 8 LOOP
				FETCH h INTO r;
				EXIT WHEN NOT FOUND;
				RAISE NOTICE 'row % %', r.id, (SELECT securefile_digest(r.doc, 'sha256') = w.digest FROM wanted w WHERE w.seed = r.seed);
			END LOOP;
		END $$});
	my @seen = $reader->{stderr} =~ /row \d+ (\w)/g;
	my ($problem) = $reader->{stderr} =~ /(ERROR: .*)/;
	$reader->{stderr} = '';
	diag($problem) if $problem;
	last unless @seen;
	$read += @seen;
	$right += grep { $_ eq 't' } @seen;
	$most_mb = own_mb($pid) if own_mb($pid) > $most_mb;
}
is("$read $right", "$nrows $nrows", "a held cursor returns all $nrows values of $len bytes while they are deleted");
$writer->query('SELECT');
is($node->safe_psql('postgres', 'SELECT count(*) FROM flow WHERE id > 0'), 0, 'all of its rows are gone');
is(pending('flow'), 'kept', 'their space waits');
$reader->query_safe('CLOSE held');
released('flow', 'after CLOSE');
if ($big)
{
	diag(sprintf('%d MB in all: memory of the session %.0f MB when the cursor was held, at most %.0f MB', $nrows * $len / 1048576, $after_hold, $most_mb));
	cmp_ok($most_mb, '<', 200, 'in constant memory');
}

$reader->quit;
$writer->quit;

# ---- the loop of a procedure over COMMIT and ROLLBACK ----

# Each value is read when its row is gone and its space would be used again.  The loop keeps it,
# also where nothing is kept for variables.
foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $name = "loop over $end";
	my ($nlooped, $looped_len) = $big && $end eq 'COMMIT' ? ($nrows, $len) : (60, 40_000);
	make_table($node, 'looped');
	fill($node, 'looped', 1, $nlooped, $looped_len);
	is( sql_of($node, qq{
		SET securefile.procedure_retention = 0;
		CREATE TABLE seen (id int, outcome text, kb int);
		DO \$\$
		DECLARE
			r record;
			first bool := true;
		BEGIN
			FOR r IN SELECT * FROM looped LOOP
				$end;
				IF first THEN
					CALL replace_rows('looped', $looped_len);
					first := false;
				END IF;
				INSERT INTO seen VALUES (r.id, verdict(r.doc, r.seed, r.len), substring(pg_read_file('/proc/self/status', 0, 10000) FROM 'RssAnon:\\s+(\\d+)')::int);
				COMMIT;
			END LOOP;
		END \$\$;
		SELECT outcome, count(*) FROM seen GROUP BY 1}),
		"right|$nlooped", $name);
	if ($nlooped > 60)
	{
		my $mb = $node->safe_psql('postgres', 'SELECT max(kb) / 1024 FROM seen');
		diag("$name, $nlooped values of $looped_len bytes: memory of the session at most $mb MB");
		cmp_ok($mb, '<', 200, 'in constant memory, too');
	}
	released('looped', $name);
	$node->safe_psql('postgres', 'DROP TABLE looped, seen');
}

# ---- variables of procedures ----

# v gets the value of row 1 of a new table by $get; then the row is deleted, and its space
# written over; then $read tells what v is.  Keys: declare, more variables; len; options of the
# column; retention; like, what is to come of it.
sub variable
{
	my ($name, $get, %params) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $len = $params{len} || 300_000;
	my $declare = $params{declare} || '';
	my $read = $params{read} || "verdict(v, 1, $len)";
	my $setting = defined $params{retention} ? "SET securefile.procedure_retention = '$params{retention}';" : '';
	my $type = $params{options} ? "securefile($params{options})" : 'securefile';
	my ($rc, $out, $err) = $node->psql('postgres', qq{
		DROP TABLE IF EXISTS var;
		CREATE TABLE var (id int PRIMARY KEY, seed int, len int, doc $type);
		INSERT INTO var SELECT i, i, $len, blob(i, $len) FROM generate_series(1, 2) i;
		$setting
		DO \$\$
		DECLARE
			v securefile;
			$declare
		BEGIN
			$get
			COMMIT;
			CALL replace_rows('var', $len);
			RAISE NOTICE 'value: %', $read;
		END \$\$;}, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	my ($got) = $err =~ /(value: \w+|ERROR: .*)/;
	return like($got, $params{like} || qr/^value: right$/, "variable: $name");
}

$node->safe_psql('postgres', q{
	SET check_function_bodies = off;
	CREATE FUNCTION by_sql(i int) RETURNS securefile LANGUAGE sql AS 'SELECT doc FROM var WHERE id = i';
	CREATE FUNCTION by_rows() RETURNS SETOF securefile LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT doc FROM var ORDER BY id; END $$;
	CREATE PROCEDURE by_inout(INOUT v securefile) LANGUAGE plpgsql AS $$ BEGIN SELECT doc INTO v FROM var WHERE id = 1; COMMIT; END $$;});
my $select = 'SELECT doc INTO v FROM var WHERE id = 1;';
variable('SELECT INTO', $select);
variable('an object with pages', $select, len => 14_000_000);
variable('a shared value', "INSERT INTO var VALUES (3, 1, 300000, blob(1, 300000)); $select", options => 'deduplicate');
variable('a file that is not in WAL', $select, options => 'filesystem_like_logging');
variable('a record', 'SELECT * INTO r FROM var WHERE id = 1;', declare => 'r record;', read => 'verdict(r.doc, 1, 300000)');
variable('a row type', 'SELECT * INTO r FROM var WHERE id = 1;', declare => 'r var;', read => 'verdict(r.doc, 1, 300000)');
variable('a row in a row', 'SELECT t INTO r FROM var t WHERE id = 1;', declare => 'r record;', read => 'verdict((r.t::var).doc, 1, 300000)');
variable('an edited value', "SELECT substring(doc FROM 1 FOR 200000) || substring(doc FROM 200001) INTO v FROM var WHERE id = 1;");
variable('an expression', 'v := (SELECT doc FROM var WHERE id = 1);');
variable('a function in SQL', 'v := by_sql(1);');
variable('rows of a function', 'SELECT f INTO v FROM by_rows() f LIMIT 1;');
variable('a procedure inside', 'CALL by_inout(v);');
variable('EXECUTE', "EXECUTE 'SELECT doc FROM var WHERE id = \$1' INTO v USING 1;");
variable('a cursor that is closed', 'OPEN c FOR SELECT doc FROM var ORDER BY id; FETCH c INTO v; CLOSE c;', declare => 'c refcursor;');
variable('DELETE RETURNING', 'DELETE FROM var WHERE id = 1 RETURNING doc INTO v;');
variable('born and dead', 'INSERT INTO var VALUES (3, 1, 300000, blob(1, 300000)) RETURNING doc INTO v; DELETE FROM var WHERE id = 3;');
variable('over ROLLBACK, then COMMIT', "$select ROLLBACK;");
variable('kept until the end', $select, retention => '-1');
variable('not kept', $select, retention => '0', like => qr/^$gone/);
variable('of a transaction that was rolled back', 'INSERT INTO var VALUES (3, 3, 300000, blob(3, 300000)) RETURNING doc INTO v; ROLLBACK;', like => qr/^$gone/);
variable('of a savepoint that was rolled back', 'BEGIN INSERT INTO var VALUES (3, 3, 300000, blob(3, 300000)) RETURNING doc INTO v; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END;', like => qr/^$gone/);
released('var', 'variables');

# the tail is cut off behind a value that the session has read: it does not go by the end that
# it remembers
make_table($node, 'tail');
fill($node, 'tail', 1, 1, 200_000);
fill($node, 'tail', 2, 20, 2_000_000);
like(verbose_error(q{
	SET securefile.procedure_retention = 0;
	DO $$
	DECLARE
		v securefile;
	BEGIN
		SELECT doc INTO v FROM tail WHERE id = 20;
		ASSERT verdict(v, 20, 2000000) = 'right';
		DELETE FROM tail WHERE id > 1;
		COMMIT;
		PERFORM securefile_maintain('tail', 'doc');
		COMMIT;
		RAISE NOTICE 'value: %', verdict(v, 20, 2000000);
	END $$;}), qr/$gone.*beyond the end of its segment now/s, 'the tail of a session is cut');
released('tail', 'tail');

# a procedure that goes on for long gives up what it has read long ago, and not what it read
# a moment ago
make_table($node, 'long');
fill($node, 'long', 1, 2, 300_000);
is( $node->safe_psql('postgres', q{
	SET securefile.procedure_retention = '1ms';
	CREATE TABLE steps (n serial, step text);
	DO $$
	DECLARE
		v securefile;
	BEGIN
		SELECT doc INTO v FROM long WHERE id = 1;
		COMMIT;
		PERFORM pg_sleep(0.01);
		COMMIT;
		INSERT INTO steps (step) SELECT 'kept ' || count(*) FROM securefile_kept_space();
		SET LOCAL securefile.procedure_retention = '1h';
		SELECT doc INTO v FROM long WHERE id = 2;
		COMMIT;
		SET securefile.procedure_retention = '1h';
		COMMIT;
		SELECT doc INTO v FROM long WHERE id = 2;
		COMMIT;
		INSERT INTO steps (step) SELECT 'kept ' || count(*) FROM securefile_kept_space();
	END $$;
	SELECT string_agg(step, ', ' ORDER BY n) FROM steps}), 'kept 0, kept 1', 'what a procedure has read is kept for a time');

# statements and functions outside of procedures, and procedures that read no value, keep nothing
make_table($node, 'plain');
fill($node, 'plain', 1, 2, 50_000);
is($node->safe_psql('postgres', $_->[1]), '0', "nothing is kept: $_->[0]") foreach (
	[ 'a transaction', q{BEGIN; SELECT count(doc) > 9 FROM plain; DECLARE c CURSOR FOR SELECT doc FROM plain; FETCH 1 FROM c; SELECT count(*) FROM securefile_kept_space(); COMMIT} =~ s/SELECT count\(doc\) > 9 FROM plain; |FETCH 1 FROM c; //gr ],
	[ 'a held cursor without values', q{BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id, length(doc), doc::bytea FROM plain; COMMIT; SELECT count(*) FROM securefile_kept_space()} ],
	[ 'a procedure without values', q{CREATE TABLE result (n int); DO $$ DECLARE r record; BEGIN FOR r IN SELECT id, length(doc) FROM plain LOOP UPDATE plain SET seed = seed WHERE id = r.id; COMMIT; END LOOP; INSERT INTO result SELECT count(*) FROM securefile_kept_space(); COMMIT; END $$; SELECT n FROM result} ],
	[ 'DO in a transaction', q{BEGIN; DO $$ DECLARE v securefile; BEGIN SELECT doc INTO v FROM plain WHERE id = 1; END $$; SELECT count(*) FROM securefile_kept_space(); COMMIT} ]);

# ---- held cursors ----

# A session with a cursor over table "cur", whose rows are gone.  It is made by $sql.
sub held_cursor
{
	my ($sql) = @_;
	make_table($node, 'cur');
	fill($node, 'cur', 1, 3, 200_000);
	my $session = background($node);
	$session->query_safe('\set VERBOSITY verbose');
	$session->query_safe($sql);
	$node->safe_psql('postgres', "CALL replace_rows('cur', 200000)");
	return $session;
}

# What the next row of a held cursor is like.
sub fetch
{
	my ($session) = @_;
	$session->query(q{DO $$ DECLARE h refcursor := 'h'; r record; BEGIN FETCH h INTO r; RAISE NOTICE '%', verdict(r.doc, r.seed, r.len); END $$});
	my $said = $session->{stderr};
	$session->{stderr} = '';
	return $said;
}

my $declare = 'DECLARE h %s CURSOR WITH HOLD FOR SELECT * FROM cur';

foreach my $case (
	[ 'of SELECT', 'BEGIN; ' . sprintf($declare, '') . '; COMMIT' ],
	[ 'that scrolls', 'BEGIN; ' . sprintf($declare, 'SCROLL') . '; FETCH 2 FROM h; FETCH PRIOR FROM h; MOVE ABSOLUTE 0 FROM h; COMMIT' =~ s/FETCH (2|PRIOR) FROM h; //gr ],
	[ 'in a savepoint', 'BEGIN; SAVEPOINT s; ' . sprintf($declare, '') . '; RELEASE s; SAVEPOINT s; SAVEPOINT u; ROLLBACK TO s; COMMIT' ],
	[ 'over rows of its transaction', 'BEGIN; DELETE FROM cur; INSERT INTO cur SELECT i, i, 200000, blob(i, 200000) FROM generate_series(4, 5) i; ' . sprintf($declare, '') . '; DELETE FROM cur; COMMIT' ],
	[ 'outside of a transaction block', sprintf($declare, '') ])
{
	my ($name, $sql) = @$case;
	my $session = held_cursor($sql);
	like(fetch($session), qr/NOTICE:.* right/, "held cursor $name");
	is(pending('cur'), 'kept', "held cursor $name: the space waits");
	$session->query_safe('CLOSE ALL');
	released('cur', "held cursor $name");
	$session->quit;
	$node->safe_psql('postgres', 'DROP TABLE cur');
}

# the session ends in other ways
foreach my $end ('DISCARD ALL', 'quit', 'terminate')
{
	my $session = held_cursor('BEGIN; ' . sprintf($declare, '') . '; COMMIT');
	is(kept(), 'cursor', "$end: kept before");
	$session->query_safe($end) if $end eq 'DISCARD ALL';
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") if $end eq 'terminate';
	$session->quit if $end eq 'quit';
	released('cur', $end);
	$session->quit if $end eq 'DISCARD ALL';
	$node->safe_psql('postgres', 'DROP TABLE cur');
}

# a value that was fetched from a held cursor stays with the procedure when that is closed
make_table($node, 'cur');
fill($node, 'cur', 1, 3, 200_000);
my ($rc, $out, $err) = $node->psql('postgres', q{
	BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT doc FROM cur WHERE id = 1; COMMIT;
	DO $$
	DECLARE
		v securefile;
		h refcursor := 'h';
	BEGIN
		FETCH h INTO v;
		CLOSE h;
		COMMIT;
		CALL replace_rows('cur', 200000);
		RAISE NOTICE '%', verdict(v, 1, 200000);
	END $$;});
like($err, qr/NOTICE:.* right/, 'a value of a held cursor that was closed');
released('cur', 'a value of a held cursor that was closed');

# the same in a function; and what a procedure returns is kept until the client has it
my $closed = q{BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT doc FROM cur; COMMIT; DELETE FROM cur;
	BEGIN;
	DO $$
	DECLARE
		v securefile;
		h refcursor := 'h';
	BEGIN
		FETCH h INTO v;
		CLOSE h;
		PERFORM securefile_maintain('cur', 'doc');
		FOR i IN 1 .. 3 LOOP
			INSERT INTO cur SELECT i, i, free_bytes / 2, blob(i, (free_bytes / 2)::int) FROM securefile_usage('cur', 'doc') WHERE free_bytes > 100000;
			DELETE FROM cur;
		END LOOP;
		RAISE NOTICE '%', length(v::bytea);
	END $$;};
$node->safe_psql('postgres', 'TRUNCATE cur');
fill($node, 'cur', 1, 1, 200_000);
($rc, $out, $err) = $node->psql('postgres', "$closed SELECT readers FROM securefile_kept_space(); COMMIT; SELECT count(*) FROM securefile_kept_space()");
like("$err $out", qr/NOTICE:  200000\s+\{cursor\}\n0$/, 'a value of a cursor that was closed in the same transaction');
$node->safe_psql('postgres', 'TRUNCATE cur');
fill($node, 'cur', 1, 1, 200_000);
$node->safe_psql('postgres', q{CREATE PROCEDURE last_of(INOUT v securefile) LANGUAGE plpgsql AS $$ BEGIN SELECT doc INTO v FROM cur WHERE id = 1; COMMIT; CALL replace_rows('cur', 200000); END $$});
is($node->safe_psql('postgres', 'CALL last_of(NULL)'), $node->safe_psql('postgres', 'SELECT blob(1, 200000)'), 'a value that a procedure returns');
released('cur', 'values that were fetched');

# ---- commands that read rows which only others see ----

# f waits at the first row that it sees until it is let go.
make_table($node, 'built');
fill($node, 'built', 1, 6, 100_000);
$node->safe_psql('postgres', q{
	CREATE FUNCTION seen(doc securefile, id int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		IF id = 1 THEN
			PERFORM pg_advisory_xact_lock(1);
		END IF;
		RETURN public.securefile_digest(doc);
	END $$});
my ($old, $locker, $builder) = map { background($node) } 1 .. 3;
$locker->query_safe('SELECT pg_advisory_lock(1)');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM built');
$node->safe_psql('postgres', 'DELETE FROM built WHERE id > 3');
ok(waits_for_lock($node, $builder, 'CREATE INDEX built_seen ON built (seen(doc, id))'), 'an index is being built');
$old->query_safe('COMMIT');
$node->safe_psql('postgres', "SELECT securefile_maintain('built', 'doc')");
is(kept(), 'command', 'CREATE INDEX keeps space');
is(pending('built'), 'kept', 'deleted rows that it is still to read wait');
$locker->query_safe('SELECT pg_advisory_unlock(1)');
$builder->query('SELECT');
is($builder->{stderr} =~ /ERROR/ ? $builder->{stderr} : '', '', 'CREATE INDEX reads them');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('built_seen') AND indisvalid"), 1, 'the index is there');
$_->quit foreach ($old, $locker, $builder);
released('built', 'CREATE INDEX');
$node->safe_psql('postgres', 'VACUUM FULL built; CLUSTER built USING built_pkey; REINDEX TABLE built');
fails_with($node, 'CREATE INDEX ON built (seen(doc, 0), (1 / (id - id)))', '22012', '', 'a command that fails');
released('built', 'other commands');

# ---- damage ----

# All bytes of the data files of a table, but its first page, become others.
sub damage
{
	my ($table) = @_;
	my $number = $node->safe_psql('postgres', "SELECT pg_relation_filenode(segment_relid) FROM securefile_columns WHERE relid = '$table'::regclass");
	foreach my $file (grep { m{/$number/} } data_files($node))
	{
		patch($file, 0, "\xee" x -s $file);
	}
	return;
}

# a row that is there
my $damaged = qr/ERROR:  XX001: securefile value is damaged\n/;
my $no_cache = 'nocache';
make_table($node, 'hurt', $no_cache);
fill($node, 'hurt', 1, 2, 200_000);
$node->safe_psql('postgres', 'CHECKPOINT');
damage('hurt');
like(verbose_error('SELECT doc::bytea FROM hurt'), $damaged, 'a value that a row has is damaged');
like($node->safe_psql('postgres', 'SELECT problem FROM hurt, securefile_salvage(doc) WHERE id = 1 LIMIT 1'), qr/^securefile value is damaged: Unit 0/, 'so says securefile_salvage()');
# a row that only others see, or that this transaction has deleted
like(verbose_error('BEGIN; DECLARE c CURSOR FOR SELECT doc::bytea FROM hurt; DELETE FROM hurt; FETCH c; COMMIT'), $damaged, 'of a row that the transaction has deleted');

# a value whose row is gone, and which is kept
make_table($node, 'hurt_kept', $no_cache);
fill($node, 'hurt_kept', 1, 2, 200_000);
my $session = background($node);
$session->query_safe('\set VERBOSITY verbose');
$session->query_safe('BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT * FROM hurt_kept; COMMIT');
$node->safe_psql('postgres', 'DELETE FROM hurt_kept; CHECKPOINT');
$node->safe_psql('postgres', "VACUUM hurt_kept; SELECT securefile_maintain('hurt_kept', 'doc')");
damage('hurt_kept');
like(fetch($session), $damaged, 'a kept value is damaged');
$session->quit;

# ---- a standby ----

# Nothing there can keep space of the primary: a clear error, no damage, and no wrong byte.
$node->safe_psql('postgres', 'DROP TABLE hurt, hurt_kept');
$node->backup('base', backup_options => [ '--checkpoint', 'fast' ]);
my $standby = new_standby('outlived_standby', $node, 'base');
fill($node, 'cur', 1, 3, 200_000);
catch_up($node, $standby);
$session = background($standby);
$session->query_safe('\set VERBOSITY verbose');
$session->query_safe('BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT * FROM cur WHERE id < 4; COMMIT');
$node->safe_psql('postgres', "CALL replace_rows('cur', 200000)");
catch_up($node, $standby);
like(fetch($session), $gone, 'a held cursor on a standby');
$session->quit;
$standby->stop;

$node->stop;
done_testing();
