package dev.millstream.operator.groovy;

/** Ends a rule whose thread was interrupted because the rule took too long for a row. */
public final class RuleInterrupted extends Error {
    private static final long serialVersionUID = 1;

    RuleInterrupted() {
        super("the rule was interrupted because it took too long");
    }

    /**
     * Throws if the thread is interrupted. The thread remains interrupted, so that the next check ends a rule that catches the error. The
     * caller of the rule clears the interrupt.
     */
    public static void check() {
        if (Thread.currentThread().isInterrupted()) {
            throw new RuleInterrupted();
        }
    }
}
