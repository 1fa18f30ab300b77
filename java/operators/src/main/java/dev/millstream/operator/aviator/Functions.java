package dev.millstream.operator.aviator;

import com.googlecode.aviator.AviatorEvaluatorInstance;
import com.googlecode.aviator.BaseExpression;
import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.RuleSource;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Checks the functions that an expression calls. Aviator itself detects invalid functions only when it calls them. */
final class Functions {
    private Functions() {}

    /**
     * Refuses functions that do not exist, and functions that print and are not removed.
     *
     * @return the number of functions that do nothing because they only print
     */
    static int check(BaseExpression expression, AviatorEvaluatorInstance evaluator, RuleSource source, List<String> removed)
            throws CompileException {
        int silent = 0;
        for (String function : expression.getFunctionNames()) {
            if (Sandbox.PRINTING.contains(function) && removed.contains(function)) {
                silent++;
            } else if (!evaluator.containsFunction(function) && !isVariable(function, source)) {
                throw refused(function, source);
            }
        }
        return silent;
    }

    /** Returns whether the name also appears outside a call, as a parameter that contains a function does. */
    private static boolean isVariable(String name, RuleSource source) {
        return Pattern.compile("(?<![\\w.])" + Pattern.quote(name) + "(?!\\s*\\()(?![\\w.])").matcher(source.text()).find();
    }

    private static CompileException refused(String function, RuleSource source) {
        Matcher call = Pattern.compile("(?<![\\w.])" + Pattern.quote(function) + "\\s*\\(").matcher(source.text());
        int line = 0;
        int column = 0;
        if (call.find()) {
            line = Places.line(source.text(), call.start());
            column = Places.column(source.text(), call.start());
        }
        return new CompileException("function " + function + " is not available in a rule", source.name(), line, column);
    }
}
