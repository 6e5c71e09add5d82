//! Reader slots: who may change a slot's pins, and how those of the dead are taken away.
//!
//! A slot has a lock that the kernel drops when its holder dies, however it dies. Its pins are
//! changed by whoever holds the lock and by nobody else: by the reader whose slot it is, or for a
//! moment by a writer that met a pin whose holder is gone ([`reap`]). That is the whole protocol; the
//! models show what becomes of those who only *look* at the lock before they change a pin.

/// The slots of a ring's readers.
pub trait Slots {
    /// Holds a slot's lock until it is dropped, or its process dies.
    type Claim;
    /// Why a lock could not be asked for.
    type Error;

    /// Whether somebody holds the lock: a hint, old as soon as it is given.
    fn is_held(&self, slot: u32) -> bool;
    /// Takes the lock unless somebody holds it.
    fn try_claim(&self, slot: u32) -> Result<Option<Self::Claim>, Self::Error>;
    /// Takes away the slot's pins on every lane, each as [`thaw`](super::thaw) does.
    fn clear_pins(&self, slot: u32);
}

/// Makes a slot the caller's, without the pins of whoever had it before. `None`: somebody has it.
pub fn claim<S: Slots>(slots: &S, slot: u32) -> Result<Option<S::Claim>, S::Error> {
    // Looking first is cheap and opens no file.
    if slots.is_held(slot) {
        return Ok(None);
    }
    let claim = slots.try_claim(slot)?;
    if claim.is_some() {
        slots.clear_pins(slot);
    }
    Ok(claim)
}

/// Takes away the pins of a slot whose holder has died. `true`: there was nobody to ask.
///
/// Whoever claims the slot needs the same lock, so nobody's pins are taken but the dead one's; a
/// reaper that dies half-way leaves the rest to the next one.
pub fn reap<S: Slots>(slots: &S, slot: u32) -> Result<bool, S::Error> {
    // The lock is let go of after the pins are gone.
    Ok(claim(slots, slot)?.is_some())
}
