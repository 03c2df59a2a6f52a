//! The hot loop of onbeat.
//!
//! A control loop releases its work on a fixed grid `r_k = r_0 + k·T` of `CLOCK_MONOTONIC`. This
//! crate holds everything that runs between two releases, and nothing else: the grid and its
//! counters ([`cycle`]), the wait for the next release ([`wait`]), the loop that is triggered by
//! edges instead ([`edge_loop`]), the record of one cycle ([`sample`]), EtherCAT frames
//! ([`frame`]), and the wait-free ring that carries samples to a cold thread ([`ring`]). [`latest`]
//! shares the newest value between a loop and other threads or processes without waiting,
//! [`broadcast`] the last records. [`delayed_lock`] is a lock that ordinary threads take only when they
//! can leave it before the next release.
//!
//! # System calls of the loop
//!
//! | call | where | when |
//! |---|---|---|
//! | `clock_gettime(CLOCK_MONOTONIC)` | [`sys::Monotonic::now`] | three times a cycle, answered by the vDSO without entering the kernel; a kernel without a vDSO clock source enters it |
//! | `clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)` | [`sys::Monotonic`]'s `sleep_until` | once a cycle |
//! | `clock_nanosleep(CLOCK_MONOTONIC, 0)` | [`sys::Monotonic`]'s `sleep_for` | once a cycle instead, only with [`Wait::Relative`] |
//! | `write`, `ioctl(GPIO_V2_LINE_SET_VALUES)` | [`sys::Port`] | once a cycle, by a task that has an output |
//! | `ppoll`, `read` | [`sys::Port`] | once a cycle, by a loop that is triggered by edges of an input ([`edge_loop`]) |
//!
//! | `sendto`, `recvmsg`, `clock_gettime(CLOCK_REALTIME)` | [`sys::datagram`] | by a task that exchanges UDP packets, whose stamps the kernel takes from the wall clock |
//!
//! No others. All but the first three rows apply only to tasks and loops with an output or input, on
//! descriptors prepared in advance. `crates/onbeat/tests/it/hot_path_is_quiet.rs` runs the loop under
//! a seccomp filter that enforces this table, checks that a `println!` planted in a cycle fails,
//! and counts the loop's allocations: none.
//!
//! # A loop on a scripted clock
//!
//! ```
//! use core::sync::atomic::AtomicBool;
//! use onbeat_rt::ring::Ring;
//! use onbeat_rt::{Cycle, Flow, Instant, MockClock, OnOverrun, Plan, Sample, Slot, Wait, split};
//!
//! let plan = Plan {
//!     period_ns: 1_000_000,
//!     first_release: Instant::from_ns(1_000_000),
//!     deadline_ns: 1_000_000,
//!     releases: 3,
//!     wait: Wait::Sleep,
//!     on_overrun: OnOverrun::SkipKeepPhase,
//! };
//! let mut slots: [Slot<Sample>; 8] = core::array::from_fn(|_| Slot::empty());
//! let mut ring = Ring::over(&mut slots).unwrap();
//! let (mut hot, mut cold) = split(&mut ring);
//!
//! // On a robot, the clock is `sys::Monotonic`.
//! let clock = MockClock::starting_at(Instant::from_ns(0), |_| 20_000);
//! let mut task = |_: &Cycle| Flow::Continue;
//! let outcome = onbeat_rt::cycle::run(&clock, &plan, &mut task, &mut hot, &AtomicBool::new(false));
//!
//! assert_eq!((outcome.slots, outcome.cycles, outcome.skipped), (3, 3, 0));
//! assert!(cold.pop().is_some());
//! ```
//!
//! # Absent on purpose
//!
//! No heap (`no_std` without `alloc`, enforced by the compiler), no logging, no strings, no `dyn`,
//! no floating-point formatting, no relative sleep (it drifts; the one exception,
//! [`Wait::Relative`], reproduces measurements that were made with one), no wall clock (it jumps),
//! no time stamp counter with its own calibration (wrong by hundreds of ppm). Set-up that needs
//! privileges (priority, affinity, locked memory) is in `onbeat::thread`.
//!
//! Start reading at [`cycle`].
#![deny(missing_docs)]
#![cfg_attr(not(loom), no_std)]

pub mod broadcast;
pub mod cycle;
pub mod delayed_lock;
pub mod edge_loop;
pub mod frame;
pub mod latest;
pub mod ring;
pub mod sample;
pub mod sys;
pub mod time;
pub mod wait;

pub use cycle::{Cycle, End, Flow, OnOverrun, Outcome, Plan, PlanError, Task};
pub use edge_loop::{Arrival, Edge, EdgeLoop, EdgePlan, EdgeSource};
pub use ring::{Consumer, Producer, Slot, split};
pub use sample::{Flags, Sample};
pub use time::{Clock, Instant, MockClock};
pub use wait::{Wait, Waiter};

// The code of this crate's README compiles and runs: it is a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
