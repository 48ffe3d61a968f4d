//! Against the stand-in.
