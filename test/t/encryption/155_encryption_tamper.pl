# Somebody who can write all files of the server, and has no key: units, maps, locators, keys
# and values in rows are exchanged, cut, put back, and all checksums, seals and hashes made
# right.  Each read of what was changed is refused, in every way of reading, before a byte of
# it is believed; all else is read.  Lost key pages, wrong and missing master keys.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileForge;
use SecurefilePages;
use SecurefileTest;
use Test::More;

# places in the header page, and in an entry of a key page
use constant {
	SECRET => CONTENT + 80,
	KEY_PAGE => CONTENT + 96,
	KEYS => CONTENT + 16,
	KEY => 128
};

my $dir = PostgreSQL::Test::Utils::tempdir();
my %master = (one => '1a' x 32, two => '2b' x 32, three => '3c' x 32);

# What the key command prints: names, or a name with the bytes of another key.
sub key_file
{
	return write_file("$dir/keys", join '', map { /(\w+)=(\w+)/ ? "$1 $master{$2}\n" : "$_ $master{$_}\n" } @_);
}

key_file('one');
chmod 0644, "$dir/keys";
my $node = new_cluster('tamper', init => { allows_streaming => 1 }, conf => [ 'securefile.monitor = off', "securefile.key_command = 'cat $dir/keys'", 'restart_after_crash = on' ]);
make_raw_type($node);

# seen: what becomes of reading a value in some way: right, WRONG, or the error.
sql(q{CREATE FUNCTION seen(doc securefile, seed int, len int, way text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		want bytea := blob(seed, len);
		fd int;
		got bytea := '';
		message text;
		detail text;
	BEGIN
		CASE way
		WHEN 'cast' THEN got := doc::bytea;
		WHEN 'start' THEN got := substring(doc FROM 1 FOR 10); want := substring(want FROM 1 FOR 10);
		WHEN 'end' THEN got := substring(doc FROM (length(doc) - 9)::int FOR 10); want := substring(want FROM len - 9 FOR 10);
		WHEN 'chunks' THEN SELECT string_agg(c, '') INTO got FROM securefile_chunks(doc, 1, len, 300000) c;
		WHEN 'digest' THEN got := securefile_digest(doc, 'md5'); want := decode(md5(want), 'hex');
		WHEN 'edited' THEN got := substring((doc || 'x'::bytea) FROM 1 FOR len);
		WHEN 'handle' THEN fd := securefile_open(doc, 'r'); got := securefile_read(fd, len); PERFORM securefile_close(fd);
		WHEN 'copied' THEN
			INSERT INTO copied SELECT doc RETURNING copied.doc::bytea INTO got;
			DELETE FROM copied;
		WHEN 'copied in parts' THEN
			-- a part of it goes to another place, so its bytes are read to be stored there
			INSERT INTO copied SELECT 'x'::bytea || doc;
			SELECT substring(c.doc FROM 2) INTO got FROM copied c;
			DELETE FROM copied;
		WHEN 'cut short' THEN
			INSERT INTO copied SELECT securefile_truncate(doc, least(len, 131072));
			SELECT c.doc INTO got FROM copied c;
			want := substring(want FOR 131072);
			DELETE FROM copied;
		END CASE;
		RETURN CASE WHEN got = want THEN 'right' ELSE 'WRONG' END;
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
		RETURN SQLSTATE || ': ' || message || '; ' || detail;
	END $$},
	'CREATE TABLE copied (doc securefile(encrypt))', 'CREATE TABLE plain_copied (doc securefile)');
my @ways = ('cast', 'start', 'end', 'chunks', 'digest', 'edited', 'handle', 'copied', 'copied in parts', 'cut short');

# ---- tables ----

# Units: rows of 400000 bytes (four units); small: rows of 1000, in the row; large: inode maps.
my @keyed = map { "key_$_" } qw(state created cipher swapped renumbered foreign zeroed both);
make_table($node, $_, 'encrypt') foreach 'units', 'other', 'small', 'alien', 'large', @keyed, 'key_of_before';
make_table($node, $_, 'encrypt, compress_medium') foreach 'packed', 'brief';
sql('ALTER TABLE units ADD second securefile(encrypt)');
my @cases = ('sound', 'swapped in place', 'swapped', 'swapped with', 'from another table', 'from another column', 'older', 'cut', 'codec', 'stored bytes', 'length', 'key id', 'generation', 'object', 'incarnation');
my %id = map { $cases[$_] => $_ + 1 } 0 .. $#cases;
fill($node, 'units', 1, scalar(@cases), 400000);
sql('UPDATE units SET second = blob(77, 400000) WHERE id = ' . $id{'from another column'});
fill($node, 'other', 1, 1, 400000);
fill($node, 'packed', 1, 4, 400000);
fill($node, $_, 1, 12, 1000) foreach 'small', 'alien';
fill($node, 'large', 1, 4, 13_000_000);
sql(q{INSERT INTO brief SELECT 1, 1, 3000, convert_to(repeat('hello ', 500), 'SQL_ASCII')});
foreach my $t (@keyed)
{
	fill($node, $t, 1, 1, 1000);
	fill($node, $t, 2, 2, 200000);
}
# second keys of some columns
key_file('one', 'two');
sql("ALTER SYSTEM SET securefile.master_key = 'two'", 'SELECT pg_reload_conf()', 'SELECT securefile_load_keys()');
wait_for_sql($node, q{SELECT setting = 'two' FROM pg_settings WHERE name = 'securefile.master_key'});
fill($node, $_, 111, 111, 1000) foreach 'key_swapped', 'key_renumbered', 'units';
fill($node, 'small', 21, 21, 1000);
is(sql('SELECT count(DISTINCT substring(doc::raw::bytea FROM 3 FOR 2)) FROM key_swapped WHERE length(doc) = 1000'), 2, 'two keys');
# TRUNCATE gives a column another key of the same number and master key
sub two_values { my ($t) = @_; fill($node, $t, 1, 1, 1000); fill($node, $t, 2, 2, 200000); return; }
two_values('key_of_before');
sql('CHECKPOINT');
my $of_before = slurp(segment_of($node, 'key_of_before'));
sql('TRUNCATE key_of_before');
two_values('key_of_before');

# ---- what he finds in the files ----

my (%segment, %data, %heap);
push @keyed, 'key_of_before';
foreach my $t ('units', 'other', 'packed', 'small', 'brief', 'alien', 'large', @keyed)
{
	my ($relation, $heap, $data) = split /\|/, sql("SELECT pg_relation_filepath(segment_relid), pg_relation_filepath(relid), data_files FROM securefile_columns WHERE relid = '$t'::regclass AND attname = 'doc'");
	$segment{$t} = $node->data_dir . "/$relation";
	$heap{$t} = $node->data_dir . "/$heap";
	$data{$t} = $node->data_dir . '/' . $data =~ s/seg-.*/seg-00000000.sf/r;
}
{
	my ($relation, $data) = split /\|/, sql("SELECT pg_relation_filepath(segment_relid), data_files FROM securefile_columns WHERE relid = 'units'::regclass AND attname = 'second'");
	$segment{second} = $node->data_dir . "/$relation";
	$data{second} = $node->data_dir . '/' . $data =~ s/seg-.*/seg-00000000.sf/r;
}
sub raw { my ($t, $id, $column) = @_; return bytes_of(sql("SELECT encode(" . ($column || 'doc') . "::raw::bytea, 'hex') FROM $t WHERE id = $id")) }
my $small = sub { return raw('small', $_[0]) };

sub secret_of { my ($t) = @_; return substr(slurp($segment{$t}), SECRET, 16) }

# The end of a locator, made right.
sub with_hash
{
	my ($t, $bytes) = @_;
	my $head = substr($bytes, 0, -8);
	return $head . bytes_of(forge('siphash ' . hex_of(secret_of($t)) . ' ' . hex_of($head)));
}

# Exchange a value of a row, of whatever length up to that of before.
sub put_value
{
	my ($t, $old, $new, $table) = @_;
	my $file = $heap{$t};
	my $at = index(slurp($file), $old);
	die "$t: no such value" if $at < 0;
	patch($file, $at, $new);
	# the length before it
	patch($file, $at - 4, pack('V', (length($new) + 4) << 2)) if length($new) != length($old);
	return;
}

# The same with a locator, whose units are those that lie there now.
sub put_locator
{
	my ($t, $old, $new) = @_;
	my %l = locator($new);
	my ($seed) = forge("seed $l{incarnation} $l{object}");
	my @checksums = forge(map { "xxh3file $seed $data{$t} $_->{offset} $_->{bytes}" } @{ $l{units} });
	substr($new, $l{checksums}, 8 * $l{nunits}) = join '', map { bytes_of($_) } @checksums;
	put_value($t, $old, with_hash($t, $new));
	return;
}

# The same, with a field changed.
sub put_field
{
	my ($case, $offset, $bytes) = @_;
	my $old = raw_of('units', $case);
	my $new = $old;
	substr($new, $offset, length $bytes) = $bytes;
	put_value('units', $old, with_hash('units', $new));
	return;
}

sub unit_bytes { my ($t, $unit) = @_; return substr(slurp($data{$t}), $unit->{offset}, $unit->{bytes}) }

# ---- values as they are ----

sql('CHECKPOINT');
my %raw;
foreach my $case (@cases) { $raw{$case} = raw('units', $id{$case}) }
sub raw_of { my ($t, $case) = @_; return $raw{$case} }
my %older = locator($raw{older});
my $older = unit_bytes('units', $older{units}[1]);
sql('UPDATE units SET doc = overlay(doc placing substring(blob(5, 1000000) FROM 200001 FOR 100) FROM 200001) WHERE id = ' . $id{older});
$raw{older} = raw('units', $id{older});
my $second = raw('units', $id{'from another column'}, 'second');
my $foreign = raw('other', 1);
my %small = map { $_ => raw('small', $_) } 1 .. 12, 21;
my %alien = map { $_ => raw('alien', $_) } 1 .. 12;
my $brief = raw('brief', 1);
my %packed = map { $_ => raw('packed', $_) } 1 .. 4;
# an inode page before and after an edit
my %large = map { $_ => raw('large', $_) } 1 .. 4;
sub root_of { return unpack('x48 V x4 Q<', $_[0]) }
sql('UPDATE large SET doc = overlay(doc placing substring(blob(5, 2000000) FROM 1000001 FOR 100) FROM 1000001) WHERE id IN (2, 3)', 'CHECKPOINT');
my %edited = map { $_ => raw('large', $_) } 2, 3;
# the object is told by its own tag, whose key nobody has outside
like(sql('SELECT seen(doc, seed, len, $$cast$$) FROM units WHERE id = 1'), qr/^right/, 'sound');

# ---- what he does ----

$node->stop;
{
	# two units of one value
	my %l = locator($raw{'swapped in place'});
	my @units = map { unit_bytes('units', $l{units}[$_]) } 0, 1;
	patch($data{units}, $l{units}[$_]{offset}, $units[ 1 - $_ ]) foreach 0, 1;
	put_locator('units', $raw{'swapped in place'}, $raw{'swapped in place'});

	# of two values
	my %a = locator($raw{swapped});
	my %b = locator($raw{'swapped with'});
	@units = (unit_bytes('units', $a{units}[0]), unit_bytes('units', $b{units}[0]));
	patch($data{units}, $a{units}[0]{offset}, $units[1]);
	patch($data{units}, $b{units}[0]{offset}, $units[0]);
	put_locator('units', $raw{$_}, $raw{$_}) foreach 'swapped', 'swapped with';

	# of another table, and another column
	%a = locator($raw{'from another table'});
	%b = locator($foreign);
	patch($data{units}, $a{units}[2]{offset}, unit_bytes('other', $b{units}[2]));
	put_locator('units', $raw{'from another table'}, $raw{'from another table'});
	%a = locator($raw{'from another column'});
	%b = locator($second);
	patch($data{units}, $a{units}[2]{offset}, unit_bytes('second', $b{units}[2]));
	put_locator('units', $raw{'from another column'}, $raw{'from another column'});

	# an old unit, genuine, of this very object and place
	%a = locator($raw{older});
	isnt($a{units}[1]{offset}, $older{units}[1]{offset}, 'an edited unit is at another place');
	patch($data{units}, $a{units}[1]{offset}, $older);
	put_locator('units', $raw{older}, $raw{older});

	# the last unit is gone, and the length is right for that
	%a = locator($raw{cut});
	my $cut = substr($raw{cut}, 0, $a{words} + 4 * $a{nunits} + 16 + 8);
	my @runs = map { [ unpack('Q< V', substr($cut, 48 + 12 * $_, 12)) ] } 0 .. $a{nruns} - 1;
	$runs[-1][1] -= int(($a{units}[-1]{bytes} + SECTOR - 1) / SECTOR);
	pop @runs if $runs[-1][1] == 0;
	my $n = $a{nunits} - 1;
	$cut = substr($cut, 0, 24) . pack('Q<', 131072 * $n) . substr($cut, 32, 8) . pack('V v v', $n, scalar(@runs), 0) . join('', map { pack('Q< V', @$_) } @runs) .
	  substr($cut, $a{checksums}, 8 * $n) . substr($cut, $a{words}, 4 * $n) . substr($cut, -24);
	put_value('units', $raw{cut}, with_hash('units', $cut));

	# fields of locators
	%a = locator($raw{codec});
	put_field('codec', $a{words}, pack('V', unpack('V', substr($raw{codec}, $a{words}, 4)) - 1 | 2 << 18));
	put_field('stored bytes', $a{words} + 12, pack('V', unpack('V', substr($raw{'stored bytes'}, $a{words} + 12, 4)) - 1));
	put_field('length', 24, pack('Q<', 399999));
	put_field('key id', 10, pack('v', 2));
	put_field('generation', 12, pack('V', 2));
	put_field('object', 16, pack('Q<', $a{object}));
	put_field('incarnation', 32, substr($foreign, 32, 8));

	# compressed units: raw ones, by what the map says, and another codec
	%a = locator($packed{2});
	my $new = $packed{2};
	substr($new, $a{words}, 4) = pack('V', unpack('V', substr($new, $a{words}, 4)) & 0x3ffff | 1 << 18);
	put_value('packed', $packed{2}, with_hash('packed', $new));
	%b = locator($packed{3});
	my @first = (unit_bytes('packed', $b{units}[0]), unit_bytes('packed', $b{units}[1]));
	if (length $first[0] == length $first[1])
	{
		patch($data{packed}, $b{units}[$_]{offset}, $first[ 1 - $_ ]) foreach 0, 1;
	}
	else
	{
		patch($data{packed}, $b{units}[0]{offset} + 30, 'other');
	}
	put_locator('packed', $packed{3}, $packed{3});

	$new = $packed{4};
	substr($new, 24, 8) = pack('Q<', 399990);
	put_value('packed', $packed{4}, with_hash('packed', $new));

	# inode pages: a unit that is a hole, and pages of before
	my ($page) = root_of($large{1});
	change($segment{large}, $page, CONTENT + 32, pack('Q< Q< V V', 2**64 - 1, 0, 0, 0));
	my $all = slurp($segment{large});
	foreach my $id (2, 3)
	{
		my ($old) = root_of($large{$id});
		my ($now, $stamp) = root_of($edited{$id});
		isnt($now, $old, 'an edit makes a page');
		change($segment{large}, $now, CONTENT, substr($all, $old * PAGE + CONTENT, PAGE - 24 - 16));
		# with the stamp that is asked for
		change($segment{large}, $now, CONTENT + 8, pack('Q<', $stamp)) if $id == 3;
	}

	# values in rows.  1 and 2: the header says the other table; 3 .. 8: a field; 9: bytes
	put_value('small', $small{1}, substr($small{1}, 0, 4) . substr($alien{1}, 4, 4) . substr($small{1}, 8, 8) . substr($alien{1}, 16, 8) . substr($small{1}, 24));
	put_value('alien', $alien{2}, substr($small{2}, 0, 24) . substr($alien{2}, 24));
	my @fields = (undef, undef, undef, [ 12, pack('V', 999) ], [ 1, "\2" ], [ 2, pack('v', 2) ], [ 8, pack('v', 5) ], [ 12, pack('V', 5000) ], [ 4, pack('V', 1) ], [ 900, 'changed' ], [ 2, pack('v', 3) ], [ 1, "\1" ]);
	foreach my $id (3 .. 11)
	{
		my $new = $small{$id};
		substr($new, $fields[$id][0], length $fields[$id][1]) = $fields[$id][1];
		put_value('small', $small{$id}, $new);
	}

	# one that is compressed says that it is not, and has the length of what is there
	put_value('brief', $brief, pack('C C', 4, 0) . substr($brief, 2, 10) . pack('V', length($brief) - 64) . substr($brief, 16));

	# a value of another table, as it is
	put_value('alien', $alien{12}, $small{21});

	# keys; both pages, as one that differs from the other would be told
	my %keys = (
		state => sub { substr($_[0], 3, 1) = "\2" },
		created => sub { substr($_[0], 8, 8) = pack('Q<', 5) },
		cipher => sub { substr($_[0], 4, 1) = substr($_[0], 4, 1) eq "\1" ? "\2" : "\1" },
		swapped => sub { substr($_[0], 0, 256) = substr($_[0], 128, 128) . substr($_[0], 0, 128) },
		renumbered => sub { substr($_[0], 0, 256) = substr($_[0], 0, 2) . substr($_[0], 130, 126) . substr($_[0], 128, 2) . substr($_[0], 2, 126) },
		foreign => sub { my $from = slurp($segment{key_created}); my ($p) = pages_of($from, PAGE_KEYS); substr($_[0], 0, 128) = substr($from, $p * PAGE + KEYS, 128) },
		of_before => sub { my ($p) = pages_of($of_before, PAGE_KEYS); substr($_[0], 0, 128) = substr($of_before, $p * PAGE + KEYS, 128) });
	# that one first, from what is not changed yet
	foreach my $what ('foreign', 'state', 'created', 'cipher', 'swapped', 'renumbered', 'of_before')
	{
		my $all = slurp($segment{"key_$what"});
		foreach my $page (pages_of($all, PAGE_KEYS))
		{
			my $entries = substr($all, $page * PAGE + KEYS, 256);
			$keys{$what}->($entries);
			change($segment{"key_$what"}, $page, KEYS, $entries);
		}
	}
	my @zeroed = pages_of(slurp($segment{key_zeroed}), PAGE_KEYS);
	is(scalar(@zeroed), 2, 'two key pages');
	patch($segment{key_zeroed}, $zeroed[0] * PAGE, "\0" x PAGE);
	patch($segment{key_both}, $_ * PAGE, "\0" x PAGE) foreach pages_of(slurp($segment{key_both}), PAGE_KEYS);
}
$node->start;

# ---- what becomes of it ----

# A line for each way: refused, if all is well.
sub reads
{
	my ($t, $id) = @_;
	my @found;
	foreach my $line (split /\n/, sql("SELECT w || ': ' || seen(doc, seed, len, w) FROM $t, unnest(ARRAY[" . join(', ', map { "'$_'" } @ways) . "]) w WHERE id = $id"))
	{
		my ($way, $what) = split /: /, $line, 2;
		push @found, $way . ': ' . $what;
	}
	return @found;
}

# One test: a row is refused in every way of reading.
sub refused
{
	my ($t, $id, $name, $like) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @wrong = grep { !/^[a-z ]+: (?:XX001|42704): / || ($like && !/$like/) } reads($t, $id);
	is(join("\n", @wrong), '', "$t, $name: refused in every way");
	return;
}

sub read_right
{
	my ($t, $id, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join(', ', grep { !/: right$/ } reads($t, $id)), '', "$t, $name: is read");
	return;
}

read_right('units', $id{sound}, 'a row beside them');
refused('units', $id{$_}, $_, 'XX001|42704') foreach grep { $_ ne 'sound' } @cases;
refused('units', $id{$_}, $_, 'cannot be authenticated') foreach 'swapped in place', 'swapped', 'older', 'cut', 'generation', 'codec';
read_right('other', 1, 'the source');
is(sql('SELECT second::bytea = blob(77, 400000) FROM units WHERE id = ' . $id{'from another column'}), 't', 'the other column is read');
read_right('packed', 1, 'a row beside them');
refused('packed', 2, 'another codec', 'cannot be authenticated');
refused('packed', 4, 'another length', 'cannot be authenticated');
refused('packed', 3, 'units changed');
refused('large', 1, 'a unit that is a hole', 'cannot be authenticated');
refused('large', 2, 'an inode page of before');
refused('large', 3, 'an inode page of before, with the stamp of now', 'cannot be authenticated');
read_right('large', 4, 'a row beside them');
refused('small', 1, 'says another table');
refused('alien', 2, 'says another table');
refused('small', $_, "field $_") foreach 3 .. 11;
refused('brief', 1, 'compressed bytes as if they were plain', 'cannot be authenticated');
read_right('small', 2, 'a row beside them');
read_right('alien', 1, 'a row beside them');
# no reader knows which row a value came from; a check does
is(sql('SELECT doc::bytea = (SELECT blob(seed, len) FROM small WHERE id = 21) FROM alien WHERE id = 12'), 't', 'alien: a value of another table that was put there as it is reads as what it is');
like(sql("SELECT string_agg(finding || ': ' || detail, '') FROM securefile_check('alien', 'doc') c JOIN alien t ON t.ctid = c.ctid WHERE id = 12"), qr/^bad locator: the value lies in the segment of table/, 'alien: a check finds it');
# whoever finds the triggers of a table off does not trust its rows, and brings this one home
sql('DELETE FROM alien WHERE id = 2', 'SET allow_system_table_mods = on', q{UPDATE pg_trigger SET tgenabled = 'O' WHERE tgrelid = 'alien'::regclass AND tgisinternal}, 'ALTER TABLE alien ALTER doc SET STORAGE MAIN');
is(sql(q{SELECT count(*) FROM securefile_check('alien', 'doc')}), 0, 'alien: the value is stored anew when the triggers were off');
is(sql('SELECT doc::bytea = (SELECT blob(seed, len) FROM small WHERE id = 21) FROM alien WHERE id = 12'), 't', 'alien: with its bytes');
foreach my $t ('key_state', 'key_created', 'key_cipher', 'key_renumbered', 'key_foreign', 'key_of_before')
{
	refused($t, $_, "row $_", 'data key \d+ of column "doc" of table "\w+" cannot be authenticated') foreach 1, 2;
}
# whoever knows the old key could read what is stored with it
fails_with($node, "INSERT INTO key_of_before SELECT 3, 3, $_, blob(3, $_)", 'XX001', 'data key 1 of column "doc" of table "key_of_before" cannot be authenticated', "a key of before TRUNCATE: $_ bytes are not stored") foreach 1000, 200000;
refused('key_swapped', $_, "row $_", 'key page \d+ of a securefile segment is damaged') foreach 1, 2;
refused('key_both', $_, "row $_", 'key page \d+ of a securefile segment is damaged|page \d+ of segment') foreach 1, 2;

# nothing of it is changed or shared by an edit either, nor salvaged, nor taken by an UPDATE
foreach my $case ('older', 'cut', 'length', 'swapped')
{
	fails_with($node, "UPDATE units SET doc = overlay(doc placing 'x'::bytea FROM 150000) WHERE id = $id{$case}", '(XX001|42704)', '', "$case: is not edited");
}
fails_with($node, "UPDATE large SET doc = doc || 'x'::bytea WHERE id = $_", '(XX001|42704)', '', "large $_: is not edited") foreach 1 .. 3;
fails_with($node, 'INSERT INTO plain_copied SELECT doc FROM large WHERE id = 1', '(XX001|42704)', '', 'a hole is not copied to a column that does not encrypt');
fails_with($node, "INSERT INTO plain_copied SELECT doc || 'x'::bytea FROM large WHERE id = 1", '(XX001|42704)', '', 'nor is what is made of it');
fails_with($node, 'INSERT INTO plain_copied SELECT securefile_truncate(doc, 100000) FROM large WHERE id = 1', '(XX001|42704)', '', 'nor the hole alone');
foreach my $id (map { $id{$_} } grep { $_ ne 'sound' } @cases)
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT count(*) FROM units, securefile_salvage(doc) s WHERE id = $id AND s.data IS NOT NULL AND s.data <> substring(blob(seed, len) FROM s.start::int + 1 FOR length(s.data))");
	like($rc == 0 ? $out : $err, qr/^0$|ERROR:  /, "row $id: nothing wrong is salvaged");
}

# a check finds it
foreach my $t ('units', 'large', 'packed')
{
	my $found = sql("SELECT count(DISTINCT c.ctid) FROM securefile_check('$t', 'doc') c");
	cmp_ok($found, '>', 0, "$t: a check finds rows");
}
$node->psql('postgres', "SELECT count(*) FROM securefile_check('$_', 'doc')") foreach 'small', 'alien', @keyed;

# ---- one key page of two ----

my ($rc, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM key_zeroed WHERE doc::bytea = blob(seed, len)');
is($out, 2, 'with one key page all is read');
like($err, qr/WARNING:  one of two key pages .* is damaged/, 'with a warning');
isnt(sql("SELECT count(*) FROM securefile_check('key_zeroed', 'doc')"), 0, 'a check finds it');
sql("SELECT count(*) FROM securefile_repair('key_zeroed', 'doc', false)");
is(sql("SELECT count(*) FROM securefile_check('key_zeroed', 'doc')"), 0, 'a repair mends it');
fill($node, 'key_zeroed', 3, 3, 200000);
rows_right($node, 'key_zeroed', 3, 'after the repair');
# both: what can be repaired of the rest is, and new values wait for a new segment
fails_with($node, 'SELECT doc::bytea FROM key_both WHERE id = 2', 'XX001', 'damaged', 'no key page: an error of damage');
fails_with($node, "INSERT INTO key_both SELECT 5, 5, 5, '12345'", 'XX001', 'damaged', 'no key page: nothing is stored');
sql('TRUNCATE key_both');
fill($node, 'key_both', 1, 1, 1000);
rows_right($node, 'key_both', 1, 'after TRUNCATE');

# ---- master keys that are not loaded ----

$node->backup('b');
my $standby = new_standby('tamper_standby', $node, 'b', "securefile.key_command = ''");

sub load { key_file(@_); return sql("SELECT securefile_load_keys()") }
make_table($node, $_, 'encrypt') foreach 'first', 'gone', 'cleared';
make_table($node, 'third', 'encrypt, compress_medium');
make_table($node, 'clear');
sql("ALTER SYSTEM SET securefile.master_key = ''", 'SELECT pg_reload_conf()');
wait_for_sql($node, q{SELECT setting = '' FROM pg_settings WHERE name = 'securefile.master_key'});
load('one');
foreach my $t ('first', 'gone', 'cleared', 'clear')
{
	fill($node, $t, 1, 3, 'i * 1000');
	fill($node, $t, 4, 6, 'i * 50000');
}
load('three');
fill($node, 'third', 1, 6, 'i * 30000');
my $session = background($node);
foreach my $wrong ('three', 'one=two', 'three one=two')
{
	load('one', 'three');
	# a session that has had the key forgets it
	is($session->query_safe('SELECT count(*) FROM first WHERE doc::bytea = blob(seed, len)'), 6, "before \"$wrong\": a session reads all");
	load(split / /, $wrong);
	foreach my $id (1, 5)
	{
		fails_with($node, "SELECT doc::bytea FROM first WHERE id = $id", '55000', 'is not loaded', "\"$wrong\": row $id cannot be read");
		$session->{stderr} = '';
		$session->query("SELECT doc::bytea FROM first WHERE id = $id");
		like($session->{stderr}, qr/is not loaded/, "\"$wrong\": row $id cannot be read in a session that could");
		$session->{stderr} = '';
		fails_with($node, "UPDATE first SET doc = doc || 'x'::bytea WHERE id = $id", '55000', 'is not loaded', "\"$wrong\": row $id cannot be edited");
	}
	is(sql('SELECT sum(length(doc)) FROM first'), 756000, "\"$wrong\": lengths are known");
	# the values would need two keys of one name, of which one can be loaded
	fails_with($node, "INSERT INTO first SELECT 9, 9, 9, blob(9, $_)", '55000', 'master key "one" is another one than that of data key 1 of column "doc" of table "first"', "\"$wrong\": $_ bytes are not stored")
	  foreach $wrong eq 'one=two' ? (9, 9000) : ();
	rows_right($node, 'third', 6, "\"$wrong\"") if $wrong =~ /three/;
	rows_right($node, 'clear', 6, "\"$wrong\"");
	is(sql("SELECT count(*) FROM securefile_check('first', 'doc')"), 0, "\"$wrong\": a check finds no damage");
	is(repair($node, 'first', 'true') =~ /set free|unreadable/ ? 1 : 0, 0, "\"$wrong\": nor would a repair do anything");
	sql('DELETE FROM gone WHERE id IN (1, 4)', 'UPDATE gone SET id = id + 100', 'VACUUM gone', 'VACUUM FULL first', "SELECT securefile_maintain('gone', 'doc')", 'ANALYZE first');
	is(sql('SELECT count(*) FROM gone'), 4, "\"$wrong\": rows are deleted and changed");
	sql("INSERT INTO gone SELECT id - 99, seed, len, '' FROM gone WHERE id IN (102, 105)", 'DELETE FROM gone WHERE length(doc) = 0', 'UPDATE gone SET id = id % 100');
	load('one');
	fill($node, 'gone', 1, 1, 'i * 1000');
	fill($node, 'gone', 4, 4, 'i * 50000');
	rows_right($node, 'gone', 6, 'the key is loaded again') if $wrong;
}
# no key is current: nothing can be stored
load('three', 'two');
fails_with($node, "INSERT INTO first SELECT 9, 9, 9, blob(9, $_)", '55000', '', "no key is current: $_ bytes are not stored") foreach 9, 9000;
load('three');
sql('BEGIN', 'TRUNCATE cleared', 'ROLLBACK', 'TRUNCATE cleared', 'DROP TABLE gone');
fill($node, 'cleared', 1, 3, 5000);
rows_right($node, 'cleared', 3, 'after TRUNCATE, with a new key');
fill($node, 'first', 7, 8, 5000);
is(sql('SELECT count(*) FROM first WHERE id > 6 AND doc::bytea = blob(seed, len)'), 2, 'a store makes a key with the master key that is there');

# ---- a standby without keys ----

catch_up($node, $standby);
rows_right($standby, 'clear', 6, 'a standby without keys');
is($standby->safe_psql('postgres', "SELECT count(*), sum(length(doc)) FROM first"), '8|766000', 'it replays what is encrypted');
fails_with($standby, 'SELECT doc::bytea FROM first WHERE id = 5', '55000', 'is not loaded', 'and cannot read it');
is($standby->safe_psql('postgres', "SELECT count(*) FROM securefile_check('first', 'doc')"), 0, 'a check there finds no damage');
key_file('one', 'three');
$standby->append_conf('postgresql.conf', "securefile.key_command = 'cat $dir/keys'");
$standby->reload;
wait_for_sql($standby, "SELECT setting <> '' FROM pg_settings WHERE name = 'securefile.key_command'");
is($standby->safe_psql('postgres', 'SELECT securefile_load_keys()'), 2, 'keys are loaded there');
rows_right($standby, 'first', 8, 'a standby with keys');
sql('SELECT securefile_load_keys()');
rows_right($node, 'first', 8, 'all keys are loaded again');

# ---- a key that is moved while its column is in use ----

$session->quit;
unlike(slurp($_->logfile), qr/TRAP: |PANIC|terminated by signal|\bXX000\b/, $_->name . ': no crash') foreach $node, $standby;
$standby->stop;
$node->stop;
done_testing();
