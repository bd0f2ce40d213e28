# Kept hashes: random programs of puts, streams, edits, copies, rewrites, rollbacks and changes
# of options, in columns of all kinds, also such as deduplicate.  After each round every hash
# is compared with the SHA-256 that Perl computes of what the value has to be.

use strict;
use warnings;
use Cwd qw(abs_path);
use Digest::MD5 qw(md5 md5_hex);
use Digest::SHA qw(sha256_hex);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{SECUREFILE_SEED} || int(rand(1_000_000_000));
my $seconds = $ENV{SECUREFILE_HASH_SECONDS} || 10;
srand($seed);
note("seed $seed");

my $node = new_cluster('hash', conf => [ master_key(), 'securefile.monitor = off' ]);
my $directory = abs_path(PostgreSQL::Test::Utils::tempdir());

# The same bytes in SQL and in Perl: runs(n) compress, noise(n) does not.
sql(q{CREATE FUNCTION runs(n int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substring(convert_to(repeat(md5(n::text), len / 32 + 1), 'SQL_ASCII') FOR len) $$},
	q{CREATE FUNCTION rough(n int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substring(decode(string_agg(md5(n || ':' || i), '' ORDER BY i), 'hex') FOR len) FROM generate_series(0, len / 16) i $$});
my $number = 0;

# Some bytes: SQL, and what they are.
sub bytes
{
	my ($len) = @_;
	$number++;
	return ("runs($number, $len)", substr(md5_hex($number) x ($len / 32 + 1), 0, $len)) if rand() < 0.6;
	return ("rough($number, $len)", substr(join('', map { md5("$number:$_") } 0 .. $len / 16), 0, $len));
}

sub one_of { return $_[ int(rand(@_)) ] }

# Lengths around the edges of blocks of SHA-256, of the row, and of units.
sub some_length
{
	my $edge = one_of(0, 64, 128, 4000, 4096, 131072, 2 * 131072, 3 * 131072, 5 * 131072);
	my $len = rand() < 0.7 ? $edge + int(rand(140)) - 70 : int(rand(600_000));
	return $len < 0 ? 0 : $len;
}

# ---- columns ----

my @options = ('hash', 'hash, compress_low', 'hash, compress_medium, nocache', 'hash, encrypt', 'hash, encrypt, compress_low',
	'hash, disable_storage_in_row', 'hash, filesystem_like_logging, cache', 'no_hash');
# accepted by builds with fault points
push @options, 'deduplicate, hash', 'deduplicate, hash, compress_low, encrypt', 'deduplicate'
  if ($node->psql('postgres', 'SELECT securefile_fault_reset()'))[0] == 0;
my %hashes;		# does the table keep hashes now?
my %model;		# table => id => bytes
foreach my $i (0 .. $#options)
{
	sql("CREATE TABLE t$i (id int PRIMARY KEY, doc securefile($options[$i]), sha bytea GENERATED ALWAYS AS (securefile_digest(doc)) STORED)");
	$hashes{"t$i"} = $options[$i] =~ /\bhash/;
	$model{"t$i"} = {};
}
my @tables = sort keys %model;

# ---- a program ----

# Bytes from a place on.
sub rest { my ($bytes, $at) = @_; return $at < length $bytes ? substr($bytes, $at) : '' }

# Each returns SQL, and changes the model as that will change the table.
my %operations = (
	insert => sub {
		my ($t, $rows) = @_;
		my ($sql, $bytes) = bytes(some_length());
		my $id = ++$number;
		$rows->{$id} = $bytes;
		return "INSERT INTO $t VALUES ($id, $sql)";
	},
	copy_in => sub {
		my ($t, $rows) = @_;
		my (undef, $bytes) = bytes(some_length());
		my $id = ++$number;
		$rows->{$id} = $bytes;
		append_to_file("$directory/$id", "$id\t\\\\x" . unpack('H*', $bytes) . "\n");
		return "COPY $t (id, doc) FROM '$directory/$id'";
	},
	append => sub {
		my ($t, $rows, $id) = @_;
		my ($sql, $bytes) = bytes(one_of(0, 1, 63, 64, 65, int(rand(300_000))));
		$rows->{$id} .= $bytes;
		return "UPDATE $t SET doc = doc || $sql WHERE id = $id";
	},
	overlay => sub {
		my ($t, $rows, $id) = @_;
		my ($sql, $bytes) = bytes(1 + int(rand(one_of(10, 200_000))));
		my $at = int(rand(length($rows->{$id}) + 1));
		my $cut = rand() < 0.7 ? length $bytes : int(rand(1000));
		my $end = $at + $cut < length $rows->{$id} ? $at + $cut : length $rows->{$id};
		$rows->{$id} = substr($rows->{$id}, 0, $at) . $bytes . substr($rows->{$id}, $end);
		return "UPDATE $t SET doc = overlay(doc PLACING $sql FROM " . ($at + 1) . " FOR $cut) WHERE id = $id";
	},
	truncate => sub {
		my ($t, $rows, $id) = @_;
		my $len = rand() < 0.6 ? int(rand(length($rows->{$id}) + 1)) : some_length();
		$rows->{$id} = substr($rows->{$id} . "\0" x $len, 0, $len);
		return "UPDATE $t SET doc = securefile_truncate(doc, $len) WHERE id = $id";
	},
	# of this column or of another one
	copy => sub {
		my ($t, $rows, $id) = @_;
		my $from = one_of(@tables);
		my ($source) = grep { $from ne $t || $_ != $id } keys %{ $model{$from} };
		return '' unless defined $source;
		$rows->{$id} = $model{$from}{$source};
		return "UPDATE $t SET doc = s.doc FROM $from s WHERE $t.id = $id AND s.id = $source";
	},
	join => sub {
		my ($t, $rows, $id) = @_;
		my ($other) = keys %$rows;
		$rows->{$id} = $rows->{$other} . $rows->{$id};
		return "UPDATE $t SET doc = (SELECT doc FROM $t WHERE id = $other) || doc WHERE id = $id";
	},
	# what a row has, or almost that, given whole or as a stream
	again => sub {
		my ($t, $rows) = @_;
		my $id = ++$number;
		my $from = one_of(grep { %{ $model{$_} } } @tables);
		my $source = one_of(sort keys %{ $model{$from} });
		my $bytes = $model{$from}{$source};
		my $doc = "(SELECT doc::bytea FROM $from WHERE id = $source)";
		$rows->{$id} = $bytes;
		return "INSERT INTO $t SELECT $id, $doc" if rand() < 0.4;
		my $step = one_of(131_072, 200_000, 1_000_000);
		my $sql = "SELECT securefile_create('$t', 'doc') AS h \\gset\n"
		  . "SELECT sum(securefile_write(:h, substring($doc FROM i + 1 FOR $step))) FROM generate_series(0, @{[ length $bytes ]}, $step) i";
		if (rand() < 0.5)
		{
			my ($piece_sql, $piece) = bytes(1 + int(rand(one_of(10, 200_000))));
			my $at = rand() < 0.5 ? length $bytes : int(rand(length($bytes) + 1));
			$rows->{$id} = substr($bytes, 0, $at) . $piece . rest($bytes, $at + length $piece);
			$sql .= ";\nSELECT securefile_seek(:h, $at, 0);\nSELECT securefile_write(:h, $piece_sql)";
		}
		return "$sql;\nINSERT INTO $t SELECT $id, securefile_finish(:h)";
	},
	# a handle: pieces in order, or with jumps forth and back
	stream => sub {
		my ($t, $rows, $id) = @_;
		my $new = rand() < 0.5;
		my $bytes = $new ? '' : $rows->{$id};
		my $in_order = rand() < 0.4;
		my $at = $in_order && !$new ? length $bytes : 0;
		my $sql = $new ? "securefile_create('$t', 'doc') AS h" : "securefile_open(doc, 'rw') AS h FROM $t WHERE id = $id";
		my @steps = ("SELECT $sql \\gset\n");
		foreach (1 .. 1 + int(rand(8)))
		{
			my $what = $in_order ? 1 : rand();
			if ($what < 0.15)
			{
				my $len = int(rand(length($bytes) + 200_000));
				$bytes = substr($bytes . "\0" x $len, 0, $len);
				push @steps, "SELECT securefile_truncate(:h, $len)";
				next;
			}
			$at = int(rand(length($bytes) + one_of(1, 400_000))) if $what < 0.6;
			my ($piece_sql, $piece) = bytes(1 + int(rand(one_of(100, 200_000, 400_000))));
			$bytes .= "\0" x ($at - length $bytes) if $at > length $bytes;
			substr($bytes, $at, length $piece) = $piece;
			push @steps, "SELECT securefile_seek(:h, $at, 0)", "SELECT securefile_write(:h, $piece_sql)";
			$at += length $piece;
		}
		$rows->{$id} = $bytes;
		return join(";\n", @steps, "UPDATE $t SET doc = securefile_finish(:h) WHERE id = $id");
	},
	delete => sub {
		my ($t, $rows, $id) = @_;
		return '' if rand() < 0.7;
		delete $rows->{$id};
		return "DELETE FROM $t WHERE id = $id";
	});

my ($programs, $compared, $kept) = (0, 0, 0);

# A transaction of some operations; some of them are rolled back.
sub program
{
	my @sql = ('BEGIN');
	foreach (1 .. 1 + int(rand(6)))
	{
		my $t = one_of(@tables);
		my $rows = $model{$t};
		my ($name) = one_of(sort keys %operations);
		my @ids = grep { length $rows->{$_} < 3_000_000 } sort keys %$rows;
		my $id = @ids ? one_of(@ids) : undef;
		next if !defined $id && $name !~ /^(?:insert|copy_in)$/;
		my $back = rand() < 0.15;
		my %before = %$rows;
		push @sql, 'SAVEPOINT s' if $back;
		push @sql, $operations{$name}->($t, $rows, $id);
		next unless $back;
		push @sql, 'ROLLBACK TO s';
		%$rows = %before;
	}
	return join(";\n", (grep { $_ ne '' } @sql), 'COMMIT') . ";\n";
}

# What is between two rounds, and changes no contents.
sub between
{
	my $t = one_of(@tables);
	my $what = int(rand(8));
	if ($what == 0)
	{
		# the generated column depends on it: it is made anew
		my $option = one_of(grep { !/filesystem/ } @options);
		sql('BEGIN', "ALTER TABLE $t DROP sha", "ALTER TABLE $t ALTER doc TYPE securefile($option)",
			"ALTER TABLE $t ADD sha bytea GENERATED ALWAYS AS (securefile_digest(doc)) STORED", 'COMMIT')
		  unless $t eq 't6';
		$hashes{$t} = $option =~ /\bhash/ unless $t eq 't6';
	}
	elsif ($what == 1) { sql("SELECT securefile_rewrite('$t', 'doc')") }
	elsif ($what == 2) { sql("CALL securefile_rewrite_online('$t', 'doc', 500000)") }
	elsif ($what == 3) { sql("VACUUM FULL $t") }
	elsif ($what == 4) { sql("DELETE FROM $t WHERE id % 3 = 0"); delete @{ $model{$t} }{ grep { $_ % 3 == 0 } keys %{ $model{$t} } }; }
	return $what == 1 || $what == 2 ? $t : '';
}

# All hashes, beside what Perl says.
sub compare
{
	my ($rewritten) = @_;
	my @wrong;
	foreach my $t (@tables)
	{
		my %rows = map { $_ => 1 } keys %{ $model{$t} };
		foreach my $line (split /\n/, sql("SELECT id, encode(securefile_digest(doc), 'hex'), encode(securefile_kept_digest(doc), 'hex'), encode(sha, 'hex'), (securefile_storage(doc)).form, (securefile_storage(doc)).hashed FROM $t"))
		{
			my ($id, $digest, $kept_digest, $sha, $form, $hashed) = split /\|/, $line, -1;
			my $right = defined $model{$t}{$id} ? sha256_hex($model{$t}{$id}) : 'none';
			delete $rows{$id};
			$compared++;
			$kept++ if $hashed eq 't';
			push @wrong, "$t $id: $line, not $right" if $digest ne $right || $sha ne $right || ($kept_digest ne '' && $kept_digest ne $right) || ($hashed eq 't') != ($kept_digest ne '');
			# all values here are far below the limit
			push @wrong, "$t $id: keeps a hash: $hashed" if $t eq $rewritten && $form eq 'stored' && ($hashed eq 't') != !!$hashes{$t};
		}
		push @wrong, "$t: no row @{[ sort keys %rows ]}" if %rows;
	}
	return @wrong;
}

my $end = time() + $seconds;
my @wrong;
for (my $round = 0; time() < $end && !@wrong; $round++)
{
	my $script = join('', map { program() } 1 .. 6);
	my ($rc, $out, $err) = $node->psql('postgres', $script, on_error_stop => 1);
	$programs += 6;
	if ($rc != 0)
	{
		@wrong = "$err\n" . substr($script, 0, 20_000);
		last;
	}
	@wrong = compare(between());
}
is("@wrong", '', 'all hashes are right') or diag("seed $seed");
note("figures: $programs programs, $compared hashes compared, $kept of them kept");
cmp_ok($kept, '>', $compared / 3, 'many of them were kept');
foreach my $t (@tables)
{
	is(sql("SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, "$t: securefile_check()");
	sql("ALTER TABLE $t DROP sha", "ALTER TABLE $t ALTER doc TYPE securefile(hash@{[ $t eq 't6' ? ', filesystem_like_logging' : '' ]})", "SELECT securefile_rewrite('$t', 'doc')");
	is(sql("SELECT count(*) FROM securefile_check('$t', 'doc')"), 0, "$t: stored again, securefile_check()");
	is(sql("SELECT count(*) FROM $t WHERE securefile_digest(doc) <> securefile_digest(doc, 'sha256') OR securefile_kept_digest(doc) IS NULL AND (securefile_storage(doc)).form = 'stored'"), 0, "$t: the hashes");
}
unlike(slurp_file($node->logfile), qr/TRAP: |PANIC|\bXX000\b/, 'no crash of its own');
done_testing();
