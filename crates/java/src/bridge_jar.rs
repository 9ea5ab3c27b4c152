//! The bridge's classes as they were compiled with this program (`build.rs`).

/// A jar; empty where the program was built without a JDK.
pub(crate) const COMPILED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bridge.jar"));

/// Whether the classes have to be compiled when the JVM is started, which takes a JDK.
pub(crate) const fn is_missing() -> bool {
    COMPILED.is_empty()
}
