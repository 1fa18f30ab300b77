package dev.millstream.operator.runtime;

import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The methods that the agent calls.
 *
 * <p>A worker is an agent thread that runs operators. Methods that neither create nor take a worker are called on the agent's control
 * thread unless stated otherwise, and never wait for a worker. No method throws an exception.
 */
public final class Bridge {
    /** Maximum bytes of an operator's compiled scripts. Parsing the scripts takes several times as much heap. */
    private static final long COMPILED_BYTES_MAX = 4 << 20;

    private static final Registry REGISTRY = new Registry();
    private static final Languages LANGUAGES = new Languages();
    private static final CollectorLoader COLLECTORS = new CollectorLoader(LANGUAGES);
    private static final CollectorPool POOL = new CollectorPool(new Agent());
    private static final Watchdog WATCHDOG = new Watchdog();
    private static final HeapTarget HEAP = new HeapTarget();
    private static final RecentCollections COLLECTIONS = RecentCollections.ofThisJvm();
    private static final Set<Worker> WORKERS = Collections.newSetFromMap(new ConcurrentHashMap<>());
    private static boolean isStarted;
    private static volatile Grower grower = Bridge::grow;

    private Bridge() {}

    /**
     * Starts the services that workers need. Called once, before any other method.
     *
     * @param settings JSON; with {@code keeps_streams}, standard input and output are left to the agent
     * @return JSON with the versions of Java and of the layout, or an error
     */
    public static synchronized byte[] start(byte[] settings) {
        try {
            if (Json.parse(settings, settings.length) instanceof Map<?, ?> map && map.get("keeps_streams") == Boolean.TRUE) {
                leaveStreams();
            }
            return started();
        } catch (Throwable error) {
            return error(Thrown.text(error), new CompileException("", null, 0, 0));
        }
    }

    /**
     * Redirects operators' output to standard error and replaces their standard input with an empty stream, because a sink of the agent may
     * write to standard output, and a source may read standard input.
     */
    private static void leaveStreams() {
        System.setIn(InputStream.nullInputStream());
        System.setOut(System.err);
    }

    private static byte[] started() {
        if (!isStarted) {
            isStarted = true;
            WATCHDOG.start();
            COLLECTIONS.listen();
            Object worker = worker("start");
            WarmUp.run((Worker) worker);
            workerEnds(worker);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("java_version", System.getProperty("java.version"));
        answer.put("vm", System.getProperty("java.vm.name"));
        answer.put("layout_version", Layout.VERSION);
        return Json.bytes(answer);
    }

    /** Creates the context of a worker. Called on the worker's thread. */
    public static Object worker(String name) {
        Worker worker = new Worker(name, WATCHDOG, (call, used, needed) -> grower.grow(call, used, needed));
        WORKERS.add(worker);
        return worker;
    }

    /** Ends a worker, and closes its operator instances. Called on the worker's thread. */
    public static void workerEnds(Object worker) {
        Worker ended = (Worker) worker;
        WORKERS.remove(ended);
        ended.end();
        REGISTRY.all().forEach(operator -> operator.workerEnds(ended));
    }

    /**
     * Compiles an operator.
     *
     * @param spec JSON of {@link OperatorSpec}
     * @return JSON with the operator's id and fields, and with the compiled scripts if the specification requests them, or an error
     */
    public static byte[] register(byte[] spec) {
        return answer(() -> {
            LoadedOperator operator = LANGUAGES.load(Specs.parse(spec));
            return registered(operator, REGISTRY.add(operator));
        });
    }

    private static byte[] answer(Callable<Map<String, Object>> task) {
        try {
            return Json.bytes(task.call());
        } catch (CompileException error) {
            return error(error.getMessage(), error);
        } catch (Throwable error) {
            return error(Thrown.text(error), new CompileException("", null, 0, 0));
        }
    }

    private static Map<String, Object> registered(LoadedOperator operator, int id) {
        Set<String> fields = new LinkedHashSet<>();
        int removedCalls = 0;
        int dynamicCalls = 0;
        for (CompiledRule rule : operator.rules()) {
            fields.addAll(rule.fields());
            removedCalls += rule.removedCalls();
            dynamicCalls += rule.dynamicCalls();
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", id);
        answer.put("fields", new ArrayList<>(fields));
        answer.put("removed_calls", removedCalls);
        answer.put("dynamic_calls", dynamicCalls);
        return withCompiled(answer, operator.rules().stream().map(CompiledRule::takeCompiled).toList());
    }

    /** Adds the compiled scripts if there are any and if they are not too long. */
    private static Map<String, Object> withCompiled(Map<String, Object> answer, List<String> scripts) {
        if (!scripts.isEmpty() && !scripts.contains(null)) {
            long bytes = scripts.stream().mapToLong(String::length).sum();
            if (bytes <= COMPILED_BYTES_MAX) {
                answer.put("compiled", scripts);
            }
        }
        return answer;
    }

    private static byte[] error(String message, CompileException place) {
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("message", message);
        error.put("rule", place.rule());
        error.put("line", place.line());
        error.put("column", place.column());
        return Json.bytes(Map.of("error", error));
    }

    /** Removes an operator, and closes its instances. An instance that is running is closed after its call. */
    public static void remove(int operator) {
        LoadedOperator removed = REGISTRY.remove(operator);
        if (removed != null) {
            removed.remove();
        }
    }

    /**
     * Runs an operator for the rows of a request.
     *
     * @param request address of the request (see Layout)
     * @return offset of the answer, CALL_UNKNOWN_OPERATOR or CALL_FAILED
     */
    public static long apply(Object worker, int operator, long request) {
        return worker instanceof Worker known ? known.apply(REGISTRY.get(operator), request) : Layout.CALL_FAILED;
    }

    /** Returns the reason why a worker's last call failed, in UTF-8. */
    public static byte[] failure(Object worker) {
        return worker instanceof Worker known ? known.failure() : "no worker".getBytes(StandardCharsets.UTF_8);
    }

    /** Returns the counters of an operator's rules as JSON. */
    public static byte[] stats(int operator) {
        LoadedOperator known = REGISTRY.get(operator);
        return Json.bytes(Map.of("rules", known == null ? List.of() : known.stats()));
    }

    /** Returns JSON with the JVM's state, and the garbage collections since the previous call. */
    public static byte[] process() {
        var memory = ManagementFactory.getMemoryMXBean();
        var heap = memory.getHeapMemoryUsage();
        var collectors = ManagementFactory.getGarbageCollectorMXBeans();
        Map<String, Object> process = new LinkedHashMap<>();
        process.put("heap_used", heap.getUsed());
        process.put("heap_committed", heap.getCommitted());
        process.put("heap_max", heap.getMax());
        process.put("non_heap_used", memory.getNonHeapMemoryUsage().getUsed());
        process.put("metaspace_used", metaspaceUsed());
        process.put("collections", collectors.stream().mapToLong(each -> Math.max(each.getCollectionCount(), 0)).sum());
        process.put("collection_ms", collectors.stream().mapToLong(each -> Math.max(each.getCollectionTime(), 0)).sum());
        process.put("threads", ManagementFactory.getThreadMXBean().getThreadCount());
        process.put("classes", ManagementFactory.getClassLoadingMXBean().getLoadedClassCount());
        COLLECTIONS.moveTo(process);
        return Json.bytes(process);
    }

    /** Returns the bytes in use for classes, including the compressed class space. */
    private static long metaspaceUsed() {
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            if (pool.getName().equals("Metaspace")) {
                return pool.getUsage().getUsed();
            }
        }
        return 0;
    }

    /**
     * Collects garbage and returns memory to the system, or restores the free heap that the JVM options request.
     *
     * @return JSON with the heap size in bytes; in the second case, the JSON of {@link #process}
     */
    public static byte[] heap(boolean isTight) {
        try {
            if (isTight) {
                return HEAP.tighten();
            }
            HEAP.relax();
            return process();
        } catch (Throwable error) {
            return error(Thrown.text(error), new CompileException("", null, 0, 0));
        }
    }

    /** Returns a value plus one, to measure the cost of a call. */
    public static int noop(int value) {
        return value + 1;
    }

    /**
     * Enlarges the buffer of a call, and stores the buffer's address and capacity in the request.
     *
     * @param call REQUEST_CALL
     * @param used number of bytes to keep
     * @param needed the minimum new capacity
     * @return the new address; 0 if there is no memory
     */
    private static native long grow(long call, long used, long needed);

    /**
     * Compiles a collector and creates its instance, without calling the collector.
     *
     * @param spec JSON of {@link CollectorSpec}, with the members of its code alongside the others
     * @return JSON with the collector's id, and with the compiled script if the specification requests it, or an error
     */
    public static byte[] collectorRegister(byte[] spec) {
        return answer(() -> {
            LoadedCollector collector = COLLECTORS.load(Specs.parseCollector(spec));
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("id", POOL.add(collector));
            return withCompiled(answer, Collections.singletonList(collector.takeCompiled()));
        });
    }

    /** Starts calling a collector, whose events go to {@link #deliver} with this handle. */
    public static void collectorStart(int collector, long handle) {
        try {
            POOL.start(collector, handle);
        } catch (Throwable error) {
            System.err.println("collector " + collector + ": " + Thrown.text(error));
        }
    }

    /**
     * Stops calling a collector without waiting for a running call. {@link #stopped} reports when no call runs anymore. Any thread may
     * report this, including this thread before the method returns, if there is nothing to close.
     */
    public static void collectorStop(int collector) {
        try {
            POOL.stop(collector);
        } catch (Throwable error) {
            System.err.println("collector " + collector + ": " + Thrown.text(error));
        }
    }

    /**
     * Returns JSON with the threads, the state of all collectors, and the calls that have ended since the previous poll. Any thread may
     * call this method.
     */
    public static byte[] collectorStats() {
        return answer(POOL::stats);
    }

    /** Passes a chunk of events to the agent; see {@link Delivery#deliver}. */
    private static native int deliver(long handle, long address, long bytes, int events);

    /** Reports that a collector has stopped; see {@link Delivery#stopped}. */
    private static native void stopped(long handle);

    /** Passes collector events to the agent. */
    private static final class Agent implements Delivery {
        @Override
        public int deliver(long handle, long address, long bytes, int events) {
            return Bridge.deliver(handle, address, bytes, events);
        }

        @Override
        public void stopped(long handle) {
            Bridge.stopped(handle);
        }
    }

    /** Adds a compiled operator. Returns its id. */
    static int register(LoadedOperator operator) {
        return REGISTRY.add(operator);
    }

    /** Returns an operator, or null if the id is unknown. */
    static LoadedOperator operator(int id) {
        return REGISTRY.get(id);
    }

    /** Replaces {@link #grow} in a process without an agent. */
    static void replaceGrower(Grower replacement) {
        grower = replacement;
    }
}
