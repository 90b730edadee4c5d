//! The screens: each a table, and what one of its rows opens, as pure functions of the history.
