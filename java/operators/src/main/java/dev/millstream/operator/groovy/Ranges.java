package dev.millstream.operator.groovy;

import org.codehaus.groovy.ast.ClassCodeExpressionTransformer;
import org.codehaus.groovy.ast.expr.BinaryExpression;
import org.codehaus.groovy.ast.expr.ClosureExpression;
import org.codehaus.groovy.ast.expr.ConstantExpression;
import org.codehaus.groovy.ast.expr.Expression;
import org.codehaus.groovy.ast.expr.NotExpression;
import org.codehaus.groovy.ast.expr.RangeExpression;
import org.codehaus.groovy.ast.stmt.CaseStatement;
import org.codehaus.groovy.control.SourceUnit;
import org.codehaus.groovy.syntax.Types;

/** Replaces ranges with {@link Within} if only the bounds of a range matter. */
final class Ranges extends ClassCodeExpressionTransformer {
    private final Compilation compilation;

    Ranges(Compilation compilation) {
        this.compilation = compilation;
    }

    /** Replaces the ranges in the script's class. */
    void replace() {
        visitClass(compilation.script());
    }

    @Override
    public void visitCaseStatement(CaseStatement statement) {
        if (statement.getExpression() instanceof RangeExpression range) {
            statement.setExpression(Calls.helper(Within.class, "range", range, range.getFrom(), range.getTo(),
                    constant(range.isExclusiveLeft()), constant(range.isExclusiveRight())));
        }
        super.visitCaseStatement(statement);
    }

    @Override
    public Expression transform(Expression expression) {
        if (expression instanceof ClosureExpression closure) {
            return Closures.transformed(closure, this);
        }
        if (expression instanceof BinaryExpression binary && binary.getRightExpression() instanceof RangeExpression range) {
            int operator = binary.getOperation().getType();
            if (operator == Types.KEYWORD_IN) {
                return within(binary, range);
            }
            if (operator == Types.COMPARE_NOT_IN) {
                NotExpression not = new NotExpression(within(binary, range));
                not.setSourcePosition(binary);
                return not;
            }
        }
        return super.transform(expression);
    }

    private Expression within(BinaryExpression binary, RangeExpression range) {
        return Calls.helper(Within.class, "within", binary, transform(binary.getLeftExpression()), transform(range.getFrom()),
                transform(range.getTo()), constant(range.isExclusiveLeft()), constant(range.isExclusiveRight()));
    }

    private static ConstantExpression constant(boolean value) {
        return new ConstantExpression(value, true);
    }

    @Override
    protected SourceUnit getSourceUnit() {
        return compilation.source;
    }
}
