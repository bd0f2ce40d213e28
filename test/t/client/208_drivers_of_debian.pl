# What Debian's packages have of programs that ask the catalogs for the type: Ruby's
# ActiveRecord, PHP, as doc/drivers.md has them (test/drivers); wal2json, which sends contents.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileDrivers;
use SecurefileTest;
use Test::More;

try_stacks('ruby', 'php');

# ---- wal2json ----

SKIP:
{
	my $node = new_cluster('decoded', init => { allows_streaming => 'logical' });
	my ($rc) = $node->psql('postgres', q{SELECT pg_create_logical_replication_slot('s', 'wal2json')});
	skip('wal2json is not installed', 1) if $rc != 0;

	# what it said of each row of a table since the last time: the change, type and value of the document
	my $changes = sub {
		my (@sql) = @_;
		$node->safe_psql('postgres', join('; ', @sql));
		return $node->safe_psql('postgres', q{
			SELECT c ->> 'action', col ->> 'type', md5(decode(substr(col ->> 'value', 1 + 2 * (left(col ->> 'value', 2) = '\x')::integer), 'hex')), length(col ->> 'value')
			FROM pg_logical_slot_get_changes('s', NULL, NULL, 'format-version', '2') r, LATERAL (SELECT r.data::jsonb AS c) j,
				LATERAL jsonb_path_query(c, '$.columns[*] ? (@.name == "document")') col});
	};
	my $expected = sub { return $node->safe_psql('postgres', "SELECT '$_[0]', '$_[1]', md5($_[2]), 2 * length($_[2])"); };
	$node->safe_psql('postgres', 'CREATE TABLE docs (id int PRIMARY KEY, document securefile(nocache))');
	$changes->();
	my $long = q{convert_to(repeat('0123456789', 100000), 'UTF8')};
	is($changes->("INSERT INTO docs VALUES (1, $long)"), $expected->('I', 'securefile(nocache)', $long), 'wal2json: a long value is sent whole, in hex');
	is($changes->(q{UPDATE docs SET document = '\x005c' WHERE id = 1}), $expected->('U', 'securefile(nocache)', q{'\x005c'::bytea}), 'wal2json: a short one');
	is($changes->('UPDATE docs SET document = NULL WHERE id = 1'), 'U|securefile(nocache)||', 'wal2json: NULL');
	$node->stop;
}
done_testing();
