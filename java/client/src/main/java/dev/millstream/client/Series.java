package dev.millstream.client;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/** The name and tags of a series, encoded once as the prefix and suffix of the value in each point. */
final class Series {
    /** The agent's default limits: UTF-8 bytes of a name, bytes of all tags, number of tags. */
    static final int NAME_BYTES_MAX = 255;
    static final int TAGS_BYTES_MAX = 4096;
    private static final int TAGS_MAX = 64;

    final byte[] prefix;
    final byte[] suffix;

    private Series(byte[] prefix, byte[] suffix) {
        this.prefix = prefix;
        this.suffix = suffix;
    }

    /** Creates a series from a valid name and a result of {@link #tags}. */
    static Series of(Kind kind, String name, String tags) {
        int nameBytes = Text.bytes(name);
        byte[] prefix = Arrays.copyOf(kind.prefix, kind.prefix.length + Text.HEADER_MAX + nameBytes);
        int end = Text.write(prefix, kind.prefix.length, name, nameBytes);
        int tagsBytes = Text.bytes(tags);
        byte[] suffix = new byte[Text.HEADER_MAX + tagsBytes];
        return new Series(Arrays.copyOf(prefix, end), Arrays.copyOf(suffix, Text.write(suffix, 0, tags, tagsBytes)));
    }

    /** Returns whether the agent accepts a name for which {@link Text#bytes} returns this length. */
    static boolean isValidName(int bytes) {
        return bytes > 0 && bytes <= NAME_BYTES_MAX;
    }

    /** Returns whether the agent accepts tags for which {@link Text#bytes} returns this length. */
    static boolean hasValidLength(int bytes) {
        return bytes >= 0 && bytes <= TAGS_BYTES_MAX;
    }

    static void checkName(String name) {
        if (!isValidName(Text.bytes(name))) {
            throw new IllegalArgumentException("'" + name + "' is not a valid metric name; use 1 to " + NAME_BYTES_MAX
                + " bytes of UTF-8 without control characters");
        }
    }

    /** Formats alternating keys and values as {@code key=value|key2=value2}, sorted by key. */
    static String tags(String... pairs) {
        if (pairs.length % 2 != 0) {
            throw new IllegalArgumentException("'" + pairs[pairs.length - 1] + "' is a key without a value; alternate keys and values");
        }
        Map<String, String> sorted = new TreeMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            checkTag(pairs[at], pairs[at + 1]);
            if (sorted.put(pairs[at], pairs[at + 1]) != null) {
                throw new IllegalArgumentException("duplicate tag '" + pairs[at] + "'; a tag has one value");
            }
        }
        StringBuilder text = new StringBuilder();
        sorted.forEach((key, value) -> text.append(text.isEmpty() ? "" : "|").append(key).append('=').append(value));
        if (sorted.size() > TAGS_MAX || Text.bytes(text) > TAGS_BYTES_MAX) {
            throw new IllegalArgumentException("too many tags, or tags that are too long; use up to " + TAGS_MAX
                + " tags with a total of up to " + TAGS_BYTES_MAX + " bytes");
        }
        return text.toString();
    }

    private static void checkTag(String key, String value) {
        if (key.isEmpty() || key.indexOf('=') >= 0 || !isValidText(key)) {
            throw new IllegalArgumentException("'" + key + "' is not a valid tag key; it must not be empty or contain '=', '|', spaces or"
                + " control characters");
        }
        if (!isValidText(value)) {
            throw new IllegalArgumentException("'" + value + "' is not a valid value for tag '" + key + "'; it must not contain '|', spaces"
                + " or control characters");
        }
    }

    private static boolean isValidText(String text) {
        return text.indexOf('|') < 0 && text.indexOf(' ') < 0 && Text.bytes(text) >= 0;
    }
}
