//! Arrays of parameters in private memory.

use std::sync::Arc;

use backcast_layout::{ParamsArray, ParamsShape};

use crate::element::Element;
use crate::error::ParamsError;

/// Arrays of parameters in private memory, to be filled and published, or pulled.
#[derive(Clone, Debug)]
pub struct ParamsArrays {
    shape: Arc<ParamsShape>,
    /// Words, so that elements are aligned; an array begins on a word of its own.
    words: Vec<Vec<u64>>,
}

impl ParamsArrays {
    /// Allocates arrays of zeros.
    pub(super) fn zeroed(shape: Arc<ParamsShape>) -> Self {
        let words = shape.arrays().iter().map(|array| vec![0; array.bytes().div_ceil(8)]).collect();
        Self { shape, words }
    }

    /// Returns the names, element types and shapes, in order.
    #[must_use]
    pub fn shape(&self) -> &ParamsShape {
        &self.shape
    }

    /// Returns an array, in C order. Fails if no array of that name has this element type.
    pub fn array<T: Element>(&self, name: &str) -> Result<&[T], ParamsError> {
        let at = self.position::<T>(name)?;
        bytemuck::checked::try_cast_slice(self.bytes(at)).map_err(|_| self.unknown::<T>(name))
    }

    /// Returns an array for writing, in C order. Fails if no array of that name has this element
    /// type.
    pub fn array_mut<T: Element + bytemuck::AnyBitPattern>(
        &mut self,
        name: &str,
    ) -> Result<&mut [T], ParamsError> {
        let at = self.position::<T>(name)?;
        let unknown = self.unknown::<T>(name);
        let len = self.shape.arrays().get(at).map_or(0, ParamsArray::bytes);
        let words = self.words.get_mut(at).map(Vec::as_mut_slice).unwrap_or_default();
        let bytes = bytemuck::cast_slice_mut::<u64, u8>(words).get_mut(..len);
        bytes.and_then(|bytes| bytemuck::try_cast_slice_mut(bytes).ok()).ok_or(unknown)
    }

    fn position<T: Element>(&self, name: &str) -> Result<usize, ParamsError> {
        let is_it = |array: &ParamsArray| array.name() == name && array.dtype() == T::DTYPE;
        self.shape.arrays().iter().position(is_it).ok_or_else(|| self.unknown::<T>(name))
    }

    fn unknown<T: Element>(&self, name: &str) -> ParamsError {
        let known = |array: &ParamsArray| format!("`{}` of {}", array.name(), array.dtype());
        ParamsError::NoArray {
            array: name.to_owned(),
            dtype: T::DTYPE.code(),
            known: self.shape.arrays().iter().map(known).collect(),
        }
    }

    fn bytes(&self, at: usize) -> &[u8] {
        let len = self.shape.arrays().get(at).map_or(0, ParamsArray::bytes);
        let words = self.words.get(at).map(Vec::as_slice).unwrap_or_default();
        bytemuck::cast_slice::<u64, u8>(words).get(..len).unwrap_or_default()
    }

    /// Returns the bytes of every array, in order.
    pub(super) fn all_bytes(&self) -> Vec<&[u8]> {
        (0..self.words.len()).map(|at| self.bytes(at)).collect()
    }

    /// Returns the bytes of every array for writing, in order.
    pub(super) fn all_bytes_mut(&mut self) -> Vec<&mut [u8]> {
        let lengths = self.shape.arrays().iter().map(ParamsArray::bytes);
        let pairs = self.words.iter_mut().zip(lengths);
        pairs
            .filter_map(|(words, len)| {
                bytemuck::cast_slice_mut(words.as_mut_slice()).get_mut(..len)
            })
            .collect()
    }
}
