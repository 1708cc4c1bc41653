//! How much one key and one tenant may ask for, and how many connections there may be.
//!
//! Each key and each tenant has a meter: how many of its requests are under way, and two buckets
//! that fill again with time, one of requests and one of bytes. Bytes are charged as they pass, so
//! a request is never cut off in the middle: whoever has spent too much is refused their next one
//! until the bucket is above zero again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many meters there may be before idle ones are taken out.
const PRUNED_FROM: usize = 1024;

/// How soon to try again when too many requests are under way.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// How much may be asked of a server. A limit of 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// How many connections may be open at once.
    pub connections: usize,
    /// How many of them may come from one address. All clients behind one proxy share it.
    pub connections_per_address: usize,
    /// What each key may ask for.
    pub key: Quota,
    /// What all keys of a tenant may ask for together.
    pub tenant: Quota,
}

/// What a key or a tenant may ask for. A limit of 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// How many requests may be under way at once, streams included.
    pub requests_at_once: u32,
    /// How many requests may begin in a minute.
    pub requests_per_minute: u32,
    /// How many bytes of bodies may be received and sent in a minute.
    pub bytes_per_minute: u64,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            connections: 16_384,
            connections_per_address: 12_288,
            key: Quota {
                requests_at_once: 8_192,
                requests_per_minute: 600_000,
                bytes_per_minute: 16 << 30,
            },
            tenant: Quota {
                requests_at_once: 12_288,
                requests_per_minute: 1_200_000,
                bytes_per_minute: 32 << 30,
            },
        }
    }
}

/// Whose limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Key,
    Tenant,
}

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    AtOnce,
    Bytes,
    Requests,
}

/// Why a request is not taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany {
    pub(crate) of: Of,
    pub(crate) what: What,
    pub(crate) limit: u64,
    pub(crate) retry_after: Duration,
}

impl std::fmt::Display for TooMany {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = match self.of {
            Of::Key => "this key",
            Of::Tenant => "this key's tenant",
        };
        let limit = self.limit;
        match self.what {
            What::AtOnce => write!(f, "{whose} has {limit} requests under way, its limit")?,
            What::Bytes => write!(f, "{whose} may send and receive {limit} bytes a minute")?,
            What::Requests => write!(f, "{whose} may make {limit} requests a minute")?,
        }
        write!(f, "; try again in {} s", seconds(self.retry_after))
    }
}

/// Whole seconds, at least one: what `Retry-After` says.
pub(crate) fn seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// The limits of a server and what is spent of them; a clone is the same.
#[derive(Clone)]
pub(crate) struct Limits(Arc<Inner>);

struct Inner {
    settings: LimitSettings,
    keys: Mutex<HashMap<String, Meter>>,
    tenants: Mutex<HashMap<String, Meter>>,
    /// By whose limit it was and which.
    refused: [[AtomicU64; 3]; 2],
    connections: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    n_connections_refused: AtomicU64,
}

impl std::fmt::Debug for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

/// What one key or tenant has spent.
struct Meter {
    n_at_once: u32,
    /// What is left; less than nothing when more was spent than there was.
    requests: f64,
    bytes: f64,
    at: Instant,
}

impl Meter {
    fn full(quota: Quota, now: Instant) -> Self {
        let (requests, bytes) = (f64::from(quota.requests_per_minute), quota.bytes_per_minute);
        Self { n_at_once: 0, requests, bytes: bytes as f64, at: now }
    }

    fn refill(&mut self, quota: Quota, now: Instant) {
        let minutes = now.saturating_duration_since(self.at).as_secs_f64() / 60.0;
        let filled = |level: f64, most: f64| (level + minutes * most).min(most);
        self.requests = filled(self.requests, f64::from(quota.requests_per_minute));
        self.bytes = filled(self.bytes, quota.bytes_per_minute as f64);
        self.at = now;
    }

    /// Says which limit keeps a request out, if one does.
    fn keeps_out(&self, quota: Quota, of: Of) -> Option<TooMany> {
        let too_many = |what, limit, retry_after| TooMany { of, what, limit, retry_after };
        let Quota { requests_at_once, requests_per_minute, bytes_per_minute } = quota;
        if requests_at_once > 0 && self.n_at_once >= requests_at_once {
            return Some(too_many(What::AtOnce, requests_at_once.into(), RETRY_SOON));
        }
        let wait = |missing: f64, per_minute: f64| {
            Duration::try_from_secs_f64(missing * 60.0 / per_minute).unwrap_or(Duration::MAX)
        };
        if requests_per_minute > 0 && self.requests < 1.0 {
            let wait = wait(1.0 - self.requests, requests_per_minute.into());
            return Some(too_many(What::Requests, requests_per_minute.into(), wait));
        }
        if bytes_per_minute > 0 && self.bytes < 1.0 {
            let wait = wait(1.0 - self.bytes, bytes_per_minute as f64);
            return Some(too_many(What::Bytes, bytes_per_minute, wait));
        }
        None
    }

    fn is_idle(&self, quota: Quota) -> bool {
        self.n_at_once == 0
            && self.requests >= f64::from(quota.requests_per_minute)
            && self.bytes >= quota.bytes_per_minute as f64
    }
}

/// Returns someone's meter as it stands now.
fn meter<'a>(
    meters: &'a mut HashMap<String, Meter>,
    name: &str,
    quota: Quota,
    now: Instant,
) -> &'a mut Meter {
    if !meters.contains_key(name) && meters.len() >= PRUNED_FROM {
        meters.values_mut().for_each(|meter| meter.refill(quota, now));
        meters.retain(|_, meter| !meter.is_idle(quota));
    }
    let meter = meters.entry(name.to_owned()).or_insert_with(|| Meter::full(quota, now));
    meter.refill(quota, now);
    meter
}

impl Limits {
    pub(crate) fn new(settings: LimitSettings) -> Self {
        Self(Arc::new(Inner {
            settings,
            keys: Mutex::default(),
            tenants: Mutex::default(),
            refused: Default::default(),
            connections: AtomicUsize::new(0),
            by_address: Mutex::default(),
            n_connections_refused: AtomicU64::new(0),
        }))
    }

    /// Takes a request of a key, unless it asks for too much.
    pub(crate) fn enter(&self, key: &str, tenant: &str, now: Instant) -> Result<Permit, TooMany> {
        let LimitSettings { key: of_key, tenant: of_tenant, .. } = self.0.settings;
        let (mut keys, mut tenants) = (lock(&self.0.keys), lock(&self.0.tenants));
        let theirs = meter(&mut keys, key, of_key, now);
        let shared = meter(&mut tenants, tenant, of_tenant, now);
        let kept_out = theirs.keeps_out(of_key, Of::Key);
        let kept_out = kept_out.or_else(|| shared.keeps_out(of_tenant, Of::Tenant));
        if let Some(too_many) = kept_out {
            let counter = &self.0.refused[too_many.of as usize][too_many.what as usize];
            counter.fetch_add(1, Ordering::Relaxed);
            return Err(too_many);
        }
        for meter in [theirs, shared] {
            meter.n_at_once += 1;
            meter.requests -= 1.0;
        }
        let (key, tenant) = (key.to_owned(), tenant.to_owned());
        Ok(Permit(Arc::new(Taken { limits: self.clone(), key, tenant })))
    }

    /// Returns how many requests were refused, by whose limit it was and which.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let of = ["key", "tenant"].into_iter().zip(&self.0.refused);
        of.flat_map(|(of, by)| {
            let what = ["requests_at_once", "bytes_per_minute", "requests_per_minute"];
            what.into_iter().zip(by).map(move |(what, n)| (of, what, n.load(Ordering::Relaxed)))
        })
    }

    /// Takes a connection, unless there are too many.
    pub(crate) fn connect(&self, from: IpAddr) -> Option<ConnectionSlot> {
        let LimitSettings { connections, connections_per_address, .. } = self.0.settings;
        let mut by_address = lock(&self.0.by_address);
        let n_from = by_address.get(&from).copied().unwrap_or(0);
        let n_open = self.0.connections.load(Ordering::Relaxed);
        let is_over = |n: usize, most: usize| most > 0 && n >= most;
        if is_over(n_open, connections) || is_over(n_from, connections_per_address) {
            self.0.n_connections_refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        by_address.insert(from, n_from + 1);
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionSlot { limits: self.clone(), from })
    }

    /// Returns how many connections are open, and how many were refused.
    pub(crate) fn connections(&self) -> (u64, u64) {
        let open = self.0.connections.load(Ordering::Relaxed) as u64;
        (open, self.0.n_connections_refused.load(Ordering::Relaxed))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a request that was taken, until the last byte of its answer; a clone is the same.
#[derive(Clone)]
pub(crate) struct Permit(Arc<Taken>);

struct Taken {
    limits: Limits,
    key: String,
    tenant: String,
}

impl Permit {
    /// Charges bytes that were received or sent.
    pub(crate) fn charge(&self, bytes: usize) {
        let Taken { limits, key, tenant } = &*self.0;
        for (meters, name) in [(&limits.0.keys, key), (&limits.0.tenants, tenant)] {
            if let Some(meter) = lock(meters).get_mut(name) {
                meter.bytes -= bytes as f64;
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        for (meters, name) in
            [(&self.limits.0.keys, &self.key), (&self.limits.0.tenants, &self.tenant)]
        {
            if let Some(meter) = lock(meters).get_mut(name) {
                meter.n_at_once = meter.n_at_once.saturating_sub(1);
            }
        }
    }
}

/// The place of a connection that was taken.
pub(crate) struct ConnectionSlot {
    limits: Limits,
    from: IpAddr,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut by_address = lock(&self.limits.0.by_address);
        if let Some(n_from) = by_address.get_mut(&self.from) {
            *n_from -= 1;
            if *n_from == 0 {
                by_address.remove(&self.from);
            }
        }
        self.limits.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(key: Quota) -> Limits {
        Limits::new(LimitSettings { key, ..LimitSettings::default() })
    }

    #[test]
    fn requests_beyond_the_limit_wait_for_the_bucket() {
        let quota = Quota { requests_at_once: 0, requests_per_minute: 2, bytes_per_minute: 0 };
        let (limits, start) = (limits(quota), Instant::now());
        drop((limits.enter("a", "t", start), limits.enter("a", "t", start)));
        let refused = limits.enter("a", "t", start).err().unwrap();
        assert_eq!((refused.what, seconds(refused.retry_after)), (What::Requests, 30));
        assert!(limits.enter("b", "t", start).is_ok(), "another key has its own");
        assert!(limits.enter("a", "t", start + Duration::from_secs(30)).is_ok());
    }

    #[test]
    fn bytes_are_a_debt_that_the_next_request_waits_for() {
        let quota = Quota { requests_at_once: 0, requests_per_minute: 0, bytes_per_minute: 60 };
        let (limits, start) = (limits(quota), Instant::now());
        limits.enter("a", "t", start).ok().unwrap().charge(90);
        let refused = limits.enter("a", "t", start).err().unwrap();
        assert_eq!((refused.what, seconds(refused.retry_after)), (What::Bytes, 31));
        assert!(limits.enter("a", "t", start + Duration::from_secs(31)).is_ok());
    }

    #[test]
    fn a_place_is_free_again_when_its_request_is_over() {
        let quota = Quota { requests_at_once: 1, requests_per_minute: 0, bytes_per_minute: 0 };
        let (limits, now) = (limits(quota), Instant::now());
        let first = limits.enter("a", "t", now).ok().unwrap();
        let kept = first.clone();
        drop(first);
        assert_eq!(limits.enter("a", "t", now).err().unwrap().what, What::AtOnce);
        drop(kept);
        assert!(limits.enter("a", "t", now).is_ok());
    }

    #[test]
    fn connections_are_counted_by_address() {
        let settings = LimitSettings {
            connections: 3,
            connections_per_address: 2,
            ..LimitSettings::default()
        };
        let limits = Limits::new(settings);
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let held = [limits.connect(one).unwrap(), limits.connect(one).unwrap()];
        assert!(limits.connect(one).is_none());
        let last = limits.connect(other).unwrap();
        assert!(limits.connect(other).is_none());
        drop(held);
        assert!(limits.connect(one).is_some());
        assert_eq!(limits.connections(), (1, 2));
        drop(last);
    }
}
