//! Bringing two stores to hold the same: what each says it has, and the packages in which the rest travels.
//!
//! A store holds streams; of a stream, the frames it wrote and, as branches, what others wrote instead. Its *tips* are the
//! ends of all these, so two stores with the same tips hold the same frames, whichever of them are branches where.

mod heads;
mod package;

pub use heads::{Fork, Head, Node, Point, Tip, node, tips};
pub use package::{Package, PackageError, Writer};
