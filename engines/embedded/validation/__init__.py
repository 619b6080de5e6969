"""Tables of published figures: fitted in part, the rest predicted by the engine's own cost functions."""
