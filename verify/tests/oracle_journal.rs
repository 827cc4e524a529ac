//! An update happens once and whole, wherever the server dies in it and however often (P9).
//!
//! A failure prints the smallest list of operations that shows it; replay it with
//! `cargo test -p escapement-verify --test oracle_journal`.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::journal::{Intent, Journal, JournalWords, Kernel, Lane, LaneWords, Phase};
use protocol::ring::{Header, Parcel};
use ps::platform::Threads;
use verify::oracle::journal::{
    BLOCKS, Expected, LANES, LaneWeights, Operation, Oracle, WORDS, fold, initial,
};

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (1..1000_u64).prop_map(|gradient| Operation::Begin { gradient }),
        8 => (0..LANES).prop_map(|lane| Operation::RunLane { lane }),
        4 => (0..LANES, 0..24_u8)
            .prop_map(|(lane, stores)| Operation::DieInLane { lane, stores }),
        5 => Just(Operation::Applied),
        5 => Just(Operation::Idle),
        1 => (1..64_u64).prop_map(|members| Operation::BeginRound { members }),
        1 => (0..64_u64).prop_map(|remaining| Operation::SetRemaining { remaining }),
        5 => Just(Operation::Restart),
    ]
}

/// What survives the server: the weights and undo records of each lane.
struct Memory {
    weights: [LaneWeights; LANES],
    records: [[[u64; WORDS]; 2]; LANES],
}

/// The death of the server.
struct Death;

struct Fold<'m> {
    weights: &'m mut LaneWeights,
    records: &'m mut [[u64; WORDS]; 2],
    gradient: u64,
    /// Stores until death.
    left: Option<u8>,
}

impl Fold<'_> {
    fn live_to_store(&mut self) {
        match &mut self.left {
            Some(0) => resume_unwind(Box::new(Death)),
            Some(left) => *left -= 1,
            None => {}
        }
    }
}

impl Kernel for Fold<'_> {
    fn save(&mut self, block: u64, record: usize) {
        for word in 0..WORDS {
            self.live_to_store();
            self.records[record][word] = self.weights[block as usize][word];
        }
        // It can also die between the record and the mark.
        self.live_to_store();
    }

    fn restore(&mut self, block: u64, record: usize) {
        for word in 0..WORDS {
            self.live_to_store();
            self.weights[block as usize][word] = self.records[record][word];
        }
    }

    fn write(&mut self, block: u64) {
        for word in 0..WORDS {
            self.live_to_store();
            let weight = &mut self.weights[block as usize][word];
            *weight = fold(*weight, self.gradient, word);
        }
    }
}

struct Subject<'a> {
    journal: Journal<'a, Threads>,
    lanes: Vec<Lane<'a, Threads>>,
    gradient: u64,
    memory: Memory,
}

impl Subject<'_> {
    fn run_lane(&mut self, lane: usize, left: Option<u8>) {
        let mut kernel = Fold {
            weights: &mut self.memory.weights[lane],
            records: &mut self.memory.records[lane],
            gradient: self.gradient,
            left,
        };
        self.lanes[lane].run(&mut kernel, BLOCKS as u64);
    }

    fn step(&mut self, operation: Operation) -> Expected {
        match operation {
            Operation::Begin { gradient } => {
                self.gradient = gradient;
                let header = Header::new(gradient, 0, 1, Parcel::dense(1, 0, 1, 8));
                self.journal.begin(Intent { header, version: 1, share: 1, journalled: 1 });
                self.lanes = self.journal.lanes().collect();
            }
            Operation::RunLane { lane } => {
                self.run_lane(lane, None);
                return Expected::Lane(self.memory.weights[lane]);
            }
            Operation::DieInLane { lane, stores } => {
                let died = catch_unwind(AssertUnwindSafe(|| self.run_lane(lane, Some(stores))));
                assert!(died.is_ok() || died.is_err_and(|cause| cause.is::<Death>()));
                self.lanes.clear();
            }
            Operation::Applied => self.journal.applied(),
            Operation::Idle => self.journal.idle(),
            Operation::BeginRound { members } => self.journal.begin_round(members),
            Operation::SetRemaining { remaining } => self.journal.set_remaining(remaining),
            Operation::Restart => {
                let (phase, intent) = self.journal.found();
                let gradient = (phase != Phase::Idle).then_some(intent.header.ticket);
                self.gradient = intent.header.ticket;
                self.lanes = self.journal.lanes().collect();
                return Expected::Found { phase, gradient, round: self.journal.round() };
            }
        }
        Expected::Done
    }
}

proptest! {
    #![proptest_config(common::cases(12_000))]

    #[test]
    fn an_update_happens_once_and_whole(operations in vec(operation(), 1..160)) {
        let words = JournalWords::<Threads>::new();
        let lanes: [LaneWords<Threads>; LANES] = std::array::from_fn(|_| LaneWords::new());
        let journal = Journal::new(&words, &lanes);
        let weights = std::array::from_fn(initial);
        let memory = Memory { weights, records: Default::default() };
        let mut subject = Subject { journal, lanes: Vec::new(), gradient: 0, memory };
        let mut oracle = Oracle::new();
        for (number, operation) in operations.into_iter().enumerate() {
            let expected = oracle.step(operation);
            if expected != Expected::Skipped {
                prop_assert_eq!(subject.step(operation), expected, "{} {:?}", number, operation);
            }
        }
    }
}
