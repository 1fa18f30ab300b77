package dev.millstream.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class SeriesTest {
    private static String rejection(Runnable task) {
        return assertThrows(IllegalArgumentException.class, task::run).getMessage();
    }

    @Test
    void tags_are_sorted_pairs() {
        assertEquals("", Series.tags());
        assertEquals("code=200|env=|shop=a=b:c,é", Series.tags("shop", "a=b:c,é", "code", "200", "env", ""));
    }

    @Test
    void tags_that_the_agent_would_misread_are_rejected() {
        assertTrue(rejection(() -> Series.tags("shop")).contains("'shop' is a key without a value"));
        assertTrue(rejection(() -> Series.tags("a", "1", "a", "2")).contains("duplicate tag 'a'"));
        for (String key : new String[] {"", "a b", "a|b", "a=b", "a\n", "\uD800"}) {
            assertTrue(rejection(() -> Series.tags(key, "1")).contains("is not a valid tag key"), key);
        }
        for (String value : new String[] {"a b", "a|b", "\t", "\u007F", "x\uDC00"}) {
            assertTrue(rejection(() -> Series.tags("key", value)).contains("is not a valid value for tag 'key'"), value);
        }
        String[] many = new String[130];
        Arrays.setAll(many, at -> "t" + at);
        assertTrue(rejection(() -> Series.tags(many)).contains("up to 64 tags"));
        assertTrue(rejection(() -> Series.tags("k", "x".repeat(4096))).contains("4096 bytes"));
    }

    @Test
    void names_that_the_agent_would_reject_are_rejected() {
        Series.checkName("é".repeat(127));
        for (String name : new String[] {"", "é".repeat(128), "a\nb", "\uDC00"}) {
            assertTrue(rejection(() -> Series.checkName(name)).contains("is not a valid metric name"), name);
        }
    }

    @Test
    void text_is_encoded_as_utf_8() {
        for (String text : new String[] {"", "ascii", "é", "€uro", "a😀b", "\u07FF\u0800\uFFFF", "x".repeat(31), "x".repeat(32), "€".repeat(90),
            "x".repeat(255), "x".repeat(256), "😀".repeat(1000)}) {
            byte[] expected = text.getBytes(StandardCharsets.UTF_8);
            assertEquals(expected.length, Text.bytes(text));
            byte[] out = new byte[expected.length + Text.HEADER_MAX];
            int end = Text.write(out, 0, text, expected.length);
            assertArrayEquals(expected, Arrays.copyOfRange(out, end - expected.length, end));
        }
        assertEquals(-1, Text.bytes("x".repeat(65_536)));
    }
}
