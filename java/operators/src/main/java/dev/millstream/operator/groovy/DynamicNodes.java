package dev.millstream.operator.groovy;

/** Keys of the marks that the type checker leaves on nodes for {@link RuleTransformer}. */
final class DynamicNodes {
    /** A property that is resolved at run time. */
    static final String PROPERTY = "millstream.property";
    /** A binary operation that a method of {@link Operators} computes. The mark's value is the method name. */
    static final String OPERATOR = "millstream.operator";
    /** A constructor that is chosen at run time. */
    static final String CONSTRUCTOR = "millstream.constructor";
    /** An assignment or a return whose value is cast. The mark's value is the target type. */
    static final String CAST = "millstream.cast";

    private DynamicNodes() {}
}
