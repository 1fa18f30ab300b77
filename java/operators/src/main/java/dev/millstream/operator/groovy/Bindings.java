package dev.millstream.operator.groovy;

import java.util.Map;
import org.codehaus.groovy.ast.ClassCodeExpressionTransformer;
import org.codehaus.groovy.ast.DynamicVariable;
import org.codehaus.groovy.ast.expr.ClosureExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.VariableExpression;
import org.codehaus.groovy.control.SourceUnit;

/**
 * Replaces a collector's variables, such as {@code events}, with calls of {@link CollectorScript}, so that the variables' types are known.
 */
final class Bindings extends ClassCodeExpressionTransformer {
    private static final Map<String, String> METHODS = Map.of(
            "events", "currentEvents", "context", "currentContext", "options", "currentOptions", "state", "currentState");

    private final Compilation compilation;

    Bindings(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Replaces the variables in the script's class. */
    void replace() {
        visitClass(compilation.script());
    }

    @Override
    public Expression transform(Expression expression) {
        if (expression instanceof ClosureExpression closure) {
            return Closures.transformed(closure, this);
        }
        if (expression instanceof VariableExpression variable && variable.getAccessedVariable() instanceof DynamicVariable) {
            String method = METHODS.get(variable.getName());
            return method == null ? expression : Calls.ofScript(CollectorScript.class, method, expression);
        }
        return super.transform(expression);
    }

    @Override
    protected SourceUnit getSourceUnit() {
        return compilation.source;
    }
}
