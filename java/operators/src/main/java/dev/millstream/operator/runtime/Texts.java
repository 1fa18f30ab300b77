package dev.millstream.operator.runtime;

/** Searches in decoded text. */
final class Texts {
    private Texts() {}

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
