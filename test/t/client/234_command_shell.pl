# The command securefile in a shell: the completion of bash offers the verbs and options that the
# help shows, and the manual page describes them; what an interrupted run says that it has done
# and not done; progress, where a file counts besides its bytes.
# Every version.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use PostgreSQL::Test::Utils;
use SecurefileCommand;
use SecurefileTest;
use Test::More;

my $node = new_cluster('command_shell');
enter($node);
my $client = "$FindBin::RealBin/../../../client";

# What --help shows: the verbs, or the options of one.
sub shown
{
	my ($pattern, @args) = @_;
	my ($rc, $help) = command(@args, '--help');
	my @found = sort $help =~ /$pattern/g;
	return @found;
}
my @verbs = shown(qr/^  ([a-z]+)  +\w/m);
cmp_ok(scalar @verbs, '>=', 12, 'verbs');
my %options = map { $_ => [ grep { !/^--(usage|version)$/ } shown(qr/^ {2,6}(?:-\S, +)?(--[a-z-]+)/m, $_) ] } @verbs;

# ---- completion ----

# What bash offers for the last word.
sub offered
{
	my (@words) = @_;
	my $script = "source '$client/completion/securefile.bash'; COMP_WORDS=(\"\$@\"); COMP_CWORD=\$((\$# - 1)); _securefile; printf '%s\\n' \"\${COMPREPLY[@]}\"";
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'bash', '-c', $script, 'bash', 'securefile', @words ], '<', '/dev/null', '>', \$out, '2>', \$err);
	is($err, '', "no message for @words") if $err ne '';
	my @offered = sort split /\n/, $out;
	return @offered;
}
is_deeply([ offered('') ], \@verbs, 'verbs');
is_deeply([ offered('-t', 'docs', 'ex') ], ['export'], 'the beginning of one, behind an option');
is_deeply([ sort map { s/=$//r } offered($_, '-') ], $options{$_}, "options of $_") foreach @verbs;
is_deeply([ offered('put', '--re') ], [qw(--replace --resume)], 'the beginning of an option');
is_deeply([ offered('put', '--se') ], [qw(--set-null= --set=)], 'options with a value');
is_deeply([ offered('put', '--hash') ], [], 'no option of another verb');
mkdir "dir$_" foreach 1, 2;
write_file('difference', '');
is_deeply([ offered('import', '-t', 'docs', 'di') ], [qw(dir1 dir2)], 'directories');
is_deeply([ offered('verify', '--against', '=', 'dir') ], [qw(dir1 dir2)], 'behind an equals sign');
is_deeply([ offered('sync', '--links', '=', '') ], [qw(error follow keep skip)], 'what is done with links');
is_deeply([ offered('import', '--links', '=', 'k') ], ['keep'], 'the beginning of it');
is_deeply([ offered('key', '') ], ['generate'], 'what is done with keys');
SKIP:
{
	skip 'no zsh', 1 if system('zsh -c true >/dev/null 2>&1') != 0;
	is(system('zsh', '-n', "$client/completion/_securefile"), 0, 'zsh understands its completion');
}

# ---- the manual page ----
my $page = slurp_file("$client/cmd/securefile.1");
foreach my $verb (@verbs)
{
	my @missing = grep { $page !~ /^\.It (?:.* )?(?:Fl |, )\Q@{[ substr $_, 1 ]}\E\b/m } @{ $options{$verb} };
	is("@missing", '', "the manual page has the options of $verb");
	like($page, qr/^\.It Cm $verb\b/m, "and the verb $verb");
}

# ---- an interrupt ----
sql(q{CREATE TABLE docs (name text PRIMARY KEY, document securefile);
	CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM pg_advisory_xact_lock(43);
		RETURN NEW;
	END $$;
	CREATE TRIGGER stop_here BEFORE INSERT ON docs FOR EACH ROW WHEN (NEW.name = 'stop') EXECUTE FUNCTION stop_here()});
my $holder = background($node);
$holder->query_safe('SELECT pg_advisory_lock(43)');
write_file("tree/$_", $_) foreach qw(a b stop y z);
foreach my $case ([ 'INT', 130 ], [ 'TERM', 143 ])
{
	my ($signal, $status) = @$case;
	my $run = IPC::Run::start([ 'securefile', 'import', '-t', 'docs', '-j', 1, 'tree' ], '<', '/dev/null', '>', \my $out, '2>', \my $err);
	wait_for_sql($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'securefile' AND wait_event = 'advisory'}) or die 'it does not wait';
	kill $signal, $run->{KIDS}[0]{PID};
	$run->finish;
	is(status_of($?), $status, "$signal: the status");
	my ($put, $same, $left) = $err =~ /^securefile: interrupted\nsecurefile: import: (?:(\d+) put, )?(?:(\d+) same, )?(\d+) not done(?:; \S+ \S+, \S+ \S+)? in \S+ s\n\z/m;
	is(($put // 0) + ($same // 0) + ($left // 0), 5, 'what was done and what was not') or diag($err);
	is(sql('SELECT count(*) FROM docs'), 5 - ($left // 0), 'is so');
	wait_for_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'securefile'});
}
$holder->quit;

$node->stop;
done_testing();
