package dev.millstream.operator.groovy;

/** What a script becomes. */
enum ScriptKind {
    /** A rule of an operator, which runs for each event: {@code row}. */
    RULE(ScriptBase.class),
    /** The body of a collector, with {@code events}, {@code options}, {@code state} and {@code context}. */
    COLLECTOR(CollectorScript.class);

    /** The superclass of its class. */
    final Class<?> base;

    ScriptKind(Class<?> base) {
        this.base = base;
    }
}
