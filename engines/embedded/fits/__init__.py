"""Development-only scripts that fit profile constants to measured tables; nothing at run time imports them."""
