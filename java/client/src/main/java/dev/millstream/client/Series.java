package dev.millstream.client;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/** Name and tags of a series, encoded once: what stands in front of the value of each of its points, and what behind it. */
final class Series {
    /** Longest name, longest tags, and most tags, as the agent takes them by default; in bytes of UTF-8. */
    static final int NAME_BYTES_MAX = 255;
    static final int TAGS_BYTES_MAX = 4096;
    private static final int TAGS_MAX = 64;

    final byte[] before;
    final byte[] behind;

    private Series(byte[] before, byte[] behind) {
        this.before = before;
        this.behind = behind;
    }

    /** The series of a name and of {@link #tags}, which were checked. */
    static Series of(Kind kind, String name, String tags) {
        int nameBytes = Text.bytes(name);
        byte[] before = Arrays.copyOf(kind.head, kind.head.length + Text.HEAD_MAX + nameBytes);
        int end = Text.write(before, kind.head.length, name, nameBytes);
        int tagsBytes = Text.bytes(tags);
        byte[] behind = new byte[Text.HEAD_MAX + tagsBytes];
        return new Series(Arrays.copyOf(before, end), Arrays.copyOf(behind, Text.write(behind, 0, tags, tagsBytes)));
    }

    /** Whether the agent takes a name: not empty, and neither too long nor with control characters. */
    static boolean isName(int bytes) {
        return bytes > 0 && bytes <= NAME_BYTES_MAX;
    }

    static void checkName(String name) {
        if (!isName(Text.bytes(name))) {
            throw new IllegalArgumentException("'" + name + "' is no name of a metric; write 1 to " + NAME_BYTES_MAX
                + " bytes of UTF-8 without control characters");
        }
    }

    /** Keys and values in turn as {@code key=value|key2=value2}, in the order of the keys. */
    static String tags(String... pairs) {
        if (pairs.length % 2 != 0) {
            throw new IllegalArgumentException("'" + pairs[pairs.length - 1] + "' is a key without a value; write keys and values in turn");
        }
        Map<String, String> sorted = new TreeMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            checkTag(pairs[at], pairs[at + 1]);
            if (sorted.put(pairs[at], pairs[at + 1]) != null) {
                throw new IllegalArgumentException("the tag '" + pairs[at] + "' is given twice; a tag has one value");
            }
        }
        StringBuilder text = new StringBuilder();
        sorted.forEach((key, value) -> text.append(text.isEmpty() ? "" : "|").append(key).append('=').append(value));
        if (sorted.size() > TAGS_MAX || Text.bytes(text) > TAGS_BYTES_MAX) {
            throw new IllegalArgumentException("the tags are too many or too long; write up to " + TAGS_MAX + " tags of together up to "
                + TAGS_BYTES_MAX + " bytes");
        }
        return text.toString();
    }

    private static void checkTag(String key, String value) {
        if (key.isEmpty() || key.indexOf('=') >= 0 || !isPart(key)) {
            throw new IllegalArgumentException("'" + key + "' is no key of a tag; it must not be empty, nor have '=', '|', spaces or"
                + " control characters");
        }
        if (!isPart(value)) {
            throw new IllegalArgumentException("'" + value + "' is no value of the tag '" + key + "'; it must not have '|', spaces or"
                + " control characters");
        }
    }

    private static boolean isPart(String text) {
        return text.indexOf('|') < 0 && text.indexOf(' ') < 0 && Text.bytes(text) >= 0;
    }
}
