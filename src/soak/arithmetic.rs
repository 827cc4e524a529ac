//! The sums of a soak: weights whose final value tells which gradients were applied, in which order.
//!
//! Every function here is plain and deterministic, so that the audit can do all sums again. A
//! weight is one word: the lower half counts the gradients it holds, the upper half is a hash of
//! them that depends on their order. The fold is neither commutative nor idempotent: a gradient
//! lost, repeated, torn or taken out of turn changes the result, and the count tells a reader how
//! much its copy really holds (P5).

/// Words in the weights and in each gradient.
pub(crate) const WORDS: usize = 16;

/// Words that the journal can undo at once.
pub(crate) const BLOCK_WORDS: usize = 4;

/// Blocks of the weights.
pub(crate) const BLOCKS: usize = WORDS / BLOCK_WORDS;

/// Weights, or a gradient. Every bit pattern is a value.
pub(crate) type Vector = [u64; WORDS];

/// Who computed a gradient, and when in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The seat.
    pub(crate) learner: u32,
    /// The life, or 0 where the result must not depend on who died how often.
    pub(crate) epoch: u32,
    /// The clock.
    pub(crate) clock: u64,
}

/// The gradient of `origin`, computed on `basis` where the pull promises exact weights.
pub(crate) fn gradient(origin: Origin, basis: Option<&Vector>) -> Vector {
    let Origin { learner, epoch, clock } = origin;
    let start = mix(mix(u64::from(learner) << 32 | u64::from(epoch)).wrapping_add(clock));
    std::array::from_fn(|index| {
        let own = mix(start.wrapping_add(index as u64));
        basis.map_or(own, |weights| mix(own ^ weights[index]))
    })
}

/// The weight `old` after one word of a gradient, shared among `share`, at `index`.
pub(crate) fn fold(old: u64, gradient: u64, share: u32, index: usize) -> u64 {
    let step = mix(gradient.wrapping_add(u64::from(share) << 8).wrapping_add(index as u64));
    let hash = ((old >> 32) as u32).wrapping_mul(0x9e37_79b1).wrapping_add(step as u32);
    u64::from(hash) << 32 | u64::from((old as u32).wrapping_add(1))
}

/// How many gradients a weight holds.
pub(crate) fn count(weight: u64) -> u64 {
    weight & 0xffff_ffff
}

/// One word that stands for a whole vector.
pub(crate) fn checksum(vector: &Vector) -> u64 {
    vector.iter().fold(0, |sum, word| mix(sum ^ word))
}

/// A bijection that leaves no bit where it was (SplitMix64's finalizer).
pub(crate) fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Origin = Origin { learner: 0, epoch: 1, clock: 1 };
    const SECOND: Origin = Origin { learner: 1, epoch: 1, clock: 1 };

    fn apply(weights: Vector, origin: Origin) -> Vector {
        let gradient = gradient(origin, None);
        std::array::from_fn(|index| fold(weights[index], gradient[index], 1, index))
    }

    #[test]
    fn order_repetition_and_share_all_change_the_weights() {
        let zero = [0; WORDS];
        let forwards = apply(apply(zero, FIRST), SECOND);
        assert_ne!(forwards, apply(apply(zero, SECOND), FIRST));
        assert_ne!(forwards, apply(forwards, SECOND));
        assert!(forwards.iter().all(|weight| count(*weight) == 2));
        assert_ne!(fold(0, 5, 1, 0), fold(0, 5, 2, 0));
    }

    #[test]
    fn a_gradient_depends_on_all_of_its_origin_and_on_its_basis() {
        let base = gradient(FIRST, None);
        assert_ne!(base, gradient(SECOND, None));
        assert_ne!(base, gradient(Origin { epoch: 2, ..FIRST }, None));
        assert_ne!(base, gradient(Origin { clock: 2, ..FIRST }, None));
        assert_ne!(gradient(FIRST, Some(&[0; WORDS])), gradient(FIRST, Some(&[1; WORDS])));
    }
}
