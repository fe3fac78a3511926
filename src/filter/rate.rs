//! How often somebody may ask.
//!
//! The arithmetic is the generic cell rate algorithm, a token bucket that keeps one instant per
//! caller: when its bucket will be full again. The `governor` crate has the same arithmetic, but
//! reads its clock from within itself, guards its state by locks or atomics, and bounds its table
//! only when it is told to sweep it. Here the instant of the turn comes with the request, one
//! thread owns the state, and the table must never be larger than it may be.
//!
//! # Where it stands
//!
//! User filters come before anybody knows who is asking. So [`Security`](super::security) asks the
//! limit itself, twice: before the authentication hook, whether the address has used its share up
//! by credentials that were refused, and behind it, on account of whom the hook named. Both are at
//! the head, when nothing of a body has been kept. What is cheaper to answer than to count is not
//! counted: probes, preflights, and what is refused for its `Host` or `Origin`.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::{Cx, Filter, Flow, Refusal, Response};
use crate::http::{Request, ResponseHead, Status};
use crate::key::{Hasher, Principal};
use crate::limits::RATE_KEYS_MAX;
use crate::rpc::ErrorObject;

/// Lets every caller make so many requests in a time, and refuses the rest with 429 and a
/// `Retry-After` field.
///
/// A caller is a principal, where an authentication hook has named one, and otherwise an address:
/// all of an IPv4 address, the first 64 bits of an IPv6 address, because that is what one host is
/// given. Each has a bucket of [`burst`](Self::burst) requests, which fills up again at the rate.
/// A batch is one request. The body of a refused request is read and thrown away.
///
/// [`rate_limit`](crate::ServerBuilder::rate_limit) puts it where it belongs. As a
/// [`filter`](crate::ServerBuilder::filter) of one's own it works too, but knows addresses only and
/// counts probes and preflights like everything else.
///
/// Buckets that are full again are forgotten. Should more callers than the table may hold be busy
/// at once, the ones that have been quiet for longest get a full bucket early.
///
/// ```
/// use waterwheel::Server;
/// use waterwheel::filter::RateLimit;
///
/// let server = Server::builder("calculator", "1.0.0")
///     .rate_limit(RateLimit::per_second(10).burst(50));
/// ```
#[must_use]
pub struct RateLimit {
    /// What one request costs.
    interval: Duration,
    burst: u32,
    address: Option<AddressOf>,
    buckets: Buckets,
}

type AddressOf = Box<dyn FnMut(&Request<'_>, Option<SocketAddr>) -> Option<IpAddr>>;

impl RateLimit {
    /// So many requests a second, at least one; as many may come at once.
    pub fn per_second(requests: u32) -> Self {
        Self::new(requests, Duration::from_secs(1))
    }

    /// So many requests a minute, at least one; as many may come at once.
    pub fn per_minute(requests: u32) -> Self {
        Self::new(requests, Duration::from_secs(60))
    }

    fn new(requests: u32, time: Duration) -> Self {
        let burst = requests.max(1);
        let interval = time / burst;
        Self { interval, burst, address: None, buckets: Buckets::new(RATE_KEYS_MAX) }
    }

    /// So many requests may come at once, at least one, from a caller that has been quiet.
    pub fn burst(mut self, requests: u32) -> Self {
        self.burst = requests.max(1);
        self
    }

    /// Tells by which address a caller without a principal is counted, given the request and the
    /// address of its connection. Behind a reverse proxy all connections have the proxy's address;
    /// what it knows of the caller is in a field, which only means something if nobody else can
    /// reach the server. None puts the request on one account with all others of which nothing is
    /// known.
    pub fn address<F>(mut self, of: F) -> Self
    where
        F: FnMut(&Request<'_>, Option<SocketAddr>) -> Option<IpAddr> + 'static,
    {
        self.address = Some(Box::new(of));
        self
    }

    /// Refuses an address that has nothing left, and takes nothing from one that has.
    pub(super) fn look(&mut self, request: &Request<'_>, cx: &Cx<'_>) -> Result<(), Refusal> {
        let account = self.account_of_address(request, cx);
        let full_at = self.buckets.full_at(&account, cx.now);
        self.judge(full_at, cx.now)
    }

    /// Takes one request from the account of the address, whatever is left there.
    pub(super) fn note_denial(&mut self, request: &Request<'_>, cx: &Cx<'_>) {
        let account = self.account_of_address(request, cx);
        self.take(account, cx.now);
    }

    /// Takes one request from the caller's account, or refuses it.
    pub(super) fn admit(&mut self, request: &Request<'_>, cx: &Cx<'_>) -> Result<(), Refusal> {
        let account = match cx.principal() {
            Some(principal) => Account::Principal(principal.clone()),
            None => self.account_of_address(request, cx),
        };
        let full_at = self.buckets.full_at(&account, cx.now);
        self.judge(full_at, cx.now)?;
        self.take(account, cx.now);
        Ok(())
    }

    fn account_of_address(&mut self, request: &Request<'_>, cx: &Cx<'_>) -> Account {
        let address = match &mut self.address {
            Some(of) => of(request, cx.peer()),
            None => cx.peer().map(|peer| peer.ip()),
        };
        address.map_or(Account::Unknown, Account::of_address)
    }

    fn judge(&self, full_at: Instant, now: Instant) -> Result<(), Refusal> {
        // A bucket with room for one more request is full again within this time.
        let patience = self.interval * (self.burst - 1);
        let wait = (full_at - now).saturating_sub(patience);
        if wait.is_zero() { Ok(()) } else { Err(refuse(wait)) }
    }

    fn take(&mut self, account: Account, now: Instant) {
        let fills_in = self.interval * self.burst;
        let full_at = self.buckets.full_at(&account, now) + self.interval;
        self.buckets.keep(account, full_at.min(now + fills_in), now, fills_in);
    }
}

fn refuse(wait: Duration) -> Refusal {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let message = format!("too many requests; try again in {seconds} s");
    let error = ErrorObject::invalid_request(message);
    let response = Response::rpc_error(Status::TOO_MANY_REQUESTS, None, &error);
    Refusal::drain(response.field("Retry-After", seconds.to_string()))
}

impl Filter for RateLimit {
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        self.admit(request, cx)
    }

    fn on_request<'r>(&mut self, _request: &Request<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        Flow::Next
    }

    fn on_response(&mut self, _head: &mut ResponseHead, _cx: &mut Cx<'_>) {}
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("interval", &self.interval)
            .field("burst", &self.burst)
            .field("accounts", &(self.buckets.young.len() + self.buckets.old.len()))
            .finish_non_exhaustive()
    }
}

/// Who a request is counted for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Account {
    Principal(Principal),
    V4([u8; 4]),
    /// The part of an address that names the network of one host.
    V6([u8; 8]),
    Unknown,
}

impl Account {
    fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::V4(v4.octets()),
            IpAddr::V6(v6) => {
                let [a, b, c, d, e, f, g, h, ..] = v6.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// When each account's bucket will be full, in two halves.
///
/// The young half holds who asked of late. Once it is as old as a bucket takes to fill, or has as
/// many entries as it may, it becomes the old half, and what the old half still held is dropped:
/// nobody in there has asked since, so that nearly always all of it is full again. Nothing has to
/// be looked through for that.
#[derive(Debug)]
struct Buckets {
    young: HashMap<Account, Instant, Hasher>,
    old: HashMap<Account, Instant, Hasher>,
    /// When the young half was begun; none before the first request.
    begun: Option<Instant>,
    half_max: usize,
}

impl Buckets {
    fn new(accounts_max: usize) -> Self {
        let (young, old) = (HashMap::default(), HashMap::default());
        Self { young, old, begun: None, half_max: accounts_max / 2 }
    }

    /// When the bucket will be full: now if it is, as that of a stranger.
    fn full_at(&self, account: &Account, now: Instant) -> Instant {
        let kept = self.young.get(account).or_else(|| self.old.get(account));
        kept.map_or(now, |full_at| now.max(*full_at))
    }

    fn keep(&mut self, account: Account, full_at: Instant, now: Instant, fills_in: Duration) {
        let begun = *self.begun.get_or_insert(now);
        let aged = now.saturating_duration_since(begun) >= fills_in;
        let crowded = self.young.len() >= self.half_max && !self.young.contains_key(&account);
        if aged || crowded {
            self.old = std::mem::take(&mut self.young);
            self.begun = Some(now);
        }
        self.young.insert(account, full_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u32) -> Account {
        Account::V4(number.to_be_bytes())
    }

    fn epoch() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
        Instant::now()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_host_is_one_account_however_it_writes_its_address() {
        let of = |text: &str| Account::of_address(text.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }

    #[test]
    fn the_table_never_holds_more_than_it_may() {
        let now = epoch();
        let mut buckets = Buckets::new(8);
        for number in 0..1000 {
            buckets.keep(account(number), now + SECOND, now, SECOND);
            assert!(buckets.young.len() + buckets.old.len() <= 8, "{buckets:?}");
        }
        assert_eq!(buckets.full_at(&account(999), now), now + SECOND);
        assert_eq!(buckets.full_at(&account(0), now), now, "the longest quiet one is forgotten");
    }

    #[test]
    fn whoever_asks_again_is_not_forgotten() {
        let now = epoch();
        let mut buckets = Buckets::new(8);
        for number in 0..1000 {
            buckets.keep(account(number), now + SECOND, now, SECOND);
            buckets.keep(account(0), now + SECOND, now, SECOND);
        }
        assert_eq!(buckets.full_at(&account(0), now), now + SECOND);
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let now = epoch();
        let mut buckets = Buckets::new(1000);
        for number in 0..100 {
            buckets.keep(account(number), now + SECOND, now, SECOND);
        }
        for later in [SECOND, SECOND * 2] {
            buckets.keep(account(7), now + later + SECOND, now + later, SECOND);
        }
        assert_eq!((buckets.young.len(), buckets.old.len()), (1, 1));
    }

    #[test]
    fn no_bucket_that_still_fills_is_forgotten_for_its_age() {
        let now = epoch();
        let mut buckets = Buckets::new(1000);
        buckets.keep(account(0), now, now, SECOND);
        let late = now + SECOND - Duration::from_nanos(1);
        buckets.keep(account(1), late + SECOND, late, SECOND);
        buckets.keep(account(2), now + SECOND * 2, now + SECOND, SECOND);
        assert_eq!(buckets.full_at(&account(1), now + SECOND), late + SECOND);
    }
}
