package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.CodeVisitorSupport;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.MethodCallExpression;
import org.codehaus.groovy.ast.expr.PropertyExpression;

/** Finds {@code ?.} in an expression. */
final class SafeNavigation extends CodeVisitorSupport {
    private boolean isFound;

    private SafeNavigation() {}

    /** Returns whether the expression contains a safe navigation at any level. */
    static boolean isIn(Expression expression) {
        SafeNavigation search = new SafeNavigation();
        expression.visit(search);
        return search.isFound;
    }

    @Override
    public void visitMethodCallExpression(MethodCallExpression call) {
        isFound |= call.isSafe();
        super.visitMethodCallExpression(call);
    }

    @Override
    public void visitPropertyExpression(PropertyExpression property) {
        isFound |= property.isSafe();
        super.visitPropertyExpression(property);
    }
}
