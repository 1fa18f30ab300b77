package dev.millstream.operator.groovy;

import dev.millstream.operator.Row;
import dev.millstream.operator.runtime.Rule;
import groovy.lang.Binding;
import groovy.lang.Script;
import java.util.Map;
import org.codehaus.groovy.runtime.InvokerInvocationException;

/** The superclass of compiled rules: what their functions do. */
public abstract class ScriptBase extends Script implements Rule {
    /** Rules have no variables of a binding; all share this one, which nothing can reach. */
    private static final Binding NO_BINDING = new Binding();

    private Row current;

    /** Creates the rule for a worker. */
    protected ScriptBase() {
        super(NO_BINDING);
    }

    @Override
    public final void process(Row row) throws Throwable {
        current = row;
        try {
            run();
        } catch (InvokerInvocationException wrapper) {
            throw wrapper.getCause();
        }
    }

    /** Returns the event; compiled rules call it for {@code row}. */
    public final Row currentRow() {
        return current;
    }

    /** Drops the event. */
    public final void drop() {
        current.drop();
    }

    /** Adds an event; see {@link Row#emit(Map)}. */
    public final void emit(Map<String, ?> fields) {
        current.emit(fields);
    }

    /** Returns a part of the message; see {@link Row#between(String, int, String)}. */
    public final String between(String left, int index, String right) {
        return current.between(left, index, right);
    }
}
