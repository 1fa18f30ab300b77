package dev.millstream.client;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Decodes messages like the agent: an array of points, each an array of six strings. */
final class Decoder {
    private Decoder() {}

    static List<List<String>> points(ByteBuffer message) {
        assertByte(0xDC, message.get());
        int count = Short.toUnsignedInt(message.getShort());
        List<List<String>> points = new ArrayList<>(count);
        for (int point = 0; point < count; point++) {
            assertByte(0x96, message.get());
            List<String> texts = new ArrayList<>(6);
            for (int text = 0; text < 6; text++) {
                texts.add(text(message));
            }
            points.add(texts);
        }
        if (message.hasRemaining()) {
            throw new AssertionError(message.remaining() + " bytes after " + count + " points");
        }
        return points;
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
