//! The scalar functions by id. The binder resolves names, checks and casts arguments; here is what they compute.

/// A scalar function whose argument types the binder has already settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Function {
    Abs,
}
