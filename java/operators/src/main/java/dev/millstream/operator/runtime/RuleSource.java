package dev.millstream.operator.runtime;

/**
 * The source of a rule.
 *
 * @param name the file name, or {@code script}
 * @param text the source
 * @param compiled the compiled script from an earlier registration, so that the source is not recompiled; null or garbage if there is none
 */
public record RuleSource(String name, String text, String compiled) {
    /** Creates a source that must be compiled. */
    public RuleSource(String name, String text) {
        this(name, text, null);
    }
}
