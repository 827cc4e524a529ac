//! A copy of the weights holds and claims, interleaving by interleaving, what the model says: the
//! version never lies (P5).
//!
//! A failure prints the smallest list of operations that shows it; replay it with
//! `cargo test -p escapement-verify --test oracle_weights`.

mod common;

use std::cell::{Cell, RefCell};

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::bell::Doorbell;
use protocol::weights::{Publisher, Reader, SnapshotWords, Stamp};
use ps::platform::Threads;
use verify::oracle::weights::{Action, BLOCKS, Expected, Meanwhile, Operation, Oracle, Progress};

fn meanwhile() -> impl Strategy<Value = Meanwhile> {
    prop_oneof![Just([0; BLOCKS]), proptest::array::uniform(0..4_u8), {
        proptest::array::uniform(0..12_u8)
    }]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (1..8_u8).prop_map(|steps| Operation::Serve { steps }),
        4 => meanwhile().prop_map(|meanwhile| Operation::ReadRacy { meanwhile }),
        4 => meanwhile().prop_map(|meanwhile| Operation::ReadStill { meanwhile }),
        2 => Just(Operation::Ask),
        4 => Just(Operation::Answer),
        2 => Just(Operation::Collect),
        1 => Just(Operation::Rejoin),
        1 => Just(Operation::Restart),
    ]
}

/// The server's side of real weights.
struct Writer<'a> {
    publisher: Publisher<'a, Threads>,
    blocks: &'a [Cell<u64>; BLOCKS],
    progress: Progress,
}

impl Writer<'_> {
    fn serve(&mut self, steps: u8) {
        for _ in 0..steps {
            let (action, next) = self.progress.next();
            let version = self.publisher.version() + 1;
            match action {
                Action::Begin => self.publisher.begin(),
                Action::Write(block) => self.blocks[block].set(version),
                Action::Finish => self.publisher.finish(version),
            }
            self.progress = next;
        }
    }
}

struct Subject<'a> {
    stamp: &'a Stamp<Threads>,
    words: &'a SnapshotWords<Threads>,
    bell: &'a Doorbell<Threads>,
    writer: RefCell<Writer<'a>>,
    answered: u64,
    snapshot: Cell<[u64; BLOCKS]>,
    reader: Reader<'a, Threads>,
}

impl<'a> Subject<'a> {
    fn copy(&self, meanwhile: Meanwhile) -> [u64; BLOCKS] {
        std::array::from_fn(|block| {
            let value = self.writer.borrow().blocks[block].get();
            self.writer.borrow_mut().serve(meanwhile[block]);
            value
        })
    }

    fn step(&mut self, operation: Operation) -> Expected {
        match operation {
            Operation::Serve { steps } => {
                self.writer.borrow_mut().serve(steps);
                Expected::Done
            }
            Operation::ReadRacy { meanwhile } => {
                let mut copy = None;
                let version = self.reader.read_racy(|| copy = Some(self.copy(meanwhile)));
                assert!(copy.unwrap().iter().all(|held| *held >= version), "the version lies (P5)");
                Expected::Read { version: Ok(version), copy }
            }
            Operation::ReadStill { meanwhile } => {
                let mut copy = None;
                let version = self.reader.read_still(|| copy = Some(self.copy(meanwhile)));
                if let Ok(version) = version {
                    assert_eq!(copy, Some([version; BLOCKS]), "more than one version (P5)");
                }
                Expected::Read { version, copy }
            }
            Operation::Ask => {
                self.reader.ask();
                Expected::Done
            }
            Operation::Answer => {
                let writer = self.writer.borrow();
                let copy = || self.snapshot.set(writer.blocks.each_ref().map(Cell::get));
                let publisher = &writer.publisher;
                let there_was = publisher.answer(&mut self.answered, self.words, self.bell, copy);
                Expected::Answered(there_was)
            }
            Operation::Collect => {
                let mut copy = [0; BLOCKS];
                let version = self.reader.collect(|| copy = self.snapshot.get());
                Expected::Collected(version.map(|version| (version, copy)))
            }
            Operation::Rejoin => {
                self.reader = Reader::join(self.stamp, self.words, self.bell);
                Expected::Done
            }
            Operation::Restart => {
                let writer = self.writer.get_mut();
                writer.publisher = Publisher::attach(self.stamp);
                assert_eq!(writer.publisher.is_writing(), writer.progress != Progress::Still);
                self.answered = self.words.answered();
                Expected::Done
            }
        }
    }
}

proptest! {
    #![proptest_config(common::cases(20_000))]

    #[test]
    fn a_copy_holds_what_it_claims(operations in vec(operation(), 1..120)) {
        let (stamp, words, bell) = (Stamp::new(), SnapshotWords::new(), Doorbell::new());
        let blocks = [const { Cell::new(0) }; BLOCKS];
        let publisher = Publisher::attach(&stamp);
        let mut subject = Subject {
            stamp: &stamp,
            words: &words,
            bell: &bell,
            writer: RefCell::new(Writer { publisher, blocks: &blocks, progress: Progress::Still }),
            answered: 0,
            snapshot: Cell::new([0; BLOCKS]),
            reader: Reader::join(&stamp, &words, &bell),
        };
        let mut oracle = Oracle::new();
        for (number, operation) in operations.into_iter().enumerate() {
            let expected = oracle.step(operation);
            if expected != Expected::Skipped {
                prop_assert_eq!(subject.step(operation), expected, "{} {:?}", number, operation);
            }
        }
    }
}
