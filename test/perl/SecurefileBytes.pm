# For tests that run a script of operations again and again: rows that name what
# they hold, and functions that tell whether they do and whether space is right.

package SecurefileBytes;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use SecurefileTest;

our @EXPORT = qw(prepare_bytes insert_into fault_points);

# Names of the fault points whose names match.
sub fault_points
{
	my ($like) = @_;
	return grep { /$like/ } slurp("$FindBin::RealBin/../../../src/base/fault_points.h") =~ /^SF_FAULT_POINT\((\w+)/mg;
}

# bytes: what a row of a name holds; mid and half of large cannot be compressed.  wrong(t): ids of rows that do not hold that;
# unsound(t): what securefile_check and the sums of securefile_usage find; edit(t, id):
# the row holds big, and then edited.  size: length of big.
sub prepare_bytes
{
	my ($node, $db, $size) = @_;
	my $middle = $size / 2;
	$node->safe_psql($db, qq{
		CREATE TABLE bytes (name text PRIMARY KEY, data bytea);
		ALTER TABLE bytes ALTER data SET STORAGE EXTERNAL;
		INSERT INTO bytes VALUES ('small', blob(1, 100)), ('page', blob(2, 9000)), ('mid', noise(3, 300000)),
			('other', blob(4, 310000)), ('large', blob(6, 2000000) || noise(6, 2000000)), ('big', blob(5, $size));
		INSERT INTO bytes SELECT 'edited', overlay(b.data PLACING m.data FROM $middle + 1)
			FROM bytes b, bytes m WHERE b.name = 'big' AND m.name = 'mid';
		INSERT INTO bytes SELECT 'joined', p.data || m.data
			FROM bytes p, bytes m WHERE p.name = 'page' AND m.name = 'mid';
		INSERT INTO bytes SELECT 'inserted', overlay(l.data PLACING p.data FROM 1000001 FOR 0)
			FROM bytes l, bytes p WHERE l.name = 'large' AND p.name = 'page';
		CREATE FUNCTION wrong(t regclass) RETURNS text LANGUAGE plpgsql AS \$\$
		DECLARE
			found text;
		BEGIN
			EXECUTE format('SELECT string_agg(id::text, '' '') FROM %s LEFT JOIN bytes USING (name)
				WHERE doc::bytea IS DISTINCT FROM data', t) INTO found;
			RETURN coalesce(found, '');
		END \$\$;
		CREATE FUNCTION unsound(t regclass, in_row int DEFAULT 4000) RETURNS text LANGUAGE plpgsql AS \$\$
		DECLARE
			u record;
			live_min bigint;
			live_max bigint;
			found text;
		BEGIN
			FOR i IN 1 .. 20 LOOP
				PERFORM securefile_maintain(t, 'doc');
				SELECT * INTO u FROM securefile_usage(t, 'doc');
				EXIT WHEN u.pending_bytes = u.retained_bytes;
			END LOOP;
			-- a unit that is compressed or encrypted ends anywhere in a sector
			EXECUTE format('SELECT coalesce(sum((bytes + 511) / 512 * 512), 0),
					coalesce(sum((bytes + 511 * CASE WHEN s.key_id <> 0 THEN s.units ELSE least(s.units, s.compressed_units + 1) END) / 512 * 512), 0)
				FROM %s, securefile_storage(doc) s, LATERAL (SELECT CASE WHEN s.codec = ''none'' AND s.key_id = 0 THEN s.length + s.unused_bytes ELSE s.stored_bytes END) b (bytes)
				WHERE CASE WHEN s.codec = ''none'' AND s.key_id = 0 THEN s.length > %s ELSE s.form = ''stored'' END', t, in_row) INTO live_min, live_max;
			SELECT string_agg(c::text, ' ') INTO found FROM securefile_check(t, 'doc') c;
			RETURN concat_ws(' ', found, CASE WHEN u.pending_bytes <> u.retained_bytes OR u.live_bytes + u.saved_bytes < live_min
				-- what changes of shared values have overwritten is still there
				OR u.live_bytes > live_max AND u.shared_references = 0
				OR u.live_bytes + u.retained_bytes + u.free_bytes <> u.file_bytes THEN format('rows have %s to %s bytes: %s', live_min, live_max, u) END);
		END \$\$;
		CREATE FUNCTION edit(t regclass, wanted int) RETURNS void LANGUAGE plpgsql AS \$\$
		DECLARE
			fd int;
		BEGIN
			EXECUTE format('SELECT securefile_open(doc, ''rw'') FROM %s WHERE id = %s', t, wanted) INTO fd;
			IF fd IS NULL THEN
				RETURN;	-- the row could not be stored
			END IF;
			PERFORM securefile_seek(fd, $middle, 0);
			PERFORM securefile_write(fd, data) FROM bytes WHERE name = 'mid';
			EXECUTE format('UPDATE %s SET name = ''edited'', doc = securefile_finish(%s) WHERE id = %s', t, fd, wanted);
		END \$\$;
	});
	return;
}

sub insert_into
{
	my ($t, $id, $name) = @_;
	return "INSERT INTO $t SELECT $id, name, data FROM bytes WHERE name = '$name';";
}

1;
