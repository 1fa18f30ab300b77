package dev.millstream.operator.runtime;

/** Searches decoded text, and converts field names. */
public final class Texts {
    private Texts() {}

    /** Returns a field name that a script has computed as a string; null stays null, and is not a name. */
    public static String name(Object name) {
        return name == null ? null : name.toString();
    }

    /** Returns a part of a text; see {@link dev.millstream.operator.Row#between}. */
    static String between(String text, String left, int index, String right) {
        int start = 0;
        for (int count = 0; count <= index; count++) {
            int found = text.indexOf(left, start);
            if (found < 0) {
                return null;
            }
            start = found + left.length();
        }
        int end = right == null || right.isEmpty() ? -1 : text.indexOf(right, start);
        return text.substring(start, end < 0 ? text.length() : end);
    }
}
