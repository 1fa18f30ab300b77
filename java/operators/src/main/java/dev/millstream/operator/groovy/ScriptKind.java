package dev.millstream.operator.groovy;

/** What a script becomes. */
enum ScriptKind {
    /** A rule of an operator, which runs for each event: {@code row}. */
    RULE("rule", ScriptBase.class),
    /** The body of a collector, with {@code events}, {@code options}, {@code state} and {@code context}. */
    COLLECTOR("collector", CollectorScript.class);

    /** What messages call it. */
    final String title;
    /** The superclass of its class. */
    final Class<?> base;

    ScriptKind(String title, Class<?> base) {
        this.title = title;
        this.base = base;
    }
}
