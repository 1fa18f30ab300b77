package dev.millstream.operator.runtime;

/**
 * The layout of consecutive events that a collector passes to the agent. Numbers are little-endian and not aligned.
 *
 * <p>An event consists of a header, its message in UTF-8, and its fields as the members of a JSON object without the braces.
 */
final class ChunkLayout {
    private ChunkLayout() {}

    /** Offset of the event time in nanoseconds since 1970, a long. */
    static final int EVENT_TIME = 0;

    /** Offset of the message length, an int. */
    static final int EVENT_MESSAGE_BYTES = 8;

    /** Offset of the members' length, an int. */
    static final int EVENT_MEMBERS_BYTES = 12;

    /** Length of an event header. */
    static final int EVENT_HEADER_BYTES = 16;

    /** The time value of an event without a time. */
    static final long TIME_UNKNOWN = Long.MIN_VALUE;

    /** Number of bytes at which a chunk is sent. A single event may be larger. */
    static final int CHUNK_BYTES = 256 << 10;

    /** Maximum length of a message, and of the members. */
    static final int TEXT_BYTES_MAX = 1 << 20;

    /** Maximum length of a field name. */
    static final int NAME_BYTES_MAX = 256;

    /** Maximum nesting of maps and lists, including the level of the fields. JSON parsers stop at 128 levels. */
    static final int DEPTH_MAX = 64;
}
