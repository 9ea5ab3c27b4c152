//! The server's way of making copies of replicated tables equal after an accepted loss, as a party
//! of the process.

use super::Process;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{CatalogVersion, GroupId, GroupMap};
use ferrite_group::FIRST_GROUP;
use ferrite_io::Clock;
use ferrite_member::equalizing::{
    Equalizing, EqualizingWish, GroupsSaid, OTHER_SCHEMA, UnequalGroups, call_of, said_by, unequal_groups,
};
use ferrite_member::lots::SequencerNotice;
use ferrite_meta::Ask;
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use std::sync::Arc;

/// Of one transaction, so that tables are replaced in several pieces.
const TRANSACTION_BYTES_MAX: usize = 4_096;

type Answered = (u64, GroupsSaid);

pub struct EqualizingParty {
    equalizing: Equalizing,
    to: Sender<Answered>,
    answers: Receiver<Answered>,
}

struct PartyAnswer {
    number: u64,
    to: Sender<Answered>,
}

impl Mailbox for PartyAnswer {
    fn deliver(&self, answers: AnswerBatch) {
        let _ = self.to.send((self.number, said_by(&answers)));
    }
}

impl EqualizingParty {
    pub(super) fn new(map: &GroupMap) -> EqualizingParty {
        let (to, answers) = unbounded();
        let groups = (0..map.groups()).map(GroupId);
        EqualizingParty { equalizing: Equalizing::new(groups, TRANSACTION_BYTES_MAX), to, answers }
    }

    fn can_step(&self, unequal: &UnequalGroups, now: u64) -> bool {
        !self.answers.is_empty() || self.equalizing.is_due(unequal, now)
    }
}

impl Process {
    fn orders_lots(&self) -> bool {
        self.hosted(FIRST_GROUP).is_some_and(|first| first.serves.is_some())
    }

    pub(super) fn can_equalize(&self) -> bool {
        let Some(lots) = self.lots.as_ref().filter(|_| self.orders_lots()) else { return false };
        lots.equalizing.can_step(&unequal_groups(self.node.state()), self.clock.monotonic_nanos())
    }

    /// Some group's copies are to be made equal by this node.
    pub(super) fn is_equalizing(&self) -> bool {
        self.orders_lots() && !unequal_groups(self.node.state()).is_empty()
    }

    pub(super) fn equalize(&mut self) {
        let now = self.clock.monotonic_nanos();
        let unequal = unequal_groups(self.node.state());
        let orders_lots = self.orders_lots();
        let Some(lots) = &mut self.lots else { return };
        let party = &mut lots.equalizing;
        let mut wishes = Vec::new();
        let answered = party.answers.try_recv();
        if !orders_lots {
            return party.equalizing.rest();
        }
        if let Ok((number, said)) = answered {
            party.equalizing.answered(number, said, now, &mut wishes);
        }
        party.equalizing.advance(&unequal, now, &mut wishes);
        for wish in wishes {
            self.wishes_equality(wish);
        }
    }

    fn wishes_equality(&mut self, wish: EqualizingWish) {
        let lots = self.lots.as_ref().expect("it has wished something");
        match wish {
            EqualizingWish::Say(_) => {}
            EqualizingWish::Equal { group, loss } => {
                self.seat.asks().push(Ask::Equal { from: self.member, group, loss });
            }
            EqualizingWish::Call { number, step, is_read } => {
                let to = lots.equalizing.to.clone();
                let mailbox = Arc::new(PartyAnswer { number, to: to.clone() });
                let sent_micros = self.clock.wall_micros();
                let reply = Reply { mailbox, connection: 0, handle: 0, sent_micros };
                let other = (number, Err(OTHER_SCHEMA.to_owned()));
                let again = Box::new(move || drop(to.send(other)));
                let version = CatalogVersion(self.of(FIRST_GROUP).version());
                let call = call_of(&step, is_read, version, reply, again);
                let _ = lots.sequencer.send(SequencerNotice::Call(Box::new(call)));
            }
        }
    }
}
