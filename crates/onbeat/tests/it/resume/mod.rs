//! Runs that were killed and go on. Apart from the other tests that only compute: a resumed file is
//! locked, and a program that another test of this process starts would hold the lock for a moment.

mod record_resume;
mod record_whole_blocks;
