//! Enumerations whose variants have names.

/// Defines an enumeration with its `name()`, and after `all` a constant of all variants in order of their discriminants.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $type:ident all $all:ident {
        $($(#[$of:meta])* $variant:ident = $name:literal,)*
    }) => {
        $crate::named! { $(#[$meta])* pub enum $type { $($(#[$of])* $variant = $name,)* } }

        pub const $all: [$type; [$($name),*].len()] = [$($type::$variant),*];
    };
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$of])* $variant,)*
        }

        impl $type {
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}
