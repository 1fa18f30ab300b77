package dev.millstream.operator.runtime;

/** A language of collectors. */
public interface CollectorLanguage {
    /**
     * Compiles a collector, or takes what an earlier registration compiled; called on the control thread.
     *
     * @param jars finds the classes of its jars; null if it has none
     * @throws CompileException the source has a fault
     */
    CompiledCollector compileCollector(RuleSource source, CollectorSpec spec, ClassLoader jars) throws CompileException;
}
