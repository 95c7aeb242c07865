"""Files as such: read up to a limit, written whole or not at all, and JSON text that is one."""
