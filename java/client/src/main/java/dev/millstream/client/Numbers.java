package dev.millstream.client;

import java.math.BigInteger;

/** Formats numbers without allocation. */
final class Numbers {
    /** Maximum length of a number in bytes: a sign, 19 digits, and an exponent with a sign and three digits. */
    static final int BYTES_MAX = 25;

    /** Maximum number of decimals before a number is written with an exponent. */
    private static final int DECIMALS_MAX = 18;

    /** Largest magnitude up to which doubles represent every integer exactly. */
    private static final double EXACT_MAX = 1L << 53;

    /** Powers of ten from 10^0, all exact as doubles and longs. */
    private static final double[] POWERS = new double[DECIMALS_MAX + 1];
    private static final long[] LONG_POWERS = new long[DECIMALS_MAX + 1];

    /** Range of the powers of ten that scale any double to 18 digits. */
    private static final int SCALE_MIN = -292;
    private static final int SCALE_MAX = 342;

    /** {@code 10^(SCALE_MIN + i)} is {@code SCALES[i] * 2^SHIFTS[i]}, truncated to 63 bits. */
    private static final long[] SCALES = new long[SCALE_MAX - SCALE_MIN + 1];
    private static final int[] SHIFTS = new int[SCALES.length];

    private static final int SCALE_BITS = 63;

    static {
        long power = 1;
        for (int at = 0; at <= DECIMALS_MAX; at++) {
            LONG_POWERS[at] = power;
            POWERS[at] = power;
            power *= 10;
        }
        for (int at = 0; at < SCALES.length; at++) {
            scale(at);
        }
    }

    private Numbers() {}

    private static void scale(int at) {
        int exponent = SCALE_MIN + at;
        BigInteger power = BigInteger.TEN.pow(Math.abs(exponent));
        int lifted = 0;
        if (exponent < 0) {
            lifted = power.bitLength() + SCALE_BITS;
            power = BigInteger.ONE.shiftLeft(lifted).divide(power);
        }
        int shift = power.bitLength() - SCALE_BITS;
        SCALES[at] = power.shiftRight(shift).longValueExact();
        SHIFTS[at] = shift - lifted;
    }

    /**
     * Writes a finite number so that it parses back to the same double. Returns the end of the number. A number that 15 or 16 digits can
     * represent is written in decimal notation, such as 0.25. Any other number has 17 or 18 digits and an exponent, such as
     * 300000000000000044e-18.
     */
    static int write(byte[] out, int at, double value) {
        long whole = (long) value;
        if (whole == value) {
            return write(out, at, whole);
        }
        if (value < 0) {
            out[at++] = '-';
            value = -value;
        }
        for (int decimals = 1; decimals <= DECIMALS_MAX; decimals++) {
            double scaled = value * POWERS[decimals];
            if (scaled >= EXACT_MAX) {
                break;
            }
            long digits = (long) (scaled + 0.5);
            // Both operands are exact, so the quotient is the double that these digits parse to.
            if (digits / POWERS[decimals] == value) {
                return decimal(out, at, digits, decimals);
            }
        }
        return scientific(out, at, value);
    }

    private static int decimal(byte[] out, int at, long digits, int decimals) {
        long power = LONG_POWERS[decimals];
        at = write(out, at, digits / power);
        out[at] = '.';
        int end = at + 1 + decimals;
        long rest = digits % power;
        for (int position = end - 1; position > at; position--) {
            out[position] = (byte) ('0' + rest % 10);
            rest /= 10;
        }
        return end;
    }

    /**
     * Writes a positive number with 17 or 18 digits. The digits are truncated rather than rounded: the relative error is less than 2^-56,
     * while the adjacent doubles are at least 2^-53 away.
     */
    private static int scientific(byte[] out, int at, double value) {
        long bits = Double.doubleToRawLongBits(value);
        int exponent = (int) (bits >>> 52);
        long mantissa = bits & (1L << 52) - 1;
        // Subnormal doubles have no hidden bit.
        mantissa = exponent == 0 ? mantissa : mantissa | 1L << 52;
        int power = Math.max(exponent, 1) - 1075;
        int lift = Long.numberOfLeadingZeros(mantissa) - 1;
        int scale = 17 - (int) Math.floor(Math.log10(value));
        int index = scale - SCALE_MIN;
        long high = Math.multiplyHigh(mantissa << lift, SCALES[index]);
        long digits = high >>> -(64 + power - lift + SHIFTS[index]);
        at = write(out, at, digits);
        out[at++] = 'e';
        return write(out, at, -scale);
    }

    /** Writes an integer. Returns the end of the integer. */
    static int write(byte[] out, int at, long value) {
        // Negate positive numbers, because the negative range of long is larger by one.
        long rest = value < 0 ? value : -value;
        if (value < 0) {
            out[at++] = '-';
        }
        int end = at + digits(rest);
        for (int position = end - 1; position >= at; position--) {
            long shorter = rest / 10;
            out[position] = (byte) ('0' + (shorter * 10 - rest));
            rest = shorter;
        }
        return end;
    }

    private static int digits(long negative) {
        int count = 1;
        for (long limit = -10; negative <= limit; limit *= 10) {
            count++;
            if (count == 19) {
                break;
            }
        }
        return count;
    }
}
