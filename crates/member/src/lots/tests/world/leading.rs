//! A group: its committed stream, and a node that leads it, or thinks so. The group has a number,
//! to which moves add and from which they take.

use super::*;

/// The calls that changed the number, and by how much.
pub type Redo = Vec<(usize, i64)>;

pub struct Stream {
    pub id: GroupId,
    pub epoch: Epoch,
    pub leader: Option<u32>,
    committed: Vec<Record<Redo>>,
    /// Of the newest leader, what the members have and what is not committed yet.
    pending: VecDeque<Record<Redo>>,
}

/// Decided parts of a stream.
fn applied_of(records: &[Record<Redo>]) -> (Ledger<Redo>, Redo) {
    let mut ledger = Ledger::default();
    let mut applied = Redo::new();
    for record in records {
        if let ferrite_multi::Applied::Committed(part) =
            ledger.apply(record.clone()).expect("the stream holds together")
        {
            applied.extend(part.redo);
        }
    }
    (ledger, applied)
}

impl Stream {
    pub fn new(id: GroupId) -> Stream {
        Stream { id, epoch: Epoch(0), leader: None, committed: Vec::new(), pending: VecDeque::new() }
    }

    /// What the leader before had appended is there in part, and committed then.
    pub fn elect(&mut self, node: u32, numbers: &mut Numbers) -> Leading {
        self.epoch = Epoch(self.epoch.0 + 1);
        self.leader = Some(node);
        let kept = numbers.below(self.pending.len() as u32 + 1) as usize;
        self.committed.extend(self.pending.drain(..).take(kept));
        let (ledger, applied) = applied_of(&self.committed);
        Leading {
            id: self.id,
            epoch: self.epoch,
            agent: Agent::new(self.id, self.epoch, &ledger),
            applied: applied.clone(),
            before: None,
            inherited: ledger.in_doubt().iter().map(|(lot, part)| (*lot, part.redo.clone())).collect(),
            appended: VecDeque::new(),
            confirming: Vec::new(),
            failing: Vec::new(),
            count: 0,
            committed: 0,
        }
    }

    /// The members have more of what the leader has appended; some of that is committed.
    pub fn commit_some(&mut self, leading: &mut Leading, numbers: &mut Numbers, now: Moment) {
        while numbers.percent(70) {
            let Some(record) = leading.appended.pop_front() else { break };
            self.pending.push_back(record);
        }
        while numbers.percent(60) {
            let Some(record) = self.pending.pop_front() else { break };
            leading.committed += 1;
            self.committed.push(record.clone());
            match record {
                Record::Prepared { lot, .. } => leading.agent.prepared(lot),
                Record::Decided { lot, .. } => leading.agent.decided(lot),
                Record::Refused { lot, .. } => leading.agent.refused(lot),
                Record::Ordered { epoch, .. } => leading.agent.ordered(epoch),
                Record::Settled { .. } => {}
            }
        }
        let committed = leading.committed;
        leading.confirm(|at| at <= committed, now);
    }

    /// The calls that have changed the group, each once.
    pub fn applied(&self) -> BTreeSet<usize> {
        let (_, applied) = applied_of(&self.committed);
        let calls: BTreeSet<usize> = applied.iter().map(|(call, _)| *call).collect();
        assert_eq!(calls.len(), applied.len(), "a call takes place once");
        calls
    }
}

pub struct Leading {
    id: GroupId,
    pub epoch: Epoch,
    pub agent: Agent,
    /// What its tables show.
    applied: Redo,
    /// How much of that was there before the lot that holds it.
    before: Option<usize>,
    inherited: BTreeMap<LotId, Redo>,
    appended: VecDeque<Record<Redo>>,
    /// Lots that have read, and how much was appended then.
    confirming: Vec<(LotId, usize)>,
    /// The same of lots that have failed, with their results.
    failing: Vec<(LotId, Vec<u8>, usize)>,
    /// Records that were appended, and committed, in this epoch.
    count: usize,
    committed: usize,
}

#[derive(Default)]
pub struct SaidByAgent {
    pub to_sequencer: Vec<ToSequencer>,
    pub to_agents: Vec<(GroupId, ToAgent)>,
}

impl Leading {
    fn append(&mut self, record: Record<Redo>) {
        if let Record::Decided { lot, outcome, .. } = &record
            && let Some(redo) = self.inherited.remove(lot)
            && *outcome == ferrite_multi::Outcome::Committed
        {
            self.applied.extend(redo);
        }
        self.count += 1;
        self.appended.push_back(record);
    }

    fn confirm(&mut self, is_committed: impl Fn(usize) -> bool, now: Moment) {
        let agent = &mut self.agent;
        self.failing.retain(|(lot, result, at)| {
            if is_committed(*at) {
                agent.ran(*lot, false, result.clone(), now.nanos);
            }
            !is_committed(*at)
        });
        self.confirming.retain(|(lot, at)| {
            if is_committed(*at) {
                agent.confirmed(*lot);
            }
            !is_committed(*at)
        });
    }

    fn run(&mut self, work: &[u8]) -> LotResult {
        let work = LotWork::decode(work).expect("the sequencer's");
        let mut answers = Vec::new();
        for call in &work.calls {
            let LotProgram::Procedure(name) = &call.program else { panic!("procedures are called") };
            let handle = u32::from_le_bytes(call.parameters[..4].try_into().expect("a handle")) as usize;
            let gives = u32::from(call.parameters[4]) == self.id.0;
            if name == "MoveInVain" && !gives {
                let error = UserError::constraint("23505", "in vain".to_owned());
                answers.push(LotAnswer::Failed(LotFailure::of(&error)));
                break;
            }
            if name != "Read" {
                self.applied.push((handle, if gives { -1 } else { 1 }));
            }
            let sum: i64 = self.applied.iter().map(|(_, by)| by).sum();
            let table = |number| {
                let mut table = Vec::new();
                table::write_modified_tuples(&mut table, number);
                Some(table)
            };
            answers.push(LotAnswer::Ran(vec![table(sum), table(self.applied.len() as i64)]));
        }
        LotResult(answers)
    }

    pub fn carry_out(&mut self, now: Moment) -> SaidByAgent {
        let mut said = SaidByAgent::default();
        loop {
            let effects = self.agent.effects();
            if effects.is_empty() {
                return said;
            }
            for effect in effects {
                match effect {
                    AgentEffect::Hold { lot, .. } => {
                        assert!(self.before.is_none(), "one lot at a time is held");
                        if self.agent.held(lot) {
                            self.before = Some(self.applied.len());
                        }
                    }
                    AgentEffect::Run { lot, work } => {
                        let result = self.run(&work);
                        match result.is_success() {
                            true => self.agent.ran(lot, true, result.encode(), now.nanos),
                            // It is a fact when what it saw is committed.
                            false => self.failing.push((lot, result.encode(), self.count)),
                        }
                    }
                    AgentEffect::Prepare { lot, settled, participants } => {
                        let before = self.before.expect("it is held");
                        let redo = self.applied[before..].to_vec();
                        self.append(Record::Prepared { lot, settled, participants, redo });
                    }
                    AgentEffect::Append(record) => self.append(record.map(|()| Redo::new())),
                    AgentEffect::Commit { .. } => self.before = None,
                    AgentEffect::StepBack { .. } => {
                        let before = self.before.take().expect("it is held");
                        self.applied.truncate(before);
                    }
                    AgentEffect::Release { lot } => {
                        let before = self.before.take().expect("it is held");
                        self.applied.truncate(before);
                        self.confirming.push((lot, self.count));
                    }
                    AgentEffect::ToSequencer(message) => said.to_sequencer.push(message),
                    AgentEffect::ToAgent { group, message } => said.to_agents.push((group, message)),
                }
            }
        }
    }
}
