package dev.millstream.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class SeriesTest {
    private static String refused(Runnable task) {
        return assertThrows(IllegalArgumentException.class, task::run).getMessage();
    }

    @Test
    void tags_are_sorted_pairs() {
        assertEquals("", Series.tags());
        assertEquals("code=200|env=|shop=a=b:c,é", Series.tags("shop", "a=b:c,é", "code", "200", "env", ""));
    }

    @Test
    void tags_that_the_agent_would_misread_are_refused() {
        assertTrue(refused(() -> Series.tags("shop")).contains("'shop' is a key without a value"));
        assertTrue(refused(() -> Series.tags("a", "1", "a", "2")).contains("'a' is given twice"));
        for (String key : new String[] {"", "a b", "a|b", "a=b", "a\n", "\uD800"}) {
            assertTrue(refused(() -> Series.tags(key, "1")).contains("is no key of a tag"), key);
        }
        for (String value : new String[] {"a b", "a|b", "\t", "\u007F", "x\uDC00"}) {
            assertTrue(refused(() -> Series.tags("key", value)).contains("is no value of the tag 'key'"), value);
        }
        String[] many = new String[130];
        Arrays.setAll(many, at -> "t" + at);
        assertTrue(refused(() -> Series.tags(many)).contains("up to 64 tags"));
        assertTrue(refused(() -> Series.tags("k", "x".repeat(4096))).contains("4096 bytes"));
    }

    @Test
    void names_that_the_agent_would_refuse_are_refused() {
        Series.checkName("é".repeat(127));
        for (String name : new String[] {"", "é".repeat(128), "a\nb", "\uDC00"}) {
            assertTrue(refused(() -> Series.checkName(name)).contains("is no name of a metric"), name);
        }
    }

    @Test
    void text_is_utf_8() {
        for (String text : new String[] {"", "ascii", "é", "€uro", "a😀b", "\u07FF\u0800\uFFFF", "x".repeat(31), "x".repeat(32), "€".repeat(90),
            "x".repeat(255), "x".repeat(256), "😀".repeat(1000)}) {
            byte[] expected = text.getBytes(StandardCharsets.UTF_8);
            assertEquals(expected.length, Text.bytes(text));
            byte[] out = new byte[expected.length + Text.HEAD_MAX];
            int end = Text.write(out, 0, text, expected.length);
            assertArrayEquals(expected, Arrays.copyOfRange(out, end - expected.length, end));
        }
        assertEquals(-1, Text.bytes("x".repeat(65_536)));
    }
}
