//! Strings: searched for something to escape in strides, and copied in runs.

/// Appends a string, quotes and all.
#[inline]
pub(crate) fn write_str(out: &mut Vec<u8>, text: &str) {
    let text = text.as_bytes();
    out.reserve(text.len() + 2);
    out.push(b'"');
    // Names are short and clean, and nearly half of all strings are names.
    if text.len() <= NAME_BYTES && is_clean_rest(text) {
        out.extend_from_slice(text);
    } else {
        write_escaped(out, text);
    }
    out.push(b'"');
}

/// As long as names are, mostly.
const NAME_BYTES: usize = 16;

/// Appends the inside of a string.
pub(super) fn write_escaped(out: &mut Vec<u8>, mut text: &[u8]) {
    loop {
        let (clean, rest) = text.split_at(clean_len(text));
        out.extend_from_slice(clean);
        if rest.is_empty() {
            return;
        }
        let (stride, rest) = rest.split_at(rest.len().min(STRIDE));
        write_stride(out, stride);
        text = rest;
    }
}

/// How many bytes are looked at in one go; a few vector registers of any machine.
pub(super) const STRIDE: usize = 64;

/// How many bytes of `text` need no escape, in whole strides unless it is all of them.
#[inline]
fn clean_len(text: &[u8]) -> usize {
    let len = clean_strides_len(text);
    let rest = &text[len..];
    if rest.len() < STRIDE && is_clean_rest(rest) { text.len() } else { len }
}

/// How many bytes of `text` need no escape, in whole strides.
pub(crate) fn clean_strides_len(text: &[u8]) -> usize {
    let (strides, _) = text.as_chunks::<STRIDE>();
    strides.iter().take_while(|stride| is_clean(stride)).count() * STRIDE
}

/// Whether no byte needs an escape. Without a branch, it becomes vector instructions.
#[inline]
fn is_clean(stride: &[u8; STRIDE]) -> bool {
    stride.iter().fold(u8::MAX, |least, &byte| least.min(clearance(byte))) != 0
}

/// The same for what is shorter than a stride: in words, of which the last may overlap another.
#[inline]
fn is_clean_rest(rest: &[u8]) -> bool {
    if let Some(&last) = rest.last_chunk() {
        let (words, _) = rest.as_chunks();
        return words.iter().fold(is_clean_word(last), |clean, &word| clean & is_clean_word(word));
    }
    if let (Some(&[a, b, c, d]), Some(&[e, f, g, h])) = (rest.first_chunk(), rest.last_chunk()) {
        return is_clean_word([a, b, c, d, e, f, g, h]);
    }
    rest.iter().all(|&byte| clearance(byte) != 0)
}

/// How far a byte is from one that needs an escape; zero if it does.
///
/// To swap the quote with the space puts it next to the control characters.
#[inline]
fn clearance(byte: u8) -> u8 {
    (byte ^ SWAP).saturating_sub(b' ').min(byte ^ b'\\')
}

/// What turns a quote into a space and a space into a quote.
const SWAP: u8 = b' ' ^ b'"';

/// Whether no byte needs an escape. A subtraction borrows from a byte exactly if it is too small,
/// or if one below it already was.
#[inline]
const fn is_clean_word(word: [u8; WORD]) -> bool {
    const fn splat(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; WORD])
    }
    let swapped = u64::from_ne_bytes(word) ^ splat(SWAP);
    let backslashes = u64::from_ne_bytes(word) ^ splat(b'\\');
    let found = swapped.wrapping_sub(splat(b' ' + 1)) & !swapped
        | backslashes.wrapping_sub(splat(1)) & !backslashes;
    found & splat(0x80) == 0
}

/// How many bytes are looked at in one go within a stride.
const WORD: usize = size_of::<u64>();

/// Appends at most a stride, in which something needs an escape.
///
/// Escapes tend to come together, and so what lies between two is not worth a copy of its own. It
/// stays out of its caller, which needs no such buffer for text that is clean.
#[inline(never)]
fn write_stride(out: &mut Vec<u8>, stride: &[u8]) {
    let mut escaped = [0; ESCAPED_BYTES_MAX];
    let mut len = 0;
    let (words, rest) = stride.as_chunks();
    for &word in words {
        if is_clean_word(word) {
            escaped[len..len + WORD].copy_from_slice(&word);
            len += WORD;
        } else {
            len = word.iter().fold(len, |len, &byte| escape(&mut escaped, len, byte));
        }
    }
    len = rest.iter().fold(len, |len, &byte| escape(&mut escaped, len, byte));
    out.extend_from_slice(&escaped[..len]);
}

/// The most that can become of a stride.
const ESCAPED_BYTES_MAX: usize = STRIDE * 6;

/// Puts what stands for `byte` at `len`; returns where the next one goes.
#[inline]
fn escape(escaped: &mut [u8; ESCAPED_BYTES_MAX], len: usize, byte: u8) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let letter = ESCAPES[usize::from(byte)];
    if letter == b'u' {
        let [high, low] = [byte >> 4, byte & 0xf].map(|digit| HEX[usize::from(digit)]);
        escaped[len..len + 6].copy_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        return len + 6;
    }
    // Whether a byte is escaped is hard to foresee, so both bytes are put either way.
    let pair = if letter == 0 { [byte, 0] } else { [b'\\', letter] };
    escaped[len..len + 2].copy_from_slice(&pair);
    len + 1 + usize::from(letter != 0)
}

/// The letter after the backslash for every byte that needs one.
const ESCAPES: [u8; 256] = {
    let mut letters = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        letters[control] = b'u';
        control += 1;
    }
    letters[0x08] = b'b';
    letters[0x09] = b't';
    letters[0x0a] = b'n';
    letters[0x0c] = b'f';
    letters[0x0d] = b'r';
    letters[b'"' as usize] = b'"';
    letters[b'\\' as usize] = b'\\';
    letters
};
