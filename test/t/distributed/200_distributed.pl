# Distributed tables of Citus: what cannot be done at the shell of a table says so, in place
# of looking at nothing; edits go through the coordinator; a handle is known on its own node
# only; shells hold no segments.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use SecurefileCitus;
use Test::More;

need_citus();
my ($coordinator, @workers) = new_nodes(2);

# ---- tables of all kinds ----

sql('CREATE TABLE docs (id int PRIMARY KEY, seed int, len int, doc securefile)',
	q{SELECT create_distributed_table('docs', 'id')},
	'CREATE TABLE everywhere (id int PRIMARY KEY, seed int, len int, doc securefile(compress))',
	q{SELECT create_reference_table('everywhere')},
	'CREATE TABLE parts (id int, day int, doc securefile) PARTITION BY RANGE (day)',
	'CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10)',
	q{SELECT create_distributed_table('parts', 'id')},
	'CREATE TABLE managed (id int PRIMARY KEY, doc securefile)',
	q{SELECT citus_add_local_table_to_metadata('managed')},
	'CREATE TABLE plain (id int PRIMARY KEY, doc securefile)');
fill($coordinator, 'docs', 1, 40, '1000 * i * i % 300000');
fill($coordinator, 'everywhere', 1, 5, '10000 * i');
rows_right($coordinator, 'docs', 40, 'inserted');

# ---- refused at the shell, on every node ----

my %calls = (
	check => 'SELECT * FROM securefile_check(%s)',
	repair => 'SELECT * FROM securefile_repair(%s)',
	usage => 'SELECT * FROM securefile_usage(%s)',
	maintain => 'SELECT * FROM securefile_maintain(%s)',
	removed => 'SELECT * FROM securefile_removed(%s)',
	purge => 'SELECT securefile_purge(%s)',
	rewrite => 'SELECT securefile_rewrite(%s)',
	logging => q{SELECT securefile_rewrite(%s, logging => 'filesystem_like_logging')},
	some => 'SELECT securefile_rewrite_some(%s)',
	online => 'CALL securefile_rewrite_online(%s)',
	tablespace => q{SELECT securefile_set_tablespace(%s, 'pg_default')},
	create => 'SELECT securefile_create(%s)',
	estimate => 'SELECT * FROM securefile_estimate(%s)',
	train => 'SELECT securefile_train(%s)',
	duplicates => 'SELECT * FROM securefile_duplicates(%s)',
	calibrate => 'SELECT * FROM securefile_io_calibrate(%s)',
	keys => 'SELECT * FROM securefile_keys(%s)',
	rewrap => 'SELECT securefile_rewrap(%s)',
	shred => 'SELECT securefile_shred(%s)');

foreach my $node ($coordinator, @workers)
{
	foreach my $table ('docs', 'everywhere', 'part')
	{
		my @not;
		foreach my $name (sort keys %calls)
		{
			my $call = sprintf $calls{$name}, "'$table', 'doc'";
			my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$call");
			push @not, "$name: $out $err"
			  if $err !~ /0A000: "$table" is a distributed table.*DETAIL:  Its values lie in shards.*HINT:.*securefile_dist/s;
		}
		is("@not", '', "refused for $table on " . $node->name);
	}
}
fails_with($coordinator, q{SELECT * FROM securefile_check('parts', 'doc')}, '0A000', qr/"parts" is a distributed table/,
	'a partitioned table');
fails_with($coordinator, q{SELECT securefile_create('managed', 'doc')}, '0A000', qr/"managed" is a distributed table/,
	'a local table that Citus manages');
is(sql(q{SELECT * FROM securefile_check('plain', 'doc')}), '', 'a table of this node only is looked at');
is(join(' ', on_shards($coordinator, 'docs', q{SELECT count(*) FROM securefile_check('%s', 'doc')})), '0 0 0 0', 'and so are shards');
my ($live) = sql(q{SELECT sum((len + 511) / 512 * 512) FROM docs WHERE len > 4000});
my $sum = 0;
$sum += $_ foreach on_shards($coordinator, 'docs', q{SELECT live_bytes FROM securefile_usage('%s', 'doc')});
is($sum, $live, 'whose live bytes are those of the values');

# ---- edits ----

sql(q{UPDATE docs SET doc = doc || blob(1, 10), len = len + 10 WHERE id = 7});
is(sql(q{SELECT length(doc) - len FROM docs WHERE id = 7}), 0, 'appended');
sql(q{UPDATE docs SET doc = overlay(doc PLACING '\xff' FROM 3) WHERE id = 7},
	q{UPDATE docs SET doc = securefile_truncate(doc, len - 10) WHERE id = 7},
	q{UPDATE docs SET doc = '\x00' || doc WHERE id = 8},
	q{UPDATE docs SET doc = overlay(doc PLACING '\x' FROM 1::bigint FOR 1::bigint) WHERE id = 8},
	q{INSERT INTO docs VALUES (9, 1, 1, '\x') ON CONFLICT (id) DO UPDATE SET doc = docs.doc || '\x01'},
	q{UPDATE docs SET doc = securefile_truncate(doc, len) WHERE id = 9});
is(sql(q{SELECT substring(doc FROM 3 FOR 1) FROM docs WHERE id = 7}), '\xff', 'overlaid');
sql(q{UPDATE docs SET doc = overlay(doc PLACING substring(blob(seed, 10) FROM 3 FOR 1) FROM 3), len = len - 10 WHERE id = 7});
fails_with($coordinator, q{CREATE INDEX ON docs USING hash ((doc || '\x00'))}, '0A000', qr/cannot have an edited securefile value/,
	'an index of edited values');
is(sql(q{SELECT count(*) FROM docs WHERE doc::bytea IS DISTINCT FROM blob(seed, len)}), 0, 'the values are right');

# an edit writes only what it changes
sql('INSERT INTO docs VALUES (100, 100, 3000000, blob(100, 3000000))');
my ($node_of) = grep { $_->{_port} == sql(q{SELECT nodeport FROM citus_shards
	WHERE table_name = 'docs'::regclass AND shardid = get_shard_id_for_distribution_column('docs', 100)}) } $coordinator, @workers;
my $before = $node_of->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
sql(q{UPDATE docs SET doc = doc || '\x01' WHERE id = 100});
my $wal = $node_of->safe_psql('postgres', "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before')");
cmp_ok($wal, '<', 1500000, 'an edit by the coordinator writes the units that it touches');
sql(q{DELETE FROM docs WHERE securefile_digest(doc) = (SELECT sha256(blob(100, 3000000) || '\x01'))});
is(sql('SELECT count(*) FROM docs WHERE id = 100'), 0, 'a row is found by the digest of its value');

# ---- handles ----

my $session = background($coordinator);
my $handle = $session->query_safe(q{BEGIN; SELECT securefile_create('plain', 'doc')}) =~ s/\s//gr;
my $other = $session->query_safe(q{SELECT securefile_open(doc, 'r') FROM docs WHERE id = 7}) =~ s/\s//gr;
isnt($other, $handle, 'nodes begin to number their handles by chance');
$session->query_safe("SELECT securefile_write($handle, 'of the coordinator')");
my $out = $session->query("SELECT securefile_read($other, 5)");
like($out . ($session->{stderr} // ''), qr/securefile handle $other is not open.*opened on another server/s, 'a handle of another node is not open');
$session->quit;

# ---- shells ----

ok(settled_shells($_), 'shells have no segments: ' . $_->name) foreach $coordinator, @workers;
is(sql(q{SELECT string_agg(tgname::text ~ '^~securefile_store' || tgenabled::text, ' ') FROM pg_trigger
	WHERE tgrelid = 'docs'::regclass AND tgname ~ '^~'}), 'trueA', 'the trigger store is left');
sql('INSERT INTO docs VALUES (101, 101, 5000, blob(101, 5000))', 'ALTER TABLE docs ADD more securefile',
	q{UPDATE docs SET more = blob(7, 70000) WHERE id = 7}, q{SELECT create_distributed_table('plain', 'id')});
sql("COPY docs (id, seed, len, doc) FROM stdin;\n102\t1\t1\t\\\\x00\n\\.\n");
is(sql(q{SELECT count(*), max(length(more)) FROM docs}), '42|70000', 'rows go past the shell, and come back');
ok(settled_shells($_), 'no more after another column: ' . $_->name) foreach $coordinator, @workers;
is(sql(q{DELETE FROM docs WHERE id = 102; SELECT count(*) FROM docs WHERE doc::bytea IS DISTINCT FROM blob(seed, len)}), 0, 'the values are right');

# a table that has rows is distributed: they are copied, and stay unseen until they are removed
sql('CREATE TABLE filled (id int PRIMARY KEY, seed int, len int, doc securefile)');
fill($coordinator, 'filled', 1, 10, '50000');
sql(q{SELECT create_distributed_table('filled', 'id')});
rows_right($coordinator, 'filled', 10, 'distributed with rows');
sql(q{SELECT truncate_local_data_after_distributing_table('filled')});
ok(settled_shells($coordinator), 'the segment goes with the rows');
rows_right($coordinator, 'filled', 10, 'after that');

# back again
sql(q{SELECT undistribute_table('filled')});
rows_right($coordinator, 'filled', 10, 'a local table again');
sound($coordinator, 'filled', 'undistributed');
sql(q{UPDATE filled SET doc = doc || '\x01', len = len + 1}, 'UPDATE filled SET doc = securefile_truncate(doc, len - 1), len = len - 1');
rows_right($coordinator, 'filled', 10, 'and changed');

# without Citus there are no shells, and nothing looks for them
sql('DROP TABLE docs, everywhere, parts, managed, plain', 'DROP EXTENSION citus');
rows_right($coordinator, 'filled', 10, 'without Citus');
sound($coordinator, 'filled', 'without Citus');
done_testing();
