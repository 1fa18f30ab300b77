package dev.millstream.operator.groovy;

import java.util.regex.Pattern;

/** Methods that compiled rules call with a regular expression that is compiled once. */
public final class Patterns {
    private Patterns() {}

    /** Splits a text like {@link String#split(String, int)}. */
    public static String[] split(Object text, Pattern pattern, int limit) {
        if (text instanceof CharSequence characters) {
            return pattern.split(characters, limit);
        }
        if (text == null) {
            throw new NullPointerException("Cannot invoke method split() on null object");
        }
        throw new IllegalArgumentException("split: expected text, found " + text.getClass().getName());
    }
}
