package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.ClassCodeExpressionTransformer;
import org.codehaus.groovy.ast.Parameter;
import org.codehaus.groovy.ast.expr.ClosureExpression;

/** Applies a transformer to a closure, because Groovy's transformers skip closures. */
final class Closures {
    private Closures() {}

    /** Transforms a closure's code and parameter defaults. Returns the closure. */
    static ClosureExpression transformed(ClosureExpression closure, ClassCodeExpressionTransformer transformer) {
        if (closure.getParameters() != null) {
            for (Parameter parameter : closure.getParameters()) {
                if (parameter.hasInitialExpression()) {
                    parameter.setInitialExpression(transformer.transform(parameter.getInitialExpression()));
                }
            }
        }
        closure.getCode().visit(transformer);
        return closure;
    }
}
