package dev.millstream.operator.groovy;

/** The keys of the marks that the type checker leaves on nodes for {@link RuleTransformer}. */
final class DynamicNodes {
    /** A property that is resolved when the rule runs. */
    static final String PROPERTY = "millstream.property";
    /** A binary operation whose method is that of {@link Operators} in the value. */
    static final String OPERATOR = "millstream.operator";
    /** A constructor that is chosen when the rule runs. */
    static final String CONSTRUCTOR = "millstream.constructor";
    /** An assignment or a return whose value is cast to the type in the value of the mark. */
    static final String CAST = "millstream.cast";

    private DynamicNodes() {}
}
