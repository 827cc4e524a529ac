//! The ring does, operation by operation, what a queue does: across the wrap of its tickets, the
//! deaths of its producers and the restarts of its consumer.
//!
//! A failure prints the smallest list of operations that shows it; replay it with
//! `cargo test -p escapement-verify --test oracle_ring`.

mod common;

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::bell::Doorbell;
use protocol::ring::{Consumer, Parcel, Producer, Ring, RingWords, Slot};
use ps::platform::Threads;
use verify::ground::FIRST_TICKET;
use verify::oracle::ring::{Expected, Gradient, Operation, Oracle, Refusal, Standing};

fn operation() -> impl Strategy<Value = Operation> {
    let value = 1..1000_u64;
    prop_oneof![
        1 => Just(Operation::Join),
        8 => value.clone().prop_map(|value| Operation::Push { value }),
        1 => value.clone().prop_map(|value| Operation::Abandon { value }),
        1 => value.prop_map(|value| Operation::ZombiePush { value }),
        1 => Just(Operation::Seal),
        2 => Just(Operation::Grant),
        2 => Just(Operation::Poll),
        8 => Just(Operation::Take),
        1 => Just(Operation::SealDead),
        1 => Just(Operation::Discard),
        1 => Just(Operation::Refuse),
        1 => Just(Operation::Accept),
        1 => Just(Operation::Restart),
        2 => Just(Operation::Inspect),
    ]
}

/// Both ends of a real ring.
struct Subject<'a> {
    ring: Ring<'a, Threads, u64>,
    consumer: Consumer<'a, Threads, u64>,
    producer: Option<Producer<'a, Threads, u64>>,
    zombie: Option<Producer<'a, Threads, u64>>,
    epoch: u32,
    granted: u32,
}

impl<'a> Subject<'a> {
    fn new(ring: Ring<'a, Threads, u64>) -> Self {
        let consumer = Consumer::attach(ring, 0, 1, 8);
        Self { ring, consumer, producer: None, zombie: None, epoch: 0, granted: 0 }
    }

    fn step(&mut self, operation: Operation) -> Expected {
        match operation {
            Operation::Join => {
                self.epoch += 1;
                let joined = Producer::join(self.ring, 0, self.epoch);
                self.zombie = self.producer.replace(joined);
                Expected::Done
            }
            Operation::Push { value } => {
                Expected::Pushed(push(self.producer.as_mut().unwrap(), value))
            }
            Operation::Abandon { value } => {
                let reserved = self.producer.as_mut().unwrap().reserve();
                Expected::Abandoned(reserved.map(|mut reservation| {
                    reservation.write(|payload| *payload = value);
                    let ticket = reservation.ticket();
                    reservation.abandon();
                    ticket
                }))
            }
            Operation::ZombiePush { value } => {
                let pushed = push(self.zombie.as_mut().unwrap(), value);
                // Which error a zombie gets depends on what it last saw; it must get one.
                Expected::Pushed(pushed.map_err(|_| Refusal::Fenced(protocol::error::Fenced)))
            }
            Operation::Seal => Expected::Sealed(self.producer.as_mut().unwrap().seal()),
            Operation::Grant => {
                let granted = self.consumer.is_handed_over_to(self.epoch);
                if granted {
                    self.granted = self.epoch;
                }
                Expected::Granted(granted)
            }
            Operation::Poll | Operation::Take => {
                let found = self.consumer.poll(self.granted).map(|entry| {
                    entry.map(|entry| {
                        let value = entry.read(|payload| *payload);
                        assert_eq!(entry.parcel().clock, value, "header and payload (P3)");
                        let gradient = Gradient {
                            ticket: entry.header().ticket,
                            epoch: entry.header().epoch,
                            value,
                        };
                        if operation == Operation::Take {
                            entry.release();
                        }
                        gradient
                    })
                });
                Expected::Found(found)
            }
            Operation::SealDead => {
                self.consumer.seal_dead(self.epoch);
                Expected::Done
            }
            Operation::Discard => Expected::Discarded(self.consumer.discard()),
            Operation::Refuse => {
                self.consumer.refuse();
                Expected::Done
            }
            Operation::Accept => {
                self.consumer.accept();
                Expected::Done
            }
            Operation::Restart => {
                self.consumer = Consumer::attach(self.ring, 0, 1, 8);
                Expected::Done
            }
            Operation::Inspect => Expected::Inspected(Standing {
                push: self.producer.as_ref().map(Producer::next_ticket),
                take: self.consumer.next_ticket(),
                empty: self.consumer.is_empty(),
                finished: self.consumer.is_finished(),
                refused: self.producer.as_ref().is_some_and(Producer::is_refused),
            }),
        }
    }
}

fn push(producer: &mut Producer<'_, Threads, u64>, value: u64) -> Result<u64, Refusal> {
    let mut reservation = producer.reserve().map_err(Refusal::Reserve)?;
    reservation.write(|payload| *payload = value);
    reservation.commit(Parcel::dense(value, 0, 1, 8)).map_err(Refusal::Fenced)
}

proptest! {
    #![proptest_config(common::cases(15_000))]

    #[test]
    fn a_ring_is_a_queue_with_one_owner(
        capacity in prop_oneof![Just(1), Just(2), Just(4)],
        first_ticket in prop_oneof![Just(0), Just(FIRST_TICKET), FIRST_TICKET - 8..1 << 48],
        operations in vec(operation(), 1..120),
    ) {
        let words = RingWords::<Threads>::starting_at(first_ticket);
        let slots: Vec<_> = (0..capacity).map(|_| Slot::<Threads, u64>::new(0)).collect();
        let (server_bell, learner_bell) = (Doorbell::new(), Doorbell::new());
        let ring = Ring::new(&words, &slots, &server_bell, &learner_bell).unwrap();
        let mut subject = Subject::new(ring);
        let mut oracle = Oracle::new(capacity, first_ticket);
        for (number, operation) in operations.into_iter().enumerate() {
            let expected = oracle.step(operation);
            if expected != Expected::Skipped {
                prop_assert_eq!(subject.step(operation), expected, "{} {:?}", number, operation);
            }
        }
    }
}
