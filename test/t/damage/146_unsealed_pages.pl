# Pages that say what cannot be, and have no checksum that would tell: whoever meets one
# says so, in reads, writes, deletions and VACUUM; securefile_check() has a finding;
# securefile_repair() mends what the rows tell.  No assertion fails, no byte is wrong.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run;
use SecurefilePages;
use SecurefileTest;
use Test::More;

use constant {
	INODE_STAMP => CONTENT + 8,
	INODE_FIRST_UNIT => CONTENT + 16,
	INODE_LEVEL => CONTENT + 24,
	INODE_ENTRIES => CONTENT + 26,
	ENTRIES => CONTENT + 32
};

my $node = new_cluster('unsealed', conf => [ 'securefile.monitor = off', 'autovacuum = off' ]);

# Bytes at an offset of the header page, or of the last leaf or the root of row 2 or 3.
# Row 2 has a leaf of four units, the second is a hole; row 3 has a root and two leaves.
my @cases = (
	[ 'a leaf with too few entries', 2, INODE_ENTRIES, pack('v', 3) ],
	[ 'a leaf with one entry', 2, INODE_ENTRIES, pack('v', 1) ],
	[ 'a root with too few entries', 3, INODE_ENTRIES, pack('v', 1) ],
	[ 'a leaf of another place', 2, INODE_FIRST_UNIT, pack('Q<', 338) ],
	[ 'a root of another level', 3, INODE_LEVEL, pack('v', 2) ],
	[ 'an inode page without a stamp', 2, INODE_STAMP, pack('Q<', 0) ],
	[ 'an inode page with an impossible stamp', 2, INODE_STAMP, pack('Q<', 2**63) ],
	[ 'a unit that is too short', 2, ENTRIES + 16, pack('V', 512) ],
	[ 'a unit that is a byte too short', 2, ENTRIES + 16, pack('V', 131071) ],
	[ 'a last unit that is too long', 2, ENTRIES + 3 * 24 + 16, pack('V', 131072) ],
	[ 'a unit that became a hole', 2, ENTRIES, "\xff" x 8 ],
	[ 'a unit with an unknown codec', 2, ENTRIES + 20, pack('V', 9) ],
	[ 'a pointer to no page', 3, ENTRIES + 16 + 8, pack('V', NONE) ],
	[ 'a pointer to a map page', 3, ENTRIES + 16 + 8, pack('V', 9) ],
	[ 'a pointer to the header page', 3, ENTRIES + 16 + 8, pack('V', 0) ],
	[ 'a pointer without a stamp', 3, ENTRIES, pack('Q<', 0) ],
	[ 'next object 0', 0, CONTENT + 16, pack('Q<', 0) ],
	[ 'next object 2^64-2', 0, CONTENT + 16, "\xfe" . "\xff" x 7 ],
	[ 'next stamp 0', 0, CONTENT + 64, pack('Q<', 0) ],
	[ 'next stamp 2^64-1', 0, CONTENT + 64, "\xff" x 8 ],
	[ 'an unknown flag', 0, CONTENT + 46, pack('v', 4) ],
	[ 'the last flag', 0, CONTENT + 46, pack('v', 0x8000) ],
	[ 'next page 2^31', 'ahead', CONTENT + 60, pack('V', 2**31) ],
	[ 'next page 2^32-2', 'ahead', CONTENT + 60, pack('V', NONE - 1) ],
	[ 'next page 200000', 'ahead', CONTENT + 60, pack('V', 200_000) ],
	[ 'the end at 2^36', 'ahead', CONTENT + 24, pack('Q<', 2**36) ],
	[ 'the end at 2^34', 'ahead', CONTENT + 24, pack('Q<', 2**34) ]);
my @tables = map { { name => "t$_", what => $cases[$_][0], victim => $cases[$_][1], at => $cases[$_][2], bytes => $cases[$_][3] } } 0 .. $#cases;

# ---- values, and damage ----
$node->safe_psql(
	'postgres', q{
	-- pieces of 100000 bytes at places of a new value
	CREATE FUNCTION pieces(table_name regclass, places bigint[]) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		h int := securefile_create(table_name, 'doc');
	BEGIN
		FOR i IN 1 .. cardinality(places) LOOP
			PERFORM securefile_seek(h, places[i], 0);
			PERFORM securefile_write(h, blob(i, 100000));
		END LOOP;
		RETURN securefile_finish(h);
	END $$;
	CREATE FUNCTION write_at(value securefile, at bigint) RETURNS securefile LANGUAGE plpgsql AS $$
	DECLARE
		h int := securefile_open(value, 'rw');
	BEGIN
		PERFORM securefile_seek(h, at, 0);
		PERFORM securefile_write(h, 'abc');
		RETURN securefile_finish(h);
	END $$});
my $small = 'ARRAY[0, 300000]';
my $large = 'ARRAY[0, 44302336]';
$node->safe_psql('postgres', join('', map { "CREATE TABLE $_->{name} (id int PRIMARY KEY, seed int, len int, doc securefile);" } @tables));
foreach my $t (@tables)
{
	$node->safe_psql('postgres', "INSERT INTO $t->{name} VALUES (1, 1, 300000, blob(1, 300000));
		INSERT INTO $t->{name} VALUES (2, -1, 0, pieces('$t->{name}', $small)), (3, -1, 0, pieces('$t->{name}', $large));
		INSERT INTO $t->{name} VALUES (4, 4, 50000, blob(4, 50000)), (5, 5, 50000, blob(5, 50000))");
	$t->{segment} = segment_of($node, $t->{name});
}
my $whole = $node->safe_psql('postgres', "SELECT id, securefile_digest(doc, 'md5') FROM t0 WHERE id IN (2, 3) ORDER BY id");

# The page that a case is about: the header page, the leaf of row 2, the root of row 3.
sub page_to_change
{
	my ($t, $all) = @_;
	return 0 if $t->{victim} !~ /[23]/;
	my @inodes = sort { unpack('Q<', substr($all, $a * PAGE + INODE_STAMP, 8)) <=> unpack('Q<', substr($all, $b * PAGE + INODE_STAMP, 8)) } pages_of($all, PAGE_INODE);
	die "$t->{name}: @inodes" if @inodes != 4;
	return $inodes[ $t->{victim} == 2 ? 0 : 3 ];
}

$node->stop;
foreach my $t (@tables)
{
	my $all = slurp($t->{segment});
	$t->{page} = page_to_change($t, $all);
	$t->{was} = page_of($all, $t->{page});
	change($t->{segment}, $t->{page}, $t->{at}, $t->{bytes});
}
$node->start;

# ---- statements ----
# Each in a session's transaction of its own; what it printed, and its SQLSTATE.
sub run_all
{
	my ($t, @statements) = @_;
	my $script = "\\set VERBOSITY verbose\n" . join('', map { "$_;\n\\echo SQLSTATE :SQLSTATE\n" } @statements);
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XqAt', '-f', '-', $node->connstr('postgres') ], '<', \$script, '>', \$out, '2>', \$err);
	my @results = $out =~ /(.*?)SQLSTATE (\w*)\n/gs;
	my @pairs;
	push @pairs, [ splice(@results, 0, 2) ] while @results;
	# psql of 18 forgets that of a COPY TO that fails on its way
	my %said = $err =~ /^psql:<stdin>:(\d+): ERROR:  (\w+):/gm;
	$pairs[$_][1] ||= $said{ 2 + 2 * $_ } || '' foreach 0 .. $#pairs;
	is(scalar(@pairs), scalar(@statements), "$t->{what}: no lost connection") or diag($err);
	return (\@pairs, $err);
}

# Other rows are right, whatever is wrong with one.
sub others_right
{
	my ($t, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @other = grep { !/^\Q$t->{victim}\E\|/ } split(/\n/, $whole);
	is($node->safe_psql('postgres', "SELECT count(*) FROM $t->{name} WHERE seed > 0 AND doc::bytea = blob(seed, len);
		SELECT id, securefile_digest(doc, 'md5') FROM $t->{name} WHERE seed < 0 AND id::text <> '$t->{victim}' ORDER BY id"),
		join("\n", 3, @other), "$t->{what}: $name");
	return;
}

# No value is damaged any more, and space and pages are those of the rows.
sub all_sound
{
	my ($t, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	others_right($t, $name);
	return is($node->safe_psql('postgres', "SELECT securefile_maintain('$t->{name}', 'doc') IS NULL; SELECT * FROM securefile_check('$t->{name}', 'doc')"), 'f', "$t->{what}: $name, sound");
}

sub codes { return join(' ', map { $_->[1] } @{ $_[0] }); }

my $of_row = "FROM %1\$s WHERE id = %2\$d";
my $tree = "INSERT INTO %1\$s SELECT 6, -1, 0, pieces('%1\$s', $small)";
my $check = "SELECT finding, ctid, detail FROM securefile_check('%1\$s', 'doc')";
my $repair = "SELECT action, finding, ctid FROM securefile_repair('%1\$s', 'doc', false)";

# ---- a value whose unit map is damaged ----
foreach my $t (grep { $_->{victim} =~ /[23]/ } @tables)
{
	my $end = $t->{victim} == 2 ? 400_000 : 44_402_336;
	my @refused = map { sprintf($_, $t->{name}, $t->{victim}) } (
		"SELECT md5(doc::bytea) $of_row", "SELECT securefile_digest(doc, 'md5') $of_row", "COPY (SELECT doc $of_row) TO STDOUT",
		"UPDATE %1\$s SET doc = doc || 'x'::bytea::securefile WHERE id = %2\$d", "UPDATE %1\$s SET doc = write_at(doc, 5) WHERE id = %2\$d",
		"UPDATE %1\$s SET doc = write_at(doc, $end) WHERE id = %2\$d", "UPDATE %1\$s SET doc = write_at(doc, 40000000000) WHERE id = %2\$d",
		"UPDATE %1\$s SET doc = securefile_truncate(doc, $end - 10) WHERE id = %2\$d",
		"INSERT INTO %1\$s SELECT 7, -1, 0, doc || 'x'::bytea::securefile $of_row", "INSERT INTO %1\$s SELECT 7, -1, 0, doc $of_row");
	# what is left has no holes, and its map goes into the row
	push @refused, sprintf('UPDATE %1$s SET doc = securefile_truncate(doc, 131072) WHERE id = 2', $t->{name}) if $t->{what} =~ /^a unit/;
	my ($results, $err) = run_all($t, @refused);
	my @bad = map { $results->[$_][1] eq 'XX001' ? () : "$results->[$_][1] $refused[$_]" } 0 .. $#refused;
	is("@bad", '', "$t->{what}: is refused") or diag($err);
	unlike($err, qr/checksum/, "$t->{what}: before any data are read");
	is($node->safe_psql('postgres', "SELECT length(doc) = $end FROM $t->{name} WHERE id = $t->{victim}"), 't', "$t->{what}: its length is known");
	others_right($t, 'other rows');

	my $tid = $node->safe_psql('postgres', "SELECT ctid FROM $t->{name} WHERE id = $t->{victim}");
	($results, $err) = run_all($t, map { sprintf($_, $t->{name}) } $check, $repair);
	is(codes($results), '00000 00000', "$t->{what}: check and repair do not fail") or diag($err);
	like($results->[0][0], qr/^unreadable\|\Q$tid\E\|.*is damaged: /m, "$t->{what}: check");
	like($results->[1][0], qr/^none\|unreadable\|\Q$tid\E$/m, "$t->{what}: nothing mends it");
	unlike($results->[1][0], qr/^set free/m, "$t->{what}: nothing is freed");
	others_right($t, 'after a repair');

	($results, $err) = run_all($t, map { sprintf($_, $t->{name}, $t->{victim}) } "DELETE $of_row", 'VACUUM %1$s', $repair, $tree);
	is(codes($results), '00000 00000 00000 00000', "$t->{what}: deletion, VACUUM, repair") or diag($err);
	like($err, qr/^(?:psql\S* )?WARNING: .*space of a damaged value .* is not given back/m, "$t->{what}: which leaves its space");
	$node->safe_psql('postgres', "DELETE FROM $t->{name} WHERE id = 6");
	all_sound($t, 'without the row');
}

# ---- a header that cannot be ----
my @headers = grep { $_->{victim} eq '0' } @tables;
foreach my $t (@headers)
{
	my @refused = map { sprintf($_, $t->{name}, 2) } (
		"SELECT md5(doc::bytea) $of_row", "SELECT length(doc) $of_row", "UPDATE %1\$s SET doc = doc || 'x'::bytea::securefile WHERE id = %2\$d",
		"UPDATE %1\$s SET doc = write_at(doc, 5) WHERE id = %2\$d", 'INSERT INTO %1$s VALUES (7, 7, 50000, blob(7, 50000))', $tree, "SELECT securefile_usage('%1\$s', 'doc')");
	my ($results, $err) = run_all($t, @refused);
	my @bad = map { $results->[$_][1] eq 'XX001' ? () : "$results->[$_][1] $refused[$_]" } 0 .. $#refused;
	is("@bad", '', "$t->{what}: is refused") or diag($err);
	($results, $err) = run_all($t, map { sprintf($_, $t->{name}, 4) } "DELETE $of_row", 'VACUUM %1$s', $check, $repair);
	like(codes($results), qr/^(00000|XX001) (00000|XX001) 00000 00000$/, "$t->{what}: deletion, VACUUM, check, repair") or diag($err);
	$t->{deleted} = $results->[0][1] eq '00000';
	like($results->[2][0], qr/^unreadable\|\|page 0 of segment relation .* is damaged: The segment header has /m, "$t->{what}: check");
	like($results->[3][0], qr/^none\|unreadable\|$/m, "$t->{what}: nothing mends it");
}
$node->stop;
patch($_->{segment}, 0, $_->{was}) foreach @headers;
$node->start;
foreach my $t (@headers)
{
	$node->safe_psql('postgres', "INSERT INTO $t->{name} VALUES (4, 4, 50000, blob(4, 50000))") if $t->{deleted};
	all_sound($t, 'the header as it was');
}

# ---- a header that asks for more pages than anybody has ----
foreach my $t (grep { $_->{victim} eq 'ahead' } @tables)
{
	others_right($t, 'is read');
	fails_with($node, sprintf($tree, $t->{name}), 'XX001', 'page \d+ of segment relation .* is damaged.*The relation has \d+ pages', "$t->{what}: no page is taken")
	  if $t->{what} =~ /^next/;
	my ($results, $err) = run_all($t, map { sprintf($_, $t->{name}) } 'VACUUM %1$s', $check, $repair, $tree);
	is(codes($results), '00000 00000 00000 00000', "$t->{what}: VACUUM, check, repair") or diag($err);
	like($results->[1][0], qr/^segment relation too short\|\|page 0 takes (?:page \d+ for the next|sector \d+ for the end), the relation has \d+ pages$/m, "$t->{what}: check");
	like($results->[2][0], qr/^correct\|segment relation too short\|$/m, "$t->{what}: repair");
	cmp_ok(-s $t->{segment}, '<', 100 * PAGE, "$t->{what}: the relation does not grow up to there");
	$node->safe_psql('postgres', "DELETE FROM $t->{name} WHERE id = 6");
	all_sound($t, 'repaired');
}

# ---- both: pages that a value may have lost are not given to another ----
my $both = $tables[0];
$node->safe_psql('postgres', sprintf($tree, $both->{name}));
$node->stop;
my $all = slurp($both->{segment});
change($both->{segment}, 0, CONTENT + 60, pack('V', 2**31));
change($both->{segment}, $_, INODE_ENTRIES, pack('v', 1)) foreach grep { substr($all, $_ * PAGE + INODE_LEVEL, 3) eq "\0\0\4" } pages_of($all, PAGE_INODE);
$node->start;
my ($results, $err) = run_all($both, map { sprintf($_, $both->{name}, 6) } $repair, "DELETE $of_row", $repair, $tree);
is(codes($results), '00000 00000 00000 00000', 'both: repair, deletion, repair') or diag($err);
like($results->[0][0], qr/^none\|segment relation too short\|$/m, 'both: nothing is done about the header');
like($results->[2][0], qr/^correct\|segment relation too short\|$/m, 'both: without the row it is mended');
$node->safe_psql('postgres', "DELETE FROM $both->{name} WHERE id = 6");
all_sound($both, 'with both');

# ---- an old header, sound in itself: the files are not cut where it says that they end ----
make_table($node, 'old');
$node->safe_psql('postgres', 'INSERT INTO old VALUES (1, 1, 10000, blob(1, 10000))');
my $old = segment_of($node, 'old');
$node->stop;
my $header = substr(slurp($old), 0, PAGE);
$node->start;
$node->safe_psql('postgres', 'INSERT INTO old SELECT i, i, 3000000, blob(i, 3000000) FROM generate_series(2, 6) i');
$node->stop;
patch($old, 0, $header);
my $size = data_bytes($node);
$node->start;
fails_with($node, "SELECT securefile_maintain('old', 'doc')", 'XX001', 'there are sectors in use behind', 'an old header: no tail is cut');
is(data_bytes($node), $size, 'an old header: the files stay');
like(repair($node, 'old', 'false'), qr/^correct\|header page behind/m, 'an old header: repair');
is($node->safe_psql('postgres', 'SELECT count(*) FROM old WHERE doc::bytea = blob(id, length(doc)::int)'), 6, 'an old header: all values are right');
$node->safe_psql('postgres', "SELECT securefile_maintain('old', 'doc')");
is($node->safe_psql('postgres', 'SELECT count(*) FROM old WHERE doc::bytea = blob(id, length(doc)::int)'), 6, 'and after maintenance');

unlike(slurp($node->logfile), qr/TRAP: |PANIC|terminated by signal|\bXX000\b/, 'no crash');
$node->stop;
done_testing();
