//! A server that has nothing to do does nothing: its threads sleep, its memory stays. In a process
//! of its own, since it looks at all threads and all memory.

mod common;

use common::{CONTESTANTS, VOTER, connect, options, start};
use ferrite_node::{Durability, ServerOptions};
use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

const PARTITIONS: u32 = 3;
/// The threads of partitions and network, coordinator and system; the log and the preallocator of
/// pages come on top.
const THREADS_MIN: usize = PARTITIONS as usize + 2 + 1 + 1 + 1;
/// A length of time to look at, not something to wait for.
const INTERVAL: Duration = Duration::from_millis(1_200);
/// Network threads look at their connections every second.
const NETWORK_WAKEUPS_MAX: u64 = 3;
/// What the allocator and the harness may move.
const GROWTH_BYTES_MAX: u64 = 256 * 1024;

/// Wake-ups of each of the server's threads so far, by name and number.
fn wakeups() -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").expect("a process has threads") {
        let path = task.expect("an entry").path();
        // A thread of the harness may end meanwhile.
        let (Ok(name), Ok(status)) = (fs::read_to_string(path.join("comm")), fs::read_to_string(path.join("status")))
        else {
            continue;
        };
        let name = name.trim();
        if ["partition-", "network-", "coordinator", "system", "log", "memory"].iter().any(|own| name.starts_with(own))
        {
            let count = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
                .and_then(|number| number.trim().parse().ok())
                .expect("the kernel counts context switches");
            found.insert(format!("{name} {}", path.display()), count);
        }
    }
    found
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("with its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("in kilobytes") * 1024
}

#[test]
fn an_idle_server_sleeps_and_does_not_grow() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let durability = Durability::Interval(Duration::from_millis(5));
    let server = start(ServerOptions { durability, ..options(dir.path(), PARTITIONS) });
    let clients: Vec<_> = (0..20).map(|_| connect(&server)).collect();
    clients[0].sql(VOTER);
    clients[0].sql(CONTESTANTS);
    for (client, phone) in clients.iter().zip(5_550_000_000i64..) {
        client.call("Vote", (phone, 1i32, 2i64));
        assert!(client.0.call_blocking("Transfer", (1i64, 2i64, 0i64)).is_err(), "there are no accounts");
    }
    // The end of the work before may fall into the first interval; an idle server has a quiet one
    // soon.
    let mut seen = String::new();
    for _ in 0..8 {
        let (before, memory) = (wakeups(), resident_bytes());
        assert!(before.len() > THREADS_MIN, "all threads are looked at: {before:?}");
        thread::sleep(INTERVAL);
        let (after, grown) = (wakeups(), resident_bytes().saturating_sub(memory));
        let woken: Vec<(&String, u64)> = after
            .iter()
            .map(|(thread, count)| (thread, count - before.get(thread).copied().unwrap_or(0)))
            .filter(|(thread, count)| *count > if thread.starts_with("network-") { NETWORK_WAKEUPS_MAX } else { 0 })
            .collect();
        if woken.is_empty() && grown <= GROWTH_BYTES_MAX {
            server.stop().expect("the log is closed");
            return;
        }
        seen = format!("{woken:?} woke up, memory grew by {grown} bytes");
    }
    panic!("an idle server was busy in every interval; in the last, {seen}");
}
