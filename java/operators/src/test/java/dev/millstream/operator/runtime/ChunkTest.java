package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ChunkTest {
    private final Chunk chunk = new Chunk();

    private byte[] bytes() {
        return Arrays.copyOf(chunk.bytes(), chunk.used());
    }

    /** Returns the fields of an event with one field as JSON. */
    private String json(Object value) {
        chunk.clear();
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("f", value);
        chunk.add("", fields);
        return new String(bytes(), ChunkLayout.EVENT_HEADER_BYTES, chunk.used() - ChunkLayout.EVENT_HEADER_BYTES, StandardCharsets.UTF_8);
    }

    private String refusal(String message, Map<?, ?> fields) {
        int before = chunk.used();
        String refusal = assertThrows(IllegalArgumentException.class, () -> chunk.add(message, fields)).getMessage();
        assertEquals(before, chunk.used());
        return refusal;
    }

    @Test
    void anEventIsAHeaderItsMessageAndItsMembers() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("n", 1);
        fields.put("timestamp", Instant.ofEpochSecond(1, 2));
        fields.put("s", "a\"\n");
        chunk.add("\u00fc", fields);
        chunk.add("x", Map.of());
        byte[] members = "\"n\":1,\"s\":\"a\\\"\\n\"".getBytes(StandardCharsets.UTF_8);
        byte[] expected = {
            2, (byte) 0xCA, (byte) 0x9A, 0x3B, 0, 0, 0, 0, 2, 0, 0, 0, (byte) members.length, 0, 0, 0, (byte) 0xC3, (byte) 0xBC
        };
        assertArrayEquals(expected, Arrays.copyOf(bytes(), 18));
        assertArrayEquals(members, Arrays.copyOfRange(bytes(), 18, 18 + members.length));
        byte[] second = {0, 0, 0, 0, 0, 0, 0, (byte) 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 'x'};
        assertArrayEquals(second, Arrays.copyOfRange(bytes(), 18 + members.length, chunk.used()));
        assertEquals(2, chunk.events());
    }

    @Test
    void valuesAreJson() {
        assertEquals("\"f\":null", json(null));
        assertEquals("\"f\":true", json(true));
        assertEquals("\"f\":-9223372036854775808", json(Long.MIN_VALUE));
        assertEquals("\"f\":1.5", json(1.5f));
        assertEquals("\"f\":1000000000000000000000000000000", json(BigInteger.TEN.pow(30)));
        assertEquals("\"f\":2.50", json(new BigDecimal("2.50")));
        assertEquals("\"f\":\"text\"", json(new StringBuilder("text")));
        assertEquals("\"f\":\"2026-01-02T03:04:05Z\"", json(Instant.parse("2026-01-02T03:04:05Z")));
        assertEquals("\"f\":[1,{\"a\":[null]}]", json(Arrays.asList(1, Map.of("a", Arrays.asList((Object) null)))));
        assertEquals("\"f\":\"a?b\"", json("a\ud800b"));
    }

    @Test
    void numbersThatAreNotFiniteAreNull() {
        assertEquals("\"f\":null", json(Double.NaN));
        assertEquals("\"f\":null", json(Float.NEGATIVE_INFINITY));
        assertEquals("\"f\":[null,{\"a\":null}]", json(List.of(Double.POSITIVE_INFINITY, Map.of("a", Float.NaN))));
    }

    @Test
    void garbageIsRefused() {
        chunk.add("before", Map.of());
        assertEquals("an event needs a message; use an empty string for no message", refusal(null, Map.of()));
        assertEquals("fields must be a map, not null", refusal("", null));
        assertEquals("a field cannot contain a value of type java.lang.Object", refusal("", Map.of("a", List.of(new Object()))));
        assertEquals("a field name must be 1 to 256 bytes, not 0", refusal("", Map.of("", 1)));
        assertEquals("a field name must be 1 to 256 bytes, not 258", refusal("", Map.of("\u00fc".repeat(129), 1)));
        assertEquals("'message' is not a valid field name", refusal("", Map.of("message", "x")));
        assertEquals("'meta.host' is not a valid field name", refusal("", Map.of("meta.host", "x")));
        assertEquals("timestamp must be an Instant, not java.lang.Long", refusal("", Map.of("timestamp", 1L)));
        assertEquals("timestamp +1000000000-12-31T23:59:59.999999999Z is not in the years 1678 to 2261",
                refusal("", Map.of("timestamp", Instant.MAX)));
        assertEquals(1, chunk.events());
    }

    @Test
    void whatIsTooLongOrTooDeepIsRefused() {
        String longest = "x".repeat(ChunkLayout.TEXT_BYTES_MAX);
        chunk.add(longest, Map.of());
        chunk.clear();
        assertEquals("the message exceeds 1048576 bytes", refusal(longest + "x", Map.of()));
        assertEquals("the message exceeds 1048576 bytes", refusal("\u00fc".repeat(ChunkLayout.TEXT_BYTES_MAX / 2 + 1), Map.of()));
        assertEquals("the fields' JSON exceeds 1048576 bytes", refusal("", Map.of("f", longest)));
        List<Object> endless = new ArrayList<>();
        endless.add(endless);
        String refusal = refusal("", Map.of("f", endless));
        assertEquals("the value is nested too deeply: ", refusal.substring(0, 32));
    }

    @Test
    void namesTakeAllBytesTheyMayHave() {
        chunk.add("", Map.of("n".repeat(256), 1));
        assertEquals(ChunkLayout.EVENT_HEADER_BYTES + 256 + 4, chunk.used());
    }
}
