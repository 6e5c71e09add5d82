//! Versions of the storm of parameters. Every word follows from the version and its publisher's
//! life, so that a reader can tell a whole version from a torn one.

use backcast_core::{DType, ParamsArray, ParamsArrays, ParamsError};

use crate::storm::mix;

/// Words of the storm's large array: many, so that a random moment is often in the middle of a
/// copy.
pub const WORDS: usize = 16_384;

/// Returns the arrays: version and life, words that follow from them, and their checksum.
pub fn like(words: usize) -> Result<Vec<ParamsArray>, ParamsError> {
    Ok(vec![
        ParamsArray::new("head", DType::U64, &[2])?,
        ParamsArray::new("body/words", DType::U64, &[words as u64])?,
        ParamsArray::new("body/check", DType::U64, &[])?,
    ])
}

/// Fills the arrays of a version.
pub fn fill(arrays: &mut ParamsArrays, version: u64, life: u64) -> Result<(), ParamsError> {
    arrays.array_mut::<u64>("head")?.copy_from_slice(&[version, life]);
    let first = mix(version ^ mix(life));
    for (word, k) in arrays.array_mut::<u64>("body/words")?.iter_mut().zip(0..) {
        *word = first.wrapping_add(k);
    }
    arrays.array_mut::<u64>("body/check")?.fill(mix(first));
    Ok(())
}

/// Returns whether the words and their checksum all belong to `version`.
#[must_use]
pub fn is_whole(head: &[u64], words: &[u64], check: &[u64], version: u64) -> bool {
    let [found, life] = *head else { return false };
    let first = mix(version ^ mix(life));
    let mut numbered = words.iter().zip(0..);
    found == version
        && !words.is_empty()
        && numbered.all(|(word, k)| *word == first.wrapping_add(k))
        && check == [mix(first)]
}

/// Returns whether the arrays are a version.
pub fn are_whole(arrays: &ParamsArrays, version: u64) -> Result<bool, ParamsError> {
    let words = arrays.array::<u64>("body/words")?;
    Ok(is_whole(arrays.array("head")?, words, arrays.array("body/check")?, version))
}
