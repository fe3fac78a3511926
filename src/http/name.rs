//! Field names, told apart at a glance.

/// What is different about most field names: their length and three of their letters, whatever the
/// case. Names with the same tag still have to be compared, those with different ones need not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u32);

impl Tag {
    #[inline]
    pub(super) const fn of(name: &[u8]) -> Self {
        let len = name.len();
        if len == 0 {
            return Self(0);
        }
        let letters = [name[0] | CASE, name[len / 2] | CASE, name[len - 1] | CASE];
        Self(u32::from_le_bytes([len as u8, letters[0], letters[1], letters[2]]))
    }
}

/// Where a field of some name can be, found at once for nearly every name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places([u8; PLACES]);

/// Where to look for the fields of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// There are none.
    Nowhere,
    /// Only this one may have the name.
    Only(usize),
    /// Several may.
    Anywhere,
}

/// A power of two, a few times the number of fields that requests have.
const PLACES: usize = 64;
/// No field is here.
const EMPTY: u8 = 0;
/// More than one is, or one too far behind to be counted.
const CROWDED: u8 = u8::MAX;

impl Default for Places {
    fn default() -> Self {
        Self([EMPTY; PLACES])
    }
}

impl Places {
    /// Takes note of the field with this index.
    #[inline]
    pub(super) fn note(&mut self, tag: Tag, index: usize) {
        let place = &mut self.0[tag.place()];
        *place = match (*place, u8::try_from(index + 1)) {
            (EMPTY, Ok(number)) => number,
            _ => CROWDED,
        };
    }

    #[inline]
    pub(super) const fn find(&self, tag: Tag) -> Place {
        match self.0[tag.place()] {
            EMPTY => Place::Nowhere,
            CROWDED => Place::Anywhere,
            number => Place::Only(number as usize - 1),
        }
    }
}

impl Tag {
    #[inline]
    const fn place(self) -> usize {
        // Spreads the names that requests usually have over places of their own.
        (self.0.wrapping_mul(0x5e49_4e61) >> (u32::BITS - PLACES.trailing_zeros())) as usize
    }
}

/// What makes letters of either case the same. It makes a few other bytes the same, too.
const CASE: u8 = b'a' ^ b'A';

/// Whether two names are the same whatever their case.
#[inline]
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (Some(last), Some(other_last)) = (one.last_chunk(), other.last_chunk()) else {
        return match (short_word(one), short_word(other)) {
            (Some(word), Some(other)) => folded(word) == folded(other),
            _ => one.eq_ignore_ascii_case(other),
        };
    };
    let (words, other_words) = (one.as_chunks().0, other.as_chunks().0);
    // The last word may overlap the one before.
    let mut pairs = words.iter().zip(other_words).chain([(last, other_last)]);
    pairs.all(|(&word, &other)| word == other || folded(word) == folded(other))
}

/// The four to eight bytes of a name in one word, some of them twice.
#[inline]
fn short_word(name: &[u8]) -> Option<[u8; 8]> {
    let ([a, b, c, d], [w, x, y, z]) = (*name.first_chunk()?, *name.last_chunk()?);
    Some([a, b, c, d, w, x, y, z])
}

/// A word with all its letters in one case.
#[inline]
const fn folded(word: [u8; 8]) -> u64 {
    const fn splat(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    let word = u64::from_ne_bytes(word);
    // Each sum has a top bit of its own: that of a byte from `A` on, or from behind `Z` on.
    let low = word & splat(0x7f);
    let (from, beyond) = (low + splat(0x80 - b'A'), low + splat(0x80 - b'Z' - 1));
    word | (from & !beyond & !word & splat(0x80)) >> 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_are_equal_but_for_case_have_one_tag() {
        for name in ["", "A", "TE", "Host", "mcp-session-id", "X_~!"] {
            let tag = Tag::of(name.as_bytes());
            assert_eq!(Tag::of(name.to_uppercase().as_bytes()), tag);
            assert_eq!(Tag::of(name.to_lowercase().as_bytes()), tag);
        }
        assert_ne!(Tag::of(b"accept"), Tag::of(b"expect"));
    }

    #[test]
    fn the_usual_names_have_places_of_their_own() {
        let names = "host user-agent accept accept-language accept-encoding content-type origin \
            content-length content-encoding connection transfer-encoding expect authorization \
            mcp-session-id mcp-protocol-version mcp-method mcp-name last-event-id referer cookie \
            traceparent tracestate cache-control pragma x-request-id via forwarded \
            x-forwarded-for x-forwarded-host x-forwarded-proto";
        let mut places = Places::default();
        let tags = names.split_whitespace().map(|name| Tag::of(name.as_bytes()));
        for (index, tag) in tags.enumerate() {
            assert_eq!(places.find(tag), Place::Nowhere, "{index}");
            places.note(tag, index);
            assert_eq!(places.find(tag), Place::Only(index));
        }
        places.note(Tag::of(b"Host"), 40);
        assert_eq!(places.find(Tag::of(b"HOST")), Place::Anywhere);
        let mut places = Places::default();
        places.note(Tag::of(b"host"), 254);
        assert_eq!(places.find(Tag::of(b"host")), Place::Anywhere, "its number is one too large");
    }

    proptest! {
        #[test]
        fn names_are_compared_as_the_standard_library_does(
            one in prop::collection::vec(any::<u8>(), 0..40),
            flips in prop::collection::vec((0_usize..40, 0_usize..3), 0..4),
        ) {
            let mut other = one.clone();
            for (at, how) in flips {
                if let Some(byte) = other.get_mut(at) {
                    *byte = [*byte ^ CASE, byte.to_ascii_uppercase(), byte.wrapping_add(1)][how];
                }
            }
            prop_assert_eq!(is_same(&one, &other), one.eq_ignore_ascii_case(&other));
        }
    }
}
