"""The embedded engine: a real scheduler, forward passes timed by a cost model. A model, and says so."""
