package dev.millstream.operator.aviator;

import com.googlecode.aviator.AviatorEvaluator;
import com.googlecode.aviator.AviatorEvaluatorInstance;
import com.googlecode.aviator.EvalMode;
import com.googlecode.aviator.Feature;
import com.googlecode.aviator.Options;
import java.util.List;
import java.util.Locale;

/** Creates evaluators that can access only the event. */
final class Sandbox {
    /** Functions that only print. */
    static final List<String> PRINTING = List.of("println", "print", "p", "pst", "printStackTrace");
    /** Functions that compile code or read files. */
    private static final List<String> REFUSED = List.of("eval", "load", "require");
    /** Maximum number of loop iterations, which exceeds the number of elements in an event. */
    private static final int LOOP_ROUNDS_MAX = 10_000;

    private Sandbox() {}

    /**
     * Creates an evaluator.
     *
     * @param timeoutMs the maximum duration of an evaluation; 0 for no limit
     * @param silenced the functions that do nothing
     */
    static AviatorEvaluatorInstance evaluator(long timeoutMs, List<String> silenced) {
        AviatorEvaluatorInstance evaluator = AviatorEvaluator.newInstance(EvalMode.ASM);
        evaluator.enableSandboxMode();
        evaluator.disableFeature(Feature.Use);
        evaluator.disableFeature(Feature.StaticFields);
        // An exception handler would catch the timeout.
        evaluator.disableFeature(Feature.ExceptionHandle);
        evaluator.setOption(Options.OPTIMIZE_LEVEL, AviatorEvaluator.EVAL);
        evaluator.setOption(Options.MAX_LOOP_COUNT, LOOP_ROUNDS_MAX);
        evaluator.setOption(Options.EVAL_TIMEOUT_MS, timeoutMs);
        evaluator.setOption(Options.NIL_WHEN_PROPERTY_NOT_FOUND, true);
        evaluator.setOption(Options.USE_USER_ENV_AS_TOP_ENV_DIRECTLY, true);
        evaluator.setOption(Options.PUT_CAPTURING_GROUPS_INTO_ENV, true);
        evaluator.addFunction(new RowFunctions.Between());
        evaluator.addFunction(new RowFunctions.Drop());
        evaluator.addFunction(new RowFunctions.OfText("string.upper", text -> text.toUpperCase(Locale.ROOT)));
        evaluator.addFunction(new RowFunctions.OfText("string.lower", text -> text.toLowerCase(Locale.ROOT)));
        evaluator.addFunction(new RowFunctions.OfText("string.trim", String::trim));
        REFUSED.forEach(evaluator::removeFunction);
        for (String name : PRINTING) {
            evaluator.removeFunction(name);
            if (silenced.contains(name)) {
                evaluator.addFunction(new RowFunctions.Nothing(name));
            }
        }
        return evaluator;
    }
}
