package dev.millstream.operator.runtime;

/**
 * Consecutive events that a collector passes to the agent. Numbers are little-endian and not aligned.
 *
 * <p>An event is a header, its message in UTF-8, and its fields as the members of a JSON object without the braces.
 */
final class ChunkLayout {
    private ChunkLayout() {}

    /** Offset of the nanoseconds since 1970, a long. */
    static final int EVENT_TIME = 0;

    /** Offset of the length of the message, an int. */
    static final int EVENT_MESSAGE_BYTES = 8;

    /** Offset of the length of the members, an int. */
    static final int EVENT_MEMBERS_BYTES = 12;

    /** Length of the header of an event. */
    static final int EVENT_HEADER_BYTES = 16;

    /** The time of an event that has none. */
    static final long TIME_UNKNOWN = Long.MIN_VALUE;

    /** Bytes from which on a chunk is sent; one event may be larger. */
    static final int CHUNK_BYTES = 256 << 10;

    /** Longest message, and longest members. */
    static final int TEXT_BYTES_MAX = 1 << 20;

    /** Longest name of a field. */
    static final int NAME_BYTES_MAX = 256;

    /** Most levels of maps and lists, the one of the fields included: parsers of JSON end at 128. */
    static final int DEPTH_MAX = 64;
}
