"""Scripts that fit profile constants to measured tables; nothing at run time imports them."""
