//! A cluster that is not there: nodes that tell a topology, change it, refuse calls, die in the
//! middle of them, and come back.

use super::{Call, Peer};
use ferrite_value::hash::partition_token_i64;
use ferrite_value::ring::Ring;
use ferrite_value::{SqlType, Value};
use ferrite_wire::{ResponseWriter, Status, TableHeader, handles};
use std::collections::HashMap;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

pub const PARTITIONS: u32 = 4;
const COORDINATOR: i64 = 16_383;

/// What a node does with the calls of applications.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Answers with its host id.
    Serves,
    /// Answers that it does not lead, and executes nothing.
    Refuses,
    /// Takes calls and says nothing.
    Silent,
    /// Takes a call and dies.
    Dies,
    /// Does not even read.
    Stuck,
}

/// A call that a node got: of an application, or the driver's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Got {
    pub host: i32,
    pub procedure: String,
    pub frame: Vec<u8>,
}

struct Node {
    address: String,
    manner: Manner,
    /// Refuses connections while it is false.
    up: bool,
    cluster_start_ms: i64,
    /// Who it says leads each partition, and transactions over several.
    view: Vec<i32>,
    coordinator: i32,
    open: Vec<TcpStream>,
}

#[derive(Default)]
struct State {
    nodes: Vec<Node>,
    got: Vec<Got>,
    /// Sent by the node of this id before its next answer to an application.
    pushes: HashMap<i32, usize>,
    /// Answered in place of the topology.
    malformed: Option<Vec<u8>>,
    logins: usize,
}

/// Nodes that share what they were told to do.
#[derive(Clone)]
pub struct Cluster {
    state: Arc<(Mutex<State>, Condvar)>,
    ring: Arc<Ring>,
}

impl Cluster {
    /// This many nodes that are up and agree: partition `p` is led by host `p` modulo their number,
    /// transactions over several by host 0.
    pub fn of(nodes: usize) -> Cluster {
        let ring = Arc::new(Ring::new_default(PARTITIONS));
        let cluster = Cluster { state: Arc::default(), ring };
        for host in 0..nodes {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            cluster.lock().nodes.push(Node {
                address: listener.local_addr().unwrap().to_string(),
                manner: Manner::Serves,
                up: true,
                cluster_start_ms: 2,
                view: (0..PARTITIONS as usize).map(|partition| (partition % nodes) as i32).collect(),
                coordinator: 0,
                open: Vec::new(),
            });
            let cluster = cluster.clone();
            thread::spawn(move || cluster.listen(host as i32, &listener));
        }
        cluster
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn address(&self, host: i32) -> String {
        self.lock().nodes[host as usize].address.clone()
    }

    pub fn addresses(&self) -> Vec<String> {
        self.lock().nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// A key of the partition.
    pub fn key_of(&self, partition: u32) -> i64 {
        let owner = |key: &i64| self.ring.partition_of(partition_token_i64(*key)).0;
        (0..).find(|key| owner(key) == partition).unwrap()
    }

    pub fn is(&self, host: i32, manner: Manner) {
        self.lock().nodes[host as usize].manner = manner;
        self.state.1.notify_all();
    }

    pub fn belongs_to_another(&self, host: i32) {
        self.lock().nodes[host as usize].cluster_start_ms = 3;
    }

    /// Says this instead of who leads.
    pub fn tells(&self, table_bytes: Vec<u8>) {
        self.lock().malformed = Some(table_bytes);
    }

    /// From now on this node believes that.
    pub fn believes(&self, host: i32, view: [i32; PARTITIONS as usize], coordinator: i32) {
        let mut state = self.lock();
        let node = &mut state.nodes[host as usize];
        (node.view, node.coordinator) = (view.into(), coordinator);
    }

    /// The node tells its subscribers what it believes before it answers the next call.
    pub fn pushes_before_next_answer(&self, host: i32) {
        *self.lock().pushes.entry(host).or_default() += 1;
    }

    /// Ends its connections, and makes no new ones.
    pub fn dies(&self, host: i32) {
        let mut state = self.lock();
        let node = &mut state.nodes[host as usize];
        node.up = false;
        node.open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        self.state.1.notify_all();
    }

    pub fn comes_back(&self, host: i32) {
        self.lock().nodes[host as usize].up = true;
    }

    /// What applications called, by host, since the last look.
    pub fn calls(&self) -> Vec<(i32, String)> {
        let mut state = self.lock();
        let got = std::mem::take(&mut state.got);
        let own = |got: &Got| !got.procedure.starts_with('@') || got.procedure == "@AdHoc";
        got.into_iter().filter(own).map(|got| (got.host, got.procedure)).collect()
    }

    /// How often this was asked of a host since the last look at the calls.
    pub fn asked(&self, host: i32, procedure: &str) -> usize {
        self.lock().got.iter().filter(|got| got.host == host && got.procedure == procedure).count()
    }

    pub fn logins(&self) -> usize {
        self.lock().logins
    }

    pub fn connections(&self, host: i32) -> usize {
        self.lock().nodes[host as usize].open.len()
    }

    fn listen(&self, host: i32, listener: &TcpListener) {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut state = self.lock();
            let node = &mut state.nodes[host as usize];
            if !node.up {
                continue;
            }
            node.open.push(stream.try_clone().unwrap());
            let cluster_start_ms = node.cluster_start_ms;
            drop(state);
            let cluster = self.clone();
            thread::spawn(move || cluster.serve(host, cluster_start_ms, Peer::of(stream)));
        }
    }

    fn serve(&self, host: i32, cluster_start_ms: i64, mut peer: Peer) {
        let address = peer.stream.peer_addr().unwrap();
        if peer.login_comes() {
            peer.accept_login_as(host, cluster_start_ms);
            self.lock().logins += 1;
            while let Some(call) = self.next(host, &mut peer) {
                if !self.takes(host, &mut peer, &call) {
                    break;
                }
            }
        }
        let mut state = self.lock();
        state.nodes[host as usize].open.retain(|open| open.peer_addr().is_ok_and(|other| other != address));
    }

    fn next(&self, host: i32, peer: &mut Peer) -> Option<Call> {
        let mut state = self.lock();
        while state.nodes[host as usize].manner == Manner::Stuck && state.nodes[host as usize].up {
            state = self.state.1.wait(state).unwrap();
        }
        drop(state);
        peer.call()
    }

    /// False: the connection ends.
    fn takes(&self, host: i32, peer: &mut Peer, call: &Call) -> bool {
        let mut state = self.lock();
        state.got.push(Got { host, procedure: call.procedure.clone(), frame: call.frame.clone() });
        let mut out = Vec::new();
        match call.procedure.as_str() {
            "@Subscribe" => ResponseWriter::begin(&mut out, call.handle).finish(),
            "@Statistics" => match &state.malformed {
                Some(table) => {
                    let mut response = ResponseWriter::begin(&mut out, call.handle);
                    let length = (table.len() as i32).to_be_bytes();
                    response.encoded_table(&[&length, table.as_slice()].concat()).unwrap();
                    response.finish();
                }
                None => self.write_topology(&state.nodes[host as usize], &mut out, call.handle),
            },
            "@SystemCatalog" => write_procedures(&mut out, call.handle),
            "@SystemInformation" => write_overview(&state.nodes, &mut out, call.handle),
            "@Ping" => ferrite_wire::response::write_pong(&mut out, call.handle),
            _ => {
                if let Some(pushes @ 1..) = state.pushes.get_mut(&host) {
                    *pushes -= 1;
                    self.write_topology(&state.nodes[host as usize], &mut out, handles::TOPOLOGY_PUSH);
                }
                match state.nodes[host as usize].manner {
                    Manner::Serves => ferrite_wire::response::write_scalar(&mut out, call.handle, host.into()),
                    Manner::Refuses => {
                        let (status, text) = (Status::ServerUnavailable, "this node is not the leader: host 1 is");
                        ferrite_wire::response::write_failure(&mut out, call.handle, status, "57P03", text);
                    }
                    Manner::Silent | Manner::Stuck => {}
                    Manner::Dies => {
                        drop(state);
                        self.dies(host);
                        return false;
                    }
                }
            }
        }
        drop(state);
        peer.send(&out).is_ok()
    }

    fn write_topology(&self, node: &Node, out: &mut Vec<u8>, handle: i64) {
        let columns = [("Partition", SqlType::Integer), ("Sites", SqlType::Varchar), ("Leader", SqlType::Varchar)];
        let sites = TableHeader::new(columns);
        let configuration = TableHeader::new([("HASHTYPE", SqlType::Varchar), ("HASHCONFIG", SqlType::Varbinary)]);
        let mut response = ResponseWriter::begin(out, handle);
        let mut table = response.table(&sites);
        let led = node.view.iter().enumerate().map(|(partition, host)| (partition as i64, *host));
        for (partition, host) in led.chain([(COORDINATOR, node.coordinator)]) {
            let leader = format!("{host}:{partition}");
            // Every node has a copy of everything.
            table.row(&[Value::Integer(partition), Value::Text("0:0,1:0,2:0"), Value::Text(&leader)]).unwrap();
        }
        table.finish();
        let mut table = response.table(&configuration);
        table.row(&[Value::Text("ELASTIC"), Value::Bytes(&self.ring.raw_bytes())]).unwrap();
        table.finish();
        response.finish();
    }
}

/// `One`, partitioned on its first parameter, a BIGINT, and `All`, which is not.
fn write_procedures(out: &mut Vec<u8>, handle: i64) {
    let header = TableHeader::new([("PROCEDURE_NAME", SqlType::Varchar), ("REMARKS", SqlType::Varchar)]);
    let mut response = ResponseWriter::begin(out, handle);
    let mut table = response.table(&header);
    let one = r#"{"readOnly":false,"singlePartition":true,"partitionParameter":0,"partitionParameterType":6}"#;
    let all = r#"{"readOnly":false,"singlePartition":false}"#;
    for (name, remarks) in [("One", one), ("All", all)] {
        table.row(&[Value::Text(name), Value::Text(remarks)]).unwrap();
    }
    table.finish();
    response.finish();
}

fn write_overview(nodes: &[Node], out: &mut Vec<u8>, handle: i64) {
    let columns = [("HOST_ID", SqlType::Integer), ("KEY", SqlType::Varchar), ("VALUE", SqlType::Varchar)];
    let header = TableHeader::new(columns);
    let mut response = ResponseWriter::begin(out, handle);
    let mut table = response.table(&header);
    for (host, node) in nodes.iter().enumerate() {
        let (ip, port) = node.address.rsplit_once(':').unwrap();
        for (key, value) in [("IPADDRESS", ip), ("HOSTNAME", "x"), ("CLIENTPORT", port)] {
            table.row(&[Value::Integer(host as i64), Value::Text(key), Value::Text(value)]).unwrap();
        }
    }
    table.finish();
    response.finish();
}
