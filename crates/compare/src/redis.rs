//! Redis: started on a directory of its own, spoken to in its protocol (RESP 2), pipelined. A vote
//! is a Lua script.

use super::load::{Job, JobNote};
use super::peer::Peer;
use super::pipeline::{self, Dialect, Driven, Moment, Plan};
use super::system::{RunDirectory, await_port, cpu_of_tree, fail_with_log, free_port, log_file};
use ferrite_bench::companion::{Companion, find_program};
use ferrite_bench::error::{BenchError, BenchResult, Doing};
use ferrite_bench::generator::LoadOutcome;
use ferrite_bench::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a script has to say to a caller: 0 counted, 1 no such contestant, 2 no votes left. Keys:
/// votes of the phone; arguments: phone, contestant, limit. The totals by contestant and state,
/// which are a view in SQL, are a hash.
const VOTE: &str = "if redis.call('HEXISTS', 'contestants', ARGV[2]) == 0 then return 1 end \
local votes = redis.call('GET', KEYS[1]) \
if votes and tonumber(votes) >= tonumber(ARGV[3]) then return 2 end \
local state = redis.call('HGET', 'area_code_state', string.sub(ARGV[1], 1, 3)) or 'XX' \
redis.call('INCR', KEYS[1]) \
redis.call('HINCRBY', 'votes_by_contestant_state', ARGV[2] .. ':' .. state, 1) \
return 0";

pub struct Redis {
    process: Companion,
    port: u16,
    place: RunDirectory,
    version: String,
    script: String,
}

impl Redis {
    pub fn missing() -> Option<&'static str> {
        find_program("redis-server", &[]).is_none().then_some("redis-server")
    }

    /// `settings` are options of the server, name by name.
    pub fn start(place: RunDirectory, settings: &[(&str, &str)]) -> BenchResult<Redis> {
        let program = find_program("redis-server", &[])
            .ok_or_else(|| BenchError::Load("there is no redis-server".to_string()))?;
        let port = free_port()?;
        let log = place.path().join("log");
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]);
        command.arg("--dir").arg(place.path()).stderr(log_file(&log)?);
        for (name, value) in settings {
            command.args([&format!("--{name}"), *value]);
        }
        let mut process = Companion::start("redis-server", &mut command, Some(place.path()))?;
        await_port(&mut process, port).map_err(|error| fail_with_log(error, &log))?;
        let mut redis = Redis { process, port, place, version: String::new(), script: String::new() };
        let info = redis.ask(&["INFO", "server"])?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("unknown");
        redis.version = format!("Redis {}", version.trim());
        Ok(redis)
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    fn connect(&self) -> BenchResult<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.port)).doing("connecting to Redis")
    }

    /// One command and its answer as text.
    fn ask(&self, words: &[&str]) -> BenchResult<String> {
        let mut stream = self.connect()?;
        let mut call = Vec::new();
        command(&mut call, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        stream.write_all(&call).doing("asking Redis")?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).doing("asking Redis")?;
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("-", error)) => Err(BenchError::Load(format!("Redis: {error}"))),
            Some(("$", length)) => {
                let mut text = vec![0; length.parse::<usize>().unwrap_or(0)];
                reader.read_exact(&mut text).doing("asking Redis")?;
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Some((_, rest)) => Ok(rest.to_string()),
            None => Err(BenchError::Load("Redis gave no answer".to_string())),
        }
    }

    pub fn stop(self) -> BenchResult<()> {
        let stopped = self.process.stop(Signal::TERM);
        drop(self.place);
        stopped
    }
}

impl Peer for Redis {
    /// Nothing but what the workload needs before it begins.
    fn prepare(&mut self, job: &mut Job) -> BenchResult<()> {
        self.ask(&["FLUSHALL"])?;
        if job.votes() {
            self.script = self.ask(&["SCRIPT", "LOAD", VOTE])?;
            for (number, name) in job.contestants() {
                self.ask(&["HSET", "contestants", &number.to_string(), name])?;
            }
            let mut words = vec!["HSET".to_string(), "area_code_state".to_string()];
            for (code, state) in job.areas() {
                words.extend([code.to_string(), state]);
            }
            self.ask(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
            return Ok(());
        }
        let mut stream = self.connect()?;
        let mut answers = BufReader::new(stream.try_clone().doing("filling Redis")?);
        let mut line = String::new();
        let mut calls = Vec::new();
        let mut sent = 0;
        let keys = job.keys();
        for key in 0..keys {
            job.with_pair(key, |key, value| command(&mut calls, &[b"SET", key, value]));
            sent += 1;
            if sent == 1_000 || key + 1 == keys {
                stream.write_all(&calls).doing("filling Redis")?;
                calls.clear();
                for _ in 0..std::mem::take(&mut sent) {
                    line.clear();
                    answers.read_line(&mut line).doing("filling Redis")?;
                    if !line.starts_with('+') {
                        return Err(BenchError::Load(format!("Redis, filling: {}", line.trim_end())));
                    }
                }
            }
        }
        Ok(())
    }

    fn drive(
        &self,
        job: &mut Job,
        plan: Plan,
        stop: &AtomicBool,
        mut watch: impl FnMut(Moment, Option<Duration>),
    ) -> BenchResult<Driven> {
        pipeline::drive(&mut RedisTalk { redis: self, job, number: Vec::new() }, plan, stop, |moment| {
            watch(moment, cpu_of_tree(self.process.id()))
        })
    }

    /// Votes, or keys, that are there.
    fn count(&self, job: &Job) -> BenchResult<i64> {
        let sum = "local sum = 0 for _, votes in ipairs(redis.call('HVALS', 'votes_by_contestant_state')) do sum = sum + votes end return sum";
        let text = if job.votes() { self.ask(&["EVAL", sum, "0"])? } else { self.ask(&["DBSIZE"])? };
        text.parse().map_err(|_| BenchError::Load(format!("Redis counts {text:?}")))
    }
}

/// Redis as a [`Dialect`].
struct RedisTalk<'s> {
    redis: &'s Redis,
    job: &'s mut Job,
    number: Vec<u8>,
}

impl Dialect for RedisTalk<'_> {
    type Note = JobNote;

    fn open(&self) -> BenchResult<TcpStream> {
        self.redis.connect()
    }

    fn call(&mut self, out: &mut Vec<u8>) -> JobNote {
        if self.job.votes() {
            let (phone, contestant, limit) = self.job.next_vote();
            self.number.clear();
            let phone = phone.to_string();
            let contestant = contestant.to_string();
            let limit = limit.to_string();
            self.number.extend_from_slice(b"phone:");
            self.number.extend_from_slice(phone.as_bytes());
            let script = self.redis.script.as_bytes();
            let words: [&[u8]; 7] =
                [b"EVALSHA", script, b"1", &self.number, phone.as_bytes(), contestant.as_bytes(), limit.as_bytes()];
            command(out, &words);
            return JobNote::Vote;
        }
        let (note, key) = self.job.next_key();
        match note {
            JobNote::Read => self.job.with_pair(key, |key, _| command(out, &[b"GET", key])),
            _ => self.job.with_pair(key, |key, value| command(out, &[b"SET", key, value])),
        }
        note
    }

    fn length(&self, bytes: &[u8]) -> BenchResult<Option<usize>> {
        answer_length(bytes)
    }

    fn completed(&mut self, note: JobNote, answer: &[u8]) -> LoadOutcome {
        match (note, answer.first()) {
            (JobNote::Vote, Some(b':')) => {
                let text = std::str::from_utf8(&answer[1..answer.len() - 2]).unwrap_or_default();
                self.job.voted(text.parse().unwrap_or(-1))
            }
            (JobNote::Read, Some(b'$')) => {
                let head = answer.iter().position(|byte| *byte == b'\n').unwrap_or(0) + 1;
                self.job.was_read(answer.len().saturating_sub(head + 2))
            }
            (JobNote::Write, Some(b'+')) => self.job.was_written(),
            _ => self.job.failed(|| String::from_utf8_lossy(answer).trim_end().to_string()),
        }
    }
}

/// A command: an array of strings that name their lengths.
fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n", word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn answer_length(bytes: &[u8]) -> BenchResult<Option<usize>> {
    let Some(line_end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let head = line_end + 1;
    match bytes[0] {
        b'+' | b'-' | b':' => Ok(Some(head)),
        b'$' => {
            let text = std::str::from_utf8(&bytes[1..line_end]).unwrap_or_default().trim_end();
            match text.parse::<i64>() {
                Ok(length) if length < 0 => Ok(Some(head)),
                Ok(length) => Ok(Some(head + length as usize + 2).filter(|whole| *whole <= bytes.len())),
                Err(_) => Err(BenchError::Load(format!("Redis said a length of {text:?}"))),
            }
        }
        other => Err(BenchError::Load(format!("Redis said something that begins with {:?}", other as char))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_answers() {
        let mut out = Vec::new();
        command(&mut out, &[b"GET", b"key"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
        for (bytes, length) in [
            (&b"+OK\r\n+OK\r\n"[..], Some(5)),
            (b":12\r\n", Some(5)),
            (b"-ERR no\r\n", Some(9)),
            (b"$-1\r\n", Some(5)),
            (b"$3\r\na\nb\r\nrest", Some(9)),
            (b"$3\r\na\nb\r", None),
            (b"$3", None),
            (b"", None),
        ] {
            assert_eq!(answer_length(bytes).unwrap(), length, "{bytes:?}");
        }
        assert!(answer_length(b"$x\r\n").is_err());
        assert!(answer_length(b"HTTP/1.1\r\n").is_err());
    }
}
