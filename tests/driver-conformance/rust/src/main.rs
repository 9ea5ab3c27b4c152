//! The Rust client as the suite sees it: commands on standard input, answers on standard output.
//! See README.md for their form.

mod hammer;
mod values;

use ferrite_client::{Client, ClientError, ClientOptions};
use hammer::Hammer;
use std::io::{BufRead, Write};
use std::time::Duration;

fn main() {
    let mut adapter = Adapter { client: None, hammer: None };
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("commands are text");
        let fields: Vec<&str> = line.split('\t').collect();
        let answer = adapter.command(fields[0], &fields[1..]).unwrap_or_else(|refused| refused);
        writeln!(out, "{answer}").and_then(|()| out.flush()).expect("somebody reads the answers");
        if fields[0] == "close" {
            break;
        }
    }
}

struct Adapter {
    client: Option<Client>,
    hammer: Option<Hammer>,
}

impl Adapter {
    fn command(&mut self, command: &str, fields: &[&str]) -> Result<String, String> {
        if command == "connect" {
            let options = ClientOptions {
                call_timeout: Duration::from_millis(fields[1].parse().expect("a timeout is a number")),
                reconnect_pause: Duration::from_millis(10),
                reconnect_pause_max: Duration::from_millis(100),
                affinity: fields[2] == "full",
                // The other drivers look for all nodes unless they are told not to.
                discover: fields[2] == "full",
                ..ClientOptions::new([fields[0]])
            };
            self.client = Some(Client::connect(options).map_err(|error| failure(&error))?);
            return Ok("ok".to_string());
        }
        let client = self.client.as_ref().expect("connect comes first");
        match command {
            "call" => {
                let parameters: Vec<_> =
                    fields[1..].iter().map(|field| values::parameter(field)).collect::<Result<_, _>>()?;
                let by_reference: Vec<_> = parameters.iter().map(AsRef::as_ref).collect();
                let response = client.call_blocking(fields[0], by_reference).map_err(|error| failure(&error))?;
                Ok(response
                    .tables
                    .iter()
                    .fold("ok".to_string(), |text, table| format!("{text}\t{}", values::table(table))))
            }
            "hammer" => {
                self.hammer = Some(Hammer::start(client, fields[0], fields[1].parse().expect("callers are a number")));
                Ok("ok".to_string())
            }
            "answered" => Ok(format!("ok\t{}", self.hammer.as_ref().expect("hammer comes first").answered())),
            "stop" => Ok(self.hammer.take().expect("hammer comes first").stop()),
            "close" => {
                client.drain();
                client.close();
                Ok("ok".to_string())
            }
            other => panic!("no command {other}"),
        }
    }
}

fn failure(error: &ClientError) -> String {
    let status = error.response().map_or(0, |response| i32::from(response.status_code));
    let outcome = match error {
        ClientError::Encode(_) => "error",
        error if error.is_outcome_unknown() => "unknown",
        ClientError::Failed(_) => "failed",
        _ => "not-sent",
    };
    format!("{outcome}\t{status}\t{}\t{}", values::hex(error.to_string().as_bytes()), error.code())
}
