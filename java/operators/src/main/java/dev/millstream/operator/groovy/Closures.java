package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.ClassCodeExpressionTransformer;
import org.codehaus.groovy.ast.Parameter;
import org.codehaus.groovy.ast.expr.ClosureExpression;

/** Lets a transformer into a closure, which Groovy leaves out. */
final class Closures {
    private Closures() {}

    /** Transforms the code of a closure and the defaults of its parameters. Returns the closure. */
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
