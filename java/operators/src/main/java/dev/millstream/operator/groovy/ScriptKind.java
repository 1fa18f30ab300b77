package dev.millstream.operator.groovy;

/** The kinds of scripts. */
enum ScriptKind {
    /** A rule of an operator, which runs for each event in {@code row}. */
    RULE("rule", ScriptBase.class),
    /** The body of a collector, with {@code events}, {@code options}, {@code state} and {@code context}. */
    COLLECTOR("collector", CollectorScript.class);

    /** Name of the kind in messages. */
    final String title;
    /** Superclass of the script's class. */
    final Class<?> base;

    ScriptKind(String title, Class<?> base) {
        this.title = title;
        this.base = base;
    }
}
