//! Reader slots: which process may change the pins of a slot, and how those of dead readers are
//! cleared.
//!
//! A slot has a lock that the kernel drops when its holder dies, however it dies. Only the holder
//! of the lock changes the pins. That is the reader that owns the slot. For a moment it may be a
//! process that clears the pins of a dead reader ([`reap`]), such as a writer that one of these
//! pins stops. That is the whole protocol. The models show the failure of changing a pin after only
//! *testing* the lock.

/// Reader slots of a ring.
pub trait ReaderSlots {
    /// Lock of a slot, held until it is dropped or its process dies.
    type Claim;
    /// Error of taking a lock.
    type Error;

    /// Returns whether the lock is held. A hint: the lock may change hands right after.
    fn is_held(&self, slot: u32) -> bool;
    /// Takes the lock unless it is held.
    fn try_claim(&self, slot: u32) -> Result<Option<Self::Claim>, Self::Error>;
    /// Clears the pins of the slot on every lane, each as [`thaw`](super::thaw) does.
    fn clear_pins(&self, slot: u32);
}

/// Claims a slot and clears the pins of its last holder. Returns `None` if the slot is held.
pub fn claim<S: ReaderSlots>(slots: &S, slot: u32) -> Result<Option<S::Claim>, S::Error> {
    // This check is cheap and opens no file.
    if slots.is_held(slot) {
        return Ok(None);
    }
    let claim = slots.try_claim(slot)?;
    if claim.is_some() {
        slots.clear_pins(slot);
    }
    Ok(claim)
}

/// Clears the pins of a slot whose holder has died. Returns `true` if the slot had no holder.
///
/// Claiming the slot needs the same lock, so only the pins of a dead holder are cleared. If this
/// process dies in between, the next one clears the rest.
pub fn reap<S: ReaderSlots>(slots: &S, slot: u32) -> Result<bool, S::Error> {
    // The lock is released after the pins are cleared.
    Ok(claim(slots, slot)?.is_some())
}
