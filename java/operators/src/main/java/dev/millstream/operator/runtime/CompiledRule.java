package dev.millstream.operator.runtime;

import java.util.List;

/** A rule, compiled once for all workers. */
public interface CompiledRule {
    /** Creates the rule for a worker. Called on the worker's thread. */
    Rule instance() throws Throwable;

    /** Returns the distinct field names in the source. */
    List<String> fields();

    /** Returns the number of calls that were removed because they only print, log or walk the stack. */
    int removedCalls();

    /** Returns the number of calls and accesses that are resolved at run time rather than at compile time. */
    int dynamicCalls();

    /**
     * Returns the compiled script, which registers the rule again without the compiler. Discards the script, because it would take memory
     * as long as the rule exists.
     *
     * @return null if the specification does not request the script, or if the language has no compiled scripts
     */
    default String takeCompiled() {
        return null;
    }

    /**
     * Returns the source line in which an exception was thrown.
     *
     * @return 0 if no stack frame belongs to the rule
     */
    int line(Throwable thrown);
}
