import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Lob;
import jakarta.persistence.Table;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.sql.Connection;
import java.util.List;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.hibernate.tool.schema.spi.SchemaManagementException;

class Hibernate {
	@Entity
	@Table(name = "docs")
	static class Doc {
		@Id
		Long id;

		String name;

		@Column(columnDefinition = "securefile(nocache)")
		byte[] document;
	}

	/** As Doc, but without the type, which only schema validation and DDL look at. */
	@Entity
	@Table(name = "docs")
	static class Plain {
		@Id
		Long id;

		String name;

		byte[] document;
	}

	@Entity
	@Table(name = "docs")
	static class WithLob {
		@Id
		Long id;

		@Lob
		byte[] document;
	}

	/** Stores a file of any length; outside of a transaction, since PgJdbc.upload() has its own. */
	static void upload(Session session, long id, String name, InputStream file) {
		session.doWork(connection -> {
			try {
				PgJdbc.upload(connection, id, name, file);
			} catch (IOException problem) {
				throw new UncheckedIOException(problem);
			}
		});
	}

	private final Drivers tests;
	private SessionFactory factory;

	Hibernate(Drivers tests) {
		this.tests = tests;
	}

	private static SessionFactory open(Class<?> entity, String... settings) {
		var configuration = new Configuration().addAnnotatedClass(entity)
				.setProperty("hibernate.connection.url", Drivers.url())
				.setProperty("hibernate.connection.username", System.getenv("PGUSER"))
				.setProperty("hibernate.jdbc.batch_size", "10");
		for (String setting : settings) {
			String[] parts = setting.split("=", 2);
			configuration.setProperty(parts[0], parts[1]);
		}
		return configuration.buildSessionFactory();
	}

	void runAll() throws Exception {
		java.util.logging.LogManager.getLogManager().reset();
		try (SessionFactory made = open(Doc.class, "hibernate.hbm2ddl.auto=create-only"); Connection db = Drivers.connect()) {
			try {
				factory = made;
				runTests(db);
			} finally {
				Drivers.execute(db, "DROP TABLE docs");
			}
		}
	}

	private void runTests(Connection db) {
		List<Payload> payloads = Payload.all();
		for (int i = 0; i < payloads.size(); i++) {
			long id = i;
			Payload payload = payloads.get(i);
			tests.run("persist and find, " + payload.name(), () -> {
				factory.inTransaction(session -> session.persist(doc(id, payload)));
				Payload.same(find(id).document, payload.data());
				PgJdbc.check(db, id, payload.data());
			});
		}
		Payload large = Payload.streamed();
		tests.run("pieces, " + large.name(), () -> pieces(large));
		tests.run("batch", () -> batch(db));
		tests.run("dirty checking", () -> dirtyChecking(db));
		tests.run("merge, StatelessSession.upsert", () -> mergeAndUpsert(db));
		tests.run("HQL: document = :document", this::query);
		tests.run("a projection, a native query", this::projections);
		tests.run("an entity without columnDefinition", () -> plain(db));
		tests.run("hbm2ddl made the column", () -> made(db));
		tests.run("hbm2ddl validates the column", () -> open(Doc.class, "hibernate.hbm2ddl.auto=validate").close());
		tests.run("hbm2ddl update leaves the column", () -> {
			open(Doc.class, "hibernate.hbm2ddl.auto=update").close();
			made(db);
		});
		tests.run("hbm2ddl validate without columnDefinition is refused", this::validatePlain);
		tests.run("@Lob is refused", this::lob);
		tests.run("hbm2ddl update without columnDefinition turns the column into bytea", () -> {
			open(Plain.class, "hibernate.hbm2ddl.auto=update").close();
			is(db, "bytea");
		});
	}

	private static Doc doc(long id, Payload payload) {
		Doc doc = new Doc();
		doc.id = id;
		doc.name = payload.name();
		doc.document = payload.data();
		return doc;
	}

	private Doc find(long id) {
		return factory.fromTransaction(session -> session.find(Doc.class, id));
	}

	private void pieces(Payload payload) throws Exception {
		ByteArrayOutputStream read = new ByteArrayOutputStream();
		factory.inSession(session -> {
			upload(session, 50, payload.name(), new ByteArrayInputStream(payload.data()));
			session.doWork(connection -> {
				try {
					PgJdbc.download(connection, 50, read);
				} catch (IOException problem) {
					throw new UncheckedIOException(problem);
				}
			});
		});
		Payload.same(read.toByteArray(), payload.data());
	}

	private void batch(Connection db) throws Exception {
		factory.inTransaction(session -> {
			long id = 100;
			for (Payload payload : Payload.small())
				session.persist(doc(id++, payload));
		});
		long id = 100;
		for (Payload payload : Payload.small())
			PgJdbc.check(db, id++, payload.data());
	}

	private void dirtyChecking(Connection db) throws Exception {
		byte[] changed = Payload.small().get(6).data();
		changed[0]++;
		factory.inTransaction(session -> session.find(Doc.class, 106L).document[0]++);
		PgJdbc.check(db, 106, changed);
		for (Payload payload : Payload.small()) {
			factory.inTransaction(session -> session.find(Doc.class, 106L).document = payload.data());
			PgJdbc.check(db, 106, payload.data());
		}
	}

	private void mergeAndUpsert(Connection db) throws Exception {
		for (Payload payload : Payload.small()) {
			factory.inTransaction(session -> session.merge(doc(200, payload)));
			PgJdbc.check(db, 200, payload.data());
			factory.inStatelessTransaction(session -> session.upsert(doc(201, payload)));
			PgJdbc.check(db, 201, payload.data());
		}
	}

	private void query() {
		for (int id = 1; id < 7; id++) {
			byte[] document = Payload.small().get(id).data();
			Long found = factory.fromTransaction(session -> session
					.createQuery("select min(d.id) from Hibernate$Doc d where d.document = :document", Long.class)
					.setParameter("document", document).getSingleResult());
			Payload.equal(found, (long) id);
		}
	}

	private void projections() {
		for (int id = 0; id < 7; id++) {
			String where = " where id = " + id;
			Payload.same(factory.fromTransaction(session -> session
					.createQuery("select document from Hibernate$Doc" + where, byte[].class).getSingleResult()),
					Payload.small().get(id).data());
			Payload.same((byte[]) factory.fromTransaction(session -> session
					.createNativeQuery("select document from docs" + where, Object.class).getSingleResult()),
					Payload.small().get(id).data());
		}
	}

	private void plain(Connection db) throws Exception {
		try (SessionFactory other = open(Plain.class)) {
			for (Payload payload : Payload.small()) {
				other.inTransaction(session -> {
					Plain plain = new Plain();
					plain.id = 300L;
					plain.document = payload.data();
					session.merge(plain);
				});
				PgJdbc.check(db, 300, payload.data());
				Payload.same(other.fromTransaction(session -> session.find(Plain.class, 300L)).document, payload.data());
			}
		}
	}

	private void made(Connection db) throws Exception {
		is(db, "securefile(nocache)");
	}

	private void is(Connection db, String type) throws Exception {
		try (var row = db.createStatement().executeQuery("""
				SELECT format_type(atttypid, atttypmod) FROM pg_attribute
				WHERE attrelid = 'docs'::regclass AND attname = 'document'""")) {
			row.next();
			Payload.equal(row.getString(1), type);
		}
	}

	private void validatePlain() {
		try {
			open(Plain.class, "hibernate.hbm2ddl.auto=validate").close();
		} catch (SchemaManagementException refused) {
			Payload.equal(refused.getMessage(), "Schema-validation: wrong column type encountered in column [document] "
					+ "in table [docs]; found [securefile (Types#OTHER)], but expecting [bytea (Types#VARBINARY)]");
			return;
		}
		throw new AssertionError("it was accepted");
	}

	private void lob() {
		try (SessionFactory other = open(WithLob.class)) {
			other.inTransaction(session -> {
				WithLob lob = new WithLob();
				lob.id = 400L;
				lob.document = new byte[10];
				session.persist(lob);
			});
		} catch (org.hibernate.exception.SQLGrammarException refused) {
			Payload.equal(refused.getSQLState(), "42804");
			return;
		}
		throw new AssertionError("it was accepted");
	}
}
