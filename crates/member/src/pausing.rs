//! `@Pause` and `@Resume` of a cluster (docs/decisions/0085-pausing-a-cluster.md): asks the voters
//! until the metadata shows it.
//!
//! Promises that a process reports success only while it leads by a state of the metadata in which
//! the database is paused, or resumed. Each later leader begins from a later state, and knows. The
//! voters are asked also where the state shows it already: each pause and each resume raises the
//! settings' revision, so an earlier question that is still under way is refused from then on.

use ferrite_base::{ErrorKind, UserError, UserResult, planted};
use ferrite_group::FIRST_GROUP;
use ferrite_meta::{Ask, Phase, Settings, State};
use ferrite_replica::group::Member;
use std::time::Duration;

/// How long the voters are asked.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Between two questions.
const AGAIN: Duration = Duration::from_millis(200);

/// An operator pauses or resumes the database, and hears the outcome.
pub struct Pause {
    pub paused: bool,
    /// With the revision of the settings that say it.
    pub told: Box<dyn FnOnce(UserResult<u64>) + Send>,
}

struct UnderWay {
    asks: Pause,
    until: u64,
    /// None: the voters have not been asked.
    asked: Option<Asked>,
}

#[derive(Clone, Copy)]
struct Asked {
    /// The revision of the settings that were known when it began.
    revision: u64,
    /// When the voters are asked again.
    next: u64,
}

/// Of one node.
#[derive(Default)]
pub struct Pauses(Vec<UnderWay>);

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn is_chosen(state: &State, here: Member) -> bool {
    let group = state.groups().get(&FIRST_GROUP).filter(|group| group.phase == Phase::Active);
    group.is_some_and(|group| group.configuration.leader == here)
}

/// Where the voters were asked, it is not known whether it has happened or will.
fn not_known(asked: bool, why: &str) -> UserError {
    if asked {
        let text = format!("{why} before it was known whether this took effect");
        UserError::new(ErrorKind::OutcomeUnknown, "08007", text)
            .with_hint("ferrite admin status shows whether the database is paused; call again")
    } else {
        let text = format!("{why}: nothing was done");
        UserError::new(ErrorKind::Unavailable, "57P03", text).with_hint("call again")
    }
}

impl Pauses {
    /// Whether anything is to be looked at soon.
    pub fn waits(&self) -> bool {
        !self.0.is_empty()
    }

    pub fn begin(&mut self, asks: Pause, now: u64) {
        self.0.push(UnderWay { asks, until: now.saturating_add(nanos(TIME_MAX)), asked: None });
    }

    /// Looks at what this node knows of the metadata, and asks the voters again. `here`: this
    /// process.
    pub fn advance(&mut self, state: &State, here: Member, now: u64, ask: &mut dyn FnMut(Ask)) {
        for mut one in std::mem::take(&mut self.0) {
            let asked = one.asked.is_some();
            let has_happened = |settings: &Settings| {
                settings.paused == one.asks.paused
                    && (planted!(LatePause) || one.asked.is_some_and(|asked| settings.revision > asked.revision))
            };
            let outcome = match state.settings().filter(|_| is_chosen(state, here)) {
                None => Err(not_known(asked, "this node lost its leadership")),
                Some(settings) if has_happened(settings) => Ok(settings.revision),
                Some(_) if now >= one.until => {
                    Err(not_known(asked, "a majority of the cluster's voters was not reached"))
                }
                Some(settings) => {
                    if one.asked.is_none_or(|asked| now >= asked.next) {
                        let revision = one.asked.map_or(settings.revision, |asked| asked.revision);
                        one.asked = Some(Asked { revision, next: now.saturating_add(nanos(AGAIN)) });
                        ask(Ask::Pause { from: here, revision: settings.revision, paused: one.asks.paused });
                    }
                    self.0.push(one);
                    continue;
                }
            };
            (one.asks.told)(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ferrite_base::{Epoch, NodeId};
    use ferrite_meta::Command;
    use ferrite_replica::group::{GroupConfiguration, Mark};
    use std::sync::{Arc, Mutex};

    type Told = Arc<Mutex<Vec<Result<(), ErrorKind>>>>;

    fn asks(paused: bool, told: &Told) -> Pause {
        let told = Arc::clone(told);
        let hear = move |outcome: UserResult<u64>| {
            told.lock().unwrap().push(outcome.map(drop).map_err(|error| error.kind()));
        };
        Pause { paused, told: Box::new(hear) }
    }

    fn state() -> State {
        testing::founded((1..=3).map(testing::node).collect(), &[1, 2], &[1, 2, 3])
    }

    /// The metadata, after what `asked` was carried out.
    fn carried_out(state: &State, asked: &[Ask]) -> State {
        let mut state = state.clone();
        for ask in asked {
            let Ask::Pause { revision, paused, .. } = *ask else { panic!("{ask:?}") };
            // One that comes late is refused.
            let _ = state.apply(&Command::Pause { revision, paused });
        }
        state
    }

    #[test]
    fn it_is_told_when_the_metadata_says_so_and_a_late_question_changes_nothing() {
        let (state, here, told) = (state(), Member::new(1, 1), Told::default());
        let (mut pauses, mut asked) = (Pauses::default(), Vec::new());
        pauses.begin(asks(true, &told), 0);
        for now in [0, 1, nanos(AGAIN)] {
            pauses.advance(&state, here, now, &mut |ask| asked.push(ask));
        }
        assert_eq!((asked.len(), told.lock().unwrap().len()), (2, 0), "asked again, and not told yet");
        let paused = carried_out(&state, &asked);
        assert!(paused.is_paused());
        pauses.advance(&paused, here, nanos(AGAIN) + 1, &mut |ask| panic!("{ask:?}"));
        assert_eq!((told.lock().unwrap().pop(), pauses.waits()), (Some(Ok(())), false));
        let mut resumes = Vec::new();
        pauses.begin(asks(false, &told), 0);
        pauses.advance(&paused, here, 0, &mut |ask| resumes.push(ask));
        let resumed = carried_out(&paused, &[&resumes[..], &asked[..]].concat());
        assert!(!resumed.is_paused(), "the first questions are of earlier settings");
        pauses.advance(&resumed, here, 1, &mut |ask| panic!("{ask:?}"));
        assert_eq!(told.lock().unwrap().pop(), Some(Ok(())));
    }

    #[test]
    fn a_pause_of_unknown_outcome_has_no_effect_behind_a_resume() {
        let (state, here, told) = (state(), Member::new(1, 1), Told::default());
        let (mut pauses, mut late) = (Pauses::default(), Vec::new());
        pauses.begin(asks(true, &told), 0);
        pauses.advance(&state, here, 0, &mut |ask| late.push(ask));
        pauses.advance(&state, here, nanos(TIME_MAX), &mut |ask| panic!("{ask:?}"));
        assert_eq!(told.lock().unwrap().pop(), Some(Err(ErrorKind::OutcomeUnknown)));
        let mut resumes = Vec::new();
        pauses.begin(asks(false, &told), 0);
        pauses.advance(&state, here, 0, &mut |ask| resumes.push(ask));
        assert_eq!((resumes.len(), told.lock().unwrap().len()), (1, 0), "it is asked for though it seems to be so");
        let resumed = carried_out(&state, &resumes);
        pauses.advance(&resumed, here, 1, &mut |ask| panic!("{ask:?}"));
        assert_eq!(told.lock().unwrap().pop(), Some(Ok(())));
        assert!(!carried_out(&resumed, &late).is_paused(), "the resume was acknowledged");
        // Where the pause comes first, the resume follows it.
        let paused = carried_out(&state, &late);
        pauses.begin(asks(false, &told), 0);
        resumes.clear();
        pauses.advance(&state, here, 0, &mut |_| {});
        pauses.advance(&paused, here, nanos(AGAIN), &mut |ask| resumes.push(ask));
        pauses.advance(&carried_out(&paused, &resumes), here, nanos(AGAIN), &mut |ask| panic!("{ask:?}"));
        assert_eq!(told.lock().unwrap().pop(), Some(Ok(())));
    }

    #[test]
    fn whoever_no_longer_leads_promises_nothing() {
        let (before, here, told, mut pauses) = (state(), Member::new(1, 1), Told::default(), Pauses::default());
        pauses.begin(asks(true, &told), 0);
        let mut asked = Vec::new();
        pauses.advance(&before, here, 0, &mut |ask| asked.push(ask));
        let mut after = carried_out(&before, &asked);
        let members = after.groups()[&FIRST_GROUP].configuration.members().to_vec();
        let configuration = GroupConfiguration::new(Epoch(2), Member::new(2, 1), members, Vec::new());
        let parent = Mark { epoch: Epoch(1), position: ferrite_base::Position(1), chain: 0 };
        let handed_over = Command::Configure { group: FIRST_GROUP, expected: Epoch(1), configuration, parent };
        after.apply(&handed_over).expect("a member runs");
        assert!(after.is_paused() && after.groups()[&FIRST_GROUP].configuration.leader.node == NodeId(2));
        // Node 2 may lead by a state before the pause, and still accept writes.
        pauses.advance(&after, here, 1, &mut |ask| panic!("{ask:?}"));
        assert_eq!(told.lock().unwrap().pop(), Some(Err(ErrorKind::OutcomeUnknown)));
        pauses.begin(asks(true, &told), 1);
        pauses.advance(&after, here, 1, &mut |ask| panic!("{ask:?}"));
        assert_eq!(told.lock().unwrap().pop(), Some(Err(ErrorKind::Unavailable)), "nothing was asked");
        pauses.begin(asks(true, &told), 1);
        pauses.advance(&before, here, 1, &mut |_| {});
        pauses.advance(&before, here, 1 + nanos(TIME_MAX), &mut |ask| panic!("{ask:?}"));
        assert_eq!(told.lock().unwrap().pop(), Some(Err(ErrorKind::OutcomeUnknown)));
    }
}
