package dev.millstream.operator.groovy;

import groovy.lang.Closure;
import java.lang.invoke.MethodHandles;
import java.util.List;
import org.codehaus.groovy.runtime.DefaultGroovyMethods;
import org.codehaus.groovy.runtime.FormatHelper;
import org.codehaus.groovy.runtime.InvokerHelper;
import org.codehaus.groovy.runtime.ScriptBytecodeAdapter;
import org.codehaus.groovy.runtime.StringGroovyMethods;
import org.codehaus.groovy.runtime.typehandling.NumberMath;
import org.codehaus.groovy.vmplugin.v8.IndyInterface;

/**
 * Initializes the parts of Groovy that scripts use when they run.
 *
 * <p>That takes some 200 ms in a new process. During a call it would count as time of an event, and a call that is interrupted or fills the
 * stack would leave classes that are unusable for the life of the process.
 */
final class GroovyRuntime {
    /** Meta classes, the formats of values, and the calls of scripts without types, with what each of them initializes in turn. */
    private static final List<Class<?>> CLASSES = List.of(
            InvokerHelper.class, FormatHelper.class, IndyInterface.class, ScriptBytecodeAdapter.class, DefaultGroovyMethods.class,
            StringGroovyMethods.class, NumberMath.class, Closure.class);

    private GroovyRuntime() {}

    /** Initializes them; does nothing if they are. */
    static void initialize() {
        try {
            for (Class<?> each : CLASSES) {
                MethodHandles.lookup().ensureInitialized(each);
            }
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }
}
