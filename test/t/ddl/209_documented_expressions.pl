# Triggers, functions, views, generated columns, checks, policies and indexes of the documents
# run under an empty search_path, which pg_restore and the workers of logical replication have.
# The code is taken from the documents, section by section: each section gets a database,
# whose rows are written, restored without the schema, and replicated.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

my $top = "$FindBin::RealBin/../../..";

# ---- the code ----

# Statements of a piece of text; a semicolon inside of $$ ends none, nor does one in a comment.
sub statements
{
	my ($text) = @_;
	$text =~ s/--.*$//mg;
	return grep { /\S/ } $text =~ /\G((?:\$\$.*?\$\$|'[^']*'|[^;\$'])*);\s*/gs;
}

# What is kept by the server, and evaluated later, perhaps by somebody with another search_path.
sub is_kept
{
	return $_[0] =~ /^\s*(CREATE\s+(OR\s+REPLACE\s+)?(UNIQUE\s+)?(FUNCTION|PROCEDURE|TRIGGER|VIEW|RULE|POLICY|INDEX)\b
		|(CREATE|ALTER)\s+TABLE\b.*\b(GENERATED\s+ALWAYS\s+AS\s*\(|CHECK\s*\(|DEFAULT\s+\w*\())/xs;
}

# Code of a section: blocks that are indented or fenced, and strings of programs.
sub code_of
{
	my ($section) = @_;
	my @code = $section =~ /^```sql\n(.*?)^```/msg;
	push @code, join("\n", map { s/^    //r } $section =~ /^    .*$/mg);
	push @code, map { "$_;" } $section =~ /execute\("((?:CREATE|ALTER) [^"]*)"\)/g;
	return join("\n", @code);
}

# [section, statement, ..]: those that are kept, and what they need to be there.
sub sections
{
	my @found;
	foreach my $path ("$top/README.md", glob("$top/doc/*.md"), glob("$top/src/*/README.md"), glob("$top/bench/*/README.md"))
	{
		foreach my $section (split /^(?=#+ )/m, slurp_file($path))
		{
			my @all = statements(code_of($section));
			next unless grep { is_kept($_) } @all;
			my ($name) = $path =~ m{([^/]+)\.md$};
			my ($title) = $section =~ /^#+ (.*)$/m;
			next if $title eq 'Partitions, by plain SQL';    # wants its partitions: 248
			push @found, [ "$name: $title", grep { is_kept($_) || /^\s*(ALTER TABLE \w+ ADD \w+ \w+|CREATE EXTENSION securefile_\w+ CASCADE)\s*$/ } @all ];
		}
	}
	return @found;
}

my @sections = sections();
my $all = join("\n", map { @$_[ 1 .. $#$_ ] } @sections);
like($all, qr/$_/, "the documents have: $_") foreach 'CREATE TRIGGER docs_sha ', 'CREATE TRIGGER docs_words ',
  'GENERATED ALWAYS AS \(securefile_digest\(document\)\)', 'GENERATED ALWAYS AS \(length\(document\)\)',
  'CREATE INDEX ON docs \(securefile_digest', 'CREATE VIEW fdw_heads';

# ---- the scripts of the extensions ----

foreach my $script (glob("$top/securefile*--*.sql"))
{
	my @late = grep { /\bLANGUAGE\s+(sql|plpgsql)\b/i && !/\bSET search_path = |\bBEGIN ATOMIC\b/ }
	  slurp_file($script) =~ /^(CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) .*?(?:\$\$;|^END;|;)\s*?$)/msg;
	is(join('', @late), '', "$script: each function has a search_path, or looks names up once");
}

# ---- one section ----

my $node = new_cluster('path', conf => [ 'wal_level = logical', 'wal_receiver_status_interval = 1s' ]);
$node->safe_psql('postgres', 'CREATE DATABASE empty_one');
$node->safe_psql('empty_one', q{
	CREATE EXTENSION securefile;
	CREATE TABLE docs (id bigint PRIMARY KEY, name text, path text, document securefile);
	CREATE TABLE fdw_docs (LIKE docs INCLUDING ALL);
	CREATE TABLE other (id bigint PRIMARY KEY, plain bytea);
});

# The tables of a database, without those of partitions, with the column for contents.
my $tables = q{SELECT c.oid::regclass, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname IN ('document', 'plain')
	WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace ORDER BY 1};

# All that the rows have, with what triggers and expressions have made of them, and views.
sub contents
{
	my ($db) = @_;
	my @queries = map { "SELECT '$_', x::text FROM public.$_ x ORDER BY x::text" }
	  split /\n/, $node->safe_psql($db, q{SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
		AND relname NOT LIKE 'securefile%' AND NOT relispartition ORDER BY 1});
	return $node->safe_psql($db, join(";\n", q{SET search_path = ''}, @queries));
}

# Rows are written under an empty search_path, from one id on.
sub write_rows
{
	my ($db, $id) = @_;
	my ($next, $last) = ($id + 1, $id + 2);
	my $sql = "SET search_path = '';\n";
	foreach (split /\n/, $node->safe_psql($db, $tables))
	{
		my ($table, $column) = split /\|/;
		$sql .= qq{INSERT INTO public.$table (id, $column) VALUES ($id, 'a short report'), ($next, convert_to(repeat('words of a report ', 1000), 'UTF8')), ($last, '\\xff00');
			UPDATE public.$table SET $column = $column || '\\x21' WHERE id = $next; UPDATE public.$table SET $column = '\\x80' WHERE id = $id;
			DELETE FROM public.$table WHERE id = $last;\n};
	}
	return $node->psql($db, $sql, on_error_stop => 1);
}

# A database of the section's statements.
sub make_database
{
	my ($db, @statements) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE empty_one");
	foreach my $statement (@statements)
	{
		$node->safe_psql($db, "DROP TABLE IF EXISTS $1 CASCADE") if $statement =~ /^\s*CREATE TABLE (\w+)/;
		$node->safe_psql($db, $statement);
		$node->safe_psql($db, "CREATE TABLE $1_part PARTITION OF $1 DEFAULT; ALTER TABLE $1 ADD PRIMARY KEY (id)")
		  if $statement =~ /^\s*CREATE TABLE (\w+).*PARTITION BY/s;
	}
	# without one, an UPDATE cannot be published
	$node->safe_psql($db, $_) foreach split /\n/, $node->safe_psql($db, q{SELECT 'ALTER TABLE ' || c.oid::regclass || ' REPLICA IDENTITY FULL' FROM pg_class c
		WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary)});
	return;
}

# The schema first, then the rows by pg_restore --data-only, as into a table with triggers.
sub restore
{
	my ($from, $to) = @_;
	my $dump = $node->basedir . "/$from.dump";
	$node->safe_psql('postgres', "CREATE DATABASE $to");
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr($from) ], "$from: pg_dump");
	$node->command_ok([ 'pg_restore', '--schema-only', '-d', $node->connstr($to), $dump ], "$from: the schema is restored");
	$node->command_ok([ 'pg_restore', '--data-only', '-d', $node->connstr($to), $dump ], "$from: the rows are restored");
	return is(contents($to), contents($from), "$from: all of them");
}

# The restored database as a subscriber, whose triggers fire.
sub replicate
{
	my ($from, $to) = @_;
	$node->safe_psql($to, $_) foreach split /\n/, $node->safe_psql($to, q{SELECT format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', tgrelid::regclass, tgname)
		FROM pg_trigger WHERE NOT tgisinternal AND tgname NOT LIKE '~securefile%' AND tgparentid = 0});
	$node->safe_psql($from, "CREATE PUBLICATION p FOR ALL TABLES; SELECT pg_create_logical_replication_slot('$from', 'pgoutput')");
	$node->safe_psql($to, "CREATE SUBSCRIPTION $from CONNECTION '" . $node->connstr . " dbname=$from' PUBLICATION p WITH (create_slot = false, copy_data = false)");
	my ($rc, undef, $stderr) = write_rows($from, 10);
	is("$rc$stderr", '0', "$from: written once more");
	my $lsn = $node->safe_psql($from, 'SELECT pg_current_wal_lsn()');
	# an error is tried again and again, so it is waited for as well
	$node->poll_query_until($to, "SELECT (SELECT latest_end_lsn >= '$lsn' FROM pg_stat_subscription) OR (SELECT apply_error_count > 0 FROM pg_stat_subscription_stats)")
	  or die 'the subscription does nothing';
	is(contents($to), contents($from), "$from: the subscriber has all rows");
	$node->safe_psql($to, "DROP SUBSCRIPTION $from");
	return;
}

my $number = 0;
foreach my $section (@sections)
{
	my ($name, @statements) = @$section;
	# a language that is not installed here
	my ($wanted) = map { /CREATE EXTENSION (securefile_\w+)/ ? $1 : () } @statements;
	if (defined $wanted && $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = '$wanted'") == 0)
	{
		note("$name: $wanted is not installed");
		next;
	}
	my $db = 'section_' . ++$number;
	note("$db: $name");
	make_database($db, @statements);
	my ($rc, undef, $stderr) = write_rows($db, 1);
	is("$rc$stderr", '0', "$db: $name: rows are written");
	restore($db, "${db}_restored");
	replicate($db, "${db}_restored");
}

# what the triggers are for
my ($words) = grep { $sections[$_][0] =~ /Full text/ } 0 .. $#sections;
is($node->safe_psql('section_' . ($words + 1), q{SELECT id FROM docs WHERE words @@ to_tsquery('english', 'report') ORDER BY id}), "2\n11", 'full text finds documents');
my ($sha) = grep { join('', @{ $sections[$_] }) =~ /docs_sha/ } 0 .. $#sections;
is($node->safe_psql('section_' . ($sha + 1), 'SELECT count(*), count(*) FILTER (WHERE sha = sha256(document)) FROM docs'), '4|4', 'the digests are right');
fails_with($node, q{CREATE TABLE core (document securefile, words tsvector);
	CREATE TRIGGER t BEFORE INSERT ON core FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger(words, 'pg_catalog.english', document);
	INSERT INTO core VALUES ('text')}, '42804', 'not of a character type', 'the function of PostgreSQL refuses the column', db => 'empty_one');

$node->stop;
done_testing();
