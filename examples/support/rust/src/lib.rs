//! What the example applications share: their options, the loop that makes calls (one thread
//! without waiting, or many that wait), and the figures they print. Knows no application.

pub mod figures;
pub mod load;
pub mod random;
pub mod settings;

pub use figures::End;
pub use load::{Application, run};
pub use random::Random;
pub use settings::Settings;
