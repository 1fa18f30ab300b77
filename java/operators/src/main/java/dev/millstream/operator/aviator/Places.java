package dev.millstream.operator.aviator;

/** Converts indexes in a text to lines and columns. */
final class Places {
    private Places() {}

    /** Returns the line, starting at 1. */
    static int line(String text, int index) {
        return (int) text.substring(0, index).chars().filter(character -> character == '\n').count() + 1;
    }

    /** Returns the column, starting at 1. */
    static int column(String text, int index) {
        return index - text.lastIndexOf('\n', index - 1);
    }
}
