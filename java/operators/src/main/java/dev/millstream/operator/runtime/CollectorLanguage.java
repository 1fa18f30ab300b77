package dev.millstream.operator.runtime;

/** A language of collectors. */
public interface CollectorLanguage {
    /**
     * Compiles a collector, or loads the result of an earlier compilation. Called on the control thread.
     *
     * @param jars finds the classes in the collector's jars; null if there are no jars
     * @throws CompileException if the source is invalid
     */
    CompiledCollector compileCollector(RuleSource source, CollectorSpec spec, ClassLoader jars) throws CompileException;
}
