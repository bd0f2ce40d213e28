// Tests of the package, as it is installed.
//
//	node test/main.js
//
// The server is the one that PGHOST, PGPORT, PGUSER and PGDATABASE name; the database has
// the extension.  Prints "ok - WHAT" or "not ok - WHAT: REASON" for each test.

import { prepare, withClient } from './common.js';
import * as http from './http.js';
import * as long from './long.js';
import * as read from './read.js';
import * as write from './write.js';

process.on('warning', (warning) => {
	process.exitCode = 1;
	console.log(`not ok - node_package: a warning: ${warning.message}`);
});

for (const [area, tests] of Object.entries({ read, write, http, long }))
	for (const [name, test] of Object.entries(tests)) {
		try {
			const skipped = await withClient(async (client) => {
				await prepare(client);
				return test(client);
			});
			console.log(skipped ? `skip - node_package: ${area}: ${name}: ${skipped}` : `ok - node_package: ${area}: ${name}`);
		} catch (error) {
			process.exitCode = 1;
			console.log(`not ok - node_package: ${area}: ${name}: ${String(error.stack).replaceAll('\n', ' ')}`);
		}
	}
