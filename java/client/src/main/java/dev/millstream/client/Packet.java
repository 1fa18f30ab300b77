package dev.millstream.client;

import java.nio.ByteBuffer;

/**
 * Room for points that go out together: an array of them in msgpack, behind the length that streams have in front. It belongs to one
 * thread at a time.
 */
final class Packet {
    /** Bytes of the length of the message, least significant first. */
    static final int LENGTH_BYTES = 4;

    /** Bytes in front of the points: the length, and the head of an array of up to 65,535. */
    private static final int HEAD_BYTES = LENGTH_BYTES + 3;

    /** Bytes of a value at most, and of a timestamp: heads of strings and digits. */
    private static final int VALUE_BYTES_MAX = 1 + Numbers.BYTES_MAX;
    private static final int SECOND_BYTES_MAX = 21;

    /** No timestamp. */
    static final long NO_SECOND = -1;

    /** Its place in the pool. */
    final int index;
    private final byte[] bytes;
    private final ByteBuffer view;
    private int end = HEAD_BYTES;
    private int points;

    /** A packet whose message has up to {@code messageBytes}. */
    Packet(int index, int messageBytes) {
        this.index = index;
        bytes = new byte[LENGTH_BYTES + messageBytes];
        view = ByteBuffer.wrap(bytes);
    }

    /** Bytes of a message with one point of a series, at most. */
    static int messageBytes(Series series) {
        return HEAD_BYTES - LENGTH_BYTES + room(series);
    }

    /** Bytes that a point of a series takes at most. */
    static int room(Series series) {
        return series.before.length + VALUE_BYTES_MAX + series.behind.length + SECOND_BYTES_MAX;
    }

    /** The same for a point whose name and tags have so many bytes. */
    static int room(Kind kind, int nameBytes, int tagsBytes) {
        return kind.head.length + nameBytes + VALUE_BYTES_MAX + tagsBytes + 2 * Text.HEAD_MAX + SECOND_BYTES_MAX;
    }

    /** Bytes of points that an empty packet has room for. */
    int roomMax() {
        return bytes.length - HEAD_BYTES;
    }

    boolean hasRoom(int room) {
        return bytes.length - end >= room;
    }

    boolean isEmpty() {
        return points == 0;
    }

    int points() {
        return points;
    }

    void clear() {
        end = HEAD_BYTES;
        points = 0;
    }

    /** Adds a point, for which there must be room. */
    void add(Series series, double value, long second) {
        int at = copy(series.before, end);
        at = value(at, value);
        at = copy(series.behind, at);
        end = second(at, second);
        points++;
    }

    /** The same with a sum, which has all its digits. */
    void add(Series series, long value) {
        int at = copy(series.before, end);
        int from = at + 1;
        at = headed(from, Numbers.write(bytes, from, value));
        at = copy(series.behind, at);
        end = second(at, NO_SECOND);
        points++;
    }

    /** The same without a series; the numbers of bytes are those of {@link Text#bytes}. */
    void add(Kind kind, CharSequence name, int nameBytes, double value, CharSequence tags, int tagsBytes) {
        int at = copy(kind.head, end);
        at = Text.write(bytes, at, name, nameBytes);
        at = value(at, value);
        at = Text.write(bytes, at, tags, tagsBytes);
        end = second(at, NO_SECOND);
        points++;
    }

    private int copy(byte[] from, int at) {
        System.arraycopy(from, 0, bytes, at, from.length);
        return at + from.length;
    }

    private int value(int at, double value) {
        return headed(at + 1, Numbers.write(bytes, at + 1, value));
    }

    private int second(int at, long second) {
        return headed(at + 1, second == NO_SECOND ? at + 1 : Numbers.write(bytes, at + 1, second));
    }

    /** Writes the head of a short string in front of its bytes; returns their end. */
    private int headed(int from, int to) {
        bytes[from - 1] = (byte) (0xA0 | to - from);
        return to;
    }

    /** The message, with its length in front if {@code hasLength}. The same view each time. */
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
