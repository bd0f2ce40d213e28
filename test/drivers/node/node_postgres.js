import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { pipeline } from 'node:stream/promises';
import { createTable, dropTable, payloads, same, sameOnServer, smallPayloads } from './payloads.js';

// ---- what doc/drivers.md shows ----

async function insert(client, id, name, document) {
	await client.query('INSERT INTO docs (id, name, document) VALUES ($1, $2, $3)',
		[id, name, document]);
}

async function select(client, id) {
	const { rows } = await client.query('SELECT document FROM docs WHERE id = $1', [id]);
	return rows[0].document;
}

// ---- tests ----

export async function testNodePostgres(run) {
	const client = new pg.Client();
	await client.connect();
	try {
		await client.query(createTable);
		await runAll(run, client);
		await client.query(dropTable);
	} finally {
		await client.end();
	}
}

async function runAll(run, client) {
	// Reads a value back, and asks the server for its MD5.
	async function check(id, written) {
		same(await select(client, id), written);
		const { rows } = await client.query('SELECT md5(document) AS md5 FROM docs WHERE id = $1', [id]);
		sameOnServer(rows[0].md5, written);
	}

	async function checkAll(firstId) {
		for (const [i, { data }] of smallPayloads.entries())
			await check(firstId + i, data);
	}

	for (const [id, { name, data }] of payloads.entries())
		await run(`INSERT and SELECT, ${name}`, async () => {
			await insert(client, id, name, data);
			await check(id, data);
		});

	await run('a named statement used again', async () => {
		await client.query('INSERT INTO docs (id) VALUES (100)');
		for (const { data } of [...smallPayloads, ...smallPayloads]) {
			const { rows } = await client.query({
				name: 'update_document',
				text: 'UPDATE docs SET document = $2 WHERE id = $1 RETURNING document',
				values: [100, data],
			});
			same(rows[0].document, data);
			await check(100, data);
		}
	});

	await run('simple protocol', async () => {
		const { rows } = await client.query('SELECT document FROM docs WHERE id < 50 ORDER BY id');
		for (const [i, { data }] of smallPayloads.entries())
			same(rows[i].document, data);
	});

	await run('upsert, RETURNING', async () => {
		for (const round of [1, 2])
			for (const [i, { data }] of smallPayloads.entries()) {
				const { rows } = await client.query(
					`INSERT INTO docs (id, document) VALUES ($1, $2)
					 ON CONFLICT (id) DO UPDATE SET document = EXCLUDED.document RETURNING document`,
					[200 + i, data]);
				same(rows[0].document, data);
			}
		await checkAll(200);
	});

	await run('WHERE document = $1', async () => {
		for (const [id, { data }] of smallPayloads.entries()) {
			const { rows } = await client.query('SELECT min(id)::int AS id FROM docs WHERE document = $1', [data]);
			if (rows[0].id !== (data === null ? null : id))
				throw new Error(`found row ${rows[0].id}, should be ${id}`);
		}
	});

	await run('bytea[] as a parameter and as a result', async () => {
		const data = smallPayloads.map((payload) => payload.data);
		await client.query('INSERT INTO docs (id, document) SELECT * FROM unnest($1::bigint[], $2::bytea[])',
			[data.map((_, i) => 300 + i), data]);
		await checkAll(300);
		for (const cast of ['', '::bytea[]']) {
			const { rows } = await client.query(
				`SELECT array_agg(document ORDER BY id) AS documents FROM docs
				 WHERE id BETWEEN 300 AND 399 AND document = ANY($1${cast})`, [data]);
			for (const [i, document] of rows[0].documents.entries())
				same(document, data[i + 1]);
		}
	});

	await run('COPY FROM', async () => {
		const lines = smallPayloads.map(({ data }, i) =>
			`${400 + i}\t${data === null ? '\\N' : `\\\\x${data.toString('hex')}`}\n`);
		await pipeline(lines, client.query(copyFrom('COPY docs (id, document) FROM STDIN')));
		await checkAll(400);
	});

	await run('a pool', async () => {
		const pool = new pg.Pool({ max: 4 });
		try {
			await Promise.all(smallPayloads.map(({ name, data }, i) => insert(pool, 500 + i, name, data)));
		} finally {
			await pool.end();
		}
		await checkAll(500);
	});

	await run('type of the column', async () => {
		const { fields } = await client.query('SELECT document FROM docs WHERE false');
		if (fields[0].dataTypeID !== pg.types.builtins.BYTEA)
			throw new Error(`the column has the type ${fields[0].dataTypeID}`);
		const { rows } = await client.query(`SELECT udt_name, data_type FROM information_schema.columns
			WHERE table_name = 'docs' AND column_name = 'document'`);
		if (rows[0].udt_name !== 'securefile' || rows[0].data_type !== 'USER-DEFINED')
			throw new Error(`the catalog says ${rows[0].udt_name}, ${rows[0].data_type}`);
	});
}
