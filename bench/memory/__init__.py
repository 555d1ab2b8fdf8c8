"""What statements of many rows take of memory: `make memory`."""
