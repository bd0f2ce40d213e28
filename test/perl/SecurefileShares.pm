# For tests of shared objects under damage: tables whose rows refer to share records in all
# states, with pending entries of all kinds, and ways to find and change these on disk.

package SecurefileShares;

use strict;
use warnings;

use Exporter qw(import);
use SecurefilePages;
use SecurefileTest;

use constant {
	PAGE_SHARE => 7,
	SHARE_HEAD => CONTENT + 104,
	NEXT_OBJECT => CONTENT + 16,
	CELLS => CONTENT + 24,
	CELL => 64
};

# places in a record; its states
use constant {
	AT_REFERENCES => 16,
	AT_STATE => 20,
	AT_LENGTH => 48,
	AT_LOCATOR => 64
};
use constant { RESERVED => 1, NEW => 2, LIVE => 3, DEAD => 4 };

# kinds of pending entries
use constant { SHARE_NEW => 5, REF_ADD => 6, REF_DROP => 7, REAP => 8 };

our @EXPORT = qw(PAGE_SHARE SHARE_HEAD NEXT_OBJECT CELLS CELL AT_REFERENCES AT_STATE AT_LENGTH AT_LOCATOR RESERVED NEW LIVE DEAD
  SHARE_NEW REF_ADD REF_DROP REAP made copied stored deleted maintained stirred stir wrong counted checked planned outlived
  answers nrows segments records record_of entries_of set_record zero_pages);

# ---- what a table has: statements ----

# Contents 1 (ids 1 to 3), 4 (4, 5), 6 (6), 7 (7, 8), and free space before them, so that
# the segment need not grow: what grows it resolves first.
sub made
{
	my ($t) = @_;
	return ("CREATE TABLE $t (id int PRIMARY KEY, seed int, len int, doc securefile(deduplicate))",
		"INSERT INTO $t VALUES (100, 100, 1000000, blob(100, 1000000))",
		"INSERT INTO $t SELECT id, seed, len, blob(seed, len) FROM (VALUES (1, 1, 100000), (2, 1, 100000), (3, 1, 100000),"
		  . ' (4, 4, 200000), (5, 4, 200000), (6, 6, 5000), (7, 7, 9000), (8, 7, 9000)) v (id, seed, len)',
		"DELETE FROM $t WHERE id = 100", maintained($t));
}

sub copied { my ($t, $from, $to) = @_; return "INSERT INTO $t SELECT $to, seed, len, doc FROM $t WHERE id = $from"; }
sub stored { my ($t, $id, $len) = @_; return "INSERT INTO $t VALUES ($id, $id, $len, blob($id, $len))"; }
sub deleted { my ($t, @ids) = @_; return "DELETE FROM $t WHERE id IN (" . join(', ', @ids) . ')'; }
sub maintained { return "DO \$\$ BEGIN PERFORM securefile_maintain('$_[0]', 'doc'); END \$\$"; }
sub failed { return ('BEGIN', @_, 'ROLLBACK'); }

# Entries of each kind, of transactions that have committed and that have failed.
my %stirred = (
	'SHARE_NEW, committed' => sub { stored($_[0], 10, 70000), copied($_[0], 10, 11) },
	'SHARE_NEW, failed' => sub { failed(stored($_[0], 12, 70000)) },
	'SHARE_NEW, failed after PREPARE' => sub { 'BEGIN', stored($_[0], 13, 70000), "PREPARE TRANSACTION '$_[0]'", "ROLLBACK PREPARED '$_[0]'" },
	'SHARE_NEW, not kept' => sub { 'BEGIN', 'SAVEPOINT s', stored($_[0], 14, 70000), 'ROLLBACK TO s', stored($_[0], 15, 10), 'COMMIT' },
	'SHARE_NEW, stored and deleted' => sub { 'BEGIN', stored($_[0], 16, 70000), deleted($_[0], 16), 'COMMIT' },
	'REF_ADD, committed' => sub { copied($_[0], 1, 9) },
	'REF_ADD, failed' => sub { failed(copied($_[0], 4, 17)) },
	'REF_DROP, committed' => sub { deleted($_[0], 2), deleted($_[0], 7, 8) },
	'REF_DROP, failed' => sub { failed(deleted($_[0], 3)) });

# The names of them; what one does to a table; what all do.
sub stirred { my ($t, $what) = @_; return defined $what ? $stirred{$what}->($t) : sort keys %stirred; }
sub stir { my ($t) = @_; return map { $stirred{$_}->($t) } reverse sort keys %stirred; }

# ---- questions: a statement each, with its semicolon ----

# Rows that do not have what they say; all rows, and these; findings; repairs.
sub wrong { return "SELECT count(*) FROM $_[0] WHERE doc::bytea IS DISTINCT FROM blob(seed, len);\n"; }
sub counted { return "SELECT count(*), count(*) FILTER (WHERE doc::bytea IS DISTINCT FROM blob(seed, len)) FROM $_[0];\n"; }
sub checked { return "SELECT finding, ctid, detail FROM securefile_check('$_[0]', 'doc');\n"; }
sub planned { return "SELECT action, finding, ctid, segment_offset, length_bytes, detail FROM securefile_repair('$_[0]', 'doc', $_[1]);\n"; }

# Every reference but one of each content goes, and what is freed by that is written over.
# Then all goes, and with it all space.  Answers "0\n0|0|0" if no reference was missing.
sub outlived
{
	my ($t) = @_;
	return join '', "DELETE FROM $t WHERE id NOT IN (SELECT min(id) FROM $t GROUP BY seed);\n", maintained($t), ";\n",
	  "INSERT INTO $t SELECT i, i, 60000, blob(i, 60000) FROM generate_series(100001, 100010) i;\n", wrong($t), checked($t),
	  "DELETE FROM $t;\n", maintained($t), ";\n", maintained($t), ";\n",
	  "SELECT live_bytes, pending_bytes, shared_objects FROM securefile_usage('$t', 'doc');\n", checked($t);
}

# The answers to many, by one session: psql and a backend take longer to start.
sub answers
{
	my ($node, @questions) = @_;
	my $out = $node->safe_psql('postgres', join("\\echo ====\n", @questions));
	return map { s/\n\z//r } split /^====(?:\n|\z)/m, $out, -1;
}

# How many rows tables have, by table; files of their segment relations.
sub nrows
{
	my ($node, @tables) = @_;
	my @n = answers($node, map { "SELECT count(*) FROM $_;\n" } @tables);
	return map { $tables[$_] => $n[$_] } 0 .. $#tables;
}

sub segments
{
	my ($node, @tables) = @_;
	my @files = answers($node, map { "SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = 'pg_securefile_' || '$_'::regclass::oid || '_4';\n" } @tables);
	return map { $tables[$_] => $node->data_dir . "/$files[$_]" } 0 .. $#tables;
}

# ---- pages: the bytes of all of a segment relation ----

# The records, each with its page, its cell, its place on the page, and the length of its value.
sub records
{
	my ($all) = @_;
	my @records;
	foreach my $page (pages_of($all, PAGE_SHARE))
	{
		my $used = unpack('b*', substr($all, $page * PAGE + CONTENT + 8, 16));
		for (my $cell = 0; $cell < 126;)
		{
			$cell++ and next unless substr($used, $cell, 1);
			my $at = CELLS + $cell * CELL;
			my $record = substr($all, $page * PAGE + $at, 64);
			my ($object, undef, $references, $state) = unpack('Q< Q< V v', $record);
			my $n = int((64 + unpack('v', substr($record, 58, 2)) + 63) / 64);
			push @records, { object => $object, page => $page, cell => $cell, at => $at, references => $references, state => $state, cells => $n,
				length => unpack('Q<', substr($record, AT_LENGTH, 8)) };
			$cell += $n;
		}
	}
	return @records;
}

# The record of the value with that length.
sub record_of
{
	my ($all, $len) = @_;
	my ($record) = grep { $_->{length} == $len } records($all);
	return $record || die "no record of length $len";
}

# Places of pending entries of a kind: page, offset.
sub entries_of
{
	my ($all, $kind) = @_;
	return map {
		my $page = $_;
		map { [ $page, PENDING_ENTRIES + 24 * $_ ] }
		  grep { unpack('C', substr($all, $page * PAGE + PENDING_ENTRIES + 24 * $_ + 20, 1)) == $kind }
		  0 .. unpack('v', substr($all, $page * PAGE + CONTENT + 4, 2)) - 1
	} pages_of($all, PAGE_PENDING);
}

sub set_record { my ($file, $record, $at, $bytes) = @_; change($file, $record->{page}, $record->{at} + $at, $bytes); return; }

# Zeros in the place of all pages of a type.
sub zero_pages { my ($file, $all, $type) = @_; patch($file, $_ * PAGE, "\0" x PAGE) foreach pages_of($all, $type); return; }

1;
