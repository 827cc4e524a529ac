//! The hand-off: one owner at a time, and nobody left behind when the other side stops.

use protocol::bell::{Doorbell, Patience, Waiter};
use protocol::handoff::{Closed, Giver, Handoff, Taker};

use super::both;
use crate::case::{Bound, Case, Recorder, Sampling};
use crate::ground::Leaked;
use crate::model::Model;

pub(super) fn cases<M: Model>() -> Vec<Case> {
    vec![
        Case {
            name: "a_buffer_belongs_to_one_side_at_a_time",
            properties: &["P1", "P3"],
            outcomes: &["taken 1"],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: pass::<M>,
        },
        Case {
            name: "every_buffer_given_is_taken_once_and_in_order",
            properties: &["P1", "P3"],
            outcomes: &["taken [1, 2]"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: pass_twice::<M>,
        },
        Case {
            name: "a_closing_giver_leaves_nothing_behind",
            properties: &["P1", "P10"],
            outcomes: &["taken [1], then closed"],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: giver_closes::<M>,
        },
        Case {
            name: "a_closing_taker_frees_a_waiting_giver",
            properties: &["P1", "P10"],
            outcomes: &["gave 1, then closed", "gave 2, then closed"],
            loom: Some(Bound::Preemptions(4)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: taker_closes::<M>,
        },
    ]
}

struct Ends<M: Model> {
    giver: Giver<'static, M, u64>,
    taker: Taker<'static, M, u64>,
    bell: &'static Doorbell<M>,
    _memory: (Leaked<Handoff<M, u64>>, Leaked<Doorbell<M>>),
}

/// A hand-off whose counts are about to wrap.
fn ends<M: Model>() -> Ends<M> {
    let mut handoff = Leaked::new(Box::new(Handoff::starting_at(u32::MAX, 0)));
    let bell = Leaked::new(Box::new(Doorbell::new()));
    let (giver, taker) = handoff.get_mut().split(bell.get());
    Ends { giver, taker, bell: bell.get(), _memory: (handoff, bell) }
}

fn give<M: Model>(
    waiter: Waiter<'_, M>,
    giver: &mut Giver<'_, M, u64>,
    value: u64,
) -> Result<(), Closed> {
    waiter.wait(|| match giver.loan() {
        Ok(None) => None,
        Ok(Some(mut loan)) => {
            loan.with(|buffer| *buffer = value);
            loan.give();
            Some(Ok(()))
        }
        Err(closed) => Some(Err(closed)),
    })
}

fn take<M: Model>(waiter: Waiter<'_, M>, taker: &mut Taker<'_, M, u64>) -> Result<u64, Closed> {
    waiter.wait(|| match taker.loan() {
        Ok(None) => None,
        Ok(Some(mut borrow)) => {
            let value = borrow.with(|buffer| *buffer);
            borrow.give_back();
            Some(Ok(value))
        }
        Err(closed) => Some(Err(closed)),
    })
}

/// The buffer goes over and comes back, and the giver writes to it again.
fn pass<M: Model>(recorder: &Recorder) {
    let Ends { mut giver, mut taker, bell, _memory } = ends::<M>();
    let waiter = Waiter::new(bell, Patience::MODEL);
    let ((), taken) = both::<M, _, _>(
        recorder,
        move || {
            give(waiter, &mut giver, 1).unwrap();
            waiter.wait(|| giver.loan().unwrap().map(|mut loan| loan.with(|buffer| *buffer = 2)));
        },
        move || take(waiter, &mut taker).unwrap(),
    );
    recorder.outcome(format!("taken {taken}"));
}

/// Two buffers' worth of data through one hand-off.
fn pass_twice<M: Model>(recorder: &Recorder) {
    let Ends { mut giver, mut taker, bell, _memory } = ends::<M>();
    let waiter = Waiter::new(bell, Patience::MODEL);
    let ((), taken) = both::<M, _, _>(
        recorder,
        move || [1, 2].into_iter().for_each(|value| give(waiter, &mut giver, value).unwrap()),
        move || [(); 2].map(|()| take(waiter, &mut taker).unwrap()),
    );
    recorder.outcome(format!("taken {taken:?}"));
}

fn giver_closes<M: Model>(recorder: &Recorder) {
    let Ends { mut giver, mut taker, bell, _memory } = ends::<M>();
    let waiter = Waiter::new(bell, Patience::MODEL);
    let ((), taken) = both::<M, _, _>(
        recorder,
        move || {
            give(waiter, &mut giver, 1).unwrap();
            giver.close();
        },
        move || {
            let mut taken = Vec::new();
            while let Ok(value) = take(waiter, &mut taker) {
                taken.push(value);
            }
            taken
        },
    );
    recorder.outcome(format!("taken {taken:?}, then closed"));
}

fn taker_closes<M: Model>(recorder: &Recorder) {
    let Ends { mut giver, mut taker, bell, _memory } = ends::<M>();
    let waiter = Waiter::new(bell, Patience::MODEL);
    let (given, ()) = both::<M, _, _>(
        recorder,
        move || (1..).take_while(|value| give(waiter, &mut giver, *value).is_ok()).count(),
        move || {
            assert_eq!(take(waiter, &mut taker), Ok(1));
            taker.close();
        },
    );
    recorder.outcome(format!("gave {given}, then closed"));
}
