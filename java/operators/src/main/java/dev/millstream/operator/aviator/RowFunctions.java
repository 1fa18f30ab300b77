package dev.millstream.operator.aviator;

import com.googlecode.aviator.runtime.function.AbstractFunction;
import com.googlecode.aviator.runtime.function.AbstractVariadicFunction;
import com.googlecode.aviator.runtime.function.FunctionUtils;
import com.googlecode.aviator.runtime.type.AviatorNil;
import com.googlecode.aviator.runtime.type.AviatorObject;
import com.googlecode.aviator.runtime.type.AviatorString;
import dev.millstream.operator.Row;
import java.util.Map;
import java.util.function.UnaryOperator;

/** Functions that expressions can call in addition to the functions of the language. */
final class RowFunctions {
    private RowFunctions() {}

    private static Row row(Map<String, Object> variables) {
        return (Row) variables.get(RowVariables.ROW);
    }

    /** {@code between(left, index, right)}: a part of the message; see {@link Row#between(String, int, String)}. */
    static final class Between extends AbstractFunction {
        private static final long serialVersionUID = 1;

        @Override
        public String getName() {
            return "between";
        }

        @Override
        public AviatorObject call(Map<String, Object> variables, AviatorObject left, AviatorObject index, AviatorObject right) {
            int occurrence = FunctionUtils.getNumberValue(index, variables).intValue();
            String part = row(variables).between(
                    FunctionUtils.getStringValue(left, variables), occurrence, FunctionUtils.getStringValue(right, variables));
            return part == null ? AviatorNil.NIL : new AviatorString(part);
        }
    }

    /** {@code drop()}: drops the event. Returns nil. */
    static final class Drop extends AbstractFunction {
        private static final long serialVersionUID = 1;

        @Override
        public String getName() {
            return "drop";
        }

        @Override
        public AviatorObject call(Map<String, Object> variables) {
            row(variables).drop();
            return AviatorNil.NIL;
        }
    }

    /** A function that converts text to text. Nil stays nil. */
    static final class OfText extends AbstractFunction {
        private static final long serialVersionUID = 1;

        private final String name;
        private final transient UnaryOperator<String> change;

        OfText(String name, UnaryOperator<String> change) {
            this.name = name;
            this.change = change;
        }

        @Override
        public String getName() {
            return name;
        }

        @Override
        public AviatorObject call(Map<String, Object> variables, AviatorObject argument) {
            Object text = argument.getValue(variables);
            return text == null ? AviatorNil.NIL : new AviatorString(change.apply(text.toString()));
        }
    }

    /** A function that does nothing. Replaces a function that only prints. */
    static final class Nothing extends AbstractVariadicFunction {
        private static final long serialVersionUID = 1;

        private final String name;

        Nothing(String name) {
            this.name = name;
        }

        @Override
        public String getName() {
            return name;
        }

        @Override
        public AviatorObject variadicCall(Map<String, Object> variables, AviatorObject... arguments) {
            return AviatorNil.NIL;
        }
    }
}
