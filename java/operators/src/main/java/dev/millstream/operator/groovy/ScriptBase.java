package dev.millstream.operator.groovy;

import dev.millstream.operator.Row;
import dev.millstream.operator.runtime.Rule;
import groovy.lang.GroovyObject;
import groovy.lang.MetaClass;
import java.util.Map;
import org.codehaus.groovy.runtime.InvokerHelper;
import org.codehaus.groovy.runtime.InvokerInvocationException;

/**
 * The superclass of compiled rules, which implements their functions. This class does not extend {@link groovy.lang.Script}, because that
 * class has methods that compile and run code, and holds a meta class that a static rule never needs.
 */
public abstract class ScriptBase implements GroovyObject, Rule {
    private Row current;
    private MetaClass metaClass;

    /** Creates the rule for a worker. */
    protected ScriptBase() {}

    /** Runs the rule's body. */
    public abstract Object run() throws Throwable;

    @Override
    public final void process(Row row) throws Throwable {
        current = row;
        try {
            run();
        } catch (InvokerInvocationException wrapper) {
            throw wrapper.getCause();
        }
    }

    /** Returns the event. Compiled rules call this method for {@code row}. */
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

    @Override
    public final MetaClass getMetaClass() {
        if (metaClass == null) {
            metaClass = InvokerHelper.getMetaClass(getClass());
        }
        return metaClass;
    }

    @Override
    public final void setMetaClass(MetaClass other) {
        throw new UnsupportedOperationException("the meta class of a rule cannot be changed");
    }
}
