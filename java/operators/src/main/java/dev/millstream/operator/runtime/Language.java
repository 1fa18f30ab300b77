package dev.millstream.operator.runtime;

/** A language of rules. */
public interface Language {
    /**
     * Compiles a rule, or takes what an earlier registration compiled; called on the control thread.
     *
     * @throws CompileException the source has a fault
     */
    CompiledRule compile(RuleSource source, OperatorSpec spec) throws CompileException;
}
