package dev.millstream.operator.aviator;

import com.googlecode.aviator.Expression;
import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.Rule;
import java.util.List;

/** A compiled expression. */
final class CompiledExpression implements CompiledRule {
    final Expression expression;
    private final String output;
    private final List<String> fields;
    private final int removedCalls;

    CompiledExpression(Expression expression, String output, List<String> fields, int removedCalls) {
        this.expression = expression;
        this.output = output;
        this.fields = fields;
        this.removedCalls = removedCalls;
    }

    @Override
    public Rule instance() {
        return new AviatorRule(expression, output);
    }

    @Override
    public List<String> fields() {
        return fields;
    }

    /** Returns the number of functions in the expression that do nothing because they only print. */
    @Override
    public int removedCalls() {
        return removedCalls;
    }

    /** Returns 0, because the language has no static types. */
    @Override
    public int dynamicCalls() {
        return 0;
    }

    @Override
    public int line(Throwable thrown) {
        String script = expression.getClass().getName();
        for (StackTraceElement frame : thrown.getStackTrace()) {
            if (frame.getClassName().equals(script) && frame.getLineNumber() > 0) {
                return frame.getLineNumber();
            }
        }
        return 0;
    }
}
