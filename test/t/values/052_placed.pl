# Promise 7, traps 2 and 13: a value counts for the one row and column it was put
# in place for, whatever a user's trigger does with it after that.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('placed', conf => ['securefile.monitor = off']);
my $len = 20_000;

$node->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, seed int, len int, doc securefile, b securefile)');
$node->safe_psql('postgres', 'CREATE TABLE other (doc securefile)');
fill_t(1, 3);

sub fill_t
{
	my ($from, $to) = @_;
	$node->safe_psql('postgres',
		"INSERT INTO t SELECT i, i, $len, blob(i, $len) FROM generate_series($from, $to) i");
	return;
}

# With a trigger that fires after ours: the statements fail, nothing is lost.
sub refused
{
	my ($name, $body, @statements) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql(
		'postgres', qq{
		CREATE OR REPLACE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS
		\$\$ BEGIN $body RETURN NEW; END \$\$;
		CREATE OR REPLACE TRIGGER "~~meddle" BEFORE INSERT OR UPDATE ON t FOR EACH ROW
			WHEN (NEW.id >= 100) EXECUTE FUNCTION meddle();});
	fails_with($node, $_, '27000', 'was not stored for it', "$name: $_") foreach @statements;
	fill_t(50, 55);
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id >= 50');
	rows_right($node, 't', 3, $name);
	sound($node, 't', $name, column => $_) foreach ('doc', 'b');
	return;
}

my $insert = "INSERT INTO t VALUES (100, 1, $len, blob(1, $len))";
my $update = "UPDATE t SET id = 100, seed = 9, doc = blob(9, $len) WHERE id = 3";
refused('moved to another column', 'NEW.b := NEW.doc; NEW.doc := NULL;', $insert, $update);
refused('put in two columns', 'NEW.b := NEW.doc;', $insert, $update);
refused('the value of a row written just before',
	'SELECT doc INTO NEW.doc FROM t WHERE id = 40;',
	"BEGIN; INSERT INTO t VALUES (40, 40, $len, blob(40, $len)); $insert; COMMIT",
	"BEGIN; INSERT INTO t VALUES (40, 40, $len, blob(40, $len)); $update; COMMIT");
refused('the value of another table, written just before',
	'SELECT doc INTO NEW.doc FROM other;',
	"BEGIN; INSERT INTO other VALUES (blob(40, $len)); $insert; COMMIT",
	"BEGIN; INSERT INTO other VALUES (blob(40, $len)); $update; COMMIT");
refused('the value of an old row', 'SELECT doc INTO NEW.doc FROM t WHERE id = 1;', $insert, $update);

# nor do our trigger functions serve anybody else's triggers
$node->safe_psql('postgres', 'DROP TRIGGER "~~meddle" ON t');
foreach my $case (
	[ 'account', 'AFTER', 'INSERT OR UPDATE OR DELETE', 'ROW', "DELETE FROM t WHERE id = 1" ],
	[ 'store', 'BEFORE', 'INSERT OR UPDATE', 'ROW', $insert ],
	[ 'truncate', 'BEFORE', 'TRUNCATE', 'STATEMENT', 'TRUNCATE t' ])
{
	my ($what, $when, $events, $level, $statement) = @$case;
	$node->safe_psql('postgres',
		"CREATE TRIGGER by_hand $when $events ON t FOR EACH $level EXECUTE FUNCTION securefile_$what('4')");
	fails_with($node, $statement, '39P01', 'internal triggers', "securefile_$what() in a user's trigger");
	$node->safe_psql('postgres', 'DROP TRIGGER by_hand ON t');
}
rows_right($node, 't', 3, 'trigger functions by hand');
sound($node, 't', 'trigger functions by hand');

# nobody drops ours, or makes them fire before a user's
$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE u (doc securefile)');
foreach my $table ('t', 'u')
{
	my @triggers = split /\n/,
	  $node->safe_psql('postgres', "SELECT tgname FROM pg_trigger WHERE tgrelid = '$table'::regclass AND tgname LIKE '~securefile%'");
	cmp_ok(scalar(@triggers), '>=', 1, "triggers of $table");
	foreach my $trigger (@triggers)
	{
		fails_with($node, $_, '2BP01', 'cannot drop or alter trigger', $_)
		  foreach ("DROP TRIGGER \"$trigger\" ON $table", "ALTER TRIGGER \"$trigger\" ON $table RENAME TO \"000\"",
			"ALTER TRIGGER \"$trigger\" ON $table DEPENDS ON EXTENSION plpgsql");
	}
}

# a user's AFTER trigger that takes the value away before ours has seen it
foreach my $case (
	[ 'replaced', "UPDATE t SET seed = 7, doc = blob(7, $len) WHERE id = NEW.id AND seed <> 7;", 4 ],
	[ 'set to null and back', "UPDATE t SET doc = NULL, b = NULL WHERE id = NEW.id AND b IS NOT NULL;"
		  . " UPDATE t SET doc = blob(seed, $len) WHERE id = NEW.id AND doc IS NULL;", 4 ],
	[ 'deleted', 'DELETE FROM t WHERE id = NEW.id;', 3 ])
{
	my ($name, $body, $count) = @$case;
	$node->safe_psql(
		'postgres', qq{
		CREATE OR REPLACE FUNCTION hasty() RETURNS trigger LANGUAGE plpgsql AS
		\$\$ BEGIN $body RETURN NULL; END \$\$;
		CREATE OR REPLACE TRIGGER "aaa" AFTER INSERT OR UPDATE ON t FOR EACH ROW
			WHEN (NEW.id = 100) EXECUTE FUNCTION hasty();});
	$node->safe_psql('postgres', "INSERT INTO t VALUES (100, 1, $len, blob(1, $len), blob(1, $len))");
	rows_right($node, 't', $count, "$name at once");
	sound($node, 't', "$name at once", column => $_) foreach ('doc', 'b');
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 100');
	sound($node, 't', "$name, and gone", column => $_) foreach ('doc', 'b');
}

$node->stop;
done_testing();
