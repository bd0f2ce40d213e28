# Procedural languages: PL/Python with the transform of extension securefile_plpython3u, in
# every place where a value goes in or out, and what happens without it; PL/Perl, PL/Tcl and
# PL/Lua beside bytea.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('languages');
my %there = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT name FROM pg_available_extensions');
my $bytes = q{'\x00255044462d5c780a41ff'::securefile};

sql('CREATE TABLE t (id int, doc securefile)', 'CREATE TABLE plain (id int, doc bytea)');

# ---- PL/Python ----

my $object = qr/a Python object of type "%s" cannot be a securefile value.*DETAIL:  It must be bytes.*HINT:  Make bytes of a str with encode/s;

sub refuses
{
	my ($type, $query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $like = $object =~ s/%s/$type/r;
	return fails_with($node, $query, '42804', qr/$like/s, $name);
}

sub test_python
{
	my $for = 'TRANSFORM FOR TYPE securefile LANGUAGE plpython3u';

	# a type of that name that others have made where the extension goes
	sql('CREATE SCHEMA decoy', 'CREATE TYPE decoy.securefile AS (a int)');
	sql('CREATE EXTENSION plpython3u', 'CREATE EXTENSION securefile_plpython3u SCHEMA decoy');
	is(sql(q{SELECT trftype::regtype || ' ' || trffromsql || ' ' || trftosql FROM pg_transform}),
		'securefile decoy.securefile_to_plpython3 decoy.plpython3_to_securefile', 'the transform is of the type of extension securefile');

	# arguments and results
	sql("CREATE FUNCTION seen(d securefile) RETURNS text $for AS 'return type(d).__name__ + repr(d)'",
		"CREATE FUNCTION made(python text) RETURNS securefile $for AS 'import array, mmap; return eval(python)'",
		"INSERT INTO t VALUES (1, $bytes), (2, NULL), (3, ''), (4, repeat('x', 300000)::bytea)");
	is(sql('SELECT seen(doc) FROM t WHERE id < 4 ORDER BY id'), q{bytesb'\x00%PDF-\\\\x\nA\xff'} . "\nNoneTypeNone\nbytesb''", 'arguments');
	is(sql(q{SELECT right(seen(doc || 'yz'), 6), length(seen(doc || 'yz')), seen(decode('5c78', 'hex')::securefile) FROM t WHERE id = 4}), q{xxxyz'|300010|bytesb'\\\\x'}, 'an edited value, one in memory');
	is( sql(q{SELECT string_agg(coalesce(made(p)::text, 'NULL'), ' ' ORDER BY n) FROM unnest(ARRAY['b"a\0\\\\x41"', 'bytearray(b"\\\\101")', 'memoryview(b"abc")',
		'memoryview(b"a1b2")[::2]', 'array.array("H", [1, 2])', 'None', 'b""', 'mmap.mmap(-1, 3)']) WITH ORDINALITY u(p, n)}),
		'\x61005c783431 \x5c313031 \x616263 \x6162 \x01000200 NULL \x \x000000', 'results');
	refuses($_->[0], "SELECT made('$_->[1]')", "not a result: $_->[1]")
	  foreach [ 'str', '"text"' ], [ 'str', 'str(b"text")' ], [ 'int', '65' ], [ 'list', '[65]' ], [ 'bool', 'True' ], [ 'dict', '{}' ], [ 'decimal.Decimal', '__import__("decimal").Decimal(1)' ];
	fails_with($node, q{SELECT seen(securefile_truncate('x'::securefile, 1200000000))}, '54000', qr/value of 1200000000 bytes is too long.*securefile_chunks/s, 'an argument over 1 GB');
	fails_with($node, q{SELECT made('mmap.mmap(-1, 1200000000)')}, '54000', qr/object of 1200000000 bytes is too long.*securefile_create\(\), securefile_write\(\)/s, 'a result over 1 GB');

	# rows, sets, OUT parameters, arrays, domains
	sql('CREATE DOMAIN file AS securefile CHECK (length(value) < 20)', 'CREATE TABLE filed (id int, doc file)', "INSERT INTO filed VALUES (1, $bytes)",
		"CREATE FUNCTION turned(r t) RETURNS t $for AS 'return {\"id\": -r[\"id\"], \"doc\": r[\"doc\"][::-1]}'",
		"CREATE FUNCTION many(d securefile) RETURNS SETOF securefile $for AS 'yield d[:1]; yield None; yield d[1:]'",
		"CREATE FUNCTION rows(d securefile) RETURNS TABLE (n int, d2 securefile) $for AS 'return [(1, d), (2, bytearray(d[::-1]))]'",
		"CREATE FUNCTION outs(OUT a securefile, OUT b int) $for AS 'return [memoryview(b\"a\"), 3]'",
		"CREATE FUNCTION listed(a securefile[]) RETURNS securefile[] $for AS 'return [d + b\"\\0\" for d in a]'",
		"CREATE FUNCTION bound(d file) RETURNS file $for AS 'return d + d'",
		"CREATE FUNCTION nested(d filed) RETURNS filed $for AS 'd[\"doc\"] = d[\"doc\"][:4]; return d'");
	is(sql('SELECT (turned(t)).* FROM t WHERE id = 1'), '-1|\xff410a785c2d4644502500', 'a row in and out');
	is(sql("SELECT many($bytes)"), "\\x00\n\n\\x255044462d5c780a41ff", 'a set');
	is(sql("SELECT * FROM rows($bytes)"), "1|\\x00255044462d5c780a41ff\n2|\\xff410a785c2d4644502500", 'a set of rows');
	is(sql('SELECT * FROM outs()'), '\x61|3', 'OUT parameters');
	is(sql("SELECT a[1]::bytea, a[2]::bytea FROM listed(ARRAY['x', $bytes]::securefile[]) a"), '\x7800|\x00255044462d5c780a41ff00', 'an array');
	is(sql("SELECT bound('ab'), nested(filed) FROM filed"), '\x61626162|(1,"\\\\x00255044")', 'a domain');
	fails_with($node, "SELECT bound($bytes)", '23514', qr/file_check/, 'a domain, which is checked');

	# triggers
	sql("CREATE FUNCTION turn() RETURNS trigger $for AS \$\$
d = TD['new']['doc']
if d == b'text': TD['new']['doc'] = str(d)
elif d is not None: TD['new']['doc'] = d[::-1] + (TD['old']['doc'][:1] if TD['event'] == 'UPDATE' else b'')
return 'MODIFY'\$\$", map { "CREATE TRIGGER turn BEFORE INSERT OR UPDATE ON $_ FOR EACH ROW EXECUTE FUNCTION turn()" } 't', 'filed');
	is(sql("INSERT INTO t VALUES (10, $bytes), (11, NULL)", 'SELECT id, doc FROM t WHERE id >= 10 ORDER BY id'), "10|\\xff410a785c2d4644502500\n11|", 'a trigger: INSERT');
	is(sql("UPDATE t SET doc = 'ab' || doc WHERE id = 10 RETURNING doc"), '\x00255044462d5c780a41ff6261ff', 'a trigger: UPDATE');
	is(sql("UPDATE filed SET doc = 'abc' RETURNING doc"), '\x63626100', 'a trigger of a table with a domain');
	is(sql(q{INSERT INTO t VALUES (12, repeat('long', 100000)::bytea) RETURNING doc = repeat('gnol', 100000)::bytea}), 't', 'a trigger: a long value');
	refuses('str', "INSERT INTO t VALUES (13, 'text')", 'a trigger that makes text of it');
	is(sql('SELECT count(*) FROM t WHERE id = 13'), 0, 'whose row is not there');

	# plans, cursors, results of queries
	sql("CREATE FUNCTION planned(python text) RETURNS SETOF text $for AS \$\$
plan = plpy.prepare('INSERT INTO plain VALUES (20, \$1) RETURNING doc', ['securefile'])
yield repr(plpy.execute(plan, [eval(python)])[0]['doc'])
plan = plpy.prepare('SELECT \$1 AS same, doc FROM t WHERE id = 1', ['securefile'])
for row in plpy.cursor(plan, [eval(python)]): yield repr(list(row.values()))\$\$");
	is(sql(q{SELECT planned('b"\0\\\\x41"')}), q{b'\x00\\\\x41'} . "\n" . q{[b'\x00\\\\x41', b'\x00%PDF-\\\\x\nA\xff']}, 'parameters and results of plans');
	fails_with($node, q{SELECT planned('"\\x41"')}, '38000|42804', qr/a Python object of type "str" cannot be a securefile value/, 'not a parameter: a str');
	is(sql("CREATE FUNCTION caught() RETURNS text $for AS \$\$
try: plpy.execute(plpy.prepare('SELECT \$1', ['securefile']), [5])
except plpy.SPIError as e: return e.sqlstate
except Exception as e: return repr(e)\$\$", 'SELECT caught()'), '42804', 'which a function can catch');

	# without the clause, as the documents say
	sql("CREATE FUNCTION textual(d securefile) RETURNS text LANGUAGE plpython3u AS 'return repr(d)'", "CREATE FUNCTION text_made() RETURNS securefile LANGUAGE plpython3u AS 'return b\"plain\"'");
	is(sql("SELECT textual('ab'), text_made()"), q{'\\\\x6162'|\x6227706c61696e27}, 'without TRANSFORM FOR TYPE: text');
	my $warns = qr/WARNING:  function "f" gets and returns securefile values as text.*HINT:  Make the function with TRANSFORM FOR TYPE securefile/s;
	foreach ([ 'd securefile) RETURNS text', 1 ], [ ') RETURNS securefile', 1 ], [ 'a int, OUT b int, OUT c file)', 1 ], [ 'r t) RETURNS int', 1 ], [ 'a securefile[]) RETURNS int', 1 ],
		[ ') RETURNS TABLE (a int, d securefile)', 1 ], [ "d securefile) RETURNS int TRANSFORM FOR TYPE securefile", 0 ], [ 'd bytea) RETURNS bytea', 0 ], [ ') RETURNS trigger', 0 ])
	{
		my ($signature, $wanted) = @$_;
		my (undef, undef, $said) = $node->psql('postgres', "BEGIN; CREATE FUNCTION f($signature LANGUAGE plpython3u AS 'pass'; ROLLBACK");
		$wanted ? like($said, $warns, "a WARNING: $signature") : is($said, '', "no WARNING: $signature");
	}
	is(sql("CREATE FUNCTION casts(d bytea) RETURNS bytea LANGUAGE plpython3u AS 'return d + b\"\\0\"'", 'INSERT INTO plain SELECT 30, casts(doc) FROM t WHERE id = 1 RETURNING doc'), '\x00255044462d5c780a41ff00', 'functions of bytea need none');

	# pg_dump, and a role that may only use it
	my $dump = $node->backup_dir . '/languages.sql';
	mkdir $node->backup_dir;
	$node->command_ok([ 'pg_dump', '-f', $dump, 'postgres' ], 'pg_dump');
	$node->safe_psql('postgres', 'CREATE DATABASE restored');
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'restored' ], 'restored');
	is($node->safe_psql('restored', 'SELECT seen(doc) FROM t WHERE id = 1'), q{bytesb'\x00%PDF-\\\\x\nA\xff'}, 'the transform is there');
	is(sql('CREATE ROLE somebody', 'SET ROLE somebody', "SELECT seen('a')"), q{bytesb'a'}, 'another role');
	fails_with($node, q{SELECT decoy.securefile_to_plpython3('x')}, '42883', qr/does not exist/, 'nobody calls its functions');
	return;
}

# ---- the others: as with bytea, or said to be otherwise ----

# The same functions of securefile and of bytea: make(type), and the query that is asked of both.
sub same_as_bytea
{
	my ($language, $body_of, $calls) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql("CREATE EXTENSION IF NOT EXISTS $language");
	foreach my $kind (sort keys %$body_of)
	{
		my ($signature, $body) = @{ $body_of->{$kind} };
		my @results = map {
			my ($type, $table) = @$_;
			sql('CREATE OR REPLACE FUNCTION ' . ($signature =~ s/%s/$type/r =~ s/\(/_$type(/r) . " LANGUAGE $language AS \$f\$" . ($body =~ s/TYPE/$type/gr) . '$f$');
			sql("TRUNCATE $table", "INSERT INTO $table VALUES (1, $bytes)", sprintf($calls->{$kind}, "${kind}_$type", $table));
		} ([ 'securefile', 't' ], [ 'bytea', 'plain' ]);
		is($results[0], $results[1], "$language: $kind: " . substr($results[0], 0, 60));
		isnt($results[0], '', 'which is something');
	}
	return;
}

my %calls = (
	argument => 'SELECT %s(doc) FROM %s',
	result => q{SELECT %1$s('hex')::bytea, %1$s('escape')::bytea FROM %2$s},
	change => 'CREATE OR REPLACE TRIGGER change BEFORE INSERT ON %2$s FOR EACH ROW EXECUTE FUNCTION %1$s(); INSERT INTO %2$s SELECT 2, doc FROM %2$s; SELECT doc FROM %2$s WHERE id = 2; DROP TRIGGER change ON %2$s',
	planned => 'SELECT %s()::bytea FROM %s');

sub test_perl
{
	same_as_bytea(
		'plperl', {
			argument => [ 'argument(%s) RETURNS text', 'return $_[0] . length(decode_bytea($_[0]))' ],
			result => [ 'result(text) RETURNS %s', 'return $_[0] eq "hex" ? encode_bytea("a\0\\\\x41") : "a\\\\134b"' ],
			change => [ 'change() RETURNS trigger', '$_TD->{new}{doc} = encode_bytea(decode_bytea($_TD->{new}{doc}) . "\0!"); return "MODIFY"' ],
			planned => [ 'planned() RETURNS %s', 'return spi_exec_prepared(spi_prepare("SELECT \$1 AS d", "TYPE"), encode_bytea("pl\0an"))->{rows}[0]{d}' ] },
		\%calls);
	return;
}

sub test_tcl
{
	same_as_bytea(
		'pltcl', {
			argument => [ 'argument(%s) RETURNS text', 'return "$1 [string length [binary decode hex [string range $1 2 end]]]"' ],
			result => [ 'result(text) RETURNS %s', 'if {$1 eq "hex"} { return "\\\\x[binary encode hex a\0b]" } else { return "a\\\\134b" }' ],
			change => [ 'change() RETURNS trigger', 'set NEW(doc) "\\\\x[binary encode hex [binary decode hex [string range $NEW(doc) 2 end]]]0021"; return [array get NEW]' ],
			planned => [ 'planned() RETURNS %s', 'set p [spi_prepare {SELECT $1 AS d} TYPE]; spi_execp $p [list "\\\\x[binary encode hex pl\0an]"]; return $d' ] },
		\%calls);
	return;
}

# A string of Lua is cut at a NUL byte; a value that passes through is none.
sub test_lua
{
	sql('CREATE EXTENSION pllua', 'TRUNCATE t', "INSERT INTO t VALUES (1, $bytes)",
		"CREATE FUNCTION lua_made() RETURNS securefile LANGUAGE pllua AS \$\$ return 'a\\0b' \$\$",
		"CREATE FUNCTION lua_bytes(d bytea) RETURNS bytea LANGUAGE pllua AS \$\$ return d .. '\\0b' \$\$",
		"CREATE FUNCTION lua_change() RETURNS trigger LANGUAGE pllua AS \$\$ trigger.row.doc = spi.execute(\"SELECT \$1 || '\\\\x0021'::bytea AS d\", trigger.row.doc)[1].d return trigger.row \$\$",
		'CREATE TRIGGER change BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION lua_change()', 'INSERT INTO t SELECT 2, doc FROM t');
	is(sql('SELECT lua_made()'), '\x61', 'pllua: a string is cut at a NUL');
	is(sql('SELECT lua_bytes(doc) FROM t WHERE id = 1'), '\x00255044462d5c780a41ff0062', 'pllua: not by a function of bytea');
	is(sql('SELECT doc FROM t WHERE id = 2'), '\x00255044462d5c780a41ff0021', 'pllua: nor a value that the server has made');
	return;
}

foreach my $part ([ securefile_plpython3u => \&test_python ], [ plperl => \&test_perl ], [ pltcl => \&test_tcl ], [ pllua => \&test_lua ])
{
	my ($extension, $test) = @$part;
	SKIP:
	{
		skip("$extension is not installed", 1) unless $there{$extension} && ($extension !~ /python/ || $there{plpython3u});
		sql('DROP TABLE t, plain CASCADE', 'CREATE TABLE t (id int, doc securefile)', 'CREATE TABLE plain (id int, doc bytea)');
		$test->();
	}
}
$node->stop;
done_testing();
