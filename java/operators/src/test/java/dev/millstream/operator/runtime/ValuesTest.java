package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.Row;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ValuesTest {
    private final LocalWorker worker = new LocalWorker();

    @AfterEach
    void end() {
        worker.close();
    }

    private LocalAnswer run(LocalRequest request, Rule rule) {
        int operator = Operators.register(rule);
        try (request) {
            return worker.apply(operator, request);
        } finally {
            Bridge.remove(operator);
        }
    }

    /** Returns the value that a rule reads in a row with one field. */
    private Object read(LocalValue value, java.util.function.Function<Row, Object> reads) {
        List<Object> seen = new ArrayList<>();
        for (boolean isOwn : new boolean[] {false, true}) {
            LocalRequest request = new LocalRequest(2).set(0, "message", "before").set(1, "field", value);
            LocalAnswer answer = run(isOwn ? request.own("field") : request, row -> {
                if (row.has("field")) {
                    seen.add(reads.apply(row));
                    seen.add(reads.apply(row));
                }
            });
            assertEquals(List.of(), answer.failed());
        }
        assertEquals(4, seen.size());
        assertEquals(1, seen.stream().distinct().count());
        return seen.get(0);
    }

    private Object get(long kind, String bytes) {
        return read(LocalValue.of(kind, bytes), row -> row.get("field"));
    }

    private String text(long kind, String bytes) {
        return (String) read(LocalValue.of(kind, bytes), row -> row.text("field"));
    }

    @Test
    void everyKindIsRead() {
        assertNull(get(Layout.KIND_NULL, ""));
        assertEquals(false, get(Layout.KIND_FALSE, ""));
        assertEquals(true, get(Layout.KIND_TRUE, ""));
        assertEquals(-17L, get(Layout.KIND_INT, "-17"));
        assertEquals(Long.MIN_VALUE, get(Layout.KIND_INT, "-9223372036854775808"));
        assertEquals(Long.MAX_VALUE, get(Layout.KIND_INT, "9223372036854775807"));
        assertEquals(new BigInteger("9223372036854775808"), get(Layout.KIND_INT, "9223372036854775808"));
        assertEquals(new BigInteger("12345678901234567890"), get(Layout.KIND_INT, "12345678901234567890"));
        assertEquals(-1.5e3, get(Layout.KIND_FLOAT, "-1.5e3"));
        assertEquals(Map.of("a", List.of(1L, "x")), get(Layout.KIND_OBJECT, "{\"a\":[1,\"x\"]}"));
        assertEquals(Arrays.asList(null, true, 1.5, Map.of()), get(Layout.KIND_ARRAY, "[null, true, 1.5, {}]"));
    }

    @Test
    void timesAreReadWithAndWithoutFraction() {
        for (String text : new String[] {"2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.123456789Z",
            "2024-02-29T23:59:59.000001Z", "1969-12-31T23:59:59.999Z", "2026-01-31T00:00:00Z", "2026-01-02T03:04:05+02:00"}) {
            assertEquals(OffsetDateTime.parse(text).toInstant(), get(Layout.KIND_TIME, text), text);
        }
    }

    @Test
    void textIsReadAsUtf8() {
        for (String text : new String[] {"", "a", "ab", "abc", "abcd", "abcdefg", "abcdefgh", "abcdefghijklmnop", "abcdefghijklmnopq",
            "nul\0", "é", "€uro", "😀", "a😀b€cé".repeat(50), "\\u0041"}) {
            assertEquals(text, get(Layout.KIND_TEXT, text));
        }
        LocalValue invalid = LocalValue.of(Layout.KIND_TEXT, new byte[] {'a', (byte) 0xFF, 'b'});
        assertEquals("a\uFFFDb", read(invalid, row -> row.get("field")));
    }

    @Test
    void escapesAreDecoded() {
        assertEquals("a\"\\/\b\f\n\r\tz", get(Layout.KIND_ESCAPED, "a\\\"\\\\\\/\\b\\f\\n\\r\\tz"));
        assertEquals("😀", get(Layout.KIND_ESCAPED, "\\ud83d\\ude00"));
        assertEquals("A😀 é", get(Layout.KIND_ESCAPED, "\\u0041😀 é"));
        assertEquals("\uD83D", get(Layout.KIND_ESCAPED, "\\ud83d"));
        assertEquals("long text without any escape", get(Layout.KIND_ESCAPED, "long text without any escape"));
        assertEquals("A", text(Layout.KIND_ESCAPED, "\\u0041"));
    }

    @Test
    void valuesAreReadAsText() {
        assertNull(text(Layout.KIND_NULL, ""));
        assertEquals("true", text(Layout.KIND_TRUE, ""));
        assertEquals("12345678901234567890", text(Layout.KIND_INT, "12345678901234567890"));
        assertEquals("1.50", text(Layout.KIND_FLOAT, "1.50"));
        assertEquals("2026-01-02T03:04:05Z", text(Layout.KIND_TIME, "2026-01-02T03:04:05Z"));
        assertEquals("{\"a\": 1}", text(Layout.KIND_OBJECT, "{\"a\": 1}"));
    }

    @Test
    void valuesAreReadAsNumbers() {
        Map<String, Long> integers = Map.of("42", 42L, "-9223372036854775808", Long.MIN_VALUE, "9223372036854775808", -1L, "00012", 12L,
                "0000000000000000000000", 0L, "+1", -1L, "", -1L, "-", -1L, "4 ", -1L, "1.0", -1L);
        integers.forEach((text, expected) ->
                assertEquals(expected, read(LocalValue.of(Layout.KIND_TEXT, text), row -> row.integer("field", -1)), text));
        Map<String, Double> numbers =
                Map.of("42", 42.0, "1e3", 1000.0, "-.5", -0.5, "NaN", -1.0, "0x1p3", -1.0, "1d", -1.0, "", -1.0, "e", -1.0);
        numbers.forEach((text, expected) ->
                assertEquals(expected, read(LocalValue.of(Layout.KIND_TEXT, text), row -> row.number("field", -1)), text));
        assertEquals(7L, read(LocalValue.of(Layout.KIND_INT, "7"), row -> row.integer("field", -1)));
        assertEquals(-1L, read(LocalValue.of(Layout.KIND_FLOAT, "7.0"), row -> row.integer("field", -1)));
        assertEquals(1.25, read(LocalValue.of(Layout.KIND_FLOAT, "1.25"), row -> row.number("field", -1)));
        assertEquals(-1.0, read(LocalValue.of(Layout.KIND_TRUE, ""), row -> row.number("field", -1)));
    }

    @Test
    void membersAreRead() {
        String members = "\"a\":1, \"b c\" : \"x\\ny\","
                + "\"\\u0064\":{\"in\":[\"]}\",{}]},\"e\":[1,{\"a\":2}] ,\"f\":null,\"é\":1.5,\"g\":true";
        LocalRequest request = new LocalRequest(2).set(0, "", LocalValue.of(Layout.KIND_MEMBERS, members)).set(0, "own", 1L);
        List<Object> seen = new ArrayList<>();
        run(request, row -> {
            seen.add(Arrays.asList(row.get("a"), row.get("b c"), row.get("d"), row.get("e"), row.get("f"), row.get("é"), row.get("g")));
            seen.add(row.has("f") + " " + row.has("in") + " " + row.integer("a", 7) + " " + row.text("a") + " " + row.number("é", 0));
            seen.add(row.names());
        });
        List<Object> expected =
                Arrays.asList(1L, "x\ny", Map.of("in", List.of("]}", Map.of())), List.of(1L, Map.of("a", 2L)), null, 1.5, true);
        assertEquals(expected, seen.get(0));
        assertEquals("true false 1 1 1.5", seen.get(1));
        assertEquals(List.of("a", "b c", "d", "e", "f", "é", "g", "own"), seen.get(2));
        assertEquals("false false 7 null 0.0", seen.get(4));
        assertEquals(List.of(), seen.get(5));
    }

    @Test
    void membersAreSetAndRemovedAsColumns() {
        LocalRequest request = new LocalRequest(1).set(0, "", LocalValue.of(Layout.KIND_MEMBERS, "\"a\":1,\"b\":2"));
        List<Object> seen = new ArrayList<>();
        LocalAnswer answer = run(request, row -> {
            row.set("a", "new");
            row.remove("b");
            row.remove("c");
            seen.addAll(Arrays.asList(row.get("a"), row.get("b"), row.has("b"), row.names()));
        });
        assertEquals(Arrays.asList("new", null, false, List.of("a")), seen);
        assertEquals(List.of("a", "b"), List.copyOf(answer.changed().keySet()));
        assertEquals(Layout.KIND_ABSENT, answer.changed().get("b")[0].kind());
    }

    private enum Level {
        INFO {
            @Override
            public String toString() {
                return "other";
            }
        }
    }

    private static Map<String, Object> settable() {
        Instant time = Instant.parse("2026-01-02T03:04:05.12Z");
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("7 text", "text");
        values.put("7 built", new StringBuilder("built"));
        values.put("7 c", 'c');
        values.put("7 INFO", Level.INFO);
        values.put("7 123e4567-e89b-12d3-a456-426614174000", UUID.fromString("123e4567-e89b-12d3-a456-426614174000"));
        values.put("7 a?b", "a\uD83Db");
        values.put("7 " + "é😀".repeat(40), "é😀".repeat(40));
        values.put("1 ", null);
        values.put("3 ", true);
        values.put("2 ", Boolean.FALSE);
        values.put("4 -1", (byte) -1);
        values.put("4 0", (short) 0);
        values.put("4 10", 10);
        values.put("4 -9223372036854775808", Long.MIN_VALUE);
        values.put("4 9223372036854775807", Long.MAX_VALUE);
        values.put("4 1000000000000000000", 1000000000000000000L);
        values.put("4 12345678901234567890", new BigInteger("12345678901234567890"));
        values.put("5 1.1", 1.1f);
        values.put("5 1.0E10", 1e10);
        values.put("5 -0.0", -0.0);
        values.put("5 12.0", new BigDecimal("12"));
        values.put("5 1E+3", new BigDecimal("1E3"));
        values.put("6 2026-01-02T03:04:05.120000000Z", time);
        values.put("6 2026-01-02T03:04:05.120000000Z ", Date.from(time));
        values.put("6 2026-01-02T03:04:05.120000000Z  ", ZonedDateTime.ofInstant(time, ZoneId.of("Europe/Berlin")));
        values.put("9 {\"b\":[1,null,\"x\"],\"c\":{\"1\":2.5}}",
                new TreeMap<>(Map.of("b", Arrays.asList(1, null, 'x'), "c", Map.of(1, 2.5f))));
        values.put("9 {\"?\":\"2026-01-02T03:04:05.120Z\"}", Map.of("\uDE00", time));
        values.put("10 [1,2]", new int[] {1, 2});
        values.put("10 [\"a\",[true]]", new Object[] {"a", List.of(true)});
        return values;
    }

    @Test
    void everyTypeIsSet() {
        Map<String, Object> values = settable();
        LocalAnswer answer = run(new LocalRequest(1), row -> values.forEach(row::set));
        assertEquals(List.of(), answer.failed());
        values.keySet().forEach(name -> {
            LocalValue set = answer.changed().get(name)[0];
            assertEquals(name.stripTrailing(), (set.kind() + " " + set.text()).stripTrailing());
        });
    }

    @Test
    void whatIsSetCanBeRead() {
        List<Object> seen = new ArrayList<>();
        LocalAnswer answer = run(new LocalRequest(1).set(0, "a", 1L), row -> {
            for (Object value : Arrays.asList("text", 7, 1.5f, null, Map.of("k", new int[] {3}), Instant.EPOCH, 'c', true)) {
                row.set("a", value);
                seen.add(row.get("a"));
            }
            row.set("a", 5);
            seen.add(row.integer("a", 0) + row.text("a"));
            row.remove("a");
            seen.add(row.has("a"));
        });
        assertEquals(Arrays.asList("text", 7L, 1.5, null, Map.of("k", List.of(3L)), Instant.EPOCH, "c", true, "55", false), seen);
        assertEquals(Layout.KIND_ABSENT, answer.changed().get("a")[0].kind());
    }

    private String failure(Rule rule) {
        LocalAnswer answer = run(new LocalRequest(1).set(0, "message", "m").set(0, "a", 1L), row -> {
            row.set("before", 1);
            rule.process(row);
        });
        assertEquals(Map.of(), answer.changed());
        assertEquals(1, answer.failed().size());
        LocalAnswer.Failed failed = answer.failed().get(0);
        return failed.reason() + " " + failed.message();
    }

    @Test
    void otherTypesAndNamesAreRefused() {
        String wrong = Layout.REASON_WRONG_TYPE + " java.lang.IllegalArgumentException: ";
        assertEquals(wrong + "a field cannot contain a value of type java.lang.Object", failure(row -> row.set("a", new Object())));
        assertEquals(wrong + "a field cannot contain a value of type java.lang.Thread",
                failure(row -> row.set("a", List.of(new Thread()))));
        assertEquals(wrong + "NaN is not a valid number for a field", failure(row -> row.set("a", Double.NaN)));
        assertEquals(wrong + "Infinity is not a valid number for a field",
                failure(row -> row.set("a", (Object) Float.POSITIVE_INFINITY)));
        assertEquals(wrong + "'meta.host' is not a valid field name", failure(row -> row.set("meta.host", "x")));
        assertEquals(wrong + "'' is not a valid field name", failure(row -> row.set("", 1)));
        assertEquals(wrong + "message cannot be null", failure(row -> row.set("message", null)));
        assertEquals(wrong + "message cannot be removed", failure(row -> row.remove("message")));
        assertEquals(wrong + "timestamp must be a time from 1678 to 2261, not 5", failure(row -> row.set("timestamp", 5)));
        assertTrue(failure(row -> row.set("a", Instant.MAX)).endsWith(" is not in the years 0000 to 9999"));
        List<Object> endless = new ArrayList<>();
        endless.add(endless);
        assertTrue(failure(row -> row.set("a", endless)).startsWith(wrong + "the value is nested too deeply"));
    }

    @Test
    void theMessageTakesAnyValueAsText() {
        List<Object> seen = new ArrayList<>();
        LocalAnswer answer = run(new LocalRequest(3).set(0, "message", "a").set(1, "message", 17L), row -> {
            seen.add(row.message());
            row.set("message", row.message().isEmpty() ? (Object) true : row.message().length());
            seen.add(row.get("message"));
        });
        assertEquals(List.of("a", "1", "17", "2", "", "true"), seen);
        assertEquals(Layout.KIND_TEXT, answer.changed().get("message")[2].kind());
    }

    @Test
    void timesOfRowsAreReadAndSet() {
        LocalRequest request = new LocalRequest(3).readNs(5).times(1_000_000_001L, Layout.TIME_UNKNOWN, -1)
                .set(0, "timestamp", "hidden");
        List<Object> seen = new ArrayList<>();
        LocalAnswer answer = run(request, row -> {
            seen.add(row.timestamp());
            row.set("timestamp", row.timestamp().plusSeconds(1));
            seen.add(row.get("timestamp"));
            seen.addAll(row.names());
        });
        Instant first = Instant.ofEpochSecond(1, 1);
        assertEquals(List.of(first, first.plusSeconds(1)), seen.subList(0, 2));
        assertEquals(Instant.ofEpochSecond(0, 5), seen.get(2));
        assertEquals(Instant.ofEpochSecond(-1, 999_999_999), seen.get(4));
        assertEquals("1970-01-01T00:00:02.000000001Z", answer.changed().get("timestamp")[0].text());
        assertEquals(6, seen.size());
        run(new LocalRequest(1).readNs(7), row -> assertEquals(Instant.ofEpochSecond(0, 7), row.timestamp()));
    }

    @Test
    void attributesAreReadPerSegment() {
        LocalRequest request = new LocalRequest(5).set(3, "env", "own")
                .segment(0, 2, Map.of("env", "a", "meta.host", "h1"))
                .segment(2, 2, Map.of("env", "12"));
        List<Object> seen = new ArrayList<>();
        LocalAnswer answer = run(request, row -> seen.add(row.get("env") + "," + row.text("meta.host") + "," + row.has("env") + ","
                + row.integer("env", 0) + "," + row.number("env", 0) + row.names()));
        assertEquals(List.of(), answer.failed());
        assertEquals(List.of("a,h1,true,0,0.0[]", "a,h1,true,0,0.0[]", "12,null,true,12,12.0[]", "own,null,true,0,0.0[env]",
                "null,null,false,0,0.0[]"), seen);
        run(new LocalRequest(1).segment(0, 1, Map.of("env", "a")), row -> {
            row.set("env", "field");
            assertEquals("field", row.get("env"));
            row.remove("env");
            assertEquals("a", row.get("env"));
        });
    }

    @Test
    void partsOfTheMessageAreFound() {
        String message = "a=1;b=2;b=3;é=😀;b=";
        LocalRequest request = new LocalRequest(2).set(0, "message", message)
                .set(1, "message", LocalValue.of(Layout.KIND_ESCAPED, "a=\\u0031;b=2;b=3;é=😀;b="));
        LocalAnswer answer = run(request, row -> {
            assertEquals("1", row.between("a=", 0, ";"));
            assertEquals("3", row.between("b=", 1, ";"));
            assertEquals("2", row.between("b=", 0, ";"));
            assertEquals("", row.between("b=", 2, ";"));
            assertNull(row.between("b=", 3, ";"));
            assertNull(row.between("b=", 9, ";"));
            assertEquals("😀", row.between("é=", 0, ";"));
            assertEquals("2;b=3;é=😀;b=", row.between("b=", 0, ""));
            assertEquals("2;b=3;é=😀;b=", row.between("b=", 0, "missing"));
            assertEquals("2;b=3;é=😀;b=", row.between("b=", 0, null));
            row.set("message", "aaaaa");
            assertEquals("a", row.between("aa", 1, ""));
            assertNull(row.between("aa", 2, ""));
            assertNull(row.between("aaaaaaaaaaaaa", 0, ""));
        });
        assertEquals(List.of(), answer.failed());
    }
}
