package dev.millstream.operator.groovy;

import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorContext;
import dev.millstream.collector.Events;
import groovy.lang.GroovyObject;
import groovy.lang.MetaClass;
import java.util.Map;
import org.codehaus.groovy.runtime.InvokerHelper;
import org.codehaus.groovy.runtime.InvokerInvocationException;

/** The superclass of compiled collectors. A script may declare {@code void close()}, which implements the method of {@link Collector}. */
public abstract class CollectorScript implements GroovyObject, Collector {
    private CollectorContext context;
    private Events events;
    private MetaClass metaClass;

    /** Creates the collector. */
    protected CollectorScript() {}

    /** Runs the script's body. */
    public abstract Object run() throws Exception;

    @Override
    public final void open(CollectorContext opened) {
        context = opened;
    }

    @Override
    public final void collect(Events ofCall) throws Exception {
        events = ofCall;
        try {
            run();
        } catch (InvokerInvocationException wrapper) {
            if (wrapper.getCause() instanceof Error error) {
                throw error;
            }
            throw wrapper.getCause() instanceof Exception cause ? cause : wrapper;
        }
    }

    /** Returns the events of the call. Compiled collectors call this method for {@code events}. */
    public final Events currentEvents() {
        return events;
    }

    /** Returns the collector's context. Compiled collectors call this method for {@code context}. */
    public final CollectorContext currentContext() {
        return context;
    }

    /** Returns the options. Compiled collectors call this method for {@code options}. */
    public final Map<String, Object> currentOptions() {
        return context.options();
    }

    /** Returns the state that persists across calls. Compiled collectors call this method for {@code state}. */
    public final Map<String, Object> currentState() {
        return context.state();
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
        throw new UnsupportedOperationException("the meta class of a collector cannot be changed");
    }
}
