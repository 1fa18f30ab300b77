package dev.millstream.operator.runtime;

/** Searches in decoded text, and names of fields. */
public final class Texts {
    private Texts() {}

    /** Returns the name that a script computed for a field, which may be no string; null remains, and is no name. */
    public static String name(Object name) {
        return name == null ? null : name.toString();
    }

    /** See {@link dev.millstream.operator.Row#between}. */
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
