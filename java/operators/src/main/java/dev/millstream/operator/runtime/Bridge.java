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
 * What the agent calls.
 *
 * <p>A worker is a thread of the agent that runs operators; every other method is called on its control thread, and never waits for a
 * worker. No method throws an exception.
 */
public final class Bridge {
    /** Maximum bytes of an operator's compiled scripts: reading them takes several times as much of the heap. */
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
     * Starts what workers need; called once, first.
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

    /** What operators print goes to standard error: a sink of the agent may write to standard output, and a source read the input. */
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

    /** Creates the context of a worker; called on its thread. */
    public static Object worker(String name) {
        Worker worker = new Worker(name, WATCHDOG, (call, used, needed) -> grower.grow(call, used, needed));
        WORKERS.add(worker);
        return worker;
    }

    /** Ends a worker; called on its thread. Its instances of operators are closed. */
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
     * @return JSON with its id and fields, and its compiled scripts if it is to keep them, or an error
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

    /** Adds the compiled scripts, if there are any, and if they are not too long. */
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

    /** Removes an operator, and closes its instances: those that run, after their call. */
    public static void remove(int operator) {
        LoadedOperator removed = REGISTRY.remove(operator);
        if (removed != null) {
            removed.remove();
        }
    }

    /**
     * Runs an operator for the rows of a request.
     *
     * @param request address of the request, see Layout
     * @return offset of the answer, CALL_UNKNOWN_OPERATOR or CALL_FAILED
     */
    public static long apply(Object worker, int operator, long request) {
        return worker instanceof Worker known ? known.apply(REGISTRY.get(operator), request) : Layout.CALL_FAILED;
    }

    /** Returns why the last call of a worker failed, in UTF-8. */
    public static byte[] failure(Object worker) {
        return worker instanceof Worker known ? known.failure() : "no worker".getBytes(StandardCharsets.UTF_8);
    }

    /** Returns JSON with what the rules of an operator did. */
    public static byte[] stats(int operator) {
        LoadedOperator known = REGISTRY.get(operator);
        return Json.bytes(Map.of("rules", known == null ? List.of() : known.stats()));
    }

    /** Returns JSON with the state of the virtual machine, and its garbage collections since the last call. */
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

    /** Returns the bytes of classes, those of the compressed class space included. */
    private static long metaspaceUsed() {
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            if (pool.getName().equals("Metaspace")) {
                return pool.getUsage().getUsed();
            }
        }
        return 0;
    }

    /**
     * Collects and returns memory to the system, or lets the heap keep what its options say again.
     *
     * @return JSON with the bytes of the heap; in the second case that of {@link #process}
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

    /** Returns a value plus one; measures a bare call. */
    public static int noop(int value) {
        return value + 1;
    }

    /**
     * Enlarges the buffer of a call, and stores its address and capacity in the request.
     *
     * @param call REQUEST_CALL
     * @param used number of bytes to keep
     * @param needed the new capacity, at least
     * @return the new address; 0 if there is no memory
     */
    private static native long grow(long call, long used, long needed);

    /**
     * Compiles a collector, and creates its instance; does not call it yet.
     *
     * @param spec JSON of {@link CollectorSpec}, with the members of its code beside the others
     * @return JSON with its id, and its compiled script if it is to keep it, or an error
     */
    public static byte[] collectorRegister(byte[] spec) {
        return answer(() -> {
            LoadedCollector collector = COLLECTORS.load(Specs.parseCollector(spec));
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("id", POOL.add(collector));
            return withCompiled(answer, Collections.singletonList(collector.takeCompiled()));
        });
    }

    /** Begins to call a collector, whose events go to {@link #deliver} with this handle. */
    public static void collectorStart(int collector, long handle) {
        try {
            POOL.start(collector, handle);
        } catch (Throwable error) {
            System.err.println("collector " + collector + ": " + Thrown.text(error));
        }
    }

    /**
     * Ends the calls of a collector without waiting for the one that runs. {@link #stopped} tells when none runs any more, by any thread:
     * this one before it returns, if there is nothing to close.
     */
    public static void collectorStop(int collector) {
        try {
            POOL.stop(collector);
        } catch (Throwable error) {
            System.err.println("collector " + collector + ": " + Thrown.text(error));
        }
    }

    /** Returns JSON with the threads, the state of all collectors and their calls that have ended since; called by any thread. */
    public static byte[] collectorStats() {
        return answer(POOL::stats);
    }

    /** Takes a chunk of events; see {@link Delivery#deliver}. */
    private static native int deliver(long handle, long address, long bytes, int events);

    /** Tells that a collector has stopped; see {@link Delivery#stopped}. */
    private static native void stopped(long handle);

    /** Gives the events of collectors to the agent. */
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

    /** Adds an operator that is compiled. Returns its id. */
    static int register(LoadedOperator operator) {
        return REGISTRY.add(operator);
    }

    /** Returns an operator; null if there is none. */
    static LoadedOperator operator(int id) {
        return REGISTRY.get(id);
    }

    /** Replaces {@link #grow} where no agent is linked. */
    static void replaceGrower(Grower replacement) {
        grower = replacement;
    }
}
