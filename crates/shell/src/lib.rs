//! The tools of `ferrite`: the shell `ferrite sql`, the loader `ferrite load`, and `ferrite dump`.
//!
//! Talks to a server through the client protocol only, and knows of it what any client can ask.
//!
//! | room | what is in it |
//! |---|---|
//! | [`options`] | the command lines |
//! | [`session`], [`interrupt`] | calls that Ctrl-C can end |
//! | [`lexer`], [`script`] | text to tokens, input to statements and commands |
//! | [`command`], [`copy`], [`arguments`], [`suggest`] | what a command line means, or what was probably meant |
//! | [`names`], [`describe`], [`complete`] | the catalog, shown and offered |
//! | [`render`], [`report`], [`style`], [`output`] | results and errors as text |
//! | [`shell`], [`editor`] | carrying out, and the prompt |
//! | [`load`], [`dump`], [`source`] | files to rows and rows to files |

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod arguments;
pub mod bad_command;
pub mod command;
pub mod complete;
pub mod copy;
pub mod describe;
pub mod dump;
pub mod editor;
pub mod interrupt;
pub mod lexer;
pub mod load;
pub mod names;
pub mod options;
pub mod output;
pub mod render;
pub mod report;
mod run;
pub mod script;
pub mod session;
pub mod shell;
pub mod source;
pub mod style;
pub mod suggest;

pub use options::{DumpOptions, LoadOptions, SqlOptions};
pub use run::{run_dump, run_load, run_sql};
