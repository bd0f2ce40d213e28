# Every kind of WAL record that there is, and every reason of those that only change
# pages: as the server names and describes them (identify and desc, by pg_walinspect).
# What there is to be seen is taken from the sources, so that no record is forgotten.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePages;
use SecurefileTest;
use Test::More;

my $header = slurp("$FindBin::RealBin/../../../src/space/record.h");
my @opcodes = $header =~ /^#define XLOG_SF_(\w+)\s+0x/mg;
my @reasons = $header =~ /^\tSF_PAGES_(\w+)/mg;
my $segment = 'segment \d+/\d+/\d+';

# what each has to say
my %kinds = (
	CREATE => qr{^$segment$},
	UNLINK => qr{^$segment$},
	GROW => qr{^$segment; sectors \d+$},
	TRUNCATE => qr{^$segment; sectors \d+$},
	RESOLVE => qr{^$segment; horizon \d+; entries \d+$},
	DATA => qr{^$segment; sector \d+; sectors [1-9]\d*$},
	DROP_DB => qr{^database [1-9]\d*$},
	OWN => qr{^database [1-9]\d*$},
	RELEASE => qr{^$segment; runs [1-8]$});
my %reasons = (
	ADVICE => ['no entries'],
	DICTIONARY => ['no entries'],
	ENTRIES => [ 'kind ALLOC; entries N', 'kind FREE; entries N', 'kind FREE_PAGE; entries N', 'kind REF_DROP; entries N' ],
	QUEUE => ['no entries'],
	INODE => ['kind ALLOC_PAGE; entries N'],
	HEADER => ['no entries'],
	HISTORY => [ 'kind FREE; entries N', 'no entries' ],
	KEYS => ['no entries'],
	MARK => ['no entries'],
	REAP => ['kind FREE; entries N'],
	REMOVED => ['no entries'],
	REPAIR => ['no entries'],
	SHARE => [ 'kind REF_ADD; entries N', 'kind SHARE_NEW; entries N', 'no entries' ]);
my %shown = (DROP_DB => 'DROP_DATABASE');

is(join(' ', sort @opcodes), join(' ', sort keys %kinds, 'PAGES'), 'this test knows all records');
is(join(' ', sort @reasons), join(' ', sort keys %reasons), 'and all reasons');

my $node = new_cluster('records', conf => [ 'securefile.monitor = off', "securefile.key_command = 'echo one @{[ '12' x 32 ]}'", 'full_page_writes = off', "wal_keep_size = '1GB'" ]);
$node->safe_psql('postgres', 'CREATE EXTENSION pg_walinspect');
my $from = $node->lsn('insert');

# one of each
make_table($node, 't');
fill($node, 't', 1, 2, 100_000);
fill($node, 't', 3, 4, 13_000_000);
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 2');
settle($node, 't', 'doc');
make_table($node, 'released');
fill($node, 'released', 1, 2, 3_000_000);
$node->safe_psql('postgres', 'DELETE FROM released WHERE id = 1');
settle($node, 'released', 'doc');
$node->safe_psql('postgres', q{CALL securefile_shrink('released', 'doc')});
$node->safe_psql('postgres', q{
	CREATE TABLE kept (id int, doc securefile('retention 7 days', 'max_size 1 GB'));
	INSERT INTO kept VALUES (1, blob(1, 100000));
	DELETE FROM kept;
	SELECT securefile_maintain('kept', 'doc'), securefile_purge('kept', 'doc')});
make_table($node, 'gone');
fill($node, 'gone', 1, 1, 100_000);
$node->safe_psql('postgres', 'DROP TABLE gone');
$node->safe_psql('postgres', q{
	CREATE TABLE trained (doc securefile(compress));
	INSERT INTO trained SELECT convert_to(row_to_json(p)::text, 'UTF8') FROM pg_proc p LIMIT 500;
	SELECT securefile_train('trained', 'doc')});
$node->safe_psql('postgres', q{CREATE TABLE secret (doc securefile(encrypt)); INSERT INTO secret VALUES ('kept')});
$node->safe_psql('postgres', q{
	CREATE TABLE shared (id int, doc securefile(deduplicate));
	INSERT INTO shared VALUES (1, blob(1, 13000000))});
$node->safe_psql('postgres', "INSERT INTO shared SELECT 2, doc FROM shared; DELETE FROM shared");
$node->safe_psql('postgres', "SELECT securefile_maintain('shared', 'doc')");
$node->safe_psql('postgres', 'SELECT securefile_upgrade_finish()');
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{CREATE EXTENSION securefile; CREATE TABLE o (doc securefile);
	INSERT INTO o VALUES (convert_to(repeat('other', 10000), 'SQL_ASCII'))});
$node->safe_psql('postgres', 'DROP DATABASE other');
my $file = segment_of($node, 't');
$node->stop;
change($file, 1, USED, "\0" x 4096);
$node->start;
like(repair($node, 't', 'false'), qr/^mark used/m, 'the space map is repaired');
sound($node, 't', 'the space map is repaired');
$node->safe_psql('postgres', 'SELECT pg_switch_wal()');

my %said;
foreach my $line (split /\n/, $node->safe_psql('postgres', qq{
	SELECT record_type, description FROM pg_get_wal_records_info('$from', pg_current_wal_flush_lsn())
	WHERE resource_manager = 'securefile'}))
{
	my ($name, $description) = split /\|/, $line, 2;
	$said{$name}{$description} = 1;
}

foreach my $kind (sort keys %kinds)
{
	my @all = sort keys %{ delete $said{ $shown{$kind} || $kind } || {} };
	my @wrong = grep { $_ !~ $kinds{$kind} } @all;
	ok(@all && !@wrong, "$kind: $all[0]") or diag("wrong: @wrong");
}
my %pages;
foreach my $description (keys %{ delete $said{PAGES} || {} })
{
	my ($reason, $more) = $description =~ /^reason (\w+)(?:; (.*))?$/ or die $description;
	$pages{$reason}{ ($more || 'no entries') =~ s/entries [1-9]\d*$/entries N/r } = 1;
}
foreach my $reason (sort keys %reasons)
{
	is(join(', ', sort keys %{ delete $pages{$reason} || {} }), join(', ', sort @{ $reasons{$reason} }), "PAGES: $reason");
}
is(join(' ', keys %said, keys %pages), '', 'and there is no other');

$node->stop;
done_testing();
