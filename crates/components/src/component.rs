//! The traits of a component: the properties of its options, and how it is built from them.

mod resources;

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_model::{BuildError, Kind, OptionError, Sink, Source, SourceOpen, Transform};
pub use millstream_tail::{HeaderLines, LineKind};
pub use resources::{ResourceRequest, Resources};

/// The decoded options of a component.
pub trait Component: Send + Sync + 'static {
    /// Returns the errors in options that match the schema.
    fn check(&self) -> Vec<OptionError> {
        Vec::new()
    }

    /// Returns the names of the side outputs, in the order of their index, which starts at 1.
    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns descriptions of the resources that only one component in an agent may use.
    fn claims(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the files that the component writes, as absolute paths. Only one component may write
    /// a file.
    fn writes(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns whether the component would read the file at this absolute path.
    fn reads(&self, _: &Path) -> bool {
        false
    }

    /// Returns the files of secrets and certificates that the component reads when it connects,
    /// each with the JSON pointer of its option.
    fn files(&self) -> Vec<(String, PathBuf)> {
        Vec::new()
    }

    /// Returns the endpoints to which the component sends through a proxy, for operators, without
    /// secrets.
    fn proxies(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the files that the component reads when it is built. A reload rebuilds the component
    /// if their content has changed.
    fn contents(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the header lines that the component expects from its sources, one entry for each
    /// format. Header lines name the columns to parse.
    fn header_lines(&self) -> Vec<HeaderLines> {
        Vec::new()
    }

    /// Returns whether the component can produce metrics from input other than metrics, as some
    /// sources do, or a transform that reads lines.
    fn makes_metrics(&self) -> bool {
        false
    }

    /// Returns the resources of the program that the component uses while it runs, such as an
    /// embedded language runtime.
    fn resources(&self) -> Vec<ResourceRequest> {
        Vec::new()
    }

    /// Returns whether the component, as a sink, accepts only metrics and skips all other events.
    fn wants_metrics(&self) -> bool {
        false
    }
}

/// Function that opens a source whose other parts are already built.
pub type OpenSource = Box<dyn FnOnce(SourceOpen) -> Result<Box<dyn Source>, BuildError> + Send>;

/// A component that ingests data.
pub trait SourceComponent: Component {
    /// Opens the source.
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError>;

    /// Builds the parts that can be built before the source is opened, such as its code, and
    /// returns the function that opens the source; `None` if [`SourceComponent::open`] does
    /// everything.
    fn build(&self, _: &BuildCx<'_>) -> Result<Option<OpenSource>, BuildError> {
        Ok(None)
    }

    /// Returns the maximum bytes that the source holds in addition to its blocks, such as in the
    /// queue of a library.
    fn queue_bytes(&self) -> u64 {
        0
    }
}

/// The input for building a source or transform.
pub struct BuildCx<'a> {
    /// Id of the component.
    pub id: &'a str,
    /// Resources that the program provides.
    pub resources: &'a Resources,
    /// Header lines of a source, which name the columns that its readers parse.
    pub header: Option<HeaderLines>,
}

impl Default for BuildCx<'_> {
    /// Returns a context without an id and without resources.
    fn default() -> Self {
        static NONE: Resources = Resources::new();
        BuildCx { id: "", resources: &NONE, header: None }
    }
}

/// A component that transforms data.
pub trait TransformComponent: Component {
    /// Builds the transform.
    fn build(&self, cx: &BuildCx<'_>) -> Result<Transform, BuildError>;
}

/// A component that emits data.
pub trait SinkComponent: Component {
    /// Builds the sink.
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError>;
}

/// A component of any type. Its options are decoded once; clones share them.
#[derive(Clone)]
pub enum AnyComponent {
    /// A source.
    Source(Arc<dyn SourceComponent>),
    /// A transform.
    Transform(Arc<dyn TransformComponent>),
    /// A sink.
    Sink(Arc<dyn SinkComponent>),
}

impl AnyComponent {
    /// Returns the role of the component in the topology.
    pub fn kind(&self) -> Kind {
        match self {
            AnyComponent::Source(_) => Kind::Source,
            AnyComponent::Transform(_) => Kind::Transform,
            AnyComponent::Sink(_) => Kind::Sink,
        }
    }
}

impl Deref for AnyComponent {
    type Target = dyn Component;

    fn deref(&self) -> &Self::Target {
        match self {
            AnyComponent::Source(source) => &**source,
            AnyComponent::Transform(transform) => &**transform,
            AnyComponent::Sink(sink) => &**sink,
        }
    }
}

/// Returns the claim on a TCP address; `None` for port 0, which the system replaces with an unused
/// port at each bind.
pub fn tcp_claim(address: SocketAddr) -> Option<String> {
    (address.port() != 0).then(|| format!("the TCP address {address}"))
}

/// Returns a random number for an id or a seed.
///
/// # Errors
/// Returns an error if the system provides no random numbers.
pub(crate) fn random_u64() -> Result<u64, BuildError> {
    getrandom::u64().map_err(|error| BuildError::Random(std::io::Error::other(error)))
}
