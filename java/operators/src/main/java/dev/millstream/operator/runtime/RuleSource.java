package dev.millstream.operator.runtime;

/**
 * The source of a rule.
 *
 * @param name the name of its file, or {@code script}
 * @param text the source
 */
public record RuleSource(String name, String text) {}
