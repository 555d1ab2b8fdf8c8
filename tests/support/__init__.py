"""What tests of several storeys share: real servers to test against, and our own as a real process."""
