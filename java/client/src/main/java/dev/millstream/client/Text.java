package dev.millstream.client;

/** Encodes text as UTF-8 msgpack strings without allocation. */
final class Text {
    /** Maximum size of a string header. */
    static final int HEADER_MAX = 3;

    /** Maximum length of a string in bytes, which the header can encode. */
    private static final int BYTES_MAX = 0xFFFF;

    private Text() {}

    /** Returns the UTF-8 length of a text, or -1 if the text contains unpaired surrogates or control characters or exceeds 65,535 bytes. */
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

    /** Writes a string whose length is the result of {@link #bytes}. Returns the end of the string. */
    static int write(byte[] out, int at, CharSequence text, int bytes) {
        at = writeHeader(out, at, bytes);
        int length = text.length();
        if (bytes == length) {
            for (int from = 0; from < length; from++) {
                out[at++] = (byte) text.charAt(from);
            }
            return at;
        }
        for (int from = 0; from < length; from++) {
            int codepoint = Character.codePointAt(text, from);
            from += Character.charCount(codepoint) - 1;
            at = writeCodepoint(out, at, codepoint);
        }
        return at;
    }

    /** Writes the header of a string of up to 65,535 bytes. Returns the end of the header. */
    static int writeHeader(byte[] out, int at, int bytes) {
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

    private static int writeCodepoint(byte[] out, int at, int codepoint) {
        if (codepoint < 0x80) {
            out[at++] = (byte) codepoint;
            return at;
        }
        if (codepoint < 0x800) {
            out[at++] = (byte) (0xC0 | codepoint >> 6);
        } else {
            if (codepoint < 0x10000) {
                out[at++] = (byte) (0xE0 | codepoint >> 12);
            } else {
                out[at++] = (byte) (0xF0 | codepoint >> 18);
                out[at++] = (byte) (0x80 | codepoint >> 12 & 0x3F);
            }
            out[at++] = (byte) (0x80 | codepoint >> 6 & 0x3F);
        }
        out[at++] = (byte) (0x80 | codepoint & 0x3F);
        return at;
    }
}
