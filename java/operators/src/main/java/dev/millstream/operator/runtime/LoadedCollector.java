package dev.millstream.operator.runtime;

import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorContext;
import dev.millstream.collector.Events;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/** The instance of a collector. Only one thread at a time uses the instance. */
final class LoadedCollector {
    private final CollectorSpec spec;
    private final Collector collector;
    private final String name;
    private final JarLoader loader;
    private final Place place;
    private boolean isOpen;
    private String compiled;

    /**
     * Creates the instance.
     *
     * @param name the source name in failure messages
     * @param loader the collector's class loader, which is closed at the end; null for the agent's class loader
     */
    LoadedCollector(CollectorSpec spec, Collector collector, String name, JarLoader loader) {
        this.spec = spec;
        this.collector = collector;
        this.name = name;
        this.loader = loader;
        place = new Place(spec.code().component(), Collections.unmodifiableMap(spec.code().options()), new HashMap<>());
    }

    /** The collector's configuration and state. */
    private record Place(String component, Map<String, Object> options, Map<String, Object> state) implements CollectorContext {}

    /** Stores the compiled script, which registers the collector again without the compiler. */
    void keepCompiled(String script) {
        compiled = script;
    }

    /** Returns and discards the script that {@link #keepCompiled} has stored; null if there is none. */
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

    /** Returns the class loader of the collector's code. */
    ClassLoader loader() {
        return collector.getClass().getClassLoader();
    }

    /** Returns whether the collector must be closed. */
    boolean isOpen() {
        return isOpen;
    }

    /** Runs a call. The first call opens the collector. */
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
            System.err.println("collector " + component() + ": close: " + Thrown.text(error));
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

    /** Closes the collector's jars. */
    void release() {
        if (loader != null) {
            loader.close();
        }
    }

    private static String advice(Throwable thrown) {
        // A message with a space is not a class name, but the reason why a class of the collector could not be initialized.
        boolean isMissing = thrown instanceof NoClassDefFoundError && !String.valueOf(thrown.getMessage()).contains(" ");
        return isMissing ? "; add the jar that contains this class to `jars`" : "";
    }

    /** Returns the class and the text of an exception, with the source line that threw it. */
    String text(Throwable thrown) {
        String text = Thrown.text(thrown) + advice(thrown);
        int line = Thrown.line(thrown, collector.getClass().getName());
        return line > 0 ? text + " (" + name + " line " + line + ")" : text;
    }
}
