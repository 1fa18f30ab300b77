//! LZ4 blocks behind their decompressed length.

use crate::numbers::number;

/// Appends up to `limit` decompressed bytes to `output`, and returns the complete length, or `None`
/// if the data is damaged.
pub(super) fn decompress(input: &[u8], limit: usize, output: &mut Vec<u8>) -> Option<u64> {
    let block = input.get(8..)?;
    let total = number(input, 0);
    let start = output.len();
    if total > limit as u64 {
        prefix(block, limit, output)?;
        return Some(total);
    }
    output.resize(start + total as usize, 0);
    let len = lz4_flex::block::decompress_into(block, &mut output[start..]).ok()?;
    (len as u64 == total).then_some(total)
}

/// Appends the first `limit` decompressed bytes of a block, which `lz4_flex` does only for complete
/// blocks.
fn prefix(mut block: &[u8], limit: usize, output: &mut Vec<u8>) -> Option<()> {
    let start = output.len();
    let end = start + limit;
    loop {
        let token = take(&mut block, 1)?[0];
        let literals = length(token >> 4, &mut block)?;
        let kept = literals.min(end - output.len());
        output.extend_from_slice(take(&mut block, kept)?);
        if output.len() == end {
            return Some(());
        }
        let distance = take(&mut block, 2)?;
        let distance = usize::from(u16::from_le_bytes([distance[0], distance[1]]));
        let copied = length(token & 15, &mut block)?.saturating_add(4);
        if distance == 0 || distance > output.len() - start {
            return None;
        }
        for _ in 0..copied.min(end - output.len()) {
            output.push(output[output.len() - distance]);
        }
        if output.len() == end {
            return Some(());
        }
    }
}

/// Returns a length whose first four bits are in the token. Bytes follow if they are all set.
fn length(bits: u8, block: &mut &[u8]) -> Option<usize> {
    let mut length = usize::from(bits);
    if bits == 15 {
        loop {
            let byte = take(block, 1)?[0];
            length = length.saturating_add(byte.into());
            if byte < 255 {
                break;
            }
        }
    }
    Some(length)
}

fn take<'a>(block: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = block.split_at_checked(len)?;
    *block = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    fn compressed(data: &[u8]) -> Vec<u8> {
        let block = lz4_flex::block::compress(data);
        [&(data.len() as u64).to_le_bytes()[..], &block].concat()
    }

    #[test]
    fn every_prefix_equals_the_data() {
        let data: Vec<u8> = (0..3000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        let input = compressed(&data);
        for limit in (0..data.len() + 2).step_by(97).chain([data.len(), data.len() - 1]) {
            let mut output = b"before".to_vec();
            assert_eq!(decompress(&input, limit, &mut output), Some(data.len() as u64));
            assert_eq!(output[6..], data[..limit.min(data.len())], "{limit}");
        }
    }

    #[test]
    fn damaged_blocks_are_errors() {
        let input = compressed(&b"text ".repeat(1000));
        for limit in [100, 10_000] {
            assert_eq!(decompress(&input[..9], limit, &mut Vec::new()), None);
            assert_eq!(decompress(&input[..7], limit, &mut Vec::new()), None);
        }
    }
}
