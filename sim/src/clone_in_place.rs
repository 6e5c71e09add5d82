//! Clones into memory that is there already.

/// Implements `Clone` for a struct by its fields, each of which is cloned into its own memory by
/// `clone_from`. `#[derive(Clone)]` would allocate there. A list that lacks a field does not
/// compile.
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
