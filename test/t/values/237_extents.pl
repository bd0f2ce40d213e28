# securefile_extents(): equal tags mean equal bytes, and a change of some units changes the tags of
# their parts and no others: in columns of all options, with holes, after object ids were used
# twice, and after what only moves data.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('extents', init => { allows_streaming => 1 }, conf => [ master_key(), "allow_in_place_tablespaces = on" ]);
my $unit = 131072;
my $granule = 2 * $unit;
my $length = 12 * $granule - 100;

# The bytes that a tag has stood for at its place; and how often it was other ones.
my %bytes;
my $other_bytes = 0;

# The tags of a value by the numbers of their parts, counted from 0, and their lengths.
sub tags
{
	my ($from, %params) = @_;
	my ($table, $where) = split / (?=WHERE)/, $from;
	my $size = $params{granule} || $granule;
	my %tags;
	foreach my $row (split /\n/, ($params{in} || $node)->safe_psql('postgres', ($params{before} || '') . "SELECT start, e.length, tag, md5(substring(doc, start, e.length)) FROM $table, securefile_extents(doc, $size) e " . ($where // '')))
	{
		my ($start, $len, $tag, $md5) = split /\|/, $row;
		$other_bytes++ if ($bytes{"$start $len $tag"} //= $md5) ne $md5;
		$tags{ ($start - 1) / $size . ":$len" } = $tag;
	}
	return \%tags;
}

# Parts of which one has a tag that the other has not, in order.
sub changed
{
	my ($one, $other) = @_;
	my %all = (%$one, %$other);
	my %numbers = map { (split /:/)[0] => 1 } grep { ($one->{$_} // '') ne ($other->{$_} // '') } keys %all;
	return join ' ', sort { $a <=> $b } keys %numbers;
}

# ---- what has no parts, and what is no granule ----

make_table($node, 'plain');
sql("INSERT INTO plain VALUES (1, 1, $length, blob(1, $length)), (2, 2, 0, ''), (3, 3, 100, blob(3, 100)), (4, 4, 100, NULL)");
is(sql('SELECT id, e.* FROM plain, securefile_extents(doc) e WHERE id > 1'), '3|1|100|', 'a value in its row has no tag, the empty one and NULL no parts');
fails_with($node, "SELECT * FROM plain, securefile_extents(doc, $_)", '22023', 'granule must be a multiple of 131072 bytes', "granule $_") foreach 0, -131072, 131071, 1073872896 - 1, 131072 + 4096;
is(sql('SELECT count(*) FROM plain, securefile_extents(doc, 1073741824) WHERE id = 1'), 1, 'the largest granule');
is(sql("SELECT min(start), max(start + e.length - 1), count(*), bool_and(get_byte(tag, 0) = 1 AND octet_length(tag) = 17) FROM plain, securefile_extents(doc, $granule) e WHERE id = 1"),
	"1|$length|12|t", 'all of a value, and the version of its tags');
is(sql("SELECT count(*), count(DISTINCT tag) FROM plain, securefile_extents(doc || doc, 131072) WHERE id = 1"), '1|0', 'an edited value has no tags');
fails_with($node, q{SELECT * FROM securefile_extents('\securefile-unfilled:1:5000000:')}, '55000', 'not restored', 'nor has one that is not there');

# ---- edits ----

my %options = (plain => '', packed => 'compress_high', secret => 'encrypt', sealed => 'encrypt, compress_low, hash', shared => 'deduplicate, hash', loose => 'filesystem_like_logging');
foreach my $t (grep { $_ ne 'plain' } sort keys %options)
{
	make_table($node, $t, $options{$t});
	sql("INSERT INTO $t SELECT id, seed, len, doc::bytea FROM plain WHERE id = 1");
}
foreach my $t (sort keys %options)
{
	my $first = tags("$t WHERE id = 1");
	is(join(' ', scalar(keys %$first), scalar(keys %{ { map { $_ => 1 } values %$first } })), '12 12', "$t: a tag for each part, no two alike");
	my $at = 5 * $granule + 300;
	my $in_transaction = tags("$t WHERE id = 1", before => "BEGIN; UPDATE $t SET doc = overlay(doc placing 'edited'::bytea FROM $at); ");
	is(changed($first, $in_transaction), '5', "$t: an edit of a unit changes the tag of its part, in the transaction");
	is(changed($first, tags("$t WHERE id = 1")), '', "$t: and none when it is rolled back");
	sql("UPDATE $t SET doc = overlay(doc placing 'edited'::bytea FROM $at) WHERE id = 1");
	my $edited = tags("$t WHERE id = 1");
	is(changed($first, $edited), '5', "$t: committed");
	my $edge = 3 * $granule - 2;
	sql("UPDATE $t SET doc = overlay(doc placing 'edited'::bytea FROM $edge) WHERE id = 1");
	is(changed($edited, tags("$t WHERE id = 1")), '2 3', "$t: over an edge");
	my $whole = tags("$t WHERE id = 1");
	sql("UPDATE $t SET doc = doc || 'more'::bytea WHERE id = 1");
	is(changed($whole, tags("$t WHERE id = 1")), '11', "$t: appended to");
	sql("UPDATE $t SET doc = securefile_truncate(doc, 4 * $granule + 5) WHERE id = 1");
	is(changed($whole, tags("$t WHERE id = 1")), '4 5 6 7 8 9 10 11', "$t: cut");
	is(join(' ', sort { $a <=> $b } map { (split /:/)[1] } keys %{ tags("$t WHERE id = 1") }), "5 $granule $granule $granule $granule", "$t: the last part is shorter");
}

# ---- the same content twice ----

sql("INSERT INTO $_ SELECT 10 + i, 7, $length, blob(7, $length) FROM generate_series(1, 2) i") foreach 'shared', 'plain';
is(changed(tags('shared WHERE id = 11'), tags('shared WHERE id = 12')), '', 'values that share their data have the same tags');
is(scalar(split / /, changed(tags('plain WHERE id = 11'), tags('plain WHERE id = 12'))), 12, 'those that do not have others');
is(scalar(split / /, changed(tags('plain WHERE id = 11'), tags('shared WHERE id = 11'))), 12, 'so have those of another column');
sql("UPDATE shared SET doc = overlay(doc placing 'x'::bytea FROM $granule + 1) WHERE id = 12");
is(changed(tags('shared WHERE id = 11'), tags('shared WHERE id = 12')), '1', 'a changed version of a shared value');

# ---- holes ----

sql(q{CREATE TABLE holes (id int, doc securefile)}, q{DO $$ DECLARE fd int := securefile_create('holes', 'doc'); BEGIN
	PERFORM securefile_write(fd, 'begin'); PERFORM securefile_seek(fd, 1000000000000, 0); PERFORM securefile_write(fd, 'end');
	INSERT INTO holes VALUES (1, securefile_finish(fd)); END $$});
my $sparse = tags('holes', granule => 8388608);
is(scalar(keys %$sparse), 2, 'parts that are one hole are not listed');
sql(q{DO $$ DECLARE fd int := securefile_open(doc, 'rw') FROM holes; BEGIN
	PERFORM securefile_seek(fd, 300000, 0); PERFORM securefile_write(fd, 'x'); PERFORM securefile_seek(fd, 8388608 * 7 + 140000, 0); PERFORM securefile_write(fd, 'y');
	UPDATE holes SET doc = securefile_finish(fd); END $$});
is(changed($sparse, tags('holes', granule => 8388608)), '0 7', 'a hole that is filled');

# ---- who may, and what is read ----

sql('CREATE ROLE one', 'GRANT SELECT (doc) ON plain TO one');
my $before = sql(q{SELECT direct_read_bytes FROM securefile_stat WHERE relname = 'plain'});
is(sql('SET ROLE one; SELECT count(tag) FROM plain, securefile_extents(doc)'), sql('SELECT count(tag) FROM plain, securefile_extents(doc)'), 'SELECT on the column suffices');
is(sql(q{SELECT direct_read_bytes FROM securefile_stat WHERE relname = 'plain'}), $before, 'no data was read');

# ---- what only moves data ----

sql("CREATE TABLESPACE place LOCATION ''");
foreach my $t ('plain', 'sealed', 'shared')
{
	my $tags = tags("$t WHERE id IN (1, 11)");
	sql("VACUUM FULL $t", "SELECT securefile_set_tablespace('$t', 'doc', 'place')", "SELECT securefile_maintain('$t', 'doc')");
	is(changed($tags, tags("$t WHERE id IN (1, 11)")), '', "$t: moved to another tablespace");
	sql("ALTER TABLE $t ALTER doc TYPE securefile", "ALTER TABLE $t ALTER doc TYPE securefile" . ($options{$t} ? "($options{$t})" : ''));
	is(changed($tags, tags("$t WHERE id IN (1, 11)")), '', "$t: other options, and back");
}

# ---- object ids that come again ----

# Two clusters of one origin give the same ids to other contents, as one does after a recovery to a
# time before.
sql("SELECT securefile_set_tablespace('$_', 'doc', 'pg_default')", ) foreach 'plain', 'sealed', 'shared';
sql('DROP TABLESPACE place', 'CREATE TABLE again (id int, doc securefile)', 'CREATE TABLE again_packed (id int, doc securefile(compress_medium))', 'CREATE TABLE again_secret (id int, doc securefile(encrypt))',
	(map { "INSERT INTO $_ VALUES (0, blob(0, $length))" } 'again', 'again_packed', 'again_secret'), 'CHECKPOINT');
$node->backup('origin');
my $other = PostgreSQL::Test::Cluster->new('extents_again');
$other->init_from_backup($node, 'origin');
$other->start;
foreach my $t ('again', 'again_packed', 'again_secret')
{
	$_->safe_psql('postgres', "INSERT INTO $t VALUES (1, blob(1, $length))") foreach $node, $other;
	$node->safe_psql('postgres', "INSERT INTO $t VALUES (2, blob(2, $length))");
	$other->safe_psql('postgres', "INSERT INTO $t VALUES (2, blob(3, $length))");
	is(changed(tags("$t WHERE id = 0"), tags("$t WHERE id = 0", in => $other)), '', "$t: a value from before");
	is(changed(tags("$t WHERE id = 1"), tags("$t WHERE id = 1", in => $other)), '', "$t: the same content, and the same id") if $t ne 'again_secret';
	is(scalar(split / /, changed(tags("$t WHERE id = 2"), tags("$t WHERE id = 2", in => $other))), 12, "$t: other contents under the same id");
}
# new storage has a new secret
my $old = tags('again WHERE id = 1');
sql('TRUNCATE again', "INSERT INTO again SELECT i, blob(i, $length) FROM generate_series(0, 1) i");
is(scalar(split / /, changed($old, tags('again WHERE id = 1'))), 12, 'other storage, the same content and the same id');
is($other_bytes, 0, scalar(keys %bytes) . ' tags: each one stood for the same bytes always');
$other->stop;
$node->stop;
done_testing();
