//! Several servers asked at the same time, so that a silent machine delays no answer.

use super::ServerAddress;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long servers before one in the list whose answer suffices are waited for.
const EARLIER_WAIT: Duration = Duration::from_secs(1);
/// How long a better answer is waited for, where there is one that does not suffice.
const BETTER_WAIT: Duration = Duration::from_secs(5);

/// The answer of the first server in the list that suffices; where none does, the first there is;
/// else why none has answered.
pub fn first_of<T: Send + 'static>(
    servers: impl Iterator<Item = ServerAddress>,
    ask: impl Fn(ServerAddress) -> Result<T, String> + Clone + Send + 'static,
    suffices: impl Fn(&T) -> bool,
) -> Result<T, String> {
    let (sender, receiver) = channel();
    let mut answers: Vec<Option<Result<T, String>>> = Vec::new();
    for (place, server) in servers.enumerate() {
        let sender = sender.clone();
        let ask = ask.clone();
        answers.push(None);
        // One that is silent may outlast the wait: then nothing takes its answer.
        let asks = std::thread::Builder::new().spawn(move || drop(sender.send((place, ask(server)))));
        if let Err(error) = asks {
            answers[place] = Some(Err(format!("cannot start a thread: {error}")));
        }
    }
    drop(sender);
    let begun = Instant::now();
    let mut sufficed = None;
    loop {
        let is_answer = |answer: &Option<Result<T, String>>| matches!(answer, Some(Ok(_)));
        let is_enough = |answer: &Option<Result<T, String>>| matches!(answer, Some(Ok(answer)) if suffices(answer));
        let best = answers.iter().position(is_enough);
        if best.is_some() {
            sufficed.get_or_insert_with(Instant::now);
        }
        let awaited = &answers[..best.unwrap_or(answers.len())];
        let until = match sufficed {
            Some(since) => Some(since + EARLIER_WAIT),
            None => answers.iter().any(is_answer).then(|| begun + BETTER_WAIT),
        };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if awaited.iter().any(Option::is_none) && left.is_none_or(|left| !left.is_zero()) {
            match receiver.recv_timeout(left.unwrap_or(BETTER_WAIT)) {
                Ok((place, answer)) => answers[place] = Some(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let gone = || Some(Err("a thread has ended without an answer".to_owned()));
                    answers.iter_mut().filter(|answer| answer.is_none()).for_each(|answer| *answer = gone());
                }
            }
            continue;
        }
        if let Some(place) = best.or_else(|| answers.iter().position(is_answer)) {
            return answers.swap_remove(place).expect("it is an answer");
        }
        let reasons: Vec<String> = answers.into_iter().flatten().filter_map(Result::err).collect();
        return Err(reasons.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn servers(names: &[&str]) -> impl Iterator<Item = ServerAddress> {
        let server = |name: &&str| ServerAddress {
            server: vec![(*name).to_owned()],
            user: String::new(),
            password: String::new(),
        };
        names.iter().map(server).collect::<Vec<_>>().into_iter()
    }

    /// `silent` answers only when it is let go.
    fn asked(names: &[&str]) -> Result<String, String> {
        let (held, holds) = channel::<()>();
        let holds = Arc::new(Mutex::new(holds));
        let ask = move |server: ServerAddress| match &*server.server[0] {
            "silent" => Err(format!("{:?}", holds.lock().expect("no panic with it").recv())),
            name if name.starts_with("down") => Err(format!("{name} is down")),
            name => Ok(name.to_owned()),
        };
        let answer = first_of(servers(names), ask, |name| name.starts_with("good"));
        drop(held);
        answer
    }

    #[test]
    fn the_first_that_suffices_counts_and_a_silent_one_holds_up_nobody() {
        assert_eq!(asked(&["down", "good-1", "good-2"]), Ok("good-1".to_owned()));
        assert_eq!(asked(&["silent", "poor", "good-1"]), Ok("good-1".to_owned()));
        assert_eq!(asked(&["silent", "poor-1", "poor-2"]), Ok("poor-1".to_owned()));
        assert_eq!(asked(&["down-1", "down-2"]), Err("down-1 is down; down-2 is down".to_owned()));
    }
}
