package dev.millstream.operator.runtime;

import dev.millstream.collector.Collector;

/**
 * A collector script, compiled once.
 *
 * @param type a class with a public constructor without parameters
 * @param compiled the compiled script, which registers the collector again without the compiler; null if the specification does not
 *     request it
 */
public record CompiledCollector(Class<? extends Collector> type, String compiled) {}
