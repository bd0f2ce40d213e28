# The checks of sources and documents (test/rooms, test/doc, test/calls) name what is wrong:
# violations are planted in a copy of the tree.  No server runs.

use strict;
use warnings;

use File::Temp;
use FindBin;
use Test::More;

my $copy = File::Temp->newdir;
system('sh', '-c', 'tar -C "$0" --exclude=./.git --exclude=./tmp_check --exclude="*.o" --exclude="*.so" --exclude="*.a" -cf - . | tar -C "$1" -xf -',
	"$FindBin::RealBin/../../..", $copy) == 0 or die 'no copy of the sources';
chdir $copy or die $!;

my %untouched;

# Change the text in $_ of a file; a new file begins empty.
sub plant
{
	my ($path, $change) = @_;
	local $/;
	local $_ = '';
	if (open my $in, '<', $path)
	{
		$_ = <$in>;
	}
	$untouched{$path} //= $_;
	my $before = $_;
	$change->();
	die "nothing planted in $path" if $_ eq $before;
	open my $out, '>', $path or die "$path: $!";
	print $out $_;
	close $out or die "$path: $!";
	return;
}

sub append
{
	my ($path, $text) = @_;
	plant($path, sub { $_ .= $text });
	return;
}

# A program names all of these violations, each on a line that matches, and nothing else; then
# they are taken out.  Lines that match the last argument do not count.
sub names
{
	my ($program, $expected, $besides) = @_;
	my @lines = grep { !$besides || !/$besides/ } split /\n/, `$program 2>&1`;
	foreach my $pattern (@$expected)
	{
		my ($found) = grep { $lines[$_] =~ $pattern } 0 .. $#lines;
		ok(defined $found, "$program: $pattern");
		splice @lines, $found, 1 if defined $found;
	}
	is(join("\n", @lines), '', "$program: nothing else");
	foreach my $path (keys %untouched)
	{
		if ($untouched{$path} eq '')
		{
			unlink $path or die "$path: $!";
			next;
		}
		open my $out, '>', $path or die "$path: $!";
		print $out $untouched{$path};
		close $out or die "$path: $!";
	}
	%untouched = ();
	return;
}

names($_, []) foreach 'test/rooms', 'test/doc', 'test/calls';

# ---- test/rooms ----

# the same private header, in every way to write it
foreach my $case ([ 'work.c', '#include "io/io_internal.h"' ], [ 'arena.c', '#include "../io/io_internal.h"' ],
	[ 'gather.c', '#include <io/io_internal.h>' ], [ 'owner.c', '# include "../../src/io/io_internal.h"' ])
{
	my ($file, $include) = @$case;
	plant("src/write/$file", sub { s/^(?=#include ")/$include\n/m });
}
# calls without a header
append('src/write/draft.c', "\nstatic void\ncall_it(void)\n{\n\textern void sfi_io_transfer(void);\n\n\tsfi_io_transfer();\n}\n");
append('src/io/open.c', "\nvoid\t\tsf_write_value(void);\n\nstatic void\ncall_it(void)\n{\n\tsf_write_value();\n}\n");
# names
append('src/read/read.h', "\nvoid\t\tno_extern(int x,\n\t\t\t\t\t  int y);\n");
append('src/object/object.h', "\nstatic inline int\nsfi_inline(int x)\n{\n\treturn x;\n}\n");
append('src/space/pages.h', "\nextern void sf_space_public(void);\n");
append('src/write/lend.c', "/* a name of space */\n");
append('src/space/seal.c', "\nstatic void\nfree_cells_of(void)\n{\n}\n\nstatic int\tknown_depth;\n");
# lengths; a struct and a table may be long
append('client/lib/error.c', "\nvoid\nlong_one(void)\n{\n" . "\tint\t\t\tx;\n" x 71 . "}\n");
append('src/space/space_internal.h', "\ntypedef struct SfLong\n{\n" . "\tint\t\t\tx;\n" x 80 . "}\t\t\tSfLong;\n");
append('src/format/kinds.c', "\nstatic const int table[] =\n{\n" . "\t1,\n" x 80 . "};\n");
# widths; a long string is an exception
append('src/sql/part.c', "\n\terrmsg(\"" . 'x' x 120 . " %d\", number)\n\terrmsg(\"a\", " . 'x' x 110 . ")\n");
# circles: one of two files where one of more is closed, too
append('src/space/seal.c', "\nvoid\nsfi_seal_new(void)\n{\n\tsfi_usage_new();\n}\n");
append('src/space/space_usage.c', "\nvoid\nsfi_usage_new(void)\n{\n\tsfi_seal_new();\n}\n");
# through a header; and in the client library
append('src/format/share.h', "\nstatic inline uint64_t\nsf_share_tag(const SfLocator *loc)\n{\n\treturn sf_format_locator_tag(loc);\n}\n");
append('client/lib/error.c', "\nvoid\npgsfi_circle(pgsf *h)\n{\n\tpgsfi_forget_cancel(h);\n}\n");
# a comment may name what the code may not
append('src/config/config.h', "\n/* sfi_io_transfer() and sf_write_value() */\n");
names(
	'test/rooms',
	[
		(map { qr{^src/write/$_\.c: io/io_internal\.h is private to io$} } qw(work arena gather owner)),
		qr{^src/write/draft\.c: sfi_io_transfer\(\) is private to io$},
		qr{^src/io/open\.c: sf_write_value\(\) is of write, which does not lie below io$},
		qr{^src/read/read\.h: no_extern\(\) has not the prefix},
		qr{^src/object/object\.h: sfi_inline\(\) has not the prefix},
		qr{^src/space/pages\.h: sf_space_public\(\) has not the prefix},
		qr{^src/write/lend\.c: space has a file of that name, too$},
		qr{^src/space/share_records\.c: seal\.c has a static free_cells_of, too$},
		qr{^src/space/seal\.c: advice\.c has a static known_depth, too$},
		qr{^client/lib/error\.c:\d+: a function of 71 lines$},
		qr{^src/sql/part\.c:\d+: 12\d columns$},
		qr{^src/space: a circle of calls: (?=.*seal calls sfi_usage_new\(\) of space_usage\b)(?=.*usage calls \w+\(\) of seal\b)},
		qr{^src/format: a circle of calls: (?=.*locator calls \w+\(\) of share\b)(?=.*share calls sf_format_locator_tag\(\) of locator\b)},
		qr{^client/lib: a circle of calls: (?=.*error calls pgsfi_forget_cancel\(\) of cancel\b)(?=.*cancel calls \w+\(\) of error\b)}
	],
	qr/assertions a function|% of comment/);

# one assertion less in each room, and one more
my @ratchets;
foreach my $room (glob('src/*/'), 'client/lib/')
{
	my ($path) = split /\n/, `grep -lE '^\t+(PG)?SF_ASSERT[(].*;\$' $room*.c`;
	next unless defined $path;
	plant($path, sub { s/^\t+(?:PG)?SF_ASSERT\(.*;\n//m });
	my $name = $room =~ s{/$}{}r;
	push @ratchets, qr{^$name: \d+ assertions, there have been \d+;};
}
cmp_ok(scalar @ratchets, '>', 10, 'rooms with assertions');
append('src/format/used_plane.c', "\nStaticAssertDecl(sizeof(int) == 4, \"an int\");\n");
names('test/rooms', [ @ratchets, qr{^src/format: \d+ assertions: raise the \d+ in RATCHETS} ], qr/assertions a function|% of comment/);

foreach my $subject ('132', 'fixes', 'Fix typos', 'WIP', 'WIP: handles', 'fixup! A commit', 'All is well now.', 'A subject ' x 8)
{
	isnt(`test/rooms subject '$subject'`, '', "not a subject: $subject");
}
foreach my $subject ('Test 132 breaks each numbered invariant', 'ddl/replaced.c looks new storage up in one way', 'Fixed: a lost entry',
	'Version 1.0')
{
	is(`test/rooms subject '$subject'`, '', "a subject: $subject");
}

# ---- test/doc ----

append('README.md', <<'END');

[with a title](doc/none1.md "a title"), [by label][one], [by no label][two], <a href="doc/none3.md">HTML</a>,
[plain](doc/none4.md), [a section](doc/testing.md#none5), `a[0](x)` and `a[i][j]` in code, and
[a page](https://example.org/none).

[one]: doc/none2.md
END
append('doc/operations.md', "\n    SELECT securefile_none1(document);\n\nCall `securefile_none2`.\n");
append('doc/testing.md', "\nSee 199_none, `sf_none_call()`, `SF_NONE`, `SfNone` and `sfi_none_call(true)`.\n");
append('doc/architecture.md', "\nSee `none_called(x)`.\n");
plant('doc/architecture.md', sub { s/L1 to L5/L1 to L9/ });
append('src/write/work.c', "\n/* sfi_none_comment and none_comment(), opendir() and palloc0() */\n\tSF_INVARIANT(Z1, true);\n");
append('src/write/nonsense.c', "/* in no map */\n");
plant('doc/proof.md', sub { s/^(- `129_build`.*?\n)(?=- |\n)//ms; my $build = $1; s/^(?=- `120_core)/$build/m });
append("test/t/$_", "# in no list\n") foreach ('tools/198_none.pl', '199_nowhere.pl');
mkdir 'test/t/none' or die $!;
names(
	'test/doc',
	[
		qr{^README\.md: no doc/none1\.md$}, qr{^README\.md: no doc/none2\.md$},
		qr{^README\.md: no link \[two\]$}, qr{^README\.md: no doc/none3\.md$},
		qr{^README\.md: no doc/none4\.md$}, qr{^README\.md: no section #none5 in doc/testing\.md$},
		qr{^no SQL function securefile_none1: doc/operations\.md}, qr{^no SQL function securefile_none2: doc/operations\.md},
		qr{^no test 199_none: doc/testing\.md}, (map { qr{^no name in src or client $_: doc/testing\.md} } qw(sf_none_call sfi_none_call SF_NONE SfNone)),
		qr{^no function none_called: doc/architecture\.md}, qr{^section 12 .* has L1 .* L9, src/write/ledger\.c has L1 .* L5$},
		qr{^src/write/work\.c asserts Z1,}, qr{^src/write/work\.c: a comment names sfi_none_comment,},
		qr{^src/write/work\.c: a comment names none_comment,}, qr{^src/write/nonsense\.c stands in no map},
		qr{^doc/proof\.md does not say what test/t/tools/198_none\.pl proves}, qr{^several files of test/t have number 198$},
		qr{^test/t/199_nowhere\.pl lies in no area}, qr{^doc/testing\.md does not list the area none$},
		qr{^doc/proof\.md has 129_build below core,}
	]);

# ---- test/calls ----

append('src/io/files.c', "\nvoid\nsfi_files_new(const char *path)\n{\n\tunlink(path);\n}\n");
names('test/calls', [qr{^src/io/files\.c: unlink\(\) in sfi_files_new\(\) has no fault point before it$}]);

chdir '/';
done_testing();
