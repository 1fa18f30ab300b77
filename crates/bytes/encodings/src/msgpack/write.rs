//! Writes the msgpack items of a block. Each item has its shortest form.

/// Maximum absolute value that is encoded as an integer. Above this value, floats cannot represent
/// every integer.
const INTEGER_MAX: i64 = 1 << 53;

/// Appends a nonnegative integer.
#[inline(always)]
pub fn push_uint(number: u64, out: &mut Vec<u8>) {
    match number {
        0..=0x7F => out.push(number as u8),
        0x80..=0xFF => out.extend_from_slice(&[0xCC, number as u8]),
        0x100..=0xFFFF => push_prefixed(0xCD, (number as u16).to_be_bytes(), out),
        0x1_0000..=0xFFFF_FFFF => push_prefixed(0xCE, (number as u32).to_be_bytes(), out),
        _ => push_prefixed(0xCF, number.to_be_bytes(), out),
    }
}

/// Appends an integer.
#[inline(always)]
pub fn push_int(number: i64, out: &mut Vec<u8>) {
    match number {
        0.. => push_uint(number as u64, out),
        -32..0 => out.push(number as u8),
        -0x80..-32 => out.extend_from_slice(&[0xD0, number as u8]),
        -0x8000..-0x80 => push_prefixed(0xD1, (number as i16).to_be_bytes(), out),
        -0x8000_0000..-0x8000 => push_prefixed(0xD2, (number as i32).to_be_bytes(), out),
        _ => push_prefixed(0xD3, number.to_be_bytes(), out),
    }
}

/// Appends a finite number, as an integer if it is integral, otherwise as the shortest exact float.
#[inline(always)]
pub fn push_number(number: f64, out: &mut Vec<u8>) {
    let integer = number as i64;
    if integer as f64 == number && (-INTEGER_MAX..=INTEGER_MAX).contains(&integer) {
        return push_int(integer, out);
    }
    let short = number as f32;
    if f64::from(short) == number {
        return push_prefixed(0xCA, short.to_be_bytes(), out);
    }
    push_prefixed(0xCB, number.to_be_bytes(), out);
}

/// Appends a string.
#[inline(always)]
pub fn push_string(text: &[u8], out: &mut Vec<u8>) {
    match text.len() {
        len @ 0..=31 => out.push(0xA0 | len as u8),
        len @ 32..=0xFF => out.extend_from_slice(&[0xD9, len as u8]),
        len @ 0x100..=0xFFFF => push_prefixed(0xDA, (len as u16).to_be_bytes(), out),
        len => push_prefixed(0xDB, (len as u32).to_be_bytes(), out),
    }
    out.extend_from_slice(text);
}

/// Appends an array header.
#[inline]
pub fn push_array(len: usize, out: &mut Vec<u8>) {
    match len {
        0..=15 => out.push(0x90 | len as u8),
        16..=0xFFFF => push_prefixed(0xDC, (len as u16).to_be_bytes(), out),
        _ => push_prefixed(0xDD, (len as u32).to_be_bytes(), out),
    }
}

/// Appends a map header.
pub fn push_map(len: usize, out: &mut Vec<u8>) {
    match len {
        0..=15 => out.push(0x80 | len as u8),
        16..=0xFFFF => push_prefixed(0xDE, (len as u16).to_be_bytes(), out),
        _ => push_prefixed(0xDF, (len as u32).to_be_bytes(), out),
    }
}

#[inline(always)]
fn push_prefixed<const BYTES: usize>(prefix: u8, bytes: [u8; BYTES], out: &mut Vec<u8>) {
    let mut item = [prefix; 9];
    item[1..=BYTES].copy_from_slice(&bytes);
    out.extend_from_slice(&item[..=BYTES]);
}
