//! Cuts bytes into pieces, in ways that depend only on the bytes.

/// Several ways to cut the bytes: whole, byte by byte, and a few in between. Pieces may be empty.
pub fn cuttings(bytes: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    const LARGEST_PIECES: [u64; 4] = [3, 17, 100, 5_000];
    let by_chance = LARGEST_PIECES.into_iter().map(|most| cut(bytes, most));
    [vec![bytes], bytes.chunks(1).collect()].into_iter().chain(by_chance)
}

/// A few lengths at which to cut the bytes, all shorter than the whole.
pub fn lengths(bytes: &[u8]) -> impl Iterator<Item = usize> {
    const COUNT: usize = 6;
    let mut chance = Chance::of(bytes);
    let length = bytes.len() as u64;
    std::iter::repeat_with(move || chance.below(length.max(1)) as usize).take(COUNT)
}

fn cut(bytes: &[u8], largest: u64) -> Vec<&[u8]> {
    let mut chance = Chance::of(bytes);
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = chance.below(largest + 1) as usize;
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Pseudo-random numbers that depend only on the bytes.
struct Chance(u64);

impl Chance {
    fn of(bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
