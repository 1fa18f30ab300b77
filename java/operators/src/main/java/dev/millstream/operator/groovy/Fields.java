package dev.millstream.operator.groovy;

import dev.millstream.operator.Row;
import dev.millstream.operator.runtime.Texts;
import java.math.BigInteger;
import java.time.Instant;
import java.util.Collection;
import java.util.Map;

/** Methods that compiled rules call to read and set fields. Reading a declared field throws if the value has another type. */
public final class Fields {
    private static final int SHOWN_LENGTH = 40;

    private Fields() {}

    /** Reads a field that is declared as {@code text}. */
    public static String text(Row row, String name) {
        Object value = row.get(name);
        if (value == null || value instanceof String) {
            return (String) value;
        }
        throw mismatch(name, "text", value);
    }

    /** Reads a field that is declared as {@code int}. */
    public static Long integer(Row row, String name) {
        Object value = row.get(name);
        if (value == null || value instanceof Long) {
            return (Long) value;
        }
        if (value instanceof Integer || value instanceof Short || value instanceof Byte) {
            return ((Number) value).longValue();
        }
        if (value instanceof BigInteger) {
            throw new IllegalArgumentException("field " + name + ": " + cut(value)
                    + " does not fit in a 64-bit int; remove the declared type to read the value as a BigInteger");
        }
        throw mismatch(name, "int", value);
    }

    /** Reads a field that is declared as {@code float}. Integers are converted. */
    public static Double number(Row row, String name) {
        Object value = row.get(name);
        if (value == null || value instanceof Double) {
            return (Double) value;
        }
        if (value instanceof Number number) {
            return number.doubleValue();
        }
        throw mismatch(name, "float", value);
    }

    /** Reads a field that is declared as {@code bool}. */
    public static Boolean bool(Row row, String name) {
        Object value = row.get(name);
        if (value == null || value instanceof Boolean) {
            return (Boolean) value;
        }
        throw mismatch(name, "bool", value);
    }

    /** Reads a field that is declared as {@code time}. */
    public static Instant time(Row row, String name) {
        Object value = row.get(name);
        if (value == null || value instanceof Instant) {
            return (Instant) value;
        }
        throw mismatch(name, "time", value);
    }

    /** Reads a field whose name is computed. Returns null if the name is null. */
    public static Object get(Row row, Object name) {
        return name == null ? null : row.get(name.toString());
    }

    /** Sets a field. Returns the value, which is the value of the assignment. */
    public static <T> T set(Row row, Object name, T value) {
        row.set(Texts.name(name), value);
        return value;
    }

    /** Like {@link #set(Row, Object, Object)}, for rules without types, where Groovy would convert a decimal to a double. */
    public static Object assign(Row row, Object name, Object value) {
        row.set(Texts.name(name), value);
        return value;
    }

    /** Sets a field to an integer. */
    public static long set(Row row, String name, long value) {
        row.set(name, value);
        return value;
    }

    /** Sets a field to an integer. */
    public static int set(Row row, String name, int value) {
        row.set(name, (long) value);
        return value;
    }

    /** Sets a field to a number. */
    public static double set(Row row, String name, double value) {
        row.set(name, value);
        return value;
    }

    /** Sets a field to a boolean. */
    public static boolean set(Row row, String name, boolean value) {
        row.set(name, value);
        return value;
    }

    /** Returns the first value after the second was computed, because {@code row.n++} reads the field before it sets the field. */
    public static <T> T first(T before, Object after) {
        return before;
    }

    private static IllegalArgumentException mismatch(String name, String expected, Object value) {
        return new IllegalArgumentException("field " + name + ": expected " + expected + ", found " + shown(value));
    }

    /** Formats the type and the value for an error message. */
    private static String shown(Object value) {
        String cut = cut(value);
        return value instanceof String ? "text \"" + cut + '"' : kind(value) + ' ' + cut;
    }

    private static String cut(Object value) {
        String text = value.toString();
        return text.length() > SHOWN_LENGTH ? text.substring(0, SHOWN_LENGTH) + "..." : text;
    }

    private static String kind(Object value) {
        if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof BigInteger) {
            return "int";
        }
        if (value instanceof Number) {
            return "float";
        }
        if (value instanceof Boolean) {
            return "bool";
        }
        if (value instanceof Instant) {
            return "time";
        }
        if (value instanceof Map) {
            return "object";
        }
        return value instanceof Collection ? "array" : value.getClass().getName();
    }
}
