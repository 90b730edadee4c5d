//! The programs of an object: each hook as `tp_btf`, and as `raw_tp` where a kernel needs that. The object says in
//! `handle` what a hook does.

macro_rules! define_programs {
    (
        hooks { $($variant:ident $tracepoint:literal $typed:ident $($raw:ident)?;)* }
        vectors { $($vector:ident $name:literal $typed_in:ident $typed_out:ident;)* }
    ) => {
        $($crate::programs::define_program! {
            "tp_btf/", $tracepoint, $typed, Hook::$variant, Typed
        }
        $($crate::programs::define_program! {
            "raw_tp/", $tracepoint, $raw, Hook::$variant, Raw
        })?)*
        $($crate::programs::define_program! {
            "tp_btf/", concat!($name, "_entry"), $typed_in, Hook::Vector(Vector::$vector, Edge::Entry), Typed
        }
        $crate::programs::define_program! {
            "tp_btf/", concat!($name, "_exit"), $typed_out, Hook::Vector(Vector::$vector, Edge::Exit), Typed
        })*
    };
}
pub(crate) use define_programs;

macro_rules! define_program {
    ($type:literal, $tracepoint:expr, $name:ident, $hook:expr, $access:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(link_section = concat!($type, $tracepoint))]
        extern "C" fn $name(context: *mut c_void) -> i32 {
            let _ = handle($hook, $access(context));
            0
        }
    };
}
pub(crate) use define_program;
