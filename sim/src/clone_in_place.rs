//! Cloning into memory that is already allocated.

/// Implements `Clone` for a struct whose `clone_from` calls `clone_from` of every field, which
/// reuses the field's memory. The `clone_from` of `#[derive(Clone)]` would allocate. A list that
/// lacks a field does not compile.
macro_rules! clone_in_place {
    ($(#[$doc:meta])* $name:ident { $($field:ident),+ $(,)? }) => {
        impl Clone for $name {
            fn clone(&self) -> Self {
                Self { $($field: Clone::clone(&self.$field)),+ }
            }

            $(#[$doc])*
            fn clone_from(&mut self, source: &Self) {
                let Self { $($field),+ } = source;
                $(Clone::clone_from(&mut self.$field, $field);)+
            }
        }
    };
}
pub(crate) use clone_in_place;
