//! Anything anywhere: random words of a whole run are overwritten between the steps of its server.

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::machine::Machine;
use protocol::server::Synchrony;
use verify::raw::Place;

use crate::common;
use crate::scene::{LEARNERS, Memory, SHAPE, Scene};

#[derive(Clone, Copy, Debug)]
enum Move {
    Step { steps: u8 },
    Push { learner: usize },
    TakeSeat { learner: usize },
    Leave { learner: usize },
    Restart,
    Flip { place: Place, bit: u32 },
    Overwrite { place: Place, value: u64 },
}

fn moves() -> impl Strategy<Value = Move> {
    let places = Place::all(&SHAPE);
    let place = proptest::sample::select(places);
    let value = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1 << 63),
        Just(1 << 48),
        any::<u64>()
    ];
    let learner = 0..LEARNERS;
    prop_oneof![
        6 => (1..12_u8).prop_map(|steps| Move::Step { steps }),
        6 => learner.clone().prop_map(|learner| Move::Push { learner }),
        1 => learner.clone().prop_map(|learner| Move::TakeSeat { learner }),
        1 => learner.prop_map(|learner| Move::Leave { learner }),
        2 => Just(Move::Restart),
        2 => (place.clone(), 0..64_u32).prop_map(|(place, bit)| Move::Flip { place, bit }),
        2 => (place, value).prop_map(|(place, value)| Move::Overwrite { place, value }),
    ]
}

proptest! {
    #![proptest_config(common::cases(15_000))]

    #[test]
    fn whatever_is_written_wherever_the_server_neither_panics_nor_works_for_ever(
        averaged in any::<bool>(),
        moves in vec(moves(), 1..60),
    ) {
        let synchrony = if averaged { Synchrony::Averaged } else { Synchrony::Immediate };
        let memory = Memory::new();
        let mut scene = Scene::new(&memory, synchrony);
        for play in moves {
            match play {
                Move::Step { steps } => (0..steps).for_each(|_| {
                    let _ = scene.server.step();
                }),
                Move::Push { learner } => {
                    let _ = scene.push(learner);
                }
                Move::TakeSeat { learner } => {
                    let _ = scene.take_seat(learner);
                }
                Move::Leave { learner } => scene.leave(learner),
                Move::Restart => {
                    if scene.restart().is_err() {
                        // A typed refusal: the run goes no further.
                        return Ok(());
                    }
                }
                Move::Flip { place, bit } => memory.raw.flip(place, 1 << bit),
                Move::Overwrite { place, value } => memory.raw.write(place, value),
            }
        }
        scene.settle();
    }
}
