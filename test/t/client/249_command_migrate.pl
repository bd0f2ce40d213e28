# securefile migrate: the files that rows name by a path or a URL become values of these rows.
# Nothing outside of --root is read; a row that changes meanwhile gets the file that it names
# then; whatever stops a run, the next one does the rest.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use Digest::SHA qw(sha256_hex);
use IPC::Run ();
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use SecurefileWeb;
use Test::More;

my $node = new_cluster('migrate');
my $dir = enter($node);
my $url = web_begin();
my @migrate = qw(migrate -t docs -c document --from path --root files);

# A new table, whose rows have these paths.
sub table_with
{
	my (@paths) = @_;
	my $number = 0;
	sql('DROP TABLE IF EXISTS docs', 'CREATE TABLE docs (id int PRIMARY KEY, path text, document securefile)', 'GRANT SELECT ON docs TO reader',
		'INSERT INTO docs VALUES ' . join ', ', map { '(' . ++$number . ', $path$' . $_ . '$path$)' } @paths);
	return;
}

# What the rows have, as "1=done 2=null".
sub state { return sql(q{SELECT string_agg(id || '=' || CASE WHEN document IS NULL THEN 'null' ELSE 'done' END, ' ' ORDER BY id) FROM docs}); }

# One test: a run ends with that status and counts.
sub sums_up
{
	my ($status, $want, $name, @args) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = command(@migrate, '--json', @args);
	my ($summary) = grep { exists $_->{summary} } objects($out);
	my $is = join ' ', map { "$_=$summary->{$_}" } grep { $summary->{$_} } qw(put same skipped failed);
	is("$rc $is", "$status $want", $name) or diag($err);
	return ($err, $out);
}

# One test: each row has the bytes of its file.
sub all_right
{
	my ($name, %want) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %is = map { split /\|/ } split /\n/, sql(q{SELECT path, encode(sha256(document::bytea), 'hex') FROM docs WHERE document IS NOT NULL});
	return is_deeply(\%is, { map { $_ => sha256_hex($want{$_}) } keys %want }, $name);
}

# The command in the background, until some of its sessions wait for a lock.
sub waiting
{
	my ($sessions, $err, @args) = @_;
	my $run = IPC::Run::start([ 'securefile', @migrate, @args ], '<', \'', '>', \my $out, '2>', $err);
	wait_for_sql($node, "SELECT count(*) >= $sessions FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event_type = 'Lock'");
	return $run;
}

sub finished
{
	my ($run) = @_;
	eval { $run->finish };
	return status_of($run->full_result);
}

sql('CREATE ROLE reader LOGIN');

# ---- files ----
my $seed = 0;
my %files = map { ("sizes/$_" => bytes(++$seed, $_)) } (0, 1, 4000, 262_143, 262_144, 262_145, 3_000_000);
$files{$_} = "content of $_" for ('with space', "gr\xc3\xbc\xc3\x9fe", q{qu'ote"s}, '...');
write_file("files/$_", $files{$_}) for keys %files;
write_file('files/hole', $files{hole} = 'x');
truncate 'files/hole', 2_000_000;
$files{hole} .= "\0" x 1_999_999;
write_file('outside', 'secret');
write_file("files/link/x", 'x');
symlink('../outside', 'files/out');
symlink('link', 'files/way');
my @refused = ('../outside', "$dir/outside", 'out', 'way/x', 'link', 'a//b', 'a/', 'file:///etc/passwd', 'ftp://127.0.0.1/x');
my @paths = (sort(keys %files), 'none', 'none/none', @refused);

table_with(@paths, 'sizes/1');
sql(q{INSERT INTO docs VALUES (100, NULL, NULL), (101, 'sizes/0', 'done before'), (102, '', NULL)});
my ($rc, $out, $err) = command(@migrate, '--dry-run', '--json');
my ($report) = grep { exists $_->{report} } objects($out);
my $bytes = 0;
$bytes += length $_ for values %files, $files{'sizes/1'};
is_deeply($report, { report => 'migrate', rows => @paths + 4, done => 1, empty => 2, files => keys(%files) + 1, bytes => $bytes,
		urls => 0, missing => 2, refused => scalar @refused, repeated => 1 }, 'report');
is($rc, 1, 'some cannot be stored');
ends(1, qr/^ +1 done: document is not null$/m, 'in words', @migrate, '--dry-run');
is(sql('SELECT count(*) FROM docs WHERE document IS NOT NULL'), 1, 'a report stores nothing');

my $bad = @refused + 2;
($err) = sums_up(1, 'put=' . (keys(%files) + 1) . " failed=$bad", 'migrate');
like($err, qr/^securefile: \d+: $_$/m, "says: $_")
  for ('path "none": could not open the file: No such file or directory', 'the name has a part "\.\.": refused',
	'path ".*outside" is absolute: refused', 'path "out": a symbolic link, not a regular file',
	'path "way/x": could not open directory "way": .*links are not followed\)', 'path "link": not a regular file',
	'the name has an empty part: it is no path', 'only URLs of http and https are fetched, not of file');
is(sql(q{SELECT convert_from(document, 'UTF8') FROM docs WHERE id = 101}), 'done before', 'a row that was done is left alone');
sql('DELETE FROM docs WHERE id >= 100');
all_right('contents', %files);
sums_up(1, "failed=$bad", 'again: only what is not done');
sound($node, 'docs', 'migrated', column => 'document');
sql(q{DELETE FROM docs WHERE document IS NULL});
sums_up(0, '', 'nothing is left to do');

# ---- afterwards ----
sums_up(0, 'same=' . (keys(%files) + 1), '--verify', '--verify');
write_file('files/sizes/4000', bytes(77, 4000));
unlink 'files/with space';
($err) = sums_up(1, 'same=' . (keys(%files) - 1) . ' failed=2', '--verify finds what differs', '--verify');
like($err, qr/^securefile: \d+: the file and the stored one differ$/m, 'and says so');

# ---- other columns, tables, prefixes ----
sql('DROP TABLE docs', 'CREATE DOMAIN place AS varchar(100)', 'CREATE DOMAIN file AS securefile',
	q{CREATE TABLE docs (id int, "The Path" place, document file, PRIMARY KEY (id)) PARTITION BY RANGE (id)},
	'CREATE TABLE docs1 PARTITION OF docs FOR VALUES FROM (1) TO (2)', 'CREATE TABLE docs2 PARTITION OF docs FOR VALUES FROM (2) TO (3)',
	q{INSERT INTO docs VALUES (1, '/srv/files/sizes/1'), (2, '/srv/files/sizes/3000000')});
ends(0, qr/^put ([12])\nput (?!\1)[12]\n$/, 'a prefix, partitions, domains', '-q', qw(migrate -v -t docs -j 1 --root files --prefix /srv/files/ --from), 'The Path');
is(sql(q{SELECT string_agg(encode(sha256(document::bytea), 'hex'), ' ' ORDER BY id) FROM docs}),
	join(' ', map { sha256_hex($files{"sizes/$_"}) } 1, 3_000_000), 'contents');
sql('DROP TABLE docs');
table_with('sizes/1');
ends(3, qr/^securefile: column "id" of public\.docs is not of a type of text/, 'a column of another type', qw(migrate -t docs --from id));
ends(3, qr/^securefile: public\.docs has no column "none"$/, 'no such column', qw(migrate -t docs --from none));
ends(3, qr/^securefile: could not open directory "none"/, 'no such directory', qw(migrate -t docs --from path --root none));
ends(2, qr/say with --from/, 'no column', qw(migrate -t docs));
ends(2, qr/--max-size wants a number of bytes/, 'a size that is none', @migrate, '--max-size', '1 mile');
ends(2, qr/--retries wants a number from 0 to 20/, 'retries that are none', @migrate, '--retries', '-1');
ends(1, qr/a path, not a URL\nHint: Say with --root/, 'no directory', qw(migrate -t docs --from path));
write_file('files/sizes/1', 'longer');
ends(1, qr/^securefile: 1: the file is longer than the 3 bytes of --max-size$/m, '--max-size', @migrate, '--max-size', '3');
sql('ALTER TABLE docs DROP CONSTRAINT docs_pkey', q{INSERT INTO docs VALUES (1, 'sizes/1')});
ends(1, qr/^securefile: 1: more than one row has that name$/m, 'a name of two rows', @migrate, '-k', 'id');
is(state(), '1=null 1=null', 'nothing is stored');

# ---- rows that cannot be stored, in the middle of others ----
write_file("files/many/$_", $files{"many/$_"} = bytes($_, $_ * 37)) for 1 .. 250;
my @many = map { "many/$_" } 1 .. 250;
my %many = map { $_ => $files{$_} } @many;
table_with(@many);
ends(3, qr/\Asecurefile: 1: permission denied for table docs\nsecurefile: stopped, since no file can be done: 219 of 250 files were not begun\n\z/,
	'a role that may only read is told so once', @migrate, '-q', '-j', 1, '-U', 'reader');
sql(q{ALTER TABLE docs ADD CHECK (id <> 57 OR document IS NULL)});
($err) = sums_up(1, 'put=249 failed=1', 'a row that a constraint refuses');
like($err, qr/^securefile: 57: new row for relation "docs" violates check constraint/, 'says so');
delete $many{'many/57'};
all_right('the others are stored', %many);

table_with('many/1', 'sizes/3000000', 'many/3');
sql(q{CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.document := 'spoilt'; RETURN NEW; END $$},
	q{CREATE TRIGGER spoil BEFORE UPDATE ON docs FOR EACH ROW WHEN (NEW.id < 3) EXECUTE FUNCTION spoil()});
($err) = sums_up(1, 'put=1 failed=2', 'a trigger that stores something else');
like($err, qr/^securefile: $_: the server has stored other bytes than those that were read: SHA-256 /m, "row $_") for 1, 2;
is(state(), '1=null 2=null 3=done', 'is found out before the commit');

# ---- rows that change while their files are read ----
table_with('many/1', 'many/2', 'many/3', 'many/4', 'sizes/3000000', 'many/6');
my $writer = background($node);
$writer->query_safe(q{BEGIN; UPDATE docs SET path = 'many/100' WHERE id = 1; DELETE FROM docs WHERE id = 2; UPDATE docs SET path = NULL WHERE id = 3;
	UPDATE docs SET document = 'by another one' WHERE id = 4; UPDATE docs SET path = 'many/101' WHERE id = 5});
my $run = waiting(1, \$err, qw(-j 1 -v));
$writer->query_safe('COMMIT');
is(finished($run), 0, 'rows that change meanwhile');
like($err, qr/^securefile: migrate: 3 put, 1 same, 2 skipped;/m, 'what became of them');
is(sql(q{SELECT convert_from(document, 'UTF8') FROM docs WHERE id = 4}), 'by another one', 'what another one has stored stays');
sql(q{DELETE FROM docs WHERE id = 4});
all_right('the others have the file that they name now', 'many/100' => $files{'many/100'}, 'many/101' => $files{'many/101'}, 'many/6' => $files{'many/6'});

# ---- whatever stops a run ----
# two rows are locked, in different batches: one connection waits, the other ends
sub stopped
{
	my ($name, $status, $stop) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	table_with(@many);
	$writer->query_safe('BEGIN; SELECT FROM docs WHERE id = 150 FOR UPDATE');
	my $stopping = waiting(1, \$err, qw(-j 1));
	$stop->($stopping);
	$writer->query_safe('ROLLBACK') if $status == 0;
	is(finished($stopping), $status, $name) or diag($err);
	$writer->query_safe('ROLLBACK') if $status != 0;
	return;
}

foreach my $signal (qw(KILL INT))
{
	stopped($signal, $signal eq 'KILL' ? 137 : 130, sub { $_[0]->signal($signal) });
	wait_for_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'securefile'});
	like($err, qr/^securefile: interrupted\nsecurefile: migrate: 124 put(?:, \d+ not done)?; [^\n]+ in [\d.]+ s\n\z/m, 'it says what was done') if $signal eq 'INT';
	is(sql('SELECT count(document) FROM docs'), 124, 'the first batches are stored, the next one is not');
	sums_up(0, 'put=126', "after SIG$signal the next run does the rest");
	all_right('contents', map { $_ => $files{$_} } @many);
}
stopped('a session that is ended', 0,
	sub { sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile'}) });
all_right('connects again, and does all', map { $_ => $files{$_} } @many);
table_with('sizes/3000000');
$writer->query_safe('BEGIN; SELECT FROM docs FOR UPDATE');
$run = waiting(1, \$err, '-q');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'securefile'});
$writer->query_safe('ROLLBACK');
is(finished($run) . $err, '0', 'so it does with a long file');
all_right('contents', 'sizes/3000000' => $files{'sizes/3000000'});
$writer->quit;

# ---- URLs ----
my %urls = ('bytes/1/0' => bytes(1, 0), 'bytes/2/5000' => bytes(2, 5000), 'bytes/3/700000' => bytes(3, 700_000),
	'chunked/4/700000' => bytes(4, 700_000), 'often/2/bytes/5/100' => bytes(5, 100), 'cut/1/6/400000' => bytes(6, 400_000),
	'to/' . unpack('H*', "$url/bytes/7/70") => bytes(7, 70));
table_with(map { "$url/$_" } sort keys %urls);
ends(0, qr/^ +7 URLs to fetch/m, 'report of URLs', qw(migrate -t docs --from path --dry-run));
($err) = sums_up(0, 'put=7', 'URLs');
all_right('contents', map { ("$url/$_" => $urls{$_}) } keys %urls);
sums_up(0, 'same=7', '--verify', '--verify');

my @wrong = ([ 'status/404', 'the web server answered with status 404' ], [ 'status/204', 'the web server answered with status 204' ],
	[ 'often/9/bytes/1/1', 'the web server answered with status 503' ], [ 'cut/9/1/1000', '.*(transfer closed|end of response).*' ],
	[ 'around', '.*redirect.*' ], [ 'to/' . unpack('H*', 'file:///etc/passwd'), 'the web server redirects to a URL that is not of http or https' ],
	[ 'endless', 'the file is longer than the 2000000 bytes of --max-size' ], [ 'bytes/1/2000001', 'the file is longer than the 2000000 bytes of --max-size' ]);
table_with((map { "$url/$_->[0]" } @wrong), 'http://', "$url/bytes/9/9");
($err) = sums_up(1, 'put=1 failed=' . (@wrong + 1), 'URLs that lead to nothing good', qw(--max-size 2MB --retries 1));
like($err, qr/^securefile: @{[ $_ + 1 ]}: $wrong[$_][1]$/m, "$wrong[$_][0]: $wrong[$_][1]") for 0 .. $#wrong;
is(sql('SELECT count(document) FROM docs'), 1, 'and store nothing');
table_with("$url/silent");
ends(1, qr/^securefile: 1: .*(too slow|timed out|Timeout)/m, 'a server that falls silent', @migrate, qw(--timeout 1 --retries 0));
web_end();
ends(1, qr/^securefile: 1: .*connect/m, 'no web server', @migrate, '--retries', '0');

done_testing();
