"""What must survive crashes, full disks and slow stores, with real processes."""
