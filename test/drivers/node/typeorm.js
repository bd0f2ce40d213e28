import typeorm from 'typeorm';
import { close, column, connection, equal, open, reset, roundTrips } from './orm.js';

const { DataSource, EntitySchema } = typeorm;

// ---- what doc/drivers.md shows ----

const Doc = new EntitySchema({
	name: 'Doc',
	tableName: 'docs',
	columns: {
		id: { type: 'bigint', primary: true },
		name: { type: 'text', nullable: true },
		document: { type: 'securefile', nullable: true },
	},
});

function makeDataSource(options) {
	const source = new DataSource({ type: 'postgres', ...options });
	source.driver.supportedDataTypes.push('securefile');
	return source;
}

// ---- tests ----

function mapped(type, more) {
	const columns = { ...Doc.options.columns, document: { type, nullable: true } };
	return new EntitySchema({ ...Doc.options, ...more, columns });
}

async function using(source, use) {
	await source.initialize();
	try {
		return await use(source);
	} finally {
		await source.destroy();
	}
}

function plain(type, more) {
	return new DataSource({ type: 'postgres', ...connection, entities: [mapped(type, more)] });
}

async function migrate(source) {
	await using(source, (open) => open.synchronize());
}

export async function testTypeorm(run) {
	const client = await open();
	const declared = () => makeDataSource({ ...connection, entities: [Doc] });
	try {
		await using(declared(), async (source) => {
			const docs = source.getRepository(Doc);
			await roundTrips(run, client, 'save() and findOneBy()', (id, document) => docs.save({ id, document }),
				async (id) => (await docs.findOneBy({ id })).document);
		});
		await run('synchronize leaves a column that is declared', async () => {
			await reset(client);
			await migrate(declared());
			equal(await column(client), 'securefile, 1');
			await client.query('ALTER TABLE docs ALTER document TYPE securefile(nocache)');
			await migrate(declared());
			equal(await column(client), 'securefile(nocache), 1');
		});
		await run('and makes one', async () => {
			await client.query('DROP TABLE docs');
			await migrate(declared());
			equal(await column(client), 'securefile, 0');
		});
		await run('bytea: reads and writes', async () => {
			await reset(client);
			await using(plain('bytea'), async (source) => {
				const docs = source.getRepository('Doc');
				await docs.save({ id: 2, document: Buffer.from('a\0b') });
				equal(String((await docs.findOneBy({ id: 2 })).document), 'a\0b');
			});
			equal(await column(client), 'securefile, 2');
		});
		await run('bytea: synchronize drops the documents', async () => {
			await reset(client);
			await migrate(plain('bytea'));
			equal(await column(client), 'bytea, 0');
		});
		await run('bytea: not if the entity says synchronize: false', async () => {
			await reset(client);
			await migrate(plain('bytea', { synchronize: false }));
			equal(await column(client), 'securefile, 1');
		});
		await run('the type is refused where it is not added', async () => {
			const refused = await plain('securefile').initialize().then(() => 'not refused', (error) => error.message);
			equal(refused, 'Data type "securefile" in "Doc.document" is not supported by "postgres" database.');
		});
	} finally {
		await close(client);
	}
}
