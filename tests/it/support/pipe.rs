//! A transport that cuts, joins and delays, the same way for the same seed.

/// Cuts bytes into pieces and decides what happens between them.
pub(crate) struct FaultyPipe {
    state: u64,
}

impl FaultyPipe {
    pub(crate) fn new(seed: u64) -> Self {
        // The generator must not start at zero.
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as usize % bound.max(1)
    }

    pub(crate) fn flips(&mut self) -> bool {
        self.below(2) == 0
    }

    /// The bytes in pieces of mixed sizes.
    pub(crate) fn cut(&mut self, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let size_max = [1, 7, 64, 1500, 70_000][self.below(5)];
            let size = (1 + self.below(size_max)).min(bytes.len());
            let (piece, rest) = bytes.split_at(size);
            pieces.push(piece.to_vec());
            bytes = rest;
        }
        pieces
    }
}
