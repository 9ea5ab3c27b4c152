//! Values for the fields of notices in tests.

use ferrite_base::{Epoch, GroupId, NodeId, Position};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Ends the line, begins one that looks like the server's, and changes what a terminal shows.
pub const HOSTILE: &str = "a\n2026-01-01T00:00:00.000Z ERROR ferrite: \u{1b}[2J\"b\"\r\u{85}\u{2028}\u{202e}c [leads]";

pub trait SampleField {
    fn sample() -> Self;
}

macro_rules! samples {
    ($($type:ty => $value:expr),* $(,)?) => { $(impl SampleField for $type { fn sample() -> Self { $value } })* };
}

samples! {
    bool => true,
    u16 => 4,
    u32 => 5,
    u64 => 6_000_000,
    usize => 7_000_000,
    NodeId => NodeId(2),
    GroupId => GroupId(0),
    Epoch => Epoch(3),
    Position => Position(9),
    String => HOSTILE.to_owned(),
    &'static str => "word",
    IpAddr => IpAddr::V4(Ipv4Addr::LOCALHOST),
    SocketAddr => SocketAddr::from(([127, 0, 0, 1], 21_212)),
    PathBuf => PathBuf::from(HOSTILE),
    Duration => Duration::from_millis(1_500),
}

impl<T: SampleField> SampleField for Option<T> {
    fn sample() -> Self {
        Some(T::sample())
    }
}

impl<T: SampleField> SampleField for Vec<T> {
    fn sample() -> Self {
        vec![T::sample(), T::sample()]
    }
}
