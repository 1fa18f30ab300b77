package dev.millstream.javaagent;

/**
 * Entry class of the Java agent. This class is compiled for Java 8 because a class that cannot be loaded would end the JVM. It loads the
 * other classes only if the JVM supports them.
 */
public final class Agent {
    /** Name of the thread group of all agent threads. */
    static final String THREADS = "millstream-javaagent";

    private static final int VERSION_MIN = 17;

    /** System property that the first agent of the JVM sets. Unlike a static field, a system property is shared by all class loaders. */
    private static final String STARTED = "millstream.javaagent.started";

    private Agent() {}

    /**
     * Starts the agent from the {@code -javaagent} option.
     *
     * @param options the options as {@code key=value,key2=value2}, or null
     */
    public static void premain(String options) {
        start(options);
    }

    /**
     * Starts the agent in a running JVM.
     *
     * @param options the options as {@code key=value,key2=value2}, or null
     */
    public static void agentmain(String options) {
        start(options);
    }

    private static void start(final String options) {
        try {
            String version = System.getProperty("java.specification.version", "unknown");
            if (!isSupported(version)) {
                say("requires Java " + VERSION_MIN + " or later, but this JVM is version " + version
                        + "; the application runs without the Java agent");
            } else if (System.getProperties().putIfAbsent(STARTED, "true") != null) {
                say("is already running in this JVM; this second instance does nothing");
            } else {
                startThread(options);
            }
        } catch (Throwable error) {
            say("cannot start: " + error);
        }
    }

    /** Returns whether the JVM version is supported. Versions before 9 have the form 1.8. */
    private static boolean isSupported(String version) {
        try {
            return Integer.parseInt(version) >= VERSION_MIN;
        } catch (NumberFormatException error) {
            return false;
        }
    }

    private static void startThread(final String options) {
        Thread thread = new Thread(new ThreadGroup(THREADS), new Runnable() {
            @Override
            public void run() {
                runRecorder(options);
            }
        }, THREADS);
        thread.setDaemon(true);
        thread.start();
    }

    private static void runRecorder(String options) {
        try {
            Class.forName("jdk.jfr.consumer.RecordingStream", false, null);
        } catch (ClassNotFoundException error) {
            say("requires the jdk.jfr module, which is not loaded; if the runtime includes the module, add `--add-modules jdk.jfr`");
            return;
        }
        try {
            Class.forName("dev.millstream.javaagent.Recorder").getDeclaredMethod("run", String.class).invoke(null, options);
        } catch (java.lang.reflect.InvocationTargetException error) {
            say("has stopped: " + error.getCause());
        } catch (Throwable error) {
            say("has stopped: " + error);
        }
    }

    /** Prints one line to standard error. */
    static void say(String message) {
        System.err.println("millstream-javaagent: " + message.replace('\n', ' '));
    }
}
