//! One thread per load: makes its calls, takes their ends, until the server is gone; and the finger
//! on the trigger, which kills the server in the very moment in which a client hears of a success.

use crate::torture::lane::Cut;
use ferrite_bench::cluster::was_refused;
use ferrite_bench::error::{BenchResult, Doing};
use ferrite_bench::network::{Network, Trouble};
use ferrite_bench::process::{Signal, send_signal};
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_client::{Client, ClientError, ClientOptions, OwnedResponse, ParameterSet, Prepared};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How a call ended.
#[derive(Debug)]
pub enum Fate {
    Acknowledged(OwnedResponse),
    /// The server said no.
    Refused(String),
    /// It never went out, or no node took it.
    NotSent,
    Unknown,
}

#[derive(Debug)]
pub struct Ended {
    pub token: u64,
    /// The node that the call was for, if it was for a certain one.
    pub node: Option<usize>,
    pub sent: u64,
    /// When the client heard of it.
    pub at: u64,
    pub fate: Fate,
    /// There was no answer for as long as any call may take.
    pub timed_out: bool,
}

/// A load and the model of what it did. Lives through all crashes.
pub trait Load: Send {
    fn name(&self) -> &'static str;

    fn outstanding_max(&self) -> usize;

    /// A server is up again. Everything that was outstanding has ended, and what is there was
    /// checked.
    fn begin(&mut self, random: FastRandom);

    /// Makes one call. False: none can be made before another has ended, or for this round at all.
    fn call(&mut self, calls: &mut Calls) -> bool;

    fn ended(&mut self, ended: Ended, cut: &mut Cut);

    /// How many calls it makes in a round at most, which is spread over a cluster's longer rounds.
    fn calls_of_a_round(&self) -> u32;

    /// Whether some of its calls are for certain nodes of a cluster.
    fn asks_each_node(&self) -> bool {
        false
    }

    /// Compares the model with what is there, and makes it the model.
    fn check(&mut self, session: &Session, cut: &mut Cut) -> BenchResult<()>;

    /// What was found to be right, for the end of a run.
    fn summary(&self) -> Option<String> {
        None
    }
}

/// What one server process went through, seen by all loads and by whoever kills it.
#[derive(Debug)]
pub struct Control {
    pub epoch: Instant,
    /// No more calls; those outstanding are waited for.
    pub stop: AtomicBool,
    process: AtomicU64,
    /// The success that brings this to zero kills the server.
    until_kill: AtomicI64,
    /// Loads send all they may, wait until all has ended, and send again.
    pub bursts: bool,
    /// A burst, of the load that bursts are counted by, arms the trigger: the first success after
    /// it kills.
    burst_until_kill: AtomicI64,
    pub schema_changes_in_flight: AtomicI64,
    pub snapshots_in_flight: AtomicI64,
    pub acknowledged: AtomicU64,
    pub refused: AtomicU64,
    pub unknown: AtomicU64,
    /// Calls that a cluster's node did not take, and nothing of which was executed.
    pub not_taken: AtomicU64,
    killed_at: AtomicU64,
    trigger: Trigger,
    /// The server is one of a cluster: calls go on without it.
    pub has_others: bool,
    /// A node of which only reads ask.
    pub only_read_from: Option<usize>,
    /// For now nothing is written.
    pub only_reads: AtomicBool,
}

/// What the trigger does.
#[derive(Debug)]
pub enum Trigger {
    /// To the process.
    Signal(Signal),
    /// From then on this is wrong with the network.
    Trouble(Arc<Network>, Trouble),
}

const NEVER: i64 = i64::MAX / 2;

impl Control {
    pub fn new(epoch: Instant, process: u32, bursts: bool) -> Control {
        Control {
            epoch,
            stop: AtomicBool::new(false),
            process: AtomicU64::new(u64::from(process)),
            until_kill: AtomicI64::new(NEVER),
            bursts,
            burst_until_kill: AtomicI64::new(NEVER),
            schema_changes_in_flight: AtomicI64::new(0),
            snapshots_in_flight: AtomicI64::new(0),
            acknowledged: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            not_taken: AtomicU64::new(0),
            killed_at: AtomicU64::new(0),
            trigger: Trigger::Signal(Signal::KILL),
            has_others: false,
            only_read_from: None,
            only_reads: AtomicBool::new(false),
        }
    }

    /// The process is one of a cluster's.
    pub fn of_cluster(epoch: Instant, process: u32, trigger: Trigger) -> Control {
        Control { trigger, has_others: true, ..Control::new(epoch, process, false) }
    }

    pub fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// The `nth` success from now on kills the server, from within the client that hears of it.
    pub fn kill_at_success(&self, nth: u32) {
        self.until_kill.store(i64::from(nth), Ordering::SeqCst);
    }

    /// The first success after the `nth` burst from now on kills the server.
    pub fn kill_at_burst(&self, nth: u32) {
        self.burst_until_kill.store(i64::from(nth), Ordering::SeqCst);
    }

    /// Kills the server, once.
    pub fn kill(&self) {
        let process = self.process.swap(0, Ordering::SeqCst);
        if process != 0 {
            self.killed_at.store(self.now(), Ordering::SeqCst);
            match &self.trigger {
                Trigger::Signal(signal) => send_signal(process as u32, *signal),
                // Whether that was possible is seen by who does it once more.
                Trigger::Trouble(network, trouble) => drop(network.trouble(trouble)),
            }
        }
    }

    /// Somebody else ends the server: calls may go without an answer from now on.
    pub fn expect_end(&self) {
        self.process.store(0, Ordering::SeqCst);
    }

    /// When the server was killed; 0 if it was not.
    pub fn killed_at(&self) -> u64 {
        self.killed_at.load(Ordering::SeqCst)
    }

    pub fn was_killed(&self) -> bool {
        self.process.load(Ordering::SeqCst) == 0
    }

    fn success(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        if self.until_kill.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.kill();
        }
    }

    fn burst(&self) {
        if self.burst_until_kill.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.kill_at_success(1);
        }
    }
}

/// The way to the server, or to a cluster's nodes.
pub struct Calls {
    client: Client,
    /// To each of a cluster's nodes alone: they ask it, whatever has become of it.
    nodes: Vec<Client>,
    control: Arc<Control>,
    ends: Sender<Ended>,
    outstanding: usize,
    /// Those for certain nodes.
    outstanding_at: usize,
}

impl Calls {
    pub fn new(client: Client, nodes: Vec<Client>, control: Arc<Control>, ends: Sender<Ended>) -> Calls {
        Calls { client, nodes, control, ends, outstanding: 0, outstanding_at: 0 }
    }

    /// Calls whose end has not been taken, but for those for certain nodes.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Those for certain nodes.
    pub fn outstanding_at_nodes(&self) -> usize {
        self.outstanding_at
    }

    /// All calls whose end has not been taken.
    pub fn all_outstanding(&self) -> usize {
        self.outstanding + self.outstanding_at
    }

    /// An end was taken.
    pub fn one_ended(&mut self, ended: &Ended) {
        let count = if ended.node.is_some() { &mut self.outstanding_at } else { &mut self.outstanding };
        *count -= 1;
    }

    pub fn close(&self) {
        self.client.close();
        self.nodes.iter().for_each(Client::close);
    }

    /// How many nodes can be called one by one: none without a cluster.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Sends a call; its end will come with this token. Returns when it was sent, or a little
    /// earlier.
    pub fn call(&mut self, procedure: &Prepared, parameters: impl ParameterSet, token: u64) -> u64 {
        self.call_at(None, procedure, parameters, token)
    }

    /// The same, to this node of a cluster.
    pub fn call_at(
        &mut self,
        node: Option<usize>,
        procedure: &Prepared,
        parameters: impl ParameterSet,
        token: u64,
    ) -> u64 {
        let ends = self.ends.clone();
        let control = Arc::clone(&self.control);
        let sent = self.control.now();
        let (client, count) = match node {
            Some(node) => (&self.nodes[node], &mut self.outstanding_at),
            None => (&self.client, &mut self.outstanding),
        };
        *count += 1;
        let report = move |result: Result<OwnedResponse, ClientError>| {
            // The kill first: nothing else may come between hearing of the success and it.
            if result.is_ok() {
                control.success();
            }
            let at = control.now();
            let timed_out = matches!(result, Err(ClientError::Timeout { .. }));
            let fate = match result {
                Ok(response) => Fate::Acknowledged(response),
                Err(error) if error.is_outcome_unknown() => Fate::Unknown,
                Err(error) if control.has_others && was_refused(&error) => Fate::NotSent,
                Err(ClientError::Failed(response)) => Fate::Refused(response.status_text.unwrap_or_default()),
                Err(_) => Fate::NotSent,
            };
            // The receiver goes when everything has ended.
            let _ = ends.send(Ended { token, node, sent, at, fate, timed_out });
        };
        if let Err(error) = client.call_with_callback(procedure, parameters, report) {
            assert!(matches!(error, ClientError::Closed), "a call that cannot be made: {error}");
            let at = self.control.now();
            let _ = self.ends.send(Ended { token, node, sent, at, fate: Fate::NotSent, timed_out: false });
        }
        sent
    }

    pub fn now(&self) -> u64 {
        self.control.now()
    }

    pub fn control(&self) -> &Control {
        &self.control
    }
}

/// How long a thread waits for an end before it looks whether it is to stop.
pub const LOOK_AFTER: Duration = Duration::from_millis(20);
/// Calls that wait for a certain node of a cluster, at most.
pub const WAITING_AT_NODE_MAX: usize = 2_000;
/// Time that a call may take. A server that hangs is a finding.
pub const CALL_SECONDS_MAX: u64 = 60;

/// Runs a load against the server at `address` until that is gone or `control` says stop. All calls
/// have ended then.
pub fn drive(load: &mut dyn Load, address: &str, control: &Arc<Control>, cut: &mut Cut) -> BenchResult<()> {
    let options = ClientOptions {
        outstanding_max: load.outstanding_max() + 1,
        call_timeout: Duration::from_secs(CALL_SECONDS_MAX),
        // It does not come back under this address.
        reconnect_pause: Duration::from_secs(3_600),
        reconnect_pause_max: Duration::from_secs(3_600),
        ..ClientOptions::new([address.to_string()])
    };
    let client = match Client::connect(options) {
        Ok(client) => client,
        Err(_) if control.was_killed() => return Ok(()),
        Err(error) => return Err(error).doing("connecting to a server that is ready"),
    };
    let (ends, receiver) = channel();
    let mut calls = Calls::new(client, Vec::new(), Arc::clone(control), ends);
    let mut more = true;
    let mut filling = true;
    loop {
        more &= !control.stop.load(Ordering::Relaxed);
        if control.bursts {
            filling |= calls.outstanding == 0;
            if filling && more {
                control.burst();
            }
        }
        while more && filling && calls.outstanding < load.outstanding_max() && load.call(&mut calls) {}
        filling = !control.bursts;
        match receiver.recv_timeout(LOOK_AFTER) {
            Ok(ended) => {
                more &= end_call(load, ended, &mut calls, control, cut);
                more &= take_all(load, &receiver, &mut calls, control, cut);
            }
            Err(RecvTimeoutError::Timeout) if !more && calls.outstanding == 0 => break,
            Err(_) => {}
        }
        if !more && calls.outstanding == 0 {
            break;
        }
    }
    calls.close();
    Ok(())
}

fn take_all(
    load: &mut dyn Load,
    receiver: &Receiver<Ended>,
    calls: &mut Calls,
    control: &Control,
    cut: &mut Cut,
) -> bool {
    let mut more = true;
    while let Ok(ended) = receiver.try_recv() {
        more &= end_call(load, ended, calls, control, cut);
    }
    more
}

/// False when the server is gone.
fn end_call(load: &mut dyn Load, ended: Ended, calls: &mut Calls, control: &Control, cut: &mut Cut) -> bool {
    calls.one_ended(&ended);
    let more = match &ended.fate {
        Fate::Acknowledged(_) => true,
        Fate::Refused(_) => {
            control.refused.fetch_add(1, Ordering::Relaxed);
            true
        }
        Fate::NotSent => false,
        Fate::Unknown => {
            control.unknown.fetch_add(1, Ordering::Relaxed);
            if !control.was_killed() {
                cut.finding(format!("{}: a call got no answer though nobody had killed the server", load.name()));
            }
            false
        }
    };
    load.ended(ended, cut);
    more
}
