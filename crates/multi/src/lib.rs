//! Transactions over several groups: atomic commitment without a log of decisions.
//!
//! One *sequencer* orders them, in *lots*: the calls that one hold of partitions serves share one
//! id and one outcome. Each group has an *agent* where it is led, which holds the group's
//! partitions and appends to the group's stream. A lot is committed as soon as the [`Record`]
//! `Prepared` of every participant is committed in its own stream: nobody has to remember that, for
//! every participant is replicated and answers for itself, whoever leads it
//! (docs/decisions/0121-transactions-over-groups.md).
//!
//! Pure state machines: the caller tells them what happened and carries out the effects. Owns what
//! is remembered of a lot and for how long ([`Ledger`]). Promises that all participants of a lot
//! come to the same outcome, whichever party is lost at whichever step. Does not know what calls
//! do, nor streams, sockets, clocks or threads.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod agent;
mod codec;
mod ledger;
mod lot;
mod lot_id;
mod message;
mod sequencer;
mod settled;

pub use agent::{Agent, AgentEffect};
pub use codec::{KIND_DECIDED, KIND_ORDERED, KIND_PREPARED, KIND_REFUSED, KIND_SETTLED};
pub use ledger::{Applied, InDoubt, Ledger, LedgerError};
pub use lot::{Outcome, Record};
pub use lot_id::LotId;
pub use message::{Begin, Resolution, ToAgent, ToSequencer};
pub use sequencer::{LotPart, PartWaits, Sequencer, SequencerEffect};
pub use settled::Settled;
