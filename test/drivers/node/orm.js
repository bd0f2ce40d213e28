// What the tests of TypeORM and Sequelize share.

import pg from 'pg';
import { createTable, dropTable, payloads, same, sameOnServer } from './payloads.js';

export const connection = {
	host: process.env.PGHOST, port: Number(process.env.PGPORT),
	username: process.env.PGUSER, database: process.env.PGDATABASE,
};

// A client that looks at the table, which it makes.
export async function open() {
	const client = new pg.Client();
	await client.connect();
	await client.query(createTable);
	return client;
}

export async function close(client) {
	await client.query(dropTable);
	await client.end();
}

// The table anew, with one document in it.
export async function reset(client) {
	await client.query(dropTable);
	await client.query(createTable);
	await client.query("INSERT INTO docs VALUES (1, 'old', repeat('x', 5000)::bytea)");
}

// The type of the column, and how many documents it has.
export async function column(client) {
	const { rows } = await client.query(`SELECT format_type(atttypid, atttypmod) AS type,
		(SELECT count(document)::integer FROM docs) AS documents
		FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname = 'document'`);
	return `${rows[0].type}, ${rows[0].documents}`;
}

export function equal(got, expected) {
	if (got !== expected)
		throw new Error(`got ${got}, not ${expected}`);
}

// Every payload, by functions that write one and read one.
export async function roundTrips(run, client, what, write, read) {
	for (const [i, { name, data }] of payloads.entries())
		await run(`${what}, ${name}`, async () => {
			await write(100 + i, data);
			const { rows } = await client.query('SELECT md5(document) AS md5 FROM docs WHERE id = $1', [100 + i]);
			sameOnServer(rows[0].md5, data);
			same(await read(100 + i), data);
		});
}
