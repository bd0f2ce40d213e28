import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.sql.DriverManager;
import pgsecurefile.SecureFile;
import static java.nio.file.StandardOpenOption.*;

public class First {
	public static void main(String[] args) throws Exception {
		try (var db = DriverManager.getConnection(args[0])) {
			db.createStatement().execute("CREATE TABLE IF NOT EXISTS videos (name text PRIMARY KEY, document securefile)");

			SecureFile.of(db, "videos", "document", "pom").put(Path.of("pom.xml")); // or bytes, or an InputStream
			var zeros = SecureFile.of(db, "videos", "document", "zeros");
			zeros.write(out -> out.write(new byte[5_000_000])); // an OutputStream

			try (var channel = zeros.open(READ, WRITE)) { // a SeekableByteChannel
				channel.position(channel.size() - 4).write(ByteBuffer.wrap("last".getBytes()));
			}
			System.out.println(new String(zeros.get(4_999_996, 4)) + " " + zeros.get(Path.of("zeros"))); // into a file
		}
	}
}
