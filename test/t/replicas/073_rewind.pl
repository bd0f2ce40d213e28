# pg_rewind: a primary that went its own way for a while becomes a standby of the
# promoted one, and later the primary again.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my %options = (l => '', f => 'filesystem_like_logging');

# Changes of a node's own: rows from an id on, in new space and in freed space.
sub diverge
{
	my ($node, $id) = @_;
	foreach my $t ('l', 'f')
	{
		$node->safe_psql('postgres', "DELETE FROM $t WHERE id % 3 = $id % 2");
		settle($node, $t, 'doc');
		fill($node, $t, $id + 1, $id + 9, '20000 + i % 10 * 60000');
		$node->safe_psql('postgres', "UPDATE $t SET seed = id + $id, len = len + 1000, doc = blob(id + $id, len + 1000) WHERE id % 5 = 0");
		fill($node, $t, $id + 10, $id + 10, 13_000_000);
	}
	return;
}

sub outcomes
{
	my ($node, $where) = @_;
	return $node->safe_psql('postgres',
		"SELECT string_agg(DISTINCT outcome(doc, seed, len), ' ') FROM f WHERE $where");
}

sub count_of { return $_[0]->safe_psql('postgres', 'SELECT count(*) FROM l'); }

# Rows of both tables where the data is, or may be.
sub same
{
	my ($old, $new, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	catch_up($new, $old);
	rows_right($old, 'l', count_of($new), $name);
	is($old->safe_psql('postgres', "SELECT * FROM securefile_check('l', 'doc') LIMIT 5"), '', "$name: l is sound");
	return right_or_left_behind($old, 'f', $name);
}

# Run pg_rewind; the settings of the rewound server are its own.
sub rewind
{
	my ($old, $new, $way) = @_;
	my $conf = $old->data_dir . '/postgresql.conf';
	my $kept = $old->basedir . '/postgresql.conf.kept';
	my @source = ('--source-server', $new->connstr('postgres'));

	if ($way eq 'pgdata')
	{
		$new->stop;
		@source = ('--source-pgdata', $new->data_dir);
	}
	copy($conf, $kept) or die $!;
	command_ok([ 'pg_rewind', '--no-sync', '--target-pgdata', $old->data_dir, @source ], "$way: pg_rewind");
	copy($kept, $conf) or die $!;
	$new->start if $way eq 'pgdata';
	$old->enable_streaming($new);
	$old->set_standby_mode;
	$old->start;
	return;
}

foreach my $way ('server', 'pgdata')
{
	# wal_log_hints comes with allows_streaming
	my @init = $way eq 'pgdata' ? (extra => ['--data-checksums']) : ();
	my $old = new_cluster("old_$way", init => { allows_streaming => 1, @init }, conf => [ 'wal_keep_size = 1GB' ]);
	foreach my $t (sort keys %options)
	{
		make_table($old, $t, $options{$t});
		fill($old, $t, 1, 30, '1000 + i * 20000');
	}
	$old->backup('base');
	my $new = new_standby("new_$way", $old, 'base');
	catch_up($old, $new);

	# both are primaries for a while
	$new->promote;
	$new->safe_psql('postgres', 'CHECKPOINT');
	diverge($old, 100);
	foreach my $t (sort keys %options)
	{
		make_table($old, "old_$t", $options{$t});
		fill($old, "old_$t", 1, 5, 400_000);
		make_table($new, "new_$t", $options{$t});
		fill($new, "new_$t", 1, 5, 300_000);
	}
	$old->safe_psql('postgres', 'DROP TABLE old_f; TRUNCATE l; INSERT INTO l VALUES (1, 77, 500000, blob(77, 500000)); VACUUM FULL f');
	diverge($new, 200);

	# pg_rewind does recovery first where there was a crash
	if ($way eq 'server')
	{
		crash($old);
	}
	else
	{
		$old->stop;
	}
	rewind($old, $new, $way);
	same($old, $new, "$way: rewound");
	rows_right($old, 'new_l', 5, "$way: rewound");
	is(outcomes($old, 'id > 200'), 'right', "$way: data written since, unlogged, was copied");
	# the monitor may be growing one
	my @sizes;
	wait_until(sub {
		@sizes = map { file_sizes($_) } ($old, $new);
		$sizes[0] eq $sizes[1];
	});
	is($sizes[0], $sizes[1], "$way: same data files");

	# it follows
	diverge($new, 300);
	my @behind = same($old, $new, "$way: following");
	is(scalar(grep { $_ > 300 } @behind), 10, "$way: following: unlogged data stays behind");

	# and is promoted
	$new->stop;
	$old->promote;
	$old->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'still in recovery';
	diverge($old, 400);
	rows_right($old, 'l', count_of($old), "$way: promoted");
	sound($old, 'l', "$way: promoted");
	right_or_left_behind($old, 'f', "$way: promoted");
	is(outcomes($old, 'id > 400'), 'right', "$way: promoted: its own values are right");
	$old->safe_psql('postgres', "DELETE FROM f WHERE outcome(doc, seed, len) <> 'right'");
	sound($old, 'f', "$way: promoted");
	crash($old);
	$old->start;
	rows_right($old, 'l', count_of($old), "$way: crashed");
	sound($old, 'l', "$way: crashed");
	sound($old, 'f', "$way: crashed");
	$old->safe_psql('postgres', 'DROP TABLE l, f, new_l, new_f');
	is(scalar(data_files($old)), 0, "$way: no files are left");
	$old->stop;
}
done_testing();
