# The load kit (bench/load) verifies what it has loaded from the seed alone: what it loads
# and changes is right, also after a kill of the server, and each change behind its back is
# found: a byte, a version, a row that is gone, and a row too many.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $kit = "$FindBin::RealBin/../../../bench/load/kit.py";
my $node = new_cluster('load_kit');
my $to = $node->connstr('postgres');

# Exit status and output of a command of the kit.
sub kit
{
	my ($command, @more) = @_;
	my ($out, $err);
	IPC::Run::run([ '/usr/bin/python3', $kit, $command, @more, $to ],
		'>', \$out, '2>', \$err);
	return ($? >> 8, $out . $err);
}

# The kit finds just these problems.
sub verifies
{
	my ($name, @problems) = @_;
	my ($status, $out) = kit('verify');
	is($status, @problems ? 1 : 0, "$name: exit status") or diag($out);
	is(scalar(() = $out =~ /^id /mg), scalar @problems, "$name: as many problems") or diag($out);
	like($out, $problems[$_], "$name: problem $_") for 0 .. $#problems;
	return;
}

my ($status, $out) = kit('load', '--objects', 60, '--sizes', 'lognormal:20KB:1',
	'--duplicates', 0.3, '--sessions', 2, '--copy', '--seed', 7,
	'--type', 'securefile(compress, deduplicate)');
is($status, 0, 'a load') or diag($out);
verifies('loaded');

($status, $out) = kit('mix', '--seconds', 1);
is($status, 0, 'a mix') or diag($out);
like($out, qr{^mix: .*\d+ replace}m, 'with changes');
$node->stop('immediate');
$node->start;
verifies('after a kill');
is(sql("SELECT count(*) FROM securefile_check('kit', 'document')"), 0, 'the column is sound');

my ($byte, $version, $gone) =
  split(/\n/, sql('SELECT id FROM kit WHERE length(document) > 5000 ORDER BY id LIMIT 3'));
my %is = map { $_ => sql("SELECT version FROM kit WHERE id = $_") } ($byte, $version);
sql("UPDATE kit SET document = overlay(document PLACING set_byte(byte, 0,
		get_byte(byte, 0) # 1) FROM 4001)
	FROM (SELECT substring(document FROM 4001 FOR 1) AS byte FROM kit WHERE id = $byte) b
	WHERE id = $byte");
verifies('a byte is changed', qr/^id $byte, version $is{$byte}: differs from byte 4000 on/m);
sql("UPDATE kit SET version = version + 1 WHERE id = $version");
sql("INSERT INTO kit SELECT 1000000, version, document FROM kit WHERE id = $gone");
sql("DELETE FROM kit WHERE id = $gone");
verifies('and more', qr/^id $byte, /m,
	qr/^id $version: version ${\($is{$version} + 1)}, $is{$version} wanted/m,
	qr/^id $gone: missing/m, qr/^id 1000000: should not be there/m);

($status, $out) = kit('verify', '--seed', 8);
is($status, 1, 'another seed is not this one') or diag($out);
($status, $out) = kit('verify', '--table', 'nowhere');
is($status, 2, 'no such table') or diag($out);
sql('DELETE FROM kit_done WHERE session = 0');
($status, $out) = kit('verify');
is($status, 2, 'a session of which nothing is known');
like($out, qr/kit_done has no row of session 0$/m, 'says so, and nothing else');
$node->stop;
done_testing();
