//! How much of a socket's input is read at a time, which depends on what the system tells of it.

/// When a connection counts as read empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    /// After a short read: what comes later raises an event of its own.
    UntilShort,
    /// Only when the socket says so.
    UntilBlocked,
}

impl Drain {
    /// How far to read after an event; `at_end` if it says that the input ends. An end that is here
    /// already raises no second event and may be waiting behind the data.
    pub(super) const fn of_event(at_end: bool) -> Self {
        if at_end || !RAISES_AGAIN { Self::UntilBlocked } else { Self::UntilShort }
    }
}

/// Whether this system raises another event for what comes after a short read: epoll and kqueue do,
/// and save a system call for each request. Elsewhere mio asks for reading until the socket blocks.
const RAISES_AGAIN: bool = cfg!(any(
    target_os = "linux",
    target_os = "android",
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "dragonfly",
    target_os = "netbsd",
    target_os = "openbsd",
));

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Interest, Poll, Token};
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    /// Waits for an event that says there is something to read.
    fn is_told(poll: &mut Poll) -> bool {
        let mut events = Events::with_capacity(8);
        // Spurious and writable events come first on some systems.
        (0..8).any(|_| {
            poll.poll(&mut events, Some(Duration::from_secs(10))).expect("polling works");
            events.iter().any(mio::event::Event::is_readable)
        })
    }

    #[test]
    fn this_system_keeps_what_reading_until_short_counts_on() {
        if Drain::of_event(false) == Drain::UntilBlocked {
            return;
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let mut far = std::net::TcpStream::connect(address).expect("somebody listens");
        let (near, _) = listener.accept().expect("somebody connects");
        near.set_nonblocking(true).expect("sockets can");
        let mut near = mio::net::TcpStream::from_std(near);
        let mut poll = Poll::new().expect("there is a poll");
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut near, Token(0), both).expect("it can be watched");
        let mut space = [0; 64];
        for piece in [&b"first"[..], b"second", b"third"] {
            far.write_all(piece).expect("there is room");
            assert!(is_told(&mut poll), "of what came after a short read");
            let count = near.read(&mut space).expect("something is here");
            assert_eq!(&space[..count], piece);
        }
        drop(far);
        assert!(is_told(&mut poll), "of the end");
        assert_eq!(near.read(&mut space).expect("the end is here"), 0);
    }

    #[test]
    fn an_end_that_may_be_waiting_is_looked_for() {
        assert_eq!(Drain::of_event(true), Drain::UntilBlocked);
    }
}
