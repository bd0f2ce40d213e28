package pgsecurefile;

import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;

/** What the options of an open() mean, as those of {@link java.nio.channels.FileChannel#open}. */
final class OpenMode {
	private static final Set<StandardOpenOption> KNOWN = EnumSet.complementOf(EnumSet.of(StandardOpenOption.DELETE_ON_CLOSE));

	final boolean read;
	final boolean write;
	final boolean append;
	final boolean create;
	final boolean createNew;
	private final boolean truncate;

	OpenMode(OpenOption... options) {
		for (OpenOption option : options) {
			if (!KNOWN.contains(option))
				throw new UnsupportedOperationException("a value has no such option: " + option);
		}
		Set<OpenOption> all = Set.copyOf(Arrays.asList(options));
		append = all.contains(StandardOpenOption.APPEND);
		write = append || all.contains(StandardOpenOption.WRITE);
		read = !write || all.contains(StandardOpenOption.READ);
		createNew = write && all.contains(StandardOpenOption.CREATE_NEW);
		create = createNew || write && all.contains(StandardOpenOption.CREATE);
		truncate = write && all.contains(StandardOpenOption.TRUNCATE_EXISTING);
		if (append && (truncate || all.contains(StandardOpenOption.READ)))
			throw new IllegalArgumentException("APPEND goes with neither READ nor TRUNCATE_EXISTING");
	}

	/** Whether the bytes of a value that is there stay. */
	boolean keepsOld() {
		return !createNew && !truncate;
	}
}
