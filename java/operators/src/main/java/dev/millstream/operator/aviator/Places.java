package dev.millstream.operator.aviator;

/** Lines and columns of indexes in a text. */
final class Places {
    private Places() {}

    /** Returns the line, counted from 1. */
    static int line(String text, int index) {
        return (int) text.substring(0, index).chars().filter(character -> character == '\n').count() + 1;
    }

    /** Returns the column, counted from 1. */
    static int column(String text, int index) {
        return index - text.lastIndexOf('\n', index - 1);
    }
}
