//! What clients ask for, and what they are told.

use std::collections::BTreeMap;

/// Value, name and text of an item.
pub type Item = (Option<i64>, Option<String>, Option<String>);

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
    /// Two homes at one moment, wherever they are.
    Both {
        homes: [i64; 2],
    },
    Cut,
    Expire,
    Schema {
        text: String,
    },
    /// An administrator pauses the database, or resumes it.
    Pause {
        paused: bool,
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
            Action::Spoil { .. } | Action::Look { .. } | Action::Both { .. } => Some(Vec::new()),
            Action::Cut | Action::Expire => Some(Vec::new()),
            Action::Schema { .. } | Action::Pause { .. } | Action::Load { .. } => Some(Vec::new()),
            Action::Restore { .. } | Action::Discard | Action::Peek { .. } => Some(Vec::new()),
        }
    }
}

impl Action {
    /// Clients' reads, and what the server or an administrator does.
    pub fn is_write_of_a_client(&self) -> bool {
        let others = matches!(self, Action::Look { .. } | Action::Both { .. } | Action::Cut | Action::Peek { .. });
        !others && !matches!(self, Action::Expire | Action::Pause { .. })
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
    /// Home, step and balance of each.
    Both([(i64, i64, i64); 2]),
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
    pub item: Option<Item>,
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

impl Cut {
    /// Each home and its step, the home of the replicated tables among them.
    pub fn all_steps(&self) -> impl Iterator<Item = (i64, i64)> {
        self.steps.iter().map(|(home, step)| (*home, *step)).chain([(RATES, self.rates)])
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
