//! A new version of the catalog: who takes it up, and who is told.

use crate::mailbox::{Mail, NetworkMailbox};
use crate::message::{ExpiryNotice, TaskNotice};
use crate::plan_cache::PlanCache;
use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use ferrite_partition::Compiled;
use std::sync::Arc;

#[derive(Clone)]
pub struct Publisher {
    /// The catalog in force. Network threads look once a turn.
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub plan_cache: Arc<PlanCache>,
    pub expiry: Sender<ExpiryNotice>,
    pub tasks: Sender<TaskNotice>,
    pub network: Arc<[Arc<NetworkMailbox>]>,
}

impl Publisher {
    /// Makes a new catalog version the one that calls are routed with, and tells subscribers.
    pub fn publish(&self, compiled: Arc<Compiled>) {
        let broken = cannot_run(&compiled);
        let before = self.compiled.swap(compiled);
        if let Some(line) = broken.filter(|line| cannot_run(&before).as_ref() != Some(line)) {
            ferrite_io::errln!("ferrite: {line}");
        }
        self.plan_cache.clear();
        // Gone only when the server stops.
        let _ = self.expiry.send(ExpiryNotice::CatalogChanged);
        let _ = self.tasks.send(TaskNotice::CatalogChanged);
        for mailbox in self.network.iter() {
            mailbox.send(Mail::CatalogChanged);
        }
    }
}

/// What an operator is told where procedures cannot run on this node, as without a JDK: data are
/// kept, and calls fail when it leads.
pub fn cannot_run(compiled: &Compiled) -> Option<String> {
    let programs = compiled.programs_by_name();
    let broken = programs.iter().filter_map(|program| Some((program, program.external.as_ref()?.broken.as_ref()?)));
    let broken: Vec<_> = broken.collect();
    let (first, reason) = broken.first()?;
    let others = match broken.len() - 1 {
        0 => String::new(),
        1 => " and another one".to_owned(),
        more => format!(" and {more} others"),
    };
    Some(format!("procedure {}{others} cannot run on this node: {}", first.name, reason.message()))
}
