package dev.millstream.operator.runtime;

import java.util.concurrent.atomic.AtomicLongArray;

/** Counters of an operator's rules on one worker. The worker writes the counters, and any thread may read them. */
final class RuleCounters {
    private static final int ROWS = 0;
    private static final int FAILURES = 1;
    private static final int NS = 2;
    private static final int WORDS = 3;

    private final AtomicLongArray words;

    RuleCounters(int rules) {
        words = new AtomicLongArray(rules * WORDS);
    }

    void add(int rule, long rows, long ns) {
        increase(rule * WORDS + ROWS, rows);
        increase(rule * WORDS + NS, ns);
    }

    void addFailures(int rule, long failures) {
        increase(rule * WORDS + FAILURES, failures);
    }

    private void increase(int word, long by) {
        // There is only one writer, so the addition need not be atomic.
        words.setOpaque(word, words.getPlain(word) + by);
    }

    long rows(int rule) {
        return words.getOpaque(rule * WORDS + ROWS);
    }

    long failures(int rule) {
        return words.getOpaque(rule * WORDS + FAILURES);
    }

    long ns(int rule) {
        return words.getOpaque(rule * WORDS + NS);
    }
}
