package pgsecurefile;

import java.io.IOException;
import java.util.ArrayDeque;

/** Bytes that were read ahead: pieces that follow each other. */
final class Ahead {
	private static final class Piece {
		final long start;
		final byte[] bytes;
		final int offset;
		final int length;

		Piece(long start, byte[] bytes, int offset, int length) {
			this.start = start;
			this.bytes = bytes;
			this.offset = offset;
			this.length = length;
		}

		boolean has(long position) {
			return start <= position && position < start + length;
		}
	}

	private final ArrayDeque<Piece> pieces = new ArrayDeque<>();

	void forget() {
		pieces.clear();
	}

	void add(long start, byte[] bytes, int offset, int length) {
		pieces.add(new Piece(start, bytes, offset, length));
	}

	/** Hand those bytes from a position on that are here to a sink; how many they were. */
	long give(long position, long want, Sink sink) throws IOException {
		long done = 0;
		while (done < want && !pieces.isEmpty()) {
			Piece piece = pieces.peek();
			long at = position + done;
			if (piece.has(at)) {
				int skip = (int) (at - piece.start);
				int count = (int) Math.min(piece.length - skip, want - done);
				sink.take(piece.bytes, piece.offset + skip, count);
				done += count;
			} else if (at < piece.start) {
				forget();
			} else {
				pieces.remove();
			}
		}
		return done;
	}
}
