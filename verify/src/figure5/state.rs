//! The variables of Figure 5: those that start with `g_` in [`Mapping`], a learner's own in
//! [`Learner`], and how a learner dies.

use std::fmt;
use std::mem::forget;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use protocol::platform::{Platform, Tracked, Word};
use protocol::site::Site;

use super::ledger::Ledger;
use super::pthreads::Pthreads;

/// What the machine makes of the variables that the figure reads without a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Every load acquires and every store releases, as plain ones do on x86.
    X86,
    /// Loads and stores order nothing, as plain ones do on ARM, and as C allows anywhere.
    Weak,
}

impl Memory {
    pub(super) fn load(self) -> Ordering {
        match self {
            Self::X86 => Acquire,
            Self::Weak => Relaxed,
        }
    }

    pub(super) fn store(self) -> Ordering {
        match self {
            Self::X86 => Release,
            Self::Weak => Relaxed,
        }
    }
}

/// A gradient, as it can be told from every other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gradient {
    /// Whose it is.
    pub learner: usize,
    /// Which life of that learner computed it, from 1.
    pub life: u32,
    /// Which one of that learner it is, from 1. A new life computes again what was not counted.
    pub number: u32,
}

impl fmt::Display for Gradient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gradient {}.{} of life {}", self.learner, self.number, self.life)
    }
}

/// `g_env[idx]`: one learner's queue.
pub(super) struct Environment<M: Pthreads> {
    /// Guards `cnt`: every line but line 3 reads it here.
    pub(super) grad_mtx: M::Mutex<u32>,
    pub(super) grad_empty: M::Condition,
    /// `cnt` where line 3 reads it; changed together with the one above, under the mutex.
    unlocked_cnt: M::U32,
    /// The server's own.
    pub(super) use_ptr: M::Cell<usize>,
    /// The push thread's own; in the mapping, so that it outlives the learner.
    pub(super) fill_ptr: M::Cell<usize>,
    pub(super) sz: usize,
}

/// The memory that the server and all learners map.
pub struct Mapping<M: Pthreads> {
    pub(super) memory: Memory,
    pub(super) g_env: Vec<Environment<M>>,
    pub(super) g_buf: Vec<Vec<M::Cell<Gradient>>>,
    /// The weights, as the number of updates that they hold.
    pub(super) g_param: M::U64,
    pub(super) g_param_version: M::U64,
    ledger: Arc<Ledger>,
}

impl<M: Pthreads> Mapping<M> {
    /// Empty queues of `sz` slots for `learners`.
    pub fn new(memory: Memory, learners: usize, sz: usize) -> Self {
        let environment = || Environment {
            grad_mtx: M::mutex_init(0),
            grad_empty: M::cond_init(),
            unlocked_cnt: M::U32::new(0),
            use_ptr: M::Cell::new(0),
            fill_ptr: M::Cell::new(0),
            sz,
        };
        let slots = || (0..sz).map(|_| M::Cell::new(Gradient::default())).collect();
        Self {
            memory,
            g_env: (0..learners).map(|_| environment()).collect(),
            g_buf: (0..learners).map(|_| slots()).collect(),
            g_param: M::U64::new(0),
            g_param_version: M::U64::new(0),
            ledger: Arc::default(),
        }
    }

    /// What an onlooker has seen.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// `g_env[idx].cnt` without the lock.
    pub(super) fn unlocked_cnt(&self, idx: usize) -> u32 {
        self.g_env[idx].unlocked_cnt.load(Site::Caller, self.memory.load())
    }

    /// Sets `g_env[idx].cnt`, whose lock the caller holds.
    pub(super) fn set_cnt(&self, idx: usize, grad: &mut M::Guard<'_, u32>, cnt: u32) {
        **grad = cnt;
        self.g_env[idx].unlocked_cnt.store(Site::Caller, cnt, self.memory.store());
    }
}

/// Reads a plain variable.
pub(super) fn read<P: Platform, T: Copy + Send>(variable: &P::Cell<T>) -> T {
    variable.with(Site::Caller, |value| {
        // SAFETY: whether this races is what the checker is asked; it stops the model before the
        // access if it does.
        unsafe { *value }
    })
}

/// Writes a plain variable.
pub(super) fn write<P: Platform, T: Copy + Send>(variable: &P::Cell<T>, new: T) {
    variable.with_mut(Site::Caller, |value| {
        // SAFETY: as in `read`.
        unsafe { *value = new }
    });
}

/// What `pushMtx` guards.
pub(super) struct PushBuffer {
    pub(super) push_cnt: u32,
    pub(super) grad_buf_gpu: Gradient,
}

/// What `pullMtx` guards.
pub(super) struct PullBuffer {
    pub(super) pull_cnt: u32,
    pub(super) recv_new_weights_flag: bool,
    pub(super) weights_buf_gpu: u64,
    /// The pull thread's own; it touches it under `pullMtx` only.
    pub(super) p_version: u64,
}

/// What the three threads of one life of a learner share.
pub struct Learner<M: Pthreads> {
    pub(super) tid: usize,
    pub(super) life: u32,
    pub(super) push_mtx: M::Mutex<PushBuffer>,
    pub(super) push_empty: M::Condition,
    pub(super) push_fill: M::Condition,
    pub(super) pull_mtx: M::Mutex<PullBuffer>,
    pub(super) pull_empty: M::Condition,
    pub(super) pull_fill: M::Condition,
}

impl<M: Pthreads> Learner<M> {
    /// A life of learner `tid` that has done nothing yet.
    pub fn new(tid: usize, life: u32) -> Self {
        let push = PushBuffer { push_cnt: 0, grad_buf_gpu: Gradient::default() };
        let pull = PullBuffer {
            pull_cnt: 0,
            recv_new_weights_flag: false,
            weights_buf_gpu: 0,
            p_version: 0,
        };
        Self {
            tid,
            life,
            push_mtx: M::mutex_init(push),
            push_empty: M::cond_init(),
            push_fill: M::cond_init(),
            pull_mtx: M::mutex_init(pull),
            pull_empty: M::cond_init(),
            pull_fill: M::cond_init(),
        }
    }
}

/// The learner's process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Died;

/// Where the push thread, and with it the learner's process, dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death(Option<u32>);

impl Death {
    /// It does not.
    pub const NEVER: Self = Self(None);

    /// Lines before which the push thread holds `gradMtx`.
    pub const HOLDING_GRAD_MTX: [u32; 4] = [208, 212, 218, 219];

    /// Lines before which it holds nothing that another process could miss.
    pub const HOLDING_NOTHING: [u32; 6] = [203, 207, 213, 215, 217, 220];

    /// Just before the push thread executes `line`.
    pub const fn before(line: u32) -> Self {
        Self(Some(line))
    }

    /// How many gradients were counted in the round in which it dies: was line 218 executed?
    pub fn counted(self) -> u32 {
        u32::from(self.0.is_none_or(|line| line > 218))
    }

    /// Passes `line`, or dies there. Then nobody ever unlocks what is `held`, a mutex that other
    /// processes share; the mutexes within the process die with it.
    pub(super) fn pass<G>(self, line: u32, held: G) -> Result<G, Died> {
        if self.0 == Some(line) {
            forget(held);
            return Err(Died);
        }
        Ok(held)
    }
}
