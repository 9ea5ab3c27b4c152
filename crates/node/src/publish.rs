//! A new version of the catalog: the threads that adopt it, and the clients that hear of it.

use crate::mailbox::{Mail, NetworkMailbox};
use crate::message::{ExpiryNotice, TaskNotice};
use crate::plan_cache::PlanCache;
use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use ferrite_base::UserError;
use ferrite_notice::Notice;
use ferrite_partition::Compiled;
use ferrite_plan::Program;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub struct Publisher {
    /// The catalog in force. Network threads look once a turn.
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub plan_cache: Arc<PlanCache>,
    pub expiry: Sender<ExpiryNotice>,
    pub tasks: Sender<TaskNotice>,
    pub network: Arc<[Arc<NetworkMailbox>]>,
    /// Procedures or functions of the catalog in force cannot run on this node: where another can
    /// lead, it does not.
    pub unable: Arc<AtomicBool>,
}

impl Publisher {
    /// Makes a new catalog version the one that calls are routed with, and tells subscribers.
    pub fn publish(&self, compiled: Arc<Compiled>) {
        let broken = cannot_run(&compiled);
        self.unable.store(lacks_java(&compiled), Ordering::Release);
        let before = self.compiled.swap(compiled);
        if let Some(notice) = broken.filter(|notice| cannot_run(&before).as_ref() != Some(notice)) {
            ferrite_io::notify(notice);
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

/// Whether code in Java of this catalog cannot run on this node, as without a JDK.
pub fn lacks_java(compiled: &Compiled) -> bool {
    let is_java = |name: &str| compiled.catalog.procedure_named(name).is_some_and(|known| known.class.is_some());
    let functions = compiled.catalog.functions.values().any(|function| function.trouble().is_some());
    functions || broken(compiled).any(|(program, _)| is_java(&program.name))
}

fn broken(compiled: &Compiled) -> impl Iterator<Item = (&Arc<Program>, &UserError)> {
    let programs = compiled.programs_by_name().into_iter();
    programs.filter_map(|program| Some((program, program.external.as_ref()?.broken.as_ref()?)))
}

/// The warning to an operator where procedures or functions cannot run on this node, as without a
/// JDK: data is kept, and calls fail when it leads.
pub fn cannot_run(compiled: &Compiled) -> Option<Notice> {
    let programs = broken(compiled).map(|(program, reason)| ("procedure", &program.name, reason));
    let functions = compiled.catalog.functions.values();
    let functions = functions.filter_map(|function| Some(("function", &function.name, function.trouble()?)));
    let broken: Vec<_> = programs.chain(functions).collect();
    let (kind, first, reason) = broken.first()?;
    Some(Notice::CannotRun {
        kind,
        name: first.to_string(),
        others: broken.len() - 1,
        reason: reason.message().to_owned(),
    })
}
