# securefile_digest(): what other programs say of the same bytes, for every length; no
# more memory for a long value than for a short one; it can be interrupted, and holds
# nobody up meanwhile.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use Digest::MD5 qw(md5);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my @algorithms = qw(sha256 sha512 blake2b xxh3 md5);
my $node = new_cluster('digest',
	init => { allows_streaming => 1 },
	conf => [ 'max_parallel_workers_per_gather = 2', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0' ]);
make_table($node, 'd', 'nocache');
make_table($node, 'c', 'cache');

# ---- the same bytes in files ----

my $dir = PostgreSQL::Test::Utils::tempdir;

sub put_file
{
	my ($name, $bytes, $length) = @_;
	open(my $fh, '>:raw', "$dir/$name") or die "$name: $!";
	print $fh $bytes;
	truncate($fh, $length) if defined $length;
	close $fh or die "$name: $!";
	return;
}

# By file: algorithm => digest.
sub digests_of_files
{
	my ($names, @files) = @_;
	my ($out, $err) = run_command([ '/usr/bin/python3', "$FindBin::RealBin/../../digest/digests.py", join(',', @$names), map { "$dir/$_" } @files ]);
	die $err if $err ne '';
	my %digests;
	$digests{$1}{$2} = $3 while $out =~ m{^\Q$dir\E/(\S+) (\S+) (.*)$}mg;
	return %digests;
}

# The same from the server, by id; of an expression over doc.
sub digests_of_rows
{
	my ($on, $table, $expression) = @_;
	my $out = $on->safe_psql('postgres',
		"SELECT id, a, encode(securefile_digest($expression, a), 'hex') FROM $table, unnest('{" . join(',', @algorithms) . "}'::text[]) a");
	my %digests;
	$digests{$1}{$2} = $3 while $out =~ /^(\d+)\|(\w+)\|(\w+)$/mg;
	return %digests;
}

my $bytes = join '', map { md5($_) } 1 .. 375_001;
my @lengths = (0, 1, 63, 64, 65, 4000, 4001, 131_071, 131_072, 131_073, 262_143, 262_145, 6_000_001);
put_file("$_", substr($bytes, 0, $_)) foreach @lengths;
put_file('holes', substr($bytes, 0, 300_000), 20_000_000);
put_file('edited', substr($bytes, 0, 300_000) . 'new' . substr($bytes, 300_003, 3_000_000) . 'end');
my %expected = digests_of_files(\@algorithms, @lengths, 'holes', 'edited');
is(scalar(map { %$_ } values %expected), 2 * @algorithms * (@lengths + 2), 'digests to compare with');
my $edited = "overlay(securefile_truncate(doc, 3300003) placing 'new'::bytea from 300001) || 'end'::bytea";

foreach my $table ('d', 'c')
{
	$node->safe_psql('postgres', "INSERT INTO $table SELECT n - 1, 0, l, pg_read_binary_file('$dir/' || l)"
		  . " FROM unnest(ARRAY[" . join(',', @lengths) . ']) WITH ORDINALITY u (l, n);'
		  . " INSERT INTO $table (id, doc) SELECT 20, $edited FROM $table WHERE id = 12;"
		  . " INSERT INTO $table (id, doc) SELECT 21, securefile_truncate(securefile_truncate(doc, 300000), 20000000) FROM $table WHERE id = 12");
	my %found = digests_of_rows($node, $table, 'doc');
	is_deeply($found{$_}, $expected{ $lengths[$_] }, "$table, $lengths[$_] bytes") foreach 0 .. $#lengths;
	is_deeply($found{20}, $expected{edited}, "$table, edited, stored");
	is_deeply($found{21}, $expected{holes}, "$table, with holes");
	%found = digests_of_rows($node, $table, $edited);
	is_deeply($found{12}, $expected{edited}, "$table, edited");
}
my ($b2sum) = run_command([ 'b2sum', map { "$dir/$_" } @lengths ]);
is( join("\n", map { $_->{blake2b} } @expected{@lengths}),
	join("\n", $b2sum =~ /^([0-9a-f]{128}) /mg),
	'blake2b is what b2sum prints');

# ---- elsewhere ----

$node->backup('base');
my $standby = new_standby('standby', $node, 'base');
$node->safe_psql('postgres', 'INSERT INTO d (id, doc) SELECT 22, doc FROM d WHERE id = 20');
catch_up($node, $standby);
my %found = digests_of_rows($standby, 'd', 'doc');
is_deeply($found{$_}, $expected{$_ == 12 ? $lengths[12] : $_ == 21 ? 'holes' : 'edited'}, "on a standby, $_") foreach 12, 20, 21, 22;
%found = digests_of_rows($standby, 'd', $edited);
is_deeply($found{12}, $expected{edited}, 'on a standby, edited');
$standby->stop;

make_table($node, 'p', 'disable_storage_in_row', 'WITH (parallel_workers = 2)');
$node->safe_psql('postgres', "ALTER TABLE p ADD pad text DEFAULT repeat('x', 900); ALTER TABLE p ALTER pad SET STORAGE PLAIN");
sub padded
{
	my ($from, $to) = @_;
	return "INSERT INTO p SELECT i, i, 300000, blob(i, 300000), repeat('x', 900) FROM generate_series($from, $to) i";
}
$node->safe_psql('postgres', padded(1, 60));
my $query = "SELECT count(*) FROM p WHERE securefile_digest(doc, 'sha256') = sha256(blob(seed, len)) AND securefile_digest(doc || doc, 'xxh3') IS NOT NULL";
like($node->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query"), qr/Workers Planned/, 'the plan is parallel');
is($node->safe_psql('postgres', "SET parallel_leader_participation = off; $query"), 60, 'in parallel workers');
is($node->safe_psql('postgres', "SET parallel_leader_participation = off; BEGIN; " . padded(61, 70) . "; $query; ROLLBACK"),
	70, 'in parallel workers, of rows that are not written yet');

# ---- over 1 GB ----

my $long = 2_684_354_560;
put_file('long', substr($bytes, 0, 300_000), $long);
my %long = digests_of_files([ 'sha256', 'xxh3' ], 'long');
unlink "$dir/long";
$node->safe_psql('postgres', q{
	ALTER TABLE d ADD xxh bytea;
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		NEW.xxh := securefile_digest(NEW.doc, 'xxh3');
		RETURN NEW;
	END $$;
	CREATE TRIGGER note BEFORE INSERT ON d FOR EACH ROW EXECUTE FUNCTION note()});

# A session, and the most memory that its process has had.
my $session = background($node);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
sub most_memory { return slurp_file("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB$/m ? $1 * 1024 : die 'no VmHWM'; }

$session->query_safe("SELECT count(securefile_digest(doc, a)) FROM d, unnest('{sha256,xxh3}'::text[]) a WHERE id < 30");
my $before = most_memory();
$session->query_safe("INSERT INTO d (id, doc) SELECT 30, securefile_truncate(securefile_truncate(doc, 300000), $long) FROM d WHERE id = 12");
is($session->query_safe("SELECT encode(xxh, 'hex') FROM d WHERE id = 30"), $long{long}{xxh3}, 'in a trigger, before 2.5 GB are stored');
is($session->query_safe("SELECT encode(securefile_digest(doc, '$_'), 'hex') FROM d WHERE id = 30"), $long{long}{$_}, "$_ of 2.5 GB")
  foreach 'sha256', 'xxh3';
cmp_ok(most_memory() - $before, '<', mb(64), 'in little memory');

# ---- interruptions ----

# neither ends by itself
my $endless = "securefile_truncate(doc, 1000000000000000)";
$node->safe_psql('postgres', "ALTER TABLE d DISABLE TRIGGER note; INSERT INTO d (id, doc) SELECT 31, $endless FROM d WHERE id = 12");
foreach my $case ([ 12, $endless ], [ 31, 'doc' ])
{
	my ($id, $value) = @$case;
	foreach my $algorithm (@algorithms)
	{
		fails_with($node, "SET statement_timeout = 100; SELECT securefile_digest($value, '$algorithm') FROM d WHERE id = $id",
			'57014', qr/statement timeout/, "$value, $algorithm: a timeout is honoured");
	}
	$session->query_until(qr/start/, "\\echo start\nSELECT securefile_digest($value, 'sha256') FROM d WHERE id = $id;\n");
	ok(wait_for_sql($node, "SELECT state = 'active' AND query LIKE 'SELECT securefile_digest%' FROM pg_stat_activity WHERE pid = $pid"),
		"$value: at work");
	is( $node->safe_psql('postgres', "SELECT string_agg(DISTINCT mode, ' ') FROM pg_locks WHERE pid = $pid AND locktype = 'relation'"),
		'AccessShareLock', "$value: only the locks of a read");
	is( $node->safe_psql('postgres',
			"SET statement_timeout = '@{[ patience() ]}s'; UPDATE d SET doc = doc || 'x'::bytea WHERE id = $id;"
			  . " SELECT entries_seen >= 0 FROM securefile_maintain('d', 'doc'); VACUUM d"),
		't', "$value: others change the row meanwhile");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	like($session->query('SELECT 1'), qr/^1$/m, "$value: a cancel is honoured");
	$node->safe_psql('postgres', "UPDATE d SET doc = securefile_truncate(doc, length(doc) - 1) WHERE id = $id");
}
$session->quit;
%found = digests_of_rows($node, '(SELECT * FROM d WHERE id = 12) s', 'doc');
is_deeply($found{12}, $expected{ $lengths[12] }, 'after interruptions');

# ---- damage ----

make_table($node, 'x', 'nocache');
fill($node, 'x', 1, 2, 3_000_000);
$node->safe_psql('postgres', 'CHECKPOINT');
my $number = $node->safe_psql('postgres', "SELECT relfilenode FROM pg_class WHERE relname = 'pg_securefile_' || 'x'::regclass::oid || '_4'");
my ($file) = grep { m{/$number/seg-00000000} } data_files($node);
my $at = block_at($file, 2, 500);
cmp_ok($at, '>', 0, 'found the bytes of row 2');
my $byte = substr(slurp($file), $at, 1);
patch($file, $at, chr(ord($byte) ^ 1));
foreach my $value ('doc', "doc || 'x'::bytea")
{
	foreach my $algorithm (@algorithms)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT securefile_digest($value, '$algorithm') FROM x WHERE id = 2");
		is("$out$err", 'psql:<stdin>:2: ERROR:  XX001', "$value, $algorithm: a damaged value has no digest");
	}
}
is($node->safe_psql('postgres',
		"DO \$\$ BEGIN FOR i IN 1 .. 50 LOOP BEGIN PERFORM securefile_digest(doc, 'sha256') FROM x WHERE id = 2;"
		  . " EXCEPTION WHEN data_corrupted THEN END; END LOOP; END \$\$; SELECT securefile_digest(doc, 'sha256') = sha256(blob(1, 3000000)) FROM x WHERE id = 1"),
	't', 'nor the one beside it an error');
patch($file, $at, $byte);
is($node->safe_psql('postgres', "SELECT securefile_digest(doc, 'sha256') = sha256(blob(2, 3000000)) FROM x WHERE id = 2"), 't', 'mended');
is($node->safe_psql('postgres', "SELECT * FROM securefile_check('$_', 'doc')"), '', "$_ is sound") foreach 'd', 'c', 'p', 'x';
unlike(slurp_file($node->logfile), qr/PANIC|TRAP: |leak/, 'server log');

# ---- a server whose OpenSSL allows only what is approved (FIPS), and has no such thing ----

SKIP:
{
	skip 'FIPS: the server was built without OpenSSL', 6 if $node->safe_psql('postgres', 'SHOW ssl_library') eq '';
	$node->stop;
	put_file('openssl.cnf', "openssl_conf = conf\n[conf]\nalg_section = evp\nrandom = random\n[evp]\ndefault_properties = fips=yes\n"
		  . "[random]\nproperties = -fips\nseed_properties = -fips\n");
	{
		local $ENV{OPENSSL_CONF} = "$dir/openssl.cnf";
		$node->start;
	}
	fails_with($node, "SELECT md5('')", 'XX000', qr/could not compute MD5 hash/, 'the server has no MD5');
	fails_with($node, "SELECT securefile_digest(doc, 'md5') FROM d WHERE id = 12",
		'39000', qr/could not compute md5 digest: .*\nHINT:  OpenSSL in FIPS mode does not allow MD5\./, 'nor has the digest');
	fails_with($node, "SELECT securefile_digest(doc, 'sha256') FROM d WHERE id = 12", '39000', qr/could not compute sha256 digest: /, 'others that fail say so');
	is($node->safe_psql('postgres', "SELECT encode(securefile_digest(doc, '$_'), 'hex') FROM d WHERE id = 12"), $expected{ $lengths[12] }{$_}, "$_ is not OpenSSL's")
	  foreach 'blake2b', 'xxh3';
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP: |leak/, 'server log');
}
$node->stop;
done_testing();
