"""Commands on files and on this installation."""
