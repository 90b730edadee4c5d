//! The programs of an object: each hook in two forms, `tp_btf` and `raw_tp`. The object says in
//! `handle` what a hook does.

macro_rules! define_programs {
    ($($variant:ident $tracepoint:literal $typed:ident $raw:ident $first:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[unsafe(link_section = concat!("tp_btf/", $tracepoint))]
            extern "C" fn $typed(context: *mut c_void) -> i32 {
                let _ = handle(Hook::$variant, Typed(context));
                0
            }

            #[unsafe(no_mangle)]
            #[unsafe(link_section = concat!("raw_tp/", $tracepoint))]
            extern "C" fn $raw(context: *mut c_void) -> i32 {
                let _ = handle(Hook::$variant, Raw(context));
                0
            }
        )*
    };
}
pub(crate) use define_programs;
