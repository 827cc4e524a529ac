//! The server process: the verified server, with a ledger for a model.
//!
//! It attaches, whether it is the first or takes over from one that was killed at any instruction,
//! and runs until the budget is spent or the run is drained. The ledger folds each gradient into
//! the weights through the journal, and writes it into the log at the place of its version.
//!
//! Each step of the fold dawdles, so that updates take most of the server's time and most random
//! kills hit it in the middle of one (P9).

use std::sync::atomic::Ordering::Relaxed;

use protocol::bell::{Patience, Waiter};
use protocol::error::Fault;
use protocol::journal::{Journal, Kernel};
use protocol::machine::Machine;
use protocol::server::{Apply, Gradient, Policy, Server};
use ps::platform::Processes;

use super::arithmetic::{BLOCK_WORDS, BLOCKS, Vector, checksum, fold};
use super::memory::{Area, Entry, Memory, SoakRun, load};
use super::{Exit, Failure, Setup, dawdle};

/// Pauses after each word that is written: some ten microseconds an update.
const PAUSES: u32 = 160;

/// The life of a server process.
pub(crate) fn serve(setup: &Setup, memory: &Memory) -> Result<Exit, Failure> {
    let run = memory.run()?;
    let policy = Policy {
        synchrony: setup.sync.synchrony(),
        journalled: true,
        budget: (!setup.drain).then_some(setup.gradients),
        quorum: setup.quorum(),
    };
    let ledger = Ledger { run, area: memory.area() };
    let mut server = Server::attach(run, policy, ledger)
        .map_err(|error| Failure::Protocol { who: "server".into(), cause: error.to_string() })?;
    server.run(Waiter::new(run.server_bell(), Patience::PROCESS));
    Ok(Exit::Done)
}

struct Ledger<'m> {
    run: SoakRun<'m>,
    area: Area<'m>,
}

impl Apply<Processes, Vector> for Ledger<'_> {
    fn admit(&mut self, _: &Gradient<'_, Vector>) -> bool {
        self.run.stamp().version() < self.area.log_limit()
    }

    fn update(&mut self, gradient: &Gradient<'_, Vector>, journal: Option<Journal<'_, Processes>>) {
        let journal = journal.expect("a soak's server always keeps its journal");
        let (_, intent) = journal.found();
        let payload = *gradient.payload;
        let entry = Entry {
            learner: gradient.header.learner,
            epoch: gradient.header.epoch,
            ticket: gradient.header.ticket,
            clock: gradient.parcel.clock,
            base_version: gradient.parcel.base_version,
            checksum: checksum(&payload),
            share: gradient.share,
        };
        self.area.write_entry(intent.version, &entry);
        let mut kernel = Fold { area: self.area, payload, share: gradient.share };
        journal.lanes().for_each(|mut lane| lane.run(&mut kernel, BLOCKS as u64));
    }

    fn snapshot(&mut self, learner: usize) {
        let weights = load(self.area.weights);
        for (word, weight) in self.area.snapshot(learner).iter().zip(weights) {
            word.store(weight, Relaxed);
            dawdle(PAUSES);
        }
    }

    fn evicted(&mut self, learner: usize, epoch: u32, fault: Fault) {
        self.area.evictions.fetch_add(1, Relaxed);
        eprintln!("escapement: server: evicted life {epoch} of learner {learner}: {fault}");
    }
}

/// The fold as the journal drives it, word by word within a block.
struct Fold<'m> {
    area: Area<'m>,
    payload: Vector,
    share: u32,
}

impl Kernel for Fold<'_> {
    fn save(&mut self, block: u64, record: usize) {
        for word in 0..BLOCK_WORDS {
            let weight = self.area.weights[block as usize * BLOCK_WORDS + word].load(Relaxed);
            self.area.undo[record * BLOCK_WORDS + word].store(weight, Relaxed);
        }
    }

    fn restore(&mut self, block: u64, record: usize) {
        for word in 0..BLOCK_WORDS {
            let weight = self.area.undo[record * BLOCK_WORDS + word].load(Relaxed);
            self.area.weights[block as usize * BLOCK_WORDS + word].store(weight, Relaxed);
        }
    }

    fn write(&mut self, block: u64) {
        let start = block as usize * BLOCK_WORDS;
        for index in start..start + BLOCK_WORDS {
            let weight = &self.area.weights[index];
            let new = fold(weight.load(Relaxed), self.payload[index], self.share, index);
            weight.store(new, Relaxed);
            dawdle(PAUSES);
        }
    }
}
