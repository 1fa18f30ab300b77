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
 * Initializes the parts of Groovy that scripts use at run time.
 *
 * <p>Initialization takes about 200 ms in a new process. During a call, this time would count as time for an event, and a call that is
 * interrupted or fills the stack would leave classes that are unusable for the life of the process.
 */
final class GroovyRuntime {
    /** Classes for meta classes, value formats, and calls in scripts without types. Each class also initializes other classes. */
    private static final List<Class<?>> CLASSES = List.of(
            InvokerHelper.class, FormatHelper.class, IndyInterface.class, ScriptBytecodeAdapter.class, DefaultGroovyMethods.class,
            StringGroovyMethods.class, NumberMath.class, Closure.class);

    private GroovyRuntime() {}

    /** Initializes the classes. Does nothing if they are already initialized. */
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
