package pgsecurefile;

import java.io.IOException;

/** Takes bytes in their order; it may keep no reference to the array. */
@FunctionalInterface
interface Sink {
	void take(byte[] bytes, int offset, int length) throws IOException;
}
