//! What happens behind the shut door.
//!
//! Everybody polls without end ([`ETERNAL`]), so that nobody ever sleeps, except where that is the
//! point. Outcomes are checked behind the door as well: an assertion that fails calls the kernel to
//! say so, and is caught at that.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

use protocol::bell::{Doorbell, Patience, Waiter};
use protocol::clock::Slack;
use protocol::error::Fault;
use protocol::handoff::Handoff;
use protocol::journal::{Journal, Kernel};
use protocol::learner::{
    Compute, Contents, Fetched, Life, Loaded, Pull, PullCopy, PullPolicy, Push, PushCopy, Train,
};
use protocol::machine::{Machine, Step};
use protocol::platform::Platform;
use protocol::ring::{Consumer, Encoding, Parcel, Producer};
use protocol::run::{Run, Shape};
use protocol::server::{Apply, Gradient, Policy, Server, Synchrony};
use ps::mapping::Mapping;
use ps::platform::{Processes, Threads};

use super::confinement::{Verdict, Who, confine, shut_the_door};

/// Gradients through a ring, and through a server.
pub(super) const RING_GRADIENTS: u64 = 200_000;
/// Buffers through a hand-off and gradients all the way round. Fewer, since each waits for the one
/// before it: on a single core, where nobody yields, that is a time slice each.
const LOCKSTEP_GRADIENTS: u64 = 5_000;

/// Never announces, never parks.
const ETERNAL: Patience = Patience { spins: u32::MAX, slice: None };
/// Parks as soon as there is nothing to do.
const NONE: Patience = Patience { spins: 0, slice: None };

const EPOCH: u32 = 1;
const BLOCKS: usize = 8;
const SHAPE: Shape = Shape {
    learners: 1,
    tables: 1,
    capacity: 64,
    lanes: 1,
    payload_limit: size_of::<Payload>() as u64,
};

/// A gradient, or weights: one number a block.
type Payload = [u64; BLOCKS];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    Ring,
    Handoff,
    Server,
    Walk,
    Parks,
    Wakes,
    Allocates,
}

impl Scenario {
    const ALL: [Self; 7] = [
        Self::Ring,
        Self::Handoff,
        Self::Server,
        Self::Walk,
        Self::Parks,
        Self::Wakes,
        Self::Allocates,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Handoff => "handoff",
            Self::Server => "server",
            Self::Walk => "walk",
            Self::Parks => "parks",
            Self::Wakes => "wakes",
            Self::Allocates => "allocates",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    pub(super) fn run(self) -> ! {
        match self {
            Self::Ring => ring(ETERNAL, |_| {}),
            Self::Handoff => handoff(),
            Self::Server => server(),
            Self::Walk => walk(),
            Self::Parks => ring(NONE, |_| {}),
            Self::Wakes => wake(),
            Self::Allocates => ring(ETERNAL, |clock| drop(black_box(Box::new(clock)))),
        }
    }
}

/// A run in a mapping, as between processes. The file is gone once it is mapped.
fn new_run() -> Run<'static, Processes, Payload> {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let mapping = Mapping::create::<Processes, Payload>(&directory.path().join("run"), SHAPE)
        .expect("there is room for a run");
    let mapping: &'static Mapping = Box::leak(Box::new(mapping));
    // SAFETY: nobody else knows the memory yet.
    unsafe { mapping.initialize(Payload::default) }.expect("the shape is valid")
}

fn parcel(clock: u64) -> Parcel {
    Parcel::dense(clock, 0, 1, SHAPE.payload_limit)
}

fn take(consumer: &mut Consumer<'_, Processes, Payload>) -> Option<Payload> {
    let entry = consumer.poll(EPOCH).expect("nothing in the ring is wrong")?;
    let payload = entry.read(|payload| *payload);
    entry.release();
    Some(payload)
}

/// A learner pushes, a server takes. `beside` is done beside each push.
fn ring(patience: Patience, beside: impl Fn(u64)) -> ! {
    let run = new_run();
    let mut producer = Producer::join(run.ring(0), 0, EPOCH);
    let mut consumer = Consumer::attach(run.ring(0), 0, 1, SHAPE.payload_limit);
    let room = Waiter::new(run.seats()[0].bell(), patience);
    confine(
        move || {
            let arrivals = Waiter::new(run.server_bell(), patience);
            for clock in 1..=RING_GRADIENTS {
                assert_eq!(arrivals.wait(|| take(&mut consumer)), [clock; BLOCKS]);
            }
        },
        move || {
            for clock in 1..=RING_GRADIENTS {
                let mut slot = producer.reserve_wait(room, || false).expect("nobody refuses");
                slot.write(|payload| *payload = [clock; BLOCKS]);
                slot.commit(parcel(clock)).expect("nobody takes the ring over");
                beside(clock);
            }
        },
    )
}

/// The server sleeps, free to call the kernel; the learner is confined and has to wake it.
fn wake() -> ! {
    let run = new_run();
    let mut producer = Producer::join(run.ring(0), 0, EPOCH);
    let mut consumer = Consumer::attach(run.ring(0), 0, 1, SHAPE.payload_limit);
    let polls = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            Waiter::new(run.server_bell(), NONE).wait(|| {
                polls.fetch_add(1, Release);
                take(&mut consumer)
            });
        });
        // It polls a second time once it has announced that it will park.
        while polls.load(Acquire) < 2 {
            thread::yield_now();
        }
        shut_the_door(Who::ThisThread);
        let slot = producer.reserve().expect("the ring is empty");
        slot.commit(parcel(1)).expect("nobody takes the ring over");
        Verdict::Finished { allocations: 0 }.leave()
    })
}

/// A buffer goes to and fro between two threads of a learner.
fn handoff() -> ! {
    let mut handoff = Handoff::<Threads, Payload>::new([0; BLOCKS]);
    let bell = Doorbell::new();
    let waiter = Waiter::new(&bell, ETERNAL);
    let (mut giver, mut taker) = handoff.split(&bell);
    confine(
        move || {
            for count in 1..=LOCKSTEP_GRADIENTS {
                waiter.wait(|| {
                    let mut borrow = taker.loan().expect("nobody closes")?;
                    borrow.with(|buffer| assert_eq!(*buffer, [count; BLOCKS]));
                    borrow.give_back();
                    Some(())
                });
            }
        },
        move || {
            for count in 1..=LOCKSTEP_GRADIENTS {
                waiter.wait(|| {
                    let mut loan = giver.loan().expect("nobody closes")?;
                    loan.with(|buffer| *buffer = [count; BLOCKS]);
                    loan.give();
                    Some(())
                });
            }
        },
    )
}

/// Numbers that one process writes and another may read meanwhile.
#[derive(Default)]
struct Blocks([AtomicU64; BLOCKS]);

impl Blocks {
    fn get(&self, block: usize) -> u64 {
        self.0[block].load(Relaxed)
    }

    fn set(&self, block: usize, value: u64) {
        self.0[block].store(value, Relaxed);
    }

    fn all(&self) -> Payload {
        std::array::from_fn(|block| self.get(block))
    }
}

/// The weights, and the copy that the server makes for a reader who asks.
#[derive(Default)]
struct Model {
    weights: Blocks,
    snapshot: Blocks,
}

/// Adds gradients up, block by block, through the journal.
struct Add<'m> {
    model: &'m Model,
    records: [u64; 2],
}

struct AddKernel<'k> {
    weights: &'k Blocks,
    gradient: &'k Payload,
    records: &'k mut [u64; 2],
}

impl Kernel for AddKernel<'_> {
    fn save(&mut self, block: u64, record: usize) {
        self.records[record] = self.weights.get(block as usize);
    }

    fn restore(&mut self, block: u64, record: usize) {
        self.weights.set(block as usize, self.records[record]);
    }

    fn write(&mut self, block: u64) {
        let block = block as usize;
        self.weights.set(block, self.weights.get(block) + self.gradient[block]);
    }
}

impl Apply<Processes, Payload> for Add<'_> {
    fn admit(&mut self, gradient: &Gradient<'_, Payload>) -> bool {
        gradient.parcel.encoding == Encoding::Dense
    }

    fn update(
        &mut self,
        gradient: &Gradient<'_, Payload>,
        journal: Option<Journal<'_, Processes>>,
    ) {
        let Self { model, records } = self;
        let mut kernel = AddKernel { weights: &model.weights, gradient: gradient.payload, records };
        for mut lane in journal.expect("the policy says so").lanes() {
            lane.run(&mut kernel, BLOCKS as u64);
        }
    }

    fn snapshot(&mut self, _: usize) {
        for block in 0..BLOCKS {
            self.model.snapshot.set(block, self.model.weights.get(block));
        }
    }

    fn evicted(&mut self, _: usize, _: u32, fault: Fault) {
        unreachable!("nobody writes nonsense, yet: {fault:?}");
    }
}

fn new_server<'m>(
    run: Run<'static, Processes, Payload>,
    model: &'m Model,
) -> Server<'static, Processes, Payload, Add<'m>> {
    let policy =
        Policy { synchrony: Synchrony::Immediate, journalled: true, budget: None, quorum: 0 };
    Server::attach(run, policy, Add { model, records: [0; 2] }).expect("the run is new")
}

/// Steps the server until it has applied `gradients` and let every learner go. A stop, which
/// wakes everybody whether or not they sleep, is no part of the hot path.
fn serve(server: &mut Server<'_, Processes, Payload, Add<'_>>, gradients: u64) {
    while server.version() < gradients || server.step() != Step::Blocked {
        if server.step() == Step::Blocked {
            Processes::pause();
        }
    }
}

/// A learner joins and pushes; a journalled server grants and applies.
fn server() -> ! {
    let run = new_run();
    let model = Model::default();
    let mut server = new_server(run, &model);
    let waiter = Waiter::new(run.seats()[0].bell(), ETERNAL);
    confine(
        || {
            serve(&mut server, RING_GRADIENTS);
            assert_eq!(server.version(), RING_GRADIENTS);
            assert_eq!(model.weights.all(), [RING_GRADIENTS; BLOCKS]);
        },
        || {
            let (_, mut producer) = Life::join(run, 0, waiter).expect("the seat is vacant");
            for clock in 1..=RING_GRADIENTS {
                let mut slot = producer.reserve_wait(waiter, || false).expect("nobody refuses");
                slot.write(|payload| *payload = [1; BLOCKS]);
                slot.commit(parcel(clock)).expect("nobody takes the ring over");
            }
        },
    )
}

/// Copies weights and gradients, and computes the constant gradient.
#[derive(Clone, Copy)]
struct Worker<'m> {
    model: &'m Model,
}

impl PullCopy<Payload> for Worker<'_> {
    fn pull(&mut self, weights: &mut Payload) {
        *weights = self.model.weights.all();
    }

    fn collect(&mut self, weights: &mut Payload) {
        *weights = self.model.snapshot.all();
    }
}

impl Compute<Payload, Payload> for Worker<'_> {
    fn compute(&mut self, clock: u64, version: u64, weights: &Payload, g: &mut Payload) -> bool {
        assert_eq!(*weights, [version; BLOCKS], "a consistent pull is one version");
        *g = [1; BLOCKS];
        clock <= LOCKSTEP_GRADIENTS
    }
}

impl PushCopy<Payload, Payload> for Worker<'_> {
    fn push(&mut self, gradient: &mut Payload, _: usize, payload: &mut Payload) -> Contents {
        *payload = *gradient;
        Contents {
            first_table: 0,
            tables: 1,
            encoding: Encoding::Dense,
            length: SHAPE.payload_limit,
        }
    }
}

/// The whole walk of a gradient, from joining to leaving: pull, train and push take turns on one
/// thread, since three of them that spin would want a core each.
fn walk() -> ! {
    let run = new_run();
    let model = Model::default();
    let mut server = new_server(run, &model);
    let bell = run.seats()[0].bell();
    let mut weights_handoff = Handoff::new(Fetched::<Payload>::default());
    let mut gradient_handoff = Handoff::new(Loaded::<Payload>::default());
    let (weights_out, weights_in) = weights_handoff.split(bell);
    let (gradients_out, gradients_in) = gradient_handoff.split(bell);
    confine(
        || {
            serve(&mut server, LOCKSTEP_GRADIENTS);
            assert_eq!(server.version(), LOCKSTEP_GRADIENTS);
            assert_eq!(model.weights.all(), [LOCKSTEP_GRADIENTS; BLOCKS]);
        },
        || {
            let worker = Worker { model: &model };
            let waiter = Waiter::new(bell, ETERNAL);
            let (life, producer) = Life::join(run, 0, waiter).expect("the seat is vacant");
            let policy = PullPolicy { slack: Slack::Bounded(1), consistent: true };
            let mut pull = Pull::new(life, weights_out, worker, policy);
            let zero = Payload::default();
            let mut train = Train::new(life, weights_in, gradients_out, worker, zero, zero);
            let mut push = Push::new(life, gradients_in, producer, worker);
            loop {
                match [pull.step(), train.step(), push.step()] {
                    [Step::Done, Step::Done, Step::Done] => break,
                    steps if steps.contains(&Step::Worked) => {}
                    _ => Processes::pause(),
                }
            }
            assert!(life.leave(push.into_producer()), "nobody evicts");
        },
    )
}
