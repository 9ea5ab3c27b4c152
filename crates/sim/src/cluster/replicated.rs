//! Changes of a replicated table by transactions over all groups, and reads of it, beside what the
//! history knows: the rules compare its copies, and nothing else of it.

use crate::clients::{CONNECTION, Doors};
use crate::cluster::world::World;
use crate::invariants::Violation;
use ferrite_base::CatalogVersion;
use ferrite_group::FIRST_GROUP;
use ferrite_io::Clock;
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use ferrite_wire::RequestWriter;
use std::sync::Arc;

const FRAME_LENGTH_BYTES: usize = 4;
/// Rows of the table, at most.
const ROWS: u64 = 40;

/// Whatever becomes of it.
struct Ignored;

impl Mailbox for Ignored {
    fn deliver(&self, _: AnswerBatch) {}
}

fn change_all(doors: &Doors, version: CatalogVersion, text: &str) {
    let mut request = Vec::new();
    let mut call = RequestWriter::begin(&mut request, "@AdHoc", 0);
    call.parameter(&text);
    call.finish().expect("a small call");
    let body = request.split_off(FRAME_LENGTH_BYTES);
    let sent_micros = doors.clock.wall_micros();
    let reply = Reply { mailbox: Arc::new(Ignored), connection: CONNECTION, handle: 0, sent_micros };
    let taken = doors.groups.change_all(&body, version, reply, Box::new(|| {}));
    taken.unwrap_or_else(|error| panic!("groups run it together: {}", error.message()));
}

impl World {
    /// Up to so many changes of a replicated table begin within that time, in a database of several
    /// groups.
    pub(super) fn change_a_replicated_table(&mut self, most: u64, millis: u64) -> Result<(), Violation> {
        if !self.has_several_groups() {
            return Ok(());
        }
        let changes = self.more.below(most);
        for _ in 0..changes {
            let row = self.more.below(ROWS);
            let text = match self.more.below(10) {
                0..6 => format!("UPSERT INTO rates VALUES ({row}, {})", self.more.below(5)),
                6..8 => format!("UPDATE rates SET v = v + 1 WHERE id > {row}"),
                _ => format!("DELETE FROM rates WHERE id < {}", row / 4),
            };
            let Some(leader) = self.leader_of(FIRST_GROUP) else { return Ok(()) };
            let first = self.process(leader).of(FIRST_GROUP);
            if first.version() > 0 {
                change_all(&first.doors, CatalogVersion(first.version()), &text);
            }
            let pause = self.more.below(1 + millis / changes.max(1));
            self.step_until(pause, |_| false)?;
        }
        Ok(())
    }
}
