package dev.millstream.operator.groovy;

import org.codehaus.groovy.runtime.ScriptBytecodeAdapter;

/**
 * A range of numbers in {@code case 1..9} or {@code x in 1..9}. Groovy's own integer range does not contain long values, but integer fields
 * are long values.
 */
public final class Within {
    private final Object from;
    private final Object to;
    private final boolean withoutFrom;
    private final boolean withoutTo;

    private Within(Object from, Object to, boolean withoutFrom, boolean withoutTo) {
        this.from = from;
        this.to = to;
        this.withoutFrom = withoutFrom;
        this.withoutTo = withoutTo;
    }

    /** Returns the range for a case label. */
    public static Object range(Object from, Object to, boolean withoutFrom, boolean withoutTo) {
        return new Within(from, to, withoutFrom, withoutTo);
    }

    /** Returns whether a value is in a range. */
    public static boolean within(Object value, Object from, Object to, boolean withoutFrom, boolean withoutTo) throws Throwable {
        if (value instanceof Long && from instanceof Integer low && to instanceof Integer high) {
            long number = (Long) value;
            if (number != (int) number) {
                return false;
            }
            return ScriptBytecodeAdapter.createRange(low, high, withoutFrom, withoutTo).contains((int) number);
        }
        return ScriptBytecodeAdapter.isCase(value, ScriptBytecodeAdapter.createRange(from, to, withoutFrom, withoutTo));
    }

    /** Returns whether the value is in this range. Groovy calls this method for a case. */
    public boolean isCase(Object value) throws Throwable {
        return within(value, from, to, withoutFrom, withoutTo);
    }
}
