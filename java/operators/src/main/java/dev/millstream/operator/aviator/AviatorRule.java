package dev.millstream.operator.aviator;

import com.googlecode.aviator.Expression;
import dev.millstream.operator.Row;
import dev.millstream.operator.runtime.Rule;
import dev.millstream.operator.runtime.Texts;
import java.util.Map;

/** An expression for one worker. Applies the expression's value to the event. */
final class AviatorRule implements Rule {
    private final Expression expression;
    private final String output;
    private final RowVariables variables = new RowVariables();

    /**
     * Creates the rule.
     *
     * @param output the field that receives the value; null if the value determines what happens to the event
     */
    AviatorRule(Expression expression, String output) {
        this.expression = expression;
        this.output = output;
    }

    @Override
    public void process(Row row) {
        variables.use(row);
        Object value = expression.execute(variables);
        if (output != null) {
            row.set(output, normal(value));
        } else {
            apply(row, value);
        }
    }

    private static void apply(Row row, Object value) {
        if (value instanceof Boolean keep) {
            if (!keep) {
                row.drop();
            }
        } else if (value instanceof Map<?, ?> fields) {
            for (Map.Entry<?, ?> field : fields.entrySet()) {
                row.set(Texts.name(field.getKey()), normal(field.getValue()));
            }
        } else if (value != null) {
            throw new IllegalArgumentException("the expression returned a value of type " + value.getClass().getSimpleName()
                    + ", but the operator has no output field; return true to keep the event, false to drop it,"
                    + " a map of fields, or nil");
        }
    }

    /** Converts integers to longs and floats to doubles. Returns other values unchanged. */
    private static Object normal(Object value) {
        if (value instanceof Integer || value instanceof Short || value instanceof Byte) {
            return ((Number) value).longValue();
        }
        return value instanceof Float number ? (Object) number.doubleValue() : value;
    }
}
