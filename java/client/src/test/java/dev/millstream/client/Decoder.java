package dev.millstream.client;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Decodes messages as the agent does. A message is an array of points and log events. Each point is an array of six strings. A log event
 * has a seventh element, an array of strings, which are appended to the other six.
 */
public final class Decoder {
    private Decoder() {}

    /**
     * Decodes a message.
     *
     * @param message the bytes, which must contain nothing else
     * @return the strings of each point or log event
     */
    public static List<List<String>> points(ByteBuffer message) {
        assertByte(0xDC, message.get());
        int count = Short.toUnsignedInt(message.getShort());
        List<List<String>> points = new ArrayList<>(count);
        for (int point = 0; point < count; point++) {
            points.add(point(message));
        }
        if (message.hasRemaining()) {
            throw new AssertionError(message.remaining() + " bytes after " + count + " points");
        }
        return points;
    }

    private static List<String> point(ByteBuffer message) {
        byte head = message.get();
        boolean isLog = head == (byte) 0x97;
        assertByte(isLog ? 0x97 : 0x96, head);
        List<String> texts = new ArrayList<>();
        texts(message, 6, texts);
        if (!texts.get(0).equals(isLog ? "log" : "emit")) {
            throw new AssertionError(texts);
        }
        if (isLog) {
            int fields = message.get() & 0xFF;
            texts(message, fields == 0xDC ? Short.toUnsignedInt(message.getShort()) : fields - 0x90, texts);
        }
        return texts;
    }

    private static void texts(ByteBuffer message, int count, List<String> to) {
        for (int text = 0; text < count; text++) {
            to.add(text(message));
        }
    }

    private static String text(ByteBuffer message) {
        int head = message.get() & 0xFF;
        int length = switch (head) {
            case 0xD9 -> message.get() & 0xFF;
            case 0xDA -> Short.toUnsignedInt(message.getShort());
            default -> {
                assertByte(0xA0, (byte) (head & 0xE0));
                yield head & 31;
            }
        };
        byte[] bytes = new byte[length];
        message.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static void assertByte(int expected, byte found) {
        if (found != (byte) expected) {
            throw new AssertionError(String.format("%02x instead of %02x", found, expected));
        }
    }
}
