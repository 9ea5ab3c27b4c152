//! COMPOUNDPROC, COMPOUNDPROCSUMMARY and COMPOUNDPROCCALLS: a row for each compound procedure that
//! was called. Times are nanoseconds.

use super::layouts::{COMPOUND, COMPOUND_CALLS};
use super::{BASE, PROCEDURE, TIME, base, count, empty, now_ms};
use crate::compound_figures::CompoundFigures;
use crate::result::{Cell, SystemTable, cells};
use crate::sources::Sources;

pub fn procedures(sources: &Sources<'_>) -> SystemTable {
    let mut table = empty(&[BASE, PROCEDURE, COMPOUND]);
    for (name, figures) in sources.compounds.all() {
        table.row(base(sources).into_iter().chain(cells![name]).chain(elapsed(&figures)));
    }
    table
}

/// Of all nodes together, which is one.
pub fn summary(sources: &Sources<'_>) -> SystemTable {
    let mut table = empty(&[TIME, PROCEDURE, COMPOUND]);
    for (name, figures) in sources.compounds.all() {
        table.row(cells![now_ms(), name].into_iter().chain(elapsed(&figures)));
    }
    table
}

pub fn calls(sources: &Sources<'_>) -> SystemTable {
    let mut table = empty(&[BASE, PROCEDURE, COMPOUND_CALLS]);
    for (name, figures) in sources.compounds.all() {
        for (called, times) in &figures.called {
            table.row(base(sources).into_iter().chain(cells![name.as_str(), called.as_str(), count(*times)]));
        }
    }
    table
}

fn elapsed(figures: &CompoundFigures) -> [Cell; 6] {
    let counters = &figures.counters;
    let times = &counters.nanoseconds;
    cells![
        count(counters.invocations),
        count(times.min),
        count(times.max),
        count(times.total.checked_div(counters.sampled).unwrap_or(0)),
        count(counters.aborts),
        count(counters.failures)
    ]
}
