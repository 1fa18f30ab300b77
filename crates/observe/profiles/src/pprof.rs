//! The pprof format: a gzipped protobuf message, which is defined in `proto/profile.proto` in
//! github.com/google/pprof.

mod message;

use crate::{About, Frame, FrameId, FrameKind, Profile};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use message::{Function, Line, Location, Mapping, Message, Sample, ValueType};
use prost::Message as _;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use std::collections::HashMap;
use std::io::{self, Read, Write};

/// Maximum number of frames per stack when reading.
const DEPTH_MAX: usize = 4096;

/// Maximum number of frames in all stacks when reading. Without this limit, a small file that
/// repeats a deep stack could fill memory.
const FRAMES_MAX: usize = 1 << 24;

/// Maximum total number of samples, places, functions and strings when reading.
const ITEMS_MAX: usize = 2_000_000;

/// Maximum total size, in bytes, of the names in a profile that is read.
const NAME_BYTES_MAX: usize = 256 << 20;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The reason why a file cannot be read as a profile.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input cannot be read or decompressed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The input is larger than the limit.
    #[error("it is larger than {0} bytes")]
    Large(u64),
    /// The input is not a protobuf message of this type.
    #[error("it is not a pprof profile: {0}")]
    Message(#[from] prost::DecodeError),
    /// A reference in the message is invalid, or a stack is too deep.
    #[error("it is not a pprof profile: {0}")]
    Content(&'static str),
}

/// Writes a profile in pprof format, gzipped. The sample types are the number of samples and the
/// time that they represent.
///
/// # Errors
///
/// Returns the output's error.
pub fn write_pprof(profile: &Profile, output: &mut impl Write) -> io::Result<()> {
    let message = Builder::default().message(profile);
    let mut gzip = GzEncoder::new(output, Compression::default());
    gzip.write_all(&message.encode_to_vec())?;
    gzip.finish().map(drop)
}

/// The distinct strings of a message. The first string is empty.
struct Strings {
    table: Vec<String>,
    known: HashMap<String, i64>,
}

impl Default for Strings {
    fn default() -> Strings {
        Strings { table: vec![String::new()], known: HashMap::from([(String::new(), 0)]) }
    }
}

impl Strings {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = self.table.len() as i64;
        self.table.push(text.to_owned());
        self.known.insert(text.to_owned(), number);
        number
    }
}

/// The frames at one address: the frames into which the function at the address is inlined,
/// followed by that function.
type Place = Vec<FrameId>;

#[derive(Default)]
struct Builder {
    strings: Strings,
    mappings: Vec<Mapping>,
    functions: Vec<Function>,
    by_function: HashMap<(i64, i64), u64>,
    locations: Vec<Location>,
    by_place: HashMap<Place, u64>,
}

impl Builder {
    fn message(mut self, profile: &Profile) -> Message {
        let about = profile.about();
        let mut samples = Vec::new();
        for (stack, count) in profile.stacks() {
            let places = places(profile, stack);
            let location_id = places.into_iter().rev().map(|place| self.location(profile, place));
            let location_id = location_id.collect();
            let ns = count.saturating_mul(about.interval_ns);
            let value = [count, ns].map(signed).into();
            samples.push(Sample { location_id, value });
        }
        let sample_type =
            vec![self.value_type("samples", "count"), self.value_type("cpu", "nanoseconds")];
        let sample_type = match about.event.as_str() {
            "" | "cpu" => sample_type,
            event => vec![sample_type[0], self.value_type(event, "nanoseconds")],
        };
        let comment = std::iter::once(&about.title).chain(&about.notes);
        let comment = comment.map(|text| self.strings.number(text)).collect();
        Message {
            period_type: Some(sample_type[1]),
            sample_type,
            sample: samples,
            mapping: self.mappings,
            location: self.locations,
            function: self.functions,
            string_table: self.strings.table,
            time_nanos: signed(about.start_unix_ns),
            duration_nanos: signed(about.duration_ns),
            period: signed(about.interval_ns),
            comment,
        }
    }

    fn value_type(&mut self, r#type: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.strings.number(r#type), unit: self.strings.number(unit) }
    }

    fn location(&mut self, profile: &Profile, place: Place) -> u64 {
        if let Some(id) = self.by_place.get(&place) {
            return *id;
        }
        let id = self.locations.len() as u64 + 1;
        // In the message, the innermost function comes first.
        let line = place.iter().rev().map(|frame| self.line(profile.get(*frame))).collect();
        let outermost = place.first().map(|frame| profile.get(*frame));
        let module = outermost.and_then(|frame| frame.module.as_deref());
        let mapping_id = module.map_or(0, |module| self.mapping(module));
        let address = outermost.and_then(|frame| frame.address).unwrap_or(0);
        self.locations.push(Location { id, mapping_id, address, line });
        self.by_place.insert(place, id);
        id
    }

    fn mapping(&mut self, module: &str) -> u64 {
        let filename = self.strings.number(module);
        if let Some(known) = self.mappings.iter().find(|known| known.filename == filename) {
            return known.id;
        }
        let id = self.mappings.len() as u64 + 1;
        let has = true;
        self.mappings.push(Mapping {
            id,
            filename,
            has_functions: has,
            has_filenames: has,
            has_line_numbers: has,
            has_inline_frames: has,
        });
        id
    }

    fn line(&mut self, frame: &Frame) -> Line {
        let name = self.strings.number(&frame.name);
        // Other tools ignore the language in this field. Reading uses it to restore the kind.
        let system_name = self.strings.number(frame.kind.name());
        let filename = self.strings.number(frame.file.as_deref().unwrap_or_default());
        let (functions, next) = (&mut self.functions, self.by_function.len() as u64 + 1);
        let key = (name, filename << 3 | frame.kind as i64);
        let id = *self.by_function.entry(key).or_insert_with(|| {
            functions.push(Function { id: next, name, system_name, filename });
            next
        });
        Line { function_id: id, line: i64::from(frame.line.unwrap_or(0)) }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Splits a stack into places. An inlined frame is in the same place as the previous frame.
fn places(profile: &Profile, stack: &[FrameId]) -> Vec<Place> {
    let mut places = Vec::<Place>::new();
    for id in stack {
        match places.last_mut() {
            Some(place) if profile.get(*id).is_inlined => place.push(*id),
            _ => places.push(vec![*id]),
        }
    }
    places
}

/// Reads a profile in pprof format from any program, gzipped or not. The value of a stack is its
/// sample count, or its first value if the profile does not contain sample counts.
///
/// # Errors
///
/// Returns an error if the input is not a pprof profile, contains too many items, or is larger than
/// `limit_bytes` before or after decompression.
pub fn read_pprof(input: &mut impl Read, limit_bytes: u64) -> Result<Profile, ReadError> {
    let bytes = read_limited(input, limit_bytes)?;
    let bytes = match bytes.starts_with(&GZIP) {
        true => read_limited(&mut MultiGzDecoder::new(&bytes[..]), limit_bytes)?,
        false => bytes,
    };
    if bytes.is_empty() {
        return Err(ReadError::Content("it is empty"));
    }
    count_items(&bytes)?;
    profile_of(&Message::decode(&bytes[..])?)
}

/// Limits the number of samples, functions, strings and other items before they are decoded,
/// because an empty item takes two bytes in the file, but dozens of bytes in memory.
fn count_items(mut bytes: &[u8]) -> Result<(), ReadError> {
    for _ in 0..ITEMS_MAX {
        if bytes.is_empty() {
            return Ok(());
        }
        let (tag, wire_type) = decode_key(&mut bytes)?;
        skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
    }
    Err(ReadError::Content("it contains more than 2 million samples, functions and strings"))
}

fn read_limited(input: &mut impl Read, limit_bytes: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    input.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes { Err(ReadError::Large(limit_bytes)) } else { Ok(bytes) }
}

fn profile_of(message: &Message) -> Result<Profile, ReadError> {
    let text = |number: i64| {
        let text = usize::try_from(number).ok().and_then(|at| message.string_table.get(at));
        text.map(String::as_str).ok_or(ReadError::Content("a string is missing"))
    };
    let mut types = Vec::new();
    for sample_type in &message.sample_type {
        types.push(text(sample_type.r#type)?);
    }
    let column = types.iter().position(|name| *name == "samples").unwrap_or(0);
    let event = types.last().ok_or(ReadError::Content("it contains no sample type"))?;
    let mut comments = message.comment.iter().map(|number| text(*number).map(str::to_owned));
    let mut profile = Profile::new(About {
        title: comments.next().transpose()?.unwrap_or_default(),
        event: (*event).to_owned(),
        interval_ns: u64::try_from(message.period).unwrap_or(0),
        duration_ns: u64::try_from(message.duration_nanos).unwrap_or(0),
        start_unix_ns: u64::try_from(message.time_nanos).unwrap_or(0),
        notes: comments.collect::<Result<_, _>>()?,
    });
    let places = read_places(message, &mut profile, &text)?;
    read_samples(message, column, &places, &mut profile)?;
    Ok(profile)
}

fn read_samples(
    message: &Message,
    column: usize,
    places: &HashMap<u64, Place>,
    profile: &mut Profile,
) -> Result<(), ReadError> {
    let mut frames = 0;
    for sample in &message.sample {
        let mut stack = Vec::new();
        for location in sample.location_id.iter().rev() {
            let place = places.get(location).ok_or(ReadError::Content("a location is missing"))?;
            stack.extend_from_slice(place);
            if stack.len() > DEPTH_MAX {
                return Err(ReadError::Content("a stack is too deep"));
            }
        }
        frames += stack.len();
        if frames > FRAMES_MAX {
            return Err(ReadError::Content("it contains too many frames"));
        }
        let value = sample.value.get(column).ok_or(ReadError::Content("a value is missing"))?;
        profile.add(&stack, u64::try_from(*value).unwrap_or(0));
    }
    Ok(())
}

/// Returns the frames of each location, outermost first.
fn read_places<'a>(
    message: &'a Message,
    profile: &mut Profile,
    text: &impl Fn(i64) -> Result<&'a str, ReadError>,
) -> Result<HashMap<u64, Place>, ReadError> {
    let functions: HashMap<u64, &Function> =
        message.function.iter().map(|function| (function.id, function)).collect();
    let modules: HashMap<u64, i64> =
        message.mapping.iter().map(|mapping| (mapping.id, mapping.filename)).collect();
    let (mut places, mut name_bytes) = (HashMap::new(), 0);
    for location in &message.location {
        let mut place = Vec::new();
        let module = modules.get(&location.mapping_id).map(|number| text(*number)).transpose()?;
        for line in location.line.iter().rev() {
            let function = functions.get(&line.function_id);
            let function = function.ok_or(ReadError::Content("a function is missing"))?;
            let name = text(function.name)?;
            name_bytes += name.len();
            if name_bytes > NAME_BYTES_MAX {
                return Err(ReadError::Content("its names are too long"));
            }
            let file = Some(text(function.filename)?).filter(|file| !file.is_empty());
            place.push(profile.frame(Frame {
                name: name.to_owned(),
                kind: kind_of(text(function.system_name)?),
                is_inlined: !place.is_empty(),
                module: module.map(str::to_owned),
                file: file.map(str::to_owned),
                line: u32::try_from(line.line).ok().filter(|line| *line > 0),
                address: Some(location.address).filter(|address| *address > 0),
            }));
        }
        if place.is_empty() {
            let name = format!("{:#x}", location.address);
            place.push(profile.frame(Frame::named(&name, FrameKind::Unknown)));
        }
        places.insert(location.id, place);
    }
    Ok(places)
}

fn kind_of(name: &str) -> FrameKind {
    let kind = FrameKind::ALL.iter().copied().find(|kind| kind.name() == name);
    kind.unwrap_or(FrameKind::Unknown)
}
