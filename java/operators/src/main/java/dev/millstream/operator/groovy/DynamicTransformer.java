package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.ClassCodeExpressionTransformer;
import org.codehaus.groovy.ast.ClassNode;
import org.codehaus.groovy.ast.expr.BinaryExpression;
import org.codehaus.groovy.ast.expr.ClassExpression;
import org.codehaus.groovy.ast.expr.ClosureExpression;
import org.codehaus.groovy.ast.expr.DeclarationExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.PropertyExpression;
import org.codehaus.groovy.ast.expr.VariableExpression;
import org.codehaus.groovy.control.SourceUnit;
import org.codehaus.groovy.syntax.Types;

/** Routes the property and element accesses of a rule without types through {@link Access} and {@link Operators}. */
final class DynamicTransformer extends ClassCodeExpressionTransformer {
    private final Compilation compilation;

    DynamicTransformer(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Replaces the accesses in all classes of the source. */
    void replace() {
        for (ClassNode node : compilation.module().getClasses()) {
            visitClass(node);
        }
    }

    @Override
    public Expression transform(Expression expression) {
        if (expression instanceof ClosureExpression closure) {
            return Closures.transformed(closure, this);
        }
        if (expression instanceof DeclarationExpression) {
            return super.transform(expression);
        }
        if (expression instanceof BinaryExpression binary) {
            return binary(binary);
        }
        if (expression instanceof PropertyExpression property && ofObject(property)) {
            String method = property.isSpreadSafe() ? "spread" : property.isSafe() ? "getSafe" : "get";
            return dynamic(Access.class, method, property, property.getObjectExpression(), property.getProperty());
        }
        return super.transform(expression);
    }

    private Expression binary(BinaryExpression binary) {
        int operator = binary.getOperation().getType();
        Expression left = binary.getLeftExpression();
        if (operator == Types.EQUAL && left instanceof PropertyExpression property && ofObject(property)) {
            return dynamic(Access.class, "set", binary, property.getObjectExpression(), property.getProperty(),
                    binary.getRightExpression());
        }
        if (operator == Types.EQUAL && left instanceof BinaryExpression element && isElement(element)) {
            return dynamic(Operators.class, "putAt", binary, element.getLeftExpression(), element.getRightExpression(),
                    binary.getRightExpression());
        }
        if (isElement(binary)) {
            return dynamic(Operators.class, binary.isSafe() ? "getAtSafe" : "getAt", binary, left, binary.getRightExpression());
        }
        return super.transform(binary);
    }

    private static boolean isElement(BinaryExpression binary) {
        return binary.getOperation().getType() == Types.LEFT_SQUARE_BRACKET;
    }

    private static boolean ofObject(PropertyExpression property) {
        Expression object = property.getObjectExpression();
        boolean own = object instanceof VariableExpression variable && (variable.isThisExpression() || variable.isSuperExpression());
        return !own && !(object instanceof ClassExpression) && !Calls.generated(property);
    }

    private Expression dynamic(Class<?> owner, String method, Expression at, Expression... arguments) {
        compilation.dynamicCalls++;
        Expression[] transformed = new Expression[arguments.length];
        for (int index = 0; index < arguments.length; index++) {
            transformed[index] = transform(arguments[index]);
        }
        return Calls.resolved(owner, method, at, transformed);
    }

    @Override
    protected SourceUnit getSourceUnit() {
        return compilation.source;
    }
}
