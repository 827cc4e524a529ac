//! The native ring: a run for each direction, in which the receiver is the server.
//!
//! Parked, it sleeps in slices, as it does among processes that may be killed; against a raw futex
//! that never looks up, setting the timer is what the difference consists of. Spinning, it moves a
//! header beside the payload: a cache line more.

use std::path::Path;

use protocol::bell::{Patience, Waiter};
use protocol::ring::{Consumer, Parcel, Producer};
use protocol::run::Shape;
use ps::mapping::Mapping;
use ps::platform::Processes;

use super::{Link, Outcome, Payload, Side, Wait};

/// One end: it produces into one run and serves the other.
pub(super) struct Ours {
    outgoing: Producer<'static, Processes, Payload>,
    room: Waiter<'static, Processes>,
    incoming: Consumer<'static, Processes, Payload>,
    arrivals: Waiter<'static, Processes>,
    clock: u64,
}

impl Ours {
    const EPOCH: u32 = 1;
    const SHAPE: Shape = Shape {
        learners: 1,
        tables: 1,
        capacity: 8,
        lanes: 1,
        payload_limit: size_of::<Payload>() as u64,
    };

    pub(super) fn connect(side: Side, wait: Wait, directory: &Path) -> Outcome<Self> {
        let patience = match wait {
            Wait::Spinning => Patience { spins: u32::MAX, ..Patience::PROCESS },
            Wait::Parked => Patience { spins: 0, ..Patience::PROCESS },
        };
        let open = |direction: &str| -> Outcome<_> {
            let path = directory.join(format!("ours-{}-{direction}", wait as u8));
            let mapping = match side {
                Side::Serves => Mapping::create::<Processes, Payload>(&path, Self::SHAPE)?,
                Side::Returns => Mapping::open::<Processes, Payload>(&path, Self::SHAPE)?,
            };
            let mapping: &'static Mapping = Box::leak(Box::new(mapping));
            // SAFETY: the serving side makes the run before it starts the returning side, and both
            // are this program.
            let run = unsafe {
                match side {
                    Side::Serves => mapping.initialize(Payload::default)?,
                    Side::Returns => mapping.run()?,
                }
            };
            Ok(run)
        };
        let (out, back) = side.order([open("there")?, open("back")?]);
        Ok(Self {
            outgoing: Producer::join(out.ring(0), 0, Self::EPOCH),
            room: Waiter::new(out.seats()[0].bell(), patience),
            incoming: Consumer::attach(back.ring(0), 0, 1, Self::SHAPE.payload_limit),
            arrivals: Waiter::new(back.server_bell(), patience),
            clock: 0,
        })
    }
}

impl Link for Ours {
    fn send(&mut self, payload: &Payload) {
        self.clock += 1;
        let mut slot = self.outgoing.reserve_wait(self.room, || false).expect("nobody refuses");
        slot.write(|place| *place = *payload);
        let parcel = Parcel::dense(self.clock, 0, 1, Self::SHAPE.payload_limit);
        slot.commit(parcel).expect("nobody takes the ring over");
    }

    fn receive(&mut self) -> Payload {
        self.arrivals.wait(|| {
            let entry = self.incoming.poll(Self::EPOCH).expect("the peer writes no nonsense")?;
            let payload = entry.read(|place| *place);
            entry.release();
            Some(payload)
        })
    }
}
