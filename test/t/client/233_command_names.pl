# The command securefile: names that are reserved, deleted and renamed; columns that become
# null; prefixes.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('command_names');
enter($node);
sql(q{CREATE TABLE docs (name text PRIMARY KEY, document securefile, note text DEFAULT 'none')});
my @docs = ('-t', 'docs');

# ---- --set-null ----
ends(0, qr/^$/, 'put --set-null', \'a', 'put', @docs, '--set-null', 'note', '-', 'a');
ends(0, qr/^$/, 'put --set, empty', \'b', 'put', @docs, '--set', 'note=', '-', 'b');
ends(0, qr/^$/, 'put', \'c', 'put', @docs, '-', 'c');
is(sql(q{SELECT string_agg(COALESCE(note, 'null') || '.', ' ' ORDER BY name) FROM docs}), 'null. . none.', 'null, an empty text, the default');
ends(0, qr/^$/, 'put --replace --set-null', \('c' x 300_000), 'put', @docs, '--replace', '--set-null', 'note', '-', 'c');
is(sql(q{SELECT count(*) FROM docs WHERE note IS NULL AND length(document) IN (1, 300000)}), 2, 'null where it was not, of a stream, too');
ends(1, qr/note2/, 'no such column', \'d', 'put', @docs, '--set-null', 'note2', '-', 'd');

# ---- reserved names ----
my $part = '.securefile-part/9-1.000000001/part';
sql("INSERT INTO docs VALUES ('$part', 'abc'), ('.securefile-partner', 'x')");
write_file("tree/$part", 'abc');
foreach my $case ([ 'get', $part ], [ 'cat', $part ], [ 'stat', $part ], [ 'rm', $part ], [ 'verify', $part ],
	[ 'put', "tree/$part", $part ], [ 'import', 'tree' ], [ 'put', '--replace', "tree/$part", $part ])
{
	my ($verb, @args) = @$case;
	ends(1, qr/names that begin with "\.securefile-part\/" are those of files that are not complete/, "$verb @args", $verb, @docs, @args);
}
ends(2, qr/names that begin with/, "$_ --prefix", $_, @docs, '--prefix', '.securefile-part/', 'tree') foreach qw(import export);
is(sql("SELECT convert_from(document::bytea, 'UTF8') FROM docs WHERE name = '$part'"), 'abc', 'it is as it was');
ends(0, qr/\A +1  \.securefile-partner\n +1  a\n +1  b\n +300000  c\n\z/, 'ls leaves it out', 'ls', @docs);
ends(0, qr/^$/, 'and its name', 'ls', @docs, $part);
ends(0, qr/4 got/, 'export', 'export', @docs, 'out');
ok(!-e 'out/.securefile-part', 'leaves it out');
ends(0, qr/4 same/, 'verify --against, too', 'verify', @docs, '--against', 'out');

# ---- prefixes ----
write_file('dir/a.txt', 'a');
ends(0, qr/^securefile: --prefix adduser has no slash at its end: a\.txt and addusera\.txt belong together$/m, 'import', 'import', @docs, '--prefix', 'adduser', 'dir');
is(sql(q{SELECT count(*) FROM docs WHERE name = 'addusera.txt'}), 1, 'as it said');
ends(0, qr/\A(?!.*no slash).*1 put/s, 'not said of a slash', 'import', @docs, '--prefix', 'adduser/', 'dir');
ends(0, qr/^$/, 'nor with --quiet', 'export', '--quiet', @docs, '--prefix', 'addusera', 'out2');
holds('out2/.txt', 'a', 'what export did');

sound($node, 'docs', 'names', column => 'document');
$node->stop;
done_testing();
