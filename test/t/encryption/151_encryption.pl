# Values of columns that encrypt, in rows and in segments, compressed or not: all come back.  What
# ends in the middle of encrypting or decrypting leaves nothing.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $keys = PostgreSQL::Test::Utils::tempdir() . '/keys';
append_to_file($keys, 'one ' . ('11' x 32) . "\n");
chmod 0644, $keys;
my $node = new_cluster('encryption', conf => ['securefile.monitor = off', "securefile.key_command = 'cat $keys'"]);

foreach my $options ('encrypt', 'encrypt, compress_medium', 'encrypt, compress_low, filesystem_like_logging', 'encrypt, disable_storage_in_row')
{
	my $t = 't' . ($options =~ s/\W+/_/gr);
	make_table($node, $t, $options);
	sql("INSERT INTO $t SELECT i, i, len, blob(i, len) FROM generate_series(1, 40) i, LATERAL (SELECT CASE WHEN i < 20 THEN i * 150000 ELSE (i - 20) * 209 END) l (len)");
	is(sql("SELECT count(*) FROM $t WHERE doc::bytea = blob(id, length(doc)::int)"), 40, "$options: all come back");
	sql("INSERT INTO $t SELECT 60, 50, 0, convert_to(repeat('hello world', 300), 'UTF8')");
	is(sql("SELECT convert_from(doc, 'UTF8') = repeat('hello world', 300), substring(doc from 12 for 5) = 'hello', length(doc) FROM $t WHERE id = 60"), 't|t|3300', 'small');
	sql("INSERT INTO $t SELECT 50, 50, 0, blob(7, 30000000)", "UPDATE $t SET doc = doc || blob(5, 100000) WHERE id = 50", "UPDATE $t SET doc = overlay(doc placing 'abc'::bytea from 20000000) WHERE id = 50");
	is(sql("SELECT doc::bytea = overlay((blob(7, 30000000) || blob(5, 100000)) placing 'abc'::bytea from 20000000) FROM $t WHERE id = 50"), 't', 'a large one, edited');
	is(sql("SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, 'sound');
	is(sql("SELECT substring(doc from 1234567 for 10) = substring(blob(7, 30000000) from 1234567 for 10) FROM $t WHERE id = 50"), 't', 'part');
}
# an error in the middle
sub insert { return $node->psql('postgres', "INSERT INTO tencrypt SELECT i, i, 0, blob(i, i * 300) FROM generate_series(100, 120) i") }
foreach my $point ('encrypt', 'decrypt')
{
	arm($node, $point, 'error', skip => 5);
	my ($rc) = $point eq 'encrypt' ? insert() : $node->psql('postgres', 'SELECT count(doc::bytea) FROM tencrypt');
	isnt($rc, 0, "an error at $point");
	is(sql("SELECT count(*), count(*) FILTER (WHERE id < 50 AND doc::bytea = blob(id, length(doc)::int)) FROM tencrypt"), '42|40', "an error at $point: what there was");
}
is((insert())[0], 0, 'and goes on');
is(sql("SELECT count(*) FROM tencrypt WHERE id >= 100 AND doc::bytea = blob(id, id * 300)"), 21, 'with new values');
is(sql("SELECT count(*) FROM securefile_check('tencrypt', 'doc')"), 0, 'all is sound');
unlike(slurp_file($node->logfile), qr/TRAP: |PANIC|\bXX000\b/, 'no crash of its own');
done_testing();
