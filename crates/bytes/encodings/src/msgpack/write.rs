//! The parts of msgpack that blocks are made of, each in its shortest form.

/// Whole numbers up to here are written as such; above, not every one of them is a float.
const WHOLE_MAX: i64 = 1 << 53;

/// Appends a number that is 0 or more.
#[inline(always)]
pub fn push_uint(number: u64, out: &mut Vec<u8>) {
    match number {
        0..=0x7F => out.push(number as u8),
        0x80..=0xFF => out.extend_from_slice(&[0xCC, number as u8]),
        0x100..=0xFFFF => push_marked(0xCD, (number as u16).to_be_bytes(), out),
        0x1_0000..=0xFFFF_FFFF => push_marked(0xCE, (number as u32).to_be_bytes(), out),
        _ => push_marked(0xCF, number.to_be_bytes(), out),
    }
}

/// Appends a whole number.
#[inline(always)]
pub fn push_int(number: i64, out: &mut Vec<u8>) {
    match number {
        0.. => push_uint(number as u64, out),
        -32..0 => out.push(number as u8),
        -0x80..-32 => out.extend_from_slice(&[0xD0, number as u8]),
        -0x8000..-0x80 => push_marked(0xD1, (number as i16).to_be_bytes(), out),
        -0x8000_0000..-0x8000 => push_marked(0xD2, (number as i32).to_be_bytes(), out),
        _ => push_marked(0xD3, number.to_be_bytes(), out),
    }
}

/// Appends a finite number: as a whole one if it is one, else as the shortest float that is the
/// same.
#[inline(always)]
pub fn push_number(number: f64, out: &mut Vec<u8>) {
    let whole = number as i64;
    if whole as f64 == number && (-WHOLE_MAX..=WHOLE_MAX).contains(&whole) {
        return push_int(whole, out);
    }
    let short = number as f32;
    if f64::from(short) == number {
        return push_marked(0xCA, short.to_be_bytes(), out);
    }
    push_marked(0xCB, number.to_be_bytes(), out);
}

/// Appends a string.
#[inline(always)]
pub fn push_text(text: &[u8], out: &mut Vec<u8>) {
    match text.len() {
        len @ 0..=31 => out.push(0xA0 | len as u8),
        len @ 32..=0xFF => out.extend_from_slice(&[0xD9, len as u8]),
        len @ 0x100..=0xFFFF => push_marked(0xDA, (len as u16).to_be_bytes(), out),
        len => push_marked(0xDB, (len as u32).to_be_bytes(), out),
    }
    out.extend_from_slice(text);
}

/// Appends the beginning of an array of so many elements.
#[inline]
pub fn push_array(len: usize, out: &mut Vec<u8>) {
    match len {
        0..=15 => out.push(0x90 | len as u8),
        16..=0xFFFF => push_marked(0xDC, (len as u16).to_be_bytes(), out),
        _ => push_marked(0xDD, (len as u32).to_be_bytes(), out),
    }
}

/// Appends the beginning of a map of so many members.
pub fn push_map(len: usize, out: &mut Vec<u8>) {
    match len {
        0..=15 => out.push(0x80 | len as u8),
        16..=0xFFFF => push_marked(0xDE, (len as u16).to_be_bytes(), out),
        _ => push_marked(0xDF, (len as u32).to_be_bytes(), out),
    }
}

#[inline(always)]
fn push_marked<const BYTES: usize>(mark: u8, bytes: [u8; BYTES], out: &mut Vec<u8>) {
    let mut both = [mark; 9];
    both[1..=BYTES].copy_from_slice(&bytes);
    out.extend_from_slice(&both[..=BYTES]);
}
