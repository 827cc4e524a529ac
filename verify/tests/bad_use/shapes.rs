//! Runs that cannot be: every limit, and memory that does not hold what it should.

use protocol::bell::Doorbell;
use protocol::clock::MAX_LEARNERS;
use protocol::error::ShapeError;
use protocol::journal::MAX_LANES;
use protocol::ring::counter::MAX_CAPACITY;
use protocol::ring::{Ring, RingWords, Slot};
use protocol::run::{ALIGNMENT, Layout, MAX_TABLES, Run, Shape};
use ps::platform::Threads;

const SHAPE: Shape = Shape { learners: 2, tables: 2, capacity: 4, lanes: 1, payload_limit: 8 };

/// Values no limit allows, whatever is asked for.
const WILD: [usize; 4] = [0, usize::MAX / 2, usize::MAX - 1, usize::MAX];

#[test]
fn a_shape_outside_a_limit_is_refused_by_name() {
    for found in WILD.into_iter().chain([MAX_LEARNERS + 1]) {
        let shape = Shape { learners: found, ..SHAPE };
        assert_eq!(refusal(shape), ShapeError::Learners { found, limit: MAX_LEARNERS });
    }
    for found in WILD.into_iter().chain([MAX_TABLES + 1]) {
        let shape = Shape { tables: found, ..SHAPE };
        assert_eq!(refusal(shape), ShapeError::Tables { found, limit: MAX_TABLES });
    }
    for found in WILD.into_iter().chain([3, 5, 6, 7, 48, MAX_CAPACITY + 1, 2 * MAX_CAPACITY]) {
        let shape = Shape { capacity: found, ..SHAPE };
        assert_eq!(refusal(shape), ShapeError::Capacity { found, limit: MAX_CAPACITY });
    }
    for found in WILD.into_iter().chain([MAX_LANES + 1]) {
        let shape = Shape { lanes: found, ..SHAPE };
        assert_eq!(refusal(shape), ShapeError::Lanes { found, limit: MAX_LANES });
    }
}

fn refusal(shape: Shape) -> ShapeError {
    let refused = Layout::of::<Threads, u64>(&shape).unwrap_err();
    assert_eq!(shape.check(), Err(refused));
    refused
}

#[test]
fn the_largest_shape_has_a_layout_and_a_larger_payload_is_too_large() {
    let shape = Shape {
        learners: MAX_LEARNERS,
        tables: MAX_TABLES,
        capacity: MAX_CAPACITY,
        lanes: MAX_LANES,
        payload_limit: u64::MAX,
    };
    assert!(Layout::of::<Threads, u64>(&shape).is_ok());
    type Enormous = [u8; 1 << 45];
    assert_eq!(Layout::of::<Threads, Enormous>(&shape), Err(ShapeError::TooLarge));
}

#[test]
fn memory_that_is_too_small_or_not_aligned_is_refused() {
    let size = Layout::of::<Threads, u64>(&SHAPE).unwrap().size;
    #[repr(C, align(128))]
    #[derive(Clone, Copy)]
    struct Line([u8; ALIGNMENT]);
    let mut memory = vec![Line([0; ALIGNMENT]); size / ALIGNMENT + 2];
    let base = memory.as_mut_ptr().cast::<u8>();
    let short = [0, 1, ALIGNMENT, size - 1].map(|given| (0, given));
    let skewed = [1, 8, 64, ALIGNMENT - 8].map(|offset| (offset, size));
    for (offset, given) in short.into_iter().chain(skewed) {
        let refused = Err(ShapeError::Memory { needed: size, given });
        // SAFETY: `memory` is longer than `offset + given`, ours, and outlives the call.
        let (made, mapped) = unsafe {
            let base = base.add(offset);
            let made = Run::<Threads, u64>::initialize(base, given, &SHAPE, || 0);
            (made.map(drop), Run::<Threads, u64>::map(base, given, &SHAPE).map(drop))
        };
        assert_eq!((made, mapped), (refused, refused), "{given} bytes from {offset}");
    }
    // SAFETY: as above, and `base` is aligned.
    assert!(unsafe { Run::<Threads, u64>::initialize(base, size, &SHAPE, || 0) }.is_ok());
}

#[test]
fn a_ring_is_not_made_of_slots_that_are_no_power_of_two() {
    let words = RingWords::<Threads>::starting_at(0);
    let bell = Doorbell::new();
    for found in [0, 3, 6] {
        let slots: Vec<_> = (0..found).map(|_| Slot::<Threads, u64>::new(0)).collect();
        let refused = Ring::new(&words, &slots, &bell, &bell).unwrap_err();
        assert_eq!(refused, ShapeError::Capacity { found, limit: MAX_CAPACITY });
    }
}
