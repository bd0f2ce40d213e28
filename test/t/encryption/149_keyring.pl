# The keyring: master keys come from a command, at start and when a superuser asks for it.
# What the command prints is taken as a whole or not at all, and is in no message, no log,
# and nowhere in memory but in the keyring.  However a load ends, its processes are gone.

use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

# ---- keys, and the command ----

# Different in each run, so that no earlier one has left them anywhere.
my $seed = join ' ', time, $$, rand;
my %keys;
sub key { my ($name) = @_; return $keys{$name} ||= md5_hex("$seed $name") . md5_hex("$name $seed"); }
sub lines { return join '', map { "$_ " . key($_) . "\n" } @_; }

my $node = new_cluster('keyring', start => 0, conf => [ 'securefile.monitor = off', 'restart_after_crash = on' ]);
my $dir = $node->basedir;

# The command is a script; what it does comes first, then it prints the file of keys.
sub command { my ($script) = @_; write_file("$dir/command", "echo >>$dir/runs\n" . ($script || "cat $dir/keys") . "\n"); return }
sub prints { my ($text) = @_; write_file("$dir/keys", $text); command(); return }
sub runs { return -e "$dir/runs" ? -s "$dir/runs" : 0 }

my $load = 'SELECT securefile_load_keys()';
my $list = q{SELECT coalesce(string_agg(name || CASE WHEN is_current THEN '*' ELSE '' END, ' '), 'none') FROM securefile_master_keys()};

# Settings of the file; all later sessions have them.
sub set
{
	my ($name, $value) = @_;
	sql("ALTER SYSTEM SET securefile.$name = '$value'; SELECT pg_reload_conf()");
	wait_for_sql($node, "SELECT setting = '$value' FROM pg_settings WHERE name = 'securefile.$name'") or die "$name is not set";
	return;
}

# ---- at start ----

prints("# keys\n\n" . lines('first'));
$node->append_conf('postgresql.conf', "securefile.key_command = 'sh $dir/command'");
$node->start;
sql('CREATE EXTENSION securefile; CREATE ROLE nobody LOGIN');
is(runs(), 1, 'the postmaster runs the command');
is(sql($list), 'first*', 'and has the key, which is the current one');
my $log = slurp($node->logfile);
unlike($log, qr/could not load/, 'no complaint');

# ---- in memory ----

# What /proc says of the keyring: kilobytes, flags.
sub keyring_of
{
	my ($pid) = @_;
	my @found;
	foreach (split /^(?=[0-9a-f]+-[0-9a-f]+ )/m, slurp("/proc/$pid/smaps"))
	{
		push @found, $1 if m{^\S+ rw-s \S+ \S+ \S+ +/dev/zero.*^Size: +32 kB.*^VmFlags: (.*)$}ms;
	}
	return @found == 1 ? " $found[0]" : scalar(@found) . ' areas';
}

# How often each of these bytes are in the memory of a process; empty if it cannot be read.
sub times_in_memory
{
	my ($pid, @bytes) = @_;
	my @times = (0) x @bytes;
	each_mapping(
		$pid,
		sub {
			my ($there) = @_;
			foreach my $i (0 .. $#bytes)
			{
				for (my $at = 0; ($at = index($there, $bytes[$i], $at)) >= 0; $at++) { $times[$i]++ }
			}
		}) or return ();
	return @times;
}

# One test: a process has the bytes of each key so often, and its text never.
sub in_memory
{
	my ($pid, $wanted, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @names = sort keys %$wanted;
	my @times = times_in_memory($pid, map { (pack('H*', key($_)), key($_)) } @names);
  SKIP:
	{
		skip 'the memory of other processes cannot be read', 1 unless @times;
		is("@times", join(' ', map { "$wanted->{$_} 0" } @names), $test);
	}
	return;
}

# Put a key into the set of the keyring that is not current, as a process does that loads; false
# where the memory of other processes cannot be written.
sub begin_set
{
	my ($pid, $name, $key) = @_;
	my ($start) = slurp("/proc/$pid/smaps") =~ m{^([0-9a-f]+)-\S+ rw-s \S+ \S+ \S+ +/dev/zero.*\nSize: +32 kB}m;
	my ($entry, $sets) = (72, 16);
	my $set = 4 + 227 * $entry;
	my $there;
	no warnings 'portable';

	open(my $mem, '+<:raw', "/proc/$pid/mem") or return 0;
	sysseek($mem, hex $start, 0);
	sysread($mem, $there, 2 * $set + $sets);
	my $current = unpack('x8 V', $there);
	die 'the keyring is not what it is thought to be' unless unpack('V', substr($there, $sets + $current * $set, 4)) == 2 && substr($there, $sets + (1 - $current) * $set, $set) eq "\0" x $set;
	sysseek($mem, hex($start) + $sets + (1 - $current) * $set, 0);
	syswrite($mem, pack('V a32', 1, $name) . pack('H*', key($key)));
	close $mem;
	return 1;
}

my ($postmaster) = split /\n/, slurp($node->data_dir . '/postmaster.pid');
my $session = background($node);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
like(keyring_of($postmaster), qr/ dd\b/, 'the postmaster does not dump the keyring');
# the address sanitizer makes nothing of mlock(), and never fails it
my $can_lock = !$ENV{SANITIZE};
my $locks = $can_lock && $log !~ /could not protect/;
like(keyring_of($postmaster), $locks ? qr/ lo\b/ : qr//, 'and has locked it');
like(keyring_of($pid), qr/ dd\b/, 'nor does a session dump it');
in_memory($postmaster, { first => 1 }, 'the key is once in the memory of the postmaster, and its text is not');
prints(lines('second', 'third'));
is($session->query_safe($load), 2, 'a session loads others');
in_memory($pid, { first => 0, second => 1, third => 1 }, 'the session has those, and the old one no more');
in_memory($postmaster, { first => 0, second => 1, third => 1 }, 'so has the postmaster');
$session->quit;

# ---- loading, and the current key ----

is(sql($list), 'second third', 'all sessions have them; of two keys none is the current one');
my $count = runs();
set('master_key', 'third');
is(sql($list), 'second third*', 'the one that the setting names');
set('master_key', 'first');
is(sql($list), 'second third', 'no key of that name');
set('master_key', '');
is(runs(), $count, 'a reload of the configuration does not run the command');
foreach my $bad ('a b', 'x' x 32, 'a/b', 'ä', "a\tb")
{
	fails_with($node, "ALTER SYSTEM SET securefile.master_key = '$bad'", '22023', 'has at most 31 bytes', "master_key: '$bad'");
}
my $long = 'a' x 10 . 'Z.9:_-' . 'b' x 15;
prints("\t\n#\n$long \t" . uc(key('upper')) . " \t\n \n" . lines('other') =~ s/\n//r);
is(sql($load), 2, 'a long name, blanks, capital digits, no end of the last line');
is(sql($list), "$long other", 'their names');
set('master_key', $long);
is(sql($list), "$long* other", 'the long name');
is(sql("BEGIN READ ONLY; $load; COMMIT"), 2, 'in a read-only transaction');
prints(lines(map { "n$_" } 1 .. 300));
my ($most) = (($node->psql('postgres', $load))[2] // '') =~ /Its output has more than (\d+) keys/;
cmp_ok($most, '>', 100, 'many keys fit');
my @names = map { "n$_" . 'x' x (28 - length) } 1 .. $most + 1;
prints(lines(@names[ 0 .. $most - 1 ]));
is(sql($load), $most, 'as many as fit, of long names');
is(sql('SELECT count(*), min(length(name)), max(length(name)) FROM securefile_master_keys()'), "$most|29|29", 'are there');

# ---- what is refused ----

prints(lines('one', 'two'));
sql($load);
set('master_key', 'two');

# One test: a load fails, with that SQLSTATE and detail; its message has nothing of the
# output, and the keys are those of before.
sub refused
{
	my ($name, $sqlstate, $detail) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $node->psql('postgres', "$load;\n$list;", on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	my $found = $err =~ /ERROR:  $sqlstate: could not load master keys.*^DETAIL:  $detail\n^HINT:  /ms ? 'as it should' : "$rc $err";
	$found .= ', tells of the output' if $err =~ /secret/i || grep { index(lc $err, $_) >= 0 } values %keys;
	return is("$found; $out", 'as it should; one two*', "refused: $name");
}

my $secret = key('secret');
my $line = sub { return qr/Line $_[0] of its output is not a name, a blank, and 64 hexadecimal digits\./ };
my $bad_name = sub { return qr/Line $_[0] of its output has a name of more than 31 bytes, [^\n]*/ };
foreach my $case (
	[ 'no key after a name', 'secret', '22P02', $line->(2) ],
	[ 'no name', " $secret", '42602', $bad_name->(2) ],
	[ 'no blank', "secret$secret", '22P02', $line->(2) ],
	[ 'only a key', $secret, '22P02', $line->(2) ],
	[ 'a key that is too short', 'secret ' . substr($secret, 2), '22P02', $line->(2) ],
	[ 'one digit less', 'secret ' . substr($secret, 1), '22P02', $line->(2) ],
	[ 'one digit more', "secret ${secret}0", '22P02', $line->(2) ],
	[ 'no hexadecimal digit', 'secret ' . substr($secret, 1) . 'g', '22P02', $line->(2) ],
	[ 'something behind the key', "secret $secret secret", '22P02', $line->(2) ],
	[ 'a carriage return', "secret $secret\r", '22P02', $line->(2) ],
	[ 'a byte of zero', "secret $secret\0", '22P02', $line->(2) ],
	[ 'a byte of zero in the name', "sec\0ret $secret", '42602', $bad_name->(2) ],
	[ 'a comment behind blanks', " # secret", '22P02', $line->(2) ],
	[ 'a name of 32 bytes', 'secret' . 'x' x 26 . " $secret", '42602', $bad_name->(2) ],
	[ 'a name of other characters', "secret/ $secret", '42602', $bad_name->(2) ],
	[ 'a name of letters that are not ASCII', "secr\xc3\xa9t $secret", '42602', $bad_name->(2) ],
	[ 'a key of zeros', 'secret ' . '0' x 64, '22P02', qr/Line 2 of its output has a key of all zeros\./ ],
	[ 'a name given twice', "secret $secret\n# secret\n\nsecret " . key('secret 2'), '42710', qr/Line 5 of its output has a name that an earlier line has\./ ],
	[ 'the same line twice', "secret $secret\nsecret $secret", '42710', qr/Line 3 of its output has a name that an earlier line has\./ ])
{
	my ($name, $text, $sqlstate, $detail) = @$case;
	prints(lines('earlier') . "$text\n" . lines('later'));
	refused($name, $sqlstate, $detail);
	prints(lines('earlier') . $text);
	refused("$name, in the last line", $sqlstate, $detail);
}
prints(lines(@names));
refused('one key more than fit', '54000', "Its output has more than $most keys\\.");
prints('');
refused('no output', '22P02', qr/Its output has no key\./);
prints("# secret\n\n \t\n");
refused('no key', '22P02', qr/Its output has no key\./);
prints('# secret' . 'x' x 100_000);
refused('a long line', '54000', qr/Its output is longer than \d+ bytes\./);
command("yes '# secret'");
refused('output without an end', '54000', qr/Its output is longer than \d+ bytes\./);

write_file("$dir/keys", lines('secret'));
command("cat $dir/keys; exit 3");
refused('another exit status', '38000', qr/It ended with exit status 3\./);
command("cat $dir/keys; kill -9 \$(cut -d ' ' -f 5 /proc/\$\$/stat)");
refused('a signal', '38000', qr/It was ended by signal 9\./);
command("cat $dir/keys; exec $dir/no_such_program");
refused('no such program', '38000', qr/It ended with exit status 127\./);

# ---- the process of the command ----

# Starts processes that do not end; the file says what the command is.
my $describe = "(cut -d ' ' -f 5- /proc/\$\$/stat; readlink /proc/\$\$/fd/0; grep ^Sig /proc/\$\$/status; ls -l /proc/\$\$/fd) >$dir/process.new; mv $dir/process.new $dir/process";
# The first line of that, in time also on a busy machine: the shell starts one program.
my $shows = "read -r pid name state parent more </proc/\$\$/stat; echo \"\$more\" >$dir/process.new; mv $dir/process.new $dir/process";
my $hang = "cat $dir/keys; $shows; sleep 1000 | sleep 1001 & sleep 1002";

# Processes of the group of the last command that described itself.
sub group
{
	my ($group) = slurp("$dir/process") =~ /^(\d+)/;
	my @found;
	foreach my $file (glob '/proc/[0-9]*/stat')
	{
		open(my $fh, '<', $file) or next;
		my $stat = <$fh>;
		close $fh;
		push @found, $file =~ /(\d+)/ if defined $stat && $stat =~ /.*\) [^ZX] \d+ $group /;
	}
	return @found;
}

# The system needs a moment for those whose parents are gone.
sub all_gone
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $gone = ok(wait_until(sub { !group() }), "$name: no process remains");
	unlink "$dir/process";
	return $gone;
}

write_file("$dir/keys", lines('one', 'two'));
command("$describe; cat $dir/keys");
is(sql($load), 2, 'a command that describes itself');
my ($group, $id, $terminal, $described) = slurp("$dir/process") =~ /^(\d+) (\d+) (-?\d+) \N*\n(.*)/s;
is("$id $terminal", "$group 0", 'it is a session of its own without a terminal');
like($described, qr{^/dev/null$}m, 'its input is /dev/null');
# all but those that the C library keeps for itself
is(join(' ', map { hex(substr $_, -8) & 0x7fffffff } $described =~ /^Sig(?:Blk|Ign):\s*(\w+)$/mg), '0 0', 'no signal is blocked or ignored');
unlike($described, qr/socket:|anon_inode|pg_wal|base|global/, 'it has no file of the server');
is(join(' ', grep { $_ < 10 } $described =~ / (\d+) -> /g), '0 1 2', 'but for three');
all_gone('a command that has ended');
command("$shows; (exec >&-; sleep 1000) & cat $dir/keys");
is(sql($load), 2, 'a command that leaves a process');
all_gone('a command that leaves a process');

# ---- time ----

set('key_timeout', 1);
write_file("$dir/keys", lines('secret'));
my $late = qr/It had not ended after 1 s \(securefile\.key_timeout\), and was killed\./;
my %slow = (
	'a command that does not end' => $hang,
	'one that closes its output first' => "$hang >&-; exec >&-; sleep 1003",
	'one that leaves its output to another process' => "cat $dir/keys; $shows; sleep 1000 &",
	'one that takes no notice of signals' => "trap '' TERM INT HUP; $hang");
foreach my $name (sort keys %slow)
{
	command($slow{$name});
	refused($name, '38000', $late);
	ok(-e "$dir/process", "$name: had begun") ? all_gone($name) : 0;
}
set('key_timeout', 3600);

# Let a session load from a command that does not end; the session, and its pid.
sub begin_to_load
{
	my ($before) = @_;
	my $loader = background($node);
	my $its_pid = $loader->query_safe("$before SELECT pg_backend_pid()");
	unlink "$dir/process";
	command($hang);
	$loader->query_until(qr/start/, "\\echo start\n$load;\n");
	wait_until(sub { -e "$dir/process" && group() >= 3 }) or die 'the command does not begin';
	return ($loader, $its_pid);
}

my ($loader, $loader_pid) = begin_to_load('');
like(sql("SELECT wait_event_type || ' ' || wait_event FROM pg_stat_activity WHERE pid = $loader_pid"), qr/^Extension /, 'the session waits');
is(sql($list), 'one two*', 'the keys can be used meanwhile');
sql("SELECT pg_cancel_backend($loader_pid)");
is($loader->query('SELECT 1'), 1, 'cancelled');
like($loader->{stderr}, qr/canceling statement due to user request/, 'by request');
$loader->{stderr} = '';
all_gone('cancelled');
command("cat $dir/keys");
write_file("$dir/keys", lines('one', 'two'));
is($loader->query_safe($load), 2, 'the session can load again');
$loader->quit;
write_file("$dir/keys", lines('secret'));

# before or after the command began
$session = background($node);
command($hang);
$session->query_safe('SET statement_timeout = 300');
$session->query("$load;");
like($session->{stderr}, qr/canceling statement due to statement timeout/, 'statement_timeout');
all_gone('statement_timeout') if -e "$dir/process";
$session->quit;

($loader, $loader_pid) = begin_to_load('');
sql("SELECT pg_terminate_backend($loader_pid)");
all_gone('terminated');
eval { $loader->quit };
is(sql($list), 'one two*', 'terminated: the keys are as before');

# ---- rights ----

fails_with($node, $load, '42501', 'permission denied|must be superuser', 'load: not by others', user => 'nobody');
fails_with($node, $list, '42501', 'permission denied|must be superuser', 'list: not by others', user => 'nobody');
sql('GRANT EXECUTE ON FUNCTION securefile_load_keys(), securefile_master_keys() TO nobody');
fails_with($node, $load, '42501', 'must be superuser', 'load: not even when granted', user => 'nobody');
fails_with($node, $list, '42501', 'must be superuser', 'list: not even when granted', user => 'nobody');
fails_with($node, 'SHOW securefile.key_command', '42501', 'must be superuser|permission denied to examine', 'SHOW', user => 'nobody');
is($node->safe_psql('postgres', q{SELECT string_agg(name, ' ' ORDER BY name) FROM pg_settings WHERE name ~ '^securefile.*key'}, extra_params => [ '-U', 'nobody' ]),
	'securefile.key_timeout securefile.master_key', 'pg_settings of others has not the command');
fails_with($node, "SET securefile.key_command = 'true'", '55P02', 'cannot be changed now', 'no session sets it');

# ---- a crash ----

# of the session that loads
($loader, $loader_pid) = begin_to_load('');
$count = runs();
($postmaster) = split /\n/, slurp($node->data_dir . '/postmaster.pid');
my $begun = begin_set($postmaster, 'x' x 31, 'begun');
my $since = -s $node->logfile;
kill 9, $loader_pid;
wait_restart($node, $since);
eval { $loader->quit };
kill 9, -(slurp("$dir/process") =~ /^(\d+)/)[0];
is(sql($list), 'one two*', 'a crash restart keeps the keys');
in_memory($postmaster, { begun => 0 }, 'and nothing of a load that had begun') if $begun;
is(runs(), $count, 'and does not run the command');
write_file("$dir/keys", lines('one', 'two', 'three'));
command("cat $dir/keys");
is(sql($load), 3, 'they can be loaded anew');
is(sql($list), 'one two* three', 'and are');

# ---- a standby ----

$node->backup('b');
write_file("$dir/standby", lines('two'));
my $standby = new_standby('keyring_standby', $node, 'b', "securefile.key_command = 'cat $dir/standby'");
is($standby->safe_psql('postgres', $list), 'two*', 'a standby has keys of its own command');
write_file("$dir/standby", lines('two', 'four'));
is($standby->safe_psql('postgres', "SELECT pg_is_in_recovery(); $load"), "t\n2", 'and loads them');
is($standby->safe_psql('postgres', $list), 'two* four', 'which it has then');
is(sql($list), 'one two* three', 'the primary has its own');

# ---- a server that stops, and starts without keys ----

write_file("$dir/standby", "cat $dir/keys; $shows; sleep 1000");
$standby->append_conf('postgresql.conf', "securefile.key_command = 'sh $dir/standby'");
$standby->reload;
$standby->poll_query_until('postgres', q{SELECT current_setting('securefile.key_command') ~ '^sh'}) or die 'no reload';
unlink "$dir/process";
$loader = background($standby);
$loader->query_until(qr/start/, "\\echo start\n$load;\n");
wait_until(sub { -e "$dir/process" && group() }) or die 'the command does not begin';
$standby->stop('fast');
all_gone('a stop');
eval { $loader->quit };

# Start the primary with another command; what it has logged.
sub restarted
{
	my ($command, $timeout) = @_;
	$node->stop if $node->{_pid};
	$node->append_conf('postgresql.auto.conf', "securefile.key_command = '$command'");
	$node->append_conf('postgresql.auto.conf', "securefile.key_timeout = $timeout");
	my $before = -s $node->logfile;
	$node->start;
	return substr slurp($node->logfile), $before;
}

my $fails = sub { my ($detail) = @_; return qr/LOG:  could not load master keys from the key command\n.*DETAIL:  $detail\n.*HINT:  The server starts without master keys/ };
write_file("$dir/secrets", "secret $secret\nsecret $secret\n");
like(restarted("cat $dir/secrets; exit 7", 3600), $fails->('It ended with exit status 7\.'), 'a command that fails at start');
is(sql($list), 'none', 'the server starts without keys');
like(restarted("cat $dir/secrets", 3600), $fails->('Line 2 of its output has a name that an earlier line has\.'), 'a bad line at start');
is(sql($list), 'none', 'no key is loaded');
unlink "$dir/process";
like(restarted($hang =~ s/'/''/gr, 1), $fails->(substr($late, 0)), 'a command that hangs at start');
is(sql($list), 'none', 'the server starts without keys');
all_gone('hung at start') if -e "$dir/process";
unlike(restarted('', 30), qr/master keys/, 'no command');
fails_with($node, $load, '55000', 'The setting securefile.key_command is empty', 'load without a command');
is(sql($list), 'none', 'no keys');

# a postmaster that is to print a setting runs nothing
$node->stop;
command("cat $dir/keys");
$count = runs();
$node->append_conf('postgresql.auto.conf', "securefile.key_command = 'sh $dir/command'");
foreach my $setting ('shared_memory_size', 'port')
{
	my ($out, $err) = run_command([ 'postgres', '-D', $node->data_dir, '-C', $setting ]);
	like($out, qr/^\d+$/, "postgres -C $setting");
}
run_command([ 'postgres', '--describe-config' ]);
is(runs(), $count, 'a server that is not to run does not run the command');

# without locked memory
SKIP:
{
	skip 'no prlimit', 2 if system("prlimit --pid $$ --memlock=0: 2>/dev/null") != 0;
	like(restarted("cat $dir/keys", 30), $can_lock ? qr/LOG:  could not protect the memory of master keys: / : qr//, 'memory that cannot be locked is told');
	is(sql($list), 'one two* three', 'and used');
}

# ---- nothing is left anywhere ----

$node->stop if $node->{_pid};
foreach my $server ($node, $standby)
{
	$log = slurp($server->logfile);
	my $lower = lc $log;
	is(join(' ', grep { index($lower, $keys{$_}) >= 0 || index($log, pack('H*', $keys{$_})) >= 0 } sort keys %keys), '', $server->name . ': no key is in the log');
	unlike($log, qr/TRAP: |PANIC|\bXX000\b/, $server->name . ': no crash but those that were made');
}
write_file("$dir/patterns", join "\n", map { $keys{$_} } qw(first second one two three secret));
is(`grep -rliF -f $dir/patterns \Q@{[ $node->data_dir ]}\E`, '', 'nor in the data directory');
done_testing();
