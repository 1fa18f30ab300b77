//! A Kafka cluster that acknowledges produce requests at once and keeps only counts, so that only
//! the producer is measured.
//!
//! The cluster supports one version of each request that a librdkafka producer sends. From the
//! header of a record batch it reads the number of records, and the sequence by which Kafka
//! deduplicates.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const METADATA: i16 = 3;
const FIND_COORDINATOR: i16 = 10;
const API_VERSIONS: i16 = 18;
const INIT_PRODUCER_ID: i16 = 22;
/// Supported version ranges; a client uses the highest version. Older versions, and requests that
/// no producer sends, are listed because librdkafka derives features from them: message format 2,
/// lz4.
const VERSIONS: &[(i16, i16, i16)] = &[
    (PRODUCE, 3, 7),
    (FETCH, 4, 11),
    (METADATA, 4, 4),
    (FIND_COORDINATOR, 0, 0),
    (API_VERSIONS, 0, 3),
    (INIT_PRODUCER_ID, 0, 1),
];
/// Version from which the response to API_VERSIONS has the compact form.
const API_VERSIONS_COMPACT: i16 = 3;
const NONE: i16 = 0;
const OUT_OF_ORDER: i16 = 45;
const DUPLICATE: i16 = 46;
const UNKNOWN_TOPIC: i16 = 3;
/// Maximum length of a valid request.
const REQUEST_BYTES_MAX: usize = 256 << 20;
/// Offsets of producer id, sequence and count in a record batch.
const PRODUCER_ID_AT: usize = 43;
const SEQUENCE_AT: usize = 53;
const COUNT_AT: usize = 57;

type Topics = HashMap<String, Vec<Partition>>;

#[derive(Default)]
struct Partition {
    records: i64,
    /// Sequence of the next batch, by producer.
    sequences: HashMap<i64, i32>,
}

/// Number of brokers in the cluster: several, because clients work per broker.
const NODES: usize = 2;

/// A cluster on loopback ports. Each connection has a thread, which ends with the connection.
pub struct Sinkhole {
    ports: [u16; NODES],
    topics: Arc<Mutex<Topics>>,
}

impl Sinkhole {
    /// Starts the cluster on the cores of the calling thread.
    pub fn start() -> io::Result<Self> {
        let topics = Arc::new(Mutex::new(Topics::new()));
        let mut ports = [0; NODES];
        let mut listeners = Vec::new();
        for port in &mut ports {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            *port = listener.local_addr()?.port();
            listeners.push(listener);
        }
        for listener in listeners {
            let connection = Connection { ports, topics: topics.clone() };
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let connection = connection.clone();
                    thread::spawn(move || connection.serve(stream));
                }
            });
        }
        Ok(Sinkhole { ports, topics })
    }

    /// Returns the address of a broker, in the format that clients expect.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    /// Creates a topic.
    pub fn create_topic(&self, name: &str, partitions: usize) {
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        self.topics.lock().insert(name.to_owned(), partitions);
    }

    /// Removes a topic and returns its number of records.
    pub fn take(&self, name: &str) -> u64 {
        let partitions = self.topics.lock().remove(name).unwrap_or_default();
        partitions.iter().map(|partition| partition.records as u64).sum()
    }
}

#[derive(Clone)]
struct Connection {
    ports: [u16; NODES],
    topics: Arc<Mutex<Topics>>,
}

impl Connection {
    fn serve(self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut size, mut request) = ([0; 4], Vec::new());
        loop {
            stream.read_exact(&mut size)?;
            let len = u32::from_be_bytes(size) as usize;
            if len > REQUEST_BYTES_MAX {
                return Err(bad("a request that is too long"));
            }
            if request.len() < len {
                request.resize(len, 0);
            }
            stream.read_exact(&mut request[..len])?;
            if let Some(mut answer) = self.answer(&mut Reader(&request[..len]))? {
                let len = answer.0.len() as u32 - 4;
                answer.0[..4].copy_from_slice(&len.to_be_bytes());
                stream.write_all(&answer.0)?;
            }
        }
    }

    /// Returns the response after space for its length; `None` for a produce request without
    /// acknowledgements.
    fn answer(&self, request: &mut Reader) -> io::Result<Option<Writer>> {
        let (key, version, correlation) = (request.i16()?, request.i16()?, request.i32()?);
        let mut answer = Writer(vec![0; 4]);
        answer.i32(correlation);
        if key == API_VERSIONS {
            api_versions(version, &mut answer);
            return Ok(Some(answer));
        }
        // Both versions of INIT_PRODUCER_ID are equal.
        let is_last = |(of, _, last): &(i16, i16, i16)| {
            *of == key && (*last == version || key == INIT_PRODUCER_ID)
        };
        if !VERSIONS.iter().any(is_last) {
            return Err(bad("a request this broker does not know"));
        }
        request.text()?;
        match key {
            PRODUCE => {
                return self.produce(request, &mut answer).map(|wanted| wanted.then_some(answer));
            }
            METADATA => self.metadata(request, &mut answer)?,
            INIT_PRODUCER_ID => {
                static PRODUCERS: AtomicI64 = AtomicI64::new(1);
                answer.i32(0).i16(NONE).i64(PRODUCERS.fetch_add(1, Ordering::Relaxed)).i16(0);
            }
            _ => return Err(bad("a request of a consumer")),
        }
        Ok(Some(answer))
    }

    fn metadata(&self, request: &mut Reader, answer: &mut Writer) -> io::Result<()> {
        // A count of -1 requests all topics.
        let count = request.i32()?;
        let topics = self.topics.lock();
        let wanted = match count {
            -1 => topics.keys().cloned().collect(),
            count => (0..count).map(|_| request.text()).collect::<io::Result<Vec<String>>>()?,
        };
        answer.i32(0).i32(NODES as i32);
        for (node, port) in self.ports.iter().enumerate() {
            answer.i32(node as i32).text("127.0.0.1").i32(i32::from(*port)).no_text();
        }
        answer.no_text().i32(0).i32(wanted.len() as i32);
        for name in wanted {
            let partitions = topics.get(&name).map_or(0, Vec::len);
            answer
                .i16(if partitions > 0 { NONE } else { UNKNOWN_TOPIC })
                .text(&name)
                .i8(0)
                .i32(partitions as i32);
            for partition in 0..partitions as i32 {
                let node = partition % NODES as i32;
                answer.i16(NONE).i32(partition).i32(node).i32(1).i32(node).i32(1).i32(node);
            }
        }
        Ok(())
    }

    /// Counts the batches; returns whether the producer expects a response.
    fn produce(&self, request: &mut Reader, answer: &mut Writer) -> io::Result<bool> {
        request.text()?;
        let acks = request.i16()?;
        request.i32()?;
        let topics = request.i32()?;
        answer.i32(topics);
        for _ in 0..topics {
            let name = request.text()?;
            let partitions = request.i32()?;
            answer.text(&name).i32(partitions);
            for _ in 0..partitions {
                let index = request.i32()?;
                let len = request.i32()?;
                let (error, offset) =
                    self.take_batch(&name, index, request.bytes(len.max(0) as usize)?)?;
                answer.i32(index).i16(error).i64(offset).i64(-1).i64(0);
            }
        }
        answer.i32(0);
        Ok(acks != 0)
    }

    /// Counts the records of a batch that is new to its partition. Returns an error code and the
    /// offset of the batch's first record.
    fn take_batch(&self, topic: &str, partition: i32, batch: &[u8]) -> io::Result<(i16, i64)> {
        let at = |at: usize| Reader(batch.get(at..).unwrap_or_default());
        let (producer, sequence) = (at(PRODUCER_ID_AT).i64()?, at(SEQUENCE_AT).i32()?);
        let count = at(COUNT_AT).i32()?;
        let mut topics = self.topics.lock();
        let Some(partition) = topics.get_mut(topic).and_then(|of| of.get_mut(partition as usize))
        else {
            return Ok((UNKNOWN_TOPIC, -1));
        };
        if producer >= 0 {
            let next = partition.sequences.entry(producer).or_insert(sequence);
            if sequence != *next {
                return Ok((if sequence < *next { DUPLICATE } else { OUT_OF_ORDER }, -1));
            }
            *next = sequence.wrapping_add(count) & i32::MAX;
        }
        let offset = partition.records;
        partition.records += i64::from(count);
        Ok((NONE, offset))
    }
}

fn api_versions(version: i16, answer: &mut Writer) {
    answer.i16(NONE);
    if version < API_VERSIONS_COMPACT {
        answer.i32(VERSIONS.len() as i32);
    } else {
        answer.i8(VERSIONS.len() as i8 + 1);
    }
    for (key, first, last) in VERSIONS {
        answer.i16(*key).i16(*first).i16(*last);
        if version >= API_VERSIONS_COMPACT {
            answer.i8(0);
        }
    }
    if version > 0 {
        answer.i32(0);
    }
    if version >= API_VERSIONS_COMPACT {
        answer.i8(0);
    }
}

/// Reads a request from its start.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize) -> io::Result<&'a [u8]> {
        let (bytes, rest) =
            self.0.split_at_checked(len).ok_or_else(|| bad("a request that is cut"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.bytes(N)?.try_into().map_err(io::Error::other)
    }

    fn i16(&mut self) -> io::Result<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> io::Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> io::Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a nullable string; null becomes an empty string.
    fn text(&mut self) -> io::Result<String> {
        let len = self.i16()?.max(0) as usize;
        Ok(String::from_utf8_lossy(self.bytes(len)?).into_owned())
    }
}

/// Writes a response.
struct Writer(Vec<u8>);

impl Writer {
    fn i8(&mut self, value: i8) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn i16(&mut self, value: i16) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn i32(&mut self, value: i32) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn i64(&mut self, value: i64) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.i16(text.len() as i16);
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn no_text(&mut self) -> &mut Self {
        self.i16(-1)
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the header of a batch of `count` records.
    fn batch(producer: i64, sequence: i32, count: i32) -> Vec<u8> {
        let mut batch = vec![0; COUNT_AT + 4];
        batch[PRODUCER_ID_AT..][..8].copy_from_slice(&producer.to_be_bytes());
        batch[SEQUENCE_AT..][..4].copy_from_slice(&sequence.to_be_bytes());
        batch[COUNT_AT..][..4].copy_from_slice(&count.to_be_bytes());
        batch
    }

    #[test]
    fn a_batch_that_a_producer_sends_twice_counts_once() {
        let sinkhole = Sinkhole::start().unwrap();
        sinkhole.create_topic("t", 2);
        let connection = Connection { ports: sinkhole.ports, topics: sinkhole.topics.clone() };
        let send = |partition, producer, sequence| {
            connection.take_batch("t", partition, &batch(producer, sequence, 10)).unwrap()
        };
        assert_eq!(
            [send(0, 7, 0), send(0, 7, 10), send(0, 7, 0)],
            [(NONE, 0), (NONE, 10), (DUPLICATE, -1)]
        );
        assert_eq!(send(0, 7, 30), (OUT_OF_ORDER, -1));
        assert_eq!([send(1, -1, -1), send(1, -1, -1)], [(NONE, 0), (NONE, 10)]);
        assert_eq!(send(2, 7, 0), (UNKNOWN_TOPIC, -1));
        assert_eq!((sinkhole.take("t"), sinkhole.take("t")), (40, 0));
    }
}
