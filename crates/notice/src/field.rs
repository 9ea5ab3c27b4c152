//! What a field of a notice is in JSON.

use ferrite_base::{Epoch, GroupId, NodeId, Position};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) trait Field {
    fn json(&self) -> Value;
}

macro_rules! numbers {
    ($($type:ty),*) => { $(impl Field for $type { fn json(&self) -> Value { Value::from(*self) } })* };
}

macro_rules! ids {
    ($($type:ty),*) => { $(impl Field for $type { fn json(&self) -> Value { Value::from(self.0) } })* };
}

macro_rules! texts {
    ($($type:ty),*) => { $(impl Field for $type { fn json(&self) -> Value { Value::from(self.to_string()) } })* };
}

numbers!(bool, u16, u32, u64, usize);
ids!(NodeId, GroupId, Epoch, Position);
texts!(String, &'static str, IpAddr, SocketAddr);

impl Field for PathBuf {
    fn json(&self) -> Value {
        Value::from(self.display().to_string())
    }
}

/// In seconds.
impl Field for Duration {
    fn json(&self) -> Value {
        Value::from(self.as_secs_f64())
    }
}

impl<T: Field> Field for Option<T> {
    fn json(&self) -> Value {
        self.as_ref().map_or(Value::Null, Field::json)
    }
}

impl<T: Field> Field for Vec<T> {
    fn json(&self) -> Value {
        Value::Array(self.iter().map(Field::json).collect())
    }
}
