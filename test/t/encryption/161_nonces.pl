# No nonce is given twice: not to equal values, to edits of one value in two sessions, after
# rollbacks, after crashes that give object ids again, on two standbys that are promoted at one
# point, in two recoveries of one backup, in two copies of a stopped server, which then all do the same.  The
# nonces of rows, units and wrapped keys are read from the files, or from what a session sees
# whose work is lost.  SECUREFILE_NONCES: how many there are at least.

use strict;
use warnings;
use Digest::MD5 qw(md5);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefilePages;
use SecurefileTest;
use Test::More;

# lengths of nonces, and of what is compared behind them; entries of key pages
use constant { NONCE => 24, BODY => 32, KEY_ENTRIES => CONTENT + 16, KEY => 128, SEALED => 4, STORED => 2, KEYED => 8 };

my $wanted = $ENV{SECUREFILE_NONCES} || 30_000;
# rows that are made nine times, besides the rest
my $rows = int($wanted / 9);
my $rounds = $wanted > 100_000 ? 10 : 2;

# ---- what was given to whom ----

# Servers that go on from one point, each by itself, have numbers of their own.  What their
# common ancestor has made is in the files of all.
my @parent = (undef);

sub branch { my ($from) = @_; push @parent, $from; return $#parent }

sub descends
{
	my ($branch, $from) = @_;
	while (defined $branch && $branch > $from) { $branch = $parent[$branch] }
	return defined $branch && $branch == $from;
}

my (%given, %made, @twice, %objects);

# A nonce is at a place, with what was encrypted with it behind it.  It was given twice if it
# is elsewhere, too, or somebody else has made it.
sub note_nonce
{
	my ($branch, $kind, $place, $nonce, $body) = @_;
	# a place that nothing was written to, or of which something else is the end
	return if substr($nonce, 16) eq "\0" x 8;
	my $what = substr(md5("$place $body"), 0, 8);
	my $first = $given{$nonce};
	if (!defined $first)
	{
		$given{$nonce} = pack('v a8', $branch, $what);
		$made{$kind}++;
		return 1;
	}
	my ($maker, $before) = unpack('v a8', $first);
	push @twice, "$kind at $place of $branch, $maker" unless $before eq $what && descends($branch, $maker);
	return 0;
}

# ---- where they are ----

# Values of column 2 of a heap, and where they are, dead ones too; column 1 is an integer.
sub heap_values
{
	my ($file) = @_;
	my ($all, @values) = (slurp($file));
	for (my $page = 0; $page < length $all; $page += PAGE)
	{
		my $end = unpack('v', substr($all, $page + 12, 2));
		next if $end < 24;
		foreach my $pointer (unpack('V*', substr($all, $page + 24, $end - 24)))
		{
			next if ($pointer >> 15 & 3) != 1;
			my $at = $page + ($pointer & 0x7fff);
			my $end = $at + ($pointer >> 17);
			$at += 4 + ord substr($all, $at + 22, 1);
			next if $at >= $end;
			my $head = unpack('V', substr($all, $at, 4));
			push @values, [ $at, $head & 1 ? substr($all, $at + 1, ($head >> 1 & 0x7f) - 1) : substr($all, $at + 4, ($head >> 2) - 4) ];
		}
	}
	return @values;
}

sub note_unit
{
	my ($branch, $kind, $data, $file, $offset, $object) = @_;
	my $new = note_nonce($branch, $kind, "$file $offset", substr($data, $offset, NONCE), substr($data, $offset + NONCE, BODY));
	$objects{$object}{$branch}++ if $new;
	return;
}

# The value of a row, at some place.
sub note_value
{
	my ($branch, $value, $place, $data, $file) = @_;
	my $form = ord $value;
	note_nonce($branch, 'rows', $place, substr($value, NONCE, NONCE), substr($value, 2 * NONCE, BODY)) if $form == SEALED;
	return if $form != STORED;
	my %l = locator($value);
	die 'a unit that is not encrypted' unless $l{flags} & KEYED;
	note_unit($branch, 'units', $data, $file, $_->{offset}, unpack('H*', substr($value, 16, 8) . substr($value, 32, 8))) foreach @{ $l{units} || [] };
	return;
}

# Units of inode pages, and wrapped keys, of a segment relation.
sub note_pages
{
	my ($branch, $segment, $file, $data) = @_;
	foreach my $page (pages_of($segment, PAGE_INODE))
	{
		my $content = substr($segment, $page * PAGE + CONTENT, PAGE - CONTENT - 16);
		my ($level, $n) = unpack('x24 v v', $content);
		next if $level != 0;
		foreach my $start (map { unpack('Q<', substr($content, 32 + 24 * $_, 8)) } 0 .. $n - 1)
		{
			note_unit($branch, 'units', $data, $file, $start * SECTOR, "inode $page") if $start * SECTOR < length $data;
		}
	}
	foreach my $page (pages_of($segment, PAGE_KEYS))
	{
		my $n = unpack('V', substr($segment, $page * PAGE + CONTENT, 4));
		# both pages have the same
		foreach my $entry (map { substr($segment, $page * PAGE + KEY_ENTRIES + KEY * $_, KEY) } 0 .. $n - 1)
		{
			note_nonce($branch, 'keys', "$file " . unpack('v', $entry), substr($entry, 56, NONCE), substr($entry, 80, 48));
		}
	}
	return;
}

my $columns = q{SELECT pg_relation_filepath(relid), pg_relation_filepath(segment_relid), regexp_replace(data_files, 'seg-.*', 'seg-00000000.sf') FROM securefile_columns};

# All that is in the files of a server, or that is of one table.
sub collect
{
	my ($node, $branch, $table) = @_;
	my $which = $table ? "WHERE relname = '$table'" : '';
	foreach (split /\n/, $node->safe_psql('postgres', "CHECKPOINT; $columns $which"))
	{
		my ($heap, $segment, $file) = split /\|/;
		my $top = $node->data_dir;
		my $data = -e "$top/$file" ? slurp("$top/$file") : '';
		note_value($branch, $_->[1], "$heap $_->[0]", $data, $file) foreach heap_values("$top/$heap");
		note_pages($branch, slurp("$top/$segment"), $file, $data);
	}
	return;
}

# What a session sees of its own in a table, from a row on.
sub collect_seen
{
	my ($node, $branch, $session, $table, $from) = @_;
	my $seen = $node->basedir . '/seen';
	my $file = $session->query_safe("SELECT data_files FROM securefile_columns WHERE relid = '$table'::regclass") =~ s/seg-.*/seg-00000000.sf/r;
	my $n = 0;
	$session->query_safe("COPY (SELECT encode(doc::raw::bytea, 'hex') FROM $table WHERE id >= $from) TO '$seen'");
	my $data = slurp($node->data_dir . "/$file");
	note_value($branch, pack('H*', $_), "seen $table $from, " . ++$n, $data, $file) foreach split /\n/, slurp($seen);
	return;
}

# One test: no nonce has been given twice.
sub none_twice
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join("\n", @twice[ 0 .. ($#twice < 4 ? $#twice : 4) ]), '', "$name: none of " . scalar(keys %given) . ' nonces was given twice');
	@twice = ();
	return;
}

# Objects that more than one of these has made: the same id, and other nonces.
sub ids_again { my (@branches) = @_; return scalar(grep { my $of = $_; 1 < grep { $of->{$_} } @branches } values %objects) }

# ---- what is written ----

my $keys = PostgreSQL::Test::Utils::tempdir() . '/keys';
append_to_file($keys, 'one ' . ('11' x 32) . "\ntwo " . ('22' x 32) . "\n");
my $first = new_cluster('first',
	init => { allows_streaming => 1, has_archiving => 1 },
	conf => [ "securefile.key_command = 'cat $keys'", "securefile.master_key = 'one'", 'securefile.monitor = off', 'bgwriter_lru_maxpages = 0', 'wal_buffers = 64MB', 'checkpoint_timeout = 1h', 'max_wal_size = 10GB' ]);
make_raw_type($first);
my %options = (r => 'encrypt', u => 'encrypt', z => 'encrypt, compress_low', f => 'encrypt, filesystem_like_logging', k => 'encrypt');
sql(map { "CREATE TABLE $_ (id int, doc securefile($options{$_}))" } sort keys %options);

# The same statements for whoever runs them: equal values, and different ones; rolled back, and done again.
sub statements
{
	my ($from) = @_;
	my $all = "generate_series($from, $from + 99) i";
	my @stores = map { ("INSERT INTO $_ SELECT i, blob(7, 5000) FROM $all", "INSERT INTO $_ SELECT i, blob(i, 4200 + i % 100) FROM $all") } 'u', 'z', 'f';
	return (
		"INSERT INTO r SELECT i, 'alike' FROM generate_series(1, $rows) i", "INSERT INTO r SELECT i, blob(i, i % 1500 + 1) FROM $all",
		'BEGIN', @stores, 'ROLLBACK', @stores, 'BEGIN', 'SAVEPOINT a', @stores, 'ROLLBACK TO a', "INSERT INTO u SELECT $from, blob($from, 400000)", 'COMMIT',
		(map { "UPDATE u SET doc = overlay(doc placing blob($_, 100) FROM 131000) WHERE id = 1" } 1 .. 3),
		"SELECT securefile_new_key('k', 'doc')", "INSERT INTO k SELECT i, blob(i, 5000) FROM $all", "SELECT securefile_new_key('k', 'doc', true)");
}

my $at = branch(0);
sql('INSERT INTO u SELECT 1, blob(1, 400000)', 'INSERT INTO u SELECT 2, blob(2, 13000000)', statements(1000));
collect($first, $at);
none_twice('stores');
cmp_ok($made{rows}, '>=', $rows, 'all rows were found');
cmp_ok($made{units}, '>=', 1000 + 100, 'and units');
cmp_ok($made{keys}, '>=', 6, 'and keys');

# ---- two sessions edit one value ----

sql('INSERT INTO u SELECT 3, blob(3, 4000000)');
collect($first, $at);
my @editors = map { background($first) } 1, 2;
my @edited;
my @handles = map { $editors[$_]->query_safe("BEGIN; SELECT securefile_open(doc, 'rw') FROM u WHERE id = 3") =~ s/\s//gr } 0, 1;
# most of it is written at once, and so is there although it is rolled back
$editors[$_]->query_safe("SELECT securefile_seek($handles[$_], 100, 0), securefile_write($handles[$_], blob($_, 3000000))") foreach 0, 1;
foreach my $i (0, 1)
{
	my $before = $made{units};
	$editors[$i]->query_safe("UPDATE u SET doc = securefile_finish($handles[$i]) WHERE id = 3");
	push @edited, $editors[$i]->query_safe("SELECT encode(substring(doc::raw::bytea FROM 13 FOR 12), 'hex') FROM u WHERE id = 3");
	collect_seen($first, $at, $editors[$i], 'u', 3);
	cmp_ok($made{units} - $before, '>', 8, 'an edit makes units');
	$editors[$i]->query_safe($i ? 'COMMIT' : 'ROLLBACK');
	$editors[$i]->quit;
}
is($edited[0], $edited[1], 'two sessions make the same generation of an object');
collect($first, $at);
none_twice('two edits');

# ---- crashes ----

foreach my $round (1 .. $rounds)
{
	$at = branch($at);
	stop_walwriter($first);
	my $session = background($first);
	my $from = 100_000_000 + 1000 * $round;
	$session->query_safe('BEGIN');
	$session->query_safe("INSERT INTO $_ SELECT $from + i, blob($round * 7919 + i, 5000) FROM generate_series(1, 800) i") foreach 'u', 'f';
	$session->query_safe("INSERT INTO r SELECT $from + i, 'alike' FROM generate_series(1, 100) i");
	collect_seen($first, $at, $session, $_, $from) foreach 'u', 'f', 'r';
	crash($first);
	eval { $session->quit };
	$first->start;
}
$at = branch($at);
sql(statements(2000));
collect($first, $at);
none_twice('crashes');
cmp_ok(ids_again(1 .. $at), '>', 0, 'object ids were given again after a crash');

# ---- from one point on: two standbys, two recoveries, two copies, and the server itself ----

$first->backup('b');
my @servers;

sub copy_of
{
	my ($name, $backup, @how) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($first, $backup, @how);
	$node->append_conf('postgresql.conf', 'archive_mode = off');
	push @servers, $node;
	return $node;
}

foreach my $standby (map { copy_of("standby_$_", 'b', has_streaming => 1) } 1, 2)
{
	$standby->start;
	catch_up($first, $standby);
}
sql(q{SELECT pg_create_restore_point('here')});
my $last = sql('SELECT pg_walfile_name(pg_switch_wal())');
wait_for_sql($first, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") or die 'not archived';
catch_up($first, $_) foreach @servers;
$first->stop;
$first->backup_fs_cold('cold');
copy_of("recovered_$_", 'b', has_restoring => 1, standby => 0)->append_conf('postgresql.conf', "recovery_target_name = 'here'\nrecovery_target_action = promote") foreach 1, 2;
copy_of("copied_$_", 'cold') foreach 1, 2;
push @servers, $first;

my @branches;
foreach my $node (@servers)
{
	my $name = $node->name;
	if ($name =~ /standby/) { $node->promote } else { $node->start }
	wait_for_sql($node, 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
	$node->safe_psql('postgres', join(";\n", statements(3000)));
	push @branches, branch($at);
	collect($node, $branches[-1]);
	none_twice($name);
	cmp_ok(ids_again(@branches[ -2, -1 ]), '>', 500, "$name: has the object ids of the one before") if @branches > 1;
	$node->stop if $node != $first;
}

# ---- keys that are wrapped again and again ----

$at = $branches[-1];
sql(q{SELECT count(securefile_new_key('k', 'doc')) FROM generate_series(1, 40)});
foreach my $round (1 .. 2 * $rounds)
{
	cmp_ok(sql(q{SELECT securefile_rewrap('k', 'doc', '} . ($round % 2 ? 'two' : 'one') . q{')}), '>=', 40, 'keys are wrapped anew');
	collect($first, $at, 'k');
}
none_twice('wrapped keys');
cmp_ok($made{keys}, '>=', 2 * $rounds * 40, 'keys were found');
$first->stop;
note('figures: ' . join(', ', map { "$made{$_} $_" } sort keys %made) . ', of 7 servers that went on from one point; '
	  . ids_again(1 .. $#parent) . ' object ids were given more than once');
done_testing();
