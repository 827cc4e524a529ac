//! The shut door: a seccomp filter, an allocator that counts, and a verdict on the way out.
//!
//! Behind the door only `write` and `exit_group` pass, which is what a verdict needs. Any other
//! call is not made: the kernel raises SIGSYS instead, and the handler reports the number and
//! leaves.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::spin_loop;
use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

/// What became of a confined process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It did everything, with so many allocations behind the door.
    Finished {
        /// Calls of the allocator, of any kind.
        allocations: u64,
    },
    /// It tried to call the kernel.
    Called {
        /// The number of the system call.
        number: i64,
    },
}

impl Verdict {
    fn encode(self) -> [u8; 9] {
        let (tag, value) = match self {
            Self::Finished { allocations } => (b'F', allocations),
            Self::Called { number } => (b'C', number.cast_unsigned()),
        };
        let mut bytes = [tag; 9];
        bytes[1..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, value) = bytes.split_first()?;
        let value = u64::from_le_bytes(value.try_into().ok()?);
        match tag {
            b'F' => Some(Self::Finished { allocations: value }),
            b'C' => Some(Self::Called { number: value.cast_signed() }),
            _ => None,
        }
    }

    /// Says so and ends the process, by the two system calls that are left. If two threads have
    /// something to say, the first is heard.
    pub(super) fn leave(self) -> ! {
        static LEAVING: AtomicBool = AtomicBool::new(false);
        if LEAVING.swap(true, Relaxed) {
            spin_for_ever();
        }
        let bytes = self.encode();
        // SAFETY: the buffer is valid for its length. Who reads the other end notices a short
        // write; there is nobody else to tell.
        unsafe {
            libc::write(libc::STDOUT_FILENO, bytes.as_ptr().cast(), bytes.len());
            libc::_exit(0)
        }
    }
}

/// The system's allocator, counted.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: by the caller.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: by the caller.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// Whom the door shuts in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Every thread of the process.
    Everybody,
    /// The thread that shuts it.
    ThisThread,
}

/// Shuts the door for good.
pub(super) fn shut_the_door(who: Who) {
    install_handler().expect("a signal can be handled");
    install_filter(who).expect("the kernel has seccomp filters");
}

/// Runs `there` on a thread of its own and `here` on this one, both behind the door, and leaves
/// with the verdict.
pub(super) fn confine(there: impl FnOnce() + Send, here: impl FnOnce()) -> ! {
    let [ready, shut, done] = [const { AtomicBool::new(false) }; 3];
    thread::scope(|scope| {
        scope.spawn(|| {
            ready.store(true, Release);
            spin_until(&shut);
            there();
            done.store(true, Release);
            // Even the end of a thread calls the kernel.
            spin_for_ever();
        });
        spin_until(&ready);
        shut_the_door(Who::Everybody);
        let before = ALLOCATIONS.load(Relaxed);
        shut.store(true, Release);
        here();
        spin_until(&done);
        Verdict::Finished { allocations: ALLOCATIONS.load(Relaxed) - before }.leave()
    })
}

fn spin_until(flag: &AtomicBool) {
    while !flag.load(Acquire) {
        spin_loop();
    }
}

fn spin_for_ever() -> ! {
    loop {
        spin_loop();
    }
}

extern "C" fn report_call(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid description, which for SIGSYS names the call.
    let number = unsafe { (*info).si_syscall() };
    Verdict::Called { number: number.into() }.leave()
}

fn install_handler() -> io::Result<()> {
    type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    // SAFETY: all zeros is an action without flags or mask.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = report_call as Handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and makes only calls that
    // are safe in a handler.
    check(unsafe { libc::sigaction(libc::SIGSYS, &action, null_mut()) })
}

fn install_filter(who: Who) -> io::Result<()> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let instruction = |code: u32, jt, k| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let mut program = [
        // The number of the call is the first field of what a filter sees.
        instruction(LOAD, 0, 0),
        instruction(JUMP_IF_EQUAL, 2, libc::SYS_write as u32),
        instruction(JUMP_IF_EQUAL, 1, libc::SYS_exit_group as u32),
        instruction(RETURN, 0, libc::SECCOMP_RET_TRAP),
        instruction(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let flags = match who {
        Who::Everybody => libc::SECCOMP_FILTER_FLAG_TSYNC,
        Who::ThisThread => 0,
    };
    // SAFETY: the program is valid while the kernel copies it. Threads that lose their system
    // calls can do no harm to memory.
    let outcome = unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    check(outcome as libc::c_int)
}

fn check(outcome: libc::c_int) -> io::Result<()> {
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
