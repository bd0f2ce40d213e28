<?php
// Writes and reads a securefile column with PHP's PDO and its functions pg_...
//
// The server is the one that PGHOST, PGPORT, PGUSER and PGDATABASE name; the database has the
// extension, and no table "docs".  Prints "ok - STACK: WHAT" or "not ok - STACK: WHAT: REASON"
// for each test.

const MB = 1024 * 1024;
const LENGTHS = [0, 10, 5 * MB + 1];

// ---- what doc/drivers.md shows ----

function insert(PDO $db, int $id, ?string $document): void
{
	$statement = $db->prepare('INSERT INTO docs (id, document) VALUES (?, ?)');
	$statement->bindValue(1, $id);
	$statement->bindValue(2, $document, PDO::PARAM_LOB);
	$statement->execute();
}

function select(PDO $db, int $id): ?string
{
	$statement = $db->prepare('SELECT document FROM docs WHERE id = ?');
	$statement->execute([$id]);
	$document = $statement->fetchColumn();
	return $document === null ? null : stream_get_contents($document);
}

// Stores a file of any length; $file is a stream, as of fopen().
function upload(PDO $db, int $id, $file): void
{
	$db->beginTransaction();
	try {
		$handle = $db->query("SELECT securefile_create('docs', 'document')")->fetchColumn();
		$write = $db->prepare('SELECT securefile_write(?, ?)');
		while (!feof($file)) {
			$piece = fread($file, 1024 * 1024);
			if ($piece === false)
				throw new RuntimeException('the file cannot be read');
			$write->bindValue(1, $handle);
			$write->bindValue(2, $piece, PDO::PARAM_LOB);
			$write->execute();
		}
		$db->prepare('INSERT INTO docs (id, document) VALUES (?, securefile_finish(?))')->execute([$id, $handle]);
		$db->commit();
	} catch (Throwable $error) {
		$db->rollBack();
		throw $error;
	}
}

// Reads a file of any length, in pieces of 1 MB, into a stream.
function download(PDO $db, int $id, $file): void
{
	$read = $db->prepare('SELECT substring(document FROM ?::bigint FOR 1048576) FROM docs WHERE id = ?');
	for ($at = 1;; $at += 1048576) {
		$read->execute([$at, $id]);
		$piece = $read->fetchColumn();
		if (!is_resource($piece) || stream_copy_to_stream($piece, $file) < 1048576)
			return;
	}
}

// pg_insert() and pg_update() want the text form.
function text_form(?string $document): ?string
{
	return $document === null ? null : '\x' . bin2hex($document);
}

// ---- tests ----

$failed = false;

function attempt(string $stack, string $what, callable $test): void
{
	global $failed;
	try {
		$test();
		echo "ok - $stack: $what\n";
	} catch (Throwable $error) {
		$failed = true;
		echo "not ok - $stack: $what: ", strtr($error->getMessage(), "\n", ' '), "\n";
	}
}

function equal($got, $expected): void
{
	if ($got !== $expected)
		throw new RuntimeException('got ' . substr(var_export($got, true), 0, 100) . ', not ' . substr(var_export($expected, true), 0, 100));
}

// Bytes that follow from the length.
function random_bytes_of(int $length): string
{
	$bytes = '';
	for ($i = 0; $i < $length / 32768; $i++)
		$bytes .= hash('sha512', "$length $i", true);
	return substr(str_repeat($bytes, intdiv($length, max(1, strlen($bytes))) + 1), 0, $length);
}

$payloads = [
	'NULL' => null, '0 bytes' => '', '10 bytes' => "\0\xff'\"\\\n\0\x80x\0", 'every byte' => implode('', array_map('chr', range(0, 255))),
	'the text \x4142' => '\x4142', 'the text a\134b' => 'a\134b', 'the text a\\\\b' => 'a\\\\b', '10 KB' => random_bytes_of(10240), '5 MB' => random_bytes_of(5 * MB),
];

$db = new PDO(sprintf('pgsql:host=%s;port=%s;dbname=%s', getenv('PGHOST'), getenv('PGPORT'), getenv('PGDATABASE')), getenv('PGUSER'));
$pg = pg_connect(sprintf('host=%s port=%s dbname=%s user=%s', getenv('PGHOST'), getenv('PGPORT'), getenv('PGDATABASE'), getenv('PGUSER')));
$db->exec('CREATE TABLE docs (id bigint PRIMARY KEY, document securefile)');

function on_server(int $id): ?string
{
	global $db;
	return $db->query("SELECT md5(document) FROM docs WHERE id = $id")->fetchColumn();
}

$id = 0;
foreach ($payloads as $name => $data) {
	attempt('pdo', "PARAM_LOB, $name", function () use ($db, &$id, $data) {
		insert($db, ++$id, $data);
		equal(on_server($id), $data === null ? null : md5($data));
		equal(select($db, $id), $data);
	});
	attempt('pgsql', "pg_insert(), pg_update() and pg_select() with the text form, $name", function () use ($pg, &$id, $data) {
		pg_insert($pg, 'docs', ['id' => ++$id, 'document' => text_form($data)]) or throw new RuntimeException(pg_last_error($pg));
		equal(on_server($id), $data === null ? null : md5($data));
		equal(pg_select($pg, 'docs', ['id' => $id])[0]['document'], text_form($data));
		pg_update($pg, 'docs', ['document' => text_form('other')], ['id' => $id]) or throw new RuntimeException(pg_last_error($pg));
		equal(on_server($id), md5('other'));
		pg_query_params($pg, 'UPDATE docs SET document = $1 WHERE id = $2', [text_form($data), $id]);
		equal(on_server($id), $data === null ? null : md5($data));
	});
}

attempt('pdo', 'in pieces', function () use ($db, &$id) {
	foreach (LENGTHS as $length) {
		$file = fopen('php://memory', 'w+b');
		$data = random_bytes_of($length);
		fwrite($file, $data);
		rewind($file);
		upload($db, ++$id, $file);
		equal(on_server($id), md5($data));
		$read = fopen('php://memory', 'w+b');
		download($db, $id, $read);
		rewind($read);
		equal(stream_get_contents($read), $data);
	}
});
attempt('pdo', 'PARAM_STR is cut at a NUL, and takes a text for an escape', function () use ($db, &$id) {
	$db->prepare('INSERT INTO docs VALUES (?, ?)')->execute([++$id, "a\0b"]);
	equal(select($db, $id), 'a');
	$db->prepare('INSERT INTO docs VALUES (?, ?)')->execute([++$id, '\x4142']);
	equal(select($db, $id), 'AB');
});
attempt('pdo', 'the type that it sees', fn () => equal($db->query('SELECT document FROM docs')->getColumnMeta(0)['native_type'], 'bytea'));
attempt('pgsql', 'pg_insert() of bytes is cut at a NUL, and takes a text for an escape', function () use ($pg, $db, &$id) {
	equal(pg_meta_data($pg, 'docs')['document']['type'], 'securefile');
	pg_insert($pg, 'docs', ['id' => ++$id, 'document' => "a\0b"]);
	equal(select($db, $id), 'a');
	pg_insert($pg, 'docs', ['id' => ++$id, 'document' => '\x4142']);
	equal(select($db, $id), 'AB');
});
$db->exec('DROP TABLE docs');
exit($failed ? 1 : 0);
