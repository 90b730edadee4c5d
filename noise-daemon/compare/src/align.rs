//! Multiple sequence alignment: paths of executions side by side, column by column.
