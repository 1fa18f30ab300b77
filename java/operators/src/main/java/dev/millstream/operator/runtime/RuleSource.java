package dev.millstream.operator.runtime;

/**
 * The source of a rule.
 *
 * @param name the name of its file, or {@code script}
 * @param text the source
 * @param compiled what an earlier registration of the source returned, so that it is not compiled again; null or garbage if there is none
 */
public record RuleSource(String name, String text, String compiled) {
    /** Creates a source that is to be compiled. */
    public RuleSource(String name, String text) {
        this(name, text, null);
    }
}
