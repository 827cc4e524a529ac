//! The scenarios of [`holes`](super::holes) on the core, seen by the same onlooker.

mod parts;

use std::sync::Arc;

use protocol::clock::Slack;
use protocol::learner::{Fetched, Life, Loaded, Pull, PullPolicy, Push, Train};
use protocol::machine::Machine;
use protocol::ring::{Consumer, Parcel, Producer};
use protocol::site::Site;

use super::ledger::Ledger;
use super::state::Gradient;
use crate::ground::Ground;
use crate::model::{Join, Model};
pub use parts::Stop;
use parts::{Between, Onlooker, Pusher, attach, serve_until, waiter};

/// The figure pulls without a lock and without waiting for anybody.
const AS_THE_FIGURE: PullPolicy = PullPolicy { slack: Slack::Unbounded, consistent: false };

/// All threads of one learner and the server, which stops after `gradients`. The learner would
/// never stop by itself.
pub fn run<M: Model>(capacity: usize, gradients: u64) -> Arc<Ledger> {
    let ground = Ground::<M, Gradient>::new(1, capacity);
    let run = ground.run();
    let bell = run.seats()[0].bell();
    let onlooker = Onlooker::<M>::new();
    let (gradient, (gradients_out, gradients_in)) = Between::new(Loaded::default(), bell);
    let (weights, (weights_out, weights_in)) = Between::new(Fetched::default(), bell);
    let mut server = attach(run, Some(gradients), &onlooker);
    let learning = {
        let onlooker = onlooker.clone();
        M::spawn(move || {
            let (life, producer) = Life::join(run, 0, waiter(bell)).expect("the seat is vacant");
            let copy = onlooker.clone();
            let pushing = M::spawn(move || {
                let mut push = Push::new(life, gradients_in, producer, copy);
                push.run(waiter(bell));
                push.into_producer()
            });
            let copy = onlooker.clone();
            let pulling = M::spawn(move || {
                Pull::new(life, weights_out, copy, AS_THE_FIGURE).run(waiter(bell));
            });
            Train::new(life, weights_in, gradients_out, onlooker, 0, Gradient::default())
                .run(waiter(bell));
            pulling.join();
            life.leave(pushing.join());
        })
    };
    server.run(waiter(run.server_bell()));
    learning.join();
    drop((gradient, weights));
    onlooker.ledger
}

/// The ring alone: one thread pushes `gradients`, the other one takes them.
pub fn pass<M: Model>(capacity: usize, gradients: u32) -> Arc<Ledger> {
    let ground = Ground::<M, Gradient>::new(1, capacity);
    let run = ground.run();
    let ledger = Arc::<Ledger>::default();
    let pushing = {
        let ledger = Arc::clone(&ledger);
        M::spawn(move || {
            let bell = waiter(run.seats()[0].bell());
            let mut producer = Producer::join(run.ring(0), 0, 1);
            for number in 1..=gradients {
                let mut slot = producer.reserve_wait(bell, || false).expect("nobody ends this");
                let gradient = Gradient { learner: 0, life: 1, number };
                slot.write(|payload| *payload = gradient);
                ledger.count(gradient);
                slot.commit(Parcel::dense(1, 0, 1, 8)).expect("nobody ends this");
            }
        })
    };
    let mut consumer = Consumer::attach(run.ring(0), 0, 1, 64);
    for _ in 0..gradients {
        waiter(run.server_bell()).wait(|| {
            let entry = consumer.poll(1).expect("nothing in the ring is wrong")?;
            ledger.take(entry.read(|payload| *payload));
            entry.release();
            Some(())
        });
    }
    pushing.join();
    ledger
}

/// Some updates while a learner pulls; then no more, and the learner goes on. `updates` is a power
/// of two, as is the capacity of any ring.
pub fn pulls<M: Model>(updates: u32) -> Arc<Ledger> {
    let ground = Ground::<M, Gradient>::new(1, updates as usize);
    let run = ground.run();
    let bell = run.seats()[0].bell();
    let onlooker = Onlooker::<M>::new();
    let mut server = attach(run, None, &onlooker);
    let mut pusher = Pusher::join(run, 0, &mut server);
    (0..updates).for_each(|_| pusher.push());
    let (between, (weights_out, mut weights_in)) = Between::new(Fetched::default(), bell);
    let pulling = {
        let (life, copy) = (pusher.life, onlooker.clone());
        M::spawn(move || Pull::new(life, weights_out, copy, AS_THE_FIGURE).run(waiter(bell)))
    };
    while server.version() < u64::from(updates) {
        server.step();
    }
    // What it takes first may have been copied during the updates; the next was not.
    let mut weights = 0;
    for _ in 0..2 {
        waiter(bell).wait(|| {
            let mut borrow = weights_in.loan().expect("the pull thread goes on")?;
            borrow.with(|fetched: &mut Fetched<u64>| {
                if fetched.fresh {
                    onlooker.ledger.claim(fetched.version, fetched.buffer);
                    weights = fetched.buffer;
                }
            });
            borrow.give_back();
            Some(())
        });
        onlooker.ledger.train_on(weights);
    }
    weights_in.close();
    pulling.join();
    drop(between);
    onlooker.ledger
}

/// One learner has pushed a gradient; another one dies pushing its first. The watchdog marks it,
/// and the server goes on until the first one may start its next clock with slack 0.
pub fn death<M: Model>(stop: Stop) -> Arc<Ledger> {
    let ground = Ground::<M, Gradient>::new(2, 2);
    let run = ground.run();
    let onlooker = Onlooker::<M>::new();
    let mut server = attach(run, None, &onlooker);
    let mut pusher = Pusher::join(run, 0, &mut server);
    let mut survivor = Pusher::join(run, 1, &mut server);
    survivor.push();
    let dying = M::spawn(move || {
        pusher.push_up_to(stop);
        assert!(run.seats()[0].mark_dead(0, pusher.life.epoch()), "nobody takes the seat");
        run.ring_everybody(Site::WatchdogBell);
    });
    serve_until(run, &mut server, || run.clocks().is_open(2, Slack::Bounded(0)));
    dying.join();
    onlooker.ledger
}

/// A learner stops pushing its first gradient. A new life rejoins and goes on after the last
/// gradient that was counted, until `gradients` were.
pub fn rejoin<M: Model>(capacity: usize, stop: Stop, gradients: u32) -> Arc<Ledger> {
    let ground = Ground::<M, Gradient>::new(1, capacity);
    let run = ground.run();
    let onlooker = Onlooker::<M>::new();
    let mut server = attach(run, None, &onlooker);
    let mut pusher = Pusher::join(run, 0, &mut server);
    let living = M::spawn(move || {
        pusher.push_up_to(stop);
        let mut pusher = pusher.rejoin();
        (stop.counted()..gradients).for_each(|_| pusher.push());
        pusher.leave();
        run.request_stop();
    });
    server.run(waiter(run.server_bell()));
    living.join();
    onlooker.ledger
}
