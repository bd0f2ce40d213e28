# securefile dump --delta: which bytes are read, in columns of all kinds; holes; lengths that
# change; tags that are missing, wrong or of another version of the table; damaged objects; a
# server that goes back in time.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $mb = mb(1);
my $unit = 131072;
my $node = new_cluster('dump_delta', conf => [ master_key(), 'wal_recycle = off', 'wal_init_zero = off' ]);
enter($node);

ends(2, qr/--no-verify wants --delta/, '--no-verify alone', 'dump', '-t', 'docs', 'd', '--no-verify');
ends(2, qr/--no-verify wants --delta/, '--no-verify with --verify', 'dump', '-t', 'docs', 'd', '--delta', '--no-verify', '--verify');
ends(2, qr/make no dump/, '--delta with --check', 'dump', '--check', 'd', '--delta');
ends(2, qr/multiple of 131072/, "--granule $_", 'dump', '-t', 'docs', 'd', '--delta', '--granule', $_) foreach 0, 131071, 1073872896;

# Dump a table; the last record, what the server has read, and the messages.
sub dump_of
{
	my ($table, @more) = @_;
	my $read = sql(qq{SELECT sum(direct_read_bytes) FROM securefile_stat WHERE relname = '$table'});
	my ($rc, $out, $err) = command('dump', '-t', $table, 'd', '--json', '--delta', '--delta-from', 1000000, '--granule', $unit, @more);
	my ($record) = grep { exists $_->{dump} } objects($out);
	diag("status $rc: $err") if $rc != 0 || !defined $record;
	# what its sessions have read counts when they have ended
	sessions_are_gone($node, 'postgres');
	return ($record->{reused}, sql(qq{SELECT sum(direct_read_bytes) FROM securefile_stat WHERE relname = '$table'}) - $read, $err);
}

# One test: a dump reuses so many bytes, the server reads no more than so many, and says nothing or
# that.
sub dumps
{
	my ($table, $reused, $read, $name, $like, @more) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($got, $bytes, $err) = dump_of($table, @more);
	my $good = $got == $reused && $bytes <= $read && ($like ? $err =~ $like : $err !~ /all of the file/);
	ok($good, $name) or diag("reused $got, wanted $reused; read $bytes, at most $read: $err");
	return $bytes;
}

sub sha { return sql("SELECT encode(securefile_digest(document), 'hex') FROM $_[0] WHERE id = " . ($_[1] // 1)); }

sub path { return "d/objects/" . substr($_[0], 0, 2) . '/' . substr($_[0], 2); }

sub newest { my @all = sort glob 'd/dumps/*.jsonl'; return $all[-1]; }

# Change some bytes of row 1.
sub change { sql("UPDATE $_[0] SET document = overlay(document PLACING blob($_[2], 10) FROM $_[1]) WHERE id = 1"); return; }

# ---- columns of all kinds ----
my %options = (plain => 'nocache', hash => 'nocache, hash', packed => 'nocache, compress, hash', secret => 'nocache, encrypt, hash', dedup => 'nocache, deduplicate');
my $seed = 20;
foreach my $table (sort keys %options)
{
	# objects of equal contents would be shared
	$seed += 10;
	sql(qq{CREATE TABLE $table (id int PRIMARY KEY, document securefile($options{$table}));
		INSERT INTO $table VALUES (1, blob($seed, 4 * $mb)), (2, blob($seed + 1, 3 * $mb)), (3, blob($seed + 2, 500000)), (4, NULL)});
	my $digest = $table eq 'plain' || $table eq 'dedup' ? 7 * $mb + 600_000 : 0;
	dumps($table, 0, 20 * $mb, "$table: the first dump fetches all");
	ok(-f path(sha($table)) . '.tags', "$table: and keeps the tags");
	dumps($table, 0, $digest, "$table: nothing has changed");
	change($table, 2_000_000, 7);
	dumps($table, 4 * $mb - $unit, $unit * 2 + $digest, "$table: one part is fetched");
	ok(-f path(sha($table)), "$table: the object is there");
}
is((stat path(sha('plain')))[2] & 07777, 0600, 'only the owner can read it');
is((stat path(sha('plain')) . '.tags')[2] & 07777, 0600, 'or its tags');
is(-e path(sha('plain', 3)) . '.tags', undef, 'short files have none');
ends(0, qr/sound/, 'all objects are sound', 'dump', '--check', 'd');

# ---- no kept hash, and none asked for ----
change('plain', 1_000_000, 8);
dumps('plain', 4 * $mb - $unit, $unit + 600_000, '--no-verify: one part is read', undef, '--no-verify');
ok(-f path(sha('plain')), 'the object is there');
dumps('plain', 0, 600_000, '--no-verify: nothing is read', undef, '--no-verify');

# ---- lengths and holes ----
sql("UPDATE hash SET document = document || blob(9, 1000) WHERE id = 1");
dumps('hash', 4 * $mb, $unit, 'an append');
sql("UPDATE hash SET document = securefile_truncate(document, $mb * 2 + 5) WHERE id = 1");
dumps('hash', 2 * $mb, $unit, 'a truncation');
sql("UPDATE hash SET document = securefile_truncate(securefile_truncate(document, $mb), 64 * $mb) WHERE id = 1");
dumps('hash', $mb, 0, 'bytes become a long hole');
cmp_ok((stat path(sha('hash')))[12] * 512, '<=', 1.1 * $mb, 'also of the object');
sql("UPDATE hash SET document = overlay(document PLACING 'x'::bytea FROM 50 * $mb) WHERE id = 1");
dumps('hash', $mb, $unit, 'a byte in the hole');
change('hash', 500_000, 10);
dumps('hash', $mb, $unit, 'holes stay holes');
cmp_ok((stat path(sha('hash')))[12] * 512, '<=', 1.3 * $mb, 'of the object, too');
ends(0, qr/sound/, 'all objects are sound', 'dump', '--check', 'd');

# ---- what is kept cannot be relied upon ----
my $before = sha('packed');
my $first = slurp(path($before) . '.tags');

# Dump a version of row 1, with something done to what the last dump has left.
sub dumps_after
{
	my ($do, $reused, $like, $name, @more) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $table = @more ? 'plain' : 'packed';
	my $object = path(sha($table));
	$do->($object);
	change($table, 3_000_000, int rand 1e6);
	dumps($table, $reused, 20 * $mb, $name, $like, @more);
	ok(-f path(sha($table)), "$name: the object is there");
	return;
}

sub flip { my ($path, $at) = @_; my $byte = substr slurp($path), $at, 1; corrupt($path, $at, $byte ^ "\x10"); return; }
sub edit { my ($path, $do) = @_; local $_ = slurp($path); $do->(); write_file($path, $_); return; }

dumps_after(sub { }, 4 * $mb - $unit, undef, 'as it is');
dumps_after(sub { unlink "$_[0].tags" }, 0, undef, 'no tags');
dumps_after(sub { edit("$_[0].tags", sub { s/"securefile_tags":1/"securefile_tags":2/ }) }, 0, qr/all of the file is fetched: .*has no tags/, 'tags in another form');
dumps_after(sub { edit("$_[0].tags", sub { s/"object":"\K(.)/$1 eq '0' ? '1' : '0'/e }) }, 0, qr/has no tags/, 'tags of another object');
dumps_after(sub { write_file("$_[0].tags", "x\0y") }, 0, qr/has no tags/, 'garbage');
dumps_after(sub { edit("$_[0].tags", sub { s/ 01/ 02/g }) }, 0, undef, 'tags of another version');
dumps_after(sub { edit("$_[0].tags", sub { $_ = join "\n", (split /\n/)[0 .. 8], '' }) }, 8 * $unit, undef, 'tags that are cut off');
dumps_after(sub { unlink $_[0] }, 0, qr/all of the file.*missing/, 'no object');
dumps_after(sub { flip($_[0], 100_000) }, 0, qr/all of the file.*do not fit/, 'a damaged object');
unlink path($before);
dumps_after(sub { flip($_[0], 100_000) }, 0, qr/all of the file.*before is damaged/, 'a damaged object, and no hash to compare with', '--no-verify');

# tags that say of an old object that it is the new one
foreach my $table ('packed', 'plain')
{
	$before = sha($table);
	change($table, 2_500_000, 11);
	dump_of($table);
	my $after = sha($table);
	my $tags = slurp(path($after) . '.tags');
	unlink path($after), path($after) . '.tags', newest();
	write_file(path($before) . '.tags', $tags =~ s/\Q$after/$before/r);
	dumps($table, 0, 20 * $mb, "$table: tags that are equal, of other bytes", qr/all of the file.*do not fit/);
	ok(-f path($after), "$table: the object is there");
}

# objects that have no tags
unlink path(sha('packed')) . '.tags';
dumps('packed', 0, 0, 'nothing has changed');
ok(-f path(sha('packed')) . '.tags', 'an object that is there gets its tags');
change('packed', 1_500_000, 17);
dumps('packed', 4 * $mb - $unit, $unit, 'and they are of use');

# what another version of the server may say
sub other_tags
{
	my ($rows) = @_;
	sql(qq{CREATE OR REPLACE FUNCTION securefile_extents(document securefile, granule integer DEFAULT 8388608, OUT start bigint, OUT length bigint, OUT tag bytea)
		RETURNS SETOF record LANGUAGE sql STABLE AS \$\$ $rows \$\$});
	return;
}
my $made = sql(q{SELECT pg_get_functiondef('securefile_extents'::regproc)});
my $parts = "SELECT 1::bigint + i * 131072, 131072::bigint, '\\x%s'::bytea FROM generate_series(0, 31) i";
foreach my $tag ('02' . '00' x 16, '01' . '00' x 15)
{
	other_tags(sprintf $parts, $tag);
	foreach my $n (1, 2)
	{
		change('packed', 1_200_000, 18 + $n);
		dumps('packed', 0, 20 * $mb, "tags of another form, $tag, $n");
	}
}
foreach my $rows ('SELECT 1::bigint, length(document) + 1, NULL::bytea', "($parts LIMIT 2) UNION ALL SELECT 131072, 1000, NULL", 'SELECT 0::bigint, 100::bigint, NULL::bytea',
	'SELECT 1::bigint, 0::bigint, NULL::bytea', 'SELECT 9223372036854775807, 9223372036854775807, NULL::bytea')
{
	other_tags(sprintf $rows, '01' . '00' x 16);
	change('packed', 1_200_000, int rand 1e6);
	dumps('packed', 0, 20 * $mb, "parts that cannot be: $rows", qr/all of the file is fetched: the server sent parts of another form/);
}
other_tags('SELECT 1::bigint, length(document), NULL::bytea');
change('packed', 1_200_000, 30);
dumps('packed', 0, 20 * $mb, 'one part without a tag');
sql($made);
dump_of('packed', '--verify');
ok(-f path(sha($_)), "the object of $_ is there") foreach 'packed', 'plain';

# ---- a server that goes back in time ----
# The same numbers of objects come again, with other bytes.
$node->stop;
my $data = $node->data_dir;
run_log([ 'cp', '-a', $data, "$data.before" ]) or die 'could not copy the cluster';
$node->start;
sql("UPDATE hash SET document = document || blob(12, 200000) || blob(13, 300000) WHERE id = 1");
dump_of('hash');
$node->stop('immediate');
run_log([ 'rm', '-rf', $data ]);
run_log([ 'mv', "$data.before", $data ]) or die 'could not put the cluster back';
$node->start;
sql("UPDATE hash SET document = document || blob(14, 200000) || blob(13, 300000) WHERE id = 1");
my ($got, undef, $said) = dump_of('hash');
cmp_ok($got, '>=', $mb, 'after that parts are taken that are the same');
unlike($said, qr/all of the file/, 'and no others');
ok(-f path(sha('hash')), 'the object is there');

# ---- a role that may not ask for tags ----
sql('REVOKE EXECUTE ON FUNCTION securefile_extents FROM PUBLIC; CREATE ROLE reader LOGIN; GRANT SELECT ON hash TO reader');
change('hash', 600_000, 15);
($got, undef, $said) = dump_of('hash', '-U', 'reader');
like($said, qr/1: all of the file is fetched: permission denied for function securefile_extents/, 'is told');
ok(-f path(sha('hash')), 'and the object is there');

# ---- prune, restore ----
ends(0, qr/files removed/, '--prune', 'dump', '--prune', 'd', '--keep', 1);
ends(0, qr/sound/, 'what is left is sound', 'dump', '--check', 'd');
my %there = map { $_ => 1 } glob 'd/objects/*/*';
is(join(' ', grep { /(.*)\.tags$/ && !$there{$1} } keys %there), '', 'takes tags along');
ok($there{ path(sha($_)) }, "the object of $_ stays") foreach 'packed', 'secret';
ok($there{ path(sha($_)) . '.tags' }, "with its tags, of $_") foreach 'packed', 'secret';
change('secret', 3_000_000, 16);
dumps('secret', 4 * $mb - $unit, $unit * 2, 'and the next dump has use of them');
my $rows = sql('SELECT md5(string_agg(md5(t::text), $$ $$ ORDER BY id)) FROM packed t');
sql('UPDATE packed SET document = NULL');
ends(0, qr/put/, 'restore', 'restore', '-t', 'packed', 'd');
is(sql('SELECT md5(string_agg(md5(t::text), $$ $$ ORDER BY id)) FROM packed t'), $rows, 'all is equal');
is(temporaries('d'), 0, 'no temporary file is left');

$node->stop;
done_testing();
