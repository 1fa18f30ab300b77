package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;

/** The context of a thread that runs operators. */
final class Worker {
    static final int CHUNK_ROWS = 256;

    private final String name;
    private final Watchdog watchdog;
    private final RowWatch watch = new RowWatch();
    private final Call call;
    private final Answer answer;
    private String failure = "";
    private boolean isRunning;

    Worker(String name, Watchdog watchdog, Grower grower) {
        this.name = name;
        this.watchdog = watchdog;
        call = new Call(grower);
        answer = new Answer(call);
        watchdog.add(watch);
    }

    void end() {
        watchdog.remove(watch);
    }

    /** Returns the reason why the last call failed, in UTF-8. */
    byte[] failure() {
        return failure.getBytes(StandardCharsets.UTF_8);
    }

    /** Runs an operator. Returns the offset of the answer. */
    long apply(LoadedOperator operator, long request) {
        if (operator == null) {
            return Layout.CALL_UNKNOWN_OPERATOR;
        }
        if (isRunning) {
            failure = "worker " + name + " is already running a call";
            return Layout.CALL_FAILED;
        }
        isRunning = true;
        try {
            Instance instance = operator.instance(this);
            return instance.enter() ? apply(instance, request) : Layout.CALL_UNKNOWN_OPERATOR;
        } catch (Throwable error) {
            failure = Thrown.text(error);
            return Layout.CALL_FAILED;
        } finally {
            isRunning = false;
        }
    }

    private long apply(Instance instance, long request) {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        ClassLoader loader = instance.operator().loader();
        thread.setContextClassLoader(loader == null ? before : loader);
        BatchRow row = new BatchRow(call);
        try {
            call.begin(request);
            run(instance, row);
            return answer.write();
        } finally {
            row.end();
            call.end();
            instance.leave();
            thread.setContextClassLoader(before);
        }
    }

    private void run(Instance instance, BatchRow row) {
        Rule[] rules = instance.rules();
        if (rules == null) {
            call.beginChunk(0);
            failAll(instance, instance.failedRule(), Layout.REASON_EXCEPTION, instance.failure());
        } else if (rules.length == 1 && rules[0] instanceof BatchRule batch) {
            runBatch(instance, batch, row);
        } else {
            long timeoutNs = instance.operator().rowTimeoutNs();
            watch.beginCall(timeoutNs);
            if (timeoutNs > 0) {
                watchdog.wake();
            }
            try {
                runChunks(instance, rules, row);
            } finally {
                watch.endCall();
            }
        }
    }

    private void runBatch(Instance instance, BatchRule rule, BatchRow row) {
        long start = System.nanoTime();
        call.beginChunk(call.selectedRows());
        Thread.interrupted();
        try {
            rule.process(new BatchView(row));
        } catch (Throwable thrown) {
            LoadedOperator operator = instance.operator();
            failAll(instance, 0, Thrown.reason(thrown), Thrown.text(thrown, operator.ruleName(0), operator.rules().get(0)));
        } finally {
            Thread.interrupted();
            instance.counters().add(0, call.selectedRows(), System.nanoTime() - start);
        }
    }

    private void failAll(Instance instance, int rule, long reason, String message) {
        for (int index = 0; index < call.selectedRows(); index++) {
            call.fail(index, new Failures.Failure(call.row(index), reason, rule, message));
        }
        instance.counters().addFailures(rule, call.selectedRows());
    }

    private void runChunks(Instance instance, Rule[] rules, BatchRow row) {
        int end = call.selectedRows();
        for (int first = 0; first < end; first += CHUNK_ROWS) {
            int last = Math.min(first + CHUNK_ROWS, end);
            call.beginChunk(last - first);
            for (int rule = 0; rule < rules.length; rule++) {
                long start = System.nanoTime();
                int rows = runChunk(instance, rules[rule], rule, row, first, last);
                instance.counters().add(rule, rows, System.nanoTime() - start);
            }
        }
    }

    /** Runs a rule for the rows of a chunk. Returns the number of rows. */
    private int runChunk(Instance instance, Rule rule, int number, BatchRow row, int first, int last) {
        int rows = 0;
        for (int index = first; index < last; index++) {
            if (call.isLive(index)) {
                rows++;
                row.move(call.row(index), index, index - first);
                call.beginRow();
                watch.beginRow();
                try {
                    rule.process(row);
                } catch (Throwable thrown) {
                    fail(instance, number, index, thrown);
                }
            }
        }
        return rows;
    }

    private void fail(Instance instance, int rule, int index, Throwable thrown) {
        boolean isLate = watch.endRow();
        LoadedOperator operator = instance.operator();
        long reason = isLate ? Layout.REASON_TIMEOUT : Thrown.reason(thrown);
        String message = isLate
                ? "exceeds its timeout of " + operator.rowTimeoutMs() + " ms"
                : Thrown.text(thrown, operator.ruleName(rule), operator.rules().get(rule));
        call.fail(index, new Failures.Failure(call.row(index), reason, rule, message));
        instance.counters().addFailures(rule, 1);
    }
}
