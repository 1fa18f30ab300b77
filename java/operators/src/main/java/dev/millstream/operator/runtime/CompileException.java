package dev.millstream.operator.runtime;

/** A fault in the source of a rule, or in a jar. */
public final class CompileException extends Exception {
    private static final long serialVersionUID = 1;

    private final String rule;
    private final int line;
    private final int column;

    /**
     * Creates the exception.
     *
     * @param message what is wrong, and what to write instead
     * @param rule the name of the rule, or null
     * @param line its line, counted from 1; 0 if unknown
     * @param column its column, counted from 1; 0 if unknown
     */
    public CompileException(String message, String rule, int line, int column) {
        super(message);
        this.rule = rule;
        this.line = line;
        this.column = column;
    }

    /** Returns the name of the rule; null if it is not about one. */
    public String rule() {
        return rule;
    }

    /** Returns the line, counted from 1; 0 if unknown. */
    public int line() {
        return line;
    }

    /** Returns the column, counted from 1; 0 if unknown. */
    public int column() {
        return column;
    }
}
