package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** The failed rows of a call. */
final class Failures {
    private final List<Failure> all = new ArrayList<>();

    /**
     * A failed row.
     *
     * @param row the row number
     * @param reason one of REASON
     * @param rule the rule number
     * @param message the reason as text
     */
    record Failure(int row, long reason, int rule, String message) {}

    void add(Failure failure) {
        all.add(failure);
    }

    void clear() {
        all.clear();
    }

    int count() {
        return all.size();
    }

    /** Returns the maximum number of bytes that a failure takes in the answer if it is the next failure. */
    long bytesMax(Failure failure) {
        boolean isRepeated = !all.isEmpty() && all.get(all.size() - 1).message.equals(failure.message);
        return Layout.FAILED_WORDS * 8 + (isRepeated ? 0 : failure.message.length() * 3L);
    }

    /** Writes the messages, then the failures. Returns the offset of the failures. */
    long write(Out out) {
        all.sort(Comparator.comparingInt(Failure::row));
        long[] words = new long[all.size() * (int) Layout.FAILED_WORDS];
        String last = null;
        for (int at = 0; at < all.size(); at++) {
            Failure failure = all.get(at);
            int word = at * (int) Layout.FAILED_WORDS;
            words[word + (int) Layout.FAILED_ROW] = failure.row;
            words[word + (int) Layout.FAILED_REASON] = failure.reason;
            words[word + (int) Layout.FAILED_RULE] = failure.rule;
            if (!failure.message.equals(last)) {
                last = failure.message;
                byte[] text = last.getBytes(StandardCharsets.UTF_8);
                Memory.write(text, text.length, out.room(text.length));
                words[word + (int) Layout.FAILED_MESSAGE] = out.append(text.length);
                words[word + (int) Layout.FAILED_MESSAGE_BYTES] = text.length;
            }
        }
        out.align();
        Memory.write(words, words.length, out.room(words.length * 8L));
        return out.append(words.length * 8L);
    }
}
