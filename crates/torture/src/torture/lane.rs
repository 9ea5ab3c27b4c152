//! Histories of things that one client changes, one call after the other, and what of a history may
//! be found after a crash.
//!
//! The rule, for every durability: what is found is what some prefix of the whole server's history
//! leads to. With what was acknowledged in it, unless the durability promises less. Times are
//! nanoseconds of the one clock of this process.

/// One call that changed a thing, or may have.
#[derive(Clone, Debug)]
pub struct Step<S> {
    pub after: S,
    pub sent: u64,
    /// None: nobody knows.
    pub acknowledged: Option<u64>,
}

/// A thing's history since the last check. Calls that were refused are not in it.
#[derive(Clone, Debug)]
pub struct Lane<S> {
    pub before: S,
    pub steps: Vec<Step<S>>,
}

impl<S: PartialEq + Clone + std::fmt::Debug> Lane<S> {
    pub fn new(before: S) -> Lane<S> {
        Lane { before, steps: Vec::new() }
    }

    /// Its state after this many steps.
    pub fn state(&self, steps: usize) -> &S {
        if steps == 0 { &self.before } else { &self.steps[steps - 1].after }
    }

    /// Its state if all that was sent is carried out.
    pub fn last(&self) -> &S {
        self.state(self.steps.len())
    }

    pub fn sent(&mut self, after: S, sent: u64) {
        self.steps.push(Step { after, sent, acknowledged: None });
    }

    pub fn acknowledged(&mut self, at: u64) {
        self.steps.last_mut().expect("a call was sent").acknowledged = Some(at);
    }

    /// The server said that the last call was not carried out, or it never went out.
    pub fn refused(&mut self) {
        self.steps.pop().expect("a call was sent");
    }

    /// Compares what is there with the history, tells `cut` what survived and what was lost, and
    /// goes on from what is there.
    pub fn settle(&mut self, found: &S, cut: &mut Cut, name: impl Fn() -> String) {
        let matching = |steps: &usize| self.state(*steps) == found;
        let mut fitting = (0..=self.steps.len()).filter(matching);
        match fitting.next() {
            None => cut.finding(format!(
                "{}: {found:?} is there, which it never was; it was {:?}, then {:?}",
                name(),
                self.before,
                self.steps
            )),
            Some(first) => {
                // Where several prefixes fit, only what holds for each of them is certain.
                let last = fitting.last().unwrap_or(first);
                if first > 0 {
                    cut.survived(self.steps[first - 1].sent, || format!("{}: {found:?}", name()));
                }
                for step in &self.steps[last..] {
                    if let Some(at) = step.acknowledged {
                        cut.lost(at, || format!("{}: {:?} was acknowledged, {found:?} is there", name(), step.after));
                    }
                }
            }
        }
        self.before = found.clone();
        self.steps.clear();
    }
}

/// What was found about one crash, over all things: what survived, what was lost, what can never
/// be.
#[derive(Debug, Default)]
pub struct Cut {
    /// When the last call was sent that has survived.
    survivor_sent: Option<(u64, String)>,
    /// When the first call was acknowledged that is lost, and how many are.
    lost_acknowledged: Option<(u64, String)>,
    pub lost: u64,
    pub findings: Vec<String>,
    /// The check itself changed what is there.
    pub changed: bool,
}

/// More than these are counted and not told.
const FINDINGS_MAX: usize = 10;

impl Cut {
    pub fn finding(&mut self, text: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(text);
        }
    }

    pub fn survived(&mut self, sent: u64, what: impl FnOnce() -> String) {
        if self.survivor_sent.as_ref().is_none_or(|(latest, _)| sent > *latest) {
            self.survivor_sent = Some((sent, what()));
        }
    }

    pub fn lost(&mut self, acknowledged: u64, what: impl FnOnce() -> String) {
        self.lost += 1;
        if self.lost_acknowledged.as_ref().is_none_or(|(earliest, _)| acknowledged < *earliest) {
            self.lost_acknowledged = Some((acknowledged, what()));
        }
    }

    /// Judges by the promise: `loss_max_nanos` is for how long before the crash acknowledged calls
    /// may be lost (None: for as long as it likes; 0: never). Returns how long before the crash the
    /// first loss was acknowledged.
    pub fn judge(&mut self, crash: u64, loss_max_nanos: Option<u64>) -> Option<u64> {
        let (acknowledged, what) = self.lost_acknowledged.take()?;
        let lost = self.lost;
        let age = crash.saturating_sub(acknowledged);
        if loss_max_nanos.is_some_and(|most| most == 0 || age > most) {
            self.finding(format!(
                "{lost} acknowledged calls are lost, the first one acknowledged {:.3} ms before the crash: {what}",
                age as f64 / 1e6
            ));
        }
        if let Some((sent, survivor)) = self.survivor_sent.take()
            && sent > acknowledged
        {
            self.finding(format!(
                "not a prefix: lost is what was acknowledged {:.3} ms before the sending of what survived; lost: {what}; \
                 survived: {survivor}",
                (sent - acknowledged) as f64 / 1e6
            ));
        }
        Some(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps to 1, 2, 3, sent at 10, 20, 30 and acknowledged 5 later, but for the last.
    fn lane() -> Lane<u32> {
        let mut lane = Lane::new(0);
        for state in 1..=3 {
            lane.sent(state, u64::from(state) * 10);
            if state < 3 {
                lane.acknowledged(u64::from(state) * 10 + 5);
            }
        }
        lane
    }

    fn settled(found: u32) -> Cut {
        let mut cut = Cut::default();
        let mut lane = lane();
        lane.settle(&found, &mut cut, || "lane".to_string());
        assert_eq!((lane.before, lane.steps.len()), (found, 0));
        cut
    }

    #[test]
    fn what_is_unknown_may_be_there_or_not() {
        for found in [2, 3] {
            let mut cut = settled(found);
            assert_eq!((cut.judge(40, Some(0)), cut.findings.len()), (None, 0));
        }
    }

    #[test]
    fn what_was_acknowledged_is_missed() {
        let mut cut = settled(1);
        assert_eq!(cut.judge(40, Some(0)), Some(15));
        assert!(cut.findings[0].contains("acknowledged calls are lost"), "{:?}", cut.findings);
        assert!(settled(0).lost == 2 && settled(1).lost == 1);
        // Promised for older ones only.
        let mut cut = settled(1);
        assert_eq!((cut.judge(40, Some(15)), cut.findings.len()), (Some(15), 0));
        let mut cut = settled(1);
        cut.judge(40, Some(14));
        assert_eq!(cut.findings.len(), 1);
    }

    #[test]
    fn what_never_was_is_found() {
        assert!(settled(9).findings[0].contains("never was"));
    }

    #[test]
    fn a_gap_is_no_prefix() {
        let mut cut = settled(1);
        cut.survived(26, || "another lane".to_string());
        cut.judge(40, None);
        assert!(cut.findings[0].contains("not a prefix"), "{:?}", cut.findings);
        // Sent before the other was acknowledged: either may have come first.
        let mut cut = settled(1);
        cut.survived(25, || "another lane".to_string());
        cut.judge(40, None);
        assert!(cut.findings.is_empty());
    }

    #[test]
    fn states_that_come_again_prove_only_what_is_certain() {
        let mut lane = Lane::new(0);
        for (state, sent) in [(1, 10), (0, 20), (1, 30)] {
            lane.sent(state, sent);
            lane.acknowledged(sent + 5);
        }
        let mut cut = Cut::default();
        lane.settle(&0, &mut cut, || "lane".to_string());
        // 0 is there at the beginning and after two steps: the third is lost in any case, no
        // survivor is certain.
        assert_eq!((cut.lost, cut.survivor_sent.is_none()), (1, true));
    }
}
