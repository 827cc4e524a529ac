//! Weight versions: what a reader claims was in what it copied.

use std::sync::atomic::Ordering::Relaxed;

use protocol::bell::{Doorbell, Patience, Waiter};
use protocol::platform::{Tracked, Word};
use protocol::site::Site;
use protocol::weights::{Publisher, Reader, SnapshotWords, Stamp};

use super::both;
use crate::case::{Bound, Case, Recorder, Sampling};
use crate::ground::Leaked;
use crate::model::Model;

pub(super) fn cases<M: Model>() -> Vec<Case> {
    vec![
        Case {
            name: "a_racy_copy_holds_at_least_what_it_claims",
            properties: &["P5"],
            outcomes: &[
                "claims 0 holds 0",
                "claims 0 holds 1",
                "claims 0 holds 2",
                "claims 1 holds 1",
                "claims 1 holds 2",
                "claims 2 holds 2",
            ],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: racy::<M>,
        },
        Case {
            name: "a_consistent_copy_holds_exactly_what_it_claims",
            properties: &["P5"],
            outcomes: &["torn", "version 0", "version 1", "version 2"],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: still::<M>,
        },
        Case {
            name: "a_reader_that_asks_gets_one_version_under_constant_updates",
            properties: &["P1", "P5"],
            outcomes: &["versions [1, 2]", "versions [2, 2]"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: ask::<M>,
        },
    ]
}

/// Two words that every update increments.
struct Memory<M: Model> {
    stamp: Leaked<Stamp<M>>,
    weights: Leaked<[M::U32; 2]>,
    words: Leaked<SnapshotWords<M>>,
    snapshot: Leaked<M::Cell<[u32; 2]>>,
    server_bell: Leaked<Doorbell<M>>,
    bell: Leaked<Doorbell<M>>,
}

impl<M: Model> Memory<M> {
    fn new() -> Self {
        Self {
            stamp: Leaked::new(Box::new(Stamp::new())),
            weights: Leaked::new(Box::new([M::U32::new(0), M::U32::new(0)])),
            words: Leaked::new(Box::new(SnapshotWords::new())),
            snapshot: Leaked::new(Box::new(M::Cell::new([0; 2]))),
            server_bell: Leaked::new(Box::new(Doorbell::new())),
            bell: Leaked::new(Box::new(Doorbell::new())),
        }
    }

    fn reader(&self) -> Reader<'static, M> {
        Reader::join(self.stamp.get(), self.words.get(), self.server_bell.get())
    }
}

fn copy<W: Word<u32>>(weights: &[W; 2]) -> [u32; 2] {
    // In the opposite order of the update, so that a torn copy can be seen.
    let second = weights[1].load(Site::Caller, Relaxed);
    [weights[0].load(Site::Caller, Relaxed), second]
}

fn update<M: Model>(publisher: &mut Publisher<'_, M>, weights: &[M::U32; 2]) {
    let next = publisher.version() + 1;
    publisher.begin();
    for word in weights {
        word.store(Site::Caller, next as u32, Relaxed);
    }
    publisher.finish(next);
}

fn racy<M: Model>(recorder: &Recorder) {
    let memory = Memory::<M>::new();
    let (weights, reader) = (memory.weights.get(), memory.reader());
    let mut publisher = Publisher::attach(memory.stamp.get());
    let pull = move |reader: &Reader<'static, M>| {
        let mut copied = 0;
        let version = reader.read_racy(|| copied = weights[0].load(Site::Caller, Relaxed));
        (version, u64::from(copied))
    };
    let ((), (reader, (version, copied))) = both::<M, _, _>(
        recorder,
        move || (0..2).for_each(|_| update(&mut publisher, weights)),
        move || {
            let pulled = pull(&reader);
            (reader, pulled)
        },
    );
    assert!(copied >= version, "claims version {version} but copied {copied} (P5)");
    assert_eq!(pull(&reader), (2, 2), "after quiescence the next pull gets the last weights (P5)");
    recorder.outcome(format!("claims {version} holds {copied}"));
}

fn still<M: Model>(recorder: &Recorder) {
    let memory = Memory::<M>::new();
    let (weights, reader) = (memory.weights.get(), memory.reader());
    let mut publisher = Publisher::attach(memory.stamp.get());
    let ((), outcome) = both::<M, _, _>(
        recorder,
        move || (0..2).for_each(|_| update(&mut publisher, weights)),
        move || {
            let mut copied = [0; 2];
            let version = reader.read_still(|| copied = copy(weights));
            version.map(|version| (version, copied))
        },
    );
    recorder.outcome(match outcome {
        Err(_) => "torn".to_owned(),
        Ok((version, copied)) => {
            assert_eq!(copied, [version as u32; 2], "claims version {version} (P5)");
            format!("version {version}")
        }
    });
}

fn ask<M: Model>(recorder: &Recorder) {
    let memory = Memory::<M>::new();
    let (weights, words, snapshot) =
        (memory.weights.get(), memory.words.get(), memory.snapshot.get());
    let (server_bell, bell) = (memory.server_bell.get(), memory.bell.get());
    let mut reader = memory.reader();
    let mut publisher = Publisher::attach(memory.stamp.get());
    let ((), versions) = both::<M, _, _>(
        recorder,
        move || {
            let waiter = Waiter::new(server_bell, Patience::MODEL);
            let mut answered = 0;
            let mut questions = 0;
            while questions < 2 {
                // Updates go on while there is room in the model, then the server waits.
                if publisher.version() < 2 {
                    update(&mut publisher, weights);
                }
                let mut answer = || {
                    publisher.answer(&mut answered, words, bell, || {
                        let copied = copy(weights);
                        // SAFETY: the protocol gives the server exclusive access here; that it
                        // does is what the model checks.
                        snapshot.with_mut(Site::Caller, |cell| unsafe { *cell = copied });
                    })
                };
                if publisher.version() < 2 {
                    questions += u32::from(answer());
                } else {
                    waiter.wait(|| answer().then_some(()));
                    questions += 1;
                }
            }
        },
        move || {
            let waiter = Waiter::new(bell, Patience::MODEL);
            [(); 2].map(|()| {
                reader.ask();
                let mut copied = [0; 2];
                let version = waiter.wait(|| {
                    reader.collect(|| {
                        // SAFETY: as above, for the reader.
                        copied = snapshot.with(Site::Caller, |cell| unsafe { *cell });
                    })
                });
                assert_eq!(copied, [version as u32; 2], "claims version {version} (P5)");
                version
            })
        },
    );
    assert!(versions[0] <= versions[1]);
    recorder.outcome(format!("versions {versions:?}"));
}
