# The command and the library with a server, or a network, that is not what it should be:
# cancel requests that nobody answers, answers of another form, names that were not asked for.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileProxy;
use SecurefileTest;
use Test::More;
use Time::HiRes qw(time usleep);

my $client = $ENV{SECUREFILE_CLIENT};
plan skip_all => 'test/run has built no client library' unless defined $client;
$ENV{LD_LIBRARY_PATH} = "$client/lib";

my $node = new_cluster('hostile', conf => ['securefile.monitor = off']);
my $dir = enter($node);
my $host = $ENV{PGHOST};

sql('CREATE TABLE docs (name text PRIMARY KEY, document securefile)', 'CREATE TABLE t (id int PRIMARY KEY, doc securefile)');
write_file("tree/a/$_", bytes($_, $_)) foreach 10, 5000, 700_000;
command('import', '-q', '-t', 'docs', 'tree');

# ---- cancel requests ----

my $locker = background($node);
foreach my $cancels ('swallow', 'refuse')
{
	my $proxy = start_proxy($node, cancels => $cancels, allow => 1);
	local $ENV{PGHOST} = $proxy->{dir};
	foreach my $signal ($cancels eq 'swallow' ? ('INT', 'TERM') : 'INT')
	{
		$locker->query_safe('BEGIN; LOCK TABLE docs');
		my ($out, $err) = ('', '');
		my $run = IPC::Run::start([ 'securefile', 'ls', '-t', 'docs' ], '<', \'', '>', \$out, '2>', \$err, IPC::Run::timeout(patience()));
		wait_for_sql($node, q{SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event_type = 'Lock'});
		my $began = time;
		$run->signal($signal);
		my $ended = eval { $run->finish; 1 };
		ok($ended, "$cancels: one SIG$signal ends the command");
		note(sprintf('after %.1f s', time - $began));
		$run->kill_kill unless $ended;
		is(status_of($run->full_result), $signal eq 'INT' ? 130 : 143, 'with its status') if $ended;
		$locker->query_safe('ROLLBACK');
	}
	stop_proxy($proxy);

	# the library
	next if $cancels eq 'refuse';
	$proxy = start_proxy($node, cancels => $cancels);
	local $ENV{TRIAL_WAITS} = 1;
	my ($out, $err) = ('', '');
	my $ended = eval { IPC::Run::run([ "$FindBin::RealBin/../../../test/client/trial", "host=$proxy->{dir} port=$ENV{PGPORT} dbname=postgres", 'unanswered' ], '>', \$out, '2>', \$err, IPC::Run::timeout(patience())) };
	ok($ended, "$cancels: the library: ends well") or diag($err);
	/^(not )?ok - (.*)/ && ok(!$1, "the library: $2") foreach split /\n/, $out;
	stop_proxy($proxy);
}
$locker->quit;

# ---- answers of another form ----

# Messages, and what is changed in them.
sub field { return defined $_[0] ? pack('N/a*', $_[0]) : pack('N', 0xffffffff); }
sub data_row { return [ 'D', pack('n', scalar @_) . join('', map { field($_) } @_) ]; }
sub row_description { return [ 'T', pack('n', $_[0]) . join('', map { "c\0" . pack('NnNnNn', 0, 0, 25, 0xffff, 0xffffffff, 0) } 1 .. $_[0]) ]; }

sub fields_of
{
	my ($count, $rest) = unpack('n a*', $_[0]);
	my @fields;
	foreach (1 .. $count)
	{
		my $length = unpack('N', $rest);
		push @fields, $length == 0xffffffff ? undef : substr($rest, 4, $length);
		$rest = substr($rest, 4 + ($length == 0xffffffff ? 0 : $length));
	}
	return @fields;
}

# The description of fewer columns, or with another format.
sub described
{
	my ($body, $drop, $flip) = @_;
	my @fields = unpack('n/(Z* N n N n N n)', $body);
	my $count = @fields / 7 - $drop;
	$count = 0 if $count < 0;
	return [ 'T', pack('n', $count) . join('', map { my @f = @fields[ 7 * $_ .. 7 * $_ + 6 ]; $f[6] = 1 - $f[6] if $flip; pack('Z* N n N n N n', @f) } 0 .. $count - 1) ];
}

sub of_rows
{
	my ($how) = @_;
	return sub { my ($type, $body) = @_; return $type eq 'D' ? data_row(map { $how->($_) } fields_of($body)) : [ $type, $body ]; };
}

my %changes = (
	'no columns' => sub { my ($type, $body) = @_; return $type eq 'T' ? [ 'T', pack('n', 0) ] : $type eq 'D' ? data_row() : [ $type, $body ]; },
	'fewer columns' => sub { my ($type, $body) = @_; my @fields = $type eq 'D' ? fields_of($body) : (); pop @fields; return $type eq 'T' ? described($body, 1, 0) : $type eq 'D' ? data_row(@fields) : [ $type, $body ]; },
	'another format' => sub { my ($type, $body) = @_; return $type eq 'T' ? described($body, 0, 1) : [ $type, $body ]; },
	'no rows' => sub { my ($type, $body) = @_; return $type eq 'D' ? () : [ $type, $body ]; },
	'rows twice' => sub { my ($type, $body) = @_; return ([ $type, $body ]) x ($type eq 'D' ? 2 : 1); },
	'nulls' => of_rows(sub { undef }),
	'empty' => of_rows(sub { '' }),
	'long' => of_rows(sub { 'A' x 70_000 }),
	'minus one' => of_rows(sub { defined $_[0] ? length $_[0] == 8 || length $_[0] == 4 ? "\xff" x length $_[0] : '-1' : undef }),
	'most' => of_rows(sub { defined $_[0] && length $_[0] == 8 ? "\x7f" . "\xff" x 7 : '9223372036854775807' }),
	'SQL' => of_rows(sub { 'x; DROP TABLE docs' }),
	'upwards' => of_rows(sub { '../../../escaped' }),
	'COPY IN' => sub { my ($type, $body) = @_; return $type eq 'T' ? [ 'G', pack('C n', 0, 0) ] : $type eq 'D' ? () : [ $type, $body ]; },
	'COPY OUT' => sub { my ($type, $body) = @_; return $type eq 'T' ? [ 'H', pack('C n', 0, 0) ] : $type eq 'D' ? () : [ $type, $body ]; });

# Change what answers the statement of that number, through all connections.
sub in_answer
{
	my ($number, $change) = @_;
	my $seen = 0;
	return sub {
		my ($type, $body) = @_;
		$seen++ if $type eq 'T';
		return $seen == $number && $type =~ /[TD]/ ? $change->($type, $body) : [ $type, $body ];
	};
}

my $seed = $ENV{SECUREFILE_SEED} || time;
note("seed $seed");
srand $seed;
my %verbs = (ls => [ 'ls', '--long', '--hash' ], get => [ 'get', '-q', '--replace', 'a/700000', 'got' ], put => [ 'put', '--replace', 'tree/a/700000', 'a/700000' ],
	stat => [ 'stat', 'a/5000' ], export => [ 'export', '--replace', 'out', 'a/*' ], verify => [ 'verify', '--against', 'tree' ], import => [ 'import', '--dry-run', 'tree' ]);
my @cases = map { my $verb = $_; map { my $change = $_; map { [ $verb, $change, $_ ] } 1 .. 12 } sort keys %changes } sort keys %verbs;
my $all = ($ENV{SECUREFILE_HOSTILE} // '') eq 'all';
@cases = map { splice(@cases, rand @cases, 1) } 1 .. 80 unless $all;
my @bad;
foreach my $case (@cases)
{
	my ($verb, $change, $number) = @$case;
	my $proxy = start_proxy($node, change => in_answer($number, $changes{$change}));
	local $ENV{PGHOST} = $proxy->{dir};
	local $ENV{PGOPTIONS} = '-c statement_timeout=10s';
	my ($out, $err) = ('', '');
	my @args = @{ $verbs{$verb} };
	my $run = IPC::Run::start([ 'securefile', shift @args, '-t', 'docs', @args ], '<', \'', '>', \$out, '2>', \$err, IPC::Run::timeout(patience()));
	my $ended = eval { $run->finish; 1 };
	my $status = $ended ? status_of($run->full_result) : 'does not end';
	$run->kill_kill unless $ended;
	push @bad, "$verb, $change, answer $number: $status $err" if $status !~ /^[013]$/ || $err =~ /Sanitizer|runtime error/;
	stop_proxy($proxy);
}
is(join("\n", @bad), '', scalar @cases . ' answers of another form do no harm');
ok(!-e '../escaped' && !-e '../../escaped' && !-e 'escaped', 'no file is outside');
is(sql('SELECT count(*) FROM docs'), 3, 'no row is gone');

# ---- rows that were cut short ----

foreach my $cut (
	[ 'the end of a piece', 1, sub { my ($start, $piece) = @_; return ($start, substr($piece, 0, -1)); } ],
	[ 'the start of a piece', 2, sub { my ($start, $piece) = @_; return ($start + 1, substr($piece, 1)); } ],
	[ 'the end of the value', 3, sub { my ($start, $piece) = @_; return ($start, substr($piece, 0, -1)); } ])
{
	my ($what, $number, $how) = @$cut;
	my $seen = 0;
	my $proxy = start_proxy($node, change => sub {
		my ($type, $body) = @_;
		my @fields = $type eq 'D' ? fields_of($body) : ();
		return [ $type, $body ] if @fields != 5 || ++$seen != $number;
		my ($start, $piece) = $how->(unpack('q>', $fields[3]), $fields[4]);
		return data_row(@fields[ 0 .. 2 ], pack('q>', $start), $piece); });
	local $ENV{PGHOST} = $proxy->{dir};
	ends(1, qr/the server left out bytes that are no hole/, "$what is missing", 'get', '-t', 'docs', 'a/700000', 'cut');
	ok(!-e 'cut', 'no file is made');
	stop_proxy($proxy);
}

# ---- standard files that are closed ----

# a message that would be a statement, if the connection were standard output
my $evil = 'CREATE TABLE evil ()';
write_file('evil', 'Q' . pack('N', 5 + length $evil) . "$evil\0");
command('put', '-q', '-t', 'docs', 'evil', 'b/evil');
sub without
{
	my ($closed, @args) = @_;
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'sh', '-c', "exec securefile \"\$@\" $closed", 'sh', @args ], '<', \'', '>', \$out, '2>', \$err, IPC::Run::timeout(patience()));
	my $ended = eval { $run->finish; 1 };
	$run->kill_kill unless $ended;
	return ($ended ? status_of($run->full_result) : 'does not end', $err);
}
foreach my $case (
	[ '>&-', 'standard output: Bad file', 'ls', '-t', 'docs' ], [ '>&-', 'Bad file', 'cat', '-t', 'docs', 'b/evil' ], [ '>&-', 'Bad file', 'get', '-t', 'docs', 'b/evil', '-' ],
	[ '<&- >&-', 'Bad file', 'cat', '-t', 'docs', 'b/evil', 'a/700000' ], [ '>&- 2>&-', '', 'cat', '-t', 'docs', 'b/evil' ], [ '<&-', 'Bad file', 'put', '-t', 'docs', '-', 'b/none' ])
{
	my ($closed, $message, @args) = @$case;
	my ($status, $err) = without($closed, @args);
	is($status, 1, "$args[0] $closed fails");
	like($err, qr/$message/, 'and says why');
}
is(sql(q{SELECT to_regclass('evil') IS NULL, (SELECT count(*) FROM docs WHERE name = 'b/none')}), 't|0', 'nothing went to the server, nothing came from it');
sql(q{DELETE FROM docs WHERE name = 'b/evil'}, 'DROP TABLE IF EXISTS evil');

# ---- names that were not asked for ----

sub lists
{
	my ($name, $change, @args) = @_;
	my $proxy = start_proxy($node, change => sub {
		my ($type, $body) = @_;
		my @fields = $type eq 'D' ? fields_of($body) : ();
		return @fields == 7 && $fields[0] =~ /^a\// ? data_row($change, @fields[ 1 .. 6 ]) : [ $type, $body ]; });
	local $ENV{PGHOST} = $proxy->{dir};
	ends(3, qr/^securefile: the server listed a file that was not asked for$/m, $name, @args);
	stop_proxy($proxy);
	return;
}
lists('a name that is shorter than the prefix', '', 'export', '-t', 'docs', '--prefix', 'a/', 'out2');
lists('that does not begin with it', 'b/10', 'export', '-t', 'docs', '--prefix', 'a/', 'out2');
lists('verify', 'a', 'verify', '-t', 'docs', '--prefix', 'a/', '--against', 'tree/a');
lists('that does not match the pattern', '.bashrc', 'export', '-t', 'docs', 'out2', 'a/5*');
is(join(' ', glob('out2/* out2/.b*')), '', 'nothing was written');
ends(0, qr/: 1 got/, 'one that matches', 'export', '-t', 'docs', 'out2', '*/?000');

# ---- a coordinator that sends its clients elsewhere ----

# What the library says of a route that a coordinator gives it, with its socket in that directory.
sub route_in
{
	my ($dir, @fields) = @_;
	my $asked = 0;
	my $proxy = start_proxy($node, dir => $dir, change => sub {
		my ($type, $body) = @_;
		$asked = 1 if $type eq 'T' && $body =~ /quote_ident/;
		# no such extension here: the first answer has no row, the second one is an error
		return (data_row('x'), [ 'C', "SELECT 1\0" ]) if $type eq 'C' && $body =~ /^SELECT 0/ && $asked;
		return ([ '1', '' ], [ '2', '' ], row_description(scalar @fields), data_row(@fields), [ 'C', "SELECT 1\0" ]) if $type eq 'E';
		return [ $type, $body ]; });
	my ($out, $err) = run_command([ "$FindBin::RealBin/../../../test/client/trial", "host=$dir port=$ENV{PGPORT} dbname=postgres", 'route' ]);
	stop_proxy($proxy);
	return "$out$err";
}

foreach my $route (
	[ 'the directory of a socket', '42', 'public.t_42', $host, $node->port, 'id' ], [ 'two hosts', '42', 'public.t_42', 'a,b', '5432', 'id' ], [ 'no host', '42', 'public.t_42', '', '5432', 'id' ],
	[ 'no port', '42', 'public.t_42', 'localhost', '0', 'id' ], [ 'a large port', '42', 'public.t_42', 'localhost', '65536', 'id' ], [ 'SQL for a number', '42); DROP TABLE t', 'public.t_42', 'localhost', '5432', 'id' ],
	[ 'SQL for a table', '42', 'public.t; DROP TABLE t', 'localhost', '5432', 'id' ], [ 'SQL for a column', '42', 'public.t_42', 'localhost', '5432', 'id) OR (true' ], [ 'nothing', undef, undef, undef, undef, undef ],
	[ 'one column', '42' ], [ 'a name with a quote', '42', '"t', 'localhost', '5432', 'id' ])
{
	my ($name, @fields) = @$route;
	my $said = route_in(PostgreSQL::Test::Utils::tempdir_short(), @fields);
	like($said, qr/^ok - a route is refused: (the server (sent an answer|named a node)|no route)/m, "$name is refused") or diag($said);
}
# nodes on one machine have their sockets in one directory
my $own = PostgreSQL::Test::Utils::tempdir_short();
like(route_in($own, '42', 'public.t_42', $own, '5432', 'id'), qr/could not connect to node \Q$own\E:5432/, 'the directory of its own socket is taken');

# ---- names that are shown as others ----

# one character that has to be quoted, in each row of the table of utf8.c, and some that have not
my @unseen = map { chr } 0x01, 0x1f, 0x7f, 0x80, 0x9b, 0xad, 0x34f, 0x61c, 0x180e, 0x200b, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202e,
  0x2060, 0x2066, 0x2069, 0x3164, 0xfe0f, 0xfeff, 0xfff9, 0xe0001, 0xe0041;
my @seen = map { chr } 0x20, 0x7e, 0xe4, 0x5d0, 0x4e2d, 0x1f600;
sql('TRUNCATE docs', map { sprintf(q{INSERT INTO docs VALUES ('n%d' || chr(%d) || 'x', '')}, $_, ord $unseen[$_]) } 0 .. $#unseen);
sql(map { sprintf(q{INSERT INTO docs VALUES ('s%d' || chr(%d) || 'x', '')}, $_, ord $seen[$_]) } 0 .. $#seen);
my $octal = sub { my $bytes = $_[0]; utf8::encode($bytes); return join '', map { sprintf '\\%03o', ord } split //, $bytes; };
my ($shown) = (command('ls', '-t', 'docs'))[1];
is(join(' ', grep { my $line = "n$_" . $octal->($unseen[$_]) . 'x'; $shown !~ /  \Q$line\E$/m } 0 .. $#unseen), '', 'ls quotes what a terminal would obey or not show');
utf8::decode($shown);
is(join(' ', grep { $shown !~ /  s$_\Q$seen[$_]\Ex$/m } 0 .. $#seen), '', 'and nothing else');
my ($json) = (command('ls', '--json', '-t', 'docs'))[1];
is(join(' ', sort map { $_->{name} } objects($json)), join(' ', sort((map { "n$_$unseen[$_]x" } 0 .. $#unseen), (map { "s$_$seen[$_]x" } 0 .. $#seen))), 'JSON has the names');
utf8::decode($json);
is(join(' ', grep { $json =~ /\Q$unseen[$_]\E/ } 0 .. $#unseen), '', 'without such characters');
my $name = "gone\xe2\x80\xaetxt.exe";
foreach my $case ([ 1, 'get', $name ], [ 1, 'cat', $name ], [ 1, 'rm', $name ], [ 1, 'verify', $name ], [ 1, 'stat', $name ])
{
	my ($status, $verb, @args) = @$case;
	ends($status, qr/^securefile: gone\\342\\200\\256txt\.exe: no file of that name$/m, "$verb: a message quotes, too", $verb, '-t', 'docs', @args);
}
foreach my $locale ('C', 'C.UTF-8')
{
	local $ENV{LC_ALL} = $locale;
	my $seen = '';
	IPC::Run::run([ 'script', '-qec', q{securefile ls -t docs 's2*'}, '/dev/null' ], '<', \'', '>', \$seen);
	like($seen, $locale eq 'C' ? qr/  s2\\303\\244x\r/ : qr/  s2\xc3\xa4x\r/, "a terminal with the locale $locale");
}

# ---- temporary names ----

SKIP:
{
	my ($rc) = $node->psql('postgres', 'SELECT securefile_fault_reset()');
	skip 'built without fault points', 1 if $rc != 0;
	sql('TRUNCATE docs');
	command('put', '-q', '-t', 'docs', 'tree/a/700000', 'good');
	mkdir 'into';
	write_file('into/good', 'old');
	arm($node, 'io_read', 'wait', times => -1);
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'securefile', 'export', '--replace', '-t', 'docs', 'into' ], '<', \'', '>', \$out, '2>', \$err);
	wait_for_sql($node, q{SELECT securefile_fault_fired('io_read') >= 1});
	my $temporary;
	wait_until(sub { ($temporary) = glob 'into/.securefile-*'; return defined $temporary; });
	like($temporary // '', qr{^into/\.securefile-[0-9a-f]{32}\.tmp$}, 'a name that nobody can tell beforehand');
	# another file comes to its place
	write_file('evil', 'evil');
	rename('evil', $temporary);
	disarm($node);
	eval { $run->finish };
	is(status_of($run->full_result), 1, 'a temporary file that is another one is a failure');
	like($err, qr/^securefile: good: another program has changed the temporary file/m, 'that is told');
	is(slurp_file('into/good'), 'old', 'and does not get the name');
}

done_testing();
