# securefile dump and restore: damaged objects and lists, manifests that somebody has made up, kept
# hashes that are wrong, files that cannot be read, encrypted columns, a standby.
# Every version.

use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('dump_damage', conf => [ master_key() ], init => { allows_streaming => 1 });
enter($node);
sql(q{CREATE TABLE docs (id int PRIMARY KEY, document securefile(hash, nocache));
	INSERT INTO docs SELECT i, blob(i, i * 100000) FROM generate_series(1, 8) i;
	CREATE TABLE copy (LIKE docs INCLUDING ALL)});
my %sha = map { split /\|/ } split /\n/, sql(q{SELECT id, encode(securefile_digest(document), 'hex') FROM docs});
my @to_copy = ('-t', 'copy', '--from', 'public.docs', 'd');
my ($s1, $s2, $s3, $s4, $s6) = @sha{1, 2, 3, 4, 6};
command('dump', '-q', '-t', 'docs', 'd');
my ($name) = (command('dump', '--list', 'd'))[1] =~ /^(\S+)/;

sub path { return "d/objects/" . substr($_[0], 0, 2) . '/' . substr($_[0], 2); }

# ---- objects ----
# one bit of a short one, and one of a long one
foreach my $id (1, 8)
{
	my $bytes = slurp(path($sha{$id}));
	substr($bytes, 5000, 1) ^= "\x10";
	corrupt(path($sha{$id}), 5000, substr($bytes, 5000, 1));
}
unlink path($s3);
my ($rc, $out, $err) = command('dump', '--check', 'd');
like("$rc $err", qr/^1 .*object $sha{$_}/s, "--check finds object $_") foreach 1, 3, 8;
like($err, qr/object $s1: damaged: its SHA-256 is [0-9a-f]{64}\nHint: Remove objects\/../, 'says what to do');
ends(1, qr/5 put, 3 failed/, 'restore leaves out their rows only', 'restore', @to_copy);
($rc, $out, $err) = command('restore', @to_copy);
like($err, qr/^securefile: $_: object $sha{$_} is damaged/m, "and names row $_") foreach 1, 8;
like($err, qr/^securefile: 3: object $s3 is missing/m, 'and that of the missing one');
is(sql('SELECT string_agg(id::text, $$ $$ ORDER BY id) FROM copy'), '2 4 5 6 7', 'the others are there');
unlink path($sha{$_}) foreach 1, 8;
ends(0, qr/3 got, 5 same/, 'when they are gone the next dump stores them again', 'dump', '-t', 'docs', 'd');
ends(0, qr/3 put, 5 same/, 'and they can be restored', 'restore', @to_copy);
is(sql('SELECT count(*) FROM copy c JOIN docs d USING (id) WHERE c.document::bytea = d.document::bytea'), 8, 'all are equal');

# a link in the place of an object, or of a directory, is not followed
rename path($s2), 'elsewhere';
symlink "$ENV{PWD}/elsewhere", path($s2) if $ENV{PWD};
symlink '../../../elsewhere', path($s2) unless -l path($s2);
sql('DELETE FROM copy');
ends(1, qr/2: a symbolic link/, 'a link is no object', 'restore', @to_copy);
unlink path($s2);
rename 'elsewhere', path($s2);
my $fan = 'd/objects/' . substr($s2, 0, 2);
rename $fan, 'fan';
symlink '../../fan', $fan;
ends(1, qr/2: could not open the directory of the object: (Too many levels of symbolic links|Not a directory)/, 'nor is a directory', 'restore', @to_copy);
unlink $fan;
rename 'fan', $fan;
foreach my $part ('objects', 'dumps', 'leases', 'lock')
{
	rename "d/$part", 'part';
	symlink '../part', "d/$part";
	ends(3, qr/could not open (directory "$part"|the lock of the directory): /, "nor is $part", 'dump', '-t', 'docs', 'd');
	unlink "d/$part";
	rename 'part', "d/$part";
}

# ---- lists ----
my $manifest = slurp("d/dumps/$name.jsonl");

# A manifest with other lines, which has its own SHA-256.
sub forge
{
	my ($head, @rows) = @_;
	my $lines = join '', map { "$_\n" } $head, @rows;
	write_file('d/dumps/9999-forged.jsonl', $lines . sprintf(qq({"rows":%d,"files":0,"bytes":0,"failed":0,"sha256":"%s"}\n), scalar @rows, sha256_hex($lines)));
	return;
}

my ($head) = split /\n/, $manifest;
my @forged = ('restore', @to_copy, '--at', '9999-forged');
my $cut = substr($manifest, 0, length($manifest) - 20);
my $changed = $manifest =~ s/"row":\["2"\]/"row":["9"]/r;
isnt($changed, $manifest, 'a row is changed');
foreach my $case ([ $cut, qr/has no last line: it is not complete/, 'a list without its end' ], [ '', qr/no last line/, 'an empty one' ],
	[ $changed, qr/damaged: its SHA-256 is another one/, 'a list that was changed' ])
{
	write_file('d/dumps/9999-forged.jsonl', $case->[0]);
	ends(3, $case->[1], $case->[2], @forged);
	ends(1, $case->[1], "--check: $case->[2]", 'dump', '--check', 'd');
	ends(3, qr/9999-forged.*Hint: --at/s, "is the newest, and not passed over: $case->[2]", 'restore', @to_copy);
	ends(1, qr/no object was removed/, "--prune removes no object: $case->[2]", 'dump', '--prune', 'd', '--keep', 100);
}
foreach my $sha256 ('../../../../etc/passwd', 'A' x 64, 'a' x 63, 'a' x 65, "../" . 'a' x 61, '')
{
	forge($head, qq({"c":0,"sha256":"$sha256","length":5,"row":["77"]}));
	ends(3, qr/line 2 of the manifest is wrong/, "no SHA-256: $sha256", @forged);
}
foreach my $row ('{', '[]', '{"c":1,"sha256":null,"length":0,"row":["77"]}', '{"c":-1,"sha256":null,"length":0,"row":["77"]}', '{"c":0,"sha256":null,"length":0,"row":[]}',
	'{"c":0,"sha256":null,"length":-5,"row":["77"]}', '{"c":0,"sha256":null,"length":0,"row":"77"}', '{"c":0,"c":0,"sha256":null,"length":0,"row":["77"]}')
{
	forge($head, $row);
	ends(3, qr/line 2 of the manifest (is wrong|cannot be read)/, "no row: $row", @forged);
}
foreach my $value ('7', '{"hex":"zz"}', '{"hex":"00"}', '["a"]', '"7; DROP TABLE docs"', '"x\'y"')
{
	forge($head, qq({"c":0,"sha256":null,"length":0,"row":[$value]}));
	my ($rc2, undef, $err2) = command(@forged);
	ok($rc2 == 1 && $err2 =~ /no text|invalid input syntax/, "no value: $value") or diag("$rc2 $err2");
}
forge($head, qq({"c":0,"sha256":null,"length":0,"row":["x"]}), qq({"c":0,"sha256":"$s2","length":200000,"row":["77"]}));
ends(1, qr/x: .*invalid input syntax.*1 put, 1 failed/s, 'a key that is no value of its type costs only its row', @forged, '-j', 1);
foreach my $other ('{}', '{"securefile_dump":2,"columns":[]}', '{"securefile_dump":1,"columns":[{"schema":"public","table":"docs","column":"document","row":[{"name":"id","type":"integer"}],"key":[1]}]}',
	'{"securefile_dump":1,"columns":[{"schema":"public","table":"docs","column":"document","row":[],"key":[]}]}')
{
	forge($other);
	ends(3, qr/first line|version 2, which is unknown/, "no first line: $other", @forged);
}
forge($head =~ s/"name":"id"/"name":"id) VALUES (1); DROP TABLE docs; --"/r);
ends(3, qr/has no column "id\) VALUES/, 'a name is a name', @forged);
forge($head =~ s/"table":"docs"/"table":"docs\\"; DROP TABLE docs; --"/r, qq({"c":0,"sha256":"$s2","length":200000,"row":["77"]}));
ends(3, qr/relation .* does not exist/, 'of a table, too', 'restore', '--all', 'd', '--at', '9999-forged');
is(sql('SELECT count(*) FROM docs'), 8, 'nothing was dropped');
unlink 'd/dumps/9999-forged.jsonl';
symlink "$name.jsonl", 'd/dumps/9999-forged.jsonl';
ends(3, qr/symbolic link/, 'a link is no list', @forged);
unlink 'd/dumps/9999-forged.jsonl';

# ---- a kept hash that is wrong, a file that cannot be read ----
# The hash lies in the locator, which has a seal of its own, so a wrong one comes from the function here.
sql(q{ALTER FUNCTION securefile_kept_digest(securefile) RENAME TO kept},
	q{CREATE FUNCTION securefile_kept_digest(document securefile) RETURNS bytea LANGUAGE sql STABLE AS $$
		SELECT CASE WHEN length(document) = 400000 THEN decode(repeat('ab', 32), 'hex') ELSE kept(document) END $$});
my ($data) = grep { block_at($_, 6, 3) >= 0 } data_files($node);
corrupt($data, block_at($data, 6, 3), 'x');
unlink path($s6);
($rc, $out, $err) = command('dump', '-t', 'docs', 'd');
is($rc, 1, 'a dump with a wrong hash and a damaged file');
like($err, qr/^securefile: 4: the kept hash is not that of the file, whose SHA-256 is $s4\nHint: /m, 'names the one');
like($err, qr/^securefile: 6: .*(damaged|checksum|corrupt)/m, 'and the other');
like((command('dump', '--list', 'd'))[1], qr/8 rows, 7 files, .*some failed.*\n\z/, 'the dump has the others');
sql('DELETE FROM copy');
ends(1, qr/6: the file could not be read when the dump was made.*7 put, 1 failed/s, 'which can be restored', 'restore', @to_copy);
is(sql('SELECT count(*) FROM copy WHERE document::bytea = blob(id, id * 100000)'), 7, 'among them the one with the wrong hash');
write_file(path('ab' x 32), 'y' x 400000) if mkdir('d/objects/ab') || -d 'd/objects/ab';
ends(1, qr/4: the kept hash is not that of the file/, '--verify finds it even if there is an object of that name', 'dump', '-t', 'docs', 'd', '--verify');

sql(q{DROP FUNCTION securefile_kept_digest(securefile)}, q{ALTER FUNCTION kept(securefile) RENAME TO securefile_kept_digest});

# a short file that is not in its row
sql(q{CREATE TABLE outside (id int PRIMARY KEY, document securefile(disable_storage_in_row, nocache)); INSERT INTO outside SELECT i, blob(100 + i, 3000) FROM generate_series(1, 3) i});
($data) = grep { block_at($_, 102, 1) >= 0 } data_files($node);
corrupt($data, block_at($data, 102, 1), 'x');
ends(1, qr/^securefile: 2: .*2 got/ms, 'damage of a short file leaves that out, and not the others', 'dump', '-t', 'outside', 'o');

# ---- encrypted columns ----
sql(q{CREATE TABLE secret (id int PRIMARY KEY, document securefile(encrypt, hash)); INSERT INTO secret VALUES (1, convert_to(repeat('plain text ', 10000), 'UTF8'))});
ends(0, qr/1 got/, 'an encrypted column', 'dump', '-t', 'secret', 's');
my ($object) = glob 's/objects/*/*';
like(slurp($object), qr/^plain text /, 'is plain in the dump, as the documents say');
is((stat $object)[2] & 07777, 0600, 'for its owner only');
sql('DELETE FROM secret');
ends(0, qr/1 put/, 'restored', 'restore', '-t', 'secret', 's');
is(sql(q{SELECT document::bytea = convert_to(repeat('plain text ', 10000), 'UTF8') FROM secret}), 't', 'encrypted again');

# ---- a standby, and rights ----
sql('DELETE FROM docs WHERE id IN (4, 6)');
$node->backup('backup');
my $standby = new_standby('dump_standby', $node, 'backup');
catch_up($node, $standby);
ends(0, qr/got/, 'a dump of a standby', 'dump', '-t', 'docs', 'standby', '-h', $standby->host, '-p', $standby->port);
sql('TRUNCATE copy');
ends(0, qr/6 put/, 'is a dump', 'restore', '-t', 'copy', '--from', 'public.docs', 'standby');
$standby->stop;
sql(q{CREATE ROLE reader LOGIN; CREATE TABLE policed (id int PRIMARY KEY, document securefile); INSERT INTO policed VALUES (1, 'x');
	ALTER TABLE policed ENABLE ROW LEVEL SECURITY; GRANT SELECT ON policed TO reader});
ends(3, qr/row-level security/, 'rows that a policy hides are no reason for half a dump', 'dump', '-t', 'policed', 'r', '-U', 'reader');
ends(3, qr/permission denied/, 'a table that may not be read', 'dump', '-t', 'docs', 'r', '-U', 'reader');

$node->stop;
done_testing();
