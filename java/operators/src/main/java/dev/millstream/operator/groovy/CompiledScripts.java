package dev.millstream.operator.groovy;

import dev.millstream.operator.groovy.CompiledScript.ClassFile;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.zip.CRC32;

/**
 * Compiled scripts as text, which another process converts to classes without a compiler.
 *
 * <p>The text is the Base64 encoding of these values, in big-endian order. A name consists of its number of characters (int) and the
 * characters (char each).
 *
 * <ol>
 *   <li>{@link #FORMAT} (int), the checksum of all following bytes (int), and the {@link ScriptKey} (long);
 *   <li>the name of the script's class, and the numbers of removed and dynamic calls (int each);
 *   <li>the number of fields (int), and the name of each field;
 *   <li>the number of classes (int), and for each class its name, its length in bytes (int) and its bytes.
 * </ol>
 */
final class CompiledScripts {
    /** Version of the format. The number begins with the letters MS, so that other data is not mistaken for a script. */
    private static final int FORMAT = 0x4D53_0001;
    private static final int HEADER_BYTES = 2 * Integer.BYTES;

    private CompiledScripts() {}

    /** Returns a script as text. */
    static String write(CompiledScript script, long key) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.write(new byte[HEADER_BYTES]);
            out.writeLong(key);
            writeScript(out, script);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        byte[] blob = bytes.toByteArray();
        ByteBuffer.wrap(blob).putInt(FORMAT).putInt(checksum(blob));
        return Base64.getEncoder().encodeToString(blob);
    }

    private static void writeScript(DataOutputStream out, CompiledScript script) throws IOException {
        writeName(out, script.className());
        out.writeInt(script.removedCalls());
        out.writeInt(script.dynamicCalls());
        out.writeInt(script.fields().size());
        for (String field : script.fields()) {
            writeName(out, field);
        }
        out.writeInt(script.classes().size());
        for (ClassFile each : script.classes()) {
            writeName(out, each.name());
            out.writeInt(each.bytes().length);
            out.write(each.bytes());
        }
    }

    /** Writes a name. {@code writeUTF} would refuse a name of more than 64 KiB. */
    private static void writeName(DataOutputStream out, String name) throws IOException {
        out.writeInt(name.length());
        out.writeChars(name);
    }

    /**
     * Returns the script in a text.
     *
     * @return null if there is no text, if the text is damaged, or if the text belongs to another key or format
     */
    static CompiledScript read(String text, long key) {
        if (text == null) {
            return null;
        }
        try {
            byte[] blob = Base64.getDecoder().decode(text);
            return isOf(blob, key) ? readScript(blob) : null;
        } catch (IllegalArgumentException | IOException damaged) {
            return null;
        }
    }

    private static boolean isOf(byte[] blob, long key) {
        if (blob.length < HEADER_BYTES + Long.BYTES) {
            return false;
        }
        ByteBuffer header = ByteBuffer.wrap(blob);
        return header.getInt() == FORMAT && header.getInt() == checksum(blob) && header.getLong() == key;
    }

    private static int checksum(byte[] blob) {
        CRC32 checksum = new CRC32();
        checksum.update(blob, HEADER_BYTES, blob.length - HEADER_BYTES);
        return (int) checksum.getValue();
    }

    /** Reads a script whose checksum is correct. */
    private static CompiledScript readScript(byte[] blob) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(blob));
        in.skipNBytes(HEADER_BYTES + Long.BYTES);
        String className = readName(in);
        int removedCalls = in.readInt();
        int dynamicCalls = in.readInt();
        List<String> fields = new ArrayList<>();
        for (int left = in.readInt(); left > 0; left--) {
            fields.add(readName(in));
        }
        List<ClassFile> classes = new ArrayList<>();
        for (int left = in.readInt(); left > 0; left--) {
            classes.add(new ClassFile(readName(in), in.readNBytes(in.readInt())));
        }
        return new CompiledScript(className, classes, fields, removedCalls, dynamicCalls);
    }

    private static String readName(DataInputStream in) throws IOException {
        char[] name = new char[in.readInt()];
        for (int at = 0; at < name.length; at++) {
            name[at] = in.readChar();
        }
        return new String(name);
    }
}
