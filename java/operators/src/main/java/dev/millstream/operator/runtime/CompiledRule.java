package dev.millstream.operator.runtime;

import java.util.List;

/** A rule, compiled once for all workers. */
public interface CompiledRule {
    /** Creates the rule for a worker; called on the thread of the worker. */
    Rule instance() throws Throwable;

    /** Returns the names of fields that appear in the source, each once. */
    List<String> fields();

    /** Returns the number of calls that were removed because they only print, log or walk the stack. */
    int removedCalls();

    /** Returns how many calls and accesses are resolved when they run instead of when the rule is compiled. */
    int dynamicCalls();

    /**
     * Returns what registers the rule again without its compiler, and forgets it, since it would take memory as long as the rule exists.
     *
     * @return null if the specification does not ask for it, or the language has none
     */
    default String takeCompiled() {
        return null;
    }

    /**
     * Returns the line of the source in which an exception was thrown.
     *
     * @return 0 if no frame of its stack belongs to the rule
     */
    int line(Throwable thrown);
}
