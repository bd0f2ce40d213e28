package pgsecurefile;

import java.util.Arrays;

/** Bytes that wait to be written, up to a window of pieces. */
final class Gather {
	/** Bytes of a window: 16 pieces. */
	static final int WINDOW_BYTES = 16 * Handle.PIECE_BYTES;

	byte[] bytes = new byte[8192];
	long start;
	int length;

	long end() {
		return start + length;
	}

	/** Windows end at multiples of a piece. */
	int room() {
		return WINDOW_BYTES - (int) (start % Handle.PIECE_BYTES) - length;
	}

	/** Make the array long enough for some bytes more, of those for which there is room. */
	void reserve(int more) {
		if (length + more > bytes.length)
			bytes = Arrays.copyOf(bytes, Math.min(WINDOW_BYTES, Math.max(length + more, 2 * bytes.length)));
	}
}
