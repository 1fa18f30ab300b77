package dev.millstream.operator.runtime;

import dev.millstream.collector.Collector;

/**
 * The script of a collector, compiled once.
 *
 * @param type a class with a public constructor without parameters
 * @param compiled what registers the collector again without its compiler; null if the specification does not ask for it
 */
public record CompiledCollector(Class<? extends Collector> type, String compiled) {}
