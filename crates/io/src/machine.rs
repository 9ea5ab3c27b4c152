//! What the machine, or the control group that the process is in, has.

use ferrite_base::limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::path::Path;

/// Bytes of memory that this process can have at most: the machine's, or less where its control
/// group (v2 or v1) or its limit on address space says so. None: none of them can be read.
pub fn memory_bytes() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_limits(&groups, &|path| fs::read_to_string(path).ok());
    // What is taken of it without being used is not there for use.
    let space = address_space_bytes().map(|bytes| bytes.saturating_sub(limits::ADDRESS_SPACE_BYTES_MIN));
    [machine, group, space].into_iter().flatten().min()
}

/// Bytes of addresses that this process may use (`ulimit -v`, and `-d`, which counts all that can
/// be written to), whether there is memory behind them or not. None: as many as it likes.
pub fn address_space_bytes() -> Option<usize> {
    let least = [Resource::As, Resource::Data].into_iter().filter_map(|resource| getrlimit(resource).current).min();
    least.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// File descriptors of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptors {
    /// As many may be open.
    pub most: usize,
    pub open: usize,
}

/// None: the system does not say.
pub fn descriptors() -> Option<Descriptors> {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // One of them reads the directory.
    let open = fs::read_dir("/proc/self/fd").ok()?.count() - 1;
    Some(Descriptors { most: usize::try_from(most).unwrap_or(usize::MAX), open })
}

/// Lets this process open as many files as it may at most, whatever it was started with.
pub fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // What was there does, if the system does not want to.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Signals that would end the process by default, and that nobody means its end with: a limit on
/// the size of files, which then is an ordinary error of the write, timers, what asks other
/// programs to reopen their logs. (SIGPIPE is ignored by every program in Rust.)
const HARMLESS: [libc::c_int; 7] =
    [libc::SIGXFSZ, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF, libc::SIGIO];

/// From now on signals that ask for nothing do nothing.
pub fn ignore_harmless_signals() {
    for signal in HARMLESS {
        // SAFETY: a plain system call; no code of ours runs in a handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Runs `last` when somebody in the process calls `exit`, the C library's, after what was
/// registered later.
pub fn at_exit(last: extern "C" fn()) {
    // SAFETY: the function stays; it is called once, when the process ends. Without memory for it,
    // it is not.
    unsafe { libc::atexit(last) };
}

fn total_of(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1024)
}

/// The lowest limit of the groups that `/proc/self/cgroup` names, and of those above them.
fn group_limits(groups: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<usize> {
    let mut lowest = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Within a container the group's path may be that outside: then its own is mounted at the
        // root.
        let inner = Path::new(path.trim_start_matches('/'));
        let found = inner.ancestors().filter_map(|part| read(&Path::new(root).join(part).join(file)));
        lowest = found.filter_map(|text| text.trim().parse::<usize>().ok()).chain(lowest).min();
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_memory() {
        assert!(memory_bytes().is_some_and(|bytes| bytes > 64 << 20));
        assert_eq!(total_of("MemTotal:       24683724 kB\nMemFree: 1 kB\n"), Some(24_683_724 * 1024));
        assert_eq!(total_of("nothing of the sort"), None);
    }

    #[test]
    fn the_lowest_group_counts() {
        let files = |path: &Path| match path.to_str()? {
            "/sys/fs/cgroup/memory.max" | "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("1000\n".to_owned()),
            "/sys/fs/cgroup/memory/memory.limit_in_bytes" => Some("9223372036854771712\n".to_owned()),
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => Some("900\n".to_owned()),
            _ => None,
        };
        assert_eq!(group_limits("0::/a/b\n", &files), Some(1000));
        assert_eq!(group_limits("0::/\n", &files), None);
        assert_eq!(group_limits("12:cpu,memory:/c\n3:pids:/x\n0::/a\n", &files), Some(900));
        assert_eq!(group_limits("12:memory:/elsewhere\n", &files), Some(9_223_372_036_854_771_712));
        assert_eq!(group_limits("rubbish", &files), None);
    }
}
