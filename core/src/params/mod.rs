//! Parameters of a policy: the newest version of a named set of arrays, from one publisher to any
//! number of readers.

mod arrays;
mod options;
mod stats;
mod view;
mod wait;

use std::sync::Arc;

use backcast_layout::protocol::{MAX_VERSION, Unpublishable, VersionPlace};
use backcast_layout::{
    Base, Exist, FirstVersion, ParamsArray, ParamsPins, ParamsPublisher, ParamsShape, ParamsStore,
};

pub use self::arrays::ParamsArrays;
pub use self::options::ParamsOptions;
pub use self::stats::ParamsStats;
pub use self::view::ParamsView;
use crate::error::ParamsError;
use crate::wait::Interrupt;

/// Attempts to copy a version before a pull gives up.
const ATTEMPTS: u32 = 10_000;

/// The newest version of a named set of arrays in shared memory: weights, from a learner to its
/// actors.
///
/// Any number of processes can pull. As many handles can have views as there are reader slots. One
/// handle at a time publishes. Publishing never waits for a reader, and a reader never waits for
/// the publisher. A publisher that is killed leaves the last whole version, and the next handle
/// that publishes continues.
///
/// ```
/// use backcast_core::{Base, DType, Params, ParamsArray, ParamsOptions};
///
/// # let dir = tempfile::tempdir()?;
/// let base = Base::at(dir.path());
/// let like = vec![
///     ParamsArray::new("body/weight", DType::F32, &[2, 3])?,
///     ParamsArray::new("body/bias", DType::F32, &[2])?,
/// ];
/// let mut learner = Params::create("policy", like, ParamsOptions::default().base(base.clone()))?;
/// let mut actor = Params::attach_in(&base, "policy")?;
///
/// let mut weights = learner.arrays();
/// weights.array_mut::<f32>("body/bias")?.fill(0.5);
/// assert_eq!(learner.publish(&weights, None)?, 1);
///
/// let mut mine = actor.arrays();
/// assert_eq!(actor.pull(&mut mine)?, Some(1));
/// assert_eq!(mine.array::<f32>("body/bias")?, [0.5, 0.5]);
/// assert_eq!(actor.pull(&mut mine)?, None); // nothing new: one load and a compare
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Params {
    // Both are dropped before `store`: their claims hold the parameters too, and `store` removes
    // these if it is their last holder.
    publisher: Option<ParamsPublisher>,
    pins: Option<Arc<ParamsPins>>,
    store: Arc<ParamsStore>,
    /// Newest version that this handle has pulled, or copied by `read_bytes`.
    pulled: u64,
    interrupt: Interrupt,
}

impl Params {
    /// Creates parameters of these arrays, with room for `versions_kept + spare_slots` versions and
    /// none published yet. With [`Exist::Attach`](crate::Exist::Attach), attaches to existing
    /// parameters of equal arrays and options.
    pub fn create(
        name: &str,
        arrays: Vec<ParamsArray>,
        options: ParamsOptions,
    ) -> Result<Self, ParamsError> {
        let shape = shape_of(arrays, &options)?;
        let ParamsOptions { base, exist, persistent, .. } = options;
        let (store, _) = ParamsStore::create(&base, name, &shape, exist, persistent, None)?;
        Ok(Self::of(Arc::new(store)))
    }

    /// Creates parameters that begin with a version: `bytes` has those of every array, in order.
    ///
    /// The version is there before the name, so no process finds the parameters without it. A name
    /// that is taken is refused, or replaced if `options` say so.
    pub fn restore(
        name: &str,
        arrays: Vec<ParamsArray>,
        options: ParamsOptions,
        version: u64,
        bytes: &[&[u8]],
    ) -> Result<Self, ParamsError> {
        let shape = shape_of(arrays, &options)?;
        check_bytes(&shape, bytes.iter().map(|bytes| bytes.len()))?;
        if !(1..=MAX_VERSION).contains(&version) {
            return Err(ParamsError::OldVersion { version, newest: 0, limit: MAX_VERSION });
        }
        let ParamsOptions { base, exist, persistent, .. } = options;
        let exist = if exist == Exist::Replace { exist } else { Exist::Error };
        let first = Some(FirstVersion { version, arrays: bytes });
        let (store, _) = ParamsStore::create(&base, name, &shape, exist, persistent, first)?;
        Ok(Self::of(Arc::new(store)))
    }

    /// Creates parameters in private memory, without a name.
    pub fn heap(arrays: Vec<ParamsArray>, options: &ParamsOptions) -> Result<Self, ParamsError> {
        let shape = shape_of(arrays, options)?;
        Ok(Self::of(Arc::new(ParamsStore::heap(&shape)?)))
    }

    /// Attaches to the parameters named `name` in the standard base directory.
    pub fn attach(name: &str) -> Result<Self, ParamsError> {
        Self::attach_in(&Base::standard(), name)
    }

    /// Attaches to the parameters of that name in another base directory.
    pub fn attach_in(base: &Base, name: &str) -> Result<Self, ParamsError> {
        Ok(Self::of(Arc::new(ParamsStore::attach(base, name)?)))
    }

    /// Attaches without keeping the parameters alive, for supervisors.
    pub fn observe(base: &Base, name: &str) -> Result<Self, ParamsError> {
        Ok(Self::of(Arc::new(ParamsStore::observe(base, name)?)))
    }

    fn of(store: Arc<ParamsStore>) -> Self {
        Self { publisher: None, pins: None, store, pulled: 0, interrupt: Interrupt::never() }
    }

    /// Sets what ends the waits of this handle and of those made from it by
    /// [`another`](Self::another).
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Returns another handle on the same parameters, which has pulled nothing.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::of(Arc::clone(&self.store)).interrupted_by(self.interrupt.clone())
    }

    /// Returns the arrays: names, element types and shapes, in order.
    #[must_use]
    pub fn shape(&self) -> &ParamsShape {
        self.store.shape()
    }

    /// Returns the name; `None` in private memory.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.store.name()
    }

    /// Returns the directory; `None` in private memory.
    #[must_use]
    pub fn path(&self) -> Option<&std::path::Path> {
        self.store.path()
    }

    /// Returns the newest version; 0 before the first one. One relaxed load.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.store.newest()
    }

    /// Returns the newest version that this handle has pulled, or copied by
    /// [`read_bytes`](Self::read_bytes); 0 before the first one.
    #[must_use]
    pub fn pulled(&self) -> u64 {
        self.pulled
    }

    /// Returns the versions that can be read, oldest first. O(slots).
    #[must_use]
    pub fn versions(&self) -> Vec<u64> {
        self.store.versions()
    }

    /// Returns arrays of zeros of these shapes, in private memory.
    #[must_use]
    pub fn arrays(&self) -> ParamsArrays {
        ParamsArrays::zeroed(Arc::new(self.store.shape().clone()))
    }

    /// Publishes arrays as a version, by default the one after the newest. Returns the version.
    ///
    /// The first call makes this handle the publisher, until it is dropped. Makes one copy, and
    /// never waits for a reader. Later calls make no system call unless a process waits, or no slot
    /// is free.
    ///
    /// Fails if the arrays differ from those of the parameters, another handle is the publisher,
    /// the version is not above the newest, or views hold all spare slots.
    pub fn publish(
        &mut self,
        arrays: &ParamsArrays,
        version: Option<u64>,
    ) -> Result<u64, ParamsError> {
        self.check_arrays(arrays)?;
        self.publish_bytes(&arrays.all_bytes(), version)
    }

    /// Publishes the bytes of every array, in the order of [`shape`](Self::shape), as
    /// [`publish`](Self::publish) does. Only their number and lengths are checked.
    pub fn publish_bytes(
        &mut self,
        arrays: &[&[u8]],
        version: Option<u64>,
    ) -> Result<u64, ParamsError> {
        check_bytes(self.shape(), arrays.iter().map(|bytes| bytes.len()))?;
        let mut publisher = match self.publisher.take() {
            Some(publisher) => publisher,
            None => self.become_publisher()?,
        };
        let outcome = publish_with(&mut publisher, &self.store, arrays, version);
        self.publisher = Some(publisher);
        outcome
    }

    /// Becomes the publisher without publishing. Returns the newest version.
    ///
    /// Fails if another handle is the publisher.
    pub fn claim(&mut self) -> Result<u64, ParamsError> {
        if self.publisher.is_none() {
            self.publisher = Some(self.become_publisher()?);
        }
        Ok(self.version())
    }

    /// Returns whether this handle is the publisher.
    #[must_use]
    pub fn is_publisher(&self) -> bool {
        self.publisher.is_some()
    }

    fn become_publisher(&self) -> Result<ParamsPublisher, ParamsError> {
        match self.store.claim_publisher()? {
            Some(publisher) => Ok(publisher?),
            None => Err(ParamsError::OtherPublisher {
                name: self.called(),
                pids: self.store.publisher_pids(),
            }),
        }
    }

    fn called(&self) -> String {
        self.name().map_or_else(|| "the private parameters".to_owned(), |name| format!("`{name}`"))
    }

    /// Copies the newest version if it is above the one that [`pulled`](Self::pulled) returns.
    /// Returns the version, or `None` if there is nothing new, which costs one relaxed load and a
    /// compare.
    ///
    /// The copy is whole and never older than one before. If an error is returned, `out` may hold
    /// parts of versions.
    pub fn pull(&mut self, out: &mut ParamsArrays) -> Result<Option<u64>, ParamsError> {
        if self.version() <= self.pulled {
            return Ok(None);
        }
        self.check_arrays(out)?;
        self.pull_bytes(&mut out.all_bytes_mut())
    }

    /// Copies into the bytes of every array, in order, as [`pull`](Self::pull) does.
    pub fn pull_bytes(&mut self, out: &mut [&mut [u8]]) -> Result<Option<u64>, ParamsError> {
        let copied = self.copy_newer(self.pulled, out)?;
        self.pulled = copied.unwrap_or(self.pulled);
        Ok(copied)
    }

    /// Copies the newest version into the bytes of every array, whether it is new to this handle or
    /// not. Returns the version.
    pub fn read_bytes(&mut self, out: &mut [&mut [u8]]) -> Result<u64, ParamsError> {
        let version = self.copy_newer(0, out)?;
        let version = version.ok_or_else(|| ParamsError::Nothing { name: self.called() })?;
        self.pulled = self.pulled.max(version);
        Ok(version)
    }

    /// Copies a version, which need not be the newest. Fails if it cannot be read any more.
    pub fn read_version(&self, version: u64, out: &mut ParamsArrays) -> Result<(), ParamsError> {
        self.check_arrays(out)?;
        self.read_version_bytes(version, &mut out.all_bytes_mut())
    }

    /// Copies a version into the bytes of every array, as [`read_version`](Self::read_version)
    /// does.
    pub fn read_version_bytes(
        &self,
        version: u64,
        out: &mut [&mut [u8]],
    ) -> Result<(), ParamsError> {
        check_bytes(self.shape(), out.iter().map(|bytes| bytes.len()))?;
        let missing = || ParamsError::NoVersion { version, readable: self.versions() };
        let place = self.store.find(version).ok_or_else(missing)?;
        if self.copy(place, out, &mut || ()) { Ok(()) } else { Err(missing()) }
    }

    /// Refuses arrays whose names, element types or shapes differ from those of the parameters.
    fn check_arrays(&self, given: &ParamsArrays) -> Result<(), ParamsError> {
        let (ours, theirs) = (self.shape(), given.shape());
        let mut places = 0..ours.arrays().len().max(theirs.arrays().len());
        let differs = |at: &usize| match (ours.arrays().get(*at), theirs.arrays().get(*at)) {
            (Some(ours), Some(theirs)) => !ours.is_like(theirs),
            _ => true,
        };
        let Some(at) = places.find(differs) else { return Ok(()) };
        let describe = |shape: &ParamsShape| match shape.arrays().get(at) {
            None => "no array".to_owned(),
            Some(array) => {
                format!("`{}` ({}{:?})", array.name(), array.dtype(), array.shape())
            }
        };
        let (given, params) = (describe(theirs), describe(ours));
        Err(ParamsError::OtherArrays { at, given, params })
    }

    fn copy_newer(&self, last: u64, out: &mut [&mut [u8]]) -> Result<Option<u64>, ParamsError> {
        self.copy_newer_with(last, out, || ())
    }

    /// Copies the newest version. Calls `copied` after each copy, before it is validated.
    fn copy_newer_with(
        &self,
        last: u64,
        out: &mut [&mut [u8]],
        mut copied: impl FnMut(),
    ) -> Result<Option<u64>, ParamsError> {
        if self.store.newer(last)?.is_none() {
            return Ok(None);
        }
        check_bytes(self.shape(), out.iter().map(|bytes| bytes.len()))?;
        let mut version = 0;
        for attempt in 0..ATTEMPTS {
            let Some(place) = self.store.newer(last)? else { return Ok(None) };
            version = place.version;
            if self.copy(place, out, &mut copied) {
                self.store.count_pulls(1, attempt.into());
                return Ok(Some(version));
            }
        }
        self.store.count_pulls(0, u64::from(ATTEMPTS) - 1);
        Err(ParamsError::Overtaken { version, attempts: ATTEMPTS })
    }

    /// Copies a version, and calls `copied`. Returns whether the copy is whole.
    fn copy(&self, place: VersionPlace, out: &mut [&mut [u8]], copied: &mut impl FnMut()) -> bool {
        let fits = out.iter_mut().enumerate().all(|(at, out)| self.store.copy(place, at, out));
        copied();
        self.store.is_whole(place) && fits
    }

    /// Removes the name; every handle keeps its memory.
    pub fn unlink(&self) -> Result<(), ParamsError> {
        Ok(self.store.unlink()?)
    }

    /// Returns whether the parameters were removed or replaced. Makes one system call, or three if
    /// they are marked as unlinked.
    #[must_use]
    pub fn is_unlinked(&self) -> bool {
        self.store.is_unlinked()
    }
}

fn shape_of(arrays: Vec<ParamsArray>, options: &ParamsOptions) -> Result<ParamsShape, ParamsError> {
    let ParamsOptions { versions_kept, spare_slots, reader_slots, .. } = *options;
    Ok(ParamsShape::new(arrays, versions_kept, spare_slots, reader_slots)?)
}

fn check_bytes(
    shape: &ParamsShape,
    given: impl ExactSizeIterator<Item = usize>,
) -> Result<(), ParamsError> {
    let arrays = shape.arrays();
    if given.len() != arrays.len() {
        return Err(ParamsError::ArrayCount { given: given.len(), arrays: arrays.len() });
    }
    for (array, given) in arrays.iter().zip(given) {
        if array.bytes() != given {
            let (array, bytes) = (array.name().to_owned(), array.bytes());
            return Err(ParamsError::ArrayBytes { array, bytes, given });
        }
    }
    Ok(())
}

fn publish_with(
    publisher: &mut ParamsPublisher,
    store: &ParamsStore,
    arrays: &[&[u8]],
    version: Option<u64>,
) -> Result<u64, ParamsError> {
    let newest = publisher.newest();
    let version = version.unwrap_or(newest + 1);
    let place = publisher.reserve(version).map_err(|why| match why {
        Unpublishable::Version => ParamsError::OldVersion { version, newest, limit: MAX_VERSION },
        Unpublishable::Pinned(slots) => ParamsError::AllPinned {
            version,
            pids: store.pinning_pids(&slots),
            spare: store.shape().spare_slots(),
        },
    })?;
    for (at, bytes) in arrays.iter().enumerate() {
        // The lengths were checked, so every array is written.
        let written = publisher.write(place, at, bytes);
        debug_assert!(written, "array {at} does not fit its place");
    }
    publisher.publish(place);
    Ok(version)
}

#[cfg(test)]
mod tests;
