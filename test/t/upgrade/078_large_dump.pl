# Values whose text form would pass 1 GB: pg_dump says so, and passes over them where it is asked to;
# binary COPY carries them.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $node = new_cluster('large_dump');
my $dir = $node->basedir;
$node->safe_psql('postgres', q{
	CREATE TABLE large (id int PRIMARY KEY, doc securefile(filesystem_like_logging));
	CREATE TABLE small (id int PRIMARY KEY, doc securefile);
	INSERT INTO large VALUES (1, convert_to(repeat('0123456789', 54000000), 'UTF8')), (2, 'short');
	INSERT INTO small VALUES (1, convert_to(repeat('abc', 100000), 'UTF8'));});
my $sums = 'SELECT sum(length(doc)), string_agg(encode(sha256(doc::bytea), \'hex\'), \'\' ORDER BY length(doc)) FROM (SELECT doc FROM large UNION ALL SELECT doc FROM small) s';
my $want = $node->safe_psql('postgres', $sums);

command_fails_like([ 'pg_dump', '-f', "$dir/all.sql", $node->connstr('postgres') ],
	qr/text form of a securefile value is too long.*PGOPTIONS="-c securefile.dump_oversize=marker"/s, 'pg_dump in the usual way says why not');
is($node->safe_psql('postgres', 'SELECT relname, attname, oversize, largest, unfilled FROM securefile_oversize()'), 'large|doc|1|540000000|0', 'securefile_oversize() says it before');
$ENV{PGOPTIONS} = '-c securefile.dump_oversize=marker';
command_ok([ 'pg_dump', '-Fc', '-f', "$dir/marked.dump", $node->connstr('postgres') ], 'pg_dump with a marker');
delete $ENV{PGOPTIONS};
$node->safe_psql('postgres', 'CREATE DATABASE marked TEMPLATE template0');
command_ok([ 'pg_restore', '-d', $node->connstr('marked'), "$dir/marked.dump" ], 'pg_restore');
is($node->safe_psql('marked', 'SELECT relname, attname, oversize, largest, unfilled FROM securefile_oversize(); SELECT id, length(doc) FROM large ORDER BY id; SELECT doc = (SELECT convert_to(repeat($$abc$$, 100000), $$UTF8$$)) FROM small'),
	"large|doc|0||1\n1|540000000\n2|5\nt", 'the row is there, and known');

# the way of doc/operations.md
command_ok([ 'pg_dump', '-Fc', '--exclude-table-data=large', '-f', "$dir/rest.dump", $node->connstr('postgres') ], 'pg_dump of the rest');
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', "\\copy large TO '$dir/large.bin' (FORMAT binary)" ],
	'the large values');
$node->safe_psql('postgres', 'CREATE DATABASE again TEMPLATE template0');
command_ok([ 'pg_restore', '-d', $node->connstr('again'), "$dir/rest.dump" ], 'pg_restore');
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('again'), '-c', "\\copy large FROM '$dir/large.bin' (FORMAT binary)" ],
	'the large values again');
is($node->safe_psql('again', $sums), $want, 'all values are there');
is($node->safe_psql('again', "SELECT * FROM securefile_check('large', 'doc')"), '', 'and sound');
$node->stop;
done_testing();
