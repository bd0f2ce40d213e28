# The types that clients are told of: every description of a row or of parameters calls a
# securefile a bytea, and leaves all other types as they are.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use SecurefileWire;
use Test::More;

my $node = new_cluster('described', conf => [ 'wal_level = logical' ]);
my ($bytea, $byteas) = (17, 1001);

$node->safe_psql('postgres', q{
	CREATE SCHEMA other;
	CREATE TYPE other.securefile AS ENUM ('four');
	CREATE DOMAIN scan AS securefile(nocache) CHECK (length(VALUE) < 100);
	CREATE DOMAIN scans AS securefile[];
	CREATE TYPE mood AS ENUM ('good', 'bad');
	CREATE TABLE docs (id int, document securefile(nocache), paper scan, price numeric(10, 2), other other.securefile, mood mood, old bytea);
	INSERT INTO docs VALUES (1, 'one', 'two', 3, 'four', 'bad', 'five')});
my %oid = map { split /\|/ } split /\n/, $node->safe_psql('postgres', q{
	SELECT oid::regtype, oid FROM pg_type
	WHERE oid IN ('securefile'::regtype, 'scan'::regtype, 'mood'::regtype, 'other.securefile'::regtype, '_securefile'::regtype)});
my $own_typmod = $node->safe_psql('postgres', q{SELECT atttypmod FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname = 'document'});

my $socket = connect_raw($node, 'described');

# The descriptions of rows that the answer to a query has.
sub rows_of
{
	my ($query) = @_;
	say_raw($socket, 'Q', "$query\0");
	return map { [ row_types($_) ] } read_until($socket, 'Z', 'T');
}

sub row_is
{
	my ($query, @expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is_deeply([ rows_of($query) ], [ map { [ split /, / ] } @expected ], substr($query, 0, 100));
}

# What the server answers to a sequence of the extended protocol, "type: what it says".
sub say_all
{
	my (@messages) = @_;
	say_raw($socket, @$_) foreach @messages, [ 'S', '' ];
	return map {
		my ($type, $body) = @$_;
		$type eq 't' ? 't: ' . join(', ', parameter_types($body))
		  : $type eq 'T' ? 'T: ' . join(', ', row_types($body))
		  : $type eq 'E' ? 'E: ' . ($body =~ /C([0-9A-Z]{5})\0/)[0]
		  : ()
	} read_messages($socket, 'Z');
}

sub extended_is
{
	my ($what, $messages, @expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is_deeply([ say_all(@$messages) ], \@expected, $what);
}

my $document = "document $bytea -1 -1";
my $price = 'price 1700 -1 ' . (10 * 65536 + 2 + 4);

# ---- the simple protocol ----

row_is('SELECT * FROM docs', "id 23 4 -1, $document, paper $bytea -1 -1, $price, other $oid{'other.securefile'} 4 -1, mood $oid{mood} 4 -1, old $bytea -1 -1");
row_is('SELECT document FROM docs; SELECT id FROM docs; SELECT paper AS p FROM docs', $document, 'id 23 4 -1', "p $bytea -1 -1");
row_is('SELECT ARRAY[document], array_agg(paper) OVER (), ARRAY[document]::scans, ARRAY[old] FROM docs',
	"array $byteas -1 -1, array_agg $byteas -1 -1, array $byteas -1 -1, array $byteas -1 -1");
row_is(q{SELECT document || 'x' AS e FROM docs}, "e $bytea -1 -1");
row_is('SELECT docs FROM docs', 'docs ' . $node->safe_psql('postgres', q{SELECT 'docs'::regtype::oid}) . ' -1 -1');
row_is('BEGIN; DECLARE c CURSOR FOR SELECT document, id FROM docs; FETCH c; FETCH BACKWARD c; CLOSE c; COMMIT', ("$document, id 23 4 -1") x 2);
row_is('SELECT', '');
row_is('COPY (SELECT document FROM docs) TO STDOUT');
row_is('INSERT INTO docs (id, document) VALUES (2, NULL) RETURNING document', $document);
row_is('PREPARE p AS SELECT document FROM docs; EXECUTE p', $document);
row_is('SELECT ' . join(', ', map { "document AS a_column_with_quite_a_long_name_$_" } 1 .. 1600) . ' FROM docs LIMIT 1',
	join(', ', map { "a_column_with_quite_a_long_name_$_ $bytea -1 -1" } 1 .. 1600));

# ---- the extended protocol ----

my $describe = [ 'D', "Ss\0" ];
my $portal = [ 'D', "Pc\0" ];
my $no_parameters = "c\0s\0" . pack('n n n', 0, 0, 0);
extended_is('a query, described twice, and its portal',
	[ [ 'P', "s\0SELECT id, document FROM docs\0" . pack('n', 0) ], $describe, $describe, [ 'B', $no_parameters ], $portal, $portal, [ 'E', "c\0" . pack('N', 1) ] ],
	(('t: ', "T: id 23 4 -1, $document") x 2), ("T: id 23 4 -1, $document") x 2);
my $insert = 'INSERT INTO docs (id, document, paper, old, mood) VALUES ($1, $2, $3, $4, $5)';
extended_is('parameters', [ [ 'C', "Ss\0" ], [ 'P', "s\0$insert\0" . pack('n', 0) ], $describe ],
	"t: 23, $bytea, $bytea, $bytea, $oid{mood}");
extended_is('arrays as parameters', [ [ 'P', "\0SELECT \$1::securefile[], \$2::scans, \$3::bytea[]\0" . pack('n', 0) ], [ 'D', "S\0" ] ],
	"t: $byteas, $byteas, $byteas", "T: securefile $byteas -1 -1, scans $byteas -1 -1, bytea $byteas -1 -1");
extended_is('the type of a parameter as the client has given it', [ [ 'P', "\0SELECT \$1\0" . pack('n N', 1, $oid{securefile}) ], [ 'D', "S\0" ] ],
	"t: $bytea", "T: ?column? $bytea -1 -1");

# a transaction that has failed may describe what returns no rows
rows_of('BEGIN; SELECT 1 / 0');
extended_is('in a failed transaction', [$describe], "t: 23, $bytea, $bytea, $bytea, $oid{mood}");
rows_of('ROLLBACK');
extended_is('and after it', [$describe], "t: 23, $bytea, $bytea, $bytea, $oid{mood}");

# the bytes that go with it, in binary: they are not unescaped
my $escapes = '\x4142';
extended_is('values in binary',
	[ [ 'B', "\0s\0" . pack('n n n', 1, 1, 5) . pack('(N/a*)*', pack('N', 9), ($escapes) x 3, 'good') . pack('n', 0) ], [ 'E', "\0" . pack('N', 0) ] ]);
is($node->safe_psql('postgres', 'SELECT document, paper = old, old FROM docs WHERE id = 9'), unpack('H*', $escapes) =~ s/(.*)/\\x$1|t|\\x$1/r, 'their bytes');

# ---- who wants to see the type ----

rows_of('SET securefile.describe_as = securefile');
row_is('SELECT document, paper, price FROM docs', "document $oid{securefile} -1 $own_typmod, paper $oid{securefile} -1 $own_typmod, $price");
extended_is('parameters as they are', [$describe], "t: 23, $oid{securefile}, $oid{scan}, $bytea, $oid{mood}");
rows_of('RESET securefile.describe_as');
extended_is('and described as bytea again', [$describe], "t: 23, $bytea, $bytea, $bytea, $oid{mood}");

# the rest of a description is as it is without: table, column, length of the type, format
sub described_in_binary
{
	say_raw($socket, @$_) foreach [ 'P', "\0SELECT old, paper, id, document, paper || 'x' FROM docs\0" . pack('n', 0) ],
	  [ 'B', "\0\0" . pack('n n n n5', 0, 0, 5, 0, 1, 1, 1, 0) ], [ 'D', "P\0" ], [ 'S', '' ];
	my ($body) = read_until($socket, 'Z', 'T');
	return unpack('n/(Z* N n N s> N n)', $body);
}
my @as_bytea = described_in_binary();
rows_of('SET securefile.describe_as = securefile');
my @as_it_is = described_in_binary();
my $table = $node->safe_psql('postgres', q{SELECT 'docs'::regclass::oid});
is_deeply([ @as_it_is[ 7 .. 13, 21 .. 27 ] ], [ 'paper', $table, 3, $oid{securefile}, -1, $own_typmod, 1, 'document', $table, 2, $oid{securefile}, -1, $own_typmod, 1 ], 'table, column and format, as they are');
foreach my $column (1, 3, 4)
{
	@as_it_is[ map { 7 * $column + $_ } 3, 5 ] = ($bytea, 0xffffffff);
}
is_deeply(\@as_bytea, \@as_it_is, 'and described as bytea');
$socket->close;

# ---- a replication connection that speaks SQL ----

$socket = connect_raw($node, 'walsender', parameters => [ 'replication', 'database' ]);
row_is('SELECT document FROM docs', "document $oid{securefile} -1 $own_typmod");
$socket->close;

# ---- the extension comes and goes ----

$node->safe_psql('postgres', 'CREATE DATABASE later');
$node->safe_psql('later', 'CREATE TYPE mood AS ENUM (); CREATE TYPE securefile AS ENUM ()');
my $namesake = $node->safe_psql('later', "SELECT 'securefile'::regtype::oid");
$socket = connect_raw($node, 'later', dbname => 'later');
row_is('SELECT NULL::mood AS m, NULL::securefile AS s',
	'm ' . $node->safe_psql('later', "SELECT 'mood'::regtype::oid") . " 4 -1, s $namesake 4 -1");
my $elsewhere = 'SELECT document, ARRAY[document] AS a FROM docs';
foreach my $schema ('one', 'two')
{
	rows_of("CREATE SCHEMA $schema; CREATE EXTENSION securefile SCHEMA $schema; CREATE TABLE docs (document $schema.securefile)");
	row_is($elsewhere, "$document, a $byteas -1 -1");
	rows_of('BEGIN; DROP EXTENSION securefile CASCADE; ROLLBACK');
	row_is($elsewhere, "$document, a $byteas -1 -1");
	rows_of('DROP EXTENSION securefile CASCADE; DROP TABLE docs; CREATE TABLE docs (document securefile)');
	row_is('SELECT * FROM docs', "document $namesake 4 -1");
	rows_of('DROP TABLE docs');
}
$socket->close;

done_testing();
