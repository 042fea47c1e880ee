"""The analyzer protocol, stage detection, and statistics over replicas."""
