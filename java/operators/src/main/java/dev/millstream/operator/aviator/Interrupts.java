package dev.millstream.operator.aviator;

/** Ends a rule whose thread was interrupted because the rule took too long for a row. */
final class Interrupts {
    private Interrupts() {}

    /** Throws if the thread is interrupted. The thread remains interrupted. */
    static void check() {
        if (Thread.currentThread().isInterrupted()) {
            throw new IllegalStateException("the rule was interrupted because it took too long");
        }
    }
}
