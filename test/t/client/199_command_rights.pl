# The command securefile and libpgsecurefile never run functions of another role with the
# rights of the caller.  A role that may create objects in public, where the extension is
# too, makes functions, operators, types and a collation that fit the arguments of every
# statement better than PostgreSQL's own; a superuser then runs every verb.  Each function
# writes a line to the server's log when it runs as a superuser.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $client = $ENV{SECUREFILE_CLIENT};
plan skip_all => 'test/run has built no client library' unless defined $client;
my $top = "$FindBin::RealBin/../../..";
$ENV{LD_LIBRARY_PATH} = "$client/lib";

my $node = new_cluster('command_rights', conf => ["securefile.monitor_naptime = '1h'"]);
enter($node);

sub as_mallory
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, extra_params => [ '-U', 'mallory' ], on_error_stop => 1);
	die "mallory: $err" if $rc != 0;
	return $out;
}

# What ran as a superuser since the last call.
my $log_end = 0;

sub spied
{
	my $log = slurp_file($node->logfile, $log_end);
	$log_end += length $log;
	my %found = map { $_ => 1 } $log =~ /LOG:  spied: (.*)/g;
	return join("\n", sort keys %found);
}

# ---- what the role makes ----

# A function that notes its name.
sub noting
{
	my ($signature, $options, $result) = @_;
	return "CREATE FUNCTION $signature $options LANGUAGE plpgsql AS "
	  . "\$spy\$ BEGIN PERFORM mallory.spy(\$name\$$signature\$name\$); RETURN $result; END \$spy\$;\n";
}

my @types = (qw(text varchar bpchar name "char" int2 int4 int8 oid regclass regtype regnamespace tid bool bytea),
	qw(public.securefile public.citext mallory.file mallory.word mallory.ci mallory.color));

# What is there already, of the extension, stays.
sub unless_there { return "CALL mallory.make(\$make\$$_[0]\$make\$);\n"; }

# Operators for each pair of types; all of them return a truth value, wrong as it may be.
sub operators
{
	my $sql = '';
	my $number = 0;
	foreach my $left (@types)
	{
		foreach my $right (@types)
		{
			my $function = 'mallory.pair' . $number++;
			$sql .= noting("$function($left, $right)", 'RETURNS bool', 'false');
			$sql .= unless_there("CREATE OPERATOR public.$_ (LEFTARG = $left, RIGHTARG = $right, FUNCTION = $function)")
			  foreach '=', '<>', '<', '>', '~~', '||', '-';
		}
	}
	return $sql;
}

# What a caller may have instead of an argument of that type, and be found first.
my %likes = (
	text => [qw(text varchar name mallory.color mallory.word)], name => [qw(name text varchar)],
	'"any"' => [@types], integer => [qw(int4 int2 int8)], bigint => [qw(int8 int4)], regclass => [qw(regclass oid text)],
	securefile => [qw(public.securefile mallory.file bytea int4)], bytea => [qw(bytea public.securefile)],
);

sub combinations
{
	my ($first, @rest) = @_;
	return ('') unless defined $first;
	return map {
		my $rest = $_;
		map { $rest eq '' ? $_ : "$_, $rest" } @{ $likes{$first} || [$first] }
	} combinations(@rest);
}

# Functions of the names that the statements call, for arguments like those of the real ones.
sub functions
{
	my $real = $node->safe_psql('postgres', q{
		SELECT proname || '|' || format_type(prorettype, NULL) || '|' || proretset || '|' ||
			array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) t), ';')
		FROM pg_proc WHERE pronamespace IN ('pg_catalog'::regnamespace, 'public'::regnamespace) AND prokind = 'f'
		AND (proname IN ('quote_ident', 'length', 'pg_column_size', 'starts_with', 'pg_partition_tree', 'generate_series',
			'pg_export_snapshot', 'format', 'concat', 'octet_length', 'encode') OR proname ~ '^securefile_(digest|check|chunks|hash_extended|create|open|read|seek|write|truncate|finish|close)$')
		AND prorettype NOT IN ('trigger'::regtype) AND proname || format_type(prorettype, NULL) !~ 'numeric|timestamp'});
	my %made;
	foreach my $line (split /\n/, $real)
	{
		my ($name, $result, $set, $args) = split /\|/, $line, -1;
		my $options = 'RETURNS ' . ($set eq 'true' ? "SETOF $result" : $result);
		my @args = split /;/, $args;
		push @args, '"any"' if $name eq 'format' && @args == 2;
		$made{"public.$name($_)"} = noting("public.$name($_)", $options, $set eq 'true' ? '' : 'NULL') foreach combinations(@args);
	}
	return join '', map { unless_there($made{$_}) } sort keys %made;
}

$node->safe_psql('postgres', q{CREATE ROLE mallory LOGIN; GRANT ALL ON SCHEMA public TO mallory;
	CREATE SCHEMA mallory AUTHORIZATION mallory; CREATE SCHEMA super; CREATE EXTENSION citext SCHEMA public});
as_mallory(q{CREATE FUNCTION mallory.spy(what text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user AND r.rolsuper) THEN
			RAISE LOG 'spied: %', what;
		END IF;
	END $$;
	CREATE PROCEDURE mallory.make(sql text) LANGUAGE plpgsql AS $$
		BEGIN EXECUTE sql; EXCEPTION WHEN duplicate_function THEN NULL; END $$;
	CREATE DOMAIN mallory.file AS public.securefile;
	CREATE DOMAIN mallory.word AS varchar(100);
	CREATE DOMAIN mallory.ci AS public.citext;
	CREATE TYPE mallory.color AS ENUM ('101', '102', '103', '104');
	CREATE TYPE mallory.tint AS ENUM ('101', '102', '103', '104');
	CREATE COLLATION public."C" FROM "POSIX"});
as_mallory(noting('mallory.passes(text)', 'RETURNS bool', 'true')
	  . 'CREATE DOMAIN mallory.checked AS varchar CHECK (mallory.passes(VALUE));'
	  . 'CREATE TYPE mallory.pair AS (a mallory.checked, b int);'
	  . noting('mallory.cast_color(mallory.color)', 'RETURNS text', q{'x'})
	  . 'CREATE CAST (mallory.color AS text) WITH FUNCTION mallory.cast_color AS ASSIGNMENT;'
	  . noting('mallory.cast_tint(mallory.tint)', 'RETURNS text', q{'x'})
	  . 'CREATE CAST (mallory.tint AS text) WITH FUNCTION mallory.cast_tint AS IMPLICIT;');
as_mallory(operators() . functions());

# found where the search path has public first
as_mallory("CREATE DOMAIN public.\"$_\" AS pg_catalog.\"$_\" CHECK (mallory.passes('type $_'));")
  foreach qw(text name int2 int8 oid regclass regtype);

cmp_ok(as_mallory(q{SELECT count(*) FROM pg_catalog.pg_operator WHERE oprnamespace OPERATOR(pg_catalog.=) 'public'::pg_catalog.regnamespace}),
	'>', 2000, 'operators are there');
spied();
$node->safe_psql('postgres', q{SELECT length('x'::varchar) = 1 AND 'a'::varchar = 'a'::varchar, starts_with('a'::name, 'a'::name)});
like(spied(), qr/^mallory\.pair\d+\(varchar, varchar\)\npublic\.length\(varchar\)\npublic\.starts_with\(name, name\)$/, 'who names no schema calls them');

# ---- the verbs ----

my $large = bytes(1, 300_000);
my @names = ('101', '102');
write_file("$_/103", 'one more') foreach 'tree', 'less';
write_file('tree/104', $large);

# Two files put by a user of the command, null for the superuser.
sub put_files
{
	my ($what, $of, $user) = @_;
	my @as = defined $user ? ('-U', $user) : ();
	ends(0, qr/^$/, "$what: put", \'small', 'put', @as, @$of, '-', $names[0]);
	ends(0, qr/^$/, "$what: put of a long one", 'put', @as, @$of, 'tree/104', $names[1]);
	return;
}

# The verbs that change nothing but by deleting.
sub read_files
{
	my ($what, $of) = @_;
	my ($one, $two) = map { quotemeta } @names;
	ends(0, qr/^ +5  $one\n +300000  $two\n$/, "$what: ls", 'ls', @$of, '*10*');
	is((command('cat', @$of, @names))[1], "small$large", "$what: cat");
	unlink 'got';
	ends(0, qr/^$/, "$what: get", 'get', @$of, $names[1], 'got');
	holds('got', $large, "$what: what was got");
	ends(0, qr/^length:  5\n.*^xxh3: /ms, "$what: stat", 'stat', '--hash', @$of, $names[0]);
	ends(0, qr/nothing wrong/, "$what: verify", 'verify', @$of);
	system('rm', '-rf', 'out');
	ends(0, qr/2 got/, "$what: export", 'export', @$of, 'out', '*');
	holds("out/$names[0]", 'small', "$what: what was exported");
	ends(0, qr/2 same/, "$what: verify against a tree", 'verify', '--against', 'out', @$of);
	ends(0, qr/^$/, "$what: rm", 'rm', '-q', @$of, @names);
	return;
}

# Those that store what is there already, and make both sides equal.
sub trees
{
	my ($what, $of) = @_;
	ends(0, qr/2 put/, "$what: import", 'import', @$of, 'tree');
	ends(0, qr/^$/, "$what: put --replace", 'put', '--replace', @$of, 'tree/104', '103');
	ends(0, qr/1 replaced, 1 same|1 same, 1 replaced/, "$what: import --replace", 'import', '--replace', @$of, 'tree');
	ends(0, qr/^$/, "$what: rm of a number", 'rm', '-q', @$of, '103');
	ends(0, qr/1 put, 1 removed/, "$what: sync --to-table", 'sync', '--to-table', '--delete', @$of, 'less');
	system('cp', '-r', 'tree', 'synced') == 0 or die 'cp failed';
	ends(0, qr/1 same, 1 removed/, "$what: sync --to-tree", 'sync', '--to-tree', '--delete', @$of, 'synced');
	system('rm', '-rf', 'synced');
	$node->safe_psql('postgres', "UPDATE $of->[1] SET document = NULL, origin = '104'");
	ends(0, qr/1 files to store/, "$what: migrate, a report", qw(migrate --from origin --root tree --dry-run), @$of);
	ends(0, qr/1 put, 1 same/, "$what: migrate", qw(migrate --from origin --root tree --verify), @$of);
	return;
}

my @keys = qw(text varchar(100) name int mallory.word mallory.color mallory.tint mallory.ci bpchar);
foreach my $path ('"$user", public', 'public, pg_catalog')
{
	foreach my $key ($path =~ /catalog/ ? @keys[ 0, 3 ] : @keys)
	{
		foreach my $owner ($key =~ /color|tint|ci\b|bpchar/ ? ('mallory') : ('mallory', 'super'))
		{
			my $what = "$path, $key, table of $owner";
			my $make = "DROP TABLE IF EXISTS $owner.docs; CREATE TABLE $owner.docs (name $key PRIMARY KEY, document "
			  . ($owner eq 'mallory' ? 'mallory.file, origin mallory.word)' : 'public.securefile, origin pg_catalog.varchar)');
			$owner eq 'mallory' ? as_mallory($make) : $node->safe_psql('postgres', $make);
			spied();
			local $ENV{PGOPTIONS} = '-c search_path=' . ($path =~ s/ //gr);
			my $of = [ '-t', "$owner.docs" ];
			put_files($what, $of);
			read_files($what, $of);
			trees($what, $of);
			is(spied(), '', "$what: nobody's functions ran");
		}
	}
}

# checks of the role's own types, which run when it stores a value, not when a value is looked for
foreach my $case ([ 'mallory.checked', '101', '102' ], [ 'mallory.checked[]', '{101}', '{102}' ], [ 'mallory.pair', '(101,1)', '(102,2)' ])
{
	my $type = shift @$case;
	@names = @$case;
	as_mallory("DROP TABLE mallory.docs; CREATE TABLE mallory.docs (name $type PRIMARY KEY, document mallory.file)");
	my $of = [ '-t', 'mallory.docs' ];
	put_files($type, $of, 'mallory');
	spied();
	read_files($type, $of);
	is(spied(), '', "$type: nobody's functions ran");
}

# names are the same when their type says so
$node->safe_psql('postgres', 'CREATE TABLE super.two (a public.citext PRIMARY KEY, document public.securefile)');
ends(0, qr/^$/, 'citext: put', \'x', 'put', '-t', 'super.two', '-', 'Name');
is((command('cat', '-t', 'super.two', 'nAME'))[1], 'x', 'citext: found as citext compares');

# ---- the library ----

# Run an example; what it prints.
sub example
{
	my ($in, $program, @args) = @_;
	my ($out, $err) = ('', '');
	my $good = IPC::Run::run([ "$top/client/examples/$program", $node->connstr('postgres'), @args ], '<', \$in, '>', \$out, '2>', \$err);
	ok($good, "examples: $program") or diag("$out$err");
	return $out;
}

as_mallory('CREATE TABLE public.docs (id int4 PRIMARY KEY, name text, document mallory.file)');
as_mallory(q{INSERT INTO public.docs VALUES (1, 'n', 'begin ')});
spied();
example("appended\n", 'append', 1);
is(spied(), '', "nobody's functions ran when a value was written at its end");
is($node->safe_psql('postgres', q{SELECT pg_catalog.convert_from(document::bytea, 'UTF8') FROM public.docs}), "begin appended\n", 'it was');
spied();
example('', 'patch', 1, 2, 0, 6);
example('', 'get', 1);
is(spied(), '', 'nor when it was changed and read');

# the owner gives the column another type, for which there are functions of these names
as_mallory('ALTER TABLE public.docs DROP COLUMN document; ALTER TABLE public.docs ADD COLUMN document bytea DEFAULT pg_catalog.decode($$616263$$, $$hex$$)');
is(example('', 'get', 1), 'abc', 'a bytea is read');
as_mallory('ALTER TABLE public.docs DROP COLUMN document; ALTER TABLE public.docs ADD COLUMN document int4 DEFAULT 7');
foreach my $program ('get', 'append')
{
	my ($out, $err) = ('', '');
	IPC::Run::run([ "$top/client/examples/$program", $node->connstr('postgres'), 1 ], '<', \'', '>', \$out, '2>', \$err);
	like($err, qr/types public\.securefile and integer cannot be matched|types securefile and integer cannot be matched/, "$program: a number is refused");
}
is(spied(), '', "nobody's functions ran for columns of other types");

$node->stop;
done_testing();
