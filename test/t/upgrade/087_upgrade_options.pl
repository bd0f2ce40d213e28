# pg_upgrade of columns with each option word, and of what else a column may have: shared
# values, several keys, dictionaries, a limit, removed values that are kept, files with holes, space that was pending and
# storage that was kept for a slot when the server was stopped.  All values are the same
# afterwards, the check is silent, the limit counts, and the columns are written to, dumped and
# restored.
#
# 083 and 086 run with data checksums, by --copy, by --link, and by --swap where there is
# that; so here is a cluster without checksums.  SECUREFILE_UPGRADES=all: all ways, with
# checksums and without.  Needs SECUREFILE_NEXT_BIN.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use SecurefileUpgrade;
use Test::More;

need_later_server();

# ---- the columns ----

my @words = qw(logging filesystem_like_logging cache cache_reads nocache enable_storage_in_row disable_storage_in_row
  compress_low compress_medium compress compress_high nocompress deduplicate keep_duplicates encrypt decrypt hash no_hash retention_none);
my %options = ((map { ("o_$_" => $_) } @words),
	all_of_it => 'compress_high, deduplicate, encrypt, hash, filesystem_like_logging, nocache, disable_storage_in_row',
	shares => 'deduplicate, compress, nocache',
	dictionaries => 'compress',
	keys => 'encrypt',
	destroyed => 'encrypt',
	rewrapped => 'encrypt, deduplicate',
	rewritten => 'compress',
	truncated => '',
	limited => q{hash, 'max_size 3 MB'},
	holes => q{'max_size 9 MB'},
	retained => q{'retention 7 days', 'max_size 96 MB'},
	pending => 'nocache');
my @tables = sort keys %options;

# Two rows of each value.
my $size = '(ARRAY[0, 1, 100, 4000, 4001, 20000, 131072, 131073, 300000])[1 + i % 9]';

sub insert
{
	my ($t, $from, $to) = @_;
	return "INSERT INTO $t SELECT i, i % 9, $size, blob(i % 9, $size) FROM generate_series($from, $to) i";
}

# Rows that have much in common, from one number to another.
my $alike = q{INSERT INTO dictionaries SELECT i, i, 0, convert_to(concat('{"number": ', i, ', "alike": "what all of these have in common", "text": "', md5(i::text), '"}'), 'UTF8')
	FROM generate_series(%s, %s) i};

sub make_contents
{
	my ($node) = @_;
	my $sql = sub { return $node->safe_psql('postgres', join(";\n", @_)) };

	make_table($node, $_, $options{$_}) foreach @tables;
	$sql->(map { insert($_, 1, 18) } @tables);

	# two dictionaries, and values of each: of these rows len is 0, and only the digest counts
	foreach my $from (1000, 2000)
	{
		$sql->(sprintf($alike, $from, $from + 200), "SELECT securefile_train('dictionaries', 'doc')",
			"DELETE FROM dictionaries WHERE id >= $from", sprintf($alike, $from, $from + 20));
	}
	$sql->("SET securefile.cipher = 'chacha20'", "SELECT securefile_new_key('keys', 'doc')", insert('keys', 21, 29),
		"SET securefile.cipher = 'aes'", "SELECT securefile_new_key('keys', 'doc')", insert('keys', 31, 39));
	$sql->("UPDATE destroyed SET doc = NULL", "SELECT securefile_shred('destroyed', 'doc')");
	$sql->("DELETE FROM destroyed", insert('destroyed', 1, 18));
	$sql->("SELECT securefile_rewrap('rewrapped', 'doc', 'second')");

	# a limit that was raised while a view used the column, and files with holes
	$sql->('CREATE VIEW over_limited AS SELECT id, doc FROM limited', q{SELECT securefile_set_max_size('limited', 'doc', '6 MB')});
	fill($node, 'holes', 21, 40, 300_000);
	$sql->('DELETE FROM holes WHERE id BETWEEN 21 AND 39');
	settle($node, 'holes', 'doc');
	$node->safe_psql('postgres', q{CALL securefile_shrink('holes', 'doc')});

	# values that are kept; of those that are removed later nothing is noted when the server is stopped
	$sql->('DELETE FROM retained WHERE id IN (8, 9)', q{SELECT FROM securefile_maintain('retained', 'doc')}, 'BEGIN', 'DELETE FROM retained', 'ROLLBACK');

	# storage that a slot needs when it is replaced
	$sql->("SELECT pg_create_logical_replication_slot('lags', 'test_decoding')");
	$sql->("SELECT securefile_rewrite('rewritten', 'doc', 'filesystem_like_logging')");
	$sql->("TRUNCATE truncated", insert('truncated', 1, 18), 'CREATE TABLE dropped (doc securefile)', "INSERT INTO dropped VALUES (blob(1, 200000))");
	$sql->('DROP TABLE dropped');
	$sql->("SELECT pg_drop_replication_slot('lags')");

	$sql->(map { ("UPDATE $_ SET seed = 10 + id % 3, doc = blob(10 + id % 3, len) WHERE id % 5 = 0", "DELETE FROM $_ WHERE id % 7 = 0") } @tables);
	return;
}

# ---- what must be the same on both sides ----

# Digests of all tables, and what the engine says of keys, shared values and the rest.
sub contents
{
	my ($node, $db) = @_;
	my @all = map { "SELECT '$_', count(*), md5(string_agg(concat_ws(':', id, seed, len, md5(doc::bytea)), ',' ORDER BY id)) FROM $_" } @tables;
	return $node->safe_psql($db || 'postgres', join(' UNION ALL ', @all) . ' ORDER BY 1');
}

sub details
{
	my ($node) = @_;
	return $node->safe_psql('postgres', join(";\n",
			(map { "SELECT '$_', format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '$_'::regclass AND attname = 'doc'" } @tables),
			(map { "SELECT '$_', form, codec, hashed, count(*), sum(stored_bytes) FROM $_, securefile_storage(doc) s GROUP BY form, codec, hashed ORDER BY form, codec, hashed" } @tables),
			q{SELECT 'retained', row_key, kind, removed_at, xid, length, md5(document::bytea) FROM securefile_removed('retained', 'doc') ORDER BY removed_at, xid, row_key::text},
			(map { "SELECT '$_', shared_references FROM securefile_usage('$_', 'doc')" } grep { $options{$_} =~ /deduplicate/ } @tables),
			(map { "SELECT '$_', key_id, purpose, state, is_current, cipher, master_key, is_loaded, stored_values FROM securefile_keys('$_', 'doc', true) ORDER BY purpose, key_id" } grep { $options{$_} =~ /encrypt/ } @tables)));
}

sub all_silent
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', q{SELECT c.relname, f.* FROM securefile_columns c, securefile_check(c.relid, c.attname) f}), '', "$name: the check is silent");
}

sub kept_files { my ($node) = @_; return join ' ', glob($node->data_dir . '/pg_securefile/*/*/*/kept*'); }

# Insert values until one is refused; one test for each of what the limit promises.
sub keeps_to_limit
{
	my ($node, $table, $mb, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "DO \$\$ BEGIN FOR i IN 10001..10100 LOOP INSERT INTO $table VALUES (i, i, 250000, blob(i, 250000)); COMMIT; END LOOP; END \$\$",
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($err, qr/53400: column "doc" of table "$table" has reached its limit of $mb MB/, "$name: $table is refused more");
	my $usage = usage($node, $table, 'doc');
	my $taken = $usage->{file_bytes} + $usage->{metadata_bytes};
	cmp_ok($taken, '<=', mb($mb), "$name: $table keeps to its limit");
	cmp_ok($taken, '>', mb($mb - 1), "$name: and uses it up");
	rows_right($node, "$table WHERE id > 10000", $node->safe_psql('postgres', "SELECT count(*) FROM $table WHERE id > 10000"), "$name: $table");
	$node->safe_psql('postgres', "DELETE FROM $table WHERE id > 10000");
	return;
}

sub disk { return split /\|/, $_[0]->safe_psql('postgres', q{SELECT file_bytes, disk_bytes FROM securefile_usage('holes', 'doc')}); }

# ---- one upgrade ----

sub try
{
	my ($way, $checksums) = @_;
	my $name = "$way, " . ($checksums ? 'checksums' : 'no checksums');
	my @conf = ('wal_level = logical', "securefile.key_command = 'printf \"test " . ('5a' x 32) . '\\nsecond ' . ('6b' x 32) . "\\n\"'", "securefile.master_key = 'test'");
	my $id = ($way =~ s/-//gr) . $checksums;

	# monitors sleep: what is pending and kept stays until the server is stopped, and the new
	# server has all of it when they are compared
	push @conf, 'securefile.monitor = off';
	my $old = new_cluster("old_$id", init => init_params($checksums), conf => \@conf);
	make_contents($old);
	my $want = contents($old);
	my $details = details($old);
	like($details, qr/^dictionaries\|inline\|zstd with dictionary\|/m, "$name: there are values with a dictionary");
	like($details, qr/^shares\|[1-9]/m, "$name: and shared ones");
	like($details, qr/^retained\|\{"id": \d+\}\|(?:deleted|replaced)\|/m, "$name: values are kept");
	isnt(kept_files($old), '', "$name: storage is kept");
	cmp_ok(usage($old, 'pending', 'doc')->{pending_bytes}, '>', 0, "$name: space is pending");
	my ($length, $on_disk) = disk($old);
	cmp_ok($on_disk, '<', $length / 2, "$name: files have holes: $on_disk of $length bytes");
	# from 17 on pg_upgrade takes slots along that have sent everything
	my $slot = $old->pg_version >= 17;
	$old->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('goes_along', 'test_decoding')}) if $slot;
	$old->stop;

	my $new = later_cluster("new_$id", checksums => $checksums, conf => \@conf);
	upgrade($old, $new, $name, $way) or BAIL_OUT('no upgrade');
	bring($old, $new);
	$new->start;
	is($new->safe_psql('postgres', 'SHOW data_checksums'), $checksums ? 'on' : 'off', "$name: data checksums");
	is($new->safe_psql('postgres', 'SELECT count(*) FROM securefile_upgrade_finish()'), scalar(@tables), "$name: securefile_upgrade_finish()");
	is(contents($new), $want, "$name: all values are the same");
	is(details($new), $details, "$name: and so are the way they are stored, and what is kept");
	all_silent($new, $name);
	is((disk($new))[0], $length, "$name: files with holes have their length");
	# what was moved has its holes still
	cmp_ok((disk($new))[1], '<=', $on_disk + mb(1), "$name: and their holes");
	is($new->safe_psql('postgres', q{SELECT string_agg(format_type(atttypid, atttypmod), ' ') FROM pg_attribute WHERE attrelid IN ('limited'::regclass, 'over_limited'::regclass) AND attname = 'doc'}),
		join(' ', (q{securefile(hash, 'max_size 6 MB')}) x 2), "$name: the limit is there, in the view, too");
	keeps_to_limit($new, 'limited', 6, $name);
	keeps_to_limit($new, 'holes', 9, $name);
	$new->safe_psql('postgres', "ALTER SYSTEM SET securefile.monitor = on;\nSELECT pg_reload_conf()");
	if ($slot)
	{
		fill($new, 'pending', 51, 55, 200_000);
		is($new->safe_psql('postgres', q{SELECT count(*) FROM pg_logical_slot_get_changes('goes_along', NULL, NULL) WHERE data LIKE 'table public.pending: INSERT:%' AND length(data) > 400000}), 5, "$name: the slot sends values");
		$new->safe_psql('postgres', q{SELECT pg_drop_replication_slot('goes_along'); DELETE FROM pending WHERE id > 50});
	}

	# all are written to
	ok(wait_until(sub { $new->safe_psql('postgres', q{SELECT securefile_maintain('pending', 'doc')}); kept_files($new) eq '' }), "$name: what was kept is removed");
	$new->safe_psql('postgres', join(';', map { (insert($_, 101, 118), "UPDATE $_ SET seed = 20, doc = blob(20, len) WHERE id % 4 = 0", "DELETE FROM $_ WHERE id % 3 = 0") } @tables));
	my $counts = join ' UNION ALL ', map { "SELECT '$_', count(*) FROM $_ WHERE doc::bytea IS DISTINCT FROM blob(seed, len) AND len > 0" } @tables;
	is($new->safe_psql('postgres', "SELECT * FROM ($counts) t (name, wrong) WHERE wrong > 0"), '', "$name: changed values are right");
	all_silent($new, "$name, changed");
	cmp_ok($new->safe_psql('postgres', q{SELECT count(*) FROM securefile_removed('retained', 'doc')}), '>', scalar(() = $details =~ /^retained\|\{/mg), "$name, changed: more is kept");
	is($new->safe_psql('postgres', q{SELECT securefile_purge('retained', 'doc') > 0}), 't', "$name, changed: a purge");
	sound($new, $_, "$name, changed") foreach 'retained', 'pending', 'truncated', 'rewritten';
	cmp_ok($new->safe_psql('postgres', q{SELECT shared_references FROM securefile_usage('shares', 'doc')}), '>',
		($details =~ /^shares\|(\d+)$/m)[0], "$name: new values share with old ones");

	# the dump, and what is restored from it
	my $file = $new->basedir . '/dump';
	$new->command_ok([ 'pg_dump', '-Fc', '-Z0', '-f', $file, $new->connstr('postgres') ], "$name: pg_dump");
	$new->safe_psql('postgres', 'CREATE DATABASE restored');
	$new->command_ok([ 'pg_restore', '-d', $new->connstr('restored'), $file ], "$name: pg_restore");
	is(contents($new, 'restored'), contents($new), "$name: restored values are the same");
	$new->stop;
	return;
}

my @ways = ('--copy', '--link', can_swap() ? ('--swap') : ());
if (($ENV{SECUREFILE_UPGRADES} // '') eq 'all')
{
	foreach my $checksums (0, 1) { try($_, $checksums) foreach @ways; }
}
else
{
	try($ways[-1], 0);
}
done_testing();
