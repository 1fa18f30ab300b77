//! Maps keys to partitions in the same way as other Kafka clients.

use rdkafka::bindings::{
    rd_kafka_msg_partitioner_consistent, rd_kafka_msg_partitioner_fnv1a,
    rd_kafka_msg_partitioner_murmur2,
};
use std::ptr::{null, null_mut};

/// A hash that maps keys to partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHash {
    /// The default in Kafka's Java client.
    Murmur2,
    /// The hash in librdkafka's default partitioner.
    Crc32,
    /// The default in Sarama, a Go client.
    Fnv1a,
}

impl KeyHash {
    /// Returns the partition for `key`. `partitions` is the number of partitions; values below 1
    /// count as 1.
    pub fn partition(self, key: &[u8], partitions: i32) -> i32 {
        let hash = match self {
            KeyHash::Murmur2 => rd_kafka_msg_partitioner_murmur2,
            KeyHash::Crc32 => rd_kafka_msg_partitioner_consistent,
            KeyHash::Fnv1a => rd_kafka_msg_partitioner_fnv1a,
        };
        // SAFETY: the functions only read `key` and `partitions`; they ignore the topic and the
        // opaque pointers.
        unsafe {
            hash(null(), key.as_ptr().cast(), key.len(), partitions.max(1), null_mut(), null_mut())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_match_those_of_other_clients() {
        // Test vectors for murmur2 from Kafka (UtilsTest), as partitions out of 1,000.
        let java = |key: &str, hash: i32| {
            let expected = (hash & 0x7fff_ffff) % 1000;
            assert_eq!(KeyHash::Murmur2.partition(key.as_bytes(), 1000), expected, "{key}");
        };
        java("21", -973_932_308);
        java("foobar", -790_332_482);
        java("a-little-bit-long-string", -985_981_536);
        // CRC-32 of "123456789" is 0xcbf43926 (its standard check value).
        assert_eq!(KeyHash::Crc32.partition(b"123456789", 1000), (0xcbf4_3926_u32 % 1000) as i32);
        assert_eq!(KeyHash::Fnv1a.partition(b"any", 1), 0);
    }
}
