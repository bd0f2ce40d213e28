import postgres from 'postgres';
import { pipeline } from 'node:stream/promises';
import {
	createTable, dropTable, inPieces, payloads, same, sameOnServer, smallPayloads, streamed,
} from './payloads.js';

// ---- what doc/drivers.md shows ----

async function insert(sql, id, name, document) {
	await sql`INSERT INTO docs (id, name, document) VALUES (${id}, ${name}, ${document})`;
}

async function select(sql, id) {
	const [row] = await sql`SELECT document FROM docs WHERE id = ${id}`;
	return row.document;
}

// Stores a file of any length; "file" is a stream, as of
// fs.createReadStream(path, { highWaterMark: 1024 * 1024 }).
async function upload(sql, id, name, file) {
	await sql.begin(async (sql) => {
		const [{ handle }] = await sql`SELECT securefile_create('docs', 'document') AS handle`;
		for await (const piece of file)
			await sql`SELECT securefile_write(${handle}, ${piece})`;
		await sql`INSERT INTO docs (id, name, document)
			VALUES (${id}, ${name}, securefile_finish(${handle}))`;
	});
}

// Yields a file of any length in pieces of 256 KB.
async function* download(sql, id) {
	const pieces = sql`SELECT securefile_chunks(document) AS piece FROM docs WHERE id = ${id}`;
	for await (const rows of pieces.cursor(4))
		for (const { piece } of rows)
			yield piece;
}

// ---- tests ----

export async function testPostgresJs(run) {
	const sql = postgres({ max: 1 });
	try {
		await sql.unsafe(createTable);
		await runAll(run, sql);
		await sql.unsafe(dropTable);
	} finally {
		await sql.end();
	}
}

async function runAll(run, sql) {
	// Reads a value back, and asks the server for its MD5.
	async function check(id, written) {
		same(await select(sql, id), written);
		const [{ md5 }] = await sql`SELECT md5(document) AS md5 FROM docs WHERE id = ${id}`;
		sameOnServer(md5, written);
	}

	async function checkAll(firstId) {
		for (const [i, { data }] of smallPayloads.entries())
			await check(firstId + i, data);
	}

	for (const [id, { name, data }] of payloads.entries())
		await run(`INSERT and SELECT, ${name}`, async () => {
			await insert(sql, id, name, data);
			await check(id, data);
		});

	await run(`pieces, ${streamed.name}`, async () => {
		await upload(sql, 50, streamed.name, inPieces(streamed.data));
		const read = [];
		for await (const piece of download(sql, 50))
			read.push(piece);
		same(Buffer.concat(read), streamed.data);
	});

	await run('a statement used again', async () => {
		await sql`INSERT INTO docs (id) VALUES (100)`;
		for (const { data } of [...smallPayloads, ...smallPayloads]) {
			const [row] = await sql`UPDATE docs SET document = ${data} WHERE id = 100 RETURNING document`;
			same(row.document, data);
			await check(100, data);
		}
	});

	await run('without prepared statements, in a pool', async () => {
		const pool = postgres({ max: 4, prepare: false });
		try {
			await Promise.all(smallPayloads.map(({ name, data }, i) => insert(pool, 200 + i, name, data)));
			for (const [i, { data }] of smallPayloads.entries())
				same(await select(pool, 200 + i), data);
		} finally {
			await pool.end();
		}
		await checkAll(200);
	});

	await run('rows of objects', async () => {
		const rows = smallPayloads.map(({ name, data }, i) => ({ id: 300 + i, name, document: data }));
		await sql`INSERT INTO docs ${sql(rows)}`;
		await checkAll(300);
	});

	await run('simple protocol', async () => {
		const rows = await sql`SELECT document FROM docs WHERE id < 50 ORDER BY id`.simple();
		for (const [i, { data }] of smallPayloads.entries())
			same(rows[i].document, data);
	});

	await run('upsert, RETURNING', async () => {
		for (const round of [1, 2])
			for (const [i, { data }] of smallPayloads.entries()) {
				const [row] = await sql`INSERT INTO docs (id, document) VALUES (${400 + i}, ${data})
					ON CONFLICT (id) DO UPDATE SET document = EXCLUDED.document RETURNING document`;
				same(row.document, data);
			}
		await checkAll(400);
	});

	await run('WHERE document = $1', async () => {
		for (const [id, { data }] of smallPayloads.entries()) {
			const [found] = await sql`SELECT min(id)::int AS id FROM docs WHERE document = ${data}`;
			if (found.id !== (data === null ? null : id))
				throw new Error(`found row ${found.id}, should be ${id}`);
		}
	});

	await run('bytea[] as a parameter and as a result', async () => {
		const data = smallPayloads.map((payload) => payload.data).filter((bytes) => bytes !== null);
		const [{ documents }] = await sql`SELECT array_agg(document ORDER BY id) AS documents FROM docs
			WHERE id < 50 AND document = ANY(${sql.array(data)}::bytea[])`;
		for (const [i, document] of documents.entries())
			same(document, data[i]);
	});

	await run('COPY FROM', async () => {
		const lines = smallPayloads.map(({ data }, i) =>
			`${500 + i}\t${data === null ? '\\N' : `\\\\x${data.toString('hex')}`}\n`);
		await pipeline(lines, await sql`COPY docs (id, document) FROM STDIN`.writable());
		await checkAll(500);
	});

	await run('type of the column', async () => {
		const { columns } = await sql`SELECT document FROM docs WHERE false`;
		if (columns[0].type !== 17)
			throw new Error(`the column has the type ${columns[0].type}`);
	});
}
