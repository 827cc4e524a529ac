//! The ring: exactly once, in order, slots owned by one side at a time.

use protocol::bell::{Doorbell, Patience, Waiter};
use protocol::error::ReserveError;
use protocol::ring::{Consumer, Parcel, Producer, Ring, RingWords, Slot};
use protocol::run::Run;
use protocol::site::Site;

use super::both;
use crate::case::{Bound, Case, Recorder, Sampling};
use crate::ground::{FIRST_TICKET, Ground, Leaked};
use crate::model::{Join, Model};

pub(super) fn cases<M: Model>() -> Vec<Case> {
    vec![
        Case {
            name: "one_slot_passes_every_gradient_once_and_in_order",
            properties: &["P1", "P2", "P3"],
            outcomes: &["received [1, 2]"],
            loom: Some(Bound::ExhaustiveForward),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: |recorder| pass::<M>(recorder, 1, 2),
        },
        Case {
            name: "two_slots_wrap_and_pass_every_gradient_once_and_in_order",
            properties: &["P1", "P2", "P3"],
            outcomes: &["received [1, 2, 3, 4]"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: |recorder| pass::<M>(recorder, 2, 4),
        },
        Case {
            name: "a_refused_producer_returns_from_a_full_ring",
            properties: &["P1", "P10"],
            outcomes: &["committed 1, then Refused", "committed 2, then Refused"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: refuse::<M>,
        },
        Case {
            name: "a_sealed_ring_is_drained_before_it_is_finished",
            properties: &["P1", "P2", "P10"],
            outcomes: &["received [1], then finished"],
            loom: Some(Bound::Preemptions(4)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: seal::<M>,
        },
        Case {
            name: "a_commit_that_comes_too_late_is_fenced_and_nothing_is_lost_or_repeated",
            properties: &["P2", "P8"],
            outcomes: &["committed in time", "fenced"],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: zombie::<M>,
        },
        Case {
            name: "a_new_life_writes_only_slots_that_were_released",
            properties: &["P3", "P8"],
            outcomes: &["had to wait", "wrote at once"],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: successor::<M>,
        },
        Case {
            name: "a_new_life_writes_only_slots_that_were_discarded",
            properties: &["P3", "P8"],
            outcomes: &["discarded 1"],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: discard::<M>,
        },
        Case {
            name: "a_tail_beyond_the_ring_is_a_fault",
            properties: &["P4"],
            outcomes: &["WildTail { fill: 2, capacity: 1 }"],
            loom: None,
            shuttle: Sampling::Sequential,
            variants: 1,
            run: wild_tail::<M>,
        },
        Case {
            name: "a_header_of_another_life_is_a_fault",
            properties: &["P8"],
            outcomes: &["WrongEpoch { found: 1, expected: 2 }"],
            loom: None,
            shuttle: Sampling::Sequential,
            variants: 1,
            run: other_life::<M>,
        },
    ]
}

const EPOCH: u32 = 1;

fn parcel(value: u64) -> Parcel {
    Parcel::dense(value, 0, 1, 8)
}

fn producer<M: Model>(run: Run<'static, M, u64>) -> Producer<'static, M, u64> {
    Producer::join(run.ring(0), 0, EPOCH)
}

fn consumer<M: Model>(run: Run<'static, M, u64>) -> Consumer<'static, M, u64> {
    Consumer::attach(run.ring(0), 0, 1, 64)
}

/// Takes the next gradient, waiting for it; returns its payload.
fn take<M: Model>(run: Run<'static, M, u64>, consumer: &mut Consumer<'static, M, u64>) -> u64 {
    let waiter = Waiter::new(run.server_bell(), Patience::MODEL);
    waiter.wait(|| {
        let entry = consumer.poll(EPOCH).expect("nothing in the ring is wrong")?;
        let value = entry.read(|payload| *payload);
        assert_eq!(entry.header().clock, value, "header and payload belong together (P3)");
        entry.release();
        Some(value)
    })
}

/// Puts one gradient, waiting for room.
fn put<M: Model>(
    run: Run<'static, M, u64>,
    producer: &mut Producer<'static, M, u64>,
    value: u64,
) -> Result<u64, ReserveError> {
    let waiter = Waiter::new(run.seats()[0].bell(), Patience::MODEL);
    let mut reservation = producer.reserve_wait(waiter, || false)?;
    reservation.write(|payload| *payload = value);
    Ok(reservation.commit(parcel(value)).expect("nobody else holds the seat"))
}

fn pass<M: Model>(recorder: &Recorder, capacity: usize, gradients: u64) {
    let ground = Ground::<M, u64>::new(1, capacity);
    let run = ground.run();
    let (mut producer, mut consumer) = (producer(run), consumer(run));
    let (tickets, received) = both::<M, _, _>(
        recorder,
        move || {
            (1..=gradients).map(|value| put(run, &mut producer, value).unwrap()).collect::<Vec<_>>()
        },
        move || (0..gradients).map(|_| take(run, &mut consumer)).collect::<Vec<_>>(),
    );
    let expected: Vec<_> = (0..gradients).map(|n| (FIRST_TICKET + n) % (1 << 48)).collect();
    assert_eq!(tickets, expected, "tickets are consecutive across the wrap (P4)");
    recorder.outcome(format!("received {received:?}"));
}

fn refuse<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(1, 1);
    let run = ground.run();
    let (mut producer, mut consumer) = (producer(run), consumer(run));
    let (committed, ()) = both::<M, _, _>(
        recorder,
        move || {
            for value in 1.. {
                match put(run, &mut producer, value) {
                    Ok(_) => {}
                    Err(ReserveError::Refused) => return value - 1,
                    Err(other) => panic!("{other}"),
                }
            }
            unreachable!()
        },
        move || {
            assert_eq!(take(run, &mut consumer), 1);
            consumer.refuse();
        },
    );
    recorder.outcome(format!("committed {committed}, then Refused"));
}

fn seal<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(1, 1);
    let run = ground.run();
    let (mut producer, mut consumer) = (producer(run), consumer(run));
    let ((), received) = both::<M, _, _>(
        recorder,
        move || {
            put(run, &mut producer, 1).unwrap();
            producer.seal().expect("nobody else holds the seat");
        },
        move || {
            let waiter = Waiter::new(run.server_bell(), Patience::MODEL);
            let mut received = Vec::new();
            loop {
                let taken = waiter.wait(|| match consumer.poll(EPOCH).unwrap() {
                    Some(entry) => {
                        let value = entry.read(|payload| *payload);
                        entry.release();
                        Some(Some(value))
                    }
                    None => consumer.is_finished().then_some(None),
                });
                match taken {
                    Some(value) => received.push(value),
                    None => return received,
                }
            }
        },
    );
    recorder.outcome(format!("received {received:?}, then finished"));
}

/// A life that was given up, but still runs, commits while the server seals its ring. The next
/// life begins when its process is gone.
fn zombie<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(1, 2);
    let run = ground.run();
    let (mut zombie, mut consumer) = (producer(run), consumer(run));
    let (committed, mut received) = both::<M, _, _>(
        recorder,
        move || {
            let mut reservation = zombie.reserve().expect("the ring is empty");
            reservation.write(|payload| *payload = 10);
            let ticket = reservation.ticket();
            let committed = reservation.commit(parcel(10));
            assert!(zombie.reserve().is_ok() == committed.is_ok(), "a fenced life has ended");
            committed.inspect(|committed| assert_eq!(*committed, ticket)).is_ok()
        },
        move || {
            consumer.seal_dead(EPOCH);
            drain(&mut consumer, EPOCH)
        },
    );
    let mut next = Producer::join(run.ring(0), 0, EPOCH + 1);
    put(run, &mut next, 20).unwrap();
    received.extend(drain(&mut self::consumer(run), EPOCH + 1));
    let expected: &[u64] = if committed { &[10, 20] } else { &[20] };
    assert_eq!(received, expected, "committed, so applied, once (P2, P8)");
    recorder.outcome(if committed { "committed in time" } else { "fenced" });
}

fn drain<M: Model>(consumer: &mut Consumer<'static, M, u64>, epoch: u32) -> Vec<u64> {
    let mut received = Vec::new();
    while let Some(entry) = consumer.poll(epoch).unwrap() {
        received.push(entry.read(|payload| *payload));
        entry.release();
    }
    received
}

/// A life has filled the ring and is gone; the next joins while the server takes what it left.
fn successor<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(1, 1);
    let run = ground.run();
    put(run, &mut producer(run), 10).unwrap();
    let mut consumer = consumer(run);
    let (waited, left) = both::<M, _, _>(
        recorder,
        move || {
            let mut next = Producer::join(run.ring(0), 0, EPOCH + 1);
            let waited = next.reserve().is_err();
            put(run, &mut next, 20).unwrap();
            waited
        },
        move || take(run, &mut consumer),
    );
    assert_eq!(left, 10, "what the dead committed is taken (P8)");
    recorder.outcome(if waited { "had to wait" } else { "wrote at once" });
}

/// The server throws away what a life left, while the next one joins.
fn discard<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(1, 1);
    let run = ground.run();
    put(run, &mut producer(run), 10).unwrap();
    let mut consumer = consumer(run);
    let ((), discarded) = both::<M, _, _>(
        recorder,
        move || {
            let mut next = Producer::join(run.ring(0), 0, EPOCH + 1);
            let waiter = Waiter::new(run.seats()[0].bell(), Patience::MODEL);
            waiter.wait(|| next.reserve().ok().map(|mut slot| slot.write(|value| *value = 20)));
        },
        move || {
            assert!(consumer.poll(EPOCH + 1).is_err(), "of another life");
            let discarded = consumer.discard();
            run.ring_everybody(Site::EvictBell);
            discarded
        },
    );
    recorder.outcome(format!("discarded {discarded}"));
}

/// A learner that believes in a longer ring than the server has.
fn wild_tail<M: Model>(recorder: &Recorder) {
    let words = Leaked::new(Box::new(RingWords::<M>::starting_at(FIRST_TICKET)));
    let slots = Leaked::new(Box::new([Slot::<M, u64>::new(0), Slot::new(0)]));
    let bell = Leaked::new(Box::new(Doorbell::<M>::new()));
    let (theirs, ours) = (&slots.get()[..], &slots.get()[..1]);
    let ring = |slots| Ring::new(words.get(), slots, bell.get(), bell.get()).unwrap();
    let (theirs, ours) = (ring(theirs), ring(ours));
    M::spawn(move || {
        let mut producer = Producer::join(theirs, 0, EPOCH);
        for value in 1..=2 {
            producer.reserve().unwrap().commit(parcel(value)).unwrap();
        }
    })
    .join();
    let fault = Consumer::attach(ours, 0, 1, 64).poll(EPOCH).err();
    recorder.outcome(fault.map_or("none".to_owned(), |fault| format!("{fault:?}")));
}

fn other_life<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(1, 1);
    let run = ground.run();
    M::spawn(move || put(run, &mut producer(run), 1).unwrap()).join();
    let fault = consumer(run).poll(EPOCH + 1).err();
    recorder.outcome(fault.map_or("none".to_owned(), |fault| format!("{fault:?}")));
}
