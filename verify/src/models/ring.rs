//! The ring: exactly once, in order, slots owned by one side at a time.

use protocol::bell::{Patience, Waiter};
use protocol::error::ReserveError;
use protocol::ring::{Consumer, Parcel, Producer};
use protocol::run::Run;

use super::both;
use crate::case::{Bound, Case, Recorder};
use crate::ground::{FIRST_TICKET, Ground};
use crate::model::Model;

pub(super) fn cases<M: Model>() -> Vec<Case> {
    vec![
        Case {
            name: "one_slot_passes_every_gradient_once_and_in_order",
            properties: &["P1", "P2", "P3"],
            outcomes: &["received [1, 2]"],
            loom: Some(Bound::ExhaustiveForward),
            shuttle: true,
            run: |recorder| pass::<M>(recorder, 1, 2),
        },
        Case {
            name: "two_slots_wrap_and_pass_every_gradient_once_and_in_order",
            properties: &["P1", "P2", "P3"],
            outcomes: &["received [1, 2, 3, 4]"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: true,
            run: |recorder| pass::<M>(recorder, 2, 4),
        },
        Case {
            name: "a_refused_producer_returns_from_a_full_ring",
            properties: &["P1", "P10"],
            outcomes: &["committed 1, then Refused", "committed 2, then Refused"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: true,
            run: refuse::<M>,
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
