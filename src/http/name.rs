//! Field names, told apart at a glance.

/// What is different about most field names: their length and three of their letters, whatever the
/// case. Names with the same tag still have to be compared, those with different ones need not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag([u8; 4]);

impl Tag {
    #[inline]
    pub(super) const fn of(name: &[u8]) -> Self {
        let len = name.len();
        if len == 0 {
            return Self([0; 4]);
        }
        Self([len as u8, name[0] | CASE, name[len / 2] | CASE, name[len - 1] | CASE])
    }
}

/// What makes letters of either case the same. It makes a few other bytes the same, too.
const CASE: u8 = b'a' ^ b'A';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_equal_but_for_case_have_one_tag() {
        for name in ["", "A", "TE", "Host", "mcp-session-id", "X_~!"] {
            let tag = Tag::of(name.as_bytes());
            assert_eq!(Tag::of(name.to_uppercase().as_bytes()), tag);
            assert_eq!(Tag::of(name.to_lowercase().as_bytes()), tag);
        }
        assert_ne!(Tag::of(b"accept"), Tag::of(b"expect"));
    }
}
