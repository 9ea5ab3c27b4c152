//! The options that all applications have, with the names that users of such applications know.

use clap::{ArgAction, Args, ValueEnum};
use ferrite_client::{Client, ClientError, ClientOptions, Credentials};
use std::path::PathBuf;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Mode {
    /// One thread makes calls and waits for none; their ends are told to it.
    Async,
    /// Many threads, each of which waits for its call's answer before it makes the next.
    Sync,
}

#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// How calls are made
    #[arg(long, value_enum, default_value = "async")]
    pub mode: Mode,
    /// Seconds between two lines of figures
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub displayinterval: u64,
    /// Seconds that are measured [default: 20, for the key-value application 120]
    #[arg(long)]
    pub duration: Option<u64>,
    /// Seconds of load before that [default: 2, for the key-value application 5]
    #[arg(long)]
    pub warmup: Option<u64>,
    /// host or host:port, several with commas between
    #[arg(long, default_value = "localhost")]
    pub servers: String,
    /// Calls a second, at most
    #[arg(long, default_value_t = 2_147_483_647, value_parser = clap::value_parser!(u64).range(1..))]
    pub ratelimit: u64,
    /// Calls without an answer, at most, with --mode async
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub outstanding: u64,
    /// Threads with --mode sync [default: 40, for the key-value application 8]
    #[arg(long)]
    pub threads: Option<usize>,
    /// Print latencies too
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    pub latencyreport: bool,
    /// Append a line of figures to this file: start ms, duration ms, calls, latency ms at 0, 100,
    /// 95, 99, 99.9, 99.99, 99.999 %, errors, aborts, timeouts
    #[arg(long)]
    pub statsfile: Option<PathBuf>,
    /// Who logs in
    #[arg(long, default_value = "")]
    pub user: String,
    #[arg(long, default_value = "")]
    pub password: String,
}

impl Settings {
    /// Connects as the options say.
    pub fn connect(&self) -> Result<Client, ClientError> {
        let with_port = |server: &str| {
            let port_is_there =
                server.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
            if port_is_there { server.to_string() } else { format!("{server}:21212") }
        };
        let addresses: Vec<String> = self.servers.split(',').map(str::trim).map(with_port).collect();
        Client::connect(ClientOptions {
            credentials: Credentials::new(&self.user, &self.password),
            outstanding_max: self.outstanding.max(self.threads.unwrap_or(0) as u64) as usize,
            ..ClientOptions::new(addresses)
        })
    }
}
