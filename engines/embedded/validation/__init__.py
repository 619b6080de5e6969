"""Published and measured tables, fitted in part and predicted in the rest by the engine's own cost functions."""
