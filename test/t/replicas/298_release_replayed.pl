# Holes of released space on other servers: a standby that is killed in the replay of a release,
# or promoted there; recovery to a point between two records of a release; a backup that was
# copied after the release, whose replay must not punch what is newer; a crash of the primary;
# base backups while releases run.  Values are what they were, also those of
# filesystem_like_logging columns that lie where holes were.  bytes on disk are as they should be.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my ($rows, $len) = (64, 300_000);
my %options = (l => 'logging', f => 'filesystem_like_logging');
my $live = $rows / 4;
my $primary = new_cluster('primary', init => { allows_streaming => 1 },
	conf => [ 'securefile.monitor = off', 'restart_after_crash = on', 'wal_keep_size = 1GB', 'checkpoint_timeout = 1h', 'max_wal_size = 4GB',
		# else pages that are written would say how far a standby has come
		'bgwriter_lru_maxpages = 0' ]);
need_faults($primary);
my $from = $primary->connstr();

sub release { return $_[0]->safe_psql('postgres', "CALL securefile_shrink('$_[1]', 'doc')"); }
sub space { return split /\|/, $_[0]->safe_psql('postgres', "SELECT file_bytes, disk_bytes FROM securefile_usage('$_[1]', 'doc')"); }
sub disk { return (space(@_))[1]; }
sub starts { $_[0]->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery'; return; }

# Three of four rows go; the last one stays, so that no tail is cut.
sub make_free
{
	my ($table) = @_;
	sql("DELETE FROM $table WHERE id % 4 <> 0");
	settle($primary, $table, 'doc');
	return;
}

# What is free in l is released, on a server that goes on.
sub releases
{
	my ($node, $name, $count) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	rows_right($node, 'l', $count, $name);
	sound($node, 'l', $name);
	release($node, 'l');
	my $usage = usage($node, 'l', 'doc');
	cmp_ok(disk($node, 'l'), '<=', $usage->{live_bytes} * 1.1 + $usage->{file_bytes} / 8 + mb(1), "$name: free space is released");
	rows_right($node, 'l', $count, "$name, released");
	sound($node, 'l', "$name, released");
	return;
}

# All values are there; what is free is used again, in the files that there are, and released again.
sub goes_on
{
	my ($node, $name, $in_l, $in_f) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($length) = space($node, 'l');
	rows_right($node, 'l', $in_l, $name);
	rows_right($node, 'f', $in_f, $name);
	fill($node, 'l', 90_001, 90_030, $len);
	is((space($node, 'l'))[0], $length, "$name: what was claimed is free, and used");
	rows_right($node, 'l', $in_l + 30, "$name, used again");
	$node->safe_psql('postgres', 'DELETE FROM l WHERE id > 90000');
	releases($node, $name, $in_l);
	return;
}

foreach my $table (sort keys %options)
{
	make_table($primary, $table, $options{$table});
	fill($primary, $table, 1, $rows, $len);
	make_free($table);
}
sql('CHECKPOINT');
$primary->backup('base');
my ($killed, $promoted) = map { new_standby($_, $primary, 'base') } ('killed', 'promoted');
my ($file, $full) = space($primary, 'l');

# ---- in the middle of a release: one record of it is there, and no more ----
$killed->safe_psql('postgres', q{SELECT securefile_fault('redo_release', 'kill')});
$promoted->safe_psql('postgres', q{SELECT securefile_fault('redo_release', 'wait')});
my $session = background($primary);
ok(held($primary, $session, 'release_before', "CALL securefile_shrink('l', 'doc')", skip => 1), 'a release stands between two records');
my $between = $primary->lsn('insert');
my $half = disk($primary, 'l');
cmp_ok($half, '<', $full, "it has released some: $half of $full bytes on disk");

# a promotion while replay stands at the record
ok(wait_for_sql($promoted, q{SELECT securefile_fault_fired('redo_release') > 0}), 'replay of it stands');
system_or_bail('pg_ctl', '-D', $promoted->data_dir, '--no-wait', 'promote');
$promoted->safe_psql('postgres', q{SELECT securefile_fault('redo_release', 'none')});
starts($promoted);
cmp_ok(disk($promoted, 'l'), '<=', $half + mb(1), 'promoted: it has the holes of this record');
goes_on($promoted, 'promoted', $live, $live);
$promoted->stop;

# a standby that was killed there keeps room for these holes, and has those of the next record
ok(wait_until(sub { !-e $killed->data_dir . '/postmaster.pid' || !kill(0, $killed->{_pid}) }), 'a standby dies in the replay');
$killed->kill9;
$killed->start;
resume($primary, $session, 'release_before');
$session->quit;
catch_up($primary, $killed);
my $done = disk($primary, 'l');
cmp_ok($done, '<', $half, "the release goes on: $done bytes on disk");
cmp_ok(abs(disk($killed, 'l') - ($done + $full - $half)), '<=', mb(1), 'the standby lacks the holes of the record at which it died');
rows_right($killed, $_, $live, 'killed') foreach sort keys %options;

# ---- holes are not punched under what is newer ----

# a standby has replayed the release and fetched what has no data in WAL; it starts again from before
release($primary, 'f');
fill($primary, 'f', 2001, 2030, $len);
catch_up($primary, $killed);
like($killed->safe_psql('postgres', "SELECT sum(fetched_values) FROM securefile_fetch_left_behind('$from')"), qr/^(?:2\d|30)$/, 'values where holes were are fetched');
rows_right($killed, 'f', $live + 30, 'fetched');
crash($killed);
$killed->start;
rows_right($killed, 'f', $live + 30, 'fetched, crashed');
$killed->stop;

# the primary recovers from the checkpoint that was before the release
crash($primary);
$primary->start;
rows_right($primary, 'f', $live + 30, 'primary, crashed');
rows_right($primary, 'l', $live, 'primary, crashed');
sound($primary, $_, 'primary, crashed') foreach sort keys %options;
cmp_ok(disk($primary, 'l'), '<=', $done, 'primary, crashed: holes are there');

# a backup begins, its files are copied when the release is over and its space used again
my $by_hand = $primary->backup_dir . '/by_hand';
my $backup = background($primary);
sql('DELETE FROM f WHERE id > 2000');
settle($primary, 'f', 'doc');
$backup->query_safe(q{SELECT pg_backup_start('by hand', true)});
release($primary, 'f');
fill($primary, 'f', 3001, 3030, $len);
sql('CHECKPOINT');
mkdir $by_hand or die $!;
# files that go meanwhile are none of ours
system('sh', '-c', "cp -a '" . $primary->data_dir . "/.' '$by_hand' 2>'$by_hand.log'");
write_file("$by_hand/backup_label", $backup->query_safe('SELECT labelfile FROM pg_backup_stop(false)') . "\n");
$backup->quit;
unlink "$by_hand/postmaster.pid";
system_or_bail('sh', '-c', "cp -a '" . $primary->data_dir . "/pg_wal/.' '$by_hand/pg_wal'");

# A server that was restored from a backup of the primary, as far as its settings say.
sub restored
{
	my ($name, $from_backup, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, $from_backup, standby => 0, @conf ? (has_restoring => 1) : ());
	$node->append_conf('postgresql.conf', $_) foreach 'archive_mode = off', @conf;
	$node->start;
	starts($node);
	return $node;
}
my $node = restored('copied', 'by_hand');
goes_on($node, 'copied', $live, $live + 30);
$node->stop;

# ---- recovery to between the two records ----
my $wal = $primary->data_dir . '/pg_wal';
sql('SELECT pg_switch_wal()');
$node = restored('to_between', 'base', "restore_command = 'cp \"$wal/%f\" \"%p\"'",
	"recovery_target_lsn = '$between'", 'recovery_target_inclusive = off', 'recovery_target_action = promote');
my ($length, $there) = space($node, 'l');
is($length, $file, 'between: files are as long as they were');
cmp_ok(abs($there - $half), '<=', mb(1), "between: $there bytes on disk, $half on the primary then");
goes_on($node, 'between', $live, $live);
$node->stop;

# ---- base backups while values come and go and releases run ----
prepare_load($primary, changed => 4, keep => 20, size => 'CASE WHEN k % 8 = 0 THEN 3000000 ELSE 300000 + k * 7919 % 280000 END');
my @fixed = split /\n/, sql('SELECT id FROM f WHERE id BETWEEN 20 AND 1000');
under_load($primary, 20, sub {
	my $releases = background($primary);
	my $pid = $releases->query_safe('SELECT pg_backend_pid()');
	$releases->{stdin} .= "SELECT FROM securefile_maintain('$_', 'doc');\nCALL securefile_shrink('$_', 'doc');\n" foreach ('l', 'f') x 200;
	$releases->{run}->pump_nb;
	$primary->backup('meanwhile', backup_options => ['--max-rate=40M']);
	sql("SELECT pg_terminate_backend($pid)");
	eval { $releases->quit };
});
command_ok([ 'pg_verifybackup', $primary->backup_dir . '/meanwhile' ], 'pg_verifybackup');
$node = restored('meanwhile', 'meanwhile');
is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT outcome(doc, seed, len), ' ') FROM f WHERE id IN (" . join(', ', @fixed) . ')'),
	'right', 'meanwhile: what was there before the backup is in it');
right_or_left_behind($node, 'f', 'meanwhile');
releases($node, 'meanwhile', $node->safe_psql('postgres', 'SELECT count(*) FROM l'));
$node->stop;
$primary->stop;
unlike(slurp_file($_->logfile), qr/PANIC|TRAP/, $_->name . ': nothing else in the log') foreach $primary, $killed, $promoted;
done_testing();
