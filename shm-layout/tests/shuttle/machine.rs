//! A machine with weak memory, scheduled by shuttle.
//!
//! Shuttle's own atomics are sequentially consistent, so a missing fence would never show. Here
//! every location keeps all that was ever stored in it. Each thread has a *view*: how much of each
//! location it must have seen. A load returns, at random, any store that is not older than the
//! view.
//!
//! The C++ memory model says what release, acquire and sequential consistency carry along with a
//! store, and what a fence adds to a view (Kang, Hur, Lahav, Vafeiadis, Dreyer: "A Promising
//! Semantics for Relaxed-Memory Concurrency", POPL 2017, without promises). No store is seen before
//! its turn: a bug that needs a load moved behind a later store is caught as a race on a [`Cell`].

use std::sync::{Arc, Mutex, PoisonError};

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use crate::lane;

/// For each location, the number of the newest store known.
#[derive(Clone, Default)]
struct View(Vec<usize>);

impl View {
    fn of(&self, place: usize) -> usize {
        self.0.get(place).copied().unwrap_or(0)
    }

    fn raise(&mut self, place: usize, to: usize) {
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        self.0[place] = self.0[place].max(to);
    }

    fn join(&mut self, other: &View) {
        for (place, &to) in other.0.iter().enumerate() {
            self.raise(place, to);
        }
    }
}

/// A store: its value, and the view that it carries to a thread that acquires it.
struct Store {
    value: u64,
    carries: View,
}

#[derive(Clone, Default)]
struct Mind {
    seen: View,
    /// Views carried by all loaded stores: seen after the next acquire fence.
    loaded: View,
    /// View at the last release fence: carried by relaxed stores.
    released: View,
}

#[derive(Default)]
struct State {
    places: Vec<Vec<Store>>,
    minds: Vec<Mind>,
    /// View of all sequentially consistent fences so far.
    fenced: View,
}

impl State {
    fn mind(&mut self, thread: usize) -> &mut Mind {
        if self.minds.len() <= thread {
            self.minds.resize(thread + 1, Mind::default());
        }
        &mut self.minds[thread]
    }

    fn newest(&self, place: usize) -> usize {
        self.places[place].len() - 1
    }

    fn push(&mut self, value: u64, carries: View, thread: usize, place: usize) {
        self.places[place].push(Store { value, carries });
        let newest = self.newest(place);
        self.mind(thread).seen.raise(place, newest);
    }

    fn take(&mut self, thread: usize, place: usize, number: usize, order: Ordering) -> u64 {
        let Store { value, carries } = &self.places[place][number];
        let (value, carries) = (*value, carries.clone());
        let mind = self.mind(thread);
        mind.seen.raise(place, number);
        mind.loaded.join(&carries);
        if matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst) {
            mind.seen.join(&carries);
        }
        value
    }

    fn carried(&mut self, thread: usize, order: Ordering) -> View {
        let mind = self.mind(thread);
        let releases = matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst);
        if releases { mind.seen.clone() } else { mind.released.clone() }
    }
}

fn me() -> usize {
    thread::current().id().into()
}

/// Memory that threads share.
#[derive(Clone)]
pub(crate) struct Weak {
    /// Never contended: no other thread runs while it is held.
    state: Arc<Mutex<State>>,
    /// Accessed before each access: shuttle may let another thread run there.
    turn: Arc<AtomicBool>,
}

/// Word of this machine ([`lane::Machine::Word`]).
#[derive(Clone)]
pub(crate) struct Word {
    machine: Weak,
    place: usize,
}

/// Cell of this machine ([`lane::Machine::Cell`]).
pub(crate) struct Cell {
    word: Word,
    /// Reads by each thread, as locations of their own.
    reads: Mutex<Vec<(usize, usize)>>,
}

/// A thread that can be joined.
pub(crate) struct Thread {
    machine: Weak,
    handle: thread::JoinHandle<()>,
}

impl Weak {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), turn: Arc::new(AtomicBool::new(false)) }
    }

    pub(crate) fn word(&self, value: u64) -> Word {
        let mut state = self.state.lock().unwrap();
        state.places.push(vec![Store { value, carries: View::default() }]);
        Word { machine: self.clone(), place: state.places.len() - 1 }
    }

    fn with<T>(&self, access: impl FnOnce(&mut State, usize) -> T) -> T {
        // A thread that found a race drops its values while it unwinds, and must not yield then.
        if !std::thread::panicking() {
            self.turn.load(Ordering::Relaxed);
        }
        let me = me();
        access(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), me)
    }

    pub(crate) fn spawn(&self, work: impl FnOnce() + Send + 'static) -> Thread {
        let machine = self.clone();
        let parent = self.with(|state, me| state.mind(me).seen.clone());
        let handle = thread::spawn(move || {
            machine.with(|state, me| state.mind(me).seen.join(&parent));
            work();
        });
        Thread { machine: self.clone(), handle }
    }
}

impl lane::Machine for Weak {
    type Word = Word;
    type Cell = Cell;

    fn word(&self, value: u64) -> Word {
        self.word(value)
    }

    fn cell(&self, value: u64) -> Cell {
        Cell { word: self.word(value), reads: Mutex::default() }
    }

    fn load(word: &Word, order: Ordering) -> u64 {
        word.load(order)
    }

    fn store(word: &Word, value: u64, order: Ordering) {
        word.store(value, order);
    }

    fn fence(&self, order: Ordering) {
        self.with(|state, me| {
            let fenced = state.fenced.clone();
            let mind = state.mind(me);
            if order != Ordering::Release {
                mind.seen.join(&mind.loaded.clone());
            }
            if order == Ordering::SeqCst {
                mind.seen.join(&fenced);
            }
            if order != Ordering::Acquire {
                mind.released = mind.seen.clone();
            }
            if order == Ordering::SeqCst {
                state.fenced = state.mind(me).seen.clone();
            }
        });
    }

    fn read(cell: &Cell) -> u64 {
        cell.read()
    }

    fn write(cell: &Cell, value: u64) {
        cell.write(value);
    }
}

impl Thread {
    pub(crate) fn join(self) {
        let child: usize = self.handle.thread().id().into();
        self.handle.join().unwrap();
        self.machine.with(|state, me| {
            let seen = state.mind(child).seen.clone();
            state.mind(me).seen.join(&seen);
        });
    }
}

impl Word {
    /// Returns a store that this thread has not seen replaced, half of the time the newest.
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.machine.with(|state, me| {
            let (oldest, newest) = (state.mind(me).seen.of(self.place), state.newest(self.place));
            let number = match newest - oldest {
                0 => newest,
                _ if thread_rng().gen_bool(0.5) => newest,
                _ => thread_rng().gen_range(oldest..=newest),
            };
            state.take(me, self.place, number, order)
        })
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.machine.with(|state, me| {
            let carries = state.carried(me, order);
            state.push(value, carries, me, self.place);
        });
    }

    /// Replaces the newest value in one step, if `change` returns a new one. Returns the old value.
    pub(crate) fn update(
        &self,
        order: Ordering,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        self.machine.with(|state, me| {
            let newest = state.newest(self.place);
            let before = state.take(me, self.place, newest, order);
            let Some(after) = change(before) else { return Err(before) };
            let mut carries = state.carried(me, order);
            // A release sequence: a thread that acquires this also gets the view of the replaced
            // store.
            carries.join(&state.places[self.place][newest].carries.clone());
            state.push(after, carries, me, self.place);
            Ok(before)
        })
    }
}

impl Cell {
    fn read(&self) -> u64 {
        let Word { machine, place } = &self.word;
        machine.with(|state, me| {
            let newest = state.newest(*place);
            assert!(state.mind(me).seen.of(*place) == newest, "race: read beside a write");
            let count = self.reads_of(me, state);
            state.push(0, View::default(), me, count);
            state.places[*place][newest].value
        })
    }

    fn write(&self, value: u64) {
        let Word { machine, place } = &self.word;
        machine.with(|state, me| {
            let seen = state.mind(me).seen.clone();
            assert!(seen.of(*place) == state.newest(*place), "race: write beside a write");
            for (_, count) in self.reads.lock().unwrap().iter() {
                assert!(seen.of(*count) == state.newest(*count), "race: write beside a read");
            }
            state.push(value, View::default(), me, *place);
        });
    }

    fn reads_of(&self, thread: usize, state: &mut State) -> usize {
        let mut reads = self.reads.lock().unwrap();
        if let Some((_, place)) = reads.iter().find(|(of, _)| *of == thread) {
            return *place;
        }
        state.places.push(vec![Store { value: 0, carries: View::default() }]);
        let place = state.places.len() - 1;
        reads.push((thread, place));
        place
    }
}
