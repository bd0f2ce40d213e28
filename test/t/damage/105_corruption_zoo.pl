# The corruption zoo: every kind of damage to every kind of place, each to a table of
# its own.  Reads of what is damaged say where and what, all else is right to the byte,
# securefile_check names the damage, statements that write work or say why they do not,
# what they acknowledged is right when the damage has been undone, and DROP TABLE works.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(usleep);

my @kinds = qw(bit zeros stale swapped garbage torn truncated missing);
my $damages = 0;

# How bytes are put: corrupt() where data checksums are to tell.
my $put;

# Where: in the data of a row of some form (rows below), or in a page.
my %places = (
	data_nocache => { options => 'nocache', row => 10 },
	data_cached => { options => 'cache_reads', row => 13 },
	data_full_cache => { options => 'cache', row => 13 },
	data_unlogged => { options => 'filesystem_like_logging, cache_reads', row => 11 },
	header => { page => 1 },
	map => { page => 2 },
	pending => { page => 3 },
	inode => { page => 4 },
	free => { page => 5 });

# Pages that say what cannot be, or leads astray, without a seal that would tell: offset
# in the contents, what is put there (of a page's own number, and that of another), and
# which statements must be refused.
my $all = 'insert|update|delete|maintain';
my $rolled_back;
my $far = pack('Q<', 2**50 + 100);
my %odd = (
	header => [
		[ 24, pack('Q<', 2**60), $all ], [ 24, pack('Q<', 1001), $all ], [ 24, pack('Q<', 8), 'insert' ], [ 48, sub { pack('V', 0) }, 'insert map' ],
		[ 48, sub { pack('V', $_[1]) }, 'insert map' ], [ 48, pack('V', 0xfffffff0), 'insert map' ], [ 48, pack('V', 1), 'insert map' ], [ 52, pack('V', 1), 'maintain' ],
		[ 52, pack('V', 0xffffffff), $all ], [ 56, pack('V', 77), 'insert' ], [ 60, pack('V', 0), $all ], [ 60, pack('V', 2) ] ],
	map => [ [ 16, pack('V', 40000), 'insert' ], [ 536, "\0" x 16 ], [ 536 + 3000, "\xff" x 16 ] ],
	pending => [
		[ 0, sub { pack('V', $_[0]) }, $all ], [ 0, pack('V', 0), $all ], [ 0, pack('V', 0xfffffff0), $all ], [ 4, "\xff\xff", $all ], [ 40, pack('Q<', 2**62), $all ],
		# the place of row 2, as if taken by a transaction that is still to come, four
		# billion after one that was rolled back
		[ 40, sub { pack('Q< Q< V C C', 2**32 + $rolled_back, 40, 40, 1, 0) } ], [ 60, "\x63", $all ], [ 61, "\x07", $all ],
		# transaction, start, count, kind, outcome of an entry
		map { my @entry = @$_; [ 40, sub { pack('Q< Q< V C C', 700, map { $_ eq 'n' ? $_[0] : $_ } @entry, 1) }, 'maintain' ] }
		  [ 2**50 + 100, 1, 2 ], [ 2**62, 1, 2 ], [ 32767, 5, 2 ], [ 5, 0, 2 ], [ 5, 0xffffffff, 2 ],
		[ 0, 1, 4 ], [ 'n', 1, 4 ], [ 1, 1, 4 ], [ 0xffffffff, 1, 4 ], [ 77777, 1, 4 ], [ 2**40, 1, 4 ] ],
	inode => [
		[ 24, "\x05" ], [ 26, pack('v', 60000) ], [ 26, pack('v', 0) ], [ 32, $far ], [ 32, pack('Q<', 32767) ], [ 32, pack('Q<', 0), '-', 'believed' ],
		[ 48, pack('V', 0) ], [ 48, pack('V', 2**30) ], [ 52, pack('V', 1) ] ],
	free => [ [ 0, sub { pack('V', $_[0]) } ], [ 0, pack('V', 0) ], [ 0, sub { pack('V', $_[1]) } ], [ 0, pack('V', 0x7fffffff) ] ]);

# What is in a table.  1 to 5, and 10, 13: unit maps in the row; 6, 11: in inode pages,
# with holes; 7: in the row itself.
my @rows = (1, 2, 3, 5, 6, 7, 10, 11, 13);
my @stored = grep { $_ != 7 } @rows;
my $checksum = qr/[Ee]xpected checksum \w{16}, found \w{16}\./;
my $unit = qr/^XX001: securefile value is damaged; Unit \d+ at segment offset \d+: $checksum/;
my $page_bad = qr/page \d+ of segment relation "pg_securefile_\d+_3" is damaged|invalid page in block \d+ of relation/;
my $inode_bad = qr/^XX001: (?:$page_bad|inode page \d+ of a securefile segment is damaged; Expected)/;
my $no_relation = qr{^58P01: could not open file "base/};

# ---- one cluster ----

my ($node, @tables);

# A psql script over all tables; the lines it printed, by table.
sub run_script
{
	my ($what, $sql_of) = @_;
	my $script = "SET statement_timeout = '@{[ patience() ]}s';\n\\set VERBOSITY verbose\n\\pset format unaligned\n\\pset tuples_only on\n" . join('', map { $sql_of->($_) } @tables);
	my ($out, $err) = ('', '');
	my $since = -s $node->logfile;
	my %lines;
	IPC::Run::run([ 'psql', '-XqAt', '-f', '-', $node->connstr('postgres') ], '<', \$script, '>', \$out, '2>', \$err);
	unlike($err, qr/connection to server|server closed/, $node->name . ", $what: no lost connection");
	unlike(slurp_file($node->logfile, $since), qr/PANIC|TRAP: |terminated by signal/, $node->name . ", $what: no crash");
	push @{ $lines{$1} }, $2 while $out =~ /^(z_\w+)\|(.*)$/mg;
	return \%lines;
}

# The template's rows, and the first state of all tables; "old" is as it is then.
sub build
{
	$node->safe_psql('postgres', q{
		CREATE TABLE template (id int PRIMARY KEY, want text, doc securefile);
		INSERT INTO template SELECT i, NULL, blob(i, CASE WHEN i IN (5, 13) THEN 300000 WHEN i = 7 THEN 100 ELSE 20000 END)
			FROM unnest('{1,2,3,4,5,7,8,10,13}'::int[]) i;
		DO $$
		DECLARE
			fd int;
		BEGIN
			FOR i IN 1 .. 4 LOOP
				fd := securefile_create('template', 'doc');
				PERFORM securefile_write(fd, blob(100 + i, 30000));
				PERFORM securefile_seek(fd, 1000000, 0);
				PERFORM securefile_write(fd, blob(200 + i, 40000));
				INSERT INTO template VALUES ((ARRAY[6, 9, 11, 12])[i], NULL, securefile_finish(fd));
			END LOOP;
		END $$;
		UPDATE template SET want = md5(doc::bytea);
		CREATE FUNCTION seen(doc securefile, want text) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE
			message text;
			detail text;
			context text;
		BEGIN
			RETURN CASE WHEN md5(doc::bytea) = want THEN 'right' ELSE 'WRONG' END;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, context = PG_EXCEPTION_CONTEXT;
			RETURN SQLSTATE || ': ' || message || '; ' || detail || coalesce(substring(context from 'page .* of segment relation "\w+"'), '');
		END $$});
	$rolled_back = $node->safe_psql('postgres', 'BEGIN; SELECT pg_current_xact_id(); ROLLBACK');
	run_script('build', sub {
		my $t = $_[0]->{name};
		return "CREATE TABLE $t (id int PRIMARY KEY, want text, doc securefile($_[0]->{options}));"
		  . "INSERT INTO $t SELECT * FROM template WHERE id NOT IN (10, 11, 13) ORDER BY id;\n"
		  . "DELETE FROM $t WHERE id IN (8, 9, 12);\n" });
	$node->safe_psql('postgres', 'CHECKPOINT');
	foreach my $t (@tables)
	{
		($t->{relation}, $t->{data}) = split /\|/, $node->safe_psql('postgres',
			"SELECT pg_relation_filepath(segment_relid), data_files FROM securefile_columns WHERE relid = '$t->{name}'::regclass");
		$t->{data} =~ s/seg-.*/seg-00000000.sf/;
		$_ = $node->data_dir . "/$_" for @$t{qw(relation data)};
		$t->{old} = slurp($t->{place}{page} ? $t->{relation} : $t->{data});
	}
	# space and a page that were another's, by entries that are gone; one page that is
	# free; entries that wait for their verdict
	run_script('second state', sub {
		my $t = $_[0]->{name};
		return "SELECT securefile_maintain('$t', 'doc');\n"
		  . "INSERT INTO $t SELECT * FROM template WHERE id IN (10, 11, 13) ORDER BY id; DELETE FROM $t WHERE id = 4;\n" });
	return;
}

# ---- damage ----

sub type_of_page { return unpack('v', substr($_[0], 8180, 2)); }

# Where to damage a table: offset, and that of another place of the kind.
sub find_place
{
	my ($t, $now) = @_;
	my @at;
	if ($t->{place}{page})
	{
		@at = grep { type_of_page(substr($now, $_, 8192)) == $t->{place}{page} } map { $_ * 8192 } 0 .. length($now) / 8192 - 1;
		# the inode page that was made last
		@at = sort { unpack('Q<', substr($now, $b + 32, 8)) <=> unpack('Q<', substr($now, $a + 32, 8)) } @at
		  if $t->{place}{page} == 4;
		push @at, 8192 * (1 + ($at[0] == 8192 ? -1 : 0)) if @at == 1;
	}
	else
	{
		@at = map { my $n = index($now, substr(blob_bytes(@$_), 0, 512)); $n - $n % 4096 }
		  $t->{place}{row} == 11 ? [ 203, 40000 ] : [ $t->{place}{row}, $t->{place}{row} == 13 ? 300000 : 20000 ], [ 1, 20000 ];
	}
	die "$t->{name}: no place" if @at < 2 || $at[0] < 0 || $at[1] < 0;
	return @at[0, 1];
}

# What SQL's blob(seed, len) has.
sub blob_bytes
{
	my ($seed, $len) = @_;
	my $size = $len <= 65536 ? 512 : 4096;
	return substr(join('', map { Digest::MD5::md5_hex("$seed:$_") x ($size / 32) } 1 .. 1 + $len / $size), 0, $len);
}

# The other page is the last pending one: whoever takes a page has that locked.
sub put_odd
{
	my ($t, $at, $now) = @_;
	my ($offset, $bytes) = @{ $t->{odd} }[0, 1];

	$bytes = $bytes->($at / 8192, unpack('V', substr($now, 24 + 56, 4))) if ref $bytes;
	patch($t->{file}, $at + 24 + $offset, $bytes);
	patch($t->{file}, $at + 8184, "\0" x 8);
	return;
}

sub damage
{
	my ($t) = @_;
	my $now = slurp($t->{file});
	my $size = $t->{place}{page} ? 8192 : 4096;
	($t->{at}, $t->{other}) = find_place($t, $now) unless defined $t->{at};
	my ($at, $other) = @$t{qw(at other)};
	my ($old, $here, $kind) = (substr($t->{old} . "\0" x $size, $at, $size), substr($now, $at, $size), $t->{kind});
	my $is_page = $size == 8192;

	$old .= "\0" x ($size - length $old);
	die "$t->{name}: nothing older" if !$t->{done} && $kind =~ /stale|torn/ && $old eq $here;
	$t->{was} = $now;
	$damages++;
	put_odd($t, $at, $now) if $kind eq 'odd';
	if ($kind eq 'bit')
	{
		my $byte = $at + ($is_page ? { 1 => 24 + 33, 2 => 24 + 536 + 7, 3 => 24 + 8 + 9, 4 => 24 + 32 + 1, 5 => 24 }->{ $t->{place}{page} } : 300);
		$put->($t->{file}, $byte, chr(ord(substr($now, $byte, 1)) ^ 4));
	}
	$put->($t->{file}, $at, "\0" x 4096) if $kind eq 'zeros';
	$put->($t->{file}, $at, $old) if $kind eq 'stale';
	$put->($t->{file}, $at, substr($old, 0, $size / 2)) if $kind eq 'torn';
	if ($kind eq 'garbage')
	{
		# all ones are a hole of a map, and no page at all
		my ($from, $byte) = !$is_page ? (0, '') : $t->{place}{page} == 5 ? (24, "\xee") : (56, "\xff");
		$put->($t->{file}, $at + $from, $is_page ? $byte x (8176 - $from) : join('', map { chr(int(rand 256)) } 1 .. 4096));
	}
	truncate($t->{file}, $at) || die $! if $kind eq 'truncated';
	unlink($t->{file}) || die $! if $kind eq 'missing';
	if ($kind eq 'swapped')
	{
		$put->($t->{file}, $at, substr($now, $other, $size));
		$put->($t->{file}, $other, $here);
	}
	return;
}

sub believed { return $_[0]->{place}{page} && $_[0]->{kind} =~ /stale|odd/; }

# Put the bytes back, but where something was written meanwhile.
sub undo
{
	my ($t) = @_;
	my $size = $t->{place}{page} ? 8192 : 4096;
	my $is = -e $t->{file} ? slurp($t->{file}) : '';
	my $undone = $is;
	for (my $at = 0; $at < length $t->{was}; $at += $size)
	{
		my $here = $at < length $is ? substr($is, $at, $size) : '';
		my $damaged = $at < length $t->{damaged} ? substr($t->{damaged}, $at, $size) : "\0" x $size;
		$undone .= "\0" x ($at - length $undone) if $at > length $undone;
		substr($undone, $at, $size) = substr($t->{was}, $at, $size) if $here eq '' || $here eq $damaged;
	}
	write_file($t->{file}, $undone);
	return;
}

sub start_damaged
{
	$node->stop;
	foreach my $t (@tables)
	{
		damage($t);
		$t->{damaged} = -e $t->{file} ? slurp($t->{file}) : '';
	}
	$node->start;
	return;
}

sub start_undone
{
	my ($how) = @_;
	$node->stop($how);
	undo($_) foreach grep { !($_->{done} && believed($_)) } @tables;
	$node->start;
	return;
}

# ---- what must be ----

# Rows that cannot be read, what reading them says, and what securefile_check does.
sub expected
{
	my ($t) = @_;
	my ($place, $kind) = (join('', $t->{place}{page} ? $t->{where} : 'data'), $t->{kind});
	my $page_check = qr/^unreadable\|.*?: ?$page_bad|^unreadable\|\S*\|(?:$page_bad)|^damaged page\|/m;

	return ([], undef, qr/^(?!check )/m) if $kind eq 'odd';
	if ($place eq 'data')
	{
		return (\@stored, qr{^58P01: could not open segment data file "pg_securefile/.*seg-00000000.sf"}, qr/^data files too short\|0\|/m) if $kind eq 'missing';
		return ([ $t->{place}{row} ], qr{^XX001: could not read segment data file ".*seg-00000000.sf" at offset \d+: read only \d+ of \d+ bytes}, qr/^data files too short\|\d+\|/m) if $kind eq 'truncated';
		return ([ $t->{place}{row}, $kind eq 'swapped' ? 1 : () ], $unit, qr/^checksum mismatch\|\d+\|Unit \d+ at segment offset \d+: $checksum/m);
	}
	return (\@stored, $no_relation, qr/^unreadable\|\|could not open file/m) if $kind eq 'missing';
	return (\@stored, qr/^XX001: $page_bad/, $page_check) if $place eq 'header' && $kind ne 'stale';
	# pages behind the cut
	return ([], undef, qr/^damaged page\||^damaged list of pages\||^unreadable\|/m) if $place eq 'free' && $kind eq 'truncated';
	return ([ $place eq 'inode' ? () : 6, 11 ], $inode_bad, qr/^damaged page\||^damaged list of pages\||^unreadable\|/m) if $kind eq 'truncated';
	return ([ 11, $kind eq 'swapped' ? 6 : () ], $inode_bad, qr/^unreadable\|\|(?:$page_bad|inode page)/m) if $place eq 'inode';
	return (\@stored, qr/^XX001: $page_bad/, $page_check) if $kind eq 'swapped' && substr($t->{damaged}, 0, 8192) ne substr($t->{was}, 0, 8192);
	return ([], undef, qr/^owned but free\|\d+\|the space map takes it for free/m) if $place eq 'map' && $kind eq 'stale';
	return ([], undef, qr/^owned but to be freed\|\d+\|a pending entry will set it free/m) if $place eq 'pending' && $kind eq 'stale';
	return ([], undef, qr/^damaged list of pages\||^damaged page\||^header page behind\||^unreadable\|/m);
}

# Without the server writing: reads and securefile_check; then the bytes are put back.
sub look_at_all
{
	my $reads = run_script('reads', sub { "SELECT '$_[0]{name}', id, seen(doc, want) FROM $_[0]{name} ORDER BY id;\n" });
	my $checks = run_script('checks', sub {
		my $t = $_[0]->{name};
		return "SELECT '$t', finding, segment_offset, detail FROM securefile_check('$t', 'doc');\n\\echo '$t|check' :SQLSTATE\n" });
	my $of_server = join("\n", grep { /invalid page in block/ } map { @$_ } values %$reads);

	unlike($of_server, qr/invalid page in block (\d+) (?!.*page \g1 of segment relation "pg_securefile_)/,
		$node->name . ': errors of the server name the segment');
	isnt($of_server, '', $node->name . ': there are such errors');
	foreach my $t (@tables)
	{
		my ($victims, $says, $check) = expected($t);
		my %is = map { split /\|/, $_, 2 } @{ $reads->{ $t->{name} } };
		my %victim = map { $_ => 1 } @$victims;
		# behind the cut lies what a file cut short has lost of other values; an inode page that
		# leads to space that is free now looks like one of a value that is gone
		my $may = $t->{kind} eq 'truncated' && defined $says ? qr/^right$|$says/ : $t->{kind} eq 'odd' ? qr/^right$|^XX001|^42704/ : qr/^right$/;
		my @bad = grep { ($is{$_} // 'none') !~ ($victim{$_} && ($t->{kind} ne 'truncated' || $_ == ($t->{place}{row} // $_)) ? $says : $may) } @rows;
		my $found = join("\n", @{ $checks->{ $t->{name} } });

		ok(!@bad && @rows == keys %is, $node->name . ", $t->{name}: reads")
		  or diag(join("\n", map { "$_: " . ($is{$_} // 'none') } @bad));
		note("$t->{name}: $found");
		like($found, $check, $node->name . ", $t->{name}: check");
	}
	return;
}

# Statements that write to a damaged column: each works, or says why not.
my @writes = (
	[ 'insert', sub { "INSERT INTO $_[0] SELECT 21, want, doc FROM template WHERE id = 1" } ],
	[ 'update', sub { "UPDATE $_[0] SET (want, doc) = (SELECT want, doc FROM template WHERE id = 8) WHERE id = 1" } ],
	[ 'delete', sub { "DELETE FROM $_[0] WHERE id = 3" } ],
	[ 'maintain', sub { "SELECT securefile_maintain('$_[0]', 'doc') IS NULL" } ],
	[ 'insert map', sub { "INSERT INTO $_[0] SELECT 22, want, doc FROM template WHERE id = 6" } ],
	[ 'delete victim', sub { "DELETE FROM $_[0] WHERE id = 13" } ],
	[ 'again', sub { "INSERT INTO $_[0] SELECT 23 + i, want, doc FROM template, generate_series(0, 20) i WHERE id = 5" } ],
	[ 'edit', sub { "UPDATE $_[0] SET doc = doc || 'x'::bytea::securefile, want = NULL WHERE id = 11" } ],
	[ 'usage', sub { "SELECT securefile_usage('$_[0]', 'doc') IS NULL" } ],
	[ 'vacuum', sub { "VACUUM $_[0]" } ]);

sub write_to_all
{
	my $results = run_script('writes', sub {
		my $t = $_[0]->{name};
		return join('', map { my ($op, $sql) = ($_->[0], $_->[1]->($t)); "\\o /dev/null\n$sql;\n\\o\n\\echo '$t|$op' :SQLSTATE\n" } @writes) });
	my %codes;
	my %refused = (header => 'insert|update|delete|maintain', map => 'insert|update|maintain', pending => 'insert|update|delete|maintain');
	foreach my $t (@tables)
	{
		my @odd = grep { !/ (?:00000|XX001|58P01|42704)$/ } @{ $results->{ $t->{name} } };
		ok(@{ $results->{ $t->{name} } } == @writes && !@odd, $node->name . ", $t->{name}: writes work or say why not") or diag("@odd");
		my $must = $t->{odd} ? $t->{odd}[2] // '-' : believed($t) ? '-' : $t->{kind} eq 'missing' ? 'insert' : $refused{ $t->{where} } // '-';
		my @unlike = grep { /^(?:$must) 00000$/ } @{ $results->{ $t->{name} } };
		push @unlike, grep { /^(?:insert|update|delete|maintain) (?!00000)\w{5}$/ } @{ $results->{ $t->{name} } }
		  if !$refused{ $t->{where} } && $t->{kind} !~ /missing|stale|odd/ && "$t->{where} $t->{kind}" ne 'free swapped';
		is("@unlike", '', $node->name . ", $t->{name}: writes");
		$codes{$_}++ for map { / (\w+)$/ ? $1 : () } @{ $results->{ $t->{name} } };
		note("$t->{name}: " . join(', ', @{ $results->{ $t->{name} } }));
		$t->{done} = { map { /^(.*) 00000$/ ? ($1 => 1) : () } @{ $results->{ $t->{name} } } };
	}
	note($node->name . ': ' . join(', ', map { "$codes{$_} times $_" } sort keys %codes));
	return;
}

# When the bytes are back: what was acknowledged, and nothing else.
sub acknowledged
{
	my $reads = run_script('after undoing', sub { "SELECT '$_[0]{name}', id, CASE WHEN want IS NULL THEN left(seen(doc, want), 5) ELSE seen(doc, want) END FROM $_[0]{name} ORDER BY id;\n" });
	my $checks = run_script('check after undoing', sub { my $t = $_[0]->{name};
		return "SELECT '$t', finding, segment_offset FROM securefile_check('$t', 'doc') WHERE finding ~ 'but free|to be freed|twice';\n" });
	foreach my $t (@tables)
	{
		my $done = $t->{done};
		my %want = map { $_ => 1 } @rows;
		delete $want{3} if $done->{delete};
		delete $want{13} if $done->{'delete victim'};
		$want{21} = 1 if $done->{insert};
		$want{22} = 1 if $done->{'insert map'};
		$want{$_} = 1 for $done->{again} ? 23 .. 43 : ();
		my %is = map { split /\|/, $_, 2 } @{ $reads->{ $t->{name} } };
		# what an old page says, or one without a seal, was believed: values may be lost, and are said to be
		my $lenient = $t->{place}{page} && ($t->{kind} eq 'stale' || $t->{kind} eq 'odd' && ($t->{where} =~ /header|map/ || $t->{odd}[3]));
		my $right = $lenient ? qr/^right|^XX001|^42704/ : qr/^right/;
		is("@{ $checks->{ $t->{name} } || [] }", '', $node->name . ", $t->{name}: no space of a value was freed") unless $lenient;
		my %says = (11 => $t->{where} eq 'inode' && $t->{kind} eq 'odd' ? qr/^XX001|^42704|^WRONG/ : $done->{edit} ? qr/^WRONG|^XX001|$right/ : $right);
		my @bad = grep { ($is{$_} // 'none') !~ ($says{$_} // $right) } keys %want;
		ok(!@bad && keys(%is) == keys(%want), $node->name . ", $t->{name}: what was acknowledged is there")
		  or diag(join("\n", map { "$_: " . ($is{$_} // 'none') } @bad, grep { !$want{$_} } keys %is));
	}
	return;
}

# In the end everything can be thrown away, damaged as it is.
sub drop_all
{
	my $results = run_script('drops', sub {
		my $t = $_[0]->{name};
		return "TRUNCATE $t;\n\\echo '$t|truncate' :SQLSTATE\nDROP TABLE $t;\n\\echo '$t|drop' :SQLSTATE\n" });
	my @bad = grep { !(grep { $_ eq 'drop 00000' } @{ $results->{$_} }) || grep { !/ (?:00000|XX001|58P01)$/ } @{ $results->{$_} } } map { $_->{name} } @tables;
	is("@bad", '', $node->name . ': DROP TABLE works over any damage');
	$node->safe_psql('postgres', 'DROP TABLE template');
	is_deeply([ data_files($node) ], [], $node->name . ': no data file is left');
	return;
}

foreach my $sums (0, 1)
{
	$put = $sums ? \&corrupt : \&patch;
	$node = new_cluster($sums ? 'with_checksums' : 'zoo', init => { extra => $sums ? ['-k'] : [] },
		conf => [ 'securefile.monitor = off', 'max_locks_per_transaction = 256', 'full_page_writes = on' ]);
	@tables = ();
	foreach my $where (sort keys %places)
	{
		next if $sums && $where =~ /^data/;
		my $place = $places{$where};
		push @tables, { name => "z_${where}_$_", where => $where, kind => $_, place => $place, options => $place->{options} || 'logging' } foreach @kinds;
	}
	foreach my $where ($sums ? () : sort keys %odd)
	{
		my $n = 0;
		push @tables, map { { name => "z_odd_${where}_" . $n++, where => $where, kind => 'odd', place => $places{$where}, options => 'logging', odd => $_ } } @{ $odd{$where} };
	}
	build();
	$_->{file} = $_->{place}{page} ? $_->{relation} : $_->{data} foreach @tables;
	start_damaged();
	look_at_all();
	start_undone('immediate');
	my $unsound = run_script('undone', sub {
		my $t = $_[0]->{name};
		return "SELECT '$t', finding, detail FROM securefile_check('$t', 'doc');\nSELECT '$t', id, seen(doc, want) FROM $t WHERE seen(doc, want) <> 'right';\n" });
	is_deeply($unsound, {}, $node->name . ': all undone, all sound');
	$node->append_conf('postgresql.conf', 'securefile.monitor = on');
	start_damaged();
	write_to_all();
	start_undone('fast');
	acknowledged();
	start_damaged();
	drop_all();
	$node->stop;
}
note("$damages damages");
done_testing();
