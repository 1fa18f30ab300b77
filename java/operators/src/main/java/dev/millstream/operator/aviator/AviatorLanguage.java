package dev.millstream.operator.aviator;

import com.googlecode.aviator.AviatorEvaluatorInstance;
import com.googlecode.aviator.BaseExpression;
import com.googlecode.aviator.Expression;
import com.googlecode.aviator.exception.UnsupportedFeatureException;
import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.Language;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.lang.ref.WeakReference;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Rules in AviatorScript.
 *
 * <p>The variables of an expression are the fields of the event; {@code a.b} is a map entry. If the operator has an output field, the field
 * receives the expression's value. Otherwise, false drops the event, true and nil leave the event unchanged, and map entries become fields.
 */
public final class AviatorLanguage implements Language {
    private static final Pattern STRING = Pattern.compile("'(?:\\\\.|[^'\\\\])*'|\"(?:\\\\.|[^\"\\\\])*\"|##[^\\n]*");
    /** Properties that lead from a value to its class, and from there to any other class. */
    private static final Pattern REFLECTION = Pattern.compile("\\.\\s*(class|declaringClass|classLoader|module)\\b");
    /** Keywords of unavailable features. The first match in a source is the keyword that Aviator has refused. */
    private static final Pattern KEYWORD = Pattern.compile("(?<![\\w.$])(?:new|use|try|throw)(?![\\w$])");
    private static final Pattern HIDDEN = Pattern.compile("#\\{[^}]*\\\\");
    private static final Pattern INTERPOLATED = Pattern.compile("#\\{([^}]+)}");
    private static final Pattern LINE = Pattern.compile("line(?:Number)?\\s*:?\\s*(\\d+)");
    private static final Pattern INDEX = Pattern.compile("\\bat (\\d+)");

    private OperatorSpec lastSpec;
    private WeakReference<AviatorEvaluatorInstance> lastEvaluator = new WeakReference<>(null);

    /** Creates the language. */
    public AviatorLanguage() {}

    @Override
    public CompiledRule compile(RuleSource source, OperatorSpec spec) throws CompileException {
        refuseReflection(source);
        AviatorEvaluatorInstance evaluator = evaluator(spec);
        List<String> removed = spec.removedCalls() == null ? List.of() : spec.removedCalls();
        try {
            BaseExpression expression = (BaseExpression) evaluator.compile(source.name(), source.text(), false);
            int silent = Functions.check(expression, evaluator, source, removed);
            return new CompiledExpression(expression, spec.output(), fields(expression, evaluator, source), silent);
        } catch (UnsupportedFeatureException failure) {
            throw unsupported(failure, source);
        } catch (RuntimeException failure) {
            throw converted(failure, source);
        }
    }

    /** Returns the error for a keyword that Aviator refuses without a position. */
    private static CompileException unsupported(UnsupportedFeatureException failure, RuleSource source) {
        Matcher found = KEYWORD.matcher(code(source.text()));
        return found.find() ? refused("keyword " + found.group(), source, found.start()) : converted(failure, source);
    }

    /** Returns the evaluator that the operator's rules share. The evaluator is garbage once its rules are garbage. */
    private synchronized AviatorEvaluatorInstance evaluator(OperatorSpec spec) {
        AviatorEvaluatorInstance evaluator = spec == lastSpec ? lastEvaluator.get() : null;
        if (evaluator == null) {
            evaluator = Sandbox.evaluator(spec.rowTimeoutMs(), spec.removedCalls() == null ? List.of() : spec.removedCalls());
            lastSpec = spec;
            lastEvaluator = new WeakReference<>(evaluator);
        }
        return evaluator;
    }

    private static void refuseReflection(RuleSource source) throws CompileException {
        String text = source.text();
        Matcher hidden = HIDDEN.matcher(text);
        if (hidden.find()) {
            throw refused("\\ between #{ and }", source, hidden.start());
        }
        Matcher found = REFLECTION.matcher(code(text));
        if (found.find()) {
            throw refused("property " + found.group(1), source, found.start());
        }
    }

    /** Replaces strings and comments with spaces, unless the text interpolates expressions into strings. */
    private static String code(String text) {
        return text.contains("#{") ? text : STRING.matcher(text).replaceAll(match -> " ".repeat(match.group().length()));
    }

    private static CompileException refused(String what, RuleSource source, int at) {
        return new CompileException(what + " is not allowed in a script", source.name(), Places.line(source.text(), at),
                Places.column(source.text(), at));
    }

    private static List<String> fields(Expression expression, AviatorEvaluatorInstance evaluator, RuleSource source) {
        Set<String> fields = new LinkedHashSet<>(expression.getVariableNames());
        Matcher interpolated = INTERPOLATED.matcher(source.text());
        while (interpolated.find()) {
            fields.addAll(evaluator.compile(interpolated.group(1), false).getVariableNames());
        }
        fields.removeIf(name -> name.equals("message") || name.equals("timestamp") || name.startsWith("$") || name.startsWith("__"));
        return List.copyOf(fields);
    }

    private static CompileException converted(RuntimeException failure, RuleSource source) {
        Throwable cause = failure;
        while (cause.getCause() != null && cause.getCause() != cause) {
            cause = cause.getCause();
        }
        String message = String.valueOf(cause.getMessage());
        int line = number(LINE, message);
        int index = number(INDEX, message);
        int column = index > 0 && index <= source.text().length() ? Places.column(source.text(), index) : 0;
        return new CompileException(message.replaceAll("\\s*\\R\\s*", " ").trim(), source.name(), line, column);
    }

    private static int number(Pattern pattern, String text) {
        Matcher matcher = pattern.matcher(text);
        return matcher.find() ? Integer.parseInt(matcher.group(1)) : 0;
    }
}
