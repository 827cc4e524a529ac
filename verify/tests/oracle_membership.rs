//! A seat does, operation by operation, what a state and a number do, with a real server that
//! grants, vacates and dismisses; and the transition table is the one of the model, whole.
//!
//! A failure prints the smallest list of operations that shows it; replay it with
//! `cargo test -p escapement-verify --test oracle_membership`.

mod common;

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::clock::Timekeeper;
use protocol::error::JoinError;
use protocol::machine::{Machine, Step};
use protocol::membership::{Action, Standing, State};
use protocol::ring::Producer;
use protocol::ring::counter::MAX_EPOCH;
use protocol::run::Run;
use protocol::server::{Policy, Server, Synchrony};
use ps::platform::Threads;
use verify::books::{Books, Log, Weights};
use verify::ground::Ground;
use verify::oracle::membership::{Expected, Operation, Oracle};

fn operation() -> impl Strategy<Value = Operation> {
    // Lives near the present one: most of these name it or a neighbour.
    let epoch = 0..12_u32;
    prop_oneof![
        4 => Just(Operation::Join),
        4 => epoch.clone().prop_map(|dead| Operation::Rejoin { dead }),
        3 => Just(Operation::Leave),
        1 => epoch.clone().prop_map(|epoch| Operation::LeaveAs { epoch }),
        3 => epoch.prop_map(|epoch| Operation::MarkDead { epoch }),
        6 => Just(Operation::Serve),
    ]
}

struct Subject {
    run: Run<'static, Threads, u64>,
    server: Server<'static, Threads, u64, Books<Threads>>,
    producer: Option<Producer<'static, Threads, u64>>,
}

impl Subject {
    fn step(&mut self, operation: Operation) -> Expected {
        let seat = &self.run.seats()[0];
        match operation {
            Operation::Join => self.take_over(seat.join(0)),
            Operation::Rejoin { dead } => self.take_over(seat.rejoin(0, dead)),
            Operation::Leave => {
                let epoch = self.producer.as_ref().map_or(0, Producer::epoch);
                if let Some(producer) = &mut self.producer {
                    // Fenced if the server has sealed the ring for it.
                    let _ = producer.seal();
                }
                Expected::Changed(seat.leave(0, epoch))
            }
            Operation::LeaveAs { epoch } => Expected::Changed(seat.leave(0, epoch)),
            Operation::MarkDead { epoch } => Expected::Changed(seat.mark_dead(0, epoch)),
            Operation::Serve => {
                while self.server.step() == Step::Worked {}
                let counts = Timekeeper::attach(self.run.clocks()).counts(0);
                Expected::Served { standing: seat.standing(), counts }
            }
        }
    }

    fn take_over(&mut self, joined: Result<u32, JoinError>) -> Expected {
        if let Ok(epoch) = joined {
            self.producer = Some(Producer::join(self.run.ring(0), 0, epoch));
        }
        Expected::Joined(joined)
    }
}

proptest! {
    #![proptest_config(common::cases(30_000))]

    #[test]
    fn a_seat_is_a_state_and_the_number_of_a_life(operations in vec(operation(), 1..80)) {
        let ground = Ground::<Threads, u64>::new(1, 2);
        let weights = Weights::new(1);
        let run = ground.run();
        let synchrony = Synchrony::Immediate;
        let policy = Policy { synchrony, journalled: true, budget: None, quorum: 1 };
        let server = Server::attach(run, policy, Books::new(weights.view(), Log::default()));
        let mut subject = Subject { run, server: server.unwrap(), producer: None };
        let mut oracle = Oracle::new();
        for (number, operation) in operations.into_iter().enumerate() {
            let expected = oracle.step(operation);
            if expected != Expected::Skipped {
                prop_assert_eq!(subject.step(operation), expected, "{} {:?}", number, operation);
            }
            prop_assert_eq!(run.seats()[0].standing(), oracle.standing);
        }
    }
}

#[test]
fn the_transition_table_is_the_one_of_the_model() {
    let epochs = [0, 1, 2, MAX_EPOCH - 1, MAX_EPOCH];
    for state in State::ALL {
        for epoch in epochs {
            for named in epochs.into_iter().chain([MAX_EPOCH + 1, u32::MAX]) {
                for action in [
                    Action::Join,
                    Action::Rejoin { dead: named },
                    Action::Grant { epoch: named },
                    Action::Leave { epoch: named },
                    Action::Vacate { epoch: named },
                    Action::MarkDead { epoch: named },
                ] {
                    let standing = Standing { state, epoch };
                    let mut oracle = Oracle { standing, counts: false };
                    let expected = oracle.act(action).then_some(oracle.standing);
                    assert_eq!(standing.after(action), expected, "{standing:?} {action:?}");
                }
            }
        }
    }
}
