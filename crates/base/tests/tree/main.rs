//! Tests over the whole tree. One program, since each costs a link.

mod architecture_page;
mod crate_directions;
mod decisions_page;
mod errors_page;
mod file_circles;
mod file_lengths;
mod formats_page;
mod function_lengths;
mod function_names;
mod idioms;
mod limits_page;
mod notices;
mod planted_faults;
mod production;
mod room_directions;
mod tuple_lets;
mod type_names;
mod wrapped;
