# Master keys from every kind of place that the documents name: a file, age, a PKCS#11 token, a
# TPM, a server for keys.  The scripts in doc/keys are run as they are.  From each the server gets
# its keys at start, and reads what was written before; with a wrong identity, PIN, boot state or
# token it says so, and the keys of before stay.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SecurefileTest;
use Test::More;

# short, since paths of sockets are
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $scripts = "$FindBin::RealBin/../../../doc/keys";
my $node = new_cluster('sources', conf => ['securefile.monitor = off']);
my $load = 'SELECT securefile_load_keys()';
my $list = q{SELECT coalesce(string_agg(name, ' '), 'none') FROM securefile_master_keys()};

umask 0077;
sub place { my ($name) = @_; mkdir "$dir/$name" or die $!; return "$dir/$name"; }

# Run a program; what it has printed.
sub runs
{
	my (@command) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run(\@command, '<', '/dev/null', '>', \$out, '2>', \$err) or die "@command: $err";
	return $out;
}
sub script { my ($name, @args) = @_; return runs('bash', "$scripts/$name.sh", @args); }

# Start the server with a command; what it has logged.
sub restarted
{
	my ($command) = @_;
	my $before = -s $node->logfile;
	sql("ALTER SYSTEM SET securefile.key_command = '$command'") if defined $command;
	$node->restart;
	return substr slurp($node->logfile), $before;
}

# A start of the server, with what it says, and what can be read then.
sub without_keys
{
	my ($name, $said, $table) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like(restarted(), qr/$said.*LOG:  could not load master keys from the key command\n.*HINT:  The server starts without master keys.  Call securefile_load_keys/s, "$name: the server starts, and says why it has no keys");
	fails_with($node, "SELECT doc::bytea FROM $table", '55000', qr/master key "$table" of column .* is not loaded/, "$name: values cannot be read");
	return;
}

# All tests of a source, where the keys are in DIR/$name: the name of the key is that of the source,
# and of the table.  spoil makes the command fail, which says $said, and mend takes that back.
sub source
{
	my ($name, $command, $spoil, $said, $mend) = @_;
	my $log = restarted($command);
	unlike($log, qr/could not load/, "$name: the server starts");
	is(sql($list), $name, "$name: with the key");
	make_table($node, $name, 'encrypt');
	fill($node, $name, 1, 2, '100 + (i - 1) * 20000');
	is(sql("SELECT string_agg(DISTINCT master_key, ' ') FROM securefile_keys('$name', 'doc')"), $name, "$name: values are written");
	restarted();
	rows_right($node, $name, 2, "$name: after a restart");

	my $before = -s $node->logfile;
	$spoil->();
	fails_with($node, $load, '38000', 'could not load master keys from the key command.*It ended with exit status \d+\.\nHINT:  What the command has said on standard error is in the server log', "$name: a command that fails");
	like(substr(slurp($node->logfile), $before), $said, "$name: the log has its reason");
	is(sql($list), $name, "$name: the key of before stays");
	rows_right($node, $name, 2, "$name: and is used");
	without_keys($name, $said, $name);
	$mend->();
	is(sql($load), 1, "$name: mended");
	rows_right($node, $name, 2, "$name: mended");
	return;
}

# A script refuses to make a key of that name again, or of a name that is none, and prints no
# keys if one of them cannot be had.
sub refuses
{
	my ($script, $name, $place, $ending) = @_;
	eval { script($script, 'add', $place, $name) };
	like($@, qr/\Q$name.$ending\E.*File exists/, "$name: no key is replaced");
	eval { script($script, 'add', $place, 'no name') };
	like($@, qr/the name of a key has at most/, "$name: a name that is none");
	is(join(' ', glob("$place/*.$ending $place/new.*")), "$place/$name.$ending", "$name: nothing is left of it");
	damaged($name, $place, $ending);
	return;
}

sub damaged
{
	my ($name, $place, $ending) = @_;
	write_file("$dir/$name/0.$ending", 'no key');
	fails_with($node, $load, '38000', 'It ended with exit status', "$name: one of two keys is damaged");
	is(sql($list), $name, "$name: the key of before stays");
	unlink "$place/0.$ending" or die $!;
	return;
}

# ---- a file ----

my $file = place('file') . '/keys';
runs('securefile', 'key', 'generate', $file, 'file');
source('file', "cat $file", sub { rename $file, "$file.away" }, qr/cat: \S+: No such file or directory/, sub { rename "$file.away", $file });
runs('securefile', 'key', 'generate', '--append', $file, 'file-2');
is(sql($load), 2, 'file: a key more');
sql("ALTER SYSTEM SET securefile.master_key = 'file-2'", 'SELECT pg_reload_conf()');
wait_for_sql($node, "SELECT is_current FROM securefile_master_keys() WHERE name = 'file-2'");
is(sql('SELECT securefile_rewrap()'), 1, 'file: the data key is wrapped with it');
sql('ALTER SYSTEM RESET securefile.master_key');

# ---- age ----

my $age = place('age');
my $safe = place('safe');
script('age', 'init', $age);
script('age', 'init', $safe);
write_file("$dir/age/recipients", slurp("$age/recipients") . slurp("$safe/recipients"));
script('age', 'add', $age, 'age');
source('age', "bash $scripts/age.sh print $age",
	sub { rename "$age/identity", "$age/away"; runs('age-keygen', '-o', "$age/identity") },
	qr/age: error: no identity matched any of the recipients/, sub { rename "$age/away", "$age/identity" });
refuses('age', 'age', $age, 'age');
rename "$safe/identity", "$age/identity" or die $!;
is(sql($load), 1, 'age: an identity that is kept elsewhere will do');
rows_right($node, 'age', 2, 'age: an identity that is kept elsewhere');

# ---- a PKCS#11 token ----

my $token = place('pkcs11');
mkdir "$token/tokens" or die $!;
write_file("$dir/pkcs11/softhsm2.conf", "directories.tokendir = $token/tokens\n");
write_file("$dir/pkcs11/pin", "271828\n");
$ENV{SOFTHSM2_CONF} = "$token/softhsm2.conf";
runs('softhsm2-util', '--init-token', '--free', '--label', 'securefile', '--pin', '271828', '--so-pin', '314159');
script('pkcs11', 'init', $token);
script('pkcs11', 'add', $token, 'pkcs11');
source('pkcs11', "SOFTHSM2_CONF=$token/softhsm2.conf bash $scripts/pkcs11.sh print $token",
	sub { write_file("$dir/pkcs11/pin", "141421\n") }, qr/C_Login failed: rv = CKR_PIN_INCORRECT/, sub { write_file("$dir/pkcs11/pin", "271828\n") });
refuses('pkcs11', 'pkcs11', $token, 'rsa');

# ---- a TPM ----

my $tpm = place('tpm2');
my $socket = "$tpm/socket";
mkdir "$tpm/state" or die $!;
$ENV{TPM2TOOLS_TCTI} = "swtpm:path=$socket";

# The TPM of a machine that has just been started.
my ($machine, $server);
END { local $?; $_->kill_kill foreach grep { defined } $machine, $server; }
sub boot
{
	$machine->kill_kill if $machine;
	unlink $socket;
	$machine = IPC::Run::start([ 'swtpm', 'socket', '--tpm2', '--tpmstate', "dir=$tpm/state", '--server', "type=unixio,path=$socket",
		'--ctrl', "type=unixio,path=$socket.ctrl", '--flags', 'not-need-init,startup-clear' ]);
	wait_until(sub { -S $socket }) or die 'no TPM';
	return;
}
boot();
script('age', 'init', $tpm);
script('age', 'add', $tpm, 'tpm2');
script('tpm2', 'seal', $tpm);
ok(!-e "$tpm/identity", 'tpm2: the identity is sealed');
ok(!IPC::Run::run([ 'bash', '-c', "cd $tpm && tpm2_createprimary -Q -C o -G ecc -c p && tpm2_load -Q -C p -u sealed.pub -r sealed.priv -c s && tpm2_flushcontext -t && tpm2_unseal -c s; rc=\$?; tpm2_flushcontext -t; exit \$rc" ],
		'>', \my $unsealed, '2>', \my $why), 'tpm2: not without the policy');
like($why, qr/Unable to run tpm2_unseal/, 'tpm2: which the TPM says');
source('tpm2', "TPM2TOOLS_TCTI=$ENV{TPM2TOOLS_TCTI} bash $scripts/tpm2.sh print $tpm",
	sub { runs('tpm2_pcrextend', '7:sha256=' . 'ab' x 32) }, qr/policy check failed/, \&boot);
damaged('tpm2', $tpm, 'age');

# ---- a server for keys, as a KMS is one ----

my $https = place('https');
my $port = PostgreSQL::Test::Cluster::get_free_port();
runs('securefile', 'key', 'generate', "$https/keys", 'https');
runs('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=localhost',
	'-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', "$https/key.pem", '-out', "$https/ca.pem");
write_file("$dir/https/token", "a-token\n");
write_file("$dir/https/header", "Authorization: Bearer a-token\n");
write_file("$dir/https/url", "https://127.0.0.1:$port/keys\n");
sub up
{
	$server = IPC::Run::start([ "$FindBin::RealBin/../../keys/server.py", $port, map { "$https/$_" } qw(ca.pem key.pem token keys) ], '>', '/dev/null', '2>', "$dir/server.log");
	wait_until(sub { system("bash $scripts/https.sh print $https >/dev/null 2>&1") == 0 }) or die 'no server for keys';
	return;
}
sub down { $server->kill_kill; undef $server; return; }
up();
source('https', "bash $scripts/https.sh print $https", sub { write_file("$dir/https/header", "Authorization: Bearer another\n") },
	qr/curl: \(22\) The requested URL returned error: 401/, sub { write_file("$dir/https/header", "Authorization: Bearer a-token\n") });
down();
without_keys('https, down', qr/curl: \(7\) Failed to connect/, 'https');
up();
is(sql($load), 1, 'https: it is up again');
rows_right($node, 'https', 2, 'https: it is up again');
down();

$node->stop;
unlike(slurp($node->logfile), qr/[0-9a-f]{64}|AGE-SECRET-KEY|271828|a-token|TRAP: |PANIC/i, 'no key, PIN or token is in the log');
done_testing();
