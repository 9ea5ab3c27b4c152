//! A partition's answers that wait for its last change to be committed, which it is when every
//! member of the configuration has it durable.
//!
//! ```text
//! execute -> appended(seq) -> hold(seq, answer)
//!         ... durable(member, seq) from each member -> Commit(seq) -> take_released()
//! ```

use ferrite_base::{NodeId, Sequence};

use crate::configuration::Configuration;
use crate::held::{Held, Release};

/// What the caller has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Everything up to this is committed. Answers wait in [`HeldAnswers::take_released`].
    Commit(Sequence),
}

/// One partition as its leader sees it, holding back answers of type `T`.
#[derive(Debug)]
pub struct HeldAnswers<T> {
    configuration: Configuration,
    /// Of each member, in the configuration's order: all up to this is durable there.
    durable: Vec<Sequence>,
    appended: Sequence,
    commit: Sequence,
    /// The last round that all other members have answered (decision 0049).
    confirmed: u64,
    failed: bool,
    held: Held<T>,
}

impl<T> HeldAnswers<T> {
    /// Begins with everything up to `start` appended, durable everywhere, and committed: what
    /// recovery found.
    pub fn new(configuration: Configuration, start: Sequence) -> Self {
        HeldAnswers {
            durable: vec![start; configuration.members().len()],
            configuration,
            appended: start,
            commit: start,
            confirmed: 0,
            failed: false,
            held: Held::new(),
        }
    }

    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Everything up to there is committed.
    pub fn commit(&self) -> Sequence {
        self.commit
    }

    /// Whether everything that was appended is committed.
    pub fn is_at_rest(&self) -> bool {
        self.commit == self.appended
    }

    /// Answers not released yet.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// The records up to `sequence` were handed to the log and sent to the other members.
    #[inline]
    pub fn appended(&mut self, sequence: Sequence) {
        assert!(sequence >= self.appended, "appended goes back: {sequence} after {}", self.appended);
        self.appended = sequence;
    }

    /// A member has everything up to `sequence` durable. After a failure nothing is committed any
    /// more.
    pub fn durable(&mut self, member: NodeId, sequence: Sequence) -> Option<Effect> {
        let place = self.configuration.place(member).expect("only members report");
        let before = self.durable[place];
        assert!(sequence >= before, "durable goes back at node {member}: {sequence} after {before}");
        assert!(sequence <= self.appended, "durable at node {member} before it was appended: {sequence}");
        self.durable[place] = sequence;
        if self.failed {
            return None;
        }
        let commit = *self.durable.iter().min().expect("a configuration has members");
        assert!(commit >= self.commit, "commit goes back: {commit} after {}", self.commit);
        if commit == self.commit {
            return None;
        }
        self.commit = commit;
        Some(Effect::Commit(commit))
    }

    /// Keeps the answer of a transaction until `sequence`, the last record that it wrote or could
    /// have seen, is committed.
    #[inline]
    pub fn hold(&mut self, sequence: Sequence, answer: T) {
        assert!(sequence <= self.appended, "an answer waits for a record that was not appended: {sequence}");
        self.held.push(sequence, 0, answer);
    }

    /// Keeps the answer of a transaction that wrote nothing until all that it could have seen is
    /// committed.
    #[inline]
    pub fn hold_read(&mut self, answer: T) {
        self.hold_behind(0, answer);
    }

    /// The same, and until a round is confirmed that began after it ran; 0 is none.
    #[inline]
    pub fn hold_behind(&mut self, round: u64, answer: T) {
        self.held.push(self.appended, round, answer);
    }

    /// All other members have answered this round.
    pub fn confirmed(&mut self, round: u64) {
        self.confirmed = self.confirmed.max(round);
    }

    /// The log or a member failed for good: what is not committed now never will be.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Takes the answers that may leave, in the order in which they were held. What the iterator
    /// does not reach stays.
    pub fn take_released(&mut self) -> impl Iterator<Item = (T, Release)> + '_ {
        std::iter::from_fn(|| match self.held.pop_committed(self.commit, self.confirmed) {
            Some(answer) => Some((answer, Release::Committed)),
            None if self.failed => self.held.pop().map(|answer| (answer, Release::OutcomeUnknown)),
            None => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::Epoch;
    use proptest::prelude::*;

    const ONE: NodeId = NodeId(1);

    fn released<T>(replica: &mut HeldAnswers<T>) -> Vec<(T, Release)> {
        replica.take_released().collect()
    }

    #[test]
    fn one_member_commits_what_it_made_durable() {
        let mut replica = HeldAnswers::new(Configuration::single(ONE), Sequence(10));
        replica.hold_read("read before any write");
        assert_eq!(released(&mut replica), [("read before any write", Release::Committed)]);
        replica.appended(Sequence(12));
        replica.hold(Sequence(11), "eleven");
        replica.hold(Sequence(12), "twelve");
        replica.hold_read("read");
        assert_eq!(replica.durable(ONE, Sequence(10)), None);
        assert!(released(&mut replica).is_empty());
        assert_eq!(replica.durable(ONE, Sequence(11)), Some(Effect::Commit(Sequence(11))));
        assert_eq!(released(&mut replica), [("eleven", Release::Committed)]);
        assert_eq!(replica.durable(ONE, Sequence(12)), Some(Effect::Commit(Sequence(12))));
        assert_eq!(released(&mut replica), [("twelve", Release::Committed), ("read", Release::Committed)]);
        assert_eq!(replica.held(), 0);
    }

    #[test]
    fn after_a_failure_uncommitted_answers_leave_as_unknown() {
        let mut replica = HeldAnswers::new(Configuration::single(ONE), Sequence(0));
        replica.appended(Sequence(2));
        replica.hold(Sequence(1), "one");
        replica.hold(Sequence(2), "two");
        replica.durable(ONE, Sequence(1));
        replica.fail();
        assert_eq!(replica.durable(ONE, Sequence(2)), None);
        assert_eq!(released(&mut replica), [("one", Release::Committed), ("two", Release::OutcomeUnknown)]);
        replica.hold_read("late");
        assert_eq!(released(&mut replica), [("late", Release::OutcomeUnknown)]);
        assert_eq!(replica.commit, Sequence(1));
    }

    #[test]
    fn a_read_waits_for_its_round_and_for_what_it_saw() {
        let mut replica = HeldAnswers::new(Configuration::single(ONE), Sequence(0));
        replica.hold_behind(3, "three");
        replica.appended(Sequence(1));
        replica.hold_behind(4, "four");
        replica.hold_read("write");
        assert!(released(&mut replica).is_empty());
        replica.confirmed(4);
        assert_eq!(released(&mut replica), [("three", Release::Committed)]);
        replica.confirmed(2);
        replica.durable(ONE, Sequence(1));
        assert_eq!(released(&mut replica), [("four", Release::Committed), ("write", Release::Committed)]);
        replica.hold_behind(5, "five");
        replica.fail();
        assert_eq!(released(&mut replica), [("five", Release::OutcomeUnknown)]);
    }

    #[test]
    #[should_panic(expected = "durable goes back")]
    fn durable_never_goes_back() {
        let mut replica = HeldAnswers::<()>::new(Configuration::single(ONE), Sequence(5));
        replica.durable(ONE, Sequence(4));
    }

    #[test]
    #[should_panic(expected = "before it was appended")]
    fn durable_never_runs_ahead() {
        let mut replica = HeldAnswers::<()>::new(Configuration::single(ONE), Sequence(5));
        replica.durable(ONE, Sequence(6));
    }

    #[test]
    #[should_panic(expected = "not appended")]
    fn an_answer_never_waits_for_what_does_not_come() {
        HeldAnswers::new(Configuration::single(ONE), Sequence(5)).hold(Sequence(6), ());
    }

    #[derive(Clone, Debug)]
    enum Event {
        /// Executes a transaction that writes.
        Write,
        Read,
        /// This member catches up with this part (of 255) of what it does not have durable.
        Durable(usize, u8),
        Fail,
        Release,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            8 => Just(Event::Write),
            4 => Just(Event::Read),
            12 => (0..4usize, any::<u8>()).prop_map(|(member, part)| Event::Durable(member, part)),
            1 => Just(Event::Fail),
            6 => Just(Event::Release),
        ]
    }

    proptest! {
        #[test]
        fn no_answer_leaves_before_all_members_have_what_it_saw(
            members in 1..5usize,
            start in 0..100u64,
            events in prop::collection::vec(event(), 0..200),
        ) {
            let nodes: Vec<NodeId> = (0..members as u32).map(|node| NodeId(node * 3)).collect();
            let configuration = Configuration::new(Epoch(1), nodes[0], nodes.clone());
            let mut replica = HeldAnswers::new(configuration, Sequence(start));
            // The model: what each member has; when it failed, the least of that; the answers in
            // order.
            let mut durable = vec![start; members];
            let mut appended = start;
            let mut failed_at = None;
            let mut held = std::collections::VecDeque::new();
            let mut tag = 0u32;
            for event in events {
                match event {
                    Event::Write => {
                        appended += 1;
                        replica.appended(Sequence(appended));
                        replica.hold(Sequence(appended), tag);
                        held.push_back((appended, tag));
                        tag += 1;
                    }
                    Event::Read => {
                        replica.hold_read(tag);
                        held.push_back((appended, tag));
                        tag += 1;
                    }
                    Event::Durable(member, part) => {
                        let member = member % members;
                        let before = *durable.iter().min().unwrap();
                        durable[member] += (appended - durable[member]) * u64::from(part) / 255;
                        let after = *durable.iter().min().unwrap();
                        let effect = replica.durable(nodes[member], Sequence(durable[member]));
                        let commits = after > before && failed_at.is_none();
                        prop_assert_eq!(effect, commits.then_some(Effect::Commit(Sequence(after))));
                    }
                    Event::Fail => {
                        replica.fail();
                        failed_at.get_or_insert(*durable.iter().min().unwrap());
                    }
                    Event::Release => {
                        let commit = failed_at.unwrap_or(*durable.iter().min().unwrap());
                        for (answer, outcome) in replica.take_released() {
                            let (sequence, expected) = held.pop_front().unwrap();
                            prop_assert_eq!(answer, expected);
                            match outcome {
                                Release::Committed => prop_assert!(sequence <= commit),
                                Release::OutcomeUnknown => prop_assert!(failed_at.is_some() && sequence > commit),
                            }
                        }
                        // Nothing is kept that could leave.
                        prop_assert!(held.front().is_none_or(|(sequence, _)| failed_at.is_none() && *sequence > commit));
                        prop_assert_eq!(replica.held(), held.len());
                    }
                }
            }
        }
    }
}
