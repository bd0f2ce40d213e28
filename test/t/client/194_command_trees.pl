# The command securefile with trees of files: import, export, verify; what is the
# same is skipped, what cannot be done is said and the rest done, and no name leads
# out of the directory.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use File::Path qw(make_path remove_tree);
use IPC::Run ();
use POSIX qw(mkfifo);
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('trees');
need_faults($node);
my $dir = enter($node);

# The summary that JSON gives, as "put=1 failed=2".
sub summary
{
	my ($summary) = grep { exists $_->{summary} } objects($_[0]);
	return join ' ', map { "$_=$summary->{$_}" }
	  grep { $summary->{$_} } qw(put replaced got same sound removed failed);
}

# Bytes in the summary among JSON Lines.
sub moved
{
	my ($summary) = grep { exists $_->{summary} } objects($_[0]);
	return $summary->{bytes};
}

# One test: an import, export or verify ends with that status and summary.
sub sums_up
{
	my ($status, $want, $name, @args) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = command(shift @args, '--json', '-t', 'docs', @args);
	my $is = summary($out);
	is("$rc $is", "$status $want", $name) or diag($err);
	return ($out, $err);
}

sql(q{CREATE TABLE docs (name text PRIMARY KEY, note text, document securefile)});

# ---- a tree of everything that can be stored ----
my %tree;
my $seed = 0;
$tree{"sizes/$_"} = bytes(++$seed, $_)
  for (0, 1, 511, 3999, 4000, 4001, 131_071, 131_072, 131_073, 262_143, 262_144, 262_145, 3_000_000);
$tree{$_} = "content of $_"
  for ('with space/and more', q{qu'ote"s}, "new\nline/x", "gr\xc3\xbc\xc3\x9fe/\xf0\x9f\x98\x80", '-dash/-x', '--',
	'back\\slash', '100%', '...', '.hidden/.x', ' ', 'a/b/c/d/e/f/g/h', 'x' x 255);
$tree{"many/$_"} = bytes($_, $_ * 37) for 1 .. 100;
write_file("tree/$_", $tree{$_}) for keys %tree;
my $all = keys %tree;

sums_up(0, "put=$all", 'dry run of an import', 'import', '--dry-run', 'tree');
is(sql('SELECT count(*) FROM docs'), 0, 'stores nothing');
my ($out, $err) = sums_up(0, "put=$all", 'import', 'import', '-j', 4, 'tree');
is_deeply([ sort map { $_->{name} } grep { $_->{action} } objects($out) ],
	[ sort map { utf8::decode(my $text = $_); $text } keys %tree ], 'JSON names each file');
is($err, '', 'and no message');
my %wrong = map { $_ => 1 } grep { (command('cat', '-t', 'docs', '--', $_))[1] ne $tree{$_} } grep { !/^many/ } keys %tree;
is_deeply([ keys %wrong ], [], 'contents');
sums_up(0, "same=$all", 'a second import', 'import', '-j', 4, 'tree');
sums_up(0, "same=$all", 'a third one, over one connection', 'import', '-j', 1, 'tree');
ends(0, qr/^securefile: import: $all same in [\d.]+ s\n$/, 'in words', 'import', '-t', 'docs', 'tree');
ends(0, qr/^$/, 'quiet', 'import', '-q', '-t', 'docs', 'tree');
ends(0, qr/^same sizes\/3999$/m, 'verbose', 'import', '-v', '-t', 'docs', 'tree');
ends(0, qr/^same new\\nline\/x$/m, 'verbose, odd name', 'import', '-v', '-t', 'docs', 'tree');
sound($node, 'docs', 'imported', column => 'document');

# ---- out again ----
sums_up(0, "got=$all", 'dry run of an export', 'export', '--dry-run', 'out');
ok(!-e 'out', 'writes nothing');
sums_up(0, "got=$all", 'export', 'export', '-j', 4, 'out');
trees_same('tree', 'out', 'both trees are the same');
sums_up(0, "same=$all", 'a second export', 'export', 'out');
ends(0, qr/^securefile: export: 100 got; [\d.]+ kB, .* in [\d.]+ s\n$/, 'a pattern, one connection',
	'export', '-t', 'docs', '-j', 1, 'some', 'many/*');
trees_same('tree/many', 'some/many', 'what matches');
is(join(' ', glob 'some/*'), 'some/many', 'and nothing else');

# files that differ: longer, of the same length
write_file('out/many/5', 'changed');
write_file('out/many/6', 'x' x length $tree{'many/6'});
unlink 'out/many/7';
($out, $err) = sums_up(1, 'got=1 same=' . ($all - 3) . ' failed=2', 'over files that differ', 'export', 'out');
like($err, qr/^securefile: many\/5: another file is there already\nHint: --replace/m, 'says so');
holds('out/many/5', 'changed', 'and leaves them');
sums_up(0, 'replaced=2 same=98', '--replace', 'export', '--replace', 'out', 'many/*');
trees_same('tree', 'out', 'the same again');

# and the other way
write_file('tree/many/5', 'changed');
write_file('tree/many/6', 'x' x length $tree{'many/6'});
($out, $err) = sums_up(1, 'same=' . ($all - 2) . ' failed=2', 'import of files that differ', 'import', 'tree');
like($err, qr/^securefile: many\/6: another file of that name is stored already\nHint: --replace/m, 'says so');
sums_up(0, 'replaced=2 same=' . ($all - 2), '--replace', 'import', '--replace', 'tree');
is((command('cat', '-t', 'docs', 'many/6'))[1], 'x' x length $tree{'many/6'}, 'replaced');

# prefixes, other columns, the whole tree of one file many times
sums_up(0, "put=$all", '--prefix and --set', 'import', '--prefix', 'p/', '--set', 'note=x', 'tree');
is(sql(q{SELECT count(*) FROM docs WHERE name LIKE 'p/%' AND note = 'x'}), $all, 'rows of it');
sums_up(0, "got=$all", 'export with a prefix', 'export', '--prefix', 'p/', 'prefixed');
trees_same('tree', 'prefixed', 'the same');
sums_up(0, "same=$all", 'verify with a prefix', 'verify', '--prefix', 'p/', '--against', 'tree');
sums_up(0, 'put=13', 'more connections than files', 'import', '-j', 64, '--prefix', 'q-', 'tree/sizes');
ends(0, qr/^ +3999  q-3999$/m, 'a prefix that is no directory', 'ls', '-t', 'docs', 'q-*');
make_path('empty');
sums_up(0, '', 'an empty directory', 'import', 'empty');
sql(q{DELETE FROM docs WHERE name LIKE 'p/%' OR name LIKE 'q-%'});

# ---- what cannot be stored ----
write_file("bad/$_", $_) for ('good', 'unreadable', "no\xfftext", 'shut/in');
symlink('good', 'bad/link');
symlink('nowhere', 'bad/dangling');
symlink('.', 'bad/loop');
mkfifo('bad/pipe', 0600);
chmod 0, 'bad/unreadable', 'bad/shut';
($out, $err) = sums_up(1, 'put=1 failed=7', 'import of what cannot be stored', 'import', '--links=error', '--prefix', 'bad/', 'bad');
like($err, qr/^securefile: (bad\/)?$_->[0]: $_->[1]/m, "$_->[0]: $_->[1]")
  for (['link', 'a symbolic link'], ['dangling', 'a symbolic link'], ['loop', 'a symbolic link'], ['pipe', 'not a regular file'],
	['unreadable', 'could not open the file: Permission denied'],
	['shut', 'could not open the directory: Permission denied'], ['no\\\\377text', 'the name is not valid UTF-8']);
is(sql(q{SELECT string_agg(name, ' ') FROM docs WHERE name LIKE 'bad/%'}), 'bad/good', 'the rest is stored');
chmod 0755, 'bad/shut';
is_deeply([ map { $_->{name} } grep { $_->{name} =~ /text/ } grep { $_->{action} } objects($out) ],
	["bad/no\x{fffd}text"], 'JSON of a name that is no text');
{
	local $ENV{PGCLIENTENCODING} = 'LATIN1';
	unlink 'bad/shut/in', 'bad/good';
	sums_up(1, 'put=1 failed=5', 'in an encoding that has that name', 'import', '--links=error', '--prefix', 'latin/', 'bad');
	ends(0, qr/got/, 'and back', 'export', '-t', 'docs', '--prefix', 'latin/', 'latin');
	holds("latin/no\xfftext", "no\xfftext", 'as it was');
}
is(sql(q{SELECT name FROM docs WHERE name LIKE 'latin/%'}), "latin/no\xc3\xbftext", 'is converted');
sql(q{DELETE FROM docs WHERE name LIKE 'bad/%' OR name LIKE 'latin/%'});

# ---- names that lead elsewhere ----
my @traps = ('../up', '/abs', 'a/../../up', 'a/./b', './x', 'a//b', 'a/', '', '.', '..', 'a/..');
sql(q{CREATE TABLE traps (name text PRIMARY KEY, document securefile)});
sql("INSERT INTO traps VALUES ('$_', 'x')") for (@traps, "$dir/absolute", 'fine', 'link/in', 'file/in', 'n' x 300);
make_path('safe/here', 'elsewhere');
symlink("$dir/elsewhere", 'safe/here/link');
write_file('safe/here/file', 'a file');
my ($rc, $json);
($rc, $json, $err) = command('export', '--json', '-t', 'traps', 'safe/here');
is("$rc " . summary($json), '1 got=1 failed=' . (@traps + 4), 'names that lead elsewhere');
like($err, qr/^securefile: $_->[0]: $_->[1]/m, "$_->[0]: $_->[1]")
  for (['\.\./up', 'the name has a part "\.\."'], ['/abs', 'the name is an absolute path'], ['a//b', 'the name has an empty part'],
	['', 'the name has an empty part'], ['a/', 'the name has an empty part'], ['a/\./b', 'the name has a part "\."'],
	['link/in', 'could not open directory "link": .*links are not followed'], ['file/in', 'could not open directory "file"'],
	['n+', 'could not open the file: File name too long']);
is(join(' ', sort glob('safe/* safe/here/* elsewhere/* ' . "$dir/absolute*")),
	'safe/here safe/here/file safe/here/fine safe/here/link', 'nothing is made elsewhere');
is(temporaries($dir), 0, 'no temporary file stays');
ends(1, qr/^securefile: \.\.: the name has a part/, 'get without a file', 'get', '-t', 'traps', '..');
ends(1, qr/the name has an empty part/, 'get without a file', 'get', '-t', 'traps', 'a/');
ends(1, qr/^securefile: $_: the name/m, "verify of $_", 'verify', '-t', 'traps', '--against', 'safe', $_) for ('../up', '/abs');

# a link, a directory, a pipe where the file should be
sql(q{DELETE FROM traps; INSERT INTO traps VALUES ('l', 'new'), ('d', 'new'), ('p', 'new')});
make_path('way/d');
# it holds what is stored, and still is not the file
write_file('target', 'new');
symlink("$dir/target", 'way/l');
mkfifo('way/p', 0600);
($rc, $json, $err) = command('export', '--json', '-t', 'traps', 'way');
is("$rc " . summary($json), '1 failed=3', 'what is in the way stays');
($rc, $json, $err) = command('export', '--json', '--replace', '-t', 'traps', 'way');
is("$rc " . summary($json), '1 replaced=1 failed=2', 'with --replace the link is replaced');
holds('way/l', 'new', 'by the file');
ok(!-l 'way/l', 'which is no link');
ok((stat 'target')[3] == 1 && slurp_file('target') eq 'new', 'where it led is as it was');
is(temporaries('way'), 0, 'no temporary file stays');

# no room, no permission here
chmod 0555, 'way';
sql(q{INSERT INTO traps VALUES ('new', 'x')});
ends(1, qr/could not create a temporary file: Permission denied/, 'export without permission', 'export', '-t', 'traps', 'way', 'new');
chmod 0755, 'way';
ends(1, qr/could not write the file: No space left on device/, 'a full device', 'get', '-t', 'docs', 'sizes/3000000', '/dev/full');

# ---- the export shows one moment ----
remove_tree('out');
write_file("tree/$_", $tree{$_}) for ('many/5', 'many/6');
sums_up(0, 'replaced=2 same=' . ($all - 2), 'as at first', 'import', '--replace', 'tree');
# a name that is refused lets the transaction of its connection end, and another begin
sql(q{INSERT INTO docs VALUES ('sizes/131071/../x', NULL, 'x')});
arm($node, 'io_read', 'wait');
my $export = IPC::Run::start([ 'securefile', 'export', '-q', '-j', 1, '-t', 'docs', 'out' ], '2>', \$err);
wait_for_sql($node, q{SELECT securefile_fault_fired('io_read') > 0});
sql(q{DELETE FROM docs WHERE name < 'many/5' OR name LIKE '%..%'; UPDATE docs SET document = 'other' WHERE name > 'many/5'});
disarm($node);
$export->finish;
is(status_of($?) . " $err", qq{1 securefile: sizes/131071/../x: the name has a part "..": refused\n}, 'export while all changes');
trees_same('tree', 'out', 'shows what was there when it began');
sums_up(0, 'put=' . sql("SELECT $all - count(*) FROM docs") . ' replaced=' . sql(q{SELECT count(*) - 1 FROM docs}) . ' same=1',
	'import of what was deleted and changed', 'import', '--replace', 'tree');

# ---- verify ----
ends(0, qr/^securefile: verify: nothing wrong in column document of public\.docs\n$/, 'verify', 'verify', '-t', 'docs');
ends(0, qr/^$/, 'verify, quiet', 'verify', '-q', '-t', 'docs');
sums_up(0, '', 'verify', 'verify');
sums_up(0, 'sound=2', 'verify of names', 'verify', 'sizes/0', 'sizes/3000000');
sums_up(1, 'sound=1 failed=1', 'verify of a name that is not there', 'verify', 'sizes/0', 'none');
sums_up(0, "same=$all", 'verify --against', 'verify', '--against', 'tree');
($out) = sums_up(0, 'same=1', 'verify --against, a name', 'verify', '--against', 'tree', 'sizes/4001');
is(moved($out), 4001, 'and its bytes');
like($out, qr/"seconds":\d+\.\d{1,3}}$/, 'seconds have three decimals');
is(moved((sums_up(0, 'sound=2', 'verify of names', 'verify', 'sizes/4000', 'sizes/4001'))[0]), 8001, 'and their bytes');
is(moved((sums_up(0, '', 'verify of the column', 'verify'))[0]), 0, 'counts none');
is(moved((sums_up(0, "same=$all", 'a second import', 'import', 'tree'))[0]), 0, 'moves none');
remove_tree('other');
system('cp', '-a', 'tree', 'other');
write_file('other/many/5', 'changed');
write_file('other/many/6', 'x' x length $tree{'many/6'});
unlink 'other/many/7';
write_file('other/more', 'more');
($out, $err) = sums_up(1, 'same=' . ($all - 3) . ' failed=4', 'verify --against a tree that differs', 'verify', '--against', 'other');
like($err, qr/^securefile: $_->[0]: $_->[1]/m, "$_->[0]: $_->[1]")
  for (['many/5', 'differs: 185 bytes are stored, the file has 7'], ['many/6', 'differs$'],
	['many/7', 'could not open the file: No such file'], ['more', 'is not stored']);

# damage: some bytes of a value in the data files, and of the copies that were freed
my $damaged = 0;
foreach my $file (data_files($node))
{
	my $content = slurp_file($file);
	my $at = -1;
	open(my $fh, '+<:raw', $file) or die "could not open $file: $!";
	while (($at = index $content, substr($tree{'sizes/131072'}, 1000, 3000), $at + 1) >= 0)
	{
		seek($fh, $at, 0);
		print $fh "\x00\x01\x02\x03";
		$damaged++;
	}
	close $fh;
}
cmp_ok($damaged, '>', 0, 'a value is damaged');
ends(1, qr/^securefile: sizes\/131072: checksum mismatch/m, 'verify finds it', 'verify', '-t', 'docs');
ends(1, qr/^securefile: sizes\/131072: /m, 'so does verify of the name', 'verify', '-t', 'docs', 'sizes/131072', 'sizes/131071');
sums_up(1, 'same=' . ($all - 1) . ' failed=2', 'and --against', 'verify', '--against', 'tree');
remove_tree('out');
($out, $err) = sums_up(1, 'got=' . ($all - 1) . ' failed=1', 'export does the others', 'export', 'out');
is(join(' ', map { "$_->{name} $_->{sqlstate}" } grep { ($_->{action} // '') eq 'failed' } objects($out)),
	'sizes/131072 XX001', 'JSON has the SQLSTATE');
ok(!-e 'out/sizes/131072' && temporaries('out') == 0, 'and leaves nothing of it');
ends(1, qr/^securefile: sizes\/131072: /, 'get of it', 'get', '-t', 'docs', 'sizes/131072', 'damaged');
ok(!-e 'damaged' && temporaries('.') == 0, 'leaves nothing');
sums_up(1, 'same=' . ($all - 1) . ' failed=1', 'an import cannot tell whether it is the same', 'import', 'tree');
ends(0, qr/^removed/, 'it can be removed', 'rm', '-v', '-t', 'docs', 'sizes/131072');
sums_up(0, 'put=1 same=' . ($all - 1), 'and stored again', 'import', 'tree');
sums_up(0, "same=$all", 'all is well', 'verify', '--against', 'tree');
sound($node, 'docs', 'in the end', column => 'document');

done_testing();
