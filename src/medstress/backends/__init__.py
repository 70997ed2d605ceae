"""Back ends: each answers calls, blocking, and translates its library's errors."""
