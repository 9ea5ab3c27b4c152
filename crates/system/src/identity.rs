//! What a node says of itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What this node says of itself.
pub struct Identity {
    pub host_id: i32,
    pub host_name: String,
    pub listen: SocketAddr,
    /// The administration port, if there is one.
    pub admin_listen: Option<SocketAddr>,
    /// Whether clients may do what runs code and touches files, which is loading classes, backups
    /// and shutdown.
    pub clients_trusted: bool,
    /// Rows that are to be migrated are dropped when their time is up; otherwise they are kept.
    pub drop_migrating: bool,
    /// Where backups may be.
    pub backups: ferrite_backup::request::BackupDirectories,
    /// Milliseconds since 1970; with the address below it names the cluster (wire-protocol 2.2).
    pub cluster_start_ms: i64,
    pub leader_address: [u8; 4],
    pub build: String,
    pub version: &'static str,
    pub dir: PathBuf,
    pub durability: String,
    pub query_time_max: Duration,
}
