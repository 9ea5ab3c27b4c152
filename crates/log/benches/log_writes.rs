//! Measures the ways to write a log on this disk, then the log itself: latency of one writer,
//! throughput of two, and replay. The first table is the ground of
//! docs/decisions/0002-log-writes.md.
//!
//! `cargo bench -p ferrite-log` uses the temporary directory; set `FERRITE_BENCH_DIR` to measure
//! another disk.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use ferrite_io::{RealDisk, SectorBuffer, SystemClock};
use ferrite_log::{Completion, Durability, Log, LogFailed, LogOptions, measure_fsync};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::time::{ClockId, clock_gettime};

const SEGMENT: u64 = 64 << 20;

fn main() {
    // Under `cargo test --benches` there is nothing to check.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let base = std::env::var_os("FERRITE_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(base).unwrap();
    println!("fsync median {:.0} us\n", micros(measure_fsync(dir.path()).unwrap()));
    write_methods(dir.path());
    for durability in [Durability::Sync, Durability::Interval(Duration::from_millis(5)), Durability::None] {
        the_log(dir.path(), durability);
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn quantile(times: &mut [Duration], part: f64) -> f64 {
    times.sort_unstable();
    micros(times[((times.len() - 1) as f64 * part) as usize])
}

fn write_methods(dir: &Path) {
    println!("| method | bytes | p50 us | p90 us | p99 us | CPU us | MB/s |\n|---|---|---|---|---|---|---|");
    let direct = OFlags::DIRECT.bits() as i32;
    let synchronous = OFlags::DSYNC.bits() as i32;
    let methods = [
        ("buffered, fdatasync, zeroed", 0, true, true),
        ("buffered, fdatasync, unwritten", 0, true, false),
        ("buffered, O_DSYNC, zeroed", synchronous, false, true),
        ("O_DIRECT, fdatasync, zeroed", direct, true, true),
        ("O_DIRECT, fdatasync, unwritten", direct, true, false),
        ("O_DIRECT, O_DSYNC, zeroed", direct | synchronous, false, true),
    ];
    let path = dir.join("write-methods.tmp");
    for (name, flags, sync, zeroed) in methods {
        for bytes in [4_096usize, 16_384, 65_536, 262_144, 1_048_576] {
            let file = File::create(&path).unwrap();
            fallocate(&file, FallocateFlags::empty(), 0, SEGMENT).unwrap();
            if zeroed {
                let zeros = vec![0; 1 << 20];
                (0..SEGMENT >> 20).for_each(|index| file.write_all_at(&zeros, index << 20).unwrap());
            }
            file.sync_all().unwrap();
            let file = OpenOptions::new().write(true).custom_flags(flags).open(&path).unwrap();
            let mut source = SectorBuffer::new();
            let payload = vec![7; bytes];
            let count = (SEGMENT / bytes as u64).min(400);
            let mut times = Vec::new();
            let (begin, cpu) = (Instant::now(), cpu_time());
            for index in 0..count {
                let begin = Instant::now();
                // Putting the block together is part of every method, since it is checksummed in
                // one piece.
                source.clear(usize::MAX);
                source.extend(&payload);
                file.write_all_at(source.as_slice(), index * bytes as u64).unwrap();
                if sync {
                    file.sync_data().unwrap();
                }
                times.push(begin.elapsed());
            }
            let (elapsed, cpu) = (begin.elapsed(), cpu_time() - cpu);
            println!(
                "| {name} | {bytes} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
                quantile(&mut times, 0.5),
                quantile(&mut times, 0.9),
                quantile(&mut times, 0.99),
                micros(cpu) / count as f64,
                (count * bytes as u64) as f64 / micros(elapsed),
            );
            std::fs::remove_file(&path).unwrap();
        }
    }
    println!();
}

struct Tell(Sender<Vec<u8>>);

impl Completion for Tell {
    fn complete(self, payload: Vec<u8>, outcome: Result<(), LogFailed>) {
        outcome.unwrap();
        let _ = self.0.send(payload);
    }
}

/// Appends of one size, a fixed number outstanding, over several segments; then replay.
fn the_log(dir: &Path, durability: Durability) {
    println!("{durability:?}:");
    let log_dir = dir.join("log");
    let mut total = 0;
    for (bytes, outstanding, pause, rounds) in
        [(4_096usize, 1, 0, 4_000), (50_000, 1, 0, 6_000), (50_000, 1, 1_000, 3_000), (50_000, 4, 0, 12_000)]
    {
        let options = LogOptions { durability, ..LogOptions::default() };
        let (log, _) = Log::<Tell>::open::<String>(
            Arc::new(RealDisk),
            Arc::new(SystemClock),
            &log_dir,
            options,
            |_: ferrite_log::BlockPlace<'_>, _: &[u8]| Ok(()),
        )
        .unwrap();
        let appender = log.appender();
        let (sender, receiver) = channel();
        let mut spare: Vec<Vec<u8>> = Vec::new();
        let mut times = Vec::new();
        let (begin, cpu) = (Instant::now(), cpu_time());
        for _ in 0..rounds {
            let sent = Instant::now();
            for _ in 0..outstanding {
                let mut payload = spare.pop().unwrap_or_default();
                payload.resize(bytes, 7);
                appender.append(payload, Tell(sender.clone()));
            }
            spare.extend(receiver.iter().take(outstanding));
            times.push(sent.elapsed());
            if pause > 0 {
                std::thread::sleep(Duration::from_micros(pause));
            }
        }
        let (elapsed, cpu) = (begin.elapsed(), cpu_time() - cpu);
        let count = rounds as u64 * outstanding as u64;
        total += count * bytes as u64;
        println!(
            "  {bytes:6} bytes, {outstanding} at once, {pause:4} us pause: p50 {:.0} p99 {:.0} max {:.0} us, {:.0} MB/s, {:.0} us CPU a round, \
             {} blocks, {} segments, fsync p50 {:.0} p99 {:.0} us",
            quantile(&mut times, 0.5),
            quantile(&mut times, 0.99),
            quantile(&mut times, 1.0),
            (count * bytes as u64) as f64 / micros(elapsed),
            micros(cpu) / rounds as f64,
            log.statistics().blocks.load(Relaxed),
            log.statistics().segments.load(Relaxed),
            micros(log.statistics().fsyncs.median()),
            micros(log.statistics().fsyncs.quantile(0.99)),
        );
        log.close().unwrap();
    }
    let begin = Instant::now();
    let read = AtomicU64::new(0);
    let (log, recovery) = Log::<Tell>::open::<String>(
        Arc::new(RealDisk),
        Arc::new(SystemClock),
        &log_dir,
        LogOptions { durability, ..LogOptions::default() },
        |_: ferrite_log::BlockPlace<'_>, payload: &[u8]| {
            read.fetch_add(payload.len() as u64, Relaxed);
            Ok(())
        },
    )
    .unwrap();
    let elapsed = begin.elapsed();
    assert_eq!(read.load(Relaxed), total);
    println!(
        "  replay: {} segments, {:.0} MB/s, {:.2} s\n",
        recovery.segments,
        total as f64 / micros(elapsed),
        elapsed.as_secs_f64()
    );
    drop(log);
    std::fs::remove_dir_all(&log_dir).unwrap();
}
