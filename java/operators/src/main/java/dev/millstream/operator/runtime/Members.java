package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;
import java.util.List;

/** Finds members of JSON objects that have no column. The members must be valid JSON; in other input, nothing is found. */
final class Members {
    private byte[] json;
    private int length;
    private int at;
    private int nameStart;
    private int nameEnd;
    private boolean isNameEscaped;

    /**
     * Returns the cell of a member.
     *
     * @param cell the cell of all members
     * @param base the address of the cell's buffer
     * @return the cell of the value in the same buffer, or {@link Cells#ABSENT}
     */
    long find(Decoder decoder, long cell, long base, String name) {
        begin(decoder, cell, base);
        while (nextName()) {
            boolean isWanted = isName(name);
            int start = at;
            skipValue();
            if (isWanted) {
                return value(cell, start, at);
            }
        }
        return Cells.ABSENT;
    }

    /** Appends the names of the members. */
    void names(Decoder decoder, long cell, long base, List<String> names) {
        begin(decoder, cell, base);
        while (nextName()) {
            names.add(name());
            skipValue();
        }
    }

    private void begin(Decoder decoder, long cell, long base) {
        length = Cells.kind(cell) == Layout.KIND_MEMBERS ? Cells.length(cell) : 0;
        json = decoder.read(base + Cells.start(cell), length);
        at = 0;
    }

    private int current() {
        while (at < length && json[at] <= ' ' && json[at] >= 0) {
            at++;
        }
        return at < length ? json[at] : -1;
    }

    /** Moves to the value of the next member. Returns false if there is none. */
    private boolean nextName() {
        if (current() == ',') {
            at++;
        }
        if (current() != '"') {
            return false;
        }
        nameStart = at + 1;
        isNameEscaped = skipString();
        nameEnd = at - 1;
        if (current() != ':') {
            return false;
        }
        at++;
        return current() >= 0;
    }

    /** Moves past a string. Returns whether the string contains escapes. */
    private boolean skipString() {
        boolean isEscaped = false;
        at++;
        while (at < length && json[at] != '"') {
            if (json[at] == '\\') {
                isEscaped = true;
                at++;
            }
            at++;
        }
        at = Math.min(at + 1, length);
        return isEscaped;
    }

    private void skipValue() {
        int depth = 0;
        while (at < length) {
            byte each = json[at];
            if (each == '"') {
                skipString();
                continue;
            }
            if (each == '{' || each == '[') {
                depth++;
            } else if (each == '}' || each == ']') {
                depth--;
            } else if (each == ',' && depth == 0) {
                return;
            }
            at++;
        }
    }

    private boolean isName(String wanted) {
        boolean isPlain = !isNameEscaped;
        for (int index = 0; index < wanted.length() && isPlain; index++) {
            char each = wanted.charAt(index);
            isPlain = each < 0x80;
            if (isPlain && (nameStart + index >= nameEnd || json[nameStart + index] != each)) {
                return false;
            }
        }
        return isPlain ? nameEnd - nameStart == wanted.length() : name().equals(wanted);
    }

    private String name() {
        String raw = new String(json, nameStart, Math.max(nameEnd - nameStart, 0), StandardCharsets.UTF_8);
        return isNameEscaped ? Decoder.unescape(raw) : raw;
    }

    private long value(long cell, int start, int end) {
        int last = end;
        while (last > start && json[last - 1] <= ' ' && json[last - 1] >= 0) {
            last--;
        }
        long kind = kind(start, last);
        boolean isString = kind == Layout.KIND_ESCAPED;
        long from = isString ? start + 1 : start;
        long size = isString ? Math.max(last - start - 2, 0) : last - start;
        return kind << Layout.CELL_KIND_SHIFT | size << Layout.CELL_LENGTH_SHIFT | (Cells.start(cell) + from);
    }

    private long kind(int start, int end) {
        return switch (json[start]) {
            case '"' -> Layout.KIND_ESCAPED;
            case '{' -> Layout.KIND_OBJECT;
            case '[' -> Layout.KIND_ARRAY;
            case 't' -> Layout.KIND_TRUE;
            case 'f' -> Layout.KIND_FALSE;
            case 'n' -> Layout.KIND_NULL;
            default -> isInteger(start, end) ? Layout.KIND_INT : Layout.KIND_FLOAT;
        };
    }

    private boolean isInteger(int start, int end) {
        for (int index = start; index < end; index++) {
            if (json[index] == '.' || json[index] == 'e' || json[index] == 'E') {
                return false;
            }
        }
        return true;
    }
}
