package dev.millstream.javaagent;

import java.util.ArrayList;
import java.util.List;

/** Tags as alternating keys and values. Values contain only characters that the protocol accepts. */
final class Tags {
    /** Tag value of the series for all values beyond the bound. */
    static final String OTHER = "other";

    /** Maximum length of a value, so that all tags fit within the protocol's limit. */
    private static final int VALUE_MAX = 200;

    private final List<String> pairs;

    private Tags(List<String> pairs) {
        this.pairs = pairs;
    }

    static Tags of(String... pairs) {
        return new Tags(List.of()).with(pairs);
    }

    /** Returns these tags plus the given tags. */
    Tags with(String... more) {
        List<String> all = new ArrayList<>(pairs);
        for (int at = 0; at < more.length; at += 2) {
            all.add(more[at]);
            all.add(clean(more[at + 1]));
        }
        return new Tags(all);
    }

    String[] pairs() {
        return pairs.toArray(new String[0]);
    }

    /** Returns the tags in protocol syntax. */
    String text() {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < pairs.size(); at += 2) {
            text.append(at == 0 ? "" : "|").append(pairs.get(at)).append('=').append(pairs.get(at + 1));
        }
        return text.toString();
    }

    /** Cuts a value to the maximum length, and replaces characters that the protocol refuses. */
    static String clean(String value) {
        if (value == null || value.isEmpty()) {
            return "unknown";
        }
        StringBuilder clean = new StringBuilder(value.substring(0, Math.min(value.length(), VALUE_MAX)));
        for (int at = 0; at < clean.length(); at++) {
            char c = clean.charAt(at);
            // Replace surrogates, because cutting could leave half of a pair. Names with such characters are rare.
            if (c <= ' ' || c == 0x7F || c == '|' || c == '=' || Character.isSurrogate(c)) {
                clean.setCharAt(at, '_');
            }
        }
        return clean.toString();
    }
}
