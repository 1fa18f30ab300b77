package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.expr.AttributeExpression;
import org.codehaus.groovy.ast.expr.BinaryExpression;
import org.codehaus.groovy.ast.expr.ConstantExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.PropertyExpression;
import org.codehaus.groovy.ast.expr.VariableExpression;
import org.codehaus.groovy.syntax.Types;

/** Copies expressions that can be evaluated twice, so that {@code a.b += c} becomes {@code a.b = a.b + c}. */
final class Copies {
    private Copies() {}

    /** Returns a copy, or null if a second evaluation could have an effect. */
    static Expression of(Expression original) {
        Expression copy = copy(original);
        if (copy != null) {
            copy.setSourcePosition(original);
        }
        return copy;
    }

    private static Expression copy(Expression original) {
        if (original instanceof VariableExpression variable) {
            return variable(variable);
        }
        if (original instanceof ConstantExpression constant) {
            return new ConstantExpression(constant.getValue());
        }
        if (original instanceof AttributeExpression) {
            return null;
        }
        if (original instanceof PropertyExpression property) {
            return property(property);
        }
        if (original instanceof BinaryExpression binary && binary.getOperation().getType() == Types.LEFT_SQUARE_BRACKET) {
            Expression left = of(binary.getLeftExpression());
            Expression right = of(binary.getRightExpression());
            return left == null || right == null ? null : new BinaryExpression(left, binary.getOperation(), right, binary.isSafe());
        }
        return null;
    }

    private static Expression variable(VariableExpression original) {
        VariableExpression copy = new VariableExpression(original.getName(), original.getOriginType());
        copy.setAccessedVariable(original.getAccessedVariable());
        copy.setClosureSharedVariable(original.isClosureSharedVariable());
        return copy;
    }

    private static Expression property(PropertyExpression original) {
        Expression target = of(original.getObjectExpression());
        Expression name = of(original.getProperty());
        if (target == null || name == null || original.isSpreadSafe()) {
            return null;
        }
        PropertyExpression copy = new PropertyExpression(target, name, original.isSafe());
        copy.setImplicitThis(original.isImplicitThis());
        return copy;
    }
}
