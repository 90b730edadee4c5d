//! The programs of an object: each hook in two forms, `tp_btf` and `raw_tp`. The object says in
//! `handle` what a hook does.

macro_rules! define_programs {
    (
        hooks { $($variant:ident $tracepoint:literal $typed:ident $raw:ident;)* }
        vectors {
            $($vector:ident $name:literal
              $typed_in:ident $raw_in:ident $typed_out:ident $raw_out:ident;)*
        }
    ) => {
        $($crate::programs::define_program! { Hook::$variant, $tracepoint, $typed, $raw })*
        $($crate::programs::define_program! {
            Hook::Vector(Vector::$vector, Edge::Entry), concat!($name, "_entry"), $typed_in, $raw_in
        }
        $crate::programs::define_program! {
            Hook::Vector(Vector::$vector, Edge::Exit), concat!($name, "_exit"), $typed_out, $raw_out
        })*
    };
}
pub(crate) use define_programs;

macro_rules! define_program {
    ($hook:expr, $tracepoint:expr, $typed:ident, $raw:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(link_section = concat!("tp_btf/", $tracepoint))]
        extern "C" fn $typed(context: *mut c_void) -> i32 {
            let _ = handle($hook, Typed(context));
            0
        }

        #[unsafe(no_mangle)]
        #[unsafe(link_section = concat!("raw_tp/", $tracepoint))]
        extern "C" fn $raw(context: *mut c_void) -> i32 {
            let _ = handle($hook, Raw(context));
            0
        }
    };
}
pub(crate) use define_program;
