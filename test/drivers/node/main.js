// Writes and reads securefile columns with Node's drivers.
//
//	node main.js [stack ...]
//
// The server is the one that PGHOST, PGPORT, PGUSER and PGDATABASE name; the database has
// the extension, and no table "docs".  Each stack makes that table and drops it.  Prints
// "ok - STACK: WHAT" or "not ok - STACK: WHAT: REASON" for each test.

import { testNodePostgres } from './node_postgres.js';
import { testPostgresJs } from './postgres_js.js';
import { testSequelize } from './sequelize.js';
import { testTypeorm } from './typeorm.js';

const stacks = {
	node_postgres: testNodePostgres, postgres_js: testPostgresJs,
	sequelize: testSequelize, typeorm: testTypeorm,
};
const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(stacks);

for (const name of names) {
	if (!stacks[name])
		throw new Error(`there is no stack "${name}"`);
	const run = async (what, test) => {
		try {
			await test();
			console.log(`ok - ${name}: ${what}`);
		} catch (error) {
			process.exitCode = 1;
			console.log(`not ok - ${name}: ${what}: ${String(error.message).replaceAll('\n', ' ')}`);
		}
	};
	await run('all tests ran', () => stacks[name](run));
}
