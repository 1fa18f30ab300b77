package dev.millstream.client;

import java.nio.ByteBuffer;

/**
 * A buffer for points that are sent together: a msgpack array with a length prefix, which only stream transports send. One thread owns a
 * packet at a time.
 */
final class Packet {
    /** Size of the little-endian length prefix. */
    static final int LENGTH_BYTES = 4;

    /** Bytes before the points: the length prefix, and the header of an array of up to 65,535 elements. */
    private static final int HEADER_BYTES = LENGTH_BYTES + 3;

    /** Maximum sizes of a value and of a timestamp, each a string header and digits. */
    private static final int VALUE_BYTES_MAX = 1 + Numbers.BYTES_MAX;
    private static final int SECOND_BYTES_MAX = 21;

    /** No timestamp. */
    static final long NO_SECOND = -1;

    /** Index in the pool. */
    final int index;
    private final byte[] bytes;
    private final ByteBuffer view;
    private int end = HEADER_BYTES;
    private int points;

    /** Creates a packet for messages of up to {@code messageBytes}. */
    Packet(int index, int messageBytes) {
        this.index = index;
        bytes = new byte[LENGTH_BYTES + messageBytes];
        view = ByteBuffer.wrap(bytes);
    }

    /** Returns the maximum size of a message with one point of a series. */
    static int messageBytes(Series series) {
        return HEADER_BYTES - LENGTH_BYTES + pointBytes(series);
    }

    /** Returns the maximum size of one point of a series. */
    static int pointBytes(Series series) {
        return series.prefix.length + VALUE_BYTES_MAX + series.suffix.length + SECOND_BYTES_MAX;
    }

    /** Returns the maximum size of a point whose name and tags have this many bytes. */
    static int pointBytes(Kind kind, int nameBytes, int tagsBytes) {
        return kind.prefix.length + nameBytes + VALUE_BYTES_MAX + tagsBytes + 2 * Text.HEADER_MAX + SECOND_BYTES_MAX;
    }

    /** Returns the capacity for points in bytes. */
    int capacity() {
        return bytes.length - HEADER_BYTES;
    }

    boolean hasCapacity(int pointBytes) {
        return bytes.length - end >= pointBytes;
    }

    boolean isEmpty() {
        return points == 0;
    }

    int points() {
        return points;
    }

    void clear() {
        end = HEADER_BYTES;
        points = 0;
    }

    /** Adds a point. The packet must have capacity for the point. */
    void add(Series series, double value, long second) {
        int at = copy(series.prefix, end);
        at = writeValue(at, value);
        at = copy(series.suffix, at);
        end = writeSecond(at, second);
        points++;
    }

    /** Adds a point with an integer value, and writes all digits of the value. */
    void add(Series series, long value) {
        int at = copy(series.prefix, end);
        int from = at + 1;
        at = writeHeader(from, Numbers.write(bytes, from, value));
        at = copy(series.suffix, at);
        end = writeSecond(at, NO_SECOND);
        points++;
    }

    /** Adds a point without a series. The sizes are results of {@link Text#bytes}. */
    void add(Kind kind, CharSequence name, int nameBytes, double value, CharSequence tags, int tagsBytes) {
        int at = copy(kind.prefix, end);
        at = Text.write(bytes, at, name, nameBytes);
        at = writeValue(at, value);
        at = Text.write(bytes, at, tags, tagsBytes);
        end = writeSecond(at, NO_SECOND);
        points++;
    }

    /** Adds an encoded element. */
    void add(byte[] element) {
        end = copy(element, end);
        points++;
    }

    private int copy(byte[] from, int at) {
        System.arraycopy(from, 0, bytes, at, from.length);
        return at + from.length;
    }

    private int writeValue(int at, double value) {
        return writeHeader(at + 1, Numbers.write(bytes, at + 1, value));
    }

    private int writeSecond(int at, long second) {
        return writeHeader(at + 1, second == NO_SECOND ? at + 1 : Numbers.write(bytes, at + 1, second));
    }

    /** Writes the header of a short string before the string's bytes. Returns the end of the bytes. */
    private int writeHeader(int from, int to) {
        bytes[from - 1] = (byte) (0xA0 | to - from);
        return to;
    }

    /** Returns the message, optionally with its length prefix. Every call returns the same view. */
    ByteBuffer message(boolean hasLength) {
        int length = end - LENGTH_BYTES;
        for (int at = 0; at < LENGTH_BYTES; at++) {
            bytes[at] = (byte) (length >> 8 * at);
        }
        bytes[LENGTH_BYTES] = (byte) 0xDC;
        bytes[LENGTH_BYTES + 1] = (byte) (points >> 8);
        bytes[LENGTH_BYTES + 2] = (byte) points;
        return view.clear().limit(end).position(hasLength ? 0 : LENGTH_BYTES);
    }
}
