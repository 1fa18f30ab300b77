package dev.millstream.operator.runtime;

/** A language of rules. */
public interface Language {
    /**
     * Compiles a rule, or loads the result of an earlier compilation. Called on the control thread.
     *
     * @throws CompileException if the source is invalid
     */
    CompiledRule compile(RuleSource source, OperatorSpec spec) throws CompileException;
}
