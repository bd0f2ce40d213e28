# PostgreSQL's own regression tests over tables that have a securefile column each, added
# by an event trigger, with stored values.  What the tests show differs then; what counts
# is that nobody crashes, that no internal error shows that does not without the columns,
# and that all columns are sound afterwards.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileCore;
use Test::More;

need_assertions();
my $input = 'src/test/regress';
my %suite = (name => 'columns', unread => 1, input => $input, tests => [ '--schedule=' . core_source("$input/parallel_schedule") ]);

# Values on both sides of what a row keeps, most of them stored.  Tables that can have no
# such column are left alone.
my $prepare = q{
	CREATE SCHEMA every_table;
	GRANT USAGE ON SCHEMA every_table TO PUBLIC;
	CREATE FUNCTION every_table.some_bytes() RETURNS public.securefile LANGUAGE sql VOLATILE AS $$
		SELECT pg_catalog.decode(pg_catalog.repeat(pg_catalog.md5(pg_catalog.random()::text), 244 + (pg_catalog.random() OPERATOR(pg_catalog.*) 156)::int), 'hex')
	$$;
	CREATE FUNCTION every_table.add_column() RETURNS event_trigger LANGUAGE plpgsql AS $$
	DECLARE
		made record;
	BEGIN
		FOR made IN SELECT * FROM pg_catalog.pg_event_trigger_ddl_commands() WHERE object_type OPERATOR(pg_catalog.=) 'table' LOOP
			BEGIN
				EXECUTE pg_catalog.format('ALTER TABLE %s ADD COLUMN sfx public.securefile DEFAULT every_table.some_bytes()', made.object_identity);
			EXCEPTION WHEN OTHERS THEN
				IF pg_catalog.starts_with(SQLSTATE, 'XX') THEN
					RAISE;
				END IF;
				RAISE LOG 'no column in %: %', made.object_identity, SQLERRM;
			END;
		END LOOP;
	END $$;
	CREATE EVENT TRIGGER add_column ON ddl_command_end
		WHEN tag IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO') EXECUTE FUNCTION every_table.add_column();
};

# What class XX a plain run shows.
my $plain = core_cluster('plain');
run_suite($plain, %suite);
my $known = internal_errors($plain);
$plain->stop;

my $node = core_cluster('columns', prepare => $prepare);
my $run = run_suite($node, %suite);
my $found = internal_errors($node);
my @more = map { "$_: $found->{$_}" } grep { !$known->{$_} } sort keys %$found;
log_is_clean($node, 'columns');
nothing_internal($node, 'columns');
is(join("\n", @more), '', 'columns: no internal error that does not show without them');
my ($columns, $with_data) = all_sound($node, 'regression', 'columns');
cmp_ok($columns, '>', 200, 'columns: tables were given one');
cmp_ok($with_data, '>', 100, 'columns: many have stored values');
note("figures: core: columns, $columns of them, $with_data with data, in " . @{ $run->{tests} } . ' tests');
$node->stop;
done_testing();
