//! The client against servers that follow a script: answers late, never, twice, wrongly, or goes
//! away.

use crate::support::{Call, Latch, Peer, serve};
use ferrite_client::{Client, ClientError, ClientOptions, Prepared, WhenFull};
use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

fn options(addresses: &[&str]) -> ClientOptions {
    ClientOptions {
        call_timeout: Duration::from_secs(60),
        reconnect_pause: Duration::from_millis(1),
        reconnect_pause_max: Duration::from_millis(20),
        ..ClientOptions::new(addresses.iter().copied())
    }
}

/// Answers every call with how many came before it.
fn echo(mut peer: Peer, _: usize) {
    peer.accept_login();
    let mut count = 0;
    while let Some(call) = peer.call() {
        peer.answer(call.handle, count);
        count += 1;
    }
}

/// The smallest executor there is.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

#[test]
fn calls_in_three_ways() {
    let address = serve(echo);
    let client = Client::connect(options(&[&address])).unwrap();
    assert_eq!(client.call_blocking("p", (1i64, "x")).unwrap().scalar(), Some(0));
    assert_eq!(block_on(client.call("p", ())).unwrap().scalar(), Some(1));
    let (sender, receiver) = channel();
    let procedure = Prepared::new("p").unwrap();
    client.call_with_callback(&procedure, (), move |result| sender.send(result.unwrap().scalar()).unwrap()).unwrap();
    assert_eq!(receiver.recv().unwrap(), Some(2));
    client.drain();
    let statistics = client.statistics();
    assert_eq!((statistics.calls_sent, statistics.calls_succeeded, statistics.outstanding), (3, 3, 0));
    assert_eq!((statistics.connects, statistics.connections_up), (1, 1));
}

#[test]
fn a_callback_that_panics_ends_nothing_but_itself() {
    let address = serve(echo);
    let client = Client::connect(options(&[&address])).unwrap();
    let procedure = Prepared::new("p").unwrap();
    let (sender, receiver) = channel();
    for _ in 0..3 {
        client.call_with_callback(&procedure, (), |_| panic!("of the application")).unwrap();
        let sender = sender.clone();
        client.call_with_callback(&procedure, (), move |result| sender.send(result.is_ok()).unwrap()).unwrap();
    }
    assert_eq!(receiver.iter().take(3).collect::<Vec<_>>(), [true; 3]);
    assert_eq!(client.call_blocking("p", ()).unwrap().scalar(), Some(6));
    client.drain();
    assert_eq!(client.statistics().outstanding, 0);
}

#[test]
fn a_silent_server_is_given_up_as_soon_as_by_the_other_drivers() {
    assert_eq!(ClientOptions::default().connection_timeout, Duration::from_secs(30));
}

#[test]
fn many_calls_share_a_write() {
    let address = serve(echo);
    let client = Client::connect(options(&[&address])).unwrap();
    let procedure = Prepared::new("p").unwrap();
    // From within a callback the client's thread cannot write in between.
    let (inner, inner_procedure) = (client.clone(), procedure.clone());
    let left = Arc::new(AtomicUsize::new(1_000));
    let (sender, receiver) = channel();
    let burst = move |_| {
        for _ in 0..1_000 {
            let (left, sender) = (Arc::clone(&left), sender.clone());
            let ended = move |result: Result<_, ClientError>| {
                result.unwrap();
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    sender.send(()).unwrap();
                }
            };
            inner.call_with_callback(&inner_procedure, (), ended).unwrap();
        }
    };
    client.call_with_callback(&procedure, (), burst).unwrap();
    receiver.recv().unwrap();
    client.drain();
    let statistics = client.statistics();
    assert_eq!(statistics.calls_succeeded, 1_001);
    assert!(statistics.writes <= 10, "login, one call, and a thousand together: {}", statistics.writes);
}

#[test]
fn a_failure_is_an_error_with_the_servers_words() {
    let address = serve(|mut peer, _| {
        peer.accept_login();
        while let Some(call) = peer.call() {
            let mut out = Vec::new();
            let status = ferrite_wire::Status::GracefulFailure;
            ferrite_wire::response::write_failure(&mut out, call.handle, status, "42704", "no such thing");
            peer.send(&out).unwrap();
        }
    });
    let client = Client::connect(options(&[&address])).unwrap();
    let error = client.call_blocking("p", ()).unwrap_err();
    assert_eq!(error.to_string(), "no such thing");
    assert_eq!(error.response().unwrap().status(), Some(ferrite_wire::Status::GracefulFailure));
    assert!(!error.is_outcome_unknown());
}

#[test]
fn rejects_when_full() {
    let latch = Arc::new(Latch::new());
    let script_latch = Arc::clone(&latch);
    let address = serve(move |mut peer, _| {
        peer.accept_login();
        while let Some(call) = peer.call() {
            script_latch.wait();
            peer.answer(call.handle, 0);
        }
    });
    let limits = ClientOptions { outstanding_max: 2, when_full: WhenFull::Reject, ..options(&[&address]) };
    let client = Client::connect(limits).unwrap();
    let (first, second) = (client.call("p", ()), client.call("p", ()));
    let error = client.call("p", ()).wait().unwrap_err();
    assert!(matches!(error, ClientError::TooManyOutstanding { limit: 2 }), "{error}");
    let refused = client.call_with_callback(&Prepared::new("p").unwrap(), (), |_| unreachable!("it was not made"));
    assert!(matches!(refused, Err(ClientError::TooManyOutstanding { .. })));
    latch.open();
    latch.open();
    first.wait().unwrap();
    second.wait().unwrap();
    client.drain();
    latch.open();
    client.call_blocking("p", ()).unwrap();
    assert_eq!(client.statistics().calls_rejected, 2);
}

#[test]
fn blocks_when_full() {
    let latch = Arc::new(Latch::new());
    let most = Arc::new(AtomicUsize::new(0));
    let (script_latch, script_most) = (Arc::clone(&latch), Arc::clone(&most));
    let address = serve(move |mut peer, _| {
        peer.accept_login();
        script_latch.wait();
        // With a limit of two, calls come by twos.
        while let Some(call) = peer.call() {
            script_most.fetch_add(1, Ordering::SeqCst);
            peer.answer(call.handle, 0);
        }
    });
    let client = Client::connect(ClientOptions { outstanding_max: 2, ..options(&[&address]) }).unwrap();
    let futures: Vec<_> = (0..20).map(|_| client.call("p", ())).collect();
    assert_eq!(client.statistics().outstanding, 2, "the others wait for room");
    latch.open();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || (0..50).for_each(|_| drop(client.call_blocking("p", ()).unwrap())))
        })
        .collect();
    for future in futures {
        block_on(future).unwrap();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let procedure = Prepared::new("p").unwrap();
    (0..50).for_each(|_| client.call_with_callback(&procedure, (), |result| drop(result.unwrap())).unwrap());
    client.drain();
    assert_eq!(most.load(Ordering::SeqCst), 20 + 200 + 50);
    assert_eq!(client.statistics().calls_rejected, 0);
}

#[test]
fn a_waiting_future_that_is_dropped_hands_its_room_on() {
    let latch = Arc::new(Latch::new());
    let script_latch = Arc::clone(&latch);
    let address = serve(move |mut peer, _| {
        peer.accept_login();
        while let Some(call) = peer.call() {
            script_latch.wait();
            peer.answer(call.handle, 0);
        }
    });
    let client = Client::connect(ClientOptions { outstanding_max: 1, ..options(&[&address]) }).unwrap();
    let first = client.call("p", ());
    let mut dropped = Box::pin(client.call("p", ()));
    assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let third = thread::spawn({
        let client = client.clone();
        move || block_on(client.call("p", ()))
    });
    latch.open();
    first.wait().unwrap();
    drop(dropped);
    latch.open();
    third.join().unwrap().unwrap();
}

#[test]
fn a_lost_connection_is_an_unknown_outcome_and_is_made_again() {
    let calls = Arc::new(Mutex::new(Vec::<(usize, Call)>::new()));
    let seen = Arc::clone(&calls);
    let address = serve(move |mut peer, number| {
        peer.accept_login();
        while let Some(call) = peer.call() {
            seen.lock().unwrap().push((number, call.clone()));
            if number == 0 {
                return;
            }
            peer.answer(call.handle, 42);
        }
    });
    let client = Client::connect(options(&[&address])).unwrap();
    let error = client.call_blocking("p", ()).unwrap_err();
    assert!(error.is_outcome_unknown() && matches!(error, ClientError::ConnectionLost { .. }), "{error}");
    // Until it is up again calls fail at once, unsent.
    let value = loop {
        match client.call_blocking("p", ()) {
            Ok(response) => break response.scalar(),
            Err(error) => assert!(matches!(error, ClientError::NotConnected { last: Some(_) }), "{error}"),
        }
    };
    assert_eq!(value, Some(42));
    assert_eq!(calls.lock().unwrap().len(), 2, "nothing was sent twice");
    let statistics = client.statistics();
    assert_eq!((statistics.connects, statistics.disconnects, statistics.calls_lost), (2, 1, 1));
}

#[test]
fn calls_go_to_all_nodes_in_turn_and_to_those_that_are_left() {
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let leave = Arc::new(Latch::new());
    let node = |index: usize| {
        let (counts, leave) = (Arc::clone(&counts), Arc::clone(&leave));
        serve(move |mut peer, number| {
            if index == 0 && number > 0 {
                // This node does not come back.
                return;
            }
            peer.accept_login();
            while let Some(call) = peer.call() {
                if call.procedure == "leave" && index == 0 {
                    leave.open();
                    return;
                }
                // Not what the driver asks for itself.
                counts[index].fetch_add((call.procedure == "p").into(), Ordering::SeqCst);
                peer.answer(call.handle, index as i64);
            }
        })
    };
    let (a, b) = (node(0), node(1));
    let client = Client::connect(options(&[&a, &b])).unwrap();
    for _ in 0..10 {
        client.call_blocking("p", ()).unwrap();
    }
    assert_eq!((counts[0].load(Ordering::SeqCst), counts[1].load(Ordering::SeqCst)), (5, 5));
    let ends = [client.call_blocking("leave", ()), client.call_blocking("leave", ())];
    assert_eq!(ends.iter().filter(|end| end.is_err()).count(), 1);
    leave.wait();
    for _ in 0..10 {
        assert_eq!(client.call_blocking("p", ()).unwrap().scalar(), Some(1));
    }
}

#[test]
fn a_call_without_an_answer_times_out() {
    let latch = Arc::new(Latch::new());
    let script_latch = Arc::clone(&latch);
    let address = serve(move |mut peer, _| {
        peer.accept_login();
        let first = peer.call().unwrap();
        // The first answer comes when the client has given up, and nobody is confused by it.
        script_latch.wait();
        peer.answer(first.handle, 1);
        while let Some(call) = peer.call() {
            peer.answer(call.handle, 2);
        }
    });
    let patience = Duration::from_millis(30);
    let client = Client::connect(ClientOptions { call_timeout: patience, ..options(&[&address]) }).unwrap();
    let error = client.call_blocking("p", ()).unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }) && error.is_outcome_unknown(), "{error}");
    latch.open();
    // Whichever of the following is slow on a busy machine may time out as well; one gets its own
    // answer.
    let value = (0..100).find_map(|_| client.call_blocking("p", ()).ok()).unwrap().scalar();
    assert_eq!(value, Some(2));
    client.drain();
    let statistics = client.statistics();
    assert!(statistics.calls_timed_out >= 1 && statistics.responses_unmatched >= 1, "{statistics:?}");
}

#[test]
fn a_silent_server_is_pinged_and_then_left() {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let address = serve(move |mut peer, _| {
        peer.accept_login();
        while let Some(call) = peer.call() {
            let _ = sender.lock().unwrap().send(call.procedure);
        }
    });
    let patience = Duration::from_millis(60);
    let client = Client::connect(ClientOptions { connection_timeout: patience, ..options(&[&address]) }).unwrap();
    let error = client.call_blocking("p", ()).unwrap_err();
    assert!(matches!(error, ClientError::ConnectionLost { .. }), "{error}");
    assert_eq!(receiver.recv().unwrap(), "p");
    assert_eq!(receiver.recv().unwrap(), "@Ping");
}

#[test]
fn hostile_answers_end_the_connection_and_not_the_client() {
    for hex in ["00000000", "7fffffff", "00000001 00", "00000012 09 0000000100000000 00 01 80 00000000 0000"] {
        let bytes = crate::support::bytes_of_hex(hex);
        let address = serve(move |mut peer, number| {
            if number > 0 {
                return echo(peer, number);
            }
            peer.accept_login();
            peer.call();
            peer.send(&bytes).unwrap();
            // Stays open: it is the client that must end it.
            assert_eq!(peer.call(), None);
        });
        let client = Client::connect(options(&[&address])).unwrap();
        let error = client.call_blocking("p", ()).unwrap_err();
        assert!(matches!(error, ClientError::Protocol { .. }) && error.is_outcome_unknown(), "{hex}: {error}");
        let value = std::iter::repeat_with(|| client.call_blocking("p", ()).ok()).flatten().next().unwrap().scalar();
        assert_eq!(value, Some(0));
    }
}

#[test]
fn connecting_that_fails_says_why() {
    // A port that nobody listens on: it was just given back.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = Client::connect(options(&[&address])).err().unwrap();
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    assert!(error.to_string().contains(&address) && error.to_string().contains("check that a server listens"));

    let address = serve(|mut peer, _| {
        peer.frame();
        let mut out = Vec::new();
        ferrite_wire::login::write_failure(&mut out, ferrite_wire::LoginFailure::Rejected);
        peer.send(&out).unwrap();
    });
    let error = Client::connect(options(&[&address])).err().unwrap();
    assert!(error.to_string().contains("user name or password is wrong"), "{error}");

    let error = Client::connect(options(&["nosuchhost.invalid"])).err().unwrap();
    assert!(
        matches!(error, ClientError::Connect { .. }) && error.to_string().contains("check the host's name"),
        "{error}"
    );

    // One node that answers is enough.
    let down = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let client = Client::connect(options(&[&down, &serve(echo)])).unwrap();
    client.call_blocking("p", ()).unwrap();
}

#[test]
fn closing_ends_what_is_in_flight() {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let address = serve(move |mut peer, _| {
        peer.accept_login();
        let call = peer.call();
        sender.lock().unwrap().send(call.is_some()).unwrap();
        sender.lock().unwrap().send(peer.call().is_some()).unwrap();
    });
    let client = Client::connect(options(&[&address])).unwrap();
    let call = client.call("p", ());
    assert!(receiver.recv().unwrap());
    client.close();
    assert!(call.wait().unwrap_err().is_outcome_unknown());
    assert!(matches!(client.call_blocking("p", ()), Err(ClientError::Closed)));
    assert!(!receiver.recv().unwrap(), "the server sees the end of the connection");
}

#[test]
fn parameters_that_cannot_be_sent() {
    let client = Client::connect(options(&[&serve(echo)])).unwrap();
    let error = client.call_blocking("p", vec![0i8; 40_000]).unwrap_err();
    assert!(matches!(error, ClientError::Encode(_)), "{error}");
    assert_eq!(client.statistics().calls_sent, 0);
    client.call_blocking("p", ()).unwrap();
}
