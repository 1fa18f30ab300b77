package dev.millstream.operator.runtime;

import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZonedDateTime;
import java.util.AbstractList;
import java.util.Collection;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** Converts values that a rule sets to a few types. */
final class Canonical {
    private Canonical() {}

    /**
     * Returns a value as null, String, Boolean, Long, BigInteger, Instant, Map, Collection, or {@link Decimal}.
     *
     * @throws WrongTypeException if no field can have the value
     */
    static Object of(Object value) {
        if (value == null || value instanceof String || value instanceof Long || value instanceof Boolean || value instanceof Instant) {
            return value;
        }
        if (value instanceof Number number) {
            return number(number);
        }
        if (value instanceof Map || value instanceof Collection) {
            return value;
        }
        if (value instanceof CharSequence || value instanceof Character || value instanceof UUID) {
            return value.toString();
        }
        if (value instanceof Enum<?> constant) {
            return constant.name();
        }
        return timeOrArray(value);
    }

    /** Like {@link #of}, but returns null for a number that is not finite. */
    static Object finite(Object value) {
        boolean isFloat = value instanceof Double || value instanceof Float;
        return isFloat && !Double.isFinite(((Number) value).doubleValue()) ? null : of(value);
    }

    private static Object number(Number value) {
        if (value instanceof Integer || value instanceof Short || value instanceof Byte) {
            return value.longValue();
        }
        if (value instanceof BigInteger) {
            return value;
        }
        if (value instanceof Double || value instanceof Float) {
            if (!Double.isFinite(value.doubleValue())) {
                throw new WrongTypeException(value + " is not a valid number for a field");
            }
            return new Decimal(value.toString());
        }
        if (value instanceof BigDecimal) {
            String digits = value.toString();
            boolean isFloat = digits.indexOf('.') >= 0 || digits.indexOf('E') >= 0;
            return new Decimal(isFloat ? digits : digits + ".0");
        }
        throw wrong(value);
    }

    private static Object timeOrArray(Object value) {
        if (value instanceof OffsetDateTime time) {
            return time.toInstant();
        }
        if (value instanceof ZonedDateTime time) {
            return time.toInstant();
        }
        if (value instanceof Date time) {
            return Instant.ofEpochMilli(time.getTime());
        }
        if (value.getClass().isArray()) {
            return list(value);
        }
        throw wrong(value);
    }

    private static List<Object> list(Object array) {
        int length = Array.getLength(array);
        return new AbstractList<>() {
            @Override
            public Object get(int index) {
                return Array.get(array, index);
            }

            @Override
            public int size() {
                return length;
            }
        };
    }

    private static WrongTypeException wrong(Object value) {
        return new WrongTypeException("a field cannot contain a value of type " + value.getClass().getName());
    }

    /** Returns a text in which {@code ?} replaces lone surrogates. */
    static String wellFormed(String text) {
        for (int at = 0; at < text.length(); at++) {
            if (Character.isSurrogate(text.charAt(at))) {
                return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
            }
        }
        return text;
    }

    /**
     * A finite number with a fraction or an exponent.
     *
     * @param digits the number as JSON
     */
    record Decimal(String digits) {
        @Override
        public String toString() {
            return digits;
        }
    }
}
