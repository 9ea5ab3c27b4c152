//! So many callers, each of which makes its next call when the last one has ended.

use ferrite_client::{Client, ClientError};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

#[derive(Default)]
struct Counts {
    stopped: AtomicBool,
    made: AtomicI64,
    failed: AtomicI64,
    unknown: AtomicI64,
    not_sent: AtomicI64,
    answered: Mutex<Vec<i64>>,
}

pub struct Hammer {
    counts: Arc<Counts>,
    callers: Vec<JoinHandle<()>>,
}

impl Hammer {
    pub fn start(client: &Client, procedure: &str, callers: usize) -> Hammer {
        let counts = Arc::new(Counts::default());
        let caller = |_| {
            let (client, procedure, counts) = (client.clone(), procedure.to_string(), Arc::clone(&counts));
            thread::spawn(move || call(&client, &procedure, &counts))
        };
        let callers = (0..callers).map(caller).collect();
        Hammer { counts, callers }
    }

    pub fn answered(&self) -> usize {
        self.counts.answered.lock().expect("no caller panics").len()
    }

    pub fn stop(self) -> String {
        let counts = &self.counts;
        counts.stopped.store(true, SeqCst);
        self.callers.into_iter().for_each(|caller| caller.join().expect("no caller panics"));
        let ids: Vec<String> = counts.answered.lock().expect("no caller panics").iter().map(i64::to_string).collect();
        let number = |count: &AtomicI64| count.load(SeqCst);
        let (made, failed) = (number(&counts.made), number(&counts.failed));
        format!("ok\t{made}\t{failed}\t{}\t{}\t{}", number(&counts.unknown), number(&counts.not_sent), ids.join(","))
    }
}

fn call(client: &Client, procedure: &str, counts: &Counts) {
    while !counts.stopped.load(SeqCst) {
        let id = counts.made.fetch_add(1, SeqCst);
        let count = match client.call_blocking(procedure, (id,)) {
            Ok(_) => {
                counts.answered.lock().expect("no caller panics").push(id);
                continue;
            }
            Err(error) if error.is_outcome_unknown() => &counts.unknown,
            Err(ClientError::Failed(_)) => &counts.failed,
            Err(_) => &counts.not_sent,
        };
        count.fetch_add(1, SeqCst);
        // Backs off after a call that failed, or a server that is away would be called as fast as a
        // loop goes round. Nothing waits for it.
        thread::sleep(Duration::from_millis(1));
    }
}
