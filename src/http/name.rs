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

/// What makes letters of either case the same. It makes a few other bytes the same, too.
const CASE: u8 = b'a' ^ b'A';

/// Whether two names are the same whatever their case.
#[inline]
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (Some(last), Some(other_last)) = (one.last_chunk(), other.last_chunk()) else {
        return one.eq_ignore_ascii_case(other);
    };
    let (words, other_words) = (one.as_chunks().0, other.as_chunks().0);
    // The last word may overlap the one before.
    let pairs = words.iter().zip(other_words).chain([(last, other_last)]);
    pairs.fold(0, |differing, (&word, &other)| differing | (folded(word) ^ folded(other))) == 0
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
