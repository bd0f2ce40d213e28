# The command securefile: import stores many small files in one transaction, and a file that
# fails costs the others nothing, whatever fails, wherever it stands, and when.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('batch');
my $dir = enter($node);

# How many transactions have stored the files whose names are like that.
sub transactions { return sql("SELECT count(DISTINCT xmin::text) FROM docs WHERE name LIKE '$_[0]'"); }

# Names that are stored.
sub stored { return sql(q{SELECT string_agg(name, ' ' ORDER BY name) FROM docs WHERE document IS NOT NULL}) // ''; }

# One test: an import of a tree with one connection ends so, in short and with these messages.
sub imports
{
	my ($status, $summary, $failed, $name, @args) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = command('import', '-t', 'docs', '-j', 1, @args);
	my ($said) = $err =~ /^securefile: import(?: \(dry run\))?: (.*?)(?:; | in )/m;
	my @failed = sort $err =~ /^securefile: (\S+): (?!\d)/mg;
	is("$rc $said / " . join(' ', grep { $_ ne 'import' } @failed), "$status $summary / $failed", $name) or diag($err);
	return $err;
}

sql(q{CREATE TABLE docs (name text COLLATE "C" PRIMARY KEY, note text, document securefile)});

# ---- what one commit holds ----
my %tree = map { (sprintf('f%02d', $_) => bytes($_, $_ * 331)) } 0 .. 39;
$tree{long} = bytes(99, 300_000);
write_file("tree/$_", $tree{$_}) for keys %tree;
imports(0, '41 put', '', 'import', 'tree');
is(transactions('f%') . transactions('%'), '12', 'the small files are one transaction, the long one is another');
is((command('cat', '-t', 'docs', map { sprintf 'f%02d', $_ } 0 .. 39))[1], join('', map { $tree{ sprintf 'f%02d', $_ } } 0 .. 39), 'contents');
is((command('cat', '-t', 'docs', 'long'))[1], $tree{long}, 'and of the long one');
imports(0, '41 same', '', 'again', 'tree');
imports(0, '41 put', '', 'ten in each', '--batch', 10, '--prefix', 'ten/', 'tree');
is(transactions('ten/f%'), 4, 'are four transactions');
imports(0, '41 put', '', 'one in each', '--batch', 1, '--prefix', 'one/', 'tree');
is(transactions('one/%'), 41, 'are as many as files');
ends(0, qr/: 41 put/, 'four connections', 'import', '-t', 'docs', '-j', 4, '--prefix', 'four/', 'tree');
is(transactions('four/f%'), 4, 'have a batch each');
ends(0, qr/--batch=N.*one transaction/s, 'help says so', 'import', '--help');
ends(2, qr/--batch wants a number from 1 to/, "--batch $_", 'import', '-t', 'docs', '--batch', $_, 'tree') for (0, 'x', 10_001);
sql('TRUNCATE docs');
imports(0, '41 put', '', 'a dry run', '--dry-run', 'tree');
is(stored(), '', 'stores nothing');

# ---- rows that are there: replaced, filled, the same ----
imports(0, '41 put', '', 'all again', 'tree');
sql(q{UPDATE docs SET document = 'other' WHERE name IN ('f00', 'f07', 'f39'); UPDATE docs SET document = NULL WHERE name IN ('f08', 'f20'); DELETE FROM docs WHERE name IN ('f09', 'f10')});
imports(1, '4 put, 34 same, 3 failed', 'f00 f07 f39', 'other files are there', 'tree');
sql(q{UPDATE docs SET document = NULL WHERE name = 'f08'; DELETE FROM docs WHERE name = 'f10'});
imports(0, '2 put, 3 replaced, 36 same', '', '--replace and --set', '--replace', '--set', 'note=x', 'tree');
is(sql(q{SELECT string_agg(name, ' ' ORDER BY name) FROM docs WHERE note = 'x'}), 'f00 f07 f08 f10 f39', 'rows of both kinds have it');
is(transactions('f08') . sql(q{SELECT count(DISTINCT xmin::text) FROM docs WHERE note = 'x'}), '11', 'in one transaction');
imports(0, '41 same', '', 'all is there', 'tree');

# ---- files that fail ----
my @cases = (
	[ 'a check', q{CHECK (name !~ 'f(00|17|18|39)$')}, 'f00 f17 f18 f39', qr/violates check constraint/ ],
	[ 'all of them', q{CHECK (name !~ 'f..$')}, join(' ', map { sprintf 'f%02d', $_ } 0 .. 39), qr/violates check constraint/ ],
	[ 'a check of the file', q{CHECK (length(document) <> 331 * 5)}, 'f05', qr/violates check constraint/ ]);
foreach my $case (@cases)
{
	my ($what, $check, $failed, $reason) = @$case;
	my $count = split / /, $failed;
	sql('TRUNCATE docs', "ALTER TABLE docs ADD CONSTRAINT refuse $check");
	my $err = imports(1, 41 - $count . " put, $count failed", $failed, $what, 'tree');
	my @reasons = $err =~ /$reason/g;
	is(scalar @reasons, $count, 'each has its reason');
	is(stored(), join(' ', grep { my $name = $_; !grep { $_ eq $name } split / /, $failed } sort keys %tree), 'all others are there');
	sql('ALTER TABLE docs DROP CONSTRAINT refuse');
}
sql(q{TRUNCATE docs; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF TG_OP = 'INSERT' AND TG_WHEN = 'BEFORE' AND NEW.name = 'f11' THEN RETURN NULL; END IF;
		IF TG_WHEN = 'AFTER' AND NEW.name = 'f30' THEN RAISE 'too late for %', NEW.name; END IF; RETURN NEW; END $$;
	CREATE TRIGGER skip BEFORE INSERT ON docs FOR EACH ROW EXECUTE FUNCTION refuse()});
like(imports(1, '40 put, 1 failed', 'f11', 'a trigger that skips a row', 'tree'), qr/f11: the statement stored no row/, 'is told');
is(transactions('f%'), 1, 'and the others are one transaction');
sql(q{TRUNCATE docs; DROP TRIGGER skip ON docs; CREATE CONSTRAINT TRIGGER late AFTER INSERT ON docs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()});
like(imports(1, '40 put, 1 failed', 'f30', 'what fails at COMMIT', 'tree'), qr/f30: too late for f30/, 'is told');
sql(q{DROP TRIGGER late ON docs});

# names that the column does not take, and names of a type that compares otherwise
write_file("odd/$_", $_) for ('1', '2', '17', 'x', "no\xfftext");
sql(q{CREATE TABLE numbers (id int PRIMARY KEY, document securefile); CREATE TYPE color AS ENUM ('1', '17', 'x');
	CREATE TABLE colors (id color PRIMARY KEY, document securefile);
	CREATE TABLE brief (id varchar(1) PRIMARY KEY, document securefile)});
ends(1, qr/x: invalid input syntax for type integer.*: 3 put, 2 failed/s, 'names that are no numbers', 'import', '-j', 1, '-t', 'numbers', 'odd');
ends(1, qr/2: invalid input value for enum color.*: 3 put, 2 failed/s, 'names of an enum', 'import', '-j', 1, '-t', 'colors', 'odd');
ends(1, qr/17: value too long for type character varying\(1\).*: 3 put, 2 failed/s, 'names that are too long', 'import', '-j', 1, '-t', 'brief', 'odd');
is(sql(q{SELECT string_agg(id::text || convert_from(document::bytea, 'UTF8'), ' ' ORDER BY id::text) FROM colors}), '11 1717 xx', 'contents');
ends(1, qr/: 3 same, 2 failed/, "a second run: $_", 'import', '-j', 1, '-t', $_, 'odd') for qw(numbers colors brief);

# ---- breaks in the middle ----
# A session that holds up who stores f20.
my $holder = background($node);
sub hold { $holder->query_safe(q{BEGIN; INSERT INTO docs VALUES ('f20', NULL, 'held')}); return; }
sub let_go { $holder->query_safe('ROLLBACK'); return; }

# Begin an import that waits; its run and messages.
sub begin
{
	sql('TRUNCATE docs');
	hold();
	my $err = '';
	my $run = IPC::Run::start([ 'securefile', 'import', '-j', 1, '-t', 'docs', 'tree' ], '<', '/dev/null', '>', \my $out, '2>', \$err, IPC::Run::timeout(patience()));
	waits();
	return ($run, \$err);
}

# The process of the session that waits, once it does; not that one.
sub waits
{
	my ($not) = @_;
	my $of = q{FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event_type = 'Lock' AND pid <> } . ($not // 0);
	wait_for_sql($node, "SELECT count(*) = 1 $of");
	return sql("SELECT pid $of");
}

# Cancel the statement that waits.
sub cancel
{
	sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event_type = 'Lock'});
	return;
}

my ($run, $err) = begin();
$run->signal('INT');
$run->finish;
is(status_of($run->full_result), 130, 'SIGINT in a batch');
let_go();
wait_for_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'securefile'});
is(stored(), '', 'nothing of it is there');
imports(0, '41 put', '', 'the next run stores it', 'tree');

($run, $err) = begin();
my $first = waits();
sql("SELECT pg_terminate_backend($first)");
waits($first);
is(stored(), join(' ', map { sprintf 'f%02d', $_ } 0 .. 19), 'after a connection was lost, files are stored one by one');
let_go();
$run->finish;
is(status_of($run->full_result) . " $$err" =~ s/;.*//sr, '0 securefile: import: 41 put', 'and none is missing');

($run, $err) = begin();
cancel();
# then come the files before it, which are good, and the file alone
wait_for_sql($node, q{SELECT count(*) = 20 FROM docs});
waits();
cancel();
$run->finish;
like($$err, qr/\Asecurefile: f20: canceling statement due to user request\nsecurefile: import: 40 put, 1 failed/, 'a batch that is cancelled, and its file again');
is(status_of($run->full_result), 1, 'is one failure');
let_go();
imports(0, '1 put, 40 same', '', 'the next run stores it', 'tree');

($run, $err) = begin();
$node->stop('immediate');
$run->finish;
is(status_of($run->full_result), 3, 'the server goes in a batch');
like($$err, qr/no connection is left: 41 of 41 files were not begun/, 'how many files were not begun');
like($$err, qr/^securefile: import: no files/m, 'none is called failed');
$node->start;
is(stored(), '', 'nothing of the batch is there');
imports(0, '41 put', '', 'the next run stores it', 'tree');
sound($node, 'docs', 'after all that', column => 'document');

done_testing();
