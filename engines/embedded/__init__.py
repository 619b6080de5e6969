"""The embedded engine: a real scheduler whose forward passes take their time from a cost model. A model, and says so."""
