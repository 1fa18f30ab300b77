package dev.millstream.operator.runtime;

/** An error in the source of a rule, or in a jar. */
public final class CompileException extends Exception {
    private static final long serialVersionUID = 1;

    private final String rule;
    private final int line;
    private final int column;

    /**
     * Creates the exception.
     *
     * @param message the error and the fix
     * @param rule the rule name, or null
     * @param line the line in the rule, starting at 1; 0 if unknown
     * @param column the column in the rule, starting at 1; 0 if unknown
     */
    public CompileException(String message, String rule, int line, int column) {
        super(message);
        this.rule = rule;
        this.line = line;
        this.column = column;
    }

    /** Returns the rule name, or null if the error is not about a rule. */
    public String rule() {
        return rule;
    }

    /** Returns the line, starting at 1; 0 if unknown. */
    public int line() {
        return line;
    }

    /** Returns the column, starting at 1; 0 if unknown. */
    public int column() {
        return column;
    }
}
