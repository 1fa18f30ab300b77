package dev.millstream.operator.runtime;

import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorContext;
import dev.millstream.collector.Events;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/** The instance of a collector. Used by one thread at a time. */
final class LoadedCollector {
    private final CollectorSpec spec;
    private final Collector collector;
    private final String name;
    private final JarLoader loader;
    private final Place place;
    private boolean isOpen;
    private String compiled;

    /**
     * Creates it.
     *
     * @param name what a failure calls its source
     * @param loader its class loader, closed at the end; null for that of the agent
     */
    LoadedCollector(CollectorSpec spec, Collector collector, String name, JarLoader loader) {
        this.spec = spec;
        this.collector = collector;
        this.name = name;
        this.loader = loader;
        place = new Place(spec.code().component(), Collections.unmodifiableMap(spec.code().options()), new HashMap<>());
    }

    /** What the collector sees of the agent. */
    private record Place(String component, Map<String, Object> options, Map<String, Object> state) implements CollectorContext {}

    /** Notes what registers the collector again without its compiler. */
    void keepCompiled(String script) {
        compiled = script;
    }

    /** Returns what {@link #keepCompiled} noted, and forgets it; null if there is none. */
    String takeCompiled() {
        String taken = compiled;
        compiled = null;
        return taken;
    }

    CollectorSpec spec() {
        return spec;
    }

    String component() {
        return spec.code().component();
    }

    /** Returns the class loader of its code. */
    ClassLoader loader() {
        return collector.getClass().getClassLoader();
    }

    /** Returns whether it is to be closed. */
    boolean isOpen() {
        return isOpen;
    }

    /** Runs a call; the first one opens the collector. */
    void call(Events events) throws Exception {
        ClassLoader before = enter();
        try {
            open();
            collector.collect(events);
        } finally {
            Thread.currentThread().setContextClassLoader(before);
        }
    }

    private void open() throws Exception {
        if (isOpen) {
            return;
        }
        boolean isOpened = false;
        isOpen = true;
        try {
            collector.open(place);
            isOpened = true;
        } finally {
            if (!isOpened) {
                close();
            }
        }
    }

    /** Closes the collector if it is open. */
    void close() {
        if (!isOpen) {
            return;
        }
        isOpen = false;
        ClassLoader before = enter();
        try {
            collector.close();
        } catch (Throwable error) {
            System.err.println("collector of " + component() + ": close: " + Thrown.text(error));
        } finally {
            Thread.currentThread().setContextClassLoader(before);
        }
    }

    private ClassLoader enter() {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        thread.setContextClassLoader(loader == null ? LoadedCollector.class.getClassLoader() : loader);
        return before;
    }

    /** Closes its jars. */
    void release() {
        if (loader != null) {
            loader.close();
        }
    }

    private static String advice(Throwable thrown) {
        // With a space it is not the name of a class, but why a class of the collector could not be initialized.
        boolean isMissing = thrown instanceof NoClassDefFoundError && !String.valueOf(thrown.getMessage()).contains(" ");
        return isMissing ? "; name the jar with this class in `jars`" : "";
    }

    /** Returns the class and the text of an exception, with the line of the source that threw it. */
    String text(Throwable thrown) {
        String text = Thrown.text(thrown) + advice(thrown);
        int line = Thrown.line(thrown, collector.getClass().getName());
        return line > 0 ? text + " (" + name + " line " + line + ")" : text;
    }
}
