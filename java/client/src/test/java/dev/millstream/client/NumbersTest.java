package dev.millstream.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.junit.jupiter.api.Test;

class NumbersTest {
    private final byte[] out = new byte[64];

    private String text(double value) {
        return text(Numbers.write(out, 3, value));
    }

    private String text(int end) {
        assertTrue(end - 3 <= Numbers.BYTES_MAX, () -> end - 3 + " bytes");
        return new String(out, 3, end - 3, StandardCharsets.US_ASCII);
    }

    private void check(double value) {
        // The client writes -0 as 0.
        double parsed = Double.parseDouble(text(value));
        assertEquals(value == 0 ? 0 : Double.doubleToLongBits(value), Double.doubleToLongBits(parsed), () -> value + ": " + text(value));
    }

    @Test
    void short_numbers_use_decimal_notation() {
        for (String expected : new String[] {"0", "1", "-1", "12.5", "0.25", "-0.1", "0.001", "0.3", "1234567.875", "99.99", "1000000",
            "0.000123", "123456789.123", "9007199254740993", "0.000000000000000001", "-9223372036854775808"}) {
            double value = Double.parseDouble(expected);
            assertEquals(value, Double.parseDouble(text(value)), expected);
            if (Math.abs(value) < 1L << 53) {
                assertEquals(expected, text(value));
            }
        }
    }

    @Test
    void long_numbers_have_an_exponent() {
        assertEquals("300000000000000044e-18", text(0.1 + 0.2));
        assertEquals("-300000000000000044e-18", text(-0.1 - 0.2));
        assertEquals("0.3333333333333333", text(1.0 / 3));
        assertEquals("179769313486231570e291", text(Double.MAX_VALUE));
    }

    @Test
    void edge_cases_round_trip() {
        for (double value : new double[] {0, -0.0, Double.MIN_VALUE, -Double.MIN_VALUE, Double.MIN_NORMAL, Math.nextDown(Double.MIN_NORMAL),
            Double.MAX_VALUE, -Double.MAX_VALUE, 0x1p53, 0x1p53 - 1, 0x1p63, 0x1p64, -0x1p63, 1e22, 1e23, 5e-324, 1e-308, Math.PI, Math.E,
            0.1 + 0.2, 1 / 3.0, 1e-18, 1e-19, 4.35, 2.675, 1e15 + 0.3}) {
            check(value);
        }
        for (int power = -1074; power < 1024; power++) {
            double value = Math.scalb(1.0, power);
            check(value);
            check(Math.nextDown(value));
            check(Math.nextUp(value));
        }
        for (int power = -323; power < 309; power++) {
            double value = Double.parseDouble("1e" + power);
            check(value);
            check(Math.nextDown(value));
            check(Math.nextUp(value));
        }
    }

    @Test
    void random_doubles_round_trip() {
        String given = System.getenv("SEED");
        long seed = given == null ? System.nanoTime() : Long.parseLong(given);
        System.out.println("SEED=" + seed + " replays this test");
        Random random = new Random(seed);
        for (int i = 0; i < 500_000; i++) {
            double value = Double.longBitsToDouble(random.nextLong());
            if (Double.isFinite(value)) {
                check(value);
            }
            check(random.nextDouble());
            check(random.nextInt(1_000_000_000) / 1e6);
            check(random.nextLong() / 1000.0);
        }
    }

    @Test
    void integers_have_all_their_digits() {
        long power = 1;
        for (int digits = 0; digits < 19; digits++, power *= 10) {
            for (long value : new long[] {power, power - 1, power + 1, -power, 1 - power, -1 - power}) {
                assertEquals(Long.toString(value), text(Numbers.write(out, 3, value)));
            }
        }
        for (long value : new long[] {Long.MAX_VALUE, Long.MIN_VALUE}) {
            assertEquals(Long.toString(value), text(Numbers.write(out, 3, value)));
        }
    }
}
