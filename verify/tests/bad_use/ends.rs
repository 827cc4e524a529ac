//! Seats, rings and hand-offs used out of turn.

use std::thread;

use protocol::bell::{Doorbell, Patience, Waiter};
use protocol::clock::Slack;
use protocol::error::{Fenced, JoinError, ReserveError};
use protocol::handoff::{Closed, Handoff};
use protocol::learner::Life;
use protocol::machine::Machine;
use protocol::membership::{Standing, State};
use protocol::ring::counter::MAX_EPOCH;
use protocol::ring::{Consumer, Parcel, Producer};
use protocol::run::Run;
use protocol::server::Synchrony;
use protocol::site::Site;
use ps::platform::Threads;
use verify::ground::Ground;
use verify::raw::Place;

use crate::scene::{LEARNERS, Memory, Scene};

/// Runs `body` beside a server that grants seats.
fn beside_a_server(memory: &Memory, body: impl FnOnce(Run<'_, Threads, u64>)) {
    let run = memory.raw.run();
    let mut server = memory.attach(Synchrony::Immediate).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || server.run(Waiter::new(run.server_bell(), Patience::PROCESS)));
        let _end = End(run);
        body(run);
    });
}

/// Gives everybody up and ends the run, also when a claim does not hold.
struct End<'a>(Run<'a, Threads, u64>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        for (learner, seat) in self.0.seats().iter().enumerate() {
            seat.mark_dead(learner as u32, seat.standing().epoch);
        }
        self.0.request_stop();
    }
}

fn waiter<'a>(run: Run<'a, Threads, u64>, learner: usize) -> Waiter<'a, Threads> {
    Waiter::new(run.seats()[learner].bell(), Patience::PROCESS)
}

#[test]
fn a_seat_that_is_not_there_taken_or_not_that_life_is_refused_by_name() {
    beside_a_server(&Memory::new(), |run| {
        let any = waiter(run, 0);
        for learner in [LEARNERS, LEARNERS + 1, 64, usize::MAX] {
            let refused = JoinError::NoSuchSeat { learner, seats: LEARNERS };
            assert_eq!(Life::join(run, learner, any).err(), Some(refused));
            assert_eq!(Life::rejoin(run, learner, 1, any).err(), Some(refused));
        }
        let vacant = JoinError::NotThatLife { found: 0 };
        assert_eq!(Life::rejoin(run, 1, 0, any).err(), Some(vacant), "nobody to replace");
        let (life, producer) = Life::join(run, 1, waiter(run, 1)).unwrap();
        let occupied = JoinError::Occupied { epoch: 1 };
        assert_eq!(Life::join(run, 1, waiter(run, 1)).err(), Some(occupied));
        for dead in [0, 2, MAX_EPOCH, u32::MAX] {
            let other = JoinError::NotThatLife { found: 1 };
            assert_eq!(Life::rejoin(run, 1, dead, waiter(run, 1)).err(), Some(other));
        }
        assert!(!life.is_evicted(), "none of this has cost the life its seat");
        assert!(life.leave(producer));
    });
}

#[test]
fn a_life_that_has_left_has_left() {
    beside_a_server(&Memory::new(), |run| {
        let (life, producer) = Life::join(run, 0, waiter(run, 0)).unwrap();
        assert!(life.leave(producer));
        assert!(!run.seats()[0].leave(0, life.epoch()), "a second time");
        assert!(life.is_evicted());
    });
}

#[test]
fn nobody_joins_a_run_that_is_ending() {
    let memory = Memory::new();
    let run = memory.raw.run();
    run.request_stop();
    assert_eq!(Life::join(run, 0, waiter(run, 0)).err(), Some(JoinError::Stopping));
    assert_eq!(Life::rejoin(run, 0, 1, waiter(run, 0)).err(), Some(JoinError::Stopping));
}

#[test]
fn a_life_given_up_while_it_waits_for_its_seat_is_told() {
    let memory = Memory::new();
    let run = memory.raw.run();
    thread::scope(|scope| {
        let joining = scope.spawn(move || Life::join(run, 0, waiter(run, 0)).err());
        while !run.seats()[0].mark_dead(0, 1) {
            thread::yield_now();
        }
        run.ring_everybody(Site::WatchdogBell);
        assert_eq!(joining.join().unwrap(), Some(JoinError::Evicted));
    });
}

#[test]
fn a_seat_that_has_seen_its_last_life_is_worn_out() {
    for (state, found) in [
        (State::Vacant, JoinError::WornOut),
        (State::Live, JoinError::Occupied { epoch: MAX_EPOCH }),
    ] {
        let memory = Memory::new();
        let standing = Standing { state, epoch: MAX_EPOCH };
        memory.raw.write(Place::Standing(0), standing.encode());
        let seat = &memory.raw.run().seats()[0];
        assert_eq!(seat.join(0), Err(found));
    }
    for state in [State::Joining, State::Live, State::Leaving, State::Dead, State::Rejoining] {
        let memory = Memory::new();
        let standing = Standing { state, epoch: MAX_EPOCH };
        memory.raw.write(Place::Standing(0), standing.encode());
        let seat = &memory.raw.run().seats()[0];
        assert_eq!(seat.rejoin(0, MAX_EPOCH), Err(JoinError::WornOut));
        assert_eq!(seat.standing(), standing);
    }
}

fn push(producer: &mut Producer<'_, Threads, u64>) -> Result<Result<u64, Fenced>, ReserveError> {
    producer.reserve().map(|reservation| reservation.commit(Parcel::dense(1, 0, 1, 8)))
}

#[test]
fn a_push_out_of_turn_is_refused_by_name() {
    let ground = Ground::<Threads, u64>::new(1, 1);
    let run = ground.run();
    let mut consumer = Consumer::attach(run.ring(0), 0, 1, 8);

    let mut sealed = Producer::join(run.ring(0), 0, 1);
    assert_eq!(sealed.seal(), Ok(()));
    assert_eq!(sealed.seal(), Ok(()), "ending twice is ending");
    assert_eq!(push(&mut sealed), Err(ReserveError::Ended));

    let mut fenced = Producer::join(run.ring(0), 0, 2);
    consumer.seal_dead(2);
    assert_eq!(push(&mut fenced), Ok(Err(Fenced)));
    assert_eq!(push(&mut fenced), Err(ReserveError::Ended), "and it knows");

    let mut replaced = Producer::join(run.ring(0), 0, 3);
    let mut producer = Producer::join(run.ring(0), 0, 4);
    assert_eq!(replaced.seal(), Err(Fenced), "the ring is another life's");
    assert!(push(&mut producer).unwrap().is_ok());
    assert_eq!(push(&mut producer), Err(ReserveError::Full));
    let waiter = Waiter::new(run.seats()[0].bell(), Patience::PROCESS);
    assert_eq!(producer.reserve_wait(waiter, || true).err(), Some(ReserveError::Ended));
    consumer.refuse();
    assert_eq!(push(&mut producer), Err(ReserveError::Refused));
    assert_eq!(producer.reserve_wait(waiter, || false).err(), Some(ReserveError::Refused));
}

#[test]
fn a_closed_handoff_says_so_after_everything_given_was_taken() {
    let bell = Doorbell::new();
    let mut handoff = Handoff::<Threads, u64>::starting_at(u32::MAX, 7);
    let (mut giver, mut taker) = handoff.split(&bell);
    giver.loan().unwrap().unwrap().give();
    giver.close();
    giver.close();
    assert!(taker.loan().unwrap().is_some(), "given before the close");
    taker.loan().unwrap().unwrap().give_back();
    assert_eq!(taker.loan().err(), Some(Closed));
    taker.close();
    assert_eq!(giver.loan().err(), Some(Closed));
}

#[test]
fn no_clock_is_too_large_to_be_asked_for() {
    let memory = Memory::new();
    let scene = Scene::new(&memory, Synchrony::Immediate);
    for table in 0..2 {
        memory.raw.write(Place::Minimum(table), u64::MAX);
        memory.raw.write(Place::Applied { table, learner: 1 }, u64::MAX);
    }
    for clock in [0, 1, u64::MAX] {
        for slack in [0, 1, u64::MAX] {
            assert!(scene.run.clocks().is_open(clock, Slack::Bounded(slack)));
        }
    }
    drop(scene);
    beside_a_server(&memory, |run| {
        let (life, _) = Life::rejoin(run, 1, 1, waiter(run, 1)).unwrap();
        assert_eq!(life.first_clock(), u64::MAX, "there is none after the last");
    });
}
