//! The memory that the chain takes for one block.

use super::{Node, Op};
use millstream_model::SinkSet;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES, ROW_BYTES};

/// Returns the most bytes that the chain to the sinks in `downstream` makes of one block.
pub fn chain_expansion(downstream: SinkSet, nodes: &[Node]) -> u64 {
    let rows = BATCH_ROWS_MAX as u64;
    let payload = |node: &Node| match &node.op {
        Op::Sink(slot) if downstream.contains(slot.index) => {
            slot.sink.payload_bytes_max(BLOCK_BYTES as u64, rows)
        }
        Op::Offload(queue) if !(downstream & node.downstream).is_empty() => {
            queue.transform.output_bytes_max()
        }
        // The output of other transforms takes about as much memory as their input.
        Op::Map(_) | Op::Serial(_) if !(downstream & node.downstream).is_empty() => {
            BLOCK_BYTES as u64
        }
        _ => 0,
    };
    nodes.iter().map(payload).sum::<u64>() + rows * ROW_BYTES as u64
}
