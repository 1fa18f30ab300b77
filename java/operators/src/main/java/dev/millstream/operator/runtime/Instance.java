package dev.millstream.operator.runtime;

import java.lang.reflect.InvocationTargetException;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** An operator instance on a worker. */
final class Instance {
    private static final long RETRY_NS = 1_000_000_000;

    private enum State {
        IDLE,
        RUNNING,
        /** Running, and closed after the call. */
        REMOVED,
        CLOSED
    }

    private final LoadedOperator operator;
    private final RuleCounters counters;
    private final AtomicReference<State> state = new AtomicReference<>(State.IDLE);
    private Rule[] rules;
    private String failure;
    private int failedRule;
    private long failedNs;

    Instance(LoadedOperator operator) {
        this.operator = operator;
        counters = new RuleCounters(operator.rules().size());
    }

    LoadedOperator operator() {
        return operator;
    }

    RuleCounters counters() {
        return counters;
    }

    /** Begins a call. Returns false if the operator was removed. */
    boolean enter() {
        return state.compareAndSet(State.IDLE, State.RUNNING);
    }

    /** Ends a call. */
    void leave() {
        if (!state.compareAndSet(State.RUNNING, State.IDLE)) {
            state.set(State.CLOSED);
            closeRules();
        }
    }

    /** Closes the rules now, or after the running call. */
    void remove() {
        while (true) {
            State known = state.get();
            boolean isIdle = known == State.IDLE;
            if (!isIdle && known != State.RUNNING) {
                return;
            }
            if (state.compareAndSet(known, isIdle ? State.CLOSED : State.REMOVED)) {
                if (isIdle) {
                    closeRules();
                }
                return;
            }
        }
    }

    /**
     * Returns the rules. The first call creates them. After a failure, a call tries again at most once per second.
     *
     * @return null if the rules could not be created; {@link #failure} then returns the reason
     */
    Rule[] rules() {
        boolean isDue = failure == null || System.nanoTime() - failedNs >= RETRY_NS;
        if (rules == null && isDue) {
            create();
        }
        return rules;
    }

    private void create() {
        List<CompiledRule> compiled = operator.rules();
        Rule[] created = new Rule[compiled.size()];
        for (int at = 0; at < created.length; at++) {
            try {
                created[at] = compiled.get(at).instance();
            } catch (Throwable error) {
                Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
                failure = "open: " + Thrown.text(cause, operator.ruleName(at), compiled.get(at));
                failedRule = at;
                failedNs = System.nanoTime();
                return;
            }
        }
        failure = null;
        rules = created;
    }

    String failure() {
        return failure;
    }

    int failedRule() {
        return failedRule;
    }

    private void closeRules() {
        Rule[] open = rules;
        rules = null;
        for (Rule rule : open == null ? new Rule[0] : open) {
            if (rule instanceof AutoCloseable closeable) {
                try {
                    closeable.close();
                } catch (Throwable error) {
                    operator.logClose(error);
                }
            }
        }
        operator.release();
    }
}
