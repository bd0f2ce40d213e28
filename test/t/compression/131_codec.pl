# Writing and reading compressed: values of each level and of none, in unit maps of both
# kinds, in versions that mix codecs, are read back right, also in pieces and after a crash.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $node = new_cluster('codec', conf => ['securefile.monitor = off']);

# Bytes of long runs, of none, and of both in turn, unit by unit.
sql(q{
	CREATE FUNCTION runs(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT convert_to(substring(string_agg(repeat(chr(97 + (i * 7 + seed) % 26), 1000), '' ORDER BY i) FOR len), 'SQL_ASCII')
	   FROM generate_series(0, len / 1000) i $$;
	CREATE FUNCTION mixed(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substring(string_agg(CASE WHEN i % 2 = 0 THEN runs(seed + i, 131072) ELSE blob(seed + i, 131072) END, ''::bytea ORDER BY i) FROM 1 FOR len)
	   FROM generate_series(0, len / 131072) i $$;
});

# What is written from now on goes by this word.
sub codec { my ($t, $options, $word) = @_; return sql("ALTER TABLE $t ALTER doc TYPE securefile($word, $options)") }

sub live { return settle($node, $_[0], 'doc')->{live_bytes} }

my @lengths = (4001, 131_072, 131_073, 700_000, 12_582_913);

foreach my $options ('logging', 'filesystem_like_logging, nocache', 'cache')
{
	my ($t) = $options =~ /^(\w+)/;
	$t = "t_$t";
	make_table($node, $t, $options);
	sql("CREATE TABLE want_$t (id int PRIMARY KEY, data bytea)");
	my $id = 0;
	foreach my $make ('runs', 'mixed', 'blob')
	{
		foreach my $len ($options eq 'logging' ? @lengths : @lengths[0, 2, 3])
		{
			$id++;
			sql("INSERT INTO want_$t VALUES ($id, $make($id, $len))");
		}
	}
	my $right = sub {
		my ($name) = @_;
		is(sql("SELECT count(*) FROM $t JOIN want_$t w USING (id) WHERE doc::bytea = w.data AND length(doc) = length(w.data)"),
			$id, "$options: $name: whole");
		is(sql("SELECT count(*) FROM $t JOIN want_$t w USING (id), (VALUES (1, 10), (131000, 200), (131073, 131072), (100000, 900000)) v (f, n)"
				. " WHERE substring(doc FROM f FOR n) IS DISTINCT FROM substring(w.data FROM f FOR n)"),
			0, "$options: $name: parts");
		is(sql("SELECT count(*) FROM (SELECT id, string_agg(c.data, ''::bytea ORDER BY c.n) AS data"
				. " FROM $t, securefile_chunks(doc, chunk_size => 50000) WITH ORDINALITY AS c (data, n) GROUP BY id) x JOIN want_$t w USING (id) WHERE x.data = w.data"),
			$id, "$options: $name: pieces");
		is(sql("SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, "$options: $name: check");
	};

	codec($t, $options, 'nocompress');
	sql("INSERT INTO $t SELECT id, 0, 0, data FROM want_$t");
	$right->('without a codec');
	my $plain = live($t);
	foreach my $word ('compress_low', 'compress_medium', 'compress_high')
	{
		codec($t, $options, $word);
		sql("UPDATE $t SET doc = w.data FROM want_$t w WHERE w.id = $t.id");
		$right->($word);
		cmp_ok(live($t), '<', 0.6 * $plain, "$options: $word takes less space");
	}

	# versions of both ways: each unit goes by what was done to it
	foreach my $word ('nocompress', 'compress_low', 'compress', 'nocompress')
	{
		my $on = $word ne 'nocompress';
		codec($t, $options, $word);
		my $edit = $on ? "runs(id, 140000)" : "blob(id, 140000)";
		sql("UPDATE $t SET doc = overlay(doc PLACING $edit FROM 120001) WHERE length(doc) > 300000");
		sql("UPDATE want_$t SET data = overlay(data PLACING $edit FROM 120001) WHERE length(data) > 300000");
		sql("UPDATE $t SET doc = doc || $edit; UPDATE want_$t SET data = data || $edit");
		$right->("a version, $word");
	}

	# a hole, and a unit behind it; a cut
	codec($t, $options, 'compress_high');
	my $long = "(SELECT min(id) FROM want_$t WHERE length(data) > 600000)";
	sql("DO \$\$ DECLARE h int; BEGIN
		h := securefile_open(doc, 'rw') FROM $t WHERE id = $long;
		PERFORM securefile_seek(h, 2000000, 0);
		PERFORM securefile_write(h, runs(5, 300000));
		UPDATE $t SET doc = securefile_finish(h) WHERE id = $long; END \$\$");
	sql("UPDATE want_$t SET data = data || substring(decode(repeat('00', 2000000), 'hex') FROM length(data) + 1) || runs(5, 300000) WHERE id = $long");
	$right->('a hole');
	sql("UPDATE $t SET doc = securefile_truncate(doc, 200000) WHERE id = $long");
	sql("UPDATE want_$t SET data = substring(data FROM 1 FOR 200000) WHERE id = $long");
	$right->('cut');

	crash($node);
	$node->start;
	$right->('after a crash');
}

$node->stop;
done_testing();
