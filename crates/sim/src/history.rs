//! Everything that clients asked for, and what they were told: the model's side of the truth.

use crate::backups::Made;
use crate::restore_fixture::RestoreHistory;
use crate::schema::Variant;
use ferrite_catalog::Catalog;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The home whose steps are those of the replicated tables.
pub const RATES: i64 = -1;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Put {
        home: i64,
        item: i64,
        value: Option<i64>,
        name: Option<i64>,
        body: usize,
    },
    Remove {
        home: i64,
        item: i64,
    },
    Bump {
        home: i64,
        delta: i64,
    },
    Touch {
        home: i64,
    },
    /// Always fails, after it has changed everything.
    Spoil {
        home: i64,
        item: i64,
        overdraw: bool,
    },
    Transfer {
        from: i64,
        to: i64,
        amount: i64,
    },
    /// Touches all homes that there are; these are known to be.
    Clear {
        homes: Vec<i64>,
    },
    Rate {
        item: i64,
        value: i64,
    },
    Look {
        home: i64,
        item: i64,
    },
    Cut,
    Expire,
    Schema {
        text: String,
    },
    /// Rows of a restore, on their way into a staging table.
    Load {
        table: String,
        bytes: usize,
    },
    /// Fills the two tables of the restore fixture.
    Restore {
        backup: &'static str,
    },
    /// Empties them.
    Discard,
    /// Looks into them. As many of their states were known when it was sent.
    Peek {
        since: usize,
    },
}

impl Action {
    /// The homes on which it leaves a mark. None where that is not known beforehand.
    pub fn homes(&self) -> Option<Vec<i64>> {
        match self {
            Action::Put { home, .. }
            | Action::Remove { home, .. }
            | Action::Bump { home, .. }
            | Action::Touch { home } => Some(vec![*home]),
            Action::Transfer { from, to, .. } => Some(vec![*from, *to]),
            Action::Rate { .. } => Some(vec![RATES]),
            Action::Clear { .. } => None,
            Action::Spoil { .. } | Action::Look { .. } | Action::Cut | Action::Expire => Some(Vec::new()),
            Action::Schema { .. } | Action::Load { .. } => Some(Vec::new()),
            Action::Restore { .. } | Action::Discard | Action::Peek { .. } => Some(Vec::new()),
        }
    }
}

/// What a client was told.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// Nothing yet.
    Nothing,
    Done(Answer),
    /// It was rolled back: nothing of it may ever be seen.
    Failed(String),
    /// It was not begun: likewise.
    Refused(String),
    /// Nobody knows. So it is, too, if the server ended before it said anything.
    Unknown,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Home and step, of each home that was changed.
    Steps(Vec<(i64, i64)>),
    Looked(Looked),
    Cut(Cut),
    /// Rows and rows of views.
    Peeked([i64; 4]),
    Other,
}

/// Rows, sum, least and greatest value.
pub type Totals = (i64, Option<i64>, Option<i64>, Option<i64>);

/// One home at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Looked {
    pub step: i64,
    pub item: Option<(Option<i64>, Option<String>, Option<String>)>,
    /// Rows, sum, least and greatest of the view.
    pub totals: Option<Totals>,
    pub balance: Option<i64>,
}

/// All homes at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cut {
    pub steps: BTreeMap<i64, i64>,
    pub balances: BTreeMap<i64, i64>,
    pub rates: i64,
    pub by_value: BTreeMap<Option<i64>, i64>,
    pub items: BTreeMap<(i64, i64), Option<i64>>,
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub action: Action,
    pub told: Told,
    /// Wall time when it was sent.
    pub sent_micros: i64,
    /// A recovery has shown that it is not there. It must not come later.
    pub absent: bool,
}

/// The schema as far as it is known to be durable, and one change whose outcome is not known.
#[derive(Clone, Default)]
pub struct SchemaHistory {
    /// The highest version by which a call was routed: clients may know of it.
    pub seen: u64,
    pub catalog: Arc<Catalog>,
    pub variant: Variant,
    pub outstanding: Option<Outstanding>,
}

#[derive(Clone)]
pub struct Outstanding {
    pub variant: Variant,
    pub text: String,
    /// None until it was answered; whether it was done.
    pub told: Option<bool>,
}

#[derive(Default)]
pub struct History {
    pub operations: Vec<Operation>,
    pub schema: SchemaHistory,
    pub restored: RestoreHistory,
    /// Backups that were begun since the last recovery, by their nonces.
    pub backups: BTreeMap<String, Made>,
    /// By home, the operations found at the last recovery, in their order.
    pub recovered: BTreeMap<i64, Vec<usize>>,
    /// Rows seen before this moment may have expired, in wall microseconds.
    pub cutoff: i64,
    /// Since the log failed; nothing may be acknowledged any more.
    pub failed: bool,
    /// What must not happen and did, noticed while it happened.
    pub violation: Option<(&'static str, String)>,
}

impl History {
    pub fn begin(&mut self, action: Action, sent_micros: i64) -> usize {
        self.operations.push(Operation { action, told: Told::Nothing, sent_micros, absent: false });
        self.operations.len() - 1
    }

    pub fn violated(&mut self, invariant: &'static str, detail: String) {
        self.violation.get_or_insert((invariant, detail));
    }

    /// The server has ended: what it has not said it will not say.
    pub fn server_ended(&mut self) {
        for operation in &mut self.operations {
            if operation.told == Told::Nothing {
                operation.told = Told::Unknown;
            }
        }
        self.failed = false;
    }
}

/// An item's text: long ones live apart from their rows.
pub fn body_text(operation: usize, length: usize) -> String {
    let pattern = format!("{operation}:");
    pattern.chars().cycle().take(length).collect()
}

pub fn name_text(name: i64) -> String {
    // Some fit into their rows, others lie apart.
    format!("name {name}{}", ".".repeat(name as usize * 5 % 30))
}
