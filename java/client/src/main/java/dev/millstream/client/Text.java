package dev.millstream.client;

/** Text as UTF-8 in msgpack strings, without allocation. */
final class Text {
    /** Bytes in front of a string at most. */
    static final int HEAD_MAX = 3;

    /** Bytes that the head of a longer string cannot tell. */
    private static final int BYTES_MAX = 0xFFFF;

    private Text() {}

    /** Bytes of a text in UTF-8; -1 if it is none, as a surrogate stands alone, has control characters, or is longer than 65,535. */
    static int bytes(CharSequence text) {
        int length = text.length();
        int bytes = 0;
        for (int at = 0; at < length; at++) {
            char c = text.charAt(at);
            if (c < 0x80) {
                if (isControl(c)) {
                    return -1;
                }
                bytes++;
            } else if (!Character.isSurrogate(c)) {
                bytes += c < 0x800 ? 2 : 3;
            } else if (isPair(text, at)) {
                at++;
                bytes += 4;
            } else {
                return -1;
            }
        }
        return bytes <= BYTES_MAX ? bytes : -1;
    }

    private static boolean isControl(char c) {
        return c < ' ' || c == 0x7F;
    }

    private static boolean isPair(CharSequence text, int at) {
        return Character.isHighSurrogate(text.charAt(at)) && at + 1 < text.length() && Character.isLowSurrogate(text.charAt(at + 1));
    }

    /** Writes a string of which {@link #bytes} was asked; returns where it ends. */
    static int write(byte[] out, int at, CharSequence text, int bytes) {
        at = head(out, at, bytes);
        int length = text.length();
        if (bytes == length) {
            for (int from = 0; from < length; from++) {
                out[at++] = (byte) text.charAt(from);
            }
            return at;
        }
        for (int from = 0; from < length; from++) {
            int point = Character.codePointAt(text, from);
            from += Character.charCount(point) - 1;
            at = point(out, at, point);
        }
        return at;
    }

    private static int head(byte[] out, int at, int bytes) {
        if (bytes < 32) {
            out[at++] = (byte) (0xA0 | bytes);
        } else if (bytes < 0x100) {
            out[at++] = (byte) 0xD9;
            out[at++] = (byte) bytes;
        } else {
            out[at++] = (byte) 0xDA;
            out[at++] = (byte) (bytes >> 8);
            out[at++] = (byte) bytes;
        }
        return at;
    }

    private static int point(byte[] out, int at, int point) {
        if (point < 0x80) {
            out[at++] = (byte) point;
            return at;
        }
        if (point < 0x800) {
            out[at++] = (byte) (0xC0 | point >> 6);
        } else {
            if (point < 0x10000) {
                out[at++] = (byte) (0xE0 | point >> 12);
            } else {
                out[at++] = (byte) (0xF0 | point >> 18);
                out[at++] = (byte) (0x80 | point >> 12 & 0x3F);
            }
            out[at++] = (byte) (0x80 | point >> 6 & 0x3F);
        }
        out[at++] = (byte) (0x80 | point & 0x3F);
        return at;
    }
}
