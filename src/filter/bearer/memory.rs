//! Verdicts that need not be asked for again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::Token;
use crate::key::{Hasher, Principal};

/// The callers of tokens that were found valid, for a while.
///
/// Tokens are kept as hashes: what is here would be worth stealing otherwise. Two tables take turns
/// so that the number of entries is bounded without keeping them in order: once the newer one has
/// its half of them, it becomes the older one, whose entries go.
#[derive(Debug)]
pub(super) struct Memory {
    newer: Table,
    older: Table,
    max: usize,
    /// How long a verdict is remembered at most; not at all when it is zero.
    time: Duration,
}

type Table = HashMap<TokenHash, Known, Hasher>;

/// A hash whose collisions nobody can make: one would be somebody else's rights.
type TokenHash = [u8; 32];

#[derive(Debug)]
struct Known {
    principal: Principal,
    until: Instant,
}

impl Memory {
    pub(super) fn new(max: usize, time: Duration) -> Self {
        Self { newer: Table::default(), older: Table::default(), max, time }
    }

    /// Whose token this is, if that is still known.
    pub(super) fn find(&self, token: &Token<'_>, now: Instant) -> Option<Principal> {
        if self.is_off() {
            return None;
        }
        let hash = hash_of(token);
        let known = self.newer.get(&hash).or_else(|| self.older.get(&hash))?;
        (now < known.until).then(|| known.principal.clone())
    }

    /// Remembers whose token this is, but not longer than the token itself is good for.
    pub(super) fn keep(
        &mut self,
        token: &Token<'_>,
        principal: &Principal,
        expires_in: Option<Duration>,
        now: Instant,
    ) {
        if self.is_off() {
            return;
        }
        if self.newer.len() >= self.max.div_ceil(2) {
            self.older = std::mem::take(&mut self.newer);
        }
        let until = now + expires_in.map_or(self.time, |rest| rest.min(self.time));
        self.newer.insert(hash_of(token), Known { principal: principal.clone(), until });
    }

    fn is_off(&self) -> bool {
        self.time.is_zero() || self.max == 0
    }
}

fn hash_of(token: &Token<'_>) -> TokenHash {
    Sha256::digest(token.as_str()).into()
}
