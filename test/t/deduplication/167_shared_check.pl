# Share records under securefile_check() and securefile_repair(): each kind of damage to them,
# to the list of their pages, and to the entries about them is found and mended.  All rows can
# be read before and after, no reference is counted too low, and no space stays for ever.
# Each damage has a table of its own, so that one stop of the server damages all.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use List::Util qw(min);
use SecurefilePages;
use SecurefileShares;
use SecurefileTest;
use Test::More;

my $node = new_cluster('shared', conf => [ 'securefile.monitor = off', 'full_page_writes = off',
		'checkpoint_timeout = 1h', 'restart_after_crash = on' ]);
need_faults($node);

# ---- the damages ----

my $urgent = qr/^correct\|wrong reference count\|[^\n]*too low: repair it before rows are deleted$/m;
my $lists = qr/^rebuild lists of pages\|/m;

# what, findings, a function of the file of the segment relation and its pages
my @kinds = (
	[ 'a count that is too low', $urgent, sub { my $r = record_of($_[1], 100000); set_record($_[0], $r, AT_REFERENCES, pack('V', $r->{references} - 1)) } ],
	[ 'a count of 0', $urgent, sub { set_record($_[0], record_of($_[1], 100000), AT_REFERENCES, pack('V', 0)) } ],
	[ 'a count that is too high', qr/^correct\|wrong reference count\|[^\n]*: too high$/m, sub { my $r = record_of($_[1], 200000); set_record($_[0], $r, AT_REFERENCES, pack('V', $r->{references} + 1)) } ],
	[ 'a record that is dead', qr/^correct\|wrong reference count\|[^\n]*although rows have it: repair it at once$/m, sub { set_record($_[0], record_of($_[1], 100000), AT_STATE, pack('v', DEAD)) } ],
	[ 'a record that is reserved', qr/^correct\|wrong reference count\|[^\n]*repair it at once$/m, sub { set_record($_[0], record_of($_[1], 5000), AT_STATE, pack('v', RESERVED)) } ],
	[ 'a record that is new again', qr/^correct\|wrong reference count\|[^\n]*it has to be live$/m, sub { set_record($_[0], record_of($_[1], 5000), AT_STATE, pack('v', NEW)) } ],
	[ 'a record of zeros', qr/^rebuild record\|reference to nothing\|.*^correct\|damaged page\|[^\n]*uses cells without a share record/ms,
		sub { my $r = record_of($_[1], 100000); set_record($_[0], $r, 0, "\0" x (CELL * $r->{cells})) } ],
	[ 'cells that are free', qr/^rebuild record\|reference to nothing\|/m, sub { change($_[0], (pages_of($_[1], PAGE_SHARE))[0], CONTENT + 8, "\0" x 16) } ],
	[ 'a record of another object', qr/^rebuild record\|reference to nothing\|/m, sub { set_record($_[0], record_of($_[1], 100000), 0, pack('Q<', 40_000_000)) } ],
	[ 'a map that differs', qr/^rebuild record\|shared map differs\|/m, sub { my $r = record_of($_[1], 100000); set_record($_[0], $r, AT_LOCATOR + 48, pack('Q<', 8)) } ],
	[ 'a share page of zeros', qr/^rebuild record\|reference to nothing\|/m, sub { zero_pages(@_, PAGE_SHARE) } ],
	[ 'a share page of zeros that no list leads to', qr/^rebuild record\|reference to nothing\|/m,
		sub { zero_pages(@_, PAGE_SHARE); change($_[0], 0, SHARE_HEAD, pack('V', 0)) } ],
	[ 'a record of zeros on a page that no list leads to', qr/^rebuild record\|reference to nothing\|/m,
		sub
		{
			my $r = record_of($_[1], 100000);
			set_record($_[0], $r, 0, "\0" x (CELL * $r->{cells}));
			change($_[0], 0, SHARE_HEAD, pack('V', 0));
		} ],
	[ 'a bit of a share page', qr/^rebuild page\|unreadable\|/m, sub { patch($_[0], (pages_of($_[1], PAGE_SHARE))[0] * PAGE + CELLS + 3, "\x63") } ],
	[ 'a list that begins nowhere', qr/^rebuild lists of pages\|damaged list of pages\|[^\n]*the list of share pages does not lead to/m, sub { change($_[0], 0, SHARE_HEAD, pack('V', 0)) } ],
	[ 'a list that begins at another page', $lists, sub { change($_[0], 0, SHARE_HEAD, pack('V', (pages_of($_[1], PAGE_PENDING))[0])) } ],
	[ 'a list that begins behind the end', $lists, sub { change($_[0], 0, SHARE_HEAD, pack('V', 99_996)) } ],
	[ 'a list that bites its tail', $lists, sub { my ($page) = pages_of($_[1], PAGE_SHARE); change($_[0], $page, CONTENT, pack('V', $page)) } ],
	[ 'a drop that was forgotten', qr/^set free\|shared object nobody refers to\|.*^set free\|used but not owned\|/ms, sub
		{
			my ($file, $all) = @_;
			my $r = record_of($all, 9000);
			foreach (entries_of($all, REF_DROP))
			{
				my ($page, $at) = @$_;
				next unless unpack('V x4', substr($all, $page * PAGE + $at + 8, 8)) == $r->{page} && unpack('v', substr($all, $page * PAGE + $at + 12, 2)) == $r->{cell};
				# an addition of a transaction that has committed: it does nothing
				change($file, $page, $at + 20, pack('C', REF_ADD));
			}
		} ],
	[ 'an entry for a record that is not there', qr/^rebuild lists of pages\|pending entry can never resolve\|[^\n]*there is no such share record/m, sub
		{
			my ($file, $all) = @_;
			my ($page, $at) = @{ (entries_of($all, REF_DROP))[0] };
			change($file, $page, $at + 12, pack('v', 125));
		} ],
	[ 'an entry for another object', qr/^rebuild lists of pages\|pending entry can never resolve\|/m, sub
		{
			my ($file, $all) = @_;
			my ($page, $at) = @{ (entries_of($all, SHARE_NEW))[0] };
			change($file, $page, $at + 14, pack('v', 60_000));
		} ],
	[ 'a page that the relation has not', $lists, sub
		{
			my ($file, $all) = @_;
			my ($page, $at) = @{ (entries_of($all, REF_ADD))[0] };
			change($file, $page, $at + 8, pack('V', 50_004));
		} ],
	[ 'a record without rows that has the space of others', qr/^rebuild lists of pages\|sector owned twice\|[^\n]*share record without rows/m, sub
		{
			my ($file, $all) = @_;
			my ($mine, $other) = map { record_of($all, $_) } 9000, 200000;
			my $runs = sub { return substr($all, $_[0]{page} * PAGE + $_[0]{at} + AT_LOCATOR + 48, 8) };
			set_record($file, $mine, AT_LOCATOR + 48, $runs->($other));
		} ],
	[ 'a header with a number of before', qr/^correct\|header page behind\|\|\|[^\n]*takes object/m, sub { change($_[0], 0, NEXT_OBJECT, pack('Q<', 9)) } ],
	[ 'a queue of zeros', qr/^correct\|wrong reference count\|/m, sub { zero_pages(@_, PAGE_PENDING) } ],
	[ 'a queue that was forgotten', qr/^set free\|shared object nobody refers to\|/m, sub { change($_[0], 0, PENDING_HEAD, pack('VV', NONE, NONE)) } ],
	[ 'queue and share page of zeros', qr/^rebuild record\|reference to nothing\|/m, sub
		{
			zero_pages(@_, PAGE_PENDING);
			zero_pages(@_, PAGE_SHARE);
		} ]);
my @mended = map { "mended_$_" } 0 .. $#kinds;

# a queue of zeros with one kind of entry on it
my @entries = stirred();
my @queues = map { "queue_$_" } 0 .. $#entries;

sql(map({ made($_) } @mended, @queues), map({ stir($_) } @mended), map { stirred($queues[$_], $entries[$_]) } 0 .. $#entries);
is(sql("SELECT count(*) FROM (VALUES ('" . join("'), ('", @mended, @queues) . "')) t (t), securefile_check(t::regclass, 'doc')"), 0, 'all is sound before');
is(sql("SELECT count(DISTINCT seed), count(*) FROM $_"), '5|9', "$_ has references") foreach $mended[0];
my %nrows = nrows($node, @mended, @queues);
my %segments = segments($node, @mended, @queues);
$node->stop;
my %was = map { $_ => slurp($segments{$_}) } @mended, @queues;
foreach my $kind (SHARE_NEW, REF_ADD, REF_DROP)
{
	my $least = min(map { scalar(entries_of($was{$_}, $kind)) } @mended);
	cmp_ok($least, '>=', 2, "entries of kind $kind are pending in all tables");
}
$kinds[$_][2]->($segments{ $mended[$_] }, $was{ $mended[$_] }) foreach 0 .. $#kinds;
zero_pages($segments{$_}, $was{$_}, PAGE_PENDING) foreach @queues;
my %damaged = map { $_ => slurp($segments{$_}) } @mended;
$node->start;

# ---- each kind is found, not touched by a dry run, mended ----

my @names = ((map { $_->[0] } @kinds), (map { "a queue of zeros with $_" } @entries));
my @all = (@mended, @queues);
my @before = answers($node, map { wrong($_) } @all);
my @plans = answers($node, map { planned($_, 'true') } @all);
$node->safe_psql('postgres', 'CHECKPOINT');
ok(slurp($segments{ $mended[$_] }) eq $damaged{ $mended[$_] }, "$names[$_]: a dry run changes nothing") foreach 0 .. $#mended;
my @done = answers($node, map { planned($_, 'false') } @all);
my @after = answers($node, map { counted($_) . checked($_) } @all);
$node->stop('immediate');
$node->start;
my @ends = answers($node, map { outlived($_) } @all);
foreach my $i (0 .. $#all)
{
	note("$names[$i]:\n$plans[$i]");
	like($plans[$i], $i < @kinds ? $kinds[$i][1] : qr/^rebuild lists of pages\|/m, "$names[$i]: what would be done");
	is($before[$i], '0', "$names[$i]: before");
	is($done[$i], $plans[$i], "$names[$i]: the same was done");
	is($after[$i], "$nrows{$all[$i]}|0", "$names[$i]: afterwards all rows are there, and all is sound");
	is($ends[$i], "0\n0|0|0", "$names[$i]: no reference is missing, and no space");
}

unlike(slurp($node->logfile), qr/TRAP: |PANIC|terminated by signal|\bXX000\b/, 'no crash');
$node->stop;
done_testing();
