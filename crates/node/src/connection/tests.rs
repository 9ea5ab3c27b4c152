use super::*;

fn connection() -> Connection {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let stream = TcpStream::connect(address).expect("a listening port takes connections");
    let (calls, bytes) = (limits::CONNECTION_OUTSTANDING_CALLS_MAX, limits::CONNECTION_OUTSTANDING_BYTES_MAX);
    Connection::new(stream, 1, Outstanding { calls, bytes })
}

fn known_for_small_answers() -> Connection {
    let mut connection = connection();
    for _ in 0..100 {
        connection.count_call(20);
        connection.answered(1, 50);
    }
    connection
}

#[test]
fn reading_stops_at_each_limit_and_goes_on_below() {
    let mut calls = known_for_small_answers();
    for _ in 1..limits::CONNECTION_OUTSTANDING_CALLS_MAX {
        calls.count_call(20);
    }
    assert!(calls.wants_reading(), "one below the limit");
    calls.count_call(20);
    assert!(!calls.wants_reading(), "at the limit");
    calls.count_call(20);
    calls.answered(2, 40);
    assert!(calls.wants_reading());

    let mut bytes = known_for_small_answers();
    bytes.count_call(limits::CONNECTION_OUTSTANDING_BYTES_MAX - 1);
    assert!(bytes.wants_reading(), "one below the limit");
    bytes.count_call(1);
    assert!(!bytes.wants_reading(), "at the limit");
    bytes.answered(1, 20);
    assert!(bytes.wants_reading());

    let mut held = known_for_small_answers();
    held.room = 10_000;
    while held.expected_bytes() + queued_bytes(held.work()) + 200 < 10_000 {
        assert!(held.wants_reading());
        held.count_call(20);
    }
    held.count_call(300);
    assert!(!held.wants_reading() && held.lacks_room(), "as much as is free");
    let calls = held.work().calls;
    held.answered(calls, 50 * calls);
    held.room = 1;
    assert!(held.wants_reading(), "who holds nothing may make a call");

    let mut unread = connection();
    unread.out().resize(limits::CONNECTION_UNREAD_BYTES_MAX - 1, 0);
    assert!(unread.wants_reading(), "one below the limit");
    unread.out().push(0);
    assert!(!unread.wants_reading(), "at the limit");

    let mut expected = connection();
    (1..limits::CONNECTION_FIRST_CALLS_MAX).for_each(|_| expected.count_call(20));
    assert!(expected.wants_reading(), "one below the limit, if the answers are large");
    expected.count_call(20);
    assert!(!expected.wants_reading(), "at the limit");
    expected.answered(1, 20);
    assert!(expected.wants_reading(), "they are smaller");
    expected.answered(1, limits::CONNECTION_EXPECTED_BYTES_MAX);
    assert!(!expected.wants_reading(), "they are larger");
}

#[test]
fn a_few_small_calls_are_always_taken() {
    let calls_until_full = |mut connection: Connection, bytes: usize| {
        connection.room = 1;
        (0..).find(|_| !connection.wants_reading() || (connection.count_call(bytes), false).1).expect("it ends")
    };
    const FEW: usize = limits::CONNECTION_ALWAYS_CALLS;
    assert_eq!(calls_until_full(connection(), 20), FEW, "at the limit");
    assert_eq!(calls_until_full(known_for_small_answers(), 20), FEW, "whatever they answer");
    let large = limits::CONNECTION_ALWAYS_BYTES;
    assert_eq!(calls_until_full(connection(), large), 1, "of large ones, one");
    let mut unread = connection();
    unread.out().resize(limits::CONNECTION_ALWAYS_BYTES + 1, 0);
    assert_eq!(calls_until_full(unread, 20), 0, "who does not read makes none");
}

#[test]
fn answers_are_expected_of_the_size_that_is_known() {
    let mut new = connection();
    new.count_call(20);
    assert_eq!(new.memory_bytes(), queued_bytes(new.work()), "nothing is known");
    (0..2).for_each(|_| new.count_call(20));
    new.answered(1, 50_000);
    assert_eq!(new.memory_bytes(), queued_bytes(new.work()) + 2 * 50_000);
    new.room = 100_000;
    (0..limits::CONNECTION_ALWAYS_CALLS).for_each(|_| new.count_call(20));
    assert!(new.lacks_room());
}

#[test]
fn nothing_is_left_when_all_is_answered() {
    let mut connection = connection();
    for round in 1..100usize {
        for size in 0..round {
            connection.count_call(size * 7_919);
        }
        for calls in [round / 3, round / 2 - round / 3, round - round / 2] {
            if calls > 0 {
                connection.answered(calls, 100);
            }
        }
        assert_eq!(connection.work(), Outstanding::default(), "round {round}");
    }
}

#[test]
fn a_frame_that_was_begun_comes_within_its_time() {
    let mut connection = connection();
    connection.logged_in = true;
    let (begun, most) = (Instant::now(), Duration::from_secs(2));
    let at = |seconds: u64| begun + Duration::from_secs(seconds);
    connection.note_frame(begun);
    assert!(!connection.frame_is_late(at(1_000), most), "nothing was begun");
    connection.partial = vec![0; limits::LOGIN_BYTES_MAX + 1];
    connection.note_frame(begun);
    connection.note_frame(at(1));
    assert!(!connection.frame_is_late(at(2), most) && connection.frame_is_late(at(3), most));
    assert!(connection.frame_stalls(at(1), Duration::from_secs(1)));
    connection.traffic.bytes_read += 5 * limits::FRAME_BYTES_PER_SECOND_MIN as u64;
    assert!(!connection.frame_is_late(at(7), most) && connection.frame_is_late(at(8), most), "what comes has time");
    connection.wait_for_memory();
    assert!(!connection.frame_is_late(at(8), most), "it is the server that does not read");
    connection.wake();
    connection.frame_came();
    connection.note_frame(at(8));
    assert!(!connection.frame_is_late(at(10), most) && connection.frame_is_late(at(11), most), "the next has its own");
    connection.partial.clear();
    connection.note_frame(at(11));
    assert!(!connection.frame_is_late(at(1_000), most));
}

#[test]
fn what_waits_is_written_as_it_came_and_takes_little_more_than_it_is() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let stream = TcpStream::connect(address).expect("a listening port takes connections");
    let mut connection = Connection::new(stream, 1, Outstanding::default());
    let (mut peer, _) = listener.accept().expect("it has connected");
    let mut expected = Vec::new();
    for round in 0..60u8 {
        let mut bytes = vec![round; if round % 7 == 3 { 3 * PIECE_BYTES } else { 400_000 }];
        expected.extend_from_slice(&bytes);
        match round % 2 {
            0 => connection.send(&bytes).expect("an open socket"),
            _ => connection.send_buffer(&mut bytes).expect("an open socket"),
        }
        assert!(round < 10 || bytes.is_empty() == (round % 2 == 1), "a buffer is kept, what is lent is copied");
        let most = connection.unwritten() + connection.unwritten() / 2 + 2 * PIECE_BYTES;
        assert!(connection.unread_capacity() <= most, "{} of {most}", connection.unread_capacity());
    }
    assert!(connection.unwritten() > 10 * PIECE_BYTES && !connection.later.pieces.is_empty(), "nobody reads");
    let total = expected.len();
    let reading = std::thread::spawn(move || {
        let mut all = vec![0; total];
        peer.read_exact(&mut all).expect("all is sent");
        all
    });
    while connection.unwritten() > 0 {
        connection.flush().expect("an open socket");
        std::thread::yield_now();
    }
    assert!(reading.join().expect("no panic") == expected);
    assert_eq!((connection.unread_capacity(), connection.later.capacity, connection.later.bytes), (0, 0, 0));
    assert!(connection.spent.len() > 20, "{} buffers come back", connection.spent.len());
}

#[test]
fn a_buffer_that_is_mostly_written_is_given_back() {
    let mut connection = connection();
    connection.out().resize(PIECE_BYTES, 7);
    connection.out_start = PIECE_BYTES / 2;
    connection.trim();
    assert_eq!(connection.out.len(), PIECE_BYTES, "half is not most");
    connection.out_start += 1;
    connection.trim();
    let left = PIECE_BYTES / 2 - 1;
    assert_eq!((connection.unwritten(), connection.out_start), (left, 0));
    assert!(connection.unread_capacity() <= 2 * left);
}

#[test]
fn what_was_written_is_not_kept() {
    let mut connection = connection();
    connection.blocked_since = Some(Instant::now());
    for round in 0..1_000usize {
        connection.send(&[round as u8; 5_000]).expect("nothing is written");
        // All but the last were.
        connection.out_start = connection.out.len() - 5_000;
    }
    assert!(connection.out.capacity() < 50_000, "{}", connection.out.capacity());
    assert_eq!((connection.unwritten(), connection.out[connection.out_start]), (5_000, 999usize as u8));
}
