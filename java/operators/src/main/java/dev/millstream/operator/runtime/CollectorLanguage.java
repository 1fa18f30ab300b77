package dev.millstream.operator.runtime;

import dev.millstream.collector.Collector;

/** A language of collectors. */
public interface CollectorLanguage {
    /**
     * Compiles a collector; called on the control thread.
     *
     * @param jars finds the classes of its jars; null if it has none
     * @return a class with a public constructor without parameters
     * @throws CompileException the source has a fault
     */
    Class<? extends Collector> compileCollector(RuleSource source, OperatorSpec spec, ClassLoader jars) throws CompileException;
}
