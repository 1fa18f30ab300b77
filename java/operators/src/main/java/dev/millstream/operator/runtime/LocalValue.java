package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;

/**
 * A value of a {@link LocalRequest} or {@link LocalAnswer}.
 *
 * @param kind one of KIND
 * @param bytes the value's bytes
 */
public record LocalValue(int kind, byte[] bytes) {
    /** Returns a value for a request. */
    public static LocalValue of(long kind, String bytes) {
        return of(kind, bytes.getBytes(StandardCharsets.UTF_8));
    }

    /** Returns a value for a request. */
    public static LocalValue of(long kind, byte[] bytes) {
        return new LocalValue((int) kind, bytes);
    }

    /** Returns the value for an object that a field can have. */
    public static LocalValue of(Object value) {
        if (value instanceof LocalValue known) {
            return known;
        }
        Object plain = Canonical.of(value);
        if (plain == null) {
            return of(Layout.KIND_NULL, "");
        }
        if (plain instanceof Boolean flag) {
            return of(flag ? Layout.KIND_TRUE : Layout.KIND_FALSE, "");
        }
        if (plain instanceof String text) {
            return of(Layout.KIND_TEXT, text);
        }
        if (plain instanceof java.time.Instant || plain instanceof Canonical.Decimal) {
            return of(plain instanceof Canonical.Decimal ? Layout.KIND_FLOAT : Layout.KIND_TIME, plain.toString());
        }
        if (plain instanceof Number) {
            return of(Layout.KIND_INT, plain.toString());
        }
        return of(plain instanceof java.util.Map ? Layout.KIND_OBJECT : Layout.KIND_ARRAY, Json.bytes(plain));
    }

    /** Returns the bytes as text. */
    public String text() {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** Returns the object that {@link dev.millstream.operator.Row#get} returns for this value. */
    public Object value() {
        return switch (kind) {
            case (int) Layout.KIND_FALSE -> false;
            case (int) Layout.KIND_TRUE -> true;
            case (int) Layout.KIND_FLOAT -> (Object) Double.parseDouble(text());
            case (int) Layout.KIND_TIME -> Times.parse(text());
            case (int) Layout.KIND_TEXT -> text();
            case (int) Layout.KIND_ESCAPED -> Decoder.unescape(text());
            case (int) Layout.KIND_INT, (int) Layout.KIND_OBJECT, (int) Layout.KIND_ARRAY -> Json.parse(text());
            default -> null;
        };
    }

    /** Returns whether the value is absent, because the field was removed. */
    public boolean isAbsent() {
        return kind == Layout.KIND_ABSENT;
    }
}
