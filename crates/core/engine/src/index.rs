//! Indices into the parts of a topology. A reload renumbers sources and nodes.

macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(usize);

        impl $name {
            /// Creates an index.
            pub const fn new(index: usize) -> $name {
                $name(index)
            }

            /// Returns the index as a number.
            pub const fn get(self) -> usize {
                self.0
            }
        }
    };
}

index_type! {
    /// Index of a transform or sink among a topology's nodes.
    NodeIndex
}

index_type! {
    /// Index of a source in a topology.
    SourceIndex
}

index_type! {
    /// Index of a cut among the cuts in one source's chain.
    CutIndex
}

index_type! {
    /// Index of a lane among one sink's lanes.
    LaneIndex
}
